//! Runs merged: the next row of each in a tournament, read in blocks; and merges in between where there
//! are more runs than memory has blocks (Knuth, volume 3, 5.4.1 and 5.4.9).
//!
//! ```text
//!   run 1 ═block═► row ┐
//!   run 2 ═block═► row ┼─ tree of losers ──► row after row
//!   run 3 ═block═► row ┘
//!   forecast: the next block of the run whose block at hand ends with the least key
//! ```
//!
//! With a block for each run and one more, the device reads what is needed next while the rows at hand
//! are merged (forecasting; Knuth, volume 3, 5.4.6).
//!
//! 1. The row at hand comes before no row that was at hand earlier.
//! 2. A merge in between takes the smallest runs, and as few as make the later merges full.
//! 3. A run that was read to its end gives its pages back, unless others read it, too.
//! 4. Of a range, all rows whose keys lie in it come, and no other one.

use super::loser_tree::{LoserTree, prefix_of};
use super::runs::{RunWriter, SharedRuns};
use super::workspace::Workspace;
use crate::execution::Memory;
use crate::relation::TupleStream;
use crate::spill::{Bucket, SpillStream, limit_fences};
use crate::tuple::Tuple;
use crate::work::Work;
use crate::{Execution, Key, QueryError};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use nandu_external::sort::MergePlan;
use std::sync::Arc;

/// Pages of a merge that writes, at least: two to read, one to write.
const MERGE_PAGES_MIN: u32 = 3;

/// Where the rows of a run come from.
#[allow(
    clippy::large_enum_variant,
    reason = "nearly all are streams, one for each block of memory"
)]
enum Source<'x> {
    /// They are read; the bucket is this merge's alone, if it has it.
    Stream(SpillStream<'x>, Option<Bucket>),
    /// They lie in memory, sorted.
    Memory(Arc<Workspace>),
}

/// A run that is being merged, and where it stands.
struct Run<'x> {
    source: Source<'x>,
    /// The row at hand: of the stream's batch, or of the entries in memory.
    index: usize,
    /// Its key as bytes, and whether a value is NULL.
    key_bytes: Vec<u8>,
    has_null: bool,
    /// How many blocks it had read when the key was forecast with which the last of them ends.
    block_count: u64,
    block_end: Vec<u8>,
}

/// The block that is read ahead.
struct Forecast<'x> {
    /// A buffer, while no run has it.
    buffer: Option<IoBuffer>,
    lent_to: Option<u32>,
    /// Blocks that were needed before they were begun.
    #[cfg(test)]
    miss_count: u64,
    _memory: Memory<'x>,
}

/// Merges several sorted runs into one.
pub(crate) struct Merge<'x> {
    execution: &'x Execution,
    key: &'x Key,
    runs: Vec<Option<Run<'x>>>,
    tree: LoserTree,
    /// The key at which it ends.
    to: Option<Vec<u8>>,
    forecast: Option<Forecast<'x>>,
    /// What is left for runs, and the part of each.
    memory: Memory<'x>,
    pages: u32,
}

/// Runs that are sorted by one key.
pub(crate) struct RunSet<'x> {
    pub(crate) key: &'x Key,
    pub(crate) runs: Vec<Bucket>,
    /// Bytes of the fences of all of them at most, if what they are merged to is to have some.
    pub(crate) fence_bytes: Option<usize>,
}

impl Forecast<'_> {
    /// Takes the buffer back from a run that ends before its last row; whether it had it.
    fn take_back(&mut self, run: &mut Run<'_>, leaf: u32) -> bool {
        let had_it = self.lent_to == Some(leaf);
        if had_it {
            self.lent_to = None;
            self.buffer = run.stream().and_then(SpillStream::take_spare);
        }
        had_it
    }
}

/// Keys from one on, as bytes, and before another one.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct KeyRange<'k> {
    pub(crate) from: Option<&'k [u8]>,
    pub(crate) to: Option<&'k [u8]>,
}

impl<'x> Run<'x> {
    fn new(source: Source<'x>) -> Self {
        let key_bytes = Vec::new();
        Self { source, index: 0, key_bytes, has_null: false, block_count: 0, block_end: Vec::new() }
    }

    /// Rows that are there without another read.
    fn row_count(&self) -> usize {
        match &self.source {
            Source::Stream(stream, _) => stream.batch().cells.len(),
            Source::Memory(rows) => rows.tree.len(),
        }
    }

    /// The row at hand.
    #[inline]
    fn tuple(&self) -> Tuple<'_> {
        match &self.source {
            Source::Stream(stream, _) => {
                let batch = stream.batch();
                batch.area.tuple(batch.cells[self.index])
            }
            Source::Memory(rows) => rows.tuple(rows.tree.entries()[self.index].leaf),
        }
    }

    /// Makes the row at hand, or the next one that there is, the one at hand; false at the end.
    fn look(&mut self, key: &Key) -> Result<bool, QueryError> {
        while self.index >= self.row_count() {
            match &mut self.source {
                Source::Memory(_) => return Ok(false),
                Source::Stream(stream, _) => {
                    if !stream.advance()? {
                        return Ok(false);
                    }
                    self.index = 0;
                }
            }
        }
        let mut key_bytes = std::mem::take(&mut self.key_bytes);
        key_bytes.clear();
        self.has_null = key.encode(self.tuple(), &mut key_bytes)?;
        self.key_bytes = key_bytes;
        Ok(true)
    }

    /// Goes on to the next row; false at the end.
    fn advance(&mut self, key: &Key) -> Result<bool, QueryError> {
        self.index += 1;
        self.look(key)
    }

    /// Makes the first row that a range may have the one at hand; false if there is none.
    fn seek(&mut self, key: &Key, from: Option<&[u8]>) -> Result<bool, QueryError> {
        let Some(from) = from else { return self.look(key) };
        if let Source::Memory(rows) = &self.source {
            self.index = rows.first_from(key, from)?;
            return self.look(key);
        }
        let mut has_row = self.look(key)?;
        while has_row && self.key_bytes.as_slice() < from {
            has_row = self.advance(key)?;
        }
        Ok(has_row)
    }

    /// Its blocks, if it has any.
    const fn stream(&mut self) -> Option<&mut SpillStream<'x>> {
        match &mut self.source {
            Source::Stream(stream, _) => Some(stream),
            Source::Memory(_) => None,
        }
    }

    /// Gives back what was written for it, if nobody else reads it.
    fn release(self, execution: &Execution) {
        if let Source::Stream(stream, bucket) = self.source {
            drop(stream);
            if let Some(bucket) = bucket {
                bucket.release(execution);
            }
        }
    }
}

impl<'x> Merge<'x> {
    /// Begins to merge runs, with an equal part of `memory` for each, and another one to read ahead.
    ///
    /// # Errors
    /// If there is less than a page for each, a run is damaged, or the device fails.
    pub(crate) fn open(
        execution: &'x Execution,
        key: &'x Key,
        buckets: Vec<Bucket>,
        memory: Memory<'x>,
    ) -> Result<Self, QueryError> {
        let mut merge = Self::begin(execution, key, (buckets.len(), None), memory);
        for bucket in buckets {
            let stream = bucket.scan(execution, merge.share())?;
            merge.add(Source::Stream(stream, Some(bucket)), None)?;
        }
        merge.build()?;
        Ok(merge)
    }

    /// Begins to merge what several have sorted, of which others may read other ranges.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub(crate) fn open_range(
        execution: &'x Execution,
        key: &'x Key,
        shared: &SharedRuns,
        range: KeyRange<'_>,
        memory: Memory<'x>,
    ) -> Result<Self, QueryError> {
        let SharedRuns { runs, rows } = shared;
        let to = range.to.map(<[u8]>::to_vec);
        let mut merge = Self::begin(execution, key, (runs.len(), to), memory);
        for bucket in runs {
            let stream = match range.from {
                None => bucket.scan(execution, merge.share())?,
                Some(from) => bucket.scan_from(execution, merge.share(), from)?,
            };
            merge.add(Source::Stream(stream, None), range.from)?;
        }
        for rows in rows {
            merge.add(Source::Memory(Arc::clone(rows)), range.from)?;
        }
        merge.build()?;
        Ok(merge)
    }

    /// A merge of so many runs that are read, up to a key.
    fn begin(
        execution: &'x Execution,
        key: &'x Key,
        (stream_count, to): (usize, Option<Vec<u8>>),
        mut memory: Memory<'x>,
    ) -> Self {
        let count = nandu_base::to_u32(stream_count as u64);
        let reads_ahead = execution.limits().reads_ahead && count > 0 && memory.pages() > count;
        let pages = memory.pages().checked_div(count + u32::from(reads_ahead)).unwrap_or(0);
        let forecast = reads_ahead.then(|| Forecast {
            buffer: Some(execution.buffer(pages)),
            lent_to: None,
            #[cfg(test)]
            miss_count: 0,
            _memory: memory.split_off(pages),
        });
        let (runs, tree) = (Vec::with_capacity(stream_count), LoserTree::default());
        Self { execution, key, runs, tree, to, forecast, memory, pages }
    }

    /// The memory of one run.
    fn share(&mut self) -> Memory<'x> {
        self.memory.split_off(self.pages)
    }

    /// Takes a run of which all rows from a key on are to come.
    fn add(&mut self, source: Source<'x>, from: Option<&[u8]>) -> Result<(), QueryError> {
        let source = match source {
            Source::Stream(stream, bucket) if self.forecast.is_some() => {
                Source::Stream(stream.borrowing(), bucket)
            }
            source => source,
        };
        let mut run = Run::new(source);
        let has_row = run.seek(self.key, from)? && is_before(&run, self.to.as_deref());
        assert!(has_row || from.is_some() || self.to.is_some(), "a run has a row");
        if has_row {
            self.tree.push_unbuilt(0, prefix_of(&run.key_bytes));
            self.runs.push(Some(run));
        }
        Ok(())
    }

    /// All runs are there.
    fn build(&mut self) -> Result<(), QueryError> {
        let Self { tree, runs, .. } = self;
        tree.build(|one, other| compare_keys(runs, one, other));
        for leaf in 0..nandu_base::to_u32(self.runs.len() as u64) {
            self.note_block(leaf);
        }
        self.read_ahead()
    }

    /// The run of the row at hand.
    #[inline]
    fn first(&self) -> Option<&Run<'x>> {
        let leaf = self.tree.winner()?.leaf;
        self.runs[leaf as usize].as_ref()
    }

    /// The row at hand; none at the end.
    #[inline]
    pub(crate) fn tuple(&self) -> Option<Tuple<'_>> {
        self.first().map(Run::tuple)
    }

    /// The key of the row at hand as bytes, and whether a value is NULL.
    #[inline]
    pub(crate) fn key(&self) -> Option<(&[u8], bool)> {
        self.first().map(|run| (run.key_bytes.as_slice(), run.has_null))
    }

    /// Goes on to the next row.
    ///
    /// # Errors
    /// If a run is damaged, the device fails, or the user asked to stop.
    pub(crate) fn advance(&mut self) -> Result<(), QueryError> {
        let Self { execution, key, runs, tree, to, forecast, .. } = self;
        let Some(winner) = tree.winner() else { return Ok(()) };
        let place = &mut runs[winner.leaf as usize];
        let run = place.as_mut().expect("a run in the tree has a row");
        if run.advance(key)? && is_before(run, to.as_deref()) {
            let prefix = prefix_of(&run.key_bytes);
            let block_count = run.block_count;
            let is_new_block = forecast.is_some()
                && run.stream().is_some_and(|stream| stream.block_count() != block_count);
            tree.replace_winner(0, prefix, |one, other| compare_keys(runs, one, other));
            if is_new_block {
                self.note_block(winner.leaf);
                self.read_ahead()?;
            }
        } else {
            let mut run = place.take().expect("it was there");
            let had_buffer =
                forecast.as_mut().is_some_and(|forecast| forecast.take_back(&mut run, winner.leaf));
            run.release(execution);
            tree.remove_winner(|one, other| compare_keys(runs, one, other));
            if had_buffer {
                self.read_ahead()?;
            }
        }
        Ok(())
    }

    /// Takes the buffer back from a run that has a new block, and looks with which key that ends.
    fn note_block(&mut self, leaf: u32) {
        let (Some(forecast), Some(run)) = (&mut self.forecast, &mut self.runs[leaf as usize])
        else {
            return;
        };
        let Run { source: Source::Stream(stream, _), block_count, block_end, .. } = run else {
            return;
        };
        if forecast.lent_to == Some(leaf) {
            forecast.lent_to = None;
            forecast.buffer = stream.take_spare();
        } else {
            #[cfg(test)]
            {
                forecast.miss_count += 1;
            }
        }
        *block_count = stream.block_count();
        block_end.clear();
        // If the last tuple of the block cannot be read, no forecast is made with it; the damage is
        // told when the merge gets to that page.
        let end = stream.last_of_block();
        if end.is_none_or(|tuple| self.key.encode(tuple, block_end).is_err()) {
            block_end.clear();
        }
    }

    /// Begins to read the block that is needed first.
    fn read_ahead(&mut self) -> Result<(), QueryError> {
        let Some(forecast) = &mut self.forecast else { return Ok(()) };
        let Some(buffer) = forecast.buffer.take() else { return Ok(()) };
        let to = self.to.as_deref();
        let first = (0..)
            .zip(&mut self.runs)
            .filter_map(|(leaf, run)| match run.as_mut()? {
                Run { source: Source::Stream(stream, _), block_end, .. } => {
                    let is_wanted = to.is_none_or(|to| block_end.as_slice() < to);
                    (is_wanted && stream.has_more_blocks()).then_some((leaf, stream, &*block_end))
                }
                _ => None,
            })
            .min_by(|(.., one), (.., other)| one.cmp(other));
        let Some((leaf, stream, _)) = first else {
            forecast.buffer = Some(buffer);
            return Ok(());
        };
        let rest = stream.lend(buffer)?;
        assert!(rest.is_none(), "there is a block more");
        forecast.lent_to = Some(leaf);
        Ok(())
    }

    /// Asserts invariant 1: the row at hand comes before those of all other runs.
    ///
    /// # Panics
    /// If it does not.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        let first = self.key().map(|(bytes, _)| bytes);
        let mut keys = self.runs.iter().flatten().map(|run| run.key_bytes.as_slice());
        assert!(keys.all(|key| Some(key) >= first), "invariant 1");
        assert_eq!(first.is_none(), self.runs.iter().all(Option::is_none), "invariant 3");
    }

    /// Blocks that were needed before they were begun.
    #[cfg(test)]
    pub(crate) fn miss_count(&self) -> u64 {
        self.forecast.as_ref().map_or(0, |forecast| forecast.miss_count)
    }

    /// The comparisons since the last call.
    pub(crate) const fn take_compare_count(&mut self) -> u64 {
        self.tree.take_compare_count()
    }
}

/// Whether the row at hand is before the end of a range.
fn is_before(run: &Run<'_>, to: Option<&[u8]>) -> bool {
    to.is_none_or(|to| run.key_bytes.as_slice() < to)
}

fn compare_keys(runs: &[Option<Run<'_>>], one: u32, other: u32) -> std::cmp::Ordering {
    let bytes = |leaf: u32| runs[leaf as usize].as_ref().map(|run| run.key_bytes.as_slice());
    bytes(one).cmp(&bytes(other))
}

/// Merges runs until all sets together have at most `limit`, with `pages` of memory; gives back how many
/// merges that took.
///
/// # Errors
/// If there are less than 3 pages, the write budget is used up, a run is damaged, or the device fails.
pub(crate) fn reduce<'x>(
    execution: &'x Execution,
    sets: &mut [RunSet<'x>],
    limit: usize,
    pages: u32,
) -> Result<u64, QueryError> {
    let run_count = |sets: &[RunSet<'_>]| sets.iter().map(|set| set.runs.len() as u64).sum::<u64>();
    if run_count(sets) > limit as u64 && pages < MERGE_PAGES_MIN {
        return Err(QueryError::TooLittleMemory {
            operator: "merging".to_owned(),
            needed_pages: u64::from(MERGE_PAGES_MIN),
            granted_pages: u64::from(pages),
        });
    }
    let fan_in = u64::from(pages).saturating_sub(1);
    let plan = MergePlan { fan_in, last_fan_in: limit as u64 };
    let mut merge_count = 0;
    while let Some(wanted) = plan.next_merge(run_count(sets)) {
        let wanted = to_index(wanted);
        let set = cheapest(sets, wanted);
        let wanted = wanted.min(set.runs.len());
        let taken = set.runs.drain(..wanted).collect();
        let merged = merge_into_one(execution, (set.key, set.fence_bytes), taken, pages)?;
        set.runs.extend(merged);
        limit_fences(&mut set.runs, set.fence_bytes.unwrap_or(0));
        merge_count += 1;
    }
    // There were perhaps very many.
    sets.iter_mut().for_each(|set| set.runs.shrink_to_fit());
    Ok(merge_count)
}

/// The set in which a merge of up to `wanted` runs moves the fewest bytes for each run that it saves. All
/// sets are left with their smallest runs first.
fn cheapest<'s, 'x>(sets: &'s mut [RunSet<'x>], wanted: usize) -> &'s mut RunSet<'x> {
    for set in sets.iter_mut() {
        set.runs.sort_by_key(Bucket::cell_bytes);
    }
    sets.iter_mut()
        .filter(|set| set.runs.len() > 1)
        .min_by_key(|set| {
            let taken = &set.runs[..wanted.min(set.runs.len())];
            let bytes: u64 = taken.iter().map(Bucket::cell_bytes).sum();
            bytes / (taken.len() as u64 - 1)
        })
        .expect("the limit leaves a run to each set")
}

/// One merge in between.
fn merge_into_one<'x>(
    execution: &'x Execution,
    (key, fence_bytes): (&'x Key, Option<usize>),
    buckets: Vec<Bucket>,
    pages: u32,
) -> Result<Vec<Bucket>, QueryError> {
    let count = nandu_base::to_u32(buckets.len() as u64);
    let each = pages / (count + 1);
    let expected_pages = buckets.iter().map(Bucket::page_count).sum();
    let output = execution.take("merging", each)?;
    let input = execution.take("merging", each * count)?;
    let mut writer = RunWriter::new(execution, output, expected_pages);
    writer = writer.with_fences(fence_bytes.map(|bytes| (key, bytes)));
    let mut merge = Merge::open(execution, key, buckets, input)?;
    let mut rows_since_booking = 0_u32;
    while let Some(tuple) = merge.tuple() {
        writer.push(tuple)?;
        merge.advance()?;
        rows_since_booking += 1;
        if rows_since_booking == 1024 {
            rows_since_booking = 0;
            execution.work(Work::Compare, merge.take_compare_count());
            writer.book_work();
        }
    }
    execution.work(Work::Compare, merge.take_compare_count());
    writer.book_work();
    writer.finish()
}
