//! How a sort divides its memory, and what follows from it: the runs, and which of them are merged when.
//! The table stands in the head of the module.

use super::MergePlan;
use super::parts::MERGE_BLOCKS;
use crate::{ExternalError, Record, Store};
use nandu_base::to_index;

/// Fewest blocks of memory with which records are sorted: two to be merged, one to be written.
const BLOCK_COUNT_MIN: u64 = 3;
/// From so many blocks on memory is divided into pieces: a merge takes so many runs then that it
/// does not matter that they are shorter.
const BLOCK_COUNT_OF_PIECES: u64 = 64;
/// One that is filled, one that is sorted, one that is written.
const PIECE_COUNT: u64 = 3;

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
    /// Blocks of memory by which threads merge; none where memory is too little.
    pub(super) merge_blocks: u64,
    /// Runs of a merge in between, and of the last one.
    plan: MergePlan,
}

impl Division {
    /// Of `bytes` of memory.
    ///
    /// # Errors
    /// If a block holds no record, or memory is less than three blocks and a record.
    pub(crate) fn new<R: Record>(store: &Store, bytes: u64) -> Result<Self, ExternalError> {
        let per_block = store.per_block::<R>()?;
        let blocks = bytes / store.block_bytes();
        let ahead_blocks = u64::from(store.settings().in_flight).min(blocks / 5);
        let write_blocks = 1 + ahead_blocks;
        let record_bytes = size_of::<R>().max(1) as u64;
        let room = bytes.saturating_sub(write_blocks * store.block_bytes());
        let (piece_count, merge_blocks) = match blocks {
            0..BLOCK_COUNT_OF_PIECES => (1, 0),
            _ => (PIECE_COUNT, MERGE_BLOCKS),
        };
        let run_records = room / record_bytes / piece_count;
        if blocks < BLOCK_COUNT_MIN || run_records == 0 {
            return Err(ExternalError::TooLittleMemory {
                operator: "a sort".to_owned(),
                needed_bytes: BLOCK_COUNT_MIN * store.block_bytes() + record_bytes,
                granted_bytes: bytes,
            });
        }
        let last_fan_in = blocks - ahead_blocks - merge_blocks;
        let plan = MergePlan { fan_in: last_fan_in - write_blocks, last_fan_in };
        Ok(Self {
            piece_count,
            run_records,
            per_block,
            write_blocks,
            ahead_blocks,
            merge_blocks,
            plan,
        })
    }

    /// Records of a block.
    pub(crate) const fn per_block(&self) -> u64 {
        self.per_block
    }

    /// Records of each run that a sort of `count` records writes; none if all are sorted in memory.
    pub(crate) fn runs(&self, count: u64) -> Vec<u64> {
        if count <= self.piece_count * self.run_records {
            return Vec::new();
        }
        let mut runs = vec![self.run_records; to_index(count / self.run_records)];
        let rest = count % self.run_records;
        runs.extend((rest > 0).then_some(rest));
        runs
    }

    /// How many of so many runs are merged next; none if the last merge takes them all.
    pub(crate) const fn next_merge(&self, run_count: u64) -> Option<u64> {
        self.plan.next_merge(run_count)
    }

    /// Records of each run that merges in between write, of `runs` of so many records each.
    pub(crate) fn merges(&self, mut runs: Vec<u64>) -> Vec<u64> {
        let mut merges = Vec::new();
        while let Some(count) = self.next_merge(runs.len() as u64) {
            runs.sort_unstable();
            let merged = runs.drain(..to_index(count)).sum();
            runs.push(merged);
            merges.push(merged);
        }
        merges
    }
}
