//! What can go wrong before a file or block device is open: each error says path, cause, remedy.
//!
//! 1. An error leaves nothing behind: no scratch file, no byte written.

use super::QUEUE_DEPTH_MAX;
use nandu_base::ByteCount;
use nandu_device::DeviceError;
use std::fmt;
use std::path::{Path, PathBuf};

/// Trouble with opening, making or filling a real file or block device.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FileError {
    /// Nothing exists at the path.
    Missing {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// A directory stands where a file or device is needed, or the reverse.
    WrongKind {
        /// As the user wrote it.
        path: PathBuf,
        /// What it is: `a directory`, `a character device`.
        found: &'static str,
        /// What would do.
        wanted: &'static str,
    },
    /// The permissions forbid it.
    Denied {
        /// As the user wrote it.
        path: PathBuf,
        /// What was tried: `write to it`, `create a scratch file in it`.
        what: &'static str,
    },
    /// The file, its file system or the device takes no writes.
    ReadOnly {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// Writing would overwrite what the user has there.
    WouldDestroyData {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// A block device that somebody uses.
    InUse {
        /// As the user wrote it.
        path: PathBuf,
        /// By whom: `mounted at /home`, `swap`.
        by: String,
    },
    /// The scratch file would eat into the reserve.
    NoRoom {
        /// The directory in which the file was to be made.
        path: PathBuf,
        /// What the scratch file needs.
        needed: ByteCount,
        /// What is free.
        free: ByteCount,
        /// What must stay free.
        reserve: ByteCount,
    },
    /// Less than one sector.
    Empty {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// The file system does not do O_DIRECT.
    DirectRefused {
        /// As the user wrote it.
        path: PathBuf,
    },
    /// The sector size asked for is not one that direct I/O takes here.
    SectorSize {
        /// As the user wrote it.
        path: PathBuf,
        /// What was asked for.
        asked_bytes: u32,
        /// The smallest that works.
        needed_bytes: u32,
    },
    /// So many requests in flight are not to be had.
    QueueDepth {
        /// What was asked for.
        asked: u32,
    },
    /// io_uring was demanded, and the kernel refuses it.
    NoIoUring {
        /// The kernel's words.
        message: String,
    },
    /// The user stopped it.
    Cancelled,
    /// A request failed while the file was being filled.
    Device {
        /// As the user wrote it.
        path: PathBuf,
        /// The device's answer.
        error: DeviceError,
    },
    /// The operating system refused in another way.
    System {
        /// As the user wrote it.
        path: PathBuf,
        /// What was tried.
        what: &'static str,
        /// The error number, as in errno.
        code: i32,
        /// The system's words.
        message: String,
    },
}

impl FileError {
    /// The error for what the system answered to `what` on `path`.
    #[must_use]
    pub fn of_system(path: &Path, what: &'static str, error: &std::io::Error) -> Self {
        let path = path.to_path_buf();
        match error.raw_os_error() {
            Some(libc::ENOENT) => Self::Missing { path },
            Some(libc::EACCES | libc::EPERM) => Self::Denied { path, what },
            Some(libc::EROFS) => Self::ReadOnly { path },
            Some(libc::EBUSY) => Self::InUse { path, by: "another user of the device".into() },
            code => {
                let message = error.to_string();
                Self::System { path, what, code: code.unwrap_or(0), message }
            }
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing { path } => {
                write!(formatter, "{}: does not exist; check the spelling", path.display())
            }
            Self::WrongKind { path, found, wanted } => {
                write!(formatter, "{}: is {found}; name {wanted}", path.display())
            }
            Self::Denied { path, what } => write!(
                formatter,
                "{}: no permission to {what}; change its permissions or name another place",
                path.display()
            ),
            Self::ReadOnly { path } => write!(
                formatter,
                "{}: is read-only; make it writable or name another place",
                path.display()
            ),
            Self::WouldDestroyData { path } => write!(
                formatter,
                "{}: would be overwritten; name a directory for a scratch file, or pass \
                 --destroy-data if its content may be lost",
                path.display()
            ),
            Self::InUse { path, by } => write!(
                formatter,
                "{}: is in use ({by}) and stays untouched; unmount or detach it first",
                path.display()
            ),
            Self::NoRoom { path, needed, free, reserve } => {
                let remedy = remedy_of_no_room(*free, *reserve);
                write!(
                    formatter,
                    "{}: a scratch file of {needed} does not fit, {free} are free and {reserve} stay \
                     in reserve; {remedy}",
                    path.display()
                )
            }
            Self::Empty { path } => write!(
                formatter,
                "{}: is shorter than one sector; name a larger file or a directory",
                path.display()
            ),
            Self::DirectRefused { path } => write!(
                formatter,
                "{}: its file system refuses O_DIRECT; name another place, or go through the page \
                 cache knowing that it then decides the numbers",
                path.display()
            ),
            Self::SectorSize { path, asked_bytes, needed_bytes } => write!(
                formatter,
                "{}: sectors of {asked_bytes} bytes are too small for direct I/O; use \
                 {needed_bytes}",
                path.display()
            ),
            Self::QueueDepth { asked } => {
                write!(formatter, "queue_depth {asked} is not from 1 to {QUEUE_DEPTH_MAX}")
            }
            Self::NoIoUring { message } => write!(
                formatter,
                "io_uring is not to be had ({message}); allow it (kernel.io_uring_disabled, \
                 seccomp) or choose psync"
            ),
            Self::Cancelled => formatter.write_str("stopped by the user"),
            Self::Device { path, error } => write!(formatter, "{}: {error}", path.display()),
            Self::System { path, what, message, .. } => {
                write!(formatter, "{}: cannot {what}: {message}", path.display())
            }
        }
    }
}

const fn remedy_of_no_room(free: ByteCount, reserve: ByteCount) -> &'static str {
    match free.0 > reserve.0 {
        true => "pass a smaller --size or name another directory",
        false => "free some or name another directory",
    }
}

impl std::error::Error for FileError {}
