//! A priority queue beyond memory: the sequence heap of Sanders (2000). New records go to a heap in
//! memory; when it is full they are sorted and written as a run. The first record of the heap and
//! of all runs is the first of the queue.
//!
//! ```text
//!   push ──► heap ──full──► run ──► group 0: up to k runs ──k merged──► group 1: up to k runs ─┐
//!              │                       │ a block of each                   │ a block of each ◄─┘
//!              └──────► the lesser ◄───┴───── tree of losers ◄─────────────┘
//!                           └──► pop
//! ```
//!
//! What Sanders has besides, buffers between the groups and the heap, spares misses of the
//! processor's cache, not blocks: here one tournament goes over all runs.
//!
//! 1. The queue holds the records of its heap and those of its runs that did not come out.
//! 2. No group has more than k runs; runs of the last group are merged within it.
//! 3. Each block that is written is read once at most.

use crate::error::Failure;
use crate::loser_tree::{LoserTree, leaf_bytes};
use crate::sort::sort_in_memory;
use crate::store::{Blocks, Buffers, Flight};
use crate::{ExternalError, Memory, Order, Record, Store, VectorWriter};
use nandu_base::to_index;
use nandu_device::IoBuffer;
use std::cmp::Ordering;

/// Groups of runs; with k runs a group k * k memories of records fit before the last is merged in
/// itself.
const GROUP_COUNT: usize = 2;
/// Fewest blocks: two runs for each group, one to be written, one for the heap.
const BLOCK_COUNT_MIN: u64 = 2 * GROUP_COUNT as u64 + 2;

/// Records of which the first by an order comes out first.
#[derive(Debug)]
pub struct PriorityQueue<R, O> {
    store: Store,
    order: O,
    heap: Vec<R>,
    heap_limit: usize,
    runs: Vec<Run>,
    /// A leaf for each run.
    tree: LoserTree<R, O>,
    fan_in: usize,
    per_block: usize,
    /// For the runs' blocks.
    buffers: Buffers,
    /// For what is written.
    write_memory: Option<Memory>,
    len: u64,
    failure: Failure,
    _memory: Memory,
}

/// A run, and where it stands.
#[derive(Debug)]
struct Run {
    group: usize,
    /// The block at hand is the first.
    blocks: Blocks,
    at_hand: IoBuffer,
    slot: usize,
    slot_end: usize,
    /// Records after the block at hand.
    left: u64,
}

impl Run {
    /// The next record of the block at hand.
    #[inline]
    fn next<R: Record>(&mut self) -> Option<R> {
        if self.slot == self.slot_end {
            return None;
        }
        let at = self.slot * R::BYTES;
        self.slot += 1;
        Some(R::decode(&self.at_hand[at..at + R::BYTES]))
    }

    /// Records that did not come out, but the one that plays.
    const fn rest_count(&self) -> u64 {
        self.left + (self.slot_end - self.slot) as u64
    }

    /// Says which records the first block holds.
    fn begin_block(&mut self, per_block: usize) {
        let count = to_index(self.left.min(per_block as u64));
        self.left -= count as u64;
        (self.slot, self.slot_end) = (0, count);
    }
}

/// How its memory is divided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueDivision {
    /// Records of the heap.
    pub(crate) heap_limit: u64,
    /// Runs of a group.
    pub(crate) fan_in: u64,
    /// Blocks by which a run is written.
    write_blocks: u64,
}

impl QueueDivision {
    /// Of so many bytes.
    ///
    /// # Errors
    /// If a block holds no record, or memory is too little.
    pub(crate) fn of<R: Record>(store: &Store, bytes: u64) -> Result<Self, ExternalError> {
        store.per_block::<R>()?;
        let block_bytes = store.block_bytes();
        let record_bytes = size_of::<R>().max(1) as u64;
        let needed_bytes = BLOCK_COUNT_MIN * block_bytes + record_bytes + 4 * leaf_bytes::<R>();
        if bytes < needed_bytes {
            let (operator, granted_bytes) = ("a priority queue".to_owned(), bytes);
            return Err(ExternalError::TooLittleMemory { operator, needed_bytes, granted_bytes });
        }
        let write_blocks = 1 + u64::from(store.settings().in_flight).min(bytes / block_bytes / 8);
        // Half for the heap, the rest for runs: a block and a leaf each.
        let for_runs = bytes / 2 - (write_blocks * block_bytes).min(bytes / 2);
        let run_bytes = block_bytes + leaf_bytes::<R>();
        let fan_in = (for_runs / run_bytes / GROUP_COUNT as u64).max(2);
        let used_bytes = write_blocks * block_bytes + fan_in * GROUP_COUNT as u64 * run_bytes;
        Ok(Self { heap_limit: (bytes - used_bytes) / record_bytes, fan_in, write_blocks })
    }
}

impl<R: Record, O: Order<R>> PriorityQueue<R, O> {
    /// An empty one by `order`, within `memory`: half of it for the heap.
    ///
    /// # Errors
    /// If a block holds no record, or memory is too little.
    pub fn new(store: &Store, order: O, mut memory: Memory) -> Result<Self, ExternalError> {
        let per_block = to_index(store.per_block::<R>()?);
        let block_bytes = store.block_bytes();
        let QueueDivision { heap_limit, fan_in, write_blocks } =
            QueueDivision::of::<R>(store, memory.bytes())?;
        let run_count = fan_in * GROUP_COUNT as u64;
        let buffers = Buffers::of(store, memory.split_off(run_count * block_bytes));
        let write_memory = Some(memory.split_off(write_blocks * block_bytes));
        Ok(Self {
            store: store.clone(),
            tree: LoserTree::new(order.clone()),
            order,
            heap: Vec::new(),
            heap_limit: to_index(heap_limit),
            runs: Vec::with_capacity(to_index(run_count)),
            fan_in: to_index(fan_in),
            per_block,
            buffers,
            write_memory,
            len: 0,
            failure: Failure::default(),
            _memory: memory,
        })
    }

    /// The same with `bytes` of the store's grant.
    ///
    /// # Errors
    /// If there is not so much, and as [`Self::new`].
    pub fn with_bytes(store: &Store, order: O, bytes: u64) -> Result<Self, ExternalError> {
        let memory = store.grant().take("a priority queue", bytes)?;
        Self::new(store, order, memory)
    }

    /// Records of its heap, and runs of a group, for a model of what it moves.
    #[cfg(test)]
    pub(crate) const fn limits(&self) -> [usize; 2] {
        [self.heap_limit, self.fan_in]
    }

    /// How many records it has.
    #[must_use]
    pub const fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Puts a record in.
    ///
    /// # Errors
    /// If there is no room or the device fails; then for good.
    #[inline]
    pub fn push(&mut self, record: R) -> Result<(), ExternalError> {
        if self.heap.len() == self.heap_limit || self.heap.capacity() == 0 {
            self.make_room()?;
        }
        self.heap.push(record);
        self.rise();
        self.len += 1;
        Ok(())
    }

    /// The record that comes first; it stays.
    ///
    /// # Errors
    /// After a failure.
    #[inline]
    pub fn peek(&self) -> Result<Option<R>, ExternalError> {
        self.failure.check()?;
        Ok(self.first().map(|(record, _)| record))
    }

    /// Takes the record that comes first; `None` if there is none.
    ///
    /// # Errors
    /// If the device fails; then for good.
    #[inline]
    pub fn pop(&mut self) -> Result<Option<R>, ExternalError> {
        self.failure.check()?;
        let Some((record, leaf)) = self.first() else { return Ok(None) };
        match leaf {
            None => self.sink(),
            Some(leaf) => match self.runs[leaf].next() {
                Some(next) => self.tree.replace(next),
                None => {
                    let turned = self.turn(leaf);
                    self.failure.note(turned)?;
                }
            },
        }
        self.len -= 1;
        Ok(Some(record))
    }

    /// The first record, and of which run it is, if of one.
    #[inline]
    fn first(&self) -> Option<(R, Option<usize>)> {
        let run = self.tree.champion();
        match (self.heap.first(), run) {
            (None, None) => None,
            (Some(&record), None) => Some((record, None)),
            (None, Some((leaf, record))) => Some((record, Some(leaf))),
            (Some(&heap), Some((leaf, record))) => {
                match self.order.compare_by_prefix(&heap, &record) {
                    Ordering::Greater => Some((record, Some(leaf))),
                    _ => Some((heap, None)),
                }
            }
        }
    }

    /// Has the last record of the heap go up to its place.
    #[inline]
    fn rise(&mut self) {
        let mut at = self.heap.len() - 1;
        while at > 0 {
            let above = (at - 1) / 2;
            let order = self.order.compare_by_prefix(&self.heap[at], &self.heap[above]);
            if order != Ordering::Less {
                break;
            }
            self.heap.swap(at, above);
            at = above;
        }
    }

    /// Takes the first record out of the heap.
    #[inline]
    fn sink(&mut self) {
        self.heap.swap_remove(0);
        let (heap, order) = (&mut self.heap, &self.order);
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            if left >= heap.len() {
                break;
            }
            let is_right = right < heap.len()
                && order.compare_by_prefix(&heap[right], &heap[left]) == Ordering::Less;
            let least = if is_right { right } else { left };
            if order.compare_by_prefix(&heap[least], &heap[at]) != Ordering::Less {
                break;
            }
            heap.swap(at, least);
            at = least;
        }
    }

    /// Takes the memory of the heap, or writes what fills it as a run.
    #[cold]
    fn make_room(&mut self) -> Result<(), ExternalError> {
        self.failure.check()?;
        if self.heap.capacity() == 0 {
            let limit = self.heap_limit;
            return self.heap.try_reserve_exact(limit).map_err(|error| {
                let what = format!("no memory for a heap of {limit} records: {error}; grant less");
                ExternalError::Invalid { what }
            });
        }
        let written = self.write_heap();
        self.failure.note(written)
    }

    fn write_heap(&mut self) -> Result<(), ExternalError> {
        // The last one first: what is merged goes to a group that has room.
        for group in (0..GROUP_COUNT).rev() {
            if (0..=group).all(|group| self.run_count(group) == self.fan_in) {
                self.merge_group(group)?;
            }
        }
        sort_in_memory(&mut self.heap, &self.order, self.store.stop_flag());
        self.store.check_stop()?;
        let mut writer = self.writer(self.heap.len() as u64)?;
        for &record in &self.heap {
            writer.push(record)?;
        }
        self.heap.clear();
        self.add_run(writer, 0)
    }

    /// Runs of a group.
    fn run_count(&self, group: usize) -> usize {
        self.runs.iter().filter(|run| run.group == group).count()
    }

    fn writer(&mut self, count: u64) -> Result<VectorWriter<R>, ExternalError> {
        let memory = self.write_memory.take().expect("one run is written at a time");
        VectorWriter::with(Buffers::of(&self.store, memory), count)
    }

    /// Merges the runs of a group to one of the next group, or of the last.
    fn merge_group(&mut self, group: usize) -> Result<(), ExternalError> {
        let is_of_group = |run: &Run| run.group == group;
        let rest = self.runs.iter().filter(|run| is_of_group(run)).map(Run::rest_count);
        let count = rest.sum::<u64>() + self.fan_in as u64;
        let mut writer = self.writer(count)?;
        let leaves: Vec<usize> =
            (0..self.runs.len()).filter(|&leaf| is_of_group(&self.runs[leaf])).collect();
        let heads: Vec<R> = leaves.iter().map(|&leaf| self.tree.record_of(leaf)).collect();
        let mut tree = LoserTree::new(self.order.clone());
        heads.into_iter().for_each(|head| tree.push(Some(head)));
        tree.build();
        while let Some((leaf, record)) = tree.champion() {
            writer.push(record)?;
            let run = &mut self.runs[leaves[leaf]];
            let next = match run.next() {
                None => next_block(run, self.per_block)?.then(|| run.next()).flatten(),
                next => next,
            };
            match next {
                Some(next) => tree.replace(next),
                None => tree.retire(),
            }
        }
        // They are at their ends; the others still play.
        let mut heads = Vec::with_capacity(self.runs.len());
        let runs = std::mem::take(&mut self.runs);
        for (leaf, run) in runs.into_iter().enumerate() {
            if run.group == group {
                self.buffers.give(run.at_hand);
            } else {
                heads.push(self.tree.record_of(leaf));
                self.runs.push(run);
            }
        }
        self.rebuild(heads);
        self.add_run(writer, (group + 1).min(GROUP_COUNT - 1))
    }

    /// Has the run that was written play.
    fn add_run(&mut self, writer: VectorWriter<R>, group: usize) -> Result<(), ExternalError> {
        let (vector, memory) = writer.finish_with_memory()?;
        self.write_memory = Some(memory);
        let (blocks, left) = vector.into_parts();
        let buffer = self.buffers.take();
        let at_hand = self.store.read(blocks.place(0), buffer).and_then(Flight::wait)?;
        let mut run = Run { group, blocks, at_hand, slot: 0, slot_end: 0, left };
        run.begin_block(self.per_block);
        let head = run.next().expect("a run that was written has records");
        let mut heads: Vec<R> =
            (0..self.runs.len()).map(|leaf| self.tree.record_of(leaf)).collect();
        heads.push(head);
        self.runs.push(run);
        self.rebuild(heads);
        Ok(())
    }

    /// Has all runs play, each with its record at hand.
    fn rebuild(&mut self, heads: Vec<R>) {
        self.tree.clear();
        heads.into_iter().for_each(|head| self.tree.push(Some(head)));
        self.tree.build();
    }

    /// Goes on to the next block of the champion's run, or removes the run.
    #[cold]
    fn turn(&mut self, leaf: usize) -> Result<(), ExternalError> {
        let run = &mut self.runs[leaf];
        if next_block(run, self.per_block)? {
            let next = run.next().expect("a block that was read has records");
            self.tree.replace(next);
            return Ok(());
        }
        let mut heads: Vec<R> =
            (0..self.runs.len()).map(|leaf| self.tree.record_of(leaf)).collect();
        heads.swap_remove(leaf);
        let run = self.runs.swap_remove(leaf);
        self.buffers.give(run.at_hand);
        self.rebuild(heads);
        Ok(())
    }

    /// Asserts the invariants.
    ///
    /// # Panics
    /// If one does not hold.
    pub fn audit(&self) {
        let in_runs: u64 = self.runs.iter().map(|run| run.rest_count() + 1).sum();
        assert_eq!(in_runs + self.heap.len() as u64, self.len, "invariant 1");
        for group in 0..GROUP_COUNT {
            assert!(self.run_count(group) <= self.fan_in, "invariant 2");
        }
        for (at, record) in self.heap.iter().enumerate().skip(1) {
            let order = self.order.compare(&self.heap[(at - 1) / 2], record);
            assert_ne!(order, Ordering::Greater, "the heap is one");
        }
    }
}

/// Reads the next block of a run over the one at hand; false at its end.
fn next_block(run: &mut Run, per_block: usize) -> Result<bool, ExternalError> {
    run.blocks.pop_front();
    if run.left == 0 {
        return Ok(false);
    }
    let buffer = std::mem::replace(&mut run.at_hand, IoBuffer::with_alignment(0, 1));
    run.at_hand = run.blocks.store().read(run.blocks.place(0), buffer).and_then(Flight::wait)?;
    run.begin_block(per_block);
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{GRANT_BYTES, memory_io, store};
    use crate::{By, Grant, Natural, Settings};
    use nandu_base::Rng;
    use proptest::prelude::*;
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;
    use std::sync::Arc;
    use std::sync::atomic::Ordering::Relaxed;
    use std::sync::atomic::{AtomicBool, AtomicU64};

    proptest! {
        #[test]
        fn a_priority_queue_is_a_heap(
            memory_blocks in 7_u64..24, in_flight in 0_u32..4, key_count in 1_u64..2000, seed: u64,
            steps in proptest::collection::vec((0_u8..5, 0_usize..400), 0..30),
        ) {
            let store = store(512, 1, in_flight);
            let mut rng = Rng::new(seed);
            let mut queue =
                PriorityQueue::with_bytes(&store, Natural, memory_blocks * 512).unwrap();
            let mut model = BinaryHeap::new();
            for (step, count) in steps {
                for _ in 0..count {
                    if step < 3 {
                        let record = (rng.below(key_count), 5_u32);
                        queue.push(record).unwrap();
                        model.push(Reverse(record));
                    } else {
                        prop_assert_eq!(queue.peek(), Ok(model.peek().map(|least| least.0)));
                        prop_assert_eq!(queue.pop(), Ok(model.pop().map(|least| least.0)));
                    }
                }
                queue.audit();
                prop_assert_eq!(queue.len(), model.len() as u64);
            }
            while let Some(Reverse(least)) = model.pop() {
                prop_assert_eq!(queue.pop(), Ok(Some(least)));
            }
            prop_assert_eq!(queue.pop(), Ok(None));
            let counts = store.counts();
            prop_assert_eq!(counts.read_blocks, counts.write_blocks);
            prop_assert!(store.grant().peak_bytes() <= memory_blocks * 512);
            drop(queue);
            prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        }
    }

    #[test]
    fn records_are_written_once_for_each_group_they_pass() {
        let store = store(512, 1, 1);
        let order = By(|&n: &u64| u64::MAX - n);
        let mut queue = PriorityQueue::with_bytes(&store, order, 64 * 512).unwrap();
        // About half of the memory is the heap, so k = 14 runs a group, 14 * 14 memories in all.
        let (limit, fan_in) = (queue.heap_limit as u64, queue.fan_in as u64);
        let count = limit * fan_in * 6;
        let mut rng = Rng::new(3);
        (0..count).for_each(|_| queue.push(rng.below(1 << 40)).unwrap());
        queue.audit();
        let mut last = u64::MAX;
        while let Some(record) = queue.pop().unwrap() {
            assert!(record <= last, "the greatest comes first");
            last = record;
        }
        let (counts, blocks) = (store.counts(), count.div_ceil(63));
        // Each run may end within a block.
        let most = 2 * (blocks + 6 * fan_in);
        assert!((blocks..most).contains(&counts.write_blocks), "{counts:?} of {blocks}");
        assert_eq!(counts.read_blocks, counts.write_blocks);
    }

    #[test]
    fn a_full_volume_is_an_error_for_good() {
        let io = memory_io(64 << 10);
        let settings = Settings { block_bytes: 512, in_flight: 2 };
        let store = Store::new(std::slice::from_ref(&io), settings, Grant::new(1 << 20)).unwrap();
        let mut queue = PriorityQueue::with_bytes(&store, Natural, 8192).unwrap();
        let error = (0..1 << 20).find_map(|n: u64| queue.push(n).err()).unwrap();
        assert!(error.to_string().contains("external-1"), "{error}");
        assert_eq!((queue.pop(), queue.peek()), (Err(error.clone()), Err(error.clone())));
        assert_eq!(queue.push(1), Err(error));
        drop(queue);
        assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, 1 << 20));
        assert!(PriorityQueue::<u64, _>::with_bytes(&store, Natural, 3000).is_err());
    }

    #[test]
    fn a_heap_that_is_sorted_to_be_written_looks_at_whether_to_stop() {
        let settings = Settings { block_bytes: 4096, in_flight: 1 };
        let count = 1 << 17;
        let (looks, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        // Looks at records before each is pushed, up to the one for which the heap is written.
        let pushed = |stop_at: u64| {
            looks.store(0, Relaxed);
            let (its_looks, its_stop) = (Arc::clone(&looks), Arc::clone(&stop));
            let order = By(move |record: &(u64, u64)| {
                if its_looks.fetch_add(1, Relaxed) == stop_at {
                    its_stop.store(true, Relaxed);
                }
                record.0
            });
            let (io, grant) = ([memory_io(16 << 20)], Grant::new(count * 32));
            let store = Store::stoppable(&io, settings, grant, Arc::clone(&stop)).unwrap();
            let mut queue = PriorityQueue::with_bytes(&store, order, count * 32).unwrap();
            let mut rng = Rng::new(1);
            loop {
                let before = looks.load(Relaxed);
                let pushed = queue.push((7, rng.next_u64()));
                if pushed.is_err() || !queue.runs.is_empty() {
                    return (before, pushed);
                }
            }
        };
        let (before, whole) = pushed(u64::MAX);
        let sort_looks = looks.load(Relaxed) - before;
        assert_eq!(whole, Ok(()));
        for part in [0, 10, 50] {
            let stop_at = before + 1 + sort_looks * part / 100;
            assert_eq!(pushed(stop_at).1, Err(ExternalError::Cancelled));
            let more = looks.load(Relaxed) - stop_at;
            assert!(more < sort_looks / 5, "{more} looks of {sort_looks} after {part} %");
            stop.store(false, Relaxed);
        }
    }
}
