//! Switches between workers in a second, by both ways to switch: each of some workers computes for a
//! nanosecond of virtual time, over and over, so that its turn is another's each time. Wall clock, medians of
//! nine rounds; the file of results holds what it prints. Run by `cargo test` it only checks that it runs.
//!
//! 1. A turn that comes back to the worker that gave it is no switch: none is counted where there are two or
//!    more, since the one that computed has more time than the others.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::Nanos;
use nandu_workers::{Schedule, SwitchKind, Work};
use std::time::Instant;

/// How many workers there are. Who passes the baton wakes all threads, so that many of them take as many times
/// as long.
const WORKER_COUNTS: [(SwitchKind, &str, &[u32]); 2] = [
    (SwitchKind::Coroutines, "coroutines", &[2, 16, 64, 1024]),
    (SwitchKind::Baton, "baton", &[2, 16]),
];

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let round_count = if measure { 9 } else { 1 };
    let mut lines = Vec::new();
    for (kind, name, worker_counts) in WORKER_COUNTS {
        let turns = match (kind, measure) {
            (SwitchKind::Coroutines, true) => 2_000_000,
            (SwitchKind::Baton, true) => 10_000,
            (_, false) => 2000,
        };
        for &worker_count in worker_counts {
            let mut rates: Vec<f64> =
                (0..round_count).map(|_| switches_per_second(kind, worker_count, turns)).collect();
            rates.sort_by(f64::total_cmp);
            let [least, median, most] = [0, rates.len() / 2, rates.len() - 1].map(|at| rates[at]);
            lines.push(format!(
                "    {{ \"kind\": \"{name}\", \"worker_count\": {worker_count}, \"switches_per_second\": \
                 {median:.0}, \"least\": {least:.0}, \"most\": {most:.0}, \"switch_ns\": {:.1} }}",
                1e9 / median
            ));
        }
    }
    println!(
        "{{\n  \"command\": \"cargo bench -p nandu-workers --bench switches\",\n  \"round_count\": \
         {round_count},\n  \"rows\": [\n{}\n  ]\n}}",
        lines.join(",\n")
    );
}

/// What so many workers do, who have `turn_count` turns together.
fn switches_per_second(kind: SwitchKind, worker_count: u32, turn_count: u64) -> f64 {
    let turns = turn_count / u64::from(worker_count);
    let work = |_| -> Work<()> {
        Box::new(move || (0..turns).for_each(|_| nandu_workers::spend(Nanos(1))))
    };
    let works = (0..worker_count).map(work).collect();
    let schedule = Schedule { cores: worker_count, kind, ..Schedule::default() };
    let start = Instant::now();
    let ran = schedule.run(works);
    assert!(ran.switch_count >= turns * u64::from(worker_count), "each turn is another's");
    ran.switch_count as f64 / start.elapsed().as_secs_f64()
}
