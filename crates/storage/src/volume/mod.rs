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
//! 4. A file has a number that no other file has. It is used again when the file is gone, so a file
//!    also knows which records of a log may speak of it: those from [`Volume::records_from`] on. Older
//!    ones are of a file that had the number before.

use crate::{FileId, Lsn, StorageError};
use nandu_base::Nanos;
use nandu_device::{Completion, Counters, EnergyParts, IoBuffer, Operation, TimeSource};
use std::sync::Arc;

pub mod device_volume;
mod file_name;
mod guarded;
pub mod io;
pub mod testing;

pub use device_volume::DeviceVolume;
pub use file_name::{FILE_NAME_BYTES_MAX, FileName, RESERVED_NAMES};
pub use io::{Io, IoOwner};

/// No record of any log speaks of such a file.
pub const NO_RECORDS: Lsn = Lsn(u64::MAX);

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

    /// What the volume's clock says now.
    fn now(&self) -> Nanos;

    /// All files, in the order of their numbers.
    fn files(&self) -> Vec<(FileId, String)>;

    /// Makes an empty file of which no log will speak, with the lowest number that is free.
    ///
    /// # Errors
    /// As [`Self::create_logged`].
    fn create(&mut self, name: &str) -> Result<FileId, StorageError> {
        self.create_logged(name, NO_RECORDS)
    }

    /// Makes an empty file of which records of a log speak from `records_from` on, with the lowest
    /// number that is free.
    ///
    /// # Errors
    /// If there is one of that name, no room or number, or the media are read-only.
    fn create_logged(&mut self, name: &str, records_from: Lsn) -> Result<FileId, StorageError>;

    /// The first record of a log that may speak of this file; [`NO_RECORDS`] if none does.
    fn records_from(&self, file: FileId) -> Lsn;

    /// Says that all is there that the volume was made for, durably. A volume that was begun and did not
    /// come this far is not opened; others need no such word.
    ///
    /// # Errors
    /// If the media are read-only, or the device fails.
    fn finish_making(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Removes a file. Nothing of it may be in flight.
    ///
    /// # Errors
    /// If the media are read-only, or the device fails.
    fn remove(&mut self, file: FileId) -> Result<(), StorageError>;

    /// The length of a file.
    fn byte_count(&self, file: FileId) -> u64;

    /// The length to the byte that a file had when it was opened, where it may end within a sector:
    /// somebody else can cut a file of a directory anywhere.
    fn found_byte_count(&self, file: FileId) -> u64 {
        self.byte_count(file)
    }

    /// Makes room for a file of this length, or cuts it.
    ///
    /// # Errors
    /// If there is no room, or the media are read-only.
    fn set_byte_count(&mut self, file: FileId, bytes: u64) -> Result<(), StorageError>;

    /// Bytes that files may still take, about: whoever else writes to the medium may take them first. `None`
    /// if nobody knows.
    fn free_bytes(&self) -> Option<u64> {
        None
    }

    /// A number of the file system whose room its files take, where other volumes may take the same;
    /// `None` where all of it is its own.
    fn file_system(&self) -> Option<u64> {
        None
    }

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

    /// Makes durable what is there, also what an earlier process wrote and did not sync: a kernel shows
    /// it, and a power cut may take it. Volumes whose opening does that have nothing to do here.
    ///
    /// # Errors
    /// As [`Self::sync`].
    fn sync_found(&mut self) -> Result<(), StorageError> {
        Ok(())
    }

    /// Checks that the files are of one moment, before anything is changed: whoever copies them one by one
    /// while somebody writes has some of an earlier and some of a later one. `closed_by` is the run of the log
    /// that closed the database, if it was closed. True where it is a copy; volumes that nobody can copy so
    /// have nothing to do here.
    ///
    /// # Errors
    /// If they may not be, or the device fails.
    fn check_moment(&mut self, _closed_by: Option<u32>) -> Result<bool, StorageError> {
        Ok(false)
    }

    /// Notes that a run of the log has closed the database and all is durable, for [`Self::check_moment`] of
    /// whoever copies it from now on. A note that is lost harms copies alone, which are refused then.
    fn note_closed(&mut self, _run: u32) {}

    /// Lets time pass without requests. Nothing may be in flight.
    fn idle_until(&mut self, time: Nanos) -> Nanos;

    /// What the devices below have done so far, added up.
    fn counters(&self) -> Counters;

    /// Energy that they have used by `time`, where they model it: see [`nandu_device::Device::energy_by`].
    fn energy_by(&self, _time: Nanos) -> Option<EnergyParts> {
        self.counters().energy
    }

    /// Whether nothing can be changed.
    fn is_read_only(&self) -> bool {
        false
    }

    /// What several threads may do at once, past the queue; only where time passes by itself.
    fn past_queue(&self) -> Option<Arc<dyn PastQueue>> {
        None
    }

    /// Sees to it that nothing is kept back to be handed over with more, so that whoever waits by
    /// [`PastQueue::wait_for_arrival`] waits for all that is in flight. Where there is no such way,
    /// [`Self::next_completion`] does it.
    fn hand_over(&mut self) {}
}

/// What any thread may do without the volume, each waiting for its own.
pub trait PastQueue: Send + Sync {
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

    /// As [`Volume::sync`], beside what others do.
    ///
    /// # Errors
    /// As there.
    fn sync(&self, file: FileId) -> Result<(), StorageError>;

    /// Returns when [`Volume::next_completion`] has something to tell at once, perhaps earlier. Meanwhile nobody
    /// else may ask for it: what was told rings no more.
    fn wait_for_arrival(&self);
}

/// The lowest number that none of the files of the volume `place` has; `taken` ascends.
///
/// # Errors
/// If all are taken.
pub fn free_number(
    taken: impl Iterator<Item = FileId>,
    place: &str,
) -> Result<FileId, StorageError> {
    let free = (1..=u16::MAX).zip(taken.map(Some).chain(std::iter::repeat(None)));
    let found = free.map(|(number, taken)| (FileId(number), taken));
    let mut gaps = found.filter(|&(number, taken)| taken != Some(number));
    gaps.next().map(|(number, _)| number).ok_or_else(|| {
        let what = format!("{place} has 65535 files, more have no number; remove some");
        StorageError::NoSpace { what }
    })
}
