//! The loop that keeps a device busy: one run of one pattern.
//!
//! ```text
//!   waiting places (first in, first out) ──submit──► device ──next_completion──┐
//!        ▲                                                                     │
//!        └──────────── think time, flush due, buffers come back ◄── record ◄───┘
//! ```
//!
//! 1. At most `queue_depth` requests are in flight; each place of the queue has one at most, and the
//!    place's number is the request's id.
//! 2. Places wait in the order of the time at which they may go on, so `now` never runs backwards.
//! 3. Each completion is followed by the next request at once; a real device gathers those requests
//!    and hands them to the kernel together when it has no completion left to tell.
//! 4. Once the loop runs, nothing is allocated.

use crate::ProbeError;
use crate::pattern::{Access, DataKind, Pattern};
use crate::runner::{Observer, TimelinePoint};
use nandu_base::{AddressGenerator, LatencyHistogram, Nanos, Permutation, Rng, to_index, to_u32};
use nandu_device::{Completion, Device, IoBuffer, Operation, Request};
use std::collections::VecDeque;

/// The timeline is coarsened rather than made longer than this.
const TIMELINE_POINTS_MAX: usize = 4096;
/// The observer hears of a run at least this often, in requests and in the device's time.
const REPORT_REQUESTS: u64 = 1024;
const REPORT_PERIOD: Nanos = Nanos::from_millis(100);

/// One place of the queue.
#[derive(Debug, Default)]
struct Place {
    read_buffer: Option<IoBuffer>,
    write_buffer: Option<IoBuffer>,
    first_sector: u64,
}

/// Where the next request goes.
#[derive(Debug)]
enum Addresses {
    Sequential { next: u64 },
    Permuted { permutation: Permutation, next: u64, seed: u64 },
    Drawn(AddressGenerator),
}

/// What a run is told beyond its pattern.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RunOrder {
    /// Which repetition it is; each has its own addresses.
    pub(crate) repetition: u32,
    /// Whether a sequential run starts at slot 0 instead of a random one: fills do.
    pub(crate) from_start: bool,
    /// Progress that the runs before it made, and its own share.
    pub(crate) progress_base: f64,
    pub(crate) progress_share: f64,
}

/// Counts of one run.
#[derive(Debug, Default)]
pub(crate) struct RunCounts {
    pub(crate) request_count: u64,
    pub(crate) byte_count: u64,
    pub(crate) elapsed: Nanos,
    /// Where the device is real.
    pub(crate) processor_time: Option<Nanos>,
}

/// Everything that one pattern needs while it runs; made once and used for all repetitions.
pub(crate) struct IoLoop<'a> {
    pattern: &'a Pattern,
    name: String,
    sector_bytes: u64,
    request_sectors: u32,
    first_slot_sector: u64,
    slot_count: u64,
    places: Vec<Place>,
    /// Places that may go on, with the time from which they may.
    waiting: VecDeque<(Nanos, usize)>,
    rng: Rng,
    addresses: Addresses,
    /// Writes so far, over all repetitions.
    write_count: u64,
    writes_since_flush: u32,
    flush_is_due: bool,
    issued_count: u64,
    pub(crate) reads: LatencyHistogram,
    pub(crate) writes: LatencyHistogram,
    pub(crate) flushes: LatencyHistogram,
    pub(crate) timeline: Timeline,
}

impl<'a> IoLoop<'a> {
    /// Makes room and buffers for `pattern`, which must be valid for `device`.
    pub(crate) fn new(pattern: &'a Pattern, device: &mut dyn Device) -> Self {
        let places = places_for(pattern, device);
        let info = device.info();
        let sector_bytes = u64::from(info.geometry.sector_bytes);
        let depth = pattern.queue_depth as usize;
        let first_byte = pattern.area.start + pattern.alignment_offset_bytes;
        Self {
            pattern,
            name: pattern.name(),
            sector_bytes,
            request_sectors: to_u32(pattern.request_bytes.0 / sector_bytes),
            first_slot_sector: first_byte.0 / sector_bytes,
            slot_count: pattern.slot_count(info),
            places,
            waiting: VecDeque::with_capacity(depth),
            rng: Rng::for_part(pattern.seed, "mix"),
            addresses: Addresses::Sequential { next: 0 },
            write_count: 0,
            writes_since_flush: 0,
            flush_is_due: false,
            issued_count: 0,
            reads: LatencyHistogram::new(),
            writes: LatencyHistogram::new(),
            flushes: LatencyHistogram::new(),
            timeline: Timeline::new(pattern.timeline_period_ns),
        }
    }

    /// One run. On return nothing is in flight, whatever happened.
    pub(crate) fn run(
        &mut self,
        device: &mut dyn Device,
        order: RunOrder,
        observer: &mut dyn Observer,
    ) -> Result<RunCounts, ProbeError> {
        self.reset(order)?;
        let before = device.processor_time();
        let mut outcome = self.keep_busy(device, order, observer);
        if let Ok(counts) = &mut outcome {
            let spent = |before| device.processor_time().map(|now| now.saturating_sub(before));
            counts.processor_time = before.and_then(spent);
        }
        if outcome.is_err() {
            while let Some(completion) = device.next_completion(Nanos::MAX) {
                self.take_back(completion);
            }
        }
        self.audit(device);
        outcome
    }

    /// Asserts invariant 1 between runs: the queue is empty and every place waits once.
    fn audit(&self, device: &dyn Device) {
        assert_eq!(device.in_flight(), 0, "a run leaves nothing in flight");
        assert!(self.waiting.len() <= self.places.len(), "invariant 1: each place waits once");
    }

    fn reset(&mut self, order: RunOrder) -> Result<(), ProbeError> {
        let pattern = self.pattern;
        let seed = Rng::for_part(pattern.seed ^ (u64::from(order.repetition) << 32), "addresses")
            .next_u64();
        self.addresses = match (pattern.access, &pattern.distribution) {
            (Access::Sequential, _) if order.from_start => Addresses::Sequential { next: 0 },
            (Access::Sequential, _) => {
                Addresses::Sequential { next: Rng::new(seed).below(self.slot_count) }
            }
            (Access::Random, None) => {
                let permutation = Permutation::new(self.slot_count, seed);
                Addresses::Permuted { permutation, next: 0, seed }
            }
            (Access::Random, Some(distribution)) => {
                let drawn = AddressGenerator::new(distribution, self.slot_count, seed);
                Addresses::Drawn(drawn.map_err(|error| ProbeError::Pattern {
                    label: self.name.clone(),
                    message: format!("distribution: {error}"),
                })?)
            }
        };
        self.waiting.clear();
        (self.issued_count, self.writes_since_flush, self.flush_is_due) = (0, 0, false);
        self.reads.clear();
        self.writes.clear();
        self.flushes.clear();
        self.timeline.clear();
        Ok(())
    }

    fn keep_busy(
        &mut self,
        device: &mut dyn Device,
        order: RunOrder,
        observer: &mut dyn Observer,
    ) -> Result<RunCounts, ProbeError> {
        let start = device.now();
        let limit = self.pattern.limit;
        let deadline = limit.duration.map_or(Nanos::MAX, |time| start.saturating_add(time));
        let request_count_max = limit.request_count.unwrap_or(u64::MAX);
        let mut counts = RunCounts::default();
        let (mut now, mut end) = (start, start);
        let (mut next_report_at, mut next_report_count) = (start, 0);
        self.waiting.extend((0..self.places.len()).map(|place| (start, place)));
        loop {
            let may_issue = now < deadline && self.issued_count < request_count_max;
            if may_issue {
                self.issue_waiting(device, now, request_count_max)?;
            }
            let wakes_at = self.waiting.front().map(|&(time, _)| time);
            let more = may_issue && self.issued_count < request_count_max;
            if device.in_flight() == 0 {
                // With nothing in flight, either a request waits for its think time to pass, or the
                // run is over.
                let Some(wakes_at) = wakes_at.filter(|&time| more && time < deadline) else {
                    break;
                };
                now = device.idle_until(wakes_at).max(wakes_at);
                continue;
            }
            let until = wakes_at.filter(|_| more).unwrap_or(Nanos::MAX);
            let Some(completion) = device.next_completion(until) else {
                assert!(until < Nanos::MAX, "a request in flight completes");
                now = now.max(until);
                continue;
            };
            now = completion.completed_at;
            if now > Nanos::HORIZON {
                let what = "the run passes 292 years, where virtual time ends; lower think_ns";
                let (label, message) = (self.name.clone(), what.to_owned());
                return Err(ProbeError::Pattern { label, message });
            }
            end = now;
            self.finish(completion, start, &mut counts)?;
            if now >= next_report_at || counts.request_count >= next_report_count {
                next_report_at = now.saturating_add(REPORT_PERIOD);
                next_report_count = counts.request_count + REPORT_REQUESTS;
                let done = limit_fraction(&counts, request_count_max, now - start, limit.duration);
                let fraction = order.progress_base + order.progress_share * done;
                observer.progress(fraction, &self.name);
                if observer.is_cancelled() {
                    return Err(ProbeError::Cancelled);
                }
            }
        }
        counts.elapsed = end - start;
        self.timeline.close();
        Ok(counts)
    }

    /// Submits for every place whose time has come.
    fn issue_waiting(
        &mut self,
        device: &mut dyn Device,
        now: Nanos,
        request_count_max: u64,
    ) -> Result<(), ProbeError> {
        while self.issued_count < request_count_max
            && let Some(&(ready_at, place)) = self.waiting.front()
            && ready_at <= now
        {
            self.waiting.pop_front();
            let request = self.next_request(place);
            device.submit(now, request).map_err(|rejected| {
                let request = rejected.request;
                let moved = u64::from(request.sector_count) * self.sector_bytes;
                let address = request.first_sector.0 * self.sector_bytes;
                self.failure(request.operation, address, moved, now, rejected.error)
            })?;
        }
        Ok(())
    }

    fn next_request(&mut self, place_index: usize) -> Request {
        let id = place_index as u64;
        if self.flush_is_due {
            self.flush_is_due = false;
            return Request::flush(id);
        }
        self.issued_count += 1;
        let slot = self.addresses.next_slot(self.slot_count);
        let first_sector = self.first_slot_sector + slot * u64::from(self.request_sectors);
        let reads = match self.pattern.read_percent {
            100 => true,
            0 => false,
            percent => self.rng.below(100) < u64::from(percent),
        };
        let place = &mut self.places[place_index];
        place.first_sector = first_sector;
        if reads {
            return Request::read(id, first_sector, self.request_sectors, place.read_buffer.take());
        }
        self.write_count += 1;
        let mut buffer = place.write_buffer.take();
        if let Some(bytes) = &mut buffer {
            stamp(bytes, self.pattern.data, self.write_count);
        }
        if self.pattern.flush_every > 0 {
            self.writes_since_flush += 1;
            if self.writes_since_flush >= self.pattern.flush_every {
                (self.writes_since_flush, self.flush_is_due) = (0, true);
            }
        }
        Request::write(id, first_sector, self.request_sectors, buffer)
    }

    /// Records a completion and lets its place wait for its next turn.
    fn finish(
        &mut self,
        mut completion: Completion,
        start: Nanos,
        counts: &mut RunCounts,
    ) -> Result<(), ProbeError> {
        let (operation, at, id) = (completion.operation, completion.completed_at, completion.id);
        let latency = completion.latency();
        let result = std::mem::replace(&mut completion.result, Ok(()));
        self.take_back(completion);
        let place = to_index(id);
        self.waiting.push_back((at.saturating_add(self.pattern.think_ns), place));
        if let Err(error) = result {
            let moved =
                if operation == Operation::Flush { 0 } else { self.pattern.request_bytes.0 };
            let address = self.places[place].first_sector * self.sector_bytes;
            return Err(self.failure(operation, address, moved, at - start, error));
        }
        match operation {
            Operation::Read => self.reads.record(latency),
            Operation::Write => self.writes.record(latency),
            Operation::Flush | Operation::Trim => {
                self.flushes.record(latency);
                return Ok(());
            }
        }
        counts.request_count += 1;
        counts.byte_count += self.pattern.request_bytes.0;
        self.timeline.add(at - start, self.pattern.request_bytes.0);
        Ok(())
    }

    /// Puts a completion's buffer back into its place.
    fn take_back(&mut self, completion: Completion) {
        let place = &mut self.places[to_index(completion.id)];
        match completion.operation {
            Operation::Read => place.read_buffer = completion.buffer,
            Operation::Write => place.write_buffer = completion.buffer,
            Operation::Flush | Operation::Trim => {}
        }
    }

    fn failure(
        &self,
        operation: Operation,
        address: u64,
        byte_count: u64,
        at: Nanos,
        error: nandu_device::DeviceError,
    ) -> ProbeError {
        ProbeError::Device { label: self.name.clone(), operation, address, byte_count, at, error }
    }
}

fn limit_fraction(
    counts: &RunCounts,
    request_count_max: u64,
    elapsed: Nanos,
    duration: Option<Nanos>,
) -> f64 {
    let by_count = counts.request_count as f64 / request_count_max as f64;
    let by_time = duration.map_or(0.0, |limit| elapsed.0 as f64 / limit.0 as f64);
    by_count.max(by_time).min(1.0)
}

/// A place for each request of the queue, with buffers where the device wants them.
fn places_for(pattern: &Pattern, device: &mut dyn Device) -> Vec<Place> {
    let depth = pattern.queue_depth as usize;
    let mut places: Vec<Place> = (0..depth).map(|_| Place::default()).collect();
    if !device.info().needs_buffers {
        return places;
    }
    let (reads, writes) = (pattern.read_percent > 0, pattern.writes());
    let count = depth * (usize::from(reads) + usize::from(writes));
    let mut buffers = device.buffers(count, to_index(pattern.request_bytes.0)).into_iter();
    let mut data = Rng::for_part(pattern.seed, "data");
    for place in &mut places {
        if reads {
            place.read_buffer = buffers.next();
        }
        if writes {
            place.write_buffer = buffers.next();
            let buffer = place.write_buffer.as_mut().expect("as many as were asked for");
            fill(buffer, pattern.data, &mut data);
        }
    }
    places
}

fn fill(bytes: &mut [u8], data: DataKind, rng: &mut Rng) {
    match data {
        DataKind::Random => rng.fill(bytes),
        DataKind::Cyclic => {
            for (byte, value) in bytes.iter_mut().zip((0..=u8::MAX).cycle()) {
                *byte = value;
            }
        }
        DataKind::Zeros | DataKind::Age => bytes.fill(0),
    }
}

/// Makes a buffer differ from its last use where the kind of data asks for it, without paying for
/// the whole buffer: refilling costs more time than many devices need for the write.
fn stamp(bytes: &mut [u8], data: DataKind, write_count: u64) {
    match data {
        DataKind::Random => {
            let mixed = write_count.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes();
            bytes[..8].copy_from_slice(&mixed);
        }
        DataKind::Age => {
            for sector in bytes.chunks_mut(512) {
                sector[..8].copy_from_slice(&write_count.to_le_bytes());
            }
        }
        DataKind::Cyclic | DataKind::Zeros => {}
    }
}

impl Addresses {
    fn next_slot(&mut self, slot_count: u64) -> u64 {
        match self {
            Self::Sequential { next } => {
                let slot = *next;
                *next = if slot + 1 == slot_count { 0 } else { slot + 1 };
                slot
            }
            Self::Permuted { permutation, next, seed } => {
                if *next == slot_count {
                    *seed = seed.wrapping_add(1);
                    *permutation = Permutation::new(slot_count, *seed);
                    *next = 0;
                }
                *next += 1;
                permutation.apply(*next - 1)
            }
            Self::Drawn(generator) => generator.next_item(),
        }
    }
}

/// Bytes over time, in bounded memory: when it grows too long, neighbours are merged.
#[derive(Debug)]
pub(crate) struct Timeline {
    first_period: Nanos,
    period: Nanos,
    open_index: u64,
    open_bytes: u64,
    points: Vec<(u64, u64)>,
}

impl Timeline {
    fn new(period: Nanos) -> Self {
        let points = Vec::with_capacity(TIMELINE_POINTS_MAX);
        Self { first_period: period, period, open_index: 0, open_bytes: 0, points }
    }

    fn clear(&mut self) {
        self.period = self.first_period;
        (self.open_index, self.open_bytes) = (0, 0);
        self.points.clear();
    }

    fn add(&mut self, at: Nanos, bytes: u64) {
        // A completion at the very end of a period belongs to it.
        let index = at.0.saturating_sub(1) / self.period.0;
        if index != self.open_index {
            self.close();
            self.open_index = at.0.saturating_sub(1) / self.period.0;
        }
        self.open_bytes += bytes;
    }

    fn close(&mut self) {
        if self.open_bytes > 0 {
            if self.points.len() == TIMELINE_POINTS_MAX {
                self.coarsen();
            }
            match self.points.last_mut() {
                Some((index, bytes)) if *index == self.open_index => *bytes += self.open_bytes,
                _ => self.points.push((self.open_index, self.open_bytes)),
            }
        }
        self.open_bytes = 0;
    }

    fn coarsen(&mut self) {
        self.period = self.period.saturating_add(self.period);
        self.open_index /= 2;
        for point in &mut self.points {
            point.0 /= 2;
        }
        self.points.dedup_by(|later, earlier| {
            let same = later.0 == earlier.0;
            if same {
                earlier.1 += later.1;
            }
            same
        });
    }

    /// The period in force and the points so far.
    pub(crate) fn points(&self) -> (Nanos, Vec<TimelinePoint>) {
        let period = self.period.as_seconds_f64();
        let points = self.points.iter().map(|&(index, byte_count)| TimelinePoint {
            second: index as f64 * period,
            byte_count,
        });
        (self.period, points.collect())
    }
}
