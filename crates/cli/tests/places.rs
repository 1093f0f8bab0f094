//! Places where nothing can be written, and sources from which nothing comes.
//!
//! 1. Where nothing can be written the error says so before anything is measured, and nothing is half made.
//! 2. Whoever waits for a pipe hears Ctrl-C: the program ends within two seconds and leaves nothing behind.
//! 3. What only reads writes nothing, and waits for nobody.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{
    Nobody, failure_of, interrupt, names, nandu, run_under, set_mode, start, stderr, stdout_of,
};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

/// A small drive that is simulated in a moment.
const SIM: &str = "sim myers_slc --physical-erase-blocks 128 --logical-pages 6144 --workload uniform \
                   --requests 100";

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

#[test]
fn where_nothing_can_be_written_the_error_says_so_and_nothing_is_half_made() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("db create shop t id:integer"));
    fs::write(directory.join("rows.csv"), "id\n1\n").unwrap();
    let closed = directory.join("closed");
    fs::create_dir(&closed).unwrap();
    fs::write(closed.join("file"), "mine").unwrap();
    set_mode(&closed.join("file"), 0o444);
    set_mode(&closed, 0o555);
    set_mode(directory, 0o755);
    let shop = directory.join("shop");
    set_mode(&shop, 0o777);
    names(&shop).iter().for_each(|name| set_mode(&shop.join(name), 0o666));
    let (before, nobody) = (names(directory), Nobody::new());
    for (line, told) in [
        ("db create closed/shop t id:integer", "closed/shop is read-only; make it writable"),
        ("load csv rows.csv --table t closed/shop", "closed/shop is read-only; make it writable"),
        (
            "load tpch --row-width s001 --tables customer --scale-factor 0.001 closed/shop",
            "closed/shop",
        ),
        ("db backup shop closed/shop", "closed/shop is read-only; make it writable"),
        ("db compact shop closed/shop", "closed/shop is read-only; make it writable"),
        ("db export shop t closed/rows.csv", "closed"),
        ("run s000/table-3-1 --out closed/out", "cannot create closed/out"),
        ("run s000/table-3-1 --out closed", "cannot create closed/s000"),
        ("verify s000/table-3-1 --out closed/out", "cannot create closed/out"),
        ("SIM --record closed/new", "no file can be made in closed; make it writable"),
        ("SIM --record closed/file --overwrite", "no file can be made in closed; make it writable"),
        ("SIM --json closed/new", "no file can be made in closed; make it writable"),
        ("SIM --json closed/file --overwrite", "no file can be made in closed; make it writable"),
        ("SIM --sweep victim=greedy,fifo --parquet closed/new", "no file can be made in closed"),
        ("probe sim:device-a --json closed/new", "no file can be made in closed"),
        ("probe sim:device-a --profile closed/new", "no file can be made in closed"),
        ("probe closed", "no permission to create a scratch file in it"),
        ("report closed --output closed/new", "no file can be made in closed"),
        (
            "explain shop t.id t.id --calibrate --processor closed/new",
            "no file can be made in closed",
        ),
        ("bench ycsb --device closed --records 10 --operations 10", "no directory in closed"),
        ("crash --kill closed", "no directory can be made in closed"),
        ("man closed/pages", "cannot make closed/pages"),
    ] {
        let line = line.replace("SIM", SIM);
        let output = nobody.run(directory, &words(&line));
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{line}: {said}");
        assert!(said.contains(told) && !said.contains("panicked"), "{line}: {said}");
        assert!(output.stdout.is_empty(), "{line}: it is known before anything is measured");
        assert_eq!(names(&closed), ["file"], "{line}");
        assert_eq!(names(directory), before, "{line}");
    }
    assert_eq!(fs::read(closed.join("file")).unwrap(), b"mine");
    set_mode(&closed, 0o755);
}

#[test]
fn a_database_whose_directory_cannot_be_made_durable_leaves_none() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    // A directory that nobody may read cannot be opened to be synced.
    let blind = directory.join("blind");
    fs::create_dir(&blind).unwrap();
    set_mode(&blind, 0o333);
    set_mode(directory, 0o755);
    let output = Nobody::new().run(directory, &words("db create blind/shop t id:integer"));
    set_mode(&blind, 0o755);
    assert_eq!(output.status.code(), Some(3), "{}", stderr(&output));
    assert_eq!(names(&blind), [""; 0], "{}", stderr(&output));
}

#[test]
fn what_is_explained_and_not_run_is_read_where_nothing_can_be_written() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("db create shop t id:integer"));
    let shop = directory.join("shop");
    let bytes = || names(&shop).into_iter().map(|name| fs::read(shop.join(name)).unwrap());
    let before: Vec<Vec<u8>> = bytes().collect();
    stdout_of(directory, &words("explain shop t.id t.id --no-calibrate"));
    assert!(bytes().eq(before), "it changes nothing");
    names(&shop).iter().for_each(|name| set_mode(&shop.join(name), 0o444));
    set_mode(&shop, 0o555);
    set_mode(directory, 0o755);
    let nobody = Nobody::new();
    let explained = nobody.run(directory, &words("explain shop t.id t.id --no-calibrate"));
    let ran = nobody.run(directory, &words("explain shop t.id t.id --no-calibrate --analyze"));
    set_mode(&shop, 0o755);
    assert_eq!(explained.status.code(), Some(0), "{}", stderr(&explained));
    assert!(String::from_utf8_lossy(&explained.stdout).contains("> "), "a plan is chosen");
    assert_eq!(ran.status.code(), Some(3), "a join may spill: {}", stderr(&ran));
    assert!(stderr(&ran).contains("read-only"), "{}", stderr(&ran));
}

#[test]
#[allow(clippy::disallowed_types, reason = "who ends a program waits by his own clock")]
fn a_report_passes_over_a_pipe_among_the_results() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let name = "s000/table-3-1";
    let kept =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/amd-epyc-2core").join(name);
    let folder = directory.join("out").join(name);
    fs::create_dir_all(&folder).unwrap();
    for file in ["meta.json", "series.csv"] {
        fs::copy(kept.join(file), folder.join(file)).unwrap();
    }
    make_pipe(&folder, "table.md");
    let began = std::time::Instant::now();
    let mut child = start(directory, &words("report out"));
    while child.try_wait().unwrap().is_none() {
        if began.elapsed() > Duration::from_secs(20) {
            child.kill().unwrap();
        }
        std::thread::yield_now();
    }
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(directory.join("out/report.html").is_file());
}

/// Makes a pipe in `directory`.
fn make_pipe(directory: &Path, name: &str) {
    assert!(Command::new("mkfifo").arg(directory.join(name)).status().unwrap().success());
}

/// Waits until somebody reads a pipe, and takes its other end.
fn other_end(pipe: &Path, child: &mut Child) -> File {
    const NONBLOCK: i32 = 0o4000;
    loop {
        let opened = OpenOptions::new().write(true).custom_flags(NONBLOCK).open(pipe);
        if let Ok(file) = opened {
            return file;
        }
        assert!(child.try_wait().unwrap().is_none(), "it ended and read nothing");
        std::thread::yield_now();
    }
}

/// Presses Ctrl-C, and tells what was said before the program ended, in time.
#[allow(clippy::disallowed_types, reason = "who ends a program waits by his own clock")]
fn ended(child: Child, what: &str) -> String {
    let began = std::time::Instant::now();
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(130), "{what}: {said}");
    assert!(began.elapsed() < Duration::from_secs(2), "{what}: {said}");
    assert!(!said.contains("panicked"), "{what}: {said}");
    said
}

#[test]
fn ctrl_c_ends_whoever_waits_for_a_pipe() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("db create shop t id:integer"));
    make_pipe(directory, "pipe.toml");
    let before = names(directory);
    for line in [
        "run ./pipe.toml",
        "verify ./pipe.toml",
        "probe sim:device-a --plan pipe.toml",
        "probe sim:device-a --job pipe.toml",
        "probe sim:./pipe.toml",
        "sim ./pipe.toml --workload uniform",
        "sim ./pipe.toml --workload uniform --sweep victim=greedy,fifo",
        "sim myers_slc --trace pipe.toml",
        "drives ./pipe.toml",
        "explain shop t.id t.id --processor pipe.toml",
        "explain shop t.id t.id --no-calibrate --profile pipe.toml",
        "bench ycsb --device sim:./pipe.toml",
        "load csv pipe.toml --table rows new",
        "load csv pipe.toml --table rows shop",
        "db load shop t pipe.toml",
    ] {
        let mut child = start(directory, &words(line));
        let other_end = other_end(&directory.join("pipe.toml"), &mut child);
        let said = ended(child, line);
        assert!(
            ["nothing was left behind", "nothing was stored", "first 0 rows"]
                .iter()
                .any(|told| said.contains(told)),
            "{line}: {said}"
        );
        assert_eq!(names(directory), before, "{line}");
        drop(other_end);
    }
    let said = stdout_of(directory, &words("db check shop"));
    assert!(said.contains("0 rows"), "{said}");
    // Formats that are read back and forth need a file.
    for line in ["load parquet pipe.toml --table rows shop", "load sqlite pipe.toml shop"] {
        let said = failure_of(directory, &words(line), 2);
        assert!(said.contains("it is no file") && said.contains("save it"), "{line}: {said}");
    }
}

#[test]
fn ctrl_c_ends_who_waits_for_somebody_to_read_a_pipe() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &words("db create shop t id:integer"));
    let numbers: Vec<u8> = (1..=100_000_u64).flat_map(u64::to_le_bytes).collect();
    let list = [&numbers[..numbers.len() - 8], &u64::MAX.to_le_bytes()].concat();
    fs::write(directory.join("list"), list).unwrap();
    make_pipe(directory, "pipe.csv");
    let before = names(directory);
    let sort = "external sort list --record-bytes 8 --key-bytes 8 -o pipe.csv";
    let rank = "external rank list -o pipe.csv";
    let make = "graph make line --nodes 100000 pipe.csv";
    for line in [sort, rank, make, "db export shop t pipe.csv"] {
        let child = start(directory, &words(line));
        std::thread::park_timeout(Duration::from_millis(500));
        let said = ended(child, line);
        assert!(said.contains("interrupted while nobody read"), "{line}: {said}");
        assert_eq!(names(directory), before, "{line}");
    }
    // Who has the other end reads nothing, and a pipe holds less than there is.
    const NONBLOCK: i32 = 0o4000;
    let pipe = directory.join("pipe.csv");
    let other_end = OpenOptions::new().read(true).custom_flags(NONBLOCK).open(pipe).unwrap();
    for line in [sort, rank, make] {
        let child = start(directory, &words(line));
        std::thread::park_timeout(Duration::from_millis(500));
        let said = ended(child, line);
        assert!(said.contains("interrupted while nobody read"), "{line}: {said}");
        assert_eq!(names(directory), before, "{line}");
    }
    drop(other_end);
}

#[test]
fn what_a_kill_leaves_of_an_output_goes_with_the_next_run() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::create_dir(directory.join("temporary")).unwrap();
    let sort = |input: &str| {
        let line = "external sort --record-bytes 8 --key-bytes 8 -o out --device temporary";
        format!("{line} {input}")
    };
    let partial =
        |names: &[String]| names.iter().filter(|name| name.starts_with(".nandu-partial-")).count();
    let begun = || {
        let mut child = nandu(directory, &words(&sort("-")))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        while partial(&names(directory)) == 0 {
            assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
            std::thread::yield_now();
        }
        child
    };
    let mut child = begun();
    std::thread::park_timeout(Duration::from_millis(100));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(partial(&names(directory)), 1, "a kill leaves it");
    fs::write(directory.join("in"), 7_u64.to_le_bytes()).unwrap();
    stdout_of(directory, &words(&sort("in")));
    assert_eq!(names(directory), ["in", "out", "temporary"]);
    // What lives keeps its own.
    fs::remove_file(directory.join("out")).unwrap();
    let mut child = begun();
    stdout_of(directory, &words(&sort("in")));
    assert_eq!(partial(&names(directory)), 1);
    drop(child.stdin.take());
    let said = stderr(&child.wait_with_output().unwrap());
    assert!(said.contains("out: exists already"), "{said}");
    assert_eq!(names(directory), ["in", "out", "temporary"]);
}

#[test]
fn ctrl_c_ends_a_load_whose_pipe_stands_still_in_the_middle() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    // Rows from which types are inferred, and more.
    let rows: String = (0..30_000).map(|row| format!("{row},name {row}\n")).collect();
    let mut child = nandu(directory, &words("load csv - --table rows --no-header new"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    input.write_all(rows.as_bytes()).unwrap();
    while !directory.join("new/rows.sqlite").exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended by itself");
        std::thread::yield_now();
    }
    let said = ended(child, "load csv");
    assert!(said.contains("nothing was stored"), "{said}");
    assert_eq!(names(directory), [""; 0], "the database was made for the load");
    drop(input);

    stdout_of(directory, &words("db create shop t id:integer name:text"));
    make_pipe(directory, "pipe");
    let mut child = start(directory, &words("db load shop t pipe"));
    let mut pipe = other_end(&directory.join("pipe"), &mut child);
    // It takes what a pipe and a buffer hold no longer, which is more than one commit.
    let name = "x".repeat(100);
    let rows: String = (0..4000).map(|row| format!("{row}\t{name}\n")).collect();
    let mut rest = rows.as_bytes();
    while !rest.is_empty() {
        match pipe.write(rest) {
            Ok(count) => rest = &rest[count..],
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::WouldBlock),
        }
    }
    let said = ended(child, "db load");
    assert!(said.contains("the first 2048 rows are stored; --skip 2048 goes on"), "{said}");
    let said = stdout_of(directory, &words("db check shop"));
    assert!(said.contains("2048 rows"), "{said}");
}

#[test]
fn help_that_cannot_be_written_is_an_error_and_no_panic() {
    let place = tempfile::tempdir().unwrap();
    for line in ["--help", "--version", "help", "sim --help", "-h"] {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = nandu(place.path(), &words(line)).stdout(full).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{line}: {said}");
        assert!(said.contains("cannot write to stdout") && said.contains("space"), "{said}");
        // Where a reader has gone nobody is left to be told.
        let mut child = start(place.path(), &words(line));
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{line}: {}", stderr(&output));
        assert_eq!(stderr(&output), "", "{line}");
    }
    assert!(stdout_of(place.path(), &["--version"]).starts_with("nandu 0"));
    assert!(failure_of(place.path(), &["sim", "--nothing"], 2).contains("--nothing"));
}

#[test]
fn what_is_changed_and_cannot_be_told_is_changed_and_no_failure() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    fs::write(directory.join("rows.tsv"), "3\n4\n").unwrap();
    let untold = |line: &str| {
        let full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        let output = nandu(directory, &words(line)).stdout(full).output().unwrap();
        (output.status.code(), stderr(&output))
    };
    for (line, done) in [
        ("db create shop t id:integer --json", "table t is made"),
        ("db create shop k id:integer name:text --key id --json", "table k is made"),
        ("db insert shop t 7", "row 1 is stored"),
        ("db insert shop t 8 --json", "row 2 is stored"),
        ("db insert shop k 1 x --json", "the row is stored"),
        ("db update shop k 1 --set name=y --json", "the row is changed"),
        ("db delete shop k 1 --json", "the row is gone"),
        ("db load shop t rows.tsv", "2 rows stored"),
        ("db load shop t rows.tsv --json", "2 rows stored"),
        ("db index shop t by_id id --json", "index by_id is made"),
        ("db drop shop k --json", "table k is gone"),
        ("db export shop t rows.csv", "6 rows in rows.csv"),
        ("load csv rows.csv --table c --quiet shop", "6 rows in c"),
        ("load csv rows.csv --table d --quiet shop --json", "6 rows in d"),
        ("db compact shop copy --quiet", "18 rows in copy"),
        ("db backup shop copied --quiet", "3 tables, 18 rows in copied"),
    ] {
        let (code, said) = untold(line);
        assert_eq!(code, Some(0), "{line}: {said}");
        let why = "warning: cannot write to stdout: No space left on device";
        assert!(said.starts_with(why) && said.lines().count() == 1, "{line}: {said}");
        let done = format!("; what was asked is done: {done}\n");
        assert!(said.ends_with(&done), "{line}: {said}");
    }
    assert!(stdout_of(directory, &words("db check copy")).contains("18 rows"));
    // Who asks for rows and gets none is told so, and a reader that is gone is told nothing.
    assert_eq!(untold("db scan shop t").0, Some(3));
    let mut child = start(directory, &words("db insert shop t 9"));
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""));
    assert!(stdout_of(directory, &words("db check shop")).contains("19 rows"));
}

#[test]
fn a_scale_that_makes_no_sense_is_refused_before_its_text_takes_memory() {
    let place = tempfile::tempdir().unwrap();
    for (scale, told) in [
        ("1e300", "at scale factor 1e300 part has more than 2^31 rows"),
        ("1401000", "more than 2^31 rows"),
        ("0.0000001", "has no rows; choose a larger one"),
        ("NaN", "makes no sense"),
        ("-1", "makes no sense"),
        ("inf", "makes no sense"),
    ] {
        // The text has 300 MiB.
        let scale = format!("--scale-factor={scale}");
        let output = run_under(place.path(), "-v 250000", &["load", "tpch", &scale, "shop"]);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{scale}: {said}");
        assert!(said.contains(told), "{scale}: {said}");
    }
    assert_eq!(names(place.path()), [""; 0]);
}
