//! What can go wrong with a load, said so that the user knows what to do.

use nandu_base::words::visible;
use nandu_storage::StorageError;
use std::fmt;

/// Trouble with a load. Nothing of it is in the database then.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The engine or the device below it.
    Storage(StorageError),
    /// A file that cannot be read.
    File {
        /// The file's name as the user gave it.
        file: String,
        /// The system's answer.
        error: std::io::Error,
    },
    /// A file that cannot be written.
    Write {
        /// The file's name as the user gave it.
        file: String,
        /// The system's answer.
        error: std::io::Error,
    },
    /// A file says something that cannot be loaded.
    Input {
        /// The file, with the line or row and the column where they are known.
        place: String,
        /// What is wrong, and what can be done.
        what: String,
    },
    /// A choice makes no sense.
    Invalid {
        /// Which one, why, and what would do.
        what: String,
    },
    /// The observer wanted to stop.
    Cancelled,
}

impl LoadError {
    pub(crate) fn input(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self::Input { place: place.into(), what: what.into() }
    }

    pub(crate) fn invalid(what: impl Into<String>) -> Self {
        Self::Invalid { what: what.into() }
    }
}

impl fmt::Display for LoadError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => write!(formatter, "{error}"),
            Self::File { file, error } => {
                write!(formatter, "cannot read {}: {error}", visible(file))
            }
            Self::Write { file, error } => {
                write!(formatter, "cannot write {}: {error}", visible(file))
            }
            Self::Input { place, what } => write!(formatter, "{}: {what}", visible(place)),
            Self::Invalid { what } => formatter.write_str(what),
            Self::Cancelled => formatter.write_str("stopped; nothing was stored"),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            Self::File { error, .. } | Self::Write { error, .. } => Some(error),
            _ => None,
        }
    }
}

impl From<StorageError> for LoadError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
