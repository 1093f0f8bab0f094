//! `nandu graph bfs --keep` and `--resume`: whatever ends it, wherever, another process comes to the
//! same levels; what does not fit is an error.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use common::{failure_of, interrupt, names, start, stderr, stdout_of};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::Duration;

const ASKED: &str = "graph bfs g.u64 --memory 1MiB --quiet --json";
/// Ends before one must have come to the end by itself.
const KILLS_MAX: u64 = 60;

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn make(directory: &Path, class: &str) {
    stdout_of(directory, &words(&format!("graph make {class} --shuffled g.u64")));
}

fn json_of(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

fn levels_of(directory: &Path) -> Value {
    json_of(&stdout_of(directory, &words(ASKED)))["levels"].clone()
}

/// Waits until a run has written its graph, and searches.
fn wait_for_search(directory: &Path, child: &mut Child) {
    let is_searching = || {
        let list = fs::read_to_string(directory.join("run/run.json")).unwrap_or_default();
        list.contains("\"searched\": {")
    };
    while !is_searching() {
        assert_eq!(child.try_wait().unwrap(), None, "it takes longer than we look");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Kills a run while it searches.
fn killed(directory: &Path) {
    let mut child = start(directory, &words(&format!("{ASKED} --keep run")));
    wait_for_search(directory, &mut child);
    child.kill().unwrap();
    child.wait().unwrap();
}

/// The file of the store of a run that was killed.
fn store_of(directory: &Path) -> PathBuf {
    let name = names(directory).into_iter().find(|name| name.starts_with("nandu-external-"));
    directory.join(name.unwrap()).join("store/external-1")
}

#[test]
fn a_run_that_is_killed_again_and_again_comes_to_the_same_levels() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "random --nodes 20000 --edges 60000");
    let expected = levels_of(directory);
    let before = names(directory);
    for attempt in 0..KILLS_MAX {
        let how = match directory.join("run/run.json").exists() {
            true => "--resume",
            // An end before anything was written leaves a directory without a list, or nothing.
            false => "--keep",
        };
        let mut child = start(directory, &words(&format!("{ASKED} {how} run")));
        std::thread::park_timeout(Duration::from_millis(20 * attempt));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(0) {
            let document = json_of(&String::from_utf8(output.stdout).unwrap());
            assert_eq!(document["levels"], expected);
            assert_eq!(names(directory), before, "nothing is left behind");
            return;
        }
        assert_eq!(output.status.code(), None, "{attempt}: {}", stderr(&output));
    }
    panic!("no run came to its end");
}

#[test]
fn a_search_that_is_ended_goes_on_with_the_graph_that_was_built() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "line --nodes 4000");
    let expected = levels_of(directory);
    let before = names(directory);
    let mut child = start(directory, &words(&format!("{ASKED} --keep run")));
    wait_for_search(directory, &mut child);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains("the graph is kept; go on with --resume run"), "{said}");
    // Killed once more, and then to the end.
    let mut child = start(directory, &words(&format!("{ASKED} --resume run")));
    std::thread::park_timeout(Duration::from_millis(50));
    child.kill().unwrap();
    child.wait().unwrap();
    let document = json_of(&stdout_of(directory, &words(&format!("{ASKED} --resume run"))));
    assert_eq!((&document["levels"], &document["was_resumed"]), (&expected, &true.into()));
    assert_eq!(names(directory), before, "nothing is left behind");
}

#[test]
fn a_run_goes_on_only_where_all_is_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "line --nodes 4000");
    killed(directory);
    let resume = format!("{ASKED} --resume run");
    let refused = |line: &str, code: i32, told: &str| {
        let said = failure_of(directory, &words(line), code);
        assert!(said.contains(told) && !said.contains("panicked"), "{line}: {said}");
    };
    refused(&format!("{resume} --source 3"), 2, "begun with --source 0, not 3");
    refused(&format!("{resume} --block-size 8KiB"), 2, "begun with --block-size 4096, not 8192");
    refused(&format!("{ASKED} --keep run"), 2, "it is not empty");
    refused(&format!("{ASKED} --resume nowhere"), 2, "begin one with --keep");
    let store = store_of(directory);
    let bytes = fs::read(&store).unwrap();
    let file = fs::File::options().write(true).open(&store).unwrap();
    // Blocks of the graph are those that were written last; each is some kind of wrong by one bit.
    for at in (0..bytes.len()).step_by(4096) {
        file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
    }
    refused(&resume, 3, "it is not what was written there");
    file.write_all_at(&bytes, 0).unwrap();
    file.set_len(4096).unwrap();
    refused(&resume, 3, "what was kept of a run");
    file.write_all_at(&bytes, 0).unwrap();
    let list = directory.join("run/run.json");
    let text = fs::read_to_string(&list).unwrap();
    fs::write(&list, text.replacen("\"len\": 4000", "\"len\": 3999", 1)).unwrap();
    refused(&resume, 2, "run.json: it was changed");
    fs::write(&list, &text[..text.len() / 2]).unwrap();
    refused(&resume, 2, "run.json: it is no list of a run");
    fs::write(&list, &text).unwrap();
    let input = fs::read(directory.join("g.u64")).unwrap();
    fs::write(directory.join("g.u64"), &input[16..]).unwrap();
    refused(&resume, 2, "g.u64: it was changed since the run in run was begun");
    assert!(store.exists(), "what is refused loses nothing");
}

#[test]
fn what_cannot_be_kept_is_refused_before_anything_is_made() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::write(directory.join("g.txt"), "0 1\n").unwrap();
    fs::write(directory.join("words"), "0 one\n").unwrap();
    for (line, told) in [
        ("graph bfs - --keep run", "reads a file"),
        ("graph bfs g.txt --keep run --device sim:nvme-tlc-2024", "needs a directory"),
        ("graph bfs words --keep run", "words:1: `one` is no number"),
        ("graph bfs g.txt --keep run --resume run", "cannot be used with"),
    ] {
        let said = failure_of(directory, &words(line), 2);
        assert!(said.contains(told), "{line}: {said}");
        assert_eq!(names(directory), ["g.txt", "words"], "{line}");
    }
}
