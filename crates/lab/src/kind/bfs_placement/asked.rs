//! Rows of blocks on drives of an experiment, of which nobody looks at what is in them: requests are made
//! as a store would make them, block by block round its drives, and the drives' clock tells.
//!
//! ```text
//!   rows  ──a──a──a──►  each at the pace that has it end with the others;
//!         ────B──────►  what is written behind what it is made of
//! ```
//!
//! 1. Requests are waited for in the order in which they were made, so many are on their way at once.
//! 2. Blocks of a store go round its drives: block i lies on drive i modulo their number.

use nandu_base::{Nanos, to_index};
use nandu_device::{DeviceError, IoBuffer, Operation};
use nandu_storage::volume::{Io, IoOwner};
use nandu_storage::{FileId, StorageError};
use std::collections::VecDeque;

/// A file on each of some drives, of blocks that go round them.
#[derive(Debug)]
pub(super) struct Blocks {
    files: Vec<(Io, FileId)>,
    block_bytes: u64,
}

/// Blocks that are read or written one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Row<'b> {
    blocks: &'b Blocks,
    is_write: bool,
    first: u64,
    /// Where they do not lie in a row: the numbers of all.
    picked: Option<&'b [u64]>,
    all: u64,
    done: u64,
}

/// Who asks: requests on their way, and buffers for more.
#[derive(Debug)]
pub(super) struct Asker {
    in_flight: usize,
    flights: VecDeque<(Io, u64)>,
    spare: Vec<IoBuffer>,
}

impl Blocks {
    pub(super) fn new(ios: &[Io], name: &str, block_bytes: u64) -> Result<Self, StorageError> {
        let files = ios.iter().map(|io| Ok((io.clone(), io.create(name)?)));
        Ok(Self { files: files.collect::<Result<_, StorageError>>()?, block_bytes })
    }

    /// Blocks for `count` records of `record_bytes`; a block has a head of eight bytes.
    pub(super) const fn needed(&self, count: u64, record_bytes: u64) -> u64 {
        count.div_ceil(self.records(record_bytes))
    }

    /// Records of a block.
    pub(super) const fn records(&self, record_bytes: u64) -> u64 {
        (self.block_bytes - 8) / record_bytes
    }

    pub(super) const fn block_bytes(&self) -> u64 {
        self.block_bytes
    }

    pub(super) const fn read(&self, first: u64, count: u64) -> Row<'_> {
        Row { blocks: self, is_write: false, first, picked: None, all: count, done: 0 }
    }

    /// Blocks that do not lie in a row.
    pub(super) const fn pick<'b>(&'b self, picked: &'b [u64]) -> Row<'b> {
        let all = picked.len() as u64;
        Row { blocks: self, is_write: false, first: 0, picked: Some(picked), all, done: 0 }
    }

    pub(super) const fn write(&self, first: u64, count: u64) -> Row<'_> {
        Row { blocks: self, is_write: true, first, picked: None, all: count, done: 0 }
    }
}

impl Row<'_> {
    const fn is_done(&self) -> bool {
        self.done == self.all
    }

    /// When its next block comes, as a part of the whole: twice the numerator, and the denominator.
    fn due(&self) -> (u128, u128) {
        (2 * u128::from(self.done) + 2 * u128::from(self.is_write), 2 * u128::from(self.all))
    }
}

impl Asker {
    pub(super) fn new(in_flight: usize) -> Self {
        Self { in_flight, flights: VecDeque::with_capacity(in_flight), spare: Vec::new() }
    }

    /// Waits for the oldest request.
    fn take(&mut self) -> Result<(), StorageError> {
        let Some((io, ticket)) = self.flights.pop_front() else { return Ok(()) };
        let completion = io.wait(ticket);
        completion.result.map_err(|error: DeviceError| StorageError::Device {
            what: format!("asking {}", io.name()),
            error,
        })?;
        self.spare.extend(completion.buffer);
        Ok(())
    }

    /// Asks for one block.
    pub(super) fn ask(
        &mut self,
        (blocks, block): (&Blocks, u64),
        is_write: bool,
    ) -> Result<(), StorageError> {
        if self.flights.len() == self.in_flight {
            self.take()?;
        }
        let drives = blocks.files.len() as u64;
        let (io, file) = &blocks.files[to_index(block % drives)];
        let byte_count = to_index(blocks.block_bytes);
        let fits = |buffer: &IoBuffer| buffer.len() == byte_count;
        let buffer = match self.spare.iter().rposition(fits) {
            Some(place) => self.spare.swap_remove(place),
            None => {
                let alignment = to_index(u64::from(io.buffer_alignment().max(512)));
                IoBuffer::with_alignment(byte_count, alignment)
            }
        };
        let operation = if is_write { Operation::Write } else { Operation::Read };
        let offset_bytes = block / drives * blocks.block_bytes;
        let ticket = io.submit_ahead(IoOwner::Operator, *file, operation, offset_bytes, buffer)?;
        self.flights.push_back((io.clone(), ticket));
        Ok(())
    }

    /// Asks for all blocks of `rows`, side by side, and waits for them.
    pub(super) fn flow(&mut self, rows: &mut [Row<'_>]) -> Result<(), StorageError> {
        loop {
            let next = rows.iter_mut().filter(|row| !row.is_done()).min_by(|left, right| {
                let ((left, of_left), (right, of_right)) = (left.due(), right.due());
                (left * of_right).cmp(&(right * of_left))
            });
            let Some(row) = next else { break };
            let block = match row.picked {
                Some(picked) => picked[to_index(row.done)],
                None => row.first + row.done,
            };
            let (at, is_write) = ((row.blocks, block), row.is_write);
            row.done += 1;
            self.ask(at, is_write)?;
        }
        self.finish()
    }

    /// Waits for all that is on its way.
    pub(super) fn finish(&mut self) -> Result<(), StorageError> {
        while !self.flights.is_empty() {
            self.take()?;
        }
        Ok(())
    }

    /// The present of drives that are on one clock.
    pub(super) fn now(ios: &[Io]) -> Nanos {
        ios.iter().map(Io::present).max().unwrap_or_default()
    }
}
