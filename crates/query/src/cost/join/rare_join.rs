//! RARE-join: the kernel, a sort of the join index, one pass over the pages of R that have a pair, a sort of R's
//! rows with the join index, one pass over those of S (Shah and others, DaMoN 2008).

use super::late::{Batches, PairOrder, fetch, kernel, row_bytes};
use crate::allocation::HybridHash;
use crate::cost::built::late::sort_pushed;
use crate::cost::{
    CostModel, Estimate, Footprint, JoinQuestion, JoinSide, PageOrder, RelationStats, Tally,
    scale_up,
};
use crate::sort::BATCH_COUNT_MAX;
use crate::work::Work;
use serde::Serialize;

/// Bytes of a pair in the join index beside its row numbers: the cell's head of two, the record's of three.
const INDEX_HEAD_BYTES: u64 = 5;
/// Bytes of a row with the number of its partner beside both: the heads of a cell and of a record, whose last
/// value is the cell that the row had.
const PARTNER_HEAD_BYTES: u64 = 7;

/// Rows that a sort hands on at once, at most.
const SORT_BATCH_ROWS: u64 = BATCH_COUNT_MAX as u64;

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct RareMemory {
    /// Pages of the kernel, beside those of a sort.
    pub kernel_pages: u64,
    /// What it makes of them.
    pub kernel: HybridHash,
    /// Pages of each sort.
    pub sort_pages: u64,
    /// Pages through which rows are fetched.
    pub fetch_pages: u64,
    /// Pages of rows of S.
    pub row_pages: u64,
}

/// The cost with such a division of memory; `None` where a side cannot be read by columns.
#[must_use]
pub fn rare_join(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: &RareMemory,
) -> Option<Estimate> {
    let (outer, inner) = (&question.outer, &question.inner);
    let (late_outer, late_inner) = (outer.late?, inner.late?);
    let mut estimate = kernel(model, question, memory.kernel_pages, &memory.kernel)?;
    let pair_count = question.result_count();
    let page_bytes = outer.stats.page_bytes.max(1);
    let sorted = |cell_bytes: u64| {
        let order = PageOrder::Contiguous;
        let stats =
            RelationStats { page_count: 0, tuple_count: pair_count, cell_bytes, page_bytes, order };
        Footprint::new(&stats, 1_000_000)
    };
    let numbers = |side: &JoinSide| {
        let count = side.stats.tuple_count;
        scale_up(integer_bytes(count), pair_count, count)
    };
    let heads = pair_count.saturating_mul(INDEX_HEAD_BYTES);
    let index_bytes = heads.saturating_add(numbers(outer)).saturating_add(numbers(inner));
    let came = |side: &Footprint| {
        // A batch of the sort: some rows of those in memory, or a page of those in runs.
        let of_page = page_bytes / side.mean_cell_bytes().max(1);
        let is_in_memory = side.sort_pages() <= memory.sort_pages;
        let rows = if is_in_memory { SORT_BATCH_ROWS } else { of_page.min(SORT_BATCH_ROWS) };
        Batches { count: 1, order: PairOrder::Any, known_pairs: rows }
    };
    let index = sorted(index_bytes);
    estimate += sort_pushed(model, &index, memory.sort_pages);
    estimate += fetch(model, (outer, &late_outer), pair_count, came(&index), memory.fetch_pages);
    let each = row_bytes(&late_outer).saturating_add(PARTNER_HEAD_BYTES);
    let row_bytes = pair_count.saturating_mul(each).saturating_add(numbers(inner));
    let rows = sorted(row_bytes);
    estimate += sort_pushed(model, &rows, memory.sort_pages);
    estimate += fetch(model, (inner, &late_inner), pair_count, came(&rows), memory.fetch_pages);
    let mut tally = Tally::new(model, page_bytes);
    tally.work(Work::Emit, pair_count);
    Some(estimate + tally.estimate)
}

/// Bytes of all numbers up to `count` in records.
fn integer_bytes(count: u64) -> u64 {
    const LAST_OF_EACH: [(u64, u64); 5] =
        [(1 << 7, 1), (1 << 15, 2), (1 << 23, 3), (1 << 31, 4), (1 << 47, 6)];
    let (mut below, mut bytes) = (0, 0_u64);
    for (end, each) in LAST_OF_EACH {
        let here = count.min(end) - below;
        bytes = bytes.saturating_add(here.saturating_mul(each));
        below += here;
    }
    bytes.saturating_add((count - below).saturating_mul(8))
}
