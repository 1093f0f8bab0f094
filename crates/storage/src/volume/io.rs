//! One volume as all parts of the engine hold it. Each waits for its own requests and leaves the volume
//! to the others meanwhile.
//!
//! ```text
//!   submit ──► ticket ──► wait(ticket) ──► completion          wait_any: the next of one owner
//!                             │  ▲
//!               no worker:    ▼  │  it is there                worker of a schedule: the others run
//!               next_completion ─┴─► kept for whoever has its ticket ◄── the schedule looks ahead
//!
//!   threads on a real disk      one waits for the kernel, without the volume ─┐ takes in all that came,
//!                               the others wait for his word              ◄───┘ and tells them
//! ```
//!
//! 1. Without workers the time of the engine is the latest that any of its volumes told; it goes to
//!    every request. A log on a device of its own therefore never answers before the data device's
//!    clock. A worker has a time of its own, which goes to its requests.
//! 2. Every request is waited for by its owner exactly once.
//! 3. After a sync that failed nothing goes to the volume any more (`guarded`).
//! 4. Nobody waits for a completion or a sync while holding the volume, but for what the volume itself waits
//!    for, such as its table of files. Only where time is virtual, or the device has no other way (a raw
//!    device, psync), does a thread hold it.
//! 5. While a thread waits for the kernel nobody else takes completions in: what is taken rings no more.

use super::guarded::{GuardedVolume, Stop};
use super::{FileRequest, PastQueue, Volume};
use crate::{FileId, Lsn, StorageError};
use nandu_base::Nanos;
use nandu_device::{Completion, Counters, IoBuffer, Operation, TimeSource};
use nandu_workers::sync::{Condvar, Mutex, MutexGuard};
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
    /// The only files that may be made or removed by this handle, if it has such a limit.
    own_files: Option<&'static [&'static str]>,
    /// A file that is neither made nor removed by this handle.
    kept_file: Option<&'static str>,
}

struct Shared {
    state: Mutex<State>,
    /// Told when completions were taken in that others may wait for.
    arrival: Condvar,
    past_queue: Option<Arc<dyn PastQueue>>,
    clock: Arc<AtomicU64>,
    time_source: TimeSource,
}

/// The volume, and the completions that nobody fetched yet.
struct State {
    volume: GuardedVolume,
    arrived: VecDeque<Completion>,
    next_ticket: u64,
    /// Whether a thread waits for the kernel.
    has_waiter: bool,
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
        let past_queue = volume.past_queue();
        let (arrived, next_ticket, has_waiter) = (VecDeque::new(), 0, false);
        let state = Mutex::new(State { volume, arrived, next_ticket, has_waiter });
        let arrival = Condvar::new();
        let shared = Arc::new(Shared { state, arrival, past_queue, clock, time_source });
        let source = Arc::<Shared>::clone(&shared);
        Self { source, shared, stop, own_files: None, kept_file: None }
    }

    /// The same volume, on which files of these names alone are made or removed.
    pub(crate) fn with_own_files(&self, names: &'static [&'static str]) -> Self {
        Self { own_files: Some(names), ..self.clone() }
    }

    /// The same volume, on which the file of that name is somebody else's.
    pub(crate) fn without_file(self, name: &'static str) -> Self {
        Self { kept_file: Some(name), ..self }
    }

    /// # Panics
    /// If a file of that name is not for this handle.
    fn assert_own(&self, name: &str) {
        assert!(self.kept_file != Some(name), "file {name} is somebody else's");
        let is_own = self.own_files.is_none_or(|names| names.contains(&name));
        assert!(is_own, "file {name} is none of those that its maker lists");
    }

    /// Whether the volume can still be used. Takes no lock.
    ///
    /// # Errors
    /// [`StorageError::Poisoned`] after a sync that failed.
    pub fn check(&self) -> Result<(), StorageError> {
        self.stop.check()
    }

    /// Refuses whatever comes later: somebody was ended in the middle of a change, and nobody knows what of it is
    /// there. Opening again decides.
    pub(crate) fn stop(&self, cause: String) {
        self.stop.set(cause);
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

    /// The length to the byte that a file had when it was opened.
    #[must_use]
    pub fn found_byte_count(&self, file: FileId) -> u64 {
        self.look(|volume| volume.found_byte_count(file))
    }

    /// Bytes that files may still take: see [`Volume::free_bytes`].
    #[must_use]
    pub fn free_bytes(&self) -> Option<u64> {
        self.look(Volume::free_bytes)
    }

    /// Whose room files take: see [`Volume::file_system`].
    #[must_use]
    pub fn file_system(&self) -> Option<u64> {
        self.look(Volume::file_system)
    }

    /// What the devices below have done so far, added up.
    #[must_use]
    pub fn counters(&self) -> Counters {
        let now = self.present();
        self.look(|volume| Counters { energy: volume.energy_by(now), ..volume.counters() })
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

    /// What goes past the queue: see [`Volume::past_queue`].
    #[must_use]
    pub fn past_queue(&self) -> Option<Arc<dyn PastQueue>> {
        self.shared.past_queue.clone()
    }

    /// Makes an empty file: see [`Volume::create`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// If this handle has a list of names, and that is not on it.
    pub fn create(&self, name: &str) -> Result<FileId, StorageError> {
        self.assert_own(name);
        self.change(|volume| volume.create(name))
    }

    /// Makes an empty file of which a log speaks: see [`Volume::create_logged`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As [`Self::create`].
    pub fn create_logged(&self, name: &str, records_from: Lsn) -> Result<FileId, StorageError> {
        self.assert_own(name);
        self.change(|volume| volume.create_logged(name, records_from))
    }

    /// Removes a file: see [`Volume::remove`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Panics
    /// As [`Self::create`].
    pub fn remove(&self, file: FileId) -> Result<(), StorageError> {
        if self.own_files.is_some() || self.kept_file.is_some() {
            let name = self.files().into_iter().find(|(known, _)| *known == file);
            self.assert_own(name.as_ref().map_or("", |(_, name)| name));
        }
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

    /// Checks that the files are of one moment: see [`Volume::check_moment`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn check_moment(&self, closed_by: Option<u32>) -> Result<bool, StorageError> {
        self.change(|volume| volume.check_moment(closed_by))
    }

    /// Notes that the database was closed: see [`Volume::note_closed`].
    pub(crate) fn note_closed(&self, run: u32) {
        self.change(|volume| volume.note_closed(run));
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

    /// Where time is virtual: the volume, if nothing is in flight, comes to the engine's time, and the
    /// engine to the volume's. Who has the volume write for itself, its table of files, say, calls this
    /// before and after: on several volumes that takes time of all then. A worker has a time of its
    /// own, and nothing changes.
    pub fn keep_pace(&self) {
        if self.shared.time_source == TimeSource::Wall || is_worker() {
            return;
        }
        let mut state = self.shared.state.lock();
        if state.volume.in_flight() == 0 {
            state.volume.idle_until(self.now());
        }
        self.shared.clock.fetch_max(state.volume.now().0, Ordering::Relaxed);
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
            match self.shared.past_queue {
                Some(_) => state.volume.hand_over(),
                None => _ = self.take_in(&mut state),
            }
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
        } else if let Some(past_queue) = &self.shared.past_queue {
            past_queue.sync(file)?;
            self.shared.clock.fetch_max(self.present().0, Ordering::Relaxed);
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
        let mut state = self.shared.state.lock();
        // Under the lock that the request is issued under, since others want the room, too.
        while !state.has_room() && state.volume.in_flight() > 0 {
            (state, _) = self.wait_for_more(state, (0, 0));
        }
        state.next_ticket += 1;
        let id = u64::from(owner as u8) << TICKET_BITS | state.next_ticket;
        let now = self.now();
        state.volume.submit(file, now, FileRequest { id, ..request })?;
        Ok(id)
    }

    /// Waits until `found` finds something. Of the tickets that bring it those bits are known that the
    /// mask, the second half of `ticket`, has. `None` where nothing is in flight that could bring it.
    fn wait_until<T>(
        &self,
        ticket: (u64, u64),
        mut found: impl FnMut(&mut State) -> Option<T>,
    ) -> Option<T> {
        let mut state = self.shared.state.lock();
        loop {
            if let Some(found) = found(&mut state) {
                return Some(found);
            }
            let may_come;
            (state, may_come) = self.wait_for_more(state, ticket);
            if !may_come {
                return None;
            }
        }
    }

    /// Waits for something of what is in flight, a worker for what he says. Whoever called looks again, unless
    /// nothing comes any more.
    fn wait_for_more<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        ticket: (u64, u64),
    ) -> (MutexGuard<'a, State>, bool) {
        if !is_worker() && self.shared.past_queue.is_none() {
            let is_some = self.fetch(&mut state, Nanos::MAX).is_some();
            return (state, is_some);
        }
        if state.volume.in_flight() == 0 {
            return (state, false);
        }
        (self.leave_and_wait(state, ticket), true)
    }

    /// The same with the volume left to others.
    fn leave_and_wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        ticket: (u64, u64),
    ) -> MutexGuard<'a, State> {
        let past_queue = self.shared.past_queue.as_ref().filter(|_| !is_worker());
        let Some(past_queue) = past_queue else {
            drop(state);
            nandu_workers::wait_for(&self.source, ticket.0, ticket.1);
            return self.shared.state.lock();
        };
        if state.has_waiter {
            state.volume.hand_over();
            return self.shared.arrival.wait(state);
        }
        // What needs no waiting rings no bell; this also hands over what was kept back.
        if !self.take_in(&mut state) {
            state.has_waiter = true;
            drop(state);
            past_queue.wait_for_arrival();
            state = self.shared.state.lock();
            state.has_waiter = false;
            self.take_in(&mut state);
        }
        // Also those for whom nothing came: one of them waits for the kernel next.
        self.shared.arrival.notify_all();
        state
    }

    /// Takes in all that has completed; whether there was any.
    fn take_in(&self, state: &mut State) -> bool {
        let before = state.arrived.len();
        while state.volume.in_flight() > 0 && self.fetch(state, Nanos::ZERO).is_some() {}
        state.arrived.len() > before
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
mod tests;
