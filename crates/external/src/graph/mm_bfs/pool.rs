//! The hot pool: lists of clusters that were read and of nodes that were not visited yet. Part of
//! it is in memory, the rest lies sorted by node, in a few runs (Ajwani, Meyer and Osipov, ALENEX
//! 2007).
//!
//! ```text
//!   level ──► table in memory ── not there, cluster outside ──► scan of the runs ──► its lists
//!                   ▲                     └─ not there at all ──► cluster is read     │
//!   clusters read ──┴─ no room ──► a run of its own       a run of what is left ◄─────┘
//! ```
//!
//! 1. A list is in the table or in one run, whole. Lists of a cluster that is outside are in runs.
//! 2. While it is known which clusters are outside, runs are scanned only for nodes of these.
//! 3. A scan that does not clean leaves the lists that it found, which are dead: no level comes
//!    back to a node. More than half of the runs' lists are never dead after a scan.
//! 4. A scan reads each run once, so a level costs one at most.

use super::table::Table;
use super::{Memories, PoolCounts};
use crate::graph::clustering::{Span, Target};
use crate::graph::level::Level;
use crate::stream::Ahead;
use crate::{ExternalError, Memory, Natural, RecordStream, Sorter, Store, Vector, VectorWriter};
use nandu_base::to_index;

/// Runs, at most: what was left, and what two levels brought.
pub(crate) const RUN_COUNT_MAX: usize = 3;

/// An entry of the pool: its node, the level in which it came, and where the edge leads.
pub(crate) type Held = (u64, u32, Target);

/// What the table has of an entry, by its node: the level in which it came, and where the edge leads.
pub(super) type InTable = (u32, Target);

/// Lists that were read and not used yet.
#[derive(Debug)]
pub(super) struct Pool {
    store: Store,
    table: Table<InTable>,
    /// Entries of the table that clusters on their way will take.
    reserved: u64,
    runs: Vec<Vector<Held>>,
    /// Clusters of which lists are outside, as long as there is memory for all.
    outside: Table<()>,
    is_outside_known: bool,
    /// Nodes whose lists in the runs were used.
    dead: Vec<u64>,
    dead_limit: usize,
    /// Lists that are not dead, in the table and in runs.
    table_lists: u64,
    run_lists: u64,
    _memory: Memory,
}

/// What a list of a run is to a scan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    Found,
    Dead,
    Kept,
}

/// What a level needs to go on.
pub(super) struct Sinks<'s> {
    /// Where the edges of its nodes lead.
    pub(super) neighbours: &'s mut Sorter<Target, Natural>,
    /// The clusters that have to be read.
    pub(super) spans: &'s mut Sorter<Span, Natural>,
}

impl Pool {
    pub(super) fn new(store: &Store, memories: &Memories) -> Result<Self, ExternalError> {
        let grant = store.grant();
        let dead_limit = to_index(memories.dead_lists());
        let memory = grant.take("a pool", dead_limit as u64 * 8)?;
        Ok(Self {
            store: store.clone(),
            table: Table::new(grant, memories.table_bytes)?,
            reserved: 0,
            runs: Vec::with_capacity(RUN_COUNT_MAX),
            outside: Table::new(grant, memories.known_bytes)?,
            is_outside_known: true,
            dead: Vec::with_capacity(dead_limit),
            dead_limit,
            table_lists: 0,
            run_lists: 0,
            _memory: memory,
        })
    }

    /// Lists that it has.
    pub(super) const fn list_count(&self) -> u64 {
        self.table_lists + self.run_lists
    }

    /// Takes the list of a node out of the table; false if it is not there.
    pub(super) fn take(
        &mut self,
        node: u64,
        level: u32,
        counts: &mut PoolCounts,
        neighbours: &mut Sorter<Target, Natural>,
    ) -> Result<bool, ExternalError> {
        let mut came = level;
        let count = self.table.take(node, |(loaded, target)| {
            came = loaded;
            neighbours.push(target)
        })?;
        if count > 0 {
            self.table_lists -= 1;
            counts.note_residence(level, came);
        }
        Ok(count > 0)
    }

    /// Whether the list of a node that is not in the table may be in a run.
    pub(super) fn may_have(&self, cluster: Span) -> bool {
        !self.runs.is_empty() && (!self.is_outside_known || self.outside.contains(cluster.0))
    }

    /// Says where the lists of a cluster go that is about to be read: true for outside.
    pub(super) fn place(&mut self, (first, count): Span) -> bool {
        if self.table.room() - self.reserved >= u64::from(count) {
            self.reserved += u64::from(count);
            return false;
        }
        match self.outside.room() {
            0 => self.is_outside_known = false,
            _ => self.outside.insert(first, ()),
        }
        true
    }

    /// Puts an entry into the table, of a cluster for which there was room.
    pub(super) fn insert(&mut self, (node, level, target): Held) {
        self.table.insert(node, (level, target));
    }

    /// Counts a list that came.
    pub(super) const fn note_list(&mut self, is_outside: bool) {
        match is_outside {
            true => self.run_lists += 1,
            false => self.table_lists += 1,
        }
    }

    /// Ends what the clusters of a level brought; `run` has the lists that are outside.
    pub(super) fn settle(&mut self, run: Option<Vector<Held>>) {
        self.reserved = 0;
        self.runs.extend(run);
        if self.run_lists == 0 {
            self.forget_runs();
        }
    }

    /// Looks for the nodes of `wanted` in the runs. Those that are not there have their clusters
    /// read.
    pub(super) fn scan(
        &mut self,
        wanted: &Level<Target>,
        level: u32,
        counts: &mut PoolCounts,
        sinks: &mut Sinks<'_>,
    ) -> Result<(), ExternalError> {
        // A level may bring a run.
        let is_full = self.runs.len() == RUN_COUNT_MAX;
        if wanted.is_empty() && !is_full {
            return Ok(());
        }
        counts.scan_count += 1;
        let dead_count = self.dead.len() as u64 + wanted.len();
        let has_many_dead = 2 * dead_count > self.run_lists + self.dead.len() as u64;
        let is_cleaned = is_full || has_many_dead || dead_count > self.dead_limit as u64;
        if !is_cleaned {
            let runs: Vec<Vector<Held>> = self.runs.drain(..).collect();
            let streams = { runs.iter() }.map(Vector::scanner).collect::<Result<Vec<_>, _>>()?;
            self.sweep(Merged::new(streams), wanted, level, counts, (sinks, None))?;
            self.runs.extend(runs);
            return Ok(());
        }
        self.dead.sort_unstable();
        let mut writer = Vector::writer(&self.store)?;
        let streams =
            { self.runs.drain(..) }.map(Vector::into_stream).collect::<Result<Vec<_>, _>>()?;
        self.sweep(Merged::new(streams), wanted, level, counts, (sinks, Some(&mut writer)))?;
        self.dead.clear();
        let run = writer.finish()?;
        match run.is_empty() {
            true => self.forget_runs(),
            false => self.runs.push(run),
        }
        Ok(())
    }

    /// Goes through the runs beside the nodes of a level, both by node. With a writer they are
    /// cleaned.
    fn sweep<S: RecordStream<Record = Held>>(
        &mut self,
        mut held: Merged<S>,
        wanted: &Level<Target>,
        level: u32,
        counts: &mut PoolCounts,
        (sinks, mut writer): (&mut Sinks<'_>, Option<&mut VectorWriter<Held>>),
    ) -> Result<(), ExternalError> {
        let mut wanted = wanted.stream()?.ahead();
        let mut dead = 0;
        let (mut owner, mut fate) = (None, Fate::Kept);
        while let Some((node, loaded, target)) = held.next_record()? {
            if owner.replace(node) != Some(node) {
                counts.scanned_lists += 1;
                while let Some((_, span)) = wanted.peek()?.filter(|other| other.0 < node) {
                    wanted.next_record()?;
                    sinks.spans.push(span)?;
                }
                let is_wanted = wanted.peek()?.is_some_and(|other| other.0 == node);
                fate = match (is_wanted, &writer) {
                    (true, _) => Fate::Found,
                    (false, None) => Fate::Kept,
                    (false, Some(_)) => self.fate_beside_dead(node, &mut dead),
                };
                if is_wanted {
                    wanted.next_record()?;
                    counts.note_residence(level, loaded);
                    self.run_lists -= 1;
                    if writer.is_none() {
                        self.dead.push(node);
                    }
                }
            }
            match (fate, &mut writer) {
                (Fate::Found, _) => sinks.neighbours.push(target)?,
                (Fate::Kept, Some(writer)) => writer.push((node, loaded, target))?,
                _ => {}
            }
        }
        while let Some((_, span)) = wanted.next_record()? {
            sinks.spans.push(span)?;
        }
        Ok(())
    }

    /// Whether a node's list is dead; those that are, sorted, were passed up to `passed`.
    fn fate_beside_dead(&self, node: u64, passed: &mut usize) -> Fate {
        while self.dead.get(*passed).is_some_and(|&dead| dead < node) {
            *passed += 1;
        }
        if self.dead.get(*passed) == Some(&node) { Fate::Dead } else { Fate::Kept }
    }

    /// Nothing is outside any more.
    fn forget_runs(&mut self) {
        self.runs.clear();
        self.dead.clear();
        self.outside.clear();
        self.is_outside_known = true;
    }

    /// Asserts the invariants that its numbers tell.
    pub(super) fn audit(&self) {
        self.table.audit();
        self.outside.audit();
        self.runs.iter().for_each(Vector::audit);
        assert!(self.runs.len() <= RUN_COUNT_MAX, "invariant 4");
        assert!(self.dead.len() <= self.dead_limit, "memory");
        assert!(self.dead.len() as u64 <= self.run_lists, "invariant 3");
        assert_eq!(self.runs.is_empty(), self.run_lists == 0, "invariant 1");
        assert!(self.table_lists <= self.table.len(), "invariant 1");
    }
}

/// Runs as one stream, by node: the first record of each is compared, since they are few.
struct Merged<S: RecordStream> {
    streams: Vec<Ahead<S>>,
}

impl<S: RecordStream> Merged<S> {
    fn new(streams: Vec<S>) -> Self {
        Self { streams: streams.into_iter().map(RecordStream::ahead).collect() }
    }

    fn next_record(&mut self) -> Result<Option<S::Record>, ExternalError> {
        let mut least: Option<(usize, S::Record)> = None;
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if let Some(record) = stream.peek()?
                && least.is_none_or(|(_, other)| record < other)
            {
                least = Some((index, record));
            }
        }
        match least {
            Some((index, _)) => self.streams[index].next_record(),
            None => Ok(None),
        }
    }
}
