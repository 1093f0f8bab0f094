//! How several workers fill one table: rows by pieces of hash space, in segments of each worker's own, within one
//! budget. Where memory runs short pieces leave, from the last to the first, and those of all workers do.
//!
//! ```text
//!   budget of all ├── rows, directories, marks ──┤├─ outputs of pieces that have left, and of the next ─┤
//!
//!   worker 0   │ piece 0 │ piece 1 │ piece 2 ═► bucket │         `leaving`: 2
//!   worker 1   │ piece 0 │ piece 1 │ piece 2 ═► bucket │
//! ```
//!
//! 1. What all workers hold is within the budget, but for one row of each that is larger by itself.
//! 2. `leaving` never rises; when all have read, every worker has written its pieces from there on.
//! 3. All workers together have no more segments than addresses tell, however short they are.
//! 4. A piece leaves only when all workers have written those before it: more would leave than has to.

use super::table::mark_bytes;
use crate::execution::Memory;
use crate::join::hash_table::HashTable;
use crate::join::row_store::{RowStore, SEGMENT_COUNT_MAX};
use crate::join::split::Split;
use crate::spill::{Bucket, SpillWriter};
use crate::tuple::Tuple;
use crate::workers::Barrier;
use crate::{Execution, QueryError};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Slots of the directory are claimed for so many rows at once.
const CLAIMED_ROWS: usize = 128;
/// What a list takes for a segment, which may be twice as long as it needs to be.
const SEGMENT_HEAD_BYTES: usize = 2 * size_of::<Vec<u8>>();

/// How a side is cut, and how much memory there is for it; the same for all workers.
#[derive(Debug)]
pub(super) struct Pieces {
    pub(super) split: Split,
    /// The output of each piece, in pages; none where nothing may leave.
    pub(super) output_pages: Vec<u32>,
    /// Pages that each piece of the built side is expected to have if it leaves, of one worker.
    pub(super) expected_pages: Vec<u64>,
    /// Bytes of the rows that a worker is expected to have in a piece that stays.
    pub(super) store_bytes: usize,
    /// Bytes of all workers for rows, directories, marks and outputs.
    pub(super) budget_bytes: usize,
    pub(super) has_marks: bool,
}

/// What all workers that fill a table have claimed.
#[derive(Debug)]
pub(super) struct Filling {
    used_bytes: AtomicUsize,
    segment_count: AtomicUsize,
    /// [`SEGMENT_COUNT_MAX`], but in tests.
    pub(super) segment_count_max: usize,
    /// The first piece that does not stay.
    leaving: AtomicUsize,
    /// From which piece on each worker has let them leave.
    followed: Vec<AtomicUsize>,
    /// Workers that have read all.
    done_count: AtomicUsize,
}

enum Piece<'x> {
    Resident(RowStore),
    Written(SpillWriter<'x>),
}

/// One worker's part of it.
pub(super) struct Loader<'x, 'p> {
    execution: &'x Execution,
    pieces: &'p Pieces,
    filling: &'p Filling,
    mine: Vec<Piece<'x>>,
    memory: Memory<'x>,
    /// Up to here this worker has let pieces leave.
    left_from: usize,
    /// Rows for whose slots it has memory already.
    free_slots: usize,
    row_count: usize,
    barrier: &'p Barrier,
    worker: usize,
}

/// What a worker has when all have read.
pub(super) struct Loaded {
    /// Of each piece that stays.
    pub(super) stores: Vec<RowStore>,
    /// Of each piece that does not, if the worker has rows of it.
    pub(super) buckets: Vec<Option<Bucket>>,
}

impl Pieces {
    /// Bytes of outputs, of all workers, when pieces have left from `leaving` on: the next one's are kept.
    fn output_bytes(&self, leaving: usize, page_bytes: usize, worker_count: usize) -> usize {
        let pages = self.output_pages[leaving.saturating_sub(1)..].iter();
        pages.map(|&pages| pages as usize).sum::<usize>() * page_bytes * worker_count
    }
}

impl Filling {
    pub(super) fn new(piece_count: usize, worker_count: usize) -> Self {
        Self {
            used_bytes: AtomicUsize::new(0),
            segment_count: AtomicUsize::new(0),
            segment_count_max: SEGMENT_COUNT_MAX,
            leaving: AtomicUsize::new(piece_count),
            followed: (0..worker_count).map(|_| AtomicUsize::new(piece_count)).collect(),
            done_count: AtomicUsize::new(0),
        }
    }

    /// Whether every worker has written what left.
    fn have_all_followed(&self) -> bool {
        let leaving = self.leaving();
        self.followed.iter().all(|followed| followed.load(Ordering::Acquire) <= leaving)
    }

    fn have_all_read(&self) -> bool {
        self.done_count.load(Ordering::Acquire) == self.followed.len()
    }

    /// Nobody has claimed anything any more. Called while nobody fills.
    pub(super) fn reset(&self) {
        self.used_bytes.store(0, Ordering::Relaxed);
        self.segment_count.store(0, Ordering::Relaxed);
    }

    /// The first piece that does not stay.
    pub(super) fn leaving(&self) -> usize {
        self.leaving.load(Ordering::Acquire)
    }

    /// Claims memory, unless that is more than `limit_bytes` for all, and so many segments in it.
    fn claim(&self, (bytes, segments): (usize, usize), limit_bytes: usize) -> bool {
        let claim = |claimed: &AtomicUsize, more: usize, most: usize| {
            let sum = |before: usize| (before.saturating_add(more) <= most).then(|| before + more);
            claimed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, sum).is_ok()
        };
        if !claim(&self.segment_count, segments, self.segment_count_max) {
            return false;
        }
        let is_claimed = claim(&self.used_bytes, bytes, limit_bytes);
        if !is_claimed {
            self.segment_count.fetch_sub(segments, Ordering::Relaxed);
        }
        is_claimed
    }
}

impl<'x, 'p> Loader<'x, 'p> {
    pub(super) fn new(
        execution: &'x Execution,
        pieces: &'p Pieces,
        filling: &'p Filling,
        memory: Memory<'x>,
        (barrier, worker): (&'p Barrier, usize),
    ) -> Self {
        let piece_count = pieces.split.piece_count();
        let store = |_| Piece::Resident(RowStore::new(pieces.store_bytes));
        Self {
            execution,
            pieces,
            filling,
            mine: (0..piece_count).map(store).collect(),
            memory,
            left_from: piece_count,
            free_slots: 0,
            row_count: 0,
            barrier,
            worker,
        }
    }

    /// Adds a row to a piece; false if there is no room and nothing may leave.
    ///
    /// # Errors
    /// If what leaves cannot be written.
    #[inline]
    pub(super) fn push(&mut self, piece: usize, tuple: Tuple<'_>) -> Result<bool, QueryError> {
        loop {
            match &mut self.mine[piece] {
                Piece::Written(writer) => return writer.push(tuple).map(|()| true),
                Piece::Resident(store) => {
                    let growth = store.growth(tuple);
                    if (growth == 0 && self.free_slots > 0) || self.claim(growth) {
                        let Piece::Resident(store) = &mut self.mine[piece] else { continue };
                        store.push(tuple, growth);
                        self.free_slots -= 1;
                        self.row_count += 1;
                        return Ok(true);
                    }
                }
            }
            if !self.give_way()? {
                return Ok(false);
            }
        }
    }

    /// Claims memory for a segment of so many bytes, if it takes one, and for slots, if there are none left.
    #[cold]
    fn claim(&mut self, growth: usize) -> bool {
        let slots = if self.free_slots == 0 { CLAIMED_ROWS } else { 0 };
        let segment = if growth > 0 { self.segment_bytes(growth) } else { 0 };
        let claim = (segment + HashTable::directory_bytes(slots), usize::from(growth > 0));
        let may_leave = !self.pieces.output_pages.is_empty();
        let output_bytes = if may_leave { self.output_bytes(self.filling.leaving()) } else { 0 };
        let limit_bytes = self.pieces.budget_bytes.saturating_sub(output_bytes);
        // Where nothing may leave, a first row always fits.
        let is_claimed = self.filling.claim(claim, limit_bytes)
            || (!may_leave && self.row_count == 0 && self.filling.claim(claim, usize::MAX));
        if is_claimed {
            self.free_slots += slots;
        }
        is_claimed
    }

    /// What a segment of so many bytes takes with what is noted of it.
    const fn segment_bytes(&self, bytes: usize) -> usize {
        let marks = if self.pieces.has_marks { mark_bytes(bytes) } else { 0 };
        bytes + marks + SEGMENT_HEAD_BYTES
    }

    fn output_bytes(&self, leaving: usize) -> usize {
        let worker_count = self.barrier.worker_count();
        self.pieces.output_bytes(leaving, self.execution.page_bytes(), worker_count)
    }

    /// Makes room: lets go what others have let go, waits for those who have not yet, or lets the next piece go. False
    /// if nothing may leave.
    #[cold]
    fn give_way(&mut self) -> Result<bool, QueryError> {
        if self.pieces.output_pages.is_empty() {
            return Ok(false);
        }
        let (filling, left_from) = (self.filling, self.left_from);
        if filling.leaving() == left_from && !filling.have_all_followed() {
            let is_so = || filling.have_all_followed() || filling.leaving() < left_from;
            self.barrier.wait_until(is_so)?;
        } else if filling.leaving() == left_from {
            let next = left_from.checked_sub(1).expect("what has left takes no room");
            // Where another worker was faster, what he let go is enough for now.
            let order = (Ordering::AcqRel, Ordering::Relaxed);
            let _ = filling.leaving.compare_exchange(left_from, next, order.0, order.1);
        }
        self.follow()?;
        Ok(true)
    }

    /// Writes the pieces that others have let go. Called now and then.
    ///
    /// # Errors
    /// If one cannot be written.
    #[inline]
    pub(super) fn follow(&mut self) -> Result<(), QueryError> {
        if self.filling.leaving() < self.left_from { self.leave() } else { Ok(()) }
    }

    #[cold]
    fn leave(&mut self) -> Result<(), QueryError> {
        while self.filling.leaving() < self.left_from {
            self.left_from -= 1;
            self.destage(self.left_from)?;
        }
        self.filling.followed[self.worker].store(self.left_from, Ordering::Release);
        self.barrier.tell();
        Ok(())
    }

    /// Waits until all workers have read what there is; none makes a piece leave after that.
    ///
    /// # Errors
    /// If what leaves meanwhile cannot be written, or a worker failed.
    pub(super) fn wait_for_all(&mut self) -> Result<(), QueryError> {
        let filling = self.filling;
        filling.done_count.fetch_add(1, Ordering::AcqRel);
        self.barrier.tell();
        while !filling.have_all_read() {
            let left_from = self.left_from;
            self.barrier.wait_until(|| filling.have_all_read() || filling.leaving() < left_from)?;
            self.follow()?;
        }
        self.follow()
    }

    /// Writes what this worker has of a piece.
    fn destage(&mut self, piece: usize) -> Result<(), QueryError> {
        let output = self.memory.split_off(self.pieces.output_pages[piece]);
        let expected_pages = self.pieces.expected_pages[piece];
        let mut writer = SpillWriter::new(self.execution, output, expected_pages)?;
        let Piece::Resident(store) = &self.mine[piece] else { return Ok(()) };
        for tuple in store.tuples() {
            writer.push(tuple)?;
        }
        let segments = store.segments().iter();
        let segment_bytes: usize =
            segments.map(|segment| self.segment_bytes(segment.capacity())).sum();
        let slot_bytes =
            HashTable::directory_bytes(store.row_count()) - HashTable::directory_bytes(0);
        let freed_bytes = segment_bytes + slot_bytes;
        let freed_segments = store.segments().len();
        self.row_count -= store.row_count();
        // The memory is free when its claim is.
        self.mine[piece] = Piece::Written(writer);
        self.filling.used_bytes.fetch_sub(freed_bytes, Ordering::Relaxed);
        self.filling.segment_count.fetch_sub(freed_segments, Ordering::Relaxed);
        Ok(())
    }

    /// Ends, after all have read; gives back what is left of the memory, too.
    ///
    /// # Errors
    /// If the rest of what has left cannot be written.
    pub(super) fn finish(self) -> Result<(Loaded, Memory<'x>), QueryError> {
        let Self { mine, mut memory, .. } = self;
        let mut loaded = Loaded { stores: Vec::new(), buckets: Vec::new() };
        for piece in mine {
            match piece {
                Piece::Resident(store) => loaded.stores.push(store),
                Piece::Written(writer) => {
                    let (bucket, output) = writer.finish()?;
                    memory.join(output);
                    loaded.buckets.push((bucket.tuple_count() > 0).then_some(bucket));
                }
            }
        }
        Ok((loaded, memory))
    }
}
