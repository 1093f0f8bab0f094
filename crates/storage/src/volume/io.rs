//! One volume as all parts of the engine hold it. Each waits for its own requests and leaves the volume
//! to the others meanwhile.
//!
//! ```text
//!   submit ──► ticket ──► wait(ticket) ──► completion          wait_any: the next of one owner
//!                             │  ▲
//!               no worker:    ▼  │  it is there                worker of a schedule: the others run
//!               next_completion ─┴─► kept for whoever has its ticket ◄── the schedule looks ahead
//! ```
//!
//! 1. Without workers the time of the engine is the latest that any of its volumes told; it goes to
//!    every request. A log on a device of its own therefore never answers before the data device's
//!    clock. A worker has a time of its own, which goes to its requests.
//! 2. Every request is waited for by its owner exactly once.
//! 3. After a sync that failed nothing goes to the volume any more (`guarded`).
//! 4. Nobody waits for a completion while holding the volume, but for what the volume itself waits for:
//!    its table of files, and room in a queue that others filled.

use super::guarded::{GuardedVolume, Stop};
use super::{FileRequest, ReadAt, Volume};
use crate::{FileId, Lsn, StorageError};
use nandu_base::Nanos;
use nandu_device::{Completion, Counters, IoBuffer, Operation, TimeSource};
use nandu_workers::sync::Mutex;
use nandu_workers::{EventSource, is_worker};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
    /// One page that a worker reads for the pool and for itself.
    PageLoad = 5,
    /// A file that a worker makes durable.
    Sync = 6,
}

/// Bits of a request's id that count; those above name the owner.
const TICKET_BITS: u32 = 56;
const OWNER_MASK: u64 = !((1 << TICKET_BITS) - 1);

/// A volume that several parts hold, and the engine's clock.
#[derive(Clone)]
pub struct Io {
    shared: Arc<Shared>,
    /// The same, as workers wait for it.
    source: Arc<dyn EventSource>,
    stop: Stop,
}

struct Shared {
    state: Mutex<State>,
    clock: Arc<AtomicU64>,
    time_source: TimeSource,
}

/// The volume, and the completions that nobody fetched yet.
struct State {
    volume: GuardedVolume,
    arrived: VecDeque<Completion>,
    next_ticket: u64,
}

impl std::fmt::Debug for Io {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Io({})", self.name())
    }
}

impl EventSource for Shared {
    fn next_completion(&self, until: Nanos) -> Option<(u64, Nanos)> {
        let mut state = self.state.lock();
        let completion = state.volume.next_completion(until)?;
        let (id, completed_at) = (completion.id, completion.completed_at);
        self.clock.fetch_max(completed_at.0, Ordering::Relaxed);
        state.arrived.push_back(completion);
        Some((id, completed_at))
    }
}

impl Io {
    /// Shares `volume`. Parts of one engine on several volumes pass the same `clock`.
    #[must_use]
    pub fn new(volume: Box<dyn Volume>, clock: Arc<AtomicU64>) -> Self {
        clock.fetch_max(volume.now().0, Ordering::Relaxed);
        let stop = Stop::default();
        let time_source = volume.time_source();
        let volume = GuardedVolume::new(volume, stop.clone());
        let state = Mutex::new(State { volume, arrived: VecDeque::new(), next_ticket: 0 });
        let shared = Arc::new(Shared { state, clock, time_source });
        Self { source: Arc::<Shared>::clone(&shared), shared, stop }
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
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// As the user wrote it: a directory, `sim:NAME`.
    #[must_use]
    pub fn name(&self) -> String {
        self.look(|volume| volume.name().to_owned())
    }

    /// The unit of addressing.
    #[must_use]
    pub fn sector_bytes(&self) -> u32 {
        self.look(Volume::sector_bytes)
    }

    /// The alignment in memory that buffers need.
    #[must_use]
    pub fn buffer_alignment(&self) -> u32 {
        self.look(Volume::buffer_alignment)
    }

    /// All files, in the order of their numbers.
    #[must_use]
    pub fn files(&self) -> Vec<(FileId, String)> {
        self.look(Volume::files)
    }

    /// The length of a file.
    #[must_use]
    pub fn byte_count(&self, file: FileId) -> u64 {
        self.look(|volume| volume.byte_count(file))
    }

    /// What the devices below have done so far, added up.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.look(Volume::counters)
    }

    /// Whether nothing can be changed.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.look(Volume::is_read_only)
    }

    /// The first record of a log that may speak of this file: see [`Volume::records_from`].
    #[must_use]
    pub fn records_from(&self, file: FileId) -> Lsn {
        self.look(|volume| volume.records_from(file))
    }

    /// A way to read past the queue: see [`Volume::positional_reader`].
    #[must_use]
    pub fn positional_reader(&self) -> Option<Arc<dyn ReadAt>> {
        self.look(Volume::positional_reader)
    }

    /// Makes an empty file: see [`Volume::create`].
    ///
    /// # Errors
    /// As there.
    pub fn create(&self, name: &str) -> Result<FileId, StorageError> {
        self.change(|volume| volume.create(name))
    }

    /// Makes an empty file of which a log speaks: see [`Volume::create_logged`].
    ///
    /// # Errors
    /// As there.
    pub fn create_logged(&self, name: &str, records_from: Lsn) -> Result<FileId, StorageError> {
        self.change(|volume| volume.create_logged(name, records_from))
    }

    /// Removes a file: see [`Volume::remove`].
    ///
    /// # Errors
    /// As there.
    pub fn remove(&self, file: FileId) -> Result<(), StorageError> {
        self.change(|volume| volume.remove(file))
    }

    /// Makes room for a file of this length, or cuts it: see [`Volume::set_byte_count`].
    ///
    /// # Errors
    /// As there.
    pub fn set_byte_count(&self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        self.change(|volume| volume.set_byte_count(file, bytes))
    }

    /// Says that all is there that the volume was made for: see [`Volume::finish_making`].
    ///
    /// # Errors
    /// As there.
    pub fn finish_making(&self) -> Result<(), StorageError> {
        self.change(Volume::finish_making)
    }

    /// Makes durable what was found: see [`Volume::sync_found`].
    ///
    /// # Errors
    /// As there.
    pub fn sync_found(&self) -> Result<(), StorageError> {
        self.change(Volume::sync_found)
    }

    /// Who tells the time.
    #[must_use]
    pub fn time_source(&self) -> TimeSource {
        self.shared.time_source
    }

    /// The present: that of the worker who asks, or what the engine's clock says.
    #[must_use]
    pub fn now(&self) -> Nanos {
        let clock = || Nanos(self.shared.clock.load(Ordering::Relaxed));
        nandu_workers::now().unwrap_or_else(clock)
    }

    /// The present where a real clock runs, which goes on by itself; elsewhere as [`Self::now`].
    #[must_use]
    pub fn present(&self) -> Nanos {
        match self.shared.time_source {
            TimeSource::Wall => self.look(Volume::now),
            TimeSource::Virtual => self.now(),
        }
    }

    /// Lets `time` pass in which the processor works, on a simulated volume; requests in flight go on
    /// meanwhile. Where a real clock runs, the work itself took its time.
    pub fn spend(&self, time: Nanos) {
        if self.shared.time_source == TimeSource::Wall {
            return;
        }
        match nandu_workers::is_worker() {
            true => nandu_workers::spend(time),
            false => _ = self.shared.clock.fetch_add(time.0, Ordering::Relaxed),
        }
    }

    /// Has the engine's clock be at `time`, to which a run of workers came; it never runs backwards.
    pub fn pass_until(&self, time: Nanos) {
        self.shared.clock.fetch_max(time.0, Ordering::Relaxed);
    }

    /// Issues a request, once there is room for it, and gives back the ticket to wait for. What completes
    /// meanwhile is kept for its owner. `length_bytes` counts for a trim
    /// only; elsewhere it is the buffer's.
    ///
    /// # Errors
    /// If the volume refuses it; the buffer is gone then.
    pub fn submit(
        &self,
        owner: IoOwner,
        file: FileId,
        operation: Operation,
        offset_bytes: u64,
        buffer: IoBuffer,
    ) -> Result<u64, StorageError> {
        let length_bytes = buffer.len() as u64;
        let buffer = Some(buffer);
        let request = FileRequest { id: 0, operation, offset_bytes, length_bytes, buffer };
        self.submit_request(owner, file, request)
    }

    /// As [`Self::submit`], for a request that is waited for only after other work. A device may keep
    /// requests back until somebody waits, so that many go to the kernel at once; this one is to be under
    /// way meanwhile.
    ///
    /// # Errors
    /// As [`Self::submit`].
    pub fn submit_ahead(
        &self,
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
    pub(crate) fn hand_over(&self) {
        if self.shared.time_source == TimeSource::Wall {
            // A device that collects requests hands them to the kernel when it is asked for
            // completions, so ask without waiting.
            let mut state = self.shared.state.lock();
            while self.fetch(&mut state, Nanos::ZERO).is_some() {}
        }
    }

    /// Whether one more request can be issued.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.shared.state.lock().has_room()
    }

    /// Waits for the request with this ticket.
    ///
    /// # Panics
    /// If nothing with this ticket is in flight: a part waits twice.
    pub fn wait(&self, ticket: u64) -> Completion {
        let completion = self.wait_until((ticket, u64::MAX), |state| {
            state.take(|completion| completion.id == ticket)
        });
        completion.expect("whoever waits has a request in flight")
    }

    /// Waits for the next completion of `owner`; `None` where it has nothing in flight.
    pub fn wait_any(&self, owner: IoOwner) -> Option<Completion> {
        let bits = u64::from(owner as u8) << TICKET_BITS;
        self.wait_until((bits, OWNER_MASK), |state| {
            state.take(|completion| completion.id & OWNER_MASK == bits)
        })
    }

    /// Makes a file durable and waits.
    ///
    /// # Errors
    /// If the device fails; nothing is known about what is durable then, and everything later is
    /// refused with [`StorageError::Poisoned`].
    pub fn sync(&self, file: FileId) -> Result<(), StorageError> {
        if is_worker() {
            let (operation, buffer) = (Operation::Flush, None);
            let request =
                FileRequest { id: 0, operation, offset_bytes: 0, length_bytes: 0, buffer };
            let ticket = self.submit_request(IoOwner::Sync, file, request)?;
            self.wait(ticket).result.map_err(|error| {
                let what = format!("flush of {}", self.name());
                StorageError::Device { what, error }
            })?;
        } else {
            let now = self.now();
            let done = self.shared.state.lock().volume.sync(file, now)?;
            self.shared.clock.fetch_max(done.0, Ordering::Relaxed);
        }
        // Another sync that failed meanwhile may have lost what this one was to make durable.
        self.check()
    }

    fn look<T>(&self, look: impl FnOnce(&GuardedVolume) -> T) -> T {
        look(&self.shared.state.lock().volume)
    }

    fn change<T>(&self, change: impl FnOnce(&mut GuardedVolume) -> T) -> T {
        change(&mut self.shared.state.lock().volume)
    }

    fn submit_request(
        &self,
        owner: IoOwner,
        file: FileId,
        request: FileRequest,
    ) -> Result<u64, StorageError> {
        loop {
            {
                let mut state = self.shared.state.lock();
                // Under the lock that the request is issued under, since others want the room, too.
                if state.has_room() || state.volume.in_flight() == 0 {
                    state.next_ticket += 1;
                    let id = u64::from(owner as u8) << TICKET_BITS | state.next_ticket;
                    let now = self.now();
                    state.volume.submit(file, now, FileRequest { id, ..request })?;
                    return Ok(id);
                }
                if !is_worker() {
                    _ = self.fetch(&mut state, Nanos::MAX);
                    continue;
                }
            }
            nandu_workers::wait_for(&self.source, 0, 0);
        }
    }

    /// Waits until `found` finds something. Of the tickets that bring it those bits are known that the
    /// mask, the second half of `ticket`, has. `None` where nothing is in flight that could bring it.
    fn wait_until<T>(
        &self,
        ticket: (u64, u64),
        mut found: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        loop {
            {
                let mut state = self.shared.state.lock();
                loop {
                    if let Some(found) = found(&mut state) {
                        return Some(found);
                    }
                    if !is_worker() {
                        self.fetch(&mut state, Nanos::MAX)?;
                    } else if state.volume.in_flight() == 0 {
                        return None;
                    } else {
                        break;
                    }
                }
            }
            nandu_workers::wait_for(&self.source, ticket.0, ticket.1);
        }
    }

    /// Takes in the completion that comes next.
    fn fetch(&self, state: &mut State, until: Nanos) -> Option<()> {
        let completion = state.volume.next_completion(until)?;
        self.shared.clock.fetch_max(completion.completed_at.0, Ordering::Relaxed);
        state.arrived.push_back(completion);
        Some(())
    }
}

impl State {
    fn has_room(&self) -> bool {
        self.volume.in_flight() < self.volume.queue_depth_max()
    }

    fn take(&mut self, wanted: impl Fn(&Completion) -> bool) -> Option<Completion> {
        let index = self.arrived.iter().position(wanted)?;
        self.arrived.remove(index)
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
        let io = Io::new(Box::new(volume), Arc::default());
        let mut tickets = Vec::new();
        for (offset, is_ahead) in [(0, false), (4096, true)] {
            let buffer = IoBuffer::zeroed(4096);
            let begin = if is_ahead { Io::submit_ahead } else { Io::submit };
            let owner = IoOwner::Operator;
            tickets.push(begin(&io, owner, file, Operation::Write, offset, buffer).unwrap());
            assert_eq!(device.lock().held.is_empty(), is_ahead);
        }
        for ticket in tickets {
            assert!(io.wait(ticket).result.is_ok());
        }
    }
}
