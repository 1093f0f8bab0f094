//! Mutated real files at the entry points of [`nandu_storage::hostile`]: no panic, no walk without
//! end, no memory out of proportion. The fuzz targets throw any bytes at the same ones.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

mod samples;

use nandu_base::{Rng, to_index};
use nandu_storage::StorageError;
use nandu_storage::hostile::{self, Seen};
use nandu_storage::page::TRAILER_BYTES;
use samples::Sample;
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// Counts what this thread allocates.
struct Counting;

thread_local! {
    static LIVE_BYTES: Cell<usize> = const { Cell::new(0) };
    static MOST_BYTES: Cell<usize> = const { Cell::new(0) };
}

#[allow(unsafe_code, reason = "an allocator can be counted in no other way")]
// SAFETY: every call goes to the system's allocator unchanged; counting does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = LIVE_BYTES.try_with(|live| {
            live.set(live.get().saturating_add(layout.size()));
            let _ = MOST_BYTES.try_with(|most| most.set(most.get().max(live.get())));
        });
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, place: *mut u8, layout: Layout) {
        let _ = LIVE_BYTES.try_with(|live| live.set(live.get().saturating_sub(layout.size())));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(place, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

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
        LIVE_BYTES.set(0);
        MOST_BYTES.set(0);
        let outcome = read(&mutated);
        let most = MOST_BYTES.get();
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

fn mutate(bytes: &mut Vec<u8>, rng: &mut Rng) {
    let Some(last) = bytes.len().checked_sub(1) else { return };
    // Structure is at the front, and at the front of pages.
    let at = match rng.below(3) {
        0 => to_index(rng.below(256)).min(last),
        1 => (to_index(rng.below(last as u64 + 1)) / 512 * 512 + to_index(rng.below(24))).min(last),
        _ => to_index(rng.below(last as u64 + 1)),
    };
    match rng.below(6) {
        0 => bytes[at] ^= 1 << rng.below(8),
        1 => bytes[at] = [0, 1, 0x7F, 0x80, 0xFE, 0xFF][to_index(rng.below(6))],
        2 => {
            let value = [0, 1, u32::MAX, 1 << 31, (1 << 31) - 1, 0xFFFF][to_index(rng.below(6))];
            let end = (at + 4).min(bytes.len());
            bytes[at..end].copy_from_slice(&value.to_be_bytes()[..end - at]);
        }
        3 => {
            let from = to_index(rng.below(last as u64 + 1));
            let length = to_index(rng.below(64)).min(bytes.len() - at.max(from));
            let copy = bytes[from..from + length].to_vec();
            bytes[at..at + length].copy_from_slice(&copy);
        }
        4 if rng.below(4) == 0 => bytes.truncate(at),
        _ => {
            let end = (at + to_index(rng.below(16))).min(bytes.len());
            rng.fill(&mut bytes[at..end]);
        }
    }
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
    throw_all("sqlite file", &samples::sqlite_files(), 400, hostile::read_sqlite_file);
}

#[test]
fn mutated_settings_are_settings_that_can_work_or_an_error() {
    throw_all("settings", &samples::settings_files(), 1500, hostile::read_settings);
    for (name, bytes) in samples::settings_files() {
        let length = u32::from_be_bytes(bytes[20..24].try_into().unwrap()) as usize;
        throw(
            &format!("text of settings {name}"),
            &bytes[24..24 + length],
            1500,
            hostile::read_settings,
        );
    }
    for text in [r#"{"page_bytes":0}"#, r#"{"page_bytes":1000}"#, r#"{"log_bytes":-1}"#] {
        assert!(hostile::read_settings(text.as_bytes()).is_err(), "{text}");
    }
    let segments = r#"{"propagation":"log_structured","log_structured":{"segment_bytes":0}}"#;
    assert!(hostile::read_settings(segments.as_bytes()).is_err());
}

#[test]
fn mutated_tree_pages_give_entries_or_an_error() {
    let usable_bytes = samples::TREE_PAGE_BYTES as usize - TRAILER_BYTES;
    let trees = samples::trees();
    let empty = hostile::read_tree(usable_bytes, &trees[0].1).unwrap();
    assert_eq!(empty.item_count, 0);
    throw_all("tree", &trees[1..], 1500, |bytes| {
        hostile::read_tree(samples::TREE_PAGE_BYTES as usize - TRAILER_BYTES, bytes)
    });
}

#[test]
fn mutated_tables_in_pax_pages_give_rows_or_an_error() {
    throw_all("pax", &samples::pax_tables(), 1500, |bytes| {
        hostile::read_pax(samples::TREE_PAGE_BYTES as usize - TRAILER_BYTES, bytes)
    });
}

#[test]
fn mutated_log_records_give_changes_or_an_error() {
    throw_all("log record", &samples::log_records(), 5000, hostile::read_log_record);
}

#[test]
fn mutated_logs_give_records_or_an_error() {
    throw_all("log", &samples::log_files(), 80, hostile::read_log);
}
