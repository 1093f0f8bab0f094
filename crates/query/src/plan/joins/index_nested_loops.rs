//! Index nested loops: pages to read the outer side, a batch of its rows, rows of the inner side, and the pool
//! between.

use super::{
    JoinPlan, MostWritten, Opening, inner_is_never_alone, narrow, noted_bytes, part_of, too_little,
};
use crate::cost::join::{IndexMemory, OuterAccess, index_nested_loops};
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::index::FetchOrder;
use crate::join::index_nested_loops::Settings;
use crate::join::{IndexNestedLoops, JoinStream, JoinType, Side};
use crate::plan::{Budget, Indexes, Rejection};
use crate::{JoinKind, QueryError};
use serde::Serialize;

/// Pages that read R: enough to make a request cheap, no more.
const INPUT_PAGES_MAX: u64 = 64;

/// Of index nested loops, and how the outer side is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct IndexLoopsMemory {
    /// How the outer side is read.
    pub access: OuterAccess,
    /// Pages for the outer side, for rows of the inner side and for the pool between.
    pub memory: IndexMemory,
    /// In which order rows of the inner side are fetched.
    pub order: FetchOrder,
}

impl JoinPlan for IndexLoopsMemory {
    fn does(join_type: JoinType, outer: Side) -> bool {
        inner_is_never_alone(join_type, outer)
    }

    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection> {
        let Budget { memory_pages, pool, .. } = *budget;
        if memory_pages < 3 {
            return Err(too_little(3));
        }
        if question.inner.index.is_none() {
            return Err(Rejection::NoIndex);
        }
        let input_pages = (memory_pages / 4).clamp(1, INPUT_PAGES_MAX).min(memory_pages - 2);
        let rest = memory_pages - input_pages;
        // A batch and the rows that it finds are full at the same time.
        let partners = question.pair_count / question.outer.stats.tuple_count.max(1);
        let outer_bytes = noted_bytes(&question.outer);
        let inner_bytes = noted_bytes(&question.inner).saturating_mul(partners.max(1));
        let shared = part_of(rest, outer_bytes, outer_bytes.saturating_add(inner_bytes));
        let mut candidates = Vec::new();
        for batch_pages in [shared, rest / 2] {
            let batch_pages = batch_pages.clamp(1, rest - 1);
            let inner_pages = rest - batch_pages;
            let memory = IndexMemory { input_pages, batch_pages, inner_pages, pool };
            for (access, order) in [
                (OuterAccess::TableScan, FetchOrder::Address),
                (OuterAccess::TableScan, FetchOrder::Key),
                (OuterAccess::KeyOrder, FetchOrder::Key),
                (OuterAccess::AddressOrder, FetchOrder::Key),
            ] {
                let is_opened = access == OuterAccess::TableScan || question.outer.is_key_range;
                if let Some(estimate) = index_nested_loops(model, question, access, &memory, order)
                    && is_opened
                {
                    candidates.push((Self { access, memory, order }, estimate));
                }
            }
        }
        Ok(candidates)
    }

    fn scans_fit(&self, question: &JoinQuestion, _memory_pages: u64) -> bool {
        self.memory.input_pages >= question.outer.stats.scan_pages_min()
    }

    fn most_written(&self, _: &CostModel<'_>, _: &JoinQuestion, _: u64) -> Option<MostWritten> {
        None
    }

    fn part_count(&self) -> u64 {
        0
    }

    fn is_opened_with(&self, outer: Side, indexes: Indexes<'_>) -> bool {
        self.access == OuterAccess::TableScan && indexes.of(outer.other()).is_some()
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, outer, indexes, .. } = *opening;
        let index = indexes.of(outer.other()).filter(|_| self.is_opened_with(outer, indexes));
        let index = index.ok_or_else(|| super::without_index(JoinKind::IndexNestedLoops))?;
        let settings = Settings {
            outer,
            input_pages: narrow(self.memory.input_pages),
            batch_pages: narrow(self.memory.batch_pages),
            inner_pages: narrow(self.memory.inner_pages),
            batch_rows_max: None,
            order: self.order,
        };
        Ok(Box::new(IndexNestedLoops::new(execution, join, index, settings)?))
    }
}
