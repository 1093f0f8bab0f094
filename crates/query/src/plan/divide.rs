//! The best division of memory that a search finds for each join. It begins with the closed forms of Haas and
//! others and tries what lies around them under the full model, because a measured device is no line, and
//! the operators here cut chunks between blocks.
//!
//! 1. No division found is dearer than that of the closed form, where rows take as much memory as known or a
//!    little more.
//! 2. With a write budget a division is taken only if it would keep to it were both sides larger than known
//!    by [`MARGIN_PPM`], each part a page longer, runs a third shorter, and, for hybrid hash, some keys more
//!    frequent: what chance, samples of the tables and skew may do.

use super::late::{of_flash_join, of_rare_join};
use super::{Budget, Rejection, written_by};
use crate::allocation::{
    BlockNestedLoops, Fudge, GraceHash, HYBRID_BUFFER_PPM, HybridHash, JoinSizes, RequestTimes,
    RunFormation, RunSeeks, SortMerge,
};
use crate::cost::join::{
    FlashMemory, IndexMemory, IndexMergeMemory, OuterAccess, RareMemory, block_nested_loops,
    flash_join, grace_hash, hybrid_hash, index_nested_loops, index_sort_merge, nested_loops,
    rare_join, sort_merge,
};
use crate::cost::{Convention, CostModel, Estimate, JoinQuestion, JoinSide};
use crate::index::FetchOrder;
use crate::join::JoinType;
use crate::{JoinKind, QueryError};
use nandu_base::{ByteCount, Nanos};
use serde::Serialize;

/// Pages that read R in an index join: enough to make a request cheap, no more.
const INDEX_INPUT_PAGES_MAX: u64 = 64;
/// What a row that waits to be fetched takes besides, about.
const NOTED_ROW_BYTES: u64 = 100;
/// So many times longer than to begin it a request may take to transfer.
const TRANSFER_SHARE: u64 = 100;
/// Numbers of scans that are tried below and above the best so far.
const SCAN_COUNT_REACH: u64 = 3;
/// Blocks of a chunk for which it is tried to have no rest.
const BLOCKS_PER_CHUNK_MAX: u64 = 12;
/// By how much buckets of hybrid hash are thought larger than they are, so that their tables fit with what
/// segments leave unused and with chance; the first is not at all.
const PADDINGS_PPM: [u64; 4] = [1_000_000, 1_060_000, 1_130_000, 1_250_000];
/// How much larger than known, in millionths, tables are taken to be where writes are limited. Estimates of pages
/// are within 2 %, below the square-root bound within 8 %; a run that passes its budget ends without a result.
const MARGIN_PPM: u64 = 80_000;
/// The hash area of block nested loops is thought smaller by this part: where a buffer leaves just enough for the
/// last row of a chunk, rows a little longer than those that were looked at cost another scan.
const AREA_SLACK_PART: u64 = 50;
/// So much more a hybrid hash join may come to write for keys that many rows have: a sixth.
const SKEW_SHARE: u64 = 6;
/// Pages of a hash join of another type than inner: where a bucket does not fit, one says which rows of the side
/// that is looked up have met a partner.
const MARKING_HASH_PAGES_MIN: u64 = 4;
/// Into how many steps a buffer is divided to look closely around it, a quarter of it to either side.
const REFINING_STEPS: u64 = 64;

/// How a plan divides its memory among the parts of its join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Division {
    /// One page for the outer side, the rest for the inner one.
    NestedLoops,
    /// Of block nested loops.
    BlockNestedLoops(BlockNestedLoops),
    /// Of index nested loops, and how the outer side is read.
    IndexNestedLoops {
        /// How the outer side is read.
        access: OuterAccess,
        /// Pages for the outer side, for rows of the inner side and for the pool between.
        memory: IndexMemory,
        /// In which order rows of the inner side are fetched.
        order: FetchOrder,
    },
    /// Of index sort-merge.
    IndexSortMerge(IndexMergeMemory),
    /// Of sort-merge: how each side is sorted, and the pages of the merge.
    SortMerge(SortMerge),
    /// Of Grace hash.
    GraceHash(GraceHash),
    /// Of hybrid hash.
    HybridHash(HybridHash),
    /// Of FlashJoin, which joins keys first and fetches the rest of rows late.
    FlashJoin(FlashMemory),
    /// Of RARE-join, which keeps a join index and fetches columns by it.
    RareJoin(RareMemory),
}

/// The cheapest division for a kind within the budget.
///
/// # Errors
/// Why there is none.
pub(super) fn divide(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    kind: JoinKind,
    budget: &Budget,
) -> Result<(Division, Estimate), Rejection> {
    let memory = budget.memory_pages;
    let candidates = match kind {
        JoinKind::NestedLoops if memory < 2 => Err(too_little(2)),
        JoinKind::NestedLoops => {
            Ok(vec![(Division::NestedLoops, nested_loops(model, question, memory))])
        }
        JoinKind::BlockNestedLoops => of_block_nested_loops(model, question, memory),
        JoinKind::IndexNestedLoops => of_index_nested_loops(model, question, budget),
        JoinKind::IndexSortMerge => of_index_sort_merge(model, question, budget),
        JoinKind::SortMerge => of_sort_merge(model, question, memory),
        JoinKind::GraceHash | JoinKind::HybridHash | JoinKind::FlashJoin | JoinKind::RareJoin
            if question.join_type != JoinType::Inner && memory < MARKING_HASH_PAGES_MIN =>
        {
            Err(too_little(MARKING_HASH_PAGES_MIN))
        }
        JoinKind::GraceHash => of_grace_hash(model, question, memory),
        JoinKind::HybridHash => of_hybrid_hash(model, question, memory),
        JoinKind::FlashJoin => of_flash_join(model, question, memory),
        JoinKind::RareJoin => {
            let candidates = of_rare_join(model, question, memory)?;
            match budget.write_bytes {
                Some(_) if question.pairs_are_guessed => Err(Rejection::UnknownPairs),
                _ => Ok(candidates),
            }
        }
    }?;
    let candidates =
        candidates.into_iter().filter(|(division, _)| scans_fit(question, division, memory));
    let candidates: Candidates = candidates.collect();
    if candidates.is_empty() {
        return Err(too_little((2 * scan_pages_min(question) + 1).max(memory + 1)));
    }
    cheapest(model, question, budget, candidates)
}

pub(super) type Candidates = Vec<(Division, Estimate)>;

/// The least memory that scans of both sides take, one at a time.
fn scan_pages_min(question: &JoinQuestion) -> u64 {
    question.outer.stats.scan_pages_min().max(question.inner.stats.scan_pages_min())
}

/// Whether the buffers of a division are long enough for what they read.
pub(super) fn scans_fit(question: &JoinQuestion, division: &Division, memory: u64) -> bool {
    let least = scan_pages_min(question);
    match division {
        Division::NestedLoops => {
            let both = [question.outer, question.inner].map(|side| side.stats.scan_pages_min());
            both[0] + both[1] <= memory
        }
        Division::IndexSortMerge(_) => true,
        Division::IndexNestedLoops { memory, .. } => {
            memory.input_pages >= question.outer.stats.scan_pages_min()
        }
        Division::BlockNestedLoops(parts) => parts.inner_pages >= least,
        Division::SortMerge(parts) => parts.input_pages >= least,
        Division::GraceHash(parts) => parts.input_pages >= least,
        Division::HybridHash(parts) => parts.input_pages >= least,
        // The kernels inside these joins were divided by this same rule when the division was made.
        Division::FlashJoin(_) | Division::RareJoin(_) => true,
    }
}

/// The cheapest that keeps to the write budget; the first of equals.
fn cheapest(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    budget: &Budget,
    mut candidates: Candidates,
) -> Result<(Division, Estimate), Rejection> {
    if let Some(write_bytes) = budget.write_bytes {
        let larger = question.larger_by(MARGIN_PPM);
        let mut least = u64::MAX;
        candidates.retain(|(division, estimate)| {
            let known = written_by(estimate, question).0;
            // A division that writes too much by the known sizes is refused anyway; only others are
            // estimated for a larger input, which takes longer.
            let most = match known > write_bytes {
                true => known,
                false => known.max(written_at_most(model, &larger, budget, division)),
            };
            least = least.min(most);
            most <= write_bytes
        });
        if candidates.is_empty() {
            return Err(Rejection::WriteBudget { written: ByteCount(least) });
        }
    }
    let time = |(division, estimate): &(Division, Estimate)| {
        let known = model.time(estimate);
        match (division, model.convention) {
            (Division::BlockNestedLoops(parts), Convention::AsBuilt { .. }) => {
                let outer_pages = parts.outer_pages - parts.outer_pages / AREA_SLACK_PART;
                let smaller = BlockNestedLoops { outer_pages, ..*parts };
                known.max(model.time(&block_nested_loops(model, question, &smaller)))
            }
            _ => known,
        }
    };
    let cheapest = candidates.into_iter().min_by_key(time);
    cheapest.ok_or(Rejection::WriteBudget { written: ByteCount::ZERO })
}

/// Bytes that a division writes for tables that are as large as they may be.
fn written_at_most(
    model: &CostModel<'_>,
    larger: &JoinQuestion,
    budget: &Budget,
    division: &Division,
) -> u64 {
    let memory = budget.memory_pages;
    let (estimate, part_count) = match division {
        Division::NestedLoops
        | Division::BlockNestedLoops(_)
        | Division::IndexNestedLoops { .. }
        | Division::IndexSortMerge(_) => return 0,
        Division::SortMerge(parts) => {
            // Rows of many lengths leave gaps in the work space, so runs may be shorter.
            let workspace_pages = parts.workspace_pages * 2 / 3;
            let shorter = SortMerge { workspace_pages: workspace_pages.max(1), ..*parts };
            let one = sort_merge(model, larger, memory, parts);
            let other = sort_merge(model, larger, memory, &shorter);
            let most = if one.pages_written < other.pages_written { other } else { one };
            (most, parts.run_count())
        }
        Division::GraceHash(parts) => {
            (grace_hash(model, larger, memory, parts), parts.bucket_count)
        }
        Division::HybridHash(parts) => {
            (hybrid_hash(model, larger, memory, parts), parts.bucket_count)
        }
        Division::FlashJoin(parts) => {
            let estimate = flash_join(model, larger, parts).unwrap_or_default();
            (estimate, parts.kernel.bucket_count)
        }
        Division::RareJoin(parts) => {
            // The join sorts rows whose lengths differ, so that less of them may fit: estimated
            // also with two thirds of the sort's memory, and the worse of both counts.
            let shorter = RareMemory { sort_pages: (parts.sort_pages * 2 / 3).max(1), ..*parts };
            let [one, other] =
                [parts, &shorter].map(|parts| rare_join(model, larger, parts).unwrap_or_default());
            let most = if one.pages_written < other.pages_written { other } else { one };
            (most, parts.kernel.bucket_count + 2)
        }
    };
    let mut written = written_by(&estimate, larger).0;
    if matches!(division, Division::HybridHash(_) | Division::FlashJoin(_) | Division::RareJoin(_))
    {
        // Keys that many rows have take more of the memory than others, and nobody counted them.
        written = written.saturating_add(written / SKEW_SHARE);
    }
    // The last page of each part is written though it is not full, on both sides of the join.
    let ends = part_count.saturating_mul(2 * larger.outer.stats.page_bytes);
    if written == 0 { 0 } else { written.saturating_add(ends) }
}

fn of_block_nested_loops(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: u64,
) -> Result<Candidates, Rejection> {
    let sizes = question.sizes(model.convention);
    let times = model.device.request_times(question.inner.stats.page_bytes);
    let closed_form = BlockNestedLoops::allocate(&sizes, memory, &times).map_err(needed)?;
    let whole_scans =
        BlockNestedLoops::allocate_whole_scans(&sizes, memory, &times).map_err(needed)?;
    let cost = |inner_pages: u64| {
        let parts = BlockNestedLoops::with_inner(&sizes, memory, inner_pages).ok()?;
        let estimate = block_nested_loops(model, question, &parts);
        Some((Division::BlockNestedLoops(parts), estimate))
    };
    let largest = match model.convention {
        Convention::AsInPaper { .. } => memory - 1,
        Convention::AsBuilt { .. } => long_blocks(&times).min(memory - 1),
    };
    let coarse = [closed_form.inner_pages, whole_scans.inner_pages, largest];
    let mut tried: Vec<u64> = coarse.into_iter().chain(around(coarse[0], largest)).collect();
    let time = |pages: &u64| cost(*pages).map(|(_, estimate)| model.time(&estimate));
    let best = tried.iter().copied().min_by_key(time).unwrap_or(1);
    tried.extend(close_to(best, (best / REFINING_STEPS).max(1)));
    // The largest buffer with about as many scans of S, counted as the model does.
    let (outer_pages, inner_pages) =
        (question.outer.stats.page_count, question.inner.stats.page_count.max(1));
    let pages_read = |pages: u64| cost(pages).map_or(u64::MAX, |(_, estimate)| estimate.pages_read);
    let scan_count = pages_read(best).saturating_sub(outer_pages) / inner_pages;
    let first = scan_count.saturating_sub(SCAN_COUNT_REACH).max(1);
    for count in first..=scan_count.saturating_add(SCAN_COUNT_REACH) {
        let most = count
            .saturating_mul(inner_pages)
            .saturating_add(outer_pages)
            .saturating_add(inner_pages / 2);
        tried.push(last_where(largest, |pages| pages_read(pages) <= most));
        // Buffers whose blocks tile so many chunks, with and without reading ahead.
        for blocks in 1..=BLOCKS_PER_CHUNK_MAX {
            let block_pages = outer_pages.div_ceil(count.saturating_mul(blocks));
            tried.extend([block_pages, block_pages.saturating_mul(2)]);
        }
    }
    let best = tried.iter().copied().min_by_key(time).unwrap_or(1);
    tried.extend(close_to(best, 1));
    tried.retain(|&pages| pages <= largest);
    tried.sort_unstable();
    tried.dedup();
    Ok(tried.into_iter().filter_map(cost).collect())
}

fn of_sort_merge(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: u64,
) -> Result<Candidates, Rejection> {
    let sizes = question.sort_sizes(model.convention);
    let times = model.device.request_times(question.inner.stats.page_bytes);
    let mut tried = Vec::new();
    for seeks in [RunSeeks::Charged, RunSeeks::Free] {
        let form = SortMerge::allocate(&sizes, memory, &times, seeks).map_err(needed)?;
        tried.push(form.input_pages);
        tried.extend(around(form.input_pages, memory / 2));
    }
    let candidates = tried.into_iter().filter_map(|input_pages| {
        let formation = RunFormation::default();
        let parts = SortMerge::with_input(&sizes, memory, input_pages, formation).ok()?;
        Some((Division::SortMerge(parts), sort_merge(model, question, memory, &parts)))
    });
    Ok(candidates.collect())
}

fn of_grace_hash(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: u64,
) -> Result<Candidates, Rejection> {
    let sizes = question.sizes(model.convention);
    let rule = GraceHash::allocate(&sizes, memory).map_err(needed)?.bucket_count;
    let mut tried = vec![rule, rule.saturating_sub(1), rule.saturating_add(1)];
    tried.extend(around(rule, memory - 1));
    let candidates = tried.into_iter().filter_map(|bucket_count| {
        let parts = GraceHash::with_buckets(&sizes, memory, bucket_count).ok()?;
        Some((Division::GraceHash(parts), grace_hash(model, question, memory, &parts)))
    });
    Ok(candidates.collect())
}

pub(super) fn of_hybrid_hash(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: u64,
) -> Result<Candidates, Rejection> {
    let sizes: JoinSizes = question.sizes(model.convention);
    let paddings = match model.convention {
        Convention::AsInPaper { .. } => PADDINGS_PPM.get(..1).unwrap_or_default(),
        Convention::AsBuilt { .. } => &PADDINGS_PPM,
    };
    let cost = |padding_ppm: u64, buffer_pages: Option<u64>| {
        let padded = sizes.outer_fudge.ppm().saturating_mul(padding_ppm) / 1_000_000;
        let sizes = JoinSizes { outer_fudge: Fudge::from_ppm(padded), ..sizes };
        let parts = match buffer_pages {
            Some(pages) => HybridHash::with_buffer(&sizes, memory, pages),
            None => HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM),
        }?;
        let estimate = hybrid_hash(model, question, memory, &parts);
        Ok((Division::HybridHash(parts), estimate))
    };
    let form = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).map_err(needed)?;
    // Two settings are searched one after the other: the best size of the buffer with the middle
    // padding, then the best padding with that buffer.
    let padding_ppm = paddings[paddings.len() / 2];
    let time = |pages: &u64| {
        cost(padding_ppm, Some(*pages)).map_or(Nanos(u64::MAX), |(_, found)| model.time(&found))
    };
    let least = scan_pages_min(question);
    let buffers = around(form.input_pages, memory / 2).chain([form.input_pages, least, 4 * least]);
    let buffers = buffers.filter(|pages| (least..memory.saturating_sub(1)).contains(pages));
    let best = buffers.min_by_key(time).unwrap_or(form.input_pages);
    let mut candidates = vec![cost(paddings[0], None).map_err(needed)?];
    for padding_ppm in paddings {
        let close = [best, best.saturating_sub(best / 6), best + best / 6];
        candidates
            .extend(close.into_iter().filter_map(|pages| cost(*padding_ppm, Some(pages)).ok()));
    }
    Ok(candidates)
}

fn of_index_nested_loops(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    budget: &Budget,
) -> Result<Candidates, Rejection> {
    let Budget { memory_pages: memory, pool_pages, .. } = *budget;
    if memory < 3 {
        return Err(too_little(3));
    }
    if question.inner.index.is_none() {
        return Err(Rejection::NoIndex);
    }
    let input_pages = (memory / 4).clamp(1, INDEX_INPUT_PAGES_MAX).min(memory - 2);
    let rest = memory - input_pages;
    // A batch and the rows that it finds are full at the same time.
    let partners = question.pair_count / question.outer.stats.tuple_count.max(1);
    let outer_bytes = noted_bytes(&question.outer);
    let inner_bytes = noted_bytes(&question.inner).saturating_mul(partners.max(1));
    let shared = part_of(rest, outer_bytes, outer_bytes.saturating_add(inner_bytes));
    let mut candidates = Vec::new();
    for batch_pages in [shared, rest / 2] {
        let batch_pages = batch_pages.clamp(1, rest - 1);
        let inner_pages = rest - batch_pages;
        let parts = IndexMemory { input_pages, batch_pages, inner_pages, pool_pages };
        for (access, order) in [
            (OuterAccess::TableScan, FetchOrder::Address),
            (OuterAccess::TableScan, FetchOrder::Key),
            (OuterAccess::KeyOrder, FetchOrder::Key),
            (OuterAccess::AddressOrder, FetchOrder::Key),
        ] {
            let is_opened = access == OuterAccess::TableScan || question.outer.is_key_range;
            if let Some(estimate) = index_nested_loops(model, question, access, &parts, order)
                && is_opened
            {
                let division = Division::IndexNestedLoops { access, memory: parts, order };
                candidates.push((division, estimate));
            }
        }
    }
    Ok(candidates)
}

fn of_index_sort_merge(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    budget: &Budget,
) -> Result<Candidates, Rejection> {
    let Budget { memory_pages: memory, pool_pages, .. } = *budget;
    if question.outer.index.is_none() || question.inner.index.is_none() {
        return Err(Rejection::NoIndex);
    }
    if memory < 4 {
        return Err(too_little(4));
    }
    let bytes = |side: &JoinSide| noted_bytes(side).saturating_mul(side.stats.tuple_count);
    let (outer, inner) = (bytes(&question.outer), bytes(&question.inner));
    let shared = part_of(memory, outer, outer.saturating_add(inner));
    let candidates =
        [shared, shared.saturating_mul(2), memory / 2].into_iter().filter_map(|pages| {
            let outer_pages = pages.clamp(2, memory - 2);
            let parts =
                IndexMergeMemory { outer_pages, inner_pages: memory - outer_pages, pool_pages };
            let estimate = index_sort_merge(model, question, &parts)?;
            Some((Division::IndexSortMerge(parts), estimate))
        });
    Ok(candidates.collect())
}

/// Bytes of a tuple that an index joins notes, about.
fn noted_bytes(side: &JoinSide) -> u64 {
    side.stats.cell_bytes / side.stats.tuple_count.max(1) + NOTED_ROW_BYTES
}

/// `whole * numerator / denominator`.
fn part_of(whole: u64, numerator: u64, denominator: u64) -> u64 {
    let part = u128::from(whole) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(part).unwrap_or(whole)
}

/// Pages of two blocks each of which takes [`TRANSFER_SHARE`] times as long to transfer as to begin. Longer
/// ones gain next to nothing, and cost memory that has to be touched and a first block that nobody reads
/// ahead.
fn long_blocks(times: &RequestTimes) -> u64 {
    let begin_ps = times.seek_ps.saturating_add(times.latency_ps);
    let block_pages = begin_ps.saturating_mul(TRANSFER_SHARE) / times.page_transfer_ps.max(1);
    block_pages.saturating_mul(2).max(2)
}

/// Values in steps of about the fourth root of two, from a sixteenth of one to sixteen times it.
fn around(middle: u64, largest: u64) -> impl Iterator<Item = u64> {
    const STEPS: [u64; 4] = [1000, 1189, 1414, 1682];
    (0..8_u32).flat_map(move |doubling| {
        STEPS.into_iter().filter_map(move |step| {
            let scaled = u128::from(middle) * u128::from(step) * (1 << doubling) / 16_000;
            let value = u64::try_from(scaled).unwrap_or(u64::MAX);
            (1..=largest).contains(&value).then_some(value)
        })
    })
}

/// Values on both sides of one, in steps.
fn close_to(middle: u64, step: u64) -> impl Iterator<Item = u64> {
    (1..=REFINING_STEPS / 4).flat_map(move |count| {
        [middle.saturating_sub(count * step), middle.saturating_add(count * step)]
    })
}

/// The largest value up to `largest` for which `holds`, if it holds up to there and nowhere behind; at least 1.
fn last_where(largest: u64, holds: impl Fn(u64) -> bool) -> u64 {
    let (mut low, mut high) = (1, largest.max(1));
    while low < high {
        let middle = high - (high - low) / 2;
        if holds(middle) {
            low = middle;
        } else {
            high = middle - 1;
        }
    }
    low
}

pub(super) const fn too_little(needed_pages: u64) -> Rejection {
    Rejection::TooLittleMemory { needed_pages }
}

/// What an allocation says when it refuses.
fn needed(error: QueryError) -> Rejection {
    match error {
        QueryError::TooLittleMemory { needed_pages, .. } => too_little(needed_pages),
        other => unreachable!("an allocation refuses for want of memory only: {other}"),
    }
}
