//! What each join costs with a given division of memory, as it is built here: one file for each.
//! What S001 counts for its four is in `lab`; a range of keys is estimated after S000 chapter 5.

mod block_nested_loops;
mod flash_join;
mod grace_hash;
mod hybrid_hash;
mod index_nested_loops;
mod index_sort_merge;
mod late;
mod nested_loops;
mod rare_join;
mod sort_merge;

pub use block_nested_loops::block_nested_loops;
pub use flash_join::{FlashMemory, flash_join};
pub use grace_hash::grace_hash;
pub use hybrid_hash::hybrid_hash;
pub use index_nested_loops::{IndexMemory, OuterAccess, index_nested_loops};
pub use index_sort_merge::{IndexMergeMemory, index_sort_merge};
pub use late::kernel_question;
pub use nested_loops::nested_loops;
pub use rare_join::{RareMemory, rare_join};
pub use sort_merge::sort_merge;

use super::{CostModel, Estimate, Footprint, HashTables, JoinQuestion, Tally};
use crate::work::Work;

/// An estimate that is begun with what comes out of a question.
fn begin<'a>(model: &'a CostModel<'a>, question: &JoinQuestion) -> Tally<'a> {
    let mut tally = Tally::new(model, question.outer.stats.page_bytes.max(1));
    tally.work(Work::Emit, question.result_count());
    tally
}

/// Whether an index join is followed step by step: as the operators do it, over whole indexes.
const fn is_followed(question: &JoinQuestion) -> bool {
    !question.outer.is_key_range && !question.inner.is_key_range
}

/// All tuples of `probe` look into a hash table.
pub(super) fn probe_all(tally: &mut Tally<'_>, probe: &Footprint) {
    tally.work(Work::Scan, probe.stored_tuples);
    tally.work(Work::Probe, probe.tuple_count);
}

/// An estimate with what comes out of it, from hash tables if there are any: rows are handed on while the device
/// works, as far as it had longer to.
fn with_result(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    joined: Estimate,
    tables: Option<&HashTables>,
) -> Estimate {
    let mut result = Tally::new(model, question.outer.stats.page_bytes.max(1));
    match tables {
        Some(tables) => result.emit(question.result_count(), tables),
        None => result.work(Work::Emit, question.result_count()),
    }
    let mut result = result.estimate;
    if model.reads_ahead {
        let idle_ns = joined.io_ns.saturating_sub(joined.overlap_ns);
        result.overlap_ns = result.cpu_ns.min(idle_ns);
    }
    result + joined
}
