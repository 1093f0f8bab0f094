//! Nested loops: one page reads the outer side, or as many as its scan takes, the rest the inner one.

use super::{JoinPlan, MostWritten, Opening, inner_is_never_alone, too_little};
use crate::QueryError;
use crate::cost::join::nested_loops;
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::join::nested_loops::Settings;
use crate::join::{JoinStream, JoinType, NestedLoops, Side};
use crate::plan::{Budget, Rejection};
use serde::Serialize;

/// One page for the outer side, the rest for the inner one: there is nothing to choose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct LoopsMemory;

impl JoinPlan for LoopsMemory {
    fn does(join_type: JoinType, outer: Side) -> bool {
        inner_is_never_alone(join_type, outer)
    }

    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection> {
        if budget.memory_pages < 2 {
            return Err(too_little(2));
        }
        Ok(vec![(Self, nested_loops(model, question, budget.memory_pages))])
    }

    fn scans_fit(&self, question: &JoinQuestion, memory_pages: u64) -> bool {
        let both = [question.outer, question.inner].map(|side| side.stats.scan_pages_min());
        both[0] + both[1] <= memory_pages
    }

    fn most_written(&self, _: &CostModel<'_>, _: &JoinQuestion, _: u64) -> Option<MostWritten> {
        None
    }

    fn part_count(&self) -> u64 {
        0
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, outer, .. } = *opening;
        let outer_pages = join.input(outer).relation.scan_pages_min();
        let inner_pages = execution.limits().memory_pages.saturating_sub(outer_pages);
        let settings = Settings { outer, outer_pages, inner_pages, inner_is_unique: false };
        Ok(Box::new(NestedLoops::new(execution, join, settings)?))
    }
}
