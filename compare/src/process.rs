//! One measurement in a process of its own: inside a memory limit, on so many cores, for so long;
//! what it answered and what it took.
//!
//! ```text
//!   run ─► nandu-compare SUBCOMMAND JOB: enter the group, bind to cores, set the alarm
//!            ├► exec                            a peer
//!            └► work here                       ours
//!       ◄─ one line of JSON, and the kernel's account of the process
//! ```
//!
//! 1. Time, processor time and bytes are those of the work; what a process takes to start, or to
//!    make its input, is not counted. Peaks of memory are those of the whole process; where the work is
//!    that of programs which it starts, of the largest of these.
//! 2. Of a process that failed, all figures are the kernel's account of it, and there is no peak: that
//!    account begins with what the parent had when it made the process.

#![allow(unsafe_code, reason = "wait4, alarm and the affinity of a process have no safe entrance")]

use crate::Failure;
use crate::busy::Watch;
use crate::limit::MemoryLimit;
use crate::measure::{Traffic, as_float, memory_peak_mib};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

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
    #[serde(skip_serializing_if = "Option::is_none")]
    peak_rss_bytes: Option<f64>,
}

/// What the kernel tells of a process that ended.
struct Account {
    status: ExitStatus,
    cpu_s: f64,
    read_bytes: f64,
    written_bytes: f64,
}

/// Runs `nandu-compare SUBCOMMAND JOB` inside a group of `group_bytes`; the job that `job_of` gives
/// names the file by which to enter it.
///
/// # Errors
/// If the process cannot be started. That the work fails is no error.
pub(crate) fn run<J: Serialize>(
    subcommand: &str,
    group_bytes: u64,
    job_of: impl FnOnce(Option<PathBuf>) -> J,
) -> Result<Run, Failure> {
    let limit = MemoryLimit::new(group_bytes);
    let fail = |error: &dyn std::fmt::Display| Failure::Run(format!("{subcommand}: {error}"));
    let program = std::env::current_exe().map_err(|error| fail(&error))?;
    let job = job_of(limit.processes_file());
    let text = serde_json::to_string(&job).map_err(|error| fail(&error))?;
    let watch = Watch::start();
    let started = Instant::now();
    let mut child = Command::new(program)
        .args([subcommand, &text])
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
        if let (Ok(_), Some(answer)) = (&run.outcome, parsed) {
            run.set("seconds", answer.seconds);
            run.set("cpu_s", answer.user_s + answer.system_s);
            run.set("system_s", answer.system_s);
            run.set("read_mb", answer.read_bytes / 1e6);
            run.set("written_mb", answer.written_bytes / 1e6);
            run.set("dropped_mb", answer.dropped_bytes / 1e6);
            if let Some(peak_rss_bytes) = answer.peak_rss_bytes {
                run.set("peak_rss_mb", peak_rss_bytes / 1e6);
            }
        } else {
            run.set("seconds", wall.as_secs_f64());
            run.set("cpu_s", self.cpu_s);
            run.set("read_mb", self.read_bytes / 1e6);
            run.set("written_mb", self.written_bytes / 1e6);
        }
        run
    }
}

/// Enters a group, leaves this process so many cores, and has it end after so many seconds.
///
/// # Errors
/// If one of them cannot be set.
pub(crate) fn enter(
    processes_file: Option<&Path>,
    thread_count: u32,
    timeout_s: u32,
) -> Result<(), Failure> {
    if let Some(path) = processes_file {
        std::fs::write(path, std::process::id().to_string())
            .map_err(|error| Failure::Run(format!("{}: {error}", path.display())))?;
    }
    bind_to_cores(thread_count)?;
    // SAFETY: the call only asks for a signal, which outlives exec and ends the process.
    unsafe { libc::alarm(timeout_s) };
    Ok(())
}

/// The line of JSON that says what `answer` answers, a row and what was planned, and what it takes.
///
/// # Errors
/// As `answer`, and if the kernel does not count.
pub(crate) fn measured(
    answer: impl FnOnce() -> Result<(Vec<String>, Option<String>), Failure>,
) -> Result<String, Failure> {
    let meter = Meter::start()?;
    let (row, plan) = answer()?;
    meter.stop()?.answer(row, plan)
}

/// Counts from some moment on.
pub(crate) struct Meter {
    traffic: Traffic,
    cpu: [f64; 2],
    started: Instant,
}

impl Meter {
    /// From now on.
    ///
    /// # Errors
    /// If the kernel does not count.
    pub(crate) fn start() -> Result<Self, Failure> {
        let (traffic, cpu) = (Traffic::so_far()?, cpu_so_far());
        Ok(Self { traffic, cpu, started: Instant::now() })
    }

    /// What was done since.
    ///
    /// # Errors
    /// If the kernel does not count.
    pub(crate) fn stop(self) -> Result<Spent, Failure> {
        let seconds = self.started.elapsed().as_secs_f64();
        let (traffic, cpu) = (Traffic::so_far()?.since(self.traffic), cpu_so_far());
        Ok(Spent {
            seconds,
            user_s: cpu[0] - self.cpu[0],
            system_s: cpu[1] - self.cpu[1],
            traffic,
            peak_rss_bytes: Some(memory_peak_mib()? * 1_048_576.0),
        })
    }
}

/// What some work took.
pub(crate) struct Spent {
    pub(crate) seconds: f64,
    user_s: f64,
    system_s: f64,
    traffic: Traffic,
    peak_rss_bytes: Option<f64>,
}

impl Spent {
    /// The same where the work was that of programs which were started and have ended: with the peak of the
    /// largest, or none if that is no more than what this process had, with which the account of each begins.
    pub(crate) fn of_programs(self) -> Self {
        let largest_bytes = number(usage_of(libc::RUSAGE_CHILDREN).ru_maxrss) * 1024.0;
        let peak_rss_bytes = self.peak_rss_bytes.filter(|&own| own < largest_bytes);
        Self { peak_rss_bytes: peak_rss_bytes.map(|_| largest_bytes), ..self }
    }

    /// The line of JSON with the row that was answered.
    ///
    /// # Errors
    /// If a figure is none.
    pub(crate) fn answer(self, row: Vec<String>, plan: Option<String>) -> Result<String, Failure> {
        let answer = Answer {
            error: None,
            plan,
            row,
            seconds: self.seconds,
            user_s: self.user_s,
            system_s: self.system_s,
            read_bytes: self.traffic.read_bytes,
            written_bytes: self.traffic.written_bytes,
            dropped_bytes: 0.0,
            peak_rss_bytes: self.peak_rss_bytes,
        };
        serde_json::to_string(&answer).map_err(|error| Failure::Run(error.to_string()))
    }
}

/// Seconds of this process, and of its children that ended, in user and in system mode.
fn cpu_so_far() -> [f64; 2] {
    let of = |who| {
        let usage = usage_of(who);
        [seconds_of(usage.ru_utime), seconds_of(usage.ru_stime)]
    };
    let (own, ended) = (of(libc::RUSAGE_SELF), of(libc::RUSAGE_CHILDREN));
    [own[0] + ended[0], own[1] + ended[1]]
}

/// The kernel's account of this process, or of its children that ended.
fn usage_of(who: libc::c_int) -> libc::rusage {
    // SAFETY: an account is numbers, all of which may be 0.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: the place lives as long as the call, which cannot fail for the caller itself.
    unsafe { libc::getrusage(who, &raw mut usage) };
    usage
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
        Account { status, cpu_s: 2.0, read_bytes: 7e6, written_bytes: 8e6 }
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
        assert_eq!(run.metrics.get("peak_rss_mb"), None, "the kernel's begins with the parent's");
        assert!(judged(1 << 8, "").outcome.unwrap_err().contains("trouble"));
        assert_eq!(judged(libc::SIGALRM, "").outcome.unwrap_err(), "not done after 3 s");
        assert_eq!(judged(libc::SIGKILL, "").outcome.unwrap_err(), "killed by signal 9");
    }

    #[test]
    fn a_child_is_accounted_for() {
        let child = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
        let account = wait(child).unwrap();
        assert_eq!(account.status.code(), Some(7));
    }

    #[test]
    fn the_peak_of_programs_that_were_started_is_theirs() {
        let answer = |spent: Spent| spent.answer(Vec::new(), None).unwrap();
        let peak = |text: &str| serde_json::from_str::<Answer>(text).unwrap().peak_rss_bytes;
        let spent = Meter::start().unwrap().stop().unwrap();
        let own = spent.peak_rss_bytes.unwrap();
        // As many characters as this process has bytes, and some more.
        let count = format!("{:.0}", own + 64e6);
        let script = format!("head -c {count} /dev/zero | tail -c {count} > /dev/null");
        assert!(Command::new("sh").args(["-c", &script]).status().unwrap().success());
        let theirs = peak(&answer(spent.of_programs())).unwrap();
        assert!(theirs > own + 32e6, "{theirs} bytes beside {own}");
        let small = Spent { peak_rss_bytes: Some(1e15), ..Meter::start().unwrap().stop().unwrap() };
        assert_eq!(peak(&answer(small.of_programs())), None);
    }
}
