//! `nandu explain`: what each join of two tables would cost on a device, and, if asked, what it does.
//!
//! 1. The memory is that of the buffer pool: operators get a grant of its frames.
//! 2. A run leaves nothing behind: spill files go with it.

use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;
use clap::Args;
use nandu::{Database, DatabaseOptions, Tables};
use nandu_base::ByteCount;
use nandu_device::Operation;
use nandu_probe::pattern::Access;
use nandu_probe::profile::DeviceProfile;
use nandu_query::cost::{
    AccessCurves, Convention, CostModel, CpuCosts, Curve, CurvePoint, DeviceCosts, JoinQuestion,
    JoinSide, RelationStats,
};
use nandu_query::join::{Join, JoinInput, JoinType};
use nandu_query::plan::{Actual, Budget, ChunkRule, Explanation, Plan, plans};
use nandu_query::relation::HeapRelation;
use nandu_query::{Execution, JoinKind, Key, Limits, QueryError, Relation};
use serde::Serialize;
use std::path::{Path, PathBuf};

/// Memory of the pool beside that of the join.
const POOL_BYTES: u64 = 16 << 20;
/// The device that is assumed without a profile: a plain NVMe drive of the 2020s, not a measured one.
const ASSUMED_LATENCY_NS: u64 = 80_000;
const ASSUMED_READ_BYTES_PER_SECOND: u64 = 1_500_000_000;
const ASSUMED_WRITE_BYTES_PER_SECOND: u64 = 800_000_000;

/// Say what each join of two tables would cost, and which is the cheapest
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu explain shop customer.c_custkey orders.o_custkey --memory 100MiB
  nandu explain shop customer.c_custkey orders.o_custkey --write-budget 0 --analyze
  nandu probe . --profile drive.json
  nandu explain shop customer.c_custkey orders.o_custkey --profile drive.json

Times follow the device's profile, as `nandu probe --profile` writes it; without one a plain
NVMe drive is assumed. With --analyze the cheapest join runs, or those named by --join, and
the line below its estimate says what it did.")]
pub(crate) struct ExplainArguments {
    /// The directory of the database
    database: PathBuf,
    /// One side, TABLE.COLUMN
    #[arg(value_parser = parse_side)]
    left: SideArgument,
    /// The other side, TABLE.COLUMN
    #[arg(value_parser = parse_side)]
    right: SideArgument,
    /// Memory of the join
    #[arg(long, default_value = "64MiB", value_parser = super::parse_size)]
    memory: ByteCount,
    /// Bytes that the join may write; as many as it takes if not given
    #[arg(long, value_parser = ByteCount::parse)]
    write_budget: Option<ByteCount>,
    /// The profile of the device, as JSON
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
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
    let (device, name) = device_costs(arguments.profile.as_deref())?;
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = arguments.memory.0 + POOL_BYTES;
    let (database, _) = nandu::open_database(&arguments.database, &options)?;
    let answered = answer(arguments, context, &database, (&device, &name));
    let closed = database.close();
    answered?;
    Ok(closed?)
}

fn answer(
    arguments: &ExplainArguments,
    context: &Context,
    database: &Database,
    (device, name): (&DeviceCosts, &str),
) -> Result<(), Failure> {
    let tables = database.read();
    let page_bytes = tables.engine().settings().page_bytes;
    let memory_pages =
        u32::try_from(arguments.memory.0 / u64::from(page_bytes)).unwrap_or(u32::MAX);
    let left = HeapRelation::open(&tables, &arguments.left.table)?;
    let right = HeapRelation::open(&tables, &arguments.right.table)?;
    let side = |relation: &HeapRelation<'_>| {
        JoinSide::new(RelationStats::of(relation.size(), u64::from(page_bytes)))
    };
    let duplicates = right.size().tuple_count / left.size().tuple_count.max(1);
    let question = JoinQuestion::new(side(&left), side(&right), duplicates.max(1));
    let convention = Convention::AsBuilt { reads_ahead: true };
    let model = CostModel { device, processor: &CpuCosts::MODELLED, convention };
    let write_bytes = arguments.write_budget.map(|budget| budget.0);
    let budget = Budget { memory_pages: u64::from(memory_pages), write_bytes };
    let found = plans(&model, &question, &budget);
    let mut explanation = Explanation::new(&found);
    let mut pair_count = None;
    if arguments.analyze {
        let chosen = chosen_plans(&arguments.join, &found.feasible)?;
        let keys = (key_of(&tables, &arguments.left)?, key_of(&tables, &arguments.right)?);
        let join = Join {
            left: JoinInput { relation: &left, key: &keys.0 },
            right: JoinInput { relation: &right, key: &keys.1 },
            join_type: JoinType::Inner,
        };
        let progress = Progress::new(&context.interrupt, chosen.len());
        for plan in chosen {
            progress.show(0.0, plan.kind.name());
            let limits = Limits {
                page_bytes,
                memory_pages,
                write_budget_bytes: write_bytes,
                reads_ahead: true,
                work_costs: None,
            };
            let (actual, pairs) = run_plan(&tables, plan, join, limits, context)?;
            progress.step_done();
            explanation.note(plan.kind, plan.is_swapped, actual);
            if pair_count.is_some_and(|count| count != pairs) {
                let what = format!("{} gave {pairs} pairs, another join did not", plan.kind);
                return Err(Failure::shape(what));
            }
            pair_count = Some(pairs);
        }
    }
    if arguments.json {
        let memory_bytes = arguments.memory.0;
        let explanation = &explanation;
        return context.output.json(&Answer {
            device: name,
            memory_bytes,
            explanation,
            pair_count,
        });
    }
    let pairs = pair_count.map(|count| format!("{count} pairs\n")).unwrap_or_default();
    let memory = arguments.memory;
    context.output.text(&format!("device: {name}; memory: {memory}\n{explanation}{pairs}"))
}

/// The plans to run: the cheapest, those named, or all.
fn chosen_plans<'p>(names: &[String], feasible: &'p [Plan]) -> Result<Vec<&'p Plan>, Failure> {
    if names.is_empty() {
        return Ok(feasible.iter().filter(|plan| plan.opens_relations()).take(1).collect());
    }
    let mut kinds = Vec::new();
    for name in names {
        match name.as_str() {
            "all" => kinds
                .extend(JoinKind::ALL.into_iter().filter(|kind| *kind != JoinKind::NestedLoops)),
            name => kinds.push(name.parse::<JoinKind>()?),
        }
    }
    let is_chosen = |plan: &&Plan| kinds.contains(&plan.kind) && plan.opens_relations();
    let chosen: Vec<&Plan> = feasible.iter().filter(is_chosen).collect();
    if chosen.is_empty() {
        return Err(Failure::input("none of these joins can be run here; see the estimates"));
    }
    Ok(chosen)
}

fn key_of(tables: &Tables, side: &SideArgument) -> Result<Key, Failure> {
    Ok(Key::of(&[tables.definition(&side.table)?.column(&side.column)?]))
}

/// Runs one plan and counts its pairs.
fn run_plan(
    tables: &Tables,
    plan: &Plan,
    join: Join<'_>,
    limits: Limits,
    context: &Context,
) -> Result<(Actual, u64), QueryError> {
    let page_bytes = u64::from(limits.page_bytes);
    let engine = tables.engine();
    let grant = engine.grant(limits.memory_pages)?;
    let io = engine.data_io();
    let stop = context.interrupt.flag();
    let execution = Execution::new(limits, io.clone(), io, Some(grant), stop);
    let stopwatch = Stopwatch::start();
    let mut stream = plan.open(&execution, join, ChunkRule::ByBytes)?;
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

/// What the device costs: from its profile, or assumed.
fn device_costs(profile: Option<&Path>) -> Result<(DeviceCosts, String), Failure> {
    let Some(path) = profile else {
        let costs = DeviceCosts::from_rates(
            0,
            ASSUMED_LATENCY_NS,
            ASSUMED_READ_BYTES_PER_SECOND,
            ASSUMED_WRITE_BYTES_PER_SECOND,
        );
        return Ok((costs, "an assumed NVMe drive; give --profile for yours".to_owned()));
    };
    let place = path.display().to_string();
    let profile = DeviceProfile::from_json(&place, &crate::output::read_file(path)?)?;
    let curve = |operation, access| {
        let points = profile.points.iter().filter(|point| {
            point.operation == operation && point.access == access && point.queue_depth == 1
        });
        let points: Vec<CurvePoint> = points
            .map(|point| CurvePoint {
                at: point.request_bytes,
                value: whole(point.time_per_request_ns),
            })
            .collect();
        Curve::new(points).map_err(|_| {
            let (what, how) = (Operation::label(operation), format!("{access:?}").to_lowercase());
            Failure::input(format!("{place} has no {how} {what} at queue depth 1; probe it again"))
        })
    };
    let curves = |operation| -> Result<AccessCurves, Failure> {
        let sequential = curve(operation, Access::Sequential)?;
        Ok(AccessCurves { sequential, random: curve(operation, Access::Random)? })
    };
    let costs = DeviceCosts {
        seek_ns: 0,
        read: curves(Operation::Read)?,
        write: curves(Operation::Write)?,
        random_read_gain_ppm: Curve::constant(1_000_000),
    };
    Ok((costs, profile.device))
}

/// Nanoseconds without their fraction.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a time is positive and far below the end of the range"
)]
const fn whole(nanos: f64) -> u64 {
    nanos as u64
}
