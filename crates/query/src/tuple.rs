//! Rows on their way through operators: cells in somebody's memory, decoded as late as possible.
//!
//! ```text
//!   cell:  record length │ row number │ record          as on a leaf of a heap table (`sqlite`)
//!          ── varint ──── ─ varint ─── ─ header, body
//!
//!   TupleBatch   one area of memory, and where its cells start
//!   PairBatch    two areas, and which cell of one joins which of the other
//! ```
//!
//! A batch lends what its stream owns: it is gone with the next call.
//!
//! 1. Every address in a batch is the start of a whole cell in its area. Whoever makes a batch from
//!    stored bytes checks that; records are checked when they are decoded.

use crate::QueryError;
use nandu_base::to_index;
use nandu_storage::StorageError;
use nandu_storage::sqlite::varint::{VARINT_BYTES_MAX, read_varint, write_varint};
use nandu_storage::sqlite::{RecordView, ValueRef};
use serde::{Deserialize, Serialize};

/// The other side of a row that has no partner.
pub const NO_TUPLE: u64 = u64::MAX;
/// Low bits of an address: the offset in its segment.
const OFFSET_BITS: u32 = 32;

/// A row: its number and its stored values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuple<'a> {
    /// Its number in a heap table; 0 elsewhere.
    pub row_number: i64,
    /// Its values in SQLite's record format.
    pub record: &'a [u8],
}

/// Memory in which cells lie: one piece, or segments.
#[derive(Clone, Copy, Debug)]
pub enum Area<'a> {
    /// One piece; an address is an offset.
    Piece(&'a [u8]),
    /// Segments; the high half of an address is the segment, the low half the offset in it.
    Segments(&'a [Vec<u8>]),
}

/// Rows that lie side by side.
#[derive(Clone, Copy, Debug)]
pub struct TupleBatch<'a> {
    /// The memory in which the rows lie.
    pub area: Area<'a>,
    /// The address of each row in it.
    pub cells: &'a [u64],
}

/// Rows that belong together.
#[derive(Clone, Copy, Debug)]
pub struct PairBatch<'a> {
    /// Where the rows of one side lie.
    pub first: Area<'a>,
    /// Where those of the other side lie.
    pub second: Area<'a>,
    /// Which side `first` is.
    pub first_side: Side,
    /// Address of each pair in `first` and `second`; [`NO_TUPLE`] for the side that has no partner, or
    /// that a semi or anti join leaves out.
    pub pairs: &'a [(u64, u64)],
}

/// One of the two inputs of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The left one.
    Left,
    /// The right one.
    Right,
}

impl Side {
    /// As errors and tables call it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Left => "left",
            Self::Right => "right",
        }
    }
}

impl<'a> Tuple<'a> {
    /// The values.
    ///
    /// # Errors
    /// If the record breaks a rule of its format.
    #[inline]
    pub fn view(&self) -> Result<RecordView<'a>, QueryError> {
        RecordView::new(self.record).map_err(|what| corrupt_record(self.row_number, what))
    }

    /// The first `N` values, NULL past the last, in one pass; what lies behind them is not checked.
    ///
    /// # Errors
    /// If the record breaks a rule of its format.
    #[inline]
    pub fn first_values<const N: usize>(&self) -> Result<[ValueRef<'a>; N], QueryError> {
        RecordView::first_values(self.record).map_err(|what| corrupt_record(self.row_number, what))
    }

    /// Bytes of its cell.
    #[must_use]
    pub fn cell_bytes(&self) -> usize {
        let mut head = [0; 2 * VARINT_BYTES_MAX];
        self.write_head(&mut head) + self.record.len()
    }

    /// Appends its cell to `target`.
    #[inline]
    pub fn push_cell(&self, target: &mut Vec<u8>) {
        let mut head = [0; 2 * VARINT_BYTES_MAX];
        let length = self.write_head(&mut head);
        target.extend_from_slice(&head[..length]);
        target.extend_from_slice(self.record);
    }

    /// Writes its cell to the front of `target`.
    ///
    /// # Panics
    /// If `target` is shorter.
    #[inline]
    pub fn write_cell(&self, target: &mut [u8]) {
        let mut head = [0; 2 * VARINT_BYTES_MAX];
        let length = self.write_head(&mut head);
        target[..length].copy_from_slice(&head[..length]);
        target[length..length + self.record.len()].copy_from_slice(self.record);
    }

    #[inline]
    pub(crate) fn write_head(&self, head: &mut [u8; 2 * VARINT_BYTES_MAX]) -> usize {
        let length = write_varint(self.record.len() as u64, head);
        length + write_varint(self.row_number.cast_unsigned(), &mut head[length..])
    }
}

/// The cell at the start of `bytes`, and its length; `None` where it is cut off.
#[inline]
#[must_use]
pub fn read_cell(bytes: &[u8]) -> Option<(Tuple<'_>, usize)> {
    let (record_bytes, first) = read_varint(bytes)?;
    let (row_number, second) = read_varint(&bytes[first..])?;
    let start = first + second;
    let end = start.checked_add(usize::try_from(record_bytes).ok()?)?;
    let record = bytes.get(start..end)?;
    Some((Tuple { row_number: row_number.cast_signed(), record }, end))
}

/// The address of an offset in a segment.
#[inline]
#[must_use]
pub const fn segment_address(segment: usize, offset: usize) -> u64 {
    (segment as u64) << OFFSET_BITS | offset as u64
}

impl<'a> Area<'a> {
    /// Memory without a single byte.
    pub const EMPTY: Self = Self::Piece(&[]);

    /// The bytes from an address on.
    ///
    /// # Panics
    /// If the address lies outside.
    #[inline]
    #[must_use]
    #[allow(clippy::cast_possible_truncation, reason = "addresses are made from usize")]
    pub fn bytes_at(&self, address: u64) -> &'a [u8] {
        match self {
            Self::Piece(piece) => &piece[address as usize..],
            Self::Segments(segments) => {
                &segments[(address >> OFFSET_BITS) as usize][address as u32 as usize..]
            }
        }
    }

    /// The row whose cell starts at an address.
    ///
    /// # Panics
    /// If no whole cell starts there.
    #[inline]
    #[must_use]
    pub fn tuple(&self, address: u64) -> Tuple<'a> {
        read_cell(self.bytes_at(address)).expect("batches name whole cells only").0
    }
}

impl<'a> TupleBatch<'a> {
    /// The rows of the batch, in order.
    pub fn tuples(&self) -> impl Iterator<Item = Tuple<'a>> + use<'a> {
        let Self { area, cells } = *self;
        cells.iter().map(move |&address| area.tuple(address))
    }
}

impl<'a> PairBatch<'a> {
    /// A batch without any pair.
    pub const EMPTY: Self =
        Self { first: Area::EMPTY, second: Area::EMPTY, first_side: Side::Left, pairs: &[] };

    /// The rows, left and right.
    pub fn tuples(&self) -> impl Iterator<Item = (Option<Tuple<'a>>, Option<Tuple<'a>>)> + use<'a> {
        let Self { first, second, first_side, pairs } = *self;
        let of = |area: Area<'a>, address: u64| (address != NO_TUPLE).then(|| area.tuple(address));
        pairs.iter().map(move |&pair| {
            let (one, other) = (of(first, pair.0), of(second, pair.1));
            if first_side == Side::Left { (one, other) } else { (other, one) }
        })
    }
}

impl Side {
    /// The side across the join from this one.
    #[must_use]
    pub const fn other(self) -> Self {
        match self {
            Self::Left => Self::Right,
            Self::Right => Self::Left,
        }
    }
}

/// Rows that were fetched: cells in one piece of memory, which a row that is longer has for itself.
#[derive(Debug)]
pub(crate) struct RowArea {
    cells: Vec<u8>,
    bytes: usize,
}

impl RowArea {
    /// No rows, and room for so many bytes of them.
    pub(crate) fn new(bytes: usize) -> Self {
        Self { cells: Vec::with_capacity(bytes), bytes }
    }

    /// Where a row was put; `None` if there is no room.
    pub(crate) fn push(&mut self, tuple: Tuple<'_>) -> Option<u64> {
        let start = self.cells.len();
        if start > 0 && start + tuple.cell_bytes() > self.bytes {
            return None;
        }
        tuple.push_cell(&mut self.cells);
        Some(start as u64)
    }

    /// Forgets all rows. One that was too long does not stay in memory.
    pub(crate) fn clear(&mut self) {
        if self.cells.capacity() > self.bytes {
            self.cells = Vec::with_capacity(self.bytes);
        }
        self.cells.clear();
    }

    /// Keeps the rows at these addresses, which rise, and answers where each is now.
    pub(crate) fn keep(&mut self, addresses: &[u64]) -> Vec<u64> {
        let (mut end, mut kept) = (0, Vec::with_capacity(addresses.len()));
        for &address in addresses {
            let start = to_index(address);
            let (_, length) = read_cell(&self.cells[start..]).expect("a row is whole");
            self.cells.copy_within(start..start + length, end);
            kept.push(end as u64);
            end += length;
        }
        self.cells.truncate(end);
        kept
    }

    /// The memory that the rows lie in.
    pub(crate) fn area(&self) -> Area<'_> {
        Area::Piece(&self.cells)
    }

    /// Bytes of the rows, and room for how many there is.
    pub(crate) const fn sizes(&self) -> (usize, usize) {
        (self.cells.len(), self.bytes)
    }
}

/// The error that a stored record breaks a rule.
#[cold]
pub(crate) fn corrupt_record(row_number: i64, what: &str) -> QueryError {
    StorageError::Corrupt { place: format!("row {row_number}"), what: what.to_owned() }.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn cells_come_back_as_they_were(
            rows in proptest::collection::vec(
                (any::<i64>(), proptest::collection::vec(any::<u8>(), 0..300)), 1..20),
        ) {
            let mut bytes = Vec::new();
            let mut starts = Vec::new();
            for (row_number, record) in &rows {
                starts.push(bytes.len() as u64);
                let tuple = Tuple { row_number: *row_number, record };
                tuple.push_cell(&mut bytes);
                prop_assert_eq!(bytes.len() as u64, starts.last().unwrap() + tuple.cell_bytes() as u64);
            }
            let segments = [Vec::new(), bytes.clone()];
            for ((row_number, record), start) in rows.iter().zip(&starts) {
                let expected = Tuple { row_number: *row_number, record };
                prop_assert_eq!(Area::Piece(&bytes).tuple(*start), expected);
                let address = segment_address(1, usize::try_from(*start).unwrap());
                prop_assert_eq!(Area::Segments(&segments).tuple(address), expected);
            }
        }

        #[test]
        fn any_bytes_are_a_cell_or_nothing(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some((_, length)) = read_cell(&bytes) {
                prop_assert!(length <= bytes.len());
            }
        }
    }
}
