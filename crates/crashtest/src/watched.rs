//! A volume that lets faults come where files are: a cut when a lap of the double write begins, a sync
//! that fails when pages are to be durable.
//!
//! 1. What is armed comes once: a cut at a write to a file of its kind, or a few requests later; a
//!    failure in a sync of such a file.

use crate::world::WorldDevice;
use nandu_base::{Nanos, Rng, to_index};
use nandu_device::{Completion, Counters, FaultPlan, Operation, TimeSource};
use nandu_storage::{FileId, FileRequest, Lsn, StorageError, Volume};
use std::sync::{Arc, Mutex, PoisonError};

/// What a write goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// The head of the double write's file after pages were written, where a lap begins since the one
    /// before is full.
    LapStart,
    /// Any of the double write's file.
    Copies,
    /// Pages of tables, in their places or in segments.
    Pages,
    /// The head of the log's file, where the control block is.
    ControlBlock,
    /// Any of the log's file.
    Log,
}

/// Bytes at the head of the log's file that hold the control blocks, at most: two sectors.
const CONTROL_BYTES: u64 = 8 << 10;

impl Place {
    /// One of those that a database has, with a double write or without.
    pub(crate) fn any(rng: &mut Rng, is_written_twice: bool) -> Self {
        use Place::{ControlBlock, Copies, LapStart, Log, Pages};
        let once = [Pages, Pages, Log, ControlBlock].as_slice();
        let twice = [
            LapStart,
            LapStart,
            LapStart,
            LapStart,
            LapStart,
            LapStart,
            Copies,
            Pages,
            Pages,
            Pages,
            Log,
            ControlBlock,
        ];
        let places = if is_written_twice { twice.as_slice() } else { once };
        places[to_index(rng.below(places.len() as u64))]
    }

    /// One whose sync may fail: pages by preference.
    pub(crate) fn any_synced(rng: &mut Rng) -> Self {
        [Self::Pages, Self::Pages, Self::Copies, Self::Log][to_index(rng.below(4))]
    }

    /// Whether a write to a file of this name is one of these.
    fn is(self, name: &str, offset_bytes: u64, follows_pages: bool) -> bool {
        match self {
            Self::LapStart => name == "double-write" && offset_bytes == 0 && follows_pages,
            Self::Copies => name == "double-write",
            Self::ControlBlock => name == "log" && offset_bytes < CONTROL_BYTES,
            Self::Log => name == "log",
            Self::Pages => name != "double-write" && name != "log",
        }
    }
}

/// A fault that waits for its place.
#[derive(Debug)]
struct Armed {
    place: Place,
    /// Writes or syncs there until it comes.
    left_count: u64,
    kind: FaultKind,
    plan: FaultPlan,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FaultKind {
    /// The power goes so many requests after the write.
    Cut { delay: u64 },
    /// The sync fails.
    Sync,
}

impl Armed {
    /// One more was met. True if it is the one.
    const fn comes(&mut self) -> bool {
        self.left_count -= 1;
        self.left_count == 0
    }
}

/// What waits, shared by all volumes of a world.
#[derive(Clone, Debug, Default)]
pub(crate) struct Watch(Arc<Mutex<Option<Armed>>>);

impl Watch {
    /// Cuts the power by `plan` at the `number`-th write to `place`, from 1, or `delay` requests later.
    pub(crate) fn arm(&self, place: Place, number: u64, delay: u64, plan: FaultPlan) {
        let kind = FaultKind::Cut { delay };
        *self.lock() = Some(Armed { place, left_count: number, kind, plan });
    }

    /// Lets the first flush of the `number`-th sync of a file of `place`, from 1, fail by `plan`.
    pub(crate) fn arm_sync(&self, place: Place, number: u64, plan: FaultPlan) {
        let kind = FaultKind::Sync;
        *self.lock() = Some(Armed { place, left_count: number, kind, plan });
    }

    /// Whether a fault still waits for its place.
    pub(crate) fn is_armed(&self) -> bool {
        self.lock().is_some()
    }

    /// Whether it waits for a lap of the double write to end.
    pub(crate) fn waits_for_lap(&self) -> bool {
        self.lock().as_ref().is_some_and(|armed| armed.place == Place::LapStart)
    }

    pub(crate) fn disarm(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Armed>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub(crate) struct WatchedVolume {
    inner: Box<dyn Volume>,
    device: WorldDevice,
    watch: Watch,
    /// Whether the last write was one of pages. Known while something waits.
    wrote_pages: bool,
}

impl WatchedVolume {
    pub(crate) const fn new(inner: Box<dyn Volume>, device: WorldDevice, watch: Watch) -> Self {
        Self { inner, device, watch, wrote_pages: false }
    }

    fn name_of(&self, file: FileId) -> String {
        let files = self.inner.files();
        let named = files.into_iter().find(|(known, _)| *known == file);
        named.map_or_else(String::new, |(_, name)| name)
    }

    /// A write is about to go out.
    fn look(&mut self, file: FileId, offset_bytes: u64) {
        let mut waiting = self.watch.lock();
        let Some(armed) = waiting.as_mut() else { return };
        let name = self.name_of(file);
        let follows_pages =
            std::mem::replace(&mut self.wrote_pages, Place::Pages.is(&name, 0, false));
        let FaultKind::Cut { delay } = armed.kind else { return };
        if armed.place.is(&name, offset_bytes, follows_pages)
            && armed.comes()
            && let Some(Armed { plan, .. }) = waiting.take()
        {
            let mut device = self.device.lock();
            let power_cut_at_request = Some(device.request_count() + 1 + delay);
            device.ground().set_plan(FaultPlan { power_cut_at_request, ..plan });
        }
    }

    /// A sync is about to begin.
    fn look_at_sync(&self, file: FileId) {
        let mut waiting = self.watch.lock();
        let Some(armed) = waiting.as_mut() else { return };
        if armed.kind == FaultKind::Sync
            && armed.place.is(&self.name_of(file), 0, false)
            && armed.comes()
            && let Some(Armed { plan, .. }) = waiting.take()
        {
            let mut device = self.device.lock();
            let fail_flush = Some(device.ground().submitted_flush_count() + 1);
            device.ground().set_plan(FaultPlan { fail_flush, ..plan });
        }
    }
}

impl Volume for WatchedVolume {
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
        self.inner.create_logged(name, records_from)
    }

    fn records_from(&self, file: FileId) -> Lsn {
        self.inner.records_from(file)
    }

    fn finish_making(&mut self) -> Result<(), StorageError> {
        self.inner.finish_making()
    }

    fn remove(&mut self, file: FileId) -> Result<(), StorageError> {
        self.inner.remove(file)
    }

    fn byte_count(&self, file: FileId) -> u64 {
        self.inner.byte_count(file)
    }

    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError> {
        self.inner.set_byte_count(file, bytes)
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
        if request.operation == Operation::Write {
            self.look(file, request.offset_bytes);
        }
        self.inner.submit(file, now, request)
    }

    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.inner.next_completion(until)
    }

    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }

    fn sync(&mut self, file: FileId, now: Nanos) -> Result<Nanos, StorageError> {
        self.look_at_sync(file);
        self.inner.sync(file, now)
    }

    fn sync_found(&mut self) -> Result<(), StorageError> {
        self.inner.sync_found()
    }

    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }

    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}
