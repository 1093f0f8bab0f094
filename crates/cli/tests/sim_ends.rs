//! How `nandu sim` ends before its end: by Ctrl-C and SIGTERM, whatever it is about.

use crate::common::{interrupt, names, start, stderr};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::Command;
use std::time::Duration;

/// A small drive that is simulated in a moment.
const SMALL: [&str; 6] =
    ["sim", "myers_slc", "--physical-erase-blocks", "128", "--logical-pages", "6144"];

fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    SMALL.iter().chain(more).copied().collect()
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
    assert_eq!(reports["reports"].as_array().unwrap().len(), 1);
}

#[test]
#[allow(clippy::disallowed_types, reason = "who ends a program waits by his own clock")]
fn a_sweep_or_record_that_is_ended_before_anything_is_done_leaves_nothing_within_two_seconds() {
    use std::time::Instant;

    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let long = ["--workload", "uniform", "--requests", "50000000"];
    for (more, told) in [
        (["--sweep", "victim=greedy,fifo"], "none of 2 simulations is done; nothing is kept"),
        (["--record", "requests.trace"], "nothing was left behind"),
    ] {
        for signal in ["INT", "TERM"] {
            let mut child = start(path, &with(&[&long[..], &more].concat()));
            let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
            // A tenth of the work is done.
            lines.next().unwrap().unwrap();
            let began = Instant::now();
            let id = child.id().to_string();
            assert!(Command::new("kill").args(["-s", signal, &id]).status().unwrap().success());
            let said: Vec<String> = lines.map(Result::unwrap).collect();
            assert_eq!(child.wait().unwrap().code(), Some(130), "{said:?}");
            assert!(began.elapsed() < Duration::from_secs(2), "{more:?}");
            assert!(said.iter().any(|line| line.contains(told)), "{said:?}");
            assert_eq!(names(path), [""; 0], "{more:?}");
        }
    }
}

#[test]
#[allow(clippy::disallowed_types, reason = "who ends a program waits by his own clock")]
fn a_large_drive_that_is_being_filled_holds_no_end_up() {
    use std::time::Instant;

    const LARGE: &str = "524288";
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let ended = |child: std::process::Child, told: &str, left: &[&str]| {
        let began = Instant::now();
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
        assert!(began.elapsed() < Duration::from_secs(3), "{told}");
        assert!(stderr(&output).contains(told), "{}", stderr(&output));
        assert_eq!(names(path), left);
    };
    let drive = ["sim", "myers_slc", "--workload", "uniform", "--requests", "1000"];
    let record = ["--physical-erase-blocks", LARGE, "--record", "requests.trace"];
    let child = start(path, &[&drive[..], &record].concat());
    // It listens for Ctrl-C before it begins the file.
    while names(path).is_empty() {
        std::thread::yield_now();
    }
    ended(child, "nothing was left behind", &[]);
    let axis = format!("physical-erase-blocks=64,{LARGE}");
    let mut child =
        start(path, &[&drive[..], &["--threads", "1", "--sweep", axis.as_str()]].concat());
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    // The small drive is done.
    lines.next().unwrap().unwrap();
    let rest = std::thread::spawn(move || lines.map(Result::unwrap).collect::<Vec<_>>());
    ended(child, "", &["sweep.parquet"]);
    let said = rest.join().unwrap();
    assert!(said.iter().any(|line| line.contains("1 of 2 simulations are done")), "{said:?}");
}
