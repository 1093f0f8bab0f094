//! What a meter of this machine told of a command, or why there is none.
//!
//! 1. Nothing is made up: where no meter told joules, `meter` is `none` and `meter_note` says why. Beside joules it
//!    says what is not in them.
//! 2. Simulated drives have a time of their own, which no meter sees.

use crate::stopwatch::Stopwatch;
use nandu_base::Nanos;
use nandu_device::EnergyReport;
use nandu_energy::{Rapl, RaplError, rapl};
use serde::Serialize;
use std::fmt::Display;
use std::path::Path;

/// What a meter told, for JSON.
#[derive(Debug, Serialize)]
pub(crate) struct MeterReport {
    meter: MeterFigures,
    /// Why there is none, or what is not in it.
    meter_note: Option<String>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
enum MeterFigures {
    Told(Box<EnergyReport>),
    Nothing(&'static str),
}

/// The processor's counters, while a command runs.
#[derive(Debug)]
pub(crate) struct RaplRun {
    rapl: Result<Rapl, RaplError>,
    stopwatch: Stopwatch,
}

impl MeterReport {
    /// Of a simulated drive.
    pub(crate) fn of_simulated() -> Self {
        Self::none(&"no meter sees a simulated drive, whose time is its own")
    }

    /// Of a meter that told something, or trouble with it.
    pub(crate) fn of<E: Display>(told: Result<EnergyReport, E>) -> Self {
        match told {
            Ok(report) => Self { meter: MeterFigures::Told(Box::new(report)), meter_note: None },
            Err(trouble) => Self::none(&trouble),
        }
    }

    fn none(why: &dyn Display) -> Self {
        Self { meter: MeterFigures::Nothing("none"), meter_note: Some(why.to_string()) }
    }

    /// What was told.
    pub(crate) fn energy(&self) -> Option<&EnergyReport> {
        match &self.meter {
            MeterFigures::Told(energy) => Some(energy),
            MeterFigures::Nothing(_) => None,
        }
    }

    /// A line for people.
    pub(crate) fn line(&self) -> String {
        match (&self.meter, &self.meter_note) {
            (MeterFigures::Told(energy), Some(note)) => {
                format!("energy, {}; {note}", energy.line())
            }
            (MeterFigures::Told(energy), None) => format!("energy, {}", energy.line()),
            (MeterFigures::Nothing(none), Some(why)) => format!("meter: {none}, {why}"),
            (MeterFigures::Nothing(none), None) => format!("meter: {none}"),
        }
    }
}

impl RaplRun {
    /// Begins to measure from now on.
    pub(crate) fn begin() -> Self {
        let rapl = Rapl::begin(Path::new(rapl::ROOT), Nanos::ZERO);
        Self { rapl, stopwatch: Stopwatch::start() }
    }

    /// Takes a sample, if it is time for one.
    pub(crate) fn look(&mut self) {
        if let Ok(rapl) = &mut self.rapl {
            rapl.look(Nanos(self.stopwatch.nanos()));
        }
    }

    /// The command is over and has done so many operations, if somebody counted them.
    pub(crate) fn end(self, operation_count: Option<u64>) -> MeterReport {
        let now = Nanos(self.stopwatch.nanos());
        let note = self.rapl.as_ref().ok().and_then(Rapl::note);
        let told = self.rapl.and_then(|rapl| rapl.end(now, operation_count.unwrap_or(0)));
        let report = MeterReport::of(told.map(|mut report| {
            report.operations_per_joule = operation_count.and(report.operations_per_joule);
            report
        }));
        MeterReport { meter_note: report.meter_note.or(note), ..report }
    }
}
