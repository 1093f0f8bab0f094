//! `nandu db backup`: all tables in a new database, or nothing.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, interrupt, names, nandu, run, start, stderr, stdout_of};
use nandu::{
    Column, ColumnType, Database, DatabaseOptions, LoadOptions, NewTable, StorageError, TableKind,
    TableLoad, ValueRef,
};
use std::path::Path;
use std::process::Stdio;

/// A database with a table of so many rows, each with some hundred bytes.
fn make(directory: &Path, row_count: i64) -> Database {
    let options = DatabaseOptions::default();
    let database = nandu::create_database(&directory.join("shop"), &options).unwrap();
    let columns = vec![Column::new("id", ColumnType::Integer), Column::new("x", ColumnType::Text)];
    let (name, kind) = ("things".to_owned(), TableKind::Heap);
    let table = NewTable { name, columns, kind, indexes: Vec::new() };
    let text = "x".repeat(400);
    let fill = |load: &mut TableLoad<'_>| -> Result<(), StorageError> {
        let text = ValueRef::Text(text.as_bytes());
        (0..row_count).try_for_each(|id| load.push(&[ValueRef::Integer(id), text]))
    };
    let mut write = database.write().unwrap();
    write.load_table(&table, &LoadOptions::default(), fill).unwrap();
    write.commit().unwrap();
    database
}

#[test]
fn a_backup_is_a_database_with_the_same_rows_under_the_same_numbers() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let database = make(directory, 900);
    let mut write = database.write().unwrap();
    for number in (1..900).filter(|number| number % 3 == 0) {
        write.delete("things", number).unwrap();
    }
    write.create_index("things", "by_id", &["id"]).unwrap();
    write.commit().unwrap();
    database.close().unwrap();
    stdout_of(directory, &["db", "create", "shop", "pairs", "a:integer", "b:text", "--key", "a"]);
    let said = stdout_of(directory, &["db", "backup", "shop", "copy"]);
    assert_eq!(said, "2 tables, 601 rows\n");
    for words in [&["scan", "things"][..], &["get", "things", "898"], &["scan", "pairs"]] {
        let of = |shop| stdout_of(directory, &[&["db", words[0], shop], &words[1..]].concat());
        assert_eq!(of("copy"), of("shop"), "{words:?}");
    }
    let schema = |shop: &str| stdout_of(directory, &["db", "schema", shop]).replace(shop, "x");
    assert_eq!(schema("copy"), schema("shop"));
    assert!(stdout_of(directory, &["db", "check", "copy"]).contains("601 rows"));
    // The copy is closed, and one of a copy is the same once more.
    let output = run(directory, &["db", "backup", "copy", "second", "--quiet"]);
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn whatever_is_at_the_target_stays() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "t", "id:integer"]);
    stdout_of(directory, &["db", "create", "other", "t", "id:integer"]);
    std::fs::write(directory.join("file"), "mine").unwrap();
    std::fs::create_dir(directory.join("full")).unwrap();
    std::fs::write(directory.join("full/file"), "mine").unwrap();
    for (target, told) in [
        ("other", "a volume in other exists already"),
        ("shop", "shop"),
        ("file", "file is not a nandu database: it is a file"),
        ("full", "it holds file; name an empty directory or a new one"),
    ] {
        let files = names(directory).into_iter().chain(names(&directory.join("full")));
        let before: Vec<String> = files.collect();
        let said = failure_of(directory, &["db", "backup", "shop", target], 2);
        assert!(said.contains(told), "{target}: {said}");
        let files = names(directory).into_iter().chain(names(&directory.join("full")));
        assert!(files.eq(before), "{target}");
    }
    assert!(stdout_of(directory, &["db", "check", "other"]).contains("0 rows"));
}

#[test]
fn ctrl_c_ends_a_backup_and_leaves_nothing_of_it() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, 60_000).close().unwrap();
    let mut interrupted_count = 0;
    for attempt in 0..5 {
        let mut child = start(directory, &["db", "backup", "shop", "copy"]);
        let copied = directory.join("copy/things.sqlite");
        while !copied.exists() && child.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        interrupt(&child);
        let output = child.wait_with_output().unwrap();
        let said = stderr(&output);
        assert!(!said.contains("panicked"), "{said}");
        match output.status.code() {
            Some(130) => {
                assert!(said.contains("the new database is removed"), "{said}");
                assert_eq!(names(directory), ["shop"], "attempt {attempt}");
                interrupted_count += 1;
            }
            // A machine that is busy elsewhere may come too late.
            code => {
                assert_eq!(code, Some(0), "{said}");
                std::fs::remove_dir_all(directory.join("copy")).unwrap();
            }
        }
    }
    assert!(interrupted_count > 0, "one of them came in time");
    assert!(stdout_of(directory, &["db", "check", "shop"]).contains("60000 rows"));
}

#[test]
fn a_backup_tells_how_far_it_is_and_nothing_with_quiet() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    make(directory, 5000).close().unwrap();
    let output = run(directory, &["db", "backup", "shop", "copy"]);
    let said = stderr(&output);
    let lines: Vec<&str> = said.lines().collect();
    assert!((5..=10).contains(&lines.len()), "{said}");
    assert!(lines.iter().all(|line| line.contains(" %  things, ")), "{said}");
    assert!(lines.last().unwrap().contains("100 %  things, 5000 rows"), "{said}");
    let output = run(directory, &["db", "backup", "shop", "second", "--quiet"]);
    assert_eq!((stderr(&output).as_str(), output.status.code()), ("", Some(0)));
}

#[test]
fn a_database_that_is_open_elsewhere_is_told_with_its_process() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    let database = make(directory, 10);
    let said = failure_of(directory, &["db", "backup", "shop", "copy"], 2);
    assert!(said.contains(&format!("shop is open in process {}", std::process::id())), "{said}");
    assert_eq!(names(directory), ["shop"]);
    database.close().unwrap();
    // Two may copy it at the same time.
    let backup = |target| {
        let mut command = nandu(directory, &["db", "backup", "shop", target, "--quiet"]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    for child in [backup("one"), backup("two")] {
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout), "1 table, 10 rows\n");
    }
}
