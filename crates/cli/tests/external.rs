//! `nandu graph` and `nandu external`: what comes out is what a walk in memory gives, whatever the format and the
//! memory; nothing is left behind, and errors say where and what would do.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, interrupt, names, nandu, run, run_full, start, stderr, stdout_of};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

/// Memory in which nothing of what is searched here fits, with small blocks.
const SMALL: &str = "--memory 1MiB";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

fn json_of(directory: &Path, line: &str) -> Value {
    let line = format!("{line} --json");
    serde_json::from_str(&stdout_of(directory, &words(&line))).unwrap()
}

/// Nodes of each level, by a walk in memory over a text of edges.
pub(crate) fn levels_of(text: &str, source: usize) -> Vec<u64> {
    let edges: Vec<(usize, usize)> = text
        .lines()
        .map(|line| {
            let (left, right) = line.split_once(' ').unwrap();
            (left.parse().unwrap(), right.parse().unwrap())
        })
        .collect();
    let count = 1 + edges.iter().map(|&(left, right)| left.max(right)).max().unwrap();
    let mut neighbours = vec![Vec::new(); count];
    for &(left, right) in &edges {
        neighbours[left].push(right);
        neighbours[right].push(left);
    }
    let (mut seen, mut level, mut levels) = (vec![false; count], vec![source], Vec::new());
    seen[source] = true;
    while !level.is_empty() {
        levels.push(level.len() as u64);
        let all: BTreeSet<usize> =
            level.iter().flat_map(|&node| &neighbours[node]).copied().collect();
        level = all.into_iter().filter(|&node| !std::mem::replace(&mut seen[node], true)).collect();
    }
    levels
}

fn levels_in(document: &Value) -> Vec<u64> {
    document["levels"].as_array().unwrap().iter().map(|count| count.as_u64().unwrap()).collect()
}

fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn a_search_finds_the_levels_of_a_walk_in_memory_whatever_the_format() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let class = "graph make random --nodes 3000 --edges 5000 --shuffled";
    for file in ["g.txt", "g.u32", "g.u64", "g.mtx"] {
        stdout_of(directory, &words(&format!("{class} {file}")));
    }
    let text = stdout_of(directory, &words(&format!("{class} -")));
    assert_eq!(text, fs::read_to_string(directory.join("g.txt")).unwrap());
    fs::write(directory.join("packed"), gzip(text.as_bytes())).unwrap();
    let before = names(directory);
    let expected = levels_of(&text, 7);
    for file in ["g.txt", "g.u32", "g.u64", "g.mtx", "packed"] {
        let document = json_of(directory, &format!("graph bfs {file} --source 7 {SMALL}"));
        assert_eq!(levels_in(&document), expected, "{file}");
        let number = |key: &str| document[key].as_u64().unwrap();
        assert_eq!(number("reached_node_count"), expected.iter().sum::<u64>());
        assert_eq!(number("level_count"), expected.len() as u64);
        assert_eq!(number("read_edge_count"), 5000);
        assert!(number("memory_peak_bytes") <= 1 << 20, "{document}");
        assert!(document["building"]["write_blocks"].as_u64().unwrap() > 10, "{document}");
    }
    let simulated = "graph bfs g.u32 --source 7 --device sim:nvme-tlc-2024 --memory 1MiB";
    let document = json_of(directory, simulated);
    assert_eq!(levels_in(&document), expected);
    assert!(document["searching"]["wait_ns"].as_u64().unwrap() > 0);
    let roles = "graph bfs g.u32 --source 7 --device flash=.,disk=sim:wd2000jb --memory 2MiB";
    for algorithm in ["mr", "mm --cluster-nodes 8", "mm --clustering random --seed 7"] {
        let document = json_of(directory, &format!("{roles} --algorithm {algorithm}"));
        assert_eq!(levels_in(&document), expected, "{algorithm}");
        assert_eq!(document["clusters"].is_object(), algorithm != "mr", "{document}");
    }
    assert_eq!(names(directory), before, "nothing is left behind");
}

#[test]
fn a_search_for_people_tells_levels_requests_and_memory() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("graph make grid --width 30 --height 20 grid.txt"));
    let said = stdout_of(directory, &words("graph bfs grid.txt --quiet"));
    for told in [
        "600 nodes, 1150 edges",
        "600 nodes reached from node 0, in 49 levels",
        "The 10 levels with most nodes",
        "searching",
    ] {
        assert!(said.contains(told), "{said}");
    }
    fs::write(directory.join("loops.txt"), "0 1\n1 1\n1 2\n").unwrap();
    let said = stdout_of(directory, &words("graph bfs loops.txt"));
    assert!(said.contains("1 edge from a node to itself left out"), "{said}");
    assert!(!said.contains("with most nodes"), "all three are shown: {said}");
}

#[test]
fn records_of_any_size_are_sorted_by_a_key_anywhere() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let mut state = 7_u64;
    for (record_bytes, key_offset, key_bytes) in [
        (1, 0, 1),
        (3, 1, 2),
        (7, 0, 7),
        (13, 5, 8),
        (257, 250, 7),
        (1000, 999, 1),
        (4096, 4080, 16),
    ] {
        let byte = |_| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            state.to_be_bytes()[0]
        };
        let bytes: Vec<u8> = (0..record_bytes * 1501).map(byte).collect();
        fs::write(directory.join("in"), &bytes).unwrap();
        let mut records: Vec<&[u8]> = bytes.chunks(record_bytes).collect();
        records.sort_by_key(|record| (&record[key_offset..key_offset + key_bytes], *record));
        let document = json_of(
            directory,
            &format!(
                "external sort in --record-bytes {record_bytes} --key-offset {key_offset} \
                 --key-bytes {key_bytes} {SMALL} --block-size 8KiB -o out --overwrite"
            ),
        );
        assert_eq!(document["record_count"], 1501);
        assert_eq!(document["run_count"].as_u64().unwrap() > 1, record_bytes >= 1000, "{document}");
        assert!(fs::read(directory.join("out")).unwrap() == records.concat(), "{record_bytes}");
    }
}

#[test]
fn what_is_no_graph_is_told_with_its_place_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let cut = gzip("0 1\n1 2\n".repeat(3000).as_bytes());
    fs::write(directory.join("cut.gz"), &cut[..cut.len() - 9]).unwrap();
    fs::write(directory.join("behind.gz"), [&cut[..], b"and more"].concat()).unwrap();
    let behind = format!("the gzip data ends at byte {} of the file", cut.len());
    for (file, text) in [
        ("words.txt", "0 1\none two\n"),
        ("empty", ""),
        ("loop.txt", "0 1\n2 2\n"),
        ("far.txt", "0 999999999999\n"),
        ("good.txt", "0 1\n1 2\n"),
    ] {
        fs::write(directory.join(file), text).unwrap();
    }
    fs::write(directory.join("odd.u64"), [1; 24]).unwrap();
    fs::write(directory.join("what.bin"), [1; 16]).unwrap();
    let before = names(directory);
    for (line, told) in [
        ("graph bfs words.txt", "words.txt:2: `one` is no number"),
        ("graph bfs empty", "empty: it has no edge"),
        ("graph bfs loop.txt --self-loops refuse", "loop.txt:2: the edge leads from node 2"),
        ("graph bfs far.txt", "far.txt:1: node 999999999999 makes"),
        ("graph bfs good.txt --source 9", "--source 9: good.txt has 3 nodes"),
        ("graph bfs good.txt --source 9 --nodes 9", "of --nodes 9, counted from 0, none has"),
        ("graph bfs good.txt --nodes 2", "good.txt:2: there is no node 2"),
        ("graph bfs odd.u64", "odd.u64, at byte 16: the file ends after 8 of the 16"),
        ("graph bfs cut.gz", "the gzip data ends early"),
        ("graph bfs behind.gz", &behind),
        ("graph bfs what.bin", "what.bin: its format is not known"),
        ("graph bfs missing", "missing: no such file"),
        ("graph bfs good.txt --format txt", "there are text, u32, u64, matrix-market"),
        ("graph bfs good.txt --memory 512KiB", "give it more"),
        ("graph bfs good.txt --device flash=.", "others disk="),
        ("graph bfs good.txt --device nowhere", "nowhere: no such directory; temporary files"),
        ("graph make line --nodes 9 line.txt.gz", "name it without .gz"),
        ("graph bfs good.txt --device good.txt", "good.txt is no directory"),
        ("graph bfs good.txt --device sim:nothing", "nothing"),
        ("graph bfs good.txt --block-size 100", "not of whole sectors"),
        ("graph make random --nodes 5000000000 --edges 1 x.u32", "write u64"),
        ("graph make grid --width 9999999999 --height 9999999999 x", "more than 2^62"),
        ("graph make line --nodes 2 good.txt", "exists already"),
        (
            "external sort odd.u64 --record-bytes 16 --key-bytes 8 -o x",
            "at byte 16: it ends after 8",
        ),
        ("external sort odd.u64 --record-bytes 4097 --key-bytes 7 -o x", "have 1 to 4096 bytes"),
        ("external sort odd.u64 --record-bytes 0 --key-bytes 1 -o x", "have 1 to 4096 bytes"),
        (
            "external sort odd.u64 --record-bytes 7 --key-bytes 7 -o x",
            "at byte 21: it ends after 3",
        ),
        ("external sort odd.u64 --record-bytes 8 --key-bytes 9 -o x", "the key ends at byte 9"),
        ("external rank odd.u64 -o x", "of the list"),
        (
            "graph bfs good.txt --nodes 4611686018427387904",
            "a graph of 4611686018427387904 nodes is larger than any device",
        ),
    ] {
        let said = failure_of(directory, &words(line), 2);
        assert!(said.contains(told) && !said.contains("panicked"), "{line}: {said}");
        assert_eq!(names(directory), before, "{line}");
    }
    let line = "graph bfs good.txt --nodes 99999999999 --device sim:device-a";
    let said = failure_of(directory, &words(line), 3);
    assert!(said.contains("no space is left"), "{said}");
    assert!(said.contains("at least in sim:device-a, where"), "{said}");
    assert_eq!(names(directory), before, "{line}");
}

#[test]
fn records_are_sorted_by_their_keys_beyond_memory() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 40
    };
    let mut records: Vec<[u8; 16]> = (0..100_000)
        .map(|number: u64| {
            let mut record = [0; 16];
            record[..8].copy_from_slice(&(next() % 5000).to_le_bytes());
            record[8..].copy_from_slice(&number.to_be_bytes());
            record
        })
        .collect();
    fs::write(directory.join("in"), records.concat()).unwrap();
    let key = |record: &[u8; 16]| u64::from_le_bytes(record[..8].try_into().unwrap());
    for (options, by_number) in [("", false), ("--key-type little-endian", true)] {
        let line = format!(
            "external sort in --record-bytes 16 --key-bytes 8 {options} {SMALL} -o out --overwrite"
        );
        let document = json_of(directory, &line);
        assert_eq!(document["record_count"], 100_000);
        assert!(document["run_count"].as_u64().unwrap() > 1, "{document}");
        match by_number {
            true => records.sort_by_key(|record| (key(record), *record)),
            false => records.sort_unstable(),
        }
        assert!(fs::read(directory.join("out")).unwrap() == records.concat(), "{line}");
    }
    assert_eq!(names(directory), ["in", "out"]);
}

#[test]
fn room_of_runs_that_were_merged_is_used_again() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    // 12 MiB, some 80 runs, of which a merge takes about 20: most are merged before the last one.
    stdout_of(directory, &words("graph make random --nodes 100000 --edges 786432 g.u64"));
    let line = "external sort g.u64 --record-bytes 16 --key-bytes 8 -o out --memory 200KiB \
                --block-size 8KiB --device sim:optane-like --capacity 19MiB";
    let document = json_of(directory, line);
    assert!(document["run_count"].as_u64().unwrap() > 60, "{document}");
    // More is written than there is room for.
    assert!(document["write_bytes"].as_u64().unwrap() > 19 << 20, "{document}");
}

#[test]
fn a_sort_is_predicted_from_a_probe_of_its_drive() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let drive = "sim:optane-like";
    stdout_of(
        directory,
        &words(&format!("probe {drive} --size 300MiB --queue-depth 1,5 --profile drive.json")),
    );
    stdout_of(directory, &words("graph make random --nodes 100000 --edges 300000 g.u64"));
    let sort = format!(
        "external sort g.u64 --record-bytes 16 --key-bytes 8 -o out --overwrite {SMALL} --device"
    );
    let document = json_of(directory, &format!("{sort} {drive} --predict drive.json"));
    assert_eq!(document["prediction"]["device"], drive);
    let nanos = |key: &str| document["prediction"][key].as_u64().unwrap() as f64;
    // The clock of a simulated drive knows nothing else.
    let ratio = nanos("predicted_ns") / nanos("elapsed_ns");
    assert!((0.85..1.15).contains(&ratio), "{document}");
    let said = stdout_of(directory, &words(&format!("{sort} {drive} --predict drive.json")));
    let told = "predicted for temporary files, from the profile of sim:optane-like: ";
    assert!(said.starts_with(told) && said.contains("temporary files are a part"), "{said}");
    assert_eq!(document["prediction"]["differs"], false, "{document}");
    assert!(said.contains(", within 15 %"), "{said}");
    // Of another drive, which was not probed, it differs, and that is told.
    let other = json_of(directory, &format!("{sort} sim:hama --in-flight 4 --predict drive.json"));
    assert_eq!(other["prediction"]["differs"], true, "{other}");
    fs::write(directory.join("no.json"), "{}").unwrap();
    let profile = fs::read_to_string(directory.join("drive.json")).unwrap();
    let zero = profile.replacen("\"request_bytes\": 4096", "\"request_bytes\": 0", 1);
    fs::write(directory.join("zero.json"), zero).unwrap();
    let deep = profile.replace("\"queue_depth\": 1,", "\"queue_depth\": 2,");
    fs::write(directory.join("deep.json"), deep).unwrap();
    let before = names(directory);
    for (rest, told) in [
        (format!("{drive},{drive} --predict drive.json"), "--predict knows one drive"),
        (format!("{drive} --predict no.json"), "no.json"),
        (format!("{drive} --predict nothing.json"), "nothing.json"),
        (format!("{drive} --predict zero.json"), ": `request_bytes` is 0, and is 1 to"),
        (format!("{drive} --predict deep.json"), "`queue_depth` 1; probe the drive"),
        (format!("{drive} --in-flight 1 --predict drive.json"), "--queue-depth 1,2"),
    ] {
        let said = failure_of(directory, &words(&format!("{sort} {rest}")), 2);
        assert!(said.contains(told) && !said.contains("panicked"), "{rest}: {said}");
    }
    assert_eq!(names(directory), before);
}

#[test]
fn a_ranking_and_a_search_are_predicted_from_a_probe_of_their_drive() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let drive = "sim:optane-like";
    let probe = format!("probe {drive} --size 300MiB --queue-depth 1,5,10 --profile drive.json");
    stdout_of(directory, &words(&probe));
    // Each is followed by the one far from it; 60 000 words do not fit beside a stream.
    let count = 60_001_u64;
    let mut successors = vec![0; 60_001];
    let mut element = 0;
    for rank in 0..count {
        let next = (element + 40_009) % count;
        let end = rank == count - 1;
        successors[usize::try_from(element).unwrap()] = if end { u64::MAX } else { next };
        element = next;
    }
    let bytes: Vec<u8> = successors.iter().flat_map(|next: &u64| next.to_le_bytes()).collect();
    fs::write(directory.join("list"), bytes).unwrap();
    let rank = format!("external rank list -o ranks --memory 200KiB --overwrite --device {drive}");
    let document = json_of(directory, &format!("{rank} --predict drive.json"));
    assert_eq!(document["prediction"]["differs"], false, "{document}");
    stdout_of(directory, &words("graph make random --nodes 8000 --edges 40000 g.u32"));
    let search = format!("graph bfs g.u32 {SMALL} --device {drive} --predict drive.json");
    let document = json_of(directory, &format!("{search} --nodes 8000"));
    let prediction = &document["prediction"];
    assert_eq!(prediction["assumed_levels"], "random", "{document}");
    for step in ["building", "searching"] {
        assert_eq!(prediction[step]["differs"], false, "{step}: {document}");
    }
    let said = stdout_of(directory, &words(&format!("{search} --expect-levels 7")));
    for told in [
        "building the graph is not predicted",
        "7 levels assumed, with as many nodes each",
        "nodes of a level lie anywhere",
        "the search took",
    ] {
        assert!(said.contains(told), "{told}: {said}");
    }
    let document = json_of(directory, &format!("{search} --nodes 8000 --algorithm mm"));
    let prediction = &document["prediction"];
    for step in ["building", "clustering", "searching"] {
        assert!(prediction[step]["predicted_ns"].as_u64() > Some(0), "{step}: {document}");
    }
    assert_eq!(prediction["clustering"]["differs"], false, "{document}");
    let said = stdout_of(directory, &words(&format!("{search} --algorithm mm")));
    for told in ["making clusters took", "its clusters lie anywhere", "the search took"] {
        assert!(said.contains(told), "{told}: {said}");
    }
}

#[test]
fn ctrl_c_ends_a_prediction() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let drive = "sim:optane-like";
    let probe = format!(
        "probe {drive} --size 16MiB --request-count 20 --queue-depth 1,5 --profile drive.json"
    );
    stdout_of(directory, &words(&probe));
    // Nothing of it takes room, and nobody waits for as many requests as it has blocks.
    fs::File::create(directory.join("long")).unwrap().set_len(256 << 30).unwrap();
    let before = names(directory);
    let sort = "external sort long --record-bytes 8 --key-bytes 8 -o out --memory 4MiB";
    let line = format!("{sort} --block-size 4KiB --device . --predict drive.json");
    let child = start(directory, &words(&line));
    while names(directory).len() == before.len() {
        std::thread::yield_now();
    }
    std::thread::park_timeout(Duration::from_millis(300));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert!(output.stdout.is_empty(), "it was predicted before it was ended");
    assert_eq!(names(directory), before, "{}", stderr(&output));
}

#[test]
fn a_list_is_ranked_beyond_memory() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let count = 60_000_u64;
    // Element i is followed by i + 7, modulo their number: one list, since they have no divisor in
    // common.
    let (mut successors, mut ranks) = (vec![0; 60_001], vec![0; 60_001]);
    let (count, mut element) = (count + 1, 0);
    for rank in 0..count {
        let next = (element + 7) % count;
        ranks[usize::try_from(element).unwrap()] = rank;
        successors[usize::try_from(element).unwrap()] =
            if rank == count - 1 { u64::MAX } else { next };
        element = next;
    }
    let bytes = |numbers: &[u64]| numbers.iter().flat_map(|n| n.to_le_bytes()).collect::<Vec<u8>>();
    fs::write(directory.join("list"), bytes(&successors)).unwrap();
    let document = json_of(directory, &format!("external rank list -o ranks {SMALL}"));
    assert_eq!(document["element_count"], count);
    assert!(fs::read(directory.join("ranks")).unwrap() == bytes(&ranks));
    assert_eq!(names(directory), ["list", "ranks"]);
}

#[test]
fn a_full_disk_is_told_and_its_room_is_given_back() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("graph make random --nodes 40000 --edges 60000 g.u64"));
    let before = names(directory);
    for line in [
        format!("graph bfs g.u64 {SMALL}"),
        format!("external sort g.u64 --record-bytes 16 --key-bytes 8 -o out {SMALL}"),
        "external sort g.u64 --record-bytes 16 --key-bytes 8 -o out".to_owned(),
        "graph make line --nodes 100000 line.txt".to_owned(),
    ] {
        let output = run_full(directory, 256 << 10, &words(&line));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{line}: {said}");
        assert!(!said.contains("panicked") && said.contains("error: "), "{line}: {said}");
        assert_eq!(names(directory), before, "{line}: {said}");
    }
}

#[test]
fn what_has_no_room_is_refused_before_it_is_read_with_the_remedy_for_its_device() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("graph make random --nodes 1000 --edges 100000 g.u64"));
    let head = "%%MatrixMarket matrix coordinate pattern general\n";
    fs::write(directory.join("m.mtx"), format!("{head}900000 900000 1\n1 2\n")).unwrap();
    fs::write(directory.join("none.mtx"), format!("{head}0 0 0\n")).unwrap();
    let before = names(directory);
    let small = format!("--device sim:optane-like --capacity 2MiB {SMALL}");
    let more = "give it more with --capacity";
    for (line, code, told) in [
        (format!("graph bfs m.mtx {small}"), 3, ["a graph of 900000 nodes would take", more]),
        (
            format!("graph bfs g.u64 --self-loops refuse {small}"),
            3,
            ["sorting 100000 edges would take", more],
        ),
        (
            "graph bfs g.u64 --nodes 18446744073709551615".to_owned(),
            2,
            ["18446744073709551615 nodes is larger than any device", ""],
        ),
        ("graph bfs none.mtx".to_owned(), 2, ["--source 0: none.mtx has 0 nodes", ""]),
        (
            "graph bfs g.u64 --memory 4MiB --in-flight 256".to_owned(),
            2,
            ["building a graph", "have fewer in flight"],
        ),
    ] {
        let said = failure_of(directory, &words(&line), code);
        assert!(told.iter().all(|told| said.contains(told)), "{line}: {said}");
        assert_eq!(names(directory), before, "{line}");
    }
    // Edges from a node to itself might be left out: it says so and begins.
    let said = failure_of(directory, &words(&format!("graph bfs g.u64 {small}")), 3);
    assert!(said.contains("unless many edges lead from a node to itself"), "{said}");
    assert!(said.contains("cannot grow in") && said.contains(more), "{said}");
}

#[test]
fn ctrl_c_ends_what_waits_and_what_works_and_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("graph make line --nodes 300000 --shuffled g.u64"));
    let before = names(directory);
    // Of a line each level is one node, which takes requests: it works for long.
    let line = format!("graph bfs g.u64 --device . {SMALL} --quiet");
    let child = start(directory, &words(&line));
    while names(directory).len() == before.len() {
        std::thread::yield_now();
    }
    std::thread::park_timeout(Duration::from_millis(300));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(names(directory), before, "{}", stderr(&output));
    // Nothing comes, and nobody closes the pipe.
    let mut command = nandu(directory, &words("graph bfs -"));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut pipe = child.stdin.take().unwrap();
    pipe.write_all(b"0 1\n1 2\n").unwrap();
    std::thread::park_timeout(Duration::from_millis(300));
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    drop(pipe);
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    assert_eq!(names(directory), before);
    let told = run(directory, &words("graph bfs g.u64 --source 300000"));
    assert_eq!(told.status.code(), Some(2), "{}", stderr(&told));
}
