//! How records lie in the file of the log: LSNs laid round and round, and a checksum that knows where
//! and in which run a record was written.
//!
//! ```text
//!   file   ┌ master ┬ master ┬──────────────── capacity_bytes ────────────────┐
//!          └ block 0┴ block 1┴─ LSN l lies at block bytes · 2 + l mod capacity ┘
//!
//!   flush  │ header frame │ record │ record │ … │ padding │   whole sectors
//!   frame  │ CRC-32C u32 │ length u32 │ epoch u32 │ payload │ zeros to 16 bytes │
//! ```
//!
//! 1. The checksum covers the database's id, the LSN, the length, the epoch and the payload; so what
//!    is left of another database or an earlier lap never validates.
//! 2. The epoch grows by at least one at each opening. In one scan it never falls, and only the
//!    header of a flush raises it; so what is left of a lost tail is never taken for what came after.
//! 3. Frames begin at multiples of 16, and sectors are multiples of 16: padding always has room.
//! 4. The header of a flush names the LSN up to which the log was durable when it began. Whoever
//!    finds the log to end before that has found damage (`docs/decisions/007-storage-engine.md`).

use super::varint::Cursor;
use crate::{Lsn, StorageError};
use nandu_base::{to_index, to_u32};

/// Frames begin at multiples of this.
const FRAME_ALIGNMENT: usize = 16;
/// Checksum, length, epoch.
pub(super) const FRAME_HEADER_BYTES: usize = 12;
/// The frame at the head of each flush.
pub(super) const FLUSH_HEADER_BYTES: usize = 32;
/// Payloads of the log itself; records begin with other bytes.
pub(super) const PADDING: u8 = 0x00;
pub(super) const FLUSH_HEADER: u8 = 0x01;
const FLUSH_HEADER_PAYLOAD_BYTES: usize = 17;
/// The least bytes of a block for the control data.
const MASTER_BLOCK_BYTES_MIN: u64 = 4096;

/// Where things lie in the file of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub(super) sector_bytes: u64,
    pub(super) capacity_bytes: u64,
    /// Follows from the database's id, so that frames of another one are not taken for ours.
    pub(super) salt: u32,
}

/// What stands before a payload.
#[derive(Clone, Copy, Debug)]
pub(super) struct FrameHeader {
    checksum: u32,
    pub(super) payload_bytes: u32,
    pub(super) epoch: u32,
}

/// The claim of a flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FlushHeader {
    /// The log was durable up to here when the flush began.
    pub(super) durable: Lsn,
    /// Bytes of the flush with header and padding.
    pub(super) length_bytes: u64,
}

impl Layout {
    /// Of a log with a database's id.
    pub(super) fn new(sector_bytes: u64, capacity_bytes: u64, database_id: u64) -> Self {
        let salt = crc32c::crc32c(&database_id.to_le_bytes());
        Self { sector_bytes, capacity_bytes, salt }
    }

    /// Checks that the sizes of the log fit each other.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        let Self { sector_bytes, capacity_bytes, .. } = *self;
        let least = Self::capacity_bytes_min(sector_bytes);
        if capacity_bytes.is_multiple_of(sector_bytes)
            && (least..=1 << 60).contains(&capacity_bytes)
        {
            return Ok(());
        }
        let what = format!(
            "a log of {capacity_bytes} bytes is not a multiple of the device's sectors of \
             {sector_bytes} bytes, from {least} bytes on"
        );
        Err(StorageError::InvalidSetting { what })
    }

    /// The smallest log: a few flushes.
    pub(super) const fn capacity_bytes_min(sector_bytes: u64) -> u64 {
        16 * sector_bytes
    }

    /// Bytes of one block for the control data: a torn write of one leaves the other.
    pub(super) fn master_block_bytes(sector_bytes: u64) -> u64 {
        sector_bytes.max(MASTER_BLOCK_BYTES_MIN)
    }

    /// Length of the whole file.
    pub(super) fn file_bytes(&self) -> u64 {
        2 * Self::master_block_bytes(self.sector_bytes) + self.capacity_bytes
    }

    /// Where an LSN lies in the file.
    pub(super) fn offset_of(&self, lsn: Lsn) -> u64 {
        2 * Self::master_block_bytes(self.sector_bytes) + lsn.0 % self.capacity_bytes
    }

    /// The LSN of the first flush; those before are nothing's.
    pub(super) const fn first_lsn(&self) -> Lsn {
        Lsn(self.sector_bytes)
    }

    /// Bytes from `lsn` to the end of the file.
    pub(super) const fn bytes_before_wrap(&self, lsn: Lsn) -> u64 {
        self.capacity_bytes - lsn.0 % self.capacity_bytes
    }

    /// The first byte of the sector of `lsn`.
    pub(super) const fn sector_start(&self, lsn: Lsn) -> Lsn {
        Lsn(lsn.0 - lsn.0 % self.sector_bytes)
    }

    /// The first sector boundary from `lsn` on.
    pub(super) const fn next_sector(&self, lsn: Lsn) -> Lsn {
        Lsn(lsn.0.next_multiple_of(self.sector_bytes))
    }

    /// The most bytes of a record.
    pub(super) fn record_bytes_max(&self) -> u64 {
        (self.capacity_bytes / 4).min(1 << 30)
    }

    /// Names a place for messages.
    pub(super) fn place_of(&self, lsn: Lsn) -> String {
        format!("the log at LSN {} (byte {} of its file)", lsn.0, self.offset_of(lsn))
    }

    fn checksum(&self, lsn: Lsn, epoch: u32, payload: &[u8]) -> u32 {
        let mut place = [0; 16];
        place[..8].copy_from_slice(&lsn.0.to_le_bytes());
        place[8..12].copy_from_slice(&to_u32(payload.len() as u64).to_le_bytes());
        place[12..].copy_from_slice(&epoch.to_le_bytes());
        crc32c::crc32c_append(crc32c::crc32c_append(self.salt, &place), payload)
    }

    /// Fills the header of the frame at `lsn` whose payload of `payload_bytes` follows in `frame`.
    pub(super) fn seal_frame(&self, frame: &mut [u8], lsn: Lsn, epoch: u32, payload_bytes: usize) {
        let payload = &frame[FRAME_HEADER_BYTES..FRAME_HEADER_BYTES + payload_bytes];
        let checksum = self.checksum(lsn, epoch, payload);
        frame[..4].copy_from_slice(&checksum.to_le_bytes());
        frame[4..8].copy_from_slice(&to_u32(payload_bytes as u64).to_le_bytes());
        frame[8..12].copy_from_slice(&epoch.to_le_bytes());
    }

    /// Writes the head of a flush into its first bytes.
    pub(super) fn seal_flush(&self, flush: &mut [u8], lsn: Lsn, epoch: u32, durable: Lsn) {
        let length_bytes = flush.len() as u64;
        let payload = &mut flush[FRAME_HEADER_BYTES..];
        payload[0] = FLUSH_HEADER;
        payload[1..9].copy_from_slice(&durable.0.to_le_bytes());
        payload[9..17].copy_from_slice(&length_bytes.to_le_bytes());
        let frame = &mut flush[..FLUSH_HEADER_BYTES];
        self.seal_frame(frame, lsn, epoch, FLUSH_HEADER_PAYLOAD_BYTES);
    }

    /// Whether `payload` is what `header`, found at `lsn`, speaks of.
    pub(super) fn is_sound(&self, header: FrameHeader, lsn: Lsn, payload: &[u8]) -> bool {
        header.checksum == self.checksum(lsn, header.epoch, payload)
    }

    /// The header of a flush at `lsn`, if there is one.
    pub(super) fn flush_header(&self, bytes: &[u8], lsn: Lsn) -> Option<(u32, FlushHeader)> {
        let header = FrameHeader::parse(bytes)?;
        let is_head = header.payload_bytes as usize == FLUSH_HEADER_PAYLOAD_BYTES;
        let payload = bytes.get(FRAME_HEADER_BYTES..)?.get(..FLUSH_HEADER_PAYLOAD_BYTES)?;
        if !is_head || !self.is_sound(header, lsn, payload) {
            return None;
        }
        Some((header.epoch, FlushHeader::parse(payload)?))
    }
}

impl FrameHeader {
    /// Reads it; an impossible length is as good as none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(bytes);
        let checksum = cursor.u32_le()?;
        let payload_bytes = cursor.u32_le().filter(|&length| length > 0)?;
        Some(Self { checksum, payload_bytes, epoch: cursor.u32_le()? })
    }
}

impl FlushHeader {
    /// From the payload of a sound frame, if it is the header of a flush.
    pub(super) fn parse(payload: &[u8]) -> Option<Self> {
        let mut cursor = Cursor::new(payload);
        cursor.byte().filter(|&kind| kind == FLUSH_HEADER)?;
        let durable = Lsn(cursor.u64_le()?);
        Some(Self { durable, length_bytes: cursor.u64_le()? })
    }
}

/// Bytes of the frame around a payload.
pub(super) const fn frame_bytes(payload_bytes: usize) -> usize {
    (FRAME_HEADER_BYTES + payload_bytes).next_multiple_of(FRAME_ALIGNMENT)
}

/// Whether a frame can begin at `lsn`.
pub(super) fn is_aligned(lsn: Lsn) -> bool {
    to_index(lsn.0).is_multiple_of(FRAME_ALIGNMENT)
}
