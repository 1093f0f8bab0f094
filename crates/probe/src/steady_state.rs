//! Whether a device has reached its steady state, by the rule of SNIA's Solid State Storage
//! Performance Test Specification 2.0.2 (2020).
//!
//! ```text
//!   y │  ·                       window: the last 5 rounds
//!     │    ·  ·  ·──·──·──·──·   1. max − min ≤ 20 % of the mean
//!     └──────────────────────►   2. |slope of the line| × 4 ≤ 10 % of the mean
//!        rounds
//! ```
//!
//! 1. The window is the first that satisfies both rules, or the last one where none does.

use crate::ProbeError;
use crate::fit::line_through;
use crate::pattern::Pattern;
use crate::runner::{Observer, PatternResult, RunResult, run_pattern};
use nandu_device::Device;
use serde::{Deserialize, Serialize};

/// The limits; the default is SNIA's.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct SteadyStateOptions {
    /// Consecutive rounds that must agree.
    pub window_rounds: usize,
    /// Rounds after which one gives up.
    pub rounds_max: u32,
    /// Largest less smallest value over the mean.
    pub excursion_max: f64,
    /// Rise of the fitted line over the window, over the mean.
    pub rise_max: f64,
}

impl Default for SteadyStateOptions {
    fn default() -> Self {
        Self { window_rounds: 5, rounds_max: 25, excursion_max: 0.20, rise_max: 0.10 }
    }
}

/// What the rule says about a series of rounds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SteadyState {
    /// Whether both limits hold in the window.
    pub reached: bool,
    /// The first round of the window, from 0.
    pub first_round: usize,
    /// The values of the window; fewer than asked for where there were not enough rounds.
    pub window: Vec<f64>,
    /// The mean of the window's values, in their unit.
    pub mean: f64,
    /// Largest less smallest over the mean.
    pub excursion: f64,
    /// Rise of the fitted line over the window over the mean; negative where it falls.
    pub rise: f64,
    /// The fitted line at the first round of the window.
    pub line_start: f64,
    /// The fitted line's slope per round.
    pub line_slope: f64,
}

/// Looks for the steady state in the tracked variable of consecutive rounds.
#[must_use]
pub fn detect(rounds: &[f64], options: &SteadyStateOptions) -> SteadyState {
    let length = options.window_rounds.max(2);
    let windows = || rounds.windows(length).enumerate();
    windows()
        .map(|(first, window)| judge(first, window, options, true))
        .find(|state| state.reached)
        .or_else(|| {
            windows().next_back().map(|(first, window)| judge(first, window, options, true))
        })
        .unwrap_or_else(|| judge(0, rounds, options, false))
}

fn judge(first: usize, window: &[f64], options: &SteadyStateOptions, full: bool) -> SteadyState {
    let mean = window.iter().sum::<f64>() / window.len().max(1) as f64;
    let largest = window.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let smallest = window.iter().copied().fold(f64::INFINITY, f64::min);
    let relative = |amount: f64| if mean > 0.0 { amount / mean } else { 0.0 };
    let excursion = if window.is_empty() { 0.0 } else { relative(largest - smallest) };
    let (line_start, line_slope) =
        if window.is_empty() { (0.0, 0.0) } else { line_through(window) };
    let rise = relative(line_slope * window.len().saturating_sub(1) as f64);
    let reached =
        full && mean > 0.0 && excursion <= options.excursion_max && rise.abs() <= options.rise_max;
    SteadyState {
        reached,
        first_round: first,
        window: window.to_vec(),
        mean,
        excursion,
        rise,
        line_start,
        line_slope,
    }
}

/// Repeats `pattern`, one round per run, until its throughput is steady or the rounds are used up.
/// The pattern's own repetitions are ignored. SNIA's rounds last a minute after twice the capacity
/// was written; that is the caller's preparation.
///
/// # Errors
/// Where the pattern does not fit the device, a request fails, or the observer cancels.
pub fn run_until_steady(
    device: &mut dyn Device,
    pattern: &Pattern,
    options: &SteadyStateOptions,
    observer: &mut dyn Observer,
) -> Result<(PatternResult, SteadyState), ProbeError> {
    let mut runs: Vec<RunResult> = Vec::new();
    let mut rounds = Vec::new();
    let mut state = detect(&rounds, options);
    for round in 0..options.rounds_max {
        let seed = pattern.seed.wrapping_add(u64::from(round));
        let once = Pattern { repetitions: 1, seed, ..pattern.clone() };
        let mut part = RoundObserver { whole: &mut *observer, round, options };
        runs.extend(run_pattern(device, &once, &mut part)?.runs);
        rounds.extend(runs.last().map(|run| run.bytes_per_second));
        state = detect(&rounds, options);
        if state.reached {
            break;
        }
    }
    let repetitions = nandu_base::to_u32(runs.len() as u64);
    let pattern = Pattern { repetitions, ..pattern.clone() };
    Ok((PatternResult::new(device.info().name.clone(), pattern, runs), state))
}

/// Tells the progress of one round as that of all, as if none were saved.
struct RoundObserver<'a> {
    whole: &'a mut dyn Observer,
    round: u32,
    options: &'a SteadyStateOptions,
}

impl Observer for RoundObserver<'_> {
    fn progress(&mut self, fraction: f64, what: &str) {
        let rounds = f64::from(self.options.rounds_max.max(1));
        self.whole.progress((f64::from(self.round) + fraction) / rounds, what);
    }

    fn is_cancelled(&self) -> bool {
        self.whole.is_cancelled()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judge(rounds: &[f64]) -> SteadyState {
        detect(rounds, &SteadyStateOptions::default())
    }

    #[test]
    fn a_device_that_settles_is_steady_from_the_round_where_it_does() {
        let state = judge(&[200.0, 160.0, 130.0, 100.0, 101.0, 99.0, 100.0, 100.0, 100.0]);
        // Rounds 2 to 6 still start at 130: excursion 29 %. Rounds 3 to 7 agree.
        assert!(state.reached);
        assert_eq!(state.first_round, 3);
        assert!((state.mean - 100.0).abs() < 1e-9);
        assert!((state.excursion - 0.02).abs() < 1e-9);
    }

    #[test]
    fn the_limits_themselves_are_steady_and_just_past_them_is_not() {
        // Excursion exactly 20 % of the mean of 100, slope 0.
        assert!(judge(&[90.0, 110.0, 100.0, 110.0, 90.0]).reached);
        assert!(!judge(&[89.9, 110.1, 100.0, 110.1, 89.9]).reached);
        // Slope x 4 exactly 10 % of the mean; 11 % is too steep.
        let line = |slope: f64| [-2.0, -1.0, 0.0, 1.0, 2.0].map(|x| 80.0 + slope * x);
        assert!(judge(&line(2.0)).reached);
        let steep = judge(&line(2.2));
        assert!(!steep.reached && (steep.rise - 0.11).abs() < 1e-9);
        let falling = judge(&line(-2.2));
        assert!(!falling.reached && (falling.rise + 0.11).abs() < 1e-9);
    }

    #[test]
    fn too_few_rounds_are_reported_but_not_steady() {
        for rounds in [&[][..], &[100.0], &[100.0; 4]] {
            let state = judge(rounds);
            assert!(!state.reached);
            assert_eq!(state.window.len(), rounds.len());
        }
        assert!(!judge(&[0.0; 5]).reached);
    }
}
