//! Directories for volumes beside the data: what is named goes to the propagation, and one that it has no use
//! for is told by its name, before anything is left or changed.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu::back_up::{BackUpOptions, BackUpProgress, back_up_watched};
use nandu::{
    Column, ColumnType, Database, DatabaseOptions, DirectoryOptions, DirectoryVolume, StorageError,
    TableKind, Volume,
};
use std::collections::BTreeMap;
use std::path::Path;

fn options(tier: Option<&Path>) -> DatabaseOptions {
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = 256 << 10;
    (options.settings.log_bytes, options.settings.checkpoint_bytes) = (1 << 20, 256 << 10);
    options.other_directories.extend(tier.map(|tier| ("tier".to_owned(), tier.to_owned())));
    options
}

fn make(directory: &Path) -> Database {
    let database = nandu::create_database(directory, &options(None)).unwrap();
    let mut write = database.write().unwrap();
    let columns = vec![Column::new("id", ColumnType::Integer)];
    write.create_table("things", columns, TableKind::Heap).unwrap();
    write.commit().unwrap();
    database
}

/// What is in a directory, by its names.
fn entries(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let entry = |entry: std::io::Result<std::fs::DirEntry>| {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        (name, std::fs::read(entry.path()).unwrap())
    };
    let mut found: BTreeMap<_, _> = std::fs::read_dir(directory).unwrap().map(entry).collect();
    found.remove("nandu.lock");
    found
}

#[test]
fn one_too_many_is_told_by_its_name_and_nothing_is_left_of_a_making() {
    let place = tempfile::tempdir().unwrap();
    let (directory, tier) = (place.path().join("shop"), place.path().join("tier"));
    let error = nandu::create_database(&directory, &options(Some(&tier))).unwrap_err();
    assert!(error.to_string().contains("no use for a volume `tier`"), "{error}");
    assert!(!directory.exists() && !tier.exists(), "both were made for it");
    let database = make(&directory);
    let other_directories = options(Some(&tier)).other_directories;
    let ways = BackUpOptions { other_directories, ..BackUpOptions::default() };
    let copy = place.path().join("copy");
    let watch = |_: &BackUpProgress<'_>| Ok::<(), StorageError>(());
    let error = back_up_watched(&database.snapshot(), &copy, &ways, watch).unwrap_err();
    assert!(error.to_string().contains("no use for a volume `tier`"), "{error}");
    assert!(!copy.exists() && !tier.exists());
    database.close().unwrap();
}

#[test]
fn a_directory_that_somebody_else_uses_stays_as_it_is() {
    let place = tempfile::tempdir().unwrap();
    let (directory, tier) = (place.path().join("shop"), place.path().join("tier"));
    make(&tier).close().unwrap();
    let before = entries(&tier);
    let error = nandu::create_database(&directory, &options(Some(&tier))).unwrap_err();
    assert!(matches!(error, StorageError::Exists { .. }), "{error}");
    assert!(!directory.exists());
    assert_eq!(entries(&tier), before);
}

#[test]
fn an_opening_that_names_one_too_many_or_none_changes_nothing() {
    let place = tempfile::tempdir().unwrap();
    let (directory, tier) = (place.path().join("shop"), place.path().join("tier"));
    make(&directory).close().unwrap();
    let before = entries(&directory);
    let error = nandu::open_database(&directory, &options(Some(&tier))).unwrap_err();
    assert!(error.to_string().contains(&tier.display().to_string()), "{error}");
    let mut volume = DirectoryVolume::create(&tier, DirectoryOptions::default()).unwrap();
    volume.create("something").unwrap();
    drop(volume);
    let (of_tier, error) =
        (entries(&tier), nandu::open_database(&directory, &options(Some(&tier))).unwrap_err());
    assert!(error.to_string().contains("no use for a volume `tier`"), "{error}");
    assert_eq!((entries(&directory), entries(&tier)), (before, of_tier));
    nandu::open_database(&directory, &options(None)).unwrap().0.close().unwrap();
}
