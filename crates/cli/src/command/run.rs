//! `nandu run`: an experiment, or all of a paper, with tables on the terminal and a report beside the results.

use super::{command_line, outcome_text, parse_size};
use crate::Context;
use crate::failure::Failure;
use crate::meter::MeterReport;
use crate::output::complain;
use crate::progress::Progress;
use clap::Args;
use nandu_base::ByteCount;
use nandu_drives::target::{DEFAULT_SCRATCH_BYTES, OpenOptions, OpenTarget, Target, TargetError};
use nandu_lab::kind::bench::LOCAL;
use nandu_lab::{Experiment, LabError, LocalTarget, Outcome, RunOptions, write_report};
use serde::Serialize;
use std::cell::RefCell;
use std::path::PathBuf;

/// Run an experiment, or all of a paper: measure, compare with what was published, write a report
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu run tour                   this disk and four simulated ones, 2 minutes
  nandu run tour --dir /mnt/nvme   the disk under another directory
  nandu run s000/table-3-1 --seed 7
  nandu run s000/figure-4-2 --full
  nandu run mine.toml --out results
  nandu run s003                   all of that paper; report in out/s003

Ctrl-C stops after the requests in flight. Finished steps stay; the same command goes on from there. \
`nandu list` shows the experiments.")]
pub(crate) struct RunArguments {
    /// Name of an experiment, or its file, which ends in .toml, or a paper: what stands before the slash
    #[arg(value_name = "NAME|FILE|PAPER")]
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
    /// At the scale of the paper, where that takes long; results go to DIR/NAME-full. Of a whole paper those
    /// that have one scale run at that
    #[arg(long)]
    full: bool,
    /// Measure again what an earlier run has finished
    #[arg(long)]
    fresh: bool,
    /// Print the outcome as JSON, and nothing else on stdout
    #[arg(long)]
    json: bool,
}

/// What an experiment gives as JSON.
#[derive(Serialize)]
struct RunReport {
    #[serde(flatten)]
    outcome: Outcome,
    /// Of the command, where the experiment is of this machine.
    #[serde(flatten)]
    meter: MeterReport,
}

/// What several experiments give as JSON.
#[derive(Serialize)]
struct RunReports {
    outcomes: Vec<RunReport>,
}

/// Runs the experiments and writes their report.
pub(crate) fn run(arguments: &RunArguments, context: &Context) -> Result<(), Failure> {
    // All are read before the first one runs.
    let (experiments, is_paper) = context.interrupt.before_work(|| load_all(arguments))?;
    if !arguments.dir.is_dir() {
        return Err(Failure::input(format!(
            "{}: no such directory; --dir names the one whose disk is measured",
            arguments.dir.display()
        )));
    }
    let mut reports = Vec::new();
    for (index, experiment) in experiments.iter().enumerate() {
        if is_paper && !context.is_quiet {
            let (number, count) = (index + 1, experiments.len());
            complain(&format!("{} ({number} of {count})", experiment.name));
        }
        let report = run_one(experiment, arguments, context)?;
        if !arguments.json {
            outcome_text::print(&report.outcome, context)?;
            if is_local(experiment) {
                context.output.line("")?;
                context.output.sentence(&report.meter.line())?;
            }
        }
        if is_paper {
            write_report(&arguments.out.join(&experiment.name))?;
        }
        reports.push(report);
    }
    let last = reports.pop().expect("there is at least one experiment");
    let name = if is_paper { &arguments.experiment } else { &last.outcome.experiment };
    let report = write_report(&arguments.out.join(name))?.path;
    if !arguments.json {
        let report = context.output.strong(&report.display().to_string());
        return context.output.line(&format!("\nreport: {report}"));
    }
    if !is_paper {
        return context.output.json("run", &last);
    }
    reports.push(last);
    context.output.json("run PAPER", &RunReports { outcomes: reports })
}

/// The experiments that are named, and whether they are those of a paper.
fn load_all(arguments: &RunArguments) -> Result<(Vec<Experiment>, bool), Failure> {
    let members = members_of(&arguments.experiment);
    let is_paper = !members.is_empty();
    let names = if is_paper { members } else { vec![arguments.experiment.clone()] };
    let experiments: Result<Vec<Experiment>, Failure> =
        names.iter().map(|name| load(name, arguments.full, is_paper)).collect();
    let experiments = experiments?;
    nandu_lab::fitted::check_with_profiles(&experiments).map_err(Failure::input)?;
    Ok((experiments, is_paper))
}

/// The experiments of a paper, in the order of the list; none where `name` is no paper's.
pub(crate) fn members_of(name: &str) -> Vec<String> {
    let entries = nandu_lab::list().into_iter().map(|entry| entry.name);
    let in_paper = |member: &String| {
        member.strip_prefix(name).is_some_and(|rest| rest.starts_with('/') && rest.len() > 1)
    };
    entries.filter(in_paper).collect()
}

/// Reads an experiment; one of a paper that has a single scale has that with `--full`, too.
fn load(name: &str, is_full: bool, is_of_paper: bool) -> Result<Experiment, Failure> {
    let experiment = nandu_lab::load(name)?;
    if !is_full {
        return Ok(experiment);
    }
    let name = experiment.name.clone();
    match experiment.clone().at_full_scale() {
        Some(full) => Ok(full),
        None if is_of_paper => Ok(experiment),
        None => Err(Failure::input(format!("{name} has one scale; leave out --full"))),
    }
}

fn run_one(
    experiment: &Experiment,
    arguments: &RunArguments,
    context: &Context,
) -> Result<RunReport, Failure> {
    let mut progress = Progress::new(context, 1);
    if is_local(experiment) {
        progress.begin_meter();
    }
    let trouble = RefCell::new(None);
    let mut options = RunOptions::new(&arguments.out);
    options.seed = arguments.seed;
    options.resume = !arguments.fresh;
    options.command = command_line();
    options.local = Some(local_target(arguments, &progress, &trouble));
    let answer = nandu_lab::run(experiment, &options, &mut progress);
    drop(options);
    let meter = progress.end_meter(None);
    drop(progress);
    let outcome = answer.map_err(|error| match (error, trouble.take()) {
        // The laboratory knows the message only; we know the kind of trouble, and so the exit code.
        (LabError::Step { .. }, Some(error)) => in_run(error.into()),
        (error, _) => error.into(),
    })?;
    Ok(RunReport { outcome, meter })
}

/// Whether an experiment measures this machine, too.
fn is_local(experiment: &Experiment) -> bool {
    experiment.measure.as_measurement().targets().iter().any(|target| target == LOCAL)
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
