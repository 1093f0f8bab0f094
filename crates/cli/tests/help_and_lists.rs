//! What the program says about itself, and how it takes wrong words.

use crate::common::{failure_of, nandu, run, stdout_of};
use std::io::Read;
use std::process::Stdio;

#[test]
fn every_command_has_help_with_examples_within_100_columns() {
    let directory = tempfile::tempdir().unwrap();
    for command in ["run", "list", "verify", "report", "probe", "sim", "drives", "load"] {
        let help = stdout_of(directory.path(), &[command, "--help"]);
        assert!(help.contains("Examples:"), "{command}: {help}");
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(103), "{command}: {widest:?}");
    }
    let help = stdout_of(directory.path(), &["--help"]);
    for part in ["Exit codes:", "130", "sim:NAME"] {
        assert!(help.contains(part), "{help}");
    }
}

#[test]
fn help_fits_80_columns_and_breaks_no_line_early() {
    let directory = tempfile::tempdir().unwrap();
    let commands = "run list verify report probe sim drives load db crash explain";
    let below = "bench ycsb,graph bfs,graph make,external sort,external rank,trace stat,\
                 trace replay,trace tier";
    let commands = commands.split(' ').chain(below.split(',')).map(Some).chain([None]);
    for command in commands {
        let words = command.into_iter().flat_map(|command| command.split(' ')).chain(["--help"]);
        let words: Vec<&str> = words.collect();
        let output = nandu(directory.path(), &words).env("COLUMNS", "80").output().unwrap();
        let help = String::from_utf8(output.stdout).unwrap();
        let tail = help.split_once("\nExamples:\n").unwrap_or_else(|| panic!("{words:?}")).1;
        let lines: Vec<&str> = tail.lines().collect();
        for pair in lines.windows(2) {
            let [line, next] = pair else { unreachable!("windows of two") };
            assert!(line.chars().count() <= 80, "{words:?}: {line}");
            let is_text = |line: &str| !line.is_empty() && !line.starts_with(' ');
            if is_text(line) && is_text(next) && !line.ends_with(':') {
                let word = next.split(' ').next().unwrap();
                let together = line.chars().count() + 1 + word.chars().count();
                assert!(together > 80, "{words:?}: `{word}` fits behind: {line}");
            }
        }
    }
}

#[test]
fn wrong_usage_is_code_2_and_says_what_was_meant() {
    let directory = tempfile::tempdir().unwrap();
    let said = failure_of(directory.path(), &["prob"], 2);
    assert!(said.contains("probe"), "{said}");
    let said = failure_of(directory.path(), &["probe", "sim:device-a", "--sise", "1MiB"], 2);
    assert!(said.contains("--size"), "{said}");
    let said = failure_of(directory.path(), &["db", "stat", "nope"], 2);
    assert!(said.contains("there is no file or directory nope"), "{said}");
    let said = failure_of(directory.path(), &["probe", ".", "--duration", "3"], 2);
    assert!(said.contains("3s"), "{said}");
}

#[test]
fn drives_are_listed_within_100_columns_and_as_json() {
    let directory = tempfile::tempdir().unwrap();
    let table = stdout_of(directory.path(), &["drives"]);
    assert!(table.contains("sim:device-a"), "{table}");
    assert!(table.lines().all(|line| line.chars().count() <= 100), "{table}");
    // Who lists drives wants to name one: titles are cut, addresses are not.
    let output = nandu(directory.path(), &["drives"]).env("COLUMNS", "80").output().unwrap();
    let narrow = String::from_utf8(output.stdout).unwrap();
    assert!(narrow.contains("sim:memorex-mini-traveldrive-512m  "), "{narrow}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout_of(directory.path(), &["drives", "--json"])).unwrap();
    let drives = json["drives"].as_array().unwrap();
    assert!(drives.iter().any(|drive| drive["address"] == "sim:wd2000jb"));
    for drive in drives {
        for figure in drive["figures"].as_array().unwrap() {
            assert!(figure["source"].as_str().is_some_and(|source| source.starts_with('[')));
        }
    }
}

#[test]
fn one_drive_is_shown_with_the_source_of_every_figure() {
    let directory = tempfile::tempdir().unwrap();
    let text = stdout_of(directory.path(), &["drives", "sim:device-a"]);
    assert!(text.contains("ssd.channel_count"), "{text}");
    assert!(text.contains("[S] S000"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    for (drive, said) in [
        ("ocz-core", "price     $230.99 (2009, [S])\n"),
        ("ocz-core", " erase blocks, each erased "),
        ("optane-like", " lines, each written 1000000 times"),
        ("wd800aajs", "does not wear by work"),
        ("hama", "price     not known"),
        ("hama", "power     not known"),
        ("supertalent-duradrive", "power     known"),
    ] {
        let text = stdout_of(directory.path(), &["drives", drive]);
        assert!(text.contains(said), "{drive}: {text}");
    }
    let said = failure_of(directory.path(), &["drives", "device-aa"], 2);
    assert!(said.contains("did you mean `device-a`"), "{said}");
}

#[test]
fn experiments_are_listed_and_a_wrong_name_is_corrected() {
    let directory = tempfile::tempdir().unwrap();
    let list = stdout_of(directory.path(), &["list"]);
    assert!(list.contains("tour") && list.contains("s000/table-3-1"), "{list}");
    assert!(list.lines().all(|line| line.chars().count() <= 100), "{list}");
    let json: serde_json::Value =
        serde_json::from_str(&stdout_of(directory.path(), &["list", "--json"])).unwrap();
    assert!(
        json["experiments"].as_array().unwrap().iter().all(|entry| entry["error"].is_null()),
        "{json}"
    );
    let said = failure_of(directory.path(), &["run", "tuor"], 2);
    assert!(said.starts_with("error: ") && said.contains("did you mean `tour`"), "{said}");
    assert!(crate::common::names(directory.path()).is_empty(), "a typo leaves nothing");
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let directory = tempfile::tempdir().unwrap();
    let mut child = nandu(directory.path(), &["drives", "--json"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0), "{said}");
    assert_eq!(said, "");
}

#[test]
fn a_report_of_nothing_says_what_to_do() {
    let directory = tempfile::tempdir().unwrap();
    let said = failure_of(directory.path(), &["report", "nowhere"], 2);
    assert!(said.contains("nowhere"), "{said}");
    let output = run(directory.path(), &["report", "."]);
    assert_eq!(output.status.code(), Some(2));
    assert!(crate::common::stderr(&output).contains("nandu run"));
}

#[test]
fn the_version_says_the_commit_it_was_built_from() {
    let directory = tempfile::tempdir().unwrap();
    let said = stdout_of(directory.path(), &["--version"]);
    let rest = said.strip_prefix(concat!("nandu ", env!("CARGO_PKG_VERSION"))).unwrap().trim();
    // Without a repository there is no commit to tell.
    let is_commit = |text: &str| text.len() == 12 && text.chars().all(|c| c.is_ascii_hexdigit());
    let inside = rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')'));
    assert!(rest.is_empty() || inside.is_some_and(is_commit), "{said}");
}

#[test]
fn shells_and_man_learn_every_command() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = stdout_of(path, &["completions", shell]);
        for word in ["explain", "completions", "queue-depth"] {
            assert!(script.contains(word), "{shell} knows no {word}");
        }
    }
    stdout_of(path, &["man", "man1"]);
    let pages = crate::common::names(&path.join("man1"));
    for page in ["nandu.1", "nandu-probe.1", "nandu-db.1", "nandu-db-load.1", "nandu-man.1"] {
        assert!(pages.iter().any(|name| name == page), "{page} is not in {pages:?}");
    }
    let page = std::fs::read_to_string(path.join("man1/nandu-db-load.1")).unwrap();
    assert!(page.contains("nandu db load") && page.contains("skip"), "{page}");
    let said = failure_of(path, &["man", "man1"], 2);
    assert!(said.contains("--overwrite"), "{said}");
    stdout_of(path, &["man", "man1", "--overwrite"]);
}

#[test]
fn a_profile_is_printed_as_the_file_that_it_is_and_can_be_used_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let text = stdout_of(path, &["drives", "--toml", "device-a"]);
    let own = include_str!("../../../profiles/device-a.toml");
    assert_eq!(text, own);
    let document = stdout_of(path, &["drives", "--toml", "device-a", "--json"]);
    let document: serde_json::Value = serde_json::from_str(&document).unwrap();
    assert_eq!((&document["address"], &document["toml"]), (&"sim:device-a".into(), &own.into()));
    std::fs::write(path.join("mine.toml"), &text).unwrap();
    let shown = stdout_of(path, &["drives", "mine.toml"]);
    assert!(shown.contains("sim:mine") && shown.contains("ssd.channel_count"), "{shown}");
    let said = failure_of(path, &["drives", "--toml", "myers_slc"], 2);
    assert!(said.contains("is a chip") && said.contains("chip = \"myers_slc\""), "{said}");
}

#[test]
fn chips_are_listed_and_shown_with_their_source() {
    let directory = tempfile::tempdir().unwrap();
    let table = stdout_of(directory.path(), &["drives"]);
    assert!(table.contains("myers_slc") && table.contains("tlc_2026"), "{table}");
    let chip = stdout_of(directory.path(), &["drives", "myers_slc"]);
    assert!(chip.contains("[S]") && chip.contains("200 us"), "{chip}");
    assert!(chip.lines().all(|line| line.chars().count() <= 100), "{chip}");
}

#[test]
fn quiet_leaves_out_progress_and_keeps_errors() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path();
    let words = ["run", "s000/figure-2-1", "--out", "a"];
    assert!(crate::common::stderr(&run(path, &words)).contains("[ 1/"));
    let output = run(path, &[&words[..3], &["b", "--quiet"]].concat());
    assert_eq!((output.status.code(), crate::common::stderr(&output).as_str()), (Some(0), ""));
    let said = failure_of(path, &["-q", "run", "tuor"], 2);
    assert!(said.contains("did you mean"), "{said}");
}
