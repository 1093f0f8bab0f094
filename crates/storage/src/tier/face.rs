//! FaCE (Kang, Lee and Moon, PVLDB 5(11), 2012) with group replacement: what leaves the pool is appended to
//! a queue of versions, and a group leaves at its front when there is no room.
//!
//! ```text
//!   changed    appended, whatever there is of the page counts no more
//!   unchanged  appended if there is no version of it
//!   front      dirty and the last of its page: to its place; else dropped
//! ```
//!
//! 1. Slots are filled one behind the other, the first behind the last ([`queue`](super::queue)).
//! 2. One slot is always free, so that no version is written over the one before it.

use super::queue::Queue;
use super::{Access, Arrival, Step, TierConfig, TierCopy, TierPolicy};

/// A queue of versions.
#[derive(Debug)]
pub struct Face {
    queue: Queue,
    group: u32,
    writes_through: bool,
}

impl Face {
    pub(super) fn new(config: &TierConfig) -> Self {
        let queue = Queue::new(config.slot_count);
        Self { queue, group: config.group(), writes_through: config.writes_through }
    }

    fn make_room(&mut self, steps: &mut Vec<Step>) {
        if self.queue.free_count() > 1 {
            return;
        }
        for _ in 0..self.group {
            let (slot, version) = self.queue.dequeue();
            if version.is_valid && version.is_dirty {
                steps.push(Step::WriteBack { page: version.page, slot });
            }
        }
    }
}

impl TierPolicy for Face {
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
        self.queue.restore(copies, next_slot, 1);
    }

    fn audit(&self) {
        self.queue.audit();
        assert!(self.queue.free_count() > 0, "a slot is free");
    }
}

/// Whether a page that arrives is to be appended; what there was of it counts no more then.
pub(super) fn begins(
    queue: &mut Queue,
    arrival: Arrival,
    writes_through: bool,
    steps: &mut Vec<Step>,
) -> bool {
    let Arrival { page, is_changed, .. } = arrival;
    if !is_changed {
        return queue.copy_of(page).is_none();
    }
    if writes_through {
        steps.push(Step::Write);
    }
    queue.invalidate(page);
    true
}
