//! What the program says, and leaves, where the system sets it limits: on files, memory, open files.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{names, run_under, stderr, stdout_of};
use std::path::Path;

/// The exit code under a limit, such as `-f 8`, and what the program said.
fn end_under(directory: &Path, limit: &str, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run_under(directory, limit, arguments);
    (output.status.code(), stderr(&output))
}

const CREATE: [&str; 5] = ["db", "create", "new", "t", "id:integer"];

/// A database with a table of rows that take more than 4 KiB in any format.
fn shop() -> tempfile::TempDir {
    let place = tempfile::tempdir().unwrap();
    let rows: String = (0..3000).map(|id| format!("{id},{}\n", id * 7919 % 3001)).collect();
    std::fs::write(place.path().join("rows.csv"), rows).unwrap();
    let load = ["load", "csv", "rows.csv", "--no-header", "--table", "t", "shop"];
    stdout_of(place.path(), &load);
    place
}

#[test]
fn a_limit_on_the_size_of_files_is_an_error_and_leaves_nothing() {
    let place = shop();
    let directory = place.path();
    let before = names(directory);
    // Blocks of 512 bytes: none, 4 KiB, 1 MiB.
    for limit in ["-f 0", "-f 8", "-f 2048"] {
        let (code, said) = end_under(directory, limit, &CREATE);
        assert_eq!(code, Some(3), "{limit}: {said}");
        assert!(said.contains("cannot grow") && said.contains("ulimit -f"), "{limit}: {said}");
        assert_eq!(names(directory), before, "{limit}");
    }
    for file in ["rows.parquet", "rows.json", "rows.tsv"] {
        let (code, said) = end_under(directory, "-f 24", &["db", "export", "shop", "t", file]);
        assert_eq!(code, Some(3), "{file}: {said}");
        assert!(said.contains(file) && said.contains("File too large"), "{file}: {said}");
        assert_eq!(names(directory), before, "{file}");
    }
    let sim = ["sim", "myers_slc", "--workload", "uniform", "--requests", "50000", "--quiet"];
    for option in ["--json", "--record"] {
        let (code, said) = end_under(directory, "-f 1", &[&sim[..], &[option, "file"]].concat());
        assert_eq!(code, Some(3), "{option}: {said}");
        assert!(said.contains("file") && said.contains("File too large"), "{option}: {said}");
        assert_eq!(names(directory), before, "{option}");
    }
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("3000 rows"));
}

#[test]
fn a_limit_on_memory_is_an_error_that_says_what_is_too_large() {
    let place = shop();
    let directory = place.path();
    let before = names(directory);
    let [compact, backup] = ["compact", "backup"].map(|action| ["db", action, "shop", "new"]);
    let get = ["db", "get", "shop", "t", "7"];
    // The copy has a pool of its own, for which there is no room beside the first; nor is there for the
    // first, if the thread that listens for Ctrl-C has reserved its own 64 MiB by then.
    let (database, pool) = ("a database takes 72 MiB of memory", "a buffer pool of 64 MiB");
    for (arguments, limit, what) in [
        (&CREATE[..], "-v 68000", &[database][..]),
        (&compact, "-v 130000", &[pool, database]),
        (&backup, "-v 130000", &[pool, database]),
        (&get, "-v 68000", &[database]),
    ] {
        let (code, said) = end_under(directory, limit, arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {said}");
        assert!(what.iter().any(|what| said.contains(what)), "{arguments:?}: {said}");
        assert!(said.contains("ulimit -v"), "{arguments:?}: {said}");
        assert_eq!(names(directory), before);
    }
    let tpch = ["load", "tpch", "--scale-factor", "0.01", "--tables", "customer", "new"];
    let (code, said) = end_under(directory, "-v 300000", &tpch);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("comments") && said.contains("--row-width s001"), "{said}");
    assert_eq!(names(directory), before);
}

#[test]
fn a_load_that_no_memory_holds_is_refused_before_it_begins() {
    let place = tempfile::tempdir().unwrap();
    let sim = "--device sim:nvme-tlc-2024 --quiet";
    for (words, limit, told) in [
        (format!("bench tpcc --warehouses 30 {sim}"), "-v 2500000", "of data and 16 MiB of them"),
        (format!("bench tpcc --warehouses 1000000 {sim} --record pages"), "-v 2500000", "of data"),
        (format!("bench ycsb --records 100000000 {sim}"), "-v 2500000", "of data"),
        (format!("bench tpox --size 100GB {sim}"), "-v 2500000", "of data"),
        ("choose --workload a --records 100000000".to_owned(), "-v 2500000", "--records"),
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (code, said) = end_under(place.path(), limit, &words);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains(told) && said.contains("this process can have"), "{said}");
        assert!(names(place.path()).is_empty(), "{words:?}");
    }
    for words in [
        "load tpcc --warehouses 1000000 new --quiet",
        "bench tpcc --warehouses 1000000 --quiet",
        "bench tpcc --warehouses 2 --device sim:nvme-tlc-2024 --capacity 128MiB --quiet",
    ] {
        let words: Vec<&str> = words.split(' ').collect();
        let (code, said) = end_under(place.path(), "-v unlimited", &words);
        assert_eq!(code, Some(2), "{words:?}: {said}");
        assert!(said.contains("take at least ") && said.contains("load fewer"), "{said}");
        assert!(names(place.path()).is_empty(), "{words:?}");
    }
}

#[test]
fn too_few_open_files_are_an_error_and_leave_nothing() {
    let place = shop();
    let directory = place.path();
    let before = names(directory);
    for count in 5..12 {
        let (code, said) = end_under(directory, &format!("-n {count}"), &CREATE);
        if code == Some(0) {
            assert!(count > 8, "{count}: fewer than the files of a database");
            std::fs::remove_dir_all(directory.join("new")).unwrap();
            continue;
        }
        assert_eq!(code, Some(3), "{count}: {said}");
        assert!(said.contains("Too many open files") && said.contains("ulimit -n"), "{said}");
        assert_eq!(names(directory), before, "{count}: {said}");
    }
}

#[test]
fn results_that_no_file_can_hold_are_shown_and_what_was_there_stays() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let kept = ["x.json", "x.parquet", "x.trace"];
    for name in kept {
        std::fs::write(directory.join(name), "mine").unwrap();
    }
    let workload = "--workload uniform --requests 40000 --initial fresh --quiet --overwrite";
    let probe = "sim:dram-like --size 4MiB --duration 1ms --quiet --overwrite";
    for (command, is_shown) in [
        (format!("sim myers_slc {workload} --json x.json"), true),
        (format!("sim myers_slc {workload} --sweep victim=greedy --parquet x.parquet"), true),
        (format!("sim myers_slc {workload} --record x.trace"), false),
        (format!("probe {probe} --json x.json"), true),
    ] {
        // Files end after a kilobyte, where a full disk would end them.
        let words: Vec<&str> = command.split(' ').collect();
        let output = run_under(directory, "-f 2", &words);
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(3), "{command}: {said}");
        assert!(said.contains("x.") && said.contains("File too large"), "{command}: {said}");
        assert_eq!(!output.stdout.is_empty(), is_shown, "{command}");
    }
    for name in kept {
        assert_eq!(std::fs::read_to_string(directory.join(name)).unwrap(), "mine", "{name}");
    }
    assert_eq!(names(directory), kept);
}

#[test]
fn buffers_that_a_limit_on_memory_leaves_no_room_for_are_an_error_of_the_probe() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let probe = "probe . --size 8MiB --request-bytes 1MiB --queue-depth 32 --duration 1ms --quiet";
    let words: Vec<&str> = probe.split(' ').collect();
    let mut refused_count = 0;
    // From where the program can be loaded, which is as large as its file.
    let program_bytes = std::fs::metadata(env!("CARGO_BIN_EXE_nandu")).unwrap().len();
    let least = 16_000 + program_bytes / 1024;
    for kibibytes in (least..=least + 360_000).step_by(45_000) {
        let (code, said) = end_under(directory, &format!("-v {kibibytes}"), &words);
        assert!([Some(0), Some(2)].contains(&code), "{kibibytes}: {code:?}, {said}");
        if code == Some(2) {
            refused_count += 1;
            assert!(said.contains("ulimit -v"), "{kibibytes}: {said}");
        }
        assert!(names(directory).is_empty(), "{kibibytes}");
    }
    assert!((1..9).contains(&refused_count), "{refused_count}");
}

#[test]
fn a_dry_run_of_a_large_drive_makes_no_drive() {
    let place = tempfile::tempdir().unwrap();
    let dry = ["sim", "nvme-tlc-2024", "--workload", "uniform", "--dry-run"];
    let (code, said) = end_under(place.path(), "-v 200000", &dry);
    assert_eq!(code, Some(0), "{said}");
}
