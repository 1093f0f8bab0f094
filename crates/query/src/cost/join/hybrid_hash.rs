//! Hybrid hash: as Grace hash, but WS / (F|R|) of both relations are joined in the first phase and never
//! written (S001 section 3.4).

use super::with_result;
use crate::allocation::HybridHash;
use crate::cost::{CostModel, Estimate, JoinQuestion, built};

/// The cost with such a division of so much memory.
#[must_use]
pub fn hybrid_hash(
    model: &CostModel<'_>,
    question: &JoinQuestion,
    memory_pages: u64,
    parts: &HybridHash,
) -> Estimate {
    let [outer, inner] = question.footprints();
    // Of those that are looked into one after the other, about the mean.
    let table_bytes = outer.memory_bytes / (parts.bucket_count + 1);
    let joined = built::hybrid::hybrid_hash(model, [&outer, &inner], memory_pages, parts);
    with_result(model, question, joined, Some(&outer.tables_by_key(table_bytes)))
}
