//! Runs of replacement selection, by length. Keys in random order are a snowplow on a ring (Knuth, volume 3,
//! 5.4.1): the first run has e - 1 work spaces, the second e^2 - 2e, all later ones two. When the input ends
//! within a run, what is in the work space is divided between that run and one more.
//!
//! ```text
//!   run 1  ├── 1.718 ──┤  run 2  ├── 1.952 ───┤  …  run r  ├── so far ─┼─ (1 - next) C ─┤  run r+1  ├ next C ┤
//!                                                                  input ends
//! ```

use crate::cost::{Curve, CurvePoint, Footprint};
use std::collections::BTreeMap;

/// Lengths of the first runs, in thousandths of the work space; later ones have the last.
const RUN_LENGTHS: [u64; 3] = [1718, 1952, 2000];
/// How much of the work space belongs to the next run, in thousandths, by how far the first run is:
/// (1 + t) ln(1 + t) - t for t = e^u - 1.
const NEXT_OF_FIRST_RUN: [(u64, u64); 9] = [
    (0, 0),
    (215, 22),
    (430, 81),
    (644, 173),
    (859, 294),
    (1074, 439),
    (1289, 607),
    (1503, 794),
    (1718, 1000),
];

/// Runs by their bytes, and how many there are of each.
pub(super) type Runs = BTreeMap<u64, u64>;

/// The runs of all rows that qualify, in a work space of so many rows.
pub(super) fn runs_of(side: &Footprint, space_rows: u64) -> Runs {
    let mut runs = Runs::new();
    let space = space_rows.max(1);
    let mut add = |rows: u64, count: u64| {
        if rows > 0 && count > 0 {
            let bytes = crate::cost::scale_up(side.spilled_bytes, rows, side.tuple_count);
            *runs.entry(bytes).or_insert(0) += count;
        }
    };
    // Rows that are written before the input ends.
    let mut left = side.tuple_count.saturating_sub(space);
    let mut index = 0;
    let length = |index: usize| (space * RUN_LENGTHS[index.min(2)] / 1000).max(1);
    while index < 2 && left >= length(index) {
        add(length(index), 1);
        left -= length(index);
        index += 1;
    }
    if index == 2 {
        add(length(2), left / length(2));
        left %= length(2);
    }
    let next = space * next_share(index, left * 1000 / space) / 1000;
    add(left + space.min(side.tuple_count) - next, 1);
    add(next, 1);
    runs
}

/// How much of the work space belongs to the next run, in thousandths, when a run has so many thousandths of
/// it.
fn next_share(index: usize, progress: u64) -> u64 {
    if index == 0 {
        let points = NEXT_OF_FIRST_RUN.map(|(at, value)| CurvePoint { at, value });
        let curve = Curve::new(points.to_vec()).expect("the points ascend");
        return curve.value_within(progress);
    }
    let length = RUN_LENGTHS[index.min(2)];
    (progress * progress * 1000 / (length * length)).min(1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::RelationStats;

    fn side(tuple_count: u64) -> Footprint {
        let stats = RelationStats::heap(tuple_count / 30 + 1, tuple_count, 100, 4096);
        Footprint::new(&stats, 1_000_000)
    }

    #[test]
    fn runs_have_all_rows_and_knuths_lengths() {
        for tuple_count in [1001, 1500, 2000, 2718, 3000, 5000, 5671, 20_000, 1_000_000] {
            let runs = runs_of(&side(tuple_count), 1000);
            let bytes: u64 = runs.iter().map(|(bytes, count)| bytes * count).sum();
            let run_count: u64 = runs.values().sum();
            assert!(bytes.abs_diff(tuple_count * 100) <= 100 * run_count, "{tuple_count}: {bytes}");
            // N / 2C + 7/6 on average.
            let expected = tuple_count / 2000 + 1;
            assert!(run_count.abs_diff(expected) <= 1, "{tuple_count}: {run_count}");
        }
        assert_eq!(runs_of(&side(2718), 1000), Runs::from([(171_800, 1), (100_000, 1)]));
    }
}
