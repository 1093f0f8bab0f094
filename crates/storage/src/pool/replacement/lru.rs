//! The least recently used page leaves. Exact, so each hit is told to it under the pool's lock: for
//! comparisons rather than for speed.
//!
//! 1. The list holds the frames in the order in which they were last wanted.

use super::{FrameLists, ReferenceBits, Replacement};

/// The policy LRU: the page used longest ago leaves.
#[derive(Debug)]
pub struct Lru {
    lists: FrameLists,
}

impl Lru {
    /// Empty, for so many frames.
    #[must_use]
    pub fn new(frame_count: u32) -> Self {
        Self { lists: FrameLists::new(frame_count, 1) }
    }
}

impl Replacement for Lru {
    fn admit(&mut self, frame: u32, _word: u64) {
        self.lists.append(0, frame);
    }

    fn touch(&mut self, frame: u32) {
        self.lists.move_to_end(0, frame);
    }

    fn remove(&mut self, frame: u32, _as_victim: bool) {
        self.lists.remove(frame);
    }

    fn victim(
        &mut self,
        _bits: &dyn ReferenceBits,
        may_leave: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        self.lists.iter(0).find(|&frame| may_leave(frame))
    }

    fn upcoming(&self, limit: usize, found: &mut Vec<u32>) {
        found.extend(self.lists.iter(0).take(limit));
    }

    fn audit(&self) {
        self.lists.audit();
    }
}
