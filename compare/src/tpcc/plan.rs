//! The run: each store is loaded once, each round works on copies, contenders alternate.
//!
//! 1. One that is not installed is left out, and the table says how to install it.
//! 2. A contender that fails, or whose run is not sound, ends the comparison.

use super::clients::terminal_count;
use super::contender::{Contender, Setting, StoreKind};
use super::process::{self, Job, Told};
use super::table::{self, Median};
use crate::limit::{MemoryLimit, drop_caches};
use crate::measure::{mean, spread};
use crate::process::Run;
use crate::results::{machine_slug, write_files};
use crate::{Failure, busy, runs, stock};
use nandu_base::ByteCount;
use nandu_load::{Tpcc, TpccScale};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Compare nandu with other databases under TPC-C on this disk, side by side in one run: serializable, each
/// commit synced, all in control groups of the same memory.
#[derive(clap::Parser)]
#[command(name = "compare-tpcc", bin_name = "cargo xtask compare-tpcc")]
pub(crate) struct Options {
    /// How many warehouses.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    warehouses: u32,
    /// Numbers of clients, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "1,8")]
    clients: Vec<u32>,
    /// Memory for pages of each engine [default: a tenth of what the tables take in nandu].
    #[arg(long, value_parser = ByteCount::parse)]
    memory: Option<ByteCount>,
    /// Memory of the control group, page cache included [default: three times as much, at least 64 MiB more].
    #[arg(long, value_parser = ByteCount::parse)]
    group: Option<ByteCount>,
    /// Transactions that are measured, of all clients together.
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u64).range(1..))]
    transactions: u64,
    /// Transactions before that are not measured.
    #[arg(long, default_value_t = 5_000)]
    warm_up: u64,
    /// How often everybody does all of it.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    rounds: u32,
    /// These contenders only, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Contender>,
    /// What rows and inputs follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Items, if less than TPC-C has: to try it.
    #[arg(long, default_value_t = TpccScale::STANDARD.item_count)]
    items: u32,
    /// Customers of a district, if less than TPC-C has: to try it.
    #[arg(long, default_value_t = TpccScale::STANDARD.customer_count)]
    customers: u32,
    /// Seconds after which a run is ended.
    #[arg(long, default_value_t = 3600, value_parser = clap::value_parser!(u32).range(1..))]
    timeout: u32,
    /// Where all write, on the disk that is measured [default: nandu/compare-tpcc in the user's cache].
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where results go [default: `results/MACHINE/compare-tpcc` for a run that leaves nothing out, else
    /// nowhere].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the medians as JSON in place of the table.
    #[arg(long)]
    json: bool,
}

/// What a whole run has at least.
const WHOLE_ROUNDS: u32 = 3;
const WHOLE_WAREHOUSES: u32 = 10;
const WHOLE_CLIENTS: [u32; 2] = [1, 8];
/// The database over the memory for pages.
const DATABASE_OVER_MEMORY: u64 = 10;
/// The group over the memory for pages, and what it has beside that at least.
const GROUP_OVER_MEMORY: u64 = 3;
const GROUP_BESIDE_BYTES_MIN: u64 = 64 << 20;
/// Less is no pool.
const MEMORY_BYTES_MIN: u64 = 1 << 20;
/// What all write to; it is emptied, so nobody else's has this name.
const SCRATCH: &str = "compare-tpcc-scratch";
/// Where in it stores lie as they were loaded.
const LOADED: &str = "loaded";

/// One contender, once.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    pub(super) client_count: u32,
    pub(super) round: u32,
    pub(super) contender: Contender,
    /// By name; the unit is the end of the name.
    pub(super) figures: BTreeMap<String, f64>,
}

/// What is the same for all runs.
#[derive(Clone, Debug)]
pub(super) struct Task {
    pub(super) tpcc: Tpcc,
    pub(super) memory_bytes: u64,
    pub(super) group_bytes: u64,
    pub(super) warm_up_count: u64,
    pub(super) transaction_count: u64,
    pub(super) rounds: u32,
    pub(super) limit: String,
    timeout_s: u32,
    scratch: PathBuf,
}

/// Runs the comparison and answers with its table.
///
/// # Errors
/// A contender that fails or whose database is not sound, or results that cannot be written.
pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    let directory = match &options.directory {
        Some(directory) => directory.clone(),
        None => stock::default_directory("compare-tpcc")?,
    };
    stock::make_directory(&directory)?;
    let directory =
        directory.canonicalize().map_err(|error| stock::failure_at(&directory, &error))?;
    let task = options.task(&directory)?;
    let mut left_out = Vec::new();
    let mut contenders = options.only.clone();
    if contenders.is_empty() {
        contenders = Contender::ALL.to_vec();
    }
    let versions = versions(&mut contenders, &mut left_out);
    if contenders.is_empty() {
        let why = left_out.join("; ");
        return Err(Failure::Missing(format!("nobody is left to take part: {why}")));
    }
    for reason in &left_out {
        eprintln!("left out: {reason}");
    }
    let mut meta = meta(options, &task, &versions, &directory);
    let samples = all_samples(options, &task, &contenders)?;
    meta["load_average_after"] = busy::load_average().into();
    let medians = medians(&samples);
    options.note_missing(&contenders, &mut left_out);
    let table = table::whole(&medians, &task, &left_out);
    let kept = match &options.out {
        Some(directory) => Some(directory.clone()),
        None if left_out.is_empty() => {
            let root = crate::plan::repository_root();
            Some(root.join("results").join(machine_slug()).join("compare-tpcc"))
        }
        None => None,
    };
    if let Some(directory) = kept {
        write_files(&directory, &meta, lines_of(&samples), &medians, &table)?;
        eprintln!("kept in {}", directory.display());
    }
    Ok(if options.json { crate::results::json_of(&meta, &medians) } else { table })
}

impl Options {
    fn task(&self, directory: &Path) -> Result<Task, Failure> {
        let scale = TpccScale { item_count: self.items, customer_count: self.customers };
        let tpcc = Tpcc::with_scale(self.warehouses, scale, self.seed)
            .map_err(|error| Failure::Run(error.to_string()))?;
        let most = terminal_count(&tpcc);
        if self.clients.is_empty() || self.clients.iter().any(|it| !(1..=most).contains(it)) {
            return Err(Failure::Run(format!(
                "clients are from 1 to {most}, ten for each warehouse"
            )));
        }
        let memory_bytes = match self.memory {
            Some(memory) => memory.0,
            None => tpcc.expected_bytes() / DATABASE_OVER_MEMORY,
        };
        let memory_bytes = memory_bytes.max(MEMORY_BYTES_MIN);
        let group_bytes = match self.group {
            Some(group) => group.0,
            None => (memory_bytes.saturating_mul(GROUP_OVER_MEMORY))
                .max(memory_bytes.saturating_add(GROUP_BESIDE_BYTES_MIN)),
        };
        Ok(Task {
            tpcc,
            memory_bytes,
            group_bytes,
            warm_up_count: self.warm_up,
            transaction_count: self.transactions,
            rounds: self.rounds,
            limit: MemoryLimit::new(group_bytes).describe(),
            timeout_s: self.timeout,
            scratch: directory.join(SCRATCH),
        })
    }

    /// What a whole run has and this one has not.
    fn note_missing(&self, contenders: &[Contender], left_out: &mut Vec<String>) {
        if Contender::ALL.iter().any(|it| !contenders.contains(it)) && left_out.is_empty() {
            left_out.push("contenders, by --only".to_owned());
        }
        if self.rounds < WHOLE_ROUNDS {
            left_out.push(format!("rounds: {} of {WHOLE_ROUNDS}", self.rounds));
        }
        let is_small = self.warehouses < WHOLE_WAREHOUSES
            || self.items < TpccScale::STANDARD.item_count
            || self.customers < TpccScale::STANDARD.customer_count;
        if is_small {
            left_out.push(format!("rows: a whole run has those of {WHOLE_WAREHOUSES} warehouses"));
        }
        for count in WHOLE_CLIENTS.iter().filter(|it| !self.clients.contains(it)) {
            left_out.push(format!("clients: {count}"));
        }
        if self.memory.is_some() || self.group.is_some() {
            left_out.push("memory: it was chosen, not a tenth of the database".to_owned());
        }
    }
}

/// The versions of all who are not this program. Those that are not installed go, and why is told.
fn versions(contenders: &mut Vec<Contender>, left_out: &mut Vec<String>) -> BTreeSet<String> {
    let mut versions = BTreeSet::new();
    contenders.retain(|contender| match contender.version() {
        Ok(version) => {
            versions.extend(version);
            true
        }
        Err(reason) => {
            left_out.push(format!("{}: {reason}", contender.label()));
            false
        }
    });
    versions
}

fn all_samples(
    options: &Options,
    task: &Task,
    contenders: &[Contender],
) -> Result<Vec<Sample>, Failure> {
    clear(&task.scratch)?;
    stock::make_directory(&task.scratch.join(LOADED))?;
    let kinds: BTreeSet<StoreKind> = contenders.iter().map(|it| it.store_kind()).collect();
    for kind in kinds {
        eprintln!("loading {}", kind.label());
        kind.load(&task.base(kind), &task.tpcc)?;
    }
    let mut samples = Vec::new();
    let mut shown = None;
    for round in 1..=task.rounds {
        for &client_count in &options.clients {
            let mut order = contenders.to_vec();
            order.rotate_left((round as usize - 1) % contenders.len());
            for contender in order {
                let sample = task.sample((round, client_count, contender), &mut shown)?;
                eprintln!(
                    "round {round}, clients {client_count}: {}: {:.0} new orders a minute",
                    contender.label(),
                    sample.figures.get("tpmc").copied().unwrap_or_default()
                );
                samples.push(sample);
            }
        }
    }
    clear(&task.scratch)?;
    Ok(samples)
}

impl Task {
    /// Where a store lies as it was loaded.
    fn base(&self, kind: StoreKind) -> PathBuf {
        self.scratch.join(LOADED).join(kind.label())
    }

    /// Runs one contender on a copy. All that one client shows has to be what is in `shown`.
    fn sample(
        &self,
        (round, client_count, contender): (u32, u32, Contender),
        shown: &mut Option<String>,
    ) -> Result<Sample, Failure> {
        let directory = self.scratch.join("run");
        clear(&directory)?;
        let mut copy = Command::new("cp");
        copy.args(["-a", "--reflink=auto", "--"]);
        stock::complete(copy.arg(self.base(contender.store_kind())).arg(&directory), "cp")?;
        drop_caches(&self.scratch)?;
        let sync_ms = mean(&crate::measure::fsync_probe(&self.scratch)?) / 1e3;
        let scale = self.tpcc.scale();
        let job = Job {
            contender,
            setting: Setting {
                memory_bytes: self.memory_bytes,
                group_bytes: self.group_bytes,
                client_count,
            },
            directory: directory.clone(),
            warehouse_count: self.tpcc.warehouse_count(),
            item_count: scale.item_count,
            customer_count: scale.customer_count,
            warm_up_count: self.warm_up_count,
            transaction_count: self.transaction_count,
            seed: self.tpcc.seed(),
            timeout_s: self.timeout_s,
            processes_file: None,
        };
        let outcome = process::run(&job);
        crate::postgresql::end_left_behind(&directory);
        let (run, told) = outcome?;
        let told = judge(contender, &run, told)?;
        if client_count == 1 {
            let expected = shown.get_or_insert_with(|| told.digest.clone());
            if *expected != told.digest {
                return Err(Failure::Wrong(format!(
                    "{}: its terminal showed something else than another's",
                    contender.label()
                )));
            }
        }
        clear(&directory)?;
        let mut figures = told.figures;
        figures.insert("sync_ms".to_owned(), sync_ms);
        let of_process = ["group_peak_mb", "others_share"];
        for name in of_process {
            figures.extend(run.metrics.get(name).map(|value| (name.to_owned(), *value)));
        }
        Ok(Sample { client_count, round, contender, figures })
    }
}

/// What a run tells, if it is worth something.
pub(super) fn judge(contender: Contender, run: &Run, told: Option<Told>) -> Result<Told, Failure> {
    let label = contender.label();
    if let Err(reason) = &run.outcome {
        return Err(Failure::Engine(format!("{label}: {reason}")));
    }
    let told = told.ok_or_else(|| Failure::Run(format!("{label} tells nothing that is known")))?;
    if !told.broken.is_empty() {
        let broken = told.broken.join(", ");
        return Err(Failure::Wrong(format!("{label}: conditions that do not hold: {broken}")));
    }
    if told.order_count != told.counted_order_count {
        return Err(Failure::Wrong(format!(
            "{label}: {} orders were committed, and {} are there",
            told.order_count, told.counted_order_count
        )));
    }
    Ok(told)
}

fn clear(directory: &Path) -> Result<(), Failure> {
    match std::fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(stock::failure_at(directory, &error))
        }
        _ => Ok(()),
    }
}

fn medians(samples: &[Sample]) -> Vec<Median> {
    let mut values: BTreeMap<(u32, Contender, &str), Vec<f64>> = BTreeMap::new();
    for Sample { client_count, contender, figures, .. } in samples {
        for (name, value) in figures {
            values.entry((*client_count, *contender, name)).or_default().push(*value);
        }
    }
    let mut medians = Vec::new();
    for ((client_count, contender, name), values) in values {
        let [median, least, most] = spread(values);
        let figure = name.to_owned();
        medians.push(Median { client_count, contender, figure, median, least, most });
    }
    medians
}

/// Every figure as a line.
fn lines_of(samples: &[Sample]) -> String {
    let mut lines = String::from("clients,round,contender,figure,value\n");
    for Sample { client_count, round, contender, figures } in samples {
        for (name, value) in figures {
            let label = contender.label();
            lines.push_str(&format!("{client_count},{round},{label},{name},{value:.6}\n"));
        }
    }
    lines
}

/// The command, the commit, the machine, the peers.
fn meta(options: &Options, task: &Task, versions: &BTreeSet<String>, directory: &Path) -> Value {
    let own = json!({
        "seed": options.seed,
        "warehouses": options.warehouses,
        "items": options.items,
        "customers": options.customers,
        "clients": options.clients,
        "transactions": options.transactions,
        "warm_up": options.warm_up,
        "rounds": options.rounds,
        "memory_bytes": task.memory_bytes,
        "group_bytes": task.group_bytes,
        "limit": task.limit,
        "peers": versions,
        "load_average_before": busy::load_average(),
    });
    runs::meta("compare-tpcc", directory, own)
}
