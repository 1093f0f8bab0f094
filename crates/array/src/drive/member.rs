//! A member of an array: a device, what waits for room in its queue, and the completion that it gave
//! ahead of time.
//!
//! 1. `work_bytes` is what was sent and has not come back.
//! 2. Nothing is submitted before the present of the device.

use nandu_base::Nanos;
use nandu_device::queue::InFlight;
use nandu_device::{Completion, Device, DeviceError, Request};
use std::collections::VecDeque;

/// A device that becomes a member; the array goes from thread to thread as its members do.
pub type MemberDevice = Box<dyn Device + Send>;

/// Whether a member is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// Read and written.
    Healthy,
    /// Written, and read where nothing else is left, until all its fragments are back.
    Rebuilding,
    /// Left alone.
    Failed,
}

pub(super) struct Member {
    pub(super) device: MemberDevice,
    pub(super) state: MemberState,
    pub(super) error_count: u32,
    pub(super) work_bytes: u64,
    waiting: VecDeque<Request>,
    refused: VecDeque<Completion>,
    /// Taken from the device, not yet acted upon.
    ahead: Option<Completion>,
}

impl Member {
    pub(super) fn new(device: MemberDevice, state: MemberState) -> Self {
        let (waiting, refused) = (VecDeque::new(), VecDeque::new());
        Self { device, state, error_count: 0, work_bytes: 0, waiting, refused, ahead: None }
    }

    pub(super) fn bytes_of(&self, request: &Request) -> u64 {
        self.device.info().geometry.bytes_of(request.sector_count).max(1)
    }

    pub(super) fn send(&mut self, now: Nanos, request: Request) {
        self.work_bytes += self.bytes_of(&request);
        self.waiting.push_back(request);
        self.pump(now);
    }

    fn pump(&mut self, now: Nanos) {
        let depth = self.device.info().queue_depth_max;
        while self.device.in_flight() < depth {
            let Some(request) = self.waiting.pop_front() else { return };
            let at = now.max(self.device.now());
            if let Err(rejected) = self.device.submit(at, request) {
                let refused = InFlight::of(rejected.request, at);
                self.refused.push_back(refused.complete(at, Err(rejected.error)));
            }
        }
    }

    /// When the next completion comes, if it comes at or before `until`.
    pub(super) fn next_at(&mut self, until: Nanos) -> Option<Nanos> {
        if self.ahead.is_none() {
            self.ahead = self.refused.pop_front().or_else(|| self.device.next_completion(until));
        }
        let at = self.ahead.as_ref().map(|completion| completion.completed_at);
        at.filter(|at| *at <= until)
    }

    /// The completion that `next_at` announced.
    pub(super) fn take(&mut self) -> Option<Completion> {
        let completion = self.ahead.take()?;
        self.pump(completion.completed_at);
        Some(completion)
    }

    pub(super) fn is_busy(&self) -> bool {
        self.work_bytes > 0
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
