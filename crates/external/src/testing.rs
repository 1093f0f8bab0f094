//! For tests: stores on devices in memory.

use crate::{ExternalError, Grant, RecordStream, Settings, Store, on_one_clock};
use nandu_base::Nanos;
use nandu_device::{FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice};
use nandu_storage::StorageError;
use nandu_storage::volume::{DeviceVolume, Io, Volume};
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Bytes of the grant of [`store`].
pub const GRANT_BYTES: u64 = 1 << 20;

fn device(capacity_bytes: u64) -> MemoryDevice {
    let geometry = Geometry { sector_bytes: 512, sector_count: capacity_bytes / 512 };
    MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() })
}

/// A volume in memory of `capacity_bytes`.
///
/// # Panics
/// If it is too small for a volume.
#[must_use]
pub fn memory_io(capacity_bytes: u64) -> Io {
    memory_ios(1, capacity_bytes).swap_remove(0)
}

/// So many volumes in memory of `capacity_bytes` each, on one clock.
///
/// # Panics
/// If they are too small for volumes.
#[must_use]
pub fn memory_ios(count: usize, capacity_bytes: u64) -> Vec<Io> {
    let volume = |_| {
        let volume = DeviceVolume::format(Box::new(device(capacity_bytes)));
        Box::new(volume.expect("the device is empty")) as Box<dyn Volume>
    };
    on_one_clock((0..count).map(volume).collect())
}

/// A clock of which each look is a millisecond later than the last one.
pub fn ticking_clock() -> impl Fn() -> Nanos {
    let looks = Cell::new(0);
    move || {
        looks.set(looks.get() + 1);
        Nanos(looks.get() * 1_000_000)
    }
}

/// A volume in memory that fails as `plan` says.
///
/// # Errors
/// If it fails while it is made.
pub fn faulty_io(capacity_bytes: u64, plan: FaultPlan) -> Result<Io, StorageError> {
    let device = Box::new(FaultyDevice::new(device(capacity_bytes), plan));
    let volume = DeviceVolume::format(device)?;
    Ok(Io::new(Box::new(volume), Arc::new(AtomicU64::new(0))))
}

/// A store on `volumes` volumes in memory, with [`GRANT_BYTES`] of memory.
///
/// # Panics
/// If blocks are not of whole sectors of 512 bytes.
#[must_use]
pub fn store(block_bytes: u32, volumes: usize, in_flight: u32) -> Store {
    store_with(block_bytes, volumes, in_flight, GRANT_BYTES)
}

/// The same with `grant_bytes` of memory.
///
/// # Panics
/// If blocks are not of whole sectors of 512 bytes.
#[must_use]
pub fn store_with(block_bytes: u32, volumes: usize, in_flight: u32, grant_bytes: u64) -> Store {
    let volumes = memory_ios(volumes, 16 << 20);
    let settings = Settings { block_bytes, in_flight };
    Store::new(&volumes, settings, Grant::new(grant_bytes)).expect("the settings fit")
}

/// Reads a stream into `given` until it ends or fails; after a failure it has to fail again.
///
/// # Errors
/// As the stream.
///
/// # Panics
/// If it goes on after a failure: there would be a gap.
pub fn read_all<S: RecordStream>(
    stream: &mut S,
    given: &mut Vec<S::Record>,
) -> Result<(), ExternalError> {
    let error = loop {
        match stream.next_record() {
            Ok(Some(record)) => given.push(record),
            Ok(None) => return Ok(()),
            Err(error) => break error,
        }
    };
    assert!(stream.next_record().err() == Some(error.clone()), "a gap is not passed over");
    Err(error)
}
