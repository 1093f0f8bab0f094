//! From what a candidate did to what it costs: how many are needed, how long they last, what a year costs.
//!
//! ```text
//!   drives      max(data / capacity, rate / rate of one, those that it was measured for)
//!   wear, watts of a drive that serves r, between two points at which it serves less and more
//!
//!                     ╭──── 64 at once
//!                 ╭───╯ 16
//!              ╭──╯ 4
//!            ╱ 1 at a time
//!          ╱
//!         0 ─── rests                 ► r
//!
//!   years       min(service, endurance x erase blocks or lines / wear of a second)
//!   a year      drives x price / years, of data and log each by its own, + watts x 8766 h x price of a kWh
//!   highest     the point within the limit of latency up to which they work: the one that costs least, then
//!               needs fewest drives
//! ```
//!
//! 1. Who is over the budget, too slow or without a price has no place among those that will do.
//! 2. Of power only what the drives draw is counted, not what the host does.
//! 3. A drive works no deeper than its rate wants: what many operations at once save in flushes and wear is not
//!    theirs who come one by one.

use super::measure::{Load, Measured, Point, TRACE_REQUEST_COUNT_MAX, drives_for_data};
use super::{Candidate, Question};
use nandu_drives::merit::{MeritParts, power_cents_per_year};
use nandu_drives::price::Price;
use nandu_drives::profile::Profile;
use nandu_drives::wear::Endurance;
use nandu_drives::worth::YEAR_SECONDS;
use serde::Serialize;

/// Nobody buys more.
const DRIVE_COUNT_MAX: u64 = 1_000_000;

/// What decides how many drives there have to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum WhyMany {
    /// The data would not lie on fewer.
    Capacity,
    /// Fewer would not serve so many operations.
    Rate,
    /// Fewer would be fuller, and worn out so much sooner that a year cost more.
    Wear,
    /// One is enough.
    One,
}

/// What becomes of one candidate.
#[derive(Clone, Debug, Serialize)]
pub struct Verdict {
    /// The candidate, as it was named.
    pub name: String,
    /// What one of it costs, and where that figure comes from.
    pub price: Option<Price>,
    /// How many are needed.
    pub drive_count: Option<u64>,
    /// What decides that.
    pub why_many: Option<WhyMany>,
    /// How much has to be asked at once for the rate, at most.
    pub depth: Option<u32>,
    /// What 99 of 100 operations take at most with so many at once, in nanoseconds.
    pub p99_ns: Option<u64>,
    /// Years until the data's drives are worn out; `None` if they do not wear or nobody knows.
    pub data_years: Option<f64>,
    /// The same of the log's.
    pub log_years: Option<f64>,
    /// Years after which they are replaced.
    pub years: Option<f64>,
    /// Mean power of all of them under this load, in watts; `None` without a model.
    pub watts: Option<f64>,
    /// What all of them cost to buy, in cents.
    pub purchase_cents: Option<u64>,
    /// What a year costs, in cents: drives, and power where it is known.
    pub cents_per_year: Option<f64>,
    /// Operations for a dollar.
    pub operations_per_dollar: Option<f64>,
    /// Operations for a joule.
    pub operations_per_joule: Option<f64>,
    /// Operations a second, dollars a year, watts and years, each to the power that was asked for, as one
    /// figure; `None` if one of them is not known.
    pub merit: Option<f64>,
    /// Why it will not do; `None` if it will.
    pub refused: Option<String>,
    /// What it did.
    pub measured: Option<Measured>,
}

/// All verdicts: those that will do, the cheapest first, then the others.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// In this order.
    pub verdicts: Vec<Verdict>,
    /// Why the first is first, and what is not known; sentences.
    pub because: Vec<String>,
}

/// What one drive for the data costs, and one for the log.
type Paid = (Price, Option<Price>);

pub(super) fn judge(
    question: &Question,
    candidate: &Candidate,
    paid: Option<Paid>,
    measured: Result<Measured, String>,
) -> Verdict {
    let mut verdict = Verdict::of(candidate, paid.as_ref());
    let measured = match measured {
        Ok(measured) => measured,
        Err(why) => {
            verdict.refused = Some(format!("it cannot be simulated so: {why}"));
            return verdict;
        }
    };
    let points = rising(&measured.points, question.latency_limit_ns);
    let weighed = (1..=points.len()).map(|end| {
        let mut weighed = verdict.clone();
        weighed.weigh(question, candidate, (&measured, &points[..end]), paid.as_ref());
        weighed
    });
    let cost = |it: &Verdict| it.cents_per_year.unwrap_or(f64::INFINITY);
    let best = weighed.min_by(|left, right| {
        let order = right.will_do().cmp(&left.will_do()).then(cost(left).total_cmp(&cost(right)));
        order.then((left.drive_count, left.p99_ns).cmp(&(right.drive_count, right.p99_ns)))
    });
    match best {
        Some(best) => verdict = best,
        None => verdict.refused = Some("its latency is above the limit at any rate".to_owned()),
    }
    verdict.measured = Some(measured);
    verdict
}

/// A drive for the data and one for the log as one price; the older date of both.
fn sum_of((data, log): &Paid) -> Price {
    let Some(log) = log else { return data.clone() };
    Price {
        cents: data.cents.saturating_add(log.cents),
        date: data.date.clone().min(log.date.clone()),
        source: format!("{}; {}", data.source, log.source),
    }
}

/// How many drives serve `rate` that serve `per_second` each.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is at least 1")]
pub(super) fn drives_for(rate: f64, per_second: f64) -> u64 {
    (rate / per_second).ceil().max(1.0) as u64
}

/// The points within the limit at which more is served than at all before.
fn rising(points: &[Point], latency_limit_ns: Option<u64>) -> Vec<Point> {
    let mut rising: Vec<Point> = Vec::new();
    let within = |point: &&Point| latency_limit_ns.is_none_or(|limit_ns| point.p99_ns <= limit_ns);
    for point in points.iter().filter(within) {
        let most = rising.last().map_or(0.0, |last| last.operations_per_second);
        if point.operations_per_second > most {
            rising.push(*point);
        }
    }
    rising
}

/// What one drive does that serves a part of the rate.
#[derive(Clone, Copy)]
struct Served {
    watts: Option<f64>,
    /// Erase blocks or lines a second, of the data's drive and of the log's.
    data_wear: Option<f64>,
    log_wear: Option<f64>,
}

impl Served {
    fn at(point: &Point) -> Self {
        let a_second = |wear: Option<f64>| wear.map(|wear| wear * point.operations_per_second);
        Self {
            watts: point.watts,
            data_wear: a_second(point.data_wear),
            log_wear: a_second(point.log_wear),
        }
    }

    /// For `share` of its time this, for the rest `other`.
    fn mixed(self, other: Self, share: f64) -> Self {
        let mix = |this: Option<f64>, other: Option<f64>| {
            this.zip(other).map(|(this, other)| this * share + other * (1.0 - share))
        };
        Self {
            watts: mix(self.watts, other.watts),
            data_wear: mix(self.data_wear, other.data_wear),
            log_wear: mix(self.log_wear, other.log_wear),
        }
    }

    /// By one that serves `per_second`, no more than at the last of `points`, and the point above that.
    fn between(points: &[Point], idle_watts: Option<f64>, per_second: f64) -> (Self, &Point) {
        let enough = points.iter().position(|point| point.operations_per_second >= per_second);
        let index = enough.unwrap_or(points.len() - 1);
        let above = &points[index];
        let rest = Self { watts: idle_watts, data_wear: Some(0.0), log_wear: Some(0.0) };
        let (below, rate_below) = match index.checked_sub(1) {
            None => (rest, 0.0),
            Some(index) => (Self::at(&points[index]), points[index].operations_per_second),
        };
        let share = (per_second - rate_below) / (above.operations_per_second - rate_below);
        (Self::at(above).mixed(below, share.clamp(0.0, 1.0)), above)
    }
}

/// Years until a drive is worn out by `wear` erase blocks or lines a second.
fn years_of(profile: &Profile, wear: Option<f64>) -> Option<f64> {
    let in_all = Endurance::of(profile).worn_in_all()?;
    Some(in_all / wear.filter(|&wear| wear > 0.0)? / YEAR_SECONDS)
}

impl Verdict {
    /// Nothing is known of it but its price.
    fn of(candidate: &Candidate, paid: Option<&Paid>) -> Self {
        Self {
            name: candidate.name.clone(),
            price: paid.map(sum_of),
            drive_count: None,
            why_many: None,
            depth: None,
            p99_ns: None,
            data_years: None,
            log_years: None,
            years: None,
            watts: None,
            purchase_cents: None,
            cents_per_year: None,
            operations_per_dollar: None,
            operations_per_joule: None,
            merit: None,
            refused: None,
            measured: None,
        }
    }

    /// What it takes where it works up to the last of `points`.
    fn weigh(
        &mut self,
        question: &Question,
        candidate: &Candidate,
        (measured, points): (&Measured, &[Point]),
        paid: Option<&Paid>,
    ) {
        let by_data = drives_for_data(question, &candidate.data);
        let most = points[points.len() - 1].operations_per_second;
        let by_rate = drives_for(question.rate, most);
        // Fewer than it was measured for would be fuller.
        let count = by_data.max(by_rate).max(measured.drive_count);
        self.drive_count = Some(count);
        self.why_many = Some(match (count, count > by_data) {
            (1, _) => WhyMany::One,
            (_, true) => WhyMany::Rate,
            (_, false) => WhyMany::Capacity,
        });
        if count > DRIVE_COUNT_MAX {
            self.refused = Some(format!("it would take more than {DRIVE_COUNT_MAX} of them"));
            return;
        }
        let per_drive = question.rate / count as f64;
        let (served, above) = Served::between(points, measured.idle_watts, per_drive);
        (self.depth, self.p99_ns) = (Some(above.depth), Some(above.p99_ns));
        self.data_years = years_of(&candidate.data, served.data_wear);
        let log = candidate.log.as_ref();
        self.log_years = log.and_then(|log| years_of(log, served.log_wear));
        let service = f64::from(question.service_years);
        let [data_years, log_years] =
            [self.data_years, self.log_years].map(|years| years.unwrap_or(service).min(service));
        self.years = Some(data_years.min(log_years));
        self.watts = served.watts.map(|watts| watts * count as f64);
        self.operations_per_joule =
            self.watts.filter(|&watts| watts > 0.0).map(|watts| question.rate / watts);
        let Some((data, log)) = paid else {
            self.refused = Some("nobody said what it costs; give --prices a file".to_owned());
            return;
        };
        let log_cents = log.as_ref().map_or(0, |log| log.cents);
        self.purchase_cents = Some((data.cents + log_cents).saturating_mul(count));
        let a_year = data.cents as f64 / data_years + log_cents as f64 / log_years;
        self.pay(question, a_year * count as f64);
        self.merit = question.merit.figure_of(&MeritParts {
            operations_per_second: most * count as f64,
            cents_per_year: self.cents_per_year,
            watts: self.watts,
            years: self.years,
        });
    }

    /// What a year costs, where drives cost `drives_cents`.
    fn pay(&mut self, question: &Question, drives_cents: f64) {
        let watts = self.watts.unwrap_or_default();
        let cents = drives_cents + power_cents_per_year(watts, question.kilowatt_hour_cents);
        self.cents_per_year = Some(cents);
        self.operations_per_dollar = Some(question.rate * YEAR_SECONDS / (cents / 100.0));
        let budget_cents = question.budget_cents.unwrap_or(u64::MAX);
        if let Some(cents) = self.purchase_cents.filter(|&cents| cents > budget_cents) {
            self.refused = Some(format!(
                "{} to buy, over the budget of {}",
                dollars(cents),
                dollars(budget_cents)
            ));
        }
    }

    fn will_do(&self) -> bool {
        self.refused.is_none()
    }

    /// Whether its drives wear out before the years of service are over.
    pub(super) fn is_worn_out_early(&self) -> bool {
        self.years.is_some() && self.worn_out_in() <= self.years.unwrap_or_default()
    }

    /// Years until the first of its drives is worn out.
    fn worn_out_in(&self) -> f64 {
        [self.data_years, self.log_years].into_iter().flatten().fold(f64::INFINITY, f64::min)
    }

    /// Whether it will do, too, and costs less a year; the other is of fewer drives.
    pub(super) fn is_cheaper_than(&self, other: &Self) -> bool {
        let cost = |it: &Self| it.cents_per_year.unwrap_or(f64::INFINITY);
        (self.will_do() || !other.will_do()) && cost(self) < cost(other)
    }

    /// The same, taken for the sake of its life.
    pub(super) fn for_life(self) -> Self {
        Self { why_many: Some(WhyMany::Wear), ..self }
    }
}

fn dollars(cents: u64) -> String {
    format!("${}.{:02}", cents / 100, cents % 100)
}

impl Answer {
    pub(super) fn of(question: &Question, mut verdicts: Vec<Verdict>) -> Self {
        verdicts.sort_by(|left, right| {
            let cost = |it: &Verdict| it.cents_per_year.unwrap_or(f64::INFINITY);
            let order = right.will_do().cmp(&left.will_do());
            order.then(cost(left).total_cmp(&cost(right))).then(left.name.cmp(&right.name))
        });
        let because = because_of(question, &verdicts);
        Self { verdicts, because }
    }

    /// The cheapest that will do.
    #[must_use]
    pub fn best(&self) -> Option<&Verdict> {
        self.verdicts.first().filter(|verdict| verdict.will_do())
    }
}

fn because_of(question: &Question, verdicts: &[Verdict]) -> Vec<String> {
    let mut sentences = Vec::new();
    let mut good = verdicts.iter().filter(|verdict| verdict.will_do());
    let (first, second) = (good.next(), good.next());
    match (first, second) {
        (None, _) => sentences.push("no candidate will do".to_owned()),
        (Some(first), None) => {
            sentences.push(format!("{} is the only one that will do", first.name))
        }
        (Some(first), Some(second)) => {
            let ratio = second.cents_per_year.zip(first.cents_per_year);
            let ratio = ratio.map_or(f64::NAN, |(second, first)| second / first);
            sentences.push(format!(
                "{} costs {}, {} {ratio:.1} times as much: {}",
                first.name,
                described(first),
                second.name,
                described(second)
            ));
        }
    }
    let dates = || verdicts.iter().filter_map(|it| it.price.as_ref()).map(|it| it.date.as_str());
    if let (Some(first), Some(last)) = (dates().min(), dates().max())
        && first.get(..4) != last.get(..4)
    {
        sentences.push(format!("prices are of different times, {first} to {last}"));
    }
    if let Load::Trace(trace) = &question.load
        && trace.request_count > TRACE_REQUEST_COUNT_MAX
    {
        sentences.push(format!(
            "of the trace's {} requests the first {TRACE_REQUEST_COUNT_MAX} are replayed each time",
            trace.request_count
        ));
    }
    sentences.extend(unknown(verdicts));
    sentences
}

/// What is not known, and of which candidates.
fn unknown(verdicts: &[Verdict]) -> Vec<String> {
    let of = |what: &str, is_so: &dyn Fn(&Verdict, &Measured) -> bool| {
        let told = verdicts.iter().filter(|it| it.cents_per_year.is_some());
        let names: Vec<&str> = told
            .filter(|it| it.measured.as_ref().is_some_and(|measured| is_so(it, measured)))
            .map(|it| it.name.as_str())
            .collect();
        (!names.is_empty()).then(|| format!("{what}: {}", names.join(", ")))
    };
    let told = [
        of(
            "too little was written for the state in which these drives clean all the time, so they may be \
             slower, and last longer or less long",
            &|_, measured| !measured.is_steady,
        ),
        of(
            "the load is too small for these drives to be as full as they would be, so they may be slower, \
             and last longer or less long; take more --records, or a longer trace",
            &|_, measured| !measured.is_as_full,
        ),
        of(
            "nobody knows how long these last, so they are taken to last the years that were asked for",
            &|_, measured| !measured.is_wear_known,
        ),
        of(
            "nobody knows what power these draw: their years cost more than is told, and they may belong further down",
            &|it, _| it.watts.is_none(),
        ),
    ];
    told.into_iter().flatten().collect()
}

/// What makes the cost of one.
fn described(verdict: &Verdict) -> String {
    let a_year = verdict.cents_per_year.map_or(0.0, |cents| cents / 100.0);
    let count = verdict.drive_count.unwrap_or(1);
    let why = match verdict.why_many {
        Some(WhyMany::Capacity) => " for the data",
        Some(WhyMany::Rate) => " for the rate",
        Some(WhyMany::Wear) => " for their life",
        Some(WhyMany::One) | None => "",
    };
    let drives = nandu_base::words::counted(count, "drive");
    let years = verdict.years.map_or(String::new(), |years| format!(" every {years:.1} years"));
    let wear = if verdict.is_worn_out_early() { ", when worn out" } else { "" };
    format!("${a_year:.2} a year ({drives}{why}{years}{wear})")
}
