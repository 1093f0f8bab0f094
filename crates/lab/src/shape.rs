//! The shapes that must hold: a claim, its class, and the verdict over several seeds.
//!
//! ```text
//!   prediction    a paper published it, and no parameter of drive or workload came from it
//!   differs       published, and we miss it: must miss it, as far as `ours` says; with reason
//!   fit           published, and a parameter was fitted to it, which is named
//!   closed_form   a formula or a count made otherwise is the oracle
//!   own           our own claim
//!   sanity        must hold in any sound simulation
//! ```
//!
//! 1. A shape that names what a paper published has its limits from there, and says the place in the paper.
//! 2. What differs does not hold as the paper has it: where it does, its verdict fails, since it is no
//!    difference any more. An order does so at no seed, or it would differ by chance. Of a value the seed may
//!    decide: its `ours` then reaches across a limit.
//! 3. An order holds at every seed, a value by its median over the seeds; a verdict shows the spread.
//! 4. A shape about a series or point that was not measured, at whichever seed, does not hold.
//! 5. A verdict's text holds the numbers that decided it.

use crate::claim::{Claim, Evidence, Finding, FoundPoint, PublishedValue, digits};
use crate::experiment::matches;
use crate::outcome::{Decided, Verdict};
use serde::{Deserialize, Deserializer, Serialize};
use std::fmt;

/// What a shape is worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Class {
    /// Published, and no parameter came from it.
    Prediction,
    /// Published, and missed.
    Differs,
    /// Published, and a parameter was fitted to it.
    Fit,
    /// A formula is the oracle.
    ClosedForm,
    /// Our own claim.
    #[default]
    Own,
    /// Holds in any sound simulation.
    Sanity,
}

impl Class {
    /// All, in the order in which they are told.
    pub const ALL: [Self; 6] =
        [Self::Prediction, Self::Differs, Self::Fit, Self::ClosedForm, Self::Own, Self::Sanity];

    /// The word for one shape of the class, and for several.
    #[must_use]
    pub const fn words(self) -> [&'static str; 2] {
        match self {
            Self::Prediction => ["prediction", "predictions"],
            Self::Differs => ["difference", "differences"],
            Self::Fit => ["fit", "fits"],
            Self::ClosedForm => ["closed form", "closed forms"],
            Self::Own => ["claim of our own", "claims of our own"],
            Self::Sanity => ["sanity check", "sanity checks"],
        }
    }

    /// What several of the class are, for a count before it.
    #[must_use]
    pub const fn explanation(self) -> &'static str {
        match self {
            Self::Prediction => "predictions: published, and no parameter came from them",
            Self::Differs => {
                "differences: published values that are missed, and as far as written down"
            }
            Self::Fit => "fits: published values that a parameter was fitted to",
            Self::ClosedForm => "closed forms: a formula or another count is the oracle",
            Self::Own => "claims of our own",
            Self::Sanity => "sanity checks, which any sound simulation passes",
        }
    }

    /// Whether a paper published what such a shape claims.
    #[must_use]
    pub const fn is_published(self) -> bool {
        matches!(self, Self::Prediction | Self::Differs | Self::Fit)
    }
}

impl fmt::Display for Class {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.words()[0])
    }
}

/// A claim that must hold, or must differ as it says.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shape {
    /// What is claimed.
    #[serde(flatten)]
    pub claim: Claim,
    /// What it is worth, where it was published, and what is known of it.
    #[serde(flatten)]
    pub standing: Standing,
    /// The shape in its place at the scale of the paper, where its limits are others there.
    #[serde(skip)]
    pub full: Option<Box<Shape>>,
}

/// What a shape is worth and what is known of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Standing {
    /// Whether it foretells what a paper prints, was fitted to it, misses it, or is no paper's
    /// claim.
    pub class: Class,
    /// Where the paper says so: `[S] S000 section 4.1: "…"`.
    #[serde(default)]
    pub source: String,
    /// Of a fit: the parameters, as `device-a ssd.read_command_ns` or `measure.oltp`.
    #[serde(default)]
    pub fitted: Vec<String>,
    /// Of what differs: why, as far as known.
    #[serde(default)]
    pub reason: String,
    /// Of what differs: what was varied, and how far it moved.
    #[serde(default)]
    pub varied: String,
    /// Of what differs: between which our deciding numbers lie.
    #[serde(default)]
    pub ours: Option<[f64; 2]>,
    /// Of what differs: whether its paper leads with it, so that the report opens with it.
    #[serde(default)]
    pub headline: bool,
}

/// The larger end of `ours` over the smaller one, at most.
pub const OURS_MAX: f64 = 1.5;

/// What [`is_source`] asks for.
pub(crate) const SOURCE_FORM: &str = "which opens with [S] or [V] and says the paper and the place in it: \"[S] S000 section 4.1: words\"";

/// Whether `text` says where something was published: a mark, a paper, and a place in it, which has a number,
/// quoted words or comes after a colon.
pub(crate) fn is_source(text: &str) -> bool {
    let rest = ["[S] ", "[V] "].iter().find_map(|mark| text.strip_prefix(mark));
    let place = rest.and_then(|rest| rest.trim().split_once(' '));
    place.is_some_and(|(_, place)| {
        let is_part = |character: char| character.is_ascii_digit() || "\":".contains(character);
        place.contains(is_part)
    })
}

/// Whether a difference says why, and what was varied and how far that moved it.
fn is_explained(reason: &str, varied: &str) -> bool {
    let moved = varied.contains(|character: char| character.is_ascii_digit());
    reason.split_whitespace().count() >= 3 && (moved || varied.starts_with("Nothing"))
}

/// The keys of [`Standing`] in a shape: what else stands there belongs to its claim, but for [`FULL_KEY`].
pub const STANDING_KEYS: [&str; 7] =
    ["class", "source", "fitted", "reason", "varied", "ours", "headline"];

/// The key of a shape whose table has the keys that are others at the scale of the paper.
pub const FULL_KEY: &str = "full";

/// The keys that only some classes have: they go where `full` changes the class and does not give them anew.
const KEYS_OF_CLASSES: [&str; 7] =
    ["fitted", "reason", "varied", "ours", "headline", "low", "high"];

impl<'de> Deserialize<'de> for Shape {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let mut table = toml::Table::deserialize(deserializer)?;
        let full = table.remove(FULL_KEY);
        let custom = |error: toml::de::Error| D::Error::custom(error.message().trim_end());
        let mut shape = Self::of(table.clone()).map_err(custom)?;
        shape.full = match full {
            None => None,
            Some(toml::Value::Table(full)) if !full.is_empty() => {
                if full.contains_key("class") {
                    KEYS_OF_CLASSES.iter().for_each(|key| drop(table.remove(*key)));
                }
                table.extend(full);
                Some(Box::new(Self::of(table).map_err(custom)?))
            }
            Some(_) => {
                let what = "`full` is a table of the keys that are others at full scale";
                return Err(D::Error::custom(what));
            }
        };
        Ok(shape)
    }
}

impl Shape {
    /// The shape that `claim`, whose keys are mixed with those of [`Standing`], holds.
    fn of(mut claim: toml::Table) -> Result<Self, toml::de::Error> {
        let mut standing = toml::Table::new();
        for key in STANDING_KEYS {
            if let Some((key, value)) = claim.remove_entry(key) {
                standing.insert(key, value);
            }
        }
        Ok(Self { claim: claim.try_into()?, standing: standing.try_into()?, full: None })
    }

    /// Checks rule 1, and that what differs is explained.
    ///
    /// # Errors
    /// Says what is missing or too much.
    pub fn check(&self) -> Result<(), String> {
        let Standing { class, source, fitted, reason, varied, ours, headline } = &self.standing;
        if *headline && *class != Class::Differs {
            return Err("`headline` belongs to what differs: the report opens with it".into());
        }
        self.claim.check(self.is_beside_published())?;
        let has_source = matches!(self.claim, Claim::RatioToPublished { .. }) || is_source(source);
        let is_form_beside = *class == Class::ClosedForm && self.is_beside_published();
        if is_form_beside && !is_source(source) {
            return Err(format!("a formula beside published values needs `source`, {SOURCE_FORM}"));
        }
        if *class == Class::Differs
            && matches!(self.claim, Claim::RatioToPublished { within: Some(_), .. })
        {
            return Err("what differs misses what is published by 30 %; take out `within`".into());
        }
        if class.is_published() && !has_source {
            return Err(format!("a {class} needs `source`, {SOURCE_FORM}"));
        }
        if (*class == Class::Fit) == fitted.is_empty() {
            return Err("`fitted` names the parameters of a fit, and of no other class".into());
        }
        let explained = [!reason.is_empty(), !varied.is_empty(), ours.is_some()];
        if explained.iter().any(|has| *has != (*class == Class::Differs)) {
            return Err("`reason`, `varied` and `ours` belong to what differs, all three".into());
        }
        if *class == Class::Differs && !is_explained(reason, varied) {
            return Err("`reason` is a sentence, and `varied` says by numbers how far it moved, or that there is \
                        \"Nothing\" to vary"
                .into());
        }
        match ours {
            // No place of a crossover, or a count of 0.
            Some([low, high]) if low == high => Ok(()),
            Some([low, high]) if !(*low > 0.0 && (1.0..=OURS_MAX).contains(&(high / low))) => {
                Err(format!(
                    "`ours` is [low, high], above 0 and at most a factor of {OURS_MAX} apart: where ours lie further \
                     apart, each has a shape"
                ))
            }
            _ => Ok(()),
        }
    }

    /// Whether its limits follow from published values: a formula may stand beside what a paper prints of it.
    #[must_use]
    pub const fn is_beside_published(&self) -> bool {
        let is_form = matches!(self.standing.class, Class::ClosedForm);
        self.standing.class.is_published()
            || is_form && matches!(self.claim, Claim::RatioToPublished { .. })
    }

    /// Whether it sets the value of `series` at `x` beside the published one, `value`.
    #[must_use]
    pub fn gates(&self, series: &str, x: f64, value: f64) -> bool {
        match &self.claim {
            Claim::RatioToPublished { series: pattern, at, .. } => {
                matches(pattern, series) && at.includes(x)
            }
            Claim::ValueWithin { series: name, at, published, .. } => {
                name == series && at.includes(x) && *published == Some(PublishedValue::Value(value))
            }
            _ => false,
        }
    }

    /// The verdict by what each seed found, the first one's first.
    #[must_use]
    pub fn judge(&self, seeds: &[Evidence<'_>]) -> Verdict {
        let findings: Result<Vec<Finding>, String> =
            seeds.iter().map(|evidence| self.claim.find(*evidence)).collect();
        let x_unit = seeds.first().map_or("", |evidence| self.claim.x_unit(*evidence));
        let verdict = findings.and_then(|findings| self.decide(&findings, x_unit));
        verdict.unwrap_or_else(|missing| Verdict {
            class: self.standing.class,
            holds: false,
            text: format!("{}: not measured: {missing}", self.claim.words()),
            claim: self.claim.words(),
            ..Verdict::default()
        })
    }

    fn decide(&self, findings: &[Finding], x_unit: &str) -> Result<Verdict, String> {
        let points = points_over_seeds(findings, self.claim.is_of_every_seed())?;
        let (low, high) = findings.first().map_or((0.0, 0.0), |found| (found.low, found.high));
        let keeps = |point: &PointOverSeeds| (low..=high).contains(&point.decides);
        // How far below the least or above the largest; inside, how near to either.
        let excess = |point: &&PointOverSeeds| {
            let value = point.decides;
            let below = if low.is_finite() { low - value } else { f64::NEG_INFINITY };
            let above = if high.is_finite() { value - high } else { f64::NEG_INFINITY };
            below.max(above)
        };
        let worst = points.iter().max_by(|a, b| excess(a).total_cmp(&excess(b)));
        let worst = worst.ok_or_else(|| "nothing".to_owned())?;
        let claim_holds = points.iter().all(keeps);
        let Standing { class, source, reason, varied, ours, .. } = &self.standing;
        let mut text = self.text(&points, worst, [low, high], findings.len());
        let holds = match ours {
            None => claim_holds,
            Some(ours) => {
                let is_missed =
                    if self.claim.is_by_point() { !points.iter().any(keeps) } else { !claim_holds };
                let is_left_to_seeds =
                    self.is_left_to_seeds(*ours, [low, high], &points, worst, findings.len());
                // An order is met at every seed or missed at every seed; else it is chance.
                let is_met_at = |seed: usize| {
                    points.iter().all(|point| (low..=high).contains(&point.by_seed[seed]))
                };
                let is_chance = self.claim.is_of_every_seed() && (0..findings.len()).any(is_met_at);
                let decided: &[PointOverSeeds] =
                    if self.claim.is_by_point() { &points } else { std::slice::from_ref(worst) };
                let is_ours =
                    decided.iter().all(|point| (ours[0]..=ours[1]).contains(&point.decides));
                if !is_missed && is_left_to_seeds {
                    text.push_str("; at the limit, where the seed decides");
                    if (0..findings.len()).all(is_met_at) {
                        text.push_str(", and met at each of these");
                    }
                } else if !is_missed {
                    text.push_str("; this is no difference any more");
                } else if is_chance {
                    text.push_str("; at some seed it is so, and chance is no difference");
                } else if !is_ours {
                    let [low, high] = ours.map(digits);
                    text.push_str(&format!("; ours was {low} to {high} when it was looked into"));
                }
                (is_missed || is_left_to_seeds) && !is_chance && is_ours
            }
        };
        Ok(Verdict {
            class: *class,
            holds,
            text,
            claim: self.claim.words(),
            source: source.clone(),
            reason: reason.clone(),
            varied: varied.clone(),
            headline: self.standing.headline,
            decided: Some(Decided {
                x: worst.x,
                x_unit: x_unit.into(),
                value: worst.decides,
                low: Some(low).filter(|low| low.is_finite()),
                high: Some(high).filter(|high| high.is_finite()),
                by_seed: worst.by_seed.clone(),
            }),
        })
    }

    /// Whether a value that is met may be missed at other seeds: `ours` reaches across a limit, and what is met is
    /// not the same at all seeds. One seed alone cannot tell.
    fn is_left_to_seeds(
        &self,
        ours: [f64; 2],
        [low, high]: [f64; 2],
        points: &[PointOverSeeds],
        worst: &PointOverSeeds,
        seed_count: usize,
    ) -> bool {
        let reaches_over = |limit: f64| ours[0] < limit && limit < ours[1];
        let is_open = |point: &PointOverSeeds| seed_count == 1 || point.least < point.most;
        let is_met = |point: &&PointOverSeeds| (low..=high).contains(&point.decides);
        let is_met_by_chance = match self.claim.is_by_point() {
            true => points.iter().filter(is_met).all(is_open),
            false => is_open(worst),
        };
        let is_of_values = !self.claim.is_of_every_seed();
        is_of_values && (reaches_over(low) || reaches_over(high)) && is_met_by_chance
    }

    fn text(
        &self,
        points: &[PointOverSeeds],
        worst: &PointOverSeeds,
        [low, high]: [f64; 2],
        seed_count: usize,
    ) -> String {
        let least = points.iter().map(|point| point.decides).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(|point| point.decides).fold(f64::NEG_INFINITY, f64::max);
        let is_alone = points.len() == 1;
        let mut text =
            format!("{}: {} {}", self.claim.words(), self.claim.measure(), digits(least));
        if !is_alone {
            text.push_str(&format!(" to {} over {} points", digits(most), points.len()));
        }
        if seed_count > 1 && worst.least < worst.most {
            let place = if is_alone { String::new() } else { format!("{} ", worst.place()) };
            let spread = format!("{} to {}", digits(worst.least), digits(worst.most));
            text.push_str(&format!(" ({place}{spread} at {seed_count} seeds)"));
        } else if !is_alone && !(low..=high).contains(&worst.decides) {
            text.push_str(&format!(" ({} {})", worst.place(), digits(worst.decides)));
        }
        if self.standing.class == Class::Differs {
            text.push_str(match self.claim.published() {
                Some(_) => ", published ",
                None => ", the paper's claim needs ",
            });
        } else {
            text.push_str(", must be ");
        }
        match self.claim.published().filter(|_| self.standing.class == Class::Differs) {
            Some(published) => text.push_str(&published.to_string()),
            None => text.push_str(&demand(low, high)),
        }
        text
    }
}

fn demand(low: f64, high: f64) -> String {
    if low == 1.0_f64.next_up() {
        return "above 1".into();
    }
    match (low.is_finite(), high.is_finite()) {
        (true, true) => format!("{} to {}", digits(low), digits(high)),
        (true, false) => format!("at least {}", digits(low)),
        _ => format!("at most {}", digits(high)),
    }
}

/// A deciding number over the seeds.
struct PointOverSeeds {
    series: String,
    x: f64,
    /// The least of an order, which holds at every seed; the median of a value.
    decides: f64,
    least: f64,
    most: f64,
    by_seed: Vec<f64>,
}

impl PointOverSeeds {
    fn place(&self) -> String {
        let series =
            if self.series.is_empty() { String::new() } else { format!("{} ", self.series) };
        format!("{series}at x = {}", digits(self.x))
    }
}

/// Points of the same place together; a crossover's place is what it found, so that a lone point is the same
/// at every seed.
fn points_over_seeds(
    findings: &[Finding],
    is_of_every_seed: bool,
) -> Result<Vec<PointOverSeeds>, String> {
    let first = findings.first().ok_or_else(|| "no seed".to_owned())?;
    if findings.iter().any(|finding| finding.points.len() != first.points.len()) {
        return Err("the same points at every seed".into());
    }
    let over = |(index, point): (usize, &FoundPoint)| {
        let is_same = |found: &&FoundPoint| {
            first.points.len() == 1 || (found.series == point.series && found.x == point.x)
        };
        let value = |finding: &Finding| {
            let found = finding.points.get(index).filter(is_same);
            let found = found.or_else(|| finding.points.iter().find(is_same));
            found.map(|found| found.value)
        };
        let by_seed: Option<Vec<f64>> = findings.iter().map(value).collect();
        let by_seed = by_seed.ok_or_else(|| format!("x = {} at every seed", point.x))?;
        let mut sorted = by_seed.clone();
        sorted.sort_by(f64::total_cmp);
        let (least, most) = (sorted[0], sorted[sorted.len() - 1]);
        let median = f64::midpoint(sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        let (series, x) = (point.series.clone(), point.x);
        let decides = if is_of_every_seed { least } else { median };
        Ok(PointOverSeeds { series, x, decides, least, most, by_seed })
    };
    first.points.iter().enumerate().map(over).collect()
}

#[cfg(test)]
mod tests;
