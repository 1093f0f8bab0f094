//! RARE-join: the kernel, a sort of the join index, one pass over the pages of R that have a pair, a sort of R's
//! rows with the join index, one pass over those of S (Shah and others, DaMoN 2008).

use super::late::{fetch, kernel, row_bytes};
use crate::allocation::HybridHash;
use crate::cost::built::late::sort_pushed;
use crate::cost::{Convention, CostModel, Estimate, Footprint, JoinQuestion, RelationStats, Tally};
use crate::work::Work;
use serde::Serialize;

/// Bytes of a pair of row numbers in the join index, about.
const INDEX_CELL_BYTES: u64 = 13;
/// Bytes that a row has more with the number of its partner.
const PARTNER_BYTES: u64 = 9;

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
        let stats = RelationStats::heap(0, pair_count, cell_bytes, page_bytes);
        Footprint::new(&stats, 1_000_000, Convention::AsBuilt { reads_ahead: model.reads_ahead() })
    };
    estimate += sort_pushed(model, &sorted(INDEX_CELL_BYTES), memory.sort_pages);
    estimate += fetch(model, (outer, &late_outer), pair_count, (1, false), memory.fetch_pages);
    let rows = row_bytes(outer, &late_outer).saturating_add(PARTNER_BYTES);
    estimate += sort_pushed(model, &sorted(rows), memory.sort_pages);
    estimate += fetch(model, (inner, &late_inner), pair_count, (1, false), memory.fetch_pages);
    let mut tally = Tally::new(model, page_bytes);
    tally.work(Work::Emit, pair_count);
    Some(estimate + tally.estimate)
}
