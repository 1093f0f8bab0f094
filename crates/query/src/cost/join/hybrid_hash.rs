//! Hybrid hash: as Grace hash, but WS / (F|R|) of both relations are joined in the first phase and never
//! written (S001 section 3.4).

use super::grace_hash::{Bucket, join_bucket};
use super::{begin, hash_and_probe, with_result};
use crate::allocation::HybridHash;
use crate::cost::sort::moves;
use crate::cost::{
    Convention, CostModel, Estimate, Footprint, JoinQuestion, Pattern, built, scale_up,
};
use crate::work::Work;

/// The cost with such a division of so much memory.
#[must_use]
pub fn hybrid_hash(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory_pages: u64,
    parts: &HybridHash,
) -> Estimate {
    let [outer, inner] = question.footprints(model.convention);
    if matches!(model.convention, Convention::AsBuilt { .. }) {
        // Of those that are looked into one after the other, about the mean.
        let table_bytes = outer.memory_bytes / (parts.bucket_count + 1);
        let joined = built::hybrid::hybrid_hash(model, [&outer, &inner], memory_pages, parts);
        return with_result(model, question, joined, Some(&outer.tables_by_key(table_bytes)));
    }
    let (spilled, whole) = spilled_fraction(&outer, parts);
    let mut tally = begin(model, question);
    for side in [&outer, &inner] {
        let reads = tally.scan(side, parts.input_pages);
        let part = side.spilled_part(spilled, whole);
        let pages = part.spilled_pages();
        let writes = tally.requests_of_parts(pages, parts.bucket_count, parts.output_pages);
        tally.write_requests(Pattern::Random, writes, pages);
        tally.seek(if writes == 0 { reads.min(1) } else { moves(model, reads, writes) });
        tally.work(Work::Copy, part.tuple_count);
    }
    // Rows of R are copied when they come; which of them stay shows later.
    tally.work(Work::Copy, resident(&outer, spilled, whole).tuple_count);
    let [resident_outer, resident_inner] =
        [&outer, &inner].map(|side| resident(side, spilled, whole));
    hash_and_probe(&mut tally, &resident_outer, &resident_inner);
    if parts.bucket_count == 0 {
        return tally.estimate;
    }
    let denominator = whole.saturating_mul(parts.bucket_count);
    let [bucket_outer, bucket_inner] =
        [&outer, &inner].map(|side| side.spilled_part(spilled, denominator));
    let bucket = Bucket { probe_pages: parts.probe_pages, fits: parts.fits, depth: 0 };
    tally.estimate
        + join_bucket(model, [&bucket_outer, &bucket_inner], memory_pages, bucket)
            * parts.bucket_count
}

/// q = 1 - WS / (F|R|), as a fraction of bytes of memory.
fn spilled_fraction(outer: &Footprint, parts: &HybridHash) -> (u64, u64) {
    let whole = outer.memory_bytes.max(1);
    if parts.bucket_count == 0 {
        return (0, whole);
    }
    let resident = parts.workspace_pages.saturating_mul(outer.page_bytes);
    (whole.saturating_sub(resident), whole)
}

/// What is met in the first phase and does not leave.
fn resident(side: &Footprint, spilled: u64, whole: u64) -> Footprint {
    let leaving = scale_up(side.tuple_count, spilled, whole);
    Footprint { tuple_count: side.tuple_count - leaving, ..*side }
}
