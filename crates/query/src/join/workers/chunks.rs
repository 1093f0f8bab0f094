//! Block nested loops by several workers: a chunk of one side in a table that all fill and build, the other side
//! past it in parts, the next chunk. Nothing is written.
//!
//! ```text
//!   for each chunk:  parts of one side ═► table, until it is full      parts of the other ═► look up ─► pairs
//! ```
//!
//! 1. Each row of the built side is in one chunk; each chunk meets every row of the other side once.

use super::load::Loader;
use super::task::{Shares, Task};
use super::{Alone, Probing, Roles, Sink, Worker};
use crate::QueryError;
use crate::join::{Join, Side, block_nested_loops};
use crate::relation::{Relation, TupleStream};
use crate::tuple::{Area, NO_TUPLE, PairBatch};
use crate::workers::{Morsels, Part};
use nandu_base::{to_index, to_u32};
use std::sync::atomic::Ordering;

/// How the memory of block nested loops is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ChunkSettings {
    outer: Side,
    share_pages: u32,
    input_pages: u32,
}

impl ChunkSettings {
    /// What settings for one worker come to for so many; `None` where these say where a chunk ends, or there is too
    /// little memory.
    pub(crate) fn of(
        settings: &block_nested_loops::Settings,
        join: &Join<'_>,
        worker_count: usize,
    ) -> Option<Self> {
        let workers = to_u32(worker_count as u64);
        let share_pages = (settings.table_pages + settings.input_pages) / workers;
        let least = join.left.relation.scan_pages_min().max(join.right.relation.scan_pages_min());
        // What reads a chunk keeps its place, and its memory, while the other side is read.
        let input_pages = (settings.input_pages / workers / 2).min(share_pages / 4).max(least);
        let is_shared = settings.chunk_pages.is_none() && share_pages > 3 * input_pages;
        is_shared.then_some(Self { outer: settings.outer, share_pages, input_pages })
    }

    /// Pages of each worker.
    pub(super) const fn share_pages(&self) -> u32 {
        self.share_pages
    }

    /// The two relations, as they are.
    pub(super) fn task(&self, join: &Join<'_>, shares: &Shares) -> Task {
        let side = |relation: &dyn Relation| {
            Morsels::of_relation(relation, shares.worker_count, self.input_pages)
        };
        let sides = [side(join.left.relation), side(join.right.relation)];
        Task::new(shares, sides, 0, shares.chunks(0, self.outer, self.input_pages, 0))
    }
}

/// Where a worker is in the side of which chunks are made.
#[derive(Default)]
struct Place<'x> {
    stream: Option<Box<dyn TupleStream + 'x>>,
    /// The row of the batch at hand that comes next.
    next: usize,
    is_done: bool,
}

impl<'x> Worker<'x> {
    /// Does a task in chunks.
    pub(super) fn join_in_chunks(&mut self, task: &Task, sink: Sink<'_>) -> Result<(), QueryError> {
        let way = &task.way;
        let (built, input_pages) = (way.built, way.input_pages);
        let table_pages = self.shares.pages.saturating_sub(2 * input_pages);
        if way.pieces.budget_bytes < self.shares.bytes(1) {
            return Err(QueryError::TooLittleMemory {
                operator: "a join by several workers".to_owned(),
                needed_pages: u64::from(2 * self.shares.pages),
                granted_pages: u64::from(self.shares.pages),
            });
        }
        let table_memory = self.take(table_pages)?;
        let roles = self.shares.roles(built);
        let mut place = Place::default();
        let mut chunk_count = 1_u64;
        while !self.join_chunk(task, roles, &mut place, (chunk_count, sink))? {
            chunk_count += 1;
        }
        drop((place, table_memory));
        if chunk_count > 1 && !task.matched.is_empty() {
            self.sweep(task, roles.probe, sink)?;
        }
        Ok(())
    }

    /// Does the next chunk; whether it was the last one.
    fn join_chunk(
        &mut self,
        task: &Task,
        roles: Roles,
        place: &mut Place<'x>,
        (number, sink): (u64, Sink<'_>),
    ) -> Result<bool, QueryError> {
        let way = &task.way;
        let nothing = self.execution.take("a join by several workers", 0)?;
        let meetings = (self.barrier, self.number);
        let mut loader = Loader::new(self.execution, &way.pieces, &task.filling, nothing, meetings);
        self.load_chunk(task, roles.keeps_null_keys(), place, &mut loader)?;
        let (loaded, _) = loader.finish()?;
        let agreed = self.agree(loaded)?;
        let is_last = self.barrier.meet(self.number, place.is_done, |all| {
            task.filling.reset();
            task.side(way.built.other()).rewind();
            all.into_iter().all(|is_done| is_done)
        })?;
        let is_alone = number == 1 && *is_last;
        if task.matched.is_empty() && roles.probe != Alone::Never && !is_alone {
            return Err(block_nested_loops::no_chunks(self.join.join_type, way.built));
        }
        let table = self.build(&agreed, way.built, way.pieces.has_marks)?;
        // Over several chunks, what a row of the side that is looked up has met is known at the end only.
        let (matched, probe) = match is_alone || task.matched.is_empty() {
            true => (None, roles.probe),
            false => (Some(task.matched.as_slice()), Alone::Matched),
        };
        let is_in_vain = table.table.row_count() == 0 && probe != Alone::Unmatched;
        if !is_in_vain {
            let probing = Probing {
                table: &table,
                built: way.built,
                roles: Roles { probe, ..roles },
                pieces: &way.pieces,
                leaving: way.pieces.split.piece_count(),
                input_pages: way.input_pages,
                matched,
            };
            self.probe(&probing, task.side(way.built.other()), &mut [], sink)?;
        }
        self.barrier.wait(self.number)?;
        if roles.build != Alone::Never {
            self.walk(&table, way.built, roles.build, sink)?;
        }
        drop((table, agreed));
        // Nobody fills the next one while the last is there.
        self.barrier.wait(self.number)?;
        Ok(*is_last)
    }

    /// Reads on until the table is full or this worker finds no more parts.
    fn load_chunk(
        &self,
        task: &Task,
        keeps_null_keys: bool,
        place: &mut Place<'x>,
        loader: &mut Loader<'x, '_>,
    ) -> Result<(), QueryError> {
        let input = self.join.input(task.way.built);
        while !place.is_done {
            let Some(stream) = &mut place.stream else {
                match task.side(task.way.built).next() {
                    None => place.is_done = true,
                    Some(part) => place.stream = Some(self.open(part, input.relation, task)?),
                }
                place.next = 0;
                continue;
            };
            let batch = stream.batch();
            while let Some(&cell) = batch.cells.get(place.next) {
                let tuple = batch.area.tuple(cell);
                let hash = input.key.hash(tuple)?;
                let is_wanted = hash.is_some() || keeps_null_keys;
                if is_wanted && !loader.push(task.way.pieces.split.piece(hash), tuple)? {
                    return Ok(());
                }
                place.next += 1;
            }
            place.next = 0;
            if !stream.advance()? {
                place.stream = None;
            }
        }
        Ok(())
    }

    fn open(
        &self,
        part: &Part,
        relation: &'x dyn Relation,
        task: &Task,
    ) -> Result<Box<dyn TupleStream + 'x>, QueryError> {
        part.scan(relation, self.execution, self.take(task.way.input_pages)?)
    }

    /// After the last chunk: rows of the other side that come out by themselves.
    fn sweep(&mut self, task: &Task, alone: Alone, sink: Sink<'_>) -> Result<(), QueryError> {
        let built = task.way.built;
        let side: &Morsels = task.side(built.other());
        self.barrier.meet(self.number, (), |_| side.rewind())?;
        let input = self.join.input(built.other());
        while let Some(part) = side.next() {
            let mut stream = self.open(part, input.relation, task)?;
            let mut row = part.first_row;
            while stream.advance()? {
                let batch = stream.batch();
                for &cell in batch.cells {
                    let word = task.matched[to_index(row / 64)].load(Ordering::Relaxed);
                    let is_matched = word >> (row % 64) & 1 == 1;
                    if is_matched == (alone == Alone::Matched) {
                        self.pairs.push((NO_TUPLE, cell));
                    }
                    row += 1;
                }
                if !self.pairs.is_empty() {
                    self.execution.work(crate::work::Work::Emit, self.pairs.len() as u64);
                    let (first, second) = (Area::EMPTY, batch.area);
                    sink(PairBatch { first, second, first_side: built, pairs: &self.pairs })?;
                    self.pairs.clear();
                }
            }
        }
        Ok(())
    }
}
