//! The whole grid of S000 section 8.5: 1, 2, 5 or 10 writers, 5, 25 or 50 readers, three delays, ten
//! layouts, flash and disks. `cargo run --release -p nandu-array --example chapter8 -- calibrated`
//! prints operations per second, the best of each line starred.
#![allow(clippy::print_stdout, reason = "an example prints")]

use nandu_array::chapter8::{DelayReading, Member, Scenario, Summary, run_all};
use nandu_array::{ArrayError, Layout};
use nandu_base::Nanos;

fn main() -> Result<(), ArrayError> {
    let reading = match std::env::args().nth(1).as_deref() {
        Some("calibrated") => DelayReading::Calibrated,
        Some("stated") => DelayReading::Stated,
        _ => DelayReading::Literal,
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let layouts: Vec<Layout> = Layout::all(4).collect();
    let mut lines = Vec::new();
    let mut scenarios = Vec::new();
    for (name, member) in [("flash", Member::thesis_chip()), ("disks", Member::thesis_disk())] {
        for writers in [1, 2, 5, 10] {
            for readers in [5, 25, 50] {
                for delay_us in [200, 1500, 3000] {
                    lines.push(format!("{name} {writers:2} w {readers:2} r {delay_us:4} us"));
                    let load = reading.load(readers, writers, Nanos::from_micros(delay_us));
                    let of = |&layout: &Layout| Scenario::of_thesis(layout, member, load);
                    scenarios.extend(layouts.iter().map(of));
                }
            }
        }
    }
    let results = run_all(&scenarios, 1, threads)?;
    print!("{:22}", reading.label());
    layouts.iter().for_each(|layout| print!("{:>9}", layout.name()));
    println!();
    for (line, results) in lines.iter().zip(results.chunks(layouts.len())) {
        let rates: Vec<f64> = results.iter().map(Summary::operations_per_second).collect();
        let best = rates.iter().copied().fold(0.0, f64::max);
        print!("{line:22}");
        for (rate, summary) in rates.iter().zip(results) {
            let mark = match (summary.converged, *rate >= best) {
                (false, _) => '?',
                (true, true) => '*',
                (true, false) => ' ',
            };
            print!("{rate:8.0}{mark}");
        }
        println!();
    }
    Ok(())
}
