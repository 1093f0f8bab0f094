//! The steady-state series: 4 KiB random writes in rounds until SNIA's rule holds (Solid State
//! Storage Performance Test Specification 2.0.2, 2020; the rule is in `nandu_probe`).
//!
//! ```text
//!   write the capacity twice ─► round 0 ─► round 1 ─► … ─► round n     n < 25
//!                                              └── window of five ──┘ agree: reached
//! ```
//!
//! 1. Only the rounds of the window enter the profile, whether or not the steady state was reached.
//! 2. A window of simulated rounds writes about as much as the drive holds, within the bounds below:
//!    a shorter one would take writes into spare erase blocks for the steady state. How much was
//!    written is reported, since a drive with more spare or cache than that may still deceive.

use super::ProbeArguments;
use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use nandu_base::units::three_digits;
use nandu_base::{ByteCount, Nanos};
use nandu_device::{Device, DeviceInfo, TimeSource};
use nandu_drives::target::Target;
use nandu_probe::table::{Table, rate, throughput, time};
use nandu_probe::{
    Access, Area, DataKind, Limit, Pattern, PatternResult, Preparation, ProbeError, SteadyState,
    SteadyStateOptions, prepare, run_until_steady,
};
use serde::Serialize;

/// The request that SNIA's rule tracks.
const REQUEST_BYTES: ByteCount = ByteCount::kib(4);
/// How long a round of SNIA's test lasts.
const ROUND: Nanos = Nanos::from_seconds(60);
/// Bounds of a simulated round, so that the series takes seconds on drives of any size.
const SIMULATED_REQUESTS_MIN: u64 = 500;
const SIMULATED_REQUESTS_MAX: u64 = 30_000;

/// The rounds to run and what comes before them.
pub(super) struct SteadyStateWork {
    pattern: Pattern,
    preparation: Preparation,
    options: SteadyStateOptions,
}

/// What the rounds showed.
#[derive(Debug, Serialize)]
pub(super) struct SteadyStateReport {
    options: SteadyStateOptions,
    /// Requests per second of every round.
    rounds_iops: Vec<f64>,
    /// Over the window.
    iops_mean: f64,
    /// By all rounds, without the fill before them.
    written_bytes: u64,
    /// The same over the capacity.
    written_share: f64,
    /// The rule's verdict; its values are bytes per second.
    pub(super) state: SteadyState,
}

impl SteadyStateWork {
    /// Filling and the rounds.
    pub(super) const STEP_COUNT: usize = 2;

    /// The rounds for a device, checked against it.
    pub(super) fn of(
        arguments: &ProbeArguments,
        target: &Target,
        info: &DeviceInfo,
    ) -> Result<Self, Failure> {
        let options = SteadyStateOptions::default();
        let request = arguments.request_bytes.iter().copied().min().unwrap_or(REQUEST_BYTES);
        let deepest = arguments.queue_depth.iter().copied().max().unwrap_or(1);
        let mut pattern = Pattern::new(Access::Random, 0, request.0, Limit::default());
        pattern.queue_depth = deepest.clamp(1, info.queue_depth_max.max(1));
        pattern.seed = arguments.seed;
        let slots = info.geometry.capacity().0 / request.0.max(1);
        let share = slots / options.window_rounds as u64;
        pattern.limit = if info.time_source == TimeSource::Virtual {
            let fitting = share.clamp(SIMULATED_REQUESTS_MIN, SIMULATED_REQUESTS_MAX);
            let request_count = arguments.request_count.unwrap_or(fitting);
            Limit { request_count: Some(request_count), duration: arguments.duration }
        } else {
            let duration = Some(arguments.duration.unwrap_or(ROUND));
            Limit { request_count: arguments.request_count, duration }
        };
        pattern.validate(info)?;
        // Scratch files and arrays of files were filled once when they were made.
        let passes = if matches!(target, Target::Scratch(_) | Target::Array(_)) { 1 } else { 2 };
        let preparation = Preparation::SequentialFill {
            request_bytes: ByteCount::mib(1),
            area: Area::default(),
            data: DataKind::Random,
            passes,
        };
        Ok(Self { pattern, preparation, options })
    }

    /// Fills the device and runs the rounds, in [`Self::STEP_COUNT`] steps.
    pub(super) fn run(
        &self,
        device: &mut dyn Device,
        progress: &mut Progress,
    ) -> Result<(PatternResult, SteadyStateReport), ProbeError> {
        prepare(device, &self.preparation, progress)?;
        progress.step_done();
        let (result, state) = run_until_steady(device, &self.pattern, &self.options, progress)?;
        progress.step_done();
        let rounds_iops: Vec<f64> = result.runs.iter().map(|run| run.iops).collect();
        let window = &rounds_iops[state.first_round..][..state.window.len()];
        let iops_mean = window.iter().sum::<f64>() / window.len().max(1) as f64;
        let written_bytes = result.runs.iter().map(|run| run.byte_count).sum::<u64>();
        let written_share = written_bytes as f64 / device.info().geometry.capacity().0 as f64;
        let options = self.options;
        let report = SteadyStateReport {
            options,
            rounds_iops,
            iops_mean,
            written_bytes,
            written_share,
            state,
        };
        Ok((result, report))
    }
}

impl SteadyStateReport {
    /// The rounds of the window alone, which are what is compared between devices.
    pub(super) fn window_of(&self, result: &PatternResult) -> PatternResult {
        let runs = result.runs[self.state.first_round..][..self.state.window.len()].to_vec();
        PatternResult::new(result.device.clone(), result.pattern.clone(), runs)
    }

    /// Prints the rounds, the limits and the verdict.
    pub(super) fn print(&self, result: &PatternResult, context: &Context) -> Result<(), Failure> {
        let (output, state, options) = (context.output, &self.state, &self.options);
        output.heading(&format!("Rounds of {}", result.pattern.name()))?;
        let mut table = Table::new(&[">round", ">IOPS", ">throughput", ">p99", "window"]);
        let window = state.first_round..state.first_round + state.window.len();
        for (round, run) in result.runs.iter().enumerate() {
            table.row(vec![
                (round + 1).to_string(),
                rate(run.iops),
                throughput(run.bytes_per_second),
                time(run.main_latency().p99 as f64),
                if window.contains(&round) { "*".into() } else { String::new() },
            ]);
        }
        output.table(&table)?;
        output.heading("Steady state (SNIA PTS 2.0.2)")?;
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let mut limits = Table::new(&["over the window", ">measured", ">limit", "holds"]);
        let rules = [
            ("excursion: largest less smallest", state.excursion, options.excursion_max),
            ("slope: rise of the fitted line", state.rise, options.rise_max),
        ];
        for (name, share, limit) in rules {
            let holds = if share.abs() <= limit { "yes" } else { "no" };
            limits.row(vec![name.into(), percent(share), percent(limit), holds.into()]);
        }
        output.table(&limits)?;
        let rounds = result.runs.len();
        let verdict = if state.reached {
            let (first, last) = (window.start + 1, window.end);
            let mean = rate(self.iops_mean);
            format!("reached in rounds {first} to {last} of {rounds}, at {mean} IOPS on average")
        } else {
            format!("not reached after {rounds} rounds")
        };
        output.line(&output.verdict(state.reached, &verdict))?;
        let written = ByteCount(self.written_bytes);
        let share = three_digits(self.written_share);
        output.line(&format!("the rounds wrote {written}, {share} times the capacity"))
    }
}
