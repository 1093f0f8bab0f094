//! What a restart costs, by step; that repeated ones undo nothing twice; and what they say of damage.

use super::*;
use crate::log::LogRecord;
use nandu_device::{Device, IoBuffer, Request};

fn ways() -> [Settings; 4] {
    let [images, copies] = [TornPages::LogImages, TornPages::DoubleWrite].map(settings);
    [images, copies, log_structured(), page_differential()]
}

fn value_of(number: u64, fill: u8) -> Vec<u8> {
    vec![fill; 80 + to_index(number % 40)]
}

/// Puts rows in one transaction, durable in the log.
fn put_rows(engine: &mut Engine, numbers: impl Iterator<Item = u64>, fill: u8) {
    engine.begin().unwrap();
    for number in numbers {
        put(engine, &number.to_be_bytes(), Some(&value_of(number, fill))).unwrap();
    }
    let commit = engine.commit().unwrap().unwrap();
    engine.log().make_durable(commit).unwrap();
}

fn fill(engine: &mut Engine, row_count: u64) {
    for first in (0..row_count).step_by(100) {
        put_rows(engine, first..first + 100, 1);
    }
}

fn requests_and_bytes(device: &TestDevice) -> (u64, u64) {
    let Counters { reads, writes, trims, flushes, .. } = device.lock().counters();
    let all = [reads, writes, trims, flushes];
    let requests = all.iter().map(|counter| counter.request_count).sum();
    (requests, reads.byte_count + writes.byte_count)
}

/// A database of so many rows after a crash that came 60 updates after a full checkpoint, each of
/// another page; and its pages.
fn crashed_after_updates(settings: &Settings, row_count: u64) -> (TestDevice, u64) {
    let device = device();
    let mut engine = create(&device, settings);
    fill(&mut engine, row_count);
    engine.checkpoint_fully().unwrap();
    put_rows(&mut engine, (0..60).map(|number| number * row_count / 60), 2);
    let pages = btree::check(&engine, tree_file(&engine)).page_count;
    drop(engine);
    restore_power(&device);
    (device, u64::from(pages))
}

/// Requests of opening it, bytes of pages that it moves and of log that it redoes, and its pages.
fn cost_of_opening(settings: &Settings, row_count: u64) -> (u64, u64, u64) {
    let (device, pages) = crashed_after_updates(settings, row_count);
    let (requests, _) = requests_and_bytes(&device);
    let (engine, report) = reopen(&device, settings).unwrap();
    assert!((60..80).contains(&report.page_count), "{report:?}");
    let (requests_after, _) = requests_and_bytes(&device);
    // Behind its end the log is searched for claims, up to a lap from its tail, wherever that is.
    assert!(report.log_scan.bytes < 3 * settings.log_bytes, "{report:?}");
    let bytes = report.page_reads.bytes + report.page_writes.bytes + report.log_bytes;
    let found = contents(&engine);
    assert_eq!(found.len() as u64, row_count);
    (requests_after - requests, bytes, pages)
}

/// Intervals that none of these stories reaches.
fn with_long_intervals(settings: Settings) -> Settings {
    Settings { checkpoint_bytes: 256 << 10, log_bytes: 2 << 20, ..settings }
}

#[test]
fn opening_after_a_crash_costs_the_same_however_large_the_database_is() {
    for torn_pages in [TornPages::LogImages, TornPages::DoubleWrite, TornPages::Trust] {
        let settings = with_long_intervals(settings(torn_pages));
        let (requests, bytes, pages) = cost_of_opening(&settings, 1200);
        let (requests_of_8, bytes_of_8, pages_of_8) = cost_of_opening(&settings, 9600);
        println!(
            "{torn_pages:?}: {requests} {bytes} {pages}, {requests_of_8} {bytes_of_8} {pages_of_8}"
        );
        assert!(pages_of_8 > 7 * pages);
        // A lap of the double write may be longer here and shorter there.
        let slack = 32;
        assert!(requests_of_8 <= requests + slack, "{torn_pages:?}: {requests}, {requests_of_8}");
        let slack_bytes = slack * u64::from(settings.page_bytes);
        assert!(bytes_of_8 <= bytes + slack_bytes, "{torn_pages:?}: {bytes}, {bytes_of_8}");
        assert!(bytes_of_8 < pages_of_8 * u64::from(settings.page_bytes) / 2, "{bytes_of_8}");
    }
}

#[test]
fn opening_a_log_structured_database_costs_a_fixed_share_of_a_page_more_for_each_page() {
    let settings = with_long_intervals(log_structured());
    let parts = crate::propagation::LogStructuredSettings {
        segment_bytes: 32 << 10,
        write_bytes: 8 << 10,
        ..settings.propagation.log_structured.clone()
    };
    let propagation = crate::propagation::PropagationConfig::LogStructured(parts).into();
    let settings = Settings { propagation, ..settings };
    let (requests, bytes, pages) = cost_of_opening(&settings, 1200);
    let (requests_of_8, bytes_of_8, pages_of_8) = cost_of_opening(&settings, 9600);
    println!("{requests} {bytes} {pages}, {requests_of_8} {bytes_of_8} {pages_of_8}");
    // The map is read and written, with a difference for some pages; what was written since may be 32
    // times as long (docs/decisions/007-storage-engine.md).
    let map_bytes = 2 * 2 * 8;
    let chain_bytes = 32 * 8;
    // The image comes after 16 segments at least, so one of them may have crashed right before it.
    let parts = &settings.propagation.log_structured;
    let least = u64::from(parts.checkpoint_segment_count) * u64::from(parts.segment_bytes);
    let more_bytes = least + (map_bytes + chain_bytes) * (pages_of_8 - pages);
    assert!(bytes_of_8 <= bytes + more_bytes, "{bytes}, {bytes_of_8}");
}

#[test]
fn the_four_steps_have_all_requests_of_an_opening_and_applying_has_none() {
    for replacement in [ReplacementKind::TwoQ, ReplacementKind::Clock, ReplacementKind::Lru] {
        for settings in ways() {
            let settings = Settings { replacement, ..with_long_intervals(settings) };
            let device = device();
            let mut engine = create(&device, &settings);
            fill(&mut engine, 2000);
            engine.checkpoint_fully().unwrap();
            // Several pools full, some pages again and again.
            for round in 0..3 {
                let numbers = (0..80).map(|number| number * 23 % 2000 / (1 + round % 2));
                put_rows(&mut engine, numbers, 3);
            }
            drop(engine);
            restore_power(&device);
            let (requests, bytes) = requests_and_bytes(&device);
            let (engine, report) = reopen(&device, &settings).unwrap();
            let (requests_after, bytes_after) = requests_and_bytes(&device);
            assert!(report.page_count > 48, "more than one stretch: {report:?}");
            let RestartReport { log_scan, page_reads, apply, page_writes, .. } = &report;
            let steps = [log_scan, page_reads, apply, page_writes];
            let in_steps: u64 = steps.iter().map(|step| step.request_count).sum();
            let bytes_in_steps: u64 = steps.iter().map(|step| step.bytes).sum();
            // The volume reads its table and the engine its settings before.
            let (before, bytes_before) = (8, 600 << 10);
            let in_all = requests_after - requests;
            assert!((in_steps..in_steps + before).contains(&in_all), "{report:?} {in_all}");
            let bytes_in_all = bytes_after - bytes;
            let known = bytes_in_steps..bytes_in_steps + bytes_before;
            assert!(known.contains(&bytes_in_all), "{report:?} {bytes_in_all}");
            let page_bytes = u64::from(settings.page_bytes);
            assert!(log_scan.bytes >= report.log_bytes, "{report:?}");
            assert!(page_reads.request_count > 0 && page_writes.request_count > 0, "{report:?}");
            if settings.propagation.kind == crate::propagation::PropagationKind::InPlace {
                assert!(page_reads.bytes >= report.page_count * page_bytes, "{report:?}");
                assert!(page_writes.bytes >= page_bytes, "{report:?}");
            }
            assert_eq!(*apply, RestartStep { time: apply.time, ..RestartStep::default() });
            drop(contents(&engine));
        }
    }
}

/// The transaction that comes last in the log, and what its compensations leave to undo, in their
/// order.
fn compensations(device: &TestDevice) -> (u64, Vec<Lsn>) {
    let Shared { log_io, .. } = share(volumes(device, false).unwrap());
    let file = volumes::expect_file(&log_io, LOG_FILE).unwrap();
    let log = LogFile::open(log_io, file).unwrap();
    let mut reader = log.scan(Lsn(0)).unwrap();
    let (mut last, mut found) = (0, Vec::new());
    while let Some((_, record)) = reader.next_record().unwrap() {
        let transaction = match record {
            LogRecord::Action { transaction, .. } => transaction,
            LogRecord::Compensation { transaction, undo_next, .. } => {
                found.push((transaction, undo_next));
                transaction
            }
            _ => continue,
        };
        last = last.max(transaction);
    }
    found.retain(|&(transaction, _)| transaction == last);
    (last, found.into_iter().map(|(_, undo_next)| undo_next).collect())
}

#[test]
fn each_update_is_undone_once_however_often_undo_is_cut() {
    const UPDATE_COUNT: u64 = 150;
    for settings in ways() {
        let settings = with_long_intervals(settings);
        let device = device();
        let mut engine = create(&device, &settings);
        fill(&mut engine, 2000);
        engine.checkpoint_fully().unwrap();
        let rows = contents(&engine);
        engine.begin().unwrap();
        for number in 0..UPDATE_COUNT {
            let key = number * 13 % 2000;
            put(&mut engine, &key.to_be_bytes(), Some(&value_of(key, 9))).unwrap();
        }
        engine.log().flush().unwrap();
        drop(engine);
        restore_power(&device);
        let (loser, none) = compensations(&device);
        assert!(none.is_empty(), "nothing was undone before");
        let (mut undone_count, mut interrupted_count) = (0, 0);
        for cut in (3..).step_by(5) {
            let base = device.lock().submitted_count();
            device.lock().set_plan(cut_plan(base + cut, cut));
            let reopened = reopen(&device, &settings);
            if device.lock().submitted_count() < base + cut {
                let (engine, report) = reopened.unwrap();
                device.lock().set_plan(FaultPlan::default());
                assert_eq!(undone_count + report.undone_count, UPDATE_COUNT, "in all, each once");
                assert_state(&engine, &rows, None, "undone");
                break;
            }
            drop(reopened);
            restore_power(&device);
            let (transaction, undone) = compensations(&device);
            if transaction != loser || undone.len() as u64 == UPDATE_COUNT {
                undone_count = UPDATE_COUNT;
                continue;
            }
            let in_order = undone.windows(2).all(|pair| pair[0] > pair[1]);
            assert!(in_order, "each leaves less to undo than the one before: {undone:?}");
            let count = undone.len() as u64;
            assert!(count >= undone_count, "what was undone stays undone");
            interrupted_count += u32::from(count > undone_count);
            undone_count = count;
        }
        assert!(interrupted_count > 1, "undo was cut in the middle: {interrupted_count}");
    }
}

/// Everything on the device.
fn image(device: &TestDevice) -> Vec<u8> {
    let mut device = device.clone();
    let sector_count = u32::try_from(device.info().geometry.sector_count).unwrap();
    let buffer = IoBuffer::zeroed(512 * sector_count as usize);
    device.submit(device.now(), Request::read(1, 0, sector_count, Some(buffer))).unwrap();
    device.next_completion(Nanos::MAX).unwrap().buffer.unwrap().to_vec()
}

/// Flips a bit near the start of a sector.
fn flip(device: &TestDevice, sector: usize) {
    let mut bytes = image(device)[512 * sector..][..512].to_vec();
    bytes[44] ^= 4;
    let mut device = device.clone();
    let request = Request::write(2, sector as u64, 1, Some(IoBuffer::copy_of(&bytes)));
    device.submit(device.now(), request).unwrap();
    device.next_completion(Nanos::MAX).unwrap().result.unwrap();
}

/// Sectors of files that differ.
fn changed(device: &TestDevice, before: &[u8]) -> Vec<usize> {
    let after = image(device);
    let first = to_index(DeviceVolume::table_bytes_on(device.info().geometry)) / 512;
    let differ = |sector: &usize| before[512 * sector..][..512] != after[512 * sector..][..512];
    (first..before.len() / 512).filter(differ).collect()
}

#[test]
fn a_damaged_control_block_of_the_log_costs_no_commit() {
    for settings in ways() {
        for which in 0..2 {
            let device = device();
            let mut engine = create(&device, &settings);
            fill(&mut engine, 200);
            engine.close().unwrap();
            let (mut engine, _) = reopen(&device, &settings).unwrap();
            put_rows(&mut engine, 0..20, 5);
            let rows = contents(&engine);
            drop(engine);
            restore_power(&device);
            let bytes = image(&device);
            let is_block = |sector: &usize| bytes[512 * sector..].starts_with(b"nandulog");
            let blocks: Vec<usize> = (0..bytes.len() / 512).filter(is_block).collect();
            assert_eq!(blocks.len(), 2);
            flip(&device, blocks[which]);
            let (engine, report) = reopen(&device, &settings).unwrap();
            assert!(!report.was_closed);
            assert_state(&engine, &rows, None, "a block is damaged");
        }
    }
}

#[test]
fn a_page_with_changes_that_the_log_lost_is_refused() {
    for settings in ways() {
        for writes_pages in [false, true] {
            let device = device();
            let mut engine = create(&device, &settings);
            fill(&mut engine, 100);
            engine.checkpoint_fully().unwrap();
            let rows = contents(&engine);
            engine.begin().unwrap();
            put(&mut engine, &7_u64.to_be_bytes(), Some(b"changed")).unwrap();
            let commit = engine.commit().unwrap().unwrap();
            let before = image(&device);
            engine.log().make_durable(commit).unwrap();
            let flushed = changed(&device, &before);
            if writes_pages {
                engine.pool.write_back(&WriteBack::default()).unwrap();
                engine.pool.sync().unwrap();
            }
            drop(engine);
            restore_power(&device);
            flip(&device, flushed[0]);
            let found = reopen(&device, &settings).and_then(|(mut engine, _)| {
                engine.drop_cached_pages()?;
                Tree::at(tree_file(&engine)).get(&engine, &7_u64.to_be_bytes(), <[u8]>::to_vec)
            });
            if writes_pages {
                assert!(matches!(found, Err(StorageError::Corrupt { .. })), "{found:?}");
            } else {
                // As if the flush had been torn: nothing of it is there.
                assert_eq!(found.unwrap(), rows.get(7_u64.to_be_bytes().as_slice()).cloned());
            }
        }
    }
}

#[test]
fn writes_of_a_log_structured_database_that_were_lost_after_a_checkpoint_are_missed() {
    let settings = log_structured();
    let device = device();
    let mut engine = create(&device, &settings);
    fill(&mut engine, 100);
    engine.log().flush().unwrap();
    let before = image(&device);
    engine.pool.write_back(&WriteBack::default()).unwrap();
    engine.pool.sync().unwrap();
    let written = changed(&device, &before);
    engine.close().unwrap();
    flip(&device, written[written.len() / 2]);
    let opened = reopen(&device, &settings);
    assert!(matches!(opened, Err(StorageError::Corrupt { .. })), "{opened:?}");
}
