//! How requests go through the drive, and how time passes in it.
//!
//! ```text
//!  accept ─► slot ─► controller ─► Decoded ─┬─ read ──► chips ──► link ──┐
//!                                           ├─ write ─► link ─► buffer ──┼─► Told ─► slot for the next
//!                                           └─ trim, flush ──────────────┘
//! ```
//!
//! 1. Events are handled in order of time; at the same time the chips' before the drive's, and those
//!    in the order in which they were made.

use super::{Active, Event, Ssd};
use nandu_base::{Lpn, Nanos, to_u32};
use nandu_device::queue::InFlight;
use nandu_device::{DeviceError, Operation, Request};
use nandu_nand::Ticket;
use std::cmp::Reverse;

/// Whom a ticket's end is told: a slot of the write buffer, or what part of which request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Watcher {
    /// A part of the request is done.
    Part(u32),
    /// The first unit of a read is in the controller.
    First(u32),
    /// All units of a read are.
    Read(u32),
    /// A flush of the layer is done.
    Flush(u32),
    /// The unit in a slot of the write buffer is on flash.
    Slot(u32),
}

impl Watcher {
    const KINDS: u32 = 5;

    const fn code(self) -> u32 {
        let (kind, number) = match self {
            Self::Part(place) => (0, place),
            Self::First(place) => (1, place),
            Self::Read(place) => (2, place),
            Self::Flush(place) => (3, place),
            Self::Slot(slot) => (4, slot),
        };
        number * Self::KINDS + kind
    }

    const fn of_code(code: u32) -> Self {
        let number = code / Self::KINDS;
        match code % Self::KINDS {
            0 => Self::Part(number),
            1 => Self::First(number),
            2 => Self::Read(number),
            3 => Self::Flush(number),
            _ => Self::Slot(number),
        }
    }
}

impl Ssd {
    /// The moment that is being handled.
    pub(super) const fn present(&self) -> Nanos {
        self.nand.now()
    }

    /// Takes a request at the present.
    pub(super) fn accept(&mut self, request: Request) {
        let now = self.clock.now();
        if let Some(power) = &mut self.power {
            self.controller_free_at = self.controller_free_at.max(now + power.exit_time(now));
            power.note(true, now);
        }
        let queue = self.queue_of(request.operation);
        if self.free_slots[queue] == 0 {
            self.waiting[queue].push_back((now, request));
        } else {
            self.begin(now, request);
        }
    }

    /// A slot is free: the controller takes the command.
    fn begin(&mut self, issued_at: Nanos, request: Request) {
        let queue = self.queue_of(request.operation);
        self.free_slots[queue] -= 1;
        let mut command = match request.operation {
            Operation::Read => self.config.read_command_ns,
            Operation::Write | Operation::Trim | Operation::Flush => self.config.write_command_ns,
        };
        let (first_sector, sector_count) = (request.first_sector.0, request.sector_count);
        let mut first_ready_at = None;
        if request.operation == Operation::Read {
            match self.read_ahead.continues(first_sector, request.end_sector()) {
                // A read that goes on where the one before ended needs no look-up.
                true => first_ready_at = Some(Nanos::ZERO),
                false => command += self.config.map_lookup_ns,
            }
        }
        self.controller_free_at = self.controller_free_at.max(self.present()) + command;
        self.controller_busy += command;
        let active = Active {
            in_flight: InFlight::of(request, issued_at),
            first_sector,
            sector_count,
            open_parts: 0,
            first_ready_at,
            result: Ok(()),
        };
        let place = match self.free_places.pop() {
            Some(place) => {
                self.active[place as usize] = Some(active);
                place
            }
            None => {
                self.active.push(Some(active));
                to_u32(self.active.len() as u64 - 1)
            }
        };
        self.at(self.controller_free_at, Event::Decoded(place));
    }

    /// Something happens at `time`.
    pub(super) fn at(&mut self, time: Nanos, event: Event) {
        self.event_sequence += 1;
        self.events.push(Reverse((time, self.event_sequence, event)));
    }

    /// Whoever `watcher` stands for hears of the end of `ticket`: at once, if it has ended.
    pub(super) fn watch(&mut self, ticket: Ticket, watcher: Watcher) {
        if !self.nand.watch(ticket, watcher.code()) {
            self.hear(watcher);
        }
    }

    pub(super) fn request(&mut self, place: u32) -> &mut Active {
        self.active[place as usize].as_mut().expect("events are of requests in flight")
    }

    pub(super) fn has_requests(&self) -> bool {
        self.active.len() > self.free_places.len()
            || self.waiting.iter().any(|queue| !queue.is_empty())
    }

    /// Handles everything up to `time`, which becomes the present; the layer works in the background
    /// where nothing is in flight.
    pub(super) fn pass_to(&mut self, time: Nanos) {
        while (self.has_events() || self.has_requests()) && self.step_by(time) {}
        let idle_from = self.present();
        if !self.has_events() && !self.has_requests() && time > idle_from {
            self.ftl.idle(&mut self.nand, idle_from, time);
            // Where the layer cleaned, the chips' time went on to the end of that.
            let worked_until = self.present();
            if let Some(power) = self.power.as_mut().filter(|_| worked_until > idle_from) {
                power.note(true, idle_from);
                power.note(false, worked_until);
            }
        }
        self.nand.at(time);
        self.hear_all();
    }

    /// Until when the drive works by `time`, if nothing is asked of it: what chips have begun ends by itself,
    /// requests may take until then.
    pub(super) fn works_until(&self, time: Nanos) -> Nanos {
        if self.has_requests() {
            return time;
        }
        let own = self.events.iter().map(|Reverse((at, ..))| *at).max();
        self.nand.will_idle_at().max(own.unwrap_or_default()).min(time)
    }

    fn has_events(&self) -> bool {
        !self.events.is_empty() || self.nand.next_event().is_some()
    }

    /// Handles the next event, if it comes by `until`.
    pub(super) fn step_by(&mut self, until: Nanos) -> bool {
        let has_stepped = self.handle_next(until);
        if let Some(mut power) = self.power.take() {
            power.note(self.has_requests() || self.has_events(), self.present());
            self.power = Some(power);
        }
        has_stepped
    }

    fn handle_next(&mut self, until: Nanos) -> bool {
        let of_chips = self.nand.next_event();
        let of_drive = self.events.peek().map(|Reverse((time, ..))| *time);
        let time = match (of_chips, of_drive) {
            (None, None) => return self.complete_rows(),
            (one, other) => one.unwrap_or(Nanos::MAX).min(other.unwrap_or(Nanos::MAX)),
        };
        if time > until {
            return false;
        }
        if of_chips == Some(time) {
            self.nand.step();
            self.hear_all();
            return true;
        }
        self.nand.at(time);
        let Reverse((_, _, event)) = self.events.pop().expect("it was just looked at");
        match event {
            Event::Decoded(place) => self.decoded(place),
            Event::Held(place) => self.write(place),
            Event::Turn(place) => self.turn(place),
            Event::UnitArrived(place, number) => self.unit_arrived(place, number),
            Event::PartDone(place) => self.part_done(place, Ok(())),
            Event::Told(place) => self.tell(place),
        }
        true
    }

    /// Invariant 5 of the drive.
    fn complete_rows(&mut self) -> bool {
        let completed = self.ftl.complete_rows(&mut self.nand);
        let has_rows = match completed {
            Ok(has_rows) => has_rows,
            // No good erase block is left for a row that has to be completed, so every request that
            // waits fails with that error.
            Err(error) => {
                self.fail_all(&super::device_error(error));
                true
            }
        };
        assert!(has_rows, "requests wait, though nothing is in flight that could end them");
        true
    }

    /// Every request ends with `error` now.
    fn fail_all(&mut self, error: &DeviceError) {
        for place in 0..to_u32(self.active.len() as u64) {
            if let Some(active) = &mut self.active[place as usize] {
                active.result = Err(error.clone());
                active.open_parts = 0;
                self.at(self.nand.now(), Event::Told(place));
            }
        }
    }

    fn hear_all(&mut self) {
        while let Some(code) = self.nand.take_finished() {
            self.hear(Watcher::of_code(code));
        }
    }

    fn hear(&mut self, watcher: Watcher) {
        match watcher {
            Watcher::Part(place) => self.part_done(place, Ok(())),
            Watcher::First(place) => self.first_unit_ready(place),
            Watcher::Read(place) => self.read_ready(place),
            Watcher::Flush(place) => {
                let told_at = self.present() + self.config.flush_ns + self.config.pipeline_ns;
                self.at(told_at, Event::Told(place));
            }
            Watcher::Slot(slot) => {
                self.buffer.release(slot);
                self.go_on();
            }
        }
    }

    fn decoded(&mut self, place: u32) {
        let operation = self.request(place).in_flight.operation;
        match operation {
            Operation::Read => self.read(place),
            Operation::Write if self.hold(place) => {}
            Operation::Write => self.write(place),
            // A trim or flush takes its turn after the data of earlier writes, which may still be
            // crossing the link.
            Operation::Trim | Operation::Flush => {
                let turn_at = self.link_in_free_at.max(self.present());
                self.at(turn_at, Event::Turn(place));
            }
        }
    }

    fn turn(&mut self, place: u32) {
        if self.request(place).in_flight.operation == Operation::Trim {
            self.trim(place);
        } else {
            self.flush(place);
        }
    }

    /// One part fewer to wait for. After the last one the host is told.
    pub(super) fn part_done(&mut self, place: u32, result: Result<(), DeviceError>) {
        let told_at = self.nand.now() + self.config.pipeline_ns;
        let active = self.request(place);
        if active.result.is_ok() {
            active.result = result;
        }
        active.open_parts -= 1;
        if active.open_parts == 0 {
            self.at(told_at, Event::Told(place));
        }
    }

    /// The host hears of the end, and the next command takes the slot.
    fn tell(&mut self, place: u32) {
        let active = self.active[place as usize].take().expect("a request is told of once");
        self.free_places.push(place);
        let Active { in_flight, sector_count, result, .. } = active;
        let queue = self.queue_of(in_flight.operation);
        let bytes = self.info.geometry.bytes_of(sector_count);
        self.counters.count(in_flight.operation, bytes, result.is_ok());
        self.completions.push(in_flight.complete(self.nand.now(), result));
        self.free_slots[queue] += 1;
        if let Some((issued_at, request)) = self.waiting[queue].pop_front() {
            self.begin(issued_at, request);
        }
    }

    /// Whose slots a command takes: the second are those of writes, where they have some.
    pub(super) fn queue_of(&self, operation: Operation) -> usize {
        usize::from(operation == Operation::Write && self.config.native_write_depth.is_some())
    }

    /// A write is held back where it would have the layer move other data, unless it goes on with a
    /// unit in memory. Its data follow when it goes on.
    fn hold(&mut self, place: u32) -> bool {
        let first_sector = self.request(place).first_sector;
        let lpn = Lpn(first_sector / u64::from(self.sectors_per_unit));
        let is_held = self.config.write_hold_ns > Nanos::ZERO
            && self.buffer.peek(lpn).is_none()
            && self.ftl.moves_others(lpn);
        if is_held {
            self.at(self.present() + self.config.write_hold_ns, Event::Held(place));
        }
        is_held
    }
}
