//! Memory of storing documents of TPoX does not grow with their text, counted by the allocator of this program
//! while they are stored, and not while the database is made.
//!
//! 1. What is counted is everything: pool, log, the text under way, paths and names, runs of what is sorted.
//! 2. Nine times the text takes no more, but for [`SLACK_BYTES`] and the entries of indexes, which are sorted
//!    in memory as long as they have room there.

#![allow(clippy::print_stdout, reason = "figures for whoever asks with --nocapture")]
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
#![allow(unsafe_code, reason = "an allocator is unsafe by its trait; it hands everything on")]

use nandu::DatabaseOptions;
use nandu_load::{Tpox, TpoxCollection, TpoxIndexes};
use nandu_storage::log::Durability;
use nandu_xml::MappingKind;
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicI64, Ordering};

const FEW_BYTES: u64 = 400_000;
const MANY_BYTES: u64 = 3_600_000;
/// What may differ: buffers are more or less full when they are written, lists have doubled, and of few
/// documents not all optional parts have come, so paths and names are fewer.
const SLACK_BYTES: i64 = 300 << 10;
/// Of an entry of an index while it is sorted: its key, and what leads to it.
const ENTRY_BYTES: i64 = 200;

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

/// The most that was held at once while a new database took the documents.
fn peak_bytes(tpox: Tpox, indexes: TpoxIndexes) -> i64 {
    let place = tempfile::tempdir().unwrap();
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = 256 << 10;
    options.settings.durability = Durability::None;
    let before = HELD_BYTES.load(Ordering::Relaxed);
    let database = nandu::create_database(&place.path().join("database"), &options).unwrap();
    // Making one takes some megabytes for a moment, which would hide what storing takes.
    PEAK_BYTES.store(HELD_BYTES.load(Ordering::Relaxed), Ordering::Relaxed);
    let mut write = database.write().unwrap();
    let reports = tpox.store(&mut write, (MappingKind::Elementless, indexes), &mut ()).unwrap();
    write.commit().unwrap();
    let peak = PEAK_BYTES.load(Ordering::Relaxed) - before;
    let text_bytes: u64 = reports.iter().map(|report| report.plain_bytes).sum();
    let expected_bytes = TpoxCollection::ALL.map(|it| tpox.expected_bytes(it)).iter().sum::<u64>();
    assert!(text_bytes > expected_bytes / 2, "all of it was stored: {text_bytes}");
    database.close().unwrap();
    peak
}

#[test]
fn memory_does_not_grow_with_the_documents_that_are_stored() {
    let [few, many] = [FEW_BYTES, MANY_BYTES].map(|size| Tpox::new(size, 1).unwrap());
    let count = |tpox: &Tpox| TpoxCollection::ALL.map(|it| tpox.count(it)).into_iter().sum::<u64>();
    let more_count = i64::try_from(count(&many) - count(&few)).unwrap();
    for (indexes, entry_count) in [(TpoxIndexes::Without, 0), (TpoxIndexes::Keys, more_count)] {
        let [little, much] = [few, many].map(|tpox| peak_bytes(tpox, indexes));
        println!("{indexes:?}: {little} bytes for {FEW_BYTES} of text, {much} for {MANY_BYTES}");
        let bound = little + SLACK_BYTES + entry_count * ENTRY_BYTES;
        assert!(much <= bound, "{indexes:?}: {much} bytes, of few documents {little}");
    }
}
