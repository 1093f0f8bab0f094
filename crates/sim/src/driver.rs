//! What puts requests to the engine and lets time pass: one sibling file for each mode.
//!
//! 1. Start times never run backwards, if arrivals do not.
//! 2. All modes hand requests over in the order of arrival, so all issue the same chip commands; what
//!    differs is when. Only a write that waits for a full buffer is overtaken by reads.
//! 3. Every request that was served is recorded once, at the latest by `drain`.

use crate::SimError;
use crate::engine::Engine;
use crate::recorder::Recorder;
use nandu_base::Nanos;
use nandu_trace::TraceRequest;

/// Requests that the layer is told of ahead.
pub(crate) const TOUCH: usize = 64;

/// How a source's times are to be taken.
#[derive(Clone, Copy)]
pub(crate) struct Timing {
    /// When the first request arrives, as the simulation counts, and as the source does.
    pub(crate) origin: Nanos,
    pub(crate) first_at: Nanos,
    pub(crate) arrivals_count: bool,
    /// From a completion to the next request, where arrivals do not count.
    pub(crate) think: Nanos,
    /// Whether the layer works where nothing has arrived.
    pub(crate) works_in_background: bool,
}

impl Timing {
    #[inline]
    pub(crate) fn arrival_of(&self, request: &TraceRequest) -> Nanos {
        match self.arrivals_count {
            true => self.origin.saturating_add(request.at.saturating_sub(self.first_at)),
            false => self.origin,
        }
    }
}

/// A mode of time.
pub(crate) trait Driver {
    /// Serves requests; `count` came before them.
    fn run_batch(
        &mut self,
        engine: &mut Engine,
        batch: &[TraceRequest],
        timing: (Timing, u64),
        recorder: &mut Recorder,
    ) -> Result<(), SimError>;

    /// How late it is.
    fn reached(&self, engine: &Engine) -> Nanos;

    /// Waits for what is in flight and records it; answers when the last of it was done.
    fn drain(&mut self, engine: &mut Engine, recorder: &mut Recorder) -> Result<Nanos, SimError>;
}
