//! A solid-state drive: NAND chips under a translation layer, behind a controller and a link.
//!
//! ```text
//!  host ─► slot ─► controller ─┬─► read:  memory or ftl ─► nand ─► link ─► done
//!     (native queue depth)     └─► write: link ─► write buffer ─► done (write-back)
//!                                                     └─► ftl ─► nand ─► done (write-through)
//! ```
//!
//! Every part is a timeline: a command takes it from the earliest moment at which it is free, so the
//! time of completion is known at submission. Only the link to the host serves reads in the order in
//! which their data is ready (`staged`), because that order is not the order of submission.
//!
//! 1. The drive touches cells only through its translation layer.
//! 2. A sector is found, newest first, in an open unit, else where the translation layer has it.
//! 3. At most `native_queue_depth` commands are worked on at once.
//! 4. A completed flush leaves no open unit and no write that waits for its program.

mod config;
mod power;
mod read_ahead;
#[cfg(test)]
mod tests;
mod write_buffer;

pub use config::SsdConfig;

use nandu_base::{Lpn, Nanos, Picojoules, VirtualClock, to_index, to_u32};
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, FlashUse, Geometry,
    IoBuffer, Operation, Rejected, Request, TimeSource,
};
use nandu_ftl::{Ftl, FtlError};
use nandu_nand::NandArray;
use read_ahead::ReadAhead;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;
use write_buffer::{OpenUnit, WriteBuffer};

/// Most requests that the host may have in flight; the drive itself works on fewer.
const HOST_QUEUE_DEPTH: u32 = 1024;

/// A simulated SSD.
pub struct Ssd {
    info: DeviceInfo,
    config: SsdConfig,
    clock: VirtualClock,
    nand: NandArray,
    ftl: Box<dyn Ftl>,
    unit_bytes: u32,
    unit_count: u64,
    sectors_per_unit: u32,
    controller_free_at: Nanos,
    link_in_free_at: Nanos,
    link_out_free_at: Nanos,
    slots: BinaryHeap<Reverse<Nanos>>,
    staged: BinaryHeap<Reverse<StagedKey>>,
    staged_requests: Vec<Option<StagedRead>>,
    staged_sequence: u64,
    completions: CompletionQueue,
    buffer: WriteBuffer,
    read_ahead: ReadAhead,
    counters: Counters,
    controller_busy: Nanos,
    power_is_on: bool,
}

/// When the data of a read is ready, the sequence that settles ties, and its place.
type StagedKey = (Nanos, u64, usize);

struct StagedRead {
    in_flight: InFlight,
    bytes: u64,
    first_ready_at: Nanos,
}

/// When the first and the last unit of a read are in the controller.
#[derive(Clone, Copy)]
struct ReadySpan {
    first: Nanos,
    last: Nanos,
}

/// A part of a request that lies in one mapping unit.
#[derive(Clone, Copy)]
struct UnitPart {
    lpn: Lpn,
    /// First sector inside the unit, and the one past the last.
    sectors: (u32, u32),
    /// Where the part starts in the request's buffer.
    buffer_offset: usize,
}

impl Ssd {
    /// A fresh drive called `name` of `geometry`. With `keep_data` it stores what is written;
    /// without, only times count and every read returns zeros. `seed` places bad erase blocks and
    /// drives random policies.
    ///
    /// # Errors
    /// If the parts do not fit together.
    pub fn new(
        name: &str,
        geometry: Geometry,
        config: &SsdConfig,
        keep_data: bool,
        seed: u64,
    ) -> Result<Self, DeviceError> {
        config.validate()?;
        let (nand, ftl) = config.build(geometry, keep_data, seed)?;
        let unit_bytes = ftl.unit_bytes();
        if !unit_bytes.is_multiple_of(geometry.sector_bytes) {
            let what = format!(
                "mapping unit of {unit_bytes} bytes is no multiple of the {}-byte sector",
                geometry.sector_bytes
            );
            return Err(DeviceError::InvalidGeometry { what });
        }
        let slot_count = to_index(config.write_buffer_bytes / u64::from(unit_bytes));
        let info = DeviceInfo {
            name: name.into(),
            geometry,
            queue_depth_max: HOST_QUEUE_DEPTH,
            time_source: TimeSource::Virtual,
            needs_buffers: false,
            buffer_alignment: 1,
            volatile_cache: !config.power_loss_protected,
            supports_trim: true,
        };
        let slots = (0..config.native_queue_depth).map(|_| Reverse(Nanos::ZERO)).collect();
        Ok(Self {
            info,
            clock: VirtualClock::new(),
            unit_bytes,
            unit_count: ftl.unit_count(),
            sectors_per_unit: unit_bytes / geometry.sector_bytes,
            nand,
            ftl,
            controller_free_at: Nanos::ZERO,
            link_in_free_at: Nanos::ZERO,
            link_out_free_at: Nanos::ZERO,
            slots,
            staged: BinaryHeap::new(),
            staged_requests: Vec::new(),
            staged_sequence: 0,
            completions: CompletionQueue::default(),
            buffer: WriteBuffer::new(slot_count, config.open_unit_count as usize),
            read_ahead: ReadAhead::default(),
            counters: Counters::default(),
            controller_busy: Nanos::ZERO,
            power_is_on: true,
            config: config.clone(),
        })
    }

    /// Maps every unit as if the whole drive had been written in order, without taking time: what a
    /// sequential fill leaves behind, for experiments that need a full drive at once.
    ///
    /// # Errors
    /// If the drive is not fresh.
    pub fn fill_at_once(&mut self) -> Result<(), DeviceError> {
        self.ftl.initialise_sequential(&mut self.nand).map_err(device_error)
    }

    /// Asserts the invariants of the drive and of everything below it.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        self.buffer.audit();
        if self.power_is_on {
            self.ftl.audit(&self.nand);
        }
        assert_eq!(
            self.slots.len(),
            self.config.native_queue_depth as usize,
            "invariant 3: a command gives back the slot it takes"
        );
        self.audit_power();
        let staged = self.staged_requests.iter().flatten().count();
        assert_eq!(staged, self.staged.len(), "every staged read has its place");
    }

    fn take_slot(&mut self, now: Nanos) -> Nanos {
        let Reverse(free_at) = self.slots.pop().expect("a command gives back the slot it takes");
        free_at.max(now)
    }

    fn controller(&mut self, start: Nanos, command: Nanos) -> Nanos {
        self.controller_free_at = self.controller_free_at.max(start) + command;
        self.controller_busy += command;
        self.controller_free_at
    }

    fn link_time(&self, bytes: u64) -> Nanos {
        Nanos::of_transfer(bytes, self.config.link_bytes_per_second)
    }

    fn link_to_host_time(&self, bytes: u64) -> Nanos {
        let speed = self.config.link_to_host_bytes_per_second;
        Nanos::of_transfer(bytes, speed.unwrap_or(self.config.link_bytes_per_second))
    }

    fn parts(
        &self,
        first_sector: u64,
        sector_count: u32,
    ) -> impl Iterator<Item = UnitPart> + use<> {
        let per_unit = u64::from(self.sectors_per_unit);
        let sector_bytes = u64::from(self.info.geometry.sector_bytes);
        let end = first_sector + u64::from(sector_count);
        (first_sector / per_unit..end.div_ceil(per_unit)).map(move |lpn| {
            let unit_start = lpn * per_unit;
            let from = first_sector.max(unit_start);
            let to = end.min(unit_start + per_unit);
            UnitPart {
                lpn: Lpn(lpn),
                sectors: (to_u32(from - unit_start), to_u32(to - unit_start)),
                buffer_offset: to_index((from - first_sector) * sector_bytes),
            }
        })
    }

    fn byte_range(&self, part: UnitPart) -> std::ops::Range<usize> {
        let sector_bytes = self.info.geometry.sector_bytes as usize;
        part.sectors.0 as usize * sector_bytes..part.sectors.1 as usize * sector_bytes
    }

    // ---- reads ----

    fn read(&mut self, at: Nanos, request: &mut Request) -> Result<ReadySpan, DeviceError> {
        let (first, count) = (request.first_sector.0, request.sector_count);
        let continues = self.read_ahead.continues(first, request.end_sector());
        let at = if continues { at } else { self.controller(at, self.config.map_lookup_ns) };
        if continues {
            self.fetch_ahead(at, first, request.end_sector())?;
        }
        let mut ready: Option<ReadySpan> = None;
        for part in self.parts(first, count) {
            let done = self.read_part(at, part, request.buffer.as_mut())?;
            let span = ready.get_or_insert(ReadySpan { first: done, last: done });
            span.last = span.last.max(done);
        }
        Ok(ready.expect("a read covers at least one sector"))
    }

    fn read_part(
        &mut self,
        at: Nanos,
        part: UnitPart,
        buffer: Option<&mut IoBuffer>,
    ) -> Result<Nanos, DeviceError> {
        let wanted = sector_mask(part.sectors);
        let present = self.buffer.peek(part.lpn).map_or(0, |unit| unit.present);
        let range = self.byte_range(part);
        let (ready_at, content) = if present & wanted == wanted {
            (at, None)
        } else if self.buffer.holds(part.lpn, at) {
            (at, self.ftl.peek(&self.nand, part.lpn))
        } else if let Some(ready_at) = self.read_ahead.ready_at(part.lpn) {
            (ready_at.max(at), self.ftl.peek(&self.nand, part.lpn))
        } else {
            let bytes = to_u32(range.len() as u64);
            let outcome =
                self.ftl.read(&mut self.nand, at, part.lpn, bytes).map_err(device_error)?;
            (outcome.done_at, outcome.content)
        };
        if let Some(buffer) = buffer {
            let target = &mut buffer[part.buffer_offset..part.buffer_offset + range.len()];
            match content {
                Some(content) => target.copy_from_slice(&content[range.clone()]),
                None => target.fill(0),
            }
            if let Some(unit) = self.buffer.peek(part.lpn) {
                overlay(unit, part.sectors.0, self.info.geometry.sector_bytes as usize, target);
            }
        }
        Ok(ready_at)
    }

    fn fetch_ahead(&mut self, at: Nanos, first: u64, end: u64) -> Result<(), DeviceError> {
        if self.config.read_ahead_bytes == 0 {
            return Ok(());
        }
        let per_unit = u64::from(self.sectors_per_unit);
        let window = self.config.read_ahead_bytes.div_ceil(u64::from(self.unit_bytes));
        let from = self.read_ahead.advance_to(Lpn(first / per_unit));
        let to = (end.div_ceil(per_unit) + window).min(self.unit_count);
        for lpn in from.0..to {
            let outcome = self
                .ftl
                .read(&mut self.nand, at, Lpn(lpn), self.unit_bytes)
                .map_err(device_error)?;
            self.read_ahead.push(outcome.done_at);
        }
        Ok(())
    }

    // ---- writes ----

    /// Units go to the buffer or to flash as they arrive over the link.
    fn write(&mut self, at: Nanos, request: &Request) -> Result<Nanos, DeviceError> {
        let start = self.link_in_free_at.max(at);
        let bytes = self.info.geometry.bytes_of(request.sector_count);
        self.link_in_free_at = start + self.link_time(bytes);
        let mut acknowledged_at = self.link_in_free_at;
        for part in self.parts(request.first_sector.0, request.sector_count) {
            let length = self.byte_range(part).len();
            let bytes = request
                .buffer
                .as_ref()
                .map(|b| &b[part.buffer_offset..part.buffer_offset + length]);
            let arrived_at = start + self.link_time((part.buffer_offset + length) as u64);
            let done = self.write_part(arrived_at, part, bytes)?;
            acknowledged_at = acknowledged_at.max(done);
        }
        Ok(acknowledged_at)
    }

    fn write_part(
        &mut self,
        at: Nanos,
        part: UnitPart,
        bytes: Option<&[u8]>,
    ) -> Result<Nanos, DeviceError> {
        self.read_ahead.invalidate(part.lpn, Lpn(part.lpn.0 + 1));
        if part.sectors == (0, self.sectors_per_unit) {
            self.buffer.take(part.lpn);
            return self.program(at, part.lpn, bytes.map(Arc::from));
        }
        let range = self.byte_range(part);
        let unit_bytes = self.unit_bytes as usize;
        let mask = sector_mask(part.sectors);
        let mut done = at;
        if self.buffer.touch(part.lpn).is_none() {
            let unit = OpenUnit { lpn: part.lpn, present: 0, content: None };
            if let Some(evicted) = self.buffer.open(unit) {
                done = self.close(at, evicted)?;
            }
        }
        let unit = self.buffer.touch(part.lpn).expect("the unit was just opened");
        unit.present |= mask;
        match (bytes, &mut unit.content) {
            (Some(bytes), content) => {
                let content = content.get_or_insert_with(|| vec![0; unit_bytes].into_boxed_slice());
                content[range].copy_from_slice(bytes);
            }
            (None, Some(content)) => content[range].fill(0),
            (None, None) => {}
        }
        if unit.present == sector_mask((0, self.sectors_per_unit)) {
            let unit = self.buffer.take(part.lpn).expect("the unit is open");
            done = done.max(self.program(at, unit.lpn, unit.content.map(Arc::from))?);
        }
        Ok(done)
    }

    /// Writes a partly filled unit to flash, its missing sectors taken from there.
    fn close(&mut self, at: Nanos, unit: OpenUnit) -> Result<Nanos, DeviceError> {
        let old =
            self.ftl.read(&mut self.nand, at, unit.lpn, self.unit_bytes).map_err(device_error)?;
        let content = match (old.content, &unit.content) {
            (None, None) => None,
            (old, _) => {
                let mut merged = old.map_or_else(
                    || vec![0; self.unit_bytes as usize].into_boxed_slice(),
                    |old| Box::from(&old[..]),
                );
                let sector_bytes = self.info.geometry.sector_bytes as usize;
                overlay(&unit, 0, sector_bytes, &mut merged);
                Some(Arc::from(merged))
            }
        };
        self.program(old.done_at, unit.lpn, content)
    }

    fn program(
        &mut self,
        at: Nanos,
        lpn: Lpn,
        content: Option<Arc<[u8]>>,
    ) -> Result<Nanos, DeviceError> {
        let admitted_at = self.buffer.admit(at);
        let written = self.ftl.write(&mut self.nand, admitted_at, lpn, content);
        let durable_at = written.map_err(device_error).inspect_err(|_| {
            // The slot must come back, or the buffer would shrink with every failure.
            self.buffer.release_at(lpn, admitted_at);
        })?;
        self.buffer.release_at(lpn, durable_at);
        Ok(if self.buffer.is_write_back() { admitted_at } else { durable_at })
    }

    fn close_all(&mut self, at: Nanos) -> Result<Nanos, DeviceError> {
        let mut done = at;
        while let Some(unit) = self.buffer.pop_open() {
            done = done.max(self.close(at, unit)?);
        }
        Ok(done)
    }

    fn flush(&mut self, at: Nanos) -> Result<Nanos, DeviceError> {
        if self.config.power_loss_protected {
            return Ok(at + self.config.flush_ns);
        }
        let closed_at = self.close_all(at)?;
        let drained_at = self.buffer.drained_at(closed_at);
        let mapped_at = self.ftl.flush(&mut self.nand, drained_at).map_err(device_error)?;
        Ok(mapped_at + self.config.flush_ns)
    }

    /// Whole units are unmapped; sectors of partly covered ones are overwritten with zeros, so that
    /// rule 5 of the contract holds.
    fn trim(&mut self, at: Nanos, request: &Request) -> Result<Nanos, DeviceError> {
        let mut done = at + self.config.trim_ns;
        for part in self.parts(request.first_sector.0, request.sector_count) {
            if part.sectors == (0, self.sectors_per_unit) {
                self.buffer.take(part.lpn);
                self.read_ahead.invalidate(part.lpn, Lpn(part.lpn.0 + 1));
                let trimmed = self.ftl.trim(&mut self.nand, at, part.lpn, 1);
                done = done.max(trimmed.map_err(device_error)?);
            } else {
                done = done.max(self.write_part(at, part, None)?);
            }
        }
        Ok(done)
    }

    // ---- completions ----

    fn stage(&mut self, in_flight: InFlight, bytes: u64, ready: ReadySpan) {
        self.staged_sequence += 1;
        let read = Some(StagedRead { in_flight, bytes, first_ready_at: ready.first });
        let free = self.staged_requests.iter().position(Option::is_none);
        let place = free.unwrap_or(self.staged_requests.len());
        if place == self.staged_requests.len() {
            self.staged_requests.push(read);
        } else {
            self.staged_requests[place] = read;
        }
        self.staged.push(Reverse((ready.last, self.staged_sequence, place)));
    }

    /// When a read's data is over the link: it streams from its first unit on, and the last unit
    /// follows when it is ready.
    fn streamed_at(&self, link_free_at: Nanos, ready: ReadySpan, bytes: u64) -> Nanos {
        let streamed = link_free_at.max(ready.first) + self.link_to_host_time(bytes);
        streamed.max(ready.last + self.link_to_host_time(bytes.min(u64::from(self.unit_bytes))))
    }

    /// Gives the link to the reads that are ready before the next completion is told.
    fn serve_link(&mut self, until: Nanos) {
        while let Some(&Reverse((last, _, place))) = self.staged.peek() {
            if last > self.completions.next_at().unwrap_or(Nanos::MAX).min(until) {
                return;
            }
            self.staged.pop();
            let read = self.staged_requests[place].take().expect("a staged read has its place");
            let ready = ReadySpan { first: read.first_ready_at, last };
            self.link_out_free_at = self.streamed_at(self.link_out_free_at, ready, read.bytes);
            let done = self.link_out_free_at + self.config.pipeline_ns;
            self.completions.push(read.in_flight.complete(done, Ok(())));
        }
    }

    fn execute(&mut self, now: Nanos, mut request: Request) {
        let bytes = self.info.geometry.bytes_of(request.sector_count);
        let start = self.take_slot(now);
        let command = match request.operation {
            Operation::Read => self.config.read_command_ns,
            Operation::Write | Operation::Trim | Operation::Flush => self.config.write_command_ns,
        };
        let at = self.controller(start, command);
        if request.operation == Operation::Read {
            let result = self.read(at, &mut request);
            self.finish_read(at, InFlight::of(request, now), bytes, result);
            return;
        }
        let result = match request.operation {
            Operation::Write => self.write(at, &request),
            Operation::Trim => self.trim(at, &request),
            Operation::Read | Operation::Flush => self.flush(at),
        };
        self.counters.count(request.operation, bytes, result.is_ok());
        let (done, result) = match result {
            Ok(done) => (done + self.config.pipeline_ns, Ok(())),
            Err(error) => (at, Err(error)),
        };
        self.slots.push(Reverse(done));
        self.completions.push(InFlight::of(request, now).complete(done, result));
    }

    fn finish_read(
        &mut self,
        at: Nanos,
        in_flight: InFlight,
        bytes: u64,
        result: Result<ReadySpan, DeviceError>,
    ) {
        self.counters.count(Operation::Read, bytes, result.is_ok());
        match result {
            Ok(ready) => {
                let estimate = self.streamed_at(Nanos::ZERO, ready, bytes);
                self.slots.push(Reverse(estimate + self.config.pipeline_ns));
                self.stage(in_flight, bytes, ready);
            }
            Err(error) => {
                self.slots.push(Reverse(at));
                self.completions.push(in_flight.complete(at, Err(error)));
            }
        }
    }
}

impl Device for Ssd {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn now(&self) -> Nanos {
        self.clock.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        let now = self.clock.advance_to(now);
        if !self.power_is_on {
            self.refuse_without_power(now, request);
            return Ok(());
        }
        // No power cut comes before the present.
        self.nand.settle(now);
        self.execute(now, request);
        Ok(())
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.serve_link(until);
        let completion = self.completions.pop(until)?;
        self.clock.advance_to(completion.completed_at);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.completions.len() + to_u32(self.staged.len() as u64)
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        assert_eq!(self.in_flight(), 0, "nothing may be in flight while idle");
        let now = self.clock.now();
        if time > now && self.power_is_on {
            self.ftl.idle(&mut self.nand, now, time);
        }
        self.clock.advance_to(time)
    }

    fn counters(&self) -> Counters {
        let mut commands = *self.nand.counters();
        (commands.host_read_pages, commands.host_write_pages) = self.ftl.host_pages();
        let energy = self.nand.energy();
        Counters {
            busy: self.controller_busy + self.nand.busy(),
            energy: (energy > Picojoules::ZERO).then_some(energy),
            flash: Some(FlashUse { commands, wear: self.nand.wear() }),
            ..self.counters
        }
    }
}

/// One bit for each sector from the first to before the last.
fn sector_mask((from, to): (u32, u32)) -> u128 {
    let below = |sector: u32| if sector >= 128 { u128::MAX } else { (1_u128 << sector) - 1 };
    below(to) & !below(from)
}

/// Copies the sectors that `unit` has over `target`, which starts at `first_sector` of the unit.
fn overlay(unit: &OpenUnit, first_sector: u32, sector_bytes: usize, target: &mut [u8]) {
    for (sector, bytes) in (first_sector..).zip(target.chunks_mut(sector_bytes)) {
        if unit.present & sector_mask((sector, sector + 1)) == 0 {
            continue;
        }
        match &unit.content {
            Some(content) => {
                let start = sector as usize * sector_bytes;
                bytes.copy_from_slice(&content[start..start + sector_bytes]);
            }
            None => bytes.fill(0),
        }
    }
}

fn device_error(error: FtlError) -> DeviceError {
    match error {
        FtlError::DeviceFull => DeviceError::NoSpace,
        other => DeviceError::Internal { what: other.to_string() },
    }
}
