//! Reads ranges of a vector that somebody else names, one after the other, with the blocks of later
//! ranges in flight while the first are given. What asks in ascending order reads each block once.
//!
//! ```text
//!   ranges ──► pending: not given yet ──► blocks wanted, in order ──► in flight ──► block at hand
//!                  └──────────────── records of the first range ◄──────────────────────┘
//! ```
//!
//! 1. Each change of the block that a record lies in is one block that is read, and no other is;
//!    but one that was kept is not read again.
//! 2. Blocks are wanted, asked for and given in one order.
//! 3. What is kept are the blocks that were at hand last, as many as somebody asked for.

use super::{Vector, record_at};
use crate::error::Failure;
use crate::store::{Buffers, Flight};
use crate::{ExternalError, Memory, Record, RecordStream};
use nandu_base::{FixedHashMap, to_index};
use nandu_device::IoBuffer;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Ranges that are looked at ahead of the one that is given.
pub(crate) const RANGE_COUNT_MAX: usize = 256;
/// Bytes of memory beside blocks: ranges of records, and of the blocks in which they lie.
pub(crate) const LOOKAHEAD_BYTES: u64 = 2 * (RANGE_COUNT_MAX * size_of::<Range<u64>>()) as u64;
/// Memory of a kept block beside its buffer: its places in both maps.
pub(crate) const KEPT_BYTES: u64 = 128;

/// Reads ranges of a vector; used again and again.
#[derive(Debug)]
pub struct Gatherer<'v, R> {
    vector: &'v Vector<R>,
    /// Blocks that come next, no more than `coming_limit`.
    coming: VecDeque<Coming>,
    coming_limit: usize,
    kept: Kept,
    kept_limit: usize,
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

/// A block that comes.
#[derive(Debug)]
enum Coming {
    Flight(Flight),
    /// One that was kept: its number, and what is in it.
    Kept(u64, IoBuffer),
}

/// Blocks that were at hand.
#[derive(Debug, Default)]
struct Kept {
    /// By number, with when it was at hand.
    blocks: FixedHashMap<u64, (u64, IoBuffer)>,
    /// The numbers by when that was.
    order: BTreeMap<u64, u64>,
    time: u64,
}

impl Kept {
    fn put(&mut self, block: u64, buffer: IoBuffer) -> Option<IoBuffer> {
        self.time += 1;
        self.order.insert(self.time, block);
        let (time, earlier) = self.blocks.insert(block, (self.time, buffer))?;
        self.order.remove(&time);
        Some(earlier)
    }

    fn take(&mut self, block: u64) -> Option<IoBuffer> {
        let (time, buffer) = self.blocks.remove(&block)?;
        self.order.remove(&time);
        Some(buffer)
    }

    /// The buffer of the block that was not at hand for longest.
    fn evict(&mut self) -> Option<IoBuffer> {
        let (_, block) = self.order.pop_first()?;
        self.blocks.remove(&block).map(|(_, buffer)| buffer)
    }
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
    pub(super) fn new(vector: &'v Vector<R>, kept_count: u64) -> Result<Self, ExternalError> {
        let store = vector.store();
        let bytes = LOOKAHEAD_BYTES + kept_count * KEPT_BYTES;
        let memory = store.grant().take("a gatherer", bytes)?;
        let count = u64::from(store.settings().in_flight) + 1;
        let buffers = Buffers::new(store, "a gatherer", count + kept_count)?;
        let coming_limit = to_index(count);
        Ok(Self {
            vector,
            coming: VecDeque::with_capacity(coming_limit),
            coming_limit,
            kept: Kept::default(),
            kept_limit: to_index(kept_count),
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
        while let Some(coming) = self.coming.pop_front() {
            match coming {
                Coming::Kept(block, buffer) => self.keep(block, buffer),
                Coming::Flight(flight) => {
                    if let Ok(buffer) = self.failure.note(flight.wait()) {
                        self.buffers.give(buffer);
                    }
                }
            }
        }
        self.trim();
        self.last_wanted = self.block;
    }

    /// Keeps a block, if any are to be kept; until the next is at hand perhaps one too many.
    fn keep(&mut self, block: u64, buffer: IoBuffer) {
        let spare = if self.kept_limit > 0 { self.kept.put(block, buffer) } else { Some(buffer) };
        if let Some(buffer) = spare {
            self.buffers.give(buffer);
        }
    }

    /// Lets blocks go that are too many.
    fn trim(&mut self) {
        while self.kept.blocks.len() > self.kept_limit {
            let buffer = self.kept.evict().expect("what is kept has a time");
            self.buffers.give(buffer);
        }
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

    /// Asks for a block that is wanted, if it was not kept; false if none is.
    fn ask(&mut self) -> Result<bool, ExternalError> {
        let Some(first) = self.wanted.front_mut() else { return Ok(false) };
        let block = first.start;
        first.start += 1;
        if first.is_empty() {
            self.wanted.pop_front();
        }
        if let Some(buffer) = self.kept.take(block) {
            self.coming.push_back(Coming::Kept(block, buffer));
            return Ok(true);
        }
        let spare = self.buffers.take_spare().or_else(|| self.kept.evict());
        let buffer = spare.unwrap_or_else(|| self.buffers.take());
        let flight = self.vector.store().read(self.vector.blocks.place(block), buffer);
        self.coming.push_back(Coming::Flight(self.failure.note(flight)?));
        Ok(true)
    }
}

impl<R: Record, S: RecordStream<Record = (u64, u64)>> Gathered<'_, '_, R, S> {
    /// Looks at more ranges, and asks for their blocks, as far as there are buffers.
    fn look_ahead(&mut self) -> Result<(), ExternalError> {
        let Self { gatherer, ranges } = self;
        gatherer.failure.check()?;
        while gatherer.coming.len() < gatherer.coming_limit {
            if gatherer.ask()? {
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
            let last = std::mem::replace(&mut self.gatherer.block, NO_BLOCK);
            self.gatherer.keep(last, buffer);
        }
        self.look_ahead()?;
        let gatherer = &mut *self.gatherer;
        gatherer.trim();
        let coming = gatherer.coming.pop_front().expect("what is pending was asked for first");
        let buffer = match coming {
            Coming::Kept(_, buffer) => buffer,
            Coming::Flight(flight) => gatherer.failure.note(flight.wait())?,
        };
        gatherer.at_hand = Some(buffer);
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
