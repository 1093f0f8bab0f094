//! Joins as they are built here, followed step by step: which buckets there are and what becomes of each,
//! which runs, which merges. The formulas of the paper count as if parts had no ends and were all equal; with
//! buffers of a few pages that is wrong by half.
//!
//! ```text
//!   hashed    parts of a hash are not equal: eight likely sizes stand for all of them
//!   space     rows that a hash area or a sort's work space really holds
//!   buckets   cut, join in one piece, join in chunks, cut again
//!   hybrid    which pieces stay, by the rule of the operator
//!   lookups   index joins, drawn at random in small    pool     the buffer pool that they read through
//!   late      sorts of rows that are pushed
//!   sorted    runs of replacement selection, by length      merges   the merges that the sort makes
//! ```
//!
//! 1. Every decision is made with the constants of the operator, which lie there.

pub(super) mod buckets;
mod hashed;
pub(super) mod hybrid;
pub(super) mod late;
pub(super) mod lookups;
mod merges;
mod pool;
pub(super) mod sort_merge;
mod sorted;
mod space;

use super::{CostModel, Footprint, Restart, Streams, Tally};

/// Pages of a buffer that one request moves.
const fn block_pages(model: &CostModel<'_>, buffer_pages: u64) -> u64 {
    model.block_pages(buffer_pages)
}

/// How parts were written that are read now: so many side by side, through buffers of so many pages each.
#[derive(Clone, Copy, Debug)]
struct Written {
    count: u64,
    output_pages: u64,
}

/// Reads a part of what was spilled, through a buffer of so many pages.
fn read_spilled(tally: &mut Tally<'_>, part: &Footprint, written: Written, buffer_pages: u64) {
    let pages = part.stored_pages;
    let block_pages = block_pages(tally.model, buffer_pages);
    let requests = pages.div_ceil(block_pages);
    let streams = Streams { count: written.count, area_bytes: part.spill_file_bytes };
    let begin = spilled_restart(part, block_pages);
    tally.read_back(&streams, (requests, pages), written.output_pages, &begin);
}

/// A part that is read from its beginning, in requests of so many pages.
fn spilled_restart(part: &Footprint, block_pages: u64) -> Restart {
    let request_pages = block_pages.min(part.stored_pages);
    let run_length = part.stored_pages.div_ceil(block_pages.max(1));
    Restart { request_pages, run_length, area_bytes: part.spill_file_bytes }
}
