//! `nandu run`: one experiment, with its tables on the terminal and its report beside the results.

use super::{command_line, outcome_text, parse_size};
use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use clap::Args;
use nandu_base::ByteCount;
use nandu_drives::target::{DEFAULT_SCRATCH_BYTES, OpenOptions, OpenTarget, Target, TargetError};
use nandu_lab::{LabError, LocalTarget, RunOptions, write_report};
use std::cell::RefCell;
use std::path::PathBuf;

/// Run an experiment: measure, compare with what was published, write a report
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu run tour                      this machine's disk beside four simulated drives, about 2 minutes
  nandu run tour --dir /mnt/nvme      the disk under another directory
  nandu run s000/table-3-1 --seed 7
  nandu run s000/figure-4-2 --full
  nandu run mine.toml --out results

Ctrl-C stops after the requests in flight. Finished steps stay; the same command goes on from there.
`nandu list` shows the experiments.")]
pub(crate) struct RunArguments {
    /// Name of an experiment, or its file, which ends in .toml
    #[arg(value_name = "NAME|FILE")]
    experiment: String,
    /// Results go to DIR/NAME, the report to DIR/NAME/report.html
    #[arg(long, value_name = "DIR", default_value = "out")]
    out: PathBuf,
    /// Seed of everything random; the same seed gives the same simulated results, bit for bit
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Directory whose disk stands for `local`; a scratch file is made in it and never stays
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
    /// Size of that scratch file
    #[arg(long, value_name = "SIZE", value_parser = parse_size, default_value = "1GiB")]
    size: ByteCount,
    /// At the scale of the paper, where that takes long; results go to DIR/NAME-full
    #[arg(long)]
    full: bool,
    /// Measure again what an earlier run has finished
    #[arg(long)]
    fresh: bool,
    /// Print the outcome as JSON, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub(crate) fn run(arguments: &RunArguments, context: &Context) -> Result<(), Failure> {
    let mut experiment = nandu_lab::load(&arguments.experiment)?;
    nandu_lab::fitted::check_with_profiles(std::slice::from_ref(&experiment))
        .map_err(Failure::input)?;
    if arguments.full {
        let name = experiment.name.clone();
        let Some(full) = experiment.at_full_scale() else {
            return Err(Failure::input(format!("{name} has one scale; leave out --full")));
        };
        experiment = full;
    }
    if !arguments.dir.is_dir() {
        return Err(Failure::input(format!(
            "{}: no such directory; --dir names the one whose disk is measured",
            arguments.dir.display()
        )));
    }
    let mut progress = Progress::new(&context.interrupt, 1);
    let trouble = RefCell::new(None);
    let mut options = RunOptions::new(&arguments.out);
    options.seed = arguments.seed;
    options.resume = !arguments.fresh;
    options.command = command_line();
    options.local = Some(local_target(arguments, &progress, &trouble));
    let answer = nandu_lab::run(&experiment, &options, &mut progress);
    drop(options);
    drop(progress);
    let outcome = answer.map_err(|error| match (error, trouble.take()) {
        // The laboratory knows the message only; we know the kind of trouble, and so the exit code.
        (LabError::Step { .. }, Some(error)) => in_run(error.into()),
        (error, _) => error.into(),
    })?;
    let report = write_report(&arguments.out.join(&experiment.name))?;
    if arguments.json {
        return context.output.json(&outcome);
    }
    outcome_text::print(&outcome, context)?;
    context.output.line("")?;
    context
        .output
        .line(&format!("report: {}", context.output.strong(&report.display().to_string())))
}

/// An interrupt while the scratch file was being filled, told as the run's.
fn in_run(failure: Failure) -> Failure {
    if failure.is_interrupted() {
        return Failure::interrupted(
            "finished steps are kept, the scratch file is gone; run the same command again to resume",
        );
    }
    failure
}

/// The scratch file that stands for `local`; what goes wrong with it is left in `trouble`.
fn local_target<'a>(
    arguments: &'a RunArguments,
    progress: &Progress,
    trouble: &'a RefCell<Option<TargetError>>,
) -> LocalTarget<'a> {
    let progress = progress.clone();
    let size = arguments.size;
    let open = move || {
        let options =
            OpenOptions { size: Some(size), seed: arguments.seed, ..OpenOptions::default() };
        let mut filled = |bytes: ByteCount| {
            let share = bytes.0 as f64 / size.0 as f64;
            progress.show(0.0, &format!("filling the scratch file, {:.0} %", share * 100.0));
        };
        let target = Target::Scratch(arguments.dir.clone());
        let answer = target.open_watched(&options, &mut filled, &|| progress.is_interrupted());
        answer.map(OpenTarget::into_device).map_err(|error| {
            let message = error.to_string();
            trouble.replace(Some(error));
            message
        })
    };
    let note = if size == DEFAULT_SCRATCH_BYTES { String::new() } else { format!(", {size}") };
    let directory = arguments.dir.clone();
    LocalTarget { name: format!("{}{note}", directory.display()), open: Box::new(open), directory }
}
