//! What can go wrong with a device, said so that the user knows what to do.

use nandu_base::Nanos;
use std::fmt;

/// Trouble with a device or a request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DeviceError {
    /// The request passes the end of the device.
    OutOfRange {
        /// Where it starts.
        first_sector: u64,
        /// How long it is.
        sector_count: u32,
        /// How long the device is.
        device_sector_count: u64,
    },
    /// The request covers no sectors.
    EmptyRequest,
    /// Too many requests are in flight.
    QueueFull {
        /// The most that may be.
        queue_depth_max: u32,
    },
    /// The device needs a buffer and got none.
    BufferMissing,
    /// The buffer is not as long as the sectors.
    BufferLength {
        /// Bytes of the sectors.
        expected: u64,
        /// Bytes of the buffer.
        found: u64,
    },
    /// The buffer or an address does not lie on the boundary that direct I/O needs.
    Misaligned {
        /// The boundary in bytes.
        alignment: u32,
    },
    /// The device cannot do what was asked.
    Unsupported {
        /// What was asked.
        what: String,
    },
    /// The addressable space makes no sense.
    InvalidGeometry {
        /// Why it makes no sense, and what would do.
        what: String,
    },
    /// Writes are refused: read-only media, or worn out.
    ReadOnly,
    /// No room left: a full file system, or flash without a free erase block.
    NoSpace,
    /// The medium failed at some sectors.
    Media {
        /// The first of them.
        first_sector: u64,
        /// What the medium answered, in words.
        what: String,
    },
    /// The power is off.
    PowerLost,
    /// The device took a request and did not answer.
    NoAnswer {
        /// How long was waited.
        within: Nanos,
    },
    /// The operating system refused.
    System {
        /// What was tried, with the path.
        what: String,
        /// The error number, as in errno.
        code: i32,
        /// The system's words.
        message: String,
    },
    /// A translation layer or chip broke one of its own rules: our mistake, not the user's.
    Internal {
        /// The rule that was broken, in words.
        what: String,
    },
}

impl fmt::Display for DeviceError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OutOfRange { first_sector, sector_count, device_sector_count } => write!(
                formatter,
                "sectors {first_sector} to {} pass the end of the device, which has \
                 {device_sector_count}",
                first_sector.saturating_add(u64::from(*sector_count))
            ),
            Self::EmptyRequest => formatter.write_str("the request covers no sectors"),
            Self::QueueFull { queue_depth_max } => {
                write!(formatter, "the queue is full at {queue_depth_max} requests")
            }
            Self::BufferMissing => formatter.write_str("this device needs a buffer"),
            Self::BufferLength { expected, found } => {
                write!(formatter, "the buffer has {found} bytes, the sectors have {expected}")
            }
            Self::Misaligned { alignment } => {
                write!(formatter, "direct I/O needs multiples of {alignment} bytes")
            }
            Self::Unsupported { what } => write!(formatter, "{what} is not supported here"),
            Self::InvalidGeometry { what } => write!(formatter, "invalid geometry: {what}"),
            Self::ReadOnly => formatter.write_str("the device is read-only"),
            Self::NoSpace => formatter.write_str("no space is left"),
            Self::Media { first_sector, what } => {
                write!(formatter, "medium failed at sector {first_sector}: {what}")
            }
            Self::PowerLost => formatter.write_str("the power is off"),
            Self::NoAnswer { within } => write!(formatter, "no answer within {within}"),
            Self::System { what, message, .. } => write!(formatter, "{what}: {message}"),
            Self::Internal { what } => write!(formatter, "internal rule broken: {what}"),
        }
    }
}

impl std::error::Error for DeviceError {}
