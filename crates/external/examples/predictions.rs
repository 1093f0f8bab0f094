//! What a drive was predicted to take, from a probe of it alone, over what it then took: the table of
//! [docs/external.md](../../../docs/external.md#predictions).
//!
//! `cargo run --release -p nandu-external --example predictions`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

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
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const CAPACITY_BYTES: u64 = 512 << 20;
const NUMBER_COUNT: u64 = 16 << 20;
const MEMORY_BYTES: u64 = 8 << 20;
const READ_COUNT: u64 = 300;
/// Blocks of bytes, and requests in flight.
const SETTINGS: [(u32, u32); 2] = [(64 << 10, 1), (256 << 10, 4)];
const DRIVES: [&str; 12] = [
    "hama",
    "supertalent-ssd-16g",
    "ocz-core",
    "memorex-td-classic-4g",
    "device-a",
    "device-b",
    "nvme-tlc-2024",
    "qlc-2024",
    "optane-like",
    "pcm",
    "barracuda-7200-11",
    "wd2000jb",
];

fn main() -> ExitCode {
    let settings = SETTINGS.map(|(bytes, in_flight)| {
        format!("blocks of {}, {in_flight} in flight", ByteCount(bytes.into()))
    });
    println!("Predicted over taken, {}:\n", settings.join(", then "));
    println!("| drive | write | scan | sort | random read |");
    println!("| --- | ---: | ---: | ---: | ---: |");
    for drive in DRIVES {
        match SETTINGS.iter().map(|&settings| ratios(drive, settings)).collect() {
            Ok::<Vec<[f64; 4]>, _>(ratios) => {
                let cell = |index: usize| {
                    let each =
                        ratios.iter().map(|of_settings| format!("{:.2}", of_settings[index]));
                    each.collect::<Vec<_>>().join(", ")
                };
                let cells: [String; 4] = std::array::from_fn(cell);
                println!("| {drive} | {} |", cells.join(" | "));
            }
            Err(error) => {
                eprintln!("{drive}: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}

/// As `nandu probe sim:DRIVE --size 512MiB --queue-depth 1,2,4,5,32 --profile FILE` does; and the drive.
fn probe(drive: &str) -> (DeviceProfile, Box<dyn Device + Send>) {
    let profile = Profile::load(drive).expect("it is built in");
    let options =
        SimOptions { capacity: Some(ByteCount(CAPACITY_BYTES)), seed: 7, keep_data: true };
    let mut device = profile.open(options).expect("it can be as small");
    let info = device.info().clone();
    let quick = QuickOptions {
        queue_depths: vec![1, 2, 4, 5, 32],
        request_count: Some(4000),
        seed: 7,
        ..QuickOptions::default()
    };
    let plan = series_quick(&info, &quick);
    let mut results = Vec::new();
    run_plan(device.as_mut(), &plan, &mut Silent, &mut |result| results.push(result))
        .expect("the drive is sound");
    let streams = StreamOptions { duration: Nanos(quick.duration.0 / 10), writes: true, seed: 7 };
    let streams = measure_streams(device.as_mut(), &streams, &mut Silent);
    let profile = derive(&info, &results, &[]).expect("reads and writes were measured");
    let streams = Some(streams.expect("the drive is sound"));
    (DeviceProfile { streams, ..profile }, device)
}

/// Predicted over taken of writing, scanning, sorting and reading anywhere.
fn ratios(drive: &str, (block_bytes, in_flight): (u32, u32)) -> Result<[f64; 4], ExternalError> {
    let (profile, device) = probe(drive);
    let volume = DeviceVolume::format(device).expect("it is probed, not used");
    let io = Io::new(Box::new(volume), Arc::new(AtomicU64::new(0)));
    let settings = Settings { block_bytes, in_flight };
    let store = Store::new(&[io], settings, Grant::new(4 * MEMORY_BYTES))?;
    let model = Probed::new(&profile, settings.in_flight)?;
    let mut rng = Rng::new(1);
    let traces = [
        predict::write::<u64>(&store, NUMBER_COUNT)?,
        predict::scan::<u64>(&store, NUMBER_COUNT)?,
        predict::sort::<u64>(&store, NUMBER_COUNT, MEMORY_BYTES, &mut rng)?,
        predict::read_anywhere::<u64>(&store, NUMBER_COUNT, READ_COUNT, &mut rng)?,
    ];
    let predicted: Vec<u64> = traces.iter().map(|it| model.cost(it)).collect::<Result<_, _>>()?;
    let written = measure(&store, || write_random(&store, NUMBER_COUNT, &mut rng))?;
    let scanned = measure(&store, || scan(&written.value))?;
    let sorted = measure(&store, || merge_sort(written.value, MEMORY_BYTES))?;
    let mut paged = sorted.value.paged(1)?;
    let read = measure(&store, || read_random(&mut paged, READ_COUNT, &mut rng))?;
    let taken = [written.elapsed_ns, scanned.elapsed_ns, sorted.elapsed_ns, read.elapsed_ns];
    Ok(std::array::from_fn(|index| predicted[index] as f64 / taken[index].0 as f64))
}
