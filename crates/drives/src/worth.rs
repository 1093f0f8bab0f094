//! What a drive does for its money under a load, and how long it lasts if that goes on.
//!
//! ```text
//!   work of a second ÷ price                      operations a second for a dollar
//!   parts × cycles ÷ parts worn in a second       years        (wear)
//!   work of those years, at most five ÷ price     operations for a dollar
//! ```
//!
//! 1. A scaled drive stands for the whole one: it works and wears as it does, and has the chips and the price of the
//!    whole.
//! 2. What no price and no profile says is absent.

use crate::merit::{Merit, MeritParts, MeritWeights, YEAR_HOURS};
use crate::price::{Price, Prices};
use crate::profile::Profile;
use crate::wear::Endurance;
use nandu_base::Nanos;
use nandu_base::units::figures;
use nandu_device::Counters;
use serde::{Deserialize, Serialize};

/// A drive is replaced after so many years, if it has not worn out before.
pub const SERVICE_YEARS: f64 = 5.0;
/// Seconds of a year.
pub const YEAR_SECONDS: f64 = YEAR_HOURS * 3600.0;

/// What a drive did for its money.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Worth {
    /// What a whole one costs; `None` if nobody said.
    pub price: Option<Price>,
    /// Work of a second, for a dollar of its price.
    pub operations_per_second_per_dollar: Option<f64>,
    /// Work for a dollar of its price, as long as it lasts, at most [`SERVICE_YEARS`]; `None` where nobody knows.
    pub operations_per_dollar: Option<f64>,
    /// Years until it is worn out, if the load goes on; `None` where nothing wore, and where nobody knows.
    pub years: Option<f64>,
    /// Whether it is known how it wears, be it that it does not.
    pub is_wear_known: bool,
}

/// What a drive did in some time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Used {
    /// How long it was watched, in seconds.
    pub seconds: f64,
    /// What it was asked for.
    pub operation_count: u64,
    /// Whether it was written.
    pub is_written: bool,
    /// Erase blocks or lines that were worn; `None` where nothing wears, and where nobody knows.
    pub worn: Option<f64>,
}

impl Used {
    /// Between two readings of `profile`.
    #[must_use]
    pub fn between(
        profile: &Profile,
        (before, after): (&Counters, &Counters),
        time: Nanos,
        operation_count: u64,
    ) -> Self {
        Self {
            seconds: time.as_seconds_f64(),
            operation_count,
            is_written: after.writes.byte_count > before.writes.byte_count,
            worn: Endurance::of(profile).worn_between(before, after),
        }
    }

    /// This and what another drive of the same profile did before or after it.
    #[must_use]
    pub fn with(&self, other: &Self) -> Self {
        Self {
            seconds: self.seconds + other.seconds,
            operation_count: self.operation_count + other.operation_count,
            is_written: self.is_written || other.is_written,
            worn: self.worn.zip(other.worn).map(|(one, other)| one + other),
        }
    }
}

impl Worth {
    /// Of a drive of `profile` that did what `used` says.
    #[must_use]
    pub fn of(profile: &Profile, prices: &Prices, used: &Used) -> Self {
        let endurance = Endurance::of(profile);
        let worn = used.worn.filter(|&worn| worn > 0.0);
        let years = worn
            .zip(endurance.worn_in_all())
            .map(|(worn, in_all)| in_all / worn * used.seconds / YEAR_SECONDS);
        let price = prices.of(profile);
        let per_dollar = price.as_ref().filter(|_| used.seconds > 0.0).map(|price| {
            let dollars = price.cents as f64 / 100.0;
            used.operation_count as f64 / used.seconds / dollars
        });
        let is_wear_known = endurance.is_known();
        let lasts = (is_wear_known || !used.is_written)
            .then(|| years.unwrap_or(SERVICE_YEARS).min(SERVICE_YEARS) * YEAR_SECONDS);
        Self {
            price,
            operations_per_second_per_dollar: per_dollar,
            operations_per_dollar: per_dollar.zip(lasts).map(|(rate, lasts)| rate * lasts),
            years,
            is_wear_known,
        }
    }

    /// Its figure of merit, where it drew `watts` in the mean, if somebody knows; it is replaced when it is worn
    /// out, or after [`SERVICE_YEARS`].
    #[must_use]
    pub fn merit(&self, weights: MeritWeights, watts: Option<f64>) -> Option<Merit> {
        let price = self.price.as_ref()?;
        let operations_per_second =
            self.operations_per_second_per_dollar? * price.cents as f64 / 100.0;
        let is_known = self.operations_per_dollar.is_some();
        let years = is_known.then(|| self.years.unwrap_or(SERVICE_YEARS).min(SERVICE_YEARS));
        weights.merit_of(MeritParts::new(operations_per_second, Some(price.cents), years, watts))
    }

    /// One line for people; `None` where there is nothing to say.
    #[must_use]
    pub fn line(&self) -> Option<String> {
        let money = self.price.as_ref().zip(self.operations_per_second_per_dollar);
        let money = money.map(|(price, rate)| {
            let all = self.operations_per_dollar.map_or(String::new(), |all| {
                let years = self.years.unwrap_or(SERVICE_YEARS).min(SERVICE_YEARS);
                format!(", {} million in {} years", figures(all / 1e6), figures(years))
            });
            format!("{} operations/s for a dollar{all}, at {}", figures(rate), price.line())
        });
        let life =
            self.years.map(|years| format!("worn out in {} years of this load", figures(years)));
        let parts: Vec<String> = money.into_iter().chain(life).collect();
        (!parts.is_empty()).then(|| parts.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_device::{LineUse, OperationCounters};

    const HOUR: Nanos = Nanos::from_seconds(3600);

    fn of(name: &str, after: &Counters) -> Worth {
        let profile = Profile::load(name).unwrap();
        let before = lines(0);
        let used = Used::between(&profile, (&before, after), HOUR, 36_000);
        Worth::of(&profile, &Prices::embedded(), &used)
    }

    fn lines(count: u64) -> Counters {
        let writes = OperationCounters { byte_count: count * 256, ..OperationCounters::default() };
        Counters {
            writes,
            lines: Some(LineUse { write_count: count, ..LineUse::default() }),
            ..Counters::default()
        }
    }

    #[test]
    fn work_is_divided_by_what_the_drive_costs_and_goes_on_as_long_as_it_lasts() {
        // 8 GiB in lines of 256 bytes, each 1,000,000 times, a hundredth of them in an hour: a few years.
        let worn = (8_u64 << 30) / 256 * 1_000_000 / (3 * 8766);
        let worth = of("optane-like", &lines(worn));
        assert!((worth.years.unwrap() - 3.0).abs() < 1e-6, "{worth:?}");
        // Ten a second, for 56 dollars.
        assert!((worth.operations_per_second_per_dollar.unwrap() * 56.0 - 10.0).abs() < 1e-9);
        let all = worth.operations_per_dollar.unwrap();
        assert!((all * 56.0 / (3.0 * YEAR_SECONDS) - 10.0).abs() < 1e-5, "{all}");
        assert_eq!(
            worth.line().unwrap(),
            "0.179 operations/s for a dollar, 16.9 million in 3.00 years, at $56.00 (2019, [M:lo]); worn out in 3.00 \
             years of this load"
        );
    }

    #[test]
    fn merit_is_of_all_years_that_it_lasts_and_of_power_where_that_is_known() {
        let worn = (8_u64 << 30) / 256 * 1_000_000 / (3 * 8766);
        let worth = of("optane-like", &lines(worn));
        let weights = MeritWeights::default();
        // Ten a second for three years; 56 dollars in three years.
        let merit = worth.merit(weights, None).unwrap();
        assert!((merit.figure / (10.0 * 3.0 / (56.0 / 3.0)) - 1.0).abs() < 1e-5, "{merit:?}");
        assert_eq!((merit.weights, merit.parts.watts), (weights, None));
        // 10 W cost 26.298 dollars a year more.
        let merit = worth.merit(weights, Some(10.0)).unwrap();
        let cents = merit.parts.cents_per_year.unwrap();
        assert!((cents / (5600.0 / 3.0 + 2629.8) - 1.0).abs() < 1e-6, "{merit:?}");
        assert!((merit.figure / (10.0 * 3.0 / (cents / 100.0)) - 1.0).abs() < 1e-5, "{merit:?}");
        let unknown = of("array:stripe:sim:ocz-core+sim:pcm", &lines(5));
        assert_eq!(unknown.merit(weights, Some(1.0)), None);
    }

    #[test]
    fn what_does_not_wear_is_replaced_all_the_same() {
        for (name, after) in [("optane-like", lines(0)), ("toshiba-320", lines(5))] {
            let worth = of(name, &after);
            assert_eq!((worth.years, worth.is_wear_known), (None, true), "{name}");
            let all = worth.operations_per_dollar.unwrap();
            let rate = worth.operations_per_second_per_dollar.unwrap();
            assert!((all / rate / (5.0 * YEAR_SECONDS) - 1.0).abs() < 1e-12, "{name}");
            assert!(!worth.line().unwrap().contains("worn out"), "{worth:?}");
        }
    }

    #[test]
    fn what_two_steps_did_is_one_use() {
        let one = Used { seconds: 2.0, operation_count: 5, is_written: false, worn: Some(1.0) };
        let other = Used { seconds: 3.0, operation_count: 1, is_written: true, worn: Some(0.5) };
        let both = Used { seconds: 5.0, operation_count: 6, is_written: true, worn: Some(1.5) };
        assert_eq!(one.with(&other), both);
        assert_eq!(one.with(&Used { worn: None, ..other }).worn, None);
    }

    #[test]
    fn what_nobody_says_is_absent() {
        let worth = of("array:stripe:sim:ocz-core+sim:pcm", &lines(5));
        assert_eq!((worth.price.is_none(), worth.is_wear_known), (true, false));
        assert_eq!((worth.operations_per_dollar, worth.line()), (None, None));
        let profile = Profile::load("toshiba-320").unwrap();
        let worth = Worth::of(&profile, &Prices::embedded(), &Used::default());
        assert_eq!((worth.operations_per_second_per_dollar, worth.line()), (None, None));
    }
}
