//! One volume shared by the parts of the engine: each waits for its own completions, and finds those
//! that came while another part waited.
//!
//! 1. The time of the engine is the latest that any of its volumes told; it goes to every request. A
//!    log on a device of its own therefore never answers before the data device's clock.
//! 2. Every request is waited for by its owner exactly once.

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
    volume: Box<dyn Volume>,
    clock: Arc<AtomicU64>,
    arrived: VecDeque<Completion>,
    next_ticket: u64,
}

/// An [`Io`] that several parts hold.
#[derive(Clone)]
pub struct SharedIo(Arc<Mutex<Io>>);

impl SharedIo {
    /// Shares `volume`. Parts of one engine on several volumes pass the same `clock`.
    #[must_use]
    pub fn new(volume: Box<dyn Volume>, clock: Arc<AtomicU64>) -> Self {
        clock.fetch_max(volume.now().0, Ordering::Relaxed);
        let io = Io { volume, clock, arrived: VecDeque::new(), next_ticket: 0 };
        Self(Arc::new(Mutex::new(io)))
    }

    /// Whether both are the same volume.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The volume, alone.
    pub fn lock(&self) -> MutexGuard<'_, Io> {
        // What a panicking thread left is a queue of completions, whole at any time.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
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
        self.volume.as_mut()
    }

    /// The engine's present.
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
    /// If the device fails.
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
