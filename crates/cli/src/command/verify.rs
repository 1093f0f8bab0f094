//! `nandu verify`: whether the shapes of the papers hold. Experiments run side by side, one on each
//! core; what they find does not depend on it.
//!
//! ```text
//!   worker 0 ─┐ takes the next experiment that nobody has
//!   worker 1 ─┴─▶ News: share done, answer ─▶ main thread: progress, verdicts in the order of the list
//! ```
//!
//! 1. Verdicts are printed in the order of the list; after an error or Ctrl-C no experiment begins.
//! 2. What is random runs at several seeds.
//! 3. With `--kept` a result that is kept is compared point by point; none that is kept is no failure.

mod perturb;

use super::run::members_of;
use super::{command_line, outcome_text};
use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use nandu_base::words::counted;
use nandu_lab::kept::{Kept, compare};
use nandu_lab::{
    Class, Experiment, LabError, Outcome, RunObserver, RunOptions, Verdict, run_seeds,
};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};

/// Check that the simulated drives show what the papers published
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu verify                     every experiment
  nandu verify s000/table-3-1
  nandu verify s003                all of a paper
  nandu verify --json > verdicts.json
  nandu verify --full              nine seeds
  nandu verify --kept results/my-machine
  nandu verify --perturb s000/table-3-1

Nothing is measured on this machine's disk: steps on `local` are left out. Exit code 1 says that some \
shape does not hold, or that a kept result is not what the code finds now.")]
pub(crate) struct VerifyArguments {
    /// Experiments, their files, or papers; all experiments unless named
    #[arg(value_name = "NAME|FILE|PAPER")]
    experiments: Vec<String>,
    /// Results go to DIR/NAME
    #[arg(long, value_name = "DIR", default_value = "out/verify")]
    out: PathBuf,
    /// First seed of everything random; what is random runs at three seeds, with --full at nine
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Nine seeds in place of three
    #[arg(long, conflicts_with = "seeds")]
    full: bool,
    /// Seeds that verdicts go by [default: 3, with --full 9]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=99))]
    seeds: Option<u64>,
    /// Double and halve each parameter of each profile and say which shapes notice; takes an hour
    #[arg(long, conflicts_with_all = ["full", "seeds", "kept"])]
    perturb: bool,
    /// Experiments at a time [default: one for each core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    threads: Option<u32>,
    /// Use the finished steps of an earlier verification, for example after Ctrl-C
    #[arg(long)]
    resume: bool,
    /// Compare with what is kept in DIR/NAME, as `nandu run` leaves it: every simulated point; or in DIR/NAME.json,
    /// as --perturb does: the number that decides each shape
    #[arg(long, value_name = "DIR")]
    kept: Option<PathBuf>,
    /// Leave out whether fits of all profiles name figures that there are: with a changed profile an experiment that
    /// is not asked for may be none
    #[arg(long, hide = true)]
    unlinked: bool,
    /// Print the verdicts as JSON, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

/// Seeds that verdicts go by.
const SEED_COUNT: u64 = 3;
/// Those of `--full`.
const FULL_SEED_COUNT: u64 = 9;

#[derive(Serialize)]
struct Verified {
    experiment: String,
    title: String,
    holds: bool,
    /// The seeds that the verdicts go by.
    seeds: Vec<u64>,
    verdicts: Vec<Verdict>,
    /// The kept result beside it, where one is.
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<Kept>,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct AllVerified<'a> {
    experiments: &'a [Verified],
}

impl Verified {
    fn of(outcome: Outcome, kept: Option<Kept>) -> Self {
        let holds = outcome.holds();
        let Outcome { experiment, title, seeds, verdicts, .. } = outcome;
        Self { experiment, title, holds, seeds, verdicts, kept }
    }
}

/// Runs them and judges.
pub(crate) fn run(arguments: &VerifyArguments, context: &Context) -> Result<(), Failure> {
    // All are read before the first one runs: a typo in the last is told at once.
    let loaded = context.interrupt.before_work(|| load_all(arguments))?;
    if arguments.perturb {
        return perturb::run(&loaded, arguments, context);
    }
    if let Some(folder) = arguments.kept.as_ref().filter(|folder| !folder.is_dir()) {
        return Err(Failure::input(format!(
            "{}: no such directory; --kept names one that holds NAME/series.csv or NAME.json, such as results/MACHINE",
            folder.display()
        )));
    }
    let verified = run_all(&loaded, arguments, context)?;
    if verified.is_empty() {
        return Err(Failure::input("no shape to verify; name an experiment that has some"));
    }
    if arguments.json {
        context.output.json("verify", &AllVerified { experiments: &verified })?;
    } else {
        summary(&verified, context)?;
    }
    let names = |is_wrong: fn(&&Verified) -> bool| -> Vec<&str> {
        verified.iter().filter(is_wrong).map(|one| one.experiment.as_str()).collect()
    };
    let failed = names(|one| !one.holds);
    let stale = names(|one| one.kept.as_ref().is_some_and(|kept| !kept.is_current()));
    let mut wrong = Vec::new();
    if !failed.is_empty() {
        wrong.push(format!("shapes do not hold in {}", failed.join(", ")));
    }
    if !stale.is_empty() {
        wrong.push(format!("kept results are not what the code finds: {}", stale.join(", ")));
    }
    if wrong.is_empty() { Ok(()) } else { Err(Failure::shape(wrong.join("; "))) }
}

/// Those that are named and have shapes, or all that have some.
fn load_all(arguments: &VerifyArguments) -> Result<Vec<Experiment>, Failure> {
    let names: Vec<String> = match arguments.experiments.as_slice() {
        [] => nandu_lab::list().into_iter().map(|entry| entry.name).collect(),
        named => named.iter().flat_map(|name| experiments_of(name)).collect(),
    };
    let loaded: Result<Vec<_>, _> = names.iter().map(|name| nandu_lab::load(name)).collect();
    let mut loaded = loaded?;
    // One that is named twice has one place for its results.
    let mut seen = BTreeSet::new();
    loaded
        .retain(|experiment| !experiment.shape.is_empty() && seen.insert(experiment.name.clone()));
    if !arguments.unlinked {
        nandu_lab::fitted::check_with_profiles(&loaded).map_err(Failure::input)?;
    }
    Ok(loaded)
}

/// The experiments of a paper, or the one of that name.
fn experiments_of(name: &str) -> Vec<String> {
    let members = members_of(name);
    if members.is_empty() { vec![name.to_owned()] } else { members }
}

/// What a worker tells.
enum News {
    /// An experiment is so far, in thousandths, and does this.
    Share(usize, u32, String),
    /// An experiment has ended.
    Answer(usize, Box<Result<Outcome, LabError>>),
}

/// Runs all, a few at a time, and prints verdicts as soon as those before them are printed.
fn run_all(
    experiments: &[Experiment],
    arguments: &VerifyArguments,
    context: &Context,
) -> Result<Vec<Verified>, Failure> {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let threads = arguments.threads.map_or(cores, |threads| threads as usize);
    let seeds = if arguments.full { FULL_SEED_COUNT } else { SEED_COUNT };
    let seeds = arguments.seeds.unwrap_or(seeds);
    let next = AtomicUsize::new(0);
    let (sender, news) = channel();
    // An error of one experiment ends the others as Ctrl-C does.
    let stop = context.interrupt.flag();
    std::thread::scope(|scope| {
        for _ in 0..threads.min(experiments.len()) {
            let (next, stop, sender) = (&next, &stop, sender.clone());
            scope.spawn(move || {
                let take = || Some(next.fetch_add(1, Ordering::Relaxed));
                while let Some(index) = take().filter(|_| !stop.load(Ordering::Relaxed)) {
                    let Some(experiment) = experiments.get(index) else { break };
                    let mut watch = Watch::new(index, &sender, Arc::clone(stop));
                    let answer = run_seeds(experiment, &options(arguments), seeds, &mut watch);
                    // Nobody listens any more after an error of the terminal.
                    let _ = sender.send(News::Answer(index, Box::new(answer)));
                }
            });
        }
        drop(sender);
        let progress = Progress::new(context, 1);
        let mut shares = vec![0_u32; experiments.len()];
        let mut waiting = BTreeMap::new();
        let mut verified = Vec::new();
        for told in news {
            match told {
                News::Share(index, share, what) => {
                    shares[index] = share;
                    let sum: u64 = shares.iter().copied().map(u64::from).sum();
                    let fraction = sum as f64 / (1000 * experiments.len()) as f64;
                    progress.show(fraction, &format!("{}: {what}", experiments[index].name));
                }
                News::Answer(index, answer) => {
                    let outcome = (*answer).map_err(|error| {
                        stop.store(true, Ordering::Relaxed);
                        advise(error.into())
                    })?;
                    shares[index] = 1000;
                    waiting.insert(index, outcome);
                }
            }
            while let Some(outcome) = waiting.remove(&verified.len()) {
                let kept = match &arguments.kept {
                    Some(folder) => compare(folder, &experiments[verified.len()], &outcome)?,
                    None => None,
                };
                if !arguments.json {
                    progress.aside(|| {
                        print(&outcome, context)?;
                        match &arguments.kept {
                            Some(_) => print_kept(kept.as_ref(), outcome.seed, context),
                            None => Ok(()),
                        }
                    })?;
                }
                verified.push(Verified::of(outcome, kept));
            }
        }
        Ok(verified)
    })
}

fn options(arguments: &VerifyArguments) -> RunOptions<'static> {
    let mut options = RunOptions::new(&arguments.out);
    options.seed = arguments.seed;
    options.resume = arguments.resume;
    options.command = command_line();
    options
}

fn print(outcome: &Outcome, context: &Context) -> Result<(), Failure> {
    let (name, seeds) = (&outcome.experiment, outcome.seeds.len());
    let counts = outcome.counts();
    let seeds = if seeds > 1 { format!(", {seeds} seeds") } else { String::new() };
    context.output.heading(&format!("{name}: {counts}{seeds}"))?;
    outcome_text::print_verdicts(outcome, context)
}

/// What became of the kept result.
fn print_kept(kept: Option<&Kept>, seed: u64, context: &Context) -> Result<(), Failure> {
    let (is_well, mark, text) = match kept {
        None => (true, "none ", "no result is kept".to_owned()),
        Some(kept) if kept.is_current() => (true, "same ", kept.text(seed)),
        Some(kept) => (false, "STALE", kept.text(seed)),
    };
    outcome_text::print_item(&context.output.verdict(is_well, mark), &text, context)
}

/// What nandu reproduces, by what it is worth.
fn summary(verified: &[Verified], context: &Context) -> Result<(), Failure> {
    let verdicts = || verified.iter().flat_map(|one| &one.verdicts);
    context.output.heading(&format!(
        "{} of {}, apart by what they are worth",
        counted(verdicts().count() as u64, "shape"),
        counted(verified.len() as u64, "experiment")
    ))?;
    for class in Class::ALL {
        let of_class = || verdicts().filter(|verdict| verdict.class == class);
        let (all, holding) =
            (of_class().count(), of_class().filter(|verdict| verdict.holds).count());
        if all > 0 {
            let text = format!("{holding} of {all} {}", class.explanation());
            let mark = if holding == all { "holds" } else { "FAILS" };
            outcome_text::print_item(
                &context.output.verdict(holding == all, mark),
                &text,
                context,
            )?;
        }
    }
    Ok(())
}

/// Tells the main thread how far an experiment is.
struct Watch<'a> {
    index: usize,
    sender: &'a Sender<News>,
    stop: Arc<AtomicBool>,
    step: usize,
    step_count: usize,
    label: String,
    told: u32,
}

impl<'a> Watch<'a> {
    fn new(index: usize, sender: &'a Sender<News>, stop: Arc<AtomicBool>) -> Self {
        let label = String::new();
        Self { index, sender, stop, step: 0, step_count: 1, label, told: 0 }
    }
}

impl nandu_probe::Observer for Watch<'_> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share between 0 and 1 of a thousand"
    )]
    fn progress(&mut self, fraction: f64, _what: &str) {
        let steps = self.step_count.max(1) as f64;
        let share = (self.step as f64 + fraction.clamp(0.0, 1.0)) / steps;
        let share = (share * 1000.0) as u32;
        if share > self.told {
            self.told = share;
            let _ = self.sender.send(News::Share(self.index, share, self.label.clone()));
        }
    }

    fn is_cancelled(&self) -> bool {
        self.stop.load(Ordering::SeqCst)
    }
}

impl RunObserver for Watch<'_> {
    fn step_started(&mut self, index: usize, count: usize, label: &str, _resumed: bool) {
        (self.step, self.step_count) = (index, count);
        self.label = label.to_string();
        nandu_probe::Observer::progress(self, 0.0, "");
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}

/// Verification resumes only if asked.
fn advise(failure: Failure) -> Failure {
    if failure.is_interrupted() {
        return Failure::interrupted("finished steps are kept; pass --resume to go on from there");
    }
    failure
}
