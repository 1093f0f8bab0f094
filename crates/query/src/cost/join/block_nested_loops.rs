//! Block nested loops: S is scanned for each chunk of R that fits in the hash area (S001 section 3.1).
//! Nothing is written. Two seeks for each chunk; |R| + n|S| pages.
//!
//! The paper reads a chunk by one request. The operator here reads R through the buffer of S, so that all
//! else is the hash area; the page in which a chunk ends is lost to S and read again.

use super::{begin, hash_and_probe};
use crate::allocation::BlockNestedLoops;
use crate::cost::{
    Convention, CostModel, Estimate, Footprint, JoinQuestion, PageOrder, Pattern, Tally, scale_up,
};

/// The cost with such a division of memory.
#[must_use]
pub fn block_nested_loops(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    parts: &BlockNestedLoops,
) -> Estimate {
    let outer = question.outer.footprint(model.convention);
    let inner = question.inner.footprint(model.convention);
    begin(model, question).estimate + scan_for_chunks(model, &outer, &inner, parts)
}

/// The same without what comes out.
pub(super) fn scan_for_chunks(
    model: &CostModel<'_>,
    outer: &Footprint,
    inner: &Footprint,
    parts: &BlockNestedLoops,
) -> Estimate {
    let mut tally = Tally::new(model, outer.page_bytes);
    let chunk_count = match model.convention {
        Convention::AsInPaper { .. } => parts.chunk_count,
        Convention::AsBuilt => outer.chunk_count(parts.outer_pages),
    };
    match (outer.order, model.convention) {
        (PageOrder::Scattered, _) => {
            tally.scan(outer, 1);
        }
        (PageOrder::Contiguous, Convention::AsInPaper { .. }) => {
            tally.read_requests(Pattern::Sequential, chunk_count, outer.stored_pages);
            tally.seek(chunk_count);
        }
        (PageOrder::Contiguous, Convention::AsBuilt) => {
            read_chunks(&mut tally, outer, chunk_count, parts);
        }
    }
    let mut scan = Tally::new(model, inner.page_bytes);
    if scan.scan(inner, parts.inner_pages) > 0 {
        scan.seek(1);
    }
    tally.estimate += scan.estimate * chunk_count;

    let mut probed = *inner;
    probed.stored_tuples = inner.stored_tuples.saturating_mul(chunk_count);
    probed.tuple_count = inner.tuple_count.saturating_mul(chunk_count);
    hash_and_probe(&mut tally, outer, &probed);
    tally.estimate
}

/// Reads R chunk by chunk. A chunk asks for no more pages than still fit, and the next one begins with the
/// page that did not fit as a whole.
fn read_chunks(
    tally: &mut Tally<'_>,
    outer: &Footprint,
    chunk_count: u64,
    parts: &BlockNestedLoops,
) {
    let full_count = chunk_count.saturating_sub(1);
    let chunk_tuples = outer.tuples_in(parts.outer_pages).min(outer.tuple_count);
    let chunk_pages = scale_up(outer.stored_pages, chunk_tuples, outer.tuple_count);
    let requests = chunk_pages.div_ceil(parts.inner_pages);
    let full_tuples = full_count.saturating_mul(chunk_tuples);
    let full_pages = scale_up(outer.stored_pages, full_tuples, outer.tuple_count);
    let begun_pages = full_pages.saturating_add(full_count.saturating_sub(1));
    tally.read_requests(Pattern::Sequential, full_count.saturating_mul(requests), begun_pages);
    let rest = outer.stored_pages.saturating_sub(full_pages) + full_count.min(1);
    tally.read(Pattern::Sequential, rest, parts.inner_pages);
    tally.seek(chunk_count.max(1));
}
