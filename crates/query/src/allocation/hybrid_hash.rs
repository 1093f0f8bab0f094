//! Memory of hybrid hash (S001 section 3.4 and table 1): as Grace hash, but a part of R stays in a hash
//! table from the start and is never written.
//!
//! The buffers are c sqrt(B). Haas and others give c = 1.1; the best c is a matter of the device: about 7
//! for the disk of S001, 1.4 to 1.9 for its flash drive.
//!
//! 1. `input_pages + bucket_count * output_pages + workspace_pages` is the memory; each part is at least
//!    1 page, where there is a bucket at all.
//! 2. With buckets, `build_pages + probe_pages` is the memory, and both are at least 1.

use super::{JoinSizes, MILLION, require, saturate};
use crate::QueryError;
use serde::{Deserialize, Serialize};

/// The c of Haas and others, 1.1, in millionths.
pub const HYBRID_BUFFER_PPM: u64 = 1_100_000;

/// Memory below which nothing works: a page of each part.
const MEMORY_PAGES_MIN: u64 = 3;

/// The parts of memory in both phases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HybridHash {
    /// k: buckets that are written; none where all of R stays in memory.
    pub bucket_count: u64,
    /// I: the buffer that reads R, then S.
    pub input_pages: u64,
    /// O: the buffer of each bucket.
    pub output_pages: u64,
    /// WS: the hash table of the part of R that stays.
    pub workspace_pages: u64,
    /// WS': the hash table of one bucket of R that was written; zero without buckets.
    pub build_pages: u64,
    /// I': the buffer that reads a bucket of S; zero without buckets.
    pub probe_pages: u64,
    /// Whether a bucket of R fits; otherwise it is partitioned again.
    pub fits: bool,
}

impl HybridHash {
    /// The closed form, with c in millionths: [`HYBRID_BUFFER_PPM`] as published. Where buffers of that size
    /// leave no room for the table that stays, which is so below about (c F|R|)^(2/3) pages, they shrink
    /// until they do.
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 3 pages.
    pub fn allocate(
        sizes: &JoinSizes,
        memory_pages: u64,
        buffer_ppm: u64,
    ) -> Result<Self, QueryError> {
        let square = u128::from(buffer_ppm)
            .saturating_mul(u128::from(buffer_ppm))
            .saturating_mul(u128::from(memory_pages));
        let floor = square.isqrt();
        let root = if floor * floor < square { floor + 1 } else { floor };
        Self::with_buffer(sizes, memory_pages, saturate(root.div_ceil(MILLION)))
    }

    /// The allocation with buffers of so many pages, as far as the memory allows.
    ///
    /// # Errors
    /// [`QueryError::TooLittleMemory`] below 3 pages.
    pub fn with_buffer(
        sizes: &JoinSizes,
        memory_pages: u64,
        buffer_pages: u64,
    ) -> Result<Self, QueryError> {
        require("hybrid hash", MEMORY_PAGES_MIN, memory_pages)?;
        let mut buffer_pages = buffer_pages.clamp(1, (memory_pages - 1) / 2);
        // Halving, then growing again by single pages: few steps even where the start is far off.
        let largest = buffer_pages;
        while buffer_pages > 1 && Self::resident(sizes, memory_pages, buffer_pages).is_none() {
            buffer_pages /= 2;
        }
        while buffer_pages < largest
            && Self::resident(sizes, memory_pages, buffer_pages + 1).is_some()
        {
            buffer_pages += 1;
        }
        let (bucket_count, workspace_pages) = Self::resident(sizes, memory_pages, buffer_pages)
            .unwrap_or_else(|| {
                let most = (memory_pages - buffer_pages - 1) / buffer_pages;
                (most, memory_pages - buffer_pages - most * buffer_pages)
            });
        let (build_pages, fits) = if bucket_count == 0 {
            (0, true)
        } else {
            let spilled = sizes
                .hash_ppm()
                .saturating_sub(u128::from(workspace_pages).saturating_mul(MILLION));
            let wanted = saturate(spilled.div_ceil(u128::from(bucket_count) * MILLION));
            (wanted.clamp(1, memory_pages - 1), wanted < memory_pages)
        };
        Ok(Self {
            bucket_count,
            input_pages: buffer_pages,
            output_pages: buffer_pages,
            workspace_pages,
            build_pages,
            probe_pages: if bucket_count == 0 { 0 } else { memory_pages - build_pages },
            fits,
        })
    }

    /// k = ceil((F|R| - (B - I)) / (B - I - O)) and WS = B - I - k O, if that leaves a page.
    fn resident(sizes: &JoinSizes, memory_pages: u64, buffer_pages: u64) -> Option<(u64, u64)> {
        let table_pages = memory_pages.checked_sub(buffer_pages)?;
        let bucket_pages = table_pages.checked_sub(buffer_pages).filter(|pages| *pages > 0)?;
        let excess =
            sizes.hash_ppm().saturating_sub(u128::from(table_pages).saturating_mul(MILLION));
        let bucket_count = saturate(excess.div_ceil(u128::from(bucket_pages) * MILLION));
        let workspace_pages = table_pages.checked_sub(bucket_count.checked_mul(buffer_pages)?)?;
        (workspace_pages > 0).then_some((bucket_count, workspace_pages))
    }
}
