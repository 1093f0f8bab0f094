//! What a relation says of itself before it is read, for whoever plans: its size, how its pages lie, and, where
//! rows may be put together late, its parts.

use super::RelationSize;
use serde::{Deserialize, Serialize};

/// Beside a cell in a hash area: its link, 8 bytes, and one and a half slots of the directory.
pub(crate) const AREA_OVERHEAD_BYTES: u64 = 20;
/// Beside a cell in the work space of a sort: the head of its place, its entry and its address.
pub(crate) const SORT_OVERHEAD_BYTES: u64 = 36;
/// How the pages lie that a scan reads one after the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PageOrder {
    /// One behind the other, so that a request may take many.
    #[default]
    Contiguous,
    /// Anywhere, as leaves of a tree that was filled in random order.
    Scattered,
    /// In pieces of several pages: minipages, of which some are read.
    Apart {
        /// Requests that read all of them.
        request_count: u64,
        /// Of each PAX page so many, which are under way together.
        run_count: u64,
        /// Pages of memory for those.
        slot_pages: u32,
        /// Columns that are read.
        column_count: u32,
        /// Whether they are all that the file has, one piece behind the other.
        is_whole: bool,
    },
}

/// What a planner knows of a stored table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelationStats {
    /// Pages that hold tuples.
    pub page_count: u64,
    /// Tuples that the table holds.
    pub tuple_count: u64,
    /// Bytes of all cells: records, each with its length and its row number. The total and not the mean,
    /// whose rounding would be a percent.
    pub cell_bytes: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// How its pages lie.
    #[serde(default)]
    pub order: PageOrder,
}

impl RelationStats {
    /// A heap of cells of one length.
    #[must_use]
    pub const fn heap(
        page_count: u64,
        tuple_count: u64,
        mean_cell_bytes: u64,
        page_bytes: u64,
    ) -> Self {
        Self {
            page_count,
            tuple_count,
            cell_bytes: tuple_count.saturating_mul(mean_cell_bytes),
            page_bytes,
            order: PageOrder::Contiguous,
        }
    }

    /// What a relation says of its size.
    #[must_use]
    pub const fn of(size: RelationSize, page_bytes: u64) -> Self {
        let RelationSize { page_count, tuple_count, cell_bytes } = size;
        let order = PageOrder::Contiguous;
        Self { page_count, tuple_count, cell_bytes, page_bytes, order }
    }

    /// The least memory that a scan takes, in pages.
    #[must_use]
    pub const fn scan_pages_min(&self) -> u64 {
        match self.order {
            PageOrder::Apart { slot_pages, .. } => slot_pages as u64 + 1,
            PageOrder::Contiguous | PageOrder::Scattered => 1,
        }
    }

    /// Bytes of a hash area that holds all tuples.
    #[must_use]
    pub const fn area_bytes(&self) -> u64 {
        self.cell_bytes.saturating_add(self.tuple_count.saturating_mul(AREA_OVERHEAD_BYTES))
    }

    /// Bytes of a sort's work space that holds all tuples.
    #[must_use]
    pub const fn sort_bytes(&self) -> u64 {
        self.cell_bytes.saturating_add(self.tuple_count.saturating_mul(SORT_OVERHEAD_BYTES))
    }
}

/// A relation whose rows may be put together late: its keys are scanned, the rest is fetched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LateStats {
    /// The columns that are compared, to be scanned.
    pub keys: RelationStats,
    /// PAX pages of the relation, each of several database pages.
    pub pax_page_count: u64,
    /// Requests that fetch what is wanted of one of them.
    pub run_count: u64,
    /// Pages of what is wanted of all.
    pub page_count: u64,
    /// Pages of memory for what is wanted of one.
    pub slot_pages: u64,
    /// Columns that are wanted.
    pub column_count: u64,
    /// Rows that may be fetched, whether they qualify or not.
    pub row_count: u64,
    /// Bytes of the cells of all of them, with the columns that are wanted.
    pub cell_bytes: u64,
}
