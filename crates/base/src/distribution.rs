//! Which item comes next: uniform, Zipf, hot and cold classes, each over `0..item_count`.
//!
//! Zipf is Hörmann and Derflinger's rejection-inversion (1996): constant time and memory for any
//! number of items and any skew, where a table would need gigabytes. Ranks are spread over the
//! range by a [`Permutation`], so that popular items are not neighbours, unless asked to cluster.

use crate::{Permutation, Rng};
use serde::{Deserialize, Serialize};
use std::fmt;

/// A class of items: a share of the accesses falls on a share of the items.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HotColdClass {
    /// Part of all accesses, in 0..=1; all classes add up to 1.
    pub access_share: f64,
    /// Part of all items, in 0..=1; all classes add up to 1.
    pub item_share: f64,
}

/// How accesses fall on items.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "kind", deny_unknown_fields)]
pub enum Distribution {
    /// Every item alike.
    #[default]
    Uniform,
    /// Item of rank k with weight 1 / k^theta.
    Zipf {
        /// Skew: 0 is uniform, 0.99 is YCSB's default; any value of 0 or more.
        theta: f64,
        /// Whether popular items are neighbours.
        #[serde(default)]
        clustered: bool,
    },
    /// Classes of items, uniform inside each.
    HotCold {
        /// From the first items to the last.
        classes: Vec<HotColdClass>,
        /// Whether the items of a class are neighbours.
        #[serde(default)]
        clustered: bool,
    },
}

/// Why a distribution cannot be used.
#[derive(Clone, Debug, PartialEq)]
pub struct DistributionError(String);

impl fmt::Display for DistributionError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for DistributionError {}

/// A seeded stream of items drawn by a [`Distribution`].
#[derive(Clone, Debug)]
pub struct AddressGenerator {
    rng: Rng,
    item_count: u64,
    sampler: Sampler,
    spread: Option<Permutation>,
}

#[derive(Clone, Debug)]
enum Sampler {
    Uniform,
    Zipf(Zipf),
    HotCold(Vec<HotColdRange>),
}

#[derive(Clone, Copy, Debug)]
struct HotColdRange {
    cumulative_share: f64,
    first_item: u64,
    item_count: u64,
}

impl AddressGenerator {
    /// A stream over `0..item_count`.
    ///
    /// # Errors
    /// If there are no items, a skew is negative or not finite, or shares do not add up to 1.
    pub fn new(
        distribution: &Distribution,
        item_count: u64,
        seed: u64,
    ) -> Result<Self, DistributionError> {
        if item_count == 0 {
            return Err(DistributionError("there are no items to choose from".into()));
        }
        let spread = |clustered: bool| (!clustered).then(|| Permutation::new(item_count, seed));
        let (sampler, spread) = match distribution {
            Distribution::Uniform => (Sampler::Uniform, None),
            Distribution::Zipf { theta, clustered } => {
                if !theta.is_finite() || *theta < 0.0 {
                    return Err(DistributionError(format!("zipf theta {theta} must be 0 or more")));
                }
                (Sampler::Zipf(Zipf::new(item_count, *theta)), spread(*clustered))
            }
            Distribution::HotCold { classes, clustered } => {
                (Sampler::HotCold(hot_cold_ranges(classes, item_count)?), spread(*clustered))
            }
        };
        Ok(Self { rng: Rng::new(seed), item_count, sampler, spread })
    }

    /// Draws from another generator from here on; which items are popular stays.
    pub fn reseed(&mut self, rng: Rng) {
        self.rng = rng;
    }

    /// The next item, below the item count.
    pub fn next_item(&mut self) -> u64 {
        let rank = match &self.sampler {
            Sampler::Uniform => self.rng.below(self.item_count),
            Sampler::Zipf(zipf) => zipf.sample(&mut self.rng),
            Sampler::HotCold(ranges) => {
                let point = self.rng.unit();
                let range = ranges
                    .iter()
                    .find(|range| point < range.cumulative_share)
                    .or(ranges.last())
                    .expect("validated to have a class");
                range.first_item + self.rng.below(range.item_count)
            }
        };
        self.spread.as_ref().map_or(rank, |spread| spread.apply(rank))
    }
}

#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share in 0..=1 of a count is a count"
)]
fn hot_cold_ranges(
    classes: &[HotColdClass],
    item_count: u64,
) -> Result<Vec<HotColdRange>, DistributionError> {
    let sums = classes
        .iter()
        .fold((0.0, 0.0), |sum, class| (sum.0 + class.access_share, sum.1 + class.item_share));
    if (sums.0 - 1.0_f64).abs() > 1e-6 || (sums.1 - 1.0_f64).abs() > 1e-6 {
        let text =
            format!("shares of accesses add up to {}, of items to {}; need 1", sums.0, sums.1);
        return Err(DistributionError(text));
    }
    let mut ranges = Vec::new();
    let (mut cumulative, mut items_before) = (0.0, 0.0);
    for class in classes {
        if class.access_share < 0.0 || class.item_share < 0.0 {
            return Err(DistributionError("a share is negative".into()));
        }
        let first_item = (items_before * item_count as f64).round() as u64;
        items_before += class.item_share;
        cumulative += class.access_share;
        let end = ((items_before * item_count as f64).round() as u64).min(item_count);
        if end <= first_item {
            if class.access_share > 0.0 {
                let text = format!("a class with {} of the items is empty here", class.item_share);
                return Err(DistributionError(text));
            }
            continue;
        }
        let item_count = end - first_item;
        ranges.push(HotColdRange { cumulative_share: cumulative, first_item, item_count });
    }
    Ok(ranges)
}

/// Rejection-inversion for P(k) ~ (k + 1)^-theta, k in `0..item_count`.
#[derive(Clone, Debug)]
struct Zipf {
    item_count: u64,
    theta: f64,
    integral_of_first: f64,
    integral_of_last: f64,
    acceptance: f64,
}

impl Zipf {
    fn new(item_count: u64, theta: f64) -> Self {
        let mut zipf = Self {
            item_count,
            theta,
            integral_of_first: 0.0,
            integral_of_last: 0.0,
            acceptance: 0.0,
        };
        zipf.integral_of_first = zipf.integral(1.5) - 1.0;
        zipf.integral_of_last = zipf.integral(item_count as f64 + 0.5);
        zipf.acceptance = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the value is clamped to 1..=item_count"
    )]
    fn sample(&self, rng: &mut Rng) -> u64 {
        loop {
            let span = self.integral_of_first - self.integral_of_last;
            let u = self.integral_of_last + rng.unit() * span;
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.item_count as f64);
            if k - x <= self.acceptance || u >= self.integral(k + 0.5) - self.density(k) {
                return (k as u64).min(self.item_count) - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.theta * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let scaled = (1.0 - self.theta) * log;
        // (e^y - 1) / y stays accurate where theta is close to 1.
        log * if scaled.abs() > 1e-8 { scaled.exp_m1() / scaled } else { 1.0 + scaled / 2.0 }
    }

    fn inverse(&self, value: f64) -> f64 {
        let scaled = (value * (1.0 - self.theta)).max(-1.0);
        let ratio = if scaled.abs() > 1e-8 { scaled.ln_1p() / scaled } else { 1.0 - scaled / 2.0 };
        (ratio * value).exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frequencies(distribution: &Distribution, item_count: u64, draws: u32) -> Vec<f64> {
        let mut generator = AddressGenerator::new(distribution, item_count, 42).unwrap();
        let mut counts = vec![0.0; crate::to_index(item_count)];
        for _ in 0..draws {
            counts[crate::to_index(generator.next_item())] += 1.0 / f64::from(draws);
        }
        counts
    }

    #[test]
    fn zipf_follows_its_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.5] {
            let item_count = 50;
            let distribution = Distribution::Zipf { theta, clustered: true };
            let measured = frequencies(&distribution, item_count, 400_000);
            let weights: Vec<f64> = (1..=item_count).map(|k| (k as f64).powf(-theta)).collect();
            let total: f64 = weights.iter().sum();
            for (rank, (share, weight)) in measured.iter().zip(&weights).enumerate() {
                let expected = weight / total;
                let tolerance = 6.0 * (expected / 400_000.0).sqrt();
                assert!((share - expected).abs() < tolerance, "theta {theta} rank {rank}");
            }
        }
    }

    #[test]
    fn spreading_keeps_the_shares_but_moves_the_items() {
        let mut spread =
            frequencies(&Distribution::Zipf { theta: 1.0, clustered: false }, 64, 100_000);
        let clustered =
            frequencies(&Distribution::Zipf { theta: 1.0, clustered: true }, 64, 100_000);
        assert!(clustered[0] > 0.15);
        spread.sort_by(f64::total_cmp);
        assert!((spread[63] - clustered[0]).abs() < 0.01);
    }

    #[test]
    fn hot_and_cold_classes_get_their_shares() {
        let class = |access_share, item_share| HotColdClass { access_share, item_share };
        let distribution = Distribution::HotCold {
            classes: vec![class(0.8, 0.2), class(0.2, 0.8)],
            clustered: true,
        };
        let measured = frequencies(&distribution, 100, 200_000);
        let hot: f64 = measured[..20].iter().sum();
        assert!((hot - 0.8).abs() < 0.01, "{hot}");
    }

    #[test]
    fn impossible_distributions_are_refused() {
        let half = HotColdClass { access_share: 0.5, item_share: 0.5 };
        let lopsided = Distribution::HotCold { classes: vec![half], clustered: false };
        let negative = Distribution::Zipf { theta: -1.0, clustered: false };
        for distribution in [lopsided, negative] {
            assert!(AddressGenerator::new(&distribution, 10, 1).is_err());
        }
        assert!(AddressGenerator::new(&Distribution::Uniform, 0, 1).is_err());
    }
}
