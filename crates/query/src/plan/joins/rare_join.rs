//! RARE-join: shares of the memory for the kernel beside a sort, for each sort, for fetches, and for rows of S.

use super::hybrid_hash::kernel_settings;
use super::late::{SLOT_COUNTS, kernel_of, kernel_pages_min, least_pages, slot_pages};
use super::{JoinPlan, MostWritten, Opening, check_marking, narrow, too_little};
use crate::QueryError;
use crate::cost::join::{RareMemory, rare_join};
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::join::rare_join::Settings;
use crate::join::{JoinStream, RareJoin};
use crate::plan::{Budget, Rejection};

/// Pages of the smallest sort.
const SORT_PAGES_MIN: u64 = crate::join::rare_join::SORT_PAGES_MIN as u64;

impl JoinPlan for RareMemory {
    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection> {
        let memory = budget.memory_pages;
        check_marking(question, memory)?;
        let slot_pages = slot_pages(question).ok_or(Rejection::NoColumns)?;
        let mut candidates = Vec::new();
        for fetch_pages in SLOT_COUNTS.map(|count| count * slot_pages) {
            let Some(rest) = memory.checked_sub(fetch_pages) else { continue };
            let row_pages = (rest / 16).max(1);
            let sort_pages = rest.saturating_sub(row_pages) / 2;
            if sort_pages < SORT_PAGES_MIN {
                continue;
            }
            let kernel_pages = memory - sort_pages;
            if kernel_pages < kernel_pages_min(question) {
                continue;
            }
            let Some(kernel) = kernel_of(model, question, kernel_pages) else { continue };
            let parts = Self { kernel_pages, kernel, sort_pages, fetch_pages, row_pages };
            let estimate = rare_join(model, question, &parts);
            candidates.extend(estimate.map(|it| (parts, it)));
        }
        if candidates.is_empty() {
            let least = least_pages(question, slot_pages, 1 + 2 * SORT_PAGES_MIN);
            return Err(too_little(least.max(memory + 1)));
        }
        match budget.write_bytes {
            Some(_) if question.pairs_are_guessed => Err(Rejection::UnknownPairs),
            _ => Ok(candidates),
        }
    }

    /// The kernel was divided by this rule when the division was made.
    fn scans_fit(&self, _question: &JoinQuestion, _memory_pages: u64) -> bool {
        true
    }

    fn most_written(
        &self,
        model: &CostModel<'_>,
        larger: &JoinQuestion,
        _memory_pages: u64,
    ) -> Option<MostWritten> {
        // The join sorts rows whose lengths differ, so that less of them may fit: estimated also with two thirds
        // of the sort's memory, and the worse of both counts.
        let shorter = Self { sort_pages: (self.sort_pages * 2 / 3).max(1), ..*self };
        let written = [self, &shorter]
            .map(|parts| rare_join(model, larger, parts).unwrap_or_default().pages_written);
        Some(MostWritten { pages: written[0].max(written[1]), grows_with_skew: true })
    }

    fn part_count(&self) -> u64 {
        self.kernel.bucket_count + 2
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, outer, .. } = *opening;
        let kernel = (self.kernel_pages, &self.kernel);
        let settings = Settings {
            kernel: kernel_settings(kernel, join, outer, execution),
            sort_pages: narrow(self.sort_pages),
            fetch_pages: narrow(self.fetch_pages),
            row_pages: narrow(self.row_pages),
        };
        Ok(Box::new(RareJoin::new(execution, join, settings)?))
    }
}
