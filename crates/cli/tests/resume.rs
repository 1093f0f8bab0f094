//! `--keep` and `--resume` of `nandu graph bfs` and `nandu external`: whatever ends it, wherever, another
//! process comes to the same result; what does not fit is an error.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, interrupt, names, nandu, start, stderr, stdout_of};
use serde_json::Value;
use std::fs;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
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

/// What a run has written down that it reached; null if nothing.
fn reached(directory: &Path) -> Value {
    let list = fs::read_to_string(directory.join("run/run.json")).unwrap_or_default();
    serde_json::from_str::<Value>(&list).map_or(Value::Null, |list| list["run"]["reached"].clone())
}

/// Kills a run soon after each thing that it writes down, and goes on, until it comes to its end; says
/// what it wrote down each time, and what it says at its end.
fn killed_at_each_note(directory: &Path, asked: &str) -> (Vec<Value>, Value) {
    let mut notes = Vec::new();
    loop {
        let before = reached(directory);
        let how = if directory.join("run/run.json").exists() { "--resume" } else { "--keep" };
        let mut child = start(directory, &words(&format!("{asked} {how} run")));
        let is_new = |now: &Value| now.is_object() && *now != before;
        while !is_new(&reached(directory)) && child.try_wait().unwrap().is_none() {
            std::thread::park_timeout(Duration::from_millis(1));
        }
        // Some time later, so that the next phase has begun to write.
        std::thread::park_timeout(Duration::from_millis(notes.len() as u64 % 3 * 2));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(0) {
            return (notes, json_of(&String::from_utf8(output.stdout).unwrap()));
        }
        assert_eq!(output.status.code(), None, "{asked} {how}: {}", stderr(&output));
        notes.push(reached(directory));
        assert!((notes.len() as u64) < KILLS_MAX, "{asked}: no run comes to its end");
    }
}

/// Waits until what a run has written down is this.
fn wait_for(directory: &Path, child: &mut Child, is_it: impl Fn(&Value) -> bool) {
    while !is_it(&reached(directory)) {
        assert_eq!(child.try_wait().unwrap(), None, "it takes longer than we look");
        std::thread::park_timeout(Duration::from_millis(1));
    }
}

/// Kills a run while it searches.
fn killed(directory: &Path) {
    killed_of(directory, ASKED);
}

/// Interrupts a run when what it has written down is this; it says what is kept.
fn interrupted(directory: &Path, asked: &str, is_it: impl Fn(&Value) -> bool, what_is: &str) {
    let mut child = start(directory, &words(&format!("{asked} --keep run")));
    wait_for(directory, &mut child, is_it);
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{said}");
    assert!(said.contains(&format!("{what_is} kept; go on with --resume run")), "{said}");
}

/// That a command is refused, and why.
fn assert_refused(directory: &Path, line: &str, code: i32, told: &str) {
    let said = failure_of(directory, &words(line), code);
    assert!(said.contains(told) && !said.contains("panicked"), "{line}: {said}");
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
    // An end before the list was written, or after it was removed, leaves a directory without one. Who
    // begins in a directory that is there did not make it, and leaves it.
    let mut is_there = false;
    for attempt in 0..KILLS_MAX {
        let how = match directory.join("run/run.json").exists() {
            true => "--resume",
            false => {
                is_there = directory.join("run").exists();
                "--keep"
            }
        };
        let mut child = start(directory, &words(&format!("{ASKED} {how} run")));
        std::thread::park_timeout(Duration::from_millis(20 * attempt));
        child.kill().unwrap();
        let output = child.wait_with_output().unwrap();
        if output.status.code() == Some(0) {
            let document = json_of(&String::from_utf8(output.stdout).unwrap());
            assert_eq!(document["levels"], expected);
            if is_there {
                // Fails unless it is empty.
                fs::remove_dir(directory.join("run")).unwrap();
            }
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
    interrupted(directory, ASKED, Value::is_object, "the graph is");
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
fn another_source_may_be_searched_from_in_what_is_kept() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "line --nodes 4000");
    killed(directory);
    let asked = format!("{ASKED} --source 1000");
    let expected = json_of(&stdout_of(directory, &words(&asked)));
    let found = json_of(&stdout_of(directory, &words(&format!("{asked} --resume run"))));
    assert_eq!((&found["levels"], &found["source"]), (&expected["levels"], &1000.into()));
    assert_eq!(found["was_resumed"], true);
}

#[test]
fn a_run_goes_on_only_where_all_is_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "line --nodes 4000");
    killed(directory);
    let resume = format!("{ASKED} --resume run");
    let refused = |line: &str, code, told: &str| assert_refused(directory, line, code, told);
    let held = fs::File::open(directory.join("run")).unwrap();
    held.lock().unwrap();
    refused(&resume, 2, "another process works on it");
    drop(held);
    refused(&format!("{resume} --block-size 8KiB"), 2, "begun with --block-size 4096, not 8192");
    refused(&format!("{ASKED} --keep run"), 2, "it is not empty");
    refused(&format!("{ASKED} --resume nowhere"), 2, "begin one with --keep");
    let store = store_of(directory);
    damage_each_way(&store, &|told| refused(&resume, 3, told));
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

/// Begins a run that is kept in `run`, and kills it when it has written something down.
fn killed_of(directory: &Path, asked: &str) {
    let mut child = start(directory, &words(&format!("{asked} --keep run")));
    wait_for(directory, &mut child, Value::is_object);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_run_whose_directory_got_another_name_keeps_its_own_graph() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let asked = |file: &str| format!("graph bfs {file} --memory 1MiB --quiet --json");
    let levels = |how: &str| json_of(&stdout_of(directory, &words(how)))["levels"].clone();
    // As long, and with other levels.
    for (class, file) in
        [("line --nodes 4000", "g1.u64"), ("grid --width 2000 --height 2", "g2.u64")]
    {
        stdout_of(directory, &words(&format!("graph make {class} {file}")));
    }
    killed_of(directory, &asked("g1.u64"));
    fs::rename(directory.join("run"), directory.join("run-old")).unwrap();
    killed_of(directory, &asked("g2.u64"));
    for (file, run) in [("g1.u64", "run-old"), ("g2.u64", "run")] {
        let expected = levels(&asked(file));
        assert_eq!(levels(&format!("{} --resume {run}", asked(file))), expected, "{file}");
    }
    assert_eq!(names(directory), ["g1.u64", "g2.u64"], "nothing is left behind");
}

#[test]
fn a_run_whose_directory_was_removed_ends_and_leaves_what_is_in_its_place() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "line --nodes 40000");
    // It writes down the graph first, and then the clusters.
    let asked = "graph bfs g.u64 --algorithm mm --memory 1MiB --quiet --keep run";
    let mut child = start(directory, &words(asked));
    wait_for(directory, &mut child, Value::is_object);
    fs::remove_dir_all(directory.join("run")).unwrap();
    fs::create_dir(directory.join("run")).unwrap();
    fs::write(directory.join("run/run.json"), "another's").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("run: it was removed or renamed while the run"), "{said}");
    assert_eq!(fs::read_to_string(directory.join("run/run.json")).unwrap(), "another's");
    assert_eq!(names(&directory.join("run")), ["run.json"]);
    assert_eq!(names(directory), ["g.u64", "run"], "its graph went");
}

#[test]
fn a_list_that_was_copied_takes_nothing_from_the_run_that_it_was_copied_from() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "line --nodes 4000");
    let expected = levels_of(directory);
    // A run that has reached nothing yet.
    let mut child = start(directory, &words(&format!("{ASKED} --keep run")));
    while !directory.join("run/run.json").exists() {
        std::thread::yield_now();
    }
    fs::create_dir(directory.join("copy")).unwrap();
    fs::copy(directory.join("run/run.json"), directory.join("copy/run.json")).unwrap();
    wait_for(directory, &mut child, Value::is_object);
    child.kill().unwrap();
    child.wait().unwrap();
    let text = fs::read_to_string(directory.join("copy/run.json")).unwrap();
    if json_of(&text)["run"]["reached"].is_null() {
        assert_refused(directory, &format!("{ASKED} --resume copy"), 2, "goes on with it");
    }
    let found = json_of(&stdout_of(directory, &words(&format!("{ASKED} --resume run"))));
    assert_eq!(found["levels"], expected);
}

#[test]
fn what_is_kept_goes_when_the_answer_is_out_and_not_before() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "line --nodes 400");
    let expected = levels_of(directory);
    let full = || fs::File::options().write(true).open("/dev/full").unwrap();
    let output = nandu(directory, &words(&format!("{ASKED} --keep run")))
        .stdout(full())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap()
        .wait_with_output()
        .unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot write to stdout") && said.contains("see run"), "{said}");
    let document = json_of(&stdout_of(directory, &words(&format!("{ASKED} --resume run"))));
    assert_eq!((&document["levels"], &document["was_resumed"]), (&expected, &true.into()));
    assert_eq!(names(directory), ["g.u64"], "nothing is left behind");
}

#[test]
fn directories_that_were_made_go_and_others_stay() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::write(directory.join("words"), "0 one\n").unwrap();
    make(directory, "line --nodes 400");
    assert_refused(directory, "graph bfs words --keep a/b/c", 2, "is no number");
    assert_eq!(names(directory), ["g.u64", "words"]);
    fs::create_dir(directory.join("mine")).unwrap();
    for kept in ["mine", "mine/deep/run"] {
        stdout_of(directory, &words(&format!("{ASKED} --keep {kept}")));
        assert_eq!(names(directory), ["g.u64", "mine", "words"], "{kept}");
        assert_eq!(names(&directory.join("mine")), [""; 0], "{kept}");
    }
}

#[test]
fn a_run_goes_on_with_blocks_as_it_has_them_and_says_where_it_looks_for_them() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "line --nodes 4000");
    let expected = levels_of(directory);
    killed_of(directory, "graph bfs g.u64 --memory 2MiB --quiet --json");
    let input = directory.join("g.u64");
    fs::create_dir(directory.join("elsewhere")).unwrap();
    let asked = format!("graph bfs {} --memory 4MiB --quiet --json --resume", input.display());
    let elsewhere = format!("{asked} {}", directory.join("run").display());
    let told = "--device . is another directory from where this runs than from";
    assert_refused(&directory.join("elsewhere"), &elsewhere, 2, told);
    fs::remove_dir(directory.join("elsewhere")).unwrap();
    // Twice the memory would have blocks twice as long.
    let document = json_of(&stdout_of(directory, &words(&format!("{asked} run"))));
    assert_eq!((&document["levels"], &document["block_bytes"]), (&expected, &8192.into()));
    assert_eq!(names(directory), ["g.u64"]);
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

/// Directories for devices, and how they are named.
fn make_devices(directory: &Path) -> [&'static str; 4] {
    for name in ["a", "b", "c", "d"] {
        fs::create_dir(directory.join(name)).unwrap();
    }
    [".", "a,b", "flash=a,disk=b", "flash=a,flash=b,disk=c,disk=d"]
}

/// That nothing is left behind on devices, and what there is beside them.
fn names_beside_devices(directory: &Path) -> Vec<String> {
    for name in ["a", "b", "c", "d"] {
        assert_eq!(names(&directory.join(name)), [""; 0], "{name}");
    }
    names(directory)
}

#[test]
fn a_search_that_is_killed_at_each_phase_boundary_finds_the_same_levels_on_any_devices() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "random --nodes 20000 --edges 60000");
    let expected = levels_of(directory);
    let devices = make_devices(directory);
    let before = names_beside_devices(directory);
    for (algorithm, phases) in [("mr", &["graph"][..]), ("mm", &["graph", "clusters"])] {
        for device in devices {
            let asked = format!(
                "graph bfs g.u64 --memory 2MiB --algorithm {algorithm} --device {device} --quiet --json"
            );
            let (notes, document) = killed_at_each_note(directory, &asked);
            assert_eq!(document["levels"], expected, "{asked}");
            assert_eq!(document["was_resumed"], true, "{asked}");
            assert_eq!(document["read_edge_count"], 60_000, "{asked}");
            assert_eq!(notes.len(), phases.len(), "{asked}");
            for (note, phase) in notes.iter().zip(phases) {
                assert!(note["phase"][phase].is_object(), "{asked}: {note}");
            }
            assert_eq!(names_beside_devices(directory), before, "{asked}");
        }
    }
}

#[test]
fn clusters_that_are_kept_go_on_only_where_all_is_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, "random --nodes 20000 --edges 60000");
    let asked = "graph bfs g.u64 --memory 1MiB --algorithm mm --quiet --json";
    let has_clusters = |reached: &Value| reached["phase"]["clusters"].is_object();
    interrupted(directory, asked, has_clusters, "its clusters are");
    let resume = format!("{asked} --resume run");
    let refused = |line: &str, code, told: &str| assert_refused(directory, line, code, told);
    refused(&format!("{resume} --cluster-nodes 9"), 2, "begun with --cluster-nodes null, not 9");
    refused(&resume.replace(" mm", " mr"), 2, "begun with --algorithm \"mm\", not \"mr\"");
    let sort =
        "external sort g.u64 --record-bytes 16 --key-bytes 8 -o out --memory 1MiB --resume run";
    refused(sort, 2, "begun with command \"graph bfs\", not \"external sort\"");
    damage_each_way(&store_of(directory), &|told| refused(&resume, 3, told));
    let document = json_of(&stdout_of(directory, &words(&resume)));
    assert_eq!(document["levels"], levels_of(directory));
    assert_eq!(names(directory), ["g.u64"]);
}

/// Changes and cuts the file of a store, has somebody be `refused`, and restores it. Which blocks are
/// those that were kept nobody knows here: each is some kind of wrong by one bit.
fn damage_each_way(store: &Path, refused: &dyn Fn(&str)) {
    let bytes = fs::read(store).unwrap();
    let file = fs::File::options().write(true).open(store).unwrap();
    for at in (0..bytes.len()).step_by(4096) {
        file.write_all_at(&[bytes[at] ^ 1], at as u64).unwrap();
    }
    refused("it is not what was written there");
    file.write_all_at(&bytes, 0).unwrap();
    file.set_len(4096).unwrap();
    refused("what was kept of a run");
    file.write_all_at(&bytes, 0).unwrap();
    // As long as it has to be, and holes where something was.
    file.set_len(0).unwrap();
    file.set_len(bytes.len() as u64).unwrap();
    refused("it is not what was written there");
    file.write_all_at(&bytes, 0).unwrap();
}

/// Writes a file of records that no size in the list of sizes fits; the file sorted by the key, which
/// is the five bytes from the third on.
fn make_records(directory: &Path, count: u64) -> Vec<u8> {
    let mut state = 1_u64;
    let mut records: Vec<[u8; 13]> = (0..count)
        .map(|number| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let mut record = [0; 13];
            record[..8].copy_from_slice(&(state >> 24).to_be_bytes());
            record[8..].copy_from_slice(&number.to_be_bytes()[3..]);
            record
        })
        .collect();
    fs::write(directory.join("in"), records.concat()).unwrap();
    records.sort_by_key(|record| (record[3..8].to_vec(), *record));
    records.concat()
}

/// Memory of eight blocks, of which a merge takes five or seven.
const SORT: &str = "external sort in --record-bytes 13 --key-offset 3 --key-bytes 5 --memory 1MiB \
                    --block-size 128KiB -o out --quiet --json";

#[test]
fn a_sort_that_is_killed_after_each_note_gives_the_same_file_on_any_devices() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let expected = make_records(directory, 450_000);
    let devices = make_devices(directory);
    let before = names_beside_devices(directory);
    let plain = json_of(&stdout_of(directory, &words(SORT)));
    assert!(fs::read(directory.join("out")).unwrap() == expected);
    for device in [devices[0], devices[1], devices[3]] {
        fs::remove_file(directory.join("out")).unwrap();
        let asked = format!("{SORT} --device {device}");
        let (notes, document) = killed_at_each_note(directory, &asked);
        assert!(fs::read(directory.join("out")).unwrap() == expected, "{asked}");
        assert_eq!(document["was_resumed"], true, "{asked}");
        for count in ["record_count", "run_count"] {
            assert_eq!(document[count], plain[count], "{asked}");
        }
        let runs = |note: &Value| note["runs"].as_array().unwrap().len();
        let formed = notes.windows(2).filter(|pair| runs(&pair[0]) < runs(&pair[1])).count();
        let merged = notes.windows(2).filter(|pair| runs(&pair[0]) > runs(&pair[1])).count();
        assert!(formed >= 1 && merged >= 1, "{asked}: {formed} {merged}");
        assert!(document["read_bytes"].as_u64() < plain["read_bytes"].as_u64(), "{document}");
        let mut after = names_beside_devices(directory);
        after.retain(|name| name != "out");
        assert_eq!(after, before, "{asked}: nothing is left behind");
    }
}

#[test]
fn a_sort_goes_on_only_where_all_is_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let expected = make_records(directory, 300_000);
    interrupted(directory, SORT, Value::is_object, "sorted runs are");
    let resume = format!("{SORT} --resume run");
    let refused = |line: &str, code: i32, told: &str| {
        assert_refused(directory, line, code, told);
        assert!(!directory.join("out").exists());
    };
    refused(
        &resume.replace("--key-bytes 5", "--key-bytes 4"),
        2,
        "begun with --key-bytes 5, not 4",
    );
    refused(&resume.replace("128KiB", "64KiB"), 2, "begun with --block-size 131072, not 65536");
    refused(&format!("{SORT} --keep run"), 2, "it is not empty");
    damage_each_way(&store_of(directory), &|told| refused(&resume, 3, told));
    let input = fs::read(directory.join("in")).unwrap();
    let changed = fs::metadata(directory.join("in")).unwrap().modified().unwrap();
    fs::write(directory.join("in"), &input[13..]).unwrap();
    refused(&resume, 2, "in: it was changed since the run in run was begun");
    fs::write(directory.join("in"), &input).unwrap();
    fs::File::options()
        .write(true)
        .open(directory.join("in"))
        .unwrap()
        .set_modified(changed)
        .unwrap();
    stdout_of(directory, &words(&resume.replace("1MiB", "2MiB")));
    assert!(fs::read(directory.join("out")).unwrap() == expected, "memory may be another");
    assert_eq!(names(directory), ["in", "out"]);
}

/// A list that no memory of 1 MiB holds: element i is followed by i + 7, modulo their number. The file
/// of its ranks.
fn make_list(directory: &Path) -> Vec<u8> {
    let count = 300_001;
    let (mut successors, mut ranks) = (vec![0_u64; count], vec![0_u64; count]);
    let mut element = 0;
    for rank in 0..count {
        let next = (element + 7) % count;
        ranks[element] = rank as u64;
        successors[element] = if rank + 1 == count { u64::MAX } else { next as u64 };
        element = next;
    }
    let bytes = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    fs::write(directory.join("list"), bytes(&successors)).unwrap();
    bytes(&ranks)
}

#[test]
fn a_ranking_that_is_killed_after_each_round_gives_the_same_ranks() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let expected = make_list(directory);
    make_devices(directory);
    let before = names_beside_devices(directory);
    for device in ["a,b", "flash=a,disk=b"] {
        let asked =
            format!("external rank list -o ranks --memory 1MiB --device {device} --quiet --json");
        let (notes, document) = killed_at_each_note(directory, &asked);
        assert!(fs::read(directory.join("ranks")).unwrap() == expected, "{asked}");
        assert_eq!(
            (&document["element_count"], &document["was_resumed"]),
            (&300_001.into(), &true.into())
        );
        let stages = |stage: &str| {
            notes.iter().filter(|note| note["phase"]["rounds"]["stage"][stage].is_object()).count()
        };
        assert!(stages("arcs") > 2 && stages("ranks") > 2, "{asked}: {notes:?}");
        fs::remove_file(directory.join("ranks")).unwrap();
        assert_eq!(names_beside_devices(directory), before, "{asked}: nothing is left behind");
    }
}

#[test]
fn a_ranking_goes_on_only_where_all_is_as_it_was() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let expected = make_list(directory);
    let asked = "external rank list -o ranks --memory 1MiB --quiet --json";
    interrupted(directory, asked, Value::is_object, "a round is");
    let resume = format!("{asked} --resume run");
    let refused = |line: &str, code, told: &str| assert_refused(directory, line, code, told);
    refused(&format!("{resume} --head 3"), 2, "begun with --head 0, not 3");
    damage_each_way(&store_of(directory), &|told| refused(&resume, 3, told));
    stdout_of(directory, &words(&resume));
    assert!(fs::read(directory.join("ranks")).unwrap() == expected);
    assert_eq!(names(directory), ["list", "ranks"]);
}
