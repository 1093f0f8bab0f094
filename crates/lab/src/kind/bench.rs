//! The bench that devices are put on: opens targets, prepares them, runs one point of a series.
//!
//! 1. A simulated device is opened afresh for every step, with a seed of the step's own.
//! 2. The local device is opened once for a run, and only if some step needs it.
//! 3. A simulated flash drive is written full before it is measured, so reads find data and writes
//!    find a used drive; before each point of writes it is written full again (S002 appendix A). The
//!    local device comes filled from whoever opened it.
//! 4. A simulated disk is warmed up by half as many requests, and the median of nine runs counts. With a
//!    `disk_file`, a point is one run of a length of time in a file, behind a page cache that is empty.

use super::site::page_cache::{Cached, PageCacheOrder};
use crate::error::LabError;
use crate::run::{LocalTarget, RunObserver};
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::{Device, DeviceInfo, MeteredDevice, PowerLog, TimeSource};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_probe::{Access, Area, Limit, Pattern, PatternResult, Preparation, ProbeError};
use nandu_probe::{prepare, run_pattern, text};
use serde::{Deserialize, Serialize};

/// The target that stands for a device of this machine.
pub const LOCAL: &str = "local";

/// The four access patterns of S000 and S002.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccessPattern {
    /// One request after the other, reading.
    SequentialRead,
    /// Anywhere, none twice, reading.
    RandomRead,
    /// One request after the other, writing.
    SequentialWrite,
    /// Anywhere, none twice, writing.
    RandomWrite,
}

impl AccessPattern {
    /// All four patterns, in the order of tables.
    pub const ALL: [Self; 4] =
        [Self::SequentialRead, Self::RandomRead, Self::SequentialWrite, Self::RandomWrite];

    /// Its part of a series name.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::SequentialRead => "sequential_read",
            Self::RandomRead => "random_read",
            Self::SequentialWrite => "sequential_write",
            Self::RandomWrite => "random_write",
        }
    }

    pub(crate) const fn access(self) -> Access {
        match self {
            Self::SequentialRead | Self::SequentialWrite => Access::Sequential,
            Self::RandomRead | Self::RandomWrite => Access::Random,
        }
    }

    /// How many of its requests read.
    pub(crate) const fn read_percent(self) -> u8 {
        if self.writes() { 0 } else { 100 }
    }

    /// Whether its requests are writes.
    #[must_use]
    pub const fn writes(self) -> bool {
        matches!(self, Self::SequentialWrite | Self::RandomWrite)
    }
}

/// How much is measured.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scale {
    /// Capacity that a simulated flash drive is scaled to; a smaller drive keeps its own.
    #[serde(deserialize_with = "text::size")]
    pub flash_capacity: ByteCount,
    /// Capacity that other simulated drives are scaled to: a disk keeps its seek times over fewer
    /// cylinders. Absent means the whole drive.
    #[serde(default, deserialize_with = "text::optional_size")]
    pub disk_capacity: Option<ByteCount>,
    /// Requests of a point on a simulated flash drive.
    pub request_count: u64,
    /// Requests of each run of a point on another simulated drive; the same unless stated. The
    /// mean of many sequential requests hides the first positioning.
    #[serde(default)]
    pub disk_request_count: Option<u64>,
    /// Bytes of a point on a simulated flash drive, at most; at least 16 requests are made.
    #[serde(deserialize_with = "text::size")]
    pub point_bytes: ByteCount,
    /// How long a point takes on a real device.
    #[serde(default = "one_second", deserialize_with = "text::duration")]
    pub local_duration: Nanos,
    /// A file on drives that are not flash, behind the page cache of a kernel.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk_file: Option<DiskFile>,
}

/// A file from the start of a drive on, and how it is accessed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DiskFile {
    /// Bytes of the file.
    #[serde(deserialize_with = "text::size")]
    pub bytes: ByteCount,
    /// How long a point takes.
    #[serde(deserialize_with = "text::duration")]
    pub duration: Nanos,
    /// The kernel's memory; writes go through it where `dirty` is 0.
    pub page_cache: PageCacheOrder,
}

const fn one_second() -> Nanos {
    Nanos::from_seconds(1)
}

/// Runs of a point on a simulated disk, whose speed depends on where a sequential run starts.
const DISK_RUN_COUNT: u32 = 9;
/// Fewest requests of a point.
const REQUEST_COUNT_MIN: u64 = 16;
/// Most requests in flight that a kind asks for.
const DEPTH_MAX: u32 = 1024;
/// What a processor may take in all, for a clock that counts nanoseconds.
const RUN_YEARS_MAX: u64 = 100;
/// Largest request that a kind asks for.
const REQUEST_BYTES_MAX: u64 = 16 << 20;

/// Checks what a kind lets a TOML file say of its requests: sizes that rise, under the key `sizes_key`, how
/// many are in flight, and how many there are.
///
/// # Errors
/// Names the key that makes no sense.
pub(crate) fn check_requests(
    (sizes_key, sizes): (&str, &[ByteCount]),
    queue_depth: u32,
    request_count: u64,
) -> Result<(), String> {
    let rises = sizes.windows(2).all(|pair| pair[0] < pair[1]);
    let fits = |size: &ByteCount| {
        (512..=REQUEST_BYTES_MAX).contains(&size.0) && size.0.is_multiple_of(512)
    };
    if sizes.is_empty() || !rises || !sizes.iter().all(fits) {
        return Err(format!("`{sizes_key}` must rise, in sectors of 512, up to 16 MiB"));
    }
    if !(1..=DEPTH_MAX).contains(&queue_depth) || request_count == 0 {
        return Err(format!("`queue_depth` is from 1 to {DEPTH_MAX}, `request_count` above 0"));
    }
    Ok(())
}

/// Checks that no processor computes longer than a clock counts.
///
/// # Errors
/// Names the key, `processor`.
pub(crate) fn check_processor(processor: Option<Nanos>, count: u64) -> Result<(), String> {
    let computed_ns = u128::from(processor.unwrap_or_default().0) * u128::from(count);
    let longest_ns = u128::from(RUN_YEARS_MAX) * 365 * 24 * 3600 * 1_000_000_000;
    if computed_ns > longest_ns {
        return Err(format!("`processor` would take more than {RUN_YEARS_MAX} years of {count}"));
    }
    Ok(())
}

impl Scale {
    /// Of one simulated drive, whose points have so many requests, however many bytes these are.
    pub(crate) const fn of_simulated(flash_capacity: ByteCount, request_count: u64) -> Self {
        Self {
            flash_capacity,
            disk_capacity: None,
            request_count,
            disk_request_count: None,
            point_bytes: ByteCount(u64::MAX),
            local_duration: Nanos::from_seconds(1),
            disk_file: None,
        }
    }

    /// # Errors
    /// Names the key that makes no sense.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.flash_capacity < ByteCount::mib(4) {
            return Err("`flash_capacity` is below 4 MiB; no flash drive is that small".into());
        }
        if self.request_count == 0
            || self.disk_request_count == Some(0)
            || self.point_bytes == ByteCount::ZERO
        {
            return Err(
                "`request_count`, `disk_request_count` and `point_bytes` must be above 0".into()
            );
        }
        let order = self.disk_file.as_ref().map(|file| &file.page_cache);
        order.map_or(Ok(()), |order| order.check("disk_file.page_cache"))
    }
}

/// One point of a series.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PointOrder {
    pub(crate) pattern: AccessPattern,
    pub(crate) request_bytes: u64,
    pub(crate) queue_depth: u32,
}

/// A device on the bench.
pub(crate) struct Subject {
    device: Box<dyn Device>,
    area: Area,
    /// Whether it is flash, which is written full before it is measured.
    needs_filling: bool,
    seed: u64,
    /// Whether it has been written full, and nothing else since.
    is_fresh: bool,
    /// The page cache before it.
    cache: Option<Cached>,
}

/// Where steps find their devices.
pub struct Bench<'a> {
    pub(crate) seed: u64,
    pub(crate) local: Option<&'a LocalTarget<'a>>,
    pub(crate) local_subject: Option<Subject>,
    pub(crate) observer: &'a mut dyn RunObserver,
    pub(crate) notes: Vec<String>,
    /// What simulated drives tell that a step opens.
    pub(crate) power: PowerLog,
}

impl Bench<'_> {
    /// Runs `work` on the device `target`, opened for the step called `step`. A target `local` that
    /// the user did not name gives `None`.
    pub(crate) fn with_device<T>(
        &mut self,
        step: &str,
        target: &str,
        scale: &Scale,
        work: impl FnOnce(&mut Subject, &mut dyn RunObserver) -> Result<T, ProbeError>,
    ) -> Result<Option<T>, LabError> {
        if target != LOCAL {
            let profile = sim_profile(target).map_err(|error| LabError::step(step, &error))?;
            return self.with_profile(step, &profile, scale, work).map(Some);
        }
        let Some(local) = self.local else {
            self.notes.push("no local device was given; its series are absent".into());
            return Ok(None);
        };
        let mut subject = match self.local_subject.take() {
            Some(subject) => subject,
            None => open_local(local, self.seed).map_err(|why| LabError::step(step, &why))?,
        };
        let result = work(&mut subject, self.observer);
        self.local_subject = Some(subject);
        outcome_of(step, result).map(Some)
    }

    /// Runs `work` on a simulated device, opened for the step called `step`.
    pub(crate) fn with_profile<T>(
        &mut self,
        step: &str,
        profile: &Profile,
        scale: &Scale,
        work: impl FnOnce(&mut Subject, &mut dyn RunObserver) -> Result<T, ProbeError>,
    ) -> Result<T, LabError> {
        let seed = Rng::for_part(self.seed, step).next_u64();
        let opened = open_simulated(profile, scale, seed, &self.power);
        let mut subject = opened.map_err(|error| LabError::step(step, &error))?;
        outcome_of(step, work(&mut subject, self.observer))
    }
}

fn outcome_of<T>(step: &str, result: Result<T, ProbeError>) -> Result<T, LabError> {
    result.map_err(|error| match error {
        ProbeError::Cancelled => LabError::Cancelled { finished_count: 0, step_count: 0 },
        error => LabError::step(step, &error),
    })
}

fn sim_profile(target: &str) -> Result<Profile, String> {
    let name = target
        .strip_prefix("sim:")
        .ok_or_else(|| format!("`{target}` is no target; write sim:NAME or local"))?;
    Profile::load(name).map_err(|error| error.to_string())
}

fn open_local(local: &LocalTarget<'_>, seed: u64) -> Result<Subject, String> {
    let device = (local.open)()?;
    let area = Area::default();
    Ok(Subject { device, area, needs_filling: true, seed, is_fresh: false, cache: None })
}

fn open_simulated(
    profile: &Profile,
    scale: &Scale,
    seed: u64,
    power: &PowerLog,
) -> Result<Subject, String> {
    let needs_filling = profile.needs_filling().map_err(|error| error.to_string())?;
    let whole = profile.geometry.capacity();
    let capacity = if needs_filling { Some(scale.flash_capacity) } else { scale.disk_capacity };
    let capacity = capacity.map(|capacity| capacity.min(whole));
    let device = profile
        .open(SimOptions { capacity, seed, keep_data: false })
        .map_err(|error| error.to_string())?;
    let device: Box<dyn Device + Send> = Box::new(MeteredDevice::tallied(device, power.clone()));
    let Some(file) = scale.disk_file.as_ref().filter(|_| !needs_filling) else {
        let area = Area::default();
        return Ok(Subject { device, area, needs_filling, seed, is_fresh: false, cache: None });
    };
    let cache = file.page_cache.before(device, false)?;
    let area = Area { length: Some(file.bytes), ..Area::default() };
    let device = Box::new(cache.clone());
    Ok(Subject { device, area, needs_filling, seed, is_fresh: false, cache: Some(cache) })
}

impl Subject {
    pub(crate) fn info(&self) -> &DeviceInfo {
        self.device.info()
    }

    fn is_wall_clock(&self) -> bool {
        self.device.info().time_source == TimeSource::Wall
    }

    /// The request sizes that make sense on the device.
    pub(crate) fn accepted_sizes(&self, sizes: &[ByteCount]) -> Vec<u64> {
        let sector_bytes = u64::from(self.info().geometry.sector_bytes);
        sizes.iter().map(|size| size.0).filter(|size| size.is_multiple_of(sector_bytes)).collect()
    }

    /// The queue depths that the device can do.
    pub(crate) fn accepted_depths(&self, depths: &[u32]) -> Vec<u32> {
        let most = self.info().queue_depth_max;
        depths.iter().copied().filter(|depth| *depth <= most).collect()
    }

    /// Measures one point, with the preparation of rule 3.
    pub(crate) fn measure(
        &mut self,
        order: PointOrder,
        scale: &Scale,
        observer: &mut dyn RunObserver,
    ) -> Result<PatternResult, ProbeError> {
        let refill = order.pattern.writes() && !self.is_wall_clock();
        let is_used = refill || !self.was_filled();
        if self.needs_filling && !self.is_wall_clock() && !self.is_fresh && is_used {
            prepare(self.device.as_mut(), &Preparation::fill_of(self.area), &mut *observer)?;
            self.is_fresh = true;
        }
        let in_file = scale.disk_file.as_ref().filter(|_| self.cache.is_some());
        let limit = if self.is_wall_clock() {
            Limit::time(scale.local_duration)
        } else if let Some(file) = in_file {
            Limit::time(file.duration)
        } else if !self.needs_filling {
            Limit::requests(scale.disk_request_count.unwrap_or(scale.request_count))
        } else {
            let affordable = (scale.point_bytes.0 / order.request_bytes).max(REQUEST_COUNT_MIN);
            Limit::requests(scale.request_count.min(affordable))
        };
        let (access, read_percent) = (order.pattern.access(), order.pattern.read_percent());
        let mut pattern = Pattern::new(access, read_percent, order.request_bytes, limit);
        pattern.queue_depth = order.queue_depth.min(self.info().queue_depth_max);
        pattern.area = self.area;
        pattern.seed = Rng::for_part(self.seed, order.pattern.label()).next_u64();
        pattern.label = format!(
            "{} {} on {}",
            ByteCount(order.request_bytes),
            order.pattern.label().replace('_', " "),
            self.device.info().name
        );
        if order.pattern.writes() {
            self.is_fresh = false;
        }
        if let Some(cache) = &self.cache {
            cache.lock().drop_pages();
        } else if !self.needs_filling && !self.is_wall_clock() {
            self.warm_up(&pattern, observer)?;
            pattern.repetitions = DISK_RUN_COUNT;
        }
        run_pattern(self.device.as_mut(), &pattern, &mut *observer)
    }

    /// Runs a part of `pattern` elsewhere, so that a disk's write cache is as full as it stays.
    fn warm_up(
        &mut self,
        pattern: &Pattern,
        observer: &mut dyn RunObserver,
    ) -> Result<(), ProbeError> {
        let mut pattern = pattern.clone();
        let request_count = pattern.limit.request_count.unwrap_or(REQUEST_COUNT_MIN);
        pattern.limit = Limit::requests(request_count.div_ceil(2));
        pattern.seed = pattern.seed.wrapping_add(1);
        run_pattern(self.device.as_mut(), &pattern, &mut *observer).map(drop)
    }

    fn was_filled(&self) -> bool {
        self.device.counters().writes.byte_count > 0
    }
}
