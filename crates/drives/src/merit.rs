//! One figure of what a drive does for what it takes, as the last slide of Lee 2010 (S003) has storage by
//! performance, cost, energy and endurance; how much each counts it leaves open.
//!
//! ```text
//!           operations a second ^ P  x  years ^ N
//!   merit = ──────────────────────────────────────
//!             dollars a year ^ C  x  watts ^ E
//! ```
//!
//! 1. More is better: what is paid and drawn divides.
//! 2. Where one of them counts and nobody knows it there is no figure; what has the weight 0 need not be known.

use serde::{Deserialize, Serialize};
use std::fmt;

/// What a kilowatt hour costs where nobody says it, in cents.
pub const KILOWATT_HOUR_CENTS: u64 = 30;
/// Hours of a year of 365.25 days.
pub const YEAR_HOURS: f64 = 8766.0;

/// How much each part counts: exponents, 0 leaves one out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MeritWeights {
    /// Of operations a second.
    pub performance: u32,
    /// Of dollars a year, which divide.
    pub cost: u32,
    /// Of watts, which divide.
    pub energy: u32,
    /// Of years until the drives are replaced.
    pub endurance: u32,
}

/// What the figure is made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct MeritParts {
    /// What is done in a second.
    pub operations_per_second: f64,
    /// What a year costs, drives and power, in cents.
    pub cents_per_year: Option<f64>,
    /// Mean power of the drives.
    pub watts: Option<f64>,
    /// Years until the drives are replaced, worn out or not.
    pub years: Option<f64>,
}

/// A figure with all that it is made of.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Merit {
    /// The figure itself; more is better.
    pub figure: f64,
    /// How much each part counts in it.
    pub weights: MeritWeights,
    /// What these are.
    #[serde(flatten)]
    pub parts: MeritParts,
}

impl MeritParts {
    /// Of drives that cost so much to buy and are replaced after so many years, if both are known; power costs
    /// [`KILOWATT_HOUR_CENTS`], if it is known.
    #[must_use]
    pub fn new(
        operations_per_second: f64,
        cents: Option<u64>,
        years: Option<f64>,
        watts: Option<f64>,
    ) -> Self {
        let power = power_cents_per_year(watts.unwrap_or(0.0), KILOWATT_HOUR_CENTS);
        let cents_per_year = cents.zip(years).map(|(cents, years)| cents as f64 / years + power);
        Self { operations_per_second, cents_per_year, watts, years }
    }
}

impl Default for MeritWeights {
    fn default() -> Self {
        Self { performance: 1, cost: 1, energy: 0, endurance: 1 }
    }
}

impl MeritWeights {
    /// The figure of `parts`; `None` where it is not known.
    #[must_use]
    pub fn figure_of(self, parts: &MeritParts) -> Option<f64> {
        let to = |value: Option<f64>, weight: u32| match weight {
            0 => Some(1.0),
            weight => value.map(|value| value.powf(f64::from(weight))),
        };
        let gained = to(Some(parts.operations_per_second), self.performance)?
            * to(parts.years, self.endurance)?;
        let dollars = parts.cents_per_year.map(|cents| cents / 100.0);
        let given = to(dollars, self.cost)? * to(parts.watts, self.energy)?;
        (given > 0.0).then_some(gained / given)
    }

    /// The same with all that it is made of.
    #[must_use]
    pub fn merit_of(self, parts: MeritParts) -> Option<Merit> {
        Some(Merit { figure: self.figure_of(&parts)?, weights: self, parts })
    }
}

impl fmt::Display for MeritWeights {
    /// As in `operations/s x years / dollars a year`.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let product = |factors: [(&str, u32); 2]| {
            let power = |(name, weight): (&str, u32)| match weight {
                0 => None,
                1 => Some(name.to_owned()),
                weight => Some(format!("({name})^{weight}")),
            };
            factors.into_iter().filter_map(power).collect::<Vec<_>>().join(" x ")
        };
        let gained = product([("operations/s", self.performance), ("years", self.endurance)]);
        let given = product([("dollars a year", self.cost), ("watts", self.energy)]);
        formatter.write_str(if gained.is_empty() { "1" } else { &gained })?;
        match self.cost > 0 && self.energy > 0 {
            true => write!(formatter, " / ({given})"),
            false if given.is_empty() => Ok(()),
            false => write!(formatter, " / {given}"),
        }
    }
}

/// What so much power costs in a year, in cents.
#[must_use]
pub fn power_cents_per_year(watts: f64, kilowatt_hour_cents: u64) -> f64 {
    watts * YEAR_HOURS / 1e3 * kilowatt_hour_cents as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const PARTS: MeritParts = MeritParts {
        operations_per_second: 100.0,
        cents_per_year: Some(2000.0),
        watts: Some(5.0),
        years: Some(4.0),
    };

    fn weights(performance: u32, cost: u32, energy: u32, endurance: u32) -> MeritWeights {
        MeritWeights { performance, cost, energy, endurance }
    }

    #[test]
    fn what_is_paid_and_drawn_divides_what_is_done_for_as_long_as_it_lasts() {
        let figure = |weights: MeritWeights| weights.figure_of(&PARTS).unwrap();
        assert_eq!(figure(MeritWeights::default()), 100.0 * 4.0 / 20.0);
        assert_eq!(figure(weights(2, 1, 1, 0)), 10_000.0 / 20.0 / 5.0);
        assert_eq!(figure(weights(0, 0, 0, 0)), 1.0);
        let merit = weights(1, 0, 1, 0).merit_of(PARTS).unwrap();
        assert_eq!((merit.figure, merit.parts), (20.0, PARTS));
        // 10 W for a year are 87.66 kWh.
        assert!((power_cents_per_year(10.0, 30) - 2629.8).abs() < 1e-9);
    }

    #[test]
    fn what_counts_and_is_not_known_leaves_no_figure() {
        let unknown = MeritParts { watts: None, years: None, ..PARTS };
        assert_eq!(MeritWeights::default().figure_of(&unknown), None);
        assert_eq!(weights(1, 1, 0, 0).figure_of(&unknown), Some(5.0));
        let free = MeritParts { cents_per_year: Some(0.0), ..PARTS };
        assert_eq!(MeritWeights::default().figure_of(&free), None, "nothing is for nothing");
    }

    #[test]
    fn weights_are_told_as_the_product_that_they_make() {
        let told = |weights: MeritWeights| weights.to_string();
        assert_eq!(told(MeritWeights::default()), "operations/s x years / dollars a year");
        assert_eq!(told(weights(2, 1, 1, 0)), "(operations/s)^2 / (dollars a year x watts)");
        assert_eq!(told(weights(0, 0, 2, 0)), "1 / (watts)^2");
        assert_eq!(told(weights(1, 0, 0, 0)), "operations/s");
    }
}
