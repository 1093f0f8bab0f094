//! Threads that merge parts, and give them back in the order in which they got them.
//!
//! ```text
//!   send: part 1, 2, 3, … ──┬─► thread 1: parts 1, 3, … ─┬──► receive: part 1, 2, 3, …
//!                           └─► thread 2: parts 2, 4, … ─┘
//! ```
//!
//! 1. What comes back is what was sent, in that order, however many threads there are. Where there
//!    are none to be had, whoever sends merges.
//! 2. A part comes back with all that was sent: no thread keeps a block.
//! 3. Threads have ended when the crew is gone.

use crate::loser_tree::LoserTree;
use crate::{Order, Record};
use nandu_device::IoBuffer;
use std::collections::VecDeque;
use std::slice::ChunksExact;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;

/// Records of one run that lie in one block, in order.
#[derive(Debug)]
pub(super) struct Slice {
    pub(super) run: usize,
    pub(super) block: Arc<IoBuffer>,
    pub(super) from: usize,
    pub(super) to: usize,
}

/// Records that are merged by one thread: those of the slices, of which a run's come one after the
/// other, are added to the records.
#[derive(Debug)]
pub(super) struct Part<R> {
    pub(super) slices: Vec<Slice>,
    pub(super) records: Vec<R>,
}

#[derive(Debug)]
struct Worker<R> {
    /// None when it is to end.
    parts: Option<SyncSender<Part<R>>>,
    merged: Receiver<Part<R>>,
    thread: Option<JoinHandle<()>>,
}

/// Threads, and parts that they have.
#[derive(Debug)]
pub(super) struct Crew<R, O> {
    /// They get parts in turn.
    workers: Vec<Worker<R>>,
    sent_count: usize,
    received_count: usize,
    /// Parts that were merged here, without threads.
    merged: VecDeque<Part<R>>,
    tree: LoserTree<R, O>,
}

impl<R> Part<R> {
    /// With room for so many records.
    pub(super) fn with_room(count: usize) -> Self {
        Self { slices: Vec::new(), records: Vec::with_capacity(count) }
    }
}

impl<R: Record> Worker<R> {
    /// One that has up to `part_count` parts at a time; `None` without a thread.
    fn start<O: Order<R>>(order: &O, part_count: usize) -> Option<Self> {
        let (parts, to_merge) = sync_channel::<Part<R>>(part_count);
        let (done, merged) = sync_channel(part_count);
        let mut tree = LoserTree::new(order.clone());
        let work = move || {
            while let Ok(mut part) = to_merge.recv() {
                merge(&mut part, &mut tree);
                if done.send(part).is_err() {
                    break;
                }
            }
        };
        let thread = std::thread::Builder::new().name("merge".to_owned()).spawn(work).ok()?;
        Some(Self { parts: Some(parts), merged, thread: Some(thread) })
    }
}

impl<R> Worker<R> {
    fn join(&mut self) -> std::thread::Result<()> {
        self.parts = None;
        self.thread.take().map_or(Ok(()), JoinHandle::join)
    }
}

impl<R> Drop for Worker<R> {
    fn drop(&mut self) {
        // Its memory goes back to whoever granted it. Whoever gives up has no use for a panic.
        let _ = self.join();
    }
}

impl<R: Record, O: Order<R>> Crew<R, O> {
    /// As many threads as the machine runs at once, and no more than the parts that are sent
    /// before one is received, `part_count`.
    pub(super) fn new(order: &O, part_count: usize) -> Self {
        let at_once = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self::of(order, part_count, at_once.min(part_count))
    }

    /// Of so many threads, if there are.
    pub(super) fn of(order: &O, part_count: usize, thread_count: usize) -> Self {
        let start = |_| Worker::start(order, part_count);
        let workers = (0..thread_count).map_while(start).collect();
        let tree = LoserTree::new(order.clone());
        Self { workers, sent_count: 0, received_count: 0, merged: VecDeque::new(), tree }
    }

    /// Has a part be merged.
    pub(super) fn send(&mut self, mut part: Part<R>) {
        if self.workers.is_empty() {
            merge(&mut part, &mut self.tree);
            self.merged.push_back(part);
            return;
        }
        let worker = self.sent_count % self.workers.len();
        self.sent_count += 1;
        let parts = self.workers[worker].parts.as_ref().expect("a crew that is there works");
        if parts.send(part).is_err() {
            self.panic(worker);
        }
    }

    /// The oldest of the parts that were sent, merged; `None` if there is none.
    pub(super) fn receive(&mut self) -> Option<Part<R>> {
        if self.received_count == self.sent_count {
            return self.merged.pop_front();
        }
        let worker = self.received_count % self.workers.len();
        self.received_count += 1;
        match self.workers[worker].merged.recv() {
            Ok(part) => Some(part),
            Err(_) => self.panic(worker),
        }
    }

    /// Passes on why a thread ended.
    fn panic(&mut self, worker: usize) -> ! {
        match self.workers[worker].join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => unreachable!("a thread ends when it is told"),
        }
    }
}

/// The records of a run in a part.
struct Cursor<'p> {
    records: ChunksExact<'p, u8>,
    /// Slices that come then.
    slices: &'p [Slice],
}

impl<'p> Cursor<'p> {
    fn of<R: Record>(slices: &'p [Slice]) -> Self {
        let (first, slices) = slices.split_first().expect("a run that is here has a slice");
        Self { records: records_of::<R>(first), slices }
    }

    #[inline]
    fn next<R: Record>(&mut self) -> Option<R> {
        match self.records.next() {
            Some(record) => Some(R::decode(record)),
            None => self.next_slice(),
        }
    }

    #[cold]
    fn next_slice<R: Record>(&mut self) -> Option<R> {
        let (first, slices) = self.slices.split_first()?;
        *self = Self { records: records_of::<R>(first), slices };
        self.next()
    }
}

fn records_of<R: Record>(slice: &Slice) -> ChunksExact<'_, u8> {
    slice.block[slice.from * R::BYTES..slice.to * R::BYTES].chunks_exact(R::BYTES)
}

/// Merges a part.
fn merge<R: Record, O: Order<R>>(part: &mut Part<R>, tree: &mut LoserTree<R, O>) {
    let Part { slices, records } = part;
    // The slices of a run stay in order.
    slices.sort_by_key(|slice| slice.run);
    let same_run = |left: &Slice, right: &Slice| left.run == right.run;
    let mut cursors: Vec<Cursor<'_>> = slices.chunk_by(same_run).map(Cursor::of::<R>).collect();
    tree.clear();
    cursors.iter_mut().for_each(|cursor| tree.push(cursor.next()));
    tree.build();
    while let Some((leaf, record)) = tree.champion() {
        records.push(record);
        match cursors[leaf].next() {
            Some(next) => tree.replace(next),
            None => tree.retire(),
        }
    }
}
