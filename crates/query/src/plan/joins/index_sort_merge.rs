//! Index sort-merge: pages of rows for either side of the walk.

use super::{JoinPlan, MostWritten, Opening, narrow, noted_bytes, part_of, too_little};
use crate::cost::join::{IndexMergeMemory, index_sort_merge};
use crate::cost::{CostModel, Estimate, JoinQuestion, JoinSide};
use crate::index::{FetchOrder, KeyRange};
use crate::join::index_sort_merge::Settings;
use crate::join::{IndexSortMerge, JoinStream, Side};
use crate::plan::{Budget, Indexes, Rejection};
use crate::{JoinKind, QueryError};

impl JoinPlan for IndexMergeMemory {
    fn roles(_question: &JoinQuestion) -> &'static [bool] {
        &[false]
    }

    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection> {
        let Budget { memory_pages: memory, pool, .. } = *budget;
        if question.outer.index.is_none() || question.inner.index.is_none() {
            return Err(Rejection::NoIndex);
        }
        if memory < 4 {
            return Err(too_little(4));
        }
        let bytes = |side: &JoinSide| noted_bytes(side).saturating_mul(side.stats.tuple_count);
        let (outer, inner) = (bytes(&question.outer), bytes(&question.inner));
        let shared = part_of(memory, outer, outer.saturating_add(inner));
        let candidates =
            [shared, shared.saturating_mul(2), memory / 2].into_iter().filter_map(|pages| {
                let outer_pages = pages.clamp(2, memory - 2);
                let parts = Self { outer_pages, inner_pages: memory - outer_pages, pool };
                let estimate = index_sort_merge(model, question, &parts)?;
                Some((parts, estimate))
            });
        Ok(candidates.collect())
    }

    fn scans_fit(&self, _question: &JoinQuestion, _memory_pages: u64) -> bool {
        true
    }

    fn most_written(&self, _: &CostModel<'_>, _: &JoinQuestion, _: u64) -> Option<MostWritten> {
        None
    }

    fn part_count(&self) -> u64 {
        0
    }

    fn is_opened_with(&self, _outer: Side, indexes: Indexes<'_>) -> bool {
        indexes.left.is_some() && indexes.right.is_some()
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, outer, indexes, .. } = *opening;
        let both = indexes.left.zip(indexes.right);
        let both = both.ok_or_else(|| super::without_index(JoinKind::IndexSortMerge))?;
        let (outer_pages, inner_pages) = (narrow(self.outer_pages), narrow(self.inner_pages));
        let (left_pages, right_pages) = match outer {
            Side::Left => (outer_pages, inner_pages),
            Side::Right => (inner_pages, outer_pages),
        };
        let settings = Settings {
            left_pages,
            right_pages,
            order: FetchOrder::Address,
            left_range: KeyRange::ALL,
            right_range: KeyRange::ALL,
        };
        Ok(Box::new(IndexSortMerge::new(execution, join, both, &settings)?))
    }
}
