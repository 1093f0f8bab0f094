//! Speed by age: S002 section 3.3.5, figure 3.4b, by [`nandu_probe::endurance`].
//!
//! Whole-drive sequential writes alternate with measurements of the four patterns. One step for each
//! drive, with series by whole-drive writes so far: `DRIVE.PATTERN` in MB/s, and `DRIVE.erases_max`,
//! the erases of the most worn erase block. The measurements write too, which adds to the wear.

use super::Measurement;
use super::bench::{AccessPattern, Bench};
use super::drive::{Drives, check_drives, on_drive, series_names, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::ByteCount;
use nandu_probe::{EnduranceOptions, Limit, run_endurance, text};
use serde::{Deserialize, Serialize};

/// The keys of an experiment of the kind `aging`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Aging {
    /// The drives that are measured.
    pub drives: Drives,
    /// Capacity that they are scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Whole-drive writes between measurements.
    pub pass_count: u32,
    /// Measurements, the first on the new drive.
    pub round_count: u32,
    /// Request size of the measurements.
    #[serde(deserialize_with = "text::size")]
    pub request_bytes: ByteCount,
    /// Requests of each measured pattern.
    pub request_count: u64,
}

impl Aging {
    fn series_of(name: &str) -> Vec<Series> {
        let of = |pattern: &AccessPattern| {
            Series::new(format!("{name}.{}", pattern.label()), "", "MB/s")
        };
        let mut series: Vec<Series> = AccessPattern::ALL.iter().map(of).collect();
        series.push(Series::new(format!("{name}.erases_max"), "", ""));
        series
    }
}

impl Measurement for Aging {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        if self.pass_count == 0 || self.round_count < 2 || self.request_count == 0 {
            return Err(
                "`pass_count` and `request_count` must be above 0, `round_count` above 1".into()
            );
        }
        if self.request_bytes == ByteCount::ZERO {
            return Err("`request_bytes` must be above 0".into());
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
        series_names(&self.drives, Self::series_of)
    }

    fn steps(&self) -> Vec<String> {
        self.drives.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, variant) = self.drives.iter().nth(index).expect("a step is a drive");
        let mut series = Self::series_of(name);
        on_drive(bench, name, (name, variant), self.capacity, |subject| {
            subject.fill()?;
            for round in 0..self.round_count {
                if round > 0 {
                    let options = EnduranceOptions {
                        area_write_count: self.pass_count,
                        seed: subject.seed.wrapping_add(u64::from(round) << 32),
                        ..EnduranceOptions::default()
                    };
                    run_endurance(subject.device, &options, &mut *subject.observer)?;
                }
                let x = f64::from(round) * f64::from(self.pass_count);
                for (series, pattern) in series.iter_mut().zip(AccessPattern::ALL) {
                    let limit = Limit::requests(self.request_count);
                    let what = (pattern.access(), pattern.read_percent());
                    let mut pattern = subject.pattern(what, self.request_bytes.0, limit);
                    pattern.seed = pattern.seed.wrapping_add(u64::from(round));
                    series.points.push((x, subject.mb_per_s(&pattern)?));
                    // Filled anew in order, so that the next pattern is not slowed by the map that
                    // random writes left behind: only wear is to be measured.
                    subject.fill()?;
                }
                let flash = subject.device.counters().flash;
                let erases = flash.map_or(0, |flash| flash.wear.erase_count_max);
                series[AccessPattern::ALL.len()].points.push((x, erases as f64));
            }
            Ok(())
        })?;
        Ok(series)
    }
}
