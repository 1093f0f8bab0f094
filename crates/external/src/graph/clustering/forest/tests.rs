//! Spanning forests beside a union-find over all edges.

use super::*;
use crate::graph::tests::{Plain, classes};
use crate::graph::{ClusteringKind, ClusteringSettings, Graph, GraphClass};
use crate::testing::{GRANT_BYTES, store};
use nandu_base::Rng;
use proptest::prelude::*;

fn collect<R: crate::Record>(vector: &Vector<R>) -> Vec<R> {
    let mut scanner = vector.scanner().unwrap();
    std::iter::from_fn(|| scanner.next_record().unwrap()).collect()
}

/// Who stands for a node; ways are not shortened.
fn find(parents: &[usize], mut node: usize) -> usize {
    while parents[node] != node {
        node = parents[node];
    }
    node
}

fn work_of(graph: &Graph, source: u64, bytes: u64, (node_bytes, seed): (u64, u64)) -> Work<'_> {
    let kind = ClusteringKind::Tour;
    let settings = ClusteringSettings { kind, cluster_nodes: Some(1), node_bytes, seed };
    let store = graph.store();
    Work::new(graph, source, (store, store), bytes, settings).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn a_forest_spans_each_part_and_has_no_circle(
        class in classes(), is_shuffled: bool, node_bytes in prop_oneof![
            Just(0), 0_u64..3000, Just(u64::MAX)
        ], more in 0_u64..8192, seed: u64,
    ) {
        let store = store(512, 1, 1);
        let edges = || if is_shuffled { class.shuffled_edges(seed) } else { class.edges(seed) };
        let count = class.node_count();
        let source = Rng::new(seed).below(count);
        let plain = Plain::new(count, edges(), source);
        let bytes = (3 * 2 + 16) * 512 + more;
        let graph = Graph::build(&store, count, edges(), bytes).unwrap();
        let work = work_of(&graph, source, bytes, (node_bytes, seed));
        let forest = spanning_forest(&work).unwrap();
        prop_assert!(store.grant().peak_bytes() <= bytes);
        let (tree, roots) = (collect(&forest.edges), collect(&forest.roots));
        let mut parents: Vec<usize> = (0..to_index(count)).collect();
        for &(left, right) in &tree {
            prop_assert!(plain.neighbours[to_index(left)].contains(&right), "an edge of the graph");
            let (left, right) = (find(&parents, to_index(left)), find(&parents, to_index(right)));
            prop_assert_ne!(left, right, "no circle");
            parents[left] = right;
        }
        for (node, list) in plain.neighbours.iter().enumerate() {
            let is_connected = |&other: &u64| {
                find(&parents, node) == find(&parents, to_index(other))
            };
            prop_assert!(list.iter().all(is_connected), "what the graph connects");
        }
        prop_assert!(roots.is_sorted());
        let mut parts: Vec<usize> = { roots.iter() }
            .chain([&source])
            .map(|&root| find(&parents, to_index(root)))
            .collect();
        parts.sort_unstable();
        parts.dedup();
        let part_count = count - tree.len() as u64;
        prop_assert_eq!((parts.len() as u64, roots.len() as u64), (part_count, part_count - 1));
        drop((forest, graph));
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
    }
}

#[test]
fn a_sweep_moves_what_sorts_of_its_edges_do_for_each_time_that_labels_grow_e_fold() {
    let random = GraphClass::Random { nodes: 4000, edges: 12_000 };
    let star = GraphClass::Paths { paths: 4000, levels: 1 };
    let grid = GraphClass::Grid { width: 60, height: 60 };
    for (node_bytes, words) in [(0, 1.0_f64), (8000, 2000.0)] {
        for class in [random, star, grid, GraphClass::Line { nodes: 4000 }] {
            let store = store(1024, 1, 1);
            let (count, bytes) = (class.node_count(), 200 << 10);
            let graph = Graph::build(&store, count, class.shuffled_edges(5), bytes).unwrap();
            let before = store.counts();
            let work = work_of(&graph, 0, bytes, (node_bytes, 5));
            spanning_forest(&work).unwrap();
            let written = store.counts().since(&before).write_blocks;
            // 63 edges that wait fill a block. Where k of n labels are left, an edge that is contracted
            // then belongs to 2 m / k others: 2 ln (n / words) waits an edge (Sibeyn), fewer where
            // edges become one. Each is written twice at most, to a run and when runs are merged.
            let waits = 1.0 + 2.0 * (count as f64 / words).ln();
            let most = 2.0 * waits * graph.edge_count().div_ceil(63) as f64;
            assert!((written as f64) <= most, "{class:?}, {words} words: {written} of {most}");
        }
    }
}
