//! What a simulation takes of this process's memory, beside what [`Setup::memory`] says before it begins.
//!
//! Each simulation runs in a process of its own, since memory that an earlier one gave back would hide
//! what the next one takes: the test starts its own program again and asks for one case.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_ftl::FtlKind;
use nandu_sim::{DriveChoice, Input, Job, RunConfig, Unwatched};
use std::process::Command;

/// Erase blocks of a small array and of a large one, of 64 flash pages each. What the program takes
/// whatever it simulates is in both.
const ERASE_BLOCK_COUNTS: [u32; 2] = [1024, 6144];
/// Names the case and the erase blocks for the child.
const CASE: &str = "NANDU_MEMORY_CASE";

/// The job of a case, a layer and behind a plus sign what differs, over so many erase blocks.
fn job(case: &str, erase_block_count: u32) -> Job {
    let (ftl, options) = case.split_once('+').unwrap_or((case, ""));
    let mut job = Job {
        drive: DriveChoice { name: "myers_slc".into(), ..DriveChoice::default() },
        input: Input::Workload("uniform".into()),
        request_limit: Some(1000),
        run: RunConfig::default(),
    };
    job.drive.ftl = Some(ftl.into());
    job.drive.physical_erase_blocks = Some(erase_block_count);
    job.run.warm_up = Some(0.02);
    match options {
        "" => {}
        // All units are written, so that there is something to compare them with.
        "check" => (job.run.checks, job.run.warm_up) = (true, Some(1.5)),
        "event" => job.set("mode", "event").unwrap(),
        "units" => job.set("ftl.unit_bytes", "512").unwrap(),
        other => panic!("no such case: {other}"),
    }
    job
}

/// A row of `/proc/self/status` in bytes.
fn status_bytes(name: &str) -> u64 {
    let text = std::fs::read_to_string("/proc/self/status").unwrap();
    let rest = text.lines().find_map(|line| line.strip_prefix(name)).unwrap();
    rest.trim().strip_suffix("kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

/// What a simulation takes in a process of its own.
fn bytes_taken(case: &str, erase_block_count: u32) -> u64 {
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["a_simulation_takes_what_is_said_before_it_begins", "--exact", "--nocapture"])
        .env(CASE, format!("{case} {erase_block_count}"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let took = said.split_once("took=").unwrap_or_else(|| panic!("{case}: {said}")).1;
    took.split_whitespace().next().unwrap().parse().unwrap()
}

#[test]
fn a_simulation_takes_what_is_said_before_it_begins() {
    if let Ok(asked) = std::env::var(CASE) {
        let (case, erase_block_count) = asked.split_once(' ').unwrap();
        job(case, erase_block_count.parse().unwrap()).run(&mut Unwatched).unwrap();
        println!("took={}", status_bytes("VmHWM:"));
        return;
    }
    let mut cases: Vec<String> = FtlKind::ALL.iter().map(|kind| kind.name().to_owned()).collect();
    cases.extend(["page+check", "fast+check", "page+event", "page+units"].map(str::to_owned));
    let mut wrong = Vec::new();
    for case in cases {
        let [small, large] = ERASE_BLOCK_COUNTS.map(|count| {
            let job = job(&case, count);
            let setup = job.drive.resolve(false).unwrap();
            let pages = setup.nand.geometry.flash_page_count();
            (pages, bytes_taken(&case, count), setup.memory(&job.run).0)
        });
        let pages = (large.0 - small.0) as f64;
        let (took, told) = ((large.1 - small.1) as f64 / pages, (large.2 - small.2) as f64 / pages);
        let line = format!("{case}: {took:.1} B a page, {told:.1} told");
        println!("{line}");
        if (took / told - 1.0).abs() > 0.3 {
            wrong.push(line);
        }
    }
    assert!(wrong.is_empty(), "more than 30 % off: {wrong:#?}");
}
