//! `nandu sim --sweep`: a grid of simulations as a table and as Parquet, one row for each.
//!
//! 1. Rows stand in the order of the grid; what was not finished has no row. Where nothing was, nothing is
//!    written.

use super::{SimArguments, check_memory, warn, write_json};
use crate::Context;
use crate::failure::Failure;
use crate::memory::free;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use crate::stopwatch::Stopwatch;
use nandu_base::{ByteCount, LatencySummary};
use nandu_probe::parquet::{Column, write_columns};
use nandu_probe::table::{Table, rate, time};
use nandu_sim::{Axis, Clock, Job, SimError, SimReport, Sweep, TimeShare, WarningKind};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A finished simulation.
struct Row<'a> {
    point: &'a [String],
    report: &'a SimReport,
}

/// What is printed as JSON, in the order of the grid.
#[derive(Serialize)]
struct Reports<'a> {
    reports: &'a [&'a SimReport],
    run: RunFacts,
}

/// Runs the grid.
pub(super) fn run(job: &Job, arguments: &SimArguments, context: &Context) -> Result<(), Failure> {
    let axes: Result<Vec<Axis>, SimError> =
        arguments.sweep.iter().map(|text| Axis::parse(text)).collect();
    let axes = axes?;
    let mut keys = BTreeSet::new();
    if let Some(twice) = axes.iter().find(|axis| !keys.insert(axis.key.replace('-', "_"))) {
        return Err(Failure::input(format!("{} is swept twice; give one list", twice.key)));
    }
    let (sweep, threads) = context.interrupt.before_work(|| -> Result<_, Failure> {
        let sweep = Sweep::new(job, &axes)?;
        let threads = threads(&sweep, arguments.threads)?;
        Ok((sweep, threads))
    })?;
    let stopwatch = Stopwatch::start();
    let clock: Clock = Arc::new(move || stopwatch.nanos());
    let progress = Progress::new(context, 1);
    let outcomes = sweep.run(threads, Some(clock), &mut |at| {
        let left = stopwatch.time_left(at.fraction);
        progress.show(at.fraction, &format!("{} of {} done  {left}", at.done_count, at.run_count));
        !context.interrupt.is_set()
    });
    drop(progress);
    let finished = sweep.points().iter().zip(&outcomes);
    let rows: Vec<Row<'_>> = finished
        .filter_map(|(point, outcome)| match outcome {
            Some(Ok(report)) => Some(Row { point, report }),
            _ => None,
        })
        .collect();
    if rows.is_empty() {
        return conclude(&outcomes, &sweep, 0);
    }
    let mut bytes = Vec::new();
    let columns = columns(&axes, &rows);
    let columns: Vec<(&str, Column)> =
        columns.iter().map(|(name, column)| (name.as_str(), column.clone())).collect();
    write_columns(&mut bytes, "sweep", &columns)?;
    // What was simulated is shown also where no file can hold it.
    let kept = arguments.files.write(&arguments.parquet, &bytes, &context.interrupt);
    let reports: Vec<&SimReport> = rows.iter().map(|row| row.report).collect();
    let found = Reports { reports: &reports, run: RunFacts::since(context.started) };
    let kept = kept.and(write_json(arguments, "sim --sweep", &found, context));
    if arguments.json_to_stdout() {
        context.output.json("sim --sweep", &found)?;
    } else {
        context.output.table(&table(&axes, &rows))?;
        let parquet = arguments.parquet.display();
        if kept.is_ok() {
            let (kept_count, of) = (rows.len(), outcomes.len());
            context.output.line(&format!("\n{kept_count} of {of} rows: {parquet}"))?;
        }
    }
    warn_of(&rows, context);
    kept?;
    conclude(&outcomes, &sweep, rows.len())
}

/// How many simulations are run at a time: as many as were asked for, else one for each core, as far as
/// the memory goes that is free.
fn threads(sweep: &Sweep, wanted: Option<u32>) -> Result<usize, Failure> {
    let mut needs = Vec::with_capacity(sweep.jobs().len());
    for (job, point) in sweep.jobs().iter().zip(sweep.points()) {
        // One that cannot be made costs the others nothing: its row says so.
        let Ok(setup) = job.drive.resolve(false) else { continue };
        check_memory(job, &setup, &format!(" ({})", point.join(" ")))?;
        needs.push(setup.memory(&job.run).0);
    }
    needs.sort_unstable_by(|left, right| right.cmp(left));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let count = wanted.map_or(cores, |count| count as usize).clamp(1, needs.len().max(1));
    let free = free().map_or(u64::MAX, |bytes| bytes.0);
    // Those that take the most may come together.
    let fitting = fitting_count(&needs[..count.min(needs.len())], free).max(1);
    if wanted.is_some() && fitting < count {
        let needed =
            ByteCount(needs[..count].iter().fold(0, |sum, need| sum.saturating_add(*need)));
        let (fitting, free) = (fitting.to_string(), ByteCount(free >> 20 << 20));
        return Err(Failure::input(format!(
            "{count} of the simulations at a time take {needed} of memory, and this process can have \
             {free}; run fewer, with --threads {fitting}"
        )));
    }
    Ok(fitting.min(count))
}

/// How many of the first needs fit `free` bytes together.
fn fitting_count(needs: &[u64], free: u64) -> usize {
    let mut sum = 0_u64;
    let sums = needs.iter().map(|need| {
        sum = sum.saturating_add(*need);
        sum
    });
    sums.take_while(|sum| *sum <= free).count()
}

/// One warning of each kind, with how many rows have it.
fn warn_of(rows: &[Row<'_>], context: &Context) {
    let mut kinds: BTreeMap<WarningKind, Vec<(&[String], &str)>> = BTreeMap::new();
    for row in rows {
        for warning in &row.report.warnings {
            kinds.entry(warning.kind).or_default().push((row.point, &warning.text));
        }
    }
    for warnings in kinds.values() {
        if let Some((point, text)) = warnings.first() {
            let (count, of) = (warnings.len(), rows.len());
            let first = point.join(" ");
            warn(&format!("{count} of {of} simulations, first {first}: {text}"), context);
        }
    }
}

/// How the sweep ends, once what was finished is kept.
fn conclude(
    outcomes: &[Option<Result<SimReport, SimError>>],
    sweep: &Sweep,
    row_count: usize,
) -> Result<(), Failure> {
    let failed = outcomes.iter().zip(sweep.points()).filter_map(|(outcome, point)| match outcome {
        Some(Err(error)) => Some((error, point)),
        _ => None,
    });
    let failed: Vec<(&SimError, &Vec<String>)> = failed.collect();
    if let Some((error, point)) = failed.first() {
        let count = failed.len();
        let of = outcomes.len();
        let point = point.join(" ");
        let kept = match row_count {
            0 => "nothing is kept",
            _ if row_count + count < of => "what was done is kept",
            _ => "the others are kept",
        };
        return Err(Failure::input(format!(
            "{count} of {of} simulations failed, {kept}; the first, at {point}: {error}"
        )));
    }
    if row_count == 0 && !outcomes.is_empty() {
        let of = outcomes.len();
        return Err(Failure::interrupted(format!(
            "none of {of} simulations is done; nothing is kept"
        )));
    }
    if row_count < outcomes.len() {
        return Err(Failure::interrupted(format!(
            "{row_count} of {} simulations are done and kept",
            outcomes.len()
        )));
    }
    Ok(())
}

/// The table on the terminal: the axes and the figures that matter most.
fn table(axes: &[Axis], rows: &[Row<'_>]) -> Table {
    let keys: Vec<&str> =
        axes.iter().map(|axis| axis.key.rsplit('.').next().unwrap_or(&axis.key)).collect();
    let figures =
        [">write amp.", ">theory", ">write mean", ">write p99", ">read mean", ">erases", ">req/s"];
    let headings: Vec<&str> = keys.into_iter().chain(figures).collect();
    let mut table = Table::new(&headings);
    for Row { point, report } in rows {
        let latency = |operation: &str| report.latency_ns.get(operation).filter(|of| of.count > 0);
        let show = |nanos: Option<f64>| nanos.map_or_else(|| "-".into(), time);
        let theory = report.closed_form.map(|theory| theory.write_amplification);
        let mut cells = point.to_vec();
        cells.extend([
            format!("{:.3}", report.write_amplification),
            theory.map_or_else(|| "-".into(), |value| format!("{value:.3}")),
            show(latency("write").map(|of| of.mean)),
            show(latency("write").map(|of| of.p99 as f64)),
            show(latency("read").map(|of| of.mean)),
            format!("{:.1}", report.erase_count.mean),
            rate(report.requests_per_second),
        ]);
        table.row(cells);
    }
    table
}

/// The columns of the file: the axes as text, then every figure of the report.
fn columns(axes: &[Axis], rows: &[Row<'_>]) -> Vec<(String, Column)> {
    let mut columns = Vec::new();
    for (index, axis) in axes.iter().enumerate() {
        let values = rows.iter().map(|row| row.point[index].clone()).collect();
        columns.push((format!("axis_{}", identifier(&axis.key)), Column::Text(values)));
    }
    for (name, figure) in integer_figures() {
        let values = rows.iter().map(|row| i64::try_from(figure(row.report)).unwrap_or(i64::MAX));
        columns.push((name.into(), Column::Integer(values.collect())));
    }
    for (name, figure) in float_figures() {
        let values = rows.iter().map(|row| figure(row.report));
        columns.push((name.into(), Column::Float(values.collect())));
    }
    // One column for each chip command and cause that any row has.
    let cells_of = |report: &SimReport| -> Vec<(String, String)> {
        let rows = report.nand.iter();
        rows.flat_map(|(operation, causes)| {
            causes.keys().map(|cause| (operation.clone(), cause.clone()))
        })
        .collect()
    };
    let cells: BTreeSet<(String, String)> =
        rows.iter().flat_map(|row| cells_of(row.report)).collect();
    for (operation, cause) in cells {
        let count = |row: &Row<'_>| {
            let count = row.report.nand.get(&operation).and_then(|causes| causes.get(&cause));
            i64::try_from(count.copied().unwrap_or(0)).unwrap_or(i64::MAX)
        };
        let values = rows.iter().map(count).collect();
        columns.push((format!("nand_{operation}_{cause}"), Column::Integer(values)));
    }
    columns
}

type Figure<T> = (&'static str, fn(&SimReport) -> T);

fn integer_figures() -> Vec<Figure<u64>> {
    vec![
        ("seed", |report| report.seed),
        ("request_count", |report| report.request_count),
        ("logical_pages", |report| report.config.logical_pages),
        ("physical_pages", |report| report.config.physical_pages),
        ("host_write_pages", |report| report.host_write_pages),
        ("host_read_pages", |report| report.host_read_pages),
        ("host_trim_pages", |report| report.host_trim_pages),
        ("write_p50_ns", |report| latency(report, "write").p50),
        ("write_p99_ns", |report| latency(report, "write").p99),
        ("write_p999_ns", |report| latency(report, "write").p999),
        ("write_max_ns", |report| latency(report, "write").max),
        ("read_p50_ns", |report| latency(report, "read").p50),
        ("read_p99_ns", |report| latency(report, "read").p99),
        ("read_p999_ns", |report| latency(report, "read").p999),
        ("read_max_ns", |report| latency(report, "read").max),
        ("erase_count_min", |report| report.erase_count.min),
        ("erase_count_max", |report| report.erase_count.max),
        ("map_bytes", |report| report.map_bytes),
        ("unique_pages_read", |report| report.unique_pages.unwrap_or_default().read),
        ("unique_pages_write", |report| report.unique_pages.unwrap_or_default().write),
        ("unique_pages_touched", |report| report.unique_pages.unwrap_or_default().touched),
        ("unique_pages_shared", |report| report.unique_pages.unwrap_or_default().shared),
        ("merges_full", |report| report.merges.unwrap_or_default().full),
        ("merges_partial", |report| report.merges.unwrap_or_default().partial),
        ("merges_switch", |report| report.merges.unwrap_or_default().switch),
        ("map_cache_hits", |report| report.map_cache.unwrap_or_default().hits),
        ("map_cache_misses", |report| report.map_cache.unwrap_or_default().misses),
        ("warning_count", |report| report.warnings.len() as u64),
        ("cache_hits", |report| report.cache.unwrap_or_default().hits),
        ("cache_misses", |report| report.cache.unwrap_or_default().misses),
        ("cache_merged_writes", |report| report.cache.unwrap_or_default().merged_writes),
        ("cache_evicted_writes", |report| report.cache.unwrap_or_default().evicted_writes),
        ("skipped_lines", |report| report.skipped_lines),
        ("simulated_ns", |report| report.simulated_ns),
        ("wall_ns", |report| report.wall_ns.unwrap_or(0)),
    ]
}

/// A figure that a row does not have is no number.
fn float_figures() -> Vec<Figure<f64>> {
    vec![
        ("write_amplification", |report| report.write_amplification),
        ("closed_form_write_amplification", |report| {
            report.closed_form.map_or(f64::NAN, |theory| theory.write_amplification)
        }),
        ("utilisation", |report| report.config.utilisation),
        ("write_mean_ns", |report| latency(report, "write").mean),
        ("write_stddev_ns", |report| latency(report, "write").stddev),
        ("read_mean_ns", |report| latency(report, "read").mean),
        ("read_stddev_ns", |report| latency(report, "read").stddev),
        ("erase_count_mean", |report| report.erase_count.mean),
        ("erase_count_stddev", |report| report.erase_count.stddev),
        ("drive_writes_per_day", |report| {
            report.lifetime.as_ref().map_or(f64::NAN, |lifetime| lifetime.drive_writes_per_day)
        }),
        ("energy_joules", |report| {
            report.energy.as_ref().map_or(f64::NAN, |energy| energy.report.joules)
        }),
        ("requests_per_second", |report| report.requests_per_second),
        ("die_utilisation", |report| report.die_utilisation),
        ("die_held_share_mean", |report| mean(&report.die_held_share)),
        ("die_held_share_max", |report| most(&report.die_held_share)),
        ("channel_busy_share_mean", |report| mean(&report.channel_busy_share)),
        ("channel_busy_share_max", |report| most(&report.channel_busy_share)),
        ("read_held_back_ns", |report| spent(report, "read", |of| of.held_back_ns)),
        ("read_die_ns", |report| spent(report, "read", |of| of.die_ns)),
        ("read_cleaning_ns", |report| spent(report, "read", |of| of.cleaning_ns)),
        ("read_channel_ns", |report| spent(report, "read", |of| of.channel_ns)),
        ("read_array_ns", |report| spent(report, "read", |of| of.array_ns)),
        ("read_transfer_ns", |report| spent(report, "read", |of| of.transfer_ns)),
        ("program_held_back_ns", |report| spent(report, "program", |of| of.held_back_ns)),
        ("program_die_ns", |report| spent(report, "program", |of| of.die_ns)),
        ("program_cleaning_ns", |report| spent(report, "program", |of| of.cleaning_ns)),
        ("program_channel_ns", |report| spent(report, "program", |of| of.channel_ns)),
        ("program_array_ns", |report| spent(report, "program", |of| of.array_ns)),
        ("program_transfer_ns", |report| spent(report, "program", |of| of.transfer_ns)),
    ]
}

fn spent(report: &SimReport, operation: &str, part: fn(&TimeShare) -> f64) -> f64 {
    report.time_shares.get(operation).map_or(f64::NAN, part)
}

fn mean(shares: &[f64]) -> f64 {
    if shares.is_empty() { f64::NAN } else { shares.iter().sum::<f64>() / shares.len() as f64 }
}

fn most(shares: &[f64]) -> f64 {
    shares.iter().copied().fold(f64::NAN, f64::max)
}

fn latency(report: &SimReport, operation: &str) -> LatencySummary {
    report.latency_ns.get(operation).copied().unwrap_or_default()
}

/// A key as the name of a column.
fn identifier(key: &str) -> String {
    key.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_many_simulations_run_at_a_time_as_fit() {
        assert_eq!(fitting_count(&[4, 3, 2], 9), 3);
        assert_eq!(fitting_count(&[4, 3, 2], 8), 2);
        assert_eq!(fitting_count(&[u64::MAX, u64::MAX], u64::MAX - 1), 0);
        assert_eq!(fitting_count(&[], 0), 0);
    }
}
