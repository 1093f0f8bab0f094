//! `nandu bench ycsb --out DIR`: the run as a result of the laboratory, with its page and figures.
//!
//! ```text
//!   YcsbReport ─► Outcome: series ─► figures, bars, tables ─► DIR/ycsb-a/report.html
//! ```
//!
//! 1. What is drawn is what `--json` says, and no more; nothing is claimed, so there are no verdicts.

use super::ycsb::YcsbReport;
use crate::failure::Failure;
use nandu_base::{ByteCount, fnv1a};
use nandu_device::EnergyReport;
use nandu_lab::outcome::{Axis, Cell, Figure, Grid, Outcome, Series, StepEnergy, Trace};
use nandu_lab::{Meta, keep, write_report};
use std::path::{Path, PathBuf};

/// Percentiles of the bars, and what they are called.
const PERCENTILES: [(f64, &str); 5] =
    [(50.0, "p50"), (95.0, "p95"), (99.0, "p99"), (99.9, "p99.9"), (100.0, "longest")];

/// Keeps the run below `directory` and draws it; where the page lies.
pub(super) fn write(report: &YcsbReport<'_>, directory: &Path) -> Result<PathBuf, Failure> {
    let outcome = outcome_of(report);
    let folder = directory.join(&outcome.experiment);
    let run = &report.run;
    let meta = Meta {
        command: run.command.clone(),
        version: env!("CARGO_PKG_VERSION").into(),
        commit: run.commit.into(),
        seed: report.seed,
        config_hash: outcome.config_hash.clone(),
        local: report.capacity_bytes.is_none().then(|| report.device.to_owned()),
        machine: run.machine.clone(),
        steps_stored: [run.date.clone(), run.date.clone()],
        seconds_between: 0,
    };
    keep(&folder, &outcome, &meta)?;
    Ok(write_report(&folder)?.path)
}

fn outcome_of(report: &YcsbReport<'_>) -> Outcome {
    let clients = match report.client_count {
        1 => "one client".to_owned(),
        count => format!("{count} clients"),
    };
    let workload = report.workload.label();
    let config = serde_json::to_vec(&(
        (report.workload, report.distribution, report.record_count, report.field_bytes),
        (report.client_count, report.core_count, report.processor_time_ns, report.think_time_ns),
        (report.device, report.capacity_bytes, report.seed, report.isolation),
        (report.settings, report.outcome.operation_count),
    ));
    let config = config.expect("the run's parameters are plain values");
    let (levels, amplification) = (levels(report), amplification(report));
    let grids = [latencies(report), levels, amplification, aborts(report)];
    let of_drive = report.outcome.energy.as_ref().filter(|_| report.log.is_none());
    Outcome {
        experiment: format!("ycsb-{workload}"),
        title: format!("YCSB {workload}: {clients} on {}", report.device),
        question: format!(
            "What do {clients} get, how long do they wait, and what is written for it?"
        ),
        method: method(report),
        reference: "Cooper et al., Benchmarking Cloud Serving Systems with YCSB, SoCC 2010".into(),
        seed: report.seed,
        seeds: vec![report.seed],
        config_hash: format!("{:016x}", fnv1a(&config)),
        verdicts: Vec::new(),
        figures: vec![throughput(report)],
        grids: grids.into_iter().flatten().collect(),
        series: series_of(report),
        published: Vec::new(),
        notes: Vec::new(),
        energy: report.outcome.energy.iter().chain(report.cost.meter()).map(energy_of).collect(),
        drive_energy: Vec::new(),
        silent_drives: report.cost.silent_drives().to_vec(),
        worth: report.cost.worth(report.device, of_drive).into_iter().collect(),
    }
}

fn energy_of(energy: &EnergyReport) -> StepEnergy {
    StepEnergy { step: "clients".into(), energy: energy.clone() }
}

/// How it was measured, in words.
fn method(report: &YcsbReport<'_>) -> String {
    let clock = match report.core_count {
        None => "Each client is a thread, and the clock that of the machine.".to_owned(),
        Some(cores) => format!(
            "Clients share a virtual clock: {cores} of them compute at once, {} us for an operation; `history` is \
             {}.",
            report.processor_time_ns as f64 / 1e3,
            report.outcome.history
        ),
    };
    let distribution = serde_json::to_value(report.distribution).expect("a word");
    let thought = match report.think_time_ns {
        0 => String::new(),
        nanos => format!(" and {} us of thought", nanos as f64 / 1e3),
    };
    format!(
        "{} operations over {} records of ten fields of {} bytes, drawn by `{}`, after a load that is not counted; a \
         pool of {}, emptied before, isolation `{}`. {clock} A latency runs from when an operation was due, the end \
         of the one before it{thought}, to its end.",
        report.outcome.operation_count,
        report.record_count,
        report.field_bytes,
        distribution.as_str().unwrap_or_default(),
        ByteCount(report.settings.pool_bytes),
        report.isolation,
    )
}

/// Where each part of the run ends, in seconds, and the rate in it.
fn rates(report: &YcsbReport<'_>) -> Vec<(f64, f64)> {
    let rates = &report.outcome.operations_per_second_over_time;
    let part_s = report.outcome.elapsed_ns as f64 / 1e9 / rates.len().max(1) as f64;
    let point = |(index, &rate): (usize, &f64)| ((index + 1) as f64 * part_s, rate);
    rates.iter().enumerate().map(point).collect()
}

fn throughput(report: &YcsbReport<'_>) -> Figure {
    let axis =
        |label: &str, unit: &str| Axis { label: label.into(), unit: unit.into(), log: false };
    let trace = Trace {
        series: "operations_s".into(),
        label: "operations".into(),
        group: "operations_s".into(),
        variant: String::new(),
        published: false,
        points: rates(report),
    };
    Figure {
        title: "Throughput over time".into(),
        caption: "Each point is the rate of the twentieth of the time that ends there; in the last some clients are \
                  done already."
            .into(),
        x: axis(if report.core_count.is_some() { "virtual time" } else { "time" }, "s"),
        y: axis("operations", "1/s"),
        traces: vec![trace],
    }
}

/// The latencies of a kind at [`PERCENTILES`], in microseconds.
fn percentiles(operation: &nandu_bench::OperationOutcome) -> [f64; PERCENTILES.len()] {
    let latency = &operation.latency_ns;
    [latency.p50, latency.p95, latency.p99, latency.p999, latency.max]
        .map(|nanos| nanos as f64 / 1e3)
}

fn latencies(report: &YcsbReport<'_>) -> Option<Grid> {
    let kinds = &report.outcome.operations;
    let of_percentile = |index: usize| kinds.iter().map(move |kind| cell(percentiles(kind)[index]));
    (!kinds.is_empty()).then(|| Grid {
        title: "Latency, from when an operation was due to its end".into(),
        caption: String::new(),
        bars: true,
        value: Axis { label: "latency".into(), unit: "us".into(), log: true },
        columns: kinds.iter().map(|kind| kind.kind.replace('_', "-")).collect(),
        column_groups: kinds.iter().map(|kind| kind.kind.to_owned()).collect(),
        rows: PERCENTILES.map(|(_, name)| name.to_owned()).to_vec(),
        cells: (0..PERCENTILES.len()).map(|index| of_percentile(index).collect()).collect(),
    })
}

const fn cell(value: f64) -> Cell {
    Cell { ours: Some(value), published: None }
}

/// What was read and written at each level, in bytes; `None` at a level that cannot be seen.
fn bytes_by_level(report: &YcsbReport<'_>) -> [(&'static str, Option<u64>, Option<u64>); 4] {
    let (counts, outcome) = (&report.counts, &report.outcome);
    [
        ("records, by clients", Some(counts.record_read_bytes), Some(counts.record_written_bytes)),
        ("log", None, Some(outcome.log_bytes)),
        ("devices, the log included", Some(outcome.read_bytes), Some(outcome.written_bytes)),
        ("flash cells", None, report.programmed_bytes),
    ]
}

fn levels(report: &YcsbReport<'_>) -> Option<Grid> {
    let megabytes =
        |bytes: Option<u64>| Cell { ours: bytes.map(|bytes| bytes as f64 / 1e6), published: None };
    let mut rows = Vec::new();
    let mut cells = Vec::new();
    for (level, read, written) in bytes_by_level(report) {
        if [read, written].iter().flatten().any(|bytes| *bytes > 0) {
            rows.push(level.to_owned());
            cells.push(vec![megabytes(read), megabytes(written)]);
        }
    }
    (!rows.is_empty()).then(|| Grid {
        title: "Bytes at each level".into(),
        caption: match report.core_count {
            Some(_) => String::new(),
            None => "Reads of devices are without what threads read past the queue, which nobody counts.".into(),
        },
        bars: true,
        value: Axis { label: "bytes".into(), unit: "MB".into(), log: false },
        columns: vec!["read".into(), "written".into()],
        column_groups: vec!["read".into(), "written".into()],
        rows,
        cells,
    })
}

/// Bytes at the levels below for one that clients wrote; `None` where they wrote nothing.
fn amplification(report: &YcsbReport<'_>) -> Option<Grid> {
    let by_clients = report.counts.record_written_bytes;
    let of = |bytes: Option<u64>| bytes.map(|bytes| bytes as f64 / by_clients as f64);
    let rows = [
        ("log", of(Some(report.outcome.log_bytes))),
        ("devices, the log included", of(Some(report.outcome.written_bytes))),
        ("flash cells", of(report.programmed_bytes)),
    ];
    let rows: Vec<_> = rows.into_iter().filter_map(|(name, value)| Some((name, value?))).collect();
    (by_clients > 0).then(|| Grid {
        title: "Write amplification".into(),
        caption: "Of records that clients wrote as a whole, each attempt; the last line is that down to cells."
            .into(),
        bars: false,
        value: Axis { label: "bytes written for one of clients".into(), unit: String::new(), log: false },
        columns: vec!["factor".into()],
        column_groups: vec!["factor".into()],
        rows: rows.iter().map(|(name, _)| (*name).to_owned()).collect(),
        cells: rows.iter().map(|(_, value)| vec![cell(*value)]).collect(),
    })
}

/// Transactions that were done again, for each thousand operations.
fn aborts(report: &YcsbReport<'_>) -> Option<Grid> {
    let counts = &report.counts;
    let rows = [
        ("conflicts", counts.retries.conflict_count),
        ("deadlocks", counts.retries.deadlock_count),
        ("waits that were too long", counts.retries.lock_timeout_count),
        ("all", counts.retries.retry_count),
    ];
    let operations = report.outcome.operation_count.max(1) as f64;
    let line =
        |&(_, count): &(&str, u64)| vec![cell(count as f64), cell(count as f64 * 1e3 / operations)];
    (counts.record_written_bytes > 0).then(|| Grid {
        title: "Aborts".into(),
        caption: "Each is done again until it succeeds.".into(),
        bars: false,
        value: Axis { label: "transactions done again".into(), unit: String::new(), log: false },
        columns: vec!["count".into(), "of 1000 operations".into()],
        column_groups: vec!["count".into(), "share".into()],
        rows: rows.iter().map(|(name, _)| (*name).to_owned()).collect(),
        cells: rows.iter().map(line).collect(),
    })
}

/// All that is drawn, by points.
fn series_of(report: &YcsbReport<'_>) -> Vec<Series> {
    let mut rate = Series::new("operations_s", "s", "1/s");
    rate.points = rates(report);
    let latency = |operation: &nandu_bench::OperationOutcome| {
        let mut series = Series::new(format!("{}.latency_us", operation.kind), "%", "us");
        let percents = PERCENTILES.iter().map(|(percent, _)| *percent);
        series.points = percents.zip(percentiles(operation)).collect();
        series
    };
    let single = |name: &str, unit: &str, value: f64| {
        let mut series = Series::new(name, "", unit);
        series.points = vec![(0.0, value)];
        series
    };
    let (counts, outcome) = (&report.counts, &report.outcome);
    let mut all = vec![rate];
    all.extend(outcome.operations.iter().map(latency));
    let bytes = [
        ("bytes.records_read", Some(counts.record_read_bytes)),
        ("bytes.records_written", Some(counts.record_written_bytes)),
        ("bytes.log", Some(outcome.log_bytes)),
        ("bytes.devices_read", Some(outcome.read_bytes)),
        ("bytes.devices_written", Some(outcome.written_bytes)),
        ("bytes.programmed", report.programmed_bytes),
    ];
    all.extend(
        bytes.into_iter().filter_map(|(name, bytes)| Some(single(name, "B", bytes? as f64))),
    );
    let aborts = [
        ("aborts.conflicts", counts.retries.conflict_count),
        ("aborts.deadlocks", counts.retries.deadlock_count),
        ("aborts.lock_timeouts", counts.retries.lock_timeout_count),
    ];
    all.extend(aborts.map(|(name, count)| single(name, "", count as f64)));
    all.extend(report.write_amplification.map(|factor| single("write_amplification", "", factor)));
    all.sort_by(|left, right| left.name.cmp(&right.name));
    all
}
