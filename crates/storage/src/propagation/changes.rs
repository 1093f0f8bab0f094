//! Which bytes of a page changed, and the record of their present values that can be laid over an
//! older state of the page: of the double write, of log-structured propagation and of page-differential
//! logging (the differential of Kim, Whang and Song 2010, by ranges).
//!
//! ```text
//!   record  count 2 │ (start 2, last 2)… │ the bytes of each range
//! ```
//!
//! 1. Ranges are ascending, with gaps between them, and at most [`CHANGED_RANGES_MAX`] where they are
//!    noted as they come, not found by comparing.
//! 2. Ranges may cover more than what changed, never less: a record holds present bytes, so more is
//!    only longer.

use nandu_base::to_u32;
use std::ops::Range;

/// Most byte ranges that are told apart; more grow together.
pub const CHANGED_RANGES_MAX: usize = 8;

/// Which bytes of a page changed since some state of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChangedRanges {
    ranges: Vec<Range<u32>>,
}

const COUNT_BYTES: usize = 2;
const RANGE_BYTES: usize = 4;
/// Bytes that are compared at once.
const WORD_BYTES: usize = 16;

impl ChangedRanges {
    /// Notes that `range` changed. Ranges that touch grow together, and so do the two nearest ones
    /// when there are too many.
    pub fn add(&mut self, range: Range<u32>) {
        if range.is_empty() {
            return;
        }
        let first = self.ranges.partition_point(|known| known.end < range.start);
        let last = self.ranges.partition_point(|known| known.start <= range.end);
        if first == last {
            self.ranges.insert(first, range);
        } else {
            let start = self.ranges[first].start.min(range.start);
            let end = self.ranges[last - 1].end.max(range.end);
            self.ranges.splice(first..last, std::iter::once(start..end));
        }
        if self.ranges.len() > CHANGED_RANGES_MAX {
            let gap = |index: &usize| self.ranges[index + 1].start - self.ranges[*index].end;
            let nearest = (0..self.ranges.len() - 1).min_by_key(gap).expect("there are several");
            self.ranges[nearest].end = self.ranges[nearest + 1].end;
            self.ranges.remove(nearest + 1);
        }
    }

    /// Where two states of a page differ, byte for byte. Ranges are apart by what telling them apart takes
    /// at least, and there may be more than [`CHANGED_RANGES_MAX`].
    pub(super) fn between(before: &[u8], after: &[u8]) -> Self {
        let mut ranges: Vec<Range<u32>> = Vec::new();
        let words = before.chunks(WORD_BYTES).zip(after.chunks(WORD_BYTES));
        for (word, (old, new)) in words.enumerate().filter(|(_, (old, new))| old != new) {
            let differing = old.iter().zip(new).enumerate().filter(|(_, (old, new))| old != new);
            for (byte, _) in differing {
                let at = to_u32((word * WORD_BYTES + byte) as u64);
                match ranges.last_mut() {
                    Some(last) if at < last.end + to_u32(RANGE_BYTES as u64) => last.end = at + 1,
                    _ => ranges.push(at..at + 1),
                }
            }
        }
        Self { ranges }
    }

    /// The ranges, ascending, with gaps between them.
    #[must_use]
    pub fn as_slice(&self) -> &[Range<u32>] {
        &self.ranges
    }

    /// Forgets all changes that were noted.
    pub fn clear(&mut self) {
        self.ranges.clear();
    }

    /// Bytes of the record.
    pub(super) fn record_bytes(&self) -> usize {
        let changed_bytes: usize = self.ranges.iter().map(|range| range.len()).sum();
        COUNT_BYTES + self.ranges.len() * RANGE_BYTES + changed_bytes
    }

    /// Writes the record; it is as long as [`Self::record_bytes`] says.
    pub(super) fn pack(&self, page: &[u8], record: &mut [u8]) {
        let short = |value: u32| u16::try_from(value).expect("pages have at most 65536 bytes");
        let count = short(to_u32(self.ranges.len() as u64));
        let (head, mut rest) = record.split_at_mut(COUNT_BYTES);
        head.copy_from_slice(&count.to_be_bytes());
        for range in &self.ranges {
            let (place, after) = rest.split_at_mut(RANGE_BYTES);
            place[..2].copy_from_slice(&short(range.start).to_be_bytes());
            place[2..].copy_from_slice(&short(range.end - 1).to_be_bytes());
            rest = after;
        }
        for range in &self.ranges {
            let (place, after) = rest.split_at_mut(range.len());
            place.copy_from_slice(&page[range.start as usize..range.end as usize]);
            rest = after;
        }
    }

    /// Whether a record tells of no change.
    pub(super) fn is_empty_record(record: &[u8]) -> bool {
        record.len() == COUNT_BYTES
    }

    /// Lays a record, which may say anything, over a page, and gives back the ranges; `None` where it
    /// makes no sense.
    pub(super) fn unpack(record: &[u8], page: &mut [u8]) -> Option<Self> {
        let (count, rest) = record.split_first_chunk::<COUNT_BYTES>()?;
        let range_bytes = usize::from(u16::from_be_bytes(*count)) * RANGE_BYTES;
        let (ranges, mut bytes) = rest.split_at_checked(range_bytes)?;
        let mut changed = Self::default();
        for range in ranges.chunks_exact(RANGE_BYTES) {
            let start = u16::from_be_bytes(*range.first_chunk()?);
            let last = u16::from_be_bytes(*range.last_chunk()?);
            let place = page.get_mut(usize::from(start)..=usize::from(last))?;
            let (change, later) = bytes.split_at_checked(place.len())?;
            place.copy_from_slice(change);
            changed.add(u32::from(start)..u32::from(last) + 1);
            bytes = later;
        }
        Some(changed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn changed_ranges_cover_what_was_added_and_stay_few(
            added in proptest::collection::vec((0_u32..500, 0_u32..40), 0..60)
        ) {
            let mut ranges = ChangedRanges::default();
            for &(start, length) in &added {
                ranges.add(start..start + length);
                prop_assert!(ranges.as_slice().len() <= CHANGED_RANGES_MAX);
                let apart = |pair: &[Range<u32>]| pair[0].end < pair[1].start;
                prop_assert!(ranges.as_slice().windows(2).all(apart));
            }
            for (start, length) in added {
                let inside =
                    |known: &Range<u32>| known.start <= start && start + length <= known.end;
                prop_assert!(length == 0 || ranges.as_slice().iter().any(inside));
            }
        }

        #[test]
        fn records_laid_over_the_page_before_give_the_page_after(
            before in proptest::collection::vec(any::<u8>(), 600),
            changes in proptest::collection::vec((0_usize..560, 1_usize..40, any::<u8>()), 0..12),
        ) {
            let mut after = before.clone();
            let mut ranges = ChangedRanges::default();
            for (start, length, fill) in changes {
                after[start..start + length].fill(fill);
                ranges.add(to_u32(start as u64)..to_u32((start + length) as u64));
            }
            let mut record = vec![0; ranges.record_bytes()];
            ranges.pack(&after, &mut record);
            let mut page = before;
            prop_assert_eq!(ChangedRanges::unpack(&record, &mut page), Some(ranges));
            prop_assert_eq!(page, after);
        }

        #[test]
        fn what_differs_by_value_gives_the_page_after(
            before in proptest::collection::vec(any::<u8>(), 600),
            changes in proptest::collection::vec((0_usize..560, 1_usize..40, any::<u8>()), 0..40),
        ) {
            let mut after = before.clone();
            for (start, length, fill) in changes {
                after[start..start + length].fill(fill);
            }
            let ranges = ChangedRanges::between(&before, &after);
            let slice = ranges.as_slice();
            prop_assert!(slice.windows(2).all(|pair| pair[0].end + 4 <= pair[1].start));
            let is_changed = |at: u32| before[at as usize] != after[at as usize];
            prop_assert!(slice.iter().all(|range| is_changed(range.start) && is_changed(range.end - 1)));
            let mut record = vec![0; ranges.record_bytes()];
            ranges.pack(&after, &mut record);
            let mut page = before;
            prop_assert!(ChangedRanges::unpack(&record, &mut page).is_some());
            prop_assert_eq!(page, after);
        }

        #[test]
        fn hostile_records_never_panic(
            record in proptest::collection::vec(0_u8..40, 0..64),
        ) {
            let _ = ChangedRanges::unpack(&record, &mut [0; 64]);
        }
    }
}
