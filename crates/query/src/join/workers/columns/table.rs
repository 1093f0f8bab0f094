//! A range of the table of a join by columns: columns, and an index of their keys.
//!
//! 1. A slot has the row that was linked last of its key; the others follow from it.
//! 2. As many slots are empty as there are rows, so looking for one ends.

use super::{EMPTY, END, Keys, Probe};
use crate::columns::ColumnBatch;
use crate::join::hash_table::slot_index;
use crate::key::{hash_value, mix};
use std::sync::atomic::{AtomicU64, Ordering};

/// A part of the table.
pub(super) struct Range {
    pub(super) batch: ColumnBatch,
    slots: Vec<u64>,
    /// The next row of the same key, of each row; none where all keys are different.
    pub(super) next: Vec<u32>,
    /// A bit for each row that was met, if anybody asks.
    marks: Vec<AtomicU64>,
}

/// The hashes of the keys of all rows, [`EMPTY`] where one has a NULL.
pub(super) fn hash(batch: &ColumnBatch, places: &[usize], hashes: &mut Vec<u64>) {
    hashes.clear();
    hashes.resize(batch.row_count(), 0);
    let columns = || places.iter().map(|&place| &batch.columns()[place]);
    for column in columns() {
        match column.integers() {
            Some(numbers) => {
                for (hash, number) in hashes.iter_mut().zip(numbers) {
                    *hash = mix(*hash ^ number.cast_unsigned());
                }
            }
            None => {
                for (row, hash) in hashes.iter_mut().enumerate() {
                    *hash = hash_value(*hash, column.value(row));
                }
            }
        }
    }
    // The largest word says that there is no key.
    hashes.iter_mut().for_each(|hash| *hash = (*hash).min(EMPTY - 1));
    for column in columns().filter(|column| !column.validity().is_empty()) {
        let rows = hashes.iter_mut().enumerate().filter(|(row, _)| !column.has_value(*row));
        rows.for_each(|(_, hash)| *hash = EMPTY);
    }
}

impl Range {
    /// Puts the parts of a range together, and links its rows by their keys.
    pub(super) fn build(mut parts: Vec<ColumnBatch>, keys: &Keys, has_marks: bool) -> Self {
        let mut batch = parts.remove(0);
        if !parts.is_empty() {
            batch.reserve_exact(parts.iter());
        }
        for part in parts {
            batch.append_all(&part);
        }
        let row_count = batch.row_count();
        let words = if has_marks { row_count.div_ceil(64) } else { 0 };
        let mut range = Self {
            batch,
            slots: vec![EMPTY; 2 * row_count + 1],
            next: Vec::new(),
            marks: (0..words).map(|_| AtomicU64::new(0)).collect(),
        };
        let mut hashes = Vec::new();
        hash(&range.batch, &keys.built, &mut hashes);
        for (row, &hash) in (0..).zip(&hashes) {
            if hash != EMPTY {
                range.link(keys, hash, row);
            }
        }
        range
    }

    /// Puts a row in front of the list of its key.
    fn link(&mut self, keys: &Keys, hash: u64, row: u32) {
        let mut index = slot_index(hash, self.slots.len());
        loop {
            let slot = self.slots[index];
            let first = row_of(slot);
            let is_free = slot == EMPTY;
            let mine = (&self.batch, keys.built.as_slice(), row as usize);
            if is_free || has_tag(slot, hash) && self.has_key(keys, first, mine) {
                self.slots[index] = hash << 32 | u64::from(row);
                if !is_free {
                    if self.next.is_empty() {
                        self.next = vec![END; self.batch.row_count()];
                    }
                    self.next[row as usize] = first;
                }
                return;
            }
            index = if index + 1 == self.slots.len() { 0 } else { index + 1 };
        }
    }

    /// Whether one of its rows has the key of a row of a batch, which has the columns of it at these places.
    #[inline]
    fn has_key(
        &self,
        keys: &Keys,
        row: u32,
        (batch, places, other): (&ColumnBatch, &[usize], usize),
    ) -> bool {
        keys.built.iter().zip(places).all(|(&mine, &its)| {
            let value = self.batch.columns()[mine].value(row as usize);
            value.compare(&batch.columns()[its].value(other)).is_eq()
        })
    }

    /// Finds the first row of the list of each key, [`END`] where there is none: slots first, then keys, so that the
    /// processor waits for many of them at once.
    pub(super) fn find(&self, keys: &Keys, batch: &ColumnBatch, probe: &mut Probe, number: usize) {
        let Probe { hashes, by_range, slots, found, .. } = probe;
        let places = &by_range[number];
        let hash_of = |place: u32| hashes[place as usize];
        slots.clear();
        slots.extend(places.iter().map(|&place| match hash_of(place) {
            EMPTY => EMPTY,
            hash => self.slots[slot_index(hash, self.slots.len())],
        }));
        for (slot, &place) in slots.iter_mut().zip(places) {
            if *slot != EMPTY && !has_tag(*slot, hash_of(place)) {
                *slot = self.slot_with_tag(hash_of(place));
            }
        }
        let behind = |place: u32| self.find_slowly(keys, hash_of(place), (batch, place as usize));
        found.clear();
        // Integers are compared here, where they are loaded for many rows at once.
        let integers = keys.are_integers.then(|| {
            let mine = self.batch.columns()[keys.built[0]].integers();
            mine.zip(batch.columns()[keys.other[0]].integers())
        });
        let found_at = slots.iter().zip(places);
        match integers.flatten() {
            Some((mine, its)) => found.extend(found_at.map(|(&slot, &place)| match slot {
                EMPTY => END,
                slot if mine[row_of(slot) as usize] == its[place as usize] => row_of(slot),
                _ => behind(place),
            })),
            None => found.extend(found_at.map(|(&slot, &place)| match slot {
                EMPTY => END,
                _ => behind(place),
            })),
        }
    }

    /// The first slot from where a hash belongs that has its tag, or is empty.
    #[inline]
    fn slot_with_tag(&self, hash: u64) -> u64 {
        let mut index = slot_index(hash, self.slots.len());
        loop {
            let slot = self.slots[index];
            if slot == EMPTY || has_tag(slot, hash) {
                return slot;
            }
            index = if index + 1 == self.slots.len() { 0 } else { index + 1 };
        }
    }

    /// The first row of the list of a key: few rows have the tag of another key.
    fn find_slowly(&self, keys: &Keys, hash: u64, (batch, place): (&ColumnBatch, usize)) -> u32 {
        let mut index = slot_index(hash, self.slots.len());
        loop {
            let slot = self.slots[index];
            if slot == EMPTY {
                return END;
            }
            let row = (batch, keys.other.as_slice(), place);
            if has_tag(slot, hash) && self.has_key(keys, row_of(slot), row) {
                return row_of(slot);
            }
            index = if index + 1 == self.slots.len() { 0 } else { index + 1 };
        }
    }

    /// Notes that a row was met, if anybody asks.
    #[inline]
    pub(super) fn mark(&self, row: u32) {
        let Some(word) = self.marks.get(row as usize / 64) else { return };
        let bit = 1 << (row % 64);
        if word.load(Ordering::Relaxed) & bit == 0 {
            word.fetch_or(bit, Ordering::Relaxed);
        }
    }

    pub(super) fn is_met(&self, row: u32) -> bool {
        self.marks[row as usize / 64].load(Ordering::Relaxed) >> (row % 64) & 1 == 1
    }
}

/// Whether a slot has the tag of a hash, its low half.
#[inline]
const fn has_tag(slot: u64, hash: u64) -> bool {
    (slot ^ hash << 32) >> 32 == 0
}

/// The row that a slot leads to.
#[inline]
const fn row_of(slot: u64) -> u32 {
    #[allow(clippy::cast_possible_truncation, reason = "the low half is the row")]
    let row = slot as u32;
    row
}
