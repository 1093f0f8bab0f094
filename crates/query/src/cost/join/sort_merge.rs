//! Sort-merge: runs of both relations, then all runs merged at once (S001 section 3.2). Where there are more
//! runs than buffers, each side's runs are merged among themselves first, until its share is left.

use super::{begin, with_result};
use crate::allocation::SortMerge;
use crate::cost::sort::{MergeMemory, form_runs, merge_last, merge_runs};
use crate::cost::{Convention, CostModel, Estimate, JoinQuestion, built, scale_up};
use crate::work::Work;

/// The cost with such a division of so much memory.
#[must_use]
pub fn sort_merge(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory_pages: u64,
    parts: &SortMerge,
) -> Estimate {
    let [outer, inner] = question.footprints(model.convention);
    let mut estimate = begin(model, question).estimate;
    if matches!(model.convention, Convention::AsBuilt { .. }) {
        let joined = built::sort_merge::sort_merge(model, [&outer, &inner], memory_pages, parts);
        return with_result(model, question, joined, None);
    }
    let (outer_max, inner_max) = shares(memory_pages, parts);
    let mut left = 0;
    let mut last = Vec::with_capacity(2);
    for (relation, run_count, run_count_max) in
        [(&outer, parts.outer_run_count, outer_max), (&inner, parts.inner_run_count, inner_max)]
    {
        estimate += form_runs(model, relation, parts, run_count);
        let memory = MergeMemory { memory_pages, run_count_max };
        let (merges, run_count) = merge_runs(model, relation, run_count, &memory);
        estimate += merges;
        left += run_count;
        last.push((relation, run_count));
    }
    let merge_pages = (memory_pages / left.max(1)).max(1);
    for (relation, run_count) in last {
        estimate += merge_last(model, relation, run_count, merge_pages);
    }
    let compared = outer.tuple_count.saturating_add(inner.tuple_count);
    let compare_ns = model.processor.work_ns(Work::Compare, compared);
    estimate.cpu_ns = estimate.cpu_ns.saturating_add(compare_ns);
    estimate
}

/// How many runs of each side the last merge has buffers for: all where they fit, else by their number.
fn shares(memory_pages: u64, parts: &SortMerge) -> (u64, u64) {
    if parts.run_count() <= memory_pages {
        return (parts.outer_run_count, parts.inner_run_count);
    }
    let outer = scale_up(memory_pages, parts.outer_run_count, parts.run_count())
        .clamp(1, memory_pages.saturating_sub(1).max(1));
    (outer, memory_pages.saturating_sub(outer).max(1))
}
