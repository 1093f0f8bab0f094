//! Searches by clusters beside those in memory: what is found, in how much memory, and the counts
//! that are known.

mod model;

use super::*;
use crate::graph::tests::{Plain, classes};
use crate::graph::{ClusteringKind, GraphClass, mr_bfs};
use crate::testing::{GRANT_BYTES, memory_io, store};
use crate::{Grant, Settings};
use nandu_base::Rng;
use proptest::prelude::*;

/// The least memory of a search with blocks of `block` bytes and so many requests in flight.
const fn least_bytes(block: u64, in_flight: u64) -> u64 {
    (4 + 6 * (in_flight + 1) + 12) * block + LOOKAHEAD + FATES
}

const LOOKAHEAD: u64 = 8192;
const FATES: u64 = 257 * 8;

fn settings_of_pool() -> impl Strategy<Value = PoolSettings> {
    let bytes = || prop_oneof![Just(0), 0_u64..3000, Just(u64::MAX)];
    (bytes(), bytes(), bytes(), bytes()).prop_map(
        |(table_bytes, known_bytes, dead_bytes, kept_bytes)| PoolSettings {
            table_bytes,
            known_bytes,
            dead_bytes,
            kept_bytes,
        },
    )
}

fn settings_of_clustering() -> impl Strategy<Value = ClusteringSettings> {
    let kind = proptest::sample::select(ClusteringKind::ALL.as_slice());
    let cluster_nodes = proptest::option::of(1_u64..80);
    let node_bytes = prop_oneof![Just(0), 0_u64..3000, Just(u64::MAX)];
    (kind, cluster_nodes, node_bytes, any::<u64>()).prop_map(
        |(kind, cluster_nodes, node_bytes, seed)| ClusteringSettings {
            kind,
            cluster_nodes,
            node_bytes,
            seed,
        },
    )
}

/// Nodes by level, as a search tells them.
fn found_by_level(
    search: impl FnOnce(&mut dyn FnMut(u64, u64) -> Result<(), ExternalError>) -> MmBfs,
) -> (Vec<Vec<u64>>, PoolCounts) {
    let mut by_level: Vec<Vec<u64>> = Vec::new();
    let found = search(&mut |node, level| {
        by_level.resize_with(to_index(level + 1), Vec::new);
        by_level[to_index(level)].push(node);
        Ok(())
    });
    let node_count = by_level.iter().map(|nodes| nodes.len() as u64).sum();
    assert_eq!(found.bfs, Bfs { node_count, level_count: by_level.len() as u64 });
    (by_level, found.counts)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]
    #[test]
    fn levels_are_those_of_a_search_in_memory(
        class in classes(), is_shuffled: bool, sizes in (0_u32..3, 0_u32..3), volumes in 1_usize..3,
        in_flight in 0_u32..3, more in 0_u64..8192, is_divided: bool,
        clustering in settings_of_clustering(), pool in settings_of_pool(), seed: u64,
    ) {
        let grant = Grant::new(GRANT_BYTES);
        let make = |block_bytes, volumes| {
            let volumes: Vec<_> = (0..volumes).map(|_| memory_io(16 << 20)).collect();
            Store::new(&volumes, Settings { block_bytes, in_flight }, grant.clone()).unwrap()
        };
        let (flash, disk) = (make(512 << sizes.0, volumes), make(512 << sizes.1, 1));
        let disk = if is_divided { &disk } else { &flash };
        let edges = || if is_shuffled { class.shuffled_edges(seed) } else { class.edges(seed) };
        let mut rng = Rng::new(seed);
        let sources = [rng.below(class.node_count()), rng.below(class.node_count())];
        let block = flash.block_bytes().max(disk.block_bytes());
        let bytes = least_bytes(block, u64::from(in_flight)) + more;
        let graph = Graph::build(disk, class.node_count(), edges(), bytes).unwrap();
        let stores = (&flash, disk);
        let clusters = Clustering::build(&graph, sources[0], stores, bytes, clustering).unwrap();
        clusters.audit();
        // A clustering is for the first source; others are found all the same.
        for source in sources {
            let plain = Plain::new(class.node_count(), edges(), source);
            let (by_level, counts) = found_by_level(|visit| {
                clusters.search(source, disk, bytes, pool, visit).unwrap()
            });
            prop_assert_eq!(by_level, plain.by_level());
            prop_assert!(counts.cluster_loads <= clusters.cluster_count());
            prop_assert!(counts.scanned_lists <= 2 * counts.pool_lists);
        }
        prop_assert!(grant.peak_bytes() <= bytes, "{} of {}", grant.peak_bytes(), bytes);
        drop((graph, clusters));
        prop_assert_eq!((flash.used_blocks(), disk.used_blocks()), (0, 0));
        prop_assert_eq!(grant.free_bytes(), GRANT_BYTES);
        flash.audit();
        disk.audit();
    }
}

/// Loads, lists in the pool, the most of them, and levels of residence, of c: the reference counted
/// them by a search of its own (tour in the order of a depth-first search, children ascending).
const FIGURE_4_1: [(u64, u64, [u64; 5]); 10] = [
    (64, 1, [1025, 1025, 1025, 64, 0]),
    (64, 2, [576, 576, 1474, 128, 1]),
    (64, 4, [320, 320, 2372, 256, 3]),
    (64, 8, [192, 192, 4168, 512, 7]),
    (64, 16, [128, 128, 7760, 960, 15]),
    (64, 32, [64, 64, 8721, 1024, 16]),
    (64, 64, [32, 32, 8737, 1024, 16]),
    (256, 4, [1280, 1280, 9476, 1024, 3]),
    (256, 16, [512, 512, 30992, 3840, 15]),
    (256, 64, [128, 128, 34849, 4096, 16]),
];

#[test]
fn figure_4_1_costs_what_was_counted_elsewhere() {
    for (paths, cluster_nodes, expected) in FIGURE_4_1 {
        let class = GraphClass::Paths { paths, levels: 16 };
        for pool in [PoolSettings::PLAIN, PoolSettings::default()] {
            let store = store(1024, 1, 1);
            let graph = Graph::build(&store, class.node_count(), class.edges(1), 64 << 10).unwrap();
            let kind = ClusteringKind::Tour;
            let cluster_nodes = Some(cluster_nodes);
            let clustering = ClusteringSettings { kind, cluster_nodes, ..Default::default() };
            let stores = (&store, &store);
            let clusters = Clustering::build(&graph, 0, stores, 64 << 10, clustering).unwrap();
            let visit = |_, _| Ok(());
            let found = clusters.search(0, &store, 64 << 10, pool, visit).unwrap();
            let counts = found.counts;
            let seen = [
                clusters.cluster_count(),
                counts.cluster_loads,
                counts.pool_lists,
                counts.pool_lists_max,
                u64::from(counts.residence_max),
            ];
            assert_eq!(seen, expected, "{paths} paths, {clustering:?}, {pool:?}");
            assert_eq!(found.bfs, Bfs { node_count: 16 * paths + 1, level_count: 17 });
        }
    }
}

#[test]
fn both_phases_in_one_store_find_what_the_baseline_finds() {
    let store = store(512, 2, 2);
    let class = GraphClass::Grid { width: 40, height: 30 };
    let graph = Graph::build(&store, class.node_count(), class.shuffled_edges(3), 40_000).unwrap();
    let mut expected = Vec::new();
    mr_bfs(&graph, 7, 40_000, |node, level| {
        expected.push((node, level));
        Ok(())
    })
    .unwrap();
    let mut found = Vec::new();
    let outcome = mm_bfs(&graph, 7, 40_000, &MmSettings::default(), |node, level| {
        found.push((node, level));
        Ok(())
    });
    assert_eq!(outcome.unwrap().bfs.node_count, 1200);
    assert_eq!(found, expected);
}

#[test]
fn what_makes_no_sense_or_does_not_fit_is_refused() {
    let flash = store(512, 1, 1);
    let class = GraphClass::Line { nodes: 9 };
    let graph = Graph::build(&flash, 9, class.edges(1), 30_000).unwrap();
    let stores = (&flash, &flash);
    let clusters =
        Clustering::build(&graph, 3, stores, 30_000, ClusteringSettings::default()).unwrap();
    let search = |source, bytes| {
        let pool = PoolSettings::default();
        clusters.search(source, &flash, bytes, pool, |_, _| Ok(())).map(|found| found.bfs)
    };
    let error = search(9, 30_000).unwrap_err();
    assert!(error.to_string().contains("a graph has 9 elements"), "{error}");
    let least = least_bytes(512, 1);
    let error = search(3, least - 1).unwrap_err();
    assert!(error.to_string().contains("a search by clusters needs"), "{error}");
    assert_eq!(search(3, least), Ok(Bfs { node_count: 9, level_count: 6 }));
    assert!(search(3, 2 * GRANT_BYTES).is_err(), "more than was granted");
    let stop = ExternalError::Invalid { what: "enough".to_owned() };
    let stopped = clusters.search(3, &flash, 30_000, PoolSettings::PLAIN, |_, level| {
        if level == 2 { Err(stop.clone()) } else { Ok(()) }
    });
    assert_eq!(stopped, Err(stop));
    drop((graph, clusters));
    assert_eq!((flash.used_blocks(), flash.grant().free_bytes()), (0, GRANT_BYTES));
}

#[test]
fn the_model_of_the_best_c_is_that_of_random_reads_and_scans() {
    // S002 table 2.1: 11.3 ms and 0.56 ms for a random read. 50 MB/s and 64 bytes are chosen.
    let best = |micros| best_cluster_nodes(Nanos::from_micros(micros), 50_000_000, 64);
    let (disk, flash) = (best(11_300), best(560));
    assert_eq!((disk, flash), (93, 20));
    // Both halves of T(c) = (n / c) t + (n c / 2) 2 w / bw are equal there, within the rounding.
    let (reads, scans) = (11_300.0 / 93.0, 93.0 * 64.0 / 50.0);
    assert!((0.95..1.05).contains(&(reads / scans)), "{reads} {scans}");
    assert_eq!(best_cluster_nodes(Nanos(0), 1, 0), 1);
}
