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
//!   sorted    runs of replacement selection, by length      merges   the merges that the sort makes
//! ```
//!
//! 1. Every decision is made with the constants of the operator, which lie there.

pub(super) mod buckets;
mod hashed;
pub(super) mod hybrid;
pub(super) mod lookups;
mod merges;
mod pool;
pub(super) mod sort_merge;
mod sorted;
mod space;

use super::{CostModel, Pattern, Tally};

/// Pages of a buffer that one request moves.
const fn block_pages(model: &CostModel<'_>, buffer_pages: u64) -> u64 {
    model.block_pages(buffer_pages)
}

/// Reads and writes that take turns: each write moves the head, and each read that follows one.
fn seek_in_turns(tally: &mut Tally<'_>, reads: u64, writes: u64) {
    let followers = super::scan::distinct_pages(reads, writes);
    tally.seek(writes + followers + u64::from(reads > 0));
}

/// Reads something that was spilled, through a buffer of so many pages.
fn read_spilled(tally: &mut Tally<'_>, pages: u64, buffer_pages: u64) {
    let requests = pages.div_ceil(block_pages(tally.model, buffer_pages));
    tally.read_requests(Pattern::Sequential, requests, pages);
    tally.seek(u64::from(requests > 0));
}
