//! Sort-merge: how each side is sorted, and the pages of the merge.

use super::{JoinPlan, MostWritten, Opening, around, needed, scan_pages_min};
use crate::allocation::{RunFormation, RunSeeks, SortMerge};
use crate::cost::join::sort_merge;
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::join::sort_merge::{Settings, group_pages};
use crate::join::workers::{MergeSettings, SharedJoin};
use crate::join::{self, JoinStream};
use crate::plan::{Budget, Rejection};
use crate::{QueryError, sort};

impl JoinPlan for SortMerge {
    fn is_shared() -> bool {
        true
    }

    fn roles(_question: &JoinQuestion) -> &'static [bool] {
        &[false]
    }

    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection> {
        let memory = budget.memory_pages;
        let sizes = question.sort_sizes();
        let times = model.device.request_times(question.inner.stats.page_bytes);
        let mut tried = Vec::new();
        for seeks in [RunSeeks::Charged, RunSeeks::Free] {
            let form = Self::allocate(&sizes, memory, &times, seeks).map_err(needed)?;
            tried.push(form.input_pages);
            tried.extend(around(form.input_pages, memory / 2));
        }
        let candidates = tried.into_iter().filter_map(|input_pages| {
            let formation = RunFormation::default();
            let parts = Self::with_input(&sizes, memory, input_pages, formation).ok()?;
            Some((parts, sort_merge(model, question, memory, &parts)))
        });
        Ok(candidates.collect())
    }

    fn scans_fit(&self, question: &JoinQuestion, _memory_pages: u64) -> bool {
        self.input_pages >= scan_pages_min(question)
    }

    fn most_written(
        &self,
        model: &CostModel<'_>,
        larger: &JoinQuestion,
        memory_pages: u64,
    ) -> Option<MostWritten> {
        // Rows of many lengths leave gaps in the work space, so runs may be shorter.
        let workspace_pages = self.workspace_pages * 2 / 3;
        let shorter = Self { workspace_pages: workspace_pages.max(1), ..*self };
        let written = [self, &shorter]
            .map(|parts| sort_merge(model, larger, memory_pages, parts).pages_written);
        Some(MostWritten { pages: written[0].max(written[1]), grows_with_skew: false })
    }

    fn part_count(&self) -> u64 {
        self.run_count()
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, .. } = *opening;
        Ok(Box::new(join::SortMerge::new(execution, join, settings(self, opening))?))
    }

    fn shared(&self, opening: &Opening<'_>, worker_count: usize) -> Option<SharedJoin> {
        let settings = settings(self, opening);
        MergeSettings::of(&settings, &opening.join, worker_count).map(SharedJoin::Merge)
    }
}

fn settings(parts: &SortMerge, opening: &Opening<'_>) -> Settings {
    Settings {
        sort: sort::Settings::of(parts, RunFormation::ReplacementSelection),
        group: opening.outer,
        group_pages: group_pages(opening.execution.limits().memory_pages),
    }
}
