//! Databases whose making is killed at each change to their directories, fails, or is given up.

use super::*;
use crate::{Column, ColumnType, DatabaseOptions, NewDatabase, TableKind, create_database};
use crate::{StorageError, open_database};
use std::time::Duration;

fn options(directory: &Path, has_log: bool) -> DatabaseOptions {
    let mut options = DatabaseOptions::default();
    options.settings.log_bytes = 512 << 10;
    options.settings.checkpoint_bytes = 64 << 10;
    options.settings.pool_bytes = 256 << 10;
    options.log_directory = has_log.then(|| directory.with_extension("log"));
    options
}

/// Makes a database with a table; where `is_kept` is false, gives it up in the end.
fn make(directory: &Path, has_log: bool, is_kept: bool) -> Result<(), StorageError> {
    let new = NewDatabase::begin(directory, &options(directory, has_log))?;
    let mut write = new.database().write()?;
    let columns = vec![Column::new("id", ColumnType::Integer)];
    write.create_table("t", columns, TableKind::Heap)?;
    write.commit()?;
    if is_kept {
        new.keep()?;
    }
    Ok(())
}

/// The part `make`: `LIFE/HAS LOG/IS KEPT/DIRECTORY`, where a life of `-` has no end.
pub(super) fn make_and_die(part: &str) {
    let mut words = part.splitn(4, '/');
    let mut next = || words.next().unwrap();
    LIFE.set(next().parse().ok());
    let (has_log, is_kept) = (next() == "true", next() == "true");
    make(Path::new(&format!("/{}", next())), has_log, is_kept).unwrap();
    LIFE.set(None);
    println!("made");
}

fn play_making(life: &str, has_log: bool, is_kept: bool, directory: &Path) -> Child {
    let part = format!("make:{life}/{has_log}/{is_kept}");
    let program = std::env::current_exe().unwrap();
    let mut command = Command::new(&program);
    command.args(["--exact", "directory_volume::tests::plays_a_part_in_another_test"]);
    command.env(PART, format!("{part}{}", directory.display()));
    command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap()
}

fn has_table(directory: &Path, has_log: bool) -> Result<bool, StorageError> {
    let (database, _) = open_database(directory, &options(directory, has_log))?;
    let has_table = database.read().definition("t").is_ok();
    Ok(has_table)
}

/// Tries again while a process that another test is starting has the locks of this one: on a busy
/// machine that takes longer than an opening is patient.
fn patiently<T>(mut act: impl FnMut() -> Result<T, StorageError>) -> Result<T, StorageError> {
    for _ in 0..50 {
        match act() {
            Err(StorageError::Locked { holder, .. }) if holder == Some(std::process::id()) => {}
            answer => return answer,
        }
    }
    act()
}

/// What a making that was killed left: a whole database, or what the next making replaces.
fn assert_can_go_on(directory: &Path, has_log: bool, context: &str) {
    match patiently(|| has_table(directory, has_log)) {
        Ok(true) => {
            let again = create_database(directory, &options(directory, has_log)).unwrap_err();
            assert!(matches!(again, StorageError::Exists { .. }), "{context}: {again}");
        }
        Ok(false) => panic!("{context}: it opens without its table"),
        Err(StorageError::NotADatabase { .. } | StorageError::NotFound { .. }) => {
            let made = patiently(|| make(directory, has_log, true));
            made.unwrap_or_else(|error| panic!("{context}: {error}"));
            assert!(patiently(|| has_table(directory, has_log)).unwrap(), "{context}");
        }
        Err(error) => panic!("{context}: {error}"),
    }
}

fn is_gone(directory: &Path) -> bool {
    !directory.exists() && !directory.with_extension("log").exists()
}

#[test]
fn a_making_that_is_killed_at_any_change_of_a_directory_can_be_made_again() {
    // In memory, where nobody waits for a disk: what is tried is the order of the changes.
    let place = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap();
    for (has_log, is_kept) in [(false, true), (true, true), (false, false)] {
        let mut life = 0;
        loop {
            let directory = place.path().join(format!("{has_log}-{is_kept}-{life}"));
            let context = format!("log apart: {has_log}, kept: {is_kept}, killed at change {life}");
            let mut child = play_making(&life.to_string(), has_log, is_kept, &directory);
            let status = child.wait().unwrap();
            if status.code() != Some(DIED) {
                assert!(status.success(), "{context}: {status}");
                assert!(is_kept || is_gone(&directory), "{context}");
                break;
            }
            assert_can_go_on(&directory, has_log, &context);
            life += 1;
        }
        assert!(life > 15, "a making changes directories often, not {life} times");
    }
}

#[test]
fn a_making_that_is_killed_at_any_time_can_be_made_again() {
    let place = tempfile::tempdir().unwrap();
    for round in 0..10_u64 {
        let directory = place.path().join(round.to_string());
        let mut child = play_making("-", false, true, &directory);
        let waited = Duration::from_millis(4 * round);
        // What is waited for is another process, on the wall clock.
        let (_sender, receiver) = std::sync::mpsc::channel::<()>();
        let _ = receiver.recv_timeout(waited);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_can_go_on(&directory, false, &format!("killed after {waited:?}"));
    }
}

#[test]
fn a_making_that_is_killed_before_its_list_is_durable_says_so_and_is_replaced() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    std::fs::create_dir(&directory).unwrap();
    let error = DirectoryVolume::open(&directory, OPTIONS).unwrap_err().to_string();
    assert!(error.contains("it has no file nandu.files; name another directory"), "{error}");
    for name in ["nandu.lock", "nandu.files.new"] {
        std::fs::write(directory.join(name), "").unwrap();
    }
    let error = DirectoryVolume::open(&directory, OPTIONS).unwrap_err().to_string();
    assert!(error.contains("its making was interrupted; make it again"), "{error}");
    assert_can_go_on(&directory, false, "a list that was never durable");
    assert!(!directory.join("nandu.files.new").exists());
}

#[test]
fn what_is_given_up_or_refused_leaves_nothing() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    make(&directory, true, false).unwrap();
    assert!(is_gone(&directory), "directories that were made go");
    let empty = place.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    make(&empty, false, false).unwrap();
    assert_eq!(std::fs::read_dir(&empty).unwrap().count(), 0, "one that was there stays, empty");
    // A log that cannot be made: what was begun before it goes.
    let log = directory.with_extension("log");
    std::fs::create_dir(&log).unwrap();
    std::fs::write(log.join("letter.txt"), "dear").unwrap();
    let refused = make(&directory, true, true).unwrap_err();
    assert!(refused.to_string().contains("letter.txt"), "{refused}");
    assert!(!directory.exists());
    assert_eq!(std::fs::read_dir(&log).unwrap().count(), 1);
    // Settings that do not fit the drive are found out late.
    let mut options = options(&directory, false);
    options.files.sector_bytes = Some(65_536);
    let refused = create_database(&directory, &options).unwrap_err();
    assert!(matches!(refused, StorageError::InvalidSetting { .. }), "{refused}");
    assert!(!directory.exists());
}

#[test]
fn an_interrupted_making_keeps_what_is_somebody_elses() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    let (volume, undo) = DirectoryVolume::begin(&directory, OPTIONS, 5, None).unwrap();
    drop((volume, undo));
    std::fs::write(directory.join("letter.txt"), "dear").unwrap();
    let opened = DirectoryVolume::open(&directory, OPTIONS).unwrap_err();
    assert!(opened.to_string().contains("interrupted"), "{opened}");
    let made = DirectoryVolume::create(&directory, OPTIONS).unwrap_err();
    assert!(made.to_string().contains("letter.txt"), "{made}");
    let (volume, undo) = {
        std::fs::rename(directory.join("letter.txt"), place.path().join("letter.txt")).unwrap();
        DirectoryVolume::begin(&directory, OPTIONS, 6, None).unwrap()
    };
    assert_eq!(volume.identity(), 5, "the remains tell what they are part of");
    std::fs::write(directory.join("letter.txt"), "dear").unwrap();
    drop(volume);
    assert!(undo.run(false));
    drop(undo);
    let names: Vec<_> = std::fs::read_dir(&directory).unwrap().collect();
    assert_eq!(names.len(), 1, "what is undone leaves the letter alone: {names:?}");
}

#[test]
fn a_making_waits_for_nobody_and_takes_nothing_from_another() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    let (volume, undo) = DirectoryVolume::begin(&directory, OPTIONS, 5, None).unwrap();
    let second = DirectoryVolume::create(&directory, OPTIONS).unwrap_err();
    assert!(matches!(second, StorageError::Locked { .. }), "{second}");
    drop(volume);
    let second = DirectoryVolume::create(&directory, OPTIONS).unwrap_err();
    assert!(matches!(second, StorageError::Locked { .. }), "until it is undone: {second}");
    assert!(undo.run(false));
    drop(undo);
    // The log of a finished database is not taken for remains.
    make(&directory, true, true).unwrap();
    let other = place.path().join("other");
    let mut taken = options(&other, false);
    taken.log_directory = Some(directory.with_extension("log"));
    let refused = create_database(&other, &taken).unwrap_err();
    assert!(matches!(refused, StorageError::Exists { .. }), "{refused}");
    assert!(has_table(&directory, true).unwrap() && !other.exists());
}
