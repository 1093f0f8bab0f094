//! The run: who sorts when, each time in a process of its own.
//!
//! 1. Contenders alternate within a repetition, so that they meet the same weather of the disk.
//! 2. A contender that fails is a result; one whose row is wrong is shown as such, and the run ends
//!    with an error after the table.

use super::contender::Contender;
use super::peers::Stock;
use super::question::{GraphName, Question, Task};
use super::results::{self, Median, Sample};
use super::{Job, RECORD_BYTES, table};
use crate::limit::drop_caches;
use crate::{Failure, process, stock};
use serde::Serialize;
use std::path::PathBuf;

/// Compare what nandu does with records beyond memory with its peers, side by side in one run: its
/// sort with STXXL, DuckDB, GNU sort and what the disk gives fio, its breadth-first search with
/// STXXL and a mapped file.
#[derive(clap::Parser)]
#[command(name = "compare-external", bin_name = "cargo xtask compare-external")]
pub(crate) struct Options {
    /// What is asked.
    #[arg(value_enum)]
    task: Task,
    /// Memory of an engine, in MB [default: 256 to sort, 192 to search].
    #[arg(long)]
    memory: Option<u64>,
    /// How many records of 16 bytes are sorted [default: ten times the memory].
    #[arg(long)]
    records: Option<u64>,
    /// Which graph is searched.
    #[arg(long, value_enum, default_value = "random")]
    graph: GraphName,
    /// About how many nodes it has.
    #[arg(long, default_value_t = 1 << 24)]
    nodes: u64,
    /// What the group of a process may have beside the engine's memory, in MB, separated by commas
    /// [default: 128,4000 to sort, 76 to search, which makes 256 MiB with the memory].
    #[arg(long, value_delimiter = ',')]
    headroom: Vec<u64>,
    /// Bytes of our blocks, and of fio's [default: 1 MiB to sort, 256 KiB to search].
    #[arg(long, value_parser = nandu_base::ByteCount::parse)]
    block: Option<nandu_base::ByteCount>,
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
const SORT_HEADROOM_MB: [u64; 2] = [128, 4000];
const BFS_HEADROOM_MB: [u64; 1] = [76];
/// How many times the memory its records have to be.
const WHOLE_TIMES: u64 = 10;
/// From how many repetitions on a median is one.
const WHOLE_REPETITIONS: u32 = 3;
const MB: u64 = 1_000_000;

/// What is the same for all sorts, as it stands beside the results.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Setting {
    pub(super) question: Question,
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
        let asked = Contender::ALL.iter().filter(|it| it.answers(self.question));
        let absent = asked.filter(|it| !medians.iter().any(|median| median.contender == **it));
        miss("", absent.map(|it| it.label().to_string()).collect());
        let headroom_mb: &[u64] = match self.question {
            Question::Sort { .. } => &SORT_HEADROOM_MB,
            Question::Bfs { .. } => &BFS_HEADROOM_MB,
        };
        let absent = headroom_mb
            .iter()
            .filter(|it| !medians.iter().any(|median| median.headroom_mb == **it));
        miss("headroom in MB ", absent.map(ToString::to_string).collect());
        if self.repetitions < WHOLE_REPETITIONS {
            let absent = WHOLE_REPETITIONS - self.repetitions;
            miss("repetitions ", vec![format!("{absent} of {WHOLE_REPETITIONS}")]);
        }
        if let Question::Sort { records } = self.question
            && records * RECORD_BYTES < WHOLE_TIMES * self.memory_mb * MB
        {
            miss("", vec![format!("records of {WHOLE_TIMES} times the memory")]);
        }
        missing
    }
}

impl Options {
    fn contenders(&self, question: Question) -> Vec<Contender> {
        let is_chosen = |it: &Contender| self.only.is_empty() || self.only.contains(it);
        let asked = Contender::ALL.into_iter().filter(|it| it.answers(question));
        asked.filter(is_chosen).collect()
    }

    fn headroom_mb(&self) -> Vec<u64> {
        match self.task {
            _ if !self.headroom.is_empty() => self.headroom.clone(),
            Task::Sort => SORT_HEADROOM_MB.into(),
            Task::Bfs => BFS_HEADROOM_MB.into(),
        }
    }

    fn setting(&self) -> Result<Setting, Failure> {
        let refuse = |what: &str| Err(Failure::Run(what.into()));
        let (memory_mb, block_bytes) = match self.task {
            Task::Sort => (256, 1 << 20),
            Task::Bfs => (192, 256 << 10),
        };
        let memory_mb = self.memory.unwrap_or(memory_mb);
        let Ok(block_bytes) = u32::try_from(self.block.map_or(block_bytes, |block| block.0)) else {
            return refuse("a block has less than 4 GiB");
        };
        if self.repetitions == 0 || self.threads == 0 || self.timeout == 0 || memory_mb == 0 {
            return refuse("repetitions, threads, memory and the timeout are at least 1");
        }
        let question = match self.task {
            Task::Sort => Question::Sort {
                records: self
                    .records
                    .unwrap_or((WHOLE_TIMES * memory_mb * MB).div_ceil(RECORD_BYTES)),
            },
            Task::Bfs => Question::Bfs { graph: self.graph, nodes: self.nodes },
        };
        match question {
            Question::Sort { records: 0 } => return refuse("there is at least one record"),
            Question::Bfs { nodes, .. } if !(1024..=1 << 32).contains(&nodes) => {
                return refuse("a graph has from 1024 to 2^32 nodes");
            }
            _ => {}
        }
        Ok(Setting {
            question,
            memory_mb,
            block_bytes,
            in_flight: self.in_flight,
            thread_count: self.threads,
            repetitions: self.repetitions,
            seed: self.seed,
            timeout_s: self.timeout,
            because: self.because.clone(),
        })
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
    let contenders = options.contenders(setting.question);
    let peers = Stock::open(&directory, &contenders)?;
    let root = crate::plan::repository_root();
    let meta = results::meta(&setting, peers.directory());
    let mut samples = all_samples(options, &setting, &peers)?;
    let data = peers.data(setting.question, setting.seed);
    results::judge(&mut samples, &setting.question.expected_row(setting.seed, &data)?);
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
        let directory = directory.join(setting.question.label());
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

fn all_samples(
    options: &Options,
    setting: &Setting,
    peers: &Stock,
) -> Result<Vec<Sample>, Failure> {
    let contenders = options.contenders(setting.question);
    let mut samples = Vec::new();
    for contender in &contenders {
        peers.make_input(&job(*contender, setting, peers))?;
    }
    let headroom_mb = options.headroom_mb();
    let of = headroom_mb.len() * setting.repetitions as usize * contenders.len();
    for headroom_mb in headroom_mb {
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
        question: setting.question,
        seed: setting.seed,
        memory_bytes: setting.memory_mb * MB,
        block_bytes: setting.block_bytes,
        in_flight: setting.in_flight,
        thread_count: setting.thread_count,
        data: peers.data(setting.question, setting.seed),
        temp: peers.temporary(),
        make: false,
        timeout_s: setting.timeout_s,
        processes_file: None,
        python: peers.python(),
        programs: peers.programs(),
    }
}
