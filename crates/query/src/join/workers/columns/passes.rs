//! A join by columns of a side that does not fit into memory: keys are divided among passes by their hashes, and each
//! pass reads both sides. What is read again are the columns that are wanted, not rows, and nothing is written.
//!
//! ```text
//!   built side ─► bytes of each of 64 pieces ─► passes that fit:  │ 0 … 20 │ 21 … 42 │ 43 … 63 │
//! ```
//!
//! 1. What a pass needs was counted: it fits.

use super::{ColumnJoin, EMPTY, OPERATOR, ROW_BYTES, bytes_with_copies, hash, range_of};
use crate::columns::{ColumnBatch, Values};
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

/// What the rows of the built side need.
#[derive(Clone, Debug)]
pub(super) struct Counts {
    /// Of each piece.
    pieces: Vec<Piece>,
}

/// What the rows of a piece need.
#[derive(Clone, Debug)]
struct Piece {
    /// Bytes of columns, for each range of the table.
    ranges: Vec<u64>,
    row_count: u64,
    /// Rows, or bytes of texts, whichever are more: a range of a table has so many at most.
    units: u64,
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

impl Piece {
    fn add(&mut self, other: &Self) {
        self.ranges.iter_mut().zip(&other.ranges).for_each(|(sum, more)| *sum += more);
        self.row_count += other.row_count;
        self.units += other.units;
    }

    /// Bytes of a table of it, filled by so many workers. Vectors are up to a quarter longer than what is in them, and as
    /// long as that before they grow.
    fn bytes(&self, worker_count: usize) -> u64 {
        let columns = self.ranges.iter().map(|bytes| bytes + bytes / 4).collect();
        let moved_bytes = self.ranges.iter().copied().max().unwrap_or(0);
        bytes_with_copies(columns, moved_bytes, worker_count) + self.row_count * ROW_BYTES as u64
    }
}

impl Counts {
    fn new(range_count: usize) -> Self {
        let none = Piece { ranges: vec![0; range_count], row_count: 0, units: 0 };
        Self { pieces: vec![none; PIECE_COUNT] }
    }

    /// Counts rows; those whose key has a NULL only if they are kept.
    fn add(&mut self, batch: &ColumnBatch, hashes: &[u64], keeps_null_keys: bool) {
        for (row, &hash) in hashes.iter().enumerate() {
            if hash == EMPTY && !keeps_null_keys {
                continue;
            }
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
            let piece = &mut self.pieces[piece];
            let range = range_of(hash, piece.ranges.len());
            piece.ranges[range] += bytes;
            piece.row_count += 1;
            piece.units += units;
        }
    }

    fn add_all(&mut self, other: &Self) {
        self.pieces.iter_mut().zip(&other.pieces).for_each(|(sum, more)| sum.add(more));
    }

    /// Passes of at most so many bytes and units for so many workers; `None` if there are too many, or a piece has
    /// more by itself.
    fn passes(&self, (bytes_max, units_max): (u64, u64), worker_count: usize) -> Option<Vec<Pass>> {
        let fits = |rows: &Piece| rows.bytes(worker_count) <= bytes_max && rows.units <= units_max;
        let mut passes: Vec<Pass> = Vec::new();
        let mut rows: Option<Piece> = None;
        for (number, piece) in (0..).zip(&self.pieces) {
            let with_it = rows.as_ref().map(|rows| {
                let mut sum = rows.clone();
                sum.add(piece);
                sum
            });
            match with_it.filter(fits) {
                Some(sum) => {
                    passes.last_mut()?.piece_count += 1;
                    rows = Some(sum);
                }
                None if fits(piece) => {
                    passes.push(Pass { first_piece: number, piece_count: 1, is_counted: true });
                    rows = Some(piece.clone());
                }
                None => return None,
            }
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
        let mut counts = vec![Counts::new(self.range_count()); self.worker_count];
        let keeps_null_keys = self.roles.keeps_null_keys();
        run_workers(execution, &mut counts, |execution, _, _, counts| {
            let (input, columns) = (self.input(self.built), self.columns_of(self.built));
            let mut hashes = Vec::new();
            while let Some(part) = built.next() {
                let memory = execution.take(OPERATOR, self.input_pages)?;
                let mut stream = part.scan_columns(input.relation, execution, memory, columns)?;
                while stream.advance()? {
                    hash(stream.batch(), &self.keys.built, &mut hashes);
                    counts.add(stream.batch(), &hashes, keeps_null_keys);
                }
            }
            Ok(())
        })?;
        let mut all = Counts::new(self.range_count());
        counts.iter().for_each(|counts| all.add_all(counts));
        let units_max = (self.range_max / self.worker_count) as u64;
        let most = (self.budget_bytes(execution) as u64, units_max);
        Ok(all.passes(most, self.worker_count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_piece_is_in_one_pass_and_none_has_too_much() {
        let mut counts = Counts::new(1);
        for (piece, rows) in (0..).zip(&mut counts.pieces) {
            *rows = Piece { ranges: vec![100 + 4 * piece], row_count: 0, units: 1 };
        }
        let total: u64 = counts.pieces.iter().map(|piece| piece.bytes(1)).sum();
        let passes = |bytes_max, units_max| counts.passes((bytes_max, units_max), 1);
        assert_eq!(passes(total, 64), Some(vec![Pass { is_counted: true, ..Pass::all() }]));
        for (bytes_max, units_max) in [(total - 1, 64), (total / 3, 64), (total, 16), (total, 63)] {
            let passes = passes(bytes_max, units_max).unwrap();
            assert!(passes.len() > 1);
            for piece in 0..PIECE_COUNT as u64 {
                let hash = 7 << 20 | piece;
                assert_eq!(passes.iter().filter(|pass| pass.has(hash)).count(), 1);
            }
            for pass in &passes {
                let pieces = (0..PIECE_COUNT).filter(|&piece| pass.has(piece as u64));
                let bytes: u64 = pieces.clone().map(|piece| counts.pieces[piece].bytes(1)).sum();
                assert!(bytes <= bytes_max && pieces.count() as u64 <= units_max);
            }
            assert_eq!(passes.iter().filter(|pass| pass.has(EMPTY)).count(), 1);
        }
        assert_eq!(passes(total / 6, 64), None, "too many passes");
        assert_eq!(passes(300, 64), None, "a piece that does not fit");
        assert_eq!(passes(total, 0), None);
    }

    #[test]
    fn a_range_that_has_most_rows_is_there_twice_while_it_is_put_together() {
        // 100 bytes in each of 12 ranges, and 5000 in one of them, of three workers.
        let mut ranges = vec![100; 12];
        let piece = |ranges: Vec<u64>| Piece { ranges, row_count: 0, units: 0 };
        assert_eq!(piece(ranges.clone()).bytes(3), (1200 + 300) * 5 / 4);
        ranges[7] = 5000;
        assert_eq!(piece(ranges).bytes(3), (6100 + 5200) * 5 / 4);
        assert_eq!(piece(vec![6100]).bytes(1), 6100 * 5 / 4 + 6100, "a vector that grows");
    }
}
