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
use super::{Access, Arrival, Step, TierConfig, TierCopies, TierCopy, TierPolicy};

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
}

impl TierPolicy for Face {
    fn read(&mut self, page: u64, _access: Access) -> Option<u32> {
        self.queue.want(page)
    }

    fn copies(&self) -> &dyn TierCopies {
        &self.queue
    }

    fn arrive(&mut self, arrival: Arrival, steps: &mut Vec<Step>) {
        let group = self.group;
        self.queue.arrive(arrival, self.writes_through, steps, |queue, steps| {
            make_room(queue, group, steps);
        });
    }

    fn forget(&mut self, page: u64) {
        self.queue.invalidate(page);
    }

    fn restore(&mut self, copies: &[TierCopy], next_slot: u32) {
        self.queue.restore(copies, next_slot, 1);
    }

    fn audit(&self) {
        self.queue.audit();
        assert!(self.queue.free_count() > 0, "a slot is free");
    }
}

/// Has a group leave, unless a slot stays free behind the one that is filled next.
fn make_room(queue: &mut Queue, group: u32, steps: &mut Vec<Step>) {
    if queue.free_count() > 1 {
        return;
    }
    for _ in 0..group {
        let (slot, version) = queue.dequeue();
        if version.is_valid && version.is_dirty {
            steps.push(Step::WriteBack { page: version.page, slot });
        }
    }
}
