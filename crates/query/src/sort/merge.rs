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
//! 3. A run that was read to its end gives its pages back.

use super::loser_tree::{LoserTree, prefix_of};
use super::runs::RunWriter;
use crate::execution::Memory;
use crate::relation::TupleStream;
use crate::spill::{Bucket, SpillStream};
use crate::tuple::Tuple;
use crate::work::Work;
use crate::{Execution, Key, QueryError};
use nandu_device::IoBuffer;

/// A run that is being merged, and where it stands.
struct Run<'x> {
    stream: SpillStream<'x>,
    bucket: Bucket,
    /// The row at hand, of the stream's batch.
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
    forecast: Option<Forecast<'x>>,
}

/// Runs that are sorted by one key.
pub(crate) struct RunSet<'x> {
    pub(crate) key: &'x Key,
    pub(crate) runs: Vec<Bucket>,
}

impl Run<'_> {
    /// Goes on to the next row; false at the end.
    fn advance(&mut self, key: &Key) -> Result<bool, QueryError> {
        self.index += 1;
        while self.index >= self.stream.batch().cells.len() {
            if !self.stream.advance()? {
                return Ok(false);
            }
            self.index = 0;
        }
        self.key_bytes.clear();
        let batch = self.stream.batch();
        self.has_null =
            key.encode(batch.area.tuple(batch.cells[self.index]), &mut self.key_bytes)?;
        Ok(true)
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
        mut memory: Memory<'x>,
    ) -> Result<Self, QueryError> {
        let count = nandu_base::to_u32(buckets.len() as u64);
        let reads_ahead = execution.limits().reads_ahead && count > 0 && memory.pages() > count;
        let pages = memory.pages().checked_div(count + u32::from(reads_ahead)).unwrap_or(0);
        let forecast = reads_ahead.then(|| Forecast {
            buffer: Some(execution.buffer(pages)),
            lent_to: None,
            #[cfg(test)]
            miss_count: 0,
            _memory: memory.split_off(pages),
        });
        let mut tree = LoserTree::default();
        tree.reserve_exact(buckets.len());
        let mut runs = Vec::with_capacity(buckets.len());
        for bucket in buckets {
            let stream = bucket.scan(execution, memory.split_off(pages))?;
            let mut run = Run {
                stream: if reads_ahead { stream.borrowing() } else { stream },
                bucket,
                index: 0,
                key_bytes: Vec::new(),
                has_null: false,
                block_count: 0,
                block_end: Vec::new(),
            };
            let has_row = run.advance(key)?;
            assert!(has_row, "a run has a row");
            tree.push_unbuilt(0, prefix_of(&run.key_bytes));
            runs.push(Some(run));
        }
        tree.build(|one, other| compare_keys(&runs, one, other));
        let mut merge = Self { execution, key, runs, tree, forecast };
        for leaf in 0..count {
            merge.note_block(leaf);
        }
        merge.read_ahead()?;
        Ok(merge)
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
        let run = self.first()?;
        let batch = run.stream.batch();
        Some(batch.area.tuple(batch.cells[run.index]))
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
        let Self { execution, key, runs, tree, forecast } = self;
        let Some(winner) = tree.winner() else { return Ok(()) };
        let place = &mut runs[winner.leaf as usize];
        let run = place.as_mut().expect("a run in the tree has a row");
        if run.advance(key)? {
            let prefix = prefix_of(&run.key_bytes);
            let is_new_block = forecast.is_some() && run.stream.block_count() != run.block_count;
            tree.replace_winner(0, prefix, |one, other| compare_keys(runs, one, other));
            if is_new_block {
                self.note_block(winner.leaf);
                self.read_ahead()?;
            }
        } else {
            let Run { stream, bucket, .. } = place.take().expect("it was there");
            drop(stream);
            bucket.release(execution);
            tree.remove_winner(|one, other| compare_keys(runs, one, other));
        }
        Ok(())
    }

    /// Takes the buffer back from a run that has a new block, and looks with which key that ends.
    fn note_block(&mut self, leaf: u32) {
        let (Some(forecast), Some(run)) = (&mut self.forecast, &mut self.runs[leaf as usize])
        else {
            return;
        };
        if forecast.lent_to == Some(leaf) {
            forecast.lent_to = None;
            forecast.buffer = run.stream.take_spare();
        } else {
            #[cfg(test)]
            {
                forecast.miss_count += 1;
            }
        }
        run.block_count = run.stream.block_count();
        run.block_end.clear();
        // If the last tuple of the block cannot be read, no forecast is made with it; the damage is
        // told when the merge gets to that page.
        let end = run.stream.last_of_block();
        if end.is_none_or(|tuple| self.key.encode(tuple, &mut run.block_end).is_err()) {
            run.block_end.clear();
        }
    }

    /// Begins to read the block that is needed first.
    fn read_ahead(&mut self) -> Result<(), QueryError> {
        let Some(forecast) = &mut self.forecast else { return Ok(()) };
        let Some(buffer) = forecast.buffer.take() else { return Ok(()) };
        let runs = (0..).zip(&mut self.runs).filter_map(|(leaf, run)| Some((leaf, run.as_mut()?)));
        let first = runs
            .filter(|(_, run)| run.stream.has_more_blocks())
            .min_by(|(_, one), (_, other)| one.block_end.cmp(&other.block_end));
        let Some((leaf, run)) = first else { return Ok(()) };
        let rest = run.stream.lend(buffer)?;
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
    let mut merge_count = 0;
    loop {
        let count: usize = sets.iter().map(|set| set.runs.len()).sum();
        if count <= limit {
            return Ok(merge_count);
        }
        let fan_in = (pages as usize).saturating_sub(1);
        if fan_in < 2 {
            return Err(QueryError::TooLittleMemory {
                operator: "merging".to_owned(),
                needed_pages: 3,
                granted_pages: u64::from(pages),
            });
        }
        let wanted = match (count - limit) % (fan_in - 1) {
            0 => fan_in,
            rest => rest + 1,
        };
        let set = cheapest(sets, wanted);
        let wanted = wanted.min(set.runs.len());
        let rest = set.runs.split_off(wanted);
        let merged = merge_into_one(execution, set.key, std::mem::take(&mut set.runs), pages)?;
        set.runs = rest;
        set.runs.extend(merged);
        merge_count += 1;
    }
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
    key: &'x Key,
    buckets: Vec<Bucket>,
    pages: u32,
) -> Result<Vec<Bucket>, QueryError> {
    let count = nandu_base::to_u32(buckets.len() as u64);
    let each = pages / (count + 1);
    let expected_pages = buckets.iter().map(Bucket::page_count).sum();
    let output = execution.take("merging", each)?;
    let input = execution.take("merging", each * count)?;
    let mut writer = RunWriter::new(execution, output, expected_pages);
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
