//! Where the energy of a device went, by part and state; how a run's readings become a report.
//!
//! ```text
//!   Device::counters().energy ─► EnergyParts ─► difference of two readings ─► EnergyReport
//!                                     └──► PowerCourse: watts over time, a bounded number of intervals
//! ```
//!
//! 1. Parts add up: a total is their sum, and the difference of two readings is what came between.
//! 2. `idle` is what the device draws anyway while it is ready, however much it works; the other parts
//!    of work are what comes on top. A device without work uses exactly idle power times time.
//! 3. In standby or a low-power state, and while it spins up, a device is not idle: those stand alone.
//! 4. Readings have 128 bits, which no device comes to the end of; 64 would end at 18 MJ.
//! 5. A joule in a report says whether a model or a meter told it.

use nandu_base::units::figures;
use nandu_base::{Nanos, Picojoules};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ops::{Add, AddAssign};

/// With so many intervals, an even number, pairs of them are joined.
const INTERVAL_COUNT_MAX: usize = 32;
/// The first interval, which doubles as often as it has to.
const FIRST_INTERVAL: Nanos = Nanos::from_micros(100);

/// Energy by part and state of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EnergyParts {
    /// Ready, with work or without: what is drawn anyway.
    pub idle: Picojoules,
    /// Controller, memory and link at work on commands.
    pub active: Picojoules,
    /// The arm moves.
    pub seek: Picojoules,
    /// Data pass under the head, or between chips and controller.
    pub transfer: Picojoules,
    /// Cells are read and programmed.
    pub cells: Picojoules,
    /// Cells are erased.
    pub erase: Picojoules,
    /// The platters get up to speed.
    pub spin_up: Picojoules,
    /// Standby and low-power states.
    pub standby: Picojoules,
}

impl EnergyParts {
    /// The names of the parts, in the order of [`Self::values`].
    pub const NAMES: [&'static str; 8] =
        ["idle", "active", "seek", "transfer", "cells", "erase", "spin_up", "standby"];

    /// What each part used, in the order of [`Self::NAMES`].
    #[must_use]
    pub const fn values(&self) -> [Picojoules; 8] {
        let Self { idle, active, seek, transfer, cells, erase, spin_up, standby } = *self;
        [idle, active, seek, transfer, cells, erase, spin_up, standby]
    }

    const fn of_values(values: [Picojoules; 8]) -> Self {
        let [idle, active, seek, transfer, cells, erase, spin_up, standby] = values;
        Self { idle, active, seek, transfer, cells, erase, spin_up, standby }
    }

    /// All of it.
    #[must_use]
    pub fn total(&self) -> Picojoules {
        self.values().into_iter().sum()
    }

    /// What came since `earlier`, a reading of the same device.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        let mut values = self.values();
        for (value, before) in values.iter_mut().zip(earlier.values()) {
            value.0 = value.0.saturating_sub(before.0);
        }
        Self::of_values(values)
    }
}

impl Add for EnergyParts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        let mut values = self.values();
        for (value, more) in values.iter_mut().zip(other.values()) {
            *value += more;
        }
        Self::of_values(values)
    }
}

impl AddAssign for EnergyParts {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// What `milliwatts` draw over `time`: their product is in picojoules.
#[must_use]
pub const fn drawn(milliwatts: u64, time: Nanos) -> Picojoules {
    Picojoules(milliwatts as u128 * time.0 as u128)
}

/// Watts over time, in a bounded number of intervals of one length: when there are too many, two
/// become one.
#[derive(Clone, Debug)]
pub struct PowerCourse {
    begun_at: Nanos,
    interval: Nanos,
    /// The readings at the ends of the intervals that have passed.
    readings: Vec<Picojoules>,
    first: Picojoules,
    next_at: Nanos,
}

/// A power course in a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WattsOverTime {
    /// How long each interval is, in seconds; the last one may be shorter.
    pub interval_seconds: f64,
    /// Mean watts of each interval.
    pub watts: Vec<f64>,
}

impl PowerCourse {
    /// A course that begins `now` with the reading `energy`.
    #[must_use]
    pub const fn begin(now: Nanos, energy: Picojoules) -> Self {
        Self::begin_by(now, energy, FIRST_INTERVAL)
    }

    /// The same in intervals of at least `interval`, of somebody who does not know more.
    #[must_use]
    pub const fn begin_by(now: Nanos, energy: Picojoules, interval: Nanos) -> Self {
        let interval = if interval.0 == 0 { FIRST_INTERVAL } else { interval };
        let next_at = Nanos(now.0.saturating_add(interval.0));
        Self { begun_at: now, interval, readings: Vec::new(), first: energy, next_at }
    }

    /// Whether a reading is wanted at `now`.
    #[inline]
    #[must_use]
    pub const fn is_due(&self, now: Nanos) -> bool {
        now.0 >= self.next_at.0
    }

    /// When the next reading is wanted.
    #[must_use]
    pub const fn next_at(&self) -> Nanos {
        self.next_at
    }

    /// Takes the reading `energy` at `now`. Between two readings energy is taken to grow evenly.
    pub fn read(&mut self, now: Nanos, energy: Picojoules) {
        let mut from = (self.end_of(self.readings.len()), self.last());
        while self.is_due(now) {
            let span = u128::from(now.saturating_sub(from.0).0.max(1));
            let passed = u128::from(self.next_at.saturating_sub(from.0).0);
            let gained = energy.saturating_sub(from.1).0;
            // The rest apart, so that no product leaves its range: times have 64 bits.
            let share = gained / span * passed + gained % span * passed / span;
            let reading = from.1.saturating_add(Picojoules(share));
            from = (self.next_at, reading);
            self.readings.push(reading);
            if self.readings.len() == INTERVAL_COUNT_MAX {
                self.join_pairs();
            }
            self.next_at = self.end_of(self.readings.len() + 1);
        }
    }

    /// Mean watts of each interval until `now`, when the reading is `energy`; nothing where no time
    /// has passed.
    #[must_use]
    pub fn watts(mut self, now: Nanos, energy: Picojoules) -> Option<WattsOverTime> {
        if now <= self.begun_at {
            return None;
        }
        self.read(now, energy);
        let mut watts = Vec::new();
        let mut before = self.first;
        for &reading in &self.readings {
            watts.push(watts_of(reading - before, self.interval));
            before = reading;
        }
        let rest = now.saturating_sub(self.end_of(self.readings.len()));
        if rest > Nanos::ZERO {
            watts.push(watts_of(energy.saturating_sub(before), rest));
        }
        Some(WattsOverTime { interval_seconds: self.interval.as_seconds_f64(), watts })
    }

    /// The readings by their times; the last one is at `now`, when it is `energy`.
    pub(crate) fn points(&self, now: Nanos, energy: Picojoules) -> Vec<(Nanos, Picojoules)> {
        let ends = (1..).map(|number| self.end_of(number));
        ends.zip(self.readings.iter().copied()).chain([(now, energy)]).collect()
    }

    fn last(&self) -> Picojoules {
        self.readings.last().copied().unwrap_or(self.first)
    }

    /// When the interval of this number, from 1, has passed.
    const fn end_of(&self, number: usize) -> Nanos {
        Nanos(self.begun_at.0.saturating_add(self.interval.0.saturating_mul(number as u64)))
    }

    /// Two intervals become one.
    fn join_pairs(&mut self) {
        let mut number = 0;
        self.readings.retain(|_| {
            number += 1;
            number % 2 == 0
        });
        self.interval = Nanos(self.interval.0.saturating_mul(2));
    }
}

/// Picojoules over nanoseconds are milliwatts.
fn watts_of(energy: Picojoules, time: Nanos) -> f64 {
    energy.0 as f64 / time.0.max(1) as f64 / 1e3
}

/// Who told the joules.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum EnergySource {
    /// Computed from states and what each draws.
    Model,
    /// Measured.
    Meter,
}

impl EnergySource {
    /// The word of text and JSON.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Model => "model",
            Self::Meter => "meter",
        }
    }
}

/// What a run cost.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EnergyReport {
    /// Whether a model or a meter told it.
    pub source: EnergySource,
    /// How long it was watched.
    pub seconds: f64,
    /// Energy in all.
    pub joules: f64,
    /// Over the time of the run; absent where none passed.
    #[serde(default)]
    pub mean_watts: Option<f64>,
    /// How it went, of the devices alone; absent where nobody looked in between.
    #[serde(default)]
    pub watts_over_time: Option<WattsOverTime>,
    /// Work for a joule; 0 where nothing was done, absent where nothing was used.
    #[serde(default)]
    pub operations_per_joule: Option<f64>,
    /// Joules of each part that used some.
    pub part_joules: BTreeMap<String, f64>,
}

impl EnergyReport {
    /// What a model says of `parts`, used in `time` for `operation_count` operations.
    #[must_use]
    pub fn of_model(parts: &EnergyParts, time: Nanos, operation_count: u64) -> Self {
        let named = EnergyParts::NAMES.into_iter().zip(parts.values());
        let joules = |part: Picojoules| part.0 as f64 / 1e12;
        let parts = named
            .filter(|(_, part)| part.0 > 0)
            .map(|(name, part)| (name.to_owned(), joules(part)))
            .collect();
        Self::of_parts(EnergySource::Model, parts, time, operation_count)
    }

    /// Of joules by part, whoever told them.
    #[must_use]
    pub fn of_parts(
        source: EnergySource,
        parts: BTreeMap<String, f64>,
        time: Nanos,
        operation_count: u64,
    ) -> Self {
        let mut report = Self {
            source,
            seconds: time.as_seconds_f64(),
            joules: 0.0,
            mean_watts: None,
            watts_over_time: None,
            operations_per_joule: None,
            part_joules: parts,
        };
        report.sum_up(operation_count as f64);
        report
    }

    /// All of `reports`, which who told the first told: joules by part, seconds and work add up. `None` without
    /// any.
    #[must_use]
    pub fn sum(reports: &[&Self]) -> Option<Self> {
        let source = reports.first()?.source;
        let mut sum = Self::of_parts(source, BTreeMap::new(), Nanos::ZERO, 0);
        let mut work = 0.0;
        for report in reports {
            sum.seconds += report.seconds;
            work += report.operations_per_joule.map_or(0.0, |count| count * report.joules);
            for (name, joules) in &report.part_joules {
                *sum.part_joules.entry(name.clone()).or_insert(0.0) += joules;
            }
        }
        sum.sum_up(work);
        Some(sum)
    }

    /// The same with the joules of another part, such as the host's.
    #[must_use]
    pub fn with_part(mut self, name: &str, joules: f64, operation_count: u64) -> Self {
        if joules > 0.0 {
            *self.part_joules.entry(name.to_owned()).or_insert(0.0) += joules;
        }
        self.sum_up(operation_count as f64);
        self
    }

    fn sum_up(&mut self, operation_count: f64) {
        self.joules = self.part_joules.values().sum();
        self.mean_watts = (self.seconds > 0.0).then(|| self.joules / self.seconds);
        self.operations_per_joule = (self.joules > 0.0).then(|| operation_count / self.joules);
    }

    /// One line for people: `model: 12.3 J, 0.91 W on average, 34 operations/J (active 12, cells 0.3)`.
    #[must_use]
    pub fn line(&self) -> String {
        let mut text = format!("{}: {} J", self.source.label(), figures(self.joules));
        if let Some(watts) = self.mean_watts {
            text += &format!(", {} W on average", figures(watts));
        }
        if let Some(count) = self.operations_per_joule {
            text += &format!(", {} operations/J", figures(count));
        }
        let parts: Vec<String> = self
            .part_joules
            .iter()
            .map(|(name, joules)| format!("{} {}", name.replace('_', "-"), figures(*joules)))
            .collect();
        if !parts.is_empty() {
            text += &format!(" ({})", parts.join(", "));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(idle: u128, seek: u128, standby: u128) -> EnergyParts {
        EnergyParts {
            idle: Picojoules(idle),
            seek: Picojoules(seek),
            standby: Picojoules(standby),
            ..EnergyParts::default()
        }
    }

    #[test]
    fn differences_of_readings_add_up_to_the_whole() {
        let readings = [parts(1, 2, 0), parts(10, 7, 3), parts(40, 7, 90)];
        let first = readings[1].since(&readings[0]);
        let second = readings[2].since(&readings[1]);
        assert_eq!(first + second, readings[2].since(&readings[0]));
        assert_eq!((first + second).total(), Picojoules(39 + 5 + 90));
    }

    #[test]
    fn energy_beyond_64_bits_is_right() {
        // A shelf of 10 kW for a hundred years: 31.5 TJ.
        let century = Nanos::from_seconds(100 * 365 * 24 * 3600);
        let much = EnergyParts { idle: drawn(10_000_000, century), ..EnergyParts::default() };
        let report = EnergyReport::of_model(&(much + much), century, 0);
        assert!((report.joules / (2.0 * 31.536e12) - 1.0).abs() < 1e-9, "{report:?}");
        assert!((report.mean_watts.unwrap() / 20_000.0 - 1.0).abs() < 1e-9, "{report:?}");
        let course = PowerCourse::begin(Nanos(0), Picojoules(0)).watts(century, much.total());
        assert!(course.unwrap().watts.iter().all(|watts| (watts / 1e4 - 1.0).abs() < 1e-9));
        assert_eq!(drawn(u64::MAX, Nanos(2)), Picojoules(2 * u128::from(u64::MAX)));
    }

    #[test]
    fn watts_over_time_are_the_means_of_a_bounded_number_of_intervals() {
        let mut course = PowerCourse::begin(Nanos(0), Picojoules(500));
        // 2 W for 5 ms, then 8 W for 5 ms.
        let energy = |now: u128| match now {
            0..=5_000_000 => 500 + 2_000 * now,
            _ => 500 + 2_000 * 5_000_000 + 8_000 * (now - 5_000_000),
        };
        for now in (0..=10_000_000).step_by(30_000) {
            if course.is_due(Nanos(now)) {
                course.read(Nanos(now), Picojoules(energy(now.into())));
            }
        }
        let end = Nanos(10_000_000);
        let course = course.watts(end, Picojoules(energy(end.0.into()))).unwrap();
        let (interval, watts) = (course.interval_seconds, &course.watts);
        assert!(watts.len() <= INTERVAL_COUNT_MAX, "{watts:?}");
        let joules: f64 = watts.iter().map(|watts| watts * interval).sum();
        let rest = (watts.len() as f64 * interval - 0.01) * watts.last().unwrap();
        assert!((joules - rest - 0.05).abs() < 1e-6, "{joules} J, of which {rest} J past the end");
        assert!((watts[0] - 2.0).abs() < 1e-6 && (watts.last().unwrap() - 8.0).abs() < 1e-6);
    }

    #[test]
    fn a_long_rest_is_one_reading() {
        let course = PowerCourse::begin(Nanos(7), Picojoules(0));
        let hour = Nanos::from_seconds(3600);
        let course = course.watts(hour + Nanos(7), drawn(7_500, hour)).unwrap();
        assert!(course.watts.len() <= INTERVAL_COUNT_MAX);
        assert!(course.watts.iter().all(|watts| (watts - 7.5).abs() < 1e-6), "{course:?}");
        assert_eq!(PowerCourse::begin(hour, Picojoules(0)).watts(hour, Picojoules(0)), None);
    }

    #[test]
    fn an_idle_run_does_nothing_for_its_joules() {
        let hour = Nanos::from_seconds(3600);
        let idle = EnergyParts { idle: drawn(53_000, hour), ..EnergyParts::default() };
        let report = EnergyReport::of_model(&idle, hour, 0);
        assert_eq!((report.operations_per_joule, report.mean_watts), (Some(0.0), Some(53.0)));
        assert_eq!(report.part_joules.keys().collect::<Vec<_>>(), ["idle"]);
        let with_host = report.with_part("base", 3600.0 * 40.0, 7200);
        assert!((with_host.joules - 3600.0 * 93.0).abs() < 1e-6);
        assert!(with_host.line().starts_with("model: 334800 J, 93.0 W on average, 0.0215 op"));
    }

    #[test]
    fn nothing_used_is_no_division() {
        let report = EnergyReport::of_model(&EnergyParts::default(), Nanos::ZERO, 5);
        assert_eq!((report.operations_per_joule, report.mean_watts), (None, None));
        assert_eq!(report.line(), "model: 0 J");
    }
}
