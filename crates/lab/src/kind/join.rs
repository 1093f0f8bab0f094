//! Joins of two heap tables within a memory: S001, figures 1 to 3 and tables 3 to 5.
//!
//! ```text
//!   load both tables, in random order ─► for each memory: each join, for real ─► its requests, waits, work
//!                                                     └─► what the cost model says of the same plan
//! ```
//!
//! One step for each drive and page size, with series by the bytes of memory or, where there is one memory
//! only, by those of a page. Times and counts are those of the paper's scale: what was found, times `over`.
//! `DRIVE.JOIN.` and
//!
//! - `total_s`, `io_s`, `user_s`, `kernel_s`, `cpu_s`: all, waits for the drive, the processor;
//! - `phase_1_s`, `phase_2_s`: waits until the last write was over, and after that;
//! - `reads`, `writes`: requests in thousands; `read_gib`, `written_gib`;
//! - `io_spread`: the longest waits less the shortest, over their mean, where there are `repetitions`;
//! - `misallocated_s`, `misallocated_io_s`: time and waits with buffers of `misallocated_percent`;
//! - `model_s`: waits as the cost model has them, from curves of a drive of the same make, with
//!   `estimates`; those of block nested loops by the paper's formula; `model_error`: those over the
//!   waits.
//!
//! 1. Simulated drives are as many times smaller and faster as the tables are smaller (`shrunk`), so that
//!    requests keep their ratio to memory and to the times of the drive.
//! 2. All joins of a step give the same number of pairs: one for each order.
//! 3. On a simulated drive the processor takes what `cpu` says ([`Cpu`]); on the local disk, what it takes.

pub(crate) mod backed;
mod curves;
mod formulas;
mod measured;
mod parts;
pub(crate) mod processor;

pub use processor::{Cpu, ModelledCpu};

use super::Measurement;
use super::bench::{Bench, LOCAL};
use super::engine_set::EngineSet;
use super::site::{
    EngineVariant, Site, SiteDrive, SiteDrives, check_cancelled, check_drives, fill, step_targets,
    targets,
};
use crate::error::LabError;
use crate::outcome::Series;
use backed::{Backed, FileSystem};
use measured::{Measured, Tables};
use nandu_base::{ByteCount, Rng, to_u32};
use nandu_device::{Device, MeteredDevice};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_drives::shrunk::shrunk;
use nandu_probe::text;
use nandu_query::JoinKind;
use nandu_query::cost::DeviceCosts;
use processor::Processor;
use serde::{Deserialize, Serialize};

/// What the drive is asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestSize {
    /// As many pages at once as a buffer has.
    #[default]
    Blocks,
    /// A page at a time.
    Pages,
}

/// The keys of an experiment of the kind `join`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JoinComparison {
    /// What the tables lie on; capacities are those of the paper's scale.
    pub drives: SiteDrives,
    /// The joins that are compared, each once for every memory.
    pub joins: Vec<JoinKind>,
    /// TPC-H's scale factor in the paper.
    pub scale_factor: f64,
    /// How many times smaller tables, memory and drives are here.
    pub over: u32,
    /// How many times smaller pages are, where requests are blocks.
    #[serde(default = "one")]
    pub page_over: u32,
    /// Memory in the paper.
    #[serde(deserialize_with = "text::sizes")]
    pub memory: Vec<ByteCount>,
    /// Page sizes in the paper.
    #[serde(deserialize_with = "text::sizes")]
    pub page_bytes: Vec<ByteCount>,
    /// How full the pages of tables are.
    #[serde(default = "fill_percent")]
    pub fill_percent: u32,
    /// What the drive is asked for.
    #[serde(default)]
    pub requests: RequestSize,
    /// How often each join runs, on the drive as the runs before left it; times are means.
    #[serde(default = "one")]
    pub repetitions: u32,
    /// Each join runs with buffers of so many percent of the formula's, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub misallocated_percent: Option<u32>,
    /// Under a file system that writes a block of pointers for so many bytes of a file; without, none does.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "some_size")]
    pub file_system_block_bytes: Option<ByteCount>,
    /// Whether the cost model's times are given, too; measuring its curves takes as long as some joins.
    #[serde(default = "yes")]
    pub estimates: bool,
    /// The processor on simulated drives.
    #[serde(default, skip_serializing_if = "Cpu::is_none")]
    pub cpu: Cpu,
    /// Other settings of the engine.
    #[serde(default, skip_serializing_if = "EngineSet::is_empty")]
    pub set: EngineSet,
}

const fn one() -> u32 {
    1
}

fn some_size<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<ByteCount>, D::Error> {
    text::size(from).map(Some)
}

const fn yes() -> bool {
    true
}

const fn fill_percent() -> u32 {
    80
}

/// Blocks of pointers that a file system writes back later, 30 s or so.
const POINTER_BLOCKS_BEHIND: usize = 64;
/// Memory of the pool, for inner nodes and the load.
const POOL_BYTES: u64 = 8 << 20;
/// What a series is of, and its unit.
const METRICS: [(&str, &str); 16] = [
    ("total_s", "s"),
    ("io_s", "s"),
    ("cpu_s", "s"),
    ("user_s", "s"),
    ("kernel_s", "s"),
    ("phase_1_s", "s"),
    ("phase_2_s", "s"),
    ("reads", "thousands"),
    ("writes", "thousands"),
    ("read_gib", "GiB"),
    ("written_gib", "GiB"),
    ("io_spread", ""),
    ("misallocated_s", "s"),
    ("misallocated_io_s", "s"),
    ("model_s", "s"),
    ("model_error", ""),
];

/// Where tables lie, what the model knows of that, if the drive is simulated, and the processor.
type Prepared = (Site, Option<DeviceCosts>, Processor);

impl JoinComparison {
    fn variant(&self) -> EngineVariant {
        EngineVariant::reading(&self.set)
    }

    fn series_of(&self, drive: &str) -> Vec<Series> {
        let of = |join: &JoinKind| {
            METRICS.map(|(metric, unit)| Series::new(format!("{drive}.{join}.{metric}"), "B", unit))
        };
        self.joins.iter().flat_map(of).collect()
    }

    fn pairs(&self) -> Vec<(&str, ByteCount)> {
        let of = |drive| self.page_bytes.iter().map(move |&page_bytes| (drive, page_bytes));
        self.drives.keys().map(String::as_str).flat_map(of).collect()
    }

    /// Bytes of a page here that has so many in the paper.
    fn page_here(&self, paper_page: ByteCount) -> u64 {
        match self.requests {
            RequestSize::Blocks => paper_page.0 / u64::from(self.page_over),
            RequestSize::Pages => paper_page.0,
        }
    }

    fn profile(&self, name: &str, drive: &SiteDrive) -> Result<Profile, String> {
        let keeps_request_times = self.requests == RequestSize::Pages;
        shrunk(&drive.profile(name)?, self.over, keeps_request_times)
            .map_err(|error| error.to_string())
    }

    /// A fresh simulated drive, written full if it is flash.
    fn open(
        &self,
        bench: &mut Bench<'_>,
        step: &str,
        (profile, drive): (&Profile, &SiteDrive),
        page_bytes: u64,
    ) -> Result<Backed, LabError> {
        let seed = Rng::for_part(bench.seed, step).next_u64();
        let over = u64::from(self.over);
        let capacity =
            drive.capacity.map(|capacity| ByteCount(capacity.0 / over / 65_536 * 65_536));
        let options = SimOptions { capacity, seed, keep_data: false };
        let device = profile.open(options).map_err(|error| LabError::step(step, &error))?;
        let mut device: Box<dyn Device + Send> =
            Box::new(MeteredDevice::tallied(device, bench.power.clone()));
        if profile.needs_filling().map_err(|error| LabError::step(step, &error))? {
            fill(device.as_mut(), step, bench.observer)?;
        }
        let page_bytes =
            (self.requests == RequestSize::Pages).then(|| nandu_base::to_u32(page_bytes));
        Backed::new(device, page_bytes).map_err(|error| LabError::step(step, &error))
    }

    /// Where the tables lie, what the model knows of that, and what the processor takes there. `None`
    /// where it is local and the user named no local target.
    fn site(
        &self,
        bench: &mut Bench<'_>,
        step: &str,
        (name, drive): (&str, &SiteDrive),
        page_bytes: u64,
    ) -> Result<Option<Prepared>, LabError> {
        let log = self.variant().log_apart();
        if drive.base == LOCAL {
            let site = Site::prepare(bench, step, (name, drive), log)?;
            return Ok(site.map(|site| (site, None, Processor::Real)));
        }
        let text = |error: String| LabError::step(step, &error);
        let profile = self.profile(name, drive).map_err(text)?;
        let costs = match self.estimates {
            true => Some(self.device_costs(bench, step, (&profile, drive), page_bytes)?),
            false => None,
        };
        let over = match self.requests {
            RequestSize::Blocks => self.over,
            RequestSize::Pages => 1,
        };
        let has_arm = profile.has_arm().map_err(|error| LabError::step(step, &error))?;
        let processor = self.cpu.processor(has_arm, over);
        let device = self.open(bench, step, (&profile, drive), page_bytes)?;
        let file_system = self.file_system_block_bytes.map(|bytes| FileSystem {
            bytes_per_block: ByteCount(bytes.0 / u64::from(self.over)),
            blocks_behind: POINTER_BLOCKS_BEHIND,
        });
        let device = device.with_file_system(file_system);
        let site = Site::on(step, Box::new(device.with_meter(processor.meter())), log)?;
        Ok(Some((site, costs, processor)))
    }

    /// What the cost model knows of a drive like this one.
    fn device_costs(
        &self,
        bench: &mut Bench<'_>,
        step: &str,
        (profile, drive): (&Profile, &SiteDrive),
        page_bytes: u64,
    ) -> Result<DeviceCosts, LabError> {
        // What is measured for the model is no energy of the join.
        let power = std::mem::take(&mut bench.power);
        let other = self.open(bench, step, (profile, drive), page_bytes);
        bench.power = power;
        let mut other = other?;
        let memory = self.memory.iter().max().expect("it was checked");
        let largest = ByteCount(memory.0 / 2 / u64::from(self.over));
        let span = ByteCount(other.info().geometry.capacity().0 / 4);
        let has_arm = profile.has_arm().map_err(|error| LabError::step(step, &error))?;
        let areas = (largest, span);
        let costs = curves::measure(&mut other, page_bytes, areas, has_arm, &mut *bench.observer);
        check_cancelled(bench)?;
        costs.map_err(|error| LabError::step(step, &error))
    }

    /// Runs a join as often as wanted, and with wrong buffers.
    fn measure(
        &self,
        tables: &Tables,
        (bench, step): (&Bench<'_>, &str),
        (kind, pages): (JoinKind, u64),
        model: (Option<&DeviceCosts>, &Processor),
    ) -> Result<[Option<f64>; METRICS.len()], LabError> {
        let runs = (0..self.repetitions)
            .map(|_| tables.join(bench, step, (kind, 100), pages, model))
            .collect::<Result<Vec<_>, _>>()?;
        let misallocated = self
            .misallocated_percent
            .map(|percent| tables.join(bench, step, (kind, percent), pages, (None, model.1)));
        Ok(self.values(&runs, misallocated.transpose()?.as_ref()))
    }

    /// The values of [`METRICS`] at the paper's scale.
    fn values(
        &self,
        runs: &[Measured],
        misallocated: Option<&Measured>,
    ) -> [Option<f64>; METRICS.len()] {
        let found = &Measured::mean(runs);
        let waits = || runs.iter().map(|run| run.io_ns);
        let range = waits().max().unwrap_or(0) - waits().min().unwrap_or(0);
        let spread = (runs.len() > 1).then(|| range as f64 / found.io_ns.max(1) as f64);
        let over = f64::from(self.over);
        let seconds = |ns: u64| ns as f64 / 1e9 * over;
        let thousands = |count: u64| match self.requests {
            RequestSize::Blocks => count as f64 / 1e3,
            RequestSize::Pages => count as f64 / 1e3 * over,
        };
        let gib = |bytes: u64| bytes as f64 / f64::from(1 << 30) * over;
        let has_phases = found.phase_1_ns > 0;
        let phase = |ns: u64| has_phases.then(|| seconds(ns));
        let model = found.model_ns.map(seconds);
        [
            Some(seconds(found.total_ns)),
            Some(seconds(found.io_ns)),
            Some(seconds(found.user_ns + found.kernel_ns)),
            Some(seconds(found.user_ns)),
            Some(seconds(found.kernel_ns)),
            phase(found.phase_1_ns),
            phase(found.io_ns - found.phase_1_ns),
            Some(thousands(found.reads)),
            Some(thousands(found.writes)),
            Some(gib(found.read_bytes)),
            Some(gib(found.written_bytes)),
            spread,
            misallocated.map(|found| seconds(found.total_ns)),
            misallocated.map(|found| seconds(found.io_ns)),
            model,
            model.map(|model| model / seconds(found.io_ns)),
        ]
    }

    fn check_sizes(&self) -> Result<(), String> {
        let is_page = |size: &ByteCount| {
            let here = self.page_here(*size);
            here.is_power_of_two() && (512..=65_536).contains(&here)
        };
        if let Some(size) = self.page_bytes.iter().find(|size| !is_page(size)) {
            return Err(format!(
                "a page of {size} has {} bytes here; it must be a power of two, 512 to 64 KiB",
                self.page_here(*size)
            ));
        }
        if self.page_bytes.is_empty() || self.memory.is_empty() || self.joins.is_empty() {
            return Err("`joins`, `memory` and `page_bytes` need a value each".into());
        }
        if self.page_bytes.len() > 1 && self.memory.len() > 1 {
            return Err("`memory` and `page_bytes` are several each; one must be alone".into());
        }
        let most = self.page_bytes.iter().map(|size| self.page_here(*size)).max().unwrap_or(1);
        match self.memory.iter().find(|size| size.0 / u64::from(self.over) < 64 * most) {
            Some(size) => Err(format!("`memory` of {size} is less than 64 pages here")),
            None => Ok(()),
        }
    }
}

/// Metrics that are sums of others.
const SUMS: [&[&str]; 4] = [
    &["total_s", "io_s", "cpu_s"],
    &["total_s", "io_s", "user_s", "kernel_s"],
    &["cpu_s", "user_s", "kernel_s"],
    &["io_s", "phase_1_s", "phase_2_s"],
];

impl Measurement for JoinComparison {
    fn check(&self) -> Result<(), String> {
        if self.over == 0 || self.page_over == 0 {
            return Err("`over` and `page_over` must be above 0".into());
        }
        if self.repetitions == 0 || self.misallocated_percent == Some(0) {
            return Err("`repetitions` and `misallocated_percent` must be above 0".into());
        }
        check_drives(&self.drives)?;
        if let Some((name, _)) = self.drives.iter().find(|(_, drive)| drive.page_cache.is_some()) {
            return Err(format!(
                "`{name}` has a page cache; joins here have none but the engine's"
            ));
        }
        self.check_sizes()?;
        if !(self.scale_factor > 0.0 && self.scale_factor <= 1000.0) {
            return Err("`scale_factor` must be above 0, to 1000".into());
        }
        if !(50..=100).contains(&self.fill_percent) {
            return Err("`fill_percent` must be 50 to 100".into());
        }
        for kind in &self.joins {
            if !measured::JOINS.contains(kind) {
                return Err(format!("`joins` has {kind}, which is none of S001"));
            }
        }
        let simulated = self.drives.iter().filter(|(_, drive)| drive.base != LOCAL);
        for (name, drive) in simulated {
            self.profile(name, drive)?;
        }
        let sizes = self.page_bytes.iter().map(|size| to_u32(self.page_here(*size)));
        self.variant().check(sizes, &[("page_bytes", "page_bytes")])
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        step_targets(&self.drives[self.pairs()[index].0])
    }

    fn series_names(&self) -> Vec<String> {
        let series = self.drives.keys().flat_map(|drive| self.series_of(drive));
        series.map(|series| series.name).collect()
    }

    fn sums(&self) -> Vec<Vec<String>> {
        let of = |drive: &str, join: &JoinKind, sum: &[&str]| {
            sum.iter().map(|metric| format!("{drive}.{join}.{metric}")).collect()
        };
        let of_drive = |drive: &String| -> Vec<Vec<String>> {
            let of_join = |join| SUMS.iter().map(move |sum| of(drive, join, sum));
            self.joins.iter().flat_map(of_join).collect()
        };
        self.drives.keys().flat_map(of_drive).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.pairs()
            .into_iter()
            .map(|(drive, page_bytes)| format!("{drive} {page_bytes}"))
            .collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, paper_page) = self.pairs()[index];
        let step = format!("{name} {paper_page}");
        let page_bytes = self.page_here(paper_page);
        check_cancelled(bench)?;
        let drive = (name, &self.drives[name]);
        let Some((site, device, processor)) = self.site(bench, &step, drive, page_bytes)? else {
            return Ok(Vec::new());
        };
        let scale =
            parts::Scale { over: u64::from(self.over), paper_page_bytes: paper_page.0, page_bytes };
        let scale_factor = self.scale_factor / f64::from(self.over);
        let rows = (scale_factor, self.fill_percent);
        let tables = Tables::load(bench, &step, site, scale, rows, &self.variant())?;
        let mut series = self.series_of(name);
        for memory in &self.memory {
            let x = if self.page_bytes.len() > 1 { paper_page.0 } else { memory.0 } as f64;
            let pages = memory.0 / u64::from(self.over) / page_bytes;
            for (&kind, series) in self.joins.iter().zip(series.chunks_mut(METRICS.len())) {
                let model = (device.as_ref(), &processor);
                let values = self.measure(&tables, (bench, &step), (kind, pages), model)?;
                for (series, value) in series.iter_mut().zip(values) {
                    series.points.extend(value.map(|value| (x, value)));
                }
            }
        }
        Ok(series)
    }
}
