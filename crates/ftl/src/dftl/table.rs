//! The map of [`super::Dftl`]: what its translation pages hold on flash, and the cached part of it.
//!
//! One word per unit: the flash page that the unit's translation page names, or where the unit is
//! cached, its slot, which then keeps both the flash page and what the translation page still says.
//!
//! ```text
//! insert ─▶ probation ──(hit)──▶ protected          segmented LRU after Karedla, Love and Wherry
//!           │      ◀──(overflow)─┘                  (1994), as Gupta, Kim and Urgaonkar (2009) use
//!           ▼ oldest                                it for the cached mapping table
//!         victim
//! ```
//!
//! 1. A unit has at most one slot, and the slot names the unit.
//! 2. The cache holds at most its capacity, the protected segment at most its limit.
//! 3. An entry that is not dirty equals what its translation page holds.
//! 4. A dirty entry is in the list of its translation page, a clean one in none.
//!
//! Lists run through flat arrays with a sentinel each, so that no step allocates or searches.

use nandu_base::to_u32;

/// Stands in the table for a logical page that has no flash page.
pub(super) const UNMAPPED: u32 = CACHED - 1;
const CACHED: u32 = 1 << 31;
const NONE: u32 = u32::MAX;

#[derive(Clone, Copy, Debug)]
struct Entry {
    lpn: u32,
    page: u32,
    stored: u32,
    newer: u32,
    older: u32,
    /// The next dirty entry of the same translation page.
    dirty_next: u32,
    is_protected: bool,
    is_dirty: bool,
}

const VACANT: Entry = Entry {
    lpn: NONE,
    page: UNMAPPED,
    stored: UNMAPPED,
    newer: NONE,
    older: NONE,
    dirty_next: NONE,
    is_protected: false,
    is_dirty: false,
};

/// The map, with its cache.
#[derive(Clone, Debug)]
pub(super) struct MappingTable {
    words: Vec<u32>,
    /// Slots, then the sentinels of probation and of protected.
    entries: Vec<Entry>,
    dirty_heads: Vec<u32>,
    vacant: Vec<u32>,
    capacity: u32,
    protected_limit: u32,
    protected_count: u32,
    entries_per_page: u32,
}

impl MappingTable {
    /// An empty map of `unit_count` units, `entries_per_page` of which share a translation page.
    pub(super) fn new(
        unit_count: usize,
        entries_per_page: u32,
        (capacity, protected_limit): (u32, u32),
    ) -> Self {
        let mut table = Self {
            words: vec![UNMAPPED; unit_count],
            entries: vec![VACANT; capacity as usize + 2],
            dirty_heads: vec![NONE; unit_count.div_ceil(entries_per_page as usize)],
            vacant: Vec::with_capacity(capacity as usize),
            capacity,
            protected_limit,
            protected_count: 0,
            entries_per_page,
        };
        table.reset();
        table
    }

    /// Forgets all entries of the table and its lists.
    pub(super) fn reset(&mut self) {
        self.words.fill(UNMAPPED);
        self.entries.fill(VACANT);
        for sentinel in [self.capacity, self.capacity + 1] {
            let entry = &mut self.entries[sentinel as usize];
            (entry.newer, entry.older) = (sentinel, sentinel);
        }
        self.dirty_heads.fill(NONE);
        self.vacant.clear();
        self.vacant.extend((0..self.capacity).rev());
        self.protected_count = 0;
    }

    /// The translation page of a unit.
    #[inline]
    pub(super) const fn tvpn_of(&self, lpn: u32) -> u32 {
        lpn / self.entries_per_page
    }

    /// The units of a translation page.
    pub(super) fn units_of(&self, tvpn: u32) -> std::ops::Range<u32> {
        let first = tvpn * self.entries_per_page;
        let count = to_u32(self.words.len() as u64);
        first..count.min(first.saturating_add(self.entries_per_page))
    }

    /// The slot of a cached unit.
    #[inline]
    pub(super) fn slot_of(&self, lpn: u32) -> Option<u32> {
        let word = self.words[lpn as usize];
        (word & CACHED != 0).then_some(word & !CACHED)
    }

    /// Where a unit lies.
    #[inline]
    pub(super) fn page_of(&self, lpn: u32) -> u32 {
        let word = self.words[lpn as usize];
        if word & CACHED == 0 { word } else { self.entries[(word & !CACHED) as usize].page }
    }

    /// Where the unit of a slot lies.
    #[inline]
    pub(super) fn page_at(&self, slot: u32) -> u32 {
        self.entries[slot as usize].page
    }

    /// Where the translation page on flash says that a unit lies.
    pub(super) fn stored_page_of(&self, lpn: u32) -> u32 {
        let word = self.words[lpn as usize];
        if word & CACHED == 0 { word } else { self.entries[(word & !CACHED) as usize].stored }
    }

    pub(super) const fn unit_count(&self) -> usize {
        self.words.len()
    }

    pub(super) const fn entries_per_page(&self) -> u32 {
        self.entries_per_page
    }

    pub(super) const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// The unit whose entry leaves next, where there is no room for another, and whether it is dirty.
    pub(super) fn victim(&self) -> Option<(u32, bool)> {
        if !self.vacant.is_empty() {
            return None;
        }
        let (probation, protected) = (self.capacity, self.capacity + 1);
        let oldest = self.entries[probation as usize].newer;
        let slot =
            if oldest == probation { self.entries[protected as usize].newer } else { oldest };
        let entry = &self.entries[slot as usize];
        Some((entry.lpn, entry.is_dirty))
    }

    /// Notes an access: probation becomes protected, whose oldest entry makes room in turn.
    #[inline]
    pub(super) fn touch(&mut self, slot: u32) {
        self.unlink(slot);
        if !self.entries[slot as usize].is_protected && self.protected_limit > 0 {
            self.entries[slot as usize].is_protected = true;
            self.protected_count += 1;
        }
        self.link_newest(slot);
        if self.protected_count > self.protected_limit {
            let demoted = self.entries[self.capacity as usize + 1].newer;
            self.unlink(demoted);
            self.entries[demoted as usize].is_protected = false;
            self.protected_count -= 1;
            self.link_newest(demoted);
        }
    }

    /// Takes an entry that was not changed out of the cache.
    pub(super) fn evict(&mut self, lpn: u32) {
        let slot = self.slot_of(lpn).expect("only a cached unit is evicted");
        let entry = self.entries[slot as usize];
        assert!(!entry.is_dirty, "a dirty entry is written back before it leaves");
        self.unlink(slot);
        self.protected_count -= u32::from(entry.is_protected);
        self.words[lpn as usize] = entry.stored;
        self.entries[slot as usize] = VACANT;
        self.vacant.push(slot);
    }

    /// Caches what the translation page says of a unit.
    pub(super) fn insert(&mut self, lpn: u32) -> u32 {
        let slot = self.vacant.pop().expect("the caller has made room");
        let page = self.words[lpn as usize];
        self.entries[slot as usize] = Entry { lpn, page, stored: page, ..VACANT };
        self.words[lpn as usize] = CACHED | slot;
        self.link_newest(slot);
        slot
    }

    /// Moves a cached unit, which makes its entry dirty.
    #[inline]
    pub(super) fn set(&mut self, slot: u32, page: u32) {
        let entry = &mut self.entries[slot as usize];
        entry.page = page;
        if entry.is_dirty {
            return;
        }
        entry.is_dirty = true;
        let tvpn = entry.lpn / self.entries_per_page;
        entry.dirty_next = std::mem::replace(&mut self.dirty_heads[tvpn as usize], slot);
    }

    /// Moves a unit that is not cached, in its translation page, which the caller writes.
    pub(super) fn store(&mut self, lpn: u32, page: u32) {
        let word = &mut self.words[lpn as usize];
        assert!(*word & CACHED == 0, "a cached unit is moved in the cache");
        *word = page;
    }

    /// All dirty entries of a translation page are in what is being written of it.
    pub(super) fn clean(&mut self, tvpn: u32) {
        let mut slot = std::mem::replace(&mut self.dirty_heads[tvpn as usize], NONE);
        while slot != NONE {
            let entry = &mut self.entries[slot as usize];
            (entry.stored, entry.is_dirty) = (entry.page, false);
            slot = std::mem::replace(&mut entry.dirty_next, NONE);
        }
    }

    /// Asserts the numbered invariants of this file.
    pub(super) fn audit(&self) {
        let held = self.capacity - to_u32(self.vacant.len() as u64);
        assert!(self.protected_count <= self.protected_limit, "invariant 2: protected entries");
        let mut seen = 0;
        for (sentinel, protected) in [(self.capacity, false), (self.capacity + 1, true)] {
            let mut slot = self.entries[sentinel as usize].newer;
            while slot != sentinel {
                let entry = &self.entries[slot as usize];
                assert_eq!(self.slot_of(entry.lpn), Some(slot), "invariant 1: slot {slot}");
                assert_eq!(entry.is_protected, protected, "invariant 2: the segment of {slot}");
                let kept = entry.is_dirty || entry.page == entry.stored;
                assert!(kept, "invariant 3: unit {}", entry.lpn);
                (seen, slot) = (seen + 1, entry.newer);
            }
        }
        let cached = self.words.iter().filter(|&&word| word & CACHED != 0).count();
        assert_eq!((seen, cached), (held, held as usize), "invariant 1: one slot each");
        let mut listed = 0;
        for (tvpn, &head) in (0_u32..).zip(&self.dirty_heads) {
            let mut slot = head;
            while slot != NONE {
                let entry = &self.entries[slot as usize];
                assert!(entry.is_dirty, "invariant 4: unit {} is dirty", entry.lpn);
                assert_eq!(self.tvpn_of(entry.lpn), tvpn, "invariant 4: the list of its page");
                (listed, slot) = (listed + 1, entry.dirty_next);
            }
        }
        let dirty = self.entries.iter().filter(|entry| entry.is_dirty).count();
        assert_eq!(listed, dirty, "invariant 4: every dirty entry is listed");
    }

    #[inline]
    fn unlink(&mut self, slot: u32) {
        let Entry { newer, older, .. } = self.entries[slot as usize];
        self.entries[newer as usize].older = older;
        self.entries[older as usize].newer = newer;
    }

    /// Puts a slot behind the newest of its segment; a sentinel's `newer` is the oldest entry.
    #[inline]
    fn link_newest(&mut self, slot: u32) {
        let sentinel = self.capacity + u32::from(self.entries[slot as usize].is_protected);
        let newest = self.entries[sentinel as usize].older;
        self.entries[newest as usize].newer = slot;
        self.entries[sentinel as usize].older = slot;
        let entry = &mut self.entries[slot as usize];
        (entry.older, entry.newer) = (newest, sentinel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(table: &mut MappingTable, lpn: u32) -> bool {
        if let Some(slot) = table.slot_of(lpn) {
            table.touch(slot);
            return true;
        }
        if let Some((victim, _)) = table.victim() {
            table.clean(table.tvpn_of(victim));
            table.evict(victim);
        }
        table.insert(lpn);
        table.audit();
        false
    }

    #[test]
    fn one_pass_over_cold_units_leaves_the_protected_ones() {
        let mut table = MappingTable::new(100, 8, (4, 2));
        for lpn in [1, 2, 1, 2] {
            access(&mut table, lpn);
        }
        for lpn in 10..50 {
            assert!(!access(&mut table, lpn));
        }
        assert!(access(&mut table, 1));
        assert!(access(&mut table, 2));
    }

    #[test]
    fn a_third_hit_unit_takes_the_place_of_the_oldest_protected_one() {
        let mut table = MappingTable::new(100, 8, (4, 2));
        for lpn in [1, 2, 3, 1, 2, 3] {
            access(&mut table, lpn);
        }
        // 1 was demoted and goes next but for nothing older on probation.
        access(&mut table, 4);
        access(&mut table, 5);
        assert_eq!(table.slot_of(1), None);
        assert!(table.slot_of(2).is_some() && table.slot_of(3).is_some());
    }

    #[test]
    fn writing_a_translation_page_cleans_all_its_entries_and_no_other() {
        let mut table = MappingTable::new(100, 8, (6, 3));
        for lpn in [0, 3, 7, 8] {
            let slot = table.insert(lpn);
            table.set(slot, lpn + 50);
        }
        table.audit();
        assert_eq!((table.page_of(3), table.stored_page_of(3)), (53, UNMAPPED));
        table.clean(0);
        table.audit();
        assert_eq!((table.stored_page_of(3), table.stored_page_of(8)), (53, UNMAPPED));
        table.evict(3);
        assert_eq!(table.page_of(3), 53);
    }
}
