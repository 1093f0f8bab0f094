//! The best division of memory for a join: of those that it offers, the one that takes the least time and keeps
//! to the write budget.
//!
//! 1. No division found is dearer than that of the closed form, where rows take as much memory as known or a
//!    little more.
//! 2. With a write budget a division is taken only if it would keep to it were both sides larger than known
//!    by [`MARGIN_PPM`], each part a page longer, runs a third shorter, and, for hybrid hash, some keys more
//!    frequent: what chance, samples of the tables and skew may do.

use super::joins::{MostWritten, scan_pages_min, too_little};
use super::{Budget, Division, Rejection, written_by};
use crate::JoinKind;
use crate::cost::{CostModel, Estimate, JoinQuestion};
use nandu_base::ByteCount;

/// How much larger than known, in millionths, tables are taken to be where writes are limited. Estimates of pages
/// are within 2 %, below the square-root bound within 8 %; a run that passes its budget ends without a result.
const MARGIN_PPM: u64 = 80_000;
/// So much more a hybrid hash join may come to write for keys that many rows have: a sixth.
const SKEW_SHARE: u64 = 6;

/// The cheapest division for a kind within the budget.
///
/// # Errors
/// Why there is none.
pub(super) fn divide(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    kind: JoinKind,
    budget: &Budget,
) -> Result<(Division, Estimate), Rejection> {
    let memory = budget.memory_pages;
    let mut candidates = kind.candidates(model, question, budget)?;
    candidates.retain(|(division, _)| division.join().scans_fit(question, memory));
    if candidates.is_empty() {
        return Err(too_little((2 * scan_pages_min(question) + 1).max(memory + 1)));
    }
    cheapest(model, question, budget, candidates)
}

/// The cheapest that keeps to the write budget; the first of equals.
fn cheapest(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    budget: &Budget,
    mut candidates: Vec<(Division, Estimate)>,
) -> Result<(Division, Estimate), Rejection> {
    if let Some(write_bytes) = budget.write_bytes {
        let larger = question.larger_by(MARGIN_PPM);
        let mut least = u64::MAX;
        candidates.retain(|(division, estimate)| {
            let known = written_by(estimate, question).0;
            // A division that writes too much by the known sizes is refused anyway; only others are
            // estimated for a larger input, which takes longer.
            let most = match known > write_bytes {
                true => known,
                false => known.max(written_at_most(model, &larger, budget, division)),
            };
            least = least.min(most);
            most <= write_bytes
        });
        if candidates.is_empty() {
            return Err(Rejection::WriteBudget { written: ByteCount(least) });
        }
    }
    let time = |(division, estimate): &(Division, Estimate)| {
        division.join().time(model, question, estimate)
    };
    let cheapest = candidates.into_iter().min_by_key(time);
    cheapest.ok_or(Rejection::WriteBudget { written: ByteCount::ZERO })
}

/// Bytes that a division writes for tables that are as large as they may be.
fn written_at_most(
    model: &CostModel<'_>,
    larger: &JoinQuestion,
    budget: &Budget,
    division: &Division,
) -> u64 {
    let most = division.join().most_written(model, larger, budget.memory_pages);
    let Some(MostWritten { pages, grows_with_skew }) = most else { return 0 };
    let page_bytes = larger.outer.stats.page_bytes;
    let mut written = pages.saturating_mul(page_bytes);
    if grows_with_skew {
        // Keys that many rows have take more of the memory than others, and nobody counted them.
        written = written.saturating_add(written / SKEW_SHARE);
    }
    // The last page of each part is written though it is not full, on both sides of the join.
    let ends = division.part_count().saturating_mul(2 * page_bytes);
    if written == 0 { 0 } else { written.saturating_add(ends) }
}
