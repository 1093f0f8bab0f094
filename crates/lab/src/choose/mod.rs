//! Which drive is the cheapest for a load: `nandu choose`.
//!
//! ```text
//!   candidate ─► measure: the load on the simulated drive, by how much is asked at once ─► points
//!                  │                                                                         │
//!             price, chips                         data, rate, latency, years, budget ─► verdict
//!                                                                                            │
//!                        how many drives, how long they last, what they cost a year ◄────────┘
//! ```
//!
//! 1. Nothing is assumed to cost, draw or last what no profile, price or chip says: what is not known
//!    is `None`, and what it would add is left out and told.
//! 2. Several drives share data and requests evenly; that is the one thing that is not simulated.
//! 3. The same question has the same answer, bit for bit.
//! 4. A candidate is as full as the data make as many of it as are taken: where the rate wants more than the
//!    data do, it is measured again, emptier, and the fewest are sought that do. More are taken where they are
//!    worn out so much later that a year costs less.

mod measure;
mod verdict;

pub use measure::{Load, Measured, Point, TraceLoad, YcsbChoice};
pub use verdict::{Answer, Verdict, WhyMany};

use crate::run::RunObserver;
use nandu_drives::merit::MeritWeights;
use nandu_drives::price::{Price, Prices};
use nandu_drives::profile::{Profile, ProfileError};
use nandu_trace::TraceError;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// What a candidate's log lies on: `DATA+log=DRIVE`.
const LOG: &str = "+log=";
/// How often a candidate is measured, at most, while it is sought how many do.
const ROUND_COUNT_MAX: usize = 6;

/// Why there is no answer.
#[derive(Debug)]
pub enum ChooseError {
    /// The trace cannot be read.
    Trace(TraceError),
    /// The question makes no sense; says why.
    Question {
        /// Why, in words.
        what: String,
    },
    /// Stopped on request.
    Stopped,
}

impl fmt::Display for ChooseError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trace(error) => error.fmt(formatter),
            Self::Question { what } => formatter.write_str(what),
            Self::Stopped => formatter.write_str("stopped on request"),
        }
    }
}

impl std::error::Error for ChooseError {}

impl From<TraceError> for ChooseError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

/// A drive, or a drive and another one for the log.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// As the user writes it: `ocz-core`, or `toshiba-320+log=ocz-core`.
    pub name: String,
    /// What the data lies on.
    pub data: Profile,
    /// What the log lies on, where that is another drive.
    pub log: Option<Profile>,
}

/// What is asked.
#[derive(Clone, Debug, Serialize)]
pub struct Question {
    /// What is asked of each candidate.
    pub load: Load,
    /// Bytes that have to be kept, in the whole: of records, or as they lie on the drive of a trace.
    pub data_bytes: u64,
    /// Operations, or requests, that have to be served in a second.
    pub rate: f64,
    /// How long 99 of 100 of them may take, in nanoseconds.
    pub latency_limit_ns: Option<u64>,
    /// What all drives may cost to buy, in cents.
    pub budget_cents: Option<u64>,
    /// After how many years a drive is replaced that has not worn out.
    pub service_years: u32,
    /// What a kilowatt hour costs, in cents.
    pub kilowatt_hour_cents: u64,
    /// How much each part counts in the figure of merit.
    pub merit: MeritWeights,
    /// Seed of drives and loads.
    pub seed: u64,
}

impl Candidate {
    /// By its name.
    ///
    /// # Errors
    /// If there is no such drive.
    pub fn parse(name: &str) -> Result<Self, ProfileError> {
        let (data, log) = match name.split_once(LOG) {
            Some((data, log)) => (data, Some(log)),
            None => (name, None),
        };
        let load = |name: &str| Profile::load(name.strip_prefix("sim:").unwrap_or(name));
        Ok(Self { name: name.to_owned(), data: load(data)?, log: log.map(load).transpose()? })
    }

    /// What one of its drives for the data costs, and one for the log; `None` if nobody said.
    #[must_use]
    pub fn prices(&self, prices: &Prices) -> Option<(Price, Option<Price>)> {
        let data = prices.of(&self.data)?;
        let Some(log) = &self.log else { return Some((data, None)) };
        Some((data, Some(prices.of(log)?)))
    }
}

/// Measures all candidates and answers.
///
/// # Errors
/// If the load makes no sense or the run is stopped. What cannot be simulated is an answer.
pub fn choose(
    question: &Question,
    candidates: &[Candidate],
    prices: &Prices,
    observer: &mut dyn RunObserver,
) -> Result<Answer, ChooseError> {
    question.check()?;
    let mut verdicts = Vec::new();
    for (index, candidate) in candidates.iter().enumerate() {
        observer.step_started(index, candidates.len(), &candidate.name, false);
        let paid = candidate.prices(prices);
        let mut rounds = Rounds { question, candidate, paid, known: BTreeMap::new() };
        let verdict = rounds.settle(observer);
        if observer.is_cancelled() {
            return Err(ChooseError::Stopped);
        }
        verdicts.push(verdict);
    }
    Ok(Answer::of(question, verdicts))
}

/// A candidate while it is sought how many of it do.
struct Rounds<'q> {
    question: &'q Question,
    candidate: &'q Candidate,
    paid: Option<(Price, Option<Price>)>,
    /// What it did, by the bytes of the drive on which it was simulated.
    known: BTreeMap<u64, Result<Measured, String>>,
}

impl Rounds<'_> {
    /// The fewest that do, or more of them where these would cost less a year: emptier ones wear less.
    fn settle(&mut self, observer: &mut dyn RunObserver) -> Verdict {
        let mut settled = self.fewest(observer);
        while let Some(count) = settled.drive_count.filter(|_| settled.is_worn_out_early()) {
            let twice = count.saturating_mul(2);
            if !self.can_tell(twice) || observer.is_cancelled() {
                break;
            }
            let more = self.verdict(twice, observer);
            if !more.is_cheaper_than(&settled) {
                break;
            }
            settled = more.for_life();
        }
        settled
    }

    /// The fewest that do, each as full as so many are.
    fn fewest(&mut self, observer: &mut dyn RunObserver) -> Verdict {
        let mut too_few = measure::drives_for_data(self.question, &self.candidate.data);
        let as_full_as_can_be = self.verdict(too_few, observer);
        // Who needs no more than the data do is as full as that.
        let Some(mut enough) = as_full_as_can_be.drive_count.filter(|&count| count > too_few)
        else {
            return as_full_as_can_be;
        };
        let mut settled = self.verdict(enough, observer);
        if settled.drive_count != Some(enough) {
            // Emptier it is slower, or above the limit of latency: no fewer are known to do.
            return settled;
        }
        while enough - too_few > 1 && !observer.is_cancelled() {
            let between = too_few + (enough - too_few) / 2;
            if !self.can_tell(between) {
                break;
            }
            let verdict = self.verdict(between, observer);
            if verdict.drive_count == Some(between) {
                (enough, settled) = (between, verdict);
            } else {
                too_few = between;
            }
        }
        settled
    }

    /// What becomes of so many of it.
    fn verdict(&mut self, drive_count: u64, observer: &mut dyn RunObserver) -> Verdict {
        let Self { question, candidate, .. } = *self;
        let measured = match measure::simulated_bytes(question, candidate, drive_count) {
            Err(why) => Err(why),
            Ok(bytes) => {
                let known = self.known.entry(bytes);
                let found = known.or_insert_with(|| {
                    measure::measure(question, (candidate, drive_count), observer)
                });
                let rest = measure::rest_between(question, drive_count);
                let idle_watts = measure::idle_watts(candidate, bytes, rest);
                found.clone().map(|measured| Measured { drive_count, idle_watts, ..measured })
            }
        };
        verdict::judge(question, candidate, self.paid.clone(), measured)
    }

    /// Whether it was measured as full as so many are, or may be once more.
    fn can_tell(&self, drive_count: u64) -> bool {
        let bytes = measure::simulated_bytes(self.question, self.candidate, drive_count);
        self.known.len() < ROUND_COUNT_MAX
            || bytes.is_ok_and(|bytes| self.known.contains_key(&bytes))
    }
}

impl Question {
    fn check(&self) -> Result<(), ChooseError> {
        let is_rate = self.rate.is_finite() && self.rate > 0.0;
        if self.data_bytes == 0 || !is_rate || self.service_years == 0 {
            let what = "data, rate and years must be above 0".to_owned();
            return Err(ChooseError::Question { what });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
