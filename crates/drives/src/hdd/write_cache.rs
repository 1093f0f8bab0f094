//! The write-back cache: dirty runs of sectors, joined where they touch.
//!
//! 1. Runs are not empty, do not overlap and do not touch.
//! 2. The sectors of all runs are at most `sector_count_max` and the runs at most `extent_count_max`,
//!    but one write larger than the cache is let in alone.
//! 3. A run that is being written to the platters still counts until it is there.

use std::collections::BTreeMap;

/// The sectors that wait in memory to be written to the disk.
#[derive(Clone, Debug)]
pub(crate) struct WriteCache {
    sector_count_max: u64,
    extent_count_max: usize,
    /// First sector and end of each run.
    extents: BTreeMap<u64, u64>,
    sector_count: u64,
}

impl WriteCache {
    pub(crate) fn new(sector_count_max: u64, extent_count_max: u32) -> Self {
        let extent_count_max = extent_count_max as usize;
        Self { sector_count_max, extent_count_max, extents: BTreeMap::new(), sector_count: 0 }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.extents.is_empty()
    }

    /// Whether half of the room is taken, so that writing back should begin.
    pub(crate) fn is_half_full(&self) -> bool {
        self.sector_count * 2 >= self.sector_count_max
            || self.extents.len() * 2 > self.extent_count_max
    }

    /// Takes `first..end` in, or says that there is no room.
    pub(crate) fn insert(&mut self, first: u64, end: u64) -> bool {
        let (mut start, mut stop, mut covered) = (first, end, 0);
        let mut absorbed = Vec::new();
        for (&other, &other_end) in self.extents.range(..=end).rev() {
            if other_end < first {
                break;
            }
            absorbed.push(other);
            covered += other_end - other;
            (start, stop) = (start.min(other), stop.max(other_end));
        }
        let sector_count = self.sector_count - covered + (stop - start);
        let extent_count = self.extents.len() - absorbed.len() + 1;
        let fits = sector_count <= self.sector_count_max && extent_count <= self.extent_count_max;
        if !fits && !self.is_empty() {
            return false;
        }
        for other in absorbed {
            self.extents.remove(&other);
        }
        self.extents.insert(start, stop);
        self.sector_count = sector_count;
        true
    }

    /// Removes `first..end`, which is on the platters now.
    pub(crate) fn remove(&mut self, first: u64, end: u64) {
        let (&start, &stop) =
            self.extents.range(..=first).next_back().expect("only dirty sectors are written back");
        assert!(end <= stop, "a run that is written back is one run");
        self.extents.remove(&start);
        if start < first {
            self.extents.insert(start, first);
        }
        if end < stop {
            self.extents.insert(end, stop);
        }
        self.sector_count -= end - first;
    }

    /// Whether all of `first..end` is here.
    pub(crate) fn covers(&self, first: u64, end: u64) -> bool {
        self.extents.range(..=first).next_back().is_some_and(|(_, &stop)| end <= stop)
    }

    /// All runs in order.
    pub(crate) fn extents(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.extents.iter().map(|(&first, &end)| (first, end))
    }

    /// Asserts the numbered invariants of the cache.
    pub(crate) fn audit(&self) {
        let mut previous_end = None;
        for (first, end) in self.extents() {
            assert!(first < end, "invariant 1: no run is empty");
            assert!(previous_end.is_none_or(|before| before < first), "invariant 1: apart");
            previous_end = Some(end);
        }
        let total: u64 = self.extents().map(|(first, end)| end - first).sum();
        assert_eq!(total, self.sector_count);
        let alone = self.extents.len() == 1;
        assert!(alone || total <= self.sector_count_max, "invariant 2: bytes");
        assert!(self.extents.len() <= self.extent_count_max, "invariant 2: runs");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::Rng;
    use std::collections::BTreeSet;

    #[test]
    fn adjacent_and_overlapping_writes_join() {
        let mut cache = WriteCache::new(100, 4);
        for (first, end) in [(10, 20), (30, 40), (20, 25), (24, 30)] {
            assert!(cache.insert(first, end));
        }
        assert_eq!(cache.extents().collect::<Vec<_>>(), [(10, 40)]);
        assert!(cache.covers(12, 40) && !cache.covers(12, 41) && !cache.covers(9, 12));
        cache.remove(10, 20);
        assert_eq!(cache.extents().collect::<Vec<_>>(), [(20, 40)]);
    }

    #[test]
    fn room_is_limited_in_sectors_and_in_runs() {
        let mut cache = WriteCache::new(100, 2);
        assert!(cache.insert(0, 10) && cache.insert(20, 30));
        assert!(!cache.insert(50, 51), "a third run");
        assert!(cache.insert(10, 20), "joins both");
        assert!(!cache.insert(200, 271), "too many sectors");
        cache.remove(0, 30);
        assert!(cache.insert(0, 1000), "alone it may be larger than the cache");
        assert!(!cache.insert(2000, 2001));
        cache.audit();
    }

    #[test]
    fn the_cache_agrees_with_a_set_of_sectors() {
        let mut rng = Rng::new(5);
        let mut cache = WriteCache::new(300, 12);
        let mut model: BTreeSet<u64> = BTreeSet::new();
        for _ in 0..5000 {
            let first = rng.below(1000);
            let end = first + 1 + rng.below(40);
            if rng.below(3) > 0 {
                if cache.insert(first, end) {
                    model.extend(first..end);
                }
                cache.audit();
                continue;
            }
            let any = cache.extents().nth(nandu_base::to_index(rng.below(4)));
            if let Some((first, end)) = any {
                let part = first + 1 + rng.below(end - first);
                cache.remove(first, part);
                model.retain(|sector| !(first..part).contains(sector));
            }
            cache.audit();
            let dirty: BTreeSet<u64> = cache.extents().flat_map(|(a, b)| a..b).collect();
            assert_eq!(dirty, model);
        }
    }
}
