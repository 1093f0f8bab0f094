//! Transactions of clients, and how often and why they were done again.
//!
//! 1. A transaction is done again as [`Database::transact`] does it.

use crate::error::BenchError;
use nandu_storage::database::{Isolation, WriteTransaction};
use nandu_storage::{Database, StorageError};
use serde::Serialize;

/// Transactions that were done again, since others had been in their way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Retries {
    /// How many: the sum of the next three.
    pub retry_count: u64,
    /// Those whose rows another had changed since their moment.
    pub conflict_count: u64,
    /// Those that would have waited for themselves.
    pub deadlock_count: u64,
    /// Those that waited for a lock for too long.
    pub lock_timeout_count: u64,
}

/// How a transaction ends that did not fail.
pub(crate) enum End<T> {
    /// What it did stays.
    Commit(T),
    /// Nothing of it stays but the answer.
    RollBack(T),
}

/// Why a transaction was not committed.
enum Stop<T> {
    RolledBack(T),
    Failed(BenchError),
}

impl<T> From<StorageError> for Stop<T> {
    fn from(error: StorageError) -> Self {
        Self::Failed(error.into())
    }
}

impl Retries {
    /// Runs a transaction and commits it, as often as it takes. What `body` does beside the
    /// database, it does each time.
    ///
    /// # Errors
    /// What `body` or the commit returns; then nothing of it happened, unless the commit's log
    /// failed.
    pub fn transact<T>(
        &mut self,
        database: &Database,
        isolation: Isolation,
        body: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        database.transact_while(isolation, body, |error| {
            let is_transient = error.is_transient();
            if is_transient {
                self.count(error);
            }
            is_transient
        })
    }

    /// As [`Self::transact`], where `body` says how the transaction ends. It is done again, too, where what
    /// it reads was not kept for so long; that is counted in `too_old_count`.
    ///
    /// # Errors
    /// As there.
    pub(crate) fn transact_unless<T>(
        &mut self,
        too_old_count: &mut u64,
        (database, isolation): (&Database, Isolation),
        mut body: impl FnMut(&mut WriteTransaction<'_>) -> Result<End<T>, BenchError>,
    ) -> Result<T, BenchError> {
        let attempt = |write: &mut WriteTransaction<'_>| match body(write) {
            Ok(End::Commit(value)) => Ok(value),
            Ok(End::RollBack(value)) => Err(Stop::RolledBack(value)),
            Err(error) => Err(Stop::Failed(error)),
        };
        let answer = database.transact_while(isolation, attempt, |stop| match stop {
            Stop::Failed(BenchError::Storage(StorageError::SnapshotTooOld { .. })) => {
                *too_old_count += 1;
                true
            }
            Stop::Failed(error) if error.is_transient() => {
                self.count(error);
                true
            }
            _ => false,
        });
        match answer {
            Ok(value) | Err(Stop::RolledBack(value)) => Ok(value),
            Err(Stop::Failed(error)) => Err(error),
        }
    }

    fn count(&mut self, error: &BenchError) {
        self.retry_count += 1;
        match error {
            BenchError::Storage(StorageError::Deadlock { .. }) => self.deadlock_count += 1,
            BenchError::Storage(StorageError::LockTimeout { .. }) => self.lock_timeout_count += 1,
            _ => self.conflict_count += 1,
        }
    }

    /// Adds those of another client.
    pub(crate) const fn add(&mut self, other: &Self) {
        self.retry_count += other.retry_count;
        self.conflict_count += other.conflict_count;
        self.deadlock_count += other.deadlock_count;
        self.lock_timeout_count += other.lock_timeout_count;
    }
}
