//! The joins that write: sort-merge, Grace and hybrid hash.

use super::{Count, Formulas};
use nandu_query::allocation::{
    BlockNestedLoops, Fudge, GraceHash, HybridHash, JoinSizes, SortMerge,
};
use nandu_query::cost::{Estimate, Pattern};

/// Buckets are cut no deeper than this; by then a bucket of any size is a tuple long.
const DEPTH_MAX: u32 = 40;
/// Millionths in one.
const MILLION: u64 = 1_000_000;

/// A relation, or a part of it that was written.
#[derive(Clone, Copy, Debug)]
struct Part {
    pages: u64,
    bytes: u64,
    /// Bytes of a hash table over it.
    memory_bytes: u64,
}

/// What is known of a bucket before it is joined.
#[derive(Clone, Copy, Debug)]
struct Bucket {
    /// I': the buffer that reads it.
    probe_pages: u64,
    /// Whether its part of R fits in memory.
    fits: bool,
    /// How often it has been cut before.
    depth: u32,
}

impl Part {
    fn whole(pages: u64, fudge: Fudge, page_bytes: u64) -> Self {
        let bytes = pages * page_bytes;
        Self { pages, bytes, memory_bytes: scaled(bytes, fudge.ppm(), MILLION) }
    }

    fn share(self, numerator: u64, denominator: u64, page_bytes: u64) -> Self {
        let bytes = scaled(self.bytes, numerator, denominator);
        let memory_bytes = scaled(self.memory_bytes, numerator, denominator);
        Self { pages: bytes.div_ceil(page_bytes), bytes, memory_bytes }
    }
}

impl Formulas<'_> {
    /// Sort-merge of runs that can be merged at once.
    pub(super) fn sort_merge(&self, memory_pages: u64, parts: &SortMerge) -> Estimate {
        assert!(parts.run_count() <= memory_pages, "a buffer for each run");
        let merge_pages = (memory_pages / parts.run_count().max(1)).max(1);
        let mut count = self.count();
        for side in self.sides() {
            let reads = count.scan(side.pages, parts.input_pages);
            let writes = side.pages.div_ceil(parts.output_pages);
            count.write(Pattern::Sequential, writes, side.pages);
            let merged = side.pages.div_ceil(merge_pages);
            count.read(Pattern::Random, merged, side.pages);
            count.seek(reads + writes + merged);
        }
        count.estimate
    }

    /// Grace hash. A bucket of R that does not fit is cut again with another hash; one that cannot
    /// be cut is joined by block nested loops.
    pub(super) fn grace_hash(&self, memory_pages: u64, parts: &GraceHash) -> Estimate {
        self.partition_and_join(self.sides(), memory_pages, parts, 0)
    }

    /// Hybrid hash: WS / (F|R|) of both relations are joined in the first phase and never written.
    pub(super) fn hybrid_hash(&self, memory_pages: u64, parts: &HybridHash) -> Estimate {
        let sides = self.sides();
        let whole = sides[0].memory_bytes.max(1);
        let resident = match parts.bucket_count {
            0 => whole,
            _ => parts.workspace_pages * self.page_bytes,
        };
        let spilled = whole.saturating_sub(resident);
        let mut count = self.count();
        for side in sides {
            let reads = count.scan(side.pages, parts.input_pages);
            let pages = side.share(spilled, whole, self.page_bytes).pages;
            let writes = pages.div_ceil(parts.output_pages.max(1));
            count.write(Pattern::Random, writes, pages);
            count.seek(if writes == 0 { reads.min(1) } else { reads + writes });
        }
        if parts.bucket_count == 0 {
            return count.estimate;
        }
        let buckets =
            sides.map(|side| side.share(spilled, whole * parts.bucket_count, self.page_bytes));
        let bucket = Bucket { probe_pages: parts.probe_pages, fits: parts.fits, depth: 0 };
        count.estimate + self.join_bucket(buckets, memory_pages, bucket) * parts.bucket_count
    }

    fn sides(&self) -> [Part; 2] {
        let JoinSizes { outer_pages, inner_pages, outer_fudge, inner_fudge } = self.sizes;
        [(outer_pages, outer_fudge), (inner_pages, inner_fudge)]
            .map(|(pages, fudge)| Part::whole(pages, fudge, self.page_bytes))
    }

    /// Cuts both relations, and joins what comes out.
    fn partition_and_join(
        &self,
        sides: [Part; 2],
        memory_pages: u64,
        parts: &GraceHash,
        depth: u32,
    ) -> Estimate {
        let mut count = self.count();
        for side in sides {
            let reads = count.scan(side.pages, parts.input_pages);
            let writes = side.pages.div_ceil(parts.output_pages.max(1));
            count.write(Pattern::Random, writes, side.pages);
            count.seek(reads + writes);
        }
        let buckets = sides.map(|side| side.share(1, parts.bucket_count, self.page_bytes));
        let bucket = Bucket { probe_pages: parts.probe_pages, fits: parts.fits, depth };
        count.estimate + self.join_bucket(buckets, memory_pages, bucket) * parts.bucket_count
    }

    /// Joins one bucket, which has a file of its own: a seek for R and one for S.
    fn join_bucket(&self, sides: [Part; 2], memory_pages: u64, bucket: Bucket) -> Estimate {
        if !bucket.fits {
            return self.join_overflow(sides, memory_pages, bucket.depth + 1);
        }
        let [build, probe] = sides;
        let mut count = self.count();
        count.scan(build.pages, build.pages);
        count.scan(probe.pages, bucket.probe_pages);
        count.seek(2);
        count.estimate
    }

    /// Joins one bucket whose part of R does not fit.
    fn join_overflow(&self, sides: [Part; 2], memory_pages: u64, depth: u32) -> Estimate {
        let fudge = |side: Part| Fudge::of_ratio(side.memory_bytes, side.pages * self.page_bytes);
        let sizes = JoinSizes {
            outer_pages: sides[0].pages,
            inner_pages: sides[1].pages,
            outer_fudge: fudge(sides[0]),
            inner_fudge: fudge(sides[1]),
        };
        match GraceHash::allocate(&sizes, memory_pages) {
            Ok(parts) if depth < DEPTH_MAX && parts.bucket_count > 1 => {
                self.partition_and_join(sides, memory_pages, &parts, depth)
            }
            _ => {
                let times = self.device.request_times(self.page_bytes);
                let parts = BlockNestedLoops::allocate(&sizes, memory_pages.max(2), &times);
                let parts = parts.expect("two pages are enough");
                self.scan_for_chunks(sides.map(|side| side.pages), &parts)
            }
        }
    }
}

impl Count<'_> {
    /// Writes pages in so many requests of about the same size.
    fn write(&mut self, pattern: Pattern, request_count: u64, pages: u64) {
        let each_ns = self.device.write.time_ns(pattern, self.request_bytes(request_count, pages));
        self.estimate.write_requests += request_count;
        self.estimate.pages_written += pages;
        self.estimate.io_ns += request_count * each_ns;
    }
}

/// `value * numerator / denominator`, rounded up.
fn scaled(value: u64, numerator: u64, denominator: u64) -> u64 {
    let scaled = u128::from(value) * u128::from(numerator);
    u64::try_from(scaled.div_ceil(u128::from(denominator))).expect("a part of it")
}
