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

/// What plays: a run, the first bytes of a key, and the leaf where the rest of it is found.
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

/// The first bytes of a key that [`crate::Key::encode`] made, as a number in their order. That of a key of one number
/// tells most numbers as a whole, all integers below 2^49 among them: rows of equal keys are then found equal without
/// a look at them.
///
/// ```text
///   │ kind of value: 2 bits │ number: 60 bits of the double │ 2 bits: the rest is less, equal, more │
///   │ kind of value: 2 bits │ anything else: the next 62 bits of the key                            │
/// ```
#[inline]
pub(crate) fn prefix_of(key: &[u8]) -> u64 {
    let Some((&tag, rest)) = key.split_first() else { return 0 };
    let body = match rest.first_chunk() {
        Some(bytes) => u64::from_be_bytes(*bytes),
        None => {
            let mut bytes = [0; 8];
            bytes[..rest.len()].copy_from_slice(rest);
            u64::from_be_bytes(bytes)
        }
    };
    let kind = u64::from(tag >> 4).min(3);
    let body = match (kind, rest) {
        // A single number, and what its double lacks of it.
        (NUMBER_KIND, [.., high, low]) if rest.len() == NUMBER_BYTES => {
            // The bits of negative doubles are turned over.
            let whole = (if body >> 63 == 1 { 0 } else { 0xf }, 0x8000);
            let state = match (body & 0xf, u16::from_be_bytes([*high, *low])).cmp(&whole) {
                Ordering::Less => 0,
                Ordering::Equal => IS_WHOLE,
                Ordering::Greater => IS_WHOLE + 1,
            };
            body >> 4 << 2 | state
        }
        (NUMBER_KIND, _) => body >> 4 << 2,
        _ => body >> 2,
    };
    kind << 62 | body
}

/// The kind of numbers, and how many bytes one has in a key after its tag.
const NUMBER_KIND: u64 = 1;
const NUMBER_BYTES: usize = 10;
/// What the low bits of a prefix say that is a whole key.
const IS_WHOLE: u64 = 1;

/// Whether a prefix tells all of its key.
#[inline]
const fn is_whole(prefix: u64) -> bool {
    prefix >> 62 == NUMBER_KIND && prefix & 3 == IS_WHOLE
}

impl Entry {
    /// The order of two entries.
    #[inline]
    pub(crate) fn compare(&self, other: &Self, tie: impl Fn(u32, u32) -> Ordering) -> Ordering {
        (self.run, self.prefix).cmp(&(other.run, other.prefix)).then_with(|| match self.run {
            NO_RUN => Ordering::Equal,
            _ if is_whole(self.prefix) => Ordering::Equal,
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
    use crate::key::encode_ordered;
    use nandu_storage::sqlite::Value;
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

    /// Numbers near each other and far apart, texts that begin alike, and NULL.
    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            (-3_i64..300).prop_map(Value::Integer),
            any::<i64>().prop_map(Value::Integer),
            (-1050_i64..1050).prop_map(|near| Value::Integer((1 << 62) + near)),
            (-40_i64..40).prop_map(|near| Value::Integer((1 << 49) + near)),
            (-40_i64..40).prop_map(|near| Value::Integer(-(1 << 53) + near)),
            (-400_i32..400).prop_map(|part| Value::Real(f64::from(part) / 7.0)),
            (-9_i32..9).prop_map(|number| Value::Real(f64::from(number))),
            "[ab]{0,10}".prop_map(Value::Text),
            proptest::collection::vec(0_u8..3, 0..10).prop_map(Value::Blob),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn prefixes_have_the_order_of_keys_and_tell_whole_numbers(
            one in values(),
            other in values(),
            second in proptest::option::of((values(), values())),
        ) {
            let encoded = |first: &Value, second: Option<&Value>| {
                let mut bytes = Vec::new();
                encode_ordered(first.as_ref(), &mut bytes);
                second.into_iter().for_each(|value| encode_ordered(value.as_ref(), &mut bytes));
                bytes
            };
            let (of_one, of_other) = (second.as_ref().map(|it| &it.0), second.as_ref().map(|it| &it.1));
            let (one_bytes, other_bytes) = (encoded(&one, of_one), encoded(&other, of_other));
            let (one_prefix, other_prefix) = (prefix_of(&one_bytes), prefix_of(&other_bytes));
            let is_told = one_prefix.cmp(&other_prefix) == one_bytes.cmp(&other_bytes);
            prop_assert!(is_told || one_prefix == other_prefix, "{:?} {:?}", one, other);
            if one_prefix == other_prefix && is_whole(one_prefix) {
                prop_assert_eq!(one_bytes, other_bytes);
            }
            if let (Value::Integer(number), None) = (one, second) {
                prop_assert!(is_whole(one_prefix) || number.unsigned_abs() >= 1 << 49);
            }
        }
    }
}
