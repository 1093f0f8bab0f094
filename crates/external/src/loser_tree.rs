//! The tournament of records: who plays are their prefixes, and records decide where these are equal.
//!
//! 1. A player has the prefix of its leaf's record; a leaf that is out loses against all.

use crate::tournament::{Player, Tournament};
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
#[derive(Clone, Copy, Debug)]
struct Prefix {
    prefix: u64,
    leaf: u32,
}

impl Player for Prefix {
    type Key = u64;

    #[inline]
    fn leaf(&self) -> u32 {
        self.leaf
    }

    #[inline]
    fn key(&self) -> u64 {
        self.prefix
    }
}

/// Bytes of memory that a leaf takes.
pub(crate) const fn leaf_bytes<R>() -> u64 {
    (size_of::<Leaf<R>>() + size_of::<Prefix>()) as u64
}

/// The tournament of the leaves.
#[derive(Debug)]
pub(crate) struct LoserTree<R, O> {
    leaves: Vec<Leaf<R>>,
    tree: Tournament<Prefix>,
    in_count: usize,
    order: O,
}

impl<R: Record, O: Order<R>> LoserTree<R, O> {
    pub(crate) const fn new(order: O) -> Self {
        Self { leaves: Vec::new(), tree: Tournament::new(), in_count: 0, order }
    }

    /// Forgets all leaves.
    pub(crate) fn clear(&mut self) {
        self.leaves.clear();
        self.tree.clear();
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
        self.tree.push_unbuilt(self.player(self.leaves.len() - 1));
    }

    fn player(&self, leaf: usize) -> Prefix {
        let Leaf { record, is_in } = &self.leaves[leaf];
        let prefix = if *is_in { self.order.prefix(record) } else { u64::MAX };
        Prefix { prefix, leaf: to_u32(leaf as u64) }
    }

    /// Has all leaves play.
    pub(crate) fn build(&mut self) {
        let Self { leaves, tree, order, .. } = self;
        tree.build(|one, other| beats(leaves, order, *one, *other));
    }

    /// The leaf whose record comes first, and the record.
    #[inline]
    pub(crate) fn champion(&self) -> Option<(usize, R)> {
        if self.in_count == 0 {
            return None;
        }
        let leaf = self.tree.champion()?.leaf as usize;
        Some((leaf, self.leaves[leaf].record))
    }

    /// The record with which a leaf plays, or played.
    pub(crate) fn record_of(&self, leaf: usize) -> R {
        self.leaves[leaf].record
    }

    /// Puts another record in place of the champion's.
    #[inline]
    pub(crate) fn replace(&mut self, record: R) {
        let Some(Prefix { leaf, .. }) = self.tree.champion() else { return };
        self.leaves[leaf as usize].record = record;
        self.replay(Prefix { prefix: self.order.prefix(&record), leaf });
    }

    /// Has the champion be out.
    pub(crate) fn retire(&mut self) {
        let Some(Prefix { leaf, .. }) = self.tree.champion() else { return };
        let champion = &mut self.leaves[leaf as usize];
        self.in_count -= usize::from(std::mem::take(&mut champion.is_in));
        self.replay(Prefix { prefix: u64::MAX, leaf });
    }

    #[inline]
    fn replay(&mut self, player: Prefix) {
        let Self { leaves, tree, order, .. } = self;
        tree.replace_champion(player, |one, other| beats(leaves, order, *one, *other));
    }

    /// Asserts the invariants.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        self.tree.audit(|one, other| beats(&self.leaves, &self.order, *one, *other));
        let is_current =
            |player: &Prefix| player.prefix == self.player(player.leaf as usize).prefix;
        assert!(self.tree.players().iter().all(is_current), "invariant 1");
    }
}

#[inline]
fn beats<R: Record, O: Order<R>>(
    leaves: &[Leaf<R>],
    order: &O,
    one: Prefix,
    other: Prefix,
) -> bool {
    if one.prefix == other.prefix {
        return beats_by_record(leaves, order, one.leaf, other.leaf);
    }
    one.prefix < other.prefix
}

fn beats_by_record<R: Record, O: Order<R>>(
    leaves: &[Leaf<R>],
    order: &O,
    one: u32,
    other: u32,
) -> bool {
    let (left, right) = (&leaves[one as usize], &leaves[other as usize]);
    match (left.is_in, right.is_in) {
        (true, true) => {
            let by_record = order.compare(&left.record, &right.record);
            by_record.then_with(|| one.cmp(&other)) == Ordering::Less
        }
        (is_in, _) => is_in,
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
