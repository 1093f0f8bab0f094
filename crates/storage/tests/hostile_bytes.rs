//! Mutated real files at the entry points of [`nandu_storage::hostile`]: no panic, no walk without
//! end, no memory out of proportion. The fuzz targets throw any bytes at the same ones.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod hostile;
mod samples;

use hostile::{measured, mutate};
use nandu_base::Rng;
use nandu_storage::StorageError;
use nandu_storage::hostile::{self as entry, Seen};
use nandu_storage::page::TRAILER_BYTES;
use samples::Sample;

/// Memory that reading may take: so many times the bytes, and some for buffers.
const MEMORY_FACTOR: usize = 16;
const MEMORY_BASE_BYTES: usize = 16 << 20;
/// Pages that reading may read: so many times the pages of 512 bytes there can be.
const READ_FACTOR: u64 = 64;

/// The longest input of the fuzz targets.
const SAMPLE_BYTES_MAX: usize = 32 << 10;

type Read = fn(&[u8]) -> Result<Seen, StorageError>;

/// Reads `bytes` as they are, then mutated in `count` ways.
fn throw(what: &str, bytes: &[u8], count: u64, read: Read) {
    let seen = read(bytes).unwrap();
    assert!(seen.item_count > 0, "{what}: there is something to read");
    let (mut error_count, mut rng) = (0, Rng::for_part(count, what));
    for round in 0..count {
        let mut mutated = bytes.to_vec();
        for _ in 0..=rng.below(4) {
            mutate(&mut mutated, &mut rng);
        }
        let (outcome, most) = measured(|| read(&mutated));
        let limit = MEMORY_BASE_BYTES + MEMORY_FACTOR * mutated.len();
        assert!(most <= limit, "{what}, round {round}: {most} bytes for {}", mutated.len());
        match outcome {
            Ok(seen) => {
                let limit = READ_FACTOR * (mutated.len() as u64 / 512 + 16);
                let reads = seen.page_read_count;
                assert!(reads <= limit, "{what}, round {round}: {reads} pages read");
            }
            Err(_) => error_count += 1,
        }
    }
    assert!(error_count > 0, "{what}: none of {count} mutants was found out");
}

/// Throws every sample, mutated in `count` ways.
fn throw_all(kind: &str, samples: &[Sample], count: u64, read: Read) {
    for (name, bytes) in samples {
        assert!(bytes.len() <= SAMPLE_BYTES_MAX, "{kind} {name} has {} bytes", bytes.len());
        throw(&format!("{kind} {name}"), bytes, count, read);
    }
}

#[test]
fn mutated_files_of_sqlite_give_rows_or_an_error() {
    throw_all("sqlite file", &samples::sqlite_files(), 400, entry::read_sqlite_file);
}

#[test]
fn mutated_settings_are_settings_that_can_work_or_an_error() {
    throw_all("settings", &samples::settings_files(), 1500, entry::read_settings);
    for (name, bytes) in samples::settings_files() {
        let length = u32::from_be_bytes(bytes[20..24].try_into().unwrap()) as usize;
        throw(
            &format!("text of settings {name}"),
            &bytes[24..24 + length],
            1500,
            entry::read_settings,
        );
    }
    for text in [r#"{"page_bytes":0}"#, r#"{"page_bytes":1000}"#, r#"{"log_bytes":-1}"#] {
        assert!(entry::read_settings(text.as_bytes()).is_err(), "{text}");
    }
    let segments = r#"{"propagation":"log_structured","log_structured":{"segment_bytes":0}}"#;
    assert!(entry::read_settings(segments.as_bytes()).is_err());
}

#[test]
fn mutated_tree_pages_give_entries_or_an_error() {
    let usable_bytes = samples::TREE_PAGE_BYTES as usize - TRAILER_BYTES;
    let trees = samples::trees();
    let empty = entry::read_tree(usable_bytes, &trees[0].1).unwrap();
    assert_eq!(empty.item_count, 0);
    throw_all("tree", &trees[1..], 1500, |bytes| {
        entry::read_tree(samples::TREE_PAGE_BYTES as usize - TRAILER_BYTES, bytes)
    });
}

#[test]
fn mutated_tables_in_pax_pages_give_rows_or_an_error() {
    throw_all("pax", &samples::pax_tables(), 1500, |bytes| {
        entry::read_pax(samples::TREE_PAGE_BYTES as usize - TRAILER_BYTES, bytes)
    });
}

#[test]
fn mutated_log_records_give_changes_or_an_error() {
    throw_all("log record", &samples::log_records(), 5000, entry::read_log_record);
}

#[test]
fn mutated_logs_give_records_or_an_error() {
    throw_all("log", &samples::log_files(), 80, entry::read_log);
}
