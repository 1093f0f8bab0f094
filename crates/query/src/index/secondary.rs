//! A secondary index of a heap table: its entries name rows by number, which are fetched from the
//! heap, a batch at a time: in the order of the keys, or in that in which they lie there (S000
//! section 4.2 has what that is worth on flash and on disk).

use super::{FetchOrder, IndexKey, IndexLookup, RowBuffer};
use crate::relation::{RelationSize, leaves_of};
use crate::tuple::Tuple;
use crate::{Execution, QueryError};
use nandu_storage::StorageError;
use nandu_storage::btree::{Entry, Tree};
use nandu_storage::database::EngineView;
use nandu_storage::database::{Tables, key};
use nandu_storage::sqlite::TableTree;

/// How many rows are fetched at once in the order of the keys: enough to keep a device's queue
/// full.
pub(crate) const KEY_ORDER_ROWS: usize = 128;

/// An index and its table.
#[derive(Debug)]
pub struct SecondaryIndex<'t> {
    name: String,
    engine: &'t EngineView,
    tree: Tree,
    heap: TableTree,
    key: IndexKey,
    size: RelationSize,
}

impl<'t> SecondaryIndex<'t> {
    /// An index of a table of an open database. `is_unique` promises that no two rows have the same
    /// values in its columns, so that a search stops at the first. Looks at some leaves to estimate
    /// the table's size.
    ///
    /// # Errors
    /// If there is no such table or index, or the device fails.
    pub fn open(
        tables: &'t Tables,
        table: &str,
        index: &str,
        is_unique: bool,
    ) -> Result<Self, QueryError> {
        let (engine, tree) = (tables.engine(), tables.index_tree(table, index)?);
        let (heap, definition) = (tables.heap_tree(table)?, tables.definition(table)?);
        let found = definition.indexes.iter().find(|known| known.file == tree.file());
        let columns = &found.expect("the index has a tree").columns;
        let key = IndexKey::new(definition, columns, is_unique);
        let (_, size) = leaves_of(engine, &heap)?;
        Ok(Self { name: format!("{table}.{index}"), engine, tree, heap, key, size })
    }

    /// Fetches rows that were noted, one window of them.
    fn fetch(
        &self,
        execution: &Execution,
        wanted: &mut [u32],
        rows: &mut RowBuffer,
    ) -> Result<(), QueryError> {
        wanted.sort_unstable_by_key(|&index| rows.items()[index as usize].row_number);
        let numbers: Vec<i64> =
            wanted.iter().map(|&index| rows.items()[index as usize].row_number).collect();
        let mut found = 0;
        execution.through_pool(self.engine, || {
            self.heap.get_batch(self.engine, &numbers, |at, record| {
                found += 1;
                rows.load(wanted[at], Tuple { row_number: numbers[at], record: record.bytes() });
            })
        })?;
        if found == numbers.len() {
            return Ok(());
        }
        let what = format!(
            "{} of its entries lead to no row, one of them among rows {} to {}; check the database",
            numbers.len() - found,
            numbers[0],
            numbers[numbers.len() - 1]
        );
        Err(StorageError::Corrupt { place: format!("index {}", self.name), what }.into())
    }
}

impl IndexLookup for SecondaryIndex<'_> {
    fn name(&self) -> &str {
        &self.name
    }

    fn key(&self) -> &IndexKey {
        &self.key
    }

    fn tree(&self) -> Tree {
        self.tree
    }

    fn engine(&self) -> &EngineView {
        self.engine
    }

    fn is_clustered(&self) -> bool {
        false
    }

    fn size(&self) -> RelationSize {
        self.size
    }

    fn take(
        &self,
        (entry, _): Entry<'_>,
        group: u32,
        rows: &mut RowBuffer,
    ) -> Result<bool, QueryError> {
        let (_, row_number) = key::split_row_number(entry)?;
        Ok(rows.note(row_number, group))
    }

    fn load(
        &self,
        execution: &Execution,
        order: FetchOrder,
        rows: &mut RowBuffer,
    ) -> Result<bool, QueryError> {
        if rows.begin_load() {
            return Ok(true);
        }
        let is_in_order = order == FetchOrder::Key;
        let count_max = if is_in_order { KEY_ORDER_ROWS } else { usize::MAX };
        let mut wanted = Vec::new();
        rows.noted(count_max, &mut wanted);
        if wanted.is_empty() {
            return Ok(false);
        }
        let first = wanted[0];
        self.fetch(execution, &mut wanted, rows)?;
        if rows.end_load(is_in_order) {
            return Ok(true);
        }
        // Later rows took all the room; the first one alone always has it.
        rows.begin_load();
        self.fetch(execution, &mut [first], rows)?;
        Ok(rows.end_load(is_in_order))
    }
}
