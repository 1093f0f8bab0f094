//! Where sorts that write less pay: by the model x + c y, and on simulated drives. The tables of
//! [docs/external.md](../../../docs/external.md#sorts-that-write-less).
//!
//! `cargo run --release -p nandu-external --example write_limited`

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "an example prints")]

use nandu_base::{ByteCount, Nanos, Rng};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_external::basic::{scan, write_random};
use nandu_external::cost::{Asymmetric, CostModel};
use nandu_external::sort::SortKind;
use nandu_external::{ExternalError, Grant, Natural, RecordStream, Settings, Store, Vector};
use nandu_storage::volume::{DeviceVolume, Io};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const CAPACITY_BYTES: u64 = 256 << 20;
const NUMBER_COUNT: u64 = 1 << 20;
const BLOCK_BYTES: u32 = 8 << 10;
/// How many times what is sorted is larger than memory.
const FACTORS: [u64; 4] = [2, 4, 8, 16];
/// How many reads a write costs.
const WEIGHTS: [u64; 6] = [1, 2, 5, 10, 20, 50];
const DRIVES: [&str; 8] = [
    "barracuda-7200-11",
    "kingston-dt-secure-512m",
    "memorex-td-classic-4g",
    "hama",
    "device-a",
    "nvme-tlc-2024",
    "optane-like",
    "pcm",
];

fn main() -> ExitCode {
    match by_model().and_then(|()| on_drives()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

/// Prints the table of drives.
fn on_drives() -> Result<(), ExternalError> {
    println!(
        "Time over that of merges, the kind chosen by c, which is how a drive writes over how it scans:\n"
    );
    let factors = FACTORS.map(|factor| format!("memory 1 / {factor}")).join(" | ");
    println!("| drive | c | {factors} |\n| --- | ---: |{}", " --- |".repeat(FACTORS.len()));
    DRIVES.iter().try_for_each(|drive| on_drive(drive))
}

/// What a sort cost beyond its result: time, and by the model for each weight.
struct Cost {
    time: Nanos,
    costs: [u64; WEIGHTS.len()],
}

fn by_model() -> Result<(), ExternalError> {
    let weights = WEIGHTS.map(|weight| format!("c = {weight}")).join(" | ");
    println!("Cost over that of merges by x + c y, the cheapest kind chosen for each c:\n");
    println!("| memory | {weights} |\n| --- |{}", " --- |".repeat(WEIGHTS.len()));
    for factor in FACTORS {
        let bytes = 8 * NUMBER_COUNT / factor;
        let plain = cost("dram-like", SortKind::Merge, bytes)?;
        let mut cells = Vec::new();
        for (index, weight) in WEIGHTS.into_iter().enumerate() {
            let (store, _) = store_on("dram-like", bytes)?;
            let weight = 1000 * weight;
            let (kind, _) = SortKind::cheapest::<u64>(&store, NUMBER_COUNT, bytes, weight)?;
            let costs = cost("dram-like", kind, bytes)?.costs;
            let ratio = costs[index] as f64 / plain.costs[index] as f64;
            cells.push(format!("{ratio:.2} {}", name_of(kind)));
        }
        println!("| 1 / {factor} | {} |", cells.join(" | "));
    }
    println!();
    Ok(())
}

fn name_of(kind: SortKind) -> String {
    match kind {
        SortKind::Merge => "merge".to_owned(),
        SortKind::Selection => "selection".to_owned(),
        SortKind::Lazy { .. } => "lazy".to_owned(),
        SortKind::Segment { merged_thousandths } => {
            format!("segment {}.{} %", merged_thousandths / 10, merged_thousandths % 10)
        }
    }
}

/// Prints the line of a drive: what the kind that is cheapest by the weight of its own blocks takes, over
/// what merges take there.
fn on_drive(drive: &str) -> Result<(), ExternalError> {
    let weight = weight_of(drive)?;
    let mut cells = Vec::new();
    for factor in FACTORS {
        let bytes = 8 * NUMBER_COUNT / factor;
        let (store, _) = store_on(drive, bytes)?;
        let (kind, _) = SortKind::cheapest::<u64>(&store, NUMBER_COUNT, bytes, weight)?;
        let [merge, cheapest] = [SortKind::Merge, kind].map(|kind| cost(drive, kind, bytes));
        let ratio = cheapest?.time.0 as f64 / merge?.time.0 as f64;
        cells.push(format!("{ratio:.2} {}", name_of(kind)));
    }
    println!("| {drive} | {:.1} | {} |", weight as f64 / 1000.0, cells.join(" | "));
    Ok(())
}

/// A store on a drive, and random numbers in it.
fn store_on(drive: &str, bytes: u64) -> Result<(Store, Vector<u64>), ExternalError> {
    let profile = Profile::load(drive).expect("it is built in");
    let capacity = Some(ByteCount(CAPACITY_BYTES));
    let device = profile.open(SimOptions { capacity, seed: 1, keep_data: true });
    let volume = DeviceVolume::format(device.expect("it can be as small"));
    let io = Io::new(Box::new(volume.expect("it is empty")), Arc::new(AtomicU64::new(0)));
    let settings = Settings { block_bytes: BLOCK_BYTES, in_flight: 1 };
    let store = Store::new(&[io], settings, Grant::new(bytes + (1 << 20)))?;
    let numbers = write_random(&store, NUMBER_COUNT, &mut Rng::new(1))?;
    Ok((store, numbers))
}

/// How many reads a write costs, in thousandths: what writing takes over what scanning takes.
fn weight_of(drive: &str) -> Result<u64, ExternalError> {
    let (store, numbers) = store_on(drive, 1 << 20)?;
    let write_begin = store.now();
    let again = write_random(&store, NUMBER_COUNT, &mut Rng::new(2))?;
    let write_ns = store.now().saturating_sub(write_begin).0;
    drop(numbers);
    let scan_begin = store.now();
    scan(&again)?;
    Ok(1000 * write_ns / store.now().saturating_sub(scan_begin).0.max(1))
}

fn cost(drive: &str, kind: SortKind, bytes: u64) -> Result<Cost, ExternalError> {
    let (store, numbers) = store_on(drive, bytes)?;
    let begin = store.now();
    store.start_trace();
    let mut sorted = kind.sort(numbers, Natural, bytes)?;
    let mut last = 0;
    while let Some(number) = sorted.next_record()? {
        assert!(number >= last, "what is sorted is in order");
        last = number;
    }
    let time = store.now().saturating_sub(begin);
    let trace = store.take_trace();
    let mut costs = [0; WEIGHTS.len()];
    for (cost, weight) in costs.iter_mut().zip(WEIGHTS) {
        let write_weight_thousandths = 1000 * weight;
        *cost = Asymmetric { block_bytes: BLOCK_BYTES, write_weight_thousandths }.cost(&trace)?;
    }
    Ok(Cost { time, costs })
}
