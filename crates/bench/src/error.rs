//! What ends a run of clients before its time.

use nandu_storage::StorageError;
use nandu_trace::TraceError;
use nandu_xml::XmlError;
use std::fmt;

/// Trouble of a client with its database.
#[derive(Debug)]
#[non_exhaustive]
pub enum BenchError {
    /// The engine or the device below it, or a run that makes no sense.
    Storage(StorageError),
    /// A document.
    Xml(XmlError),
    /// A trace that is recorded or replayed.
    Trace(TraceError),
}

impl BenchError {
    /// Whether others were in the way, and the same may succeed if it is done again.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Storage(error) => error.is_transient(),
            Self::Xml(_) | Self::Trace(_) => false,
        }
    }
}

impl fmt::Display for BenchError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => write!(formatter, "{error}"),
            Self::Xml(error) => write!(formatter, "{error}"),
            Self::Trace(error) => write!(formatter, "{error}"),
        }
    }
}

impl std::error::Error for BenchError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            Self::Xml(error) => Some(error),
            Self::Trace(error) => Some(error),
        }
    }
}

impl From<StorageError> for BenchError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<TraceError> for BenchError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}

impl From<XmlError> for BenchError {
    fn from(error: XmlError) -> Self {
        match error {
            XmlError::Storage(error) => Self::Storage(error),
            error => Self::Xml(error),
        }
    }
}
