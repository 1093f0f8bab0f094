//! `nandu bench ycsb`: one of YCSB's core workloads.

use super::cost::Cost;
use super::{
    LoadBytes, RunArguments, at_work, check_times, clients_in_words, report, settings_of,
    tell_course, tell_outcome, tell_retries,
};
use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::{Args, ValueEnum};
use nandu::Settings;
use nandu_base::ByteCount;
use nandu_bench::Outcome;
use nandu_bench::ycsb::{Counts, FIELD_COUNT, KeyChoice, WorkloadKind, Ycsb};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::Arc;

/// YCSB's core workloads a to f over one table of records with ten fields
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu bench ycsb --workload c        lookups by one client on this disk
  nandu bench ycsb --workload a --clients 16 --device sim:nvme-tlc-2024
  nandu bench ycsb --workload c --clients 64 --distribution uniform \\
      --memory 1MiB --device sim:nvme-tlc-2024
                                       what the depth of the queue is worth
  nandu bench ycsb --workload f --clients 8 --cores 2 --processor-time 20us \\
      --device sim:nvme-tlc-2024 --json
  nandu bench ycsb --set durability=none --set torn_pages=trust
  nandu bench ycsb --workload a --clients 8 --device sim:nvme-tlc-2024 --out out
                                       with figures, in out/ycsb-a/report.html

On a simulated drive time is virtual: the same seed gives the same results, bit for bit, and `history` \
is a hash of when each operation ended. There the processor takes no time but --processor-time.

On a disk each client is a thread. A latency runs from when an operation was due: the end of the one \
before, and --think-time.")]
pub(super) struct YcsbArguments {
    /// a: 50 % updates, b: 5 %, c: none, d: 5 % inserts, e: scans, f: read-modify-writes
    #[arg(long, value_enum, default_value_t = WorkloadArgument::A)]
    workload: WorkloadArgument,
    /// Records that are loaded before
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    records: u64,
    /// Operations of all clients together
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// How records are drawn; the workload's own way if not given
    #[arg(long, value_enum)]
    distribution: Option<DistributionArgument>,
    /// Bytes of each of the ten fields
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    field_bytes: u32,
    /// Write a report with figures: results to DIR/ycsb-WORKLOAD, the page to report.html there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    #[command(flatten)]
    run: RunArguments,
}

/// One of the workloads, as a word of the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum WorkloadArgument {
    A,
    B,
    C,
    D,
    E,
    F,
}

impl WorkloadArgument {
    /// The workload that it names.
    pub(crate) const fn kind(self) -> WorkloadKind {
        match self {
            Self::A => WorkloadKind::A,
            Self::B => WorkloadKind::B,
            Self::C => WorkloadKind::C,
            Self::D => WorkloadKind::D,
            Self::E => WorkloadKind::E,
            Self::F => WorkloadKind::F,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DistributionArgument {
    /// Few records are wanted often, by Zipf's law with 0.99
    Zipf,
    /// Those that came last are wanted most
    Latest,
    /// Every record alike
    Uniform,
}

/// What is printed as JSON. Between two runs on a simulated drive all is equal but `run`.
#[derive(Serialize)]
pub(super) struct YcsbReport<'a> {
    pub(super) workload: WorkloadKind,
    pub(super) distribution: KeyChoice,
    pub(super) record_count: u64,
    pub(super) field_bytes: u32,
    pub(super) client_count: u32,
    pub(super) core_count: Option<u32>,
    pub(super) processor_time_ns: u64,
    pub(super) think_time_ns: u64,
    pub(super) device: &'a str,
    /// Where the log lies, if not there.
    pub(super) log: Option<&'a str>,
    pub(super) capacity_bytes: Option<u64>,
    pub(super) table_bytes: u64,
    pub(super) seed: u64,
    pub(super) isolation: &'static str,
    pub(super) settings: &'a Settings,
    #[serde(flatten)]
    pub(super) counts: Counts,
    /// Bytes that were programmed into flash, where there is some.
    pub(super) programmed_bytes: Option<u64>,
    /// Those, or without flash those that were written to the devices, for each that clients wrote.
    pub(super) write_amplification: Option<f64>,
    #[serde(flatten)]
    pub(super) outcome: Outcome,
    #[serde(flatten)]
    pub(super) cost: Cost,
    pub(super) run: RunFacts,
}

/// Makes a database, loads it, has clients work on it, and tells what came of it.
pub(super) fn run(arguments: &YcsbArguments, context: &Context) -> Result<(), Failure> {
    let ycsb = arguments.ycsb();
    let cost_watch = arguments.run.cost_watch()?;
    let plan = arguments.run.plan(arguments.operations, cost_watch.host());
    check_times(&plan)?;
    let settings = settings_of(&arguments.run)?;
    if let Some(directory) = &arguments.out {
        crate::output::check_folder(directory)?;
    }
    let place = arguments.run.place(arguments.load_bytes(), &settings, &context.interrupt)?;
    let database = place.database();
    let progress = Progress::new(context, 2);
    let loaded = ycsb.load(database, |number| {
        if number % 1024 == 0 {
            progress.show(number as f64 / ycsb.record_count as f64, "loading");
        }
        !progress.is_interrupted()
    });
    let Some(loaded) = loaded? else {
        return Err(Failure::interrupted("stopped while loading"));
    };
    database.drop_cached_pages()?;
    progress.step_done();
    let load = ycsb.start();
    let mut cost = cost_watch.begin(&place);
    let clients = Arc::new(Arc::clone(&load));
    let mut outcome = at_work(&place, clients, plan, &progress, Some(&mut cost))?;
    let cost = cost.end(&mut outcome, &plan, &place);
    progress.step_done();
    drop(progress);
    if outcome.was_stopped && outcome.operation_count == 0 {
        return Err(Failure::interrupted("stopped before anything was done"));
    }
    let is_simulated = place.capacity().is_some();
    let counts = load.counts();
    let programmed_bytes = place.programmed_bytes(&outcome);
    let written_bytes = programmed_bytes.unwrap_or(outcome.written_bytes);
    let report = YcsbReport {
        workload: ycsb.workload,
        distribution: ycsb.key_choice,
        record_count: ycsb.record_count,
        field_bytes: ycsb.field_bytes,
        client_count: plan.client_count,
        core_count: is_simulated.then_some(plan.core_count),
        processor_time_ns: plan.processor_time.0,
        think_time_ns: plan.think_time.0,
        device: &arguments.run.device,
        log: arguments.run.log.as_deref(),
        capacity_bytes: place.capacity().map(|capacity| capacity.0),
        table_bytes: loaded.file_bytes,
        seed: ycsb.seed,
        isolation: arguments.run.isolation.level().label(),
        settings: &settings,
        counts,
        programmed_bytes,
        write_amplification: (counts.record_written_bytes > 0)
            .then(|| written_bytes as f64 / counts.record_written_bytes as f64),
        outcome,
        cost,
        run: RunFacts::since(context.started),
    };
    show(&report, arguments, context)
}

/// Tells what came of a run, and draws it if that was asked.
fn show(
    report: &YcsbReport<'_>,
    arguments: &YcsbArguments,
    context: &Context,
) -> Result<(), Failure> {
    let page = match &arguments.out {
        Some(directory) => Some(report::write(report, directory)?),
        None => None,
    };
    match arguments.run.json {
        true => context.output.json("bench ycsb", report)?,
        false => tell(report, context)?,
    }
    if let Some(page) = page.filter(|_| !arguments.run.json) {
        let page = context.output.strong(&page.display().to_string());
        context.output.line(&format!("\nreport: {page}"))?;
    }
    report.cost.check()?;
    if report.outcome.was_stopped {
        let done = report.outcome.operation_count;
        return Err(Failure::interrupted(format!("stopped after {done} operations")));
    }
    Ok(())
}

impl YcsbArguments {
    fn ycsb(&self) -> Ycsb {
        let workload = self.workload.kind();
        let key_choice = match self.distribution {
            None => workload.key_choice(),
            Some(DistributionArgument::Zipf) => KeyChoice::Zipf,
            Some(DistributionArgument::Latest) => KeyChoice::Latest,
            Some(DistributionArgument::Uniform) => KeyChoice::Uniform,
        };
        let (record_count, field_bytes, seed) = (self.records, self.field_bytes, self.run.seed);
        let isolation = self.run.isolation.level();
        Ycsb { workload, key_choice, record_count, field_bytes, isolation, seed }
    }

    /// What the records take, about.
    fn load_bytes(&self) -> LoadBytes {
        let record_bytes = FIELD_COUNT as u64 * u64::from(self.field_bytes) + 64;
        let bytes = self.records.saturating_mul(record_bytes);
        LoadBytes { at_first: bytes, in_the_end: bytes }
    }
}

fn tell(report: &YcsbReport<'_>, context: &Context) -> Result<(), Failure> {
    let (outcome, output) = (&report.outcome, context.output);
    let is_virtual = report.capacity_bytes.is_some();
    output.heading(&format!(
        "YCSB {} on {}: {} operations by {}",
        report.workload.label(),
        report.device.escape_debug(),
        outcome.operation_count,
        clients_in_words(report.client_count)
    ))?;
    tell_outcome(outcome, is_virtual, &output)?;
    if let Some(factor) = report.write_amplification {
        output.line(&format!(
            "written: {} of records, {} of log; {factor:.2} bytes below for each of a record",
            ByteCount(report.counts.record_written_bytes),
            ByteCount(outcome.log_bytes)
        ))?;
        tell_retries(&report.counts.retries, &output)?;
    }
    report.cost.tell(outcome, &output)?;
    tell_course(outcome, is_virtual, &output)
}
