//! `nandu probe` beside fio at its best: the same job on the same filled file, in alternation, and the
//! ratios of requests per second and of processor time per request.
//!
//! ```text
//!   fill FILE ─► for each pair, for each job: one that does not count, then
//!                nandu, fio, fio, nandu (every other pair: fio, nandu, nandu, fio)
//!            ─► results/MACHINE/compare-fio/{meta.json, pairs.csv, table.md}
//! ```
//!
//! With `--file-system` the jobs go through a file system, past its page cache and through it, and are
//! kept in `compare-fio-files` ([`file_system`]).
//!
//! 1. A ratio is taken within a pair, whose halves ran one after the other; the median is reported. Each
//!    half is two runs, at the ends of the pair or in its middle, so that what drifts favours neither,
//!    and a run before them that does not count leaves the machine as the others leave it: on a virtual
//!    machine memory that nobody used lately can be slower to get, which the first one would pay for.
//! 2. No two runs ask for the same sequence of random addresses: what a host keeps of those of a run before
//!    would be for one of both.
//! 3. Ours is the program that users have, with what it always counts. fio has what makes it cheaper:
//!    buffers on large pages, with io_uring registered files, fixed buffers, no vectors, and batches where
//!    requests queue. Both tell the processor time of the job alone, without start-up. fio's own clocks
//!    and histograms stay on.
//! 4. The file is removed at the end, also after an error; so are the large pages that were reserved.

mod file_system;

use file_system::Path as CachePath;
use nandu_drives::file::{disk_description, machine_description};
use serde_json::Value;
use std::cell::Cell;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// What is compared and for how long.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Seconds of each run, of which a pair counts two of each program.
    #[arg(long, default_value_t = 5)]
    seconds: u32,
    /// How many pairs of each job; even, so that as many begin with one as with the other.
    #[arg(long, default_value_t = 6)]
    pairs: u32,
    /// Jobs past and through the page cache, empty and full, synced and not.
    #[arg(long)]
    file_system: bool,
    /// Size of the file.
    #[arg(long, default_value = "1GiB", value_parser = nandu_base::ByteCount::parse)]
    size: nandu_base::ByteCount,
    /// Only jobs whose label holds this text, such as `psync randread`; nothing is kept then.
    #[arg(long)]
    only: Option<String>,
    /// Where the file is made; by default `out/` of the repository.
    #[arg(long)]
    dir: Option<PathBuf>,
    /// A release build of `nandu` that is there already.
    #[arg(long)]
    program: Option<PathBuf>,
}

impl Options {
    /// The name of a job among those that are asked for.
    fn label(&self, job: Job) -> String {
        if self.file_system { file_system::label(job) } else { job.label() }
    }
}

/// One job, in fio's words.
#[derive(Clone, Copy)]
struct Job {
    engine: &'static str,
    pattern: &'static str,
    block_bytes: u32,
    depth: u32,
    path: CachePath,
    /// Whether each write is made durable before the next one.
    synced: bool,
}

/// How many requests fio hands over together where so many may be in flight.
const FIO_BATCH: u32 = 8;

const fn job(engine: &'static str, pattern: &'static str, block_bytes: u32, depth: u32) -> Job {
    Job { engine, pattern, block_bytes, depth, path: CachePath::Direct, synced: false }
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
        let Self { engine, pattern, block_bytes, depth, .. } = self;
        format!("{engine} {pattern} {} KiB depth {depth}", block_bytes >> 10)
    }

    fn writes(self) -> bool {
        self.pattern.ends_with("write")
    }
}

/// What one half of a pair measured.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Half {
    requests: f64,
    seconds: f64,
    processor_ns: f64,
}

impl Half {
    fn requests_per_second(self) -> f64 {
        self.requests / self.seconds
    }

    fn cpu_ns_per_request(self) -> f64 {
        self.processor_ns / self.requests
    }

    /// Two runs as one.
    fn and(self, other: Self) -> Self {
        Self {
            requests: self.requests + other.requests,
            seconds: self.seconds + other.seconds,
            processor_ns: self.processor_ns + other.processor_ns,
        }
    }
}

/// Both halves of a pair of the job with the given index.
struct Pair {
    job_index: usize,
    number: u32,
    nandu: Half,
    fio: Half,
    /// Cores that other programs took meanwhile.
    others: f64,
}

/// Runs the comparison in `root` and prints its table.
///
/// # Errors
/// fio is missing, a half failed, or a result cannot be written.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let fio_version = capture(Command::new("fio").arg("--version"))
        .map_err(|_| "fio does not start; install it with `apt-get install fio`".to_string())?;
    let program = match &options.program {
        Some(program) => program.clone(),
        None => build_program(root)?,
    };
    let directory = options.dir.clone().unwrap_or_else(|| root.join("out"));
    std::fs::create_dir_all(&directory)
        .map_err(|error| format!("{}: cannot be made: {error}", directory.display()))?;
    let file = ScratchName(directory.join(format!("pair-{}.nandu-scratch", std::process::id())));
    fill(&file.0, options.size.0)
        .map_err(|error| format!("{}: cannot be filled: {error}", file.0.display()))?;

    let large_pages = LargePages::reserve();
    let jobs: Vec<Job> = if options.file_system { file_system::jobs() } else { JOBS.to_vec() };
    let named: Vec<String> = jobs.iter().map(|&job| options.label(job)).collect();
    let has_large_pages = large_pages.is_some();
    let pairs = run_pairs(&program, &file.0, &jobs, options, has_large_pages)?;
    if pairs.is_empty() {
        let labels = named.join(", ");
        return Err(format!("no job holds that text or no pair was asked for; jobs: {labels}"));
    }
    let (buffers, busy) = (note_of(has_large_pages), disturbance_of(&pairs));
    let missed =
        if options.file_system { file_system::missed(&named, &pairs) } else { String::new() };
    let table = format!("{missed}{buffers}{busy}{}", table_of(&named, &pairs));
    if options.only.is_some() {
        println!("{table}");
        return Ok(());
    }
    let meta = serde_json::json!({
        "command": format!(
            "cargo xtask compare-fio {}--seconds {} --pairs {} --size {}",
            if options.file_system { "--file-system " } else { "" },
            options.seconds, options.pairs, options.size.0
        ),
        "commit": crate::kept::commit_of(root)?,
        "date": capture(Command::new("date").args(["-u", "+%Y-%m-%dT%H:%M:%SZ"]))?,
        "fio": fio_version,
        "fio_large_pages": has_large_pages,
        "machine": machine_description(),
        "disk": disk_description(&directory),
    });
    let slug = machine_description().slug();
    let (name, head) = match options.file_system {
        true => ("compare-fio-files", file_system::HEAD),
        false => ("compare-fio", HEAD),
    };
    let directory = root.join("results").join(&slug).join(name);
    write_results(&directory, &meta, &pairs, &named, &format!("{head}{table}"))?;
    println!("{table}");
    Ok(())
}

/// All pairs of the jobs that are asked for.
fn run_pairs(
    program: &Path,
    file: &Path,
    jobs: &[Job],
    options: &Options,
    has_large_pages: bool,
) -> Result<Vec<Pair>, String> {
    let mut pairs = Vec::new();
    let run_count = Cell::new(0);
    let next_seed = || {
        run_count.set(run_count.get() + 1);
        run_count.get()
    };
    for number in 1..=options.pairs {
        for (job_index, &job) in jobs.iter().enumerate() {
            let label = options.label(job);
            if options.only.as_ref().is_some_and(|text| !label.contains(text)) {
                continue;
            }
            let prepare = || match options.file_system {
                true => file_system::prepare(file, job),
                false => Ok(()),
            };
            let nandu = || {
                prepare()?;
                nandu_half(program, file, (job, next_seed()), options)
            };
            let fio = || {
                prepare()?;
                fio_half(file, (job, next_seed()), options, has_large_pages)
            };
            let is_ours_outside = number % 2 == 1;
            // What ends the pair is what goes before it, without counting.
            if is_ours_outside { nandu() } else { fio() }?;
            let before = Processors::now();
            let (nandu, fio) = if is_ours_outside {
                let (first, inside) = (nandu()?, fio()?.and(fio()?));
                (first.and(nandu()?), inside)
            } else {
                let (first, inside) = (fio()?, nandu()?.and(nandu()?));
                (inside, first.and(fio()?))
            };
            eprintln!("pair {number} of {}: {label}", options.pairs);
            let others = Processors::now().others_since(&before);
            pairs.push(Pair { job_index, number, nandu, fio, others });
        }
    }
    Ok(pairs)
}

/// Large pages that the kernel keeps for fio's buffers, which are given back when this goes.
struct LargePages {
    before: String,
}

impl LargePages {
    /// Pages of 2 MiB, for 32 requests of 1 MiB and what fio allocates besides.
    const COUNT: u64 = 64;
    const RESERVED: &str = "/proc/sys/vm/nr_hugepages";

    /// None where there are none or nobody may reserve them.
    fn reserve() -> Option<Self> {
        let before = std::fs::read_to_string(Self::RESERVED).ok()?;
        let wanted = before.trim().parse::<u64>().ok()? + Self::COUNT;
        std::fs::write(Self::RESERVED, wanted.to_string()).ok()?;
        let pages = Self { before };
        let now = std::fs::read_to_string(Self::RESERVED).ok()?;
        (now.trim().parse::<u64>().ok()? >= wanted).then_some(pages)
    }
}

impl Drop for LargePages {
    fn drop(&mut self) {
        // Whoever may set it may set it back.
        let _ = std::fs::write(Self::RESERVED, self.before.trim());
    }
}

/// Processor time of the machine and of this program with those that it ran.
struct Processors {
    at: Instant,
    /// User time of all, and what the host took, in hundredths of a second.
    all: u64,
    /// User time of ours.
    own: u64,
}

impl Processors {
    /// All zeros where the system does not tell.
    fn now() -> Self {
        let words = |path: &str| -> Vec<u64> {
            let text = std::fs::read_to_string(path).unwrap_or_default();
            // The name of a program, in brackets, may hold spaces.
            let line = text.lines().next().unwrap_or_default();
            let line = line.rsplit_once(") ").map_or(line, |(_, rest)| rest);
            line.split_whitespace().map(|word| word.parse().unwrap_or(0)).collect()
        };
        let sum = |words: &[u64], places: [usize; 3]| {
            places.iter().filter_map(|&place| words.get(place)).sum()
        };
        // `cpu user nice system idle iowait irq softirq steal`; utime is the 14th, cutime the 16th
        // of a process, and two stand before the bracket.
        let (all, own) = (words("/proc/stat"), words("/proc/self/stat"));
        Self { at: Instant::now(), all: sum(&all, [1, 2, 8]), own: sum(&own, [11, 13, usize::MAX]) }
    }

    /// Cores that others kept busy.
    fn others_since(&self, before: &Self) -> f64 {
        let others = (self.all - before.all).saturating_sub(self.own - before.own);
        let seconds = self.at.duration_since(before.at).as_secs_f64();
        others as f64 / 100.0 / seconds.max(1e-3)
    }
}

/// Cores of others from which on a pair is called disturbed.
const DISTURBED: f64 = 0.05;

/// What the table says of other programs.
fn disturbance_of(pairs: &[Pair]) -> String {
    let count = pairs.iter().filter(|pair| pair.others > DISTURBED).count();
    let most = pairs.iter().map(|pair| pair.others).fold(0.0, f64::max);
    if count == 0 {
        return "No pair was disturbed: others took less than a twentieth of a core.\n\n".into();
    }
    format!(
        "**Disturbed**: in {count} of {} pairs other programs took more than a twentieth of a core, at\n\
         most {most:.2} of one; pairs.csv says in which.\n\n",
        pairs.len()
    )
}

/// What the table says of fio's buffers.
fn note_of(has_large_pages: bool) -> &'static str {
    if has_large_pages {
        "fio's buffers lie on large pages (`mem=shmhuge`), as ours do.\n\n"
    } else {
        "**No large pages could be reserved for fio** (`/proc/sys/vm/nr_hugepages`): its buffers lie\n\
         on small ones, ours on large ones. Rows of 1 MiB favour us.\n\n"
    }
}

/// A file that goes when this goes.
struct ScratchName(PathBuf);

impl Drop for ScratchName {
    fn drop(&mut self) {
        // It may not have been made; there is nobody to tell.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// A release build of `nandu`.
///
/// # Errors
/// If it does not build.
pub(crate) fn build_program(root: &Path) -> Result<PathBuf, String> {
    let arguments = ["build", "--quiet", "--release", "-p", "nandu-cli"];
    let status = Command::new("cargo").current_dir(root).args(arguments).status();
    if !status.is_ok_and(|status| status.success()) {
        return Err(format!("cargo {} failed", arguments.join(" ")));
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or(root.join("target"), PathBuf::from);
    Ok(target.join("release/nandu"))
}

/// A file of `size_bytes` that no file system or drive can shrink: what was never written reads faster than
/// any medium.
fn fill(path: &Path, size_bytes: u64) -> std::io::Result<()> {
    let mut file = std::fs::File::create_new(path)?;
    let (mut rng, mut left) = (nandu_base::Rng::new(1), size_bytes);
    let mut bytes = vec![0; 1 << 20];
    while left > 0 {
        let count = left.min(bytes.len() as u64);
        rng.fill(&mut bytes);
        file.write_all(&bytes[..nandu_base::to_index(count)])?;
        left -= count;
    }
    file.sync_all()
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

/// A figure of what a program told.
///
/// # Errors
/// If it is no number.
pub(crate) fn number(value: &Value) -> Result<f64, String> {
    value.as_f64().ok_or_else(|| format!("{value} is no number"))
}

/// What a program prints as JSON.
///
/// # Errors
/// As [`capture`], or if it prints something else.
pub(crate) fn json_of(command: &mut Command) -> Result<Value, String> {
    let text = capture(command)?;
    serde_json::from_str(&text).map_err(|error| format!("no JSON in `{text}`: {error}"))
}

fn nandu_half(
    program: &Path,
    file: &Path,
    (job, seed): (Job, u32),
    options: &Options,
) -> Result<Half, String> {
    let description = file.with_extension("fio");
    let text = format!(
        "[pair]\nrandseed={seed}\nrw={}\nbs={}\niodepth={}\nsize={}\nruntime={}\n{}\n",
        job.pattern,
        job.block_bytes,
        job.depth,
        options.size.0,
        options.seconds,
        file_system::keys(job).join("\n")
    );
    let description = ScratchName(description);
    std::fs::write(&description.0, text)
        .map_err(|error| format!("{}: cannot be written: {error}", description.0.display()))?;
    let mut command = Command::new(program);
    command.arg("probe").arg(file).arg("--job").arg(&description.0).arg("--json");
    command.arg(format!("--engine={}", job.engine.replace('_', "-")));
    command.arg(if job.writes() { "--destroy-data" } else { "--read-only" });
    if job.path != CachePath::Direct {
        command.arg("--buffered");
    }
    nandu_answer(&json_of(&mut command)?)
}

fn nandu_answer(answer: &Value) -> Result<Half, String> {
    let run = &answer["results"][0]["runs"][0];
    let number =
        |key: &str| run[key].as_f64().ok_or_else(|| format!("no `{key}` in nandu's {run}"));
    Ok(Half {
        requests: number("request_count")?,
        seconds: number("elapsed")? / 1e9,
        processor_ns: number("processor_time")?,
    })
}

fn fio_half(
    file: &Path,
    (job, seed): (Job, u32),
    options: &Options,
    large_pages: bool,
) -> Result<Half, String> {
    let mut command = Command::new("fio");
    command.arg("--name=pair").arg(format!("--randseed={seed}"));
    command.args(file_system::keys(job).iter().map(|key| format!("--{key}")));
    command.args(["--gtod_reduce=0", "--allow_file_create=0", "--output-format=json"]);
    command.arg(format!("--filename={}", file.display()));
    command.arg(format!("--ioengine={}", job.engine)).arg(format!("--rw={}", job.pattern));
    command.arg(format!("--bs={}", job.block_bytes)).arg(format!("--iodepth={}", job.depth));
    command.arg(format!("--size={}", options.size.0)).arg(format!("--runtime={}", options.seconds));
    if job.engine == "io_uring" {
        command.args(["--registerfiles=1", "--fixedbufs=1", "--nonvectored=1"]);
    }
    if large_pages {
        command.arg("--mem=shmhuge");
    }
    // By default fio changes a word of each sector before each write.
    command.arg("--scramble_buffers=0");
    if job.depth > FIO_BATCH {
        command.arg(format!("--iodepth_batch_submit={FIO_BATCH}"));
        command.arg(format!("--iodepth_batch_complete_max={}", job.depth));
    }
    fio_answer(&json_of(&mut command)?, job.writes())
}

/// fio tells processor time in percent of the job's runtime, which is in milliseconds.
fn fio_answer(answer: &Value, write: bool) -> Result<Half, String> {
    let job = &answer["jobs"][0];
    let side = &job[if write { "write" } else { "read" }];
    let number = |value: &Value, key: &str| {
        value[key].as_f64().ok_or_else(|| format!("fio's JSON has no `{key}`"))
    };
    let percent = number(job, "usr_cpu")? + number(job, "sys_cpu")?;
    Ok(Half {
        requests: number(side, "total_ios")?,
        seconds: number(side, "runtime")? / 1e3,
        processor_ns: percent / 100.0 * number(job, "job_runtime")? * 1e6,
    })
}

/// Median, least and most; of one value at least.
pub(crate) fn spread(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    let median = f64::midpoint(values[(count - 1) / 2], values[count / 2]);
    [median, values[0], values[count - 1]]
}

fn table_of(labels: &[String], pairs: &[Pair]) -> String {
    let mut table = String::from(
        "| job | nandu 1/s | fio 1/s | requests ratio | nandu CPU us | fio CPU us | CPU ratio |\n\
         |---|---:|---:|---:|---:|---:|---:|\n",
    );
    for (index, label) in labels.iter().enumerate() {
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
            "| {label} | {:.0} | {:.0} | {} | {:.2} | {:.2} | {} |",
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

/// What stands above the table of jobs past the page cache.
const HEAD: &str = "# nandu probe and fio on the same file\n\n\
    Median of the pairs, least and most in brackets. A pair is two runs of each, in turn ABBA and\n\
    BAAB, behind a run that does not count. A ratio is nandu's figure over fio's; more requests and\n\
    less processor time are better. fio has registered files, fixed buffers and no vectors with\n\
    io_uring, and batches of 8 at depth 32. The machine and the command stand in meta.json.\n\n";

fn write_results(
    directory: &Path,
    meta: &Value,
    pairs: &[Pair],
    labels: &[String],
    text: &str,
) -> Result<(), String> {
    let mut lines = String::from("job,pair,tool,requests,seconds,processor_ns,others_share\n");
    for pair in pairs {
        for (tool, half) in [("nandu", pair.nandu), ("fio", pair.fio)] {
            let (label, number) = (labels[pair.job_index].replace(',', ""), pair.number);
            let Half { requests, seconds, processor_ns } = half;
            let others = pair.others;
            writeln!(
                lines,
                "{label},{number},{tool},{requests},{seconds},{processor_ns:.0},{others:.3}"
            )
            .expect("a string takes every line");
        }
    }
    let meta = serde_json::to_string_pretty(meta).map_err(|error| error.to_string())?;
    std::fs::create_dir_all(directory)
        .map_err(|error| format!("{}: cannot be made: {error}", directory.display()))?;
    let files =
        [("meta.json", format!("{meta}\n")), ("pairs.csv", lines), ("table.md", text.to_owned())];
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
        let expected = Half { requests: 500.0, seconds: 2.0, processor_ns: 7e8 };
        assert_eq!(half, expected);
        assert!((half.cpu_ns_per_request() - 1.4e6).abs() < 1e-6);
        assert!(fio_answer(&serde_json::json!({}), false).unwrap_err().contains("fio's JSON"));
    }

    #[test]
    fn our_answer_counts_the_run_and_not_the_program() {
        let answer = serde_json::json!({ "machine": { "processor_time": 9 }, "results": [{ "runs": [{
            "request_count": 500, "elapsed": 2_000_000_000_u64, "processor_time": 700_000_000,
        }]}]});
        let expected = Half { requests: 500.0, seconds: 2.0, processor_ns: 7e8 };
        assert_eq!(nandu_answer(&answer), Ok(expected));
        assert!(nandu_answer(&serde_json::json!({})).unwrap_err().contains("request_count"));
    }

    #[test]
    fn a_filled_file_has_its_size_and_no_zeros() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fill(&path, (1 << 20) + 512).unwrap();
        let bytes = std::fs::read(&path).unwrap();
        assert_eq!(bytes.len(), (1 << 20) + 512);
        assert!(bytes.chunks(512).all(|sector| sector.iter().any(|&byte| byte != 0)));
        assert!(fill(&path, 1).is_err(), "a file that is there stays");
    }

    #[test]
    fn pairs_beside_which_others_worked_are_counted() {
        let half = Half { requests: 1.0, seconds: 1.0, processor_ns: 1.0 };
        let pair = |others| Pair { job_index: 0, number: 1, nandu: half, fio: half, others };
        let text = disturbance_of(&[pair(0.01), pair(0.5), pair(0.06)]);
        assert!(text.contains("in 2 of 3 pairs") && text.contains("0.50 of one"), "{text}");
        assert!(disturbance_of(&[pair(0.01)]).contains("No pair"), "none was");
        let before = Processors { at: Instant::now(), all: 100, own: 40 };
        let at = before.at + std::time::Duration::from_secs(1);
        let others = Processors { at, all: 200, own: 80 }.others_since(&before);
        assert!((others - 0.6).abs() < 1e-9, "{others}");
        let (one, two) = (Processors::now(), Processors::now());
        assert!(one.all > 0 && two.all >= one.all && two.own >= one.own);
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
        let half = |requests| Half { requests, seconds: 1.0, processor_ns: 1e6 };
        let pairs = [(100.0, 50.0), (30.0, 30.0), (10.0, 40.0)].map(|(nandu, fio)| Pair {
            others: 0.0,
            job_index: 0,
            number: 1,
            nandu: half(nandu),
            fio: half(fio),
        });
        let table = table_of(&JOBS.map(Job::label), &pairs);
        assert!(table.contains("1.000 (0.250 to 2.000)"), "{table}");
        assert_eq!(table.lines().count(), 3, "jobs that did not run have no line");
    }
}
