//! Spare space against the speed of random and sequential writes: S002 appendix B.
//!
//! A drive is written at random (uniformly, so addresses repeat) until it is steady, and measured;
//! then it is written in order, and measured. One step for each drive, with series by spare space, in percent
//! of the logical capacity:
//!
//! - `DRIVE.random_write`, `DRIVE.sequential_write`: steady speed in MB/s; sequential writes start
//!   on the map that the random ones left and are measured over the first pass;
//! - `DRIVE.sequential_again`: the pass after it;
//! - `DRIVE.write_amplification`: flash pages programmed for each that the host wrote at random;
//! - `closed_form.write_amplification`: Desnoyers' figure for greedy cleaning.

use super::Measurement;
use super::bench::Bench;
use super::drive::{DriveVariant, Drives, Subject, check_drives, on_drive, series_names, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Distribution, FlashOperation, Nanos};
use nandu_ftl::closed_form::greedy_write_amplification;
use nandu_probe::{Access, Limit, ProbeError, run_pattern, text};
use serde::{Deserialize, Serialize};

/// The keys of an experiment of the kind `spare`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Spare {
    /// Which drives; the sweep sets their `over_provisioning_ppm`.
    pub drives: Drives,
    /// Capacity that they are scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Physical over logical capacity less 1, in percent, rising.
    pub spare_percent: Vec<u32>,
    /// Size of a random write: a flash page, so that the amplification means what it says.
    #[serde(deserialize_with = "text::size")]
    pub random_bytes: ByteCount,
    /// Size of a sequential write.
    #[serde(deserialize_with = "text::size")]
    pub sequential_bytes: ByteCount,
    /// Random writes before the measurement, over those that cover the drive.
    pub warm_up_rounds: u32,
    /// Random writes of the measurement, over those that cover the drive.
    pub rounds: u32,
    /// The longest that warm-up and measurement may take each, in the device's time: a slow drive
    /// is not covered, and need not be where its speed has no memory.
    #[serde(deserialize_with = "text::duration")]
    pub duration: Nanos,
    /// Flash pages of an erase block, for the closed form.
    pub erase_block_page_count: u32,
}

/// The closed form beside the drives.
const CLOSED_FORM: &str = "closed_form.write_amplification";

impl Spare {
    fn series_of(name: &str) -> [Series; 4] {
        [
            ("random_write", "MB/s"),
            ("sequential_write", "MB/s"),
            ("sequential_again", "MB/s"),
            ("write_amplification", ""),
        ]
        .map(|(suffix, unit)| Series::new(format!("{name}.{suffix}"), "%", unit))
    }

    fn closed_form(&self) -> Series {
        let pages = f64::from(self.erase_block_page_count);
        let at = |&percent: &u32| {
            let percent = f64::from(percent);
            (percent, greedy_write_amplification(1.0 + percent / 100.0, pages))
        };
        let points = self.spare_percent.iter().map(at).collect();
        Series { points, ..Series::new(CLOSED_FORM, "%", "") }
    }

    fn measure(&self, subject: &mut Subject<'_>) -> Result<[f64; 4], ProbeError> {
        subject.fill()?;
        let per_round = self.capacity.0 / self.random_bytes.0;
        let random = |rounds: u32, subject: &Subject<'_>| {
            let limit = Limit {
                request_count: Some(per_round * u64::from(rounds)),
                duration: Some(self.duration),
            };
            let mut pattern = subject.pattern((Access::Random, 0), self.random_bytes.0, limit);
            pattern.distribution = Some(Distribution::Uniform);
            pattern.seed = pattern.seed.wrapping_add(u64::from(rounds));
            pattern
        };
        if self.warm_up_rounds > 0 {
            let pattern = random(self.warm_up_rounds, subject);
            subject.mb_per_s(&pattern)?;
        }
        let programs = |subject: &Subject<'_>| {
            let flash = subject.device.counters().flash;
            flash.map_or(0, |flash| flash.commands.total(FlashOperation::Program))
        };
        let before = programs(subject);
        // The second term keeps the seed from being that of the warm-up.
        let mut pattern = random(self.rounds, subject);
        pattern.seed = pattern.seed.wrapping_add(1 << 32);
        let result = run_pattern(subject.device, &pattern, &mut *subject.observer)?;
        let run = &result.runs[0];
        let amplification = (programs(subject) - before) as f64 / run.request_count.max(1) as f64;
        let pass = Limit::requests(self.capacity.0 / self.sequential_bytes.0);
        let pattern = subject.pattern((Access::Sequential, 0), self.sequential_bytes.0, pass);
        let first = subject.mb_per_s(&pattern)?;
        let again = subject.mb_per_s(&pattern)?;
        Ok([run.bytes_per_second / 1e6, first, again, amplification])
    }
}

impl Measurement for Spare {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        if self.spare_percent.is_empty() || self.spare_percent.iter().any(|p| *p == 0 || *p > 400) {
            return Err("`spare_percent` needs values from 1 to 400".into());
        }
        let (random, sequential) = (self.random_bytes, self.sequential_bytes);
        if random == ByteCount::ZERO || sequential == ByteCount::ZERO || self.rounds == 0 {
            return Err("`random_bytes`, `sequential_bytes` and `rounds` must be above 0".into());
        }
        if self.duration == Nanos::ZERO || self.erase_block_page_count == 0 {
            return Err("`duration` and `erase_block_page_count` must be above 0".into());
        }
        Ok(())
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        vec![targets(&self.drives).swap_remove(index)]
    }

    fn series_names(&self) -> Vec<String> {
        let mut names = series_names(&self.drives, Self::series_of);
        names.push(CLOSED_FORM.to_owned());
        names
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, variant) = self.drives.iter().nth(index).expect("a step is a drive");
        let mut series = Self::series_of(name);
        for &percent in &self.spare_percent {
            let variant = with_spare(variant, percent);
            let values = on_drive(bench, name, (name, &variant), self.capacity, |subject| {
                self.measure(subject)
            })?;
            for (series, value) in series.iter_mut().zip(values) {
                series.points.push((f64::from(percent), value));
            }
        }
        let mut series = Vec::from(series);
        if index == 0 {
            series.push(self.closed_form());
        }
        Ok(series)
    }
}

fn with_spare(variant: &DriveVariant, percent: u32) -> DriveVariant {
    let mut variant = variant.clone();
    let ssd = variant.set.entry("ssd").or_insert_with(|| toml::Value::Table(toml::Table::new()));
    if let toml::Value::Table(ssd) = ssd {
        let ppm = toml::Value::Integer(i64::from(percent) * 10_000);
        ssd.insert("over_provisioning_ppm".into(), ppm);
    }
    variant
}
