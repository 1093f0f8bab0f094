//! Two stored tables as the sides of a join: opened by how they are stored, with the index that serves it, and
//! what a planner asks about them.
//!
//! ```text
//!   StoredTable, StoredTable ─► StoredSides ─┬─ join(type), indexes() ─► Plan::open, Plan::run
//!                                            └─ question(type, pairs) ─► plans
//! ```
//!
//! 1. Both sides compare columns of kinds that can be equal.
//! 2. Of a table in PAX pages what is not wanted is not read, but for what is compared.
//! 3. An index serves a join if its columns are those that are compared, in their order; a tree, if its key
//!    begins with them.

use super::Indexes;
use crate::cost::{IndexStats, JoinQuestion, JoinSide};
use crate::index::{ClusteredIndex, IndexLookup, SecondaryIndex};
use crate::join::{Join, JoinInput, JoinType, check_comparable};
use crate::relation::{ClusteredRelation, HeapRelation, PaxRelation, Relation};
use crate::{Key, QueryError};
use nandu_storage::database::{ReadAs, TableDefinition, Tables};

/// A stored table that is joined, and which of its columns matter.
#[derive(Clone, Copy, Debug)]
pub struct StoredTable<'a> {
    /// What the table is called in its database.
    pub table: &'a str,
    /// The columns that are compared, by index.
    pub columns: &'a [usize],
    /// The columns that are wanted, all without it. Only of tables in PAX pages others are not read.
    pub wanted: Option<&'a [usize]>,
}

/// Both tables, opened.
pub struct StoredSides<'t> {
    left: StoredSide<'t>,
    right: StoredSide<'t>,
    page_bytes: u32,
}

struct StoredSide<'t> {
    relation: Box<dyn Relation + 't>,
    index: Option<Box<dyn IndexLookup + 't>>,
    key: Key,
}

impl<'t> StoredSides<'t> {
    /// Opens both tables, and looks at some of their pages to know how large they are.
    ///
    /// # Errors
    /// If there is no such table, joins do not read its kind, the columns can never be equal, or
    /// the device fails.
    ///
    /// # Panics
    /// If a table has no such column, or there is none to compare.
    pub fn open(
        tables: &'t Tables,
        left: StoredTable<'_>,
        right: StoredTable<'_>,
    ) -> Result<Self, QueryError> {
        for table in [left.table, right.table] {
            read_as(tables.definition(table)?)?;
        }
        let keys = (Key::of(left.columns), Key::of(right.columns));
        check_comparable(
            (tables.definition(left.table)?, &keys.0),
            (tables.definition(right.table)?, &keys.1),
        )?;
        let page_bytes = tables.engine().settings().page_bytes;
        let left = StoredSide::open(tables, left, keys.0)?;
        let right = StoredSide::open(tables, right, keys.1)?;
        Ok(Self { left, right, page_bytes })
    }

    /// The join of the two.
    #[must_use]
    pub fn join(&self, join_type: JoinType) -> Join<'_> {
        Join { left: self.left.input(), right: self.right.input(), join_type }
    }

    /// The indexes that serve it.
    #[must_use]
    pub fn indexes(&self) -> Indexes<'_> {
        Indexes { left: self.left.index.as_deref(), right: self.right.index.as_deref() }
    }

    /// What to ask the planner: there are so many pairs of equal keys, or nobody knows, and each row of the larger
    /// side is thought to have a partner.
    ///
    /// # Errors
    /// If an index cannot be read.
    pub fn question(
        &self,
        join_type: JoinType,
        pair_count: Option<u64>,
    ) -> Result<JoinQuestion, QueryError> {
        let row_count = |side: &StoredSide<'_>| side.relation.size().tuple_count;
        let duplicates = row_count(&self.right) / row_count(&self.left).max(1);
        let (left, right) = (self.left.known(self.page_bytes)?, self.right.known(self.page_bytes)?);
        let mut question = JoinQuestion::new(left, right, duplicates.max(1));
        question.pair_count = pair_count.unwrap_or(question.pair_count);
        question.pairs_are_guessed = pair_count.is_none();
        Ok(question.with_join_type(join_type))
    }
}

/// How operators read a table.
fn read_as(definition: &TableDefinition) -> Result<ReadAs, QueryError> {
    definition.kind.read_as().ok_or_else(|| {
        let (table, kind) = (&definition.name, definition.kind.label());
        let what = format!("table {table} is {kind}: joins do not read it, only scans do");
        QueryError::Invalid { what }
    })
}

impl<'t> StoredSide<'t> {
    fn open(tables: &'t Tables, stored: StoredTable<'_>, key: Key) -> Result<Self, QueryError> {
        let StoredTable { table, columns, wanted } = stored;
        let definition = tables.definition(table)?;
        let mut index: Option<Box<dyn IndexLookup + 't>> = None;
        let relation: Box<dyn Relation + 't> = match read_as(definition)? {
            ReadAs::Pax => Box::new(PaxRelation::open(tables, table, &key, wanted)?),
            ReadAs::Clustered => {
                if definition.key_columns().starts_with(columns) {
                    index = Some(Box::new(ClusteredIndex::open(tables, table)?));
                }
                Box::new(ClusteredRelation::open(tables, table)?)
            }
            ReadAs::Heap => {
                let found = definition.indexes.iter().find(|index| index.columns == columns);
                if let Some(found) = found {
                    let opened = SecondaryIndex::open(tables, table, &found.name, false)?;
                    index = Some(Box::new(opened));
                }
                Box::new(HeapRelation::open(tables, table)?)
            }
        };
        Ok(Self { relation, index, key })
    }

    /// What the planner knows of it.
    fn known(&self, page_bytes: u32) -> Result<JoinSide, QueryError> {
        let side = JoinSide::of(self.relation.as_ref(), u64::from(page_bytes));
        Ok(match &self.index {
            Some(index) => side.with_index(IndexStats::of(index.as_ref())?),
            None => side,
        })
    }

    fn input(&self) -> JoinInput<'_> {
        JoinInput { relation: self.relation.as_ref(), key: &self.key }
    }
}
