//! Closed forms that both engines must meet, and the contract.

use super::*;
use nandu_base::Rng;
use nandu_device::{IoBuffer, testing};

/// A fast little disk: 6 ms per revolution, two heads, three zones.
pub(crate) fn small_disk() -> HddConfig {
    HddConfig {
        model: HddModel::Detailed,
        read_overhead_ns: Nanos::from_micros(50),
        write_overhead_ns: Nanos::from_micros(50),
        revolution_ns: Nanos::from_millis(6),
        seek_average_ns: Nanos::from_millis(5),
        outer_bytes_per_second: 12_000_000,
        inner_bytes_per_second: 6_000_000,
        mechanics: Some(MechanicsConfig {
            seek_min_ns: Nanos::from_millis(1),
            seek_max_ns: Nanos::from_millis(12),
            seek_shape: SeekShape::Linear,
            head_count: 2,
            head_switch_ns: Nanos::from_micros(800),
            zone_count: 3,
            interface_bytes_per_second: 100_000_000,
            command_queue_depth: 1,
        }),
        cache: Some(HddCacheConfig {
            read_segment_count: 4,
            read_ahead_bytes: 128 << 10,
            write_cache_bytes: 256 << 10,
            write_extent_count_max: 16,
            destage_delay_ns: Nanos::from_millis(10),
        }),
        power: Some(HddPowerConfig {
            idle_milliwatts: 7_000,
            seek_milliwatts: 12_000,
            transfer_milliwatts: 9_000,
            standby: None,
        }),
    }
}

fn open(config: &HddConfig, sector_count: u64) -> HardDisk {
    HardDisk::new("sim:test", config, Geometry::new(512, sector_count).unwrap(), true).unwrap()
}

fn with_mechanics(change: impl Fn(&mut MechanicsConfig)) -> HddConfig {
    let mut config = small_disk();
    change(config.mechanics.as_mut().unwrap());
    config
}

fn without_cache(mut config: HddConfig) -> HddConfig {
    config.cache = None;
    config
}

/// Keeps `depth` requests in flight; the virtual time of all.
fn run_all(disk: &mut HardDisk, depth: u32, mut requests: Vec<Request>) -> Nanos {
    let begin = disk.now();
    requests.reverse();
    loop {
        while disk.in_flight() < depth
            && let Some(request) = requests.pop()
        {
            disk.submit(disk.now(), request).unwrap();
        }
        let Some(done) = disk.next_completion(Nanos::MAX) else {
            disk.audit();
            return disk.now() - begin;
        };
        done.result.unwrap();
    }
}

fn random(operation: Operation, count: u64, sector_count: u64, per_request: u32) -> Vec<Request> {
    let mut rng = Rng::new(17);
    let slots = sector_count / u64::from(per_request);
    let request = |id| Request {
        id,
        operation,
        first_sector: SectorIndex(rng.below(slots) * u64::from(per_request)),
        sector_count: per_request,
        buffer: None,
    };
    (0..count).map(request).collect()
}

fn sequential(operation: Operation, start: u64, count: u64, per_request: u32) -> Vec<Request> {
    let request = |id| Request {
        id,
        operation,
        first_sector: SectorIndex(start + id * u64::from(per_request)),
        sector_count: per_request,
        buffer: None,
    };
    (0..count).map(request).collect()
}

fn close(found: Nanos, expected: Nanos, percent: u64) {
    let off = found.0.abs_diff(expected.0);
    assert!(off * 100 <= expected.0 * percent, "{found} is not within {percent} % of {expected}");
}

#[test]
fn both_engines_keep_the_contract() {
    let simple = HddConfig { model: HddModel::Simple, ..small_disk() };
    let queueing = with_mechanics(|mechanics| mechanics.command_queue_depth = 32);
    let write_through = without_cache(small_disk());
    for config in [simple, small_disk(), queueing, write_through] {
        testing::check_contract(&mut || Box::new(open(&config, 20_000)));
    }
}

#[test]
fn the_simple_model_is_the_formula_of_s004() {
    // Footnote 4: the IBM 3330 with 30 ms, 16.7 ms and 690 KB/s reads 4 KB in about 43.9 ms.
    let mut config = HddConfig { model: HddModel::Simple, ..small_disk() };
    config.read_overhead_ns = Nanos::ZERO;
    config.seek_average_ns = Nanos::from_millis(30);
    config.revolution_ns = Nanos::from_micros(16_700);
    config.outer_bytes_per_second = 690_000;
    config.inner_bytes_per_second = 690_000;
    let mut disk = open(&config, 200_000);
    let read = testing::run(&mut disk, Request::read(1, 1000, 8, None)).latency();
    assert_eq!(read, Nanos(30_000_000 + 8_350_000 + 5_936_232), "4096 bytes");
    close(read, Nanos::from_micros(43_900), 1);
    let again = testing::run(&mut disk, Request::read(2, 1000, 8, None)).latency();
    assert_eq!(again, read, "it has no memory");
}

#[test]
fn a_random_read_takes_overhead_seek_half_a_rotation_and_transfer() {
    let config = without_cache(with_mechanics(|mechanics| mechanics.zone_count = 1));
    let mut disk = open(&config, 200_000);
    let surface = surface::Surface::new(&config, &config.mechanics.clone().unwrap(), 512, 200_000);
    let surface = surface.unwrap();
    let times = [1, 5, 12].map(Nanos::from_millis);
    let cylinders = surface.cylinder_count;
    let curve = seek::SeekCurve::new(SeekShape::Linear, times, cylinders);
    // Of all pairs of cylinders, 2 (N - x) of N^2 lie x apart; the last one may be shorter.
    let weighted: u64 = (1..cylinders).map(|x| 2 * (cylinders - x) * curve.time(x).0).sum();
    let mean_seek = Nanos(weighted / (cylinders * cylinders));
    let transfer = Nanos(6_000_000 * 8 / surface.locate(0).sectors_per_track);
    let expected = Nanos::from_micros(50) + mean_seek + Nanos::from_millis(3) + transfer;
    let total = run_all(&mut disk, 1, random(Operation::Read, 20_000, 200_000, 8));
    close(Nanos(total.0 / 20_000), expected, 1);
    close(mean_seek, Nanos::from_millis(5), 12);
}

#[test]
fn a_full_stroke_takes_the_longest_seek() {
    let config = without_cache(small_disk());
    let mut disk = open(&config, 200_000);
    testing::run(&mut disk, Request::read(1, 0, 1, None));
    let begin = disk.counters().busy;
    let far = testing::run(&mut disk, Request::read(2, 199_999, 1, None)).latency();
    assert!(far >= Nanos::from_micros(11_900) && far <= Nanos::from_millis(12 + 6 + 1), "{far}");
    assert!(disk.counters().busy > begin);
}

#[test]
fn sequential_reads_run_at_the_rate_of_their_zone() {
    for (start, rate) in [(0, 12_000_000), (158_000, 6_000_000)] {
        // 800 sectors are more than the read-ahead.
        for per_request in [8, 250, 800] {
            let mut disk = open(&small_disk(), 200_000);
            let bytes = 40_000 * 512;
            let count = 40_000 / u64::from(per_request);
            let reads = sequential(Operation::Read, start, count, per_request);
            close(run_all(&mut disk, 1, reads), Nanos::of_transfer(bytes, rate), 3);
        }
    }
}

#[test]
fn a_slow_host_reads_sequentially_at_its_own_pace() {
    // 512 bytes in 1 ms of overhead: the head reads ahead, stops, and resumes unnoticed.
    let mut config = small_disk();
    config.read_overhead_ns = Nanos::from_millis(1);
    let mut disk = open(&config, 200_000);
    let reads = sequential(Operation::Read, 0, 4000, 1);
    let expected = (Nanos::from_millis(1) + Nanos::of_transfer(512, 100_000_000)) * 4000;
    close(run_all(&mut disk, 1, reads), expected, 1);
}

#[test]
fn sequential_writes_run_at_the_rate_of_their_zone() {
    for per_request in [8, 256] {
        let mut disk = open(&small_disk(), 200_000);
        let count = 40_000 / u64::from(per_request);
        let writes = sequential(Operation::Write, 0, count, per_request);
        close(run_all(&mut disk, 1, writes), Nanos::of_transfer(40_000 * 512, 12_000_000), 5);
    }
}

#[test]
fn a_queue_raises_random_reads_per_second() {
    let rate = |queue, depth| {
        let config = with_mechanics(|mechanics| mechanics.command_queue_depth = queue);
        let mut disk = open(&config, 2_000_000);
        run_all(&mut disk, depth, random(Operation::Read, 3000, 2_000_000, 8))
    };
    let (alone, queued) = (rate(32, 1), rate(32, 32));
    assert!(queued.0 * 3 < alone.0 * 2, "depth 32 takes {queued}, depth 1 {alone}");
    close(rate(1, 32), alone, 5);
}

#[test]
fn the_write_cache_absorbs_a_burst_and_then_settles_at_the_platters_pace() {
    let mut disk = open(&small_disk(), 2_000_000);
    let writes = random(Operation::Write, 1000, 2_000_000, 8);
    let mut latencies = Vec::new();
    for request in writes {
        latencies.push(testing::run(&mut disk, request).latency());
    }
    let absorbed = Nanos::from_micros(50) + Nanos::of_transfer(4096, 100_000_000);
    assert!(latencies[..8].iter().all(|&latency| latency == absorbed), "{:?}", &latencies[..8]);
    let settled: Nanos = latencies[500..].iter().copied().sum();
    let settled = Nanos(settled.0 / 500);
    let read =
        run_all(&mut open(&small_disk(), 2_000_000), 1, random(Operation::Read, 500, 2_000_000, 8));
    assert!(settled > Nanos::from_millis(1), "each waits for a destage: {settled}");
    assert!(settled * 500 < read, "sorting by position beats the order of arrival");
    let before = disk.counters().busy;
    disk.idle_until(disk.now() + Nanos::from_seconds(2));
    assert!(disk.counters().busy > before, "idle time drains the cache");
    let rested = testing::run(&mut disk, Request::write(1, 77_000, 8, None)).latency();
    assert_eq!(rested, absorbed);
}

#[test]
fn a_flush_waits_for_the_platters() {
    let mut disk = open(&small_disk(), 200_000);
    let idle = testing::run(&mut disk, Request::flush(1)).latency();
    assert_eq!(idle, Nanos::from_micros(50), "nothing is dirty");
    testing::run(&mut disk, Request::write(2, 100_000, 8, None));
    let first = testing::run(&mut disk, Request::flush(3)).latency();
    assert!(first > Nanos::from_millis(1), "{first}");
    let second = testing::run(&mut disk, Request::flush(4)).latency();
    assert_eq!(second, idle);
    assert!(disk.info().volatile_cache);
    disk.audit();
}

#[test]
fn a_completed_flush_covers_writes_that_were_written_again_meanwhile() {
    let mut disk = open(&small_disk(), 200_000);
    for id in 0..40 {
        disk.submit(disk.now(), Request::write(id, 500 + id % 3, 4, None)).unwrap();
        if id % 8 == 7 {
            disk.submit(disk.now(), Request::flush(1000 + id)).unwrap();
        }
    }
    let mut flushes = 0;
    let mut writes = 0;
    while let Some(done) = disk.next_completion(Nanos::MAX) {
        disk.audit();
        match done.operation {
            Operation::Flush => {
                flushes += 1;
                assert_eq!(writes, flushes * 8, "later writes wait, earlier ones are covered");
            }
            _ => writes += 1,
        }
    }
    assert_eq!(flushes, 5);
}

#[test]
fn reading_what_was_just_read_or_written_does_not_move_the_arm() {
    let mut disk = open(&small_disk(), 200_000);
    let hit = Nanos::from_micros(50) + Nanos::of_transfer(4096, 100_000_000);
    testing::run(&mut disk, Request::read(1, 50_000, 8, None));
    assert_eq!(testing::run(&mut disk, Request::read(2, 50_000, 8, None)).latency(), hit);
    testing::run(&mut disk, Request::write(3, 150_000, 8, None));
    assert_eq!(testing::run(&mut disk, Request::read(4, 150_000, 8, None)).latency(), hit);
    let overwritten = testing::run(&mut disk, Request::write(5, 50_000, 1, None)).latency();
    assert!(overwritten < hit);
    let missed = testing::run(&mut disk, Request::read(6, 50_000, 8, None)).latency();
    assert!(missed > hit, "part of the segment is stale");
}

#[test]
fn a_request_longer_than_a_segment_is_read_from_the_platters_again() {
    let mut disk = open(&small_disk(), 100_000);
    let long = || vec![Request::read(0, 0, 4096, None)];
    let first = run_all(&mut disk, 1, long());
    let again = run_all(&mut disk, 1, long());
    // 2 MiB pass in 175 ms; the cable takes 21.
    assert!(again * 10 > first * 9, "{again} after {first}");
}

#[test]
fn looking_often_changes_no_times() {
    let run = |look_every: Option<Nanos>| {
        let mut disk =
            open(&with_mechanics(|mechanics| mechanics.command_queue_depth = 8), 200_000);
        let mut rng = Rng::new(3);
        let mut times = Vec::new();
        for id in 0..400 {
            let (first, count) = (rng.below(199_990), nandu_base::to_u32(1 + rng.below(9)));
            let request = match rng.below(10) {
                0 => Request::flush(id),
                1..5 => Request::write(id, first, count, None),
                _ => Request::read(id, first, count, None),
            };
            disk.submit(disk.now(), request).unwrap();
            let mut until = disk.now();
            while disk.in_flight() > 5 {
                until = look_every.map_or(Nanos::MAX, |step| until + step);
                if let Some(done) = disk.next_completion(until) {
                    times.push((done.id, done.completed_at));
                }
            }
        }
        times
    };
    assert_eq!(run(None), run(Some(Nanos::from_micros(70))));
}

#[test]
fn energy_is_power_times_time() {
    let mut disk = open(&small_disk(), 200_000);
    disk.idle_until(Nanos::from_seconds(1));
    let before = disk.counters().energy.unwrap();
    assert_eq!((before.idle, before.total()), (Picojoules(7_000 * 1_000_000_000), before.idle));
    testing::run(&mut disk, Request::read(1, 199_000, 8, None));
    let elapsed = disk.now() - Nanos::from_seconds(1);
    let used = disk.counters().energy.unwrap().since(&before);
    assert_eq!(used.idle, drawn(7_000, elapsed));
    assert_eq!(used.seek, drawn(5_000, disk.engine.work_by(disk.now()).seek));
    assert_eq!(used.transfer, drawn(2_000, disk.engine.work_by(disk.now()).transfer));
    assert!(used.total() < drawn(12_000, elapsed));
}

#[test]
fn figures_out_of_range_are_named() {
    let broken = |change: fn(&mut HddConfig)| {
        let mut config = small_disk();
        change(&mut config);
        let geometry = Geometry::new(512, 20_000).unwrap();
        HardDisk::new("x", &config, geometry, true).unwrap_err().to_string()
    };
    type Change = fn(&mut HddConfig);
    let cases: [(Change, &str); 6] = [
        (|c| c.revolution_ns = Nanos::ZERO, "`revolution_ns`"),
        (|c| c.inner_bytes_per_second = 20_000_000, "`outer_bytes_per_second`"),
        (|c| c.inner_bytes_per_second = 1, "`inner_bytes_per_second`"),
        (|c| c.mechanics = None, "`model`"),
        (|c| c.mechanics.as_mut().unwrap().head_count = 0, "`head_count`"),
        (|c| c.cache.as_mut().unwrap().write_extent_count_max = 0, "`write_extent_count_max`"),
    ];
    for (change, key) in cases {
        let message = broken(change);
        assert!(message.contains(key), "{message} does not name {key}");
    }
}

proptest::proptest! {
    #[test]
    fn what_is_read_is_what_was_written(
        seed: u64,
        queue in 1_u32..40,
        cached: bool,
        depth in 1_u32..40,
    ) {
        let mut config = with_mechanics(|mechanics| mechanics.command_queue_depth = queue);
        if !cached {
            config = without_cache(config);
        }
        let mut disk = open(&config, 3000);
        let mut model = vec![0_u8; 3000];
        let mut rng = Rng::new(seed);
        for id in 0..300 {
            let first = rng.below(2990);
            let count = 1 + nandu_base::to_u32(rng.below(10));
            let range = nandu_base::to_index(first)..nandu_base::to_index(first) + count as usize;
            let mut buffer = IoBuffer::zeroed(count as usize * 512);
            // Requests in flight on the same sectors have no order: settle before reading.
            let request = match rng.below(8) {
                0 => Request::flush(id),
                1..4 => {
                    let fill = u8::try_from(id % 255).unwrap() + 1;
                    buffer.fill(fill);
                    model[range].fill(fill);
                    Request::write(id, first, count, Some(buffer))
                }
                _ => Request::read(id, first, count, Some(buffer)),
            };
            let is_read = request.operation == Operation::Read;
            while disk.in_flight() > 0 && (is_read || disk.in_flight() >= depth) {
                proptest::prop_assert!(disk.next_completion(Nanos::MAX).is_some());
            }
            disk.submit(disk.now(), request).unwrap();
            disk.audit();
            if is_read {
                let done = disk.next_completion(Nanos::MAX).unwrap();
                let bytes = done.buffer.unwrap();
                for (sector, content) in (first..).zip(bytes.chunks(512)) {
                    let expected = model[nandu_base::to_index(sector)];
                    proptest::prop_assert!(content.iter().all(|&byte| byte == expected));
                }
            }
        }
    }
}
