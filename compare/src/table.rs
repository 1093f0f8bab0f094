//! The table that people read: for each r what was written, what was read, what one thread gains;
//! below each our figure over the best B-tree's and over the best peer's.
//!
//! 1. No line is wider than 100 columns.

use crate::engine::{EngineKind, Family};
use crate::phase::PhaseKind;
use crate::results::Median;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

/// One column: a figure of a phase.
struct Column {
    head: &'static str,
    phase: PhaseKind,
    metric: &'static str,
    sense: Sense,
}

/// What is better.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sense {
    Less,
    More,
    /// Stands there to be known.
    Neither,
}

const fn column(
    head: &'static str,
    phase: PhaseKind,
    metric: &'static str,
    sense: Sense,
) -> Column {
    Column { head, phase, metric, sense }
}

const WRITES: [Column; 10] = [
    column("build s", PhaseKind::Build, "seconds", Sense::Less),
    column("wr/B", PhaseKind::Build, "written_per_user_byte", Sense::Less),
    column("rd/B", PhaseKind::Build, "read_per_user_byte", Sense::Less),
    column("file/B", PhaseKind::Build, "file_per_user_byte", Sense::Less),
    column("insert us", PhaseKind::Insert, "us", Sense::Less),
    column("flushed", PhaseKind::Insert, "flushed_us", Sense::Less),
    column("wr/B", PhaseKind::Insert, "written_per_user_byte", Sense::Less),
    column("durable", PhaseKind::Durable, "us", Sense::Less),
    column("fsync", PhaseKind::Durable, "fsync_mean_us", Sense::Neither),
    column("wr/B", PhaseKind::Durable, "written_per_user_byte", Sense::Less),
];

const READS: [Column; 9] = [
    column("lookup us", PhaseKind::Lookup, "mean_us", Sense::Less),
    column("p50", PhaseKind::Lookup, "p50_us", Sense::Less),
    column("p99", PhaseKind::Lookup, "p99_us", Sense::Less),
    column("KiB", PhaseKind::Lookup, "read_kib", Sense::Less),
    column("scan us", PhaseKind::Scan, "us", Sense::Less),
    column("uniform us", PhaseKind::Uniform, "us", Sense::Less),
    column("2 threads", PhaseKind::Threads, "us", Sense::Less),
    column("resident", PhaseKind::Resident, "one_us", Sense::Less),
    column("2 threads", PhaseKind::Resident, "two_us", Sense::Less),
];

/// Records that come in order within a call, and what was put off.
const SORTED: [Column; 9] = [
    column("build s", PhaseKind::BuildSorted, "seconds", Sense::Less),
    column("wr/B", PhaseKind::BuildSorted, "written_per_user_byte", Sense::Less),
    column("rd/B", PhaseKind::BuildSorted, "read_per_user_byte", Sense::Less),
    column("file/B", PhaseKind::BuildSorted, "file_per_user_byte", Sense::Less),
    column("insert us", PhaseKind::InsertSorted, "us", Sense::Less),
    column("flushed", PhaseKind::InsertSorted, "flushed_us", Sense::Less),
    column("wr/B", PhaseKind::InsertSorted, "written_per_user_byte", Sense::Less),
    column("settle s", PhaseKind::Build, "settling_seconds", Sense::Neither),
    column("wr/B then", PhaseKind::Build, "settled_written_per_user_byte", Sense::Less),
];

/// Threads that change single records.
const CLIENTS: [Column; 9] = [
    column("cold 8", PhaseKind::Threads8, "us", Sense::Less),
    column("mixed 1", PhaseKind::Mixed1, "us", Sense::Less),
    column("mixed 2", PhaseKind::Mixed2, "us", Sense::Less),
    column("get p99", PhaseKind::Mixed2, "get_p99_us", Sense::Less),
    column("put p99", PhaseKind::Mixed2, "put_p99_us", Sense::Less),
    column("mixed 8", PhaseKind::Mixed8, "us", Sense::Less),
    column("commit 1", PhaseKind::Commit1, "us", Sense::Less),
    column("commit 8", PhaseKind::Commit8, "us", Sense::Less),
    column("fsync", PhaseKind::Commit8, "fsync_mean_us", Sense::Neither),
];

const GAINS: [Column; 8] = [
    column("2, cold", PhaseKind::Threads, "gain", Sense::More),
    column("8, cold", PhaseKind::Threads8, "gain", Sense::More),
    column("2, mixed", PhaseKind::Mixed2, "gain", Sense::More),
    column("8, mixed", PhaseKind::Mixed8, "gain", Sense::More),
    column("8, commits", PhaseKind::Commit8, "gain", Sense::More),
    column("batch 8", PhaseKind::Batch8, "gain", Sense::More),
    column("batch 32", PhaseKind::Batch32, "gain", Sense::More),
    column("2, resident", PhaseKind::Resident, "gain", Sense::More),
];

const LEGEND: &str = "\
Medians of the rounds. us: microseconds a record or lookup, of a scan a scan of 100 records.\n\
wr/B, rd/B: bytes written to and read from the device per byte of user data, opening and closing\n\
included. file/B: bytes that the files take after the build per byte of user data. insert: without\n\
durability; flushed: with closing and syncing on top. durable: a durable commit per 100 records,\n\
fsync beside it: mean time of 10.8 KB appended and synced, just before and after. lookup: keys as\n\
r draws them, cold, with KiB read for each; uniform: any stored key, cold; resident: keys that fit\n\
the cache. In the second table each call's records come in the order of their keys; settle: what\n\
an engine that puts work off takes after a build in the given order until it rests, wr/B then: all\n\
that was written by then. Whatever is read is read after that. cold 8: uniform by eight threads.\n\
mixed: half lookups, half updates of single records, chosen by Zipf with 0.99, nothing durable, by\n\
so many threads, the time over the operations of all; commit: single new records, each durable. A\n\
ratio is ours over theirs: below 1 is better, in the table of gains above 1.\n";

/// There is no ratio to what the table shows as nothing.
const RATIO_OF_LEAST: f64 = 0.005;

type Figures = BTreeMap<(u32, PhaseKind, EngineKind, String), f64>;

/// The whole document.
pub(crate) fn whole(medians: &[Median], meta: &Value, notes: &[String]) -> String {
    let figures: Figures = medians
        .iter()
        .map(|it| ((it.random_ppm, it.phase, it.engine, it.metric.clone()), it.median))
        .collect();
    let mut text = String::from("# The B+-tree beside its peers\n\n");
    let number = |key: &str| meta[key].as_u64().unwrap_or_default();
    let memory = format!(
        "{} records of 8 + 100 bytes, {} operations a phase of which the second half counts, pages \
         of {} bytes, caches of {} MiB, {}, read-ahead of the disk {} KiB. Command, commit, versions \
         and machine: meta.json.",
        number("records"),
        number("operations"),
        number("page_bytes"),
        number("cache_bytes") >> 20,
        meta["limit"].as_str().unwrap_or_default(),
        meta["read_ahead_kib"].as_u64().map_or("unknown".into(), |kib| kib.to_string()),
    );
    text.push_str(&wrapped(&memory));
    text.push('\n');
    text.push_str(LEGEND);
    if !notes.is_empty() {
        text.push('\n');
    }
    for note in notes {
        text.push_str(&wrapped(&format!("- {}", note.replace('\n', " "))));
    }
    let shares: BTreeSet<u32> = medians.iter().map(|median| median.random_ppm).collect();
    for random_ppm in shares {
        writeln!(text, "\n## r = {}\n", f64::from(random_ppm) / 1e6)
            .expect("a string takes every line");
        for columns in [WRITES.as_slice(), &SORTED, &READS, &CLIENTS, &GAINS] {
            text.push_str(&table_of(&figures, random_ppm, columns));
            text.push('\n');
        }
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

fn table_of(figures: &Figures, random_ppm: u32, columns: &[Column]) -> String {
    let figure = |engine: EngineKind, column: &Column| {
        let key = (random_ppm, column.phase, engine, column.metric.to_string());
        figures.get(&key).copied()
    };
    let heads: Vec<&str> = columns.iter().map(|column| column.head).collect();
    let rule = columns.iter().map(|_| "---:").collect::<Vec<_>>().join("|");
    let mut text = format!("| engine | {} |\n|---|{rule}|\n", heads.join(" | "));
    let mut push = |label: &str, cells: Vec<Option<f64>>| {
        if cells.iter().all(Option::is_none) {
            return;
        }
        let cells: Vec<String> =
            cells.into_iter().map(|cell| cell.map_or("–".into(), short)).collect();
        writeln!(text, "| {label} | {} |", cells.join(" | ")).expect("a string takes every line");
    };
    for engine in EngineKind::ALL {
        push(engine.label(), columns.iter().map(|column| figure(engine, column)).collect());
    }
    let is_ours = |engine: &EngineKind| engine.family() == Family::Nandu;
    for ours in EngineKind::ALL.into_iter().filter(is_ours) {
        let families: [(&str, &[Family]); 2] = [
            ("best B-tree", &[Family::BTree]),
            ("best peer", &[Family::BTree, Family::LogStructuredMerge]),
        ];
        for (name, families) in families {
            let ratio = |column: &Column| {
                let peers = EngineKind::ALL
                    .into_iter()
                    .filter(|engine| families.contains(&engine.family()))
                    .filter_map(|engine| figure(engine, column));
                let best = match column.sense {
                    Sense::Less => peers.min_by(f64::total_cmp)?,
                    Sense::More => peers.max_by(f64::total_cmp)?,
                    Sense::Neither => return None,
                };
                (best >= RATIO_OF_LEAST).then_some(figure(ours, column)? / best)
            };
            push(&format!("{} ÷ {name}", ours.label()), columns.iter().map(ratio).collect());
        }
    }
    text
}

/// Three significant digits, as short as they go.
pub(crate) fn short(value: f64) -> String {
    match value.abs() {
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

/// Lines of at most 100 characters, each ended.
pub(crate) fn wrapped(text: &str) -> String {
    const COLUMNS: usize = 100;
    let mut lines = String::new();
    let mut width = 0;
    for word in text.split_whitespace() {
        let characters = word.chars().count();
        if width > 0 && width + 1 + characters > COLUMNS {
            lines.push('\n');
            width = 0;
        }
        if width > 0 {
            lines.push(' ');
            width += 1;
        }
        lines.push_str(word);
        width += characters;
    }
    lines.push('\n');
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every figure of every engine, as large as they come.
    fn medians() -> Vec<Median> {
        let mut medians = Vec::new();
        for (engine, value) in EngineKind::ALL.into_iter().zip([55_555.5, 44_444.4].iter().cycle())
        {
            for column in WRITES.iter().chain(&SORTED).chain(&READS).chain(&CLIENTS).chain(&GAINS) {
                medians.push(Median {
                    random_ppm: 330_000,
                    r: 0.33,
                    phase: column.phase,
                    engine,
                    metric: column.metric.into(),
                    median: *value,
                    least: 0.0,
                    most: 0.0,
                    count: 1,
                });
            }
        }
        medians
    }

    #[test]
    fn every_line_fits_100_columns() {
        let meta = serde_json::json!({
            "records": 2_000_000, "operations": 20_000, "page_bytes": 4096,
            "cache_bytes": 32 << 20, "limit": "a word ".repeat(40),
        });
        let text = whole(&medians(), &meta, &["a note ".repeat(40)]);
        for line in text.lines() {
            assert!(line.chars().count() <= 100, "{} columns: {line}", line.chars().count());
        }
        assert!(text.contains("## r = 0.33"), "{text}");
    }

    #[test]
    fn ours_stands_over_the_best_of_theirs_and_over_nothing_where_theirs_is_nothing() {
        let of = |engine, metric: &str, median| {
            let first = medians().remove(0);
            let phase = PhaseKind::Build;
            Median { engine, phase, metric: metric.into(), median, ..first }
        };
        let medians = [
            of(EngineKind::Redb, "seconds", 40.0),
            of(EngineKind::Lmdb, "seconds", 20.0),
            of(EngineKind::Fjall, "seconds", 5.0),
            of(EngineKind::Nandu, "seconds", 10.0),
            of(EngineKind::Lmdb, "read_per_user_byte", 0.001),
            of(EngineKind::Nandu, "read_per_user_byte", 3.0),
        ];
        let text = whole(&medians, &serde_json::json!({}), &[]);
        assert!(text.contains("| nandu ÷ best B-tree | 0.50 | – | – |"), "{text}");
        assert!(text.contains("| nandu ÷ best peer | 2.00 | – | – |"), "{text}");
    }

    #[test]
    fn figures_have_three_digits_and_engines_without_any_have_no_line() {
        assert_eq!([1.234, 12.34, 123.4, 0.0].map(short), ["1.23", "12.3", "123", "0.00"]);
        let only = Median { engine: EngineKind::Lmdb, ..medians().remove(0) };
        let text = whole(&[only], &serde_json::json!({}), &[]);
        assert!(text.contains("| lmdb | 55556 | –"), "{text}");
        assert!(!text.contains("| redb |"), "{text}");
    }
}
