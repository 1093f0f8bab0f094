//! What can go wrong while probing, said so that the user knows what to do.

use nandu_base::Nanos;
use nandu_device::{DeviceError, Operation};
use std::fmt;

/// Trouble with a plan, a pattern, a device or an output.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ProbeError {
    /// A text cannot be understood.
    Parse {
        /// Name of the file as the caller gave it.
        file: String,
        /// Line, counted from 1.
        line: usize,
        /// What is wrong, with the remedy.
        message: String,
    },
    /// A pattern does not fit itself or the device.
    Pattern {
        /// The pattern's label.
        label: String,
        /// What is wrong, with the remedy.
        message: String,
    },
    /// The device refused or failed a request.
    Device {
        /// The pattern's label.
        label: String,
        /// What was asked.
        operation: Operation,
        /// Byte address at which the request starts.
        address: u64,
        /// Length of the request in bytes.
        byte_count: u64,
        /// When it happened, in the device's time.
        at: Nanos,
        /// The device's answer.
        error: DeviceError,
    },
    /// The observer asked to stop.
    Cancelled,
    /// The run would harm a real device and was not forced.
    Refused {
        /// Why, and how to force it.
        message: String,
    },
    /// The results do not say enough for what was asked.
    Insufficient {
        /// What is missing.
        message: String,
    },
    /// Results could not be written.
    Output {
        /// What was written.
        what: String,
        /// Why it failed.
        message: String,
    },
}

impl fmt::Display for ProbeError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Parse { file, line, message } => write!(formatter, "{file}:{line}: {message}"),
            Self::Pattern { label, message } => write!(formatter, "pattern `{label}`: {message}"),
            Self::Device { label, operation, address, byte_count, at, error } => write!(
                formatter,
                "pattern `{label}`: {} of {byte_count} bytes at byte {address} failed after {at}: \
                 {error}",
                operation.label()
            ),
            Self::Cancelled => formatter.write_str("cancelled"),
            Self::Refused { message } | Self::Insufficient { message } => {
                formatter.write_str(message)
            }
            Self::Output { what, message } => write!(formatter, "writing {what}: {message}"),
        }
    }
}

impl std::error::Error for ProbeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Device { error, .. } => Some(error),
            _ => None,
        }
    }
}
