//! Reads a vector anywhere through the one block that was read last: what asks in order reads each
//! block once.

use super::{Vector, record_at};
use crate::error::Failure;
use crate::store::{Buffers, Flight};
use crate::{ExternalError, Record};
use nandu_base::to_index;
use nandu_device::IoBuffer;

/// A vector that is read anywhere, a block at a time.
#[derive(Debug)]
pub struct VectorReader<'v, R> {
    vector: &'v Vector<R>,
    block: Option<(u64, IoBuffer)>,
    buffers: Buffers,
    failure: Failure,
}

impl<'v, R: Record> VectorReader<'v, R> {
    pub(super) fn new(vector: &'v Vector<R>) -> Result<Self, ExternalError> {
        let buffers = Buffers::new(vector.store(), "a reader", 1)?;
        Ok(Self { vector, block: None, buffers, failure: Failure::default() })
    }

    /// The record `index`.
    ///
    /// # Errors
    /// If there is none, or the device fails; then for good.
    #[inline]
    pub fn get(&mut self, index: u64) -> Result<R, ExternalError> {
        if index >= self.vector.len {
            return Err(self.vector.out_of_range(index));
        }
        let block = index / self.vector.per_block;
        if self.block.as_ref().is_none_or(|(at_hand, _)| *at_hand != block) {
            self.load(block)?;
        }
        let (_, bytes) = self.block.as_ref().expect("the block was read");
        Ok(record_at(bytes, to_index(index % self.vector.per_block)))
    }

    #[cold]
    fn load(&mut self, block: u64) -> Result<(), ExternalError> {
        self.failure.check()?;
        let buffer = match self.block.take() {
            Some((_, buffer)) => buffer,
            None => self.buffers.take(),
        };
        let flight = self.vector.store().read(self.vector.blocks.place(block), buffer);
        let buffer = self.failure.note(flight.and_then(Flight::wait))?;
        self.block = Some((block, buffer));
        Ok(())
    }
}
