//! Times that are predicted before anything ran, from what each drive alone was measured to take for
//! sequential and for random requests, beside the times that the algorithms then take there.
//!
//! 1. The drives are measured by another generator's places than the algorithms use, and by volumes
//!    of their own.
//! 2. Nothing of an algorithm is known but the number of records and its memory.
//! 3. Drives that buffer much differ: disks, where two streams in turn do not move the arm each time,
//!    and a flash drive of today, which is fast until its buffer is full.

use nandu_base::{ByteCount, Nanos, Rng};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_external::basic::{measure, merge_sort, read_random, scan, write_random};
use nandu_external::cost::{Access, Affine, CostModel, Drive, Line, Trace, predict};
use nandu_external::{ExternalError, Grant, Settings, Store};
use nandu_storage::volume::{DeviceVolume, Io};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const CAPACITY_BYTES: u64 = 512 << 20;
const BLOCK_BYTES: u32 = 128 << 10;
/// A sort has it in one piece, and writes its runs whole.
const MEMORY_BYTES: u64 = 4 << 20;
/// A sort has it in pieces, and writes blocks between those that it reads.
const MEMORY_OF_PIECES_BYTES: u64 = 16 << 20;
/// Requests by which a drive is measured.
const PROBE_COUNT: u64 = 128;

fn volume(drive: &str, seed: u64) -> Io {
    let profile = Profile::load(drive).expect("it is built in");
    let capacity = Some(ByteCount(CAPACITY_BYTES));
    let device = profile.open(SimOptions { capacity, seed, keep_data: true });
    let volume = DeviceVolume::format(device.expect("it can be as small"));
    Io::new(Box::new(volume.expect("the device is empty")), Arc::new(AtomicU64::new(0)))
}

/// What a drive takes for a request that goes on from the last one, of a stream with so many in flight,
/// and for one anywhere, which is waited for.
fn line(
    drive: &str,
    block_count: u64,
    is_write: bool,
    in_flight: usize,
) -> Result<Line, ExternalError> {
    let mut rng = Rng::new(77);
    let mut time_of = |in_flight, places: &mut dyn FnMut(&mut Rng, u64) -> u64| {
        let access = |block: u64| Access {
            is_write,
            volume: 0,
            offset_bytes: block * u64::from(BLOCK_BYTES),
            byte_count: BLOCK_BYTES,
        };
        let trace: Vec<Access> =
            (0..PROBE_COUNT).map(|number| access(places(&mut rng, number))).collect();
        let drive = Drive { volumes: vec![volume(drive, 5)], in_flight };
        drive.cost(&Trace::new(trace)).map(|cost_ns| Nanos(cost_ns / PROBE_COUNT))
    };
    let going_on_ns = time_of(in_flight, &mut |_, number| number)?;
    let anywhere_ns = time_of(1, &mut |rng, _| rng.below(block_count))?;
    Ok(Line::through(anywhere_ns, going_on_ns, BLOCK_BYTES))
}

/// Predicted over measured, by the name of the operation.
fn ratios(
    drive: &str,
    one_arm: bool,
    number_count: u64,
    memory_bytes: u64,
) -> Result<Vec<(&'static str, f64)>, ExternalError> {
    let in_flight = 1;
    // Drives are measured over as much as there is, since an arm moves as far then.
    let block_count = number_count * 8 / u64::from(BLOCK_BYTES);
    // The block that is filled is not in flight; one that was looked at is asked for again at once.
    let read = line(drive, block_count, false, in_flight as usize + 1)?;
    let write = line(drive, block_count, true, in_flight as usize)?;
    let model = Affine { read, write, one_arm };
    let settings = Settings { block_bytes: BLOCK_BYTES, in_flight };
    let store = Store::new(&[volume(drive, 1)], settings, Grant::new(2 * memory_bytes))?;
    let mut rng = Rng::new(1);
    let mut predicted = [const { Trace::new(Vec::new()) }; 4];
    let [write, scanned, sorted, read] = &mut predicted;
    predict::write::<u64>(&store, number_count, write)?;
    predict::scan::<u64>(&store, number_count, scanned)?;
    predict::sort::<u64>(&store, number_count, memory_bytes, &mut rng, sorted)?;
    predict::read_anywhere::<u64>(&store, number_count, 300, &mut rng, read)?;
    let predicted: Vec<u64> =
        { predicted.iter() }.map(|trace| model.cost(trace)).collect::<Result<_, _>>()?;

    let written = measure(&store, || write_random(&store, number_count, &mut rng))?;
    let scanned = measure(&store, || scan(&written.value))?;
    let sorted = measure(&store, || merge_sort(written.value, memory_bytes))?;
    let mut paged = sorted.value.paged(1)?;
    let read = measure(&store, || read_random(&mut paged, 300, &mut rng))?;
    let elapsed_ns = [written.elapsed_ns, scanned.elapsed_ns, sorted.elapsed_ns, read.elapsed_ns];
    let names = ["write", "scan", "sort", "random read"];
    let ratio = |(predicted, elapsed): (u64, Nanos)| predicted as f64 / elapsed.0 as f64;
    Ok(names.into_iter().zip(predicted.into_iter().zip(elapsed_ns).map(ratio)).collect())
}

#[test]
fn predictions_come_within_15_percent_of_what_flash_drives_then_take() {
    for drive in ["hama", "supertalent-ssd-16g", "device-a", "optane-like"] {
        for number_count in [1 << 20, 4 << 20] {
            for (operation, ratio) in ratios(drive, false, number_count, MEMORY_BYTES).unwrap() {
                let what = format!("{drive}, {number_count}, {operation}: {ratio:.2}");
                assert!((0.85..1.15).contains(&ratio), "{what}");
            }
        }
    }
}

#[test]
fn a_disk_with_a_buffer_is_not_what_the_affine_model_thinks() {
    // Two streams in turn cost it less than a setup each; whoever predicts for disks has to know.
    let ratios = ratios("barracuda-7200-11", true, 4 << 20, MEMORY_OF_PIECES_BYTES).unwrap();
    let sort = ratios.into_iter().find(|(operation, _)| *operation == "sort");
    assert!(sort.is_some_and(|(_, ratio)| (1.15..3.0).contains(&ratio)), "{sort:?}");
}
