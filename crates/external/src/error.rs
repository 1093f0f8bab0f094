//! What can go wrong beyond memory, said so that the user knows what to do.

use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_storage::StorageError;
use std::fmt;

/// Trouble with what lies beyond memory.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ExternalError {
    /// The volume or the device below failed, has no room left, or gave back other bytes.
    Storage(StorageError),
    /// The memory granted is too little for this operator.
    TooLittleMemory {
        /// The operator's name.
        operator: String,
        /// Bytes that it needs at least.
        needed_bytes: u64,
        /// Bytes that it was given, or that are left of the grant.
        granted_bytes: u64,
    },
    /// There is no element of this number.
    OutOfRange {
        /// Of what.
        what: String,
        /// The number that was asked for, from 0.
        index: u64,
        /// How many there are.
        count: u64,
    },
    /// The system does not give a file of the user's to read.
    File {
        /// Its name as the caller gave it.
        file: String,
        /// What the system said.
        message: String,
    },
    /// The user asked to stop.
    Cancelled,
    /// What was given or asked makes no sense; says why, where, and what would do.
    Invalid {
        /// Why it makes no sense, where, and what would do.
        what: String,
    },
}

impl fmt::Display for ExternalError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(formatter),
            Self::TooLittleMemory { operator, needed_bytes, granted_bytes } => write!(
                formatter,
                "{operator} needs {} of memory and was given {}; give it more, make blocks smaller, \
                 or have fewer in flight",
                ByteCount(*needed_bytes),
                ByteCount(*granted_bytes)
            ),
            Self::OutOfRange { what, index, count } => {
                write!(
                    formatter,
                    "{what} has {}, none is number {index}",
                    counted(*count, "element")
                )
            }
            Self::File { file, message } => write!(formatter, "{file} cannot be read: {message}"),
            Self::Cancelled => formatter.write_str("stopped on request"),
            Self::Invalid { what } => formatter.write_str(what),
        }
    }
}

impl std::error::Error for ExternalError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            _ => None,
        }
    }
}

impl ExternalError {
    /// The same of work that was given `bytes`, of which this is a part, and the rest takes `rest_bytes`.
    pub(crate) fn beside(self, work: &str, rest_bytes: u64, bytes: u64) -> Self {
        let Self::TooLittleMemory { operator, needed_bytes, .. } = self else { return self };
        Self::TooLittleMemory {
            operator: format!("{work}, of which {operator} is a part,"),
            needed_bytes: rest_bytes.saturating_add(needed_bytes),
            granted_bytes: bytes,
        }
    }
}

impl From<StorageError> for ExternalError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

/// The first failure of a structure, after which it refuses all: what it holds would have a gap.
#[derive(Debug, Default)]
pub(crate) struct Failure {
    first: Option<ExternalError>,
}

impl Failure {
    /// Refuses if there was a failure.
    pub(crate) fn check(&self) -> Result<(), ExternalError> {
        self.first.clone().map_or(Ok(()), Err)
    }

    /// Keeps the error of `result`, if it is one.
    pub(crate) fn note<T>(&mut self, result: Result<T, ExternalError>) -> Result<T, ExternalError> {
        if let Err(error) = &result {
            self.first = Some(error.clone());
        }
        result
    }
}

/// The error of who is called back by work that knows no such errors: it ends the work, and comes out of
/// it. So what is called back may be anything, and the work is compiled once.
#[derive(Debug)]
pub(crate) struct Caught<E>(Option<E>);

impl<E> Default for Caught<E> {
    fn default() -> Self {
        Self(None)
    }
}

impl<E: From<ExternalError>> Caught<E> {
    /// What the work is told of what was called back.
    pub(crate) fn note(&mut self, outcome: Result<(), E>) -> Result<(), ExternalError> {
        outcome.map_err(|error| {
            self.0 = Some(error);
            ExternalError::Cancelled
        })
    }

    /// What came out of the work, or of what was called back, if that failed.
    pub(crate) fn out<T>(self, outcome: Result<T, ExternalError>) -> Result<T, E> {
        match self.0 {
            Some(error) => Err(error),
            None => outcome.map_err(E::from),
        }
    }
}
