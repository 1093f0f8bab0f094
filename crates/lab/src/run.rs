//! Runs an experiment step by step, keeps every step, and goes on where an earlier run stopped.
//!
//! ```text
//!   <out>/<name>/steps/000.json …   one result each, with the hash of its configuration
//!   <out>/<name>/outcome.json       everything to draw and judge     same seed, same bytes
//!   <out>/<name>/series.csv         all points                       same seed, same bytes
//!   <out>/<name>/table.md           tables and verdicts              same seed, same bytes
//!   <out>/<name>/meta.json          command, commit, machine, dates
//!   <out>/<name>/seed-2 …           the same at other seeds, where verdicts go by several
//! ```
//!
//! 1. A step is on disk, whole, before the next one starts; an error or a stop loses at most one.
//! 2. Series are those of the first seed; only verdicts go by several.
//! 3. A stored step is used again only if its configuration has the same hash and resuming was asked.

use crate::error::LabError;
use crate::experiment::Experiment;
use crate::kind::bench::{Bench, LOCAL};
use crate::machine::{COMMIT, Machine, date_text};
use crate::outcome::{Outcome, Series, StepEnergy, StepResult, energy_by_drive};
use crate::points;
use crate::profile_text::deciding_text;
use crate::report::markdown;
use crate::worth::{uses_of, worth_of};
use nandu_base::to_index;
use nandu_device::{Device, PowerLog};
use nandu_drives::profile::{DriveConfig, Profile};
use nandu_energy::Host;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Opens a device; the message says what is wrong.
pub type Opener<'a> = dyn Fn() -> Result<Box<dyn Device>, String> + 'a;

/// The device that stands for `local` in experiments.
pub struct LocalTarget<'a> {
    /// What the user named, and its size: part of the configuration.
    pub name: String,
    /// Opens it; called once in a run, and only if a step needs it.
    pub open: Box<Opener<'a>>,
    /// Where on it databases are made, each in a directory of its own that does not stay.
    pub directory: PathBuf,
}

/// How an experiment is run: where to, by which seed, on which local device.
pub struct RunOptions<'a> {
    /// Where results go.
    pub out_dir: PathBuf,
    /// Of everything random.
    pub seed: u64,
    /// Whether finished steps of an earlier run with the same configuration count.
    pub resume: bool,
    /// The device of this machine; without it, steps on `local` measure nothing.
    pub local: Option<LocalTarget<'a>>,
    /// The command line, for the report.
    pub command: String,
}

impl RunOptions<'_> {
    /// Seed 1, resuming, no local device.
    #[must_use]
    pub fn new(out_dir: impl Into<PathBuf>) -> Self {
        let (seed, resume, local) = (1, true, None);
        Self { out_dir: out_dir.into(), seed, resume, local, command: String::new() }
    }
}

/// Watches a run and may stop it.
pub trait RunObserver: nandu_probe::Observer {
    /// Step `index` of `count` begins; `resumed` if its result is there already.
    fn step_started(&mut self, index: usize, count: usize, label: &str, resumed: bool);

    /// The flag that is set when the run is to stop: what takes long without asking
    /// [`is_cancelled`](nandu_probe::Observer::is_cancelled) looks at it for every block.
    fn stop_flag(&self) -> Arc<AtomicBool>;
}

/// An observer who watches nothing and never stops the run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unwatched;

impl nandu_probe::Observer for Unwatched {
    fn progress(&mut self, _fraction: f64, _what: &str) {}
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl RunObserver for Unwatched {
    fn step_started(&mut self, _index: usize, _count: usize, _label: &str, _resumed: bool) {}

    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::default()
    }
}

/// What belongs to a run but not to its outcome.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The command line.
    pub command: String,
    /// Version of nandu.
    pub version: String,
    /// The commit that nandu was built from.
    pub commit: String,
    /// Of everything random.
    pub seed: u64,
    /// As in the outcome.
    pub config_hash: String,
    /// What stood for `local`, if anything did.
    pub local: Option<String>,
    /// The machine on which it ran.
    pub machine: Machine,
    /// When the first and the last step were stored, in UTC.
    pub steps_stored: [String; 2],
    /// Seconds between the two.
    pub seconds_between: i64,
}

/// Runs `experiment`.
///
/// # Errors
/// [`LabError::Cancelled`] when the observer says so, [`LabError::Step`] where a device fails; what
/// was finished is kept and used by the next run that resumes.
pub fn run(
    experiment: &Experiment,
    options: &RunOptions<'_>,
    observer: &mut dyn RunObserver,
) -> Result<Outcome, LabError> {
    run_in(&options.out_dir.join(&experiment.name), experiment, options, observer)
}

/// Runs `experiment` at `seed_count` seeds, that of `options` and those after it, and judges by all of them;
/// where the second finds the same as the first to the last bit nothing is random, and two are enough. Local
/// devices are for the first seed only.
///
/// # Errors
/// As of [`run`].
pub fn run_seeds(
    experiment: &Experiment,
    options: &RunOptions<'_>,
    seed_count: u64,
    observer: &mut dyn RunObserver,
) -> Result<Outcome, LabError> {
    let folder = options.out_dir.join(&experiment.name);
    let mut watch = OfSeed { inner: observer, index: 0, count: to_index(seed_count.max(1)) };
    let mut outcome = run_in(&folder, experiment, options, &mut watch)?;
    let mut others: Vec<Outcome> = Vec::new();
    for step in 1..seed_count {
        watch.index = to_index(step);
        let seed = options.seed.wrapping_add(step);
        let (resume, command) = (options.resume, options.command.clone());
        let other = RunOptions { out_dir: folder.clone(), seed, resume, local: None, command };
        let found = run_in(&folder.join(format!("seed-{seed}")), experiment, &other, &mut watch)?;
        let is_random = found.series != outcome.series;
        others.push(found);
        if !is_random {
            break;
        }
    }
    let series: Vec<&[Series]> =
        std::iter::once(&outcome).chain(&others).map(|found| found.series.as_slice()).collect();
    outcome.verdicts = experiment.judge(&series);
    outcome.seeds.extend(others.iter().map(|found| found.seed));
    store(&folder, experiment.measure.as_measurement().steps().len(), options, &outcome)?;
    Ok(outcome)
}

/// Tells the steps of one of several seeds as a part of all steps.
struct OfSeed<'a> {
    inner: &'a mut dyn RunObserver,
    index: usize,
    count: usize,
}

impl nandu_probe::Observer for OfSeed<'_> {
    fn progress(&mut self, fraction: f64, what: &str) {
        self.inner.progress(fraction, what);
    }

    fn is_cancelled(&self) -> bool {
        self.inner.is_cancelled()
    }
}

impl RunObserver for OfSeed<'_> {
    fn step_started(&mut self, index: usize, count: usize, label: &str, resumed: bool) {
        self.inner.step_started(self.index * count + index, self.count * count, label, resumed);
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        self.inner.stop_flag()
    }
}

fn run_in(
    folder: &Path,
    experiment: &Experiment,
    options: &RunOptions<'_>,
    observer: &mut dyn RunObserver,
) -> Result<Outcome, LabError> {
    let measurement = experiment.measure.as_measurement();
    let local = options.local.as_ref().map_or("", |local| &local.name);
    let hash = |targets: &[String]| config_hash(experiment, options.seed, local, targets);
    let all = hash(&measurement.targets())?;
    let steps_folder = folder.join("steps");
    make_folder(&steps_folder)?;
    let labels = measurement.steps();
    let mut bench = Bench {
        seed: options.seed,
        local: options.local.as_ref(),
        local_subject: None,
        observer,
        notes: Vec::new(),
        power: PowerLog::default(),
    };
    let mut results = Vec::with_capacity(labels.len());
    for (index, label) in labels.iter().enumerate() {
        let path = steps_folder.join(format!("{index:03}.json"));
        let step_hash = hash(&measurement.step_targets(index))?;
        let stored = if options.resume { stored_step(&path, label, &step_hash) } else { None };
        bench.observer.step_started(index, labels.len(), label, stored.is_some());
        let energy_hash = power_hash(&measurement.step_targets(index))?;
        if let Some(mut stored) = stored {
            // What was drawn by other figures is not told; the step itself stands.
            if stored.energy_hash != energy_hash {
                (stored.energy, stored.drive_energy) = (None, BTreeMap::new());
            }
            results.push(stored);
            continue;
        }
        let cancelled = LabError::Cancelled { finished_count: index, step_count: labels.len() };
        if bench.observer.is_cancelled() {
            return Err(cancelled);
        }
        bench.power = PowerLog::default();
        let series = match measurement.run_step(index, &mut bench) {
            Err(LabError::Cancelled { .. }) => return Err(cancelled),
            other => other?,
        };
        let notes = std::mem::take(&mut bench.notes);
        let uses = uses_of(&bench.power, &measurement.step_targets(index))?;
        let result = StepResult {
            label: label.clone(),
            config_hash: step_hash,
            series,
            notes,
            energy: bench.power.of_gone(),
            drive_energy: bench.power.of_gone_by_name(),
            energy_hash,
            uses,
        };
        write_json(&path, &result)?;
        results.push(result);
    }
    drop(bench);
    let energy = results.iter().filter_map(|result| {
        let energy = result.energy.clone()?;
        Some(StepEnergy { step: result.label.clone(), energy })
    });
    let energy = energy.collect();
    let (drive_energy, silent_drives) = energy_by_drive(&results);
    let worth = worth_of(&results, &drive_energy)?;
    let (series, notes) = merge(results);
    let found = experiment.conclude(options.seed, all, series, notes);
    let outcome = Outcome { energy, drive_energy, silent_drives, worth, ..found };
    store(folder, labels.len(), options, &outcome)?;
    Ok(outcome)
}

/// Steps' series by name with their points by x, and their notes without repetition.
fn merge(results: Vec<StepResult>) -> (Vec<Series>, Vec<String>) {
    let mut all: Vec<Series> = Vec::new();
    let mut notes: Vec<String> = Vec::new();
    for result in results {
        for series in result.series {
            match all.iter_mut().find(|known| known.name == series.name) {
                Some(known) => known.points.extend(series.points),
                None => all.push(series),
            }
        }
        for note in result.notes {
            if !notes.contains(&note) {
                notes.push(note);
            }
        }
    }
    for series in &mut all {
        series.points.sort_by(|left, right| left.0.total_cmp(&right.0));
    }
    all.retain(|series| !series.points.is_empty());
    (all, notes)
}

/// SHA-256 over the profiles behind `targets` as they are, what changes no result included.
fn power_hash(targets: &[String]) -> Result<String, LabError> {
    let mut hasher = Sha256::new();
    for target in targets {
        for profile in profiles_behind(target)? {
            hasher.update(profile.text.len().to_le_bytes());
            hasher.update(profile.text.as_bytes());
        }
    }
    Ok(short_hex(hasher))
}

/// 16 hexadecimal digits of a hash.
fn short_hex(hasher: Sha256) -> String {
    hasher.finalize().iter().take(8).map(|byte| format!("{byte:02x}")).collect()
}

/// SHA-256 over all that decides a simulated result on `targets`, 16 hexadecimal digits of it.
pub(crate) fn config_hash(
    experiment: &Experiment,
    seed: u64,
    local: &str,
    targets: &[String],
) -> Result<String, LabError> {
    let measure = serde_json::to_string(&experiment.measure)
        .expect("parameters are numbers, strings and lists of them");
    let mut hasher = Sha256::new();
    let mut add = |text: &str| {
        hasher.update(text.len().to_le_bytes());
        hasher.update(text.as_bytes());
    };
    add(&measure);
    add(&seed.to_string());
    add(env!("CARGO_PKG_VERSION"));
    for target in targets {
        if *target == LOCAL {
            add(local);
        } else {
            let profiles = profiles_behind(target)?;
            profiles.iter().for_each(|profile| add(&deciding_text(experiment, profile)));
        }
    }
    for name in experiment.measure.as_measurement().hosts() {
        let host = Host::load(&name).map_err(|error| LabError::step(&name, &error))?;
        add(&serde_json::to_string(&host).expect("a host is numbers and strings"));
    }
    Ok(short_hex(hasher))
}

/// The profiles that decide what `target` does: its own, and those of an array's members, each once.
pub(crate) fn profiles_behind(target: &str) -> Result<Vec<Profile>, LabError> {
    let wrong = |error| LabError::step(target, &error);
    let name = target.strip_prefix("sim:").or(target.starts_with("array:").then_some(target));
    let Some(name) = name else { return Ok(Vec::new()) };
    let mut profiles = vec![Profile::load(name).map_err(wrong)?];
    if let DriveConfig::Array(config) = &profiles[0].drive {
        let members = config
            .member_names()
            .map_err(|what| LabError::Step { step: target.into(), message: what })?;
        let members: BTreeSet<String> = members.into_iter().map(str::to_owned).collect();
        for member in members {
            profiles.push(Profile::load(&member).map_err(wrong)?);
        }
    }
    Ok(profiles)
}

/// An unreadable or foreign step is measured again.
fn stored_step(path: &Path, label: &str, config_hash: &str) -> Option<StepResult> {
    let text = fs::read_to_string(path).ok()?;
    let step: StepResult = serde_json::from_str(&text).ok()?;
    (step.label == label && step.config_hash == config_hash).then_some(step)
}

fn store(
    folder: &Path,
    step_count: usize,
    options: &RunOptions<'_>,
    outcome: &Outcome,
) -> Result<(), LabError> {
    let stored_at = |index: usize| {
        let path = folder.join("steps").join(format!("{index:03}.json"));
        fs::metadata(path).map_or(0, |metadata| metadata.mtime())
    };
    let (first, last) = (stored_at(0), stored_at(step_count.saturating_sub(1)));
    let meta = Meta {
        command: options.command.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: COMMIT.into(),
        seed: outcome.seed,
        config_hash: outcome.config_hash.clone(),
        local: options.local.as_ref().map(|local| local.name.clone()),
        machine: Machine::here(),
        steps_stored: [date_text(first), date_text(last)],
        seconds_between: last - first,
    };
    keep(folder, outcome, &meta)
}

/// Keeps what was found in `folder`, whoever found it, for [`write_report`](crate::write_report).
///
/// # Errors
/// If a file cannot be written.
pub fn keep(folder: &Path, outcome: &Outcome, meta: &Meta) -> Result<(), LabError> {
    make_folder(folder)?;
    write_json(&folder.join("outcome.json"), outcome)?;
    write_file(&folder.join("series.csv"), &points::to_csv(outcome))?;
    write_file(&folder.join("table.md"), &markdown::outcome(outcome))?;
    write_json(&folder.join("meta.json"), meta)
}

pub(crate) fn make_folder(path: &Path) -> Result<(), LabError> {
    fs::create_dir_all(path).map_err(|error| LabError::file("create", path, &error))
}

pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), LabError> {
    let mut text = serde_json::to_string_pretty(value)
        .map_err(|error| LabError::file("write", path, &error))?;
    text.push('\n');
    write_file(path, &text)
}

/// Writes beside the file and renames, so that nobody sees half of it.
pub(crate) fn write_file(path: &Path, text: &str) -> Result<(), LabError> {
    let beside = path.with_extension("part");
    let write = fs::write(&beside, text).and_then(|()| fs::rename(&beside, path));
    write.map_err(|error| LabError::file("write", path, &error))
}
