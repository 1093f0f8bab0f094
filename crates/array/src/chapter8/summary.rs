//! What a run comes to: operations of the last eight epochs, and times for Little's law.
//!
//! 1. A request belongs to the epoch in which it ends.

use super::EPOCH_COUNT;
use super::load::{Load, WORKER_COUNT_MAX};
use nandu_base::Nanos;

/// Requests of one class that ended in a window.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassSummary {
    /// How many requests of the class ended in the window.
    pub count: u64,
    /// The sum of their times from issue to end.
    pub response: Nanos,
    /// The sum of the times that their workers thought afterwards.
    pub think: Nanos,
}

/// What ended in one epoch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EpochTally {
    reads: ClassSummary,
    writes: ClassSummary,
}

/// What a run comes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Summary {
    /// Reads of the window.
    pub reads: ClassSummary,
    /// Writes of the window.
    pub writes: ClassSummary,
    /// How long the window of the last eight epochs is.
    pub window: Nanos,
    /// How many epochs passed until the run ended.
    pub epoch_count: u32,
    /// Whether the window's ends agree within 1 %.
    pub converged: bool,
    /// Work that the busiest member had left.
    pub backlog: Nanos,
}

impl ClassSummary {
    fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.response += other.response;
        self.think += other.think;
    }

    /// The mean time from issue to end.
    #[must_use]
    pub fn mean_response(&self) -> Nanos {
        Nanos(self.response.0 / self.count.max(1))
    }
}

impl EpochTally {
    pub(super) fn count(&mut self, is_read: bool, response_ns: u64, think_ns: u64) {
        let class = if is_read { &mut self.reads } else { &mut self.writes };
        class.add(&ClassSummary { count: 1, response: Nanos(response_ns), think: Nanos(think_ns) });
    }

    /// The workers that must have been behind it, if it is what ended within `window`: their number
    /// by Little's law, their base delay as the mean of 3/4 to 3/2 of it has it.
    pub(super) fn load(&self, window: Nanos) -> Load {
        let workers = |class: &ClassSummary| {
            let total = class.response.0 + class.think.0 + window.0 / 2;
            u32::try_from(total / window.0.max(1)).unwrap_or(u32::MAX).min(WORKER_COUNT_MAX)
        };
        let base = |class: &ClassSummary| Nanos(class.think.0 / class.count.max(1) / 9 * 8);
        Load {
            reader_count: workers(&self.reads),
            writer_count: workers(&self.writes),
            read_think_base: base(&self.reads),
            write_think_base: base(&self.writes),
        }
    }

    /// Requests that ended in the epoch.
    #[must_use]
    pub const fn request_count(&self) -> u64 {
        self.reads.count + self.writes.count
    }
}

/// Whether the rates of the first and the last of `epochs` agree within 1 %.
pub(super) fn has_converged(epochs: &[EpochTally]) -> bool {
    let (Some(first), Some(last)) = (epochs.first(), epochs.last()) else { return false };
    let (first, last) = (first.request_count(), last.request_count());
    first > 0 && first.abs_diff(last) * 100 <= first
}

impl Summary {
    pub(super) fn new(epochs: &[EpochTally], epoch: Nanos, backlog: Nanos) -> Self {
        let window = &epochs[epochs.len().saturating_sub(EPOCH_COUNT)..];
        let mut total = EpochTally::default();
        for tally in window {
            total.reads.add(&tally.reads);
            total.writes.add(&tally.writes);
        }
        Self {
            reads: total.reads,
            writes: total.writes,
            window: epoch * window.len() as u64,
            epoch_count: nandu_base::to_u32(epochs.len() as u64),
            converged: has_converged(window),
            backlog,
        }
    }

    /// Reads and writes of the window.
    #[must_use]
    pub const fn request_count(&self) -> u64 {
        self.reads.count + self.writes.count
    }

    /// Their rate. For reports only.
    #[must_use]
    pub fn operations_per_second(&self) -> f64 {
        self.request_count() as f64 / self.window.as_seconds_f64()
    }

    /// Workers by Little's law: the time that all requests and thoughts took, over the window. For
    /// reports only.
    #[must_use]
    pub fn little_worker_count(&self) -> f64 {
        let class = |class: &ClassSummary| (class.response + class.think).as_seconds_f64();
        (class(&self.reads) + class(&self.writes)) / self.window.as_seconds_f64()
    }
}
