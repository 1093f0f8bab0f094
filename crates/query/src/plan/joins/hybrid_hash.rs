//! Hybrid hash: the size of its buffers and how large its tables are thought are searched one after the other.

use super::{
    JoinPlan, MostWritten, Opening, around, check_marking, narrow, needed, scan_pages_min,
};
use crate::allocation::{Fudge, HYBRID_BUFFER_PPM, HybridHash, JoinSizes};
use crate::cost::join::hybrid_hash;
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::join::hybrid_hash::{BuiltSide, Settings};
use crate::join::workers::{HashSettings, SharedJoin};
use crate::join::{self, Join, JoinStream, Side};
use crate::plan::{Budget, Rejection};
use crate::{Execution, QueryError};
use nandu_base::Nanos;

/// By how much buckets are thought larger than they are, so that their tables fit with what segments leave unused
/// and with chance; the first is not at all.
const PADDINGS_PPM: [u64; 4] = [1_000_000, 1_060_000, 1_130_000, 1_250_000];

impl JoinPlan for HybridHash {
    fn is_shared() -> bool {
        true
    }

    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection> {
        check_marking(question, budget.memory_pages)?;
        candidates(model, question, budget.memory_pages)
    }

    fn scans_fit(&self, question: &JoinQuestion, _memory_pages: u64) -> bool {
        self.input_pages >= scan_pages_min(question)
    }

    fn most_written(
        &self,
        model: &CostModel<'_>,
        larger: &JoinQuestion,
        memory_pages: u64,
    ) -> Option<MostWritten> {
        let pages = hybrid_hash(model, larger, memory_pages, self).pages_written;
        Some(MostWritten { pages, grows_with_skew: true })
    }

    fn part_count(&self) -> u64 {
        self.bucket_count
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, outer, .. } = *opening;
        let size = join.input(outer).relation.size();
        let built = BuiltSide { tuple_count: size.tuple_count, cell_bytes: size.cell_bytes };
        let memory = (execution.limits().memory_pages, execution.page_bytes() as u64);
        let settings = Settings::of(self, built, outer, memory);
        Ok(Box::new(join::HybridHash::new(execution, join, settings)?))
    }

    fn joins_columns(&self) -> bool {
        true
    }

    fn shared(&self, opening: &Opening<'_>, worker_count: usize) -> Option<SharedJoin> {
        let Opening { execution, join, outer, .. } = opening;
        let memory = (execution.limits().memory_pages, execution.page_bytes() as u64);
        Some(SharedJoin::Hash(HashSettings::of(self, join, *outer, memory, worker_count)))
    }
}

/// Divisions of so many pages, each with its cost.
pub(super) fn candidates(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory: u64,
) -> Result<Vec<(HybridHash, Estimate)>, Rejection> {
    let sizes: JoinSizes = question.sizes();
    let cost = |padding_ppm: u64, buffer_pages: Option<u64>| {
        let padded = sizes.outer_fudge.ppm().saturating_mul(padding_ppm) / 1_000_000;
        let sizes = JoinSizes { outer_fudge: Fudge::from_ppm(padded), ..sizes };
        let parts = match buffer_pages {
            Some(pages) => HybridHash::with_buffer(&sizes, memory, pages),
            None => HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM),
        }?;
        let estimate = hybrid_hash(model, question, memory, &parts);
        Ok((parts, estimate))
    };
    let form = HybridHash::allocate(&sizes, memory, HYBRID_BUFFER_PPM).map_err(needed)?;
    // Two settings are searched one after the other: the best size of the buffer with the middle
    // padding, then the best padding with that buffer.
    let padding_ppm = PADDINGS_PPM[PADDINGS_PPM.len() / 2];
    let time = |pages: &u64| {
        cost(padding_ppm, Some(*pages)).map_or(Nanos(u64::MAX), |(_, found)| model.time(&found))
    };
    let least = scan_pages_min(question);
    let buffers = around(form.input_pages, memory / 2).chain([form.input_pages, least, 4 * least]);
    let buffers = buffers.filter(|pages| (least..memory.saturating_sub(1)).contains(pages));
    let best = buffers.min_by_key(time).unwrap_or(form.input_pages);
    let mut candidates = vec![cost(PADDINGS_PPM[0], None).map_err(needed)?];
    for padding_ppm in PADDINGS_PPM {
        let close = [best, best.saturating_sub(best / 6), best + best / 6];
        candidates
            .extend(close.into_iter().filter_map(|pages| cost(padding_ppm, Some(pages)).ok()));
    }
    Ok(candidates)
}

/// Of the kernel of a late join, in so many pages.
pub(super) fn kernel_settings(
    (pages, parts): (u64, &HybridHash),
    join: Join<'_>,
    build: Side,
    execution: &Execution,
) -> Settings {
    let relation = join.input(build).relation;
    let size = relation.late().map_or_else(|| relation.size(), |late| late.keys.size());
    let built = BuiltSide { tuple_count: size.tuple_count, cell_bytes: size.cell_bytes };
    let memory = (narrow(pages), execution.page_bytes() as u64);
    Settings::of(parts, built, build, memory)
}
