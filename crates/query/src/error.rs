//! What can go wrong in a query, said so that the user knows what to do.

use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_storage::StorageError;
use std::fmt;

/// Trouble with a query.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum QueryError {
    /// The engine or the device below failed.
    Storage(StorageError),
    /// The memory granted is too little for this operator.
    TooLittleMemory {
        /// The operator's name.
        operator: String,
        /// Pages that it needs at least.
        needed_pages: u64,
        /// Pages that it was given.
        granted_pages: u64,
    },
    /// The operator would write more than the execution may.
    WriteBudget {
        /// The operator's name.
        operator: String,
        /// Bytes that the execution may write.
        budget_bytes: u64,
    },
    /// The user asked to stop.
    Cancelled,
    /// What was asked makes no sense; says why, and what would do.
    Invalid {
        /// Why it makes no sense, and what would do.
        what: String,
    },
}

impl fmt::Display for QueryError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Storage(error) => error.fmt(formatter),
            Self::TooLittleMemory { operator, needed_pages, granted_pages } => write!(
                formatter,
                "{operator} needs {} of memory and was given {granted_pages}",
                counted(*needed_pages, "page")
            ),
            Self::WriteBudget { operator, budget_bytes } => write!(
                formatter,
                "{operator} would write more temporary data than its write budget of {}; give it \
                 more memory, or take block nested loops, which write nothing",
                ByteCount(*budget_bytes)
            ),
            Self::Cancelled => formatter.write_str("stopped on request"),
            Self::Invalid { what } => formatter.write_str(what),
        }
    }
}

impl std::error::Error for QueryError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Storage(error) => Some(error),
            _ => None,
        }
    }
}

impl From<StorageError> for QueryError {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}
