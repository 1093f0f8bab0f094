//! Sort-merge: runs of both relations, then all runs merged at once (S001 section 3.2). Where there are more
//! runs than buffers, each side's runs are merged among themselves first, until its share is left.

use super::with_result;
use crate::allocation::SortMerge;
use crate::cost::{CostModel, Estimate, JoinQuestion, built};

/// The cost with such a division of so much memory.
#[must_use]
pub fn sort_merge(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory_pages: u64,
    parts: &SortMerge,
) -> Estimate {
    let [outer, inner] = question.footprints();
    let joined = built::sort_merge::sort_merge(model, [&outer, &inner], memory_pages, parts);
    with_result(model, question, joined, None)
}
