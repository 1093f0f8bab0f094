//! What is kept of a run: every figure, their medians, the machine and the command.

use crate::Failure;
use crate::busy::load_average;
use crate::engine::EngineKind;
use crate::limit::MemoryLimit;
use crate::measure::spread;
use crate::phase::PhaseKind;
use crate::plan::{Plan, parts_per_million};
use nandu_drives::file::{disk_description, machine_description};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
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
    let us: BTreeMap<(u32, u32, EngineKind, PhaseKind), f64> = rows
        .iter()
        .filter(|row| row.metric == "us")
        .map(|row| ((row.random_ppm, row.round, row.engine, row.phase), row.value))
        .collect();
    let gains: Vec<Row> = rows
        .iter()
        .filter(|row| row.metric == "us")
        .filter_map(|row| {
            let one = us.get(&(row.random_ppm, row.round, row.engine, row.phase.base()?))?;
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
    let disk = disk_description(scratch);
    let read_ahead = disk.source.as_deref().and_then(read_ahead_kib);
    json!({
        "runs": [{
            "command": command,
            "commit": capture(Command::new("git").current_dir(root).args(["rev-parse", "HEAD"])),
            "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])),
            "load_average_before": load_average(),
        }],
        "seed": plan.seed,
        "records": plan.record_count,
        "operations": plan.operation_count,
        "build_rounds": plan.build_rounds,
        "cache_bytes": plan.cache_bytes,
        "limit_bytes": plan.limit_bytes,
        "limit": limit.describe(),
        "page_bytes": plan.page_bytes,
        "engines": versions,
        "machine": machine_description(),
        "disk": disk,
        "read_ahead_kib": read_ahead,
    })
}

/// How much the kernel reads around a page of a mapped file that is missing, and ahead of reads in a row: a
/// setting of the disk at `source`, which decides what engines that map their files take.
fn read_ahead_kib(source: &str) -> Option<u64> {
    let place = Path::new("/sys/class/block").join(Path::new(source).file_name()?);
    let place = place.canonicalize().ok()?;
    // A part of a disk has the setting of the whole.
    let read = |place: &Path| std::fs::read_to_string(place.join("queue/read_ahead_kb")).ok();
    read(&place).or_else(|| read(place.parent()?))?.trim().parse().ok()
}

/// Why the runs left out what they did, each reason once.
pub(crate) fn reasons_in(meta: &Value) -> Vec<String> {
    let mut reasons = Vec::new();
    for run in meta["runs"].as_array().into_iter().flatten() {
        let reason = run["because"].as_str().map(String::from);
        reasons.extend(reason.filter(|reason| !reasons.contains(reason)));
    }
    reasons
}

/// Adds what is known only at the end of a run.
pub(crate) fn complete(meta: &mut Value) {
    meta["runs"][0]["load_average_after"] = load_average().into();
}

/// Joins a run with what is kept in `directory`: rows of the same round, phase and engine are
/// replaced, and the command stands beside those before it.
///
/// # Errors
/// If nothing is kept there, it cannot be read, or it was measured otherwise.
pub(crate) fn add_to(
    directory: &Path,
    meta: &mut Value,
    rows: &mut Vec<Row>,
) -> Result<(), Failure> {
    /// What has to be the same for figures to stand in one table.
    const ALIKE: [&str; 9] = [
        "seed",
        "records",
        "operations",
        "cache_bytes",
        "limit_bytes",
        "limit",
        "page_bytes",
        "read_ahead_kib",
        "machine",
    ];
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read_to_string(&path)
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))
    };
    let other: Value = serde_json::from_str(&read("meta.json")?)
        .map_err(|error| Failure::Run(format!("{}/meta.json: {error}", directory.display())))?;
    for key in ALIKE {
        if other[key] != meta[key] {
            return Err(Failure::Run(format!(
                "what lies in {} was measured with another {key} ({} there, {} here); choose \
                 another --out",
                directory.display(),
                other[key],
                meta[key]
            )));
        }
    }
    let mut kept = rows_of(&read("runs.csv")?)
        .map_err(|what| Failure::Run(format!("{}/runs.csv, {what}", directory.display())))?;
    // Gains over rounds are derived anew.
    kept.retain(|row| row.metric != "gain" || row.phase == PhaseKind::Resident);
    let measured: BTreeSet<_> =
        rows.iter().map(|row| (row.random_ppm, row.round, row.phase, row.engine)).collect();
    kept.retain(|row| !measured.contains(&(row.random_ppm, row.round, row.phase, row.engine)));
    kept.append(rows);
    *rows = kept;
    let mut runs = other["runs"].as_array().cloned().unwrap_or_default();
    runs.extend(meta["runs"].as_array().cloned().unwrap_or_default());
    meta["runs"] = runs.into();
    let mut engines = other["engines"].as_object().cloned().unwrap_or_default();
    engines.extend(meta["engines"].as_object().cloned().unwrap_or_default());
    meta["engines"] = engines.into();
    Ok(())
}

/// The rows of `runs.csv`; an error names the line.
fn rows_of(text: &str) -> Result<Vec<Row>, String> {
    let row = |line: &str| -> Option<Row> {
        let fields: [&str; 6] = line.split(',').collect::<Vec<_>>().try_into().ok()?;
        let [r, round, phase, engine, metric, value] = fields;
        let is = |label: &str, wanted: &str| label == wanted;
        Some(Row {
            random_ppm: parts_per_million(r.parse().ok()?).ok()?,
            round: round.parse().ok()?,
            phase: PhaseKind::ALL.into_iter().find(|it| is(it.label(), phase))?,
            engine: EngineKind::ALL.into_iter().find(|it| is(it.label(), engine))?,
            metric: metric.into(),
            value: value.parse().ok()?,
        })
    };
    text.lines()
        .enumerate()
        .skip(1)
        .map(|(index, line)| row(line).ok_or_else(|| format!("line {}: `{line}`", index + 1)))
        .collect()
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
    write_files(directory, meta, lines_of(rows), medians, table)
}

/// Every figure as a line.
fn lines_of(rows: &[Row]) -> String {
    let mut lines = String::from("r,round,phase,engine,metric,value\n");
    for row in rows {
        let r = f64::from(row.random_ppm) / 1e6;
        let (phase, engine) = (row.phase.label(), row.engine.label());
        writeln!(lines, "{r},{},{phase},{engine},{},{:.4}", row.round, row.metric, row.value)
            .expect("a string takes every line");
    }
    lines
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

    #[test]
    fn a_part_joins_what_is_kept_if_that_was_measured_alike() {
        let directory = tempfile::tempdir().unwrap();
        let meta = |seed: u32, command: &str| json!({ "seed": seed, "engines": { command: "1" }, "runs": [{ "command": command }] });
        let old = [row(1, PhaseKind::Scan, 5.0), row(2, PhaseKind::Scan, 6.0)];
        let mut gain = row(1, PhaseKind::Threads, 2.0);
        gain.metric = "gain".into();
        let all = [&old[..], &[gain]].concat();
        write(directory.path(), &meta(1, "first"), &all, &medians(&all), "").unwrap();
        let mut both = meta(1, "second");
        let mut rows = vec![row(2, PhaseKind::Scan, 7.0), row(1, PhaseKind::Insert, 8.0)];
        add_to(directory.path(), &mut both, &mut rows).unwrap();
        let values: Vec<u64> = rows.iter().map(|row| row.value.to_bits()).collect();
        assert_eq!(values, [5.0_f64, 7.0, 8.0].map(f64::to_bits));
        assert_eq!(both["runs"], json!([{ "command": "first" }, { "command": "second" }]));
        assert_eq!(both["engines"], json!({ "first": "1", "second": "1" }));
        assert_eq!(reasons_in(&both), [""; 0]);
        both["runs"] = json!([{ "because": "b" }, {}, { "because": "a" }, { "because": "b" }]);
        assert_eq!(reasons_in(&both), ["b", "a"]);
        let Err(Failure::Run(text)) = add_to(directory.path(), &mut meta(2, "x"), &mut rows) else {
            panic!("another seed was taken")
        };
        assert!(text.contains("another seed (1 there, 2 here)"), "{text}");
        std::fs::write(directory.path().join("runs.csv"), "head\n0,1,scan,lmdb,us,much\n").unwrap();
        let Err(Failure::Run(text)) = add_to(directory.path(), &mut meta(1, "x"), &mut rows) else {
            panic!("a broken line was taken")
        };
        assert!(text.ends_with("runs.csv, line 2: `0,1,scan,lmdb,us,much`"), "{text}");
    }
}
