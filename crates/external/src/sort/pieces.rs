//! Memory of a sort in pieces, so that reading, sorting and writing go on at once.
//!
//! ```text
//!   push ──► filled ──► sorted by a thread ──► written, a block for each that comes in ──► run
//!              ▲                                             │
//!              └────────────── the same memory ◄─────────────┘
//! ```
//!
//! 1. What is written depends on how many records came, never on how long a thread took: a
//!    simulated drive sees the same requests each time.
//! 2. Once the user wants to stop, pieces are in any order: who hands them on looks at that.
//! 3. A thread touches its records and nothing else, and has ended when its piece is gone.

use super::in_memory::{sort_by_two, sort_in_memory};
use crate::loser_tree::LoserTree;
use crate::store::Buffers;
use crate::{ExternalError, Memory, Order, Record, Vector, VectorWriter};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::thread::JoinHandle;

/// Records that are sorted, or will be when a thread is done.
#[derive(Debug)]
pub(super) struct Piece<R> {
    records: Vec<R>,
    thread: Option<JoinHandle<Vec<R>>>,
    len: usize,
}

/// A piece that is being written.
#[derive(Debug)]
pub(super) struct Outgoing<R> {
    records: Vec<R>,
    next: usize,
    writer: VectorWriter<R>,
}

/// Sorted pieces, merged in memory.
#[derive(Debug)]
pub(super) struct PieceMerge<R, O> {
    pieces: Vec<(Vec<R>, usize)>,
    tree: LoserTree<R, O>,
    left: u64,
    memory: Memory,
}

impl<R: Record> Piece<R> {
    /// Sorts `records` now.
    pub(super) fn sorted<O: Order<R>>(mut records: Vec<R>, order: &O, stop: &AtomicBool) -> Self {
        sort_in_memory(&mut records, order, stop);
        Self { len: records.len(), records, thread: None }
    }

    /// Has a thread sort `records`; where there is none to be had, sorts them now.
    pub(super) fn sorted_by_thread<O: Order<R>>(
        mut records: Vec<R>,
        order: &O,
        stop: &Arc<AtomicBool>,
    ) -> Self {
        let len = records.len();
        // The records are handed over once the thread is there: without one they are still here.
        let (sender, receiver) = std::sync::mpsc::sync_channel::<Vec<R>>(1);
        let (its_order, its_stop) = (order.clone(), Arc::clone(stop));
        let sort = move || {
            let mut records = receiver.recv().unwrap_or_default();
            sort_by_two(&mut records, &its_order, &its_stop);
            records
        };
        match std::thread::Builder::new().name("sort".to_owned()).spawn(sort) {
            Ok(thread) => {
                sender.send(records).expect("the thread waits for its records");
                Self { records: Vec::new(), thread: Some(thread), len }
            }
            Err(_) => {
                sort_in_memory(&mut records, order, stop);
                Self { records, thread: None, len }
            }
        }
    }

    /// How many records it has.
    pub(super) const fn len(&self) -> usize {
        self.len
    }

    /// Its records in order; waits for the thread.
    pub(super) fn into_records(mut self) -> Vec<R> {
        match self.thread.take() {
            Some(thread) => match thread.join() {
                Ok(records) => records,
                Err(panic) => std::panic::resume_unwind(panic),
            },
            None => std::mem::take(&mut self.records),
        }
    }
}

impl<R> Drop for Piece<R> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            // Its memory goes back to whoever granted it. Whoever gives up has no use for a panic.
            let _ = thread.join();
        }
    }
}

impl<R: Record> Outgoing<R> {
    /// Begins to write sorted records by `buffers`.
    pub(super) fn new(records: Vec<R>, buffers: Buffers) -> Result<Self, ExternalError> {
        let writer = VectorWriter::with(buffers, records.len() as u64)?;
        Ok(Self { records, next: 0, writer })
    }

    /// How many records it has.
    pub(super) const fn len(&self) -> usize {
        self.records.len()
    }

    /// Writes up to `count` more.
    pub(super) fn write(&mut self, count: usize) -> Result<(), ExternalError> {
        let end = self.records.len().min(self.next.saturating_add(count));
        for &record in &self.records[self.next..end] {
            self.writer.push(record)?;
        }
        self.next = end;
        Ok(())
    }

    /// Writes the rest. Gives the run, the memory of the buffers, and that of the records, empty.
    pub(super) fn finish(mut self) -> Result<(Vector<R>, Memory, Vec<R>), ExternalError> {
        self.write(usize::MAX)?;
        let (run, memory) = self.writer.finish_with_memory()?;
        self.records.clear();
        Ok((run, memory, self.records))
    }
}

impl<R: Record, O: Order<R>> PieceMerge<R, O> {
    /// Merges pieces, whose `memory` is kept.
    pub(super) fn new(pieces: Vec<Vec<R>>, order: O, memory: Memory) -> Self {
        let left = pieces.iter().map(|piece| piece.len() as u64).sum();
        let mut tree = LoserTree::new(order);
        pieces.iter().for_each(|piece| tree.push(piece.first().copied()));
        tree.build();
        let pieces = pieces.into_iter().map(|piece| (piece, 1)).collect();
        Self { pieces, tree, left, memory }
    }

    /// The next record; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Option<R> {
        let (leaf, record) = self.tree.champion()?;
        let (piece, at) = &mut self.pieces[leaf];
        match piece.get(*at) {
            Some(&next) => {
                *at += 1;
                self.tree.replace(next);
            }
            None => self.tree.retire(),
        }
        self.left -= 1;
        Some(record)
    }

    /// How many records are left.
    pub(super) const fn left_count(&self) -> u64 {
        self.left
    }

    /// The memory, after the end.
    pub(super) fn into_memory(self) -> Memory {
        self.memory
    }
}
