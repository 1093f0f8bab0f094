//! The log against a model: what was durable is there, in order; behind it a prefix of the rest.

use super::test_volume::{LOG_FILE, Machine};
use super::*;
use crate::{PageAddress, PageOperation};
use nandu_device::{DeviceError, FaultPlan, UnflushedFate};
use proptest::prelude::*;

const CAPACITY: u64 = 64 * 512;
const CONFIG: LogConfig = LogConfig { capacity_bytes: CAPACITY, buffer_bytes: 4096 };
const PAGE_BYTES: u32 = 4096;
const DATABASE: u64 = 77;

/// One thing done to a log. Lengths are those of undo bytes.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Append(u16),
    Flush,
    /// Moves the tail behind this share of the durable records, in eighths.
    Checkpoint(u8),
    Restart,
}

/// On which sectors records lie, and how they get there.
#[derive(Clone, Copy, Debug)]
struct Form {
    sector_bytes: u32,
    writing: LogWritingKind,
}

impl Form {
    const BLOCKS: Self = Self { sector_bytes: 512, writing: LogWritingKind::Buffered };
    const LINES: Self = Self { sector_bytes: 64, writing: LogWritingKind::Direct };
    const ALL: [Self; 5] = [
        Self::BLOCKS,
        Self::LINES,
        Self { sector_bytes: 64, ..Self::BLOCKS },
        Self { sector_bytes: 256, ..Self::LINES },
        Self { sector_bytes: 512, ..Self::LINES },
    ];
}

/// What was appended: records are numbered without end, by their transaction.
#[derive(Debug)]
struct Model {
    machine: Machine,
    form: Form,
    log: Option<SharedLog>,
    /// LSN and undo length of records from the tail on.
    records: Vec<(Lsn, u16)>,
    first_number: u64,
    durable_count: usize,
    builder: RecordBuilder,
}

fn pattern(number: u64, length: u16) -> Vec<u8> {
    let mut bytes = vec![0; usize::from(length)];
    nandu_base::Rng::new(number).fill(&mut bytes);
    bytes
}

impl Model {
    fn of(form: Form, plan: FaultPlan) -> Result<Self, StorageError> {
        let machine = Machine::with_sectors(form.sector_bytes, plan);
        let log = LogFile::create(machine.io(), LOG_FILE, &CONFIG, PAGE_BYTES, DATABASE)?;
        log.set_writing(form.writing)?;
        Ok(Self {
            machine,
            form,
            log: Some(log),
            records: Vec::new(),
            first_number: 1,
            durable_count: 0,
            builder: RecordBuilder::new(),
        })
    }

    fn log(&self) -> SharedLog {
        self.log.clone().expect("the log is open")
    }

    fn append(&mut self, length: u16) -> Result<(), StorageError> {
        let number = self.first_number + self.records.len() as u64;
        let previous = self.records.last().map_or(Lsn(0), |&(lsn, _)| lsn);
        self.builder.begin_action(number, previous);
        let first = [number.to_le_bytes()[0]; 3];
        let operation = PageOperation { code: 0x20, operand: 9, first: &first, second: &[] };
        self.builder.add_change(PageAddress::new(FileId(3), 1 + u32::from(length)), &operation);
        let record = self.builder.finish(&pattern(number, length));
        let lsn = self.log.as_ref().expect("open").append(&record, Room::Free)?;
        self.records.push((lsn, length));
        Ok(())
    }

    fn flush(&mut self) -> Result<(), StorageError> {
        self.log().flush()?;
        self.durable_count = self.records.len();
        Ok(())
    }

    fn checkpoint(&mut self, eighths: u8) -> Result<(), StorageError> {
        self.note_durable();
        let cut = self.durable_count * usize::from(eighths % 8) / 8;
        let Some(&(tail, _)) = self.records.get(cut).filter(|_| cut < self.durable_count) else {
            return Ok(());
        };
        self.log().complete_checkpoint(tail, tail, tail)?;
        self.records.drain(..cut);
        self.first_number += cut as u64;
        self.durable_count -= cut;
        Ok(())
    }

    /// A full buffer is flushed unasked.
    fn note_durable(&mut self) {
        let durable = self.log().durable_lsn();
        self.durable_count = self.records.iter().filter(|&&(lsn, _)| lsn < durable).count();
    }

    /// The power goes, if it did not already; what is found is compared and counts from then on.
    fn restart(&mut self, plan: FaultPlan) -> Result<(), StorageError> {
        if let Some(log) = self.log.take() {
            let durable = log.durable_lsn();
            self.durable_count = self.records.iter().filter(|&&(lsn, _)| lsn < durable).count();
        }
        self.machine.restart(plan);
        let file = LogFile::open(self.machine.io(), LOG_FILE)?;
        // A checkpoint whose control block came through, although its writer was told otherwise.
        let tail = file.control().tail;
        let cut = self.records.iter().take_while(|&&(lsn, _)| lsn < tail).count();
        self.records.drain(..cut);
        self.first_number += cut as u64;
        self.durable_count = self.durable_count.saturating_sub(cut);
        let mut scan = file.scan(tail)?;
        let found = self.compare(&mut scan)?;
        assert!(found >= self.durable_count, "{found} of {} durable", self.durable_count);
        self.records.truncate(found);
        let end = scan.find_end()?;
        drop(scan);
        let log = file.resume(end, &CONFIG)?;
        log.set_writing(self.form.writing)?;
        log.audit();
        self.log = Some(log);
        self.durable_count = found;
        Ok(())
    }

    fn compare(&self, scan: &mut LogReader) -> Result<usize, StorageError> {
        let mut found = 0;
        while let Some((lsn, record)) = scan.next_record()? {
            let &(expected, length) = self.records.get(found).expect("nothing is invented");
            assert_eq!(lsn, expected);
            let number = self.first_number + found as u64;
            self.check(number, length, record);
            found += 1;
        }
        Ok(found)
    }

    fn check(&self, number: u64, length: u16, record: LogRecord<'_>) {
        let LogRecord::Action { transaction, changes, undo, .. } = record else {
            panic!("{record:?} is not what was appended")
        };
        assert_eq!(transaction, number);
        assert_eq!(undo, pattern(number, length));
        assert_eq!(changes.iter().count(), 1);
    }

    fn apply(&mut self, deed: Deed) -> Result<(), StorageError> {
        self.machine.take_writes();
        let needed = self.records.first().map(|&(lsn, _)| (lsn, self.log().durable_lsn()));
        let result = self.apply_unwatched(deed);
        if let (Some((tail, durable)), false) = (needed, matches!(deed, Deed::Checkpoint(_))) {
            self.assert_untouched(tail, durable);
        }
        result
    }

    /// No write touched the log between two LSNs.
    fn assert_untouched(&self, tail: Lsn, durable: Lsn) {
        let sector_bytes = u64::from(self.form.sector_bytes);
        let sectors = tail.0 / sector_bytes..durable.0.div_ceil(sector_bytes);
        for write in self.machine.take_writes() {
            let master_bytes = 2 * 4096;
            let step = self.form.sector_bytes as usize;
            for offset in write.step_by(step).filter(|&offset| offset >= master_bytes) {
                let lap_sector = (offset - master_bytes) / sector_bytes;
                let is_needed = |sector: u64| sector % (CAPACITY / sector_bytes) == lap_sector;
                assert!(!sectors.clone().any(is_needed), "a needed sector is written again");
            }
        }
    }

    fn apply_unwatched(&mut self, deed: Deed) -> Result<(), StorageError> {
        match deed {
            Deed::Append(length) => match self.append(length) {
                Err(StorageError::NoSpace { .. }) => Ok(()),
                other => other,
            },
            Deed::Flush => self.flush(),
            Deed::Checkpoint(eighths) => self.checkpoint(eighths),
            Deed::Restart => self.restart(FaultPlan::default()),
        }
    }

    /// Every record can be read by its LSN, wherever it is.
    fn read_back(&self) {
        let mut buffer = RecordBuffer::new();
        for (index, &(lsn, length)) in self.records.iter().enumerate().rev() {
            let record = self.log().read_record(lsn, &mut buffer).unwrap();
            self.check(self.first_number + index as u64, length, record);
        }
    }
}

#[test]
fn what_was_flushed_is_read_back() {
    for form in Form::ALL {
        let mut model = Model::of(form, FaultPlan::default()).unwrap();
        for length in [0, 1, 100, 511, 512, 513, 4000, 8000] {
            model.append(length).unwrap();
        }
        model.read_back();
        model.log().audit();
        model.flush().unwrap();
        model.read_back();
        model.restart(FaultPlan::default()).unwrap();
        assert_eq!(model.records.len(), 8, "{form:?}");
        model.read_back();
        model.append(5).unwrap();
        model.read_back();
    }
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        6 => (0_u16..700).prop_map(Deed::Append),
        1 => (0_u16..6000).prop_map(Deed::Append),
        3 => Just(Deed::Flush),
        2 => (0_u8..8).prop_map(Deed::Checkpoint),
        1 => Just(Deed::Restart),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_power_cut_anywhere_leaves_all_that_was_durable_and_a_prefix_of_the_rest(
        deeds in proptest::collection::vec(deed(), 1..60),
        cuts in proptest::collection::vec(1_u64..60, 4),
        fate in prop_oneof![
            Just(UnflushedFate::Dropped), Just(UnflushedFate::Kept), Just(UnflushedFate::Torn)
        ],
        seed in 0_u64..1000,
        form in proptest::sample::select(&Form::ALL[..]),
    ) {
        let mut model = Model::of(form, FaultPlan::default()).unwrap();
        let mut deeds = deeds.into_iter();
        for cut in cuts {
            let plan = FaultPlan {
                power_cut_at_request: Some(cut),
                torn_sector_count: Some(u32::try_from(seed % 5).unwrap()),
                unflushed: fate,
                seed,
                ..FaultPlan::default()
            };
            let outcome = model.restart(plan);
            let outcome = outcome.and_then(|()| deeds.try_for_each(|deed| model.apply(deed)));
            prop_assert!(outcome.is_ok() || is_power_loss(&outcome), "{outcome:?}");
            model.restart(FaultPlan::default()).unwrap();
            model.read_back();
        }
    }
}

fn is_power_loss(outcome: &Result<(), StorageError>) -> bool {
    let lost = DeviceError::PowerLost;
    matches!(outcome, Err(StorageError::Device { error, .. }) if *error == lost)
        || matches!(outcome, Err(StorageError::Poisoned { .. }))
}

/// A small run that wraps, takes checkpoints and restarts once.
fn small_run(model: &mut Model) -> Result<(), StorageError> {
    for round in 0..24_u16 {
        for step in 0..6 {
            model.apply(Deed::Append(150 * step + 37 * round))?;
        }
        model.apply(Deed::Flush)?;
        if round % 3 == 2 {
            model.apply(Deed::Append(20))?;
            model.apply(Deed::Checkpoint(7))?;
        }
    }
    Ok(())
}

/// Cuts the power of a small run at every request, after each of these numbers of sectors of a write.
fn cut_everywhere(form: Form, torn_counts: &[Option<u32>]) {
    let mut model = Model::of(form, FaultPlan::default()).unwrap();
    small_run(&mut model).unwrap();
    let request_count = model.machine.request_count();
    let position = model.log().durable_lsn().0;
    assert!(position > 2 * CAPACITY, "the run wraps, LSN {position}");
    for cut in 1..=request_count {
        for &torn in torn_counts {
            for unflushed in [UnflushedFate::Dropped, UnflushedFate::Kept, UnflushedFate::Torn] {
                let plan = FaultPlan {
                    power_cut_at_request: Some(cut),
                    torn_sector_count: torn,
                    unflushed,
                    seed: cut,
                    ..FaultPlan::default()
                };
                // Without a log nothing was promised.
                let Ok(mut model) = Model::of(form, plan) else { continue };
                let outcome = small_run(&mut model);
                assert!(is_power_loss(&outcome), "cut {cut}: {outcome:?}");
                for _ in 0..2 {
                    model.restart(FaultPlan::default()).unwrap();
                    model.append(400).unwrap();
                    model.flush().unwrap();
                }
                model.restart(FaultPlan::default()).unwrap();
            }
        }
    }
}

#[test]
fn a_cut_at_every_request_with_every_torn_length_loses_nothing_durable() {
    let counts = [None, Some(0), Some(1), Some(2), Some(3), Some(5), Some(8), Some(11)];
    cut_everywhere(Form::BLOCKS, &counts);
}

#[test]
fn a_cut_between_any_two_lines_of_records_on_their_way_loses_nothing_durable() {
    cut_everywhere(Form::LINES, &[None, Some(0), Some(1), Some(2), Some(7)]);
}

#[test]
fn flipped_bits_in_what_is_durable_are_reported_not_cut_off() {
    for form in [Form::BLOCKS, Form::LINES] {
        flip_everywhere(form);
    }
}

fn flip_everywhere(form: Form) {
    let mut model = Model::of(form, FaultPlan::default()).unwrap();
    for length in [10, 300, 900, 40, 2000, 1] {
        model.append(length).unwrap();
        model.flush().unwrap();
    }
    model.append(5).unwrap();
    model.flush().unwrap();
    let area_start = 2 * 4096;
    let last_flush = model.records[6].0.0 - 32;
    for offset in (u64::from(form.sector_bytes)..last_flush).step_by(7) {
        let bit = u8::try_from(offset % 8).unwrap();
        model.machine.flip(area_start + offset, bit);
        let file = LogFile::open(model.machine.io(), LOG_FILE).unwrap();
        let mut scan = file.scan(file.control().tail).unwrap();
        match scan.find_end() {
            Err(StorageError::Corrupt { place, .. }) => assert!(place.contains("LSN"), "{place}"),
            // The zeros that round a frame up belong to nobody.
            Ok(_) => assert_eq!(model.compare(&mut rescan(&file)).unwrap(), 7, "at {offset}"),
            Err(error) => panic!("{error}"),
        }
        model.machine.flip(area_start + offset, bit);
    }
    model.restart(FaultPlan::default()).unwrap();
}

fn rescan(file: &LogFile) -> LogReader {
    file.scan(file.control().tail).unwrap()
}
