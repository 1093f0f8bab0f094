//! Traces of an engine's pages: a replay ends with the pages that the database has, over whatever places
//! them; recording changes nothing of a run; the same run gives the same bytes.

#![allow(clippy::unwrap_used, reason = "a test whose database cannot be made has failed")]

use nandu_base::{ByteCount, Nanos};
use nandu_bench::page_recorder::RecordedCounts;
use nandu_bench::page_replay::ReplayOutcome;
use nandu_bench::ycsb::{WorkloadKind, Ycsb};
use nandu_bench::{Clock, Load, Outcome, PageRecorder, PageReplay, Plan, SwitchKind, Watch, run};
use nandu_device::raw_flash::{FlashGeometry, MemoryFlash, MemoryFlashConfig};
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_storage::database::Isolation;
use nandu_storage::engine::Settings;
use nandu_storage::pool::PoolCounters;
use nandu_storage::propagation::{
    MediumKind, OtherMedium, PageWatch, PageWrite, PropagationKind, PropagationSettings,
};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, FileId, PageAddress, Volumes};
use nandu_trace::EngineTraceReader;
use nandu_trace::engine_trace::{PageEvent, PageRecord};
use nandu_workers::sync::Mutex;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::sync::Arc;

type Images = BTreeMap<PageAddress, Vec<u8>>;

/// Keeps the pages that are read.
#[derive(Default)]
struct Seen(Mutex<Images>);

impl PageWatch for Seen {
    fn page_read(&self, _at: Nanos, address: PageAddress, page: &[u8]) {
        self.0.lock().insert(address, page.to_vec());
    }
    fn pages_written(&self, _at: Nanos, _pages: &[PageWrite]) {}
    fn synced(&self, _at: Nanos) {}
    fn cut(&self, _at: Nanos, _file: FileId, _first_page: u32) {}
    fn page_left(&self, _address: PageAddress) {}
}

/// The pages of a database as its device has them; checks it on the way.
fn pages_of(database: &Database) -> Images {
    let seen = Arc::new(Seen::default());
    database.watch_pages(Some(Arc::<Seen>::clone(&seen))).unwrap();
    let report = database.read().check().unwrap();
    assert!(report.findings.is_empty(), "{:?}", report.findings);
    database.watch_pages(None).unwrap();
    std::mem::take(&mut *seen.0.lock())
}

fn database(kind: PropagationKind, seed: u64) -> Database {
    let settings = Settings {
        pool_bytes: 192 << 10,
        log_bytes: 4 << 20,
        checkpoint_bytes: 1 << 20,
        ..Settings::default()
    };
    let propagation = PropagationSettings::small(kind, settings.page_bytes, seed);
    let profile = Profile::load("nvme-tlc-2024").unwrap();
    let capacity = Some(ByteCount::mib(256));
    let drive = profile.open(SimOptions { capacity, seed: 1, keep_data: true }).unwrap();
    let volumes = Volumes::new(Box::new(DeviceVolume::format(drive).unwrap()), None);
    Database::create(volumes, &Settings { propagation, ..settings }, seed).unwrap()
}

fn ycsb(workload: WorkloadKind, seed: u64) -> Ycsb {
    let key_choice = workload.key_choice();
    let isolation = Isolation::default();
    Ycsb { workload, key_choice, record_count: 1500, field_bytes: 60, isolation, seed }
}

fn at_work(database: &Database, ycsb: &Ycsb) -> Outcome {
    let load: Arc<dyn Load> = Arc::new(ycsb.start());
    let plan = Plan {
        operation_count: 900,
        client_count: 5,
        core_count: 2,
        processor_time: Nanos(3000),
        think_time: Nanos::ZERO,
        switch_kind: SwitchKind::Coroutines,
    };
    let clock: Clock = Arc::new(|| unreachable!("the drive has its own clock"));
    run(database, &load, &plan, &Arc::new(Watch::default()), &clock).unwrap()
}

/// A run that was recorded.
struct Recorded {
    trace: Vec<u8>,
    counts: RecordedCounts,
    pool: PoolCounters,
    history: String,
    before: Images,
    after: Images,
}

fn recorded(
    kind: PropagationKind,
    workload: WorkloadKind,
    seed: u64,
    keeps_bytes: bool,
) -> Recorded {
    let (database, ycsb) = (database(kind, seed), ycsb(workload, seed));
    ycsb.load(&database, |_| true).unwrap();
    let before = pages_of(&database);
    let counted = |database: &Database| database.read().engine().pool_counters();
    let recorder = PageRecorder::begin(&database, Vec::new(), "t", keeps_bytes).unwrap();
    let pool_before = counted(&database);
    let history = at_work(&database, &ycsb).history;
    database.checkpoint().unwrap();
    database.drop_cached_pages().unwrap();
    let (trace, counts) = recorder.finish(&database).unwrap();
    let pool_after = counted(&database);
    let pool = PoolCounters {
        read_count: pool_after.read_count - pool_before.read_count,
        write_count: pool_after.write_count - pool_before.write_count,
        ..pool_after
    };
    let after = pages_of(&database);
    Recorded { trace, counts, pool, history, before, after }
}

/// What a replay by that propagation lies on.
fn empty_volumes(kind: PropagationKind) -> Volumes {
    let geometry = Geometry { sector_bytes: 512, sector_count: 256 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let mut volumes = Volumes::new(Box::new(DeviceVolume::format(Box::new(device)).unwrap()), None);
    for &(name, medium) in kind.other_media() {
        assert_eq!(medium, MediumKind::RawFlash);
        let geometry = MemoryFlashConfig::default().geometry;
        let geometry = FlashGeometry { erase_block_count: 4096, ..geometry };
        let chips =
            MemoryFlash::new(MemoryFlashConfig { geometry, ..MemoryFlashConfig::default() });
        volumes.others.insert(name.to_owned(), OtherMedium::RawFlash(Box::new(chips)));
    }
    volumes
}

/// Replays a trace, and gives back what that came to and the pages at its end that `wanted` has.
fn replayed(
    trace: &[u8],
    kind: PropagationKind,
    before: &Images,
    wanted: &Images,
) -> (ReplayOutcome, Images) {
    let mut reader = EngineTraceReader::new(Cursor::new(trace.to_vec()), "t").unwrap();
    let before = before.clone();
    let first_pages = Box::new(move |address: PageAddress, page: &mut [u8]| {
        if let Some(image) = before.get(&address) {
            page.copy_from_slice(image);
        }
    });
    let head = reader.head().clone();
    let config = PropagationSettings::small(kind, head.page_bytes, 3).config();
    let begun = PageReplay::begin(&head, &config, empty_volumes(kind), (first_pages, 9), |_| true);
    let mut replay = begun.unwrap().unwrap();
    while let Some(record) = reader.next_record().unwrap() {
        replay.apply(record).unwrap();
    }
    let outcome = replay.finish().unwrap();
    replay.audit();
    let page = |(&address, _): (&PageAddress, &Vec<u8>)| {
        (address, replay.read_page(address, <[u8]>::to_vec).unwrap())
    };
    (outcome, wanted.iter().map(page).collect())
}

#[test]
fn a_replay_ends_with_the_pages_of_the_database() {
    let kinds = [
        PropagationKind::InPlace,
        PropagationKind::LogStructured,
        PropagationKind::PageDifferentialChips,
    ];
    let workloads = [WorkloadKind::A, WorkloadKind::D, WorkloadKind::F];
    for (seed, workload) in (1..=6).zip(workloads.into_iter().cycle()) {
        let kind = kinds[usize::from(seed % 2 == 0)];
        let Recorded { trace, counts, pool, before, after, .. } =
            recorded(kind, workload, seed, true);
        assert_eq!((counts.read_count, counts.write_count), (pool.read_count, pool.write_count));
        assert!(counts.write_count > 20 && counts.sync_count > 0, "{counts:?}");
        assert_ne!(before, after, "pages have changed");
        // Files of a log have no length, so nobody says which pages there were before, and a replay has zeros there.
        let has_lengths = kind == PropagationKind::InPlace;
        let wanted = if has_lengths { after.clone() } else { Images::new() };
        for other in kinds {
            let (outcome, pages) = replayed(&trace, other, &before, &wanted);
            let differing = pages.iter().filter(|&(address, page)| after[address] != *page).count();
            assert_eq!(differing, 0, "{workload:?}, seed {seed}, from {kind:?} to {other:?}");
            assert_eq!(outcome.counts.page_write_count, counts.write_count);
            assert_eq!(outcome.counts.page_read_count, counts.read_count);
        }
    }
}

#[test]
fn the_same_run_gives_the_same_trace_and_recording_it_changes_nothing() {
    let (kind, workload) = (PropagationKind::InPlace, WorkloadKind::A);
    let first = recorded(kind, workload, 4, true);
    let again = recorded(kind, workload, 4, true);
    assert_eq!((&first.history, &first.trace), (&again.history, &again.trace));
    let (database, ycsb) = (database(kind, 4), ycsb(workload, 4));
    ycsb.load(&database, |_| true).unwrap();
    pages_of(&database);
    database.drop_cached_pages().unwrap();
    assert_eq!(at_work(&database, &ycsb).history, first.history);
}

#[test]
fn without_bytes_a_trace_has_the_same_records_and_is_smaller() {
    let records = |trace: &[u8]| {
        let mut reader = EngineTraceReader::new(Cursor::new(trace.to_vec()), "t").unwrap();
        let mut records = Vec::new();
        while let Some(record) = reader.next_record().unwrap() {
            records.push(PageRecord { bytes: Vec::new(), ..record.clone() });
        }
        records
    };
    let whole = recorded(PropagationKind::InPlace, WorkloadKind::A, 5, true);
    let bare = recorded(PropagationKind::InPlace, WorkloadKind::A, 5, false);
    let found = records(&bare.trace);
    assert_eq!(found, records(&whole.trace));
    let writes = || found.iter().filter(|record| record.event == PageEvent::Write);
    let changed_bytes: u64 = writes().map(PageRecord::changed_bytes).sum();
    assert!(bare.trace.len() as u64 + changed_bytes <= whole.trace.len() as u64);
    assert!(changed_bytes < writes().count() as u64 * 2048, "most of a page stays as it was");
    assert!(writes().any(|record| record.is_same_call), "pages are written together");
    // What stands in for the bytes follows from a seed.
    let [one, two] = [(); 2]
        .map(|()| replayed(&bare.trace, PropagationKind::LogStructured, &bare.before, &bare.after));
    assert_eq!(one.1, two.1);
    assert_eq!((one.0.written_bytes, one.0.write_count), (two.0.written_bytes, two.0.write_count));
}

#[test]
fn a_page_that_is_not_what_was_written_is_told() {
    let Recorded { trace, before, .. } =
        recorded(PropagationKind::InPlace, WorkloadKind::A, 2, true);
    let mut reader = EngineTraceReader::new(Cursor::new(trace), "t").unwrap();
    let asked = std::sync::atomic::AtomicU64::new(0);
    let total: u64 = reader.head().files.iter().map(|file| u64::from(file.page_count)).sum();
    // Other pages once those of the filling have been asked for.
    let first_pages = Box::new(move |address: PageAddress, page: &mut [u8]| {
        let number = asked.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        if let Some(image) = before.get(&address) {
            page.copy_from_slice(image);
            page[0] ^= u8::from(number >= total);
        }
    });
    let head = reader.head().clone();
    let config = PropagationSettings::default().config();
    let volumes = empty_volumes(PropagationKind::default());
    let begun = PageReplay::begin(&head, &config, volumes, (first_pages, 1), |_| true);
    let mut replay = begun.unwrap().unwrap();
    let error = loop {
        let record = reader.next_record().unwrap().expect("a page is read before the end");
        if let Err(error) = replay.apply(record) {
            break error.to_string();
        }
    };
    assert!(error.contains("is not what was written last"), "{error}");
}
