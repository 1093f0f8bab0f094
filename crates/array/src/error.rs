//! What can go wrong with an array, said so that the user knows what to do.

use std::fmt;

/// Trouble with an array.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ArrayError {
    /// The counts of a layout do not fit each other.
    Layout {
        /// Members of the array.
        member_count: u8,
        /// Fragments that give back a block.
        needed_count: u8,
        /// Fragments that are written.
        written_count: u8,
    },
    /// A value of a configuration is out of range.
    Value {
        /// Which setting is out of range.
        name: &'static str,
        /// The values that it may have.
        what: String,
    },
}

impl fmt::Display for ArrayError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Layout { member_count, needed_count, written_count } => write!(
                formatter,
                "no layout needs {needed_count} of {written_count} fragments on {member_count} \
                 members; choose 1 <= needed <= written <= members <= {}",
                crate::MEMBER_COUNT_MAX
            ),
            Self::Value { name, what } => write!(formatter, "`{name}` {what}"),
        }
    }
}

impl std::error::Error for ArrayError {}
