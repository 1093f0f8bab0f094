//! Sequential writes, or anything else, after a burst of random writes, and how long the device needs to
//! recover.
//!
//! Ajwani et al. 2008 (S002), section 3.3.3, appendices A and C: fill, random writes for 5, 30 or 60
//! seconds, then 30 phases of 4 seconds of sequential writes. Recovered means: a phase reaches 60 %
//! of the median of all phases, which is not the speed before the burst.
//!
//! ```text
//!   fill ─► baseline phase ─► burst ─► phase 1 ─► phase 2 ─► … ─► phase 30
//!                                      └── recovery_time ──►┘ first ≥ 60 % of the median
//! ```

use crate::ProbeError;
use crate::pattern::{Access, Area, Limit, Pattern};
use crate::plan::Preparation;
use crate::runner::{Observer, PatternResult, median, prepare, run_pattern};
use nandu_base::{ByteCount, Nanos};
use nandu_device::Device;
use serde::{Deserialize, Serialize};

/// The share of the median phase that counts as recovered (S002 appendix C).
pub const RECOVERED_SHARE: f64 = 0.6;

/// How to burst.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct BurstOptions {
    /// How long the random writes last: S002 uses 5, 30 and 60 s.
    #[serde(deserialize_with = "crate::text::duration")]
    pub burst: Nanos,
    /// Size of a random write: S002 uses 2 KB, or that of the sequential writes.
    #[serde(deserialize_with = "crate::text::size")]
    pub burst_request_bytes: ByteCount,
    /// Size of a sequential write, or of what comes in its place.
    #[serde(deserialize_with = "crate::text::size")]
    pub request_bytes: ByteCount,
    /// What comes before and after the burst: in order, as a rule, or at random.
    pub access: Access,
    /// How many of its requests read: none, as a rule.
    pub read_percent: u8,
    /// How many phases follow.
    pub phase_count: u32,
    /// How long each lasts.
    #[serde(deserialize_with = "crate::text::duration")]
    pub phase: Nanos,
    /// A limit on requests of each phase beside the time, so that simulations end early.
    pub request_count: Option<u64>,
    /// Whether the area is filled first.
    pub fill: bool,
    /// Which part of the device.
    pub area: Area,
    /// Seed of all patterns.
    pub seed: u64,
}

impl Default for BurstOptions {
    fn default() -> Self {
        Self {
            burst: Nanos::from_seconds(5),
            burst_request_bytes: ByteCount::kib(2),
            request_bytes: ByteCount::kib(128),
            access: Access::Sequential,
            read_percent: 0,
            phase_count: 30,
            phase: Nanos::from_seconds(4),
            request_count: None,
            fill: true,
            area: Area::default(),
            seed: 0,
        }
    }
}

impl BurstOptions {
    /// The three bursts of S002.
    #[must_use]
    pub fn standard() -> Vec<Self> {
        let burst = |seconds| Self { burst: Nanos::from_seconds(seconds), ..Self::default() };
        [5, 30, 60].map(burst).to_vec()
    }
}

/// What a burst did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BurstResult {
    /// What was done.
    pub options: BurstOptions,
    /// One phase of sequential writes before the burst, or of what follows it.
    pub before: PatternResult,
    /// The random writes.
    pub burst: PatternResult,
    /// The phases after it, one run each.
    pub phases: PatternResult,
    /// The median throughput of the phases.
    pub median_bytes_per_second: f64,
    /// From the end of the burst to the first phase that reaches 60 % of the median.
    pub recovery_time: Nanos,
    /// The first phase after the burst over the phase before it.
    pub first_phase_ratio: f64,
}

/// Fills, bursts and watches the recovery.
///
/// # Errors
/// Where a pattern does not fit the device, a request fails, or the observer cancels.
pub fn run_burst(
    device: &mut dyn Device,
    options: &BurstOptions,
    observer: &mut dyn Observer,
) -> Result<BurstResult, ProbeError> {
    let limit = Limit { request_count: options.request_count, duration: Some(options.phase) };
    let phases = Pattern {
        repetitions: options.phase_count,
        area: options.area,
        seed: options.seed,
        ..Pattern::new(options.access, options.read_percent, options.request_bytes.0, limit)
    };
    let random = Pattern {
        area: options.area,
        seed: options.seed,
        label: format!("burst of random writes, {}", options.burst),
        ..Pattern::new(Access::Random, 0, options.burst_request_bytes.0, Limit::time(options.burst))
    };
    phases.validate(device.info())?;
    random.validate(device.info())?;
    if options.fill {
        prepare(device, &Preparation::fill_of(options.area), observer)?;
    }
    let label = "one phase before the burst".into();
    let baseline = Pattern { repetitions: 1, label, ..phases.clone() };
    let before = run_pattern(device, &baseline, observer)?;
    let burst = run_pattern(device, &random, observer)?;
    let label = "phases after the burst".into();
    let phases = run_pattern(device, &Pattern { label, ..phases }, observer)?;
    Ok(BurstResult::new(options.clone(), before, burst, phases))
}

impl BurstResult {
    fn new(
        options: BurstOptions,
        before: PatternResult,
        burst: PatternResult,
        phases: PatternResult,
    ) -> Self {
        let speeds: Vec<f64> = phases.runs.iter().map(|run| run.bytes_per_second).collect();
        let first = speeds.first().copied().unwrap_or_default();
        let median_bytes_per_second = median(speeds);
        // Some phase reaches the median or more, so the search ends.
        let recovery_time = phases
            .runs
            .iter()
            .take_while(|run| run.bytes_per_second < RECOVERED_SHARE * median_bytes_per_second)
            .map(|run| run.elapsed)
            .sum();
        let first_phase_ratio = first / before.medians.bytes_per_second.max(f64::MIN_POSITIVE);
        Self {
            options,
            before,
            burst,
            phases,
            median_bytes_per_second,
            recovery_time,
            first_phase_ratio,
        }
    }
}
