//! What can be claimed of series, and which numbers decide it.
//!
//! Absolute numbers of drives long gone cannot repeat; orderings, ratios and crossovers can. A claim
//! becomes a [`Finding`]: deciding numbers by place, and the limits that they must keep to.
//!
//! ```text
//!   ordering           above over below           at least the factor      at every seed
//!   monotone           each step's ratio          at least 1 - slack       at every seed
//!   ratio_within       numerator over denominator limits                   median of the seeds
//!   value_within       the value                  limits                   median
//!   ratio_to_published ours over the paper's      limits about 1           median
//!   crossover          the place                  limits                   median
//!   constant           largest over smallest      at most the factor       median
//! ```
//!
//! 1. Limits of a published value follow from it ([`PublishedValue::limits`]): nobody writes them down.
//! 2. A claim about a series or point that was not measured has no finding.
//! 3. A claim can fail: limits are finite where they are given, those from below are above 0, and nothing is
//!    compared with itself ([`Claim::check`]).
//! 4. Ratios are of what is not negative; of what is, no claim holds.

use crate::experiment::{Published, matches};
use crate::outcome::Series;
use crate::product::Product;
use nandu_base::ByteCount;
use nandu_base::units::three_digits;
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Our value may be so many times the published one, either way.
pub const TOLERANCE: f64 = 1.3;
/// A crossover may lie so many times the published place away, either way.
pub const CROSSOVER_TOLERANCE: f64 = 2.0;
/// Widest limits of our own, the upper over the lower one.
pub const OWN_RANGE_MAX: f64 = 1000.0;
/// Largest step in the wrong direction, and largest factor of what hardly changes.
pub const SLACK_MAX: f64 = 0.2;
/// The largest `factor` of what hardly changes.
pub const CONSTANT_MAX: f64 = 100.0;
/// Between these lies what a paper states as "at least" or "at most".
pub const ONE_SIDED: [f64; 2] = [1e-6, 1e6];
/// The end of a published range over its beginning, at most: "two to three orders" is the widest that says
/// something. So far ours may be from a published bound on the side that the paper leaves open.
pub const RANGE_MAX: f64 = 10.0;

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

/// Where on an x axis: everywhere, at one place, or at each of several.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Places {
    /// Wherever there are points.
    #[default]
    Everywhere,
    /// At this one place.
    One(Place),
    /// At each of these places.
    Several(Vec<Place>),
}

impl Places {
    fn wanted(&self) -> Option<&[Place]> {
        match self {
            Self::Everywhere => None,
            Self::One(place) => Some(std::slice::from_ref(place)),
            Self::Several(places) => Some(places),
        }
    }

    /// Whether `x` is meant.
    #[must_use]
    pub fn includes(&self, x: f64) -> bool {
        self.wanted().is_none_or(|places| places.iter().any(|place| is_near(place.0, x)))
    }
}

/// Whether two places of an x axis are the same but for rounding.
pub(crate) fn is_near(x: f64, other: f64) -> bool {
    (x - other).abs() <= 1e-6 * x.abs().max(1e-3)
}

/// What a paper prints.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum PublishedValue {
    /// A value, as the paper prints it.
    Value(f64),
    /// A range, from its lower to its upper end.
    Range([f64; 2]),
    /// "At least", which has no slack.
    AtLeast {
        /// The least that the paper states.
        at_least: f64,
    },
    /// "At most", which has no slack.
    AtMost {
        /// The most that the paper states.
        at_most: f64,
    },
}

impl PublishedValue {
    /// The limits for ours: within 30 % of a value, at a crossover within a factor of 2. A printed range is
    /// its own limit where it is wider than that about its centre; a bound reaches [`RANGE_MAX`] times as far
    /// to its open side.
    #[must_use]
    pub fn limits(self, tolerance: f64) -> [f64; 2] {
        match self {
            Self::Value(value) => [value / tolerance, value * tolerance],
            Self::Range([low, high]) => {
                let centre = (low * high).sqrt();
                [low.min(centre / tolerance), high.max(centre * tolerance)]
            }
            Self::AtLeast { at_least } => [at_least, RANGE_MAX * at_least],
            Self::AtMost { at_most } => [at_most / RANGE_MAX, at_most],
        }
    }

    fn is_sound(self) -> bool {
        match self {
            Self::Range([low, high]) => {
                is_positive(low) && is_positive(high) && (1.0..=RANGE_MAX).contains(&(high / low))
            }
            Self::Value(value) => is_positive(value),
            Self::AtLeast { at_least: value } | Self::AtMost { at_most: value } => {
                (ONE_SIDED[0]..=ONE_SIDED[1]).contains(&value)
            }
        }
    }
}

/// Whether a published value can be compared with: above 0 and finite.
pub(crate) fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

impl fmt::Display for PublishedValue {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Value(value) => formatter.write_str(&digits(*value)),
            Self::Range([low, high]) => write!(formatter, "{} to {}", digits(*low), digits(*high)),
            Self::AtLeast { at_least } => write!(formatter, "at least {}", digits(*at_least)),
            Self::AtMost { at_most } => write!(formatter, "at most {}", digits(*at_most)),
        }
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

/// A statement about series. Where limits are asked for, `published` stands for what a paper prints, `low`
/// and `high`, of which one may be absent, for what nobody published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Claim {
    /// `above` is at least `factor` times `below`, at `at` or wherever both have points.
    Ordering {
        /// The larger series.
        above: String,
        /// The smaller series.
        below: String,
        /// Where they are compared.
        #[serde(default)]
        at: Places,
        /// How much larger, at least; without it, larger at all.
        #[serde(default = "one")]
        factor: f64,
    },
    /// The ratio of two series lies within limits, at `at` or wherever both have points.
    RatioWithin {
        /// The series that is divided.
        numerator: String,
        /// The series that it is divided by.
        denominator: String,
        /// Where the ratio is looked at.
        #[serde(default)]
        at: Places,
        /// The smallest ratio that keeps the claim; no limit where absent.
        low: Option<f64>,
        /// The largest ratio that keeps the claim; no limit where absent.
        high: Option<f64>,
        /// What the paper prints.
        published: Option<PublishedValue>,
    },
    /// A value lies within limits, at `at` or everywhere.
    ValueWithin {
        /// The series whose value it is.
        series: String,
        /// Where the value is looked at.
        #[serde(default)]
        at: Places,
        /// The smallest value that keeps the claim; no limit where absent.
        low: Option<f64>,
        /// The largest value that keeps the claim; no limit where absent.
        high: Option<f64>,
        /// What the paper prints.
        published: Option<PublishedValue>,
    },
    /// Our value over the published one lies about 1, at `at` or at each published point.
    RatioToPublished {
        /// Whose; `*` stands for one part of the names of series.
        series: String,
        /// Where the values are compared.
        #[serde(default)]
        at: Places,
        /// How far ours may be from the published value: 0.3, as everywhere, or less.
        within: Option<f64>,
    },
    /// Two series change places.
    Crossover {
        /// Is below before it.
        first: String,
        /// Is above before it.
        second: String,
        /// From, to, where nobody published a place.
        between: Option<[Place; 2]>,
        /// Where the paper has it.
        published: Option<PublishedValue>,
    },
    /// A series only rises, or only falls.
    Monotone {
        /// The series that rises or falls.
        series: String,
        /// Whether it rises or falls.
        direction: Direction,
        /// Relative step that is allowed in the wrong direction.
        #[serde(default)]
        slack: f64,
    },
    /// A series hardly changes: its largest value is at most `factor` times its smallest.
    Constant {
        /// The series that hardly changes.
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
    /// The series that were measured.
    pub series: &'a [Series],
    /// What papers print beside them.
    pub published: &'a [Published],
}

/// A number that decides, where it was found.
#[derive(Clone, Debug, PartialEq)]
pub struct FoundPoint {
    /// Of which series, where a claim speaks of several; empty otherwise.
    pub series: String,
    /// Where on its x axis.
    pub x: f64,
    /// What was measured there, or the ratio of what was measured there.
    pub value: f64,
}

/// The numbers that decide a claim, and their limits.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The numbers, in the order of their places.
    pub points: Vec<FoundPoint>,
    /// Smallest that keeps the claim.
    pub low: f64,
    /// Largest that keeps it.
    pub high: f64,
}

impl Claim {
    /// The series that it speaks about; one of published values may have `*`.
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

    /// Where it speaks of.
    #[must_use]
    pub const fn places(&self) -> &Places {
        match self {
            Self::Ordering { at, .. }
            | Self::RatioWithin { at, .. }
            | Self::ValueWithin { at, .. }
            | Self::RatioToPublished { at, .. } => at,
            Self::Crossover { .. } | Self::Monotone { .. } | Self::Constant { .. } => {
                &Places::Everywhere
            }
        }
    }

    /// Whether it must hold at every seed, where others go by the median of the seeds.
    #[must_use]
    pub const fn is_of_every_seed(&self) -> bool {
        matches!(self, Self::Ordering { .. } | Self::Monotone { .. })
    }

    /// Whether each point is a claim of its own; of others all points together are one.
    #[must_use]
    pub const fn is_by_point(&self) -> bool {
        matches!(
            self,
            Self::RatioWithin { .. } | Self::ValueWithin { .. } | Self::RatioToPublished { .. }
        )
    }

    /// Checks that limits are given as a claim asks for that a paper makes, or that nobody published.
    ///
    /// # Errors
    /// Says which key is missing or too much.
    pub fn check(&self, is_published: bool) -> Result<(), String> {
        if let [first, second] = self.series_names()[..]
            && first == second
        {
            return Err("it compares a series with itself, and cannot fail".into());
        }
        match self {
            Self::RatioWithin { low, high, published, .. }
            | Self::ValueWithin { low, high, published, .. } => {
                check_limits([*low, *high], *published, is_published)
            }
            Self::Crossover { between, published, .. } => {
                let between = between.map(|[from, to]| [Some(from.0), Some(to.0)]);
                check_limits(between.unwrap_or_default(), *published, is_published)
            }
            Self::RatioToPublished { within, .. } => match within {
                _ if !is_published => {
                    Err("what is compared with published values is a prediction, a fit or \
                                           differs"
                        .into())
                }
                Some(within) if !(*within > 0.0 && *within <= TOLERANCE - 1.0 + 1e-9) => {
                    Err("`within` is above 0 and at most 0.3".into())
                }
                _ => Ok(()),
            },
            Self::Monotone { slack, .. } if is_published && *slack != 0.0 => {
                Err("a published order has no slack".into())
            }
            Self::Monotone { slack, .. } if !(0.0..=SLACK_MAX).contains(slack) => {
                Err(format!("`slack` is 0 to {SLACK_MAX}"))
            }
            Self::Constant { factor, .. } if is_published && *factor > TOLERANCE => {
                Err("`factor` of a published claim is at most 1.3".into())
            }
            Self::Constant { factor, .. } if !(1.0..=CONSTANT_MAX).contains(factor) => {
                Err(format!("`factor` of what hardly changes is 1 to {CONSTANT_MAX}"))
            }
            Self::Ordering { factor, .. } if !(*factor >= 1.0 && factor.is_finite()) => {
                Err("`factor` is at least 1 and finite".into())
            }
            Self::Ordering { .. } | Self::Monotone { .. } | Self::Constant { .. } => Ok(()),
        }
    }

    /// What is claimed, in the names of series.
    #[must_use]
    pub fn words(&self) -> String {
        match self {
            Self::Ordering { above, below, factor, .. } if *factor > 1.0 => {
                format!("{above} is at least {} times {below}", three_digits(*factor))
            }
            Self::Ordering { above, below, .. } => format!("{above} is above {below}"),
            Self::RatioWithin { numerator, denominator, .. } => {
                format!("{numerator} over {denominator}")
            }
            Self::ValueWithin { series, .. } => series.clone(),
            Self::RatioToPublished { series, .. } => format!("{series}, ours over published"),
            Self::Crossover { first, second, .. } => format!("{first} rises above {second}"),
            Self::Monotone { series, direction: Direction::Rising, .. } => {
                format!("{series} rises throughout")
            }
            Self::Monotone { series, .. } => format!("{series} falls throughout"),
            Self::Constant { series, .. } => format!("{series} hardly changes"),
        }
    }

    /// What its numbers are.
    #[must_use]
    pub const fn measure(&self) -> &'static str {
        match self {
            Self::Ordering { .. } | Self::RatioWithin { .. } | Self::RatioToPublished { .. } => {
                "ratio"
            }
            Self::ValueWithin { .. } => "value",
            Self::Crossover { .. } => "place",
            Self::Monotone { .. } => "step",
            Self::Constant { .. } => "largest over smallest",
        }
    }

    /// Unit of the places of its numbers, as far as a series was measured.
    #[must_use]
    pub fn x_unit<'a>(&self, evidence: Evidence<'a>) -> &'a str {
        let names = self.series_names();
        let is_meant = |series: &&Series| names.iter().any(|name| matches(name, &series.name));
        evidence.series.iter().find(is_meant).map_or("", |series| &series.x_unit)
    }

    /// What the paper prints, where the claim holds it.
    #[must_use]
    pub const fn published(&self) -> Option<PublishedValue> {
        match self {
            Self::RatioWithin { published, .. }
            | Self::ValueWithin { published, .. }
            | Self::Crossover { published, .. } => *published,
            _ => None,
        }
    }

    /// The figure that it speaks of as a product of measured series, where it is one: a value or a ratio.
    pub(crate) fn figure(&self, products: &BTreeMap<String, Product>) -> Option<Product> {
        match self {
            Self::ValueWithin { series, .. } => products.get(series).cloned(),
            Self::RatioWithin { numerator, denominator, .. } => {
                let mut ratio = products.get(numerator)?.clone();
                ratio.multiply(products.get(denominator)?, -1);
                Some(ratio)
            }
            _ => None,
        }
    }

    /// The numbers that decide it.
    ///
    /// # Errors
    /// Says what was not measured.
    pub fn find(&self, evidence: Evidence<'_>) -> Result<Finding, String> {
        let (points, [low, high]) = match self {
            Self::Ordering { above, below, at, factor } => {
                let points = ratios(evidence.find(above)?, evidence.find(below)?, at)?;
                let low = if *factor > 1.0 { *factor } else { 1.0_f64.next_up() };
                (points, [low, f64::INFINITY])
            }
            Self::RatioWithin { numerator, denominator, at, low, high, published } => {
                let points = ratios(evidence.find(numerator)?, evidence.find(denominator)?, at)?;
                (points, limits(*low, *high, *published))
            }
            Self::ValueWithin { series, at, low, high, published } => {
                (values(evidence.find(series)?, at)?, limits(*low, *high, *published))
            }
            Self::RatioToPublished { series, at, within } => {
                let tolerance = within.map_or(TOLERANCE, |within| 1.0 + within);
                (evidence.over_published(series, at)?, [1.0 / tolerance, tolerance])
            }
            Self::Crossover { first, second, between, published } => {
                let x = crossing(evidence.find(first)?, evidence.find(second)?)?;
                let limits = match (between, published) {
                    (_, Some(published)) => published.limits(CROSSOVER_TOLERANCE),
                    (Some([from, to]), None) => [from.0, to.0],
                    (None, None) => [f64::NEG_INFINITY, f64::INFINITY],
                };
                (vec![point(x, x)], limits)
            }
            Self::Monotone { series, direction, slack } => {
                let low = if *slack > 0.0 { 1.0 - slack } else { 1.0_f64.next_up() };
                (steps(evidence.find(series)?, *direction)?, [low, f64::INFINITY])
            }
            Self::Constant { series, factor } => {
                let found = evidence.find(series)?;
                if found.points.len() < 2 {
                    return Err(format!("two points of {series}"));
                }
                let values = || found.points.iter();
                let least = values().fold(f64::INFINITY, |least, point| least.min(point.1));
                let most = values().fold(f64::NEG_INFINITY, |most, point| most.max(point.1));
                let at = values().find(|point| point.1 >= most).map_or(0.0, |point| point.0);
                (vec![point(at, over(most, least))], [f64::NEG_INFINITY, *factor])
            }
        };
        Ok(Finding { points, low, high })
    }
}

fn check_limits(
    limits: [Option<f64>; 2],
    published: Option<PublishedValue>,
    is_published: bool,
) -> Result<(), String> {
    let has_limits = limits != [None, None];
    match (is_published, published) {
        (true, _) if has_limits => {
            Err("limits of a published claim follow from `published`; take out what else limits it"
                .into())
        }
        (true, None) => {
            Err("a published claim needs `published`: the value that the paper prints".into())
        }
        (true, Some(value)) if !value.is_sound() => {
            Err("`published` is a finite value above 0, a range [low, high] of at most a factor of 10, \
                 at_least or at_most"
                .into())
        }
        (false, Some(_)) => Err("`published` is for a prediction, a fit or what differs".into()),
        (false, None) if !has_limits => {
            Err("it needs `low`, `high` or both, or it cannot fail".into())
        }
        (false, None) if limits[0].is_some_and(|low| low <= 0.0) && limits[1].is_some() => {
            Err("a lower limit of 0 or less is none, and is left out".into())
        }
        (false, None) => match limits {
            [Some(low), Some(high)] if !(low <= high && low.is_finite() && high.is_finite()) => {
                Err("its limits are finite, and the lower one comes first".into())
            }
            [Some(low), Some(high)] if low > 0.0 && high / low > OWN_RANGE_MAX => {
                Err(format!("its limits are more than a factor of {OWN_RANGE_MAX} apart"))
            }
            [Some(low), None] if !is_positive(low) => {
                Err("a lower limit alone is finite and above 0, or it cannot fail".into())
            }
            [None, Some(high)] if !high.is_finite() => {
                Err("an upper limit is finite, or it cannot fail".into())
            }
            _ => Ok(()),
        },
        _ => Ok(()),
    }
}

fn limits(low: Option<f64>, high: Option<f64>, published: Option<PublishedValue>) -> [f64; 2] {
    match published {
        Some(published) => published.limits(TOLERANCE),
        None => [low.unwrap_or(f64::NEG_INFINITY), high.unwrap_or(f64::INFINITY)],
    }
}

const fn point(x: f64, value: f64) -> FoundPoint {
    FoundPoint { series: String::new(), x, value }
}

/// The ratio, where 0 over 0 is no difference; of what is negative it says nothing and is no number.
fn over(above: f64, below: f64) -> f64 {
    match (above, below) {
        (0.0, 0.0) => 1.0,
        _ if above < 0.0 || below < 0.0 => f64::NAN,
        _ => above / below,
    }
}

impl<'a> Evidence<'a> {
    fn find(&self, name: &str) -> Result<&'a Series, String> {
        let found = self.series.iter().find(|series| series.name == name);
        found.filter(|series| !series.points.is_empty()).ok_or_else(|| name.to_owned())
    }

    fn over_published(&self, pattern: &str, at: &Places) -> Result<Vec<FoundPoint>, String> {
        let mut found = Vec::new();
        for published in self.published.iter().filter(|known| matches(pattern, &known.series)) {
            let name = &published.series;
            for (x, value) in published.points.iter().filter(|point| at.includes(point.0.0)) {
                let ours = self.find(name)?.at(x.0).ok_or_else(|| format!("{name} at {}", x.0))?;
                let series = if pattern == name { String::new() } else { name.clone() };
                found.push(FoundPoint { series, x: x.0, value: over(ours, *value) });
            }
        }
        let has = |place: &&Place| found.iter().any(|point| is_near(place.0, point.x));
        if let Some(place) = at.wanted().unwrap_or_default().iter().find(|place| !has(place)) {
            return Err(format!("{pattern} has no published value at {}", place.0));
        }
        if found.is_empty() {
            return Err(format!("{pattern} has no published value there"));
        }
        Ok(found)
    }
}

fn values(series: &Series, at: &Places) -> Result<Vec<FoundPoint>, String> {
    let Some(places) = at.wanted() else {
        return Ok(series.points.iter().map(|&(x, y)| point(x, y)).collect());
    };
    let value = |place: &Place| {
        let found = series.at(place.0).map(|value| point(place.0, value));
        found.ok_or_else(|| format!("{} at {}", series.name, place.0))
    };
    places.iter().map(value).collect()
}

/// The ratio of two series wherever both have points: infinite where only the divisor is 0.
pub(crate) fn ratio_points(above: &Series, below: &Series) -> Vec<(f64, f64)> {
    let ratio = |&(x, y): &(f64, f64)| Some((x, over(y, below.at(x)?)));
    above.points.iter().filter_map(ratio).collect()
}

fn ratios(above: &Series, below: &Series, at: &Places) -> Result<Vec<FoundPoint>, String> {
    let all = ratio_points(above, below);
    let missing = |x| format!("no common point of {} and {}{x}", above.name, below.name);
    for place in at.wanted().unwrap_or_default() {
        if !all.iter().any(|found| is_near(place.0, found.0)) {
            return Err(missing(format!(" at {}", place.0)));
        }
    }
    let found: Vec<_> = all.into_iter().filter(|found| at.includes(found.0)).collect();
    if found.is_empty() {
        return Err(missing(String::new()));
    }
    Ok(found.into_iter().map(|(x, ratio)| point(x, ratio)).collect())
}

/// Where `first` rises above `second`, between points on a logarithmic scale where that can be; 0 if it is
/// above from the first common point on, infinite if it never is. Of several places the first from which it
/// stays above.
fn crossing(first: &Series, second: &Series) -> Result<f64, String> {
    let ratios = ratio_points(first, second);
    let Some(last) = ratios.last() else {
        return Err(format!("{} and {} around the crossover", first.name, second.name));
    };
    if last.1 <= 1.0 {
        return Ok(f64::INFINITY);
    }
    let Some(below) = ratios.iter().rposition(|found| found.1 <= 1.0) else { return Ok(0.0) };
    let ([from, before], [to, after]) =
        ([ratios[below].0, ratios[below].1], [ratios[below + 1].0, ratios[below + 1].1]);
    // On a logarithmic scale of the ratio as well, where neither side is 0 there.
    let share = match (before > 0.0, after.is_finite()) {
        (true, true) => -before.ln() / (after.ln() - before.ln()),
        (false, true) => (1.0 - before) / (after - before),
        (_, false) => 0.5,
    };
    Ok(if from > 0.0 {
        (from.ln() + share * (to.ln() - from.ln())).exp()
    } else {
        from + share * (to - from)
    })
}

/// Each step in the wanted direction as a ratio: below 1 it goes the other way.
fn steps(series: &Series, direction: Direction) -> Result<Vec<FoundPoint>, String> {
    if series.points.len() < 2 {
        return Err(format!("two points of {}", series.name));
    }
    let step = |pair: &[(f64, f64)]| match direction {
        Direction::Rising => point(pair[1].0, over(pair[1].1, pair[0].1)),
        Direction::Falling => point(pair[1].0, over(pair[0].1, pair[1].1)),
    };
    Ok(series.points.windows(2).map(step).collect())
}

/// Shows a value with the digits that its comparison needs.
pub(crate) fn digits(value: f64) -> String {
    if value == 0.0 || value.is_infinite() || (0.1..1e5).contains(&value.abs()) {
        let text = if value.abs() < 10.0 { format!("{value:.3}") } else { format!("{value:.2}") };
        if text.contains('.') {
            return text.trim_end_matches('0').trim_end_matches('.').to_owned();
        }
        text
    } else {
        format!("{value:.3e}")
    }
}
