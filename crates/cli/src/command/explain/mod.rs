//! `nandu explain`: what each join of two tables would cost on a device, and, if asked, what it does.
//!
//! 1. The memory is that of the buffer pool: operators get a grant of its frames.
//! 2. A run leaves nothing behind: spill files go with it.

pub(in crate::command) mod costs;
mod inputs;
mod processor;
mod sweep;

use crate::Context;
use crate::failure::Failure;
use crate::output::OutputFiles;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use crate::stopwatch::Stopwatch;
use clap::Args;
use inputs::{Inputs, SideArgument};
use nandu::{Database, DatabaseOptions, StorageError, Tables};
use nandu_base::words::{counted, wrap};
use nandu_base::{ByteCount, to_index, to_u32};
use nandu_drives::file::cpu_time;
use nandu_query::cost::{CpuCosts, DeviceCosts};
use nandu_query::join::{JoinType, PairSink};
use nandu_query::plan::{Actual, ChunkRule, Explanation, Indexes, Plan};
use nandu_query::{Execution, JoinKind, Limits, PairBatch, QueryError};
use processor::{Origin, Processor};
use serde::Serialize;
use std::path::PathBuf;

/// The least memory that is tried where no join can be run in what was given, and how often it is doubled:
/// up to 1 TiB.
const MEMORY_MIN: u64 = 4 << 10;
const MEMORY_DOUBLINGS_MAX: u32 = 28;
/// Memory of the pool beside that of the join.
const POOL_BYTES: u64 = 16 << 20;

/// Say what each join of two tables would cost, and which is the cheapest
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu explain shop customer.c_custkey orders.o_custkey --memory 100MiB
  nandu explain shop customer.c_custkey orders.o_custkey --analyze \\
    --write-budget 0
  nandu explain shop customer.c_custkey orders.o_custkey --analyze --threads 2
  nandu explain shop lineitem.l_partkey,l_suppkey \\
    partsupp.ps_partkey,ps_suppkey
  nandu probe . --profile drive.json
  nandu explain shop customer.c_custkey orders.o_custkey --profile drive.json

  nandu explain shop customer.c_custkey orders.o_custkey --calibrate \\
    --processor cpu.json
  nandu explain shop customer.c_custkey orders.o_custkey --processor cpu.json \\
    --profile drive.json --sweep 16MiB,64MiB,256MiB
  nandu explain pax customer.c_custkey orders.o_custkey \\
    --columns customer.c_name --columns orders.o_orderdate,o_totalprice

Joins by index are among them where a table has an index on the columns, as `nandu load --index` \
makes one, or is clustered by a key that begins with them; they read through a pool of 16 MiB, \
taken to be empty. Joins that fetch late are among them where both tables are in PAX pages, as \
`nandu load --layout pax` or `--pax` makes them. Times follow the device's profile, \
as `nandu probe --profile` writes it; without one a plain NVMe drive is assumed. Times of the \
processor are measured at the first use, which takes half a minute, and kept below XDG_CACHE_HOME \
or ~/.cache; --calibrate measures anew.

With --analyze the cheapest join runs, or those named by --join, and the line below its estimate \
says what it did; the processor's time is that of this process alone. With --sweep all joins run \
in each memory, and the table says how far the cheapest by estimate was from the fastest.")]
pub(crate) struct ExplainArguments {
    /// The directory of the database
    database: PathBuf,
    /// One side, TABLE.COLUMN, or TABLE.COLUMN,COLUMN
    #[arg(value_parser = SideArgument::parse)]
    left: SideArgument,
    /// The other side, with as many columns
    #[arg(value_parser = SideArgument::parse)]
    right: SideArgument,
    /// Which rows come out: inner, left, right, full, semi or anti
    #[arg(long = "type", default_value = "inner", value_name = "TYPE")]
    join_type: JoinType,
    /// Columns that are wanted, TABLE.COLUMN,COLUMN, once for each table; all of them without it. Only of
    /// tables in PAX pages are the others not read
    #[arg(long, value_parser = SideArgument::parse, value_name = "COLUMNS")]
    columns: Vec<SideArgument>,
    /// Pairs of rows with equal keys; without it every row of the larger table is thought to have a partner,
    /// and what may have to write pairs is no choice under a write budget
    #[arg(long, value_name = "NUMBER")]
    pairs: Option<u64>,
    /// Memory of the join
    #[arg(long, default_value = "64MiB", value_parser = super::parse_size)]
    memory: ByteCount,
    /// Bytes that the join may write; as many as it takes if not given
    #[arg(long, value_parser = ByteCount::parse)]
    write_budget: Option<ByteCount>,
    /// Threads that do the join, as far as it can be divided; 0 for as many as there are cores
    #[arg(long, default_value_t = 1, value_name = "NUMBER")]
    threads: u32,
    /// The profile of the device, as JSON
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Costs of the processor, as JSON; with --calibrate they are written there
    #[arg(long, value_name = "FILE")]
    processor: Option<PathBuf>,
    /// Measure the processor anew, which takes half a minute; in a sweep before each memory
    #[arg(long)]
    calibrate: bool,
    /// Take chosen constants for the processor, which are the same on every machine
    #[arg(long, conflicts_with_all = ["calibrate", "processor"])]
    no_calibrate: bool,
    /// Run all joins in each of these memories, with commas between them
    #[arg(long, value_delimiter = ',', value_parser = super::parse_size, value_name = "MEMORIES",
          conflicts_with_all = ["analyze", "memory"])]
    sweep: Vec<ByteCount>,
    /// Run each join of a sweep so often, in turns, and take the run of median time
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=99),
          requires = "sweep")]
    repetitions: u32,
    /// Run the cheapest join, too
    #[arg(long)]
    analyze: bool,
    /// Run these joins, with commas between them, or `all`
    #[arg(long, value_delimiter = ',', value_name = "JOINS", requires = "analyze")]
    join: Vec<String>,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    files: OutputFiles,
}

/// What a run gives beside its costs.
#[derive(Serialize)]
struct Answer<'a> {
    device: &'a str,
    processor: &'a Origin,
    memory_bytes: u64,
    thread_count: u32,
    explanation: &'a Explanation,
    /// Pairs of rows, where a join was run.
    pair_count: Option<u64>,
    run: RunFacts,
}

/// Explains the join, or runs it too.
pub(crate) fn run(arguments: &ExplainArguments, context: &Context) -> Result<(), Failure> {
    let ((device, name), named) = context.interrupt.before_work(|| -> Result<_, Failure> {
        Ok((costs::device(arguments.profile.as_deref())?, processor::named(arguments)?))
    })?;
    let most = arguments.sweep.iter().map(|memory| memory.0).max();
    let mut options = DatabaseOptions::default();
    let memory = ByteCount(most.unwrap_or(arguments.memory.0));
    let option = if most.is_some() { "--sweep" } else { "--memory" };
    let needed = ByteCount(memory.0.saturating_add(POOL_BYTES));
    crate::memory::check_possible(needed, &format!("{option} {memory}"), "give less")?;
    options.settings.pool_bytes = needed.0;
    // Joins that run may spill.
    let runs = arguments.analyze || !arguments.sweep.is_empty();
    let open = if runs { crate::database::open } else { crate::database::open_to_read };
    let (database, _) = open(&arguments.database, &options)?;
    // Measuring takes half a minute: first it is known that there is something to explain.
    let found = arguments.open(&database.read()).map(drop);
    let measure = || processor::processor(arguments, &context.interrupt);
    let processor = found.and_then(|()| named.map_or_else(measure, Ok));
    let answered = processor.and_then(|Processor { costs, origin }| {
        let costs = (&device, name.as_str(), &costs);
        match arguments.sweep.is_empty() {
            true => answer(arguments, context, &database, costs, &origin),
            false => sweep::run(arguments, context, &database, costs, &origin),
        }
    });
    let closed = crate::database::close(database, &arguments.database);
    answered?;
    Ok(closed?)
}

/// What a plan is priced by: the device, its name, and the processor.
type Costs<'a> = (&'a DeviceCosts, &'a str, &'a CpuCosts);

impl ExplainArguments {
    /// How many threads do a join.
    fn thread_count(&self) -> u32 {
        let cores =
            || std::thread::available_parallelism().map_or(1, |count| to_u32(count.get() as u64));
        if self.threads == 0 { cores() } else { self.threads }
    }

    fn open<'t>(&self, tables: &'t Tables) -> Result<Inputs<'t>, Failure> {
        let wanted = (!self.columns.is_empty()).then_some(self.columns.as_slice());
        let inputs = Inputs::open(tables, (&self.left, &self.right), wanted, self.join_type)?;
        Ok(inputs.with_pairs(self.pairs))
    }
}

fn answer(
    arguments: &ExplainArguments,
    context: &Context,
    database: &Database,
    costs: Costs<'_>,
    origin: &Origin,
) -> Result<(), Failure> {
    let tables = database.read();
    let inputs = arguments.open(&tables)?;
    let found = inputs.plans(costs, arguments.memory, arguments)?;
    let mut explanation = Explanation::new(&found);
    let (mut pair_count, mut failed) = (None, None);
    if arguments.analyze {
        let chosen = chosen_plans(&arguments.join, &found.feasible, inputs.indexes())?;
        let progress = Progress::new(context, chosen.len());
        for plan in chosen {
            progress.show(0.0, plan.kind.name());
            let limits = inputs.limits(arguments.memory, arguments.write_budget);
            let ran = run_plan(&inputs, plan, (limits, arguments.thread_count()), context);
            progress.step_done();
            match ran {
                Ok((actual, pairs)) => {
                    explanation.note(plan.kind, plan.is_swapped, actual);
                    check_pairs(&mut pair_count, pairs, plan)?;
                }
                // What the other joins did is worth telling all the same.
                Err(error) if ends_alone(&error) => {
                    explanation.note_failure(plan.kind, plan.is_swapped, error.to_string());
                    failed = failed.or(Some(Failure::from(error).at(plan.kind.name())));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }
    print(arguments, context, (&explanation, pair_count), (costs.1, origin))?;
    if !found.feasible.iter().any(|plan| plan.is_opened_with(inputs.indexes())) {
        return Err(Failure::input(remedy(arguments, &inputs, costs)?));
    }
    failed.map_or(Ok(()), Err)
}

/// Why no join can be run, and what would make one possible: more memory, more writes, or both.
fn remedy(
    arguments: &ExplainArguments,
    inputs: &Inputs<'_>,
    costs: Costs<'_>,
) -> Result<String, Failure> {
    let first = |memory: ByteCount, write_budget| -> Result<Option<Plan>, Failure> {
        let found = inputs.plans_with(costs, memory, (write_budget, arguments.thread_count()))?;
        let found = found.feasible;
        Ok(found.into_iter().find(|plan| plan.is_opened_with(inputs.indexes())))
    };
    let memories = (0..=MEMORY_DOUBLINGS_MAX).map(|power| ByteCount(MEMORY_MIN << power));
    let larger: Vec<ByteCount> = memories.filter(|memory| *memory > arguments.memory).collect();
    let budget = arguments.write_budget;
    let mut given = format!("no join can be run in {}", arguments.memory);
    if let Some(budget) = budget {
        given += &format!(" that writes {budget} at most");
    }
    for &memory in &larger {
        if let Some(plan) = first(memory, budget)? {
            return Ok(format!("{given}; --memory {} is enough for {}", plain(memory), plan.kind));
        }
    }
    if budget.is_some() {
        for &memory in [arguments.memory].iter().chain(&larger) {
            if let Some(plan) = first(memory, None)? {
                let with = format!("with --memory {}", plain(memory));
                return Ok(format!(
                    "{given}; leave out --write-budget and {} can, {with}, which may write {}",
                    plan.kind, plan.written
                ));
            }
        }
    }
    Ok(format!("{given}, nor in any other memory; above stands what each join needs"))
}

/// A size as an option takes it: in whole KiB or MiB.
fn plain(size: ByteCount) -> String {
    if size.0.is_multiple_of(1 << 20) {
        format!("{}MiB", size.0 >> 20)
    } else {
        format!("{}KiB", size.0 >> 10)
    }
}

/// Tells what was found.
fn print(
    arguments: &ExplainArguments,
    context: &Context,
    (explanation, pair_count): (&Explanation, Option<u64>),
    (device, processor): (&str, &Origin),
) -> Result<(), Failure> {
    if arguments.json {
        let memory_bytes = arguments.memory.0;
        let run = RunFacts::since(context.started);
        let thread_count = arguments.thread_count();
        let answer =
            Answer { device, processor, memory_bytes, thread_count, explanation, pair_count, run };
        return context.output.json("explain", &answer);
    }
    let pairs = pair_count.map(|count| counted(count, "pair") + "\n").unwrap_or_default();
    let memory = arguments.memory;
    let output = context.output;
    let threads = match arguments.thread_count() {
        1 => String::new(),
        count => format!("; {count} threads"),
    };
    let first = format!("device: {device}; memory: {memory}{threads}");
    for text in [first, format!("processor: {processor}")] {
        for line in wrap(&text, output.width()) {
            output.line(&line)?;
        }
    }
    let table = explanation.render_within(output.width());
    output.line(format!("{table}{pairs}").trim_end())
}

/// Whether an error is that of one join, whose limits it passed, or for whose spill file there is no room.
const fn ends_alone(error: &QueryError) -> bool {
    matches!(
        error,
        QueryError::WriteBudget { .. }
            | QueryError::TooLittleMemory { .. }
            | QueryError::Storage(StorageError::NoSpace { .. })
    )
}

/// Every join gives as many pairs.
fn check_pairs(known: &mut Option<u64>, pairs: u64, plan: &Plan) -> Result<(), Failure> {
    if known.is_some_and(|count| count != pairs) {
        let what = format!("{} gave {pairs} pairs, another join did not", plan.kind);
        return Err(Failure::shape(what));
    }
    *known = Some(pairs);
    Ok(())
}

/// The plans to run: the cheapest, those named, or all.
fn chosen_plans<'p>(
    names: &[String],
    feasible: &'p [Plan],
    indexes: Indexes<'_>,
) -> Result<Vec<&'p Plan>, Failure> {
    if names.is_empty() {
        return Ok(feasible.iter().filter(|plan| plan.is_opened_with(indexes)).take(1).collect());
    }
    let mut kinds = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => kinds
                .extend(JoinKind::ALL.into_iter().filter(|kind| *kind != JoinKind::NestedLoops)),
            name => kinds.push(name.parse::<JoinKind>()?),
        }
    }
    let is_chosen = |plan: &&Plan| kinds.contains(&plan.kind) && plan.is_opened_with(indexes);
    let chosen: Vec<&Plan> = feasible.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(Failure::input("none of these joins can be run here; see the estimates"));
    }
    Ok(chosen)
}

/// The pairs that one thread found.
#[derive(Clone, Copy, Default)]
struct PairCount(u64);

impl PairSink for PairCount {
    fn take(&mut self, batch: PairBatch<'_>) -> Result<(), QueryError> {
        self.0 += batch.pairs.len() as u64;
        Ok(())
    }
}

/// Runs one plan and counts its pairs.
fn run_plan(
    inputs: &Inputs<'_>,
    plan: &Plan,
    (limits, thread_count): (Limits, u32),
    context: &Context,
) -> Result<(Actual, u64), QueryError> {
    let page_bytes = u64::from(limits.page_bytes);
    let engine = inputs.tables().engine();
    let grant = engine.grant(limits.memory_pages)?;
    let io = engine.data_io();
    let stop = context.interrupt.flag();
    let execution = Execution::new(limits, io.clone(), io, Some(grant), stop);
    let (stopwatch, processor) = (Stopwatch::start(), cpu_time());
    let mut counts = vec![PairCount::default(); to_index(thread_count.into())];
    let (join, indexes) = (inputs.join(), inputs.indexes());
    plan.run(&execution, join, indexes, ChunkRule::ByBytes, &mut counts)?;
    let pair_count = counts.iter().map(|count| count.0).sum();
    let (time_ns, used) = (stopwatch.nanos(), cpu_time().since(processor));
    let counts = execution.io_counts();
    let actual = Actual {
        requests: counts.read_requests + counts.write_requests,
        pages: (counts.read_bytes + counts.write_bytes) / page_bytes,
        pages_written: counts.write_bytes / page_bytes,
        io_ns: counts.wait_ns,
        cpu_ns: used.total().0,
        system_ns: used.system.0,
        time_ns,
    };
    Ok((actual, pair_count))
}
