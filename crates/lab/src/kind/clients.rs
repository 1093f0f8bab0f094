//! Many clients over one database, by how many they are: one of YCSB's workloads on a simulated drive, beside
//! what the drive does with as many reads of pages in flight.
//!
//! ```text
//!   [measure.variants.NAME]
//!   cores = 2              how many clients compute at once; absent: all of them
//!   processor = "50us"     what an operation takes of a core; absent: no time
//!   set = { … }            settings of the engine
//! ```
//!
//! One step for each drive and one for each drive and variant, with series by the number of clients:
//!
//! - `DRIVE.page_reads_s`: random reads of pages in a second, as many in flight as there are clients;
//! - `DRIVE.VARIANT.operations_s`, `.mean_us`, `.misses` (pages that an operation has to read) and `.retries`
//!   (transactions that were done again, for an operation);
//!
//! and where an operation takes time of a core, two by which to judge that:
//!
//! - `DRIVE.VARIANT.bound_s`: what clients that never wait for each other could do, or all cores if that is
//!   less: the asymptotes of a closed network (Denning and Buzen, ACM Computing Surveys 10(3), 1978), with the
//!   latency of one page read at a time;
//! - `DRIVE.VARIANT.bend` and `.expected_bend`, one point at 0: how many clients it takes at the rate of one
//!   alone to reach the largest rate that was measured; and where the asymptotes meet, cores x (latency +
//!   processor) / processor.
//!
//! 1. The clients of a step come one number after the other to one database: what they change and leave in
//!    the pool, those after them find. Each time they draw other records.
//! 2. Before the first, as many as these do what nobody counts, so that inner pages are in the pool.

use super::Measurement;
use super::bench::{AccessPattern, Bench, LOCAL, PointOrder, Scale, check_processor};
use super::engine_set::EngineSet;
use super::site::{
    EngineVariant, Site, SiteDrive, SiteDrives, cancelled, check_cancelled, check_drives,
    step_targets, targets,
};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_bench::ycsb::{KeyChoice, WorkloadKind, Ycsb};
use nandu_bench::{BenchError, Clock, Load, Outcome, Plan, SwitchKind, Watch};
use nandu_probe::text;
use nandu_storage::database::Isolation;
use nandu_storage::{Database, Settings, StorageError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Pages unless `set` says otherwise.
const PAGE_BYTES: u32 = 4096;
/// Operations of a client, at least.
const OPERATION_COUNT_MIN: u64 = 10;
/// The most clients: more than this many waiting for one drive is no question of it.
const CLIENT_COUNT_MAX: u32 = 10_000;

/// The keys of an experiment of the kind `clients`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Clients {
    /// What the database lies on.
    pub drives: SiteDrives,
    /// On how many cores they compute, for how long, with which settings of the engine.
    pub variants: BTreeMap<String, ClientsVariant>,
    /// Which mix of operations.
    pub workload: WorkloadKind,
    /// How records are drawn; the workload's own way if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub distribution: Option<KeyChoice>,
    /// Records that are loaded.
    pub record_count: u64,
    /// Bytes of each of a record's ten fields.
    pub field_bytes: u32,
    /// Memory of the pool.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// How many clients, rising.
    pub clients: Vec<u32>,
    /// Operations of all clients of a point together.
    pub operation_count: u64,
}

/// What a client's operation waits for beside the drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ClientsVariant {
    /// How many clients compute at once; all of them if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<u32>,
    /// What an operation takes of a core; no time if absent.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "text::optional_duration"
    )]
    pub processor: Option<Nanos>,
    /// Settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

/// What one point found.
struct Point {
    client_count: u32,
    rate: f64,
    mean_us: f64,
    misses: f64,
    retries: f64,
}

impl ClientsVariant {
    /// The engine as it is, but for what is set.
    fn settings(&self, memory: ByteCount) -> Settings {
        self.engine().settings(PAGE_BYTES, memory.0)
    }

    fn engine(&self) -> EngineVariant {
        EngineVariant::writing(&self.set)
    }

    /// Cores, and what an operation takes of one, where both bound the rate.
    fn bound(&self) -> Option<(f64, f64)> {
        let processor = self.processor.filter(|time| *time > Nanos::ZERO)?;
        Some((f64::from(self.cores?), processor.as_seconds_f64()))
    }

    fn series_of(&self, stem: &str) -> Vec<Series> {
        let of = |suffix: &str, unit: &str| Series::new(format!("{stem}.{suffix}"), "", unit);
        let mut series = vec![
            of("operations_s", "1/s"),
            of("mean_us", "us"),
            of("misses", ""),
            of("retries", ""),
        ];
        if self.bound().is_some() {
            series.extend([of("bound_s", "1/s"), of("bend", ""), of("expected_bend", "")]);
        }
        series
    }

    /// The series of `points`, on a drive that reads so many pages in a second one at a time.
    fn tell(&self, stem: &str, points: &[Point], page_rate: f64) -> Vec<Series> {
        let mut all = self.series_of(stem);
        for point in points {
            let x = f64::from(point.client_count);
            let values = [point.rate, point.mean_us, point.misses, point.retries];
            for (series, value) in all.iter_mut().zip(values) {
                series.points.push((x, value));
            }
        }
        let [.., bounds, bend, expected] = &mut all[..] else { return all };
        let (Some((cores, processor)), Some(first)) = (self.bound(), points.first()) else {
            return all;
        };
        let alone = |misses: f64| misses / page_rate + processor;
        for point in points {
            let clients = f64::from(point.client_count);
            bounds.points.push((clients, (clients / alone(point.misses)).min(cores / processor)));
        }
        if first.client_count == 1 {
            let most = points.iter().map(|point| point.rate).fold(0.0, f64::max);
            bend.points.push((0.0, most / first.rate));
            expected.points.push((0.0, cores * alone(first.misses) / processor));
        }
        all
    }
}

/// A step: the reads of pages of a drive, or the clients of a variant on it.
type Step<'a> = (&'a str, &'a SiteDrive, Option<(&'a str, &'a ClientsVariant)>);

impl Clients {
    fn each_step(&self) -> Vec<Step<'_>> {
        let mut steps = Vec::new();
        for (name, drive) in &self.drives {
            steps.push((name.as_str(), drive, None));
            let variants = self.variants.iter();
            steps.extend(
                variants.map(|(variant, order)| {
                    (name.as_str(), drive, Some((variant.as_str(), order)))
                }),
            );
        }
        steps
    }

    fn check_variant(&self, name: &str, variant: &ClientsVariant) -> Result<(), String> {
        let is_count = |cores: u32| (1..=CLIENT_COUNT_MAX).contains(&cores);
        if variant.cores.is_some_and(|cores| !is_count(cores)) {
            return Err(format!("`cores` of variant `{name}` is not from 1 to {CLIENT_COUNT_MAX}"));
        }
        check_processor(variant.processor, self.operation_count)?;
        let own = [("pool_bytes", "memory")];
        variant.engine().check_with_media(PAGE_BYTES, &own)?;
        variant.settings(self.memory).check().map_err(|error| format!("`memory`: {error}"))
    }

    /// Page reads in a second on a fresh drive, so many at a time.
    fn page_rate(
        &self,
        bench: &mut Bench<'_>,
        step: &str,
        (name, drive): (&str, &SiteDrive),
        (page_bytes, depth): (u32, u32),
    ) -> Result<f64, LabError> {
        let profile = drive.profile(name).map_err(|error| LabError::step(step, &error))?;
        let capacity = drive.capacity.unwrap_or(profile.geometry.capacity());
        let disk_capacity = drive.capacity;
        let scale = Scale { disk_capacity, ..Scale::of_simulated(capacity, self.operation_count) };
        let (pattern, request_bytes) = (AccessPattern::RandomRead, u64::from(page_bytes));
        let order = PointOrder { pattern, request_bytes, queue_depth: depth };
        let work = |subject: &mut super::bench::Subject,
                    observer: &mut dyn crate::run::RunObserver| {
            subject.measure(order, &scale, observer)
        };
        let found = bench.with_profile(step, &profile, &scale, work)?;
        Ok(found.medians.iops)
    }

    fn ycsb(&self, seed: u64) -> Ycsb {
        Ycsb {
            workload: self.workload,
            key_choice: self.distribution.unwrap_or(self.workload.key_choice()),
            record_count: self.record_count,
            field_bytes: self.field_bytes,
            isolation: Isolation::default(),
            seed,
        }
    }

    /// All points of a variant, over one database.
    fn measure(
        &self,
        bench: &Bench<'_>,
        step: &str,
        site: &Site,
        variant: &ClientsVariant,
    ) -> Result<Vec<Point>, LabError> {
        let error = |error: StorageError| LabError::step(step, &error);
        let seed = Rng::for_part(bench.seed, "clients").next_u64();
        let settings = variant.settings(self.memory);
        let volumes = site.format().map_err(error)?;
        let database = Database::create(volumes, &settings, seed).map_err(error)?;
        let ycsb = self.ycsb(seed);
        let loaded = ycsb.load(&database, |_| !bench.observer.is_cancelled()).map_err(error)?;
        if loaded.is_none() {
            return Err(cancelled());
        }
        database.drop_cached_pages().map_err(error)?;
        let work = |part: &str, client_count| {
            check_cancelled(bench)?;
            let plan = Plan {
                operation_count: self.operation_count,
                client_count,
                core_count: variant.cores.unwrap_or(client_count),
                processor_time: variant.processor.unwrap_or_default(),
                think_time: Nanos::ZERO,
                switch_kind: SwitchKind::default(),
            };
            let ycsb = self.ycsb(Rng::for_part(seed, part).next_u64());
            at_work(&database, &ycsb, &plan).map_err(|error| LabError::step(step, &error))
        };
        let first = self.clients.first().copied().expect("there are some");
        work("before", first)?;
        let points: Result<Vec<Point>, LabError> =
            self.clients.iter().map(|&count| work(&format!("{count} clients"), count)).collect();
        let points = points?;
        database.close().map_err(error)?;
        Ok(points)
    }
}

/// Has clients do what `plan` says.
fn at_work(database: &Database, ycsb: &Ycsb, plan: &Plan) -> Result<Point, BenchError> {
    let load = ycsb.start();
    let clock: Clock = Arc::new(|| unreachable!("a simulated drive has its own clock"));
    let shared: Arc<dyn Load> = Arc::new(Arc::clone(&load));
    let outcome: Outcome =
        nandu_bench::run(database, &shared, plan, &Arc::new(Watch::default()), &clock)?;
    let count = outcome.operation_count as f64;
    let spent =
        |kind: &nandu_bench::OperationOutcome| kind.latency_ns.mean * kind.latency_ns.count as f64;
    Ok(Point {
        client_count: plan.client_count,
        rate: outcome.operations_per_second,
        mean_us: outcome.operations.iter().map(spent).sum::<f64>() / count / 1e3,
        misses: outcome.pool_miss_count as f64 / count,
        retries: load.counts().retries.retry_count as f64 / count,
    })
}

impl Measurement for Clients {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives)?;
        for (name, drive) in &self.drives {
            let is_plain = drive.member_count == 1 && drive.page_cache.is_none();
            if drive.base == LOCAL || !is_plain {
                return Err(format!(
                    "`{name}` must be one simulated drive without a page cache; on disks `nandu bench` runs clients"
                ));
            }
        }
        let rises = self.clients.windows(2).all(|pair| pair[0] < pair[1]);
        let is_count = |count: &u32| (1..=CLIENT_COUNT_MAX).contains(count);
        if self.clients.is_empty() || !rises || !self.clients.iter().all(is_count) {
            return Err(format!("`clients` must rise, from 1 to {CLIENT_COUNT_MAX}"));
        }
        let most = self.clients.last().copied().unwrap_or(1);
        if self.operation_count < OPERATION_COUNT_MIN * u64::from(most) {
            return Err(format!(
                "`operation_count` must be {OPERATION_COUNT_MIN} for each client or more, {} here",
                OPERATION_COUNT_MIN * u64::from(most)
            ));
        }
        if self.record_count == 0 || !(1..=65_536).contains(&self.field_bytes) {
            return Err("`record_count` must be above 0, and `field_bytes` 1 to 65536".into());
        }
        if self.variants.is_empty() {
            return Err("`variants` is empty; name at least one".into());
        }
        self.variants.iter().try_for_each(|(name, variant)| self.check_variant(name, variant))
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        step_targets(self.each_step()[index].1)
    }

    fn series_names(&self) -> Vec<String> {
        let of = |(drive, _, variant): Step<'_>| match variant {
            None => vec![page_reads(drive)],
            Some((name, variant)) => variant.series_of(&format!("{drive}.{name}")),
        };
        let series = self.each_step().into_iter().flat_map(of);
        series.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        let label = |(drive, _, variant): Step<'_>| match variant {
            None => format!("{drive} page reads"),
            Some((name, _)) => format!("{drive} {name}"),
        };
        self.each_step().into_iter().map(label).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        check_cancelled(bench)?;
        let (name, drive, variant) = self.each_step()[index];
        let step = &self.steps()[index];
        let Some((variant_name, variant)) = variant else {
            let mut series = page_reads(name);
            for &depth in &self.clients {
                let rate = self.page_rate(bench, step, (name, drive), (PAGE_BYTES, depth))?;
                series.points.push((f64::from(depth), rate));
            }
            return Ok(vec![series]);
        };
        let Settings { page_bytes, propagation, .. } = variant.settings(self.memory);
        let page_rate = self.page_rate(bench, step, (name, drive), (page_bytes, 1))?;
        let site = Site::prepare(bench, step, (name, drive), None)?;
        let site = site.expect("a simulated drive is always there");
        let site = site.with_media_of(propagation.kind, (name, drive), bench.seed)?;
        let points = self.measure(bench, step, &site, variant)?;
        Ok(variant.tell(&format!("{name}.{variant_name}"), &points, page_rate))
    }
}

fn page_reads(drive: &str) -> Series {
    Series::new(format!("{drive}.page_reads_s"), "", "1/s")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(client_count: u32, rate: f64) -> Point {
        Point { client_count, rate, mean_us: 0.0, misses: 1.0, retries: 0.0 }
    }

    #[test]
    fn the_bend_is_where_the_rate_of_one_client_would_reach_the_largest() {
        let processor = Some(Nanos::from_micros(50));
        let two = ClientsVariant { cores: Some(2), processor, ..ClientsVariant::default() };
        // 10,000 a second alone: 50 us for the page and 50 us of a core.
        let points = [point(1, 10_000.0), point(4, 39_000.0), point(16, 40_000.0)];
        let series = two.tell("d.two", &points, 20_000.0);
        let value = |name: &str, x: f64| {
            let found = series.iter().find(|series| series.name == format!("d.two.{name}"));
            found.unwrap().at(x).unwrap()
        };
        assert!((value("bend", 0.0) - 4.0).abs() < 1e-9);
        assert!((value("expected_bend", 0.0) - 4.0).abs() < 1e-9);
        assert!((value("bound_s", 1.0) - 10_000.0).abs() < 1e-6);
        assert!((value("bound_s", 16.0) - 40_000.0).abs() < 1e-6);
        // Without time of a core nothing bends.
        let free = ClientsVariant { cores: Some(2), ..ClientsVariant::default() };
        assert_eq!(free.tell("d.free", &points, 20_000.0).len(), 4);
    }
}
