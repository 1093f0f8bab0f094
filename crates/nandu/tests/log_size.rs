//! A transaction that is larger than the log: it is told so with what to do, and nothing else is lost.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu::{
    Column, ColumnType, Database, DatabaseOptions, Flow, StorageError, TableKind, Value,
    WriteTransaction,
};
use std::path::Path;

/// More rows than fit the short log.
const ROW_COUNT: i64 = 20_000;

fn options(log_bytes: u64) -> DatabaseOptions {
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = 512 << 10;
    options.settings.log_bytes = log_bytes;
    options.settings.checkpoint_bytes = log_bytes / 4;
    options
}

fn create(directory: &Path, log_bytes: u64) -> Database {
    let database = nandu::create_database(directory, &options(log_bytes)).unwrap();
    let mut write = database.write().unwrap();
    let columns = vec![
        Column::new("id", ColumnType::Integer).not_null(),
        Column::new("text", ColumnType::Text),
    ];
    write.create_table("heap", columns.clone(), TableKind::Heap).unwrap();
    write.create_table("tree", columns, TableKind::Clustered { key: vec![0] }).unwrap();
    write.commit().unwrap();
    database
}

/// Inserts rows until there are enough or one is refused; gives how many there are, and why no more.
fn fill(write: &mut WriteTransaction<'_>, table: &str) -> (i64, Option<StorageError>) {
    for number in 0..ROW_COUNT {
        let row = [Value::Integer(number), Value::Text(format!("row {number:_>80}"))];
        if let Err(error) = write.insert(table, &[row[0].as_ref(), row[1].as_ref()]) {
            return (number, Some(error));
        }
    }
    (ROW_COUNT, None)
}

fn count(database: &Database, table: &str) -> i64 {
    let mut rows = 0;
    database
        .read()
        .scan(table, |_, _| {
            rows += 1;
            Flow::Continue(())
        })
        .unwrap();
    let report = database.read().check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    rows
}

/// Ends without closing, as a process that is killed, and opens again.
fn killed_and_opened(database: Database, directory: &Path) -> Database {
    drop(database);
    let (database, report) = nandu::open_database(directory, &DatabaseOptions::default()).unwrap();
    assert!(!report.was_closed);
    database
}

#[test]
fn a_transaction_that_the_log_does_not_hold_says_what_to_do_and_can_still_commit() {
    for table in ["heap", "tree"] {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("short");
        let database = create(&directory, 1 << 20);
        let mut write = database.write().unwrap();
        let (stored, error) = fill(&mut write, table);
        let error = error.expect("the log is too short");
        assert!(matches!(error, StorageError::NoSpace { .. }), "{error}");
        let said = error.to_string();
        for part in ["the log of 1048576 bytes", "commit it in parts", "--log-size"] {
            assert!(said.contains(part), "{said}");
        }
        assert!((1000..ROW_COUNT).contains(&stored), "{stored} rows");
        write.commit().unwrap();
        let database = killed_and_opened(database, &directory);
        assert_eq!(count(&database, table), stored, "what was stored before the error");
        // The log is free again.
        let mut write = database.write().unwrap();
        write.insert(table, &[Value::Integer(ROW_COUNT).as_ref(), Value::Null.as_ref()]).unwrap();
        write.commit().unwrap();
        database.close().unwrap();
    }
}

#[test]
fn a_transaction_that_filled_the_log_is_taken_back_as_a_whole() {
    for table in ["heap", "tree"] {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("short");
        let database = create(&directory, 1 << 20);
        let mut write = database.write().unwrap();
        assert!(fill(&mut write, table).1.is_some());
        write.rollback().unwrap();
        assert_eq!(count(&database, table), 0, "rolled back");
        let mut write = database.write().unwrap();
        assert!(fill(&mut write, table).1.is_some());
        // Whoever is killed rolls nothing back; the records are all in the log.
        write.abandon();
        drop(database);
        let copy = place.path().join("copy");
        std::fs::create_dir(&copy).unwrap();
        for entry in std::fs::read_dir(&directory).unwrap() {
            let entry = entry.unwrap();
            if entry.file_name() == "nandu.lock" {
                // It says of a copy that it is one, of what was not closed.
                continue;
            }
            std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
        }
        let (database, report) = nandu::open_database(&copy, &DatabaseOptions::default()).unwrap();
        assert!(!report.was_closed);
        assert_eq!(count(&database, table), 0, "taken back by the restart");
        database.close().unwrap();
    }
}

#[test]
fn a_longer_log_holds_the_same_transaction() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("long");
    let database = create(&directory, 32 << 20);
    let mut write = database.write().unwrap();
    assert_eq!(fill(&mut write, "tree"), (ROW_COUNT, None));
    write.commit().unwrap();
    // What was fixed at the making counts, not what the opening asks for.
    let database = killed_and_opened(database, &directory);
    assert_eq!(database.read().engine().settings().log_bytes, 32 << 20);
    assert_eq!(count(&database, "tree"), ROW_COUNT);
    database.close().unwrap();
}
