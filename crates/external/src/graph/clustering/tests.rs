//! Clusters beside the graph in memory: what they have to be, and how wide.

use super::*;
use crate::graph::GraphClass;
use crate::graph::tests::{Plain, classes};
use crate::testing::{GRANT_BYTES, memory_io, store};
use crate::{Grant, Settings};
use nandu_base::{Rng, to_index};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// The nodes of each cluster, by span; asserts that the entries are the graph's.
fn clusters_of(clustering: &Clustering, plain: &Plain) -> BTreeMap<Span, BTreeSet<u64>> {
    let count = plain.neighbours.len() as u64;
    let spans: Vec<Span> = (0..count).map(|node| clustering.span_of(node).unwrap()).collect();
    let mut clusters: BTreeMap<Span, BTreeSet<u64>> = BTreeMap::new();
    let mut scanner = clustering.entries().scanner().unwrap();
    let (mut index, mut lists) = (0, vec![Vec::new(); to_index(count)]);
    while let Some((node, (neighbour, span))) = scanner.next_record().unwrap() {
        let (first, length) = spans[to_index(node)];
        assert!((first..first + u64::from(length)).contains(&index), "invariant 2");
        assert_eq!(span, spans[to_index(neighbour)], "an entry says where its neighbour lies");
        lists[to_index(node)].push(neighbour);
        clusters.entry((first, length)).or_default().insert(node);
        index += 1;
    }
    assert_eq!(lists, plain.neighbours);
    for (node, list) in plain.neighbours.iter().enumerate() {
        assert_eq!(list.is_empty(), spans[node].1 == 0, "invariant 1");
    }
    let mut end = 0;
    for &(first, length) in clusters.keys() {
        assert_eq!(first, end, "clusters lie one after the other");
        end += u64::from(length);
    }
    assert_eq!(clusters.len() as u64, clustering.cluster_count());
    clusters
}

/// How far nodes lie from `source` over `neighbours`, within `among` if that is given.
fn distances(plain: &Plain, source: u64, among: Option<&BTreeSet<u64>>) -> BTreeMap<u64, u64> {
    let mut found = BTreeMap::from([(source, 0)]);
    let mut queue = std::collections::VecDeque::from([source]);
    while let Some(node) = queue.pop_front() {
        let next = found[&node] + 1;
        for &other in &plain.neighbours[to_index(node)] {
            if among.is_none_or(|among| among.contains(&other)) && !found.contains_key(&other) {
                found.insert(other, next);
                queue.push_back(other);
            }
        }
    }
    found
}

/// Memory with which blocks of 512 bytes and so many requests in flight do.
const fn least_bytes(in_flight: u64) -> u64 {
    (3 * (in_flight + 1) + 16) * 512
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn clusters_hold_the_graph_and_are_as_wide_as_their_kind_says(
        class in classes(), in_flight in 0_u32..3, more in 0_u64..20_000,
        cluster_nodes in 1_u64..40,
        node_bytes in prop_oneof![Just(0), 0_u64..2000, Just(u64::MAX)], seed: u64,
    ) {
        let plain_of = |source| Plain::new(class.node_count(), class.shuffled_edges(seed), source);
        let source = Rng::new(seed).below(class.node_count());
        let plain = plain_of(source);
        let bytes = least_bytes(u64::from(in_flight)) + more;
        let store = store(512, 1, in_flight);
        let graph =
            Graph::build(&store, class.node_count(), class.shuffled_edges(seed), bytes).unwrap();
        for kind in ClusteringKind::ALL {
            let cluster_nodes = Some(cluster_nodes);
            let settings = ClusteringSettings { kind, cluster_nodes, node_bytes, seed };
            let clustering =
                Clustering::build(&graph, source, (&store, &store), bytes, settings).unwrap();
            clustering.audit();
            let clusters = clusters_of(&clustering, &plain);
            prop_assert!(store.grant().peak_bytes() <= bytes);
            for nodes in clusters.values() {
                check_width(kind, settings.cluster_nodes.unwrap(), &plain, nodes);
            }
            // A tour has 2 (k - 1) steps for k nodes, and pieces of it that no part begins.
            let reached = plain.levels.iter().flatten().count() as u64;
            let mine = clusters.values().filter(|nodes| plain.levels[first(nodes)].is_some());
            let most = 2 * (reached - 1) / settings.cluster_nodes.unwrap() + 1;
            let mine = mine.count() as u64;
            prop_assert!(kind != ClusteringKind::Tour || mine <= most, "{} of {}", mine, most);
            let span = clustering.span_of(source).unwrap();
            prop_assert!(span.1 == 0 || span.0 == 0, "the source's cluster is the first");
        }
        drop(graph);
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        store.audit();
    }

    #[test]
    fn masters_and_clusters_do_not_depend_on_memory_and_blocks(class in classes(), seed: u64) {
        let found = |block_bytes, volumes, bytes| {
            let store = store(block_bytes, volumes, 1);
            let graph =
                Graph::build(&store, class.node_count(), class.edges(seed), bytes).unwrap();
            let kind = ClusteringKind::Random;
            let cluster_nodes = Some(7);
            let settings = ClusteringSettings { kind, cluster_nodes, seed, ..Default::default() };
            let clustering =
                Clustering::build(&graph, 0, (&store, &store), bytes, settings).unwrap();
            let mut scanner = clustering.entries().scanner().unwrap();
            let mut entries = Vec::new();
            while let Some(entry) = scanner.next_record().unwrap() {
                entries.push(entry);
            }
            entries
        };
        let expected = found(1024, 1, 100_000);
        prop_assert_eq!(&found(512, 2, least_bytes(1)), &expected);
        prop_assert_eq!(&found(2048, 1, 4 * least_bytes(1)), &expected);
    }
}

fn first(nodes: &BTreeSet<u64>) -> usize {
    to_index(*nodes.first().unwrap())
}

/// Nodes of a piece of a tour are fewer than c edges from each other; those of a grown cluster are
/// connected among themselves.
fn check_width(kind: ClusteringKind, cluster_nodes: u64, plain: &Plain, nodes: &BTreeSet<u64>) {
    let node = *nodes.first().unwrap();
    match kind {
        ClusteringKind::Random => {
            let found = distances(plain, node, Some(nodes));
            assert!(found.keys().eq(nodes), "a cluster is connected");
        }
        ClusteringKind::Tour => {
            let found = distances(plain, node, None);
            for other in nodes {
                let distance = found.get(other).expect("a cluster is of one part");
                assert!(*distance < cluster_nodes.max(1), "{distance} of {cluster_nodes}");
            }
        }
    }
}

#[test]
fn the_model_says_how_many_nodes_clusters_have() {
    let store = store(4096, 2, 1);
    // (4096 - 8) / 28 = 146 entries a block, on two volumes; n = 1025, m = 1024.
    let class = crate::graph::GraphClass::Paths { paths: 64, levels: 16 };
    let graph = Graph::build(&store, 1025, class.edges(1), 200_000).unwrap();
    for (kind, expected) in [(ClusteringKind::Tour, 12), (ClusteringKind::Random, 3)] {
        let settings = ClusteringSettings { kind, ..ClusteringSettings::default() };
        let clustering = Clustering::build(&graph, 0, (&store, &store), 200_000, settings).unwrap();
        assert_eq!(clustering.cluster_nodes(), expected, "{}", kind.label());
    }
    let settings = ClusteringSettings { cluster_nodes: Some(0), ..ClusteringSettings::default() };
    let build = |source, bytes, settings| {
        Clustering::build(&graph, source, (&store, &store), bytes, settings).map(drop)
    };
    let error = build(0, 200_000, settings).unwrap_err();
    assert!(error.to_string().contains("one node at least"), "{error}");
    let error = build(1025, 200_000, ClusteringSettings::default()).unwrap_err();
    assert!(error.to_string().contains("a graph has 1025 elements"), "{error}");
    let error = build(0, 20_000, ClusteringSettings::default()).unwrap_err();
    assert!(error.to_string().contains("clustering needs"), "{error}");
}

#[test]
fn a_tour_without_words_in_memory_does_with_the_least_memory() {
    let store = store(512, 1, 2);
    let class = crate::graph::GraphClass::Grid { width: 20, height: 20 };
    let bytes = least_bytes(2);
    let graph = Graph::build(&store, 400, class.edges(1), bytes).unwrap();
    let settings = ClusteringSettings { node_bytes: 0, ..ClusteringSettings::default() };
    let clustering = Clustering::build(&graph, 0, (&store, &store), bytes, settings);
    assert_eq!(clustering.map(|clustering| clustering.entry_count()), Ok(1520));
    assert!(store.grant().peak_bytes() <= bytes);
}

#[test]
fn clusters_that_were_kept_are_searched_by_another_process() {
    let class = crate::graph::GraphClass::Grid { width: 30, height: 30 };
    let io = [crate::testing::memory_io(16 << 20), crate::testing::memory_io(16 << 20)];
    let settings = crate::Settings { block_bytes: 512, in_flight: 1 };
    let store = Store::new(&io, settings, crate::Grant::new(GRANT_BYTES)).unwrap();
    let graph = Graph::build(&store, 900, class.edges(1), 100_000).unwrap();
    let clustering =
        Clustering::build(&graph, 7, (&store, &store), 100_000, ClusteringSettings::default());
    let clustering = clustering.unwrap();
    let (kept, kept_store) = (clustering.kept(), store.keep().unwrap());
    let levels = |clustering: &Clustering, store: &Store| {
        let mut levels = Vec::new();
        let visit = |node, level| {
            levels.push((node, level));
            Ok(())
        };
        let pool = crate::graph::PoolSettings::PLAIN;
        clustering.search(7, store, 200_000, pool, visit).unwrap();
        levels
    };
    drop(graph);
    let expected = levels(&clustering, &store);
    drop((clustering, store));
    let resume = |kept: &KeptClustering| {
        let what = (&kept_store, &kept.vectors()[..]);
        let grant = crate::Grant::new(GRANT_BYTES);
        let store = Store::resume(&io, settings, grant, std::sync::Arc::default(), what)?;
        Clustering::resume(&store, kept).map(|clustering| (clustering, store))
    };
    let (clustering, store) = resume(&kept).unwrap();
    clustering.audit();
    assert_eq!(levels(&clustering, &store), expected);
    drop((clustering, store));
    let more = KeptClustering { cluster_count: u64::MAX, ..kept.clone() };
    assert!(resume(&more).unwrap_err().to_string().contains("more clusters than edges"));
    let swapped =
        KeptClustering { entries: kept.spans.clone(), spans: kept.entries.clone(), ..kept };
    assert!(resume(&swapped).unwrap_err().to_string().contains("records of another size"));
}

#[test]
fn clusters_without_room_for_what_is_sorted_are_refused_before_anything_is_written() {
    let volume = memory_io(1 << 20);
    let settings = Settings { block_bytes: 512, in_flight: 1 };
    let store = Store::new(std::slice::from_ref(&volume), settings, Grant::new(1 << 20)).unwrap();
    let (class, bytes) = (GraphClass::Grid { width: 40, height: 40 }, 24 << 10);
    let graph = Graph::build(&store, 1600, class.edges(1), bytes).unwrap();
    // Nothing that grows with the nodes is in memory.
    let settings = ClusteringSettings { node_bytes: 0, ..ClusteringSettings::default() };
    let both = (&store, &store);
    let mut others = Vec::new();
    while Clustering::check_room(&graph, both, bytes, settings).is_ok() {
        others.push(Vector::filled(&store, 64, 0_u64).unwrap());
    }
    let searched_bytes = ENTRY_BYTES * graph.edges.len() + SPAN_BYTES * graph.node_count();
    assert_eq!(store.check_room(searched_bytes + 4096, "what is searched"), Ok(()));
    let before = store.counts();
    let refused = Clustering::build(&graph, 0, both, bytes, settings).unwrap_err().to_string();
    assert!(refused.contains("clusters of a graph of 3120 edges would take"), "{refused}");
    assert_eq!(store.counts(), before, "nothing was read or written");
    others.clear();
    Clustering::build(&graph, 0, both, bytes, settings).unwrap().audit();
}
