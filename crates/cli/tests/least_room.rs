//! `nandu graph bfs` and `nandu external` on the smallest device on which they work, and on one that is
//! smaller by a block: there they say so, and leave nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{names, run, stderr, stdout_of};
use crate::external::levels_of;
use serde_json::Value;
use std::fs;
use std::path::Path;

/// A block of the temporary files in so little memory.
const BLOCK_BYTES: u64 = 4 << 10;
/// Memory in which nothing of what is written here fits, but a list that is walked.
const SMALL: &str = "--memory 1MiB";
/// Devices on which there is hardly any room, and more than enough; in blocks.
const BLOCKS_MIN: u64 = (512 << 10) / BLOCK_BYTES;
const BLOCKS_MAX: u64 = (16 << 20) / BLOCK_BYTES;

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// The line with a device of so many blocks.
fn on_device(line: &str, block_count: u64) -> String {
    let bytes = block_count * BLOCK_BYTES;
    format!("{line} --device sim:optane-like --capacity {bytes} --json")
}

/// What is told where the device has no room, if it has none.
fn refusal(directory: &Path, line: &str, block_count: u64) -> Option<String> {
    let before = names(directory);
    let output = run(directory, &words(&on_device(line, block_count)));
    let said = stderr(&output);
    match output.status.code() {
        Some(0) => None,
        Some(3) => {
            assert!(said.contains("give it more with --capacity"), "{line}: {said}");
            assert!(output.stdout.is_empty() && !said.contains("panicked"), "{line}: {said}");
            assert_eq!(names(directory), before, "{line}: {said}");
            Some(said)
        }
        other => panic!("{line}: {other:?}: {said}"),
    }
}

/// Checks what comes out on the smallest device; with so many percent of it, the work is refused before it
/// begins, in these words.
fn works_from_its_least_device_on(
    directory: &Path,
    line: &str,
    (percent, told): (u64, &str),
    check: impl Fn(&Value),
) {
    let (mut less, mut least) = (BLOCKS_MIN, BLOCKS_MAX);
    assert!(refusal(directory, line, less).is_some(), "{line}: with hardly any room");
    while least - less > 1 {
        let middle = less.midpoint(least);
        match refusal(directory, line, middle) {
            Some(_) => less = middle,
            None => least = middle,
        }
    }
    let found = stdout_of(directory, &words(&on_device(line, least)));
    check(&serde_json::from_str(&found).unwrap());
    assert!(refusal(directory, line, least - 1).is_some(), "{line}: a block less than {least}");
    let said = refusal(directory, line, least * percent / 100).unwrap();
    assert!(said.contains(told), "{line}: {percent} % of {least} blocks: {said}");
}

#[test]
fn a_search_works_from_its_least_device_on_and_is_refused_below() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("graph make random --nodes 6000 --edges 30000 g.u64"));
    let text = stdout_of(directory, &words("graph make random --nodes 6000 --edges 30000 -"));
    let expected = levels_of(&text, 0);
    for (algorithm, percent, told) in [
        // Runs are counted before FILE is read; clusters when the graph is there.
        ("mr", 55, "sorting 30000 edges would take"),
        ("mm", 55, "clusters of a graph of"),
    ] {
        let line = format!("graph bfs g.u64 --self-loops refuse --algorithm {algorithm} {SMALL}");
        works_from_its_least_device_on(directory, &line, (percent, told), |found| {
            assert_eq!(found["levels"], serde_json::json!(expected), "{algorithm}");
        });
    }
}

#[test]
fn a_sort_works_from_its_least_device_on_and_is_refused_below() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let mut state = 7_u64;
    let record = |_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        state.to_be_bytes()
    };
    let mut records: Vec<[u8; 8]> = (0..200_000).map(record).collect();
    fs::write(directory.join("in"), records.concat()).unwrap();
    fs::write(directory.join("out"), "").unwrap();
    records.sort_unstable();
    let expected = records.concat();
    let line =
        &format!("external sort in -o out --overwrite --record-bytes 8 --key-bytes 8 {SMALL}");
    let told = (95, "sorting 200000 records would take");
    works_from_its_least_device_on(directory, line, told, |_| {
        assert!(fs::read(directory.join("out")).unwrap() == expected);
    });
}

#[test]
fn a_ranking_works_from_its_least_device_on_and_is_refused_below() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    // A walk, and rounds: a word of each element has room in memory, or not.
    for (count, percent) in [(60_001_u64, 95), (140_001, 55)] {
        let (mut successors, mut ranks) = (Vec::new(), Vec::new());
        for element in 0..count {
            // Each is followed by the one behind it by seven, round the list, which ends with count - 7.
            let next = (element + 7) % count;
            successors.push(if next == 0 { u64::MAX } else { next });
        }
        ranks.resize(successors.len(), 0_u64);
        let mut element = 0;
        for rank in 0..count {
            ranks[usize::try_from(element).unwrap()] = rank;
            element = (element + 7) % count;
        }
        let bytes = |numbers: &[u64]| -> Vec<u8> {
            numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
        };
        fs::write(directory.join("list"), bytes(&successors)).unwrap();
        fs::write(directory.join("ranks"), "").unwrap();
        let told = format!("ranking {count} elements would take");
        let line = "external rank list -o ranks --overwrite --memory 512KiB";
        works_from_its_least_device_on(directory, line, (percent, &told), |_| {
            assert!(fs::read(directory.join("ranks")).unwrap() == bytes(&ranks), "{count}");
        });
    }
}
