//! What is kept of a run: every sort, the medians, the row that all agree on, the machine.

use super::contender::Contender;
use super::plan::Setting;
use crate::Failure;
use crate::measure::spread;
use crate::results::{capture, write_files};
use crate::runs::{self, Outcome, Summary};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

/// One sort that was run.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) headroom_mb: u64,
    pub(super) repetition: u32,
    pub(super) contender: Contender,
    /// The row, else why there is none.
    pub(super) outcome: Result<Vec<String>, String>,
    pub(super) metrics: BTreeMap<String, f64>,
    /// Whether its row was not that of the others.
    pub(super) is_wrong: bool,
}

/// A contender over all repetitions.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Median {
    pub(super) headroom_mb: u64,
    pub(super) contender: Contender,
    /// How many sorts answered rightly.
    pub(super) right_count: usize,
    pub(super) run_count: usize,
    /// Why the others did not, each reason once.
    pub(super) reasons: Vec<String>,
    /// Median, least and most by name, over those that answered rightly, else over all.
    pub(super) figures: BTreeMap<String, [f64; 3]>,
    /// Median, least and most of how long it took over how long fio did in the same repetition.
    pub(super) over_fio: Option<[f64; 3]>,
}

/// Makes failures of rows that are not `row`, which whoever asked knows.
pub(super) fn judge(samples: &mut [Sample], row: &[String]) {
    for sample in samples {
        if let Ok(other) = &sample.outcome
            && sample.contender.has_row()
            && other != row
        {
            sample.outcome = Err(format!("WRONG ROW: {}", other.join(" ")));
            sample.is_wrong = true;
        }
    }
}

/// The medians over the repetitions, by headroom and contender.
pub(super) fn medians(samples: &[Sample]) -> Vec<Median> {
    let mut groups: BTreeMap<(u64, Contender), Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        groups.entry((sample.headroom_mb, sample.contender)).or_default().push(sample);
    }
    let fio_s: BTreeMap<(u64, u32), f64> = samples
        .iter()
        .filter(|it| it.contender == Contender::Fio && it.outcome.is_ok())
        .filter_map(|it| Some(((it.headroom_mb, it.repetition), *it.metrics.get("seconds")?)))
        .collect();
    let median = |((headroom_mb, contender), samples): ((u64, Contender), Vec<&Sample>)| {
        let right = samples.iter().filter(|sample| sample.outcome.is_ok());
        let over: Vec<f64> = right
            .filter_map(|it| {
                let fio_s = fio_s.get(&(headroom_mb, it.repetition))?;
                Some(it.metrics.get("seconds")? / fio_s)
            })
            .collect();
        let runs: Vec<Outcome<'_>> =
            samples.iter().map(|sample| (&sample.outcome, &sample.metrics)).collect();
        let Summary { right_count, run_count, reasons, figures } = Summary::of(&runs);
        let over_fio = (!over.is_empty()).then(|| spread(over));
        Median { headroom_mb, contender, right_count, run_count, reasons, figures, over_fio }
    };
    groups.into_iter().map(median).collect()
}

/// The command, the commit, the machine, the peers.
pub(super) fn meta(setting: &Setting, directory: &Path) -> Value {
    let own = json!({
        "setting": setting,
        "peers": super::peers::REQUIREMENTS.lines().collect::<Vec<_>>(),
        "stxxl": capture(Command::new("dpkg-query").args(["-W", "libstxxl-dev"])),
        "g++": capture(Command::new("g++").arg("-dumpfullversion")),
        "g++ flags": super::peers::CPP_FLAGS,
        "sort": capture(Command::new("sort").arg("--version")).lines().next(),
        "fio": capture(Command::new("fio").arg("--version")),
        "limit": crate::limit::MemoryLimit::new(1 << 30).describe_kind(),
        "load_average": crate::busy::load_average(),
    });
    runs::meta("compare-external", directory, own)
}

/// Writes all of it into `directory`.
///
/// # Errors
/// If a file cannot be written.
pub(super) fn write(
    directory: &Path,
    meta: &Value,
    samples: &[Sample],
    medians: &[Median],
    table: &str,
) -> Result<(), Failure> {
    write_files(directory, meta, lines_of(samples), medians, table)
}

/// Every sort as a line; the last field is why it failed.
fn lines_of(samples: &[Sample]) -> String {
    let mut lines = runs::head("headroom_mb,repetition,contender");
    for Sample { headroom_mb, repetition, contender, outcome, metrics, .. } in samples {
        let first = format!("{headroom_mb},{repetition},{}", contender.label());
        lines.push_str(&runs::line(&first, (outcome, metrics)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(contender: Contender, repetition: u32, seconds: f64, row: &str) -> Sample {
        Sample {
            headroom_mb: 128,
            repetition,
            contender,
            outcome: Ok(vec![row.into()]),
            metrics: [("seconds".to_string(), seconds)].into(),
            is_wrong: false,
        }
    }

    #[test]
    fn a_wrong_row_is_a_failure_and_times_stand_over_those_of_the_disk() {
        let mut samples = [
            sample(Contender::Fio, 1, 10.0, ""),
            sample(Contender::Fio, 2, 20.0, ""),
            sample(Contender::Nandu, 1, 12.0, "7"),
            sample(Contender::Nandu, 2, 22.0, "7"),
            sample(Contender::GnuSort, 1, 5.0, "8"),
        ];
        judge(&mut samples, &["7".to_string()]);
        let medians = medians(&samples);
        let [fio, ours, gnu] = medians.as_slice() else { panic!("{medians:?}") };
        assert_eq!((fio.right_count, ours.right_count, gnu.right_count), (2, 2, 0));
        assert_eq!(gnu.reasons, ["WRONG ROW: 8"]);
        let over = ours.over_fio.unwrap();
        assert!((over[1] - 1.1).abs() < 1e-9 && (over[2] - 1.2).abs() < 1e-9, "{over:?}");
        assert!(lines_of(&samples).ends_with(",\"WRONG ROW: 8\"\n"));
    }
}
