//! What is kept of a run: every figure, their medians, the machine and the command.

use crate::Failure;
use crate::engine::EngineKind;
use crate::limit::MemoryLimit;
use crate::measure::spread;
use crate::phase::PhaseKind;
use crate::plan::Plan;
use nandu_drives::file::{disk_description, machine_description};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// One figure of one phase.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) random_ppm: u32,
    pub(crate) round: u32,
    pub(crate) phase: PhaseKind,
    pub(crate) engine: EngineKind,
    pub(crate) metric: String,
    pub(crate) value: f64,
}

/// A figure over all rounds.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Median {
    #[serde(skip)]
    pub(crate) random_ppm: u32,
    pub(crate) r: f64,
    pub(crate) phase: PhaseKind,
    pub(crate) engine: EngineKind,
    pub(crate) metric: String,
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) count: usize,
}

/// Adds how much faster than one thread two threads and batches were in the same round.
pub(crate) fn derive_gains(rows: &mut Vec<Row>) {
    let base: BTreeMap<(u32, u32, EngineKind), f64> = rows
        .iter()
        .filter(|row| row.phase == PhaseKind::Uniform && row.metric == "us")
        .map(|row| ((row.random_ppm, row.round, row.engine), row.value))
        .collect();
    let gains: Vec<Row> = rows
        .iter()
        .filter(|row| row.metric == "us")
        .filter(|row| row.phase == PhaseKind::Threads || row.phase.is_batch())
        .filter_map(|row| {
            let one = base.get(&(row.random_ppm, row.round, row.engine))?;
            Some(Row { metric: "gain".into(), value: one / row.value, ..row.clone() })
        })
        .collect();
    rows.extend(gains);
}

/// The medians over the rounds, in the order of the run.
pub(crate) fn medians(rows: &[Row]) -> Vec<Median> {
    let mut values: BTreeMap<(u32, PhaseKind, EngineKind, &str), Vec<f64>> = BTreeMap::new();
    for row in rows {
        let key = (row.random_ppm, row.phase, row.engine, row.metric.as_str());
        values.entry(key).or_default().push(row.value);
    }
    values
        .into_iter()
        .map(|((random_ppm, phase, engine, metric), values)| {
            let count = values.len();
            let [median, least, most] = spread(values);
            let r = f64::from(random_ppm) / 1e6;
            let metric = metric.to_string();
            Median { random_ppm, r, phase, engine, metric, median, least, most, count }
        })
        .collect()
}

/// A directory name for results of this machine.
pub(crate) fn machine_slug() -> String {
    machine_description().slug()
}

/// The command, the commit, the machine, the engines.
pub(crate) fn meta(
    root: &Path,
    plan: &Plan,
    limit: &MemoryLimit,
    scratch: &Path,
    engines: &[(EngineKind, String)],
) -> Value {
    let versions: BTreeMap<&str, &str> =
        engines.iter().map(|(engine, version)| (engine.label(), version.as_str())).collect();
    let mut command = String::from("cargo xtask compare-btree");
    for argument in std::env::args().skip(1) {
        command.push(' ');
        command.push_str(&argument);
    }
    json!({
        "command": command,
        "commit": capture(Command::new("git").current_dir(root).args(["rev-parse", "HEAD"])),
        "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])),
        "seed": plan.seed,
        "records": plan.record_count,
        "operations": plan.operation_count,
        "rounds": plan.rounds,
        "build_rounds": plan.build_rounds,
        "cache_bytes": plan.cache_bytes,
        "limit_bytes": plan.limit_bytes,
        "limit": limit.describe(),
        "page_bytes": plan.page_bytes,
        "engines": versions,
        "load_average": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "machine": machine_description(),
        "disk": disk_description(scratch),
    })
}

/// What a command prints, or that it is not known.
pub(crate) fn capture(command: &mut Command) -> String {
    match command.output() {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_string()
        }
        _ => "unknown".into(),
    }
}

/// Medians with what they belong to, for programs.
pub(crate) fn json_of(meta: &Value, medians: &[impl Serialize]) -> String {
    let whole = json!({ "meta": meta, "medians": medians });
    serde_json::to_string_pretty(&whole).expect("names and finite numbers are JSON")
}

/// Writes all of it into `directory`.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(
    directory: &Path,
    meta: &Value,
    rows: &[Row],
    medians: &[Median],
    table: &str,
) -> Result<(), Failure> {
    let mut lines = String::from("r,round,phase,engine,metric,value\n");
    for row in rows {
        let r = f64::from(row.random_ppm) / 1e6;
        let (phase, engine) = (row.phase.label(), row.engine.label());
        writeln!(lines, "{r},{},{phase},{engine},{},{:.4}", row.round, row.metric, row.value)
            .expect("a string takes every line");
    }
    write_files(directory, meta, lines, medians, table)
}

/// Writes the files that every comparison leaves: `runs` has its figures as lines.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write_files(
    directory: &Path,
    meta: &Value,
    runs: String,
    medians: &[impl Serialize],
    table: &str,
) -> Result<(), Failure> {
    let pretty = |value: &Value| serde_json::to_string_pretty(value).expect("it is JSON") + "\n";
    let files = [
        ("meta.json", pretty(meta)),
        ("runs.csv", runs),
        ("medians.json", pretty(&json!(medians))),
        ("table.md", table.to_string()),
    ];
    let fail = |path: &Path, error: std::io::Error| {
        Failure::Run(format!("{}: cannot be written: {error}", path.display()))
    };
    std::fs::create_dir_all(directory).map_err(|error| fail(directory, error))?;
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::write(&path, text).map_err(|error| fail(&path, error))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(round: u32, phase: PhaseKind, value: f64) -> Row {
        let (engine, metric) = (EngineKind::Lmdb, "us".into());
        Row { random_ppm: 0, round, phase, engine, metric, value }
    }

    #[test]
    fn gains_are_taken_within_a_round() {
        let mut rows = vec![
            row(1, PhaseKind::Uniform, 30.0),
            row(1, PhaseKind::Threads, 20.0),
            row(2, PhaseKind::Uniform, 60.0),
            row(2, PhaseKind::Threads, 30.0),
            row(3, PhaseKind::Threads, 30.0),
        ];
        derive_gains(&mut rows);
        let gains: Vec<f64> =
            rows.iter().filter(|row| row.metric == "gain").map(|row| row.value).collect();
        assert_eq!(
            gains.iter().map(|gain| gain.to_bits()).collect::<Vec<_>>(),
            [1.5f64.to_bits(), 2.0f64.to_bits(),]
        );
    }

    #[test]
    fn a_median_is_taken_over_the_rounds_of_one_engine_and_phase() {
        let rows = [5.0, 1.0, 3.0].map(|value| row(1, PhaseKind::Scan, value));
        let medians = medians(&rows);
        assert_eq!(medians.len(), 1);
        let Median { median, least, most, count, .. } = medians[0];
        assert_eq!([median, least, most].map(f64::to_bits), [3.0, 1.0, 5.0].map(f64::to_bits));
        assert_eq!(count, 3);
    }
}
