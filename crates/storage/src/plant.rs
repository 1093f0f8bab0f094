//! Bugs that can be planted in the engine, so that the crash simulator shows that it would find them.
//!
//! 1. They exist in builds with the feature `plant` only. In all others `is_planted` is the constant
//!    false, and what stands behind it is not compiled.
//! 2. A bug is planted for the calling thread, as long as its [`Planted`] lives.

use crate::StorageError;
use serde::{Deserialize, Serialize};

/// Whether this build has them.
pub const IS_BUILT_IN: bool = cfg!(feature = "plant");

/// What the engine does wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineBug {
    /// A commit is acknowledged before its record is durable.
    CommitWithoutFlush,
    /// Pages are taken whatever their checksum says.
    ChecksumIgnored,
    /// Copies of the double write are not synced before the pages are written in place.
    BatchUnsynced,
    /// A lap of the double write ends without a sync of what is in place.
    LapUnsynced,
    /// Copies are not put in the place of torn pages.
    NothingPutBack,
    /// A restart overlooks the last record of the log.
    LastRecordLost,
    /// A restart does not roll the active transaction back.
    UndoSkipped,
    /// A checkpoint counts before the pages are durable.
    CheckpointWithoutSync,
    /// Pages are written before the log of their changes.
    NoWriteAheadRule,
    /// The log is written and never synced.
    LogNeverSynced,
    /// Redo makes a change again that the page has.
    RedoAgain,
    /// A checkpoint cuts off log that pages need that are still dirty.
    TailPastChanges,
    /// A checkpoint cuts off log that the active transaction needs for its rollback.
    TailPastTransaction,
    /// After a sync that failed the next one is taken at its word.
    FailedSyncRetried,
    /// The log's control block is not synced by itself.
    ControlBlockUnsynced,
    /// A checkpoint syncs one file of pages and takes the others for durable.
    OneFileSynced,
    /// A restart takes for durable what it finds.
    FoundUnsynced,
    /// Serializable transactions read rows without locking them.
    ReadsUnlocked,
    /// They lock rows that they find, and not the ranges in which they looked for them.
    RangesUnlocked,
    /// A transaction of level snapshot overwrites what changed since it began.
    ConflictOverlooked,
    /// A snapshot shows rows of transactions that have not ended.
    OpenRowsShown,
    /// A snapshot shows pages as they are now.
    NewerPagesShown,
    /// A commit gives its locks back before its record is in the log.
    LocksReturnedEarly,
    /// A restart rolls one transaction back, whatever others were under way.
    OneLoserUndone,
    /// What changes while a copy of its page is being written counts as written.
    FlightChangesForgotten,
    /// A restart goes on behind a record of the log that did not arrive.
    HolesPassedOver,
}

impl EngineBug {
    /// All bugs that can be planted.
    pub const ALL: [Self; 26] = [
        Self::CommitWithoutFlush,
        Self::ChecksumIgnored,
        Self::BatchUnsynced,
        Self::LapUnsynced,
        Self::NothingPutBack,
        Self::LastRecordLost,
        Self::UndoSkipped,
        Self::CheckpointWithoutSync,
        Self::NoWriteAheadRule,
        Self::LogNeverSynced,
        Self::RedoAgain,
        Self::TailPastChanges,
        Self::TailPastTransaction,
        Self::FailedSyncRetried,
        Self::ControlBlockUnsynced,
        Self::OneFileSynced,
        Self::FoundUnsynced,
        Self::ReadsUnlocked,
        Self::RangesUnlocked,
        Self::ConflictOverlooked,
        Self::OpenRowsShown,
        Self::NewerPagesShown,
        Self::LocksReturnedEarly,
        Self::OneLoserUndone,
        Self::FlightChangesForgotten,
        Self::HolesPassedOver,
    ];

    /// Its name on the command line.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::CommitWithoutFlush => "commit-without-flush",
            Self::ChecksumIgnored => "checksum-ignored",
            Self::BatchUnsynced => "batch-unsynced",
            Self::LapUnsynced => "lap-unsynced",
            Self::NothingPutBack => "nothing-put-back",
            Self::LastRecordLost => "last-record-lost",
            Self::UndoSkipped => "undo-skipped",
            Self::CheckpointWithoutSync => "checkpoint-without-sync",
            Self::NoWriteAheadRule => "no-write-ahead-rule",
            Self::LogNeverSynced => "log-never-synced",
            Self::RedoAgain => "redo-again",
            Self::TailPastChanges => "tail-past-changes",
            Self::TailPastTransaction => "tail-past-transaction",
            Self::FailedSyncRetried => "failed-sync-retried",
            Self::ControlBlockUnsynced => "control-block-unsynced",
            Self::OneFileSynced => "one-file-synced",
            Self::FoundUnsynced => "found-unsynced",
            Self::ReadsUnlocked => "reads-unlocked",
            Self::RangesUnlocked => "ranges-unlocked",
            Self::ConflictOverlooked => "conflict-overlooked",
            Self::OpenRowsShown => "open-rows-shown",
            Self::NewerPagesShown => "newer-pages-shown",
            Self::LocksReturnedEarly => "locks-returned-early",
            Self::OneLoserUndone => "one-loser-undone",
            Self::FlightChangesForgotten => "flight-changes-forgotten",
            Self::HolesPassedOver => "holes-passed-over",
        }
    }

    /// Whether only transactions side by side can meet it.
    #[must_use]
    pub const fn is_of_many(self) -> bool {
        matches!(
            self,
            Self::ReadsUnlocked
                | Self::RangesUnlocked
                | Self::ConflictOverlooked
                | Self::OpenRowsShown
                | Self::NewerPagesShown
                | Self::LocksReturnedEarly
                | Self::OneLoserUndone
                | Self::FlightChangesForgotten
        )
    }
}

/// As long as it lives, the bug is there.
#[derive(Debug)]
pub struct Planted(());

impl Planted {
    /// Plants a bug for the calling thread.
    ///
    /// # Errors
    /// If this build has none.
    pub fn new(bug: EngineBug) -> Result<Self, StorageError> {
        if !IS_BUILT_IN {
            let label = bug.label();
            let what = format!("{label} is in builds with the feature plant only: build one");
            return Err(StorageError::InvalidSetting { what });
        }
        set(Some(bug));
        Ok(Self(()))
    }
}

impl Drop for Planted {
    fn drop(&mut self) {
        set(None);
    }
}

#[cfg(feature = "plant")]
thread_local! {
    static BUG: std::cell::Cell<Option<EngineBug>> = const { std::cell::Cell::new(None) };
}

#[cfg(feature = "plant")]
fn set(bug: Option<EngineBug>) {
    BUG.set(bug);
}

#[cfg(not(feature = "plant"))]
const fn set(_bug: Option<EngineBug>) {}

/// Whether the engine is to do this wrong.
#[cfg(feature = "plant")]
pub(crate) fn is_planted(bug: EngineBug) -> bool {
    BUG.get() == Some(bug)
}

/// Without the feature no bug is planted, and this is no code.
#[cfg(not(feature = "plant"))]
#[inline(always)]
pub(crate) const fn is_planted(_bug: EngineBug) -> bool {
    false
}
