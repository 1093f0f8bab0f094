//! Databases where nothing can be written, or not enough: opened for reading, or refused and intact.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu::{
    Column, ColumnType, Database, DatabaseOptions, DirectoryOptions, Flow, StorageError, TableKind,
    Value,
};
use nandu_storage::engine::Settings;
use nandu_storage::propagation::PropagationKind;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

fn options(propagation: PropagationKind, read_only: bool) -> DatabaseOptions {
    let settings = Settings {
        propagation: propagation.into(),
        pool_bytes: 256 << 10,
        log_bytes: 1 << 20,
        checkpoint_bytes: 256 << 10,
        ..Settings::default()
    };
    let files = DirectoryOptions { read_only, queue_depth: 16, ..DirectoryOptions::default() };
    DatabaseOptions { settings, files, ..DatabaseOptions::default() }
}

fn make(directory: &Path, options: &DatabaseOptions) -> Database {
    let database = nandu::create_database(directory, options).unwrap();
    let columns = vec![Column::new("id", ColumnType::Integer), Column::new("x", ColumnType::Text)];
    let mut write = database.write().unwrap();
    write.create_table("heap", columns.clone(), TableKind::Heap).unwrap();
    write.create_table("tree", columns, TableKind::Clustered { key: vec![0] }).unwrap();
    write.create_index("heap", "by_id", &["id"]).unwrap();
    write.commit().unwrap();
    // More than that in one transaction would be too much for this log.
    for first in (0..300).step_by(50) {
        add(&database, first..first + 50).unwrap();
    }
    database
}

fn add(database: &Database, ids: std::ops::Range<i64>) -> Result<(), StorageError> {
    let mut write = database.write()?;
    for id in ids {
        let row = [Value::from(id), Value::from("some text that takes room ".repeat(20).as_str())];
        let row = [row[0].as_ref(), row[1].as_ref()];
        write.insert("heap", &row)?;
        write.put("tree", &row)?;
    }
    write.commit()
}

fn count(database: &Database, table: &str) -> usize {
    let mut count = 0;
    let all = database.read().scan(table, |_, _| {
        count += 1;
        Flow::Continue(())
    });
    all.unwrap();
    count
}

fn files_of(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = std::fs::read_dir(directory).unwrap().map(Result::unwrap);
    let read = |entry: std::fs::DirEntry| {
        (entry.file_name().into_string().unwrap(), std::fs::read(entry.path()).unwrap())
    };
    entries.map(read).collect()
}

fn assert_sound(database: &Database, row_count: usize) {
    assert_eq!((count(database, "heap"), count(database, "tree")), (row_count, row_count));
    assert_eq!(database.read().check().unwrap().findings, Vec::<String>::new());
}

#[test]
fn a_queue_that_nobody_has_is_refused() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    let with = |queue_depth| {
        let options = options(PropagationKind::InPlace, false);
        let files = DirectoryOptions { queue_depth, ..options.files };
        DatabaseOptions { files, ..options }
    };
    for queue_depth in [0, 4097, u32::MAX] {
        let error = nandu::create_database(&directory, &with(queue_depth)).unwrap_err();
        assert!(matches!(error, StorageError::InvalidSetting { .. }), "{error}");
        assert_eq!(error.to_string(), format!("queue_depth {queue_depth} is not from 1 to 4096"));
        assert!(!directory.exists());
    }
    make(&directory, &with(4096)).close().unwrap();
    let error = nandu::open_database(&directory, &with(0)).unwrap_err();
    assert_eq!(error.to_string(), "queue_depth 0 is not from 1 to 4096");
    nandu::open_database(&directory, &with(1)).unwrap().0.close().unwrap();
}

#[test]
fn a_closed_database_is_read_where_nothing_can_be_written() {
    for propagation in PropagationKind::all_on_data_alone() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("shop");
        make(&directory, &options(propagation, false)).close().unwrap();
        let before = files_of(&directory);
        let open = || nandu::open_database(&directory, &options(propagation, true)).unwrap().0;
        let (one, two) = (open(), open());
        assert_sound(&one, 300);
        assert_sound(&two, 300);
        let is_refused = |error: StorageError| {
            assert!(matches!(error, StorageError::ReadOnly { .. }), "{error}");
            assert!(error.to_string().contains("shop is read-only"), "{error}");
        };
        is_refused(one.write().err().unwrap());
        is_refused(one.checkpoint().unwrap_err());
        assert_sound(&one, 300);
        one.close().unwrap();
        two.close().unwrap();
        assert!(files_of(&directory) == before, "readers change nothing");
        let (database, report) =
            nandu::open_database(&directory, &options(propagation, false)).unwrap();
        assert!(report.was_closed);
        add(&database, 300..310).unwrap();
        assert_sound(&database, 310);
    }
}

#[test]
fn a_database_that_was_not_closed_is_refused_until_it_was_restarted() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    let (changing, reading) =
        (options(PropagationKind::InPlace, false), options(PropagationKind::InPlace, true));
    drop(make(&directory, &changing));
    let before = files_of(&directory);
    let refused = nandu::open_database(&directory, &reading).unwrap_err();
    assert!(matches!(refused, StorageError::NeedsRestart { .. }), "{refused}");
    assert!(refused.to_string().contains("where it can be written"), "{refused}");
    assert!(files_of(&directory) == before);
    nandu::open_database(&directory, &changing).unwrap().0.close().unwrap();
    assert_sound(&nandu::open_database(&directory, &reading).unwrap().0, 300);
}

/// Writes the files of a directory as they were.
fn restore(directory: &Path, files: &BTreeMap<String, Vec<u8>>) {
    for (name, bytes) in files {
        std::fs::write(directory.join(name), bytes).unwrap();
    }
}

#[test]
fn a_file_that_was_cut_off_is_named_or_was_not_needed() {
    let mut refused = std::collections::BTreeSet::new();
    let ways = PropagationKind::all_on_data_alone().flat_map(|kind| [(kind, true), (kind, false)]);
    for (propagation, is_closed) in ways {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("shop");
        let options = options(propagation, false);
        let database = make(&directory, &options);
        database.checkpoint().unwrap();
        add(&database, 300..310).unwrap();
        if is_closed {
            database.close().unwrap();
        } else {
            drop(database);
        }
        let files = files_of(&directory);
        for (name, bytes) in &files {
            let length = bytes.len();
            let but = |bytes: usize| length.saturating_sub(bytes);
            let cuts = [0, 1, 512, 4096, length / 2, but(4096), but(1)];
            for cut in cuts.into_iter().filter(|&cut| cut < length) {
                restore(&directory, &files);
                std::fs::write(directory.join(name), &bytes[..cut]).unwrap();
                let case = format!("{name} of {length} bytes cut to {cut}, {propagation:?}");
                match nandu::open_database(&directory, &options) {
                    Ok((database, _)) => {
                        let findings = database.read().check().unwrap().findings;
                        if !findings.is_empty() {
                            // The restart put back what the log has, and cannot know the rest.
                            assert!(!is_closed, "{case}: {findings:?}");
                            assert!(findings.iter().any(|it| it.contains(name)), "{findings:?}");
                            continue;
                        }
                        assert_eq!(count(&database, "heap"), 310, "{case}");
                        assert_eq!(count(&database, "tree"), 310, "{case}");
                    }
                    Err(error) => {
                        let said = error.to_string();
                        assert!(said.contains(name), "{case}: {said}");
                        refused.insert(name.clone());
                    }
                }
            }
        }
    }
    for name in ["catalog", "heap.sqlite", "heap.by_id.tree", "tree.tree", "log", "settings"] {
        assert!(refused.contains(name), "{name}: {refused:?}");
    }
}

/// In which directory this process plays a part of another test.
const DIRECTORY: &str = "NANDU_TEST_FULL_DIRECTORY";

/// No test of its own: transactions until the file system is full, in a second process whose files
/// may not pass 2 MiB.
#[test]
fn plays_a_part_in_another_test() {
    let Ok(directory) = std::env::var(DIRECTORY) else { return };
    let directory = Path::new(&directory);
    // Its log alone passes the limit.
    let refused = nandu::create_database(directory, &DatabaseOptions::default()).unwrap_err();
    let told = refused.to_string();
    assert!(told.contains("a new database in ") && told.contains("/shop has a log of"), "{told}");
    assert!(!directory.exists(), "nothing is left");
    let options = options(PropagationKind::InPlace, false);
    let database = make(directory, &options);
    let mut last = 300;
    let full = loop {
        match add(&database, last..last + 50) {
            Ok(()) => last += 50,
            Err(error) => break error,
        }
        assert!(last < 100_000, "the limit holds");
    };
    assert!(matches!(full, StorageError::NoSpace { .. }), "{full}");
    let row_count = usize::try_from(last).unwrap();
    // The transaction is gone as a whole; the database goes on, with and without opening it again.
    assert_sound(&database, row_count);
    let mut write = database.write().unwrap();
    assert!(write.delete_by_key("tree", &[Value::from(7).as_ref()]).unwrap());
    write.rollback().unwrap();
    assert_sound(&database, row_count);
    drop(database);
    let (database, _) = nandu::open_database(directory, &options).unwrap();
    assert_sound(&database, row_count);
    database.close().unwrap();
    println!("full as expected");
}

#[test]
fn a_full_file_system_fails_the_transaction_and_leaves_the_database_intact() {
    let place = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    // Sizes of ulimit are in blocks of 512 or 1024 bytes, as the shell likes.
    command.args(["-c", "trap '' XFSZ; ulimit -f 4096; exec \"$0\" \"$@\""]);
    command.arg(std::env::current_exe().unwrap());
    command.args(["--exact", "bad_places::plays_a_part_in_another_test", "--nocapture"]);
    command.env(DIRECTORY, place.path().join("shop")).stdin(Stdio::null());
    let output = command.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    let complained = String::from_utf8_lossy(&output.stderr);
    let is_done = output.status.success() && said.contains("full as expected");
    assert!(is_done, "{said}{complained}");
}
