//! Which copy lies in which slot, for policies that choose among all copies. A copy keeps its frame, by
//! which a policy knows it, and takes another slot with each version.
//!
//! ```text
//!   page ──► frame ──► slot
//!              free frames, free slots: the slot that was freed first is filled first
//! ```
//!
//! 1. A page has one frame at most, a frame one slot, a slot one frame at most.
//! 2. At least one slot in sixteen is free, so that a version is never written over the one before it.

use super::{TierConfig, TierCopies, TierCopy};
use nandu_base::FixedHashMap;
use std::collections::VecDeque;

/// Of so many slots one is free, at least.
const SPARE_DIVISOR: u32 = 16;

/// The copies of a tier.
#[derive(Debug)]
pub(super) struct Frames {
    frames: Vec<Option<Frame>>,
    by_page: FixedHashMap<u64, u32>,
    free_frames: Vec<u32>,
    free_slots: VecDeque<u32>,
    slot_count: u32,
    dirty_count: u32,
}

/// A page with a copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) page: u64,
    pub(super) slot: u32,
    pub(super) is_dirty: bool,
}

impl Frames {
    pub(super) fn new(config: &TierConfig) -> Self {
        let frame_count = config.slot_count - config.slot_count.div_ceil(SPARE_DIVISOR);
        let mut by_page = FixedHashMap::default();
        // Twice as many, so that what was removed never makes it grow.
        by_page.reserve(2 * frame_count as usize);
        Self {
            frames: vec![None; frame_count as usize],
            by_page,
            free_frames: (0..frame_count).rev().collect(),
            free_slots: (0..config.slot_count).collect(),
            slot_count: config.slot_count,
            dirty_count: 0,
        }
    }

    /// How many copies there can be.
    pub(super) fn frame_count(&self) -> u32 {
        nandu_base::to_u32(self.frames.len() as u64)
    }

    pub(super) fn is_full(&self) -> bool {
        self.free_frames.is_empty()
    }

    pub(super) fn find(&self, page: u64) -> Option<u32> {
        self.by_page.get(&page).copied()
    }

    /// The copy in a frame.
    pub(super) fn get(&self, frame: u32) -> &Frame {
        self.frames[frame as usize].as_ref().expect("who asks for a frame knows its copy")
    }

    /// A frame and a slot for a page that has none. There is a free one.
    pub(super) fn admit(&mut self, page: u64, is_dirty: bool) -> (u32, u32) {
        let frame = self.free_frames.pop().expect("who admits has made room");
        let slot = self.free_slots.pop_front().expect("there are more slots than frames");
        let before = self.by_page.insert(page, frame);
        assert!(before.is_none(), "a page is admitted once");
        self.frames[frame as usize] = Some(Frame { page, slot, is_dirty });
        self.dirty_count += u32::from(is_dirty);
        (frame, slot)
    }

    /// Takes over copies where they lie, dirty ones first, as many as there are frames, and tells which.
    pub(super) fn restore(&mut self, copies: &[TierCopy]) -> Vec<(u32, TierCopy)> {
        assert_eq!(self.count(), 0, "only an empty tier takes copies over");
        let of_kind = |is_dirty| copies.iter().filter(move |copy| copy.is_dirty == is_dirty);
        let mut is_taken = vec![false; self.slot_count as usize];
        let mut kept = Vec::new();
        for &copy in of_kind(true).chain(of_kind(false)) {
            let Some(frame) = self.free_frames.pop() else { break };
            let TierCopy { page, slot, is_dirty } = copy;
            is_taken[slot as usize] = true;
            self.frames[frame as usize] = Some(Frame { page, slot, is_dirty });
            self.by_page.insert(page, frame);
            self.dirty_count += u32::from(is_dirty);
            kept.push((frame, copy));
        }
        self.free_slots.retain(|&slot| !is_taken[slot as usize]);
        kept
    }

    /// The slot for another version of the page in a frame.
    pub(super) fn renew(&mut self, frame: u32, is_dirty: bool) -> u32 {
        let slot = self.free_slots.pop_front().expect("there are more slots than frames");
        let held = self.frames[frame as usize].as_mut().expect("who renews a frame knows its copy");
        self.free_slots.push_back(held.slot);
        held.slot = slot;
        self.mark(frame, is_dirty);
        slot
    }

    /// Notes whether a copy is newer than what lies in the place of its page.
    pub(super) fn mark(&mut self, frame: u32, is_dirty: bool) {
        let held = self.frames[frame as usize].as_mut().expect("who marks a frame knows its copy");
        self.dirty_count += u32::from(is_dirty);
        self.dirty_count -= u32::from(std::mem::replace(&mut held.is_dirty, is_dirty));
    }

    /// Frees a frame and its slot.
    pub(super) fn release(&mut self, frame: u32) {
        let held = self.frames[frame as usize].take().expect("who releases a frame knows its copy");
        self.by_page.remove(&held.page);
        self.dirty_count -= u32::from(held.is_dirty);
        self.free_frames.push(frame);
        self.free_slots.push_back(held.slot);
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.by_page.capacity()
    }

    pub(super) fn audit(&self) {
        let mut is_free = vec![true; self.slot_count as usize];
        for (frame, held) in (0..).zip(&self.frames) {
            let Some(held) = held else { continue };
            assert_eq!(self.by_page.get(&held.page), Some(&frame), "a copy is found by its page");
            let was_free = std::mem::replace(&mut is_free[held.slot as usize], false);
            assert!(was_free, "a slot has one copy");
        }
        assert_eq!(self.by_page.len(), self.count() as usize, "only copies are found");
        for &slot in &self.free_slots {
            let was_free = std::mem::replace(&mut is_free[slot as usize], false);
            assert!(was_free, "a free slot has no copy, and is free once");
        }
        let dirty = self.frames.iter().flatten().filter(|frame| frame.is_dirty).count();
        assert_eq!(dirty, self.dirty_count as usize, "dirty copies are counted");
        assert!(!self.free_slots.is_empty(), "a slot is free");
    }
}

impl TierCopies for Frames {
    fn copy_of(&self, page: u64) -> Option<TierCopy> {
        self.find(page).map(|frame| self.get(frame).as_copy())
    }

    fn count(&self) -> u32 {
        self.frame_count() - nandu_base::to_u32(self.free_frames.len() as u64)
    }

    fn dirty_count(&self) -> u32 {
        self.dirty_count
    }

    fn for_each(&self, look: &mut dyn FnMut(TierCopy)) {
        self.frames.iter().flatten().for_each(|frame| look(frame.as_copy()));
    }
}

impl Frame {
    const fn as_copy(&self) -> TierCopy {
        TierCopy { page: self.page, slot: self.slot, is_dirty: self.is_dirty }
    }
}
