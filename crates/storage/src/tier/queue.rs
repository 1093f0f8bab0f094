//! The queue of versions that FaCE keeps on flash (Kang, Lee and Moon, PVLDB 5(11), 2012; multi-version
//! FIFO): only appended to, so that the flash is written in the order of its slots, round and round.
//!
//! ```text
//!            front                      end
//!   slots  · · [v v - v - - v v v - v v] · · ·      v the version that counts   - an older one
//!              └─ dequeued, a group at a time
//! ```
//!
//! 1. What is appended takes the slot behind the one before it, the first behind the last.
//! 2. At most one version of a page counts: the last one appended.

use super::{Arrival, Step, TierCopies, TierCopy};
use nandu_base::{FixedHashMap, to_u32};

/// Versions of pages, oldest first.
#[derive(Debug)]
pub(super) struct Queue {
    slots: Vec<Version>,
    front: u32,
    /// Slots from the front on that hold something.
    used: u32,
    /// Where the version lies that counts.
    by_page: FixedHashMap<u64, u32>,
    dirty_count: u32,
}

/// What a slot holds.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Version {
    pub(super) page: u64,
    /// Whether it counts.
    pub(super) is_valid: bool,
    /// Whether it is newer than what lies in the page's place.
    pub(super) is_dirty: bool,
    /// Whether it was wanted since it was appended.
    pub(super) is_wanted: bool,
}

impl Queue {
    pub(super) fn new(slot_count: u32) -> Self {
        let mut by_page = FixedHashMap::default();
        // Twice as many, so that what was removed never makes it grow.
        by_page.reserve(2 * slot_count as usize);
        let slots = vec![Version::default(); slot_count as usize];
        Self { slots, front: 0, used: 0, by_page, dirty_count: 0 }
    }

    pub(super) fn free_count(&self) -> u32 {
        self.slot_count() - self.used
    }

    /// Where the version of a page lies that counts, which is wanted.
    pub(super) fn want(&mut self, page: u64) -> Option<u32> {
        let slot = *self.by_page.get(&page)?;
        self.slots[slot as usize].is_wanted = true;
        Some(slot)
    }

    /// Has a page that arrives appended, if it is changed or has no version that counts, once `make_room` was
    /// asked. What there was of it counts no more then.
    pub(super) fn arrive(
        &mut self,
        arrival: Arrival,
        writes_through: bool,
        steps: &mut Vec<Step>,
        make_room: impl FnOnce(&mut Self, &mut Vec<Step>),
    ) {
        let Arrival { page, is_changed, .. } = arrival;
        if !is_changed && self.by_page.contains_key(&page) {
            return;
        }
        if is_changed && writes_through {
            steps.push(Step::Write);
        }
        self.invalidate(page);
        make_room(self, steps);
        let slot = self.append(page, is_changed && !writes_through);
        steps.push(Step::Fill { slot });
    }

    /// Has no version of a page count.
    pub(super) fn invalidate(&mut self, page: u64) {
        let Some(slot) = self.by_page.remove(&page) else { return };
        let version = &mut self.slots[slot as usize];
        self.dirty_count -= u32::from(version.is_dirty);
        version.is_valid = false;
    }

    /// Appends a version, of a page that has none that counts, and tells where. There is a free slot.
    pub(super) fn append(&mut self, page: u64, is_dirty: bool) -> u32 {
        assert!(self.used < self.slot_count(), "who appends has made room");
        let behind = u64::from(self.front) + u64::from(self.used);
        let slot = to_u32(behind % u64::from(self.slot_count()));
        self.slots[slot as usize] = Version { page, is_valid: true, is_dirty, is_wanted: false };
        self.used += 1;
        let before = self.by_page.insert(page, slot);
        assert!(before.is_none(), "one version of a page counts");
        self.dirty_count += u32::from(is_dirty);
        slot
    }

    /// Takes the version at the front out, and tells where it lies.
    pub(super) fn dequeue(&mut self) -> (u32, Version) {
        assert!(self.used > 0, "something is in the queue");
        let slot = self.front;
        self.front = (slot + 1) % self.slot_count();
        self.used -= 1;
        let version = std::mem::take(&mut self.slots[slot as usize]);
        if version.is_valid {
            self.by_page.remove(&version.page);
            self.dirty_count -= u32::from(version.is_dirty);
        }
        (slot, version)
    }

    /// Takes over copies that lay in such a queue, whose end was in front of `next_slot`, so that `gap` slots
    /// are free. A copy that lies there is left out.
    pub(super) fn restore(&mut self, copies: &[TierCopy], next_slot: u32, gap: u32) {
        assert_eq!(self.used, 0, "only an empty queue takes copies over");
        let slot_count = self.slot_count();
        let behind_end = move |copy: &TierCopy| (copy.slot + slot_count - next_slot) % slot_count;
        let kept = || copies.iter().filter(move |copy| behind_end(copy) >= gap);
        let Some(first) = kept().map(behind_end).min() else {
            self.front = next_slot;
            return;
        };
        self.front = (next_slot + first) % slot_count;
        self.used = slot_count - first;
        for &TierCopy { page, slot, is_dirty } in kept() {
            self.slots[slot as usize] =
                Version { page, is_valid: true, is_dirty, is_wanted: false };
            let before = self.by_page.insert(page, slot);
            assert!(before.is_none(), "one version of a page counts");
            self.dirty_count += u32::from(is_dirty);
        }
    }

    pub(super) fn audit(&self) {
        let valid = self.slots.iter().filter(|version| version.is_valid).count();
        assert_eq!(valid, self.by_page.len(), "one version of a page counts");
        for (&page, &slot) in &self.by_page {
            let version = &self.slots[slot as usize];
            assert!(version.is_valid && version.page == page, "it is where it is looked for");
            let slot_count = self.slot_count();
            let distance = (slot + slot_count - self.front) % slot_count;
            assert!(distance < self.used, "it lies between the front and the end");
        }
        let is_dirty = |version: &&Version| version.is_valid && version.is_dirty;
        let dirty = self.slots.iter().filter(is_dirty).count();
        assert_eq!(dirty, self.dirty_count as usize, "dirty versions are counted");
    }

    fn slot_count(&self) -> u32 {
        to_u32(self.slots.len() as u64)
    }

    fn copy_at(&self, slot: u32) -> TierCopy {
        let Version { page, is_dirty, .. } = self.slots[slot as usize];
        TierCopy { page, slot, is_dirty }
    }
}

impl TierCopies for Queue {
    fn copy_of(&self, page: u64) -> Option<TierCopy> {
        self.by_page.get(&page).map(|&slot| self.copy_at(slot))
    }

    fn count(&self) -> u32 {
        to_u32(self.by_page.len() as u64)
    }

    fn dirty_count(&self) -> u32 {
        self.dirty_count
    }

    fn for_each(&self, look: &mut dyn FnMut(TierCopy)) {
        let places = (0_u32..).zip(&self.slots).filter(|(_, version)| version.is_valid);
        places.for_each(|(slot, _)| look(self.copy_at(slot)));
    }
}
