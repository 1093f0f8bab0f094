//! One join in a process of its own: inside a memory limit, on so many cores, for so long; what it
//! answered and what it took.
//!
//! ```text
//!   run ─► nandu-compare join JOB: enter the group, bind to cores, set the alarm
//!            ├► exec python SCRIPT JOB          a peer
//!            └► join here                       ours
//!       ◄─ one line of JSON, and the kernel's account of the process
//! ```
//!
//! 1. Time, processor time and bytes are those between connecting and the row; what Python takes to
//!    start is not counted. Peaks of memory are those of the whole process.
//! 2. Of a process that failed, all figures are the kernel's account of it.

#![allow(unsafe_code, reason = "wait4, alarm and the affinity of a process have no safe entrance")]

use super::contender::{Contender, Means};
use super::query::Query;
use crate::Failure;
use crate::busy::Watch;
use crate::limit::MemoryLimit;
use crate::measure::{Traffic, as_float, memory_peak_mib};
use nandu_query::JoinKind;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

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

/// What a process answered and took.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    /// The row of the query; else why there is none.
    pub(crate) outcome: Result<Vec<String>, String>,
    /// The join that a planner took.
    pub(crate) plan: Option<String>,
    /// By name; the unit is the end of the name.
    pub(crate) metrics: BTreeMap<String, f64>,
}

/// What a process prints.
#[derive(Default, Serialize, Deserialize)]
#[serde(default)]
struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    error: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    plan: Option<String>,
    row: Vec<String>,
    seconds: f64,
    user_s: f64,
    system_s: f64,
    read_bytes: f64,
    written_bytes: f64,
    dropped_bytes: f64,
    peak_rss_bytes: f64,
}

/// What the kernel tells of a process that ended.
struct Account {
    status: ExitStatus,
    cpu_s: f64,
    peak_rss_bytes: f64,
    read_bytes: f64,
    written_bytes: f64,
}

/// Runs `job` in a process inside a group of `group_bytes`.
///
/// # Errors
/// If the process cannot be started. That the join fails is no error.
pub(crate) fn run(job: &Job, group_bytes: u64) -> Result<Run, Failure> {
    let limit = MemoryLimit::new(group_bytes);
    let job = Job { processes_file: limit.processes_file(), ..job.clone() };
    let fail = |error: &dyn std::fmt::Display| Failure::Run(format!("the join: {error}"));
    let program = std::env::current_exe().map_err(|error| fail(&error))?;
    let text = serde_json::to_string(&job).map_err(|error| fail(&error))?;
    let watch = Watch::start();
    let started = Instant::now();
    let mut child = Command::new(program)
        .args([super::SUBCOMMAND, &text])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| fail(&error))?;
    // Neither is long, so that reading one after the other blocks nobody.
    let mut answer = Vec::new();
    let mut errors = String::new();
    if let Some(pipe) = &mut child.stdout {
        pipe.read_to_end(&mut answer).map_err(|error| fail(&error))?;
    }
    if let Some(pipe) = &mut child.stderr {
        pipe.read_to_string(&mut errors).map_err(|error| fail(&error))?;
    }
    let account = wait(child).map_err(|error| fail(&error))?;
    let wall = started.elapsed();
    let mut run = account.judge(&answer, errors.trim(), &limit, wall);
    run.set("others_share", watch.others_share());
    if let Some(peak) = limit.peak_bytes() {
        run.set("group_peak_mb", as_float(peak) / 1e6);
    }
    Ok(run)
}

impl Run {
    fn set(&mut self, name: &str, value: f64) {
        self.metrics.insert(name.into(), value);
    }
}

impl Account {
    fn judge(&self, answer: &[u8], errors: &str, limit: &MemoryLimit, wall: Duration) -> Run {
        let parsed: Option<Answer> = serde_json::from_slice(answer).ok();
        let outcome = match (&parsed, self.status.signal()) {
            _ if limit.killed_count() > 0 => Err("killed: more memory than the group has".into()),
            (_, Some(libc::SIGALRM)) => Err(format!("not done after {:.0} s", wall.as_secs_f64())),
            (_, Some(signal)) => Err(format!("killed by signal {signal}")),
            (Some(Answer { error: Some(error), .. }), None) => Err(error.clone()),
            (Some(answer), None) if self.status.success() => Ok(answer.row.clone()),
            (_, None) => Err(format!("{}: {errors}", self.status)),
        };
        let plan = parsed.as_ref().and_then(|answer| answer.plan.clone());
        let mut run = Run { outcome, plan, metrics: BTreeMap::new() };
        run.set("peak_rss_mb", self.peak_rss_bytes / 1e6);
        if let (Ok(_), Some(answer)) = (&run.outcome, parsed) {
            run.set("seconds", answer.seconds);
            run.set("cpu_s", answer.user_s + answer.system_s);
            run.set("system_s", answer.system_s);
            run.set("read_mb", answer.read_bytes / 1e6);
            run.set("written_mb", answer.written_bytes / 1e6);
            run.set("dropped_mb", answer.dropped_bytes / 1e6);
            // The kernel's account begins with what the parent had when it made the process.
            run.set("peak_rss_mb", answer.peak_rss_bytes / 1e6);
        } else {
            run.set("seconds", wall.as_secs_f64());
            run.set("cpu_s", self.cpu_s);
            run.set("read_mb", self.read_bytes / 1e6);
            run.set("written_mb", self.written_bytes / 1e6);
        }
        run
    }
}

/// Runs the job that stands in `text`; of a peer it does not come back.
///
/// # Errors
/// If the limits cannot be set; the engine's.
pub(crate) fn run_as_process(text: &str) -> Result<String, Failure> {
    let job: Job =
        serde_json::from_str(text).map_err(|error| Failure::Run(format!("not a job: {error}")))?;
    if let Some(path) = &job.processes_file {
        std::fs::write(path, std::process::id().to_string())
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    bind_to_cores(job.thread_count)?;
    // SAFETY: the call only asks for a signal, which outlives exec and ends the process.
    unsafe { libc::alarm(job.timeout_s) };
    match job.contender.means() {
        Means::Script { script, .. } => {
            let error = Command::new(&job.python).arg(job.scripts.join(script)).arg(text).exec();
            Err(Failure::Run(format!("{}: {error}", job.python.display())))
        }
        Means::Nandu(kind) => {
            let mut answer = measured(|| super::nandu::answer(&job, kind))?;
            if kind.is_some() {
                answer.plan = None;
            }
            serde_json::to_string(&answer).map_err(|error| Failure::Run(error.to_string()))
        }
    }
}

/// What `answer` answers and takes.
fn measured(
    answer: impl FnOnce() -> Result<(Vec<String>, JoinKind), Failure>,
) -> Result<Answer, Failure> {
    let (traffic, [user_s, system_s]) = (Traffic::so_far()?, cpu_so_far());
    let started = Instant::now();
    let (row, plan) = answer()?;
    let seconds = started.elapsed().as_secs_f64();
    let (traffic, cpu) = (Traffic::so_far()?.since(traffic), cpu_so_far());
    Ok(Answer {
        error: None,
        plan: Some(plan.to_string()),
        row,
        seconds,
        user_s: cpu[0] - user_s,
        system_s: cpu[1] - system_s,
        read_bytes: traffic.read_bytes,
        written_bytes: traffic.written_bytes,
        dropped_bytes: 0.0,
        peak_rss_bytes: memory_peak_mib()? * 1_048_576.0,
    })
}

/// Seconds of this process in user and in system mode.
fn cpu_so_far() -> [f64; 2] {
    // SAFETY: an account is numbers, all of which may be 0.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place lives as long as the call, which cannot fail for the caller itself.
    unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) };
    [seconds_of(usage.ru_utime), seconds_of(usage.ru_stime)]
}

/// Leaves this process the last `count` of the cores it may use.
fn bind_to_cores(count: u32) -> Result<(), Failure> {
    let fail = || {
        let error = std::io::Error::last_os_error();
        Failure::Run(format!("the process cannot be bound to {count} cores: {error}"))
    };
    let size = size_of::<libc::cpu_set_t>();
    // SAFETY: a set of cores is an array of bits, all of which may be 0.
    let mut allowed: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is as large as is told.
    if unsafe { libc::sched_getaffinity(0, size, &raw mut allowed) } != 0 {
        return Err(fail());
    }
    let mut left = count;
    for core in (0..8 * size).rev() {
        // SAFETY: the set has so many bits.
        unsafe {
            if libc::CPU_ISSET(core, &allowed) {
                match left.checked_sub(1) {
                    Some(rest) => left = rest,
                    None => libc::CPU_CLR(core, &mut allowed),
                }
            }
        }
    }
    if left > 0 {
        return Err(Failure::Run(format!("this machine lacks {left} of {count} cores")));
    }
    // SAFETY: the set is as large as is told.
    if unsafe { libc::sched_setaffinity(0, size, &raw const allowed) } != 0 {
        return Err(fail());
    }
    Ok(())
}

/// Waits for the child to end.
fn wait(child: Child) -> std::io::Result<Account> {
    const ACCOUNT_BLOCK_BYTES: f64 = 512.0;
    let id = libc::pid_t::try_from(child.id()).expect("it came from the kernel");
    let mut status = 0;
    // SAFETY: an account is numbers, all of which may be 0.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: both places live as long as the call.
    while unsafe { libc::wait4(id, &raw mut status, 0, &raw mut usage) } != id {
        let error = std::io::Error::last_os_error();
        if error.kind() != std::io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    Ok(Account {
        status: ExitStatus::from_raw(status),
        cpu_s: seconds_of(usage.ru_utime) + seconds_of(usage.ru_stime),
        peak_rss_bytes: number(usage.ru_maxrss) * 1024.0,
        read_bytes: number(usage.ru_inblock) * ACCOUNT_BLOCK_BYTES,
        written_bytes: number(usage.ru_oublock) * ACCOUNT_BLOCK_BYTES,
    })
}

fn seconds_of(time: libc::timeval) -> f64 {
    number(time.tv_sec) + number(time.tv_usec) / 1e6
}

fn number(value: i64) -> f64 {
    as_float(u64::try_from(value).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn account(raw_status: i32) -> Account {
        let status = ExitStatus::from_raw(raw_status);
        let [cpu_s, peak_rss_bytes] = [2.0, 50e6];
        Account { status, cpu_s, peak_rss_bytes, read_bytes: 7e6, written_bytes: 8e6 }
    }

    fn judged(raw_status: i32, answer: &str) -> Run {
        let limit = MemoryLimit::None("of a test".into());
        account(raw_status).judge(answer.as_bytes(), "trouble", &limit, Duration::from_secs(3))
    }

    #[test]
    fn a_row_comes_with_the_figures_of_the_query_and_the_peak_of_the_process() {
        let run = judged(
            0,
            r#"{"row": ["3", "4"], "seconds": 1.5, "user_s": 1, "system_s": 0.25,
                "read_bytes": 1e6, "written_bytes": 2e6, "dropped_bytes": 0, "version": "1",
                "peak_rss_bytes": 5e7}"#,
        );
        assert_eq!(run.outcome.unwrap(), ["3", "4"]);
        let figures = ["seconds", "cpu_s", "written_mb", "peak_rss_mb"];
        let found = figures.map(|name| run.metrics[name].to_bits());
        assert_eq!(found, [1.5, 1.25, 2.0, 50.0].map(f64::to_bits));
    }

    #[test]
    fn a_failure_has_its_reason_and_the_account_of_the_kernel() {
        let run = judged(1 << 8, r#"{"error": "too little memory"}"#);
        assert_eq!(run.outcome.unwrap_err(), "too little memory");
        assert_eq!(run.metrics["written_mb"].to_bits(), 8f64.to_bits());
        assert_eq!(run.metrics["seconds"].to_bits(), 3f64.to_bits());
        assert!(judged(1 << 8, "").outcome.unwrap_err().contains("trouble"));
        assert_eq!(judged(libc::SIGALRM, "").outcome.unwrap_err(), "not done after 3 s");
        assert_eq!(judged(libc::SIGKILL, "").outcome.unwrap_err(), "killed by signal 9");
    }

    #[test]
    fn a_child_is_accounted_for() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let account = wait(child).unwrap();
        assert_eq!(account.status.code(), Some(7));
        assert!(account.peak_rss_bytes > 0.0);
    }
}
