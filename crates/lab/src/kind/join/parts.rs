//! Who gets which memory, as S001 allocates it after Haas and others: computed for the paper's tables,
//! pages and disk, then as many times smaller as everything else.
//!
//! Formulas are not all homogeneous: the buffers of hybrid hash grow with the root of the memory. So they
//! are evaluated at the paper's scale, and only the parts are divided.
//!
//! 1. The parts of an allocation never pass the memory.

use nandu_query::JoinKind;
use nandu_query::allocation::{
    BlockNestedLoops, Fudge, GraceHash, HYBRID_BUFFER_PPM, HybridHash, JoinSizes, RequestTimes,
    RunSeeks, SortMerge,
};
use nandu_query::cost::JoinQuestion;
use nandu_query::plan::Division;

/// S001 table 2, of the disk, by which the paper allocates memory on flash, too.
const SEEK_NS: u64 = 12_000_000;
const LATENCY_NS: u64 = 5_560_000;
const BYTES_PER_SECOND: u64 = 34 << 20;

/// The paper's world and ours.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    /// How many times smaller tables and memory are.
    pub(super) over: u64,
    /// Bytes of a page there.
    pub(super) paper_page_bytes: u64,
    /// Bytes of a page here.
    pub(super) page_bytes: u64,
}

impl Scale {
    /// Pages of the paper for so many of ours.
    const fn paper_pages(&self, pages: u64) -> u64 {
        (pages * self.page_bytes * self.over).div_ceil(self.paper_page_bytes)
    }

    /// Pages of ours for so many of the paper, at least one.
    const fn pages(&self, paper_pages: u64) -> u64 {
        let unit = self.page_bytes * self.over;
        let pages = (paper_pages * self.paper_page_bytes + unit / 2) / unit;
        if pages == 0 { 1 } else { pages }
    }
}

/// How `kind` divides `memory_pages` of ours, where buffers are `buffer_percent` of what the
/// formulas say. Our tables are compact: where the paper's resident bucket takes up memory that
/// ours does not, that stays unused, since no other bucket fits in there.
///
/// # Errors
/// Says which join is none of the paper's, or what memory is missing.
pub(super) fn divide(
    (kind, buffer_percent): (JoinKind, u32),
    question: &JoinQuestion,
    memory_pages: u64,
    scale: Scale,
) -> Result<Division, String> {
    let percent = u64::from(buffer_percent);
    let buffer = |pages: u64| (pages * percent / 100).max(1);
    let times =
        RequestTimes::from_rate(SEEK_NS, LATENCY_NS, scale.paper_page_bytes, BYTES_PER_SECOND);
    let [outer, inner] =
        [question.outer, question.inner].map(|side| scale.paper_pages(side.stats.page_count));
    let sizes = JoinSizes::new(outer, inner, Fudge::PAPER);
    let paper_memory = scale.paper_pages(memory_pages);
    let ours = JoinSizes::new(
        question.outer.stats.page_count,
        question.inner.stats.page_count,
        Fudge::PAPER,
    );
    let text = |error: nandu_query::QueryError| error.to_string();
    let division = match kind {
        JoinKind::BlockNestedLoops => {
            let parts = BlockNestedLoops::allocate(&sizes, paper_memory, &times).map_err(text)?;
            let inner_pages = buffer(scale.pages(parts.inner_pages));
            let mut found =
                BlockNestedLoops::with_inner(&ours, memory_pages, inner_pages).map_err(text)?;
            if percent == 100 {
                // The scaled sizes are rounded, which could give one chunk more than the paper has:
                // its own number is taken.
                found.chunk_count = parts.chunk_count;
            }
            let chunk_pages = ours.outer_pages.div_ceil(found.chunk_count).max(1);
            let block_count = chunk_pages.div_ceil(found.inner_pages);
            found.chunk_pages = chunk_pages.next_multiple_of(block_count);
            Division::BlockNestedLoops(found)
        }
        JoinKind::SortMerge => {
            let parts =
                SortMerge::allocate(&sizes, paper_memory, &times, RunSeeks::Free).map_err(text)?;
            let input_pages = buffer(scale.pages(parts.input_pages));
            let built = question.sort_sizes();
            let formation = nandu_query::sort::RunFormation::default();
            let found = SortMerge::with_input(&built, memory_pages, input_pages, formation);
            Division::SortMerge(found.map_err(text)?)
        }
        JoinKind::GraceHash => {
            let count = GraceHash::allocate(&sizes, paper_memory).map_err(text)?.bucket_count;
            // As many times as many buckets as their buffers are smaller.
            let count = ((count + 1) * 100 / percent).saturating_sub(1).max(1);
            let found = GraceHash::with_buckets(&ours, memory_pages, count).map_err(text)?;
            Division::GraceHash(found)
        }
        JoinKind::HybridHash => {
            let ppm = HYBRID_BUFFER_PPM * percent / 100;
            let parts = HybridHash::allocate(&sizes, paper_memory, ppm).map_err(text)?;
            Division::HybridHash(smaller_hybrid(&parts, question, memory_pages, scale))
        }
        other => return Err(format!("{other} is none of the joins of S001")),
    };
    Ok(division)
}

/// The parts of hybrid hash in our pages: as large a share of R stays as in the paper.
fn smaller_hybrid(
    parts: &HybridHash,
    question: &JoinQuestion,
    memory_pages: u64,
    scale: Scale,
) -> HybridHash {
    let (input_pages, output_pages) =
        (scale.pages(parts.input_pages), scale.pages(parts.output_pages));
    let stats = &question.outer.stats;
    let paper_bytes = Fudge::PAPER.memory_pages(stats.page_count) * stats.page_bytes;
    let compact = |pages: u64| {
        let bytes = u128::from(scale.pages(pages)) * u128::from(stats.area_bytes());
        u64::try_from(bytes / u128::from(paper_bytes.max(1))).unwrap_or(u64::MAX).max(1)
    };
    let build_pages = compact(parts.build_pages);
    HybridHash {
        bucket_count: parts.bucket_count,
        input_pages,
        output_pages,
        workspace_pages: compact(parts.workspace_pages),
        build_pages,
        probe_pages: memory_pages.saturating_sub(build_pages).max(1),
        fits: parts.fits,
    }
}
