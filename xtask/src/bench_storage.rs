//! The benchmarks of the storage engine, several rounds of all of them in turn, kept as figures.
//!
//! ```text
//! cargo bench -p nandu-storage ── lines of text with numbers ──► the same lines, each number the
//!   round 1: btree heap_rows …     "r = 0: insert 812 ns, …"     median of the rounds, with the least
//!   round 2: btree heap_rows …     "r = 0: insert 798 ns, …"     and the most beside it
//! ```
//!
//! 1. Rounds alternate over the benchmarks, so that a slow minute of the machine meets them all.
//! 2. A line is the same in every round but for its numbers; else nothing is kept.

use crate::compare_fio::{capture, spread};
use crate::kept;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::Command;

const BENCHES: [&str; 5] = ["btree", "heap_rows", "log_records", "pool_reads", "table_rows"];

/// The command line of the benchmarks.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How often each benchmark runs.
    #[arg(long, default_value_t = 3)]
    rounds: u32,
    /// Only these benchmarks.
    #[arg(long, value_parser = BENCHES)]
    only: Vec<String>,
    /// Where `benches.json` is kept, such as results/MACHINE/storage; without it figures are shown only.
    #[arg(long)]
    out: Option<PathBuf>,
}

/// Runs the benchmarks in `root`, shows their lines with medians, and keeps them.
///
/// # Errors
/// If a benchmark cannot be built or fails, or rounds do not fit each other.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    if options.rounds == 0 {
        return Err("--rounds is 0, must be at least 1".into());
    }
    let is_wanted = |name: &str| options.only.is_empty() || options.only.iter().any(|o| o == name);
    let names: Vec<&str> = BENCHES.into_iter().filter(|name| is_wanted(name)).collect();
    let mut outputs = vec![Vec::new(); names.len()];
    for round in 1..=options.rounds {
        for (name, outputs) in names.iter().zip(&mut outputs) {
            println!("round {round}: {name}");
            let mut command = Command::new("cargo");
            command.current_dir(root).args(["bench", "--quiet", "--package", "nandu-storage"]);
            outputs.push(capture(command.args(["--bench", name]))?);
        }
    }
    let mut benches = Vec::new();
    for (name, outputs) in names.iter().zip(&outputs) {
        let lines = summarise(outputs).map_err(|error| format!("{name}: {error}"))?;
        println!("{name}");
        for line in &lines {
            println!("  {}", line["median"].as_str().unwrap_or_default());
        }
        benches.push(json!({ "bench": name, "lines": lines }));
    }
    let Some(directory) = &options.out else { return Ok(()) };
    let kept = json!({
        "command": command_line(options),
        "commit": kept::commit_of(root)?,
        "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?,
        "load_average": std::fs::read_to_string("/proc/loadavg").unwrap_or_default().trim(),
        "cpu_model": cpu_model(),
        "round_count": options.rounds,
        "benches": benches,
    });
    kept::store(&root.join(directory), "benches.json", &kept)
}

fn command_line(options: &Options) -> String {
    let only: String = options.only.iter().map(|name| format!(" --only {name}")).collect();
    let out = options.out.as_ref().map_or(String::new(), |out| format!(" --out {}", out.display()));
    format!("cargo xtask bench-storage --rounds {}{only}{out}", options.rounds)
}

fn cpu_model() -> Option<String> {
    let text = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = text.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

/// The lines of all rounds as one: text with medians, then each figure's spread.
fn summarise(outputs: &[String]) -> Result<Vec<Value>, String> {
    let rounds: Vec<Vec<(Vec<&str>, Vec<&str>)>> =
        outputs.iter().map(|output| output.lines().map(take_apart).collect()).collect();
    let Some(first) = rounds.first() else { return Err("there is no round".into()) };
    let mut lines = Vec::new();
    for (index, (words, numbers)) in first.iter().enumerate() {
        let mut figures = vec![Vec::new(); numbers.len()];
        for round in &rounds {
            let fits = round.len() == first.len() && round[index].0 == *words;
            if !fits {
                return Err(format!("line {} is another one in another round", index + 1));
            }
            for (values, number) in figures.iter_mut().zip(&round[index].1) {
                values.push(number.parse::<f64>().map_err(|error| format!("{number}: {error}"))?);
            }
        }
        let spreads: Vec<[f64; 3]> = figures.into_iter().map(spread).collect();
        let mut text = words[0].to_owned();
        for ((number, [median, ..]), word) in numbers.iter().zip(&spreads).zip(&words[1..]) {
            let decimals = number.split_once('.').map_or(0, |(_, decimals)| decimals.len());
            text.push_str(&format!("{median:.decimals$}{word}"));
        }
        let spreads: Vec<Value> = spreads
            .iter()
            .map(|[median, least, most]| json!({ "median": median, "least": least, "most": most }))
            .collect();
        lines.push(json!({ "median": text, "figures": spreads }));
    }
    Ok(lines)
}

/// What stands around the numbers of a line, one piece more than there are numbers, and these.
fn take_apart(line: &str) -> (Vec<&str>, Vec<&str>) {
    let (mut words, mut numbers) = (Vec::new(), Vec::new());
    let mut rest = line;
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let after = &rest[start..];
        let is_part = |(at, c): (usize, char)| {
            let has_decimals = after[at + 1..].starts_with(|next: char| next.is_ascii_digit());
            c.is_ascii_digit() || (c == '.' && has_decimals && !after[..at].contains('.'))
        };
        let length =
            after.char_indices().find(|&place| !is_part(place)).map_or(after.len(), |p| p.0);
        words.push(&rest[..start]);
        numbers.push(&after[..length]);
        rest = &after[length..];
    }
    words.push(rest);
    (words, numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_falls_into_numbers_and_what_stands_around_them() {
        let (words, numbers) = take_apart("r = 0: insert 812.5 ns, 64 at once.");
        assert_eq!(words, ["r = ", ": insert ", " ns, ", " at once."]);
        assert_eq!(numbers, ["0", "812.5", "64"]);
        assert_eq!(take_apart("none"), (vec!["none"], vec![]));
        assert_eq!(take_apart("ends in 7."), (vec!["ends in ", "."], vec!["7"]));
    }

    #[test]
    fn every_figure_is_the_median_of_its_rounds() {
        let outputs = ["x 1: 10.0 ns", "x 1: 30.0 ns", "x 1: 20.0 ns"].map(String::from);
        let lines = summarise(&outputs).unwrap();
        assert_eq!(lines[0]["median"], "x 1: 20.0 ns");
        assert_eq!(lines[0]["figures"][1], json!({ "median": 20.0, "least": 10.0, "most": 30.0 }));
    }

    #[test]
    fn rounds_that_do_not_fit_each_other_are_refused() {
        let refused = summarise(&["a 1".into(), "b 1".into()]).unwrap_err();
        assert!(refused.contains("line 1"), "{refused}");
        assert!(summarise(&["a 1".into(), "a 1\na 2".into()]).is_err());
    }
}
