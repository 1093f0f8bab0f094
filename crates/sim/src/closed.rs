//! The closed mode: one server, first come first served, as the papers on translation layers count
//! (flash reference 0.3.3). A request starts when it has arrived and the one before it is done.
//!
//! 1. `free_at` never runs backwards.

use crate::SimError;
use crate::driver::{Driver, TOUCH, Timing};
use crate::engine::Engine;
use crate::recorder::Recorder;
use nandu_base::Nanos;
use nandu_device::Operation;
use nandu_nand::Ticket;
use nandu_trace::TraceRequest;

/// One request at a time.
#[derive(Clone, Debug)]
pub(crate) struct SingleServer {
    free_at: Nanos,
    done_at: Nanos,
    /// When each of the writes was done that are served together.
    done: Vec<Ticket>,
}

impl SingleServer {
    /// A server that is free from `free_at` on.
    pub(crate) const fn new(free_at: Nanos) -> Self {
        Self { free_at, done_at: free_at, done: Vec::new() }
    }

    fn finish(&mut self, since: Nanos, done: Nanos, think: Nanos) -> Nanos {
        self.done_at = self.done_at.max(done);
        self.free_at = self.free_at.max(done.saturating_add(think));
        done.saturating_sub(since)
    }

    /// Serves requests that all write one unit of a stream, the first of which has this number.
    fn run_writes(
        &mut self,
        engine: &mut Engine,
        (requests, number): (&[TraceRequest], u64),
        (arrival, stream): (Nanos, u8),
        recorder: &mut Recorder,
    ) -> Result<(), SimError> {
        let first = arrival.max(self.free_at);
        let mut done = std::mem::take(&mut self.done);
        done.clear();
        let outcome = engine.serve_in_turn(Ticket::of_time(first), stream, &mut done);
        if let Err(refusal) = outcome {
            let start = done.last().map_or(first, |last| last.time());
            let index = done.len();
            return Err(engine.explain(refusal, &requests[index], start, number + index as u64));
        }
        let mut start = first;
        for ticket in &done {
            let latency = self.finish(start, ticket.time(), Nanos::ZERO);
            recorder.record(Operation::Write, latency);
            start = ticket.time();
        }
        self.done = done;
        Ok(())
    }
}

impl Driver for SingleServer {
    #[inline]
    fn run_batch(
        &mut self,
        engine: &mut Engine,
        batch: &[TraceRequest],
        (timing, count): (Timing, u64),
        recorder: &mut Recorder,
    ) -> Result<(), SimError> {
        let takes_runs =
            engine.takes_runs() && !timing.arrivals_count && timing.think == Nanos::ZERO;
        let numbered = (count + 1..).step_by(TOUCH).zip(batch.chunks(TOUCH));
        for (number, requests) in numbered {
            let all_exist = engine.touch(requests);
            let stream = match takes_runs && all_exist {
                true => engine.run_stream(requests),
                false => None,
            };
            if let Some(stream) = stream {
                self.run_writes(engine, (requests, number), (timing.origin, stream), recorder)?;
                continue;
            }
            for (number, request) in (number..).zip(requests) {
                let arrival = timing.arrival_of(request);
                if timing.works_in_background && arrival > self.done_at {
                    engine.ftl.idle(&mut engine.nand, self.done_at, arrival);
                    self.free_at = self.free_at.max(engine.nand.idle_at());
                }
                let start = arrival.max(self.free_at);
                let done = engine
                    .serve::<true>(request, Ticket::of_time(start))
                    .map_err(|refusal| engine.explain(refusal, request, start, number))?;
                let since = if timing.arrivals_count { arrival } else { start };
                let latency = self.finish(since, done.time(), timing.think);
                recorder.record(request.operation, latency);
            }
        }
        Ok(())
    }

    fn reached(&self, _engine: &Engine) -> Nanos {
        self.free_at
    }

    fn drain(&mut self, _engine: &mut Engine, _recorder: &mut Recorder) -> Result<Nanos, SimError> {
        Ok(self.done_at)
    }
}
