//! Nandu's file drive beside fio: the same job on the same filled file, in alternation, and the
//! ratios of requests per second and of CPU time per request.
//!
//! ```text
//!   fill FILE ─► for each pair, for each job: nandu, fio (every other pair: fio, nandu)
//!            ─► results/MACHINE/compare-fio/{meta.json, pairs.csv, table.md}
//! ```
//!
//! 1. A ratio is taken within a pair, whose halves ran one after the other; the median is reported.
//! 2. Both halves count the CPU time of the job alone, without start-up: fio in its JSON, ours by
//!    getrusage. fio's own clocks and histograms stay as they are by default, ours are on too.
//! 3. The file is removed at the end, also after an error.

use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is compared and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds of each half of a pair.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// How many pairs of each job.
    #[arg(long, default_value_t = 5)]
    pairs: u32,
    /// Size of the file.
    #[arg(long, default_value = "1GiB")]
    size: String,
    /// Only jobs whose label holds this text, such as `psync randread`; nothing is kept then.
    #[arg(long)]
    only: Option<String>,
    /// Where the file is made; by default `out/` of the repository.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A `fio_pair` that is built already.
    #[arg(long)]
    driver: Option<PathBuf>,
}

/// One job, in fio's words.
#[derive(Clone, Copy)]
struct Job {
    engine: &'static str,
    pattern: &'static str,
    block_bytes: u32,
    depth: u32,
}

const fn job(engine: &'static str, pattern: &'static str, block_bytes: u32, depth: u32) -> Job {
    Job { engine, pattern, block_bytes, depth }
}

const JOBS: [Job; 12] = [
    job("psync", "randread", 4096, 1),
    job("psync", "randwrite", 4096, 1),
    job("psync", "read", 1 << 20, 1),
    job("psync", "write", 1 << 20, 1),
    job("io_uring", "randread", 4096, 1),
    job("io_uring", "randwrite", 4096, 1),
    job("io_uring", "read", 1 << 20, 1),
    job("io_uring", "write", 1 << 20, 1),
    job("io_uring", "randread", 4096, 32),
    job("io_uring", "randwrite", 4096, 32),
    job("io_uring", "read", 1 << 20, 32),
    job("io_uring", "write", 1 << 20, 32),
];

impl Job {
    fn label(self) -> String {
        let Self { engine, pattern, block_bytes, depth } = self;
        format!("{engine} {pattern} {} KiB depth {depth}", block_bytes >> 10)
    }
}

/// What one half of a pair measured.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Half {
    requests: f64,
    seconds: f64,
    user_ns: f64,
    system_ns: f64,
}

impl Half {
    fn requests_per_second(self) -> f64 {
        self.requests / self.seconds
    }

    fn cpu_ns_per_request(self) -> f64 {
        (self.user_ns + self.system_ns) / self.requests
    }
}

/// Both halves of a pair of the job with the given index.
struct Pair {
    job_index: usize,
    number: u32,
    nandu: Half,
    fio: Half,
}

/// Runs the comparison in `root` and prints its table.
///
/// # Errors
/// fio is missing, a half failed, or a result cannot be written.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let fio_version = capture(Command::new("fio").arg("--version"))
        .map_err(|_| "fio does not start; install it with `apt-get install fio`".to_string())?;
    let driver = match &options.driver {
        Some(driver) => driver.clone(),
        None => build_driver(root)?,
    };
    let directory = options.dir.clone().unwrap_or_else(|| root.join("out"));
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("{}: cannot be made: {error}", directory.display()))?;
    let file = ScratchName(directory.join(format!("pair-{}.nandu-scratch", std::process::id())));
    let filled = json_of(Command::new(&driver).arg("fill").arg(&file.0).arg(&options.size))?;
    let size_bytes = filled["bytes"].as_u64().ok_or("fill told no size")?;
    let machine = json_of(Command::new(&driver).arg("machine").arg(&file.0))?;

    let mut pairs = Vec::new();
    for number in 1..=options.pairs {
        for (job_index, &job) in JOBS.iter().enumerate() {
            if options.only.as_ref().is_some_and(|text| !job.label().contains(text)) {
                continue;
            }
            let nandu = || nandu_half(&driver, &file.0, job, options.seconds);
            let fio = || fio_half(&file.0, job, options.seconds, size_bytes);
            let (nandu, fio) = if number % 2 == 1 {
                let first = nandu()?;
                (first, fio()?)
            } else {
                let first = fio()?;
                (nandu()?, first)
            };
            eprintln!("pair {number} of {}: {}", options.pairs, job.label());
            pairs.push(Pair { job_index, number, nandu, fio });
        }
    }
    if pairs.is_empty() {
        let labels = JOBS.map(Job::label).join(", ");
        return Err(format!("no job holds that text or no pair was asked for; jobs: {labels}"));
    }
    let table = table_of(&pairs);
    if options.only.is_some() {
        println!("{table}");
        return Ok(());
    }
    let meta = serde_json::json!({
        "command": format!(
            "cargo xtask compare-fio --seconds {} --pairs {} --size {}",
            options.seconds, options.pairs, options.size
        ),
        "commit": capture(Command::new("git").current_dir(root).args(["rev-parse", "HEAD"]))?,
        "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?,
        "fio": fio_version,
        "machine": machine["machine"],
        "disk": machine["disk"],
    });
    let slug = machine["slug"].as_str().ok_or("machine told no slug")?;
    write_results(&root.join("results").join(slug).join("compare-fio"), &meta, &pairs, &table)?;
    println!("{table}");
    Ok(())
}

/// A file that goes when this goes.
struct ScratchName(PathBuf);

impl Drop for ScratchName {
    fn drop(&mut self) {
        // It may not have been made; there is nobody to tell.
        let _ = std::fs::remove_file(&self.0);
    }
}

fn build_driver(root: &Path) -> Result<PathBuf, String> {
    let arguments =
        ["build", "--quiet", "--release", "-p", "nandu-drives", "--example", "fio_pair"];
    let status = Command::new("cargo").current_dir(root).args(arguments).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err(format!("cargo {} failed", arguments.join(" ")));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join("release/examples/fio_pair"))
}

/// What a program prints, if it succeeds.
///
/// # Errors
/// If it does not start, or ends with an error, which is told.
pub(crate) fn capture(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().display().to_string();
    let output = command.output().map_err(|error| format!("{name} does not start: {error}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{name} failed: {}", errors.trim()));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_string())
}

fn json_of(command: &mut Command) -> Result<Value, String> {
    let text = capture(command)?;
    serde_json::from_str(&text).map_err(|error| format!("no JSON in `{text}`: {error}"))
}

fn nandu_half(driver: &Path, file: &Path, job: Job, seconds: u32) -> Result<Half, String> {
    let mut command = Command::new(driver);
    command.arg("run").arg(file).args([job.engine, job.pattern]);
    command.args([job.block_bytes, job.depth, seconds].map(|number| number.to_string()));
    let answer = json_of(&mut command)?;
    let number = |key: &str| answer[key].as_f64().ok_or_else(|| format!("no `{key}` in {answer}"));
    Ok(Half {
        requests: number("requests")?,
        seconds: number("seconds")?,
        user_ns: number("user_ns")?,
        system_ns: number("system_ns")?,
    })
}

fn fio_half(file: &Path, job: Job, seconds: u32, size_bytes: u64) -> Result<Half, String> {
    let mut command = Command::new("fio");
    command.args(["--name=pair", "--direct=1", "--time_based", "--norandommap", "--randrepeat=1"]);
    command.args(["--gtod_reduce=0", "--allow_file_create=0", "--output-format=json"]);
    command.arg(format!("--filename={}", file.display()));
    command.arg(format!("--ioengine={}", job.engine)).arg(format!("--rw={}", job.pattern));
    command.arg(format!("--bs={}", job.block_bytes)).arg(format!("--iodepth={}", job.depth));
    command.arg(format!("--size={size_bytes}")).arg(format!("--runtime={seconds}"));
    fio_answer(&json_of(&mut command)?, job.pattern.ends_with("write"))
}

/// fio tells CPU time in percent of the job's runtime, which is in milliseconds.
fn fio_answer(answer: &Value, write: bool) -> Result<Half, String> {
    let job = &answer["jobs"][0];
    let side = &job[if write { "write" } else { "read" }];
    let number = |value: &Value, key: &str| {
        value[key].as_f64().ok_or_else(|| format!("fio's JSON has no `{key}`"))
    };
    let cpu_ns =
        |key| Ok::<f64, String>(number(job, key)? / 100.0 * number(job, "job_runtime")? * 1e6);
    Ok(Half {
        requests: number(side, "total_ios")?,
        seconds: number(side, "runtime")? / 1e3,
        user_ns: cpu_ns("usr_cpu")?,
        system_ns: cpu_ns("sys_cpu")?,
    })
}

/// Median, least and most; of one value at least.
pub(crate) fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let median = f64::midpoint(values[(count - 1) / 2], values[count / 2]);
    [median, values[0], values[count - 1]]
}

fn table_of(pairs: &[Pair]) -> String {
    let mut table = String::from(
        "| job | nandu 1/s | fio 1/s | requests ratio | nandu CPU us | fio CPU us | CPU ratio |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (index, job) in JOBS.iter().enumerate() {
        let of = |value: &dyn Fn(&Pair) -> f64| {
            spread(pairs.iter().filter(|pair| pair.job_index == index).map(value).collect())
        };
        if !pairs.iter().any(|pair| pair.job_index == index) {
            continue;
        }
        let rates = of(&|pair| pair.nandu.requests_per_second() / pair.fio.requests_per_second());
        let costs = of(&|pair| pair.nandu.cpu_ns_per_request() / pair.fio.cpu_ns_per_request());
        let range =
            |[median, least, most]: [f64; 3]| format!("{median:.3} ({least:.3} to {most:.3})");
        writeln!(
            table,
            "| {} | {:.0} | {:.0} | {} | {:.2} | {:.2} | {} |",
            job.label(),
            of(&|pair| pair.nandu.requests_per_second())[0],
            of(&|pair| pair.fio.requests_per_second())[0],
            range(rates),
            of(&|pair| pair.nandu.cpu_ns_per_request())[0] / 1e3,
            of(&|pair| pair.fio.cpu_ns_per_request())[0] / 1e3,
            range(costs),
        )
        .expect("a string takes every line");
    }
    table
}

fn write_results(
    directory: &Path,
    meta: &Value,
    pairs: &[Pair],
    table: &str,
) -> Result<(), String> {
    let mut lines = String::from("job,pair,tool,requests,seconds,user_ns,system_ns\n");
    for pair in pairs {
        for (tool, half) in [("nandu", pair.nandu), ("fio", pair.fio)] {
            let (label, number) = (JOBS[pair.job_index].label(), pair.number);
            let Half { requests, seconds, user_ns, system_ns } = half;
            writeln!(
                lines,
                "{label},{number},{tool},{requests},{seconds},{user_ns:.0},{system_ns:.0}"
            )
            .expect("a string takes every line");
        }
    }
    let head = "# nandu and fio on the same file\n\nMedian of the pairs, least and most in \
                brackets. A ratio is nandu's figure over fio's; more requests and less CPU are \
                better. The machine and the command stand in meta.json.\n\n";
    let meta = serde_json::to_string_pretty(meta).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("{}: cannot be made: {error}", directory.display()))?;
    let files = [
        ("meta.json", format!("{meta}\n")),
        ("pairs.csv", lines),
        ("table.md", format!("{head}{table}")),
    ];
    for (name, text) in files {
        let path = directory.join(name);
        std::fs::write(&path, text)
            .map_err(|error| format!("{}: cannot be written: {error}", path.display()))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fios_percentages_become_cpu_time() {
        let answer = serde_json::json!({ "jobs": [{
            "job_runtime": 2000, "usr_cpu": 10.0, "sys_cpu": 25.0,
            "read": { "total_ios": 0, "runtime": 0 },
            "write": { "total_ios": 500, "runtime": 2000 },
        }]});
        let half = fio_answer(&answer, true).unwrap();
        let expected = Half { requests: 500.0, seconds: 2.0, user_ns: 2e8, system_ns: 5e8 };
        assert_eq!(half, expected);
        assert!((half.cpu_ns_per_request() - 1.4e6).abs() < 1e-6);
        assert!(fio_answer(&serde_json::json!({}), false).unwrap_err().contains("fio's JSON"));
    }

    #[test]
    fn the_median_of_an_even_count_lies_between_the_middle_two() {
        assert_eq!(
            spread(vec![3.0, 1.0, 2.0]).map(f64::to_bits),
            [2.0, 1.0, 3.0].map(f64::to_bits)
        );
        assert!((spread(vec![4.0, 1.0, 2.0, 3.0])[0] - 2.5).abs() < 1e-12);
    }

    #[test]
    fn ratios_are_taken_within_pairs() {
        let half = |requests| Half { requests, seconds: 1.0, user_ns: 1e6, system_ns: 0.0 };
        let pairs = [(100.0, 50.0), (30.0, 30.0), (10.0, 40.0)].map(|(nandu, fio)| Pair {
            job_index: 0,
            number: 1,
            nandu: half(nandu),
            fio: half(fio),
        });
        let table = table_of(&pairs);
        assert!(table.contains("1.000 (0.250 to 2.000)"), "{table}");
        assert_eq!(table.lines().count(), 3, "jobs that did not run have no line");
    }
}
