//! Which frame holds a page: an open-addressing hash table with linear probing that many threads read
//! while one changes it.
//!
//! ```text
//!   entry  ┌ fingerprint 32 ┬ frame + 1, 32 ┐     0: nothing here, the probing ends
//! ```
//!
//! 1. Each page that is in a frame has exactly one entry, and no empty one lies between its entry and
//!    the place where its probing begins.
//! 2. At most half of the entries are in use.
//! 3. A reader during a change may miss a page or find a wrong frame. The tag of the frame says which
//!    page it holds, so the reader asks again under the lock, where no change is under way.

use nandu_base::to_index;
use std::sync::atomic::{AtomicU64, Ordering};

/// The table from pages to the frames that hold them.
pub(super) struct PageTable {
    entries: Box<[AtomicU64]>,
    mask: u64,
}

impl PageTable {
    /// An empty table for `frame_count` frames.
    pub(super) fn new(frame_count: u32) -> Self {
        let entry_count = (u64::from(frame_count) * 2).next_power_of_two();
        let entries = (0..entry_count).map(|_| AtomicU64::new(0)).collect();
        Self { entries, mask: entry_count - 1 }
    }

    /// The first frame on the way that may hold the page of `word` and that `is_it` agrees to.
    #[inline]
    pub(super) fn find(&self, word: u64, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let hash = hash_of(word);
        // Bounded, since entries may move while this goes on.
        for step in 0..=self.mask {
            let entry = self.entry(hash + step).load(Ordering::Acquire);
            if entry == 0 {
                return None;
            }
            if entry >> 32 == hash >> 32 {
                let frame = frame_of(entry);
                if is_it(frame) {
                    return Some(frame);
                }
            }
        }
        None
    }

    /// Adds a page that has no entry. Under the lock.
    pub(super) fn insert(&self, word: u64, frame: u32) {
        let hash = hash_of(word);
        let mut place = hash;
        while self.entry(place).load(Ordering::Relaxed) != 0 {
            place += 1;
        }
        let entry = hash & !0xFFFF_FFFF | (u64::from(frame) + 1);
        self.entry(place).store(entry, Ordering::Release);
    }

    /// Takes a page's entry out. Under the lock; `word_of` names the page of each frame that has one.
    ///
    /// # Panics
    /// If it has none.
    pub(super) fn remove(&self, word: u64, frame: u32, word_of: impl Fn(u32) -> u64) {
        let wanted = hash_of(word) & !0xFFFF_FFFF | (u64::from(frame) + 1);
        let mut hole = hash_of(word) & self.mask;
        while self.entry(hole).load(Ordering::Relaxed) != wanted {
            assert_ne!(self.entry(hole).load(Ordering::Relaxed), 0, "the page has an entry");
            hole += 1;
        }
        // Entries behind the hole move up into it unless that is before where their probing begins.
        let mut next = hole;
        loop {
            next += 1;
            let entry = self.entry(next).load(Ordering::Relaxed);
            if entry == 0 {
                break;
            }
            let home = hash_of(word_of(frame_of(entry))) & self.mask;
            let distance = next.wrapping_sub(home) & self.mask;
            if distance >= next - hole {
                self.entry(hole).store(entry, Ordering::Release);
                hole = next;
            }
        }
        self.entry(hole).store(0, Ordering::Release);
    }

    /// All frames that have an entry.
    pub(super) fn frames(&self) -> impl Iterator<Item = u32> {
        let entry = |entry: &AtomicU64| entry.load(Ordering::Relaxed);
        self.entries.iter().map(entry).filter(|&entry| entry != 0).map(frame_of)
    }

    #[inline]
    fn entry(&self, place: u64) -> &AtomicU64 {
        &self.entries[to_index(place & self.mask)]
    }
}

#[allow(clippy::cast_possible_truncation, reason = "the low half of an entry is a frame")]
const fn frame_of(entry: u64) -> u32 {
    (entry as u32).wrapping_sub(1)
}

/// The low bits choose the place, the high ones are the fingerprint.
#[inline]
const fn hash_of(word: u64) -> u64 {
    let product = word.wrapping_mul(0x9E37_79B9_7F4A_7C15);
    // Not to overflow when steps are added, one bit stays clear.
    (product ^ product >> 32) & (u64::MAX >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn the_table_finds_what_a_map_finds(
            steps in proptest::collection::vec((0_u64..40, any::<bool>()), 1..200)
        ) {
            let frame_count = 16;
            let table = PageTable::new(frame_count);
            let mut words = vec![0; frame_count as usize];
            let mut free: Vec<u32> = (0..frame_count).collect();
            let mut model = BTreeMap::new();
            for (page, wide) in steps {
                let word = if wide { page << 40 | page } else { page };
                if let Some(frame) = model.remove(&word) {
                    table.remove(word, frame, |frame| words[frame as usize]);
                    free.push(frame);
                } else if let Some(frame) = free.pop() {
                    words[frame as usize] = word;
                    table.insert(word, frame);
                    model.insert(word, frame);
                }
                let mut listed: Vec<u32> = table.frames().collect();
                listed.sort_unstable();
                let mut expected: Vec<u32> = model.values().copied().collect();
                expected.sort_unstable();
                prop_assert_eq!(listed, expected);
                for page in 0..40 {
                    for word in [page, page << 40 | page] {
                        let found = table.find(word, |frame| words[frame as usize] == word);
                        prop_assert_eq!(found, model.get(&word).copied());
                    }
                }
            }
        }
    }
}
