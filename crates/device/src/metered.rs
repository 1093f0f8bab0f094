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
//! 3. A rest is foreseen: when a device without requests is to be later, readings that are due until then are what it
//!    says it will have used by their times, so that a drive that goes to sleep is seen to.
//! 4. Devices that are gone came one after the other, so that their times add up; those of one [`OneClock`] have
//!    one time, and each used what it did until the last of them ended.

use crate::{
    Completion, Counters, Device, DeviceError, DeviceInfo, EnergyParts, EnergyReport, FlashUse,
    IoBuffer, LineUse, PowerCourse, Rejected, Request, WattsOverTime,
};
use nandu_base::{Nanos, Picojoules};
use std::collections::{BTreeMap, BTreeSet};
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

/// What devices did that are gone.
#[derive(Debug, Default)]
struct Gone {
    all: EnergySum,
    by_name: BTreeMap<String, EnergySum>,
    uses: BTreeMap<String, DeviceUse>,
}

/// What several devices used that are gone.
#[derive(Debug, Default)]
struct EnergySum {
    parts: EnergyParts,
    time: Nanos,
    request_count: u64,
    /// Whether one of them told nothing.
    has_silent: bool,
    /// Watts over the times of all, one after the other.
    course: Option<PowerCourse>,
}

/// What devices of one name did that are gone.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeviceUse {
    /// How long there was one, in all.
    pub time: Nanos,
    /// Requests that they completed.
    pub request_count: u64,
    /// Counters of what wears, and of bytes that were written; no other ones.
    pub counters: Counters,
}

/// Devices that work side by side on one clock.
#[derive(Clone, Debug, Default)]
pub struct OneClock {
    latest_ns: Arc<AtomicU64>,
    together: Arc<Mutex<Together>>,
}

/// Those of one clock: how many work, and what those did that have ended.
#[derive(Debug, Default)]
struct Together {
    alive_count: usize,
    ended: Vec<Ended>,
}

/// A device that is gone.
#[derive(Debug)]
struct Ended {
    name: String,
    counters: Counters,
    parts: Option<EnergyParts>,
    time: Nanos,
    /// What it had used by these times.
    points: Vec<(Nanos, Picojoules)>,
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
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).all.report()
    }

    /// The same of those of each name; `None` where one of them does not tell.
    #[must_use]
    pub fn of_gone_by_name(&self) -> BTreeMap<String, Option<EnergyReport>> {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        gone.by_name.iter().map(|(name, sum)| (name.clone(), sum.report())).collect()
    }

    /// What devices did that are gone, by their names.
    #[must_use]
    pub fn uses(&self) -> BTreeMap<String, DeviceUse> {
        self.gone.lock().unwrap_or_else(PoisonError::into_inner).uses.clone()
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

    fn foresee(&self, device: &impl Device, time: Nanos) {
        if self.due_ns.load(Ordering::Relaxed) > time.0 {
            return;
        }
        self.with(|course| {
            if let Some(course) = course {
                foresee(course, device, time);
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

/// Takes the readings that are due until `time`, to which `device` rests. Intervals double, so there are few.
fn foresee(course: &mut PowerCourse, device: &impl Device, time: Nanos) {
    while course.is_due(time) && course.next_at() < Nanos(u64::MAX) {
        let at = course.next_at();
        let Some(energy) = device.energy_by(at) else { return };
        course.read(at, energy.total());
    }
}

impl Gone {
    /// Adds devices that had one time.
    fn add(&mut self, ended: Vec<Ended>) {
        self.all.add(&ended.iter().collect::<Vec<_>>());
        let mut by_name: BTreeMap<&str, Vec<&Ended>> = BTreeMap::new();
        for it in &ended {
            by_name.entry(&it.name).or_default().push(it);
        }
        for (name, ended) in by_name {
            self.by_name.entry(name.to_owned()).or_default().add(&ended);
        }
        for Ended { name, counters, time, .. } in ended {
            self.uses.entry(name).or_default().add(&counters, time);
        }
    }
}

impl EnergySum {
    /// Adds devices that had one time.
    fn add(&mut self, ended: &[&Ended]) {
        let before = (self.time, self.parts.total());
        let begin = || PowerCourse::begin(Nanos::ZERO, Picojoules::ZERO);
        let course = self.course.get_or_insert_with(begin);
        let times: BTreeSet<Nanos> =
            ended.iter().flat_map(|it| &it.points).map(|point| point.0).collect();
        for time in times {
            let used: Picojoules = ended.iter().map(|it| used_at(&it.points, time)).sum();
            course.read(before.0.saturating_add(time), before.1.saturating_add(used));
        }
        let time = ended.iter().map(|it| it.time).max().unwrap_or_default();
        self.time = self.time.saturating_add(time);
        for Ended { counters, parts, .. } in ended {
            self.request_count += counters.request_count();
            match parts {
                Some(parts) => self.parts += *parts,
                None => self.has_silent = true,
            }
        }
    }

    /// `None` where one of them tells nothing, and where no time passed.
    fn report(&self) -> Option<EnergyReport> {
        if self.has_silent || self.time == Nanos::ZERO {
            return None;
        }
        let mut report = EnergyReport::of_model(&self.parts, self.time, self.request_count);
        report.watts_over_time =
            self.course.clone().and_then(|course| course.watts(self.time, self.parts.total()));
        Some(report)
    }
}

impl DeviceUse {
    /// Two readings, before and after, as of one device.
    #[must_use]
    pub fn readings(&self) -> (Counters, Counters) {
        let before = Counters {
            flash: self.counters.flash.map(|_| FlashUse::default()),
            lines: self.counters.lines.map(|lines| LineUse { write_count: 0, ..lines }),
            ..Counters::default()
        };
        (before, self.counters)
    }

    fn add(&mut self, counters: &Counters, time: Nanos) {
        self.time = self.time.saturating_add(time);
        self.request_count += counters.request_count();
        let sum = &mut self.counters;
        sum.writes.byte_count += counters.writes.byte_count;
        sum.flash = match (sum.flash, counters.flash) {
            (Some(one), Some(other)) => Some(one.with(&other)),
            (one, other) => one.or(other),
        };
        sum.lines = match (sum.lines, counters.lines) {
            (Some(one), Some(other)) => Some(one.with(&other)),
            (one, other) => one.or(other),
        };
    }
}

/// What was used by `time`: between two points it grew evenly, and after the last one not at all.
fn used_at(points: &[(Nanos, Picojoules)], time: Nanos) -> Picojoules {
    let next = points.partition_point(|point| point.0 < time);
    let before = next.checked_sub(1).map_or((Nanos::ZERO, Picojoules::ZERO), |index| points[index]);
    let Some(&after) = points.get(next) else { return before.1 };
    let span = u128::from(after.0.saturating_sub(before.0).0.max(1));
    let passed = u128::from(time.saturating_sub(before.0).0);
    let gained = after.1.saturating_sub(before.1).0;
    // The rest apart, so that no product leaves its range: times have 64 bits.
    before.1.saturating_add(Picojoules(gained / span * passed + gained % span * passed / span))
}

impl OneClock {
    fn with<R>(&self, act: impl FnOnce(&mut Together) -> R) -> R {
        act(&mut self.together.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// One device more.
    fn begin(&self) {
        self.with(|together| together.alive_count += 1);
    }

    fn come_to(&self, now: Nanos) {
        self.latest_ns.fetch_max(now.0, Ordering::Relaxed);
    }

    /// One fewer; all of them, if it was the last.
    fn end(&self, ended: Ended) -> Option<Vec<Ended>> {
        self.with(|together| {
            together.ended.push(ended);
            together.alive_count -= 1;
            (together.alive_count == 0).then(|| std::mem::take(&mut together.ended))
        })
    }
}

/// A device that tells a [`PowerLog`] what it uses.
#[derive(Debug)]
pub struct MeteredDevice<D: Device> {
    inner: D,
    log: PowerLog,
    clock: OneClock,
    /// What the log hears of at the end; of a device that tells it nothing while it is used.
    own_course: Option<PowerCourse>,
    /// Whether the log is told while it is used.
    is_watched: bool,
}

impl<D: Device> MeteredDevice<D> {
    /// `inner`, which tells `log`.
    pub fn new(inner: D, log: PowerLog) -> Self {
        Self::begin(inner, log, OneClock::default(), true)
    }

    /// `inner`, which tells `log` at its end alone: for [`PowerLog::of_gone`].
    pub fn tallied(inner: D, log: PowerLog) -> Self {
        Self::begin(inner, log, OneClock::default(), false)
    }

    /// The same, beside others of `clock`.
    pub fn tallied_beside(inner: D, log: PowerLog, clock: OneClock) -> Self {
        Self::begin(inner, log, clock, false)
    }

    fn begin(inner: D, log: PowerLog, clock: OneClock, is_watched: bool) -> Self {
        clock.begin();
        let energy = inner.counters().energy.filter(|_| !is_watched);
        let own_course = energy.map(|energy| PowerCourse::begin(inner.now(), energy.total()));
        Self { inner, log, clock, own_course, is_watched }
    }

    /// It is to be `time` next, until when it rests if nothing is in flight.
    fn foresee(&mut self, time: Nanos) {
        if self.inner.in_flight() > 0 || time <= self.inner.now() {
            return;
        }
        if self.is_watched {
            self.log.foresee(&self.inner, time);
        } else if let Some(course) = &mut self.own_course {
            foresee(course, &self.inner, time);
        }
    }

    fn look(&mut self) {
        let now = self.inner.now();
        self.clock.come_to(now);
        if self.is_watched {
            self.log.look(&self.inner);
        } else if let Some(course) = self.own_course.as_mut().filter(|course| course.is_due(now))
            && let Some(energy) = self.inner.counters().energy
        {
            course.read(now, energy.total());
        }
    }
}

impl<D: Device> Drop for MeteredDevice<D> {
    fn drop(&mut self) {
        self.clock.come_to(self.inner.now());
        let time = Nanos(self.clock.latest_ns.load(Ordering::Relaxed));
        self.foresee(time);
        let parts = self.inner.energy_by(time);
        let points = self.own_course.as_ref().zip(parts);
        let points = points.map(|(course, parts)| course.points(time, parts.total()));
        let ended = Ended {
            name: self.inner.info().name.clone(),
            counters: self.inner.counters(),
            parts,
            time,
            points: points.unwrap_or_default(),
        };
        if let Some(ended) = self.clock.end(ended) {
            self.log.gone.lock().unwrap_or_else(PoisonError::into_inner).add(ended);
        }
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
        self.foresee(now);
        let result = self.inner.submit(now, request);
        self.look();
        result
    }

    fn submit_batch(&mut self, now: Nanos, requests: Vec<Request>) -> Result<(), Rejected> {
        self.foresee(now);
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
        self.foresee(time);
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
