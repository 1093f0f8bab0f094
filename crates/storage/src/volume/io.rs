//! One volume shared by the parts of the engine: each waits for its own completions, and finds those
//! that came while another part waited.
//!
//! 1. The time of the engine is the latest that any of its volumes told; it goes to every request. A
//!    log on a device of its own therefore never answers before the data device's clock.
//! 2. Every request is waited for by its owner exactly once.
//! 3. After a sync that failed nothing goes to the volume any more (`guarded`).

use super::guarded::{GuardedVolume, Stop};
use super::{FileRequest, Volume};
use crate::{FileId, StorageError};
use nandu_base::Nanos;
use nandu_device::{Completion, IoBuffer, Operation, TimeSource};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Which part of the engine a request belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum IoOwner {
    /// Pages read for the pool.
    PoolRead = 1,
    /// Pages written by a propagation.
    PageWrite = 2,
    /// Blocks of the log.
    Log = 3,
    /// Operators that read and write for themselves.
    Operator = 4,
}

/// Bits of a request's id that count; those above name the owner.
const TICKET_BITS: u32 = 56;

/// A volume, the completions that nobody fetched yet, and the engine's clock.
pub struct Io {
    volume: GuardedVolume,
    clock: Arc<AtomicU64>,
    arrived: VecDeque<Completion>,
    next_ticket: u64,
}

/// An [`Io`] that several parts hold.
#[derive(Clone)]
pub struct SharedIo {
    io: Arc<Mutex<Io>>,
    stop: Stop,
}

impl SharedIo {
    /// Shares `volume`. Parts of one engine on several volumes pass the same `clock`.
    #[must_use]
    pub fn new(volume: Box<dyn Volume>, clock: Arc<AtomicU64>) -> Self {
        clock.fetch_max(volume.now().0, Ordering::Relaxed);
        let stop = Stop::default();
        let volume = GuardedVolume::new(volume, stop.clone());
        let io = Io { volume, clock, arrived: VecDeque::new(), next_ticket: 0 };
        Self { io: Arc::new(Mutex::new(io)), stop }
    }

    /// Whether the volume can still be used. Takes no lock.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`] after a sync that failed.
    pub fn check(&self) -> Result<(), StorageError> {
        self.stop.check()
    }

    /// Whether both are the same volume.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.io, &other.io)
    }

    /// The volume, locked: nobody else uses it until the guard is dropped.
    pub fn lock(&self) -> MutexGuard<'_, Io> {
        // What a panicking thread left is a queue of completions, whole at any time.
        self.io.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for SharedIo {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SharedIo({})", self.lock().volume.name())
    }
}

impl Io {
    /// The volume below, for what is neither a request nor a wait.
    pub fn volume(&mut self) -> &mut dyn Volume {
        &mut self.volume
    }

    /// What the engine's clock says now.
    #[must_use]
    pub fn now(&self) -> Nanos {
        Nanos(self.clock.load(Ordering::Relaxed))
    }

    /// Lets `time` pass in which the processor works, on a simulated volume; requests in flight go on
    /// meanwhile. Where a real clock runs, the work itself took its time.
    pub fn spend(&mut self, time: Nanos) {
        if self.volume.time_source() == TimeSource::Virtual {
            self.clock.fetch_add(time.0, Ordering::Relaxed);
        }
    }

    /// Issues a request now, and gives back the ticket to wait for. `length_bytes` counts for a trim
    /// only; elsewhere it is the buffer's.
    ///
    /// # Errors
    /// If the volume refuses it; the buffer is gone then.
    pub fn submit(
        &mut self,
        owner: IoOwner,
        file: FileId,
        operation: Operation,
        offset_bytes: u64,
        buffer: IoBuffer,
    ) -> Result<u64, StorageError> {
        self.next_ticket += 1;
        let id = u64::from(owner as u8) << TICKET_BITS | self.next_ticket;
        let length_bytes = buffer.len() as u64;
        let request =
            FileRequest { id, operation, offset_bytes, length_bytes, buffer: Some(buffer) };
        let now = self.now();
        self.volume.submit(file, now, request)?;
        Ok(id)
    }

    /// As [`Self::submit`], for a request that is waited for only after other work. A device may keep
    /// requests back until somebody waits, so that many go to the kernel at once; this one is to be under
    /// way meanwhile.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_ahead(
        &mut self,
        owner: IoOwner,
        file: FileId,
        operation: Operation,
        offset_bytes: u64,
        buffer: IoBuffer,
    ) -> Result<u64, StorageError> {
        let ticket = self.submit(owner, file, operation, offset_bytes, buffer)?;
        self.hand_over();
        Ok(ticket)
    }

    /// Hands over the requests that a device kept back.
    pub(crate) fn hand_over(&mut self) {
        if self.volume.time_source() == TimeSource::Wall {
            // A device that collects requests hands them to the kernel when it is asked for
            // completions, so ask without waiting.
            while let Some(completion) = self.volume.next_completion(Nanos::ZERO) {
                self.clock.fetch_max(completion.completed_at.0, Ordering::Relaxed);
                self.arrived.push_back(completion);
            }
        }
    }

    /// Whether one more request can be issued.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.volume.in_flight() < self.volume.queue_depth_max()
    }

    /// Waits until one more request can be issued; what completes meanwhile is kept for its owner.
    pub fn wait_for_room(&mut self) {
        while !self.has_room() {
            let Some(completion) = self.volume.next_completion(Nanos::MAX) else { return };
            self.clock.fetch_max(completion.completed_at.0, Ordering::Relaxed);
            self.arrived.push_back(completion);
        }
    }

    /// Waits for the request with this ticket.
    ///
    /// # Panics
    /// If nothing with this ticket is in flight: a part waits twice.
    pub fn wait(&mut self, ticket: u64) -> Completion {
        self.take_first(|completion| completion.id == ticket)
            .expect("whoever waits has a request in flight")
    }

    /// Waits for the next completion of `owner`; `None` where it has nothing in flight.
    pub fn wait_any(&mut self, owner: IoOwner) -> Option<Completion> {
        self.take_first(|completion| completion.id >> TICKET_BITS == u64::from(owner as u8))
    }

    /// Makes a file durable and waits.
    ///
    /// # Errors
    /// If the device fails; nothing is known about what is durable then, and everything later is
    /// refused with [`StorageError::Poisoned`].
    pub fn sync(&mut self, file: FileId) -> Result<(), StorageError> {
        let now = self.now();
        let done = self.volume.sync(file, now)?;
        self.clock.fetch_max(done.0, Ordering::Relaxed);
        Ok(())
    }

    fn take_first(&mut self, wanted: impl Fn(&Completion) -> bool) -> Option<Completion> {
        if let Some(index) = self.arrived.iter().position(&wanted) {
            return self.arrived.remove(index);
        }
        while let Some(completion) = self.volume.next_completion(Nanos::MAX) {
            self.clock.fetch_max(completion.completed_at.0, Ordering::Relaxed);
            if wanted(&completion) {
                return Some(completion);
            }
            self.arrived.push_back(completion);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::super::DeviceVolume;
    use super::super::testing::SharedDevice;
    use super::*;
    use nandu_device::{
        Counters, Device, DeviceInfo, Geometry, MemoryConfig, MemoryDevice, Rejected, Request,
    };

    /// A device that keeps requests back until somebody waits.
    #[derive(Debug)]
    struct Reluctant {
        info: DeviceInfo,
        inner: MemoryDevice,
        held: Vec<Request>,
    }

    impl Reluctant {
        fn new() -> Self {
            let geometry = Geometry { sector_bytes: 512, sector_count: 1 << 14 };
            let inner = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
            let info = DeviceInfo { time_source: TimeSource::Wall, ..inner.info().clone() };
            Self { info, inner, held: Vec::new() }
        }
    }

    impl Device for Reluctant {
        fn info(&self) -> &DeviceInfo {
            &self.info
        }

        fn now(&self) -> Nanos {
            self.inner.now()
        }

        fn submit(&mut self, _now: Nanos, request: Request) -> Result<(), Rejected> {
            self.held.push(request);
            Ok(())
        }

        fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
            for request in self.held.drain(..) {
                self.inner.submit(self.inner.now(), request).unwrap();
            }
            self.inner.next_completion(until)
        }

        fn in_flight(&self) -> u32 {
            self.inner.in_flight() + u32::try_from(self.held.len()).unwrap()
        }

        fn idle_until(&mut self, time: Nanos) -> Nanos {
            self.inner.idle_until(time)
        }

        fn counters(&self) -> Counters {
            self.inner.counters()
        }
    }

    #[test]
    fn what_is_submitted_ahead_is_under_way_before_anybody_waits() {
        let device = SharedDevice::new(Reluctant::new());
        let mut volume = DeviceVolume::format(Box::new(device.clone())).unwrap();
        let file = volume.create("table").unwrap();
        volume.set_byte_count(file, 1 << 16).unwrap();
        let io = SharedIo::new(Box::new(volume), Arc::default());
        let mut io = io.lock();
        let mut tickets = Vec::new();
        for (offset, is_ahead) in [(0, false), (4096, true)] {
            let buffer = IoBuffer::zeroed(4096);
            let begin = if is_ahead { Io::submit_ahead } else { Io::submit };
            let owner = IoOwner::Operator;
            tickets.push(begin(&mut io, owner, file, Operation::Write, offset, buffer).unwrap());
            assert_eq!(device.lock().held.is_empty(), is_ahead);
        }
        for ticket in tickets {
            assert!(io.wait(ticket).result.is_ok());
        }
    }
}
