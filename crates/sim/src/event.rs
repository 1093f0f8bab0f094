//! The event mode: a window of requests in flight. Dies, planes and channels work in parallel and
//! requests complete out of order; one more starts when one of a full window is done.
//!
//! ```text
//!   arrival ─▶ [ window ] ─ engine ─▶ tickets ─▶ event core ─▶ who has ended ─▶ record, make room
//! ```
//!
//! 1. At most `depth` requests are in flight or thought about.
//! 2. Before a request is handed over, every event up to its start was handled.
//! 3. Where requests wait and nothing is in flight, they wait for rows that nobody fills: those are
//!    programmed, padded. Where there are none the run ends with an error, not without an end.

use crate::SimError;
use crate::driver::{Driver, TOUCH, Timing};
use crate::engine::{Engine, SLOT};
use crate::recorder::Recorder;
use nandu_base::Nanos;
use nandu_device::Operation;
use nandu_nand::Ticket;
use nandu_trace::TraceRequest;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// A request in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    operation: Operation,
    /// From when on its response time counts.
    since: Nanos,
    start: Nanos,
    think: Nanos,
}

/// Up to `depth` requests at a time.
#[derive(Clone, Debug)]
pub(crate) struct Window {
    places: Vec<InFlight>,
    free_places: Vec<u32>,
    depth: usize,
    in_flight: usize,
    /// Times at which those who think issue their next request.
    thinking: BinaryHeap<Reverse<Nanos>>,
    done_at: Nanos,
    /// Whether the sums below are kept, and compared at the end.
    checks: bool,
    /// Sum over time of requests in flight, for Little's law.
    area: u128,
    area_until: Nanos,
    /// Sum of the times from start to completion.
    response_sum: u128,
}

impl Window {
    /// An empty window of `depth` requests, 1 or more, from `free_at` on.
    pub(crate) fn new(depth: u32, free_at: Nanos, checks: bool) -> Self {
        assert!(depth > 0, "a window holds at least one request");
        Self {
            places: Vec::new(),
            free_places: Vec::new(),
            depth: depth as usize,
            in_flight: 0,
            thinking: BinaryHeap::new(),
            done_at: free_at,
            checks,
            area: 0,
            area_until: free_at,
            response_sum: 0,
        }
    }

    #[inline]
    fn count_area(&mut self, now: Nanos) {
        if !self.checks {
            return;
        }
        let length = u128::from(now.0 - self.area_until.0);
        self.area += length * self.in_flight as u128;
        self.area_until = now;
    }

    #[inline]
    fn complete(&mut self, place: u32, now: Nanos, recorder: &mut Recorder) {
        self.count_area(now);
        let InFlight { operation, since, start, think } = self.places[place as usize];
        if self.checks {
            self.response_sum += u128::from(now.0 - start.0);
        }
        self.free_places.push(place);
        self.in_flight -= 1;
        let latency = now.saturating_sub(since);
        recorder.record(operation, latency);
        self.done_at = now;
        if think > Nanos::ZERO {
            self.thinking.push(Reverse(now.saturating_add(think)));
        }
    }

    /// Takes note of what has ended.
    #[inline]
    fn collect(&mut self, engine: &mut Engine, recorder: &mut Recorder) -> Result<(), SimError> {
        while let Some(watcher) = engine.nand.take_finished() {
            let now = engine.nand.now();
            if watcher == SLOT {
                self.done_at = now;
                engine.release_slot().map_err(|refusal| engine.layer_error(refusal))?;
            } else {
                self.complete(watcher, now, recorder);
            }
        }
        Ok(())
    }

    /// Lets time pass until something that is watched has ended; where nothing can end, see invariant 3.
    #[inline]
    fn step(&mut self, engine: &mut Engine, recorder: &mut Recorder) -> Result<(), SimError> {
        if !engine.nand.step_to_watched() {
            engine.complete_rows()?;
        }
        self.collect(engine, recorder)
    }

    /// Lets time pass to `time`.
    fn pass_to(
        &mut self,
        engine: &mut Engine,
        time: Nanos,
        recorder: &mut Recorder,
    ) -> Result<(), SimError> {
        while engine.nand.next_event().is_some_and(|next| next <= time) {
            engine.nand.step();
            self.collect(engine, recorder)?;
        }
        engine.nand.at(time);
        while self.thinking.peek().is_some_and(|&Reverse(end)| end <= time) {
            self.thinking.pop();
        }
        Ok(())
    }

    /// The layer works in the background once nothing is in flight, until `arrival`.
    fn work_until(
        &mut self,
        engine: &mut Engine,
        arrival: Nanos,
        recorder: &mut Recorder,
    ) -> Result<(), SimError> {
        while engine.nand.next_event().is_some_and(|next| next <= arrival) {
            engine.nand.step();
            self.collect(engine, recorder)?;
        }
        let idle_from = engine.nand.now();
        if engine.nand.next_event().is_none() && arrival > idle_from {
            engine.ftl.idle(&mut engine.nand, idle_from, arrival);
        }
        Ok(())
    }

    /// Waits until a request that arrives at `arrival` may start.
    #[inline]
    fn admit(
        &mut self,
        engine: &mut Engine,
        arrival: Nanos,
        recorder: &mut Recorder,
    ) -> Result<Nanos, SimError> {
        if arrival > engine.nand.now() {
            self.pass_to(engine, arrival, recorder)?;
        }
        while self.in_flight + self.thinking.len() >= self.depth {
            match self.thinking.peek().copied() {
                Some(Reverse(end)) if engine.nand.next_event().is_none_or(|next| end < next) => {
                    self.pass_to(engine, end, recorder)?;
                }
                Some(_) => {
                    engine.nand.step();
                    self.collect(engine, recorder)?;
                }
                None => self.step(engine, recorder)?,
            }
            if !self.thinking.is_empty() {
                self.pass_to(engine, engine.nand.now(), recorder)?;
            }
        }
        let now = engine.nand.now();
        while engine.nand.next_event() == Some(now) {
            engine.nand.step();
            self.collect(engine, recorder)?;
        }
        Ok(now)
    }

    #[inline]
    fn take_place(&mut self, request: InFlight) -> u32 {
        match self.free_places.pop() {
            Some(place) => {
                self.places[place as usize] = request;
                place
            }
            None => {
                self.places.push(request);
                u32::try_from(self.places.len() - 1).expect("the depth is a 32-bit number")
            }
        }
    }
}

impl Driver for Window {
    fn run_batch(
        &mut self,
        engine: &mut Engine,
        batch: &[TraceRequest],
        (timing, count): (Timing, u64),
        recorder: &mut Recorder,
    ) -> Result<(), SimError> {
        let numbered = (count + 1..).step_by(TOUCH).zip(batch.chunks(TOUCH));
        for (number, requests) in numbered {
            engine.touch_apart(requests);
            for (number, request) in (number..).zip(requests) {
                let arrival = timing.arrival_of(request);
                if timing.works_in_background && self.in_flight == 0 {
                    self.work_until(engine, arrival, recorder)?;
                }
                let start = self.admit(engine, arrival, recorder)?;
                let served = engine.serve::<false>(request, Ticket::READY);
                let done =
                    served.map_err(|refusal| engine.explain(refusal, request, start, number))?;
                let since = if timing.arrivals_count { arrival } else { start };
                self.count_area(start);
                let (operation, think) = (request.operation, timing.think);
                let place = self.take_place(InFlight { operation, since, start, think });
                self.in_flight += 1;
                if !engine.nand.watch(done, place) {
                    self.complete(place, start, recorder);
                }
            }
        }
        Ok(())
    }

    fn reached(&self, engine: &Engine) -> Nanos {
        engine.nand.now()
    }

    fn drain(&mut self, engine: &mut Engine, recorder: &mut Recorder) -> Result<Nanos, SimError> {
        while self.in_flight > 0 || engine.buffers_something() {
            self.step(engine, recorder)?;
        }
        self.thinking.clear();
        let (area, responses) = (self.area, self.response_sum);
        assert_eq!(area, responses, "Little's law: requests in flight over time, and their times");
        Ok(self.done_at)
    }
}
