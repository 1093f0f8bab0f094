//! Sequential writes after bursts of random writes: S002 section 3.3.3 and appendix C, by
//! [`nandu_probe::burst`].
//!
//! One step for each drive, length of burst and size of its random writes: `burstN` bursts of N
//! seconds with the size of the sequential writes, `smallN` with `small_burst_bytes`. What follows a
//! burst instead, such as reads, is a step of its own: `burstN.random_read`. Series of `DRIVE.STEP`, by
//! request size of the sequential writes:
//!
//! - `median_ratio`: the median phase after the burst over the phase before it;
//! - `first_ratio`: the first phase after the burst over the phase before it;
//! - `recovery_s`: until a phase reaches 60 % of the median phase;
//! - `regain_s`: until a phase reaches 60 % of the phase before the burst; all phases if none does;
//! - `timeline`, by seconds since the burst, at `timeline_request_bytes`: phase by phase, in MB/s.

use super::Measurement;
use super::bench::{AccessPattern, Bench};
use super::drive::{DriveVariant, Drives, check_drives, on_drive, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos};
use nandu_probe::burst::RECOVERED_SHARE;
use nandu_probe::{BurstOptions, BurstResult, run_burst, text};
use serde::{Deserialize, Serialize};

/// The keys of an experiment of the kind `burst`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burst {
    /// The drives that are measured.
    pub drives: Drives,
    /// Capacity that they are scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Sizes of the sequential writes.
    #[serde(deserialize_with = "text::sizes")]
    pub request_bytes: Vec<ByteCount>,
    /// How long the bursts last, in seconds.
    pub burst_seconds: Vec<u64>,
    /// Size of the random writes of `smallN`; there are none of these where absent.
    #[serde(default, deserialize_with = "text::optional_size")]
    pub small_burst_bytes: Option<ByteCount>,
    /// What follows a burst, and is measured before it too.
    #[serde(default = "sequential_writes")]
    pub after: Vec<AccessPattern>,
    /// Phases of sequential writes after a burst.
    #[serde(default = "thirty")]
    pub phase_count: u32,
    /// How long each lasts, in seconds.
    #[serde(default = "four")]
    pub phase_seconds: u64,
    /// The size whose phases are shown one by one; one of `request_bytes`.
    #[serde(deserialize_with = "text::size")]
    pub timeline_request_bytes: ByteCount,
}

fn sequential_writes() -> Vec<AccessPattern> {
    vec![AccessPattern::SequentialWrite]
}

const fn thirty() -> u32 {
    30
}

const fn four() -> u64 {
    4
}

/// Series of a step, by request size, with their units.
const BY_SIZE: [(&str, &str); 4] =
    [("median_ratio", ""), ("first_ratio", ""), ("recovery_s", "s"), ("regain_s", "s")];

struct BurstStep<'a> {
    drive: (&'a str, &'a DriveVariant),
    seconds: u64,
    burst_bytes: Option<ByteCount>,
    after: AccessPattern,
    stem: String,
}

impl Burst {
    fn each_step(&self) -> Vec<BurstStep<'_>> {
        let mut kinds = vec![("burst", None)];
        kinds.extend(self.small_burst_bytes.map(|bytes| ("small", Some(bytes))));
        let mut bursts = Vec::new();
        for drive in &self.drives {
            for &kind in &kinds {
                bursts.extend(self.burst_seconds.iter().map(|&seconds| (drive, kind, seconds)));
            }
        }
        let mut steps = Vec::new();
        for ((name, variant), (kind, burst_bytes), seconds) in bursts {
            for &after in &self.after {
                let mut stem = format!("{name}.{kind}{seconds}");
                if after != AccessPattern::SequentialWrite {
                    stem = format!("{stem}.{}", after.label());
                }
                let drive = (name.as_str(), variant);
                steps.push(BurstStep { drive, seconds, burst_bytes, after, stem });
            }
        }
        steps
    }
}

fn empty_series(stem: &str) -> Vec<Series> {
    let of = |(suffix, unit): &(&str, &str)| Series::new(format!("{stem}.{suffix}"), "B", unit);
    let mut series: Vec<Series> = BY_SIZE.iter().map(of).collect();
    series.push(Series::new(format!("{stem}.timeline"), "s", "MB/s"));
    series
}

/// From the end of the burst to the first phase that reaches 60 % of the phase before it.
fn regain_time(result: &BurstResult) -> Nanos {
    let enough = RECOVERED_SHARE * result.before.medians.bytes_per_second;
    let slow = result.phases.runs.iter().take_while(|run| run.bytes_per_second < enough);
    slow.map(|run| run.elapsed).sum()
}

impl Measurement for Burst {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        if self.request_bytes.is_empty() || self.request_bytes.contains(&ByteCount::ZERO) {
            return Err("`request_bytes` needs at least one size, each above 0".into());
        }
        if self.burst_seconds.is_empty() || self.burst_seconds.contains(&0) {
            return Err("`burst_seconds` needs at least one length, each above 0".into());
        }
        if self.after.is_empty() {
            return Err("`after` is empty; sequential_write is what S002 measured".into());
        }
        if self.phase_count == 0 || self.phase_seconds == 0 {
            return Err("`phase_count` and `phase_seconds` must be above 0".into());
        }
        if self.request_bytes.contains(&self.timeline_request_bytes) {
            Ok(())
        } else {
            Err("`timeline_request_bytes` is none of `request_bytes`".into())
        }
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        vec![self.each_step()[index].drive.1.base.clone()]
    }

    fn series_names(&self) -> Vec<String> {
        let steps = self.each_step();
        let all = steps.iter().flat_map(|step| empty_series(&step.stem));
        all.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.each_step().into_iter().map(|step| step.stem).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let steps = self.each_step();
        let BurstStep { drive, seconds, burst_bytes, after, stem } = &steps[index];
        let mut series = empty_series(stem);
        for &size in &self.request_bytes {
            let options = BurstOptions {
                burst: Nanos::from_seconds(*seconds),
                burst_request_bytes: burst_bytes.unwrap_or(size),
                request_bytes: size,
                access: after.access(),
                read_percent: after.read_percent(),
                phase_count: self.phase_count,
                phase: Nanos::from_seconds(self.phase_seconds),
                ..BurstOptions::default()
            };
            let result = on_drive(bench, stem, *drive, self.capacity, |subject| {
                let options = BurstOptions { seed: subject.seed, ..options };
                run_burst(subject.device, &options, &mut *subject.observer)
            })?;
            let before = result.before.medians.bytes_per_second.max(f64::MIN_POSITIVE);
            let values = [
                result.median_bytes_per_second / before,
                result.first_phase_ratio,
                result.recovery_time.as_seconds_f64(),
                regain_time(&result).as_seconds_f64(),
            ];
            for (series, value) in series.iter_mut().zip(values) {
                series.points.push((size.0 as f64, value));
            }
            if size == self.timeline_request_bytes {
                let phases = result.phases.runs.iter().zip(1_u32..);
                let end = |number: u32| f64::from(number) * self.phase_seconds as f64;
                let points = phases.map(|(run, number)| (end(number), run.bytes_per_second / 1e6));
                series[BY_SIZE.len()].points = points.collect();
            }
        }
        Ok(series)
    }
}
