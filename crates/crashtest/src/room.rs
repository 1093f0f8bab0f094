//! Whether there is room for a change by a measure of our own, so that an engine cannot refuse what it
//! likes.
//!
//! 1. A row is too long only if it has more than an eighth of the pool, and the limit is no less.
//! 2. There is no room in the log only for a transaction that may take a quarter of it, and none on the
//!    device only once an eighth of it was asked for, or the files of one transaction may take as much.

use crate::Scenario;
use nandu_storage::StorageError;

/// Pages that a change may put into the log as images: a leaf and its parent, of a table and an index.
const IMAGES_PER_CHANGE: u64 = 4;
/// A row as the log has it with its undo, or a table with its fill and overflow, is so many times longer.
const BYTES_PER_BYTE: u64 = 3;
/// Bytes of a row beside its value.
const ROW_BYTES: u64 = 64;
/// A file grows by so many pages at least.
const PAGES_PER_FILE: u64 = 16;
/// What is asked for counts as too much from this part of pool, log and device on.
const POOL_SHARE: u64 = 8;
const LOG_SHARE: u64 = 4;
const DEVICE_SHARE: u64 = 8;

/// What was asked for, and what there is.
#[derive(Debug)]
pub(crate) struct Room {
    page_bytes: u64,
    pool_bytes: u64,
    log_bytes: u64,
    device_bytes: u64,
    /// Of the transaction at hand, in the log and in files that it makes.
    asked_bytes: u64,
    asked_file_bytes: u64,
    /// Of all transactions together.
    asked_in_all_bytes: u64,
}

impl Room {
    pub(crate) const fn of(scenario: &Scenario) -> Self {
        Self {
            page_bytes: scenario.settings.page_bytes as u64,
            pool_bytes: scenario.settings.pool_bytes,
            log_bytes: scenario.settings.log_bytes,
            device_bytes: scenario.device_bytes,
            asked_bytes: 0,
            asked_file_bytes: 0,
            asked_in_all_bytes: 0,
        }
    }

    /// Notes that a transaction begins, which has asked for nothing yet.
    pub(crate) const fn begin(&mut self) {
        self.asked_bytes = 0;
        self.asked_file_bytes = 0;
    }

    /// So many files: large pages make them large, however little is in them.
    pub(crate) const fn ask_files(&mut self, count: u64) {
        self.asked_file_bytes += count * PAGES_PER_FILE * self.page_bytes;
    }

    /// A change of so many rows with such values.
    pub(crate) const fn ask(&mut self, row_count: u64, value_bytes: usize) {
        let rows = BYTES_PER_BYTE * row_count * (value_bytes as u64 + ROW_BYTES);
        self.asked_bytes += rows + IMAGES_PER_CHANGE * self.page_bytes;
        self.asked_in_all_bytes += rows;
    }

    /// Whether the device has room for small rows, whatever was asked for.
    pub(crate) const fn is_left(&self) -> bool {
        self.asked_in_all_bytes < self.device_bytes / DEVICE_SHARE
    }

    /// Whether a change may be refused like that.
    pub(crate) fn excuses(&self, error: &StorageError) -> bool {
        match error {
            StorageError::TooLarge { found_bytes, limit_bytes, .. } => {
                found_bytes > limit_bytes && *limit_bytes >= self.pool_bytes / POOL_SHARE
            }
            StorageError::NoSpace { .. } => {
                self.asked_bytes >= self.log_bytes / LOG_SHARE
                    || self.asked_file_bytes >= self.device_bytes / DEVICE_SHARE
                    || !self.is_left()
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bug, WorldKind};

    #[test]
    fn small_changes_may_not_be_refused_and_large_ones_may() {
        let scenario = Scenario::of_seed(1, WorldKind::Memory, Bug::None);
        let mut room = Room::of(&scenario);
        let no_space = StorageError::NoSpace { what: "log".to_owned() };
        let too_large = |found_bytes, limit_bytes| StorageError::TooLarge {
            what: "row".to_owned(),
            found_bytes,
            limit_bytes,
        };
        room.begin();
        room.ask(1, 100);
        assert!(!room.excuses(&no_space), "a row in an empty database has room");
        assert!(!room.excuses(&too_large(100, 50)), "the limit is too low");
        let limit = scenario.settings.pool_bytes / 4;
        assert!(!room.excuses(&too_large(limit, limit)), "it is not above the limit");
        assert!(room.excuses(&too_large(limit + 1, limit)));
        assert!(!room.excuses(&StorageError::PoolExhausted { frame_count: 32 }));
        room.ask_files(1);
        assert!(!room.excuses(&no_space), "there is room for one file");
        room.ask_files(scenario.device_bytes / u64::from(scenario.settings.page_bytes));
        assert!(room.excuses(&no_space));
        room.begin();
        assert!(!room.excuses(&no_space));
        while room.asked_bytes < scenario.settings.log_bytes / LOG_SHARE {
            room.ask(1, 1000);
        }
        assert!(room.excuses(&no_space));
        room.begin();
        assert_eq!(room.excuses(&no_space), !room.is_left(), "the next transaction begins anew");
    }
}
