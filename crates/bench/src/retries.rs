//! Transactions of clients, and how often and why they were done again.
//!
//! 1. A transaction is done again only for what others did, a thousand times at most.

use crate::error::BenchError;
use nandu_storage::database::{Isolation, WriteTransaction};
use nandu_storage::{Database, StorageError};
use serde::Serialize;

/// How often a transaction is begun before its trouble is told.
const ATTEMPT_COUNT_MAX: u32 = 1000;

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
        mut body: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, BenchError>,
    ) -> Result<T, BenchError> {
        let mut attempt_count = 0;
        loop {
            attempt_count += 1;
            let mut write = database.write_with(isolation)?;
            let answer = match body(&mut write) {
                Ok(value) => write.commit().map(|()| value).map_err(BenchError::from),
                Err(error) => match write.rollback() {
                    Ok(()) => Err(error),
                    Err(worse) => Err(worse.into()),
                },
            };
            match answer {
                Err(error) if error.is_transient() && attempt_count < ATTEMPT_COUNT_MAX => {
                    self.count(&error);
                    // Whoever was in the way goes first.
                    nandu_workers::yield_now();
                }
                answer => return answer,
            }
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
