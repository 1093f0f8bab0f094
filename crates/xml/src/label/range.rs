//! Range labels of siblings: an interval each, within that of the node above. To compare with: what
//! relabelling costs where numbers run out (S004, section 5.2).
//!
//! ```text
//!   parent  ├──────────────────────────────────────────────┤
//!   child      ├── 1 ──┤    ├── 2 ──┤    ├── 3 ──┤
//!                         ├─┤ a new one takes the middle third of a gap
//! ```
//!
//! 1. Behind the last and before the first a new interval is [`STEP`] wide and as far away.
//! 2. Where a gap has no room, all siblings get new intervals, evenly spread, and so would all that
//!    lie below them.

/// How wide intervals are at open ends.
pub const STEP: u64 = 1 << 20;

/// Siblings with an open place, where the next one is inserted: those before it, and those behind
/// it, the nearest last.
#[derive(Clone, Debug, Default)]
pub struct RangeSiblings {
    left: Vec<(u64, u64)>,
    right: Vec<(u64, u64)>,
    relabelled_count: u64,
}

impl RangeSiblings {
    /// Inserts a node at the open place, which is then before it, or behind it.
    pub fn insert(&mut self, place_is_behind: bool) {
        let interval = self.interval().unwrap_or_else(|| {
            self.spread();
            self.interval().expect("evenly spread intervals have gaps")
        });
        if place_is_behind { self.left.push(interval) } else { self.right.push(interval) }
    }

    /// How many nodes got new labels so far.
    #[must_use]
    pub const fn relabelled_count(&self) -> u64 {
        self.relabelled_count
    }

    /// Asserts that no two intervals overlap.
    ///
    /// # Panics
    /// If two do.
    pub fn audit(&self) {
        let all: Vec<_> = self.left.iter().chain(self.right.iter().rev()).collect();
        assert!(all.iter().all(|(start, end)| start < end), "an interval has a start and an end");
        assert!(all.windows(2).all(|pair| pair[0].1 < pair[1].0), "intervals are in order");
    }

    /// An interval at the open place, if there is room.
    fn interval(&self) -> Option<(u64, u64)> {
        match (self.left.last(), self.right.last()) {
            (None, None) => Some((u64::MAX / 2, u64::MAX / 2 + STEP)),
            (Some(&(_, end)), None) => Some((end.checked_add(STEP)?, end.checked_add(2 * STEP)?)),
            (None, Some(&(start, _))) => {
                Some((start.checked_sub(2 * STEP)?, start.checked_sub(STEP)?))
            }
            (Some(&(_, low)), Some(&(high, _))) => {
                let third = (high - low) / 3;
                (third > 0).then(|| (low + third, low + 2 * third))
            }
        }
    }

    /// What invariant 2 says.
    fn spread(&mut self) {
        let count = (self.left.len() + self.right.len()) as u64;
        let width = u64::MAX / (2 * count + 4);
        let intervals = self.left.iter_mut().chain(self.right.iter_mut().rev());
        for (interval, place) in intervals.zip(1u64..) {
            *interval = (2 * place * width, (2 * place + 1) * width);
        }
        self.relabelled_count += count;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gap_is_full_after_some_forty_insertions_and_all_are_relabelled() {
        let mut siblings = RangeSiblings::default();
        siblings.insert(true);
        siblings.insert(false);
        for _ in 0..11 {
            siblings.insert(true);
        }
        assert_eq!(siblings.relabelled_count(), 0);
        for _ in 0..200 {
            siblings.insert(true);
            siblings.audit();
        }
        assert!(siblings.relabelled_count() > 200, "{}", siblings.relabelled_count());
    }
}
