//! FlashJoin: shares of the memory for the kernel, for a batch of pairs, and for fetches a slot or several.

use super::hybrid_hash::kernel_settings;
use super::late::{
    KERNEL_SHARES, SLOT_COUNTS, kernel_of, kernel_pages_min, least_pages, slot_pages,
};
use super::{JoinPlan, MostWritten, Opening, check_marking, narrow, too_little};
use crate::QueryError;
use crate::cost::join::{FlashMemory, flash_join};
use crate::cost::{CostModel, Estimate, JoinQuestion};
use crate::join::flash_join::Settings;
use crate::join::{FlashJoin, JoinStream};
use crate::plan::{Budget, Rejection};

impl JoinPlan for FlashMemory {
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
            let Some(rest) = memory.checked_sub(fetch_pages).filter(|rest| *rest > 3) else {
                continue;
            };
            for share in KERNEL_SHARES {
                let kernel_pages = (rest * share / 16).max(kernel_pages_min(question));
                if kernel_pages >= rest {
                    continue;
                }
                let Some(kernel) = kernel_of(model, question, kernel_pages) else { continue };
                let batch_pages = rest - kernel_pages;
                let parts = Self { kernel_pages, kernel, batch_pages, fetch_pages };
                let estimate = flash_join(model, question, &parts);
                candidates.extend(estimate.map(|it| (parts, it)));
            }
        }
        if candidates.is_empty() {
            return Err(too_little(least_pages(question, slot_pages, 1).max(memory + 1)));
        }
        Ok(candidates)
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
        let pages = flash_join(model, larger, self).unwrap_or_default().pages_written;
        Some(MostWritten { pages, grows_with_skew: true })
    }

    fn part_count(&self) -> u64 {
        self.kernel.bucket_count
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, outer, .. } = *opening;
        let kernel = (self.kernel_pages, &self.kernel);
        let settings = Settings {
            kernel: kernel_settings(kernel, join, outer, execution),
            batch_pages: narrow(self.batch_pages),
            fetch_pages: narrow(self.fetch_pages),
        };
        Ok(Box::new(FlashJoin::new(execution, join, settings)?))
    }
}
