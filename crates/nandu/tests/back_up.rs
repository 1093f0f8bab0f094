//! Backups of an open database: the rows of the snapshot, whoever writes meanwhile, or nothing at all.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu::{
    BackUpOptions, BackUpProgress, Column, ColumnType, Database, DatabaseOptions, LoadOptions,
    NewTable, PropagationKind, Row, RowRange, StorageError, TableKind, TableLoad, Tables,
    back_up_watched,
};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const ROWS: i64 = 3000;

fn options(propagation: PropagationKind) -> DatabaseOptions {
    let mut options = DatabaseOptions::default();
    options.settings.propagation = propagation.into();
    options.settings.pool_bytes = 1 << 20;
    (options.settings.log_bytes, options.settings.checkpoint_bytes) = (8 << 20, 1 << 20);
    options
}

/// A database with a table of each kind; in the heap every third row was removed.
fn filled(directory: &Path, options: &DatabaseOptions) -> Database {
    let database = nandu::create_database(directory, options).unwrap();
    let columns = || {
        let id = Column::new("id", ColumnType::Integer).not_null();
        vec![id, Column::new("text", ColumnType::Text)]
    };
    let mut write = database.write().unwrap();
    write.create_table("tree", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    write.create_table("heap", columns(), TableKind::Heap).unwrap();
    write.create_index("heap", "by_id", &["id"]).unwrap();
    write.create_table("empty", columns(), TableKind::Heap).unwrap();
    for id in 0..ROWS {
        let text =
            (id % 7 > 0).then(|| format!("{id} {}", "x".repeat(usize::from(id % 50 == 0) * 5000)));
        write.put_as("tree", &(id, &text)).unwrap();
        write.insert_as("heap", &(id, &text)).unwrap();
    }
    for number in (1..=ROWS).filter(|number| number % 3 == 0) {
        write.delete("heap", number).unwrap();
    }
    let (name, kind) = ("packed".to_owned(), TableKind::Pax { span_pages: 8 });
    let packed = NewTable { name, columns: columns(), kind, indexes: Vec::new() };
    let fill = |load: &mut TableLoad<'_>| -> Result<(), StorageError> {
        (0..ROWS)
            .try_for_each(|id| load.push(&[nandu::ValueRef::Integer(id), nandu::ValueRef::Null]))
    };
    write.load_table(&packed, &LoadOptions::default(), fill).unwrap();
    let fill = |load: &mut TableLoad<'_>| -> Result<(), StorageError> {
        (0..ROWS).try_for_each(|id| load.push_entry(&id.to_le_bytes()[..2], &[7; 20]))
    };
    write.load_table(&NewTable::raw("nodes"), &LoadOptions::default(), fill).unwrap();
    write.commit().unwrap();
    database
}

/// All rows with their numbers, of the tables and of the index.
fn contents(tables: &Tables) -> Vec<(i64, Row)> {
    let by_index = RowRange::of("heap").by_index("by_id");
    let all = ["tree", "heap", "empty", "nodes", "packed"]
        .map(RowRange::of)
        .into_iter()
        .chain([by_index]);
    let mut rows = Vec::new();
    for range in all {
        let mut scan = tables.rows(range).unwrap();
        while let Some(row) = scan.next() {
            rows.push((scan.row_number(), row.unwrap()));
        }
    }
    rows
}

#[test]
fn a_backup_has_the_rows_of_its_snapshot_while_others_write() {
    for propagation in [PropagationKind::InPlace, PropagationKind::LogStructured] {
        let place = tempfile::tempdir().unwrap();
        let options = options(propagation);
        let database = filled(&place.path().join("shop"), &options);
        let snapshot = database.snapshot();
        let wanted = contents(&snapshot);
        let directory = place.path().join("backup");
        let is_over = AtomicBool::new(false);
        let report = std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                let mut write_count = 0;
                while !is_over.load(Ordering::Relaxed) || write_count < 20 {
                    let mut write = database.write().unwrap();
                    write.delete_by_key_as("tree", &(write_count % ROWS)).unwrap();
                    write.insert_as("heap", &(write_count, "new")).unwrap();
                    write.commit().unwrap();
                    write_count += 1;
                    if write_count == 500 {
                        break;
                    }
                }
            });
            let report = nandu::back_up(&snapshot, &directory, options.files);
            is_over.store(true, Ordering::Relaxed);
            writer.join().unwrap();
            report.unwrap()
        });
        assert_eq!((report.table_count, report.row_count), (5, 11_000));
        let (copy, restart) = nandu::open_database(&directory, &options).unwrap();
        assert!(restart.was_closed, "{restart:?}");
        assert_eq!(contents(&copy.read()), wanted, "{propagation:?}");
        let check = copy.read().check().unwrap();
        assert_eq!((check.findings, check.row_count), (Vec::new(), 11_000));
        assert_ne!(contents(&database.read()), wanted, "others wrote");
        // A row that comes has the next number, as it had in the database.
        let mut write = copy.write().unwrap();
        assert!(write.insert_as("heap", &(1, "later")).unwrap() >= ROWS);
        write.commit().unwrap();
        copy.close().unwrap();
    }
}

#[test]
fn a_backup_that_fails_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let mut options = options(PropagationKind::InPlace);
    options.settings.version_bytes = 16 << 10;
    let database = filled(&place.path().join("shop"), &options);
    let snapshot = database.snapshot();
    let mut write = database.write().unwrap();
    for id in 0..ROWS {
        write.put_as("tree", &(id, "changed")).unwrap();
    }
    write.commit().unwrap();
    let directory = place.path().join("backup");
    let error = nandu::back_up(&snapshot, &directory, options.files).unwrap_err();
    assert!(matches!(error, StorageError::SnapshotTooOld { .. }), "{error}");
    assert!(!directory.exists());
    // What is there already is not touched.
    std::fs::create_dir(&directory).unwrap();
    std::fs::write(directory.join("file"), "mine").unwrap();
    assert!(nandu::back_up(&database.snapshot(), &directory, options.files).is_err());
    assert_eq!(std::fs::read(directory.join("file")).unwrap(), b"mine");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1);
}

#[test]
fn whoever_watches_a_backup_sees_it_come_on_and_may_end_it() {
    let place = tempfile::tempdir().unwrap();
    let options = options(PropagationKind::InPlace);
    let database = filled(&place.path().join("shop"), &options);
    let (snapshot, directory) = (database.snapshot(), place.path().join("backup"));
    let back_up = |last: usize| {
        let mut seen: Vec<(u64, u64)> = Vec::new();
        let mut total = 0;
        let watch = |progress: &BackUpProgress<'_>| -> Result<(), StorageError> {
            seen.push((progress.row_count, progress.done_bytes));
            total = progress.total_bytes;
            assert!((0.0..=1.0).contains(&progress.fraction()), "{progress:?}");
            if seen.len() < last {
                Ok(())
            } else {
                Err(StorageError::NotFound { what: "time".into() })
            }
        };
        let answer = back_up_watched(&snapshot, &directory, &BackUpOptions::default(), watch);
        (answer, seen, total)
    };
    let (report, seen, total) = back_up(usize::MAX);
    assert_eq!(report.unwrap().row_count, 11_000);
    assert!(seen.len() > 25 && seen.is_sorted(), "{seen:?}");
    assert_eq!(seen.last(), Some(&(11_000, total)), "it ends with all");
    std::fs::remove_dir_all(&directory).unwrap();
    for last in [1, 2, seen.len() / 2, seen.len()] {
        let (answer, ..) = back_up(last);
        assert_eq!(answer.unwrap_err().to_string(), "there is no time");
        assert!(!directory.exists(), "ended at look {last}");
    }
}

#[test]
fn a_copy_may_have_another_log_and_new_numbers() {
    let place = tempfile::tempdir().unwrap();
    let options = options(PropagationKind::InPlace);
    let database = filled(&place.path().join("shop"), &options);
    let snapshot = database.snapshot();
    let wanted = contents(&snapshot);
    for log_bytes in [256 << 10, 64 << 20] {
        let directory = place.path().join(format!("{log_bytes}"));
        let files = options.files;
        let ways = BackUpOptions { renumbers: true, files, ..BackUpOptions::default() };
        let ways = BackUpOptions { log_bytes: Some(log_bytes), ..ways };
        back_up_watched(&snapshot, &directory, &ways, |_| Ok::<(), StorageError>(())).unwrap();
        let copy = nandu::open_database(&directory, &options).unwrap().0;
        assert_eq!(copy.read().engine().settings().log_bytes, log_bytes);
        let found = contents(&copy.read());
        assert!(found.iter().map(|(_, row)| row).eq(wanted.iter().map(|(_, row)| row)));
        let of_heap = copy.read().stat().unwrap();
        let of_heap = of_heap.iter().find(|stat| stat.name == "heap").unwrap().row_count;
        assert!(found.iter().any(|&(number, _)| number == 1), "new numbers begin with 1");
        let past_last = i64::try_from(of_heap).unwrap() + 1;
        assert_eq!(copy.read().get("heap", past_last, |_| ()).unwrap(), None);
        assert_eq!(copy.read().get("heap", past_last - 1, |_| ()).unwrap(), Some(()));
    }
    // One that is too short for pages of this size is refused, and nothing is left.
    let ways = BackUpOptions { log_bytes: Some(1000), ..BackUpOptions::default() };
    let directory = place.path().join("short");
    let watch = |_: &BackUpProgress<'_>| Ok::<(), StorageError>(());
    let error = back_up_watched(&snapshot, &directory, &ways, watch).unwrap_err();
    assert!(matches!(error, StorageError::InvalidSetting { .. }), "{error}");
    let told = "log_bytes 1000 is below 262144, the least for pages of 4096 bytes";
    assert_eq!(error.to_string(), told, "what was given is blamed");
    assert!(!directory.exists());
}

#[test]
fn numbers_of_loaded_rows_have_to_rise() {
    let place = tempfile::tempdir().unwrap();
    let options = options(PropagationKind::InPlace);
    let database = nandu::create_database(&place.path().join("shop"), &options).unwrap();
    let (name, columns) = ("t".to_owned(), vec![Column::new("id", ColumnType::Integer)]);
    let table = NewTable { name, columns, kind: TableKind::Heap, indexes: Vec::new() };
    let mut write = database.write().unwrap();
    for (numbers, told) in [
        (&[5, 5][..], "row 5 of table t comes behind row 5: let them rise"),
        (&[0], "row 0 of table t comes behind row 0"),
        (&[7, i64::MAX, 8], "comes behind row 9223372036854775807"),
    ] {
        let fill = |load: &mut TableLoad<'_>| -> Result<(), StorageError> {
            let row = [nandu::ValueRef::Null];
            numbers.iter().try_for_each(|&number| load.push_numbered(number, &row))
        };
        let error = write.load_table(&table, &LoadOptions::default(), fill).unwrap_err();
        assert!(error.to_string().contains(told), "{error}");
        assert!(write.definition("t").is_err());
    }
}
