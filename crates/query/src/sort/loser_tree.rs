//! The tournament of rows: who plays is a run, the first bytes of a key, and the leaf where the rest of it is found.
//!
//! 1. A free leaf has an entry of the run [`NO_RUN`].
//! 2. Comparisons are counted, one for each match.

use nandu_external::tournament::{Player, Tournament};
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

impl Player for Entry {
    /// Run and prefix in one number, which is compared without a jump.
    type Key = u128;

    #[inline]
    fn leaf(&self) -> u32 {
        self.leaf
    }

    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.run) << 64 | u128::from(self.prefix)
    }
}

/// The tree. Keys that agree in run and prefix are told apart by the caller, who is given two leaves.
#[derive(Debug, Default)]
pub(crate) struct LoserTree {
    tree: Tournament<Entry>,
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
        self.key().cmp(&other.key()).then_with(|| match self.run {
            NO_RUN => Ordering::Equal,
            _ if is_whole(self.prefix) => Ordering::Equal,
            _ => tie(self.leaf, other.leaf),
        })
    }
}

impl LoserTree {
    /// How many leaves there are.
    pub(crate) const fn len(&self) -> usize {
        self.tree.len()
    }

    /// How many leaves there is room for.
    pub(crate) const fn capacity(&self) -> usize {
        self.tree.capacity()
    }

    /// Makes room for so many leaves more, and not for others.
    pub(crate) fn reserve_exact(&mut self, leaves: usize) {
        self.tree.reserve_exact(leaves);
    }

    /// Appends a leaf to entries that are no tree yet, or to none.
    pub(crate) fn push_unbuilt(&mut self, run: u32, prefix: u64) {
        let leaf = self.next_leaf();
        self.tree.push_unbuilt(Entry { prefix, run, leaf });
    }

    fn next_leaf(&self) -> u32 {
        nandu_base::to_u32(self.tree.len() as u64)
    }

    /// The entries, in the order of their leaves while they are no tree.
    pub(crate) fn entries_mut(&mut self) -> &mut [Entry] {
        self.tree.players_mut()
    }

    /// The entries, in the order of their leaves while they are no tree.
    pub(crate) fn entries(&self) -> &[Entry] {
        self.tree.players()
    }

    /// Forgets all leaves and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.tree.clear();
    }

    /// Makes a tree of the entries, in place.
    pub(crate) fn build(&mut self, tie: impl Fn(u32, u32) -> Ordering) {
        self.compare_count += self.tree.build(beats(tie));
    }

    /// Appends a leaf to the tree.
    pub(crate) fn push(&mut self, run: u32, prefix: u64, tie: impl Fn(u32, u32) -> Ordering) {
        let leaf = self.next_leaf();
        self.compare_count += self.tree.push(Entry { prefix, run, leaf }, beats(tie));
    }

    /// The entry before which no other comes.
    #[inline]
    pub(crate) fn winner(&self) -> Option<Entry> {
        self.tree.champion().filter(|entry| entry.run != NO_RUN)
    }

    /// Puts another entry on the winner's leaf.
    #[inline]
    pub(crate) fn replace_winner(
        &mut self,
        run: u32,
        prefix: u64,
        tie: impl Fn(u32, u32) -> Ordering,
    ) {
        let Some(Entry { leaf, .. }) = self.tree.champion() else { return };
        let entry = Entry { prefix, run, leaf };
        self.compare_count += self.tree.replace_champion(entry, beats(tie));
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
        self.compare_count += self.tree.fill(Entry { prefix, run, leaf }, beats(tie));
    }

    /// The comparisons since the last call.
    pub(crate) const fn take_compare_count(&mut self) -> u64 {
        std::mem::replace(&mut self.compare_count, 0)
    }
}

/// Which of two entries is before the other, as the tournament asks it.
#[inline]
fn beats(tie: impl Fn(u32, u32) -> Ordering) -> impl Fn(&Entry, &Entry) -> bool {
    move |one, other| one.compare(other, &tie) == Ordering::Less
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::encode_ordered;
    use nandu_storage::sqlite::Value;
    use proptest::prelude::*;

    #[test]
    fn free_leaves_come_last_and_are_filled_again() {
        let keys = [7_u64, 3, 9];
        let tie = |one: u32, other: u32| keys[one as usize].cmp(&keys[other as usize]);
        let mut tree = LoserTree::default();
        keys.iter().for_each(|key| tree.push_unbuilt(0, key / 10));
        tree.build(tie);
        let mut order = Vec::new();
        while let Some(first) = tree.winner() {
            order.push(first.leaf);
            tree.remove_winner(tie);
        }
        assert_eq!(order, [1, 0, 2]);
        tree.fill(0, 5, 0, tie);
        tree.fill(2, 4, 0, tie);
        assert_eq!(tree.winner().map(|first| (first.run, first.leaf)), Some((4, 2)));
        // Two matches for each that was freed, and what building and filling took.
        assert!((6..12).contains(&tree.take_compare_count()));
        assert_eq!(tree.take_compare_count(), 0);
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
