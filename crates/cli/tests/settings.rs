//! Every setting of the engine, by `--set` of the commands that make databases or open them.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, run, stderr, stdout_of};
use nandu::named_settings::{names, with_another_value};
use serde_json::Value;
use std::path::Path;

/// What fixes others: where pages are appended, none is torn; and what has settings of its own for them.
const OF_OTHERS: &str = "propagation";
const OTHERS: [&str; 3] = ["log_structured", "page_differential", "in_page_logging"];
/// And what needs chips, which no directory has.
const ON_CHIPS: &str = "page_differential_chips";

/// What is chosen at each opening and kept nowhere; that it is heard `bench::a_log_lies_where_…` and
/// `bench::a_group_of_commits_…` see.
const OF_OPENINGS: [&str; 2] = ["log_writing", "commit_group_count"];

/// Another value for each of these, as options.
fn options_of<'n>(names: impl Iterator<Item = &'n String>) -> Vec<String> {
    let option = |name: &String| format!("--set={name}={}", with_another_value(name).unwrap().1);
    names.map(option).collect()
}

fn with<'w>(words: &'w str, options: &'w [String]) -> Vec<&'w str> {
    words.split(' ').chain(options.iter().map(String::as_str)).collect()
}

/// The settings with which a database was made, as its file has them: text behind 24 bytes.
fn kept(directory: &Path) -> Value {
    let bytes = std::fs::read(directory.join("settings")).unwrap();
    let text = bytes[24..].split(|&byte| byte == 0).next().unwrap();
    serde_json::from_slice(text).unwrap()
}

#[test]
fn commands_that_make_a_database_reach_every_setting() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    std::fs::write(directory.join("rows.csv"), "id\n1\n").unwrap();
    let all = names();
    let is_of =
        |name: &str, kind: &str| name.strip_prefix(kind).is_some_and(|it| it.starts_with('.'));
    for kind in [None, Some(OTHERS[0]), Some(OTHERS[1])] {
        let is_of_others =
            |name: &str| is_of(name, ON_CHIPS) || OTHERS.iter().any(|kind| is_of(name, kind));
        let is_chosen = |name: &str| match kind {
            None => name != OF_OTHERS && !is_of_others(name),
            Some(kind) => is_of(name, kind),
        };
        let chosen = || all.iter().filter(|name| is_chosen(name));
        let mut options = options_of(chosen());
        options.extend(kind.map(|kind| format!("--set={OF_OTHERS}={kind}")));
        for (words, made) in [
            ("db create made t id:integer", "made"),
            ("load csv rows.csv --table t loaded", "loaded"),
        ] {
            stdout_of(directory, &with(words, &options));
            let kept = kept(&directory.join(made));
            for name in chosen() {
                let found = kept.pointer(&format!("/{}", name.replace('.', "/")));
                let expected = with_another_value(name).unwrap().1;
                let expected = (!OF_OPENINGS.contains(&name.as_str())).then_some(&expected);
                assert_eq!(found, expected, "{words} {name}");
            }
            assert_eq!(kept[OF_OTHERS], kind.unwrap_or("in_place"), "{words}");
            assert!(stdout_of(directory, &["db", "check", made]).contains(" looked at"));
            std::fs::remove_dir_all(directory.join(made)).unwrap();
        }
        stdout_of(directory, &with("bench ycsb --records 50 --operations 5", &options));
    }
    let mut options = options_of(all.iter().filter(|name| is_of(name, ON_CHIPS)));
    assert_eq!(options.len(), 4);
    options.push(format!("--set={OF_OTHERS}={ON_CHIPS}"));
    for words in [
        "db create made t id:integer",
        "load csv rows.csv --table t loaded",
        "bench ycsb --records 50 --operations 5",
    ] {
        let told = failure_of(directory, &with(words, &options), 2);
        assert!(told.contains("raw flash `chips`"), "{words}: {told}");
        assert!(told.contains("take a simulated drive, which has chips"), "{words}: {told}");
    }
    let words = "bench ycsb --records 50 --operations 5 --device sim:device-a";
    stdout_of(directory, &with(words, &options));
    // What would not stay, since it is of another propagation, is refused.
    for words in ["db create made t id:integer", "bench ycsb --records 50 --operations 5"] {
        let set = "--set=log_structured.victim=fifo".to_owned();
        let told = failure_of(directory, &with(words, &[set]), 2);
        assert!(told.contains("of another propagation than `in_place`"), "{words}: {told}");
        assert!(told.contains("add --set propagation=log_structured"), "{words}: {told}");
    }
    assert!(!directory.join("made").exists() && !directory.join("loaded").exists());
}

#[test]
fn commands_that_open_a_database_reach_what_does_not_stay() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    std::fs::write(directory.join("rows.tsv"), "1\n").unwrap();
    stdout_of(directory, &["db", "create", "shop", "t", "id:integer"]);
    let commands = [
        "db load shop t rows.tsv",
        "db index shop t by_id id",
        "db scan shop t",
        "db export shop t rows.csv",
        "db check shop",
        "db stat shop",
        "db backup shop copy",
        "db compact shop smaller",
    ];
    for name in names() {
        let (_, value) = with_another_value(&name).unwrap();
        let set = format!("--set={name}={value}");
        let output = run(directory, &["db", "check", "shop", &set]);
        let stays = ["page_bytes", "propagation", "torn_pages", "log_bytes"]
            .contains(&name.as_str())
            || name.ends_with(".segment_bytes")
            || name.ends_with(".segment_block_count")
            || ["erase_blocks_per_unit", "log_region_bytes", "log_sector_bytes"]
                .iter()
                .any(|it| name.strip_suffix(it) == Some("in_page_logging."));
        let (code, said) = (output.status.code(), stderr(&output));
        assert_eq!(code, Some(if stays { 2 } else { 0 }), "{set}: {said}");
        assert_eq!(said.contains("was made with another value, which stays"), stays, "{said}");
    }
    for command in commands {
        let told = failure_of(directory, &with(command, &["--set=pool_bytes=1".to_owned()]), 2);
        assert!(told.contains("pool_bytes 1 is below"), "{command}: {told}");
        let told = failure_of(directory, &with(command, &["--set=log_bytes=1GiB".to_owned()]), 2);
        assert!(told.contains("log_bytes=1GiB: shop was made with another"), "{command}: {told}");
        stdout_of(directory, &with(command, &["--set=pool_bytes=1MiB".to_owned()]));
    }
    let told =
        failure_of(directory, &["db", "scan", "shop", "t", "--set=pool_bytes=1000000TiB"], 2);
    assert!(told.contains("of memory"), "{told}");
}
