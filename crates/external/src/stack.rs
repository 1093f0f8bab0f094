//! A stack beyond memory: the last two blocks in memory, older ones written.
//!
//! ```text
//!   written [ ][ ][ ]   below [full]   top [ … ]◄── push, pop
//! ```
//!
//! 1. What is below is full, and there only while the top is; what was written is older than both.
//! 2. Between two requests lie as many pushes or pops as a block holds records: n of them need at
//!    most n / block requests, however they alternate.

use crate::error::Failure;
use crate::store::{Blocks, Buffers, Flight, blank_behind};
use crate::{ExternalError, Record, Store};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::marker::PhantomData;

/// Buffers of a stack: the top, the one below, and one on its way out.
const BUFFER_COUNT: u64 = 3;

/// Records of which the last one in comes out first.
#[derive(Debug)]
pub struct Stack<R> {
    // Before the blocks: what is in flight is waited for before they are given back.
    leaving: Option<Flight>,
    blocks: Blocks,
    top: Option<IoBuffer>,
    below: Option<IoBuffer>,
    buffers: Buffers,
    /// Records in the top.
    top_count: usize,
    per_block: usize,
    len: u64,
    failure: Failure,
    record: PhantomData<R>,
}

impl<R: Record> Stack<R> {
    /// An empty one.
    ///
    /// # Errors
    /// If a block holds no record, or there is no memory for three blocks.
    pub fn new(store: &Store) -> Result<Self, ExternalError> {
        let per_block = to_index(store.per_block::<R>()?);
        let mut buffers = Buffers::new(store, "a stack", BUFFER_COUNT)?;
        let top = Some(buffers.take());
        Ok(Self {
            leaving: None,
            blocks: Blocks::new(store, 0),
            top,
            below: None,
            buffers,
            top_count: 0,
            per_block,
            len: 0,
            failure: Failure::default(),
            record: PhantomData,
        })
    }

    /// How many records it has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a record on top.
    ///
    /// # Errors
    /// If there is no room or the device fails; then for good.
    #[inline]
    pub fn push(&mut self, record: R) -> Result<(), ExternalError> {
        if self.top_count == self.per_block {
            self.begin_block()?;
        }
        let at = self.top_count * R::BYTES;
        let top = self.top.as_mut().expect("a stack has a top");
        record.encode(&mut top[at..at + R::BYTES]);
        self.top_count += 1;
        self.len += 1;
        Ok(())
    }

    /// Takes the record on top; `None` if there is none.
    ///
    /// # Errors
    /// If the device fails; then for good.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<R>, ExternalError> {
        if self.top_count == 0 {
            self.failure.check()?;
            if self.len == 0 {
                return Ok(None);
            }
            self.end_block()?;
        }
        self.top_count -= 1;
        self.len -= 1;
        let at = self.top_count * R::BYTES;
        let top = self.top.as_ref().expect("a stack has a top");
        Ok(Some(R::decode(&top[at..at + R::BYTES])))
    }

    /// Puts the full top below and begins another one; what was below is written.
    #[cold]
    fn begin_block(&mut self) -> Result<(), ExternalError> {
        self.failure.check()?;
        self.settle()?;
        if let Some(mut below) = self.below.take() {
            blank_behind(&mut below, self.per_block * R::BYTES);
            let place = self.failure.note(self.blocks.push_back())?;
            let flight = self.blocks.store().write(place, below);
            self.leaving = Some(self.failure.note(flight)?);
        }
        self.below = self.top.replace(self.buffers.take());
        self.top_count = 0;
        Ok(())
    }

    /// Puts what is below in place of the empty top, or reads the last block that was written.
    #[cold]
    fn end_block(&mut self) -> Result<(), ExternalError> {
        if let Some(below) = self.below.take() {
            let empty = self.top.replace(below).expect("a stack has a top");
            self.buffers.give(empty);
        } else {
            self.settle()?;
            let last = self.blocks.len() - 1;
            let empty = self.top.take().unwrap_or_else(|| self.buffers.take());
            let flight = self.blocks.store().read(self.blocks.place(last), empty);
            let block = self.failure.note(flight.and_then(Flight::wait))?;
            self.top = Some(block);
            self.blocks.pop_back();
        }
        self.top_count = self.per_block;
        Ok(())
    }

    fn settle(&mut self) -> Result<(), ExternalError> {
        if let Some(flight) = self.leaving.take() {
            let buffer = self.failure.note(flight.wait())?;
            self.buffers.give(buffer);
        }
        Ok(())
    }

    /// Asserts invariant 1.
    ///
    /// # Panics
    /// If it does not hold.
    pub fn audit(&self) {
        self.blocks.audit();
        let whole = self.blocks.len() + u64::from(self.below.is_some());
        let count = whole * self.per_block as u64 + self.top_count as u64;
        assert_eq!(count, self.len, "invariant 1");
        assert!(self.top_count <= self.per_block, "invariant 1");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GRANT_BYTES, store};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_stack_is_a_vector_that_grows_and_shrinks_at_its_end(
            volumes in 1_usize..3,
            steps in proptest::collection::vec((any::<bool>(), 0_usize..200), 0..40),
        ) {
            let store = store(512, volumes, 2);
            let mut stack = Stack::new(&store).unwrap();
            let mut model = Vec::new();
            let mut step_count = 0;
            for (is_push, count) in steps {
                for _ in 0..count {
                    if is_push {
                        stack.push((step_count, 7_u8)).unwrap();
                        model.push((step_count, 7_u8));
                    } else {
                        prop_assert_eq!(stack.pop(), Ok(model.pop()));
                    }
                    step_count += 1;
                }
                stack.audit();
                prop_assert_eq!(stack.len(), model.len() as u64);
            }
            // 504 bytes hold 56 records of 9 bytes.
            let counts = store.counts();
            prop_assert!(counts.read_blocks + counts.write_blocks <= step_count / 56);
            prop_assert!(counts.read_blocks <= counts.write_blocks);
            drop(stack);
            prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        }
    }

    #[test]
    fn all_in_and_all_out_moves_all_but_two_blocks() {
        let store = store(512, 1, 0);
        let mut stack = Stack::new(&store).unwrap();
        (0..63_000_u64).for_each(|n| stack.push(n).unwrap());
        assert_eq!(store.counts().write_blocks, 998);
        (0..63_000).rev().for_each(|n| assert_eq!(stack.pop(), Ok(Some(n))));
        assert_eq!((stack.pop(), stack.is_empty()), (Ok(None), true));
        assert_eq!(store.counts().read_blocks, 998);
        assert_eq!(store.used_blocks(), 0);
    }
}
