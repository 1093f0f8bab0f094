//! `nandu bench tpox`: the mix of queries and changes of XML documents that S004 ran.

use super::cost::Cost;
use super::{
    LoadBytes, Place, RunArguments, at_work, check_times, clients_in_words, settings_of,
    tell_course, tell_outcome, tell_retries,
};
use crate::Context;
use crate::command::xml::MappingArgument;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::{Args, ValueEnum};
use nandu::Settings;
use nandu_base::ByteCount;
use nandu_bench::tpox::{LOOKUP, TpoxCounts, TpoxRun};
use nandu_bench::{Outcome, Plan};
use nandu_load::{Tpox, TpoxCollection, TpoxObserver};
use nandu_xml::{ImportReport, LockSettings};
use serde::Serialize;
use std::sync::Arc;

/// TPoX's mix as S004 ran it: five queries and three changes of three XML documents
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu bench tpox --size 10MB                  queries by one client on this disk
  nandu bench tpox --mix 30 --size 10MB --mapping full --device sim:supertalent-duradrive
  nandu bench tpox --mix 10 --clients 8 --transactions 20000 --json
  nandu bench tpox --size 10MB --processor-time 50ms --device sim:wd800aajs
                                                S004's version that computes

Each transaction is one query or one change, committed as `durability` says. The documents are those of \
`nandu load tpox` of the same size and seed; clients draw the same transactions in every mapping and on \
every drive. --memory is 4096 pages, as there.")]
pub(super) struct TpoxArguments {
    /// Readers alone, or 10 or 30 % of transactions that change something
    #[arg(long, value_enum, default_value_t = MixArgument::Readers)]
    mix: MixArgument,
    /// How much text the documents have, about: from 20KB to 100GB
    #[arg(long, default_value = "100MB", value_parser = super::super::parse_size)]
    size: ByteCount,
    /// What is stored of them: elementless leaves out what follows from the rest
    #[arg(long, value_enum, default_value = "elementless")]
    mapping: MappingArgument,
    /// Transactions of all clients together
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: u64,
    /// Transactions that come before and are not counted, so that pages are in the pool
    #[arg(long, default_value_t = 0, value_name = "TRANSACTIONS")]
    warm_up: u64,
    /// The deepest level of a document that is locked by itself, 0 for the document as a whole
    #[arg(long, default_value_t = LockSettings::default().depth, value_name = "LEVEL")]
    lock_depth: u32,
    /// With so many locks a transaction locks the document as a whole, if nobody else is in it
    #[arg(
        long,
        default_value_t = LockSettings::default().escalate_at,
        value_name = "LOCKS",
        value_parser = clap::value_parser!(u32).range(1..)
    )]
    escalate_at: u32,
    #[command(flatten)]
    run: RunArguments,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum MixArgument {
    /// Queries alone
    Readers,
    /// A tenth changes something
    #[value(name = "10")]
    Ten,
    /// Three tenths change something
    #[value(name = "30")]
    Thirty,
}

impl MixArgument {
    const fn write_percent(self) -> u8 {
        match self {
            Self::Readers => 0,
            Self::Ten => 10,
            Self::Thirty => 30,
        }
    }
}

/// What is printed as JSON. Between two runs on a simulated drive all is equal but `run`.
#[derive(Serialize)]
struct TpoxReport<'a> {
    size_bytes: u64,
    mapping: &'static str,
    write_percent: u8,
    /// What finds a part of a document by its id.
    lookup: &'static str,
    documents: Vec<DocumentReport>,
    client_count: u32,
    core_count: Option<u32>,
    processor_time_ns: u64,
    think_time_ns: u64,
    warm_up_count: u64,
    device: &'a str,
    /// Where the log lies, if not there.
    log: Option<&'a str>,
    capacity_bytes: Option<u64>,
    seed: u64,
    isolation: &'static str,
    lock_depth: u32,
    escalate_at: u32,
    settings: &'a Settings,
    #[serde(flatten)]
    counts: TpoxCounts,
    /// Pages that were read for a thousand transactions.
    faults_per_1000: f64,
    /// Bytes of the log for each transaction, and for each that changed something.
    log_bytes_per_transaction: f64,
    log_bytes_per_write: Option<f64>,
    /// Bytes that were programmed into flash, where there is some.
    programmed_bytes: Option<u64>,
    #[serde(flatten)]
    outcome: Outcome,
    #[serde(flatten)]
    cost: Cost,
    run: RunFacts,
}

#[derive(Serialize)]
struct DocumentReport {
    name: &'static str,
    subtree_count: u64,
    plain_bytes: u64,
    file_bytes: u64,
}

/// Makes a database, stores the documents, has clients work on them, and tells what came of it.
pub(super) fn run(arguments: &TpoxArguments, context: &Context) -> Result<(), Failure> {
    let tpox = Tpox::new(arguments.size.0, arguments.run.seed)?;
    let cost_watch = arguments.run.cost_watch()?;
    let plan = arguments.run.plan(arguments.transactions, cost_watch.host());
    check_times(&plan)?;
    let settings = settings_of(&arguments.run)?;
    let text_bytes = TpoxCollection::ALL.map(|collection| tpox.expected_bytes(collection));
    let text_bytes = text_bytes.iter().sum::<u64>();
    // The largest mapping of the largest collection has five quarters of its text, the smallest more than half.
    let load_bytes = LoadBytes { at_first: text_bytes / 2, in_the_end: text_bytes / 4 * 5 };
    let place = arguments.run.place(load_bytes, &settings, &context.interrupt)?;
    let database = place.database();
    let mix = TpoxRun {
        tpox,
        mapping: arguments.mapping.kind(),
        write_percent: arguments.mix.write_percent(),
        isolation: arguments.run.isolation.level(),
        locks: LockSettings { depth: arguments.lock_depth, escalate_at: arguments.escalate_at },
        seed: arguments.run.seed,
        new_from: 0,
    };
    let mut watch = LoadWatch { progress: Progress::new(context, 3) };
    let Some(stored) = mix.load(database, &mut watch)? else {
        return Err(Failure::interrupted("stopped while loading"));
    };
    let progress = watch.progress;
    database.drop_cached_pages()?;
    progress.step_done();
    if arguments.warm_up > 0 {
        // What is new has numbers by client, so only one load may make some.
        let seed = mix.seed.wrapping_add(1);
        let queries = TpoxRun { seed, write_percent: 0, ..mix }.start();
        let plan = arguments.run.plan(arguments.warm_up, cost_watch.host());
        at_work(&place, Arc::new(queries), plan, &progress, None)?;
    }
    progress.step_done();
    let load = mix.start();
    let mut cost = cost_watch.begin(&place);
    let clients = Arc::new(Arc::clone(&load));
    let mut outcome = at_work(&place, clients, plan, &progress, Some(&mut cost))?;
    let cost = cost.end(&mut outcome, &plan, &place);
    progress.step_done();
    drop(progress);
    if outcome.was_stopped && outcome.operation_count == 0 {
        return Err(Failure::interrupted("stopped before anything was done"));
    }
    let report = TpoxReport::new(
        (arguments, &mix, &plan),
        (&place, &settings),
        (&stored, load.counts(), outcome, cost),
        RunFacts::since(context.started),
    );
    match arguments.run.json {
        true => context.output.json("bench tpox", &report)?,
        false => tell(&report, context)?,
    }
    report.cost.check()?;
    if report.outcome.was_stopped {
        let done = report.outcome.operation_count;
        return Err(Failure::interrupted(format!("stopped after {done} transactions")));
    }
    Ok(())
}

impl<'a> TpoxReport<'a> {
    fn new(
        (arguments, mix, plan): (&'a TpoxArguments, &TpoxRun, &Plan),
        (place, settings): (&Place, &'a Settings),
        (stored, counts, outcome, cost): (&[ImportReport; 3], TpoxCounts, Outcome, Cost),
        run: RunFacts,
    ) -> Self {
        let count = outcome.operation_count.max(1) as f64;
        let write_count = counts.write_transaction_count;
        Self {
            size_bytes: arguments.size.0,
            mapping: mix.mapping.label(),
            write_percent: mix.write_percent,
            lookup: LOOKUP,
            documents: documents(&mix.tpox, stored),
            client_count: plan.client_count,
            core_count: place.capacity().is_some().then_some(plan.core_count),
            processor_time_ns: plan.processor_time.0,
            think_time_ns: plan.think_time.0,
            warm_up_count: arguments.warm_up,
            device: &arguments.run.device,
            log: arguments.run.log.as_deref(),
            capacity_bytes: place.capacity().map(|capacity| capacity.0),
            seed: mix.seed,
            isolation: mix.isolation.label(),
            lock_depth: mix.locks.depth,
            escalate_at: mix.locks.escalate_at,
            settings,
            counts,
            faults_per_1000: outcome.pool_miss_count as f64 * 1e3 / count,
            log_bytes_per_transaction: outcome.log_bytes as f64 / count,
            log_bytes_per_write: (write_count > 0)
                .then(|| outcome.log_bytes as f64 / write_count as f64),
            programmed_bytes: place.programmed_bytes(&outcome),
            outcome,
            cost,
            run,
        }
    }
}

fn documents(tpox: &Tpox, stored: &[ImportReport; 3]) -> Vec<DocumentReport> {
    let document = |(collection, report): (TpoxCollection, &ImportReport)| DocumentReport {
        name: collection.name(),
        subtree_count: tpox.count(collection),
        plain_bytes: report.plain_bytes,
        file_bytes: report.file_bytes,
    };
    TpoxCollection::ALL.into_iter().zip(stored).map(document).collect()
}

fn tell(report: &TpoxReport<'_>, context: &Context) -> Result<(), Failure> {
    let (outcome, output) = (&report.outcome, context.output);
    let is_virtual = report.capacity_bytes.is_some();
    let mix = match report.write_percent {
        0 => "readers".to_owned(),
        percent => format!("mix {percent}"),
    };
    output.heading(&format!(
        "TPoX {mix}, {} of {}, on {}: {} transactions by {}",
        report.mapping,
        ByteCount(report.size_bytes),
        report.device.escape_debug(),
        outcome.operation_count,
        clients_in_words(report.client_count)
    ))?;
    tell_outcome(outcome, is_virtual, &output)?;
    let of_1000 = |count: u64| count as f64 * 1e3 / outcome.operation_count.max(1) as f64;
    output.line(&format!(
        "a thousand transactions: {:.0} faults, {} of log, {:.0} reads and {:.0} writes of devices",
        report.faults_per_1000,
        ByteCount(outcome.log_bytes.saturating_mul(1000) / outcome.operation_count.max(1)),
        of_1000(outcome.read_count),
        of_1000(outcome.write_count),
    ))?;
    report.cost.tell(outcome, &output)?;
    if report.counts.write_transaction_count > 0 {
        tell_retries(&report.counts.retries, &output)?;
    }
    tell_course(outcome, is_virtual, &output)
}

/// Progress and Ctrl-C while documents are stored.
struct LoadWatch {
    progress: Progress,
}

impl TpoxObserver for LoadWatch {
    fn bytes_stored(&mut self, collection: TpoxCollection, _byte_count: u64, fraction: f64) {
        let (done, all) = (collection as usize, TpoxCollection::ALL.len());
        self.progress.show((done as f64 + fraction) / all as f64, "loading");
    }

    fn is_cancelled(&self) -> bool {
        self.progress.is_interrupted()
    }
}
