//! `nandu probe`: characterises one device, real or simulated.
//!
//! ```text
//!   arguments ─► work: Plan, bursts, wear ─► open target ─► measure ─► ProbeReport
//!                                                                        │
//!                          table on stdout, --json, --parquet, --profile ◄┘
//! ```
//!
//! 1. Everything that can be refused is refused before the device is written to.
//! 2. The report of a simulated drive holds nothing of this machine: same seed, same bytes.

mod inside;
mod measure;
mod report;
mod steady_state;
mod work;

use super::{parse_duration, parse_size};
use crate::Context;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::json;
use crate::memory::check_possible;
use crate::output::{OutputFiles, complain};
use crate::progress::Progress;
use clap::{Args, ValueEnum};
use nandu_base::{ByteCount, Nanos};
use nandu_drives::file::EngineKind;
use nandu_drives::profile::Profile;
use nandu_drives::target::{DEFAULT_SCRATCH_BYTES, OpenOptions, OpenTarget, Target};
use nandu_probe::parquet;
use report::ProbeReport;
use std::path::{Path, PathBuf};

/// Flash drives and memories are scaled down to this unless `--size` says otherwise.
const SIMULATED_BYTES: ByteCount = ByteCount::mib(512);
/// The queue of a real device is at least this long.
const QUEUE_DEPTH_MIN: u32 = 128;

/// Memory that a probe of a real device takes at least: that of its thread and of the filling of a file.
const REAL_BYTES: ByteCount = ByteCount::mib(24);

/// Characterise a device, real or simulated
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu probe .                             the disk under this directory
  nandu probe sim:device-a                  a flash disk of 2007
  nandu probe array:stripe:sim:device-a*4   four of them; or directories
  nandu probe /mnt/nvme --size 8GiB --profile nvme.json
  nandu probe sim:nvme-tlc-2024 --series s002 --parquet nvme.parquet
  nandu probe sim:device-a --series steady-state --json steady.json
  nandu probe . --job mine.fio --json result.json
  nandu probe . --buffered --cold           through the page cache, empty before each run
  nandu probe /dev/sdx --read-only          reads only, nothing is destroyed

A scratch file has no name and is gone when nandu ends, however it ends. Writing to a file or block \
device that exists needs --destroy-data; a mounted one is refused.")]
pub(crate) struct ProbeArguments {
    /// A directory, a file, a block device, sim:NAME, or array:LAYOUT:TARGET*N
    target: String,
    /// What to measure
    #[arg(long, value_enum, default_value_t = SeriesKind::Quick)]
    series: SeriesKind,
    /// Measure the steps of this plan (TOML) instead
    #[arg(long, value_name = "FILE", conflicts_with_all = ["series", "job"])]
    plan: Option<PathBuf>,
    /// Measure the jobs of this fio job file instead
    #[arg(long, value_name = "FILE", conflicts_with = "series")]
    job: Option<PathBuf>,
    /// Size of the scratch file (1GiB), or of a scaled-down simulated drive [512MiB, disks whole]
    #[arg(long, visible_alias = "capacity", value_name = "SIZE", value_parser = parse_size)]
    size: Option<ByteCount>,
    /// Request sizes of the series; s000 and s002 take the smallest and the largest,
    /// steady-state the smallest
    #[arg(long, value_name = "SIZE,..", value_delimiter = ',', value_parser = parse_size)]
    request_bytes: Vec<ByteCount>,
    /// Queue depths of the quick series; steady-state takes the deepest
    #[arg(long, value_name = "N,..", value_delimiter = ',', default_values_t = [1, 32],
        value_parser = clap::value_parser!(u32).range(1..=4096))]
    queue_depth: Vec<u32>,
    /// Time limit of each run or round [quick: 0.5s; s000, s002: 30s; steady-state: 60s]
    #[arg(long, value_name = "TIME", value_parser = parse_duration)]
    duration: Option<Nanos>,
    /// Limit on the requests of each run [simulated drives: 4000, in steady-state by capacity]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    request_count: Option<u64>,
    /// How requests reach the kernel
    #[arg(long, value_enum, default_value_t = Engine::Auto)]
    engine: Engine,
    /// Go through the page cache, which then decides the numbers
    #[arg(long)]
    buffered: bool,
    /// Empty the page cache before each run of the quick series, a plan or a job
    #[arg(long, requires = "buffered")]
    cold: bool,
    /// Only read; an existing file or device then needs no --destroy-data
    #[arg(long, conflicts_with = "destroy_data")]
    read_only: bool,
    /// Existing content may be overwritten
    #[arg(long)]
    destroy_data: bool,
    /// Wear out a real device with --series endurance, too
    #[arg(long)]
    force: bool,
    /// Seed of addresses and data
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write everything as JSON to FILE; without FILE to stdout, and nothing else there
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write the latency percentiles of every run as Parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Write the derived device profile as JSON
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    files: OutputFiles,
}

/// The standard series.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SeriesKind {
    /// Half a minute: four patterns, six sizes, two queue depths
    Quick,
    /// Ajwani et al. 2008: 512 B to 8 MB, bursts, misalignment; hours on a real device
    S002,
    /// Myers 2008: 1 KB to 1 MB, 30 s each; an hour on a real device
    S000,
    /// SNIA PTS: rounds of 4 KiB random writes until five agree, 25 at most, a minute each
    SteadyState,
    /// Write the device again and again until it fails
    Endurance,
}

impl SeriesKind {
    const fn name(self) -> &'static str {
        match self {
            Self::Quick => "quick",
            Self::S002 => "s002",
            Self::S000 => "s000",
            Self::SteadyState => "steady-state",
            Self::Endurance => "endurance",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Engine {
    Auto,
    IoUring,
    Psync,
}

impl From<Engine> for EngineKind {
    fn from(engine: Engine) -> Self {
        match engine {
            Engine::Auto => Self::Auto,
            Engine::IoUring => Self::IoUring,
            Engine::Psync => Self::Psync,
        }
    }
}

impl ProbeArguments {
    fn json_to_stdout(&self) -> bool {
        self.json.as_deref() == Some(Path::new("-"))
    }

    fn json_file(&self) -> Option<&Path> {
        self.json.as_deref().filter(|path| *path != Path::new("-"))
    }
}

/// Probes the target and prints what was found.
pub(crate) fn run(arguments: &ProbeArguments, context: &Context) -> Result<(), Failure> {
    check_outputs(arguments)?;
    let target = Target::parse(&arguments.target)?;
    check_arguments(arguments, &target)?;
    let sources = context.interrupt.before_work(|| work::Sources::read(arguments))?;
    if !matches!(target, Target::Simulated(_)) {
        check_possible(REAL_BYTES, "a probe of a real device", "raise its limit (ulimit -v)")?;
    }
    let mut progress = Progress::new(context, 1);
    // A file that exists has no more than its content to lose, which it was given up for.
    let report = context.interrupt.at_any_time(|| -> Result<_, Failure> {
        let open = open(arguments, &target, &progress)?;
        let (work, notes) = work::Work::of(arguments, &target, &sources, open.device().info())?;
        measure::measure(open, work, notes, arguments, &mut progress)
    })?;
    drop(progress);
    // What was measured is shown also where no file can hold it.
    let written = write_outputs(arguments, &report, &context.interrupt);
    if arguments.json_to_stdout() {
        context.output.json("probe", &report)?;
    } else {
        report::print(&report, context)?;
    }
    written
}

fn check_outputs(arguments: &ProbeArguments) -> Result<(), Failure> {
    let others = [arguments.parquet.as_deref(), arguments.profile.as_deref()];
    let paths: Vec<&Path> =
        std::iter::once(arguments.json_file()).chain(others).flatten().collect();
    for (position, path) in paths.iter().enumerate() {
        arguments.files.check(path)?;
        if paths[..position].contains(path) || **path == *arguments.target {
            let path = path.display();
            return Err(Failure::input(format!("{path}: is named twice; name another file")));
        }
    }
    Ok(())
}

/// What the kinds of target do not share.
fn check_arguments(arguments: &ProbeArguments, target: &Target) -> Result<(), Failure> {
    let is_simulated = matches!(target, Target::Simulated(_));
    if arguments.read_only && !matches!(target, Target::Existing(_)) {
        return Err(Failure::input(
            "--read-only is for a file or device that exists; a scratch file and a simulated drive \
             have nothing to lose",
        ));
    }
    if is_simulated && (arguments.buffered || arguments.engine != Engine::Auto) {
        return Err(Failure::input(
            "--engine and --buffered are for real devices; leave them out with sim:NAME",
        ));
    }
    if arguments.cold && matches!(target, Target::Array(_)) {
        return Err(Failure::input(
            "--cold is for one file or device; the members of an array keep their pages",
        ));
    }
    if matches!(target, Target::Existing(_)) && arguments.size.is_some() {
        return Err(Failure::input(
            "--size is for scratch files and simulated drives; what exists keeps its own size",
        ));
    }
    let runs_series = arguments.plan.is_none() && arguments.job.is_none();
    if arguments.cold && runs_series && arguments.series != SeriesKind::Quick {
        let series = arguments.series.name();
        return Err(Failure::input(format!(
            "--cold goes with the quick series, --plan and --job; {series} has runs that follow \
             each other; leave it out"
        )));
    }
    let wears_out = runs_series && arguments.series == SeriesKind::Endurance;
    let only_writes = wears_out || (runs_series && arguments.series == SeriesKind::SteadyState);
    if only_writes && arguments.read_only {
        let series = arguments.series.name();
        return Err(Failure::input(format!("--series {series} writes; leave --read-only out")));
    }
    if wears_out && !is_simulated && !arguments.force {
        return Err(Failure::input(
            "--series endurance uses up the flash of a real device; probe sim:NAME, or pass --force \
             if it may go",
        ));
    }
    Ok(())
}

fn open(
    arguments: &ProbeArguments,
    target: &Target,
    progress: &Progress,
) -> Result<OpenTarget, Failure> {
    let deepest = arguments.queue_depth.iter().copied().max().unwrap_or(1);
    let size = match target {
        Target::Simulated(name) => simulated_size(name, arguments.size)?,
        _ => arguments.size,
    };
    let options = OpenOptions {
        size,
        destroy_data: arguments.destroy_data,
        read_only: arguments.read_only,
        engine: arguments.engine.into(),
        direct: arguments.buffered.then_some(false),
        queue_depth: deepest.max(QUEUE_DEPTH_MIN),
        seed: arguments.seed,
        ..OpenOptions::default()
    };
    let whole = size.unwrap_or(DEFAULT_SCRATCH_BYTES).0 as f64;
    let mut filled =
        |bytes: ByteCount| progress.show(bytes.0 as f64 / whole, "filling the scratch file");
    Ok(target.open_watched(&options, &mut filled, &|| progress.is_interrupted())?)
}

/// Flash is scaled down, since its times do not depend on the number of its erase blocks; a disk's
/// do depend on its number of cylinders.
fn simulated_size(name: &str, asked: Option<ByteCount>) -> Result<Option<ByteCount>, Failure> {
    if asked.is_some() {
        return Ok(asked);
    }
    let profile = Profile::load(name)?;
    let whole = profile.geometry.capacity();
    let is_scaled = !profile.has_arm()? && whole > SIMULATED_BYTES;
    Ok(is_scaled.then_some(SIMULATED_BYTES))
}

fn write_outputs(
    arguments: &ProbeArguments,
    report: &ProbeReport,
    interrupt: &Interrupt,
) -> Result<(), Failure> {
    if let Some(path) = arguments.json_file() {
        let text = format!("{}\n", json::document("probe", report));
        arguments.files.write(path, text.as_bytes(), interrupt)?;
    }
    if let Some(path) = &arguments.parquet {
        let mut bytes = Vec::new();
        parquet::write_results(&mut bytes, &report.results)?;
        arguments.files.write(path, &bytes, interrupt)?;
    }
    if let Some(path) = &arguments.profile {
        match &report.profile {
            Some(profile) => {
                arguments.files.write(path, profile.to_json().as_bytes(), interrupt)?;
            }
            None => {
                complain("note: no profile was derived, since no pure reads or writes were run")
            }
        }
    }
    Ok(())
}
