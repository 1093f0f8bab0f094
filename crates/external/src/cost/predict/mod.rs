//! What algorithms will ask for, by rule: before they ran, from the number of records and memory alone.
//! A model says what it will cost.
//!
//! ```text
//!   rule ──► flow: streams that are read and written side by side ──► request after request
//!                                                     Trace keeps them, Tally counts them ◄─┘
//! ```
//!
//! 1. Blocks lie one after the other, round the volumes, as in a store that is new: first what is read,
//!    then what is written. Room that comes free is not used again.
//! 2. Requests go on as they come: nothing grows with their number but what a sort keeps of its runs.
//! 3. A store that is to stop ends a prediction, too.
//! 4. What the processor does is told by phases, in each of which it works beside the requests. Of records
//!    those that are sorted count; others are handed on in a fraction of the time.

mod clustering;
mod flow;
mod pool;
mod ranking;
mod search;
mod sorting;

pub use clustering::cluster;
pub use pool::search_by_clusters;
pub use ranking::rank;
pub use search::{AssumedLevels, build_graph, search};

use super::{Requests, Work};
use crate::sort::RecordSize;
use crate::sort::bytes::sorted_bytes;
use crate::{ExternalError, Record, Store};
use flow::Pen;
use nandu_base::Rng;
use sorting::Sort;

/// A vector of `count` records is written.
///
/// # Errors
/// If a block holds no record, or the store is to stop.
pub fn write<R: Record>(
    store: &Store,
    count: u64,
    requests: &mut dyn Requests,
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let writing = pen.vector::<R>(count)?;
    pen.flow(&mut [], vec![writing], &mut Rng::new(0))
}

/// A vector of `count` records is scanned.
///
/// # Errors
/// If a block holds no record, or the store is to stop.
pub fn scan<R: Record>(
    store: &Store,
    count: u64,
    requests: &mut dyn Requests,
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let vector = pen.vector::<R>(count)?;
    pen.flow(&mut [vector.read()], Vec::new(), &mut Rng::new(0))
}

/// `read_count` of `count` records are read anywhere, through one block of memory.
///
/// # Errors
/// If a block holds no record, or the store is to stop.
pub fn read_anywhere<R: Record>(
    store: &Store,
    count: u64,
    read_count: u64,
    rng: &mut Rng,
    requests: &mut dyn Requests,
) -> Result<(), ExternalError> {
    let blocks = count.div_ceil(store.per_block::<R>()?).max(1);
    let mut pen = Pen::new(store, requests);
    let mut at_hand = None;
    for _ in 0..read_count {
        let block = rng.below(blocks);
        if at_hand != Some(block) {
            pen.note(false, block, 1)?;
        }
        at_hand = Some(block);
    }
    Ok(())
}

/// A vector of `count` records is sorted into another one, by a sort of `bytes` of memory. Which run
/// a merge asks next is drawn.
///
/// # Errors
/// If memory is too little for a sort, or the store is to stop.
pub fn sort<R: Record>(
    store: &Store,
    count: u64,
    bytes: u64,
    rng: &mut Rng,
    requests: &mut dyn Requests,
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let input = pen.vector::<R>(count)?;
    let (sort, runs) = Sort::begin::<R>(&mut pen, count, bytes)?;
    // What is sorted in memory is read all the same.
    pen.flow(&mut [input.read()], vec![runs], rng)?;
    let (sorted, _) = sort.finish(&mut pen, rng)?;
    let result = pen.vector::<R>(count)?;
    pen.flow(&mut [sorted], vec![result], rng)
}

/// The same of records that come and go as streams, from elsewhere: runs alone are written and read.
///
/// # Errors
/// If memory is too little for a sort, or the store is to stop.
pub fn sort_of_stream<R: Record>(
    store: &Store,
    count: u64,
    bytes: u64,
    rng: &mut Rng,
    requests: &mut dyn Requests,
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let (sort, runs) = Sort::begin::<R>(&mut pen, count, bytes)?;
    pen.flow(&mut [], vec![runs], rng)?;
    let (sorted, _) = sort.finish(&mut pen, rng)?;
    pen.flow(&mut [sorted], Vec::new(), rng)
}

/// The same of a [`ByteSorter`](crate::sort::bytes::ByteSorter), of records of so many bytes that come
/// from a file and go to one: with what the processor does, in three phases.
///
/// # Errors
/// If there is no sort of such records, and as [`sort_of_stream`].
pub fn sort_of_bytes(
    store: &Store,
    record_bytes: usize,
    count: u64,
    bytes: u64,
    (rng, requests): (&mut Rng, &mut dyn Requests),
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let size = RecordSize::stored(sorted_bytes(record_bytes)?);
    let (sort, runs) = Sort::begin_of(&mut pen, size, count, bytes)?;
    let all_bytes = count.saturating_mul(record_bytes as u64);
    pen.flow(&mut [], vec![runs], rng)?;
    pen.end_phase(Work { read_bytes: all_bytes, ..sort.put_in() });
    let (sorted, merging) = sort.finish(&mut pen, rng)?;
    pen.flow(&mut [sorted], Vec::new(), rng)?;
    pen.end_phase(Work { written_bytes: all_bytes, ..merging });
    Ok(())
}
