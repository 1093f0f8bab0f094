//! Which bytes of a file were written: a set of ranges, few of them.
//!
//! 1. Ranges are not empty, ascend, and have gaps between them.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of byte positions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct RangeSet {
    /// End by start.
    ends: BTreeMap<u64, u64>,
}

impl RangeSet {
    /// Adds all of `range`.
    pub(super) fn add(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let (mut start, mut end) = (range.start, range.end);
        while let Some((&near_start, &near_end)) = self.ends.range(..=end).next_back() {
            if near_end < start {
                break;
            }
            start = start.min(near_start);
            end = end.max(near_end);
            self.ends.remove(&near_start);
        }
        self.ends.insert(start, end);
    }

    /// Takes all of `range` out.
    pub(super) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        while let Some((&near_start, &near_end)) = self.ends.range(..range.end).next_back() {
            if near_end <= range.start {
                break;
            }
            self.ends.remove(&near_start);
            if near_end > range.end {
                self.ends.insert(range.end, near_end);
            }
            if near_start < range.start {
                self.ends.insert(near_start, range.start);
                break;
            }
        }
    }

    /// Whether all of `range` is in the set.
    pub(super) fn covers(&self, range: &Range<u64>) -> bool {
        range.is_empty()
            || self.ends.range(..=range.start).next_back().is_some_and(|(_, &end)| end >= range.end)
    }

    /// The parts of `range` that are in the set, ascending.
    pub(super) fn inside(&self, range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
        let first = self.ends.range(..=range.start).next_back().map_or(range.start, |(&s, _)| s);
        let end = range.end.max(first);
        self.ends.range(first..end).filter_map(move |(&start, &stop)| {
            let part = start.max(range.start)..stop.min(range.end);
            (!part.is_empty()).then_some(part)
        })
    }

    /// The parts of `range` that are not in the set, ascending.
    pub(super) fn outside(&self, range: Range<u64>) -> Vec<Range<u64>> {
        let mut gaps = Vec::new();
        let mut from = range.start;
        for part in self.inside(range.clone()) {
            if from < part.start {
                gaps.push(from..part.start);
            }
            from = part.end;
        }
        if from < range.end {
            gaps.push(from..range.end);
        }
        gaps
    }

    /// The smallest gap between two ranges.
    pub(super) fn smallest_gap(&self) -> Option<Range<u64>> {
        let starts = self.ends.keys().skip(1);
        let gaps = self.ends.values().zip(starts).map(|(&end, &start)| end..start);
        gaps.min_by_key(|gap| gap.end - gap.start)
    }

    /// How many ranges there are.
    pub(super) fn count(&self) -> usize {
        self.ends.len()
    }

    /// All ranges, ascending.
    pub(super) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(&start, &end)| start..end)
    }

    /// Where the last range ends.
    pub(super) fn end(&self) -> u64 {
        self.ends.last_key_value().map_or(0, |(_, &end)| end)
    }

    /// Asserts the numbered invariant.
    ///
    /// # Panics
    /// If it does not hold.
    pub(super) fn audit(&self) {
        let mut last_end = None;
        for (&start, &end) in &self.ends {
            assert!(start < end, "invariant 1: no range is empty");
            assert!(last_end.is_none_or(|last| last < start), "invariant 1: there are gaps");
            last_end = Some(end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::to_index;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn the_set_is_what_positions_one_by_one_would_give(
            steps in proptest::collection::vec((any::<bool>(), 0_u64..60, 0_u64..20), 1..40),
            (asked, length) in (0_u64..60, 0_u64..40),
        ) {
            let mut set = RangeSet::default();
            let mut model = [false; 100];
            for (adds, start, count) in steps {
                let range = start..start + count;
                if adds { set.add(range.clone()) } else { set.remove(range.clone()) }
                model[to_index(start)..to_index(start + count)].fill(adds);
                set.audit();
            }
            let range = asked..asked + length;
            let position = |part: Range<u64>| part.collect::<Vec<_>>();
            let inside: Vec<u64> = set.inside(range.clone()).flat_map(position).collect();
            let outside: Vec<u64> = set.outside(range.clone()).into_iter().flat_map(position).collect();
            let expected = |wanted| range.clone().filter(move |&at| model[to_index(at)] == wanted);
            prop_assert_eq!(&inside, &expected(true).collect::<Vec<_>>());
            prop_assert_eq!(&outside, &expected(false).collect::<Vec<_>>());
            prop_assert_eq!(set.covers(&range), outside.is_empty());
            let all: usize = set.iter().map(|range| to_index(range.end - range.start)).sum();
            prop_assert_eq!(all, model.iter().filter(|&&there| there).count());
            let last = model.iter().rposition(|&there| there).map_or(0, |at| at as u64 + 1);
            prop_assert_eq!(set.end(), last);
        }
    }
}
