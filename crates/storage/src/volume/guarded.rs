//! A volume that is left alone after a sync that failed.
//!
//! ```text
//!   sync, create, remove, resize, write ──► device fails ──► stopped: everything is refused
//!                                                                │
//!                                              opening again ◄───┘ the log decides what is there
//! ```
//!
//! After a failed sync nothing is known about what was written since the one before: the kernel may
//! have dropped it and call it clean, so that the next sync succeeds without it (Rebello et al., "Can
//! Applications Recover from fsync Failures?", USENIX ATC 2020). Whoever went on would cut a log that
//! is still needed, or read back older bytes than it wrote.
//!
//! 1. Once stopped, for ever stopped: every call that reads, changes or syncs is refused, also from
//!    threads that read past the queue. Completions of what is in flight still come.
//! 2. A volume syncs inside of other calls that change it, so a device that fails in one of them stops
//!    it, too. A request that fails by itself does not: its owner is told, and syncs later.

use super::{FileRequest, PastQueue, Volume};
use crate::plant::{EngineBug, is_planted};
use crate::{FileId, Lsn, StorageError};
use nandu_base::Nanos;
use nandu_device::{Completion, Counters, EnergyParts, Operation, TimeSource};
use std::sync::{Arc, OnceLock};

/// Why a volume is left alone, for all who hold it.
#[derive(Clone, Debug, Default)]
pub(super) struct Stop(Arc<OnceLock<String>>);

impl Stop {
    pub(super) fn check(&self) -> Result<(), StorageError> {
        match self.0.get() {
            None => Ok(()),
            Some(cause) => Err(StorageError::Poisoned { cause: cause.clone() }),
        }
    }

    /// A cause that was noted already stays: it is that of the failures that follow.
    pub(super) fn set(&self, cause: String) {
        let _ = self.0.set(cause);
    }

    fn note(&self, error: &StorageError) {
        if !is_planted(EngineBug::FailedSyncRetried) {
            self.set(error.to_string());
        }
    }

    /// A sync failed. That there is no room, or that the file system takes no more writes, is no better
    /// than any other reason: what waited in memory for its place is lost.
    fn note_sync(&self, error: &StorageError) {
        // `NotFound` comes from the look at the table of files, before anything was handed to the
        // device, so nothing can have been lost.
        if !matches!(error, StorageError::NotFound { .. }) {
            self.note(error);
        }
    }
}

/// The volume below, until it fails.
pub(super) struct GuardedVolume {
    inner: Box<dyn Volume>,
    stop: Stop,
}

impl GuardedVolume {
    pub(super) const fn new(inner: Box<dyn Volume>, stop: Stop) -> Self {
        Self { inner, stop }
    }

    /// A call that changes the volume, perhaps with a sync inside.
    fn change<T>(
        &mut self,
        call: impl FnOnce(&mut dyn Volume) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        self.stop.check()?;
        call(self.inner.as_mut()).inspect_err(|error| {
            if matches!(error, StorageError::Device { .. }) {
                self.stop.note(error);
            }
        })
    }
}

impl Volume for GuardedVolume {
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
        self.inner.volatile_cache()
    }

    fn now(&self) -> Nanos {
        self.inner.now()
    }

    fn files(&self) -> Vec<(FileId, String)> {
        self.inner.files()
    }

    fn create_logged(&mut self, name: &str, records_from: Lsn) -> Result<FileId, StorageError> {
        self.change(|volume| volume.create_logged(name, records_from))
    }

    fn records_from(&self, file: FileId) -> Lsn {
        self.inner.records_from(file)
    }

    fn finish_making(&mut self) -> Result<(), StorageError> {
        self.change(|volume| volume.finish_making())
    }

    fn remove(&mut self, file: FileId) -> Result<(), StorageError> {
        self.change(|volume| volume.remove(file))
    }

    fn byte_count(&self, file: FileId) -> u64 {
        self.inner.byte_count(file)
    }

    fn found_byte_count(&self, file: FileId) -> u64 {
        self.inner.found_byte_count(file)
    }

    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        self.change(|volume| volume.set_byte_count(file, bytes))
    }

    fn free_bytes(&self) -> Option<u64> {
        self.inner.free_bytes()
    }

    fn file_system(&self) -> Option<u64> {
        self.inner.file_system()
    }

    fn submit(
        &mut self,
        file: FileId,
        now: Nanos,
        request: FileRequest,
    ) -> Result<(), StorageError> {
        if request.operation == Operation::Read {
            self.stop.check()?;
            return self.inner.submit(file, now, request);
        }
        if request.operation == Operation::Flush {
            // It may have to write a table first, so it fails as a sync does.
            self.stop.check()?;
            let begun = self.inner.submit(file, now, request);
            return begun.inspect_err(|error| self.stop.note_sync(error));
        }
        self.change(|volume| volume.submit(file, now, request))
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        let completion = self.inner.next_completion(until)?;
        if let (Operation::Flush, Err(error)) = (completion.operation, &completion.result) {
            let what = format!("flush of {}", self.name());
            self.stop.note(&StorageError::Device { what, error: error.clone() });
        }
        Some(completion)
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn sync(&mut self, file: FileId, now: Nanos) -> Result<Nanos, StorageError> {
        self.stop.check()?;
        self.inner.sync(file, now).inspect_err(|error| self.stop.note_sync(error))
    }

    fn sync_found(&mut self) -> Result<(), StorageError> {
        self.stop.check()?;
        self.inner.sync_found().inspect_err(|error| self.stop.note_sync(error))
    }

    fn check_moment(&mut self, closed_by: Option<u32>) -> Result<bool, StorageError> {
        self.change(|volume| volume.check_moment(closed_by))
    }

    fn note_closed(&mut self, run: u32) {
        if self.stop.check().is_ok() {
            self.inner.note_closed(run);
        }
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }

    fn energy_by(&self, time: Nanos) -> Option<EnergyParts> {
        self.inner.energy_by(time)
    }

    fn is_read_only(&self) -> bool {
        self.inner.is_read_only()
    }

    fn past_queue(&self) -> Option<Arc<dyn PastQueue>> {
        let inner = self.inner.past_queue()?;
        Some(Arc::new(GuardedPastQueue { inner, stop: self.stop.clone() }))
    }

    fn hand_over(&mut self) {
        self.inner.hand_over();
    }
}

struct GuardedPastQueue {
    inner: Arc<dyn PastQueue>,
    stop: Stop,
}

impl PastQueue for GuardedPastQueue {
    fn read_at(
        &self,
        file: FileId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), StorageError> {
        self.stop.check()?;
        self.inner.read_at(file, offset_bytes, buffer)
    }

    fn sync(&self, file: FileId) -> Result<(), StorageError> {
        self.stop.check()?;
        self.inner.sync(file).inspect_err(|error| self.stop.note_sync(error))
    }

    fn wait_for_arrival(&self) {
        self.inner.wait_for_arrival();
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::SharedDevice;
    use super::super::{DeviceVolume, Io, IoOwner};
    use super::*;
    use nandu_device::{
        Device, DeviceError, DeviceInfo, FaultPlan, FaultyDevice, Geometry, IoBuffer, MemoryConfig,
        MemoryDevice, Rejected, Request,
    };

    /// A device whose flushes end with this error, once there is one.
    #[derive(Debug)]
    struct Reasoned(MemoryDevice, Option<DeviceError>);

    impl Device for Reasoned {
        fn info(&self) -> &DeviceInfo {
            self.0.info()
        }

        fn now(&self) -> Nanos {
            self.0.now()
        }

        fn submit(&mut self, now: Nanos, request: Request) -> Result<(), Rejected> {
            self.0.submit(now, request)
        }

        fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
            let mut completion = self.0.next_completion(until)?;
            if let (Operation::Flush, Some(error)) = (completion.operation, &self.1) {
                completion.result = Err(error.clone());
            }
            Some(completion)
        }

        fn in_flight(&self) -> u32 {
            self.0.in_flight()
        }

        fn idle_until(&mut self, time: Nanos) -> Nanos {
            self.0.idle_until(time)
        }

        fn counters(&self) -> Counters {
            self.0.counters()
        }
    }

    type TestDevice = SharedDevice<FaultyDevice<MemoryDevice>>;

    fn fixture() -> (TestDevice, Io, FileId) {
        let geometry = Geometry { sector_bytes: 512, sector_count: 1 << 14 };
        let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        let device = SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()));
        let volume = DeviceVolume::format(Box::new(device.clone())).unwrap();
        let io = Io::new(Box::new(volume), Arc::default());
        let file = io.create("table").unwrap();
        (device, io, file)
    }

    fn fail_next(device: &TestDevice, ahead: u64) {
        let at = device.lock().submitted_count() + ahead;
        device.lock().set_plan(FaultPlan { fail_requests: vec![at], ..FaultPlan::default() });
    }

    fn transfer(io: &Io, file: FileId, operation: Operation) -> Result<(), StorageError> {
        let ticket = io.submit(IoOwner::Operator, file, operation, 0, IoBuffer::zeroed(512))?;
        let what = "transfer".to_owned();
        io.wait(ticket).result.map_err(|error| StorageError::Device { what, error })
    }

    fn is_stopped(io: &Io, file: FileId) -> bool {
        let refused =
            |result: Result<(), StorageError>| matches!(result, Err(StorageError::Poisoned { .. }));
        let mut answers = vec![
            io.check(),
            transfer(io, file, Operation::Read),
            transfer(io, file, Operation::Write),
        ];
        answers.push(io.sync(file));
        answers.push(io.create("other").map(drop));
        answers.push(io.set_byte_count(file, 1 << 16));
        answers.push(io.remove(file));
        let refused_count = answers.into_iter().filter(|answer| refused(answer.clone())).count();
        assert!(refused_count == 0 || refused_count == 7, "it is stopped as a whole");
        refused_count == 7
    }

    #[test]
    fn a_sync_that_failed_is_the_last_call_that_a_volume_takes() {
        let (device, io, file) = fixture();
        transfer(&io, file, Operation::Write).unwrap();
        fail_next(&device, 1);
        assert!(matches!(io.sync(file), Err(StorageError::Device { .. })));
        assert!(is_stopped(&io, file), "the device would do all that again");
    }

    #[test]
    fn a_sync_inside_of_another_call_counts_as_well() {
        let (device, io, _) = fixture();
        fail_next(&device, 1);
        assert!(matches!(io.create("b"), Err(StorageError::Device { .. })));
        assert!(is_stopped(&io, FileId(1)));
        let (device, io, file) = fixture();
        fail_next(&device, 1);
        let flush = transfer(&io, file, Operation::Flush);
        assert!(matches!(flush, Err(StorageError::Device { .. })), "{flush:?}");
        assert!(is_stopped(&io, file));
    }

    #[test]
    fn a_sync_that_failed_counts_whatever_its_reason() {
        for error in [DeviceError::NoSpace, DeviceError::ReadOnly, DeviceError::PowerLost] {
            for is_inside in [false, true] {
                let geometry = Geometry { sector_bytes: 512, sector_count: 1 << 14 };
                let memory = MemoryConfig { geometry, ..MemoryConfig::default() };
                let device = SharedDevice::new(Reasoned(MemoryDevice::new(memory), None));
                let volume = DeviceVolume::format(Box::new(device.clone())).unwrap();
                let io = Io::new(Box::new(volume), Arc::default());
                let file = io.create("table").unwrap();
                device.lock().1 = Some(error.clone());
                let failed = match is_inside {
                    true => io.create("other").map(drop),
                    false => io.sync(file),
                };
                failed.unwrap_err();
                device.lock().1 = None;
                assert!(is_stopped(&io, file), "{error}, inside of another call: {is_inside}");
            }
        }
    }

    #[test]
    fn requests_that_fail_and_calls_that_make_no_sense_stop_nothing() {
        let (device, io, file) = fixture();
        fail_next(&device, 1);
        assert!(transfer(&io, file, Operation::Write).is_err());
        fail_next(&device, 1);
        transfer(&io, file, Operation::Write).unwrap_err();
        assert!(matches!(io.sync(FileId(99)), Err(StorageError::NotFound { .. })));
        assert!(matches!(io.create("a/b"), Err(StorageError::InvalidSetting { .. })));
        io.set_byte_count(file, 1 << 40).unwrap_err();
        io.sync(file).unwrap();
        assert_eq!(io.check(), Ok(()));
    }
}
