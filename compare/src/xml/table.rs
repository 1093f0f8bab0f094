//! The table that people read: what everybody took, and ours over each of them.
//!
//! 1. No line is wider than 100 columns.

use super::{Contender, Task};
use crate::busy::DISTURBED_SHARE;
use crate::left_out;
use crate::table::{short, wrapped};
use serde::Serialize;
use std::fmt::Write as _;

/// A figure over all repetitions.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Median {
    pub(super) contender: Contender,
    pub(super) figure: String,
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

const LEGEND: &str = "\
Medians of the repetitions. import: MB of text a second, with an index of ids where there is one,\n\
durable in the end. lookup: a customer by its id, all of it as text, after as many lookups that are\n\
not counted. update: another word in a customer, durable; sync: an append and its fdatasync, measured\n\
right before. Both are means of a repetition. basex writes a change and does not sync it. ÷: theirs\n\
over ours.\n";

/// The whole document.
pub(super) fn whole(
    medians: &[Median],
    task: &Task,
    repetitions: u32,
    left_out: &[String],
) -> String {
    let mut text = String::from("# One XML document beside PostgreSQL and BaseX\n\n");
    text.push_str(&wrapped(&format!(
        "TPoX's customers as one document: {} bytes, {} customers, seed {}. Repetitions: {repetitions}; \
         {} lookups, {} updates each, five where all is one value. Memory for pages: {} bytes. \
         Command, commit, versions and machine: meta.json.",
        task.byte_count,
        task.customer_count,
        task.seed,
        task.lookup_count,
        task.update_count,
        task.pool_bytes
    )));
    text.push('\n');
    text.push_str(LEGEND);
    if let Some(sentence) = left_out::sentence(left_out, &[]) {
        text.push('\n');
        text.push_str(&wrapped(&sentence));
    }
    let others = medians.iter().filter(|it| it.figure == "others_share");
    let most = others.map(|it| it.most).fold(0.0, f64::max);
    if most > DISTURBED_SHARE {
        text.push('\n');
        text.push_str(&wrapped(&format!(
            "**Disturbed run**: others, and servers that are no children of the run, kept up to {} \
             cores busy meanwhile.",
            short(most)
        )));
    }
    text.push_str("\n| who | import MB/s | ÷ | lookup ms | ÷ | update ms | ÷ | sync ms |\n");
    text.push_str("|---|---:|---:|---:|---:|---:|---:|---:|\n");
    let of = |contender: Contender, figure: &str| {
        let mut found = medians.iter();
        found.find(|it| it.contender == contender && it.figure == figure).map(|it| it.median)
    };
    for contender in Contender::ALL {
        let mut cells = Vec::new();
        for figure in ["import_mb_s", "lookup_ms", "update_ms"] {
            let Some(value) = of(contender, figure) else { continue };
            let ratio = of(Contender::Nandu, figure).map(|ours| value / ours);
            cells.push(fine(value));
            cells.push(ratio.map_or_else(|| "–".to_owned(), short));
        }
        if let Some(sync_ms) = of(contender, "sync_ms") {
            cells.push(short(sync_ms));
            writeln!(text, "| {} | {} |", contender.label(), cells.join(" | "))
                .expect("a string takes every line");
        }
    }
    text
}

/// As [`short`], with what is much smaller than one.
fn fine(value: f64) -> String {
    if value < 0.1 { format!("{value:.3}") } else { short(value) }
}
