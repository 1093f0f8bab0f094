//! A source that shows what it gives to somebody else, batch by batch.
//!
//! 1. Every request that is given was shown before.

use nandu_trace::{Pacing, RequestSource, SourceStatistics, TraceError, TraceRequest};

/// Gets every batch; its error ends the source.
pub type Record<'a> = &'a mut (dyn FnMut(&[TraceRequest]) -> Result<(), TraceError> + Send);

/// A source with somebody who watches.
pub(crate) struct Tee<'a> {
    pub(crate) source: &'a mut dyn RequestSource,
    pub(crate) record: Record<'a>,
}

impl RequestSource for Tee<'_> {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        let before = batch.len();
        self.source.next_batch(batch, limit)?;
        (self.record)(&batch[before..])
    }

    fn pacing(&self) -> Pacing {
        self.source.pacing()
    }

    fn description(&self) -> String {
        self.source.description()
    }

    fn statistics(&self) -> SourceStatistics {
        self.source.statistics()
    }
}
