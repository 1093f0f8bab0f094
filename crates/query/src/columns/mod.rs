//! Rows by column: the values of each column side by side, as Arrow lays them out, so that an adapter copies
//! nothing. For what looks at few columns of many rows, and never needs a row as such.
//!
//! ```text
//!   ColumnBatch      rows:     0    1    2    3
//!     column 0       values    i64  i64  i64  i64         integers; doubles likewise
//!     column 1       offsets   0    3    3    8    8      texts and blobs: where each begins, and the end
//!                    bytes     abc  de fgh
//!                    validity  0b1011, the lowest bit first; none where every row has a value
//!
//!   Relation::scan_columns ─► ColumnStream ─► batches       filter.rs    rows that satisfy a comparison
//!     PAX pages: decoded minipage by minipage               project.rs   some of the columns
//!                                                           rows.rs      of any stream of rows: wanted values
//!                                                                        decoded once, in one pass
//! ```
//!
//! 1. All columns of a batch have as many rows; the values of NULLs are zeros or empty.
//! 2. `offsets` has one entry more than there are rows, begins with 0 and never falls.

mod column;
mod filter;
mod project;
mod rows;
#[cfg(test)]
mod tests;

pub use column::{Column, Values};
pub use filter::{Comparison, FilteredColumns, Operator};
pub use project::ProjectedColumns;
pub(crate) use rows::{BATCH_BYTES, Decoder, RowColumns, types_of};

use crate::QueryError;
use nandu_storage::database::ColumnType;
use nandu_storage::sqlite::ValueRef;

/// Some rows, column by column.
#[derive(Clone, Debug, PartialEq)]
pub struct ColumnBatch {
    columns: Vec<Column>,
    row_count: usize,
}

/// Some rows of a batch, by place, in an order of their own; one may be there more than once.
#[derive(Clone, Copy, Debug)]
pub struct ColumnRows<'a> {
    /// Where they are.
    pub batch: &'a ColumnBatch,
    /// The places of the rows.
    pub places: &'a [u32],
}

/// Batches as they come.
pub trait ColumnStream {
    /// Goes on to the next rows, perhaps none; false at the end.
    ///
    /// # Errors
    /// If the device fails, what it stores is damaged, or the user asked to stop.
    fn advance(&mut self) -> Result<bool, QueryError>;

    /// The rows at hand: none before the first call of [`Self::advance`] and at the end.
    fn batch(&self) -> &ColumnBatch;

    /// The same, for who takes something out of it: the next call of [`Self::advance`] forgets what
    /// is there.
    fn batch_mut(&mut self) -> &mut ColumnBatch;
}

impl ColumnBatch {
    /// No rows, of columns of these types.
    #[must_use]
    pub fn new(types: &[ColumnType]) -> Self {
        Self { columns: types.iter().map(|&of| Column::new(of)).collect(), row_count: 0 }
    }

    /// How many rows there are.
    #[must_use]
    pub const fn row_count(&self) -> usize {
        self.row_count
    }

    /// The columns, in the order in which they were asked for.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.columns.iter_mut().for_each(Column::clear);
        self.row_count = 0;
    }

    /// Changes the columns; all of them get as many rows more as `add` answers.
    pub(crate) fn add<E>(
        &mut self,
        add: impl FnOnce(&mut [Column]) -> Result<usize, E>,
    ) -> Result<usize, E> {
        let count = add(&mut self.columns)?;
        self.row_count += count;
        debug_assert!(self.columns.iter().all(|it| it.row_count() == self.row_count));
        Ok(count)
    }

    /// Appends some rows of a batch with columns of the same types.
    ///
    /// # Panics
    /// If a column is of another type, or there is no such row.
    pub fn append(&mut self, rows: ColumnRows<'_>) {
        for (mine, its) in self.columns.iter_mut().zip(&rows.batch.columns) {
            mine.append(its, rows.places);
        }
        self.row_count += rows.places.len();
    }

    /// Bytes that all columns will have taken when some rows have been appended, and those of the longest vector that
    /// is copied to a longer place meanwhile.
    pub(crate) fn bytes_with(&self, rows: ColumnRows<'_>) -> (usize, usize) {
        let columns = self.columns.iter().zip(&rows.batch.columns);
        columns.fold((0, 0), |(sum, most), (mine, its)| {
            let (bytes, moved_bytes) = mine.bytes_with(its, rows.places);
            (sum + bytes, most.max(moved_bytes))
        })
    }

    /// Appends all rows of another batch.
    ///
    /// # Panics
    /// If a column is of another type.
    pub fn append_all(&mut self, other: &Self) {
        for (mine, its) in self.columns.iter_mut().zip(&other.columns) {
            mine.append_all(its);
        }
        self.row_count += other.row_count;
    }

    /// Takes all rows of another batch, of its columns at some places, which are of the same types.
    /// What is here goes there, without its rows.
    pub(crate) fn take_columns(&mut self, other: &mut Self, places: &[usize]) {
        for (mine, &place) in self.columns.iter_mut().zip(places) {
            std::mem::swap(mine, &mut other.columns[place]);
        }
        self.row_count = other.row_count;
        other.clear();
    }

    /// Makes room for all rows of other batches.
    pub(crate) fn reserve_exact<'a>(&mut self, others: impl Iterator<Item = &'a Self> + Clone) {
        for (place, column) in self.columns.iter_mut().enumerate() {
            column.reserve_exact(others.clone().map(|other| &other.columns[place]));
        }
    }

    /// Bytes that all columns have taken from memory.
    #[must_use]
    pub fn capacity_bytes(&self) -> usize {
        self.columns.iter().map(Column::capacity_bytes).sum()
    }

    /// Whether its rows and those of another batch, and the bytes of each column, are no more than `most`.
    pub(crate) fn has_room_for(&self, other: &Self, most: usize) -> bool {
        let bytes = |column: &Column| match column.values() {
            Values::Bytes { bytes, .. } => bytes.len(),
            _ => 0,
        };
        let mut columns = self.columns.iter().zip(&other.columns);
        self.row_count + other.row_count <= most
            && columns.all(|(mine, its)| bytes(mine) + bytes(its) <= most)
    }

    /// Bytes of the values of its rows.
    pub(crate) fn value_bytes(&self) -> usize {
        self.columns.iter().map(Column::value_bytes).sum()
    }

    /// Asserts the invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        for column in &self.columns {
            assert_eq!(column.row_count(), self.row_count, "invariant 1");
            column.audit();
        }
    }
}

impl<'a> ColumnRows<'a> {
    /// The value that one of the rows has in a column.
    ///
    /// # Panics
    /// If there is no such row or column.
    #[inline]
    #[must_use]
    pub fn value(self, column: usize, row: usize) -> ValueRef<'a> {
        self.batch.columns[column].value(self.places[row] as usize)
    }

    /// The integers of a column, 0 for NULL; `None` if it has none.
    #[must_use]
    pub fn integers(self, column: usize) -> Option<impl Iterator<Item = i64> + use<'a>> {
        let values = self.batch.columns[column].integers()?;
        Some(self.places.iter().map(move |&place| values[place as usize]))
    }
}
