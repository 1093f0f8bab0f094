//! Memory of block nested loops (S001 section 3.1 and table 1): a hash area for a chunk of R, and one
//! buffer that reads both relations.
//!
//! 1. `inner_pages + outer_pages` is the memory, and both are at least 1.
//! 2. F * `chunk_pages` <= `outer_pages`, unless a single page of R does not fit.

use super::{JoinSizes, RequestTimes, ceil_pages, require, saturate};
use crate::QueryError;
use serde::{Deserialize, Serialize};

/// Memory below which nothing works: a page of each part.
const MEMORY_PAGES_MIN: u64 = 2;

/// The two parts of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockNestedLoops {
    /// `I_inner`: the buffer that reads S, and R before it.
    pub inner_pages: u64,
    /// `I_outer`: the hash area.
    pub outer_pages: u64,
    /// |C|: pages of R that a full hash area holds, at least 1.
    pub chunk_pages: u64,
    /// How often S is read: ceil(|R| / |C|).
    pub chunk_count: u64,
}

impl BlockNestedLoops {
    /// The closed form: where (|R| F / `I_outer`) scans of S by requests of `I_inner` are cheapest.
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 2 pages.
    pub fn allocate(
        sizes: &JoinSizes,
        memory_pages: u64,
        times: &RequestTimes,
    ) -> Result<Self, QueryError> {
        let inner_pages = ceil_pages(Self::ideal_inner_pages(sizes, memory_pages, times));
        Self::with_inner(sizes, memory_pages, inner_pages)
    }

    /// The allocation that knows that scans come whole: the cost is a stair in the number of chunks. Takes
    /// the number of the closed form, one less and one more, gives the reading buffer what the last page
    /// of each stair leaves, and answers the cheapest. Never worse than [`Self::allocate`].
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 2 pages.
    pub fn allocate_whole_scans(
        sizes: &JoinSizes,
        memory_pages: u64,
        times: &RequestTimes,
    ) -> Result<Self, QueryError> {
        let mut best = Self::allocate(sizes, memory_pages, times)?;
        let closed_form_count = best.chunk_count;
        for chunk_count in [
            closed_form_count,
            closed_form_count.saturating_sub(1),
            closed_form_count.saturating_add(1),
        ] {
            let Some(candidate) = Self::with_chunks(sizes, memory_pages, chunk_count) else {
                continue;
            };
            if candidate.cost_ps(sizes, times) < best.cost_ps(sizes, times) {
                best = candidate;
            }
        }
        Ok(best)
    }

    /// The allocation with so many pages for reading, as far as the memory allows.
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 2 pages.
    pub fn with_inner(
        sizes: &JoinSizes,
        memory_pages: u64,
        inner_pages: u64,
    ) -> Result<Self, QueryError> {
        require("block nested loops", MEMORY_PAGES_MIN, memory_pages)?;
        let inner_pages = inner_pages.clamp(1, memory_pages - 1);
        let outer_pages = memory_pages - inner_pages;
        let chunk_pages = sizes.outer_fudge.data_pages(outer_pages).max(1);
        let chunk_count = sizes.outer_pages.div_ceil(chunk_pages);
        Ok(Self { inner_pages, outer_pages, chunk_pages, chunk_count })
    }

    /// The largest reading buffer that leaves R in at most so many chunks; `None` where there is none.
    #[must_use]
    pub fn with_chunks(sizes: &JoinSizes, memory_pages: u64, chunk_count: u64) -> Option<Self> {
        let chunk_pages = sizes.outer_pages.checked_div(chunk_count)?;
        let remainder = u64::from(!sizes.outer_pages.is_multiple_of(chunk_count));
        let outer_pages = sizes.outer_fudge.memory_pages(chunk_pages + remainder).max(1);
        let inner_pages = memory_pages.checked_sub(outer_pages).filter(|pages| *pages > 0)?;
        let found = Self::with_inner(sizes, memory_pages, inner_pages).ok()?;
        (found.chunk_count <= chunk_count).then_some(found)
    }

    /// What the plan costs: two seeks for each chunk, one request for it, and a scan of S.
    #[must_use]
    pub fn cost_ps(&self, sizes: &JoinSizes, times: &RequestTimes) -> u64 {
        let chunk_count = u128::from(self.chunk_count);
        let inner_pages = u128::from(sizes.inner_pages);
        let requests = chunk_count * (1 + inner_pages.div_ceil(u128::from(self.inner_pages)));
        let pages = u128::from(sizes.outer_pages) + chunk_count * inner_pages;
        saturate(
            (2 * chunk_count * u128::from(times.seek_ps))
                .saturating_add(requests.saturating_mul(u128::from(times.latency_ps)))
                .saturating_add(pages.saturating_mul(u128::from(times.page_transfer_ps))),
        )
    }

    /// `I_inner` before it is rounded.
    ///
    /// With a = Dl + |S| Dx and b = Dl |S|, the derivative of the cost is zero where
    /// a I^2 + 2 b I - b B = 0. Its root is written so that nothing cancels and Dx may be zero.
    pub(super) fn ideal_inner_pages(
        sizes: &JoinSizes,
        memory_pages: u64,
        times: &RequestTimes,
    ) -> f64 {
        let (latency, transfer) = (times.latency_ps as f64, times.page_transfer_ps as f64);
        let (inner, memory) = (sizes.inner_pages as f64, memory_pages as f64);
        let a = latency + inner * transfer;
        let b = latency * inner;
        if b == 0.0 {
            return 0.0;
        }
        b * memory / (b + (b * b + a * b * memory).sqrt())
    }
}
