//! A few blocks of a vector in memory, through which any record is read and changed. The block that
//! goes is one that nobody used since the hand last passed it (second chance).
//!
//! ```text
//!   get, set ──► frame of the block ── not there ──► victim ── changed ──► on its way out
//!                                                      └──► its frame is read into
//! ```
//!
//! 1. A block is in one frame at most, and the map says in which.
//! 2. A block that was changed is written before its frame is used otherwise, and before it is read
//!    again.
//! 3. After a failure nothing more is done: a change may be lost.

use super::{Vector, record_at};
use crate::error::Failure;
use crate::store::{Buffers, Flight};
use crate::{ExternalError, Memory, Record};
use nandu_base::{FixedHashMap, to_index, to_u32};
use nandu_device::IoBuffer;

/// Memory of a frame beside its block: its own fields, and its place in the map.
const FRAME_BYTES: u64 = 64;

/// A vector that is read and changed anywhere.
#[derive(Debug)]
pub struct PagedVector<R> {
    // Before the vector: what is in flight is waited for before its blocks are given back.
    leaving: Option<Flight>,
    frames: Vec<Frame>,
    frame_of: FixedHashMap<u64, u32>,
    /// The frame that was used last.
    recent: usize,
    hand: usize,
    buffers: Buffers,
    vector: Vector<R>,
    miss_count: u64,
    failure: Failure,
    _memory: Memory,
}

/// A block in memory.
#[derive(Debug)]
struct Frame {
    /// Which block of the vector; none while there is no buffer.
    block: Option<u64>,
    buffer: Option<IoBuffer>,
    is_changed: bool,
    is_used: bool,
}

impl<R: Record> PagedVector<R> {
    pub(super) fn new(vector: Vector<R>, frames: u32) -> Result<Self, ExternalError> {
        let store = vector.store();
        if frames == 0 {
            let what = "a paged vector needs a frame".to_owned();
            return Err(ExternalError::Invalid { what });
        }
        let count = to_index(u64::from(frames).min(vector.block_count().max(1)));
        let memory = store.grant().take("a paged vector", count as u64 * FRAME_BYTES)?;
        let buffers = Buffers::new(store, "a paged vector", count as u64 + 1)?;
        let empty = || Frame { block: None, buffer: None, is_changed: false, is_used: false };
        let mut frame_of = FixedHashMap::default();
        frame_of.reserve(count);
        Ok(Self {
            leaving: None,
            frames: (0..count).map(|_| empty()).collect(),
            frame_of,
            recent: 0,
            hand: 0,
            buffers,
            vector,
            miss_count: 0,
            failure: Failure::default(),
            _memory: memory,
        })
    }

    /// How many records there are.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.vector.len
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.vector.len == 0
    }

    /// How often a block was not in memory.
    #[must_use]
    pub const fn miss_count(&self) -> u64 {
        self.miss_count
    }

    /// The record `index`.
    ///
    /// # Errors
    /// If there is none, or the device fails; then for good.
    #[inline]
    pub fn get(&mut self, index: u64) -> Result<R, ExternalError> {
        let (frame, slot) = self.find(index)?;
        let buffer = frame.buffer.as_ref().expect("a block at hand has a buffer");
        Ok(record_at(buffer, slot))
    }

    /// Replaces the record `index`.
    ///
    /// # Errors
    /// As [`Self::get`].
    #[inline]
    pub fn set(&mut self, index: u64, record: R) -> Result<(), ExternalError> {
        let (frame, slot) = self.find(index)?;
        frame.is_changed = true;
        let buffer = frame.buffer.as_mut().expect("a block at hand has a buffer");
        record.encode(&mut buffer[slot * R::BYTES..(slot + 1) * R::BYTES]);
        Ok(())
    }

    /// Writes what was changed and gives the vector back.
    ///
    /// # Errors
    /// If the device fails, or did.
    pub fn into_vector(mut self) -> Result<Vector<R>, ExternalError> {
        self.failure.check()?;
        // In the order of their places.
        let changed = |frame: &Frame| frame.block.filter(|_| frame.is_changed);
        let mut frames: Vec<(u64, usize)> = (0..self.frames.len())
            .filter_map(|index| changed(&self.frames[index]).map(|block| (block, index)))
            .collect();
        frames.sort_unstable();
        for (block, index) in frames {
            self.settle()?;
            let buffer = self.frames[index].buffer.take().expect("a block at hand has a buffer");
            self.leave(block, buffer)?;
        }
        self.settle()?;
        Ok(self.vector)
    }

    /// The frame and the slot in which a record is, read if it is not there.
    #[inline]
    fn find(&mut self, index: u64) -> Result<(&mut Frame, usize), ExternalError> {
        if index >= self.vector.len {
            return Err(self.vector.out_of_range(index));
        }
        let block = index / self.vector.per_block;
        let slot = to_index(index % self.vector.per_block);
        if self.frames[self.recent].block != Some(block) {
            self.recent = match self.frame_of.get(&block) {
                Some(&frame) => frame as usize,
                None => self.load(block)?,
            };
        }
        let frame = &mut self.frames[self.recent];
        frame.is_used = true;
        Ok((frame, slot))
    }

    /// Reads a block into a frame.
    #[cold]
    fn load(&mut self, block: u64) -> Result<usize, ExternalError> {
        self.failure.check()?;
        self.miss_count += 1;
        let index = self.victim();
        let frame = &mut self.frames[index];
        let buffer = frame.buffer.take();
        let was_changed = std::mem::take(&mut frame.is_changed);
        if let Some(old) = frame.block.take() {
            self.frame_of.remove(&old);
            let buffer = buffer.expect("a block at hand has a buffer");
            if was_changed {
                self.settle()?;
                self.leave(old, buffer)?;
            } else {
                self.buffers.give(buffer);
            }
        }
        let place = self.vector.blocks.place(block);
        if self.leaving.as_ref().is_some_and(|flight| flight.is_at(place)) {
            self.settle()?;
        }
        // One more than there are frames: one is there while another one leaves.
        let buffer = self.buffers.take();
        let flight = self.vector.store().read(place, buffer).and_then(Flight::wait);
        let buffer = self.failure.note(flight)?;
        self.frames[index].block = Some(block);
        self.frames[index].buffer = Some(buffer);
        self.frame_of.insert(block, to_u32(index as u64));
        Ok(index)
    }

    /// The frame to be used for another block.
    fn victim(&mut self) -> usize {
        loop {
            let index = self.hand;
            self.hand = (self.hand + 1) % self.frames.len();
            let frame = &mut self.frames[index];
            if !std::mem::take(&mut frame.is_used) {
                return index;
            }
        }
    }

    /// Begins to write a block.
    fn leave(&mut self, block: u64, buffer: IoBuffer) -> Result<(), ExternalError> {
        let flight = self.vector.store().write(self.vector.blocks.place(block), buffer);
        self.leaving = Some(self.failure.note(flight)?);
        Ok(())
    }

    /// Waits for the block that is on its way out.
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
        self.vector.audit();
        let held = self.frames.iter().filter(|frame| frame.block.is_some()).count();
        assert_eq!(held, self.frame_of.len(), "invariant 1");
        for (&block, &frame) in &self.frame_of {
            assert_eq!(self.frames[frame as usize].block, Some(block), "invariant 1");
        }
    }
}
