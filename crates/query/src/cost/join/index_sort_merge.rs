//! Index sort-merge: the indexes of both relations are walked side by side in the order of keys, and tuples
//! fetched as they are met (S000 chapter 5). A range of keys ends the walk early, which is why it wins at
//! tiny selectivity.
//!
//! Memory holds rows of both sides; pages come through the pool. In the formulas of S000 all of it is a cache,
//! half for each side.

use super::{begin, is_followed};
use crate::cost::built::lookups::merged;
use crate::cost::scan::{index_only_scan, index_scan};
use crate::cost::{CostModel, Estimate, JoinQuestion, JoinSide, PoolShape};
use crate::work::Work;
use serde::{Deserialize, Serialize};

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IndexMergeMemory {
    /// Pages of rows of R, one of which holds the leaf at hand.
    pub outer_pages: u64,
    /// Pages of rows of S, one of which holds the leaf at hand.
    pub inner_pages: u64,
    /// The buffer pool.
    pub pool: PoolShape,
}

/// The cost with such a division of memory; `None` without an index on both sides.
#[must_use]
pub fn index_sort_merge(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: &IndexMergeMemory,
) -> Option<Estimate> {
    if is_followed(question) {
        return Some(begin(model, question).estimate + merged(model, question, memory)?);
    }
    let IndexMergeMemory { outer_pages, inner_pages, pool } = memory;
    let cache_pages = ((outer_pages + inner_pages + pool.page_count) / 2).max(1);
    let outer = walk(model, &question.outer, question.outer.walked_count(), cache_pages)?;
    // Without a range on S, its tuples are fetched where R has a partner for them.
    let fetched = if question.inner.is_key_range {
        question.inner.walked_count()
    } else {
        question.outer_pair_count().min(question.inner.walked_count())
    };
    let inner = walk(model, &question.inner, fetched, cache_pages)?;
    let mut tally = begin(model, question);
    let entry_count = question.outer.walked_count().saturating_add(question.inner.walked_count());
    tally.work(Work::Compare, entry_count);
    Some(tally.estimate + outer + inner)
}

/// Walks one side's index over its range, and fetches so many tuples.
fn walk(
    model: &CostModel<'_>,
    side: &JoinSide,
    fetched_count: u64,
    cache_pages: u64,
) -> Option<Estimate> {
    let index = side.index?;
    let walked_count = side.walked_count();
    if fetched_count == walked_count || index.is_clustered {
        return Some(index_scan(model, &side.stats, &index, walked_count, cache_pages));
    }
    let leaves = index_only_scan(model, &index, walked_count, side.stats.page_bytes);
    let mut tally = crate::cost::Tally::new(model, side.stats.page_bytes);
    crate::cost::scan::fetch(&mut tally, side.stats.page_count, fetched_count, cache_pages);
    Some(leaves + tally.estimate)
}
