//! A database whose system calls fail, one in each run: strace has the n-th call of one kind answer with an
//! error, and what is found afterwards is held against what the program promised.
//!
//! ```text
//!   for each command ─► run it once under strace, count its calls
//!     for each kind of call, error, n ─► a fresh copy of the database
//!                                     ─► the command with that call failing
//!                                     ─► open, check and read it without strace
//! ```
//!
//! 1. A program ends by itself with a code that it knows: no panic, no signal; if it fails it says why.
//! 2. What was committed before is there. What a command that succeeded did is there, too; what one that
//!    failed did is there or not, never a part of a row.
//! 3. A making that failed can be done again.

use crate::compare_fio::capture;
use crate::kept;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Calls that are made to fail, with the errors that each can answer with.
const CALLS: [(&str, &[&str]); 19] = [
    ("clone3", &["EAGAIN"]),
    ("fallocate", &["EIO", "ENOSPC"]),
    ("fcntl", &["EIO"]),
    ("fdatasync", &["EIO", "ENOSPC"]),
    ("flock", &["EIO"]),
    ("fsync", &["EIO"]),
    ("ftruncate", &["EIO", "ENOSPC"]),
    ("getdents64", &["EIO"]),
    ("io_uring_enter", &["EIO", "EINTR"]),
    ("io_uring_register", &["ENOMEM"]),
    ("io_uring_setup", &["ENOMEM", "ENOSYS"]),
    ("linkat", &["EIO", "ENOSPC"]),
    ("mkdir", &["ENOSPC"]),
    ("openat", &["EIO", "EACCES", "EMFILE"]),
    ("pread64", &["EIO", "EINTR"]),
    ("pwrite64", &["EIO", "EINTR", "ENOSPC"]),
    ("renameat", &["EIO", "ENOSPC"]),
    ("statx", &["EIO"]),
    ("unlinkat", &["EIO"]),
];

/// Keys of the table that is there before.
const KEY_COUNT: u64 = 300;
/// Where nothing says otherwise, calls up to this one are made to fail, each in a run of its own.
const CALLS_MAX: u64 = 40;

/// The command line.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Where `calls.json` is kept, such as results/MACHINE/calls; without it the outcome is shown only.
    #[arg(long)]
    out: Option<PathBuf>,
    /// The last call of each kind that is made to fail.
    #[arg(long, default_value_t = CALLS_MAX)]
    calls: u64,
    /// A release build of `nandu` that is there already.
    #[arg(long)]
    program: Option<PathBuf>,
}

/// One command over the database `shop`.
struct Subject {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Whether the program finds no io_uring, so that it reads and writes by calls that can fail.
    without_ring: bool,
}

const fn subject(
    name: &'static str,
    arguments: &'static [&'static str],
    without_ring: bool,
) -> Subject {
    Subject { name, arguments, without_ring }
}

const INSERT: &[&str] = &["db", "insert", "shop", "c", "1000", "new"];
const LOAD: &[&str] = &["db", "load", "shop", "c", "more.tsv"];
const CREATE: &[&str] = &["db", "create", "fresh", "c", "id:integer", "name:text", "--key", "id"];

const SUBJECTS: [Subject; 6] = [
    subject("insert", INSERT, false),
    subject("insert, no ring", INSERT, true),
    subject("load", LOAD, false),
    subject("load, no ring", LOAD, true),
    subject("create", CREATE, false),
    subject("export", &["db", "export", "shop", "c", "out.csv"], false),
];

/// How the runs of one command, call and error ended.
#[derive(Default, Serialize)]
struct Tally {
    runs: u64,
    succeeded: u64,
    failed: u64,
}

/// A run that broke a rule.
#[derive(Serialize)]
struct Fault {
    run: String,
    what: String,
}

/// Runs all in `root`.
///
/// # Errors
/// If strace is missing, a database cannot be made, or a run broke a rule.
pub(crate) fn run(root: &Path, options: &Options) -> Result<(), String> {
    let version = capture(Command::new("strace").arg("--version")).map_err(|_| {
        "strace does not start; install it with `apt-get install strace`".to_owned()
    })?;
    let program = match &options.program {
        Some(program) => std::path::absolute(program).map_err(|error| error.to_string())?,
        None => crate::compare_fio::build_program(root)?,
    };
    let place = std::path::absolute(root).map_err(|error| error.to_string())?;
    let place = place.join("out").join(format!("calls-{}", std::process::id()));
    let outcome = Bench { program, place: place.clone() }.measure(options);
    // A directory that stays behind is seen and does no harm.
    let _ = std::fs::remove_dir_all(&place);
    let (tallies, faults) = outcome?;
    let count: u64 = tallies.values().map(|tally| tally.runs).sum();
    println!("fail-calls: {count} runs, {} that broke a rule", faults.len());
    if let Some(directory) = &options.out {
        let kept = serde_json::json!({
            "command": format!(
                "cargo xtask fail-calls --calls {} --out {}",
                options.calls, directory.display()
            ),
            "commit": kept::commit_of(root)?,
            "strace": version.lines().next(),
            "run_count": count,
            "faults": faults,
            "runs": tallies,
        });
        kept::store(&root.join(directory), "calls.json", &kept)?;
    }
    if faults.is_empty() { Ok(()) } else { Err(format!("{} runs broke a rule", faults.len())) }
}

type Measured = (BTreeMap<String, Tally>, Vec<Fault>);

/// The program and the directory in which all of it happens.
struct Bench {
    program: PathBuf,
    place: PathBuf,
}

impl Bench {
    fn measure(&self, options: &Options) -> Result<Measured, String> {
        self.prepare()?;
        let (mut tallies, mut faults) = (BTreeMap::<String, Tally>::new(), Vec::new());
        for subject in &SUBJECTS {
            let made = self.calls_of(subject)?;
            for (call, errors) in CALLS {
                let last = made.get(call).copied().unwrap_or(0).min(options.calls);
                for error in errors {
                    for number in 1..=last {
                        let inject = format!("{call}:error={error}:when={number}");
                        let output = self.strace(subject, &inject, None)?;
                        let key = format!("{}, {call}, {error}", subject.name);
                        let tally = tallies.entry(key.clone()).or_default();
                        tally.runs += 1;
                        let succeeded = output.status.success();
                        tally.succeeded += u64::from(succeeded);
                        tally.failed += u64::from(!succeeded);
                        if let Err(what) = self.judge(subject, &output) {
                            println!("fail-calls: {key}, call {number}: {what}");
                            faults.push(Fault { run: format!("{key}, call {number}"), what });
                        }
                    }
                }
            }
            println!("fail-calls: {} is done", subject.name);
        }
        Ok((tallies, faults))
    }

    fn prepare(&self) -> Result<(), String> {
        std::fs::create_dir_all(self.place.join("work")).map_err(|error| error.to_string())?;
        let rows = |first, count| -> String {
            (first..first + count).map(|id| format!("{id}\tname {id}\n")).collect()
        };
        let create: Vec<&str> =
            CREATE.iter().map(|word| if *word == "fresh" { "shop" } else { word }).collect();
        let write = |name: &str, text: String| {
            std::fs::write(self.place.join(name), text).map_err(|error| error.to_string())
        };
        write("rows.tsv", rows(0, KEY_COUNT))?;
        write("more.tsv", rows(1000, KEY_COUNT))?;
        capture(self.plain(&self.place).args(&create))?;
        capture(self.plain(&self.place).args(["db", "load", "shop", "c", "rows.tsv"])).map(drop)
    }

    fn plain(&self, directory: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.current_dir(directory).env("NO_COLOR", "1");
        command
    }

    /// A fresh copy of the database, in which `subject` runs with the given call failing.
    fn strace(
        &self,
        subject: &Subject,
        inject: &str,
        log: Option<&Path>,
    ) -> Result<Output, String> {
        let work = self.place.join("work");
        std::fs::remove_dir_all(&work).map_err(|error| error.to_string())?;
        std::fs::create_dir(&work).map_err(|error| error.to_string())?;
        let sources = ["shop", "more.tsv"].map(|name| self.place.join(name));
        capture(Command::new("cp").arg("-r").args(sources).arg(&work))?;
        let mut command = Command::new("strace");
        command.current_dir(&work).env("NO_COLOR", "1").args(["-f", "-q", "-o"]);
        command.arg(log.unwrap_or(Path::new("/dev/null")));
        if subject.without_ring {
            command.args(["-e", "inject=io_uring_setup:error=ENOSYS"]);
        }
        if !inject.is_empty() {
            command.arg("-e").arg(format!("inject={inject}"));
        }
        command.arg(&self.program).args(subject.arguments);
        command.output().map_err(|error| format!("strace does not start: {error}"))
    }

    /// How often the threads of a command make each call; strace counts those of each thread alone.
    fn calls_of(&self, subject: &Subject) -> Result<BTreeMap<String, u64>, String> {
        let log = self.place.join("calls.log");
        let output = self.strace(subject, "", Some(&log))?;
        self.judge(subject, &output)?;
        if !output.status.success() {
            return Err(format!("{} fails by itself", subject.name));
        }
        let text = std::fs::read_to_string(&log).map_err(|error| error.to_string())?;
        Ok(most_of_a_thread(&text))
    }

    /// What is wrong after a run.
    fn judge(&self, subject: &Subject, output: &Output) -> Result<(), String> {
        let work = self.place.join("work");
        let said = String::from_utf8_lossy(&output.stderr);
        if said.contains("panicked") || !matches!(output.status.code(), Some(0 | 2 | 3 | 127)) {
            return Err(format!("{}: {}", output.status, said.trim()));
        }
        if !output.status.success() && said.trim().is_empty() {
            return Err(format!("{} without a word", output.status));
        }
        let succeeded = output.status.success();
        match subject.name.split(',').next() {
            Some("create") => {
                if succeeded {
                    return capture(self.plain(&work).args(["db", "check", "fresh"])).map(drop);
                }
                // What was made whole before the failure is there, and says so.
                let again = capture(self.plain(&work).args(CREATE));
                again
                    .or_else(|_| capture(self.plain(&work).args(["db", "check", "fresh"])))
                    .map(drop)
            }
            Some("export") => {
                let file = std::fs::read_to_string(work.join("out.csv")).ok();
                let lines = file.map(|text| text.lines().count() as u64);
                match lines {
                    Some(count) if count == KEY_COUNT + 1 => self.rows(&work, 0),
                    None if !succeeded => self.rows(&work, 0),
                    other => Err(format!("{} with {other:?} lines of out.csv", output.status)),
                }
            }
            name => {
                let new = if name == Some("insert") { 1 } else { KEY_COUNT };
                self.rows(&work, if succeeded { new } else { 0 })
            }
        }
    }

    /// Checks the database: the rows from before, and at least so many of the new ones, in order.
    fn rows(&self, work: &Path, least_new: u64) -> Result<(), String> {
        capture(self.plain(work).args(["db", "check", "shop"]))?;
        let found =
            capture(self.plain(work).args(["db", "scan", "shop", "c", "--limit", "10000"]))?;
        let (before, new): (Vec<&str>, Vec<&str>) =
            found.lines().partition(|line| key_of(line).is_some_and(|key| key < KEY_COUNT));
        let is_before = |(key, line): (u64, &&str)| *line == format!("{key}\tname {key}");
        if before.len() as u64 != KEY_COUNT || !(0..).zip(&before).all(is_before) {
            return Err(format!("{} of {KEY_COUNT} rows from before", before.len()));
        }
        let is_new = |(key, line): (u64, &&str)| {
            *line == format!("{key}\tname {key}") || *line == format!("{key}\tnew")
        };
        if (new.len() as u64) < least_new || !(1000..).zip(&new).all(is_new) {
            return Err(format!("{} of {least_new} new rows", new.len()));
        }
        Ok(())
    }
}

fn key_of(line: &str) -> Option<u64> {
    line.split('\t').next()?.parse().ok()
}

/// The most calls of each kind that one thread made, in the log of `strace -f`.
fn most_of_a_thread(log: &str) -> BTreeMap<String, u64> {
    let mut counts = BTreeMap::<(&str, &str), u64>::new();
    for line in log.lines() {
        let Some((thread, rest)) = line.split_once(' ') else { continue };
        // `<... NAME resumed>` is the end of a call that was counted.
        if let Some((name, _)) = rest.trim_start().split_once('(') {
            *counts.entry((thread, name)).or_default() += 1;
        }
    }
    let mut most = BTreeMap::<String, u64>::new();
    for ((_, name), count) in counts {
        let entry = most.entry(name.to_owned()).or_default();
        *entry = (*entry).max(count);
    }
    most
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_thread() {
        let log = "10 openat(AT_FDCWD, \"a\") = 3\n11 openat(AT_FDCWD, \"b\" <unfinished ...>\n\
                   10 read(3, 1) = 1\n11 <... openat resumed>) = 4\n10 openat(4) = 5\n\
                   11 +++ exited with 0 +++\n";
        let expected = [("openat".to_owned(), 2), ("read".to_owned(), 1)];
        assert_eq!(most_of_a_thread(log), BTreeMap::from(expected));
    }

    #[test]
    fn keys_are_what_stands_before_the_tab() {
        assert_eq!((key_of("7\tIda"), key_of("x\ty"), key_of("")), (Some(7), None, None));
    }
}
