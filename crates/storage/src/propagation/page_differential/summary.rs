//! What is written at a time: a summary, which has the spare areas of the flash pages, and these.
//!
//! ```text
//!   header  magic 8 │ page bytes 4 │ segment bytes 4 │ era 8 │ sequence 8 │ previous 8 │
//!           durable sequence 8 │ opened at 8 │ state 8 │ segment 4 │ byte count 4 │ entry count 4 │
//!           zero 12 │ CRC of all but itself 4 │ zero 4
//!   entry   kind 1 │ zero 3 │ CRC of the flash page 4 │ address 8 │ stamp 8 │ start 4 │ zero 4
//!
//!   │ header │ entry … │ pad to a sector │ flash page │ flash page … │
//! ```
//!
//! Numbers are big endian.
//!
//! 1. Whatever bytes are read, a summary is whole or there is none.

use crate::PageAddress;
use nandu_base::{to_index, to_u32};

const MAGIC: [u8; 8] = *b"nanduPD1";
pub(super) const HEADER_BYTES: usize = 96;
pub(super) const ENTRY_BYTES: usize = 32;
/// Where the checksum of the summary stands.
const SUM_AT: usize = 88;

/// What an entry is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// A page as it is.
    Base,
    /// Differentials of several pages.
    Differentials,
    /// The pages of a file from its address on are gone, as they were before the stamp.
    Truncated,
    /// Writes with sequences from the word of its address to the stamp never were.
    Void,
}

/// The spare area of a flash page, or a note.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) kind: EntryKind,
    pub(super) sum: u32,
    pub(super) address: u64,
    pub(super) stamp: u64,
    /// Where the flash page starts, from the start of the write on.
    pub(super) start: u32,
}

/// The fixed part of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) page_bytes: u32,
    pub(super) segment_bytes: u32,
    /// Counts the openings.
    pub(super) era: u64,
    pub(super) sequence: u64,
    /// The write before this one.
    pub(super) previous: u64,
    /// All writes up to this one were durable.
    pub(super) durable_sequence: u64,
    /// The sequence of the first write into this segment.
    pub(super) opened_at: u64,
    /// What the table of pages sums up to with this write.
    pub(super) state: u64,
    pub(super) segment: u32,
    /// Bytes of all of it.
    pub(super) byte_count: u32,
}

/// A summary that is whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summary {
    pub(super) header: Header,
    pub(super) entries: Vec<Entry>,
}

impl Entry {
    /// The page that it is about.
    pub(super) fn page(&self) -> PageAddress {
        PageAddress::from_word(self.address)
    }

    /// Whether a flash page goes with it.
    pub(super) fn has_flash_page(&self) -> bool {
        matches!(self.kind, EntryKind::Base | EntryKind::Differentials)
    }
}

/// Bytes in front of the flash pages.
pub(super) fn front_bytes(entry_count: usize, sector_bytes: u32) -> u64 {
    ((HEADER_BYTES + entry_count * ENTRY_BYTES) as u64).next_multiple_of(u64::from(sector_bytes))
}

/// Writes the summary of `entries` to the front of `bytes`; the flash pages are there.
pub(super) fn seal(bytes: &mut [u8], header: &Header, entries: &[Entry]) {
    let mut fields = Vec::with_capacity(HEADER_BYTES + entries.len() * ENTRY_BYTES);
    fields.extend_from_slice(&MAGIC);
    fields.extend_from_slice(&header.page_bytes.to_be_bytes());
    fields.extend_from_slice(&header.segment_bytes.to_be_bytes());
    let Header { era, sequence, previous, durable_sequence, opened_at, state, .. } = *header;
    for value in [era, sequence, previous, durable_sequence, opened_at, state] {
        fields.extend_from_slice(&value.to_be_bytes());
    }
    let entry_count = to_u32(entries.len() as u64);
    for value in [header.segment, header.byte_count, entry_count, 0, 0, 0, 0, 0] {
        fields.extend_from_slice(&value.to_be_bytes());
    }
    assert_eq!(fields.len(), HEADER_BYTES, "the layout of the header");
    for entry in entries {
        let kind = match entry.kind {
            EntryKind::Base => 1,
            EntryKind::Differentials => 2,
            EntryKind::Truncated => 3,
            EntryKind::Void => 4,
        };
        fields.extend_from_slice(&[kind, 0, 0, 0]);
        fields.extend_from_slice(&entry.sum.to_be_bytes());
        fields.extend_from_slice(&entry.address.to_be_bytes());
        fields.extend_from_slice(&entry.stamp.to_be_bytes());
        fields.extend_from_slice(&entry.start.to_be_bytes());
        fields.extend_from_slice(&[0; 4]);
    }
    let sum = sum_of(&fields);
    fields[SUM_AT..SUM_AT + 4].copy_from_slice(&sum.to_be_bytes());
    bytes[..fields.len()].copy_from_slice(&fields);
}

fn sum_of(summary: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(&summary[..SUM_AT]), &summary[SUM_AT + 4..])
}

/// How many bytes the summary has that `bytes` may begin with, if it looks like one.
pub(super) fn summary_bytes(bytes: &[u8]) -> Option<usize> {
    let fields: &[u8; HEADER_BYTES] = bytes.first_chunk()?;
    if fields[..8] != MAGIC {
        return None;
    }
    let word = |at: usize| fields[at..].first_chunk().map(|word| u32::from_be_bytes(*word));
    let (byte_count, entry_count) = (word(68)?, word(72)?);
    let bytes = HEADER_BYTES as u64 + u64::from(entry_count) * ENTRY_BYTES as u64;
    (bytes <= u64::from(byte_count)).then(|| to_index(bytes))
}

/// Reads the summary that `bytes` begins with; `None` if there is none that is whole.
pub(super) fn read_summary(bytes: &[u8]) -> Option<Summary> {
    let summary = bytes.get(..summary_bytes(bytes)?)?;
    let short = |at: usize| summary[at..].first_chunk().map(|word| u32::from_be_bytes(*word));
    let long = |at: usize| summary[at..].first_chunk().map(|word| u64::from_be_bytes(*word));
    if sum_of(summary) != short(SUM_AT)? {
        return None;
    }
    let header = Header {
        page_bytes: short(8)?,
        segment_bytes: short(12)?,
        era: long(16)?,
        sequence: long(24)?,
        previous: long(32)?,
        durable_sequence: long(40)?,
        opened_at: long(48)?,
        state: long(56)?,
        segment: short(64)?,
        byte_count: short(68)?,
    };
    let table = summary[HEADER_BYTES..].chunks_exact(ENTRY_BYTES);
    let entries = table.map(|entry| read_entry(entry, &header)).collect::<Option<_>>()?;
    let is_ordered = header.previous < header.sequence
        && header.durable_sequence <= header.previous
        && header.opened_at <= header.sequence;
    is_ordered.then_some(Summary { header, entries })
}

/// Flash pages begin on sectors, which a place is told by in so many bytes at least.
const PLACE_ALIGNMENT: u32 = 16;

fn read_entry(entry: &[u8], header: &Header) -> Option<Entry> {
    let kind = match entry[0] {
        1 => EntryKind::Base,
        2 => EntryKind::Differentials,
        3 => EntryKind::Truncated,
        4 => EntryKind::Void,
        _ => return None,
    };
    let long = |at: usize| entry[at..].first_chunk().map(|word| u64::from_be_bytes(*word));
    let sum = u32::from_be_bytes(*entry[4..].first_chunk()?);
    let start = u32::from_be_bytes(*entry[24..].first_chunk()?);
    let entry = Entry { kind, sum, address: long(8)?, stamp: long(16)?, start };
    let end = u64::from(start) + u64::from(header.page_bytes);
    let is_inside = end <= u64::from(header.byte_count) && start as usize >= HEADER_BYTES;
    let names_page = matches!(kind, EntryKind::Base | EntryKind::Truncated);
    let is_sound = (is_inside || !entry.has_flash_page())
        // A sector has a multiple of so many bytes.
        && start.is_multiple_of(PLACE_ALIGNMENT)
        && (!names_page || entry.page().page > 0)
        && entry.stamp < header.sequence;
    is_sound.then_some(entry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::FileId;
    use proptest::prelude::*;

    fn sample() -> (Vec<u8>, Header, Vec<Entry>) {
        let page = PageAddress::new(FileId(3), 7).to_word();
        let entry = |kind, address, start| Entry { kind, sum: 5, address, stamp: 76, start };
        let entries = vec![
            entry(EntryKind::Base, page, 512),
            entry(EntryKind::Differentials, 0, 1024),
            entry(EntryKind::Truncated, page, 0),
            entry(EntryKind::Void, 70, 0),
        ];
        let header = Header {
            page_bytes: 512,
            segment_bytes: 8192,
            era: 2,
            sequence: 77,
            previous: 75,
            durable_sequence: 70,
            opened_at: 77,
            state: 0x1234_5678_9ABC_DEF0,
            segment: 12,
            byte_count: 1536,
        };
        let mut bytes = vec![0; 1536];
        seal(&mut bytes, &header, &entries);
        (bytes, header, entries)
    }

    #[test]
    fn a_summary_comes_back() {
        let (mut bytes, header, entries) = sample();
        bytes.extend([9; 100]);
        assert_eq!(read_summary(&bytes), Some(Summary { header, entries }));
        assert_eq!(front_bytes(4, 512), 512);
        assert_eq!(front_bytes(14, 512), 1024);
    }

    #[test]
    fn every_flipped_bit_of_a_summary_is_found() {
        let (bytes, ..) = sample();
        for at in 0..HEADER_BYTES + 4 * ENTRY_BYTES {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1 << (at % 8);
            assert_eq!(read_summary(&damaged), None, "byte {at}");
        }
        for length in 0..HEADER_BYTES + 4 * ENTRY_BYTES {
            assert_eq!(read_summary(&bytes[..length]), None, "cut to {length} bytes");
        }
    }

    proptest! {
        #[test]
        fn hostile_bytes_never_panic(mut bytes in proptest::collection::vec(any::<u8>(), 64..256)) {
            bytes[..8].copy_from_slice(&MAGIC);
            if let Some(place) = bytes.get_mut(72..75) {
                place.fill(0);
            }
            let _ = read_summary(&bytes);
        }
    }
}
