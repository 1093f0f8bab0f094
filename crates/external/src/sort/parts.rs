//! Runs merged by threads: a part of the records of all runs after the other.
//!
//! ```text
//!            plan                          a thread                      next
//!   run 1 ░░░░░▒▒▒▒▒▒▒▓▓▓▓▓▓▓ ─┐
//!   run 2 ░░▒▒▒▓▓▓▓▓▓▓▓▓▓ ─────┼─► slices ─► tree of losers ─► records ─► record after record
//!   run 3 ░░░░▒▒▒▒▒▒▓▓▓▓▓ ─────┘   of a part                   in order
//!            1    2      3         parts: no record of one comes before one of an earlier part
//! ```
//!
//! A part ends at a record. To find one at the distance that is wanted *fences*, each the last of
//! the next few records of a run, are merged; what other runs have before the last fence that came
//! out is found by halving.
//!
//! 1. No record comes before one that came out earlier.
//! 2. Requests depend on the records and on how many were taken, never on how long a thread took:
//!    parts are planned when one was used up, and blocks come free when their last part is there.
//! 3. So many parts are planned at a time, whatever the number of threads. A part has room for all
//!    its records.

use super::crew::{Crew, Part, Slice};
use super::runs::Runs;
use crate::error::Failure;
use crate::loser_tree::LoserTree;
use crate::{ExternalError, Memory, Order, Record, Vector};
use nandu_base::to_index;

/// Parts: one whose records are taken, others that are merged or wait for it.
pub(super) const PART_COUNT: usize = 4;
/// Blocks of memory: one for the records of each part, and as many more that are read ahead, since
/// a block is kept until the last of its parts is merged.
pub(super) const MERGE_BLOCKS: u64 = 2 * PART_COUNT as u64;
/// Fewest records between two fences: with fewer, planning would take as long as merging.
const STRIDE_MIN: usize = 16;

/// How far a run is planned, in slots of the block at hand.
#[derive(Clone, Copy, Debug, Default)]
struct Plan {
    /// The first slot that is in no part yet, but perhaps in the one that is planned.
    from: usize,
    /// The first that is not planned.
    next: usize,
    /// The fence.
    fence: usize,
}

/// How parts are cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    /// With so many records a part is full; it has room for the others.
    target: usize,
    capacity: usize,
    /// Records from one fence to the next.
    stride: usize,
}

/// Merges sorted runs.
#[derive(Debug)]
pub(super) struct PartMerge<R, O> {
    // Before what gives memory back: its threads have parts.
    crew: Crew<R, O>,
    runs: Runs<R, O>,
    plans: Vec<Plan>,
    fences: LoserTree<R, O>,
    cut: Cut,
    /// A run whose fence came out, and whose next block has no memory yet.
    stalled: Option<usize>,
    /// Parts without records.
    idle: Vec<Part<R>>,
    /// The part whose records are taken, and the next of them.
    taken: Part<R>,
    at: usize,
    order: O,
    left: u64,
    failure: Failure,
    /// Of the records of parts.
    memory: Memory,
}

impl Cut {
    /// For `run_count` runs of records that take so many bytes of memory; `None` if they are too many.
    pub(super) fn new(memory_bytes: usize, run_count: usize, block_bytes: u64) -> Option<Self> {
        let capacity = to_index(block_bytes) / memory_bytes.max(1);
        let target = capacity / 3 * 2;
        // Before the last fence there may be nearly a stride of each run.
        let stride = (capacity - target) / (run_count + 1);
        (stride >= STRIDE_MIN).then_some(Self { target, capacity, stride })
    }
}

impl<R: Record, O: Order<R>> PartMerge<R, O> {
    /// Merges `vectors`, none of them empty, with a block of `memory` for each, `ahead` more to read
    /// ahead, and [`MERGE_BLOCKS`]; parts are cut as `cut` says, and merged by `crew`.
    pub(super) fn new(
        vectors: Vec<Vector<R>>,
        order: O,
        mut memory: Memory,
        ahead: u64,
        (cut, crew): (Cut, Crew<R, O>),
    ) -> Result<Self, ExternalError> {
        let block_bytes = vectors[0].store().block_bytes();
        let left = vectors.iter().map(Vector::len).sum();
        let for_records = memory.split_off(PART_COUNT as u64 * block_bytes);
        let ahead = ahead + MERGE_BLOCKS - PART_COUNT as u64;
        let mut merge = Self {
            plans: vec![Plan::default(); vectors.len()],
            runs: Runs::new(vectors, order.clone(), memory, ahead)?,
            fences: LoserTree::new(order.clone()),
            cut,
            stalled: None,
            crew,
            idle: (1..PART_COUNT).map(|_| Part::with_room(cut.capacity)).collect(),
            taken: Part::with_room(cut.capacity),
            at: 0,
            order,
            left,
            failure: Failure::default(),
            memory: for_records,
        };
        for run in 0..merge.runs.len() {
            let fence = merge.set_fence(run);
            merge.fences.push(Some(fence));
        }
        merge.fences.build();
        Ok(merge)
    }

    /// The next record; `None` at the end.
    #[inline]
    pub(super) fn next(&mut self) -> Result<Option<R>, ExternalError> {
        if self.at == self.taken.records.len() && !self.take_part()? {
            return Ok(None);
        }
        let record = self.taken.records[self.at];
        self.at += 1;
        self.left -= 1;
        Ok(Some(record))
    }

    /// How many records are left.
    pub(super) const fn left_count(&self) -> u64 {
        self.left
    }

    /// The memory, after the end.
    pub(super) fn into_memory(self) -> Memory {
        let Self { runs, crew, mut memory, .. } = self;
        drop(crew);
        memory.join(runs.into_memory());
        memory
    }

    /// Has the records of the next part be taken; false at the end.
    #[cold]
    fn take_part(&mut self) -> Result<bool, ExternalError> {
        let mut used = std::mem::replace(&mut self.taken, Part::with_room(0));
        used.records.clear();
        self.idle.push(used);
        self.at = 0;
        // What was planned before a failure comes before it.
        self.unless_failed(Self::plan);
        match self.crew.receive() {
            Some(part) => self.taken = part,
            None => return self.failure.check().map(|()| false),
        }
        for slice in self.taken.slices.drain(..) {
            self.runs.give(slice.block);
        }
        self.unless_failed(|merge| merge.runs.forecast());
        Ok(true)
    }

    fn unless_failed(&mut self, work: impl FnOnce(&mut Self) -> Result<(), ExternalError>) {
        if self.failure.check().is_ok() {
            let worked = work(self);
            // Told at the end of what came before.
            let _ = self.failure.note(worked);
        }
    }

    /// Plans as many parts as may be, and has them be merged.
    fn plan(&mut self) -> Result<(), ExternalError> {
        while let Some(mut part) = self.idle.pop() {
            let planned = self.plan_part(&mut part);
            if part.slices.is_empty() {
                self.idle.push(part);
                return planned;
            }
            self.crew.send(part);
            planned?;
        }
        Ok(())
    }

    /// Plans a part: an empty one if there is nothing left, or no memory for what is next.
    fn plan_part(&mut self, part: &mut Part<R>) -> Result<(), ExternalError> {
        if let Some(run) = self.stalled
            && !self.begin_block(run)?
        {
            return Ok(());
        }
        let (mut count, mut last, mut outcome) = (0, None, Ok(true));
        while count < self.cut.target && outcome == Ok(true) {
            let Some((run, record)) = self.fences.champion() else { break };
            last = Some(record);
            let plan = &mut self.plans[run];
            count += plan.fence + 1 - plan.next;
            plan.next = plan.fence + 1;
            if plan.next < self.runs.run(run).count() {
                let fence = self.set_fence(run);
                self.fences.replace(fence);
            } else {
                outcome = self.end_block(run, part);
            }
        }
        if let Some(last) = last {
            self.end_part(part, &last);
        }
        outcome.map(|_| ())
    }

    /// The block at hand of a run is planned: the next one takes its place. False if there is no
    /// memory for it now.
    fn end_block(&mut self, run: usize, part: &mut Part<R>) -> Result<bool, ExternalError> {
        let Plan { from, next, .. } = std::mem::take(&mut self.plans[run]);
        let block = self.runs.take_block(run);
        part.slices.push(Slice { run, block, from, to: next });
        if self.runs.run(run).is_left() {
            return self.begin_block(run);
        }
        self.fences.retire();
        Ok(true)
    }

    /// Makes the next block of the run whose fence came out the one at hand, if there is memory.
    fn begin_block(&mut self, run: usize) -> Result<bool, ExternalError> {
        self.stalled = Some(run);
        if !self.runs.next_block(run)? {
            return Ok(false);
        }
        self.stalled = None;
        let fence = self.set_fence(run);
        self.fences.replace(fence);
        Ok(true)
    }

    /// Sets the next fence of a run, and says it.
    fn set_fence(&mut self, run: usize) -> R {
        let plan = &mut self.plans[run];
        let run = self.runs.run(run);
        plan.fence = run.count().min(plan.next + self.cut.stride) - 1;
        run.record(plan.fence)
    }

    /// Plans what comes before `last`, the last fence that came out, and puts into the part what
    /// was planned.
    fn end_part(&mut self, part: &mut Part<R>, last: &R) {
        for (run, plan) in self.plans.iter_mut().enumerate() {
            let its = self.runs.run(run);
            if its.count() == 0 {
                continue;
            }
            // No record after the fence comes before it, and the fence itself does not.
            let (mut low, mut high) = (plan.next, plan.fence);
            while low < high {
                let middle = low.midpoint(high);
                if self.order.compare_by_prefix(&its.record(middle), last).is_lt() {
                    low = middle + 1;
                } else {
                    high = middle;
                }
            }
            plan.next = low;
            if plan.from < plan.next {
                let block = its.block();
                part.slices.push(Slice { run, block, from: plan.from, to: plan.next });
                plan.from = plan.next;
            }
        }
        let count = part.slices.iter().map(|slice| slice.to - slice.from).sum::<usize>();
        debug_assert!(count <= self.cut.capacity, "invariant 3");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GRANT_BYTES, store};
    use crate::{Natural, Store};
    use proptest::collection::vec;
    use proptest::prelude::*;

    const BLOCK_BYTES: u64 = 512;

    /// Vectors of sorted numbers.
    fn runs_of(store: &Store, lists: &[Vec<u32>]) -> Vec<Vector<u32>> {
        let run_of = |list: &Vec<u32>| {
            let mut writer = Vector::writer(store).unwrap();
            list.iter().for_each(|&number| writer.push(number).unwrap());
            writer.finish().unwrap()
        };
        lists.iter().map(run_of).collect()
    }

    proptest! {
        #[test]
        fn parts_of_runs_give_their_records_in_order(
            mut lists in vec(vec(any::<u32>(), 1..700), 1..9),
            key_count in prop_oneof![Just(1_u32), 2_u32..9, 9_u32..1000, Just(u32::MAX)],
            (are_shares, target, stride) in (any::<bool>(), 1_usize..300, 1_usize..40),
            (ahead, thread_count) in (0_u64..4, 0_usize..4),
        ) {
            let count = lists.len();
            for (run, list) in lists.iter_mut().enumerate() {
                // Runs that are one after the other end their blocks one by one, others together.
                let share = u32::MAX / u32::try_from(count).unwrap();
                let base = if are_shares { share * u32::try_from(run).unwrap() } else { 0 };
                list.iter_mut().for_each(|n| *n = base + (*n % key_count).min(share));
                list.sort_unstable();
            }
            let mut expected = lists.concat();
            expected.sort_unstable();
            let store = store(512, 1, 2);
            let vectors = runs_of(&store, &lists);
            let before = store.counts();
            let blocks = count as u64 + ahead + MERGE_BLOCKS;
            let memory = store.grant().take("a merge", blocks * BLOCK_BYTES).unwrap();
            let cut = Cut { target, capacity: target + (count + 1) * stride, stride };
            let crew = Crew::of(&Natural, PART_COUNT, thread_count);
            let mut merge =
                PartMerge::new(vectors, Natural, memory, ahead, (cut, crew)).unwrap();
            let mut found = Vec::new();
            while let Some(record) = merge.next().unwrap() {
                found.push(record);
                prop_assert_eq!(merge.left_count(), (expected.len() - found.len()) as u64);
                prop_assert!(merge.taken.records.len() <= cut.capacity);
            }
            prop_assert!(found == expected);
            let expected_reads: u64 = lists.iter().map(|list| (list.len() as u64).div_ceil(126)).sum();
            prop_assert_eq!(store.counts().since(&before).read_blocks, expected_reads);
            prop_assert_eq!(merge.into_memory().bytes(), blocks * BLOCK_BYTES);
            prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        }
    }

    #[test]
    fn requests_are_the_same_with_any_number_of_threads() {
        let numbers = |run: u32| (0..4000_u32).map(move |n| n * 7 + n % 5 * run + run).collect();
        let lists: Vec<Vec<u32>> = (0..6).map(numbers).collect();
        let mut traces = (0..5).map(|thread_count| {
            let store = store(512, 2, 2);
            let lists: Vec<Vec<u32>> = { lists.iter() }
                .map(|list| {
                    let mut list = list.clone();
                    list.sort_unstable();
                    list
                })
                .collect();
            let vectors = runs_of(&store, &lists);
            let memory = store.grant().take("a merge", 20 * BLOCK_BYTES).unwrap();
            let cut = Cut::new(4, 6, 4096).unwrap();
            let crew = Crew::of(&Natural, PART_COUNT, thread_count);
            let mut merge = PartMerge::new(vectors, Natural, memory, 3, (cut, crew)).unwrap();
            let mut trace = Vec::new();
            while merge.next().unwrap().is_some() {
                trace.push((store.counts(), store.now()));
            }
            trace
        });
        let first = traces.next().unwrap();
        assert_eq!(first.len(), 24_000);
        assert!(traces.all(|trace| trace == first));
    }
}
