//! The page map: where each page lies last. In memory as a whole, 8 bytes a page, in leaves.
//!
//! 1. A leaf that holds no page does not exist.
//! 2. `page_count` is the number of pages that have a location.

use super::record::Location;
use crate::{FileId, PageAddress};
use nandu_base::to_index;
use std::collections::BTreeMap;

const LEAF_BITS: u32 = 9;
/// Pages of a leaf.
const LEAF_PAGES: usize = 1 << LEAF_BITS;

type Leaf = Box<[Location; LEAF_PAGES]>;

/// Locations of pages by their addresses.
#[derive(Clone, Debug, Default)]
pub(super) struct PageMap {
    /// By the upper bits of the address's word.
    leaves: BTreeMap<u64, Leaf>,
    page_count: u64,
}

impl PageMap {
    pub(super) fn get(&self, address: PageAddress) -> Location {
        let (key, index) = split(address);
        self.leaves.get(&key).map_or(Location::NONE, |leaf| leaf[index])
    }

    /// Sets where a page lies, and gives back where it lay.
    pub(super) fn set(&mut self, address: PageAddress, location: Location) -> Location {
        assert!(!location.is_none(), "a page that was written lies somewhere");
        let (key, index) = split(address);
        let leaf = self.leaves.entry(key).or_insert_with(|| Box::new([Location::NONE; LEAF_PAGES]));
        let before = std::mem::replace(&mut leaf[index], location);
        self.page_count += u64::from(before.is_none());
        before
    }

    /// Forgets where a page lies, and gives it back.
    pub(super) fn remove(&mut self, address: PageAddress) -> Location {
        let (key, index) = split(address);
        let Some(leaf) = self.leaves.get_mut(&key) else { return Location::NONE };
        let before = std::mem::take(&mut leaf[index]);
        self.page_count -= u64::from(!before.is_none());
        if !before.is_none() && leaf.iter().all(|location| location.is_none()) {
            self.leaves.remove(&key);
        }
        before
    }

    /// Forgets the pages of a file from `first_page` on, and hands their locations to `forget`.
    pub(super) fn truncate(
        &mut self,
        file: FileId,
        first_page: u32,
        mut forget: impl FnMut(Location),
    ) {
        let (first_key, first_index) = split(PageAddress::new(file, first_page));
        let (last_key, _) = split(PageAddress::new(file, u32::MAX));
        let mut empty = Vec::new();
        for (&key, leaf) in self.leaves.range_mut(first_key..=last_key) {
            let from = if key == first_key { first_index } else { 0 };
            for location in &mut leaf[from..] {
                if !location.is_none() {
                    forget(std::mem::take(location));
                    self.page_count -= 1;
                }
            }
            if leaf.iter().all(|location| location.is_none()) {
                empty.push(key);
            }
        }
        for key in empty {
            self.leaves.remove(&key);
        }
    }

    /// Bytes of a file's pages as they are stored.
    pub(super) fn stored_bytes(&self, file: FileId) -> u64 {
        let (first, _) = split(PageAddress::new(file, 0));
        let (last, _) = split(PageAddress::new(file, u32::MAX));
        let locations = self.leaves.range(first..=last).flat_map(|(_, leaf)| leaf.iter());
        let there = locations.filter(|location| !location.is_none());
        there.map(|location| u64::from(location.stored_bytes())).sum()
    }

    /// The files that have pages here, in order.
    pub(super) fn files(&self) -> Vec<FileId> {
        let first_pages = self.leaves.keys().map(|&key| PageAddress::from_word(key << LEAF_BITS));
        let mut files: Vec<FileId> = first_pages.map(|address| address.file).collect();
        files.dedup();
        files
    }

    /// How many pages have a location.
    pub(super) const fn page_count(&self) -> u64 {
        self.page_count
    }

    /// All pages that have one, in the order of their addresses.
    pub(super) fn iter(&self) -> impl Iterator<Item = (PageAddress, Location)> {
        self.leaves.iter().flat_map(|(&key, leaf)| {
            let pages = (key << LEAF_BITS..).zip(leaf.iter());
            pages
                .filter(|(_, location)| !location.is_none())
                .map(|(word, &location)| (PageAddress::from_word(word), location))
        })
    }

    /// Runs of neighbouring pages, as they are stored: the first page's word, and their locations,
    /// [`Location::NONE`] among them.
    pub(super) fn runs(&self) -> impl Iterator<Item = (u64, &[Location])> {
        self.leaves.iter().map(|(&key, leaf)| {
            let is_there = |location: &Location| !location.is_none();
            let first = leaf.iter().position(is_there).expect("invariant 1");
            let last = leaf.iter().rposition(is_there).expect("invariant 1");
            ((key << LEAF_BITS) + first as u64, &leaf[first..=last])
        })
    }

    /// How many runs there are.
    pub(super) fn run_count(&self) -> u64 {
        self.leaves.len() as u64
    }

    /// # Panics
    /// If an invariant does not hold.
    pub(super) fn audit(&self) {
        let mut page_count = 0;
        for leaf in self.leaves.values() {
            let count = leaf.iter().filter(|location| !location.is_none()).count() as u64;
            assert!(count > 0, "invariant 1: no leaf is empty");
            page_count += count;
        }
        assert_eq!(page_count, self.page_count, "invariant 2: pages are counted");
    }
}

fn split(address: PageAddress) -> (u64, usize) {
    let word = address.to_word();
    (word >> LEAF_BITS, to_index(word & (LEAF_PAGES as u64 - 1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(file: u16, page: u32) -> PageAddress {
        PageAddress::new(FileId(file), page)
    }

    #[test]
    fn the_map_keeps_and_forgets() {
        let mut map = PageMap::default();
        let at = |unit: u64| Location::new(unit * 16, 16, false);
        for number in 1..2000 {
            assert!(map.set(page(1, number), at(u64::from(number))).is_none());
            map.set(page(2, number), at(u64::from(number) + 5000));
        }
        assert_eq!(map.set(page(1, 7), at(9000)), at(7));
        map.audit();
        let mut gone = Vec::new();
        map.truncate(FileId(1), 600, |location| gone.push(location));
        assert_eq!(gone, (600..2000).map(at).collect::<Vec<_>>());
        assert_eq!(map.page_count(), 599 + 1999);
        assert_eq!([1, 2, 3].map(|file| map.stored_bytes(FileId(file))), [599 * 16, 1999 * 16, 0]);
        assert_eq!(map.get(page(1, 599)), at(599));
        assert!(map.get(page(1, 600)).is_none());
        assert_eq!(map.get(page(2, 1)), at(5001), "the next file is left alone");
        map.audit();
        let mut rebuilt = PageMap::default();
        for (first, run) in map.runs() {
            for (word, &location) in (first..).zip(run) {
                if !location.is_none() {
                    rebuilt.set(PageAddress::from_word(word), location);
                }
            }
        }
        assert!(rebuilt.iter().eq(map.iter()), "runs hold all pages");
        map.truncate(FileId(1), 1, |_| {});
        map.truncate(FileId(2), 1, |_| {});
        assert_eq!((map.page_count(), map.run_count()), (0, 0));
    }
}
