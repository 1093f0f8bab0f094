//! Graphs and searches beside those in memory, and the blocks that a search reads.

use super::*;
use crate::testing::{GRANT_BYTES, memory_io, store};
use crate::{Grant, Settings};
use nandu_base::{Rng, to_index};
use proptest::prelude::*;
use std::collections::VecDeque;

/// The distance of each node from the source, if it is reached, and who is beside whom.
pub(super) struct Plain {
    pub(super) neighbours: Vec<Vec<u64>>,
    pub(super) levels: Vec<Option<u64>>,
}

impl Plain {
    pub(super) fn new(node_count: u64, mut edges: EdgeStream, source: u64) -> Self {
        let mut neighbours = vec![Vec::new(); to_index(node_count)];
        while let Some((left, right)) = edges.next_record().unwrap() {
            neighbours[to_index(left)].push(right);
            neighbours[to_index(right)].push(left);
        }
        for list in &mut neighbours {
            list.sort_unstable();
            list.dedup();
        }
        let mut levels = vec![None; to_index(node_count)];
        levels[to_index(source)] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(node) = queue.pop_front() {
            let next = levels[to_index(node)].map(|level| level + 1);
            for &other in &neighbours[to_index(node)] {
                let level = &mut levels[to_index(other)];
                if level.is_none() {
                    *level = next;
                    queue.push_back(other);
                }
            }
        }
        Self { neighbours, levels }
    }

    /// Nodes of each level, ascending.
    pub(super) fn by_level(&self) -> Vec<Vec<u64>> {
        let mut by_level = Vec::new();
        for (node, level) in (0_u64..).zip(&self.levels) {
            if let Some(level) = level.map(to_index) {
                by_level.resize_with(by_level.len().max(level + 1), Vec::new);
                by_level[level].push(node);
            }
        }
        by_level
    }
}

pub(super) fn classes() -> impl Strategy<Value = GraphClass> {
    prop_oneof![
        (1_u64..300).prop_map(|nodes| GraphClass::Line { nodes }),
        (1_u64..25, 1_u64..25).prop_map(|(width, height)| GraphClass::Grid { width, height }),
        (1_u64..40, 0_u64..20).prop_map(|(paths, levels)| GraphClass::Paths { paths, levels }),
        (2_u64..600, 0_u64..1500).prop_map(|(nodes, edges)| GraphClass::Random { nodes, edges }),
        (2_u64..600, 0_u64..1500).prop_map(|(nodes, edges)| GraphClass::Web { nodes, edges }),
    ]
}

#[test]
fn a_web_has_few_nodes_with_most_of_its_edges() {
    let degrees = |class: GraphClass| {
        let mut degrees = vec![0_u32; to_index(class.node_count())];
        let mut edges = class.shuffled_edges(5);
        while let Some((left, right)) = edges.next_record().unwrap() {
            assert_ne!(left, right);
            degrees[to_index(left)] += 1;
            degrees[to_index(right)] += 1;
        }
        degrees.sort_unstable_by(|left, right| right.cmp(left));
        degrees
    };
    // The share of a node on one side is that of its bits: 0.76 for a 0, 0.24 for a 1.
    let (nodes, edges) = (3000, 24_000);
    let web = degrees(GraphClass::Web { nodes, edges });
    let random = degrees(GraphClass::Random { nodes, edges });
    let of_the_first = |degrees: &[u32]| degrees[..30].iter().sum::<u32>() * 100 / 48_000;
    assert!(web[0] > 20 * random[0] && web[0] < 48_000 / 10, "{} and {}", web[0], random[0]);
    assert!(of_the_first(&web) > 20 && of_the_first(&random) < 3, "{:?}", &web[..30]);
    assert!(web.iter().filter(|&&degree| degree == 0).count() > 300, "some are met by no edge");
}

/// The least memory of a search for blocks of 512 bytes and so many requests in flight.
const fn least_bytes(in_flight: u64) -> u64 {
    (5 * (in_flight + 1) + 3 + 4) * 512 + 2 * crate::vector::LOOKAHEAD_BYTES
}

fn found_by_level(graph: &Graph, source: u64, bytes: u64) -> Vec<Vec<u64>> {
    let mut by_level: Vec<Vec<u64>> = Vec::new();
    let found = mr_bfs(graph, source, bytes, |node, level| {
        by_level.resize_with(to_index(level + 1), Vec::new);
        by_level[to_index(level)].push(node);
        Ok(())
    });
    let node_count = by_level.iter().map(|nodes| nodes.len() as u64).sum();
    assert_eq!(found, Ok(Bfs { node_count, level_count: by_level.len() as u64 }));
    by_level
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn levels_are_those_of_a_search_in_memory(
        class in classes(), is_shuffled: bool, in_flight in 0_u32..3, more in 0_u64..2048,
        seed: u64,
    ) {
        let store = store(512, 1, in_flight);
        let edges = || if is_shuffled { class.shuffled_edges(seed) } else { class.edges(seed) };
        let source = Rng::new(seed).below(class.node_count());
        let plain = Plain::new(class.node_count(), edges(), source);
        let bytes = least_bytes(u64::from(in_flight)) + more;
        let graph = Graph::build(&store, class.node_count(), edges(), bytes).unwrap();
        graph.audit();
        let edge_count = plain.neighbours.iter().map(Vec::len).sum::<usize>() as u64 / 2;
        let counts = (graph.node_count(), graph.edge_count());
        prop_assert_eq!(counts, (class.node_count(), edge_count));
        prop_assert_eq!(found_by_level(&graph, source, bytes), plain.by_level());
        prop_assert!(store.grant().peak_bytes() <= bytes);
        drop(graph);
        prop_assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
        store.audit();
    }

    #[test]
    fn a_search_whose_levels_fit_reads_what_its_nodes_need(class in classes(), seed: u64) {
        let store = store(1024, 1, 1);
        let edges = || class.shuffled_edges(seed);
        let source = edges().node(0);
        let plain = Plain::new(class.node_count(), edges(), source);
        let graph = Graph::build(&store, class.node_count(), edges(), 200 << 10).unwrap();
        let offsets: Vec<u64> = { plain.neighbours.iter() }
            .scan(0, |end, list| {
                let offset = *end;
                *end += list.len() as u64;
                Some(offset)
            })
            .collect();
        // 1016 bytes hold 63 nodes of 16 bytes, or 127 edges.
        let (mut nodes_at, mut edges_at, mut reads) = (None, None, 0);
        for &node in plain.by_level().iter().flatten() {
            let block = Some(node / 63);
            reads += u64::from(block != nodes_at);
            nodes_at = block;
            let offset = offsets[to_index(node)];
            for index in offset..offset + plain.neighbours[to_index(node)].len() as u64 {
                let block = Some(index / 127);
                reads += u64::from(block != edges_at);
                edges_at = block;
            }
        }
        let before = store.counts();
        let levels = found_by_level(&graph, source, 200 << 10);
        // A level in memory has 128 nodes at most.
        prop_assume!(levels.iter().all(|nodes| nodes.len() <= 128));
        let counts = store.counts().since(&before);
        prop_assert_eq!((counts.read_blocks, counts.write_blocks), (reads, 0));
    }
}

#[test]
fn a_search_of_arrays_on_flash_sorts_on_the_disk_and_finds_the_same_levels() {
    let io = [crate::testing::memory_io(16 << 20), crate::testing::memory_io(16 << 20)];
    let (settings, grant) = (Settings { block_bytes: 512, in_flight: 1 }, Grant::new(GRANT_BYTES));
    let [flash, disk] =
        [0, 1].map(|volume| Store::new(&io[volume..=volume], settings, grant.clone()).unwrap());
    let class = GraphClass::Random { nodes: 3000, edges: 9000 };
    let plain = Plain::new(3000, class.shuffled_edges(1), 5);
    let edges = class.shuffled_edges(1);
    let bytes = least_bytes(1) + 8192;
    let graph = Graph::build_counted((&flash, &disk), edges, 3000, |_| Ok(3000), bytes).unwrap();
    let arrays = flash.counts();
    assert_eq!((arrays.read_blocks, arrays.write_blocks), (0, flash.used_blocks()));
    assert!(disk.counts().write_blocks > 0 && disk.used_blocks() == 0, "edges are sorted there");
    let search = |store: &Store| {
        let (before, mut by_level) = ((flash.counts(), disk.counts()), vec![Vec::new(); 99]);
        let visit = |node, level| {
            by_level[to_index(level)].push(node);
            Ok(())
        };
        let found = graph.search(5, store, bytes, visit).unwrap();
        by_level.truncate(to_index(found.level_count));
        let counts = [flash.counts().since(&before.0), disk.counts().since(&before.1)];
        (by_level, counts.map(|counts| (counts.read_blocks, counts.write_blocks)))
    };
    let (levels, [on_flash, on_disk]) = search(&disk);
    assert_eq!(levels, plain.by_level());
    assert_eq!(on_flash.1, 0, "nothing is written beside the arrays");
    assert!(on_disk.0 > 0 && on_disk.1 > 0, "levels and runs");
    let (same, [beside, nothing]) = search(&flash);
    assert_eq!(same, levels);
    assert_eq!(nothing, (0, 0));
    assert_eq!(beside, (on_flash.0 + on_disk.0, on_disk.1), "the same requests");
    assert!(grant.peak_bytes() <= bytes);
    assert_eq!((disk.used_blocks(), grant.free_bytes()), (0, GRANT_BYTES));
}

#[test]
fn the_class_of_figure_4_1_has_as_many_nodes_in_each_level() {
    let class = GraphClass::Paths { paths: 64, levels: 16 };
    assert_eq!((class.node_count(), class.edge_count()), (1025, 1024));
    let store = store(512, 2, 2);
    for edges in [class.edges(1), class.shuffled_edges(1)] {
        let source = edges.node(0);
        let graph = Graph::build(&store, 1025, edges, 64 << 10).unwrap();
        let levels = found_by_level(&graph, source, 64 << 10);
        assert_eq!(levels.len(), 17);
        assert!(levels[1..].iter().all(|nodes| nodes.len() == 64));
    }
}

#[test]
fn graphs_without_two_nodes_have_no_edges_and_an_end() {
    for nodes in [0, 1] {
        for edges in [0, 3] {
            for class in [GraphClass::Web { nodes, edges }, GraphClass::Random { nodes, edges }] {
                for mut stream in [class.edges(1), class.shuffled_edges(1)] {
                    match (edges, stream.next_record()) {
                        (0, next) => assert_eq!(next, Ok(None)),
                        (_, next) => {
                            let said = next.unwrap_err().to_string();
                            assert!(said.contains("have more nodes"), "{said}");
                        }
                    }
                }
            }
        }
    }
    assert_eq!(GraphClass::Line { nodes: 0 }.edges(1).next_record(), Ok(None));
}

#[test]
fn edges_that_are_none_are_refused_with_their_number() {
    let store = store(512, 1, 1);
    let pairs = |pairs: &[(u64, u64)]| {
        let mut writer = Vector::writer(&store).unwrap();
        pairs.iter().for_each(|&pair| writer.push(pair).unwrap());
        writer.finish().unwrap().into_stream().unwrap()
    };
    for (edges, words) in [
        ([(0, 1), (2, 2)], "edge 1, from 0, leads from node 2 to itself"),
        ([(0, 1), (1, 3)], "edge 1, from 0, has node 3; there are 3"),
        ([(7, 1), (1, 2)], "edge 0, from 0, has node 7"),
    ] {
        let error = Graph::build(&store, 3, pairs(&edges), 8192).unwrap_err();
        assert!(error.to_string().contains(words), "{error}");
    }
    let graph = Graph::build(&store, 3, pairs(&[(0, 1), (1, 0), (0, 1)]), 8192).unwrap();
    assert_eq!((graph.node_count(), graph.edge_count()), (3, 1));
    let error = mr_bfs(&graph, 3, 16384, |_, _| Ok(())).unwrap_err();
    assert!(error.to_string().contains("a graph has 3 elements"), "{error}");
    assert!(mr_bfs(&graph, 0, 1024, |_, _| Ok(())).is_err(), "too little memory");
    let found = mr_bfs(&graph, 2, 32768, |_, _| Ok(()));
    assert_eq!(found, Ok(Bfs { node_count: 1, level_count: 1 }));
    let stop = ExternalError::Invalid { what: "enough".to_owned() };
    assert_eq!(mr_bfs(&graph, 0, 32768, |_, _| Err(stop.clone())), Err(stop));
    drop(graph);
    assert_eq!(store.used_blocks(), 0);
}

#[test]
fn too_little_memory_is_told_with_all_that_is_needed() {
    // Streams of 17 blocks each, of which there are two while a graph is written.
    let store = store(512, 1, 16);
    let class = GraphClass::Line { nodes: 100 };
    let build = |bytes| Graph::build(&store, 100, class.edges(1), bytes);
    let needed = |error: ExternalError| match error {
        ExternalError::TooLittleMemory { needed_bytes, granted_bytes, operator } => {
            (needed_bytes, granted_bytes, operator)
        }
        error => panic!("{error}"),
    };
    let (needed_bytes, granted_bytes, operator) = needed(build(8 << 10).unwrap_err());
    assert_eq!((granted_bytes, operator.starts_with("building a graph")), (8 << 10, true));
    assert!(needed_bytes > 2 * 17 * 512, "{needed_bytes}");
    let graph = build(needed_bytes).expect("so much is enough");
    let search = |bytes| mr_bfs(&graph, 0, bytes, |_, _| Ok(()));
    let (needed_bytes, _, operator) = needed(search(8 << 10).unwrap_err());
    assert!(operator.starts_with("a search"), "{operator}");
    search(needed_bytes).expect("so much is enough");
}

#[test]
fn room_that_edges_give_back_is_room_for_a_graph() {
    let volume = memory_io(1 << 20);
    let settings = Settings { block_bytes: 512, in_flight: 1 };
    let store = Store::new(std::slice::from_ref(&volume), settings, Grant::new(1 << 20)).unwrap();
    let free_bytes = volume.free_bytes().unwrap();
    // Two thirds of it have what was sorted, the third that is left is less than the nodes take.
    let run_bytes = free_bytes / 3 * 2;
    let mut runs = Vector::writer_of(&store, run_bytes / 16).unwrap();
    (0..run_bytes / 16).for_each(|number| runs.push((number, number)).unwrap());
    let runs = runs.finish().unwrap();
    let left_bytes = volume.free_bytes().unwrap();
    let node_count = left_bytes / 16 + 1000;
    let refused = Graph::check_room(&store, node_count).unwrap_err().to_string();
    assert!(refused.contains(&format!("a graph of {node_count} nodes would take")), "{refused}");
    assert_eq!(Graph::check_room_beside(&store, node_count, runs.len() * 16), Ok(()));
    let too_many = free_bytes / 16 * 2;
    let refused = Graph::check_room_beside(&store, too_many, runs.len() * 16).unwrap_err();
    assert!(refused.to_string().contains("in more than the"), "{refused}");
    let refused = Graph::check_room(&store, u64::MAX).unwrap_err().to_string();
    assert!(refused.contains("18446744073709551615 nodes is larger than any"), "{refused}");
    drop(runs);
    // Edges that memory holds are not written.
    let sort = |edge_count, bytes| Graph::check_sorting_room(&store, edge_count, bytes);
    // Some of it went to the volume's own, or to the ends of blocks.
    let fits = free_bytes / 40;
    assert_eq!((sort(1000, 32_000), sort(fits, 0)), (Ok(()), Ok(())));
    let refused = sort(fits * 2, 32_000).unwrap_err().to_string();
    assert!(refused.contains(&format!("sorting {} edges would take", fits * 2)), "{refused}");
}
