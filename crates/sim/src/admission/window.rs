//! The event mode: a window of requests in flight. Dies, planes and channels work in parallel and
//! requests complete out of order; one more starts when the earliest of a full window is done.
//!
//! ```text
//!   arrival ─▶ [ window: completion times, a heap ] ─▶ the earliest makes room for the next
//! ```
//!
//! 1. At most `depth` completion times are held.
//! 2. Whatever leaves the heap is no earlier than what left before, so starts never run backwards.

use super::{Admission, Served};
use crate::recorder::Recorder;
use nandu_base::Nanos;
use nandu_nand::NandArray;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Up to `depth` requests at a time.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    in_flight: BinaryHeap<Reverse<Nanos>>,
    depth: usize,
    free_at: Nanos,
    done_at: Nanos,
}

impl Window {
    /// An empty window of `depth` requests, 1 or more, from `free_at` on.
    pub(crate) fn new(depth: u32, free_at: Nanos) -> Self {
        assert!(depth > 0, "a window holds at least one request");
        let depth = depth as usize;
        Self { in_flight: BinaryHeap::with_capacity(depth), depth, free_at, done_at: free_at }
    }
}

impl Admission for Window {
    const SERIAL: bool = false;

    #[inline]
    fn admit(&mut self, arrival: Nanos, _nand: &NandArray, _recorder: &mut Recorder) -> Nanos {
        let ready = arrival.max(self.free_at);
        if self.in_flight.len() < self.depth {
            return ready;
        }
        let Reverse(earliest) = *self.in_flight.peek().expect("a full window is not empty");
        ready.max(earliest)
    }

    #[inline]
    fn finish(&mut self, served: Served, recorder: &mut Recorder) {
        recorder.record(served.operation, served.done.saturating_sub(served.since));
        self.done_at = self.done_at.max(served.done);
        let free_at = Reverse(served.done.saturating_add(served.think));
        if self.in_flight.len() < self.depth {
            self.in_flight.push(free_at);
            return;
        }
        // The request takes the place of the earliest: one sift instead of a pop and a push.
        *self.in_flight.peek_mut().expect("a full window is not empty") = free_at;
    }

    fn delay(&mut self, _time: Nanos) {
        // Background work holds the dies, whose timelines know it.
    }

    fn drain(&mut self, _nand: &NandArray, _recorder: &mut Recorder) -> Nanos {
        self.done_at
    }
}
