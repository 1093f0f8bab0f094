//! Which runs are merged next where there are more than the last merge takes (Knuth, volume 3,
//! 5.4.9): of records, of rows of tables, and in what predicts either.
//!
//! ```text
//!   11 runs, of which 4 may stay, 4 to a merge:   7 are too many, and a merge of k leaves k - 1 fewer
//!     o o o o o o o o o o o
//!     └2┘ └──4──┘ └──4──┘ o                       2 first, so that the others are full
//! ```
//!
//! 1. A merge takes as few runs as make the later ones full; whoever merges takes the smallest.

/// How many runs merges take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MergePlan {
    /// Runs of a merge that writes one, 2 at least.
    pub fan_in: u64,
    /// Runs of the last merge, whose result goes on without being written.
    pub last_fan_in: u64,
}

impl MergePlan {
    /// How many of so many runs are merged to one next; none if the last merge takes them all.
    ///
    /// # Panics
    /// If they are too many, and a merge takes fewer than two.
    #[must_use]
    pub const fn next_merge(&self, run_count: u64) -> Option<u64> {
        if run_count <= self.last_fan_in {
            return None;
        }
        assert!(self.fan_in >= 2, "a merge of one run leaves as many");
        Some(match (run_count - self.last_fan_in) % (self.fan_in - 1) {
            0 => self.fan_in,
            rest => rest + 1,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_merge_is_the_small_one() {
        let plan = MergePlan { fan_in: 4, last_fan_in: 4 };
        // 6 of 10 runs have to go, in two full merges.
        assert_eq!(plan.next_merge(10), Some(4));
        // 7 of 11 have to go; a merge of two first.
        assert_eq!(plan.next_merge(11), Some(2));
        assert_eq!(plan.next_merge(4), None);
        assert_eq!(MergePlan { fan_in: 2, last_fan_in: 4 }.next_merge(5), Some(2));
    }

    proptest! {
        #[test]
        fn later_merges_are_full_and_the_last_one_has_all_it_takes(
            fan_in in 2_u64..9, last_fan_in in 1_u64..9, mut run_count in 0_u64..200,
        ) {
            let plan = MergePlan { fan_in, last_fan_in };
            let is_merged = run_count > last_fan_in;
            let mut is_first = true;
            while let Some(merged) = plan.next_merge(run_count) {
                prop_assert!((2..=fan_in).contains(&merged) && merged <= run_count);
                prop_assert!(is_first || merged == fan_in);
                run_count -= merged - 1;
                is_first = false;
            }
            let is_full = run_count == last_fan_in;
            prop_assert!(is_full || !is_merged);
            prop_assert!(run_count <= last_fan_in);
        }
    }
}
