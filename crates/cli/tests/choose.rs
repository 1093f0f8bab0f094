//! `nandu choose`: the same question has the same answer, told in a table that fits; what is wrong is named.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, interrupt, names, start, stdout_of};
use serde_json::Value;
use std::fs;
use std::time::Duration;

/// A load that is simulated in a moment.
const SMALL: &str = "choose --workload a --records 1000 --operations 100 --data 10GB";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn the_cheapest_comes_first_and_the_table_fits() {
    let place = tempfile::tempdir().unwrap();
    let line = format!("{SMALL} --drives nvme-tlc-2024,toshiba-320+log=ocz-core,hama --rate 50");
    let text = stdout_of(place.path(), &words(&line));
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    assert!(text.contains("hama will not do: nobody said what it costs"), "{text}");
    let json = format!("{line} --json");
    let answer = || {
        let mut document: Value =
            serde_json::from_str(&stdout_of(place.path(), &words(&json))).unwrap();
        document.as_object_mut().unwrap().remove("run");
        document
    };
    let first = answer();
    assert_eq!(first, answer());
    let verdicts = first["verdicts"].as_array().unwrap();
    let costs: Vec<f64> =
        verdicts.iter().filter_map(|verdict| verdict["cents_per_year"].as_f64()).collect();
    assert_eq!(costs.len(), 2, "{first}");
    assert!(costs[0] <= costs[1]);
    assert_eq!(verdicts[2]["name"], "hama");
}

#[test]
fn prices_of_a_file_come_first() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::write(
        directory.join("mine.toml"),
        "[drives.hama]\ncents = 1\ndate = \"2026-11\"\nsource = \"[M] found in a drawer\"\n",
    )
    .unwrap();
    let line = format!("{SMALL} --drives hama,ocz-core --rate 1 --prices mine.toml --json");
    let answer: Value = serde_json::from_str(&stdout_of(directory, &words(&line))).unwrap();
    assert_eq!(answer["verdicts"][0]["name"], "hama", "{answer}");
    assert_eq!(answer["verdicts"][0]["price"]["date"], "2026-11");
}

#[test]
fn what_is_wrong_is_named() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let good = "[drives.hama]\ncents = 1\ndate = \"2026\"\nsource = \"[M] x\"\n";
    fs::write(directory.join("bad.toml"), good.replace("cents = 1", "cents = \"1\"")).unwrap();
    fs::write(directory.join("no-mark.toml"), good.replace("[M] ", "")).unwrap();
    fs::write(directory.join("cut.csv"), "128166372003061629,host,0,Read,0,4096,0\nhalf,a li")
        .unwrap();
    fs::write(directory.join("empty.csv"), "").unwrap();
    fs::write(directory.join("nobody.toml"), format!("\n{}", good.replace("hama", "nobody")))
        .unwrap();
    let huge = "128166372003061629,host,0,Read,0,4096,0\n\
                128166372003061630,host,0,Write,0,9223372036854775808,0\n";
    fs::write(directory.join("huge.csv"), huge).unwrap();
    for (line, told) in [
        ("choose", "--workload"),
        ("choose --workload a --trace x.csv", "cannot be used with"),
        ("choose --workload a --drives ocz-cor", "did you mean `ocz-core`"),
        ("choose --workload a --drives ocz-core+log=", "there is no simulated drive"),
        ("choose --workload a --merit 1,2", "four numbers from 0 to 9"),
        ("choose --workload a --rate 0", "--rate"),
        ("choose --workload a --prices bad.toml", "bad.toml:2:"),
        ("choose --workload a --prices no-mark.toml", "no-mark.toml:4: `hama`: `source`"),
        ("choose --workload a --prices nobody.toml", "nobody.toml:2: there is no simulated drive"),
        ("choose --trace huge.csv", "huge.csv"),
        ("choose --trace cut.csv", "cut.csv"),
        ("choose --trace empty.csv", "empty.csv"),
    ] {
        let failure = failure_of(directory, &words(line), 2);
        assert!(failure.contains(told), "{line}: {failure}");
    }
    for line in ["choose --workload a --prices none.toml", "choose --trace none.csv"] {
        let failure = failure_of(directory, &words(line), 3);
        assert!(failure.contains("none."), "{line}: {failure}");
    }
}

#[test]
fn an_interrupt_is_heard_while_clients_are_at_work() {
    let place = tempfile::tempdir().unwrap();
    let line = "choose --workload a --operations 1000000000 --drives toshiba-320";
    let mut child = start(place.path(), &words(line));
    // Nobody unparks this thread: it gives the clients time to begin.
    std::thread::park_timeout(Duration::from_secs(3));
    interrupt(&child);
    let status = (0..100).find_map(|_| {
        std::thread::park_timeout(Duration::from_millis(100));
        child.try_wait().unwrap()
    });
    let _ = child.kill();
    assert_eq!(status.and_then(|status| status.code()), Some(130), "it did not end");
    assert!(names(place.path()).is_empty(), "and left something");
}
