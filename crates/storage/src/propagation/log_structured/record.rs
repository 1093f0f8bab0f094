//! A page as a record of a segment, and where it lies.
//!
//! ```text
//!   packed  hole start 4 │ hole bytes 4 │ page before the hole │ page after it │ pad to 16
//!   whole   the page, on whole sectors
//!
//!   location, 64 bits   offset / 16: 44 │ zero 3 │ whole 1 │ stored bytes / 16: 16
//! ```
//!
//! The hole is the longest run of zeros: a tree's free gap, the unused end of a heap page. A page
//! carries its own checksum, so a record needs none.
//!
//! 1. A location is 0 for a page that was never written; no record lies at offset 0.
//! 2. What is packed comes out as it went in.

use std::ops::Range;

/// Records start and end at multiples of this.
pub(in crate::propagation) const UNIT_BYTES: u32 = 16;
/// Where the hole starts and how long it is.
const HEADER_BYTES: usize = 8;
const HEADER_BYTES_U32: u32 = 8;
/// A shorter run of zeros is not worth the copying in two parts.
const HOLE_BYTES_MIN: usize = 16;

/// Where a record lies in the file of segments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::propagation) struct Location(u64);

impl Location {
    /// Of a page that was never written.
    pub(in crate::propagation) const NONE: Self = Self(0);
    const OFFSET_SHIFT: u32 = 20;
    const WHOLE: u64 = 1 << 16;

    /// Of a record of `stored_bytes` at `offset_bytes`.
    pub(in crate::propagation) fn new(
        offset_bytes: u64,
        stored_bytes: u32,
        is_whole: bool,
    ) -> Self {
        let unit = u64::from(UNIT_BYTES);
        let units = u64::from(stored_bytes.div_ceil(UNIT_BYTES));
        assert!(offset_bytes.is_multiple_of(unit), "records start at whole units");
        assert!(offset_bytes / unit < 1 << 44, "the file is shorter than 2^48 bytes");
        assert!(units > 0 && units < Self::WHOLE, "a record is not longer than a page");
        let whole = if is_whole { Self::WHOLE } else { 0 };
        Self((offset_bytes / unit) << Self::OFFSET_SHIFT | whole | units)
    }

    pub(super) const fn from_word(word: u64) -> Self {
        Self(word)
    }

    pub(super) const fn to_word(self) -> u64 {
        self.0
    }

    pub(in crate::propagation) const fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(in crate::propagation) const fn offset_bytes(self) -> u64 {
        (self.0 >> Self::OFFSET_SHIFT) * UNIT_BYTES as u64
    }

    /// Bytes of the record, up to whole units.
    pub(in crate::propagation) const fn stored_bytes(self) -> u32 {
        (self.0 & 0xFFFF) as u32 * UNIT_BYTES
    }

    pub(in crate::propagation) const fn is_whole(self) -> bool {
        self.0 & Self::WHOLE != 0
    }

    pub(in crate::propagation) const fn end(self) -> u64 {
        self.offset_bytes() + self.stored_bytes() as u64
    }
}

/// The most bytes that a packed page can take.
pub(super) const fn packed_bytes_max(page_bytes: u32) -> u32 {
    (page_bytes + HEADER_BYTES_U32).next_multiple_of(UNIT_BYTES)
}

/// The run of zeros that is left out; found by words of 8 bytes, so one shorter than 16 may be missed.
pub(in crate::propagation) fn hole_of(page: &[u8]) -> Range<usize> {
    let mut best = 0..0;
    let mut first = None;
    let words = page.chunks_exact(8);
    let word_count = words.len();
    for (index, word) in words.enumerate() {
        match (word == [0; 8], first) {
            (true, None) => first = Some(index),
            (false, Some(start)) => {
                if index - start > best.len() {
                    best = start..index;
                }
                first = None;
            }
            _ => {}
        }
    }
    if let Some(start) = first
        && word_count - start > best.len()
    {
        best = start..word_count;
    }
    if best.is_empty() {
        return 0..0;
    }
    let (mut start, mut end) = (best.start * 8, best.end * 8);
    while start > 0 && page[start - 1] == 0 {
        start -= 1;
    }
    while end < page.len() && page[end] == 0 {
        end += 1;
    }
    if end - start < HOLE_BYTES_MIN { 0..0 } else { start..end }
}

/// Bytes of the record of a page with this hole, without padding.
pub(in crate::propagation) fn packed_bytes(page: &[u8], hole: &Range<usize>) -> u32 {
    nandu_base::to_u32((HEADER_BYTES + page.len() - hole.len()) as u64)
}

/// Writes the record of a page with this hole; `record` has the length that [`packed_bytes`] says.
pub(in crate::propagation) fn pack(page: &[u8], hole: &Range<usize>, record: &mut [u8]) {
    let word = |value: usize| nandu_base::to_u32(value as u64).to_be_bytes();
    let (header, body) = record.split_at_mut(HEADER_BYTES);
    header[..4].copy_from_slice(&word(hole.start));
    header[4..].copy_from_slice(&word(hole.len()));
    let (before, after) = body.split_at_mut(hole.start);
    before.copy_from_slice(&page[..hole.start]);
    after.copy_from_slice(&page[hole.end..]);
}

/// The page of a record, which may say anything; `None` where it makes no sense.
pub(in crate::propagation) fn unpack(record: &[u8], page: &mut [u8]) -> Option<()> {
    let (header, body) = record.split_at_checked(HEADER_BYTES)?;
    let word = |at: usize| Some(u32::from_be_bytes(*header[at..].first_chunk()?) as usize);
    let (start, hole_bytes) = (word(0)?, word(4)?);
    let end = start.checked_add(hole_bytes).filter(|&end| end <= page.len())?;
    let kept_bytes = page.len() - hole_bytes;
    let kept = body.get(..kept_bytes)?;
    page[..start].copy_from_slice(&kept[..start]);
    page[start..end].fill(0);
    page[end..].copy_from_slice(&kept[start..]);
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn locations_keep_what_they_are_made_of() {
        for (offset, stored, is_whole) in
            [(16, 8, false), (4096, 4096, true), ((1 << 48) - 16, 65_552, false)]
        {
            let location = Location::new(offset, stored, is_whole);
            assert_eq!(location.offset_bytes(), offset);
            assert_eq!(location.stored_bytes(), stored.next_multiple_of(16));
            assert_eq!(location.is_whole(), is_whole);
            assert_eq!(Location::from_word(location.to_word()), location);
            assert!(!location.is_none());
        }
        assert!(Location::NONE.is_none());
    }

    #[test]
    fn the_longest_run_of_zeros_is_the_hole() {
        let mut page = vec![7; 512];
        assert_eq!(hole_of(&page), 0..0);
        page[100..131].fill(0);
        page[300..402].fill(0);
        assert_eq!(hole_of(&page), 300..402, "up to its first and last byte");
        page[403..].fill(0);
        assert_eq!(hole_of(&page), 403..512);
        assert_eq!(hole_of(&[0; 512]), 0..512);
    }

    proptest! {
        #[test]
        fn packed_pages_come_back(
            runs in proptest::collection::vec((any::<bool>(), 1_usize..400), 0..12)
        ) {
            let mut page = Vec::new();
            for (is_zero, length) in runs {
                page.extend(std::iter::repeat_n(if is_zero { 0 } else { 0xA5 }, length));
            }
            page.resize(1024, 0);
            let hole = hole_of(&page);
            let mut record = vec![0; packed_bytes(&page, &hole) as usize];
            pack(&page, &hole, &mut record);
            prop_assert!(record.len() <= packed_bytes_max(1024) as usize);
            let mut again = vec![0xEE; 1024];
            prop_assert!(unpack(&record, &mut again).is_some());
            prop_assert_eq!(again, page);
        }

        #[test]
        fn hostile_records_never_panic(
            record in proptest::collection::vec(any::<u8>(), 0..64),
            small in proptest::collection::vec(0_u8..3, 8),
        ) {
            let mut page = vec![0; 64];
            let _ = unpack(&record, &mut page);
            let _ = unpack(&small, &mut page);
        }
    }
}
