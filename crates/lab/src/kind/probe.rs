//! Access patterns over request sizes on several devices: S000 chapter 3 and S002 section 3.3.
//!
//! One step for each device, pattern and queue depth. Series, by request size in bytes:
//! `DEVICE.PATTERN` in MB/s, then `.iops` and the latencies `.mean_us` to `.p999_us` of it. A queue depth
//! other than the first puts `.qdN` behind the pattern. `drives` are devices, too: profiles with
//! other values, by the names that they have in series.

use super::bench::{AccessPattern, Bench, PointOrder, Scale, Subject};
use super::drive::{DriveVariant, Drives, targets};
use super::{Measurement, series_prefix};
use crate::error::LabError;
use crate::outcome::Series;
use crate::run::RunObserver;
use nandu_base::ByteCount;
use nandu_probe::runner::median;
use nandu_probe::{PatternResult, text};
use serde::{Deserialize, Serialize};

/// The keys of an experiment of the kind `probe`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Probe {
    /// `sim:NAME`, or `local` for what the user names at the run.
    #[serde(default)]
    pub devices: Vec<String>,
    /// Simulated devices of the experiment's own.
    #[serde(default, skip_serializing_if = "Drives::is_empty")]
    pub drives: Drives,
    /// Which of the four.
    #[serde(default = "all_patterns")]
    pub patterns: Vec<AccessPattern>,
    /// Request sizes; a device leaves out those that are no multiple of its sector.
    #[serde(deserialize_with = "text::sizes")]
    pub request_bytes: Vec<ByteCount>,
    /// Requests in flight.
    #[serde(default = "one_at_a_time")]
    pub queue_depths: Vec<u32>,
    /// How much is measured.
    pub scale: Scale,
}

fn all_patterns() -> Vec<AccessPattern> {
    AccessPattern::ALL.to_vec()
}

fn one_at_a_time() -> Vec<u32> {
    vec![1]
}

/// What stands behind the name of a series in MB/s, with its unit.
const METRICS: [(&str, &str); 6] = [
    ("", "MB/s"),
    (".iops", "1/s"),
    (".mean_us", "us"),
    (".p50_us", "us"),
    (".p99_us", "us"),
    (".p999_us", "us"),
];

/// The series of one pattern on one device, without points.
pub(crate) fn empty_series(stem: &str) -> Vec<Series> {
    let series = |(suffix, unit): &(&str, &str)| Series::new(format!("{stem}{suffix}"), "B", unit);
    METRICS.iter().map(series).collect()
}

/// Adds a point at `x` to series made by [`empty_series`].
pub(crate) fn add_point(series: &mut [Series], x: f64, result: &PatternResult) {
    let medians = &result.medians;
    let values = [
        medians.bytes_per_second / 1e6,
        medians.iops,
        medians.latency_mean_ns / 1e3,
        medians.latency_p50_ns / 1e3,
        medians.latency_p99_ns / 1e3,
        median(result.runs.iter().map(|run| run.main_latency().p999 as f64 / 1e3).collect()),
    ];
    for (series, value) in series.iter_mut().zip(values) {
        series.points.push((x, value));
    }
}

/// What a step measures: a device that is named, or a drive of the experiment.
#[derive(Clone, Copy)]
enum Target<'a> {
    Device(&'a str),
    Drive(&'a str, &'a DriveVariant),
}

struct ProbeStep<'a> {
    target: Target<'a>,
    pattern: AccessPattern,
    queue_depth: u32,
    stem: String,
}

impl Probe {
    fn each_step(&self) -> Vec<ProbeStep<'_>> {
        let mut steps = Vec::new();
        let devices = self.devices.iter().map(|target| Target::Device(target));
        let drives = self.drives.iter().map(|(name, variant)| Target::Drive(name, variant));
        for target in devices.chain(drives) {
            let prefix = match target {
                Target::Device(target) => series_prefix(target),
                Target::Drive(name, _) => name,
            };
            for (position, &queue_depth) in self.queue_depths.iter().enumerate() {
                for &pattern in &self.patterns {
                    let mut stem = format!("{prefix}.{}", pattern.label());
                    if position > 0 {
                        stem.push_str(&format!(".qd{queue_depth}"));
                    }
                    steps.push(ProbeStep { target, pattern, queue_depth, stem });
                }
            }
        }
        steps
    }
}

/// Checks lists that a measurement of devices needs.
///
/// # Errors
/// Names the first key that makes no sense.
pub(crate) fn check_lists(
    devices: &[String],
    request_bytes: &[ByteCount],
    queue_depths: &[u32],
) -> Result<(), String> {
    if devices.is_empty() || request_bytes.is_empty() || queue_depths.is_empty() {
        return Err("`devices`, `request_bytes` and `queue_depths` need at least one each".into());
    }
    for device in devices {
        if device != super::bench::LOCAL && !device.starts_with("sim:") {
            return Err(format!("`{device}` in `devices` is no target; write sim:NAME or local"));
        }
    }
    if request_bytes.contains(&ByteCount::ZERO) || queue_depths.contains(&0) {
        return Err("`request_bytes` and `queue_depths` must be above 0".into());
    }
    Ok(())
}

impl Measurement for Probe {
    fn check(&self) -> Result<(), String> {
        check_lists(&self.targets(), &self.request_bytes, &self.queue_depths)?;
        for (name, variant) in &self.drives {
            variant.profile(name)?;
        }
        self.scale.check()
    }

    fn targets(&self) -> Vec<String> {
        self.devices.iter().cloned().chain(targets(&self.drives)).collect()
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        match self.each_step()[index].target {
            Target::Device(target) => vec![target.to_owned()],
            Target::Drive(_, variant) => vec![variant.base.clone()],
        }
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
        let ProbeStep { target, pattern, queue_depth, stem } = &steps[index];
        let work = |subject: &mut Subject, observer: &mut dyn RunObserver| {
            let mut series = empty_series(stem);
            for request_bytes in subject.accepted_sizes(&self.request_bytes) {
                let order =
                    PointOrder { pattern: *pattern, request_bytes, queue_depth: *queue_depth };
                let result = subject.measure(order, &self.scale, observer)?;
                add_point(&mut series, request_bytes as f64, &result);
            }
            Ok(series)
        };
        match *target {
            Target::Device(target) => {
                Ok(bench.with_device(stem, target, &self.scale, work)?.unwrap_or_default())
            }
            Target::Drive(name, variant) => {
                let profile =
                    variant.profile(name).map_err(|error| LabError::step(stem, &error))?;
                bench.with_profile(stem, &profile, &self.scale, work)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "request_bytes = ['4KiB']\n[scale]\nflash_capacity = '8MiB'\n\
                         request_count = 4\npoint_bytes = '1MiB'\n";

    #[test]
    fn drives_of_the_experiment_stand_beside_profiles() {
        let text = "devices = ['sim:hama']\npatterns = ['random_read']\n".to_owned()
            + SMALL
            + "[drives.slow]\nbase = 'sim:hama'\nset = { ssd = { read_command_ns = 1000000 } }\n";
        let probe: Probe = toml::from_str(&text).unwrap();
        assert_eq!(probe.check(), Ok(()));
        assert_eq!(probe.steps(), ["hama.random_read", "slow.random_read"]);
        assert_eq!(probe.targets(), ["sim:hama", "sim:hama"], "whose profiles decide");
        let wrong: Probe = toml::from_str(&text.replace("read_command_ns", "reed")).unwrap();
        assert!(wrong.check().unwrap_err().contains("drive `slow`"));
    }

    #[test]
    fn a_probe_of_nothing_is_refused() {
        let probe: Probe = toml::from_str(SMALL).unwrap();
        assert!(probe.check().unwrap_err().contains("devices"));
    }
}
