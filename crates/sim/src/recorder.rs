//! Response times by operation, recorded in a few nanoseconds: equal ones in a row are counted, and
//! reach the histogram together.
//!
//! 1. What was recorded = what the histograms hold + the run that is being counted.

use nandu_base::{LatencyHistogram, LatencySummary, Nanos};
use nandu_device::Operation;
use std::collections::BTreeMap;

const OPERATIONS: [Operation; 4] =
    [Operation::Read, Operation::Write, Operation::Trim, Operation::Flush];

#[derive(Clone, Debug, Default)]
struct Recording {
    histogram: LatencyHistogram,
    last: Nanos,
    run: u64,
}

/// Distributions of response times.
#[derive(Clone, Debug, Default)]
pub(crate) struct Recorder {
    by_operation: [Recording; OPERATIONS.len()],
}

impl Recording {
    fn settle(&mut self) {
        self.histogram.record_many(self.last, std::mem::take(&mut self.run));
    }
}

impl Recorder {
    #[inline]
    pub(crate) fn record(&mut self, operation: Operation, latency: Nanos) {
        let recording = &mut self.by_operation[operation as usize];
        if latency == recording.last {
            recording.run += 1;
            return;
        }
        recording.settle();
        (recording.last, recording.run) = (latency, 1);
    }

    /// Reads and writes always, others where there were any.
    pub(crate) fn summaries(&mut self) -> BTreeMap<String, LatencySummary> {
        let mut summaries = BTreeMap::new();
        for (operation, recording) in OPERATIONS.into_iter().zip(&mut self.by_operation) {
            recording.settle();
            let is_always_shown = matches!(operation, Operation::Read | Operation::Write);
            if is_always_shown || recording.histogram.count() > 0 {
                summaries.insert(operation.label().to_string(), recording.histogram.summary());
            }
        }
        summaries
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_of_equal_times_count_as_single_ones() {
        let mut recorder = Recorder::default();
        let mut histogram = LatencyHistogram::new();
        for latency in [0, 0, 7, 7, 7, 0, 9, 9] {
            recorder.record(Operation::Write, Nanos(latency));
            histogram.record(Nanos(latency));
        }
        let summaries = recorder.summaries();
        assert_eq!(summaries["write"], histogram.summary());
        assert_eq!(summaries["read"], LatencySummary::default());
        assert!(!summaries.contains_key("trim"));
    }
}
