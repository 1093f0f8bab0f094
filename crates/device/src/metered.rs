//! A device whose power is looked at while others use it, for watts over time.
//!
//! ```text
//!   engine ─► MeteredDevice ─► device          PowerLog: begin ─► … ─► end ─► WattsOverTime
//!                   └─ counters, when due ────────►│
//! ```
//!
//! Beside watts over time the log has the sum over all devices that told it and are gone.
//!
//! 1. It changes nothing: requests, times and counters are the device's.
//! 2. Nobody waits for it: the log is held for as long as a reading takes.

use crate::{
    Completion, Counters, Device, DeviceError, DeviceInfo, EnergyParts, EnergyReport, IoBuffer,
    PowerCourse, Rejected, Request, WattsOverTime,
};
use nandu_base::{Nanos, Picojoules};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// What a [`MeteredDevice`] has seen, for whoever made it.
#[derive(Clone, Debug)]
pub struct PowerLog {
    course: Arc<Mutex<Option<PowerCourse>>>,
    /// When the course wants the next reading, in nanoseconds; never, while there is none.
    due_ns: Arc<AtomicU64>,
    gone: Arc<Mutex<Gone>>,
}

/// The sum over devices that are gone.
#[derive(Debug, Default)]
struct Gone {
    parts: EnergyParts,
    time: Nanos,
    request_count: u64,
    /// Whether one of them told nothing.
    has_silent: bool,
}

impl Default for PowerLog {
    fn default() -> Self {
        let (course, gone) = Default::default();
        Self { course, due_ns: Arc::new(AtomicU64::new(u64::MAX)), gone }
    }
}

impl PowerLog {
    /// Looks from `now` on, when the device has used `energy`.
    pub fn begin(&self, now: Nanos, energy: Picojoules) {
        self.with(|course| *course = Some(PowerCourse::begin(now, energy)));
    }

    /// Ends `now`, when the device has used `energy`; what was seen since the beginning.
    #[must_use]
    pub fn end(&self, now: Nanos, energy: Picojoules) -> Option<WattsOverTime> {
        self.with(Option::take)?.watts(now, energy)
    }

    /// What all devices used that told this log and are gone, from when each was made; `None` where one of
    /// them does not tell, and where there was none.
    #[must_use]
    pub fn of_gone(&self) -> Option<EnergyReport> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        let is_told = !gone.has_silent && gone.time > Nanos::ZERO;
        is_told.then(|| EnergyReport::of_model(&gone.parts, gone.time, gone.request_count))
    }

    fn note_end(&self, device: &impl Device) {
        let counters = device.counters();
        let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.time = gone.time.saturating_add(device.now());
        gone.request_count += counters.request_count();
        match counters.energy {
            Some(energy) => gone.parts += energy,
            None => gone.has_silent = true,
        }
    }

    fn look(&self, device: &impl Device) {
        let due_ns = self.due_ns.load(Ordering::Relaxed);
        if due_ns == u64::MAX || device.now().0 < due_ns {
            return;
        }
        self.with(|course| {
            if let (Some(course), Some(energy)) = (course, device.counters().energy) {
                course.read(device.now(), energy.total());
            }
        });
    }

    fn with<R>(&self, act: impl FnOnce(&mut Option<PowerCourse>) -> R) -> R {
        // A reading that panicked left a course that is as good as before it.
        let mut course = self.course.lock().unwrap_or_else(PoisonError::into_inner);
        let done = act(&mut course);
        let due_ns = course.as_ref().map_or(u64::MAX, |course| course.next_at().0);
        self.due_ns.store(due_ns, Ordering::Relaxed);
        done
    }
}

/// A device that tells a [`PowerLog`] what it uses.
#[derive(Debug)]
pub struct MeteredDevice<D: Device> {
    inner: D,
    log: PowerLog,
    /// Whether it is looked at while it is used, or at its end alone.
    is_watched: bool,
}

impl<D: Device> MeteredDevice<D> {
    /// `inner`, which tells `log`.
    pub const fn new(inner: D, log: PowerLog) -> Self {
        Self { inner, log, is_watched: true }
    }

    /// `inner`, which tells `log` at its end alone: for [`PowerLog::of_gone`].
    pub const fn tallied(inner: D, log: PowerLog) -> Self {
        Self { inner, log, is_watched: false }
    }

    fn look(&self) {
        if self.is_watched {
            self.log.look(&self.inner);
        }
    }
}

impl<D: Device> Drop for MeteredDevice<D> {
    fn drop(&mut self) {
        self.log.note_end(&self.inner);
    }
}

impl<D: Device> Device for MeteredDevice<D> {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        let result = self.inner.submit(now, request);
        self.look();
        result
    }

    fn submit_batch(&mut self, now: Nanos, requests: Vec<Request>) -> Result<(), Rejected> {
        let result = self.inner.submit_batch(now, requests);
        self.look();
        result
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.inner.next_completion(until);
        self.look();
        completion
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        let now = self.inner.idle_until(time);
        self.look();
        now
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.inner.energy_by(time)
    }

    fn processor_time(&self) -> Option<Nanos> {
        self.inner.processor_time()
    }

    fn empty_cache(&mut self) -> Result<bool, DeviceError> {
        self.inner.empty_cache()
    }

    fn buffers(&mut self, count: usize, byte_count: usize) -> Vec<IoBuffer> {
        self.inner.buffers(count, byte_count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryConfig, MemoryDevice, testing};

    #[test]
    fn a_metered_device_is_the_device() {
        let device = || MeteredDevice::new(memory(), PowerLog::default());
        testing::check_contract(&mut || Box::new(device()));
    }

    #[test]
    fn nothing_is_seen_before_the_beginning_or_after_the_end() {
        let log = PowerLog::default();
        let mut device = MeteredDevice::new(memory(), log.clone());
        device.idle_until(Nanos(1000));
        assert_eq!(log.end(Nanos(1000), Picojoules(5)), None);
        log.begin(Nanos(1000), Picojoules(5));
        device.idle_until(Nanos(2000));
        let seen = log.end(Nanos(2000), Picojoules(3005)).unwrap();
        assert_eq!(seen.watts, [0.003]);
        assert_eq!(log.end(Nanos(2000), Picojoules(3005)), None);
    }

    #[test]
    fn a_device_that_tells_nothing_leaves_no_sum() {
        let log = PowerLog::default();
        assert_eq!(log.of_gone(), None);
        drop(MeteredDevice::tallied(memory(), log.clone()));
        assert_eq!(log.of_gone(), None);
    }

    fn memory() -> MemoryDevice {
        MemoryDevice::new(MemoryConfig::default())
    }
}
