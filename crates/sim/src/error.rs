//! What can go wrong in a simulation: each error says place and remedy.

use nandu_base::Nanos;
use nandu_device::DeviceError;
use nandu_drives::profile::ProfileError;
use nandu_ftl::FtlError;
use nandu_trace::TraceError;
use std::fmt;

/// Why a simulation does not start or does not end.
#[derive(Debug)]
#[non_exhaustive]
pub enum SimError {
    /// The drive's profile.
    Profile(ProfileError),
    /// A setting of the user; the text says which and what is valid.
    Setting(String),
    /// The parts do not make a drive.
    Drive {
        /// The drive's name.
        name: String,
        /// Why the parts do not fit together.
        error: DeviceError,
    },
    /// Preparing the drive failed.
    Preparation(FtlError),
    /// The source of requests.
    Trace(TraceError),
    /// A request past the end of the drive.
    OutOfRange {
        /// Its number, from 1.
        request: u64,
        /// Where it starts.
        offset_bytes: u64,
        /// How long it is.
        length_bytes: u64,
        /// What the drive has.
        capacity_bytes: u64,
    },
    /// The translation layer refused a request.
    Layer {
        /// Its number, from 1.
        request: u64,
        /// When it was issued.
        at: Nanos,
        /// The layer's answer.
        error: FtlError,
    },
    /// Virtual time ends before the request ([`Nanos::HORIZON`]).
    TooLate {
        /// Its number, from 1, or that of one at most a batch behind it.
        request: u64,
    },
    /// A conservation check found the layer or the array at fault.
    Check(String),
    /// Stopped by the observer.
    Cancelled,
}

impl fmt::Display for SimError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Profile(error) => write!(formatter, "{error}"),
            Self::Setting(text) => formatter.write_str(text),
            Self::Drive { name, error } => write!(formatter, "{name}: {error}"),
            Self::Preparation(error) => write!(formatter, "preparing the drive: {error}"),
            Self::Trace(error) => write!(formatter, "{error}"),
            Self::OutOfRange { request, offset_bytes, length_bytes, capacity_bytes } => write!(
                formatter,
                "request {request}: {length_bytes} bytes at {offset_bytes} end past the drive of \
                 {capacity_bytes} bytes; enlarge the drive or remap the addresses"
            ),
            Self::Layer { request, at, error } => {
                write!(formatter, "request {request} at {at}: {error}")
            }
            Self::TooLate { request } => write!(
                formatter,
                "virtual time ends, 292 years after its start, before request {request} is done; does \
                 the trace jump, or have its times another unit? take --arrivals closed or --columns; \
                 let a workload think less"
            ),
            Self::Check(text) => write!(formatter, "conservation check failed: {text}"),
            Self::Cancelled => formatter.write_str("stopped"),
        }
    }
}

impl std::error::Error for SimError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Profile(error) => Some(error),
            Self::Drive { error, .. } => Some(error),
            Self::Preparation(error) | Self::Layer { error, .. } => Some(error),
            Self::Trace(error) => Some(error),
            _ => None,
        }
    }
}

impl From<ProfileError> for SimError {
    fn from(error: ProfileError) -> Self {
        Self::Profile(error)
    }
}

impl From<TraceError> for SimError {
    fn from(error: TraceError) -> Self {
        Self::Trace(error)
    }
}
