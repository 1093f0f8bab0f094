//! How each join is planned: one file for each, which says how it may divide its memory, what that costs and
//! writes, and how it is opened.
//!
//! ```text
//!   JoinKind ──► candidates: Vec<(its memory, Estimate)> ──► the planner's choice
//!                              │ most_written, time               │ open
//!                              ▼                                  ▼
//!                     is it within the write budget?         JoinStream
//! ```
//!
//! 1. What is opened takes no more memory than the plan says.
//! 2. A join whose kind is in the list of `kind.rs` is named nowhere else.

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

pub use index_nested_loops::IndexLoopsMemory;
pub use nested_loops::LoopsMemory;

use super::{Budget, ChunkRule, Indexes, Rejection};
use crate::cost::{CostModel, Estimate, JoinQuestion, JoinSide};
use crate::join::roles::{Alone, Roles};
use crate::join::workers::SharedJoin;
use crate::join::{Join, JoinStream, JoinType, Side};
use crate::{Execution, JoinKind, QueryError};
use nandu_base::Nanos;

/// Pages of a hash join of another type than inner: where a bucket does not fit, one says which rows of the side
/// that is looked up have met a partner.
const MARKING_HASH_PAGES_MIN: u64 = 4;
/// What a row that waits to be fetched takes besides, about.
const NOTED_ROW_BYTES: u64 = 100;

/// The memory of a join, divided, and what the join says of it.
pub(crate) trait JoinPlan {
    /// Whether several workers can divide it: [`Self::shared`].
    fn is_shared() -> bool
    where
        Self: Sized,
    {
        false
    }

    /// Whether the join does this type with this side as outer one.
    fn does(_join_type: JoinType, _outer: Side) -> bool
    where
        Self: Sized,
    {
        true
    }

    /// Whether it is tried with the sides as they are, swapped, or both. Where both are treated alike, once is
    /// enough.
    fn roles(_question: &JoinQuestion) -> &'static [bool]
    where
        Self: Sized,
    {
        &[false, true]
    }

    /// Divisions of the budget's memory that are worth a look, each with its cost; of equal ones the first is taken.
    ///
    /// # Errors
    /// Why there is none.
    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection>
    where
        Self: Sized;

    /// Whether the buffers are long enough for what they read, in so many pages of memory.
    fn scans_fit(&self, question: &JoinQuestion, memory_pages: u64) -> bool;

    /// How long it takes, where rows take as much memory as known or a little more.
    fn time(&self, model: &CostModel<'_>, _question: &JoinQuestion, known: &Estimate) -> Nanos {
        model.time(known)
    }

    /// What it writes for tables that are as large as they may be; none from a join that never writes.
    fn most_written(
        &self,
        model: &CostModel<'_>,
        larger: &JoinQuestion,
        memory_pages: u64,
    ) -> Option<MostWritten>;

    /// Into how many runs or buckets it writes, none if it never does; of each the last page is written though it
    /// is not full.
    fn part_count(&self) -> u64;

    /// Whether it can be opened with these indexes.
    fn is_opened_with(&self, _outer: Side, _indexes: Indexes<'_>) -> bool {
        true
    }

    /// Begins the join.
    ///
    /// # Errors
    /// If there is less memory, an index is missing, or it does not do the type of join with this side as outer one.
    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError>;

    /// Whether columns can be joined in its stead without making rows: all of it is a table that is looked up.
    fn joins_columns(&self) -> bool {
        false
    }

    /// What so many workers do, if it is something that they can divide.
    fn shared(&self, _opening: &Opening<'_>, _worker_count: usize) -> Option<SharedJoin> {
        None
    }
}

/// What a join may come to write.
pub(crate) struct MostWritten {
    /// Pages that are written.
    pub(crate) pages: u64,
    /// Whether keys that many rows have make it write more.
    pub(crate) grows_with_skew: bool,
}

/// What a join is opened with: all memory of the execution.
pub(crate) struct Opening<'x> {
    /// What it runs in.
    pub(crate) execution: &'x Execution,
    /// What is joined.
    pub(crate) join: Join<'x>,
    /// The side that the plan calls outer.
    pub(crate) outer: Side,
    /// The indexes on the join key.
    pub(crate) indexes: Indexes<'x>,
    /// Where a chunk ends.
    pub(crate) rule: ChunkRule,
}

/// Whether a join with this outer side never has to hand on rows of the other side alone: joins that look these up, or
/// meet them again for each chunk, do not know which of them nobody met.
fn inner_is_never_alone(join_type: JoinType, outer: Side) -> bool {
    Roles::of(join_type, outer.other()).build == Alone::Never
}

/// The least memory that scans of both sides take, one at a time.
pub(super) fn scan_pages_min(question: &JoinQuestion) -> u64 {
    question.outer.stats.scan_pages_min().max(question.inner.stats.scan_pages_min())
}

/// Refuses a hash join that has no page to mark rows in, if it has to.
fn check_marking(question: &JoinQuestion, memory_pages: u64) -> Result<(), Rejection> {
    if question.join_type != JoinType::Inner && memory_pages < MARKING_HASH_PAGES_MIN {
        return Err(too_little(MARKING_HASH_PAGES_MIN));
    }
    Ok(())
}

/// Bytes of a tuple that an index join notes, about.
fn noted_bytes(side: &JoinSide) -> u64 {
    side.stats.cell_bytes / side.stats.tuple_count.max(1) + NOTED_ROW_BYTES
}

/// `whole * numerator / denominator`.
fn part_of(whole: u64, numerator: u64, denominator: u64) -> u64 {
    let part = u128::from(whole) * u128::from(numerator) / u128::from(denominator.max(1));
    u64::try_from(part).unwrap_or(whole)
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

/// A join by index that has none.
fn without_index(kind: JoinKind) -> QueryError {
    QueryError::Invalid { what: format!("{kind} needs its index") }
}

fn narrow(pages: u64) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}
