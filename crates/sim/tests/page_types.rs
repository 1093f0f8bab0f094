//! Flash pages of several types under whole simulations: programs take the mean of the types over whole
//! erase blocks, under sequential and random writes, in both modes.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{FlashOperation, Nanos};
use nandu_sim::{
    DriveChoice, InitialState, Input, Job, Measurement, Mode, RunConfig, Simulation, Unwatched,
};
use nandu_trace::WorkloadSpec;

/// Divisible by two, three and four.
const ERASE_BLOCK_PAGES: u32 = 60;
const MEAN_NS: u64 = 900_000;
const READ_NS: u64 = 20_000;
const ERASE_NS: u64 = 1_500_000;

/// One to four types with one mean.
const TIMES: [&[u64]; 4] = [
    &[900_000],
    &[300_000, 1_500_000],
    &[200_000, 500_000, 2_000_000],
    &[100_000, 300_000, 1_000_000, 2_200_000],
];

/// Writes of whole pages over a chip of one die, with pages of these types.
fn measure(times: &[u64], mode: Mode, workload: &str, initial: InitialState) -> Measurement {
    let list: Vec<String> = times.iter().map(u64::to_string).collect();
    let choice = DriveChoice {
        name: "myers_slc".into(),
        erase_block_pages: Some(ERASE_BLOCK_PAGES),
        physical_erase_blocks: Some(64),
        settings: vec![("chip_overrides.program_type_ns".into(), format!("[{}]", list.join(", ")))],
        ..DriveChoice::default()
    };
    let (nand, ftl) = choice.resolve(false).unwrap().build(1).unwrap();
    let config = RunConfig { mode, initial: Some(initial), ..RunConfig::default() };
    let mut simulation = Simulation::new(nand, ftl, &config).unwrap();
    let capacity = simulation.capacity_bytes();
    let mut source = WorkloadSpec::parse(workload).unwrap().source(capacity, 2048, 1).unwrap();
    let writes = u64::from(ERASE_BLOCK_PAGES) * 50;
    simulation.measure(&mut source, writes, &mut Unwatched).unwrap()
}

#[test]
fn sequential_writes_of_whole_erase_blocks_take_the_mean_of_the_types_each() {
    for times in TIMES {
        let closed = measure(times, Mode::Closed, "sequential", InitialState::Fresh);
        let write = closed.latency_ns["write"];
        assert_eq!(write.count, u64::from(ERASE_BLOCK_PAGES) * 50);
        assert!((write.mean - MEAN_NS as f64).abs() < 1e-6, "{times:?}: {write:?}");
        assert_eq!((write.min, write.max), (times[0], times[times.len() - 1]));
        assert_eq!(closed.simulated, Nanos(MEAN_NS * write.count));
        // One die has its programs one after the other, however many wait.
        let event = measure(times, Mode::Event, "sequential", InitialState::Fresh);
        assert_eq!(event.simulated, closed.simulated, "{times:?}");
    }
}

#[test]
fn random_writes_with_cleaning_take_what_their_commands_do_at_the_mean_of_the_types() {
    for times in TIMES {
        let closed = measure(times, Mode::Closed, "uniform", InitialState::Sequential);
        let total = |operation| closed.counters.total(operation);
        let programs = closed.counters.programmed_pages();
        assert!(programs > closed.request_count, "cleaning copies");
        let expected = programs * MEAN_NS
            + total(FlashOperation::Read) * READ_NS
            + total(FlashOperation::Erase) * ERASE_NS;
        // The open erase blocks of host and cleaning may stand within a word line, at both ends.
        let off: u64 = times.iter().map(|time| time.abs_diff(MEAN_NS)).sum();
        let found = closed.simulated.0;
        assert!(found.abs_diff(expected) <= 4 * off, "{times:?}: {found}, {expected}");
        assert_eq!(closed.busy, closed.simulated);
        let event = measure(times, Mode::Event, "uniform", InitialState::Sequential);
        assert_eq!(format!("{:?}", event.counters), format!("{:?}", closed.counters));
        assert_eq!(event.busy, closed.busy, "{times:?}");
    }
}

#[test]
fn one_type_is_as_none() {
    let alike = |settings: &[(&str, &str)]| {
        let mut job = Job {
            drive: DriveChoice { name: "myers_slc".into(), ..DriveChoice::default() },
            input: Input::Workload("zipf:0.9,read=20".into()),
            request_limit: Some(20_000),
            run: RunConfig::default(),
        };
        job.set("physical_erase_blocks", "64").unwrap();
        for (key, value) in settings {
            job.set(key, value).unwrap();
        }
        job.run(&mut Unwatched).unwrap()
    };
    let plain = alike(&[("chip_overrides.program_ns", "300000")]);
    let typed = alike(&[("chip_overrides.program_type_ns", "[300000]")]);
    assert_eq!((&typed.latency_ns, &typed.nand), (&plain.latency_ns, &plain.nand));
    assert_eq!((typed.simulated_ns, typed.energy), (plain.simulated_ns, plain.energy));
    let none = alike(&[("chip_overrides.program_type_ns", "[]")]);
    assert_eq!(none.latency_ns, alike(&[]).latency_ns);
}
