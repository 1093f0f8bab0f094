//! External merge sort of records (Knuth, volume 3, 5.4): a sink, then a stream, so that neither
//! what is sorted nor the result has to be a vector.
//!
//! ```text
//!   push ──► memory full: sort, write a run ──► … finish ──► merges in between, if runs are many
//!                                                   │                          │
//!                                     all in memory ▼                          ▼
//!                                             SortedStream ◄──────── last merge, one block a run
//! ```
//!
//! | with M memory of b blocks, w = min(in flight, b / 5) | |
//! | --- | --- |
//! | records of a run | (M - (1 + w) blocks) / bytes of a record in memory |
//! | runs of a merge in between, and of the last | b - 1 - 2w, b - w |
//!
//! 1. What comes out is what went in, in order; equal records are not told apart.
//! 2. A merge in between takes the smallest runs, and as few as make the later ones full.
//! 3. Where all fits into a run's memory nothing is written.

mod merge;
mod sorted;

pub use sorted::SortedStream;

use crate::error::Failure;
use crate::store::Buffers;
use crate::{ExternalError, Memory, Order, Record, RecordStream, Store, Vector, VectorWriter};
use merge::Merge;
use nandu_base::to_index;
use sorted::Source;

/// Fewest blocks of memory with which records are sorted: two to be merged, one to be written.
const BLOCK_COUNT_MIN: u64 = 3;

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Division {
    /// Records of a run.
    run_records: u64,
    /// Blocks by which a run is written.
    write_blocks: u64,
    /// Blocks that a merge reads ahead.
    ahead_blocks: u64,
    /// Runs of a merge in between, and of the last one.
    fan_in: u64,
    last_fan_in: u64,
}

impl Division {
    fn new<R: Record>(store: &Store, memory: &Memory) -> Result<Self, ExternalError> {
        store.per_block::<R>()?;
        let blocks = memory.bytes() / store.block_bytes();
        let ahead_blocks = u64::from(store.settings().in_flight).min(blocks / 5);
        let write_blocks = 1 + ahead_blocks;
        let record_bytes = size_of::<R>().max(1) as u64;
        let room = memory.bytes().saturating_sub(write_blocks * store.block_bytes());
        let run_records = room / record_bytes;
        if blocks < BLOCK_COUNT_MIN || run_records == 0 {
            return Err(ExternalError::TooLittleMemory {
                operator: "a sort".to_owned(),
                needed_bytes: BLOCK_COUNT_MIN * store.block_bytes() + record_bytes,
                granted_bytes: memory.bytes(),
            });
        }
        let fan_in = blocks - ahead_blocks - write_blocks;
        Ok(Self {
            run_records,
            write_blocks,
            ahead_blocks,
            fan_in,
            last_fan_in: blocks - ahead_blocks,
        })
    }
}

/// Takes records in any order.
#[derive(Debug)]
pub struct Sorter<R, O> {
    store: Store,
    order: O,
    division: Division,
    /// Records of the run that is being made, and how many there is memory for, 0 before the first.
    records: Vec<R>,
    limit: usize,
    runs: Vec<Vector<R>>,
    /// All of it; parts are split off for blocks.
    memory: Memory,
    len: u64,
    failure: Failure,
}

impl<R: Record, O: Order<R>> Sorter<R, O> {
    /// A sorter by `order`, within `memory`.
    ///
    /// # Errors
    /// If a block holds no record, or memory is less than three blocks and a record.
    pub fn new(store: &Store, order: O, memory: Memory) -> Result<Self, ExternalError> {
        let division = Division::new::<R>(store, &memory)?;
        Ok(Self {
            store: store.clone(),
            order,
            division,
            records: Vec::new(),
            limit: 0,
            runs: Vec::new(),
            memory,
            len: 0,
            failure: Failure::default(),
        })
    }

    /// The same with `bytes` of the store's grant.
    ///
    /// # Errors
    /// If there is not so much, and as [`Self::new`].
    pub fn with_bytes(store: &Store, order: O, bytes: u64) -> Result<Self, ExternalError> {
        let memory = store.grant().take("a sort", bytes)?;
        Self::new(store, order, memory)
    }

    /// How many records were put in.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether none was.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many runs were written so far.
    #[must_use]
    pub const fn run_count(&self) -> usize {
        self.runs.len()
    }

    /// Puts a record in.
    ///
    /// # Errors
    /// If there is no room, or the device fails; then for good.
    #[inline]
    pub fn push(&mut self, record: R) -> Result<(), ExternalError> {
        if self.records.len() == self.limit {
            self.make_room()?;
        }
        self.records.push(record);
        self.len += 1;
        Ok(())
    }

    /// Puts all records of a stream in.
    ///
    /// # Errors
    /// As [`Self::push`], and as the stream.
    pub fn push_all<S: RecordStream<Record = R>>(
        &mut self,
        mut stream: S,
    ) -> Result<(), ExternalError> {
        while let Some(record) = stream.next_record()? {
            self.push(record)?;
        }
        Ok(())
    }

    /// Takes the memory of a run, or writes the run that fills it.
    #[cold]
    fn make_room(&mut self) -> Result<(), ExternalError> {
        self.failure.check()?;
        if self.limit == 0 {
            // The system gives pages of it as they are touched: few records take little.
            let limit = to_index(self.division.run_records);
            self.records.try_reserve_exact(limit).map_err(|error| {
                let what = format!("no memory for {limit} records to sort: {error}; grant less");
                ExternalError::Invalid { what }
            })?;
            self.limit = limit;
            return Ok(());
        }
        let written = self.write_run();
        self.failure.note(written)
    }

    fn write_run(&mut self) -> Result<(), ExternalError> {
        let order = &self.order;
        self.records.sort_unstable_by(|left, right| order.compare_by_prefix(left, right));
        let bytes = self.division.write_blocks * self.store.block_bytes();
        let buffers = Buffers::of(&self.store, self.memory.split_off(bytes));
        let mut writer = VectorWriter::with(buffers, self.records.len() as u64)?;
        for &record in &self.records {
            writer.push(record)?;
        }
        let (run, memory) = writer.finish_with_memory()?;
        self.memory.join(memory);
        self.runs.push(run);
        self.records.clear();
        Ok(())
    }

    /// All records in order.
    ///
    /// # Errors
    /// If there is no room, or the device fails.
    pub fn finish(mut self) -> Result<SortedStream<R, O>, ExternalError> {
        self.failure.check()?;
        if self.runs.is_empty() {
            let Self { store, order, division, mut records, limit, memory, .. } = self;
            records.sort_unstable_by(|left, right| order.compare_by_prefix(left, right));
            let source = Source::Memory { records, next: 0, limit, memory };
            return Ok(SortedStream::new(source, store, order, division));
        }
        if !self.records.is_empty() {
            self.write_run()?;
        }
        // Blocks of runs take their place.
        self.records = Vec::new();
        while self.runs.len() as u64 > self.division.last_fan_in {
            self.merge_some()?;
        }
        let Self { store, order, division, runs, memory, .. } = self;
        let merge = Merge::new(runs, order.clone(), memory, division.ahead_blocks)?;
        Ok(SortedStream::new(Source::Merge(merge), store, order, division))
    }

    /// Merges as many of the smallest runs as make later merges full.
    fn merge_some(&mut self) -> Result<(), ExternalError> {
        let Division { fan_in, last_fan_in, write_blocks, ahead_blocks, .. } = self.division;
        // Each merge of k runs leaves k - 1 fewer.
        let surplus = self.runs.len() as u64 - last_fan_in;
        let count = match surplus % (fan_in - 1) {
            0 => fan_in,
            rest => rest + 1,
        };
        self.runs.sort_by_key(Vector::len);
        let smallest: Vec<Vector<R>> = self.runs.drain(..to_index(count)).collect();
        let record_count = smallest.iter().map(Vector::len).sum();
        let bytes = write_blocks * self.store.block_bytes();
        let buffers = Buffers::of(&self.store, self.memory.split_off(bytes));
        let rest = self.memory.bytes();
        let memory = self.memory.split_off(rest);
        let mut merge = Merge::new(smallest, self.order.clone(), memory, ahead_blocks)?;
        let mut writer = VectorWriter::with(buffers, record_count)?;
        while let Some(record) = merge.next()? {
            writer.push(record)?;
        }
        let (run, memory) = writer.finish_with_memory()?;
        self.memory.join(memory);
        self.memory.join(merge.into_memory());
        self.runs.push(run);
        Ok(())
    }

    /// Asserts that runs and records add up to what was put in.
    ///
    /// # Panics
    /// If they do not.
    pub fn audit(&self) {
        let in_runs: u64 = self.runs.iter().map(Vector::len).sum();
        assert_eq!(in_runs + self.records.len() as u64, self.len, "invariant 1");
        assert!(self.records.len() as u64 <= self.division.run_records, "memory");
        self.runs.iter().for_each(Vector::audit);
    }
}

/// Sorts a vector within `bytes` of memory; its room is given back while it is read.
///
/// # Errors
/// If there is not so much memory, no room, or the device fails.
pub fn sort<R: Record, O: Order<R>>(
    vector: Vector<R>,
    order: O,
    bytes: u64,
) -> Result<SortedStream<R, O>, ExternalError> {
    let store = vector.store().clone();
    let mut sorter = Sorter::with_bytes(&store, order, bytes)?;
    sorter.push_all(vector.into_stream()?)?;
    sorter.finish()
}

#[cfg(test)]
mod tests;
