//! What can go wrong with a document, said so that the user knows what to do.

use nandu_base::words::visible;
use nandu_storage::StorageError;
use std::fmt;
use std::io;

/// Trouble with a document, stored or on its way.
#[derive(Debug)]
#[non_exhaustive]
pub enum XmlError {
    /// The engine or the device below it.
    Storage(StorageError),
    /// The text of a document cannot be read.
    Read {
        /// What it is called.
        file: String,
        /// The system's answer.
        error: io::Error,
    },
    /// The text of a document cannot be written.
    Write {
        /// The system's answer.
        error: io::Error,
    },
    /// A text that is no XML document, or one beyond a limit.
    Input {
        /// What it is called.
        file: String,
        /// Where: line and column, from 1 on; columns are characters.
        place: Place,
        /// What is wrong there, and what can be done.
        what: String,
    },
    /// A stored document breaks a rule of its format.
    Damaged {
        /// Which document.
        document: String,
        /// Which rule, and where.
        what: String,
    },
    /// A stored document has another version of the format.
    Version {
        /// Which document.
        document: String,
        /// The version that it has.
        found: u8,
        /// The one that is read and written.
        known: u8,
    },
    /// There is no such document.
    Missing {
        /// The name that was asked for.
        document: String,
    },
    /// A choice makes no sense.
    Invalid {
        /// Which one, why, and what would do.
        what: String,
    },
    /// The observer wanted to stop.
    Cancelled,
}

/// A place in a text: the line and the column, from 1 on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// The line, from 1 on.
    pub line: u64,
    /// The character in it, from 1 on.
    pub column: u64,
}

impl fmt::Display for XmlError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => write!(formatter, "{error}"),
            Self::Read { file, error } => {
                write!(formatter, "cannot read {}: {error}", visible(file))
            }
            Self::Write { error } => write!(formatter, "cannot write the document: {error}"),
            Self::Input { file, place: Place { line, column }, what } => write!(
                formatter,
                "{}: line {line}, column {column}: {}",
                visible(file),
                visible(what)
            ),
            Self::Damaged { document, what } => {
                write!(formatter, "document {document} is damaged: {what}; restore it from a copy")
            }
            Self::Version { document, found, known } => write!(
                formatter,
                "document {document} is of version {found} of the format, and this program knows \
                 {known}; export it with the one that stored it, and import it with this one"
            ),
            Self::Missing { document } => write!(
                formatter,
                "there is no document {document}; `nandu xml import FILE DIRECTORY` makes one"
            ),
            Self::Invalid { what } => formatter.write_str(what),
            Self::Cancelled => formatter.write_str("stopped; nothing was stored"),
        }
    }
}

impl std::error::Error for XmlError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            Self::Read { error, .. } | Self::Write { error } => Some(error),
            _ => None,
        }
    }
}

impl From<StorageError> for XmlError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
