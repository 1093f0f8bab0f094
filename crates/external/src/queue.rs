//! A queue beyond memory: the first and the last block in memory, those between them written, and
//! read again ahead of who takes them.
//!
//! ```text
//!   pop ◄── [head]   in flight [ ][ ]   written [ ][ ][ ]   in flight [ ]   [tail] ◄── push
//! ```
//!
//! 1. Records of the head are older than those that were written, these older than those of the
//!    tail.
//! 2. A block is read at most once, after its write is over, and only if the tail had to be
//!    written: a queue of less than two blocks moves none.

use crate::error::Failure;
use crate::store::{Blocks, Buffers, Flight, blank_behind};
use crate::{ExternalError, Record, Store};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::collections::VecDeque;
use std::marker::PhantomData;

/// Records of which the first one in comes out first.
#[derive(Debug)]
pub struct Queue<R> {
    // Before the blocks: what is in flight is waited for before they are given back.
    reads: VecDeque<Flight>,
    writes: VecDeque<Flight>,
    /// What was written and is not the head yet, blocks in flight to either side included.
    blocks: Blocks,
    head: Option<IoBuffer>,
    tail: Option<IoBuffer>,
    /// For reads, and for writes: neither takes all from the other.
    read_buffers: Buffers,
    write_buffers: Buffers,
    /// The next record of the head, and the one after its last.
    head_slot: usize,
    head_end: usize,
    tail_count: usize,
    per_block: usize,
    len: u64,
    failure: Failure,
    record: PhantomData<R>,
}

impl<R: Record> Queue<R> {
    /// An empty one, with as many requests in flight to either side as the store's settings say.
    ///
    /// # Errors
    /// If a block holds no record, or there is no memory for the blocks in flight, the head and the
    /// tail.
    pub fn new(store: &Store) -> Result<Self, ExternalError> {
        let per_block = to_index(store.per_block::<R>()?);
        // One at least: what leaves does so while the next tail is filled.
        let in_flight = u64::from(store.settings().in_flight).max(1);
        let read_buffers = Buffers::new(store, "a queue", in_flight)?;
        let mut write_buffers = Buffers::new(store, "a queue", in_flight + 2)?;
        Ok(Self {
            reads: VecDeque::with_capacity(to_index(in_flight)),
            writes: VecDeque::with_capacity(to_index(in_flight)),
            blocks: Blocks::new(store, 0),
            head: Some(write_buffers.take()),
            tail: Some(write_buffers.take()),
            read_buffers,
            write_buffers,
            head_slot: 0,
            head_end: 0,
            tail_count: 0,
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

    /// Appends a record.
    ///
    /// # Errors
    /// If there is no room or the device fails; then for good.
    #[inline]
    pub fn push(&mut self, record: R) -> Result<(), ExternalError> {
        if self.tail_count == self.per_block {
            self.end_tail()?;
        }
        let at = self.tail_count * R::BYTES;
        let tail = self.tail.as_mut().expect("a queue has a tail");
        record.encode(&mut tail[at..at + R::BYTES]);
        self.tail_count += 1;
        self.len += 1;
        Ok(())
    }

    /// Takes the oldest record; `None` if there is none.
    ///
    /// # Errors
    /// If the device fails; then for good.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<R>, ExternalError> {
        if self.head_slot == self.head_end {
            self.failure.check()?;
            if self.len == 0 {
                return Ok(None);
            }
            self.begin_head()?;
        }
        let at = self.head_slot * R::BYTES;
        let head = self.head.as_ref().expect("a queue has a head");
        self.head_slot += 1;
        self.len -= 1;
        Ok(Some(R::decode(&head[at..at + R::BYTES])))
    }

    /// Makes room in the tail: it becomes the head, if nothing lies between them, or is written.
    #[cold]
    fn end_tail(&mut self) -> Result<(), ExternalError> {
        self.failure.check()?;
        if self.head_slot == self.head_end && self.blocks.len() == 0 {
            self.tail_to_head();
            return Ok(());
        }
        let next = match self.write_buffers.take_spare() {
            Some(buffer) => buffer,
            None => self.settle_oldest()?,
        };
        let mut full = self.tail.replace(next).expect("a queue has a tail");
        blank_behind(&mut full, self.per_block * R::BYTES);
        let place = self.failure.note(self.blocks.push_back())?;
        let flight = self.blocks.store().write(place, full);
        self.writes.push_back(self.failure.note(flight)?);
        self.tail_count = 0;
        Ok(())
    }

    /// The buffer of the oldest write, when it is over.
    fn settle_oldest(&mut self) -> Result<IoBuffer, ExternalError> {
        match self.writes.pop_front() {
            Some(flight) => self.failure.note(flight.wait()),
            None => Ok(self.write_buffers.take()),
        }
    }

    /// Makes the tail, which is all there is, the head.
    fn tail_to_head(&mut self) {
        std::mem::swap(&mut self.head, &mut self.tail);
        (self.head_slot, self.head_end) = (0, self.tail_count);
        self.tail_count = 0;
    }

    /// Makes the block that comes next the head.
    #[cold]
    fn begin_head(&mut self) -> Result<(), ExternalError> {
        if self.blocks.len() == 0 {
            self.tail_to_head();
            return Ok(());
        }
        self.read_ahead()?;
        let flight = self.reads.pop_front().expect("a block that is there is on its way");
        let block = self.failure.note(flight.wait())?;
        self.blocks.pop_front();
        if let Some(old) = self.head.replace(block) {
            self.read_buffers.give(old);
        }
        (self.head_slot, self.head_end) = (0, self.per_block);
        self.read_ahead()
    }

    /// Reads what comes next, as far as there are buffers.
    fn read_ahead(&mut self) -> Result<(), ExternalError> {
        while (self.reads.len() as u64) < self.blocks.len() {
            let next = self.reads.len() as u64;
            let settled = self.blocks.len() - self.writes.len() as u64;
            if next >= settled {
                // Who needs the block waits for its write, who reads ahead does not.
                if next > 0 {
                    break;
                }
                let buffer = self.settle_oldest()?;
                self.write_buffers.give(buffer);
            }
            let Some(buffer) = self.read_buffers.take_spare() else { break };
            let flight = self.blocks.store().read(self.blocks.place(next), buffer);
            self.reads.push_back(self.failure.note(flight)?);
        }
        Ok(())
    }

    /// Asserts that its parts add up.
    ///
    /// # Panics
    /// If they do not.
    pub fn audit(&self) {
        self.blocks.audit();
        let written = self.blocks.len() * self.per_block as u64;
        let in_memory = self.head_end - self.head_slot + self.tail_count;
        assert_eq!(written + in_memory as u64, self.len, "invariant 1");
        let (reads, writes) = (self.reads.len() as u64, self.writes.len() as u64);
        assert!(reads + writes <= self.blocks.len(), "invariant 2");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GRANT_BYTES, store};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_queue_is_a_queue(
            volumes in 1_usize..3, in_flight in 0_u32..5,
            steps in proptest::collection::vec((any::<bool>(), 0_usize..300), 0..40),
        ) {
            let store = store(512, volumes, in_flight);
            let mut queue = Queue::new(&store).unwrap();
            let mut model = VecDeque::new();
            let mut push_count = 0;
            for (is_push, count) in steps {
                for _ in 0..count {
                    if is_push {
                        queue.push((push_count, 7_u8)).unwrap();
                        model.push_back((push_count, 7_u8));
                        push_count += 1;
                    } else {
                        prop_assert_eq!(queue.pop(), Ok(model.pop_front()));
                    }
                    queue.audit();
                }
                prop_assert_eq!(queue.len(), model.len() as u64);
            }
            // 504 bytes hold 56 records of 9 bytes.
            let counts = store.counts();
            prop_assert!(counts.write_blocks <= push_count / 56);
            prop_assert!(counts.read_blocks <= counts.write_blocks);
            drop(queue);
            prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        }
    }

    #[test]
    fn all_in_and_all_out_moves_what_is_between_head_and_tail() {
        let store = store(512, 2, 3);
        let mut queue = Queue::new(&store).unwrap();
        (0..63_000_u64).for_each(|n| queue.push(n).unwrap());
        // The first block became the head, the last one is the tail.
        assert_eq!(store.counts().write_blocks, 998);
        (0..63_000).for_each(|n| assert_eq!(queue.pop(), Ok(Some(n))));
        assert_eq!((queue.pop(), queue.is_empty()), (Ok(None), true));
        assert_eq!((store.counts().read_blocks, store.used_blocks()), (998, 0));
    }

    #[test]
    fn a_short_queue_moves_nothing() {
        let store = store(512, 1, 1);
        let mut queue = Queue::new(&store).unwrap();
        for n in 0..10_000_u64 {
            queue.push(n).unwrap();
            if n >= 60 {
                assert_eq!(queue.pop(), Ok(Some(n - 60)));
            }
        }
        assert_eq!(store.counts().write_blocks, 0);
    }
}
