//! What operators read: rows that can be read again and again, in blocks as large as the memory given.
//!
//! ```text
//!   Relation ──scan(memory, from)──► TupleStream ──advance()──► batch(): a page's rows
//!                                        │
//!                                        └─position()──► where another scan may go on
//! ```
//!
//! 1. A stream holds as much memory as it was given, and one row besides: that which lies on more than
//!    one page.
//! 2. All scans of one relation give the same rows in the same order.

mod block_reader;
mod filtered;
mod heap;
mod rows;

pub use filtered::{Condition, Filtered};
pub use heap::HeapRelation;
pub use rows::Rows;

pub(crate) use block_reader::{BlockReader, Fetch};

use crate::execution::Memory;
use crate::tuple::TupleBatch;
use crate::{Execution, QueryError};
use serde::{Deserialize, Serialize};

/// Rows to be read.
pub trait Relation {
    /// Its name, for explanations and errors.
    fn name(&self) -> &str;

    /// How large it is, as far as that is known without reading all of it.
    fn size(&self) -> RelationSize;

    /// Begins to read, in blocks of `memory`.
    ///
    /// # Errors
    /// If there is not enough memory, or the device fails.
    fn scan<'x>(
        &'x self,
        execution: &'x Execution,
        memory: Memory<'x>,
        from: Position,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError>;
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
    /// Which run of pages.
    pub(crate) run: u32,
    /// How far into it, in pages.
    pub(crate) page: u32,
}

/// How large a relation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelationSize {
    /// Pages that a scan reads.
    pub page_count: u64,
    /// Rows.
    pub tuple_count: u64,
    /// Bytes of all cells.
    pub cell_bytes: u64,
}
