//! Room on the volume for pages that are made, so that writing them later cannot fail for want of it.
//!
//! ```text
//!   in place     the file is made longer, if the page lies behind its end
//!   in segments  pages made since all were written are counted; the propagation says how many have room
//! ```
//!
//! 1. Who makes a page where there is no room is refused before anything changed, also in a full pool.
//! 2. Once there was no room for a checkpoint, no page is made before there is again: others took the room.
//!    What remains of the log is for taking something away.
//! 3. Where changed pages cannot be written, no more of them are changed than leave a [`CLEAN_PART`] of the
//!    pool to who reads, at once and after a restart, which changes the same ones.
//! 4. Taking back is never refused: of pages that have a place only at their writing, it makes few.

use super::Engine;
use crate::pool::WriteBack;
use crate::{Lsn, PageAddress, StorageError};

/// Room that a file gets at once at least, in pages.
const GROWTH_PAGES_MIN: u64 = 16;
/// Room that a file gets at once at most, beyond what it needs.
const GROWTH_BYTES_MAX: u64 = 16 << 20;

/// So large a part of the pool is kept from changes where no changed page can be written.
const CLEAN_PART: u32 = 8;

/// What is told where changed pages cannot be written.
const STUCK: &str = "what changed cannot be written any more, since the device is full; make room on it, \
                     or drop a table";

/// What is told of pages that get a place when they are written.
const FULL: &str =
    "the segments of the database are full; make room on the device, or drop a table";

/// Pages that get a place when they are written.
#[derive(Debug, Default)]
pub(super) struct Unplaced {
    /// Those that were made since all had a place, whether they have one by now or not.
    made_count: u64,
    /// So many of them may be made before the propagation is asked again.
    granted_count: u64,
    /// Somebody takes back what was done.
    pub(super) is_undo: bool,
    /// There was no room for the last checkpoint.
    pub(super) is_stuck: bool,
    /// Somebody was refused a page since.
    pub(super) is_refused: bool,
    /// Where the log ended at that checkpoint.
    pub(super) stuck_at: Lsn,
}

impl Engine {
    /// Room on the volume for a page that is made.
    ///
    /// # Errors
    /// [`StorageError::NoSpace`] if there is none, or the device fails.
    pub(super) fn make_room(&mut self, address: PageAddress) -> Result<(), StorageError> {
        if self.pool.place_answers().needs_room_in_files {
            return self.make_room_in_file(address);
        }
        if self.unplaced.is_stuck && !self.unplaced.is_undo {
            self.unplaced.is_refused = true;
            return Err(StorageError::NoSpace { what: FULL.to_owned() });
        }
        self.unplaced.made_count += 1;
        match self.unplaced.made_count > self.unplaced.granted_count && !self.unplaced.is_undo {
            true => self.find_room(),
            false => Ok(()),
        }
    }

    /// Keeps in mind whether there was room for a checkpoint; gives its answer back.
    pub(super) fn note_room(
        &mut self,
        answer: Result<(), StorageError>,
    ) -> Result<(), StorageError> {
        self.unplaced.is_stuck = matches!(answer, Err(StorageError::NoSpace { .. }));
        self.unplaced.is_refused = false;
        self.unplaced.stuck_at = self.log.next_lsn();
        answer
    }

    /// Refuses a change where it could take the last clean pages from those who read.
    ///
    /// # Errors
    /// [`StorageError::NoSpace`] then.
    pub(super) fn check_clean_pages(&mut self) -> Result<(), StorageError> {
        if !self.unplaced.is_stuck && !self.pool.lacks_room() {
            return Ok(());
        }
        let frame_count = u64::from(self.settings.frame_count());
        let kept_count = frame_count.div_ceil(u64::from(CLEAN_PART));
        match self.pool.dirty_count() + kept_count <= frame_count {
            true => Ok(()),
            false => Err(self.refuse()),
        }
    }

    /// What a change is told for which the log has no room, where it is not large itself: an older transaction
    /// keeps what came since.
    pub(super) fn name_who_fills_log(&self, error: StorageError) -> StorageError {
        let Some(active) = self.active else { return error };
        let log_bytes = self.settings.log_bytes;
        match (error, self.oldest_open()) {
            (StorageError::NoSpace { .. }, Some(oldest))
                if oldest < active.first_or_future() && active.reserved_bytes < log_bytes / 4 =>
            {
                let since_bytes = self.log.next_lsn().0 - oldest.0;
                let what = format!(
                    "the log of {log_bytes} bytes is full: {since_bytes} of them came since a \
                     transaction began that has not ended; end that one and do this one again, or give \
                     the database a larger log (log_bytes, nandu db compact --log-size)"
                );
                StorageError::NoSpace { what }
            }
            (error, _) => error,
        }
    }

    /// What a change is told that finds no room in the log, which cannot be cut either.
    pub(super) fn explain_full(&mut self, error: StorageError) -> StorageError {
        match error {
            StorageError::NoSpace { .. } if self.unplaced.is_stuck => self.refuse(),
            error => error,
        }
    }

    /// The next change asks whether there is room again.
    fn refuse(&mut self) -> StorageError {
        self.unplaced.is_stuck = true;
        self.unplaced.is_refused = true;
        StorageError::NoSpace { what: STUCK.to_owned() }
    }

    fn make_room_in_file(&mut self, address: PageAddress) -> Result<(), StorageError> {
        let page_bytes = u64::from(self.settings.page_bytes);
        let needed = u64::from(address.page) * page_bytes;
        let present = self.file_bytes.entry(address.file).or_insert(0);
        if needed <= *present {
            return Ok(());
        }
        let io = &self.data_io;
        // Redo writes pages past what a crash left of the file, so it may be longer than noted; to
        // set a smaller length would cut those pages off.
        *present = io.byte_count(address.file);
        if needed <= *present {
            return Ok(());
        }
        let growth = (needed / 8).clamp(GROWTH_PAGES_MIN * page_bytes, GROWTH_BYTES_MAX);
        let growth = match io.free_bytes().map(|free| free.saturating_sub(needed - *present)) {
            // To try is dear where there is no room: a file system may look at all of it. So the last
            // room is taken in halves, and not page by page after as many tries.
            Some(left) if left < growth => left / 2 / page_bytes * page_bytes,
            _ => growth,
        };
        let wanted = (needed + growth).next_multiple_of(page_bytes);
        let granted = match io.set_byte_count(address.file, wanted) {
            Ok(()) => wanted,
            // No room to grow by more than the page that is needed now, which would save later
            // calls; perhaps there is room for that page.
            Err(StorageError::NoSpace { .. }) => {
                io.set_byte_count(address.file, needed)?;
                needed
            }
            Err(error) => return Err(error),
        };
        *present = granted;
        Ok(())
    }

    /// Asks the propagation for room for all that were made.
    fn find_room(&mut self) -> Result<(), StorageError> {
        let mut room = self.pool.room_pages(self.unplaced.made_count)?;
        if room < self.unplaced.made_count {
            // Many of them have their place by now, and the others get one.
            self.pool.write_back(&WriteBack::default())?;
            self.pool.sync()?;
            self.unplaced.made_count = self.pool.dirty_count() + 1;
            room = self.pool.room_pages(self.unplaced.made_count)?;
        }
        let Some(spare) = room.checked_sub(self.unplaced.made_count) else {
            self.unplaced.made_count -= 1;
            self.unplaced.granted_count = self.unplaced.made_count;
            return Err(StorageError::NoSpace { what: FULL.to_owned() });
        };
        // Half of it: what is written meanwhile takes room, too.
        self.unplaced.granted_count = self.unplaced.made_count + spare / 2;
        Ok(())
    }
}
