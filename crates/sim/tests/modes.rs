//! Both modes: response times that can be computed by hand, and equal operation counts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::Nanos;
use nandu_device::Operation;
use nandu_ftl::FtlKind;
use nandu_sim::{
    Arrivals, DriveChoice, InitialState, Input, Job, Measurement, Mode, RunConfig, SimError,
    SimReport, Simulation, Unwatched,
};
use nandu_trace::{RequestSource, TraceError, TraceRequest, WorkloadSpec};
use std::collections::VecDeque;

/// A source of given requests.
struct Listed(VecDeque<TraceRequest>);

impl RequestSource for Listed {
    fn next_batch(
        &mut self,
        batch: &mut Vec<TraceRequest>,
        limit: usize,
    ) -> Result<(), TraceError> {
        batch.extend(self.0.drain(..limit.min(self.0.len())));
        Ok(())
    }
}

const PAGE: u64 = 2048;

fn request(at_us: u64, operation: Operation, offset_bytes: u64, length_bytes: u64) -> TraceRequest {
    let at = Nanos::from_micros(at_us);
    TraceRequest { at, operation, offset_bytes, length_bytes, stream: 0 }
}

/// Runs requests over a filled drive of two dies with one page map, reads of 20 us and programs of
/// 200 us.
fn measure(config: &RunConfig, requests: &[TraceRequest]) -> Measurement {
    let choice = DriveChoice {
        name: "myers_slc".into(),
        settings: vec![
            ("channel_count".into(), "2".into()),
            ("physical_erase_blocks".into(), "64".into()),
        ],
        ..DriveChoice::default()
    };
    let (nand, ftl) = choice.resolve(false).unwrap().build(1).unwrap();
    let mut simulation = Simulation::new(nand, ftl, config).unwrap();
    let mut source = Listed(requests.iter().copied().collect());
    simulation.measure(&mut source, u64::MAX, &mut Unwatched).unwrap()
}

#[test]
fn responses_of_a_single_server_are_those_of_first_come_first_served() {
    let requests = [
        request(0, Operation::Write, 0, PAGE),
        request(50, Operation::Read, 10 * PAGE, PAGE),
        request(1000, Operation::Write, PAGE, PAGE),
        request(1010, Operation::Write, 2 * PAGE, 2 * PAGE),
    ];
    let measured = measure(&RunConfig::default(), &requests);
    // Writes: 200; 200; after 190 of waiting two programs in a row, 590. The read waits 150 for 20.
    let write = measured.latency_ns["write"];
    assert_eq!((write.count, write.min, write.max), (3, 200_000, 590_000));
    assert!((write.mean - 330_000.0).abs() < 1e-6, "{write:?}");
    let read = measured.latency_ns["read"];
    assert_eq!((read.min, read.max), (170_000, 170_000));
    assert_eq!(measured.simulated, Nanos::from_micros(1600));
}

#[test]
fn the_event_mode_serves_both_dies_at_once_and_completes_out_of_order() {
    let config = RunConfig { mode: Mode::Event, queue_depth: 4, ..RunConfig::default() };
    let requests = [
        request(0, Operation::Write, 0, 2 * PAGE),
        request(0, Operation::Write, 2 * PAGE, PAGE),
        request(0, Operation::Write, 3 * PAGE, PAGE),
    ];
    let measured = measure(&config, &requests);
    // Two pages on two dies take as long as one; the other two queue behind them.
    let write = measured.latency_ns["write"];
    assert_eq!((write.min, write.max), (200_000, 400_000));
    assert_eq!(measured.simulated, Nanos::from_micros(400));
}

#[test]
fn a_full_queue_holds_back_what_has_arrived() {
    let config = RunConfig { mode: Mode::Event, queue_depth: 1, ..RunConfig::default() };
    let requests: Vec<_> =
        (0..3).map(|index| request(0, Operation::Write, index * PAGE, PAGE)).collect();
    let measured = measure(&config, &requests);
    assert_eq!(measured.latency_ns["write"].max, 600_000);
}

#[test]
fn a_write_buffer_acknowledges_at_once_until_it_is_full() {
    let config = RunConfig { mode: Mode::Event, write_buffer_units: 2, ..RunConfig::default() };
    let requests: Vec<_> =
        (0..4).map(|index| request(0, Operation::Write, index * PAGE, PAGE)).collect();
    let measured = measure(&config, &requests);
    let write = measured.latency_ns["write"];
    assert_eq!((write.min, write.max), (0, 200_000));
    // The buffer is empty at the end.
    assert_eq!(measured.simulated, Nanos::from_micros(400));
}

#[test]
fn a_write_of_a_part_reads_the_unit_first() {
    let config = RunConfig::default();
    let measured = measure(&config, &[request(0, Operation::Write, PAGE / 2, PAGE)]);
    // Two halves of two units: two reads and two programs, one after the other.
    assert_eq!(measured.latency_ns["write"].max, 440_000);
    assert_eq!(measured.counters.programmed_pages(), 2);
    let unaligned_read = measure(&config, &[request(0, Operation::Read, PAGE - 1, 2)]);
    assert_eq!(unaligned_read.latency_ns["read"].max, 40_000);
}

#[test]
fn empty_requests_trims_of_parts_and_flushes_cost_nothing() {
    let requests = [
        request(0, Operation::Write, 5, 0),
        request(0, Operation::Trim, 1, PAGE),
        request(0, Operation::Flush, 0, 0),
    ];
    let measured = measure(&RunConfig::default(), &requests);
    assert_eq!(measured.simulated, Nanos::ZERO);
    assert_eq!(measured.counters.cells().count(), 0);
    assert_eq!(measured.request_count, 3);
}

fn report(ftl: &str, mode: Mode, settings: &[(&str, &str)], workload: &str) -> SimReport {
    let mut job = Job {
        drive: DriveChoice { name: "myers_slc".into(), ..DriveChoice::default() },
        input: Input::Workload(workload.into()),
        request_limit: Some(4_000),
        run: RunConfig { mode, initial: Some(InitialState::Sequential), ..RunConfig::default() },
    };
    job.run.warm_up = Some(0.5);
    job.run.checks = true;
    job.set("ftl", ftl).unwrap();
    for (key, value) in settings {
        job.set(key, value).unwrap();
    }
    job.run(&mut Unwatched).unwrap()
}

#[test]
fn both_modes_issue_the_same_commands_for_every_layer() {
    let shapes: [&[(&str, &str)]; 2] = [
        &[("ssd.physical_erase_blocks", "96"), ("logical_pages", "4000")],
        &[
            ("ssd.physical_erase_blocks", "96"),
            ("logical_pages", "4000"),
            ("ssd.channel_count", "2"),
            ("ssd.dies_per_channel", "2"),
        ],
    ];
    for kind in FtlKind::ALL.iter().map(|kind| kind.name()) {
        for shape in shapes {
            for workload in ["uniform", "uniform:read=40,trim=5,size=6KiB", "uniform:rate=2000"] {
                let closed = report(kind, Mode::Closed, shape, workload);
                let event = report(kind, Mode::Event, shape, workload);
                assert_eq!(closed.nand, event.nand, "{kind} {workload}");
                assert_eq!(closed.erase_count, event.erase_count, "{kind} {workload}");
                assert_eq!(closed.host_write_pages, event.host_write_pages);
                assert!(event.simulated_ns <= closed.simulated_ns, "{kind} {workload}");
                assert!(closed.checks.unwrap().audit_count > 0);
            }
        }
    }
}

#[test]
fn writes_that_are_served_together_are_measured_as_one_by_one() {
    // With checks every request is served by itself, without them runs of writes are not.
    let measure = |checks: bool, workload: &str| {
        let choice = DriveChoice {
            name: "myers_slc".into(),
            physical_erase_blocks: Some(64),
            ..DriveChoice::default()
        };
        let (nand, ftl) = choice.resolve(checks).unwrap().build(1).unwrap();
        let config = RunConfig { checks, ..RunConfig::default() };
        let mut simulation = Simulation::new(nand, ftl, &config).unwrap();
        let capacity = simulation.capacity_bytes();
        let spec = WorkloadSpec::parse(workload).unwrap();
        let mut source = spec.source(capacity, PAGE, 1).unwrap();
        simulation.warm_up(&mut source, capacity / PAGE, &mut Unwatched).unwrap();
        let measured = simulation.measure(&mut source, 20_011, &mut Unwatched).unwrap();
        simulation.ftl().audit(simulation.nand());
        let Measurement {
            request_count, counters, latency_ns, erase_counts, simulated, busy, ..
        } = measured;
        (request_count, format!("{counters:?}"), latency_ns, erase_counts, simulated, busy)
    };
    for workload in ["uniform", "zipf:0.9,read=1", "sequential"] {
        assert_eq!(measure(false, workload), measure(true, workload), "{workload}");
    }
}

#[test]
fn a_write_past_the_drive_is_named_by_its_number_wherever_it_stands() {
    for bad in [0, 1, 63, 64, 100] {
        let mut requests: Vec<_> =
            (0..200).map(|unit| request(0, Operation::Write, unit * PAGE, PAGE)).collect();
        requests[bad].offset_bytes = 1 << 40;
        let choice = DriveChoice { name: "myers_slc".into(), ..DriveChoice::default() };
        let (nand, ftl) = choice.resolve(false).unwrap().build(1).unwrap();
        let config = RunConfig { arrivals: Arrivals::Closed, ..RunConfig::default() };
        let mut simulation = Simulation::new(nand, ftl, &config).unwrap();
        let mut source = Listed(requests.into());
        let refused = simulation.measure(&mut source, u64::MAX, &mut Unwatched).unwrap_err();
        let expected = bad as u64 + 1;
        let is_it = matches!(refused, SimError::OutOfRange { request, .. } if request == expected);
        assert!(is_it, "request {expected}: {refused}");
    }
}

#[test]
fn requests_may_lie_centuries_apart_but_not_behind_the_end_of_virtual_time() {
    let choice = DriveChoice { name: "nvme-tlc-2024".into(), ..DriveChoice::default() };
    let years = |count: u64| Nanos::from_seconds(count * 365 * 86_400);
    let apart = |gap: u64| {
        let mut requests =
            [request(0, Operation::Write, 0, 4096), request(0, Operation::Read, 0, 4096)];
        requests[1].at = years(gap);
        requests
    };
    for (mode, background) in [(Mode::Closed, false), (Mode::Event, false), (Mode::Event, true)] {
        let config =
            RunConfig { mode, background, arrivals: Arrivals::Open, ..RunConfig::default() };
        let run = |requests: [TraceRequest; 2]| {
            let small = DriveChoice {
                settings: vec![("capacity".into(), "64MiB".into())],
                ..choice.clone()
            };
            let (nand, ftl) = small.resolve(false).unwrap().build(1).unwrap();
            let mut simulation = Simulation::new(nand, ftl, &config).unwrap();
            simulation.measure(&mut Listed(requests.into()), u64::MAX, &mut Unwatched)
        };
        let measured = run(apart(290)).unwrap();
        assert!(measured.simulated >= years(290), "{mode:?}: {}", measured.simulated);
        let read_ns = measured.latency_ns["read"].max;
        assert!(read_ns < 1_000_000, "{mode:?}: a read takes as long as ever: {read_ns}");
        let refused = run(apart(300)).unwrap_err();
        let is_it = matches!(refused, SimError::TooLate { request: 2 });
        assert!(is_it, "{mode:?}: {refused}");
    }
}
