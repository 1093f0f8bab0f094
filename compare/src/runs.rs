//! What comparisons keep of runs in processes of their own: the figures of each run as a line, the
//! medians over those that answered rightly, the command.

use crate::measure::spread;
use crate::results::capture;
use nandu_drives::file::{disk_description, machine_description};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// The figures of every run, in the order of the file.
const METRICS: [&str; 9] = [
    "seconds",
    "cpu_s",
    "system_s",
    "peak_rss_mb",
    "group_peak_mb",
    "read_mb",
    "written_mb",
    "dropped_mb",
    "others_share",
];

/// A run: its row, else why there is none, and its figures by name.
pub(crate) type Outcome<'r> = (&'r Result<Vec<String>, String>, &'r BTreeMap<String, f64>);

/// Runs of the same over all repetitions.
pub(crate) struct Summary {
    /// How many answered rightly.
    pub(crate) right_count: usize,
    pub(crate) run_count: usize,
    /// Why the others did not, each reason once.
    pub(crate) reasons: Vec<String>,
    /// Median, least and most by name, over those that answered rightly, else over all.
    pub(crate) figures: BTreeMap<String, [f64; 3]>,
}

impl Summary {
    pub(crate) fn of(runs: &[Outcome<'_>]) -> Self {
        let is_right = |run: &&Outcome<'_>| run.0.is_ok();
        let right_count = runs.iter().filter(is_right).count();
        let mut reasons: Vec<String> = runs.iter().filter_map(|run| run.0.clone().err()).collect();
        reasons.sort();
        reasons.dedup();
        let counted: Vec<&Outcome<'_>> =
            runs.iter().filter(|run| right_count == 0 || is_right(run)).collect();
        let values = |name: &str| -> Vec<f64> {
            counted.iter().filter_map(|run| run.1.get(name).copied()).collect()
        };
        let figures = METRICS
            .iter()
            .map(|name| ((*name).to_string(), values(name)))
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| (name, spread(values)))
            .collect();
        Self { right_count, run_count: runs.len(), reasons, figures }
    }
}

/// The head of all lines, whose first columns are `first`.
pub(crate) fn head(first: &str) -> String {
    format!("{first},{},failure\n", METRICS.join(","))
}

/// A run as a line, whose first columns are `first`; the last one is why it failed.
pub(crate) fn line(first: &str, (outcome, metrics): Outcome<'_>) -> String {
    let value = |name| metrics.get(name).map_or(String::new(), |value| format!("{value:.3}"));
    let reason = outcome.as_ref().err().map_or("", String::as_str);
    let reason = reason.replace(['\n', '\r'], " ").replace('"', "'");
    format!("{first},{},\"{reason}\"\n", METRICS.map(value).join(","))
}

/// What was run where: the command, the commit, the machine, the disk of `directory`, and `own`, an object.
pub(crate) fn meta(chore: &str, directory: &Path, own: Value) -> Value {
    let root = crate::plan::repository_root();
    let mut meta = json!({
        "command": command(chore),
        "commit": capture(Command::new("git").current_dir(root).args(["rev-parse", "HEAD"])),
        "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"])),
        "machine": machine_description(),
        "disk": disk_description(directory),
    });
    if let (Value::Object(meta), Value::Object(own)) = (&mut meta, own) {
        meta.extend(own);
    }
    meta
}

/// The command line, for whoever runs it again.
fn command(chore: &str) -> String {
    let mut command = format!("cargo xtask {chore}");
    for argument in std::env::args().skip(2) {
        command.push(' ');
        command.push_str(&argument);
    }
    command
}
