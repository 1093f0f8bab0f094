//! What can go wrong in the engine, said so that the user knows what to do.

use crate::PageAddress;
use nandu_device::DeviceError;
use std::fmt;

/// Trouble with a database or the device below it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StorageError {
    /// The device refused or failed.
    Device {
        /// What was tried, with the file's name and the offset or page.
        what: String,
        /// The device's answer.
        error: DeviceError,
    },
    /// A page's bytes do not belong to its checksum or address.
    ChecksumMismatch {
        /// The file's name.
        file: String,
        /// The page's file and number.
        address: PageAddress,
    },
    /// Stored bytes break a rule of their format.
    Corrupt {
        /// Where: a file's name, with the page or offset.
        place: String,
        /// The rule that is broken, and by what.
        what: String,
    },
    /// What another version of this program wrote, with something in it that this one does not know.
    OtherVersion {
        /// Which file.
        place: String,
        /// What is not known.
        what: String,
    },
    /// A file of another program, or of another version of this one.
    NotADatabase {
        /// Which file or device.
        place: String,
        /// What the file begins with instead.
        what: String,
    },
    /// No room is left on the device, or in the log.
    NoSpace {
        /// What needed room, and what can be done.
        what: String,
    },
    /// More pages are pinned, or a larger grant is asked for, than the pool has frames.
    PoolExhausted {
        /// Frames of the pool.
        frame_count: u32,
    },
    /// A key, row or name is larger than its structure can hold.
    TooLarge {
        /// Whether it is a key, a row or a name, and which.
        what: String,
        /// The bytes that it has.
        found_bytes: u64,
        /// The most bytes that there may be.
        limit_bytes: u64,
    },
    /// Nothing has this name.
    NotFound {
        /// What was looked for.
        what: String,
    },
    /// Something has this name or key already.
    Exists {
        /// What has the name or the key.
        what: String,
    },
    /// Another process has the database open.
    Locked {
        /// The database's directory or device.
        place: String,
        /// The process that holds it, where that is known.
        holder: Option<u32>,
    },
    /// The media or the opening mode forbid writing.
    ReadOnly {
        /// Which file or database.
        place: String,
    },
    /// It was not closed, and bringing it to its last commit needs to write, which is not allowed.
    NeedsRestart {
        /// The database's directory or device.
        place: String,
    },
    /// It is a copy, file by file, of a database that was open then, so its files may be of different moments.
    OfManyMoments {
        /// The database's directory.
        place: String,
    },
    /// Another transaction committed a change to a row, or to its table, after this one had begun to look
    /// (isolation `snapshot`). Roll back and do it again.
    Conflict {
        /// Which row of what, or which table.
        what: String,
    },
    /// Transactions waited for each other in a circle, and this one was chosen to go. Roll back and do
    /// it again.
    Deadlock {
        /// Which row this one waited for.
        what: String,
    },
    /// Another transaction held a row for longer than `lock_timeout_ns`. Roll back and do it again, or
    /// let it wait longer.
    LockTimeout {
        /// Which row this one waited for.
        what: String,
    },
    /// A snapshot needs versions of pages that are not kept any more. Take a new one, or give the
    /// database more memory for them.
    SnapshotTooOld {
        /// What it needed.
        what: String,
    },
    /// A setting makes no sense.
    InvalidSetting {
        /// Which one, why, and what would do.
        what: String,
    },
    /// An earlier failure left the state in memory behind that on the device: reopen.
    Poisoned {
        /// The earlier failure.
        cause: String,
    },
}

/// The answer of what may wait where there is no room for it: a file that goes at a later opening, a
/// checkpoint.
pub(crate) fn unless_full(answer: Result<(), StorageError>) -> Result<(), StorageError> {
    match answer {
        Err(StorageError::NoSpace { .. }) => Ok(()),
        answer => answer,
    }
}

impl StorageError {
    /// Checks that a file goes on to `last`, its last page, if it is known how many pages are there:
    /// what is read past the end of a file is zeros, as if nobody had ever written it.
    ///
    /// # Errors
    /// [`Self::Corrupt`] if it does not.
    pub(crate) fn check_length(last: PageAddress, there: Option<u64>) -> Result<(), Self> {
        let Some(there) = there.filter(|&there| there < u64::from(last.page)) else {
            return Ok(());
        };
        let what = format!("the file was cut off behind page {there}; restore it from a copy");
        Err(Self::Corrupt { place: last.to_string(), what })
    }

    /// Whether the same transaction may succeed if it is rolled back and run again: others were in its way.
    #[must_use]
    pub const fn is_transient(&self) -> bool {
        matches!(self, Self::Conflict { .. } | Self::Deadlock { .. } | Self::LockTimeout { .. })
    }

    /// Whether it speaks of bytes that are wrong or cannot be read, so that others may still be sound;
    /// else it is the device or the engine that does not answer.
    #[must_use]
    pub const fn is_damage(&self) -> bool {
        use DeviceError::{Media, OutOfRange};
        matches!(
            self,
            Self::ChecksumMismatch { .. }
                | Self::Corrupt { .. }
                | Self::NotADatabase { .. }
                | Self::Device { error: Media { .. } | OutOfRange { .. }, .. }
        )
    }
}

impl fmt::Display for StorageError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Device { what, error } => write!(formatter, "{what}: {error}"),
            Self::ChecksumMismatch { file, address } => write!(
                formatter,
                "page {} of {file} does not match its checksum; restore it from a copy",
                address.page
            ),
            Self::Corrupt { place, what } => write!(formatter, "{place} is corrupt: {what}"),
            Self::OtherVersion { place, what } => write!(
                formatter,
                "{place} was written by another version of nandu: {what}; open it with that"
            ),
            Self::NotADatabase { place, what } => {
                write!(formatter, "{place} is not a nandu database: {what}")
            }
            Self::NoSpace { what } => write!(formatter, "no space is left: {what}"),
            Self::PoolExhausted { frame_count } => write!(
                formatter,
                "all {frame_count} frames of the buffer pool are in use; give it more memory"
            ),
            Self::TooLarge { what, found_bytes, limit_bytes } => {
                write!(formatter, "{what} has {found_bytes} bytes, more than {limit_bytes}")
            }
            Self::NotFound { what } => write!(formatter, "there is no {what}"),
            Self::Exists { what } => write!(formatter, "{what} exists already"),
            Self::Locked { place, holder: Some(process) } => {
                write!(formatter, "{place} is open in process {process}")
            }
            Self::Locked { place, holder: None } => {
                write!(formatter, "{place} is open in another process")
            }
            Self::ReadOnly { place } => write!(
                formatter,
                "{place} is read-only; make it writable (its permissions, its file system, or how it was \
                 opened), or name another place"
            ),
            Self::NeedsRestart { place } => write!(
                formatter,
                "{place} was not closed; open and close it once where it can be written"
            ),
            Self::OfManyMoments { place } => write!(
                formatter,
                "{place} was copied while it was open, so its files may be of different moments; copy it while \
                 it is closed, or back it up (`nandu db backup`); if nobody wrote while it was copied, as \
                 after a crash, remove nandu.lock in it"
            ),
            Self::Conflict { what } => write!(
                formatter,
                "{what} was changed by a transaction that committed meanwhile; roll back and try again"
            ),
            Self::Deadlock { what } => write!(
                formatter,
                "waiting for {what} would never end, since others wait for this transaction; roll back \
                 and try again"
            ),
            Self::LockTimeout { what } => write!(
                formatter,
                "{what} is locked by another transaction for longer than lock_timeout_ns; roll back and \
                 try again"
            ),
            Self::SnapshotTooOld { what } => write!(
                formatter,
                "the snapshot is too old: {what}; take a new one, or raise version_bytes"
            ),
            Self::InvalidSetting { what } => formatter.write_str(what),
            Self::Poisoned { cause } => {
                write!(formatter, "an earlier failure stopped the database, reopen it: {cause}")
            }
        }
    }
}

impl std::error::Error for StorageError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device { error, .. } => Some(error),
            _ => None,
        }
    }
}
