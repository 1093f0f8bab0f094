//! What clustering by a tour moves, beside a model that knows its rules and no block. The graphs are
//! connected.
//!
//! 1. A sort counts its runs and merges as the table in `sort` says, a priority queue its heap and
//!    its groups of runs as its head does; both apart from the code that does it.
//! 2. The sweep is played over sets in memory, by the same labels.

use super::*;
use crate::graph::GraphClass;
use crate::testing::{memory_io, store};
use crate::{PriorityQueue, Record, Settings};
use nandu_base::{Permutation, Rng, to_index};
use std::collections::{BTreeSet, VecDeque};

const BLOCK_BYTES: u64 = 512;

/// Blocks that were read and written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Moved {
    read: u64,
    written: u64,
}

/// The graph and the memory.
struct Model {
    moved: Moved,
    nodes: u64,
    /// Edges, each counted once.
    edges: u64,
    clusters: u64,
    in_flight: u64,
    /// Beside three streams.
    room: u64,
}

fn blocks<R: Record>(count: u64) -> u64 {
    count.div_ceil((BLOCK_BYTES - 8) / R::BYTES as u64)
}

impl Model {
    fn scan<R: Record>(&mut self, count: u64) {
        self.moved.read += blocks::<R>(count);
    }

    fn write<R: Record>(&mut self, count: u64) {
        self.moved.written += blocks::<R>(count);
    }

    fn scan_graph(&mut self) {
        self.scan::<(u64, u64)>(self.nodes);
        self.scan::<u64>(2 * self.edges);
    }

    fn sort<R: Record>(&mut self, count: u64, bytes: u64) {
        let all = bytes / BLOCK_BYTES;
        let ahead = self.in_flight.min(all / 5);
        // From 64 blocks on there are three pieces, and eight blocks by which threads merge.
        let (pieces, merging) = if all < 64 { (1, 0) } else { (3, 8) };
        let run = (bytes - (1 + ahead) * BLOCK_BYTES) / size_of::<R>() as u64 / pieces;
        if count <= pieces * run {
            return;
        }
        let mut runs = vec![run; to_index(count / run)];
        runs.extend(Some(count % run).filter(|&rest| rest > 0));
        let mut moved: u64 = runs.iter().map(|&run| blocks::<R>(run)).sum();
        let last = all - ahead - merging;
        let between = last - 1 - ahead;
        while runs.len() as u64 > last {
            let excess = (runs.len() as u64 - last) % (between - 1);
            let merged = if excess == 0 { between } else { excess + 1 };
            runs.sort_unstable();
            let run = runs.drain(..to_index(merged)).sum();
            moved += blocks::<R>(run);
            runs.push(run);
        }
        self.moved.read += moved;
        self.moved.written += moved;
    }

    /// With the words of all nodes in memory: the graph is read for the tree and for the entries,
    /// the nodes once more for how long clusters are.
    fn in_memory(&mut self) {
        self.scan_graph();
        self.scan::<(u64, u64)>(self.nodes);
        self.scan_graph();
        let tables = 4 * self.nodes + 8 * (self.clusters + 1);
        self.sort::<(u32, u32, u32)>(2 * self.edges, self.room - tables);
        self.write::<Span>(self.nodes);
        self.write::<Entry>(2 * self.edges);
    }

    /// Beyond memory, behind the tree edges.
    fn by_sorts(&mut self) {
        let (nodes, arcs, half) = (self.nodes, 2 * (self.nodes - 1), self.room / 2);
        // The tour as a list.
        self.scan::<(u64, u64)>(nodes - 1);
        self.sort::<(u64, u64)>(arcs, half);
        self.write::<(u64, u64)>(arcs);
        self.sort::<((u64, u64), u64)>(arcs, half);
        self.write::<u64>(arcs);
        // Ranks by a walk in memory; cut by position, then by node.
        self.scan::<u64>(arcs);
        self.write::<u64>(arcs);
        self.scan::<(u64, u64)>(arcs);
        self.scan::<u64>(arcs);
        self.sort::<(u64, u64, u8)>(nodes, half);
        self.sort::<(u64, u64)>(nodes, half);
        self.write::<u64>(nodes);
        // Spans of clusters, by way of their members.
        self.scan::<u64>(nodes);
        self.scan::<(u64, u64)>(nodes);
        self.sort::<(u64, u64, u64)>(nodes, half);
        self.write::<(u64, u64)>(nodes);
        self.write::<Span>(self.clusters);
        self.scan::<(u64, u64)>(nodes);
        self.scan::<Span>(self.clusters);
        self.sort::<(u64, Span)>(nodes, half);
        self.write::<Span>(nodes);
        // Entries by neighbour, then by place.
        self.scan_graph();
        self.scan::<Span>(nodes);
        self.sort::<Entry>(2 * self.edges, half);
        self.scan::<Span>(nodes);
        self.sort::<(u64, Entry)>(2 * self.edges, half);
        self.write::<Entry>(2 * self.edges);
    }
}

/// An edge that waits: the greater label turned round, the lesser one, and the edge.
type Waiting = (u64, u64, (u64, u64));

/// The sequence heap, which writes nothing and counts blocks.
struct ModelQueue {
    heap: BTreeSet<Waiting>,
    runs: Vec<(usize, VecDeque<Waiting>)>,
    heap_limit: usize,
    fan_in: usize,
    written: u64,
}

impl ModelQueue {
    fn push(&mut self, edge: Waiting) {
        if self.heap.len() == self.heap_limit {
            for group in [1, 0] {
                if (0..=group).all(|group| self.group_len(group) == self.fan_in) {
                    let is_of = |run: &(usize, VecDeque<Waiting>)| run.0 == group;
                    let merged: BTreeSet<Waiting> =
                        self.runs.extract_if(.., |run| is_of(run)).flat_map(|run| run.1).collect();
                    self.add_run(1, merged);
                }
            }
            let heap = std::mem::take(&mut self.heap);
            self.add_run(0, heap);
        }
        assert!(self.heap.insert(edge), "an edge waits once");
    }

    fn group_len(&self, group: usize) -> usize {
        self.runs.iter().filter(|run| run.0 == group).count()
    }

    fn add_run(&mut self, group: usize, edges: BTreeSet<Waiting>) {
        self.written += blocks::<(u32, u32, (u32, u32))>(edges.len() as u64);
        self.runs.push((group, edges.into_iter().collect()));
    }

    /// The first that waits, if it waits for `high`.
    fn pop_of(&mut self, high: u64) -> Option<Waiting> {
        let in_runs = self.runs.iter().filter_map(|run| run.1.front()).min().copied();
        let in_heap = self.heap.first().copied();
        let least = in_runs.into_iter().chain(in_heap).min()?;
        if least.0 != u64::MAX - high {
            return None;
        }
        if in_heap == Some(least) {
            return self.heap.pop_first();
        }
        let run = self.runs.iter_mut().find(|run| run.1.front() == Some(&least));
        run.expect("it is the first of one").1.pop_front();
        self.runs.retain(|run| !run.1.is_empty());
        Some(least)
    }
}

/// Blocks that the queue of a sweep writes, and reads again, where `limit` labels are in memory.
fn swept_blocks(
    edges: &[(u64, u64)],
    nodes: u64,
    limit: u64,
    seed: u64,
    limits: [usize; 2],
) -> u64 {
    let labels = Permutation::new(nodes, Rng::for_part(seed, "sweep").next_u64());
    let [heap_limit, fan_in] = limits;
    let (heap, runs) = (BTreeSet::new(), Vec::new());
    let mut queue = ModelQueue { heap, runs, heap_limit, fan_in, written: 0 };
    let wait = |queue: &mut ModelQueue, left: u64, right: u64, edge| {
        if left.max(right) >= limit {
            queue.push((u64::MAX - left.max(right), left.min(right), edge));
        }
    };
    for &(left, right) in edges {
        wait(&mut queue, labels.apply(left), labels.apply(right), (left, right));
    }
    for label in (limit..nodes).rev() {
        let Some((_, target, _)) = queue.pop_of(label) else { continue };
        let mut last = target;
        while let Some((_, other, edge)) = queue.pop_of(label) {
            if other != last {
                wait(&mut queue, other, target, edge);
                last = other;
            }
        }
    }
    assert!(queue.heap.is_empty() && queue.runs.is_empty());
    queue.written
}

/// Clusters a graph; what it moved, and what the model says.
fn moved_and_expected(
    class: GraphClass,
    (in_flight, bytes, node_bytes): (u32, u64, u64),
) -> (Moved, Moved) {
    let io = memory_io(16 << 20);
    let settings = Settings { block_bytes: 512, in_flight };
    let store = Store::new(&[io], settings, crate::Grant::new(1 << 20)).unwrap();
    let graph = Graph::build(&store, class.node_count(), class.shuffled_edges(3), 200_000).unwrap();
    let mut edges = Vec::new();
    {
        let mut pairs = graph.pairs().unwrap();
        while let Some((left, right)) = pairs.next_record().unwrap() {
            edges.extend(Some((left, right)).filter(|_| left < right));
        }
    }
    let before = store.counts();
    let settings = ClusteringSettings {
        cluster_nodes: Some(10),
        node_bytes,
        seed: 5,
        ..ClusteringSettings::default()
    };
    let clustering = Clustering::build(&graph, 0, (&store, &store), bytes, settings).unwrap();
    let counts = store.counts().since(&before);
    let (nodes, in_flight) = (class.node_count(), u64::from(in_flight));
    let room = bytes - 3 * (in_flight + 1) * BLOCK_BYTES;
    let (moved, clusters) = (Moved::default(), clustering.cluster_count());
    let edge_count = edges.len() as u64;
    let mut model = Model { moved, nodes, edges: edge_count, clusters, in_flight, room };
    if 20 * nodes <= room.min(node_bytes) {
        model.in_memory();
    } else {
        model.scan_graph();
        let words = |bytes: u64| bytes.min(node_bytes) / 4;
        if words(2 * (room / 2)) < nodes {
            let queue: PriorityQueue<(u32, u32, (u32, u32)), _> =
                PriorityQueue::with_bytes(&store, Natural, room / 2).unwrap();
            let limit = words(room / 2).min(nodes);
            let swept = swept_blocks(&edges, nodes, limit, 5, queue.limits());
            assert!(swept > 0, "edges wait beyond memory");
            model.moved.read += swept;
            model.moved.written += swept;
        }
        model.write::<(u64, u64)>(nodes - 1);
        model.by_sorts();
    }
    let found = Moved { read: counts.read_blocks, written: counts.write_blocks };
    (found, model.moved)
}

#[test]
fn clustering_moves_what_its_rules_say() {
    let classes = [
        GraphClass::Grid { width: 40, height: 40 },
        GraphClass::Line { nodes: 1600 },
        GraphClass::Paths { paths: 40, levels: 40 },
    ];
    for class in classes {
        for in_flight in [0, 2] {
            for memory in [
                // All words in memory; a word a node; some; none.
                (in_flight, 60_000, u64::MAX),
                (in_flight, 140_000, u64::MAX),
                (in_flight, 30_000, u64::MAX),
                (in_flight, 60_000, 7000),
                (in_flight, 24_000, 1000),
                (in_flight, 30_000, 0),
            ] {
                let (found, expected) = moved_and_expected(class, memory);
                assert_eq!(found, expected, "{class:?} {memory:?}");
            }
        }
    }
}

#[test]
fn words_in_memory_spare_more_than_half_of_what_is_moved() {
    let class = GraphClass::Grid { width: 40, height: 40 };
    let moved = |node_bytes| {
        let (found, _) = moved_and_expected(class, (2, 60_000, node_bytes));
        found.read + found.written
    };
    let (in_memory, by_words, swept) = (moved(u64::MAX), moved(7000), moved(0));
    assert!(2 * in_memory < by_words && by_words < swept, "{in_memory} {by_words} {swept}");
}

#[test]
fn a_tour_in_memory_cuts_the_same_clusters_as_sorts_of_the_same_tree() {
    for class in [
        GraphClass::Grid { width: 13, height: 9 },
        GraphClass::Random { nodes: 300, edges: 280 },
        GraphClass::Paths { paths: 9, levels: 9 },
    ] {
        let store = store(512, 1, 1);
        let nodes = class.node_count();
        let graph = Graph::build(&store, nodes, class.shuffled_edges(8), 100_000).unwrap();
        for kind in ClusteringKind::ALL {
            for cluster_nodes in [1, 5, 1000] {
                let entries = |node_bytes| {
                    let cluster_nodes = Some(cluster_nodes);
                    let settings = ClusteringSettings { kind, cluster_nodes, node_bytes, seed: 2 };
                    let stores = (&store, &store);
                    let clustering =
                        Clustering::build(&graph, 3, stores, 100_000, settings).unwrap();
                    let mut scanner = clustering.entries.scanner().unwrap();
                    let entries: Vec<Entry> =
                        std::iter::from_fn(|| scanner.next_record().unwrap()).collect();
                    let spans: Vec<Span> =
                        (0..nodes).map(|node| clustering.span_of(node).unwrap()).collect();
                    (entries, spans, clustering.cluster_count())
                };
                // All words, and a word a node: the tree is the same one.
                assert_eq!(entries(u64::MAX), entries(4 * nodes), "{class:?} {cluster_nodes}");
            }
        }
    }
}
