//! Devices of a log, by how many clients commit: S003's question whether records should go to a memory
//! directly, or by way of a buffer that is forced.
//!
//! ```text
//!   pages ──► a drive that costs next to nothing        [measure.variants.NAME]
//!   log ────► the drive that is measured                drives = [ … ]   those it is for; absent: all
//!                                                       set = { log_writing = "direct", … }
//! ```
//!
//! One step for each drive and variant. Clients update records of a table in memory, drawn uniformly, each in a
//! transaction of its own, and never think. Series by the number of clients:
//!
//! - `DRIVE.VARIANT.commits_s`, `.mean_us`, `.p99_us`: how many, and what one takes;
//! - `.gain`: the rate over that of the first number of clients; `.group`: commits for each flush;
//! - `.log_bytes`, `.device_bytes`: what a commit adds to the log, and what goes to its device;
//!
//! and of a memory that wears out:
//!
//! - `.lines`: lines that a commit writes; `.life_years`: how long the memory lives at that rate, if its lines
//!   wear alike, as long as the log is; `.form_life_years`: the same by the closed form;
//! - `.hottest_life_years`: how long until the line has worn out that is written most.
//!
//! And one step for each drive alone: `DRIVE.sync_us`, a write of one sector and a flush, one after the other
//! and behind each other; at one point, 1, beside which closed forms stand (`forms.rs`): `DRIVE.VARIANT.form_us`
//! of a commit by one client on lines, `.form_commits_s` of any number on others.
//!
//! 1. Time of the processor is none: what is told is the device's and what clients wait for each other.
//! 2. Clients of a step come one number after the other to one database. The first of them write the log for the
//!    first time, before which the volume has zeros go: those are in `.device_bytes`, `.lines` and the form.

mod forms;

use super::Measurement;
use super::bench::Bench;
use super::drive::DriveVariant;
use super::engine_set::EngineSet;
use super::site::{EngineVariant, cancelled, check_cancelled, fill};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_bench::ycsb::{KeyChoice, WorkloadKind, Ycsb};
use nandu_bench::{BenchError, Clock, Load, Outcome, Plan, SwitchKind, Watch};
use nandu_device::{Device, Request};
use nandu_drives::profile::{DriveConfig, Profile, SimOptions};
use nandu_drives::worth::YEAR_SECONDS;
use nandu_probe::text;
use nandu_storage::database::Isolation;
use nandu_storage::log::LogWritingKind;
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{Database, Settings, StorageError, Volumes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the pages lie.
const DATA_DRIVE: &str = "dram-like";
const DATA_BYTES: u64 = 256 << 20;
/// A drive of a log is scaled to so many times the log, and this at least.
const LOG_CAPACITY_FACTOR: u64 = 4;
const LOG_CAPACITY_MIN: u64 = 64 << 20;
const PAGE_BYTES: u32 = 4096;
/// Memory of the pool: all records stay there.
const POOL_BYTES: u64 = 64 << 20;
/// Syncs of a drive alone.
const SYNC_COUNT: u64 = 200;
/// Updates of a client, at least.
const UPDATE_COUNT_MIN: u64 = 10;
const CLIENT_COUNT_MAX: u32 = 1000;

/// The keys of an experiment of the kind `log_devices`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogDevices {
    /// What the log lies on.
    pub drives: BTreeMap<String, DriveVariant>,
    /// How the engine writes it.
    pub variants: BTreeMap<String, LogVariant>,
    /// Records that are loaded.
    pub record_count: u64,
    /// Bytes of each of a record's ten fields.
    pub field_bytes: u32,
    /// Capacity of the log; there is a checkpoint after an eighth of it.
    #[serde(deserialize_with = "text::size")]
    pub log: ByteCount,
    /// How many clients, rising.
    pub clients: Vec<u32>,
    /// Operations of all clients of a point together; half of them are updates, the others read.
    pub operation_count: u64,
}

/// How the engine writes its log.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LogVariant {
    /// The drives that it is for; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drives: Option<Vec<String>>,
    /// Settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// A step: a drive alone, or a variant on it.
type Step<'a> = (&'a str, &'a DriveVariant, Option<(&'a str, &'a LogVariant)>);

/// What one point found, in the order of the series.
struct Point {
    clients: f64,
    values: Vec<f64>,
}

/// What the points of a variant are compared with.
struct Beside {
    writing: LogWritingKind,
    sync_us: f64,
    lines: Option<Lines>,
    /// The rate of the first point.
    first_rate: Option<f64>,
    /// How often the line had been written that was written most.
    most_before: f64,
}

/// The figures of a memory that is written by lines.
#[derive(Clone, Copy)]
struct Lines {
    line_bytes: f64,
    line_us: f64,
    fence_us: f64,
    /// It wears out after so many writes of a line.
    endurance_writes: Option<f64>,
}

impl Lines {
    fn of(profile: &Profile) -> Option<Self> {
        let DriveConfig::Scm(config) = &profile.drive else { return None };
        Some(Self {
            line_bytes: f64::from(config.line_bytes),
            line_us: config.write_line_ns.0 as f64 / 1e3,
            fence_us: config.overhead_ns.0 as f64 / 1e3,
            endurance_writes: config.endurance_writes.map(|writes| writes as f64),
        })
    }
}

impl LogVariant {
    fn engine(&self, log: ByteCount) -> EngineVariant {
        let settings = Settings::default();
        let torn_pages = nandu_storage::engine::TornPages::Trust;
        let variant = EngineVariant::new(true, settings.durability, torn_pages);
        EngineVariant { log, set: self.set.clone(), ..variant }
    }

    fn settings(&self, log: ByteCount) -> Settings {
        self.engine(log).settings(PAGE_BYTES, POOL_BYTES)
    }

    fn is_for(&self, drive: &str) -> bool {
        self.drives.as_ref().is_none_or(|drives| drives.iter().any(|name| name == drive))
    }
}

impl LogDevices {
    fn each_step(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        for (name, drive) in &self.drives {
            steps.push((name.as_str(), drive, None));
            let variants = self.variants.iter().filter(|(_, variant)| variant.is_for(name));
            steps.extend(variants.map(|(variant_name, variant)| {
                (name.as_str(), drive, Some((variant_name.as_str(), variant)))
            }));
        }
        steps
    }

    fn series_of(&self, (name, drive, variant): Step<'_>) -> Vec<Series> {
        let Some((variant_name, variant)) = variant else {
            return vec![Series::new(format!("{name}.sync_us"), "", "us")];
        };
        let of = |suffix: &str, unit: &str| {
            Series::new(format!("{name}.{variant_name}.{suffix}"), "", unit)
        };
        let mut series = vec![
            of("commits_s", "1/s"),
            of("mean_us", "us"),
            of("p99_us", "us"),
            of("gain", ""),
            of("group", ""),
            of("log_bytes", "B"),
            of("device_bytes", "B"),
        ];
        let lines = drive.profile(name).ok().as_ref().and_then(Lines::of);
        match variant.settings(self.log).log_writing {
            LogWritingKind::Direct if lines.is_some() => series.push(of("form_us", "us")),
            LogWritingKind::Direct => {}
            LogWritingKind::Buffered => series.push(of("form_commits_s", "1/s")),
        }
        if lines.is_some_and(|lines| lines.endurance_writes.is_some()) {
            series.extend([
                of("lines", ""),
                of("life_years", "a"),
                of("form_life_years", "a"),
                of("hottest_life_years", "a"),
            ]);
        }
        series
    }

    /// A fresh drive for a log, written full if it needs that.
    fn open(
        &self,
        bench: &mut Bench<'_>,
        step: &str,
        profile: &Profile,
    ) -> Result<Box<dyn Device + Send>, LabError> {
        let error = |why: String| LabError::step(step, &why);
        let wanted = self.log.0.saturating_mul(LOG_CAPACITY_FACTOR).max(LOG_CAPACITY_MIN);
        let capacity = Some(ByteCount(wanted).min(profile.geometry.capacity()));
        let seed = Rng::for_part(bench.seed, step).next_u64();
        let options = SimOptions { capacity, seed, keep_data: true };
        let mut device = profile.open(options).map_err(|wrong| error(wrong.to_string()))?;
        if profile.needs_filling().map_err(|wrong| error(wrong.to_string()))? {
            fill(&mut *device, step, bench.observer)?;
        }
        Ok(device)
    }

    /// What one write of a sector and a flush take, behind each other.
    fn sync_us(
        &self,
        bench: &mut Bench<'_>,
        step: &str,
        profile: &Profile,
    ) -> Result<f64, LabError> {
        let mut device = self.open(bench, step, profile)?;
        let start = device.idle_until(device.now());
        for sector in 0..SYNC_COUNT {
            for request in [Request::write(sector, sector, 1, None), Request::flush(sector)] {
                let now = device.now();
                let refused = |rejected: nandu_device::Rejected| rejected.error.to_string();
                let submitted = device.submit(now, request).map_err(refused);
                submitted.map_err(|why| LabError::step(step, &why))?;
                device.next_completion(Nanos::MAX).expect("a request is in flight");
            }
        }
        Ok((device.now() - start).0 as f64 / 1e3 / SYNC_COUNT as f64)
    }

    /// All points of a variant on a drive, over one database.
    fn measure(
        &self,
        bench: &mut Bench<'_>,
        step: &str,
        (name, drive, variant): (&str, &DriveVariant, &LogVariant),
    ) -> Result<Vec<Point>, LabError> {
        let wrong = |why: String| LabError::step(step, &why);
        let error = |error: StorageError| LabError::step(step, &error);
        let profile = drive.profile(name).map_err(wrong)?;
        let lines = Lines::of(&profile);
        let sync_us = self.sync_us(bench, step, &profile)?;
        let log = self.open(bench, step, &profile)?;
        let data = Profile::load(DATA_DRIVE).map_err(|error| wrong(error.to_string()))?;
        let capacity = Some(ByteCount(DATA_BYTES));
        let options = SimOptions { capacity, seed: bench.seed, keep_data: true };
        let data = data.open(options).map_err(|error| wrong(error.to_string()))?;
        let volume = |device| DeviceVolume::format(device).map_err(error);
        let (data, log) = (Box::new(volume(data)?), Box::new(volume(log)?));
        let settings = variant.settings(self.log);
        let seed = Rng::for_part(bench.seed, "clients").next_u64();
        let volumes = Volumes::new(data, Some(log));
        let database = Database::create(volumes, &settings, seed).map_err(error)?;
        let loaded = self.ycsb(seed).load(&database, |_| !bench.observer.is_cancelled());
        if loaded.map_err(error)?.is_none() {
            return Err(cancelled());
        }
        let writing = settings.log_writing;
        let most_before = most_written(&database);
        let mut beside = Beside { writing, sync_us, lines, first_rate: None, most_before };
        let mut points = Vec::new();
        for &client_count in &self.clients {
            check_cancelled(bench)?;
            let ycsb = self.ycsb(Rng::for_part(seed, &format!("{client_count}")).next_u64());
            let outcome = at_work(&database, &ycsb, self.plan(client_count));
            let outcome = outcome.map_err(|error| LabError::step(step, &error))?;
            let clients = f64::from(client_count);
            let values = self.tell(&outcome, clients, &beside);
            beside.first_rate.get_or_insert(values[0]);
            beside.most_before = most_written(&database);
            points.push(Point { clients, values });
        }
        database.close().map_err(error)?;
        Ok(points)
    }

    fn plan(&self, client_count: u32) -> Plan {
        Plan {
            operation_count: self.operation_count,
            client_count,
            core_count: client_count,
            processor_time: Nanos::ZERO,
            think_time: Nanos::ZERO,
            switch_kind: SwitchKind::default(),
        }
    }

    fn ycsb(&self, seed: u64) -> Ycsb {
        Ycsb {
            workload: WorkloadKind::A,
            key_choice: KeyChoice::Uniform,
            record_count: self.record_count,
            field_bytes: self.field_bytes,
            isolation: Isolation::default(),
            seed,
        }
    }

    /// What a run has in the series of its step, in their order.
    fn tell(&self, outcome: &Outcome, clients: f64, beside: &Beside) -> Vec<f64> {
        let updates = outcome.operations.iter().find(|kind| kind.kind == "update");
        let latency = &updates.expect("half of the operations are updates").latency_ns;
        let log = outcome.log_device.expect("the log has a device of its own");
        let (count, seconds) = (latency.count as f64, outcome.elapsed_ns as f64 / 1e9);
        let rate = count / seconds;
        let device_bytes = log.written_bytes as f64 / count;
        let mut values = vec![
            rate,
            latency.mean / 1e3,
            latency.p99 as f64 / 1e3,
            rate / beside.first_rate.unwrap_or(rate),
            count / log.flush_count as f64,
            outcome.log_bytes as f64 / count,
            device_bytes,
        ];
        match (beside.writing, beside.lines) {
            (LogWritingKind::Direct, Some(lines)) => {
                // One line of them is the commit's.
                let record_lines = device_bytes / lines.line_bytes - 1.0;
                values.push(forms::direct_us(record_lines, lines.line_us, lines.fence_us));
            }
            (LogWritingKind::Direct, None) => {}
            (LogWritingKind::Buffered, _) => {
                values.push(forms::group_rate(clients, beside.sync_us));
            }
        }
        let worn = beside.lines.and_then(|lines| Some((lines, lines.endurance_writes?)));
        if let (Some((lines, endurance)), Some(written)) = (worn, log.line_write_count) {
            let written = written as f64;
            let log_bytes = self.log.0 as f64;
            let most = log.most_written_count.unwrap_or(0) as f64 - beside.most_before;
            values.extend([
                written / count,
                endurance * log_bytes / lines.line_bytes / written * seconds / YEAR_SECONDS,
                forms::life_years(log_bytes, outcome.log_bytes as f64 / seconds, endurance),
                endurance / most.max(1.0) * seconds / YEAR_SECONDS,
            ]);
        }
        values
    }
}

/// How often the line of the log's device was written that was written most, if it counts that.
fn most_written(database: &Database) -> f64 {
    let (_, log) = database.read().engine().device_counters();
    log.and_then(|log| log.lines).map_or(0.0, |lines| lines.most_written_count as f64)
}

/// Has clients do what `plan` says.
fn at_work(database: &Database, ycsb: &Ycsb, plan: Plan) -> Result<Outcome, BenchError> {
    let load: Arc<dyn Load> = Arc::new(ycsb.start());
    let clock: Clock = Arc::new(|| unreachable!("a simulated drive has its own clock"));
    nandu_bench::run(database, &load, &plan, &Arc::new(Watch::default()), &clock)
}

impl Measurement for LogDevices {
    fn check(&self) -> Result<(), String> {
        if self.drives.is_empty() || self.variants.is_empty() {
            return Err("`drives` or `variants` is empty; name at least one of each".into());
        }
        for (name, drive) in &self.drives {
            drive.profile(name)?;
        }
        let rises = self.clients.windows(2).all(|pair| pair[0] < pair[1]);
        let is_count = |count: &u32| (1..=CLIENT_COUNT_MAX).contains(count);
        if self.clients.is_empty() || !rises || !self.clients.iter().all(is_count) {
            return Err(format!("`clients` must rise, from 1 to {CLIENT_COUNT_MAX}"));
        }
        let most = u64::from(self.clients.last().copied().unwrap_or(1));
        if self.operation_count < 2 * UPDATE_COUNT_MIN * most {
            let least = 2 * UPDATE_COUNT_MIN * most;
            return Err(format!("`operation_count` must be {least} for so many clients"));
        }
        if self.record_count == 0 || !(1..=65_536).contains(&self.field_bytes) {
            return Err("`record_count` must be above 0, and `field_bytes` 1 to 65536".into());
        }
        for (name, variant) in &self.variants {
            let unknown = variant.drives.iter().flatten().find(|it| !self.drives.contains_key(*it));
            if let Some(unknown) = unknown {
                return Err(format!("variant `{name}` is for `{unknown}`, which is no drive here"));
            }
            let own = [("pool_bytes", "record_count"), ("log_bytes", "log")];
            variant.engine(self.log).check([PAGE_BYTES], &own)?;
            variant.settings(self.log).check().map_err(|error| format!("`log`: {error}"))?;
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        let own = self.drives.values().map(|drive| drive.base.clone());
        own.chain([format!("sim:{DATA_DRIVE}")]).collect()
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        let (_, drive, _) = self.each_step()[index];
        vec![drive.base.clone(), format!("sim:{DATA_DRIVE}")]
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.each_step().into_iter().flat_map(|step| self.series_of(step));
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        let label = |(drive, _, variant): Step<'_>| match variant {
            None => format!("{drive} alone"),
            Some((name, _)) => format!("{drive} {name}"),
        };
        self.each_step().into_iter().map(label).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        check_cancelled(bench)?;
        let steps = self.each_step();
        let (name, drive, variant) = steps[index];
        let step = &self.steps()[index];
        let mut series = self.series_of(steps[index]);
        let Some((_, variant)) = variant else {
            let profile = drive.profile(name).map_err(|error| LabError::step(step, &error))?;
            series[0].points.push((1.0, self.sync_us(bench, step, &profile)?));
            return Ok(series);
        };
        for point in self.measure(bench, step, (name, drive, variant))? {
            assert_eq!(point.values.len(), series.len(), "each series has its value");
            for (series, value) in series.iter_mut().zip(&point.values) {
                series.points.push((point.clients, *value));
            }
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests;
