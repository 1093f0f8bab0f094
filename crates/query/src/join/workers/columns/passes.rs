//! A join by columns of a side that does not fit into memory: keys are divided among passes by their hashes, and each
//! pass reads both sides. What is read again are the columns that are wanted, not rows, and nothing is written.
//!
//! ```text
//!   built side ─► bytes of each of 64 pieces ─► passes that fit:  │ 0 … 20 │ 21 … 42 │ 43 … 63 │
//! ```
//!
//! 1. What a pass needs was counted: it fits.

use super::{ColumnJoin, EMPTY, OPERATOR, ROW_BYTES, hash};
use crate::columns::{ColumnBatch, Values};
use crate::join::workers::RANGES_PER_WORKER;
use crate::workers::{Morsels, run_workers};
use crate::{Execution, QueryError};
use nandu_base::to_index;

/// More passes are not worth it: rows that are written are read twice at most.
pub(super) const PASS_COUNT_MAX: u64 = 4;
/// Pieces by which keys are divided: so many values of the low bits of their hashes.
const PIECE_COUNT: usize = 64;

/// The keys of one pass.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pass {
    first_piece: u64,
    piece_count: u64,
    /// Whether it is known that its rows fit.
    pub(super) is_counted: bool,
}

/// What the rows of each piece of the built side need.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Bytes with all that belongs to a row.
    bytes: [u64; PIECE_COUNT],
    /// Rows, or bytes of texts, whichever are more: a range of a table has so many at most.
    units: [u64; PIECE_COUNT],
}

impl Pass {
    /// Of all keys, if they fit.
    pub(super) const fn all() -> Self {
        Self { first_piece: 0, piece_count: PIECE_COUNT as u64, is_counted: false }
    }

    /// Whether it has the keys with a hash; those without one are in the first.
    #[inline]
    pub(super) const fn has(&self, hash: u64) -> bool {
        let piece = if hash == EMPTY { 0 } else { piece_of(hash) };
        piece.wrapping_sub(self.first_piece) < self.piece_count
    }
}

/// The piece of a hash: low bits, since ranges and slots follow higher ones.
#[inline]
const fn piece_of(hash: u64) -> u64 {
    hash % PIECE_COUNT as u64
}

impl Counts {
    const NONE: Self = Self { bytes: [0; PIECE_COUNT], units: [0; PIECE_COUNT] };

    fn add(&mut self, batch: &ColumnBatch, hashes: &[u64]) {
        for (row, &hash) in hashes.iter().enumerate() {
            let piece = if hash == EMPTY { 0 } else { to_index(piece_of(hash)) };
            let (mut bytes, mut units) = (0, 1);
            for column in batch.columns() {
                bytes += match column.values() {
                    Values::Integer(_) | Values::Real(_) => 8,
                    Values::Bytes { offsets, .. } => {
                        let text_bytes = u64::from(offsets[row + 1].abs_diff(offsets[row]));
                        units = units.max(text_bytes);
                        4 + text_bytes
                    }
                } + 1;
            }
            // Vectors are up to twice as long as what is in them, and while a range is put together it is there twice.
            self.bytes[piece] +=
                bytes * 2 + bytes * 2 / RANGES_PER_WORKER as u64 + ROW_BYTES as u64;
            self.units[piece] += units;
        }
    }

    fn add_all(&mut self, other: &Self) {
        self.bytes.iter_mut().zip(other.bytes).for_each(|(sum, more)| *sum += more);
        self.units.iter_mut().zip(other.units).for_each(|(sum, more)| *sum += more);
    }

    /// Passes of at most so many bytes and units; `None` if there are too many, or a piece has more by itself.
    fn passes(&self, bytes_max: u64, units_max: u64) -> Option<Vec<Pass>> {
        let pass = |first_piece: usize| Pass {
            first_piece: first_piece as u64,
            piece_count: 0,
            is_counted: true,
        };
        let (mut passes, mut bytes, mut units) = (vec![pass(0)], 0, 0);
        for piece in 0..PIECE_COUNT {
            let (its_bytes, its_units) = (self.bytes[piece], self.units[piece]);
            if its_bytes > bytes_max || its_units > units_max {
                return None;
            }
            if bytes + its_bytes > bytes_max || units + its_units > units_max {
                passes.push(pass(piece));
                (bytes, units) = (0, 0);
            }
            bytes += its_bytes;
            units += its_units;
            passes.last_mut()?.piece_count += 1;
        }
        (passes.len() as u64 <= PASS_COUNT_MAX).then_some(passes)
    }
}

impl ColumnJoin<'_> {
    /// Reads the built side to know which keys fit into memory together; `None` if that takes too many passes.
    pub(super) fn passes(
        &self,
        execution: &Execution,
        built: &Morsels,
    ) -> Result<Option<Vec<Pass>>, QueryError> {
        let mut counts = vec![Counts::NONE; self.worker_count];
        run_workers(execution, &mut counts, |execution, _, _, counts| {
            let (input, columns) = (self.input(self.built), self.columns_of(self.built));
            let mut hashes = Vec::new();
            while let Some(part) = built.next() {
                let memory = execution.take(OPERATOR, self.input_pages)?;
                let mut stream = part.scan_columns(input.relation, execution, memory, columns)?;
                while stream.advance()? {
                    hash(stream.batch(), &self.keys.built, &mut hashes);
                    counts.add(stream.batch(), &hashes);
                }
            }
            Ok(())
        })?;
        let mut all = Counts::NONE;
        counts.iter().for_each(|counts| all.add_all(counts));
        let units_max = (self.range_max / self.worker_count) as u64;
        Ok(all.passes(self.budget_bytes(execution) as u64, units_max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_in_one_pass_and_none_has_too_much() {
        let mut counts = Counts::NONE;
        for (piece, bytes) in (0..).zip(&mut counts.bytes) {
            *bytes = 100 + piece;
        }
        counts.units = [1; PIECE_COUNT];
        let total: u64 = counts.bytes.iter().sum();
        assert_eq!(counts.passes(total, 64), Some(vec![Pass { is_counted: true, ..Pass::all() }]));
        for (bytes_max, units_max) in [(total - 1, 64), (total / 3, 64), (total, 16), (total, 63)] {
            let passes = counts.passes(bytes_max, units_max).unwrap();
            assert!(passes.len() > 1);
            for piece in 0..PIECE_COUNT as u64 {
                let hash = 7 << 20 | piece;
                assert_eq!(passes.iter().filter(|pass| pass.has(hash)).count(), 1);
            }
            for pass in &passes {
                let pieces = (0..PIECE_COUNT).filter(|&piece| pass.has(piece as u64));
                let bytes: u64 = pieces.clone().map(|piece| counts.bytes[piece]).sum();
                assert!(bytes <= bytes_max && pieces.count() as u64 <= units_max);
            }
            assert_eq!(passes.iter().filter(|pass| pass.has(EMPTY)).count(), 1);
        }
        assert_eq!(counts.passes(total / 6, 64), None, "too many passes");
        assert_eq!(counts.passes(150, 64), None, "a piece that does not fit");
        assert_eq!(counts.passes(total, 0), None);
    }
}
