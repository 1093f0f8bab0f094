//! A volume of one file on a device in memory with faults, which can be turned off and on again.

use crate::volume::{FileRequest, SharedIo, Volume};
use crate::{FileId, StorageError};
use nandu_base::{Nanos, SectorIndex};
use nandu_device::{
    Completion, Counters, Device, FaultPlan, FaultyDevice, Geometry, Inspect, MemoryConfig,
    MemoryDevice, Operation, Request, TimeSource,
};
use std::collections::VecDeque;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) const SECTOR_BYTES: u32 = 512;
pub(super) const LOG_FILE: FileId = FileId(1);

type Faulty = FaultyDevice<MemoryDevice>;

/// The device, which outlives the volumes that are opened on it.
#[derive(Clone, Debug)]
pub(super) struct Machine(Arc<Mutex<Option<Faulty>>>);

/// What is wrong with a request, on its way to a `StorageError`.
struct TestVolume {
    machine: Machine,
    byte_count: u64,
    kept: VecDeque<Completion>,
}

impl Machine {
    pub(super) fn new(plan: FaultPlan) -> Self {
        let geometry = Geometry { sector_bytes: SECTOR_BYTES, sector_count: 4096 };
        let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        Self(Arc::new(Mutex::new(Some(FaultyDevice::new(device, plan)))))
    }

    /// Cuts the power, if that did not happen, and starts again with another plan.
    pub(super) fn restart(&self, plan: FaultPlan) {
        let mut slot = self.0.lock().unwrap();
        let mut device = slot.take().expect("the device is there between calls");
        device.cut_power();
        let mut device = device.into_inner();
        while device.next_completion(Nanos::MAX).is_some() {}
        *slot = Some(FaultyDevice::new(device, plan));
    }

    pub(super) fn io(&self) -> SharedIo {
        let volume = TestVolume { machine: self.clone(), byte_count: 0, kept: VecDeque::new() };
        let mut volume = volume;
        volume.byte_count = u64::from(SECTOR_BYTES) * 4096;
        SharedIo::new(Box::new(volume), Arc::new(AtomicU64::new(0)))
    }

    pub(super) fn request_count(&self) -> u64 {
        self.device().as_ref().expect("the device is there").submitted_count()
    }

    /// Flips a bit of a byte of the file.
    pub(super) fn flip(&self, offset: u64, bit: u8) {
        let mut slot = self.0.lock().unwrap();
        let faulty = slot.take().expect("the device is there between calls");
        let mut device = faulty.into_inner();
        let sector = SectorIndex(offset / u64::from(SECTOR_BYTES));
        let mut bytes = vec![0; SECTOR_BYTES as usize];
        device.peek(sector, &mut bytes);
        bytes[nandu_base::to_index(offset % u64::from(SECTOR_BYTES))] ^= 1 << bit;
        device.poke(sector, &bytes);
        *slot = Some(FaultyDevice::new(device, FaultPlan::default()));
    }

    fn device(&self) -> MutexGuard<'_, Option<Faulty>> {
        self.0.lock().unwrap()
    }

    fn with<R>(&self, look: impl FnOnce(&mut Faulty) -> R) -> R {
        look(self.device().as_mut().expect("the device is there between calls"))
    }
}

impl Volume for TestVolume {
    fn name(&self) -> &'static str {
        "test"
    }

    fn sector_bytes(&self) -> u32 {
        SECTOR_BYTES
    }

    fn buffer_alignment(&self) -> u32 {
        512
    }

    fn queue_depth_max(&self) -> u32 {
        64
    }

    fn time_source(&self) -> TimeSource {
        TimeSource::Virtual
    }

    fn volatile_cache(&self) -> bool {
        true
    }

    fn now(&self) -> Nanos {
        self.machine.with(|device| device.now())
    }

    fn files(&self) -> Vec<(FileId, String)> {
        vec![(LOG_FILE, "log".to_owned())]
    }

    fn create(&mut self, name: &str) -> Result<FileId, StorageError> {
        Err(StorageError::Exists { what: name.to_owned() })
    }

    fn remove(&mut self, _file: FileId) -> Result<(), StorageError> {
        Err(StorageError::NotFound { what: "another file".to_owned() })
    }

    fn byte_count(&self, _file: FileId) -> u64 {
        self.byte_count
    }

    fn set_byte_count(&mut self, _file: FileId, bytes: u64) -> Result<(), StorageError> {
        assert!(bytes <= self.byte_count, "the log of a test fits the device");
        Ok(())
    }

    fn submit(
        &mut self,
        _file: FileId,
        now: Nanos,
        request: FileRequest,
    ) -> Result<(), StorageError> {
        let sector_bytes = u64::from(SECTOR_BYTES);
        assert!(request.offset_bytes.is_multiple_of(sector_bytes), "offsets are whole sectors");
        assert!(request.length_bytes.is_multiple_of(sector_bytes), "lengths are whole sectors");
        let request = Request {
            id: request.id,
            operation: request.operation,
            first_sector: SectorIndex(request.offset_bytes / sector_bytes),
            sector_count: nandu_base::to_u32(request.length_bytes / sector_bytes),
            buffer: request.buffer,
        };
        self.machine.with(|device| device.submit(now, request)).map_err(|rejected| {
            StorageError::Device { what: "a request".to_owned(), error: rejected.error }
        })
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.kept.pop_front().or_else(|| self.machine.with(|device| device.next_completion(until)))
    }

    fn in_flight(&self) -> u32 {
        self.machine.with(|device| device.in_flight())
    }

    fn sync(&mut self, _file: FileId, now: Nanos) -> Result<Nanos, StorageError> {
        self.machine
            .with(|device| device.submit(now, Request::flush(0)))
            .expect("a flush is never rejected");
        loop {
            let completion = self.machine.with(|device| device.next_completion(Nanos::MAX));
            let completion = completion.expect("the flush is in flight");
            if completion.operation == Operation::Flush {
                let what = "sync".to_owned();
                return match completion.result {
                    Ok(()) => Ok(completion.completed_at),
                    Err(error) => Err(StorageError::Device { what, error }),
                };
            }
            self.kept.push_back(completion);
        }
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.machine.with(|device| device.idle_until(time))
    }

    fn counters(&self) -> Counters {
        self.machine.with(|device| device.counters())
    }
}
