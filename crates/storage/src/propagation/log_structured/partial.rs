//! Partial segments: what one write appends to a segment, with its summary (S000 reference 18, the
//! log-structured file system of Rosenblum and Ousterhout 1992, section 4.3).
//!
//! ```text
//!   segment   │ partial segment │ partial segment │ …  each starts and ends on a sector
//!   partial   │ header 64 │ records … │ table │ zeros │
//!   header    magic 8 │ generation 8 │ sequence 8 │ durable sequence 8 │ segment 4 │
//!             next segment 4 │ bytes 4 │ table start 4 │ entry count 4 │ frontier 1 │ zero 3 │
//!             CRC of the records 4 │ CRC of the header before it and the table 4
//!   entry     kind 1 │ moved 0/1 1 │ file 2 │ page 4 │ start 4 │ stored bytes 4
//! ```
//!
//! All numbers are big endian. Kinds: 1 packed page, 2 whole page, 3 truncate (the file's pages from
//! this one on are gone; no bytes), 4 difference (`changes`, from the packed or whole record before it).
//! What cleaning moved is the record that it was: a page that is moved keeps its difference, one that
//! is written loses it.
//!
//! 1. A partial segment counts as a whole or not at all, by its two checksums.
//! 2. It names its own segment, so one of another place is not taken for it; and the checkpoint that it
//!    follows (its generation), so neither is one of another time.

use crate::PageAddress;
use nandu_base::to_u32;

/// Bytes before the first record.
pub(super) const HEADER_BYTES: usize = 64;
/// Bytes of the table for each record.
pub(super) const ENTRY_BYTES: usize = 16;
const MAGIC: [u8; 8] = *b"nanduSG2";
const SUMMED_BYTES: usize = HEADER_BYTES - 4;
const NO_SEGMENT: u32 = u32::MAX;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    Packed = 1,
    Whole = 2,
    Truncate = 3,
    Difference = 4,
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: EntryKind,
    /// Whether cleaning copied the record from another segment.
    pub(super) is_moved: bool,
    pub(super) address: PageAddress,
    /// Where the record starts in the partial segment.
    pub(super) start: u32,
    /// Bytes of the record.
    pub(super) stored_bytes: u32,
}

/// What the header says about the write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The checkpoint that came before.
    pub(super) generation: u64,
    /// Number of the write, in all frontiers.
    pub(super) sequence: u64,
    /// Up to this write everything was durable.
    pub(super) durable_sequence: u64,
    pub(super) segment: u32,
    /// Where the same frontier goes on when this segment is full.
    pub(super) next_segment: Option<u32>,
    pub(super) frontier: u8,
    /// Bytes of the partial segment; [`seal`] takes those that it gets.
    pub(super) byte_count: u32,
}

/// A partial segment as read.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) header: Header,
    pub(super) entries: Vec<Entry>,
    records_sum: u32,
    table_start: u32,
}

/// Bytes of a partial segment whose records end at `records_end`, with a table of `entry_count`.
pub(super) const fn sealed_bytes(
    records_end: usize,
    entry_count: usize,
    sector_bytes: u32,
) -> usize {
    (records_end + entry_count * ENTRY_BYTES).next_multiple_of(sector_bytes as usize)
}

/// Puts the table behind the records and fills in the header. `bytes` is as long as [`sealed_bytes`]
/// says, begins with room for the header, and holds the records up to `records_end`.
pub(super) fn seal(bytes: &mut [u8], records_end: usize, header: &Header, entries: &[Entry]) {
    let table_end = records_end + entries.len() * ENTRY_BYTES;
    let table = bytes[records_end..table_end].chunks_exact_mut(ENTRY_BYTES);
    for (line, entry) in table.zip(entries) {
        let kind = u64::from(entry.kind as u8) << 56 | u64::from(entry.is_moved) << 48;
        let word = kind | entry.address.to_word();
        line[..8].copy_from_slice(&word.to_be_bytes());
        line[8..12].copy_from_slice(&entry.start.to_be_bytes());
        line[12..].copy_from_slice(&entry.stored_bytes.to_be_bytes());
    }
    bytes[table_end..].fill(0);
    let records_sum = crc32c::crc32c(&bytes[HEADER_BYTES..records_end]);
    let mut fields = Vec::with_capacity(HEADER_BYTES);
    fields.extend_from_slice(&MAGIC);
    for value in [header.generation, header.sequence, header.durable_sequence] {
        fields.extend_from_slice(&value.to_be_bytes());
    }
    let next_segment = header.next_segment.unwrap_or(NO_SEGMENT);
    let (byte_count, table_start) = (to_u32(bytes.len() as u64), to_u32(records_end as u64));
    let entry_count = to_u32(entries.len() as u64);
    for value in [header.segment, next_segment, byte_count, table_start, entry_count] {
        fields.extend_from_slice(&value.to_be_bytes());
    }
    fields.extend_from_slice(&[header.frontier, 0, 0, 0]);
    fields.extend_from_slice(&records_sum.to_be_bytes());
    let sum = crc32c::crc32c_append(crc32c::crc32c(&fields), &bytes[records_end..table_end]);
    fields.extend_from_slice(&sum.to_be_bytes());
    bytes[..HEADER_BYTES].copy_from_slice(&fields);
}

/// Reads the header and table of the partial segment that `bytes` begins with; `None` if there is none
/// whose summary is whole. Its records are not looked at.
pub(super) fn read_summary(bytes: &[u8]) -> Option<Summary> {
    let fields: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    if fields[..8] != MAGIC {
        return None;
    }
    let long = |at: usize| fields[at..].first_chunk().map(|word| u64::from_be_bytes(*word));
    let short = |at: usize| fields[at..].first_chunk().map(|word| u32::from_be_bytes(*word));
    let (byte_count, table_start, entry_count) = (short(40)?, short(44)?, short(48)?);
    let table_end = u64::from(table_start) + u64::from(entry_count) * ENTRY_BYTES as u64;
    if u64::from(byte_count) < table_end
        || byte_count as usize > bytes.len()
        || (table_start as usize) < HEADER_BYTES
    {
        return None;
    }
    let table = bytes.get(table_start as usize..nandu_base::to_index(table_end))?;
    let sum = crc32c::crc32c_append(crc32c::crc32c(&fields[..SUMMED_BYTES]), table);
    if sum != short(SUMMED_BYTES)? {
        return None;
    }
    let entries = table
        .chunks_exact(ENTRY_BYTES)
        .map(|entry| read_entry(entry, table_start))
        .collect::<Option<Vec<Entry>>>()?;
    let next_segment = Some(short(36)?).filter(|&segment| segment != NO_SEGMENT);
    let header = Header {
        generation: long(8)?,
        sequence: long(16)?,
        durable_sequence: long(24)?,
        segment: short(32)?,
        next_segment,
        frontier: fields[52],
        byte_count,
    };
    Some(Summary { header, entries, records_sum: short(56)?, table_start })
}

impl Summary {
    /// Whether the records are whole, too; `bytes` are those the summary was read from.
    pub(super) fn records_are_whole(&self, bytes: &[u8]) -> bool {
        let records = bytes.get(HEADER_BYTES..self.table_start as usize);
        records.is_some_and(|records| crc32c::crc32c(records) == self.records_sum)
    }
}

fn read_entry(entry: &[u8], table_start: u32) -> Option<Entry> {
    let kind = match entry[0] {
        1 => EntryKind::Packed,
        2 => EntryKind::Whole,
        3 => EntryKind::Truncate,
        4 => EntryKind::Difference,
        _ => return None,
    };
    let is_moved = match entry[1] {
        0 => false,
        1 => true,
        _ => return None,
    };
    let word = u64::from_be_bytes(*entry.first_chunk()?);
    let start = u32::from_be_bytes(*entry[8..].first_chunk()?);
    let stored_bytes = u32::from_be_bytes(*entry[12..].first_chunk()?);
    let address = PageAddress::from_word(word);
    let is_inside = start.checked_add(stored_bytes).is_some_and(|end| end <= table_start)
        && start.is_multiple_of(super::record::UNIT_BYTES);
    let is_record = stored_bytes > 0 && start as usize >= HEADER_BYTES;
    let is_sound = is_inside && address.page > 0 && (kind == EntryKind::Truncate || is_record);
    is_sound.then_some(Entry { kind, is_moved, address, start, stored_bytes })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;
    use proptest::prelude::*;

    fn sample() -> (Vec<u8>, Header, Vec<Entry>) {
        let mut bytes = vec![0; HEADER_BYTES];
        bytes.extend(0..96);
        let entry = |kind, page, start, stored_bytes| {
            let address = PageAddress::new(FileId(3), page);
            Entry { kind, is_moved: page == 7, address, start, stored_bytes }
        };
        let entries = vec![
            entry(EntryKind::Packed, 7, 64, 40),
            entry(EntryKind::Truncate, 9, 0, 0),
            entry(EntryKind::Whole, u32::MAX, 112, 48),
        ];
        let header = Header {
            generation: 5,
            sequence: 77,
            durable_sequence: 70,
            segment: 12,
            next_segment: Some(13),
            frontier: 1,
            byte_count: 512,
        };
        let records_end = bytes.len();
        bytes.resize(sealed_bytes(records_end, entries.len(), 512), 0);
        seal(&mut bytes, records_end, &header, &entries);
        (bytes, header, entries)
    }

    #[test]
    fn a_summary_comes_back() {
        let (mut bytes, header, entries) = sample();
        assert_eq!(bytes.len(), 512);
        bytes.extend([9; 100]);
        let summary = read_summary(&bytes).unwrap();
        assert_eq!((summary.header, &summary.entries), (header, &entries));
        assert!(summary.records_are_whole(&bytes));
        bytes[70] ^= 1;
        let summary = read_summary(&bytes).expect("the summary does not cover the records");
        assert!(!summary.records_are_whole(&bytes));
    }

    #[test]
    fn every_flipped_bit_of_a_summary_is_found() {
        let (bytes, ..) = sample();
        let table = HEADER_BYTES + 96..HEADER_BYTES + 96 + 3 * ENTRY_BYTES;
        for at in (0..HEADER_BYTES).chain(table) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert_eq!(read_summary(&damaged), None, "byte {at}");
        }
        for length in 0..bytes.len() {
            assert_eq!(read_summary(&bytes[..length]), None, "cut to {length} bytes");
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 64..256)) {
            bytes[..8].copy_from_slice(&MAGIC);
            bytes[40] = 0;
            bytes[41] = 0;
            let _ = read_summary(&bytes);
        }
    }
}
