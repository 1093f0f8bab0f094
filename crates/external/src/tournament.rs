//! A tournament of losers (Knuth, volume 3, 5.4.1): of many players the first, by one match a level
//! for each that is replaced. Records, rows of a work space and runs of both play in it.
//!
//! ```text
//!   champion  [0]                 node j stands between leaves j-1 and j; its level is the number
//!   losers              [4]       of zeros at the end of j. The node holds the loser of its match,
//!                 [2]         [6] so that each leaf's player is in exactly one place, and n leaves
//!              [1]   [3]   [5]    need n places. A leaf can be appended at any time, and a tree
//!   leaves    0   1 2   3 4   5   can be built within the array that holds its players.
//! ```
//!
//! Keys decide most matches. Where they are equal the caller does, who alone knows what the players
//! stand for: `beats` is an order that agrees with that of keys, in which the lesser one wins. A
//! player of a free leaf beats nobody.
//!
//! 1. Each leaf's player is in exactly one place.
//! 2. No player of a subtree beats the winner of that subtree.

use nandu_base::to_u32;

/// Who plays for a leaf: small, since it is copied in each match.
pub trait Player: Copy {
    /// What it plays with.
    type Key: Ord;

    /// The leaf for which it plays.
    fn leaf(&self) -> u32;

    /// Who has a lesser one wins.
    fn key(&self) -> Self::Key;
}

/// The tree, or players who are to be one.
#[derive(Clone, Debug)]
pub struct Tournament<P> {
    nodes: Vec<P>,
}

impl<P> Default for Tournament<P> {
    fn default() -> Self {
        Self::new()
    }
}

/// The node above `leaf` on a level.
#[inline]
const fn node_above(leaf: usize, level: u32) -> usize {
    (leaf >> (level + 1) << (level + 1)) | 1 << level
}

/// The node above a leaf on the next level, and its bit there.
#[inline]
const fn next_above(node: usize, bit: usize) -> (usize, usize) {
    ((node ^ bit) | bit << 1, bit << 1)
}

impl<P> Tournament<P> {
    /// One without leaves.
    #[must_use]
    pub const fn new() -> Self {
        Self { nodes: Vec::new() }
    }

    /// How many leaves there are.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether there are none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    /// How many leaves there is room for.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Makes room for so many leaves more, and not for others.
    pub fn reserve_exact(&mut self, leaves: usize) {
        self.nodes.reserve_exact(leaves);
    }

    /// Forgets all leaves and keeps the memory.
    pub fn clear(&mut self) {
        self.nodes.clear();
    }

    /// The players, in the order of their leaves while they are no tree.
    #[must_use]
    pub fn players(&self) -> &[P] {
        &self.nodes
    }

    /// The same, to be sorted: whose leaf a player is it says itself.
    pub fn players_mut(&mut self) -> &mut [P] {
        &mut self.nodes
    }
}

impl<P: Player> Tournament<P> {
    /// Appends the player of the next leaf to players that are no tree yet, or to none.
    #[inline]
    pub fn push_unbuilt(&mut self, player: P) {
        self.nodes.push(player);
    }

    /// Makes a tree of the players, in place. Answers how many matches that took.
    pub fn build(&mut self, beats: impl Fn(&P, &P) -> bool) -> u64 {
        let counts = (2..=self.nodes.len()).map(|count| {
            let player = self.nodes[count - 1];
            self.enter(count, player, &beats)
        });
        counts.sum()
    }

    /// Appends the player of the next leaf to the tree. Answers how many matches that took.
    pub fn push(&mut self, player: P, beats: impl Fn(&P, &P) -> bool) -> u64 {
        self.nodes.push(player);
        self.enter(self.nodes.len(), player, &beats)
    }

    /// Puts a player on its leaf, which is free. Answers how many matches that took.
    pub fn fill(&mut self, player: P, beats: impl Fn(&P, &P) -> bool) -> u64 {
        self.enter(self.nodes.len(), player, &beats)
    }

    /// The player whom no other beats; one of a free leaf if all are free, none without leaves.
    #[inline]
    #[must_use]
    pub fn champion(&self) -> Option<P> {
        self.nodes.first().copied()
    }

    /// Puts another player on the champion's leaf. Answers how many matches that took: one for each
    /// level.
    ///
    /// # Panics
    /// If there is no leaf.
    #[inline]
    pub fn replace_champion(&mut self, player: P, beats: impl Fn(&P, &P) -> bool) -> u64 {
        let count = self.nodes.len();
        let (mut winner, mut match_count) = (player, 0);
        let (mut node, mut bit) = (self.nodes[0].leaf() as usize | 1, 1);
        while bit < count {
            if let Some(place) = self.nodes.get_mut(node) {
                let other = *place;
                let (ours, theirs) = (winner.key(), other.key());
                if ours == theirs {
                    return match_count + self.replay((node, bit), winner, beats);
                }
                // Who wins is a coin's toss, which no processor foresees: both are chosen, not
                // jumped to.
                let other_wins = theirs < ours;
                *place = std::hint::select_unpredictable(other_wins, winner, other);
                winner = std::hint::select_unpredictable(other_wins, other, winner);
                match_count += 1;
            }
            (node, bit) = next_above(node, bit);
        }
        self.nodes[0] = winner;
        match_count
    }

    /// The same from a node on. A comparison that has to look at more than keys takes longer than a
    /// jump to the wrong place, and where many keys are equal the next one can be begun meanwhile.
    #[cold]
    #[inline(never)]
    fn replay(
        &mut self,
        (mut node, mut bit): (usize, usize),
        mut winner: P,
        beats: impl Fn(&P, &P) -> bool,
    ) -> u64 {
        let mut match_count = 0;
        while bit < self.nodes.len() {
            if let Some(place) = self.nodes.get_mut(node) {
                match_count += 1;
                if beats(place, &winner) {
                    std::mem::swap(place, &mut winner);
                }
            }
            (node, bit) = next_above(node, bit);
        }
        self.nodes[0] = winner;
        match_count
    }

    /// Puts a player on its free leaf in a tree of `count` leaves. It meets the winners above it
    /// only: who beats a winner beats all whom that one met.
    fn enter(&mut self, count: usize, player: P, beats: &impl Fn(&P, &P) -> bool) -> u64 {
        let leaf = player.leaf();
        let mut match_count = 0;
        // Begin at the node that holds the free leaf as a loser: that node and those above it
        // change.
        let (mut place, mut level) = self.find_above(count, leaf, 0, |other| other == leaf);
        while place != 0 {
            let shift = level + 1;
            let of_subtree = |other: u32| u64::from(other) >> shift == u64::from(leaf) >> shift;
            let (winner_place, winner_level) = self.find_above(count, leaf, shift, of_subtree);
            match_count += 1;
            if !beats(&player, &self.nodes[winner_place]) {
                break;
            }
            self.nodes[place] = self.nodes[winner_place];
            (place, level) = (winner_place, winner_level);
        }
        self.nodes[place] = player;
        match_count
    }

    /// The first place above `leaf`, from a level on, that holds a leaf like this; 0 for the
    /// champion's.
    #[inline]
    fn find_above(
        &self,
        count: usize,
        leaf: u32,
        mut level: u32,
        is_wanted: impl Fn(u32) -> bool,
    ) -> (usize, u32) {
        while 1 << level < count {
            let node = node_above(leaf as usize, level);
            if node < count && is_wanted(self.nodes[node].leaf()) {
                return (node, level);
            }
            level += 1;
        }
        (0, level)
    }

    /// Asserts both invariants for a tree that was built.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self, beats: impl Fn(&P, &P) -> bool) {
        let count = self.nodes.len();
        let mut players = self.nodes.clone();
        players.sort_by_key(Player::leaf);
        let mut leaves = players.iter().map(Player::leaf);
        assert!(leaves.by_ref().eq(0..to_u32(count as u64)), "invariant 1");
        for node in 1..count {
            let loser = self.nodes[node];
            let level = node.trailing_zeros();
            let subtree = node - (1 << level)..count.min(node + (1 << level));
            let leaf = loser.leaf() as usize;
            assert!(subtree.contains(&leaf), "invariant 1");
            // A node holds the loser of the match between its two halves, which is the winner of
            // the half that it comes from: nobody of that half beats it.
            let half = if leaf < node { subtree.start..node } else { node..subtree.end };
            let is_beaten = { half }.any(|other| beats(&players[other], &loser));
            assert!(!is_beaten, "invariant 2");
        }
        if let Some(champion) = self.nodes.first() {
            assert!(!players.iter().any(|other| beats(other, champion)), "invariant 2");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

    /// A player that knows a third of its key, or that its leaf is free.
    #[derive(Clone, Copy, Debug)]
    struct Third {
        third: u64,
        leaf: u32,
    }

    impl Player for Third {
        type Key = u64;

        fn leaf(&self) -> u32 {
            self.leaf
        }

        fn key(&self) -> u64 {
            self.third
        }
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Remove,
        Replace(u64),
        Fill(u64),
    }

    fn steps() -> impl Strategy<Value = Vec<Step>> {
        let step = prop_oneof![
            Just(Step::Remove),
            (0_u64..60).prop_map(Step::Replace),
            (0_u64..60).prop_map(Step::Fill),
        ];
        proptest::collection::vec(step, 0..120)
    }

    proptest! {
        #[test]
        fn the_champion_is_the_least_whatever_happens(
            first in proptest::collection::vec(0_u64..60, 0..40),
            is_built_at_once: bool,
            steps in steps(),
        ) {
            // Ties are broken by the keys, which the caller has; u64::MAX is that of a free leaf.
            let keys = RefCell::new(first.clone());
            let beats = |one: &Third, other: &Third| {
                let keys = keys.borrow();
                let key = |player: &Third| (player.third, keys[player.leaf as usize]);
                key(one) < key(other)
            };
            let player = |leaf: u32, key: u64| Third { third: key / 3, leaf };
            let mut tree = Tournament::new();
            let mut model: Vec<(u64, u32)> =
                first.iter().zip(0..).map(|(&key, leaf)| (key, leaf)).collect();
            let mut free = Vec::new();
            for &(key, leaf) in &model {
                match is_built_at_once {
                    true => tree.push_unbuilt(player(leaf, key)),
                    false => _ = tree.push(player(leaf, key), beats),
                }
            }
            if is_built_at_once {
                tree.build(beats);
            }
            for step in steps {
                tree.audit(beats);
                let champion = tree.champion().filter(|champion| !free.contains(&champion.leaf));
                prop_assert_eq!(champion.is_none(), model.is_empty());
                if let Some(champion) = champion {
                    let least = model.iter().map(|&(key, _)| key).min().unwrap();
                    prop_assert_eq!(keys.borrow()[champion.leaf as usize], least);
                }
                match (step, champion) {
                    (Step::Remove, Some(Third { leaf, .. })) => {
                        keys.borrow_mut()[leaf as usize] = u64::MAX;
                        tree.replace_champion(player(leaf, u64::MAX), beats);
                        model.retain(|&(_, other)| other != leaf);
                        free.push(leaf);
                    }
                    (Step::Replace(key), Some(Third { leaf, .. })) => {
                        keys.borrow_mut()[leaf as usize] = key;
                        tree.replace_champion(player(leaf, key), beats);
                        model.retain(|&(_, other)| other != leaf);
                        model.push((key, leaf));
                    }
                    (Step::Fill(key), _) => {
                        if let Some(leaf) = free.pop() {
                            keys.borrow_mut()[leaf as usize] = key;
                            tree.fill(player(leaf, key), beats);
                            model.push((key, leaf));
                        } else {
                            let leaf = to_u32(keys.borrow().len() as u64);
                            keys.borrow_mut().push(key);
                            tree.push(player(leaf, key), beats);
                            model.push((key, leaf));
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_replacement_costs_one_match_a_level() {
        let beats = |one: &Third, other: &Third| one.third < other.third;
        let mut tree = Tournament::new();
        for leaf in 0..1024 {
            tree.push_unbuilt(Third { third: u64::from(leaf) * 7919 % 1024, leaf });
        }
        tree.build(beats);
        for round in 0..1000 {
            let Third { third, leaf } = tree.champion().unwrap();
            assert_eq!(third, round);
            let match_count = tree.replace_champion(Third { third: round + 5000, leaf }, beats);
            assert_eq!(match_count, 10);
        }
    }
}
