//! Places in a transaction to come back to, and which of them are still there.
//!
//! ```text
//!   a ── b ── c            back to a          a ── d         b and c are gone, a is there
//!   undo_next rises ►      ──────────►        undo_next of d may lie behind that of c
//! ```
//!
//! 1. Of the rollbacks to marks those are kept that no later one went as far back as: the places
//!    that they led to rise.
//! 2. A mark is gone if a rollback after it led to a place before it.

use crate::engine::Savepoint;
use crate::{Lsn, StorageError};

/// A place in a transaction to come back to: see [`WriteTransaction::savepoint`].
///
/// [`WriteTransaction::savepoint`]: super::WriteTransaction::savepoint
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    pub(super) savepoint: Savepoint,
    /// What the transaction had done then, of the isolation that keeps it.
    pub(super) step_count: usize,
    /// How many values it was to merge.
    pub(super) merge_count: usize,
    /// Rollbacks before it.
    rollback_count: u64,
}

/// The rollbacks to marks of a transaction.
#[derive(Debug, Default)]
pub(super) struct Rollbacks {
    count: u64,
    /// How many there were before, and where each led to.
    kept: Vec<(u64, Lsn)>,
}

impl Rollbacks {
    /// A mark of now.
    pub(super) const fn mark(
        &self,
        savepoint: Savepoint,
        step_count: usize,
        merge_count: usize,
    ) -> Mark {
        Mark { savepoint, step_count, merge_count, rollback_count: self.count }
    }

    /// Refuses a mark that is not there.
    pub(super) fn check(&self, mark: &Mark, transaction: u64) -> Result<(), StorageError> {
        let invalid = |what: String| Err(StorageError::InvalidSetting { what });
        let other = mark.savepoint.transaction();
        if other != transaction {
            return invalid(format!(
                "the mark is of transaction {other}, not of this one, {transaction}; roll back to a mark of \
                 its own"
            ));
        }
        let first_after = self.kept.partition_point(|(count, _)| *count < mark.rollback_count);
        let led_to = self.kept.get(first_after).map(|(_, led_to)| *led_to);
        if led_to.is_some_and(|led_to| led_to < mark.savepoint.undo_next()) {
            return invalid(
                "the mark was itself taken back, by a rollback to one before it; roll back to one that is left"
                    .to_owned(),
            );
        }
        Ok(())
    }

    /// A rollback to this mark was done.
    pub(super) fn note(&mut self, mark: &Mark) {
        let led_to = mark.savepoint.undo_next();
        while self.kept.pop_if(|(_, other)| *other >= led_to).is_some() {}
        self.kept.push((self.count, led_to));
        self.count += 1;
    }
}
