//! Fuzzy checkpoints: they bound what a restart has to read, and free the log behind them.
//!
//! ```text
//!      P = begin of the last one      B = begin of this one
//!   ───┼──────────────────────────────┼───── write pages dirty since before P ── sync ── End ─► master
//!      └── log kept from here, or from the oldest change not on the device, or the oldest
//!          record of an open transaction
//! ```
//!
//! 1. When a checkpoint is complete, every page that was dirty since before its predecessor began is
//!    on the device, and everything written before it began is durable.
//! 2. The control block tells the last write of pages before the checkpoint was complete, so that an
//!    opening that finds fewer knows that they were lost.
//! 3. The log's tail is never past what a restart from the last complete checkpoint needs: redo of
//!    dirty pages, images of torn ones, undo of open transactions.

use super::{Engine, TornPages, Transaction};
use crate::log::{RecordBuilder, Room, TransactionEntry};
use crate::plant::{EngineBug, is_planted};
use crate::pool::WriteBack;
use crate::{Lsn, StorageError};

impl Engine {
    /// Takes a checkpoint now. Called between actions.
    ///
    /// # Errors
    /// If the device fails; the last complete checkpoint still counts then.
    pub fn checkpoint(&mut self) -> Result<(), StorageError> {
        self.check_writable()?;
        let begin = self.log.append(&RecordBuilder::new().begin_checkpoint(), Room::Checkpoint)?;
        let previous = self.last_checkpoint;
        // From here on a page that changes has its image in the log after `begin`.
        if self.settings.torn_pages == TornPages::LogImages {
            self.image_threshold = begin;
        }
        let older = WriteBack { rec_lsn_below: Some(previous), ..WriteBack::default() };
        self.pool.write_back(&older)?;
        if !is_planted(EngineBug::CheckpointWithoutSync) {
            self.pool.sync()?;
        }
        let dirty_pages = self.pool.dirty_pages();
        let oldest_change = dirty_pages.iter().map(|&(_, lsn)| lsn).min().unwrap_or(begin);
        let open = || self.active.iter().chain(self.parked.values());
        let active: Vec<TransactionEntry> = open().filter_map(Transaction::in_log).collect();
        let firsts = open().map(|open| open.first).filter(|&first| first > Lsn(0));
        let oldest_active = firsts.min().unwrap_or(begin);
        let end = self.log.append_end_checkpoint(begin, &active, &dirty_pages)?;
        let images_from = match self.settings.torn_pages {
            TornPages::LogImages if previous > Lsn(0) => previous,
            _ => begin,
        };
        self.log.note_written(self.pool.last_write());
        let mut tail = images_from.min(oldest_change).min(oldest_active);
        if is_planted(EngineBug::TailPastChanges) {
            tail = begin.min(oldest_active);
        }
        if is_planted(EngineBug::TailPastTransaction) {
            tail = images_from.min(oldest_change);
        }
        self.log.complete_checkpoint(begin, end, tail)?;
        self.last_checkpoint = begin;
        Ok(())
    }

    /// Writes all dirty pages and takes a checkpoint, so that a restart finds nothing to redo.
    ///
    /// # Errors
    /// As [`Self::checkpoint`].
    pub fn checkpoint_fully(&mut self) -> Result<(), StorageError> {
        self.check_usable()?;
        self.pool.write_back(&WriteBack::default())?;
        self.checkpoint()
    }

    /// Takes a checkpoint if enough was logged since the last.
    pub(super) fn checkpoint_if_due(&mut self) -> Result<(), StorageError> {
        let logged = self.log.next_lsn().0 - self.last_checkpoint.0;
        if logged >= self.settings.checkpoint_bytes { self.checkpoint() } else { Ok(()) }
    }
}
