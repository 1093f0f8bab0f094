//! How each join divides its memory, after Haas, Carey, Livny and Shukla ("SEEKing the truth about ad hoc
//! join costs", VLDB Journal 6(3), 1997) as S001 table 1 prints it.
//!
//! ```text
//!   block nested loops   │ I_outer: hash area of a chunk of R        │ I_inner: reads R and S │
//!   sort-merge, pass 1   │ I: reads │ WS: tournament tree            │ O: writes runs         │
//!               pass 2   │ one input buffer for each run                                      │
//!   Grace hash, phase 1  │ I: reads │ O: bucket 1 │ O: bucket 2 │ …  │ O: bucket k            │
//!               phase 2  │ WS': hash area of a bucket of R           │ I': reads S            │
//!   hybrid hash, phase 1 │ I │ WS: hash area of the resident bucket  │ O: bucket 1 │ … │ O: k │
//! ```
//!
//! R is the *outer* relation, the one that is hashed; S is the *inner* one. All sizes are pages.
//!
//! 1. The parts of an allocation add up to the memory; each part is at least one page.
//! 2. Everything is computed in integers, or by the four operations and the square root of IEEE 754,
//!    which are exact: every machine gives the same pages.

mod block_nested_loops;
mod grace_hash;
mod hybrid_hash;
mod sort_merge;
#[cfg(test)]
mod tests;

pub use block_nested_loops::BlockNestedLoops;
pub use grace_hash::GraceHash;
pub use hybrid_hash::{HYBRID_BUFFER_PPM, HybridHash};
pub use sort_merge::{RunFormation, RunSeeks, SortMerge};

use crate::QueryError;
use serde::{Deserialize, Serialize};

/// Millionths in one.
const MILLION: u128 = 1_000_000;

/// F: how many pages of memory a structure over one page of data takes, in millionths. Above one it is
/// directory and chains; below one where half-empty pages are copied compactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Fudge(u64);

impl Fudge {
    /// The 1.2 of S001 table 2.
    pub const PAPER: Self = Self(1_200_000);

    /// So many millionths; nothing counts as one.
    #[must_use]
    pub const fn from_ppm(ppm: u64) -> Self {
        Self(if ppm == 0 { 1 } else { ppm })
    }

    /// What turns `data_pages` into `memory_pages`, rounded up. One where there is no data.
    #[must_use]
    pub fn of_ratio(memory_bytes: u64, data_bytes: u64) -> Self {
        if data_bytes == 0 {
            return Self(1_000_000);
        }
        let ppm = (u128::from(memory_bytes) * MILLION).div_ceil(u128::from(data_bytes));
        Self::from_ppm(saturate(ppm))
    }

    /// The ratio in millionths, at least one.
    #[must_use]
    pub const fn ppm(self) -> u64 {
        if self.0 == 0 { 1 } else { self.0 }
    }

    /// Pages of memory for so many pages of data, rounded up.
    #[must_use]
    pub fn memory_pages(self, data_pages: u64) -> u64 {
        saturate(self.scaled(data_pages).div_ceil(MILLION))
    }

    /// Pages of data that fit in so many pages of memory, rounded down.
    #[must_use]
    pub fn data_pages(self, memory_pages: u64) -> u64 {
        saturate(u128::from(memory_pages) * MILLION / u128::from(self.ppm()))
    }

    /// Memory for so many pages of data, in millionths of a page.
    fn scaled(self, data_pages: u64) -> u128 {
        u128::from(data_pages) * u128::from(self.ppm())
    }
}

/// Ds, Dl and Dx: what a request for p pages costs is `[seek] + latency + p * transfer`, in picoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RequestTimes {
    /// Ds: moving the head.
    pub seek_ps: u64,
    /// Dl: the rotation of a disk, or what a request costs a drive without arms.
    pub latency_ps: u64,
    /// Dx: one page on its way.
    pub page_transfer_ps: u64,
}

impl RequestTimes {
    /// Times of a device with such a rate. A rate of zero means that a transfer takes no time.
    #[must_use]
    pub fn from_rate(
        seek_ns: u64,
        latency_ns: u64,
        page_bytes: u64,
        bytes_per_second: u64,
    ) -> Self {
        let page_ps = u128::from(page_bytes) * 1_000_000_000_000;
        let rate = u128::from(bytes_per_second);
        Self {
            seek_ps: seek_ns.saturating_mul(1_000),
            latency_ps: latency_ns.saturating_mul(1_000),
            page_transfer_ps: (page_ps + rate / 2).checked_div(rate).map_or(0, saturate),
        }
    }
}

/// The two relations as an allocation sees them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JoinSizes {
    /// |R|: pages of the outer relation, which is hashed.
    pub outer_pages: u64,
    /// |S|: pages of the inner relation.
    pub inner_pages: u64,
    /// F of R.
    pub outer_fudge: Fudge,
    /// F of S; only sorts hold tuples of S.
    pub inner_fudge: Fudge,
}

impl JoinSizes {
    /// Sizes with the same fudge factor for both.
    #[must_use]
    pub const fn new(outer_pages: u64, inner_pages: u64, fudge: Fudge) -> Self {
        Self { outer_pages, inner_pages, outer_fudge: fudge, inner_fudge: fudge }
    }

    /// F|R|, rounded up: the memory for a hash table over all of R.
    #[must_use]
    pub fn hash_pages(&self) -> u64 {
        self.outer_fudge.memory_pages(self.outer_pages)
    }

    /// Whether two phases of Grace or hybrid hash are enough: B > sqrt(F|R|) (S001 section 3.3).
    #[must_use]
    pub fn hashes_in_two_phases(&self, memory_pages: u64) -> bool {
        exceeds_root(memory_pages, self.outer_fudge.scaled(self.outer_pages))
    }

    /// Whether two passes of sort-merge are enough: B > sqrt(F|S|) (S001 section 3.2), of the larger.
    #[must_use]
    pub fn sorts_in_two_passes(&self, memory_pages: u64) -> bool {
        let outer = self.outer_fudge.scaled(self.outer_pages);
        let inner = self.inner_fudge.scaled(self.inner_pages);
        exceeds_root(memory_pages, outer.max(inner))
    }

    /// F|R| in millionths of a page.
    fn hash_ppm(&self) -> u128 {
        self.outer_fudge.scaled(self.outer_pages)
    }
}

/// Whether `memory` is above the root of so many millionths of a page.
fn exceeds_root(memory_pages: u64, data_ppm: u128) -> bool {
    u128::from(memory_pages)
        .checked_pow(2)
        .and_then(|square| square.checked_mul(MILLION))
        .is_none_or(|square| square > data_ppm)
}

/// Refuses memory below the least that an operator can work with.
fn require(operator: &str, needed_pages: u64, granted_pages: u64) -> Result<(), QueryError> {
    if granted_pages < needed_pages {
        return Err(QueryError::TooLittleMemory {
            operator: operator.into(),
            needed_pages,
            granted_pages,
        });
    }
    Ok(())
}

/// The largest value where it does not fit.
fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

/// Rounds a number of pages up. What is not a number of pages at all counts as none.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the cast saturates, and takes what is not a number for zero"
)]
const fn ceil_pages(real: f64) -> u64 {
    real.ceil() as u64
}
