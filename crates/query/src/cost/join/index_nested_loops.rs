//! Index nested loops: R is read, and the index of S descended for each tuple of R that qualifies (S000
//! chapter 5). Levels above the leaves stay in memory; leaves and pages of S share the rest of it.
//!
//! Where R comes in the order of keys, so do the leaves of S, and each is read once.

use super::{begin, is_followed};
use crate::cost::built::lookups::lookups;
use crate::cost::scan::{AddressMemory, address_order_scan, fetch, index_scan, table_scan};
use crate::cost::{CostModel, Estimate, IndexStats, JoinQuestion, Pattern, PoolShape, Tally};
use crate::index::FetchOrder;
use crate::work::Work;
use serde::{Deserialize, Serialize};

/// How R is read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OuterAccess {
    /// All of R is read.
    #[default]
    TableScan,
    /// By its index, tuple by tuple in the order of keys.
    KeyOrder,
    /// By its index, in the order of pages.
    AddressOrder,
}

impl OuterAccess {
    /// All ways to read the outer table.
    pub const ALL: [Self; 3] = [Self::TableScan, Self::KeyOrder, Self::AddressOrder];
}

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMemory {
    /// Pages that read R, or hold its addresses while they are sorted.
    pub input_pages: u64,
    /// Pages of a batch of rows of R, whose keys go down the index together.
    pub batch_pages: u64,
    /// Pages of rows of S.
    pub inner_pages: u64,
    /// The buffer pool: all of the index and of S comes through it.
    pub pool: PoolShape,
}

impl IndexMemory {
    /// Pages that keep what was read of S in the formulas of S000: leaves of its index first, then tuples.
    #[must_use]
    pub const fn cache_pages(&self) -> u64 {
        self.batch_pages.saturating_add(self.inner_pages).saturating_add(self.pool.page_count)
    }
}

/// The cost with such a division of memory, where rows of S are fetched in such an order; `None` without the
/// indexes that it needs.
#[must_use]
pub fn index_nested_loops(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    access: OuterAccess,
    memory: &IndexMemory,
    order: FetchOrder,
) -> Option<Estimate> {
    let index = question.inner.index?;
    if is_followed(question) && access == OuterAccess::TableScan {
        return Some(begin(model, question).estimate + lookups(model, question, memory, order)?);
    }
    let outer = read_outer(model, question, access, memory)?;
    let mut tally = begin(model, question);
    let descent_count = question.outer.qualifying_count();
    let is_in_key_order = match access {
        OuterAccess::TableScan => false,
        OuterAccess::KeyOrder => true,
        OuterAccess::AddressOrder => question.outer.index?.is_clustered,
    };
    let leaf_cache = memory.cache_pages().min(index.leaf_page_count);
    read_leaves(&mut tally, &index, descent_count, leaf_cache, is_in_key_order);
    tally.work(Work::Descend, descent_count);
    let pair_count = question.outer_pair_count();
    if index.is_clustered {
        tally.work(Work::Fetch, pair_count);
    } else {
        let cache_pages = memory.cache_pages() - leaf_cache;
        fetch(&mut tally, question.inner.stats.page_count, pair_count, cache_pages.max(1));
    }
    Some(tally.estimate + outer)
}

/// The cost of reading the outer table R.
fn read_outer(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    access: OuterAccess,
    memory: &IndexMemory,
) -> Option<Estimate> {
    let outer = &question.outer;
    let estimate = match access {
        OuterAccess::TableScan => table_scan(model, &outer.footprint(), memory.input_pages),
        OuterAccess::KeyOrder => {
            let (index, entry_count) = (outer.index?, outer.walked_count());
            index_scan(model, &outer.stats, &index, entry_count, memory.input_pages)
        }
        OuterAccess::AddressOrder => {
            let index = outer.index.filter(|_| outer.is_key_range)?;
            let addresses =
                AddressMemory { list_pages: memory.input_pages, request_pages: 1, queue_depth: 1 };
            address_order_scan(model, &outer.stats, &index, outer.walked_count(), &addresses)
        }
    };
    Some(estimate)
}

/// Reads leaves of the index of S, the levels above them once.
fn read_leaves(
    tally: &mut Tally<'_>,
    index: &IndexStats,
    descent_count: u64,
    cache_pages: u64,
    is_in_key_order: bool,
) {
    let leaves = if is_in_key_order {
        crate::cost::scan::distinct_pages(index.leaf_page_count, descent_count)
    } else {
        crate::cost::scan::cached_reads(index.leaf_page_count, descent_count, cache_pages.max(1))
    };
    let reads = leaves + index.height.min(descent_count);
    tally.read_requests(Pattern::Random, reads, reads);
    tally.seek(reads);
}
