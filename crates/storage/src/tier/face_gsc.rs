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

use super::queue::Queue;
use super::{Access, Arrival, Step, TierConfig, TierCopies, TierCopy, TierPolicy};

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
}

impl TierPolicy for FaceSecondChance {
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
        self.queue.restore(copies, next_slot, self.group);
    }

    fn audit(&self) {
        self.queue.audit();
        assert!(self.queue.free_count() >= self.group, "the gap is free");
    }
}

/// Has a group leave, or go round once more, unless the gap stays free behind the slot that is filled next.
fn make_room(queue: &mut Queue, group: u32, steps: &mut Vec<Step>) {
    if queue.free_count() > group {
        return;
    }
    let mut kept_count = 0;
    for _ in 0..group {
        let (slot, version) = queue.dequeue();
        let page = version.page;
        if version.is_valid && version.is_wanted && kept_count + 1 < group {
            let to = queue.append(page, version.is_dirty);
            steps.push(Step::Move { page, from: slot, to });
            kept_count += 1;
        } else if version.is_valid && version.is_dirty {
            steps.push(Step::WriteBack { page, slot });
        }
    }
}
