//! What a run cost in energy: drives and host by their models, or a meter.
//!
//! ```text
//!   drives' counters ─┬─ --host NAME ─► energy, source model
//!                     └─ prices ──────► worth: work for a dollar, years of life
//!   RAPL, where it can be read ───────┬► meter
//!   --meter FILE.csv, after the run ──┘
//! ```
//!
//! 1. Nothing is made up: what no model and no meter tells is absent, and `meter` is `none`.
//! 2. Meters are for runs on this machine's clock; a simulated drive's time is its own.
//! 3. Who is in `energy` is told beside it, and so is a processor that worked longer than the host's can. Of drives
//!    all are in it or none: where one tells nothing, it is named.

use super::Place;
use crate::failure::Failure;
use crate::meter::{MeterReport, RaplRun};
use crate::output::Output;
use crate::stopwatch::{Stopwatch, unix_seconds};
use clap::Args;
use nandu_base::Nanos;
use nandu_bench::{Outcome, Plan};
use nandu_device::{Counters, EnergyParts, EnergyReport};
use nandu_drives::file::cpu_time;
use nandu_drives::price::Prices;
use nandu_drives::worth::{Used, Worth};
use nandu_energy::{Host, MeterError, ProcessorUse, WallMeter};
use nandu_lab::outcome::DriveWorth;
use serde::Serialize;
use std::path::{Path, PathBuf};

/// What else is in the energy of a run.
#[derive(Debug, Args)]
pub(super) struct CostArguments {
    /// A model of the machine around the drive, by name or in a .toml file: its energy is added
    #[arg(long, value_name = "HOST")]
    host: Option<String>,
    /// What a meter at the plug has written by the end of the run: lines of a time in seconds, a comma, watts
    #[arg(long, value_name = "FILE.csv")]
    meter: Option<PathBuf>,
    /// Prices of simulated drives that come before nandu's own, in the form of its prices.toml
    #[arg(long, value_name = "FILE.toml")]
    prices: Option<PathBuf>,
}

/// Who looks at the energy of a run.
pub(super) struct CostWatch {
    host: Option<Host>,
    file: Option<PathBuf>,
    prices: Prices,
    is_virtual: bool,
    /// Where the data lie, and the log if that lies elsewhere.
    drives: Vec<String>,
}

/// A run under way.
pub(super) struct CostRun<'a> {
    watch: &'a CostWatch,
    rapl: Option<RaplRun>,
    stopwatch: Stopwatch,
    began_at: f64,
    processor_before: Nanos,
    /// What the drive had done before, if it is a simulated one.
    counters_before: Option<Counters>,
}

/// What a run cost, beside what its outcome says.
#[derive(Debug, Serialize)]
pub(super) struct Cost {
    /// The model of the machine.
    host: Option<String>,
    /// Whose joules are in `energy`: `drives`, `host`.
    energy_of: Vec<&'static str>,
    /// Drives that tell no joules; where there is one, `energy` has no drive's.
    energy_without: Vec<String>,
    /// Where the model of the host does not fit what ran: how, and what was counted.
    host_note: Option<String>,
    /// What a meter told, or why there is none.
    #[serde(flatten)]
    meter: MeterReport,
    /// What a simulated drive did for its money, and how long it would last.
    worth: Option<Worth>,
    /// Why a meter told nothing that should have.
    #[serde(skip)]
    trouble: Option<MeterError>,
    #[serde(skip)]
    is_virtual: bool,
}

impl CostArguments {
    /// Who looks at what `drives` cost, simulated ones or this machine's: that of the data, and of the log.
    pub(super) fn watch(&self, drives: Vec<String>) -> Result<CostWatch, Failure> {
        let is_virtual = drives.first().is_some_and(|drive| drive.starts_with("sim:"));
        if let (Some(file), true) = (&self.meter, is_virtual) {
            let file = file.display();
            let what =
                format!("--meter {file}: no meter sees a simulated drive, whose time is its own");
            return Err(Failure::input(what));
        }
        if let Some(file) = &self.meter {
            WallMeter::check(file).map_err(|error| wrong("--meter", &error))?;
        }
        if let (Some(file), false) = (&self.prices, is_virtual) {
            let file = file.display();
            let what = format!("--prices {file}: nobody knows which drive is below a directory");
            return Err(Failure::input(what));
        }
        let load = |name: &String| Host::load(name).map_err(|error| wrong("--host", &error));
        let host = self.host.as_ref().map(load).transpose()?;
        let prices = match &self.prices {
            Some(file) => Prices::with_file(file)?,
            None => Prices::embedded(),
        };
        Ok(CostWatch { host, file: self.meter.clone(), prices, is_virtual, drives })
    }
}

impl CostWatch {
    /// The model of the machine, if there is one.
    pub(super) const fn host(&self) -> Option<&Host> {
        self.host.as_ref()
    }

    /// The run begins now.
    pub(super) fn begin(&self, place: &Place) -> CostRun<'_> {
        let meters = !self.is_virtual && self.file.is_none();
        CostRun {
            watch: self,
            rapl: meters.then(RaplRun::begin),
            stopwatch: Stopwatch::start(),
            began_at: unix_seconds(),
            processor_before: cpu_time().total(),
            counters_before: place.drive_counters(),
        }
    }
}

impl CostRun<'_> {
    /// Lets meters take their samples, if it is time for one.
    pub(super) fn look(&mut self) {
        if let Some(rapl) = &mut self.rapl {
            rapl.look();
        }
    }

    /// The run is over: what it cost, to `outcome` and beside it.
    pub(super) fn end(mut self, outcome: &mut Outcome, plan: &Plan, place: &Place) -> Cost {
        let now = Nanos(self.stopwatch.nanos());
        let processor = cpu_time().total().saturating_sub(self.processor_before);
        let count = outcome.operation_count;
        let mut energy_of: Vec<_> = outcome.energy.iter().map(|_| "drives").collect();
        let mut host_note = None;
        if let Some(host) = &self.watch.host {
            energy_of.push("host");
            let busy = match self.watch.is_virtual {
                true => Nanos(plan.processor_time.0.saturating_mul(computed(outcome))),
                false => processor,
            };
            let drives = outcome.energy.take().unwrap_or_else(|| {
                EnergyReport::of_model(&EnergyParts::default(), Nanos(outcome.elapsed_ns), count)
            });
            host_note = too_busy(host, drives.seconds, busy);
            outcome.energy = Some(host.with_drives(drives, ProcessorUse { busy }, count));
        }
        let (meter, trouble) = match (&self.watch.file, self.rapl.take()) {
            (Some(file), _) => {
                let told = self.read(file, now, count);
                let trouble = told.as_ref().err().cloned();
                (MeterReport::of(told), trouble)
            }
            (None, Some(rapl)) => (rapl.end(Some(count)), None),
            (None, None) => (MeterReport::of_simulated(), None),
        };
        let host = self.watch.host.as_ref().map(|host| host.name.clone());
        let worth = self.worth(outcome, place);
        let (energy_without, is_virtual) = (self.silent(place), self.watch.is_virtual);
        Cost { host, energy_of, energy_without, host_note, meter, worth, trouble, is_virtual }
    }

    /// The drives that tell no joules.
    fn silent(&self, place: &Place) -> Vec<String> {
        let (data, log) = place.database().read().engine().device_counters();
        let tells = std::iter::once(data).chain(log).map(|counters| counters.energy.is_some());
        let drives = self.watch.drives.iter().zip(tells);
        drives.filter(|(_, tells)| !tells).map(|(drive, _)| drive.clone()).collect()
    }

    fn worth(&self, outcome: &Outcome, place: &Place) -> Option<Worth> {
        let (before, after) = (self.counters_before?, place.drive_counters()?);
        let (profile, time) = (place.profile()?, Nanos(outcome.elapsed_ns));
        let used = Used::between(profile, (&before, &after), time, outcome.operation_count);
        Some(Worth::of(profile, &self.watch.prices, &used))
    }

    fn read(&self, file: &Path, now: Nanos, count: u64) -> Result<EnergyReport, MeterError> {
        let meter = WallMeter::read(file)?;
        let from = if meter.has_unix_times() { self.began_at } else { 0.0 };
        meter.report(from, now.as_seconds_f64(), count)
    }
}

impl Cost {
    /// Tells what the run cost, a line for each who told it.
    pub(super) fn tell(&self, outcome: &Outcome, output: &Output) -> Result<(), Failure> {
        let silent = self.energy_without.iter().map(|drive| drive.escape_debug().to_string());
        let silent = silent.collect::<Vec<_>>().join(" and ");
        let tells = if self.energy_without.len() == 1 { "tells" } else { "tell" };
        match &outcome.energy {
            Some(energy) if silent.is_empty() => {
                output.sentence(&format!("energy, {}", energy.line()))?;
            }
            Some(energy) => output.sentence(&format!(
                "energy, {}; no drive is in it, since {silent} {tells} nothing",
                energy.line()
            ))?,
            None if self.is_virtual => {
                output.sentence(&format!("energy: none, {silent} {tells} nothing"))?;
            }
            None => {}
        }
        if let Some(note) = &self.host_note {
            output.line(&format!("energy of the host: {note}"))?;
        }
        if !self.is_virtual && self.trouble.is_none() {
            output.sentence(&self.meter.line())?;
        }
        match self.worth.as_ref().and_then(Worth::line) {
            Some(line) => output.sentence(&format!("worth: {line}")),
            None => Ok(()),
        }
    }

    /// What the drive did for its money; `energy` is that of the run, where the drive is the only one.
    pub(super) fn worth(&self, drive: &str, energy: Option<&EnergyReport>) -> Option<DriveWorth> {
        let of_drive = energy.filter(|_| self.energy_of == ["drives"]);
        let watts = of_drive.and_then(|energy| energy.mean_watts);
        Some(DriveWorth::new(drive.to_owned(), self.worth.clone()?, watts))
    }

    /// What a meter told.
    pub(super) fn meter(&self) -> Option<&EnergyReport> {
        self.meter.energy()
    }

    /// The drives that tell no joules.
    pub(super) fn silent_drives(&self) -> &[String] {
        &self.energy_without
    }

    /// Whether the meter told what it should.
    pub(super) fn check(&self) -> Result<(), Failure> {
        self.trouble.as_ref().map_or(Ok(()), |trouble| Err(wrong("--meter", trouble)))
    }
}

/// How often the processor was wanted: for operations of clients and what servers did for them.
fn computed(outcome: &Outcome) -> u64 {
    outcome.operations.iter().map(|operation| operation.latency_ns.count).sum()
}

/// What is to be said of a processor that worked for `busy` of so many seconds, which the host's cannot.
fn too_busy(host: &Host, seconds: f64, busy: Nanos) -> Option<String> {
    // Clocks of threads and of the machine differ a little.
    let is_so = busy.as_seconds_f64() > host.busy_seconds_max(seconds) * 1.01;
    is_so.then(|| {
        format!(
            "{:.2} cores were at work, {} has {}; counted as all of these at work",
            busy.as_seconds_f64() / seconds,
            host.name,
            host.power.core_count
        )
    })
}

fn wrong(option: &str, error: &dyn std::fmt::Display) -> Failure {
    Failure::input(format!("{option}: {error}"))
}
