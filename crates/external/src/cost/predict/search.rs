//! What breadth-first search of Munagala and Ranade asks for: the graph is built, then level after
//! level is read, sorted and told from the two before it.
//!
//! Levels are not known before they are searched, so they are assumed:
//!
//! | levels | nodes of them |
//! | --- | --- |
//! | of a random graph | a node is not reached up to the next level with probability e^(-d r), where r are reached and d is the mean degree (Bollobás, *Random Graphs*, 2001, chapter 10) |
//! | so many | as many in each |
//!
//! 1. The nodes of a level lie anywhere among all; where they lie side by side, as those of a grid that
//!    was not shuffled do, less is read.
//! 2. No edge was given twice: what is given twice is sorted with the others, and is not written.

use super::flow::{Pen, Writing, rounded};
use super::sorting::Sort;
use crate::cost::{Requests, Work};
use crate::graph::{building_sort_bytes, searching_sort_bytes};
use crate::{ExternalError, Store};
use nandu_base::Rng;

/// A graph of more levels than so many is not assumed for being random.
const RANDOM_LEVEL_COUNT_MAX: u64 = 1 << 20;

/// What is assumed of the levels of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AssumedLevels {
    /// Those of a random graph with so many nodes and edges.
    Random,
    /// So many, each of as many nodes; no more than there are nodes, and one at least.
    Even(u64),
}

/// Nodes of a level, and their neighbours, each as often as it is one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Level {
    pub(super) nodes: f64,
    pub(super) neighbours: f64,
}

/// The levels of a graph, the source's first.
#[derive(Clone, Debug)]
pub(super) struct Levels {
    assumed: AssumedLevels,
    nodes: f64,
    /// Twice the edges over the nodes.
    degree: f64,
    next: u64,
    /// Of all nodes, those that the last level left, and the one before it.
    left: f64,
    left_before: f64,
}

impl Levels {
    pub(super) fn new(assumed: AssumedLevels, (node_count, edge_count): (u64, u64)) -> Self {
        let nodes = node_count.max(1) as f64;
        let degree = 2.0 * edge_count as f64 / nodes;
        Self { assumed, nodes, degree, next: 0, left: 1.0, left_before: 1.0 }
    }

    fn random(&mut self) -> Option<Level> {
        if self.next > RANDOM_LEVEL_COUNT_MAX {
            return None;
        }
        let left = match self.next {
            1 => 1.0 - 1.0 / self.nodes,
            // The source is reached, whoever its neighbours are.
            _ => (1.0 - 1.0 / self.nodes) * (-self.degree * (1.0 - self.left)).exp(),
        };
        let nodes = self.nodes * (self.left - left);
        // Who is left has neighbours among those who were left before only.
        let neighbours = self.degree * (self.left_before * self.left - self.left * left);
        let neighbours = if self.next == 1 { self.degree } else { self.nodes * neighbours };
        (self.left_before, self.left) = (self.left, left);
        (self.next == 1 || nodes >= 0.5).then_some(Level { nodes, neighbours })
    }
}

impl Iterator for Levels {
    type Item = Level;

    fn next(&mut self) -> Option<Level> {
        self.next += 1;
        match self.assumed {
            AssumedLevels::Random => self.random(),
            AssumedLevels::Even(count) => {
                let count = count.clamp(1, rounded(self.nodes));
                let nodes = self.nodes / count as f64;
                let neighbours = nodes * self.degree;
                (self.next <= count).then_some(Level { nodes, neighbours })
            }
        }
    }
}

impl AssumedLevels {
    /// How many levels a graph of so many nodes and edges is assumed to have.
    #[must_use]
    pub fn level_count(self, node_count: u64, edge_count: u64) -> u64 {
        match self {
            Self::Even(count) => count.clamp(1, node_count.max(1)),
            Self::Random => Levels::new(self, (node_count, edge_count)).count() as u64,
        }
    }
}

/// Edges come from elsewhere and become a graph, within `bytes` of memory, on a store that has it and
/// sorts.
///
/// # Errors
/// If memory is too little, or the store is to stop.
pub fn build_graph(
    store: &Store,
    (node_count, edge_count): (u64, u64),
    bytes: u64,
    rng: &mut Rng,
    requests: &mut dyn Requests,
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let count = edge_count.saturating_mul(2);
    let sort_bytes = building_sort_bytes(store, bytes);
    let (sort, runs) = Sort::begin::<(u64, u64)>(&mut pen, count, sort_bytes)?;
    pen.flow(&mut [], vec![runs], rng)?;
    pen.end_phase(Work { read_bytes: count.saturating_mul(8), ..sort.put_in() });
    let (sorted, merging) = sort.finish(&mut pen, rng)?;
    let nodes = pen.vector::<(u64, u64)>(node_count)?;
    let edges = pen.vector::<u64>(count)?;
    pen.flow(&mut [sorted], vec![nodes, edges], rng)?;
    pen.end_phase(merging);
    Ok(())
}

/// A graph is searched within `bytes` of memory, on a store that has it and sorts.
///
/// # Errors
/// If memory is too little, or the store is to stop.
pub fn search(
    store: &Store,
    (node_count, edge_count): (u64, u64),
    assumed: AssumedLevels,
    bytes: u64,
    (rng, requests): (&mut Rng, &mut dyn Requests),
) -> Result<(), ExternalError> {
    let mut pen = Pen::new(store, requests);
    let arrays = Arrays::new(&mut pen, (node_count, edge_count))?;
    let sort_bytes = searching_sort_bytes((store, store), bytes);
    let in_memory = store.block_bytes() / 8;
    let mut levels = Levels::new(assumed, (node_count, edge_count)).peekable();
    // The level before, and the one at hand, where they are written.
    let (mut before, mut current): (Option<Writing>, Option<Writing>) = (None, None);
    while let Some(level) = levels.next() {
        let mut readings: Vec<_> = current.into_iter().map(Writing::read).collect();
        let (nodes, edges) = arrays.touched(level.nodes);
        // What one of them looks ahead is in flight with what the other does.
        let at_once = 2 * (store.settings().in_flight.saturating_add(1).min(u32::MAX / 2));
        readings.extend([
            arrays.nodes.read_some(nodes, at_once),
            arrays.edges.read_some(edges, at_once),
        ]);
        let neighbours = rounded(level.neighbours);
        let (sort, runs) = Sort::begin::<u64>(&mut pen, neighbours, sort_bytes)?;
        pen.flow(&mut readings, vec![runs], rng)?;
        pen.end_phase(sort.put_in().and(Work::looked_up(rounded(level.nodes), neighbours)));
        let (sorted, merging) = sort.finish(&mut pen, rng)?;
        let known = before.into_iter().chain(current).map(Writing::read);
        let mut readings: Vec<_> = known.chain([sorted]).collect();
        let next_count = levels.peek().map_or(0, |next| rounded(next.nodes));
        let next = match next_count > in_memory {
            true => Some(pen.vector::<u64>(next_count)?),
            false => None,
        };
        pen.flow(&mut readings, next.into_iter().collect(), rng)?;
        pen.end_phase(merging.and(Work::told(neighbours)));
        (before, current) = (current, next);
    }
    Ok(())
}

/// Where a graph lies.
pub(super) struct Arrays {
    pub(super) nodes: Writing,
    pub(super) edges: Writing,
    node_count: f64,
    /// Nodes and neighbours of a block, and neighbours of a node.
    nodes_per_block: f64,
    edges_per_block: f64,
    degree: f64,
}

impl Arrays {
    pub(super) fn new(
        pen: &mut Pen<'_>,
        (nodes, edges): (u64, u64),
    ) -> Result<Self, ExternalError> {
        let per_block = pen.store().per_block::<u64>()? as f64;
        Ok(Self {
            nodes: pen.vector::<(u64, u64)>(nodes)?,
            edges: pen.vector::<u64>(edges.saturating_mul(2))?,
            node_count: nodes.max(1) as f64,
            nodes_per_block: pen.store().per_block::<(u64, u64)>()? as f64,
            edges_per_block: per_block,
            degree: 2.0 * edges as f64 / nodes.max(1) as f64,
        })
    }

    /// Blocks of both arrays in which so many nodes and their neighbours lie, about.
    fn touched(&self, nodes: f64) -> (f64, f64) {
        let part = (nodes / self.node_count).min(1.0);
        let touched = |row: &Writing, lists: f64| touched(row.block_count(), part, lists);
        // A list that is cut by the end of a block lies in two.
        let lists = self.edges_per_block / self.degree.max(1e-9) + 1.0;
        (touched(&self.nodes, self.nodes_per_block), touched(&self.edges, lists))
    }
}

/// Of so many blocks with so many pieces each, in which some are touched of which each piece is wanted
/// with that probability; one at least.
pub(super) fn touched(blocks: u64, probability: f64, pieces: f64) -> f64 {
    let blocks = blocks as f64;
    (blocks * (1.0 - (1.0 - probability).powf(pieces))).max(blocks.min(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Access;
    use crate::testing::store_with;

    #[test]
    fn a_random_graph_has_levels_that_reach_its_largest_part() {
        // Of mean degree 8 all but e^-8 are reached, of mean degree 2 four of five.
        for (edges, reached) in [(4_000_000, 0.9996), (1_000_000, 0.7968), (100_000, 0.0)] {
            let levels: Vec<Level> =
                Levels::new(AssumedLevels::Random, (1_000_000, edges)).collect();
            let nodes: f64 = levels.iter().map(|level| level.nodes).sum();
            assert!((nodes / 1e6 - reached).abs() < 0.001, "{edges}: {nodes}");
            let neighbours: f64 = levels.iter().map(|level| level.neighbours).sum();
            // Who is not reached has no edge to one who is.
            let expected = 2.0 * edges as f64 * (1.0 - (1.0 - reached) * (1.0 - reached));
            if reached > 0.0 {
                assert!((neighbours / expected - 1.0).abs() < 0.01, "{edges}: {neighbours}");
            }
        }
        assert_eq!(AssumedLevels::Random.level_count(1_000_000, 4_000_000), 11);
        assert_eq!(AssumedLevels::Random.level_count(1, 0), 1);
    }

    /// What all phases say of lists and levels.
    #[derive(Default)]
    struct Lists(Work);

    impl Requests for Lists {
        fn note(&mut self, _: &Access) {}

        fn end_phase(&mut self, work: Work) {
            assert!(work.told_count == 0 || work.list_count == 0, "first looked up, then told");
            self.0 = self.0.and(work);
        }
    }

    #[test]
    fn each_node_is_looked_up_once_and_each_neighbour_is_told() {
        let store = store_with(4096, 1, 1, 1 << 20);
        let mut lists = Lists::default();
        let of_graph = (10_000, 40_000);
        let even = AssumedLevels::Even(8);
        search(&store, of_graph, even, 1 << 20, (&mut Rng::new(1), &mut lists)).unwrap();
        let Lists(work) = lists;
        assert_eq!((work.list_count, work.neighbour_count), (10_000, 80_000));
        assert_eq!((work.told_count, work.put_in_count), (80_000, 80_000));
    }

    #[test]
    fn levels_that_are_said_share_the_nodes() {
        let levels: Vec<Level> = Levels::new(AssumedLevels::Even(8), (1000, 2000)).collect();
        assert_eq!(levels.len(), 8);
        assert!(levels.iter().all(|level| level.nodes == 125.0 && level.neighbours == 500.0));
        assert_eq!(AssumedLevels::Even(0).level_count(10, 3), 1);
        assert_eq!(AssumedLevels::Even(20).level_count(10, 3), 10);
    }
}
