//! Files that are synced one by one, as those of a directory are, over a device that is flushed as a
//! whole: a sync of one says nothing about another.
//!
//! ```text
//!   write ─► kernel's memory, by file ─── sync of that file ───► device, flush
//!   read ──► device, memory over it
//!               ├── the end of the process ─► memory stays, where the next one finds it
//!               └── a cut ─► any sectors of it are gone
//! ```
//!
//! 1. What was written and not synced is in the memory alone, whatever is synced beside it.
//! 2. What a sync could not write is gone, unless the power went.
//! 3. After a cut, what is left of the memory may go with the next one: nobody has synced it yet.

use nandu_base::{Nanos, Rng, to_index};
use nandu_device::{Completion, Counters, DeviceError, IoBuffer, Operation, TimeSource};
use nandu_storage::volume::DeviceVolume;
use nandu_storage::{FileId, FileRequest, Lsn, StorageError, Volume};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The id of requests that bring memory to the device. The engine counts its own from others.
const OWN_ID: u64 = u64::MAX;

/// Sectors of one file, by number.
type Sectors = BTreeMap<u64, Vec<u8>>;

/// What a kernel keeps of the files on one device, longer than any process.
#[derive(Clone, Debug, Default)]
pub(crate) struct KernelMemory(Arc<Mutex<BTreeMap<FileId, Sectors>>>);

impl KernelMemory {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<FileId, Sectors>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The power goes: of most that is kept any sectors reach the device, of nearly all files in another
    /// share.
    pub(crate) fn lose(&self, rng: &mut Rng) {
        let kept_of_8 = |rng: &mut Rng| [0, 1, 3, 4, 4, 5, 7, 8][to_index(rng.below(8))];
        for sectors in self.lock().values_mut() {
            let share = kept_of_8(rng);
            sectors.retain(|_, _| rng.below(8) < share);
        }
    }

    fn forget(&self, file: FileId, from_sector: u64) {
        if let Some(sectors) = self.lock().get_mut(&file) {
            sectors.split_off(&from_sector);
        }
    }

    /// Sectors to the end of the last that is kept.
    fn sector_count(&self, file: FileId) -> u64 {
        let memory = self.lock();
        let last = memory.get(&file).and_then(|sectors| sectors.last_key_value());
        last.map_or(0, |(&sector, _)| sector + 1)
    }
}

pub(crate) struct FilesApart {
    inner: DeviceVolume,
    memory: KernelMemory,
    ready: VecDeque<Completion>,
    /// What was kept when a read in flight was issued: places in its buffer, by request.
    reads: BTreeMap<u64, Vec<(usize, Vec<u8>)>>,
}

impl FilesApart {
    /// The volume, with what the kernel kept of its files.
    pub(crate) fn new(mut inner: DeviceVolume, memory: KernelMemory) -> Result<Self, StorageError> {
        let sector_bytes = u64::from(inner.sector_bytes());
        let files: Vec<FileId> = inner.files().into_iter().map(|(file, _)| file).collect();
        memory.lock().retain(|file, _| files.contains(file));
        for file in files {
            let byte_count = memory.sector_count(file) * sector_bytes;
            if byte_count > inner.byte_count(file) {
                inner.set_byte_count(file, byte_count)?;
            }
        }
        Ok(Self { inner, memory, ready: VecDeque::new(), reads: BTreeMap::new() })
    }

    fn sector_bytes_u64(&self) -> u64 {
        u64::from(self.inner.sector_bytes())
    }

    /// Takes a completion from below, with what was kept laid over what was read.
    fn take_in(&mut self, until: Nanos) -> Option<Completion> {
        let mut completion = self.inner.next_completion(until)?;
        if let (Some(kept), Some(buffer)) =
            (self.reads.remove(&completion.id), &mut completion.buffer)
        {
            for (at, bytes) in kept {
                buffer[at..at + bytes.len()].copy_from_slice(&bytes);
            }
        }
        Some(completion)
    }

    /// Writes what is kept of a file to the device.
    fn write_back(&mut self, file: FileId) -> Result<(), StorageError> {
        let kept = self.memory.lock().get(&file).cloned().unwrap_or_default();
        let mut runs: Vec<(u64, Vec<u8>)> = Vec::new();
        let sector_bytes = self.sector_bytes_u64();
        for (sector, bytes) in kept {
            match runs.last_mut() {
                Some((first, run)) if *first + run.len() as u64 / sector_bytes == sector => {
                    run.extend(bytes);
                }
                _ => runs.push((sector, bytes)),
            }
        }
        for (first, bytes) in runs {
            let written = self.write_run(file, first * sector_bytes, &bytes);
            if let Err(error) = written {
                let is_dark =
                    matches!(error, StorageError::Device { error: DeviceError::PowerLost, .. });
                if !is_dark {
                    self.memory.forget(file, 0);
                }
                return Err(error);
            }
        }
        self.memory.forget(file, 0);
        Ok(())
    }

    fn write_run(
        &mut self,
        file: FileId,
        offset_bytes: u64,
        bytes: &[u8],
    ) -> Result<(), StorageError> {
        while self.inner.in_flight() >= self.inner.queue_depth_max() {
            let met = self.take_in(Nanos::MAX);
            self.ready.extend(met);
        }
        let alignment = to_index(u64::from(self.inner.buffer_alignment().max(1)));
        let mut buffer = IoBuffer::with_alignment(bytes.len(), alignment);
        buffer.copy_from_slice(bytes);
        let (id, operation, buffer) = (OWN_ID, Operation::Write, Some(buffer));
        let length_bytes = bytes.len() as u64;
        let request = FileRequest { id, operation, offset_bytes, length_bytes, buffer };
        self.inner.submit(file, self.inner.now(), request)?;
        while let Some(completion) = self.take_in(Nanos::MAX) {
            if completion.id != OWN_ID {
                self.ready.push_back(completion);
                continue;
            }
            let what = format!("what the kernel kept of file {}", file.0);
            return completion.result.map_err(|error| StorageError::Device { what, error });
        }
        Ok(())
    }

    /// Takes a write into the memory.
    fn keep(&mut self, file: FileId, now: Nanos, request: FileRequest) -> Result<(), StorageError> {
        let FileRequest { id, operation, offset_bytes, length_bytes, buffer } = request;
        let sector_bytes = self.sector_bytes_u64();
        if offset_bytes + length_bytes > self.inner.byte_count(file) {
            self.inner.set_byte_count(file, offset_bytes + length_bytes)?;
        }
        let pieces = buffer.iter().flat_map(|buffer| buffer.chunks(to_index(sector_bytes)));
        let sectors = (offset_bytes / sector_bytes..).zip(pieces.map(<[u8]>::to_vec));
        self.memory.lock().entry(file).or_default().extend(sectors);
        let now = now.max(self.inner.now());
        let (issued_at, completed_at, result) = (now, now, Ok(()));
        self.ready.push_back(Completion { id, operation, issued_at, completed_at, result, buffer });
        Ok(())
    }

    /// Notes what is kept of what a read will show.
    fn note_read(&mut self, file: FileId, request: &FileRequest) {
        let sector_bytes = self.sector_bytes_u64();
        let first = request.offset_bytes / sector_bytes;
        let end = (request.offset_bytes + request.length_bytes) / sector_bytes;
        let memory = self.memory.lock();
        let sectors = memory.get(&file).into_iter().flat_map(|sectors| sectors.range(first..end));
        let place = |sector: u64| to_index((sector - first) * sector_bytes);
        let kept: Vec<(usize, Vec<u8>)> =
            sectors.map(|(&sector, bytes)| (place(sector), bytes.clone())).collect();
        drop(memory);
        if !kept.is_empty() {
            self.reads.insert(request.id, kept);
        }
    }
}

impl Volume for FilesApart {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn sector_bytes(&self) -> u32 {
        self.inner.sector_bytes()
    }

    fn buffer_alignment(&self) -> u32 {
        self.inner.buffer_alignment()
    }

    fn queue_depth_max(&self) -> u32 {
        self.inner.queue_depth_max()
    }

    fn time_source(&self) -> TimeSource {
        self.inner.time_source()
    }

    fn volatile_cache(&self) -> bool {
        true
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn files(&self) -> Vec<(FileId, String)> {
        self.inner.files()
    }

    fn create_logged(&mut self, name: &str, records_from: Lsn) -> Result<FileId, StorageError> {
        let file = self.inner.create_logged(name, records_from)?;
        self.memory.forget(file, 0);
        Ok(file)
    }

    fn records_from(&self, file: FileId) -> Lsn {
        self.inner.records_from(file)
    }

    fn finish_making(&mut self) -> Result<(), StorageError> {
        self.inner.finish_making()
    }

    fn remove(&mut self, file: FileId) -> Result<(), StorageError> {
        self.memory.forget(file, 0);
        self.inner.remove(file)
    }

    fn byte_count(&self, file: FileId) -> u64 {
        self.inner.byte_count(file)
    }

    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        self.inner.set_byte_count(file, bytes)?;
        self.memory.forget(file, bytes / self.sector_bytes_u64());
        Ok(())
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }

    fn submit(
        &mut self,
        file: FileId,
        now: Nanos,
        request: FileRequest,
    ) -> Result<(), StorageError> {
        match request.operation {
            Operation::Write if request.buffer.is_some() => return self.keep(file, now, request),
            Operation::Write | Operation::Trim => {
                // Whole pages are trimmed: what is kept of them is worth nothing.
                let sector_bytes = self.sector_bytes_u64();
                let first = request.offset_bytes / sector_bytes;
                let end = (request.offset_bytes + request.length_bytes) / sector_bytes;
                if let Some(sectors) = self.memory.lock().get_mut(&file) {
                    sectors.retain(|sector, _| !(first..end).contains(sector));
                }
            }
            Operation::Flush => self.write_back(file)?,
            Operation::Read => self.note_read(file, &request),
        }
        self.inner.submit(file, now, request)
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.ready.pop_front().or_else(|| self.take_in(until))
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight() + nandu_base::to_u32(self.ready.len() as u64)
    }

    fn sync(&mut self, file: FileId, now: Nanos) -> Result<Nanos, StorageError> {
        self.write_back(file)?;
        self.inner.sync(file, now)
    }

    fn sync_found(&mut self) -> Result<(), StorageError> {
        for (file, _) in self.files() {
            self.sync(file, Nanos::ZERO)?;
        }
        Ok(())
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
