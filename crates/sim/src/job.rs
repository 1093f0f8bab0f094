//! One simulation as a value: a drive, a source of requests, settings. Running it gives a report.
//!
//! 1. Equal jobs give equal reports.
//! 2. The warm-up of a workload is the workload itself, whose later requests are measured; that of a
//!    trace is uniform random writes.

use crate::report::{amplification_by_cause, cells_of, shares_of, time_shares_of};
use crate::setup::blocks_aside;
use crate::tee::{Record, Tee};
use crate::warning::warnings_of;
use crate::{
    ClosedForm, ConfigEcho, DriveChoice, EnergyUse, InitialState, Lifetime, Measurement,
    RequestCount, RunConfig, Setup, SimError, SimObserver, SimReport, Simulation, Spread,
};
use nandu_base::to_u32;
use nandu_base::words::did_you_mean;
use nandu_device::Operation;
use nandu_ftl::closed_form::{
    choices_write_amplification, fifo_write_amplification, greedy_write_amplification,
    random_write_amplification,
};
use nandu_ftl::{FtlConfig, VictimPolicy};
use nandu_nand::Suspend;
use nandu_trace::workload::WorkloadKind;
use nandu_trace::{
    RequestSource, SpeedUp, TraceOptions, TraceRequest, UniquePages, WorkloadSpec, open_trace,
};
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Requests of a workload, if nobody says how many.
const REQUEST_COUNT: u64 = 1_000_000;

/// Where requests come from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Input {
    /// A generator in the grammar of [`WorkloadSpec`].
    Workload(String),
    /// A recorded trace.
    Trace {
        /// The path of the trace's file.
        file: String,
        /// How it is read; the capacity is filled in.
        options: TraceOptions,
    },
}

/// A simulation as a value: drive, load and settings.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Job {
    /// The drive under the load, with its settings.
    pub drive: DriveChoice,
    /// Where the requests come from.
    pub input: Input,
    /// Requests that are measured at most; by default a trace runs to its end, and a workload has a
    /// million or as many as it says.
    pub request_limit: Option<u64>,
    /// How it is run: what precedes the measurement, how time is told, what is checked.
    pub run: RunConfig,
}

/// Names of what [`Job::set`] changes beside the keys of a profile.
const KEYS: [&str; 21] = [
    "ftl",
    "victim",
    "erase_block_pages",
    "physical_erase_blocks",
    "logical_pages",
    "workload",
    "trace",
    "speed_up",
    "read_priority",
    "suspend",
    "bus",
    "requests",
    "mode",
    "queue_depth",
    "arrivals",
    "write_buffer_units",
    "cache_units",
    "background",
    "initial",
    "warm_up",
    "seed",
];

/// What requests have to know of a drive.
#[derive(Clone, Copy, Debug)]
struct Space {
    capacity_bytes: u64,
    unit_bytes: u32,
}

impl Space {
    const fn of(simulation: &Simulation) -> Self {
        let (capacity_bytes, unit_bytes) = (simulation.capacity_bytes(), simulation.unit_bytes());
        Self { capacity_bytes, unit_bytes }
    }
}

impl Job {
    /// Changes one setting, as a sweep does: an option of `nandu sim` (dashes or underscores), or a
    /// dotted key of the profile.
    ///
    /// # Errors
    /// If the value is not of the setting's kind, or the key is neither.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), SimError> {
        let name = key.replace('-', "_");
        match name.as_str() {
            "ftl" => self.drive.ftl = Some(value.into()),
            "victim" => self.drive.victim = Some(value.into()),
            "erase_block_pages" => self.drive.erase_block_pages = Some(parse(key, value)?),
            "physical_erase_blocks" => self.drive.physical_erase_blocks = Some(parse(key, value)?),
            "logical_pages" => self.drive.logical_pages = Some(parse(key, value)?),
            "workload" => self.input = Input::Workload(value.into()),
            "trace" => {
                let options = match &self.input {
                    Input::Trace { options, .. } => options.clone(),
                    Input::Workload(_) => TraceOptions::default(),
                };
                self.input = Input::Trace { file: value.into(), options };
            }
            "speed_up" => match &mut self.input {
                Input::Trace { options, .. } => options.speed_up = SpeedUp::parse(value)?,
                Input::Workload(_) => {
                    let text = "speed_up is for traces; a workload has rate=";
                    return Err(SimError::Setting(text.into()));
                }
            },
            "read_priority" => self.run.read_priority = parse(key, value)?,
            "suspend" => self.run.suspend = parse::<bool>(key, value)?.then_some(Suspend::MQSIM),
            "bus" => self.run.bus = parse(key, value)?,
            "requests" => self.request_limit = Some(parse(key, value)?),
            "mode" => self.run.mode = parse(key, value)?,
            "queue_depth" => self.run.queue_depth = parse(key, value)?,
            "arrivals" => self.run.arrivals = parse(key, value)?,
            "write_buffer_units" => self.run.write_buffer_units = parse(key, value)?,
            "cache_units" => self.run.cache_units = parse(key, value)?,
            "background" => self.run.background = parse(key, value)?,
            "initial" => self.run.initial = Some(parse(key, value)?),
            "warm_up" => self.run.warm_up = Some(parse(key, value)?),
            "seed" => self.run.seed = parse(key, value)?,
            _ if key.contains('.') => {
                self.drive.settings.retain(|(old, _)| old != key);
                self.drive.settings.push((key.into(), value.into()));
            }
            _ => {
                let hint = did_you_mean(&name, KEYS);
                return Err(SimError::Setting(format!(
                    "`{key}` is no setting; give {} or a dotted key of the profile{hint}",
                    KEYS.join(", ")
                )));
            }
        }
        Ok(())
    }

    /// Runs it.
    ///
    /// # Errors
    /// If the drive, the source or a setting is wrong, or the simulation fails or is stopped.
    pub fn run(&self, observer: &mut dyn SimObserver) -> Result<SimReport, SimError> {
        self.run_recorded(observer, &mut |_| Ok(()))
    }

    /// Runs it and shows the requests that are measured to `record`.
    ///
    /// # Errors
    /// As [`Self::run`], and what `record` answers.
    pub fn run_recorded(
        &self,
        observer: &mut dyn SimObserver,
        record: Record<'_>,
    ) -> Result<SimReport, SimError> {
        let stop = observer.stop_flag();
        self.watched(observer, record).map_err(|error| stopped_or(error, &stop))
    }

    fn watched(
        &self,
        observer: &mut dyn SimObserver,
        record: Record<'_>,
    ) -> Result<SimReport, SimError> {
        let (setup, mut simulation) = self.prepare()?;
        let mut source = self.source(Space::of(&simulation), observer.stop_flag())?;
        let units = self.warm_up_units(&setup, &simulation)?;
        if units > 0 {
            match &self.input {
                Input::Workload(_) => simulation.warm_up(source.as_mut(), units, observer)?,
                Input::Trace { .. } => {
                    let mut writes = self.workload("uniform", Space::of(&simulation))?;
                    simulation.warm_up(writes.as_mut(), units, observer)?;
                }
            }
        }
        let limit = self.limit()?.unwrap_or(u64::MAX);
        let mut unique_pages = self.unique_pages(&simulation);
        let mut note = |requests: &[TraceRequest]| {
            if let Some(pages) = &mut unique_pages {
                requests.iter().for_each(|request| pages.note_request(request));
            }
            record(requests)
        };
        let mut recorded = Tee { source: source.as_mut(), record: &mut note };
        let measurement = simulation.measure(&mut recorded, limit, observer)?;
        let statistics = source.statistics();
        let mut report = self.report(&setup, &simulation, &measurement);
        report.unique_pages = unique_pages.as_ref().map(Into::into);
        report.source = source.description();
        report.skipped_lines = statistics.skipped_count;
        report.first_skipped = statistics.first_skipped;
        report.filtered_requests = statistics.filtered_count;
        if report.request_count == 0 && report.filtered_requests > 0 {
            return Err(self.no_such_device(report.filtered_requests));
        }
        report.reordered_requests = statistics.reordered_count;
        Ok(report)
    }

    /// The first `count` requests as they are understood, and what their source is. `stop` ends it.
    ///
    /// # Errors
    /// If the drive or the source is wrong, or `stop` is set.
    pub fn dry_run(
        &self,
        count: usize,
        stop: Arc<AtomicBool>,
    ) -> Result<(Vec<TraceRequest>, String), SimError> {
        self.first_requests(count, Arc::clone(&stop)).map_err(|error| stopped_or(error, &stop))
    }

    fn first_requests(
        &self,
        count: usize,
        stop: Arc<AtomicBool>,
    ) -> Result<(Vec<TraceRequest>, String), SimError> {
        Simulation::check(&self.run)?;
        let setup = self.drive.resolve(self.run.checks)?;
        let space =
            Space { capacity_bytes: setup.capacity_bytes(), unit_bytes: setup.unit_bytes() };
        let mut source = self.source(space, stop)?;
        let mut requests = Vec::new();
        while requests.len() < count {
            let before = requests.len();
            source.next_batch(&mut requests, count - before)?;
            if requests.len() == before {
                break;
            }
        }
        requests.truncate(count);
        Ok((requests, source.description()))
    }

    fn prepare(&self) -> Result<(Setup, Simulation), SimError> {
        let setup = self.drive.resolve(self.run.checks)?;
        let (nand, ftl) = setup.build(self.run.seed)?;
        let initial = self.initial(ftl.stream_count())?;
        let run = RunConfig { initial: Some(initial), ..self.run };
        let mut simulation = Simulation::new(nand, ftl, &run)?;
        if initial == InitialState::ByStream {
            simulation.fill_by_stream(&self.unit_streams(&simulation)?)?;
        }
        Ok((setup, simulation))
    }

    /// The stream of each unit, which a trace does not say before it is over.
    fn unit_streams(&self, simulation: &Simulation) -> Result<Vec<u8>, SimError> {
        let Input::Workload(text) = &self.input else {
            let text = "initial is by_stream, which needs a workload; a trace has no streams before \
                        it is over";
            return Err(SimError::Setting(text.into()));
        };
        let capacity = simulation.capacity_bytes();
        let unit = u64::from(simulation.unit_bytes());
        Ok(WorkloadSpec::parse(text)?.unit_streams(capacity, unit, self.run.seed)?)
    }

    /// The requests of the job for a drive of that space; without the limit of a
    /// workload, since the warm-up takes its requests from the same source.
    fn source(
        &self,
        space: Space,
        stop: Arc<AtomicBool>,
    ) -> Result<Box<dyn RequestSource>, SimError> {
        match &self.input {
            Input::Workload(text) => self.workload(text, space),
            Input::Trace { file, options } => {
                let mut options = options.clone();
                options.capacity_bytes = Some(space.capacity_bytes);
                Ok(open_trace(Path::new(file), &options, stop)?)
            }
        }
    }

    fn workload(&self, text: &str, space: Space) -> Result<Box<dyn RequestSource>, SimError> {
        let mut spec = WorkloadSpec::parse(text)?;
        spec.request_count = None;
        let unit = u64::from(space.unit_bytes);
        Ok(Box::new(spec.source(space.capacity_bytes, unit, self.run.seed)?))
    }

    /// Requests to measure at most; none where a trace ends the run.
    fn limit(&self) -> Result<Option<u64>, SimError> {
        Ok(match &self.input {
            Input::Trace { .. } => self.request_limit,
            Input::Workload(text) => {
                let said = WorkloadSpec::parse(text)?.request_count;
                self.request_limit.or(said).or(Some(REQUEST_COUNT))
            }
        })
    }

    /// Units of the drive that are measured, about, where it is known before.
    pub(crate) fn measured_units(&self) -> Option<u64> {
        let limit = self.limit().ok()??;
        let Input::Workload(text) = &self.input else { return Some(limit) };
        let unit_bytes = self.drive.resolve(false).ok()?.unit_bytes();
        let sizes = WorkloadSpec::parse(text).ok()?.sizes;
        let weighted = sizes.iter().map(|share| share.size_bytes * u64::from(share.percent));
        let request_bytes = weighted.sum::<u64>() / 100;
        Some(limit.saturating_mul(request_bytes.div_ceil(unit_bytes.into()).max(1)))
    }

    /// What the drive holds at first, whose layer keeps `stream_count` streams apart. Filled without
    /// regard to streams, all data would lie in the first, whose share they exceed: cleaning would go
    /// on copying those that the others never overwrite there.
    fn initial(&self, stream_count: u8) -> Result<InitialState, SimError> {
        Ok(match (&self.input, self.run.initial) {
            (_, Some(initial)) => initial,
            (Input::Workload(text), None) => {
                let has_streams = stream_count > 1 && WorkloadSpec::parse(text)?.stream_count() > 1;
                if has_streams { InitialState::ByStream } else { InitialState::Steady }
            }
            (Input::Trace { .. }, None) => InitialState::Sequential,
        })
    }

    fn warm_up_units(&self, setup: &Setup, simulation: &Simulation) -> Result<u64, SimError> {
        let unit_count = simulation.ftl().unit_count();
        let Some(multiple) = self.run.warm_up else {
            return self.default_warm_up(setup, simulation);
        };
        if !(0.0..=1000.0).contains(&multiple) {
            let text = format!("warm_up is {multiple}, must be between 0 and 1000 drive writes");
            return Err(SimError::Setting(text));
        }
        Ok(multiple_of(multiple, unit_count))
    }

    fn default_warm_up(&self, setup: &Setup, simulation: &Simulation) -> Result<u64, SimError> {
        let Input::Workload(text) = &self.input else { return Ok(0) };
        let unit_count = simulation.ftl().unit_count();
        let is_paged = matches!(setup.ssd.ftl, FtlConfig::Page(_));
        let is_uniform = WorkloadSpec::parse(text)?.kind == WorkloadKind::Uniform;
        Ok(match self.initial(simulation.ftl().stream_count())? {
            InitialState::Fresh => 0,
            InitialState::Steady if is_paged && is_uniform => {
                multiple_of(RunConfig::STEADY_WARM_UP, unit_count)
            }
            InitialState::Sequential | InitialState::Steady | InitialState::ByStream => {
                let geometry = simulation.nand().geometry();
                let units = u64::from(setup.nand.units_per_flash_page);
                let spare = (geometry.flash_page_count() * units).saturating_sub(unit_count);
                multiple_of(RunConfig::WARM_UP, unit_count).saturating_add(spare)
            }
        })
    }

    /// Counts the pages that a trace touches. Those of a workload follow from its words, and counting
    /// takes 30 ns or more of the 140 ns of a request.
    fn unique_pages(&self, simulation: &Simulation) -> Option<UniquePages> {
        let page_bytes = u64::from(simulation.nand().geometry().flash_page_bytes);
        let is_trace = matches!(self.input, Input::Trace { .. });
        is_trace.then(|| UniquePages::new(page_bytes, simulation.capacity_bytes()))
    }

    /// Nothing was left of a trace: most likely the device is misspelt.
    fn no_such_device(&self, others: u64) -> SimError {
        let device = match &self.input {
            Input::Trace { options, .. } => options.device.as_deref().unwrap_or_default(),
            Input::Workload(_) => "",
        };
        SimError::Setting(format!(
            "no request of the trace is of device `{device}`, {others} are of others; name it as \
             the trace does"
        ))
    }

    fn echo(&self, setup: &Setup, simulation: &Simulation) -> ConfigEcho {
        let nand = simulation.nand();
        let geometry = nand.geometry();
        let units_per_page = u64::from(nand.config().units_per_flash_page);
        let logical_units = simulation.ftl().unit_count();
        ConfigEcho {
            job: self.clone(),
            ssd: setup.ssd.clone(),
            nand: *nand.config(),
            unit_bytes: simulation.unit_bytes(),
            logical_pages: logical_units.div_ceil(units_per_page),
            physical_pages: geometry.flash_page_count(),
            physical_erase_blocks: geometry.erase_block_count(),
            utilisation: logical_units as f64
                / (geometry.flash_page_count() * units_per_page) as f64,
            warm_up_units: simulation.warm_up_units(),
        }
    }

    fn report(&self, setup: &Setup, simulation: &Simulation, measured: &Measurement) -> SimReport {
        let nand = simulation.nand();
        let geometry = nand.geometry();
        let units_per_page = u64::from(nand.config().units_per_flash_page);
        let host = &measured.host;
        let host_pages = host.write_units as f64 / units_per_page as f64;
        let programmed = measured.counters.programmed_pages() as f64;
        let amplification = if host_pages > 0.0 { programmed / host_pages } else { 0.0 };
        let logical_units = simulation.ftl().unit_count();
        let erase_count = Spread::of(measured.erase_counts.iter().copied());
        let drive_writes = host.write_units as f64 / logical_units as f64;
        let seconds = measured.simulated.as_seconds_f64();
        let die_seconds = seconds * f64::from(geometry.die_count());
        let per = |amount: f64, whole: f64| if whole > 0.0 { amount / whole } else { 0.0 };
        let kinds = [Operation::Read, Operation::Write, Operation::Trim, Operation::Flush];
        let count_of = |kind: Operation| {
            let (count, bytes) = (host.requests[kind as usize], host.bytes[kind as usize]);
            (kind.label().to_string(), RequestCount { count, bytes })
        };
        let host_bytes =
            host.bytes[Operation::Read as usize] + host.bytes[Operation::Write as usize];
        SimReport {
            config: self.echo(setup, simulation),
            seed: self.run.seed,
            requests: kinds.into_iter().map(count_of).filter(|(_, of)| of.count > 0).collect(),
            request_count: measured.request_count,
            host_write_pages: host.write_units.div_ceil(units_per_page),
            host_read_pages: host.read_units.div_ceil(units_per_page),
            host_trim_pages: host.trim_units.div_ceil(units_per_page),
            modify_read_units: host.modify_read_units,
            nand: cells_of(&measured.counters),
            write_amplification: amplification,
            write_amplification_by_cause: amplification_by_cause(&measured.counters, host_pages),
            closed_form: (erase_count.max > 0)
                .then(|| self.closed_form(setup, logical_units, amplification))
                .flatten(),
            latency_ns: measured.latency_ns.clone(),
            erase_count,
            lifetime: Lifetime::of(
                nand.config().rules.endurance,
                (&erase_count, programmed / geometry.flash_page_count() as f64),
                drive_writes,
                seconds,
            ),
            energy: EnergyUse::of(measured, host_bytes),
            map_bytes: simulation.ftl().map_bytes(),
            simulator_bytes_per_logical_page: (nand.memory_bytes()
                + simulation.ftl().memory_bytes())
                as f64
                / logical_units.div_ceil(units_per_page) as f64,
            simulated_ns: measured.simulated.0,
            requests_per_second: per(measured.request_count as f64, seconds),
            die_utilisation: per(measured.busy.as_seconds_f64(), die_seconds),
            time_shares: time_shares_of(&measured.usage),
            die_held_share: shares_of(&measured.usage.die_held, measured.simulated),
            channel_busy_share: shares_of(&measured.usage.channel_busy, measured.simulated),
            unique_pages: None,
            merges: measured.merges.map(Into::into),
            map_cache: measured.map_cache.map(Into::into),
            source: String::new(),
            skipped_lines: 0,
            first_skipped: None,
            filtered_requests: 0,
            reordered_requests: 0,
            cache: measured.cache,
            checks: measured.checks,
            warnings: warnings_of(measured),
            wall_ns: None,
        }
    }

    /// What theory says of uniform random writes of whole units under a page map, after a warm-up.
    fn closed_form(&self, setup: &Setup, logical_units: u64, simulated: f64) -> Option<ClosedForm> {
        let FtlConfig::Page(page) = &setup.ssd.ftl else { return None };
        let Input::Workload(text) = &self.input else { return None };
        let spec = WorkloadSpec::parse(text).ok()?;
        let unit_bytes = u64::from(setup.ssd.ftl.unit_bytes(setup.nand.geometry.flash_page_bytes));
        let is_whole = spec.sizes.iter().all(|share| share.size_bytes == unit_bytes);
        let covers = spec.area_bytes.is_none() && spec.start_bytes == 0;
        let is_uniform = spec.kind == WorkloadKind::Uniform && spec.trim_ppb == 0;
        let is_bare = self.run.cache_units == 0;
        if !(is_bare
            && is_uniform
            && is_whole
            && covers
            && spec.align_bytes.is_none()
            && simulated > 0.0)
        {
            return None;
        }
        let shape = &setup.nand.geometry;
        let blocks = u64::from(shape.erase_block_count());
        let lost = setup.ssd.ftl.lost_erase_blocks(&setup.nand);
        let blocks = blocks.checked_sub(blocks_aside(&setup.ssd.ftl, shape) + lost)?;
        let units = u64::from(setup.nand.units_per_flash_page);
        let block_units = u64::from(shape.flash_pages_per_erase_block) * units;
        let alpha = (blocks * block_units) as f64 / logical_units as f64;
        let planes = if page.multi_plane { shape.planes_per_die } else { 1 };
        let group_units = block_units as f64 * f64::from(planes);
        let theory = match page.victim {
            _ if alpha <= 1.0 || page.stream_count > 1 || page.static_wear_threshold > 0 => {
                return None;
            }
            VictimPolicy::Greedy => greedy_write_amplification(alpha, group_units),
            VictimPolicy::Fifo => fifo_write_amplification(alpha),
            VictimPolicy::Random => random_write_amplification(alpha),
            VictimPolicy::DChoices => {
                let units = to_u32(block_units) * planes;
                choices_write_amplification(1.0 / alpha, units, page.victim_choices)
            }
            VictimPolicy::Windowed | VictimPolicy::CostBenefit => return None,
        };
        Some(ClosedForm {
            write_amplification: theory,
            effective_alpha: alpha,
            deviation: simulated / theory - 1.0,
        })
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "not negative, and a float as integer saturates"
)]
fn multiple_of(multiple: f64, unit_count: u64) -> u64 {
    (multiple * unit_count as f64).ceil() as u64
}

/// What went wrong, or that `stop` is set: a trace that nobody reads on says that it cannot be read.
fn stopped_or(error: SimError, stop: &AtomicBool) -> SimError {
    match error {
        SimError::Trace(_) if stop.load(Ordering::Relaxed) => SimError::Cancelled,
        error => error,
    }
}

/// A value of a setting, read the way a profile would read it.
fn parse<T: serde::de::DeserializeOwned>(key: &str, value: &str) -> Result<T, SimError> {
    let read = |text: String| toml::from_str::<std::collections::BTreeMap<String, T>>(&text);
    let plain = read(format!("value = {value}"));
    let answer = plain.or_else(|error| match value.contains(['"', '\n', '\\']) {
        true => Err(error),
        false => read(format!("value = \"{value}\"")),
    });
    match answer.map(|mut table| table.remove("value")) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err(SimError::Setting(format!("{key}: no value"))),
        Err(error) => {
            let message = error.message().trim().to_string();
            Err(SimError::Setting(format!("{key}={value}: {message}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mode;

    fn job() -> Job {
        Job {
            drive: DriveChoice { name: "myers_slc".into(), ..DriveChoice::default() },
            input: Input::Workload("uniform".into()),
            request_limit: Some(10),
            run: RunConfig::default(),
        }
    }

    #[test]
    fn a_dry_run_knows_the_size_of_the_drive_that_would_be_made() {
        for kind in nandu_ftl::FtlKind::ALL {
            let mut job = job();
            for (key, value) in [
                ("ftl", kind.name()),
                ("ssd.physical_erase_blocks", "96"),
                ("logical_pages", "4001"),
            ] {
                job.set(key, value).unwrap();
            }
            let (setup, simulation) = job.prepare().unwrap();
            assert_eq!(setup.capacity_bytes(), simulation.capacity_bytes(), "{}", kind.name());
            assert_eq!(setup.unit_bytes(), simulation.unit_bytes(), "{}", kind.name());
            let (requests, _) = job.dry_run(3, Arc::default()).unwrap();
            let mut source = job.source(Space::of(&simulation), Arc::default()).unwrap();
            let mut same = Vec::new();
            source.next_batch(&mut same, 3).unwrap();
            assert_eq!(requests[..3], same[..3], "{}", kind.name());
        }
    }

    #[test]
    fn a_trace_that_is_read_no_further_since_somebody_stopped_it_has_no_fault() {
        struct Stopped(Arc<AtomicBool>);
        impl SimObserver for Stopped {
            fn progress(&mut self, _phase: crate::Phase, _done: u64, _total: u64) {}
            fn stop_flag(&self) -> Arc<AtomicBool> {
                Arc::clone(&self.0)
            }
        }
        let mut job = job();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        job.input = Input::Trace { file: file.into(), options: TraceOptions::default() };
        for is_stopped in [false, true] {
            let stop = Arc::new(AtomicBool::new(is_stopped));
            let first = job.dry_run(3, Arc::clone(&stop)).unwrap_err();
            let ran = job.run(&mut Stopped(stop)).unwrap_err();
            for error in [first, ran] {
                assert_eq!(matches!(error, SimError::Trace(_)), !is_stopped, "{error}");
                assert_eq!(matches!(error, SimError::Cancelled), is_stopped, "{error}");
            }
        }
    }

    #[test]
    fn settings_are_options_or_keys_of_the_profile() {
        let mut job = job();
        for (key, value) in [
            ("queue-depth", "8"),
            ("mode", "event"),
            ("warm_up", "0.5"),
            ("ftl.victim", "fifo"),
            ("ftl.victim", "random"),
            ("workload", "uniform:read=30"),
        ] {
            job.set(key, value).unwrap();
        }
        assert_eq!((job.run.queue_depth, job.run.mode), (8, Mode::Event));
        assert_eq!(job.run.warm_up, Some(0.5));
        assert_eq!(job.drive.settings, [("ftl.victim".to_string(), "random".to_string())]);
    }

    #[test]
    fn a_wrong_setting_names_the_nearest_or_the_fault() {
        let error = job().set("queue_dept", "8").unwrap_err().to_string();
        assert!(error.ends_with("did you mean `queue_depth`?"), "{error}");
        let error = job().set("mode", "evnt").unwrap_err().to_string();
        assert!(error.contains("mode=evnt") && error.contains("`event`"), "{error}");
        let error = job().set("seed", "-1").unwrap_err().to_string();
        assert!(error.starts_with("seed=-1"), "{error}");
    }
}
