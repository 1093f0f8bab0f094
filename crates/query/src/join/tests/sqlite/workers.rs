//! Plans by one to four workers, by row and by column.

use super::{Case, ID, Pair, Rows, execution_on, ids_of};
use crate::columns::ColumnRows;
use crate::join::{ColumnPairs, ColumnSink, Join};
use crate::key::KeyColumn;
use crate::plan::{ChunkRule, Indexes, Plan};
use crate::{PairBatch, QueryError};
use nandu_base::{to_index, to_u32};
use nandu_storage::database::Tables;
use nandu_storage::sqlite::ValueRef;

/// Runs a plan by one to four workers, in memory that is enough for so many.
pub(super) fn check(
    case: &Case,
    tables: &Tables,
    (join, indexes): (Join<'_>, Indexes<'_>),
    rows: &[Rows; 2],
    (plan, memory_pages): (&Plan, u32),
    wanted: &[Pair],
) {
    for wanted_count in 1..=4 {
        let memory_pages = memory_pages + 16 * (to_u32(wanted_count as u64) - 1);
        let execution = execution_on(tables, case.limits(memory_pages));
        let mut sinks: Vec<Vec<Pair>> = (0..wanted_count).map(|_| Vec::new()).collect();
        let worker_count = {
            let mut takers: Vec<_> = sinks
                .iter_mut()
                .map(|pairs| {
                    move |batch: PairBatch<'_>| {
                        pairs.extend(ids_of(batch, rows));
                        Ok(())
                    }
                })
                .collect();
            plan.run(&execution, join, indexes, ChunkRule::ByBytes, &mut takers)
        };
        let told = format!("{} {case:?} by {plan:?} and {wanted_count} workers", plan.kind);
        let worker_count = worker_count.unwrap_or_else(|error| panic!("{told}: {error}"));
        assert!((1..=wanted_count).contains(&worker_count), "{told}: {worker_count}");
        let mut found = sinks.concat();
        found.sort_unstable();
        assert!(found == wanted, "{told} gives other pairs");
        execution.audit();
        assert_eq!(execution.free_pages(), memory_pages, "{told}");
        let mut sinks = vec![ByColumn { rows, pairs: Vec::new() }; wanted_count];
        let columns = WANTED.map(KeyColumn::Stored);
        let how = (indexes, ChunkRule::ByBytes);
        let ran = plan.run_columns(&execution, join, [&columns; 2], how, &mut sinks);
        ran.unwrap_or_else(|error| panic!("{told} by column: {error}"));
        let mut found: Vec<Pair> = sinks.into_iter().flat_map(|sink| sink.pairs).collect();
        found.sort_unstable();
        assert!(found == wanted, "{told} gives other pairs by column");
        execution.audit();
        assert_eq!(execution.free_pages(), memory_pages, "{told} by column");
    }
}

/// What is wanted by column: few enough, not in the order of the columns.
const WANTED: [usize; 2] = [ID, 0];

/// Takes pairs by column, and compares them with what was stored.
#[derive(Clone)]
struct ByColumn<'r> {
    rows: &'r [Rows; 2],
    pairs: Vec<Pair>,
}

impl ColumnSink for ByColumn<'_> {
    fn take(&mut self, pairs: ColumnPairs<'_>) -> Result<(), QueryError> {
        for place in 0..pairs.row_count() {
            let id = |side: Option<ColumnRows<'_>>, rows: &Rows| {
                let ColumnRows { batch, places } = side?;
                let row = to_index(places[place].into());
                let value = |column: usize| batch.columns()[column].value(row);
                let ValueRef::Integer(id) = value(0) else { panic!("{:?} is no id", value(0)) };
                let stored = &rows[usize::try_from(id).unwrap()];
                let second = WANTED[1];
                assert_eq!(value(1), stored[second].as_ref(), "column {second} of row {id}");
                batch.audit();
                Some(id)
            };
            let [left, right] = self.rows;
            self.pairs.push((id(pairs.left, left), id(pairs.right, right)));
        }
        Ok(())
    }
}
