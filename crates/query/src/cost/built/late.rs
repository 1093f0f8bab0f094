//! Sorts of rows that another operator hands on, as `join::rare_join` has them.

use super::merges::{RunSet, merge_last, reduce, write_runs};
use super::sorted::runs_of;
use super::space::SortSpace;
use crate::cost::{CostModel, Estimate, Footprint, Tally, comparisons_among};
use crate::join::rare_join::output_pages;
use crate::work::Work;
use nandu_base::to_u32;

/// Sorts what is pushed in so many pages, and reads it in order.
pub(in crate::cost) fn sort_pushed(
    model: &CostModel<'_>,
    side: &Footprint,
    sort_pages: u64,
) -> Estimate {
    let mut tally = Tally::new(model, side.page_bytes);
    let output = u64::from(output_pages(to_u32(sort_pages.min(u64::from(u32::MAX)))));
    let workspace_bytes = sort_pages.saturating_sub(output).max(1).saturating_mul(side.page_bytes);
    let rows = SortSpace::new(side, workspace_bytes).row_count();
    let tree_size = rows.min(side.tuple_count);
    tally.work(Work::Compare, side.tuple_count.saturating_mul(comparisons_among(tree_size)));
    if side.tuple_count <= rows {
        return tally.estimate;
    }
    let runs = runs_of(side, rows);
    let writes = write_runs(&mut tally, side, &runs, output);
    tally.seek_of_writes(writes);
    tally.work(Work::Copy, side.tuple_count);
    tally.spill_file();
    let limit = sort_pages.saturating_sub(1).max(1);
    let mut sets = [RunSet { side, runs }];
    reduce(&mut tally, &mut sets, limit, sort_pages);
    tally.end_phase();
    let run_count = sets[0].run_count();
    merge_last(&mut tally, &sets[0], run_count, limit);
    tally.end_phase();
    tally.estimate
}
