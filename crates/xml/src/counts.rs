//! What a document's catalogue counts. Several who change a document at once all change that, so it lies apart
//! from what they read, and what each has come to is added when it commits.
//!
//! ```text
//!   04            containers, changes, levels, bytes of values, nodes by kind
//!   04 block      nodes of classes block * 64 … block * 64 + 63
//! ```
//!
//! 1. Changes come to the same in any order: numbers are added, of levels the most counts.

use crate::document::{COUNTS, key_of};
use crate::record::NodeKind;
use crate::synopsis::{ClassId, Synopsis};
use crate::tree_writer::Counts;
use crate::varint;
use nandu_storage::StorageError;
use std::collections::BTreeMap;

/// How many nodes of a kind, or containers, a document may have, and bytes: more than any device holds,
/// and so few that sums of them do not overflow.
const COUNT_MAX: u64 = 1 << 43;
pub(crate) const BYTES_MAX: u64 = 1 << 60;
/// How many classes are counted in one entry.
pub(crate) const BLOCK_CLASS_COUNT: usize = 64;
/// How many kinds of node there are.
const KIND_COUNT: usize = NodeKind::ALL.len();

/// What is counted of a document as a whole.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) container_count: u64,
    /// How often it was changed: of two who change and would index it, one sees that by this.
    pub(crate) change_count: u64,
    pub(crate) counts: Counts,
}

/// What somebody changes in the counts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct CountChange {
    container_count: i64,
    change_count: u64,
    value_bytes: i64,
    level_count: u64,
    kinds: [i64; KIND_COUNT],
    classes: BTreeMap<ClassId, i64>,
}

impl Totals {
    pub(crate) fn encode(mut self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let kinds = NodeKind::ALL.map(|kind| *self.counts.of_kind(kind));
        let Counts { level_count, value_bytes, .. } = self.counts;
        let sizes = [self.container_count, self.change_count, level_count, value_bytes];
        sizes.into_iter().chain(kinds).for_each(|number| varint::put(number, &mut bytes));
        bytes
    }

    pub(crate) fn decode(mut bytes: &[u8]) -> Option<Self> {
        let mut number = || varint::take(&mut bytes);
        let (container_count, change_count) = (number()?, number()?);
        let mut counts =
            Counts { level_count: number()?, value_bytes: number()?, ..Counts::default() };
        for kind in NodeKind::ALL {
            *counts.of_kind(kind) = number()?;
        }
        let mut node_counts = NodeKind::ALL.map(|kind| *counts.of_kind(kind)).into_iter();
        let is_held = node_counts.all(|count| count <= COUNT_MAX)
            && container_count.max(counts.level_count) <= COUNT_MAX
            && counts.value_bytes <= BYTES_MAX;
        let is_whole = bytes.is_empty() && is_held;
        is_whole.then_some(Self { container_count, change_count, counts })
    }

    /// With a change; `None` if there are fewer than go.
    fn with(mut self, change: &CountChange) -> Option<Self> {
        add(&mut self.container_count, change.container_count)?;
        self.change_count = self.change_count.wrapping_add(change.change_count);
        add(&mut self.counts.value_bytes, change.value_bytes)?;
        self.counts.level_count = self.counts.level_count.max(change.level_count);
        for (kind, by) in NodeKind::ALL.into_iter().zip(change.kinds) {
            add(self.counts.of_kind(kind), by)?;
        }
        Some(self)
    }
}

fn add(count: &mut u64, by: i64) -> Option<()> {
    *count = count.checked_add_signed(by)?;
    Some(())
}

/// The entries of all classes' counts.
pub(crate) fn class_entries(synopsis: &Synopsis) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    synopsis.classes().chunks(BLOCK_CLASS_COUNT).zip(0u32..).map(|(classes, block)| {
        let mut bytes = Vec::new();
        classes.iter().for_each(|class| varint::put(class.node_count, &mut bytes));
        (key_of(COUNTS, block), bytes)
    })
}

/// The counts of a block of classes.
pub(crate) fn decode_block(mut bytes: &[u8]) -> Option<Vec<u64>> {
    let mut counts = Vec::with_capacity(BLOCK_CLASS_COUNT);
    while !bytes.is_empty() {
        counts.push(varint::take(&mut bytes).filter(|count| *count <= COUNT_MAX)?);
    }
    (counts.len() <= BLOCK_CLASS_COUNT).then_some(counts)
}

/// What becomes of a block of classes; `None` if it has fewer than go.
fn changed_block(bytes: &[u8], changes: &[(usize, i64)]) -> Option<Vec<u8>> {
    let mut counts = decode_block(bytes)?;
    for &(place, by) in changes {
        if counts.len() <= place {
            counts.resize(place + 1, 0);
        }
        add(&mut counts[place], by)?;
    }
    let mut bytes = Vec::new();
    counts.into_iter().for_each(|count| varint::put(count, &mut bytes));
    Some(bytes)
}

/// What becomes of a value when it is merged.
pub(crate) type Merging =
    Box<dyn FnOnce(Option<&[u8]>) -> Result<Vec<u8>, StorageError> + Send + Sync>;

impl CountChange {
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// A change that put containers in the place of others.
    pub(crate) fn count_containers(&mut self, new_count: usize, old_count: usize) {
        self.change_count += 1;
        self.container_count += signed(new_count as u64, true) + signed(old_count as u64, false);
    }

    /// An element at a level.
    pub(crate) fn count_level(&mut self, level: u64) {
        self.level_count = self.level_count.max(level);
    }

    /// One node of a kind more or less.
    pub(crate) fn count_kind(&mut self, kind: NodeKind, is_added: bool) {
        let place = NodeKind::ALL.iter().position(|it| *it == kind);
        self.kinds[place.expect("these are all kinds")] += signed(1, is_added);
    }

    /// One node of a class more or less.
    pub(crate) fn count_class(&mut self, class: ClassId, is_added: bool) {
        *self.classes.entry(class).or_default() += signed(1, is_added);
    }

    /// Bytes of values that come or go.
    pub(crate) fn count_bytes(&mut self, count: u64, is_added: bool) {
        self.value_bytes += signed(count, is_added);
    }

    /// What becomes of which entries of the catalogue of a document.
    pub(crate) fn into_merges(mut self, document: &str) -> Vec<(Vec<u8>, Merging)> {
        let refused = |document: &str| StorageError::Corrupt {
            place: format!("the catalogue of document {document}"),
            what: "it counts fewer nodes than there are".to_owned(),
        };
        let mut blocks: BTreeMap<u32, Vec<(usize, i64)>> = BTreeMap::new();
        for (class, by) in std::mem::take(&mut self.classes) {
            let place = class.0 as usize % BLOCK_CLASS_COUNT;
            let block = class.0 / nandu_base::to_u32(BLOCK_CLASS_COUNT as u64);
            if by != 0 {
                blocks.entry(block).or_default().push((place, by));
            }
        }
        let name = document.to_owned();
        let total: Merging = Box::new(move |old: Option<&[u8]>| {
            let totals = old.and_then(Totals::decode).and_then(|totals| totals.with(&self));
            totals.map(Totals::encode).ok_or_else(|| refused(&name))
        });
        let blocks = blocks.into_iter().map(|(block, changes)| {
            let name = document.to_owned();
            let merging: Merging = Box::new(move |old: Option<&[u8]>| {
                let changed = changed_block(old.unwrap_or_default(), &changes);
                changed.ok_or_else(|| refused(&name))
            });
            (key_of(COUNTS, block), merging)
        });
        std::iter::once((vec![COUNTS], total)).chain(blocks).collect()
    }
}

fn signed(count: u64, is_added: bool) -> i64 {
    let count = i64::try_from(count).unwrap_or(i64::MAX);
    if is_added { count } else { -count }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_come_to_the_same_in_any_order_and_never_below_nothing() {
        let mut one = CountChange { container_count: 2, level_count: 7, ..CountChange::default() };
        one.count_kind(NodeKind::Text, true);
        one.count_class(ClassId(3), true);
        one.count_class(ClassId(130), true);
        one.count_bytes(300, true);
        let mut other = CountChange { container_count: -1, change_count: 4, ..Default::default() };
        other.count_kind(NodeKind::Text, true);
        other.count_class(ClassId(3), true);
        other.count_class(ClassId(4), true);
        other.count_class(ClassId(4), false);
        let ends = [[&one, &other], [&other, &one]].map(|changes| {
            let mut entries = BTreeMap::from([(vec![COUNTS], start().encode())]);
            for change in changes {
                for (key, merging) in change.clone().into_merges("doc") {
                    let merged = merging(entries.get(&key).map(Vec::as_slice)).unwrap();
                    entries.insert(key, merged);
                }
            }
            entries
        });
        assert_eq!(ends[0], ends[1]);
        let totals = Totals::decode(&ends[0][&vec![COUNTS]]).unwrap();
        assert_eq!((totals.container_count, totals.change_count), (2, 9));
        assert_eq!((totals.counts.level_count, totals.counts.text_count), (7, 2));
        assert_eq!(decode_block(&ends[0][&key_of(COUNTS, 0)]).unwrap(), [0, 0, 0, 2]);
        assert_eq!(decode_block(&ends[0][&key_of(COUNTS, 2)]).unwrap(), [0, 0, 1]);
        assert_eq!(ends[0].len(), 3, "what comes and goes is no change");
        let mut less = CountChange::default();
        less.count_class(ClassId(3), false);
        less.count_kind(NodeKind::Text, false);
        for (_, merging) in less.into_merges("doc") {
            let nothing = Totals::default().encode();
            let refused = merging(Some(&nothing)).unwrap_err();
            assert!(refused.to_string().contains("document doc"), "{refused}");
        }
    }

    fn start() -> Totals {
        Totals { container_count: 1, change_count: 5, ..Totals::default() }
    }
}
