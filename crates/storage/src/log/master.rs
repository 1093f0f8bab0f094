//! The control data of a log: two blocks at the head of its file, written in turn.
//!
//! ```text
//!   magic 8 │ version u32 │ page bytes u32 │ sector bytes u32 │ epoch u32 │ capacity u64
//!   │ database id u64 │ sequence u64 │ checkpoint u64 │ the one before u64 │ tail u64
//!   │ durable u64 │ buffer bytes u32 │ clean u8 │ written u64 │ zeros │ CRC-32C u32 of the 508 before
//! ```
//!
//! 1. A block is written only after all it speaks of is durable; what it allows (space behind the
//!    tail, a new epoch) is used only once it is durable itself.
//! 2. Block `sequence mod 2` is written. A torn one fails its checksum, and the other counts.
//! 3. It lies in 512 bytes, which no block device tears. So one that is neither whole nor empty is damaged,
//!    and may have been the newer: then the other is not taken at its word that the log ends where it
//!    was closed, nor a lap of it for the last. On shorter sectors, lines of a memory, what stands before
//!    the zeros is written as `sealed_lines`, which tell a torn block from a damaged one.

use super::area::LogArea;
use super::frame::Layout;
use super::sealed_lines::{self, Lines};
use super::varint::Cursor;
use crate::plant::{EngineBug, is_planted};
use crate::volume::Io;
use crate::{FileId, Lsn, StorageError, page};
use nandu_base::{to_index, to_u32};
use nandu_device::{IoBuffer, Operation, SECTOR_BYTES};

const MAGIC: &[u8; 8] = b"nandulog";
/// The version of everything in the file of a log.
pub const LOG_FORMAT_VERSION: u32 = 1;
const MASTER_BYTES: usize = 512;
/// Those before the zeros.
const USED_BYTES: usize = 93;

/// What restart has to know before it reads the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Master {
    /// Bytes of a page of the database.
    pub page_bytes: u32,
    /// Which database the log belongs to.
    pub database_id: u64,
    /// Bytes of log that the file has room for.
    pub capacity_bytes: u64,
    /// The record that began the last complete checkpoint; 0 before the first one.
    pub checkpoint: Lsn,
    /// The checkpoint before the last one.
    pub previous_checkpoint: Lsn,
    /// The oldest record that may still be needed.
    pub tail: Lsn,
    /// The log is durable at least up to here.
    pub durable: Lsn,
    /// Whether the database was closed in order, and nothing was logged since.
    pub is_clean: bool,
    /// The last write of pages, as their propagation counts them, that was durable before the last
    /// complete checkpoint; 0 where it does not count.
    pub written: u64,
    /// Unit of flushes: the sectors of the device that the log was made on.
    pub(super) sector_bytes: u32,
    /// The largest buffer that the log was written with: flushes are not longer, unless they hold a
    /// single record.
    pub(super) buffer_bytes: u32,
    /// The number of the run: one more with each opening.
    pub(super) epoch: u32,
    pub(super) sequence: u64,
    /// The other block is damaged, so there may have been a newer one. Not stored.
    pub(super) is_doubtful: bool,
}

/// What a block holds.
enum ControlBlock {
    Whole(Master),
    /// Nothing was ever written there.
    Empty,
    Damaged,
}

impl Master {
    /// A number that grew, durably, when the log was opened for writing.
    #[must_use]
    pub const fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Whether a control block is damaged that may have been newer.
    pub(crate) const fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    pub(super) fn layout(&self) -> Layout {
        Layout::new(u64::from(self.sector_bytes), self.capacity_bytes, self.database_id)
    }

    /// Reads both blocks of a log's file and takes the newer one that is whole.
    pub(super) fn read(io: &Io, file: FileId) -> Result<Self, StorageError> {
        let sector_bytes = u64::from(io.sector_bytes());
        let block_bytes = Layout::master_block_bytes(sector_bytes);
        let area = LogArea::new(io.clone(), file, Layout::new(sector_bytes, sector_bytes, 0));
        let mut newest: Option<Self> = None;
        let mut trouble = None;
        let mut is_doubtful = false;
        for slot in 0..2 {
            let buffer = area.buffer_of(&vec![0; written_bytes(sector_bytes)]);
            match area.transfer_at(Operation::Read, slot * block_bytes, buffer) {
                Ok(bytes) => match Self::decode(&bytes, to_index(sector_bytes)) {
                    Ok(ControlBlock::Whole(found)) => {
                        let is_newer = |one: &Self| one.sequence >= found.sequence;
                        newest = newest.filter(is_newer).or(Some(found));
                    }
                    Ok(ControlBlock::Empty) => {}
                    Ok(ControlBlock::Damaged) => is_doubtful = true,
                    Err(error) => trouble = Some(error),
                },
                Err(error) => trouble = Some(error),
            }
            is_doubtful |= trouble.is_some();
        }
        let Some(mut newest) = newest else {
            let place = format!("the log of {}", io.name());
            let is_cut = io.byte_count(file) < 2 * block_bytes;
            let what = match is_cut {
                true => "its file is cut short; restore the database from a copy",
                false => "neither of its control blocks is whole; restore the database from a copy",
            };
            let broken = StorageError::NotADatabase { place, what: what.to_owned() };
            return Err(trouble.filter(|_| !is_cut).unwrap_or(broken));
        };
        newest.check(sector_bytes, io.byte_count(file))?;
        newest.is_doubtful = is_doubtful;
        newest.is_clean &= !is_doubtful;
        Ok(newest)
    }

    /// Writes the next block and makes it durable.
    pub(super) fn write(&mut self, area: &LogArea) -> Result<(), StorageError> {
        self.sequence += 1;
        let block_bytes = Layout::master_block_bytes(area.layout.sector_bytes);
        let offset = self.sequence % 2 * block_bytes;
        area.transfer_at(Operation::Write, offset, self.encode(area))?;
        if is_planted(EngineBug::ControlBlockUnsynced) {
            return Ok(());
        }
        area.sync()
    }

    fn encode(&self, area: &LogArea) -> IoBuffer {
        let mut bytes = Vec::with_capacity(MASTER_BYTES);
        bytes.extend_from_slice(MAGIC);
        let words = [LOG_FORMAT_VERSION, self.page_bytes, self.sector_bytes, self.epoch];
        bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        let longs = [
            self.capacity_bytes,
            self.database_id,
            self.sequence,
            self.checkpoint.0,
            self.previous_checkpoint.0,
            self.tail.0,
            self.durable.0,
        ];
        bytes.extend(longs.iter().flat_map(|long| long.to_le_bytes()));
        bytes.extend_from_slice(&self.buffer_bytes.to_le_bytes());
        bytes.push(u8::from(self.is_clean));
        bytes.extend_from_slice(&self.written.to_le_bytes());
        assert_eq!(bytes.len(), USED_BYTES, "lines hold all that is used");
        let sector_bytes = to_index(area.layout.sector_bytes);
        if sector_bytes < MASTER_BYTES {
            return area.buffer_of(&sealed_lines::seal(&bytes, self.sequence, sector_bytes));
        }
        bytes.resize(MASTER_BYTES - 4, 0);
        let checksum = crc32c::crc32c(&bytes);
        bytes.extend_from_slice(&checksum.to_le_bytes());
        bytes.resize(sector_bytes, 0);
        area.buffer_of(&bytes)
    }

    fn decode(bytes: &[u8], sector_bytes: usize) -> Result<ControlBlock, StorageError> {
        if sector_bytes < MASTER_BYTES {
            return match sealed_lines::open(bytes, USED_BYTES, sector_bytes) {
                Lines::Whole(block) => match block.strip_prefix(MAGIC) {
                    Some(fields) => Self::parse(fields).expect("a block has all fields"),
                    None => Ok(ControlBlock::Damaged),
                },
                // The write of the next block, on which nothing was built yet.
                Lines::Empty | Lines::Torn => Ok(ControlBlock::Empty),
                Lines::Damaged => Ok(ControlBlock::Damaged),
            };
        }
        let whole = bytes.get(..MASTER_BYTES).expect("a block is a sector at least");
        let (body, rest) = whole.split_at(MASTER_BYTES - 4);
        let is_whole = Cursor::new(rest).u32_le() == Some(crc32c::crc32c(body));
        if !is_whole || !body.starts_with(MAGIC) {
            let is_empty = whole.iter().all(|&byte| byte == 0);
            return Ok(if is_empty { ControlBlock::Empty } else { ControlBlock::Damaged });
        }
        Self::parse(&body[MAGIC.len()..]).expect("the block is longer than its fields")
    }

    fn parse(fields: &[u8]) -> Option<Result<ControlBlock, StorageError>> {
        let mut cursor = Cursor::new(fields);
        let version = cursor.u32_le()?;
        if version != LOG_FORMAT_VERSION {
            let place = "the log".to_owned();
            let what = format!(
                "its format is version {version}, this program reads version {LOG_FORMAT_VERSION}"
            );
            return Some(Err(StorageError::NotADatabase { place, what }));
        }
        let mut word = || cursor.u32_le();
        let (page_bytes, sector_bytes, epoch) = (word()?, word()?, word()?);
        let mut long = || cursor.u64_le();
        let (capacity_bytes, database_id, sequence) = (long()?, long()?, long()?);
        let (checkpoint, previous_checkpoint) = (Lsn(long()?), Lsn(long()?));
        let (tail, durable) = (Lsn(long()?), Lsn(long()?));
        let buffer_bytes = cursor.u32_le()?;
        let is_clean = cursor.byte()? == 1;
        let written = cursor.u64_le()?;
        Some(Ok(ControlBlock::Whole(Self {
            page_bytes,
            database_id,
            capacity_bytes,
            checkpoint,
            previous_checkpoint,
            tail,
            durable,
            is_clean,
            written,
            sector_bytes,
            buffer_bytes,
            epoch,
            sequence,
            is_doubtful: false,
        })))
    }

    /// Refuses a block that is whole but makes no sense here.
    fn check(&self, device_sector_bytes: u64, file_bytes: u64) -> Result<(), StorageError> {
        let corrupt = |what: &str| {
            let place = "the control block of the log".to_owned();
            Err(StorageError::Corrupt { place, what: what.to_owned() })
        };
        if page::check_page_bytes(self.page_bytes).is_err() {
            return corrupt("the page size is impossible");
        }
        if !self.sector_bytes.is_power_of_two() || !SECTOR_BYTES.contains(&self.sector_bytes) {
            return corrupt("the sector size is impossible");
        }
        if self.layout().check().is_err() {
            return corrupt("the capacity is impossible");
        }
        if self.tail < self.layout().first_lsn() || self.tail > self.durable {
            return corrupt("the tail does not lie in the log");
        }
        if self.checkpoint > self.durable || self.previous_checkpoint > self.checkpoint {
            return corrupt("the last checkpoint does not lie in the log");
        }
        if self.durable.0 > 1 << 62 || self.epoch == u32::MAX {
            return corrupt("its counters are used up");
        }
        let same_blocks = Layout::master_block_bytes(u64::from(self.sector_bytes))
            == Layout::master_block_bytes(device_sector_bytes);
        if !same_blocks || u64::from(self.sector_bytes) < device_sector_bytes {
            let what = format!(
                "the log was made for sectors of {} bytes, the device has {device_sector_bytes}; \
                 copy it to a device with such sectors, or close the database there and make a \
                 new log here",
                self.sector_bytes
            );
            return Err(StorageError::InvalidSetting { what });
        }
        if file_bytes < self.layout().file_bytes() {
            return corrupt(
                "the file is shorter than the log, something cut it; restore the database from a copy",
            );
        }
        Ok(())
    }
}

/// Bytes that are written of a block, whole sectors.
fn written_bytes(sector_bytes: u64) -> usize {
    let sector_bytes = to_index(sector_bytes);
    match sector_bytes < MASTER_BYTES {
        true => sealed_lines::sealed_bytes(USED_BYTES, sector_bytes),
        false => sector_bytes,
    }
}

/// Empties the block that the first write does not reach, lest one of another log counts.
pub(super) fn clear_other_block(area: &LogArea, first: &Master) -> Result<(), StorageError> {
    let block_bytes = Layout::master_block_bytes(area.layout.sector_bytes);
    let zeros = area.buffer_of(&vec![0; written_bytes(area.layout.sector_bytes)]);
    let offset = first.sequence % 2 * block_bytes;
    area.transfer_at(Operation::Write, offset, zeros)?;
    area.sync()
}

/// The control data of a new log.
pub(super) fn first_master(
    layout: &Layout,
    page_bytes: u32,
    database_id: u64,
    buffer_bytes: u32,
) -> Master {
    Master {
        page_bytes,
        database_id,
        capacity_bytes: layout.capacity_bytes,
        checkpoint: Lsn(0),
        previous_checkpoint: Lsn(0),
        tail: layout.first_lsn(),
        durable: layout.first_lsn(),
        is_clean: false,
        written: 0,
        sector_bytes: to_u32(layout.sector_bytes),
        buffer_bytes,
        epoch: 1,
        sequence: 0,
        is_doubtful: false,
    }
}
