//! Grace hash: so many buckets, each with pages to write by.

use super::{
    JoinPlan, MostWritten, Opening, around, check_marking, narrow, needed, scan_pages_min,
};
use crate::QueryError;
use crate::allocation::GraceHash;
use crate::cost::join::grace_hash;
use crate::cost::{CostModel, Estimate, JoinQuestion, JoinSide};
use crate::join::grace_hash::Settings;
use crate::join::{self, JoinStream};
use crate::plan::{Budget, Rejection};

impl JoinPlan for GraceHash {
    /// Both sides are cut alike, and buckets are counted by the smaller one.
    fn roles(question: &JoinQuestion) -> &'static [bool] {
        let memory_bytes = |side: &JoinSide| side.footprint().memory_bytes;
        let is_swapped = memory_bytes(&question.inner) < memory_bytes(&question.outer);
        if is_swapped { &[true] } else { &[false] }
    }

    fn candidates(
        model: &CostModel<'_>,
        question: &JoinQuestion,
        budget: &Budget,
    ) -> Result<Vec<(Self, Estimate)>, Rejection> {
        let memory = budget.memory_pages;
        check_marking(question, memory)?;
        let sizes = question.sizes();
        let rule = Self::allocate(&sizes, memory).map_err(needed)?.bucket_count;
        let mut tried = vec![rule, rule.saturating_sub(1), rule.saturating_add(1)];
        tried.extend(around(rule, memory - 1));
        let candidates = tried.into_iter().filter_map(|bucket_count| {
            let parts = Self::with_buckets(&sizes, memory, bucket_count).ok()?;
            Some((parts, grace_hash(model, question, memory, &parts)))
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
        let pages = grace_hash(model, larger, memory_pages, self).pages_written;
        Some(MostWritten { pages, grows_with_skew: false })
    }

    fn part_count(&self) -> u64 {
        self.bucket_count
    }

    fn open<'x>(&self, opening: &Opening<'x>) -> Result<Box<dyn JoinStream + 'x>, QueryError> {
        let Opening { execution, join, .. } = *opening;
        let settings = Settings {
            bucket_count: narrow(self.bucket_count),
            input_pages: narrow(self.input_pages),
            output_pages: narrow(self.output_pages),
        };
        Ok(Box::new(join::GraceHash::new(execution, join, settings)?))
    }
}
