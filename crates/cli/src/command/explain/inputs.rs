//! The two tables of a join as the user named them, and what there is to plan and run.

use super::{Costs, ExplainArguments};
use crate::failure::Failure;
use nandu::{TableDefinition, Tables};
use nandu_base::ByteCount;
use nandu_query::cost::CostModel;
use nandu_query::join::{Join, JoinType};
use nandu_query::plan::{Budget, Indexes, Plans, PoolShape, StoredSides, StoredTable, plans};
use nandu_query::{Limits, QueryError};

/// One side as the user wrote it: `TABLE.COLUMN` or `TABLE.COLUMN,COLUMN`.
#[derive(Clone, Debug)]
pub(super) struct SideArgument {
    table: String,
    columns: Vec<String>,
}

/// The two tables, opened.
pub(super) struct Inputs<'t> {
    tables: &'t Tables,
    sides: StoredSides<'t>,
    join_type: JoinType,
    pair_count: Option<u64>,
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
        let places = |side: &SideArgument| side.places(tables.definition(&side.table)?);
        let wanted_of = |side: &SideArgument| -> Result<Option<Vec<usize>>, Failure> {
            let Some(wanted) = wanted else { return Ok(None) };
            let here = wanted.iter().filter(|it| it.table.eq_ignore_ascii_case(&side.table));
            let places: Result<Vec<Vec<usize>>, Failure> = here.map(places).collect();
            Ok(Some(places?.concat()))
        };
        let (left_columns, right_columns) = (places(left)?, places(right)?);
        let (left_wanted, right_wanted) = (wanted_of(left)?, wanted_of(right)?);
        let stored = |side, columns, wanted| StoredTable { table: side, columns, wanted };
        let left = stored(&left.table, &left_columns, left_wanted.as_deref());
        let right = stored(&right.table, &right_columns, right_wanted.as_deref());
        let sides = StoredSides::open(tables, left, right)?;
        Ok(Self { tables, sides, join_type, pair_count: None })
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

    /// The indexes that serve the join.
    pub(super) fn indexes(&self) -> Indexes<'_> {
        self.sides.indexes()
    }

    /// The join of the two sides.
    pub(super) fn join(&self) -> Join<'_> {
        self.sides.join(self.join_type)
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
        let model = CostModel { device, processor, reads_ahead: true };
        let write_bytes = write_budget.map(|budget| budget.0);
        let memory_pages = u64::from(self.pages(memory));
        let pool = PoolShape::of(self.tables.engine().settings(), memory_pages);
        let budget = Budget { memory_pages, write_bytes, pool, worker_count };
        let question = self.sides.question(self.join_type, self.pair_count)?;
        Ok(plans(&model, &question, &budget))
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
