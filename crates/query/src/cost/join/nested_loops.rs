//! Nested loops: S is scanned for each qualifying tuple of R (S000 chapter 5). One page reads R, the rest of
//! memory reads S.

use super::begin;
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::work::Work;

/// The cost with so many pages of memory; with fewer than 2, as with 2.
#[must_use]
pub fn nested_loops(model: &CostModel<'_>, question: &JoinQuestion, memory_pages: u64) -> Estimate {
    let outer = question.outer.footprint();
    let inner = question.inner.footprint();
    let inner_pages = memory_pages.saturating_sub(1).max(1);
    let scan_count = outer.tuple_count;

    let mut tally = begin(model, question);
    let outer_requests = tally.scan(&outer, 1);
    tally.seek(outer_requests.min(scan_count));
    tally.work(Work::Scan, outer.stored_tuples);

    let mut scan = crate::cost::Tally::new(model, inner.page_bytes);
    if scan.scan(&inner, inner_pages) > 0 {
        scan.seek(1);
    }
    tally.estimate += scan.estimate * scan_count;
    let looks = outer.tuple_count.saturating_mul(inner.stored_tuples);
    tally.work(Work::Scan, looks);
    tally.work(Work::Compare, looks);
    tally.end_phase();
    tally.estimate
}
