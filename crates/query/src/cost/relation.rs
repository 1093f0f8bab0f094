//! What is known about a stored relation and its index, and what that makes in memory and in spill files.
//!
//! ```text
//!   stored   pages of a heap, filled to 80 % say           read by scans
//!   memory   link and cell, and 12 bytes of directory      hash areas
//!   sorted   cell and 36 bytes of heads and entries        work space of a sort
//!   spilled  cells; pages are full but for a check sum     buckets and runs
//! ```

use super::scan::distinct_pages;
use super::{HashTables, scale_up};
use crate::QueryError;
use crate::allocation::Fudge;
use crate::index::IndexLookup;
use crate::relation::pax::slot_count;
pub use crate::relation::{LateStats, PageOrder, RelationStats};
use crate::spill::CHECKSUM_BYTES;
use nandu_base::to_u32;
use nandu_storage::database::key::split_row_number;
use serde::{Deserialize, Serialize};

/// Leaves of an index that are looked at.
const SAMPLE_COUNT: u32 = 16;
/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// An index on the join key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexStats {
    /// Pages of the lowest level. Those of the relation itself where the index is clustered.
    pub leaf_page_count: u64,
    /// Levels above the leaves.
    pub height: u64,
    /// Entries of the index, at most one for each row.
    pub entry_count: u64,
    /// How its leaves lie in the order of keys.
    pub order: PageOrder,
    /// Whether the leaves hold the tuples themselves.
    pub is_clustered: bool,
    /// Bytes of a tuple as far as the index knows, by which buffers are laid out; 0 for the relation's mean.
    #[serde(default)]
    pub row_bytes: u64,
    /// Tuples of neighbouring entries that lie side by side, on average: all of a table in the
    /// order of the key, one where tuples lie in any order, which 0 stands for, too.
    #[serde(default)]
    pub run_rows: u64,
}

/// How often a tuple lies beside that of the entry before, in leaves that were looked at.
#[derive(Debug)]
struct RunLengths {
    rows_per_page: u64,
    /// The leaf and the row number of the last entry.
    last: Option<(u32, i64)>,
    pair_count: u64,
    jump_count: u64,
}

impl IndexStats {
    /// Of an index of an open database; looks at some leaves.
    ///
    /// # Errors
    /// If the device fails.
    pub fn of(index: &dyn IndexLookup) -> Result<Self, QueryError> {
        let size = index.size();
        let mut runs = RunLengths {
            rows_per_page: size.tuple_count.div_ceil(size.page_count.max(1)),
            last: None,
            pair_count: 0,
            jump_count: 0,
        };
        let look = |leaf: u32, entry: &[u8]| runs.note(leaf, entry);
        let sample = index.tree().sample_keys(index.engine(), SAMPLE_COUNT, look)?;
        Ok(Self {
            leaf_page_count: sample.leaf_count,
            height: u64::from(sample.height),
            entry_count: sample.entry_count,
            order: PageOrder::Scattered,
            is_clustered: index.is_clustered(),
            row_bytes: size.cell_bytes / size.tuple_count.max(1),
            run_rows: match index.is_clustered() {
                true => size.tuple_count,
                false => runs.rows(size.tuple_count),
            },
        })
    }
}

impl RunLengths {
    /// Notes the next entry of a leaf.
    fn note(&mut self, leaf: u32, entry: &[u8]) {
        let Ok((_, number)) = split_row_number(entry) else { return };
        if let Some((_, before)) = self.last.filter(|(last, _)| *last == leaf) {
            self.pair_count += 1;
            // On the same page or the next one.
            self.jump_count += u64::from(number.abs_diff(before) > self.rows_per_page);
        }
        self.last = Some((leaf, number));
    }

    /// The mean length of a run in a table of so many rows.
    fn rows(&self, tuple_count: u64) -> u64 {
        let all = if self.pair_count == 0 { 1 } else { tuple_count };
        self.pair_count.checked_div(self.jump_count).unwrap_or(all).clamp(1, tuple_count.max(1))
    }
}

/// A relation, or the part of it that qualifies, in the sizes that operators meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Pages that a scan reads.
    pub stored_pages: u64,
    /// Tuples that a scan meets.
    pub stored_tuples: u64,
    /// Tuples that qualify.
    pub tuple_count: u64,
    /// Bytes of a hash area for all that qualify.
    pub memory_bytes: u64,
    /// Bytes of a sort's work space for all that qualify.
    pub sort_bytes: u64,
    /// Bytes of a spill file of all that qualify.
    pub spilled_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Bytes of cells on a page of a spill file.
    pub spill_page_bytes: u64,
    /// How the stored pages lie.
    pub order: PageOrder,
    /// Bytes of the file in which a part of it lies that was spilled, with everything else there.
    pub spill_file_bytes: u64,
    /// Tuples that have a key in common, on average: they go to the same bucket. At least 1.
    pub tuples_per_key: u64,
}

impl Footprint {
    /// The footprint of the tuples that qualify, so many millionths of all.
    #[must_use]
    pub fn new(stats: &RelationStats, selectivity_ppm: u64) -> Self {
        let part = |whole: u64| super::scale_up(whole, selectivity_ppm.min(MILLION), MILLION);
        Self {
            stored_pages: stats.page_count,
            stored_tuples: stats.tuple_count,
            tuple_count: part(stats.tuple_count),
            memory_bytes: part(stats.area_bytes()),
            sort_bytes: part(stats.sort_bytes()),
            spilled_bytes: part(stats.cell_bytes),
            page_bytes: stats.page_bytes.max(1),
            spill_page_bytes: stats.page_bytes.saturating_sub(CHECKSUM_BYTES as u64).max(1),
            order: stats.order,
            spill_file_bytes: part(stats.cell_bytes),
            tuples_per_key: 1,
        }
    }

    /// PAX pages that a scan through so many pages has in memory, beside a page of rows; 1 of what is none.
    #[must_use]
    pub fn slots(&self, buffer_pages: u64, reads_ahead: bool) -> u64 {
        let PageOrder::Apart { slot_pages, .. } = self.order else { return 1 };
        let pages = to_u32(buffer_pages.saturating_sub(1).min(u64::from(u32::MAX)));
        u64::from(slot_count(pages, slot_pages, reads_ahead))
    }

    /// With so many tuples of each key.
    #[must_use]
    pub fn with_tuples_per_key(mut self, count: u64) -> Self {
        self.tuples_per_key = count.max(1);
        self
    }

    /// Hash tables over it of so many bytes each, with all rows of a key in the same.
    #[must_use]
    pub fn tables_by_key(&self, bytes: u64) -> HashTables {
        let key_count = self.tuple_count.div_ceil(self.tuples_per_key);
        HashTables { row_count: self.tuple_count, key_count, bytes }
    }

    /// The same of tables that are filled with the rows as they come, of which each has so many.
    #[must_use]
    pub fn tables_in_turn(&self, bytes: u64, rows_of_each: u64) -> HashTables {
        let tables = self.tables_by_key(bytes);
        let rows = rows_of_each.clamp(1, self.tuple_count.max(1));
        let keys = distinct_pages(tables.key_count, rows);
        HashTables { key_count: scale_up(tables.row_count, keys, rows), ..tables }
    }

    /// Bytes of a cell, on average, rounded up.
    #[must_use]
    pub fn mean_cell_bytes(&self) -> u64 {
        self.spilled_bytes.div_ceil(self.tuple_count.max(1))
    }

    /// Pages of memory for all that qualify: F|R|.
    #[must_use]
    pub fn memory_pages(&self) -> u64 {
        self.memory_bytes.div_ceil(self.page_bytes)
    }

    /// Pages of a spill file of all that qualify.
    #[must_use]
    pub const fn spilled_pages(&self) -> u64 {
        self.spilled_bytes.div_ceil(self.spill_page_bytes)
    }

    /// F of the stored pages.
    #[must_use]
    pub fn fudge(&self) -> Fudge {
        Fudge::of_ratio(self.memory_bytes, self.stored_pages.saturating_mul(self.page_bytes))
    }

    /// Pages of a sort's work space for all that qualify.
    #[must_use]
    pub fn sort_pages(&self) -> u64 {
        self.sort_bytes.div_ceil(self.page_bytes)
    }

    /// F of the stored pages in a sort.
    #[must_use]
    pub fn sort_fudge(&self) -> Fudge {
        Fudge::of_ratio(self.sort_bytes, self.stored_pages.saturating_mul(self.page_bytes))
    }

    /// Tuples that so many pages of a sort's work space hold.
    #[must_use]
    pub fn sorted_in(&self, workspace_pages: u64) -> u64 {
        let bytes = workspace_pages.saturating_mul(self.page_bytes).min(self.sort_bytes);
        super::scale_up(self.tuple_count, bytes, self.sort_bytes)
    }

    /// A part of it after it was spilled.
    #[must_use]
    pub fn spilled_part(&self, numerator: u64, denominator: u64) -> Self {
        let part = |whole: u64| super::scale_up(whole, numerator, denominator);
        let spilled_bytes = part(self.spilled_bytes);
        let tuple_count = part(self.tuple_count);
        Self {
            stored_pages: spilled_bytes.div_ceil(self.spill_page_bytes),
            stored_tuples: tuple_count,
            tuple_count,
            memory_bytes: part(self.memory_bytes),
            sort_bytes: part(self.sort_bytes),
            spilled_bytes,
            page_bytes: self.page_bytes,
            spill_page_bytes: self.spill_page_bytes,
            order: PageOrder::Contiguous,
            spill_file_bytes: self.spill_file_bytes,
            tuples_per_key: self.tuples_per_key,
        }
    }

    /// Chunks that a hash area of so many pages cuts it into. Only whole tuples go in.
    #[must_use]
    pub fn chunk_count(&self, area_pages: u64) -> u64 {
        let area_bytes = u128::from(area_pages) * u128::from(self.page_bytes);
        let memory_bytes = u128::from(self.memory_bytes.max(1));
        let tuples = area_bytes * u128::from(self.tuple_count) / memory_bytes;
        let count = u128::from(self.tuple_count).div_ceil(tuples.max(1));
        u64::try_from(count).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spill_files_are_full_and_hash_areas_compact() {
        // 1000 cells of 100 bytes on 16 pages: four fifths of them.
        let stats = RelationStats::heap(16, 1000, 100, 8192);
        let whole = Footprint::new(&stats, MILLION);
        assert_eq!((whole.memory_bytes, whole.spilled_bytes), (120_000, 100_000));
        assert_eq!((whole.memory_pages(), whole.spilled_pages()), (15, 13));
        assert!(whole.fudge() < Fudge::from_ppm(MILLION));
        let half = Footprint::new(&stats, 500_000);
        assert_eq!((half.stored_pages, half.tuple_count, half.memory_bytes), (16, 500, 60_000));
    }

    #[test]
    fn chunks_hold_whole_tuples() {
        let stats = RelationStats::heap(10, 10, 4000, 8192);
        let whole = Footprint::new(&stats, MILLION);
        // 4020 bytes each: two on a page, and not 2.04.
        assert_eq!(whole.chunk_count(1), 5);
        assert_eq!(whole.chunk_count(3), 2);
        let nothing = Footprint::new(&RelationStats::heap(0, 0, 0, 8192), MILLION);
        assert_eq!(nothing.chunk_count(1), 0);
    }
}
