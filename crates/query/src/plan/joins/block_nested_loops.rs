//! Block nested loops: the closed form of Haas and others, then what lies around it under the full model,
//! because a measured device is no line, and the operator here cuts chunks between blocks.

use super::{
    JoinPlan, MostWritten, Opening, around, inner_is_never_alone, narrow, needed, scan_pages_min,
};
use crate::QueryError;
use crate::allocation::{BlockNestedLoops, RequestTimes};
use crate::cost::join::block_nested_loops;
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::join::block_nested_loops::Settings;
use crate::join::workers::{ChunkSettings, SharedJoin};
use crate::join::{self, JoinStream, JoinType, Side};
use crate::plan::{Budget, ChunkRule, Rejection};
use nandu_base::Nanos;

/// So many times longer than to begin it a request may take to transfer.
const TRANSFER_SHARE: u64 = 100;
/// Numbers of scans that are tried below and above the best so far.
const SCAN_COUNT_REACH: u64 = 3;
/// Blocks of a chunk for which it is tried to have no rest.
const BLOCKS_PER_CHUNK_MAX: u64 = 12;
/// The hash area is thought smaller by this part: where a buffer leaves just enough for the last row of a chunk,
/// rows a little longer than those that were looked at cost another scan.
const AREA_SLACK_PART: u64 = 50;
/// Into how many steps a buffer is divided to look closely around it, a quarter of it to either side.
const REFINING_STEPS: u64 = 64;

impl JoinPlan for BlockNestedLoops {
    fn is_shared() -> bool {
        true
    }

    fn does(join_type: JoinType, outer: Side) -> bool {
        inner_is_never_alone(join_type, outer)
    }

    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection> {
        let memory = budget.memory_pages;
        let sizes = question.sizes();
        let times = model.device.request_times(question.inner.stats.page_bytes);
        let closed_form = Self::allocate(&sizes, memory, &times).map_err(needed)?;
        let whole_scans = Self::allocate_whole_scans(&sizes, memory, &times).map_err(needed)?;
        let cost = |inner_pages: u64| {
            let parts = Self::with_inner(&sizes, memory, inner_pages).ok()?;
            let estimate = block_nested_loops(model, question, &parts);
            Some((parts, estimate))
        };
        let largest = long_blocks(&times).min(memory - 1);
        let coarse = [closed_form.inner_pages, whole_scans.inner_pages, largest];
        let mut tried: Vec<u64> = coarse.into_iter().chain(around(coarse[0], largest)).collect();
        let time = |pages: &u64| cost(*pages).map(|(_, estimate)| model.time(&estimate));
        let best = tried.iter().copied().min_by_key(time).unwrap_or(1);
        tried.extend(close_to(best, (best / REFINING_STEPS).max(1)));
        // The largest buffer with about as many scans of S, counted as the model does.
        let (outer_pages, inner_pages) =
            (question.outer.stats.page_count, question.inner.stats.page_count.max(1));
        let pages_read =
            |pages: u64| cost(pages).map_or(u64::MAX, |(_, estimate)| estimate.pages_read);
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

    fn scans_fit(&self, question: &JoinQuestion, _memory_pages: u64) -> bool {
        self.inner_pages >= scan_pages_min(question)
    }

    fn time(&self, model: &CostModel<'_>, question: &JoinQuestion, known: &Estimate) -> Nanos {
        let outer_pages = self.outer_pages - self.outer_pages / AREA_SLACK_PART;
        let smaller = Self { outer_pages, ..*self };
        model.time(known).max(model.time(&block_nested_loops(model, question, &smaller)))
    }

    fn most_written(&self, _: &CostModel<'_>, _: &JoinQuestion, _: u64) -> Option<MostWritten> {
        None
    }

    fn part_count(&self) -> u64 {
        0
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, .. } = *opening;
        Ok(Box::new(join::BlockNestedLoops::new(execution, join, self.settings(opening))?))
    }

    fn joins_columns(&self) -> bool {
        true
    }

    fn shared(&self, opening: &Opening<'_>, worker_count: usize) -> Option<SharedJoin> {
        let settings = self.settings(opening);
        ChunkSettings::of(&settings, &opening.join, worker_count).map(SharedJoin::Chunks)
    }
}

impl BlockNestedLoops {
    fn settings(&self, opening: &Opening<'_>) -> Settings {
        Settings {
            outer: opening.outer,
            table_pages: narrow(self.outer_pages),
            input_pages: narrow(self.inner_pages),
            chunk_pages: match opening.rule {
                ChunkRule::ByBytes => None,
                ChunkRule::ByPages => Some(narrow(self.chunk_pages)),
            },
        }
    }
}

/// Pages of two blocks each of which takes [`TRANSFER_SHARE`] times as long to transfer as to begin. Longer
/// ones gain next to nothing, and cost memory that has to be touched and a first block that nobody reads
/// ahead.
fn long_blocks(times: &RequestTimes) -> u64 {
    let begin_ps = times.seek_ps.saturating_add(times.latency_ps);
    let block_pages = begin_ps.saturating_mul(TRANSFER_SHARE) / times.page_transfer_ps.max(1);
    block_pages.saturating_mul(2).max(2)
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
