//! FaCE with group second chance (Kang, Lee and Moon, PVLDB 5(11), 2012): of the group at the front those
//! versions are appended once more that were wanted since they were appended.
//!
//! ```text
//!   front [a b' c d'] … end │ gap of a group      ' wanted
//!         └──── b, d ──────────► appended, wanted no more;  a, c leave as with FaCE
//! ```
//!
//! The paper fills the rest of a group with pages from the cold end of the pool. Nothing here asks the pool
//! for pages, so that is left out.
//!
//! 1. Slots are filled one behind the other, the first behind the last ([`queue`](super::queue)).
//! 2. A gap of a group's size is always free, so that no version is written over one of its group.
//! 3. Of each group one leaves at least.

use super::face::begins;
use super::queue::Queue;
use super::{Access, Arrival, Step, TierConfig, TierCopy, TierPolicy};

/// A queue of versions, where those that were wanted go round once more.
#[derive(Debug)]
pub struct FaceSecondChance {
    queue: Queue,
    group: u32,
    writes_through: bool,
}

impl FaceSecondChance {
    pub(super) fn new(config: &TierConfig) -> Self {
        let queue = Queue::new(config.slot_count);
        Self { queue, group: config.group(), writes_through: config.writes_through }
    }

    fn make_room(&mut self, steps: &mut Vec<Step>) {
        if self.queue.free_count() > self.group {
            return;
        }
        let mut kept_count = 0;
        for _ in 0..self.group {
            let (slot, version) = self.queue.dequeue();
            let page = version.page;
            if version.is_valid && version.is_wanted && kept_count + 1 < self.group {
                let to = self.queue.append(page, version.is_dirty);
                steps.push(Step::Move { page, from: slot, to });
                kept_count += 1;
            } else if version.is_valid && version.is_dirty {
                steps.push(Step::WriteBack { page, slot });
            }
        }
    }
}

impl TierPolicy for FaceSecondChance {
    fn read(&mut self, page: u64, _access: Access) -> Option<u32> {
        self.queue.want(page)
    }

    fn copy_of(&self, page: u64) -> Option<TierCopy> {
        self.queue.copy_of(page)
    }

    fn arrive(&mut self, arrival: Arrival, steps: &mut Vec<Step>) {
        let Arrival { page, is_changed, .. } = arrival;
        if !begins(&mut self.queue, arrival, self.writes_through, steps) {
            return;
        }
        self.make_room(steps);
        let slot = self.queue.append(page, is_changed && !self.writes_through);
        steps.push(Step::Fill { slot });
    }

    fn forget(&mut self, page: u64) {
        self.queue.invalidate(page);
    }

    fn copy_count(&self) -> u32 {
        self.queue.valid_count()
    }

    fn dirty_count(&self) -> u32 {
        self.queue.dirty_count()
    }

    fn for_each_copy(&self, look: &mut dyn FnMut(TierCopy)) {
        self.queue.for_each_copy(look);
    }

    fn restore(&mut self, copies: &[TierCopy], next_slot: u32) {
        self.queue.restore(copies, next_slot, self.group);
    }

    fn audit(&self) {
        self.queue.audit();
        assert!(self.queue.free_count() >= self.group, "the gap is free");
    }
}
