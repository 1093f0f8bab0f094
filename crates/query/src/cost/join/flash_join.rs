//! FlashJoin: the kernel, then for each batch of pairs a fetch from either side (Tsirogiannis and others, SIGMOD
//! 2009). Pairs come in the order of the side that looks up, as long as the kernel spills nothing.

use super::late::{fetch, kernel, row_bytes};
use crate::allocation::HybridHash;
use crate::cost::{CostModel, Estimate, JoinQuestion, Tally};
use crate::join::flash_join::batch_parts;
use crate::work::Work;
use serde::Serialize;

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlashMemory {
    /// Pages of the kernel.
    pub kernel_pages: u64,
    /// What it makes of them.
    pub kernel: HybridHash,
    /// Pages of pairs and their rows.
    pub batch_pages: u64,
    /// Pages through which rows are fetched.
    pub fetch_pages: u64,
}

/// The cost with such a division of memory; `None` where a side cannot be read by columns.
#[must_use]
pub fn flash_join(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: &FlashMemory,
) -> Option<Estimate> {
    let (outer, inner) = (&question.outer, &question.inner);
    let (late_outer, late_inner) = (outer.late?, inner.late?);
    let mut estimate = kernel(model, question, memory.kernel_pages, &memory.kernel)?;
    let pair_count = question.result_count();
    let batch_bytes = memory.batch_pages.saturating_mul(outer.stats.page_bytes);
    let rows = [row_bytes(outer, &late_outer), row_bytes(inner, &late_inner)];
    let (batch_pairs, _) = batch_parts(batch_bytes, rows);
    let batches = pair_count.div_ceil(batch_pairs);
    let is_in_order = memory.kernel.bucket_count == 0;
    for (side, is_in_order) in [((outer, &late_outer), false), ((inner, &late_inner), is_in_order)]
    {
        estimate += fetch(model, side, pair_count, (batches, is_in_order), memory.fetch_pages);
    }
    let mut tally = Tally::new(model, outer.stats.page_bytes.max(1));
    tally.work(Work::Emit, pair_count);
    Some(estimate + tally.estimate)
}
