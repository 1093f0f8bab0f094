//! Runs of a device's allocation units: what a file consists of, and what is free.
//!
//! 1. Free runs do not touch or overlap: each is as long as it can be.

use std::collections::BTreeMap;

/// A run of allocation units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Extent {
    /// The number of its first allocation unit.
    pub(super) first: u32,
    /// How many allocation units there are.
    pub(super) count: u32,
}

impl Extent {
    /// The first unit past it.
    pub(super) const fn end(self) -> u32 {
        self.first + self.count
    }
}

/// The units that nobody has.
#[derive(Clone, Debug, Default)]
pub(super) struct FreeUnits {
    /// Count by first unit.
    counts: BTreeMap<u32, u32>,
}

impl FreeUnits {
    /// Everything in `first..end`.
    pub(super) fn new(first: u32, end: u32) -> Self {
        let mut free = Self::default();
        free.give(Extent { first, count: end - first });
        free
    }

    /// How many units are free.
    pub(super) fn count(&self) -> u64 {
        self.counts.values().map(|&count| u64::from(count)).sum()
    }

    /// Takes a run of up to `wanted` units: the one right behind `after` if it is free, so that a
    /// file grows in place; else the first that is long enough; else the longest.
    pub(super) fn take(&mut self, wanted: u32, after: Option<u32>) -> Option<Extent> {
        let behind = after.and_then(|unit| self.counts.get_key_value(&unit));
        let fits = || self.counts.iter().find(|&(_, &count)| count >= wanted);
        // Of several longest ones the first, so that the place does not hang on the map's order.
        let longest = || self.counts.iter().max_by_key(|&(&first, &count)| (count, !first));
        let (&first, &count) = behind.or_else(fits).or_else(longest)?;
        self.counts.remove(&first);
        let taken = count.min(wanted);
        if taken < count {
            self.counts.insert(first + taken, count - taken);
        }
        Some(Extent { first, count: taken })
    }

    /// Takes exactly `extent`; tells whether all of it was free.
    pub(super) fn take_exactly(&mut self, extent: Extent) -> bool {
        let Some((&first, &count)) = self.counts.range(..=extent.first).next_back() else {
            return false;
        };
        if extent.count == 0
            || u64::from(extent.first) + u64::from(extent.count) > u64::from(first + count)
        {
            return false;
        }
        self.counts.remove(&first);
        if first < extent.first {
            self.counts.insert(first, extent.first - first);
        }
        if extent.end() < first + count {
            self.counts.insert(extent.end(), first + count - extent.end());
        }
        true
    }

    /// Gives a run back.
    ///
    /// # Panics
    /// If part of it is free already.
    pub(super) fn give(&mut self, extent: Extent) {
        if extent.count == 0 {
            return;
        }
        let (mut first, mut count) = (extent.first, extent.count);
        if let Some((&next, &next_count)) = self.counts.range(first..).next() {
            assert!(extent.end() <= next, "units are given back once");
            if extent.end() == next {
                self.counts.remove(&next);
                count += next_count;
            }
        }
        if let Some((&before, &before_count)) = self.counts.range(..first).next_back() {
            assert!(before + before_count <= first, "units are given back once");
            if before + before_count == first {
                self.counts.remove(&before);
                first = before;
                count += before_count;
            }
        }
        self.counts.insert(first, count);
    }

    /// All free runs, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = Extent> {
        self.counts.iter().map(|(&first, &count)| Extent { first, count })
    }

    /// Asserts the numbered invariant.
    ///
    /// # Panics
    /// If it does not hold.
    pub(super) fn audit(&self) {
        let mut last_end = None;
        for extent in self.iter() {
            assert!(extent.count > 0, "invariant 1: no free run is empty");
            assert!(last_end.is_none_or(|end| end < extent.first), "invariant 1: runs are apart");
            last_end = Some(extent.end());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_that_are_given_back_become_one_run() {
        let mut free = FreeUnits::new(10, 40);
        let parts: Vec<Extent> = (0..3).map(|_| free.take(10, None).unwrap()).collect();
        assert_eq!(free.take(1, None), None);
        for index in [0, 2, 1] {
            free.give(parts[index]);
            free.audit();
        }
        assert_eq!(free.iter().collect::<Vec<_>>(), [Extent { first: 10, count: 30 }]);
    }

    #[test]
    fn a_run_is_taken_behind_the_last_one_then_where_it_fits_then_the_longest() {
        let mut free = FreeUnits::new(0, 100);
        assert!(free.take_exactly(Extent { first: 10, count: 5 }));
        assert!(free.take_exactly(Extent { first: 40, count: 20 }));
        assert!(!free.take_exactly(Extent { first: 38, count: 4 }), "part of it is taken");
        assert!(!free.take_exactly(Extent { first: 98, count: 4 }), "it passes the end");
        assert_eq!(free.take(4, Some(60)), Some(Extent { first: 60, count: 4 }));
        assert_eq!(free.take(30, Some(40)), Some(Extent { first: 64, count: 30 }));
        assert_eq!(free.take(30, None), Some(Extent { first: 15, count: 25 }));
        assert_eq!(free.count(), 16);
        free.audit();
    }
}
