//! How long it takes to write a whole drive after a burst of random writes: S002 appendix C, figure
//! C.4. One step for each drive, with series by seconds of burst:
//!
//! - `DRIVE.rewrite_s`: time of the first sequential pass after the burst;
//! - `DRIVE.factor`: the same over that without a burst;
//! - `DRIVE.second_factor`: time of the pass after it, over that without a burst.

use super::Measurement;
use super::bench::Bench;
use super::drive::{Drives, check_drives, on_drive, series_names, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::{ByteCount, Nanos};
use nandu_probe::{Access, Area, DataKind, Limit, Preparation, prepare, run_pattern, text};
use serde::{Deserialize, Serialize};

/// The keys of an experiment of the kind `rewrite`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rewrite {
    /// The drives that are measured.
    pub drives: Drives,
    /// Capacity that they are scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// How long the bursts last, in seconds; 0, none, is always measured too.
    pub burst_seconds: Vec<u64>,
    /// Size of the random writes.
    #[serde(deserialize_with = "text::size")]
    pub burst_bytes: ByteCount,
    /// Size of the sequential writes.
    #[serde(deserialize_with = "text::size")]
    pub request_bytes: ByteCount,
}

impl Rewrite {
    fn series_of(name: &str) -> [Series; 3] {
        [("rewrite_s", "s"), ("factor", ""), ("second_factor", "")]
            .map(|(suffix, unit)| Series::new(format!("{name}.{suffix}"), "s", unit))
    }
}

impl Measurement for Rewrite {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        if self.burst_bytes == ByteCount::ZERO || self.request_bytes == ByteCount::ZERO {
            return Err("`burst_bytes` and `request_bytes` must be above 0".into());
        }
        if self.burst_seconds.is_empty() || self.burst_seconds.contains(&0) {
            return Err("`burst_seconds` needs at least one length, each above 0".into());
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
        let pass = Preparation::SequentialFill {
            request_bytes: self.request_bytes,
            area: Area::default(),
            data: DataKind::Random,
            passes: 1,
        };
        let mut undisturbed = f64::NAN;
        for seconds in std::iter::once(0).chain(self.burst_seconds.iter().copied()) {
            let times = on_drive(bench, name, (name, variant), self.capacity, |subject| {
                prepare(subject.device, &pass, &mut *subject.observer)?;
                if seconds > 0 {
                    let limit = Limit::time(Nanos::from_seconds(seconds));
                    let burst = subject.pattern((Access::Random, 0), self.burst_bytes.0, limit);
                    run_pattern(subject.device, &burst, &mut *subject.observer)?;
                }
                let first = prepare(subject.device, &pass, &mut *subject.observer)?;
                let second = prepare(subject.device, &pass, &mut *subject.observer)?;
                Ok([first, second].map(Nanos::as_seconds_f64))
            })?;
            if seconds == 0 {
                undisturbed = times[0];
            }
            let values = [times[0], times[0] / undisturbed, times[1] / undisturbed];
            for (series, value) in series.iter_mut().zip(values) {
                series.points.push((seconds as f64, value));
            }
        }
        Ok(Vec::from(series))
    }
}
