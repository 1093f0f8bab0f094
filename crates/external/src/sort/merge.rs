//! Runs merged: by whoever asks for records, the first record of each in a tournament, or in parts.
//!
//! ```text
//!   run 1 ═block═► record ┐
//!   run 2 ═block═► record ┼─ tree of losers ──► record after record
//!   run 3 ═block═► record ┘
//! ```
//!
//! 1. No record comes before one that came out earlier.

use super::Division;
use super::crew::Crew;
use super::parts::{Cut, MERGE_BLOCKS, PART_COUNT, PartMerge};
use super::runs::Runs;
use crate::error::Failure;
use crate::loser_tree::LoserTree;
use crate::{ExternalError, Memory, Order, Record, Vector};

/// A merge of sorted runs.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there is one of them for a sort")]
pub(super) enum Merging<R, O> {
    /// By whoever asks.
    Alone(Merge<R, O>),
    /// By threads.
    InParts(PartMerge<R, O>),
}

impl<R: Record, O: Order<R>> Merging<R, O> {
    /// Merges `runs`, none of them empty and no more than `division` says, within `memory`.
    pub(super) fn new(
        runs: Vec<Vector<R>>,
        order: O,
        memory: Memory,
        division: &Division,
    ) -> Result<Self, ExternalError> {
        let (ahead, block_bytes) = (division.ahead_blocks, runs[0].store().block_bytes());
        let wanted = (runs.len() as u64 + ahead + MERGE_BLOCKS) * block_bytes;
        if division.has_parts
            && wanted <= memory.bytes()
            && let Some(cut) = Cut::new(size_of::<R>(), runs.len(), block_bytes)
        {
            let crew = Crew::new(&order, PART_COUNT);
            let merge = PartMerge::new(runs, order, memory, ahead, (cut, crew));
            return merge.map(Self::InParts);
        }
        Merge::new(runs, order, memory, ahead).map(Self::Alone)
    }

    /// The next record; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<R>, ExternalError> {
        match self {
            Self::Alone(merge) => merge.next(),
            Self::InParts(merge) => merge.next(),
        }
    }

    /// How many records are left.
    pub(super) const fn left_count(&self) -> u64 {
        match self {
            Self::Alone(merge) => merge.left,
            Self::InParts(merge) => merge.left_count(),
        }
    }

    /// The memory, after the end.
    pub(super) fn into_memory(self) -> Memory {
        match self {
            Self::Alone(merge) => merge.runs.into_memory(),
            Self::InParts(merge) => merge.into_memory(),
        }
    }
}

/// Merges sorted runs.
#[derive(Debug)]
pub(super) struct Merge<R, O> {
    runs: Runs<R, O>,
    /// The next slot of each run's block at hand.
    slots: Vec<usize>,
    tree: LoserTree<R, O>,
    left: u64,
    failure: Failure,
}

impl<R: Record, O: Order<R>> Merge<R, O> {
    /// Merges `vectors`, none of them empty, with a block of `memory` for each and `ahead` more to
    /// read ahead.
    pub(super) fn new(
        vectors: Vec<Vector<R>>,
        order: O,
        memory: Memory,
        ahead: u64,
    ) -> Result<Self, ExternalError> {
        let left = vectors.iter().map(Vector::len).sum();
        let mut tree = LoserTree::new(order.clone());
        let runs = Runs::new(vectors, order, memory, ahead)?;
        (0..runs.len()).for_each(|run| tree.push(Some(runs.run(run).record(0))));
        tree.build();
        let slots = vec![1; runs.len()];
        Ok(Self { runs, slots, tree, left, failure: Failure::default() })
    }

    /// The next record; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<R>, ExternalError> {
        let Some((leaf, record)) = self.tree.champion() else {
            self.failure.check()?;
            return Ok(None);
        };
        let (run, slot) = (self.runs.run(leaf), &mut self.slots[leaf]);
        if *slot == run.count() {
            self.turn(leaf)?;
        } else {
            self.tree.replace(run.record(*slot));
            *slot += 1;
        }
        self.left -= 1;
        Ok(Some(record))
    }

    /// Makes the next block of a run the one at hand, or has the run be out.
    #[cold]
    fn turn(&mut self, leaf: usize) -> Result<(), ExternalError> {
        let turned = self.try_turn(leaf);
        if turned.is_err() {
            // What comes after the record that is not there does not come.
            self.tree.clear();
        }
        self.failure.note(turned)
    }

    fn try_turn(&mut self, leaf: usize) -> Result<(), ExternalError> {
        let block = self.runs.take_block(leaf);
        self.runs.give(block);
        if self.runs.run(leaf).is_left() {
            // The buffer that was given is there, if no other one.
            let has_block = self.runs.next_block(leaf)?;
            assert!(has_block, "a run has the memory of a block");
            self.tree.replace(self.runs.run(leaf).record(0));
            self.slots[leaf] = 1;
        } else {
            self.tree.retire();
        }
        self.runs.forecast()
    }
}
