//! Fuzzy checkpoints: they bound what a restart has to read, and free the log behind them.
//!
//! ```text
//!      P = begin of the last one      B = begin of this one         E
//!   ───┼──────────────────────────────┼── write pages dirty ── sync ─┼── log durable ─► master
//!      │                              │   since before P             │
//!      └── log kept from here, or from the oldest change that the sync did not find written, or the
//!          oldest record of a transaction that is open at E
//! ```
//!
//! Who is alone takes one between two actions. Among others the engine is held only at B and at E, and
//! for the master: pages are written and synced without it (`pool/clean`), while others change them.
//!
//! 1. When a checkpoint is complete, every page that was dirty since before its predecessor began is
//!    on the device, and everything written before it began is durable.
//! 2. The dirty pages that E tells are those of the moment before the sync began: what is written
//!    later is clean, but not durable.
//! 3. The control block tells the last write of pages before that sync, so that an opening that finds
//!    fewer knows that they were lost.
//! 4. The log's tail is never past what a restart from the last complete checkpoint needs: redo of
//!    dirty pages, images of torn ones, undo of open transactions.
//! 5. Checkpoints complete in the order in which they began: one that another has overtaken never
//!    counts, whatever became of that.

use super::{Engine, TornPages, Transaction};
use crate::log::{RecordBuilder, Room, TransactionEntry};
use crate::plant::{EngineBug, is_planted};
use crate::pool::{Cleaning, WriteBack};
use crate::{Lsn, PageAddress, StorageError};

/// How often one for which there was no room is tried again, in the log that lies between two.
const TRIES_PER_CHECKPOINT: u64 = 16;

/// A checkpoint that has begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Begun {
    begin: Lsn,
    /// Where the last complete one began.
    previous: Lsn,
}

/// What the pool was like when the sync of a checkpoint began.
#[derive(Debug)]
pub(crate) struct Found {
    dirty_pages: Vec<(PageAddress, Lsn)>,
    last_write: u64,
}

/// A checkpoint whose last record is in the log.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ended {
    begun: Begun,
    end: Lsn,
    tail: Lsn,
}

impl Engine {
    /// Takes a checkpoint now. Called between actions.
    ///
    /// # Errors
    /// If the device fails; the last complete checkpoint still counts then.
    pub fn checkpoint(&mut self) -> Result<(), StorageError> {
        self.check_writable()?;
        // Whoever else is at one is overtaken.
        let begun = self.append_begin_checkpoint()?;
        let taken = self.take_checkpoint(begun).inspect_err(|_| self.begun_checkpoint = None);
        self.note_room(taken)
    }

    fn take_checkpoint(&mut self, begun: Begun) -> Result<(), StorageError> {
        let older = WriteBack { rec_lsn_below: Some(begun.previous), ..WriteBack::default() };
        self.pool.write_back(&older)?;
        if !is_planted(EngineBug::CheckpointWithoutSync) {
            self.pool.sync()?;
        }
        let dirty_pages = self.pool.dirty_pages();
        let found = Found { dirty_pages, last_write: self.pool.last_write() };
        let ended = self.append_end_checkpoint(begun, &found)?;
        self.complete(ended)
    }

    /// Writes all dirty pages and takes a checkpoint, so that a restart finds nothing to redo.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub fn checkpoint_fully(&mut self) -> Result<(), StorageError> {
        self.check_usable()?;
        let written = self.pool.write_back(&WriteBack::default()).map(drop);
        self.note_room(written)?;
        self.checkpoint()
    }

    /// Takes a checkpoint if enough was logged since the last; later where somebody is at one already. One
    /// for which there is no room waits: in the room that the log has left something may be taken away.
    pub(super) fn checkpoint_if_due(&mut self) -> Result<(), StorageError> {
        let due_bytes = self.settings.checkpoint_bytes;
        let unplaced = &self.unplaced;
        let is_due = match unplaced.is_stuck {
            // There may be room again, for what was refused.
            true => {
                let since_bytes = self.log.next_lsn().0 - unplaced.stuck_at.0;
                unplaced.is_refused || since_bytes >= due_bytes / TRIES_PER_CHECKPOINT
            }
            false => {
                let waits_bytes = if self.begun_checkpoint.is_some() { due_bytes / 4 } else { 0 };
                self.logged_bytes() >= due_bytes + waits_bytes || self.log_is_short()
            }
        };
        let answer = if is_due { self.checkpoint() } else { Ok(()) };
        match answer {
            Err(StorageError::NoSpace { .. }) if self.unplaced.is_stuck => Ok(()),
            answer => answer,
        }
    }

    /// Whether the log is nearly full, and a checkpoint would make room in it: a transaction kept that, which has
    /// ended since the last one.
    fn log_is_short(&self) -> bool {
        let least =
            || self.oldest_open().map_or(self.last_checkpoint, |it| it.min(self.last_checkpoint));
        self.log.is_short_before(least)
    }

    /// Bytes of log since the last checkpoint began.
    fn logged_bytes(&self) -> u64 {
        self.log.next_lsn().0 - self.last_checkpoint.0
    }

    /// Whether one should be taken without holding the engine, soon enough that nobody has to hold it.
    pub(crate) fn wants_checkpoint(&self) -> bool {
        let is_near = || self.logged_bytes() >= self.settings.checkpoint_bytes / 4 * 3;
        self.begun_checkpoint.is_none() && (is_near() || self.log_is_short())
    }

    /// Begins a checkpoint during which the engine is left to others; `None` where that cannot be done, or
    /// somebody is at it.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub(crate) fn begin_checkpoint(&mut self) -> Result<Option<Begun>, StorageError> {
        self.check_writable()?;
        if self.begun_checkpoint.is_some() || !self.pool.writes_aside() {
            return Ok(None);
        }
        self.append_begin_checkpoint().map(Some)
    }

    /// Pages that it has to write, in parts that fly at once.
    pub(crate) fn pages_due(&self, begun: Begun) -> Vec<Vec<(u64, u32)>> {
        let due = self.pool.dirty_below(begun.previous);
        due.chunks(self.pool.batch_count_max()).map(<[_]>::to_vec).collect()
    }

    /// Plans to write such a part.
    pub(crate) fn plan_writing(&self, due: &[(u64, u32)]) -> Option<Cleaning> {
        self.pool.plan_writing(due)
    }

    /// Plans the sync behind them.
    pub(crate) fn plan_sync(&self) -> (Cleaning, Found) {
        let (sync, dirty_pages, last_write) = self.pool.plan_sync();
        (sync, Found { dirty_pages, last_write })
    }

    /// Ends a checkpoint in the log; `None` if another has overtaken it, or pages could not be written since
    /// somebody held them.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub(crate) fn end_checkpoint(
        &mut self,
        begun: Begun,
        found: &Found,
    ) -> Result<Option<Ended>, StorageError> {
        self.check_writable()?;
        let is_left = |&(_, first_change): &(PageAddress, Lsn)| first_change < begun.previous;
        if self.begun_checkpoint != Some(begun) || found.dirty_pages.iter().any(is_left) {
            return Ok(None);
        }
        self.append_end_checkpoint(begun, found).map(Some)
    }

    /// Makes it count, unless another has overtaken it; says which. Its last record should be durable by
    /// then: else all wait for that.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub(crate) fn complete_checkpoint(&mut self, ended: Ended) -> Result<bool, StorageError> {
        if self.begun_checkpoint != Some(ended.begun) {
            return Ok(false);
        }
        self.complete(ended).map(|()| true)
    }

    /// Gives one up that cannot be ended.
    pub(crate) fn give_up_checkpoint(&mut self, begun: Begun) {
        if self.begun_checkpoint == Some(begun) {
            self.begun_checkpoint = None;
        }
    }

    fn append_begin_checkpoint(&mut self) -> Result<Begun, StorageError> {
        let begin = self.log.append(&RecordBuilder::new().begin_checkpoint(), Room::Checkpoint)?;
        let begun = Begun { begin, previous: self.last_checkpoint };
        self.begun_checkpoint = Some(begun);
        // From here on a page that changes has its image in the log after `begin`.
        if self.settings.torn_pages == TornPages::LogImages {
            self.image_threshold = begin;
        }
        Ok(begun)
    }

    fn append_end_checkpoint(&self, begun: Begun, found: &Found) -> Result<Ended, StorageError> {
        let Begun { begin, previous } = begun;
        let oldest_change = found.dirty_pages.iter().map(|&(_, lsn)| lsn).min().unwrap_or(begin);
        let active: Vec<TransactionEntry> =
            self.open_transactions().filter_map(Transaction::in_log).collect();
        let oldest_active = self.oldest_open().unwrap_or(begin);
        let end = self.log.append_end_checkpoint(begin, &active, &found.dirty_pages)?;
        let images_from = match self.settings.torn_pages {
            TornPages::LogImages if previous > Lsn(0) => previous,
            _ => begin,
        };
        self.log.note_written(found.last_write);
        let mut tail = images_from.min(oldest_change).min(oldest_active);
        if is_planted(EngineBug::TailPastChanges) {
            tail = begin.min(oldest_active);
        }
        if is_planted(EngineBug::TailPastTransaction) {
            tail = images_from.min(oldest_change);
        }
        Ok(Ended { begun, end, tail })
    }

    fn complete(&mut self, ended: Ended) -> Result<(), StorageError> {
        let Ended { begun, end, tail } = ended;
        self.begun_checkpoint = None;
        self.log.complete_checkpoint(begun.begin, end, tail)?;
        self.last_checkpoint = begun.begin;
        Ok(())
    }
}

impl Ended {
    /// The last record, which has to be durable before the checkpoint counts.
    pub(crate) const fn end(&self) -> Lsn {
        self.end
    }
}
