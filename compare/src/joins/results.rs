//! What is kept of a run: every join, the medians, the row that all agree on, the machine.

use super::contender::Contender;
use super::plan::{Limit, Setting, Step};
use crate::Failure;
use crate::results::write_files;
use crate::runs::{self, Outcome, Summary};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// One join that was run.
#[derive(Clone, Debug)]
pub(crate) struct Sample {
    pub(crate) step: Step,
    /// The row, else why there is none.
    pub(crate) outcome: Result<Vec<String>, String>,
    /// The join that a planner took.
    pub(crate) plan: Option<String>,
    pub(crate) metrics: BTreeMap<String, f64>,
    /// Whether its row was not that of the others.
    pub(crate) is_wrong: bool,
}

/// A contender under a limit over all repetitions.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Median {
    pub(crate) headroom_mb: u64,
    #[serde(rename = "threads")]
    pub(crate) thread_count: u32,
    #[serde(serialize_with = "limit_in_mb")]
    pub(crate) limit: Limit,
    pub(crate) contender: Contender,
    /// How many joins answered rightly.
    pub(crate) right_count: usize,
    pub(crate) run_count: usize,
    /// Why the others did not, each reason once.
    pub(crate) reasons: Vec<String>,
    /// The joins that a planner took, each once.
    pub(crate) plans: Vec<String>,
    /// Median, least and most by name, over those that answered rightly, else over all.
    pub(crate) figures: BTreeMap<String, [f64; 3]>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "the shape is serde's")]
fn limit_in_mb<S: serde::Serializer>(limit: &Limit, serializer: S) -> Result<S::Ok, S::Error> {
    match limit {
        Limit::Mb(count) => serializer.serialize_u64(*count),
        Limit::None => serializer.serialize_none(),
    }
}

/// Finds the row that most joins answered and makes failures of the other rows.
pub(crate) fn settle_row(samples: &mut [Sample]) -> Option<Vec<String>> {
    let mut votes: BTreeMap<&[String], usize> = BTreeMap::new();
    for row in samples.iter().filter_map(|sample| sample.outcome.as_ref().ok()) {
        *votes.entry(row).or_default() += 1;
    }
    let row = votes.into_iter().max_by_key(|(_, count)| *count)?.0.to_vec();
    for sample in samples {
        if let Ok(other) = &sample.outcome
            && *other != row
        {
            sample.outcome = Err(format!("WRONG ROW: {}", other.join(" ")));
            sample.is_wrong = true;
        }
    }
    Some(row)
}

/// The medians over the repetitions, by headroom, threads, limit and contender.
pub(crate) fn medians(samples: &[Sample]) -> Vec<Median> {
    let mut groups: BTreeMap<(u64, u32, Limit, Contender), Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        let Step { headroom_mb, thread_count, limit, contender, .. } = sample.step;
        groups.entry((headroom_mb, thread_count, limit, contender)).or_default().push(sample);
    }
    groups
        .into_iter()
        .map(|((headroom_mb, thread_count, limit, contender), samples)| {
            let mut plans: Vec<String> =
                samples.iter().filter_map(|sample| sample.plan.clone()).collect();
            plans.sort();
            plans.dedup();
            let runs: Vec<Outcome<'_>> =
                samples.iter().map(|sample| (&sample.outcome, &sample.metrics)).collect();
            let Summary { right_count, run_count, reasons, figures } = Summary::of(&runs);
            Median {
                headroom_mb,
                thread_count,
                limit,
                contender,
                right_count,
                run_count,
                reasons,
                plans,
                figures,
            }
        })
        .collect()
}

/// The command, the commit, the machine, the peers.
pub(crate) fn meta(setting: &Setting, directory: &Path) -> Value {
    let own = json!({
        "setting": setting,
        "peers": super::stock::REQUIREMENTS.lines().collect::<Vec<_>>(),
        "limit": crate::limit::MemoryLimit::new(1 << 30).describe_kind(),
        "load_average": crate::busy::load_average(),
    });
    runs::meta("compare-joins", directory, own)
}

/// Writes all of it into `directory`.
///
/// # Errors
/// If a file cannot be written.
pub(crate) fn write(
    directory: &Path,
    meta: &Value,
    samples: &[Sample],
    medians: &[Median],
    table: &str,
) -> Result<(), Failure> {
    write_files(directory, meta, lines_of(samples), medians, table)
}

/// Every join as a line; the last field is why it failed.
fn lines_of(samples: &[Sample]) -> String {
    let mut lines = runs::head("headroom_mb,threads,limit_mb,repetition,contender");
    for Sample { step, outcome, metrics, .. } in samples {
        let limit = match step.limit {
            Limit::Mb(count) => count.to_string(),
            Limit::None => "none".into(),
        };
        let (contender, repetition) = (step.contender.label(), step.repetition);
        let Step { headroom_mb, thread_count, .. } = step;
        let first = format!("{headroom_mb},{thread_count},{limit},{repetition},{contender}");
        lines.push_str(&runs::line(&first, (outcome, metrics)));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(contender: Contender, repetition: u32, outcome: Result<&str, &str>) -> Sample {
        Sample {
            step: Step {
                headroom_mb: 128,
                thread_count: 1,
                limit: Limit::Mb(100),
                repetition,
                contender,
            },
            outcome: outcome.map(|row| vec![row.into()]).map_err(str::to_string),
            plan: None,
            metrics: [("seconds".to_string(), f64::from(repetition))].into(),
            is_wrong: false,
        }
    }

    #[test]
    fn a_row_that_differs_from_most_is_wrong() {
        let mut samples = [
            sample(Contender::Sqlite, 1, Ok("7")),
            sample(Contender::Duckdb, 1, Ok("8")),
            sample(Contender::DatafusionHash, 1, Err("no memory")),
            sample(Contender::DuckdbTable, 1, Ok("8")),
        ];
        assert_eq!(settle_row(&mut samples).unwrap(), ["8"]);
        assert_eq!(samples.each_ref().map(|it| it.is_wrong), [true, false, false, false]);
        assert_eq!(samples[0].outcome.clone().unwrap_err(), "WRONG ROW: 7");
        assert_eq!(settle_row(&mut samples[2..3]), None);
    }

    #[test]
    fn medians_are_those_of_the_joins_that_answered() {
        let samples = [
            sample(Contender::Duckdb, 1, Ok("8")),
            sample(Contender::Duckdb, 2, Err("no memory")),
            sample(Contender::Duckdb, 3, Ok("8")),
            sample(Contender::Sqlite, 1, Err("no")),
        ];
        let medians = medians(&samples);
        let [first, second] = medians.as_slice() else { panic!("{medians:?}") };
        assert_eq!((first.right_count, first.run_count), (2, 3));
        assert_eq!(first.reasons, ["no memory"]);
        assert_eq!(first.figures["seconds"].map(f64::to_bits), [2.0, 1.0, 3.0].map(f64::to_bits));
        assert_eq!((second.right_count, second.run_count), (0, 1));
        assert_eq!(second.figures["seconds"][0].to_bits(), 1f64.to_bits());
    }

    #[test]
    fn a_line_has_as_many_fields_as_the_head_whatever_the_reason_says() {
        let text = lines_of(&[sample(Contender::Duckdb, 1, Err("a \"b\"\nc"))]);
        let [head, line] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
        assert_eq!(head.split(',').count(), line.split(',').count());
        assert!(line.ends_with(",\"a 'b' c\""), "{line}");
        assert!(line.starts_with("128,1,100,1,duckdb,1.000,,"), "{line}");
    }
}
