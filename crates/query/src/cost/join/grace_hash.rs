//! Grace hash: both relations are cut into buckets, which are then joined one by one (S001 section 3.3). A
//! bucket of R that does not fit is cut again with another hash; one that cannot be cut is joined by
//! block nested loops.
//!
//! Every bucket has a file of its own, so that each is read with one seek for R and one for S.

use super::block_nested_loops::scan_for_chunks;
use super::{begin, hash_and_probe, with_result};
use crate::allocation::{BlockNestedLoops, GraceHash};
use crate::cost::question::sizes_of;
use crate::cost::sort::moves;
use crate::cost::{
    Convention, CostModel, Estimate, Footprint, JoinQuestion, Pattern, Tally, built,
};
use crate::work::Work;

/// Buckets are cut no deeper than this; by then a bucket of any size is a tuple long.
const DEPTH_MAX: u32 = 40;

/// The cost with such a division of so much memory.
#[must_use]
pub fn grace_hash(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory_pages: u64,
    parts: &GraceHash,
) -> Estimate {
    let [outer, inner] = question.footprints(model.convention);
    let estimate = begin(model, question).estimate;
    if matches!(model.convention, Convention::AsBuilt { .. }) {
        let smaller = if inner.memory_bytes < outer.memory_bytes { &inner } else { &outer };
        let table_bytes = smaller.memory_bytes / parts.bucket_count.max(1);
        let joined = built::buckets::grace_hash(model, [&outer, &inner], memory_pages, parts);
        return with_result(model, question, joined, Some(&smaller.tables_by_key(table_bytes)));
    }
    estimate + partition_and_join(model, [&outer, &inner], memory_pages, parts, 0)
}

/// Cuts both relations, and joins what comes out.
fn partition_and_join(
    model: &CostModel<'_>,
    sides: [&Footprint; 2],
    memory_pages: u64,
    parts: &GraceHash,
    depth: u32,
) -> Estimate {
    let mut tally = Tally::new(model, sides[0].page_bytes);
    for side in sides {
        let reads = tally.scan(side, parts.input_pages);
        let pages = side.spilled_pages();
        let writes = tally.requests_of_parts(pages, parts.bucket_count, parts.output_pages);
        tally.write_requests(Pattern::Random, writes, pages);
        tally.seek(moves(model, reads, writes));
        tally.work(Work::Scan, side.stored_tuples);
        tally.work(Work::Copy, side.tuple_count);
    }
    let [outer, inner] = sides.map(|side| side.spilled_part(1, parts.bucket_count));
    let bucket = Bucket { probe_pages: parts.probe_pages, fits: parts.fits, depth };
    tally.estimate + join_bucket(model, [&outer, &inner], memory_pages, bucket) * parts.bucket_count
}

/// What is known of a bucket before it is joined.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bucket {
    /// I': the buffer that reads it.
    pub(super) probe_pages: u64,
    /// Whether its part of R fits in memory.
    pub(super) fits: bool,
    /// How often it has been cut before.
    pub(super) depth: u32,
}

/// Joins one bucket.
pub(super) fn join_bucket(
    model: &CostModel<'_>,
    sides: [&Footprint; 2],
    memory_pages: u64,
    bucket: Bucket,
) -> Estimate {
    let [build, probe] = sides;
    if !bucket.fits {
        return join_overflow(model, [build, probe], memory_pages, bucket.depth + 1);
    }
    let mut tally = Tally::new(model, build.page_bytes);
    tally.read(Pattern::Sequential, build.stored_pages, build.stored_pages);
    tally.read(Pattern::Sequential, probe.stored_pages, bucket.probe_pages);
    tally.seek(2);
    hash_and_probe(&mut tally, build, probe);
    tally.estimate
}

/// Joins one bucket whose part of R does not fit.
fn join_overflow(
    model: &CostModel<'_>,
    sides: [&Footprint; 2],
    memory_pages: u64,
    depth: u32,
) -> Estimate {
    let sizes = sizes_of(sides[0], sides[1]);
    let parts = GraceHash::allocate(&sizes, memory_pages);
    match parts {
        Ok(parts) if depth < DEPTH_MAX && parts.bucket_count > 1 => {
            partition_and_join(model, sides, memory_pages, &parts, depth)
        }
        _ => scan_repeatedly(model, sides, memory_pages),
    }
}

/// Joins one bucket by block nested loops.
fn scan_repeatedly(
    model: &CostModel<'_>,
    [outer, inner]: [&Footprint; 2],
    memory_pages: u64,
) -> Estimate {
    let times = model.device.request_times(outer.page_bytes);
    let sizes = sizes_of(outer, inner);
    BlockNestedLoops::allocate(&sizes, memory_pages.max(2), &times)
        .map_or_else(|_| Estimate::default(), |parts| scan_for_chunks(model, outer, inner, &parts))
}
