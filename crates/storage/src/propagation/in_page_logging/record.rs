//! What in-page logging writes on flash beside pages: spare areas and log sectors.
//!
//! ```text
//!   spare area  CRC 4 │ kind 1 │ part 1 │ merged pages 2 │ erase count 4 │ sequence 6 │ source 6
//!               │ file 2 │ page 4
//!   log sector  CRC 4 │ kind 1 │ part 1 │ part count 1 │ 0 1 │ slot 4 │ group 4 │ bytes 4 │ record
//! ```
//!
//! All numbers are big endian. The sequence is that of the unit, the source that of the unit from which it
//! was merged. A record of changes is that of `changes`; one of a cut is slots of 4 bytes each, whose
//! pages are gone. A record that is longer than a sector is cut into parts.
//!
//! 1. A flash page is what its spare area says, whose CRC covers it. A log page has one, too, from its
//!    first sector on.
//! 2. A sector counts if its CRC does, and a record if all its parts are there, one behind the other.

use super::Layout;
use crate::PageAddress;
use nandu_base::to_u32;
use nandu_device::raw_flash::BLANK;

/// Bytes of the spare area that are used.
pub(super) const SPARE_BYTES: u32 = 30;
/// Bytes of a sector before its record.
pub(super) const SECTOR_HEADER_BYTES: u32 = 20;
/// Most parts of a record.
pub(super) const PART_COUNT_MAX: usize = 255;
const SUM_BYTES: usize = 4;
/// Bytes of a sequence, or of a page with its file.
const NUMBER_BYTES: usize = 6;

/// What a flash page is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlashPageKind {
    /// A part of a page.
    Data = 1,
    /// Log sectors of the unit.
    Log = 2,
}

/// What a spare area says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Spare {
    pub(super) kind: FlashPageKind,
    /// Which flash page of a slot.
    pub(super) part: u8,
    /// So many slots, the first ones, were written by the merge that made the unit, and count together.
    pub(super) merged_count: u16,
    /// Erases of the unit.
    pub(super) erase_count: u32,
    /// Number of the unit's use, from 1 on.
    pub(super) sequence: u64,
    /// That of the unit from which a merge made it; 0 if none did.
    pub(super) source: u64,
    /// The page, of data.
    pub(super) address: PageAddress,
}

/// What a log sector is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SectorKind {
    /// Where the page of a slot changed.
    Changes = 1,
    /// Pages of slots that are gone.
    Cut = 2,
}

/// A log sector, with its part of the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Sector<'a> {
    pub(super) kind: SectorKind,
    pub(super) part: u8,
    pub(super) part_count: u8,
    /// The slot that it is about.
    pub(super) slot: u32,
    /// Where the first part of the record lies, counted in sectors.
    pub(super) group: u32,
    pub(super) record: &'a [u8],
}

/// What lies on flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Found<T> {
    /// Nothing was programmed.
    Blank,
    Whole(T),
    /// Something else, or torn bytes.
    Damaged,
}

fn is_blank(bytes: &[u8]) -> bool {
    bytes.iter().all(|&byte| byte == BLANK)
}

/// Puts the sum of what follows it in front.
fn seal(bytes: &mut [u8], end: usize) {
    let sum = crc32c::crc32c(&bytes[SUM_BYTES..end]).to_be_bytes();
    bytes[..SUM_BYTES].copy_from_slice(&sum);
}

impl Spare {
    pub(super) fn encode(&self) -> [u8; SPARE_BYTES as usize] {
        let mut bytes = [0; SPARE_BYTES as usize];
        (bytes[4], bytes[5]) = (self.kind as u8, self.part);
        bytes[6..8].copy_from_slice(&self.merged_count.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.erase_count.to_be_bytes());
        let numbers = [self.sequence, self.source, self.address.to_word()];
        for (place, number) in bytes[12..].chunks_exact_mut(NUMBER_BYTES).zip(numbers) {
            let number = number.to_be_bytes();
            place.copy_from_slice(&number[number.len() - NUMBER_BYTES..]);
        }
        seal(&mut bytes, SPARE_BYTES as usize);
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Found<Self> {
        if is_blank(bytes) {
            return Found::Blank;
        }
        Self::parse(bytes).map_or(Found::Damaged, Found::Whole)
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let sum = crc32c::crc32c(bytes.get(SUM_BYTES..SPARE_BYTES as usize)?);
        if bytes[..SUM_BYTES] != sum.to_be_bytes() {
            return None;
        }
        let kind = match bytes[4] {
            1 => FlashPageKind::Data,
            2 => FlashPageKind::Log,
            _ => return None,
        };
        let number = |at: usize| {
            let bytes = &bytes[12 + at * NUMBER_BYTES..][..NUMBER_BYTES];
            bytes.iter().fold(0, |number, &byte| number << 8 | u64::from(byte))
        };
        let address = PageAddress::from_word(number(2));
        if kind == FlashPageKind::Data && address.page == 0 {
            return None;
        }
        Some(Self {
            kind,
            part: bytes[5],
            merged_count: u16::from_be_bytes(*bytes[6..].first_chunk()?),
            erase_count: u32::from_be_bytes(*bytes[8..].first_chunk()?),
            sequence: number(0),
            source: number(1),
            address,
        })
    }
}

impl<'a> Sector<'a> {
    /// The sector, of `sector_bytes`; what follows the record stays blank.
    pub(super) fn encode(&self, sector_bytes: u32) -> Vec<u8> {
        let mut bytes = vec![BLANK; sector_bytes as usize];
        bytes[4..8].copy_from_slice(&[self.kind as u8, self.part, self.part_count, 0]);
        bytes[8..12].copy_from_slice(&self.slot.to_be_bytes());
        bytes[12..16].copy_from_slice(&self.group.to_be_bytes());
        let length = to_u32(self.record.len() as u64);
        bytes[16..20].copy_from_slice(&length.to_be_bytes());
        let end = SECTOR_HEADER_BYTES as usize + self.record.len();
        bytes[SECTOR_HEADER_BYTES as usize..end].copy_from_slice(self.record);
        seal(&mut bytes, end);
        bytes
    }

    pub(super) fn decode(bytes: &'a [u8]) -> Found<Self> {
        if is_blank(bytes) {
            return Found::Blank;
        }
        Self::parse(bytes).map_or(Found::Damaged, Found::Whole)
    }

    fn parse(bytes: &'a [u8]) -> Option<Self> {
        let word = |at: usize| bytes.get(at..)?.first_chunk().map(|it| u32::from_be_bytes(*it));
        let end = (SECTOR_HEADER_BYTES as usize).checked_add(word(16)? as usize)?;
        let covered = bytes.get(SUM_BYTES..end)?;
        if word(0)? != crc32c::crc32c(covered) {
            return None;
        }
        let kind = match bytes[4] {
            1 => SectorKind::Changes,
            2 => SectorKind::Cut,
            _ => return None,
        };
        let (part, part_count) = (bytes[5], bytes[6]);
        let record = &bytes[SECTOR_HEADER_BYTES as usize..end];
        let (slot, group) = (word(8)?, word(12)?);
        (part < part_count).then_some(Self { kind, part, part_count, slot, group, record })
    }
}

/// Log sectors that a record of so many bytes takes.
pub(super) const fn sector_count(record_bytes: usize, layout: &Layout) -> usize {
    let count = record_bytes.div_ceil(layout.payload_bytes());
    if count == 0 { 1 } else { count }
}

/// A record, put together from its parts as they come.
#[derive(Debug, Default)]
pub(super) struct Assembly {
    begun: Option<(SectorKind, u32, u32)>,
    next_part: u8,
    record: Vec<u8>,
}

impl Assembly {
    /// Takes a sector, and gives back the record that it ends, if it does.
    pub(super) fn take(&mut self, sector: &Sector<'_>) -> Option<&[u8]> {
        if sector.part == 0 {
            self.begun = Some((sector.kind, sector.slot, sector.group));
            self.record.clear();
            self.next_part = 0;
        }
        let is_next = self.begun == Some((sector.kind, sector.slot, sector.group))
            && self.next_part == sector.part;
        if !is_next {
            self.begun = None;
            return None;
        }
        self.record.extend_from_slice(sector.record);
        if sector.part + 1 < sector.part_count {
            self.next_part += 1;
            return None;
        }
        self.begun = None;
        Some(&self.record)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;
    use proptest::prelude::*;

    fn spare() -> Spare {
        Spare {
            kind: FlashPageKind::Data,
            part: 3,
            merged_count: 500,
            erase_count: 70_000,
            sequence: 1 << 40,
            source: (1 << 40) - 1,
            address: PageAddress::new(FileId(7), 9),
        }
    }

    #[test]
    fn spare_areas_come_back_and_no_bit_may_flip() {
        let bytes = spare().encode();
        assert_eq!(Spare::decode(&bytes), Found::Whole(spare()));
        assert_eq!(Spare::decode(&[BLANK; SPARE_BYTES as usize]), Found::Blank);
        for bit in 0..bytes.len() * 8 {
            let mut bytes = bytes;
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Spare::decode(&bytes), Found::Damaged, "bit {bit}");
        }
    }

    fn sector(part: u8, part_count: u8, group: u32, record: &[u8]) -> Sector<'_> {
        Sector { kind: SectorKind::Changes, part, part_count, slot: 4, group, record }
    }

    #[test]
    fn sectors_come_back_and_no_bit_of_them_may_flip() {
        let one = sector(0, 1, 8, b"changes");
        let bytes = one.encode(64);
        assert_eq!(Sector::decode(&bytes), Found::Whole(one));
        for bit in 0..27 * 8 {
            let mut bytes = bytes.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Sector::decode(&bytes), Found::Damaged, "bit {bit}");
        }
    }

    #[test]
    fn a_record_counts_when_all_its_parts_came_one_behind_the_other() {
        let mut assembly = Assembly::default();
        assert_eq!(assembly.take(&sector(0, 2, 1, b"ab")), None);
        assert_eq!(assembly.take(&sector(1, 2, 1, b"c")), Some(&b"abc"[..]));
        assert_eq!(assembly.take(&sector(1, 2, 1, b"c")), None, "it has ended");
        assert_eq!(assembly.take(&sector(0, 3, 3, b"a")), None);
        assert_eq!(
            assembly.take(&sector(0, 1, 4, b"x")),
            Some(&b"x"[..]),
            "the one before is lost"
        );
        assert_eq!(assembly.take(&sector(1, 3, 3, b"b")), None);
        assert_eq!(assembly.take(&sector(0, 3, 5, b"a")), None);
        assert_eq!(assembly.take(&sector(2, 3, 5, b"c")), None, "one is missing");
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(bytes in proptest::collection::vec(0_u8..4, 0..64)) {
            let _ = Spare::decode(&bytes);
            let _ = Sector::decode(&bytes);
        }
    }
}
