//! `nandu explain --sweep`: all joins in several memories, and how far the plan that the estimate calls the
//! cheapest was from the fastest.
//!
//! Runs begin with an empty buffer pool, as estimates do.
//!
//! Where the processor is measured, it is before each memory: a machine that others use may be half as fast a
//! minute later.
//!
//! 1. What is estimated at more than [`HOPELESS`] times the cheapest is not run.

use super::processor::{self, Origin};
use super::{Costs, ExplainArguments, check_pairs, ends_alone, run_plan};
use crate::Context;
use crate::failure::Failure;
use crate::output::complain;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use nandu::Database;
use nandu_base::{ByteCount, Nanos};
use nandu_query::QueryError;
use nandu_query::plan::{Actual, Plan};
use serde::Serialize;
use std::fmt::Write;

/// By how much an estimate may pass the least one for the join to be run.
const HOPELESS: u64 = 5;

/// One join in one memory.
#[derive(Serialize)]
struct Run {
    join: String,
    estimated_ns: u64,
    /// Of it what the device and the processor take; they may overlap.
    estimated_io_ns: u64,
    estimated_cpu_ns: u64,
    estimated_requests: u64,
    estimated_pages: u64,
    /// The run of median time.
    actual: Actual,
}

/// All joins in one memory, cheapest by estimate first.
#[derive(Serialize)]
struct Point {
    memory_bytes: u64,
    runs: Vec<Run>,
    fastest: String,
    /// The time of the first by the time of the fastest.
    chosen_by_fastest: f64,
}

#[derive(Serialize)]
struct Sweep<'a> {
    device: &'a str,
    /// Of the first memory, where it is measured before each.
    processor: &'a Origin,
    points: Vec<Point>,
    worst: f64,
    run: RunFacts,
}

/// Explains the join for each memory of the sweep.
pub(super) fn run(
    arguments: &ExplainArguments,
    context: &Context,
    database: &Database,
    costs: Costs<'_>,
    origin: &Origin,
) -> Result<(), Failure> {
    let progress = Progress::new(context, arguments.sweep.len());
    let mut points = Vec::new();
    let mut pair_count = None;
    let (device, name, mut processor) = (costs.0, costs.1, *costs.2);
    for (place, &memory) in arguments.sweep.iter().enumerate() {
        if arguments.calibrate && place > 0 {
            progress.show(0.0, "measuring the processor");
            processor = processor::again(arguments, &context.interrupt)?.costs;
        }
        let chosen = plans(arguments, database, (device, name, &processor), memory)?;
        let mut actuals: Vec<Vec<Actual>> = vec![Vec::new(); chosen.len()];
        // In turns, so that what comes and goes on the machine meets all of them.
        for _ in 0..arguments.repetitions {
            for (plan, actuals) in chosen.iter().zip(&mut actuals) {
                progress.show(0.0, &format!("{} in {memory}", plan.kind));
                match run_cold(arguments, context, database, (plan, memory))? {
                    Ok((actual, pairs)) => {
                        check_pairs(&mut pair_count, pairs, plan)?;
                        actuals.push(actual);
                    }
                    // The others are worth telling all the same.
                    Err(why) => complain(&format!("note: no result in {memory}: {why}")),
                }
            }
        }
        let ran = chosen.iter().zip(actuals).filter(|(_, actuals)| !actuals.is_empty());
        let runs: Vec<Run> = ran.map(|(plan, actuals)| run_of(plan, actuals)).collect();
        progress.step_done();
        let fastest = runs.iter().min_by_key(|run| run.actual.time_ns);
        let Some(fastest) = fastest else {
            let why = format!(
                "no join can be run in {memory}; `nandu explain --memory` says what one needs"
            );
            return Err(Failure::input(why));
        };
        let chosen_by_fastest =
            runs[0].actual.time_ns as f64 / fastest.actual.time_ns.max(1) as f64;
        let fastest = fastest.join.clone();
        points.push(Point { memory_bytes: memory.0, runs, fastest, chosen_by_fastest });
    }
    let worst = points.iter().map(|point| point.chosen_by_fastest).fold(1.0, f64::max);
    let run = RunFacts::since(context.started);
    let sweep = Sweep { device: name, processor: origin, points, worst, run };
    if arguments.json {
        return context.output.json("explain --sweep", &sweep);
    }
    context.output.line(table(&sweep).trim_end())
}

/// The plans that are run.
fn plans(
    arguments: &ExplainArguments,
    database: &Database,
    costs: Costs<'_>,
    memory: ByteCount,
) -> Result<Vec<Plan>, Failure> {
    let tables = database.read();
    let inputs = arguments.open(&tables)?;
    let mut plans = inputs.plans(costs, memory, arguments)?.feasible;
    let least_ns = plans.first().map_or(0, |plan| plan.time.0);
    plans.retain(|plan| {
        plan.is_opened_with(inputs.indexes()) && plan.time.0 <= least_ns.saturating_mul(HOPELESS)
    });
    Ok(plans)
}

/// Runs a plan with no page of the tables in memory but those that opening them reads.
fn run_cold(
    arguments: &ExplainArguments,
    context: &Context,
    database: &Database,
    (plan, memory): (&Plan, ByteCount),
) -> Result<Result<(Actual, u64), QueryError>, Failure> {
    database.drop_cached_pages()?;
    let tables = database.read();
    let inputs = arguments.open(&tables)?;
    let limits = inputs.limits(memory, arguments.write_budget);
    match run_plan(&inputs, plan, (limits, arguments.thread_count()), context) {
        Err(error) if !ends_alone(&error) => Err(error.into()),
        ran => Ok(ran),
    }
}

fn run_of(plan: &Plan, mut actuals: Vec<Actual>) -> Run {
    actuals.sort_by_key(|actual| actual.time_ns);
    Run {
        join: format!("{}{}", plan.kind, if plan.is_swapped { " (S)" } else { "" }),
        estimated_ns: plan.time.0,
        estimated_io_ns: plan.estimate.io_ns,
        estimated_cpu_ns: plan.estimate.cpu_ns,
        estimated_requests: plan.estimate.request_count(),
        estimated_pages: plan.estimate.page_count(),
        actual: actuals[actuals.len() / 2],
    }
}

fn table(sweep: &Sweep<'_>) -> String {
    let mut text = format!("device: {}\nprocessor: {}\n", sweep.device, sweep.processor);
    for point in &sweep.points {
        let memory = ByteCount(point.memory_bytes);
        let _ = writeln!(
            text,
            "{memory}: the first of these by the fastest, {}: {:.2}",
            point.fastest, point.chosen_by_fastest
        );
        let _ = writeln!(
            text,
            "  {:<22} {:>10} {:>10} {:>10} {:>10}",
            "join", "estimate s", "took s", "user s", "system s"
        );
        for run in &point.runs {
            let seconds = |time_ns: u64| Nanos(time_ns).as_seconds_f64();
            let _ = writeln!(
                text,
                "  {:<22} {:>10.3} {:>10.3} {:>10.3} {:>10.3}",
                run.join,
                seconds(run.estimated_ns),
                seconds(run.actual.time_ns),
                seconds(run.actual.cpu_ns - run.actual.system_ns),
                seconds(run.actual.system_ns)
            );
        }
    }
    let _ = writeln!(text, "worst: {:.2}", sweep.worst);
    text
}
