//! `nandu db` on a disk that is full: what is told as failed did not happen, what is there can be read.
//!
//! 1. A full disk is a limit on the length of files, as in `explain_trouble`: what is written beyond it is
//!    refused, and no free space is told of it beforehand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{names, run_full, stderr, stdout_of};
use std::path::Path;
use std::process::Output;

/// The length that a file of the database may have: little more than its segments have at the beginning.
const FILE_BYTES_MAX: u64 = 8 << 20;
/// Rows that fit whatever happens.
const ROW_COUNT_MIN: u64 = 100;

fn create(directory: &Path) {
    let words = "db create shop goods id:integer name:text --log-size 4MiB --set \
                 propagation=log_structured";
    succeeds(directory, &words.split_whitespace().collect::<Vec<_>>());
    let name = "x".repeat(30_000);
    let lines: String = (1..=ROW_COUNT_MIN).map(|id| format!("{id}\t{name}\n")).collect();
    std::fs::write(directory.join("rows.tsv"), lines).unwrap();
    succeeds(directory, &["db", "load", "shop", "goods", "rows.tsv"]);
}

fn full(directory: &Path, words: &[&str]) -> Output {
    run_full(directory, FILE_BYTES_MAX, words)
}

fn succeeds(directory: &Path, words: &[&str]) {
    let output = full(directory, words);
    assert_eq!(output.status.code(), Some(0), "{words:?}: {}", stderr(&output));
}

/// Inserts rows until one is refused; gives back how many are stored, and how often a warning was told.
fn fill(directory: &Path) -> (u64, u64) {
    let name = "x".repeat(30_000);
    let (mut stored, mut warning_count) = (ROW_COUNT_MIN, 0);
    loop {
        let id = (stored + 1).to_string();
        let output = full(directory, &["db", "insert", "shop", "goods", &id, &name]);
        let said = stderr(&output);
        match output.status.code() {
            Some(0) => stored += 1,
            Some(3) => {
                assert!(said.contains("no space is left"), "{said}");
                return (stored, warning_count);
            }
            other => panic!("{other:?}: {said}"),
        }
        warning_count += u64::from(said.contains("cannot be closed"));
        assert!(stored < 10_000, "the disk has an end");
    }
}

#[test]
fn on_a_full_disk_what_is_told_as_failed_did_not_happen_and_the_rest_can_be_read() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    create(directory);
    let (stored, warning_count) = fill(directory);
    assert!(warning_count > 0, "the last ones were stored, and could not be closed");
    let last = stored.to_string();
    for words in [&["db", "get", "shop", "goods", &last][..], &["db", "check", "shop"]] {
        succeeds(directory, words);
    }
    let rows = format!("{stored} rows");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains(&rows), "{rows}");
    let next = (stored + 1).to_string();
    stdout_of(directory, &["db", "insert", "shop", "goods", &next, "room again"]);
}

#[test]
fn on_a_full_disk_a_table_that_is_dropped_makes_room() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    create(directory);
    fill(directory);
    succeeds(directory, &["db", "drop", "shop", "goods"]);
    succeeds(directory, &["db", "create", "shop", "goods", "id:integer", "name:text"]);
    succeeds(directory, &["db", "load", "shop", "goods", "rows.tsv"]);
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("100 rows"));
}

#[test]
fn on_a_full_disk_a_backup_leaves_nothing_and_says_what_it_needed() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "goods", "id:integer", "name:text"]);
    let name = "x".repeat(30_000);
    let lines: String = (1..=500).map(|id| format!("{id}\t{name}\n")).collect();
    std::fs::write(directory.join("rows.tsv"), lines).unwrap();
    stdout_of(directory, &["db", "load", "shop", "goods", "rows.tsv"]);
    let before = names(directory);
    // Neither for a log of 64 MiB, nor, where that fits, for rows of 15 MB.
    for (action, told) in [
        (&["backup"][..], "a new database in copy has a log of 67108864 bytes"),
        (&["compact", "--log-size", "4MiB"], "copy/goods.sqlite cannot grow"),
    ] {
        let words = [&["db"], action, &["shop", "copy"]].concat();
        let output = full(directory, &words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {said}");
        assert!(said.contains("no space is left") && said.contains(told), "{words:?}: {said}");
        assert_eq!(names(directory), before, "{words:?}");
    }
    assert_eq!(stdout_of(directory, &["db", "backup", "shop", "copy"]), "1 table, 500 rows\n");
}
