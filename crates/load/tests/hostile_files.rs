//! Mutated files of CSV and Parquet: rows or an error, no panic, no memory out of proportion. The fuzz targets
//! throw any bytes at the same readers (docs/fuzzing.md).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "../../storage/tests/hostile/mod.rs"]
mod hostile;
mod samples;

use hostile::{measured, mutate};
use nandu_base::Rng;
use nandu_load::{CsvOptions, CsvRows, LoadError, ParquetRows, RowSource};
use std::path::Path;

/// Memory that reading may take: so many times the bytes, and some for buffers.
const MEMORY_FACTOR: usize = 32;
const MEMORY_BASE_BYTES: usize = 16 << 20;
/// In Parquet a page says how long it is without compression, in 31 bits, and the crate reserves as much
/// before it reads any of it, where it unpacks by itself.
const PARQUET_PAGE_BYTES_MAX: usize = 1 << 31;

/// Mutants of each file.
const MUTANT_COUNT: u64 = 1000;
/// Calls of a reader, of 512 rows each.
const CALL_COUNT_MAX: usize = 8;

/// Rows of a source, as far as they come.
fn rows_of(mut source: impl RowSource) -> Result<u64, LoadError> {
    let mut row_count = 0;
    let mut count = |_: &[nandu_storage::sqlite::ValueRef<'_>]| {
        row_count += 1;
        Ok(())
    };
    // A row takes a byte at least in CSV; in Parquet none, but a reader's patience ends.
    for _ in 0..CALL_COUNT_MAX {
        if !source.next_rows(&mut count)? {
            break;
        }
    }
    Ok(row_count)
}

fn throw(
    what: &str,
    bytes: &[u8],
    memory_bytes: usize,
    read: impl Fn(&[u8]) -> Result<u64, LoadError>,
) {
    assert!(read(bytes).unwrap() > 0, "{what}: there is something to read");
    let (mut error_count, mut rng) = (0, Rng::for_part(MUTANT_COUNT, what));
    for round in 0..MUTANT_COUNT {
        let mut mutated = bytes.to_vec();
        for _ in 0..=rng.below(4) {
            mutate(&mut mutated, &mut rng);
        }
        let (outcome, most) = measured(|| read(&mutated));
        let limit = memory_bytes + MEMORY_FACTOR * mutated.len();
        assert!(most <= limit, "{what}, round {round}: {most} bytes for {}", mutated.len());
        error_count += u64::from(outcome.is_err());
    }
    assert!(error_count > 0, "{what}: no mutant was found out");
}

#[test]
fn mutated_files_of_csv_give_rows_or_an_error() {
    for (name, bytes) in samples::csv_files() {
        throw(&format!("csv {name}"), &bytes, MEMORY_BASE_BYTES, |bytes| {
            let input = Box::new(std::io::Cursor::new(bytes.to_vec()));
            rows_of(CsvRows::open(input, name, None, &CsvOptions::default())?)
        });
    }
}

#[test]
fn mutated_files_of_parquet_give_rows_or_an_error() {
    let directory = tempfile::tempdir().unwrap();
    let memory_bytes = MEMORY_BASE_BYTES + PARQUET_PAGE_BYTES_MAX;
    for (name, bytes) in samples::parquet_files(directory.path()) {
        let path = directory.path().join(name);
        throw(&format!("parquet {name}"), &bytes, memory_bytes, |bytes| {
            std::fs::write(&path, bytes).unwrap();
            rows_of(ParquetRows::open(Path::new(&path))?)
        });
    }
}
