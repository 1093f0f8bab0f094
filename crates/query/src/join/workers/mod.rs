//! Joins by several workers at once: all fill one hash table, each with parts of the built side, and all look
//! parts of the other side up in it. Pairs go to the worker that finds them.
//!
//! ```text
//!   Plan::run ─► run_workers ─┬─► worker 0: parts ─► table ─► parts of the other side ─► sink 0
//!                             ├─► worker 1:   …         ▲             …              ─► sink 1
//!                             └─ barrier ───────────────┘ one table, built range by range
//!
//!   task.rs    two sides, and how they are joined
//!   hash.rs    what does not fit is written in pieces, which are joined likewise, all workers at one pair
//!   chunks.rs  a chunk of one side at a time, the other side past it: block nested loops, and what is left of
//!              hash joins where one key has too many rows
//!   merge.rs   no table: both sides sorted by all, then a range of keys for each
//! ```
//!
//! 1. All workers go through the same steps in the same order; what they agree on comes out of a meeting.
//! 2. Each takes its share of the memory from the run and no more; rows and directories have one budget.

mod chunks;
pub(crate) mod columns;
mod hash;
mod load;
mod merge;
mod table;
mod task;
#[cfg(test)]
mod tests;

pub(crate) use chunks::ChunkSettings;
pub(crate) use hash::HashSettings;
pub(crate) use merge::MergeSettings;

use self::load::{Loaded, Pieces};
use self::table::{SharedTable, Unbuilt};
use self::task::{Shares, Task};
use super::hash_table::{Lookup, Walk};
use super::roles::{Alone, Roles};
use super::{Join, Side};
use crate::execution::Memory;
use crate::spill::{Bucket, SpillWriter};
use crate::tuple::{Area, NO_TUPLE, PairBatch};
use crate::work::Work;
use crate::workers::Morsels;
use crate::workers::{Barrier, run_workers};
use crate::{Execution, QueryError};
use nandu_workers::sync::Mutex;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Pages that each worker has at least; with fewer there are fewer workers.
pub(crate) const SHARE_PAGES_MIN: u64 = 16;
/// For each worker a table has so many ranges to be built.
const RANGES_PER_WORKER: usize = 4;

/// Who takes the pairs of one worker.
pub trait PairSink: Send {
    /// Takes some. The rows are lent.
    ///
    /// # Errors
    /// Whatever is wrong; then the join ends with it.
    fn take(&mut self, pairs: PairBatch<'_>) -> Result<(), QueryError>;
}

impl<F: FnMut(PairBatch<'_>) -> Result<(), QueryError> + Send> PairSink for F {
    fn take(&mut self, pairs: PairBatch<'_>) -> Result<(), QueryError> {
        self(pairs)
    }
}

/// A join that several workers can do.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SharedJoin {
    /// By hash.
    Hash(HashSettings),
    /// In chunks of one side.
    Chunks(ChunkSettings),
    /// Sorted, by ranges of keys.
    Merge(MergeSettings),
}

/// How many of so many workers a join can use in so many pages.
pub(crate) fn worker_count_in(wanted: usize, pages: u32, join: &Join<'_>) -> usize {
    let input_min = [join.left, join.right].map(|input| input.relation.scan_pages_min());
    let least = SHARE_PAGES_MIN.max(4 * u64::from(input_min[0].max(input_min[1])));
    wanted.min(nandu_base::to_index(u64::from(pages) / least)).max(1)
}

impl SharedJoin {
    /// Does the join, with a worker for each sink.
    ///
    /// # Errors
    /// As [`super::JoinStream::advance`], and what a sink returns.
    pub(crate) fn run<S: PairSink>(
        &self,
        execution: &Execution,
        join: Join<'_>,
        sinks: &mut [S],
    ) -> Result<(), QueryError> {
        join.check()?;
        match self {
            Self::Merge(settings) => settings.run(execution, join, sinks),
            Self::Hash(settings) => {
                let shares = Shares::new(execution, &join, settings.share_pages(), sinks.len());
                Self::run_task(execution, join, (shares, settings.task(&join, &shares)), sinks)
            }
            Self::Chunks(settings) => {
                let shares = Shares::new(execution, &join, settings.share_pages(), sinks.len());
                Self::run_task(execution, join, (shares, settings.task(&join, &shares)), sinks)
            }
        }
    }

    fn run_task<S: PairSink>(
        execution: &Execution,
        join: Join<'_>,
        (shares, task): (Shares, Task),
        sinks: &mut [S],
    ) -> Result<(), QueryError> {
        let task = Arc::new(task);
        run_workers(execution, sinks, |execution, barrier, number, sink| {
            let (lookup, pairs, met) = (Lookup::default(), Vec::new(), Vec::new());
            let mut worker =
                Worker { execution, join, shares, barrier, number, lookup, pairs, met };
            worker.run(Arc::clone(&task), &mut |pairs| sink.take(pairs))
        })
    }
}

/// Where pairs go.
type Sink<'s> = &'s mut dyn FnMut(PairBatch<'_>) -> Result<(), QueryError>;

/// One of those who do a join.
struct Worker<'x> {
    execution: &'x Execution,
    join: Join<'x>,
    shares: Shares,
    barrier: &'x Barrier,
    number: usize,
    lookup: Lookup,
    pairs: Vec<(u64, u64)>,
    /// Rows of the table that the last lookup met, to be marked.
    met: Vec<u64>,
}

/// What is looked up, and where.
struct Probing<'p> {
    table: &'p SharedTable,
    built: Side,
    roles: Roles,
    pieces: &'p Pieces,
    /// The first piece that is not in the table.
    leaving: usize,
    input_pages: u32,
    /// A bit for each row of the side that is looked up, if what it meets is known at the end only.
    matched: Option<&'p [AtomicU64]>,
}

/// What workers agree on when a side was read.
struct Agreed {
    unbuilt: Unbuilt,
    /// What was written of the pieces that do not stay.
    written: Mutex<Vec<Vec<Bucket>>>,
}

impl<'x> Worker<'x> {
    fn worker_count(&self) -> usize {
        self.barrier.worker_count()
    }

    fn take(&self, pages: u32) -> Result<Memory<'x>, QueryError> {
        self.execution.take("a join by several workers", pages)
    }

    /// Hands in what this worker has read; gives what all have.
    fn agree(&self, loaded: Loaded) -> Result<Arc<Agreed>, QueryError> {
        self.barrier.meet(self.number, loaded, |all| {
            let leaving = all.first().map_or(0, |loaded| loaded.stores.len());
            let left = all.first().map_or(0, |loaded| loaded.buckets.len());
            let mut pieces: Vec<Vec<_>> = (0..leaving).map(|_| Vec::new()).collect();
            let mut written: Vec<Vec<_>> = (0..left).map(|_| Vec::new()).collect();
            for loaded in all {
                pieces.iter_mut().zip(loaded.stores).for_each(|(all, mine)| all.push(mine));
                written.iter_mut().zip(loaded.buckets).for_each(|(all, mine)| all.extend(mine));
            }
            Agreed { unbuilt: Unbuilt::new(pieces), written: Mutex::new(written) }
        })
    }

    /// Builds its part of the table; gives the whole one.
    fn build(
        &self,
        agreed: &Agreed,
        built: Side,
        has_marks: bool,
    ) -> Result<Arc<SharedTable>, QueryError> {
        let ranges = agreed.unbuilt.build(self.join.input(built).key)?;
        let row_count: usize = ranges.iter().map(|(_, range)| range.row_count()).sum();
        self.execution.work(Work::Build, row_count as u64);
        let table =
            self.barrier.meet(self.number, ranges, |all| SharedTable::new(all, has_marks))?;
        #[cfg(test)]
        if self.number == 0 {
            table.table.audit(self.join.input(built).key);
        }
        Ok(table)
    }

    /// Looks parts up until there are none; rows of pieces that have left are written to `writers`.
    fn probe(
        &mut self,
        probing: &Probing<'_>,
        morsels: &Morsels,
        writers: &mut [SpillWriter<'x>],
        sink: Sink<'_>,
    ) -> Result<(), QueryError> {
        let input = self.join.input(probing.built.other());
        while let Some(part) = morsels.next() {
            let memory = self.take(probing.input_pages)?;
            let mut stream = part.scan(input.relation, self.execution, memory)?;
            let mut first_row = part.first_row;
            while stream.advance()? {
                let batch = stream.batch();
                self.lookup.clear();
                let mut written_count = 0;
                for &cell in batch.cells {
                    let tuple = batch.area.tuple(cell);
                    let hash = input.key.hash(tuple)?;
                    let piece = probing.pieces.split.piece(hash);
                    match piece.checked_sub(probing.leaving) {
                        Some(left) if hash.is_some() => {
                            writers[left].push(tuple)?;
                            written_count += 1;
                        }
                        _ => self.lookup.push_in(piece, cell, hash),
                    }
                }
                self.lookup.begin(&probing.table.table);
                self.execution.work(Work::Copy, written_count);
                self.execution.work(Work::Probe, batch.cells.len() as u64 - written_count);
                self.meet_batch(probing, stream.batch().area, first_row, sink)?;
                first_row += stream.batch().cells.len() as u64;
            }
        }
        Ok(())
    }

    /// Hands on the pairs of the rows at hand, which lie in `area`.
    fn meet_batch(
        &mut self,
        probing: &Probing<'_>,
        area: Area<'_>,
        first_row: u64,
        sink: Sink<'_>,
    ) -> Result<(), QueryError> {
        let Probing { table, built, roles, matched, .. } = probing;
        let keys = (self.join.input(built.other()).key, self.join.input(*built).key);
        loop {
            let Self { lookup, pairs, met, .. } = self;
            let is_done = table.table.meet(keys, area, *roles, lookup, (pairs, met))?;
            for address in met.drain(..) {
                table.mark(address);
            }
            if let Some(matched) = matched {
                pairs.retain(|&(built, probe)| {
                    if built == NO_TUPLE {
                        let row = first_row + lookup.index_of(probe);
                        matched[nandu_base::to_index(row / 64)]
                            .fetch_or(1 << (row % 64), Ordering::Relaxed);
                    }
                    built != NO_TUPLE
                });
            }
            if !pairs.is_empty() {
                self.execution.work(Work::Emit, pairs.len() as u64);
                let first = table.table.area();
                sink(PairBatch { first, second: area, first_side: *built, pairs })?;
                pairs.clear();
            }
            if is_done {
                return Ok(());
            }
        }
    }

    /// Hands on this worker's share of the built rows that come out by themselves.
    fn walk(
        &mut self,
        table: &SharedTable,
        built: Side,
        alone: Alone,
        sink: Sink<'_>,
    ) -> Result<(), QueryError> {
        let mut walk = Walk::over(&table.share(self.number, self.worker_count()));
        loop {
            let pairs = &mut self.pairs;
            let is_met = |address| table.is_marked(address);
            let is_done = table.table.walk_marked(alone, &mut walk, pairs, is_met);
            if !pairs.is_empty() {
                self.execution.work(Work::Emit, pairs.len() as u64);
                let (first, second) = (table.table.area(), Area::EMPTY);
                sink(PairBatch { first, second, first_side: built, pairs })?;
                pairs.clear();
            }
            if is_done {
                return Ok(());
            }
        }
    }
}
