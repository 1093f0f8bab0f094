//! `nandu verify --perturb`: which shapes notice when a parameter is doubled or halved.
//!
//! ```text
//!   scratch/profiles     as here, one of them changed ─┐
//!   scratch/experiments  as here, or it is changed ────┼─► nandu verify NAME --seeds 1 --json ─► verdicts
//!   scratch/out          steps of the run unchanged ───┘   (only steps of the changed drive run again)
//! ```
//!
//! 1. The program that runs is this one; what differs is one file.
//! 2. An experiment's result is written when all its trials are done; with `--resume` those that are there
//!    are kept, as long as they are of the same claims and configuration.
//! 3. What runs is the experiment that was read, also one of a file elsewhere.

use super::{VerifyArguments, outcome_text};
use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use nandu_lab::machine::COMMIT;
use nandu_lab::perturb::{self, Noticed, Row, Sensitivity, ShapeKey, Trial};
use nandu_lab::{Class, Experiment, Verdict};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use tempfile::TempDir;

/// Folders that come before what is inside the program.
const FOLDERS: [&str; 2] = ["profiles", "experiments"];

/// What is printed as JSON.
#[derive(Serialize)]
struct AllPerturbed<'a> {
    experiments: Vec<&'a Sensitivity>,
}

/// Perturbs all and prints who noticed.
pub(super) fn run(
    experiments: &[Experiment],
    arguments: &VerifyArguments,
    context: &Context,
) -> Result<(), Failure> {
    let folder = arguments.out.join("perturb");
    let mut found = Vec::new();
    for experiment in experiments {
        let keys: Vec<ShapeKey> = experiment.shape.iter().map(ShapeKey::of).collect();
        let config_hash = perturb::hash_of(experiment, arguments.seed)?;
        let kept =
            if arguments.resume { Sensitivity::load(&folder, &experiment.name)? } else { None };
        let is_same = |kept: &Sensitivity| kept.shapes == keys && kept.config_hash == config_hash;
        let sensitivity = match kept.filter(is_same) {
            Some(kept) => kept,
            None => {
                let (unchanged, rows) = perturb_one(experiment, arguments, context)?;
                let sensitivity = Sensitivity {
                    experiment: experiment.name.clone(),
                    commit: COMMIT.into(),
                    seed: arguments.seed,
                    config_hash,
                    shapes: keys,
                    unchanged,
                    rows,
                };
                sensitivity.store(&folder)?;
                sensitivity
            }
        };
        if !arguments.json {
            print(experiment, &sensitivity, context)?;
        }
        found.push((experiment, sensitivity));
    }
    if arguments.json {
        let experiments: Vec<&Sensitivity> = found.iter().map(|(_, found)| found).collect();
        context.output.json("verify --perturb", &AllPerturbed { experiments })?;
    }
    let unnoticed: Vec<String> = found
        .iter()
        .flat_map(|(experiment, found)| perturb::unnoticed(experiment, Some(found)))
        .collect();
    if unnoticed.is_empty() { Ok(()) } else { Err(Failure::shape(unnoticed.join("; "))) }
}

fn print(experiment: &Experiment, found: &Sensitivity, context: &Context) -> Result<(), Failure> {
    let name = &experiment.name;
    context.output.heading(&format!("{name}: {} trials", found.rows.len()))?;
    for (index, shape) in experiment.shape.iter().enumerate() {
        let all = found.of_shape(index);
        let falls = all.iter().filter(|(_, noticed)| noticed.falls).count();
        let strongest: Vec<String> =
            all.iter().take(3).map(|(row, noticed)| in_words(row, noticed)).collect();
        let class = shape.standing.class;
        let mut text = format!("{class}: {}: moved by {}", shape.claim.words(), all.len());
        text.push_str(&format!(", verdict changed by {falls}"));
        if !strongest.is_empty() {
            text.push_str(&format!(": {}", strongest.join(", ")));
        }
        let is_well = !all.is_empty() || class != Class::Prediction;
        let mark = context.output.verdict(is_well, if is_well { "moves" } else { "STILL" });
        outcome_text::print_item(&mark, &text, context)?;
    }
    Ok(())
}

fn in_words(row: &Row, noticed: &Noticed) -> String {
    let over = noticed.over.map_or("no number".into(), |over| format!("x {over:.2}"));
    format!("{} x {} ({over})", row.parameter, row.factor)
}

/// The deciding numbers without a change, and what each trial did.
fn perturb_one(
    experiment: &Experiment,
    arguments: &VerifyArguments,
    context: &Context,
) -> Result<(Vec<Option<f64>>, Vec<Row>), Failure> {
    let trials = perturb::trials(experiment)?;
    let base = Scratch::new(experiment)
        .map_err(|error| Failure::system("cannot make a scratch directory", &error))?;
    let before = base.verdicts(experiment, arguments.seed).map_err(|why| {
        if context.interrupt.is_set() {
            return interrupted();
        }
        Failure::input(format!("{}: {why}", experiment.name))
    })?;
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = arguments.threads.map_or(cores, |threads| threads as usize);
    let (next, stop) = (AtomicUsize::new(0), context.interrupt.flag());
    let (sender, done) = channel();
    let mut rows: Vec<Option<Row>> = vec![None; trials.len()];
    std::thread::scope(|scope| {
        for _ in 0..threads.min(trials.len()) {
            let (next, stop, sender) = (&next, &stop, sender.clone());
            let (trials, base, before) = (&trials, &base, &before);
            scope.spawn(move || {
                let take = || Some(next.fetch_add(1, Ordering::Relaxed));
                while let Some(index) = take().filter(|_| !stop.load(Ordering::SeqCst)) {
                    let Some(trial) = trials.get(index) else { break };
                    let row = row(experiment, trial, base, before, arguments.seed);
                    // Nobody listens any more after an error of the terminal.
                    let _ = sender.send((index, row));
                }
            });
        }
        drop(sender);
        let progress = Progress::new(context, 1);
        for (count, (index, row)) in done.iter().enumerate() {
            let what = format!("{}: {} x {}", experiment.name, row.parameter, row.factor);
            progress.show((count + 1) as f64 / trials.len() as f64, &what);
            rows[index] = Some(row);
        }
    });
    if context.interrupt.is_set() {
        return Err(interrupted());
    }
    Ok((perturb::deciding_numbers(&before), rows.into_iter().flatten().collect()))
}

fn interrupted() -> Failure {
    Failure::interrupted("pass --resume to keep the experiments that are finished")
}

fn row(
    experiment: &Experiment,
    trial: &Trial,
    base: &Scratch,
    before: &[Verdict],
    seed: u64,
) -> Row {
    let attempt = || -> Result<Vec<Noticed>, String> {
        let text = trial.text.as_ref().map_err(Clone::clone)?;
        let scratch = Scratch::new(experiment).map_err(|error| error.to_string())?;
        let place = scratch.path().join(&trial.file);
        let copy = copy_folder(&base.path().join("out"), &scratch.path().join("out"));
        let parent = place.parent().unwrap_or(scratch.path());
        let write =
            copy.and_then(|()| fs::create_dir_all(parent)).and_then(|()| fs::write(&place, text));
        write.map_err(|error| format!("cannot write {}: {error}", place.display()))?;
        Ok(perturb::noticed(before, &scratch.verdicts(experiment, seed)?))
    };
    let (noticed, refused) = match attempt() {
        Ok(noticed) => (noticed, None),
        Err(why) => (Vec::new(), Some(why)),
    };
    Row { parameter: trial.parameter.clone(), factor: trial.factor, refused, noticed }
}

/// A directory in which the program runs, with copies of the folders that come before its own.
struct Scratch(TempDir);

#[derive(Deserialize)]
struct Answer {
    experiments: Vec<ExperimentAnswer>,
}

#[derive(Deserialize)]
struct ExperimentAnswer {
    verdicts: Vec<Verdict>,
}

impl Scratch {
    fn new(experiment: &Experiment) -> std::io::Result<Self> {
        let scratch = Self(tempfile::tempdir()?);
        for folder in FOLDERS.map(Path::new).iter().filter(|folder| folder.is_dir()) {
            copy_folder(folder, &scratch.path().join(folder))?;
        }
        let place = scratch.path().join(format!("experiments/{}.toml", experiment.name));
        fs::create_dir_all(place.parent().unwrap_or(scratch.path()))?;
        fs::write(place, &experiment.text)?;
        Ok(scratch)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    /// Runs the experiment at one seed here.
    fn verdicts(&self, experiment: &Experiment, seed: u64) -> Result<Vec<Verdict>, String> {
        let program = std::env::current_exe().map_err(|error| error.to_string())?;
        let seed = seed.to_string();
        let output = Command::new(program)
            .args(["verify", &experiment.name, "--seeds", "1", "--seed", &seed])
            .args(["--threads", "1", "--json", "--resume", "--out", "out", "--unlinked"])
            .current_dir(self.path())
            .stdin(Stdio::null())
            .output()
            .map_err(|error| error.to_string())?;
        let answer: Result<Answer, _> = serde_json::from_slice(&output.stdout);
        match answer.map(|mut all| all.experiments.pop()) {
            Ok(Some(answer)) => Ok(answer.verdicts),
            _ => {
                let said = String::from_utf8_lossy(&output.stderr);
                Err(said.lines().last().unwrap_or("it said nothing").trim().to_owned())
            }
        }
    }
}

fn copy_folder(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target: PathBuf = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}
