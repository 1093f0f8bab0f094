//! The two tables of a join, opened: heaps, trees and PAX pages, what is compared, and the index that serves it.
//!
//! 1. Both sides compare as many columns, of kinds that can be equal.
//! 2. Of a table in PAX pages what is not asked for is not read, but for what is compared.
//! 3. An index serves a join if its columns are those that are compared, in their order; a tree, if its key
//!    begins with them.

use super::{Costs, ExplainArguments};
use crate::failure::Failure;
use nandu::{TableDefinition, TableKind, Tables};
use nandu_base::ByteCount;
use nandu_query::cost::{Convention, CostModel, IndexStats, JoinQuestion, JoinSide};
use nandu_query::index::{ClusteredIndex, IndexLookup, SecondaryIndex};
use nandu_query::join::{Join, JoinInput, JoinType, check_comparable};
use nandu_query::plan::{Budget, Indexes, Plans, plans};
use nandu_query::relation::{ClusteredRelation, HeapRelation, PaxRelation};
use nandu_query::{Key, Limits, QueryError, Relation};

/// One side as the user wrote it: `TABLE.COLUMN` or `TABLE.COLUMN,COLUMN`.
#[derive(Clone, Debug)]
pub(super) struct SideArgument {
    table: String,
    columns: Vec<String>,
}

/// The two tables, opened.
pub(super) struct Inputs<'t> {
    tables: &'t Tables,
    left: Side<'t>,
    right: Side<'t>,
    join_type: JoinType,
    pair_count: Option<u64>,
}

struct Side<'t> {
    relation: Box<dyn Relation + 't>,
    index: Option<Box<dyn IndexLookup + 't>>,
    key: Key,
}

impl SideArgument {
    /// Reads a side of the join, as clap asks.
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let refused = || format!("{text:?} is no TABLE.COLUMN and no TABLE.COLUMN,COLUMN");
        let (table, columns) = text.split_once('.').ok_or_else(refused)?;
        let columns: Vec<String> = columns.split(',').map(str::to_owned).collect();
        if table.is_empty() || columns.iter().any(String::is_empty) {
            return Err(refused());
        }
        Ok(Self { table: table.to_owned(), columns })
    }

    /// Where the table has the columns.
    fn places(&self, definition: &TableDefinition) -> Result<Vec<usize>, Failure> {
        let places = self.columns.iter().map(|name| definition.column(name));
        Ok(places.collect::<Result<_, _>>()?)
    }
}

impl<'t> Side<'t> {
    fn open(
        tables: &'t Tables,
        argument: &SideArgument,
        wanted: Option<&[SideArgument]>,
    ) -> Result<Self, Failure> {
        let definition = tables.definition(&argument.table)?;
        let columns = argument.places(definition)?;
        let key = Key::of(&columns);
        let table = &argument.table;
        if let TableKind::Pax { .. } = &definition.kind {
            let wanted = wanted.map(|all| {
                let here = all.iter().filter(|it| it.table.eq_ignore_ascii_case(table));
                let places: Result<Vec<Vec<usize>>, Failure> =
                    here.map(|it| it.places(definition)).collect();
                Ok::<_, Failure>(places?.concat())
            });
            let wanted = wanted.transpose()?;
            let relation = PaxRelation::open(tables, table, &key, wanted.as_deref())?;
            return Ok(Self { relation: Box::new(relation), index: None, key });
        }
        if let TableKind::Clustered { key: ordered_by } = &definition.kind {
            let relation = Box::new(ClusteredRelation::open(tables, table)?);
            let index: Option<Box<dyn IndexLookup + 't>> = match ordered_by.starts_with(&columns) {
                true => Some(Box::new(ClusteredIndex::open(tables, table)?)),
                false => None,
            };
            return Ok(Self { relation, index, key });
        }
        let found = definition.indexes.iter().find(|index| index.columns == columns);
        let index: Option<Box<dyn IndexLookup + 't>> = match found {
            Some(index) => Some(Box::new(SecondaryIndex::open(tables, table, &index.name, false)?)),
            None => None,
        };
        let relation = Box::new(HeapRelation::open(tables, table)?);
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

impl<'t> Inputs<'t> {
    /// Opens both tables; of those in PAX pages the columns that are `wanted`, all without it.
    pub(super) fn open(
        tables: &'t Tables,
        (left, right): (&SideArgument, &SideArgument),
        wanted: Option<&[SideArgument]>,
        join_type: JoinType,
    ) -> Result<Self, Failure> {
        let stranger = wanted.into_iter().flatten().find(|it| {
            [left, right].iter().all(|side| !side.table.eq_ignore_ascii_case(&it.table))
        });
        if let Some(SideArgument { table, .. }) = stranger {
            let (left, right) = (&left.table, &right.table);
            return Err(Failure::input(format!(
                "--columns {table}: the join is of {left} and {right}; name columns of these"
            )));
        }
        let counts = (left.columns.len(), right.columns.len());
        if counts.0 != counts.1 {
            return Err(Failure::input(format!(
                "{} is to be compared by {} of its columns, {} by {}; name as many of both",
                left.table, counts.0, right.table, counts.1
            )));
        }
        let definitions = (tables.definition(&left.table)?, tables.definition(&right.table)?);
        let left = Side::open(tables, left, wanted)?;
        let right = Side::open(tables, right, wanted)?;
        check_comparable((definitions.0, &left.key), (definitions.1, &right.key))?;
        Ok(Self { tables, left, right, join_type, pair_count: None })
    }

    /// The same with as many pairs of equal keys as somebody knows of.
    pub(super) const fn with_pairs(mut self, pair_count: Option<u64>) -> Self {
        self.pair_count = pair_count;
        self
    }

    /// The tables that they are of.
    pub(super) const fn tables(&self) -> &'t Tables {
        self.tables
    }

    fn page_bytes(&self) -> u32 {
        self.tables.engine().settings().page_bytes
    }

    fn pages(&self, memory: ByteCount) -> u32 {
        u32::try_from(memory.0 / u64::from(self.page_bytes())).unwrap_or(u32::MAX)
    }

    fn question(&self) -> Result<JoinQuestion, QueryError> {
        let row_count = |side: &Side<'_>| side.relation.size().tuple_count;
        let duplicates = row_count(&self.right) / row_count(&self.left).max(1);
        let left = self.left.known(self.page_bytes())?;
        let right = self.right.known(self.page_bytes())?;
        let mut question = JoinQuestion::new(left, right, duplicates.max(1));
        question.pair_count = self.pair_count.unwrap_or(question.pair_count);
        question.pairs_are_guessed = self.pair_count.is_none();
        Ok(question.with_join_type(self.join_type))
    }

    /// The indexes that serve the join.
    pub(super) fn indexes(&self) -> Indexes<'_> {
        Indexes { left: self.left.index.as_deref(), right: self.right.index.as_deref() }
    }

    /// The join of the two sides.
    pub(super) fn join(&self) -> Join<'_> {
        Join { left: self.left.input(), right: self.right.input(), join_type: self.join_type }
    }

    /// All plans in so much memory.
    pub(super) fn plans(
        &self,
        costs: Costs<'_>,
        memory: ByteCount,
        arguments: &ExplainArguments,
    ) -> Result<Plans, QueryError> {
        self.plans_with(costs, memory, (arguments.write_budget, arguments.thread_count()))
    }

    /// The same with another write budget.
    pub(super) fn plans_with(
        &self,
        (device, _, processor): Costs<'_>,
        memory: ByteCount,
        (write_budget, worker_count): (Option<ByteCount>, u32),
    ) -> Result<Plans, QueryError> {
        let convention = Convention::AsBuilt { reads_ahead: true };
        let model = CostModel { device, processor, convention };
        let write_bytes = write_budget.map(|budget| budget.0);
        let memory_pages = u64::from(self.pages(memory));
        let pool_bytes = self.tables.engine().settings().pool_bytes;
        let pool_pages = (pool_bytes / u64::from(self.page_bytes())).saturating_sub(memory_pages);
        let budget = Budget { memory_pages, write_bytes, pool_pages, worker_count };
        Ok(plans(&model, &self.question()?, &budget))
    }

    /// The limits of a run.
    pub(super) fn limits(&self, memory: ByteCount, write_budget: Option<ByteCount>) -> Limits {
        Limits {
            page_bytes: self.page_bytes(),
            memory_pages: self.pages(memory),
            write_budget_bytes: write_budget.map(|budget| budget.0),
            reads_ahead: true,
            work_costs: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_is_a_table_and_its_columns() {
        let side = SideArgument::parse("orders.o_custkey").unwrap();
        assert_eq!((side.table.as_str(), side.columns.len()), ("orders", 1));
        let side = SideArgument::parse("customer.a,b").unwrap();
        assert_eq!(side.columns, ["a", "b"]);
        for text in ["orders", ".a", "orders.", "orders.a,", "orders.,b"] {
            assert!(SideArgument::parse(text).unwrap_err().contains("TABLE.COLUMN"), "{text}");
        }
    }
}
