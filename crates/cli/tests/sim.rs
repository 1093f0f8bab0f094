//! `nandu sim`: one run, sweeps, and what it says to wrong words and hostile traces.

use crate::common::{failure_of, interrupt, names, run, run_under, start, stderr, stdout_of};
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
        "/run/seconds",
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
        report.as_object_mut().unwrap().remove("run");
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
    let order: Vec<(String, u64)> = reports["reports"]
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
fn one_failed_row_does_not_cost_the_others() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let more = ["--workload", "uniform", "--requests", "100", "--sweep", "victim=greedy,gredy"];
    let output = run(path, &with(&more));
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("1 of 2 simulations failed"), "{}", stderr(&output));
    assert_eq!(names(path), ["sweep.parquet"]);
}

/// Requests of two volumes, 10 ms apart: numbers that are DiskSim's or MQSim's, by which type is meant.
const NUMBERS: &str = "0 0 0 4 0\n10000000 1 4 4 0\n20000000 0 8 8 1\n30000000 0 40000000 4 0\n";

#[test]
fn options_of_traces_reach_the_reader() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("x"), NUMBERS).unwrap();
    let trace = |more: &[&str]| json_of(path, &[&["--trace", "x"], more].concat());
    let fitting = ["--format", "mqsim", "--remap", "modulo"];
    let and = |more: &[&'static str]| trace(&[&fitting[..], more].concat());
    let plain = and(&[]);
    assert!(plain["source"].as_str().unwrap().contains("mqsim"), "{}", plain["source"]);
    assert_eq!((&plain["host_write_pages"], &plain["host_read_pages"]), (&3.into(), &2.into()));
    let elapsed = |report: &Value| report["simulated_ns"].as_u64().unwrap();
    assert!((30_000_000..32_000_000).contains(&elapsed(&plain)), "{plain}");

    let inverted = and(&["--invert-types"]);
    assert_eq!(inverted["host_write_pages"], plain["host_read_pages"]);
    assert_eq!(inverted["host_read_pages"], plain["host_write_pages"]);
    let faster = and(&["--speed-up", "2"]);
    assert!((15_000_000..17_000_000).contains(&elapsed(&faster)), "{faster}");
    let slower = and(&["--speed-up", "1/3"]);
    assert!((90_000_000..92_000_000).contains(&elapsed(&slower)), "{slower}");
    let one = and(&["--device", "1"]);
    assert_eq!((&one["request_count"], &one["filtered_requests"]), (&1.into(), &3.into()));
    let two = and(&["--requests", "2"]);
    assert_eq!(two["request_count"], 2);
    let closed = and(&["--arrivals", "closed"]);
    assert!(elapsed(&closed) < 5_000_000, "times do not count: {closed}");

    let strict = with(&["--trace", "x", "--format", "mqsim"]);
    let said = failure_of(path, &strict, 2);
    assert!(said.contains("x:4:") && said.contains("modulo or compact"), "{said}");
    let compact = trace(&["--format", "mqsim", "--remap", "compact"]);
    assert_eq!(compact["request_count"], 4, "{compact}");
    for (more, meant) in [
        (&["--format", "mqsym"][..], "mqsim"),
        (&["--speed-up", "0"], "speed"),
        (&["--speed-up", "fast"], "speed"),
        (&["--device", "7", "--remap", "modulo"], "7"),
        (&["--columns", "time=ns,opp"], "opp"),
        (&["--columns", "op", "--format", "mqsim"], "--format"),
        (&["--workload", "uniform"], "--workload"),
    ] {
        let arguments = [&["--trace", "x"], more].concat();
        let said = failure_of(path, &with(&arguments), 2);
        assert!(said.contains(meant), "{more:?}: {said}");
    }
    for option in [
        &["--skip-bad"][..],
        &["--invert-types"],
        &["--speed-up", "2"],
        &["--remap", "modulo"],
        &["--device", "0"],
        &["--format", "mqsim"],
        &["--columns", "op"],
    ] {
        let arguments = [&["--workload", "uniform"], option].concat();
        let said = failure_of(path, &with(&arguments), 2);
        assert!(said.contains(option[0]) && said.contains("--workload"), "{said}");
    }
}

#[test]
fn a_table_of_any_columns_is_replayed_as_its_description_says() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("x.csv"), "7,a,4,write,2048\n9,b,8,read,4096\n9,a,x,read,2048\n").unwrap();
    let columns = ["--columns", "time=ms,device,offset=sector,op,size"];
    let table = [&["--trace", "x.csv"], &columns[..], &["--skip-bad"]].concat();
    let report = json_of(path, &table);
    assert_eq!((&report["host_write_pages"], &report["host_read_pages"]), (&1.into(), &2.into()));
    assert_eq!(report["skipped_lines"], 1);
    let text = stdout_of(path, &with(&[&table[..], &["--dry-run"]].concat()));
    assert!(text.contains("write") && text.contains("2048"), "{text}");
    let one = json_of(path, &[&table[..], &["--device", "a"]].concat());
    assert_eq!(one["request_count"], 1, "{one}");
}

#[test]
fn options_of_the_drive_and_the_run_reach_the_simulation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let uniform = ["--workload", "uniform:read=30", "--requests", "4000"];
    let run = |more: &[&'static str]| json_of(path, &[&uniform[..], more].concat());
    let plain = run(&[]);
    for (kind, operation, cause) in [
        ("page", "program", "cleaning"),
        ("block", "program", "merge_full"),
        ("chunk", "program", "merge_partial"),
        ("bast", "erase", "merge_full"),
        ("fast", "program", "merge_full"),
        ("faster", "program", "second_chance"),
        ("dftl", "program", "map_write"),
    ] {
        let report = run(&["--ftl", kind, "--warm-up", "2"]);
        let cell = &report["nand"][operation][cause];
        assert!(cell.as_u64() > Some(0), "{kind}: {report}");
        assert_eq!(report["config"]["ssd"]["ftl"]["kind"], *kind);
    }
    let fifo = run(&["--victim", "fifo"]);
    let amplification = |report: &Value| report["write_amplification"].as_f64().unwrap();
    assert!(amplification(&fifo) > amplification(&plain), "{fifo}");
    let long = run(&["--erase-block-pages", "128"]);
    assert_eq!(long["config"]["physical_pages"], 128 * 128);
    assert_ne!(run(&["--seed", "2"])["nand"], plain["nand"]);

    let fresh = run(&["--initial", "fresh", "--warm-up", "0"]);
    assert!(fresh["nand"]["erase"].is_null(), "nothing to clean yet: {fresh}");
    let ordered = run(&["--initial", "sequential", "--warm-up", "0"]);
    let steady = run(&["--initial", "steady", "--warm-up", "0"]);
    assert!(amplification(&ordered) < amplification(&steady), "{ordered}");
    assert_eq!(run(&["--warm-up", "1.5"])["config"]["warm_up_units"], 6144 * 3 / 2);

    let event = |more: &[&'static str]| run(&[&["--mode", "event"], more].concat());
    let mean = |report: &Value| report["latency_ns"]["write"]["mean"].as_f64().unwrap();
    let deep = event(&["--queue-depth", "32"]);
    assert!(mean(&deep) > 4.0 * mean(&event(&["--queue-depth", "1"])), "they wait in the queue");
    let buffered = event(&["--write-buffer-units", "64"]);
    assert!(mean(&buffered) < mean(&event(&[])), "{buffered}");
    let reads = |report: &Value| report["latency_ns"]["read"]["mean"].as_f64().unwrap();
    assert!(reads(&event(&["--read-priority"])) < reads(&event(&[])));

    let calm = ["--workload", "uniform:rate=50", "--requests", "2000"];
    let idle = ["--background", "--set", "ftl.idle_clean_count=8"];
    let late = |more: &[&'static str]| {
        json_of(path, &[&calm[..], more].concat())["latency_ns"]["write"]["p99"].as_u64().unwrap()
    };
    assert!(late(&idle) < late(&[]) / 4, "cleaning in idle time is not waited for");
    for (more, meant) in [
        (&["--queue-depth", "0"][..], "queue-depth"),
        (&["--initial", "empty"], "fresh"),
        (&["--mode", "open"], "event"),
        (&["--warm-up=-1"], "warm_up is -1"),
        (&["--requests", "0"], "requests"),
        (&["--set", "ftl.victim"], "setting"),
    ] {
        let said = failure_of(path, &with(&[&uniform[..2], more].concat()), 2);
        assert!(said.contains(meant), "{more:?}: {said}");
    }
}

#[test]
fn a_drive_that_no_memory_holds_is_refused_before_it_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let blocks = ["--physical-erase-blocks", "16777216"];
    for ftl in ["page", "fast", "dftl", "block"] {
        let more = ["--workload", "uniform", "--requests", "100", "--ftl", ftl];
        let words = [&["sim", "myers_slc"][..], &blocks, &more].concat();
        let output = run_under(directory.path(), "-v 6000000", &words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{ftl}: {said}");
        let told = said.contains("of memory, and this process can have");
        assert!(told && said.contains("--physical-erase-blocks 4194304"), "{ftl}: {said}");
    }
}

#[test]
fn the_event_mode_shows_where_time_goes_and_draws_every_die() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let shape = |channels: &'static str, dies: &'static str| {
        let drive = ["sim", "myers_slc", "--physical-erase-blocks", "256", "--set", channels];
        let more = ["--set", dies, "--mode", "event", "--workload", "uniform:read=50"];
        let arguments = [&drive[..], &more, &["--requests", "5000"]].concat();
        let json = stdout_of(path, &[&arguments[..], &["--json"]].concat());
        let report: Value = serde_json::from_str(&json).unwrap();
        (stdout_of(path, &arguments), report)
    };
    for (channels, dies, channel_count, die_count) in [
        ("channel_count=4", "dies_per_channel=4", 4, 16),
        ("channel_count=8", "dies_per_channel=1", 8, 8),
    ] {
        let (text, report) = shape(channels, dies);
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        let is_bar = |c: char| ('▁'..='█').contains(&c) || c == '·';
        let rows =
            text.lines().filter(|line| line.chars().next().is_some_and(|c| c.is_ascii_digit()));
        let bars: Vec<usize> =
            rows.map(|row| row.chars().filter(|&c| is_bar(c)).count()).filter(|&n| n > 0).collect();
        assert_eq!(bars, vec![die_count / channel_count; channel_count], "{text}");
        assert!(text.contains("held back, by cleaning") && text.contains("in all"), "{text}");
        for (list, count) in [("die_held_share", die_count), ("channel_busy_share", channel_count)]
        {
            let shares = report[list].as_array().unwrap();
            assert_eq!(shares.len(), count);
            let share = |value: &Value| (0.0..=1.0).contains(&value.as_f64().unwrap());
            assert!(shares.iter().all(share), "{list}: {shares:?}");
        }
        for operation in ["read", "program"] {
            let share = report["time_shares"][operation].as_object().unwrap();
            let names: Vec<&str> = share.keys().map(String::as_str).collect();
            let parts = ["held_back_ns", "die_ns", "cleaning_ns", "channel_ns", "array_ns"];
            let all = [&["command_count"], &parts[..], &["transfer_ns"]].concat();
            assert_eq!(names.len(), all.len(), "{names:?}");
            let documented = include_str!("../../../docs/simulation.md");
            for name in all {
                assert!(names.contains(&name) && documented.contains(name), "{name}: {names:?}");
            }
        }
    }
}

#[test]
fn warnings_stand_on_stderr_and_in_json() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let shape = ["--set", "channel_count=4", "--mode", "event", "--requests", "2000"];
    let hot = with(&[&shape[..], &["--workload", "uniform:read=100,area=2KiB", "--json"]].concat());
    let output = run(path, &hot);
    assert_eq!(output.status.code(), Some(0));
    let report: Value = serde_json::from_slice(&output.stdout).expect("stdout is JSON alone");
    let said = stderr(&output);
    assert_eq!(report["warnings"][0]["kind"], "waits_though_idle");
    let text = report["warnings"][0]["text"].as_str().unwrap();
    let words = |text: &str| text.split_whitespace().map(String::from).collect::<Vec<_>>();
    assert_eq!(words(&said), words(&format!("warning: {text}")));
    assert!(said.lines().all(|line| line.chars().count() <= 100), "{said}");

    let calm = [&shape[..], &["--workload", "uniform:read=100"]].concat();
    assert_eq!(stderr(&run(path, &with(&calm))), "");
    let workloads = "workload=uniform:read=100,area=2KiB;uniform:read=100";
    let sweep = [&shape[..], &["--workload", "uniform", "--sweep", workloads]].concat();
    let output = run(path, &with(&sweep));
    let said = words(&stderr(&output)).join(" ");
    let first =
        "warning: 1 of 2 simulations, first uniform:read=100,area=2KiB: requests wait though";
    assert!(said.contains(first), "{said}");
}

#[test]
fn a_trace_says_how_many_different_pages_it_touches() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::write(path.join("x.log"), FIO).unwrap();
    let report = json_of(path, &["--trace", "x.log"]);
    // Bytes 0 to 6143 in pages of 2048: two pages written, one of them again, one read.
    let pages = serde_json::json!({ "read": 1, "write": 2, "touched": 3, "shared": 0 });
    assert_eq!(report["unique_pages"], pages);
    let one = json_of(path, &["--trace", "x.log", "--requests", "1"]);
    assert_eq!(one["unique_pages"]["touched"], 2, "what was not measured does not count");
    let text = stdout_of(path, &with(&["--trace", "x.log"]));
    assert!(text.contains("3 different ones touched (0.0 %): 1 read, 2 written"), "{text}");
    let generated = json_of(path, &["--workload", "uniform", "--requests", "100"]);
    assert!(generated.get("unique_pages").is_none());
}

/// Fields of a report with the kind of value that each has; what is in brackets may be null.
const FIELDS: [(&str, &str); 36] = [
    ("nandu", "object"),
    ("config", "object"),
    ("seed", "count"),
    ("requests", "object"),
    ("request_count", "count"),
    ("host_write_pages", "count"),
    ("host_read_pages", "count"),
    ("host_trim_pages", "count"),
    ("modify_read_units", "count"),
    ("nand", "object"),
    ("write_amplification", "number"),
    ("write_amplification_by_cause", "object"),
    ("closed_form", "[object]"),
    ("latency_ns", "object"),
    ("erase_count", "object"),
    ("lifetime", "[object]"),
    ("energy", "[object]"),
    ("map_bytes", "count"),
    ("simulator_bytes_per_logical_page", "number"),
    ("simulated_ns", "count"),
    ("requests_per_second", "number"),
    ("die_utilisation", "number"),
    ("time_shares", "[object]"),
    ("die_held_share", "[list]"),
    ("channel_busy_share", "[list]"),
    ("unique_pages", "[object]"),
    ("merges", "[object]"),
    ("map_cache", "[object]"),
    ("warnings", "[list]"),
    ("source", "text"),
    ("skipped_lines", "count"),
    ("first_skipped", "[text]"),
    ("filtered_requests", "count"),
    ("reordered_requests", "count"),
    ("checks", "[object]"),
    ("run", "object"),
];

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Object(_) => "object",
        Value::String(_) => "text",
        Value::Number(number) if number.is_u64() => "count",
        Value::Number(_) => "number",
        Value::Array(_) => "list",
        _ => "something else",
    }
}

#[test]
fn every_field_of_every_report_has_its_kind_and_its_line_in_the_documentation() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let documented = include_str!("../../../docs/simulation.md");
    let uniform = ["--workload", "uniform:read=30,trim=5", "--requests", "3000"];
    for more in [
        &[][..],
        &["--mode", "event", "--check"],
        &["--ftl", "fast"],
        &["--ftl", "chunk", "--mode", "event"],
        &["--ftl", "dftl", "--check"],
    ] {
        let report = json_of(path, &[&uniform[..], more].concat());
        let fields = report.as_object().unwrap();
        for (name, kind) in FIELDS {
            assert!(documented.contains(&format!("`{name}`")), "{name} is not documented");
            let optional = kind.starts_with('[');
            let Some(value) = fields.get(name).filter(|value| !value.is_null()) else {
                assert!(optional, "{more:?}: {name} is missing");
                continue;
            };
            let found = kind_of(value);
            let fits =
                found == kind.trim_matches(['[', ']']) || (kind, found) == ("number", "count");
            assert!(fits, "{more:?}: {name} is {value}, must be {kind}");
        }
        let known = |name: &&String| FIELDS.iter().any(|(field, _)| field == *name);
        let unknown: Vec<&String> = fields.keys().filter(|name| !known(name)).collect();
        assert!(unknown.is_empty(), "{more:?}: {unknown:?} are new; document them");
        for (operation, latency) in report["latency_ns"].as_object().unwrap() {
            for figure in ["count", "min", "p50", "p95", "p99", "p999", "max"] {
                assert_eq!(kind_of(&latency[figure]), "count", "{operation}.{figure}");
            }
            for figure in ["mean", "stddev"] {
                assert!(latency[figure].is_number(), "{operation}.{figure}");
            }
            let rising =
                ["min", "p50", "p95", "p99", "p999", "max"].map(|name| latency[name].as_u64());
            assert!(rising.is_sorted(), "{operation}: {latency}");
        }
        let cells = report["nand"].as_object().unwrap().values();
        let all: u64 = cells
            .flat_map(|causes| causes.as_object().unwrap().values())
            .map(|count| count.as_u64().unwrap())
            .sum();
        assert!(all > 0, "{report}");
        let parts = report["write_amplification_by_cause"].as_object().unwrap().values();
        let sum: f64 = parts.map(|part| part.as_f64().unwrap()).sum();
        let whole = report["write_amplification"].as_f64().unwrap();
        assert!((sum - whole).abs() < 1e-9, "{more:?}: parts {sum}, whole {whole}");
        let erases = &report["erase_count"];
        let spread = ["min", "mean", "max"].map(|name| erases[name].as_f64().unwrap());
        assert!(spread.is_sorted() && erases["stddev"].as_f64() >= Some(0.0), "{erases}");
    }
}

#[test]
fn a_cache_merges_and_hits_and_says_so() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let more = ["--workload", "zipf:0.9,read=50", "--requests", "20000", "--cache-units", "512"];
    let report = json_of(path, &more);
    let cache = |key: &str| report["cache"][key].as_u64().unwrap();
    assert!(cache("hits") > 0 && cache("merged_writes") > 0 && cache("evicted_writes") > 0);
    let text = stdout_of(path, &with(&more));
    assert!(text.contains("cache      512 units, "), "{text}");
    let sweep = ["--workload", "zipf:0.9", "--requests", "2000", "--sweep", "cache-units=0,512"];
    let table = stdout_of(path, &with(&sweep));
    assert!(table.contains("cache-units"), "{table}");
}

#[test]
fn a_file_that_exists_is_kept_unless_it_may_go() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let job = ["--workload", "uniform", "--requests", "100", "--warm-up", "0"];
    for option in ["--json", "--record"] {
        fs::write(path.join("mine"), "mine").unwrap();
        let arguments = with(&[&job[..], &[option, "mine"]].concat());
        let said = failure_of(path, &arguments, 2);
        assert!(said.contains("mine: exists already") && said.contains("--overwrite"), "{said}");
        assert_eq!(fs::read(path.join("mine")).unwrap(), b"mine");
        stdout_of(path, &[&arguments[..], &["--overwrite"]].concat());
        assert_ne!(fs::read(path.join("mine")).unwrap(), b"mine");
    }
    // What could not be recorded is not in the way of the next try.
    let wrong = ["--trace", "nowhere", "--record", "new"];
    failure_of(path, &with(&wrong), 3);
    assert!(!path.join("new").exists());
}

#[test]
fn a_device_without_end_is_no_trace() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for more in [&[][..], &["--format", "msr"]] {
        let said = failure_of(path, &with(&[&["--trace", "/dev/zero"], more].concat()), 2);
        assert!(said.contains("no line ends within 16 MiB"), "{more:?}: {said}");
    }
    let columns = ["--trace", "/dev/zero", "--columns", "op,offset,size", "--skip-bad"];
    assert_eq!(json_of(path, &columns)["skipped_lines"], 1);
}

#[test]
fn a_trace_of_which_nothing_is_understood_can_be_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let pipe = directory.path().join("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let more = ["--trace", "pipe", "--columns", "op,offset,size", "--skip-bad"];
    let child = start(directory.path(), &with(&more));
    // Opens once somebody reads, who listens for Ctrl-C by then.
    let mut writer = fs::File::options().write(true).open(&pipe).unwrap();
    std::io::Write::write_all(&mut writer, &b"nothing\n".repeat(20_000)).unwrap();
    interrupt(&child);
    while std::io::Write::write_all(&mut writer, &b"nothing\n".repeat(1000)).is_ok() {}
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
}

#[test]
fn a_long_warm_up_is_announced_with_the_smaller_drive() {
    let directory = tempfile::tempdir().unwrap();
    let words = ["sim", "device-a", "--workload", "uniform", "--requests", "2000"];
    let mut child = start(directory.path(), &words);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let mut said = lines.next().unwrap();
    while !said.contains("--set capacity=") {
        said += &format!(" {}", lines.next().unwrap_or_else(|| panic!("{said}")));
    }
    interrupt(&child);
    drop(lines);
    child.wait().unwrap();
    assert!(said.starts_with("note: before it is measured the drive is written"), "{said}");
    assert!(said.contains(" min;") || said.contains(" h;"), "{said}");
    // What is offered is a drive, and is soon done.
    let option = said.split_once("--set ").unwrap().1.split_whitespace().next().unwrap();
    stdout_of(directory.path(), &[&words[..], &["--warm-up", "0", "--set", option]].concat());
}

#[test]
fn a_drive_that_does_not_fit_the_memory_is_refused_before_it_is_made() {
    let directory = tempfile::tempdir().unwrap();
    let sim = ["sim", "myers_slc", "--workload", "uniform", "--requests", "10"];
    let blocks = ["--physical-erase-blocks", "16777216"];
    let output = run_under(directory.path(), "-v 6000000", &[&sim[..], &blocks].concat());
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("of memory") && said.contains("--physical-erase-blocks"), "{said}");
    // So does a sweep with one such drive, before the others are simulated; and several that fit alone.
    for (sweep, told) in [
        (&["--sweep", "physical-erase-blocks=64,16777216"][..], "(16777216) takes"),
        (
            &["--sweep", "physical-erase-blocks=1048576,1048577", "--threads", "2"],
            "with --threads 1",
        ),
    ] {
        let output = run_under(directory.path(), "-v 1100000", &[&sim[..], sweep].concat());
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(told), "{said}");
    }
}
