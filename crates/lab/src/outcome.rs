//! What an experiment found: series, figures, tables and verdicts, in a form that needs nothing else
//! to be drawn.
//!
//! 1. Nothing in an [`Outcome`] depends on the machine, the date or the duration of the run, so two
//!    simulated runs with the same seed serialise to the same bytes.
//! 2. The points of a series are sorted by x.

use crate::experiment::Published;
use crate::shape::Class;
use nandu_base::units::figures;
use nandu_base::words::counted;
use nandu_device::{EnergyReport, EnergySource};
use nandu_drives::merit::{Merit, MeritWeights};
use nandu_drives::worth::{Used, Worth};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A measured or computed series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Series {
    /// Dotted, the device or curve first: `device-a.random_read.iops`.
    pub name: String,
    /// Unit of x, such as `B`; empty for a pure number.
    pub x_unit: String,
    /// Unit of y, such as `MB/s`.
    pub y_unit: String,
    /// Pairs of x and y, by x.
    pub points: Vec<(f64, f64)>,
}

impl Series {
    /// A series without points.
    #[must_use]
    pub fn new(name: impl Into<String>, x_unit: &str, y_unit: &str) -> Self {
        let (x_unit, y_unit) = (x_unit.into(), y_unit.into());
        Self { name: name.into(), x_unit, y_unit, points: Vec::new() }
    }

    /// The value at `x`, if there is a point within a millionth of it.
    #[must_use]
    pub fn at(&self, x: f64) -> Option<f64> {
        let near = |point: &&(f64, f64)| (point.0 - x).abs() <= 1e-6 * x.abs().max(1e-3);
        self.points.iter().find(near).map(|point| point.1)
    }
}

/// What one step measured, as stored in `steps/NNN.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepResult {
    /// The step's label, as it is shown while it runs.
    pub label: String,
    /// Hash of the configuration that it was measured under.
    pub config_hash: String,
    /// What it measured.
    pub series: Vec<Series>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// What the drives used that the step opened, where all of them tell, by the power figures of then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub energy: Option<EnergyReport>,
    /// The same by the names of the drives; `None` where one of that name tells nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub drive_energy: BTreeMap<String, Option<EnergyReport>>,
    /// Hash of those figures, which decide nothing else.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub energy_hash: String,
    /// What its simulated drives did, by their names; those that the experiment changed are left out.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub uses: BTreeMap<String, Used>,
}

/// What the drives of a step used, or what a meter told of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StepEnergy {
    /// The step's label.
    pub step: String,
    /// From when each drive was made, preparations included.
    #[serde(flatten)]
    pub energy: EnergyReport,
}

/// What a drive used, in all steps that opened it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveEnergy {
    /// Its address, or its name in the experiment where that changes it.
    pub drive: String,
    /// How many steps these are.
    pub step_count: u64,
    /// From when each drive was made, preparations included; watts over time where it is one step.
    #[serde(flatten)]
    pub energy: EnergyReport,
}

/// What a simulated drive did for its money, in all steps that used it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DriveWorth {
    /// Its name, or the address of an array.
    pub drive: String,
    /// By its requests, those of preparations included.
    #[serde(flatten)]
    pub worth: Worth,
    /// S003's figure of merit, with its weights; `None` if what counts in it is not known.
    #[serde(default)]
    pub merit: Option<Merit>,
}

impl DriveWorth {
    /// Of a drive that drew `watts` in the mean, if somebody knows.
    #[must_use]
    pub fn new(drive: String, worth: Worth, watts: Option<f64>) -> Self {
        let merit = worth.merit(MeritWeights::default(), watts);
        Self { drive, worth, merit }
    }

    /// In words; `None` where there is nothing to say.
    fn line(&self) -> Option<String> {
        let worth = self.worth.line()?;
        let merit = self.merit.as_ref().map_or(String::new(), |merit| {
            let known = if merit.parts.watts.is_none() { " without its power" } else { "" };
            format!("; merit {}, {}{known}", figures(merit.figure), merit.weights)
        });
        Some(format!("{}: {worth}{merit}", self.drive))
    }
}

/// Whether a shape holds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Verdict {
    /// What the shape is worth.
    #[serde(default)]
    pub class: Class,
    /// Whether it holds; of a difference, whether it is the one that is written down.
    pub holds: bool,
    /// What was claimed and found, with numbers; begins with `claim`.
    pub text: String,
    /// What was claimed, without what was found.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub claim: String,
    /// Where it was published; empty for what was not, or stands with the published points.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub source: String,
    /// Why it differs.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// What was varied, and how far it moved.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub varied: String,
    /// Whether it is missed and the paper leads with it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub headline: bool,
    /// The number that decided, unless nothing was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided: Option<Decided>,
}

impl Verdict {
    /// `holds` or `FAILS`, or `unmet` where ours differs from what was published as it is written down: five
    /// letters each.
    #[must_use]
    pub const fn mark(&self) -> &'static str {
        match (self.holds, self.class) {
            (true, Class::Differs) => "unmet",
            (true, _) => "holds",
            (false, _) => "FAILS",
        }
    }
}

/// The number furthest out, and its limits.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decided {
    /// Where on the x axis of the series; of a crossover that is nowhere, `null` in JSON.
    #[serde(with = "finite")]
    pub x: f64,
    /// Unit of x, such as `B`; empty for a pure number.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub x_unit: String,
    /// The number: the least of the seeds for an order, else their median. JSON has no infinity: `null`.
    #[serde(with = "finite")]
    pub value: f64,
    /// Smallest that holds, if any does.
    pub low: Option<f64>,
    /// Largest that holds, if any does.
    pub high: Option<f64>,
    /// The number at each seed.
    #[serde(with = "finite_list")]
    pub by_seed: Vec<f64>,
}

/// An infinite number as `null`.
mod finite {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Some(*value).filter(|value| value.is_finite()).serialize(serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
        Option::deserialize(from).map(|value| value.unwrap_or(f64::INFINITY))
    }
}

/// Infinite numbers as `null`.
mod finite_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(super) fn serialize<S: Serializer>(values: &[f64], to: S) -> Result<S::Ok, S::Error> {
        let values = values.iter().map(|value| Some(*value).filter(|value| value.is_finite()));
        values.collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<f64>, D::Error> {
        let values = Vec::<Option<f64>>::deserialize(from)?;
        Ok(values.into_iter().map(|value| value.unwrap_or(f64::INFINITY)).collect())
    }
}

/// An axis of a figure.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Axis {
    /// What it shows.
    pub label: String,
    /// In which unit; empty for a pure number.
    #[serde(default)]
    pub unit: String,
    /// Whether it is logarithmic.
    #[serde(default)]
    pub log: bool,
}

impl Axis {
    /// The label with its unit, as an axis shows it: `request size (B)`.
    #[must_use]
    pub fn title(&self) -> String {
        if self.unit.is_empty() {
            self.label.clone()
        } else {
            format!("{} ({})", self.label, self.unit)
        }
    }
}

/// One curve of a figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Trace {
    /// Name of the series.
    pub series: String,
    /// What the legend calls it.
    pub label: String,
    /// Decides the colour: the device, or the curve itself.
    pub group: String,
    /// Decides line and marker: what is left of the name.
    pub variant: String,
    /// Whether the points are published, not ours.
    pub published: bool,
    /// Pairs of x and y.
    pub points: Vec<(f64, f64)>,
}

/// A figure with lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// What stands above the figure.
    pub title: String,
    /// What stands below the figure; empty for nothing.
    pub caption: String,
    /// The horizontal axis: its name and its scale.
    pub x: Axis,
    /// The vertical axis: its name and its scale.
    pub y: Axis,
    /// The curves, in the order of the legend.
    pub traces: Vec<Trace>,
}

/// One value of a grid.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Cell {
    /// What we found.
    pub ours: Option<f64>,
    /// What the paper prints.
    pub published: Option<f64>,
}

/// Values by row and column: a table, or a group of bars for each row.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Grid {
    /// What stands above the table or the bars.
    pub title: String,
    /// What stands below the table or the bars; empty for nothing.
    pub caption: String,
    /// Drawn as bars rather than printed as a table.
    pub bars: bool,
    /// Of the values; for tables it may stand in the column labels instead.
    pub value: Axis,
    /// Labels of the columns.
    pub columns: Vec<String>,
    /// What decides each column's colour.
    pub column_groups: Vec<String>,
    /// Labels of the rows.
    pub rows: Vec<String>,
    /// By row, then column.
    pub cells: Vec<Vec<Cell>>,
}

/// Everything that an experiment found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The experiment's name.
    pub experiment: String,
    /// The experiment's title, one line.
    pub title: String,
    /// The question it answers.
    pub question: String,
    /// How it was measured and what differs from the paper.
    pub method: String,
    /// Where the published values stand.
    pub reference: String,
    /// Of everything random in the series.
    pub seed: u64,
    /// The seeds that the verdicts go by.
    #[serde(default)]
    pub seeds: Vec<u64>,
    /// Hash of the experiment, the profiles, the seed and the scale.
    pub config_hash: String,
    /// Whether the shapes hold.
    pub verdicts: Vec<Verdict>,
    /// Figures with lines.
    pub figures: Vec<Figure>,
    /// Tables and bars.
    pub grids: Vec<Grid>,
    /// All series, by name.
    pub series: Vec<Series>,
    /// Values that papers print, beside which `series` stand.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub published: Vec<Published>,
    /// What a reader should know.
    pub notes: Vec<String>,
    /// What simulated drives used, by step, where they tell; of `nandu bench`, what a meter told, too.
    #[serde(default)]
    pub energy: Vec<StepEnergy>,
    /// The same by drive, over all steps.
    #[serde(default)]
    pub drive_energy: Vec<DriveEnergy>,
    /// Drives that tell no joules, so that steps with them tell none.
    #[serde(default)]
    pub silent_drives: Vec<String>,
    /// What simulated drives did for their money, and how long they would last.
    #[serde(default)]
    pub worth: Vec<DriveWorth>,
}

/// Watts over time, in words; empty where nobody looked in between.
fn range(energy: &EnergyReport) -> String {
    let Some(course) = energy.watts_over_time.as_ref().filter(|it| it.watts.len() > 1) else {
        return String::new();
    };
    let least = course.watts.iter().copied().fold(f64::INFINITY, f64::min);
    let most = course.watts.iter().copied().fold(0.0, f64::max);
    let interval = figures(course.interval_seconds);
    format!("; {} to {} W in intervals of {interval} s", figures(least), figures(most))
}

/// What each drive used in all steps, and the drives that told nothing.
pub(crate) fn energy_by_drive(results: &[StepResult]) -> (Vec<DriveEnergy>, Vec<String>) {
    let mut by_drive: BTreeMap<&str, Vec<Option<&EnergyReport>>> = BTreeMap::new();
    for (drive, energy) in results.iter().flat_map(|result| &result.drive_energy) {
        by_drive.entry(drive).or_default().push(energy.as_ref());
    }
    let (mut told, mut silent) = (Vec::new(), Vec::new());
    for (drive, reports) in by_drive {
        let known: Vec<&EnergyReport> = reports.iter().copied().flatten().collect();
        if known.len() < reports.len() {
            silent.push(drive.to_owned());
        }
        let energy = match known[..] {
            [one] => Some(one.clone()),
            _ => EnergyReport::sum(&known),
        };
        let step_count = known.len() as u64;
        told.extend(energy.map(|energy| DriveEnergy {
            drive: drive.to_owned(),
            step_count,
            energy,
        }));
    }
    (told, silent)
}

impl Outcome {
    /// Joules in words: by drive, or of all steps that tell where drives are not told apart; of a meter over all
    /// steps; and who tells none.
    #[must_use]
    pub fn energy_lines(&self) -> Vec<String> {
        let of_source = |source: EnergySource| {
            let told: Vec<&EnergyReport> = self
                .energy
                .iter()
                .map(|step| &step.energy)
                .filter(|it| it.source == source)
                .collect();
            let course =
                told.first().filter(|_| told.len() == 1).map_or_else(String::new, |it| range(it));
            let sum = EnergyReport::sum(&told)?;
            let steps = counted(told.len() as u64, "step");
            Some(format!("energy in {steps}, {}{course}", sum.line()))
        };
        let mut lines: Vec<String> = Vec::new();
        for DriveEnergy { drive, step_count, energy } in &self.drive_energy {
            let steps = counted(*step_count, "step");
            lines.push(format!("energy of {drive} in {steps}, {}{}", energy.line(), range(energy)));
        }
        if lines.is_empty() {
            lines.extend(of_source(EnergySource::Model));
        }
        lines.extend(of_source(EnergySource::Meter));
        if !self.silent_drives.is_empty() {
            lines.push(format!("no energy of {}: no power figures", self.silent_drives.join(", ")));
        }
        lines
    }

    /// What drives did for their money and how long they would last, in words: a line for each of which somebody
    /// knows.
    #[must_use]
    pub fn worth_lines(&self) -> Vec<String> {
        self.worth.iter().filter_map(DriveWorth::line).collect()
    }

    /// Whether every shape holds.
    #[must_use]
    pub fn holds(&self) -> bool {
        self.verdicts.iter().all(|verdict| verdict.holds)
    }

    /// The verdicts by class, predictions and differences first.
    pub fn verdicts_by_class(&self) -> impl Iterator<Item = &Verdict> {
        let of_class =
            |class: Class| self.verdicts.iter().filter(move |verdict| verdict.class == class);
        Class::ALL.into_iter().flat_map(of_class)
    }

    /// How many shapes of `class` there are, and how many of them hold.
    #[must_use]
    pub fn count(&self, class: Class) -> [usize; 2] {
        let of_class = || self.verdicts.iter().filter(|verdict| verdict.class == class);
        [of_class().count(), of_class().filter(|verdict| verdict.holds).count()]
    }

    /// `5 of 6 predictions, 2 differences`: those that hold, of all where some do not.
    #[must_use]
    pub fn counts(&self) -> String {
        let part = |class: Class| match self.count(class) {
            [0, _] => None,
            [all, holding] => {
                let of_all =
                    if holding < all { format!("{holding} of {all}") } else { all.to_string() };
                Some(format!("{of_all} {}", class.words()[usize::from(all > 1)]))
            }
        };
        Class::ALL.into_iter().filter_map(part).collect::<Vec<_>>().join(", ")
    }

    /// The series called `name`.
    #[must_use]
    pub fn series(&self, name: &str) -> Option<&Series> {
        self.series.iter().find(|series| series.name == name)
    }
}
