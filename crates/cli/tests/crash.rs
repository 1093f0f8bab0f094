//! `nandu crash` as a user runs it: a campaign over memory and over SSDs, a planted bug, wrong words.

use crate::common::{failure_of, run, stdout_of};
use serde_json::Value;

#[test]
fn a_short_campaign_over_ssds_keeps_its_promises_and_repeats_itself() {
    let place = tempfile::tempdir().unwrap();
    let words = ["crash", "--world", "ssd", "--seeds", "3", "--json"];
    let said = stdout_of(place.path(), &words);
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(json["seed_count"], 3);
    assert_eq!(json["violations"], serde_json::json!([]));
    assert!(json["total"]["program_count"].as_u64().is_some_and(|count| count > 0), "{said}");
    assert_eq!(stdout_of(place.path(), &words), said, "the same seeds give the same bytes");
    let table = stdout_of(place.path(), &["crash", "--seed", "2"]);
    assert!(table.contains("page that leaves the pool  least recently used\n"), "{table}");
    assert!(!table.contains("Some(") && !table.contains("Scenario"), "{table}");
    assert!(table.contains("promises broken") && table.contains("commits acknowledged"), "{table}");
    assert_eq!(crate::common::names(place.path()), [""; 0], "it needs no files");
}

/// A campaign that fails, as JSON.
#[allow(clippy::unwrap_used, reason = "a test whose program says something else has failed")]
fn failing(arguments: &[&str]) -> Value {
    let directory = tempfile::tempdir().unwrap();
    let output = run(directory.path(), arguments);
    assert_eq!(output.status.code(), Some(1), "{arguments:?}: {output:?}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_violation_names_the_command_that_shows_it_again_with_the_bug_and_the_world() {
    for (bug, world) in [("flushes-ignored", "memory"), ("writes-lost", "ssd")] {
        let campaign =
            failing(&["crash", "--json", "--seeds", "40", "--plant", bug, "--world", world]);
        let violation = &campaign["violations"][0];
        let replay = violation["replay"].as_str().unwrap();
        assert!(replay.contains(&format!("--plant {bug}")), "{replay}");
        let again: Vec<&str> = replay.split(' ').skip(1).chain(["--json"]).collect();
        assert_eq!(failing(&again)["violations"][0], *violation, "{replay}");
    }
}

#[test]
fn each_bug_is_told_with_the_seed_that_finds_it() {
    let place = tempfile::tempdir().unwrap();
    let words = ["crash", "--plant", "all", "--seeds", "5", "--json"];
    let json: Value = serde_json::from_str(&stdout_of(place.path(), &words)).unwrap();
    let bugs = json["bugs"].as_array().unwrap();
    let find = |bug: &str, world: &str| {
        bugs.iter().find(|found| found["bug"] == bug && found["world"] == world).unwrap()
    };
    for world in ["memory", "ssd"] {
        let found = find("flushes-ignored", world);
        let seed = found["first_seed"].as_u64().unwrap();
        assert_eq!(found["seed_count"], seed + 1);
        assert!(!found["what"].as_str().unwrap().is_empty());
    }
    let table = stdout_of(place.path(), &["crash", "--plant", "all", "--seeds", "1"]);
    assert!(table.contains("first seed") && table.contains("writes-lost"), "{table}");
}

#[test]
fn bugs_are_looked_for_where_and_from_which_seed_one_says() {
    let place = tempfile::tempdir().unwrap();
    let words = ["crash", "--plant", "all", "--from", "1000", "--seeds", "5", "--world", "ssd"];
    let told = stdout_of(place.path(), &[&words[..], &["--json"]].concat());
    let json: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(json["from"], 1000);
    let mut found_count = 0;
    for found in json["bugs"].as_array().unwrap() {
        assert_eq!(found["world"], "ssd");
        if let Some(seed) = found["first_seed"].as_u64() {
            found_count += 1;
            assert_eq!(seed - 1000 + 1, found["seed_count"].as_u64().unwrap());
        }
    }
    assert!(found_count > 0);
    let error = failure_of(place.path(), &["crash", "--plant", "all", "--clients", "4"], 2);
    assert!(error.contains("leave out --clients"), "{error}");
}

#[test]
fn the_last_seed_there_is_runs_and_none_behind_it() {
    let place = tempfile::tempdir().unwrap();
    let last = u64::MAX.to_string();
    let said = stdout_of(place.path(), &["crash", "--from", &last, "--seeds", "1", "--json"]);
    assert_eq!(serde_json::from_str::<Value>(&said).unwrap()["seed_count"], 1);
    let error = failure_of(place.path(), &["crash", "--from", &last, "--seeds", "2"], 2);
    assert!(error.contains("there are 1"), "{error}");
}

#[test]
fn words_that_contradict_each_other_are_refused() {
    let place = tempfile::tempdir().unwrap();
    failure_of(place.path(), &["crash", "--seed", "1", "--seeds", "2"], 2);
    let said = failure_of(place.path(), &["crash", "--plant", "moths"], 2);
    assert!(said.contains("writes-lost") && said.contains("undo-skipped"), "{said}");
    let said = failure_of(place.path(), &["crash", "--world", "tape"], 2);
    assert!(said.contains("memory") && said.contains("ssd"), "{said}");
}

#[test]
fn many_clients_are_checked_by_what_they_saw_and_repeat_themselves() {
    let place = tempfile::tempdir().unwrap();
    let words = ["crash", "--clients", "6", "--seeds", "4", "--json"];
    let said = stdout_of(place.path(), &words);
    let json: Value = serde_json::from_str(&said).unwrap();
    assert_eq!(
        (&json["client_count_max"], &json["violations"]),
        (&6.into(), &Value::Array(vec![]))
    );
    assert!(json["total"]["deed_count"].as_u64().unwrap() > 100, "{said}");
    assert!(json["total"]["conflict_count"].as_u64().unwrap() > 0, "{said}");
    assert_eq!(stdout_of(place.path(), &words), said, "the same seeds give the same bytes");
    let words = ["crash", "--document", "--seeds", "2", "--json"];
    let json: Value = serde_json::from_str(&stdout_of(place.path(), &words)).unwrap();
    assert_eq!((&json["has_document"], &json["violations"]), (&true.into(), &Value::Array(vec![])));
    assert!(json["total"]["document_change_count"].as_u64().unwrap() > 10, "{json}");
    let words = ["crash", "--document", "--clients", "4", "--seeds", "1", "--json"];
    let json: Value = serde_json::from_str(&stdout_of(place.path(), &words)).unwrap();
    assert_eq!((&json["has_document"], &json["client_count_max"]), (&true.into(), &4.into()));
    assert!(json["total"]["commit_count"].as_u64().unwrap() > 0, "{json}");
    let words = ["crash", "--tpcc", "--clients", "4", "--seeds", "2", "--json"];
    let json: Value = serde_json::from_str(&stdout_of(place.path(), &words)).unwrap();
    assert_eq!((&json["has_tpcc"], &json["violations"]), (&true.into(), &Value::Array(vec![])));
    assert!(json["total"]["tpcc_count"].as_u64().unwrap() > 10, "{json}");
    failure_of(place.path(), &["crash", "--tpcc", "--document"], 2);
    let told = failure_of(place.path(), &["crash", "--clients", "1"], 2);
    assert!(told.contains("2..=64"), "{told}");
    failure_of(place.path(), &["crash", "--clients", "4", "--every-request"], 2);
}

#[test]
fn processes_that_are_killed_keep_what_they_promised() {
    let place = tempfile::tempdir().unwrap();
    let words = ["crash", "--kill", ".", "--clients", "4", "--seeds", "6", "--json"];
    let json: Value = serde_json::from_str(&stdout_of(place.path(), &words)).unwrap();
    assert_eq!((&json["life_count"], &json["database_count"]), (&6.into(), &2.into()));
    assert_eq!(json["violations"], Value::Array(vec![]));
    assert!(json["total"]["committed_count"].as_u64().unwrap() > 20, "{json}");
    assert_eq!(crate::common::names(place.path()), [""; 0], "nothing is left");
    // All of them change one document.
    let words = ["crash", "--kill", ".", "--document", "--clients", "3", "--seeds", "2", "--json"];
    let json: Value = serde_json::from_str(&stdout_of(place.path(), &words)).unwrap();
    assert_eq!((&json["life_count"], &json["violations"]), (&2.into(), &Value::Array(vec![])));
    assert!(json["total"]["committed_count"].as_u64().unwrap() > 4, "{json}");
    assert_eq!(crate::common::names(place.path()), [""; 0], "nothing is left");
    let told = failure_of(place.path(), &["crash", "--kill", "nowhere"], 3);
    assert!(told.contains("no directory can be made in nowhere"), "{told}");
}
