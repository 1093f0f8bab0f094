//! Tests that need more than one module: plans and patterns on devices whose times have closed forms.

use crate::streams::{StreamKind, StreamPoint, StreamProfile};
use crate::*;
use nandu_base::{ByteCount, Distribution, FixedHashMap, Nanos, SectorIndex};
use nandu_device::{
    Completion, Counters, Device, DeviceError, DeviceInfo, FaultPlan, FaultyDevice, Geometry,
    MemoryConfig, MemoryDevice, Operation, Recorder, Rejected, Request, TimeSource,
};

const SECTOR_BYTES: u32 = 512;

fn device(sector_count: u64, server_count: u32, bytes_per_second: u64) -> MemoryDevice {
    MemoryDevice::new(MemoryConfig {
        geometry: Geometry::new(SECTOR_BYTES, sector_count).unwrap(),
        access_ns: Nanos::from_micros(10),
        bytes_per_second,
        server_count,
        queue_depth_max: 64,
    })
}

fn random(read_percent: u8, limit: Limit, queue_depth: u32) -> Pattern {
    Pattern { queue_depth, ..Pattern::new(Access::Random, read_percent, 4096, limit) }
}

/// A device in memory whose service a test makes up: the operation, the bytes of the request, its
/// first byte and the time give the access time.
struct Scripted<F> {
    inner: MemoryDevice,
    info: DeviceInfo,
    service: F,
}

impl<F: FnMut(Operation, u64, u64, Nanos) -> Nanos> Scripted<F> {
    fn new(sector_count: u64, service: F) -> Self {
        let inner = device(sector_count, 1, 0);
        Self { info: inner.info().clone(), inner, service }
    }
}

impl<F: FnMut(Operation, u64, u64, Nanos) -> Nanos> Device for Scripted<F> {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn now(&self) -> Nanos {
        self.inner.now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        let bytes = self.info.geometry.bytes_of(request.sector_count);
        let address = request.first_sector.0 * u64::from(self.info.geometry.sector_bytes);
        let service = (self.service)(request.operation, bytes, address, now);
        // One request at a time: the memory's own 10 us count as part of the service.
        self.inner.submit(now + service.saturating_sub(Nanos::from_micros(10)), request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.inner.next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[test]
fn iops_follow_queue_depth_and_servers_exactly() {
    for (queue_depth, server_count) in [(1, 1), (1, 4), (2, 4), (4, 4), (32, 4), (8, 1)] {
        let mut device = device(4096, server_count, 0);
        let pattern = random(100, Limit::requests(8_000), queue_depth);
        let result = run_pattern(&mut device, &pattern, &mut Silent).unwrap();
        // 10 us per request and server; as many servers work as there are requests for.
        let busy = queue_depth.min(server_count);
        let run = &result.runs[0];
        assert_eq!(run.request_count, 8_000);
        assert_eq!(run.elapsed, Nanos::from_micros(10 * 8_000 / u64::from(busy)));
        let iops = 100_000.0 * f64::from(busy);
        assert!((run.iops - iops).abs() < 1e-6 * iops, "{} is not {iops}", run.iops);
        // Little's law: latency = depth / rate, once the queue has filled.
        let latency = f64::from(queue_depth) / iops * 1e9;
        assert!((run.read.mean / latency - 1.0).abs() < 0.01, "{} {latency}", run.read.mean);
        assert_eq!((run.read.count, run.write.count), (8_000, 0));
        assert!((result.medians.time_per_request_ns - 1e9 / iops).abs() < 1e-6);
    }
}

#[test]
fn a_time_limit_ends_the_run_and_counts_what_was_in_flight() {
    let mut device = device(4096, 1, 0);
    let pattern = random(100, Limit::time(Nanos::from_micros(105)), 1);
    let run = &run_pattern(&mut device, &pattern, &mut Silent).unwrap().runs[0];
    assert_eq!((run.request_count, run.elapsed), (11, Nanos::from_micros(110)));
}

#[test]
fn the_limit_that_comes_first_ends_the_run() {
    for (count, micros, expected) in [(5, 1_000, 5), (50, 100, 10)] {
        let limit =
            Limit { request_count: Some(count), duration: Some(Nanos::from_micros(micros)) };
        let result = run_pattern(&mut device(4096, 1, 0), &random(100, limit, 1), &mut Silent);
        assert_eq!(result.unwrap().runs[0].request_count, expected);
    }
}

#[test]
fn think_time_stretches_each_request() {
    let pattern =
        Pattern { think_ns: Nanos::from_micros(30), ..random(100, Limit::requests(100), 1) };
    let run = run_pattern(&mut device(4096, 1, 0), &pattern, &mut Silent).unwrap().runs.remove(0);
    // 100 requests of 10 us with 99 pauses of 30 us between them.
    assert_eq!(run.elapsed, Nanos::from_micros(100 * 10 + 99 * 30));
    assert_eq!(run.read.max, 10_000);
    // Four places with a server each overlap their pauses.
    let pattern = Pattern { queue_depth: 4, ..pattern };
    let run = run_pattern(&mut device(4096, 4, 0), &pattern, &mut Silent).unwrap().runs.remove(0);
    assert_eq!(run.elapsed, Nanos::from_micros(25 * 10 + 24 * 30));
}

#[test]
fn a_permutation_repeats_no_address_until_all_were_used() {
    let mut device = Recorder::new(device(800, 4, 0));
    let pattern = random(0, Limit::requests(250), 8);
    run_pattern(&mut device, &pattern, &mut Silent).unwrap();
    // 100 slots: each was used twice in the first 200 requests, and 50 of them a third time.
    let mut uses: FixedHashMap<SectorIndex, u32> = FixedHashMap::default();
    for record in device.records() {
        assert_eq!(record.sector_count, 8);
        assert_eq!(record.first_sector.0 % 8, 0, "invariant: whole slots");
        *uses.entry(record.first_sector).or_default() += 1;
    }
    assert_eq!(uses.len(), 100);
    assert_eq!(uses.values().filter(|&&count| count == 2).count(), 50);
    assert_eq!(uses.values().filter(|&&count| count == 3).count(), 50);
}

#[test]
fn a_sequential_run_starts_at_a_random_slot_and_wraps_around() {
    let mut starts = Vec::new();
    for seed in 0..4 {
        let mut device = Recorder::new(device(800, 1, 0));
        let limit = Limit::requests(100);
        let pattern = Pattern { seed, ..Pattern::new(Access::Sequential, 100, 4096, limit) };
        run_pattern(&mut device, &pattern, &mut Silent).unwrap();
        let sectors: Vec<u64> = device.records().iter().map(|r| r.first_sector.0).collect();
        assert!(sectors.windows(2).all(|pair| pair[1] == (pair[0] + 8) % 800));
        starts.push(sectors[0]);
    }
    starts.dedup();
    assert!(starts.len() > 1, "seeds start at different slots: {starts:?}");
}

#[test]
fn areas_and_offsets_move_every_request() {
    let mut device = Recorder::new(device(1000, 1, 0));
    let pattern = Pattern {
        area: Area { start: ByteCount(100 * 512), length: Some(ByteCount(200 * 512)) },
        alignment_offset_bytes: ByteCount(3 * 512),
        ..random(0, Limit::requests(24), 1)
    };
    run_pattern(&mut device, &pattern, &mut Silent).unwrap();
    // (200 - 3) / 8 = 24 slots.
    let mut sectors: Vec<u64> = device.records().iter().map(|r| r.first_sector.0).collect();
    sectors.sort_unstable();
    let expected: Vec<u64> = (0..24).map(|slot| 103 + 8 * slot).collect();
    assert_eq!(sectors, expected);
}

#[test]
fn mixes_and_flushes_come_in_their_proportion() {
    let mut device = Recorder::new(device(8000, 1, 0));
    let pattern = Pattern { flush_every: 10, ..random(70, Limit::requests(4_000), 4) };
    let result = run_pattern(&mut device, &pattern, &mut Silent).unwrap();
    let run = &result.runs[0];
    let share = run.read.count as f64 / run.request_count as f64;
    // Three standard deviations of a binomial with n = 4000, p = 0.7.
    assert!((share - 0.7).abs() < 3.0 * (0.7 * 0.3 / 4000.0_f64).sqrt(), "{share}");
    assert_eq!(run.read.count + run.write.count, 4_000);
    assert!(run.flush.count.abs_diff(run.write.count / 10) <= 1, "{}", run.flush.count);
    let skewed = Pattern {
        distribution: Some(Distribution::Zipf { theta: 1.2, clustered: true }),
        ..random(0, Limit::requests(1_000), 1)
    };
    let before = device.records().len();
    run_pattern(&mut device, &skewed, &mut Silent).unwrap();
    let first_slot = device.records()[before..].iter().filter(|r| r.first_sector.0 == 0).count();
    assert!(first_slot > 150, "zipf prefers its first slot: {first_slot}");
}

#[test]
fn equal_seeds_give_equal_json() {
    let json = |seed| {
        let pattern = Pattern { seed, repetitions: 3, ..random(50, Limit::requests(500), 8) };
        let result = run_pattern(&mut device(4096, 3, 100_000_000), &pattern, &mut Silent);
        serde_json::to_string(&result.unwrap()).unwrap()
    };
    assert_eq!(json(7), json(7));
    assert_ne!(json(7), json(8));
    let back: PatternResult = text::parse_json("result.json", &json(7)).unwrap();
    assert_eq!(serde_json::to_string(&back).unwrap(), json(7));
}

#[test]
fn an_error_stops_the_run_with_its_address() {
    let plan = FaultPlan { fail_requests: vec![20], ..FaultPlan::default() };
    let mut device = FaultyDevice::new(device(4096, 1, 0), plan);
    let limit = Limit::requests(100);
    let pattern = Pattern { queue_depth: 4, ..Pattern::new(Access::Sequential, 0, 512, limit) };
    let error = run_pattern(&mut device, &pattern, &mut Silent).unwrap_err();
    assert_eq!(device.in_flight(), 0, "nothing is left in flight");
    let ProbeError::Device { operation, byte_count, error: cause, .. } = &error else {
        panic!("{error}")
    };
    assert_eq!((*operation, *byte_count), (Operation::Write, 512));
    assert!(matches!(cause, DeviceError::Media { .. }), "{cause}");
    assert!(error.to_string().contains("write of 512 bytes at byte "), "{error}");
}

/// Cancels after a number of questions.
struct Impatient(std::cell::Cell<u32>);

impl Observer for Impatient {
    fn progress(&mut self, fraction: f64, _what: &str) {
        assert!((0.0..=1.0).contains(&fraction));
    }
    fn is_cancelled(&self) -> bool {
        self.0.set(self.0.get().saturating_sub(1));
        self.0.get() == 0
    }
}

#[test]
fn cancellation_stops_runs_and_preparations_within_a_thousand_requests() {
    let mut device = device(1 << 22, 4, 0);
    let pattern = random(0, Limit::time(Nanos::from_seconds(3600)), 32);
    let mut impatient = Impatient(2.into());
    assert_eq!(run_pattern(&mut device, &pattern, &mut impatient), Err(ProbeError::Cancelled));
    assert_eq!(device.in_flight(), 0);
    let writes = device.counters().writes.request_count;
    assert!(writes <= 1024 + 64, "{writes}");
    let fill = Preparation::whole_device_fill();
    let cancelled = prepare(&mut device, &fill, &mut Impatient(1.into()));
    assert_eq!(cancelled, Err(ProbeError::Cancelled));
    assert!(device.counters().writes.request_count <= writes + 64);
}

#[test]
fn preparations_do_what_they_say() {
    // 2.5 MiB and one sector: the last write of the fill is short.
    let mut device = Recorder::new(device(5121, 1, 0));
    prepare(&mut device, &Preparation::whole_device_fill(), &mut Silent).unwrap();
    assert_eq!(device.counters().writes.byte_count, 5121 * 512);
    let operations: Vec<Operation> =
        device.records().iter().map(|record| record.operation).collect();
    assert_eq!(operations[..3], [Operation::Write; 3]);
    assert_eq!(operations[3..], [Operation::Flush], "a fill is on the medium when it ends");
    prepare(&mut device, &Preparation::Trim { area: Area::default() }, &mut Silent).unwrap();
    assert_eq!(device.counters().trims.byte_count, 5121 * 512);
    let fill = text::parse_toml::<Step>(
        "step.toml",
        "prepare = [{ random_fill = { request_bytes = \"4KiB\", percent = 50 } }]\n\
         [pattern]\naccess = \"random\"\nread_percent = 100\nrequest_bytes = 512\n\
         limit = { request_count = 1 }",
    );
    let before = device.counters().writes.byte_count;
    prepare(&mut device, &fill.unwrap().prepare[0], &mut Silent).unwrap();
    assert_eq!(device.counters().writes.byte_count - before, 640 / 2 * 4096);
    let now = device.now();
    let idle = Preparation::Idle { duration: Nanos::from_seconds(5) };
    assert_eq!(prepare(&mut device, &idle, &mut Silent), Ok(Nanos::from_seconds(5)));
    assert_eq!(device.now(), now + Nanos::from_seconds(5));
}

#[test]
fn self_scaling_stops_where_doubling_gains_too_little() {
    // t(b) = 10 us + b / 100 MB/s: throughput gains under 2.5 % from b to 2b once
    // (2 (a + b)) / (a + 2b) < 1.025 with a = 1000 bytes, that is b > 19500 bytes.
    let mut device = device(1 << 20, 1, 100_000_000);
    let pattern = Pattern::new(Access::Sequential, 100, 512, Limit::requests(200));
    let results = run_self_scaling(&mut device, &pattern, &mut Silent).unwrap();
    let sizes: Vec<u64> = results.iter().map(|r| r.pattern.request_bytes.0).collect();
    assert_eq!(sizes, [512, 1024, 2048, 4096, 8192, 16_384, 32_768, 65_536]);
    // A sweep is run to its end, even where it gains nothing; scaling then goes on from there.
    let sweep = SweepRequestBytes { from: ByteCount(1 << 16), to: ByteCount(1 << 18) };
    let step = Step { sweep_request_bytes: Some(sweep), self_scaling: true, ..Step::new(pattern) };
    let mut sizes = Vec::new();
    run_step(&mut device, &step, &mut Silent, &mut |r| sizes.push(r.pattern.request_bytes.0))
        .unwrap();
    assert_eq!(sizes, [1 << 16, 1 << 17, 1 << 18, 1 << 19]);
}

#[test]
fn a_point_does_not_pay_for_what_the_one_before_left_in_a_cache() {
    let profile = nandu_drives::profile::Profile::load("ocz-core").unwrap();
    let capacity = Some(ByteCount::mib(256));
    let options = nandu_drives::profile::SimOptions { capacity, seed: 1, keep_data: false };
    // A buffer full of random writes takes ten seconds and more to empty.
    let few = Pattern::new(Access::Random, 0, 4096, Limit::requests(300));
    let next = Pattern::new(Access::Sequential, 0, 65_536, Limit::requests(8));
    let full = Step::new(few).prepared(vec![Preparation::whole_device_fill()]);
    let plan = Plan { name: String::new(), steps: vec![full, Step::new(next)] };
    let mut device = profile.open(options).unwrap();
    let mut results = Vec::new();
    run_plan(device.as_mut(), &plan, &mut Silent, &mut |result| results.push(result)).unwrap();
    let [first, second] = &results[..] else { panic!("two points") };
    assert!(first.medians.latency_mean_ns > 1e7, "{}", first.medians.latency_mean_ns);
    assert!(second.medians.latency_mean_ns < 1e7, "{}", second.medians.latency_mean_ns);
    // It pays for them itself.
    let run = &first.runs[0];
    assert!(run.elapsed.0 as f64 > 1.5 * run.write.mean * 300.0, "{run:?}");
    assert_eq!(run.bytes_per_second, run.byte_count as f64 / run.elapsed.as_seconds_f64());
    // Repetitions follow each other: the later ones begin with the cache that the first has filled.
    let random = Pattern { repetitions: 3, ..results[0].pattern.clone() };
    let runs = run_pattern(device.as_mut(), &random, &mut Silent).unwrap().runs;
    assert!(runs[1].bytes_per_second < 0.8 * runs[0].bytes_per_second, "{runs:?}");
}

#[test]
fn plans_name_file_line_and_nearest_key() {
    let text = "name = \"x\"\n[[step]]\n[step.pattern]\naccess = \"random\"\nread_percent = 0\n\
                request_bytes = \"4KiB\"\nlimit = { duration = \"1s\" }\nque_depth = 4\n";
    let error = Plan::from_toml("bad.toml", text).unwrap_err();
    let ProbeError::Parse { file, line, message } = &error else { panic!("{error}") };
    assert_eq!((file.as_str(), *line), ("bad.toml", 8));
    assert!(message.contains("did you mean `queue_depth`?"), "{message}");
    assert!(error.to_string().starts_with("bad.toml:8: "), "{error}");
    for (wrong, line, hint) in [
        ("read_percent = 300", 5, "300"),
        ("read_percent = 0\naccess = \"rondom\"", 5, "duplicate"),
        ("read_percent = 0\nthink_ns = \"3 weeks\"", 6, "weeks"),
        ("read_percent = 0\narea = { strat = 5 }", 6, "did you mean `start`?"),
    ] {
        let text = text.replace("que_depth = 4\n", "").replace("read_percent = 0", wrong);
        let ProbeError::Parse { line: found, message, .. } =
            Plan::from_toml("bad.toml", &text).unwrap_err()
        else {
            panic!("{wrong}")
        };
        assert!(message.contains(hint), "{wrong}: {message}");
        assert!(found == line || found == line + 1, "{wrong}: line {found}");
    }
}

#[test]
fn a_plan_survives_a_round_trip_through_toml() {
    let options = SeriesOptions { duration: Some(Nanos::from_millis(1)), ..Default::default() };
    let plan = series_s002(device(1 << 20, 1, 0).info(), &options);
    let text = toml::to_string(&plan).unwrap();
    assert_eq!(Plan::from_toml("plan.toml", &text), Ok(plan));
}

#[test]
fn patterns_that_do_not_fit_say_which_key_and_why() {
    let device = device(1000, 1, 0);
    let good = random(0, Limit::requests(1), 1);
    let cases = [
        (Pattern { request_bytes: ByteCount(1000), ..good.clone() }, "sectors of 512 bytes"),
        (Pattern { request_bytes: ByteCount(0), ..good.clone() }, "request_bytes is 0"),
        (Pattern { request_bytes: ByteCount::mib(1), ..good.clone() }, "does not fit"),
        (Pattern { queue_depth: 65, ..good.clone() }, "takes 1 to 64"),
        (Pattern { queue_depth: 0, ..good.clone() }, "queue_depth is 0"),
        (Pattern { repetitions: 0, ..good.clone() }, "repetitions is 0"),
        (Pattern { limit: Limit::default(), ..good.clone() }, "set request_count"),
        (Pattern { limit: Limit::requests(0), ..good.clone() }, "limit is zero"),
        (Pattern { read_percent: 101, ..good.clone() }, "from 0 to 100"),
        (Pattern { alignment_offset_bytes: ByteCount(5), ..good.clone() }, "alignment_offset"),
        (
            Pattern {
                area: Area { start: ByteCount(512), length: Some(ByteCount(1000 * 512)) },
                ..good.clone()
            },
            "make the area smaller",
        ),
        (
            Pattern {
                area: Area { start: ByteCount(u64::MAX - 511), length: None },
                ..good.clone()
            },
            "make the area smaller",
        ),
        (
            Pattern {
                distribution: Some(Distribution::Zipf { theta: -1.0, clustered: false }),
                ..good.clone()
            },
            "theta",
        ),
    ];
    assert_eq!(good.validate(device.info()), Ok(()));
    for (pattern, expected) in cases {
        let error = pattern.validate(device.info()).unwrap_err().to_string();
        assert!(error.contains(expected), "{error} does not say `{expected}`");
    }
}

#[test]
fn a_burst_is_recovered_from_when_the_script_says_so() {
    // Sequential writes take 1 ms; for 10 s after the last random write they take 4 ms.
    let mut slow_until = Nanos::ZERO;
    let mut device = Scripted::new(1 << 16, move |operation, bytes, _, now| {
        assert_eq!(operation, Operation::Write);
        if bytes == 2048 {
            slow_until = now + Nanos::from_seconds(10);
            return Nanos::from_micros(500);
        }
        Nanos::from_millis(if now < slow_until { 4 } else { 1 })
    });
    let options = BurstOptions { fill: false, ..BurstOptions::default() };
    let result = run_burst(&mut device, &options, &mut Silent).unwrap();
    assert_eq!(result.phases.runs.len(), 30);
    // Phases 1 and 2 (8 s) are slow, phase 3 is half slow: 2 s at a quarter, 2 s at full speed,
    // which is 62.5 % and recovered.
    assert_eq!(result.recovery_time.0 / 1_000_000_000, 8, "{}", result.recovery_time);
    assert!((result.first_phase_ratio - 0.25).abs() < 0.01, "{}", result.first_phase_ratio);
    let plain = result.before.medians.bytes_per_second;
    assert!((result.median_bytes_per_second / plain - 1.0).abs() < 1e-3);
    let json = serde_json::to_string(&result).unwrap();
    assert_eq!(text::parse_json::<BurstResult>("burst.json", &json), Ok(result));
}

#[test]
fn reads_may_stand_around_a_burst_in_place_of_writes() {
    // A random write takes 1 ms, a read 2 ms, and 4 ms once something was written.
    let mut was_written = false;
    let mut device = Scripted::new(1 << 16, move |operation, _, _, _| match operation {
        Operation::Write => {
            was_written = true;
            Nanos::from_millis(1)
        }
        _ => Nanos::from_millis(if was_written { 4 } else { 2 }),
    });
    let options = BurstOptions {
        fill: false,
        access: Access::Random,
        read_percent: 100,
        phase_count: 3,
        ..BurstOptions::default()
    };
    let result = run_burst(&mut device, &options, &mut Silent).unwrap();
    assert!((result.first_phase_ratio - 0.5).abs() < 1e-3, "{}", result.first_phase_ratio);
    assert!(result.phases.runs.iter().all(|run| run.write.count == 0 && run.read.count > 0));
}

/// What a device of known times was measured to be.
fn results_of_a_known_device() -> (DeviceInfo, Vec<PatternResult>) {
    // Reads: 20 us + 5 ns per byte. Writes: 50 us + 10 ns per byte, twice as long where the write
    // does not begin on a multiple of 8 KiB.
    let mut device = Scripted::new(1 << 16, |operation, bytes, address, _| {
        let aligned = address.is_multiple_of(8192) || !bytes.is_multiple_of(8192);
        match operation {
            Operation::Read => Nanos(20_000 + 5 * bytes),
            _ => Nanos((50_000 + 10 * bytes) * if aligned { 1 } else { 2 }),
        }
    });
    let series = QuickOptions {
        request_count: Some(50),
        queue_depths: vec![1],
        duration: Nanos::from_seconds(100),
        ..Default::default()
    };
    let mut results = Vec::new();
    let plan = series_quick(device.info(), &series);
    run_plan(&mut device, &plan, &mut Silent, &mut |result| results.push(result)).unwrap();
    let options = MisalignmentOptions {
        offsets: vec![ByteCount::kib(2), ByteCount::kib(8)],
        request_bytes: vec![ByteCount::kib(16)],
        series: SeriesOptions { request_count: Some(50), fill: false, ..Default::default() },
    };
    let plan = series_misalignment(device.info(), &options);
    run_plan(&mut device, &plan, &mut Silent, &mut |result| results.push(result)).unwrap();
    (device.info().clone(), results)
}

#[test]
fn a_profile_recovers_the_device_behind_it() {
    let (info, results) = results_of_a_known_device();
    let profile = derive(&info, &results, &[]).unwrap();
    for access in [Access::Sequential, Access::Random] {
        for (operation, t0, slope) in
            [(Operation::Read, 20_000.0, 5.0), (Operation::Write, 50_000.0, 10.0)]
        {
            let line = profile.model(operation, access).unwrap();
            assert!((line.t0_ns / t0 - 1.0).abs() < 1e-6, "{line:?}");
            assert!((line.ns_per_byte / slope - 1.0).abs() < 1e-6, "{line:?}");
            assert!(line.error_max < 1e-6);
            let time = profile.time_ns(operation, access, 10_000).unwrap();
            assert!((time / (t0 + slope * 10_000.0) - 1.0).abs() < 1e-6);
        }
    }
    assert!(profile.penalties.iter().all(|penalty| (penalty.ratio - 1.0).abs() < 1e-9));
    // 95 % of the best, which is that of 1 MiB: b / (20 us + 5 b) reaches it at 256 KiB.
    assert_eq!(profile.best_read_bytes, Some(256 << 10));
    let ratios: Vec<(u64, f64)> =
        profile.misalignment.iter().map(|m| (m.offset_bytes, m.ratio)).collect();
    assert!(ratios[0].0 == 2048 && (ratios[0].1 - 0.5).abs() < 0.01, "{ratios:?}");
    assert_eq!(profile.alignment_unit_bytes, Some(8192));
    for text in [
        table::throughput_table(&profile).render(),
        table::model_table(&profile).render(),
        table::profile_summary(&profile),
        table::pattern_table(&results).render(),
    ] {
        assert!(text.lines().count() > 3, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= table::WIDTH_MAX), "{text}");
    }
    assert!(matches!(derive(&info, &[], &[]), Err(ProbeError::Insufficient { .. })));
}

#[test]
fn a_profile_is_what_its_json_says() {
    let (info, results) = results_of_a_known_device();
    let profile = derive(&info, &results, &[]).unwrap();
    let json = profile.to_json();
    assert_eq!(DeviceProfile::from_json("p.json", &json), Ok(profile.clone()));
    // Profiles say of each line whether it fits. Older ones do not, and are read all the same.
    assert!(json.contains("\"fits\": true"), "{json}");
    let mut older: serde_json::Value = serde_json::from_str(&json).unwrap();
    for model in older["models"].as_array_mut().unwrap() {
        assert!(model.as_object_mut().unwrap().remove("fits").is_some());
    }
    assert_eq!(DeviceProfile::from_json("p.json", &older.to_string()), Ok(profile.clone()));
    // Profiles from before there were streams have none; others keep theirs.
    assert!(!json.contains("streams"));
    let point = StreamPoint {
        kind: StreamKind::Batch,
        request_bytes: 4096,
        count: 16,
        run_length: 4,
        area_bytes: 1 << 20,
        time_ns: 5000,
    };
    let streams = Some(StreamProfile { points: vec![point], sync_ns: None });
    let with_streams = DeviceProfile { streams, ..profile.clone() };
    let json = with_streams.to_json();
    assert_eq!(DeviceProfile::from_json("p.json", &json), Ok(with_streams));
    let later = json.replacen("\"version\": 1", "\"version\": 2", 1);
    let error = DeviceProfile::from_json("p.json", &later).unwrap_err().to_string();
    assert!(error.contains("version 2"), "{error}");
}

#[test]
fn a_profile_with_figures_that_nobody_measured_is_refused_by_line_and_key() {
    let (info, results) = results_of_a_known_device();
    let point = StreamPoint {
        kind: StreamKind::Read,
        request_bytes: 4096,
        count: 16,
        run_length: 1,
        area_bytes: 1 << 20,
        time_ns: 5000,
    };
    let streams = Some(StreamProfile { points: vec![point], sync_ns: None });
    let profile = DeviceProfile { streams, ..derive(&info, &results, &[]).unwrap() };
    let json = profile.to_json();
    for (key, values) in [
        (
            "time_per_request_ns",
            &["0", "-5.0", "1.8446744073709552e19", "1e999", "null", "NaN"][..],
        ),
        ("bytes_per_second", &["0.0", "-1", "\"fast\""]),
        ("iops", &["0", "-1"]),
        ("queue_depth", &["0", "-1", "4294967296", "1.5"]),
        ("request_bytes", &["0", "-4096", "18446744073709551615"]),
        ("time_ns", &["0", "-1", "18446744073709551616", "99999999999999999"]),
        ("count", &["0"]),
        ("run_length", &["0"]),
        ("area_bytes", &["0"]),
    ] {
        let at = json.find(&format!("\"{key}\": ")).unwrap() + key.len() + 4;
        let end = at + json[at..].find([',', '\n']).unwrap();
        let line = 1 + json[..at].matches('\n').count();
        for value in values {
            let changed = format!("{}{value}{}", &json[..at], &json[end..]);
            let said = DeviceProfile::from_json("p.json", &changed).unwrap_err().to_string();
            // The parser has gone on to the next line where a value is the last one.
            let places = [line, line + 1].map(|line| format!("p.json:{line}: "));
            assert!(places.iter().any(|it| said.starts_with(it)), "{key} {value}: {said}");
            // What is no JSON has no key.
            if !["1e999", "NaN"].contains(value) {
                assert!(said.contains(&format!("`{key}`")), "{key} {value}: {said}");
                assert!(said.contains("nandu probe --profile"), "{key} {value}: {said}");
            }
        }
    }
}

#[test]
fn depth_pays_as_far_as_there_are_servers() {
    let mut device = device(1 << 16, 4, 0);
    let options = QuickOptions {
        request_bytes: vec![ByteCount::kib(4)],
        request_count: Some(4000),
        ..Default::default()
    };
    let mut results = Vec::new();
    let plan = series_quick(device.info(), &options);
    run_plan(&mut device, &plan, &mut Silent, &mut |result| results.push(result)).unwrap();
    let profile = derive(device.info(), &results, &[]).unwrap();
    let factor = profile.parallelism(Operation::Read, Access::Random, 4096, 64);
    assert!((factor - 4.0).abs() < 1e-9, "{factor}");
    let shallow = profile.parallelism(Operation::Read, Access::Random, 4096, 31);
    assert!((shallow - 1.0).abs() < 1e-9, "{shallow}");
}

#[test]
fn the_standard_series_are_the_papers() {
    let info = device(1 << 20, 1, 0).info().clone();
    let plan = series_s002(&info, &SeriesOptions::default());
    // 512 B to 8 MB are 15 sizes of four patterns, each size after a fill.
    assert_eq!(plan.steps.len(), 15 * 4);
    assert_eq!(plan.steps.iter().filter(|step| !step.prepare.is_empty()).count(), 15);
    assert!(plan.steps.iter().all(|step| step.pattern.repetitions == 3));
    let thirty = Some(Nanos::from_seconds(30));
    assert!(plan.steps.iter().all(|step| step.pattern.limit.duration == thirty));
    let plan = series_s000(&info, &SeriesOptions::default());
    assert_eq!(plan.steps.len(), 11 * 4);
    assert_eq!(plan.steps.iter().filter(|step| !step.prepare.is_empty()).count(), 1);
    assert_eq!(plan.steps[0].pattern.describe(), "random read, 1 KiB, qd 1");
    let coarse = DeviceInfo { geometry: Geometry::new(4096, 1 << 20).unwrap(), ..info };
    let plan = series_quick(&coarse, &QuickOptions::default());
    assert!(plan.steps.iter().all(|step| step.pattern.request_bytes.0 >= 4096));
    assert!(plan.destroys_data());
    let readonly = QuickOptions { writes: false, ..QuickOptions::default() };
    assert!(!series_quick(&coarse, &readonly).destroys_data());
    let bursts: Vec<u64> =
        BurstOptions::standard().iter().map(|o| o.burst.0 / 1_000_000_000).collect();
    assert_eq!(bursts, [5, 30, 60]);
}

#[test]
fn endurance_ends_with_the_device_and_spares_real_ones() {
    let plan = FaultPlan { fail_requests: vec![25], ..FaultPlan::default() };
    let mut faulty = FaultyDevice::new(device(10 * 2048, 1, 0), plan);
    let options = EnduranceOptions { area_write_count: 5, ..EnduranceOptions::default() };
    let result = run_endurance(&mut faulty, &options, &mut Silent).unwrap();
    // Ten writes per pass: the 25th falls into the third.
    assert_eq!(result.points.len(), 2);
    assert_eq!(result.points[1].written_bytes, 20 << 20);
    assert!(result.failure.unwrap().contains("medium failed"));
    let mut real = Scripted::new(1 << 16, |_, _, _, _| Nanos::from_micros(10));
    real.info.time_source = TimeSource::Wall;
    let refused = run_endurance(&mut real, &options, &mut Silent);
    assert!(matches!(refused, Err(ProbeError::Refused { .. })));
    assert_eq!(real.counters().writes.request_count, 0);
    let forced = EnduranceOptions { force: true, ..options };
    assert_eq!(run_endurance(&mut real, &forced, &mut Silent).unwrap().points.len(), 5);
}

#[test]
fn rounds_go_on_until_the_device_is_steady() {
    // Writes slow down from 10 us to 20 us over the first 400 requests.
    let mut served = 0_u64;
    let mut device = Scripted::new(1 << 16, move |_, _, _, _| {
        served += 1;
        Nanos(10_000 + 25 * served.min(400))
    });
    let pattern = random(0, Limit::requests(100), 1);
    let options = SteadyStateOptions::default();
    let (result, state) = run_until_steady(&mut device, &pattern, &options, &mut Silent).unwrap();
    assert!(state.reached, "{state:?}");
    assert_eq!(result.runs.len(), state.first_round + 5);
    assert!((3..=4).contains(&state.first_round), "{state:?}");
    let impatient = SteadyStateOptions { rounds_max: 5, ..options };
    let mut served = 0_u64;
    let mut device = Scripted::new(1 << 16, move |_, _, _, _| {
        served += 1;
        Nanos(10_000 + 100 * served)
    });
    let (result, state) = run_until_steady(&mut device, &pattern, &impatient, &mut Silent).unwrap();
    assert!(!state.reached && result.runs.len() == 5);
}

#[test]
fn timelines_add_up_and_stay_bounded() {
    let limit = Limit::requests(20_000);
    let pattern = Pattern { timeline_period_ns: Nanos::from_micros(10), ..random(0, limit, 1) };
    let run =
        run_pattern(&mut device(1 << 16, 1, 0), &pattern, &mut Silent).unwrap().runs.remove(0);
    assert_eq!(run.timeline.iter().map(|point| point.byte_count).sum::<u64>(), run.byte_count);
    assert!(run.timeline.len() <= 4096, "{}", run.timeline.len());
    // 20,000 periods are merged three times: 80 us hold eight requests of 10 us each.
    assert_eq!(run.timeline_period, Nanos::from_micros(80));
    assert!(run.timeline.iter().all(|point| point.byte_count == 8 * 4096));
    assert!(run.timeline.windows(2).all(|pair| pair[0].second < pair[1].second));
}

/// A device in memory that demands buffers, like a real one.
struct Demanding {
    inner: MemoryDevice,
    info: DeviceInfo,
    buffers: std::collections::BTreeSet<usize>,
}

impl Device for Demanding {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }
    fn now(&self) -> Nanos {
        self.inner.now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
        if let Err(error) = self.info.check(&request, self.inner.in_flight()) {
            return Err(Rejected { request, error });
        }
        if let Some(buffer) = &request.buffer {
            self.buffers.insert(buffer.as_ptr().addr());
        }
        self.inner.submit(now, request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.inner.next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[test]
fn buffers_are_made_once_and_hold_the_data_asked_for() {
    use nandu_device::Inspect;
    for data in [DataKind::Random, DataKind::Cyclic, DataKind::Zeros, DataKind::Age] {
        let inner = device(1024, 4, 0);
        let info =
            DeviceInfo { needs_buffers: true, buffer_alignment: 4096, ..inner.info().clone() };
        let mut demanding = Demanding { inner, info, buffers: Default::default() };
        let pattern = Pattern { data, ..random(30, Limit::requests(1000), 8) };
        run_pattern(&mut demanding, &pattern, &mut Silent).unwrap();
        assert!(demanding.buffers.len() <= 16, "a read and a write buffer for each place");
        let mut bytes = vec![0; 1024 * 512];
        demanding.inner.peek(SectorIndex(0), &mut bytes);
        let zeros = bytes.iter().filter(|&&byte| byte == 0).count() as f64 / bytes.len() as f64;
        match data {
            DataKind::Random => assert!(zeros < 0.01, "{zeros}"),
            DataKind::Cyclic => assert_eq!(bytes[..256], (0..=255).collect::<Vec<u8>>()[..]),
            DataKind::Zeros => assert!(zeros > 0.999_999, "{zeros}"),
            DataKind::Age => {
                let age = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                assert!((1..=1000).contains(&age), "{age}");
                assert_eq!(bytes[..8], bytes[512..520], "every sector has its write's age");
            }
        }
    }
    let inner = device(1 << 24, 1, 0);
    let info = DeviceInfo { needs_buffers: true, ..inner.info().clone() };
    let greedy = Pattern { request_bytes: ByteCount::mib(64), ..random(0, Limit::requests(1), 32) };
    let error = greedy.validate(&info).unwrap_err().to_string();
    assert!(error.contains("lower queue_depth"), "{error}");
}
