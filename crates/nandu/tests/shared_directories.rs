//! Directories of databases that several processes come to: copied, opened and killed while one of them
//! writes. Whatever opens is of one moment; all else is refused in words.
//!
//! 1. A second process is this program, started again with a part to play (`plays_a_part_in_another_test`).
//! 2. Transaction n stores row n in each table, so what is of one moment has the rows from 0 to some n.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu::{
    Column, ColumnType, Database, DatabaseOptions, DirectoryOptions, PropagationKind, RowRange,
    StorageError, TableKind, Tables,
};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Rows before anybody copies: some hundred pages.
const ROWS_BEFORE: i64 = 400;
/// Rows at most, so that a test has an end.
const ROWS_MAX: i64 = 4000;

/// Which part this process plays.
const PART: &str = "NANDU_TEST_PART";

fn options(propagation: PropagationKind, read_only: bool) -> DatabaseOptions {
    let mut options = DatabaseOptions::default();
    options.settings.propagation = propagation.into();
    options.settings.pool_bytes = 256 << 10;
    (options.settings.log_bytes, options.settings.checkpoint_bytes) = (1 << 20, 128 << 10);
    options.settings.propagation.log_structured.segment_bytes = 64 << 10;
    options.settings.propagation.log_structured.write_bytes = 16 << 10;
    options.files = DirectoryOptions { read_only, queue_depth: 8, ..DirectoryOptions::default() };
    options
}

fn make(directory: &Path, options: &DatabaseOptions) -> Database {
    let database = nandu::create_database(directory, options).unwrap();
    let columns =
        || vec![Column::new("id", ColumnType::Integer), Column::new("text", ColumnType::Text)];
    let mut write = database.write().unwrap();
    write.create_table("heap", columns(), TableKind::Heap).unwrap();
    write.create_index("heap", "by_id", &["id"]).unwrap();
    write.create_table("tree", columns(), TableKind::Clustered { key: vec![0] }).unwrap();
    write.create_table("last", columns(), TableKind::Clustered { key: vec![1] }).unwrap();
    write.commit().unwrap();
    for id in 0..ROWS_BEFORE {
        add(&database, id).unwrap();
    }
    database
}

fn text_of(id: i64) -> String {
    format!("{id} ").repeat(100)
}

/// Stores a row in each table. In the tree neighbours lie far apart, so pages all over it change.
fn add(database: &Database, id: i64) -> Result<(), StorageError> {
    let mut write = database.write()?;
    write.insert_as("heap", &(id, text_of(id)))?;
    write.put_as("tree", &(scattered(id), text_of(id)))?;
    write.put_as("last", &(id, "row"))?;
    write.commit()
}

fn scattered(id: i64) -> i64 {
    id * 7919 % 10_007
}

/// How many rows there are, where what is read is of one moment, as it has to be.
fn row_count(tables: &Tables) -> Result<i64, StorageError> {
    let of = |range: RowRange| -> Result<Vec<(i64, String)>, StorageError> {
        tables.rows(range)?.typed().collect()
    };
    let heap = of(RowRange::of("heap"))?;
    let count = i64::try_from(heap.len()).unwrap();
    assert!(heap.iter().map(|row| row.0).eq(0..count), "the rows of a heap are in their order");
    assert!(heap.iter().all(|(id, text)| *text == text_of(*id)));
    assert_eq!(of(RowRange::of("heap").by_index("by_id"))?, heap, "{count} rows");
    let mut wanted: Vec<(i64, String)> =
        (0..count).map(|id| (scattered(id), text_of(id))).collect();
    wanted.sort_unstable();
    assert_eq!(of(RowRange::of("tree"))?, wanted, "{count} rows");
    let last: Vec<(i64, String)> = of(RowRange::of("last"))?;
    assert_eq!(last, [(count - 1, "row".to_owned())]);
    Ok(count)
}

fn second(part: &str, directory: &Path, kind: PropagationKind) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "shared_directories::plays_a_part_in_another_test", "--nocapture"]);
    let place = directory.to_str().unwrap();
    let number = PropagationKind::ALL.iter().position(|&one| one == kind).unwrap();
    command.env(PART, format!("{part} {number} {place}"));
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

/// The file that a second process makes when it has begun.
fn begun(directory: &Path) -> PathBuf {
    directory.with_extension("begun")
}

fn wait_until_it_begins(child: &mut Child, directory: &Path) {
    while !begun(directory).exists() {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it began");
        std::thread::yield_now();
    }
    std::fs::remove_file(begun(directory)).unwrap();
}

/// No test of its own: writes, or has open, until it is killed.
#[test]
fn plays_a_part_in_another_test() {
    let Ok(told) = std::env::var(PART) else { return };
    let [part, kind, directory] = told.splitn(3, ' ').collect::<Vec<_>>()[..] else { panic!() };
    let kind = PropagationKind::ALL[kind.parse::<usize>().unwrap()];
    let (directory, changing) = (Path::new(directory), options(kind, part == "reads"));
    let mut database = nandu::open_database(directory, &changing).unwrap().0;
    std::fs::write(begun(directory), "").unwrap();
    let first = row_count(&database.read()).unwrap();
    for id in first..ROWS_MAX {
        match part {
            "reads" | "stays" => loop {
                std::thread::park();
            },
            "writes" => {}
            "opens" => {
                database.close().unwrap();
                database = nandu::open_database(directory, &changing).unwrap().0;
            }
            _ => panic!("{part} is no part"),
        }
        add(&database, id).unwrap();
    }
}

/// What became of copies.
#[derive(Debug, Default)]
struct Tally {
    refused: u32,
    /// What was opened and could not be read.
    told: u32,
    whole: u32,
}

/// Opens a copy, which is refused or of one moment.
fn look_at(copy: &Path, options: &DatabaseOptions, tally: &mut Tally) {
    let database = match nandu::open_database(copy, options) {
        Ok((database, _)) => database,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            tally.refused += 1;
            return;
        }
    };
    let tables = database.read();
    match row_count(&tables) {
        Ok(_) => {
            assert_eq!(tables.check().unwrap().findings, [""; 0]);
            tally.whole += 1;
        }
        Err(error) => {
            assert!(error.is_damage(), "{error}");
            assert_ne!(tables.check().unwrap().findings, [""; 0]);
            tally.told += 1;
        }
    }
}

fn copy(how: &str, source: &Path, target: &Path) {
    // Of what comes and goes meanwhile it complains.
    let output = Command::new("cp").args([how, "--"]).arg(source).arg(target).output().unwrap();
    assert!(target.exists(), "{output:?}");
}

/// Copies what a second process writes, again and again.
fn copy_beside(part: &str, kind: PropagationKind, copy_count: u32) -> Tally {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    make(&directory, &options(kind, false)).close().unwrap();
    let mut child = second(part, &directory, kind);
    wait_until_it_begins(&mut child, &directory);
    let mut tally = Tally::default();
    for number in 0..copy_count {
        let target = place.path().join(format!("copy-{number}"));
        copy(if number % 2 == 0 { "-r" } else { "-a" }, &directory, &target);
        look_at(&target, &options(kind, number % 4 > 1), &mut tally);
        std::fs::remove_dir_all(target).unwrap();
    }
    child.kill().unwrap();
    child.wait().unwrap();
    tally
}

#[test]
fn a_copy_of_a_database_that_is_written_meanwhile_is_refused() {
    for kind in PropagationKind::all_on_data_alone() {
        let tally = copy_beside("writes", kind, 8);
        assert_eq!((tally.refused, tally.told, tally.whole), (8, 0, 0), "{kind:?}");
    }
}

#[test]
fn a_copy_of_a_database_that_is_opened_and_closed_meanwhile_is_of_one_moment_or_refused() {
    for kind in PropagationKind::all_on_data_alone() {
        let tally = copy_beside("opens", kind, 16);
        assert!(tally.refused > 0, "{kind:?}: {tally:?}");
    }
}

#[test]
fn a_copy_of_what_is_closed_is_a_database_and_one_of_a_crash_if_somebody_says_so() {
    for kind in PropagationKind::all_on_data_alone() {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("shop");
        let (changing, reading) = (options(kind, false), options(kind, true));
        make(&directory, &changing).close().unwrap();
        for (number, how) in ["-r", "-a", "-rp"].into_iter().enumerate() {
            // A copy of a copy, and what was written in it.
            let (target, next) = (place.path().join(format!("{number}")), place.path().join(how));
            copy(how, &directory, &target);
            let mut tally = Tally::default();
            look_at(&target, &reading, &mut tally);
            let database = nandu::open_database(&target, &changing).unwrap().0;
            add(&database, ROWS_BEFORE).unwrap();
            database.close().unwrap();
            copy(how, &target, &next);
            look_at(&next, &changing, &mut tally);
            assert_eq!(tally.whole, 2, "{how}: {tally:?}");
        }
        let database = nandu::open_database(&directory, &changing).unwrap().0;
        add(&database, ROWS_BEFORE).unwrap();
        // As a crash leaves it: it opens where it is, and a copy of it once it is known that nobody wrote.
        drop(database);
        let crashed = place.path().join("crashed");
        copy("-r", &directory, &crashed);
        for options in [&changing, &reading, &changing] {
            let refused = nandu::open_database(&crashed, options).unwrap_err();
            assert!(matches!(refused, StorageError::OfManyMoments { .. }), "{refused}");
            assert!(
                refused.to_string().contains("crashed was copied while it was open"),
                "{refused}"
            );
        }
        std::fs::remove_file(crashed.join("nandu.lock")).unwrap();
        for directory in [&crashed, &directory] {
            let (database, report) = nandu::open_database(directory, &changing).unwrap();
            assert!(!report.was_closed);
            assert_eq!(row_count(&database.read()).unwrap(), ROWS_BEFORE + 1);
        }
    }
}

#[test]
fn a_log_apart_has_to_be_of_the_same_moment() {
    let place = tempfile::tempdir().unwrap();
    let (directory, log) = (place.path().join("shop"), place.path().join("log"));
    let mut options = options(PropagationKind::InPlace, false);
    options.log_directory = Some(log.clone());
    make(&directory, &options).close().unwrap();
    let old = place.path().join("old");
    copy("-r", &directory, &old);
    let database = nandu::open_database(&directory, &options).unwrap().0;
    add(&database, ROWS_BEFORE).unwrap();
    database.close().unwrap();
    // Pages of yesterday, and the log of today.
    let refused = nandu::open_database(&old, &options).unwrap_err();
    assert!(matches!(refused, StorageError::OfManyMoments { .. }), "{refused}");
    // Both copied.
    let (new, new_log) = (place.path().join("new"), place.path().join("new-log"));
    copy("-r", &directory, &new);
    copy("-r", &log, &new_log);
    options.log_directory = Some(new_log);
    let database = nandu::open_database(&new, &options).unwrap().0;
    assert_eq!(row_count(&database.read()).unwrap(), ROWS_BEFORE + 1);
}

#[test]
fn one_process_writes_or_several_read_and_who_comes_too_late_is_told_of_whom() {
    let kind = PropagationKind::InPlace;
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    make(&directory, &options(kind, false)).close().unwrap();
    let open = |read_only| nandu::open_database(&directory, &options(kind, read_only));
    let told = |read_only| match open(read_only) {
        Err(StorageError::Locked { place, holder }) => {
            assert!(place.ends_with("shop"), "{place}");
            holder
        }
        other => panic!("{other:?}"),
    };
    let mut child = second("stays", &directory, kind);
    wait_until_it_begins(&mut child, &directory);
    assert_eq!((told(false), told(true)), (Some(child.id()), Some(child.id())));
    // What a kill leaves is no lock, whatever number stands there.
    child.kill().unwrap();
    child.wait().unwrap();
    let unclosed = open(true).unwrap_err();
    assert!(matches!(unclosed, StorageError::NeedsRestart { .. }), "{unclosed}");
    open(false).unwrap().0.close().unwrap();
    let mut child = second("reads", &directory, kind);
    wait_until_it_begins(&mut child, &directory);
    assert_eq!(told(false), None, "who reads leaves no number");
    assert_eq!(row_count(&open(true).unwrap().0.read()).unwrap(), ROWS_BEFORE);
    child.kill().unwrap();
    child.wait().unwrap();
    // Twice in one process.
    let database = open(false).unwrap().0;
    assert_eq!((told(false), told(true)), (Some(std::process::id()), Some(std::process::id())));
    database.close().unwrap();
    let [one, _two] = [true, true].map(|read_only| open(read_only).unwrap().0);
    told(false);
    assert_eq!(row_count(&one.read()).unwrap(), ROWS_BEFORE);
}

#[test]
fn a_file_that_is_missing_is_named() {
    for (kind, is_closed) in
        PropagationKind::all_on_data_alone().flat_map(|kind| [(kind, true), (kind, false)])
    {
        let place = tempfile::tempdir().unwrap();
        let directory = place.path().join("shop");
        let database = make(&directory, &options(kind, false));
        if is_closed {
            database.close().unwrap();
        } else {
            drop(database);
        }
        let entries = std::fs::read_dir(&directory).unwrap();
        let names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        for name in names {
            let (path, aside) = (directory.join(&name), place.path().join("aside"));
            std::fs::rename(&path, &aside).unwrap();
            for read_only in [true, false] {
                match nandu::open_database(&directory, &options(kind, read_only)) {
                    // The file that came last may be made again where its making may have been cut off.
                    Ok((database, _)) => {
                        assert!(["nandu.lock", "last.tree"].contains(&name.as_str()), "{name}");
                        match row_count(&database.read()) {
                            Ok(count) => assert_eq!(count, ROWS_BEFORE, "{name}"),
                            Err(error) => assert!(error.is_damage() && name == "last.tree"),
                        }
                        if is_closed {
                            database.close().unwrap();
                        }
                    }
                    Err(StorageError::NeedsRestart { .. }) => {
                        assert!(read_only && !is_closed, "{name}");
                    }
                    // Who may not make it sees the directory without it, and a table without its file.
                    Err(error) if read_only && name == "last.tree" => {
                        assert!(error.is_damage(), "{name}: {error}");
                    }
                    Err(error) => assert!(error.to_string().contains(&name), "{name}: {error}"),
                }
            }
            std::fs::rename(&aside, &path).unwrap();
        }
        let database = nandu::open_database(&directory, &options(kind, false)).unwrap().0;
        assert_eq!(row_count(&database.read()).unwrap(), ROWS_BEFORE, "nothing was changed");
    }
}
