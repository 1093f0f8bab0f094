//! The event mode under read priority: as [`super::Window`], but what was promised may end later,
//! because urgent reads overtake it. A completion is final only when its time has come.
//!
//! ```text
//!   heap of promised ends ─▶ earliest: ask the array ─┬─ still that end ─▶ record, make room
//!        ▲                                            └─ later ──┐
//!        └────────────────────────────────────────────────────────┘
//! ```
//!
//! 1. Before a request starts at some time, every completion up to that time is final.
//! 2. At most `depth` requests are in flight.

use super::{Admission, Served};
use crate::recorder::Recorder;
use nandu_base::Nanos;
use nandu_nand::NandArray;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Up to `depth` requests at a time, whose ends may move.
#[derive(Clone, Debug)]
pub(crate) struct PriorityWindow {
    /// Promised end, and the place in `served`.
    in_flight: BinaryHeap<Reverse<(Nanos, usize)>>,
    served: Vec<Served>,
    free_places: Vec<usize>,
    /// Times at which those who think issue their next request.
    thinking: BinaryHeap<Reverse<Nanos>>,
    depth: usize,
    free_at: Nanos,
    done_at: Nanos,
}

impl PriorityWindow {
    /// An empty window of `depth` requests, 1 or more, from `free_at` on.
    pub(crate) fn new(depth: u32, free_at: Nanos) -> Self {
        assert!(depth > 0, "a window holds at least one request");
        Self {
            in_flight: BinaryHeap::new(),
            served: Vec::new(),
            free_places: Vec::new(),
            thinking: BinaryHeap::new(),
            depth: depth as usize,
            free_at,
            done_at: free_at,
        }
    }

    /// Makes the earliest completion final if its time is at most `until`; false if there is none.
    fn complete(&mut self, until: Nanos, nand: &NandArray, recorder: &mut Recorder) -> bool {
        while let Some(&Reverse((end, place))) = self.in_flight.peek() {
            if end > until {
                return false;
            }
            self.in_flight.pop();
            let served = &mut self.served[place];
            if let Some(promise) = served.promise {
                let (promise, revised) = nand.revise(promise, end);
                (served.promise, served.done) = (Some(promise), revised);
                if revised > end {
                    self.in_flight.push(Reverse((revised, place)));
                    continue;
                }
            }
            let served = *served;
            recorder.record(served.operation, served.done.saturating_sub(served.since));
            self.done_at = self.done_at.max(served.done);
            self.free_places.push(place);
            self.thinking.push(Reverse(served.done.saturating_add(served.think)));
            return true;
        }
        false
    }

    /// Forgets those who have thought by `time`.
    fn wake(&mut self, time: Nanos) {
        while self.thinking.peek().is_some_and(|&Reverse(end)| end <= time) {
            self.thinking.pop();
        }
    }
}

impl Admission for PriorityWindow {
    const SERIAL: bool = false;

    fn admit(&mut self, arrival: Nanos, nand: &NandArray, recorder: &mut Recorder) -> Nanos {
        let mut start = arrival.max(self.free_at);
        while self.complete(start, nand, recorder) {}
        self.wake(start);
        while self.in_flight.len() + self.thinking.len() >= self.depth {
            let next_end = self.in_flight.peek().map(|&Reverse((end, _))| end);
            let next_wake = self.thinking.peek().map(|&Reverse(end)| end);
            let next = next_end.into_iter().chain(next_wake).min();
            start = start.max(next.expect("a full window is not empty"));
            while self.complete(start, nand, recorder) {}
            self.wake(start);
        }
        self.free_at = start;
        start
    }

    fn finish(&mut self, served: Served, _recorder: &mut Recorder) {
        let place = match self.free_places.pop() {
            Some(place) => {
                self.served[place] = served;
                place
            }
            None => {
                self.served.push(served);
                self.served.len() - 1
            }
        };
        self.in_flight.push(Reverse((served.done, place)));
    }

    fn delay(&mut self, _time: Nanos) {
        // Background work holds the dies, whose timelines know it.
    }

    fn drain(&mut self, nand: &NandArray, recorder: &mut Recorder) -> Nanos {
        while self.complete(Nanos::MAX, nand, recorder) {}
        self.done_at
    }
}
