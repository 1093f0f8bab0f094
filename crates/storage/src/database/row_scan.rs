//! Rows of a table one after the other, for as long as wanted: what [`Tables::rows`] gives.
//!
//! ```text
//!   RowRange ─ rows() ─► RowScan ─┬─ next_row ─► a row's number and a view of it, until the next call
//!    table, index,                └─ Iterator ─► Row
//!    bounds, direction
//! ```
//!
//! 1. A scan sees one moment: that of its snapshot, or that at which it began in a transaction, which cannot
//!    change anything while it is lent to the scan.
//! 2. Of a serializable transaction the range is locked before the first row is read; the rows of a range of
//!    an index one by one, each before it is read, as it is then.
//! 3. Between two calls it holds no page, only copies: of a leaf, of a PAX page, of a row.

use super::key;
use super::key_values::as_bytes;
use super::kind::StoredScan;
use super::names::with_names_of;
use super::open_table::OpenTable;
use super::schema::{Row, TableDefinition};
use super::tables::{Tables, leads_nowhere, row_of, view_of};
use super::transaction::Snapshot;
use super::view::EngineView;
use crate::StorageError;
use crate::btree::{self, Direction, Tree};
use crate::sqlite::{RecordView, ValueRef};
use serde::de::DeserializeOwned;
use std::iter::FusedIterator;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

#[cfg(test)]
mod tests;

/// Which rows of a table, and in which order.
///
/// ```
/// use nandu_storage::database::RowRange;
/// use nandu_storage::sqlite::ValueRef;
///
/// // The name of a table is all its rows, as they are stored.
/// let all = RowRange::from("customers");
/// // Orders of customer 7 from number 100 on, of a table with the key (customer, number).
/// let (first, customer) = ([ValueRef::Integer(7), ValueRef::Integer(100)], [ValueRef::Integer(7)]);
/// let some = RowRange::of("orders").at_least(&first).at_most(&customer);
/// // The same by an index, the last ones first.
/// let last = RowRange::of("orders").by_index("by_customer").within(&customer).backward();
/// # let _ = (all, some, last);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct RowRange<'r> {
    table: &'r str,
    index: Option<&'r str>,
    lower: Bound<&'r [ValueRef<'r>]>,
    upper: Bound<&'r [ValueRef<'r>]>,
    direction: Direction,
    ahead_count: Option<usize>,
}

/// Rows of a table or of a range, one after the other. A row is an iterator's item, or is looked at in place
/// by [`Self::next_row`]. After an error it is at its end.
pub struct RowScan<'t> {
    /// Of a transaction that locks what it reads.
    locker: Option<&'t Tables>,
    table: Arc<OpenTable>,
    pages: EngineView,
    way: Way,
    row_number: i64,
    is_over: bool,
}

/// How the next row is found.
enum Way {
    Stored(StoredScan),
    Index {
        cursor: Box<btree::Cursor>,
        record: Vec<u8>,
    },
    /// No key lies within the bounds.
    Nothing,
}

impl<'r> RowRange<'r> {
    /// All rows of a table: those of a clustered one in the order of the key, of others as they are stored.
    #[must_use]
    pub const fn of(table: &'r str) -> Self {
        let (lower, upper) = (Bound::Unbounded, Bound::Unbounded);
        let direction = Direction::Forward;
        Self { table, index: None, lower, upper, direction, ahead_count: None }
    }

    /// In the order of an index of a heap table, whose columns the bounds are then of.
    #[must_use]
    pub const fn by_index(mut self, index: &'r str) -> Self {
        self.index = Some(index);
        self
    }

    /// Keys between bounds. A bound may name the first columns of the key only; it is then one of all keys
    /// that begin so.
    #[must_use]
    pub const fn between(
        mut self,
        (lower, upper): (Bound<&'r [ValueRef<'r>]>, Bound<&'r [ValueRef<'r>]>),
    ) -> Self {
        (self.lower, self.upper) = (lower, upper);
        self
    }

    /// Keys that are, or begin with, `values`.
    #[must_use]
    pub const fn within(self, values: &'r [ValueRef<'r>]) -> Self {
        self.at_least(values).at_most(values)
    }

    /// Keys from `values` on.
    #[must_use]
    pub const fn at_least(mut self, values: &'r [ValueRef<'r>]) -> Self {
        self.lower = Bound::Included(values);
        self
    }

    /// Keys behind `values` and all that begin with them.
    #[must_use]
    pub const fn more_than(mut self, values: &'r [ValueRef<'r>]) -> Self {
        self.lower = Bound::Excluded(values);
        self
    }

    /// Keys up to `values`, those that begin with them included.
    #[must_use]
    pub const fn at_most(mut self, values: &'r [ValueRef<'r>]) -> Self {
        self.upper = Bound::Included(values);
        self
    }

    /// Keys before `values`.
    #[must_use]
    pub const fn less_than(mut self, values: &'r [ValueRef<'r>]) -> Self {
        self.upper = Bound::Excluded(values);
        self
    }

    /// From the largest key to the smallest. Not of rows as they are stored in a heap or in PAX pages.
    #[must_use]
    pub const fn backward(mut self) -> Self {
        self.direction = Direction::Backward;
        self
    }

    /// How many leaves of a tree are asked for ahead, 32 without it; 0 suits who stops within a leaf.
    #[must_use]
    pub const fn with_ahead_count(mut self, count: usize) -> Self {
        self.ahead_count = Some(count);
        self
    }

    const fn has_bounds(&self) -> bool {
        !matches!((self.lower, self.upper), (Bound::Unbounded, Bound::Unbounded))
    }

    /// Whether it is more than all rows as they are stored.
    const fn wants_order(&self) -> bool {
        self.has_bounds() || matches!(self.direction, Direction::Backward)
    }

    pub(super) fn cursor(
        &self,
        tree: Tree,
        bounds: (Bound<&[u8]>, Bound<&[u8]>),
    ) -> Box<btree::Cursor> {
        let cursor = tree.scan(bounds, self.direction);
        Box::new(match self.ahead_count {
            Some(count) => cursor.with_ahead_count(count),
            None => cursor,
        })
    }
}

impl<'r> From<&'r str> for RowRange<'r> {
    fn from(table: &'r str) -> Self {
        Self::of(table)
    }
}

impl Tables {
    /// Rows of a table, or of a range of them. Of a write transaction these cannot be changed meanwhile.
    ///
    /// # Errors
    /// If there is no such table or index, a bound does not fit its columns, the table has no such order, or
    /// of a serializable transaction others are in the way.
    pub fn rows<'r>(&self, range: impl Into<RowRange<'r>>) -> Result<RowScan<'_>, StorageError> {
        RowScan::begin(self, self.locker.map(|_| self), &range.into())
    }
}

impl Snapshot {
    /// Rows of a table, or of a range of them, at the moment of the snapshot. They may go to another thread
    /// and outlive the snapshot; the database cannot be closed before they are dropped.
    ///
    /// # Errors
    /// If there is no such table or index, a bound does not fit its columns, or the table has no such order.
    pub fn rows<'r>(
        &self,
        range: impl Into<RowRange<'r>>,
    ) -> Result<RowScan<'static>, StorageError> {
        RowScan::begin(self, None, &range.into())
    }
}

impl<'t> RowScan<'t> {
    fn begin(
        tables: &Tables,
        locker: Option<&'t Tables>,
        range: &RowRange<'_>,
    ) -> Result<Self, StorageError> {
        let table = Arc::clone(tables.table(range.table)?);
        let definition = &table.definition;
        let range_of = (range.lower, range.upper);
        let (file, bounds) = match range.index {
            Some(index) => {
                table.heap()?;
                let index = table.index(index)?;
                (index.file, definition.bounds_of_columns(&index.columns, range_of)?)
            }
            None if range.wants_order() && !definition.kind.has_order() => {
                let what =
                    "stored in the order of arrival: for bounds or another order, name an index";
                return Err(table.wrong_kind(what));
            }
            None => (definition.file, definition.key_bounds(range_of)?),
        };
        if let Some(bounds) = &bounds {
            tables.lock_range(file, as_bytes(bounds), &table)?;
        }
        // An index leads to another file, whose pages have to be as committed, too.
        let pages = match (&bounds, range.index) {
            (Some(bounds), None) => {
                let bounds = as_bytes(bounds);
                tables.statement_about(file, |key| RangeBounds::<[u8]>::contains(&bounds, key))?
            }
            _ => tables.statement()?,
        }
        .into_view();
        let way = match (&bounds, range.index) {
            (None, _) => Way::Nothing,
            (Some(bounds), Some(_)) => {
                let cursor = range.cursor(Tree::at(file), as_bytes(bounds));
                Way::Index { cursor, record: Vec::new() }
            }
            (Some(bounds), None) => Way::Stored(table.rows.scan(&pages, range, bounds)),
        };
        Ok(Self { locker, table, pages, way, row_number: 0, is_over: false })
    }

    /// The definition of the table that the rows are of.
    #[must_use]
    pub fn definition(&self) -> &TableDefinition {
        &self.table.definition
    }

    /// The number of the row that came last; 0 in a clustered table, and before the first one.
    #[must_use]
    pub const fn row_number(&self) -> i64 {
        self.row_number
    }

    /// The next row in place, with its number (0 in a clustered table); `None` after the last one.
    ///
    /// # Errors
    /// If a page cannot be read or breaks a rule, an entry of an index leads to no row, or of a serializable
    /// transaction others are in the way. The scan is at its end then.
    pub fn next_row(&mut self) -> Result<Option<(i64, RecordView<'_>)>, StorageError> {
        if !self.step()? {
            return Ok(None);
        }
        match view_of(self.way.record()) {
            Ok(record) => Ok(Some((self.row_number, record))),
            Err(error) => {
                self.is_over = true;
                Err(error)
            }
        }
    }

    /// The next row as a value of a type.
    pub(super) fn next_typed<T: DeserializeOwned>(&mut self) -> Result<Option<T>, StorageError> {
        if !self.step()? {
            return Ok(None);
        }
        let record = view_of(self.way.record());
        let row = record.and_then(|record| self.table.definition.read_row(record));
        self.is_over = row.is_err();
        row.map(Some)
    }

    /// Goes to the next row, or to the end; false there.
    fn step(&mut self) -> Result<bool, StorageError> {
        if self.is_over {
            return Ok(false);
        }
        let answer = self.advance();
        self.is_over = !matches!(answer, Ok(true));
        answer.map_err(|error| with_names_of(|| self.pages.files(), error))
    }

    /// Goes to the next row; false if there is none.
    fn advance(&mut self) -> Result<bool, StorageError> {
        let Self { pages, table, row_number, .. } = self;
        match &mut self.way {
            Way::Stored(scan) => scan.advance(pages, row_number),
            Way::Nothing => Ok(false),
            Way::Index { cursor, record } => {
                let Some((entry, _)) = cursor.next(pages)? else { return Ok(false) };
                let (_, number) = key::split_row_number(entry)?;
                *row_number = number;
                fetch(self.locker, table, pages, number, record)?;
                Ok(true)
            }
        }
    }
}

/// Brings the row of a heap to which an entry of an index leads.
fn fetch(
    locker: Option<&Tables>,
    table: &OpenTable,
    pages: &EngineView,
    number: i64,
    record: &mut Vec<u8>,
) -> Result<(), StorageError> {
    let heap = table.heap()?;
    let set = |row: RecordView<'_>| {
        record.clear();
        record.extend_from_slice(row.bytes());
    };
    let found = match locker {
        None => heap.tree_in(pages).get(pages, number, set)?,
        Some(tables) => {
            // Its other columns may have changed before it was locked.
            tables.lock_number(table, number)?;
            let now = &*tables.statement()?;
            heap.tree_in(now).get(now, number, set)?
        }
    };
    found.ok_or_else(|| leads_nowhere(number))
}

impl Iterator for RowScan<'_> {
    type Item = Result<Row, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.next_row();
        next.map(|row| row.map(|(_, record)| row_of(record))).transpose()
    }
}

impl FusedIterator for RowScan<'_> {}

impl std::fmt::Debug for RowScan<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let way = match &self.way {
            Way::Stored(scan) => scan.label(),
            Way::Index { .. } => "by an index",
            Way::Nothing => "nothing",
        };
        write!(formatter, "RowScan({}, {way})", self.table.definition.name)
    }
}

impl Way {
    /// The row that came last.
    fn record(&self) -> &[u8] {
        match self {
            Self::Stored(scan) => scan.record(),
            Self::Index { record, .. } => record,
            Self::Nothing => &[],
        }
    }
}
