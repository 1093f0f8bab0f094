//! A tournament of losers (Knuth, volume 3, 5.4.1): the first of many records, by one comparison a
//! level for each that is taken.
//!
//! ```text
//!   champion   nodes[0]
//!                 1            node j holds the loser of the match above its
//!              2     3         children 2j and 2j + 1; leaf i is the child n + i
//!             4 5   L0 L1
//!          L2 L3 L4 L5
//! ```
//!
//! 1. Each leaf but the champion is in exactly one node.
//! 2. No leaf of a subtree comes before the winner of that subtree; a leaf that is out loses
//!    against all.

use crate::{Order, Record};
use nandu_base::to_u32;
use std::cmp::Ordering;

/// A record that plays.
#[derive(Clone, Copy, Debug)]
struct Leaf<R> {
    record: R,
    is_in: bool,
}

/// A leaf in a match: most are decided without a look at its record.
#[derive(Clone, Copy, Debug, Default)]
struct Player {
    prefix: u64,
    leaf: u32,
}

/// Bytes of memory that a leaf takes.
pub(crate) const fn leaf_bytes<R>() -> u64 {
    (size_of::<Leaf<R>>() + 2 * size_of::<Player>()) as u64
}

/// The tournament of the leaves.
#[derive(Debug)]
pub(crate) struct LoserTree<R, O> {
    leaves: Vec<Leaf<R>>,
    /// The champion, then the losers.
    nodes: Vec<Player>,
    /// Winners, while a tree is built.
    winners: Vec<Player>,
    in_count: usize,
    order: O,
}

impl<R: Record, O: Order<R>> LoserTree<R, O> {
    pub(crate) const fn new(order: O) -> Self {
        Self { leaves: Vec::new(), nodes: Vec::new(), winners: Vec::new(), in_count: 0, order }
    }

    /// Forgets all leaves.
    pub(crate) fn clear(&mut self) {
        self.leaves.clear();
        self.in_count = 0;
    }

    /// Appends a leaf to a tree that is to be built: one that is out without a record.
    pub(crate) fn push(&mut self, record: Option<R>) {
        let leaf = match record {
            Some(record) => Leaf { record, is_in: true },
            None => match self.leaves.first() {
                Some(&first) => Leaf { is_in: false, ..first },
                // Any bytes do for a record that never comes out.
                None => Leaf { record: nothing(), is_in: false },
            },
        };
        self.in_count += usize::from(leaf.is_in);
        self.leaves.push(leaf);
    }

    fn player(&self, leaf: usize) -> Player {
        let Leaf { record, is_in } = &self.leaves[leaf];
        let prefix = if *is_in { self.order.prefix(record) } else { u64::MAX };
        Player { prefix, leaf: to_u32(leaf as u64) }
    }

    /// Has all leaves play.
    pub(crate) fn build(&mut self) {
        let count = self.leaves.len();
        self.nodes.clear();
        self.nodes.resize(count.max(1), Player::default());
        self.winners.clear();
        self.winners.resize(count, Player::default());
        for node in (1..count).rev() {
            let winner_of = |child: usize| match child.checked_sub(count) {
                Some(leaf) => self.player(leaf),
                None => self.winners[child],
            };
            let (left, right) = (winner_of(2 * node), winner_of(2 * node + 1));
            let (winner, loser) = match self.beats(left, right) {
                true => (left, right),
                false => (right, left),
            };
            self.winners[node] = winner;
            self.nodes[node] = loser;
        }
        match count {
            0 => {}
            1 => self.nodes[0] = self.player(0),
            _ => self.nodes[0] = self.winners[1],
        }
    }

    /// The leaf whose record comes first, and the record.
    #[inline]
    pub(crate) fn champion(&self) -> Option<(usize, R)> {
        if self.in_count == 0 {
            return None;
        }
        let leaf = self.nodes[0].leaf as usize;
        Some((leaf, self.leaves[leaf].record))
    }

    /// The record with which a leaf plays, or played.
    pub(crate) fn record_of(&self, leaf: usize) -> R {
        self.leaves[leaf].record
    }

    /// Puts another record in place of the champion's.
    #[inline]
    pub(crate) fn replace(&mut self, record: R) {
        let leaf = self.nodes[0].leaf;
        self.leaves[leaf as usize].record = record;
        self.replay(Player { prefix: self.order.prefix(&record), leaf });
    }

    /// Has the champion be out.
    pub(crate) fn retire(&mut self) {
        let leaf = self.nodes[0].leaf;
        let champion = &mut self.leaves[leaf as usize];
        self.in_count -= usize::from(std::mem::take(&mut champion.is_in));
        self.replay(Player { prefix: u64::MAX, leaf });
    }

    #[inline]
    fn replay(&mut self, player: Player) {
        let mut winner = player;
        let mut node = (player.leaf as usize + self.leaves.len()) / 2;
        while node > 0 {
            let other = self.nodes[node];
            // Who wins is a coin's toss, which no processor foresees: both are chosen, not jumped to.
            let other_wins = self.beats(other, winner);
            self.nodes[node] = std::hint::select_unpredictable(other_wins, winner, other);
            winner = std::hint::select_unpredictable(other_wins, other, winner);
            node /= 2;
        }
        self.nodes[0] = winner;
    }

    #[inline]
    fn beats(&self, left: Player, right: Player) -> bool {
        if left.prefix == right.prefix {
            return self.beats_by_record(left.leaf, right.leaf);
        }
        left.prefix < right.prefix
    }

    #[cold]
    fn beats_by_record(&self, left: u32, right: u32) -> bool {
        let (one, other) = (&self.leaves[left as usize], &self.leaves[right as usize]);
        match (one.is_in, other.is_in) {
            (true, true) => {
                let order = self.order.compare(&one.record, &other.record);
                order.then_with(|| left.cmp(&right)) == Ordering::Less
            }
            (is_in, _) => is_in,
        }
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        let mut places: Vec<u32> = self.nodes.iter().map(|player| player.leaf).collect();
        places.sort_unstable();
        let all: Vec<u32> = (0..to_u32(self.leaves.len() as u64)).collect();
        assert_eq!(places, all, "invariant 1");
        let champion = self.nodes[0];
        let best = all.iter().filter(|&&leaf| leaf != champion.leaf);
        let best = { best }.all(|&leaf| !self.beats(self.player(leaf as usize), champion));
        let is_current =
            |player: &Player| player.prefix == self.player(player.leaf as usize).prefix;
        assert!(self.nodes.iter().all(is_current), "a player has its record's prefix");
        assert!(best, "invariant 2");
    }
}

/// Some record, for a leaf that is out.
fn nothing<R: Record>() -> R {
    // A record of more bytes is given by whoever pushes leaves that are in first.
    R::decode(&vec![0; R::BYTES])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Natural;
    use proptest::collection::vec;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn records_come_out_in_order(
            mut lists in vec(vec(any::<u16>(), 0..20), 1..20),
            tops in any::<bool>(),
        ) {
            // The greatest record is not taken for a leaf that is out.
            let widen = |n: u16| if tops && n > 60_000 { u64::MAX } else { u64::from(n % 100) };
            let mut expected: Vec<u64> = lists.iter().flatten().map(|&n| widen(n)).collect();
            expected.sort_unstable();
            let mut lists: Vec<Vec<u64>> = lists.iter_mut().map(|list| {
                let mut list: Vec<u64> = list.iter().map(|&n| widen(n)).collect();
                list.sort_unstable_by(|left, right| right.cmp(left));
                list
            }).collect();
            let mut tree = LoserTree::new(Natural);
            lists.iter_mut().for_each(|list| tree.push(list.pop()));
            tree.build();
            tree.audit();
            let mut found = Vec::new();
            while let Some((leaf, record)) = tree.champion() {
                found.push(record);
                match lists[leaf].pop() {
                    Some(next) => tree.replace(next),
                    None => tree.retire(),
                }
                tree.audit();
            }
            prop_assert_eq!(found, expected);
        }
    }
}
