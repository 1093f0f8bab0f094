//! The work space of a sort: rows of any length that come and go in any order, and an entry for each.
//!
//! ```text
//!   segments   │ head │ cell │ head │ free: next, previous │ head │ cell │ …     heads: size, size before
//!   lists      free blocks by size, four lists for each power of two; good fit in two steps
//!   entries    run, first bytes of the key, slot            sorted, or made a tree, in place
//!   addresses  slot ─► cell
//! ```
//!
//! The allocator is that of Masmano and others (TLSF, ECRTS 2004) with boundary tags after Knuth (volume
//! 1, 2.5): what was freed joins its neighbours at once.
//!
//! 1. The blocks of a segment fill it; no two free ones touch.
//! 2. Every free block is in the list of its size, and nothing else is.
//! 3. What is reserved stays within the budget, but for a single row that is larger by itself.

use super::loser_tree::{LoserTree, prefix_of};
use crate::tuple::{Area, Tuple, segment_address};
use crate::{Key, QueryError};
use nandu_base::to_u32;
use std::cmp::Ordering;

/// Bytes of a segment at most, and at least.
const SEGMENT_BYTES_MAX: usize = 256 << 10;
const SEGMENT_BYTES_MIN: usize = 128;
/// Bytes in front of a cell: the size of the block, and that of the one before it.
pub(crate) const HEAD_BYTES: usize = 8;
/// A head and two links.
const BLOCK_BYTES_MIN: usize = 24;
/// The low bit of a size: the block is in use. Sizes are multiples of 8.
const USED: u32 = 1;
/// Lists of free blocks: four for each power of two above 16.
const LIST_COUNT: usize = 64;
/// Blocks of the list of its own size that a row is tried on.
const TRY_COUNT_MAX: usize = 4;
/// The end of a list.
const NONE: u64 = u64::MAX;
/// Bytes of an entry and an address.
pub(crate) const SLOT_BYTES: usize = 24;
/// Bytes that a row takes beside its cell, about: block sizes are rounded up to 8.
pub(crate) const ROW_OVERHEAD_BYTES: usize = HEAD_BYTES + SLOT_BYTES + 4;

/// Memory for rows, in segments with lists of free blocks.
#[derive(Debug)]
struct Heap {
    segments: Vec<Vec<u8>>,
    /// Segments whose single large row is gone.
    vacant: Vec<u32>,
    lists: Box<[u64; LIST_COUNT]>,
    /// Which lists have blocks.
    filled: u64,
    segment_bytes: usize,
    reserved_bytes: usize,
}

/// Rows and their entries.
#[derive(Debug)]
pub(crate) struct Workspace {
    heap: Heap,
    pub(crate) tree: LoserTree,
    /// Where the row of each slot lies; of a free slot, the next free one.
    addresses: Vec<u64>,
    first_free: u64,
    budget_bytes: usize,
    row_count: usize,
}

/// A slot into which a row was put, of which the caller makes an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Slot {
    /// It was there already.
    Free(u32),
    /// It was added.
    New(u32),
}

/// The list of blocks of so many bytes: sizes from `(4 + low bits) << (power - 2)` on.
const fn list_of(bytes: usize) -> usize {
    let power = bytes.ilog2();
    let list = (power as usize - 4) * 4 + (bytes >> (power - 2) & 3);
    if list < LIST_COUNT { list } else { LIST_COUNT - 1 }
}

/// Bytes of a segment of rows that may take `budget_bytes` together.
pub(crate) fn segment_bytes(budget_bytes: usize) -> usize {
    (budget_bytes / 32).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX) / 8 * 8
}

#[allow(clippy::cast_possible_truncation, reason = "made from usize")]
const fn unpack(address: u64) -> (usize, usize) {
    ((address >> 32) as usize, address as u32 as usize)
}

fn read_u32(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("heads are whole"))
}

fn read_u64(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(*bytes[at..].first_chunk().expect("free blocks have links"))
}

fn write(bytes: &mut [u8], at: usize, word: impl AsRef<[u8]>) {
    let word = word.as_ref();
    bytes[at..at + word.len()].copy_from_slice(word);
}

impl Heap {
    fn new(budget_bytes: usize) -> Self {
        Self {
            segments: Vec::new(),
            vacant: Vec::new(),
            lists: Box::new([NONE; LIST_COUNT]),
            filled: 0,
            segment_bytes: segment_bytes(budget_bytes),
            reserved_bytes: 0,
        }
    }

    fn block_bytes(tuple: Tuple<'_>) -> usize {
        (HEAD_BYTES + tuple.cell_bytes()).next_multiple_of(8).max(BLOCK_BYTES_MIN)
    }

    /// Keeps a row, and gives back where; `None` if that takes more than `limit_bytes` in all.
    fn insert(&mut self, tuple: Tuple<'_>, limit_bytes: usize) -> Option<u64> {
        let wanted = Self::block_bytes(tuple);
        let block = match self.find(wanted) {
            Some(block) => block,
            None => self.reserve(wanted, limit_bytes)?,
        };
        self.unlink(block);
        let (segment, offset) = unpack(block);
        let bytes = &mut self.segments[segment];
        let size = read_u32(bytes, offset) as usize;
        let used = match size - wanted >= BLOCK_BYTES_MIN {
            true => wanted,
            false => size,
        };
        write(bytes, offset, (to_u32(used as u64) | USED).to_le_bytes());
        let start = offset + HEAD_BYTES;
        tuple.write_cell(&mut bytes[start..offset + used]);
        if used < size {
            self.set_free(segment, offset + used, size - used, used);
        }
        Some(segment_address(segment, start))
    }

    /// Gives the room of a row back.
    fn remove(&mut self, address: u64) {
        let (segment, start) = unpack(address);
        let mut offset = start - HEAD_BYTES;
        let bytes = &mut self.segments[segment];
        if bytes.len() > self.segment_bytes {
            self.reserved_bytes -= bytes.len();
            *bytes = Vec::new();
            self.vacant.push(to_u32(segment as u64));
            return;
        }
        let mut size = (read_u32(bytes, offset) & !USED) as usize;
        let mut before = read_u32(bytes, offset + 4) as usize;
        let next = offset + size;
        if next < bytes.len() && read_u32(bytes, next) & USED == 0 {
            size += read_u32(bytes, next) as usize;
            self.unlink(segment_address(segment, next));
        }
        let bytes = &self.segments[segment];
        if before > 0 && read_u32(bytes, offset - before) & USED == 0 {
            offset -= before;
            size += before;
            before = read_u32(bytes, offset + 4) as usize;
            self.unlink(segment_address(segment, offset));
        }
        self.set_free(segment, offset, size, before);
    }

    /// Makes a free block and tells the one behind it.
    fn set_free(&mut self, segment: usize, offset: usize, size: usize, before: usize) {
        let bytes = &mut self.segments[segment];
        write(bytes, offset, to_u32(size as u64).to_le_bytes());
        write(bytes, offset + 4, to_u32(before as u64).to_le_bytes());
        if offset + size < bytes.len() {
            write(bytes, offset + size + 4, to_u32(size as u64).to_le_bytes());
        }
        let list = list_of(size);
        let next = self.lists[list];
        write(bytes, offset + 8, next.to_le_bytes());
        write(bytes, offset + 16, NONE.to_le_bytes());
        let block = segment_address(segment, offset);
        self.set_link(next, 16, block);
        self.lists[list] = block;
        self.filled |= 1 << list;
    }

    /// Takes a free block out of its list.
    fn unlink(&mut self, block: u64) {
        let (segment, offset) = unpack(block);
        let bytes = &self.segments[segment];
        let list = list_of(read_u32(bytes, offset) as usize);
        let (next, previous) = (read_u64(bytes, offset + 8), read_u64(bytes, offset + 16));
        self.set_link(next, 16, previous);
        match previous {
            NONE => self.lists[list] = next,
            _ => self.set_link(previous, 8, next),
        }
        if self.lists[list] == NONE {
            self.filled &= !(1 << list);
        }
    }

    fn set_link(&mut self, block: u64, at: usize, target: u64) {
        if block != NONE {
            let (segment, offset) = unpack(block);
            write(&mut self.segments[segment], offset + at, target.to_le_bytes());
        }
    }

    /// A free block of at least so many bytes.
    fn find(&self, wanted: usize) -> Option<u64> {
        let list = list_of(wanted);
        let mut block = self.lists[list];
        // The last list has no upper end; nothing lies above it.
        let tries = if list + 1 == LIST_COUNT { usize::MAX } else { TRY_COUNT_MAX };
        for _ in 0..tries {
            if block == NONE {
                break;
            }
            let (segment, offset) = unpack(block);
            let bytes = &self.segments[segment];
            if read_u32(bytes, offset) as usize >= wanted {
                return Some(block);
            }
            block = read_u64(bytes, offset + 8);
        }
        let above = self.filled & !0 << list & !(1 << list);
        (above != 0).then(|| self.lists[above.trailing_zeros() as usize])
    }

    /// A new segment, which is one free block.
    fn reserve(&mut self, wanted: usize, limit_bytes: usize) -> Option<u64> {
        let length = wanted.max(self.segment_bytes);
        if self.reserved_bytes + length > limit_bytes {
            return None;
        }
        self.reserved_bytes += length;
        let segment = match self.vacant.pop() {
            Some(segment) => segment as usize,
            None => {
                self.segments.push(Vec::new());
                self.segments.len() - 1
            }
        };
        self.segments[segment] = vec![0; length];
        self.set_free(segment, 0, length, 0);
        Some(segment_address(segment, 0))
    }

    /// Gives all memory back.
    fn clear(&mut self) {
        *self = Self { segment_bytes: self.segment_bytes, ..Self::new(0) };
    }

    /// Forgets all rows and keeps the segments.
    fn empty(&mut self) {
        self.lists.fill(NONE);
        self.filled = 0;
        for segment in 0..self.segments.len() {
            let length = self.segments[segment].len();
            if length > self.segment_bytes {
                self.reserved_bytes -= length;
                self.segments[segment] = Vec::new();
                self.vacant.push(to_u32(segment as u64));
            } else if length > 0 {
                self.set_free(segment, 0, length, 0);
            }
        }
    }

    #[cfg(test)]
    fn audit(&self) {
        let mut free = Vec::new();
        for (segment, bytes) in self.segments.iter().enumerate() {
            let (mut offset, mut before, mut was_free) = (0, 0, false);
            while offset < bytes.len() {
                let size = read_u32(bytes, offset);
                assert_eq!(read_u32(bytes, offset + 4), before, "invariant 1");
                let is_free = size & USED == 0;
                assert!(!(is_free && was_free), "invariant 1");
                if is_free {
                    free.push(segment_address(segment, offset));
                }
                (before, was_free) = (size & !USED, is_free);
                offset += before as usize;
            }
            assert_eq!(offset, bytes.len(), "invariant 1");
        }
        let mut listed = Vec::new();
        for (list, &first) in self.lists.iter().enumerate() {
            let mut block = first;
            assert_eq!(self.filled >> list & 1 == 1, block != NONE, "invariant 2");
            while block != NONE {
                let (segment, offset) = unpack(block);
                let bytes = &self.segments[segment];
                assert_eq!(list_of(read_u32(bytes, offset) as usize), list, "invariant 2");
                listed.push(block);
                block = read_u64(bytes, offset + 8);
            }
        }
        listed.sort_unstable();
        assert_eq!(listed, free, "invariant 2");
    }
}

impl Workspace {
    /// An empty work space. Room for the entries of `expected_rows` is made at once, as far as they are
    /// likely to fit, each with a cell of `expected_cell_bytes`.
    pub(crate) fn new(budget_bytes: usize, expected_rows: u64, expected_cell_bytes: u64) -> Self {
        let row_bytes = expected_cell_bytes + ROW_OVERHEAD_BYTES as u64;
        let fitting = budget_bytes as u64 / row_bytes;
        let count = nandu_base::to_index(fitting.min(expected_rows));
        let mut tree = LoserTree::default();
        tree.reserve_exact(count);
        let addresses = Vec::with_capacity(count);
        let heap = Heap::new(budget_bytes.saturating_sub(count * SLOT_BYTES));
        Self { heap, tree, addresses, first_free: NONE, budget_bytes, row_count: 0 }
    }

    /// How many rows there are.
    pub(crate) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes that are reserved.
    pub(crate) const fn bytes(&self) -> usize {
        self.heap.reserved_bytes + self.slot_bytes()
    }

    const fn slot_bytes(&self) -> usize {
        self.tree.capacity() * 16 + self.addresses.capacity() * 8
    }

    /// Where the rows lie.
    pub(crate) fn area(&self) -> Area<'_> {
        Area::Segments(&self.heap.segments)
    }

    /// The address of the row in a slot.
    pub(crate) fn address(&self, slot: u32) -> u64 {
        self.addresses[slot as usize]
    }

    /// The row in a slot.
    pub(crate) fn tuple(&self, slot: u32) -> Tuple<'_> {
        self.area().tuple(self.address(slot))
    }

    /// Keeps a row; `None` if it does not fit. A first row always does.
    fn insert(&mut self, tuple: Tuple<'_>) -> Option<u64> {
        let limit = self.budget_bytes.saturating_sub(self.slot_bytes());
        let address = self.heap.insert(tuple, limit).or_else(|| {
            // Memory in other shapes must not keep a row out of an empty work space.
            if self.row_count > 0 {
                return None;
            }
            self.heap.clear();
            self.heap.insert(tuple, usize::MAX)
        })?;
        self.row_count += 1;
        Some(address)
    }

    /// Gives the room of the row in a slot back; the slot stays taken.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.heap.remove(self.addresses[slot as usize]);
        self.row_count -= 1;
    }

    /// Makes a slot without a row free.
    pub(crate) fn free(&mut self, slot: u32) {
        self.addresses[slot as usize] = std::mem::replace(&mut self.first_free, u64::from(slot));
    }

    /// Keeps a row in a slot that is taken and has none; false if it does not fit.
    pub(crate) fn insert_at(&mut self, slot: u32, tuple: Tuple<'_>) -> bool {
        let address = self.insert(tuple);
        if let Some(address) = address {
            self.addresses[slot as usize] = address;
        }
        address.is_some()
    }

    /// Keeps a row in a free slot or a new one; `None` if row or slot do not fit.
    pub(crate) fn insert_anywhere(&mut self, tuple: Tuple<'_>) -> Option<Slot> {
        if self.first_free != NONE {
            let slot = to_u32(self.first_free);
            let next = self.addresses[slot as usize];
            let is_in = self.insert_at(slot, tuple);
            if is_in {
                self.first_free = next;
            }
            return is_in.then_some(Slot::Free(slot));
        }
        if self.addresses.len() == self.addresses.capacity() && !self.grow() {
            return None;
        }
        let address = self.insert(tuple)?;
        self.addresses.push(address);
        Some(Slot::New(to_u32(self.addresses.len() as u64 - 1)))
    }

    /// Makes room for an eighth more slots; false if that does not fit.
    fn grow(&mut self) -> bool {
        let more = (self.addresses.len() / 8).max(4);
        if self.row_count > 0 && self.bytes() + more * SLOT_BYTES > self.budget_bytes {
            return false;
        }
        self.addresses.reserve_exact(more);
        let missing = self.addresses.capacity() - self.tree.len();
        self.tree.reserve_exact(missing);
        true
    }

    /// Adds a row to those that are to be sorted or made a tree, with its key as bytes; false if it does
    /// not fit.
    pub(crate) fn push(&mut self, key_bytes: &[u8], tuple: Tuple<'_>) -> bool {
        let is_in = self.insert_anywhere(tuple).is_some();
        if is_in {
            self.tree.push_unbuilt(0, prefix_of(key_bytes));
        }
        is_in
    }

    /// Sorts the entries by `key`; returns how many comparisons that took.
    pub(crate) fn sort(&mut self, key: &Key) -> u64 {
        let Self { heap, tree, addresses, .. } = self;
        let mut compare_count = 0;
        let tie = tie_breaker(key, &heap.segments, addresses);
        tree.entries_mut().sort_unstable_by(|one, other| {
            compare_count += 1;
            one.compare(other, &tie)
        });
        compare_count
    }

    /// Of sorted rows, the first whose key is not less.
    ///
    /// # Errors
    /// If a row is damaged.
    pub(crate) fn first_from(&self, key: &Key, bound: &[u8]) -> Result<usize, QueryError> {
        let entries = self.tree.entries();
        let (mut low, mut high, mut key_bytes) = (0, entries.len(), Vec::new());
        while low < high {
            let middle = low.midpoint(high);
            key_bytes.clear();
            key.encode(self.tuple(entries[middle].leaf), &mut key_bytes)?;
            match key_bytes.as_slice() < bound {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(low)
    }

    /// Makes a tree of the entries.
    pub(crate) fn build(&mut self, key: &Key) {
        let Self { heap, tree, addresses, .. } = self;
        tree.build(tie_breaker(key, &heap.segments, addresses));
    }

    /// The tree, and what tells its rows apart.
    pub(crate) fn tree<'w>(
        &'w mut self,
        key: &'w Key,
    ) -> (&'w mut LoserTree, impl Fn(u32, u32) -> Ordering + 'w) {
        let Self { heap, tree, addresses, .. } = self;
        (tree, tie_breaker(key, &heap.segments, addresses))
    }

    /// Forgets all rows and keeps the memory.
    pub(crate) fn empty(&mut self) {
        self.heap.empty();
        self.tree.clear();
        self.addresses.clear();
        self.first_free = NONE;
        self.row_count = 0;
    }

    /// Asserts the invariants.
    ///
    /// # Panics
    /// If one does not hold.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        self.heap.audit();
        assert!(self.row_count < 2 || self.bytes() <= self.budget_bytes, "invariant 3");
    }
}

/// Compares the rows of two slots, decoding their keys: prefixes agree seldom.
fn tie_breaker<'w>(
    key: &'w Key,
    segments: &'w [Vec<u8>],
    addresses: &'w [u64],
) -> impl Fn(u32, u32) -> Ordering + 'w {
    move |one, other| {
        let tuple = |slot: u32| Area::Segments(segments).tuple(addresses[slot as usize]);
        key.compare(tuple(one), tuple(other)).expect("both were decoded when they came")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rows_stay_what_they_were_while_others_come_and_go(
            budget_bytes in 400_usize..20_000,
            steps in proptest::collection::vec(
                (any::<bool>(), prop_oneof![0_usize..60, 0_usize..700], 0_usize..100), 1..300),
        ) {
            let mut workspace = Workspace::new(budget_bytes, 0, 0);
            let mut model: Vec<(u32, i64, Vec<u8>)> = Vec::new();
            for (row_number, (is_insert, length, choice)) in (0_i64..).zip(steps) {
                if is_insert || model.is_empty() {
                    let record = vec![u8::try_from(row_number % 251).unwrap(); length];
                    let tuple = Tuple { row_number, record: &record };
                    let slot = slot_of(workspace.insert_anywhere(tuple));
                    prop_assert!(slot.is_some() || !model.is_empty());
                    model.extend(slot.map(|slot| (slot, row_number, record)));
                } else {
                    let (slot, ..) = model.swap_remove(choice % model.len());
                    workspace.remove(slot);
                    workspace.free(slot);
                }
                workspace.audit();
                for (slot, row_number, record) in &model {
                    prop_assert_eq!(
                        workspace.tuple(*slot), Tuple { row_number: *row_number, record });
                }
            }
        }
    }

    fn slot_of(slot: Option<Slot>) -> Option<u32> {
        slot.map(|slot| match slot {
            Slot::Free(slot) | Slot::New(slot) => slot,
        })
    }

    #[test]
    fn rows_of_mixed_lengths_fill_most_of_the_work_space() {
        let mut rng = nandu_base::Rng::new(11);
        let mut workspace = Workspace::new(1 << 20, 0, 0);
        let mut slots: Vec<u32> = Vec::new();
        let record = vec![3; 400];
        // Fill it, then let one row in whenever enough others are gone.
        for _ in 0..40_000 {
            let length = 100 + nandu_base::to_index(rng.below(300));
            let tuple = Tuple { row_number: 1, record: &record[..length] };
            let slot = loop {
                if let Some(slot) = slot_of(workspace.insert_anywhere(tuple)) {
                    break slot;
                }
                let index = nandu_base::to_index(rng.below(slots.len() as u64));
                let slot = slots.swap_remove(index);
                workspace.remove(slot);
                workspace.free(slot);
            };
            slots.push(slot);
        }
        let held: usize = slots.iter().map(|&slot| workspace.tuple(slot).cell_bytes()).sum();
        assert!(held * 100 >= 80 << 20, "{held} bytes of {}", 1 << 20);
    }
}
