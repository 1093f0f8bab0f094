//! A tournament of losers (Knuth, volume 3, 5.4.1): of many entries the first, by one comparison a level.
//!
//! ```text
//!   champion  [0]                 node j stands between leaves j-1 and j; its level is the number of
//!   losers              [4]       zeros at the end of j. The node holds the loser of its match, so
//!                 [2]         [6] that each leaf's entry is in exactly one place, and n leaves need n
//!              [1]   [3]   [5]    places. A leaf can be appended at any time, and a tree can be built
//!   leaves    0   1 2   3 4   5   within the array that holds its entries.
//! ```
//!
//! 1. Each leaf's entry is in exactly one place; a free leaf has an entry of the run [`NO_RUN`].
//! 2. No entry of a subtree comes before the winner of that subtree.

use std::cmp::Ordering;

/// The run of a free leaf: it loses against everything.
pub(crate) const NO_RUN: u32 = u32::MAX;

/// What plays: a run, the first eight bytes of a key, and the leaf where the rest of it is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) prefix: u64,
    pub(crate) run: u32,
    pub(crate) leaf: u32,
}

/// The tree. Keys that agree in run and prefix are told apart by the caller, who is given two leaves.
#[derive(Debug, Default)]
pub(crate) struct LoserTree {
    nodes: Vec<Entry>,
    compare_count: u64,
}

/// The first eight bytes of a key, as a number in their order.
#[inline]
pub(crate) fn prefix_of(key: &[u8]) -> u64 {
    match key.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..key.len()].copy_from_slice(key);
            u64::from_be_bytes(bytes)
        }
    }
}

impl Entry {
    /// The order of two entries.
    #[inline]
    pub(crate) fn compare(&self, other: &Self, tie: impl Fn(u32, u32) -> Ordering) -> Ordering {
        (self.run, self.prefix).cmp(&(other.run, other.prefix)).then_with(|| match self.run {
            NO_RUN => Ordering::Equal,
            _ => tie(self.leaf, other.leaf),
        })
    }
}

/// The node above `leaf` on a level.
#[inline]
const fn node_above(leaf: usize, level: u32) -> usize {
    (leaf >> (level + 1) << (level + 1)) | 1 << level
}

impl LoserTree {
    /// How many leaves there are.
    pub(crate) const fn len(&self) -> usize {
        self.nodes.len()
    }

    /// How many leaves there is room for.
    pub(crate) const fn capacity(&self) -> usize {
        self.nodes.capacity()
    }

    /// Makes room for so many leaves more, and not for others.
    pub(crate) fn reserve_exact(&mut self, leaves: usize) {
        self.nodes.reserve_exact(leaves);
    }

    /// Appends a leaf to entries that are no tree yet, or to none.
    pub(crate) fn push_unbuilt(&mut self, run: u32, prefix: u64) {
        let leaf = nandu_base::to_u32(self.nodes.len() as u64);
        self.nodes.push(Entry { prefix, run, leaf });
    }

    /// The entries, in the order of their leaves while they are no tree.
    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        &mut self.nodes
    }

    /// The entries, in the order of their leaves while they are no tree.
    pub(crate) fn entries(&self) -> &[Entry] {
        &self.nodes
    }

    /// Forgets all leaves and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.nodes.clear();
    }

    /// Makes a tree of the entries, in place.
    pub(crate) fn build(&mut self, tie: impl Fn(u32, u32) -> Ordering) {
        for leaf in 1..self.nodes.len() {
            let Entry { prefix, run, leaf: number } = self.nodes[leaf];
            self.nodes[leaf].run = NO_RUN;
            self.fill_within(leaf + 1, number, (run, prefix), &tie);
        }
    }

    /// Appends a leaf to the tree.
    pub(crate) fn push(&mut self, run: u32, prefix: u64, tie: impl Fn(u32, u32) -> Ordering) {
        self.push_unbuilt(NO_RUN, u64::MAX);
        let count = self.nodes.len();
        self.fill_within(count, nandu_base::to_u32(count as u64 - 1), (run, prefix), &tie);
    }

    /// The entry before which no other comes.
    #[inline]
    pub(crate) fn winner(&self) -> Option<Entry> {
        self.nodes.first().copied().filter(|entry| entry.run != NO_RUN)
    }

    /// Puts another entry on the winner's leaf.
    #[inline]
    pub(crate) fn replace_winner(
        &mut self,
        run: u32,
        prefix: u64,
        tie: impl Fn(u32, u32) -> Ordering,
    ) {
        let leaf = self.nodes[0].leaf;
        let mut entry = Entry { prefix, run, leaf };
        let count = self.nodes.len();
        let mut level = 0;
        while 1 << level < count {
            let node = node_above(leaf as usize, level);
            if node < count {
                self.compare_count += 1;
                if self.nodes[node].compare(&entry, &tie) == Ordering::Less {
                    std::mem::swap(&mut self.nodes[node], &mut entry);
                }
            }
            level += 1;
        }
        self.nodes[0] = entry;
    }

    /// Frees the winner's leaf.
    pub(crate) fn remove_winner(&mut self, tie: impl Fn(u32, u32) -> Ordering) {
        self.replace_winner(NO_RUN, u64::MAX, tie);
    }

    /// Puts an entry on a free leaf.
    pub(crate) fn fill(
        &mut self,
        leaf: u32,
        run: u32,
        prefix: u64,
        tie: impl Fn(u32, u32) -> Ordering,
    ) {
        self.fill_within(self.nodes.len(), leaf, (run, prefix), &tie);
    }

    /// The comparisons since the last call.
    pub(crate) const fn take_compare_count(&mut self) -> u64 {
        std::mem::replace(&mut self.compare_count, 0)
    }

    /// Fills a free leaf of a tree of `count` leaves. The new entry meets the winners above it only:
    /// who comes before a winner comes before all whom that one met.
    fn fill_within(
        &mut self,
        count: usize,
        leaf: u32,
        (run, prefix): (u32, u64),
        tie: &impl Fn(u32, u32) -> Ordering,
    ) {
        let entry = Entry { prefix, run, leaf };
        // Begin at the node that holds the free leaf as a loser: that node and those above it
        // change.
        let (mut place, mut level) = self.find_above(count, leaf, 0, |other| other == leaf);
        while place != 0 {
            let shift = level + 1;
            let of_subtree = |other: u32| u64::from(other) >> shift == u64::from(leaf) >> shift;
            let (winner_place, winner_level) = self.find_above(count, leaf, shift, of_subtree);
            self.compare_count += 1;
            if entry.compare(&self.nodes[winner_place], tie) != Ordering::Less {
                break;
            }
            self.nodes[place] = self.nodes[winner_place];
            (place, level) = (winner_place, winner_level);
        }
        self.nodes[place] = entry;
    }

    /// The first place above `leaf`, from a level on, that holds a leaf like this; 0 for the champion's.
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
            if node < count && is_wanted(self.nodes[node].leaf) {
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
    #[cfg(test)]
    pub(crate) fn audit(&self, tie: impl Fn(u32, u32) -> Ordering) {
        let count = self.nodes.len();
        let mut entries = self.nodes.clone();
        entries.sort_by_key(|entry| entry.leaf);
        assert!((0..).zip(&entries).all(|(leaf, entry)| entry.leaf == leaf), "invariant 1");
        for node in 1..count {
            let loser = self.nodes[node];
            let level = node.trailing_zeros();
            let subtree = node - (1 << level)..count.min(node + (1 << level));
            assert!(subtree.contains(&(loser.leaf as usize)), "invariant 1");
            // A node holds the loser of the match between its two halves, which is the winner of
            // the half that it comes from: no entry of that half may be before it.
            let half =
                if (loser.leaf as usize) < node { subtree.start..node } else { node..subtree.end };
            for other in half {
                let order = loser.compare(&entries[other], &tie);
                assert!(order != Ordering::Greater, "invariant 2");
            }
        }
        if let Some(champion) = self.nodes.first() {
            let is_first = |other| champion.compare(other, &tie) != Ordering::Greater;
            assert!(entries.iter().all(is_first), "invariant 2");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

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
        fn the_winner_is_the_least_whatever_happens(
            first in proptest::collection::vec(0_u64..60, 0..40),
            is_built_at_once: bool,
            steps in steps(),
        ) {
            // Keys are numbers; prefixes say a third of them, so that ties are broken by the caller.
            let keys = RefCell::new(first.clone());
            let tie = |a: u32, b: u32| {
                let keys = keys.borrow();
                keys[a as usize].cmp(&keys[b as usize])
            };
            let mut tree = LoserTree::default();
            let mut model: Vec<(u64, u32)> = (0..).zip(&first).map(|(leaf, &key)| (key, leaf)).collect();
            let mut free = Vec::new();
            for &key in &first {
                match is_built_at_once {
                    true => tree.push_unbuilt(0, key / 3),
                    false => tree.push(0, key / 3, tie),
                }
            }
            if is_built_at_once {
                tree.build(tie);
            }
            for step in steps {
                tree.audit(tie);
                let winner = tree.winner();
                prop_assert_eq!(winner.is_none(), model.is_empty());
                if let Some(winner) = winner {
                    let least = model.iter().map(|&(key, _)| key).min().unwrap();
                    prop_assert_eq!(keys.borrow()[winner.leaf as usize], least);
                }
                match (step, winner) {
                    (Step::Remove, Some(winner)) => {
                        tree.remove_winner(tie);
                        model.retain(|&(_, leaf)| leaf != winner.leaf);
                        free.push(winner.leaf);
                    }
                    (Step::Replace(key), Some(winner)) => {
                        keys.borrow_mut()[winner.leaf as usize] = key;
                        tree.replace_winner(0, key / 3, tie);
                        model.retain(|&(_, leaf)| leaf != winner.leaf);
                        model.push((key, winner.leaf));
                    }
                    (Step::Fill(key), _) => {
                        let leaf = free.pop();
                        match leaf {
                            Some(leaf) => {
                                keys.borrow_mut()[leaf as usize] = key;
                                tree.fill(leaf, 0, key / 3, tie);
                                model.push((key, leaf));
                            }
                            None => {
                                let leaf = u32::try_from(keys.borrow().len()).unwrap();
                                keys.borrow_mut().push(key);
                                tree.push(0, key / 3, tie);
                                model.push((key, leaf));
                            }
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    #[test]
    fn a_replacement_costs_one_comparison_a_level() {
        let tie = |_, _| Ordering::Equal;
        let mut tree = LoserTree::default();
        for prefix in 0..1024 {
            tree.push_unbuilt(0, prefix * 7919 % 1024);
        }
        tree.build(tie);
        tree.take_compare_count();
        for round in 0..1000 {
            assert_eq!(tree.winner().unwrap().prefix, round);
            tree.replace_winner(0, round + 5000, tie);
        }
        assert_eq!(tree.take_compare_count(), 10 * 1000);
    }

    #[test]
    fn prefixes_have_the_order_of_keys() {
        assert!(prefix_of(b"") < prefix_of(b"a"));
        assert!(prefix_of(b"a") < prefix_of(b"ab"));
        assert_eq!(prefix_of(b"12345678"), prefix_of(b"123456789"));
    }
}
