//! The devices under a database: with faults, a trace, and bugs on demand.
//!
//! ```text
//!   volume ─► TracedDevice: hash, bug, ─┬► memory      sectors kept, dropped or torn by a plan
//!         blackout, flipped bits        └► host cache ─► ssd   what controller, layer and chips lose
//!   propagation ─► TracedFlash: hash, blackout ─► raw flash in memory, by its laws
//! ```
//!
//! 1. Devices of one world lose their power together: what one has not submitted by then is lost.
//! 2. The trace is a hash of every request and every byte written, in order of submission.

pub(crate) mod chips;
mod flips;
mod host_cache;
mod memory;
mod ssd;

use crate::{Bug, Scenario};
use flips::Flips;
use nandu_base::{Nanos, Rng};
use nandu_device::{
    Completion, Counters, Device, DeviceInfo, FailureCounts, FaultPlan, Geometry, Operation,
    Rejected, Request, SharedDevice,
};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the database lies on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorldKind {
    /// Sectors in memory; what a power cut does to what was not flushed is drawn.
    #[default]
    Memory,
    /// A simulated SSD; what a power cut does follows from its buffer, its translation layer and its
    /// chips, and the layer rebuilds its map from them.
    Ssd,
    /// Sectors in memory under files that are synced one by one, as in a directory: a kernel keeps what
    /// was not synced, also for the next process, and a power cut takes any of it.
    Files,
    /// Sectors in memory, and the pages on raw flash, by one of the propagations that are made for that. What
    /// a power cut does to the chips follows from their laws.
    Chips,
    /// Sectors in memory, and the log apart on lines of a memory, each record written directly in most
    /// histories. What lines a power cut takes is drawn.
    Lines,
}

impl WorldKind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Memory, Self::Ssd, Self::Files, Self::Chips, Self::Lines];
    /// Those in which all planted bugs were looked for.
    pub const PLANTED: [Self; 3] = [Self::Memory, Self::Ssd, Self::Files];

    /// Its name on the command line.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Ssd => "ssd",
            Self::Files => "files",
            Self::Chips => "chips",
            Self::Lines => "lines",
        }
    }
}

/// A device that may lose its power.
pub(crate) trait Ground: Device + Send {
    /// How many requests were submitted, by which a plan counts.
    fn submitted_count(&self) -> u64;

    /// How many flushes were, by which a plan counts them.
    fn submitted_flush_count(&self) -> u64;

    /// Requests that failed though the power was on.
    fn failed(&self) -> FailureCounts;

    /// Sectors that cannot be read any more.
    fn unreadable_count(&self) -> usize;

    /// Lets them be read again, as they are.
    fn make_readable(&mut self);

    /// Goes by another plan from now on; a cut that was to come does not.
    fn set_plan(&mut self, plan: FaultPlan);

    /// Cuts the power, at the planned moment if that came.
    fn cut_power(&mut self);

    fn is_powered(&self) -> bool;

    /// Restores the power.
    ///
    /// # Errors
    /// If the device cannot serve again, with the reason.
    fn power_on(&mut self) -> Result<(), String>;

    /// Asserts the invariants of everything below.
    fn audit(&self);
}

/// Requests of one history to one device; more are an endless loop.
const REQUEST_COUNT_MAX: u64 = 20_000_000;
/// Of so many writes one goes wrong, where some do.
const BUG_PERIOD: u64 = 100;

/// A device whose requests are hashed, and which may have a bug.
pub(crate) struct TracedDevice {
    inner: Box<dyn Ground>,
    bug: Bug,
    write_count: u64,
    hash: u64,
    /// Whether some device of this world lost its power.
    blackout: Arc<AtomicBool>,
    /// Where bits may flip at all.
    flips: Option<Flips>,
}

/// The handle that survives the database.
pub(crate) type WorldDevice = SharedDevice<TracedDevice>;

/// A fresh device of at least `device_bytes` in the world of `scenario`, of sectors of so many bytes.
pub(crate) fn device(
    scenario: &Scenario,
    (device_bytes, sector_bytes): (u64, u32),
    blackout: &Arc<AtomicBool>,
) -> WorldDevice {
    let geometry = Geometry { sector_bytes, sector_count: device_bytes / u64::from(sector_bytes) };
    let inner = match &scenario.drive {
        None => memory::ground(geometry),
        Some(drive) => ssd::ground(geometry, drive, scenario.seed),
    };
    let (hash, blackout) = (0xCBF2_9CE4_8422_2325, Arc::clone(blackout));
    let bug = scenario.bug;
    let flips = scenario.faults.flipped_bits.then(|| Flips::new(sector_bytes));
    SharedDevice::new(TracedDevice { inner, bug, write_count: 0, hash, blackout, flips })
}

impl TracedDevice {
    pub(crate) fn ground(&mut self) -> &mut dyn Ground {
        &mut *self.inner
    }

    pub(crate) fn request_count(&self) -> u64 {
        self.inner.submitted_count()
    }

    pub(crate) fn audit(&self) {
        self.inner.audit();
    }

    /// Flips a bit of a sector from `first_sector` on that was written, in a page of `page_bytes` for
    /// those who forge; false if there is none, or bits do not flip here.
    pub(crate) fn flip_bit(&mut self, rng: &mut Rng, first_sector: u64, page_bytes: u32) -> bool {
        let forged_page_bytes = (self.bug == Bug::ChecksumsForged).then_some(page_bytes);
        let flips = self.flips.as_mut();
        flips.is_some_and(|flips| flips.flip(rng, first_sector, forged_page_bytes))
    }

    fn note_power(&self) {
        if !self.inner.is_powered() {
            self.blackout.store(true, Ordering::Relaxed);
        }
    }

    pub(crate) const fn hash(&self) -> u64 {
        self.hash
    }

    fn note(&mut self, request: &Request) {
        let Request { operation, first_sector, sector_count, buffer, .. } = request;
        self.note_word(*operation as u64);
        self.note_word(first_sector.0);
        self.note_word(u64::from(*sector_count));
        if let (Operation::Write, Some(buffer)) = (operation, buffer) {
            for word in buffer.chunks(8) {
                let mut bytes = [0; 8];
                bytes[..word.len()].copy_from_slice(word);
                self.note_word(u64::from_le_bytes(bytes));
            }
        }
    }

    const fn note_word(&mut self, word: u64) {
        self.hash = (self.hash ^ word).wrapping_mul(0x0100_0000_01B3).rotate_left(23);
    }

    /// What really goes to the device.
    fn twist(&mut self, mut request: Request) -> Request {
        let lies = match request.operation {
            Operation::Write => {
                self.write_count += 1;
                self.write_count.is_multiple_of(BUG_PERIOD)
            }
            Operation::Flush => self.bug == Bug::FlushesIgnored,
            Operation::Read | Operation::Trim => false,
        };
        let end = self.inner.info().geometry.sector_count;
        match (lies, self.bug) {
            (true, Bug::FlushesIgnored) if request.operation == Operation::Flush => {
                Request::read(request.id, 0, 1, None)
            }
            (true, Bug::WritesLost) => {
                let Request { id, first_sector, sector_count, .. } = request;
                // The buffer comes back as that of a read, which nobody looks at.
                let buffer = request.buffer.take();
                Request::read(id, first_sector.0, sector_count, buffer)
            }
            (true, Bug::WritesMisdirected) => {
                let count = u64::from(request.sector_count);
                if request.first_sector.0 + 2 * count <= end {
                    request.first_sector.0 += count;
                }
                request
            }
            _ => request,
        }
    }
}

impl Device for TracedDevice {
    fn info(&self) -> &DeviceInfo {
        self.inner.info()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        self.note(&request);
        let request = self.twist(request);
        if self.blackout.load(Ordering::Relaxed) && self.inner.is_powered() {
            self.inner.cut_power();
        }
        let (id, operation, first_sector, count) = flips::parts(&request);
        assert!(self.request_count() < REQUEST_COUNT_MAX, "requests without an end");
        let result = self.inner.submit(now, request);
        if let (Some(flips), Ok(())) = (&mut self.flips, &result) {
            flips.note(id, operation, first_sector, count);
        }
        self.note_power();
        result
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let mut completion = self.inner.next_completion(until);
        if let (Some(flips), Some(completion)) = (&mut self.flips, &mut completion) {
            flips.lay_over(completion);
        }
        self.note_power();
        completion
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        let now = self.inner.idle_until(time);
        self.note_power();
        now
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
