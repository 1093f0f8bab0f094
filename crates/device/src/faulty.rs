//! Faults around a device, as a plan says: the n-th request fails, a write is torn at a sector, the
//! power goes and takes what was not flushed with it, the device is full, the device falls silent.
//!
//! ```text
//!            ┌── fails ◄── plan.fail_request(n)
//!  request ──┤
//!            └── inner device ── completed write ── volatile ── flush completed ── durable
//!                                                      │
//!                                     power cut: each kept, dropped or torn, by plan.unflushed
//! ```
//!
//! 1. A write that was covered by a flush that succeeded is never lost.
//! 2. A torn write keeps some of its sectors and loses the others; a sector is never torn inside.
//! 3. What happens follows from the plan and its seed alone.
//! 4. After a power cut every request is answered with `PowerLost` until the power is back.
//! 5. A flush that fails may lose any of what was written since the last good one, at once: as a kernel
//!    does that drops dirty pages it could not write, and calls those that are left clean.
//! 6. Sectors that became unreadable stay so, also without power, until they are written, or made
//!    readable.
//! 7. A silent device takes requests, does nothing and answers none of them, which breaks rule 1 of
//!    the contract on purpose; a power cut ends them as any others.

use crate::queue::InFlight;
use crate::{
    Completion, CompletionQueue, Counters, Device, DeviceError, DeviceInfo, EnergyParts, Inspect,
    Operation, Rejected, Request,
};
use nandu_base::{Nanos, Rng, SectorIndex};
use std::collections::{BTreeMap, BTreeSet};

/// What a power cut does to writes that no flush covered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnflushedFate {
    /// They are all lost.
    #[default]
    Dropped,
    /// They all survive, as behind a capacitor.
    Kept,
    /// Each sector of each write survives or not by the toss of a coin.
    Torn,
}

/// What a request that fails does, beside telling so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Failure {
    /// It changes nothing on the device.
    #[default]
    ChangesNothing,
    /// A flush loses any part of what was written since the last one that succeeded; of a write any part
    /// arrives. A read fails this once.
    Damages,
    /// The same, and the sectors of a read cannot be read any more, until they are written.
    DamagesForEver,
}

/// Which faults happen when. Requests are counted from 1 in the order of submission.
#[derive(Clone, Debug, Default)]
pub struct FaultPlan {
    /// These requests end with a media error.
    pub fail_requests: Vec<u64>,
    /// This flush ends with a media error; flushes are counted from 1, too.
    pub fail_flush: Option<u64>,
    /// What else requests do that fail.
    pub failure: Failure,
    /// From this request on there is no room: writes to sectors that hold nothing but zeros end with
    /// [`DeviceError::NoSpace`] and change nothing.
    pub full_from_request: Option<u64>,
    /// This request and all after it are taken and never answered.
    pub silent_from_request: Option<u64>,
    /// Before this request is served, the power goes.
    pub power_cut_at_request: Option<u64>,
    /// If the power goes while a write is being served, this many of its sectors arrive.
    pub torn_sector_count: Option<u32>,
    /// The fate of what was not flushed.
    pub unflushed: UnflushedFate,
    /// Seed of every toss.
    pub seed: u64,
}

impl FaultPlan {
    /// Whether request `number` is to fail, which is flush `flush_number` if it is one.
    #[must_use]
    pub fn fails(&self, number: u64, flush_number: Option<u64>) -> bool {
        let is_its_flush = flush_number.is_some() && flush_number == self.fail_flush;
        is_its_flush || self.fail_requests.contains(&number)
    }
}

/// How many requests failed, by the reason why.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FailureCounts {
    /// All of them.
    pub request_count: u64,
    /// Those of them that were flushes.
    pub flush_count: u64,
}

/// A device with faults.
#[derive(Debug)]
pub struct FaultyDevice<D> {
    inner: D,
    plan: FaultPlan,
    rng: Rng,
    submitted_count: u64,
    submitted_flush_count: u64,
    failed: FailureCounts,
    power_is_on: bool,
    own_completions: CompletionQueue,
    /// Sectors whose reading fails.
    unreadable: BTreeSet<u64>,
    /// What was issued to the silent device.
    unanswered: Vec<InFlight>,
    /// Durable images of the sectors that were written since they were last flushed.
    volatile: BTreeMap<u64, Vec<u8>>,
    /// The images under the writes in flight, by request.
    writes_in_flight: BTreeMap<u64, Vec<(u64, Vec<u8>)>>,
    /// What the volatile sectors held when a flush in flight was issued, by request.
    flush_marks: BTreeMap<u64, BTreeMap<u64, Vec<u8>>>,
}

impl<D: Inspect> FaultyDevice<D> {
    /// A device that fails as `plan` says and otherwise does what `inner` does.
    #[must_use]
    pub fn new(inner: D, plan: FaultPlan) -> Self {
        let rng = Rng::for_part(plan.seed, "faulty device");
        Self {
            inner,
            plan,
            rng,
            submitted_count: 0,
            submitted_flush_count: 0,
            failed: FailureCounts::default(),
            power_is_on: true,
            own_completions: CompletionQueue::default(),
            unreadable: BTreeSet::new(),
            unanswered: Vec::new(),
            volatile: BTreeMap::new(),
            writes_in_flight: BTreeMap::new(),
            flush_marks: BTreeMap::new(),
        }
    }

    /// How many requests were submitted, so that a test can place its faults.
    #[must_use]
    pub const fn submitted_count(&self) -> u64 {
        self.submitted_count
    }

    /// How many flushes were submitted.
    #[must_use]
    pub const fn submitted_flush_count(&self) -> u64 {
        self.submitted_flush_count
    }

    /// How many requests failed, but for want of power.
    #[must_use]
    pub const fn failed(&self) -> FailureCounts {
        self.failed
    }

    /// Goes by another plan from now on. Requests are still counted from the first one.
    pub fn set_plan(&mut self, plan: FaultPlan) {
        self.rng = Rng::for_part(plan.seed, "faulty device");
        self.plan = plan;
    }

    /// Gives back the device that was wrapped.
    pub fn into_inner(self) -> D {
        self.inner
    }

    /// Cuts the power now: unflushed writes meet their fate, requests in flight end with
    /// [`DeviceError::PowerLost`], their writes torn or lost.
    pub fn cut_power(&mut self) {
        let mut ended = Vec::new();
        while let Some(mut completion) = self.inner.next_completion(Nanos::MAX) {
            if let Some(images) = self.writes_in_flight.remove(&completion.id) {
                for (sector, image) in images {
                    self.volatile.entry(sector).or_insert(image);
                }
            }
            completion.result = Err(DeviceError::PowerLost);
            ended.push(completion);
        }
        let now = self.inner.now();
        let unanswered = self.unanswered.drain(..);
        ended.extend(unanswered.map(|request| request.complete(now, Err(DeviceError::PowerLost))));
        for completion in ended {
            self.own_completions.push(completion);
        }
        for (sector, image) in std::mem::take(&mut self.volatile) {
            let lost = match self.plan.unflushed {
                UnflushedFate::Dropped => true,
                UnflushedFate::Kept => false,
                UnflushedFate::Torn => self.rng.below(2) == 0,
            };
            if lost {
                self.inner.poke(SectorIndex(sector), &image);
            }
        }
        self.flush_marks.clear();
        self.power_is_on = false;
    }

    /// Whether the power is on.
    #[must_use]
    pub const fn is_powered(&self) -> bool {
        self.power_is_on
    }

    /// Restores the power. Nothing else has changed.
    pub fn power_on(&mut self) {
        self.power_is_on = true;
    }

    /// Asserts rule 4 of the module and that nothing volatile is left without power.
    ///
    /// # Panics
    /// If an invariant does not hold.
    pub fn audit(&self) {
        assert!(self.power_is_on || self.volatile.is_empty(), "a cut settles every sector");
        assert!(self.power_is_on || self.writes_in_flight.is_empty(), "a cut ends every write");
    }

    fn pre_images(&self, request: &Request) -> Vec<(u64, Vec<u8>)> {
        (request.first_sector.0..request.end_sector())
            .map(|sector| (sector, self.image_of(sector)))
            .collect()
    }

    fn image_of(&self, sector: u64) -> Vec<u8> {
        let mut image = vec![0; self.inner.info().geometry.sector_bytes as usize];
        self.inner.peek(SectorIndex(sector), &mut image);
        image
    }

    /// What `sector` holds without writes that are in flight: no flush that is issued now covers them.
    fn completed_image_of(&self, sector: u64) -> Vec<u8> {
        let under = self.writes_in_flight.values().flatten().find(|(other, _)| *other == sector);
        under.map_or_else(|| self.image_of(sector), |(_, image)| image.clone())
    }

    /// The write that is being served when the power goes: its first sectors arrive for good.
    fn tear(&mut self, request: &Request) {
        let (Some(count), Some(buffer)) = (self.plan.torn_sector_count, &request.buffer) else {
            return;
        };
        let kept = count.min(request.sector_count);
        let bytes = self.inner.info().geometry.bytes_of(kept);
        self.inner.poke(request.first_sector, &buffer[..nandu_base::to_index(bytes)]);
    }

    /// How many sectors cannot be read.
    #[must_use]
    pub fn unreadable_count(&self) -> usize {
        self.unreadable.len()
    }

    /// All sectors can be read again, and hold what they held.
    pub fn make_readable(&mut self) {
        self.unreadable.clear();
    }

    /// What a request that fails does.
    fn damage(&mut self, request: &Request) {
        match request.operation {
            Operation::Flush => self.lose_some(),
            Operation::Write => self.write_in_part(request),
            Operation::Read if self.plan.failure == Failure::DamagesForEver => {
                self.unreadable.extend(request.first_sector.0..request.end_sector());
            }
            Operation::Read | Operation::Trim => {}
        }
    }

    /// A flush failed: sectors that it was to make durable are as the last good one left them. Those
    /// that are left are still volatile.
    fn lose_some(&mut self) {
        let kept_of = 1 + self.rng.below(4);
        for sector in self.volatile.keys().copied().collect::<Vec<u64>>() {
            // All are lost, or some are kept.
            if kept_of == 1 || self.rng.below(kept_of) == 0 {
                let image = self.volatile.remove(&sector).expect("it was listed");
                self.inner.poke(SectorIndex(sector), &image);
            }
        }
    }

    /// A write failed: any of its sectors arrived.
    fn write_in_part(&mut self, request: &Request) {
        let Some(buffer) = &request.buffer else { return };
        let sector_bytes = self.inner.info().geometry.sector_bytes as usize;
        let pieces = buffer.chunks_exact(sector_bytes);
        for (sector, bytes) in (request.first_sector.0..request.end_sector()).zip(pieces) {
            if self.rng.below(2) == 0 {
                let image = self.image_of(sector);
                self.volatile.entry(sector).or_insert(image);
                self.inner.poke(SectorIndex(sector), bytes);
                self.unreadable.remove(&sector);
            }
        }
    }

    fn is_unreadable(&self, request: &Request) -> bool {
        let sectors = request.first_sector.0..request.end_sector();
        request.operation == Operation::Read && self.unreadable.range(sectors).next().is_some()
    }

    /// Whether there is no room for a write.
    fn is_full_for(&self, number: u64, request: &Request) -> bool {
        let is_full = self.plan.full_from_request.is_some_and(|first| number >= first);
        let holds_nothing = |sector| self.image_of(sector).iter().all(|&byte| byte == 0);
        is_full
            && request.operation == Operation::Write
            && (request.first_sector.0..request.end_sector()).any(holds_nothing)
    }

    fn fail(&mut self, now: Nanos, request: Request, error: DeviceError) {
        let completion = InFlight::of(request, now).complete(now, Err(error));
        self.own_completions.push(completion);
    }

    fn settle(&mut self, completion: &Completion) {
        if let Some(images) = self.writes_in_flight.remove(&completion.id) {
            for (sector, image) in images {
                self.volatile.entry(sector).or_insert(image);
            }
        }
        // A flush makes durable what the sectors held when it was issued (contract rule 6); what was
        // written to them since then stays volatile, on top of that state.
        for (sector, flushed) in self.flush_marks.remove(&completion.id).unwrap_or_default() {
            if self.image_of(sector) == flushed {
                self.volatile.remove(&sector);
            } else {
                self.volatile.insert(sector, flushed);
            }
        }
    }
}

impl<D: Inspect> Device for FaultyDevice<D> {
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
        let number = self.submitted_count;
        let is_flush = request.operation == Operation::Flush;
        self.submitted_flush_count += u64::from(is_flush);
        if self.plan.power_cut_at_request == Some(number) {
            self.cut_power();
            if request.operation == Operation::Write {
                self.tear(&request);
            }
        }
        if !self.power_is_on {
            self.fail(now, request, DeviceError::PowerLost);
            return Ok(());
        }
        if self.plan.silent_from_request.is_some_and(|first| number >= first) {
            self.unanswered.push(InFlight::of(request, now));
            return Ok(());
        }
        if self.is_full_for(number, &request) {
            self.failed.request_count += 1;
            self.fail(now, request, DeviceError::NoSpace);
            return Ok(());
        }
        let flush_number = is_flush.then_some(self.submitted_flush_count);
        let is_planned = self.plan.fails(number, flush_number);
        if is_planned || self.is_unreadable(&request) {
            if is_planned && self.plan.failure != Failure::ChangesNothing {
                self.damage(&request);
            }
            self.failed.request_count += 1;
            self.failed.flush_count += u64::from(is_flush);
            let what = format!("fault planned for request {number}");
            let first_sector = request.first_sector.0;
            self.fail(now, request, DeviceError::Media { first_sector, what });
            return Ok(());
        }
        match request.operation {
            Operation::Write | Operation::Trim => {
                let images = self.pre_images(&request);
                self.writes_in_flight.insert(request.id, images);
                if !self.unreadable.is_empty() {
                    let sectors = request.first_sector.0..request.end_sector();
                    self.unreadable.retain(|sector| !sectors.contains(sector));
                }
            }
            Operation::Flush => {
                let volatile = self.volatile.keys();
                let images = volatile.map(|&sector| (sector, self.completed_image_of(sector)));
                let images = images.collect();
                self.flush_marks.insert(request.id, images);
            }
            Operation::Read => {}
        }
        self.inner.submit(now, request)
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        if let Some(completion) = self.own_completions.pop(until) {
            return Some(completion);
        }
        let completion = self.inner.next_completion(until)?;
        self.settle(&completion);
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        let unanswered = nandu_base::to_u32(self.unanswered.len() as u64);
        self.inner.in_flight() + self.own_completions.len() + unanswered
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.inner.energy_by(time)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{IoBuffer, MemoryConfig, MemoryDevice};

    fn device(plan: FaultPlan) -> FaultyDevice<MemoryDevice> {
        FaultyDevice::new(MemoryDevice::new(MemoryConfig::default()), plan)
    }

    fn run(device: &mut FaultyDevice<MemoryDevice>, request: Request) -> Completion {
        device.submit(device.now(), request).unwrap();
        let completion = device.next_completion(Nanos::MAX).unwrap();
        device.audit();
        completion
    }

    #[test]
    fn a_silent_device_takes_requests_and_answers_none_until_the_power_goes() {
        let plan = FaultPlan { silent_from_request: Some(2), ..FaultPlan::default() };
        let mut device = device(plan);
        run(&mut device, write(1, 0, 7, 1)).result.unwrap();
        device.submit(device.now(), write(2, 0, 9, 1)).unwrap();
        device.submit(device.now(), Request::read(3, 0, 1, None)).unwrap();
        assert!(device.next_completion(Nanos::MAX).is_none());
        assert_eq!(device.in_flight(), 2);
        assert_eq!(first_bytes(&device, 1), [7], "nothing was done");
        device.cut_power();
        for id in [2, 3] {
            let done = device.next_completion(Nanos::MAX).unwrap();
            assert_eq!((done.id, done.result), (id, Err(DeviceError::PowerLost)));
        }
        device.audit();
    }

    fn write(id: u64, sector: u64, fill: u8, sectors: u32) -> Request {
        let buffer = IoBuffer::copy_of(&vec![fill; 512 * sectors as usize]);
        Request::write(id, sector, sectors, Some(buffer))
    }

    fn first_bytes(device: &FaultyDevice<MemoryDevice>, sectors: u64) -> Vec<u8> {
        (0..sectors)
            .map(|sector| {
                let mut bytes = [0; 512];
                device.inner.peek(SectorIndex(sector), &mut bytes);
                assert!(bytes.iter().all(|&b| b == bytes[0]), "a sector is never torn inside");
                bytes[0]
            })
            .collect()
    }

    #[test]
    fn without_faults_the_contract_holds() {
        crate::testing::check_contract(&mut || Box::new(device(FaultPlan::default())));
    }

    #[test]
    fn the_named_request_fails_and_changes_nothing() {
        let mut device = device(FaultPlan { fail_requests: vec![2], ..FaultPlan::default() });
        run(&mut device, write(1, 0, 1, 1)).result.unwrap();
        let failed = run(&mut device, write(2, 0, 2, 1));
        assert!(matches!(failed.result, Err(DeviceError::Media { first_sector: 0, .. })));
        assert!(failed.buffer.is_some(), "the buffer comes back");
        assert_eq!(first_bytes(&device, 1), [1]);
    }

    fn damaging(number: u64, failure: Failure, seed: u64) -> FaultPlan {
        FaultPlan { fail_requests: vec![number], failure, seed, ..FaultPlan::default() }
    }

    #[test]
    fn a_flush_that_fails_loses_any_part_of_what_was_written_since_the_last() {
        let mut kept_counts = BTreeSet::new();
        for seed in 0..40 {
            let mut device = device(damaging(4, Failure::Damages, seed));
            run(&mut device, write(1, 0, 1, 8)).result.unwrap();
            run(&mut device, Request::flush(2)).result.unwrap();
            run(&mut device, write(3, 4, 2, 8)).result.unwrap();
            let failed = run(&mut device, Request::flush(4)).result;
            assert!(matches!(failed, Err(DeviceError::Media { .. })), "{failed:?}");
            let after = first_bytes(&device, 12);
            assert_eq!(after[..4], [1; 4], "what the first flush covered stays");
            assert!(after[4..8].iter().all(|byte| [1, 2].contains(byte)), "{after:?}");
            assert!(after[8..].iter().all(|byte| [0, 2].contains(byte)), "{after:?}");
            kept_counts.insert(after.iter().filter(|&&byte| byte == 2).count());
            run(&mut device, Request::flush(5)).result.unwrap();
            device.cut_power();
            assert_eq!(first_bytes(&device, 12), after, "the next flush covers what is left");
        }
        assert!(kept_counts.contains(&0), "all is lost sometimes");
        assert!(kept_counts.len() > 3, "and parts of it: {kept_counts:?}");
    }

    #[test]
    fn a_write_that_fails_arrives_in_part() {
        let part = |seed| {
            let mut device = device(damaging(1, Failure::Damages, seed));
            run(&mut device, write(1, 0, 3, 8)).result.unwrap_err();
            first_bytes(&device, 8).into_iter().filter(|&byte| byte == 3).count()
        };
        let counts: BTreeSet<usize> = (0..40).map(part).collect();
        assert!(counts.len() > 4, "{counts:?}");
    }

    #[test]
    fn a_read_fails_once_or_until_its_sectors_are_written() {
        for (failure, is_lasting) in [(Failure::Damages, false), (Failure::DamagesForEver, true)] {
            let mut device = device(damaging(1, failure, 0));
            let read = |device: &mut _, sector| {
                run(device, Request::read(9, sector, 2, Some(IoBuffer::zeroed(1024)))).result
            };
            read(&mut device, 4).unwrap_err();
            device.set_plan(FaultPlan::default());
            device.cut_power();
            while device.next_completion(Nanos::MAX).is_some() {}
            device.power_on();
            assert_eq!(read(&mut device, 5).is_err(), is_lasting);
            run(&mut device, write(2, 4, 1, 1)).result.unwrap();
            read(&mut device, 3).unwrap();
            assert_eq!(read(&mut device, 4).is_err(), is_lasting);
            device.make_readable();
            read(&mut device, 4).unwrap();
            assert_eq!(device.unreadable_count(), 0);
        }
    }

    #[test]
    fn a_full_device_takes_no_new_sectors() {
        let plan = FaultPlan { full_from_request: Some(2), ..FaultPlan::default() };
        let mut device = device(plan);
        run(&mut device, write(1, 0, 1, 2)).result.unwrap();
        assert_eq!(run(&mut device, write(2, 1, 2, 2)).result, Err(DeviceError::NoSpace));
        run(&mut device, write(3, 0, 2, 2)).result.unwrap();
        assert_eq!(first_bytes(&device, 3), [2, 2, 0]);
    }

    #[test]
    fn a_power_cut_takes_what_was_not_flushed_and_nothing_else() {
        let mut device =
            device(FaultPlan { power_cut_at_request: Some(4), ..FaultPlan::default() });
        run(&mut device, write(1, 0, 1, 2)).result.unwrap();
        run(&mut device, Request::flush(2)).result.unwrap();
        run(&mut device, write(3, 1, 3, 2)).result.unwrap();
        let cut = run(&mut device, write(4, 3, 4, 1));
        assert_eq!(cut.result, Err(DeviceError::PowerLost));
        assert_eq!(first_bytes(&device, 4), [1, 1, 0, 0]);
        assert_eq!(run(&mut device, Request::flush(5)).result, Err(DeviceError::PowerLost));
        device.power_on();
        run(&mut device, write(6, 0, 6, 1)).result.unwrap();
    }

    #[test]
    fn a_write_after_the_flush_was_issued_stays_volatile() {
        let mut device = device(FaultPlan::default());
        run(&mut device, write(1, 0, 1, 1)).result.unwrap();
        device.submit(device.now(), Request::flush(2)).unwrap();
        device.submit(device.now(), write(3, 0, 3, 1)).unwrap();
        while device.next_completion(Nanos::MAX).is_some() {}
        device.cut_power();
        assert_eq!(first_bytes(&device, 1), [1]);
    }

    #[test]
    fn a_write_that_is_being_served_is_torn_at_the_named_sector() {
        let plan = FaultPlan {
            power_cut_at_request: Some(2),
            torn_sector_count: Some(3),
            ..FaultPlan::default()
        };
        let mut device = device(plan);
        run(&mut device, write(1, 0, 1, 5)).result.unwrap();
        run(&mut device, write(2, 0, 2, 5));
        assert_eq!(first_bytes(&device, 5), [2, 2, 2, 0, 0]);
    }

    #[test]
    fn a_flush_does_not_cover_a_write_that_is_in_flight_when_it_is_issued() {
        let mut device = device(FaultPlan::default());
        let filled = |byte| Some(IoBuffer::copy_of(&[byte; 512]));
        run(&mut device, Request::write(1, 0, 1, filled(1))).result.unwrap();
        device.submit(device.now(), Request::write(2, 0, 1, filled(2))).unwrap();
        device.submit(device.now(), Request::flush(3)).unwrap();
        while device.next_completion(Nanos::MAX).is_some() {}
        device.cut_power();
        device.power_on();
        let read = run(&mut device, Request::read(4, 0, 1, filled(0)));
        assert_eq!(read.buffer.unwrap()[..], [1; 512], "the first was flushed, the second not");
    }

    #[test]
    fn torn_fates_follow_the_seed() {
        let outcome = |seed| {
            let unflushed = UnflushedFate::Torn;
            let mut device = device(FaultPlan { unflushed, seed, ..FaultPlan::default() });
            run(&mut device, write(1, 0, 9, 64)).result.unwrap();
            device.cut_power();
            device.audit();
            first_bytes(&device, 64)
        };
        assert_eq!(outcome(5), outcome(5));
        assert_ne!(outcome(5), outcome(6));
        assert!(outcome(5).contains(&0) && outcome(5).contains(&9));
    }
}
