//! Rows in memory, found by their keys: the heart of block nested loops and of the hash joins.
//!
//! ```text
//!   directory   │ tag 24 │ address 40 │ … 1.5 slots a row, linear probing, one slot a key
//!                              │
//!   row store   ┌ link │ cell ┬ link │ cell ┬ …      rows of one key are a list
//! ```
//!
//! A table that several workers build has a directory for each range of keys, built by one of them over
//! segments of its own ([`Range`]); all look up in all of them.
//!
//! 1. Every row with a key is in exactly one list; all rows of a list have equal keys.
//! 2. The bytes of rows and directory stay within the budget, but for a single row that is larger by
//!    itself.
//! 3. Lists begin with the row that came last.

use super::roles::{Alone, Roles};
use super::row_store::{
    ADDRESS_BITS, LINK_BYTES, MATCHED, NONE, RowStore, SEGMENT_COUNT_MAX, cell_address, pack,
    row_in, unpack,
};
use crate::tuple::{Area, NO_TUPLE, Tuple, TupleBatch};
use crate::{Key, QueryError};

/// A slot without a key; no hash has this value.
const EMPTY: u64 = u64::MAX;
/// Most pairs that are handed on at once.
pub(crate) const PAIR_COUNT_MAX: usize = 1024;

/// A table that is filled, then built, then probed.
#[derive(Debug)]
pub(crate) struct HashTable {
    rows: RowStore,
    /// The directory of each range; one of everything where nobody divided the keys.
    directories: Vec<Vec<u64>>,
    budget_bytes: usize,
    /// Rows that the last call of [`Self::look_up`] met, to be marked.
    met: Vec<u64>,
}

/// The rows of one range of keys, in segments of their own, and the directory of them.
#[derive(Debug)]
pub(crate) struct Range {
    segments: Vec<Vec<u8>>,
    /// The number of its first segment among those of the whole table.
    first_segment: usize,
    row_count: usize,
    directory: Vec<u64>,
}

/// Rows that are being looked up, and how far.
#[derive(Debug, Default)]
pub(crate) struct Lookup {
    cells: Vec<u64>,
    hashes: Vec<u64>,
    /// The range of each, where the table has more than one.
    ranges: Vec<u32>,
    /// The first slot on the way of each that has its tag, or is empty.
    slots: Vec<u64>,
    next: usize,
    /// The next row of a list that was not handed on yet.
    list: Option<u64>,
}

/// How far the rows of a table have been gone through.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Walk {
    segment: usize,
    offset: usize,
    end_segment: usize,
}

impl Default for Walk {
    /// Through all rows.
    fn default() -> Self {
        Self { segment: 0, offset: 0, end_segment: usize::MAX }
    }
}

impl Walk {
    /// Through the rows of some segments.
    pub(crate) const fn over(segments: &std::ops::Range<usize>) -> Self {
        Self { segment: segments.start, offset: 0, end_segment: segments.end }
    }
}

impl HashTable {
    /// An empty table of at most `budget_bytes`.
    pub(crate) fn new(budget_bytes: usize) -> Self {
        let (rows, directories) = (RowStore::new(budget_bytes), vec![Vec::new()]);
        Self { rows, directories, budget_bytes, met: Vec::new() }
    }

    /// A table over rows that are there already.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn of(rows: RowStore, key: &Key) -> Result<Self, QueryError> {
        let budget_bytes = rows.used_bytes() + Self::directory_bytes(rows.row_count());
        let mut table = Self { rows, budget_bytes, ..Self::new(0) };
        table.build(key)?;
        Ok(table)
    }

    /// A table of ranges that were built, each over the segments that follow those of the one before.
    pub(crate) fn of_ranges(ranges: Vec<Range>) -> Self {
        let mut table = Self { directories: Vec::with_capacity(ranges.len()), ..Self::new(0) };
        for range in ranges {
            let Range { segments, first_segment, row_count, directory } = range;
            assert_eq!(first_segment, table.rows.segments().len(), "ranges come in their order");
            table.rows.append_segments(segments, row_count);
            table.directories.push(directory);
        }
        table.budget_bytes = table.directories.iter().map(|it| it.len() * 8).sum::<usize>()
            + table.rows.used_bytes();
        table
    }

    /// Bytes of the directory of so many rows.
    pub(crate) const fn directory_bytes(row_count: usize) -> usize {
        Self::slot_count(row_count) * 8
    }

    const fn slot_count(row_count: usize) -> usize {
        row_count + row_count / 2 + 1
    }

    /// Bytes that a table takes of so many rows whose cells have so many bytes, in segments that suit
    /// it.
    pub(crate) fn bytes_of(row_count: u64, cell_bytes: u64) -> u64 {
        let rows = cell_bytes + row_count * LINK_BYTES as u64;
        // What is unused of each segment, and of the last.
        rows + rows / 8 + row_count * 12 + 2048
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.rows.row_count()
    }

    /// Whether rows of so many bytes more are sure to fit.
    pub(crate) const fn has_room_for(&self, bytes: usize, rows: usize) -> bool {
        let directory = Self::directory_bytes(self.row_count() + rows);
        let segment_bytes = self.rows.segment_bytes();
        let segments = (bytes + bytes / 8).div_ceil(segment_bytes) + 1;
        self.rows.used_bytes() + segments * segment_bytes + directory <= self.budget_bytes
    }

    /// Adds a row; false if it does not fit. A first row always does.
    #[inline]
    pub(crate) fn push(&mut self, tuple: Tuple<'_>) -> bool {
        let growth = self.rows.growth(tuple);
        let directory = Self::directory_bytes(self.row_count() + 1);
        let bytes = self.rows.used_bytes() + growth + directory;
        let is_full = growth > 0 && self.rows.segments().len() >= SEGMENT_COUNT_MAX;
        if (bytes > self.budget_bytes && self.row_count() > 0) || is_full {
            return false;
        }
        self.rows.push(tuple, growth);
        true
    }

    /// Makes the rows findable by `key`.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn build(&mut self, key: &Key) -> Result<(), QueryError> {
        self.rows.drop_spare();
        let slot_count = Self::slot_count(self.row_count());
        let Self { rows, directories, .. } = self;
        let directory = &mut directories[0];
        if directory.capacity() < slot_count || directory.capacity() > 2 * slot_count {
            // The old one goes first, so that there are never two.
            *directory = Vec::new();
            directory.reserve_exact(slot_count);
        }
        directory.clear();
        directory.resize(slot_count, EMPTY);
        link_all(rows.segments_mut(), 0, directory, key)
    }

    /// Forgets all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.directories.iter_mut().for_each(Vec::clear);
    }

    /// Segments in which the rows lie.
    pub(crate) fn segments(&self) -> &[Vec<u8>] {
        self.rows.segments()
    }

    /// The rows, for a batch of pairs.
    pub(crate) fn area(&self) -> Area<'_> {
        Area::Segments(self.rows.segments())
    }

    /// Goes on with `lookup`, whose cells lie in `area`, and appends the pairs: the address of the row
    /// in this table and of that in `area`. Stops after [`PAIR_COUNT_MAX`] pairs; true when all rows
    /// have been looked up.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn look_up(
        &mut self,
        keys: (&Key, &Key),
        area: Area<'_>,
        wanted: Roles,
        lookup: &mut Lookup,
        pairs: &mut Vec<(u64, u64)>,
    ) -> Result<bool, QueryError> {
        let mut met = std::mem::take(&mut self.met);
        let is_done = self.meet(keys, area, wanted, lookup, (pairs, &mut met));
        for address in met.drain(..) {
            self.rows.mark(address);
        }
        self.met = met;
        is_done
    }

    /// As [`Self::look_up`], for one of several who do it; rows of this table that were met and are wanted by
    /// themselves are appended to the second list, for the caller to mark. Stops after [`PAIR_COUNT_MAX`] of them, too.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn meet(
        &self,
        (key, build_key): (&Key, &Key),
        area: Area<'_>,
        wanted: Roles,
        lookup: &mut Lookup,
        (pairs, met): (&mut Vec<(u64, u64)>, &mut Vec<u64>),
    ) -> Result<bool, QueryError> {
        let marks = wanted.build != Alone::Never;
        while lookup.next < lookup.cells.len() {
            let probe = lookup.cells[lookup.next];
            let mut address = match lookup.list.take() {
                Some(address) => address,
                None => {
                    let found = match lookup.slots[lookup.next] {
                        EMPTY => None,
                        slot => {
                            let tuple = area.tuple(probe);
                            // Few rows have the tag of another key.
                            match build_key.equals(self.rows.row(slot & NONE), key, tuple)? {
                                true => Some(slot & NONE),
                                false => {
                                    let hash = lookup.hashes[lookup.next];
                                    let range = lookup.ranges.get(lookup.next).copied();
                                    let directory = self.directory_of(range);
                                    self.find(tuple, (hash, directory), key, build_key)?
                                }
                            }
                        }
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
            if wanted.pairs || marks {
                while address != NONE {
                    if pairs.len() >= PAIR_COUNT_MAX || met.len() >= PAIR_COUNT_MAX {
                        lookup.list = Some(address);
                        return Ok(false);
                    }
                    if wanted.pairs {
                        pairs.push((cell_address(address), probe));
                    }
                    let next = self.rows.link(address) & !MATCHED;
                    if marks {
                        met.push(address);
                    }
                    address = next;
                }
            }
            lookup.next += 1;
            if pairs.len() >= PAIR_COUNT_MAX {
                break;
            }
        }
        Ok(lookup.next >= lookup.cells.len())
    }

    /// Appends rows that come out by themselves; true at the end.
    pub(crate) fn walk(&self, alone: Alone, walk: &mut Walk, pairs: &mut Vec<(u64, u64)>) -> bool {
        self.walk_marked(alone, walk, pairs, |address| self.rows.link(address) & MATCHED != 0)
    }

    /// As [`Self::walk`], where `is_met` knows which rows were met.
    pub(crate) fn walk_marked(
        &self,
        alone: Alone,
        walk: &mut Walk,
        pairs: &mut Vec<(u64, u64)>,
        is_met: impl Fn(u64) -> bool,
    ) -> bool {
        if alone == Alone::Never {
            return true;
        }
        let end = walk.end_segment.min(self.rows.segments().len());
        while walk.segment < end {
            let segment = &self.rows.segments()[walk.segment];
            while walk.offset < segment.len() {
                if pairs.len() >= PAIR_COUNT_MAX {
                    return false;
                }
                let address = pack(walk.segment, walk.offset);
                if is_met(address) == (alone == Alone::Matched) {
                    pairs.push((cell_address(address), NO_TUPLE));
                }
                walk.offset += LINK_BYTES + row_in(segment, walk.offset).1;
            }
            walk.segment += 1;
            walk.offset = 0;
        }
        true
    }

    #[inline]
    fn directory_of(&self, range: Option<u32>) -> &[u64] {
        &self.directories[range.map_or(0, |range| range as usize)]
    }

    /// The first row of the list of a key.
    #[cold]
    fn find(
        &self,
        tuple: Tuple<'_>,
        (hash, directory): (u64, &[u64]),
        key: &Key,
        build_key: &Key,
    ) -> Result<Option<u64>, QueryError> {
        let mut index = slot_index(hash, directory.len());
        loop {
            let slot = directory[index];
            if slot == EMPTY {
                return Ok(None);
            }
            if slot >> ADDRESS_BITS == tag_of(hash) {
                let address = slot & NONE;
                if build_key.equals(self.rows.row(address), key, tuple)? {
                    return Ok(Some(address));
                }
            }
            index += 1;
            if index == directory.len() {
                index = 0;
            }
        }
    }

    /// Asserts the invariants of a table that was built.
    ///
    /// # Panics
    /// If one does not hold.
    #[cfg(test)]
    pub(crate) fn audit(&self, key: &Key) {
        let mut seen = 0;
        for &slot in self.directories.iter().flatten().filter(|&&slot| slot != EMPTY) {
            let first = slot & NONE;
            let mut address = first;
            while address != NONE {
                let equal = key.equals(self.rows.row(first), key, self.rows.row(address));
                assert!(equal.expect("it was built"), "invariant 1");
                seen += 1;
                let next = self.rows.link(address) & !MATCHED;
                assert!(next == NONE || next < address, "invariant 3");
                address = next;
            }
        }
        let has_key = |tuple: &Tuple<'_>| matches!(key.hash(*tuple), Ok(Some(_)));
        assert_eq!(seen, self.rows.tuples().filter(has_key).count(), "invariant 1");
        let bytes = self.rows.used_bytes() + Self::directory_bytes(self.row_count());
        assert!(self.row_count() < 2 || bytes <= self.budget_bytes, "invariant 2");
    }
}

impl Lookup {
    /// Forgets the rows of the last batch.
    pub(crate) fn clear(&mut self) {
        self.cells.clear();
        self.hashes.clear();
        self.ranges.clear();
        self.slots.clear();
        self.next = 0;
        self.list = None;
    }

    /// How many rows there are.
    pub(crate) const fn row_count(&self) -> u64 {
        self.cells.len() as u64
    }

    /// The place of a cell among the rows, which were added in the order of their addresses.
    pub(crate) fn index_of(&self, cell: u64) -> u64 {
        self.cells.binary_search(&cell).expect("the cell was added") as u64
    }

    /// Adds a row and the hash of its key, if it has one.
    #[inline]
    pub(crate) fn push(&mut self, cell: u64, hash: Option<u64>) {
        self.cells.push(cell);
        self.hashes.push(hash.unwrap_or(EMPTY));
    }

    /// The same for a table of more than one range: it is looked for in this one.
    #[inline]
    pub(crate) fn push_in(&mut self, range: usize, cell: u64, hash: Option<u64>) {
        self.push(cell, hash);
        self.ranges.push(nandu_base::to_u32(range as u64));
    }

    /// Adds all rows of a batch.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn push_all(&mut self, key: &Key, batch: TupleBatch<'_>) -> Result<(), QueryError> {
        for &cell in batch.cells {
            self.push(cell, key.hash(batch.area.tuple(cell))?);
        }
        Ok(())
    }

    /// Finds the slots of all rows one after the other, then fetches the rows that they lead to, so that
    /// the processor waits for many of them at once.
    pub(crate) fn begin(&mut self, table: &HashTable) {
        let Self { hashes, ranges, slots, .. } = self;
        match &*table.directories {
            [directory] => find_slots(hashes, slots, |_| directory),
            _ => find_slots(hashes, slots, |row| table.directory_of(Some(ranges[row]))),
        }
        let rows = slots.iter().filter(|&&slot| slot != EMPTY);
        std::hint::black_box(rows.fold(0, |sum, &slot| sum ^ table.rows.touch(slot & NONE)));
    }
}

impl Range {
    /// Rows of one range, whose segments will be the table's from number `first_segment` on.
    pub(crate) fn new(rows: RowStore, first_segment: usize) -> Self {
        let row_count = rows.row_count();
        let segments = rows.into_segments();
        Self { segments, first_segment, row_count, directory: Vec::new() }
    }

    /// The number of the first segment after its own.
    pub(crate) const fn end_segment(&self) -> usize {
        self.first_segment + self.segments.len()
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Makes the rows findable by `key`.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    pub(crate) fn build(&mut self, key: &Key) -> Result<(), QueryError> {
        let Self { segments, first_segment, row_count, directory } = self;
        *directory = vec![EMPTY; HashTable::slot_count(*row_count)];
        link_all(segments, *first_segment, directory, key)
    }
}

/// Links all rows of some segments, of which the first has this number, into a directory.
fn link_all(
    segments: &mut [Vec<u8>],
    first_segment: usize,
    directory: &mut [u64],
    key: &Key,
) -> Result<(), QueryError> {
    assert!(first_segment + segments.len() <= SEGMENT_COUNT_MAX, "segments have addresses");
    for segment in 0..segments.len() {
        let mut offset = 0;
        while offset < segments[segment].len() {
            let (tuple, length) = row_in(&segments[segment], offset);
            if let Some(hash) = key.hash(tuple)? {
                let next = link(segments, first_segment, directory, key, (hash, segment, offset))?;
                let link = &mut segments[segment][offset..offset + LINK_BYTES];
                link.copy_from_slice(&next.to_le_bytes());
            }
            offset += LINK_BYTES + length;
        }
    }
    Ok(())
}

/// Finds the slot of each hash in the directory of its row.
#[inline]
fn find_slots<'d>(hashes: &[u64], slots: &mut Vec<u64>, directory_of: impl Fn(usize) -> &'d [u64]) {
    slots.extend(hashes.iter().enumerate().map(|(row, &hash)| match hash {
        EMPTY => EMPTY,
        _ => {
            let directory = directory_of(row);
            directory[slot_index(hash, directory.len())]
        }
    }));
    for (row, (slot, &hash)) in slots.iter_mut().zip(hashes).enumerate() {
        if *slot != EMPTY && *slot >> ADDRESS_BITS != tag_of(hash) {
            *slot = slot_with_tag(directory_of(row), hash);
        }
    }
}

/// The first slot from where a hash belongs that has its tag, or is empty.
#[inline]
fn slot_with_tag(directory: &[u64], hash: u64) -> u64 {
    let (mut index, tag) = (slot_index(hash, directory.len()), tag_of(hash));
    loop {
        let slot = directory[index];
        if slot == EMPTY || slot >> ADDRESS_BITS == tag {
            return slot;
        }
        index = if index + 1 == directory.len() { 0 } else { index + 1 };
    }
}

/// Puts a row in front of the list of its key, and gives back the row that was there.
fn link(
    segments: &[Vec<u8>],
    first_segment: usize,
    directory: &mut [u64],
    key: &Key,
    (hash, segment, offset): (u64, usize, usize),
) -> Result<u64, QueryError> {
    let row_at = |address: u64| {
        let (segment, offset) = unpack(address);
        row_in(&segments[segment - first_segment], offset).0
    };
    let row = row_in(&segments[segment], offset).0;
    let mut index = slot_index(hash, directory.len());
    loop {
        let slot = directory[index];
        let is_free = slot == EMPTY;
        let is_same = !is_free
            && slot >> ADDRESS_BITS == tag_of(hash)
            && key.equals(row_at(slot & NONE), key, row)?;
        if is_free || is_same {
            directory[index] = tag_of(hash) << ADDRESS_BITS | pack(first_segment + segment, offset);
            return Ok(if is_free { NONE } else { slot & NONE });
        }
        index = if index + 1 == directory.len() { 0 } else { index + 1 };
    }
}

/// Where a hash belongs among so many slots: the high half of the product.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the result is below the count")]
pub(crate) fn slot_index(hash: u64, slot_count: usize) -> usize {
    ((u128::from(hash) * slot_count as u128) >> 64) as usize
}

/// Bits of a hash that its slot does not tell already. The highest tag is left to empty slots.
#[inline]
const fn tag_of(hash: u64) -> u64 {
    let tag = hash & ((1 << (64 - ADDRESS_BITS)) - 1);
    if tag == (1 << (64 - ADDRESS_BITS)) - 1 { 0 } else { tag }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::join::{JoinType, Side};
    use crate::relation::Relation;
    use crate::testing::{RowShape, random_rows};
    use nandu_base::Rng;

    #[test]
    fn a_table_holds_what_its_budget_allows_and_finds_all_of_it() {
        let mut rng = Rng::new(3);
        let payload_bytes_max = 40;
        let shape = RowShape {
            row_count: 3000,
            key_count: 500,
            is_skewed: true,
            null_percent: 5,
            payload_bytes_max,
        };
        let rows = random_rows("rows", shape, 4096, &mut rng);
        let key = Key::of(&[0]);
        for budget_bytes in [1, 3000, 40_000, 1 << 20] {
            let mut table = HashTable::new(budget_bytes);
            let held: Vec<Tuple<'_>> = rows.tuples().take_while(|row| table.push(*row)).collect();
            assert!(!held.is_empty(), "a first row always fits");
            table.build(&key).unwrap();
            table.audit(&key);
            let size = rows.size();
            let needed = HashTable::bytes_of(size.tuple_count, size.cell_bytes);
            assert_eq!(held.len() as u64 == size.tuple_count, budget_bytes as u64 >= needed);
            let (mut lookup, mut pairs) = (Lookup::default(), Vec::new());
            let mut cell = Vec::new();
            rows.tuples().next().unwrap().push_cell(&mut cell);
            let area = Area::Piece(&cell);
            lookup.push_all(&key, TupleBatch { area, cells: &[0] }).unwrap();
            lookup.begin(&table);
            let roles = Roles::of(JoinType::Inner, Side::Left);
            while !table.look_up((&key, &key), area, roles, &mut lookup, &mut pairs).unwrap() {}
            let first = rows.tuples().next().unwrap();
            let same = |row: &&Tuple<'_>| {
                key.hash(first).unwrap().is_some() && key.equals(first, &key, **row).unwrap()
            };
            assert_eq!(pairs.len(), held.iter().filter(same).count());
        }
    }
}
