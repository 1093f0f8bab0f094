//! The shapes that must hold, and whether they do.
//!
//! Absolute numbers of drives long gone cannot repeat; orderings, ratios and crossovers can. A shape
//! is such a statement. It is evaluated on our series alone, or on ours against the published ones.
//!
//! 1. A shape about a series or point that was not measured does not hold.
//! 2. A verdict's text holds the numbers that decided it.

use crate::experiment::Published;
use crate::outcome::{Series, Verdict};
use nandu_base::ByteCount;
use nandu_base::units::three_digits;
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// A place on an x axis: a number, or a size such as `"4KiB"`.
#[derive(Clone, Copy, Debug, PartialEq, PartialOrd, Serialize)]
#[serde(transparent)]
pub struct Place(pub f64);

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(PlaceVisitor)
    }
}

struct PlaceVisitor;

impl serde::de::Visitor<'_> for PlaceVisitor {
    type Value = Place;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a number or a size such as \"4KiB\"")
    }

    fn visit_f64<E: serde::de::Error>(self, value: f64) -> Result<Place, E> {
        Ok(Place(value))
    }

    fn visit_u64<E: serde::de::Error>(self, value: u64) -> Result<Place, E> {
        Ok(Place(value as f64))
    }

    fn visit_i64<E: serde::de::Error>(self, value: i64) -> Result<Place, E> {
        Ok(Place(value as f64))
    }

    fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<Place, E> {
        ByteCount::parse(text).map(|size| Place(size.0 as f64)).map_err(E::custom)
    }
}

/// Which way a series goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Direction {
    /// Never down by more than the slack.
    Rising,
    /// Never up by more than the slack.
    Falling,
}

/// A statement about series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// `above` is at least `factor` times `below`, at `at` or wherever both have points.
    Ordering {
        /// The larger series.
        above: String,
        /// The smaller series.
        below: String,
        /// Where; everywhere if absent.
        at: Option<Place>,
        /// How much larger, at least.
        #[serde(default = "one")]
        factor: f64,
    },
    /// The ratio of two series lies within limits, at `at` or wherever both have points.
    RatioWithin {
        /// Divided.
        numerator: String,
        /// By this.
        denominator: String,
        /// Where; everywhere if absent.
        at: Option<Place>,
        /// Smallest ratio.
        low: f64,
        /// Largest ratio.
        high: f64,
    },
    /// A value lies within limits, at `at` or everywhere.
    ValueWithin {
        /// Whose.
        series: String,
        /// Where; everywhere if absent.
        at: Option<Place>,
        /// Smallest value.
        low: f64,
        /// Largest value.
        high: f64,
    },
    /// Our value over the published one lies within limits, at `at` or at each published point.
    RatioToPublished {
        /// Whose.
        series: String,
        /// Where; at each published point if absent.
        at: Option<Place>,
        /// Smallest ratio.
        low: f64,
        /// Largest ratio.
        high: f64,
    },
    /// Two series change places between two points on the x axis.
    Crossover {
        /// Is below at the first point.
        first: String,
        /// Is above at the first point.
        second: String,
        /// From, to.
        between: [Place; 2],
    },
    /// A series only rises, or only falls.
    Monotone {
        /// Which.
        series: String,
        /// Which way.
        direction: Direction,
        /// Relative step that is allowed in the wrong direction.
        #[serde(default)]
        slack: f64,
    },
    /// A series hardly changes: its largest value is at most `factor` times its smallest.
    Constant {
        /// Which.
        series: String,
        /// How much larger, at most.
        factor: f64,
    },
}

const fn one() -> f64 {
    1.0
}

/// Series to judge, and published values to judge them by.
#[derive(Clone, Copy, Debug)]
pub struct Evidence<'a> {
    /// Ours.
    pub series: &'a [Series],
    /// The paper's.
    pub published: &'a [Published],
}

impl Shape {
    /// The series that it speaks about.
    #[must_use]
    pub fn series_names(&self) -> Vec<&str> {
        match self {
            Self::Ordering { above: a, below: b, .. }
            | Self::RatioWithin { numerator: a, denominator: b, .. }
            | Self::Crossover { first: a, second: b, .. } => vec![a, b],
            Self::ValueWithin { series, .. }
            | Self::RatioToPublished { series, .. }
            | Self::Monotone { series, .. }
            | Self::Constant { series, .. } => vec![series],
        }
    }

    /// Whether it holds.
    #[must_use]
    pub fn evaluate(&self, evidence: Evidence<'_>) -> Verdict {
        match self.judge(evidence) {
            Ok(verdict) => verdict,
            Err(missing) => Verdict { holds: false, text: format!("not measured: {missing}") },
        }
    }

    fn judge(&self, evidence: Evidence<'_>) -> Result<Verdict, String> {
        match self {
            Self::Ordering { above, below, at, factor } => {
                let claim = if (*factor - 1.0).abs() < f64::EPSILON {
                    format!("{above} is above {below}")
                } else {
                    format!("{above} is at least {} times {below}", three_digits(*factor))
                };
                let ratios = ratios(evidence.find(above)?, evidence.find(below)?, *at)?;
                Ok(limits(&claim, "ratio", &ratios, *factor, f64::INFINITY))
            }
            Self::RatioWithin { numerator, denominator, at, low, high } => {
                let found = ratios(evidence.find(numerator)?, evidence.find(denominator)?, *at)?;
                let claim = format!("{numerator} over {denominator}");
                Ok(limits(&claim, "ratio", &found, *low, *high))
            }
            Self::ValueWithin { series, at, low, high } => {
                let found = values(evidence.find(series)?, *at)?;
                Ok(limits(series, "value", &found, *low, *high))
            }
            Self::RatioToPublished { series, at, low, high } => {
                let found = evidence.over_published(series, *at)?;
                let claim = format!("{series}, ours over published");
                Ok(limits(&claim, "ratio", &found, *low, *high))
            }
            Self::Crossover { first, second, between: [from, to] } => {
                crossover(evidence.find(first)?, evidence.find(second)?, *from, *to)
            }
            Self::Monotone { series, direction, slack } => {
                Ok(monotone(evidence.find(series)?, *direction, *slack))
            }
            Self::Constant { series, factor } => Ok(constant(evidence.find(series)?, *factor)),
        }
    }
}

impl<'a> Evidence<'a> {
    fn find(&self, name: &str) -> Result<&'a Series, String> {
        let found = self.series.iter().find(|series| series.name == name);
        found.filter(|series| !series.points.is_empty()).ok_or_else(|| name.to_owned())
    }

    fn over_published(&self, name: &str, at: Option<Place>) -> Result<Vec<(f64, f64)>, String> {
        let ours = self.find(name)?;
        let published = self.published.iter().filter(|published| published.series == name);
        let points = published.flat_map(|published| &published.points);
        let wanted: Vec<_> = points.filter(|point| at.is_none_or(|at| at == point.0)).collect();
        if wanted.is_empty() {
            return Err(format!("{name} has no published value there"));
        }
        let ratio = |(x, value): &(Place, f64)| {
            let mine = ours.at(x.0).ok_or_else(|| format!("{name} at {}", x.0))?;
            Ok((x.0, mine / value))
        };
        wanted.into_iter().map(ratio).collect()
    }
}

fn values(series: &Series, at: Option<Place>) -> Result<Vec<(f64, f64)>, String> {
    match at {
        None => Ok(series.points.clone()),
        Some(Place(x)) => match series.at(x) {
            Some(y) => Ok(vec![(x, y)]),
            None => Err(format!("{} at {x}", series.name)),
        },
    }
}

/// The ratio of two series wherever both have points.
pub(crate) fn ratio_points(above: &Series, below: &Series) -> Vec<(f64, f64)> {
    let ratio = |&(x, y): &(f64, f64)| Some((x, y / below.at(x).filter(|value| *value != 0.0)?));
    above.points.iter().filter_map(ratio).collect()
}

fn ratios(above: &Series, below: &Series, at: Option<Place>) -> Result<Vec<(f64, f64)>, String> {
    let mut found = ratio_points(above, below);
    if let Some(Place(x)) = at {
        found.retain(|point| (point.0 - x).abs() <= 1e-6 * x.abs().max(1e-3));
    }
    if found.is_empty() {
        return Err(format!("no common point of {} and {}", above.name, below.name));
    }
    Ok(found)
}

/// Shows a value with the digits that its comparison needs.
fn digits(value: f64) -> String {
    if value == 0.0 || (0.1..1e5).contains(&value.abs()) {
        let text = if value.abs() < 10.0 { format!("{value:.3}") } else { format!("{value:.2}") };
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{value:.3e}")
    }
}

/// Judges `found` by limits; of several points the one furthest out decides.
fn limits(claim: &str, what: &str, found: &[(f64, f64)], low: f64, high: f64) -> Verdict {
    let excess = |value: f64| if value < low { low / value } else { value / high };
    let worst = found.iter().copied().max_by(|a, b| excess(a.1).total_cmp(&excess(b.1)));
    let holds = found.iter().all(|point| (low..=high).contains(&point.1));
    let demand = if high.is_infinite() {
        format!("at least {}", digits(low))
    } else {
        format!("{} to {}", digits(low), digits(high))
    };
    let text = match (found, worst) {
        ([(_, value)], _) => format!("{claim}: {what} {}, must be {demand}", digits(*value)),
        (_, Some((x, value))) => {
            let least = found.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
            let most = found.iter().map(|point| point.1).fold(f64::NEG_INFINITY, f64::max);
            let mut text = format!(
                "{claim}: {what} {} to {} over {} points, must be {demand}",
                digits(least),
                digits(most),
                found.len()
            );
            if !holds {
                text.push_str(&format!("; at x = {} it is {}", digits(x), digits(value)));
            }
            text
        }
        (_, None) => format!("{claim}: nothing measured"),
    };
    Verdict { holds: holds && worst.is_some(), text }
}

fn crossover(first: &Series, second: &Series, from: Place, to: Place) -> Result<Verdict, String> {
    let points = ratio_points(first, second);
    let before = points.iter().rfind(|point| point.0 <= from.0);
    let after = points.iter().find(|point| point.0 >= to.0);
    let (Some(before), Some(after)) = (before, after) else {
        return Err(format!("{} and {} around the crossover", first.name, second.name));
    };
    let text = format!(
        "{} rises above {} between {} and {}: their ratio goes from {} to {}",
        first.name,
        second.name,
        digits(from.0),
        digits(to.0),
        digits(before.1),
        digits(after.1)
    );
    Ok(Verdict { holds: before.1 < 1.0 && after.1 > 1.0, text })
}

fn monotone(series: &Series, direction: Direction, slack: f64) -> Verdict {
    let wrong = series.points.windows(2).find(|pair| match direction {
        Direction::Rising => pair[1].1 < pair[0].1 * (1.0 - slack),
        Direction::Falling => pair[1].1 > pair[0].1 * (1.0 + slack),
    });
    let way = match direction {
        Direction::Rising => "rises",
        Direction::Falling => "falls",
    };
    let name = &series.name;
    let mut text = format!("{name} {way} throughout");
    if slack > 0.0 {
        text.push_str(&format!(" (slack {} %)", digits(100.0 * slack)));
    }
    if let Some(pair) = wrong {
        text.push_str(&format!(
            ": not between {} ({}) and {} ({})",
            digits(pair[0].0),
            digits(pair[0].1),
            digits(pair[1].0),
            digits(pair[1].1)
        ));
    }
    Verdict { holds: wrong.is_none(), text }
}

fn constant(series: &Series, factor: f64) -> Verdict {
    let values = || series.points.iter().map(|point| point.1);
    let (low, high) =
        (values().fold(f64::INFINITY, f64::min), values().fold(f64::NEG_INFINITY, f64::max));
    let text = format!(
        "{} hardly changes: {} to {}, at most {} times",
        series.name,
        digits(low),
        digits(high),
        digits(factor)
    );
    Verdict { holds: high <= low * factor, text }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(name: &str, points: &[(f64, f64)]) -> Series {
        Series { points: points.to_vec(), ..Series::new(name, "B", "MB/s") }
    }

    fn holds(shape: &str) -> bool {
        let all = [
            series("flat", &[(1.0, 2.0), (2.0, 2.0), (4.0, 2.0)]),
            series("rising", &[(1.0, 1.0), (2.0, 1.9), (4.0, 4.0)]),
            series("dented", &[(1.0, 1.0), (2.0, 0.97), (4.0, 4.0)]),
        ];
        let published = [Published {
            series: "rising".into(),
            source: "test".into(),
            unit: "MB/s".into(),
            points: vec![(Place(2.0), 2.0)],
        }];
        let shape: Shape = toml::from_str(shape).unwrap();
        let verdict = shape.evaluate(Evidence { series: &all, published: &published });
        assert!(!verdict.text.is_empty());
        verdict.holds
    }

    #[test]
    fn orderings_compare_at_a_point_or_everywhere() {
        assert!(holds("kind='ordering'\nabove='flat'\nbelow='rising'\nat=2"));
        assert!(!holds("kind='ordering'\nabove='flat'\nbelow='rising'"));
        assert!(!holds("kind='ordering'\nabove='flat'\nbelow='rising'\nat=2\nfactor=1.1"));
    }

    #[test]
    fn ratios_and_values_have_two_limits() {
        let ratio = "kind='ratio_within'\nnumerator='rising'\ndenominator='flat'\nat=4\n";
        assert!(holds(&format!("{ratio}low=1.9\nhigh=2.1")));
        assert!(!holds(&format!("{ratio}low=2.1\nhigh=3")));
        assert!(holds("kind='value_within'\nseries='flat'\nlow=2\nhigh=2"));
        assert!(!holds("kind='value_within'\nseries='rising'\nlow=1\nhigh=3.9"));
    }

    #[test]
    fn published_values_are_compared_where_they_stand() {
        assert!(holds("kind='ratio_to_published'\nseries='rising'\nlow=0.94\nhigh=0.96"));
        assert!(!holds("kind='ratio_to_published'\nseries='rising'\nlow=0.96\nhigh=1.1"));
        assert!(!holds("kind='ratio_to_published'\nseries='flat'\nlow=0\nhigh=9"));
    }

    #[test]
    fn crossovers_have_a_direction_and_a_place() {
        let cross = |first, second, between| {
            holds(&format!(
                "kind='crossover'\nfirst='{first}'\nsecond='{second}'\nbetween={between}"
            ))
        };
        assert!(cross("rising", "flat", "[2, 4]"));
        assert!(!cross("rising", "flat", "[1, 2]"));
        assert!(!cross("flat", "rising", "[2, 4]"));
    }

    #[test]
    fn monotone_allows_its_slack_only() {
        assert!(holds("kind='monotone'\nseries='rising'\ndirection='rising'"));
        assert!(!holds("kind='monotone'\nseries='dented'\ndirection='rising'\nslack=0.02"));
        assert!(holds("kind='monotone'\nseries='dented'\ndirection='rising'\nslack=0.05"));
        assert!(!holds("kind='monotone'\nseries='rising'\ndirection='falling'"));
    }

    #[test]
    fn constant_compares_the_extremes() {
        assert!(holds("kind='constant'\nseries='flat'\nfactor=1.01"));
        assert!(!holds("kind='constant'\nseries='rising'\nfactor=1.01"));
        assert!(holds("kind='constant'\nseries='rising'\nfactor=1000"));
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        assert!(!holds("kind='monotone'\nseries='nobody'\ndirection='rising'"));
        assert!(!holds("kind='value_within'\nseries='flat'\nat=3\nlow=0\nhigh=9"));
        assert!(!holds("kind='crossover'\nfirst='rising'\nsecond='flat'\nbetween=[4, 8]"));
    }

    #[test]
    fn places_are_numbers_or_sizes() {
        #[derive(Deserialize)]
        struct At {
            at: Place,
        }
        let place = |text: &str| toml::from_str::<At>(text).map(|at| at.at.0);
        assert_eq!(place("at = '4KiB'").unwrap(), 4096.0);
        assert_eq!(place("at = 0.5").unwrap(), 0.5);
        assert_eq!(place("at = 7").unwrap(), 7.0);
        assert!(place("at = 'four'").is_err());
    }
}
