//! FlashJoin: the kernel, then for each batch of pairs a fetch from either side (Tsirogiannis and others, SIGMOD
//! 2009). Pairs come in the order of the side that looks up, as long as the kernel spills nothing.

use super::late::{Batches, PairOrder, fetch, kernel, row_bytes};
use crate::allocation::HybridHash;
use crate::cost::{CostModel, Estimate, JoinQuestion, RelationStats, Tally, scale_up};
use crate::join::flash_join::batch_parts;
use crate::join::hybrid_hash::{BuiltSide, Settings};
use crate::tuple::Side;
use crate::work::Work;
use nandu_base::to_u32;
use serde::Serialize;

/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct FlashMemory {
    /// Pages of the join kernel, which joins keys and row numbers.
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
    let rows = [row_bytes(&late_outer), row_bytes(&late_inner)];
    let (batch_pairs, _) = batch_parts(batch_bytes, rows);
    // What stays in memory is looked up in the order of S. In each bucket the smaller side is built, whichever
    // that is, and the other one comes in its order.
    let buckets = memory.kernel.bucket_count;
    let resident_ppm = resident_ppm(&late_outer.keys, memory);
    let resident_count = scale_up(pair_count, resident_ppm, MILLION);
    let is_inner_larger = late_inner.keys.cell_bytes >= late_outer.keys.cell_bytes;
    let phases =
        [(resident_count, 1, true), (pair_count - resident_count, buckets.max(1), is_inner_larger)];
    for (pairs, passes, inner_looks_up) in phases {
        let batches = pairs.div_ceil(batch_pairs);
        for (side, looks_up) in
            [((outer, &late_outer), !inner_looks_up), ((inner, &late_inner), inner_looks_up)]
        {
            let order = if looks_up { PairOrder::Rising(passes) } else { PairOrder::Any };
            let came = Batches { count: batches, order, known_pairs: batch_pairs };
            estimate += fetch(model, side, pairs, came, memory.fetch_pages);
        }
    }
    let mut tally = Tally::new(model, outer.stats.page_bytes.max(1));
    tally.work(Work::Emit, pair_count);
    Some(estimate + tally.estimate)
}

/// The part of the kernel's built side that is expected to stay in memory.
fn resident_ppm(built: &RelationStats, memory: &FlashMemory) -> u64 {
    if memory.kernel.bucket_count == 0 {
        return MILLION;
    }
    let side = BuiltSide { tuple_count: built.tuple_count, cell_bytes: built.cell_bytes };
    let pages = to_u32(memory.kernel_pages.min(u64::from(u32::MAX)));
    let settings = Settings::of(&memory.kernel, side, Side::Left, (pages, built.page_bytes));
    u64::from(settings.resident_ppm)
}
