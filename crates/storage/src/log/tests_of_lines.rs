//! Records that are written directly, over lines of 64 bytes: what goes to the device and when, and what it
//! means that a commit is durable.

use super::test_volume::{LOG_FILE, Machine};
use super::*;
use crate::{PageAddress, PageOperation};
use nandu_device::{FaultPlan, UnflushedFate};
use std::sync::atomic::{AtomicU64, Ordering};

const CONFIG: LogConfig = LogConfig { capacity_bytes: 1 << 16, buffer_bytes: 4096 };
const LINE_BYTES: u32 = 64;
const CONTROL_BYTES: u64 = 2 * 4096;

fn create(machine: &Machine) -> SharedLog {
    let log = LogFile::create(machine.io(), LOG_FILE, &CONFIG, 4096, 5).unwrap();
    log.set_writing(LogWritingKind::Direct).unwrap();
    log
}

fn machine(plan: FaultPlan) -> Machine {
    Machine::with_sectors(LINE_BYTES, plan)
}

fn append(log: &SharedLog, number: u64, length: usize) -> Result<Lsn, StorageError> {
    let mut builder = RecordBuilder::new();
    builder.begin_action(number, Lsn(0));
    let bytes = vec![7; length];
    let operation = PageOperation { code: 0x20, operand: 1, first: &bytes, second: &[] };
    builder.add_change(PageAddress::new(FileId(2), 8), &operation);
    log.append(&builder.finish(b"undo"), Room::Free)
}

fn commit(log: &SharedLog, number: u64) -> Result<Lsn, StorageError> {
    log.append(&RecordBuilder::new().commit(number, Lsn(1)), Room::Reserved)
}

fn reopen(machine: &Machine) -> Result<Vec<u64>, StorageError> {
    let file = LogFile::open(machine.io(), LOG_FILE)?;
    let mut scan = file.scan(Lsn(0))?;
    let mut numbers = Vec::new();
    while let Some((_, record)) = scan.next_record()? {
        if let LogRecord::Action { transaction, .. } = record {
            numbers.push(transaction);
        }
    }
    Ok(numbers)
}

#[test]
fn a_record_is_on_its_way_at_once_and_a_commit_is_a_line_and_a_fence() {
    let machine = machine(FaultPlan::default());
    let log = create(&machine);
    commit(&log, 1).unwrap();
    log.flush().unwrap();
    machine.take_writes();
    let requests = machine.request_count();
    let change = append(&log, 2, 200).unwrap();
    let [write] = &machine.take_writes()[..] else { panic!("one write for one record") };
    // A header, since there is news of what is durable, and 16 to 64 bytes around what changed.
    assert_eq!((write.end - write.start) / 64, 5);
    assert!(log.durable_lsn() <= change, "nobody has waited");
    let end = commit(&log, 2).unwrap();
    let [line] = &machine.take_writes()[..] else { panic!("one write for one record") };
    assert_eq!(line.end - line.start, 64, "a commit is a line");
    assert_eq!(line.start, write.end, "behind what came before");
    log.make_durable(end).unwrap();
    assert!(machine.take_writes().is_empty(), "nothing is left to write");
    assert_eq!(machine.request_count() - requests, 3, "two writes and a fence");
    log.audit();
}

#[test]
fn nothing_that_waits_is_forced_with_others_and_what_lies_before_a_commit_is() {
    let machine = machine(FaultPlan::default());
    let log = create(&machine);
    let lsns: Vec<Lsn> = (1..=4).map(|number| append(&log, number, 100).unwrap()).collect();
    log.make_durable(lsns[1]).unwrap();
    assert!(log.durable_lsn() > lsns[1], "it and the one before it");
    assert!(log.durable_lsn() <= lsns[2], "those behind it are waited for by whoever wants them");
    machine.restart(FaultPlan { unflushed: UnflushedFate::Dropped, ..FaultPlan::default() });
    assert!(reopen(&machine).unwrap().starts_with(&[1, 2]));
}

#[test]
fn a_record_counts_only_with_all_its_lines_and_those_before() {
    // Four records are on their way; what of them arrived is drawn, line by line.
    let (mut lengths, mut holes) = (std::collections::BTreeSet::new(), 0);
    for seed in 0..200 {
        let created = machine(FaultPlan::default());
        create(&created);
        let cut = created.request_count() + 5;
        let unflushed = UnflushedFate::Torn;
        let plan =
            FaultPlan { power_cut_at_request: Some(cut), unflushed, seed, ..FaultPlan::default() };
        let machine = machine(plan);
        let log = create(&machine);
        for number in 1..=4 {
            append(&log, number, 100).unwrap();
        }
        log.flush().unwrap_err();
        machine.restart(FaultPlan::default());
        let numbers = reopen(&machine).unwrap();
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "a prefix: {numbers:?}");
        holes += u64::from(numbers.len() < 4 && arrived_later(&machine, numbers.len() as u64 + 1));
        lengths.insert(numbers.len());
    }
    assert!(lengths.len() > 2, "prefixes of several lengths: {lengths:?}");
    assert!(holes > 10, "whole records behind a torn one, which do not count: {holes}");
}

/// Whether a record behind that of `number` came through whole, though that one did not.
fn arrived_later(machine: &Machine, number: u64) -> bool {
    // All records have the same length, the first one a header beside.
    let frame = machine.take_writes().into_iter().filter(|write| write.start >= CONTROL_BYTES);
    let writes: Vec<_> = frame.collect();
    writes.iter().skip(nandu_base::to_index(number)).any(|write| {
        let mut found = vec![0; nandu_base::to_index(write.end - write.start)];
        machine.look(write.start, &mut found);
        found.chunks(64).all(|line| line.iter().any(|&byte| byte != 0))
    })
}

#[test]
fn every_failing_request_gives_an_error_and_the_log_opens_again() {
    let run = |log: &SharedLog, done: &mut u64| -> Result<(), StorageError> {
        for number in 1..40 {
            append(log, number, 200)?;
            let lsn = commit(log, number)?;
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
    let whole = machine(FaultPlan::default());
    let log = create(&whole);
    let created = whole.request_count();
    run(&log, &mut 0).unwrap();
    for failing in created + 1..=whole.request_count() {
        let fail_requests = vec![failing];
        let machine = machine(FaultPlan { fail_requests, ..FaultPlan::default() });
        let log = create(&machine);
        let mut done = 0;
        run(&log, &mut done).unwrap_err();
        let later = append(&log, 99, 1).unwrap_err();
        assert!(matches!(later, StorageError::Poisoned { .. }), "request {failing}: {later}");
        machine.restart(FaultPlan::default());
        let numbers = reopen(&machine).unwrap();
        assert!(numbers.len() as u64 >= done, "request {failing}");
        assert!(numbers.iter().copied().eq(1..=numbers.len() as u64), "request {failing}");
    }
}

#[test]
fn threads_that_commit_side_by_side_lose_nothing() {
    let machine = machine(FaultPlan::default());
    let log = create(&machine);
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    let lsn = append(&log, number, 40).unwrap();
                    log.make_durable(lsn).unwrap();
                    assert!(lsn < log.durable_lsn());
                }
            });
        }
    });
    log.audit();
    machine.restart(FaultPlan::default());
    let mut numbers = reopen(&machine).unwrap();
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..200));
}

#[test]
fn a_transaction_that_nobody_waits_for_is_written_in_bounded_memory() {
    let machine = machine(FaultPlan::default());
    let log = create(&machine);
    for number in 0..300 {
        append(&log, number, 20).unwrap();
        log.audit();
        let ahead = log.next_lsn().0 - log.durable_lsn().0;
        assert!(ahead <= u64::from(CONFIG.buffer_bytes) + 512, "{ahead} bytes ahead");
    }
}

#[test]
fn what_was_collected_is_durable_before_records_go_by_themselves() {
    let machine = machine(FaultPlan::default());
    let log = LogFile::create(machine.io(), LOG_FILE, &CONFIG, 4096, 5).unwrap();
    let collected = append(&log, 1, 100).unwrap();
    assert!(log.durable_lsn() <= collected);
    log.set_writing(LogWritingKind::Direct).unwrap();
    assert!(log.durable_lsn() > collected);
    append(&log, 2, 100).unwrap();
    log.set_writing(LogWritingKind::Buffered).unwrap();
    let last = append(&log, 3, 100).unwrap();
    log.make_durable(last).unwrap();
    machine.restart(FaultPlan::default());
    assert_eq!(reopen(&machine).unwrap(), [1, 2, 3]);
}
