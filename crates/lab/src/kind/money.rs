//! What drives do for their price: S000 chapter 7 and section 9.1, S001 section 4.3.
//!
//! ```text
//!   [measure.drives.NAME]      base, cents: a drive, or an array of them, and what it costs
//!   [measure.quotients.NAME]   of, by: two prices that a paper compares
//!   [measure.lives.NAME]       bytes, bytes_per_second, cycles: flash that is written over in order without an end
//! ```
//!
//! One step for each drive, with series by the size of a request, in KB:
//!
//! - `DRIVE.PATTERN.mb_s` and `DRIVE.PATTERN.per_dollar` (MB/s for a dollar), of the four access patterns;
//! - `DRIVE.dollars_per_gb`, at 1, of the whole drive.
//!
//! And, at 1, `quotient.NAME`: one price over the other; `life.NAME`: years until each byte was written so many times
//! (S004, footnote 2).
//!
//! 1. Prices stand in the experiment, each with its source; nothing costs by itself.
//! 2. What several drives do together is measured, as the array that they make, and not multiplied.

use super::Measurement;
use super::bench::{AccessPattern, Bench, PointOrder, Scale, check_requests};
use crate::error::LabError;
use crate::outcome::Series;
use nandu_base::ByteCount;
use nandu_drives::array::ADDRESS_PREFIX;
use nandu_drives::price::CENTS_MAX;
use nandu_drives::profile::Profile;
use nandu_drives::worth::YEAR_SECONDS;
use nandu_probe::text;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const CENTS_PER_DOLLAR: f64 = 100.0;

/// The keys of an experiment of the kind `money`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Money {
    /// What is bought.
    pub drives: BTreeMap<String, PricedSet>,
    /// Prices that a paper compares.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub quotients: BTreeMap<String, Quotient>,
    /// Flash whose years somebody computes.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub lives: BTreeMap<String, Life>,
    /// Sizes of a request, rising.
    #[serde(deserialize_with = "text::sizes")]
    pub request_bytes: Vec<ByteCount>,
    /// Requests in flight at once.
    pub queue_depth: u32,
    /// Requests that are timed at each size.
    pub request_count: u64,
    /// Capacity that a flash drive is scaled to.
    #[serde(deserialize_with = "text::size")]
    pub flash_capacity: ByteCount,
}

/// A simulated drive, or an array of them, and its price.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PricedSet {
    /// Which, as `sim:NAME` or `array:stripe:sim:NAME*2`.
    pub base: String,
    /// What the whole of it costs, in cents.
    pub cents: u64,
}

/// Two prices of which one is divided by the other.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quotient {
    /// The one that is divided.
    pub of: f64,
    /// What it is divided by.
    pub by: f64,
}

/// Flash that is written over in order, as fast as it goes, until it is worn out.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Life {
    /// How much it holds.
    #[serde(deserialize_with = "text::size")]
    pub bytes: ByteCount,
    /// How fast it is written.
    pub bytes_per_second: f64,
    /// How often each byte can be.
    pub cycles: f64,
}

impl Life {
    fn years(&self) -> f64 {
        self.bytes.0 as f64 * self.cycles / self.bytes_per_second / YEAR_SECONDS
    }
}

impl PricedSet {
    fn profile(&self, name: &str) -> Result<Profile, String> {
        let array = self.base.starts_with(ADDRESS_PREFIX).then_some(self.base.as_str());
        let stem = array.or_else(|| self.base.strip_prefix("sim:")).ok_or_else(|| {
            format!(
                "`base` of drive `{name}` is `{}`; write sim:NAME or {ADDRESS_PREFIX}LAYOUT:sim:NAME*N",
                self.base
            )
        })?;
        Profile::load(stem).map_err(|error| error.to_string())
    }

    fn dollars(&self) -> f64 {
        self.cents as f64 / CENTS_PER_DOLLAR
    }
}

impl Money {
    fn series_of(&self, drive: &str) -> Vec<Series> {
        let per_pattern = AccessPattern::ALL.into_iter().flat_map(|pattern| {
            let stem = format!("{drive}.{}", pattern.label());
            [
                Series::new(format!("{stem}.mb_s"), "KB", "MB/s"),
                Series::new(format!("{stem}.per_dollar"), "KB", "MB/s/$"),
            ]
        });
        let by_capacity = Series::new(format!("{drive}.dollars_per_gb"), "", "$/GB");
        per_pattern.chain([by_capacity]).collect()
    }

    /// What follows from figures that stand in the experiment.
    fn arithmetic(&self) -> Vec<Series> {
        let of = |name: String, unit: &str, value: f64| Series {
            points: vec![(1.0, value)],
            ..Series::new(name, "", unit)
        };
        let quotients = self.quotients.iter();
        let quotients =
            quotients.map(|(name, it)| of(format!("quotient.{name}"), "", it.of / it.by));
        let lives =
            self.lives.iter().map(|(name, it)| of(format!("life.{name}"), "years", it.years()));
        quotients.chain(lives).collect()
    }

    fn check_drive(&self, name: &str, drive: &PricedSet) -> Result<(), String> {
        let whole = drive.profile(name)?.geometry.capacity();
        if !(1..=CENTS_MAX).contains(&drive.cents) {
            let cents = drive.cents;
            return Err(format!("`cents` of drive `{name}` is {cents}, must be 1 to {CENTS_MAX}"));
        }
        if self.flash_capacity < ByteCount::mib(4) || self.flash_capacity > whole {
            return Err(format!("`flash_capacity` must be from 4 MiB to {whole}, of `{name}`"));
        }
        Ok(())
    }
}

/// Whether something came out that can be told.
fn is_sum(series: &Series) -> bool {
    series.points.iter().all(|(_, value)| value.is_finite())
}

impl Measurement for Money {
    fn check(&self) -> Result<(), String> {
        if self.drives.is_empty() {
            return Err("`drives` is empty; name at least one".into());
        }
        self.drives.iter().try_for_each(|(name, drive)| self.check_drive(name, drive))?;
        let is_price = |price: f64| price.is_finite() && price > 0.0;
        let odd = self.quotients.iter().find(|(_, it)| !is_price(it.of) || !is_price(it.by));
        if let Some((name, _)) = odd {
            return Err(format!("`of` and `by` of quotient `{name}` must be above 0"));
        }
        let is_sound =
            |it: &Life| it.bytes.0 > 0 && is_price(it.bytes_per_second) && is_price(it.cycles);
        if let Some((name, _)) = self.lives.iter().find(|(_, it)| !is_sound(it)) {
            return Err(format!("all three keys of life `{name}` must be above 0"));
        }
        if let Some(series) = self.arithmetic().iter().find(|it| !is_sum(it)) {
            return Err(format!(
                "`{}` is beyond any number; its keys are too far apart",
                series.name
            ));
        }
        let sizes = ("request_bytes", &self.request_bytes[..]);
        check_requests(sizes, self.queue_depth, self.request_count)
    }

    fn targets(&self) -> Vec<String> {
        self.drives.values().map(|drive| drive.base.clone()).collect()
    }

    fn step_targets(&self, index: usize) -> Vec<String> {
        let drive = index.checked_sub(1).map(|index| self.targets().swap_remove(index));
        drive.into_iter().collect()
    }

    fn series_names(&self) -> Vec<String> {
        let of_drives = self.drives.keys().flat_map(|drive| self.series_of(drive));
        self.arithmetic().into_iter().chain(of_drives).map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        std::iter::once("arithmetic".to_owned()).chain(self.drives.keys().cloned()).collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let Some(index) = index.checked_sub(1) else { return Ok(self.arithmetic()) };
        let (name, drive) = self.drives.iter().nth(index).expect("a step is a drive");
        let profile = drive.profile(name).map_err(|error| LabError::step(name, &error))?;
        let scale = Scale::of_simulated(self.flash_capacity, self.request_count);
        let (sizes, queue_depth) = (&self.request_bytes, self.queue_depth);
        let rates = bench.with_profile(name, &profile, &scale, |subject, observer| {
            let mut rates = Vec::new();
            for pattern in AccessPattern::ALL {
                for size in sizes {
                    let order = PointOrder { pattern, request_bytes: size.0, queue_depth };
                    rates.push(subject.measure(order, &scale, observer)?.medians.bytes_per_second);
                }
            }
            Ok(rates)
        })?;
        let mut series = self.series_of(name);
        for (pair, rates) in series.chunks_mut(2).zip(rates.chunks(self.request_bytes.len())) {
            for (size, rate) in self.request_bytes.iter().zip(rates) {
                let (x, mb_s) = (size.0 as f64 / 1024.0, rate / 1e6);
                pair[0].points.push((x, mb_s));
                pair[1].points.push((x, mb_s / drive.dollars()));
            }
        }
        let by_capacity = series.last_mut().expect("there are series");
        let gigabytes = profile.geometry.capacity().0 as f64 / 1e9;
        by_capacity.points.push((1.0, drive.dollars() / gigabytes));
        Ok(series)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "request_bytes = ['16KiB', '1MiB']\nqueue_depth = 32\nrequest_count = 10\n\
        flash_capacity = '64MiB'\n\
        [drives.two]\nbase = 'array:stripe:sim:toshiba-320*2'\ncents = 25998\n\
        [drives.one]\nbase = 'sim:ocz-core'\ncents = 23099\n\
        [quotients.by-gigabyte]\nof = 16\nby = 0.33\n\
        [lives.years]\nbytes = '64GB'\nbytes_per_second = 80e6\ncycles = 2e6\n";

    fn kind(text: &str) -> Money {
        toml::from_str(text).unwrap()
    }

    #[test]
    fn prices_are_divided_and_arrays_are_drives() {
        let money = kind(TEXT);
        assert_eq!(money.check(), Ok(()));
        assert_eq!(money.steps(), ["arithmetic", "one", "two"]);
        assert_eq!(money.step_targets(2), ["array:stripe:sim:toshiba-320*2"]);
        assert!(money.step_targets(0).is_empty());
        assert!((money.arithmetic()[0].points[0].1 - 48.48).abs() < 0.01);
        // By hand: 800 s for a pass, two million of them, 31,557,600 s in a year.
        assert!((money.arithmetic()[1].points[0].1 - 50.70).abs() < 0.01);
        assert_eq!(money.series_names().len(), 2 + 2 * 9);
        assert!((money.drives["two"].dollars() - 259.98).abs() < 1e-9);
    }

    #[test]
    fn what_makes_no_sense_is_named() {
        let wrong = |from: &str, to: &str| kind(&TEXT.replace(from, to)).check().unwrap_err();
        assert!(wrong("cents = 23099", "cents = 0").contains("`one`"));
        assert!(wrong("cents = 23099", "cents = 1000000001").contains("`one`"));
        assert!(wrong("by = 0.33", "by = 0").contains("`by-gigabyte`"));
        assert!(wrong("cycles = 2e6", "cycles = 0.0").contains("`years`"));
        assert!(wrong("cycles = 2e6", "cycles = 1e308").contains("`life.years` is beyond"));
        assert!(wrong("by = 0.33", "by = 1e-308").contains("`quotient.by-gigabyte` is beyond"));
        assert!(wrong("'sim:ocz-core'", "'ocz-core'").contains("write sim:NAME"));
        assert!(wrong("['16KiB', '1MiB']", "['1MiB', '16KiB']").contains("`request_bytes`"));
        assert!(wrong("queue_depth = 32", "queue_depth = 0").contains("`queue_depth`"));
        assert!(wrong("'64MiB'", "'1MiB'").contains("`flash_capacity`"));
    }
}
