//! The run: who sorts when, each time in a process of its own.
//!
//! 1. Contenders alternate within a repetition, so that they meet the same weather of the disk.
//! 2. A contender that fails is a result; one whose row is wrong is shown as such, and the run ends
//!    with an error after the table.

use super::contender::Contender;
use super::peers::Stock;
use super::results::{self, Median, Sample};
use super::{Checksum, Job, RECORD_BYTES, key_of, table};
use crate::limit::drop_caches;
use crate::{Failure, process, stock};
use nandu_base::to_index;
use serde::Serialize;
use std::path::PathBuf;

/// Compare nandu's sort of records beyond memory with STXXL, DuckDB and GNU sort, and with what the
/// disk gives fio, side by side in one run.
#[derive(clap::Parser)]
#[command(name = "compare-external", bin_name = "cargo xtask compare-external")]
pub(crate) struct Options {
    /// Memory of an engine, in MB.
    #[arg(long, default_value_t = 256)]
    memory: u64,
    /// How many records of 16 bytes [default: ten times the memory].
    #[arg(long)]
    records: Option<u64>,
    /// What the group of a process may have beside the engine's memory, in MB, separated by commas.
    #[arg(long, value_delimiter = ',', default_value = "128,4000")]
    headroom: Vec<u64>,
    /// Bytes of our blocks, and of fio's.
    #[arg(long, default_value = "1MiB", value_parser = nandu_base::ByteCount::parse)]
    block: nandu_base::ByteCount,
    /// Requests that a stream of ours has in flight beside the block at hand.
    #[arg(long, default_value_t = 4)]
    in_flight: u32,
    /// Threads of an engine, and cores of its process.
    #[arg(long, default_value_t = 2)]
    threads: u32,
    /// How often each sort is run.
    #[arg(long, default_value_t = 3)]
    repetitions: u32,
    /// These contenders only, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Contender>,
    /// Seconds after which a sort is given up.
    #[arg(long, default_value_t = 900)]
    timeout: u32,
    /// What the keys follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where programs and inputs are kept, and where all write, about nine times the records' bytes
    /// [default: nandu/compare-external in the user's cache].
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where results go [default: `results/MACHINE/compare-external` for a run that leaves nothing
    /// out, else nowhere].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Why something is left out; kept with the run and told in its table.
    #[arg(long, value_name = "REASON")]
    because: Option<String>,
    /// Print the medians as JSON in place of the table.
    #[arg(long)]
    json: bool,
}

/// Room beside the memory, in MB, that a whole comparison has to have.
const WHOLE_HEADROOM_MB: [u64; 2] = [128, 4000];
/// How many times the memory its records have to be.
const WHOLE_TIMES: u64 = 10;
/// From how many repetitions on a median is one.
const WHOLE_REPETITIONS: u32 = 3;
const MB: u64 = 1_000_000;

/// What is the same for all sorts, as it stands beside the results.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setting {
    #[serde(rename = "records")]
    pub(super) record_count: u64,
    pub(super) memory_mb: u64,
    pub(super) block_bytes: u32,
    pub(super) in_flight: u32,
    #[serde(rename = "threads")]
    pub(super) thread_count: u32,
    pub(super) repetitions: u32,
    pub(super) seed: u64,
    pub(super) timeout_s: u32,
    /// Why something is left out, if whoever runs it said so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) because: Option<String>,
}

impl Setting {
    /// What a whole comparison has beside `medians`.
    pub(super) fn missing(&self, medians: &[Median]) -> Vec<String> {
        let mut missing = Vec::new();
        let mut miss = |what: &str, absent: Vec<String>| {
            if !absent.is_empty() {
                missing.push(format!("{what}{}", absent.join(", ")));
            }
        };
        let absent = Contender::ALL
            .iter()
            .filter(|it| !medians.iter().any(|median| median.contender == **it));
        miss("", absent.map(|it| it.label().to_string()).collect());
        let absent = WHOLE_HEADROOM_MB
            .iter()
            .filter(|it| !medians.iter().any(|median| median.headroom_mb == **it));
        miss("headroom in MB ", absent.map(ToString::to_string).collect());
        if self.repetitions < WHOLE_REPETITIONS {
            let absent = WHOLE_REPETITIONS - self.repetitions;
            miss("repetitions ", vec![format!("{absent} of {WHOLE_REPETITIONS}")]);
        }
        let bytes = self.record_count * RECORD_BYTES;
        if bytes < WHOLE_TIMES * self.memory_mb * MB {
            miss("", vec![format!("records of {WHOLE_TIMES} times the memory")]);
        }
        missing
    }
}

impl Options {
    fn contenders(&self) -> Vec<Contender> {
        let is_chosen = |it: &Contender| self.only.is_empty() || self.only.contains(it);
        Contender::ALL.into_iter().filter(is_chosen).collect()
    }

    fn setting(&self) -> Result<Setting, Failure> {
        let refuse = |what: &str| Err(Failure::Run(what.into()));
        let Ok(block_bytes) = u32::try_from(self.block.0) else {
            return refuse("a block has less than 4 GiB");
        };
        if self.repetitions == 0 || self.threads == 0 || self.timeout == 0 || self.memory == 0 {
            return refuse("repetitions, threads, memory and the timeout are at least 1");
        }
        let setting = Setting {
            record_count: self
                .records
                .unwrap_or((WHOLE_TIMES * self.memory * MB).div_ceil(RECORD_BYTES)),
            memory_mb: self.memory,
            block_bytes,
            in_flight: self.in_flight,
            thread_count: self.threads,
            repetitions: self.repetitions,
            seed: self.seed,
            timeout_s: self.timeout,
            because: self.because.clone(),
        };
        if setting.record_count == 0 {
            return refuse("there is at least one record");
        }
        Ok(setting)
    }
}

/// Runs the comparison and answers with its table.
///
/// # Errors
/// Peers that cannot be built or installed, a wrong row, or results that cannot be written.
pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    let setting = options.setting()?;
    let directory = match &options.directory {
        Some(directory) => directory.clone(),
        None => stock::default_directory("compare-external")?,
    };
    let contenders = options.contenders();
    let peers = Stock::open(&directory, &contenders)?;
    let root = crate::plan::repository_root();
    let meta = results::meta(&root, &setting, peers.directory());
    let mut samples = all_samples(options, &setting, &peers)?;
    results::judge(&mut samples, &expected_row(&setting));
    let medians = results::medians(&samples);
    let table = table::whole(&medians, &setting);
    let is_whole = setting.missing(&medians).is_empty();
    let kept = match &options.out {
        Some(directory) => Some(directory.clone()),
        None if is_whole => {
            Some(root.join("results").join(crate::results::machine_slug()).join("compare-external"))
        }
        None => None,
    };
    if let Some(directory) = kept {
        let directory = directory.join("sort");
        results::write(&directory, &meta, &samples, &medians, &table)?;
        eprintln!("kept in {}", directory.display());
    }
    let text = if options.json { crate::results::json_of(&meta, &medians) } else { table };
    if samples.iter().any(|sample| sample.is_wrong) {
        crate::show(&text);
        return Err(Failure::Wrong("rows are wrong; the notes below the table say whose".into()));
    }
    Ok(text)
}

/// The row of a right sort, from a sort of the keys in memory.
fn expected_row(setting: &Setting) -> Vec<String> {
    let mut keys: Vec<u64> = Vec::with_capacity(to_index(setting.record_count));
    keys.extend((0..setting.record_count).map(|number| key_of(number, setting.seed)));
    keys.sort_unstable();
    let mut checksum = Checksum::default();
    keys.iter().for_each(|&key| checksum.add(key));
    checksum.row()
}

fn all_samples(
    options: &Options,
    setting: &Setting,
    peers: &Stock,
) -> Result<Vec<Sample>, Failure> {
    let contenders = options.contenders();
    let mut samples = Vec::new();
    for contender in &contenders {
        peers.make_input(&job(*contender, setting, peers))?;
    }
    let of = options.headroom.len() * setting.repetitions as usize * contenders.len();
    for &headroom_mb in &options.headroom {
        for repetition in 1..=setting.repetitions {
            let mut order = contenders.clone();
            let first = (repetition as usize - 1) % order.len().max(1);
            order.rotate_left(first);
            for contender in order {
                let job = job(contender, setting, peers);
                drop_caches(&job.data)?;
                let group_bytes = job.memory_bytes + headroom_mb * MB;
                let run = process::run(super::SUBCOMMAND, group_bytes, |processes_file| Job {
                    processes_file,
                    ..job
                })?;
                peers.clear_temporary()?;
                let (outcome, metrics) = (run.outcome, run.metrics);
                let is_wrong = false;
                let sample =
                    Sample { headroom_mb, repetition, contender, outcome, metrics, is_wrong };
                tell(&sample, samples.len() + 1, of);
                samples.push(sample);
            }
        }
    }
    Ok(samples)
}

fn tell(sample: &Sample, number: usize, of: usize) {
    let figures = ["seconds", "cpu_s", "peak_rss_mb", "written_mb", "others_share"]
        .map(|name| format!("{name} {:.2}", sample.metrics.get(name).unwrap_or(&0.0)));
    let ending = match &sample.outcome {
        Ok(_) => String::new(),
        Err(reason) => format!(", FAILED: {reason}"),
    };
    eprintln!(
        "{number} of {of}: headroom {} MB, repetition {}: {}: {}{ending}",
        sample.headroom_mb,
        sample.repetition,
        sample.contender.label(),
        figures.join(", ")
    );
}

fn job(contender: Contender, setting: &Setting, peers: &Stock) -> Job {
    Job {
        contender,
        record_count: setting.record_count,
        seed: setting.seed,
        memory_bytes: setting.memory_mb * MB,
        block_bytes: setting.block_bytes,
        in_flight: setting.in_flight,
        thread_count: setting.thread_count,
        data: peers.data(setting.record_count, setting.seed),
        temp: peers.temporary(),
        make: false,
        timeout_s: setting.timeout_s,
        processes_file: None,
        python: peers.python(),
        programs: peers.programs(),
    }
}
