//! Runs merged: the first record of each in a tournament, blocks read before they are needed.
//!
//! ```text
//!   run 1 ═block═► record ┐
//!   run 2 ═block═► record ┼─ tree of losers ──► record after record
//!   run 3 ═block═► record ┘
//!   forecast: the next block of the run whose block at hand ends first (Knuth, volume 3, 5.4.6)
//! ```
//!
//! 1. No record comes before one that came out earlier.
//! 2. Each block is read once. A run has its block at hand and at most one in flight.
//! 3. A run gives its room back as it is read.

use crate::error::Failure;
use crate::loser_tree::LoserTree;
use crate::store::{Blocks, Buffers, Flight};
use crate::{ExternalError, Memory, Order, Record, Vector};
use nandu_base::to_index;
use nandu_device::IoBuffer;

/// A run, and where it stands.
#[derive(Debug)]
struct Run<R> {
    // Before the blocks: what is in flight is waited for before they are given back.
    flight: Option<Flight>,
    /// The block at hand is the first; it goes when the next one comes.
    blocks: Blocks,
    at_hand: Option<IoBuffer>,
    /// Records of the block at hand: the next one, and the one after the last.
    slot: usize,
    slot_end: usize,
    /// Records after the block at hand.
    left: u64,
    /// The last record of the block at hand.
    last: Option<R>,
}

/// Merges sorted runs.
#[derive(Debug)]
pub(crate) struct Merge<R, O> {
    runs: Vec<Run<R>>,
    tree: LoserTree<R, O>,
    order: O,
    buffers: Buffers,
    per_block: usize,
    left: u64,
    failure: Failure,
}

impl<R: Record> Run<R> {
    fn new(vector: Vector<R>) -> Self {
        let (blocks, left) = vector.into_parts();
        Self { flight: None, blocks, at_hand: None, slot: 0, slot_end: 0, left, last: None }
    }

    /// The next record of the block at hand.
    #[inline]
    fn next(&mut self) -> Option<R> {
        if self.slot == self.slot_end {
            return None;
        }
        let block = self.at_hand.as_ref().expect("records lie in a block");
        let at = self.slot * R::BYTES;
        self.slot += 1;
        Some(R::decode(&block[at..at + R::BYTES]))
    }

    /// Begins to read the block after the one at hand.
    fn ask(&mut self, buffer: IoBuffer) -> Result<(), ExternalError> {
        let next = u64::from(self.at_hand.is_some());
        let flight = self.blocks.store().read(self.blocks.place(next), buffer)?;
        self.flight = Some(flight);
        Ok(())
    }

    /// Makes the block in flight the one at hand, and gives back the one before.
    fn land(&mut self, per_block: usize) -> Result<Option<IoBuffer>, ExternalError> {
        let flight = self.flight.take().expect("a block is in flight");
        let block = flight.wait()?;
        let count = to_index(self.left.min(per_block as u64));
        self.left -= count as u64;
        (self.slot, self.slot_end) = (0, count);
        let at = (count - 1) * R::BYTES;
        self.last = Some(R::decode(&block[at..at + R::BYTES]));
        let old = self.at_hand.replace(block);
        if old.is_some() {
            self.blocks.pop_front();
        }
        Ok(old)
    }
}

impl<R: Record, O: Order<R>> Merge<R, O> {
    /// Merges `runs`, none of them empty, with a block of `memory` for each and `ahead` more to
    /// read ahead.
    pub(crate) fn new(
        runs: Vec<Vector<R>>,
        order: O,
        mut memory: Memory,
        ahead: u64,
    ) -> Result<Self, ExternalError> {
        let store = runs[0].store().clone();
        let per_block = to_index(store.per_block::<R>()?);
        let left = runs.iter().map(Vector::len).sum();
        // Not more buffers than can be used; the rest of the memory stays taken.
        let wanted = (runs.len() as u64 + ahead) * store.block_bytes();
        assert!(wanted <= memory.bytes(), "whoever merges has a block for each run");
        let rest = memory.split_off(memory.bytes() - wanted);
        let mut buffers = Buffers::of(&store, memory);
        buffers.keep(rest);
        let runs = runs.into_iter().map(Run::new).collect();
        let tree = LoserTree::new(order.clone());
        let failure = Failure::default();
        let mut merge = Self { runs, tree, order, buffers, per_block, left, failure };
        let begun = merge.begin();
        merge.failure.note(begun)?;
        Ok(merge)
    }

    /// Reads the first block of each run, all in flight together, then forecasts.
    fn begin(&mut self) -> Result<(), ExternalError> {
        for run in &mut self.runs {
            run.ask(self.buffers.take())?;
        }
        for run in &mut self.runs {
            run.land(self.per_block)?;
            self.tree.push(run.next());
        }
        self.tree.build();
        self.forecast()
    }

    /// The next record; `None` at the end.
    #[inline]
    pub(crate) fn next(&mut self) -> Result<Option<R>, ExternalError> {
        let Some((leaf, record)) = self.tree.champion() else {
            self.failure.check()?;
            return Ok(None);
        };
        let run = &mut self.runs[leaf];
        match run.next() {
            Some(next) => self.tree.replace(next),
            None => self.turn(leaf)?,
        }
        self.left -= 1;
        Ok(Some(record))
    }

    /// How many records are left.
    pub(crate) const fn left_count(&self) -> u64 {
        self.left
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
        let run = &mut self.runs[leaf];
        if run.left == 0 {
            if let Some(buffer) = run.at_hand.take() {
                run.blocks.pop_front();
                self.buffers.give(buffer);
            }
            run.last = None;
            self.tree.retire();
            return self.forecast();
        }
        if run.flight.is_none() {
            // Not forecast: it has its own buffer, of which all was taken, unless another one is
            // spare.
            match self.buffers.take_spare() {
                Some(buffer) => run.ask(buffer)?,
                None => run.ask_in_place()?,
            }
        }
        if let Some(old) = run.land(self.per_block)? {
            self.buffers.give(old);
        }
        let next = run.next().expect("a block that was read has records");
        self.tree.replace(next);
        self.forecast()
    }

    /// Has spare buffers be read into, for the runs whose blocks at hand end first.
    fn forecast(&mut self) -> Result<(), ExternalError> {
        while let Some(buffer) = self.buffers.take_spare() {
            let waiting = |run: &&mut Run<R>| run.flight.is_none() && run.left > 0;
            let ends =
                |run: &&mut Run<R>| run.last.expect("a run that is left has a block at hand");
            let order = &self.order;
            let next = { self.runs.iter_mut() }
                .filter(waiting)
                .min_by(|left, right| order.compare_by_prefix(&ends(left), &ends(right)));
            match next {
                Some(run) => run.ask(buffer)?,
                None => {
                    self.buffers.give(buffer);
                    break;
                }
            }
        }
        Ok(())
    }

    /// The memory, after the end.
    pub(crate) fn into_memory(self) -> Memory {
        self.buffers.into_memory()
    }
}

impl<R: Record> Run<R> {
    /// Reads the next block over the one at hand.
    fn ask_in_place(&mut self) -> Result<(), ExternalError> {
        let buffer = self.at_hand.take().expect("a run that is left has a block at hand");
        self.blocks.pop_front();
        self.ask(buffer)
    }
}
