//! The table that people read: what everybody got through, and theirs over ours.
//!
//! 1. No line is wider than 100 columns.

use super::contender::Contender;
use super::plan::Task;
use crate::busy::DISTURBED_SHARE;
use crate::left_out;
use crate::table::{short, wrapped};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// A figure over all rounds.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Median {
    #[serde(rename = "clients")]
    pub(super) client_count: u32,
    pub(super) contender: Contender,
    pub(super) figure: String,
    pub(super) median: f64,
    pub(super) least: f64,
    pub(super) most: f64,
}

const LEGEND: &str = "\
Medians of the rounds; ÷ is theirs over nandu's of the same figure. tpmC: new orders that were\n\
committed in a minute, and the least and the most of the rounds; nothing is audited, nobody types or\n\
thinks, and it is no result of the TPC.\n\
again: transactions begun again, since others were in their way. disk: what the files take in the\n\
end; loaded: before. sync: an append and its fdatasync, measured right before. Latencies in ms, from\n\
the first statement to the durable end, those begun again included; in parentheses ÷. All twelve\n\
conditions held after every run, and what one client's terminal showed was the same for all.\n";

const COLUMNS: [(&str, &str); 5] = [
    ("new order", "new_order"),
    ("payment", "payment"),
    ("order status", "order_status"),
    ("delivery", "delivery"),
    ("stock level", "stock_level"),
];

/// Figures by clients, contender and name.
struct Figures<'a>(&'a [Median]);

impl Figures<'_> {
    fn find(&self, client_count: u32, contender: Contender, figure: &str) -> Option<&Median> {
        let is_it = |it: &&Median| {
            it.client_count == client_count && it.contender == contender && it.figure == figure
        };
        self.0.iter().find(is_it)
    }

    fn of(&self, client_count: u32, contender: Contender, figure: &str) -> Option<f64> {
        self.find(client_count, contender, figure).map(|it| it.median)
    }

    /// The least and the most of a figure.
    fn range(&self, client_count: u32, contender: Contender, figure: &str) -> String {
        let found = self.find(client_count, contender, figure);
        found.map_or_else(String::new, |it| format!("{:.0} to {:.0}", it.least, it.most))
    }

    /// A figure over ours.
    fn ratio(&self, client_count: u32, contender: Contender, figure: &str) -> String {
        let ours = self.of(client_count, Contender::Nandu, figure).filter(|ours| *ours > 0.0);
        match (self.of(client_count, contender, figure), ours) {
            (Some(theirs), Some(ours)) => short(theirs / ours),
            _ => "–".to_owned(),
        }
    }
}

/// The whole document.
pub(super) fn whole(medians: &[Median], task: &Task, left_out: &[String]) -> String {
    let scale = task.tpcc.scale();
    let mut text = String::from("# TPC-C beside other databases on this disk\n\n");
    text.push_str(&wrapped(&format!(
        "{} of {} items, {} customers a district, seed {}. {} transactions after {} that are not \
         measured; {}, each on a copy of what was loaded. Serializable, each commit \
         synced. Memory for pages: {}; all of a contender: {}. Command, commit, versions and machine: \
         meta.json.",
        counted(task.tpcc.warehouse_count(), "warehouse"),
        scale.item_count,
        scale.customer_count,
        task.tpcc.seed(),
        task.transaction_count,
        task.warm_up_count,
        counted(task.rounds, "round"),
        ByteCount(task.memory_bytes),
        task.limit,
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
            "**Disturbed run**: others kept up to {} cores busy meanwhile.",
            short(most)
        )));
    }
    let figures = Figures(medians);
    let counts: BTreeSet<u32> = medians.iter().map(|it| it.client_count).collect();
    for count in counts {
        section(&mut text, &figures, count);
    }
    text
}

/// What so many clients got through.
fn section(text: &mut String, figures: &Figures<'_>, client_count: u32) {
    let mut line = |line: String| writeln!(text, "{line}").expect("a string takes every line");
    line(format!("\n## {}\n", counted(client_count, "client")));
    line("| who | tpmC | rounds | ÷ | again | loaded MB | disk MB | ÷ | sync ms |".to_owned());
    line("|---|---:|---:|---:|---:|---:|---:|---:|---:|".to_owned());
    let there = |it: &Contender| figures.of(client_count, *it, "tpmc").is_some();
    let contenders: Vec<Contender> = Contender::ALL.into_iter().filter(there).collect();
    for &contender in &contenders {
        let of = |name: &str| figures.of(client_count, contender, name).unwrap_or_default();
        let ratio = |name: &str| figures.ratio(client_count, contender, name);
        line(format!(
            "| {} | {:.0} | {} | {} | {:.0} | {} | {} | {} | {} |",
            contender.label(),
            of("tpmc"),
            figures.range(client_count, contender, "tpmc"),
            ratio("tpmc"),
            of("retries"),
            short(of("loaded_mb")),
            short(of("disk_mb")),
            ratio("disk_mb"),
            short(of("sync_ms")),
        ));
    }
    let names: Vec<&str> = COLUMNS.iter().map(|column| column.0).collect();
    line(format!("\n| who | % | {} |", names.join(" | ")));
    line("|---|---:|---:|---:|---:|---:|---:|".to_owned());
    for percent in [50, 95, 99] {
        for &contender in &contenders {
            let cell = |(_, name): &(&str, &str)| {
                let name = format!("{name}_p{percent}_us");
                let Some(value) = figures.of(client_count, contender, &name) else {
                    return "–".to_owned();
                };
                let ratio = figures.ratio(client_count, contender, &name);
                format!("{} ({ratio})", short(value / 1e3))
            };
            let cells: Vec<String> = COLUMNS.iter().map(cell).collect();
            line(format!("| {} | {percent} | {} |", contender.label(), cells.join(" | ")));
        }
    }
}
