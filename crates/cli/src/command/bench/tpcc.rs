//! `nandu bench tpcc`: the five transactions of TPC-C by many terminals.

use super::cost::Cost;
use super::{
    LoadBytes, Place, RunArguments, at_work, check_times, clients_in_words, settings_of,
    tell_course, tell_outcome, tell_retries,
};
use crate::Context;
use crate::command::load::{TpccScaleArgument, TpccWatch, check_tpcc_room};
use crate::failure::Failure;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::Args;
use nandu::Settings;
use nandu_base::ByteCount;
use nandu_bench::tpcc::{TpccCounts, TpccRun};
use nandu_bench::{Outcome, Plan};
use nandu_load::tpcc::{TpccCheck, TpccReport, check};
use nandu_load::{LoadError, LoadOptions};
use serde::Serialize;
use std::sync::Arc;

/// Bytes by which the tables grow for a transaction, about, with what trees leave free.
const GROWTH_BYTES: u64 = 1500;
/// So many clients have one server that delivers for them.
const CLIENTS_PER_SERVER: u32 = 5;

/// TPC-C: five transactions over nine tables, serializable
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu bench tpcc                     one warehouse and client on this disk
  nandu bench tpcc --warehouses 2 --clients 10 --memory 100MiB \\
      --device sim:nvme-tlc-2024
  nandu bench tpcc --clients 10 --terminal-times --transactions 1000 \\
      --device sim:wd2000jb
                                       ten users who type and think

Rows are those of `nandu load tpcc` of the same seed. Of a hundred transactions 45 are new orders, 43 \
payments, 4 each order status, delivery and stock level. Deliveries go into a queue and are done by \
servers; `delivery_deferred` is what they take, from then on. A transaction that others are in the way \
of is done again. Afterwards all twelve consistency conditions are checked; exit code 1 says that \
one does not hold.

The rate of new orders is measured as tpmC is, but nothing here is audited, and without \
--terminal-times nobody types or thinks: it is no result of the TPC.")]
pub(super) struct TpccArguments {
    /// How many warehouses
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    warehouses: u32,
    /// Transactions of all clients together
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: u64,
    /// Users type and think between transactions, as long as the specification says
    #[arg(long)]
    terminal_times: bool,
    /// How many servers deliver; one for five clients if not given, with 0 clients do it themselves
    #[arg(long, value_parser = clap::value_parser!(u32).range(0..=1000), value_name = "SERVERS")]
    delivery_servers: Option<u32>,
    #[command(flatten)]
    scale: TpccScaleArgument,
    #[command(flatten)]
    run: RunArguments,
}

/// What is printed as JSON. Between two runs on a simulated drive all is equal but `run`.
#[derive(Serialize)]
struct TpccBenchReport<'a> {
    warehouse_count: u32,
    item_count: u32,
    customer_count: u32,
    has_terminal_times: bool,
    server_count: u32,
    client_count: u32,
    core_count: Option<u32>,
    processor_time_ns: u64,
    think_time_ns: u64,
    device: &'a str,
    /// Where the log lies, if not there.
    log: Option<&'a str>,
    capacity_bytes: Option<u64>,
    /// Bytes of all tables after the load.
    table_bytes: u64,
    seed: u64,
    isolation: &'static str,
    settings: &'a Settings,
    /// New orders a minute that were committed.
    tpmc: f64,
    #[serde(flatten)]
    counts: TpccCounts,
    /// Bytes of the log for each transaction.
    log_bytes_per_transaction: f64,
    /// Bytes that were programmed into flash, where there is some.
    programmed_bytes: Option<u64>,
    #[serde(flatten)]
    outcome: Outcome,
    /// The conditions, after the run.
    consistency: TpccCheck,
    #[serde(flatten)]
    cost: Cost,
    run: RunFacts,
}

/// Makes a database, loads it, has clients work on it, checks it, and tells what came of it.
pub(super) fn run(arguments: &TpccArguments, context: &Context) -> Result<(), Failure> {
    let tpcc = arguments.scale.tpcc(arguments.warehouses, arguments.run.seed)?;
    let cost_watch = arguments.run.cost_watch()?;
    let plan = arguments.run.plan(arguments.transactions, cost_watch.host());
    check_times(&plan)?;
    let settings = settings_of(&arguments.run)?;
    let growth_bytes = arguments.transactions.saturating_mul(GROWTH_BYTES);
    let at_first = tpcc.expected_bytes();
    let load_bytes = LoadBytes { at_first, in_the_end: at_first.saturating_add(growth_bytes) };
    let place = arguments.run.place(load_bytes, &settings, &context.interrupt)?;
    let database = place.database();
    check_tpcc_room(&tpcc, database)?;
    let warehouse_count = f64::from(arguments.warehouses);
    let mut watch = TpccWatch { progress: Progress::new(context, 3), warehouse_count };
    let stored = match tpcc.store(database, &LoadOptions::default(), &mut watch) {
        Err(LoadError::Cancelled) => return Err(Failure::interrupted("stopped while loading")),
        stored => stored?,
    };
    let progress = watch.progress;
    database.checkpoint()?;
    database.drop_cached_pages()?;
    progress.step_done();
    let servers = plan.client_count.div_ceil(CLIENTS_PER_SERVER);
    let mix = TpccRun {
        tpcc,
        isolation: arguments.run.isolation.level(),
        has_pauses: arguments.terminal_times,
        server_count: arguments.delivery_servers.unwrap_or(servers),
        seed: arguments.run.seed,
    };
    let load = mix.start();
    let mut cost = cost_watch.begin(&place);
    let clients = Arc::new(Arc::clone(&load));
    let mut outcome = at_work(&place, clients, plan, &progress, Some(&mut cost))?;
    let cost = cost.end(&mut outcome, &plan, &place);
    progress.step_done();
    progress.show(0.0, "checking");
    let consistency = check(&database.read())?;
    progress.step_done();
    drop(progress);
    if outcome.was_stopped && outcome.operation_count == 0 {
        return Err(Failure::interrupted("stopped before anything was done"));
    }
    let report = TpccBenchReport::new(
        (arguments, &mix, &plan),
        (&place, &settings, &stored),
        (load.counts(), outcome, consistency, cost),
        RunFacts::since(context.started),
    );
    show(&report, arguments.run.json, context)
}

impl<'a> TpccBenchReport<'a> {
    fn new(
        (arguments, mix, plan): (&'a TpccArguments, &TpccRun, &Plan),
        (place, settings, stored): (&Place, &'a Settings, &TpccReport),
        (counts, outcome, consistency, cost): (TpccCounts, Outcome, TpccCheck, Cost),
        run: RunFacts,
    ) -> Self {
        let minutes = outcome.elapsed_ns.max(1) as f64 / 60e9;
        let count = outcome.operation_count.max(1) as f64;
        Self {
            warehouse_count: arguments.warehouses,
            item_count: mix.tpcc.scale().item_count,
            customer_count: mix.tpcc.scale().customer_count,
            has_terminal_times: mix.has_pauses,
            server_count: mix.server_count,
            client_count: plan.client_count,
            core_count: place.capacity().is_some().then_some(plan.core_count),
            processor_time_ns: plan.processor_time.0,
            think_time_ns: plan.think_time.0,
            device: &arguments.run.device,
            log: arguments.run.log.as_deref(),
            capacity_bytes: place.capacity().map(|capacity| capacity.0),
            table_bytes: stored.iter().map(|table| table.file_bytes).sum(),
            seed: arguments.run.seed,
            isolation: mix.isolation.label(),
            settings,
            tpmc: counts.new_order_count as f64 / minutes,
            counts,
            log_bytes_per_transaction: outcome.log_bytes as f64 / count,
            programmed_bytes: place.programmed_bytes(&outcome),
            outcome,
            consistency,
            cost,
            run,
        }
    }
}

/// Tells what came of a run, and whether it went well.
fn show(report: &TpccBenchReport<'_>, as_json: bool, context: &Context) -> Result<(), Failure> {
    match as_json {
        true => context.output.json("bench tpcc", report)?,
        false => tell(report, context)?,
    }
    report.cost.check()?;
    crate::command::db::refuse_broken(&report.consistency)?;
    if report.outcome.was_stopped {
        let done = report.outcome.operation_count;
        return Err(Failure::interrupted(format!("stopped after {done} transactions")));
    }
    Ok(())
}

fn tell(report: &TpccBenchReport<'_>, context: &Context) -> Result<(), Failure> {
    let (outcome, output) = (&report.outcome, context.output);
    let is_virtual = report.capacity_bytes.is_some();
    output.heading(&format!(
        "TPC-C, {} of {}, on {}: {} transactions by {}",
        nandu_base::words::counted(u64::from(report.warehouse_count), "warehouse"),
        ByteCount(report.table_bytes),
        report.device.escape_debug(),
        outcome.operation_count,
        clients_in_words(report.client_count)
    ))?;
    let counts = &report.counts;
    output.line(&format!(
        "{:.0} new orders a minute (as tpmC is measured): {} committed, {} rolled back",
        report.tpmc, counts.new_order_count, counts.rolled_back_count
    ))?;
    tell_outcome(outcome, is_virtual, &output)?;
    output.line(&format!(
        "{} orders delivered, {} districts had none; {} of log a transaction",
        counts.delivered_order_count,
        counts.skipped_district_count,
        ByteCount(outcome.log_bytes / outcome.operation_count.max(1))
    ))?;
    tell_retries(&counts.retries, &output)?;
    report.cost.tell(outcome, &output)?;
    crate::command::db::tell_consistency(&report.consistency, &output)?;
    tell_course(outcome, is_virtual, &output)
}
