//! Results that lie in a directory, gathered without running anything.
//!
//! ```text
//!   <directory>/…/NAME/outcome.json ───────────────────────────────┐
//!   <directory>/…/NAME/series.csv ─┐                               ├─▶ Found: outcome, meta, state
//!   <directory>/…/NAME/meta.json ──┴─▶ the experiment NAME judges ─┘
//! ```
//!
//! 1. A result that is kept without its outcome is judged by the series that are kept, which are those of
//!    its first seed, and by the experiment as it is now.
//! 2. A state says what can be known without measuring: whether the same question would be asked of the
//!    same drives, and whether what is derived and judged is so in the same way. Whether the code still finds the
//!    same numbers is for `nandu verify --kept`.

use crate::catalog;
use crate::error::LabError;
use crate::experiment::{Experiment, FULL_ENDING};
use crate::kind::bench::LOCAL;
use crate::machine::COMMIT;
use crate::outcome::{Outcome, Series, Verdict};
use crate::points;
use crate::run::{Meta, config_hash};
use nandu_base::words::counted;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of the working directory that keeps results, one folder in it for each machine.
pub const KEPT: &str = "results";
/// Folders below a result that hold parts of it.
const PARTS: [&str; 2] = ["steps", "seed-"];
/// A name has so many parts at most.
const NAME_PARTS_MAX: usize = 3;

/// A result that was found.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// What was found out.
    pub outcome: Outcome,
    /// When, where and by which program.
    pub meta: Meta,
    /// Whether it is still what the experiment asks.
    pub state: State,
}

/// Whether a result still belongs to the experiment of its name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// This very program made it.
    Current,
    /// The same question of the same drives; another commit answered it, or the local disk elsewhere.
    Unchecked,
    /// The experiment, a drive or what is derived is different now: why.
    Stale(String),
    /// No experiment has its name.
    Unknown,
}

/// All that lies in a directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Collection {
    /// What was found in each folder, in the order of the folders' names.
    pub results: Vec<Found>,
    /// Folders whose results no experiment explains, each with the reason.
    pub skipped: Vec<(PathBuf, String)>,
}

/// The results below `directory`.
///
/// # Errors
/// [`LabError::File`] and [`LabError::Invalid`] where a file of a result cannot be read.
pub fn results_below(directory: &Path) -> Result<Collection, LabError> {
    let mut folders = Vec::new();
    find_folders(directory, &mut folders);
    folders.sort();
    let mut collection = Collection::default();
    let mut places = Vec::new();
    for folder in folders {
        let meta: Meta = super::read_json(&folder.join("meta.json"))?;
        let whole = folder.join("outcome.json");
        if whole.is_file() {
            let outcome: Outcome = super::read_json(&whole)?;
            let state = experiment_called(&outcome.experiment)
                .map_or(State::Unknown, |experiment| state(&experiment, &meta, &outcome.series));
            places.push(folder);
            collection.results.push(Found { outcome, meta, state });
            continue;
        }
        let Some(experiment) = experiment_in(&folder) else {
            collection.skipped.push((folder, "no experiment has this name any more".into()));
            continue;
        };
        let path = folder.join("series.csv");
        let text =
            fs::read_to_string(&path).map_err(|error| LabError::file("read", &path, &error))?;
        let series = points::from_csv(&path, &text)?;
        let mut state = state(&experiment, &meta, &series);
        let outcome = rebuilt(&experiment, &meta, series);
        if !matches!(state, State::Stale(_))
            && let Some(why) = other_verdicts(&outcome, &folder)
        {
            state = State::Stale(why);
        }
        places.push(folder);
        collection.results.push(Found { outcome, meta, state });
    }
    tell_apart(directory, &mut collection.results, &places);
    Ok(collection)
}

/// Results of one name, say of two machines, are called by their places below `directory`.
fn tell_apart(directory: &Path, results: &mut [Found], places: &[PathBuf]) {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for found in &*results {
        *counts.entry(found.outcome.experiment.clone()).or_default() += 1;
    }
    for (found, place) in results.iter_mut().zip(places) {
        if counts[&found.outcome.experiment] > 1 {
            let place = place.strip_prefix(directory).unwrap_or(place);
            found.outcome.experiment = place.display().to_string();
        }
    }
}

/// The folder of the machine whose results in `kept` are the newest; `None` if there are none.
#[must_use]
pub fn newest_machine(kept: &Path) -> Option<PathBuf> {
    let machines = fs::read_dir(kept).into_iter().flatten().flatten().map(|entry| entry.path());
    let newest = |machine: PathBuf| {
        let mut folders = Vec::new();
        find_folders(&machine, &mut folders);
        let dates = folders.iter().filter_map(|folder| {
            let meta: Meta = super::read_json(&folder.join("meta.json")).ok()?;
            Some(meta.steps_stored[1].clone())
        });
        Some((dates.max()?, machine))
    };
    machines.filter(|machine| machine.is_dir()).filter_map(newest).max().map(|(_, machine)| machine)
}

/// Folders of results at and below `folder`; those that cannot be read hold none.
fn find_folders(folder: &Path, found: &mut Vec<PathBuf>) {
    let has = |name: &str| folder.join(name).is_file();
    if has("meta.json") && (has("outcome.json") || has("series.csv")) {
        found.push(folder.into());
    }
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_part = PARTS.iter().any(|part| name.to_string_lossy().starts_with(part));
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !is_part {
            find_folders(&entry.path(), found);
        }
    }
}

/// The experiment called `name`, at the scale of the paper if it ends so.
fn experiment_called(name: &str) -> Option<Experiment> {
    if catalog::has(name) {
        return catalog::load(name).ok();
    }
    let small = name.strip_suffix(FULL_ENDING).filter(|small| catalog::has(small))?;
    catalog::load(small).ok()?.at_full_scale()
}

/// The experiment whose name the last parts of `folder` are.
fn experiment_in(folder: &Path) -> Option<Experiment> {
    let whole = folder.canonicalize().ok()?;
    let parts: Vec<String> =
        whole.components().map(|part| part.as_os_str().to_string_lossy().into_owned()).collect();
    let names = (1..=NAME_PARTS_MAX.min(parts.len())).rev();
    names
        .map(|count| parts[parts.len() - count..].join("/"))
        .find_map(|name| experiment_called(&name))
}

/// The outcome of series that are kept.
fn rebuilt(experiment: &Experiment, meta: &Meta, mut series: Vec<Series>) -> Outcome {
    let derived: BTreeSet<String> =
        experiment.derived_ratios().into_iter().map(|ratio| ratio.name).collect();
    series.retain(|series| !derived.contains(&series.name));
    experiment.conclude(meta.seed, meta.config_hash.clone(), series, Vec::new())
}

/// How many verdicts are others than the table says that is kept beside the series.
fn other_verdicts(outcome: &Outcome, folder: &Path) -> Option<String> {
    // Whoever opens a pipe waits until somebody writes into it.
    let table = Some(folder.join("table.md")).filter(|path| path.is_file())?;
    let table = fs::read_to_string(table).ok()?;
    let is_kept = |verdict: &&Verdict| {
        let start = format!("- {}, {}: {}: ", verdict.mark(), verdict.class, verdict.claim);
        table.lines().any(|line| line.starts_with(&start))
    };
    let all = outcome.verdicts.len() as u64;
    match all - outcome.verdicts.iter().filter(is_kept).count() as u64 {
        0 => None,
        1 => Some(format!("of its {} 1 is another now or judged otherwise", counted(all, "shape"))),
        others => Some(format!("of its {all} shapes {others} are others now or judged otherwise")),
    }
}

/// The state of a result, as far as rule 2 goes.
fn state(experiment: &Experiment, meta: &Meta, series: &[Series]) -> State {
    let names = experiment.series_names();
    if let Some(gone) = series.iter().find(|series| !names.contains(&series.name)) {
        return State::Stale(format!("the experiment has no series {} any more", gone.name));
    }
    let fresh = rebuilt(experiment, meta, series.to_vec());
    let is_other =
        |kept: &&Series| fresh.series(&kept.name).is_none_or(|now| now.points != kept.points);
    if let Some(other) = series.iter().find(is_other) {
        return State::Stale(format!("{} is derived in another way now", other.name));
    }
    let targets = experiment.measure.as_measurement().targets();
    let local = meta.local.as_deref().unwrap_or_default();
    let is_same = config_hash(experiment, meta.seed, local, &targets)
        .is_ok_and(|hash| hash == meta.config_hash);
    // The directory on this machine's disk may have been another one, or have lost its name since.
    let is_local = targets.iter().any(|target| target == LOCAL);
    match (is_same, is_local) {
        (true, _) if meta.commit == COMMIT => State::Current,
        (true, _) | (false, true) => State::Unchecked,
        (false, false) => State::Stale("the experiment or a profile has changed since".into()),
    }
}
