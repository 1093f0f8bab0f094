//! The erased groups of a die, in the order in which they are used.
//!
//! 1. First in, first out; with dynamic wear levelling the least worn goes to data that changes and the
//!    most worn to data that was copied (flash reference 2.7).

use std::collections::{BTreeSet, VecDeque};

#[derive(Clone, Debug)]
pub(super) enum FreeList {
    Queue(VecDeque<u32>),
    /// Ordered by how often they were erased, the least worn first.
    ByWear(BTreeSet<(u32, u32)>),
}

impl FreeList {
    pub(super) fn new(by_wear: bool) -> Self {
        if by_wear { Self::ByWear(BTreeSet::new()) } else { Self::Queue(VecDeque::new()) }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Self::Queue(queue) => queue.len(),
            Self::ByWear(set) => set.len(),
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub(super) fn push(&mut self, group: u32, erase_count: u32) {
        match self {
            Self::Queue(queue) => queue.push_back(group),
            Self::ByWear(set) => {
                set.insert((erase_count, group));
            }
        }
    }

    pub(super) fn pop(&mut self, for_cold_data: bool) -> Option<u32> {
        match self {
            Self::Queue(queue) => queue.pop_front(),
            Self::ByWear(set) if for_cold_data => set.pop_last().map(|(_, group)| group),
            Self::ByWear(set) => set.pop_first().map(|(_, group)| group),
        }
    }

    pub(super) fn remove(&mut self, group: u32) {
        match self {
            Self::Queue(queue) => queue.retain(|&other| other != group),
            Self::ByWear(set) => set.retain(|&(_, other)| other != group),
        }
    }
}
