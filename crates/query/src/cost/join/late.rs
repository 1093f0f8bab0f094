//! What joins that fetch late have in common: the kernel over keys, and fetches of what is wanted of PAX pages.
//!
//! m pairs meet P (1 - (1 - 1/P)^m) PAX pages, as in [`crate::cost::scan`]; of each all minipages are read that
//! are wanted.

use super::hybrid_hash;
use crate::allocation::HybridHash;
use crate::cost::scan::distinct_pages;
use crate::cost::{CostModel, Estimate, JoinQuestion, JoinSide, LateStats, Tally, scale_up};
use crate::relation::pax::slot_count;
use crate::work::Work;
use nandu_base::to_u32;

/// The join of the keys alone; `None` where a side cannot be read by columns.
#[must_use]
pub fn kernel_question(question: &JoinQuestion) -> Option<JoinQuestion> {
    let side = |side: &JoinSide| {
        Some(JoinSide { stats: side.late?.keys, index: None, late: None, ..*side })
    };
    let (outer, inner) = (side(&question.outer)?, side(&question.inner)?);
    Some(JoinQuestion { outer, inner, ..*question })
}

/// The kernel, in so many pages.
pub(super) fn kernel(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    pages: u64,
    parts: &HybridHash,
) -> Option<Estimate> {
    Some(hybrid_hash(model, &kernel_question(question)?, pages, parts))
}

/// In which order the pairs of all batches name the rows of a side.
#[derive(Clone, Copy, Debug)]
pub(super) enum PairOrder {
    /// In any order of rows.
    Any,
    /// So many times in that of the table: each page once, but for those at the ends of batches.
    Rising(u64),
}

/// How pairs come to a fetch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Batches {
    /// How many there are, of about equal size; of each a PAX page is fetched once.
    pub(super) count: u64,
    /// The order of all of them.
    pub(super) order: PairOrder,
    /// Pairs that are known at once: so far PAX pages are asked for ahead.
    pub(super) known_pairs: u64,
}

/// Fetches the rows of so many pairs.
pub(super) fn fetch(
    model: &CostModel<'_>,
    (side, late): (&JoinSide, &LateStats),
    pair_count: u64,
    pairs: Batches,
    fetch_pages: u64,
) -> Estimate {
    let page_bytes = side.stats.page_bytes.max(1);
    let mut tally = Tally::new(model, page_bytes);
    let Batches { count, order, known_pairs } = pairs;
    let batches = count.max(1);
    let each = pair_count.div_ceil(batches);
    let rows_of_batch = distinct_pages(side.stats.tuple_count, each);
    let by_chance = distinct_pages(late.pax_page_count, rows_of_batch).saturating_mul(batches);
    let (pax_pages, rows) = match order {
        PairOrder::Any => (by_chance, rows_of_batch.saturating_mul(batches)),
        PairOrder::Rising(passes) => {
            let rows = pair_count.min(side.stats.tuple_count);
            let of_pass = distinct_pages(late.pax_page_count, rows.div_ceil(passes.max(1)));
            let all = of_pass.saturating_mul(passes).saturating_add(batches.saturating_sub(passes));
            (all.min(by_chance), rows)
        }
    };
    if late.page_count > 0 && pair_count > 0 {
        let requests = pax_pages.saturating_mul(late.run_count);
        let pages = scale_up(late.page_count, pax_pages, late.pax_page_count);
        let narrow = |pages: u64| to_u32(pages.min(u64::from(u32::MAX)));
        let slots = slot_count(narrow(fetch_pages), narrow(late.slot_pages), model.reads_ahead);
        let known = pair_count.min(known_pairs.max(1));
        let known_pages = scale_up(pax_pages, known, pair_count).max(1);
        let depth = u64::from(slots).min(known_pages).saturating_mul(late.run_count);
        tally.read_apart((requests, pages), depth, false);
    }
    tally.work(Work::Fetch, rows);
    tally.work(Work::Assemble, rows.saturating_mul(late.column_count));
    tally.end_phase();
    tally.estimate
}

/// Bytes of a row of what is wanted, on average, rounded up.
pub(super) const fn row_bytes(late: &LateStats) -> u64 {
    late.cell_bytes.div_ceil(if late.row_count == 0 { 1 } else { late.row_count })
}
