//! What is known about a stored relation and its index, and what that makes in memory and in spill files.
//!
//! ```text
//!   stored   pages of a heap, filled to 80 % say           read by scans
//!   memory   record + 4 bytes, and 12 bytes of directory   hash areas, trees of a sort
//!   spilled  varints of length and rowid, record; full     buckets and runs
//! ```

use crate::allocation::Fudge;
use serde::{Deserialize, Serialize};

/// Beside a record in a hash area or a sort: its length, 4 bytes, and its place in the directory, 12.
const AREA_OVERHEAD_BYTES: u64 = 16;
/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// How the pages lie that a scan reads one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageOrder {
    /// One behind the other, so that a request may take many.
    #[default]
    Contiguous,
    /// Anywhere, as leaves of a tree that was filled in random order.
    Scattered,
}

/// A stored relation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationStats {
    /// Pages that hold tuples.
    pub page_count: u64,
    /// Tuples.
    pub tuple_count: u64,
    /// Bytes of all records together, without what a page adds. The total and not the mean, whose rounding
    /// would be a percent.
    pub record_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// How its pages lie.
    #[serde(default)]
    pub order: PageOrder,
}

impl RelationStats {
    /// A heap of tuples of one length.
    #[must_use]
    pub const fn heap(
        page_count: u64,
        tuple_count: u64,
        tuple_bytes: u64,
        page_bytes: u64,
    ) -> Self {
        Self {
            page_count,
            tuple_count,
            record_bytes: tuple_count.saturating_mul(tuple_bytes),
            page_bytes,
            order: PageOrder::Contiguous,
        }
    }

    /// Bytes of a spill file that holds all tuples: each record with its length and its rowid before it, as
    /// variable-length integers. Rowids are taken to count from 1.
    #[must_use]
    pub fn spilled_bytes(&self) -> u64 {
        let mean_bytes = self.record_bytes.checked_div(self.tuple_count).unwrap_or(0);
        let lengths = self.tuple_count.saturating_mul(varint_bytes(mean_bytes));
        self.record_bytes.saturating_add(lengths).saturating_add(rowid_bytes(self.tuple_count))
    }

    /// Bytes of a hash area that holds all tuples.
    #[must_use]
    pub const fn area_bytes(&self) -> u64 {
        self.record_bytes.saturating_add(self.tuple_count.saturating_mul(AREA_OVERHEAD_BYTES))
    }
}

/// An index on the join key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexStats {
    /// Pages of the lowest level. Those of the relation itself where the index is clustered.
    pub leaf_page_count: u64,
    /// Levels above the leaves.
    pub height: u64,
    /// Entries.
    pub entry_count: u64,
    /// How its leaves lie in the order of keys.
    pub order: PageOrder,
    /// Whether the leaves hold the tuples themselves.
    pub is_clustered: bool,
}

/// Whose counts an estimate follows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Convention {
    /// Those of Haas and others: memory is F times the pages, what is spilled is as large as what is
    /// stored, a chunk or a bucket of R is read by one request, and each request of a phase that reads
    /// and writes moves the head.
    AsInPaper {
        /// F.
        fudge: Fudge,
    },
    /// Those of the operators here: tuples are copied compactly, spill files are full, everything is read
    /// through the input buffer, and the head moves only where somebody else moved it.
    AsBuilt,
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
    /// Bytes of memory for all that qualify.
    pub memory_bytes: u64,
    /// Bytes of a spill file of all that qualify.
    pub spilled_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// How the stored pages lie.
    pub order: PageOrder,
}

impl Footprint {
    /// The footprint of the tuples that qualify, so many millionths of all.
    #[must_use]
    pub fn new(stats: &RelationStats, selectivity_ppm: u64, convention: Convention) -> Self {
        let part = |whole: u64| super::scale_up(whole, selectivity_ppm.min(MILLION), MILLION);
        let stored_bytes = stats.page_count.saturating_mul(stats.page_bytes);
        let (memory_bytes, spilled_bytes) = match convention {
            Convention::AsInPaper { fudge } => {
                (super::scale_up(stored_bytes, fudge.ppm(), MILLION), stored_bytes)
            }
            Convention::AsBuilt => (stats.area_bytes(), stats.spilled_bytes()),
        };
        Self {
            stored_pages: stats.page_count,
            stored_tuples: stats.tuple_count,
            tuple_count: part(stats.tuple_count),
            memory_bytes: part(memory_bytes),
            spilled_bytes: part(spilled_bytes),
            page_bytes: stats.page_bytes.max(1),
            order: stats.order,
        }
    }

    /// Pages of memory for all that qualify: F|R|.
    #[must_use]
    pub fn memory_pages(&self) -> u64 {
        self.memory_bytes.div_ceil(self.page_bytes)
    }

    /// Pages of a spill file of all that qualify.
    #[must_use]
    pub fn spilled_pages(&self) -> u64 {
        self.spilled_bytes.div_ceil(self.page_bytes)
    }

    /// F of the stored pages.
    #[must_use]
    pub fn fudge(&self) -> Fudge {
        Fudge::of_ratio(self.memory_bytes, self.stored_pages.saturating_mul(self.page_bytes))
    }

    /// A part of it after it was spilled.
    #[must_use]
    pub fn spilled_part(&self, numerator: u64, denominator: u64) -> Self {
        let part = |whole: u64| super::scale_up(whole, numerator, denominator);
        let spilled_bytes = part(self.spilled_bytes);
        let tuple_count = part(self.tuple_count);
        Self {
            stored_pages: spilled_bytes.div_ceil(self.page_bytes),
            stored_tuples: tuple_count,
            tuple_count,
            memory_bytes: part(self.memory_bytes),
            spilled_bytes,
            page_bytes: self.page_bytes,
            order: PageOrder::Contiguous,
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

    /// Tuples that so many pages of memory hold.
    #[must_use]
    pub fn tuples_in(&self, area_pages: u64) -> u64 {
        let area_bytes = area_pages.saturating_mul(self.page_bytes).min(self.memory_bytes);
        super::scale_up(self.tuple_count, area_bytes, self.memory_bytes)
    }
}

/// Bytes of a variable-length integer of SQLite's kind: 7 bits in each byte, all 8 in a ninth.
const fn varint_bytes(value: u64) -> u64 {
    let bits = u64::BITS - value.leading_zeros();
    match bits.div_ceil(7) {
        0 => 1,
        bytes if bytes > 9 => 9,
        bytes => bytes as u64,
    }
}

/// Bytes of the rowids 1 to `count` together.
fn rowid_bytes(count: u64) -> u64 {
    let mut total = 0_u64;
    for bytes in 1..=9_u32 {
        let first = if bytes == 1 { 1 } else { 1_u64 << (7 * (bytes - 1)) };
        let last = if bytes == 9 { u64::MAX } else { (1_u64 << (7 * bytes)) - 1 };
        let within = count.min(last).saturating_sub(first - 1);
        total = total.saturating_add(within.saturating_mul(u64::from(bytes)));
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_are_as_long_as_sqlite_makes_them() {
        let expected = [(0, 1), (127, 1), (128, 2), (16_383, 2), (16_384, 3), (u64::MAX, 9)];
        for (value, bytes) in expected {
            assert_eq!(varint_bytes(value), bytes, "{value}");
        }
        assert_eq!(varint_bytes((1 << 56) - 1), 8);
        assert_eq!(varint_bytes(1 << 56), 9);
    }

    #[test]
    fn rowids_are_counted_one_by_one() {
        for count in [0, 1, 127, 128, 129, 16_383, 16_384, 40_000] {
            let expected: u64 = (1..=count).map(varint_bytes).sum();
            assert_eq!(rowid_bytes(count), expected, "{count}");
        }
    }

    #[test]
    fn spill_files_are_full_and_hash_areas_compact() {
        // 1000 records of 100 bytes on 16 pages: four fifths of them.
        let stats = RelationStats::heap(16, 1000, 100, 8192);
        let whole = Footprint::new(&stats, MILLION, Convention::AsBuilt);
        assert_eq!(whole.memory_bytes, 116_000);
        assert_eq!(whole.spilled_bytes, 101_000 + 127 + 2 * 873);
        assert_eq!((whole.memory_pages(), whole.spilled_pages()), (15, 13));
        assert!(whole.fudge() < Fudge::from_ppm(MILLION));
        let half = Footprint::new(&stats, 500_000, Convention::AsBuilt);
        assert_eq!((half.stored_pages, half.tuple_count, half.memory_bytes), (16, 500, 58_000));
    }

    #[test]
    fn the_paper_spills_what_is_stored() {
        let stats = RelationStats::heap(93_440, 4_500_000, 134, 8192);
        let convention = Convention::AsInPaper { fudge: Fudge::PAPER };
        let whole = Footprint::new(&stats, MILLION, convention);
        assert_eq!((whole.memory_pages(), whole.spilled_pages()), (112_128, 93_440));
        assert_eq!(whole.fudge(), Fudge::PAPER);
    }

    #[test]
    fn chunks_hold_whole_tuples() {
        let stats = RelationStats::heap(10, 10, 4000, 8192);
        let whole = Footprint::new(&stats, MILLION, Convention::AsBuilt);
        // 4016 bytes each: two on a page, and not 2.04.
        assert_eq!(whole.chunk_count(1), 5);
        assert_eq!(whole.chunk_count(3), 2);
        let nothing =
            Footprint::new(&RelationStats::heap(0, 0, 0, 8192), MILLION, Convention::AsBuilt);
        assert_eq!(nothing.chunk_count(1), 0);
    }
}
