//! Runs that are merged: the blocks of each, read before they are needed.
//!
//! ```text
//!   run 1 ═in flight═► at hand ┐
//!   run 2 ═in flight═► at hand ┼─► whoever merges
//!   run 3 ═in flight═► at hand ┘
//!   forecast: the next block of the run whose block at hand ends first (Knuth, volume 3, 5.4.6)
//! ```
//!
//! 1. Each block is read once. A run has its block at hand and at most one in flight.
//! 2. A run gives its room back as it is read.

use crate::store::{Blocks, Buffers, Flight};
use crate::{ExternalError, Memory, Order, Record, Vector};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::sync::Arc;

/// A run, and where it stands.
#[derive(Debug)]
pub(super) struct Run<R> {
    // Before the blocks: what is in flight is waited for before they are given back.
    flight: Option<Flight>,
    /// Those that are not at hand yet.
    blocks: Blocks,
    at_hand: Option<Arc<IoBuffer>>,
    /// Records of the block at hand.
    count: usize,
    /// Records after the block at hand.
    left: u64,
    /// The last record of the block at hand.
    last: Option<R>,
}

/// The runs of a merge.
#[derive(Debug)]
pub(super) struct Runs<R, O> {
    runs: Vec<Run<R>>,
    order: O,
    buffers: Buffers,
    per_block: usize,
    /// A run whose next block is wanted before all others.
    wanted: Option<usize>,
}

impl<R: Record> Run<R> {
    fn new(vector: Vector<R>) -> Self {
        let (blocks, left) = vector.into_parts();
        Self { flight: None, blocks, at_hand: None, count: 0, left, last: None }
    }

    /// The record in a slot of the block at hand.
    #[inline]
    pub(super) fn record(&self, slot: usize) -> R {
        let block = self.at_hand.as_ref().expect("records lie in a block");
        R::decode(&block[slot * R::BYTES..(slot + 1) * R::BYTES])
    }

    /// How many records the block at hand has; 0 without one.
    #[inline]
    pub(super) const fn count(&self) -> usize {
        self.count
    }

    /// The block at hand, for whoever reads it beside.
    pub(super) fn block(&self) -> Arc<IoBuffer> {
        Arc::clone(self.at_hand.as_ref().expect("a run that is read has a block at hand"))
    }

    /// Whether there are records after the block at hand.
    pub(super) const fn is_left(&self) -> bool {
        self.left > 0
    }

    /// Begins to read the next block.
    fn ask(&mut self, buffer: IoBuffer) -> Result<(), ExternalError> {
        let flight = self.blocks.store().read(self.blocks.place(0), buffer)?;
        self.flight = Some(flight);
        Ok(())
    }

    /// Makes the block in flight the one at hand; there is none at hand.
    fn land(&mut self, flight: Flight, per_block: usize) -> Result<(), ExternalError> {
        let block = flight.wait()?;
        self.blocks.pop_front();
        self.count = to_index(self.left.min(per_block as u64));
        self.left -= self.count as u64;
        self.at_hand = Some(Arc::new(block));
        self.last = Some(self.record(self.count - 1));
        Ok(())
    }
}

impl<R: Record, O: Order<R>> Runs<R, O> {
    /// Reads the first block of each of `runs`, none of them empty, with a block of `memory` for
    /// each and `ahead` more to read ahead. What is left of the memory is kept.
    pub(super) fn new(
        runs: Vec<Vector<R>>,
        order: O,
        mut memory: Memory,
        ahead: u64,
    ) -> Result<Self, ExternalError> {
        let store = runs[0].store().clone();
        let per_block = to_index(store.per_block::<R>()?);
        let wanted = (runs.len() as u64 + ahead) * store.block_bytes();
        assert!(wanted <= memory.bytes(), "whoever merges has a block for each run");
        let rest = memory.split_off(memory.bytes() - wanted);
        let mut buffers = Buffers::of(&store, memory);
        buffers.keep(rest);
        let runs = runs.into_iter().map(Run::new).collect();
        let mut runs = Self { runs, order, buffers, per_block, wanted: None };
        // All in flight together.
        for run in &mut runs.runs {
            run.ask(runs.buffers.take())?;
        }
        for run in 0..runs.runs.len() {
            let has_landed = runs.next_block(run)?;
            assert!(has_landed, "each first block is in flight");
        }
        runs.forecast()?;
        Ok(runs)
    }

    /// How many there are.
    pub(super) const fn len(&self) -> usize {
        self.runs.len()
    }

    /// One of them.
    #[inline]
    pub(super) fn run(&self, run: usize) -> &Run<R> {
        &self.runs[run]
    }

    /// Has a run have no block at hand.
    pub(super) fn take_block(&mut self, run: usize) -> Arc<IoBuffer> {
        let run = &mut self.runs[run];
        run.count = 0;
        if run.left == 0 {
            run.last = None;
        }
        run.at_hand.take().expect("a run that is read has a block at hand")
    }

    /// Takes the memory of a block, if nobody else reads it.
    pub(super) fn give(&mut self, block: Arc<IoBuffer>) {
        if let Some(buffer) = Arc::into_inner(block) {
            self.buffers.give(buffer);
        }
    }

    /// Makes the next block of a run that has none at hand the one at hand. False if there is no
    /// memory to read it into now; it is the first that gets some.
    pub(super) fn next_block(&mut self, run: usize) -> Result<bool, ExternalError> {
        self.wanted = Some(run);
        self.ask_wanted()?;
        let run = &mut self.runs[run];
        let Some(flight) = run.flight.take() else { return Ok(false) };
        self.wanted = None;
        run.land(flight, self.per_block)?;
        Ok(true)
    }

    /// Has the block that is wanted be in flight, if there is memory.
    fn ask_wanted(&mut self) -> Result<(), ExternalError> {
        let Some(run) = self.wanted else { return Ok(()) };
        let run = &mut self.runs[run];
        if run.flight.is_none()
            && let Some(buffer) = self.buffers.take_spare()
        {
            run.ask(buffer)?;
        }
        Ok(())
    }

    /// Has spare buffers be read into, for the runs whose blocks at hand end first.
    pub(super) fn forecast(&mut self) -> Result<(), ExternalError> {
        self.ask_wanted()?;
        while let Some(buffer) = self.buffers.take_spare() {
            let waiting = |run: &&mut Run<R>| run.flight.is_none() && run.left > 0;
            let ends = |run: &&mut Run<R>| run.last.expect("a run that is left has had a block");
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
    pub(super) fn into_memory(self) -> Memory {
        self.buffers.into_memory()
    }
}
