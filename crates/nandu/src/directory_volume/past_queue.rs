//! The open files of a directory as threads use them past the volume's queue, each for itself.
//!
//! 1. A file that is taken out lives on for whoever uses it at that moment.

use super::no_file;
use nandu_device::{Counters, DeviceError, OperationCounters};
use nandu_drives::file::set::{Doorbell, SharedFile};
use nandu_storage::volume::PastQueue;
use nandu_storage::{FileId, StorageError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{PoisonError, RwLock};

/// The files, and what threads did with them.
#[derive(Debug)]
pub(super) struct OpenFiles {
    files: RwLock<BTreeMap<FileId, SharedFile>>,
    /// `None` where requests are done as soon as they are issued.
    doorbell: Option<Doorbell>,
    reads: Count,
    flushes: Count,
}

/// [`OperationCounters`] that threads add to.
#[derive(Debug, Default)]
struct Count {
    requests: AtomicU64,
    bytes: AtomicU64,
    errors: AtomicU64,
}

impl Count {
    fn add<T>(&self, byte_count: usize, answer: &Result<T, DeviceError>) {
        if answer.is_ok() {
            self.requests.fetch_add(1, Ordering::Relaxed);
            self.bytes.fetch_add(byte_count as u64, Ordering::Relaxed);
        } else {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn add_to(&self, counters: &mut OperationCounters) {
        counters.request_count += self.requests.load(Ordering::Relaxed);
        counters.byte_count += self.bytes.load(Ordering::Relaxed);
        counters.error_count += self.errors.load(Ordering::Relaxed);
    }
}

impl OpenFiles {
    pub(super) fn new(doorbell: Option<Doorbell>) -> Self {
        let (reads, flushes) = (Count::default(), Count::default());
        Self { files: RwLock::default(), doorbell, reads, flushes }
    }

    pub(super) fn insert(&self, file: FileId, opened: SharedFile) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).insert(file, opened);
    }

    pub(super) fn remove(&self, file: FileId) {
        self.files.write().unwrap_or_else(PoisonError::into_inner).remove(&file);
    }

    /// Which files there are, in their order.
    pub(super) fn numbers(&self) -> Vec<FileId> {
        self.files.read().unwrap_or_else(PoisonError::into_inner).keys().copied().collect()
    }

    /// Adds what went past the queue so far.
    pub(super) fn add_to(&self, counters: &mut Counters) {
        self.reads.add_to(&mut counters.reads);
        self.flushes.add_to(&mut counters.flushes);
    }

    fn file(&self, file: FileId) -> Result<SharedFile, StorageError> {
        let files = self.files.read().unwrap_or_else(PoisonError::into_inner);
        files.get(&file).cloned().ok_or_else(|| no_file(file, "the volume"))
    }
}

impl PastQueue for OpenFiles {
    fn read_at(
        &self,
        file: FileId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), StorageError> {
        let answer = self.file(file)?.read_at(offset_bytes, buffer);
        self.reads.add(buffer.len(), &answer);
        answer.map_err(|error| StorageError::Device {
            what: format!("read of file {} at {offset_bytes}", file.0),
            error,
        })
    }

    fn sync(&self, file: FileId) -> Result<(), StorageError> {
        let answer = self.file(file)?.sync();
        self.flushes.add(0, &answer);
        let what = format!("cannot sync file {}", file.0);
        answer.map_err(|error| StorageError::Device { what, error })
    }

    fn wait_for_arrival(&self) {
        if let Some(doorbell) = &self.doorbell {
            doorbell.wait();
        }
    }
}
