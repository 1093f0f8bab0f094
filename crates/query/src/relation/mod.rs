//! What operators read: rows that can be read again and again, in blocks as large as the memory given.
//!
//! ```text
//!   Relation ──scan(memory, span)──► TupleStream ──advance()──► batch(): a page's rows
//!      │                                 │
//!      ├─parts(count)──► spans           └─position()──► where another scan may go on
//!      └─scan_columns(…, columns)──► ColumnStream: the same rows by column (`columns`)
//! ```
//!
//! 1. A stream holds as much memory as it was given, and one row besides: that which lies on more than
//!    one page.
//! 2. All scans of one relation give the same rows in the same order.
//! 3. The spans of [`Relation::parts`] have each row once, whatever the count.

mod block_reader;
mod clustered;
mod filtered;
pub(crate) mod heap;
mod index_scan;
pub(crate) mod pax;
mod rows;
pub(crate) mod stats;
#[cfg(test)]
mod tests;

pub use clustered::ClusteredRelation;
pub use filtered::{Condition, Filtered};
pub use heap::HeapRelation;
pub use index_scan::{IndexOnlyScan, IndexScan};
pub use pax::{PaxRelation, PaxView};
pub use rows::Rows;
pub use stats::{LateStats, PageOrder, RelationStats};

pub(crate) use block_reader::{BlockReader, Fetch};
pub(crate) use clustered::{LEAVES_AHEAD, clustered_size};
pub(crate) use heap::leaves_of;

use crate::columns::{ColumnStream, RowColumns};
use crate::execution::Memory;
use crate::key::KeyColumn;
use crate::tuple::TupleBatch;
use crate::{Execution, QueryError};
use nandu_storage::btree::LeafPlace;
use nandu_storage::database::{ColumnType, Tables};
use serde::{Deserialize, Serialize};

/// Rows to be read, by any number of workers.
pub trait Relation: Send + Sync {
    /// Its name, for explanations and errors.
    fn name(&self) -> &str;

    /// How large it is, as far as that is known without reading all of it.
    fn size(&self) -> RelationSize;

    /// What a planner knows of a scan, in pages of so many bytes.
    fn stats(&self, page_bytes: u64) -> RelationStats {
        RelationStats::of(self.size(), page_bytes)
    }

    /// The least memory that a scan takes, in pages.
    fn scan_pages_min(&self) -> u32 {
        1
    }

    /// Its parts, if its columns can be read apart and its rows fetched by number.
    fn late(&self) -> Option<Late<'_>> {
        None
    }

    /// Its parts for workers that read side by side: up to `count` spans of about as many pages that have
    /// every row once between them, in order. One of everything, where it cannot be divided.
    fn parts(&self, _count: u32) -> Vec<Span> {
        vec![Span::ALL]
    }

    /// The types of its columns, if it knows them.
    fn column_types(&self) -> Option<&[ColumnType]> {
        None
    }

    /// Begins to read some columns of the rows of `span`, in the order given.
    ///
    /// # Errors
    /// As [`Self::scan`]; or if there is no such column, or the types of columns are not known.
    fn scan_columns<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
        columns: &[KeyColumn],
    ) -> Result<Box<dyn ColumnStream + 'x>, QueryError> {
        let types = self.column_types().ok_or_else(|| unknown_types(self.name()))?;
        let stream = self.scan(execution, memory, span)?;
        Ok(Box::new(RowColumns::new(stream, types, columns)?))
    }

    /// Begins to read the rows of `span`, in blocks of `memory`.
    ///
    /// # Errors
    /// If there is not enough memory, or the device fails.
    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError>;
}

/// The parts of a relation whose rows may be put together late. Both have the columns where the relation has
/// them.
#[derive(Clone, Copy)]
pub struct Late<'r> {
    /// The columns that are compared, to be scanned.
    pub keys: &'r dyn Relation,
    /// Those that are handed on, to be fetched by row number.
    pub rows: &'r PaxView<'r>,
}

impl Late<'_> {
    /// What a planner knows of it.
    #[must_use]
    pub fn stats(&self, page_bytes: u64) -> LateStats {
        self.rows.late_stats(self.keys.stats(page_bytes))
    }
}

/// The types of a relation's columns.
///
/// # Errors
/// If it does not know them.
pub(crate) fn known_types(relation: &dyn Relation) -> Result<&[ColumnType], QueryError> {
    relation.column_types().ok_or_else(|| unknown_types(relation.name()))
}

fn unknown_types(name: &str) -> QueryError {
    QueryError::Invalid { what: format!("{name} does not know the types of its columns") }
}

/// The types of a table's columns.
fn types_of(tables: &Tables, table: &str) -> Result<Vec<ColumnType>, QueryError> {
    let columns = tables.definition(table)?.columns.iter();
    Ok(columns.map(|column| column.column_type).collect())
}

/// Rows as they come.
pub trait TupleStream {
    /// Goes on to the next rows, perhaps none; false at the end.
    ///
    /// # Errors
    /// If the device fails, what it stores is damaged, or the user asked to stop.
    fn advance(&mut self) -> Result<bool, QueryError>;

    /// The rows at hand: none before the first call of [`Self::advance`] and at the end.
    fn batch(&self) -> TupleBatch<'_>;

    /// Pages whose rows were given so far.
    fn page_count(&self) -> u64;

    /// Where another scan goes on, if all rows of a block were given: then nothing is read twice.
    fn position(&self) -> Option<Position>;
}

/// A place between two blocks of a relation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Position {
    /// Which run of pages; of a tree, which leaf, 0 before the first and `u32::MAX` after the last.
    pub(crate) run: u32,
    /// How far into it, in pages; of a tree, which slot.
    pub(crate) page: u32,
}

/// A stretch of a relation: from one of its places on, to another one or to the end. Spans that end before the
/// relation does come from [`Relation::parts`] only.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    pub(crate) from: Position,
    pub(crate) to: Option<Position>,
}

impl Span {
    /// The whole relation, from its first row to its last.
    pub const ALL: Self = Self { from: Position { run: 0, page: 0 }, to: None };

    /// `count` spans of `length` units, or fewer where there are fewer units. `place_of` says where a unit
    /// begins.
    pub(crate) fn cut(length: u64, count: u32, place_of: impl Fn(u64) -> Position) -> Vec<Self> {
        let count = u64::from(count).clamp(1, length.max(1));
        let places: Vec<_> = (1..count).map(|part| place_of(part * length / count)).collect();
        let starts = std::iter::once(Position::default()).chain(places.iter().copied());
        let ends = places.iter().copied().map(Some).chain([None]);
        starts.zip(ends).map(|(from, to)| Self { from, to }).collect()
    }
}

impl From<Position> for Span {
    /// All rows from a place on.
    fn from(from: Position) -> Self {
        Self { from, to: None }
    }
}

impl Position {
    /// The place in a tree, `None` for its beginning or its end.
    pub(crate) const fn at_leaf(place: Option<LeafPlace>, is_at_end: bool) -> Self {
        match place {
            Some(LeafPlace { page, slot }) => Self { run: page, page: slot },
            None => Self { run: if is_at_end { u32::MAX } else { 0 }, page: 0 },
        }
    }

    /// The place in a tree, and whether it is the end.
    pub(crate) const fn leaf_place(self) -> (Option<LeafPlace>, bool) {
        match self.run {
            0 => (None, false),
            u32::MAX => (None, true),
            page => (Some(LeafPlace { page, slot: self.page }), false),
        }
    }
}

/// How large a relation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationSize {
    /// Pages that a scan reads.
    pub page_count: u64,
    /// Rows of the relation.
    pub tuple_count: u64,
    /// Bytes of all cells.
    pub cell_bytes: u64,
}
