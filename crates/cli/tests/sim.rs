//! `nandu sim`: one run, sweeps, and what it says to wrong words and hostile traces.

mod common;

use common::{failure_of, interrupt, names, run, start, stderr, stdout_of};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A small drive that is simulated in a moment.
const SMALL: [&str; 6] =
    ["sim", "myers_slc", "--physical-erase-blocks", "128", "--logical-pages", "6144"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
}

fn json_of(directory: &Path, more: &[&str]) -> Value {
    let mut arguments = with(more);
    arguments.push("--json");
    serde_json::from_str(&stdout_of(directory, &arguments)).expect("a report is JSON")
}

#[test]
fn the_report_has_every_figure_and_repeats_with_its_seed() {
    let directory = tempfile::tempdir().unwrap();
    let more = ["--workload", "uniform:read=30", "--requests", "20000", "--seed", "7"];
    let mut first = json_of(directory.path(), &more);
    for path in [
        "/host_write_pages",
        "/host_read_pages",
        "/nand/program/host",
        "/nand/program/cleaning",
        "/nand/erase/cleaning",
        "/nand/read/host",
        "/write_amplification",
        "/latency_ns/write/mean",
        "/latency_ns/write/stddev",
        "/latency_ns/read/p50",
        "/latency_ns/read/p99",
        "/latency_ns/write/p999",
        "/latency_ns/write/max",
        "/erase_count/min",
        "/erase_count/mean",
        "/erase_count/max",
        "/erase_count/stddev",
        "/lifetime/drive_writes_per_day",
        "/energy/joules",
        "/map_bytes",
        "/simulated_ns",
        "/wall_ns",
        "/seed",
        "/config/job/drive/name",
        "/skipped_lines",
    ] {
        assert!(first.pointer(path).is_some(), "{path} is missing: {first}");
    }
    let pages =
        first["host_write_pages"].as_u64().unwrap() + first["host_read_pages"].as_u64().unwrap();
    assert_eq!(pages, 20_000);
    let mut second = json_of(directory.path(), &more);
    for report in [&mut first, &mut second] {
        report.as_object_mut().unwrap().remove("wall_ns");
    }
    assert_eq!(first, second);
    assert!(names(directory.path()).is_empty(), "a run leaves nothing behind");
}

#[test]
fn the_table_fits_the_terminal_and_tells_the_theory() {
    let directory = tempfile::tempdir().unwrap();
    let text =
        stdout_of(directory.path(), &with(&["--workload", "uniform", "--requests", "20000"]));
    assert!(text.contains("write amplification") && text.contains("closed form"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn both_modes_count_the_same_commands() {
    let directory = tempfile::tempdir().unwrap();
    let more = ["--workload", "uniform:read=50", "--requests", "5000", "--check"];
    let closed = json_of(directory.path(), &more);
    let mut event = more.to_vec();
    event.extend(["--mode", "event", "--queue-depth", "8", "--read-priority", "--suspend"]);
    let event = json_of(directory.path(), &event);
    assert_eq!(closed["nand"], event["nand"]);
    assert!(closed["checks"]["compared_units"].as_u64() > Some(2000));
}

#[test]
fn settings_reach_the_profile_and_wrong_ones_name_what_was_meant() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let uniform = ["--workload", "uniform", "--requests", "1000"];
    let set = |setting: &'static str| [&["--set", setting][..], &uniform[..]].concat();
    let report = json_of(path, &set("chip_overrides.program_ns=300000"));
    assert_eq!(report["latency_ns"]["write"]["min"], 300_000);
    for (more, meant) in [
        (set("ssd.chanel_count=2"), "did you mean `channel_count`"),
        (set("ftl.victim=gredy"), "did you mean `greedy`"),
        ([&["--victim", "gredy"][..], &uniform[..]].concat(), "did you mean `greedy`"),
        ([&["--ftl", "pages"][..], &uniform[..]].concat(), "did you mean `page`"),
        (vec!["--workload", "unifrom"], "uniform"),
        (vec!["--sweep", "quue-depth=1,2", "--workload", "uniform"], "did you mean `queue_depth`"),
        (vec!["--workload", "uniform", "--suspend"], "--read-priority"),
        (vec![], "--trace"),
    ] {
        let said = failure_of(path, &with(&more), 2);
        assert!(said.contains(meant), "{more:?}: {said}");
    }
    let said = failure_of(path, &["sim", "myers_slk", "--workload", "uniform"], 2);
    assert!(said.contains("did you mean `myers_slc`"), "{said}");
    let said = failure_of(path, &["sim", "wd2000jb", "--workload", "uniform"], 2);
    assert!(said.contains("no flash"), "{said}");
    let full = [&SMALL[..4], &["--workload", "uniform", "--logical-pages", "9000"]].concat();
    let said = failure_of(path, &full, 2);
    assert!(said.contains("need 145 good erase blocks") && said.contains("128 are good"), "{said}");
}

#[test]
fn bad_erase_blocks_take_from_the_capacity_and_never_from_the_spare_space() {
    let directory = tempfile::tempdir().unwrap();
    let report = |setting: &str| -> Value {
        let more = ["--physical-erase-blocks", "600", "--workload", "uniform", "--initial"];
        let more = [&more[..], &["steady", "--requests", "200000", "--set", setting]].concat();
        let arguments = [&["sim", "myers_slc"], &more[..], &["--json"]].concat();
        serde_json::from_str(&stdout_of(directory.path(), &arguments)).unwrap()
    };
    let sound = report("chip_overrides.factory_bad_ppm=0");
    let bad = report("chip_overrides.factory_bad_ppm=200000");
    let figure = |report: &Value, path: &str| report.pointer(path).unwrap().as_f64().unwrap();
    let ratio = |path| figure(&bad, path) / figure(&sound, path);
    assert!((0.7..0.9).contains(&ratio("/config/logical_pages")), "{bad}");
    assert!((0.97..1.03).contains(&ratio("/write_amplification")), "{bad}");
    assert!(figure(&bad, "/closed_form/deviation").abs() < 0.015, "{bad}");
    assert!(figure(&bad, "/erase_count/min") > 0.0, "those that came bad are not counted");
}

const FIO: &str = "fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n100 /dev/x write 0 4096\n\
                   250 /dev/x read 4096 2048\n900 /dev/x write 2048 2048\n1000 /dev/x close\n";

#[test]
fn a_trace_is_recognised_and_replayed_at_its_times() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("x.log"), FIO).unwrap();
    let report = json_of(path, &["--trace", "x.log"]);
    assert_eq!(report["request_count"], 3);
    assert_eq!(report["host_write_pages"], 3);
    assert!(report["source"].as_str().unwrap().contains("fio"), "{report}");
    let text = stdout_of(path, &with(&["--trace", "x.log", "--dry-run"]));
    let rows: Vec<&str> = text.lines().filter(|line| line.contains("write")).collect();
    assert_eq!(rows.len(), 2, "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
}

#[test]
fn a_recorded_workload_replays_to_the_same_figures() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let workload = ["--workload", "uniform:read=20,rate=3000", "--requests", "3000"];
    let rest = ["--warm-up", "0", "--initial", "sequential", "--record", "x.trace"];
    let recorded = json_of(path, &[&workload[..], &rest[..]].concat());
    let replayed = json_of(path, &["--trace", "x.trace"]);
    for field in ["nand", "latency_ns", "erase_count", "simulated_ns", "requests"] {
        assert_eq!(recorded[field], replayed[field], "{field}");
    }
}

#[test]
fn hostile_traces_end_with_their_line_or_are_counted() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let head = "fio version 3 iolog\n4 /dev/x write 2048 2048\n";
    let good = "5 /dev/x write 0 2048\n";
    for (name, text, words) in [
        ("truncated", format!("{head}{good}9 /dev/x wri"), ":4: "),
        ("past-the-end", format!("{head}{good}9 /dev/x write 99999999999 2048\n"), ":4: "),
        ("negative", format!("{head}{good}-9 /dev/x write 0 2048\n{good}"), ":4: "),
        ("overflow", format!("{head}{good}9 /dev/x write 18446744073709551615 2048\n"), ":4: "),
    ] {
        fs::write(path.join(name), text).unwrap();
        let said = failure_of(path, &with(&["--trace", name]), 2);
        assert!(said.contains(name) && said.contains(words), "{name}: {said}");
        let report = json_of(path, &["--trace", name, "--skip-bad"]);
        assert_eq!(report["skipped_lines"], 1, "{name}: {report}");
        assert!(report["first_skipped"].as_str().unwrap().contains(":4"), "{name}: {report}");
    }
    fs::write(path.join("empty"), "").unwrap();
    fs::write(path.join("nonsense"), [0_u8, 159, 146, 150, 10, 255, 10]).unwrap();
    for name in ["empty", "nonsense"] {
        let said = failure_of(path, &with(&["--trace", name]), 2);
        assert!(said.contains(name), "{said}");
    }
    let said = failure_of(path, &with(&["--trace", "nowhere.csv"]), 3);
    assert!(said.contains("nowhere.csv"), "{said}");
}

#[test]
fn a_gzip_that_ends_early_is_an_error_and_never_a_shorter_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let arguments =
        with(&["--workload", "uniform:rate=100", "--requests", "500", "--record", "x.trace"]);
    stdout_of(path, &arguments);
    let whole = fs::read(path.join("x.trace")).unwrap();
    fs::write(path.join("cut.trace"), &whole[..whole.len() / 2]).unwrap();
    let said = failure_of(path, &with(&["--trace", "cut.trace"]), 2);
    assert!(said.contains("cut.trace"), "{said}");
    // A member that promises more than the file holds.
    fs::write(path.join("cut.gz"), [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 75, 203]).unwrap();
    let said = failure_of(path, &with(&["--trace", "cut.gz"]), 2);
    assert!(said.contains("cut.gz") && said.contains("ends early"), "{said}");
}

#[test]
fn a_sweep_has_a_row_for_each_combination_in_order() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let arguments = with(&[
        "--workload",
        "uniform",
        "--requests",
        "2000",
        "--warm-up",
        "1",
        "--sweep",
        "victim=greedy,fifo",
        "--sweep",
        "seed=1,2,3",
        "--parquet",
        "grid.parquet",
        "--json",
        "grid.json",
    ]);
    let text = stdout_of(path, &arguments);
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("6 of 6 rows"), "{text}");
    let reports: Value =
        serde_json::from_str(&fs::read_to_string(path.join("grid.json")).unwrap()).unwrap();
    let order: Vec<(String, u64)> = reports
        .as_array()
        .unwrap()
        .iter()
        .map(|report| {
            let victim = &report["config"]["job"]["drive"]["victim"];
            (victim.as_str().unwrap().into(), report["seed"].as_u64().unwrap())
        })
        .collect();
    let expected: Vec<(String, u64)> = ["greedy", "fifo"]
        .iter()
        .flat_map(|victim| (1..=3).map(|seed| (victim.to_string(), seed)))
        .collect();
    assert_eq!(order, expected);
    let bytes = fs::read(path.join("grid.parquet")).unwrap();
    assert_eq!(&bytes[..4], b"PAR1");
}

#[test]
fn a_sweep_that_is_interrupted_keeps_its_rows() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let arguments = with(&[
        "--workload",
        "uniform",
        "--requests",
        "1000000000",
        "--threads",
        "1",
        "--sweep",
        "requests=100,1000000000",
        "--parquet",
        "grid.parquet",
        "--json",
        "grid.json",
    ]);
    let mut child = start(path, &arguments);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The first tenth of the work is told when one of two rows is done.
    lines.next().unwrap().unwrap();
    interrupt(&child);
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(said.iter().any(|line| line.contains("1 of 2 simulations are done")), "{said:?}");
    let reports: Value =
        serde_json::from_str(&fs::read_to_string(path.join("grid.json")).unwrap()).unwrap();
    assert_eq!(reports.as_array().unwrap().len(), 1);
}

#[test]
fn one_failed_row_does_not_cost_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let more = ["--workload", "uniform", "--requests", "100", "--sweep", "victim=greedy,gredy"];
    let output = run(path, &with(&more));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("1 of 2 simulations failed"), "{}", stderr(&output));
    assert_eq!(names(path), ["sweep.parquet"]);
}
