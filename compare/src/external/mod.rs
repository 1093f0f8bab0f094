//! Sorts of records beyond memory beside STXXL, `DuckDB` and GNU sort, and beside what the disk gives;
//! breadth-first search beside STXXL and a mapped file: `cargo xtask compare-external`.
//!
//! ```text
//!   stock: program of C++, environment of Python, inputs that others read from files
//!   plan: for each headroom, repetition, contender
//!            └► a process inside a memory limit ─► row, what it took
//!         ─► rows compared ─► medians ─► results/MACHINE/compare-external
//! ```
//!
//! What is asked and how each contender is set stands in `docs/compare-external.md`.

mod contender;
mod graph;
mod nandu;
mod peers;
mod plan;
mod program;
mod question;
mod results;
mod table;

pub(crate) use plan::{Options, run};

use crate::{Failure, process};
use contender::Contender;
use question::Question;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// The first word of the command line of this comparison.
pub(crate) const COMPARISON: &str = "external";
/// The first word of the command line of one of its runs; the second is the job.
pub(crate) const SUBCOMMAND: &str = "external-job";

/// Bytes of a record: a key, and what goes with it.
pub(crate) const RECORD_BYTES: u64 = 16;

/// What a process is asked to do.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) contender: Contender,
    pub(crate) question: Question,
    pub(crate) seed: u64,
    /// The memory that the engine is given.
    pub(crate) memory_bytes: u64,
    pub(crate) block_bytes: u32,
    pub(crate) in_flight: u32,
    #[serde(rename = "threads")]
    pub(crate) thread_count: u32,
    /// Where inputs lie.
    pub(crate) data: PathBuf,
    /// Where to write.
    pub(crate) temp: PathBuf,
    /// Make the input, and nothing else.
    pub(crate) make: bool,
    /// Seconds after which it is killed.
    pub(crate) timeout_s: u32,
    /// The group to enter before anything else.
    pub(crate) processes_file: Option<PathBuf>,
    pub(crate) python: PathBuf,
    /// The directory of scripts and programs.
    pub(crate) programs: PathBuf,
}

/// Runs the job that stands in `text`; of some peers it does not come back.
///
/// # Errors
/// If the limits cannot be set; the engine's.
pub(crate) fn run_as_process(text: &str) -> Result<String, Failure> {
    let job: Job =
        serde_json::from_str(text).map_err(|error| Failure::Run(format!("not a job: {error}")))?;
    process::enter(job.processes_file.as_deref(), job.thread_count, job.timeout_s)?;
    match (job.contender, job.question) {
        (Contender::Nandu, Question::Sort { records }) => nandu::sort(&job, records),
        (Contender::NanduProgram, Question::Sort { .. }) => program::sort(&job),
        (Contender::Fio, Question::Sort { records }) => peers::fio(&job, records),
        (Contender::GnuSort, _) => peers::gnu_sort(&job),
        (Contender::StxxlSort, Question::Sort { records }) => {
            peers::become_stxxl_sort(&job, "sort", records)
        }
        (Contender::StxxlKsort, Question::Sort { records }) => {
            peers::become_stxxl_sort(&job, "ksort", records)
        }
        (Contender::Duckdb, _) => peers::become_duckdb(&job, text),
        (Contender::NanduMr, Question::Bfs { graph, nodes }) => {
            nandu::search(&job, nandu::Search::Mr, graph, nodes)
        }
        (Contender::NanduMm, Question::Bfs { graph, nodes }) => {
            nandu::search(&job, nandu::Search::Mm, graph, nodes)
        }
        (Contender::StxxlMr, Question::Bfs { graph, nodes }) => {
            peers::become_stxxl_bfs(&job, graph, nodes)
        }
        (Contender::Mmap, Question::Bfs { graph, nodes }) => peers::become_mmap(&job, graph, nodes),
        (contender, question) => {
            let what = format!("{} does not answer {question:?}", contender.label());
            Err(Failure::Run(what))
        }
    }
}

/// The key of a record, as splitmix64 gives it; what goes with it is the record's number.
pub(crate) const fn key_of(number: u64, seed: u64) -> u64 {
    let key = number.wrapping_add(seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let key = (key ^ (key >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let key = (key ^ (key >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    key ^ (key >> 31)
}

/// What a sort answers: how many records came out, and a sum that knows their order.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Checksum {
    count: u64,
    sum: u64,
}

impl Checksum {
    /// The next record in order.
    pub(crate) const fn add(&mut self, key: u64) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(self.count.wrapping_mul(key));
    }

    pub(crate) fn row(self) -> Vec<String> {
        vec![self.count.to_string(), self.sum.to_string()]
    }
}
