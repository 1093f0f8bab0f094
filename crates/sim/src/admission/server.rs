//! The closed mode: one server, first come first served, as the papers on translation layers count
//! (flash reference 0.3.3). A request starts when it has arrived and the one before it is done.
//!
//! 1. `free_at` never runs backwards.

use super::{Admission, Served};
use crate::recorder::Recorder;
use nandu_base::Nanos;
use nandu_nand::NandArray;

/// One request at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SingleServer {
    free_at: Nanos,
    done_at: Nanos,
}

impl SingleServer {
    /// A server that is free from `free_at` on.
    pub(crate) const fn new(free_at: Nanos) -> Self {
        Self { free_at, done_at: free_at }
    }
}

impl Admission for SingleServer {
    const SERIAL: bool = true;

    #[inline]
    fn admit(&mut self, arrival: Nanos, _nand: &NandArray, _recorder: &mut Recorder) -> Nanos {
        arrival.max(self.free_at)
    }

    #[inline]
    fn finish(&mut self, served: Served, recorder: &mut Recorder) {
        recorder.record(served.operation, served.done.saturating_sub(served.since));
        self.done_at = self.done_at.max(served.done);
        self.free_at = self.free_at.max(served.done.saturating_add(served.think));
    }

    fn delay(&mut self, time: Nanos) {
        self.free_at = self.free_at.max(time);
    }

    fn drain(&mut self, _nand: &NandArray, _recorder: &mut Recorder) -> Nanos {
        self.done_at
    }
}
