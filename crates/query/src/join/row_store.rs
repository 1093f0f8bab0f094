//! Rows in segments of memory, each with room for a link: what a hash table is built over, and what can
//! be written out instead when memory runs short.
//!
//! ```text
//!   segments    ┌ link 8 │ cell ┬ link 8 │ cell ┬ …
//!               link: address of the next row of this key; bit 63: this row has met a partner
//! ```
//!
//! A row larger than a sixteenth of a segment has a segment of its own, exactly as long.
//!
//! 1. `used_bytes` is the capacity of all segments; a segment is never made longer.
//! 2. Of a segment that is not the open one, at most a sixteenth is unused.

use crate::tuple::{Tuple, read_cell, segment_address};

/// Bytes of a segment at most.
const SEGMENT_BYTES_MAX: usize = 256 << 10;
/// Bytes of a segment at least.
const SEGMENT_BYTES_MIN: usize = 1 << 10;
/// Bytes that come from memory together.
const CACHE_LINE_BYTES: usize = 64;
/// Of how many such the rows of a lookup are loaded ahead.
const TOUCHED_LINES: usize = 3;
/// Bytes in front of a cell.
pub(crate) const LINK_BYTES: usize = 8;
/// Bits of an address: an offset of 20 and as many for the segment.
pub(super) const ADDRESS_BITS: u32 = 40;
const OFFSET_BITS: u32 = 20;
/// Segments of a table at most: as many as addresses tell.
pub(super) const SEGMENT_COUNT_MAX: usize = 1 << (ADDRESS_BITS - OFFSET_BITS);
/// The address of no row.
pub(super) const NONE: u64 = (1 << ADDRESS_BITS) - 1;
/// The bit of a link that says that its row has met a partner.
pub(super) const MATCHED: u64 = 1 << 63;

/// Rows in the order in which they came.
#[derive(Debug)]
pub(crate) struct RowStore {
    segments: Vec<Vec<u8>>,
    spare: Vec<Vec<u8>>,
    segment_bytes: usize,
    used_bytes: usize,
    row_count: usize,
    /// The segment that small rows go to.
    open: Option<usize>,
}

#[inline]
pub(super) const fn pack(segment: usize, offset: usize) -> u64 {
    (segment as u64) << OFFSET_BITS | offset as u64
}

#[inline]
#[allow(clippy::cast_possible_truncation, reason = "made from usize")]
pub(super) const fn unpack(address: u64) -> (usize, usize) {
    ((address >> OFFSET_BITS) as usize, (address & ((1 << OFFSET_BITS) - 1)) as usize)
}

/// The address in an area of the cell behind the link at `address`.
#[inline]
pub(super) const fn cell_address(address: u64) -> u64 {
    let (segment, offset) = unpack(address);
    segment_address(segment, offset + LINK_BYTES)
}

/// Bytes of a segment of a store of about `expected_bytes`.
pub(crate) fn segment_bytes(expected_bytes: usize) -> usize {
    (expected_bytes / 32).clamp(SEGMENT_BYTES_MIN, SEGMENT_BYTES_MAX)
}

impl RowStore {
    /// No rows; segments that suit a store of about `expected_bytes`.
    pub(crate) fn new(expected_bytes: usize) -> Self {
        let segment_bytes = segment_bytes(expected_bytes);
        let (segments, spare) = (Vec::new(), Vec::new());
        Self { segments, spare, segment_bytes, used_bytes: 0, row_count: 0, open: None }
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Bytes of all segments.
    pub(crate) const fn used_bytes(&self) -> usize {
        self.used_bytes
    }

    pub(crate) const fn segment_bytes(&self) -> usize {
        self.segment_bytes
    }

    pub(crate) fn segments(&self) -> &[Vec<u8>] {
        &self.segments
    }

    pub(super) fn segments_mut(&mut self) -> &mut [Vec<u8>] {
        &mut self.segments
    }

    /// Bytes by which the segments grow if `tuple` is added.
    #[inline]
    pub(crate) fn growth(&self, tuple: Tuple<'_>) -> usize {
        let bytes = LINK_BYTES + tuple.cell_bytes();
        if bytes > self.segment_bytes / 16 {
            return bytes;
        }
        let has_room = self.open.is_some_and(|open| {
            let segment = &self.segments[open];
            segment.capacity() - segment.len() >= bytes
        });
        if has_room { 0 } else { self.segment_bytes }
    }

    /// Adds a row, whose [`Self::growth`] the caller has looked at.
    #[inline]
    pub(crate) fn push(&mut self, tuple: Tuple<'_>, growth: usize) {
        let index = if growth == 0 {
            self.open.expect("there is one with room")
        } else {
            let is_open = growth == self.segment_bytes;
            let spare = if is_open { self.spare.pop() } else { None };
            self.segments.push(spare.unwrap_or_else(|| Vec::with_capacity(growth)));
            self.used_bytes += growth;
            let index = self.segments.len() - 1;
            self.open = if is_open { Some(index) } else { self.open };
            index
        };
        let segment = &mut self.segments[index];
        segment.extend_from_slice(&NONE.to_le_bytes());
        tuple.push_cell(segment);
        self.row_count += 1;
    }

    /// Puts all rows of `other` behind those of this store.
    pub(crate) fn append(&mut self, other: &mut Self) {
        self.segments.append(&mut other.segments);
        other.open = None;
        self.open = None;
        self.used_bytes += std::mem::take(&mut other.used_bytes);
        self.row_count += std::mem::take(&mut other.row_count);
    }

    /// Puts segments with so many rows behind those of this store.
    pub(crate) fn append_segments(&mut self, mut segments: Vec<Vec<u8>>, row_count: usize) {
        self.used_bytes += segments.iter().map(Vec::capacity).sum::<usize>();
        self.segments.append(&mut segments);
        self.open = None;
        self.row_count += row_count;
    }

    /// The segments alone.
    pub(crate) fn into_segments(self) -> Vec<Vec<u8>> {
        self.segments
    }

    /// Forgets all rows and keeps the memory.
    pub(crate) fn clear(&mut self) {
        for mut segment in self.segments.drain(..) {
            if segment.capacity() == self.segment_bytes {
                segment.clear();
                self.spare.push(segment);
            }
        }
        self.used_bytes = 0;
        self.row_count = 0;
        self.open = None;
    }

    /// Gives memory back that is not in use.
    pub(crate) fn drop_spare(&mut self) {
        self.spare.clear();
    }

    /// All rows, in the order in which they came.
    pub(crate) fn tuples(&self) -> impl Iterator<Item = Tuple<'_>> {
        self.segments.iter().flat_map(|segment| {
            let mut offset = 0;
            std::iter::from_fn(move || {
                (offset < segment.len()).then(|| {
                    let (tuple, length) = row_in(segment, offset);
                    offset += LINK_BYTES + length;
                    tuple
                })
            })
        })
    }

    /// The row behind the link at an address.
    #[inline]
    pub(super) fn row(&self, address: u64) -> Tuple<'_> {
        let (segment, offset) = unpack(address);
        row_in(&self.segments[segment], offset).0
    }

    /// Loads the cache lines of the row at an address, as far as rows usually go.
    #[inline]
    pub(super) fn touch(&self, address: u64) -> u8 {
        let (segment, offset) = unpack(address);
        let bytes = &self.segments[segment][offset..];
        let line = |number: usize| bytes.get(number * CACHE_LINE_BYTES).copied().unwrap_or(0);
        (0..TOUCHED_LINES).fold(0, |touched, number| touched ^ line(number))
    }

    /// The link at an address.
    #[inline]
    pub(super) fn link(&self, address: u64) -> u64 {
        let (segment, offset) = unpack(address);
        let bytes = self.segments[segment][offset..].first_chunk().expect("a row has a link");
        u64::from_le_bytes(*bytes)
    }

    /// Notes that a row has met a partner.
    #[inline]
    pub(super) fn mark(&mut self, address: u64) {
        let (segment, offset) = unpack(address);
        self.segments[segment][offset + LINK_BYTES - 1] |= 0x80;
    }
}

/// The row behind the link at `offset`, and the length of its cell.
#[inline]
pub(super) fn row_in(segment: &[u8], offset: usize) -> (Tuple<'_>, usize) {
    read_cell(&segment[offset + LINK_BYTES..]).expect("a store holds whole cells")
}
