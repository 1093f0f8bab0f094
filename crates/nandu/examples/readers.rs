//! How many resident rows one thread looks up in a second, and how many two do together:
//!
//! `cargo run --release -p nandu --example readers -- /some/new/directory`

#![allow(clippy::print_stdout, reason = "an example talks to the terminal")]
#![allow(clippy::disallowed_types, clippy::disallowed_methods, reason = "it measures")]

use nandu::{
    Column, ColumnType, Database, DatabaseOptions, Row, StorageError, TableKind, Value, ValueRef,
};
use std::path::PathBuf;
use std::thread;
use std::time::Instant;

const TABLE: &str = "records";
const ROW_COUNT: u32 = 50_000;
const LOOKUP_COUNT: u32 = 1_000_000;
const ROUND_COUNT: u32 = 7;

/// Rows of a key and 100 bytes, all of which the pool holds.
fn database(directory: PathBuf) -> Result<Database, StorageError> {
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = 64 << 20;
    let database = nandu::create_database(&directory, &options)?;
    let columns = vec![
        Column::new("key", ColumnType::Integer).not_null(),
        Column::new("value", ColumnType::Blob).not_null(),
    ];
    let mut write = database.write()?;
    write.create_table(TABLE, columns, TableKind::Clustered { key: vec![0] })?;
    let row = |key: u32| vec![Value::Integer(key.into()), Value::Blob(vec![3; 100])];
    write.insert_all(TABLE, &(0..ROW_COUNT).map(row).collect::<Vec<Row>>())?;
    write.commit()?;
    Ok(database)
}

/// Looks up rows in no order and counts their bytes.
fn look_up(database: &Database, seed: u32) -> Result<usize, StorageError> {
    let (tables, mut byte_count, mut key) = (database.read(), 0, seed);
    for _ in 0..LOOKUP_COUNT {
        // Numerical Recipes' generator: the upper bits are random enough for addresses.
        key = key.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let wanted = ValueRef::Integer(i64::from((key >> 8) % ROW_COUNT));
        tables.get_by_key(TABLE, &[wanted], |row| {
            if let ValueRef::Blob(bytes) = row.get(1) {
                byte_count += bytes.len();
            }
        })?;
    }
    Ok(byte_count)
}

/// Lookups per second of so many threads together.
fn rate(database: &Database, thread_count: u32) -> Result<f64, StorageError> {
    let began = Instant::now();
    thread::scope(|scope| {
        let threads: Vec<_> =
            (0..thread_count).map(|seed| scope.spawn(move || look_up(database, seed))).collect();
        threads.into_iter().try_for_each(|thread| {
            let byte_count = thread.join().expect("no reader panics")?;
            assert_eq!(byte_count, LOOKUP_COUNT as usize * 100, "every row is found");
            Ok::<(), StorageError>(())
        })
    })?;
    Ok(f64::from(thread_count * LOOKUP_COUNT) / began.elapsed().as_secs_f64())
}

fn main() -> Result<(), StorageError> {
    let directory = std::env::args().nth(1);
    let database = database(directory.map_or_else(|| PathBuf::from("readers.nandu"), Into::into))?;
    rate(&database, 1)?;
    for _ in 0..ROUND_COUNT {
        let (one, two) = (rate(&database, 1)?, rate(&database, 2)?);
        println!("one {one:.0}/s, two {two:.0}/s, {:.2} times as many", two / one);
    }
    database.close()
}
