//! `nandu run`, `verify` and `report` on small experiments.

use crate::common::{failure_of, interrupt, names, run, start, stderr, stdout_of};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;

/// A tour small enough for a test: this machine's disk and one simulated drive.
#[allow(clippy::unwrap_used, reason = "a test that cannot write has failed")]
fn write_small_tour(directory: &Path, local_duration: &str) {
    let text = format!(
        "title = \"A small tour\"\nquestion = \"Does it run?\"\npaper = \"-\"\n\
         method = \"As the tour.\"\nreference = \"none\"\n\
         [measure]\nkind = \"tour\"\ndevices = [\"sim:device-a\", \"local\"]\n\
         request_bytes = [\"4KiB\", \"64KiB\"]\nqueue_depths = [1, 4]\n\
         deep_request_bytes = \"4KiB\"\n[measure.scale]\nflash_capacity = \"64MiB\"\n\
         request_count = 100\npoint_bytes = \"4MiB\"\nlocal_duration = \"{local_duration}\"\n"
    );
    fs::write(directory.join("small.toml"), text).unwrap();
}

const RUN: [&str; 4] = ["run", "small.toml", "--size", "8MiB"];

#[test]
fn a_run_leaves_results_and_a_report_and_no_scratch_file() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write_small_tour(path, "10ms");
    let text = stdout_of(path, &RUN);
    assert!(text.contains("A small tour") && text.contains("out/small/report.html"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert_eq!(names(path), ["out", "small.toml"]);
    let html = fs::read_to_string(path.join("out/small/report.html")).unwrap();
    assert!(!html.contains("another commit"), "what was just measured is current");
    assert!(html.contains("A small tour"));
    let copy = stdout_of(path, &["report", "out", "--output", "copy.html"]);
    assert_eq!(copy, "copy.html\n");
    assert!(fs::read_to_string(path.join("copy.html")).unwrap().contains("A small tour"));
    let json = stdout_of(path, &[&RUN[..], &["--json"]].concat());
    let outcome: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(outcome["title"], "A small tour");
}

#[test]
fn an_unknown_key_in_an_experiment_names_file_line_and_nearest_key() {
    let directory = tempfile::tempdir().unwrap();
    write_small_tour(directory.path(), "10ms");
    let file = directory.path().join("small.toml");
    let text = fs::read_to_string(&file).unwrap().replace("queue_depths", "queue_depth");
    fs::write(&file, text).unwrap();
    let said = failure_of(directory.path(), &RUN, 2);
    assert!(said.contains("small.toml:10"), "{said}");
    assert!(said.contains("queue_depths"), "{said}");
    assert_eq!(names(directory.path()), ["small.toml"]);
}

#[test]
fn a_run_without_its_directory_or_room_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    write_small_tour(directory.path(), "10ms");
    let said = failure_of(directory.path(), &[&RUN[..], &["--dir", "nowhere"]].concat(), 2);
    assert!(said.contains("nowhere"), "{said}");
    let said = failure_of(directory.path(), &["run", "small.toml", "--size", "900TiB"], 2);
    assert!(said.contains("--size"), "{said}");
}

#[test]
fn a_run_stopped_by_ctrl_c_resumes_where_it_was() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write_small_tour(path, "60s");
    let mut child = start(path, &RUN);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The simulated drive is done once the steps of the local one begin.
    let local = lines.by_ref().map(Result::unwrap).find(|line| line.contains("local"));
    assert!(local.is_some(), "the local device has steps of its own");
    interrupt(&child);
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
    assert!(said.iter().any(|line| line.contains("to resume")), "{said:?}");
    assert_eq!(names(path), ["out", "small.toml"], "no scratch file stays");
    let kept = fs::read_dir(path.join("out/small/steps")).unwrap().count();
    assert!(kept > 0, "finished steps stay");
    let mut child = start(path, &RUN);
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let first = lines.next().unwrap().unwrap();
    assert!(first.contains("kept from before"), "{first}");
    interrupt(&child);
    lines.for_each(drop);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

#[test]
fn the_same_seed_gives_the_same_files_and_its_shapes_hold() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let output = run(path, &["run", "s000/table-5-1", "--out", "one"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    stdout_of(path, &["run", "s000/table-5-1", "--out", "two"]);
    for file in ["outcome.json", "series.csv", "table.md"] {
        let read = |out: &str| fs::read(path.join(out).join("s000/table-5-1").join(file)).unwrap();
        assert!(read("one") == read("two"), "{file}");
    }
    let verdicts = stdout_of(path, &["verify", "s000/table-5-1", "--json"]);
    let verdicts: serde_json::Value = serde_json::from_str(&verdicts).unwrap();
    assert_eq!(verdicts["experiments"][0]["holds"], true);
}

#[test]
fn verdicts_come_in_the_order_of_the_list_however_many_run_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    // The first takes longest.
    let names = ["s000/two-streams", "s000/table-5-1", "s001/table-2", "s000/table-5-1"];
    let run = |threads: &str| {
        let mut arguments = vec!["verify"];
        arguments.extend(names);
        arguments.extend(["--threads", threads, "--out", threads]);
        stdout_of(path, &arguments)
    };
    let said = run("1");
    assert_eq!(said, run("3"));
    let at = |name: &str| said.find(&format!("{name}: ")).unwrap();
    assert!(at(names[0]) < at(names[1]) && at(names[1]) < at(names[2]), "{said}");
    assert_eq!(said.matches("s000/table-5-1: ").count(), 1, "{said}");
    for name in &names[..3] {
        let read = |out: &str| fs::read(path.join(out).join(name).join("outcome.json")).unwrap();
        assert!(read("1") == read("3"), "{name}");
    }
}

#[test]
fn a_shape_that_fails_is_exit_code_1_and_the_json_says_which() {
    let directory = tempfile::tempdir().unwrap();
    let text = "title = \"Wrong on purpose\"\nquestion = \"Is 466.875 us below 2 us?\"\n\
                method = \"Equation 2.2.\"\npaper = \"-\"\nreference = \"none\"\n\
                [measure]\nkind = \"closed_form\"\nread_us = 20\nwrite_us = 200\nerase_us = 1500\n\
                erase_block_page_count = 64\nlive_fractions = [0.5]\n\
                [[shape]]\nclass = \"own\"\nkind = \"value_within\"\nseries = \"dynamic\"\nlow = 1\nhigh = 2\n";
    fs::write(directory.path().join("wrong.toml"), text).unwrap();
    let told = run(directory.path(), &["verify", "wrong.toml"]);
    assert_eq!(told.status.code(), Some(1));
    assert!(stderr(&told).contains("wrong"), "{}", stderr(&told));
    let said = String::from_utf8_lossy(&told.stdout);
    assert!(said.contains("1 shape of 1 experiment, apart"), "{said}");
    let output = run(directory.path(), &["verify", "wrong.toml", "--json"]);
    assert_eq!(output.status.code(), Some(1));
    let verdicts: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(verdicts["experiments"][0]["verdicts"][0]["holds"], false);
    let ran = run(directory.path(), &["run", "wrong.toml"]);
    assert_eq!(ran.status.code(), Some(0), "`run` shows a failed shape and goes on");
}

#[test]
fn a_kept_result_that_is_not_what_the_code_finds_is_exit_code_1() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let name = "s000/table-5-1";
    stdout_of(path, &["run", name, "--out", "kept"]);
    let verify = ["verify", name, "--kept", "kept"];
    let said = stdout_of(path, &verify);
    assert!(said.contains("points are the same"), "{said}");

    let series = path.join("kept").join(name).join("series.csv");
    let text = fs::read_to_string(&series).unwrap();
    let (before, last) = text.trim_end().rsplit_once('\n').unwrap();
    let mut fields: Vec<&str> = last.split(',').collect();
    fields[3] = "12345";
    fs::write(&series, format!("{before}\n{}\n", fields.join(","))).unwrap();
    let output = run(path, &verify);
    assert_eq!(output.status.code(), Some(1));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(said.contains("STALE") && said.contains("1 of ") && said.contains("12345"), "{said}");
    let said = stderr(&output);
    assert!(said.contains("kept results are not what the code finds: s000/table-5-1"), "{said}");

    fs::write(&series, "head\nno point\n").unwrap();
    let said = failure_of(path, &verify, 2);
    assert!(said.contains("series.csv:2: "), "{said}");
    fs::create_dir(path.join("empty")).unwrap();
    let said = stdout_of(path, &["verify", name, "--kept", "empty"]);
    assert!(said.contains("no result is kept"), "{said}");
    let said = failure_of(path, &["verify", name, "--kept", "typo"], 2);
    assert!(said.contains("typo: no such directory"), "{said}");
}

/// An experiment of one formula, with two shapes.
const SMALL: &str = "title = \"Small\"\nquestion = \"q\"\nmethod = \"Equation 2.2.\"\npaper = \"-\"\n\
                reference = \"none\"\n[measure]\nkind = \"closed_form\"\nread_us = 20\nwrite_us = 200\n\
                erase_us = 1500\nerase_block_page_count = 64\nlive_fractions = [0.5]\n\
                [[shape]]\nclass = \"own\"\nkind = \"value_within\"\nseries = \"dynamic\"\nlow = 460\n\
                high = 470\n[[shape]]\nclass = \"sanity\"\nkind = \"value_within\"\nseries = \"dynamic\"\n\
                low = 1\n";

#[test]
fn perturbing_tells_which_shapes_notice_and_leaves_the_files_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let text = SMALL;
    fs::create_dir(path.join("experiments")).unwrap();
    fs::write(path.join("experiments/small.toml"), text).unwrap();
    let said = stdout_of(path, &["verify", "small", "--perturb", "--json", "--out", "o"]);
    let said: serde_json::Value = serde_json::from_str(&said).unwrap();
    let rows = said["experiments"][0]["rows"].as_array().unwrap();
    let row = |parameter: &str, factor: f64| {
        let is_it = |row: &&serde_json::Value| {
            row["parameter"] == parameter && row["factor"].as_f64() == Some(factor)
        };
        rows.iter().find(is_it).unwrap_or_else(|| panic!("{parameter} in {said}"))
    };
    let noticed = &row("measure.write_us", 2.0)["noticed"];
    assert_eq!((&noticed[0]["falls"], &noticed[1]["falls"]), (&true.into(), &false.into()));
    assert!(path.join("o/perturb/small.json").is_file());
    assert_eq!(fs::read_to_string(path.join("experiments/small.toml")).unwrap(), text);
    let again = stdout_of(path, &["verify", "small", "--perturb", "--resume", "--out", "o"]);
    assert!(again.contains("moved by"), "{again}");

    // What the run without a change finds is kept with the table, and compared.
    let kept = ["verify", "small", "--kept", "o/perturb"];
    let same = stdout_of(path, &kept);
    assert!(same.contains("all 2 points are the same"), "{same}");
    let table = fs::read_to_string(path.join("o/perturb/small.json")).unwrap();
    assert!(table.contains("466.875"), "{table}");
    fs::write(path.join("o/perturb/small.json"), table.replace("466.875", "466.0")).unwrap();
    let said = failure_of(path, &kept, 1);
    assert!(said.contains("kept results are not what the code finds: small"), "{said}");

    // A file elsewhere is what is perturbed, also where a built-in experiment has its name.
    fs::create_dir(path.join("elsewhere")).unwrap();
    fs::write(path.join("elsewhere/tour.toml"), text).unwrap();
    let words = ["verify", "elsewhere/tour.toml", "--perturb", "--json", "--out", "o"];
    let said: serde_json::Value = serde_json::from_str(&stdout_of(path, &words)).unwrap();
    assert_eq!(said["experiments"][0]["rows"].as_array().unwrap(), rows);
}

#[test]
fn an_experiment_that_a_profile_was_fitted_to_and_that_cannot_be_read_is_told_with_its_error() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    fs::create_dir_all(path.join("experiments/s001")).unwrap();
    fs::write(path.join("experiments/s001/table-2.toml"), "title = 1\n").unwrap();
    let said = failure_of(path, &["verify", "s000/figure-2-1"], 2);
    assert!(
        said.contains("to a figure of s001/table-2: ") && said.contains("table-2.toml:1"),
        "{said}"
    );
    assert_eq!(said.matches("s001/table-2: ").count(), 1, "once, not for each parameter: {said}");
    // A trial of another experiment, with a drive that was changed, does not ask for it.
    fs::write(path.join("experiments/small.toml"), SMALL).unwrap();
    failure_of(path, &["verify", "small"], 2);
    stdout_of(path, &["verify", "small", "--unlinked"]);
}

#[test]
fn a_paper_is_all_its_experiments_and_one_report() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let text = |title: &str| {
        format!(
            "title = \"{title}\"\nquestion = \"q\"\nmethod = \"Equation 2.2.\"\npaper = \"-\"\n\
             reference = \"none\"\n[measure]\nkind = \"closed_form\"\nread_us = 20\nwrite_us = 200\n\
             erase_us = 1500\nerase_block_page_count = 64\nlive_fractions = [0.5]\n"
        )
    };
    fs::create_dir_all(path.join("experiments/mine")).unwrap();
    for name in ["first", "second"] {
        fs::write(path.join(format!("experiments/mine/{name}.toml")), text(name)).unwrap();
    }
    let output = run(path, &["run", "mine"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("mine/second (2 of 2)"), "{}", stderr(&output));
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.find("first") < said.find("second"), "{said}");
    assert!(said.contains("report: out/mine/report.html"), "{said}");
    for file in ["first/outcome.json", "second/report.html", "report.html"] {
        assert!(path.join("out/mine").join(file).is_file(), "{file}");
    }
    let page = fs::read_to_string(path.join("out/mine/report.html")).unwrap();
    assert!(page.contains("first") && page.contains("second"));
    let said = failure_of(path, &["verify", "mine"], 2);
    assert!(said.contains("no shape to verify"), "both are found, and have none: {said}");
}
