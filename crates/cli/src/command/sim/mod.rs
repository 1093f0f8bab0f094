//! `nandu sim`: a translation layer over chips, driven by a trace or a generator.
//!
//! ```text
//!   arguments ─▶ Job ─┬─ --dry-run ─▶ first requests as understood
//!                     ├─ one run ───▶ table, --json, --record
//!                     └─ --sweep ───▶ Sweep on all cores ─▶ table, --json, Parquet
//! ```
//!
//! 1. Everything that can be refused is refused before the simulation starts.
//! 2. Apart from `run` the JSON holds nothing of this machine: same seed, same bytes.

mod dry_run;
mod grid;
mod job;
mod table;

use crate::Context;
use crate::failure::Failure;
use crate::json;
use crate::memory::check_free;
use crate::output::{OutputFiles, complain};
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use crate::stopwatch::{Stopwatch, duration_in_words};
use clap::Args;
use nandu_base::words::{counted, wrap};
use nandu_sim::{Job, Phase, Setup, SimObserver, SimReport};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// A simulation that is done sooner tells no progress.
const PATIENCE: Duration = Duration::from_secs(2);

/// Simulate a translation layer over flash chips, with write amplification and response times
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu sim myers_slc --workload uniform     one chip, page map, 85 % in use
  nandu sim myers_slc --workload zipf:0.9,read=30 --ftl page --victim fifo
  nandu sim device-a --trace prn_0.csv.gz --remap modulo --json report.json
  nandu sim nvme-tlc-2024 --set capacity=64GiB --workload uniform \\
      --mode event --queue-depth 64
  nandu sim myers_slc --workload uniform --physical-erase-blocks 2048 \\
      --logical-pages 117964 --erase-block-pages 64 --requests 1000000 --seed 7
  nandu sim myers_slc --workload uniform --sweep victim=greedy,fifo,random \\
      --sweep logical-pages=65536,104857,117964 --parquet grid.parquet
  nandu sim myers_slc --trace mystery.csv --dry-run \\
      --columns time=us,op,offset=sector,size

DRIVE is a profile (`nandu drives`), with or without `sim:`, a TOML file of one, or a chip preset. \
A key of --set or --sweep is one of the profile (`ssd.` may be left out), such as ftl.victim or \
ssd.channel_count; --sweep also takes the options above with a value. docs/simulation.md explains \
the modes, each figure, and what is not simulated.")]
pub(crate) struct SimArguments {
    #[command(flatten)]
    drive: job::DriveArguments,
    #[command(flatten)]
    source: job::SourceArguments,
    #[command(flatten)]
    run: job::RunArguments,
    /// Run every combination: key=a,b,c (or a;b;c where values hold commas); may be repeated
    #[arg(long, value_name = "KEY=A,B,..", conflicts_with_all = ["dry_run", "record"])]
    sweep: Vec<String>,
    /// Simulations of a sweep at a time [all cores]
    #[arg(long, value_name = "N", requires = "sweep",
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    threads: Option<u32>,
    /// Where a sweep writes its table
    #[arg(long, value_name = "FILE", requires = "sweep", default_value = "sweep.parquet")]
    parquet: PathBuf,
    /// Print the first ten requests as understood, and simulate nothing
    #[arg(long)]
    dry_run: bool,
    /// Write the measured requests as a compact trace
    #[arg(long, value_name = "FILE", conflicts_with = "dry_run")]
    record: Option<PathBuf>,
    /// Write the report as JSON to FILE; without FILE to stdout, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    #[command(flatten)]
    files: OutputFiles,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    report: &'a SimReport,
    run: RunFacts,
}

/// Simulates, and prints the report or the sweep.
pub(crate) fn run(arguments: &SimArguments, context: &Context) -> Result<(), Failure> {
    check_outputs(arguments)?;
    let job = job::of(arguments)?;
    if !arguments.sweep.is_empty() {
        return grid::run(&job, arguments, context);
    }
    let setup = context.interrupt.before_work(|| job.drive.resolve(false))?;
    if arguments.dry_run {
        let is_json = arguments.json_to_stdout();
        return context.interrupt.at_any_time(|| dry_run::print(&job, is_json, context));
    }
    check_memory(&job, &setup, "")?;
    let stopwatch = Stopwatch::start();
    let (progress, stop) = (Progress::new(context, 1), context.interrupt.flag());
    let warm_up = WarmUp { started: None, is_told: context.is_quiet, setup: &setup, context };
    let mut watch = Watch { progress, stopwatch, stop, warm_up };
    let mut report = match &arguments.record {
        None => context.interrupt.at_any_time(|| job.run(&mut watch))?,
        Some(path) => {
            let file = arguments.files.begin(path, &context.interrupt)?;
            let work = || dry_run::record(&job, file.as_file(), path, &mut watch);
            let report = context.interrupt.at_any_time_without(file.path(), work)?;
            arguments.files.finish(file, path)?;
            report
        }
    };
    report.wall_ns = Some(stopwatch.nanos());
    drop(watch);
    for warning in &report.warnings {
        warn(&warning.text, context);
    }
    // What was simulated is shown also where no file can hold it.
    let answer = Answer { report: &report, run: RunFacts::since(context.started) };
    let written = write_json(arguments, "sim", &answer, context);
    if arguments.json_to_stdout() {
        context.output.json("sim", &answer)?;
    } else {
        table::print(&report, context)?;
    }
    written
}

impl SimArguments {
    fn json_to_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    fn json_file(&self) -> Option<&Path> {
        self.json.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// Says on stderr what to know before the figures are believed.
fn warn(text: &str, context: &Context) {
    for line in wrap(&format!("warning: {text}"), context.output.text_width()) {
        complain(&line);
    }
}

fn write_json(
    arguments: &SimArguments,
    command: &'static str,
    value: &impl Serialize,
    context: &Context,
) -> Result<(), Failure> {
    match arguments.json_file() {
        None => Ok(()),
        Some(path) => {
            let text = json::document(command, value) + "\n";
            arguments.files.write(path, text.as_bytes(), &context.interrupt)
        }
    }
}

fn check_outputs(arguments: &SimArguments) -> Result<(), Failure> {
    let parquet = (!arguments.sweep.is_empty()).then_some(arguments.parquet.as_path());
    let outputs = [arguments.json_file(), arguments.record.as_deref(), parquet];
    let paths: Vec<&Path> = outputs.into_iter().flatten().collect();
    for (position, path) in paths.iter().enumerate() {
        arguments.files.check(path)?;
        let is_input = arguments.source.trace() == Some(path);
        if paths[..position].contains(path) || is_input {
            let path = path.display();
            return Err(Failure::input(format!("{path}: is named twice; name another file")));
        }
    }
    Ok(())
}

/// Refuses a simulation that does not fit the memory that is free; `which` names it, empty if there is one.
fn check_memory(job: &Job, setup: &Setup, which: &str) -> Result<(), Failure> {
    let pages = setup.nand.geometry.flash_page_count();
    let checked = if job.run.checks { " with --check" } else { "" };
    let what = format!("a simulation of {pages} flash pages{checked}{which}");
    let advice = format!("simulate fewer erase blocks, with {}", smaller_drive(setup, 4));
    check_free(setup.memory(&job.run), &what, &advice)
}

/// The option that makes a drive about so many times smaller.
fn smaller_drive(setup: &Setup, factor: u64) -> String {
    let power_below = |size: u64| 1_u64 << size.max(1).ilog2();
    if nandu_nand::preset(&setup.name).is_ok() {
        let blocks = u64::from(setup.nand.geometry.erase_block_count());
        return format!("--physical-erase-blocks {}", power_below(blocks / factor).max(64));
    }
    let mebibytes = setup.geometry.capacity().0 >> 20;
    format!("--set capacity={}MiB", power_below(mebibytes / factor).max(64))
}

/// Tells once how long the warm-up is going to take, where that is long.
struct WarmUp<'a> {
    started: Option<Stopwatch>,
    is_told: bool,
    setup: &'a Setup,
    context: &'a Context,
}

/// A warm-up that takes longer is announced.
const WARM_UP_SECONDS: f64 = 60.0;
/// How long that of the smaller drive takes, about, which is offered.
const SMALLER_SECONDS: f64 = 10.0;

impl WarmUp<'_> {
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a ratio of two times of one day at most, both positive"
    )]
    fn look(&mut self, done: u64, total: u64) {
        let started = *self.started.get_or_insert_with(Stopwatch::start);
        if self.is_told || done == 0 || started.elapsed() < PATIENCE {
            return;
        }
        self.is_told = true;
        let seconds = started.elapsed().as_secs_f64() / done as f64 * total as f64;
        if seconds < WARM_UP_SECONDS {
            return;
        }
        let factor = (seconds / SMALLER_SECONDS).clamp(2.0, 1e6) as u64;
        let text = format!(
            "note: before it is measured the drive is written until it is steady, {total} units, which takes \
             about {}; a smaller one has the same write amplification and response times: {}",
            duration_in_words(seconds),
            smaller_drive(self.setup, factor)
        );
        for line in wrap(&text, self.context.output.text_width()) {
            complain(&line);
        }
    }
}

/// Shows how far a simulation is, if it takes long.
struct Watch<'a> {
    progress: Progress,
    stopwatch: Stopwatch,
    stop: Arc<AtomicBool>,
    warm_up: WarmUp<'a>,
}

impl SimObserver for Watch<'_> {
    fn progress(&mut self, phase: Phase, done: u64, total: u64) {
        if phase == Phase::WarmUp {
            let warm_up = &mut self.warm_up;
            self.progress.aside(|| warm_up.look(done, total));
        }
        if self.stopwatch.elapsed() < PATIENCE {
            return;
        }
        let share = if total == 0 { 0.0 } else { done as f64 / total as f64 };
        let what = match total {
            0 => format!("{}, {}", phase.label(), counted(done, "request")),
            _ => format!("{}, {done} of {total}", phase.label()),
        };
        self.progress.show(share, &what);
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_interrupted()
    }

    fn stop_flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }
}
