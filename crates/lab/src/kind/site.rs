//! Databases on simulated drives: what they lie on, and how they are taken off and put back.
//!
//! ```text
//!   [measure.drives.NAME]                     [measure.variants.NAME]
//!   base = "sim:device-a"                     log_apart = true
//!   capacity = "256MiB"                       durability = "none"
//!   set = { … }                               torn_pages = "trust"
//! ```
//!
//! 1. A site has drives of its own, with a seed of its own; flash was written full before the
//!    database comes.
//! 2. The virtual clock knows the devices only: what the processor does takes no time.

use super::bench::Bench;
use super::drive::DriveVariant;
use crate::error::LabError;
use crate::run::RunObserver;
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::{Completion, Counters, Device, DeviceInfo, Rejected, Request, SharedDevice};
use nandu_drives::profile::{DriveKind, Profile, SimOptions};
use nandu_probe::{Area, Preparation, ProbeError, prepare, text};
use nandu_storage::engine::TornPages;
use nandu_storage::log::Durability;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Settings, StorageError, Volumes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Where a log lies that is not to be measured.
const FREE_DRIVE: &str = "dram-like";
/// Capacity of the log of every database here.
const LOG_BYTES: u64 = 32 << 20;
/// Capacity of the drive of a log that lies apart.
const LOG_DRIVE_BYTES: u64 = 48 << 20;

/// What a database lies on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteDrive {
    /// `sim:NAME`.
    pub base: String,
    /// Keys of the profile with other values.
    #[serde(default)]
    pub set: toml::Table,
    /// Capacity that each drive is scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
}

/// Sites by the name that they have in series.
pub type SiteDrives = BTreeMap<String, SiteDrive>;

/// How the engine works.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineVariant {
    /// Whether the log lies on a drive of its own that costs next to nothing.
    pub log_apart: bool,
    /// What a commit waits for.
    pub durability: Durability,
    /// What is done about torn pages.
    pub torn_pages: TornPages,
}

impl EngineVariant {
    /// Settings with a pool of `pool_bytes`, or of the least that works.
    pub(crate) fn settings(&self, page_bytes: u32, pool_bytes: u64) -> Settings {
        let checkpoint_bytes = (LOG_BYTES / 8).max(16 * u64::from(page_bytes));
        Settings {
            page_bytes,
            pool_bytes: pool_bytes.max(32 * u64::from(page_bytes)),
            torn_pages: self.torn_pages,
            durability: self.durability,
            log_bytes: LOG_BYTES,
            checkpoint_bytes,
            ..Settings::default()
        }
    }
}

/// Checks that there are drives and that each can be scaled to its capacity.
pub(crate) fn check_drives(drives: &SiteDrives) -> Result<(), String> {
    if drives.is_empty() {
        return Err("`drives` is empty; name at least one".into());
    }
    for (name, drive) in drives {
        let whole = drive.profile(name)?.geometry.capacity();
        if drive.capacity > whole || drive.capacity < ByteCount::mib(64) {
            return Err(format!("`capacity` of `{name}` is not from 64 MiB to {whole}"));
        }
    }
    Ok(())
}

/// The targets behind `drives`, whose profiles decide the results.
pub(crate) fn targets(drives: &SiteDrives) -> Vec<String> {
    drives.values().map(|drive| drive.base.clone()).chain([format!("sim:{FREE_DRIVE}")]).collect()
}

impl SiteDrive {
    fn profile(&self, name: &str) -> Result<Profile, String> {
        DriveVariant { base: self.base.clone(), set: self.set.clone() }.profile(name)
    }

    fn open(&self, name: &str, seed: u64) -> Result<Box<dyn Device + Send>, String> {
        let options = SimOptions { capacity: Some(self.capacity), seed, keep_data: true };
        self.profile(name)?.open(options).map_err(|error| error.to_string())
    }

    fn is_flash(&self, name: &str) -> Result<bool, String> {
        Ok(self.profile(name)?.kind() == DriveKind::Ssd)
    }
}

/// A drive that outlives the engine on it.
struct Held(Box<dyn Device + Send>);

impl Device for Held {
    fn info(&self) -> &DeviceInfo {
        self.0.info()
    }
    fn now(&self) -> Nanos {
        self.0.now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        self.0.submit(now, request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.0.next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        self.0.in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.0.idle_until(time)
    }
    fn counters(&self) -> Counters {
        self.0.counters()
    }
}

/// Drives with a database on them, or room for one.
pub(crate) struct Site {
    data: SharedDevice<Held>,
    log: Option<SharedDevice<Held>>,
}

impl Site {
    /// Fresh drives: `drive`, written full if it is flash, and one for the log if it lies apart.
    pub(crate) fn prepare(
        bench: &mut Bench<'_>,
        step: &str,
        (name, drive): (&str, &SiteDrive),
        log_apart: bool,
    ) -> Result<Self, LabError> {
        let error = |why: String| LabError::step(step, &why);
        let seed = Rng::for_part(bench.seed, step).next_u64();
        let mut data = drive.open(name, seed).map_err(error)?;
        if drive.is_flash(name).map_err(error)? {
            fill(data.as_mut(), step, bench.observer)?;
        }
        let log = match log_apart {
            false => None,
            true => {
                let (base, set) = (format!("sim:{FREE_DRIVE}"), toml::Table::new());
                let capacity = ByteCount(LOG_DRIVE_BYTES);
                let free = SiteDrive { base, set, capacity };
                let device = free.open(FREE_DRIVE, seed).map_err(error)?;
                Some(SharedDevice::new(Held(device)))
            }
        };
        Ok(Self { data: SharedDevice::new(Held(data)), log })
    }

    /// The volumes, empty.
    pub(crate) fn format(&self) -> Result<Volumes, StorageError> {
        self.volumes(DeviceVolume::format)
    }

    /// The volumes as they were left. Whoever had them is gone, with all that was in flight.
    pub(crate) fn reopen(&self) -> Result<Volumes, StorageError> {
        self.data.forget_completions();
        self.log.iter().for_each(SharedDevice::forget_completions);
        self.volumes(DeviceVolume::open)
    }

    fn volumes(
        &self,
        make: impl Fn(Box<dyn Device + Send>) -> Result<DeviceVolume, StorageError>,
    ) -> Result<Volumes, StorageError> {
        let data = Box::new(make(Box::new(self.data.clone()))?);
        let log = match &self.log {
            None => None,
            Some(log) => {
                let log: Box<dyn nandu_storage::Volume> = Box::new(make(Box::new(log.clone()))?);
                Some(log)
            }
        };
        Ok(Volumes { data, log })
    }
}

fn fill(
    device: &mut dyn Device,
    step: &str,
    observer: &mut dyn RunObserver,
) -> Result<(), LabError> {
    match prepare(device, &Preparation::fill_of(Area::default()), &mut *observer) {
        Ok(_) => Ok(()),
        Err(ProbeError::Cancelled) => Err(cancelled()),
        Err(error) => Err(LabError::step(step, &error)),
    }
}

fn cancelled() -> LabError {
    LabError::Cancelled { finished_count: 0, step_count: 0 }
}

/// # Errors
/// If the run is to stop.
pub(crate) fn check_cancelled(bench: &Bench<'_>) -> Result<(), LabError> {
    if bench.observer.is_cancelled() { Err(cancelled()) } else { Ok(()) }
}
