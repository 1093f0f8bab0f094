//! `nandu verify`: whether the shapes of the papers hold.

use super::{command_line, outcome_text};
use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use nandu_lab::{Outcome, RunOptions, Verdict};
use serde::Serialize;
use std::path::PathBuf;

/// Check that the simulated drives show what the papers published
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu verify                     every experiment
  nandu verify s000/table-3-1
  nandu verify --json > verdicts.json

Nothing is measured on this machine's disk: steps on `local` are left out. Exit code 1 says that some
shape does not hold.")]
pub(crate) struct VerifyArguments {
    /// Experiments, or their files; all of them unless named
    #[arg(value_name = "NAME|FILE")]
    experiments: Vec<String>,
    /// Results go to DIR/NAME
    #[arg(long, value_name = "DIR", default_value = "out/verify")]
    out: PathBuf,
    /// Seed of everything random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Use the finished steps of an earlier verification, for example after Ctrl-C
    #[arg(long)]
    resume: bool,
    /// Print the verdicts as JSON, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Verified {
    experiment: String,
    title: String,
    holds: bool,
    verdicts: Vec<Verdict>,
}

impl Verified {
    fn of(outcome: Outcome) -> Self {
        let holds = outcome.holds();
        let Outcome { experiment, title, verdicts, .. } = outcome;
        Self { experiment, title, holds, verdicts }
    }
}

/// Runs them and judges.
pub(crate) fn run(arguments: &VerifyArguments, context: &Context) -> Result<(), Failure> {
    let names = match arguments.experiments.as_slice() {
        [] => nandu_lab::list().into_iter().map(|entry| entry.name).collect(),
        named => named.to_vec(),
    };
    // All are read before the first one runs: a typo in the last is told at once.
    let loaded: Result<Vec<_>, _> = names.iter().map(|name| nandu_lab::load(name)).collect();
    let mut verified = Vec::new();
    for experiment in loaded?.iter().filter(|experiment| !experiment.shape.is_empty()) {
        let mut progress = Progress::new(&context.interrupt, 1);
        let mut options = RunOptions::new(&arguments.out);
        options.seed = arguments.seed;
        options.resume = arguments.resume;
        options.command = command_line();
        let answer = nandu_lab::run(experiment, &options, &mut progress);
        drop(progress);
        let outcome = answer.map_err(|error| advise(error.into()))?;
        if !arguments.json {
            let count = outcome.verdicts.iter().filter(|verdict| verdict.holds).count();
            let total = outcome.verdicts.len();
            let name = &experiment.name;
            context.output.heading(&format!("{name}: {count} of {total} shapes hold"))?;
            outcome_text::print_verdicts(&outcome, context)?;
        }
        verified.push(Verified::of(outcome));
    }
    if verified.is_empty() {
        return Err(Failure::input("no shape to verify; name an experiment that has some"));
    }
    if arguments.json {
        context.output.json(&verified)?;
    }
    let failed: Vec<&str> =
        verified.iter().filter(|one| !one.holds).map(|one| one.experiment.as_str()).collect();
    if failed.is_empty() {
        return Ok(());
    }
    Err(Failure::shape(format!("shapes do not hold in {}", failed.join(", "))))
}

/// Verification resumes only if asked.
fn advise(failure: Failure) -> Failure {
    if failure.is_interrupted() {
        return Failure::interrupted("finished steps are kept; pass --resume to go on from there");
    }
    failure
}
