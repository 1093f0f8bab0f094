//! Hybrid hash join by several workers: pieces of the built side leave memory only where they must, and what
//! left is joined pair by pair, all workers at one pair, so that a large one holds nobody up.
//!
//! ```text
//!   task: two sides, as parts ─► load ═ agree ═ build ═ probe ═ walk ─► tasks of what was written
//!                                (meetings of all workers at each ═)
//! ```

use super::load::{Loader, Pieces};
use super::task::{Shares, Task, Way};
use super::{Agreed, Alone, Probing, Sink, Worker};
use crate::execution::Memory;
use crate::join::buckets::gives_rows;
use crate::join::hybrid_hash::{BuiltSide, Settings, with_slack};
use crate::join::split::Split;
use crate::join::{Join, Side};
use crate::relation::Relation;
use crate::spill::{Bucket, SpillWriter};
use crate::work::Work;
use crate::workers::Morsels;
use crate::{QueryError, allocation};
use nandu_base::{to_index, to_u32};
use std::sync::Arc;

/// How the memory of a hash join is divided.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HashSettings {
    /// What one worker does with its share.
    pub(super) share: Settings,
}

impl HashSettings {
    /// What an allocation comes to for so many workers, in so many pages of so many bytes for all.
    pub(crate) fn of(
        parts: &allocation::HybridHash,
        join: &Join<'_>,
        build: Side,
        (pages, page_bytes): (u32, u64),
        worker_count: usize,
    ) -> Self {
        let workers = worker_count as u64;
        let size = join.input(build).relation.size();
        let built = BuiltSide {
            tuple_count: size.tuple_count.div_ceil(workers),
            cell_bytes: size.cell_bytes.div_ceil(workers),
        };
        let share_pages = pages / to_u32(workers);
        let input_pages = (parts.input_pages / workers).min(u64::from(share_pages / 4));
        let least = join.left.relation.scan_pages_min().max(join.right.relation.scan_pages_min());
        let parts = allocation::HybridHash {
            input_pages: input_pages.max(u64::from(least)),
            output_pages: parts.output_pages / workers,
            ..*parts
        };
        Self { share: Settings::of(&parts, built, build, (share_pages, page_bytes)) }
    }

    /// Pages of each worker.
    pub(super) const fn share_pages(&self) -> u32 {
        self.share.pages
    }

    /// The two relations, as they are.
    pub(super) fn task(&self, join: &Join<'_>, shares: &Shares) -> Task {
        let Settings { build, input_pages, resident_ppm, .. } = self.share;
        let side = |relation: &dyn Relation| {
            Morsels::of_relation(relation, shares.worker_count, input_pages)
        };
        let sides = [side(join.left.relation), side(join.right.relation)];
        let layout = self.share.layout();
        let resident_ppm = u64::from(resident_ppm.min(1_000_000));
        let (tiers, buckets) = (layout.tier_count as usize, layout.bucket_count as usize);
        let page_bytes = shares.page_bytes as u64;
        let cell_bytes = join.input(build).relation.size().cell_bytes / shares.worker_count as u64;
        let resident = match buckets {
            0 => cell_bytes,
            _ => cell_bytes / 1_000_000 * resident_ppm,
        };
        let expected = |bytes: u64, count: usize| {
            let pages = bytes / count.max(1) as u64 / page_bytes;
            with_slack(pages)
        };
        let expected_of = |piece: usize| match piece < tiers {
            true => expected(resident, tiers),
            false => expected(cell_bytes.saturating_sub(resident), buckets),
        };
        let pieces = Pieces {
            split: Split::with_tiers(0, resident_ppm, tiers, buckets),
            output_pages: (0..tiers + buckets).map(|piece| layout.output_pages_of(piece)).collect(),
            expected_pages: (0..tiers + buckets).map(expected_of).collect(),
            store_bytes: to_index(layout.segment_store_bytes(page_bytes)),
            budget_bytes: shares.bytes(shares.pages - input_pages),
            has_marks: shares.has_marks(build),
        };
        let way = Way { built: build, pieces, input_pages, is_chunked: false };
        Task::new(shares, sides, 0, way)
    }
}

impl<'x> Worker<'x> {
    /// Does the whole join, beginning with this task.
    pub(super) fn run(&mut self, first: Arc<Task>, sink: Sink<'_>) -> Result<(), QueryError> {
        let mut tasks = vec![first];
        while let Some(task) = tasks.pop() {
            match task.way.is_chunked {
                true => self.join_in_chunks(&task, sink)?,
                false => tasks.extend(self.join_hashed(&task, sink)?.iter().cloned()),
            }
            self.barrier.meet(self.number, (), |_| {
                task.side(Side::Left).release(self.execution);
                task.side(Side::Right).release(self.execution);
            })?;
        }
        Ok(())
    }

    /// Joins what stays in memory, and gives tasks of what does not.
    fn join_hashed(
        &mut self,
        task: &Task,
        sink: Sink<'_>,
    ) -> Result<Arc<Vec<Arc<Task>>>, QueryError> {
        let Way { built, pieces, input_pages, .. } = &task.way;
        let roles = self.shares.roles(*built);
        let mut memory = self.take(self.shares.pages - input_pages)?;
        let (agreed, rest) = self.load_all(task, memory)?;
        memory = rest;
        let table = self.build(&agreed, *built, pieces.has_marks)?;
        let leaving = task.filling.leaving();
        let mut writers = self.writers(task, &agreed, &mut memory)?;
        let probing = Probing {
            table: &table,
            built: *built,
            roles,
            pieces,
            leaving,
            input_pages: *input_pages,
            matched: None,
        };
        self.probe(&probing, task.side(built.other()), &mut writers, sink)?;
        let mut buckets = Vec::with_capacity(writers.len());
        for writer in writers {
            let (bucket, output) = writer.finish()?;
            memory.join(output);
            buckets.push(bucket);
        }
        let next =
            self.barrier.meet(self.number, buckets, |all| self.pairs_of(task, &agreed, all))?;
        if roles.build != Alone::Never {
            self.walk(&table, *built, roles.build, sink)?;
        }
        Ok(next)
    }

    /// Reads its parts of the built side into pieces; gives what all have read, and the memory.
    fn load_all(
        &self,
        task: &Task,
        memory: Memory<'x>,
    ) -> Result<(Arc<Agreed>, Memory<'x>), QueryError> {
        let Way { built, pieces, input_pages, .. } = &task.way;
        let input = self.join.input(*built);
        let keeps_null_keys = self.shares.roles(*built).keeps_null_keys();
        let meetings = (self.barrier, self.number);
        let mut loader = Loader::new(self.execution, pieces, &task.filling, memory, meetings);
        let mut row_count = 0;
        while let Some(part) = task.side(*built).next() {
            let input_memory = self.take(*input_pages)?;
            let mut stream = part.scan(input.relation, self.execution, input_memory)?;
            while stream.advance()? {
                loader.follow()?;
                let batch = stream.batch();
                for tuple in batch.tuples() {
                    let hash = input.key.hash(tuple)?;
                    if hash.is_some() || keeps_null_keys {
                        loader.push(pieces.split.piece(hash), tuple)?;
                    }
                }
                row_count += batch.cells.len();
            }
        }
        loader.wait_for_all()?;
        let (loaded, memory) = loader.finish()?;
        let held_count: usize = loaded.stores.iter().map(|store| store.row_count()).sum();
        self.execution.work(Work::Copy, row_count.saturating_sub(held_count) as u64);
        Ok((self.agree(loaded)?, memory))
    }

    /// A writer for each piece that has left.
    fn writers(
        &self,
        task: &Task,
        agreed: &Agreed,
        memory: &mut Memory<'x>,
    ) -> Result<Vec<SpillWriter<'x>>, QueryError> {
        let Way { built, pieces, .. } = &task.way;
        let (built_bytes, other) = {
            let other = task.side(built.other());
            (task.side(*built).cell_bytes().max(1), other.cell_bytes())
        };
        let written = agreed.written.lock();
        let written_bytes = |buckets: &Vec<Bucket>| buckets.iter().map(Bucket::cell_bytes).sum();
        let written: Vec<u64> = written.iter().map(written_bytes).collect();
        let writer = |(bytes, &output_pages): (u64, &u32)| {
            // As many as the built side has of it, in proportion, divided among the workers.
            let share = u128::from(other) * u128::from(bytes) / u128::from(built_bytes);
            let bytes = u64::try_from(share).unwrap_or(u64::MAX) / self.worker_count() as u64;
            let pages = bytes / self.shares.page_bytes as u64;
            let memory = memory.split_off(output_pages);
            SpillWriter::new(self.execution, memory, with_slack(pages))
        };
        let outputs = &pieces.output_pages[task.filling.leaving()..];
        written.into_iter().zip(outputs).map(writer).collect()
    }

    /// Tasks of what both sides have written. Who comes last makes them for all.
    fn pairs_of(&self, task: &Task, agreed: &Agreed, probed: Vec<Vec<Bucket>>) -> Vec<Arc<Task>> {
        let built = task.way.built;
        let written = std::mem::take(&mut *agreed.written.lock());
        let mut others: Vec<Vec<Bucket>> = written.iter().map(|_| Vec::new()).collect();
        for buckets in probed {
            let filled = others.iter_mut().zip(buckets);
            filled
                .for_each(|(all, bucket)| all.extend((bucket.tuple_count() > 0).then_some(bucket)));
        }
        let sides = [Side::Left, Side::Right].map(|side| task.side(side).table_bytes());
        let table_bytes = sides[0].min(sides[1]);
        let parent_bytes = if task.level == 0 { u64::MAX } else { table_bytes };
        let pairs = written.into_iter().zip(others).filter_map(|(mine, others)| {
            let (mine, others) = (Morsels::of_buckets(mine), Morsels::of_buckets(others));
            let sides = match built {
                Side::Left => [mine, others],
                Side::Right => [others, mine],
            };
            let counts = (sides[0].tuple_count(), sides[1].tuple_count());
            if !gives_rows(counts, self.join.join_type) {
                sides.iter().for_each(|side| side.release(self.execution));
                return None;
            }
            let task = Task::of_written(&self.shares, sides, task.level + 1, parent_bytes);
            Some(Arc::new(task))
        });
        pairs.collect()
    }
}
