//! The tables that people read: for each number of threads and limit what every contender took;
//! below, ours over the peer to beat, the planner's choice over the best of ours, and why which join
//! failed.
//!
//! 1. No line is wider than 100 columns.

use super::contender::Contender;
use super::plan::{Cache, Limit, Setting, WHOLE_HEADROOM_MB, WHOLE_LIMITS, WHOLE_THREADS};
use super::results::Median;
use crate::busy::DISTURBED_SHARE;
use crate::left_out;
use crate::table::{short, wrapped};
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// Heads with the metrics below them.
const COLUMNS: [(&str, &str); 8] = [
    ("time s", "seconds"),
    ("CPU s", "cpu_s"),
    ("system s", "system_s"),
    ("RSS MB", "peak_rss_mb"),
    ("group MB", "group_peak_mb"),
    ("read MB", "read_mb"),
    ("written MB", "written_mb"),
    ("others", "others_share"),
];
/// What makes sense as a ratio.
const RATIOS: [&str; 3] = ["seconds", "cpu_s", "written_mb"];
/// By what a choice is judged.
const CHOICE_METRIC: &str = "seconds";
/// The peers that every join of ours is set beside: the one over Parquet, and the one over tables of
/// its own, which is the fair one, since ours reads tables of its own, too.
const RIVALS: [Contender; 2] = [Contender::Duckdb, Contender::DuckdbTable];
/// From how many repetitions on a median is one.
const REPETITIONS: u32 = 3;
/// Headroom from which it is room for a page cache.
const ROOMY_MB: u64 = 1000;
/// There is no ratio to what the table shows as nothing.
const RATIO_OF_LEAST: f64 = 0.005;
/// Of a reason, what the notes show.
const REASON_CHARACTERS: usize = 300;

const LEGEND: &str = "\
Medians of the joins that answered rightly; right: how many did, of how many. time, CPU: from\n\
connecting to the row, CPU in user and system mode together. RSS: peak of the process, Python and\n\
libraries included; group: peak of its control group, page cache included. read, written: bytes of\n\
files from and to the device. others: cores that other processes kept busy meanwhile. MB are\n\
millions of bytes.\n";

/// The whole document.
pub(crate) fn whole(medians: &[Median], setting: &Setting, row: Option<&[String]>) -> String {
    let Setting { scale_factor, query, seed, repetitions, cache, .. } = setting;
    let cache = match cache {
        Cache::Cold => "dropped from the page cache before each join",
        Cache::Warm => "read into the page cache, outside the group, before each join",
    };
    let label = query.label();
    let mut text =
        format!("# Joins under memory limits: {label}, TPC-H scale factor {scale_factor}\n\n");
    text.push_str(&wrapped(&format!(
        "Asked: {}; tables in random order (seed {seed}), repetitions: {repetitions}; files are \
         {cache}. Each join runs in a control group of its limit and the headroom. Command, commit, \
         versions and machine: meta.json.",
        query.description()
    )));
    text.push('\n');
    text.push_str(LEGEND);
    if let Some(row) = row {
        text.push('\n');
        text.push_str(&wrapped(&format!("Row: {}", row.join(" "))));
    }
    let missing = missing_of(medians, setting);
    if let Some(left_out) = left_out::sentence(&missing, setting.because.as_slice()) {
        text.push('\n');
        text.push_str(&wrapped(&left_out));
    }
    let disturbed = medians.iter().filter(|it| figure(it, "others_share") > Some(DISTURBED_SHARE));
    let count = disturbed.count();
    if count > 0 {
        text.push('\n');
        let of = medians.len();
        text.push_str(&wrapped(&format!(
            "**Disturbed run**: in {count} of {of} lines others took more than a twentieth of a core. \
             Compare CPU seconds and bytes; times are not a result."
        )));
    }
    let place = |median: &Median| (median.headroom_mb, median.thread_count, median.limit);
    let points: BTreeSet<(u64, u32, Limit)> = medians.iter().map(place).collect();
    for (headroom_mb, thread_count, limit) in points {
        let threads = if thread_count == 1 { "thread" } else { "threads" };
        let room = match limit {
            Limit::None => "",
            Limit::Mb(_) if headroom_mb < ROOMY_MB => " in a tight group",
            Limit::Mb(_) => " and room for page cache",
        };
        writeln!(text, "\n## {limit}{room}, {thread_count} {threads}\n")
            .expect("a string takes every line");
        if limit != Limit::None {
            text.push_str(&format!("Headroom: {headroom_mb} MB.\n\n"));
        }
        let here: Vec<&Median> = medians
            .iter()
            .filter(|median| place(median) == (headroom_mb, thread_count, limit))
            .collect();
        text.push_str(&table_of(&here));
        text.push_str(&notes_of(&here));
    }
    text
}

/// What a whole comparison has beside this.
fn missing_of(medians: &[Median], setting: &Setting) -> Vec<String> {
    let mut missing = Vec::new();
    let mut miss = |what: &str, absent: Vec<String>| {
        if !absent.is_empty() {
            missing.push(format!("{what}{}", absent.join(", ")));
        }
    };
    let has = |is: &dyn Fn(&Median) -> bool| medians.iter().any(is);
    let absent = Contender::ALL.into_iter().filter(|it| it.answers(setting.query));
    let absent = absent.filter(|it| !has(&|median| median.contender == *it));
    miss("", absent.map(|it| it.label().into()).collect());
    let absent = WHOLE_LIMITS.iter().filter(|it| !has(&|median| median.limit == **it));
    miss("the limits ", absent.map(ToString::to_string).collect());
    let absent = WHOLE_THREADS.iter().filter(|it| !has(&|median| median.thread_count == **it));
    miss("threads ", absent.map(ToString::to_string).collect());
    let absent = WHOLE_HEADROOM_MB.iter().filter(|it| !has(&|median| median.headroom_mb == **it));
    miss("headroom in MB ", absent.map(ToString::to_string).collect());
    if setting.repetitions < REPETITIONS {
        miss(
            "repetitions ",
            vec![format!("{} of {REPETITIONS}", REPETITIONS - setting.repetitions)],
        );
    }
    missing
}

fn table_of(medians: &[&Median]) -> String {
    let heads: Vec<&str> = COLUMNS.iter().map(|(head, _)| *head).collect();
    let rule = COLUMNS.map(|_| "---:").join("|");
    let mut text = format!("| join | right | {} |\n|---|---:|{rule}|\n", heads.join(" | "));
    for median in medians {
        let cells = COLUMNS.map(|(_, name)| cell(figure(median, name)));
        let right = format!("{}/{}", median.right_count, median.run_count);
        let label = median.contender.label();
        writeln!(text, "| {label} | {right} | {} |", cells.join(" | "))
            .expect("a string takes every line");
    }
    for rival in RIVALS {
        let Some(theirs) = medians.iter().find(|it| it.contender == rival && it.right_count > 0)
        else {
            continue;
        };
        for ours in medians.iter().filter(|it| it.contender.is_ours() && it.right_count > 0) {
            let cells = COLUMNS.map(|(_, name)| {
                let theirs = figure(theirs, name).filter(|theirs| *theirs >= RATIO_OF_LEAST);
                let is_ratio = RATIOS.contains(&name);
                cell(theirs.filter(|_| is_ratio).and_then(|it| Some(figure(ours, name)? / it)))
            });
            let label = format!("{} ÷ {}", ours.contender.label(), rival.label());
            writeln!(text, "| {label} | | {} |", cells.join(" | "))
                .expect("a string takes every line");
        }
    }
    if let Some(ratio) = choice_ratio(medians) {
        let cells = COLUMNS.map(|(_, name)| cell((name == CHOICE_METRIC).then_some(ratio)));
        let label = format!("{} ÷ best of ours", Contender::NanduPlanned.label());
        writeln!(text, "| {label} | | {} |", cells.join(" | ")).expect("a string takes every line");
    }
    text
}

/// What the planner's choice took over what the fastest of the joins that it chose from took: those
/// of ours over the same layout.
fn choice_ratio(medians: &[&Median]) -> Option<f64> {
    let layout = Contender::NanduPlanned.format();
    let right = |it: &&&Median| it.contender.format() == layout && it.right_count > 0;
    let (choice, all): (Vec<&Median>, Vec<&Median>) =
        medians.iter().filter(right).partition(|it| it.contender == Contender::NanduPlanned);
    let best = all.iter().filter_map(|it| figure(it, CHOICE_METRIC)).min_by(f64::total_cmp)?;
    Some(figure(choice.first()?, CHOICE_METRIC)? / best)
}

/// What planners took, and why which join failed.
fn notes_of(medians: &[&Median]) -> String {
    let mut text = String::new();
    for median in medians {
        let plans = median.plans.iter().map(|plan| format!("the planner took {plan}"));
        for reason in plans.chain(median.reasons.iter().cloned()) {
            let mut reason = reason.replace('\n', " ");
            if let Some((end, _)) = reason.char_indices().nth(REASON_CHARACTERS) {
                reason.truncate(end);
                reason.push_str(" …");
            }
            if text.is_empty() {
                text.push('\n');
            }
            text.push_str(&wrapped(&format!("- {}: {reason}", median.contender.label())));
        }
    }
    text
}

/// The median of what was measured.
fn figure(median: &Median, name: &str) -> Option<f64> {
    median.figures.get(name).map(|[median, ..]| *median)
}

fn cell(figure: Option<f64>) -> String {
    figure.map_or("–".into(), short)
}

#[cfg(test)]
mod tests {
    use super::super::query::Query;
    use super::*;

    fn setting() -> Setting {
        Setting {
            scale_factor: 10.0,
            query: Query::Wide,
            seed: 1,
            repetitions: 3,
            cache: Cache::Cold,
            timeout_s: 600,
            because: None,
        }
    }

    fn median(contender: Contender, limit: Limit, value: f64, reasons: &[&str]) -> Median {
        Median {
            headroom_mb: 128,
            thread_count: 1,
            limit,
            contender,
            right_count: 3 - reasons.len(),
            run_count: 3,
            reasons: reasons.iter().map(ToString::to_string).collect(),
            plans: Vec::new(),
            figures: COLUMNS.map(|(_, name)| (name.to_string(), [value; 3])).into(),
        }
    }

    #[test]
    fn every_line_fits_100_columns() {
        let long = "a reason that goes on ".repeat(40);
        let medians: Vec<Median> = Contender::ALL
            .into_iter()
            .flat_map(|it| [Limit::Mb(300), Limit::None].map(|limit| (it, limit)))
            .map(|(it, limit)| median(it, limit, 55_555.5, &[&long]))
            .collect();
        let row: Vec<String> = (0..13).map(|_| "123456789012345".into()).collect();
        let text = whole(&medians, &setting(), Some(&row));
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
        assert!(text.contains("## 300 MB in a tight group, 1 thread\n"), "{text}");
        assert!(text.contains("## no limit, 1 thread\n"), "{text}");
        let count = medians.len();
        assert!(
            text.contains(&format!("**Disturbed run**: in {count} of {count} lines")),
            "{text}"
        );
    }

    #[test]
    fn the_choice_stands_beside_the_best_of_the_joins_it_was_made_from() {
        let mut medians = [
            median(Contender::Duckdb, Limit::Mb(100), 0.05, &[]),
            median(Contender::NanduBnl, Limit::Mb(100), 0.08, &[]),
            median(Contender::NanduGrace, Limit::Mb(100), 0.04, &["a", "b", "c"]),
            median(Contender::NanduHybrid, Limit::Mb(100), 0.16, &[]),
            median(Contender::NanduPlanned, Limit::Mb(100), 0.1, &[]),
        ];
        let line = "| nandu-planned ÷ best of ours | | 1.25 | – |";
        let text = whole(&medians, &setting(), None);
        assert!(text.contains(line), "{text}");
        // Over another layout there was nothing to choose.
        let mut with_pax = medians.to_vec();
        with_pax.push(median(Contender::NanduPax, Limit::Mb(100), 0.02, &[]));
        let text = whole(&with_pax, &setting(), None);
        assert!(text.contains(line), "{text}");
        medians[4].right_count = 0;
        assert!(!whole(&medians, &setting(), None).contains("best of ours"), "{text}");
    }

    #[test]
    fn a_quiet_run_says_nothing_of_noise_and_a_failure_says_its_reason() {
        let medians = [
            median(Contender::Duckdb, Limit::Mb(100), 0.05, &[]),
            median(Contender::DatafusionHash, Limit::Mb(100), 0.05, &["no\nmemory"]),
        ];
        let text = whole(&medians, &setting(), None);
        assert!(!text.contains("Disturbed"), "{text}");
        assert!(text.contains("| duckdb | 3/3 | 0.05 |"), "{text}");
        assert!(text.contains("| datafusion-hash | 2/3 | 0.05 |"), "{text}");
        assert!(text.ends_with("\n\n- datafusion-hash: no memory\n"), "{text}");
    }

    #[test]
    fn what_a_whole_comparison_has_beside_this_is_named() {
        let limits = [Limit::Mb(100), Limit::None];
        let mut medians: Vec<Median> = Contender::ALL
            .into_iter()
            .flat_map(|it| limits.map(|limit| median(it, limit, 1.0, &[])))
            .collect();
        medians.retain(|it| it.contender != Contender::DuckdbTable);
        let text =
            whole(&medians, &Setting { repetitions: 1, ..setting() }, None).replace('\n', " ");
        let wanted = "**Left out**: duckdb-table; the limits 300 MB; threads 2; headroom in MB 4000; \
                      repetitions 2 of 3.";
        assert!(text.contains(wanted), "{text}");
        let because = Some("it fills the disk".into());
        let reasoned = whole(&medians, &Setting { because, ..setting() }, None).replace('\n', " ");
        assert!(reasoned.contains("headroom in MB 4000, because it fills the disk."), "{reasoned}");
        let narrow = Setting { query: Query::Narrow, ..setting() };
        medians.retain(|it| it.contender.answers(Query::Narrow));
        let text = whole(&medians, &narrow, None);
        assert!(text.contains("**Left out**: duckdb-table; the limits"), "{text}");
    }
}
