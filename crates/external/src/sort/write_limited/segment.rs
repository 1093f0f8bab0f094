//! Two sorted streams as one: what was merged, and what passes pick.

use super::passes::Passes;
use crate::sort::SortedStream;
use crate::stream::Ahead;
use crate::{ExternalError, Order, Record, RecordStream};
use std::cmp::Ordering;

/// Both, the next record of each looked at.
#[derive(Debug)]
pub(super) struct Segments<R: Record, O: Order<R>> {
    merged: Ahead<SortedStream<R, O>>,
    passes: Ahead<Passes<R, O>>,
    order: O,
}

impl<R: Record, O: Order<R>> Segments<R, O> {
    pub(super) fn new(merged: SortedStream<R, O>, passes: Passes<R, O>, order: O) -> Self {
        Self { merged: merged.ahead(), passes: passes.ahead(), order }
    }
}

impl<R: Record, O: Order<R>> RecordStream for Segments<R, O> {
    type Record = R;

    #[inline]
    fn next_record(&mut self) -> Result<Option<R>, ExternalError> {
        let is_picked = match (self.merged.peek()?, self.passes.peek()?) {
            (Some(merged), Some(picked)) => {
                self.order.compare_by_prefix(&picked, &merged) == Ordering::Less
            }
            (merged, _) => merged.is_none(),
        };
        if is_picked { self.passes.next_record() } else { self.merged.next_record() }
    }

    fn left_count(&self) -> Option<u64> {
        Some(self.merged.left_count()? + self.passes.left_count()?)
    }
}
