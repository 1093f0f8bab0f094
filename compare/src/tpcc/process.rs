//! One contender, once, in a process of its own inside the control group, with all servers that it starts.

use super::clients::{self, Work};
use super::contender::{Contender, Setting};
use crate::Failure;
use crate::measure::{as_float, disk_bytes};
use crate::process::{self, Run};
use nandu_load::{Tpcc, TpccScale};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;

/// What a process is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub(super) contender: Contender,
    pub(super) setting: Setting,
    /// Its copy of what was loaded.
    pub(super) directory: PathBuf,
    pub(super) warehouse_count: u32,
    pub(super) item_count: u32,
    pub(super) customer_count: u32,
    pub(super) warm_up_count: u64,
    pub(super) transaction_count: u64,
    pub(super) seed: u64,
    /// Seconds after which it is killed.
    pub(super) timeout_s: u32,
    /// The group to enter before anything else.
    pub(super) processes_file: Option<PathBuf>,
}

/// What a process tells.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Told {
    /// Conditions that do not hold.
    pub(super) broken: Vec<String>,
    /// Orders that were committed.
    pub(super) order_count: u64,
    /// Orders by which the counters of districts have grown.
    pub(super) counted_order_count: u64,
    /// Of all that the terminal of one client showed; in words, since JSON has no such numbers.
    pub(super) digest: String,
    pub(super) figures: BTreeMap<String, f64>,
}

/// Runs `job` in a process inside its group. What it tells is there unless it failed.
///
/// # Errors
/// If the process cannot be started. That the contender fails is no error.
pub(super) fn run(job: &Job) -> Result<(Run, Option<Told>), Failure> {
    let run = process::run(super::SUBCOMMAND, job.setting.group_bytes, |processes_file| Job {
        processes_file,
        ..job.clone()
    })?;
    let text = run.outcome.as_ref().ok().and_then(|row| row.first());
    let told = text.and_then(|text| serde_json::from_str(text).ok());
    Ok((run, told))
}

/// Runs the job that stands in `text`.
///
/// # Errors
/// If the limits cannot be set; the engine's.
pub(crate) fn run_as_process(text: &str) -> Result<String, Failure> {
    let job: Job =
        serde_json::from_str(text).map_err(|error| Failure::Run(format!("not a job: {error}")))?;
    let core_count = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let core_count = u32::try_from(core_count).unwrap_or(u32::MAX);
    process::enter(job.processes_file.as_deref(), core_count, job.timeout_s)?;
    process::measured(|| {
        let told = work(&job)?;
        let text = serde_json::to_string(&told).map_err(|it| Failure::Run(it.to_string()))?;
        Ok((vec![text], None))
    })
}

impl Job {
    pub(super) fn tpcc(&self) -> Result<Tpcc, Failure> {
        let (item_count, customer_count) = (self.item_count, self.customer_count);
        let scale = TpccScale { item_count, customer_count };
        Tpcc::with_scale(self.warehouse_count, scale, self.seed)
            .map_err(|error| Failure::Run(error.to_string()))
    }
}

/// Opens, works, asks for the conditions, closes.
///
/// # Errors
/// If the engine fails.
pub(super) fn work(job: &Job) -> Result<Told, Failure> {
    let tpcc = job.tpcc()?;
    let before_bytes = disk_bytes(&job.directory)?;
    let store = job.contender.open(&job.directory, &job.setting)?;
    let loaded_count = store.order_count()?;
    let work = Work {
        tpcc,
        client_count: job.setting.client_count,
        warm_up_count: job.warm_up_count,
        transaction_count: job.transaction_count,
        seed: job.seed,
    };
    let done = clients::work(store.as_ref(), &work)?;
    let broken = store.broken_conditions(&tpcc)?;
    let counted_order_count = store.order_count()? - loaded_count;
    store.close()?;
    let after_bytes = disk_bytes(&job.directory)?;
    let mut figures = done.figures;
    figures.insert("loaded_mb".to_owned(), before_bytes / 1e6);
    figures.insert("disk_mb".to_owned(), after_bytes / 1e6);
    let count = as_float(job.warm_up_count + job.transaction_count);
    let grown = (after_bytes - before_bytes) / count;
    figures.insert("grown_bytes_per_transaction".to_owned(), grown);
    Ok(Told {
        broken,
        order_count: done.order_count,
        counted_order_count,
        digest: format!("{:016x}", done.digest),
        figures,
    })
}
