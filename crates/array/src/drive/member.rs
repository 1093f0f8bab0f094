//! A member of an array: a device, what waits for room in its queue, and the completion that it gave
//! ahead of time.
//!
//! 1. `work_bytes` is what was sent and has not come back. `free_at` is when it will have come back
//!    if requests take what they are expected to; a member without work is free now.
//! 2. Nothing is submitted before the present of the device.
//! 3. All times are the array's. A real device counts from when it was opened; the difference is
//!    taken once, when it becomes a member.

use nandu_base::Nanos;
use nandu_device::queue::InFlight;
use nandu_device::{Completion, Device, DeviceError, Request, TimeSource};
use std::collections::{BTreeMap, VecDeque};

/// A device that becomes a member of an array that goes from thread to thread.
pub type MemberDevice = Box<dyn Device + Send>;

/// Whether a member is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// The member is read and written.
    Healthy,
    /// Written, and read where nothing else is left, until all its fragments are back.
    Rebuilding,
    /// The member failed and is left alone.
    Failed,
}

pub(super) struct Member<D: ?Sized> {
    pub(super) device: Box<D>,
    pub(super) state: MemberState,
    pub(super) error_count: u32,
    pub(super) work_bytes: u64,
    pub(super) free_at: Nanos,
    waiting: VecDeque<Request>,
    refused: VecDeque<Completion>,
    /// Taken from the device, not yet acted upon.
    ahead: Option<Completion>,
    is_simulated: bool,
    /// Until when a simulated device has nothing to say, unless it is asked for more.
    silent_until: Nanos,
    /// When each request that the device has was submitted. Numbers grow with time.
    submitted: BTreeMap<u64, Nanos>,
    /// The array's time and the device's at one moment.
    joined_at: (Nanos, Nanos),
}

impl<D: Device + ?Sized> Member<D> {
    /// `device` as a member from `now` on.
    pub(super) fn new(device: Box<D>, state: MemberState, now: Nanos) -> Self {
        let joined_at = match device.info().time_source {
            TimeSource::Virtual => (Nanos::ZERO, Nanos::ZERO),
            TimeSource::Wall => (now, device.now()),
        };
        Self {
            is_simulated: device.info().time_source == TimeSource::Virtual,
            device,
            state,
            error_count: 0,
            work_bytes: 0,
            free_at: Nanos::ZERO,
            waiting: VecDeque::new(),
            refused: VecDeque::new(),
            ahead: None,
            silent_until: Nanos::ZERO,
            submitted: BTreeMap::new(),
            joined_at,
        }
    }

    /// The device's time as the array's.
    fn to_array(&self, time: Nanos) -> Nanos {
        let (array, device) = self.joined_at;
        array.saturating_add(Nanos(time.0.saturating_sub(device.0)))
    }

    /// The array's time as the device's.
    fn to_device(&self, time: Nanos) -> Nanos {
        let (array, device) = self.joined_at;
        device.saturating_add(Nanos(time.0.saturating_sub(array.0)))
    }

    /// The present as the device knows it.
    pub(super) fn now(&self) -> Nanos {
        self.to_array(self.device.now())
    }

    /// Lets time pass for a device that has nothing to do; one that fell silent is left alone.
    pub(super) fn idle_until(&mut self, time: Nanos) {
        if !self.is_busy() && self.device.in_flight() == 0 {
            self.device.idle_until(self.to_device(time));
        }
    }

    /// The answer of an idle member to `request`, if it comes in time, and when that is known.
    pub(super) fn ask_at_once(
        &mut self,
        now: Nanos,
        request: Request,
        timeout: Option<Nanos>,
    ) -> (Option<Completion>, Nanos) {
        let (id, at) = (request.id, now.max(self.now()));
        let until = timeout.map_or(Nanos::MAX, |timeout| at.saturating_add(timeout));
        if let Err(rejected) = self.device.submit(self.to_device(at), request) {
            let refused = InFlight::of(rejected.request, at);
            return (Some(refused.complete(at, Err(rejected.error))), at);
        }
        while let Some(done) = self.device.next_completion(self.to_device(until)) {
            // Completions of other requests were issued by an earlier user of the device and are
            // dropped.
            if done.id == id {
                let at = self.to_array(done.completed_at);
                return (Some(done), at);
            }
        }
        (None, if timeout.is_some() { until } else { at })
    }

    pub(super) fn bytes_of(&self, request: &Request) -> u64 {
        self.device.info().geometry.bytes_of(request.sector_count).max(1)
    }

    /// Sends `request`, which is expected to take `service` of an idle member.
    pub(super) fn send(&mut self, now: Nanos, request: Request, service: Nanos) {
        self.free_at = self.free_at.max(now).saturating_add(service);
        self.work_bytes += self.bytes_of(&request);
        self.waiting.push_back(request);
        self.pump(now);
    }

    fn pump(&mut self, now: Nanos) {
        let depth = self.device.info().queue_depth_max;
        while self.device.in_flight() < depth {
            let Some(request) = self.waiting.pop_front() else { return };
            let at = now.max(self.now());
            self.submitted.insert(request.id, at);
            self.silent_until = Nanos::ZERO;
            if let Err(rejected) = self.device.submit(self.to_device(at), request) {
                let refused = InFlight::of(rejected.request, at);
                self.refused.push_back(refused.complete(at, Err(rejected.error)));
            }
        }
    }

    /// When the next completion comes, if it comes at or before `until`.
    pub(super) fn next_at(&mut self, until: Nanos) -> Option<Nanos> {
        if self.ahead.is_none() {
            self.ahead = self.refused.pop_front().or_else(|| self.ask_device(until));
        }
        let at = self.ahead.as_ref().map(|completion| completion.completed_at);
        at.filter(|at| *at <= until)
    }

    /// Until when it is known to say nothing.
    pub(super) fn silent_until(&self) -> Nanos {
        if !self.is_simulated || self.ahead.is_some() || !self.refused.is_empty() {
            return Nanos::ZERO;
        }
        if self.is_busy() { self.silent_until } else { Nanos::MAX }
    }

    fn ask_device(&mut self, until: Nanos) -> Option<Completion> {
        // A member without a request in flight is not asked: one that was given up may still
        // complete requests for which nobody waits.
        if !self.is_busy() {
            return None;
        }
        if self.is_simulated && until <= self.silent_until {
            return None;
        }
        let Some(mut completion) = self.device.next_completion(self.to_device(until)) else {
            self.silent_until = until;
            return None;
        };
        completion.completed_at = self.to_array(completion.completed_at);
        Some(completion)
    }

    /// The completion that `next_at` announced.
    pub(super) fn take(&mut self) -> Option<Completion> {
        let completion = self.ahead.take()?;
        self.submitted.remove(&completion.id);
        self.pump(completion.completed_at);
        Some(completion)
    }

    /// When the oldest request will have had `timeout` to be answered.
    pub(super) fn deadline(&self, timeout: Nanos) -> Option<Nanos> {
        self.submitted.values().next().map(|at| at.saturating_add(timeout))
    }

    /// Gives the device up; whatever it says from now on is not heard. Returns the numbers of all
    /// requests that it leaves unanswered.
    pub(super) fn give_up(&mut self) -> Vec<u64> {
        self.state = MemberState::Failed;
        self.work_bytes = 0;
        self.free_at = Nanos::ZERO;
        self.ahead = None;
        let refused = std::mem::take(&mut self.refused);
        let submitted = std::mem::take(&mut self.submitted);
        let waiting = std::mem::take(&mut self.waiting);
        let all = submitted.into_keys().chain(refused.into_iter().map(|completion| completion.id));
        let mut all: Vec<u64> = all.chain(waiting.into_iter().map(|request| request.id)).collect();
        all.sort_unstable();
        all.dedup();
        all
    }

    pub(super) fn is_busy(&self) -> bool {
        self.work_bytes > 0
    }

    /// An answer of `byte_count` came: with the last, whatever was expected is over.
    pub(super) fn answered(&mut self, byte_count: u64) {
        self.work_bytes -= byte_count;
        if self.work_bytes == 0 {
            self.free_at = Nanos::ZERO;
        }
    }

    /// Notes how a request ended: a few media errors are borne, all else ends the member.
    pub(super) fn note(&mut self, result: &Result<(), DeviceError>, error_count_max: u32) {
        match result {
            Ok(()) => return,
            Err(DeviceError::Media { .. }) => self.error_count += 1,
            Err(_) => self.error_count = error_count_max.saturating_add(1),
        }
        if self.error_count > error_count_max {
            self.state = MemberState::Failed;
        }
    }
}
