//! A file of experiments: TOML steps, each a pattern, perhaps swept over request sizes, with the
//! preparation that comes before it (S002 appendix A).
//!
//! ```toml
//! name = "random writes"
//! [[step]]
//! prepare = [{ sequential_fill = {} }, { trim = {} }, { idle = { duration = "5s" } }]
//! # or { empty_cache = {} }, through a page cache
//! sweep_request_bytes = { from = "512", to = "8MiB" }
//! self_scaling = false
//! [step.pattern]
//! access = "random"
//! read_percent = 0
//! request_bytes = "4KiB"
//! limit = { duration = "30s" }
//! ```
//!
//! 1. A sweep runs every doubling from `from` up to and including `to`, each after the preparation.
//!    After each that writes a volatile cache is flushed, and its throughput counts that: no point pays
//!    for the writes of another, and none is faster for what it leaves in the cache, unless the step says
//!    that the flush does not count.
//! 2. Self-scaling goes on doubling past the sweep until throughput gains less than 2.5 %.

use crate::pattern::{Area, DataKind, Pattern};
use crate::runner::{Observer, PatternResult, prepare, run_pattern, settle};
use crate::{ProbeError, text};
use nandu_base::{ByteCount, Nanos};
use nandu_device::{Device, DeviceInfo};
use serde::{Deserialize, Serialize};

/// Doubling the request size must gain this much, or self-scaling ends (S002 appendix A).
pub const SELF_SCALING_GAIN: f64 = 0.025;
/// Self-scaling never asks for larger requests.
pub const SELF_SCALING_BYTES_MAX: u64 = 64 << 20;

/// Request sizes that double.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SweepRequestBytes {
    /// The smallest size, with which the doubling begins.
    #[serde(deserialize_with = "text::size")]
    pub from: ByteCount,
    /// The largest; not passed.
    #[serde(deserialize_with = "text::size")]
    pub to: ByteCount,
}

impl SweepRequestBytes {
    /// Every size of the sweep. Sizes below a sector are left out.
    #[must_use]
    pub fn sizes(&self, sector_bytes: u32) -> Vec<u64> {
        let first = (self.from.0 > 0).then_some(self.from.0);
        std::iter::successors(first, |size| size.checked_mul(2))
            .take_while(|size| *size <= self.to.0)
            .filter(|size| size.is_multiple_of(u64::from(sector_bytes)))
            .collect()
    }
}

/// What brings a device into a known state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Preparation {
    /// Writes the area once from its start to its end.
    SequentialFill {
        /// Size of a write; S002 uses 1 MB.
        #[serde(default = "one_mebibyte", deserialize_with = "text::size")]
        request_bytes: ByteCount,
        /// What is filled.
        #[serde(default)]
        area: Area,
        /// What is written.
        #[serde(default)]
        data: DataKind,
        /// How often; SNIA's preconditioning writes twice.
        #[serde(default = "one_pass")]
        passes: u32,
    },
    /// Writes slots of the area in random order, none twice before all were written once.
    RandomFill {
        /// Size of a write.
        #[serde(default = "four_kibibytes", deserialize_with = "text::size")]
        request_bytes: ByteCount,
        /// What is filled.
        #[serde(default)]
        area: Area,
        /// What is written.
        #[serde(default)]
        data: DataKind,
        /// How much is written, in percent of the area; may pass 100.
        #[serde(default = "all")]
        percent: u32,
        /// Seed of the order.
        #[serde(default)]
        seed: u64,
    },
    /// Trims the area.
    Trim {
        /// What is trimmed.
        #[serde(default)]
        area: Area,
    },
    /// Empties the kernel's page cache of the device; refused where requests go past it.
    EmptyCache {},
    /// Lets time pass, so that the device may tidy up.
    Idle {
        /// How long nothing is asked of the device.
        #[serde(deserialize_with = "text::duration")]
        duration: Nanos,
    },
}

const fn one_mebibyte() -> ByteCount {
    ByteCount::mib(1)
}

const fn four_kibibytes() -> ByteCount {
    ByteCount::kib(4)
}

const fn one_pass() -> u32 {
    1
}

const fn all() -> u32 {
    100
}

impl Preparation {
    /// Writes the whole device sequentially with 1 MiB requests, as S002 does before each series.
    #[must_use]
    pub fn whole_device_fill() -> Self {
        Self::fill_of(Area::default())
    }

    /// Writes `area` sequentially with 1 MiB requests.
    #[must_use]
    pub fn fill_of(area: Area) -> Self {
        let (request_bytes, data) = (one_mebibyte(), DataKind::default());
        Self::SequentialFill { request_bytes, area, data, passes: 1 }
    }

    /// Whether stored data are lost.
    #[must_use]
    pub const fn destroys_data(&self) -> bool {
        !matches!(self, Self::EmptyCache {} | Self::Idle { .. })
    }
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// What comes before the pattern, and before each size of a sweep.
    #[serde(default)]
    pub prepare: Vec<Preparation>,
    /// Runs the pattern at each of these sizes instead of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sweep_request_bytes: Option<SweepRequestBytes>,
    /// Doubles the request size, after the sweep if there is one, until throughput gains too little.
    #[serde(default)]
    pub self_scaling: bool,
    /// Whether the flush after what writes counts.
    #[serde(default = "yes")]
    pub counts_flush: bool,
    /// Which requests the step makes, and for how long.
    pub pattern: Pattern,
}

const fn yes() -> bool {
    true
}

impl Step {
    /// A step that runs `pattern` and nothing else.
    #[must_use]
    pub const fn new(pattern: Pattern) -> Self {
        Self {
            prepare: Vec::new(),
            sweep_request_bytes: None,
            self_scaling: false,
            counts_flush: true,
            pattern,
        }
    }

    /// The same step after `prepare`.
    #[must_use]
    pub fn prepared(mut self, prepare: Vec<Preparation>) -> Self {
        self.prepare = prepare;
        self
    }

    /// The sizes that are certainly run on a device.
    #[must_use]
    pub fn sizes(&self, info: &DeviceInfo) -> Vec<u64> {
        match &self.sweep_request_bytes {
            Some(sweep) => sweep.sizes(info.geometry.sector_bytes),
            None => vec![self.pattern.request_bytes.0],
        }
    }
}

/// Steps to run one after the other.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    /// What the plan is called.
    #[serde(default)]
    pub name: String,
    /// The steps in the order in which they are run.
    #[serde(rename = "step")]
    pub steps: Vec<Step>,
}

impl Plan {
    /// Reads a plan; `file` is named in errors.
    ///
    /// # Errors
    /// [`ProbeError::Parse`] with file, line and, for an unknown key, the nearest valid one.
    pub fn from_toml(file: &str, text: &str) -> Result<Self, ProbeError> {
        text::parse_toml(file, text)
    }

    /// Checks every pattern against a device before the first one runs.
    ///
    /// # Errors
    /// The first [`ProbeError::Pattern`].
    pub fn validate(&self, info: &DeviceInfo) -> Result<(), ProbeError> {
        for step in &self.steps {
            let sizes = step.sizes(info);
            if sizes.is_empty() {
                let message = format!(
                    "the sweep holds no size that is a multiple of the {} bytes of a sector",
                    info.geometry.sector_bytes
                );
                return Err(ProbeError::Pattern { label: step.pattern.name(), message });
            }
            for request_bytes in sizes {
                with_size(&step.pattern, request_bytes).validate(info)?;
            }
        }
        Ok(())
    }

    /// Whether a page cache is emptied, without which the plan is refused.
    #[must_use]
    pub fn empties_cache(&self) -> bool {
        let mut preparations = self.steps.iter().flat_map(|step| &step.prepare);
        preparations.any(|preparation| matches!(preparation, Preparation::EmptyCache {}))
    }

    /// Whether anything is written or trimmed.
    #[must_use]
    pub fn destroys_data(&self) -> bool {
        self.steps.iter().any(|step| {
            step.pattern.writes() || step.prepare.iter().any(Preparation::destroys_data)
        })
    }
}

fn with_size(pattern: &Pattern, request_bytes: u64) -> Pattern {
    Pattern { request_bytes: ByteCount(request_bytes), ..pattern.clone() }
}

/// Runs every step; each result goes to `sink` as soon as there is one.
///
/// # Errors
/// Where a step does not fit the device, a request fails, or the observer cancels. Results that
/// `sink` has seen stay valid.
pub fn run_plan(
    device: &mut dyn Device,
    plan: &Plan,
    observer: &mut dyn Observer,
    sink: &mut dyn FnMut(PatternResult),
) -> Result<(), ProbeError> {
    plan.validate(device.info())?;
    plan.steps.iter().try_for_each(|step| run_step(device, step, observer, sink))
}

/// Runs one step with its preparation, sweep and self-scaling.
///
/// # Errors
/// As [`run_plan`].
pub fn run_step(
    device: &mut dyn Device,
    step: &Step,
    observer: &mut dyn Observer,
    sink: &mut dyn FnMut(PatternResult),
) -> Result<(), ProbeError> {
    let mut run = |device: &mut dyn Device, request_bytes| {
        for preparation in &step.prepare {
            prepare(device, preparation, observer)?;
        }
        let mut result = run_pattern(device, &with_size(&step.pattern, request_bytes), observer)?;
        // Runs of a point follow each other as they come: a cache that stays full is part of what they
        // measure. The last one pays for what is left.
        if device.info().volatile_cache && result.pattern.writes() {
            let flushed = settle(device)?;
            if step.counts_flush {
                result.add_to_last_run(flushed);
            }
        }
        Ok(result)
    };
    let mut last: Option<(u64, f64)> = None;
    for request_bytes in step.sizes(device.info()) {
        let result = run(device, request_bytes)?;
        last = Some((request_bytes, result.medians.bytes_per_second));
        sink(result);
    }
    if let (true, Some(last)) = (step.self_scaling, last) {
        scale_up(device, &step.pattern, last, &mut run, sink)?;
    }
    Ok(())
}

type RunAtSize<'a> = dyn FnMut(&mut dyn Device, u64) -> Result<PatternResult, ProbeError> + 'a;

/// Doubles the size that ran last until it gains too little or no longer fits the device.
fn scale_up(
    device: &mut dyn Device,
    pattern: &Pattern,
    (mut request_bytes, mut bytes_per_second): (u64, f64),
    run: &mut RunAtSize<'_>,
    sink: &mut dyn FnMut(PatternResult),
) -> Result<(), ProbeError> {
    loop {
        request_bytes = request_bytes.saturating_mul(2);
        if request_bytes > SELF_SCALING_BYTES_MAX
            || with_size(pattern, request_bytes).validate(device.info()).is_err()
        {
            return Ok(());
        }
        let result = run(device, request_bytes)?;
        let faster = result.medians.bytes_per_second;
        sink(result);
        if faster < bytes_per_second * (1.0 + SELF_SCALING_GAIN) {
            return Ok(());
        }
        bytes_per_second = faster;
    }
}

/// Runs `pattern` at its own size and then at doubled sizes until throughput gains less than 2.5 %.
/// The last result is the one that gained too little, unless the device ended first.
///
/// # Errors
/// As [`run_plan`].
pub fn run_self_scaling(
    device: &mut dyn Device,
    pattern: &Pattern,
    observer: &mut dyn Observer,
) -> Result<Vec<PatternResult>, ProbeError> {
    let mut results = Vec::new();
    let step = Step { self_scaling: true, ..Step::new(pattern.clone()) };
    run_step(device, &step, observer, &mut |result| results.push(result))?;
    Ok(results)
}
