//! Plans beside what they really cost: a table to read, or rows to store.
//!
//! ```text
//!     join                  requests   pages written   I/O s   CPU s  time s
//!   > hybrid_hash              12345  748800       0 163.200  20.100 183.300
//!       as run, 31% system     12350  748800       0 160.000  21.000 181.000   -1.3%
//!       no result: why a run ended early
//! ```
//!
//! 1. No line of the table is longer than 80 characters, or than a narrower terminal of 40 or more; there the
//!    columns to the left are left out. No reason is cut.

use super::{Plan, Plans};
use crate::JoinKind;
use crate::cost::Estimate;
use nandu_base::Nanos;
use nandu_base::words::wrap;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Characters of a line, which every terminal has room for.
const LINE_CHARACTERS: usize = 80;
/// Characters of a join's name, with the mark of one whose sides are swapped.
const NAME_CHARACTERS: usize = 22;
/// Characters of a cell.
const CELL_CHARACTERS: usize = 7;

/// What a run of a plan cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actual {
    /// Requests, reads and writes.
    pub requests: u64,
    /// Pages read and written.
    pub pages: u64,
    /// Pages written, which are among them.
    pub pages_written: u64,
    /// Time of the device.
    pub io_ns: u64,
    /// Time of the processor, in the program and in the kernel.
    pub cpu_ns: u64,
    /// Of it that in the kernel, where somebody measured it.
    #[serde(default)]
    pub system_ns: u64,
    /// Time from begin to end.
    pub time_ns: u64,
}

/// One plan with its costs, as a row of the explanation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplanationRow {
    /// The join that the plan runs.
    pub kind: JoinKind,
    /// Whether the inner side of the question is the outer one of the plan.
    pub is_swapped: bool,
    /// What it was thought to cost.
    pub estimate: Estimate,
    /// How long that was thought to take.
    pub time: Nanos,
    /// What it cost, if it was run.
    pub actual: Option<Actual>,
    /// Why its run ended without a result, if it did.
    #[serde(default)]
    pub failure: Option<String>,
}

impl Actual {
    /// The part of the processor's time that was spent in the kernel, in percent.
    #[must_use]
    pub fn system_percent(&self) -> u64 {
        let percent = u128::from(self.system_ns) * 100 / u128::from(self.cpu_ns.max(1));
        u64::try_from(percent.min(100)).unwrap_or(100)
    }
}

impl ExplanationRow {
    /// By how much the estimated time is off: above zero where the run took longer. `None` without a run.
    #[must_use]
    pub fn error_percent(&self) -> Option<f64> {
        let actual = self.actual?;
        let estimated = self.time.0.max(1) as f64;
        Some((actual.time_ns as f64 / estimated - 1.0) * 100.0)
    }
}

/// All plans of a question.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// What can be done, cheapest first.
    pub rows: Vec<ExplanationRow>,
    /// The joins that cannot be run, each with the reason why.
    pub rejected: Vec<(JoinKind, String)>,
}

impl Explanation {
    /// The explanation before anything was run.
    #[must_use]
    pub fn new(plans: &Plans) -> Self {
        let row = |plan: &Plan| ExplanationRow {
            kind: plan.kind,
            is_swapped: plan.is_swapped,
            estimate: plan.estimate,
            time: plan.time,
            actual: None,
            failure: None,
        };
        Self {
            rows: plans.feasible.iter().map(row).collect(),
            rejected: plans.rejected.iter().map(|(kind, why)| (*kind, why.to_string())).collect(),
        }
    }

    /// Notes what a run of a plan cost. False if there is no such plan.
    pub fn note(&mut self, kind: JoinKind, is_swapped: bool, actual: Actual) -> bool {
        let row = self.row_of(kind, is_swapped);
        row.map(|row| row.actual = Some(actual)).is_some()
    }

    /// Notes why the run of a plan ended without a result. False if there is no such plan.
    pub fn note_failure(&mut self, kind: JoinKind, is_swapped: bool, why: String) -> bool {
        let row = self.row_of(kind, is_swapped);
        row.map(|row| row.failure = Some(why)).is_some()
    }

    fn row_of(&mut self, kind: JoinKind, is_swapped: bool) -> Option<&mut ExplanationRow> {
        self.rows.iter_mut().find(|row| row.kind == kind && row.is_swapped == is_swapped)
    }
}

/// What stands above the columns.
const HEADINGS: [&str; 6] = ["requests", "pages", "written", "I/O s", "CPU s", "time s"];

/// One line: what it is of, and its cells, of which the last ones are shown.
struct Line {
    name: String,
    counts: [u64; 3],
    times_ns: [u64; 3],
    shown_count: usize,
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counts = self.counts.map(short_count);
        let times = self.times_ns.map(short_seconds);
        write!(formatter, "{:<NAME_CHARACTERS$}", self.name)?;
        let hidden_count = HEADINGS.len() - self.shown_count;
        for cell in counts.iter().chain(&times).skip(hidden_count) {
            write!(formatter, " {cell:>CELL_CHARACTERS$}")?;
        }
        Ok(())
    }
}

/// An explanation in lines of at most so many characters.
struct Within<'e> {
    explanation: &'e Explanation,
    width: usize,
}

impl Explanation {
    /// The table in lines of at most `width` characters: in 80, or in fewer without some of its columns,
    /// down to 40.
    #[must_use]
    pub fn render_within(&self, width: usize) -> String {
        Within { explanation: self, width: width.min(LINE_CHARACTERS) }.to_string()
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Within { explanation: self, width: LINE_CHARACTERS }.fmt(formatter)
    }
}

impl Within<'_> {
    /// How many columns have room: all, or the last ones.
    fn shown_count(&self) -> usize {
        // Before them stand a mark and the name, behind them the error.
        let room = self.width.saturating_sub(2 + NAME_CHARACTERS + 1 + CELL_CHARACTERS);
        (room / (1 + CELL_CHARACTERS)).clamp(1, HEADINGS.len())
    }
}

impl fmt::Display for Within<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { explanation: Explanation { rows, rejected }, width } = *self;
        let shown_count = self.shown_count();
        write!(formatter, "  {:<width$}", "join", width = NAME_CHARACTERS - 1)?;
        for (place, heading) in HEADINGS.iter().enumerate().skip(HEADINGS.len() - shown_count) {
            // The first is a letter wider than its cells.
            let width = CELL_CHARACTERS + usize::from(place == 0);
            let gap = if place == HEADINGS.len() - shown_count && place > 0 { "  " } else { " " };
            write!(formatter, "{gap}{heading:>width$}")?;
        }
        formatter.write_str("\n")?;
        for (index, row) in rows.iter().enumerate() {
            let mark = if index == 0 { '>' } else { ' ' };
            let swapped = if row.is_swapped { " (S)" } else { "" };
            let Estimate { pages_written, io_ns, cpu_ns, .. } = row.estimate;
            let line = Line {
                name: format!("{}{swapped}", row.kind),
                counts: [row.estimate.request_count(), row.estimate.page_count(), pages_written],
                times_ns: [io_ns, cpu_ns, row.time.0],
                shown_count,
            };
            writeln!(formatter, "{mark} {line}")?;
            if let (Some(actual), Some(error)) = (row.actual, row.error_percent()) {
                write_actual(formatter, &actual, error, shown_count)?;
            }
            if let Some(why) = &row.failure {
                write_reason(formatter, "    no result: ", why, width)?;
            }
        }
        for (kind, why) in rejected {
            let head = format!("- {:<NAME_CHARACTERS$} ", kind.name());
            write_reason(formatter, &head, why, width)?;
        }
        if rows.iter().any(|row| row.is_swapped) {
            let what = "the inner side of the question is hashed, or leads";
            write_reason(formatter, "(S): ", what, width)?;
        }
        Ok(())
    }
}

/// Writes what a run cost, and by how much the estimate was off.
fn write_actual(
    formatter: &mut fmt::Formatter<'_>,
    actual: &Actual,
    error_percent: f64,
    shown_count: usize,
) -> fmt::Result {
    let name = match actual.system_percent() {
        0 => "  as run".to_owned(),
        percent => format!("  as run, {percent}% system"),
    };
    let line = Line {
        name,
        counts: [actual.requests, actual.pages, actual.pages_written],
        times_ns: [actual.io_ns, actual.cpu_ns, actual.time_ns],
        shown_count,
    };
    let error = error_percent.clamp(-999.0, 9999.0);
    let digits = usize::from(error < 999.0);
    writeln!(formatter, "  {line} {error:>+6.digits$}%")
}

/// Writes a reason behind `head`, in as many lines as it needs, which begin below its first word.
fn write_reason(
    formatter: &mut fmt::Formatter<'_>,
    head: &str,
    why: &str,
    width: usize,
) -> fmt::Result {
    let start = head.chars().count();
    let gap = format!("\n{:start$}", "");
    let lines = wrap(why, width.saturating_sub(start));
    writeln!(formatter, "{head}{}", lines.join(&gap))
}

/// A count in at most 7 characters.
fn short_count(count: u64) -> String {
    if count < 10_000_000 { count.to_string() } else { format!("{:.2e}", count as f64) }
}

/// Seconds in at most 7 characters.
fn short_seconds(time_ns: u64) -> String {
    let seconds = Nanos(time_ns).as_seconds_f64();
    match seconds {
        ..999.0 => format!("{seconds:.3}"),
        ..9999.0 => format!("{seconds:.2}"),
        ..99_999.0 => format!("{seconds:.1}"),
        _ => format!("{seconds:.1e}"),
    }
}
