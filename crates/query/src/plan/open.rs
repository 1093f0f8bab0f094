//! From a plan to the operator that carries it out.
//!
//! 1. What is opened takes no more memory than the plan says.

use super::Plan;
use super::joins::Opening;
use crate::index::IndexLookup;
use crate::join::workers::columns::{ColumnJoin, PairDecoder};
use crate::join::workers::worker_count_in;
use crate::join::{ColumnSink, Join, JoinStream, PairSink, Side};
use crate::key::KeyColumn;
use crate::{Execution, QueryError};
use serde::{Deserialize, Serialize};

/// Where a chunk of block nested loops ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ChunkRule {
    /// When its table is full.
    #[default]
    ByBytes,
    /// After as many pages of the outer side as S001 counts: the table over F.
    ByPages,
}

/// The indexes on the join key, of the sides that have one.
#[derive(Clone, Copy, Default)]
pub struct Indexes<'x> {
    /// The index on the left side's key, if there is one.
    pub left: Option<&'x dyn IndexLookup>,
    /// The index on the right side's key, if there is one.
    pub right: Option<&'x dyn IndexLookup>,
}

impl<'x> Indexes<'x> {
    /// No index on either side.
    pub const NONE: Self = Self { left: None, right: None };

    /// The index of one of the two sides.
    #[must_use]
    pub const fn of(&self, side: Side) -> Option<&'x dyn IndexLookup> {
        match side {
            Side::Left => self.left,
            Side::Right => self.right,
        }
    }
}

impl Plan {
    /// The side of `join` that this plan's question calls outer. The question has the left side there.
    #[must_use]
    pub const fn outer_side(&self) -> Side {
        if self.is_swapped { Side::Right } else { Side::Left }
    }

    /// Whether [`Self::open`] opens it with these indexes.
    #[must_use]
    pub fn is_opened_with(&self, indexes: Indexes<'_>) -> bool {
        self.division.join().is_opened_with(self.outer_side(), indexes)
    }

    /// Opens the join in all memory of the execution; the plan was made for as much. `indexes` are those that
    /// the plan's question had.
    ///
    /// # Errors
    /// If there is less memory, an index is missing, or this kind does not do the type of join with this side
    /// as outer one.
    pub fn open<'x>(
        &self,
        execution: &'x Execution,
        join: Join<'x>,
        indexes: Indexes<'x>,
        rule: ChunkRule,
    ) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let opening = Opening { execution, join, outer: self.outer_side(), indexes, rule };
        self.division.join().open(&opening)
    }

    /// Does the join as [`Self::run`], of columns that are wanted, left and right. Where the kind divides, both tables
    /// know their types and the outer side fits, nobody makes a row; else rows are joined, and what is wanted of the
    /// pairs is decoded. Gives how many workers there were.
    ///
    /// # Errors
    /// As [`Self::run`]; or if a column is not there, or a relation does not know the types of its columns.
    pub fn run_columns<S: ColumnSink>(
        &self,
        execution: &Execution,
        join: Join<'_>,
        wanted: [&[KeyColumn]; 2],
        (indexes, rule): (Indexes<'_>, ChunkRule),
        sinks: &mut [S],
    ) -> Result<usize, QueryError> {
        if self.division.join().joins_columns() && !sinks.is_empty() {
            let built = self.outer_side();
            let by_column = ColumnJoin::new(execution, join, built, wanted, sinks.len());
            if let Some(by_column) = by_column {
                let worker_count = by_column.worker_count();
                if by_column.run(execution, &mut sinks[..worker_count])? {
                    return Ok(worker_count);
                }
            }
        }
        let mut decoders = Vec::with_capacity(sinks.len());
        for sink in sinks {
            decoders.push(PairDecoder::new(&join, wanted, sink)?);
        }
        self.run(execution, join, indexes, rule, &mut decoders)
    }

    /// Does the join as [`Self::open`] opens it, with a worker for each sink, each in a thread of its own, as far as
    /// this kind and this memory can be divided: the sinks of other workers get nothing. Gives how many workers
    /// there were. Which worker finds which pair is not the same in two runs.
    ///
    /// # Errors
    /// As [`Self::open`] and [`JoinStream::advance`], and what a sink returns.
    pub fn run<S: PairSink>(
        &self,
        execution: &Execution,
        join: Join<'_>,
        indexes: Indexes<'_>,
        rule: ChunkRule,
        sinks: &mut [S],
    ) -> Result<usize, QueryError> {
        let opening = Opening { execution, join, outer: self.outer_side(), indexes, rule };
        let most = worker_count_in(sinks.len(), execution.limits().memory_pages, &join);
        // A kind may need more of a share than others.
        let shared = (2..=most).rev().find_map(|worker_count| {
            Some((worker_count, self.division.join().shared(&opening, worker_count)?))
        });
        if let Some((worker_count, shared)) = shared {
            shared.run(execution, join, &mut sinks[..worker_count])?;
            return Ok(worker_count);
        }
        let Some(sink) = sinks.first_mut() else { return Ok(0) };
        let mut stream = self.division.join().open(&opening)?;
        while stream.advance()? {
            sink.take(stream.batch())?;
        }
        Ok(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::{CostModel, CpuCosts, DeviceCosts, Estimate};
    use crate::cost::{JoinQuestion, JoinSide, RelationStats};
    use crate::join::JoinType;
    use crate::plan::{Budget, PoolShape, plans};
    use crate::testing::{RowShape, collect, execution, join, limits, random_rows};
    use crate::{JoinKind, Key, Relation};
    use nandu_base::Rng;

    /// Pages read and written, as a run books them.
    fn pages(counts: &crate::execution::IoCounts) -> (u64, u64) {
        (counts.read_bytes / 1024, counts.write_bytes / 1024)
    }

    #[test]
    fn plans_give_equal_results_and_write_as_much_as_they_say() {
        let shape = |row_count| RowShape {
            row_count,
            key_count: 2000,
            is_skewed: false,
            null_percent: 0,
            payload_bytes_max: 150,
        };
        let mut rng = Rng::new(11);
        let left = random_rows("left", shape(2000), 1024, &mut rng);
        let right = random_rows("right", shape(9000), 1024, &mut rng);
        let key = Key::of(&[0]);
        let device = DeviceCosts::from_rates(0, 100_000, 200_000_000, 100_000_000);
        let model = CostModel { device: &device, processor: &CpuCosts::NONE, reads_ahead: false };
        let side = |rows: &dyn Relation| JoinSide::new(RelationStats::of(rows.size(), 1024));
        let question = JoinQuestion::new(side(&left), side(&right), 5);
        for memory_pages in [24_u32, 60, 120, 400] {
            let budget = Budget {
                memory_pages: u64::from(memory_pages),
                write_bytes: None,
                pool: PoolShape::NONE,
                worker_count: 1,
            };
            let mut results = None;
            for plan in plans(&model, &question, &budget).feasible {
                if matches!(plan.kind, JoinKind::NestedLoops) {
                    continue;
                }
                let execution = execution(limits(1024, memory_pages));
                let join = join(&left, &right, &key, JoinType::Inner);
                let mut stream =
                    plan.open(&execution, join, Indexes::NONE, ChunkRule::ByBytes).unwrap();
                let pairs = collect(stream.as_mut()).unwrap();
                let expected = results.get_or_insert_with(|| pairs.clone());
                assert_eq!(&pairs, expected, "{} in {memory_pages}", plan.kind);
                let Estimate { pages_written, .. } = plan.estimate;
                let (_, written) = pages(&execution.io_counts());
                assert!(
                    written.abs_diff(pages_written) * 10 <= written.max(100),
                    "{memory_pages} pages: wrote {written}, estimated {pages_written}: {plan:?}"
                );
            }
        }
    }
}
