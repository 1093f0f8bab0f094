//! Grace hash: both relations cut into buckets, which are joined pair by pair (S001 section 3.3).

use super::with_result;
use crate::allocation::GraceHash;
use crate::cost::{CostModel, Estimate, JoinQuestion, built};

/// The cost with such a division of so much memory.
#[must_use]
pub fn grace_hash(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory_pages: u64,
    parts: &GraceHash,
) -> Estimate {
    let [outer, inner] = question.footprints();
    let smaller = if inner.memory_bytes < outer.memory_bytes { &inner } else { &outer };
    let table_bytes = smaller.memory_bytes / parts.bucket_count.max(1);
    let joined = built::buckets::grace_hash(model, [&outer, &inner], memory_pages, parts);
    with_result(model, question, joined, Some(&smaller.tables_by_key(table_bytes)))
}
