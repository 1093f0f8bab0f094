//! Blocks on drives of an experiment, of which nobody looks at what is in them: requests are made as the
//! streams of a store make them, where its structures would lie, and the drives' clock tells.
//!
//! ```text
//!   rows  ──a──a──a──►  each at the pace that has it end with the others;
//!         ────B──────►  what is written behind what it is made of
//! ```
//!
//! 1. Each row has so many requests on its way as a stream of a store, whatever the number of drives; they
//!    are waited for in the order in which they were made.
//! 2. Blocks of a store go round its drives: block i lies on drive i modulo their number.
//! 3. A row that is drained gives a block back when the next one is at hand.
//! 4. Who does not ask has structures grow and go all the same.

use nandu_base::{Nanos, to_index};
use nandu_device::{DeviceError, IoBuffer, Operation};
use nandu_external::{ExternalError, Grant, Layout, Settings, Store};
use nandu_storage::volume::{Io, IoOwner};
use nandu_storage::{FileId, StorageError};
use std::collections::VecDeque;

/// A file on each of some drives, and a store that says where in them structures would lie.
#[derive(Debug)]
pub(super) struct Files {
    files: Vec<(Io, FileId)>,
    block_bytes: u64,
    store: Store,
}

/// What is done with a row of blocks.
#[derive(Debug)]
enum Work<'r> {
    Scan(&'r Layout),
    /// Read, and given back.
    Drain(&'r mut Layout),
    Write(&'r mut Layout),
    /// Read: those of these numbers.
    Pick(&'r [u64]),
}

/// Blocks that are read or written one after the other.
#[derive(Debug)]
pub(super) struct Row<'r> {
    files: &'r Files,
    work: Work<'r>,
    all: u64,
    asked: u64,
    /// Blocks that were waited for, and that were given back.
    taken: u64,
    given_back: u64,
}

/// Who asks: requests of each row on their way, and buffers for more.
#[derive(Debug)]
pub(super) struct Asker {
    in_flight: usize,
    /// Whether drives are asked at all.
    pub(super) is_asking: bool,
    /// One more than the largest number of a block that was written.
    pub(super) end_block: u64,
    flights: Vec<VecDeque<(Io, u64)>>,
    spare: Vec<IoBuffer>,
}

impl Files {
    pub(super) fn new(ios: &[Io], name: &str, block_bytes: u64) -> Result<Self, ExternalError> {
        let files = ios.iter().map(|io| Ok((io.clone(), io.create(name)?)));
        let files = files.collect::<Result<_, StorageError>>()?;
        let settings = Settings { block_bytes: nandu_base::to_u32(block_bytes), in_flight: 0 };
        Ok(Self { files, block_bytes, store: Store::new(ios, settings, Grant::new(0))? })
    }

    /// Blocks for `count` records of `record_bytes`; a block has a tail of eight bytes.
    pub(super) const fn needed(&self, count: u64, record_bytes: u64) -> u64 {
        count.div_ceil(self.records(record_bytes))
    }

    /// Records of a block.
    pub(super) const fn records(&self, record_bytes: u64) -> u64 {
        (self.block_bytes - 8) / record_bytes
    }

    /// A structure without blocks.
    pub(super) fn empty(&self) -> Layout {
        Layout::new(&self.store)
    }

    const fn row<'r>(&'r self, work: Work<'r>, all: u64) -> Row<'r> {
        Row { files: self, work, all, asked: 0, taken: 0, given_back: 0 }
    }

    pub(super) const fn scan<'r>(&'r self, layout: &'r Layout) -> Row<'r> {
        self.row(Work::Scan(layout), layout.len())
    }

    pub(super) const fn drain<'r>(&'r self, layout: &'r mut Layout) -> Row<'r> {
        let all = layout.len();
        self.row(Work::Drain(layout), all)
    }

    pub(super) const fn write<'r>(&'r self, layout: &'r mut Layout, count: u64) -> Row<'r> {
        self.row(Work::Write(layout), count)
    }

    pub(super) const fn pick<'r>(&'r self, picked: &'r [u64]) -> Row<'r> {
        self.row(Work::Pick(picked), picked.len() as u64)
    }
}

impl Row<'_> {
    const fn is_write(&self) -> bool {
        matches!(self.work, Work::Write(_))
    }

    /// When its next block comes, as a part of the whole: twice the numerator, and the denominator.
    fn due(&self) -> (u128, u128) {
        (2 * u128::from(self.asked) + 2 * u128::from(self.is_write()), 2 * u128::from(self.all))
    }

    /// The next block.
    fn next(&mut self) -> Result<u64, ExternalError> {
        let index = self.asked;
        self.asked += 1;
        match &mut self.work {
            Work::Scan(layout) => Ok(layout.block(index)),
            Work::Drain(layout) => Ok(layout.block(index - self.given_back)),
            Work::Write(layout) => layout.push_back(),
            Work::Pick(picked) => Ok(picked[to_index(index)]),
        }
    }

    /// A block was waited for, and is at hand.
    fn note_taken(&mut self) {
        self.taken += 1;
        self.give_back(self.taken - 1);
    }

    /// All blocks were waited for.
    fn finish(&mut self) {
        self.give_back(self.taken);
        if let Work::Write(layout) = &mut self.work {
            layout.finish();
        }
    }

    /// So many blocks of what is drained are of no more use.
    fn give_back(&mut self, count: u64) {
        let Work::Drain(layout) = &mut self.work else { return };
        for _ in self.given_back..count {
            layout.pop_front();
        }
        self.given_back = count;
    }
}

impl Asker {
    /// Rows have so many requests on their way.
    pub(super) const fn new(in_flight: usize) -> Self {
        let is_asking = false;
        Self { in_flight, is_asking, end_block: 0, flights: Vec::new(), spare: Vec::new() }
    }

    /// Waits for the oldest request of a row.
    fn take(&mut self, number: usize) -> Result<(), ExternalError> {
        let (io, ticket) = self.flights[number].pop_front().expect("there is one on its way");
        let completion = io.wait(ticket);
        completion.result.map_err(|error: DeviceError| StorageError::Device {
            what: format!("asking {}", io.name()),
            error,
        })?;
        self.spare.extend(completion.buffer);
        Ok(())
    }

    /// Asks for the next block of a row.
    fn ask(&mut self, number: usize, row: &mut Row<'_>) -> Result<(), ExternalError> {
        let block = row.next()?;
        if row.is_write() {
            self.end_block = self.end_block.max(block + 1);
        }
        if !self.is_asking {
            row.note_taken();
            return Ok(());
        }
        let Files { files, block_bytes, .. } = row.files;
        let drives = files.len() as u64;
        let (io, file) = &files[to_index(block % drives)];
        let byte_count = to_index(*block_bytes);
        let fits = |buffer: &IoBuffer| buffer.len() == byte_count;
        let buffer = match self.spare.iter().rposition(fits) {
            Some(place) => self.spare.swap_remove(place),
            None => {
                let alignment = to_index(u64::from(io.buffer_alignment().max(512)));
                IoBuffer::with_alignment(byte_count, alignment)
            }
        };
        let operation = if row.is_write() { Operation::Write } else { Operation::Read };
        let offset_bytes = block / drives * block_bytes;
        let ticket = io.submit_ahead(IoOwner::Operator, *file, operation, offset_bytes, buffer)?;
        self.flights[number].push_back((io.clone(), ticket));
        if self.flights[number].len() > self.in_flight {
            self.take(number)?;
            row.note_taken();
        }
        Ok(())
    }

    /// Asks for all blocks of `rows`, side by side, and waits for them.
    pub(super) fn flow(&mut self, rows: &mut [Row<'_>]) -> Result<(), ExternalError> {
        self.flights.resize_with(rows.len().max(self.flights.len()), VecDeque::new);
        loop {
            let left = rows.iter_mut().enumerate().filter(|(_, row)| row.asked < row.all);
            let next = left.min_by(|(_, left), (_, right)| {
                let ((left, of_left), (right, of_right)) = (left.due(), right.due());
                (left * of_right).cmp(&(right * of_left))
            });
            let Some((number, row)) = next else { break };
            self.ask(number, row)?;
        }
        for (number, row) in rows.iter_mut().enumerate() {
            while !self.flights[number].is_empty() {
                self.take(number)?;
                row.note_taken();
            }
            row.finish();
        }
        Ok(())
    }

    /// The present of drives that are on one clock.
    pub(super) fn now(ios: &[Io]) -> Nanos {
        ios.iter().map(Io::present).max().unwrap_or_default()
    }
}
