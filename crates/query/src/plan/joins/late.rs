//! What joins that put rows together late have in common: a kernel, whose own division is that of hybrid hash over
//! the keys, and fetches through a slot or several.

use super::{JoinPlan, hybrid_hash};
use crate::allocation::HybridHash;
use crate::cost::join::kernel_question;
use crate::cost::{CostModel, JoinQuestion, JoinSide};
use crate::join::JoinType;

/// Parts of the memory, in sixteenths, that the kernel is given.
pub(super) const KERNEL_SHARES: [u64; 4] = [2, 5, 8, 12];
/// Slots for fetches that are tried.
pub(super) const SLOT_COUNTS: [u64; 3] = [1, 4, 16];
/// Pages of the smallest kernel: to read, to build and to write by.
const KERNEL_PAGES_MIN: u64 = 3;

/// The least that a kernel takes: where rows come out alone, with a bit for each that may meet a partner in one of
/// several chunks.
pub(super) fn kernel_pages_min(question: &JoinQuestion) -> u64 {
    if question.join_type == JoinType::Inner {
        return KERNEL_PAGES_MIN;
    }
    let rows = question.outer.stats.tuple_count.max(question.inner.stats.tuple_count);
    let bits_of_page = 8 * question.outer.stats.page_bytes.max(1);
    KERNEL_PAGES_MIN + rows.div_ceil(bits_of_page)
}

/// The best kernel in so many pages.
pub(super) fn kernel_of(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    pages: u64,
) -> Option<HybridHash> {
    let keys = kernel_question(question)?;
    let mut candidates = hybrid_hash::candidates(model, &keys, pages).ok()?;
    candidates.retain(|(parts, _)| parts.scans_fit(&keys, pages));
    let best = candidates.into_iter().min_by_key(|(_, estimate)| model.time(estimate))?;
    Some(best.0)
}

/// Pages for a slot of either side; `None` where one cannot be read by columns.
pub(super) fn slot_pages(question: &JoinQuestion) -> Option<u64> {
    let (outer, inner) = (question.outer.late?, question.inner.late?);
    Some(outer.slot_pages.max(inner.slot_pages))
}

/// The least that a late join takes.
pub(super) fn least_pages(question: &JoinQuestion, slot_pages: u64, others: u64) -> u64 {
    let keys = |side: &JoinSide| side.late.map_or(1, |late| late.keys.scan_pages_min());
    slot_pages + keys(&question.outer).max(keys(&question.inner)) + 2 + others
}
