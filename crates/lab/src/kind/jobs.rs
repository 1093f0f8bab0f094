//! Runs of `nandu sim` by one of its settings: whatever that command can do, in curves.
//!
//! ```text
//!   set of all ─ set of the variant ─ key of the sweep = value ─▶ Job ─▶ report ─▶ metrics
//! ```
//!
//! Settings are those of `nandu sim --sweep`: its options, with dashes or underscores, and dotted keys of
//! the profile; later ones replace earlier ones. One step for each variant, with the series
//! `VARIANT.METRIC` by x, which is the value of the sweep or what stands for it in `at`. All runs have
//! the seed of the experiment, so that all points of equal drives see the same requests.

use super::Measurement;
use super::bench::Bench;
use super::simulation::Watch;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::LatencySummary;
use nandu_sim::{DriveChoice, Input, Job, RunConfig, SimError, SimReport};
use nandu_trace::WorkloadSpec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The keys of an experiment of the kind `jobs`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Jobs {
    /// A profile or a chip preset.
    pub drive: String,
    /// The requests, in the grammar of `nandu_trace`; a setting `workload` replaces them.
    pub workload: String,
    /// Requests that are measured.
    pub request_count: u64,
    /// Settings of all runs.
    #[serde(default)]
    pub set: toml::Table,
    /// The setting of `nandu sim` that varies, and its values.
    pub sweep: SettingSweep,
    /// What is compared.
    pub variants: BTreeMap<String, JobVariant>,
    /// What is reported.
    pub metrics: Vec<JobMetric>,
}

/// Settings that differ from those of the other variants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobVariant {
    /// Settings of this variant.
    #[serde(default)]
    pub set: toml::Table,
}

/// The setting that varies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SettingSweep {
    /// The setting that varies.
    pub key: String,
    /// The values that the setting takes, one job for each.
    pub values: Vec<toml::Value>,
    /// What stands for them on the x axis, rising; the values themselves unless stated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub at: Vec<f64>,
    /// Unit of x.
    #[serde(default)]
    pub unit: String,
}

/// A figure of the report; a time is 0 where there was no such request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JobMetric {
    /// Mean response time of a write.
    WriteMeanUs,
    /// Standard deviation of the response time of a write.
    WriteStddevUs,
    /// Half of the writes take longer.
    WriteP50Us,
    /// One write of a hundred takes longer.
    WriteP99Us,
    /// One write of a thousand takes longer.
    WriteP999Us,
    /// Mean response time of a read.
    ReadMeanUs,
    /// One read of a hundred takes longer.
    ReadP99Us,
    /// What a read waits on average: its mean response without command and array time.
    ReadWaitUs,
    /// Requests per simulated second.
    RequestsPerSecond,
    /// Flash pages programmed for each that the host wrote.
    WriteAmplification,
    /// Reads that the cache answers.
    HitPercent,
    /// Writes that are merged in the cache.
    MergedPercent,
    /// Share of the time in which dies are busy.
    BusyPercent,
}

impl JobMetric {
    /// Its part of a series name, and its unit.
    const fn label(self) -> (&'static str, &'static str) {
        match self {
            Self::WriteMeanUs => ("write_mean_us", "us"),
            Self::WriteStddevUs => ("write_stddev_us", "us"),
            Self::WriteP50Us => ("write_p50_us", "us"),
            Self::WriteP99Us => ("write_p99_us", "us"),
            Self::WriteP999Us => ("write_p999_us", "us"),
            Self::ReadMeanUs => ("read_mean_us", "us"),
            Self::ReadP99Us => ("read_p99_us", "us"),
            Self::ReadWaitUs => ("read_wait_us", "us"),
            Self::RequestsPerSecond => ("requests_per_second", "1/s"),
            Self::WriteAmplification => ("write_amplification", ""),
            Self::HitPercent => ("hit_percent", "%"),
            Self::MergedPercent => ("merged_percent", "%"),
            Self::BusyPercent => ("busy_percent", "%"),
        }
    }

    fn of(self, report: &SimReport) -> f64 {
        let latency = |operation: &str| -> LatencySummary {
            report.latency_ns.get(operation).copied().unwrap_or_default()
        };
        let cache = report.cache.unwrap_or_default();
        match self {
            Self::WriteMeanUs => latency("write").mean / 1e3,
            Self::WriteStddevUs => latency("write").stddev / 1e3,
            Self::WriteP50Us => latency("write").p50 as f64 / 1e3,
            Self::WriteP99Us => latency("write").p99 as f64 / 1e3,
            Self::WriteP999Us => latency("write").p999 as f64 / 1e3,
            Self::ReadMeanUs => latency("read").mean / 1e3,
            Self::ReadP99Us => latency("read").p99 as f64 / 1e3,
            Self::ReadWaitUs => {
                let timing = &report.config.nand.timing;
                let alone = (timing.command_ns + timing.read_ns).0 as f64;
                (latency("read").mean - alone).max(0.0) / 1e3
            }
            Self::RequestsPerSecond => report.requests_per_second,
            Self::WriteAmplification => report.write_amplification,
            Self::HitPercent => cache.hit_share() * 100.0,
            Self::MergedPercent => {
                let units_per_page = u64::from(report.config.nand.units_per_flash_page);
                let written = (report.host_write_pages * units_per_page).max(1);
                cache.merged_writes as f64 / written as f64 * 100.0
            }
            Self::BusyPercent => report.die_utilisation * 100.0,
        }
    }
}

impl Jobs {
    fn series(&self, name: &str) -> Vec<Series> {
        let empty = |metric: &JobMetric| {
            let (label, unit) = metric.label();
            Series::new(format!("{name}.{label}"), &self.sweep.unit, unit)
        };
        self.metrics.iter().map(empty).collect()
    }

    /// The value of the sweep as a number, where it is not stated.
    fn x(&self, index: usize) -> Option<f64> {
        self.sweep.at.get(index).copied().or_else(|| match self.sweep.values.get(index)? {
            toml::Value::Integer(value) => text_of(&(*value).into()).parse().ok(),
            toml::Value::Float(value) => Some(*value),
            _ => None,
        })
    }

    /// The run of a variant at a value of the sweep.
    fn job(&self, variant: &JobVariant, value: &toml::Value, seed: u64) -> Result<Job, SimError> {
        let mut job = Job {
            drive: DriveChoice { name: self.drive.clone(), ..DriveChoice::default() },
            input: Input::Workload(self.workload.clone()),
            request_limit: Some(self.request_count),
            run: RunConfig { seed, ..RunConfig::default() },
        };
        for (key, value) in self.set.iter().chain(&variant.set) {
            job.set(key, &text_of(value))?;
        }
        job.set(&self.sweep.key, &text_of(value))?;
        Ok(job)
    }

    fn check_sweep(&self) -> Result<(), String> {
        let count = self.sweep.values.len();
        if count == 0 || !self.sweep.at.is_empty() && self.sweep.at.len() != count {
            return Err("`values` of the sweep must be some, and `at` as many or left out".into());
        }
        let places: Option<Vec<f64>> = (0..count).map(|index| self.x(index)).collect();
        let places = places.ok_or("`values` of the sweep are no numbers; give `at`")?;
        match places.windows(2).any(|pair| pair[0] >= pair[1]) {
            true => Err("the values of the sweep must rise".into()),
            false => Ok(()),
        }
    }
}

/// A setting as `nandu sim` is given it.
fn text_of(value: &toml::Value) -> String {
    match value {
        toml::Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

impl Measurement for Jobs {
    fn check(&self) -> Result<(), String> {
        if self.variants.is_empty() || self.metrics.is_empty() || self.request_count == 0 {
            return Err("`variants`, `metrics` and `request_count` need at least one each".into());
        }
        self.check_sweep()?;
        for (name, variant) in &self.variants {
            for value in &self.sweep.values {
                let fail = |error: &dyn std::fmt::Display| format!("{name} at {value}: {error}");
                let job = self.job(variant, value, 1).map_err(|error| fail(&error))?;
                job.drive.resolve(false).map_err(|error| fail(&error))?;
                let Input::Workload(text) = &job.input else {
                    return Err(fail(&"an experiment brings its requests along; no `trace`"));
                };
                WorkloadSpec::parse(text).map_err(|error| fail(&error))?;
            }
        }
        Ok(())
    }

    fn series_names(&self) -> Vec<String> {
        let all = self.variants.keys().flat_map(|name| self.series(name));
        all.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.variants.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, variant) = self.variants.iter().nth(index).expect("a step is a variant");
        let mut series = self.series(name);
        let point_count = self.sweep.values.len();
        for (done, value) in self.sweep.values.iter().enumerate() {
            let mut watch = Watch { name, observer: &mut *bench.observer, done, point_count };
            let outcome = self.job(variant, value, bench.seed).and_then(|job| job.run(&mut watch));
            let report = match outcome {
                Ok(report) => report,
                Err(SimError::Cancelled) => {
                    return Err(LabError::Cancelled { finished_count: 0, step_count: 0 });
                }
                Err(error) => return Err(LabError::step(name, &format!("at {value}: {error}"))),
            };
            let x = self.x(done).expect("places were checked");
            for (series, metric) in series.iter_mut().zip(&self.metrics) {
                series.points.push((x, metric.of(&report)));
            }
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::run::Unwatched;

    const SMALL: &str = "
        drive = 'myers_slc'
        workload = 'zipf:0.9,read=50'
        request_count = 5000
        set = { physical_erase_blocks = 64, warm_up = 0.5 }
        metrics = ['write_mean_us', 'hit_percent', 'merged_percent', 'write_amplification']
        sweep = { key = 'cache_units', values = [0, 10, 1000], unit = 'units' }
        [variants.closed]
        [variants.event]
        set = { mode = 'event', queue-depth = 4 }
    ";

    fn jobs(text: &str) -> Jobs {
        toml::from_str(text).unwrap()
    }

    fn measured(jobs: &Jobs) -> BTreeMap<String, Series> {
        jobs.check().unwrap();
        let mut observer = Unwatched;
        let mut bench = Bench {
            seed: 3,
            local: None,
            local_subject: None,
            observer: &mut observer,
            notes: Vec::new(),
            power: nandu_device::PowerLog::default(),
        };
        let steps = 0..jobs.steps().len();
        let all = steps.flat_map(|step| jobs.run_step(step, &mut bench).unwrap());
        all.map(|series| (series.name.clone(), series)).collect()
    }

    #[test]
    fn points_are_what_the_command_reports_at_each_value() {
        let jobs = jobs(SMALL);
        let measured = measured(&jobs);
        let names: Vec<&String> = measured.keys().collect();
        let mut announced = jobs.series_names();
        announced.sort();
        assert_eq!(names, announced.iter().collect::<Vec<_>>());
        let mut job = jobs.job(&jobs.variants["event"], &toml::Value::Integer(10), 3).unwrap();
        assert_eq!((job.run.queue_depth, job.run.cache_units), (4, 10));
        let report = job.run(&mut nandu_sim::Unwatched).unwrap();
        let at = |name: &str, x: f64| measured[name].at(x).unwrap();
        let expected = report.latency_ns["write"].mean / 1e3;
        assert!((at("event.write_mean_us", 10.0) - expected).abs() < 1e-9);
        assert!((at("event.write_amplification", 10.0) - report.write_amplification).abs() < 1e-9);
        job.run.mode = nandu_sim::Mode::Closed;
        assert!(at("closed.hit_percent", 0.0).abs() < 1e-9);
        assert!(at("closed.hit_percent", 1000.0) > 2.0 * at("closed.hit_percent", 10.0));
        assert!(at("closed.merged_percent", 1000.0) > 10.0);
    }

    #[test]
    fn what_makes_no_sense_is_refused_by_name() {
        let error_of = |old: &str, new: &str| {
            assert!(SMALL.contains(old));
            jobs(&SMALL.replace(old, new)).check().unwrap_err()
        };
        assert!(error_of("cache_units", "cache_unit").contains("did you mean `cache_units`"));
        assert!(error_of("[0, 10, 1000]", "[0, 10, 5]").contains("rise"));
        assert!(error_of("[0, 10, 1000]", "['a']").contains("give `at`"));
        assert!(error_of("unit =", "at = [1], unit =").contains("as many"));
        assert!(error_of("'zipf:0.9", "'zip:0.9").contains("did you mean `zipf`"));
        assert!(error_of("'myers_slc'", "'myers'").contains("myers"));
        assert!(error_of("warm_up = 0.5", "trace = 'x'").contains("no `trace`"));
    }
}
