//! What each join costs with a given division of memory: one file for each, after the counts of Haas and
//! others where S001 has the join, and after S000 chapter 5 where it uses an index.

mod block_nested_loops;
mod grace_hash;
mod hybrid_hash;
mod index_nested_loops;
mod index_sort_merge;
mod nested_loops;
mod sort_merge;

pub use block_nested_loops::block_nested_loops;
pub use grace_hash::grace_hash;
pub use hybrid_hash::hybrid_hash;
pub use index_nested_loops::{IndexMemory, OuterAccess, index_nested_loops};
pub use index_sort_merge::index_sort_merge;
pub use nested_loops::nested_loops;
pub use sort_merge::sort_merge;

use super::{CostModel, Footprint, JoinQuestion, Tally};

/// An estimate that is begun for a question.
fn begin<'a>(model: &'a CostModel<'a>, question: &JoinQuestion) -> Tally<'a> {
    let mut tally = Tally::new(model, question.outer.stats.page_bytes.max(1));
    tally.compute(question.result_count(), model.processor.copy_ns);
    tally
}

/// The processor's part of a hash table over `build` that all tuples of `probe` look into. Tuples are looked
/// at on their page, and those of R copied.
fn hash_and_probe(tally: &mut Tally<'_>, build: &Footprint, probe: &Footprint) {
    let processor = tally.model.processor;
    tally.compute(build.stored_tuples, processor.scan_ns);
    tally.compute(build.tuple_count, processor.copy_ns + processor.hash_build_ns);
    tally.compute(probe.stored_tuples, processor.scan_ns);
    tally.compute(probe.tuple_count, processor.hash_probe_ns);
}
