//! Sort-merge by several workers: both sides sorted as [`crate::sort::workers`] does it, then each worker joins a
//! range of keys, which is the same on both sides.
//!
//! ```text
//!   parts of the smaller side ─► runs, rows ┐          ┌ range 0 of both sides ─► merge ─► pairs
//!   parts of the larger side  ─► runs, rows ┴ exchange ┴ range 1 of both sides ─► merge ─► pairs
//! ```
//!
//! 1. Rows of equal keys meet in one worker; a row without a partner is in one range, too.

use super::{PairSink, SHARE_PAGES_MIN};
use crate::join::roles::Roles;
use crate::join::sort_merge::{Reserve, Settings, SortMerge};
use crate::join::{Join, JoinStream, Side};
use crate::sort::WORKSPACE_PAGES_MIN;
use crate::sort::runs::Sorted;
use crate::sort::workers::Sorter;
use crate::sort::workspace::ROW_OVERHEAD_BYTES;
use crate::workers::{Morsels, run_workers};
use crate::{Execution, QueryError};

const OPERATOR: &str = "sort-merge by several workers";
/// Pages of a share that are no work space, beside input and output: for rows of one key, while all others stay.
const GROUP_PAGES: u32 = 6;

/// How the memory of a sort-merge join is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MergeSettings {
    /// What one worker does with its share, but for fences.
    share: Settings,
    /// Pages of the fences of a side.
    fence_pages: u32,
}

impl MergeSettings {
    /// What settings for one worker come to for so many; `None` where there is too little memory.
    pub(crate) fn of(settings: &Settings, join: &Join<'_>, worker_count: usize) -> Option<Self> {
        let least = join.left.relation.scan_pages_min().max(join.right.relation.scan_pages_min());
        let (mut sort, fence_pages) = settings.sort.share(worker_count, least, 2)?;
        let share_pages = sort.memory_pages();
        let group_pages = (settings.group_pages / nandu_base::to_u32(worker_count as u64)).max(1);
        sort.workspace_pages = sort.workspace_pages.checked_sub(GROUP_PAGES)?;
        sort.output_pages += GROUP_PAGES;
        // A block for a run of each side of each worker.
        let is_enough = u64::from(share_pages) >= SHARE_PAGES_MIN
            && Reserve::run_limit(share_pages, group_pages) as usize > 2 * worker_count
            && sort.workspace_pages >= WORKSPACE_PAGES_MIN;
        is_enough
            .then_some(Self { share: Settings { sort, group_pages, ..*settings }, fence_pages })
    }

    /// Does the join, with a worker for each sink.
    ///
    /// # Errors
    /// As [`JoinStream::advance`], and what a sink returns.
    pub(super) fn run<S: PairSink>(
        &self,
        execution: &Execution,
        join: Join<'_>,
        sinks: &mut [S],
    ) -> Result<(), QueryError> {
        let Self { share: Settings { sort: share, group_pages, .. }, fence_pages } = *self;
        let sides = [join.left, join.right]
            .map(|input| Morsels::of_relation(input.relation, sinks.len(), share.input_pages));
        run_workers(execution, sinks, |execution, barrier, number, sink| {
            let _fences = execution.take(OPERATOR, 2 * fence_pages)?;
            let sorter = Sorter { execution, barrier, number, share, fence_pages };
            let sorted = sort_both(&sorter, &join, &sides)?;
            let run_limit = |free_pages| Reserve::run_limit(free_pages, group_pages);
            let (all, memory) = sorter.exchange(sorted, run_limit)?;
            let kept_pages: u32 = memory.iter().map(crate::execution::Memory::pages).sum();
            let free_pages = share.memory_pages() - kept_pages;
            let range = (all.sides(), all.range(number));
            let mut stream = SortMerge::of_range(execution, join, self.share, range, free_pages)?;
            while stream.advance()? {
                sink.take(stream.batch())?;
            }
            drop(stream);
            sorter.release(&all)
        })
    }
}

/// Sorts this worker's parts of both sides, left and right: the smaller side first, which stays in memory if it
/// leaves enough of that to the other.
fn sort_both<'x>(
    sorter: &Sorter<'x>,
    join: &Join<'x>,
    sides: &[Morsels; 2],
) -> Result<[(Sorted<'x>, &'x crate::Key); 2], QueryError> {
    let form = |side: Side, kept_pages: u32| {
        let input = join.input(side);
        let morsels = &sides[usize::from(side == Side::Right)];
        let keeps_nulls = Roles::of(join.join_type, side).keeps_null_keys();
        sorter.form((input.relation, morsels, input.key), kept_pages, keeps_nulls)
    };
    let smaller = join.smaller_side();
    let mut small = form(smaller, 0)?;
    let size = join.input(smaller.other()).relation.size();
    let other_bytes = size.cell_bytes + size.tuple_count * ROW_OVERHEAD_BYTES as u64;
    let page_bytes = sorter.execution.page_bytes() as u64;
    let share_bytes = other_bytes / sorter.barrier.worker_count() as u64;
    let rest_pages = sorter.share.workspace_pages.saturating_sub(small.pages());
    // Parts are not equal: a worker may get an eighth more than its share.
    let fits = share_bytes + share_bytes / 8 < u64::from(rest_pages) * page_bytes;
    if small.pages() > sorter.share.workspace_pages / 2 && !fits {
        small = sorter.spill(small, join.input(smaller).key)?;
    }
    let large = form(smaller.other(), small.pages())?;
    let small = (small, join.input(smaller).key);
    let large = (large, join.input(smaller.other()).key);
    Ok(if smaller == Side::Left { [small, large] } else { [large, small] })
}
