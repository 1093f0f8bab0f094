//! Runs patterns and preparations on a device and sums up what happened.
//!
//! 1. A run that fails or is cancelled leaves nothing in flight.
//! 2. On a virtual device equal seeds give equal results, bit for bit.

use crate::ProbeError;
use crate::io_loop::{IoLoop, RunCounts, RunOrder};
use crate::pattern::{Access, Area, Limit, Pattern};
use crate::plan::Preparation;
use nandu_base::{ByteCount, LatencySummary, Nanos};
use nandu_device::{Device, Operation, Request, TimeSource};
use serde::{Deserialize, Serialize};

/// Sectors of one trim: large enough to be few, small enough to be cancelled.
const TRIM_BYTES: u64 = 1 << 30;
/// Requests in flight while a device is filled.
const FILL_QUEUE_DEPTH: u32 = 8;

/// Somebody who watches and may stop a run.
pub trait Observer {
    /// How far `what` is, from 0 to 1. Called a few times per second at least.
    fn progress(&mut self, fraction: f64, what: &str);
    /// Whether to stop as soon as the requests in flight are done.
    fn is_cancelled(&self) -> bool;
}

/// An observer whom nothing is shown and who never stops a run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn progress(&mut self, _fraction: f64, _what: &str) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Bytes in one period of a run.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimelinePoint {
    /// Where the period begins, in seconds since the start of the run.
    pub second: f64,
    /// Bytes read and written in it. Periods without any are left out.
    pub byte_count: u64,
}

/// One run of a pattern.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// Reads and writes that completed.
    pub request_count: u64,
    /// Bytes that they moved.
    pub byte_count: u64,
    /// From the start to the last completion.
    pub elapsed: Nanos,
    /// Processor time of the whole process meanwhile, start and end of the loop left out; only where
    /// the device is real.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub processor_time: Option<Nanos>,
    /// Latencies of reads.
    pub read: LatencySummary,
    /// Latencies of writes.
    pub write: LatencySummary,
    /// Latencies of flushes.
    pub flush: LatencySummary,
    /// Bytes over elapsed time.
    pub bytes_per_second: f64,
    /// Requests over elapsed time.
    pub iops: f64,
    /// Length of a period of the timeline: the pattern's, or doubled until 4096 points suffice.
    pub timeline_period: Nanos,
    /// Throughput over time.
    pub timeline: Vec<TimelinePoint>,
}

impl RunResult {
    fn of(counts: &RunCounts, io: &IoLoop<'_>) -> Self {
        let seconds = counts.elapsed.as_seconds_f64();
        let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
        let (timeline_period, timeline) = io.timeline.points();
        Self {
            request_count: counts.request_count,
            byte_count: counts.byte_count,
            elapsed: counts.elapsed,
            processor_time: counts.processor_time,
            read: io.reads.summary(),
            write: io.writes.summary(),
            flush: io.flushes.summary(),
            bytes_per_second: rate(counts.byte_count),
            iops: rate(counts.request_count),
            timeline_period,
            timeline,
        }
    }

    /// The latencies of what the pattern is about: reads where there are any, else writes.
    #[must_use]
    pub const fn main_latency(&self) -> &LatencySummary {
        if self.read.count > 0 { &self.read } else { &self.write }
    }
}

/// The medians of reads or writes alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DirectionMedians {
    /// Bytes per second of these requests alone.
    pub bytes_per_second: f64,
    /// These requests per second.
    pub iops: f64,
    /// Their mean latency in ns.
    pub latency_mean_ns: f64,
    /// Their median latency in ns.
    pub latency_p50_ns: f64,
    /// Their 99th percentile of latency in ns.
    pub latency_p99_ns: f64,
}

impl DirectionMedians {
    /// Of the requests whose latencies `of` gives; `None` where there were none.
    fn of(runs: &[RunResult], of: fn(&RunResult) -> &LatencySummary) -> Option<Self> {
        if runs.iter().all(|run| of(run).count == 0) {
            return None;
        }
        let over = |figure: &dyn Fn(&RunResult) -> f64| median(runs.iter().map(figure).collect());
        // Requests of a pattern are all of one size.
        let share = |run: &RunResult| of(run).count as f64 / run.request_count.max(1) as f64;
        Some(Self {
            bytes_per_second: over(&|run| run.bytes_per_second * share(run)),
            iops: over(&|run| run.iops * share(run)),
            latency_mean_ns: over(&|run| of(run).mean),
            latency_p50_ns: over(&|run| of(run).p50 as f64),
            latency_p99_ns: over(&|run| of(run).p99 as f64),
        })
    }
}

/// The median over the runs of a pattern, figure by figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Medians {
    /// Throughput of reads and writes together.
    pub bytes_per_second: f64,
    /// Reads and writes per second, together.
    pub iops: f64,
    /// Mean latency of reads, or of writes where nothing is read, in ns.
    pub latency_mean_ns: f64,
    /// Median latency, likewise.
    pub latency_p50_ns: f64,
    /// 99th percentile of latency, likewise.
    pub latency_p99_ns: f64,
    /// Elapsed time over requests, in ns: the time that a request costs a queue of this depth.
    pub time_per_request_ns: f64,
    /// Largest less smallest throughput over the median throughput.
    pub spread: f64,
    /// Reads alone, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read: Option<DirectionMedians>,
    /// Writes alone, where there were any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub write: Option<DirectionMedians>,
}

impl Medians {
    fn of(runs: &[RunResult]) -> Self {
        let over = |figure: &dyn Fn(&RunResult) -> f64| median(runs.iter().map(figure).collect());
        let rates = runs.iter().map(|run| run.bytes_per_second);
        let fastest = rates.clone().fold(0.0, f64::max);
        let slowest = rates.fold(f64::INFINITY, f64::min);
        let bytes_per_second = over(&|run| run.bytes_per_second);
        let spread =
            if bytes_per_second > 0.0 { (fastest - slowest) / bytes_per_second } else { 0.0 };
        Self {
            bytes_per_second,
            iops: over(&|run| run.iops),
            latency_mean_ns: over(&|run| run.main_latency().mean),
            latency_p50_ns: over(&|run| run.main_latency().p50 as f64),
            latency_p99_ns: over(&|run| run.main_latency().p99 as f64),
            time_per_request_ns: over(&|run| {
                run.elapsed.0 as f64 / run.request_count.max(1) as f64
            }),
            spread,
            read: DirectionMedians::of(runs, |run| &run.read),
            write: DirectionMedians::of(runs, |run| &run.write),
        }
    }
}

/// The middle value, or the mean of the two in the middle; 0 of nothing.
#[must_use]
pub fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[middle],
        _ => f64::midpoint(values[middle - 1], values[middle]),
    }
}

/// All runs of a pattern on one device.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PatternResult {
    /// The device's name.
    pub device: String,
    /// What was run.
    pub pattern: Pattern,
    /// What each repetition measured, in the order of the runs.
    pub runs: Vec<RunResult>,
    /// The median over the repetitions.
    pub medians: Medians,
}

impl PatternResult {
    /// Sums up `runs` of `pattern` on the device called `device`.
    #[must_use]
    pub fn new(device: String, pattern: Pattern, runs: Vec<RunResult>) -> Self {
        let medians = Medians::of(&runs);
        Self { device, pattern, runs, medians }
    }

    /// The last run took `time` more, until what it wrote was on the medium.
    pub(crate) fn add_to_last_run(&mut self, time: Nanos) {
        if let Some(run) = self.runs.last_mut() {
            run.elapsed += time;
            let seconds = run.elapsed.as_seconds_f64();
            let rate = |amount: u64| if seconds > 0.0 { amount as f64 / seconds } else { 0.0 };
            run.bytes_per_second = rate(run.byte_count);
            run.iops = rate(run.request_count);
        }
        self.medians = Medians::of(&self.runs);
    }
}

/// Runs `pattern` as often as it says.
///
/// # Errors
/// Where the pattern does not fit the device, a request fails, or the observer cancels.
pub fn run_pattern(
    device: &mut dyn Device,
    pattern: &Pattern,
    observer: &mut dyn Observer,
) -> Result<PatternResult, ProbeError> {
    pattern.validate(device.info())?;
    let mut io = IoLoop::new(pattern, device);
    let mut runs = Vec::with_capacity(pattern.repetitions as usize);
    let progress_share = 1.0 / f64::from(pattern.repetitions);
    for repetition in 0..pattern.repetitions {
        let progress_base = f64::from(repetition) * progress_share;
        let order = RunOrder { repetition, from_start: false, progress_base, progress_share };
        let counts = io.run(device, order, observer)?;
        runs.push(RunResult::of(&counts, &io));
    }
    Ok(PatternResult::new(device.info().name.clone(), pattern.clone(), runs))
}

/// Brings the device into the state that `preparation` describes. Returns how long it took, in the
/// device's time. A trim does nothing on a device that has none.
///
/// # Errors
/// Where the preparation does not fit the device, a request fails, or the observer cancels.
pub fn prepare(
    device: &mut dyn Device,
    preparation: &Preparation,
    observer: &mut dyn Observer,
) -> Result<Nanos, ProbeError> {
    let start = device.now();
    match preparation {
        Preparation::SequentialFill { request_bytes, area, data, passes } => {
            for pass in 0..*passes {
                let mut pattern =
                    Pattern::new(Access::Sequential, 0, request_bytes.0, Limit::default());
                (pattern.area, pattern.data, pattern.seed) = (*area, *data, u64::from(pass));
                fill(device, pattern, 100, observer)?;
            }
        }
        Preparation::RandomFill { request_bytes, area, data, percent, seed } => {
            let mut pattern = Pattern::new(Access::Random, 0, request_bytes.0, Limit::default());
            (pattern.area, pattern.data, pattern.seed) = (*area, *data, *seed);
            fill(device, pattern, *percent, observer)?;
        }
        Preparation::Trim { area } => trim(device, *area, observer)?,
        Preparation::EmptyCache {} => empty_cache(device)?,
        Preparation::Idle { duration } => idle(device, *duration, observer)?,
    }
    if preparation.destroys_data() {
        settle(device)?;
    }
    Ok(device.now().saturating_sub(start))
}

/// Empties the page cache before `device`.
///
/// # Errors
/// [`ProbeError::Refused`] where there is none, and what the system says.
pub fn empty_cache(device: &mut dyn Device) -> Result<(), ProbeError> {
    let name = device.info().name.clone();
    let refused = |why: String| Err(ProbeError::Refused { message: why });
    match device.empty_cache() {
        Ok(true) => Ok(()),
        Ok(false) => refused(format!(
            "{name}: there is no page cache to empty: requests go past it; measure with --buffered"
        )),
        Err(error) => refused(format!("{name}: its page cache cannot be emptied: {error}")),
    }
}

/// Waits until what was written is on the medium, so that the next request does not; answers how long
/// that took. A cache that survives a power cut is not emptied by a flush, nor can one see from outside
/// when it is.
pub(crate) fn settle(device: &mut dyn Device) -> Result<Nanos, ProbeError> {
    let at = device.now();
    let failed = |error| ProbeError::Device {
        label: "a flush of what was written".into(),
        operation: Operation::Flush,
        address: 0,
        byte_count: 0,
        at,
        error,
    };
    device.submit(at, Request::flush(0)).map_err(|rejected| failed(rejected.error))?;
    match device.next_completion(Nanos::MAX).map(|completion| completion.result) {
        Some(Err(error)) => Err(failed(error)),
        _ => Ok(device.now().saturating_sub(at)),
    }
}

/// Writes `percent` of all slots of `pattern`, whose limit is still open, and what a sequential fill
/// leaves over at the end.
fn fill(
    device: &mut dyn Device,
    mut pattern: Pattern,
    percent: u32,
    observer: &mut dyn Observer,
) -> Result<(), ProbeError> {
    let info = device.info();
    let capacity = info.geometry.capacity();
    let length = pattern.area.length_on(capacity);
    pattern.request_bytes = pattern.request_bytes.min(length);
    pattern.queue_depth = FILL_QUEUE_DEPTH.min(info.queue_depth_max);
    let slot_count = pattern.slot_count(info);
    let request_count = u128::from(slot_count) * u128::from(percent) / 100;
    let request_count = u64::try_from(request_count).unwrap_or(u64::MAX);
    pattern.limit = Limit::requests(request_count.max(1));
    pattern.label = match pattern.access {
        Access::Sequential => "sequential fill".into(),
        Access::Random => "random fill".into(),
    };
    let whole = slot_count * pattern.request_bytes.0;
    run_fill(device, &pattern, observer)?;
    let rest = length.saturating_sub(ByteCount(whole));
    if pattern.access == Access::Sequential && rest > ByteCount::ZERO {
        let start = pattern.area.start + ByteCount(whole);
        pattern.area = Area { start, length: Some(rest) };
        (pattern.request_bytes, pattern.limit) = (rest, Limit::requests(1));
        run_fill(device, &pattern, observer)?;
    }
    Ok(())
}

fn run_fill(
    device: &mut dyn Device,
    pattern: &Pattern,
    observer: &mut dyn Observer,
) -> Result<(), ProbeError> {
    pattern.validate(device.info())?;
    let order =
        RunOrder { repetition: 0, from_start: true, progress_base: 0.0, progress_share: 1.0 };
    IoLoop::new(pattern, device).run(device, order, observer).map(|_| ())
}

fn trim(
    device: &mut dyn Device,
    area: Area,
    observer: &mut dyn Observer,
) -> Result<(), ProbeError> {
    let info = device.info().clone();
    if !info.supports_trim {
        return Ok(());
    }
    let sector_bytes = u64::from(info.geometry.sector_bytes);
    let capacity = info.geometry.capacity();
    let first = area.start.0 / sector_bytes;
    let end = area.start.saturating_add(area.length_on(capacity)).min(capacity).0 / sector_bytes;
    let step = TRIM_BYTES / sector_bytes;
    let mut sector = first;
    while sector < end {
        let count = step.min(end - sector);
        let failure = |at: Nanos, error| ProbeError::Device {
            label: "trim".into(),
            operation: Operation::Trim,
            address: sector * sector_bytes,
            byte_count: count * sector_bytes,
            at,
            error,
        };
        let request = Request::trim(0, sector, nandu_base::to_u32(count));
        device
            .submit(device.now(), request)
            .map_err(|rejected| failure(device.now(), rejected.error))?;
        let completion = device.next_completion(Nanos::MAX).expect("a trim in flight completes");
        completion.result.map_err(|error| failure(completion.completed_at, error))?;
        sector += count;
        observer.progress((sector - first) as f64 / (end - first) as f64, "trim");
        if observer.is_cancelled() {
            return Err(ProbeError::Cancelled);
        }
    }
    Ok(())
}

fn idle(
    device: &mut dyn Device,
    duration: Nanos,
    observer: &mut dyn Observer,
) -> Result<(), ProbeError> {
    let start = device.now();
    let end = start.saturating_add(duration);
    if end > Nanos::HORIZON {
        let what = "idle for so long: the run passes 292 years, where virtual time ends";
        return Err(ProbeError::Refused { message: format!("{what}; let the device idle less") });
    }
    // On a real device the user may lose patience; virtual time passes at once.
    let slice = match device.info().time_source {
        TimeSource::Wall => Nanos::from_millis(100),
        TimeSource::Virtual => duration,
    };
    let mut now = start;
    while now < end {
        now = device.idle_until(now.saturating_add(slice).min(end));
        let passed = now.saturating_sub(start).0 as f64 / duration.0 as f64;
        observer.progress(passed.min(1.0), "idle");
        if observer.is_cancelled() {
            return Err(ProbeError::Cancelled);
        }
    }
    Ok(())
}
