//! `nandu explain`: what each join of two tables would cost on a device, and, if asked, what it does.
//!
//! 1. The memory is that of the buffer pool: operators get a grant of its frames.
//! 2. A run leaves nothing behind: spill files go with it.

mod costs;
mod sweep;

use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;
use clap::Args;
use nandu::{Database, DatabaseOptions, Tables};
use nandu_base::ByteCount;
use nandu_query::cost::{
    Convention, CostModel, CpuCosts, DeviceCosts, IndexStats, JoinQuestion, JoinSide, RelationStats,
};
use nandu_query::index::{IndexLookup, SecondaryIndex};
use nandu_query::join::{Join, JoinInput, JoinType};
use nandu_query::plan::{Actual, Budget, ChunkRule, Explanation, Indexes, Plan, Plans, plans};
use nandu_query::relation::HeapRelation;
use nandu_query::{Execution, JoinKind, Key, Limits, QueryError, Relation};
use serde::Serialize;
use std::path::PathBuf;

/// Memory of the pool beside that of the join.
const POOL_BYTES: u64 = 16 << 20;

/// Say what each join of two tables would cost, and which is the cheapest
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu explain shop customer.c_custkey orders.o_custkey --memory 100MiB
  nandu explain shop customer.c_custkey orders.o_custkey --write-budget 0 --analyze
  nandu probe . --profile drive.json
  nandu explain shop customer.c_custkey orders.o_custkey --profile drive.json

  nandu explain shop customer.c_custkey orders.o_custkey --calibrate --processor cpu.json
  nandu explain shop customer.c_custkey orders.o_custkey --processor cpu.json \\
    --profile drive.json --sweep 16MiB,64MiB,256MiB

Joins by index are among them where a table has an index on the column, as `nandu load --index`
makes one; they read through a pool of 16 MiB, taken to be empty. Times follow the device's profile,
as `nandu probe --profile` writes it; without one a plain NVMe drive is assumed. Times of the
processor are chosen ones until --calibrate measures them.
With --analyze the cheapest join runs, or those named by --join, and the line below its estimate
says what it did. With --sweep all joins run in each memory, and the table says how far the
cheapest by estimate was from the fastest.")]
pub(crate) struct ExplainArguments {
    /// The directory of the database
    database: PathBuf,
    /// One side, TABLE.COLUMN
    #[arg(value_parser = parse_side)]
    left: SideArgument,
    /// The other side, TABLE.COLUMN
    #[arg(value_parser = parse_side)]
    right: SideArgument,
    /// Which rows come out: inner, left, right, full, semi or anti
    #[arg(long = "type", default_value = "inner", value_name = "TYPE")]
    join_type: JoinType,
    /// Memory of the join
    #[arg(long, default_value = "64MiB", value_parser = super::parse_size)]
    memory: ByteCount,
    /// Bytes that the join may write; as many as it takes if not given
    #[arg(long, value_parser = ByteCount::parse)]
    write_budget: Option<ByteCount>,
    /// The profile of the device, as JSON
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    /// Costs of the processor, as JSON; with --calibrate they are written there
    #[arg(long, value_name = "FILE")]
    processor: Option<PathBuf>,
    /// Measure the processor first, which takes some seconds
    #[arg(long)]
    calibrate: bool,
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
}

#[derive(Clone, Debug)]
struct SideArgument {
    table: String,
    column: String,
}

/// What a run gives beside its costs.
#[derive(Serialize)]
struct Answer<'a> {
    device: &'a str,
    memory_bytes: u64,
    explanation: &'a Explanation,
    /// Pairs of rows, where a join was run.
    pair_count: Option<u64>,
}

fn parse_side(text: &str) -> Result<SideArgument, String> {
    match text.split_once('.') {
        Some((table, column)) if !table.is_empty() && !column.is_empty() => {
            Ok(SideArgument { table: table.to_owned(), column: column.to_owned() })
        }
        _ => Err(format!("{text:?} is no TABLE.COLUMN")),
    }
}

/// Does it.
pub(crate) fn run(arguments: &ExplainArguments, context: &Context) -> Result<(), Failure> {
    let (device, name) = costs::device(arguments.profile.as_deref())?;
    let processor = costs::processor(arguments.processor.as_deref(), arguments.calibrate)?;
    let most = arguments.sweep.iter().map(|memory| memory.0).max();
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = most.unwrap_or(arguments.memory.0) + POOL_BYTES;
    let (database, _) = nandu::open_database(&arguments.database, &options)?;
    let machine = (&device, name.as_str(), &processor);
    let answered = if arguments.sweep.is_empty() {
        answer(arguments, context, &database, machine)
    } else {
        sweep::run(arguments, context, &database, machine)
    };
    let closed = database.close();
    answered?;
    Ok(closed?)
}

/// Device, its name, processor.
type Machine<'a> = (&'a DeviceCosts, &'a str, &'a CpuCosts);

/// The two tables, opened.
struct Inputs<'t> {
    tables: &'t Tables,
    left: HeapRelation<'t>,
    right: HeapRelation<'t>,
    left_index: Option<SecondaryIndex<'t>>,
    right_index: Option<SecondaryIndex<'t>>,
    keys: (Key, Key),
    join_type: JoinType,
}

impl<'t> Inputs<'t> {
    fn open(arguments: &ExplainArguments, tables: &'t Tables) -> Result<Self, Failure> {
        let open = |side: &SideArgument| HeapRelation::open(tables, &side.table);
        let (left, right) = (open(&arguments.left)?, open(&arguments.right)?);
        let (left_index, right_index) =
            (index_of(tables, &arguments.left)?, index_of(tables, &arguments.right)?);
        let keys = (key_of(tables, &arguments.left)?, key_of(tables, &arguments.right)?);
        Ok(Self {
            tables,
            left,
            right,
            left_index,
            right_index,
            keys,
            join_type: arguments.join_type,
        })
    }

    fn page_bytes(&self) -> u32 {
        self.tables.engine().settings().page_bytes
    }

    fn pages(&self, memory: ByteCount) -> u32 {
        u32::try_from(memory.0 / u64::from(self.page_bytes())).unwrap_or(u32::MAX)
    }

    fn question(&self) -> Result<JoinQuestion, QueryError> {
        let side = |relation: &HeapRelation<'_>, index: Option<&SecondaryIndex<'_>>| {
            let stats = RelationStats::of(relation.size(), u64::from(self.page_bytes()));
            let side = JoinSide::new(stats);
            Ok::<_, QueryError>(match index {
                Some(index) => side.with_index(IndexStats::of(index)?),
                None => side,
            })
        };
        let duplicates = self.right.size().tuple_count / self.left.size().tuple_count.max(1);
        let left = side(&self.left, self.left_index.as_ref())?;
        let right = side(&self.right, self.right_index.as_ref())?;
        let question = JoinQuestion::new(left, right, duplicates.max(1));
        Ok(question.with_join_type(self.join_type))
    }

    fn indexes(&self) -> Indexes<'_> {
        Indexes {
            left: self.left_index.as_ref().map(|index| index as &dyn IndexLookup),
            right: self.right_index.as_ref().map(|index| index as &dyn IndexLookup),
        }
    }

    fn join(&self) -> Join<'_> {
        Join {
            left: JoinInput { relation: &self.left, key: &self.keys.0 },
            right: JoinInput { relation: &self.right, key: &self.keys.1 },
            join_type: self.join_type,
        }
    }

    /// All plans in so much memory.
    fn plans(
        &self,
        (device, _, processor): Machine<'_>,
        memory: ByteCount,
        write_budget: Option<ByteCount>,
    ) -> Result<Plans, QueryError> {
        let convention = Convention::AsBuilt { reads_ahead: true };
        let model = CostModel { device, processor, convention };
        let write_bytes = write_budget.map(|budget| budget.0);
        let memory_pages = u64::from(self.pages(memory));
        let pool_bytes = self.tables.engine().settings().pool_bytes;
        let pool_pages = (pool_bytes / u64::from(self.page_bytes())).saturating_sub(memory_pages);
        let budget = Budget { memory_pages, write_bytes, pool_pages };
        Ok(plans(&model, &self.question()?, &budget))
    }

    fn limits(&self, memory: ByteCount, write_budget: Option<ByteCount>) -> Limits {
        Limits {
            page_bytes: self.page_bytes(),
            memory_pages: self.pages(memory),
            write_budget_bytes: write_budget.map(|budget| budget.0),
            reads_ahead: true,
            work_costs: None,
        }
    }
}

fn answer(
    arguments: &ExplainArguments,
    context: &Context,
    database: &Database,
    machine: Machine<'_>,
) -> Result<(), Failure> {
    let tables = database.read();
    let inputs = Inputs::open(arguments, &tables)?;
    let found = inputs.plans(machine, arguments.memory, arguments.write_budget)?;
    let mut explanation = Explanation::new(&found);
    let mut pair_count = None;
    if arguments.analyze {
        let chosen = chosen_plans(&arguments.join, &found.feasible, inputs.indexes())?;
        let progress = Progress::new(&context.interrupt, chosen.len());
        for plan in chosen {
            progress.show(0.0, plan.kind.name());
            let limits = inputs.limits(arguments.memory, arguments.write_budget);
            let (actual, pairs) = run_plan(&inputs, plan, limits, context)?;
            progress.step_done();
            explanation.note(plan.kind, plan.is_swapped, actual);
            check_pairs(&mut pair_count, pairs, plan)?;
        }
    }
    let device = machine.1;
    if arguments.json {
        let memory_bytes = arguments.memory.0;
        let explanation = &explanation;
        return context.output.json(&Answer { device, memory_bytes, explanation, pair_count });
    }
    let pairs = pair_count.map(|count| format!("{count} pairs\n")).unwrap_or_default();
    let memory = arguments.memory;
    context.output.text(&format!("device: {device}; memory: {memory}\n{explanation}{pairs}"))
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

fn key_of(tables: &Tables, side: &SideArgument) -> Result<Key, Failure> {
    Ok(Key::of(&[tables.definition(&side.table)?.column(&side.column)?]))
}

/// The first index of the table that begins with the column and has no other.
fn index_of<'t>(
    tables: &'t Tables,
    side: &SideArgument,
) -> Result<Option<SecondaryIndex<'t>>, Failure> {
    let definition = tables.definition(&side.table)?;
    let column = definition.column(&side.column)?;
    let found = definition.indexes.iter().find(|index| index.columns == [column]);
    let open = |name: &str| SecondaryIndex::open(tables, &side.table, name, false);
    Ok(found.map(|index| open(&index.name)).transpose()?)
}

/// Runs one plan and counts its pairs.
fn run_plan(
    inputs: &Inputs<'_>,
    plan: &Plan,
    limits: Limits,
    context: &Context,
) -> Result<(Actual, u64), QueryError> {
    let page_bytes = u64::from(limits.page_bytes);
    let engine = inputs.tables.engine();
    let grant = engine.grant(limits.memory_pages)?;
    let io = engine.data_io();
    let stop = context.interrupt.flag();
    let execution = Execution::new(limits, io.clone(), io, Some(grant), stop);
    let stopwatch = Stopwatch::start();
    let mut stream = plan.open(&execution, inputs.join(), inputs.indexes(), ChunkRule::ByBytes)?;
    let mut pair_count = 0;
    while stream.advance()? {
        pair_count += stream.batch().pairs.len() as u64;
    }
    drop(stream);
    let time_ns = stopwatch.nanos();
    let counts = execution.io_counts();
    let actual = Actual {
        requests: counts.read_requests + counts.write_requests,
        pages: (counts.read_bytes + counts.write_bytes) / page_bytes,
        pages_written: counts.write_bytes / page_bytes,
        io_ns: counts.wait_ns,
        cpu_ns: time_ns.saturating_sub(counts.wait_ns),
        time_ns,
    };
    Ok((actual, pair_count))
}
