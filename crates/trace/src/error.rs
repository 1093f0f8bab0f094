//! What can go wrong with traces and workloads, said so that the user knows what to do.

use std::fmt;

/// Trouble with a trace, a workload or an option.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceError {
    /// A file cannot be opened, read or written.
    File {
        /// Its name as the caller gave it.
        file: String,
        /// What the system said, with the remedy.
        message: String,
    },
    /// A line, or the compressed data at it, cannot be understood.
    Line {
        /// Name of the file as the caller gave it.
        file: String,
        /// Line, counted from 1; of a compact trace the chunk.
        line: u64,
        /// What was expected and what was found.
        message: String,
    },
    /// Bytes of a binary trace make no sense.
    Byte {
        /// Name of the file as the caller gave it.
        file: String,
        /// Where they begin, counted from 0, of the content as it is unpacked.
        at_byte: u64,
        /// What was expected and what was found.
        message: String,
    },
    /// The content fits no format.
    UnknownFormat {
        /// Name of the file as the caller gave it.
        file: String,
        /// What was tried, with the remedy.
        message: String,
    },
    /// A workload's text cannot be understood, or the workload does not fit the drive.
    Workload {
        /// The workload's text as it was given.
        text: String,
        /// What is wrong, with the remedy.
        message: String,
    },
    /// An option makes no sense.
    Option {
        /// What is wrong, with the remedy.
        message: String,
    },
}

impl fmt::Display for TraceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File { file, message } | Self::UnknownFormat { file, message } => {
                write!(formatter, "{file}: {message}")
            }
            Self::Line { file, line, message } => write!(formatter, "{file}:{line}: {message}"),
            Self::Byte { file, at_byte, message } => {
                write!(formatter, "{file}: byte {at_byte}: {message}")
            }
            Self::Workload { text, message } => write!(formatter, "workload `{text}`: {message}"),
            Self::Option { message } => formatter.write_str(message),
        }
    }
}

impl std::error::Error for TraceError {}
