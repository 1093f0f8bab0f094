//! Nodes of each level that a search found: of the first million all, of those behind them the largest.

/// So many levels are told with their nodes; a graph may have as many as it has nodes.
const LEVELS_TOLD_MAX: usize = 1_000_000;
/// So many rows of levels are shown to people, those with most nodes.
pub(super) const LEVELS_SHOWN: usize = 10;

/// Nodes of each level, as a search comes to them one level after the other.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// Those that are told one by one.
    pub(super) counts: Vec<u64>,
    /// Of those behind them the ones with most nodes, each with its count; the level at hand is the last one.
    pub(super) later: Vec<(u64, u64)>,
}

impl Levels {
    /// The search comes to a node of this level; levels do not fall.
    pub(super) fn add_node(&mut self, level: u64) {
        let index = usize::try_from(level).unwrap_or(usize::MAX);
        if index < LEVELS_TOLD_MAX {
            if index == self.counts.len() {
                self.counts.push(0);
            }
            self.counts[index] += 1;
            return;
        }
        match self.later.last_mut().filter(|(at_hand, _)| *at_hand == level) {
            Some((_, count)) => *count += 1,
            None => {
                self.keep_largest();
                self.later.push((level, 1));
            }
        }
    }

    fn keep_largest(&mut self) {
        self.later.sort_by_key(|&(level, count)| (std::cmp::Reverse(count), level));
        self.later.truncate(LEVELS_SHOWN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_levels_behind_those_that_are_told_the_largest_are_kept() {
        let mut levels = Levels::default();
        let told_max = LEVELS_TOLD_MAX as u64;
        (0..told_max).for_each(|level| levels.add_node(level));
        for level in told_max..told_max + 1000 {
            (0..=level % 50).for_each(|_| levels.add_node(level));
        }
        assert_eq!(levels.counts, vec![1; LEVELS_TOLD_MAX]);
        levels.keep_largest();
        let expected: Vec<_> = (0..10).map(|number| (told_max + 49 + number * 50, 50)).collect();
        assert_eq!(levels.later, expected);
    }
}
