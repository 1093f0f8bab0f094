//! How many rows memory holds, by the layout of the operators: segments with links and a directory for hash
//! tables (`join::row_store`, `join::hash_table`), segments with heads and entries for sorts
//! (`sort::workspace`). Rows are taken to be as long as their mean.

use crate::cost::Footprint;
use crate::join::row_store::{LINK_BYTES, segment_bytes};
use crate::sort::workspace;

/// Bytes of the directory for a row.
pub(super) const DIRECTORY_BYTES: u64 = 12;
/// A row larger than this part of a segment has one of its own.
const LARGE_ROW_PART: u64 = 16;

/// Rows of one length in segments.
#[derive(Clone, Copy, Debug)]
pub(super) struct Segments {
    segment_bytes: u64,
    /// A row with its link.
    row_bytes: u64,
}

impl Segments {
    /// Those of a store of about so many bytes.
    pub(super) fn new(side: &Footprint, expected_bytes: u64) -> Self {
        let expected = usize::try_from(expected_bytes).unwrap_or(usize::MAX);
        let row_bytes = side.mean_cell_bytes() + LINK_BYTES as u64;
        Self { segment_bytes: segment_bytes(expected) as u64, row_bytes }
    }

    const fn rows_per_segment(&self) -> u64 {
        if self.row_bytes > self.segment_bytes / LARGE_ROW_PART {
            0
        } else {
            self.segment_bytes / self.row_bytes
        }
    }

    /// Bytes of segments for so many rows.
    pub(super) const fn bytes(&self, row_count: u64) -> u64 {
        match self.rows_per_segment() {
            0 => row_count.saturating_mul(self.row_bytes),
            each => row_count.div_ceil(each).saturating_mul(self.segment_bytes),
        }
    }

    /// Rows that so many bytes hold with their directory, at least one.
    pub(super) fn rows_in(&self, bytes: u64) -> u64 {
        let rows = match self.rows_per_segment() {
            0 => bytes / (self.row_bytes + DIRECTORY_BYTES),
            each => bytes / (self.segment_bytes + each * DIRECTORY_BYTES) * each,
        };
        rows.max(1)
    }
}

/// A sort's work space of so many bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct SortSpace {
    slot_count: u64,
    segment_bytes: u64,
    segment_count: u64,
    rows_per_segment: u64,
}

impl SortSpace {
    pub(super) fn new(side: &Footprint, bytes: u64) -> Self {
        let cell_bytes = side.mean_cell_bytes();
        let row_bytes = cell_bytes + workspace::ROW_OVERHEAD_BYTES as u64;
        let slot_count = (bytes / row_bytes.max(1)).min(side.stored_tuples);
        let heap_bytes = bytes.saturating_sub(slot_count * workspace::SLOT_BYTES as u64);
        let segment_bytes = workspace::segment_bytes(usize::try_from(heap_bytes).unwrap_or(0));
        let segment_bytes = (segment_bytes as u64).max(1);
        let block_bytes = cell_bytes + workspace::HEAD_BYTES as u64;
        // Rows of one length are rounded up alike, others by half of what is rounded.
        let block_bytes = match side.spilled_bytes.checked_rem(side.tuple_count) {
            Some(0) => block_bytes.next_multiple_of(8),
            _ => block_bytes + 4,
        };
        Self {
            slot_count,
            segment_bytes: segment_bytes.max(block_bytes),
            segment_count: heap_bytes / segment_bytes.max(block_bytes),
            rows_per_segment: (segment_bytes / block_bytes).max(1),
        }
    }

    /// Rows that it holds, at least one.
    pub(super) fn row_count(&self) -> u64 {
        (self.segment_count * self.rows_per_segment).max(1)
    }

    /// Bytes that so many rows take of it.
    pub(super) const fn bytes(&self, row_count: u64) -> u64 {
        let segments = row_count.div_ceil(self.rows_per_segment);
        segments.saturating_mul(self.segment_bytes) + self.slot_count * workspace::SLOT_BYTES as u64
    }
}
