//! Memory of Grace hash (S001 section 3.3 and table 1): a reading buffer and one for each bucket, then the
//! hash table of a bucket of R and a buffer that reads the same bucket of S.
//!
//! The number of buckets is the least with which a bucket's table and a buffer as large as one that wrote
//! it fit in memory: the root of B k^2 - F|R| k - F|R|. It is a rule of feasibility, not an optimum.
//!
//! 1. `bucket_count * output_pages + input_pages` is the memory, and each part is at least 1 page.
//! 2. `build_pages + probe_pages` is the memory, and both are at least 1.

use super::{JoinSizes, MILLION, ceil_pages, require, saturate};
use crate::QueryError;
use serde::{Deserialize, Serialize};

/// Memory below which partitioning does not shrink anything: a page for reading, one for each of two buckets.
const MEMORY_PAGES_MIN: u64 = 3;

/// The parts of memory in both phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GraceHash {
    /// The number of buckets, k.
    pub bucket_count: u64,
    /// O: the buffer of each bucket.
    pub output_pages: u64,
    /// I: the buffer that reads R, then S.
    pub input_pages: u64,
    /// WS': the hash table of one bucket of R.
    pub build_pages: u64,
    /// I': the buffer that reads a bucket of S.
    pub probe_pages: u64,
    /// Whether a bucket of R fits; otherwise it is partitioned again.
    pub fits: bool,
}

impl GraceHash {
    /// The closed form.
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 3 pages.
    pub fn allocate(sizes: &JoinSizes, memory_pages: u64) -> Result<Self, QueryError> {
        let mut bucket_count = ceil_pages(Self::ideal_bucket_count(sizes, memory_pages)).max(1);
        // The float may be off by one where the root is whole; integers decide.
        while bucket_count > 1 && Self::is_enough(sizes, memory_pages, bucket_count - 1) {
            bucket_count -= 1;
        }
        if !Self::is_enough(sizes, memory_pages, bucket_count) {
            bucket_count += 1;
        }
        Self::with_buckets(sizes, memory_pages, bucket_count)
    }

    /// The allocation with so many buckets, as far as the memory allows.
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 3 pages.
    pub fn with_buckets(
        sizes: &JoinSizes,
        memory_pages: u64,
        bucket_count: u64,
    ) -> Result<Self, QueryError> {
        require("grace hash", MEMORY_PAGES_MIN, memory_pages)?;
        let bucket_count = bucket_count.clamp(1, memory_pages - 1);
        let output_pages = memory_pages / (bucket_count + 1);
        let wanted = saturate(sizes.hash_ppm().div_ceil(u128::from(bucket_count) * MILLION));
        let build_pages = wanted.clamp(1, memory_pages - 1);
        Ok(Self {
            bucket_count,
            output_pages,
            input_pages: memory_pages - bucket_count * output_pages,
            build_pages,
            probe_pages: memory_pages - build_pages,
            fits: wanted < memory_pages,
        })
    }

    /// k before it is rounded.
    pub(super) fn ideal_bucket_count(sizes: &JoinSizes, memory_pages: u64) -> f64 {
        let hash_pages = sizes.hash_ppm() as f64 / MILLION as f64;
        let memory = memory_pages.max(1) as f64;
        (hash_pages + (hash_pages * hash_pages + 4.0 * memory * hash_pages).sqrt()) / (2.0 * memory)
    }

    /// Whether B k^2 >= F|R| (k + 1).
    fn is_enough(sizes: &JoinSizes, memory_pages: u64, bucket_count: u64) -> bool {
        let buckets = u128::from(bucket_count);
        let memory_ppm = u128::from(memory_pages).saturating_mul(MILLION);
        memory_ppm.saturating_mul(buckets).saturating_mul(buckets)
            >= sizes.hash_ppm().saturating_mul(buckets + 1)
    }
}
