//! What a crash leaves of records beyond memory beside a database goes when that is opened.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu::{
    Column, ColumnType, DatabaseOptions, DirectoryOptions, DirectoryVolume, TableKind, Value,
    create_database, open_database,
};
use nandu_external::{Grant, Io, Settings, Store, Vector};
use std::path::Path;
use std::sync::Arc;

/// Leaves the files of a store in a directory, as a process that is killed does.
fn crash_in(directory: &Path) {
    let volume = DirectoryVolume::open(directory, DirectoryOptions::default()).unwrap();
    let io = Io::new(Box::new(volume), Arc::default());
    let settings = Settings { block_bytes: 4096, in_flight: 2 };
    for _ in 0..2 {
        let volumes = std::slice::from_ref(&io);
        let store = Store::new(volumes, settings, Grant::new(1 << 20)).unwrap();
        let vector = Vector::filled(&store, 5000, 7_u64).unwrap();
        // Its files stay, and nobody writes down that they do.
        store.keep().unwrap();
        drop(vector);
    }
}

#[test]
fn the_opening_of_a_database_removes_what_a_crash_left_of_a_store() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("shop");
    let options = DatabaseOptions::default();
    let database = create_database(&directory, &options).unwrap();
    let mut write = database.write().unwrap();
    write.create_table("t", vec![Column::new("id", ColumnType::Integer)], TableKind::Heap).unwrap();
    write.insert("t", &[Value::from(7).as_ref()]).unwrap();
    write.commit().unwrap();
    database.close().unwrap();
    let names = || -> Vec<String> {
        let entries = std::fs::read_dir(&directory).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    };
    let before = names();
    crash_in(&directory);
    let left = names();
    assert!(left.contains(&"external-1".to_owned()) && left.contains(&"external-2".to_owned()));
    let (database, _) = open_database(&directory, &options).unwrap();
    database.close().unwrap();
    assert_eq!(names(), before);
}
