//! What databases of experiments lie on, and how they are taken off and put back.
//!
//! ```text
//!   [measure.drives.NAME]                     [measure.variants.NAME]
//!   base = "sim:device-a"   or "local"        log_apart = true
//!   capacity = "256MiB"                       durability = "none"
//!   member_count = 8                          torn_pages = "trust"
//!   set = { … }                               log = "32MiB"
//!   page_cache = { bytes = "4MB" }            set = { … }
//! ```
//!
//! 1. A site has drives of its own, with a seed of its own; flash was written full before the
//!    database comes. Several members are striped by `nandu_array`, a page on each in turn.
//! 2. `local` is a new directory of real files, gone afterwards; without a local target it is no site.
//! 3. The virtual clock knows the devices only: what the processor does takes no time there.

pub(super) mod page_cache;

use super::bench::{Bench, LOCAL};
use super::drive::DriveVariant;
use super::engine_set::{EngineSet, Own};
use crate::error::LabError;
use crate::run::RunObserver;
use nandu::simulated::SimulatedMedia;
use nandu::{DirectoryOptions, DirectoryVolume, PropagationKind};
use nandu_array::{ArrayConfig, ArrayDevice, MEMBER_COUNT_MAX, StandardLayout, WriteReturn};
use nandu_base::{ByteCount, FlashCounters, Nanos, Rng};
use nandu_device::{Counters, Device, MeteredDevice, Request, SharedDevice};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_load::LoadObserver;
use nandu_probe::{Area, Preparation, ProbeError, prepare, text};
use nandu_storage::engine::TornPages;
use nandu_storage::log::Durability;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Settings, StorageError, Volume, Volumes};
use page_cache::{Cached, PageCacheOrder};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use tempfile::TempDir;

/// Where a log lies that is not to be measured.
const FREE_DRIVE: &str = "dram-like";
/// Capacity of a log unless stated.
const LOG_BYTES: u64 = 32 << 20;

/// So long a drive is left alone before its memory is filled with other data.
const DESTAGE_SECONDS: u64 = 10;
/// Reads that fill it: more than the read segments of sixteen disks.
const READ_ELSEWHERE_COUNT: u64 = 1024;
/// What lies on one member of an array before the next member's turn.
const STRIPE_UNIT_BYTES: u32 = 4096;

/// What a database lies on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SiteDrive {
    /// `sim:NAME` or `local`.
    pub base: String,
    /// Keys of the profile with other values.
    #[serde(default)]
    pub set: toml::Table,
    /// Capacity that each simulated drive is scaled to; absent means the whole drive.
    #[serde(default, deserialize_with = "text::optional_size")]
    pub capacity: Option<ByteCount>,
    /// Drives that pages are striped over.
    #[serde(default = "one")]
    pub member_count: u8,
    /// A kernel's page cache before it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub page_cache: Option<PageCacheOrder>,
}

const fn one() -> u8 {
    1
}

/// Sites by the name that they have in series.
pub type SiteDrives = BTreeMap<String, SiteDrive>;

/// How the engine works.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EngineVariant {
    /// Whether the log lies on a drive of its own that costs next to nothing.
    pub log_apart: bool,
    /// What a commit waits for.
    pub durability: Durability,
    /// What is done about torn pages.
    pub torn_pages: TornPages,
    /// Capacity of the log; there is a checkpoint after an eighth of it.
    #[serde(default = "log_bytes", deserialize_with = "text::size")]
    pub log: ByteCount,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

const fn log_bytes() -> ByteCount {
    ByteCount(LOG_BYTES)
}

impl EngineVariant {
    /// A variant with a log of usual size.
    pub(crate) fn new(log_apart: bool, durability: Durability, torn_pages: TornPages) -> Self {
        Self { log_apart, durability, torn_pages, log: log_bytes(), set: EngineSet::default() }
    }

    /// The usual one of kinds that measure reads: nothing is done for durability.
    pub(crate) fn reading(set: &EngineSet) -> Self {
        Self { set: set.clone(), ..Self::new(true, Durability::None, TornPages::Trust) }
    }

    /// The usual one of kinds that write: durable as the engine is by itself.
    pub(crate) fn writing(set: &EngineSet) -> Self {
        let Settings { durability, torn_pages, .. } = Settings::default();
        Self { set: set.clone(), ..Self::new(false, durability, torn_pages) }
    }

    /// Checks what is set for pages of each of these sizes; `own` are settings that the kind has keys for.
    pub(crate) fn check(
        &self,
        page_bytes: impl IntoIterator<Item = u32>,
        own: &[Own],
    ) -> Result<(), String> {
        let mut sizes = page_bytes.into_iter();
        sizes.try_for_each(|size| self.set.check(&self.unset(size, 0), own))
    }

    /// The same for pages of one size, on a site with the [media](Site::with_media_of) of a propagation.
    pub(crate) fn check_with_media(&self, page_bytes: u32, own: &[Own]) -> Result<(), String> {
        self.set.check_with_media(&self.unset(page_bytes, 0), own)
    }

    /// The log, if it lies apart.
    pub(crate) fn log_apart(&self) -> Option<ByteCount> {
        self.log_apart.then_some(self.log)
    }

    /// Settings with a pool of `pool_bytes`, or of the least that works.
    pub(crate) fn settings(&self, page_bytes: u32, pool_bytes: u64) -> Settings {
        self.set.apply(self.unset(page_bytes, pool_bytes))
    }

    /// The same before `set` has its way.
    fn unset(&self, page_bytes: u32, pool_bytes: u64) -> Settings {
        let checkpoint_bytes = (self.log.0 / 8).max(16 * u64::from(page_bytes));
        Settings {
            page_bytes,
            pool_bytes: pool_bytes.max(32 * u64::from(page_bytes)),
            torn_pages: self.torn_pages,
            durability: self.durability,
            log_bytes: self.log.0,
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
    drives.iter().try_for_each(|(name, drive)| drive.check(name))
}

/// The targets behind `drives`, whose profiles decide the results.
pub(crate) fn targets(drives: &SiteDrives) -> Vec<String> {
    drives.values().map(|drive| drive.base.clone()).chain([format!("sim:{FREE_DRIVE}")]).collect()
}

/// Those of a step on `drive`, whose log may lie on the free one.
pub(crate) fn step_targets(drive: &SiteDrive) -> Vec<String> {
    vec![drive.base.clone(), format!("sim:{FREE_DRIVE}")]
}

impl SiteDrive {
    fn check(&self, name: &str) -> Result<(), String> {
        if self.base == LOCAL {
            let is_plain = self.capacity.is_none() && self.set.is_empty() && self.member_count == 1;
            if !is_plain || self.page_cache.is_some() {
                return Err(format!("`{name}` is local, which has `base` alone"));
            }
            return Ok(());
        }
        let whole = self.profile(name)?.geometry.capacity();
        let capacity = self.capacity.unwrap_or(whole);
        if capacity > whole || capacity < ByteCount::mib(64) {
            return Err(format!("`capacity` of `{name}` is not from 64 MiB to {whole}"));
        }
        if !(1..=MEMBER_COUNT_MAX).contains(&self.member_count) {
            return Err(format!("`member_count` of `{name}` is not from 1 to {MEMBER_COUNT_MAX}"));
        }
        let order = self.page_cache.as_ref();
        order.map_or(Ok(()), |order| order.check(&format!("drives.{name}.page_cache")))
    }

    pub(crate) fn profile(&self, name: &str) -> Result<Profile, String> {
        DriveVariant { base: self.base.clone(), set: self.set.clone() }.profile(name)
    }

    fn open_member(&self, name: &str, seed: u64) -> Result<Box<dyn Device + Send>, String> {
        let options = SimOptions { capacity: self.capacity, seed, keep_data: true };
        self.profile(name)?.open(options).map_err(|error| error.to_string())
    }

    /// Whether its drives say what they use.
    pub(crate) fn tells_energy(&self, name: &str) -> Result<bool, String> {
        let figures = self.profile(name)?.figures();
        Ok(figures.iter().any(|figure| figure.path.contains(".power.")))
    }

    pub(crate) fn open(&self, name: &str, seed: u64) -> Result<Box<dyn Device + Send>, String> {
        if self.member_count == 1 {
            return self.open_member(name, seed);
        }
        let member = |index| self.open_member(name, seed.wrapping_add(index));
        let members: Result<Vec<_>, _> = (0..u64::from(self.member_count)).map(member).collect();
        let members = members?;
        let sector_bytes = members[0].info().geometry.sector_bytes;
        let wrong = |error: nandu_array::ArrayError| error.to_string();
        let config = ArrayConfig {
            layout: StandardLayout::OneCopy.on(self.member_count).map_err(wrong)?,
            fragment_sector_count: (STRIPE_UNIT_BYTES / sector_bytes).max(1),
            write_return: WriteReturn::All,
            queue_depth_max: members[0].info().queue_depth_max,
            member_error_count_max: 0,
            member_timeout: None,
            keeps_data: true,
        };
        Ok(Box::new(ArrayDevice::create(config, members).map_err(wrong)?))
    }

    /// `drive` behind its page cache, if it has one, and that cache.
    pub(crate) fn behind_cache(
        &self,
        drive: Box<dyn Device + Send>,
        keeps_data: bool,
    ) -> Result<(Box<dyn Device + Send>, SiteCache), String> {
        let Some(order) = &self.page_cache else { return Ok((drive, None)) };
        let cache = order.before(drive, keeps_data)?;
        Ok((Box::new(cache.clone()), Some((cache, order.stays))))
    }

    fn needs_filling(&self, name: &str) -> Result<bool, String> {
        self.profile(name)?.needs_filling().map_err(|error| error.to_string())
    }
}

/// A drive that outlives the engine on it.
pub(crate) type Held = Box<dyn Device + Send>;

/// Where the pages of a database lie: on a drive, or in a directory.
enum Place {
    Drive(SharedDevice<Held>),
    Directory(TempDir),
}

/// The page cache before the drive of the pages, if there is one, and whether it stays when a database is
/// reopened.
pub(crate) type SiteCache = Option<(Cached, bool)>;

/// Drives with a database on them, or room for one.
pub(crate) struct Site {
    data: Place,
    log: Option<SharedDevice<Held>>,
    cache: SiteCache,
    media: SimulatedMedia,
}

impl Site {
    /// Fresh drives: `drive`, written full if it needs that, and one for a log that lies apart. `None`
    /// where it is local and the user named no local target.
    pub(crate) fn prepare(
        bench: &mut Bench<'_>,
        step: &str,
        (name, drive): (&str, &SiteDrive),
        log_apart: Option<ByteCount>,
    ) -> Result<Option<Self>, LabError> {
        let error = |why: String| LabError::step(step, &why);
        let seed = Rng::for_part(bench.seed, step).next_u64();
        let mut cache = None;
        let data = if drive.base == LOCAL {
            match directory(bench).map_err(error)? {
                Some(directory) => Place::Directory(directory),
                None => return Ok(None),
            }
        } else {
            let data = drive.open(name, seed).map_err(error)?;
            let mut data: Held = Box::new(MeteredDevice::tallied(data, bench.power.clone()));
            if drive.needs_filling(name).map_err(error)? {
                fill(data.as_mut(), step, bench.observer)?;
            }
            (data, cache) = drive.behind_cache(data, true).map_err(error)?;
            Place::Drive(SharedDevice::new(data))
        };
        let log = match log_apart {
            None => None,
            Some(bytes) => Some(SharedDevice::new(open_free(bytes, seed).map_err(error)?)),
        };
        Ok(Some(Self { data, log, cache, media: SimulatedMedia::default() }))
    }

    /// The same site with what a propagation needs beside the pages: raw flash are the chips of another
    /// `drive`.
    pub(crate) fn with_media_of(
        self,
        propagation: PropagationKind,
        (name, drive): (&str, &SiteDrive),
        seed: u64,
    ) -> Result<Self, LabError> {
        if propagation.other_media().is_empty() {
            return Ok(self);
        }
        let error = |why: String| LabError::step(name, &why);
        if drive.base == LOCAL {
            let checked = propagation.check_needs_data_alone("a local directory");
            checked.map_err(|why| error(why.to_string()))?;
        }
        let profile = drive.profile(name).map_err(error)?;
        let options = SimOptions { capacity: drive.capacity, seed, keep_data: true };
        let media = SimulatedMedia::new(propagation, &profile, options);
        let media = media.map_err(|why| error(why.to_string()))?;
        Ok(Self { media, ..self })
    }

    /// `drive`, ready made, and a drive for a log that lies apart.
    pub(crate) fn on(
        step: &str,
        drive: Box<dyn Device + Send>,
        log: Option<ByteCount>,
    ) -> Result<Self, LabError> {
        let open = |bytes| open_free(bytes, 1).map_err(|error| LabError::step(step, &error));
        let log = log.map(open).transpose()?;
        let data = Place::Drive(SharedDevice::new(drive));
        let media = SimulatedMedia::default();
        Ok(Self { data, log: log.map(SharedDevice::new), cache: None, media })
    }

    /// The same site, whose ready-made drive has `cache` in it.
    pub(crate) fn with_cache(self, cache: SiteCache) -> Self {
        Self { cache, ..self }
    }

    /// Writes back what the page cache has, if there is one, and empties it.
    pub(crate) fn empty_cache(&self) {
        if let Some((cache, _)) = &self.cache {
            cache.forget_completions();
            cache.lock().drop_pages();
            cache.lock().audit();
        }
    }

    /// What was done to the flash of its drives and chips, but for the log's.
    pub(crate) fn commands(&self) -> FlashCounters {
        let mut counters = match &self.data {
            Place::Drive(drive) => drive.counters(),
            Place::Directory(_) => Counters::default(),
        };
        self.media.add_to(&mut counters);
        counters.flash.map(|flash| flash.commands).unwrap_or_default()
    }

    /// Makes empty volumes in the places of the site.
    pub(crate) fn format(&self) -> Result<Volumes, StorageError> {
        let data: Box<dyn Volume> = match &self.data {
            Place::Drive(drive) => Box::new(DeviceVolume::format(Box::new(drive.clone()))?),
            Place::Directory(directory) => {
                Box::new(DirectoryVolume::create(directory.path(), DirectoryOptions::default())?)
            }
        };
        let volumes = self.with_log(data, DeviceVolume::format)?;
        Ok(Volumes { others: self.media.format()?, ..volumes })
    }

    /// The volumes as they were left. Whoever had them is gone, with all that was in flight.
    pub(crate) fn reopen(&self) -> Result<Volumes, StorageError> {
        self.log.iter().for_each(SharedDevice::forget_completions);
        if let Place::Drive(drive) = &self.data {
            drive.forget_completions();
        }
        if self.cache.as_ref().is_some_and(|(_, stays)| !stays) {
            self.empty_cache();
        }
        let data: Box<dyn Volume> = match &self.data {
            Place::Drive(drive) => Box::new(DeviceVolume::open(Box::new(drive.clone()))?),
            Place::Directory(directory) => {
                Box::new(DirectoryVolume::open(directory.path(), DirectoryOptions::default())?)
            }
        };
        let volumes = self.with_log(data, DeviceVolume::open)?;
        Ok(Volumes { others: self.media.reopen()?, ..volumes })
    }

    /// Fills what memory the drive of the pages has with sectors from its second half, as far as it
    /// takes them: after a power cut it would hold nothing that a restart wants.
    pub(crate) fn forget_reads(&self, seed: u64) {
        let Place::Drive(drive) = &self.data else { return };
        drive.forget_completions();
        let mut drive = drive.clone();
        drive.idle_until(drive.now() + Nanos::from_seconds(DESTAGE_SECONDS));
        let half = drive.info().geometry.sector_count / 2;
        let mut rng = Rng::for_part(seed, "elsewhere");
        for id in 0..READ_ELSEWHERE_COUNT {
            let request = Request::read(id, half + rng.below(half), 1, None);
            // These reads only displace what the drive's cache holds; one that is refused displaces
            // nothing, and the next one follows.
            if drive.submit(drive.now(), request).is_ok() {
                drive.next_completion(Nanos::MAX);
            }
        }
    }

    fn with_log(
        &self,
        data: Box<dyn Volume>,
        make: impl Fn(Box<dyn Device + Send>) -> Result<DeviceVolume, StorageError>,
    ) -> Result<Volumes, StorageError> {
        let log: Option<Box<dyn Volume>> = match &self.log {
            None => None,
            Some(log) => Some(Box::new(make(Box::new(log.clone()))?)),
        };
        Ok(Volumes::new(data, log))
    }
}

/// A new directory on the local target, if the user named one.
fn directory(bench: &mut Bench<'_>) -> Result<Option<TempDir>, String> {
    let Some(local) = bench.local else {
        bench.notes.push("no local device was given; its series are absent".into());
        return Ok(None);
    };
    let made = tempfile::Builder::new().prefix("nandu-").tempdir_in(&local.directory);
    let place = local.directory.display();
    made.map(Some).map_err(|error| format!("cannot make a directory in {place}: {error}"))
}

/// The drive of a log of `bytes` that lies apart.
fn open_free(bytes: ByteCount, seed: u64) -> Result<Box<dyn Device + Send>, String> {
    let (base, set) = (format!("sim:{FREE_DRIVE}"), toml::Table::new());
    let capacity = Some(ByteCount(bytes.0 + bytes.0 / 2));
    SiteDrive { base, set, capacity, member_count: 1, page_cache: None }.open(FREE_DRIVE, seed)
}

pub(crate) fn fill(
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

/// Ends a load when the run is to stop.
pub(crate) struct LoadWatch<'a, 'b>(pub(crate) &'a Bench<'b>);

impl LoadObserver for LoadWatch<'_, '_> {
    fn is_cancelled(&self) -> bool {
        self.0.observer.is_cancelled()
    }
}

/// The error of a run that was to stop. How far it got, the run adds.
pub(crate) const fn cancelled() -> LabError {
    LabError::Cancelled { finished_count: 0, step_count: 0 }
}

/// # Errors
/// If the run is to stop.
pub(crate) fn check_cancelled(bench: &Bench<'_>) -> Result<(), LabError> {
    if bench.observer.is_cancelled() { Err(cancelled()) } else { Ok(()) }
}
