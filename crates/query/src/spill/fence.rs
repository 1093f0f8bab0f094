//! Places in a run at which one may begin to read: workers that merge a range of keys each begin there.
//!
//! ```text
//!   run     │ page │ page │ page │ page │ page │ page │ page │
//!   fences      ▲ key, page, offset     ▲             ▲          a range begins before its first row,
//!                                                                at the last fence whose key is less
//! ```
//!
//! 1. A fence is the first row that begins on its page or later; fences come in the order of the run.
//! 2. A run has no more than [`FENCE_COUNT_MAX`], each with at most [`FENCE_BYTES_MAX`] of its key: beside the
//!    memory that is granted, as much as about 2 kB for each run.

use super::{Bucket, SpillStream, SpillWriter};
use crate::execution::Memory;
use crate::relation::Position;
use crate::{Execution, QueryError};
use nandu_base::to_u32;

/// Fences of a run at most.
pub(crate) const FENCE_COUNT_MAX: usize = 32;
/// Bytes of a key that a fence keeps at most.
pub(crate) const FENCE_BYTES_MAX: usize = 24;

/// A row of a run, and where it begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fence {
    /// Its key as bytes, or what these begin with.
    key_bytes: Vec<u8>,
    /// Which page of the run.
    page: u32,
    /// Bytes before it on that page, and in all.
    offset: usize,
    bytes_before: u64,
}

/// The fences of a run that is being written.
#[derive(Debug)]
pub(super) struct Fences {
    made: Vec<Fence>,
    /// The first page on which a row is one.
    next_page: u64,
    /// How far they are apart, in pages.
    distance_pages: u64,
}

impl Fence {
    /// Whether its key is certainly less than `bound`, so that all rows before it are.
    fn is_before(&self, bound: &[u8]) -> bool {
        self.key_bytes.as_slice() < &bound[..bound.len().min(self.key_bytes.len())]
    }
}

impl Default for Fences {
    fn default() -> Self {
        Self { made: Vec::new(), next_page: 0, distance_pages: 1 }
    }
}

impl Fences {
    /// Keeps every second one.
    fn thin_out(&mut self) {
        let mut number = 0;
        self.made.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.distance_pages *= 2;
    }
}

impl SpillWriter<'_> {
    /// Has the bucket keep fences from here on.
    pub(crate) fn make_fences(&mut self) {
        self.fences = Some(Fences::default());
    }

    /// Whether the next row is to be a fence.
    #[inline]
    pub(crate) fn wants_fence(&self) -> bool {
        match &self.fences {
            None => false,
            Some(fences) => self.place().0 >= fences.next_page,
        }
    }

    /// Page and offset of the next row.
    fn place(&self) -> (u64, usize) {
        let page_bytes = self.execution.page_bytes();
        (self.bucket.page_count + (self.used / page_bytes) as u64, self.used % page_bytes)
    }

    /// Makes the next row, which has this key, a fence.
    pub(crate) fn note_fence(&mut self, key_bytes: &[u8]) {
        let (page, offset) = self.place();
        let bytes_before = self.bucket.cell_bytes;
        let Some(fences) = &mut self.fences else { return };
        let key_bytes = key_bytes[..key_bytes.len().min(FENCE_BYTES_MAX)].to_vec();
        fences.made.push(Fence { key_bytes, page: to_u32(page), offset, bytes_before });
        if fences.made.len() == FENCE_COUNT_MAX {
            fences.thin_out();
        }
        fences.next_page = page + fences.distance_pages;
    }

    /// The fences that were made.
    pub(super) fn take_fences(&mut self) -> Vec<Fence> {
        self.fences.take().map(|fences| fences.made).unwrap_or_default()
    }
}

impl Bucket {
    /// What the keys of its fences begin with, which is as good a bound as all of them, in the order of its rows, and
    /// the bytes from each to the next one.
    pub(crate) fn fences_with_bytes(&self) -> impl Iterator<Item = (Vec<u8>, u64)> + '_ {
        let next = self.fences.iter().skip(1).map(|fence| fence.bytes_before);
        let ends = next.chain([self.cell_bytes]);
        let fences = self.fences.iter().zip(ends);
        fences.map(|(fence, end)| (fence.key_bytes.clone(), end - fence.bytes_before))
    }

    /// Reads it in blocks of `memory`, from some row on before which no key is as large as `bound`.
    ///
    /// # Errors
    /// As [`Self::scan`].
    pub(crate) fn scan_from<'x>(
        &self,
        execution: &'x Execution,
        memory: Memory<'x>,
        bound: &[u8],
    ) -> Result<SpillStream<'x>, QueryError> {
        let later = self.fences.partition_point(|fence| fence.is_before(bound));
        let Some(fence) = later.checked_sub(1).map(|last| &self.fences[last]) else {
            return self.scan(execution, memory);
        };
        let mut from = Position { run: 0, page: fence.page };
        for extent in &self.extents {
            let pages = extent.end - extent.start;
            if from.page < pages {
                break;
            }
            from = Position { run: from.run + 1, page: from.page - pages };
        }
        let mut stream = self.scan_at(execution, memory, from)?;
        stream.left_bytes -= fence.bytes_before;
        stream.first_offset = fence.offset;
        Ok(stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::TupleStream;
    use crate::testing::{execution, limits};
    use crate::tuple::Tuple;
    use nandu_base::to_index;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(200))]
        #[test]
        fn a_reader_from_a_bound_misses_no_row_behind_it_and_passes_over_most_before(
            lengths in proptest::collection::vec(prop_oneof![0_usize..80, 0_usize..3000], 1..300),
            (write_pages, read_pages, expected_pages) in (1_u32..6, 1_u32..6, 0_u64..20),
            equal_count in 1_u64..40,
            tail_bytes in 0_usize..40,
            reads_ahead: bool,
        ) {
            let execution = execution(crate::Limits { reads_ahead, ..limits(512, 20) });
            let key_of = |number: u64| {
                let mut key = vec![3; tail_bytes];
                key.extend((number / equal_count).to_be_bytes());
                key
            };
            let memory = execution.take("test", write_pages).unwrap();
            let mut writer = SpillWriter::new(&execution, memory, expected_pages).unwrap();
            writer.make_fences();
            for (number, &length) in (0_u64..).zip(&lengths) {
                if writer.wants_fence() {
                    writer.note_fence(&key_of(number));
                }
                let record = vec![number.to_le_bytes()[0]; length];
                writer.push(Tuple { row_number: number.cast_signed(), record: &record }).unwrap();
            }
            let (bucket, memory) = writer.finish().unwrap();
            drop(memory);
            prop_assert!((1..FENCE_COUNT_MAX).contains(&bucket.fences.len()));
            let count = lengths.len() as u64;
            for bound in 0..=count / equal_count + 1 {
                let bound = key_of(bound * equal_count);
                let memory = execution.take("test", read_pages).unwrap();
                let mut stream = bucket.scan_from(&execution, memory, &bound).unwrap();
                let mut numbers = Vec::new();
                while stream.advance().unwrap() {
                    for tuple in stream.batch().tuples() {
                        let number = tuple.row_number.cast_unsigned();
                        let record = vec![number.to_le_bytes()[0]; lengths[to_index(number)]];
                        prop_assert_eq!(tuple.record, record.as_slice());
                        numbers.push(number);
                    }
                }
                let first = numbers[0];
                prop_assert_eq!(numbers, (first..count).collect::<Vec<_>>());
                prop_assert!(first == 0 || key_of(first - 1) < bound);
                // Where keys tell fences apart, no more is passed over than lies between two of them.
                let fences = &bucket.fences;
                let passed = fences.iter().filter(|it| it.bytes_before > 0 && it.is_before(&bound));
                prop_assert_eq!(first == 0, passed.count() == 0);
            }
        }
    }
}
