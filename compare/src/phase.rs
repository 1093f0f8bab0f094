//! One phase of one engine in a process of its own: open, work, check every answer, measure, close.
//!
//! 1. Making the keys and values is not timed; opening, closing and syncing are told apart.
//! 2. Of inserts and lookups the first half is discarded (S000 section 4.1), bytes are counted over
//!    the whole phase, opening and closing included.
//! 3. Every lookup must find the value that belongs to its key, and a scan tells a digest of what it
//!    visited, which the caller compares with the model.

mod clients;

use crate::Failure;
use crate::engine::{EngineKind, Purpose, Reader, Settings, Store};
use crate::limit::drop_caches;
use crate::measure::{
    Traffic, as_float, disk_bytes, fsync_probe, mean, memory_peak_mib, micros, percentile,
};
use crate::workload::{RECORD_BYTES, Record, Workload, check_value, digest_of};
use nandu_base::to_index;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The first word of the command line of such a process; the second is its [`Job`].
pub(crate) const SUBCOMMAND: &str = "phase";

/// Records in a call of insert where nothing is durable.
const LOAD_RECORDS: u64 = 10_000;
/// Records in a durable commit.
const COMMIT_RECORDS: u64 = 100;
/// Records in a scan.
pub(crate) const SCAN_RECORDS: u64 = 100;
/// Keys in one call for a batch of lookups.
const BATCH_KEYS: usize = 1000;
/// Lookups of each thread on resident data, as a multiple of the keys.
const RESIDENT_PASSES: usize = 4;
/// How often one thread and two take turns on them: whoever else uses the machine disturbs single ones.
const RESIDENT_TURNS: usize = 3;

/// What is measured.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum PhaseKind {
    /// Load all records without durability, close, sync.
    Build,
    /// The same in another database, each call's records in the order of their keys.
    BuildSorted,
    /// More inserts without durability.
    Insert,
    /// The same, each call's records in the order of their keys.
    InsertSorted,
    /// More inserts with a durable commit per 100.
    Durable,
    /// Lookups of D(r) on cold data.
    Lookup,
    /// Scans of 100 records from uniform starts on cold data.
    Scan,
    /// Uniform lookups on cold data by one thread.
    Uniform,
    /// The same by two threads.
    Threads,
    /// The same by eight threads.
    #[value(name = "threads-8")]
    #[serde(rename = "threads-8")]
    Threads8,
    /// The same by one thread that asks for eight at a time.
    #[value(name = "batch-8")]
    #[serde(rename = "batch-8")]
    Batch8,
    /// The same by one thread that asks for 32 at a time.
    #[value(name = "batch-32")]
    #[serde(rename = "batch-32")]
    Batch32,
    /// Lookups of keys that lie in the cache, by one thread and by two.
    Resident,
    /// Half lookups, half updates of single records of a skewed choice, by one thread.
    #[value(name = "mixed-1")]
    #[serde(rename = "mixed-1")]
    Mixed1,
    /// The same by two threads.
    #[value(name = "mixed-2")]
    #[serde(rename = "mixed-2")]
    Mixed2,
    /// The same by eight threads.
    #[value(name = "mixed-8")]
    #[serde(rename = "mixed-8")]
    Mixed8,
    /// Durable commits of a single new record each, by one thread.
    #[value(name = "commit-1")]
    #[serde(rename = "commit-1")]
    Commit1,
    /// The same by eight threads.
    #[value(name = "commit-8")]
    #[serde(rename = "commit-8")]
    Commit8,
}

/// What a process is asked to do.
#[derive(Serialize, Deserialize)]
pub(crate) struct Job {
    pub(crate) engine: EngineKind,
    pub(crate) phase: PhaseKind,
    pub(crate) directory: PathBuf,
    /// The memory limit to enter before anything else.
    pub(crate) processes_file: Option<PathBuf>,
    pub(crate) workload: Workload,
    pub(crate) round: u32,
    pub(crate) operation_count: u64,
    pub(crate) cache_bytes: u64,
    pub(crate) limit_bytes: u64,
    pub(crate) page_bytes: u32,
}

/// What it measured, by name; the unit is the end of the name.
#[derive(Default, Serialize, Deserialize)]
pub(crate) struct Answer {
    pub(crate) metrics: BTreeMap<String, f64>,
    /// Of a scan.
    pub(crate) digest: Option<u64>,
}

impl PhaseKind {
    /// In the order in which they run: reading first, so that all engines read what was built.
    pub(crate) const ALL: [Self; 18] = [
        Self::Build,
        Self::BuildSorted,
        Self::Lookup,
        Self::Scan,
        Self::Uniform,
        Self::Threads,
        Self::Threads8,
        Self::Batch8,
        Self::Batch32,
        Self::Resident,
        Self::Insert,
        Self::InsertSorted,
        Self::Durable,
        Self::Mixed1,
        Self::Mixed2,
        Self::Mixed8,
        Self::Commit1,
        Self::Commit8,
    ];

    /// As it is called in results.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Build => "build",
            Self::BuildSorted => "build-sorted",
            Self::Insert => "insert",
            Self::InsertSorted => "insert-sorted",
            Self::Durable => "durable",
            Self::Lookup => "lookup",
            Self::Scan => "scan",
            Self::Uniform => "uniform",
            Self::Threads => "threads",
            Self::Batch8 => "batch-8",
            Self::Batch32 => "batch-32",
            Self::Resident => "resident",
            Self::Threads8 => "threads-8",
            Self::Mixed1 => "mixed-1",
            Self::Mixed2 => "mixed-2",
            Self::Mixed8 => "mixed-8",
            Self::Commit1 => "commit-1",
            Self::Commit8 => "commit-8",
        }
    }

    /// Whether it changes the database, and so needs a copy of its own.
    pub(crate) fn changes(self) -> bool {
        matches!(self, Self::Insert | Self::InsertSorted | Self::Durable) || self.has_clients()
    }

    /// Whether several threads change single records.
    fn has_clients(self) -> bool {
        use PhaseKind::{Commit1, Commit8, Mixed1, Mixed2, Mixed8};
        matches!(self, Mixed1 | Mixed2 | Mixed8 | Commit1 | Commit8)
    }

    /// The phase that does the same with one thread or one request at a time.
    pub(crate) fn base(self) -> Option<Self> {
        match self {
            Self::Threads | Self::Threads8 | Self::Batch8 | Self::Batch32 => Some(Self::Uniform),
            Self::Mixed2 | Self::Mixed8 => Some(Self::Mixed1),
            Self::Commit8 => Some(Self::Commit1),
            _ => None,
        }
    }

    /// Whether it makes a database.
    pub(crate) fn is_build(self) -> bool {
        matches!(self, Self::Build | Self::BuildSorted)
    }

    /// Whether records come in the order of their keys within a call.
    fn is_sorted(self) -> bool {
        matches!(self, Self::BuildSorted | Self::InsertSorted)
    }

    /// Whether it needs an engine that takes several keys at once.
    pub(crate) fn is_batch(self) -> bool {
        matches!(self, Self::Batch8 | Self::Batch32)
    }
}

impl Answer {
    fn set(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.into(), value);
    }

    /// Of a phase that only reads: how much it read for each of `lookups`.
    fn set_reads(&mut self, since: Traffic, lookups: u64) -> Result<(), Failure> {
        let traffic = Traffic::so_far()?.since(since);
        self.set("read_kib", traffic.read_bytes / 1024.0 / as_float(lookups));
        Ok(())
    }

    fn set_traffic(&mut self, since: Traffic, records: u64) -> Result<(), Failure> {
        let traffic = Traffic::so_far()?.since(since);
        let user_bytes = as_float(records * RECORD_BYTES);
        self.set("written_per_user_byte", traffic.written_bytes / user_bytes);
        self.set("read_per_user_byte", traffic.read_bytes / user_bytes);
        Ok(())
    }
}

/// Runs the job that stands in `text` and answers with one line of JSON.
///
/// # Errors
/// The engine's; [`Failure::Wrong`] if an answer was not what the model has.
pub(crate) fn run_as_process(text: &str) -> Result<String, Failure> {
    let job: Job =
        serde_json::from_str(text).map_err(|error| Failure::Run(format!("not a job: {error}")))?;
    if let Some(path) = &job.processes_file {
        std::fs::write(path, std::process::id().to_string())
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    let answer = run(&job)?;
    serde_json::to_string(&answer).map_err(|error| Failure::Run(error.to_string()))
}

/// Runs a job in this process.
///
/// # Errors
/// As for [`run_as_process`].
pub(crate) fn run(job: &Job) -> Result<Answer, Failure> {
    let mut answer = match job.phase {
        PhaseKind::Build | PhaseKind::BuildSorted => build(job),
        PhaseKind::Insert | PhaseKind::InsertSorted => insert(job),
        PhaseKind::Durable => durable(job),
        PhaseKind::Lookup => lookup(job),
        PhaseKind::Scan => scan(job),
        PhaseKind::Uniform => uniform(job, 1),
        PhaseKind::Threads => uniform(job, 2),
        PhaseKind::Threads8 => uniform(job, 8),
        PhaseKind::Mixed1 => clients::mixed(job, 1),
        PhaseKind::Mixed2 => clients::mixed(job, 2),
        PhaseKind::Mixed8 => clients::mixed(job, 8),
        PhaseKind::Commit1 => clients::commit(job, 1),
        PhaseKind::Commit8 => clients::commit(job, 8),
        PhaseKind::Batch8 | PhaseKind::Batch32 => batch(job),
        PhaseKind::Resident => resident(job),
    }?;
    answer.set("memory_peak_mib", memory_peak_mib()?);
    Ok(answer)
}

impl Job {
    fn open(&self, purpose: Purpose, thread_count: u32) -> Result<Box<dyn Store>, Failure> {
        let Self { cache_bytes, limit_bytes, page_bytes, .. } = *self;
        let directory = &self.directory;
        let queue_depth = if self.phase == PhaseKind::Batch8 { 8 } else { 32 };
        self.engine.open(&Settings {
            directory,
            cache_bytes,
            limit_bytes,
            page_bytes,
            queue_depth,
            purpose,
            thread_count,
        })
    }

    /// Opens it to read what was written, with little memory: that of the engine that wrote it may not be
    /// the system's again yet.
    fn open_to_check(&self) -> Result<Box<dyn Store>, Failure> {
        const MEMORY_BYTES: u64 = 4 << 20;
        self.engine.open(&Settings {
            directory: &self.directory,
            cache_bytes: MEMORY_BYTES,
            limit_bytes: MEMORY_BYTES,
            page_bytes: self.page_bytes,
            queue_depth: 1,
            purpose: Purpose::Read,
            thread_count: 1,
        })
    }

    /// Opens it to read, and waits for what the engine may have put off.
    fn open_to_read(&self, thread_count: u32) -> Result<Box<dyn Store>, Failure> {
        let mut store = self.open(Purpose::Read, thread_count)?;
        store.settle()?;
        Ok(store)
    }

    /// Inserts the records of a call, sorted by their keys first if the phase asks for it.
    fn insert(&self, store: &mut dyn Store, records: &mut [Record]) -> Result<(), Failure> {
        if self.phase.is_sorted() {
            records.sort_unstable_by_key(|record| record.key);
        }
        store.insert(records)
    }
}

fn build(job: &Job) -> Result<Answer, Failure> {
    let before = Traffic::so_far()?;
    let mut keys = job.workload.keys();
    let started = Instant::now();
    let mut store = job.open(Purpose::Load, 1)?;
    let mut time = started.elapsed();
    let mut left = job.workload.record_count;
    while left > 0 {
        let mut records = keys.records(left.min(LOAD_RECORDS));
        left -= records.len() as u64;
        time += timed(|| job.insert(store.as_mut(), &mut records))?;
    }
    time += timed(|| close(store, job))?;
    let mut answer = Answer::default();
    answer.set("seconds", time.as_secs_f64());
    answer.set_traffic(before, job.workload.record_count)?;
    let settling = timed(|| {
        let mut store = job.open(Purpose::Load, 1)?;
        store.settle()?;
        close(store, job)
    })?;
    answer.set("settling_seconds", settling.as_secs_f64());
    let user_bytes = as_float(job.workload.record_count * RECORD_BYTES);
    let written_bytes = Traffic::so_far()?.since(before).written_bytes;
    answer.set("settled_written_per_user_byte", written_bytes / user_bytes);
    answer.set("file_per_user_byte", disk_bytes(&job.directory)? / user_bytes);
    Ok(answer)
}

fn insert(job: &Job) -> Result<Answer, Failure> {
    let before = Traffic::so_far()?;
    let half = job.operation_count / 2;
    let mut keys = job.workload.keys_after_build();
    let [mut first, mut second] = [keys.records(half), keys.records(half)];
    let mut store = job.open(Purpose::Load, 1)?;
    job.insert(store.as_mut(), &mut first)?;
    let time = timed(|| job.insert(store.as_mut(), &mut second))?;
    let flush = timed(|| close(store, job))?;
    let mut answer = Answer::default();
    answer.set("us", micros(time) / as_float(half));
    answer.set("flushed_us", micros(time + flush) / as_float(half));
    answer.set_traffic(before, half * 2)?;
    check_last(job, &second)?;
    Ok(answer)
}

fn durable(job: &Job) -> Result<Answer, Failure> {
    let place = job.directory.parent().unwrap_or(&job.directory);
    let mut probe = fsync_probe(place)?;
    let before = Traffic::so_far()?;
    let half = job.operation_count / 2;
    let mut keys = job.workload.keys_after_build();
    let mut store = job.open(Purpose::LoadDurably, 1)?;
    let mut times = Vec::new();
    let mut last = Vec::new();
    for number in 0..half * 2 / COMMIT_RECORDS {
        last = keys.records(COMMIT_RECORDS);
        let time = timed(|| store.insert(&last))?;
        if number * COMMIT_RECORDS >= half {
            times.push(micros(time));
        }
    }
    let flush = timed(|| close(store, job))?;
    let mut answer = Answer::default();
    let total: f64 = times.iter().sum();
    answer.set("us", total / as_float(half));
    answer.set("flushed_us", (total + micros(flush)) / as_float(half));
    answer.set("commit_p50_us", percentile(&mut times, 50));
    answer.set_traffic(before, half * 2)?;
    probe.extend(fsync_probe(place)?);
    answer.set("fsync_mean_us", mean(&probe));
    answer.set("fsync_p50_us", percentile(&mut probe, 50));
    check_last(job, &last)?;
    Ok(answer)
}

fn lookup(job: &Job) -> Result<Answer, Failure> {
    let keys = job.workload.lookups(job.operation_count, job.round);
    let before = Traffic::so_far()?;
    let started = Instant::now();
    let mut store = job.open(Purpose::Read, 1)?;
    let open = started.elapsed();
    store.settle()?;
    let mut reader = store.reader()?;
    let (first, second) = keys.split_at(keys.len() / 2);
    for &key in first {
        get(reader.as_mut(), key)?;
    }
    let mut times = Vec::with_capacity(second.len());
    for &key in second {
        times.push(micros(timed(|| get(reader.as_mut(), key))?));
    }
    drop(reader);
    store.close()?;
    let mut answer = Answer::default();
    answer.set("open_s", open.as_secs_f64());
    answer.set("mean_us", mean(&times));
    answer.set("p50_us", percentile(&mut times, 50));
    answer.set("p99_us", percentile(&mut times, 99));
    answer.set_reads(before, keys.len() as u64)?;
    Ok(answer)
}

fn scan(job: &Job) -> Result<Answer, Failure> {
    let starts = scan_starts(job);
    let before = Traffic::so_far()?;
    let store = job.open_to_read(1)?;
    let mut reader = store.reader()?;
    let mut digest = 0;
    let mut scan_from = |start: u64| {
        reader.scan(start, SCAN_RECORDS, &mut |key, value| {
            digest = digest_of(digest, key);
            check_value(key, value)
        })
    };
    let (first, second) = starts.split_at(starts.len() / 2);
    first.iter().try_for_each(|&start| scan_from(start))?;
    let time = timed(|| second.iter().try_for_each(|&start| scan_from(start)))?;
    drop(reader);
    store.close()?;
    let mut answer = Answer { digest: Some(digest), ..Answer::default() };
    answer.set("us", micros(time) / as_float(second.len() as u64));
    answer.set_reads(before, starts.len() as u64)?;
    Ok(answer)
}

/// Where the scans of a job start: a tenth as many as it has operations.
pub(crate) fn scan_starts(job: &Job) -> Vec<u64> {
    job.workload.uniform((job.operation_count / 10).max(2), job.round)
}

fn uniform(job: &Job, thread_count: u32) -> Result<Answer, Failure> {
    let keys = job.workload.uniform(job.operation_count, job.round);
    let before = Traffic::so_far()?;
    let store = job.open_to_read(thread_count)?;
    let part = keys.len() / to_index(u64::from(thread_count));
    let parts: Vec<_> = keys.chunks_exact(part).map(|keys| keys.split_at(part / 2)).collect();
    let time = race(store.as_ref(), &parts)?;
    store.close()?;
    let mut answer = Answer::default();
    answer.set("us", micros(time) / as_float((keys.len() / 2) as u64));
    answer.set_reads(before, keys.len() as u64)?;
    Ok(answer)
}

fn batch(job: &Job) -> Result<Answer, Failure> {
    let keys = job.workload.uniform(job.operation_count, job.round);
    let before = Traffic::so_far()?;
    let store = job.open_to_read(1)?;
    let mut reader = store.reader()?;
    let mut ask = |keys: &[u64]| {
        for part in keys.chunks(BATCH_KEYS) {
            match reader.get_batch(part, &mut |key, value| check_value(key, value))? {
                Some(found) if found == part.len() as u64 => {}
                Some(found) => {
                    let asked = part.len();
                    return Err(Failure::Wrong(format!("{found} of {asked} keys were found")));
                }
                None => return Err(Failure::Engine("it takes one key at a time".into())),
            }
        }
        Ok(())
    };
    let (first, second) = keys.split_at(keys.len() / 2);
    ask(first)?;
    let time = timed(|| ask(second))?;
    drop(reader);
    store.close()?;
    let mut answer = Answer::default();
    answer.set("us", micros(time) / as_float(second.len() as u64));
    answer.set_reads(before, keys.len() as u64)?;
    Ok(answer)
}

fn resident(job: &Job) -> Result<Answer, Failure> {
    // A sixth of the cache for each of two threads leaves room for pages that are half full.
    let room = job.cache_bytes / 6 / RECORD_BYTES;
    let keys = job.workload.neighbours(room.min(job.workload.record_count / 4));
    let long = keys.repeat(RESIDENT_PASSES);
    let mut answer = Answer::default();
    let mut turns = [const { Vec::new() }; 2];
    for _ in 0..RESIDENT_TURNS {
        for (thread_count, turns) in [1_u32, 2].into_iter().zip(&mut turns) {
            let store = job.open_to_read(thread_count)?;
            let parts = vec![(keys.as_slice(), long.as_slice()); to_index(u64::from(thread_count))];
            let time = race(store.as_ref(), &parts)?;
            store.close()?;
            turns.push(micros(time) / as_float(long.len() as u64 * u64::from(thread_count)));
        }
    }
    let us = turns.map(|mut turns| percentile(&mut turns, 50));
    answer.set("one_us", us[0]);
    answer.set("two_us", us[1]);
    answer.set("gain", us[0] / us[1]);
    Ok(answer)
}

/// One thread for each part looks up the part's first keys untimed, then all of them their second
/// keys together; the time of that.
fn race(store: &dyn Store, parts: &[(&[u64], &[u64])]) -> Result<Duration, Failure> {
    let barrier = Barrier::new(parts.len());
    let one = |first: &[u64], second: &[u64]| {
        let mut warm = store.reader().and_then(|mut reader| {
            first.iter().try_for_each(|&key| get(reader.as_mut(), key))?;
            Ok(reader)
        });
        // A thread that failed still meets the others, who would wait for ever.
        barrier.wait();
        let started = Instant::now();
        let outcome = match &mut warm {
            Ok(reader) => second.iter().try_for_each(|&key| get(reader.as_mut(), key)),
            Err(_) => Ok(()),
        };
        let time = started.elapsed();
        warm.and(outcome).map(|()| time)
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> =
            parts.iter().map(|&(first, second)| scope.spawn(move || one(first, second))).collect();
        Ok(joined(threads)?.into_iter().max().unwrap_or_default())
    })
}

/// The answers of threads that end, as long as none failed; a panic goes on.
fn joined<T>(
    threads: Vec<std::thread::ScopedJoinHandle<'_, Result<T, Failure>>>,
) -> Result<Vec<T>, Failure> {
    let outcomes: Vec<_> = threads.into_iter().map(|thread| thread.join()).collect();
    let outcome =
        |it: std::thread::Result<_>| it.unwrap_or_else(|it| std::panic::resume_unwind(it));
    outcomes.into_iter().map(outcome).collect()
}

fn get(reader: &mut dyn Reader, key: u64) -> Result<(), Failure> {
    if reader.get(key, &mut |key, value| check_value(key, value))? {
        return Ok(());
    }
    Err(Failure::Wrong(format!("key {key:#018x} is not found")))
}

/// Reads the records of the last insert back after everything was measured.
fn check_last(job: &Job, records: &[Record]) -> Result<(), Failure> {
    let store = job.open_to_check()?;
    let mut reader = store.reader()?;
    records.iter().try_for_each(|record| get(reader.as_mut(), record.key))?;
    drop(reader);
    store.close()
}

/// Closes and makes the files durable.
fn close(store: Box<dyn Store>, job: &Job) -> Result<(), Failure> {
    store.close()?;
    drop_caches(&job.directory)
}

fn timed(work: impl FnOnce() -> Result<(), Failure>) -> Result<Duration, Failure> {
    let started = Instant::now();
    work()?;
    Ok(started.elapsed())
}
