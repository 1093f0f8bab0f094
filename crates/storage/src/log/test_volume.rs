//! A volume of one file on a device in memory with faults, which can be turned off and on again.

use crate::volume::{FileRequest, Io, NO_RECORDS, Volume};
use crate::{FileId, Lsn, StorageError};
use nandu_base::{Nanos, SectorIndex};
use nandu_device::{
    Completion, Counters, Device, FaultPlan, FaultyDevice, Geometry, Inspect, MemoryConfig,
    MemoryDevice, Operation, Request, TimeSource,
};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

pub(super) const SECTOR_BYTES: u32 = 512;
const SECTOR_COUNT: u64 = 8192;
pub(super) const LOG_FILE: FileId = FileId(1);

type Faulty = FaultyDevice<MemoryDevice>;

/// The device, which outlives the volumes that are opened on it.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    device: Arc<Mutex<Option<Faulty>>>,
    /// Byte ranges of the writes so far.
    writes: Arc<Mutex<Vec<Range<u64>>>>,
    sector_bytes: u32,
}

struct TestVolume {
    machine: Machine,
    sector_bytes: u32,
    byte_count: u64,
    kept: VecDeque<Completion>,
}

impl Machine {
    pub(super) fn new(plan: FaultPlan) -> Self {
        Self::with_sectors(SECTOR_BYTES, plan)
    }

    pub(super) fn with_sectors(sector_bytes: u32, plan: FaultPlan) -> Self {
        let geometry = Geometry { sector_bytes, sector_count: SECTOR_COUNT };
        let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        let device = Arc::new(Mutex::new(Some(FaultyDevice::new(device, plan))));
        Self { device, writes: Arc::default(), sector_bytes }
    }

    /// Cuts the power, if that did not happen, and starts again with another plan.
    pub(super) fn restart(&self, plan: FaultPlan) {
        let mut slot = self.device();
        let mut device = slot.take().expect("the device is there between calls");
        device.cut_power();
        let mut device = device.into_inner();
        while device.next_completion(Nanos::MAX).is_some() {}
        *slot = Some(FaultyDevice::new(device, plan));
    }

    pub(super) fn io(&self) -> Io {
        self.io_as(self.sector_bytes, u64::from(self.sector_bytes) * SECTOR_COUNT)
    }

    /// A volume that claims sectors, not smaller than the device's, and a length.
    pub(super) fn io_as(&self, sector_bytes: u32, byte_count: u64) -> Io {
        let (machine, kept) = (self.clone(), VecDeque::new());
        let volume = TestVolume { machine, sector_bytes, byte_count, kept };
        Io::new(Box::new(volume), Arc::new(AtomicU64::new(0)))
    }

    /// Another plan from now on; requests are counted on.
    pub(super) fn set_plan(&self, plan: FaultPlan) {
        self.with(|device| device.set_plan(plan));
    }

    pub(super) fn request_count(&self) -> u64 {
        self.device().as_ref().expect("the device is there").submitted_count()
    }

    /// The byte ranges of the writes since the last call.
    pub(super) fn take_writes(&self) -> Vec<Range<u64>> {
        std::mem::take(&mut self.writes.lock().unwrap())
    }

    /// Flips a bit of a byte of the file.
    pub(super) fn flip(&self, offset: u64, bit: u8) {
        self.change(offset, |byte| *byte ^= 1 << bit);
    }

    /// Whole sectors of the file, as they are on the device.
    pub(super) fn look(&self, offset: u64, bytes: &mut [u8]) {
        let sector = SectorIndex(offset / u64::from(self.sector_bytes));
        let mut slot = self.device();
        let device = slot.take().expect("the device is there between calls").into_inner();
        device.peek(sector, bytes);
        *slot = Some(FaultyDevice::new(device, FaultPlan::default()));
    }

    /// Changes a byte of the file behind everybody's back. The plan of faults ends.
    pub(super) fn change(&self, offset: u64, change: impl FnOnce(&mut u8)) {
        let mut slot = self.device();
        let mut device = slot.take().expect("the device is there between calls").into_inner();
        let sector = SectorIndex(offset / u64::from(self.sector_bytes));
        let mut bytes = vec![0; self.sector_bytes as usize];
        device.peek(sector, &mut bytes);
        change(&mut bytes[nandu_base::to_index(offset % u64::from(self.sector_bytes))]);
        device.poke(sector, &bytes);
        *slot = Some(FaultyDevice::new(device, FaultPlan::default()));
    }

    fn device(&self) -> MutexGuard<'_, Option<Faulty>> {
        self.device.lock().unwrap()
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
        self.sector_bytes
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

    fn create_logged(&mut self, name: &str, _records_from: Lsn) -> Result<FileId, StorageError> {
        Err(StorageError::Exists { what: name.to_owned() })
    }

    fn records_from(&self, _file: FileId) -> Lsn {
        NO_RECORDS
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
        let sector_bytes = u64::from(self.machine.sector_bytes);
        if request.operation == Operation::Write {
            let range = request.offset_bytes..request.offset_bytes + request.length_bytes;
            self.machine.writes.lock().unwrap().push(range);
        }
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
