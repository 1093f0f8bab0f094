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
//! | with M memory of b blocks, w = min(in flight, b / 5) | below 64 blocks | from 64 on |
//! | --- | --- | --- |
//! | pieces p, and blocks m of memory by which threads merge | 1, 0 | 3, 8 or 0 |
//! | records of a run | (M - (1 + w) blocks) / bytes of a record in memory / p | the same |
//! | runs of a merge in between, and of the last | b - 1 - 2w - m, b - w - m | the same |
//!
//! m is 8 where a merge of b - w - 8 runs is cut into parts: where a third of a block has 16 records for
//! each run and 16 more. A merge of fewer runs is cut into parts, too, where that leaves it eight blocks.
//!
//! With p = 3 a third of the memory is filled while one is sorted and one is written; runs are
//! shorter, of which there is room for many then.
//!
//! 1. What comes out is what went in, in order; equal records are not told apart.
//! 2. A merge in between takes the smallest runs, and as few as make the later ones full.
//! 3. Where all fits into the p pieces of memory nothing is written.

mod alike;
pub mod bytes;
mod crew;
mod division;
mod in_memory;
mod kept;
mod merge;
mod parts;
mod pieces;
mod plan;
mod runs;
mod sorted;
mod write_limited;

pub use plan::MergePlan;
pub use sorted::SortedStream;
pub use write_limited::{LimitedStream, MovedBlocks, SortKind};

use crate::error::Failure;
use crate::store::Buffers;
use crate::{ExternalError, Memory, Order, Record, RecordStream, Store, Vector, VectorWriter};
pub(crate) use division::{Division, RecordSize};
pub(crate) use in_memory::sort_in_memory;
use merge::Merging;
use nandu_base::to_index;
use pieces::{Outgoing, Piece, PieceMerge};
use sorted::Source;
use std::collections::VecDeque;

/// Takes records in any order.
#[derive(Debug)]
pub struct Sorter<R, O> {
    store: Store,
    order: O,
    division: Division,
    /// The piece that is filled, and at how many records there is something to do: 0 before the
    /// first.
    records: Vec<R>,
    mark: usize,
    /// Full pieces, the oldest first.
    pieces: VecDeque<Piece<R>>,
    outgoing: Option<Outgoing<R>>,
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
        let division = Division::new::<R>(store, memory.bytes())?;
        Ok(Self::with_division(store.clone(), order, division, memory))
    }

    /// An empty one.
    fn with_division(store: Store, order: O, division: Division, memory: Memory) -> Self {
        Self {
            store,
            order,
            division,
            records: Vec::new(),
            mark: 0,
            pieces: VecDeque::new(),
            outgoing: None,
            runs: Vec::new(),
            memory,
            len: 0,
            failure: Failure::default(),
        }
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

    /// How many runs were written so far, or are being written.
    #[must_use]
    pub fn run_count(&self) -> usize {
        self.runs.len() + usize::from(self.outgoing.is_some())
    }

    /// Puts a record in.
    ///
    /// # Errors
    /// If there is no room, or the device fails; then for good.
    #[inline]
    pub fn push(&mut self, record: R) -> Result<(), ExternalError> {
        if self.records.len() == self.mark {
            self.make_room()?;
        }
        self.records.push(record);
        self.len += 1;
        Ok(())
    }

    /// Puts many records in.
    ///
    /// # Errors
    /// As [`Self::push`].
    pub fn push_slice(&mut self, mut records: &[R]) -> Result<(), ExternalError> {
        while !records.is_empty() {
            if self.records.len() == self.mark {
                self.make_room()?;
            }
            let count = records.len().min(self.mark - self.records.len());
            let (first, rest) = records.split_at(count);
            self.records.extend_from_slice(first);
            self.len += count as u64;
            records = rest;
        }
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

    /// Takes memory, hands a full piece on, or writes some of the piece that is on its way out.
    #[cold]
    fn make_room(&mut self) -> Result<(), ExternalError> {
        self.failure.check()?;
        let made = self.try_make_room();
        if made.is_err() {
            // Each further record comes here again.
            self.records = Vec::new();
            self.mark = 0;
        }
        self.failure.note(made)
    }

    fn try_make_room(&mut self) -> Result<(), ExternalError> {
        let limit = to_index(self.division.run_records);
        let per_block = to_index(self.division.per_block);
        if self.mark == 0 {
            self.records = self.new_piece()?;
        } else if self.records.len() == limit {
            self.turn()?;
        } else if let Some(outgoing) = &mut self.outgoing {
            outgoing.write(per_block)?;
        }
        // A block goes out for somewhat less than a block that comes in, so that the last ones
        // have landed when their buffers are wanted again.
        let step = (per_block - per_block / 16).max(1);
        self.mark = match self.outgoing {
            Some(_) => limit.min(self.records.len() + step),
            None => limit,
        };
        Ok(())
    }

    fn new_piece(&self) -> Result<Vec<R>, ExternalError> {
        // The system gives pages of it as they are touched: few records take little.
        let limit = to_index(self.division.run_records);
        let mut records = Vec::new();
        records.try_reserve_exact(limit).map_err(|error| {
            let what = format!("no memory for {limit} records to sort: {error}; grant less");
            ExternalError::Invalid { what }
        })?;
        Ok(records)
    }

    /// The piece that is filled is full: another one takes its place.
    fn turn(&mut self) -> Result<(), ExternalError> {
        self.sort_filled();
        let is_first_round = self.outgoing.is_none();
        if is_first_round && (self.pieces.len() as u64) < self.division.piece_count {
            self.records = self.new_piece()?;
            return Ok(());
        }
        let outgoing = match self.outgoing.take() {
            Some(outgoing) => outgoing,
            None => self.begin_run()?.expect("a piece is full"),
        };
        self.records = self.end_run(outgoing)?;
        self.outgoing = self.begin_run()?;
        Ok(())
    }

    /// Has the piece that was filled be sorted.
    fn sort_filled(&mut self) {
        let filled = std::mem::take(&mut self.records);
        let piece = match self.division.piece_count {
            1 => Piece::sorted(filled, &self.order, self.store.stop_flag()),
            _ => Piece::sorted_by_thread(filled, &self.order, self.store.stop_flag()),
        };
        self.pieces.push_back(piece);
    }

    /// Begins to write the oldest of the full pieces.
    fn begin_run(&mut self) -> Result<Option<Outgoing<R>>, ExternalError> {
        let Some(piece) = self.pieces.pop_front() else { return Ok(None) };
        let bytes = self.division.write_blocks * self.store.block_bytes();
        let buffers = Buffers::of(&self.store, self.memory.split_off(bytes));
        Outgoing::new(piece.into_records(), buffers).map(Some)
    }

    /// Writes the rest of a run, and gives the memory of its records.
    fn end_run(&mut self, outgoing: Outgoing<R>) -> Result<Vec<R>, ExternalError> {
        let (run, memory, records) = outgoing.finish()?;
        self.memory.join(memory);
        self.runs.push(run);
        Ok(records)
    }

    /// All records in order.
    ///
    /// # Errors
    /// If there is no room, or the device fails.
    pub fn finish(self) -> Result<SortedStream<R, O>, ExternalError> {
        self.finish_watched(|_| Ok(()))
    }

    /// Writes what is left in memory as runs.
    fn end_runs(&mut self) -> Result<(), ExternalError> {
        if !self.records.is_empty() {
            self.sort_filled();
        }
        // Blocks of runs take the place of pieces.
        self.records = Vec::new();
        if let Some(outgoing) = self.outgoing.take() {
            self.end_run(outgoing)?;
        }
        while let Some(outgoing) = self.begin_run()? {
            self.end_run(outgoing)?;
        }
        Ok(())
    }

    /// Merges runs, which the last merge takes.
    fn merge_last(self) -> Result<SortedStream<R, O>, ExternalError> {
        let Self { store, order, division, runs, memory, .. } = self;
        let merge = Merging::new(runs, order.clone(), memory, &division)?;
        Ok(SortedStream::new(Source::Merge(merge), store, order, division))
    }

    /// The same where nothing was written.
    fn finish_in_memory(self) -> Result<SortedStream<R, O>, ExternalError> {
        let Self { store, order, division, mut records, mark, pieces, memory, .. } = self;
        sort_in_memory(&mut records, &order, store.stop_flag());
        let source = if pieces.is_empty() {
            Source::Memory { records, next: 0, mark, memory }
        } else {
            let mut pieces: Vec<Vec<R>> = pieces.into_iter().map(Piece::into_records).collect();
            pieces.push(records);
            Source::Pieces(PieceMerge::new(pieces, order.clone(), memory))
        };
        store.check_stop()?;
        Ok(SortedStream::new(source, store, order, division))
    }

    /// Merges so many of the smallest runs.
    fn merge_smallest(&mut self, count: u64) -> Result<(), ExternalError> {
        let write_blocks = self.division.write_blocks;
        self.runs.sort_by_key(Vector::len);
        let smallest: Vec<Vector<R>> = self.runs.drain(..to_index(count)).collect();
        let record_count = smallest.iter().map(Vector::len).sum();
        let bytes = write_blocks * self.store.block_bytes();
        let buffers = Buffers::of(&self.store, self.memory.split_off(bytes));
        let rest = self.memory.bytes();
        let memory = self.memory.split_off(rest);
        let mut merge = Merging::new(smallest, self.order.clone(), memory, &self.division)?;
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
        let full: usize = self.pieces.iter().map(Piece::len).sum();
        let going = self.outgoing.as_ref().map_or(0, Outgoing::len);
        let in_memory = (full + going + self.records.len()) as u64;
        assert_eq!(in_runs + in_memory, self.len, "invariant 1");
        assert!(self.records.len() as u64 <= self.division.run_records, "memory");
        let pieces = self.pieces.len() as u64 + u64::from(self.outgoing.is_some());
        assert!(pieces < self.division.piece_count, "memory");
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
