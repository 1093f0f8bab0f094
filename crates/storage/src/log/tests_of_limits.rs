//! The log at its limits: full, failing, damaged, shared by threads, on other sectors.

use super::test_volume::{LOG_FILE, Machine};
use super::*;
use crate::PageAddress;
use crate::PageOperation;
use nandu_device::{FaultPlan, UnflushedFate};
use proptest::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};

const CONFIG: LogConfig = LogConfig { capacity_bytes: 128 * 512, buffer_bytes: 4096 };

fn create(machine: &Machine, config: &LogConfig) -> Result<SharedLog, StorageError> {
    LogFile::create(machine.io(), LOG_FILE, config, 4096, 5)
}

fn action<'a>(builder: &'a mut RecordBuilder, number: u64, bytes: &[u8]) -> EncodedRecord<'a> {
    builder.begin_action(number, Lsn(0));
    let operation = PageOperation { code: 0x20, operand: 1, first: bytes, second: &[] };
    builder.add_change(PageAddress::new(FileId(2), 8), &operation);
    builder.finish(b"undo")
}

fn append(log: &SharedLog, number: u64, length: usize, room: Room) -> Result<Lsn, StorageError> {
    log.append(&action(&mut RecordBuilder::new(), number, &vec![7; length]), room)
}

/// The transactions of all actions, in the order of the log.
fn numbers(file: &LogFile) -> Result<Vec<u64>, StorageError> {
    let mut scan = file.scan(Lsn(0))?;
    let mut numbers = Vec::new();
    while let Some((_, record)) = scan.next_record()? {
        if let LogRecord::Action { transaction, .. } = record {
            numbers.push(transaction);
        }
    }
    Ok(numbers)
}

fn reopen(machine: &Machine) -> Result<(SharedLog, Vec<u64>), StorageError> {
    let file = LogFile::open(machine.io(), LOG_FILE)?;
    let numbers = numbers(&file)?;
    let end = file.scan(Lsn(0))?.find_end()?;
    Ok((file.resume(end, &CONFIG)?, numbers))
}

#[test]
fn a_full_log_says_so_and_goes_on_after_a_checkpoint() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    for lap in 0..20_u64 {
        let mut last = Lsn(0);
        let error = loop {
            match append(&log, lap, 300, Room::Free) {
                Ok(lsn) => last = lsn,
                Err(error) => break error,
            }
        };
        assert!(matches!(&error, StorageError::NoSpace { what } if what.contains("checkpoint")));
        log.audit();
        let mut builder = RecordBuilder::new();
        let begin = log.append(&builder.begin_checkpoint(), Room::Checkpoint).unwrap();
        let end = log.append_end_checkpoint(begin, &[], &[]).unwrap();
        log.complete_checkpoint(begin, end, last).unwrap();
        log.audit();
    }
    assert!(log.durable_lsn().0 > 10 * CONFIG.capacity_bytes, "it went round many times");
}

#[test]
fn a_control_block_that_fails_gives_no_room_back() {
    // The block itself, then its sync.
    for failing in 1..=2 {
        let machine = Machine::new(FaultPlan::default());
        let log = create(&machine, &CONFIG).unwrap();
        let lsns: Vec<Lsn> =
            (1..20).map(|number| append(&log, number, 200, Room::Free).unwrap()).collect();
        log.flush().unwrap();
        let free_bytes = log.free_bytes();
        let fail_requests = vec![machine.request_count() + failing];
        machine.set_plan(FaultPlan { fail_requests, ..FaultPlan::default() });
        log.complete_checkpoint(lsns[9], lsns[9], lsns[9]).unwrap_err();
        assert_eq!(log.free_bytes(), free_bytes, "request {failing}: the old tail may be needed");
        log.audit();
        machine.restart(FaultPlan::default());
        let (_, numbers) = reopen(&machine).unwrap();
        assert!(numbers.last() == Some(&19) && numbers.len() >= 10, "{numbers:?}");
    }
}

#[test]
fn what_was_reserved_fits_when_nothing_else_does() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let mut builder = RecordBuilder::new();
    let bytes = frame_bytes(action(&mut builder, 1, &[7; 100]).as_bytes().len() as u64);
    let mut reserved_count = 0_u64;
    while log.reserve(bytes).is_ok() {
        reserved_count += 1;
        if append(&log, 1, 100, Room::Free).is_err() {
            break;
        }
        if reserved_count.is_multiple_of(10) {
            log.flush().unwrap();
        }
    }
    while append(&log, 2, 0, Room::Free).is_ok() {}
    while append(&log, 2, 0, Room::Checkpoint).is_ok() {}
    assert!(reserved_count > 100);
    assert!(matches!(log.reserve(1 << 20), Err(StorageError::NoSpace { .. })));
    for index in 0..reserved_count {
        append(&log, 3, 100, Room::Reserved).unwrap();
        if index % 50 == 0 {
            log.flush().unwrap();
        }
    }
    log.release(u64::MAX);
    log.audit();
}

#[test]
fn a_log_filled_to_the_brim_is_read_back_from_its_tail() {
    for skipped in 1..40 {
        let machine = Machine::new(FaultPlan::default());
        let log = create(&machine, &CONFIG).unwrap();
        let lsns: Vec<Lsn> =
            (1..100).map(|number| append(&log, number, 100, Room::Free).unwrap()).collect();
        log.complete_checkpoint(lsns[98], lsns[98], lsns[skipped - 1]).unwrap();
        let mut number = 100;
        while append(&log, number, 8, Room::Reserved).is_ok() {
            number += 1;
        }
        log.audit();
        log.flush().unwrap();
        log.audit();
        assert!(reopen(&machine).unwrap().1.into_iter().eq(skipped as u64..number));
    }
}

#[test]
fn a_record_longer_than_a_quarter_of_the_log_is_refused() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let error = append(&log, 1, 40_000, Room::Free).unwrap_err();
    assert!(matches!(error, StorageError::TooLarge { limit_bytes: 16_384, .. }), "{error}");
    append(&log, 1, 16_000, Room::Free).unwrap();
}

#[test]
fn every_failing_request_gives_an_error_and_the_log_opens_again() {
    let run = |log: &SharedLog, done: &mut u64| -> Result<(), StorageError> {
        for number in 1..40 {
            let lsn = append(log, number, 200, Room::Free)?;
            if number % 3 == 0 {
                log.make_durable(lsn)?;
                *done = number;
            }
            if number % 10 == 0 {
                log.complete_checkpoint(lsn, lsn, log.control().tail)?;
            }
        }
        log.close()
    };
    let machine = Machine::new(FaultPlan::default());
    run(&create(&machine, &CONFIG).unwrap(), &mut 0).unwrap();
    let request_count = machine.request_count();
    assert!(request_count > 30);
    for failing in 1..=request_count {
        let fail_requests = vec![failing];
        let machine = Machine::new(FaultPlan { fail_requests, ..FaultPlan::default() });
        let Ok(log) = create(&machine, &CONFIG) else { continue };
        let mut done = 0;
        let error = run(&log, &mut done).unwrap_err();
        assert!(matches!(error, StorageError::Device { .. }), "request {failing}: {error}");
        let later = append(&log, 99, 1, Room::Free).unwrap_err();
        assert!(matches!(later, StorageError::Poisoned { .. }), "request {failing}: {later}");
        machine.restart(FaultPlan::default());
        let (_, numbers) = reopen(&machine).unwrap();
        assert!(numbers.len() as u64 >= done, "request {failing}");
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "request {failing}");
    }
}

/// Appends until a full buffer is under way; gives the records so far and the last one's place.
fn fill_one_buffer(machine: &Machine, log: &SharedLog) -> (u64, Lsn) {
    let before = machine.request_count();
    let mut number = 0;
    loop {
        number += 1;
        let last = append(log, number, 500, Room::Free).unwrap();
        if machine.request_count() > before {
            return (number, last);
        }
    }
}

#[test]
fn a_full_buffer_is_under_way_while_the_next_one_fills() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let before = log.durable_lsn();
    let (number, last) = fill_one_buffer(&machine, &log);
    assert_eq!(log.durable_lsn(), before, "nobody has waited for it");
    log.audit();
    let mut buffer = RecordBuffer::new();
    let first = Lsn(before.0.next_multiple_of(512) + frame::FLUSH_HEADER_BYTES as u64);
    for lsn in [first, last] {
        assert!(matches!(log.read_record(lsn, &mut buffer), Ok(LogRecord::Action { .. })));
    }
    log.make_durable(last).unwrap();
    assert!(log.durable_lsn() > last);
    log.audit();
    assert_eq!(log.counts().flush_count, 2, "each buffer went out once");
    machine.restart(FaultPlan::default());
    assert!(reopen(&machine).unwrap().1.into_iter().eq(1..=number));
}

#[test]
fn a_write_that_fails_under_way_stops_the_log_where_it_is_waited_for() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let created = machine.request_count();
    fill_one_buffer(&machine, &log);
    assert_eq!(machine.request_count(), created + 1);
    for waits_for_next in [false, true] {
        let fail_requests = vec![created + 1];
        let machine = Machine::new(FaultPlan { fail_requests, ..FaultPlan::default() });
        let log = create(&machine, &CONFIG).unwrap();
        let (_, last) = fill_one_buffer(&machine, &log);
        let error = if waits_for_next {
            (0..).find_map(|number| append(&log, number, 500, Room::Free).err()).unwrap()
        } else {
            log.make_durable(last).unwrap_err()
        };
        assert!(matches!(error, StorageError::Device { .. }), "{error}");
        let later = log.make_durable(last).unwrap_err();
        assert!(matches!(later, StorageError::Poisoned { .. }), "{later}");
        machine.restart(FaultPlan::default());
        assert!(reopen(&machine).unwrap().1.is_empty(), "nothing of it counts");
    }
}

#[test]
fn what_a_failed_flush_had_is_not_durable_by_the_next_one() {
    let machine = Machine::new(FaultPlan::default());
    create(&machine, &CONFIG).unwrap();
    let fail_requests = vec![machine.request_count() + 1];
    let machine = Machine::new(FaultPlan { fail_requests, ..FaultPlan::default() });
    let log = create(&machine, &CONFIG).unwrap();
    append(&log, 1, 500, Room::Free).unwrap();
    assert!(matches!(log.flush().unwrap_err(), StorageError::Device { .. }));
    assert!(matches!(log.flush().unwrap_err(), StorageError::Poisoned { .. }));
    assert!(matches!(log.close().unwrap_err(), StorageError::Poisoned { .. }));
    machine.restart(FaultPlan::default());
    assert!(reopen(&machine).unwrap().1.is_empty());
}

#[test]
fn a_failed_sync_a_restart_and_a_power_cut_lose_nothing_that_was_promised() {
    let promised = |machine: &Machine| {
        let mut promised = 0;
        let Ok(log) = create(machine, &CONFIG) else { return promised };
        for number in 1..7 {
            let Ok(lsn) = append(&log, number, 1200, Room::Free) else { break };
            if log.make_durable(lsn).is_err() {
                break;
            }
            promised = number;
        }
        promised
    };
    for failing in 5..16 {
        for cut in failing + 1..failing + 12 {
            let machine = Machine::new(FaultPlan {
                fail_requests: vec![failing],
                power_cut_at_request: Some(cut),
                unflushed: UnflushedFate::Torn,
                seed: 100 * cut + failing,
                ..FaultPlan::default()
            });
            let mut promised = promised(&machine);
            if let Ok((_, found)) = reopen(&machine) {
                promised = promised.max(found.len() as u64);
            }
            machine.restart(FaultPlan::default());
            let found = reopen(&machine).unwrap().1;
            assert!(found.len() as u64 >= promised, "{failing}, {cut}");
            assert!(found.iter().copied().eq(1..=found.len() as u64));
        }
    }
}

#[test]
fn failing_reads_give_an_error_and_can_be_repeated() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    for number in 1..50 {
        append(&log, number, 500, Room::Free).unwrap();
    }
    log.flush().unwrap();
    for failing in 1..8 {
        let fail_requests = vec![failing];
        machine.restart(FaultPlan { fail_requests, ..FaultPlan::default() });
        match reopen(&machine) {
            Ok((_, numbers)) => assert_eq!(numbers.len(), 49),
            Err(error) => {
                assert!(matches!(error, StorageError::Device { .. }), "{failing}: {error}");
                assert_eq!(reopen(&machine).unwrap().1.len(), 49);
            }
        }
    }
}

#[test]
fn what_is_left_of_a_lost_tail_is_never_taken_for_what_came_later() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    append(&log, 1, 10, Room::Free).unwrap();
    log.flush().unwrap();
    let start = log.durable_lsn();
    // The first record of the lost flush ends with a sector, so that the second starts with one.
    let second_starts = |length: usize| {
        let mut builder = RecordBuilder::new();
        32 + frame_bytes(action(&mut builder, 2, &vec![7; length]).as_bytes().len() as u64)
    };
    let length = (0..600).find(|&length| second_starts(length) == 512).unwrap();
    append(&log, 2, length, Room::Free).unwrap();
    let second = append(&log, 3, 30, Room::Free).unwrap();
    assert_eq!(second.0, start.0 + 512);
    log.flush().unwrap();
    drop(log);
    // As if its first sector had not arrived.
    for byte in 0..512 {
        machine.change(2 * 4096 + start.0 % CONFIG.capacity_bytes + byte, |byte| *byte = 0);
    }
    let (log, found) = reopen(&machine).unwrap();
    assert_eq!(found, [1]);
    append(&log, 2, length, Room::Free).unwrap();
    log.flush().unwrap();
    assert_eq!(log.durable_lsn(), second);
    drop(log);
    assert_eq!(reopen(&machine).unwrap().1, [1, 2]);
}

#[test]
fn damage_before_the_place_where_a_run_went_on_is_reported() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let first = append(&log, 1, 10, Room::Free).unwrap();
    let second = append(&log, 2, 600, Room::Free).unwrap();
    log.flush().unwrap();
    drop(log);
    let offset_of = |lsn: Lsn| 2 * 4096 + lsn.0;
    // As if the second record's last sector had not arrived.
    machine.change(offset_of(Lsn(second.0 + 620)), |byte| *byte ^= 1);
    let (log, found) = reopen(&machine).unwrap();
    assert_eq!(found, [1]);
    assert_eq!(log.durable_lsn(), second, "in the middle of a sector");
    append(&log, 3, 10, Room::Free).unwrap();
    log.flush().unwrap();
    drop(log);
    machine.change(offset_of(Lsn(first.0 + 20)), |byte| *byte ^= 1);
    assert!(matches!(reopen(&machine), Err(StorageError::Corrupt { .. })));
    machine.change(offset_of(Lsn(first.0 + 20)), |byte| *byte ^= 1);
    assert_eq!(reopen(&machine).unwrap().1, [1, 3]);
}

#[test]
fn damage_to_the_last_flush_is_reported_where_the_control_block_covers_it() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let lsn = append(&log, 1, 10, Room::Free).unwrap();
    log.close().unwrap();
    machine.change(2 * 4096 + lsn.0 + 20, |byte| *byte ^= 1);
    let error = reopen(&machine).unwrap_err();
    let StorageError::Corrupt { place, .. } = error else { panic!("{error}") };
    assert_eq!(place, format!("the log at LSN {} (byte {} of its file)", lsn.0, 8192 + lsn.0));
}

#[test]
fn a_record_that_refers_to_a_later_one_is_corrupt() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let mut builder = RecordBuilder::new();
    let lsn = log.append(&builder.commit(1, Lsn(700)), Room::Free).unwrap();
    let mut buffer = RecordBuffer::new();
    assert!(matches!(log.read_record(lsn, &mut buffer), Err(StorageError::Corrupt { .. })));
    log.flush().unwrap();
    let file = LogFile::open(machine.io(), LOG_FILE).unwrap();
    let found = file.scan(Lsn(0)).unwrap().next_record().map(|_| ());
    assert!(matches!(found, Err(StorageError::Corrupt { .. })));
}

#[test]
fn what_is_appended_during_a_flush_is_not_durable_by_it() {
    let layout = super::frame::Layout::new(512, 128 * 512, 1);
    let mut writer = super::writer::LogWriter::new(layout, 1, 4096, Lsn(512), Lsn(512));
    let mut builder = RecordBuilder::new();
    let record = builder.commit(1, Lsn(0));
    let first = writer.try_append(&record, Room::Free).unwrap().unwrap();
    let flush = writer.begin_flush().unwrap();
    let second = writer.try_append(&record, Room::Free).unwrap().unwrap();
    let mut payload = Vec::new();
    for lsn in [first, second] {
        assert!(writer.copy_payload(lsn, &mut payload));
        assert_eq!(payload, record.as_bytes());
    }
    drop(flush);
    writer.end_flushes(Lsn(u64::MAX), &Ok(()));
    assert!(first < writer.durable() && writer.durable() <= second && second < writer.end());
    writer.audit();
}

#[test]
fn a_log_in_place_of_another_does_not_read_its_records() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    append(&log, 1, 10, Room::Free).unwrap();
    log.flush().unwrap();
    LogFile::create(machine.io(), LOG_FILE, &CONFIG, 4096, 6).unwrap();
    assert!(reopen(&machine).unwrap().1.is_empty());
}

#[test]
fn the_control_block_knows_the_checkpoints_and_survives_a_torn_write() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let mut begins = Vec::new();
    for number in 1..4 {
        let begin = append(&log, number, 10, Room::Free).unwrap();
        let end = log.append_end_checkpoint(begin, &[], &[]).unwrap();
        log.complete_checkpoint(begin, end, Lsn(0)).unwrap();
        begins.push(begin);
    }
    let control = *LogFile::open(machine.io(), LOG_FILE).unwrap().control();
    assert_eq!((control.checkpoint, control.previous_checkpoint), (begins[2], begins[1]));
    assert_eq!((control.page_bytes, control.database_id, control.is_clean), (4096, 5, false));
    // The third checkpoint wrote block 0: creation wrote 1.
    machine.flip(60, 3);
    let control = *LogFile::open(machine.io(), LOG_FILE).unwrap().control();
    assert_eq!((control.checkpoint, control.previous_checkpoint), (begins[1], begins[0]));
    assert_eq!(reopen(&machine).unwrap().1, [1, 2, 3]);
    machine.flip(60, 2);
    machine.flip(4096 + 60, 3);
    let error = LogFile::open(machine.io(), LOG_FILE).unwrap_err();
    assert!(matches!(error, StorageError::NotADatabase { .. }), "{error}");
}

#[test]
fn a_closed_log_is_clean_until_it_is_opened_for_writing() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    append(&log, 1, 10, Room::Free).unwrap();
    log.close().unwrap();
    assert!(matches!(append(&log, 2, 1, Room::Free), Err(StorageError::Poisoned { .. })));
    assert!(LogFile::open(machine.io(), LOG_FILE).unwrap().control().is_clean);
    reopen(&machine).unwrap();
    assert!(!LogFile::open(machine.io(), LOG_FILE).unwrap().control().is_clean);
}

#[test]
fn a_checkpoint_with_long_tables_is_split_and_read_back() {
    let machine = Machine::new(FaultPlan::default());
    let config = LogConfig { capacity_bytes: 1 << 20, buffer_bytes: 4096 };
    let log = create(&machine, &config).unwrap();
    let entry = |id| {
        let status = TransactionStatus::Active;
        TransactionEntry { id, status, last: Lsn(id), undo_next: Lsn(9) }
    };
    let transactions: Vec<_> = (0..3000).map(entry).collect();
    let pages: Vec<DirtyPageEntry> =
        (1..9000).map(|page| (PageAddress::new(FileId(1), page), Lsn(7))).collect();
    let begin = log.append(&RecordBuilder::new().begin_checkpoint(), Room::Checkpoint).unwrap();
    let end = log.append_end_checkpoint(begin, &transactions, &pages).unwrap();
    log.complete_checkpoint(begin, end, begin).unwrap();
    let file = LogFile::open(machine.io(), LOG_FILE).unwrap();
    let mut scan = file.scan(file.control().checkpoint).unwrap();
    let (mut found_transactions, mut found_pages, mut is_last) = (Vec::new(), Vec::new(), false);
    while let Some((_, record)) = scan.next_record().unwrap() {
        if let LogRecord::EndCheckpoint(part) = record {
            assert_eq!(part.begin, begin);
            assert!(!is_last, "nothing comes after the last part");
            found_transactions.extend(part.transactions());
            found_pages.extend(part.dirty_pages());
            is_last = part.is_last;
        }
    }
    assert!(is_last && found_transactions == transactions && found_pages == pages);
}

#[test]
fn threads_that_wait_together_share_flushes() {
    let machine = Machine::new(FaultPlan::default());
    let config = LogConfig { capacity_bytes: 2 << 20, buffer_bytes: 65_536 };
    let log = create(&machine, &config).unwrap();
    let next = AtomicU64::new(0);
    let barrier = std::sync::Barrier::new(8);
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..100 {
                    barrier.wait();
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let lsn = append(&log, number, 40, Room::Free).unwrap();
                    barrier.wait();
                    log.make_durable(lsn).unwrap();
                    assert!(lsn < log.durable_lsn());
                }
            });
        }
    });
    log.audit();
    assert_eq!(log.counts().record_count, 800);
    assert_eq!(log.counts().flush_count, 100, "eight commits, one flush");
    machine.restart(FaultPlan::default());
    let (_, mut numbers) = reopen(&machine).unwrap();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..800));
}

#[test]
fn the_durability_of_a_commit_is_as_asked() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let commit = |durability| {
        let lsn = append(&log, 1, 20, Room::Free).unwrap();
        log.make_commit_durable(lsn, durability).unwrap();
        lsn < log.durable_lsn()
    };
    assert!(commit(Durability::EveryCommit));
    assert!(!commit(Durability::None));
    let grouped = Durability::Grouped { commit_count: 3 };
    assert_eq!([0; 6].map(|_| commit(grouped)), [false, false, true, false, false, true]);
    assert!(!commit(Durability::None));
    assert!(commit(Durability::EveryCommit), "what came before becomes durable, too");
}

#[test]
fn large_sectors_and_flushes_of_many_requests_work() {
    let machine = Machine::with_sectors(4096, FaultPlan::default());
    let config = LogConfig { capacity_bytes: 4 << 20, buffer_bytes: 1 << 20 };
    let log = create(&machine, &config).unwrap();
    let mut expected = 0;
    for number in 0..120 {
        let lsn = append(&log, number, 100_000, Room::Free).unwrap();
        if number % 30 == 29 {
            log.complete_checkpoint(lsn, lsn, lsn).unwrap();
            expected = number;
        }
    }
    machine.restart(FaultPlan::default());
    let (_, numbers) = reopen(&machine).unwrap();
    assert!(numbers.into_iter().eq(expected..120));
    assert!(log.durable_lsn().0 > 2 * config.capacity_bytes);
}

#[test]
fn sizes_that_make_no_sense_are_refused() {
    let machine = Machine::new(FaultPlan::default());
    for config in [
        LogConfig { capacity_bytes: 128 * 512 + 1, ..CONFIG },
        LogConfig { capacity_bytes: 15 * 512, ..CONFIG },
        LogConfig { capacity_bytes: 0, ..CONFIG },
        LogConfig { buffer_bytes: 12, ..CONFIG },
    ] {
        let error = create(&machine, &config).unwrap_err();
        assert!(matches!(error, StorageError::InvalidSetting { .. }), "{error}");
    }
}

#[test]
fn a_log_that_was_never_made_moved_to_larger_sectors_or_cut_short_is_refused() {
    let machine = Machine::new(FaultPlan::default());
    let error = LogFile::open(machine.io(), LOG_FILE).unwrap_err();
    assert!(matches!(error, StorageError::NotADatabase { .. }), "{error}");
    create(&machine, &CONFIG).unwrap();
    let error = LogFile::open(machine.io_as(4096, 1 << 20), LOG_FILE).unwrap_err();
    assert!(matches!(error, StorageError::InvalidSetting { .. }), "{error}");
    let error = LogFile::open(machine.io_as(512, 50_000), LOG_FILE).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error}");
    LogFile::open(machine.io_as(512, 2 * 4096 + CONFIG.capacity_bytes), LOG_FILE).unwrap();
}

#[test]
fn a_page_from_the_future_is_corrupt() {
    let machine = Machine::new(FaultPlan::default());
    let log = create(&machine, &CONFIG).unwrap();
    let error = log.make_durable(Lsn(1 << 40)).unwrap_err();
    assert!(matches!(error, StorageError::Corrupt { .. }), "{error}");
    let mut buffer = RecordBuffer::new();
    for lsn in [0, 5, 512, 528, 1 << 40, u64::MAX] {
        let error = log.read_record(Lsn(lsn), &mut buffer).unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn a_damaged_file_gives_an_error_or_a_prefix_and_never_a_panic(
        damage in proptest::collection::vec((0_u64..40_000, any::<u8>()), 1..6)
    ) {
        let machine = Machine::new(FaultPlan::default());
        let log = create(&machine, &CONFIG).unwrap();
        for number in 1..60 {
            append(&log, number, 400, Room::Free).unwrap();
            if number % 20 == 0 {
                let lsn = append(&log, number + 100, 1, Room::Free).unwrap();
                log.complete_checkpoint(lsn, lsn, log.control().tail).unwrap();
            }
        }
        log.flush().unwrap();
        for (offset, value) in damage {
            machine.change(offset, |byte| *byte = value);
        }
        if let Ok((log, numbers)) = reopen(&machine) {
            let small = numbers.iter().copied().filter(|&number| number < 100);
            prop_assert!(small.clone().eq(1..=small.count() as u64));
            append(&log, 1, 1, Room::Free).unwrap();
            log.flush().unwrap();
            prop_assert_eq!(reopen(&machine).unwrap().1.len(), numbers.len() + 1);
        }
    }
}
