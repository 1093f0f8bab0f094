//! Breadth-first search of Mehlhorn and Meyer (ESA 2002), with the engineering of Ajwani, Meyer and
//! Osipov (ALENEX 2007), and clusters and pool on different devices (S002 chapter 4).
//!
//! ```text
//!   level t ──► lists in the pool ────────────────────────┐
//!          └──► not there: clusters, each read once ──────┤
//!                 (flash: read anywhere)    │ the others  ▼
//!                                           ▼      neighbours ──► sorter ──► each once, not of
//!                      pool (disk: scanned, written)                         t, t - 1: level t + 1
//! ```
//!
//! A node that is reached brings the cluster that it is in, with all lists of that cluster; these
//! wait in the pool until their nodes are reached, at most as many levels as the cluster is wide.
//! So n / c clusters or so are read where [`mr_bfs`](fn@super::mr_bfs) reads n lists, and each list
//! is scanned c times or so.
//!
//! 1. Levels ascend and have no node in common (as in [`mr_bfs`](fn@super::mr_bfs)).
//! 2. A cluster is read at most once: until its last node is visited its lists are in the pool.
//! 3. Clusters of a level are read in the order in which they lie, each block once, and not at all
//!    if it is kept.
//! 4. A level that fits into a block of memory is not written; what of the pool fits into its table
//!    is neither written nor scanned.
//! 5. Memory is divided before the search begins ([`Memories`]).

mod memory;
mod pool;
mod table;

pub(crate) use memory::Memories;
pub use memory::PoolSettings;
pub(crate) use pool::{Held, RUN_COUNT_MAX};

use super::clustering::{Entry, Span, Target};
use super::level::{Level, LevelStream};
use super::{Bfs, Clustering, ClusteringSettings, Graph, Visit};
use crate::stream::Ahead;
use crate::{
    ExternalError, Gatherer, Memory, Natural, RecordStream, SortedStream, Sorter, Store, Vector,
    VectorWriter,
};
use nandu_base::{Nanos, to_index};
use pool::{Pool, Sinks};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::VecDeque;

/// How a graph is searched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmSettings {
    /// The first phase.
    pub clustering: ClusteringSettings,
    /// The second phase.
    pub pool: PoolSettings,
}

/// What a search by clusters found, and what it did for that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmBfs {
    /// What it found.
    pub bfs: Bfs,
    /// What it did.
    pub counts: PoolCounts,
}

/// What went through the pool. A list is that of one node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct PoolCounts {
    /// Clusters that were read.
    pub cluster_loads: u64,
    /// Lists in the pool at each level, after its clusters were read, all levels together: what is
    /// scanned where all of the pool is, at each level.
    pub pool_lists: u64,
    /// The most lists that were in the pool at once.
    pub pool_lists_max: u64,
    /// The most levels for which a list was in the pool.
    pub residence_max: u32,
    /// Scans of the part of the pool that is not in memory.
    pub scan_count: u64,
    /// Lists that these scans passed.
    pub scanned_lists: u64,
}

impl PoolCounts {
    /// A list that came with level `came` was used by `level`. Levels are counted modulo 2^32.
    const fn note_residence(&mut self, level: u32, came: u32) {
        let residence = level.wrapping_sub(came);
        if residence > self.residence_max {
            self.residence_max = residence;
        }
    }
}

/// An entry that was read: its node, 1 if its cluster goes outside, and where the edge leads.
pub(crate) type Loaded = (u64, u8, Target);

/// Clusters a graph and searches it, all in the graph's store, within `bytes` of its grant; as
/// [`mr_bfs`](fn@super::mr_bfs) otherwise. Who wants clusters and pool in different stores, or more
/// searches than one, makes a [`Clustering`] and calls [`Clustering::search`].
///
/// # Errors
/// As [`Clustering::build`] and [`Clustering::search`].
pub fn mm_bfs(
    graph: &Graph,
    source: u64,
    bytes: u64,
    settings: &MmSettings,
    visit: impl FnMut(u64, u64) -> Result<(), ExternalError>,
) -> Result<MmBfs, ExternalError> {
    let store = graph.store();
    let stores = (store, store);
    let clustering = Clustering::build(graph, source, stores, bytes, settings.clustering)?;
    clustering.search(source, store, bytes, settings.pool, visit)
}

/// The c for which reading n / c clusters takes as long as scanning n c / 2 lists, each read and
/// written: sqrt(random read * rate / list). From a random read of the device with the clusters,
/// and the bytes a second of the device with the pool, of which a list takes `list_bytes`.
///
/// So for the graphs of figure 4.1 of S002, while c is not more than a path is long. Other graphs
/// have lists that are used sooner.
#[must_use]
pub fn best_cluster_nodes(random_read_ns: Nanos, bytes_per_second: u64, list_bytes: u64) -> u64 {
    let square = u128::from(random_read_ns.0) * u128::from(bytes_per_second)
        / (1_000_000_000 * u128::from(list_bytes.max(1)));
    u64::try_from(square.isqrt()).unwrap_or(u64::MAX).max(1)
}

impl Clustering {
    /// Searches from `source` and tells `visit` of each node that is reached and of its level,
    /// levels in order, nodes of a level ascending. The pool and all that is sorted lie in `store`,
    /// on a disk, say. Takes `bytes` of memory, of the grants of both stores.
    ///
    /// # Errors
    /// If there is no node `source`, there is not so much memory or it is too little, no room, or a
    /// device fails; and as `visit`.
    pub fn search(
        &self,
        source: u64,
        store: &Store,
        bytes: u64,
        settings: PoolSettings,
        mut visit: impl FnMut(u64, u64) -> Result<(), ExternalError>,
    ) -> Result<MmBfs, ExternalError> {
        self.search_all(source, store, (bytes, settings), &mut visit)
    }

    fn search_all(
        &self,
        source: u64,
        store: &Store,
        (bytes, settings): (u64, PoolSettings),
        visit: &mut Visit<'_>,
    ) -> Result<MmBfs, ExternalError> {
        if source >= self.node_count() {
            let (what, count) = ("a graph".to_owned(), self.node_count());
            return Err(ExternalError::OutOfRange { what, index: source, count });
        }
        let memories = Memories::new(self.store(), store, bytes, settings)?;
        let span = self.span_of(source)?;
        let mut search = Search::new(self, store, &memories)?;
        let mut spans = Sorter::with_bytes(store, Natural, memories.spans_bytes)?;
        let mut loaded = Sorter::with_bytes(store, Natural, memories.loaded_bytes)?;
        let mut neighbours = Sorter::with_bytes(store, Natural, memories.neighbours_bytes)?;
        search.current.push((source, span))?;
        visit(source, 0)?;
        search.bfs = Bfs { node_count: 1, level_count: 1 };
        loop {
            // What is in memory asks for nothing.
            store.check_stop()?;
            let lists_before = search.pool.list_count();
            search.look_up(&mut spans, &mut neighbours)?;
            spans = search.load(spans, &mut loaded)?;
            loaded = search.keep(loaded, &mut neighbours, lists_before)?;
            neighbours = search.advance(neighbours, visit)?;
            if search.next.is_empty() {
                return Ok(MmBfs { bfs: search.bfs, counts: search.counts });
            }
            search.turn();
        }
    }
}

/// A search under way. A level is the nodes, each with the span of its cluster.
struct Search<'c> {
    gatherer: Gatherer<'c, Entry>,
    pool: Pool,
    before: Level<Target>,
    current: Level<Target>,
    next: Level<Target>,
    /// Nodes of the current level whose lists may be outside.
    wanted: Level<Target>,
    fates: RefCell<VecDeque<(u32, bool)>>,
    bfs: Bfs,
    counts: PoolCounts,
    store: Store,
    _memory: Memory,
}

/// The spans of clusters that are read, each once; notes where each goes.
struct Clusters<'s> {
    spans: &'s mut SortedStream<Span, Natural>,
    last: Option<Span>,
    pool: &'s mut Pool,
    fates: &'s RefCell<VecDeque<(u32, bool)>>,
    load_count: &'s mut u64,
}

impl RecordStream for Clusters<'_> {
    type Record = (u64, u64);

    fn next_record(&mut self) -> Result<Option<(u64, u64)>, ExternalError> {
        loop {
            let Some(span) = self.spans.next_record()? else { return Ok(None) };
            if self.last.replace(span) != Some(span) {
                *self.load_count += 1;
                let is_outside = self.pool.place(span);
                self.fates.borrow_mut().push_back((span.1, is_outside));
                return Ok(Some((span.0, u64::from(span.1))));
            }
        }
    }
}

impl<'c> Search<'c> {
    fn new(
        clustering: &'c Clustering,
        store: &Store,
        memories: &Memories,
    ) -> Result<Self, ExternalError> {
        let memory = store.grant().take("a search by clusters", memory::FATES_BYTES)?;
        let level = || Level::new(store);
        Ok(Self {
            gatherer: clustering.entries().keeping_gatherer(memories.kept_count)?,
            pool: Pool::new(store, memories)?,
            before: level()?,
            current: level()?,
            next: level()?,
            wanted: level()?,
            fates: RefCell::new(VecDeque::with_capacity(to_index(memory::FATE_COUNT))),
            bfs: Bfs::default(),
            counts: PoolCounts::default(),
            store: store.clone(),
            _memory: memory,
        })
    }

    /// The number of the current level, modulo 2^32.
    #[allow(clippy::cast_possible_truncation, reason = "levels are compared modulo 2^32")]
    const fn level(&self) -> u32 {
        (self.bfs.level_count - 1) as u32
    }

    /// Takes the lists of the current level that are in the pool; the clusters of the others.
    fn look_up(
        &mut self,
        spans: &mut Sorter<Span, Natural>,
        neighbours: &mut Sorter<Target, Natural>,
    ) -> Result<(), ExternalError> {
        let (level, pool, counts) = (self.level(), &mut self.pool, &mut self.counts);
        {
            let mut stream = self.current.stream()?;
            while let Some((node, span)) = stream.next_record()? {
                // A node without neighbours is in no cluster.
                if span.1 == 0 || pool.take(node, level, counts, neighbours)? {
                    continue;
                }
                match pool.may_have(span) {
                    true => self.wanted.push((node, span))?,
                    false => spans.push(span)?,
                }
            }
        }
        self.wanted.settle()?;
        pool.scan(&self.wanted, level, counts, &mut Sinks { neighbours, spans })?;
        self.wanted.clear();
        Ok(())
    }

    /// Reads the clusters `spans`.
    fn load(
        &mut self,
        spans: Sorter<Span, Natural>,
        loaded: &mut Sorter<Loaded, Natural>,
    ) -> Result<Sorter<Span, Natural>, ExternalError> {
        let mut spans = spans.finish()?;
        let clusters = Clusters {
            spans: &mut spans,
            last: None,
            pool: &mut self.pool,
            fates: &self.fates,
            load_count: &mut self.counts.cluster_loads,
        };
        let mut entries = self.gatherer.gather(clusters);
        let (mut left, mut is_outside) = (0, false);
        while let Some((node, target)) = entries.next_record()? {
            if left == 0 {
                let fate = self.fates.borrow_mut().pop_front();
                (left, is_outside) = fate.expect("entries are of clusters that were named");
            }
            left -= 1;
            loaded.push((node, u8::from(is_outside), target))?;
        }
        Ok(spans.into_sorter())
    }

    /// Uses the lists of the current level among those that were read, and keeps the others.
    fn keep(
        &mut self,
        loaded: Sorter<Loaded, Natural>,
        neighbours: &mut Sorter<Target, Natural>,
        lists_before: u64,
    ) -> Result<Sorter<Loaded, Natural>, ExternalError> {
        let (level, mut list_count) = (self.level(), lists_before);
        let mut loaded = loaded.finish()?;
        let mut writer: Option<VectorWriter<Held>> = None;
        {
            let mut current = self.current.stream()?.ahead();
            let (mut owner, mut is_used) = (None, false);
            while let Some((node, is_outside, target)) = loaded.next_record()? {
                let is_outside = is_outside == 1;
                if owner.replace(node) != Some(node) {
                    list_count += 1;
                    is_used = contains(&mut current, node)?;
                    if !is_used {
                        self.pool.note_list(is_outside);
                    }
                }
                match (is_used, is_outside) {
                    (true, _) => neighbours.push(target)?,
                    (false, false) => self.pool.insert((node, level, target)),
                    (false, true) => {
                        let writer = match &mut writer {
                            Some(writer) => writer,
                            none => none.insert(Vector::writer(&self.store)?),
                        };
                        writer.push((node, level, target))?;
                    }
                }
            }
        }
        self.pool.settle(writer.map(VectorWriter::finish).transpose()?);
        self.counts.pool_lists += list_count;
        self.counts.pool_lists_max = self.counts.pool_lists_max.max(list_count);
        Ok(loaded.into_sorter())
    }

    /// Makes the next level of those neighbours that are in neither of the last two.
    fn advance(
        &mut self,
        neighbours: Sorter<Target, Natural>,
        visit: &mut Visit<'_>,
    ) -> Result<Sorter<Target, Natural>, ExternalError> {
        let mut neighbours = neighbours.finish()?;
        {
            let (mut current, mut before) =
                (self.current.stream()?.ahead(), self.before.stream()?.ahead());
            let mut last = None;
            while let Some(target) = neighbours.next_record()? {
                let node = target.0;
                let is_known = last.replace(node) == Some(node)
                    || contains(&mut current, node)?
                    || contains(&mut before, node)?;
                if !is_known {
                    self.next.push(target)?;
                    visit(node, self.bfs.level_count)?;
                    self.bfs.node_count += 1;
                }
            }
        }
        self.next.settle()?;
        Ok(neighbours.into_sorter())
    }

    /// Makes the next level the current one.
    fn turn(&mut self) {
        self.bfs.level_count += 1;
        self.before.clear();
        std::mem::swap(&mut self.before, &mut self.current);
        std::mem::swap(&mut self.current, &mut self.next);
        if cfg!(test) {
            self.pool.audit();
        }
    }
}

/// Whether an ascending level has a node; those before it are passed over.
fn contains(stream: &mut Ahead<LevelStream<'_, Target>>, node: u64) -> Result<bool, ExternalError> {
    Ok(stream.skip_while(|other| other.0 < node)?.is_some_and(|other| other.0 == node))
}

#[cfg(test)]
mod tests;
