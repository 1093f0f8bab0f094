//! The volume of a tier: slots for pages, and two maps of them.
//!
//! ```text
//!   slots   slot 0 │ slot 1 │ …                          a page each
//!   map     map 0 │ map 1                                each from a multiple of 4 KiB and of sectors on
//! ```
//!
//! 1. Of the maps that are whole the one with the higher sequence counts, and the other is written next.
//! 2. A tier is made when its first map is durable, and the data says so afterwards.

use super::copies::{Copies, Map};
use crate::volume::{Io, IoOwner};
use crate::{FileId, PageAddress, StorageError};
use nandu_base::to_index;
use nandu_device::{IoBuffer, Operation};

const SLOTS_FILE: &str = "slots";
const MAP_FILE: &str = "map";
const MAP_ALIGNMENT_BYTES: u64 = 4096;
/// The most bytes of one request.
const REQUEST_BYTES_MAX: usize = 128 << 10;

/// The volume that the tier lies on.
#[derive(Debug)]
pub(super) struct Flash {
    io: Io,
    slots: FileId,
    map: FileId,
    page_bytes: u32,
    slot_count: u32,
    buffer_alignment: u32,
    /// Of the map that counts.
    sequence: u64,
    /// Which half it lies in.
    half: u64,
}

/// The sum of a copy: of the page and of its number.
pub(super) fn sum_of(page: u64, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(bytes), &page.to_be_bytes())
}

impl Flash {
    /// Opens the tier on a volume, or makes it where there was none, for so many slots for pages of so many
    /// bytes, and tells what its map says.
    pub(super) fn open(
        io: Io,
        (page_bytes, slot_count): (u32, u32),
        buffer_alignment: u32,
        is_made: bool,
    ) -> Result<(Self, Option<Map>), StorageError> {
        let sector_bytes = io.sector_bytes();
        if page_bytes < sector_bytes {
            let what = format!(
                "pages of {page_bytes} bytes cannot be kept in a tier on sectors of {sector_bytes}; \
                 choose pages of {sector_bytes}"
            );
            return Err(StorageError::InvalidSetting { what });
        }
        let find = |name: &str| io.files().into_iter().find(|(_, known)| known == name);
        let file = |name: &str| find(name).map_or_else(|| io.create(name), |(file, _)| Ok(file));
        if is_made && find(MAP_FILE).or(find(SLOTS_FILE)).is_none() {
            let what = format!("the tier ({}) is empty; hand the right one over", io.name());
            return Err(StorageError::InvalidSetting { what });
        }
        let (slots, map) = (file(SLOTS_FILE)?, file(MAP_FILE)?);
        let mut flash =
            Self { io, slots, map, page_bytes, slot_count, buffer_alignment, sequence: 0, half: 1 };
        let found = flash.find_map(is_made)?;
        if found.is_none() {
            flash.make()?;
        }
        Ok((flash, found))
    }

    /// Gives the files their room and writes a first map.
    fn make(&mut self) -> Result<(), StorageError> {
        let slots_bytes = u64::from(self.slot_count) * u64::from(self.page_bytes);
        self.io.set_byte_count(self.slots, slots_bytes)?;
        self.io.set_byte_count(self.map, 2 * self.half_bytes())?;
        self.io.sync(self.slots)?;
        self.write_map(&Copies::new(self.slot_count), 0)
    }

    pub(super) fn is_read_only(&self) -> bool {
        self.io.is_read_only()
    }

    /// A buffer for a page.
    pub(super) fn buffer(&self) -> IoBuffer {
        self.buffer_of(self.page_bytes as usize)
    }

    pub(super) fn start_read(&self, slot: u32, buffer: IoBuffer) -> Result<u64, StorageError> {
        let offset = self.offset_of(slot);
        self.io.submit(IoOwner::PoolRead, self.slots, Operation::Read, offset, buffer)
    }

    pub(super) fn finish_read(&self, ticket: u64, slot: u32) -> Result<IoBuffer, StorageError> {
        self.finish(ticket, &format!("cannot read slot {slot} of the tier"))
    }

    /// What lies in a slot.
    pub(super) fn read(&self, slot: u32) -> Result<IoBuffer, StorageError> {
        self.finish_read(self.start_read(slot, self.buffer())?, slot)
    }

    /// Whether a slot has a page with this sum.
    pub(super) fn is_whole(&self, slot: u32, page: u64, sum: u32) -> Result<bool, StorageError> {
        Ok(sum_of(page, &self.read(slot)?) == sum)
    }

    pub(super) fn write(&self, slot: u32, bytes: &[u8]) -> Result<(), StorageError> {
        let mut buffer = self.buffer();
        buffer.copy_from_slice(bytes);
        let offset = self.offset_of(slot);
        let ticket =
            self.io.submit(IoOwner::PageWrite, self.slots, Operation::Write, offset, buffer)?;
        self.finish(ticket, &format!("cannot write slot {slot} of the tier")).map(drop)
    }

    pub(super) fn sync_slots(&self) -> Result<(), StorageError> {
        self.io.sync(self.slots)
    }

    /// Writes the next map, durably.
    pub(super) fn write_map(
        &mut self,
        copies: &Copies,
        next_slot: u32,
    ) -> Result<(), StorageError> {
        let mut bytes = vec![0; to_index(self.half_bytes())];
        let (sequence, half) = (self.sequence + 1, 1 - self.half);
        copies.encode((self.page_bytes, next_slot), sequence, &mut bytes);
        let mut offset = half * self.half_bytes();
        for piece in bytes.chunks(REQUEST_BYTES_MAX) {
            let mut buffer = self.buffer_of(piece.len());
            buffer.copy_from_slice(piece);
            let ticket =
                self.io.submit(IoOwner::PageWrite, self.map, Operation::Write, offset, buffer)?;
            self.finish(ticket, "cannot write the map of the tier")?;
            offset += piece.len() as u64;
        }
        self.io.sync(self.map)?;
        (self.sequence, self.half) = (sequence, half);
        Ok(())
    }

    /// That a slot does not have the page that it should.
    pub(super) fn damaged(&self, slot: u32, address: PageAddress) -> StorageError {
        let place = format!("slot {slot} of the tier ({})", self.io.name());
        let what = format!(
            "it does not have {address} as it was written, which lies nowhere else; restore the \
             database and its tier from copies of one moment"
        );
        StorageError::Corrupt { place, what }
    }

    fn find_map(&mut self, is_made: bool) -> Result<Option<Map>, StorageError> {
        let half_bytes = self.half_bytes();
        let length = self.io.byte_count(self.map);
        let mut found: Option<Map> = None;
        for half in 0..2 {
            let start = half * half_bytes;
            let bytes = self.read_map(start, half_bytes.min(length.saturating_sub(start)))?;
            let Some(map) = Copies::decode(&bytes) else { continue };
            if found.as_ref().is_none_or(|it| it.sequence < map.sequence) {
                (self.sequence, self.half) = (map.sequence, half);
                found = Some(map);
            }
        }
        let place = format!("file {MAP_FILE} of the tier ({})", self.io.name());
        let Some(map) = found else {
            if !is_made {
                return Ok(None);
            }
            let what =
                "neither of its maps is whole; restore the database and its tier from copies \
                        of one moment"
                    .to_owned();
            return Err(StorageError::Corrupt { place, what });
        };
        let (slots, page_bytes) = (map.copies.slot_count(), map.page_bytes);
        if (slots, page_bytes) != (self.slot_count, self.page_bytes) {
            let what = format!(
                "it is of {slots} slots for pages of {page_bytes} bytes, and the database of {} for \
                 {}; hand the right tier over",
                self.slot_count, self.page_bytes
            );
            return Err(StorageError::Corrupt { place, what });
        }
        Ok(Some(map))
    }

    fn read_map(&self, start: u64, length: u64) -> Result<Vec<u8>, StorageError> {
        let mut bytes = Vec::new();
        while (bytes.len() as u64) < length {
            let left = to_index(length - bytes.len() as u64);
            let buffer = self.buffer_of(left.min(REQUEST_BYTES_MAX));
            let offset = start + bytes.len() as u64;
            let ticket =
                self.io.submit(IoOwner::PoolRead, self.map, Operation::Read, offset, buffer)?;
            bytes.extend_from_slice(&self.finish(ticket, "cannot read the map of the tier")?);
        }
        Ok(bytes)
    }

    fn finish(&self, ticket: u64, what: &str) -> Result<IoBuffer, StorageError> {
        let completion = self.io.wait(ticket);
        match completion.result {
            Ok(()) => Ok(completion.buffer.expect("a request that is done hands its buffer back")),
            Err(error) => Err(StorageError::Device { what: what.to_owned(), error }),
        }
    }

    fn half_bytes(&self) -> u64 {
        let alignment = MAP_ALIGNMENT_BYTES.max(u64::from(self.io.sector_bytes()));
        (Copies::map_bytes(self.slot_count) as u64).next_multiple_of(alignment)
    }

    fn offset_of(&self, slot: u32) -> u64 {
        u64::from(slot) * u64::from(self.page_bytes)
    }

    fn buffer_of(&self, bytes: usize) -> IoBuffer {
        IoBuffer::with_alignment(bytes, self.buffer_alignment as usize)
    }
}
