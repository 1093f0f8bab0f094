//! What S001 counts for its joins, after Haas, Carey, Livny and Shukla ("SEEKing the truth about ad
//! hoc join costs", VLDB Journal 6(3), 1997): requests, pages, seeks, and the time of the device.
//!
//! ```text
//!   block nested loops for each chunk: the chunk by one request, then all of S
//!   sort-merge         both written as runs, then all runs read side by side `two_pass`, for tests
//!   Grace hash         both written as buckets, then each bucket read        `two_pass`, for tests
//!   hybrid hash        the same but for the part that stays                  `two_pass`, for tests
//! ```
//!
//! The planner in `query` counts what operators do; with these formulas they and the rules that
//! divide their memory are compared.
//!
//! 1. Memory is F times the pages, what is spilled is as large as what is stored, and parts have no
//!    ends.
//! 2. Each request of a phase that reads and writes moves the head. The processor takes no time.

#[cfg(test)]
mod tests;
#[cfg(test)]
mod two_pass;

use nandu_query::allocation::{BlockNestedLoops, JoinSizes};
use nandu_query::cost::{DeviceCosts, Estimate, Pattern};

/// What is joined, and on what.
#[derive(Clone, Copy, Debug)]
pub(super) struct Formulas<'a> {
    pub(super) device: &'a DeviceCosts,
    pub(super) sizes: JoinSizes,
    pub(super) page_bytes: u64,
}

/// Requests that are counted.
struct Count<'a> {
    device: &'a DeviceCosts,
    page_bytes: u64,
    estimate: Estimate,
}

impl Formulas<'_> {
    /// Block nested loops: |R| + n|S| pages, two seeks for each chunk.
    pub(super) fn block_nested_loops(&self, parts: &BlockNestedLoops) -> Estimate {
        self.scan_for_chunks([self.sizes.outer_pages, self.sizes.inner_pages], parts)
    }

    fn scan_for_chunks(&self, [outer, inner]: [u64; 2], parts: &BlockNestedLoops) -> Estimate {
        let mut chunks = self.count();
        chunks.read(Pattern::Sequential, parts.chunk_count, outer);
        chunks.seek(parts.chunk_count);
        let mut scan = self.count();
        let reads = scan.scan(inner, parts.inner_pages);
        if reads > 0 {
            scan.begin(inner, parts.inner_pages, reads);
        }
        chunks.estimate + scan.estimate * parts.chunk_count
    }

    fn count(&self) -> Count<'_> {
        let Self { device, page_bytes, .. } = *self;
        Count { device, page_bytes, estimate: Estimate::default() }
    }
}

impl Count<'_> {
    /// Reads pages in so many requests of about the same size.
    fn read(&mut self, pattern: Pattern, request_count: u64, pages: u64) {
        let each_ns = self.device.read.time_ns(pattern, self.request_bytes(request_count, pages));
        self.estimate.read_requests += request_count;
        self.estimate.pages_read += pages;
        self.estimate.io_ns += request_count * each_ns;
    }

    /// Reads all pages of something in requests of one size, of which the last may be shorter.
    /// Answers how many.
    fn scan(&mut self, pages: u64, request_pages: u64) -> u64 {
        let request_pages = request_pages.max(1);
        let (full, rest) = (pages / request_pages, pages % request_pages);
        self.read(Pattern::Sequential, full, full * request_pages);
        self.read(Pattern::Sequential, u64::from(rest > 0), rest);
        full + u64::from(rest > 0)
    }

    /// The head moves to where something is scanned. What else is read lies about as far away as
    /// that is long, on both sides.
    fn begin(&mut self, pages: u64, request_pages: u64, read_count: u64) {
        self.estimate.seeks += 1;
        let request_bytes = request_pages.clamp(1, pages) * self.page_bytes;
        let area_bytes = (pages * self.page_bytes).saturating_mul(3);
        self.estimate.io_ns += self.device.restart_ns(request_bytes, read_count, area_bytes);
    }

    /// The head moves so often.
    fn seek(&mut self, count: u64) {
        self.estimate.seeks += count;
        self.estimate.io_ns += count * self.device.seek_ns;
    }

    fn request_bytes(&self, request_count: u64, pages: u64) -> u64 {
        (pages * self.page_bytes).checked_div(request_count).unwrap_or(0)
    }
}
