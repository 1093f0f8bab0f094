//! Reads ranges of a vector that somebody else names, one after the other, with the blocks of later
//! ranges in flight while the first are given. What asks in ascending order reads each block once.
//!
//! ```text
//!   ranges ──► pending: not given yet ──► blocks wanted, in order ──► in flight ──► block at hand
//!                  └──────────────── records of the first range ◄──────────────────────┘
//! ```
//!
//! 1. Each change of the block that a record lies in is one block that is read, and no other is.
//! 2. Blocks are wanted, asked for and given in one order.

use super::{Vector, record_at};
use crate::error::Failure;
use crate::store::{Buffers, Flight};
use crate::{ExternalError, Memory, Record, RecordStream};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::collections::VecDeque;
use std::ops::Range;

/// Ranges that are looked at ahead of the one that is given.
const RANGE_COUNT_MAX: usize = 256;
/// Bytes of memory beside blocks: ranges of records, and of the blocks in which they lie.
pub(crate) const LOOKAHEAD_BYTES: u64 = 2 * (RANGE_COUNT_MAX * size_of::<Range<u64>>()) as u64;

/// Reads ranges of a vector; used again and again.
#[derive(Debug)]
pub struct Gatherer<'v, R> {
    vector: &'v Vector<R>,
    flights: VecDeque<Flight>,
    at_hand: Option<IoBuffer>,
    /// The block at hand, and the last that was wanted; past all blocks for none.
    block: u64,
    last_wanted: u64,
    buffers: Buffers,
    pending: VecDeque<Range<u64>>,
    wanted: VecDeque<Range<u64>>,
    failure: Failure,
    _memory: Memory,
}

/// Records of the ranges that a stream names by their first record and how many there are.
#[derive(Debug)]
pub struct Gathered<'g, 'v, R, S> {
    gatherer: &'g mut Gatherer<'v, R>,
    ranges: S,
}

/// No block has this number.
const NO_BLOCK: u64 = u64::MAX;

impl<'v, R: Record> Gatherer<'v, R> {
    pub(super) fn new(vector: &'v Vector<R>) -> Result<Self, ExternalError> {
        let store = vector.store();
        let memory = store.grant().take("a gatherer", LOOKAHEAD_BYTES)?;
        let count = u64::from(store.settings().in_flight) + 1;
        let buffers = Buffers::new(store, "a gatherer", count)?;
        Ok(Self {
            vector,
            flights: VecDeque::with_capacity(to_index(count)),
            at_hand: None,
            block: NO_BLOCK,
            last_wanted: NO_BLOCK,
            buffers,
            pending: VecDeque::with_capacity(RANGE_COUNT_MAX),
            wanted: VecDeque::with_capacity(RANGE_COUNT_MAX),
            failure: Failure::default(),
            _memory: memory,
        })
    }

    /// The records of `ranges`, each named by its first record and how many there are.
    pub fn gather<S: RecordStream<Record = (u64, u64)>>(
        &mut self,
        ranges: S,
    ) -> Gathered<'_, 'v, R, S> {
        self.forget();
        Gathered { gatherer: self, ranges }
    }

    /// Gives up what an earlier stream asked for and did not take.
    fn forget(&mut self) {
        self.pending.clear();
        self.wanted.clear();
        while let Some(flight) = self.flights.pop_front() {
            if let Ok(buffer) = self.failure.note(flight.wait()) {
                self.buffers.give(buffer);
            }
        }
        self.last_wanted = self.block;
    }

    /// Notes a range. What is no range of the vector is a failure.
    fn want(&mut self, first: u64, count: u64) -> Result<(), ExternalError> {
        let end = first.saturating_add(count);
        if end > self.vector.len {
            return self.failure.note(Err(self.vector.out_of_range(end - 1)));
        }
        if count == 0 {
            return Ok(());
        }
        self.pending.push_back(first..end);
        let per_block = self.vector.per_block;
        let (first, end) = (first / per_block, end.div_ceil(per_block));
        let fresh = if first == self.last_wanted { first + 1 } else { first };
        self.last_wanted = end - 1;
        match self.wanted.back_mut().filter(|last| last.end == fresh) {
            Some(last) => last.end = end,
            None if fresh < end => self.wanted.push_back(fresh..end),
            None => {}
        }
        Ok(())
    }

    /// Asks for a block that is wanted; false if none is.
    fn ask(&mut self, buffer: IoBuffer) -> Result<bool, ExternalError> {
        let Some(first) = self.wanted.front_mut() else {
            self.buffers.give(buffer);
            return Ok(false);
        };
        let block = first.start;
        first.start += 1;
        if first.is_empty() {
            self.wanted.pop_front();
        }
        let flight = self.vector.store().read(self.vector.blocks.place(block), buffer);
        self.flights.push_back(self.failure.note(flight)?);
        Ok(true)
    }
}

impl<R: Record, S: RecordStream<Record = (u64, u64)>> Gathered<'_, '_, R, S> {
    /// Looks at more ranges, and asks for their blocks, as far as there are buffers.
    fn look_ahead(&mut self) -> Result<(), ExternalError> {
        let Self { gatherer, ranges } = self;
        gatherer.failure.check()?;
        while let Some(buffer) = gatherer.buffers.take_spare() {
            if gatherer.ask(buffer)? {
                continue;
            }
            if gatherer.pending.len() == RANGE_COUNT_MAX {
                break;
            }
            let Some((first, count)) = ranges.next_record()? else { break };
            gatherer.want(first, count)?;
        }
        Ok(())
    }

    /// Makes the block of the first pending range the one at hand.
    #[cold]
    fn advance(&mut self, block: u64) -> Result<(), ExternalError> {
        if let Some(buffer) = self.gatherer.at_hand.take() {
            self.gatherer.buffers.give(buffer);
            self.gatherer.block = NO_BLOCK;
        }
        self.look_ahead()?;
        let gatherer = &mut *self.gatherer;
        let flight = gatherer.flights.pop_front().expect("what is pending was asked for first");
        gatherer.at_hand = Some(gatherer.failure.note(flight.wait())?);
        gatherer.block = block;
        Ok(())
    }

    /// Looks for a range when none is pending; false at the end.
    #[cold]
    fn begin(&mut self) -> Result<bool, ExternalError> {
        self.gatherer.failure.check()?;
        // One alone: it may lie in the block at hand, and then nothing has to be read.
        while self.gatherer.pending.is_empty() {
            let Some((first, count)) = self.ranges.next_record()? else { return Ok(false) };
            self.gatherer.want(first, count)?;
        }
        Ok(true)
    }
}

impl<R: Record, S: RecordStream<Record = (u64, u64)>> RecordStream for Gathered<'_, '_, R, S> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        if self.gatherer.pending.is_empty() && !self.begin()? {
            return Ok(None);
        }
        let index = self.gatherer.pending[0].start;
        let per_block = self.gatherer.vector.per_block;
        let block = index / per_block;
        if self.gatherer.block != block {
            self.advance(block)?;
        }
        let gatherer = &mut *self.gatherer;
        let bytes = gatherer.at_hand.as_ref().expect("the block was read");
        let record = record_at(bytes, to_index(index % per_block));
        let first = &mut gatherer.pending[0];
        first.start += 1;
        if first.is_empty() {
            gatherer.pending.pop_front();
        }
        Ok(Some(record))
    }
}
