//! Where segments lie, one behind the other: in a file of the volume of the data, or on raw flash
//! (`chips`).
//!
//! ```text
//!   offset   segment · bytes of a segment + place in it
//!   segment  begun ─► write ─► write ─► …   upwards, each in whole units
//! ```
//!
//! 1. A segment is begun before it is written again; what it had before may be gone then.
//! 2. What was written is durable after a sync, if not before.
//! 3. A medium that loses its power keeps of what was not durable anything or nothing, and what was
//!    durable as it was.

use super::SEGMENTS_FILE;
use crate::error::unless_full;
use crate::propagation::log_structured::reads::{PieceReads, ReadPiece};
use crate::propagation::log_structured::transfer;
use crate::volume::{Io, IoOwner};
use crate::{FileId, StorageError};
use nandu_base::to_u32;
use nandu_device::{DeviceError, IoBuffer, Operation};

/// Where a medium could not read, and what it answered.
pub(super) type Gap = (u64, DeviceError);

/// A medium with segments on it.
pub(super) trait SegmentMedium: PieceReads + Send {
    /// What it is, where damage is told.
    fn told(&self) -> String;

    /// Whether whoever has the volume of the data finds the segments there.
    fn is_on_data(&self) -> bool;

    /// Bytes by which summaries, pages and reads are aligned.
    fn sector_bytes(&self) -> u32;

    /// A write takes a multiple of so many bytes, which is one of sectors.
    fn write_unit_bytes(&self) -> u32;

    /// Segments that may have been written.
    fn found_count(&self) -> u32;

    /// How many there are, where that never changes.
    fn fixed_segment_count(&self) -> Option<u32>;

    /// How many there may be, as far as there is room; `None` where that is not known.
    fn segment_count_max(&self) -> Option<u64>;

    /// Whether a segment can have something.
    fn is_usable(&self, segment: u32) -> bool;

    /// Makes room for so many segments; false if there is none.
    ///
    /// # Errors
    /// If the medium fails.
    fn grow_to(&self, count: u32) -> Result<bool, StorageError>;

    /// Gives back what lies behind so many segments, durably.
    ///
    /// # Errors
    /// If the medium fails.
    fn shrink_to(&self, count: u32) -> Result<(), StorageError>;

    /// Makes a segment ready to be written from its start; false if it never will be again.
    ///
    /// # Errors
    /// If the medium fails.
    fn begin_segment(&mut self, segment: u32) -> Result<bool, StorageError>;

    /// Whether what follows is for cleaning, where somebody counts that.
    fn set_is_cleaning(&mut self, _is_cleaning: bool) {}

    /// Begins to read whole sectors into `target`, for [`Self::end_read`].
    ///
    /// # Errors
    /// If the medium refuses.
    fn begin_read(&self, offset_bytes: u64, target: IoBuffer) -> Result<u64, StorageError>;

    /// Waits for what was begun; `None` if it cannot be read.
    fn end_read(&self, ticket: u64) -> Option<IoBuffer>;

    /// Reads whole sectors.
    ///
    /// # Errors
    /// If one cannot be read.
    fn read(&self, offset_bytes: u64, bytes: usize) -> Result<IoBuffer, StorageError>;

    /// Reads whole sectors that a cut may have left undefined, for who knows what is whole by its
    /// checksum.
    ///
    /// # Errors
    /// If the medium fails.
    fn read_whatever(&self, offset_bytes: u64, bytes: usize) -> Result<IoBuffer, StorageError>;

    /// The same with zeros for sectors that cannot be read; and the first of those.
    ///
    /// # Errors
    /// If the medium fails otherwise.
    fn read_what_can_be(
        &self,
        offset_bytes: u64,
        bytes: usize,
    ) -> Result<(IoBuffer, Option<Gap>), StorageError> {
        if let Ok(all) = unless_unreadable(self.read_whatever(offset_bytes, bytes))? {
            return Ok((all, None));
        }
        let sector_bytes = self.sector_bytes() as usize;
        let (mut all, mut first) = (self.piece_buffer(bytes), None);
        for start in (0..bytes).step_by(sector_bytes) {
            let at = offset_bytes + start as u64;
            match unless_unreadable(self.read_whatever(at, sector_bytes))? {
                Ok(sector) => all[start..start + sector_bytes].copy_from_slice(&sector),
                Err(error) => {
                    all[start..start + sector_bytes].fill(0);
                    first.get_or_insert((at, error));
                }
            }
        }
        Ok((all, first))
    }

    /// Whether nothing can lie in a segment from this place on, where a write would begin.
    ///
    /// # Errors
    /// If the medium fails.
    fn is_blank_from(&self, offset_bytes: u64) -> Result<bool, StorageError>;

    /// Writes whole sectors.
    ///
    /// # Errors
    /// If the medium fails or has no room.
    fn write(&self, offset_bytes: u64, buffer: IoBuffer) -> Result<(), StorageError>;

    /// Makes everything written durable.
    ///
    /// # Errors
    /// If the medium fails.
    fn sync(&self) -> Result<(), StorageError>;
}

/// What was read, or why the medium could not; other errors stay errors.
pub(super) fn unless_unreadable<T>(
    answer: Result<T, StorageError>,
) -> Result<Result<T, DeviceError>, StorageError> {
    match answer {
        Ok(read) => Ok(Ok(read)),
        Err(StorageError::Device { error: error @ DeviceError::Media { .. }, .. }) => {
            Ok(Err(error))
        }
        Err(error) => Err(error),
    }
}

/// Segments in a file of the volume of the data.
pub(super) struct VolumeSegments {
    io: Io,
    file: FileId,
    segment_bytes: u32,
}

impl VolumeSegments {
    pub(super) const fn new(io: Io, file: FileId, segment_bytes: u32) -> Self {
        Self { io, file, segment_bytes }
    }

    fn bytes_of(&self, count: u32) -> u64 {
        u64::from(count) * u64::from(self.segment_bytes)
    }
}

impl PieceReads for VolumeSegments {
    fn piece_buffer(&self, bytes: usize) -> IoBuffer {
        self.io.piece_buffer(bytes)
    }

    fn begin_piece(
        &self,
        file: FileId,
        offset_bytes: u64,
        target: IoBuffer,
    ) -> Result<u64, StorageError> {
        self.io.begin_piece(file, offset_bytes, target)
    }

    fn next_piece(&self) -> ReadPiece {
        self.io.next_piece()
    }
}

impl SegmentMedium for VolumeSegments {
    fn told(&self) -> String {
        format!("the file {SEGMENTS_FILE}")
    }

    fn is_on_data(&self) -> bool {
        true
    }

    fn sector_bytes(&self) -> u32 {
        self.io.sector_bytes()
    }

    fn write_unit_bytes(&self) -> u32 {
        self.io.sector_bytes()
    }

    fn found_count(&self) -> u32 {
        to_u32(self.io.byte_count(self.file) / u64::from(self.segment_bytes))
    }

    fn fixed_segment_count(&self) -> Option<u32> {
        None
    }

    fn segment_count_max(&self) -> Option<u64> {
        let file_bytes = self.io.byte_count(self.file) + self.io.free_bytes()?;
        Some(file_bytes / u64::from(self.segment_bytes))
    }

    fn is_usable(&self, _segment: u32) -> bool {
        true
    }

    fn grow_to(&self, count: u32) -> Result<bool, StorageError> {
        let (bytes, own_bytes) = (self.bytes_of(count), self.io.byte_count(self.file));
        if own_bytes >= bytes {
            return Ok(true);
        }
        // To try is dear where there is no room: a file system may look at all of the file for it.
        if self.io.free_bytes().is_none_or(|free_bytes| free_bytes >= bytes - own_bytes) {
            unless_full(self.io.set_byte_count(self.file, bytes))?;
        }
        Ok(self.io.byte_count(self.file) >= bytes)
    }

    fn shrink_to(&self, count: u32) -> Result<(), StorageError> {
        self.io.set_byte_count(self.file, self.bytes_of(count))?;
        self.io.sync(self.file)
    }

    fn begin_segment(&mut self, _segment: u32) -> Result<bool, StorageError> {
        Ok(true)
    }

    fn begin_read(&self, offset_bytes: u64, target: IoBuffer) -> Result<u64, StorageError> {
        self.io.submit(IoOwner::PageWrite, self.file, Operation::Read, offset_bytes, target)
    }

    fn end_read(&self, ticket: u64) -> Option<IoBuffer> {
        let done = self.io.wait(ticket);
        done.result.ok()?;
        done.buffer
    }

    fn read(&self, offset_bytes: u64, bytes: usize) -> Result<IoBuffer, StorageError> {
        transfer::read(&self.io, self.file, offset_bytes, bytes)
    }

    fn read_whatever(&self, offset_bytes: u64, bytes: usize) -> Result<IoBuffer, StorageError> {
        self.read(offset_bytes, bytes)
    }

    fn is_blank_from(&self, _offset_bytes: u64) -> Result<bool, StorageError> {
        // What was written before the segment was begun again may lie anywhere.
        Ok(false)
    }

    fn write(&self, offset_bytes: u64, buffer: IoBuffer) -> Result<(), StorageError> {
        transfer::write(&self.io, self.file, offset_bytes, buffer)
    }

    fn sync(&self) -> Result<(), StorageError> {
        self.io.sync(self.file)
    }
}
