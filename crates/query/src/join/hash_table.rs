//! Rows in memory, found by their keys: the heart of block nested loops and of the hash joins.
//!
//! ```text
//!   directory   │ tag 24 │ address 40 │ … 1.5 slots a row, linear probing, one slot a key
//!                              │
//!   segments    ┌ next 8 │ cell ┬ next 8 │ cell ┬ …      rows of one key are a list
//!               next: address of the next row of this key; bit 63: this row has met a partner
//! ```
//!
//! 1. Every row with a key is in exactly one list; all rows of a list have equal keys.
//! 2. The bytes of segments and directory stay within the budget, but for a single row that is larger
//!    by itself.
//! 3. Lists begin with the row that came last.

use super::roles::Alone;
use crate::tuple::{Area, NO_TUPLE, Tuple, read_cell, segment_address};
use crate::{Key, QueryError};

/// Bytes of a segment at most.
const SEGMENT_BYTES_MAX: usize = 256 << 10;
/// Bytes in front of a cell.
pub(crate) const LINK_BYTES: usize = 8;
/// The slot of no row, and the end of a list.
const NONE: u64 = (1 << ADDRESS_BITS) - 1;
/// A slot: an offset of so many bits, as many for the segment, the rest for the tag.
const ADDRESS_BITS: u32 = 40;
const OFFSET_BITS: u32 = 20;
/// Rows larger than a segment have their own, whose only offset is 0.
const MATCHED: u64 = 1 << 63;
const EMPTY: u64 = u64::MAX;

/// A table that is filled, then built, then probed.
#[derive(Debug)]
pub(crate) struct HashTable {
    segments: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    segment_bytes: usize,
    used_bytes: usize,
    directory: Vec<u64>,
    budget_bytes: usize,
    row_count: usize,
}

/// How far a batch of rows has been looked up.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    hashes: Vec<u64>,
    slots: Vec<u64>,
    next: usize,
    /// The next row of a list that was not handed on yet.
    list: Option<u64>,
}

/// How far the rows of a table have been gone through.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Walk {
    segment: usize,
    offset: usize,
}

/// Most pairs that are handed on at once.
pub(crate) const PAIR_COUNT_MAX: usize = 1024;

const fn pack(segment: usize, offset: usize) -> u64 {
    (segment as u64) << OFFSET_BITS | offset as u64
}

#[allow(clippy::cast_possible_truncation, reason = "made from usize")]
const fn unpack(address: u64) -> (usize, usize) {
    ((address >> OFFSET_BITS) as usize, (address & ((1 << OFFSET_BITS) - 1)) as usize)
}

/// The address in an [`Area`] of the cell behind the link at `address`.
const fn cell_address(address: u64) -> u64 {
    let (segment, offset) = unpack(address);
    segment_address(segment, offset + LINK_BYTES)
}

/// Bytes of a segment of a table of at most `budget_bytes`.
pub(crate) fn segment_bytes(budget_bytes: usize) -> usize {
    (budget_bytes / 32).clamp(256, SEGMENT_BYTES_MAX)
}

impl HashTable {
    /// An empty table of at most `budget_bytes`.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        Self {
            segments: Vec::new(),
            spare: Vec::new(),
            segment_bytes: segment_bytes(budget_bytes),
            used_bytes: 0,
            directory: Vec::new(),
            budget_bytes,
            row_count: 0,
        }
    }

    /// Bytes of the directory of so many rows.
    pub(crate) const fn directory_bytes(row_count: usize) -> usize {
        Self::slot_count(row_count) * 8
    }

    const fn slot_count(row_count: usize) -> usize {
        row_count + row_count / 2 + 1
    }

    /// Bytes that a row takes beside the directory.
    pub(crate) fn row_bytes(tuple: Tuple<'_>) -> usize {
        LINK_BYTES + tuple.cell_bytes()
    }

    /// How many rows there are.
    pub(crate) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes in use once it is built.
    pub(crate) const fn bytes(&self) -> usize {
        self.used_bytes + Self::directory_bytes(self.row_count)
    }

    /// Bytes that a budget of its own may have from now on.
    pub(crate) const fn set_budget(&mut self, budget_bytes: usize) {
        self.budget_bytes = budget_bytes;
    }

    /// Whether rows of so many bytes more are sure to fit.
    pub(crate) const fn has_room_for(&self, bytes: usize, rows: usize) -> bool {
        let directory = Self::directory_bytes(self.row_count + rows);
        let segments = bytes.div_ceil(self.segment_bytes) + 1;
        self.used_bytes + segments * self.segment_bytes + directory <= self.budget_bytes
    }

    /// Adds a row; false if it does not fit. A first row always does.
    #[inline]
    pub(crate) fn push(&mut self, tuple: Tuple<'_>) -> bool {
        let bytes = Self::row_bytes(tuple);
        let directory = Self::directory_bytes(self.row_count + 1);
        let has_room =
            self.segments.last().is_some_and(|last| last.capacity() - last.len() >= bytes);
        if !has_room {
            let wanted = self.segment_bytes.max(bytes);
            if self.row_count > 0 && self.used_bytes + wanted + directory > self.budget_bytes {
                return false;
            }
            let segment = match wanted == self.segment_bytes {
                true => self.spare.pop(),
                false => None,
            };
            self.segments.push(segment.unwrap_or_else(|| Vec::with_capacity(wanted)));
            self.used_bytes += wanted;
        } else if self.row_count > 0 && self.used_bytes + directory > self.budget_bytes {
            return false;
        }
        let segment = self.segments.last_mut().expect("there is one with room");
        segment.extend_from_slice(&NONE.to_le_bytes());
        tuple.push_cell(segment);
        self.row_count += 1;
        true
    }

    /// Makes the rows findable by `key`.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn build(&mut self, key: &Key) -> Result<(), QueryError> {
        self.spare.clear();
        let slot_count = Self::slot_count(self.row_count);
        if self.directory.capacity() < slot_count || self.directory.capacity() > 2 * slot_count {
            self.directory = Vec::new();
            self.directory.reserve_exact(slot_count);
        }
        self.directory.clear();
        self.directory.resize(slot_count, EMPTY);
        let Self { segments, directory, .. } = self;
        for segment in 0..segments.len() {
            let mut offset = 0;
            while offset < segments[segment].len() {
                let (tuple, length) = cell_in(&segments[segment], offset);
                if let Some(hash) = key.hash(tuple)? {
                    let address = pack(segment, offset);
                    let next = link(segments, directory, key, hash, address)?;
                    let head = &mut segments[segment][offset..offset + LINK_BYTES];
                    head.copy_from_slice(&next.to_le_bytes());
                }
                offset += LINK_BYTES + length;
            }
        }
        Ok(())
    }

    /// Forgets all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        for mut segment in self.segments.drain(..) {
            if segment.capacity() == self.segment_bytes {
                segment.clear();
                self.spare.push(segment);
            }
        }
        self.directory.clear();
        self.used_bytes = 0;
        self.row_count = 0;
    }

    /// The rows, for a batch of pairs.
    pub(crate) fn area(&self) -> Area<'_> {
        Area::Segments(&self.segments)
    }

    /// Looks up rows of `area` at `cells`, and hands each pair to `emit`: the address of the row in
    /// this table and of that in `area`. Stops after [`PAIR_COUNT_MAX`] pairs; true when all rows have
    /// been looked up. A new batch begins with [`Lookup::begin`].
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn look_up(
        &mut self,
        (key, build_key): (&Key, &Key),
        (area, cells): (Area<'_>, &[u64]),
        wanted: super::roles::Roles,
        lookup: &mut Lookup,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<bool, QueryError> {
        let flags = wanted.build != Alone::Never;
        while lookup.next < cells.len() {
            let probe = cells[lookup.next];
            let mut address = match lookup.list {
                Some(address) => address,
                None => {
                    let (slot, hash) = (lookup.slots[lookup.next], lookup.hashes[lookup.next]);
                    let found = match slot {
                        EMPTY => None,
                        _ => self.find(area.tuple(probe), hash, key, build_key)?,
                    };
                    match (found, wanted.probe) {
                        (Some(_), Alone::Matched) | (None, Alone::Unmatched) => {
                            pairs.push((NO_TUPLE, probe));
                        }
                        _ => {}
                    }
                    found.unwrap_or(NONE)
                }
            };
            lookup.list = None;
            if wanted.pairs || flags {
                while address != NONE {
                    if pairs.len() >= PAIR_COUNT_MAX {
                        lookup.list = Some(address);
                        return Ok(false);
                    }
                    if wanted.pairs {
                        pairs.push((cell_address(address), probe));
                    }
                    let next = self.next_of(address);
                    if flags {
                        self.mark(address);
                    }
                    address = next & !MATCHED;
                }
            }
            lookup.next += 1;
            if pairs.len() >= PAIR_COUNT_MAX {
                break;
            }
        }
        Ok(lookup.next >= cells.len())
    }

    /// Hands on rows that come out by themselves; true at the end.
    pub(crate) fn walk(&self, alone: Alone, walk: &mut Walk, pairs: &mut Vec<(u64, u64)>) -> bool {
        if alone == Alone::Never {
            return true;
        }
        while let Some(segment) = self.segments.get(walk.segment) {
            while walk.offset < segment.len() {
                if pairs.len() >= PAIR_COUNT_MAX {
                    return false;
                }
                let address = pack(walk.segment, walk.offset);
                let is_matched = self.next_of(address) & MATCHED != 0;
                if is_matched == (alone == Alone::Matched) {
                    pairs.push((cell_address(address), NO_TUPLE));
                }
                walk.offset += LINK_BYTES + cell_in(segment, walk.offset).1;
            }
            *walk = Walk { segment: walk.segment + 1, offset: 0 };
        }
        true
    }

    /// All rows, in the order in which they came.
    pub(crate) fn tuples(&self) -> impl Iterator<Item = Tuple<'_>> {
        self.segments.iter().flat_map(|segment| {
            let mut offset = 0;
            std::iter::from_fn(move || {
                (offset < segment.len()).then(|| {
                    let (tuple, length) = cell_in(segment, offset);
                    offset += LINK_BYTES + length;
                    tuple
                })
            })
        })
    }

    #[inline]
    fn slot_of(&self, hash: u64) -> usize {
        slot_index(hash, self.directory.len())
    }

    /// The first row of the list of a key.
    #[inline]
    fn find(
        &self,
        tuple: Tuple<'_>,
        hash: u64,
        key: &Key,
        build_key: &Key,
    ) -> Result<Option<u64>, QueryError> {
        let mut index = self.slot_of(hash);
        loop {
            let slot = self.directory[index];
            if slot == EMPTY {
                return Ok(None);
            }
            if slot >> ADDRESS_BITS == tag_of(hash) {
                let address = slot & NONE;
                let (segment, offset) = unpack(address);
                let (built, _) = cell_in(&self.segments[segment], offset);
                if build_key.equals(built, key, tuple)? {
                    return Ok(Some(address));
                }
            }
            index += 1;
            if index == self.directory.len() {
                index = 0;
            }
        }
    }

    #[inline]
    fn next_of(&self, address: u64) -> u64 {
        let (segment, offset) = unpack(address);
        read_link(&self.segments[segment], offset)
    }

    #[inline]
    fn mark(&mut self, address: u64) {
        let (segment, offset) = unpack(address);
        self.segments[segment][offset + LINK_BYTES - 1] |= 0x80;
    }

    /// Asserts invariants 1 and 2 for a table that was built.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn audit(&self, key: &Key) {
        let mut seen = 0;
        for &slot in self.directory.iter().filter(|&&slot| slot != EMPTY) {
            let mut address = slot & NONE;
            let (segment, offset) = unpack(address);
            let (first, _) = cell_in(&self.segments[segment], offset);
            while address != NONE {
                let (segment, offset) = unpack(address);
                let (tuple, _) = cell_in(&self.segments[segment], offset);
                assert!(key.equals(first, key, tuple).expect("it was built"), "invariant 1");
                seen += 1;
                address = self.next_of(address) & !MATCHED;
            }
        }
        let keyed = self.tuples().filter(|tuple| matches!(key.hash(*tuple), Ok(Some(_)))).count();
        assert_eq!(seen, keyed, "invariant 1");
        assert!(self.row_count < 2 || self.bytes() <= self.budget_bytes, "invariant 2");
    }
}

impl Lookup {
    /// Begins with a new batch: hashes all its rows, and fetches their slots one after the other, so
    /// that the processor waits for many of them at once.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn begin(
        &mut self,
        table: &HashTable,
        key: &Key,
        (area, cells): (Area<'_>, &[u64]),
    ) -> Result<(), QueryError> {
        self.hashes.clear();
        self.slots.clear();
        self.next = 0;
        self.list = None;
        for &cell in cells {
            // A row without a key finds nothing: its slot is made empty below.
            self.hashes.push(key.hash(area.tuple(cell))?.unwrap_or(EMPTY));
        }
        self.slots.extend(self.hashes.iter().map(|&hash| match hash {
            EMPTY => EMPTY,
            _ => table.directory[table.slot_of(hash)],
        }));
        Ok(())
    }
}

/// Puts a row in front of the list of its key, and gives back the row that was there.
fn link(
    segments: &[Vec<u8>],
    directory: &mut [u64],
    key: &Key,
    hash: u64,
    address: u64,
) -> Result<u64, QueryError> {
    let (segment, offset) = unpack(address);
    let (tuple, _) = cell_in(&segments[segment], offset);
    let mut index = slot_index(hash, directory.len());
    loop {
        let slot = directory[index];
        let is_free = slot == EMPTY;
        let is_same = !is_free && slot >> ADDRESS_BITS == tag_of(hash) && {
            let (segment, offset) = unpack(slot & NONE);
            key.equals(cell_in(&segments[segment], offset).0, key, tuple)?
        };
        if is_free || is_same {
            directory[index] = tag_of(hash) << ADDRESS_BITS | address;
            return Ok(if is_free { NONE } else { slot & NONE });
        }
        index = if index + 1 == directory.len() { 0 } else { index + 1 };
    }
}

/// Where a hash belongs among so many slots: the high half of the product.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the result is below the count")]
fn slot_index(hash: u64, slot_count: usize) -> usize {
    (u128::from(hash) * slot_count as u128 >> 64) as usize
}

/// Bits of a hash that its slot does not already tell. The highest tag is left to empty slots.
#[inline]
const fn tag_of(hash: u64) -> u64 {
    let tag = hash & ((1 << (64 - ADDRESS_BITS)) - 1);
    if tag == (1 << (64 - ADDRESS_BITS)) - 1 { 0 } else { tag }
}

#[inline]
fn read_link(segment: &[u8], offset: usize) -> u64 {
    u64::from_le_bytes(*segment[offset..].first_chunk().expect("a row has a link"))
}

/// The row behind the link at `offset`, and the length of its cell.
#[inline]
fn cell_in(segment: &[u8], offset: usize) -> (Tuple<'_>, usize) {
    read_cell(&segment[offset + LINK_BYTES..]).expect("the table holds whole cells")
}
