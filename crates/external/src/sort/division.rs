//! How a sort divides its memory, and what follows from it: the runs, and which of them are merged when.
//! The table stands in the head of the module.

use super::MergePlan;
use super::parts::{Cut, MERGE_BLOCKS};
use crate::{ExternalError, Record, Store};
use nandu_base::to_index;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Fewest blocks of memory with which records are sorted: two to be merged, one to be written.
const BLOCK_COUNT_MIN: u64 = 3;
/// From so many blocks on memory is divided into pieces: a merge takes so many runs then that it
/// does not matter that they are shorter.
const BLOCK_COUNT_OF_PIECES: u64 = 64;
/// One that is filled, one that is sorted, one that is written.
const PIECE_COUNT: u64 = 3;

/// What a record takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordSize {
    /// Bytes of a block for each.
    pub(crate) stored_bytes: usize,
    /// Bytes of memory for each.
    pub(crate) memory_bytes: usize,
}

impl RecordSize {
    pub(crate) const fn of<R: Record>() -> Self {
        Self { stored_bytes: R::BYTES, memory_bytes: size_of::<R>() }
    }

    /// Of one that takes as much in memory as in a block.
    pub(crate) const fn stored(bytes: usize) -> Self {
        Self { stored_bytes: bytes, memory_bytes: bytes }
    }
}

/// How memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Division {
    /// How many pieces memory is divided into.
    pub(super) piece_count: u64,
    /// Records of a piece, which become a run.
    pub(super) run_records: u64,
    /// Records of a block.
    pub(super) per_block: u64,
    /// Blocks by which a run is written.
    pub(super) write_blocks: u64,
    /// Blocks that a merge reads ahead.
    pub(super) ahead_blocks: u64,
    /// Whether threads may merge, where a merge leaves them the memory.
    pub(super) has_parts: bool,
    /// Runs of a merge in between, and of the last one.
    plan: MergePlan,
}

impl Division {
    /// Of `bytes` of memory.
    ///
    /// # Errors
    /// If a block holds no record, or memory is less than three blocks and a record.
    pub(crate) fn new<R: Record>(store: &Store, bytes: u64) -> Result<Self, ExternalError> {
        Self::of(store, RecordSize::of::<R>(), bytes)
    }

    /// The same for records of which the size is known only now.
    ///
    /// # Errors
    /// As [`Self::new`].
    pub(crate) fn of(store: &Store, size: RecordSize, bytes: u64) -> Result<Self, ExternalError> {
        let per_block = store.per_block_of(size.stored_bytes)?;
        let blocks = bytes / store.block_bytes();
        let ahead_blocks = u64::from(store.settings().in_flight).min(blocks / 5);
        let write_blocks = 1 + ahead_blocks;
        let record_bytes = size.memory_bytes.max(1) as u64;
        let room = bytes.saturating_sub(write_blocks * store.block_bytes());
        let has_parts = blocks >= BLOCK_COUNT_OF_PIECES;
        let piece_count = if has_parts { PIECE_COUNT } else { 1 };
        let run_records = room / record_bytes / piece_count;
        if blocks < BLOCK_COUNT_MIN || run_records == 0 {
            return Err(ExternalError::TooLittleMemory {
                operator: "a sort".to_owned(),
                needed_bytes: BLOCK_COUNT_MIN * store.block_bytes() + record_bytes,
                granted_bytes: bytes,
            });
        }
        // A merge of as many runs as there may be leaves memory for parts only if it is cut into some.
        let of_parts = has_parts.then(|| blocks - ahead_blocks - MERGE_BLOCKS);
        let cut = |runs| Cut::new(size.memory_bytes, to_index(runs), store.block_bytes());
        let of_parts = of_parts.filter(|&runs| cut(runs).is_some());
        let last_fan_in = of_parts.unwrap_or(blocks - ahead_blocks);
        let plan = MergePlan { fan_in: last_fan_in - write_blocks, last_fan_in };
        Ok(Self {
            piece_count,
            run_records,
            per_block,
            write_blocks,
            ahead_blocks,
            has_parts,
            plan,
        })
    }

    /// Blocks of so many records.
    pub(crate) const fn blocks(&self, records: u64) -> u64 {
        records.div_ceil(self.per_block)
    }

    /// Blocks that are written without a record that comes in between: a run, where memory is in one piece.
    pub(crate) const fn blocks_at_once(&self) -> u64 {
        if self.piece_count == 1 { self.blocks(self.run_records) } else { 1 }
    }

    /// How many runs a sort of `count` records writes; none if all are sorted in memory.
    pub(crate) const fn run_count(&self, count: u64) -> u64 {
        if count <= self.piece_count * self.run_records {
            return 0;
        }
        count.div_ceil(self.run_records)
    }

    /// Blocks of all these runs.
    const fn run_blocks(&self, count: u64) -> u64 {
        if self.run_count(count) == 0 {
            return 0;
        }
        let full_runs = (count / self.run_records).saturating_mul(self.blocks(self.run_records));
        full_runs.saturating_add(self.blocks(count % self.run_records))
    }

    /// The bytes of them in such a store, which has them all before the first is merged.
    pub(crate) fn run_bytes(&self, store: &Store, count: u64) -> u64 {
        self.run_blocks(count).saturating_mul(store.block_bytes())
    }

    /// Records of each of these runs.
    pub(crate) fn runs(&self, count: u64) -> Vec<u64> {
        let mut runs = vec![self.run_records; to_index(self.run_count(count))];
        if let (Some(last), rest @ 1..) = (runs.last_mut(), count % self.run_records) {
            *last = rest;
        }
        runs
    }

    /// How many of so many runs are merged next; none if the last merge takes them all.
    pub(crate) const fn next_merge(&self, run_count: u64) -> Option<u64> {
        self.plan.next_merge(run_count)
    }

    /// The merges in between of runs of so many records each.
    pub(crate) fn plan(&self, runs: impl Iterator<Item = u64>) -> PlannedMerges {
        let runs: BinaryHeap<Reverse<(u64, u64)>> =
            runs.zip(0..).map(|(records, number)| Reverse((records, number))).collect();
        PlannedMerges { plan: self.plan, next_number: runs.len() as u64, runs }
    }
}

/// The merges in between of a sort, one after the other. Runs have numbers, from 0, and each merge
/// gives its result the next one.
#[derive(Clone, Debug)]
pub(crate) struct PlannedMerges {
    plan: MergePlan,
    /// Records and numbers, the least first.
    runs: BinaryHeap<Reverse<(u64, u64)>>,
    next_number: u64,
}

/// A merge in between.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlannedMerge {
    /// The numbers of the runs that it takes.
    pub(crate) sources: Vec<u64>,
    /// The records that it writes.
    pub(crate) records: u64,
}

impl Iterator for PlannedMerges {
    type Item = PlannedMerge;

    fn next(&mut self) -> Option<PlannedMerge> {
        let count = self.plan.next_merge(self.runs.len() as u64)?;
        let mut merge = PlannedMerge { sources: Vec::with_capacity(to_index(count)), records: 0 };
        for _ in 0..count {
            let Reverse((records, number)) = self.runs.pop().expect("a merge takes runs there are");
            merge.sources.push(number);
            merge.records += records;
        }
        self.runs.push(Reverse((merge.records, self.next_number)));
        self.next_number += 1;
        Some(merge)
    }
}

impl PlannedMerges {
    /// The numbers of the runs that are left, ascending: when all was merged, those of the last merge.
    pub(crate) fn into_left(self) -> Vec<u64> {
        let mut numbers: Vec<u64> = self.runs.into_iter().map(|Reverse((_, it))| it).collect();
        numbers.sort_unstable();
        numbers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::store_with;
    use proptest::prelude::*;

    proptest! {
        /// As the table in the head of the module says, for records of 16 bytes.
        #[test]
        fn a_merge_has_eight_runs_less_where_it_is_cut_into_parts(
            (block_power, blocks, in_flight) in (9_u32..21, 3_u64..400, 0_u32..9),
        ) {
            let store = store_with(1 << block_power, 1, in_flight, 1 << 20);
            let block_bytes = 1_u64 << block_power;
            let division = Division::new::<(u64, u64)>(&store, blocks * block_bytes).unwrap();
            let w = u64::from(in_flight).min(blocks / 5);
            let room = block_bytes / 16 - block_bytes / 16 / 3 * 2;
            let m = if blocks >= 64 && room >= 16 * (blocks - w - 8 + 1) { 8 } else { 0 };
            prop_assert_eq!(division.next_merge(blocks - w - m), None);
            // One run more: two are merged, but where a merge in between takes no more than that.
            prop_assert_eq!(division.next_merge(blocks - w - m + 1), Some(2));
            let full = blocks - w - m + (blocks - 1 - 2 * w - m - 1);
            prop_assert_eq!(division.next_merge(full), Some(blocks - 1 - 2 * w - m));
        }

        #[test]
        fn merges_take_the_smallest_runs_and_leave_those_of_the_last(
            lens in proptest::collection::vec(1_u64..100, 1..60),
        ) {
            let store = store_with(512, 1, 1, 1 << 20);
            let division = Division::new::<u64>(&store, 8 * 512).unwrap();
            let mut runs = lens.clone();
            let mut merges = division.plan(lens.iter().copied());
            for merge in merges.by_ref() {
                let taken: Vec<u64> =
                    merge.sources.iter().map(|&number| runs[to_index(number)]).collect();
                prop_assert_eq!(taken.iter().sum::<u64>(), merge.records);
                let most = taken.iter().max().copied();
                merge.sources.iter().for_each(|&number| runs[to_index(number)] = u64::MAX);
                prop_assert!(runs.iter().all(|&left| Some(left) >= most));
                runs.push(merge.records);
            }
            let left = merges.into_left();
            let are_left = (0..runs.len()).filter(|&number| runs[number] < u64::MAX);
            prop_assert_eq!(left, are_left.map(|number| number as u64).collect::<Vec<_>>());
        }
    }
}
