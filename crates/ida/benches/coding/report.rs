//! Figures of the benchmark as text and as JSON.

use crate::{Instructions, Work};
use nandu_ida::Kernel;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// A coder in one cell, with its rate in each round.
pub(crate) struct Contender {
    pub(crate) name: String,
    /// Which of its library's functions; empty where there is one.
    pub(crate) function: &'static str,
    pub(crate) rates: Vec<f64>,
}

/// All rounds of one cell; the first contender is ours.
pub(crate) struct Measurement {
    pub(crate) n: usize,
    pub(crate) m: usize,
    pub(crate) length: usize,
    pub(crate) work: Work,
    pub(crate) contenders: Vec<Contender>,
}

/// How fast a kernel encodes fragments of 4 KiB.
pub(crate) struct KernelFigure {
    pub(crate) n: usize,
    pub(crate) m: usize,
    pub(crate) kernel: Kernel,
    pub(crate) gb_per_s: f64,
}

/// Everything that was measured.
pub(crate) struct Report {
    pub(crate) rounds: usize,
    /// The libraries of ISA-L that were named; none for that of the system.
    pub(crate) isal: Vec<String>,
    pub(crate) instructions: Instructions,
    pub(crate) measurements: Vec<Measurement>,
    pub(crate) kernels: Vec<KernelFigure>,
    pub(crate) checksum_gb_per_s: f64,
}

impl Measurement {
    fn label(&self) -> String {
        let Self { n, m, length, work, .. } = self;
        let work = format!("{work:?}").to_lowercase();
        format!("{work} | ({n}, {m}) | {} KiB", length >> 10)
    }

    /// Names of the libraries, each once, ours first.
    fn names(&self) -> Vec<&str> {
        let mut names: Vec<&str> = self.contenders.iter().map(|one| one.name.as_str()).collect();
        names.dedup();
        names
    }

    /// The library `name` by its fastest function.
    fn best(&self, name: &str) -> &Contender {
        let all = self.contenders.iter().filter(|one| one.name == name);
        let best = all.max_by(|left, right| left.median().total_cmp(&right.median()));
        best.expect("every cell has every library")
    }

    /// Ours divided by that of `other` in each round: median, least and most.
    fn ratio(&self, other: &Contender) -> [f64; 3] {
        let pairs = self.contenders[0].rates.iter().zip(&other.rates);
        let ratios: Vec<f64> = pairs.map(|(own, other)| own / other).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        [median(ratios), least, most]
    }

    /// One line for somebody who waits.
    pub(crate) fn line(&self) -> String {
        let mut line = self.label();
        for one in &self.contenders {
            let Contender { name, function, .. } = one;
            write!(line, " | {name} {function} {:.1}", one.median())
                .expect("a string takes every line");
        }
        line
    }

    fn json(&self) -> Value {
        let coders = self.contenders.iter().map(|one| {
            let [ratio, least, most] = self.ratio(one);
            json!({
                "name": one.name,
                "function": one.function,
                "gb_per_s": rounded(one.median()),
                "nandu_ratio": rounded(ratio),
                "nandu_ratio_least": rounded(least),
                "nandu_ratio_most": rounded(most),
            })
        });
        json!({
            "work": format!("{:?}", self.work).to_lowercase(),
            "n": self.n, "m": self.m, "fragment_bytes": self.length,
            "coders": coders.collect::<Vec<_>>(),
        })
    }
}

impl Contender {
    fn median(&self) -> f64 {
        median(self.rates.clone())
    }
}

impl Report {
    pub(crate) fn new(rounds: usize, isal: &[String], instructions: Instructions) -> Self {
        Self {
            rounds,
            isal: isal.to_vec(),
            instructions,
            measurements: vec![],
            kernels: vec![],
            checksum_gb_per_s: 0.0,
        }
    }

    /// The tables in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("\n| work | (n, m) | fragment |");
        let names = self.measurements.first().map_or_else(Vec::new, Measurement::names);
        names.iter().for_each(|name| text.push_str(&format!(" {name} |")));
        names.iter().skip(1).for_each(|name| text.push_str(&format!(" ÷ {name} |")));
        text.push_str("\n|---|---|---:|");
        text.push_str(&"---:|".repeat((2 * names.len()).saturating_sub(1)));
        for measurement in &self.measurements {
            text.push_str(&format!("\n| {} |", measurement.label()));
            for name in &names {
                let best = measurement.best(name);
                let function = match best.function {
                    "" => String::new(),
                    function => format!(" ({function})"),
                };
                text.push_str(&format!(" {:.2}{function} |", best.median()));
            }
            for name in names.iter().skip(1) {
                let [ratio, least, most] = measurement.ratio(measurement.best(name));
                text.push_str(&format!(" {ratio:.2} ({least:.2} to {most:.2}) |"));
            }
        }
        text.push_str("\n\n| kernel | (n, m) | GB/s |\n|---|---|---:|");
        for KernelFigure { n, m, kernel, gb_per_s } in &self.kernels {
            text.push_str(&format!("\n| {kernel:?} | ({n}, {m}) | {gb_per_s:.2} |"));
        }
        text.push_str(&format!("\n\nCRC32C of 4 KiB: {:.2} GB/s.\n", self.checksum_gb_per_s));
        text
    }

    /// Writes `coding.json` and `table.md` into `directory`, which is below the repository's root
    /// unless it is absolute.
    pub(crate) fn write(&self, directory: &str) -> Result<(), String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let path = root.join(directory);
        let isal: String =
            self.isal.iter().map(|path| format!(" --isal {}", file_name(path))).collect();
        let instructions = match self.instructions {
            Instructions::Best => "",
            Instructions::Avx2 => " --instructions avx2",
        };
        let command = format!(
            "cargo bench -p nandu-ida --bench coding -- --rounds {}{instructions}{isal} --out {directory}",
            self.rounds
        );
        let kernels: Vec<Value> = self
            .kernels
            .iter()
            .map(|KernelFigure { n, m, kernel, gb_per_s }| {
                let kernel = format!("{kernel:?}");
                json!({ "kernel": kernel, "n": n, "m": m, "gb_per_s": rounded(*gb_per_s) })
            })
            .collect();
        let document = json!({
            "command": command,
            "commit": said_by("git", &["rev-parse", "HEAD"]),
            "date": said_by("date", &["-u", "+%Y-%m-%dT%H:%M:%SZ"]),
            "cpu_model": cpu_model(),
            "kernel": format!("{:?}", self.instructions.kernel()),
            "rounds": self.rounds,
            "unit": "GB of data (m fragments) a second of CPU time on one core",
            "measurements": self.measurements.iter().map(Measurement::json).collect::<Vec<_>>(),
            "kernels": kernels,
            "checksum_gb_per_s": rounded(self.checksum_gb_per_s),
        });
        let text = serde_json::to_string_pretty(&document).map_err(|error| error.to_string())?;
        let head = format!(
            "# Coding speed beside other libraries\n\nGB of data (10^9 bytes of the m data \
             fragments) a second of CPU time on one core: medians of {} alternating rounds. A ratio is \
             nandu-ida's figure over the other's within a round, least and most in brackets: below 1 \
             nandu-ida loses. ISA-L is measured by each of its functions that can do the work; the \
             table has the fastest, coding.json all. nandu-ida uses its kernel {:?}{}. The machine and \
             the command stand in coding.json.\n",
            self.rounds,
            self.instructions.kernel(),
            match self.instructions {
                Instructions::Best => "",
                Instructions::Avx2 => ", ISA-L its functions for AVX2, whatever newer there is",
            }
        );
        let write = |name: &str, text: String| {
            std::fs::write(path.join(name), text)
                .map_err(|error| format!("{}: cannot be written: {error}", path.display()))
        };
        std::fs::create_dir_all(&path)
            .map_err(|error| format!("{}: cannot be made: {error}", path.display()))?;
        write("coding.json", format!("{text}\n"))?;
        write("table.md", format!("{head}{}", self.table()))
    }
}

/// The middle of `values`, the mean of the two middle ones of an even count.
pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    f64::midpoint(values[(count - 1) / 2], values[count / 2])
}

/// The last part of a path; where it lies on this machine means nothing elsewhere.
fn file_name(path: &str) -> String {
    Path::new(path).file_name().map_or(path.into(), |name| name.to_string_lossy().into_owned())
}

/// To three decimals, as precise as such a measurement is.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// What a command prints, or that it does not start.
fn said_by(program: &str, arguments: &[&str]) -> String {
    match Command::new(program).args(arguments).output() {
        Ok(output) => String::from_utf8_lossy(&output.stdout).trim().to_string(),
        Err(error) => format!("{program} does not start: {error}"),
    }
}

fn cpu_model() -> String {
    let text = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let line = text.lines().find(|line| line.starts_with("model name"));
    line.and_then(|line| line.split_once(':'))
        .map_or("unknown".into(), |(_, model)| model.trim().into())
}
