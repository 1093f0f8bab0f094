//! 2Q (Johnson and Shasha, VLDB 1994), the full version: a page that is wanted once passes through a
//! short queue; only one that is wanted again after it left comes to stay. A scan cannot push out what
//! is in steady use.
//!
//! ```text
//!   new page ──► recent (A1in, FIFO) ──► leaves; its address ──► ghosts (A1out, FIFO, no frames)
//!   page that is among the ghosts ──► frequent (Am) ──► leaves, forgotten
//! ```
//!
//! The paper keeps Am by LRU; here it has second chances, so that a hit writes one bit at most. The
//! sizes are the paper's: A1in a quarter of the frames, A1out as many addresses as half of them.
//!
//! 1. Each frame is in one of the two queues.
//! 2. Ghosts are no more than half of the frames, and none of them is in a frame by the queue's doing.

use super::{FrameLists, ReferenceBits, Replacement};
use nandu_base::FixedHashMap;
use std::collections::VecDeque;

/// The number of the list A1in, of pages that came lately.
const RECENT: u8 = 0;
/// The number of the list Am, of pages that came again.
const FREQUENT: u8 = 1;

/// Of the pages that are likely to leave soon, one in so many is listed from Am.
const FREQUENT_SHARE_DIVISOR: usize = 4;

/// The policy 2Q: pages used once leave before those used again.
#[derive(Debug)]
pub struct TwoQueue {
    lists: FrameLists,
    words: Vec<u64>,
    recent_count_max: u32,
    ghost_count_max: usize,
    /// Ghosts, oldest first, each with the number of its coming. One that came back stays in here as
    /// a leftover, which `ghost_numbers` no longer knows.
    ghosts: VecDeque<(u64, u64)>,
    ghost_numbers: FixedHashMap<u64, u64>,
    next_number: u64,
}

impl TwoQueue {
    /// Empty, for so many frames.
    #[must_use]
    pub fn new(frame_count: u32) -> Self {
        Self {
            lists: FrameLists::new(frame_count, 2),
            words: vec![0; frame_count as usize],
            recent_count_max: (frame_count / 4).max(1),
            ghost_count_max: (frame_count / 2).max(1) as usize,
            ghosts: VecDeque::new(),
            ghost_numbers: FixedHashMap::default(),
            next_number: 0,
        }
    }

    fn remember(&mut self, word: u64) {
        self.next_number += 1;
        self.ghosts.push_back((word, self.next_number));
        self.ghost_numbers.insert(word, self.next_number);
        while self.ghosts.len() > self.ghost_count_max {
            let (word, number) = self.ghosts.pop_front().expect("there are too many");
            if self.ghost_numbers.get(&word) == Some(&number) {
                self.ghost_numbers.remove(&word);
            }
        }
    }
}

impl Replacement for TwoQueue {
    fn admit(&mut self, frame: u32, word: u64) {
        let came_back = self.ghost_numbers.remove(&word).is_some();
        self.words[frame as usize] = word;
        self.lists.append(if came_back { FREQUENT } else { RECENT }, frame);
    }

    fn touch(&mut self, _frame: u32) {}

    fn remove(&mut self, frame: u32, as_victim: bool) {
        if as_victim && self.lists.list_of(frame) == Some(RECENT) {
            self.remember(self.words[frame as usize]);
        }
        self.lists.remove(frame);
    }

    fn victim(
        &mut self,
        bits: &dyn ReferenceBits,
        may_leave: &mut dyn FnMut(u32) -> bool,
    ) -> Option<u32> {
        let is_recent_full = self.lists.count(RECENT) >= self.recent_count_max;
        if is_recent_full && let Some(frame) = self.lists.iter(RECENT).find(|&f| may_leave(f)) {
            return Some(frame);
        }
        // The first round clears all bits at most, the second one sees whoever may leave.
        for _ in 0..2 * self.lists.count(FREQUENT) {
            let frame = self.lists.iter(FREQUENT).next().expect("the queue is not empty");
            if !bits.take_reference(frame) && may_leave(frame) {
                return Some(frame);
            }
            self.lists.move_to_end(FREQUENT, frame);
        }
        self.lists.iter(RECENT).find(|&frame| may_leave(frame))
    }

    fn upcoming(&self, limit: usize, found: &mut Vec<u32>) {
        // How many of the pages to come are ghosts decides which queue they push out of. A steady mix
        // of both keeps clean pages at both heads.
        let frequent_count = self.lists.count(FREQUENT) as usize;
        let from_frequent = limit.div_ceil(FREQUENT_SHARE_DIVISOR).min(frequent_count);
        let from_recent = limit - from_frequent;
        let head = self.lists.iter(RECENT).take(from_recent);
        let head_count = head.clone().count();
        let frequent = self.lists.iter(FREQUENT).take(limit - head_count);
        let tail = self.lists.iter(RECENT).skip(head_count);
        found.extend(head.chain(frequent).chain(tail).take(limit));
    }

    fn audit(&self) {
        self.lists.audit();
        assert!(self.ghosts.len() <= self.ghost_count_max, "ghosts are few");
        assert!(self.ghost_numbers.len() <= self.ghosts.len(), "each ghost is queued");
    }
}
