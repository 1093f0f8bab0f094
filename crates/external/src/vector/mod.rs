//! A vector of records beyond memory: written and scanned in order by streams, read and changed
//! anywhere through a few blocks in memory.
//!
//! ```text
//!   writer ──► blocks 0 1 2 3 … ──► scanner (reads ahead)
//!                    ▲ │
//!                    │ ▼
//!              frames of a PagedVector: get, set
//! ```
//!
//! 1. Block i holds the records from i * n on, n of them, the last block the rest.

mod gather;
mod paged;
mod scanner;
mod writer;

pub use gather::{Gathered, Gatherer};
pub(crate) use gather::{KEPT_BYTES, LOOKAHEAD_BYTES, RANGE_COUNT_MAX};
pub use paged::PagedVector;
pub use scanner::{Drain, Scanner};
pub use writer::VectorWriter;

use crate::store::{Blocks, Buffers, KeptVector, Place, misfit};
use crate::{ExternalError, Record, Store};
use std::marker::PhantomData;
use std::ops::Range;

/// Records beyond memory.
#[derive(Debug)]
pub struct Vector<R> {
    blocks: Blocks,
    len: u64,
    per_block: u64,
    record: PhantomData<R>,
}

impl<R: Record> Vector<R> {
    /// A vector that is written from its first record on.
    ///
    /// # Errors
    /// If a block holds no record, or there is no memory for the blocks in flight.
    pub fn writer(store: &Store) -> Result<VectorWriter<R>, ExternalError> {
        VectorWriter::new(store, 0)
    }

    /// The same for one that will have `count` records, which then lie in as few pieces as may be.
    ///
    /// # Errors
    /// As [`Self::writer`].
    pub fn writer_of(store: &Store, count: u64) -> Result<VectorWriter<R>, ExternalError> {
        VectorWriter::new(store, count)
    }

    /// `count` times the same record.
    ///
    /// # Errors
    /// As [`VectorWriter::push`].
    pub fn filled(store: &Store, count: u64, record: R) -> Result<Self, ExternalError> {
        let mut writer = Self::writer_of(store, count)?;
        for _ in 0..count {
            writer.push(record)?;
        }
        writer.finish()
    }

    /// Where it lies, for [`Self::resume`] in a store that is kept.
    #[must_use]
    pub fn kept(&self) -> KeptVector {
        let (record_bytes, extents) = (R::BYTES as u64, self.blocks.extents());
        KeptVector { len: self.len, record_bytes, extents }
    }

    /// A vector that was kept, once, in a store that was resumed with it. Its first and its last
    /// block are read; the others are checked when they are.
    ///
    /// # Errors
    /// If its records are others, or its blocks are not what was written.
    pub fn resume(store: &Store, kept: &KeptVector) -> Result<Self, ExternalError> {
        let per_block = store.per_block::<R>()?;
        if kept.record_bytes != R::BYTES as u64 {
            return Err(misfit("it has records of another size"));
        }
        let count = kept.len.div_ceil(per_block);
        let blocks = Blocks::kept(store, &kept.extents, count)
            .ok_or_else(|| misfit("a vector is longer or shorter than its blocks"))?;
        let ends = [0, count.saturating_sub(1)].into_iter().filter(|&block| block < count);
        store.check_blocks(ends.map(|block| blocks.place(block)))?;
        Ok(Self::of(blocks, kept.len, per_block))
    }

    fn of(blocks: Blocks, len: u64, per_block: u64) -> Self {
        Self { blocks, len, per_block, record: PhantomData }
    }

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many blocks they take.
    #[must_use]
    pub const fn block_count(&self) -> u64 {
        self.blocks.len()
    }

    /// The store in which they lie.
    #[must_use]
    pub const fn store(&self) -> &Store {
        self.blocks.store()
    }

    /// All records in order, as many blocks ahead as the store's settings say.
    ///
    /// # Errors
    /// If there is no memory for the blocks in flight.
    pub fn scanner(&self) -> Result<Scanner<'_, R>, ExternalError> {
        self.scanner_of(0..self.len, self.store().settings().in_flight)
    }

    /// The records `range`, with `ahead` blocks in flight beside the one at hand.
    ///
    /// # Errors
    /// If there are not so many records, or no memory.
    pub fn scanner_of(
        &self,
        range: Range<u64>,
        ahead: u32,
    ) -> Result<Scanner<'_, R>, ExternalError> {
        if range.start > range.end || range.end > self.len {
            return Err(self.out_of_range(range.end.max(range.start)));
        }
        Scanner::new(self, range, ahead)
    }

    /// The same through buffers that somebody took; there are such records.
    pub(crate) fn scanner_with(&self, range: Range<u64>, buffers: Buffers) -> Scanner<'_, R> {
        Scanner::with(self, range, buffers)
    }

    /// Reads ranges that a stream names, as many blocks ahead as the store's settings say.
    ///
    /// # Errors
    /// If there is no memory for the blocks in flight and the ranges ahead.
    pub fn gatherer(&self) -> Result<Gatherer<'_, R>, ExternalError> {
        Gatherer::new(self, 0)
    }

    /// The same, which keeps up to `kept_count` of the blocks that it read beside those that
    /// [`Self::gatherer`] has, and does not read them again.
    ///
    /// # Errors
    /// As [`Self::gatherer`].
    pub fn keeping_gatherer(&self, kept_count: u64) -> Result<Gatherer<'_, R>, ExternalError> {
        Gatherer::new(self, kept_count)
    }

    /// All records in order; the room of those that were read is given back.
    ///
    /// # Errors
    /// If there is no memory for the blocks in flight.
    pub fn into_stream(self) -> Result<Drain<R>, ExternalError> {
        Drain::new(self)
    }

    /// Reads and changes records anywhere, through `frames` blocks in memory.
    ///
    /// # Errors
    /// If there is no memory for them and for one that is on its way out, or no frame.
    pub fn paged(self, frames: u32) -> Result<PagedVector<R>, ExternalError> {
        PagedVector::new(self, frames)
    }

    /// Where a block of it lies.
    pub(crate) fn place(&self, block: u64) -> Place {
        self.blocks.place(block)
    }

    /// Its blocks, and how many records they hold.
    pub(crate) fn into_parts(self) -> (Blocks, u64) {
        (self.blocks, self.len)
    }

    fn out_of_range(&self, index: u64) -> ExternalError {
        ExternalError::OutOfRange { what: "a vector".to_owned(), index, count: self.len }
    }

    /// Which blocks of the store it has, first to last.
    #[cfg(test)]
    pub(crate) fn block_numbers(&self) -> impl Iterator<Item = u64> {
        (0..self.blocks.len()).map(|index| self.blocks.place(index).block)
    }

    /// Asserts invariant 1, and that its blocks are in order.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.blocks.audit();
        assert_eq!(self.blocks.len(), self.len.div_ceil(self.per_block), "invariant 1");
    }
}

/// A record of a block.
#[inline]
pub(crate) fn record_at<R: Record>(block: &[u8], slot: usize) -> R {
    R::decode(&block[slot * R::BYTES..(slot + 1) * R::BYTES])
}

#[cfg(test)]
mod tests;
