//! Divisions of memory for joins that put rows together late: shares of it for the kernel, whose own division is
//! that of hybrid hash over the keys, and for fetches a slot or several.

use super::Rejection;
use super::divide::{Candidates, Division, of_hybrid_hash, scans_fit, too_little};
use crate::allocation::HybridHash;
use crate::cost::join::{FlashMemory, RareMemory, flash_join, kernel_question, rare_join};
use crate::cost::{CostModel, JoinQuestion};
use crate::join::JoinType;

/// Parts of the memory, in sixteenths, that the kernel is given.
const KERNEL_SHARES: [u64; 4] = [2, 5, 8, 12];
/// Slots for fetches that are tried.
const SLOT_COUNTS: [u64; 3] = [1, 4, 16];
/// Pages of the smallest kernel: to read, to build and to write by.
const KERNEL_PAGES_MIN: u64 = 3;
/// Pages of the smallest sort.
const SORT_PAGES_MIN: u64 = crate::join::rare_join::SORT_PAGES_MIN as u64;

/// The least that a kernel takes: where rows come out alone, with a bit for each that may meet a partner in one of
/// several chunks.
fn kernel_pages_min(question: &JoinQuestion) -> u64 {
    if question.join_type == JoinType::Inner {
        return KERNEL_PAGES_MIN;
    }
    let rows = question.outer.stats.tuple_count.max(question.inner.stats.tuple_count);
    let bits_of_page = 8 * question.outer.stats.page_bytes.max(1);
    KERNEL_PAGES_MIN + rows.div_ceil(bits_of_page)
}

/// The best kernel in so many pages.
fn kernel_of(model: &CostModel<'_>, question: &JoinQuestion, pages: u64) -> Option<HybridHash> {
    let keys = kernel_question(question)?;
    let mut candidates = of_hybrid_hash(model, &keys, pages).ok()?;
    candidates.retain(|(division, _)| scans_fit(&keys, division, pages));
    let best = candidates.into_iter().min_by_key(|(_, estimate)| model.time(estimate))?;
    match best.0 {
        Division::HybridHash(parts) => Some(parts),
        _ => None,
    }
}

/// Pages for a slot of either side; `None` where one cannot be read by columns.
fn slot_pages(question: &JoinQuestion) -> Option<u64> {
    let (outer, inner) = (question.outer.late?, question.inner.late?);
    Some(outer.slot_pages.max(inner.slot_pages))
}

/// The least that a late join takes.
fn least_pages(question: &JoinQuestion, slot_pages: u64, others: u64) -> u64 {
    let keys =
        |side: &crate::cost::JoinSide| side.late.map_or(1, |late| late.keys.scan_pages_min());
    slot_pages + keys(&question.outer).max(keys(&question.inner)) + 2 + others
}

pub(super) fn of_flash_join(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: u64,
) -> Result<Candidates, Rejection> {
    let slot_pages = slot_pages(question).ok_or(Rejection::NoColumns)?;
    let mut candidates = Candidates::new();
    for fetch_pages in SLOT_COUNTS.map(|count| count * slot_pages) {
        let Some(rest) = memory.checked_sub(fetch_pages).filter(|rest| *rest > 3) else { continue };
        for share in KERNEL_SHARES {
            let kernel_pages = (rest * share / 16).max(kernel_pages_min(question));
            if kernel_pages >= rest {
                continue;
            }
            let Some(kernel) = kernel_of(model, question, kernel_pages) else { continue };
            let batch_pages = rest - kernel_pages;
            let parts = FlashMemory { kernel_pages, kernel, batch_pages, fetch_pages };
            let estimate = flash_join(model, question, &parts);
            candidates.extend(estimate.map(|it| (Division::FlashJoin(parts), it)));
        }
    }
    if candidates.is_empty() {
        return Err(too_little(least_pages(question, slot_pages, 1).max(memory + 1)));
    }
    Ok(candidates)
}

pub(super) fn of_rare_join(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: u64,
) -> Result<Candidates, Rejection> {
    let slot_pages = slot_pages(question).ok_or(Rejection::NoColumns)?;
    let mut candidates = Candidates::new();
    for fetch_pages in SLOT_COUNTS.map(|count| count * slot_pages) {
        let Some(rest) = memory.checked_sub(fetch_pages) else { continue };
        let row_pages = (rest / 16).max(1);
        let sort_pages = rest.saturating_sub(row_pages) / 2;
        if sort_pages < SORT_PAGES_MIN {
            continue;
        }
        let kernel_pages = memory - sort_pages;
        if kernel_pages < kernel_pages_min(question) {
            continue;
        }
        let Some(kernel) = kernel_of(model, question, kernel_pages) else { continue };
        let parts = RareMemory { kernel_pages, kernel, sort_pages, fetch_pages, row_pages };
        let estimate = rare_join(model, question, &parts);
        candidates.extend(estimate.map(|it| (Division::RareJoin(parts), it)));
    }
    if candidates.is_empty() {
        let least = least_pages(question, slot_pages, 1 + 2 * SORT_PAGES_MIN);
        return Err(too_little(least.max(memory + 1)));
    }
    Ok(candidates)
}
