//! The table of files, as it lies on the device: two slots, written in turn.
//!
//! ```text
//!   ┌ slot 0 ───────────┬ slot 1 ───────────┬ units: files and free space ──────────────┐
//!   │ header │ files    │ header │ files    │                                           │
//!   └────────┴──────────┴────────┴──────────┴───────────────────────────────────────────┘
//!   header  magic 16 │ version 4 │ sector bytes 4 │ slot bytes 4 │ unit bytes 4 │
//!           unit count 4 │ generation 8 │ payload bytes 4 │ CRC 4
//!   file    number 2 │ name bytes 2 │ name │ records from 8 │ byte count 8 │ extent count 4 │
//!           range count 4 │ (first unit 4, unit count 4)… │ (start 8, end 8)…
//! ```
//!
//! All numbers are big endian. The checksum covers the header before it and the payload.
//!
//! 1. The slot whose checksum holds and whose generation is the highest is the table.
//! 2. A table is written into the slot that is not the durable one, so a torn write loses nothing.

use super::extents::Extent;
use super::ranges::RangeSet;
use crate::volume::FileName;
use crate::{FileId, Lsn, StorageError};
use nandu_base::{to_index, to_u32};
use nandu_device::{Geometry, SECTOR_BYTES};
use std::collections::{BTreeMap, BTreeSet};

/// The first bytes of each slot.
const MAGIC: &[u8; 16] = b"nandu volume\0\0\r\n";
/// The version of the layout that is written and read.
pub(super) const VERSION: u32 = 2;
/// Bytes of a slot's header.
pub(super) const HEADER_BYTES: usize = 52;
/// Most ranges that a file's written bytes may fall into.
pub(super) const RANGE_COUNT_MAX: usize = 16;
/// The smallest and the largest slot.
const SLOT_BYTES: (u64, u64) = (16 << 10, 1 << 20);
/// The smallest and, on devices below 64 TiB, the largest allocation unit.
const UNIT_BYTES: (u64, u64) = (4 << 10, 64 << 10);

/// A file as the table keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileEntry {
    /// The file's name, unique in the table.
    pub(super) name: FileName,
    /// The first record of a log that may speak of it.
    pub(super) records_from: Lsn,
    /// The file's length in bytes.
    pub(super) byte_count: u64,
    /// Where its bytes lie, in order.
    pub(super) extents: Vec<Extent>,
    /// Which of them were written; all others are zeros, whatever the device holds there.
    pub(super) written: RangeSet,
}

/// How a device is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// Bytes of a sector.
    pub(super) sector_bytes: u32,
    /// Bytes of each of the two slots.
    pub(super) slot_bytes: u32,
    /// Bytes of an allocation unit.
    pub(super) unit_bytes: u32,
    /// How many units there are, with those under the slots.
    pub(super) unit_count: u32,
}

/// All that a slot says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Table {
    /// How the device is divided.
    pub(super) layout: Layout,
    /// Counts the writes of the table.
    pub(super) generation: u64,
    /// All files of the volume by their numbers.
    pub(super) files: BTreeMap<FileId, FileEntry>,
}

/// What a slot holds.
#[derive(Debug)]
pub(super) enum Slot {
    /// A table whose checksum is right.
    Sound(Box<Table>),
    /// A table that was torn or damaged; with what is wrong.
    Damaged(String),
    /// A table of another version of the layout.
    OtherVersion(u32),
    /// Something else lies there, no table of ours.
    Foreign,
}

impl Layout {
    /// How a device of this geometry is divided.
    ///
    /// # Errors
    /// If it is too small for anything.
    pub(super) fn of(geometry: Geometry) -> Result<Self, StorageError> {
        let capacity = geometry.capacity().0;
        let sector_bytes = u64::from(geometry.sector_bytes);
        let power_below = |bytes: u64| 1_u64 << bytes.max(1).ilog2();
        let slot_bytes =
            power_below(capacity / 64).clamp(SLOT_BYTES.0, SLOT_BYTES.1).max(sector_bytes);
        let unit_bytes = power_below(capacity / 1024)
            .clamp(UNIT_BYTES.0, UNIT_BYTES.1)
            .max(sector_bytes)
            .max(power_below(capacity >> 31));
        let unit_count = capacity / unit_bytes;
        if unit_count * unit_bytes < 2 * slot_bytes + 4 * unit_bytes {
            let what = format!(
                "a device of {capacity} bytes is too small for a volume, {} would do",
                2 * slot_bytes + 4 * unit_bytes
            );
            return Err(StorageError::InvalidSetting { what });
        }
        Ok(Self {
            sector_bytes: geometry.sector_bytes,
            slot_bytes: to_u32(slot_bytes),
            unit_bytes: to_u32(unit_bytes),
            unit_count: to_u32(unit_count),
        })
    }

    /// Whether the numbers make sense together, as those of a stored table must.
    pub(super) fn is_sound(&self) -> bool {
        let Self { sector_bytes, slot_bytes, unit_bytes, unit_count } = *self;
        let in_whole = |bytes: u32| bytes.is_power_of_two() && bytes >= sector_bytes;
        SECTOR_BYTES.contains(&sector_bytes)
            && sector_bytes.is_power_of_two()
            && in_whole(unit_bytes)
            && in_whole(slot_bytes)
            && u64::from(slot_bytes) <= SLOT_BYTES.1
            && self.first_unit() < unit_count
    }

    /// The first unit past the slots.
    pub(super) const fn first_unit(&self) -> u32 {
        (2 * self.slot_bytes).div_ceil(self.unit_bytes)
    }

    /// Whole units for so many bytes.
    pub(super) const fn units_of(&self, bytes: u64) -> u64 {
        bytes.div_ceil(self.unit_bytes as u64)
    }
}

impl FileEntry {
    /// An empty file.
    pub(super) fn new(name: FileName, records_from: Lsn) -> Self {
        let (extents, written) = (Vec::new(), RangeSet::default());
        Self { name, records_from, byte_count: 0, extents, written }
    }

    /// Units of all extents.
    pub(super) fn unit_count(&self) -> u64 {
        self.extents.iter().map(|extent| u64::from(extent.count)).sum()
    }

    /// The most bytes that the file takes in a slot.
    fn table_bytes_max(&self) -> usize {
        28 + self.name.as_str().len() + 8 * self.extents.len() + 16 * (RANGE_COUNT_MAX + 1)
    }
}

impl Table {
    /// A table without files.
    pub(super) fn empty(layout: Layout) -> Self {
        Self { layout, generation: 0, files: BTreeMap::new() }
    }

    /// Whether the files and `more_bytes` fit into a slot.
    pub(super) fn has_room(&self, more_bytes: usize) -> bool {
        let files: usize = self.files.values().map(FileEntry::table_bytes_max).sum();
        HEADER_BYTES + files + more_bytes <= self.layout.slot_bytes as usize
    }

    /// The bytes of a slot, as long as they need.
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut bytes = vec![0; HEADER_BYTES];
        for (file, entry) in &self.files {
            bytes.extend(file.0.to_be_bytes());
            let name = entry.name.as_str();
            let name_bytes = u16::try_from(name.len()).expect("names are short");
            bytes.extend(name_bytes.to_be_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend(entry.records_from.0.to_be_bytes());
            bytes.extend(entry.byte_count.to_be_bytes());
            bytes.extend(to_u32(entry.extents.len() as u64).to_be_bytes());
            bytes.extend(to_u32(entry.written.count() as u64).to_be_bytes());
            for extent in &entry.extents {
                bytes.extend(extent.first.to_be_bytes());
                bytes.extend(extent.count.to_be_bytes());
            }
            for range in entry.written.iter() {
                bytes.extend(range.start.to_be_bytes());
                bytes.extend(range.end.to_be_bytes());
            }
        }
        let Layout { sector_bytes, slot_bytes, unit_bytes, unit_count } = self.layout;
        let mut header = MAGIC.to_vec();
        for word in [VERSION, sector_bytes, slot_bytes, unit_bytes, unit_count] {
            header.extend(word.to_be_bytes());
        }
        header.extend(self.generation.to_be_bytes());
        header.extend(to_u32((bytes.len() - HEADER_BYTES) as u64).to_be_bytes());
        bytes[..header.len()].copy_from_slice(&header);
        let sum = checksum_of(&bytes);
        bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_be_bytes());
        bytes
    }

    /// The bytes of a slot, as its header has them; `None` where this is no slot. Good before the
    /// checksum was looked at, since a sector is never torn inside.
    pub(super) fn slot_bytes_of(header: &[u8]) -> Option<u32> {
        let bytes = header.strip_prefix(MAGIC)?.get(8..12)?;
        let slot_bytes = u32::from_be_bytes(bytes.try_into().ok()?);
        let known = SLOT_BYTES.0..=SLOT_BYTES.1;
        (slot_bytes.is_power_of_two() && known.contains(&u64::from(slot_bytes)))
            .then_some(slot_bytes)
    }

    /// What the bytes of a whole slot say.
    pub(super) fn decode(bytes: &[u8]) -> Slot {
        let damaged = |what: &str| Slot::Damaged(what.to_owned());
        let mut header = Reader { rest: bytes };
        if header.take(MAGIC.len()) != Some(MAGIC) {
            return Slot::Foreign;
        }
        match header.word() {
            Some(VERSION) => {}
            Some(other) => return Slot::OtherVersion(other),
            None => return damaged("the header is cut off"),
        }
        let words = [0; 4].map(|_: u32| header.word().unwrap_or(0));
        let [sector_bytes, slot_bytes, unit_bytes, unit_count] = words;
        let generation = header.long().unwrap_or(0);
        let payload_bytes = header.word().unwrap_or(0) as usize;
        let sum = header.word();
        let Some(whole) = bytes.get(..HEADER_BYTES.saturating_add(payload_bytes)) else {
            return damaged("the table is longer than its slot");
        };
        if sum != Some(checksum_of(whole)) {
            return damaged("the table does not match its checksum");
        }
        let layout = Layout { sector_bytes, slot_bytes, unit_bytes, unit_count };
        let mut table = Self { layout, generation, files: BTreeMap::new() };
        match table.read_files(&whole[HEADER_BYTES..]) {
            Some(()) => Slot::Sound(Box::new(table)),
            None => damaged("the table of files ends early or breaks its own rules"),
        }
    }

    fn read_files(&mut self, payload: &[u8]) -> Option<()> {
        let mut reader = Reader { rest: payload };
        let mut names = BTreeSet::new();
        while !reader.rest.is_empty() {
            let file = FileId(reader.short()?);
            let name_bytes = reader.short()?;
            let name = std::str::from_utf8(reader.take(usize::from(name_bytes))?).ok()?;
            let name = FileName::new(name).ok().filter(|name| names.insert(name.clone()))?;
            let mut entry = FileEntry::new(name, Lsn(reader.long()?));
            entry.byte_count = reader.long()?;
            let (extent_count, range_count) = (reader.word()?, reader.word()?);
            for _ in 0..extent_count {
                entry.extents.push(Extent { first: reader.word()?, count: reader.word()? });
            }
            for _ in 0..range_count {
                let range = reader.long()?..reader.long()?;
                if range.start < entry.written.end() || range.is_empty() {
                    return None;
                }
                entry.written.add(range);
            }
            if file.0 == 0 || self.files.insert(file, entry).is_some() {
                return None;
            }
        }
        Some(())
    }
}

fn checksum_of(slot: &[u8]) -> u32 {
    let sum = crc32c::crc32c(&slot[..HEADER_BYTES - 4]);
    crc32c::crc32c_append(sum, &slot[HEADER_BYTES..])
}

/// Numbers from the front of a slice.
struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    fn short(&mut self) -> Option<u16> {
        self.take(2)?.try_into().ok().map(u16::from_be_bytes)
    }

    fn word(&mut self) -> Option<u32> {
        self.take(4)?.try_into().ok().map(u32::from_be_bytes)
    }

    fn long(&mut self) -> Option<u64> {
        self.take(8)?.try_into().ok().map(u64::from_be_bytes)
    }
}

/// How many sectors a table needs.
pub(super) fn sectors_of(bytes: usize, sector_bytes: u32) -> u32 {
    to_u32((bytes as u64).div_ceil(u64::from(sector_bytes)))
}

/// `bytes`, filled up with zeros to whole sectors.
pub(super) fn padded(mut bytes: Vec<u8>, sector_bytes: u32) -> Vec<u8> {
    let whole = u64::from(sectors_of(bytes.len(), sector_bytes)) * u64::from(sector_bytes);
    bytes.resize(to_index(whole), 0);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let layout = Layout::of(Geometry::new(512, 1 << 15).unwrap()).unwrap();
        let mut table = Table::empty(layout);
        table.generation = 7;
        for (number, name) in [(1, "log"), (3, "käse")] {
            let extents =
                vec![Extent { first: 40 * number, count: 3 }, Extent { first: 9, count: 1 }];
            let mut written = RangeSet::default();
            written.add(0..512);
            written.add(1024..4096);
            let (name, records_from) = (FileName::new(name).unwrap(), Lsn(9 << 40));
            let entry = FileEntry { name, records_from, byte_count: 5000, extents, written };
            table.files.insert(FileId(u16::try_from(number).unwrap()), entry);
        }
        table
    }

    #[test]
    fn a_table_is_read_back_and_a_flipped_bit_anywhere_is_found() {
        let table = table();
        let bytes = padded(table.encode(), 512);
        assert!(matches!(Table::decode(&bytes), Slot::Sound(read) if *read == table));
        for at in 0..table.encode().len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(!matches!(Table::decode(&damaged), Slot::Sound(_)), "byte {at}");
        }
        for length in 0..table.encode().len() {
            assert!(!matches!(Table::decode(&bytes[..length]), Slot::Sound(_)), "cut at {length}");
        }
    }

    #[test]
    fn names_that_no_file_may_have_are_refused() {
        let good = padded(table().encode(), 512);
        let at = good.windows(3).position(|bytes| bytes == b"log").unwrap();
        for name in [b"../", b"/ab", b".ab", b"a\0b"] {
            let mut bytes = good.clone();
            bytes[at..at + 3].copy_from_slice(name);
            let length = table().encode().len();
            let sum = checksum_of(&bytes[..length]);
            bytes[HEADER_BYTES - 4..HEADER_BYTES].copy_from_slice(&sum.to_be_bytes());
            assert!(matches!(Table::decode(&bytes), Slot::Damaged(_)), "{name:?}");
        }
    }

    #[test]
    fn other_bytes_and_other_versions_are_told_apart() {
        assert!(matches!(Table::decode(&[0; 4096]), Slot::Foreign));
        assert!(matches!(Table::decode(b"SQLite format 3\0"), Slot::Foreign));
        let mut bytes = table().encode();
        bytes[19] = 1;
        assert!(matches!(Table::decode(&bytes), Slot::OtherVersion(1)));
    }

    #[test]
    fn layouts_fit_devices_of_any_size() {
        for (sector_bytes, sector_count) in
            [(512, 200), (512, 2048), (4096, 1 << 20), (65_536, 64), (4096, 1 << 45)]
        {
            let geometry = Geometry::new(sector_bytes, sector_count).unwrap();
            let layout = Layout::of(geometry).unwrap();
            let units = u64::from(layout.unit_count) * u64::from(layout.unit_bytes);
            assert!(units <= geometry.capacity().0);
            assert!(geometry.capacity().0 - units < u64::from(layout.unit_bytes));
            assert!(layout.first_unit() < layout.unit_count);
            assert!(layout.unit_bytes.is_multiple_of(sector_bytes));
        }
        assert!(Layout::of(Geometry::new(512, 64).unwrap()).is_err());
    }
}
