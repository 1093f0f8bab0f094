//! Which shapes notice when a parameter of a drive or of the workload is doubled or halved.
//!
//! ```text
//!   profile NAME, numbers of its section ─┐            x 2      a run with the changed file
//!   its chip, where the preset speaks ────┼─► Trial ─► x 1/2 ─► verdicts ─┐
//!   experiment, prices and times ─────────┘                               ├─► Row: who moved, who fell
//!                                  the run without a change ─► verdicts ──┘
//! ```
//!
//! A prediction that nothing turns predicts nothing. What is changed is a file, so a trial is a run like
//! any other, of the same program, in a directory of its own.
//!
//! 1. A trial changes one number of one file; a number may stand in a string, as in `"775us"` and `"zipf:1.06"`.
//! 2. A shape moves if its deciding number does by [`MOVED`] or more; it falls if its verdict changes.
//! 3. What is not to be had, before and after, has not moved.

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::kind::ExperimentKind;
use crate::outcome::Verdict;
use crate::profile_text::deciding_text;
use crate::run::{config_hash, profiles_behind, write_json};
use crate::shape::{Class, Shape};
use nandu_drives::profile::{DriveConfig, Profile};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs;
use std::ops::Range;
use std::path::Path;

/// Least relative change of a deciding number that counts.
pub const MOVED: f64 = 0.02;

/// One parameter with another value, in the file that holds it.
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
    /// The experiment's name, such as `s000/table-3-1`.
    pub experiment: String,
    /// The commit of the program that ran it.
    pub commit: String,
    /// Of everything random.
    pub seed: u64,
    /// Of the run without a change, as of an outcome: experiment, profiles and seed; empty in results that are
    /// older.
    #[serde(default)]
    pub config_hash: String,
    /// Each shape's class and claim.
    pub shapes: Vec<ShapeKey>,
    /// Each shape's deciding number in the run without a change, none where it is not to be had; empty in results
    /// that are older.
    #[serde(default)]
    pub unchanged: Vec<Option<f64>>,
    /// What each trial, a changed parameter, did to the shapes.
    pub rows: Vec<Row>,
}

/// A shape, so that a kept result can be told from one of another claim.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShapeKey {
    /// Whether the shape foretells what a paper prints, was fitted to it, or is something else.
    pub class: Class,
    /// Its claim as JSON.
    pub claim: String,
}

impl ShapeKey {
    /// What tells `shape` from the other shapes of its experiment.
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
    let mut seen = BTreeSet::new();
    for target in &targets {
        for profile in profiles_behind(target)? {
            // An array that is given by its address (`array:…`) has no profile file whose figures
            // could be varied; its members have.
            if !profile.name.starts_with("array:") && seen.insert(profile.name.clone()) {
                of_profile(&profile, &deciding_text(experiment, &profile), &mut trials);
            }
        }
    }
    of_experiment(experiment, &mut trials);
    Ok(trials)
}

/// Of what a run without a change is a run: its configuration at `seed`.
///
/// # Errors
/// If one of the profiles cannot be read.
pub fn hash_of(experiment: &Experiment, seed: u64) -> Result<String, LabError> {
    config_hash(experiment, seed, "", &experiment.measure.as_measurement().targets())
}

const FACTORS: [f64; 2] = [2.0, 0.5];

/// Single numbers of measurements that say the same; lists of that name are a sweep.
const WORKLOAD_NUMBERS: [&str; 11] = [
    "fill_percent",
    "over",
    "page_over",
    "pool_bytes_per_row",
    "pool_bytes_per_record",
    "write_cache_ppm",
    "spare_percent",
    "misallocated_percent",
    "file_system_block_bytes",
    "pool",
    "randomness",
];

/// Tables of measurements that say what is under test and what is asked of it.
const WORKLOAD: [&str; 13] = [
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
    "disk_file",
    "ftl",
    "scale_factor",
];

fn of_profile(profile: &Profile, text: &str, trials: &mut Vec<Trial>) {
    let table: toml::Table = text.parse().expect("a loaded profile is TOML");
    let label = profile.kind().label();
    let mut found = Vec::new();
    numbers(&table[label], &[label.to_owned()], &mut found);
    let file = format!("profiles/{}.toml", profile.name);
    for number in found {
        for factor in FACTORS {
            let text = number.scaled(&table, factor).and_then(|text| {
                Profile::parse(&profile.name, &file, &text).map_err(|error| error.to_string())?;
                Ok(text)
            });
            let parameter = format!("{} {}", profile.name, number.name());
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

fn of_experiment(experiment: &Experiment, trials: &mut Vec<Trial>) {
    let table: toml::Table = experiment.text.parse().expect("a loaded experiment is TOML");
    let mut found = Vec::new();
    numbers(&table["measure"], &["measure".to_owned()], &mut found);
    // What belongs to drive and load, and what the processor or a request costs; not how much is measured.
    let is_price = |number: &&Number| {
        let is_workload = |key: &String| {
            WORKLOAD.contains(&key.as_str())
                || ["_ns", "_us", "_per_second", "_cpu"].iter().any(|unit| key.ends_with(unit))
        };
        let is_single = number.path.last().is_some_and(|key| WORKLOAD_NUMBERS.contains(&&**key));
        is_single || number.path.iter().any(is_workload)
    };
    let file = format!("experiments/{}.toml", experiment.name);
    let mut add = |parameter: String, factor: f64, text: Result<String, String>| {
        let text = text.and_then(|text| {
            let parsed = Experiment::parse(&experiment.name, &file, &text);
            parsed.map_err(|error| error.to_string())?;
            Ok(text)
        });
        trials.push(Trial { parameter, factor, file: file.clone(), text });
    };
    for number in found.iter().filter(is_price) {
        FACTORS
            .iter()
            .for_each(|&factor| add(number.name(), factor, number.scaled(&table, factor)));
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

/// A number of a file.
struct Number {
    /// Its key and the tables that hold it; places of lists are numbers.
    path: Vec<String>,
    /// Of a string: between which bytes the number stands.
    inside: Option<Range<usize>>,
}

/// All numbers but zeros below `value`, those in lists and strings as well.
fn numbers(value: &toml::Value, path: &[String], found: &mut Vec<Number>) {
    let below = |key: String, value: &toml::Value, found: &mut Vec<Number>| {
        let mut path = path.to_vec();
        path.push(key);
        numbers(value, &path, found);
    };
    let path = || path.to_vec();
    match value {
        toml::Value::Table(table) => {
            table.iter().for_each(|(key, value)| below(key.clone(), value, found));
        }
        toml::Value::Array(list) => {
            list.iter().enumerate().for_each(|(at, value)| below(at.to_string(), value, found));
        }
        toml::Value::Integer(0) => {}
        toml::Value::Float(number) if *number == 0.0 => {}
        toml::Value::Integer(_) | toml::Value::Float(_) => {
            found.push(Number { path: path(), inside: None });
        }
        toml::Value::String(text) => {
            let inside = numbers_in(text).into_iter().map(Some);
            found.extend(inside.map(|inside| Number { path: path(), inside }));
        }
        _ => {}
    }
}

/// Where numbers but zeros stand in a string: at its beginning, or as the value of `name:1.5` and `name=20`. One
/// that belongs to a name, as in `device-a2`, is no number.
fn numbers_in(text: &str) -> Vec<Range<usize>> {
    let mut found = Vec::new();
    let mut before = ':';
    let mut start = 0;
    for (at, character) in text.char_indices().chain([(text.len(), ' ')]) {
        let is_part = |part: char| part.is_ascii_digit() || part == '.';
        if is_part(character) {
            continue;
        }
        let number = &text[start..at];
        let is_number = number.parse::<f64>().is_ok_and(|number| number != 0.0);
        if is_number && [':', '='].contains(&before) {
            found.push(start..at);
        }
        before = character;
        start = at + character.len_utf8();
    }
    found
}

impl Number {
    fn name(&self) -> String {
        let name = self.path.join(".");
        match &self.inside {
            Some(inside) if inside.start > 0 => format!("{name} (from character {})", inside.start),
            _ => name,
        }
    }

    /// The text of `table` with the number multiplied.
    fn scaled(&self, table: &toml::Table, factor: f64) -> Result<String, String> {
        let mut changed = toml::Value::Table(table.clone());
        let mut place = &mut changed;
        for key in &self.path {
            place = match place {
                toml::Value::Table(table) => table.get_mut(key).expect("the path was found there"),
                toml::Value::Array(list) => {
                    &mut list[key.parse::<usize>().expect("places of lists are numbers")]
                }
                _ => unreachable!("the path was found there"),
            };
        }
        *place = match (&*place, &self.inside) {
            (toml::Value::Integer(number), _) => toml::Value::Integer(multiple(*number, factor)?),
            (toml::Value::Float(number), _) => toml::Value::Float(*number * factor),
            (toml::Value::String(text), Some(inside)) => {
                let number = &text[inside.clone()];
                let number = match number.parse::<i64>() {
                    Ok(whole) => multiple(whole, factor)?.to_string(),
                    Err(_) => (number.parse::<f64>().expect("it was one") * factor).to_string(),
                };
                let mut text = text.clone();
                text.replace_range(inside.clone(), &number);
                toml::Value::String(text)
            }
            _ => unreachable!("paths lead to numbers"),
        };
        toml::to_string(&changed).map_err(|error| error.to_string())
    }
}

fn multiple(number: i64, factor: f64) -> Result<i64, String> {
    match number {
        1 if factor < 1.0 => Err("1 has no half".into()),
        _ if factor > 1.0 => Ok(number.saturating_mul(2)),
        _ => Ok(number / 2),
    }
}

/// The numbers that decide `verdicts`; none where one is not to be had.
#[must_use]
pub fn deciding_numbers(verdicts: &[Verdict]) -> Vec<Option<f64>> {
    let value = |verdict: &Verdict| {
        verdict.decided.as_ref().map(|decided| decided.value).filter(|value| value.is_finite())
    };
    verdicts.iter().map(value).collect()
}

/// Who noticed: the verdicts of a trial beside those without a change.
#[must_use]
pub fn noticed(before: &[Verdict], after: &[Verdict]) -> Vec<Noticed> {
    let values = [before, after].map(deciding_numbers);
    let both = before.iter().zip(after).enumerate();
    let noticed = both.map(|(shape, (before, after))| {
        let over = match (values[0][shape], values[1][shape]) {
            (Some(before), Some(after)) if before == after => Some(1.0),
            (Some(before), Some(after)) if before != 0.0 => Some(after / before),
            (None, None) => Some(1.0),
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

/// Why `kept` is not what `verify --perturb` would make of `experiment` now, in words; nothing where it still is. It
/// looks at claims, configuration and parameters, and runs nothing: what the code itself has changed is seen by
/// [`crate::kept::compare`].
///
/// # Errors
/// If one of the profiles cannot be read.
pub fn stale(experiment: &Experiment, kept: &Sensitivity) -> Result<Option<String>, LabError> {
    let name = &experiment.name;
    if kept.experiment != *name {
        return Ok(Some(format!("{name}: the table calls itself {}", kept.experiment)));
    }
    if kept.config_hash != hash_of(experiment, kept.seed)? {
        return Ok(Some(format!("{name}: the experiment or a profile has changed since")));
    }
    if kept.shapes != experiment.shape.iter().map(ShapeKey::of).collect::<Vec<_>>() {
        return Ok(Some(format!("{name}: shapes or their classes have changed since")));
    }
    let trials = trials(experiment)?;
    let is_same = |(row, trial): (&Row, &Trial)| {
        row.parameter == trial.parameter && row.factor == trial.factor
    };
    let are_same = kept.rows.len() == trials.len() && kept.rows.iter().zip(&trials).all(is_same);
    Ok((!are_same).then(|| format!("{name}: other parameters are varied now")))
}

/// The predictions of `experiment` that have no row in `kept`, or that nothing moves or turns, in words.
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
            Some((kept, index)) if !kept.of_shape(index).iter().any(|(_, found)| found.falls) => {
                Some(
                    "is a prediction that no parameter turns: nothing of drive or load makes it fail",
                )
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

/// The fits of `experiment` that do not notice a parameter that they name, in words: such a parameter was fitted to
/// something else, or twice and half of it are as good. Named parameters that no trial of `kept` could change are told,
/// too. The number that decides a shape of several drives is one drive's, so one of all that it names has to move it.
#[must_use]
pub fn unmoved_fits(experiment: &Experiment, kept: &Sensitivity) -> Vec<String> {
    let mut wrong = Vec::new();
    for (index, shape) in experiment.shape.iter().enumerate() {
        if shape.standing.class != Class::Fit {
            continue;
        }
        let words = shape.claim.words();
        let mut tell = |parameters: &str, why: &str| {
            wrong.push(format!("{}: {words} is no fit of {parameters}: {why}", kept.experiment));
        };
        let is_of_several = ShapeKey::of(shape).claim.contains('*');
        let mut is_any_moved = false;
        for name in &shape.standing.fitted {
            let is_of_it = |row: &&Row| {
                let rest = row.parameter.strip_prefix(name.as_str());
                let is_it =
                    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', ' ']));
                is_it && row.refused.is_none()
            };
            let rows: Vec<&Row> = kept.rows.iter().filter(is_of_it).collect();
            let is_moved = |row: &&Row| row.noticed.iter().any(|one| one.shape == index);
            let is_moved = rows.iter().any(is_moved);
            is_any_moved |= is_moved;
            if rows.is_empty() {
                tell(name, "no trial changes it");
            } else if !is_moved && !is_of_several {
                tell(name, "it does not move");
            }
        }
        if is_of_several && !is_any_moved {
            tell(&shape.standing.fitted.join(", "), "none of them moves it");
        }
    }
    wrong
}

#[cfg(test)]
mod kept_tables;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::catalog;
    use crate::outcome::Decided;

    fn verdict(holds: bool, value: f64) -> Verdict {
        let decided = Decided {
            x: 0.0,
            x_unit: String::new(),
            value,
            low: None,
            high: None,
            by_seed: vec![value],
        };
        Verdict { holds, decided: Some(decided), ..Verdict::default() }
    }

    fn table(experiment: &Experiment, rows: Vec<Row>) -> Sensitivity {
        Sensitivity {
            experiment: experiment.name.clone(),
            commit: String::new(),
            seed: 1,
            config_hash: String::new(),
            shapes: experiment.shape.iter().map(ShapeKey::of).collect(),
            unchanged: Vec::new(),
            rows,
        }
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
    fn numbers_in_strings_are_changed_but_not_names() {
        let found = |text: &str| -> Vec<String> {
            numbers_in(text).into_iter().map(|range| text[range].to_owned()).collect()
        };
        assert_eq!(found("775us"), ["775"]);
        assert_eq!(found("zipf:1.06,clustered=yes"), ["1.06"]);
        assert_eq!(found("uniform:read=80,rate=20000,arrivals=poisson"), ["80", "20000"]);
        assert_eq!(found("sim:device-a2*4"), [""; 0]);
        assert_eq!(found("zipf:{x}"), [""; 0]);
        assert_eq!(found("0us"), [""; 0]);
        let table: toml::Table = "[a]\nb = ['x', '1.5ms']".parse().unwrap();
        let mut numbers_found = Vec::new();
        numbers(&table["a"], &["a".to_owned()], &mut numbers_found);
        let [number] = &numbers_found[..] else { panic!("one number") };
        assert_eq!(number.name(), "a.b.1");
        assert!(number.scaled(&table, 0.5).unwrap().contains("0.75ms"));
    }

    #[test]
    fn members_of_an_array_are_changed_like_any_drive() {
        let small = "title = 't'\nquestion = 'q'\nmethod = 'm'\npaper = '-'\nreference = 'r'\n\n\
                     [measure]\nkind = 'probe'\ndevices = ['sim:myers-stripe']\n\
                     request_bytes = ['4KiB']\n\n[measure.scale]\nflash_capacity = '64MiB'\n\
                     request_count = 20\npoint_bytes = '1MiB'\n";
        let experiment = Experiment::parse("small", "small.toml", small).unwrap();
        let trials = trials(&experiment).unwrap();
        let of = |profile: &str| trials.iter().filter(|trial| trial.file == profile).count();
        assert!(of("profiles/myers-stripe.toml") > 0);
        let members = Profile::load("myers-stripe").unwrap();
        let DriveConfig::Array(config) = members.drive else { panic!("it is an array") };
        for name in config.member_names().unwrap() {
            assert!(of(&format!("profiles/{name}.toml")) > 0, "{name}");
        }
    }

    #[test]
    fn who_moves_by_little_has_not_noticed() {
        let never = f64::INFINITY;
        let before = [1.0, 1.0, 0.0, never].map(|value| verdict(true, value));
        let mut after = [1.01, 1.0, 0.0, never].map(|value| verdict(true, value));
        after[1].holds = false;
        let found = noticed(&before, &after);
        assert_eq!(found.len(), 1);
        assert!((found[0].shape, found[0].falls) == (1, true));
        assert_eq!(noticed(&before[..1], &[verdict(true, 0.9)])[0].over, Some(0.9));
    }

    #[test]
    fn a_crossover_that_is_nowhere_any_more_falls() {
        let mut nowhere = verdict(false, f64::INFINITY);
        nowhere.decided.as_mut().unwrap().x = f64::INFINITY;
        let said = serde_json::to_string(&nowhere).unwrap();
        let heard: Verdict = serde_json::from_str(&said).unwrap();
        assert!(noticed(&[verdict(true, 7.0)], &[heard])[0].falls);
    }

    #[test]
    fn a_prediction_without_a_row_or_that_nothing_turns_is_told() {
        let experiment = catalog::load("s000/figure-8-3").unwrap();
        let is_prediction = |shape: &&Shape| shape.standing.class == Class::Prediction;
        let count = experiment.shape.iter().filter(is_prediction).count();
        assert!(count > 0);
        assert_eq!(unnoticed(&experiment, None).len(), count);
        let mut kept = table(&experiment, Vec::new());
        let still = unnoticed(&experiment, Some(&kept));
        assert!(still.len() == count && still[0].contains("no parameter moves"), "{still:?}");
        let row = |falls: bool| {
            let all = 0..experiment.shape.len();
            let noticed = all.map(|shape| Noticed { shape, over: Some(2.0), falls }).collect();
            Row { parameter: "x".into(), factor: 2.0, refused: None, noticed }
        };
        kept.rows.push(row(false));
        let still = unnoticed(&experiment, Some(&kept));
        assert!(still.len() == count && still[0].contains("no parameter turns"), "{still:?}");
        kept.rows.push(row(true));
        assert_eq!(unnoticed(&experiment, Some(&kept)), [""; 0]);
    }

    #[test]
    fn a_fit_that_a_parameter_it_names_does_not_move_is_told() {
        let experiment = catalog::load("s000/table-3-1").unwrap();
        let is_fit = |shape: &Shape| shape.standing.class == Class::Fit;
        let index = experiment.shape.iter().position(is_fit).unwrap();
        let name = experiment.shape[index].standing.fitted[0].clone();
        let row = |refused: Option<String>, shape| {
            let noticed = vec![Noticed { shape, over: Some(2.0), falls: false }];
            Row { parameter: name.clone(), factor: 2.0, refused, noticed }
        };
        let told = |rows: Vec<Row>| unmoved_fits(&experiment, &table(&experiment, rows));
        let has = |wrong: &[String], why: &str| {
            let of_it = |wrong: &&String| wrong.contains(&format!("no fit of {name}: {why}"));
            wrong.iter().filter(of_it).count()
        };
        let without_row = told(Vec::new());
        assert!(has(&without_row, "no trial changes it") > 0, "{without_row:?}");
        let refused = row(Some("it is refused".into()), usize::MAX);
        assert_eq!(told(vec![refused]), without_row);
        let wrong = told(vec![row(None, usize::MAX)]);
        assert!(has(&wrong, "it does not move") > 0, "{wrong:?}");
        assert_eq!(told(vec![row(None, usize::MAX), row(None, index)]).len(), wrong.len() - 1);
    }

    #[test]
    fn of_several_drives_one_parameter_has_to_move_the_fit() {
        let experiment = catalog::load("s002/table-3-1").unwrap();
        let is_of_several = |shape: &Shape| {
            shape.standing.class == Class::Fit && ShapeKey::of(shape).claim.contains('*')
        };
        let index = experiment.shape.iter().position(is_of_several).unwrap();
        let row = |name: &String, shape| {
            let noticed = vec![Noticed { shape, over: Some(2.0), falls: false }];
            Row { parameter: name.clone(), factor: 2.0, refused: None, noticed }
        };
        let names = &experiment.shape[index].standing.fitted;
        let mut rows: Vec<Row> = names.iter().map(|name| row(name, usize::MAX)).collect();
        let told = |rows: &[Row]| {
            let wrong = unmoved_fits(&experiment, &table(&experiment, rows.to_vec()));
            let none = |wrong: &&String| wrong.ends_with("none of them moves it");
            wrong.iter().filter(none).count()
        };
        let before = told(&rows);
        rows.push(row(&names[1], index));
        assert_eq!(told(&rows), before - 1);
    }

    #[test]
    fn a_table_of_another_configuration_claim_or_parameter_is_stale() {
        let experiment = catalog::load("s000/two-streams").unwrap();
        let row = |trial: &Trial| Row {
            parameter: trial.parameter.clone(),
            factor: trial.factor,
            refused: None,
            noticed: Vec::new(),
        };
        let rows = trials(&experiment).unwrap().iter().map(row).collect();
        let config_hash = hash_of(&experiment, 7).unwrap();
        let current = Sensitivity { seed: 7, config_hash, ..table(&experiment, rows) };
        let why = |kept: &Sensitivity| stale(&experiment, kept).unwrap();
        assert_eq!(why(&current), None);
        let changed = |change: &dyn Fn(&mut Sensitivity)| {
            let mut kept = current.clone();
            change(&mut kept);
            why(&kept).unwrap()
        };
        assert!(changed(&|kept| kept.seed = 8).contains("a profile has changed"));
        assert!(changed(&|kept| kept.config_hash.clear()).contains("a profile has changed"));
        assert!(changed(&|kept| kept.shapes[0].class = Class::Own).contains("classes"));
        assert!(changed(&|kept| kept.shapes[0].claim.push(' ')).contains("shapes"));
        assert!(changed(&|kept| kept.rows.truncate(1)).contains("other parameters"));
        assert!(changed(&|kept| kept.rows[0].factor = 3.0).contains("other parameters"));
        assert!(changed(&|kept| kept.experiment.push('x')).contains("calls itself"));
    }
}
