//! What algorithms will ask for, by rule: before they ran, from the number of records and memory alone.
//! A model says what it will cost.
//!
//! Blocks lie one after the other, round the volumes, as in a store that is new: first what is read,
//! then what is written.

use super::{Access, Trace};
use crate::sort::Division;
use crate::{ExternalError, Record, Store};
use nandu_base::{Rng, to_index};

/// A trace that is being predicted.
struct Pen {
    trace: Trace,
    block_bytes: u32,
    volume_count: u64,
}

impl Pen {
    fn new(store: &Store) -> Self {
        Self {
            trace: Trace::default(),
            block_bytes: store.settings().block_bytes,
            volume_count: store.volume_count(),
        }
    }

    fn note(&mut self, is_write: bool, block: u64) {
        let volume = u32::try_from(block % self.volume_count).expect("volumes are few");
        let offset_bytes = block / self.volume_count * u64::from(self.block_bytes);
        let byte_count = self.block_bytes;
        self.trace.push(Access { is_write, volume, offset_bytes, byte_count });
    }
}

/// A vector of `count` records is written.
///
/// # Errors
/// If a block holds no record.
pub fn write<R: Record>(store: &Store, count: u64) -> Result<Trace, ExternalError> {
    let mut pen = Pen::new(store);
    (0..count.div_ceil(store.per_block::<R>()?)).for_each(|block| pen.note(true, block));
    Ok(pen.trace)
}

/// A vector of `count` records is scanned.
///
/// # Errors
/// If a block holds no record.
pub fn scan<R: Record>(store: &Store, count: u64) -> Result<Trace, ExternalError> {
    let mut pen = Pen::new(store);
    (0..count.div_ceil(store.per_block::<R>()?)).for_each(|block| pen.note(false, block));
    Ok(pen.trace)
}

/// `read_count` of `count` records are read anywhere, through one block of memory.
///
/// # Errors
/// If a block holds no record.
pub fn read_anywhere<R: Record>(
    store: &Store,
    count: u64,
    read_count: u64,
    rng: &mut Rng,
) -> Result<Trace, ExternalError> {
    let blocks = count.div_ceil(store.per_block::<R>()?).max(1);
    let mut pen = Pen::new(store);
    let mut at_hand = None;
    for _ in 0..read_count {
        let block = rng.below(blocks);
        if at_hand != Some(block) {
            pen.note(false, block);
        }
        at_hand = Some(block);
    }
    Ok(pen.trace)
}

/// A vector of `count` records is sorted into another one, by a sort of `bytes` of memory. Which run
/// a merge asks next is drawn.
///
/// # Errors
/// If memory is too little for a sort.
pub fn sort<R: Record>(
    store: &Store,
    count: u64,
    bytes: u64,
    rng: &mut Rng,
) -> Result<Trace, ExternalError> {
    let per_block = store.per_block::<R>()?;
    let division = Division::new::<R>(store, bytes)?;
    let mut pen = Pen::new(store);
    let input_blocks = count.div_ceil(per_block);
    if division.runs(count).is_empty() {
        (0..input_blocks).for_each(|block| pen.note(false, block));
        (input_blocks..2 * input_blocks).for_each(|block| pen.note(true, block));
        return Ok(pen.trace);
    }
    let (pieces, next_block) = runs(&mut pen, &division, count, input_blocks, rng);
    merge(&mut pen, pieces, next_block, true, rng);
    Ok(pen.trace)
}

/// The same of records that come and go as streams, from elsewhere: runs alone are written and read.
///
/// # Errors
/// If memory is too little for a sort.
pub fn sort_of_stream<R: Record>(
    store: &Store,
    count: u64,
    bytes: u64,
    rng: &mut Rng,
) -> Result<Trace, ExternalError> {
    let division = Division::new::<R>(store, bytes)?;
    let mut pen = Pen::new(store);
    if !division.runs(count).is_empty() {
        let (pieces, next_block) = runs(&mut pen, &division, count, 0, rng);
        merge(&mut pen, pieces, next_block, false, rng);
    }
    Ok(pen.trace)
}

/// Runs are written while so many blocks of input are read, and merged until one merge takes all; tells
/// them, and where the next block would lie.
fn runs(
    pen: &mut Pen,
    division: &Division,
    count: u64,
    input_blocks: u64,
    rng: &mut Rng,
) -> (Vec<Piece>, u64) {
    let per_block = division.per_block();
    let mut next_block = input_blocks;
    let mut pieces: Vec<Piece> = Vec::new();
    let (mut read, mut written) = (0_u64, 0_u64);
    for records in division.runs(count) {
        let piece = Piece { next_block, records, per_block };
        pieces.push(piece);
        for block in next_block..next_block + piece.blocks() {
            while read < input_blocks && read <= written {
                pen.note(false, read);
                read += 1;
            }
            pen.note(true, block);
            written += 1;
        }
        next_block += piece.blocks();
    }
    while let Some(merged) = division.next_merge(pieces.len() as u64) {
        pieces.sort_by_key(|piece| piece.records);
        let sources: Vec<Piece> = pieces.drain(..to_index(merged)).collect();
        let piece = merge(pen, sources, next_block, true, rng);
        pieces.push(piece);
        next_block += piece.blocks();
    }
    (pieces, next_block)
}

/// A run: where it begins, and how long it is.
#[derive(Clone, Copy)]
struct Piece {
    next_block: u64,
    records: u64,
    per_block: u64,
}

impl Piece {
    const fn blocks(self) -> u64 {
        self.records.div_ceil(self.per_block)
    }
}

/// Blocks of runs are read, in turn by chance, and one that has all their records is written from
/// `to` on, or handed on.
fn merge(
    pen: &mut Pen,
    mut sources: Vec<Piece>,
    to: u64,
    is_written: bool,
    rng: &mut Rng,
) -> Piece {
    let records = sources.iter().map(|source| source.records).sum();
    let merged = Piece { next_block: to, records, per_block: sources[0].per_block };
    let mut left: u64 = sources.iter().map(|source| source.blocks()).sum();
    let mut written = 0;
    while left > 0 {
        let mut chosen = rng.below(left);
        for source in &mut sources {
            let blocks = source.blocks();
            if chosen < blocks {
                pen.note(false, source.next_block);
                source.next_block += 1;
                source.records -= source.records.min(source.per_block);
                break;
            }
            chosen -= blocks;
        }
        left -= 1;
        if is_written && written < merged.blocks() {
            pen.note(true, to + written);
            written += 1;
        }
    }
    merged
}
