//! Who watches a simulation, and may stop it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// What the simulation is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Requests that do not count.
    WarmUp,
    /// The requests that are measured.
    Measure,
}

impl Phase {
    /// Its name in lines of progress.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::WarmUp => "warm-up",
            Self::Measure => "simulation",
        }
    }
}

/// Is told of the progress every few ten thousand requests.
pub trait SimObserver {
    /// `done` of `total` requests (of the warm-up: units) of the phase; the total is 0 where the
    /// length of a trace is not known.
    fn progress(&mut self, phase: Phase, done: u64, total: u64);

    /// Whether the simulation is to stop at the next request.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// A flag that says the same to who reads a trace.
    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

/// Watches nothing and stops nothing.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl SimObserver for Unwatched {
    fn progress(&mut self, _phase: Phase, _done: u64, _total: u64) {}
}
