//! What scans cost: the whole table, the table by its index, the index alone, and the table by its index
//! in the order of addresses.
//!
//! A random entry of an index names any page of the table, so that m entries meet P (1 - (1 - 1/P)^m)
//! distinct ones (Cardenas). With a cache smaller than that, pages are read again: once the cache is full,
//! an entry misses it with 1 - C/P (after Mackert and Lohman, ACM TODS 14(3), 1989, who treat the
//! cache as least recently used).

use super::relation::{IndexStats, PageOrder, RelationStats};
use super::{CostModel, Estimate, Footprint, Pattern, Tally, scale_up};
use crate::work::Work;

/// Bytes of a place in a list that is sorted by address: page and slot.
const ADDRESS_BYTES: u64 = 8;

/// Reads all pages of a relation in requests of `request_pages` and looks at each tuple.
#[must_use]
pub fn table_scan(model: &CostModel<'_>, relation: &Footprint, request_pages: u64) -> Estimate {
    let mut tally = Tally::new(model, relation.page_bytes);
    if tally.scan(relation, request_pages) > 0 {
        tally.seek(1);
    }
    tally.work(Work::Scan, relation.stored_tuples);
    tally.estimate
}

/// Reads `entry_count` neighbouring entries of an index, page by page, without the table. Of a clustered
/// index these are the tuples.
#[must_use]
pub fn index_only_scan(
    model: &CostModel<'_>,
    index: &IndexStats,
    entry_count: u64,
    page_bytes: u64,
) -> Estimate {
    let mut tally = Tally::new(model, page_bytes);
    walk_leaves(&mut tally, index, entry_count, false);
    tally.work(Work::Scan, entry_count);
    tally.estimate
}

/// Reads `entry_count` neighbouring entries of an index, and each one's tuple as it comes, with a cache of
/// so many pages of the table.
#[must_use]
pub fn index_scan(
    model: &CostModel<'_>,
    relation: &RelationStats,
    index: &IndexStats,
    entry_count: u64,
    cache_pages: u64,
) -> Estimate {
    if index.is_clustered {
        return index_only_scan(model, index, entry_count, relation.page_bytes);
    }
    let mut tally = Tally::new(model, relation.page_bytes);
    walk_leaves(&mut tally, index, entry_count, true);
    tally.work(Work::Scan, entry_count);
    fetch(&mut tally, relation.page_count, entry_count, cache_pages);
    tally.estimate
}

/// Reads `entry_count` neighbouring entries of an index, sorts their addresses in so many pages of memory,
/// and reads their pages in ascending order, neighbours by one request of up to `request_pages`, with
/// `queue_depth` requests at once. Where memory is too little for all addresses, it does so repeatedly.
#[must_use]
pub fn address_order_scan(
    model: &CostModel<'_>,
    relation: &RelationStats,
    index: &IndexStats,
    entry_count: u64,
    memory: &AddressMemory,
) -> Estimate {
    if index.is_clustered {
        return index_only_scan(model, index, entry_count, relation.page_bytes);
    }
    let mut tally = Tally::new(model, relation.page_bytes);
    walk_leaves(&mut tally, index, entry_count, false);
    tally.work(Work::Scan, entry_count);
    let list_bytes = memory.list_pages.max(1).saturating_mul(relation.page_bytes);
    let batch_entries = (list_bytes / ADDRESS_BYTES).max(1);
    let (batches, rest) = (entry_count / batch_entries, entry_count % batch_entries);
    for (count, entries) in [(batches, batch_entries), (u64::from(rest > 0), rest)] {
        let mut batch = Tally::new(model, relation.page_bytes);
        fetch_ascending(&mut batch, relation.page_count, entries, memory);
        tally.estimate += batch.estimate * count;
    }
    tally.estimate
}

/// Memory and manners of [`address_order_scan`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AddressMemory {
    /// Pages for the list of addresses.
    pub list_pages: u64,
    /// Pages that a request may take where neighbours are wanted.
    pub request_pages: u64,
    /// Requests at once.
    pub queue_depth: u64,
}

/// How many of `page_count` pages are met by so many accesses, each of any page: P (1 - (1 - 1/P)^m).
#[must_use]
pub fn distinct_pages(page_count: u64, access_count: u64) -> u64 {
    if page_count == 0 {
        return 0;
    }
    let pages = page_count as f64;
    let missed = power(1.0 - 1.0 / pages, access_count);
    round(pages * (1.0 - missed)).min(page_count).min(access_count)
}

/// How many pages are read for so many accesses, each of any page, with a cache of `cache_pages` that
/// starts empty.
#[must_use]
pub fn cached_reads(page_count: u64, access_count: u64, cache_pages: u64) -> u64 {
    let distinct = distinct_pages(page_count, access_count);
    if distinct <= cache_pages {
        return distinct;
    }
    let filling = accesses_to_meet(page_count, cache_pages, access_count);
    let misses = scale_up(access_count - filling, page_count - cache_pages, page_count);
    cache_pages.saturating_add(misses).clamp(distinct, access_count)
}

/// The fewest accesses that meet so many distinct pages, of which `most` are known to be enough.
fn accesses_to_meet(page_count: u64, distinct: u64, most: u64) -> u64 {
    let (mut low, mut high) = (0, most);
    while low < high {
        let middle = low + (high - low) / 2;
        if distinct_pages(page_count, middle) >= distinct {
            high = middle;
        } else {
            low = middle + 1;
        }
    }
    low
}

/// Descends once, then follows the leaves. With tuples fetched in between, each leaf moves the head.
fn walk_leaves(tally: &mut Tally<'_>, index: &IndexStats, entry_count: u64, is_interrupted: bool) {
    if entry_count == 0 {
        return;
    }
    let leaves = scale_up(index.leaf_page_count, entry_count, index.entry_count)
        .min(index.leaf_page_count)
        .max(1);
    tally.read_requests(Pattern::Random, index.height, index.height);
    tally.work(Work::Descend, 1);
    let (pattern, leaf_seeks) = match index.order {
        PageOrder::Contiguous => (Pattern::Sequential, if is_interrupted { leaves } else { 1 }),
        PageOrder::Scattered | PageOrder::Apart { .. } => (Pattern::Random, leaves),
    };
    tally.read_requests(pattern, leaves, leaves);
    tally.seek(index.height + leaf_seeks);
}

/// Reads the pages of tuples in any order, one by one.
pub(super) fn fetch(tally: &mut Tally<'_>, page_count: u64, access_count: u64, cache_pages: u64) {
    let reads = cached_reads(page_count, access_count, cache_pages);
    tally.read_requests(Pattern::Random, reads, reads);
    tally.seek(reads);
    tally.work(Work::Fetch, access_count);
}

/// Reads the pages of tuples in ascending order.
fn fetch_ascending(
    tally: &mut Tally<'_>,
    page_count: u64,
    access_count: u64,
    memory: &AddressMemory,
) {
    let pages = distinct_pages(page_count, access_count);
    let groups = neighbour_groups(page_count, pages);
    let requests = pages.div_ceil(memory.request_pages.max(1)).max(groups);
    let mut alone = Tally::new(tally.model, tally.page_bytes);
    alone.read_requests(Pattern::Random, requests, pages);
    alone.seek(groups);
    let gain_ppm = tally.model.device.queue_gain_ppm(memory.queue_depth);
    alone.estimate.io_ns = scale_up(alone.estimate.io_ns, 1_000_000, gain_ppm);
    tally.estimate += alone.estimate;
    let sorting = access_count.saturating_mul(super::comparisons_among(access_count));
    tally.work(Work::Compare, sorting);
    tally.work(Work::Fetch, access_count);
}

/// In how many groups of neighbours any so many of all pages lie, on average: D (P - D + 1) / P.
fn neighbour_groups(page_count: u64, distinct: u64) -> u64 {
    scale_up(distinct, page_count - distinct + 1, page_count).min(distinct)
}

/// By squaring: multiplications alone, which are the same on every machine.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut factor, mut rest) = (1.0, base, exponent);
    while rest > 0 {
        if rest & 1 == 1 {
            result *= factor;
        }
        factor *= factor;
        rest >>= 1;
    }
    result
}

/// To the nearest count.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and takes what is not a number for zero"
)]
const fn round(real: f64) -> u64 {
    real.round() as u64
}
