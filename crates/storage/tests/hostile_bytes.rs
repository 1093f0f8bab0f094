//! Mutated real files at the entry points of [`nandu_storage::hostile`]: no panic, no walk without
//! end, no memory out of proportion. The fuzz targets throw any bytes at the same ones.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu_base::{Rng, to_index};
use nandu_storage::access::MemoryPages;
use nandu_storage::btree::{self, Tree};
use nandu_storage::hostile::{self, Seen};
use nandu_storage::log::RecordBuilder;
use nandu_storage::{FileId, Lsn, PageAddress, PageOperation, StorageError};
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

fn sqlite_bytes(page_bytes: u32) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.pragma_update(None, "page_size", page_bytes).unwrap();
    connection
        .execute_batch(
            "CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT, c BLOB, d REAL);
             CREATE TABLE u (x, y);
             CREATE INDEX i ON u (y);",
        )
        .unwrap();
    for number in 0..120 {
        let long = "long ".repeat(if number % 10 == 0 { 900 } else { 3 });
        let values = rusqlite::params![number * 3, long, vec![7_u8; 40], f64::from(number)];
        connection.execute("INSERT INTO t VALUES (?, ?, ?, ?)", values).unwrap();
        connection.execute("INSERT INTO u VALUES (?, ?)", (number, "y")).unwrap();
    }
    connection.execute("DELETE FROM t WHERE a % 9 = 0", ()).unwrap();
    connection.close().unwrap();
    std::fs::read(path).unwrap()
}

#[test]
fn mutated_files_of_sqlite_give_rows_or_an_error() {
    for page_bytes in [512, 4096] {
        throw("a file of SQLite", &sqlite_bytes(page_bytes), 1500, hostile::read_sqlite_file);
    }
}

#[test]
fn mutated_tree_pages_give_entries_or_an_error() {
    let file = FileId(1);
    let mut pages = MemoryPages::new(512, btree::apply);
    let tree = Tree::create(&mut pages, file).unwrap();
    let mut undo = Vec::new();
    for number in 0..300_u32 {
        let value = vec![5; if number % 25 == 0 { 2000 } else { 30 }];
        tree.insert(&mut pages, &(number * 7919 % 1000).to_be_bytes(), &value, &mut undo).unwrap();
    }
    for number in 0..60_u32 {
        tree.delete(&mut pages, &(number * 7919 % 1000).to_be_bytes(), &mut undo).unwrap();
    }
    let bytes: Vec<u8> = pages.pages().flat_map(|(_, page)| page.to_vec()).collect();
    throw("a tree", &bytes, 3000, |bytes| hostile::read_tree(512 - 16, bytes));
}

#[test]
fn mutated_log_records_give_changes_or_an_error() {
    let mut builder = RecordBuilder::new();
    builder.begin_action(7, Lsn(4096));
    for page in 1..20 {
        let (first, second) = (vec![3; 20], vec![4; 100]);
        let operation = PageOperation { code: 0x21, operand: 5, first: &first, second: &second };
        builder.add_change(PageAddress::new(FileId(3), page), &operation);
    }
    let record = builder.finish(b"undo").as_bytes().to_vec();
    throw("a log record", &record, 20_000, hostile::read_log_record);
}

#[test]
fn mutated_logs_give_records_or_an_error() {
    let log = log_bytes();
    throw("a log", &log, 150, hostile::read_log);
}

/// The file of a small log with records in two flushes.
fn log_bytes() -> Vec<u8> {
    use nandu_device::{Geometry, IoBuffer, MemoryConfig, MemoryDevice, Operation};
    use nandu_storage::Volume as _;
    use nandu_storage::log::{LogConfig, LogFile, Room};
    use nandu_storage::volume::{DeviceVolume, IoOwner, SharedIo};
    let geometry = Geometry { sector_bytes: 512, sector_count: 4 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let mut volume = DeviceVolume::format(Box::new(device)).unwrap();
    let file = volume.create("log").unwrap();
    let io = SharedIo::new(Box::new(volume), std::sync::Arc::default());
    let config = LogConfig { capacity_bytes: 32 << 10, ..LogConfig::default() };
    let log = LogFile::create(io.clone(), file, &config, 512, 9).unwrap();
    for transaction in 1..30 {
        let mut builder = RecordBuilder::new();
        builder.begin_action(transaction, Lsn(0));
        let operation = PageOperation { code: 0, operand: 5, first: b"some bytes", second: &[] };
        builder.add_change(PageAddress::new(FileId(3), 1), &operation);
        log.append(&builder.finish(b"undo"), Room::Free).unwrap();
        if transaction % 10 == 0 {
            log.flush().unwrap();
        }
    }
    log.flush().unwrap();
    let mut io = io.lock();
    let length = to_index(io.volume().byte_count(file));
    let buffer = IoBuffer::zeroed(length);
    let ticket = io.submit(IoOwner::Operator, file, Operation::Read, 0, buffer).unwrap();
    io.wait(ticket).buffer.unwrap().to_vec()
}
