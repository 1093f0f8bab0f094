//! Memory of writing does not grow with the rows, counted by the allocator of this program: inserted one by
//! one, many at once, as they come from an iterator, or loaded.
//!
//! 1. What is counted is everything: pool, log, rows under way, what the process keeps about files.
//! 2. 220,000 rows more take no more, but for [`SLACK_BYTES`]. Before images of pages that
//!    were made had been kept forever, as 2 MB a million rows.

#![allow(clippy::print_stdout, reason = "figures for whoever asks with --nocapture")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; it hands everything on")]

use nandu::{Column, ColumnType, Database, DatabaseOptions, Row, StorageError, TableKind, Value};
use nandu_storage::database::{LoadOptions, NewTable};
use nandu_storage::log::Durability;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

const FEW_ROWS: i64 = 40_000;
const MANY_ROWS: i64 = 260_000;
/// Rows of a transaction, where there are several.
const TRANSACTION_ROWS: usize = 1000;
/// What may differ: buffers of the log are more or less full when they are written, a list has doubled.
const SLACK_BYTES: i64 = 300 << 10;
/// Besides, of each sorted run one page and its file; they are as many as the rows fill of half the memory
/// for sorting.
const RUN_BYTES: i64 = 8 << 10;

/// The system's allocator, and how much it has given.
struct Counting;

static HELD_BYTES: AtomicI64 = AtomicI64::new(0);
static PEAK_BYTES: AtomicI64 = AtomicI64::new(0);

fn count(bytes: i64) {
    let held = HELD_BYTES.fetch_add(bytes, Ordering::Relaxed) + bytes;
    PEAK_BYTES.fetch_max(held, Ordering::Relaxed);
}

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(i64::try_from(layout.size()).unwrap_or(0));
        // SAFETY: the caller keeps the rules of the trait.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        count(-i64::try_from(layout.size()).unwrap_or(0));
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A way to write rows into the table `rows` of a new database.
type Way = fn(&Database, i64) -> Result<(), StorageError>;

/// Where files cost no wait, if there is such a place with room; syncs of a small pool are most of the time
/// elsewhere, and nothing is counted there that is not counted here.
fn scratch() -> tempfile::TempDir {
    const NEEDED_BYTES: u64 = 2 << 30;
    let in_memory = "/dev/shm";
    let has_room = rustix::fs::statvfs(in_memory)
        .is_ok_and(|it| it.f_bavail.saturating_mul(it.f_frsize) >= NEEDED_BYTES);
    let made = has_room.then(|| tempfile::tempdir_in(in_memory).ok()).flatten();
    made.unwrap_or_else(|| tempfile::tempdir().unwrap())
}

/// The most that was held at once while a new database took so many rows.
fn peak_bytes(row_count: i64, way: Way) -> i64 {
    let place = scratch();
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = 256 << 10;
    options.settings.log_bytes = 256 << 20;
    options.settings.checkpoint_bytes = 1 << 20;
    options.settings.durability = Durability::None;
    let before = HELD_BYTES.load(Ordering::Relaxed);
    let database = nandu::create_database(&place.path().join("database"), &options).unwrap();
    // Making and closing one takes 4 MB for a moment, which would hide what writing takes.
    PEAK_BYTES.store(HELD_BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
    way(&database, row_count).unwrap();
    let peak = PEAK_BYTES.load(Ordering::Relaxed) - before;
    let mut rows = 0;
    database
        .read()
        .scan("rows", |_, _| {
            rows += 1;
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    assert_eq!(rows, row_count, "every row is there");
    database.close().unwrap();
    peak
}

/// Row n of a table; keys come in an order that is not theirs, yet near to it, so that little is read.
fn row(number: i64) -> Row {
    let key = number ^ 0x2A5;
    vec![Value::Integer(key), Value::Text(format!("row {number:_>80}"))]
}

fn columns() -> Vec<Column> {
    vec![Column::new("id", ColumnType::Integer).not_null(), Column::new("text", ColumnType::Text)]
}

fn create(database: &Database, kind: TableKind) -> Result<(), StorageError> {
    let mut write = database.write()?;
    write.create_table("rows", columns(), kind)?;
    write.commit()
}

/// Rows of the transaction that begins with this one.
fn transaction(first: i64) -> std::ops::Range<i64> {
    first..first + i64::try_from(TRANSACTION_ROWS).unwrap()
}

fn insert_each(database: &Database, row_count: i64, kind: TableKind) -> Result<(), StorageError> {
    create(database, kind)?;
    for first in (0..row_count).step_by(TRANSACTION_ROWS) {
        let mut write = database.write()?;
        for number in transaction(first) {
            let row = row(number);
            write.insert("rows", &row.iter().map(Value::as_ref).collect::<Vec<_>>())?;
        }
        write.commit()?;
    }
    Ok(())
}

fn insert_batches(
    database: &Database,
    row_count: i64,
    kind: TableKind,
) -> Result<(), StorageError> {
    create(database, kind)?;
    for first in (0..row_count).step_by(TRANSACTION_ROWS) {
        let rows: Vec<Row> = transaction(first).map(row).collect();
        let mut write = database.write()?;
        write.insert_all("rows", &rows)?;
        write.commit()?;
    }
    Ok(())
}

fn load(database: &Database, row_count: i64, kind: TableKind) -> Result<(), StorageError> {
    let table = NewTable { name: "rows".to_owned(), columns: columns(), kind, indexes: Vec::new() };
    let options = LoadOptions { sort_bytes: 1 << 20, ..LoadOptions::default() };
    let mut write = database.write()?;
    write.load_table(&table, &options, |load| {
        for number in 0..row_count {
            let row = row(number);
            load.push(&row.iter().map(Value::as_ref).collect::<Vec<_>>())?;
        }
        Ok::<(), StorageError>(())
    })?;
    write.commit()
}

/// All rows in one transaction, none of them held longer than needed.
fn insert_from(database: &Database, row_count: i64, kind: TableKind) -> Result<(), StorageError> {
    create(database, kind)?;
    let mut write = database.write()?;
    let inserted = write.insert_from("rows", (0..row_count).map(row))?;
    assert_eq!(inserted, row_count.unsigned_abs(), "as many as came");
    write.commit()
}

fn clustered() -> TableKind {
    TableKind::Clustered { key: vec![0] }
}

#[test]
fn memory_does_not_grow_with_the_rows_that_are_written() {
    let ways: [(&str, i64, Way); 7] = [
        ("heap, row by row", 0, |to, rows| insert_each(to, rows, TableKind::Heap)),
        ("clustered, row by row", 0, |to, rows| insert_each(to, rows, clustered())),
        ("clustered, in batches", 0, |to, rows| insert_batches(to, rows, clustered())),
        ("heap, from an iterator", 0, |to, rows| insert_from(to, rows, TableKind::Heap)),
        ("clustered, from an iterator", 0, |to, rows| insert_from(to, rows, clustered())),
        ("heap, loaded", 0, |to, rows| load(to, rows, TableKind::Heap)),
        // Of 250,000 rows of 110 bytes with what sorting adds.
        ("clustered, loaded", 60, |to, rows| load(to, rows, clustered())),
    ];
    for (name, run_count, way) in ways {
        let (few, many) = (peak_bytes(FEW_ROWS, way), peak_bytes(MANY_ROWS, way));
        println!("{name}: {few} bytes for {FEW_ROWS} rows, {many} for {MANY_ROWS}");
        let bound = few + SLACK_BYTES + run_count * RUN_BYTES;
        assert!(many <= bound, "{name}: {many} bytes, with few rows {few}");
    }
}
