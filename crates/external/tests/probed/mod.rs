//! A drive that is probed first and used afterwards: what was predicted to take of it, over what it took.

use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::Device;
use nandu_drives::profile::{Profile, SimOptions};
use nandu_external::basic::{measure, merge_sort, read_random, scan, write_random};
use nandu_external::cost::{Probed, Tally, predict};
use nandu_external::{ExternalError, Grant, Settings, Store};
use nandu_probe::{
    DeviceProfile, QuickOptions, Silent, StreamOptions, derive, measure_streams, run_plan,
    series_quick,
};
use nandu_storage::volume::{DeviceVolume, Io};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// What is predicted, in the order of [`ratios`].
pub(crate) const OPERATIONS: [&str; 4] = ["write", "scan", "sort", "random read"];
/// Of drives and of what is random.
pub(crate) const SEED: u64 = 7;
/// Records that are read anywhere.
const READ_COUNT: u64 = 300;

/// How much is written, scanned, sorted and read.
#[derive(Clone, Copy)]
pub(crate) struct Work {
    /// Numbers of eight bytes.
    pub(crate) number_count: u64,
    /// Memory of the sort.
    pub(crate) memory_bytes: u64,
    /// Blocks, and requests in flight.
    pub(crate) settings: Settings,
}

/// What a probe tells of a drive of so many bytes; and the drive, with all that the probe left in it.
pub(crate) fn probe(
    drive: &str,
    capacity: ByteCount,
    quick: &QuickOptions,
    stream_duration: Nanos,
) -> (DeviceProfile, Box<dyn Device + Send>) {
    let profile = Profile::load(drive).expect("it is built in");
    let options = SimOptions { capacity: Some(capacity), seed: SEED, keep_data: true };
    let mut device = profile.open(options).expect("it can be as small");
    let info = device.info().clone();
    let plan = series_quick(&info, quick);
    let mut results = Vec::new();
    run_plan(device.as_mut(), &plan, &mut Silent, &mut |result| results.push(result))
        .expect("the drive is sound");
    let streams = StreamOptions { duration: stream_duration, writes: true, seed: SEED };
    let streams = measure_streams(device.as_mut(), &streams, &mut Silent);
    let profile = derive(&info, &results, &[]).expect("reads and writes were measured");
    let streams = Some(streams.expect("the drive is sound"));
    (DeviceProfile { streams, ..profile }, device)
}

/// Predicted over taken, of each of [`OPERATIONS`].
pub(crate) fn ratios(
    (profile, device): (DeviceProfile, Box<dyn Device + Send>),
    work: Work,
) -> Result<[f64; 4], ExternalError> {
    let Work { number_count, memory_bytes, settings } = work;
    let volume = DeviceVolume::format(device).expect("it is probed, not used");
    let io = Io::new(Box::new(volume), Arc::new(AtomicU64::new(0)));
    let stream_bytes = u64::from(settings.in_flight + 1) * u64::from(settings.block_bytes);
    let store = Store::new(&[io], settings, Grant::new(2 * memory_bytes + 2 * stream_bytes))?;
    let model = Probed::new(&profile, settings.in_flight)?;
    let mut rng = Rng::new(1);
    let mut tallies: [Tally<'_>; 4] = std::array::from_fn(|_| model.tally());
    let [write, scanned, sorted, read] = &mut tallies;
    predict::write::<u64>(&store, number_count, write)?;
    predict::scan::<u64>(&store, number_count, scanned)?;
    predict::sort::<u64>(&store, number_count, memory_bytes, &mut rng, sorted)?;
    predict::read_anywhere::<u64>(&store, number_count, READ_COUNT, &mut rng, read)?;
    let predicted = tallies.map(|tally| tally.time_ns());
    let written = measure(&store, || write_random(&store, number_count, &mut rng))?;
    let scanned = measure(&store, || scan(&written.value))?;
    let sorted = measure(&store, || merge_sort(written.value, memory_bytes))?;
    let mut paged = sorted.value.paged(1)?;
    let read = measure(&store, || read_random(&mut paged, READ_COUNT, &mut rng))?;
    let taken = [written.elapsed_ns, scanned.elapsed_ns, sorted.elapsed_ns, read.elapsed_ns];
    Ok(std::array::from_fn(|index| predicted[index] as f64 / taken[index].0 as f64))
}
