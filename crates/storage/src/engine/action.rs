//! An action: changes to pages that are there as a whole after a crash, or not at all (the nested top
//! action of ARIES, Mohan et al. 1992, as one log record).
//!
//! ```text
//!   touch page ─► pinned, before-image kept ─► operation applied and booked ─┐ (any number)
//!                                                                            ▼
//!      error ─► before-images restored, nothing logged        finish: one record, LSN on each page
//! ```
//!
//! 1. While an action runs its pages are pinned, so none of them reaches the device.
//! 2. A page whose LSN is older than the last begun checkpoint goes into the record as a whole, if
//!    torn pages are repaired from the log; its operations then do not.
//! 3. After an error every touched page has the bytes and the LSN that it had before.

use super::structure::{self, StructureKind};
use super::{Engine, TornPages};
use crate::log::{RecordBuilder, Room, frame_bytes};
use crate::page::{TRAILER_BYTES, page_contents, page_lsn};
use crate::propagation::ChangedRanges;
use crate::{ChangePages, FileId, Lsn, PageAddress, PageOperation, ReadPages, StorageError};
use std::ops::Range;

/// Bytes that are compared at once to find what changed: much first, for most of a page is as it was.
const COMPARED_AT_ONCE_BYTES: usize = 512;
const COMPARED_BYTES: usize = 64;

/// Room for what the compensation of a change says beyond its action.
const RESERVE_EXTRA_BYTES: u64 = 256;

/// Makes a page one of zeros.
const CLEAR: PageOperation<'_> =
    PageOperation { code: PageOperation::CLEAR, operand: 0, first: &[], second: &[] };

/// Images of pages that are kept for later actions: most touch fewer pages.
const SPARE_COUNT_MAX: usize = 16;

/// What the engine keeps from action to action, so that none allocates.
#[derive(Debug, Default)]
pub(super) struct ActionScratch {
    record: RecordBuilder,
    /// What takes the action back, that of the last one until the next.
    pub(super) undo: Vec<u8>,
    /// Changes of the structure that the undo takes back.
    undo_change_count: u64,
    touched: Vec<Touched>,
    spare: Vec<Vec<u8>>,
}

/// A page that the running action changed.
#[derive(Debug)]
struct Touched {
    address: PageAddress,
    frame: u32,
    /// The whole page before; empty where it was not in memory and the action made it.
    before: Vec<u8>,
    wants_image: bool,
}

/// What kind of record an action becomes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ActionKind {
    /// Of a transaction that goes forward.
    Forward,
    /// The undoing of one, after which the record at `undo_next` is to be undone.
    Compensation {
        /// Which record comes next.
        undo_next: Lsn,
    },
}

/// The action that runs: its changes, not yet committed or undone.
#[derive(Debug)]
pub struct Action<'e> {
    engine: &'e mut Engine,
}

impl<'e> Action<'e> {
    fn new(engine: &'e mut Engine, kind: ActionKind) -> Self {
        let active = engine.active.as_ref().expect("changes are made inside a transaction");
        let ActionScratch { record, undo, undo_change_count, touched, .. } = &mut engine.scratch;
        assert!(touched.is_empty(), "one action at a time");
        undo.clear();
        *undo_change_count = 1;
        match kind {
            ActionKind::Forward => record.begin_action(active.id, active.last),
            ActionKind::Compensation { undo_next } => {
                record.begin_compensation(active.id, active.last, undo_next);
            }
        }
        Self { engine }
    }

    /// Starts the logical undo of this action: the structure appends what it needs, and the whole goes
    /// to [`Self::set_undo`]. An action without one is not undone by a rollback.
    pub fn begin_undo(&mut self, kind: StructureKind, file: FileId) -> Vec<u8> {
        let mut undo = std::mem::take(&mut self.engine.scratch.undo);
        structure::begin_undo(&mut undo, kind, file);
        undo
    }

    /// The logical undo of this action.
    pub fn set_undo(&mut self, undo: Vec<u8>) {
        self.engine.scratch.undo = undo;
    }

    /// Says that the undo takes so many changes back, not one: room in the log is kept for each.
    pub fn set_undo_change_count(&mut self, count: u64) {
        self.engine.scratch.undo_change_count = count;
    }

    fn find(&self, address: PageAddress) -> Option<usize> {
        self.engine.scratch.touched.iter().rposition(|touched| touched.address == address)
    }

    fn touch(&mut self, address: PageAddress) -> Result<usize, StorageError> {
        if let Some(index) = self.find(address) {
            return Ok(index);
        }
        let Engine { pool, scratch, image_threshold, .. } = &mut *self.engine;
        let mut page = pool.page_mut(address)?;
        let mut before = scratch.spare.pop().unwrap_or_default();
        before.clear();
        before.extend_from_slice(page.bytes());
        let wants_image = page_lsn(page.bytes()) < *image_threshold;
        // Marked as changed, so that it stays in the pool, with an empty range: which bytes changed
        // is found out at the end of the action, by comparing with `before`.
        page.note_change(0..0);
        let frame = page.frame();
        scratch.touched.push(Touched { address, frame, before, wants_image });
        Ok(scratch.touched.len() - 1)
    }

    /// Logs the action and stamps its LSN on the pages. `None` if nothing was changed.
    fn finish(self, room: Room) -> Result<Option<Lsn>, StorageError> {
        let Engine { pool, scratch, log, tracks_changes, settings, active, versions, .. } =
            &mut *self.engine;
        let first = active.as_ref().map_or(Lsn(0), |active| active.first_or_future());
        let ActionScratch { record, undo, undo_change_count, touched, spare } = scratch;
        if touched.is_empty() {
            record.finish(&[]);
            return Ok(None);
        }
        for page in touched.iter().filter(|page| page.wants_image) {
            let frame = pool.frame_mut(page.frame);
            add_image(record, page.address, page_contents(frame.bytes()));
        }
        // What takes this action back is about as large; room for it is kept until the end. A page that
        // the transaction changes for the first time may by then need its image again.
        let is_first = |page: &&Touched| page.before.is_empty() || page_lsn(&page.before) < first;
        let image_bytes = match settings.torn_pages {
            TornPages::LogImages => u64::from(settings.page_bytes),
            TornPages::DoubleWrite | TornPages::Trust => 0,
        };
        let padding_bytes = log.record_padding_bytes();
        let reserve_bytes = match room {
            Room::Free => {
                let record_bytes = (record.byte_count() + undo.len()) as u64;
                frame_bytes(record_bytes + record_bytes / 4)
                    + padding_bytes
                    + (RESERVE_EXTRA_BYTES + padding_bytes) * *undo_change_count
                    + image_bytes * touched.iter().filter(is_first).count() as u64
            }
            Room::Reserved | Room::Checkpoint => 0,
        };
        let record = record.finish(undo);
        let appended = log
            .reserve(reserve_bytes)
            .and_then(|()| log.append(&record, room).inspect_err(|_| log.release(reserve_bytes)));
        if let (Ok(_), Some(active)) = (&appended, active) {
            match room {
                Room::Reserved => {
                    let used_bytes = frame_bytes(record.as_bytes().len() as u64) + padding_bytes;
                    log.release(active.use_reserved(used_bytes));
                }
                Room::Free | Room::Checkpoint => active.reserved_bytes += reserve_bytes,
            }
        }
        let lsn = match appended {
            Ok(lsn) => lsn,
            Err(error) => {
                let error = self.engine.name_who_fills_log(error);
                self.restore();
                return Err(error);
            }
        };
        for page in touched.drain(..) {
            let mut frame = pool.frame_mut(page.frame);
            if *tracks_changes {
                note_difference(&page.before, &mut frame);
            }
            frame.set_lsn(lsn);
            let is_seen = !page.before.is_empty() && versions.is_seen(page_lsn(&page.before));
            let image = match is_seen {
                true => versions.keep(page.address, lsn, page.before),
                false => page.before,
            };
            keep(spare, image);
        }
        Ok(Some(lsn))
    }

    /// Ends an action that failed: every touched page gets its bytes back.
    fn abandon(self) {
        self.engine.scratch.record.finish(&[]);
        self.restore();
    }

    fn restore(self) {
        let Engine { pool, scratch, .. } = &mut *self.engine;
        for page in scratch.touched.drain(..).rev() {
            if page.before.is_empty() {
                // The page was made in this action and had no content before: without it, the
                // device's content is the page's again.
                pool.discard(page.address);
            } else {
                pool.frame_mut(page.frame).restore(&page.before);
            }
            keep(&mut scratch.spare, page.before);
        }
    }
}

/// Keeps the memory of an image for a later one. A page that an action made has none, and is not kept:
/// there would be more of them with each page that is ever made.
fn keep(spare: &mut Vec<Vec<u8>>, image: Vec<u8>) {
    if image.capacity() > 0 && spare.len() < SPARE_COUNT_MAX {
        spare.push(image);
    }
}

/// Notes what a page's bytes differ in from those before. One that was never written is passed over:
/// the device has nothing that changes could be laid over.
fn note_difference(before: &[u8], frame: &mut crate::pool::FrameMut<'_>) {
    if frame.is_new() {
        return;
    }
    let length = frame.bytes().len() - TRAILER_BYTES;
    let mut ranges = ChangedRanges::default();
    if before.is_empty() {
        ranges.add(0..nandu_base::to_u32(length as u64));
    } else {
        each_difference(&before[..length], &frame.bytes()[..length], |differing| {
            let place = |at: usize| nandu_base::to_u32(at as u64);
            ranges.add(place(differing.start)..place(differing.end));
        });
    }
    for range in ranges.as_slice() {
        frame.note_change(range.clone());
    }
}

/// Tells each range in which two pages differ, one or none in each piece of `COMPARED_BYTES`.
fn each_difference(before: &[u8], after: &[u8], mut tell: impl FnMut(Range<usize>)) {
    let large = before.chunks(COMPARED_AT_ONCE_BYTES).zip(after.chunks(COMPARED_AT_ONCE_BYTES));
    for (large_index, (before, after)) in large.enumerate() {
        if before == after {
            continue;
        }
        let small = before.chunks(COMPARED_BYTES).zip(after.chunks(COMPARED_BYTES));
        for (index, (before, after)) in small.enumerate() {
            if let Some(differing) = differing(before, after) {
                let start = large_index * COMPARED_AT_ONCE_BYTES + index * COMPARED_BYTES;
                tell(start + differing.start..start + differing.end);
            }
        }
    }
}

/// From the first byte that differs to the last.
fn differing(before: &[u8], after: &[u8]) -> Option<Range<usize>> {
    if before == after {
        return None;
    }
    let differs = |(before, after): (&u8, &u8)| before != after;
    let start = before.iter().zip(after).position(differs)?;
    let end = before.iter().zip(after).rposition(differs)? + 1;
    Some(start..end)
}

/// Books a page as a whole, less its longest run of zeros.
fn add_image(record: &mut RecordBuilder, address: PageAddress, bytes: &[u8]) {
    let hole = longest_zeros(bytes);
    let operation = PageOperation {
        code: PageOperation::IMAGE,
        operand: nandu_base::to_u32((hole.end - hole.start) as u64),
        first: &bytes[..hole.start],
        second: &bytes[hole.end..],
    };
    record.add_change(address, &operation);
}

/// The longest run of zeros, looked for in words of 16 bytes.
fn longest_zeros(bytes: &[u8]) -> Range<usize> {
    const WORD: usize = 16;
    let mut longest = 0..0;
    let mut start = 0;
    for (index, word) in bytes.chunks_exact(WORD).enumerate() {
        let end = (index + 1) * WORD;
        if word != [0; WORD] {
            start = end;
        } else if end - start > longest.len() {
            longest = start..end;
        }
    }
    longest
}

impl ReadPages for Action<'_> {
    fn usable_bytes(&self) -> usize {
        self.engine.usable_bytes()
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.engine.read(address, look)
    }

    fn read_batch(
        &self,
        addresses: &[PageAddress],
        look: impl FnMut(usize, &[u8]),
    ) -> Result<(), StorageError> {
        self.engine.read_batch(addresses, look)
    }

    fn prefetch(&self, addresses: &[PageAddress]) {
        self.engine.prefetch(addresses);
    }
}

impl ChangePages for Action<'_> {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        let index = self.touch(address)?;
        let Engine { pool, scratch, .. } = &mut *self.engine;
        let touched = &scratch.touched[index];
        let mut page = pool.frame_mut(touched.frame);
        let usable = page.bytes().len() - TRAILER_BYTES;
        structure::apply(&mut page.bytes_mut()[..usable], &operation)?;
        if !touched.wants_image {
            scratch.record.add_change(address, &operation);
        }
        Ok(())
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        if self.engine.pool.find(address).is_none() && self.engine.versions.is_seen(Lsn(0)) {
            self.engine.make_room(address)?;
            // The page may have been freed without a change to it, and somebody still see it as it was. What
            // cannot be read was never there, or nobody can see it.
            let read = self.engine.pool.page_mut_or_torn(address).map(|(mut page, is_torn)| {
                if is_torn {
                    page.bytes_mut().fill(0);
                }
            });
            if read.is_ok() {
                return self.change(address, CLEAR);
            }
        }
        self.create_at_end(address)
    }

    fn create_at_end(&mut self, address: PageAddress) -> Result<(), StorageError> {
        if self.engine.pool.find(address).is_some() {
            // What is in memory may be newer than the device's, and has to come back if this fails.
            return self.change(address, CLEAR);
        }
        self.engine.make_room(address)?;
        let Engine { pool, scratch, .. } = &mut *self.engine;
        let mut page = pool.create(address)?;
        page.note_change(0..0);
        let (frame, before) = (page.frame(), Vec::new());
        // Redo needs nothing of what the device holds, so no image is needed either.
        scratch.record.add_change(address, &CLEAR);
        scratch.touched.push(Touched { address, frame, before, wants_image: false });
        Ok(())
    }
}

impl Engine {
    /// Runs `change` as one action of the active transaction.
    ///
    /// # Errors
    /// Whatever `change` returns; then none of it happened. [`StorageError::NoSpace`] where the log
    /// cannot hold the transaction.
    ///
    /// # Panics
    /// If no transaction is active.
    pub fn act<T>(
        &mut self,
        change: impl FnOnce(&mut Action<'_>) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        self.check_usable()?;
        self.checkpoint_if_due()?;
        self.check_clean_pages()?;
        let done = self.run(ActionKind::Forward, Room::Free, change);
        done.map_err(|error| self.explain_full(error))
    }

    /// Undoes one action.
    pub(super) fn compensate(&mut self, undo_next: Lsn, undo: &[u8]) -> Result<(), StorageError> {
        let kind = ActionKind::Compensation { undo_next };
        self.unplaced.is_undo = true;
        let undone = self.run(kind, Room::Reserved, |action| structure::apply_undo(action, undo));
        self.unplaced.is_undo = false;
        undone
    }

    fn run<T>(
        &mut self,
        kind: ActionKind,
        room: Room,
        change: impl FnOnce(&mut Action<'_>) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut action = Action::new(self, kind);
        let value = match change(&mut action) {
            Ok(value) => value,
            Err(error) => {
                action.abandon();
                return Err(error);
            }
        };
        if let Some(lsn) = action.finish(room)? {
            self.note_record(kind, lsn);
        }
        Ok(value)
    }
}
