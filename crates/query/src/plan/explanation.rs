//! Plans beside what they really cost: a table to read, or rows to store.
//!
//! ```text
//!     join                  requests   pages written   I/O s   CPU s  time s
//!   > hybrid_hash              12345  748800       0 163.200  20.100 183.300
//!       as run, 31% system     12350  748800       0 160.000  21.000 181.000   -1.3%
//!       no result: why a run ended early
//! ```
//!
//! 1. No line of the table is longer than 80 characters, and no reason is cut.

use super::{Plan, Plans};
use crate::JoinKind;
use crate::cost::Estimate;
use nandu_base::Nanos;
use serde::{Deserialize, Serialize};
use std::fmt;

/// Characters of a line, which every terminal has room for.
const LINE_CHARACTERS: usize = 80;
/// Characters of a join's name, with the mark of one whose sides are swapped.
const NAME_CHARACTERS: usize = 22;

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

/// The cells of one line: requests, pages, pages written, device, processor, all.
struct Line {
    counts: [u64; 3],
    times_ns: [u64; 3],
}

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for count in self.counts {
            write!(formatter, " {:>7}", short_count(count))?;
        }
        for time_ns in self.times_ns {
            write!(formatter, " {:>7}", short_seconds(time_ns))?;
        }
        Ok(())
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            formatter,
            "  {:<21} {:>8} {:>7} {:>7} {:>7} {:>7} {:>7}",
            "join", "requests", "pages", "written", "I/O s", "CPU s", "time s"
        )?;
        for (index, row) in self.rows.iter().enumerate() {
            let mark = if index == 0 { '>' } else { ' ' };
            let swapped = if row.is_swapped { " (S)" } else { "" };
            let name = format!("{}{swapped}", row.kind);
            let line = Line {
                counts: [
                    row.estimate.request_count(),
                    row.estimate.page_count(),
                    row.estimate.pages_written,
                ],
                times_ns: [row.estimate.io_ns, row.estimate.cpu_ns, row.time.0],
            };
            writeln!(formatter, "{mark} {name:<NAME_CHARACTERS$}{line}")?;
            if let (Some(actual), Some(error)) = (row.actual, row.error_percent()) {
                let line = Line {
                    counts: [actual.requests, actual.pages, actual.pages_written],
                    times_ns: [actual.io_ns, actual.cpu_ns, actual.time_ns],
                };
                let error = error.clamp(-999.0, 9999.0);
                let name = match actual.system_percent() {
                    0 => "  as run".to_owned(),
                    percent => format!("  as run, {percent}% system"),
                };
                let digits = usize::from(error < 999.0);
                writeln!(formatter, "  {name:<NAME_CHARACTERS$}{line} {error:>+6.digits$}%")?;
            }
            if let Some(why) = &row.failure {
                write_reason(formatter, "    no result: ", why)?;
            }
        }
        for (kind, why) in &self.rejected {
            write_reason(formatter, &format!("- {:<NAME_CHARACTERS$} ", kind.name()), why)?;
        }
        if self.rows.iter().any(|row| row.is_swapped) {
            writeln!(formatter, "(S): the inner side of the question is hashed, or leads")?;
        }
        Ok(())
    }
}

/// Writes a reason behind `head`, in as many lines as it needs, which begin below its first word.
fn write_reason(formatter: &mut fmt::Formatter<'_>, head: &str, why: &str) -> fmt::Result {
    formatter.write_str(head)?;
    let start = head.chars().count();
    let mut at = start;
    for word in why.split_whitespace() {
        let length = word.chars().count();
        if at > start && at + 1 + length > LINE_CHARACTERS {
            write!(formatter, "\n{:start$}", "")?;
            at = start;
        } else if at > start {
            formatter.write_str(" ")?;
            at += 1;
        }
        formatter.write_str(word)?;
        at += length;
    }
    formatter.write_str("\n")
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
