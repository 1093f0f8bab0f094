//! A load on one candidate, by how much is asked at once.
//!
//! ```text
//!   YCSB    a database of `record_count` on a drive scaled so that it is as full as the whole one would be;
//!           1, 4, 16 and 64 clients, one number after the other
//!   trace   requests as fast as the drive takes them, 1, 4, 16 and 64 in flight
//! ```
//!
//! 1. A flash drive is measured when it cleans: before the first point as much was written as the scaled drive
//!    has, if the load writes; where that would take too long, `is_steady` is false.
//! 2. A scaled drive that has more spare flash for its size than the whole one is told by `is_as_full`.

use super::{Candidate, ChooseError, Question};
use crate::run::RunObserver;
use nandu_base::{ByteCount, LatencyHistogram, Nanos, Rng, to_index, to_u32};
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
    /// Watts without work, where the drives have a model of it.
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

/// Watts of drives of so many bytes that nobody asks anything.
fn idle_watts(candidate: &Candidate, simulated_bytes: u64) -> Option<f64> {
    let watts = |profile: &Profile| {
        let capacity = ByteCount(simulated_bytes.min(profile.geometry.capacity().0));
        let options =
            SimOptions { capacity: Some(capacity), keep_data: false, ..SimOptions::default() };
        let mut drive = profile.open(options).ok()?;
        let before = drive.counters();
        let now = drive.now();
        drive.idle_until(now + Nanos::from_seconds(1));
        joules_between(&[before], &[drive.counters()])
    };
    let data = watts(&candidate.data)?;
    candidate.log.as_ref().map_or(Some(data), |log| Some(data + watts(log)?))
}

/// How many drives the data take.
pub(super) fn drives_for_data(question: &Question, profile: &Profile) -> u64 {
    question.data_bytes.div_ceil(profile.geometry.capacity().0.max(1)).max(1)
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
    let wanted = u128::from(load_bytes).saturating_mul(all) / u128::from(question.data_bytes);
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
        Load::Trace(trace) => {
            trace.points(question, (&candidate.data, simulated_bytes), observer)?
        }
    };
    let drives = || std::iter::once(&candidate.data).chain(&candidate.log);
    let writes = points.iter().any(|measuring| measuring.writes);
    Ok(Measured {
        is_steady,
        is_as_full: !writes || is_as_full(&candidate.data, simulated_bytes),
        is_wear_known: !writes || drives().all(|drive| Endurance::of(drive).is_known()),
        idle_watts: idle_watts(candidate, simulated_bytes),
        points: points.into_iter().map(|measuring| measuring.point).collect(),
        drive_count,
        simulated_bytes,
    })
}

/// A point, and whether something was written.
struct Measuring {
    point: Point,
    writes: bool,
}

/// YCSB over one candidate.
struct YcsbBench<'q> {
    ycsb: &'q YcsbChoice,
    question: &'q Question,
    candidate: &'q Candidate,
    /// Bytes of the data's drive.
    capacity: u64,
}

impl YcsbChoice {
    /// Bytes that the database takes, its log included.
    fn load_bytes(&self) -> u64 {
        self.record_bytes() * self.record_count * 100 / FILL_PERCENT + LOG_BYTES
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
            Some(profile) => {
                let whole = profile.geometry.capacity().0;
                Some(Box::new(open(profile, whole.min(4 * LOG_BYTES), "log")?))
            }
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
        let is_steady = self.age(&database, observer)?;
        let mut points = Vec::new();
        for (index, depth) in DEPTHS.into_iter().enumerate() {
            observer.progress(index as f64 / DEPTHS.len() as f64, "clients at work");
            let before = counters_of(&database);
            let outcome = self.run(&database, (&format!("{depth} clients"), depth), observer)?;
            points.push(self.point(depth, &outcome, (&before, &counters_of(&database))));
        }
        database.close().map_err(|error| error.to_string())?;
        Ok((points, is_steady))
    }

    /// Runs the load until it has written as much as the drive has; whether it did.
    fn age(&self, database: &Database, observer: &mut dyn RunObserver) -> Result<bool, String> {
        let is_flash = self.candidate.data.needs_filling().map_err(|error| error.to_string())?;
        if !self.ycsb.writes() || !is_flash {
            return Ok(true);
        }
        let mut written_bytes = 0;
        for number in 0..AGING_RUN_COUNT_MAX {
            observer.progress((written_bytes as f64 / self.capacity as f64).min(1.0), "aging");
            written_bytes +=
                self.run(database, (&format!("aging {number}"), 16), observer)?.written_bytes;
            if written_bytes >= self.capacity {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn point(
        &self,
        depth: u32,
        outcome: &Outcome,
        (before, after): (&[Counters], &[Counters]),
    ) -> Measuring {
        let operations = outcome.operation_count.max(1) as f64;
        let seconds = outcome.elapsed_ns.max(1) as f64 / 1e9;
        let wear = |index: usize, profile: &Profile| {
            let (before, after) = (before.get(index)?, after.get(index)?);
            Some(Endurance::of(profile).worn_between(before, after)? / operations)
        };
        let slowest = outcome.operations.iter().map(|operation| operation.latency_ns.p99).max();
        let point = Point {
            depth,
            operations_per_second: outcome.operations_per_second,
            p99_ns: slowest.unwrap_or_default(),
            watts: joules_between(before, after).map(|joules| joules / seconds),
            data_wear: wear(0, &self.candidate.data),
            log_wear: self.candidate.log.as_ref().and_then(|log| wear(1, log)),
        };
        Measuring { point, writes: self.ycsb.writes() }
    }
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
            let what = format!("{} has no requests", load.path.display());
            return Err(ChooseError::Question { what });
        }
        Ok(load)
    }

    /// Requests in a second, as they were recorded, rounded up; `None` if it has no times.
    #[must_use]
    pub fn own_rate(&self) -> Option<u64> {
        if self.duration_ns == 0 {
            return None;
        }
        let requests = u128::from(self.request_count) * 1_000_000_000;
        u64::try_from(requests.div_ceil(u128::from(self.duration_ns))).ok()
    }

    fn source(&self, observer: &dyn RunObserver) -> Result<Box<dyn RequestSource>, String> {
        open_trace(&self.path, &self.options, observer.stop_flag())
            .map_err(|error| error.to_string())
    }

    fn points(
        &self,
        question: &Question,
        (profile, capacity): (&Profile, u64),
        observer: &mut dyn RunObserver,
    ) -> Result<(Vec<Measuring>, bool), String> {
        let seed = Rng::for_part(question.seed, "data").next_u64();
        let options = SimOptions { capacity: Some(ByteCount(capacity)), seed, keep_data: false };
        let mut drive = profile.open(options).map_err(|error| error.to_string())?;
        // What the trace touches is there before it, as it was where it was recorded.
        self.fill(drive.as_mut(), observer)?;
        let is_steady = self.age((drive.as_mut(), profile), capacity, observer)?;
        let mut points = Vec::new();
        for depth in DEPTHS {
            points.push(self.point((drive.as_mut(), profile), depth, observer)?);
        }
        Ok((points, is_steady))
    }

    /// Replays it until as much was written as the drive has, if it writes; whether that came.
    fn age(
        &self,
        (drive, profile): (&mut dyn Device, &Profile),
        capacity: u64,
        observer: &mut dyn RunObserver,
    ) -> Result<bool, String> {
        if !profile.needs_filling().map_err(|error| error.to_string())? {
            return Ok(true);
        }
        let before = drive.counters().writes.byte_count;
        for _ in 0..AGING_RUN_COUNT_MAX {
            self.point((&mut *drive, profile), 16, observer)?;
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
        (drive, profile): (&mut dyn Device, &Profile),
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
        let (count, p99_ns) = (replay.count.max(1) as f64, replay.latencies.summary().p99);
        let (after, end) = (drive.counters(), drive.now());
        let seconds = end.saturating_sub(begin).0.max(1) as f64 / 1e9;
        let writes = after.writes.byte_count > before.writes.byte_count;
        let point = Point {
            depth,
            operations_per_second: count / seconds,
            p99_ns,
            watts: joules_between(&[before], &[after]).map(|joules| joules / seconds),
            data_wear: Endurance::of(profile)
                .worn_between(&before, &after)
                .map(|wear| wear / count),
            log_wear: None,
        };
        Ok(Measuring { point, writes })
    }
}

/// A trace on its way through a drive.
struct Replay<'d> {
    drive: &'d mut dyn Device,
    geometry: Geometry,
    depth: u32,
    can_trim: bool,
    count: u64,
    latencies: LatencyHistogram,
}

impl<'d> Replay<'d> {
    fn new(drive: &'d mut dyn Device, depth: u32) -> Self {
        let info = drive.info();
        let (geometry, can_trim) = (info.geometry, info.supports_trim);
        let depth = depth.min(info.queue_depth_max);
        Self { drive, geometry, depth, can_trim, count: 0, latencies: LatencyHistogram::default() }
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
