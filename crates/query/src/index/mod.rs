//! Finding rows by key: a trait over the trees that a database has, and what joins and scans need
//! of it.
//!
//! ```text
//!   keys ─► tree ─► entries ─take─► RowBuffer: which rows, and of which key
//!                                       │
//!                                     load: those for which there is room come into memory
//!                                       │      clustered: they were in the entries
//!                                       ▼      secondary: fetched from the heap by number
//!                                     rows
//! ```
//!
//! All pages come through the buffer pool, many at a time. What it reads from the device is booked
//! with the execution.
//!
//! 1. An index has an entry for each row of its table, in the order of the key.

mod clustered;
mod entries;
mod key;
mod row_buffer;
mod secondary;

pub use clustered::ClusteredIndex;
pub use key::{IndexKey, KeyRange};
pub use row_buffer::RowBuffer;
pub use secondary::SecondaryIndex;

pub use nandu_storage::database::FetchOrder;

pub(crate) use entries::{EntryCursor, as_bytes};
pub(crate) use row_buffer::alone;
pub(crate) use secondary::KEY_ORDER_ROWS;

use crate::execution::Memory;
use crate::relation::RelationSize;
use crate::{Execution, QueryError};
use nandu_storage::btree::{Entry, Tree};
use nandu_storage::database::EngineView;

/// A tree by which rows of a table are found.
pub trait IndexLookup: Send + Sync {
    /// Its name, for explanations and errors.
    fn name(&self) -> &str;

    /// By what it is ordered.
    fn key(&self) -> &IndexKey;

    /// The B+-tree that holds the entries.
    fn tree(&self) -> Tree;

    /// What reads its pages.
    fn engine(&self) -> &EngineView;

    /// Whether its leaves hold the rows themselves.
    fn is_clustered(&self) -> bool;

    /// How large its table is.
    fn size(&self) -> RelationSize;

    /// Notes the row of an entry, which belongs to `group`; false if there is no room.
    ///
    /// # Errors
    /// If the entry is damaged.
    fn take(&self, entry: Entry<'_>, group: u32, rows: &mut RowBuffer) -> Result<bool, QueryError>;

    /// Brings rows that were noted into memory, as many as there is room for, in place of those
    /// that are there; false once all were there. In the order of keys each row comes before those
    /// that were noted after it.
    ///
    /// # Errors
    /// If the device fails, what it stores is damaged, or an entry leads to no row.
    fn load(
        &self,
        execution: &Execution,
        order: FetchOrder,
        rows: &mut RowBuffer,
    ) -> Result<bool, QueryError>;
}

impl RowBuffer {
    /// A buffer for rows of the table of `index`, as large as `memory`.
    #[must_use]
    pub fn for_index(index: &dyn IndexLookup, memory: &Memory<'_>) -> Self {
        let RelationSize { tuple_count, cell_bytes, .. } = index.size();
        Self::new(memory.bytes(), nandu_base::to_index(cell_bytes / tuple_count.max(1)))
    }
}
