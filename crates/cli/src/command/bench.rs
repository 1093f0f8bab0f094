//! `nandu bench`: many clients over one database, on this disk or on a simulated drive.

mod cost;
mod record;
mod report;
mod tpcc;
mod tpox;
mod ycsb;

pub(crate) use ycsb::WorkloadArgument;

use crate::Context;
use crate::engine_settings;
use crate::failure::Failure;
use crate::interrupt::Interrupt;
use crate::output::Output;
use crate::progress::Progress;
use crate::stopwatch::Stopwatch;
use clap::{Args, Subcommand, ValueEnum};
use cost::{CostArguments, CostRun, CostWatch};
use nandu::simulated::SimulatedMedia;
use nandu::{Database, DatabaseOptions, Isolation, NewDatabase, Settings, Volumes};
use nandu_base::{ByteCount, Nanos};
use nandu_bench::{Clock, Load, Outcome, Plan, Retries, Watch, run_watched};
use nandu_device::{Counters, Geometry, MeteredDevice, PowerLog};
use nandu_drives::profile::{DriveConfig, Profile, SimOptions};
use nandu_energy::Host;
use nandu_probe::table::{Table, rate, time};
use record::{PendingRecord, RecordArguments};
use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use tempfile::TempDir;

/// A simulated drive of a log is no smaller, unless it is so as a whole.
const LOG_DRIVE_BYTES_MIN: u64 = 64 << 20;
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
    Ycsb(Box<ycsb::YcsbArguments>),
    Tpox(Box<tpox::TpoxArguments>),
    Tpcc(Box<tpcc::TpccArguments>),
}

/// What all loads are asked: by whom, where, for how long.
#[derive(Debug, Args)]
struct RunArguments {
    /// How many clients
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    clients: u32,
    /// A directory, or sim:NAME. A propagation on raw flash (`--set propagation=page_differential_chips`) has
    /// its pages on the chips of another such drive, and all else on this one
    #[arg(long, default_value = ".", value_name = "TARGET")]
    device: String,
    /// Where the log lies, if not with the data: a directory, or sim:NAME beside a simulated drive. A memory
    /// such as sim:pcm-lines can be written record by record, by `--set log_writing=direct`
    #[arg(long, value_name = "TARGET")]
    log: Option<String>,
    /// Capacity that a simulated drive is scaled to; four times the data if not given
    #[arg(long, value_parser = super::parse_size, value_name = "SIZE")]
    capacity: Option<ByteCount>,
    /// Memory of the buffer pool
    #[arg(long, default_value = "16MiB", value_parser = super::parse_size, value_name = "SIZE")]
    memory: ByteCount,
    /// How far transactions that change something are apart
    #[arg(long, value_enum, default_value_t = IsolationArgument::Serializable)]
    isolation: IsolationArgument,
    /// What a client waits between its operations
    #[arg(long, value_parser = super::parse_duration, value_name = "TIME")]
    think_time: Option<Nanos>,
    /// What the processor takes for each operation, on a simulated drive
    #[arg(long, value_parser = super::parse_duration, value_name = "TIME")]
    processor_time: Option<Nanos>,
    /// How many clients compute at once, on a simulated drive; if not given, as many as there are, or as
    /// the host of --host has cores
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    cores: Option<u32>,
    /// A setting of the engine, as `db create` has it in its file of settings
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    cost: CostArguments,
    #[command(flatten)]
    record: RecordArguments,
    /// Seed of everything that is drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print JSON
    #[arg(long)]
    json: bool,
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

/// About what a load takes on its device.
#[derive(Clone, Copy)]
struct LoadBytes {
    /// Before clients are at work; less rather than more.
    at_first: u64,
    /// When all is done, at most.
    in_the_end: u64,
}

/// A database for the run, gone afterwards.
struct Place {
    site: Site,
    /// The trace that is wanted of what is measured.
    record: RefCell<Option<PendingRecord>>,
}

enum Site {
    Drive {
        database: Database,
        capacity: ByteCount,
        flash_page_bytes: Option<u32>,
        power: PowerLog,
        profile: Box<Profile>,
    },
    Directory {
        database: NewDatabase,
        _directory: TempDir,
        _log_directory: Option<TempDir>,
    },
}

impl Place {
    fn database(&self) -> &Database {
        match &self.site {
            Site::Drive { database, .. } => database,
            Site::Directory { database, .. } => database.database(),
        }
    }

    const fn capacity(&self) -> Option<ByteCount> {
        match &self.site {
            Site::Drive { capacity, .. } => Some(*capacity),
            Site::Directory { .. } => None,
        }
    }

    /// The drive that is simulated.
    fn profile(&self) -> Option<&Profile> {
        match &self.site {
            Site::Drive { profile, .. } => Some(profile),
            Site::Directory { .. } => None,
        }
    }

    /// What a simulated drive has done so far.
    fn drive_counters(&self) -> Option<Counters> {
        self.profile().map(|_| self.database().read().engine().device_counters().0)
    }

    /// Who looks on while clients work.
    fn watch(&self) -> Watch {
        match &self.site {
            Site::Drive { power, .. } => Watch::with_power(power.clone()),
            Site::Directory { .. } => Watch::default(),
        }
    }

    /// What was programmed into flash, if it can be seen.
    fn programmed_bytes(&self, outcome: &Outcome) -> Option<u64> {
        let Site::Drive { flash_page_bytes, .. } = &self.site else { return None };
        Some(u64::from((*flash_page_bytes)?) * outcome.flash?.program_count)
    }
}

pub(crate) fn run(arguments: &BenchArguments, context: &Context) -> Result<(), Failure> {
    match &arguments.load {
        LoadCommand::Ycsb(arguments) => ycsb::run(arguments, context),
        LoadCommand::Tpox(arguments) => tpox::run(arguments, context),
        LoadCommand::Tpcc(arguments) => tpcc::run(arguments, context),
    }
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

/// Runs the clients on a thread of their own, while this one shows how far they are, and records their
/// pages if that was asked, also of a run that is stopped.
fn at_work(
    place: &Place,
    load: Arc<dyn Load>,
    plan: Plan,
    progress: &Progress,
    mut cost: Option<&mut CostRun<'_>>,
) -> Result<Outcome, Failure> {
    let database = place.database();
    // What is measured has its cost watched; a warm-up has not, and is not recorded.
    let pending = cost.as_ref().and_then(|_| place.record.take());
    let recording = pending.map(|pending| pending.begin(database)).transpose()?;
    let watch = Arc::new(place.watch());
    let stopwatch = Stopwatch::start();
    let clock: Clock = Arc::new(move || Nanos(stopwatch.nanos()));
    let outcome = run_watched(database, load, plan, (&watch, &clock), || {
        let done = watch.done_count() as f64 / plan.operation_count as f64;
        progress.show(done, "clients at work");
        if let Some(cost) = &mut cost {
            cost.look();
        }
        !progress.is_interrupted()
    });
    let outcome = outcome?;
    if let Some(recording) = recording {
        recording.finish(database, &outcome, progress)?;
    }
    Ok(outcome)
}

impl RunArguments {
    /// So many operations by these clients, on the cores of the host if there is a model of one.
    fn plan(&self, operation_count: u64, host: Option<&Host>) -> Plan {
        let host_cores = host.map_or(u32::MAX, |host| host.power.core_count);
        Plan {
            operation_count,
            client_count: self.clients,
            core_count: self.cores.unwrap_or_else(|| self.clients.min(host_cores)),
            processor_time: self.processor_time.unwrap_or_default(),
            think_time: self.think_time.unwrap_or_default(),
            switch_kind: nandu_bench::SwitchKind::default(),
        }
    }

    /// Who looks at what the run costs.
    fn cost_watch(&self) -> Result<CostWatch, Failure> {
        let drives = std::iter::once(&self.device).chain(&self.log).cloned().collect();
        let watch = self.cost.watch(drives)?;
        if let (Some(cores), Some(host)) = (self.cores, watch.host())
            && cores > host.power.core_count
        {
            let (name, count) = (&host.name, host.power.core_count);
            let count = nandu_base::words::counted(u64::from(count), "core");
            let what = format!("--cores {cores}: the host {name} has {count}");
            return Err(Failure::input(what));
        }
        Ok(watch)
    }

    /// An empty database where the user wants it, for so many bytes.
    fn place(
        &self,
        load_bytes: LoadBytes,
        settings: &Settings,
        interrupt: &Interrupt,
    ) -> Result<Place, Failure> {
        self.record.check()?;
        let site = match self.device.strip_prefix("sim:") {
            Some(name) => self.drive(name, load_bytes, settings, interrupt)?,
            None => self.directory(settings)?,
        };
        // Not before: until here the program may end at once, and would leave what was begun.
        Ok(Place { site, record: RefCell::new(self.record.pending(interrupt)?) })
    }

    fn drive(
        &self,
        name: &str,
        load_bytes: LoadBytes,
        settings: &Settings,
        interrupt: &Interrupt,
    ) -> Result<Site, Failure> {
        let profile = interrupt.before_work(|| Profile::load(name))?;
        let whole = profile.geometry.capacity();
        let log_bytes = if self.log.is_some() { 0 } else { settings.log_bytes };
        let data_bytes = load_bytes.in_the_end.saturating_add(log_bytes);
        let usual = data_bytes.saturating_mul(4).max(256 << 20).min(whole.0);
        let capacity = self.capacity.unwrap_or(ByteCount(usual));
        if capacity > whole {
            let what = format!("--capacity {capacity}: {} has {whole}", self.device);
            return Err(Failure::input(what));
        }
        self.check_memory(ByteCount(load_bytes.at_first.min(capacity.0)))?;
        let options = SimOptions { capacity: Some(capacity), seed: self.seed, keep_data: true };
        let power = PowerLog::default();
        let drive = MeteredDevice::new(profile.open(options)?, power.clone());
        let volume = nandu::DeviceVolume::format(Box::new(drive))?;
        let log = self.log.as_ref().map(|target| self.log_drive(target, settings, interrupt));
        let media = SimulatedMedia::new(settings.propagation.kind, &profile, options)?;
        let others = media.format()?;
        let volumes = Volumes { others, ..Volumes::new(Box::new(volume), log.transpose()?) };
        let database = Database::create(volumes, settings, self.seed)?;
        let flash_page_bytes = flash_page_bytes(&profile, capacity);
        let profile = Box::new(profile);
        Ok(Site::Drive { database, capacity, flash_page_bytes, power, profile })
    }

    /// Refuses what there is no memory for: a simulated drive keeps in memory what is `held` on it.
    fn check_memory(&self, held: ByteCount) -> Result<(), Failure> {
        let pool = self.memory.min(held);
        let needed = ByteCount(held.0.saturating_add(pool.0));
        let what = format!("{} with {held} of data and {pool} of them in the pool", self.device);
        let advice = "load less, or into a directory on a disk (--device)";
        crate::memory::check_free(needed, &what, advice)
    }

    /// A simulated drive for the log alone.
    fn log_drive(
        &self,
        target: &str,
        settings: &Settings,
        interrupt: &Interrupt,
    ) -> Result<Box<dyn nandu::Volume>, Failure> {
        let Some(name) = target.strip_prefix("sim:") else {
            let target = target.escape_debug();
            return Err(Failure::input(format!(
                "--log {target}: beside a simulated drive the log lies on one, too; say sim:NAME"
            )));
        };
        let profile = interrupt.before_work(|| Profile::load(name))?;
        let wanted = settings.log_bytes.saturating_mul(2).max(LOG_DRIVE_BYTES_MIN);
        let capacity = ByteCount(wanted).min(profile.geometry.capacity());
        let options = SimOptions { capacity: Some(capacity), seed: self.seed, keep_data: true };
        Ok(Box::new(nandu::DeviceVolume::format(profile.open(options)?)?))
    }

    fn directory(&self, settings: &Settings) -> Result<Site, Failure> {
        if self.capacity.is_some() || self.processor_time.is_some() || self.cores.is_some() {
            let what = "--capacity, --processor-time and --cores are for simulated drives, \
                        say --device sim:nvme-tlc-2024";
            return Err(Failure::input(what));
        }
        settings.propagation.kind.check_needs_data_alone("nandu bench in a directory")?;
        let directory = scratch_in(&self.device)?;
        let log = self.log.as_ref().map(|place| scratch_in(place)).transpose()?;
        let settings = settings.clone();
        let log_directory = log.as_ref().map(|directory| directory.path().join("log"));
        let options = DatabaseOptions { settings, log_directory, ..DatabaseOptions::default() };
        let database = NewDatabase::begin(&directory.path().join("database"), &options)?;
        Ok(Site::Directory { database, _directory: directory, _log_directory: log })
    }
}

/// A directory in `place` that is gone afterwards.
fn scratch_in(place: &str) -> Result<TempDir, Failure> {
    let parent = Path::new(place);
    if !parent.is_dir() {
        let what = format!(
            "{} is no directory; a database is made in one, or on sim:NAME",
            place.escape_debug()
        );
        return Err(Failure::input(what));
    }
    let directory = tempfile::Builder::new().prefix("nandu-bench-").tempdir_in(parent);
    directory.map_err(|error| Failure::system(format!("no directory in {place}"), &error))
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
fn settings_of(arguments: &RunArguments) -> Result<Settings, Failure> {
    let usual = Settings { pool_bytes: arguments.memory.0, ..Settings::default() };
    let settings = engine_settings::set_new(&usual, &arguments.set)?;
    settings.check()?;
    Ok(settings)
}

/// Tells what came of a run of any load.
fn tell_outcome(outcome: &Outcome, is_virtual: bool, output: &Output) -> Result<(), Failure> {
    let seconds = outcome.elapsed_ns as f64 / 1e9;
    let kind = if is_virtual { " of virtual time" } else { "" };
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
    if let Some(log) = &outcome.log_device {
        let lines = log.line_write_count.map_or(String::new(), |count| {
            let most = log.most_written_count.unwrap_or(0);
            format!("; {count} lines written, one of them {most} times since it was new")
        });
        output.line(&format!(
            "log device: {} written in {} requests, {} flushes{lines}",
            ByteCount(log.written_bytes),
            log.write_count,
            log.flush_count
        ))?;
    }
    if let Some(flash) = &outcome.flash {
        let amplification = flash
            .write_amplification
            .map_or(String::new(), |factor| format!(", write amplification {factor:.2}"));
        output.line(&format!(
            "flash: {} pages programmed, {} blocks erased{amplification}",
            flash.program_count, flash.erase_count
        ))?;
    }
    Ok(())
}

/// Tells why transactions were done again.
fn tell_retries(retries: &Retries, output: &Output) -> Result<(), Failure> {
    output.line(&format!(
        "done again: {} conflicts, {} deadlocks, {} waits that were too long",
        retries.conflict_count, retries.deadlock_count, retries.lock_timeout_count
    ))
}

/// Tells how the rate went over time, and the history of a run on a virtual clock.
fn tell_course(outcome: &Outcome, is_virtual: bool, output: &Output) -> Result<(), Failure> {
    let parts: Vec<String> =
        outcome.operations_per_second_over_time.iter().map(|part| rate(*part)).collect();
    output.line("operations/s in each twentieth of the time:")?;
    for row in parts.chunks(10) {
        output.line(&format!("  {}", row.join(" ")))?;
    }
    if is_virtual {
        output.line(&output.faint(&format!("history {}", outcome.history)))?;
    }
    Ok(())
}

/// So many clients, in words.
fn clients_in_words(count: u32) -> String {
    nandu_base::words::counted(u64::from(count), "client")
}
