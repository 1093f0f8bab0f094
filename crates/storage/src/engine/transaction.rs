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
//! 3. What the log keeps is what transactions have reserved, each for itself: none takes of another's.

use super::action::ActionKind;
use super::undos::{Undos, add_undo};
use super::{Engine, structure};
use crate::log::{
    LogRecord, RecordBuffer, RecordBuilder, Room, TransactionEntry, TransactionStatus,
};
use crate::{FileId, Lsn, StorageError};
use std::sync::Arc;

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
    /// Room in the log that is kept for taking it back.
    pub(super) reserved_bytes: u64,
}

/// A place in a transaction to come back to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Savepoint {
    transaction: u64,
    undo_next: Lsn,
}

impl Savepoint {
    /// The number of the transaction that it is a place in.
    pub(crate) const fn transaction(&self) -> u64 {
        self.transaction
    }

    /// What the transaction would have undone first, there.
    pub(crate) const fn undo_next(&self) -> Lsn {
        self.undo_next
    }
}

impl Transaction {
    pub(super) const fn new(id: u64, first: Lsn) -> Self {
        Self { id, first, last: first, undo_next: first, reserved_bytes: 0 }
    }

    pub(super) const fn of_log(entry: &TransactionEntry) -> Self {
        let TransactionEntry { id, last, undo_next, .. } = *entry;
        Self { id, first: undo_next, last, undo_next, reserved_bytes: 0 }
    }

    /// Pages older than this were not changed by this transaction.
    pub(super) const fn first_or_future(&self) -> Lsn {
        if self.first.0 == 0 { Lsn(u64::MAX) } else { self.first }
    }

    /// Takes so many bytes from what it has reserved, and gives back how many there were of them.
    pub(super) fn use_reserved(&mut self, bytes: u64) -> u64 {
        let used = bytes.min(self.reserved_bytes);
        self.reserved_bytes -= used;
        used
    }

    /// As a checkpoint writes it; `None` before its first record.
    pub(super) fn in_log(&self) -> Option<TransactionEntry> {
        let Self { id, first, last, undo_next, .. } = *self;
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

    /// Whether others are at work beside the active transaction, or look at the database.
    pub(crate) fn has_company(&self) -> bool {
        !self.parked.is_empty() || self.versions.is_seen(Lsn(0))
    }

    /// Whether the active transaction has logged anything.
    pub(crate) fn has_changed(&self) -> bool {
        self.active.is_some_and(|active| active.first > Lsn(0))
    }

    /// The number of the active transaction.
    ///
    /// # Panics
    /// If none is active.
    #[must_use]
    pub fn active_transaction(&self) -> u64 {
        self.active.expect("a transaction is served").id
    }

    /// Sets the active transaction aside, so that another can be active. Gives its number.
    ///
    /// # Panics
    /// If none is active.
    pub fn park(&mut self) -> u64 {
        let active = self.active.take().expect("only an active transaction is set aside");
        self.parked.insert(active.id, active);
        active.id
    }

    /// Goes on with a transaction that was set aside.
    ///
    /// # Panics
    /// If another is active, or there is no such transaction.
    pub fn resume(&mut self, transaction: u64) {
        assert!(self.active.is_none(), "one transaction is active at a time");
        let parked = self.parked.remove(&transaction);
        self.active = Some(parked.expect("a transaction that goes on was set aside"));
    }

    /// What takes back the changes of transactions that were set aside and have not ended: what somebody
    /// has to undo on copies of pages who wants to see committed rows only, of files other than `unseen`.
    /// `None` if that is more than `bytes_max`.
    ///
    /// # Errors
    /// If the log cannot be read.
    pub(crate) fn uncommitted(
        &self,
        unseen: &[FileId],
        bytes_max: u64,
    ) -> Result<Option<Undos>, StorageError> {
        let mut undos = Undos::new();
        let mut bytes = 0;
        let mut buffer = RecordBuffer::new();
        for transaction in self.parked.values() {
            let mut next = transaction.undo_next;
            let mut kept = self.undos.of(transaction.id);
            while next > Lsn(0) {
                if let Some((last, before)) = kept.split_last()
                    && last.lsn == next
                {
                    bytes += add_undo(&mut undos, &last.undo, unseen);
                    (next, kept) = (last.next, before);
                } else {
                    next = match self.log.read_record(next, &mut buffer)? {
                        LogRecord::Action { previous, undo, .. } => {
                            bytes += add_undo(&mut undos, &Arc::from(undo), unseen);
                            previous
                        }
                        LogRecord::Compensation { undo_next, .. } => undo_next,
                        other => return Err(not_in_a_chain(next, &other)),
                    };
                }
                if bytes > bytes_max {
                    return Ok(None);
                }
            }
        }
        Ok(Some(undos))
    }

    /// Whether a transaction that was set aside has changed anything.
    pub(crate) fn has_uncommitted(&self) -> bool {
        self.parked.values().any(|transaction| transaction.undo_next > Lsn(0))
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

    /// Undoes what the active transaction did since `savepoint`; it goes on from there. One that
    /// was itself undone is told as long as nothing was done since.
    ///
    /// # Errors
    /// As [`Self::rollback`]; or if the savepoint is of another transaction, or lies ahead. Then
    /// nothing is done.
    ///
    /// # Panics
    /// If none is active.
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), StorageError> {
        self.check_usable()?;
        let active = self.active.expect("only an active transaction rolls back");
        let what = match savepoint {
            Savepoint { transaction, .. } if transaction != active.id => {
                format!("the savepoint is of transaction {transaction}, not of {}", active.id)
            }
            Savepoint { undo_next, .. } if undo_next > active.undo_next => {
                "the savepoint was itself undone; roll back to one that is left".to_owned()
            }
            _ => return self.undo_until(savepoint.undo_next),
        };
        Err(StorageError::InvalidSetting { what })
    }

    /// Undoes some of what the active transaction did since `savepoint`, or ever: the last changes first. False
    /// if nothing of it is left. The buffer is for the log's records, and serves all parts.
    ///
    /// # Errors
    /// As [`Self::rollback`].
    ///
    /// # Panics
    /// If none is active.
    pub(crate) fn undo_part(
        &mut self,
        savepoint: Option<Savepoint>,
        record_count_max: u32,
        buffer: &mut RecordBuffer,
    ) -> Result<bool, StorageError> {
        self.check_usable()?;
        let limit = savepoint.map_or(Lsn(0), |savepoint| savepoint.undo_next);
        self.undo_records(limit, record_count_max, buffer)?;
        Ok(self.active.expect("only an active transaction is undone").undo_next > limit)
    }

    /// Undoes one record after the other until `limit` is the last that is not undone.
    pub(super) fn undo_until(&mut self, limit: Lsn) -> Result<(), StorageError> {
        self.undo_records(limit, u32::MAX, &mut RecordBuffer::new())
    }

    /// As [`Self::undo_until`], of so many records at most.
    fn undo_records(
        &mut self,
        limit: Lsn,
        mut records_left: u32,
        buffer: &mut RecordBuffer,
    ) -> Result<(), StorageError> {
        let mut undo_bytes = Vec::new();
        while let Some(Transaction { undo_next, .. }) = self.active
            && undo_next > limit
            && records_left > 0
        {
            records_left -= 1;
            let next = match self.log.read_record(undo_next, buffer) {
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
                    let error = not_in_a_chain(undo_next, &other);
                    return self.poison(error);
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
            self.undos.forget_behind(active.id, next);
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
            let (id, next) = (active.id, std::mem::replace(&mut active.undo_next, lsn));
            if self.has_company() {
                self.undos.keep(id, (lsn, next), &self.scratch.undo);
            }
        }
    }

    /// All that have not ended: the active one, and those that were set aside.
    pub(super) fn open_transactions(&self) -> impl Iterator<Item = &Transaction> {
        self.active.iter().chain(self.parked.values())
    }

    /// The first record of the oldest of them that has one.
    pub(super) fn oldest_open(&self) -> Option<Lsn> {
        self.open_transactions().map(|open| open.first).filter(|&first| first > Lsn(0)).min()
    }

    fn end_transaction(&mut self) {
        let ended = self.active.take().expect("what ends was active");
        self.undos.end(ended.id);
        // Where nobody else is at work nothing stays reserved, whatever the accounts say.
        let is_last = self.parked.is_empty();
        self.log.release(if is_last { u64::MAX } else { ended.reserved_bytes });
    }
}

/// The error that the records of a transaction lead to one of another kind.
fn not_in_a_chain(at: Lsn, found: &LogRecord<'_>) -> StorageError {
    let place = format!("the log at LSN {}", at.0);
    StorageError::Corrupt {
        place,
        what: format!("a transaction's chain leads to {}", found.told()),
    }
}
