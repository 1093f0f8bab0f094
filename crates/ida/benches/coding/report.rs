//! Figures of the benchmark as text and as JSON.

use crate::Work;
use nandu_ida::Kernel;
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::Path;
use std::process::Command;

/// All rounds of one cell: the rates of each coder, the first of which is ours.
pub(crate) struct Measurement {
    pub(crate) n: usize,
    pub(crate) m: usize,
    pub(crate) length: usize,
    pub(crate) work: Work,
    pub(crate) names: Vec<&'static str>,
    pub(crate) rates: Vec<Vec<f64>>,
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
    pub(crate) with_isal: bool,
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

    /// Ours divided by that of coder `other` in each round: median, least and most.
    fn ratio(&self, other: usize) -> [f64; 3] {
        let pairs = self.rates[0].iter().zip(&self.rates[other]);
        let ratios: Vec<f64> = pairs.map(|(own, other)| own / other).collect();
        let least = ratios.iter().copied().fold(f64::INFINITY, f64::min);
        let most = ratios.iter().copied().fold(0.0, f64::max);
        [median(ratios), least, most]
    }

    /// One line for somebody who waits.
    pub(crate) fn line(&self) -> String {
        let mut line = self.label();
        for (index, name) in self.names.iter().enumerate() {
            let rate = median(self.rates[index].clone());
            write!(line, " | {name} {rate:.1}").expect("a string takes every line");
        }
        line
    }

    fn json(&self) -> Value {
        let coders: Vec<Value> = (0..self.names.len())
            .map(|index| {
                let [ratio, least, most] = self.ratio(index);
                json!({
                    "name": self.names[index],
                    "gb_per_s": rounded(median(self.rates[index].clone())),
                    "nandu_ratio": rounded(ratio),
                    "nandu_ratio_least": rounded(least),
                    "nandu_ratio_most": rounded(most),
                })
            })
            .collect();
        json!({
            "work": format!("{:?}", self.work).to_lowercase(),
            "n": self.n, "m": self.m, "fragment_bytes": self.length, "coders": coders,
        })
    }
}

impl Report {
    pub(crate) fn new(rounds: usize, with_isal: bool) -> Self {
        let (measurements, kernels) = (vec![], vec![]);
        Self { rounds, with_isal, measurements, kernels, checksum_gb_per_s: 0.0 }
    }

    /// The tables in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut text = String::from("\n| work | (n, m) | fragment |");
        let names = self.measurements.first().map_or(&[][..], |first| &first.names);
        names.iter().for_each(|name| text.push_str(&format!(" {name} |")));
        names.iter().skip(1).for_each(|name| text.push_str(&format!(" ÷ {name} |")));
        text.push_str("\n|---|---|---:|");
        text.push_str(&"---:|".repeat((2 * names.len()).saturating_sub(1)));
        for measurement in &self.measurements {
            text.push_str(&format!("\n| {} |", measurement.label()));
            for rates in &measurement.rates {
                text.push_str(&format!(" {:.2} |", median(rates.clone())));
            }
            for other in 1..measurement.rates.len() {
                let [ratio, least, most] = measurement.ratio(other);
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
        let command = format!(
            "cargo bench -p nandu-ida --bench coding -- --rounds {} --out {directory}",
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
            "kernel": format!("{:?}", Kernel::best()),
            "with_isal": self.with_isal,
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
             nandu-ida's figure over the other's within a round, least and most in brackets. \
             The machine and the command stand in coding.json.\n",
            self.rounds
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
