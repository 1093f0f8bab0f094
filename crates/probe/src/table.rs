//! Tables for terminals: text columns to the left, numbers to the right.
//!
//! ```text
//!   name  count  title         where that is too wide:    ab
//!   ----  -----  --------                                   count 1, title Something
//!   ab        1  Someth~                                    long
//! ```
//!
//! 1. No line is wider than asked for, but for a word or a name that is longer alone. Where it would be, the
//!    widest text column is cut, but none below 12 characters.
//! 2. Neither numbers are cut nor what tells rows apart: the first column, and those that are to stay whole.
//!    Where that is too wide, each row is a block of lines.

use crate::pattern::Access;
use crate::profile::{DeviceProfile, ProfileModel};
use crate::runner::{DirectionMedians, PatternResult, RunResult};
use nandu_base::units::three_digits;
use nandu_base::words::{fill, visible};
use nandu_base::{ByteCount, LatencySummary, Nanos};
use nandu_device::Operation;

/// The width of tables whose reader is no terminal, and of running text at most, in characters.
pub const WIDTH_MAX: usize = 100;
const GAP: usize = 2;
/// A text of which less is left says nothing.
const TEXT_WIDTH_MIN: usize = 12;
/// Spaces before the lines of a block but the first.
const BLOCK_INDENT: usize = 2;

/// Rows of text under headings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    headings: Vec<String>,
    is_number: Vec<bool>,
    is_whole: Vec<bool>,
    rows: Vec<Vec<String>>,
}

impl Table {
    /// An empty table. A heading that starts with `>` is over numbers, which go to the right; one that
    /// starts with `=` over what somebody may want to copy, which is never cut; nor is the first column.
    #[must_use]
    pub fn new(headings: &[&str]) -> Self {
        Self {
            headings: headings.iter().map(|h| h.trim_start_matches(['>', '=']).into()).collect(),
            is_number: headings.iter().map(|h| h.starts_with('>')).collect(),
            is_whole: headings
                .iter()
                .enumerate()
                .map(|(place, h)| place == 0 || h.starts_with(['>', '=']))
                .collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row. Control characters in it are shown escaped, since cells hold names from outside.
    ///
    /// # Panics
    /// If it has not as many cells as there are headings.
    pub fn row(&mut self, cells: Vec<String>) {
        assert_eq!(cells.len(), self.headings.len(), "a row has a cell under each heading");
        self.rows.push(cells.into_iter().map(|cell| visible(&cell).into_owned()).collect());
    }

    /// How many rows there are.
    #[must_use]
    pub const fn row_count(&self) -> usize {
        self.rows.len()
    }

    /// The table as lines of at most [`WIDTH_MAX`] characters, each ended by a newline.
    #[must_use]
    pub fn render(&self) -> String {
        self.render_within(WIDTH_MAX)
    }

    /// The same with lines of at most `width_max` characters, in blocks where the columns do not fit in there.
    #[must_use]
    pub fn render_within(&self, width_max: usize) -> String {
        let Some(widths) = self.widths(width_max) else { return self.blocks(width_max) };
        let rule: Vec<String> = widths.iter().map(|&width| "-".repeat(width)).collect();
        let mut text = String::new();
        for cells in [&self.headings, &rule].into_iter().chain(&self.rows) {
            let mut line = String::new();
            for ((cell, &width), &is_number) in cells.iter().zip(&widths).zip(&self.is_number) {
                let cell = cut(cell, width);
                line +=
                    &if is_number { format!("{cell:>width$}") } else { format!("{cell:<width$}") };
                line += &" ".repeat(GAP);
            }
            text += line.trim_end();
            text.push('\n');
        }
        text
    }

    /// As wide as each column may be; `None` where they do not fit.
    fn widths(&self, width_max: usize) -> Option<Vec<usize>> {
        let mut widths: Vec<usize> = self.headings.iter().map(|h| h.chars().count()).collect();
        for row in &self.rows {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let gaps = GAP * widths.len().saturating_sub(1);
        while widths.iter().sum::<usize>() + gaps > width_max {
            let widest = (0..widths.len())
                .filter(|&column| !self.is_whole[column] && widths[column] > TEXT_WIDTH_MIN)
                .max_by_key(|&column| widths[column]);
            widths[widest?] -= 1;
        }
        Some(widths)
    }

    /// Each row as its first cell and, below it, the others with their headings.
    fn blocks(&self, width_max: usize) -> String {
        let mut text = String::new();
        for row in &self.rows {
            // A text says what it is, a number does not.
            let is_named = row.first().is_some_and(|name| !name.is_empty() && !self.is_number[0]);
            if is_named {
                text += &row[0];
                text.push('\n');
            }
            let fields: Vec<String> = self
                .headings
                .iter()
                .zip(row)
                .skip(usize::from(is_named))
                .filter(|(_, cell)| !cell.is_empty())
                .map(|(heading, cell)| format!("{heading} {cell}").trim_start().to_owned())
                .collect();
            let lines = lines_of(&fields, width_max.saturating_sub(BLOCK_INDENT));
            for (place, line) in lines.iter().enumerate() {
                let indent = if is_named || place > 0 { BLOCK_INDENT } else { 0 };
                text += &" ".repeat(indent);
                text += line;
                text.push('\n');
            }
        }
        text
    }
}

/// Fields with commas between them in lines of at most `room` characters, which break between fields and,
/// where one is longer than a line, between its words.
fn lines_of(fields: &[String], room: usize) -> Vec<String> {
    let with_comma = |(place, field): (usize, &String)| {
        let comma = if place + 1 < fields.len() { "," } else { "" };
        format!("{field}{comma}")
    };
    let fields: Vec<String> = fields.iter().enumerate().map(with_comma).collect();
    let parts = fields.iter().flat_map(|field| match field.chars().count() <= room {
        true => vec![field.as_str()],
        false => field.split_whitespace().collect(),
    });
    fill(parts, room)
}

/// The first `width` characters, the last of them a tilde where some are missing.
fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    text.chars().take(width.saturating_sub(1)).chain(['~']).collect()
}

/// `1.41 GB/s`: decimal units, three digits.
#[must_use]
pub fn throughput(bytes_per_second: f64) -> String {
    scaled(bytes_per_second, &["B/s", "kB/s", "MB/s", "GB/s", "TB/s"])
}

/// `28.1 k`, `1.35 M`: requests per second.
#[must_use]
pub fn rate(iops: f64) -> String {
    scaled(iops, &["", "k", "M", "G"]).trim_end().into()
}

fn scaled(mut value: f64, units: &[&str]) -> String {
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < units.len() {
        value /= 1000.0;
        unit += 1;
    }
    format!("{} {}", three_digits(value), units[unit])
}

/// A time in ns with its unit.
#[must_use]
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a float as integer saturates, and a time is not negative"
)]
pub fn time(nanos: f64) -> String {
    Nanos(nanos.round() as u64).to_string()
}

/// One row per pattern: throughput, IOPS, latency and the spread of the repetitions. A pattern that reads
/// and writes has its latencies in two further rows, with the rates of reads and writes alone.
#[must_use]
pub fn pattern_table(results: &[PatternResult]) -> Table {
    let mut table = Table::new(&[
        "pattern",
        ">throughput",
        ">IOPS",
        ">mean",
        ">p50",
        ">p99",
        ">p99.9",
        ">spread",
    ]);
    for result in results {
        let medians = &result.medians;
        let mut row =
            vec![result.pattern.name(), throughput(medians.bytes_per_second), rate(medians.iops)];
        let directions = [
            ("  its reads", medians.read, (|run| &run.read) as fn(&RunResult) -> &LatencySummary),
            ("  its writes", medians.write, |run| &run.write),
        ];
        let is_mixed = medians.read.is_some() && medians.write.is_some();
        let only = directions.iter().find_map(|(_, of, latency)| Some((*of.as_ref()?, *latency)));
        match only.filter(|_| !is_mixed) {
            Some((of, latency)) => row.extend(latencies(result, &of, latency)),
            None => row.extend(["-"; 4].map(str::to_owned)),
        }
        row.push(spread(result));
        table.row(row);
        for (name, of, latency) in directions.iter().filter(|_| is_mixed) {
            if let Some(of) = of {
                let mut row = vec![(*name).into(), throughput(of.bytes_per_second), rate(of.iops)];
                row.extend(latencies(result, of, *latency));
                row.push("-".into());
                table.row(row);
            }
        }
    }
    table
}

/// Mean, median, 99th and 99.9th percentile of one kind of request.
fn latencies(
    result: &PatternResult,
    of: &DirectionMedians,
    latency: fn(&RunResult) -> &LatencySummary,
) -> [String; 4] {
    let p999 = result.runs.iter().map(|run| latency(run).p999).max().unwrap_or(0);
    [
        time(of.latency_mean_ns),
        time(of.latency_p50_ns),
        time(of.latency_p99_ns),
        Nanos(p999).to_string(),
    ]
}

fn spread(result: &PatternResult) -> String {
    if result.runs.len() < 2 {
        return "-".into();
    }
    format!("{:.1} %", result.medians.spread * 100.0)
}

/// One row per size and queue depth with the throughput of the four classic patterns.
#[must_use]
pub fn throughput_table(profile: &DeviceProfile) -> Table {
    let mut table = Table::new(&[
        ">request",
        ">qd",
        ">sequential read",
        ">random read",
        ">sequential write",
        ">random write",
    ]);
    let mut keys: Vec<(u32, u64)> =
        profile.points.iter().map(|point| (point.queue_depth, point.request_bytes)).collect();
    keys.sort_unstable();
    keys.dedup();
    for (queue_depth, request_bytes) in keys {
        let cell = |operation, access| {
            profile
                .bytes_per_second(operation, access, request_bytes, queue_depth)
                .map_or_else(|| "-".into(), throughput)
        };
        table.row(vec![
            ByteCount(request_bytes).to_string(),
            queue_depth.to_string(),
            cell(Operation::Read, Access::Sequential),
            cell(Operation::Read, Access::Random),
            cell(Operation::Write, Access::Sequential),
            cell(Operation::Write, Access::Random),
        ]);
    }
    table
}

/// One row per fitted line t(b) = t0 + b/F; without its parameters where it does not fit.
#[must_use]
pub fn model_table(profile: &DeviceProfile) -> Table {
    table_of_models(&profile.models)
}

fn table_of_models(models: &[ProfileModel]) -> Table {
    let mut table =
        Table::new(&["model at qd 1", ">t0", ">F", ">error max", ">error rms", ">sizes"]);
    for model in models {
        let line = &model.line;
        let speed = line.bytes_per_second();
        let [t0, speed] = match line.fits() {
            true if speed.is_finite() => [time(line.t0_ns), throughput(speed)],
            true => [time(line.t0_ns), "unlimited".into()],
            false => ["no line".into(), "fits".into()],
        };
        table.row(vec![
            format!("{} {}", model.access.label(), model.operation.label()),
            t0,
            speed,
            format!("{:.1} %", line.error_max * 100.0),
            format!("{:.1} %", line.error_rms * 100.0),
            line.point_count.to_string(),
        ]);
    }
    table
}

/// What a person wants to know first, line by line.
#[must_use]
pub fn profile_summary(profile: &DeviceProfile) -> String {
    let mut table = Table::new(&["figure", "value"]);
    let mut add = |figure: &str, value: String| table.row(vec![figure.into(), value]);
    add("device", profile.device.clone());
    add("capacity", ByteCount(profile.capacity_bytes).to_string());
    add("sector", ByteCount(u64::from(profile.sector_bytes)).to_string());
    let size = |bytes: Option<u64>| bytes.map(|bytes| ByteCount(bytes).to_string());
    for (figure, value) in [
        ("best read size", size(profile.best_read_bytes)),
        ("best write size", size(profile.best_write_bytes)),
        ("alignment unit", size(profile.alignment_unit_bytes)),
    ] {
        add(figure, value.unwrap_or_else(|| "not measured".into()));
    }
    for operation in [Operation::Read, Operation::Write] {
        let worst = profile
            .penalties
            .iter()
            .filter(|penalty| penalty.operation == operation)
            .max_by(|left, right| left.ratio.total_cmp(&right.ratio));
        if let Some(worst) = worst {
            add(
                &format!("largest penalty of random {}s", operation.label()),
                format!(
                    "{} times at {}",
                    three_digits(worst.ratio),
                    ByteCount(worst.request_bytes)
                ),
            );
        }
    }
    for effect in &profile.history {
        add(
            &format!("after {} of random writes", effect.burst),
            format!(
                "sequential writes at {} of before, recovered after {}",
                three_digits(effect.first_phase_ratio),
                effect.recovery_time
            ),
        );
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fit::fit_linear;

    #[test]
    fn numbers_stand_to_the_right_and_text_to_the_left() {
        let mut table = Table::new(&["name", ">count"]);
        table.row(vec!["a".into(), "1".into()]);
        table.row(vec!["bcdef".into(), "1000".into()]);
        assert_eq!(table.render(), "name   count\n-----  -----\na          1\nbcdef   1000\n");
    }

    #[test]
    fn wide_tables_are_cut_to_the_terminal() {
        let mut table = Table::new(&[">number", "text"]);
        table.row(vec!["123456".into(), "x".repeat(150)]);
        let text = table.render();
        assert!(text.lines().all(|line| line.chars().count() <= WIDTH_MAX), "{text}");
        assert!(text.contains("123456  xxxx") && text.contains("xx~"), "{text}");
        let wide = table.render_within(200);
        assert!(wide.contains(&"x".repeat(150)), "{wide}");
        let narrow = table.render_within(40);
        assert_eq!(narrow.lines().map(|line| line.chars().count()).max(), Some(40), "{narrow}");
    }

    #[test]
    fn names_and_numbers_are_never_cut() {
        let mut table = Table::new(&["=address", "title", ">count", "of", "more"]);
        let row = |name: &str, title: &str| {
            vec![name.into(), title.into(), "1".into(), String::new(), "a word or three".into()]
        };
        table.row(row("sim:a-long-address-512m", "Something with a title that is long"));
        table.row(row("sim:a-long-address-512g", "Short"));
        let told = table.render_within(70);
        assert!(told.contains("sim:a-long-address-512m  Something with a~  "), "{told}");
        let told = table.render_within(36);
        assert_eq!(
            told,
            "sim:a-long-address-512m\n  title Something with a title that\n  is long, count 1,\n  \
             more a word or three\nsim:a-long-address-512g\n  title Short, count 1,\n  \
             more a word or three\n"
        );
        let mut table = Table::new(&[">request", ">a rate", ">another rate"]);
        table.row(["4 KiB", "1.41 GB/s", "1.35 GB/s"].map(str::to_owned).to_vec());
        assert_eq!(
            table.render_within(30),
            "request 4 KiB,\n  a rate 1.41 GB/s,\n  another rate 1.35 GB/s\n"
        );
        table.row(vec!["1.234567".into(); 3]);
        assert_eq!(table.render_within(33).lines().count(), 4, "what fits is a table");
    }

    #[test]
    fn a_line_that_does_not_fit_is_not_shown_as_a_model() {
        let table = |times: [f64; 3]| {
            let points: Vec<(u64, f64)> = [512, 4096, 65_536].into_iter().zip(times).collect();
            let line = fit_linear(&points).unwrap();
            let model = ProfileModel::new(Operation::Write, Access::Random, line);
            table_of_models(&[model]).render()
        };
        let text = table([900.0, 100.0, 900.0]);
        assert!(text.contains("no line") && !text.contains("B/s"), "{text}");
        let text = table([1e5, 1.1e5, 2e5]);
        assert!(text.contains("B/s") && !text.contains("no line"), "{text}");
    }

    #[test]
    fn quantities_have_three_digits_and_a_unit() {
        assert_eq!(throughput(1_410_000_000.0), "1.41 GB/s");
        assert_eq!(throughput(999.9), "1.00 kB/s");
        assert_eq!(throughput(0.0), "0.00 B/s");
        assert_eq!(rate(28_119.0), "28.1 k");
        assert_eq!(rate(60.0), "60.0");
        assert_eq!(time(466_875.0), "467 us");
    }
}
