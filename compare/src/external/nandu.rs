//! Ours: a vector of records in a directory of real files, sorted into another vector.

use super::{Checksum, Job, RECORD_BYTES, key_of};
use crate::Failure;
use crate::process::Meter;
use ::nandu::{DirectoryOptions, DirectoryVolume};
use nandu_external::{
    ExternalError, Grant, Natural, RecordStream as _, Settings, Sorter, Store, Vector,
};
use nandu_storage::volume::Io;
use std::sync::Arc;

/// Makes the records, then sorts them, which is measured; then looks at the result.
///
/// # Errors
/// If the directory, the memory or the disk refuse.
pub(super) fn sort(job: &Job) -> Result<String, Failure> {
    let engine = |error: &dyn std::fmt::Display| Failure::Engine(error.to_string());
    let directory = job.temp.join("nandu");
    let volume = DirectoryVolume::create(&directory, DirectoryOptions::default())
        .map_err(|error| engine(&error))?;
    let io = Io::new(Box::new(volume), Arc::default());
    let settings = Settings { block_bytes: job.block_bytes, in_flight: job.in_flight };
    let store = Store::new(&[io], settings, Grant::new(job.memory_bytes))
        .map_err(|error| engine(&error))?;
    let input = input(&store, job).map_err(|error| engine(&error))?;
    let meter = Meter::start()?;
    let sorted = sorted(input, job).map_err(|error| engine(&error))?;
    let settled = meter.stop()?;
    let checksum = checksum(&sorted).map_err(|error| engine(&error))?;
    settled.answer(checksum.row(), None)
}

fn input(store: &Store, job: &Job) -> Result<Vector<(u64, u64)>, ExternalError> {
    let mut writer = Vector::writer_of(store, job.record_count)?;
    for number in 0..job.record_count {
        writer.push((key_of(number, job.seed), number))?;
    }
    writer.finish()
}

/// Memory goes to the sort, but for what reads the input and writes the result.
fn sorted(input: Vector<(u64, u64)>, job: &Job) -> Result<Vector<(u64, u64)>, ExternalError> {
    const _: () = assert!(<(u64, u64) as nandu_external::Record>::BYTES as u64 == RECORD_BYTES);
    let store = input.store().clone();
    let stream_bytes = (u64::from(job.in_flight) + 1) * store.block_bytes();
    let bytes = job.memory_bytes.saturating_sub(stream_bytes);
    let mut sorter = Sorter::with_bytes(&store, Natural, bytes)?;
    sorter.push_all(input.into_stream()?)?;
    // The result is written by what the input was read by.
    sorter.finish()?.store_in(&store)
}

fn checksum(sorted: &Vector<(u64, u64)>) -> Result<Checksum, ExternalError> {
    let mut checksum = Checksum::default();
    let mut scanner = sorted.scanner()?;
    while let Some((key, _)) = scanner.next_record()? {
        checksum.add(key);
    }
    Ok(checksum)
}
