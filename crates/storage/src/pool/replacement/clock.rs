//! CLOCK, or second chance (Corbató, "A paging experiment with the Multics system", 1968): a hand goes
//! round the frames; a page that was wanted since the hand passed loses its bit, another leaves.
//!
//! ```text
//!        ┌─► 0  1  0  1  1 ─┐      bits; a hit sets one, and writes nothing if it is set
//!        │      ▲ hand      │
//!        └──────────────────┘
//! ```
//!
//! 1. The hand stands on a frame.
//! 2. It stops at the victim, and passes it only when that has left or may not leave.

use super::{ReferenceBits, Replacement};

/// The policy CLOCK, which gives each page a second chance.
#[derive(Debug)]
pub struct Clock {
    is_in_use: Vec<bool>,
    hand: usize,
}

impl Clock {
    /// Empty, for so many frames.
    #[must_use]
    pub fn new(frame_count: u32) -> Self {
        Self { is_in_use: vec![false; frame_count as usize], hand: 0 }
    }

    fn after(&self, place: usize) -> usize {
        if place + 1 == self.is_in_use.len() { 0 } else { place + 1 }
    }
}

/// A place as a frame's number.
#[allow(clippy::cast_possible_truncation, reason = "as many places as frames, a u32")]
const fn frame_at(place: usize) -> u32 {
    place as u32
}

impl Replacement for Clock {
    fn admit(&mut self, frame: u32, _word: u64) {
        assert!(!self.is_in_use[frame as usize], "a frame is admitted once");
        self.is_in_use[frame as usize] = true;
    }

    fn touch(&mut self, _frame: u32) {}

    fn remove(&mut self, frame: u32, as_victim: bool) {
        assert!(self.is_in_use[frame as usize], "what is removed was admitted");
        self.is_in_use[frame as usize] = false;
        if as_victim && self.hand == frame as usize {
            self.hand = self.after(self.hand);
        }
    }

    fn victim(
        &mut self,
        bits: &dyn ReferenceBits,
        may_leave: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        // The first round clears all bits at most, the second one sees whoever may leave.
        for _ in 0..2 * self.is_in_use.len() {
            let frame = frame_at(self.hand);
            let is_candidate = self.is_in_use[self.hand] && !bits.take_reference(frame);
            if is_candidate && may_leave(frame) {
                return Some(frame);
            }
            self.hand = self.after(self.hand);
        }
        None
    }

    fn upcoming(&self, limit: usize, found: &mut Vec<u32>) {
        let (before, after) = self.is_in_use.split_at(self.hand);
        let round = after.iter().chain(before).zip((self.hand..self.is_in_use.len()).chain(0..));
        let in_use = round.filter(|(in_use, _)| **in_use).map(|(_, place)| frame_at(place));
        found.extend(in_use.take(limit));
    }

    fn audit(&self) {
        assert!(self.hand < self.is_in_use.len(), "the hand stands on a frame");
    }
}
