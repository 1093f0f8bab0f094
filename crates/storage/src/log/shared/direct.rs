//! Records that go to the device one by one, as they come, and not by way of a buffer: for memory that
//! keeps what it holds and is written by lines (S003: "should log records be written directly to PCM?").
//!
//! ```text
//!   append ──► lines on their way ─┐          commit: waits for its lines and all before, then a fence
//!   append ──► lines on their way ─┤ in any order
//!   append ──► lines on their way ─┘          found again: sealed records, up to the first that is not
//! ```
//!
//! 1. What is in flight is bounded: by bytes, so that a reader finds who contradicts the end of the log,
//!    and by count.
//! 2. A record is durable once its lines and all before it are there and a fence came after them: the
//!    order of LSNs is that in which records become durable.
//! 3. Lines are never written twice: the next record begins on a line of its own.

use super::super::area::Writes;
use super::super::record::EncodedRecord;
use super::super::writer::{Flush, Room};
use super::{End, SharedLog};
use crate::{Lsn, StorageError};
use nandu_workers::sync::MutexGuard;
use std::collections::VecDeque;

/// The most records on their way that nobody waits for.
const FLIGHT_COUNT_MAX: usize = 256;

/// Records on their way, in the order of the log.
#[derive(Debug, Default)]
pub(super) struct Flights(VecDeque<Flight>);

#[derive(Debug)]
struct Flight {
    start: Lsn,
    state: FlightState,
}

#[derive(Debug)]
enum FlightState {
    /// Somebody is about to hand it to the device.
    Submitting,
    UnderWay(Writes),
    /// Somebody waits for it, or the device refused it.
    Taken,
}

/// Hands a record to the device; tells also if it panics, lest others wait for ever.
struct Submission<'a> {
    log: &'a SharedLog,
    start: Lsn,
    result: Result<Writes, StorageError>,
}

impl Flights {
    /// Forgets those that begin before `up_to`.
    pub(super) fn end(&mut self, up_to: Lsn) {
        while self.0.front().is_some_and(|flight| flight.start < up_to) {
            self.0.pop_front();
        }
    }

    /// Whether some record up to `lsn` is not yet with the device.
    fn is_submitting(&self, lsn: Lsn) -> bool {
        let until = self.0.iter().take_while(|flight| flight.start <= lsn);
        until.into_iter().any(|flight| matches!(flight.state, FlightState::Submitting))
    }

    /// Takes those that begin at or before `lsn`; the caller waits for them.
    fn take(&mut self, lsn: Lsn) -> Vec<Writes> {
        let until = self.0.iter_mut().take_while(|flight| flight.start <= lsn);
        let states = until.map(|flight| std::mem::replace(&mut flight.state, FlightState::Taken));
        let writes = states.filter_map(|state| match state {
            FlightState::UnderWay(writes) => Some(writes),
            FlightState::Submitting | FlightState::Taken => None,
        });
        writes.collect()
    }

    /// Notes what became of the record that begins at `start`.
    fn note(&mut self, start: Lsn, state: FlightState) {
        let mut latest_first = self.0.iter_mut().rev();
        if let Some(flight) = latest_first.find(|flight| flight.start == start) {
            flight.state = state;
        }
    }
}

impl SharedLog {
    /// Appends a record and begins to write it.
    pub(super) fn append_directly(
        &self,
        record: &EncodedRecord<'_>,
        room: Room,
    ) -> Result<Lsn, StorageError> {
        loop {
            let mut end = self.end();
            let is_full = end.flights.0.len() >= FLIGHT_COUNT_MAX || end.writer.is_far_ahead();
            if is_full {
                let last = Lsn(end.writer.filling_start().0 - 1);
                drop(end);
                self.make_durable(last)?;
                continue;
            }
            let lsn = end.writer.try_append(record, room)?.expect("nothing else is collected");
            let flush = end.writer.begin_flush().expect("a record was appended");
            let state = FlightState::Submitting;
            end.flights.0.push_back(Flight { start: flush.start, state });
            drop(end);
            self.submit(&flush)?;
            return Ok(lsn);
        }
    }

    fn submit(&self, flush: &Flush) -> Result<(), StorageError> {
        let cause = "the thread that wrote the log panicked".to_owned();
        let result = Err(StorageError::Poisoned { cause });
        let mut submission = Submission { log: self, start: flush.start, result };
        let area = &self.0.area;
        let writes = area.begin_write(flush.start, &flush.bytes);
        area.hand_over();
        let result = writes.as_ref().map(drop).map_err(Clone::clone);
        submission.result = writes;
        result
    }

    /// Waits for the record at `lsn` and all before it, or for whoever is about to write one of them. There is
    /// no leader.
    pub(super) fn lead_directly<'a>(
        &'a self,
        mut end: MutexGuard<'a, End>,
        lsn: Lsn,
    ) -> Result<MutexGuard<'a, End>, StorageError> {
        if end.flights.is_submitting(lsn) {
            return Ok(self.0.flushed.wait(end));
        }
        let flights = end.flights.take(lsn);
        end.has_leader = true;
        drop(end);
        let result = self.lead(Lsn(lsn.0 + 1), |area| {
            let ends = flights.into_iter().map(|writes| area.finish_write(writes));
            // All of them are waited for, whatever became of one.
            ends.fold(Ok(()), Result::and)
        });
        let end = self.end();
        result.map(|()| end)
    }
}

impl Drop for Submission<'_> {
    fn drop(&mut self) {
        let taken = Err(StorageError::Poisoned { cause: String::new() });
        let mut end = self.log.end();
        let state = match std::mem::replace(&mut self.result, taken) {
            Ok(writes) => FlightState::UnderWay(writes),
            Err(error) => {
                end.writer.poison(&error);
                FlightState::Taken
            }
        };
        end.flights.note(self.start, state);
        drop(end);
        self.log.0.flushed.notify_all();
    }
}
