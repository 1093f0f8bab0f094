//! How soon a page is written again: the temporal locality that a log lives on (S003, "write arrival
//! interval", table 2 and figure 2).
//!
//! A write is a rewrite within a window of W writes if its page was written among the W before it. A
//! log of W pages absorbs just these. One step for each workload, with the series `WORKLOAD.rewritten`
//! in percent, by the window in percent of the pages.

use super::Measurement;
use super::bench::Bench;
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::to_index;
use nandu_device::Operation;
use nandu_trace::workload::Generator;
use nandu_trace::{RequestSource, TraceError, WorkloadSpec};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of a page; any would do, since only its number counts.
const PAGE_BYTES: u64 = 2048;
/// How many requests are drawn at a time.
const BATCH: usize = 4096;

/// The keys of an experiment of the kind `intervals`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Intervals {
    /// Single-page writes in the grammar of `nandu_trace`, by name.
    pub workloads: BTreeMap<String, WorkloadSpec>,
    /// Pages of the space.
    pub page_count: u32,
    /// Windows in percent of the pages, rising.
    pub window_percent: Vec<f64>,
    /// Writes that only fill the window, over those that cover the space.
    pub warm_up_rounds: u32,
    /// Writes that are counted, over those that cover the space.
    pub rounds: u32,
}

impl Intervals {
    fn empty_series(name: &str) -> Series {
        Series::new(format!("{name}.rewritten"), "%", "%")
    }

    fn source(&self, spec: &WorkloadSpec, seed: u64) -> Result<Generator, TraceError> {
        spec.source(u64::from(self.page_count) * PAGE_BYTES, PAGE_BYTES, seed)
    }

    fn measure(&self, spec: &WorkloadSpec, seed: u64) -> Result<Vec<(f64, f64)>, TraceError> {
        let mut source = self.source(spec, seed)?;
        let page_count = u64::from(self.page_count);
        let (uncounted, counted) =
            (page_count * u64::from(self.warm_up_rounds), page_count * u64::from(self.rounds));
        let windows: Vec<f64> = self
            .window_percent
            .iter()
            .map(|percent| percent / 100.0 * f64::from(self.page_count))
            .collect();
        let mut rewritten = vec![0_u64; windows.len()];
        // Number of the last write of each page, from 1; 0 is none.
        let mut last = vec![0_u64; to_index(page_count)];
        let mut number = 0;
        let mut batch = Vec::with_capacity(BATCH);
        while number < uncounted + counted {
            batch.clear();
            source.next_batch(&mut batch, BATCH)?;
            for request in batch.iter().filter(|request| request.operation == Operation::Write) {
                number += 1;
                let page = &mut last[to_index(request.offset_bytes / PAGE_BYTES)];
                let before = std::mem::replace(page, number);
                if number <= uncounted || number > uncounted + counted || before == 0 {
                    continue;
                }
                let interval = (number - before) as f64;
                for (count, window) in rewritten.iter_mut().zip(&windows) {
                    *count += u64::from(interval <= *window);
                }
            }
        }
        let share = |count: u64| 100.0 * count as f64 / counted as f64;
        let shares = rewritten.into_iter().map(share);
        Ok(self.window_percent.iter().copied().zip(shares).collect())
    }
}

impl Measurement for Intervals {
    fn check(&self) -> Result<(), String> {
        if self.workloads.is_empty() || self.page_count == 0 || self.rounds == 0 {
            return Err("`workloads`, `page_count` and `rounds` must be above 0".into());
        }
        let windows = &self.window_percent;
        let rises = windows.windows(2).all(|pair| pair[0] < pair[1]);
        if windows.first().is_none_or(|first| *first <= 0.0) || !rises {
            return Err("`window_percent` must be some values above 0, and rise".into());
        }
        for (name, spec) in &self.workloads {
            self.source(spec, 0).map_err(|error| format!("{name}: {error}"))?;
            let is_plain = spec.sizes.is_empty() && spec.align_bytes.is_none();
            if !is_plain || spec.read_ppb > 0 || spec.trim_ppb > 0 || spec.request_count.is_some() {
                return Err(format!("workload `{name}` must write single pages without an end"));
            }
        }
        Ok(())
    }

    fn series_names(&self) -> Vec<String> {
        self.workloads.keys().map(|name| Self::empty_series(name).name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.workloads.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, spec) = self.workloads.iter().nth(index).expect("a step is a workload");
        let points =
            self.measure(spec, bench.seed).map_err(|error| LabError::step(name, &error))?;
        Ok(vec![Series { points, ..Self::empty_series(name) }])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn intervals(workload: &str) -> Intervals {
        let spec = WorkloadSpec::parse(workload).unwrap();
        Intervals {
            workloads: BTreeMap::from([("w".into(), spec)]),
            page_count: 20_000,
            window_percent: vec![10.0, 50.0, 100.0],
            warm_up_rounds: 3,
            rounds: 3,
        }
    }

    fn shares(workload: &str) -> Vec<f64> {
        let intervals = intervals(workload);
        intervals.check().unwrap();
        let points = intervals.measure(&intervals.workloads["w"], 5).unwrap();
        points.into_iter().map(|point| point.1).collect()
    }

    #[test]
    fn uniform_writes_come_back_as_a_geometric_distribution_says() {
        // P(interval <= a N) = 1 - exp(-a).
        for (found, window) in shares("uniform").into_iter().zip([0.1_f64, 0.5, 1.0]) {
            let wanted = 100.0 * (1.0 - (-window).exp());
            assert!((found - wanted).abs() < 0.7, "{found} % at {window}, not {wanted}");
        }
    }

    #[test]
    fn sequential_writes_come_back_after_the_whole_space_and_no_sooner() {
        assert_eq!(shares("sequential"), [0.0, 0.0, 100.0]);
    }

    #[test]
    fn workloads_of_other_than_single_page_writes_are_refused() {
        for text in ["uniform:read=10", "uniform:size=4KiB", "uniform:requests=7"] {
            assert!(intervals(text).check().unwrap_err().contains("single pages"), "{text}");
        }
    }
}
