//! A volume for tests: each file is a fixed stretch of one device with faults, which the test keeps.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use crate::volume::PastQueue;
use crate::{FileId, FileRequest, Lsn, StorageError, Volume};
use nandu_base::{Nanos, SectorIndex};
use nandu_device::{
    Completion, Counters, Device, DeviceError, FaultPlan, FaultyDevice, Geometry, IoBuffer,
    MemoryConfig, MemoryDevice, Operation, Request, TimeSource,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};

pub(crate) const SECTOR_BYTES: u32 = 512;
const FILE_SECTOR_COUNT: u64 = 4096;
const FILE_COUNT: u16 = 4;

/// The device, shared by the volume and the test.
#[derive(Clone)]
pub(crate) struct Disk(Arc<Mutex<Inner>>);

struct Inner {
    device: FaultyDevice<MemoryDevice>,
    arrived: VecDeque<Completion>,
    next_own_id: u64,
}

struct DiskVolume {
    disk: Disk,
    has_reader: bool,
}

impl Disk {
    pub(crate) fn new(plan: FaultPlan) -> Self {
        Self::on(memory(), plan)
    }

    fn on(memory: MemoryDevice, plan: FaultPlan) -> Self {
        let device = FaultyDevice::new(memory, plan);
        let (arrived, next_own_id) = (VecDeque::new(), 1 << 63);
        Self(Arc::new(Mutex::new(Inner { device, arrived, next_own_id })))
    }

    /// The same bytes under another plan of faults, which counts requests from 1 again. What used the
    /// disk before has an empty one now.
    pub(crate) fn reopen(&self, plan: FaultPlan) -> Self {
        let fresh = FaultyDevice::new(memory(), FaultPlan::default());
        let device = std::mem::replace(&mut self.lock().device, fresh);
        Self::on(device.into_inner(), plan)
    }

    pub(crate) fn volume(&self, has_reader: bool) -> Box<dyn Volume> {
        Box::new(DiskVolume { disk: self.clone(), has_reader })
    }

    /// How many requests the device got.
    pub(crate) fn request_count(&self) -> u64 {
        self.lock().device.submitted_count()
    }

    /// Flips all bits of the byte at an offset of a file.
    pub(crate) fn damage(&self, file: FileId, offset_bytes: u64) {
        let bytes = u64::from(SECTOR_BYTES);
        let start = offset_bytes / bytes * bytes;
        let mut buffer = self.transfer(Operation::Read, file, start, sector()).unwrap();
        buffer[(offset_bytes - start) as usize] ^= 0xFF;
        self.transfer(Operation::Write, file, start, buffer).unwrap();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.0.lock().unwrap()
    }

    fn transfer(
        &self,
        operation: Operation,
        file: FileId,
        offset_bytes: u64,
        buffer: IoBuffer,
    ) -> Result<IoBuffer, DeviceError> {
        let length_bytes = buffer.len() as u64;
        let buffer = Some(buffer);
        let request = FileRequest { id: 0, operation, offset_bytes, length_bytes, buffer };
        let completion = self.run(Nanos::ZERO, placed(file, request))?;
        Ok(completion.buffer.unwrap())
    }

    fn flush(&self, now: Nanos) -> Result<Nanos, DeviceError> {
        self.run(now, Request::flush(0)).map(|completion| completion.completed_at)
    }

    /// Has the device do a request at `now` or its own present, and keeps what completes before.
    fn run(&self, now: Nanos, request: Request) -> Result<Completion, DeviceError> {
        let mut inner = self.lock();
        inner.next_own_id += 1;
        let id = inner.next_own_id;
        let now = now.max(inner.device.now());
        let submitted = inner.device.submit(now, Request { id, ..request });
        submitted.map_err(|rejected| rejected.error)?;
        loop {
            let completion = inner.device.next_completion(Nanos::MAX).unwrap();
            if completion.id == id {
                return completion.result.clone().map(|()| completion);
            }
            inner.arrived.push_back(completion);
        }
    }
}

fn sector() -> IoBuffer {
    IoBuffer::zeroed(SECTOR_BYTES as usize)
}

fn memory() -> MemoryDevice {
    let sector_count = FILE_SECTOR_COUNT * u64::from(FILE_COUNT);
    let geometry = Geometry { sector_bytes: SECTOR_BYTES, sector_count };
    MemoryDevice::new(MemoryConfig { geometry, queue_depth_max: 8, ..MemoryConfig::default() })
}

fn placed(file: FileId, request: FileRequest) -> Request {
    let FileRequest { id, operation, offset_bytes, length_bytes, buffer } = request;
    let sector_bytes = u64::from(SECTOR_BYTES);
    assert!(offset_bytes + length_bytes <= FILE_SECTOR_COUNT * sector_bytes, "inside its stretch");
    let first = u64::from(file.0) * FILE_SECTOR_COUNT + offset_bytes / sector_bytes;
    let sector_count = u32::try_from(length_bytes / sector_bytes).unwrap();
    Request { id, operation, first_sector: SectorIndex(first), sector_count, buffer }
}

impl Volume for DiskVolume {
    fn name(&self) -> &str {
        "disk"
    }

    fn sector_bytes(&self) -> u32 {
        SECTOR_BYTES
    }

    fn buffer_alignment(&self) -> u32 {
        self.disk.lock().device.info().buffer_alignment
    }

    fn queue_depth_max(&self) -> u32 {
        self.disk.lock().device.info().queue_depth_max
    }

    fn time_source(&self) -> TimeSource {
        TimeSource::Virtual
    }

    fn volatile_cache(&self) -> bool {
        true
    }

    fn now(&self) -> Nanos {
        self.disk.lock().device.now()
    }

    fn files(&self) -> Vec<(FileId, String)> {
        (0..FILE_COUNT).map(|file| (FileId(file), format!("file {file}"))).collect()
    }

    fn create_logged(&mut self, name: &str, _records_from: Lsn) -> Result<FileId, StorageError> {
        Err(StorageError::Exists { what: name.to_owned() })
    }

    fn records_from(&self, _file: FileId) -> Lsn {
        Lsn(0)
    }

    fn remove(&mut self, _file: FileId) -> Result<(), StorageError> {
        Ok(())
    }

    fn byte_count(&self, _file: FileId) -> u64 {
        FILE_SECTOR_COUNT * u64::from(SECTOR_BYTES)
    }

    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        let mut at = bytes;
        while at < self.byte_count(file) {
            let written = self.disk.transfer(Operation::Write, file, at, sector());
            let what = "cut".to_owned();
            written.map_err(|error| StorageError::Device { what, error })?;
            at += u64::from(SECTOR_BYTES);
        }
        Ok(())
    }

    fn submit(
        &mut self,
        file: FileId,
        now: Nanos,
        request: FileRequest,
    ) -> Result<(), StorageError> {
        let submitted = self.disk.lock().device.submit(now, placed(file, request));
        let what = "submit".to_owned();
        submitted.map_err(|rejected| StorageError::Device { what, error: rejected.error })
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let mut inner = self.disk.lock();
        let arrived = inner.arrived.pop_front();
        arrived.or_else(|| inner.device.next_completion(until))
    }

    fn in_flight(&self) -> u32 {
        let inner = self.disk.lock();
        inner.device.in_flight() + inner.arrived.len() as u32
    }

    fn sync(&mut self, _file: FileId, now: Nanos) -> Result<Nanos, StorageError> {
        let what = "flush".to_owned();
        self.disk.flush(now).map_err(|error| StorageError::Device { what, error })
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.disk.lock().device.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.disk.lock().device.counters()
    }

    fn past_queue(&self) -> Option<Arc<dyn PastQueue>> {
        self.has_reader.then(|| Arc::new(self.disk.clone()) as Arc<dyn PastQueue>)
    }
}

impl PastQueue for Disk {
    fn read_at(
        &self,
        file: FileId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), StorageError> {
        let empty = IoBuffer::zeroed(buffer.len());
        let what = format!("cannot read file {} at {offset_bytes}", file.0);
        let read = self.transfer(Operation::Read, file, offset_bytes, empty);
        let read = read.map_err(|error| StorageError::Device { what, error })?;
        buffer.copy_from_slice(&read);
        Ok(())
    }

    fn sync(&self, _file: FileId) -> Result<(), StorageError> {
        let what = "flush".to_owned();
        let flushed = self.flush(Nanos::ZERO);
        flushed.map(drop).map_err(|error| StorageError::Device { what, error })
    }

    fn wait_for_arrival(&self) {
        let mut inner = self.lock();
        if inner.arrived.is_empty() {
            let next = inner.device.next_completion(Nanos::MAX);
            inner.arrived.extend(next);
        }
    }
}
