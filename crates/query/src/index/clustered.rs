//! A clustered table, found by its key or the first columns of that. The rows lie in the leaves.

use super::{FetchOrder, IndexKey, IndexLookup, RowBuffer};
use crate::relation::{RelationSize, clustered_size};
use crate::tuple::Tuple;
use crate::{Execution, QueryError};
use nandu_storage::btree::{Entry, Tree};
use nandu_storage::database::EngineView;
use nandu_storage::database::Tables;

/// The tree of a clustered table.
#[derive(Debug)]
pub struct ClusteredIndex<'t> {
    name: String,
    engine: &'t EngineView,
    tree: Tree,
    key: IndexKey,
    size: RelationSize,
}

impl<'t> ClusteredIndex<'t> {
    /// A table of an open database. Looks at some leaves to estimate its size.
    ///
    /// # Errors
    /// If there is no such clustered table, or the device fails.
    pub fn open(tables: &'t Tables, table: &str) -> Result<Self, QueryError> {
        let definition = tables.definition(table)?;
        let (engine, tree) = (tables.engine(), tables.clustered_tree(table)?);
        let (size, _) = clustered_size(engine, tree)?;
        let key = IndexKey::new(definition, definition.key_columns(), true);
        Ok(Self { name: table.to_owned(), engine, tree, key, size })
    }
}

impl IndexLookup for ClusteredIndex<'_> {
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
        true
    }

    fn size(&self) -> RelationSize {
        self.size
    }

    fn take(
        &self,
        (_, record): Entry<'_>,
        group: u32,
        rows: &mut RowBuffer,
    ) -> Result<bool, QueryError> {
        Ok(rows.note_row(Tuple { row_number: 0, record }, group))
    }

    fn load(
        &self,
        _execution: &Execution,
        _order: FetchOrder,
        rows: &mut RowBuffer,
    ) -> Result<bool, QueryError> {
        // The rows came with their entries.
        Ok(rows.begin_load())
    }
}
