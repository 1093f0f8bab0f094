//! Errors are for who runs the program: none shows a name of Rust's types, and none is a panic.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{run, stderr, stdout_of};
use std::fs;
use std::path::Path;

/// Commands that fail over files that [`write_files`] writes, and over no files at all.
const FAILING: [&str; 98] = [
    "sim myers_slc --trace bad.csv",
    "sim myers_slc --trace bad.gz",
    "sim myers_slc --trace bad.zst",
    "sim myers_slc --trace none",
    "sim myers_slc --trace .",
    "sim myers_slc --trace bad.csv --columns x",
    "sim myers_slc --trace bad.csv --speed-up x",
    "sim myers_slc --workload unifrom",
    "sim myers_slc --workload uniform:read=x",
    "sim nothing --workload uniform",
    "sim wd2000jb --workload uniform",
    "sim myers_slc --workload uniform --ftl x",
    "sim myers_slc --workload uniform --victim x",
    "sim myers_slc --workload uniform --set ssd.x=3",
    "sim myers_slc --workload uniform --set ftl=3",
    "sim myers_slc --workload uniform --set channel_count=x",
    "sim myers_slc --workload uniform --set ftl.victim_choices=-3",
    "sim myers_slc --workload uniform --set chip_overrides.rules=3",
    "sim myers_slc --workload uniform --set chip=3",
    "sim myers_slc --workload uniform --set suspend=3",
    "sim myers_slc --workload uniform --set bus=x",
    "sim myers_slc --workload uniform --sweep x=1",
    "sim myers_slc --workload uniform --sweep seed=x",
    "sim myers_slc --workload uniform --sweep mode=x",
    "sim myers_slc --workload uniform --sweep warm-up=x",
    "sim myers_slc --workload uniform --write-buffer-units 3",
    "sim myers_slc --workload uniform --json none/x",
    "sim myers_slc --workload uniform --requests 10 --physical-erase-blocks 3",
    "probe none",
    "probe sim:x",
    "probe array:x",
    "probe array:stripe:sim:x*2",
    "probe /dev/null",
    "probe /proc",
    "probe . --size 1",
    "probe . --size 7000TiB",
    "probe sim:device-a --size 1",
    "probe sim:device-a --request-bytes 7",
    "probe sim:device-a --plan none",
    "probe sim:device-a --plan .",
    "probe sim:device-a --plan plan1.toml",
    "probe sim:device-a --plan plan2.toml",
    "probe sim:device-a --job none",
    "load csv short.csv --table t d",
    "load csv bytes.csv --table t d",
    "load csv quote.csv --table t d",
    "load csv none.csv --table t d",
    "load csv . --table t d",
    "load csv short.csv --table t /proc/x",
    "load csv good.csv --table t --key z d",
    "load parquet bad.csv --table t d",
    "load parquet . --table t d",
    "load sqlite bad.csv d",
    "load sqlite . d",
    "load tpch --tables foo d",
    "load tpch --scale-factor -1 d",
    "load tpch --memory 1KiB --tables region d",
    "load tpch --memory 900TiB --tables region d",
    "load tpch --page-size 7 --tables region d",
    "db create shop t a:integer",
    "db create d t a:x",
    "db create d t a:integer a:text",
    "db create d t a:integer --key b",
    "db create bad.csv t a:integer",
    "db load shop t bad.csv",
    "db load shop nothing bad.csv",
    "db load shop t .",
    "db index shop t i x",
    "db get shop t x",
    "db get shop t 99",
    "db scan shop nothing",
    "db scan none t",
    "db scan . t",
    "db export shop t x.foo",
    "db export shop t none/x.csv",
    "db insert shop t 1 2",
    "db insert shop t x",
    "db update shop t 1 --set x=3",
    "db delete shop t 99",
    "db drop shop nothing",
    "db backup shop shop",
    "db backup none new",
    "db compact shop shop",
    "db check none",
    "db stat bad.csv",
    "explain none a.b c.d",
    "explain shop t.x t.a",
    "explain shop t.a t.a --processor list.json",
    "explain shop t.a t.a --processor bad.csv",
    "explain shop t.a t.a --profile list.json",
    "explain shop t.a t.a --profile version.json",
    "explain shop t.a t.a --analyze --join x",
    "explain shop t.a t.a --memory 4KiB",
    "run nothing",
    "run s000/figure-2-1 --out /proc/x",
    "verify tour --kept none",
    "report none",
    "drives none",
];

const EXPERIMENT: &str = "title = \"T\"\nquestion = \"q\"\nmethod = \"m\"\npaper = \"-\"\n\
    reference = \"none\"\n[measure]\nkind = \"closed_form\"\nread_us = 20\nwrite_us = 200\n\
    erase_us = 1500\nerase_block_page_count = 64\nlive_fractions = [0.5]\n";

fn write_files(path: &Path) {
    let files: [(&str, &[u8]); 10] = [
        ("bad.csv", b"x\n"),
        ("bad.gz", b"\x1f\x8b\x08xxxx"),
        ("bad.zst", b"\x28\xb5\x2f\xfdxxxx"),
        ("short.csv", b"a,b\n1\n"),
        ("bytes.csv", b"a,b\n\xff\xff,2\n"),
        ("quote.csv", b"a,b\n\"x,2\n"),
        ("good.csv", b"a\n1\n"),
        ("list.json", b"[]"),
        ("version.json", b"{\"version\":\"x\"}"),
        ("plan1.toml", b"steps = 3\n"),
    ];
    for (name, content) in files {
        fs::write(path.join(name), content).unwrap();
    }
    fs::write(path.join("plan2.toml"), "[[step]]\nprepare = 3\n").unwrap();
    stdout_of(path, &["db", "create", "shop", "t", "a:integer"]);
}

/// Texts of profiles and experiments with a value of another kind than belongs there.
fn wrong_files() -> Vec<(String, String, &'static str)> {
    let profile = include_str!("../../../profiles/device-a.toml");
    let line = profile.lines().find(|line| line.starts_with("channel_count")).unwrap();
    let mut files = Vec::new();
    for value in ["\"x\"", "-1", "1.5", "[]", "{}", "true", "99999999999999999999"] {
        let text = profile.replace(line, &format!("channel_count = {value}"));
        files.push((format!("profile{}.toml", files.len()), text, "drives"));
    }
    for text in ["ssd = 1\n", "= =", "", "kind = \"x\"\n"] {
        files.push((format!("profile{}.toml", files.len()), text.into(), "drives"));
    }
    let more = ["[[shape]]\nkind = 3\n", "[[figure]]\nx = 3\n", "[full]\nkind = 3\n"];
    let at =
        "[[shape]]\nclass = \"own\"\nkind = \"value_within\"\nseries = \"dynamic\"\nat = \"x\"\n";
    for end in more.into_iter().chain([at]) {
        files.push((format!("run{}.toml", files.len()), format!("{EXPERIMENT}{end}"), "run"));
    }
    for (key, value) in [("read_us = 20", "read_us = \"x\""), ("= [0.5]", "= 3")] {
        files.push((format!("run{}.toml", files.len()), EXPERIMENT.replace(key, value), "run"));
    }
    files.push(("run-measure.toml".into(), "measure = 3\n".into(), "run"));
    files
}

#[test]
fn no_error_shows_a_name_of_rusts_types() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    write_files(path);
    let mut commands: Vec<String> = FAILING.iter().map(ToString::to_string).collect();
    for (name, text, command) in wrong_files() {
        fs::write(path.join(&name), text).unwrap();
        commands.push(format!("{command} {name}"));
    }
    for command in commands {
        let output = run(path, &command.split(' ').collect::<Vec<_>>());
        let said = stderr(&output);
        let code = output.status.code();
        assert!(code.is_some_and(|code| [1, 2, 3].contains(&code)), "{command}: {code:?}, {said}");
        assert!(said.contains("error: "), "{command}: {said}");
        let found = rust_in(&said);
        assert!(found.is_none(), "{command}: {found:?} in {said}");
    }
}

/// What a text has of Rust.
fn rust_in(text: &str) -> Option<String> {
    let marks = [
        "::", "Some(", "Err(", "Ok(", "Custom {", "Os {", "panicked", "struct ", "enum ",
        "untagged",
    ];
    if let Some(mark) = marks.into_iter().find(|mark| text.contains(mark)) {
        return Some(mark.to_owned());
    }
    let words = text.split(|letter: char| !letter.is_alphanumeric() && letter != '_');
    let is_number =
        |word: &str| ["u8", "u16", "u32", "u64", "i64", "i128", "f64", "usize"].contains(&word);
    let is_name = |word: &str| {
        let is_camel = word.starts_with(|first: char| first.is_ascii_uppercase())
            && word.chars().skip(1).any(|letter| letter.is_ascii_uppercase())
            && word.chars().any(|letter| letter.is_ascii_lowercase());
        // Units of binary sizes, and the program of that name.
        is_camel && !["KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "SQLite"].contains(&word)
    };
    words.into_iter().find(|word| is_number(word) || is_name(word)).map(str::to_owned)
}

#[test]
fn control_characters_of_input_are_escaped_wherever_they_are_shown() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let table = "t\u{1b}[2J\u{9b}";
    let field = "\u{1b}]0;title\u{7}";
    let header = "a\u{1b}[31m";
    fs::write(path.join("f\u{1b}[1m.csv"), format!("{header},b\n{field},\"x\"y\n")).unwrap();
    fs::write(path.join("g.csv"), format!("{header}:b\n{field}\n")).unwrap();
    let experiment = EXPERIMENT.replace("\"T\"", "\"T\\u001b[31m\\r\"");
    fs::write(path.join("e.toml"), experiment.replace("closed_form", "\\u001b[31m")).unwrap();
    fs::write(path.join("title.toml"), experiment).unwrap();
    let commands: [&[&str]; 13] = [
        &["load", "csv", "f\u{1b}[1m.csv", "--table", "t", "d"],
        &["load", "csv", "g.csv", "--table", "t", "--types", &format!("{header}:b:integer"), "d"],
        &["load", "csv", "none\n\u{1b}[31m", "--table", "t", "d"],
        &["load", "csv", "g.csv", "--table", table, "shop"],
        &["db", "create", "shop", table, "a:integer"],
        &["db", "create", "shop", "u", "a\u{1b}[31m:integer"],
        &["db", "create", "shop", "u\u{1b}[31m", "a:integer"],
        &["db", "scan", "shop", table],
        &["db", "stat", "shop"],
        &["db", "get", "shop\u{1b}[31m", "t", "1"],
        &["run", "e.toml"],
        &["run", "title.toml", "--out", "o\u{1b}[31m"],
        &["drives", "\u{1b}[31m"],
    ];
    let mut escaped_count = 0;
    for command in commands {
        let output = run(path, command);
        for said in [&output.stdout, &output.stderr] {
            let said = String::from_utf8_lossy(said).into_owned();
            let raw = said.chars().find(|sign| sign.is_control() && *sign != '\n');
            assert_eq!(raw, None, "{command:?}: {said:?}");
            escaped_count += said.matches("\\u{").count();
        }
    }
    assert!(escaped_count > 12, "{escaped_count}");
}
