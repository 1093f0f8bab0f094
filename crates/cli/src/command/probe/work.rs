//! What there is to measure: a series, a plan or a fio job file, cut to the device.

use super::steady_state::SteadyStateWork;
use super::{ProbeArguments, SeriesKind};
use crate::failure::Failure;
use crate::memory::check_possible;
use crate::output::read_file;
use nandu_base::{ByteCount, Nanos};
use nandu_device::{DeviceInfo, TimeSource};
use nandu_drives::target::Target;
use nandu_probe::{
    BurstOptions, CachePath, EnduranceOptions, MisalignmentOptions, Plan, Preparation,
    QuickOptions, SeriesOptions, Step, StreamOptions, parse_fio_job, series_misalignment,
    series_quick, series_s000, series_s002,
};
use std::path::Path;

/// Requests of each run on a simulated drive, which has no warm-up to wait for.
const SIMULATED_REQUEST_COUNT: u64 = 4000;
/// Points of streams side by side that take as long as one run of the quick series.
const STREAM_POINTS_OF_RUN: u64 = 10;
/// Memory of a run beside the buffers of its requests.
const REST_BYTES: u64 = 12 << 20;
/// Runs whose buffers exist at a time: those of earlier ones are still known to the kernel.
const POOL_COUNT: usize = 5;
/// The time limit of a run in the papers, which durations of bursts are scaled by.
const PAPER_RUN: Nanos = Nanos::from_seconds(30);

/// Texts that the user named, read before anything is opened.
pub(super) struct Sources {
    plan: Option<Plan>,
    job: Option<(String, String)>,
}

impl Sources {
    pub(super) fn read(arguments: &ProbeArguments) -> Result<Self, Failure> {
        let name = |path: &Path| path.display().to_string();
        let plan = match &arguments.plan {
            Some(path) => Some(Plan::from_toml(&name(path), &read_file(path)?)?),
            None => None,
        };
        let job = match &arguments.job {
            Some(path) => Some((name(path), read_file(path)?)),
            None => None,
        };
        let writes = plan.as_ref().is_some_and(Plan::destroys_data);
        if arguments.read_only && writes {
            return Err(Failure::input(
                "the plan writes; leave --read-only out or change the plan",
            ));
        }
        Ok(Self { plan, job })
    }
}

/// Everything to measure, in this order.
pub(super) struct Work {
    pub(super) name: String,
    pub(super) plans: Vec<Plan>,
    pub(super) bursts: Vec<BurstOptions>,
    pub(super) endurance: Option<EnduranceOptions>,
    pub(super) steady_state: Option<SteadyStateWork>,
    /// Of the quick series, if a profile is wanted.
    pub(super) streams: Option<StreamOptions>,
}

impl Work {
    /// The work for a device, checked against it, and what its author should know.
    pub(super) fn of(
        arguments: &ProbeArguments,
        target: &Target,
        sources: &Sources,
        info: &DeviceInfo,
    ) -> Result<(Self, Vec<String>), Failure> {
        let mut notes = Vec::new();
        let (bursts, endurance, steady_state, streams) = (Vec::new(), None, None, None);
        let mut work = if let Some(plan) = &sources.plan {
            let name = format!("plan {}", plan.name);
            let plans = vec![plan.clone()];
            Self { name, plans, bursts, endurance, steady_state, streams }
        } else if let Some((file, text)) = &sources.job {
            let path = if arguments.buffered { CachePath::Through } else { CachePath::Past };
            let jobs = parse_fio_job(file, text, info, path)?;
            notes = jobs.notes.iter().map(ToString::to_string).collect();
            let plans = vec![Plan { name: file.clone(), steps: jobs.steps }];
            let name = format!("fio job {file}");
            Self { name, plans, bursts, endurance, steady_state, streams }
        } else {
            Self::of_series(arguments, target, info)?
        };
        if arguments.cold {
            let steps = work.plans.iter_mut().flat_map(|plan| &mut plan.steps);
            steps.for_each(|step| step.prepare.push(Preparation::EmptyCache {}));
        }
        for plan in &work.plans {
            plan.validate(info)?;
            if arguments.read_only && plan.destroys_data() {
                return Err(Failure::input("some job writes; leave --read-only out"));
            }
        }
        work.check_memory(info)?;
        if work.step_count(info) == 0 {
            return Err(Failure::input(
                "no request size fits the device; choose others with --request-bytes",
            ));
        }
        Ok((work, notes))
    }

    fn of_series(
        arguments: &ProbeArguments,
        target: &Target,
        info: &DeviceInfo,
    ) -> Result<Self, Failure> {
        let is_virtual = info.time_source == TimeSource::Virtual;
        let simulated_count = is_virtual.then_some(SIMULATED_REQUEST_COUNT);
        let request_count = arguments.request_count.or(simulated_count);
        // Scratch files and arrays of files were filled when they were made.
        let fill = !matches!(target, Target::Scratch(_) | Target::Array(_));
        let series = SeriesOptions {
            request_bytes_min: arguments.request_bytes.iter().copied().min(),
            request_bytes_max: arguments.request_bytes.iter().copied().max(),
            duration: arguments.duration,
            request_count,
            seed: arguments.seed,
            ..SeriesOptions::default()
        };
        let (mut bursts, mut endurance, mut steady_state) = (Vec::new(), None, None);
        let plans = match arguments.series {
            SeriesKind::Quick => {
                vec![series_quick(info, &quick_options(arguments, request_count, fill))]
            }
            SeriesKind::S000 => vec![reads_only(series_s000(info, &series), arguments)],
            SeriesKind::S002 if arguments.read_only => {
                vec![reads_only(series_s002(info, &series), arguments)]
            }
            SeriesKind::S002 => {
                bursts = burst_options(arguments, request_count);
                let options = MisalignmentOptions { series: series.clone(), ..Default::default() };
                vec![series_s002(info, &series), series_misalignment(info, &options)]
            }
            SeriesKind::SteadyState => {
                steady_state = Some(SteadyStateWork::of(arguments, target, info)?);
                Vec::new()
            }
            SeriesKind::Endurance => {
                let (force, seed) = (arguments.force, arguments.seed);
                endurance = Some(EnduranceOptions { force, seed, ..EnduranceOptions::default() });
                Vec::new()
            }
        };
        let name = arguments.series.name().into();
        let is_quick = arguments.series == SeriesKind::Quick;
        let streams = (is_quick && arguments.profile.is_some()).then(|| stream_options(arguments));
        Ok(Self { name, plans, bursts, endurance, steady_state, streams })
    }

    /// Refuses requests whose buffers this process can never have.
    fn check_memory(&self, info: &DeviceInfo) -> Result<(), Failure> {
        if !info.needs_buffers {
            return Ok(());
        }
        let of_step = |step: &Step| -> Vec<u64> {
            let pattern = &step.pattern;
            let directions = u64::from(pattern.read_percent > 0) + u64::from(pattern.writes());
            // One more keeps the memory of the others.
            let count = directions.saturating_mul(pattern.queue_depth.into()) + 1;
            let sizes = step.sizes(info).into_iter();
            sizes.map(|size| size.saturating_mul(count).saturating_add(2 << 20)).collect()
        };
        let steps = self.plans.iter().flat_map(|plan| &plan.steps);
        let mut pools: Vec<u64> = steps.flat_map(of_step).collect();
        pools.sort_unstable_by(|left, right| right.cmp(left));
        pools.truncate(POOL_COUNT);
        let needed = pools.into_iter().fold(REST_BYTES, u64::saturating_add);
        let advice =
            "choose smaller --request-bytes or --queue-depth, or raise its limit (ulimit -v)";
        check_possible(ByteCount(needed), "the requests of the longest queues", advice)
    }

    /// Whether a page cache is emptied in between.
    pub(super) fn empties_cache(&self) -> bool {
        self.plans.iter().any(Plan::empties_cache)
    }

    /// How many results there will be, at least.
    pub(super) fn step_count(&self, info: &DeviceInfo) -> usize {
        let steps = self.plans.iter().flat_map(|plan| &plan.steps);
        let of_plans: usize = steps.map(|step| step.sizes(info).len()).sum();
        let of_rounds = self.steady_state.as_ref().map_or(0, |_| SteadyStateWork::STEP_COUNT);
        let alone = usize::from(self.endurance.is_some()) + usize::from(self.streams.is_some());
        of_plans + self.bursts.len() + alone + of_rounds
    }
}

/// Many short points: each a tenth of a run.
fn stream_options(arguments: &ProbeArguments) -> StreamOptions {
    let run = arguments.duration.unwrap_or_else(|| QuickOptions::default().duration);
    let duration = Nanos(run.0 / STREAM_POINTS_OF_RUN);
    StreamOptions { duration, writes: !arguments.read_only, seed: arguments.seed }
}

fn quick_options(
    arguments: &ProbeArguments,
    request_count: Option<u64>,
    fill: bool,
) -> QuickOptions {
    let mut options = QuickOptions {
        queue_depths: arguments.queue_depth.clone(),
        request_count,
        fill,
        writes: !arguments.read_only,
        seed: arguments.seed,
        ..QuickOptions::default()
    };
    if !arguments.request_bytes.is_empty() {
        options.request_bytes.clone_from(&arguments.request_bytes);
    }
    if let Some(duration) = arguments.duration {
        options.duration = duration;
    }
    options
}

/// S002's bursts, as much shorter as `--duration` is shorter than the paper's runs.
fn burst_options(arguments: &ProbeArguments, request_count: Option<u64>) -> Vec<BurstOptions> {
    let mut bursts = BurstOptions::standard();
    let run = arguments.duration.unwrap_or(PAPER_RUN);
    let scaled = |time: Nanos| {
        let nanos = u128::from(time.0) * u128::from(run.0) / u128::from(PAPER_RUN.0);
        Nanos(u64::try_from(nanos).unwrap_or(u64::MAX).max(1))
    };
    for burst in &mut bursts {
        (burst.burst, burst.phase) = (scaled(burst.burst), scaled(burst.phase));
        (burst.request_count, burst.seed) = (request_count, arguments.seed);
    }
    bursts
}

/// The plan without what writes, where only reading is allowed.
fn reads_only(mut plan: Plan, arguments: &ProbeArguments) -> Plan {
    if arguments.read_only {
        plan.steps.retain(|step| !step.pattern.writes());
        plan.steps.iter_mut().for_each(|step| step.prepare.clear());
    }
    plan
}
