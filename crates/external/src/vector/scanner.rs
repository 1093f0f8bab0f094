//! Reads a vector in order, blocks ahead of the one at hand.

use super::{Vector, record_at};
use crate::store::{Blocks, Buffers, ReadAhead};
use crate::{ExternalError, Record, RecordStream};
use nandu_base::to_index;
use std::marker::PhantomData;
use std::ops::Range;

/// Records of a vector, one after the other.
#[derive(Debug)]
pub struct Scanner<'v, R> {
    ahead: ReadAhead,
    vector: &'v Vector<R>,
    /// The block that is asked for next, and the one after the last.
    next_block: u64,
    end_block: u64,
    cursor: Cursor<R>,
}

/// All records of a vector that goes while it is read.
#[derive(Debug)]
pub struct Drain<R> {
    // Before the blocks: what is in flight is waited for before they are given back.
    ahead: ReadAhead,
    blocks: Blocks,
    /// How many of the blocks that are there were asked for.
    asked: u64,
    cursor: Cursor<R>,
}

/// Where a stream stands.
#[derive(Debug)]
struct Cursor<R> {
    per_block: u64,
    /// Records that were not given yet.
    left: u64,
    /// The next record of the block at hand, and the one after the last.
    slot: usize,
    slot_end: usize,
    record: PhantomData<R>,
}

impl<R: Record> Cursor<R> {
    /// The next record of the block at hand.
    #[inline]
    fn next(&mut self, block: &[u8]) -> R {
        let record = record_at(block, self.slot);
        self.slot += 1;
        self.left -= 1;
        record
    }

    /// A new block is at hand.
    fn begin(&mut self, first_slot: usize) {
        self.slot = first_slot;
        let count = self.left.min(self.per_block - first_slot as u64);
        self.slot_end = first_slot + to_index(count);
    }
}

impl<'v, R: Record> Scanner<'v, R> {
    pub(super) fn new(
        vector: &'v Vector<R>,
        range: Range<u64>,
        ahead: u32,
    ) -> Result<Self, ExternalError> {
        let (next_block, end_block) = blocks_of(&range, vector.per_block);
        let count = (u64::from(ahead) + 1).min((end_block - next_block).max(1));
        let buffers = Buffers::new(vector.store(), "a scanner", count)?;
        Ok(Self::with(vector, range, buffers))
    }

    /// One whose buffers somebody took, of records that there are.
    pub(super) fn with(vector: &'v Vector<R>, range: Range<u64>, buffers: Buffers) -> Self {
        let per_block = vector.per_block;
        let left = range.end - range.start;
        let (next_block, end_block) = blocks_of(&range, per_block);
        // As if the block before had been read to where this one begins.
        let slot = to_index(range.start % per_block);
        let cursor = Cursor { per_block, left, slot, slot_end: slot, record: PhantomData };
        Self { ahead: ReadAhead::new(buffers), vector, next_block, end_block, cursor }
    }

    /// The buffers, at the end.
    pub(crate) fn into_buffers(self) -> Buffers {
        self.ahead.into_buffers()
    }

    #[cold]
    fn advance(&mut self) -> Result<(), ExternalError> {
        let Self { vector, next_block, end_block, .. } = self;
        let has_block = self.ahead.advance(|| {
            (*next_block < *end_block).then(|| {
                *next_block += 1;
                vector.blocks.place(*next_block - 1)
            })
        })?;
        assert!(has_block, "records that are left have a block");
        // The first block may begin within, later ones begin after a full one.
        self.cursor.begin(self.cursor.slot % to_index(self.cursor.per_block));
        Ok(())
    }
}

/// The first block in which these records lie, and the one behind the last.
const fn blocks_of(range: &Range<u64>, per_block: u64) -> (u64, u64) {
    if range.start == range.end {
        return (0, 0);
    }
    (range.start / per_block, range.end.div_ceil(per_block))
}

impl<R: Record> RecordStream for Scanner<'_, R> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        if self.cursor.slot == self.cursor.slot_end {
            if self.cursor.left == 0 {
                return Ok(None);
            }
            self.advance()?;
        }
        Ok(Some(self.cursor.next(self.ahead.block())))
    }

    fn left_count(&self) -> Option<u64> {
        Some(self.cursor.left)
    }
}

impl<R: Record> Drain<R> {
    pub(super) fn new(vector: Vector<R>) -> Result<Self, ExternalError> {
        let Vector { blocks, len, per_block, .. } = vector;
        let in_flight = u64::from(blocks.store().settings().in_flight);
        let count = (in_flight + 1).min(blocks.len().max(1));
        let buffers = Buffers::new(blocks.store(), "a scanner", count)?;
        let cursor = Cursor { per_block, left: len, slot: 0, slot_end: 0, record: PhantomData };
        Ok(Self { ahead: ReadAhead::new(buffers), blocks, asked: 0, cursor })
    }

    #[cold]
    fn advance(&mut self) -> Result<(), ExternalError> {
        self.ahead.check()?;
        let Self { blocks, asked, .. } = self;
        if self.cursor.slot_end > 0 {
            blocks.pop_front();
            *asked -= 1;
        }
        let has_block = self.ahead.advance(|| {
            (*asked < blocks.len()).then(|| {
                *asked += 1;
                blocks.place(*asked - 1)
            })
        })?;
        assert!(has_block, "records that are left have a block");
        self.cursor.begin(0);
        Ok(())
    }
}

impl<R: Record> RecordStream for Drain<R> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        if self.cursor.slot == self.cursor.slot_end {
            if self.cursor.left == 0 {
                return Ok(None);
            }
            self.advance()?;
        }
        Ok(Some(self.cursor.next(self.ahead.block())))
    }

    fn left_count(&self) -> Option<u64> {
        Some(self.cursor.left)
    }
}
