//! Which blocks of a store are in use.
//!
//! ```text
//!   0 ────────────────────────────── end        nothing at or past the end is in use
//!   [A A A][ free ][B B][ free ][C]
//! ```
//!
//! 1. Free ranges lie apart, with something in use between any two of them and behind the last.
//! 2. An extent that was given out overlaps with no other one and with nothing that is free.

use crate::ExternalError;
use nandu_storage::StorageError;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Blocks of a store, at most: the number of one is part of its checksum.
const BLOCK_COUNT_MAX: u64 = u32::MAX as u64;

/// Blocks in a row that belong to one structure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Extent {
    /// The first of them.
    pub(crate) first: u64,
    /// How many there are.
    pub(crate) count: u64,
    /// What stands in the blocks written since: bytes of an earlier owner are not taken for others.
    pub(crate) stamp: u32,
}

/// The blocks of a store.
#[derive(Debug)]
pub(crate) struct Room {
    /// Extents begin at multiples of this and have a multiple of it, so that each goes round all
    /// volumes.
    unit: u64,
    end: u64,
    peak: u64,
    /// The first block of what is free, and how many there are.
    free: BTreeMap<u64, u64>,
    /// What was given back since this is held, where it is.
    held: Option<Vec<Extent>>,
    last_stamp: u32,
}

impl Room {
    pub(crate) fn new(volume_count: usize) -> Self {
        let unit = volume_count as u64;
        Self { unit, end: 0, peak: 0, free: BTreeMap::new(), held: None, last_stamp: 0 }
    }

    /// The room of a store with these extents in use and nothing else, after `last_stamp`; `None`
    /// if they overlap, are not of whole units, or have stamps that were not given.
    pub(crate) fn with(
        volume_count: usize,
        extents: &mut [Extent],
        last_stamp: u32,
    ) -> Option<Self> {
        extents.sort_unstable_by_key(|extent| extent.first);
        let mut room = Self { last_stamp, ..Self::new(volume_count) };
        for extent in extents {
            let &mut Extent { first, count, stamp } = extent;
            let end = first.checked_add(count).filter(|&end| end <= BLOCK_COUNT_MAX)?;
            let is_whole = first.is_multiple_of(room.unit) && count.is_multiple_of(room.unit);
            if !is_whole || count == 0 || first < room.end || stamp == 0 {
                return None;
            }
            if first > room.end {
                room.free.insert(room.end, first - room.end);
            }
            room.end = end;
        }
        room.peak = room.end;
        Some(room)
    }

    /// No stamp above this was given yet.
    pub(crate) const fn last_stamp(&self) -> u32 {
        self.last_stamp
    }

    /// An extent of at least `wanted` blocks.
    pub(crate) fn allocate(&mut self, wanted: u64) -> Result<Extent, ExternalError> {
        let count = wanted.max(1).next_multiple_of(self.unit);
        // A stamp that comes again after so many extents finds nothing of its first owner.
        self.last_stamp = self.last_stamp.checked_add(1).unwrap_or(1);
        let stamp = self.last_stamp;
        let found = self.free.iter().find(|&(_, &free_count)| free_count >= count);
        if let Some((&first, &free_count)) = found {
            self.free.remove(&first);
            if free_count > count {
                self.free.insert(first + count, free_count - count);
            }
            return Ok(Extent { first, count, stamp });
        }
        let first = self.end;
        match first.checked_add(count).filter(|&end| end <= BLOCK_COUNT_MAX) {
            Some(end) => self.end = end,
            None => {
                let what = "a store has no more than 2^32 blocks; use larger ones".to_owned();
                return Err(StorageError::NoSpace { what }.into());
            }
        }
        self.peak = self.peak.max(self.end);
        Ok(Extent { first, count, stamp })
    }

    /// What is given back from now on is not given out again; what was held before is free.
    pub(crate) fn hold(&mut self) {
        self.let_go();
        self.held = Some(Vec::new());
    }

    /// What was held is free, and nothing more is held.
    pub(crate) fn let_go(&mut self) {
        for extent in self.held.take().unwrap_or_default() {
            self.release(extent);
        }
    }

    /// Takes back an extent, or the rest of one.
    pub(crate) fn release(&mut self, extent: Extent) {
        let Extent { mut first, mut count, .. } = extent;
        if count == 0 {
            return;
        }
        if let Some(held) = &mut self.held {
            held.push(extent);
            return;
        }
        if let Some((&before, &before_count)) = self.free.range(..first).next_back()
            && before + before_count == first
        {
            self.free.remove(&before);
            first = before;
            count += before_count;
        }
        if let Some(after_count) = self.free.remove(&(first + count)) {
            count += after_count;
        }
        match first + count == self.end {
            true => self.end = first,
            false => _ = self.free.insert(first, count),
        }
    }

    /// Blocks in use.
    pub(crate) fn used_count(&self) -> u64 {
        self.end - self.free.values().sum::<u64>()
    }

    /// The most blocks that the files were long for.
    pub(crate) const fn peak_count(&self) -> u64 {
        self.peak
    }

    /// Asserts invariant 1, and that units are whole.
    pub(crate) fn audit(&self) {
        let mut last_end = None;
        for (&first, &count) in &self.free {
            assert!(count > 0 && first + count < self.end, "invariant 1: behind all that is free");
            assert!(last_end.is_none_or(|end| first > end), "invariant 1: apart");
            last_end = Some(first + count);
        }
        assert!(self.end <= self.peak, "the peak is the most");
        assert!(self.end.is_multiple_of(self.unit), "extents go round all volumes");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::collection::vec;
    use proptest::prelude::*;
    use proptest::sample::Index;

    proptest! {
        #[test]
        fn extents_never_overlap_and_come_back(
            unit in 1_usize..4,
            steps in vec((any::<bool>(), 0_u64..10, any::<Index>()), 0..200),
        ) {
            let mut room = Room::new(unit);
            let mut given: Vec<Extent> = Vec::new();
            for (takes, wanted, which) in steps {
                if takes || given.is_empty() {
                    let extent = room.allocate(wanted).unwrap();
                    prop_assert!(extent.count >= wanted.max(1));
                    let end = |extent: &Extent| extent.first + extent.count;
                    let overlaps = |other: &Extent| {
                        extent.first < end(other) && other.first < end(&extent)
                    };
                    prop_assert!(!given.iter().any(overlaps));
                    prop_assert!(given.iter().all(|other| other.stamp != extent.stamp));
                    given.push(extent);
                } else {
                    let extent = given.swap_remove(which.index(given.len()));
                    room.release(extent);
                }
                room.audit();
                let count: u64 = given.iter().map(|extent| extent.count).sum();
                prop_assert_eq!(room.used_count(), count);
            }
            for extent in given {
                room.release(extent);
            }
            prop_assert_eq!((room.end, room.free.len()), (0, 0));
        }
    }

    #[test]
    fn a_store_has_an_end() {
        let mut room = Room::new(1);
        room.allocate(BLOCK_COUNT_MAX).unwrap();
        let error = room.allocate(1).unwrap_err();
        assert!(error.to_string().contains("2^32"), "{error}");
        room.audit();
    }
}
