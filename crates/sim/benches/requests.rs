//! How many requests a second a simulation serves in steady state, uniform page writes at 85 %
//! utilisation: closed on one die, event at queue depth 32 on 32 dies, and the loop alone over a layer
//! that does nothing. The median of five. Run by `cargo test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::{Lpn, Nanos};
use nandu_ftl::{Ftl, FtlError, ReadOutcome};
use nandu_nand::{Content, NandArray};
use nandu_sim::{DriveChoice, Mode, RunConfig, Simulation, Unwatched};
use nandu_trace::WorkloadSpec;
use std::time::Instant;

/// A layer that does nothing, to measure what surrounds it.
#[derive(Debug)]
struct Nothing {
    unit_bytes: u32,
    unit_count: u64,
}

impl Ftl for Nothing {
    fn unit_bytes(&self) -> u32 {
        self.unit_bytes
    }

    fn unit_count(&self) -> u64 {
        self.unit_count
    }

    fn read(
        &mut self,
        _nand: &mut NandArray,
        now: Nanos,
        _lpn: Lpn,
        _bytes: u32,
    ) -> Result<ReadOutcome, FtlError> {
        Ok(ReadOutcome { done_at: now, content: None })
    }

    fn peek(&self, _nand: &NandArray, _lpn: Lpn) -> Content {
        None
    }

    fn write(
        &mut self,
        _nand: &mut NandArray,
        now: Nanos,
        lpn: Lpn,
        _content: Content,
    ) -> Result<Nanos, FtlError> {
        // Now and then another time, so that recording is not flattered.
        Ok(Nanos(now.0 + if lpn.0.is_multiple_of(16) { 1_500_000 + lpn.0 } else { 200_000 }))
    }

    fn trim(
        &mut self,
        _nand: &mut NandArray,
        now: Nanos,
        _first: Lpn,
        _count: u64,
    ) -> Result<Nanos, FtlError> {
        Ok(now)
    }

    fn flush(&mut self, _nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError> {
        Ok(now)
    }

    fn idle(&mut self, _nand: &mut NandArray, _now: Nanos, _until: Nanos) {}

    fn initialise_sequential(&mut self, _nand: &mut NandArray) -> Result<(), FtlError> {
        Ok(())
    }

    fn recover(&mut self, _nand: &mut NandArray, now: Nanos) -> Result<Nanos, FtlError> {
        Ok(now)
    }

    fn host_pages(&self) -> (u64, u64) {
        (0, 0)
    }

    fn map_bytes(&self) -> u64 {
        0
    }

    fn audit(&self, _nand: &NandArray) {}
}

/// Millions of requests a second, the median of five, after a warm-up of four drive writes.
fn rate(mut simulation: Simulation, request_count: u64) -> f64 {
    let (capacity, unit) = (simulation.capacity_bytes(), u64::from(simulation.unit_bytes()));
    let spec = WorkloadSpec::parse("uniform").expect("a workload");
    let mut source = spec.source(capacity, unit, 1).expect("it fits the drive");
    simulation.warm_up(&mut source, 4 * capacity / unit, &mut Unwatched).expect("a sound drive");
    let mut rates: Vec<f64> = (0..5)
        .map(|_| {
            let start = Instant::now();
            simulation.measure(&mut source, request_count, &mut Unwatched).expect("a sound drive");
            request_count as f64 / start.elapsed().as_secs_f64() / 1e6
        })
        .collect();
    rates.sort_by(f64::total_cmp);
    rates[2]
}

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let (erase_blocks, request_count) = if measure { (8192, 4_000_000) } else { (512, 10_000) };
    let choice = |dies: u32| DriveChoice {
        name: "myers_slc".into(),
        physical_erase_blocks: Some(erase_blocks),
        logical_pages: Some(u64::from(erase_blocks) * 64 * 85 / 100),
        settings: vec![
            ("channel_count".into(), dies.min(8).to_string()),
            ("dies_per_channel".into(), dies.div_ceil(8).to_string()),
        ],
        ..DriveChoice::default()
    };
    for (name, mode, dies) in [
        ("closed, 1 die", Mode::Closed, 1),
        ("closed, 32 dies", Mode::Closed, 32),
        ("event, 32 dies", Mode::Event, 32),
    ] {
        let setup = choice(dies).resolve(false).expect("a drive");
        let config = RunConfig { mode, ..RunConfig::default() };
        let (nand, ftl) = setup.build(1).expect("a drive");
        let simulation = Simulation::new(nand, ftl, &config).expect("a drive");
        println!("{name}: {:.2} M requests/s", rate(simulation, request_count));
        let (nand, ftl) = setup.build(1).expect("a drive");
        let nothing = Nothing { unit_bytes: ftl.unit_bytes(), unit_count: ftl.unit_count() };
        let simulation = Simulation::new(nand, Box::new(nothing), &config).expect("a drive");
        println!("{name}, loop alone: {:.2} M requests/s", rate(simulation, request_count));
    }
}
