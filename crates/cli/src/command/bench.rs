//! `nandu bench`: many clients over one database, on this disk or on a simulated drive.

mod report;

use crate::Context;
use crate::engine_settings;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use crate::stopwatch::Stopwatch;
use clap::{Args, Subcommand, ValueEnum};
use nandu::{Database, DatabaseOptions, Isolation, NewDatabase, Settings, Volumes};
use nandu_base::{ByteCount, Nanos};
use nandu_bench::ycsb::{Counts, FIELD_COUNT, KeyChoice, WorkloadKind, Ycsb};
use nandu_bench::{Clock, Load, Outcome, Plan, Watch, run as run_clients};
use nandu_device::Geometry;
use nandu_drives::profile::{DriveConfig, Profile, SimOptions};
use nandu_probe::table::{Table, rate, time};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use tempfile::TempDir;

/// What a run may take by its options alone, for a clock that counts nanoseconds.
const RUN_YEARS_MAX: u64 = 100;

/// Run many clients over one database, on this disk or on a simulated drive
#[derive(Debug, Args)]
pub(crate) struct BenchArguments {
    #[command(subcommand)]
    load: LoadCommand,
}

#[derive(Debug, Subcommand)]
enum LoadCommand {
    Ycsb(Box<YcsbArguments>),
}

/// YCSB's core workloads a to f over one table of records with ten fields
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu bench ycsb --workload c        lookups by one client on this disk
  nandu bench ycsb --workload a --clients 16 --device sim:nvme-tlc-2024
  nandu bench ycsb --workload c --clients 64 --distribution uniform \\
      --memory 1MiB --device sim:nvme-tlc-2024
                                       what the depth of the queue is worth
  nandu bench ycsb --workload f --clients 8 --cores 2 --processor-time 20us \\
      --device sim:nvme-tlc-2024 --json
  nandu bench ycsb --set durability=none --set torn_pages=trust
  nandu bench ycsb --workload a --clients 8 --device sim:nvme-tlc-2024 --out out
                                       with figures, in out/ycsb-a/report.html

On a simulated drive time is virtual: the same seed gives the same results, bit for bit, and `history` \
is a hash of when each operation ended. There the processor takes no time but --processor-time.

On a disk each client is a thread. A latency runs from when an operation was due: the end of the one \
before, and --think-time.")]
struct YcsbArguments {
    /// a: 50 % updates, b: 5 %, c: none, d: 5 % inserts, e: scans, f: read-modify-writes
    #[arg(long, value_enum, default_value_t = WorkloadArgument::A)]
    workload: WorkloadArgument,
    /// Records that are loaded before
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..=1 << 40))]
    records: u64,
    /// Operations of all clients together
    #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u64).range(1..))]
    operations: u64,
    /// How many clients
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// A directory, or sim:NAME
    #[arg(long, default_value = ".", value_name = "TARGET")]
    device: String,
    /// Capacity that a simulated drive is scaled to; four times the data if not given
    #[arg(long, value_parser = super::parse_size, value_name = "SIZE")]
    capacity: Option<ByteCount>,
    /// Memory of the buffer pool
    #[arg(long, default_value = "16MiB", value_parser = super::parse_size, value_name = "SIZE")]
    memory: ByteCount,
    /// How records are drawn; the workload's own way if not given
    #[arg(long, value_enum)]
    distribution: Option<DistributionArgument>,
    /// Bytes of each of the ten fields
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(1..=65_536))]
    field_bytes: u32,
    /// How far transactions that change something are apart
    #[arg(long, value_enum, default_value_t = IsolationArgument::Serializable)]
    isolation: IsolationArgument,
    /// What a client waits after each operation
    #[arg(long, value_parser = super::parse_duration, value_name = "TIME")]
    think_time: Option<Nanos>,
    /// What the processor takes for each operation, on a simulated drive
    #[arg(long, value_parser = super::parse_duration, value_name = "TIME")]
    processor_time: Option<Nanos>,
    /// How many clients compute at once, on a simulated drive; as many as there are if not given
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cores: Option<u32>,
    /// A setting of the engine, as `db create` has it in its file of settings
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Write a report with figures: results to DIR/ycsb-WORKLOAD, the page to report.html there
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum WorkloadArgument {
    A,
    B,
    C,
    D,
    E,
    F,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum DistributionArgument {
    /// Few records are wanted often, by Zipf's law with 0.99
    Zipf,
    /// Those that came last are wanted most
    Latest,
    /// Every record alike
    Uniform,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum IsolationArgument {
    /// Each sees what was committed when it began
    Snapshot,
    /// As if they ran one after the other
    Serializable,
}

impl IsolationArgument {
    const fn level(self) -> Isolation {
        match self {
            Self::Snapshot => Isolation::Snapshot,
            Self::Serializable => Isolation::Serializable,
        }
    }
}

/// What is printed as JSON. Between two runs on a simulated drive all is equal but `run`.
#[derive(Serialize)]
struct YcsbReport<'a> {
    workload: WorkloadKind,
    distribution: KeyChoice,
    record_count: u64,
    field_bytes: u32,
    client_count: u32,
    core_count: Option<u32>,
    processor_time_ns: u64,
    think_time_ns: u64,
    device: &'a str,
    capacity_bytes: Option<u64>,
    table_bytes: u64,
    seed: u64,
    isolation: &'static str,
    settings: &'a Settings,
    #[serde(flatten)]
    counts: Counts,
    /// Bytes that were programmed into flash, where there is some.
    programmed_bytes: Option<u64>,
    /// Those, or without flash those that were written to the devices, for each that clients wrote.
    write_amplification: Option<f64>,
    #[serde(flatten)]
    outcome: Outcome,
    run: RunFacts,
}

/// A database for the run, gone afterwards.
enum Place {
    Drive { database: Database, capacity: ByteCount, flash_page_bytes: Option<u32> },
    Directory { database: NewDatabase, _directory: TempDir },
}

impl Place {
    fn database(&self) -> &Database {
        match self {
            Self::Drive { database, .. } => database,
            Self::Directory { database, .. } => database.database(),
        }
    }

    const fn capacity(&self) -> Option<ByteCount> {
        match self {
            Self::Drive { capacity, .. } => Some(*capacity),
            Self::Directory { .. } => None,
        }
    }

    /// What was programmed into flash, if it can be seen.
    fn programmed_bytes(&self, outcome: &Outcome) -> Option<u64> {
        let Self::Drive { flash_page_bytes, .. } = self else { return None };
        Some(u64::from((*flash_page_bytes)?) * outcome.flash?.program_count)
    }
}

pub(crate) fn run(arguments: &BenchArguments, context: &Context) -> Result<(), Failure> {
    match &arguments.load {
        LoadCommand::Ycsb(arguments) => ycsb(arguments, context),
    }
}

fn ycsb(arguments: &YcsbArguments, context: &Context) -> Result<(), Failure> {
    let ycsb = arguments.ycsb();
    let plan = arguments.plan();
    check_times(&plan)?;
    let settings = settings_of(arguments)?;
    if let Some(directory) = &arguments.out {
        crate::output::check_folder(directory)?;
    }
    let place = arguments.place(&settings, &context.interrupt)?;
    let database = place.database();
    let progress = Progress::new(context, 2);
    let loaded = ycsb.load(database, |number| {
        if number % 1024 == 0 {
            progress.show(number as f64 / ycsb.record_count as f64, "loading");
        }
        !progress.is_interrupted()
    });
    let Some(loaded) = loaded? else {
        return Err(Failure::interrupted("stopped while loading"));
    };
    database.drop_cached_pages()?;
    progress.step_done();
    let load = ycsb.start();
    let outcome = at_work(database, Arc::new(Arc::clone(&load)), plan, &progress)?;
    progress.step_done();
    drop(progress);
    if outcome.was_stopped && outcome.operation_count == 0 {
        return Err(Failure::interrupted("stopped before anything was done"));
    }
    let is_simulated = place.capacity().is_some();
    let counts = load.counts();
    let programmed_bytes = place.programmed_bytes(&outcome);
    let written_bytes = programmed_bytes.unwrap_or(outcome.written_bytes);
    let report = YcsbReport {
        workload: ycsb.workload,
        distribution: ycsb.key_choice,
        record_count: ycsb.record_count,
        field_bytes: ycsb.field_bytes,
        client_count: plan.client_count,
        core_count: is_simulated.then_some(plan.core_count),
        processor_time_ns: plan.processor_time.0,
        think_time_ns: plan.think_time.0,
        device: &arguments.device,
        capacity_bytes: place.capacity().map(|capacity| capacity.0),
        table_bytes: loaded.file_bytes,
        seed: ycsb.seed,
        isolation: arguments.isolation.level().label(),
        settings: &settings,
        counts,
        programmed_bytes,
        write_amplification: (counts.record_written_bytes > 0)
            .then(|| written_bytes as f64 / counts.record_written_bytes as f64),
        outcome,
        run: RunFacts::since(context.started),
    };
    show(&report, arguments, context)
}

/// Refuses times that no clock could add up.
fn check_times(plan: &Plan) -> Result<(), Failure> {
    let by_one = u128::from(plan.operation_count.div_ceil(u64::from(plan.client_count)));
    let thought_ns = by_one * u128::from(plan.think_time.0);
    let computed_ns = u128::from(plan.operation_count) * u128::from(plan.processor_time.0);
    let longest_ns = u128::from(RUN_YEARS_MAX) * 365 * 24 * 3600 * 1_000_000_000;
    if thought_ns + computed_ns <= longest_ns {
        return Ok(());
    }
    Err(Failure::input(format!(
        "--think-time and --processor-time: {} operations would take more than {RUN_YEARS_MAX} years; \
         take shorter times or fewer operations",
        plan.operation_count
    )))
}

/// Tells what came of a run, and draws it if that was asked.
fn show(
    report: &YcsbReport<'_>,
    arguments: &YcsbArguments,
    context: &Context,
) -> Result<(), Failure> {
    let page = match &arguments.out {
        Some(directory) => Some(report::write(report, directory)?),
        None => None,
    };
    match arguments.json {
        true => context.output.json("bench ycsb", report)?,
        false => tell(report, context)?,
    }
    if let Some(page) = page.filter(|_| !arguments.json) {
        let page = context.output.strong(&page.display().to_string());
        context.output.line(&format!("\nreport: {page}"))?;
    }
    if report.outcome.was_stopped {
        let done = report.outcome.operation_count;
        return Err(Failure::interrupted(format!("stopped after {done} operations")));
    }
    Ok(())
}

/// Runs the clients on a thread of their own, while this one shows how far they are.
fn at_work(
    database: &Database,
    load: Arc<dyn Load>,
    plan: Plan,
    progress: &Progress,
) -> Result<Outcome, Failure> {
    let watch = Arc::new(Watch::default());
    let stopwatch = Stopwatch::start();
    let clock: Clock = Arc::new(move || Nanos(stopwatch.nanos()));
    let (tell, told) = channel();
    let clients = {
        let (database, watch) = (database.clone(), Arc::clone(&watch));
        std::thread::spawn(move || {
            let outcome = run_clients(&database, &load, &plan, &watch, &clock);
            // The other end waits for this; only a panic there could have closed it.
            let _ = tell.send(outcome);
        })
    };
    let outcome = loop {
        match told.recv_timeout(Duration::from_millis(50)) {
            Ok(outcome) => break outcome,
            Err(RecvTimeoutError::Timeout) => {
                let done = watch.done_count() as f64 / plan.operation_count as f64;
                progress.show(done, "clients at work");
                if progress.is_interrupted() {
                    watch.stop();
                }
            }
            Err(RecvTimeoutError::Disconnected) => match clients.join() {
                Err(panic) => std::panic::resume_unwind(panic),
                Ok(()) => unreachable!("clients that end tell their outcome"),
            },
        }
    };
    Ok(outcome?)
}

impl YcsbArguments {
    fn ycsb(&self) -> Ycsb {
        let workload = match self.workload {
            WorkloadArgument::A => WorkloadKind::A,
            WorkloadArgument::B => WorkloadKind::B,
            WorkloadArgument::C => WorkloadKind::C,
            WorkloadArgument::D => WorkloadKind::D,
            WorkloadArgument::E => WorkloadKind::E,
            WorkloadArgument::F => WorkloadKind::F,
        };
        let key_choice = match self.distribution {
            None => workload.key_choice(),
            Some(DistributionArgument::Zipf) => KeyChoice::Zipf,
            Some(DistributionArgument::Latest) => KeyChoice::Latest,
            Some(DistributionArgument::Uniform) => KeyChoice::Uniform,
        };
        let (record_count, field_bytes, seed) = (self.records, self.field_bytes, self.seed);
        let isolation = self.isolation.level();
        Ycsb { workload, key_choice, record_count, field_bytes, isolation, seed }
    }

    fn plan(&self) -> Plan {
        Plan {
            operation_count: self.operations,
            client_count: self.clients,
            core_count: self.cores.unwrap_or(self.clients),
            processor_time: self.processor_time.unwrap_or_default(),
            think_time: self.think_time.unwrap_or_default(),
            switch_kind: nandu_bench::SwitchKind::default(),
        }
    }

    /// An empty database where the user wants it.
    fn place(&self, settings: &Settings, interrupt: &Interrupt) -> Result<Place, Failure> {
        let Some(name) = self.device.strip_prefix("sim:") else {
            return self.directory(settings);
        };
        let profile = interrupt.before_work(|| Profile::load(name))?;
        let whole = profile.geometry.capacity();
        let record_bytes = FIELD_COUNT as u64 * u64::from(self.field_bytes) + 64;
        let data_bytes =
            self.records.saturating_mul(record_bytes).saturating_add(settings.log_bytes);
        let usual = data_bytes.saturating_mul(4).max(256 << 20).min(whole.0);
        let capacity = self.capacity.unwrap_or(ByteCount(usual));
        if capacity > whole {
            let what = format!("--capacity {capacity}: {} has {whole}", self.device);
            return Err(Failure::input(what));
        }
        let options = SimOptions { capacity: Some(capacity), seed: self.seed, keep_data: true };
        let volume = nandu::DeviceVolume::format(profile.open(options)?)?;
        let volumes = Volumes::new(Box::new(volume), None);
        let database = Database::create(volumes, settings, self.seed)?;
        let flash_page_bytes = flash_page_bytes(&profile, capacity);
        Ok(Place::Drive { database, capacity, flash_page_bytes })
    }

    fn directory(&self, settings: &Settings) -> Result<Place, Failure> {
        if self.capacity.is_some() || self.processor_time.is_some() || self.cores.is_some() {
            let what = "--capacity, --processor-time and --cores are for simulated drives, \
                        say --device sim:nvme-tlc-2024";
            return Err(Failure::input(what));
        }
        let parent = Path::new(&self.device);
        if !parent.is_dir() {
            let what = format!(
                "{} is no directory; a database is made in one, or on sim:NAME",
                self.device.escape_debug()
            );
            return Err(Failure::input(what));
        }
        let directory = tempfile::Builder::new().prefix("nandu-bench-").tempdir_in(parent);
        let directory = directory
            .map_err(|error| Failure::system(format!("no directory in {}", self.device), &error))?;
        let settings = settings.clone();
        let options = DatabaseOptions { settings, ..DatabaseOptions::default() };
        let database = NewDatabase::begin(&directory.path().join("database"), &options)?;
        Ok(Place::Directory { database, _directory: directory })
    }
}

/// Bytes of a flash page of a drive that has flash of its own.
fn flash_page_bytes(profile: &Profile, capacity: ByteCount) -> Option<u32> {
    let DriveConfig::Ssd(ssd) = &profile.drive else { return None };
    let sector_bytes = profile.geometry.sector_bytes;
    let sector_count = capacity.0 / u64::from(sector_bytes);
    // The drive was opened with this capacity, so there is such a chip.
    let nand = ssd.nand_config(Geometry { sector_bytes, sector_count }, false).ok()?;
    Some(nand.geometry.flash_page_bytes)
}

/// The settings of the engine, with what `--set` says.
fn settings_of(arguments: &YcsbArguments) -> Result<Settings, Failure> {
    let usual = Settings { pool_bytes: arguments.memory.0, ..Settings::default() };
    let settings = engine_settings::set_new(&usual, &arguments.set)?;
    settings.check()?;
    settings.propagation.kind.check_needs_data_alone("nandu bench")?;
    Ok(settings)
}

fn tell(report: &YcsbReport<'_>, context: &Context) -> Result<(), Failure> {
    let outcome = &report.outcome;
    let output = context.output;
    let clients = match report.client_count {
        1 => "1 client".to_owned(),
        count => format!("{count} clients"),
    };
    output.heading(&format!(
        "YCSB {} on {}: {} operations by {clients}",
        report.workload.label(),
        report.device.escape_debug(),
        outcome.operation_count
    ))?;
    let seconds = outcome.elapsed_ns as f64 / 1e9;
    let kind = if report.capacity_bytes.is_some() { " of virtual time" } else { "" };
    output.line(&format!(
        "{} operations/s in {seconds:.3} s{kind}",
        rate(outcome.operations_per_second)
    ))?;
    let mut table =
        Table::new(&["operation", "count", "mean", "p50", "p95", "p99", "p99.9", "longest"]);
    for operation in &outcome.operations {
        let latency = &operation.latency_ns;
        let mut cells = vec![operation.kind.replace('_', "-"), latency.count.to_string()];
        cells.push(time(latency.mean));
        let rest = [latency.p50, latency.p95, latency.p99, latency.p999, latency.max];
        cells.extend(rest.iter().map(|&nanos| time(nanos as f64)));
        table.row(cells);
    }
    output.table(&table)?;
    let wanted = outcome.pool_hit_count + outcome.pool_miss_count;
    output.line(&format!(
        "pool: {:.1} % of {wanted} pages were there; devices: {} read, {} written, {} flushes",
        100.0 * outcome.pool_hit_count as f64 / wanted.max(1) as f64,
        ByteCount(outcome.read_bytes),
        ByteCount(outcome.written_bytes),
        outcome.flush_count
    ))?;
    if let Some(flash) = &outcome.flash {
        let amplification = flash
            .write_amplification
            .map_or(String::new(), |factor| format!(", write amplification {factor:.2}"));
        output.line(&format!(
            "flash: {} pages programmed, {} blocks erased{amplification}",
            flash.program_count, flash.erase_count
        ))?;
    }
    if let Some(factor) = report.write_amplification {
        let counts = &report.counts;
        output.line(&format!(
            "written: {} of records, {} of log; {factor:.2} bytes below for each of a record",
            ByteCount(counts.record_written_bytes),
            ByteCount(outcome.log_bytes)
        ))?;
        output.line(&format!(
            "done again: {} conflicts, {} deadlocks, {} waits that were too long",
            counts.conflict_count, counts.deadlock_count, counts.lock_timeout_count
        ))?;
    }
    let parts: Vec<String> =
        outcome.operations_per_second_over_time.iter().map(|part| rate(*part)).collect();
    output.line("operations/s in each twentieth of the time:")?;
    for row in parts.chunks(10) {
        output.line(&format!("  {}", row.join(" ")))?;
    }
    if report.capacity_bytes.is_some() {
        output.line(&output.faint(&format!("history {}", outcome.history)))?;
    }
    Ok(())
}
