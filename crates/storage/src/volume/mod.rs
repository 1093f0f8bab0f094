//! Named files on whatever keeps the device contract: one device cut into extents, or a directory of
//! a file system. The engine addresses bytes of files; where they lie is the volume's business.
//!
//! ```text
//!   submit(file, now, request) ──► in flight ──► next_completion(until) ──► Completion
//! ```
//!
//! 1. The rules of `nandu_device::contract` hold for each request, with offsets in bytes of the file
//!    instead of sectors; offsets and lengths are multiples of [`Volume::sector_bytes`].
//! 2. A file is as long as the furthest write, or as [`Volume::set_byte_count`] said. Bytes never
//!    written read as zeros, past the end too.
//! 3. After [`Volume::sync`] of a file its bytes, its length and its existence survive a power cut.
//!    What was created, removed, written or cut since then may or may not be there, but a file whose
//!    existence was synced never loses bytes to another.
//! 4. File numbers are never used again for another name.

use crate::{FileId, StorageError};
use nandu_base::Nanos;
use nandu_device::{Completion, Counters, IoBuffer, Operation, TimeSource};
use std::sync::Arc;

pub mod device_volume;
mod guarded;
pub mod io;
pub mod testing;

pub use device_volume::DeviceVolume;
pub use io::{Io, IoOwner, SharedIo};

/// The longest name of a file, in bytes.
pub const FILE_NAME_BYTES_MAX: usize = 200;

/// What is asked of a file.
#[derive(Debug)]
pub struct FileRequest {
    /// Chosen by the caller, returned in the completion.
    pub id: u64,
    /// Read, write or trim; [`Operation::Flush`] makes completed writes of this file durable.
    pub operation: Operation,
    /// Where it starts.
    pub offset_bytes: u64,
    /// How long it is; the buffer's length where there is one.
    pub length_bytes: u64,
    /// The data of a read or write.
    pub buffer: Option<IoBuffer>,
}

/// Files on one or more devices.
pub trait Volume: Send {
    /// As the user wrote it: a directory, `sim:NAME`.
    fn name(&self) -> &str;

    /// The unit of addressing.
    fn sector_bytes(&self) -> u32;

    /// The alignment in memory that buffers need.
    fn buffer_alignment(&self) -> u32;

    /// Most requests in flight.
    fn queue_depth_max(&self) -> u32;

    /// Who tells the time.
    fn time_source(&self) -> TimeSource;

    /// Whether completed writes may be lost in a power cut unless flushed.
    fn volatile_cache(&self) -> bool;

    /// The present.
    fn now(&self) -> Nanos;

    /// All files, in the order of their numbers.
    fn files(&self) -> Vec<(FileId, String)>;

    /// Makes an empty file.
    ///
    /// # Errors
    /// If there is one of that name, no room, or the media are read-only.
    fn create(&mut self, name: &str) -> Result<FileId, StorageError>;

    /// Removes a file. Nothing of it may be in flight.
    ///
    /// # Errors
    /// If the media are read-only, or the device fails.
    fn remove(&mut self, file: FileId) -> Result<(), StorageError>;

    /// The length of a file.
    fn byte_count(&self, file: FileId) -> u64;

    /// Makes room for a file of this length, or cuts it.
    ///
    /// # Errors
    /// If there is no room, or the media are read-only.
    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError>;

    /// Issues a request at `now`. A write past the end makes the file longer.
    ///
    /// # Errors
    /// If a rule is broken, there is no room, or the media are read-only; the buffer is gone then.
    fn submit(
        &mut self,
        file: FileId,
        now: Nanos,
        request: FileRequest,
    ) -> Result<(), StorageError>;

    /// The completion that comes next, if one comes at or before `until`.
    fn next_completion(&mut self, until: Nanos) -> Option<Completion>;

    /// How many requests are in flight.
    fn in_flight(&self) -> u32;

    /// Makes everything about a file durable, and waits. Other requests may be in flight; their
    /// completions are kept for [`Self::next_completion`].
    ///
    /// # Errors
    /// If the device fails; then nothing is known about what is durable, and whoever holds the volume
    /// leaves it alone, as [`Io`] sees to.
    fn sync(&mut self, file: FileId, now: Nanos) -> Result<Nanos, StorageError>;

    /// Lets time pass without requests. Nothing may be in flight.
    fn idle_until(&mut self, time: Nanos) -> Nanos;

    /// What the devices below have done so far, added up.
    fn counters(&self) -> Counters;

    /// Whether nothing can be changed.
    fn is_read_only(&self) -> bool {
        false
    }

    /// A way to read that several threads may use at once, past the queue; only where time passes by
    /// itself.
    fn positional_reader(&self) -> Option<Arc<dyn ReadAt>> {
        None
    }
}

/// Reads from any thread, each waiting for its own.
pub trait ReadAt: Send + Sync {
    /// Fills `buffer`, aligned and of whole sectors, from `offset_bytes` on; past the end with zeros.
    ///
    /// # Errors
    /// If the file is gone or the device fails.
    fn read_at(
        &self,
        file: FileId,
        offset_bytes: u64,
        buffer: &mut [u8],
    ) -> Result<(), StorageError>;
}

/// Checks a name for a file.
///
/// # Errors
/// If it is empty or longer than [`FILE_NAME_BYTES_MAX`], begins with a full stop, or has a slash or a
/// control character.
pub fn check_file_name(name: &str) -> Result<(), StorageError> {
    if name.len() > FILE_NAME_BYTES_MAX {
        return Err(StorageError::TooLarge {
            what: "the name of a file".to_owned(),
            found_bytes: name.len() as u64,
            limit_bytes: FILE_NAME_BYTES_MAX as u64,
        });
    }
    if name.is_empty()
        || name.starts_with('.')
        || name.contains(['/', '\\'])
        || name.contains(char::is_control)
    {
        let what = format!(
            "{name:?} is no name for a file: it needs letters, no slash and no full stop in front"
        );
        return Err(StorageError::InvalidSetting { what });
    }
    Ok(())
}
