//! Lazy cleaning (Do, Zhang, Patel, DeWitt, Naughton and Halverson, SIGMOD 2011): changed pages go to the
//! tier alone, and are written to their places when too many of its copies are dirty.
//!
//! ```text
//!   clean  heap by the last use but one (LRU-2): the first makes room
//!   dirty  heap likewise: the first is cleaned first, and with it dirty neighbours of its page
//! ```
//!
//! With `writes_through` this is what the paper calls dual-write. The paper cleans by a thread beside the
//! others, and throttles a tier that has a long queue; here cleaning is a step of whoever brings the page
//! that was too many, and there is no queue.
//!
//! 1. A copy is in the one heap or in the other, by whether it is dirty.
//! 2. After each arrival no more copies are dirty than the limit says.

use super::frames::Frames;
use super::heap::{Heap, Key};
use super::{Access, Arrival, Step, TierConfig, TierCopies, TierCopy, TierPolicy};

/// Cleaning begins above so many dirty copies, in percent of all that there can be (the paper's lambda).
const DIRTY_PERCENT_MAX: u64 = 50;
/// A page that was read sequentially comes in until so many percent are filled.
const FILLED_PERCENT: u64 = 95;

/// Copies by their last use but one.
#[derive(Debug)]
pub struct LazyCleaning {
    frames: Frames,
    clean: Heap,
    dirty: Heap,
    /// Uses so far.
    now: u64,
    group: u32,
    writes_through: bool,
    /// Whether nothing came since copies were taken over.
    is_restored: bool,
}

impl LazyCleaning {
    pub(super) fn new(config: &TierConfig) -> Self {
        let frames = Frames::new(config);
        Self {
            clean: Heap::new(frames.frame_count()),
            dirty: Heap::new(frames.frame_count()),
            frames,
            now: 0,
            group: config.group(),
            writes_through: config.writes_through,
            is_restored: false,
        }
    }

    fn heap(&mut self, frame: u32) -> &mut Heap {
        match self.frames.get(frame).is_dirty {
            true => &mut self.dirty,
            false => &mut self.clean,
        }
    }

    /// The key of a copy that is used now.
    fn key_of_use(&mut self, before: Key) -> Key {
        self.now += 1;
        (before.1, self.now)
    }

    fn note_use(&mut self, frame: u32) {
        let before = self.heap(frame).key(frame);
        let key = self.key_of_use(before);
        self.heap(frame).set(frame, key);
    }

    /// Notes whether a copy is dirty.
    fn mark(&mut self, frame: u32, is_dirty: bool) {
        let heap = self.heap(frame);
        let key = heap.key(frame);
        heap.remove(frame);
        self.frames.mark(frame, is_dirty);
        self.heap(frame).set(frame, key);
    }

    fn release(&mut self, frame: u32) {
        self.heap(frame).remove(frame);
        self.frames.release(frame);
    }

    fn is_filled(&self) -> bool {
        let filled = u64::from(self.frames.count()) * 100;
        filled >= u64::from(self.frames.frame_count()) * FILLED_PERCENT
    }

    fn make_room(&mut self, steps: &mut Vec<Step>) {
        if !self.frames.is_full() {
            return;
        }
        if self.clean.first().is_none() {
            self.clean_some(steps);
        }
        let victim = self.clean.first().expect("a full tier has copies, and some were cleaned");
        self.release(victim);
    }

    /// Has the dirty copy written to its place that was wanted longest ago, and dirty neighbours of it.
    fn clean_some(&mut self, steps: &mut Vec<Step>) {
        let Some(first) = self.dirty.first() else { return };
        let page = self.frames.get(first).page;
        let (mut low, mut high) = (page, page);
        while high - low + 1 < u64::from(self.group) {
            if high < u64::MAX && self.is_dirty(high + 1) {
                high += 1;
            } else if low > 0 && self.is_dirty(low - 1) {
                low -= 1;
            } else {
                break;
            }
        }
        for page in low..=high {
            let frame = self.frames.find(page).expect("its copy was found to be dirty");
            let slot = self.frames.get(frame).slot;
            steps.push(Step::WriteBack { page, slot });
            self.mark(frame, false);
        }
    }

    fn is_dirty(&self, page: u64) -> bool {
        self.frames.find(page).is_some_and(|frame| self.frames.get(frame).is_dirty)
    }

    fn has_too_many_dirty(&self) -> bool {
        let dirty = u64::from(self.frames.dirty_count()) * 100;
        dirty > u64::from(self.frames.frame_count()) * DIRTY_PERCENT_MAX
    }
}

impl TierPolicy for LazyCleaning {
    fn read(&mut self, page: u64, _access: Access) -> Option<u32> {
        let frame = self.frames.find(page)?;
        self.note_use(frame);
        Some(self.frames.get(frame).slot)
    }

    fn copies(&self) -> &dyn TierCopies {
        &self.frames
    }

    fn arrive(&mut self, arrival: Arrival, steps: &mut Vec<Step>) {
        let Arrival { page, is_changed, access } = arrival;
        let is_dirty = is_changed && !self.writes_through;
        if is_changed && self.writes_through {
            steps.push(Step::Write);
        }
        match self.frames.find(page) {
            Some(_) if !is_changed => return,
            Some(frame) => {
                self.note_use(frame);
                self.mark(frame, is_dirty);
                let slot = self.frames.renew(frame, is_dirty);
                steps.push(Step::Fill { slot });
            }
            None if access == Access::Sequential && self.is_filled() => {
                if is_dirty {
                    steps.push(Step::Write);
                }
                return;
            }
            None => {
                self.make_room(steps);
                let (frame, slot) = self.frames.admit(page, is_dirty);
                let key = self.key_of_use((0, 0));
                self.heap(frame).set(frame, key);
                steps.push(Step::Fill { slot });
            }
        }
        while self.has_too_many_dirty() {
            self.clean_some(steps);
        }
        self.is_restored = false;
    }

    fn forget(&mut self, page: u64) {
        if let Some(frame) = self.frames.find(page) {
            self.release(frame);
        }
    }

    fn restore(&mut self, copies: &[TierCopy], _next_slot: u32) {
        for (frame, _) in self.frames.restore(copies) {
            let key = self.key_of_use((0, 0));
            self.heap(frame).set(frame, key);
        }
        // The moment may be one between a page that was too many and the cleaning that follows.
        self.is_restored = true;
    }

    fn audit(&self) {
        self.frames.audit();
        self.clean.audit();
        self.dirty.audit();
        assert_eq!(self.dirty.len(), self.frames.dirty_count() as usize, "the dirty heap is whole");
        let count = self.clean.len() + self.dirty.len();
        assert_eq!(count, self.frames.count() as usize, "each copy is in one heap");
        assert!(self.is_restored || !self.has_too_many_dirty(), "dirty copies are few");
    }
}
