//! What ends a join of `nandu explain --analyze` early, on real files: Ctrl-C, a full file system, a kill. And
//! what only stands still.
//!
//! 1. A join is met while its spill file lies in the directory of the database.
//! 2. A full file system is a limit on the size of files, which any user may set: a write beyond it fails with
//!    EFBIG, as one to a full disk does with ENOSPC, and the signal that comes with it is ignored.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{failure_of, interrupt, names, run, run_full, start, stderr, stdout_of};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use tempfile::TempDir;

const EXPLAIN: &str = "explain shop customer.c_custkey orders.o_custkey --memory 1MiB --analyze \
                       --join grace_hash --json --no-calibrate";
/// One for each order.
const PAIR_COUNT: u64 = 300_000;

fn words(line: &str) -> Vec<&str> {
    line.split_whitespace().collect()
}

/// A database of 35 MB.
fn shop() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let load = "load tpch --scale-factor 0.2 --row-width s001 --tables customer,orders shop";
    stdout_of(place.path(), &words(load));
    place
}

/// The spill files in the directory of the database.
fn spilled(directory: &Path) -> Vec<PathBuf> {
    let shop = directory.join("shop");
    let names = names(&shop).into_iter().filter(|name| name.starts_with("spill"));
    names.map(|name| shop.join(name)).collect()
}

/// Starts the join and waits until it has spilled something.
fn start_spilling(directory: &Path) -> Child {
    let mut child = start(directory, &words(EXPLAIN));
    let is_spilling = |file: &PathBuf| std::fs::metadata(file).is_ok_and(|file| file.len() > 0);
    while !spilled(directory).iter().any(is_spilling) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before it was met");
        std::thread::yield_now();
    }
    child
}

fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([name, &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// What the join did, run to its end.
fn joined(directory: &Path) -> serde_json::Value {
    told(&stdout_of(directory, &words(EXPLAIN)))
}

fn told(json: &str) -> serde_json::Value {
    let json: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(json["pair_count"], PAIR_COUNT);
    let rows = json["explanation"]["rows"].as_array().unwrap();
    rows.iter().find(|row| !row["actual"].is_null()).unwrap()["actual"].clone()
}

#[test]
fn control_c_ends_a_join_with_its_code_and_no_spill_file() {
    let place = shop();
    let child = start_spilling(place.path());
    interrupt(&child);
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130), "{}", stderr(&output));
    let said = stderr(&output);
    assert!(said.contains("interrupted: spill files are removed"), "{said}");
    assert!(output.stdout.is_empty(), "half an answer is none");
    assert_eq!(spilled(place.path()), Vec::<PathBuf>::new());
    joined(place.path());
}

#[test]
fn a_full_file_system_ends_a_join_with_a_reason_and_no_spill_file() {
    let place = shop();
    let directory = place.path();
    // Half of what the join writes; the log is far shorter.
    let written = joined(directory)["pages_written"].as_u64().unwrap() * 4096;
    let output = run_full(directory, written / 2, &words(EXPLAIN));
    let said = stderr(&output);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_no_room(&said, "grace_hash");
    // The estimates stand there all the same.
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(told["explanation"]["rows"].to_string().contains("the spill file spill-1"), "{told}");
    assert_eq!(spilled(directory), Vec::<PathBuf>::new());
    joined(directory);
}

/// That the error names the place and what to do.
fn assert_no_room(said: &str, join: &str) {
    let told = "no space is left: the spill file spill-1 cannot grow in shop; make room there, or \
                give more memory";
    assert!(said.contains(&format!("error: {join}: {told}")), "{said}");
}

#[test]
fn a_full_disk_that_cannot_even_take_the_list_of_files_keeps_nothing_of_the_joins() {
    let place = tempfile::tempdir().unwrap();
    let script = "mount -t tmpfs -o size=32m none . && cd \"$PWD\" || exit 99
        \"$0\" load tpch --scale-factor 0.05 --row-width s001 --tables customer,orders --log-size 1MiB \
        --quiet shop > /dev/null || exit 98
        free=$(df --output=avail -k . | tail -1)
        head -c $(((free - 100) * 1024)) /dev/zero > ballast
        \"$0\" explain shop customer.c_custkey orders.o_custkey --memory 256KiB --no-calibrate --quiet \
        --analyze --join grace_hash,block_nested_loops
        code=$?; ls shop; rm ballast; \"$0\" db check shop; exit $code";
    let mut command = Command::new("unshare");
    command.args(["-rm", "sh", "-c", script, env!("CARGO_BIN_EXE_nandu")]);
    let output = command.current_dir(place.path()).stdin(Stdio::null()).output().unwrap();
    let (code, said) = (output.status.code(), stderr(&output));
    if code == Some(99) || said.contains("unshare") {
        // Nobody makes a file system of his own here.
        return;
    }
    assert_eq!(code, Some(3), "{said}");
    assert_no_room(&said, "grace_hash");
    let told = String::from_utf8(output.stdout).unwrap();
    for shown in ["no result: no space is left", "as run", "75000 pairs", "82500 rows"] {
        assert!(told.contains(shown), "{shown}: {told}");
    }
    for gone in ["spill-1\n", "nandu.files.new"] {
        assert!(!told.contains(gone), "{gone}: {told}");
    }
}

#[test]
fn after_a_kill_the_next_opening_removes_the_spill_file() {
    let place = shop();
    let mut child = start_spilling(place.path());
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(spilled(place.path()).len(), 1, "nobody was there to remove it");
    let output = run(place.path(), &words("explain shop customer.c_custkey orders.o_custkey"));
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(spilled(place.path()), Vec::<PathBuf>::new());
    assert!(stdout_of(place.path(), &["db", "check", "shop"]).contains("330000 rows"));
    joined(place.path());
}

#[test]
fn time_in_which_others_have_the_processor_is_not_told_as_the_joins() {
    let (place, other) = (shop(), shop());
    let child = start_spilling(place.path());
    signal(&child, "-STOP");
    let runs: Vec<serde_json::Value> = (0..3).map(|_| joined(other.path())).collect();
    signal(&child, "-CONT");
    let output = child.wait_with_output().unwrap();
    let stopped = told(&String::from_utf8(output.stdout).unwrap());
    let of = |actual: &serde_json::Value, name: &str| actual[name].as_u64().unwrap();
    let elsewhere: u64 = runs.iter().map(|run| of(run, "time_ns")).sum();
    assert!(of(&stopped, "time_ns") > elsewhere, "it stood still meanwhile");
    let most = runs.iter().map(|run| of(run, "cpu_ns")).max().unwrap();
    assert!(of(&stopped, "cpu_ns") < 2 * most, "{stopped}, others took {most}");
}

#[test]
fn where_no_join_can_be_run_the_error_says_what_would_do() {
    let directory = tempfile::tempdir().unwrap();
    let directory = directory.path();
    let load = "load tpch --scale-factor 0.001 --tables customer,orders shop";
    stdout_of(directory, &load.split(' ').collect::<Vec<_>>());
    let explain = "explain shop customer.c_custkey orders.o_custkey";
    let words = |more: &str| -> Vec<String> {
        format!("{explain} {more}").split(' ').map(str::to_owned).collect()
    };
    let said = |more: &str| {
        let words = words(more);
        failure_of(directory, &words.iter().map(String::as_str).collect::<Vec<_>>(), 2)
    };
    let first = said("--memory 4KiB");
    assert!(first.contains("no join can be run in 4 KiB; --memory 8KiB is enough"), "{first}");
    let option = first.split_once("--memory ").unwrap().1.split(' ').next().unwrap();
    let again = words(&format!("--memory {option}"));
    stdout_of(directory, &again.iter().map(String::as_str).collect::<Vec<_>>());
    let analyzed = said("--memory 4KiB --analyze");
    assert!(analyzed.contains("no join can be run"), "{analyzed}");
    let huge = said("--memory 999TiB");
    assert!(huge.contains("--memory 999 TiB takes") && huge.contains("of memory"), "{huge}");
}

#[test]
fn ctrl_c_ends_the_measuring_of_the_processor() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "t", "a:integer"]);
    let cache = directory.join("cache");
    let mut command = Command::new(env!("CARGO_BIN_EXE_nandu"));
    command.args(["explain", "shop", "t.a", "t.a"]).current_dir(directory);
    command.env("XDG_CACHE_HOME", &cache).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut lines = std::io::BufRead::lines(std::io::BufReader::new(child.stderr.take().unwrap()));
    let first = lines.next().unwrap().unwrap();
    assert!(first.starts_with("measuring the processor"), "{first}");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let said: Vec<String> = lines.map(Result::unwrap).collect();
    assert!(said.last().unwrap().contains("the processor is not measured"), "{said:?}");
    assert!(!cache.exists(), "nothing is kept");
}

#[test]
fn a_mistake_in_what_is_joined_is_told_before_the_processor_is_measured() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path();
    stdout_of(directory, &["db", "create", "shop", "visits", "day:integer", "name:text"]);
    for (right, wanted) in [
        ("visit.day", "there is no table visit; did you mean `visits`?"),
        ("visits.dya", "there is no column dya in table visits; did you mean `day`?"),
        ("visits.name", "none of them are ever equal"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_nandu"));
        command.args(["explain", "shop", "visits.day", right]).current_dir(directory);
        let output = command.env("XDG_CACHE_HOME", directory.join("cache")).output().unwrap();
        let said = stderr(&output);
        assert_eq!(output.status.code(), Some(2), "{said}");
        assert!(said.contains(wanted) && !said.contains("measuring"), "{said}");
    }
}
