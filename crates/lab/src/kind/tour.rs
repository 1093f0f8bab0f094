//! A tour of devices: what matters about each in little time, the same for real and simulated ones.
//!
//! Steps for each device: the four patterns over request sizes at queue depth 1, then random reads
//! and random writes of one size over queue depths. Series:
//!
//! - `DEVICE.PATTERN` and its metrics as in [`super::probe`], by request size;
//! - `DEVICE.PATTERN.model.t0_us`, `.mb_per_s`, `.error_percent`: the line t(b) = t0 + b/F through
//!   the times by request size, at x = 0;
//! - `DEVICE.PATTERN.by_depth` and its metrics, by requests in flight.

use super::bench::{AccessPattern, Bench, PointOrder, Scale, Subject};
use super::probe::{add_point, check_lists, empty_series};
use super::{Measurement, series_prefix};
use crate::error::LabError;
use crate::outcome::Series;
use crate::run::RunObserver;
use nandu_base::ByteCount;
use nandu_probe::profile::derive;
use nandu_probe::{PatternResult, ProbeError, text};
use serde::{Deserialize, Serialize};

/// The keys of an experiment of the kind `tour`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Tour {
    /// `sim:NAME`, or `local` for what the user names at the run.
    pub devices: Vec<String>,
    /// Request sizes at queue depth 1.
    #[serde(deserialize_with = "text::sizes")]
    pub request_bytes: Vec<ByteCount>,
    /// Requests in flight; a device is not asked for more than it can.
    pub queue_depths: Vec<u32>,
    /// Request size over queue depths.
    #[serde(deserialize_with = "text::size")]
    pub deep_request_bytes: ByteCount,
    /// How much is measured.
    pub scale: Scale,
}

/// Which patterns run over queue depths.
const DEEP_PATTERNS: [AccessPattern; 2] = [AccessPattern::RandomRead, AccessPattern::RandomWrite];
/// What a fitted line says, with units.
const MODEL: [(&str, &str); 3] =
    [("model.t0_us", "us"), ("model.mb_per_s", "MB/s"), ("model.error_percent", "%")];

#[derive(Clone, Copy)]
enum Sweep {
    Size,
    Depth,
}

struct TourStep<'a> {
    target: &'a str,
    pattern: AccessPattern,
    sweep: Sweep,
    stem: String,
}

impl Tour {
    fn each_step(&self) -> Vec<TourStep<'_>> {
        let mut steps = Vec::new();
        for target in &self.devices {
            let prefix = series_prefix(target);
            for pattern in AccessPattern::ALL {
                let stem = format!("{prefix}.{}", pattern.label());
                steps.push(TourStep { target, pattern, sweep: Sweep::Size, stem });
            }
            for pattern in DEEP_PATTERNS {
                let stem = format!("{prefix}.{}.by_depth", pattern.label());
                steps.push(TourStep { target, pattern, sweep: Sweep::Depth, stem });
            }
        }
        steps
    }

    fn over_sizes(
        &self,
        step: &TourStep<'_>,
        subject: &mut Subject,
        observer: &mut dyn RunObserver,
    ) -> Result<Vec<Series>, ProbeError> {
        let mut series = empty_series(&step.stem);
        let mut results = Vec::new();
        for request_bytes in subject.accepted_sizes(&self.request_bytes) {
            let order = PointOrder { pattern: step.pattern, request_bytes, queue_depth: 1 };
            let result = subject.measure(order, &self.scale, observer)?;
            add_point(&mut series, request_bytes as f64, &result);
            results.push(result);
        }
        series.extend(model(&step.stem, subject, &results));
        Ok(series)
    }

    fn over_depths(
        &self,
        step: &TourStep<'_>,
        subject: &mut Subject,
        observer: &mut dyn RunObserver,
    ) -> Result<Vec<Series>, ProbeError> {
        let mut series = empty_series(&step.stem);
        series.iter_mut().for_each(|series| series.x_unit.clear());
        for queue_depth in subject.accepted_depths(&self.queue_depths) {
            let request_bytes = self.deep_request_bytes.0;
            let order = PointOrder { pattern: step.pattern, request_bytes, queue_depth };
            let result = subject.measure(order, &self.scale, observer)?;
            add_point(&mut series, f64::from(queue_depth), &result);
        }
        Ok(series)
    }
}

/// The fitted line of one pattern; nothing where fewer than two sizes were measured.
fn model(stem: &str, subject: &Subject, results: &[PatternResult]) -> Vec<Series> {
    let profile = derive(subject.info(), results, &[]).ok();
    let Some(line) = profile.and_then(|profile| profile.models.first().map(|model| model.line))
    else {
        return Vec::new();
    };
    let values = [line.t0_ns / 1e3, line.bytes_per_second() / 1e6, 100.0 * line.error_rms];
    let finite = MODEL.iter().zip(values).filter(|(_, value)| value.is_finite());
    let series = finite.map(|((suffix, unit), value)| Series {
        points: vec![(0.0, value)],
        ..Series::new(format!("{stem}.{suffix}"), "", unit)
    });
    series.collect()
}

impl Measurement for Tour {
    fn check(&self) -> Result<(), String> {
        check_lists(&self.devices, &self.request_bytes, &self.queue_depths)?;
        if self.deep_request_bytes == ByteCount::ZERO {
            return Err("`deep_request_bytes` must be above 0".into());
        }
        self.scale.check()
    }

    fn targets(&self) -> Vec<String> {
        self.devices.clone()
    }

    fn series_names(&self) -> Vec<String> {
        let mut names = Vec::new();
        for step in self.each_step() {
            names.extend(empty_series(&step.stem).into_iter().map(|series| series.name));
            if let Sweep::Size = step.sweep {
                names.extend(MODEL.iter().map(|(suffix, _)| format!("{}.{suffix}", step.stem)));
            }
        }
        names
    }

    fn steps(&self) -> Vec<String> {
        self.each_step().into_iter().map(|step| step.stem).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let steps = self.each_step();
        let step = &steps[index];
        let measured = bench.with_device(
            &step.stem,
            step.target,
            &self.scale,
            |subject, observer| match step.sweep {
                Sweep::Size => self.over_sizes(step, subject, observer),
                Sweep::Depth => self.over_depths(step, subject, observer),
            },
        )?;
        Ok(measured.unwrap_or_default())
    }
}
