//! `nandu explain --sweep`: all joins in several memories, and how far the plan that the estimate calls the
//! cheapest was from the fastest.
//!
//! 1. What is estimated at more than [`HOPELESS`] times the cheapest is not run.

use super::{ExplainArguments, Inputs, Machine, check_pairs, run_plan};
use crate::Context;
use crate::failure::Failure;
use crate::progress::Progress;
use nandu::Database;
use nandu_base::Nanos;
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
    estimated_requests: u64,
    estimated_pages: u64,
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
    points: Vec<Point>,
    worst: f64,
}

/// Does it.
pub(super) fn run(
    arguments: &ExplainArguments,
    context: &Context,
    database: &Database,
    machine: Machine<'_>,
) -> Result<(), Failure> {
    let tables = database.read();
    let inputs = Inputs::open(arguments, &tables)?;
    let progress = Progress::new(&context.interrupt, arguments.sweep.len());
    let mut points = Vec::new();
    let mut pair_count = None;
    for &memory in &arguments.sweep {
        let found = inputs.plans(machine, memory, arguments.write_budget)?;
        let least_ns = found.feasible.first().map_or(0, |plan| plan.time.0);
        let is_run = |plan: &&Plan| {
            plan.is_opened_with(inputs.indexes())
                && plan.time.0 <= least_ns.saturating_mul(HOPELESS)
        };
        let mut runs = Vec::new();
        for plan in found.feasible.iter().filter(is_run) {
            progress.show(0.0, &format!("{} in {memory}", plan.kind));
            let limits = inputs.limits(memory, arguments.write_budget);
            let (actual, pairs) = run_plan(&inputs, plan, limits, context)?;
            check_pairs(&mut pair_count, pairs, plan)?;
            runs.push(Run {
                join: format!("{}{}", plan.kind, if plan.is_swapped { " (S)" } else { "" }),
                estimated_ns: plan.time.0,
                estimated_requests: plan.estimate.request_count(),
                estimated_pages: plan.estimate.page_count(),
                actual,
            });
        }
        progress.step_done();
        let fastest = runs.iter().min_by_key(|run| run.actual.time_ns);
        let Some(fastest) = fastest else {
            return Err(Failure::input(format!("no join can be run in {memory}")));
        };
        let chosen_by_fastest =
            runs[0].actual.time_ns as f64 / fastest.actual.time_ns.max(1) as f64;
        let fastest = fastest.join.clone();
        points.push(Point { memory_bytes: memory.0, runs, fastest, chosen_by_fastest });
    }
    let worst = points.iter().map(|point| point.chosen_by_fastest).fold(1.0, f64::max);
    let sweep = Sweep { device: machine.1, points, worst };
    if arguments.json {
        return context.output.json(&sweep);
    }
    context.output.text(&table(&sweep))
}

fn table(sweep: &Sweep<'_>) -> String {
    let mut text = format!("device: {}\n", sweep.device);
    for point in &sweep.points {
        let memory = nandu_base::ByteCount(point.memory_bytes);
        let _ = writeln!(
            text,
            "{memory}: the first of these by the fastest, {}: {:.2}",
            point.fastest, point.chosen_by_fastest
        );
        for run in &point.runs {
            let seconds = |time_ns: u64| Nanos(time_ns).as_seconds_f64();
            let _ = writeln!(
                text,
                "  {:<26} estimated {:>9.3} s, took {:>9.3} s ({:.3} s processor)",
                run.join,
                seconds(run.estimated_ns),
                seconds(run.actual.time_ns),
                seconds(run.actual.cpu_ns)
            );
        }
    }
    let _ = writeln!(text, "worst: {:.2}", sweep.worst);
    text
}
