//! The controller's cache against Mattson's stack distances, its accounts, and response times that can
//! be computed by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Cause, FlashOperation, Nanos, to_index};
use nandu_device::Operation;
use nandu_ftl::FtlKind;
use nandu_sim::{
    Arrivals, CacheUse, DriveChoice, InitialState, Input, Job, Measurement, Mode, RunConfig,
    SimReport, Simulation, Unwatched,
};
use nandu_trace::{RequestSource, TraceError, TraceRequest, WorkloadSpec};
use std::collections::VecDeque;

const PAGE: u64 = 2048;

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

/// A filled chip with a page map, reads of 20 us and programs of 200 us.
fn simulation(config: &RunConfig, dies: &str) -> Simulation {
    let choice = DriveChoice {
        name: "myers_slc".into(),
        physical_erase_blocks: Some(64),
        settings: vec![("channel_count".into(), dies.into())],
        ..DriveChoice::default()
    };
    let (nand, ftl) = choice.resolve(config.checks).unwrap().build(1).unwrap();
    Simulation::new(nand, ftl, config).unwrap()
}

fn measure(config: &RunConfig, dies: &str, requests: &[TraceRequest]) -> Measurement {
    let mut source = Listed(requests.iter().copied().collect());
    simulation(config, dies).measure(&mut source, u64::MAX, &mut Unwatched).unwrap()
}

fn cached(mode: Mode, cache_units: u32) -> RunConfig {
    RunConfig { mode, cache_units, arrivals: Arrivals::Closed, ..RunConfig::default() }
}

fn request(operation: Operation, unit: u64, count: u64) -> TraceRequest {
    let (offset_bytes, length_bytes) = (unit * PAGE, count * PAGE);
    TraceRequest { at: Nanos::ZERO, operation, offset_bytes, length_bytes, stream: 0 }
}

fn write(unit: u64) -> TraceRequest {
    request(Operation::Write, unit, 1)
}

fn read(unit: u64) -> TraceRequest {
    request(Operation::Read, unit, 1)
}

// ---- stack distances ----

/// Sums over prefixes, with single elements that change (Fenwick 1994).
struct Prefixes(Vec<i64>);

impl Prefixes {
    fn add(&mut self, position: usize, amount: i64) {
        let mut index = position + 1;
        while index < self.0.len() {
            self.0[index] += amount;
            index += index & index.wrapping_neg();
        }
    }

    /// Of the elements before `position`.
    fn sum(&self, position: usize) -> i64 {
        let (mut index, mut sum) = (position, 0);
        while index > 0 {
            sum += self.0[index];
            index &= index - 1;
        }
        sum
    }
}

/// What a unit was, when it is referred to.
#[derive(Clone, Copy, Default)]
struct History {
    /// One more than the position of the last reference.
    last: usize,
    /// Furthest down in the stack since it was written; none if it never was.
    deepest_since_write: Option<i64>,
}

/// The units that requests refer to, and whether they write: a part of a unit is read first.
fn references(requests: &[TraceRequest]) -> Vec<(u64, bool)> {
    let mut references = Vec::new();
    for request in requests {
        let (first, end) = (request.offset_bytes, request.offset_bytes + request.length_bytes);
        for unit in first / PAGE..end.div_ceil(PAGE) {
            let is_whole = unit * PAGE >= first && (unit + 1) * PAGE <= end;
            match request.operation {
                Operation::Write if is_whole => references.push((unit, true)),
                Operation::Write => references.extend([(unit, false), (unit, true)]),
                _ => references.push((unit, false)),
            }
        }
    }
    references
}

/// What a cache of each of these sizes does, by distances in one stack (Mattson and others 1970): a unit
/// is held where at most as many different units were referred to since, itself included.
fn by_stack_distance(requests: &[TraceRequest], sizes: &[u32]) -> Vec<CacheUse> {
    let references = references(requests);
    let unit_count = references.iter().map(|&(unit, _)| unit + 1).max().unwrap_or(0);
    let mut units = vec![History::default(); to_index(unit_count)];
    let mut newest = Prefixes(vec![0; references.len() + 1]);
    let mut found: Vec<CacheUse> = sizes
        .iter()
        .map(|&size| CacheUse { unit_count: size.into(), ..CacheUse::default() })
        .collect();
    for (position, &(unit, writes)) in references.iter().enumerate() {
        let history = &mut units[to_index(unit)];
        let mut distance = i64::MAX;
        if history.last > 0 {
            distance = 1 + newest.sum(position) - newest.sum(history.last);
            newest.add(history.last - 1, -1);
        }
        newest.add(position, 1);
        history.last = position + 1;
        let deepest = history.deepest_since_write.map(|deepest| deepest.max(distance));
        history.deepest_since_write = if writes { Some(0) } else { deepest };
        for (use_, &size) in found.iter_mut().zip(sizes) {
            let reaches = |depth: i64| depth <= i64::from(size);
            match writes {
                true => use_.merged_writes += u64::from(deepest.is_some_and(reaches)),
                false if reaches(distance) => use_.hits += 1,
                false => use_.misses += 1,
            }
        }
    }
    // A unit is dirty at the end that has not left the stack's top since it was written.
    for history in units.iter().filter(|history| history.last > 0) {
        let below = newest.sum(references.len()) - newest.sum(history.last) + 1;
        let deepest = history.deepest_since_write.map(|deepest| deepest.max(below));
        for (use_, &size) in found.iter_mut().zip(sizes) {
            use_.dirty_units += u64::from(deepest.is_some_and(|depth| depth <= i64::from(size)));
        }
    }
    let writes = references.iter().filter(|&&(_, writes)| writes).count() as u64;
    for use_ in &mut found {
        use_.evicted_writes = writes - use_.merged_writes - use_.dirty_units;
    }
    found
}

#[test]
fn hits_and_merges_are_those_of_stack_distances_for_every_size() {
    let sizes = [1, 2, 10, 100, 700, 2000, 5000];
    for workload in [
        "uniform:read=100",
        "zipf:0.9,read=100",
        "uniform:read=40",
        "zipf:0.9,read=50",
        "zipf:1.1",
        "zipf:0.8,read=30,size=5KiB,align=512",
    ] {
        let unit_count = simulation(&cached(Mode::Closed, 1), "2").capacity_bytes() / PAGE;
        let requests = {
            let spec = WorkloadSpec::parse(workload).unwrap();
            let mut source = spec.source(unit_count * PAGE, PAGE, 7).unwrap();
            let mut requests = Vec::new();
            source.next_batch(&mut requests, 20_000).unwrap();
            requests
        };
        let expected = by_stack_distance(&requests, &sizes);
        for (mut expected, size) in expected.into_iter().zip(sizes) {
            for mode in [Mode::Closed, Mode::Event] {
                // More than the drive has is no use.
                expected.unit_count = u64::from(size).min(unit_count);
                let measured = measure(&cached(mode, size), "2", &requests);
                assert_eq!(measured.cache, Some(expected), "{workload} {size} {mode:?}");
                let programs = measured.counters.get(FlashOperation::Program, Cause::Host);
                assert_eq!(programs, expected.evicted_writes, "{workload} {size}");
            }
        }
    }
}

#[test]
fn the_distances_of_the_oracle_are_those_of_a_stack_that_is_searched() {
    let spec = WorkloadSpec::parse("zipf:0.9,read=60").unwrap();
    let mut source = spec.source(300 * PAGE, PAGE, 3).unwrap();
    let mut requests = Vec::new();
    source.next_batch(&mut requests, 3000).unwrap();
    for size in [3, 30, 200] {
        let (mut stack, mut hits) = (Vec::<u64>::new(), 0);
        for request in &requests {
            let unit = request.offset_bytes / PAGE;
            let depth = stack.iter().rev().position(|&other| other == unit);
            if let Some(depth) = depth {
                stack.remove(stack.len() - 1 - depth);
            }
            let is_hit = depth.is_some_and(|depth| depth < size);
            hits += u64::from(is_hit && request.operation == Operation::Read);
            stack.push(unit);
        }
        let size = u32::try_from(size).unwrap();
        assert_eq!(by_stack_distance(&requests, &[size])[0].hits, hits);
    }
}

// ---- accounts ----

fn report(ftl: &str, mode: Mode, settings: &[(&str, &str)], workload: &str) -> SimReport {
    let mut job = Job {
        drive: DriveChoice { name: "myers_slc".into(), ..DriveChoice::default() },
        input: Input::Workload(workload.into()),
        request_limit: Some(4_000),
        run: RunConfig { mode, initial: Some(InitialState::Sequential), ..RunConfig::default() },
    };
    job.run.warm_up = Some(0.5);
    job.run.checks = true;
    for (key, value) in [("ftl", ftl), ("physical_erase_blocks", "96"), ("logical_pages", "4000")] {
        job.set(key, value).unwrap();
    }
    for (key, value) in settings {
        job.set(key, value).unwrap();
    }
    job.run(&mut Unwatched).unwrap()
}

#[test]
fn checks_hold_through_the_cache_of_every_layer_and_both_modes_issue_the_same_commands() {
    for ftl in FtlKind::ALL.iter().map(|kind| kind.name()) {
        for workload in ["zipf:0.9,read=30", "uniform:read=40,trim=5,size=6KiB,align=512"] {
            for cache_units in ["1", "300"] {
                let settings = [("cache_units", cache_units), ("ssd.channel_count", "2")];
                let closed = report(ftl, Mode::Closed, &settings, workload);
                let event = report(ftl, Mode::Event, &settings, workload);
                assert_eq!(closed.nand, event.nand, "{ftl} {workload}");
                assert_eq!(closed.cache, event.cache, "{ftl} {workload}");
                assert!(event.simulated_ns <= closed.simulated_ns, "{ftl} {workload}");
                assert!(closed.checks.unwrap().compared_units > 1000);
            }
        }
    }
}

#[test]
fn evictions_that_wait_in_an_open_row_for_the_next_one_come_to_an_end() {
    // Four units share a flash page, and a write of a part reads what an eviction made room for.
    for mode in [Mode::Closed, Mode::Event] {
        for (cache_units, depth) in [("1", "1"), ("1", "8"), ("3", "2"), ("64", "32")] {
            let settings = [
                ("cache_units", cache_units),
                ("queue_depth", depth),
                ("logical_pages", "1000"),
                ("ssd.ftl.unit_bytes", "512"),
                ("ssd.channel_count", "2"),
            ];
            let workload = "uniform:read=20,trim=2,size=1KiB,align=256";
            let done = report("page", mode, &settings, workload);
            assert_eq!(done.request_count, 4000);
            let cache = done.cache.unwrap();
            assert!(cache.misses > 0 && cache.evicted_writes > 0, "{cache:?}");
        }
    }
}

#[test]
fn writes_are_merged_evicted_flushed_trimmed_or_held_dirty() {
    let requests = [
        write(0),
        write(1),
        write(1),
        write(2),
        write(3),
        request(Operation::Trim, 2, 1),
        request(Operation::Flush, 0, 0),
        write(1),
        write(4),
        write(5),
        write(5),
        request(Operation::Trim, 100, 1000),
    ];
    for mode in [Mode::Closed, Mode::Event] {
        let config = RunConfig { queue_depth: 1, ..cached(mode, 3) };
        let cache = measure(&config, "1", &requests).cache.unwrap();
        // 0 is evicted by 3, 2 is trimmed, 1 and 3 are flushed; 5 drives out 3, which is clean.
        let expected = CacheUse {
            unit_count: 3,
            merged_writes: 2,
            evicted_writes: 1,
            flushed_writes: 2,
            trimmed_writes: 1,
            dirty_units: 3,
            ..CacheUse::default()
        };
        assert_eq!(cache, expected);
    }
}

#[test]
fn without_the_cache_nothing_is_reported_and_with_it_the_closed_form_is_not() {
    let plain = report("page", Mode::Closed, &[], "uniform");
    assert!(plain.cache.is_none() && plain.closed_form.is_some());
    let json = serde_json::to_value(&plain).unwrap();
    assert!(json.get("cache").is_none());
    let cached = report("page", Mode::Closed, &[("cache_units", "8")], "uniform");
    assert!(cached.cache.is_some() && cached.closed_form.is_none());
}

// ---- response times ----

#[test]
fn responses_are_nothing_a_read_or_the_write_that_makes_room() {
    for mode in [Mode::Closed, Mode::Event] {
        let config = RunConfig { queue_depth: 1, ..cached(mode, 2) };
        let latency = |requests: &[TraceRequest], operation: &str| {
            let of = measure(&config, "1", requests).latency_ns[operation];
            (of.count, of.min, of.max, of.mean)
        };
        assert_eq!(latency(&[write(0), write(1), write(0)], "write"), (3, 0, 0, 0.0));
        let full = [write(0), write(1), write(2)];
        assert_eq!(latency(&full, "write"), (3, 0, 200_000, 200_000.0 / 3.0));
        assert_eq!(latency(&[read(0), read(0)], "read"), (2, 0, 20_000, 10_000.0));
        // The oldest dirty one is written, then the unit is read.
        let makes_room = [write(0), write(1), read(5)];
        assert_eq!(latency(&makes_room, "read"), (1, 220_000, 220_000, 220_000.0));
        // Clean ones make room at no cost.
        let clean = [read(0), read(1), write(2), read(2)];
        assert_eq!(latency(&clean, "write"), (1, 0, 0, 0.0));
        let flush = [write(0), write(1), request(Operation::Flush, 0, 0)];
        assert_eq!(latency(&flush, "flush"), (1, 400_000, 400_000, 400_000.0));
        // A part of a unit is read once.
        let part = TraceRequest { length_bytes: 512, ..write(7) };
        assert_eq!(latency(&[part, part], "write"), (2, 0, 20_000, 10_000.0));
    }
}

#[test]
fn in_the_event_mode_a_hit_waits_for_the_read_that_brings_it_and_dies_work_side_by_side() {
    let config = cached(Mode::Event, 4);
    let two = measure(&config, "2", &[read(0), read(0)]);
    assert_eq!((two.latency_ns["read"].min, two.latency_ns["read"].max), (20_000, 20_000));
    assert_eq!(two.cache.unwrap().hits, 1);
    // Two of four dirty units are on each die.
    let flush = [write(0), write(1), write(2), write(3), request(Operation::Flush, 0, 0)];
    assert_eq!(measure(&config, "2", &flush).latency_ns["flush"].max, 400_000);
}

#[test]
fn a_cache_and_a_write_buffer_are_refused_together() {
    let config = RunConfig { write_buffer_units: 4, ..cached(Mode::Event, 4) };
    let choice = DriveChoice { name: "myers_slc".into(), ..DriveChoice::default() };
    let (nand, ftl) = choice.resolve(false).unwrap().build(1).unwrap();
    let error = Simulation::new(nand, ftl, &config).unwrap_err().to_string();
    assert!(error.contains("give one of both"), "{error}");
}
