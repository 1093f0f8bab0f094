//! Places in a run at which one may begin to read: workers that merge a range of keys each begin there.
//!
//! ```text
//!   run     │ page │ page │ page │ page │ page │ page │ page │
//!   fences      ▲ key, page, offset     ▲             ▲          a range begins before its first row,
//!                                                                at the last fence whose key is less
//! ```
//!
//! 1. A fence is the first row that begins on its page or later; fences come in the order of the run.
//! 2. A run has no more than [`FENCE_COUNT_MAX`], each with at most [`FENCE_KEY_BYTES_MAX`] of its key, and in all no
//!    more than [`RUN_FENCE_BYTES_MAX`].
//! 3. Those of all runs of one side of one worker take no more than is granted for them, however many runs there
//!    are: with more runs each has fewer, or none, and is read from its beginning.

use super::{Bucket, SpillStream, SpillWriter};
use crate::execution::Memory;
use crate::relation::Position;
use crate::{Execution, QueryError};
use nandu_base::to_u32;

/// Fences of a run at most.
const FENCE_COUNT_MAX: usize = 32;
/// Bytes of a key that a fence keeps at most: keys that are alike so far are in one range.
const FENCE_KEY_BYTES_MAX: usize = 256;
/// Bytes of the fences of a run at most.
const RUN_FENCE_BYTES_MAX: usize = 4 << 10;

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

/// Runs with fences, evenly spread over all of them where they would be too many.
#[derive(Debug)]
pub(crate) struct FencedRuns {
    runs: Vec<Bucket>,
    /// Bytes of all fences at most.
    limit_bytes: usize,
    /// Of the fences that were made, each so-manieth is kept.
    distance: usize,
    made_count: usize,
    fence_bytes: usize,
}

impl Fence {
    /// What it takes.
    const fn bytes(&self) -> usize {
        size_of::<Self>() + self.key_bytes.len()
    }

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
    /// Keeps every second one, and the first of all.
    fn thin_out(&mut self) {
        let mut number = 0;
        self.made.retain(|_| {
            number += 1;
            number % 2 == 1
        });
        self.distance_pages *= 2;
    }

    fn are_too_many(&self) -> bool {
        let bytes: usize = self.made.iter().map(Fence::bytes).sum();
        self.made.len() >= FENCE_COUNT_MAX || bytes > RUN_FENCE_BYTES_MAX
    }
}

impl FencedRuns {
    /// None yet, whose fences are to take so many bytes at most.
    pub(crate) const fn new(limit_bytes: usize) -> Self {
        Self { runs: Vec::new(), limit_bytes, distance: 1, made_count: 0, fence_bytes: 0 }
    }

    /// Takes a run.
    pub(crate) fn push(&mut self, mut run: Bucket) {
        run.keep_fences(self.distance, &mut self.made_count);
        self.fence_bytes += run.fence_bytes();
        self.runs.push(run);
        while self.fence_bytes > self.limit_bytes {
            self.distance *= 2;
            self.fence_bytes = thin_out(&mut self.runs);
        }
    }

    pub(crate) const fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// The runs, in the order in which they came.
    pub(crate) fn into_runs(self) -> Vec<Bucket> {
        self.runs
    }
}

/// What is kept of a key by which ranges are told apart.
pub(crate) fn beginning(key_bytes: &[u8]) -> Vec<u8> {
    key_bytes[..key_bytes.len().min(FENCE_KEY_BYTES_MAX)].to_vec()
}

/// Drops fences of runs, evenly, until they take so many bytes at most.
pub(crate) fn limit_fences(runs: &mut [Bucket], limit_bytes: usize) {
    let mut fence_bytes: usize = runs.iter().map(Bucket::fence_bytes).sum();
    while fence_bytes > limit_bytes {
        fence_bytes = thin_out(runs);
    }
}

/// Keeps every second fence of all runs; gives the bytes of these.
fn thin_out(runs: &mut [Bucket]) -> usize {
    let mut number = 0;
    runs.iter_mut().for_each(|run| run.keep_fences(2, &mut number));
    runs.iter().map(Bucket::fence_bytes).sum()
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
        let key_bytes = beginning(key_bytes);
        fences.made.push(Fence { key_bytes, page: to_u32(page), offset, bytes_before });
        while fences.are_too_many() {
            fences.thin_out();
        }
        fences.next_page = page + fences.distance_pages;
    }

    /// The fences that were made.
    pub(super) fn take_fences(&mut self) -> Box<[Fence]> {
        self.fences.take().map(|fences| fences.made).unwrap_or_default().into()
    }
}

impl Bucket {
    /// What the keys of its fences begin with, in the order of its rows, each with the bytes up to the next one.
    /// What is before the first of them comes first, with the least of all keys; of a run without fences there is
    /// nothing.
    pub(crate) fn fences_with_bytes(&self) -> impl Iterator<Item = (&[u8], u64)> + '_ {
        let starts = self.fences.iter().map(|fence| fence.bytes_before);
        let ends = starts.clone().skip(1).chain([self.cell_bytes]);
        let keys = self.fences.iter().map(|fence| fence.key_bytes.as_slice());
        let parts =
            keys.zip(starts.clone().zip(ends)).map(|(key, (start, end))| (key, end - start));
        let before = starts.take(1).filter(|bytes| *bytes > 0).map(|bytes| (&[][..], bytes));
        before.chain(parts)
    }

    fn fence_bytes(&self) -> usize {
        self.fences.iter().map(Fence::bytes).sum()
    }

    /// Keeps each so-manieth fence, counted on from those of other runs.
    fn keep_fences(&mut self, distance: usize, number: &mut usize) {
        let all = std::mem::take(&mut self.fences).into_iter();
        let kept = all.filter(|_| {
            *number += 1;
            number.is_multiple_of(distance)
        });
        self.fences = kept.collect();
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
            tail_bytes in prop_oneof![0_usize..40, 200_usize..300],
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
            prop_assert!(bucket.fence_bytes() <= RUN_FENCE_BYTES_MAX);
            let told: u64 = bucket.fences_with_bytes().map(|(_, bytes)| bytes).sum();
            prop_assert_eq!(told, bucket.cell_bytes);
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
                // It begins at the last fence that is certainly before the bound.
                let passed = bucket.fences.iter().rfind(|fence| fence.is_before(&bound));
                let records = lengths[..to_index(first)].iter().map(|&length| vec![0; length]);
                let cells = (0_i64..).zip(records).map(|(row_number, record)| {
                    Tuple { row_number, record: &record }.cell_bytes() as u64
                });
                prop_assert_eq!(passed.map_or(0, |fence| fence.bytes_before), cells.sum::<u64>());
            }
        }
    }

    #[test]
    fn however_many_runs_there_are_their_fences_take_a_bounded_memory_and_are_spread_evenly() {
        let execution = execution(limits(512, 20));
        let limit_bytes = 64 << 10;
        let mut runs = FencedRuns::new(limit_bytes);
        for run in 0_u64..9000 {
            let memory = execution.take("test", 1).unwrap();
            let mut writer = SpillWriter::new(&execution, memory, 1).unwrap();
            writer.make_fences();
            for number in 0..1 + run % 3 {
                let key_bytes = (run << 8 | number).to_be_bytes();
                if writer.wants_fence() {
                    writer.note_fence(&key_bytes);
                }
                let record = [7; 400];
                writer.push(Tuple { row_number: 0, record: &record }).unwrap();
            }
            runs.push(writer.finish().unwrap().0);
            assert!(runs.fence_bytes <= limit_bytes);
            assert_eq!(runs.fence_bytes, runs.runs.iter().map(Bucket::fence_bytes).sum::<usize>());
        }
        let runs = runs.into_runs();
        assert_eq!(runs.len(), 9000);
        // Also what is before the first that a run has kept is told once, before its key.
        for run in runs.iter().filter(|run| !run.fences.is_empty()) {
            let told: Vec<_> = run.fences_with_bytes().collect();
            assert_eq!(told.iter().map(|(_, bytes)| bytes).sum::<u64>(), run.cell_bytes);
            let is_thinned = run.fences[0].bytes_before > 0;
            assert_eq!(told.len(), run.fences.len() + usize::from(is_thinned));
            assert_eq!(told[0].0.is_empty(), is_thinned);
        }
        // Each tenth of the runs has about a tenth of them.
        let counts: Vec<usize> =
            runs.chunks(900).map(|runs| runs.iter().map(|run| run.fences.len()).sum()).collect();
        let total: usize = counts.iter().sum();
        assert!(total > 500, "{counts:?}");
        assert!(counts.iter().all(|&count| count.abs_diff(total / 10) < total / 50), "{counts:?}");
    }
}
