//! Transactions: forward by actions, backward by their logical undos.
//!
//! ```text
//!    A1 ◄── A2 ◄── A3 ◄── C3 ◄── C2          A: action   C: compensation
//!    ▲                     └undo_next► A2 …    ◄── previous
//!    └──────────────────────────── undo_next
//! ```
//!
//! 1. `undo_next` is the last record of the transaction that is not undone; what lies behind it in
//!    the chain is all there is left to undo.
//! 2. A compensation is never undone, so a rollback that was interrupted goes on where it stopped.

use super::action::ActionKind;
use super::{Engine, structure};
use crate::log::{
    LogRecord, RecordBuffer, RecordBuilder, Room, TransactionEntry, TransactionStatus,
};
use crate::{Lsn, StorageError};

/// A transaction at work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transaction {
    pub(super) id: u64,
    /// Its first record; 0 before there is one.
    pub(super) first: Lsn,
    /// Its last record.
    pub(super) last: Lsn,
    /// The record that a rollback undoes first.
    pub(super) undo_next: Lsn,
}

/// A place in a transaction to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    transaction: u64,
    undo_next: Lsn,
}

impl Transaction {
    pub(super) const fn new(id: u64, first: Lsn) -> Self {
        Self { id, first, last: first, undo_next: first }
    }

    pub(super) const fn of_log(entry: &TransactionEntry) -> Self {
        let TransactionEntry { id, last, undo_next, .. } = *entry;
        Self { id, first: undo_next, last, undo_next }
    }

    /// Pages older than this were not changed by this transaction.
    pub(super) const fn first_or_future(&self) -> Lsn {
        if self.first.0 == 0 { Lsn(u64::MAX) } else { self.first }
    }

    /// As a checkpoint writes it; `None` before its first record.
    pub(super) fn in_log(&self) -> Option<TransactionEntry> {
        let Self { id, first, last, undo_next } = *self;
        let status = TransactionStatus::Active;
        (first > Lsn(0)).then_some(TransactionEntry { id, status, last, undo_next })
    }
}

impl Engine {
    /// Begins a transaction.
    ///
    /// # Errors
    /// If an earlier failure stopped the engine, or the volumes are read-only.
    ///
    /// # Panics
    /// If one is active.
    pub fn begin(&mut self) -> Result<(), StorageError> {
        self.check_writable()?;
        assert!(self.active.is_none(), "one write transaction at a time");
        self.active = Some(Transaction::new(self.next_transaction, Lsn(0)));
        self.next_transaction += 1;
        Ok(())
    }

    /// Whether a transaction is active.
    #[must_use]
    pub const fn is_active(&self) -> bool {
        self.active.is_some()
    }

    /// Commits the active transaction: its effects are there for good once the log is durable up to
    /// the answer ([`crate::log::SharedLog::make_commit_durable`]). `None` if it changed nothing.
    ///
    /// # Errors
    /// If the log has no room or fails. The transaction is still active in the first case; in the
    /// second the engine stops.
    ///
    /// # Panics
    /// If none is active.
    pub fn commit(&mut self) -> Result<Option<Lsn>, StorageError> {
        self.check_usable()?;
        let active = self.active.expect("only an active transaction commits");
        if active.first == Lsn(0) {
            self.active = None;
            return Ok(None);
        }
        let mut builder = RecordBuilder::new();
        let record = builder.commit(active.id, active.last);
        let lsn = match self.log.append(&record, Room::Reserved) {
            Ok(lsn) => lsn,
            Err(error) => return self.poison(error),
        };
        self.end_transaction();
        Ok(Some(lsn))
    }

    /// Rolls the active transaction back.
    ///
    /// # Errors
    /// If a page cannot be read or the log fails; the engine stops then, and the next opening rolls
    /// back.
    ///
    /// # Panics
    /// If none is active.
    pub fn rollback(&mut self) -> Result<(), StorageError> {
        self.check_usable()?;
        let active = self.active.expect("only an active transaction rolls back");
        if active.first > Lsn(0) {
            self.undo_until(Lsn(0))?;
            let last = self.active.expect("it is active until it ends").last;
            let mut builder = RecordBuilder::new();
            let record = builder.end(active.id, last);
            if let Err(error) = self.log.append(&record, Room::Reserved) {
                return self.poison(error);
            }
        }
        self.end_transaction();
        Ok(())
    }

    /// Marks a place in the active transaction.
    ///
    /// # Panics
    /// If none is active.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        let active = self.active.expect("a savepoint is a place in an active transaction");
        Savepoint { transaction: active.id, undo_next: active.undo_next }
    }

    /// Undoes what the active transaction did since `savepoint`; it goes on from there.
    ///
    /// # Errors
    /// As [`Self::rollback`].
    ///
    /// # Panics
    /// If the savepoint is of another transaction, or was itself undone.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), StorageError> {
        self.check_usable()?;
        let active = self.active.expect("only an active transaction rolls back");
        assert_eq!(active.id, savepoint.transaction, "the savepoint is of this transaction");
        assert!(savepoint.undo_next <= active.undo_next, "the savepoint was not undone itself");
        self.undo_until(savepoint.undo_next)
    }

    /// Undoes one record after the other until `limit` is the last that is not undone. Gives the
    /// number of actions.
    pub(super) fn undo_until(&mut self, limit: Lsn) -> Result<(), StorageError> {
        let mut buffer = RecordBuffer::new();
        let mut undo_bytes = Vec::new();
        while let Some(Transaction { undo_next, .. }) = self.active
            && undo_next > limit
        {
            let next = match self.log.read_record(undo_next, &mut buffer) {
                Ok(LogRecord::Action { previous, undo, .. }) => {
                    undo_bytes.clear();
                    undo_bytes.extend_from_slice(undo);
                    previous
                }
                Ok(LogRecord::Compensation { undo_next, .. }) => {
                    undo_bytes.clear();
                    undo_next
                }
                Ok(other) => {
                    let place = format!("the log at LSN {}", undo_next.0);
                    let what = format!("a transaction's chain leads to {}", other.told());
                    return self.poison(StorageError::Corrupt { place, what });
                }
                Err(error) => return self.poison(error),
            };
            // A file that this transaction made may be gone: its rollback had ended when the power
            // went, but the end of it was not durable yet. Another file may have its number.
            let file = structure::file_of(&undo_bytes);
            let records_from = file.and_then(|file| self.records_from.get(&file));
            if records_from.is_some_and(|&first| first <= undo_next)
                && let Err(error) = self.compensate(next, &undo_bytes)
            {
                return self.poison(error);
            }
            let active = self.active.as_mut().expect("it is active until it ends");
            active.undo_next = next;
        }
        Ok(())
    }

    /// A record of the active transaction was logged.
    pub(super) fn note_record(&mut self, kind: ActionKind, lsn: Lsn) {
        let active = self.active.as_mut().expect("a record belongs to a transaction");
        if active.first == Lsn(0) {
            active.first = lsn;
        }
        active.last = lsn;
        if kind == ActionKind::Forward {
            active.undo_next = lsn;
        }
    }

    fn end_transaction(&mut self) {
        self.active = None;
        // All that was reserved belonged to it.
        self.log.release(u64::MAX);
    }
}
