//! A load on one candidate, by how much is asked at once.
//!
//! ```text
//!   YCSB    a database of `record_count` on a drive scaled so that it is as full as the whole one would be;
//!           1, 4, 16 and 64 clients, one number after the other
//!   trace   requests as fast as the drive takes them, 1, 4, 16 and 64 in flight
//! ```
//!
//! 1. A flash drive is measured when it cleans: before the first point as much was written as the scaled drive
//!    has, if the load writes, and as much to that of the log; where that would take too long, `is_steady` is
//!    false.
//! 2. Flash is erased long after it was written: where a point alone erases too little to tell, it wears what a
//!    program for the host wore from the first aging to the last point.
//! 3. A scaled drive that has more spare flash for its size than the whole one is told by `is_as_full`.

use super::{Candidate, ChooseError, Question};
use crate::run::RunObserver;
use nandu_base::{
    ByteCount, Cause, FlashCounters, FlashOperation, LatencyHistogram, Nanos, Rng, to_index, to_u32,
};
use nandu_bench::ycsb::{WorkloadKind, Ycsb};
use nandu_bench::{Clock, Load as BenchLoad, Outcome, Plan, SwitchKind, Watch, run_watched};
use nandu_device::{Counters, Device, Geometry, Operation, Request};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_drives::wear::{Endurance, chips};
use nandu_storage::database::Isolation;
use nandu_storage::volume::{DeviceVolume, Volume};
use nandu_storage::{Database, Settings, Volumes};
use nandu_trace::{AddressMap, RequestSource, TraceOptions, TraceRequest, open_trace};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// How much is asked at once, at each point.
const DEPTHS: [u32; 4] = [1, 4, 16, 64];
/// A scaled drive has at most so many times the bytes of the load: emptier ones clean as little.
const ROOM_MAX: u64 = 8;
/// And at least so many percent of them.
const ROOM_PERCENT_MIN: u64 = 120;
/// No drive is scaled below this.
const CAPACITY_BYTES_MIN: u64 = 64 << 20;
/// Erase blocks that have to be erased in a point to tell what it wears.
const ERASED_ENOUGH: u64 = 200;
/// Runs of the load before the first point, at most.
const AGING_RUN_COUNT_MAX: u32 = 40;
/// Requests of a trace that are replayed at each point, at most.
pub(super) const TRACE_REQUEST_COUNT_MAX: u64 = 2_000_000;
/// What a trace may touch: a line that asks for more is refused, with its number.
const TRACE_BYTES_MAX: u64 = 4 << 40;
/// How much more spare a scaled drive may have, in percent of that of the whole one.
const SPARE_PERCENT_MAX: u64 = 125;
/// Why nothing came out; who stopped it knows.
const STOPPED: &str = "stopped";
/// Requests that are read from a trace at a time.
const BATCH_COUNT: usize = 4096;
/// Fields of a YCSB record, and what a page is filled with.
const FIELD_COUNT: u64 = 10;
const FILL_PERCENT: u64 = 70;
/// Rests between two operations are taken to be no shorter and no longer.
const REST_MIN: Nanos = Nanos::from_micros(1);
const REST_MAX: Nanos = Nanos::from_seconds(24 * 3600);
/// The log of the database.
const LOG_BYTES: u64 = 32 << 20;
const PAGE_BYTES: u64 = 4096;

/// What is asked of a drive.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "kind")]
pub enum Load {
    /// One of YCSB's workloads over nandu's engine.
    Ycsb(YcsbChoice),
    /// Requests that somebody recorded.
    Trace(TraceLoad),
}

/// A workload of YCSB.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct YcsbChoice {
    /// Which mix of operations.
    pub workload: WorkloadKind,
    /// Records of the database that is simulated.
    pub record_count: u64,
    /// Bytes of each of a record's ten fields.
    pub field_bytes: u32,
    /// Operations of a point.
    pub operation_count: u64,
    /// Memory of the buffer pool, in percent of the records.
    pub memory_percent: u32,
}

/// Requests that somebody recorded, and how much they touch.
#[derive(Clone, Debug, Serialize)]
pub struct TraceLoad {
    /// Where the file lies, as it was named.
    pub path: PathBuf,
    /// How it is read; its addresses are packed.
    #[serde(skip)]
    pub options: TraceOptions,
    /// Bytes of all extents that it touches, as it is found by [`TraceLoad::read`].
    pub touched_bytes: u64,
    /// How many requests it has.
    pub request_count: u64,
    /// From the first to the last.
    pub duration_ns: u64,
}

/// What a drive did when so much was asked at once.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Point {
    /// Clients, or requests in flight.
    pub depth: u32,
    /// Operations, or requests, in a second.
    pub operations_per_second: f64,
    /// What 99 of 100 of them took at most, in nanoseconds.
    pub p99_ns: u64,
    /// Mean power, in watts, where the drives have a model of it.
    pub watts: Option<f64>,
    /// Erase blocks or lines of the data's drive that were worn for an operation; where such parts of it wear.
    pub data_wear: Option<f64>,
    /// The same of the log's.
    pub log_wear: Option<f64>,
}

/// What a candidate did.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measured {
    /// By how much was asked at once.
    pub points: Vec<Point>,
    /// It is as full as the data make so many.
    pub drive_count: u64,
    /// Bytes of the simulated drive.
    pub simulated_bytes: u64,
    /// Whether as much was written before as it has, or nothing is written.
    pub is_steady: bool,
    /// Whether its chips have no more spare for its size than those of the whole drive.
    pub is_as_full: bool,
    /// Whether all that the load wears is told: nothing is written, disks do not wear, or profiles say it.
    pub is_wear_known: bool,
    /// Watts in the rests between two operations, where the drives have a model of it.
    pub idle_watts: Option<f64>,
}

/// Bytes of the chips of a drive of `capacity`, in percent of it.
fn physical_percent(profile: &Profile, capacity: ByteCount) -> Option<u64> {
    let bytes: u64 = chips(profile, capacity).iter().map(|nand| nand.geometry.data_bytes()).sum();
    (bytes > 0).then(|| bytes * 100 / capacity.0.max(1))
}

/// Whether a drive of `capacity` has about as little spare for its size as the whole one.
fn is_as_full(profile: &Profile, capacity: u64) -> bool {
    let whole = physical_percent(profile, profile.geometry.capacity());
    let scaled = physical_percent(profile, ByteCount(capacity));
    let limit = |whole: u64| whole * SPARE_PERCENT_MAX / 100;
    whole.zip(scaled).is_none_or(|(whole, scaled)| scaled <= limit(whole))
}

/// Joules between two readings of all drives; `None` if one has no model of them.
fn joules_between(before: &[Counters], after: &[Counters]) -> Option<f64> {
    let picojoules = |counters: &Counters| Some(counters.energy?.total().0 as f64);
    before
        .iter()
        .zip(after)
        .map(|(before, after)| Some((picojoules(after)? - picojoules(before)?) / 1e12))
        .sum()
}

/// From one operation to the next, on one of so many drives.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "within its bounds")]
pub(super) fn rest_between(question: &Question, drive_count: u64) -> Nanos {
    let nanos = drive_count as f64 / question.rate * 1e9;
    Nanos(nanos.clamp(REST_MIN.0 as f64, REST_MAX.0 as f64) as u64)
}

/// Watts of drives of so many bytes that nobody asks anything for so long: some fall asleep in longer rests.
pub(super) fn idle_watts(candidate: &Candidate, simulated_bytes: u64, rest: Nanos) -> Option<f64> {
    let watts = |profile: &Profile| {
        let capacity = ByteCount(simulated_bytes.min(profile.geometry.capacity().0));
        let options =
            SimOptions { capacity: Some(capacity), keep_data: false, ..SimOptions::default() };
        let mut drive = profile.open(options).ok()?;
        let before = drive.counters();
        let now = drive.now();
        drive.idle_until(now + rest);
        Some(joules_between(&[before], &[drive.counters()])? / rest.as_seconds_f64())
    };
    let data = watts(&candidate.data)?;
    candidate.log.as_ref().map_or(Some(data), |log| Some(data + watts(log)?))
}

/// How many drives the data take.
pub(super) fn drives_for_data(question: &Question, profile: &Profile) -> u64 {
    let count = question.stored_bytes().div_ceil(u128::from(profile.geometry.capacity().0.max(1)));
    u64::try_from(count).unwrap_or(u64::MAX).max(1)
}

/// Bytes of a drive in which so many lie as full as the data of `question` make each of `drive_count`.
///
/// # Errors
/// In words, if the load alone is more than the drive has.
fn scaled_bytes(
    question: &Question,
    (profile, drive_count): (&Profile, u64),
    load_bytes: u64,
) -> Result<u64, String> {
    let whole = u128::from(profile.geometry.capacity().0);
    // A product of two figures of 64 bits and a count that may have as many.
    let all = whole.saturating_mul(u128::from(drive_count));
    let wanted = u128::from(load_bytes).saturating_mul(all) / question.stored_bytes();
    let least = u128::from(load_bytes) * u128::from(ROOM_PERCENT_MIN) / 100;
    if least > whole {
        let (load, whole) = (ByteCount(load_bytes), profile.geometry.capacity());
        return Err(format!("the load has {load} and one drive {whole}; take a smaller load"));
    }
    let most = u128::from(load_bytes) * u128::from(ROOM_MAX);
    let bytes = wanted.clamp(least, most).max(u128::from(CAPACITY_BYTES_MIN)).min(whole);
    let sector_bytes = u64::from(profile.geometry.sector_bytes);
    let bytes = u64::try_from(bytes).expect("no more than the drive has");
    Ok(bytes / sector_bytes * sector_bytes)
}

/// Bytes of the drive on which [`measure`] simulates a candidate.
///
/// # Errors
/// In words, if the load alone is more than the drive has.
pub(super) fn simulated_bytes(
    question: &Question,
    candidate: &Candidate,
    drive_count: u64,
) -> Result<u64, String> {
    let load_bytes = match &question.load {
        Load::Ycsb(ycsb) => ycsb.load_bytes(),
        Load::Trace(trace) => trace.touched_bytes,
    };
    scaled_bytes(question, (&candidate.data, drive_count), load_bytes)
}

/// What a candidate does under the load, as full as the data make `drive_count` of it.
///
/// # Errors
/// In words, if it cannot be simulated.
pub(super) fn measure(
    question: &Question,
    (candidate, drive_count): (&Candidate, u64),
    observer: &mut dyn RunObserver,
) -> Result<Measured, String> {
    let simulated_bytes = simulated_bytes(question, candidate, drive_count)?;
    let (points, is_steady) = match &question.load {
        Load::Ycsb(ycsb) => {
            YcsbBench { ycsb, question, candidate, capacity: simulated_bytes }.points(observer)?
        }
        Load::Trace(_) if candidate.log.is_some() => {
            return Err("a trace does not say which of its requests are of a log".to_owned());
        }
        Load::Trace(trace) => trace.points(question, (candidate, simulated_bytes), observer)?,
    };
    let drives = || std::iter::once(&candidate.data).chain(&candidate.log);
    let writes = points.iter().any(|measuring| measuring.writes);
    Ok(Measured {
        is_steady,
        is_as_full: !writes || is_as_full(&candidate.data, simulated_bytes),
        is_wear_known: !writes || drives().all(|drive| Endurance::of(drive).is_known()),
        idle_watts: None,
        points: points.into_iter().map(|measuring| measuring.point).collect(),
        drive_count,
        simulated_bytes,
    })
}

/// A point without its wear, and between which readings of the drives it lies: of the data's, and of the log's.
struct Measuring {
    point: Point,
    writes: bool,
    operations: f64,
    before: Vec<Counters>,
    after: Vec<Counters>,
}

/// Says of each point what it wore, which the readings before the first aging help to tell.
fn tell_wear(points: &mut [Measuring], candidate: &Candidate, begin: &[Counters]) {
    let Some(end) = points.last().map(|last| last.after.clone()) else { return };
    for measuring in points {
        let wear = |index: usize, profile: &Profile| {
            let of = |readings: &[Counters]| readings.get(index).copied();
            let part = (&of(&measuring.before)?, &of(&measuring.after)?);
            let worn = worn_in(profile, part, (&of(begin)?, &of(&end)?))?;
            Some(worn / measuring.operations)
        };
        let data_wear = wear(0, &candidate.data);
        let log_wear = candidate.log.as_ref().and_then(|log| wear(1, log));
        (measuring.point.data_wear, measuring.point.log_wear) = (data_wear, log_wear);
    }
}

/// Parts that were worn in a `part` of the `whole`: what it erased, if that is much, or else what its programs for
/// the host wear as those of the whole did.
pub(super) fn worn_in(
    profile: &Profile,
    part: (&Counters, &Counters),
    whole: (&Counters, &Counters),
) -> Option<f64> {
    let endurance = Endurance::of(profile);
    let of_part = endurance.worn_between(part.0, part.1)?;
    let commands = |(before, after): (&Counters, &Counters)| {
        Some(after.flash?.commands.since(&before.flash?.commands))
    };
    // Lines are worn when they are written.
    let (Some(done), Some(all)) = (commands(part), commands(whole)) else { return Some(of_part) };
    let for_host = |commands: &FlashCounters| {
        let operations = [FlashOperation::Program, FlashOperation::PartialProgram];
        operations.iter().map(|&it| commands.get(it, Cause::Host)).sum::<u64>() as f64
    };
    if done.total(FlashOperation::Erase) >= ERASED_ENOUGH || for_host(&all) == 0.0 {
        return Some(of_part);
    }
    Some(endurance.worn_between(whole.0, whole.1)? / for_host(&all) * for_host(&done))
}

/// YCSB over one candidate.
struct YcsbBench<'q> {
    ycsb: &'q YcsbChoice,
    question: &'q Question,
    candidate: &'q Candidate,
    /// Bytes of the data's drive.
    capacity: u64,
}

/// Bytes that a database of so many bytes of records takes, its log included.
fn database_bytes(record_bytes: u64) -> u128 {
    u128::from(record_bytes) * 100 / u128::from(FILL_PERCENT) + u128::from(LOG_BYTES)
}

impl Question {
    /// Bytes that the data take where they lie; at least 1.
    fn stored_bytes(&self) -> u128 {
        match self.load {
            Load::Ycsb(_) => database_bytes(self.data_bytes),
            Load::Trace(_) => u128::from(self.data_bytes).max(1),
        }
    }
}

impl YcsbChoice {
    /// Bytes that the database takes, its log included.
    fn load_bytes(&self) -> u64 {
        let bytes = database_bytes(self.record_bytes() * self.record_count);
        u64::try_from(bytes).unwrap_or(u64::MAX)
    }

    /// Bytes of a record.
    #[must_use]
    pub fn record_bytes(&self) -> u64 {
        FIELD_COUNT * u64::from(self.field_bytes)
    }

    const fn writes(&self) -> bool {
        !matches!(self.workload, WorkloadKind::C)
    }
}

impl YcsbBench<'_> {
    fn open(&self) -> Result<Database, String> {
        let fail = |error: &dyn std::fmt::Display| error.to_string();
        let Self { question, candidate, ycsb, capacity } = *self;
        let open = |profile: &Profile, capacity: u64, part: &str| {
            let seed = Rng::for_part(question.seed, part).next_u64();
            let options = SimOptions { capacity: Some(ByteCount(capacity)), seed, keep_data: true };
            let drive = profile.open(options).map_err(|error| fail(&error))?;
            DeviceVolume::format(drive).map_err(|error| fail(&error))
        };
        let data = Box::new(open(&candidate.data, capacity, "data")?);
        let log: Option<Box<dyn Volume>> = match &candidate.log {
            None => None,
            Some(profile) => Some(Box::new(open(profile, log_capacity(profile), "log")?)),
        };
        let bytes = ycsb.record_bytes() * ycsb.record_count;
        let pool = (bytes * u64::from(ycsb.memory_percent) / 100).max(64 * PAGE_BYTES);
        let settings = Settings {
            pool_bytes: pool,
            log_bytes: LOG_BYTES,
            checkpoint_bytes: LOG_BYTES / 4,
            ..Settings::default()
        };
        settings.check().map_err(|error| fail(&error))?;
        let database = Database::create(Volumes::new(data, log), &settings, question.seed);
        database.map_err(|error| fail(&error))
    }

    fn load_of(&self, part: &str) -> Ycsb {
        Ycsb {
            workload: self.ycsb.workload,
            key_choice: self.ycsb.workload.key_choice(),
            record_count: self.ycsb.record_count,
            field_bytes: self.ycsb.field_bytes,
            isolation: Isolation::default(),
            seed: Rng::for_part(self.question.seed, part).next_u64(),
        }
    }

    fn run(
        &self,
        database: &Database,
        (part, depth): (&str, u32),
        observer: &dyn RunObserver,
    ) -> Result<Outcome, String> {
        if observer.is_cancelled() {
            return Err(STOPPED.to_owned());
        }
        let plan = Plan {
            operation_count: self.ycsb.operation_count,
            client_count: depth,
            core_count: depth,
            processor_time: Nanos::ZERO,
            think_time: Nanos::ZERO,
            switch_kind: SwitchKind::default(),
        };
        let clock: Clock = Arc::new(|| unreachable!("a simulated drive has its own clock"));
        let load: Arc<dyn BenchLoad> = Arc::new(self.load_of(part).start());
        let watch = Arc::new(Watch::default());
        let outcome =
            run_watched(database, load, plan, (&watch, &clock), || !observer.is_cancelled());
        let outcome = outcome.map_err(|error| error.to_string())?;
        if outcome.was_stopped { Err(STOPPED.to_owned()) } else { Ok(outcome) }
    }

    fn points(&self, observer: &mut dyn RunObserver) -> Result<(Vec<Measuring>, bool), String> {
        let database = self.open()?;
        let loaded = self.load_of("load").load(&database, |_| !observer.is_cancelled());
        loaded.map_err(|error| error.to_string())?;
        database.drop_cached_pages().map_err(|error| error.to_string())?;
        let begin = counters_of(&database);
        let is_steady = self.age(&database, observer)?;
        let mut points = Vec::new();
        for (index, depth) in DEPTHS.into_iter().enumerate() {
            observer.progress(index as f64 / DEPTHS.len() as f64, "clients at work");
            let before = counters_of(&database);
            let outcome = self.run(&database, (&format!("{depth} clients"), depth), observer)?;
            points.push(self.point(depth, &outcome, (before, counters_of(&database))));
        }
        database.close().map_err(|error| error.to_string())?;
        tell_wear(&mut points, self.candidate, &begin);
        Ok((points, is_steady))
    }

    /// Runs the load until it has written as much to each drive of flash as that has; whether it did.
    fn age(&self, database: &Database, observer: &mut dyn RunObserver) -> Result<bool, String> {
        if !self.ycsb.writes() {
            return Ok(true);
        }
        let mut wanted = vec![Self::aging_bytes(&self.candidate.data, self.capacity)?];
        if let Some(log) = &self.candidate.log {
            wanted.push(Self::aging_bytes(log, log_capacity(log))?);
        }
        let begin = counters_of(database);
        for number in 0..=AGING_RUN_COUNT_MAX {
            let now = counters_of(database);
            let written = now
                .iter()
                .zip(&begin)
                .map(|(now, then)| now.writes.byte_count - then.writes.byte_count);
            let shares = written.zip(&wanted).map(|(written, &wanted)| match wanted {
                0 => 1.0,
                wanted => written as f64 / wanted as f64,
            });
            let done = shares.fold(1.0, f64::min);
            if done >= 1.0 {
                return Ok(true);
            }
            if number < AGING_RUN_COUNT_MAX {
                observer.progress(done, "aging");
                self.run(database, (&format!("aging {number}"), 16), observer)?;
            }
        }
        Ok(false)
    }

    /// Bytes that age such a drive of so many; none but flash ages.
    fn aging_bytes(profile: &Profile, capacity: u64) -> Result<u64, String> {
        let is_flash = profile.needs_filling().map_err(|error| error.to_string())?;
        Ok(if is_flash { capacity } else { 0 })
    }

    fn point(
        &self,
        depth: u32,
        outcome: &Outcome,
        (before, after): (Vec<Counters>, Vec<Counters>),
    ) -> Measuring {
        let seconds = outcome.elapsed_ns.max(1) as f64 / 1e9;
        let slowest = outcome.operations.iter().map(|operation| operation.latency_ns.p99).max();
        let point = Point {
            depth,
            operations_per_second: outcome.operations_per_second,
            p99_ns: slowest.unwrap_or_default(),
            watts: joules_between(&before, &after).map(|joules| joules / seconds),
            data_wear: None,
            log_wear: None,
        };
        let operations = outcome.operation_count.max(1) as f64;
        Measuring { point, writes: self.ycsb.writes(), operations, before, after }
    }
}

/// Bytes of the simulated drive of the log.
fn log_capacity(profile: &Profile) -> u64 {
    profile.geometry.capacity().0.min(4 * LOG_BYTES)
}

/// Of the data's drive, and of the log's if it has one.
fn counters_of(database: &Database) -> Vec<Counters> {
    let (data, log) = database.read().engine().device_counters();
    std::iter::once(data).chain(log).collect()
}

impl TraceLoad {
    /// Reads a trace once: how much it touches, and how fast it was.
    ///
    /// # Errors
    /// If it cannot be read, has no requests, or the run is stopped.
    pub fn read(
        path: PathBuf,
        options: TraceOptions,
        observer: &dyn RunObserver,
    ) -> Result<Self, ChooseError> {
        let options = TraceOptions {
            address_map: AddressMap::compact(),
            capacity_bytes: Some(TRACE_BYTES_MAX),
            ..options
        };
        let mut load = Self { path, options, touched_bytes: 0, request_count: 0, duration_ns: 0 };
        let mut source = open_trace(&load.path, &load.options, observer.stop_flag())?;
        let mut batch = Vec::new();
        loop {
            batch.clear();
            let read = source.next_batch(&mut batch, BATCH_COUNT);
            if observer.is_cancelled() {
                return Err(ChooseError::Stopped);
            }
            read?;
            let Some(last) = batch.last() else { break };
            load.duration_ns = last.at.0;
            load.request_count += batch.len() as u64;
            let ends = batch.iter().map(|request| request.offset_bytes + request.length_bytes);
            load.touched_bytes = load.touched_bytes.max(ends.max().unwrap_or_default());
        }
        if load.request_count == 0 || load.touched_bytes == 0 {
            let what =
                if load.request_count == 0 { "has no requests" } else { "asks for no bytes" };
            let what = format!("{} {what}", load.path.display());
            return Err(ChooseError::Question { what });
        }
        Ok(load)
    }

    /// Requests in a second, as they were recorded; `None` if it has no times.
    #[must_use]
    pub fn own_rate(&self) -> Option<f64> {
        (self.duration_ns > 0).then(|| self.request_count as f64 / (self.duration_ns as f64 / 1e9))
    }

    fn source(&self, observer: &dyn RunObserver) -> Result<Box<dyn RequestSource>, String> {
        open_trace(&self.path, &self.options, observer.stop_flag())
            .map_err(|error| error.to_string())
    }

    fn points(
        &self,
        question: &Question,
        (candidate, capacity): (&Candidate, u64),
        observer: &mut dyn RunObserver,
    ) -> Result<(Vec<Measuring>, bool), String> {
        let seed = Rng::for_part(question.seed, "data").next_u64();
        let options = SimOptions { capacity: Some(ByteCount(capacity)), seed, keep_data: false };
        let mut drive = candidate.data.open(options).map_err(|error| error.to_string())?;
        // What the trace touches is there before it, as it was where it was recorded.
        self.fill(drive.as_mut(), observer)?;
        let begin = drive.counters();
        let is_flash = candidate.data.needs_filling().map_err(|error| error.to_string())?;
        let is_steady = !is_flash || self.age(drive.as_mut(), capacity, observer)?;
        let mut points = Vec::new();
        for depth in DEPTHS {
            points.push(self.point(drive.as_mut(), depth, observer)?);
        }
        tell_wear(&mut points, candidate, &[begin]);
        Ok((points, is_steady))
    }

    /// Replays it until as much was written as the drive has, if it writes; whether that came.
    fn age(
        &self,
        drive: &mut dyn Device,
        capacity: u64,
        observer: &mut dyn RunObserver,
    ) -> Result<bool, String> {
        let before = drive.counters().writes.byte_count;
        for _ in 0..AGING_RUN_COUNT_MAX {
            self.point(&mut *drive, 16, observer)?;
            let written = drive.counters().writes.byte_count - before;
            if written == 0 || written >= capacity {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn fill(&self, drive: &mut dyn Device, observer: &mut dyn RunObserver) -> Result<(), String> {
        let sector_bytes = u64::from(drive.info().geometry.sector_bytes);
        let sectors = self.touched_bytes.div_ceil(sector_bytes);
        let sectors = sectors.min(drive.info().geometry.sector_count);
        let piece = (1 << 20) / sector_bytes;
        let mut first = 0;
        while first < sectors {
            observer.progress(first as f64 / sectors as f64, "filling");
            if observer.is_cancelled() {
                return Err(STOPPED.to_owned());
            }
            let count = piece.min(sectors - first);
            let request = Request::write(first, first, to_u32(count), None);
            drive.submit(drive.now(), request).map_err(|it| it.error.to_string())?;
            let done = drive.next_completion(Nanos::MAX).expect("one is in flight");
            done.result.map_err(|error| error.to_string())?;
            first += count;
        }
        Ok(())
    }

    /// Replays the trace with so many requests in flight.
    fn point(
        &self,
        drive: &mut dyn Device,
        depth: u32,
        observer: &mut dyn RunObserver,
    ) -> Result<Measuring, String> {
        let mut source = self.source(observer)?;
        let mut replay = Replay::new(drive, depth);
        let (before, begin) = (replay.drive.counters(), replay.drive.now());
        let mut batch = Vec::new();
        let wanted = self.request_count.min(TRACE_REQUEST_COUNT_MAX);
        while replay.count < wanted {
            observer.progress(replay.count as f64 / wanted as f64, "replaying");
            if observer.is_cancelled() {
                return Err(STOPPED.to_owned());
            }
            batch.clear();
            source.next_batch(&mut batch, BATCH_COUNT).map_err(|error| error.to_string())?;
            if batch.is_empty() {
                break;
            }
            for request in &batch {
                replay.ask(request)?;
            }
        }
        while replay.wait()? {}
        if replay.served_count == 0 {
            return Err("it serves none of the trace's requests, which are trims".to_owned());
        }
        let (count, p99_ns) = (replay.count as f64, replay.latencies.summary().p99);
        let (after, end) = (drive.counters(), drive.now());
        let seconds = end.saturating_sub(begin).0.max(1) as f64 / 1e9;
        let writes = after.writes.byte_count > before.writes.byte_count;
        let point = Point {
            depth,
            operations_per_second: count / seconds,
            p99_ns,
            watts: joules_between(&[before], &[after]).map(|joules| joules / seconds),
            data_wear: None,
            log_wear: None,
        };
        Ok(Measuring { point, writes, operations: count, before: vec![before], after: vec![after] })
    }
}

/// A trace on its way through a drive.
struct Replay<'d> {
    drive: &'d mut dyn Device,
    geometry: Geometry,
    depth: u32,
    can_trim: bool,
    /// Requests of the trace, and those of them that went to the drive: all but trims that it has not.
    count: u64,
    served_count: u64,
    latencies: LatencyHistogram,
}

impl<'d> Replay<'d> {
    fn new(drive: &'d mut dyn Device, depth: u32) -> Self {
        let info = drive.info();
        let (geometry, can_trim) = (info.geometry, info.supports_trim);
        let depth = depth.min(info.queue_depth_max);
        let latencies = LatencyHistogram::default();
        Self { drive, geometry, depth, can_trim, count: 0, served_count: 0, latencies }
    }

    /// Waits until there is room for one more request, and issues it.
    fn ask(&mut self, request: &TraceRequest) -> Result<(), String> {
        while self.drive.in_flight() >= self.depth {
            self.wait()?;
        }
        self.count += 1;
        let sector_bytes = u64::from(self.geometry.sector_bytes);
        let first = (request.offset_bytes / sector_bytes).min(self.geometry.sector_count - 1);
        let end = (request.offset_bytes + request.length_bytes).div_ceil(sector_bytes);
        let end = end.clamp(first + 1, self.geometry.sector_count);
        let count = to_u32(to_index(end - first) as u64);
        let id = self.count;
        let request = match request.operation {
            Operation::Read => Request::read(id, first, count, None),
            Operation::Write => Request::write(id, first, count, None),
            Operation::Trim if self.can_trim => Request::trim(id, first, count),
            Operation::Trim => return Ok(()),
            Operation::Flush => Request::flush(id),
        };
        self.served_count += 1;
        self.drive.submit(self.drive.now(), request).map_err(|it| it.error.to_string())
    }

    /// Waits for one request; false if none is in flight.
    fn wait(&mut self) -> Result<bool, String> {
        let Some(done) = self.drive.next_completion(Nanos::MAX) else { return Ok(false) };
        done.result.map_err(|error| error.to_string())?;
        self.latencies.record(done.completed_at.saturating_sub(done.issued_at));
        Ok(true)
    }
}
