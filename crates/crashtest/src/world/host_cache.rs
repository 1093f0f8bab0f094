//! The memory of a host above a device: what was written since the last good flush may be on the
//! device in any part when the power goes, and is in part gone after a flush that fails, as where a
//! kernel drops dirty pages that it could not write.
//!
//! ```text
//!   write ─► memory ─── flush ───► all to the device, flush
//!   read ──► device, memory over it
//!                ├── the flush that fails ─► some to the device, the rest is gone
//!                └── a cut ─► some to the device, which loses its power then
//! ```
//!
//! 1. Writes wait in memory while a flush is to fail, and in most of the lives that end with a cut.
//!    Otherwise they go to the device as they come.
//! 2. What waits goes to the device when the plan ends.

use super::Ground;
use nandu_base::{Nanos, Rng, SectorIndex, to_index, to_u32};
use nandu_device::queue::InFlight;
use nandu_device::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, Failure, FailureCounts,
    FaultPlan, IoBuffer, Operation, Rejected, Request, UnflushedFate,
};
use std::collections::{BTreeMap, BTreeSet};

/// The id of requests that write what waited. Volumes count theirs from others.
const OWN_ID: u64 = u64::MAX;

pub(super) struct HostCache<D> {
    inner: D,
    plan: FaultPlan,
    rng: Rng,
    /// Requests that were submitted, and flushes.
    submitted_count: u64,
    submitted_flush_count: u64,
    failed: FailureCounts,
    /// Writes wait until the cut that is to come.
    waits_for_cut: bool,
    /// What waits, by sector.
    dirty: BTreeMap<u64, Vec<u8>>,
    /// What waited when a read in flight was issued: places in its buffer, by request.
    reads: BTreeMap<u64, Vec<(usize, Vec<u8>)>>,
    unreadable: BTreeSet<u64>,
    /// Completions of requests that did not go below, and of those that were met while something else
    /// was waited for.
    known: CompletionQueue,
}

impl<D: Ground> HostCache<D> {
    pub(super) fn new(inner: D) -> Self {
        Self {
            inner,
            plan: FaultPlan::default(),
            rng: Rng::new(0),
            submitted_count: 0,
            submitted_flush_count: 0,
            failed: FailureCounts::default(),
            waits_for_cut: false,
            dirty: BTreeMap::new(),
            reads: BTreeMap::new(),
            unreadable: BTreeSet::new(),
            known: CompletionQueue::default(),
        }
    }

    fn sector_bytes(&self) -> usize {
        self.inner.info().geometry.sector_bytes as usize
    }

    /// Ends a request here and now.
    fn end(&mut self, now: Nanos, request: Request, result: Result<(), DeviceError>) {
        let now = now.max(self.inner.now());
        self.known.push(InFlight::of(request, now).complete(now, result));
    }

    fn fail(&mut self, now: Nanos, request: Request, error: DeviceError) {
        self.failed.request_count += 1;
        self.failed.flush_count += u64::from(request.operation == Operation::Flush);
        self.end(now, request, Err(error));
    }

    /// Writes sectors to the device and waits.
    fn write_below(&mut self, first_sector: u64, bytes: &[u8]) {
        if !self.inner.is_powered() {
            return;
        }
        while self.inner.in_flight() >= self.inner.info().queue_depth_max {
            self.take_in();
        }
        let alignment = self.inner.info().buffer_alignment.max(1) as usize;
        let mut buffer = IoBuffer::with_alignment(bytes.len(), alignment);
        buffer.copy_from_slice(bytes);
        let count = to_u32((bytes.len() / self.sector_bytes()) as u64);
        let request = Request::write(OWN_ID, first_sector, count, Some(buffer));
        let now = self.inner.now();
        if self.inner.submit(now, request).is_ok() {
            while self.take_in().is_some_and(|id| id != OWN_ID) {}
        }
    }

    /// Takes one completion from below; tells whose.
    fn take_in(&mut self) -> Option<u64> {
        let completion = self.inner.next_completion(Nanos::MAX)?;
        let id = completion.id;
        if id != OWN_ID {
            self.known.push(completion);
        }
        Some(id)
    }

    /// Brings to the device what waits.
    fn write_all(&mut self) {
        for (sector, bytes) in std::mem::take(&mut self.dirty) {
            self.write_below(sector, &bytes);
        }
    }

    /// Brings some of what waits to the device; the rest waits on. A kernel writes whole pages of its own.
    fn write_some(&mut self) {
        let bytes_at_once = [512, 512, 512, 2048, 4096][to_index(self.rng.below(5))];
        let sectors_at_once = (bytes_at_once / self.sector_bytes() as u64).max(1);
        let kept_of = [2, 2, 2, 3, 4][to_index(self.rng.below(5))];
        let (mut group, mut is_written) = (u64::MAX, false);
        for sector in self.dirty.keys().copied().collect::<Vec<u64>>() {
            if sector / sectors_at_once != group {
                group = sector / sectors_at_once;
                is_written = self.rng.below(kept_of) > 0;
            }
            if is_written && let Some(bytes) = self.dirty.remove(&sector) {
                self.write_below(sector, &bytes);
            }
        }
    }

    /// The power goes once what was written so far is in its place, with some of the request at hand.
    fn cut_after(&mut self, request: &Request) {
        if let (Operation::Write, Some(buffer)) = (request.operation, &request.buffer) {
            let kept = self.rng.below(u64::from(request.sector_count) + 1);
            if kept > 0 {
                let bytes = buffer[..to_index(kept) * self.sector_bytes()].to_vec();
                self.note_change(request);
                self.write_below(request.first_sector.0, &bytes);
            }
        }
        self.flush_below();
        self.dirty.clear();
        self.inner.cut_power();
    }

    /// Makes durable what is on the device.
    fn flush_below(&mut self) {
        while self.inner.in_flight() >= self.inner.info().queue_depth_max {
            self.take_in();
        }
        let now = self.inner.now();
        if self.inner.submit(now, Request::flush(OWN_ID)).is_ok() {
            while self.take_in().is_some_and(|id| id != OWN_ID) {}
        }
    }

    /// What a request does that fails.
    fn damage(&mut self, request: &Request) {
        match (request.operation, &request.buffer) {
            (Operation::Flush, _) => {
                self.write_some();
                self.dirty.clear();
            }
            (Operation::Write, Some(buffer)) => {
                let kept = self.rng.below(u64::from(request.sector_count) + 1);
                let bytes = buffer[..to_index(kept) * self.sector_bytes()].to_vec();
                if kept > 0 {
                    self.write_below(request.first_sector.0, &bytes);
                }
            }
            (Operation::Read, _) if self.plan.failure == Failure::DamagesForEver => {
                self.unreadable.extend(request.first_sector.0..request.end_sector());
            }
            _ => {}
        }
    }

    fn is_unreadable(&self, request: &Request) -> bool {
        let sectors = request.first_sector.0..request.end_sector();
        request.operation == Operation::Read && self.unreadable.range(sectors).next().is_some()
    }

    /// Takes the sectors of a write or trim out of what is known of them.
    fn note_change(&mut self, request: &Request) {
        for sector in request.first_sector.0..request.end_sector() {
            self.unreadable.remove(&sector);
            self.dirty.remove(&sector);
        }
    }

    fn is_caching(&self) -> bool {
        let may_fail = |number| self.submitted_flush_count < number;
        self.waits_for_cut || self.plan.fail_flush.is_some_and(may_fail)
    }

    /// Lays what waited over what was read.
    fn lay_over(&mut self, completion: &mut Completion) {
        let Some(waiting) = self.reads.remove(&completion.id) else { return };
        let Some(buffer) = &mut completion.buffer else { return };
        for (at, bytes) in waiting {
            buffer[at..at + bytes.len()].copy_from_slice(&bytes);
        }
    }
}

impl<D: Ground> Ground for HostCache<D> {
    fn submitted_count(&self) -> u64 {
        self.submitted_count
    }

    fn submitted_flush_count(&self) -> u64 {
        self.submitted_flush_count
    }

    fn failed(&self) -> FailureCounts {
        self.failed
    }

    fn unreadable_count(&self) -> usize {
        self.unreadable.len()
    }

    fn make_readable(&mut self) {
        self.unreadable.clear();
    }

    fn set_plan(&mut self, plan: FaultPlan) {
        // A cut at a request only says when; what waits until then was settled before.
        if plan.power_cut_at_request.is_none() {
            let changes_nothing = plan.failure == Failure::ChangesNothing;
            self.waits_for_cut = changes_nothing && !plan.seed.is_multiple_of(4);
        }
        if plan.fail_flush.is_none() && !self.waits_for_cut {
            self.write_all();
        }
        self.rng = Rng::for_part(plan.seed, "what failing requests lose");
        // The device counts other requests.
        self.inner.set_plan(FaultPlan { power_cut_at_request: None, ..plan.clone() });
        self.plan = plan;
    }

    fn cut_power(&mut self) {
        self.write_some();
        self.dirty.clear();
        self.reads.clear();
        self.inner.cut_power();
    }

    fn is_powered(&self) -> bool {
        self.inner.is_powered()
    }

    fn power_on(&mut self) -> Result<(), String> {
        self.inner.power_on()
    }

    fn audit(&self) {
        self.inner.audit();
    }
}

impl<D: Ground> Device for HostCache<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info().check(&request, self.in_flight()) {
            return Err(Rejected { request, error });
        }
        self.submitted_count += 1;
        let (number, is_flush) = (self.submitted_count, request.operation == Operation::Flush);
        self.submitted_flush_count += u64::from(is_flush);
        if !self.inner.is_powered() {
            return self.inner.submit(now, request);
        }
        let is_full = self.plan.full_from_request.is_some_and(|first| number >= first);
        if is_full && request.operation == Operation::Write {
            self.fail(now, request, DeviceError::NoSpace);
            return Ok(());
        }
        let flush_number = is_flush.then_some(self.submitted_flush_count);
        let is_planned = self.plan.fails(number, flush_number);
        if is_planned || self.is_unreadable(&request) {
            if is_planned && self.plan.failure != Failure::ChangesNothing {
                self.damage(&request);
            }
            let first_sector = request.first_sector.0;
            let what = format!("fault planned for request {number}");
            self.fail(now, request, DeviceError::Media { first_sector, what });
            return Ok(());
        }
        let is_cut = self.plan.power_cut_at_request == Some(number);
        if is_cut {
            // The kernel has written some, perhaps long ago.
            let is_between = self.is_caching() || !self.dirty.is_empty();
            self.write_some();
            let is_torn = self.plan.unflushed == UnflushedFate::Torn;
            if is_between && (is_torn || self.rng.below(4) > 0) {
                self.cut_after(&request);
                return self.inner.submit(now, request);
            }
            // The moment is the device's to find.
            let power_cut_at_request = Some(self.inner.submitted_count() + 1);
            self.inner.set_plan(FaultPlan { power_cut_at_request, ..self.plan.clone() });
        }
        match request.operation {
            Operation::Write if self.is_caching() && !is_cut && request.buffer.is_some() => {
                self.note_change(&request);
                let Request { first_sector: SectorIndex(first), buffer, .. } = &request;
                let pieces = buffer.iter().flat_map(|buffer| buffer.chunks(self.sector_bytes()));
                let waiting: Vec<(u64, Vec<u8>)> =
                    (*first..).zip(pieces.map(<[u8]>::to_vec)).collect();
                self.dirty.extend(waiting);
                self.end(now, request, Ok(()));
                return Ok(());
            }
            Operation::Write | Operation::Trim => self.note_change(&request),
            Operation::Flush => self.write_all(),
            Operation::Read => {
                let (first, end) = (request.first_sector.0, request.end_sector());
                let sector_bytes = self.sector_bytes();
                let place = |sector: u64| to_index(sector - first) * sector_bytes;
                let waiting: Vec<(usize, Vec<u8>)> = self
                    .dirty
                    .range(first..end)
                    .map(|(&sector, bytes)| (place(sector), bytes.clone()))
                    .collect();
                if !waiting.is_empty() {
                    self.reads.insert(request.id, waiting);
                }
            }
        }
        while self.inner.in_flight() >= self.inner.info().queue_depth_max {
            self.take_in();
        }
        self.inner.submit(now, request)
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let known = self.known.pop(until);
        let mut completion = known.or_else(|| self.inner.next_completion(until))?;
        self.lay_over(&mut completion);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight() + self.known.len()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
