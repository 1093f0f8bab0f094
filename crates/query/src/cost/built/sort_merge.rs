//! Sort-merge as `join::sort_merge` does it: the smaller side first, which stays in memory where that helps.

use super::merges::{RunSet, merge_last, reduce, write_runs};
use super::sorted::{Runs, runs_of};
use super::space::SortSpace;
use crate::allocation::SortMerge;
use crate::cost::{CostModel, Estimate, Footprint, Restart, Tally, comparisons_among};
use crate::join::sort_merge::{Reserve, group_pages};
use crate::sort::workspace::ROW_OVERHEAD_BYTES;
use crate::work::Work;
use nandu_base::to_u32;

/// A side after the first pass.
#[derive(Debug)]
enum Sorted {
    /// In memory, in so many pages.
    Rows(u64),
    Runs(Runs),
}

impl Sorted {
    const fn pages(&self) -> u64 {
        match self {
            Self::Rows(pages) => *pages,
            Self::Runs(_) => 0,
        }
    }

    fn run_count(&self) -> u64 {
        match self {
            Self::Rows(_) => 0,
            Self::Runs(runs) => runs.values().sum(),
        }
    }
}

/// Sort-merge with such a division of so much memory.
pub(in crate::cost) fn sort_merge(
    model: &CostModel<'_>,
    [outer, inner]: [&Footprint; 2],
    memory_pages: u64,
    parts: &SortMerge,
) -> Estimate {
    let (small, large) =
        if outer.spilled_bytes <= inner.spilled_bytes { (outer, inner) } else { (inner, outer) };
    let mut estimate = Estimate::default();
    let (mut small_sorted, first) = form(model, small, parts, 0);
    estimate += first;
    let mut kept_pages = 0;
    if let Sorted::Rows(pages) = small_sorted {
        let large_bytes = large.spilled_bytes + large.tuple_count * ROW_OVERHEAD_BYTES as u64;
        let fits = |pages: u64| large_bytes < pages.saturating_mul(large.page_bytes);
        let is_kept = pages <= parts.workspace_pages / 2 && !fits(parts.workspace_pages);
        if is_kept || fits(parts.workspace_pages.saturating_sub(pages)) {
            kept_pages = pages;
        } else {
            estimate += spill(model, small, parts, &mut small_sorted);
        }
    }
    let (mut large_sorted, second) = form(model, large, parts, kept_pages);
    estimate += second;
    let groups = group_pages(narrow(memory_pages));
    let run_limit = |free: u64| u64::from(Reserve::run_limit(narrow(free), groups));
    for is_large in [true, false] {
        let run_count = small_sorted.run_count() + large_sorted.run_count();
        let kept_pages = small_sorted.pages() + large_sorted.pages();
        if run_count == 0 || run_count <= run_limit(memory_pages.saturating_sub(kept_pages)) {
            break;
        }
        let (side, sorted) =
            if is_large { (large, &mut large_sorted) } else { (small, &mut small_sorted) };
        if matches!(sorted, Sorted::Rows(_)) {
            estimate += spill(model, side, parts, sorted);
        }
    }
    let free_pages = memory_pages.saturating_sub(small_sorted.pages() + large_sorted.pages());
    let mut sets: Vec<RunSet<'_>> = Vec::with_capacity(2);
    for (side, sorted) in [(small, small_sorted), (large, large_sorted)] {
        if let Sorted::Runs(runs) = sorted {
            sets.push(RunSet { side, runs });
        }
    }
    let limit = run_limit(free_pages);
    let mut tally = Tally::new(model, outer.page_bytes);
    reduce(&mut tally, &mut sets, limit, free_pages);
    tally.end_phase();
    let run_count: u64 = sets.iter().map(RunSet::run_count).sum();
    let run_pages = limit.checked_div(run_count).unwrap_or(0).max(1);
    for set in &sets {
        merge_last(&mut tally, set, run_count, run_pages * set.run_count());
    }
    tally.work(Work::Compare, outer.tuple_count.saturating_add(inner.tuple_count));
    tally.end_phase();
    tally.estimate += estimate;
    tally.spill_file();
    tally.estimate
}

/// Reads one side, and sorts it in memory or into runs, with `kept_pages` of the work space in use.
fn form(
    model: &CostModel<'_>,
    side: &Footprint,
    parts: &SortMerge,
    kept_pages: u64,
) -> (Sorted, Estimate) {
    let mut tally = Tally::new(model, side.page_bytes);
    let reads = tally.scan(side, parts.input_pages);
    tally.work(Work::Scan, side.stored_tuples);
    let workspace_pages = parts.workspace_pages.saturating_sub(kept_pages).max(1);
    let space = SortSpace::new(side, workspace_pages.saturating_mul(side.page_bytes));
    let rows = space.row_count();
    let tree_size = rows.min(side.tuple_count);
    tally.work(Work::Compare, side.tuple_count.saturating_mul(comparisons_among(tree_size)));
    if side.tuple_count <= rows {
        tally.seek_in_turns(&Restart::of(model, side, parts.input_pages, reads), reads, 0);
        tally.end_phase();
        return (
            Sorted::Rows(space.bytes(side.tuple_count).div_ceil(side.page_bytes)),
            tally.estimate,
        );
    }
    let runs = runs_of(side, rows);
    let writes = write_runs(&mut tally, side, &runs, parts.output_pages);
    tally.seek_in_turns(&Restart::of(model, side, parts.input_pages, reads), reads, writes);
    tally.work(Work::Copy, side.tuple_count);
    tally.end_phase();
    (Sorted::Runs(runs), tally.estimate)
}

/// Writes a side that is in memory after all, as one run.
fn spill(
    model: &CostModel<'_>,
    side: &Footprint,
    parts: &SortMerge,
    sorted: &mut Sorted,
) -> Estimate {
    let mut tally = Tally::new(model, side.page_bytes);
    let runs = match side.tuple_count {
        0 => Runs::new(),
        _ => Runs::from([(side.spilled_bytes, 1)]),
    };
    let writes = write_runs(&mut tally, side, &runs, parts.output_pages);
    tally.seek(writes.min(1));
    tally.work(Work::Copy, side.tuple_count);
    tally.end_phase();
    *sorted = Sorted::Runs(runs);
    tally.estimate
}

fn narrow(pages: u64) -> u32 {
    to_u32(pages.min(u64::from(u32::MAX)))
}
