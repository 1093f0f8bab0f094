//! Writes a vector in order, blocks behind the one that is filled.

use super::Vector;
use crate::store::{Blocks, Buffers, WriteBehind, blank_behind};
use crate::{ExternalError, Memory, Record, Store};
use nandu_base::to_index;
use std::marker::PhantomData;

/// Appends records to a vector that is being made.
#[derive(Debug)]
pub struct VectorWriter<R> {
    // Before the blocks: what is in flight is waited for before they are given back.
    behind: WriteBehind,
    blocks: Blocks,
    /// Where the next record goes in the block at hand, and where the last one ends at most.
    at: usize,
    end: usize,
    per_block: u64,
    len: u64,
    record: PhantomData<R>,
}

impl<R: Record> VectorWriter<R> {
    pub(super) fn new(store: &Store, count: u64) -> Result<Self, ExternalError> {
        let in_flight = u64::from(store.settings().in_flight);
        let buffers = Buffers::new(store, "a writer", in_flight + 1)?;
        Self::with(buffers, count)
    }

    /// One whose buffers somebody took.
    pub(crate) fn with(buffers: Buffers, count: u64) -> Result<Self, ExternalError> {
        let per_block = buffers.store().per_block::<R>()?;
        let blocks = Blocks::new(buffers.store(), count.div_ceil(per_block));
        let end = to_index(per_block) * R::BYTES;
        let behind = WriteBehind::new(buffers);
        Ok(Self { behind, blocks, at: 0, end, per_block, len: 0, record: PhantomData })
    }

    /// Appends a record.
    ///
    /// # Errors
    /// If there is no room or the device fails, perhaps for a record appended earlier; from then on
    /// always.
    #[inline]
    pub fn push(&mut self, record: R) -> Result<(), ExternalError> {
        if self.at == self.end {
            self.write()?;
        }
        record.encode(&mut self.behind.block_mut()[self.at..self.at + R::BYTES]);
        self.at += R::BYTES;
        self.len += 1;
        Ok(())
    }

    /// How many records were appended.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether none was.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn write(&mut self) -> Result<(), ExternalError> {
        blank_behind(self.behind.block_mut(), self.at);
        let blocks = &mut self.blocks;
        self.behind.write(|| blocks.push_back())?;
        self.at = 0;
        Ok(())
    }

    /// Writes the rest and waits for all.
    ///
    /// # Errors
    /// As [`Self::push`]; the room is given back then.
    pub fn finish(self) -> Result<Vector<R>, ExternalError> {
        self.finish_with_memory().map(|(vector, _)| vector)
    }

    /// The same, and the memory.
    pub(crate) fn finish_with_memory(mut self) -> Result<(Vector<R>, Memory), ExternalError> {
        if self.at > 0 {
            self.write()?;
        }
        let memory = self.behind.finish()?.into_memory();
        self.blocks.finish();
        Ok((Vector::of(self.blocks, self.len, self.per_block), memory))
    }
}
