//! What an external sort costs: runs, merges of runs while there are more than buffers, and the
//! last merge, whose output goes on without being written.
//!
//! ```text
//!   I ──► tree in WS ──► O ──► runs ──► (merges of the smallest runs) ──► last merge ──►
//! ```

use super::{CostModel, Estimate, Footprint, Pattern, Tally, comparisons_among};
use crate::QueryError;
use crate::allocation::{JoinSizes, RunFormation, RunSeeks, SortMerge};
use crate::work::Work;
use nandu_external::sort::MergePlan;
use std::collections::BTreeMap;

/// How a sort of one relation divides so many pages. Where all fits beside a page to read and one to write
/// by, it has the work space that it needs, and the rest reads.
///
/// # Errors
/// [`QueryError::TooLittleMemory`] below 3 pages.
pub fn divide_sort(
    model: &CostModel<'_>,
    relation: &Footprint,
    memory_pages: u64,
    formation: RunFormation,
) -> Result<SortMerge, QueryError> {
    let fudge = relation.sort_fudge();
    let sizes = JoinSizes {
        outer_pages: 0,
        inner_pages: relation.stored_pages,
        outer_fudge: fudge,
        inner_fudge: fudge,
    };
    let times = model.device.request_times(relation.page_bytes);
    let closed_form = SortMerge::allocate(&sizes, memory_pages, &times, RunSeeks::Charged)?;
    let workspace_pages = relation.sort_pages().max(1);
    if let Some(input_pages) = memory_pages.checked_sub(workspace_pages + 1).filter(|it| *it > 0) {
        return Ok(SortMerge { input_pages, output_pages: 1, workspace_pages, ..closed_form });
    }
    SortMerge::with_input(&sizes, memory_pages, closed_form.input_pages, formation)
}

/// Sorts a relation once, with such a division of so much memory. What fits in the work space is not
/// written; else the last merge leaves a page for what comes out.
#[must_use]
pub fn external_sort(
    model: &CostModel<'_>,
    relation: &Footprint,
    memory_pages: u64,
    parts: &SortMerge,
) -> Estimate {
    if relation.sort_pages() <= parts.workspace_pages {
        return in_memory(model, relation, parts.input_pages);
    }
    let block_pages = memory_pages.saturating_sub(1).max(1);
    let merge = MergeMemory { memory_pages, run_count_max: block_pages };
    let mut estimate = form_runs(model, relation, parts, parts.inner_run_count);
    let (merges, run_count) = merge_runs(model, relation, parts.inner_run_count, &merge);
    estimate += merges;
    let last_pages = (block_pages / run_count.max(1)).max(1);
    estimate + merge_last(model, relation, run_count, last_pages)
}

/// Reads everything and sorts it where it is.
fn in_memory(model: &CostModel<'_>, relation: &Footprint, request_pages: u64) -> Estimate {
    let mut estimate = super::scan::table_scan(model, relation, request_pages);
    let comparisons = relation.tuple_count.saturating_mul(comparisons_among(relation.tuple_count));
    let sort_ns = model.processor.work_ns(Work::Compare, comparisons);
    estimate.cpu_ns = estimate.cpu_ns.saturating_add(sort_ns);
    estimate
}

/// Reads the relation through I and writes its runs through O.
fn form_runs(
    model: &CostModel<'_>,
    relation: &Footprint,
    parts: &SortMerge,
    run_count: u64,
) -> Estimate {
    let mut tally = Tally::new(model, relation.page_bytes);
    let reads = tally.scan(relation, parts.input_pages);
    let pages = pages_of_runs(relation, run_count);
    let writes = tally.requests_of_parts(relation.spilled_pages(), run_count, parts.output_pages);
    tally.write_requests(Pattern::Sequential, writes, pages);
    // Reads and writes take turns.
    tally.seek(writes + reads.min(writes + 1));
    tally.work(Work::Scan, relation.stored_tuples);
    let tree_size = relation.sorted_in(parts.workspace_pages);
    let comparisons = relation.tuple_count.saturating_mul(comparisons_among(tree_size));
    tally.work(Work::Compare, comparisons);
    tally.work(Work::Copy, relation.tuple_count);
    tally.estimate
}

/// What merges that write have.
#[derive(Clone, Copy, Debug)]
pub(super) struct MergeMemory {
    /// Pages for all buffers of such a merge.
    pub(super) memory_pages: u64,
    /// Runs that may be left for the last merge.
    pub(super) run_count_max: u64,
}

/// Merges the smallest runs until few enough are left. Answers how many that is.
pub(super) fn merge_runs(
    model: &CostModel<'_>,
    relation: &Footprint,
    run_count: u64,
    memory: &MergeMemory,
) -> (Estimate, u64) {
    let mut tally = Tally::new(model, relation.page_bytes);
    let run_pages = relation.spilled_pages().div_ceil(run_count.max(1)).max(1);
    let fan_in_max = memory.memory_pages.saturating_sub(1).max(2);
    let left = memory.run_count_max.max(1);
    let plan = MergePlan { fan_in: fan_in_max, last_fan_in: left };
    let mut runs = BTreeMap::from([(run_pages, run_count)]);
    let mut total = run_count;
    while let Some(fan_in) = plan.next_merge(total) {
        let merges_max = if fan_in == fan_in_max { (total - left) / (fan_in - 1) } else { 1 };
        let (merges, pages) = take_smallest(&mut runs, fan_in, merges_max);
        let buffer_pages = (memory.memory_pages / (fan_in + 1)).max(1);
        let requests = pages.div_ceil(buffer_pages).saturating_mul(merges);
        let all_pages = pages.saturating_mul(merges);
        tally.read_requests(Pattern::Random, requests, all_pages);
        tally.write_requests(Pattern::Sequential, requests, all_pages);
        tally.seek(requests.saturating_mul(2));
        let tuples = super::scale_up(relation.tuple_count, all_pages, relation.spilled_pages());
        let comparisons = tuples.saturating_mul(comparisons_among(fan_in));
        tally.work(Work::Compare, comparisons);
        tally.work(Work::Copy, tuples);
        tally.work(Work::Scan, tuples);
        *runs.entry(pages).or_insert(0) += merges;
        total -= merges * (fan_in - 1);
    }
    // What the runs that are gone had beyond their full pages was read as well.
    let ends = pages_of_runs(relation, run_count) - pages_of_runs(relation, total);
    tally.read_requests(Pattern::Random, 0, ends);
    (tally.estimate, total)
}

/// Reads all runs side by side, `merge_pages` of one at a time.
fn merge_last(
    model: &CostModel<'_>,
    relation: &Footprint,
    run_count: u64,
    merge_pages: u64,
) -> Estimate {
    let mut tally = Tally::new(model, relation.page_bytes);
    let pages = pages_of_runs(relation, run_count);
    let requests = tally.requests_of_parts(relation.spilled_pages(), run_count, merge_pages);
    tally.read_requests(Pattern::Random, requests, pages);
    tally.seek(requests);
    let comparisons = relation.tuple_count.saturating_mul(comparisons_among(run_count));
    tally.work(Work::Compare, comparisons);
    tally.work(Work::Scan, relation.tuple_count);
    tally.estimate
}

/// Pages of so many runs together. Each ends within a page.
const fn pages_of_runs(relation: &Footprint, run_count: u64) -> u64 {
    relation.spilled_pages().saturating_add(run_count / 2)
}

/// Takes the smallest runs for a merge, and for as many equal ones as there are, up to `merges_max`. Answers
/// how many, and the pages of each.
fn take_smallest(runs: &mut BTreeMap<u64, u64>, fan_in: u64, merges_max: u64) -> (u64, u64) {
    if let Some(mut smallest) = runs.first_entry()
        && *smallest.get() >= fan_in
    {
        let pages = smallest.key().saturating_mul(fan_in);
        let merges = (*smallest.get() / fan_in).min(merges_max).max(1);
        *smallest.get_mut() -= merges * fan_in;
        if *smallest.get() == 0 {
            smallest.remove();
        }
        return (merges, pages);
    }
    let (mut wanted, mut pages) = (fan_in, 0_u64);
    while wanted > 0
        && let Some(mut smallest) = runs.first_entry()
    {
        let count = wanted.min(*smallest.get());
        pages = pages.saturating_add(smallest.key().saturating_mul(count));
        wanted -= count;
        *smallest.get_mut() -= count;
        if *smallest.get() == 0 {
            smallest.remove();
        }
    }
    (1, pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_runs_go_first() {
        let mut runs = BTreeMap::from([(10, 3), (40, 5)]);
        assert_eq!(take_smallest(&mut runs, 4, 9), (1, 70));
        assert_eq!(runs, BTreeMap::from([(40, 4)]));
        assert_eq!(take_smallest(&mut runs, 2, 9), (2, 80));
        assert!(runs.is_empty());
    }
}
