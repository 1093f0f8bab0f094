//! Which shapes notice when a parameter of a drive or of the workload is doubled or halved.
//!
//! ```text
//!   profile NAME, numbers of its section ─┐            x 2      a run with the changed file
//!   its chip, where the preset speaks ────┼─► Trial ─► x 1/2 ─► verdicts ─┐
//!   experiment, prices and times ─────────┘                               ├─► Row: who moved, who fell
//!                                  the run without a change ─► verdicts ──┘
//! ```
//!
//! A prediction that nothing moves predicts nothing. What is changed is a file, so a trial is a run like
//! any other, of the same program, in a directory of its own.
//!
//! 1. A trial changes one number of one file.
//! 2. A shape moves if its deciding number does by [`MOVED`] or more; it falls if its verdict changes.

use crate::catalog::text_of;
use crate::error::LabError;
use crate::experiment::Experiment;
use crate::kind::ExperimentKind;
use crate::outcome::Verdict;
use crate::run::write_json;
use crate::shape::{Class, Shape};
use nandu_drives::profile::{DriveConfig, Profile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Least relative change of a deciding number that counts.
pub const MOVED: f64 = 0.02;

/// One number changed.
#[derive(Clone, Debug, PartialEq)]
pub struct Trial {
    /// `device-a ssd.read_command_ns`, or `measure.cpu.row_ns` of the experiment itself.
    pub parameter: String,
    /// By how much it is multiplied.
    pub factor: f64,
    /// Folder and name of the file that is changed: `profiles/device-a.toml`.
    pub file: String,
    /// Its text with the change, or why there is none.
    pub text: Result<String, String>,
}

/// What an experiment's shapes notice, as kept in `NAME.json`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sensitivity {
    /// Which experiment.
    pub experiment: String,
    /// The commit of the program that ran it.
    pub commit: String,
    /// Of everything random.
    pub seed: u64,
    /// Each shape's class and claim.
    pub shapes: Vec<ShapeKey>,
    /// Each trial.
    pub rows: Vec<Row>,
}

/// A shape, so that a kept result can be told from one of another claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeKey {
    /// Its class.
    pub class: Class,
    /// Its claim as JSON.
    pub claim: String,
}

impl ShapeKey {
    /// Of `shape`.
    #[must_use]
    pub fn of(shape: &Shape) -> Self {
        let claim = serde_json::to_string(&shape.claim);
        Self {
            class: shape.standing.class,
            claim: claim.expect("names and numbers can always be written"),
        }
    }
}

/// A trial and who noticed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// As of [`Trial`].
    pub parameter: String,
    /// As of [`Trial`].
    pub factor: f64,
    /// Why it could not be run: a value that the drive refuses.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<String>,
    /// The shapes that moved, by their place in the experiment.
    pub noticed: Vec<Noticed>,
}

/// A shape that noticed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Noticed {
    /// Its place among the shapes, from 0.
    pub shape: usize,
    /// The deciding number, over what it is without the change; none where one of them is not to be had.
    pub over: Option<f64>,
    /// Whether the verdict changed.
    pub falls: bool,
}

/// All trials of `experiment`.
///
/// # Errors
/// If one of its profiles cannot be read.
pub fn trials(experiment: &Experiment) -> Result<Vec<Trial>, LabError> {
    let mut trials = Vec::new();
    let targets: BTreeSet<String> =
        experiment.measure.as_measurement().targets().into_iter().collect();
    for target in &targets {
        // Members of an array are profiles of their own.
        let Some(name) = target.rsplit("sim:").next().filter(|_| target.contains("sim:")) else {
            continue;
        };
        let name = name.split(['*', '+']).next().unwrap_or(name);
        let profile = Profile::load(name).map_err(|error| LabError::step(target, &error))?;
        of_profile(&profile, &mut trials);
    }
    of_experiment(experiment, &mut trials)?;
    Ok(trials)
}

const FACTORS: [f64; 2] = [2.0, 0.5];

/// Tables of measurements that say what is under test and what is asked of it.
const WORKLOAD: [&str; 12] = [
    "set",
    "cpu",
    "chip",
    "timing",
    "members",
    "cases",
    "read_delay",
    "workload",
    "workloads",
    "page_cache",
    "ftl",
    "scale_factor",
];

fn of_profile(profile: &Profile, trials: &mut Vec<Trial>) {
    let table: toml::Table = profile.text.parse().expect("a loaded profile is TOML");
    let label = profile.kind().label();
    let mut paths = Vec::new();
    numbers(&table[label], &[label.to_owned()], &mut paths);
    let file = format!("profiles/{}.toml", profile.name);
    for path in paths {
        for factor in FACTORS {
            let text = scaled(&table, &path, factor).and_then(|text| {
                Profile::parse(&profile.name, &file, &text).map_err(|error| error.to_string())?;
                Ok(text)
            });
            let parameter = format!("{} {}", profile.name, path.join("."));
            trials.push(Trial { parameter, factor, file: file.clone(), text });
        }
    }
    let DriveConfig::Ssd(config) = &profile.drive else { return };
    let Ok(chip) = config.nand_config(profile.geometry, false) else { return };
    let overrides = table[label].get("chip_overrides").and_then(toml::Value::as_table);
    for (name, value) in [
        ("read_ns", chip.timing.read_ns.0),
        ("program_ns", chip.timing.program_ns.0),
        ("erase_ns", chip.timing.erase_ns.0),
        ("bus_bytes_per_second", chip.timing.bus_bytes_per_second),
    ] {
        if value == 0 || overrides.is_some_and(|overrides| overrides.contains_key(name)) {
            continue;
        }
        for factor in FACTORS {
            let changed = toml::Value::Integer(times(value, factor));
            let text = Ok(with(&table, &[label, "chip_overrides", name], changed));
            let parameter = format!("{} chip {name}", profile.name);
            trials.push(Trial { parameter, factor, file: file.clone(), text });
        }
    }
}

#[allow(clippy::cast_possible_wrap, reason = "figures of chips are far below 2^62")]
fn times(value: u64, factor: f64) -> i64 {
    if factor > 1.0 { (value * 2) as i64 } else { (value / 2) as i64 }
}

fn of_experiment(experiment: &Experiment, trials: &mut Vec<Trial>) -> Result<(), LabError> {
    let (file, text) = text_of(&experiment.name)?;
    let table: toml::Table = text.parse().expect("a loaded experiment is TOML");
    let mut paths = Vec::new();
    numbers(&table["measure"], &["measure".to_owned()], &mut paths);
    // What belongs to drive and load, and what the processor or a request costs; not how much is measured.
    let is_price = |path: &&Vec<String>| {
        path.iter().any(|key| {
            WORKLOAD.contains(&key.as_str())
                || ["_ns", "_us", "_per_second"].iter().any(|unit| key.ends_with(unit))
        })
    };
    let mut add = |parameter: String, factor: f64, text: Result<String, String>| {
        let text = text.and_then(|text| {
            let parsed = Experiment::parse(&experiment.name, &file, &text);
            parsed.map_err(|error| error.to_string())?;
            Ok(text)
        });
        let file = format!("experiments/{}.toml", experiment.name);
        trials.push(Trial { parameter, factor, file, text });
    };
    for path in paths.iter().filter(is_price) {
        FACTORS
            .iter()
            .for_each(|&factor| add(path.join("."), factor, scaled(&table, path, factor)));
    }
    if let ExperimentKind::Simulation(simulation) = &experiment.measure {
        for (key, value) in simulation.chip_figures() {
            for factor in FACTORS {
                let text =
                    with(&table, &["measure", key], toml::Value::Integer(times(value, factor)));
                add(format!("measure.chip {key}"), factor, Ok(text));
            }
        }
        for (name, variant) in &simulation.variants {
            for factor in FACTORS {
                let spare = toml::Value::Float(factor * variant.spare_factor.unwrap_or(1.0));
                let text = with(&table, &["measure", "variants", name, "spare_factor"], spare);
                add(format!("measure.variants.{name}.spare_factor"), factor, Ok(text));
            }
        }
    }
    Ok(())
}

/// The text of `table` with `value` at `path`; tables on the way are made where they are missing.
fn with(table: &toml::Table, path: &[&str], value: toml::Value) -> String {
    let mut changed = table.clone();
    let (key, tables) = path.split_last().expect("a path has a key");
    let mut place = &mut changed;
    for name in tables {
        let below = place.entry(*name).or_insert_with(|| toml::Value::Table(toml::Table::new()));
        place = below.as_table_mut().expect("only tables have keys below them");
    }
    place.insert((*key).to_owned(), value);
    toml::to_string(&changed).expect("what was TOML still is")
}

/// The paths of all numbers but zeros below `value`, those in lists as well.
fn numbers(value: &toml::Value, path: &[String], found: &mut Vec<Vec<String>>) {
    let below = |key: String, value: &toml::Value, found: &mut Vec<Vec<String>>| {
        let mut path = path.to_vec();
        path.push(key);
        numbers(value, &path, found);
    };
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(key, value)| below(key.clone(), value, found));
        }
        toml::Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| below(at.to_string(), value, found));
        }
        toml::Value::Integer(0) => {}
        toml::Value::Float(number) if *number == 0.0 => {}
        toml::Value::Integer(_) | toml::Value::Float(_) => found.push(path.to_vec()),
        _ => {}
    }
}

/// The text of `table` with the number at `path` multiplied.
fn scaled(table: &toml::Table, path: &[String], factor: f64) -> Result<String, String> {
    let mut changed = toml::Value::Table(table.clone());
    let mut place = &mut changed;
    for key in path {
        place = match place {
            toml::Value::Table(table) => table.get_mut(key).expect("the path was found there"),
            toml::Value::Array(list) => {
                &mut list[key.parse::<usize>().expect("places of lists are numbers")]
            }
            _ => unreachable!("the path was found there"),
        };
    }
    *place = match place {
        toml::Value::Integer(1) if factor < 1.0 => return Err("1 has no half".into()),
        toml::Value::Integer(number) if factor > 1.0 => toml::Value::Integer(*number * 2),
        toml::Value::Integer(number) => toml::Value::Integer(*number / 2),
        toml::Value::Float(number) => toml::Value::Float(*number * factor),
        _ => unreachable!("paths lead to numbers"),
    };
    toml::to_string(&changed).map_err(|error| error.to_string())
}

/// Who noticed: the verdicts of a trial beside those without a change.
#[must_use]
pub fn noticed(before: &[Verdict], after: &[Verdict]) -> Vec<Noticed> {
    let both = before.iter().zip(after).enumerate();
    let noticed = both.map(|(shape, (before, after))| {
        let value = |verdict: &Verdict| {
            verdict.decided.as_ref().map(|decided| decided.value).filter(|value| value.is_finite())
        };
        let over = match (value(before), value(after)) {
            (Some(before), Some(after)) if before == after => Some(1.0),
            (Some(before), Some(after)) if before != 0.0 => Some(after / before),
            _ => None,
        };
        Noticed { shape, over, falls: before.holds != after.holds }
    });
    let has_moved = |one: &Noticed| {
        one.falls || one.over.is_none_or(|over| over >= 1.0 + MOVED || over <= 1.0 / (1.0 + MOVED))
    };
    noticed.filter(has_moved).collect()
}

impl Sensitivity {
    /// The trials that shape `index` noticed: parameters that move it, those first that make it fall.
    #[must_use]
    pub fn of_shape(&self, index: usize) -> Vec<(&Row, &Noticed)> {
        let of_row = |row: &'_ Row| row.noticed.iter().position(|one| one.shape == index);
        let mut found: Vec<(&Row, &Noticed)> =
            self.rows.iter().filter_map(|row| Some((row, &row.noticed[of_row(row)?]))).collect();
        let size = |one: &Noticed| one.over.map_or(f64::INFINITY, |over| over.ln().abs());
        found.sort_by(|(_, a), (_, b)| {
            b.falls.cmp(&a.falls).then_with(|| size(b).total_cmp(&size(a)))
        });
        found
    }

    /// Writes it to `NAME.json` below `folder`.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn store(&self, folder: &Path) -> Result<(), LabError> {
        let path = folder.join(format!("{}.json", self.experiment));
        if let Some(parent) = path.parent() {
            fs::create_dir_all(parent).map_err(|error| LabError::file("create", parent, &error))?;
        }
        write_json(&path, self)
    }

    /// What is kept of `experiment` below `folder`; `None` if nothing is.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn load(folder: &Path, experiment: &str) -> Result<Option<Self>, LabError> {
        let path = folder.join(format!("{experiment}.json"));
        if !path.exists() {
            return Ok(None);
        }
        let text =
            fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, &error))?;
        serde_json::from_str(&text)
            .map(Some)
            .map_err(|error| LabError::file("understand", &path, &error))
    }
}

/// The predictions of `experiment` that have no row in `kept`, or that nothing moves, in words.
#[must_use]
pub fn unnoticed(experiment: &Experiment, kept: Option<&Sensitivity>) -> Vec<String> {
    let predictions =
        experiment.shape.iter().filter(|shape| shape.standing.class == Class::Prediction);
    let why = |shape: &Shape| {
        let key = ShapeKey::of(shape);
        let place = kept.and_then(|kept| {
            kept.shapes.iter().position(|known| known.claim == key.claim).map(|index| (kept, index))
        });
        match place {
            None => Some("has no row in the kept table of `verify --perturb`"),
            Some((kept, index)) if kept.of_shape(index).is_empty() => {
                Some("is a prediction that no parameter moves")
            }
            Some(_) => None,
        }
    };
    predictions
        .filter_map(|shape| {
            Some(format!("{}: {} {}", experiment.name, shape.claim.words(), why(shape)?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::outcome::Decided;

    fn verdict(holds: bool, value: f64) -> Verdict {
        let decided = Decided { x: 0.0, value, low: None, high: None, by_seed: vec![value] };
        Verdict { holds, decided: Some(decided), ..Verdict::default() }
    }

    #[test]
    fn each_trial_changes_one_number_of_one_file() {
        let experiment = catalog::load("s000/table-3-1").unwrap();
        let trials = trials(&experiment).unwrap();
        let of = |parameter: &str| {
            let found: Vec<&Trial> =
                trials.iter().filter(|trial| trial.parameter == parameter).collect();
            assert_eq!(found.iter().map(|trial| trial.factor).collect::<Vec<_>>(), FACTORS);
            found[0].text.clone().unwrap()
        };
        let before = Profile::load("device-a").unwrap();
        let DriveConfig::Ssd(before) = before.drive else { panic!("flash stays flash") };
        let changed = |text: &str| match Profile::parse("device-a", "x", text).unwrap().drive {
            DriveConfig::Ssd(config) => config,
            _ => panic!("flash stays flash"),
        };
        let after = changed(&of("device-a ssd.read_command_ns"));
        assert_eq!(after.read_command_ns.0, 2 * before.read_command_ns.0);
        assert_eq!(after.write_command_ns, before.write_command_ns);
        let after = changed(&of("device-a chip program_ns"));
        assert!(after.chip_overrides.program_ns > before.chip_overrides.program_ns);
        assert!(trials.iter().any(|trial| trial.parameter.starts_with("wd2000jb hdd.")));
    }

    #[test]
    fn who_moves_by_little_has_not_noticed() {
        let before = [verdict(true, 1.0), verdict(true, 1.0), verdict(true, 0.0)];
        let after = [verdict(true, 1.01), verdict(false, 1.0), verdict(true, 0.0)];
        let found = noticed(&before, &after);
        assert_eq!(found.len(), 1);
        assert!((found[0].shape, found[0].falls) == (1, true));
        assert_eq!(noticed(&before[..1], &[verdict(true, 0.9)])[0].over, Some(0.9));
    }

    #[test]
    fn a_prediction_without_a_row_or_that_nothing_moves_is_told() {
        let experiment = catalog::load("s000/figure-8-1").unwrap();
        let is_prediction = |shape: &&Shape| shape.standing.class == Class::Prediction;
        let count = experiment.shape.iter().filter(is_prediction).count();
        assert!(count > 0);
        assert_eq!(unnoticed(&experiment, None).len(), count);
        let mut kept = Sensitivity {
            experiment: experiment.name.clone(),
            commit: String::new(),
            seed: 1,
            shapes: experiment.shape.iter().map(ShapeKey::of).collect(),
            rows: Vec::new(),
        };
        let still = unnoticed(&experiment, Some(&kept));
        assert!(still.len() == count && still[0].contains("no parameter moves"), "{still:?}");
        let all = 0..experiment.shape.len();
        let noticed = all.map(|shape| Noticed { shape, over: Some(2.0), falls: false }).collect();
        let parameter = "x".into();
        kept.rows.push(Row { parameter, factor: 2.0, refused: None, noticed });
        assert_eq!(unnoticed(&experiment, Some(&kept)), [""; 0]);
    }

    /// TODO(#21): experiments whose table is not kept yet, since it takes long.
    const PENDING: [&str; 15] = [
        "s000/chapter-7-log",
        "s000/figure-3-1",
        "s000/figure-4-1",
        "s000/figure-4-2",
        "s000/figure-5-1",
        "s000/figure-5-1-kernel",
        "s000/figure-6-1",
        "s001/error-bars",
        "s001/figure-1",
        "s001/figure-2",
        "s001/figure-3",
        "s001/late-joins",
        "s002/table-3-1",
        "s003/write-intervals",
        "ssd-iq/zipf",
    ];

    #[test]
    fn every_prediction_that_ships_is_moved_by_some_parameter() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../results/perturb");
        let mut wrong = Vec::new();
        for entry in catalog::list() {
            let experiment = catalog::load(&entry.name).unwrap();
            let kept = Sensitivity::load(&folder, &experiment.name).unwrap();
            if kept.is_none() && PENDING.contains(&entry.name.as_str()) {
                continue;
            }
            wrong.extend(unnoticed(&experiment, kept.as_ref()));
        }
        assert_eq!(wrong, [""; 0]);
    }
}
