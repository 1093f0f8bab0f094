//! `--json`: every command takes it, and prints what `docs/nandu.schema.json` says.

#![allow(clippy::unwrap_used, reason = "a test of a file that is not what it should be has failed")]

use crate::common::{run, schema, stderr, stdout_of};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

const SCHEMA: &str = include_str!("../../../docs/nandu.schema.json");

/// A closed form takes no time, and one claim of it holds.
const TINY: &str = "title = \"Tiny\"\nquestion = \"q\"\nmethod = \"Equation 2.2.\"\npaper = \"-\"\n\
    reference = \"none\"\n[measure]\nkind = \"closed_form\"\nread_us = 20\nwrite_us = 200\n\
    erase_us = 1500\nerase_block_page_count = 64\nlive_fractions = [0.5]\n\
    [[shape]]\nclass = \"own\"\nkind = \"value_within\"\nseries = \"dynamic\"\nlow = 460\nhigh = 470\n";

/// What `command` of the schema is printed by these words, in an order in which each finds what it needs.
const RUNS: [(&str, &str); 86] = [
    ("run", "run tiny/one --out out"),
    ("run PAPER", "run tiny --out out"),
    ("list", "list"),
    ("verify", "verify tiny/one --kept out"),
    ("verify --perturb", "verify tiny/one --perturb --out perturbed"),
    ("report", "report out"),
    ("probe", "probe sim:device-a --size 16MiB --request-count 4 --request-bytes 4KiB"),
    ("probe", "probe sim:device-a --size 16MiB --request-count 4 --series s002"),
    ("probe", "probe sim:device-a --size 4MiB --request-count 20 --series steady-state"),
    ("probe", "probe . --size 4MiB --request-bytes 4KiB --duration 20ms --queue-depth 1"),
    ("sim", "sim myers_slc --workload uniform:read=50 --physical-erase-blocks 64 --requests 100"),
    (
        "sim --sweep",
        "sim myers_slc --workload uniform --physical-erase-blocks 64 --requests 100 --sweep seed=1,2",
    ),
    ("sim --dry-run", "sim myers_slc --workload uniform --dry-run"),
    ("drives", "drives"),
    ("drives DRIVE", "drives device-a"),
    ("drives --toml", "drives --toml device-a"),
    ("drives CHIP", "drives myers_slc"),
    ("bench ycsb", "bench ycsb --records 200 --operations 20 --clients 2 --workload d"),
    ("bench ycsb", "bench ycsb --records 200 --operations 20 --device sim:nvme-tlc-2024"),
    (
        "bench ycsb",
        "bench ycsb --records 200 --operations 20 --device sim:dram-like --log sim:pcm-lines \
         --set log_writing=direct",
    ),
    ("bench tpox", "bench tpox --size 20KB --transactions 10 --mix 30 --clients 2"),
    (
        "bench tpox",
        "bench tpox --size 20KB --transactions 10 --mix 30 --warm-up 3 --device sim:nvme-tlc-2024",
    ),
    ("bench tpcc", "bench tpcc --scale 100,10 --transactions 40 --clients 2"),
    ("bench tpcc", "bench tpcc --scale 100,10 --transactions 40 --device sim:nvme-tlc-2024"),
    (
        "bench ycsb",
        "bench ycsb --records 900 --operations 600 --memory 256KiB --device sim:nvme-tlc-2024 --record page-trace",
    ),
    ("trace stat", "trace stat page-trace --log-space 20"),
    ("trace replay", "trace replay page-trace --device sim:nvme-tlc-2024"),
    ("trace tier", "trace tier page-trace --size 16,64 --policy lru,face_gsc --write-through"),
    (
        "choose",
        "choose --workload a --records 1000 --operations 100 --drives nvme-tlc-2024,wd2000jb,hama",
    ),
    ("crash", "crash --seeds 1"),
    ("crash", "crash --seeds 1 --clients 3"),
    ("crash --kill", "crash --seeds 1 --clients 2 --kill ."),
    ("crash --plant all", "crash --seeds 1 --plant all"),
    ("load", "load tpch --scale-factor 0.001 --tables customer,orders shop"),
    ("load", "load csv rows.csv --table rows of_csv"),
    ("load", "load parquet rows.parquet --table rows of_parquet"),
    ("load", "load sqlite rows.sqlite of_sqlite"),
    ("load tpox", "load tpox --size 20KB bank"),
    ("load tpcc", "load tpcc --scale 100,10 store"),
    ("db check-tpcc", "db check-tpcc store"),
    ("explain", "explain shop customer.c_custkey orders.o_custkey --memory 256KiB"),
    ("explain", "explain shop customer.c_custkey orders.o_custkey --memory 256KiB --analyze"),
    ("explain --sweep", "explain shop customer.c_custkey orders.o_custkey --sweep 256KiB"),
    ("graph make", "graph make grid --width 9 --height 9 grid.u64"),
    ("graph make", "graph make line --nodes 9 line.txt"),
    ("graph make", "graph make paths --paths 3 --levels 3 paths.u32"),
    ("graph make", "graph make random --nodes 9 --edges 9 random.mtx"),
    ("graph make", "graph make web --nodes 9 --edges 9 web.u32"),
    ("graph bfs", "graph bfs grid.u64 --device sim:nvme-tlc-2024"),
    ("graph bfs", "graph bfs grid.u64 --algorithm mm --device sim:nvme-tlc-2024"),
    (
        "external sort",
        "external sort grid.u64 --record-bytes 16 --key-bytes 8 -o sorted --device sim:nvme-tlc-2024",
    ),
    (
        "external sort",
        "external sort grid.u64 --record-bytes 16 --key-bytes 8 -o sorted --overwrite \
         --device sim:optane-like --predict drive.json",
    ),
    ("external rank", "external rank list -o ranks --device sim:nvme-tlc-2024"),
    (
        "external rank",
        "external rank list -o ranks --overwrite --device sim:optane-like --predict drive.json",
    ),
    ("graph bfs", "graph bfs grid.u64 --device sim:optane-like --predict drive.json --nodes 81"),
    ("xml import", "xml import bib.xml bib --index elements --index text://@year"),
    ("xml export", "xml export bib -o out.xml"),
    ("xml query", "xml query bib //book[@year>1990]/@year"),
    ("xml query", "xml query bib count(//*) --plan"),
    ("xml query", "xml query bib count(//*)"),
    ("xml explain", "xml explain bib //book[@year='1994']"),
    ("xml update", "xml update bib //book --insert <title>TCP/IP</title>"),
    ("xml update", "xml update bib //@year --set 1995"),
    ("xml stat", "xml stat bib"),
    ("xml import", "xml import odd.json bib --name odd --compress"),
    ("xml stat", "xml stat bib --name odd"),
    ("xml check", "xml check bib"),
    ("xml drop", "xml drop bib --name odd"),
    ("completions", "completions bash"),
    ("man", "man pages"),
    ("db create", "db create shop people id:integer name:text --key id"),
    ("db create", "db create shop notes text:text"),
    ("db load", "db load shop people rows.tsv"),
    ("db index", "db index shop notes by_text text"),
    ("db insert", "db insert shop people 8 Ole"),
    ("db insert", "db insert shop notes hello"),
    ("db get", "db get shop people 7"),
    ("db scan", "db scan shop people"),
    ("db update", "db update shop people 8 --set name=Ola"),
    ("db export", "db export shop people people.csv"),
    ("db schema", "db schema shop"),
    ("db stat", "db stat shop"),
    ("db check", "db check shop"),
    ("db backup", "db backup shop copied"),
    ("db compact", "db compact shop smaller"),
    ("db delete", "db delete shop people 8"),
];
/// Those that tell what this machine's disk, clock and processes do; all others say the same twice, but for
/// what stands under `run`.
const OF_THIS_MACHINE: [&str; 9] = [
    "probe . ",
    "bench tpcc --scale 100,10 --transactions 40 --clients 2 ",
    "bench tpox --size 20KB --transactions 10 --mix 30 --clients 2 ",
    "bench ycsb --records 200 --operations 20 --clients 2 ",
    "crash --seeds 1 --clients 2 --kill ",
    "load ",
    "xml import ",
    "explain shop customer.c_custkey orders.o_custkey --memory 256KiB --analyze",
    "explain shop customer.c_custkey orders.o_custkey --sweep ",
];
/// Those that leave less.
const LAST: [(&str, &str); 1] = [("db drop", "db drop shop people")];

#[test]
fn every_command_prints_what_the_schema_says_and_the_same_twice() {
    let schema: Value = serde_json::from_str(SCHEMA).unwrap();
    let directories = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
    directories.iter().for_each(|directory| prepare(directory.path()));
    let all = commands_below(directories[0].path(), "");
    let (mut tested, mut printed) = (BTreeSet::new(), BTreeSet::new());
    let mut repeated_count = 0;
    for (command, words) in RUNS.into_iter().chain(LAST) {
        let line = format!("{words} --json");
        let [value, again] = directories.each_ref().map(|place| document_of(place.path(), &line));
        assert_eq!(value["nandu"]["command"], command, "{line}");
        let found = schema::violations(&schema, &value);
        assert!(found.is_empty(), "{line}: {found:#?}");
        if !OF_THIS_MACHINE.iter().any(|begun| line.starts_with(begun)) {
            assert_eq!(without_run(value), without_run(again), "{line}");
            repeated_count += 1;
        }
        printed.insert(command.to_owned());
        let name = all.iter().find(|name| line.starts_with(&format!("{name} ")));
        tested.insert(name.unwrap_or_else(|| panic!("{line} is no command")).clone());
    }
    for begun in OF_THIS_MACHINE {
        assert!(RUNS.iter().any(|(_, words)| format!("{words} ").starts_with(begun)), "{begun}");
    }
    assert!(repeated_count > 30, "{repeated_count} commands were run twice");
    // Neither a command of the program nor one of the schema was left out.
    assert_eq!(tested, all);
    let of_schema =
        schema["anyOf"].as_array().unwrap().iter().map(|branch| command_of(&schema, branch));
    assert_eq!(printed, of_schema.collect());
}

/// Makes what the commands of [`RUNS`] begin with.
fn prepare(path: &Path) {
    fs::create_dir_all(path.join("experiments/tiny")).unwrap();
    fs::write(path.join("experiments/tiny/one.toml"), TINY).unwrap();
    fs::write(path.join("rows.tsv"), "7\tIda\n9\t\\N\n").unwrap();
    fs::write(path.join("bib.xml"), "<bib><book year='1994'/></bib>").unwrap();
    fs::write(path.join("odd.json"), r#"{"a": [1.50, null]}"#).unwrap();
    fs::write(path.join("rows.csv"), "id,name\n7,Ida\n").unwrap();
    let list = [2_u64, u64::MAX, 1].map(u64::to_le_bytes).concat();
    fs::write(path.join("list"), list).unwrap();
    let probe = "probe sim:optane-like --size 300MiB --request-count 50 --queue-depth 1,5 --profile drive.json";
    stdout_of(path, &words(probe));
    stdout_of(path, &words("load csv rows.csv --table rows source"));
    stdout_of(path, &words("db export source rows rows.parquet"));
    let files = fs::read_dir(path.join("source")).unwrap().map(|entry| entry.unwrap().path());
    let is_sqlite =
        |file: &Path| fs::read(file).is_ok_and(|bytes| bytes.starts_with(b"SQLite format 3"));
    fs::copy(files.into_iter().find(|file| is_sqlite(file)).unwrap(), path.join("rows.sqlite"))
        .unwrap();
}

/// What a line of words prints in a directory, whose own name is taken out.
fn document_of(path: &Path, line: &str) -> Value {
    let text = stdout_of(path, &words(line)).replace(path.to_str().unwrap(), "HERE");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{line}: {error} in {text}"))
}

fn without_run(mut document: Value) -> Value {
    document.as_object_mut().unwrap().remove("run");
    document
}

/// The commands below one, each in full, that have none below themselves.
fn commands_below(path: &Path, command: &str) -> BTreeSet<String> {
    let help: Vec<&str> = command.split_whitespace().chain(["--help"]).collect();
    let below = commands_in(path, &help);
    if below.is_empty() {
        return BTreeSet::from([command.to_owned()]);
    }
    let in_full = |name: &String| format!("{command} {name}").trim_start().to_owned();
    below.iter().map(in_full).flat_map(|command| commands_below(path, &command)).collect()
}

/// The words of a line.
fn words(line: &str) -> Vec<&str> {
    line.split(' ').collect()
}

/// The names under `Commands:` in a help text.
fn commands_in(path: &Path, words: &[&str]) -> BTreeSet<String> {
    let help = stdout_of(path, words);
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let names = lines.take_while(|line| !line.is_empty()).filter_map(|line| {
        // What is indented further goes on with the line before it.
        let name = line.strip_prefix("  ").filter(|rest| !rest.starts_with(' '))?;
        name.split(' ').next().map(str::to_owned)
    });
    names.filter(|name| name != "help").collect()
}

/// The name of the command whose document a branch of the schema describes.
fn command_of(schema: &Value, branch: &Value) -> String {
    let pointer = branch["$ref"].as_str().unwrap().strip_prefix('#').unwrap();
    let definition = schema.pointer(pointer).unwrap();
    let definition = definition.pointer("/allOf/0").unwrap_or(definition);
    let name = definition.pointer("/properties/nandu/allOf/1/properties/command/const");
    name.unwrap().as_str().unwrap().to_owned()
}

#[test]
fn the_verdict_of_a_shape_has_its_value_its_bounds_and_its_place() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("tiny.toml"), TINY).unwrap();
    let said = stdout_of(directory.path(), &["verify", "tiny.toml", "--json"]);
    let said: Value = serde_json::from_str(&said).unwrap();
    let decided = &said["experiments"][0]["verdicts"][0]["decided"];
    let number = |key: &str| decided[key].as_f64().unwrap_or_else(|| panic!("{key} in {decided}"));
    assert!((460.0..=470.0).contains(&number("value")), "{decided}");
    assert_eq!((number("low"), number("high"), number("x")), (460.0, 470.0, 0.5));
}

#[test]
fn a_command_that_fails_prints_no_json_and_says_why_on_stderr() {
    let directory = tempfile::tempdir().unwrap();
    for words in ["db stat nowhere", "probe sim:nothing", "explain nowhere a.b c.d", "run nothing"]
    {
        let words: Vec<&str> = words.split(' ').chain(["--json"]).collect();
        let output = run(directory.path(), &words);
        assert!(output.stdout.is_empty(), "{words:?}");
        assert!(stderr(&output).starts_with("error: "), "{words:?}: {}", stderr(&output));
    }
}

#[test]
fn rows_are_one_document_or_lines_but_not_both() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    stdout_of(path, &["db", "create", "shop", "t", "a:integer"]);
    let empty: Value =
        serde_json::from_str(&stdout_of(path, &["db", "scan", "shop", "t", "--json"])).unwrap();
    assert_eq!(empty["rows"], json!([]));
    for value in ["-1", "2"] {
        stdout_of(path, &["db", "insert", "shop", "t", value]);
    }
    let rows: Value =
        serde_json::from_str(&stdout_of(path, &["db", "--json", "scan", "shop", "t"])).unwrap();
    assert_eq!(rows["rows"], json!([{ "a": -1 }, { "a": 2 }]));
    let both = run(path, &["db", "scan", "shop", "t", "--json", "--format", "json"]);
    assert_eq!(both.status.code(), Some(2), "{}", stderr(&both));
}
