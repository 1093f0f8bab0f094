//! Stalls among random writes: S002 section 3.3.2 and figure 3.2.
//!
//! Writes are timed in windows of equal count. A stall is a window that takes more than four times
//! the median window. One step for each drive, with series:
//!
//! - `DRIVE.window_ms`, by writes so far: the time of each window;
//! - `DRIVE.stall_s`, by number of the stall from 1: the longest write in it;
//! - `DRIVE.gap`, by number of the stall from 1: writes since the stall before, or since the start;
//! - `DRIVE.between_s`, by number of the stall from 2: time since the stall before, without it.

use super::Measurement;
use super::bench::Bench;
use super::drive::{Drives, check_drives, on_drive, series_names, targets};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::ByteCount;
use nandu_probe::runner::{RunResult, median};
use nandu_probe::{Access, Limit, run_pattern, text};
use serde::{Deserialize, Serialize};

/// A window that takes this many times the median is a stall.
const STALL_FACTOR: f64 = 4.0;

/// The keys of an experiment of the kind `stalls`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stalls {
    /// The drives that are measured.
    pub drives: Drives,
    /// Capacity that they are scaled to.
    #[serde(deserialize_with = "text::size")]
    pub capacity: ByteCount,
    /// Size of a write.
    #[serde(deserialize_with = "text::size")]
    pub request_bytes: ByteCount,
    /// Writes of a window.
    pub window: u32,
    /// How many windows.
    pub window_count: u32,
}

impl Stalls {
    fn series_of(name: &str) -> [Series; 4] {
        let of = |suffix: &str, x_unit: &str, y_unit: &str| {
            Series::new(format!("{name}.{suffix}"), x_unit, y_unit)
        };
        [
            of("window_ms", "", "ms"),
            of("stall_s", "", "s"),
            of("gap", "", ""),
            of("between_s", "", "s"),
        ]
    }

    fn sum_up(&self, name: &str, runs: &[RunResult]) -> Vec<Series> {
        let [mut windows, mut stalls, mut gaps, mut between] = Self::series_of(name);
        let millis: Vec<f64> = runs.iter().map(|run| run.elapsed.as_seconds_f64() * 1e3).collect();
        let limit = STALL_FACTOR * median(millis.clone());
        let mut last = 0.0;
        let mut since_ms = 0.0;
        for ((run, &elapsed_ms), number) in runs.iter().zip(&millis).zip(1_u32..) {
            let writes = f64::from(number) * f64::from(self.window);
            windows.points.push((writes, elapsed_ms));
            if elapsed_ms <= limit {
                since_ms += elapsed_ms;
                continue;
            }
            let stall_s = run.write.max as f64 / 1e9;
            since_ms += elapsed_ms - stall_s * 1e3;
            let ordinal = (stalls.points.len() + 1) as f64;
            stalls.points.push((ordinal, stall_s));
            gaps.points.push((ordinal, writes - last));
            if last > 0.0 {
                between.points.push((ordinal, since_ms / 1e3));
            }
            (last, since_ms) = (writes, 0.0);
        }
        vec![windows, stalls, gaps, between]
    }
}

impl Measurement for Stalls {
    fn check(&self) -> Result<(), String> {
        check_drives(&self.drives, self.capacity)?;
        if self.window == 0 || self.window_count < 2 {
            return Err("`window` must be above 0 and `window_count` above 1".into());
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
        let result = on_drive(bench, name, (name, variant), self.capacity, |subject| {
            subject.fill()?;
            let limit = Limit::requests(u64::from(self.window));
            let mut pattern = subject.pattern((Access::Random, 0), self.request_bytes.0, limit);
            pattern.repetitions = self.window_count;
            run_pattern(subject.device, &pattern, &mut *subject.observer)
        })?;
        Ok(self.sum_up(name, &result.runs))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_base::{LatencySummary, Nanos};

    fn run(elapsed_ms: u64, longest_ms: u64) -> RunResult {
        let write = LatencySummary { max: longest_ms * 1_000_000, ..LatencySummary::default() };
        RunResult {
            request_count: 10,
            byte_count: 5120,
            elapsed: Nanos::from_millis(elapsed_ms),
            processor_time: None,
            read: LatencySummary::default(),
            write,
            flush: LatencySummary::default(),
            bytes_per_second: 0.0,
            iops: 0.0,
            timeline_period: Nanos::from_seconds(1),
            timeline: Vec::new(),
        }
    }

    #[test]
    fn stalls_are_found_with_their_length_and_what_lies_between() {
        let stalls = Stalls {
            drives: Drives::new(),
            capacity: ByteCount::mib(64),
            request_bytes: ByteCount(512),
            window: 10,
            window_count: 8,
        };
        // Windows 2, 5 and 8 stall, for 900, 700 and 500 ms.
        let runs = [10, 910, 10, 10, 710, 10, 10, 510]
            .map(|millis| run(millis, if millis > 100 { millis - 10 } else { 1 }));
        let series = stalls.sum_up("disk", &runs);
        assert_eq!(series[0].points.len(), 8);
        assert_eq!(series[1].points, [(1.0, 0.9), (2.0, 0.7), (3.0, 0.5)]);
        assert_eq!(series[2].points, [(1.0, 20.0), (2.0, 30.0), (3.0, 30.0)]);
        for (_, seconds) in &series[3].points {
            assert!((seconds - 0.03).abs() < 1e-9, "three windows of 10 ms, less their stalls");
        }
    }

    #[test]
    fn windows_of_equal_length_hold_no_stall() {
        let stalls = Stalls {
            drives: Drives::new(),
            capacity: ByteCount::mib(64),
            request_bytes: ByteCount(512),
            window: 10,
            window_count: 3,
        };
        let series = stalls.sum_up("disk", &[run(10, 1), run(12, 1), run(30, 9)]);
        assert!(series[1].points.is_empty() && series[2].points.is_empty());
    }
}
