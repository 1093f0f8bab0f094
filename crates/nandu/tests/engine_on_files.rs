//! The engine on directories of real files: commits survive a process that just ends, with the log
//! beside the pages or in a directory of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu::{DirectoryOptions, DirectoryVolume, FileId, StorageError, Volume};
use nandu_storage::btree::{Direction, Tree};
use nandu_storage::engine::{Engine, Settings, Volumes};
use std::ops::Bound;
use std::path::Path;

const TREE_FILE: &str = "rows.tree";

fn settings() -> Settings {
    Settings {
        page_bytes: 4096,
        pool_bytes: 256 << 10,
        log_bytes: 8 << 20,
        checkpoint_bytes: 256 << 10,
        ..Settings::default()
    }
}

fn volume(directory: &Path, is_new: bool) -> Result<Box<dyn Volume>, StorageError> {
    let options = DirectoryOptions { queue_depth: 32, ..DirectoryOptions::default() };
    let volume = if is_new {
        DirectoryVolume::create(directory, options)?
    } else {
        DirectoryVolume::open(directory, options)?
    };
    Ok(Box::new(volume))
}

fn volumes(root: &Path, log_apart: bool, is_new: bool) -> Volumes {
    let log = log_apart.then(|| volume(&root.join("log"), is_new).unwrap());
    Volumes::new(volume(&root.join("data"), is_new).unwrap(), log)
}

fn put(engine: &mut Engine, file: FileId, key: u64, value: &[u8]) {
    let done = engine.act(|pages| {
        let mut undo = pages.begin_undo(nandu_storage::engine::StructureKind::Tree, file);
        Tree::at(file).upsert(pages, &key.to_be_bytes(), value, &mut undo)?;
        pages.set_undo(undo);
        Ok(())
    });
    done.unwrap();
}

fn rows(engine: &Engine, file: FileId) -> Vec<(u64, Vec<u8>)> {
    let everything = (Bound::Unbounded, Bound::Unbounded);
    let mut scan = Tree::at(file).scan(everything, Direction::Forward);
    let mut rows = Vec::new();
    while let Some((key, value)) = scan.next(engine).unwrap() {
        rows.push((u64::from_be_bytes(key.try_into().unwrap()), value.to_vec()));
    }
    rows
}

fn survives(log_apart: bool) {
    let root = tempfile::tempdir().unwrap();
    let value = |key: u64| vec![u8::try_from(key % 251).unwrap(); 100];
    let mut engine = Engine::create(volumes(root.path(), log_apart, true), &settings(), 5).unwrap();
    let file = engine.create_file(TREE_FILE).unwrap();
    engine.begin().unwrap();
    engine.act(|pages| Tree::create(pages, file)).unwrap();
    engine.commit().unwrap();
    // More than the pool holds, so that pages come and go; in an order that touches many.
    for batch in 0..40_u64 {
        engine.begin().unwrap();
        for step in 0..100 {
            let key = (batch * 100 + step) * 2_654_435_761 % 1_000_003;
            put(&mut engine, file, key, &value(key));
        }
        let lsn = engine.commit().unwrap().unwrap();
        engine.log().make_durable(lsn).unwrap();
    }
    let expected = rows(&engine, file);
    assert_eq!(expected.len(), 4000);
    engine.begin().unwrap();
    put(&mut engine, file, 7_000_000, b"never committed");
    engine.audit();
    drop(engine);
    let (engine, report) =
        Engine::open(volumes(root.path(), log_apart, false), &settings()).unwrap();
    assert!(!report.was_closed);
    assert_eq!(rows(&engine, file), expected);
    assert!(expected.iter().all(|(key, bytes)| *bytes == value(*key)));
    engine.close().unwrap();
    let (engine, report) =
        Engine::open(volumes(root.path(), log_apart, false), &settings()).unwrap();
    assert!(report.was_closed);
    assert_eq!(rows(&engine, file), expected);
}

#[test]
fn commits_survive_a_process_that_ends_without_closing() {
    survives(false);
}

#[test]
fn commits_survive_with_the_log_in_a_directory_of_its_own() {
    survives(true);
}

#[test]
fn a_second_opening_is_refused_while_the_engine_lives() {
    let root = tempfile::tempdir().unwrap();
    let engine = Engine::create(volumes(root.path(), false, true), &settings(), 5).unwrap();
    let second = volume(&root.path().join("data"), false).err().unwrap();
    assert!(matches!(second, StorageError::Locked { holder: Some(_), .. }), "{second}");
    engine.close().unwrap();
    volume(&root.path().join("data"), false).unwrap();
}

#[test]
fn a_database_in_a_directory_is_opened_again_and_sound() {
    use nandu::{Column, ColumnType, DatabaseOptions, TableKind, Value};
    let root = tempfile::tempdir().unwrap();
    let (directory, log) = (root.path().join("shop"), root.path().join("log"));
    let options = DatabaseOptions {
        settings: settings(),
        log_directory: Some(log),
        ..DatabaseOptions::default()
    };
    let database = nandu::create_database(&directory, &options).unwrap();
    let columns =
        vec![Column::new("id", ColumnType::Integer), Column::new("name", ColumnType::Text)];
    let mut write = database.write().unwrap();
    write.create_table("heap", columns.clone(), TableKind::Heap).unwrap();
    write.create_table("tree", columns, TableKind::Clustered { key: vec![0] }).unwrap();
    for id in 0..500 {
        let row = [Value::from(id), Value::from(format!("customer {id}").as_str())];
        let row = [row[0].as_ref(), row[1].as_ref()];
        write.insert("heap", &row).unwrap();
        write.put("tree", &row).unwrap();
    }
    write.commit().unwrap();
    database.flush().unwrap();
    drop(database);
    let again = nandu::create_database(&directory, &options).unwrap_err();
    assert!(matches!(again, StorageError::Exists { .. }), "{again}");
    let (database, report) = nandu::open_database(&directory, &options).unwrap();
    assert!(!report.was_closed);
    let check = database.read().check().unwrap();
    assert_eq!((check.findings, check.row_count), (Vec::new(), 1000));
    database.close().unwrap();
    let nowhere = nandu::open_database(&root.path().join("nowhere"), &options).unwrap_err();
    assert!(matches!(nowhere, StorageError::NotFound { .. }), "{nowhere}");
}
