//! What a search by clusters asks for (the second phase of the search of Mehlhorn and Meyer): clusters are
//! read when the first of their nodes is reached, and their lists wait in a pool until the others are.
//!
//! Which nodes share a cluster is not known, so it is assumed with the levels:
//!
//! | levels | a cluster |
//! | --- | --- |
//! | of a random graph | half as many nodes as a piece has steps, each reached when any node is |
//! | so many | as many nodes as a piece has steps, one in each of as many levels, from any on |
//!
//! 1. Clusters of a level lie anywhere among all; where those of one level lie side by side less is read.
//! 2. What waits is in the table while there is room, and in runs beside it, as in the pool itself; lists of
//!    a level are in both in proportion.

use super::clustering::cluster_count;
use super::flow::{Pen, Reading, Writing, rounded};
use super::search::{AssumedLevels, Level, Levels, touched};
use super::sorting::Sort;
use crate::cost::{Requests, Work};
use crate::graph::{ClusteringSettings, Entry, Held, Loaded, Memories, PoolSettings};
use crate::graph::{RUN_COUNT_MAX, Span, Target};
use crate::{ExternalError, Store};
use nandu_base::Rng;

/// What a level asks of the clusters.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Asked {
    /// Clusters that are read, of all.
    loaded: f64,
    /// Nodes whose clusters were read before, of the level's.
    waiting: f64,
}

/// When clusters are asked for.
#[derive(Clone, Debug)]
enum Clusters {
    /// Each has so many nodes, which are reached when any node is.
    Anywhere { nodes: f64, reached: f64, loaded: f64 },
    /// Each has a node in each of so many levels; of so many levels.
    Ranging { width: u64, level_count: u64, level: u64 },
}

impl Clusters {
    fn new(assumed: AssumedLevels, of_graph: (u64, u64), cluster_nodes: u64) -> Self {
        let nodes = of_graph.0.max(1);
        match assumed {
            AssumedLevels::Random => {
                let nodes = nodes as f64 / cluster_count(nodes, cluster_nodes) as f64;
                Self::Anywhere { nodes, reached: 0.0, loaded: 0.0 }
            }
            AssumedLevels::Even(_) => {
                let level_count = assumed.level_count(of_graph.0, of_graph.1);
                let width = cluster_nodes.clamp(1, level_count);
                Self::Ranging { width, level_count, level: 0 }
            }
        }
    }

    /// The next level, which has that part of all nodes.
    fn next(&mut self, part: f64) -> Asked {
        match self {
            Self::Anywhere { nodes, reached, loaded } => {
                let waiting = (*loaded - *reached) / (1.0 - *reached).max(f64::MIN_POSITIVE);
                *reached = (*reached + part).min(1.0);
                let before = *loaded;
                *loaded = (1.0 - (1.0 - *reached).powf(*nodes)).max(before);
                Asked { loaded: *loaded - before, waiting: waiting.clamp(0.0, 1.0) }
            }
            Self::Ranging { width, level_count, level } => {
                let begins = *level_count - *width;
                let at = *level;
                *level += 1;
                // Clusters that have a node here began in one of these levels.
                let first = (at + 1).saturating_sub(*width);
                let under_way = at.min(begins) + 1 - first.min(begins);
                let begun = if at <= begins { 1.0 } else { 0.0 };
                let loaded = begun / (begins + 1) as f64;
                Asked { loaded, waiting: 1.0 - begun / under_way.max(1) as f64 }
            }
        }
    }
}

/// Entries that wait.
#[derive(Debug, Default)]
struct Pool {
    in_table: f64,
    outside: f64,
    /// Entries of runs that were used.
    dead: f64,
    runs: Vec<Writing>,
    clusters_outside: f64,
}

/// A search that is being predicted.
struct Search<'p, 'r> {
    pen: Pen<'r>,
    memories: Memories,
    entries: Writing,
    clusters: Clusters,
    cluster_count: f64,
    node_count: f64,
    /// Entries of all nodes, and of one.
    entry_count: f64,
    degree: f64,
    pool: Pool,
    /// Blocks that were read so far, of all, and how many are kept.
    known_part: f64,
    rng: &'p mut Rng,
}

/// A graph whose clusters lie on the store is searched within `bytes` of memory.
///
/// # Errors
/// If memory is too little, or the store is to stop.
pub fn search_by_clusters(
    store: &Store,
    of_graph: (u64, u64),
    (assumed, settings): (AssumedLevels, &ClusteringSettings),
    bytes: u64,
    (rng, requests): (&mut Rng, &mut dyn Requests),
) -> Result<(), ExternalError> {
    let (nodes, edges) = of_graph;
    let memories = Memories::new(store, store, bytes, PoolSettings::default())?;
    let mut pen = Pen::new(store, requests);
    let (ends, spans) = (edges.saturating_mul(2), pen.vector::<Span>(nodes)?);
    let entries = pen.vector::<Entry>(ends)?;
    let cluster_nodes = settings.cluster_nodes(of_graph, store)?;
    let mut search = Search {
        pen,
        memories,
        entries,
        clusters: Clusters::new(assumed, of_graph, cluster_nodes),
        cluster_count: cluster_count(nodes, cluster_nodes) as f64,
        node_count: nodes.max(1) as f64,
        entry_count: ends as f64,
        degree: ends as f64 / nodes.max(1) as f64,
        pool: Pool::default(),
        known_part: 0.0,
        rng,
    };
    search.flow(vec![spans.read_some(1.0, 1)], Vec::new(), Work::default())?;
    let in_memory = store.block_bytes() / size_of::<Target>() as u64;
    let mut levels = Levels::new(assumed, of_graph).peekable();
    let (mut before, mut current): (Option<Writing>, Option<Writing>) = (None, None);
    while let Some(level) = levels.next() {
        // A level that is in memory asks for nothing.
        store.check_stop()?;
        let neighbours = search.look_up_and_load(level, current)?;
        let (sorted, work) = neighbours.finish(&mut search.pen, search.rng)?;
        let known = before.into_iter().chain(current).map(Writing::read);
        let readings = known.chain([sorted]).collect();
        let next_count = levels.peek().map_or(0, |next| rounded(next.nodes));
        let next = match next_count > in_memory {
            true => Some(search.pen.vector::<Target>(next_count)?),
            false => None,
        };
        search.flow(readings, next.into_iter().collect(), work)?;
        (before, current) = (current, next);
    }
    Ok(())
}

impl Search<'_, '_> {
    fn flow(
        &mut self,
        mut readings: Vec<Reading>,
        writings: Vec<Writing>,
        work: Work,
    ) -> Result<(), ExternalError> {
        self.pen.flow(&mut readings, writings, self.rng)?;
        self.pen.end_phase(work);
        Ok(())
    }

    /// A level up to its neighbours, as they are put into a sort.
    fn look_up_and_load(
        &mut self,
        level: Level,
        current: Option<Writing>,
    ) -> Result<Sort, ExternalError> {
        let level_reading = || current.map(Writing::read);
        let asked = self.clusters.next(level.nodes / self.node_count);
        let (scanned, cleaned) = self.take(level.nodes * asked.waiting, level.nodes)?;
        let span_count = rounded(level.nodes * (1.0 - asked.waiting));
        let (spans, span_runs) =
            Sort::begin::<Span>(&mut self.pen, span_count, self.memories.spans_bytes)?;
        let taken = rounded(level.nodes * asked.waiting * self.degree);
        let readings = scanned.into_iter().chain(level_reading()).collect();
        let writings = [span_runs].into_iter().chain(cleaned).collect();
        self.flow(readings, writings, spans.put_in().and(Work::walked(taken)))?;
        let loaded_count = self.entry_count * asked.loaded;
        let (loaded, runs) = Sort::begin::<Loaded>(
            &mut self.pen,
            rounded(loaded_count),
            self.memories.loaded_bytes,
        )?;
        let (sorted, work) = spans.finish(&mut self.pen, self.rng)?;
        let blocks = self.blocks_of(asked.loaded);
        let at_once = self.pen.store().settings().in_flight.saturating_add(1);
        let mut readings = vec![sorted];
        readings.extend((blocks > 0.0).then(|| self.entries.read_some(blocks, at_once)));
        self.flow(readings, vec![runs], work.and(loaded.put_in()))?;
        let (sorted, work) = loaded.finish(&mut self.pen, self.rng)?;
        let neighbours = rounded(level.neighbours);
        let (neighbours, runs) =
            Sort::begin::<Target>(&mut self.pen, neighbours, self.memories.neighbours_bytes)?;
        let used = level.nodes * (1.0 - asked.waiting) * self.degree;
        let (kept, brought) = self.bring(loaded_count, used, asked.loaded)?;
        let readings = level_reading().into_iter().chain([sorted]).collect();
        let writings = [runs].into_iter().chain(brought).collect();
        let work = work.and(neighbours.put_in()).and(Work::walked(rounded(kept)));
        self.flow(readings, writings, work)?;
        Ok(neighbours)
    }

    /// Takes the lists of so many nodes out of the pool: what is scanned for that, and written.
    fn take(
        &mut self,
        nodes: f64,
        level_nodes: f64,
    ) -> Result<(Vec<Reading>, Option<Writing>), ExternalError> {
        let degree = self.degree;
        let pool = &mut self.pool;
        let waiting = pool.in_table + pool.outside;
        let of_outside = if waiting > 0.0 { pool.outside / waiting } else { 0.0 };
        let used = (nodes * degree).min(waiting);
        pool.in_table -= used * (1.0 - of_outside);
        let used_outside = (used * of_outside).min(pool.outside);
        let is_known = pool.clusters_outside <= self.memories.known_clusters() as f64;
        let wanted = if is_known { used_outside / degree } else { level_nodes };
        let is_full = pool.runs.len() == RUN_COUNT_MAX;
        if pool.runs.is_empty() || (wanted < 0.5 && !is_full) {
            pool.outside -= used_outside;
            pool.dead += used_outside;
            return Ok((Vec::new(), None));
        }
        let dead = (pool.dead / degree) + wanted;
        let is_cleaned = is_full
            || 2.0 * dead > (pool.outside + pool.dead) / degree
            || dead > self.memories.dead_lists() as f64;
        pool.outside = (pool.outside - used_outside).max(0.0);
        pool.dead += used_outside;
        let scanned = pool.runs.iter().map(|run| run.read()).collect();
        if !is_cleaned {
            return Ok((scanned, None));
        }
        (pool.dead, pool.runs) = (0.0, Vec::new());
        if pool.outside < 1.0 {
            (pool.outside, pool.clusters_outside) = (0.0, 0.0);
            return Ok((scanned, None));
        }
        let left = self.pen.vector::<Held>(rounded(pool.outside))?;
        pool.runs.push(left);
        Ok((scanned, Some(left)))
    }

    /// Puts what clusters brought into the pool, but what the level uses: how many entries go into the
    /// table, and the run beside it.
    fn bring(
        &mut self,
        loaded: f64,
        used: f64,
        part_of_clusters: f64,
    ) -> Result<(f64, Option<Writing>), ExternalError> {
        if loaded < 1.0 {
            return Ok((0.0, None));
        }
        let pool = &mut self.pool;
        let left = (1.0 - used / loaded).clamp(0.0, 1.0);
        let room = (self.memories.table_entries() as f64 - pool.in_table).max(0.0);
        let into_table = room.min(loaded);
        let kept = into_table * left;
        pool.in_table += kept;
        let brought = (loaded - into_table) * left;
        if brought < 1.0 {
            return Ok((kept, None));
        }
        pool.clusters_outside +=
            self.cluster_count * part_of_clusters * (1.0 - into_table / loaded);
        pool.outside += brought;
        let run = self.pen.vector::<Held>(rounded(brought))?;
        pool.runs.push(run);
        Ok((kept, Some(run)))
    }

    /// Blocks that are read for that part of the clusters: what is kept is not read again.
    fn blocks_of(&mut self, part: f64) -> f64 {
        let all = self.entries.block_count();
        if part <= 0.0 || all == 0 {
            return 0.0;
        }
        // A cluster that is cut by the end of a block lies in two.
        let blocks = touched(all, part, self.cluster_count / all as f64 + 1.0);
        let kept = self.memories.kept_count as f64;
        // Blocks are read in their order: where a level reads more than are kept none is left of it.
        let found = match all as f64 <= kept {
            true => self.known_part,
            false if blocks < kept => self.known_part * kept / all as f64,
            false => 0.0,
        };
        self.known_part += (1.0 - self.known_part) * (blocks / all as f64).min(1.0);
        blocks * (1.0 - found)
    }
}
