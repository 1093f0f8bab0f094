//! Times that are predicted from a probe of a drive alone, as `nandu probe --profile` writes it, beside what
//! algorithms then take on that drive: a part of what `examples/predictions.rs` tells of more drives.
//!
//! 1. The drive is probed first and used afterwards, with all that a probe left in it.
//! 2. Nothing of an algorithm is known but the number of records and its memory.

use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::Device;
use nandu_drives::profile::{Profile, SimOptions};
use nandu_external::basic::{measure, merge_sort, read_random, scan, write_random};
use nandu_external::cost::{CostModel, Probed, predict};
use nandu_external::{ExternalError, Grant, Settings, Store};
use nandu_probe::{
    DeviceProfile, QuickOptions, Silent, StreamOptions, derive, measure_streams, run_plan,
    series_quick,
};
use nandu_storage::volume::{DeviceVolume, Io};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const CAPACITY_BYTES: u64 = 320 << 20;
const NUMBER_COUNT: u64 = 4 << 20;
const MEMORY_BYTES: u64 = 4 << 20;
const READ_COUNT: u64 = 300;
const BLOCK_BYTES: u32 = 128 << 10;

fn probe(drive: &str) -> (DeviceProfile, Box<dyn Device + Send>) {
    let profile = Profile::load(drive).expect("it is built in");
    let options =
        SimOptions { capacity: Some(ByteCount(CAPACITY_BYTES)), seed: 7, keep_data: true };
    let mut device = profile.open(options).expect("it can be as small");
    let info = device.info().clone();
    let quick = QuickOptions {
        request_bytes: [64 << 10, 256 << 10].map(ByteCount).to_vec(),
        queue_depths: vec![1, 2],
        request_count: Some(1000),
        seed: 7,
        ..QuickOptions::default()
    };
    let plan = series_quick(&info, &quick);
    let mut results = Vec::new();
    run_plan(device.as_mut(), &plan, &mut Silent, &mut |result| results.push(result))
        .expect("the drive is sound");
    let streams = StreamOptions { duration: Nanos::from_millis(20), writes: true, seed: 7 };
    let streams = measure_streams(device.as_mut(), &streams, &mut Silent);
    let profile = derive(&info, &results, &[]).expect("reads and writes were measured");
    let streams = Some(streams.expect("the drive is sound"));
    (DeviceProfile { streams, ..profile }, device)
}

/// Predicted over taken, by the name of the operation.
fn ratios(drive: &str) -> Result<[(&'static str, f64); 4], ExternalError> {
    let (profile, device) = probe(drive);
    let volume = DeviceVolume::format(device).expect("it is probed, not used");
    let io = Io::new(Box::new(volume), Arc::new(AtomicU64::new(0)));
    let settings = Settings { block_bytes: BLOCK_BYTES, in_flight: 1 };
    let store = Store::new(&[io], settings, Grant::new(2 * MEMORY_BYTES))?;
    let model = Probed::new(&profile, settings.in_flight)?;
    let mut rng = Rng::new(1);
    let predicted = [
        predict::write::<u64>(&store, NUMBER_COUNT)?,
        predict::scan::<u64>(&store, NUMBER_COUNT)?,
        predict::sort::<u64>(&store, NUMBER_COUNT, MEMORY_BYTES, &mut rng)?,
        predict::read_anywhere::<u64>(&store, NUMBER_COUNT, READ_COUNT, &mut rng)?,
    ];
    let predicted: Vec<u64> =
        { predicted.iter() }.map(|trace| model.cost(trace)).collect::<Result<_, _>>()?;
    let written = measure(&store, || write_random(&store, NUMBER_COUNT, &mut rng))?;
    let scanned = measure(&store, || scan(&written.value))?;
    let sorted = measure(&store, || merge_sort(written.value, MEMORY_BYTES))?;
    let mut paged = sorted.value.paged(1)?;
    let read = measure(&store, || read_random(&mut paged, READ_COUNT, &mut rng))?;
    let taken = [written.elapsed_ns, scanned.elapsed_ns, sorted.elapsed_ns, read.elapsed_ns];
    let names = ["write", "scan", "sort", "random read"];
    let ratio = |index: usize| predicted[index] as f64 / taken[index].0 as f64;
    Ok(std::array::from_fn(|index| (names[index], ratio(index))))
}

#[test]
fn a_probe_alone_predicts_within_15_percent() {
    for drive in ["hama", "device-a", "optane-like", "pcm"] {
        for (operation, ratio) in ratios(drive).unwrap() {
            assert!((0.85..1.15).contains(&ratio), "{drive}, {operation}: {ratio:.2}");
        }
    }
}

#[test]
fn a_disk_sorts_faster_than_what_was_measured_of_it_says() {
    // What a sort writes lies where it just read, and an arm has not far to go; nothing of that is in a
    // probe. Whoever predicts for disks has to know.
    let [.., (_, sort), _] = ratios("wd2000jb").unwrap();
    assert!((1.15..3.0).contains(&sort), "{sort}");
}
