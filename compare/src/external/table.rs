//! The table that people read: what every contender took, and ours over each of them.
//!
//! 1. No line is wider than 100 columns.

use super::contender::Contender;
use super::plan::Setting;
use super::results::Median;
use crate::busy::DISTURBED_SHARE;
use crate::left_out;
use crate::table::{short, wrapped};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Heads with the metrics below them.
const COLUMNS: [(&str, &str); 7] = [
    ("time s", "seconds"),
    ("CPU s", "cpu_s"),
    ("RSS MB", "peak_rss_mb"),
    ("group", "group_peak_mb"),
    ("read MB", "read_mb"),
    ("written MB", "written_mb"),
    ("others", "others_share"),
];
/// Headroom from which it is room for a page cache.
const ROOMY_MB: u64 = 1000;

const LEGEND: &str = "\
Medians of the runs that were right; right: how many were, of how many. ÷ fio: time over that of\n\
fio in the same repetition, which reads and writes as many bytes twice. ours ÷: our time over\n\
theirs. CPU: in user and system mode together. RSS: peak of the process, libraries included; group:\n\
peak of its control group, page cache included. read, written: from and to the device. others:\n\
cores that other processes kept busy meanwhile. MB are millions of bytes.\n";

/// The whole document.
pub(super) fn whole(medians: &[Median], setting: &Setting) -> String {
    let Setting { question, memory_mb, block_bytes, in_flight, thread_count, .. } = setting;
    let Setting { seed, repetitions, .. } = setting;
    let mut text = format!("# {}\n\n", question.title(*memory_mb));
    text.push_str(&wrapped(&format!(
        "{} Seed {seed}, threads: {thread_count}, repetitions: {repetitions}; our blocks have \
         {block_bytes} bytes, {in_flight} in flight beside the one at hand. Each run has a control \
         group of its memory and the headroom. Command, commit, versions and machine: meta.json.",
        question.description()
    )));
    text.push('\n');
    text.push_str(LEGEND);
    let missing = setting.missing(medians);
    if let Some(left_out) = left_out::sentence(&missing, setting.because.as_slice()) {
        text.push('\n');
        text.push_str(&wrapped(&left_out));
    }
    let share =
        |it: &&Median| it.figures.get("others_share").is_some_and(|it| it[0] > DISTURBED_SHARE);
    let (count, of) = (medians.iter().filter(share).count(), medians.len());
    if count > 0 {
        text.push('\n');
        text.push_str(&wrapped(&format!(
            "**Disturbed run**: in {count} of {of} lines others took more than a twentieth of a core. \
             Compare CPU seconds and bytes; times are not a result."
        )));
    }
    let headrooms: BTreeSet<u64> = medians.iter().map(|median| median.headroom_mb).collect();
    for headroom_mb in headrooms {
        let room = if headroom_mb < ROOMY_MB { "a tight group" } else { "room for page cache" };
        writeln!(text, "\n## {room}: headroom of {headroom_mb} MB\n")
            .expect("a string takes every line");
        let here: Vec<&Median> =
            medians.iter().filter(|median| median.headroom_mb == headroom_mb).collect();
        text.push_str(&table_of(&here, question.ours()));
    }
    text
}

fn seconds_of(median: &Median) -> Option<f64> {
    (median.right_count > 0).then(|| median.figures.get("seconds").map(|it| it[0])).flatten()
}

fn table_of(medians: &[&Median], ours: Contender) -> String {
    let heads: Vec<&str> = COLUMNS.iter().map(|(head, _)| *head).collect();
    let rule = COLUMNS.map(|_| "---:").join("|");
    let mut text = format!(
        "| who | right | ÷ fio | ours ÷ | {} |\n|---|---:|---:|---:|{rule}|\n",
        heads.join(" | ")
    );
    let ours = medians.iter().find(|it| it.contender == ours);
    let ours_s = ours.and_then(|it| seconds_of(it));
    for median in medians {
        let cells = COLUMNS.map(|(_, name)| cell(median.figures.get(name).map(|it| it[0])));
        let right = format!("{}/{}", median.right_count, median.run_count);
        let ratio = ours_s.zip(seconds_of(median)).map(|(ours, theirs)| ours / theirs);
        let (label, over_fio) = (median.contender.label(), median.over_fio.map(|it| it[0]));
        writeln!(
            text,
            "| {label} | {right} | {} | {} | {} |",
            cell(over_fio),
            cell(ratio),
            cells.join(" | ")
        )
        .expect("a string takes every line");
    }
    for median in medians {
        for reason in &median.reasons {
            text.push('\n');
            let reason: String = reason.replace('\n', " ").chars().take(300).collect();
            text.push_str(&wrapped(&format!("- {}: {reason}", median.contender.label())));
        }
    }
    text
}

fn cell(figure: Option<f64>) -> String {
    figure.map_or("–".into(), short)
}

#[cfg(test)]
mod tests {
    use super::super::question::Question;
    use super::*;

    #[test]
    fn lines_fit_and_what_is_missing_is_named() {
        let setting = Setting {
            question: Question::Sort { records: 160_000_000 },
            memory_mb: 256,
            block_bytes: 1 << 20,
            in_flight: 4,
            thread_count: 2,
            repetitions: 3,
            seed: 1,
            timeout_s: 600,
            because: Some("it takes long".into()),
        };
        let median = |contender, value: f64, right_count| Median {
            headroom_mb: 128,
            contender,
            right_count,
            run_count: 3,
            reasons: if right_count == 3 { Vec::new() } else { vec!["no room ".repeat(90)] },
            figures: COLUMNS.map(|(_, name)| (name.to_string(), [value; 3])).into(),
            over_fio: None,
        };
        let medians = [median(Contender::Nandu, 12_345.0, 3), median(Contender::GnuSort, 1.0, 0)];
        let text = whole(&medians, &setting);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{line}");
        }
        let missing = "**Left out**: fio, nandu-program, stxxl-sort, stxxl-ksort, duckdb; headroom \
                       in MB 4000, because it takes long.";
        assert!(text.replace('\n', " ").contains(missing), "{text}");
        assert!(text.contains("| gnu-sort | 0/3 | – | – | 1.00"), "{text}");
        assert!(text.contains("**Disturbed run**: in 2 of 2 lines"), "{text}");
    }
}
