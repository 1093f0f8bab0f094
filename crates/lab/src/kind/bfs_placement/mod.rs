//! The second phase of the search by clusters, with clusters and pool on one drive or several: S002
//! chapter 4, table 4.1.
//!
//! ```text
//!   level ─► pool: scanned, written again ─► nodes not there: their clusters, read anywhere ─► level
//!            `pool` drives, round them                        `clusters` drives, round them
//! ```
//!
//! The graph is that of figure 4.1, the clusters are pieces of an Euler tour, all of the pool is outside, as
//! in the paper of 2002. A graph of as many nodes as the report had is not searched: what a search asks for
//! is counted (`paths`), and asked of whole disks and of flash of the same speed. Of all paths one in `share` is asked for, those that lie
//! side by side, and of all levels the first and `asked_levels` more, evenly drawn; times are multiplied by
//! what was left out. Tests hold counts and bytes beside a search, and times beside one on the same drives.
//! Series of each placement:
//!
//! - at 0: `hours` of the phase with `cluster_nodes`, of which `cluster_hours` are reads of clusters and
//!   `pool_hours` all else; `loads`, millions of clusters that were read; `best_cluster_nodes` of the closed
//!   form, from what the drives were measured to take for a random read and a scan;
//! - over c: `sweep_hours` and, of the closed form, `formula_hours`.
//!
//! 1. The processor takes no time.
//! 2. c and twice the levels, the steps of a path in the tour, have no factor in common: else paths would
//!    reach new clusters at some levels alone, and the levels that are asked would tell nothing of others.

mod asked;
mod paths;

use super::Measurement;
use super::bench::Bench;
use super::beyond::{Scale, is_block, outcome_of, volumes_of};
use super::drive::{Drives, on_drive, targets};
use crate::error::LabError;
use crate::outcome::Series;
use asked::{Asker, Files};
use nandu_base::{ByteCount, Nanos, Rng, greatest_common_divisor, to_index};
use nandu_external::graph::best_cluster_nodes;
use nandu_external::{ExternalError, Io, Layout};
use nandu_probe::{Access, Limit, text};
use paths::{Cluster, LevelCounts, Paths};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of an entry of a cluster, of one that was read, of one of the pool, and of a node of a level.
const ENTRY_BYTES: u64 = 28;
const LOADED_BYTES: u64 = 29;
const HELD_BYTES: u64 = 32;
const NODE_BYTES: u64 = 20;
/// Memory of an entry while it is sorted, and of a node of a level.
const SORTED_BYTES: u64 = 40;
const KEPT_NODE_BYTES: u64 = 24;
/// Parts of the memory: of eight, those by which entries that were read are sorted.
const LOADED_PARTS: u64 = 3;
/// Requests by which a drive's random reads are measured, and bytes by which its scans are.
const RANDOM_REQUESTS: u64 = 400;
const SCANNED_BYTES: u64 = 256 << 20;
/// What flash is scaled to for that, at most.
const MEASURED_FLASH: ByteCount = ByteCount::mib(512);
/// Blocks of the pool that a search has in memory, at least: levels, streams and sorts.
const LEAST_BLOCKS: u64 = 48;
/// Nodes that are asked for, at most.
const ASKED_NODES: u64 = 1 << 26;
/// Bytes of a pool's list, of two entries.
const LIST_BYTES: u64 = 2 * HELD_BYTES;

/// The keys of an experiment of the kind `bfs_placement`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BfsPlacement {
    /// The drives; two of a kind have two names.
    pub drives: Drives,
    /// What lies where, by the name that it has in series.
    pub placements: BTreeMap<String, Placement>,
    /// Nodes of the graph, about.
    pub node_count: u64,
    /// Nodes of a path.
    pub levels: u64,
    /// One path in so many is asked for.
    pub share: u64,
    /// Levels that are asked for, beside the first.
    pub asked_levels: u64,
    /// Memory of the search.
    #[serde(deserialize_with = "text::size")]
    pub memory: ByteCount,
    /// A block of clusters.
    #[serde(deserialize_with = "text::size")]
    pub cluster_block_bytes: ByteCount,
    /// A block of the pool and of what is sorted.
    #[serde(deserialize_with = "text::size")]
    pub pool_block_bytes: ByteCount,
    /// Requests of a stream on their way beside its block at hand.
    pub in_flight: u32,
    /// What drives of flash, which are written full before, are scaled to; disks are whole.
    #[serde(deserialize_with = "text::size")]
    pub flash_capacity: ByteCount,
}

/// What lies where.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placement {
    /// The drives round which clusters lie.
    pub clusters: Vec<String>,
    /// The drives round which all else lies.
    pub pool: Vec<String>,
    /// Steps of the tour in a cluster: c.
    pub cluster_nodes: u64,
    /// Others, for the sweep.
    #[serde(default)]
    pub sweep: Vec<u64>,
}

/// The series of a placement at 0, with the unit of each.
const SERIES: [(&str, &str); 5] = [
    ("hours", "h"),
    ("cluster_hours", "h"),
    ("pool_hours", "h"),
    ("loads", "million"),
    ("best_cluster_nodes", "nodes"),
];
const SWEEP_SERIES: [&str; 2] = ["sweep_hours", "formula_hours"];

/// What a drive was measured to take.
#[derive(Clone, Copy, Debug)]
struct Rates {
    random_read_ns: f64,
    /// Of reads and writes in order, as many of each.
    bytes_per_second: f64,
}

/// What a search took, in nanoseconds of the whole graph.
#[derive(Clone, Copy, Debug, Default)]
struct Taken {
    cluster_ns: f64,
    pool_ns: f64,
    loads: f64,
}

/// Drives with clusters and a pool, and who asks them.
struct Site {
    ios: Vec<Io>,
    clusters: Files,
    pool: Files,
    asker: Asker,
    /// Entries that are sorted in memory.
    sorted_in_memory: u64,
    /// Nodes of a level that stay in memory.
    nodes_in_memory: u64,
}

/// Where a search has got to: its pool in entries, what a scan left and what clusters brought since, and
/// where the structures lie.
struct Progress {
    kept: u64,
    fresh: u64,
    kept_run: Layout,
    fresh_run: Layout,
    before: Layout,
    current: Layout,
}

impl Progress {
    fn new(pool: &Files) -> Self {
        let [kept_run, fresh_run, before, current] = [(); 4].map(|()| pool.empty());
        Self { kept: 0, fresh: 0, kept_run, fresh_run, before, current }
    }

    /// Entries of the pool after a level: what its scan leaves, and what its clusters bring.
    const fn after(&self, paths: Paths, level: u64, counts: LevelCounts) -> (u64, u64) {
        let found = paths.nodes_of(level) - counts.used_lists;
        let kept = self.kept + self.fresh - found * entries_of(paths, level);
        (kept, counts.loaded_entries - counts.used_lists * entries_of(paths, level))
    }
}

/// Entries of a node of a level.
const fn entries_of(paths: Paths, level: u64) -> u64 {
    match level {
        0 => paths.count,
        _ if level == paths.levels => 1,
        _ => 2,
    }
}

impl Site {
    /// Does what a search does at `level`; how long clusters and all else took.
    fn go_through(
        &mut self,
        (paths, level): (Paths, u64),
        progress: &mut Progress,
        counts: LevelCounts,
        clusters: &[Cluster],
    ) -> Result<(Nanos, Nanos), ExternalError> {
        let Self { ios, clusters: lists, pool, asker, .. } = self;
        let began = Asker::now(ios);
        let (kept, fresh) = progress.after(paths, level, counts);
        let blocks_of_level = |level: u64| match paths.nodes_of(level) {
            nodes if nodes > self.nodes_in_memory => pool.needed(nodes, NODE_BYTES),
            _ => 0,
        };
        let mut wanted = pool.empty();
        asker.flow(&mut [
            pool.scan(&progress.current),
            pool.write(&mut wanted, blocks_of_level(level)),
        ])?;
        let mut left = pool.empty();
        asker.flow(&mut [
            pool.scan(&wanted),
            pool.drain(&mut progress.kept_run),
            pool.drain(&mut progress.fresh_run),
            pool.write(&mut left, pool.needed(kept, HELD_BYTES)),
        ])?;
        (progress.kept, progress.kept_run) = (kept, left);
        drop(wanted);
        let scanned = Asker::now(ios);
        let picked = if asker.is_asking {
            blocks_of(clusters, lists.records(ENTRY_BYTES))
        } else {
            Vec::new()
        };
        let run_blocks = match counts.loaded_entries > self.sorted_in_memory {
            true => pool.needed(counts.loaded_entries, LOADED_BYTES),
            false => 0,
        };
        let mut runs = pool.empty();
        asker.flow(&mut [lists.pick(&picked), pool.write(&mut runs, run_blocks)])?;
        let loaded = Asker::now(ios);
        let mut brought = pool.empty();
        asker.flow(&mut [
            pool.drain(&mut runs),
            pool.scan(&progress.current),
            pool.write(&mut brought, pool.needed(fresh, HELD_BYTES)),
        ])?;
        (progress.fresh, progress.fresh_run) = (fresh, brought);
        let mut next = pool.empty();
        let next_blocks = if level < paths.levels { blocks_of_level(level + 1) } else { 0 };
        asker.flow(&mut [
            pool.scan(&progress.before),
            pool.scan(&progress.current),
            pool.write(&mut next, next_blocks),
        ])?;
        progress.before = std::mem::replace(&mut progress.current, next);
        let cluster_ns = loaded.saturating_sub(scanned);
        Ok((cluster_ns, Asker::now(ios).saturating_sub(began).saturating_sub(cluster_ns)))
    }

    /// Writes what is read before it is written: so many blocks of clusters, and the pool's files as far as
    /// structures ever lay in them.
    fn fill(&mut self, cluster_blocks: u64) -> Result<(), ExternalError> {
        let Self { clusters, pool, asker, .. } = self;
        let pool_blocks = asker.end_block;
        asker.is_asking = true;
        asker.flow(&mut [clusters.write(&mut clusters.empty(), cluster_blocks)])?;
        asker.flow(&mut [pool.write(&mut pool.empty(), pool_blocks)])
    }
}

/// The blocks in which clusters lie, of so many entries each, every one once.
fn blocks_of(clusters: &[Cluster], per_block: u64) -> Vec<u64> {
    let mut blocks = Vec::new();
    for cluster in clusters {
        let end = (cluster.first + u64::from(cluster.entries)).div_ceil(per_block);
        let first = cluster.first / per_block;
        let fresh = blocks.last().map_or(first, |&last: &u64| first.max(last + 1));
        blocks.extend(fresh..end);
    }
    blocks
}

impl BfsPlacement {
    fn series_of(name: &str) -> Vec<Series> {
        let at = SERIES.map(|(what, unit)| Series::new(format!("{name}.{what}"), "", unit));
        let over = SWEEP_SERIES
            .map(|what| Series::new(format!("{name}.{what}"), "nodes of a cluster", "h"));
        at.into_iter().chain(over).collect()
    }

    /// The graph that is asked for.
    const fn paths(&self, cluster_nodes: u64) -> Paths {
        Paths {
            count: self.node_count / self.levels / self.share,
            levels: self.levels,
            cluster_nodes,
        }
    }

    /// What the drives of a placement are, each once.
    fn names(placement: &Placement) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for name in placement.clusters.iter().chain(&placement.pool) {
            if !names.contains(&name.as_str()) {
                names.push(name);
            }
        }
        names
    }

    /// What a drive takes for a random read of a block of clusters, and for a scan.
    fn rates(&self, bench: &mut Bench<'_>, step: &str, name: &str) -> Result<Rates, LabError> {
        let variant = &self.drives[name];
        let profile = variant.profile(name).map_err(|error| LabError::step(step, &error))?;
        let is_filled = profile.needs_filling().map_err(|error| LabError::step(step, &error))?;
        let whole = profile.geometry.capacity();
        let capacity = if is_filled { self.flash_capacity.min(MEASURED_FLASH) } else { whole };
        let block = self.cluster_block_bytes.0;
        let scanned = self.pool_block_bytes.0;
        on_drive(bench, step, (name, variant), capacity, |subject| {
            if is_filled {
                subject.fill()?;
            }
            let few = Limit::requests(RANDOM_REQUESTS);
            let random = subject.pattern((Access::Random, 100), block, few);
            let random = subject.mb_per_s(&random)?;
            let limit = Limit::requests(SCANNED_BYTES / scanned);
            let mut seconds = 0.0;
            for read_percent in [100, 0] {
                let scan = subject.pattern((Access::Sequential, read_percent), scanned, limit);
                seconds += 1.0 / subject.mb_per_s(&scan)?;
            }
            let random_read_ns = block as f64 / random * 1e3;
            Ok(Rates { random_read_ns, bytes_per_second: 2e6 / seconds })
        })
    }

    /// What the drives that things are spread over take together: the slowest decides, for each has as much
    /// to do as the others.
    fn together(rates: &BTreeMap<&str, Rates>, names: &[String]) -> Rates {
        let count = names.len() as f64;
        let mean =
            names.iter().map(|name| rates[name.as_str()].random_read_ns).sum::<f64>() / count;
        let slowest = names.iter().map(|name| rates[name.as_str()].bytes_per_second);
        let slowest = slowest.fold(f64::INFINITY, f64::min);
        Rates { random_read_ns: mean / count, bytes_per_second: slowest * count }
    }

    /// The closed form, in hours: n / c random reads, and n c / 2 lists that are read and written.
    fn formula_hours(&self, clusters: Rates, pool: Rates, cluster_nodes: u64) -> f64 {
        let (nodes, steps) = (self.node_count as f64, cluster_nodes as f64);
        let scanned = nodes * steps.min(self.levels as f64) * LIST_BYTES as f64;
        hours(nodes / steps * clusters.random_read_ns + scanned / pool.bytes_per_second * 1e9)
    }

    fn check_placement(&self, name: &str, placement: &Placement) -> Result<(), String> {
        if placement.clusters.is_empty() || placement.pool.is_empty() {
            return Err(format!("placement `{name}` needs drives for `clusters` and for `pool`"));
        }
        let is_twice =
            |names: &[String]| (1..names.len()).any(|at| names[..at].contains(&names[at]));
        if is_twice(&placement.clusters) || is_twice(&placement.pool) {
            return Err(format!("placement `{name}` names a drive twice"));
        }
        let unknown =
            { Self::names(placement) }.into_iter().find(|drive| !self.drives.contains_key(*drive));
        if let Some(drive) = unknown {
            return Err(format!(
                "placement `{name}` has a drive `{drive}` that is none of `drives`"
            ));
        }
        for &size in placement.sweep.iter().chain([&placement.cluster_nodes]) {
            let is_alike = greatest_common_divisor(size, 2 * self.levels) > 1;
            if size == 0 || size > self.node_count || is_alike {
                return Err(format!(
                    "c of placement `{name}` is {size}, must be from 1 to the nodes, without a factor \
                     in common with twice the levels, {}",
                    2 * self.levels
                ));
            }
        }
        Ok(())
    }

    /// Levels that are asked for, and how many each stands for.
    fn asked(&self, rng: &mut Rng) -> Vec<(u64, f64)> {
        let others = self.levels - 1;
        let count = self.asked_levels.min(others);
        let mut asked = vec![(1, 1.0)];
        for number in 0..count {
            let (from, to) = (number * others / count, (number + 1) * others / count);
            asked.push((2 + from + rng.below(to - from), (to - from) as f64));
        }
        asked
    }

    /// Goes through all levels, asks drives at those of `asked`, each of which stands for so many, and looks
    /// whether to go on before each.
    fn search(
        &self,
        site: &mut Site,
        cluster_nodes: u64,
        asked: &[(u64, f64)],
        go_on: &mut dyn FnMut() -> Result<(), ExternalError>,
    ) -> Result<Taken, ExternalError> {
        let paths = self.paths(cluster_nodes);
        let weight = |level| asked.iter().find(|&&(other, _)| other == level);
        let (levels, clusters) = paths.counts(|level| weight(level).is_some());
        let mut taken = Taken::default();
        let mut progress = Progress::new(&site.pool);
        for (level, counts) in (0..).zip(&levels) {
            go_on()?;
            site.asker.is_asking = weight(level).is_some();
            let lists = &clusters[to_index(level)];
            let (cluster, pool) = site.go_through((paths, level), &mut progress, *counts, lists)?;
            let scale = weight(level).map_or(0.0, |&(_, weight)| weight * self.share as f64);
            taken.cluster_ns += cluster.0 as f64 * scale;
            taken.pool_ns += pool.0 as f64 * scale;
            taken.loads += counts.loads as f64 * self.share as f64;
        }
        Ok(taken)
    }

    /// Lays clusters and pool on drives, those of `clusters` and of `pool` among `ios`.
    fn site(
        &self,
        placement: &Placement,
        ios: Vec<Io>,
        (clusters, pool): (&[Io], &[Io]),
    ) -> Result<Site, ExternalError> {
        let clusters = Files::new(clusters, "clusters", self.cluster_block_bytes.0)?;
        let pool = Files::new(pool, "pool", self.pool_block_bytes.0)?;
        let asker = Asker::new(to_index(u64::from(self.in_flight)));
        let sorted_in_memory = self.memory.0 / self.share / 8 * LOADED_PARTS / SORTED_BYTES;
        let nodes_in_memory = self.pool_block_bytes.0 / self.share / KEPT_NODE_BYTES;
        let mut site = Site { ios, clusters, pool, asker, sorted_in_memory, nodes_in_memory };
        // Without asking, to see how far structures will lie.
        for &cluster_nodes in placement.sweep.iter().chain([&placement.cluster_nodes]) {
            self.search(&mut site, cluster_nodes, &[], &mut || Ok(()))?;
        }
        let entries = self.paths(placement.cluster_nodes).entry_count();
        site.fill(site.clusters.needed(entries, ENTRY_BYTES))?;
        Ok(site)
    }

    /// All of a placement: what it took with its c, then with those of its sweep.
    fn measure(
        &self,
        (name, placement): (&str, &Placement),
        bench: &mut Bench<'_>,
    ) -> Result<Vec<(u64, Taken)>, LabError> {
        let names = Self::names(placement);
        let drives: Vec<_> = names.iter().map(|&drive| (drive, &self.drives[drive])).collect();
        let scale = Scale { flash: self.flash_capacity, disk: None, keeps_data: false };
        let ios = volumes_of(bench, name, &drives, scale)?;
        let those = |wanted: &[String]| -> Vec<Io> {
            let place = |name: &String| names.iter().position(|other| other == name);
            wanted.iter().filter_map(place).map(|index| ios[index].clone()).collect()
        };
        let (clusters, pool) = (those(&placement.clusters), those(&placement.pool));
        let mut site = outcome_of(name, self.site(placement, ios, (&clusters, &pool)))?;
        let mut rng = Rng::for_part(bench.seed, "levels that are asked for");
        let sizes = [placement.cluster_nodes].into_iter().chain(placement.sweep.iter().copied());
        let mut taken = Vec::new();
        for size in sizes {
            let asked = self.asked(&mut rng);
            let mut go_on = || match bench.observer.is_cancelled() {
                true => Err(ExternalError::Cancelled),
                false => Ok(()),
            };
            let found = self.search(&mut site, size, &asked, &mut go_on);
            taken.push((size, outcome_of(name, found)?));
        }
        Ok(taken)
    }
}

/// The nearest whole number, of a time or a rate.
#[allow(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "neither is negative, and a cast ends at the ends of the range"
)]
fn whole(value: f64) -> u64 {
    value.round() as u64
}

fn hours(time_ns: f64) -> f64 {
    time_ns / 3.6e12
}

impl Measurement for BfsPlacement {
    fn check(&self) -> Result<(), String> {
        if self.drives.is_empty() || self.placements.is_empty() {
            return Err("name at least one drive and one placement".into());
        }
        let counts = [self.levels, self.share, self.asked_levels, u64::from(self.in_flight)];
        if counts.contains(&0) || self.levels < 2 || self.in_flight > 64 {
            return Err("`levels` must be 2 at least, `share` and `asked_levels` 1, `in_flight` \
                        from 1 to 64"
                .into());
        }
        let most = 1 << 40;
        if self.node_count > most || self.node_count / self.levels / self.share < 64 {
            return Err("`node_count` must be 2^40 at most and leave 64 paths to ask for".into());
        }
        if self.node_count / self.share > ASKED_NODES {
            return Err(format!("`share` must leave {ASKED_NODES} nodes at most to ask for"));
        }
        for size in [self.cluster_block_bytes, self.pool_block_bytes] {
            if !is_block(&size) {
                return Err("blocks must be of a power of two, from 512 to 16 MiB".into());
            }
        }
        if self.memory.0 < LEAST_BLOCKS * self.pool_block_bytes.0 {
            return Err(format!("`memory` must have {LEAST_BLOCKS} blocks of the pool at least"));
        }
        for (name, variant) in &self.drives {
            let whole = variant.profile(name)?.geometry.capacity();
            if self.flash_capacity < ByteCount::mib(16) || self.flash_capacity > whole {
                let capacity = self.flash_capacity;
                return Err(format!(
                    "`flash_capacity` is {capacity}; `{name}` has 16 MiB to {whole}"
                ));
            }
        }
        self.placements
            .iter()
            .try_for_each(|(name, placement)| self.check_placement(name, placement))
    }

    fn targets(&self) -> Vec<String> {
        targets(&self.drives)
    }

    fn series_names(&self) -> Vec<String> {
        let names = self.placements.keys().flat_map(|name| Self::series_of(name));
        names.map(|series| series.name).collect()
    }

    fn steps(&self) -> Vec<String> {
        self.placements.keys().cloned().collect()
    }

    fn run_step(&self, index: usize, bench: &mut Bench<'_>) -> Result<Vec<Series>, LabError> {
        let (name, placement) = self.placements.iter().nth(index).expect("a step is a placement");
        let mut rates = BTreeMap::new();
        for drive in Self::names(placement) {
            rates.insert(drive, self.rates(bench, name, drive)?);
        }
        let clusters = Self::together(&rates, &placement.clusters);
        let pool = Self::together(&rates, &placement.pool);
        let mut taken = self.measure((name, placement), bench)?;
        let mut series = Self::series_of(name);
        let random_read = Nanos(whole(clusters.random_read_ns));
        let best = best_cluster_nodes(random_read, whole(pool.bytes_per_second), LIST_BYTES);
        let (_, own) = taken[0];
        let values = [
            hours(own.cluster_ns + own.pool_ns),
            hours(own.cluster_ns),
            hours(own.pool_ns),
            own.loads / 1e6,
            best as f64,
        ];
        for (series, value) in series.iter_mut().zip(values) {
            series.points.push((0.0, value));
        }
        taken.sort_by_key(|&(size, _)| size);
        taken.dedup_by_key(|&mut (size, _)| size);
        for (size, taken) in taken {
            let formula = self.formula_hours(clusters, pool, size);
            let values = [hours(taken.cluster_ns + taken.pool_ns), formula];
            for (series, value) in series[SERIES.len()..].iter_mut().zip(values) {
                series.points.push((size as f64, value));
            }
        }
        Ok(series)
    }
}

#[cfg(test)]
mod tests;
