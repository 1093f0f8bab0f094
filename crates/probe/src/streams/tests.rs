//! What is measured of simulated drives whose ways are known.

use super::*;
use crate::runner::Silent;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_drives::profile::{Profile, SimOptions};

fn options(writes: bool) -> StreamOptions {
    StreamOptions { duration: Nanos::from_millis(5), writes, seed: 3 }
}

fn simulated(name: &str) -> Box<dyn Device + Send> {
    let capacity = Some(nandu_base::ByteCount::mib(136));
    let options = SimOptions { capacity, seed: 1, keep_data: false };
    let mut device = Profile::load(name).unwrap().open(options).unwrap();
    for place in 0..136 {
        let now = device.now();
        device.submit(now, Request::write(0, place * 2048, 2048, None)).unwrap();
        device.next_completion(Nanos::MAX).unwrap();
    }
    device
}

fn time_ns(
    profile: &StreamProfile,
    kind: StreamKind,
    (request_bytes, count, run_length): (u64, u32, u32),
    area_bytes: u64,
) -> u64 {
    let is_it = |point: &&StreamPoint| {
        (point.kind, point.request_bytes, point.count, point.run_length, point.area_bytes)
            == (kind, request_bytes, count, run_length, area_bytes)
    };
    profile.points.iter().find(is_it).expect("it was measured").time_ns
}

#[test]
fn one_stream_is_written_cheaply_on_chunks_and_four_are_not() {
    let mut device = simulated("device-a");
    let found = measure_streams(device.as_mut(), &options(true), &mut Silent).unwrap();
    let write = |count| time_ns(&found, StreamKind::Write, (16 << 10, count, 1), 16 << 20);
    assert!(write(4) > 4 * write(1), "{} and {}", write(4), write(1));
    assert!(found.sync_ns.unwrap() > 0);
}

#[test]
fn batches_use_many_dies_and_neighbours_come_with_each_other() {
    let mut device = simulated("nvme-tlc-2024");
    let found = measure_streams(device.as_mut(), &options(true), &mut Silent).unwrap();
    let batch = |count, run| time_ns(&found, StreamKind::Batch, (4096, count, run), 16 << 20);
    assert!(batch(1, 1) > 3 * batch(64, 1), "{} and {}", batch(1, 1), batch(64, 1));
    assert!(batch(64, 64) < batch(64, 1), "{} and {}", batch(64, 64), batch(64, 1));
    let restart = |run| time_ns(&found, StreamKind::Restart, (4096, 1, run), 16 << 20);
    assert!(restart(1) > restart(16), "{} and {}", restart(1), restart(16));
}

#[test]
fn equal_seeds_measure_the_same_and_without_writes_nothing_is_written() {
    let run = |writes| {
        let mut device = simulated("barracuda-7200-11");
        let before = device.counters().writes;
        let found = measure_streams(device.as_mut(), &options(writes), &mut Silent).unwrap();
        (found, device.counters().writes == before)
    };
    assert_eq!(run(true).0, run(true).0);
    let (reads, is_untouched) = run(false);
    assert!(is_untouched && reads.sync_ns.is_none());
    assert!(reads.points.iter().all(|point| point.kind != StreamKind::Write));
}

#[test]
fn small_devices_with_a_queue_of_one_are_measured_like_any_other() {
    for mib in [1, 3, 40] {
        let geometry = Geometry { sector_bytes: 512, sector_count: mib << 11 };
        let config = MemoryConfig { geometry, queue_depth_max: 1, ..MemoryConfig::default() };
        let mut device = MemoryDevice::new(config);
        let found = measure_streams(&mut device, &options(true), &mut Silent).unwrap();
        for kind in [StreamKind::Read, StreamKind::Write, StreamKind::Batch, StreamKind::Scan] {
            assert!(found.points.iter().any(|point| point.kind == kind), "{mib} MiB, {kind:?}");
        }
        assert!(found.points.iter().all(|point| point.time_ns > 0), "{mib} MiB");
    }
}

#[test]
fn a_device_smaller_than_two_areas_has_no_points() {
    let geometry = Geometry { sector_bytes: 512, sector_count: 512 };
    let config = MemoryConfig { geometry, ..MemoryConfig::default() };
    let mut device = MemoryDevice::new(config);
    let found = measure_streams(&mut device, &options(true), &mut Silent).unwrap();
    assert!(found.points.is_empty());
}

#[test]
fn whoever_cancels_gets_no_points() {
    struct Impatient;
    impl Observer for Impatient {
        fn progress(&mut self, _fraction: f64, _what: &str) {}
        fn is_cancelled(&self) -> bool {
            true
        }
    }
    let mut device = simulated("device-a");
    let found = measure_streams(device.as_mut(), &options(false), &mut Impatient);
    assert_eq!(found, Err(ProbeError::Cancelled));
}

#[test]
fn what_was_written_in_small_pieces_of_many_streams_comes_back_slower_than_what_was_written_alone()
{
    let mut device = simulated("nvme-tlc-2024");
    let options = StreamOptions { duration: Nanos::MAX, ..options(true) };
    let found = measure_streams(device.as_mut(), &options, &mut Silent).unwrap();
    let back = |count| time_ns(&found, StreamKind::Back, (8 << 10, count, 1), 16 << 20);
    assert!(2 * back(64) > 3 * back(1), "{} and {}", back(64), back(1));
}

#[test]
fn a_scan_shows_the_steps_of_a_drive_between_powers_of_two() {
    let mut device = simulated("nvme-tlc-2024");
    let found = measure_streams(device.as_mut(), &options(true), &mut Silent).unwrap();
    let scan = |pages: u64| time_ns(&found, StreamKind::Scan, (pages << 12, 1, 1), 64 << 20);
    // A stripe of 128 pages takes as long as a part of the next one besides.
    assert!(scan(144) > scan(128) * 3 / 2 && scan(144) * 9 / 10 < scan(256));
}
