//! Frames that an operator has for itself: its memory is the pool's memory, so that both together
//! never pass the budget.
//!
//! 1. Frames that are lent and frames that the pool uses are all frames, at any time.
//! 2. A grant leaves the pool the fewest frames it can work with, besides those that are held.

use super::{FRAME_COUNT_MIN, FrameUse, Pool, State};
use crate::StorageError;
use nandu_device::IoBuffer;
use nandu_workers::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// Where buffers wait that were given back.
#[derive(Debug, Default)]
pub(super) struct Lender {
    returned_count: AtomicU32,
    returned: Mutex<Vec<IoBuffer>>,
}

/// Memory of so many frames. Dropped, it goes back to the pool.
#[derive(Debug)]
pub struct Grant {
    frame_count: u32,
    buffers: Vec<IoBuffer>,
    lender: Arc<Lender>,
}

impl Grant {
    /// How many frames were granted.
    #[must_use]
    pub const fn frame_count(&self) -> u32 {
        self.frame_count
    }

    /// The buffers, one page long each, with whatever bytes they hold; aligned for the volume. They may
    /// be moved out for a while, into requests, say. Those that are missing in the end are replaced.
    pub const fn buffers_mut(&mut self) -> &mut Vec<IoBuffer> {
        &mut self.buffers
    }
}

impl Drop for Grant {
    fn drop(&mut self) {
        self.buffers.truncate(self.frame_count as usize);
        let mut returned = self.lender.returned.lock();
        returned.append(&mut self.buffers);
        self.lender.returned_count.fetch_add(self.frame_count, Ordering::Release);
    }
}

impl Pool {
    /// Takes frames out of the pool for an operator, writing and evicting pages as needed.
    ///
    /// # Errors
    /// `PoolExhausted` if fewer than 3 frames would be left that are not held; or if the log or the
    /// device fails. Nothing is taken then.
    pub fn grant(&self, frame_count: u32) -> Result<Grant, StorageError> {
        let mut grant =
            Grant { frame_count: 0, buffers: Vec::new(), lender: Arc::clone(&self.lender) };
        while grant.frame_count < frame_count {
            let mut state = self.lock();
            self.take_returned(&mut state);
            let total = u64::from(self.config.frame_count);
            let missing = u64::from(frame_count - grant.frame_count);
            let used = u64::from(state.held_count + FRAME_COUNT_MIN) + state.lent.len() as u64;
            if used + missing > total {
                return Err(StorageError::PoolExhausted { frame_count: self.config.frame_count });
            }
            let Some(frame) = self.take_frame(&mut state)? else {
                drop(self.let_others_move(state));
                continue;
            };
            let mut claim = self.frames.try_claim(frame).expect("an empty frame is nobody's");
            let nothing = IoBuffer::with_alignment(0, 1);
            grant.buffers.push(std::mem::replace(claim.buffer_mut(), nothing));
            drop(claim);
            state.infos[frame as usize].frame_use = FrameUse::Lent;
            state.lent.push(frame);
            grant.frame_count += 1;
        }
        Ok(grant)
    }

    /// How many frames are lent now.
    #[must_use]
    pub fn lent_count(&self) -> u32 {
        let mut state = self.lock();
        self.take_returned(&mut state);
        nandu_base::to_u32(state.lent.len() as u64)
    }

    /// Puts what grants gave back into frames again.
    pub(super) fn take_returned(&self, state: &mut State) {
        if self.lender.returned_count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut returned = self.lender.returned.lock();
        for _ in 0..self.lender.returned_count.swap(0, Ordering::Acquire) {
            let frame = state.lent.pop().expect("no more come back than were lent");
            let whole = |buffer: &IoBuffer| buffer.len() == self.config.page_bytes as usize;
            let buffer = returned.pop().filter(whole).unwrap_or_else(|| self.empty_buffer());
            let mut claim = self.frames.try_claim(frame).expect("an empty frame is nobody's");
            *claim.buffer_mut() = buffer;
            drop(claim);
            state.give_back(frame);
        }
    }
}
