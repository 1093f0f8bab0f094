//! One join in a process of its own.
//!
//! ```text
//!   run ─► nandu-compare join JOB ─┬► exec python SCRIPT JOB          a peer
//!                                  └► join here                       ours
//! ```

use super::contender::{Contender, Means};
use super::query::Query;
use crate::Failure;
use crate::process::{self, Run};
use serde::{Deserialize, Serialize};
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

/// What a process is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    pub(crate) query: Query,
    /// Its tables, the smaller one first.
    pub(crate) tables: Vec<String>,
    /// The directory of all tables.
    pub(crate) data: PathBuf,
    /// Where to spill.
    pub(crate) temp: PathBuf,
    /// The memory that the engine is given; 0 for its default.
    pub(crate) memory_bytes: u64,
    #[serde(rename = "threads")]
    pub(crate) thread_count: u32,
    /// Seconds after which it is killed.
    pub(crate) timeout_s: u32,
    /// The group to enter before anything else.
    pub(crate) processes_file: Option<PathBuf>,
    pub(crate) python: PathBuf,
    /// The directory of the scripts.
    pub(crate) scripts: PathBuf,
    /// Which way of the script's.
    pub(crate) variant: String,
    /// Slices of block nested loops by hand; 0 for the engine's own join.
    #[serde(rename = "slices")]
    pub(crate) slice_count: u32,
}

/// Runs `job` in a process inside a group of `group_bytes`.
///
/// # Errors
/// If the process cannot be started. That the join fails is no error.
pub(crate) fn run(job: &Job, group_bytes: u64) -> Result<Run, Failure> {
    process::run(super::SUBCOMMAND, group_bytes, |processes_file| Job {
        processes_file,
        ..job.clone()
    })
}

/// Runs the job that stands in `text`; of a peer it does not come back.
///
/// # Errors
/// If the limits cannot be set; the engine's.
pub(crate) fn run_as_process(text: &str) -> Result<String, Failure> {
    let job: Job =
        serde_json::from_str(text).map_err(|error| Failure::Run(format!("not a job: {error}")))?;
    process::enter(job.processes_file.as_deref(), job.thread_count, job.timeout_s)?;
    match job.contender.means() {
        Means::Script { script, .. } => {
            let error = Command::new(&job.python).arg(job.scripts.join(script)).arg(text).exec();
            Err(Failure::Run(format!("{}: {error}", job.python.display())))
        }
        Means::Nandu(kind) => process::measured(|| {
            let (row, plan) = super::nandu::answer(&job, kind)?;
            Ok((row, kind.is_none().then(|| plan.to_string())))
        }),
    }
}
