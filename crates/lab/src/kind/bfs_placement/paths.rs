//! What a search by clusters (Mehlhorn and Meyer, ESA 2002) has to do at each level of a graph of
//! figure 4.1 of S002, counted without searching it.
//!
//! ```text
//!   tour   0 | 1 2 … l | l … 2 1 0 | 1 2 … l | …        steps of an Euler tour: a path forth and back
//!   c      [ cluster 0 ][ cluster 1 ][ cluster 2 ] …    lists of the steps forth: each node once
//! ```
//!
//! Nodes of a level are reached together, so a cluster is read at the least level of its nodes, and each
//! of its lists waits in the pool until its own level.
//!
//! 1. A node has a list, of two entries, one at the end of a path, and one for each path at the source.
//! 2. Clusters lie in the order of the tour.

use nandu_base::{to_index, to_u32};

/// A graph of figure 4.1, and how its tour is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Paths {
    /// Paths from the source.
    pub(super) count: u64,
    /// Nodes of a path beside the source.
    pub(super) levels: u64,
    /// Steps of the tour in a cluster.
    pub(super) cluster_nodes: u64,
}

/// What the search does at a level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelCounts {
    /// Clusters that are read.
    pub(super) loads: u64,
    /// Lists in them, and entries of these.
    pub(super) loaded_lists: u64,
    pub(super) loaded_entries: u64,
    /// Nodes of this level whose lists are among them.
    pub(super) used_lists: u64,
}

/// A cluster: when it is read, and where its entries lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cluster {
    /// The least level of its nodes.
    pub(super) level: u64,
    /// The first of its entries, and how many there are.
    pub(super) first: u64,
    pub(super) entries: u32,
}

impl Paths {
    /// The source and the nodes of all paths.
    pub(super) const fn node_count(self) -> u64 {
        1 + self.count * self.levels
    }

    /// Entries of all lists: each edge has two ends.
    pub(super) const fn entry_count(self) -> u64 {
        2 * self.count * self.levels
    }

    /// Goes through all clusters in the order in which they lie, each with its counts.
    fn walk(self, mut each: impl FnMut(Cluster, LevelCounts)) {
        let Self { count, levels, cluster_nodes } = self;
        let tour = 2 * self.node_count() - 1;
        let mut first = 0;
        let mut begin = 0;
        while begin < tour {
            let end = (begin + cluster_nodes).min(tour);
            let mut counts = LevelCounts { loads: 1, ..LevelCounts::default() };
            let mut least = u64::MAX;
            let mut note = |level: u64, lists: u64, entries: u64| {
                if level < least {
                    (least, counts.used_lists) = (level, 0);
                }
                counts.used_lists += u64::from(level == least);
                counts.loaded_lists += lists;
                counts.loaded_entries += entries;
            };
            let mut step = begin;
            if step == 0 {
                note(0, 1, count);
                step = 1;
            }
            while step < end {
                let place = (step - 1) % (2 * levels);
                let next = end.min(step + 2 * levels - place);
                if place < levels {
                    let past = levels.min(place + next - step);
                    note(place + 1, past - place, 2 * (past - place) - u64::from(past == levels));
                }
                step = next;
            }
            if counts.loaded_lists > 0 {
                let entries = to_u32(counts.loaded_entries);
                each(Cluster { level: least, first, entries }, counts);
                first += counts.loaded_entries;
            }
            begin = end;
        }
    }

    /// What is done at each level from the source's, and where the clusters lie that are read at those
    /// that are `wanted`.
    pub(super) fn counts(
        self,
        wanted: impl Fn(u64) -> bool,
    ) -> (Vec<LevelCounts>, Vec<Vec<Cluster>>) {
        let mut levels = vec![LevelCounts::default(); to_index(self.levels + 1)];
        let mut clusters = vec![Vec::new(); to_index(self.levels + 1)];
        self.walk(|cluster, counts| {
            let level = &mut levels[to_index(cluster.level)];
            level.loads += counts.loads;
            level.loaded_lists += counts.loaded_lists;
            level.loaded_entries += counts.loaded_entries;
            level.used_lists += counts.used_lists;
            if wanted(cluster.level) {
                clusters[to_index(cluster.level)].push(cluster);
            }
        });
        (levels, clusters)
    }

    /// Nodes of a level.
    pub(super) const fn nodes_of(self, level: u64) -> u64 {
        if level == 0 { 1 } else { self.count }
    }
}
