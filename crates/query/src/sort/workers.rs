//! A sort by several workers: each sorts parts of the rows by itself, then each merges a range of keys of all that
//! was sorted (after DeWitt, Naughton and Schneider, PDIS 1991).
//!
//! ```text
//!   worker 0 ── parts ─► runs, or rows in memory ┐ meet ┌ keys before s1   ─► merge ─► rows in order
//!   worker 1 ── parts ─► runs, or rows in memory ┤      ├ keys from s1 on  ─► merge ─► rows in order
//!   worker 2 ── parts ─► runs, or rows in memory ┘      └ keys from s2 on  ─► merge ─► rows in order
//! ```
//!
//! The bounds come from what was sorted: fences of runs, and some of the rows in memory, each taken for the bytes
//! about it. The largest range is as small as these allow. Rows of equal keys stay together, and so do those
//! whose keys are alike as far as fences keep them; a range is off by what lies between two fences of each run, and
//! by more where there are so many runs that most have none; those each worker reads up to its range.
//!
//! 1. Each row is in one range; rows of equal keys are in the same one.
//! 2. A worker has its share of the memory and no more, fences included; in the last pass all have a block for each
//!    run.
//! 3. What was written is given back when all have read it.

use super::merge::{KeyRange, Merge, RunSet, reduce};
use super::runs::{SharedRuns, Sorted, SortedRows};
use super::{Settings, feed, former};
use crate::execution::Memory;
use crate::relation::{Relation, RelationSize};
use crate::spill::{Bucket, beginning};
use crate::tuple::{Area, TupleBatch};
use crate::work::Work;
use crate::workers::{Barrier, Morsels, run_workers};
use crate::{Execution, Key, QueryError};
use std::sync::Arc;

const OPERATOR: &str = "a sort by several workers";
/// Rows in memory of one side of one worker that are looked at to find bounds.
const SAMPLE_COUNT: usize = 64;

/// Who takes the sorted rows of one range of keys.
pub trait RowSink: Send {
    /// Takes some, in order. The rows are lent.
    ///
    /// # Errors
    /// Whatever is wrong; then the sort ends with it.
    fn take(&mut self, rows: TupleBatch<'_>) -> Result<(), QueryError>;
}

impl<F: FnMut(TupleBatch<'_>) -> Result<(), QueryError> + Send> RowSink for F {
    fn take(&mut self, rows: TupleBatch<'_>) -> Result<(), QueryError> {
        self(rows)
    }
}

/// One of those who sort.
#[derive(Clone, Copy)]
pub(crate) struct Sorter<'x> {
    pub(crate) execution: &'x Execution,
    pub(crate) barrier: &'x Barrier,
    pub(crate) number: usize,
    /// How this worker's share of the memory is divided, but for fences.
    pub(crate) share: Settings,
    /// Pages of the fences of a side, which whoever sorts has taken.
    pub(crate) fence_pages: u32,
}

/// What all workers have sorted of so many sides, and the bounds of ranges.
pub(crate) struct AllSorted<const SIDES: usize> {
    sides: [SharedRuns; SIDES],
    /// One less than there are workers.
    bounds: Vec<Vec<u8>>,
}

/// Keys of what was sorted, or what these begin with, each with the bytes that are about as near to it as to others.
#[derive(Default)]
struct Samples<'s>(Vec<(&'s [u8], u64)>);

impl<'s> Samples<'s> {
    /// Takes keys in order, with the bytes from each to the next one.
    fn add(&mut self, keys: impl Iterator<Item = (&'s [u8], u64)>) {
        let mut keys = keys.peekable();
        let mut carried_bytes = 0;
        while let Some((key, bytes)) = keys.next() {
            // Half of them are nearer to the next one.
            let carried = if keys.peek().is_some() { bytes / 2 } else { 0 };
            self.0.push((key, carried_bytes + bytes - carried));
            carried_bytes = carried;
        }
    }

    /// Keys that cut what was sorted into ranges, one for each worker, of which the largest is as small as these keys
    /// allow. Where there are fewer keys than workers, some ranges are empty.
    fn bounds(mut self, worker_count: usize) -> Vec<Vec<u8>> {
        self.0.sort_unstable();
        self.0.dedup_by(|(key, bytes), (kept, sum)| {
            let is_same = key == kept;
            *sum += if is_same { *bytes } else { 0 };
            is_same
        });
        let total: u64 = self.0.iter().map(|(_, bytes)| bytes).sum();
        let largest = self.0.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let (mut least, mut most) = (largest, total);
        while least < most {
            let middle = least.midpoint(most);
            match self.starts(middle).count() < worker_count {
                true => most = middle,
                false => least = middle + 1,
            }
        }
        let mut bounds: Vec<_> = self.starts(most).map(<[u8]>::to_vec).collect();
        let last = bounds.last().cloned().unwrap_or_default();
        bounds.resize(worker_count - 1, last);
        bounds
    }

    /// Where ranges begin, all but the first, that are filled up to so many bytes one after the other.
    fn starts(&self, bytes_max: u64) -> impl Iterator<Item = &'s [u8]> + '_ {
        let mut sum = 0;
        self.0.iter().filter_map(move |&(key, bytes)| {
            let is_start = sum > 0 && sum + bytes > bytes_max;
            sum = if is_start { bytes } else { sum + bytes };
            is_start.then_some(key)
        })
    }
}

impl<'x> Sorter<'x> {
    fn fence_bytes(&self) -> usize {
        self.fence_pages as usize * self.execution.page_bytes()
    }

    /// Sorts the parts that this worker gets of a relation, in the work space but for `kept_pages`.
    pub(crate) fn form(
        &self,
        (relation, morsels, key): (&'x dyn Relation, &Morsels, &'x Key),
        kept_pages: u32,
        keeps_nulls: bool,
    ) -> Result<Sorted<'x>, QueryError> {
        let Self { execution, barrier, share, .. } = *self;
        let fence_bytes = Some(self.fence_bytes());
        let workspace_pages = share.workspace_pages - kept_pages;
        let workers = barrier.worker_count() as u64;
        let (tuple_count, cell_bytes) = (morsels.tuple_count(), morsels.cell_bytes());
        let size = RelationSize {
            tuple_count: tuple_count.div_ceil(workers),
            cell_bytes: cell_bytes.div_ceil(workers),
            ..relation.size()
        };
        let settings = Settings { workspace_pages, ..share };
        let mut former = former(execution, key, settings, (size, fence_bytes))?;
        while let Some(part) = morsels.next() {
            let memory = execution.take(OPERATOR, share.input_pages)?;
            feed(&mut *former, &mut *part.scan(relation, execution, memory)?, key, keeps_nulls)?;
        }
        former.finish()
    }

    /// Writes a side that is in memory after all.
    pub(crate) fn spill(&self, sorted: Sorted<'x>, key: &'x Key) -> Result<Sorted<'x>, QueryError> {
        match sorted {
            Sorted::Rows(rows) => {
                let output = self.execution.take(OPERATOR, self.share.output_pages)?;
                let fences = Some((key, self.fence_bytes()));
                Ok(Sorted::Runs(rows.spill(self.execution, output, fences)?))
            }
            runs @ Sorted::Runs(_) => Ok(runs),
        }
    }

    /// Hands in what this worker has sorted, and gives what all have, with the memory in which this one's rows lie.
    /// `run_limit` says how many runs can be merged at once in so many free pages. Where there are too many, what
    /// is in memory is written, and runs are merged before.
    pub(crate) fn exchange<const SIDES: usize>(
        &self,
        mut sides: [(Sorted<'x>, &'x Key); SIDES],
        run_limit: impl Fn(u32) -> u32,
    ) -> Result<(Arc<AllSorted<SIDES>>, Vec<Memory<'x>>), QueryError> {
        let Self { execution, barrier, number, share, .. } = *self;
        let pages = share.memory_pages();
        let run_count: usize = sides.iter().map(|(sorted, _)| sorted.run_count()).sum();
        let kept_pages: u32 = sides.iter().map(|(sorted, _)| sorted.pages()).sum();
        let mine = (run_count, run_limit(pages - kept_pages) as usize);
        let agreed = barrier.meet(number, mine, |all| {
            let run_count: usize = all.iter().map(|(count, _)| count).sum();
            let limit = all.iter().map(|(_, limit)| *limit).min();
            run_count > limit.unwrap_or(0)
        })?;
        if *agreed {
            for (sorted, key) in &mut sides {
                let rows = std::mem::replace(sorted, Sorted::Runs(Vec::new()));
                *sorted = self.spill(rows, key)?;
            }
            let limit = run_limit(pages) as usize / barrier.worker_count();
            let mut sets = sides.map(|(sorted, key)| {
                let (_, runs) = sorted.into_parts();
                RunSet { key, runs, fence_bytes: Some(self.fence_bytes()) }
            });
            reduce(execution, &mut sets, limit, pages)?;
            sides = sets.map(|set| (Sorted::Runs(set.runs), set.key));
        }
        self.share_out(sides)
    }

    fn share_out<const SIDES: usize>(
        &self,
        sides: [(Sorted<'x>, &'x Key); SIDES],
    ) -> Result<(Arc<AllSorted<SIDES>>, Vec<Memory<'x>>), QueryError> {
        let (mut samples, mut memory) = (Vec::new(), Vec::new());
        let mut mine: [SharedRuns; SIDES] = std::array::from_fn(|_| SharedRuns::default());
        for ((sorted, key), shared) in sides.into_iter().zip(&mut mine) {
            let (rows, runs) = sorted.into_parts();
            shared.runs = runs;
            if let Some(rows) = rows.filter(|rows| rows.len() > 0) {
                samples.push(sample(&rows, key)?);
                let (rows, its_memory) = rows.into_shared();
                shared.rows.push(rows);
                memory.push(its_memory);
            }
        }
        let worker_count = self.barrier.worker_count();
        let all = self.barrier.meet(self.number, (mine, samples), |all| {
            let mut sides: [SharedRuns; SIDES] = std::array::from_fn(|_| SharedRuns::default());
            let mut of_rows = Vec::new();
            for (its_sides, mut its_samples) in all {
                of_rows.append(&mut its_samples);
                for (side, mut its_side) in sides.iter_mut().zip(its_sides) {
                    side.runs.append(&mut its_side.runs);
                    side.rows.append(&mut its_side.rows);
                }
            }
            let mut samples = Samples::default();
            let runs = sides.iter().flat_map(|side| &side.runs);
            runs.for_each(|run: &Bucket| samples.add(run.fences_with_bytes()));
            for its_keys in &of_rows {
                samples.add(its_keys.iter().map(|(key, bytes)| (key.as_slice(), *bytes)));
            }
            let bounds = samples.bounds(worker_count);
            AllSorted { sides, bounds }
        })?;
        Ok((all, memory))
    }

    /// Gives back what was written when all workers are done.
    pub(crate) fn release<const SIDES: usize>(
        &self,
        all: &AllSorted<SIDES>,
    ) -> Result<(), QueryError> {
        self.barrier.meet(self.number, (), |_| {
            let runs = all.sides.iter().flat_map(|side| &side.runs);
            runs.for_each(|run: &Bucket| run.release_shared(self.execution));
        })?;
        Ok(())
    }

    /// Merges this worker's range, with all the memory of its share but for that of rows.
    fn merge(
        &self,
        (all, key): (&AllSorted<1>, &'x Key),
        kept_pages: u32,
        sink: &mut dyn RowSink,
    ) -> Result<(), QueryError> {
        let Self { execution, share, number, .. } = *self;
        let page = execution.take(OPERATOR, 1)?;
        let memory = execution.take(OPERATOR, share.memory_pages() - kept_pages - 1)?;
        let [side] = &all.sides;
        let mut merge = Merge::open_range(execution, key, side, all.range(number), memory)?;
        let (mut copies, mut cells) = (Vec::with_capacity(page.bytes()), Vec::new());
        loop {
            execution.check_stop()?;
            copies.clear();
            cells.clear();
            while let Some(tuple) = merge.tuple() {
                if !cells.is_empty() && copies.len() + tuple.cell_bytes() > page.bytes() {
                    break;
                }
                cells.push(copies.len() as u64);
                tuple.push_cell(&mut copies);
                merge.advance()?;
            }
            execution.work(Work::Compare, merge.take_compare_count());
            if cells.is_empty() {
                return Ok(());
            }
            sink.take(TupleBatch { area: Area::Piece(&copies), cells: &cells })?;
        }
    }
}

/// Some keys of sorted rows, or what these begin with, with about the bytes from each to the next one.
fn sample(rows: &SortedRows<'_>, key: &Key) -> Result<Vec<(Vec<u8>, u64)>, QueryError> {
    let step = rows.len().div_ceil(SAMPLE_COUNT);
    let (mut samples, mut key_bytes) = (Vec::with_capacity(SAMPLE_COUNT), Vec::new());
    // Those between it and the next one are taken for as long as all are: one may be very long.
    let mean_bytes = rows.bytes() / rows.len();
    for index in (0..rows.len()).step_by(step) {
        let tuple = rows.tuple(index);
        key_bytes.clear();
        key.encode(tuple, &mut key_bytes)?;
        let count = step.min(rows.len() - index);
        samples
            .push((beginning(&key_bytes), (tuple.cell_bytes() + (count - 1) * mean_bytes) as u64));
    }
    Ok(samples)
}

impl<const SIDES: usize> AllSorted<SIDES> {
    /// What was sorted of each side.
    pub(crate) const fn sides(&self) -> &[SharedRuns; SIDES] {
        &self.sides
    }

    /// The keys of a worker.
    pub(crate) fn range(&self, number: usize) -> KeyRange<'_> {
        let bound = |number: usize| self.bounds.get(number).map(Vec::as_slice);
        KeyRange { from: number.checked_sub(1).and_then(bound), to: bound(number) }
    }
}

/// Sorts a relation, with a worker for each sink, each in a thread of its own, as far as the memory can be divided.
/// The first sink gets the rows with the least keys in order, the next one those that follow, and so on; NULL
/// comes first. Gives how many workers there were; sinks of others get nothing.
///
/// # Errors
/// If there is less memory than `settings` say, the write budget is used up, the device fails, or a sink does.
pub fn sort_by_workers<S: RowSink>(
    execution: &Execution,
    relation: &dyn Relation,
    key: &Key,
    settings: Settings,
    sinks: &mut [S],
) -> Result<usize, QueryError> {
    let input_min = relation.scan_pages_min();
    let most = (2..=sinks.len()).rev();
    // A block for a run of each worker, and the page that is handed on.
    let fits = |share: &Settings, count: usize| share.memory_pages() as usize > 2 * count + 1;
    let mut found = most.filter_map(|count| {
        let (share, fence_pages) = settings.share(count, input_min, 1)?;
        fits(&share, count).then_some((count, share, fence_pages))
    });
    let Some((worker_count, share, fence_pages)) = found.next() else {
        let Some(sink) = sinks.first_mut() else { return Ok(0) };
        let mut sort = super::Sort::new(execution, relation, key, settings)?;
        while crate::TupleStream::advance(&mut sort)? {
            sink.take(crate::TupleStream::batch(&sort))?;
        }
        return Ok(1);
    };
    let morsels = Morsels::of_relation(relation, worker_count, share.input_pages);
    run_workers(execution, &mut sinks[..worker_count], |execution, barrier, number, sink| {
        let _fences = execution.take(OPERATOR, fence_pages)?;
        let sorter = Sorter { execution, barrier, number, share, fence_pages };
        let sorted = sorter.form((relation, &morsels, key), 0, true)?;
        let (all, memory) = sorter.exchange([(sorted, key)], |free_pages| free_pages - 1)?;
        let kept_pages = memory.iter().map(Memory::pages).sum();
        sorter.merge((&all, key), kept_pages, sink)?;
        sorter.release(&all)
    })?;
    Ok(worker_count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Bytes of each range.
    fn parts(samples: &[(Vec<u8>, u64)], bounds: &[Vec<u8>]) -> Vec<u64> {
        let mut parts = vec![0; bounds.len() + 1];
        for (key, bytes) in samples {
            parts[bounds.iter().filter(|bound| *bound <= key).count()] += bytes;
        }
        parts
    }

    /// The least that the largest of so many ranges can have, by trying all ways.
    fn best(keys: &[u64], worker_count: usize) -> u64 {
        if worker_count == 1 {
            return keys.iter().sum();
        }
        let cut = |at: usize| {
            let first: u64 = keys[..at].iter().sum();
            first.max(best(&keys[at..], worker_count - 1))
        };
        (0..=keys.len()).map(cut).min().unwrap_or(0)
    }

    proptest! {
        #[test]
        fn no_bounds_are_better(
            samples in proptest::collection::vec((0_u8..12, prop_oneof![0_u64..9, 0_u64..100]), 0..30),
            worker_count in 2_usize..5,
        ) {
            let samples: Vec<_> =
                samples.into_iter().map(|(key, bytes)| (vec![7; usize::from(key)], bytes)).collect();
            let lent = samples.iter().map(|(key, bytes)| (key.as_slice(), *bytes));
            let bounds = Samples(lent.collect()).bounds(worker_count);
            prop_assert_eq!(bounds.len(), worker_count - 1);
            prop_assert!(bounds.is_sorted());
            let mut keys = [0; 12];
            samples.iter().for_each(|(key, bytes)| keys[key.len()] += bytes);
            let largest = parts(&samples, &bounds).into_iter().max().unwrap();
            prop_assert_eq!(largest, best(&keys, worker_count));
        }
    }
}
