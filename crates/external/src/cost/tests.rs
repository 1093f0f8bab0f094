//! Models beside each other and beside counts of the store; what is predicted beside what is asked.

use super::predict::AssumedLevels;
use super::*;
use crate::sort::sort;
use crate::testing::{memory_io, memory_ios, store_with};
use crate::{IoCounts, Natural, RecordStream as _, Store, Vector};
use nandu_base::{Nanos, Rng};
use proptest::collection::vec;
use proptest::prelude::*;

const BLOCK_BYTES: u32 = 4096;

fn access(is_write: bool, volume: u32, block: u64) -> Access {
    let offset_bytes = block * u64::from(BLOCK_BYTES);
    Access { is_write, volume, offset_bytes, byte_count: BLOCK_BYTES }
}

/// What a store did while `work` was done, as a trace and as its counts.
fn traced(store: &Store, work: impl FnOnce()) -> (Trace, IoCounts, Nanos) {
    let (counts, before) = (store.counts(), store.now());
    store.start_trace();
    work();
    (store.take_trace(), store.counts().since(&counts), store.now().saturating_sub(before))
}

fn random_numbers(store: &Store, count: u64, seed: u64) -> Vector<u64> {
    crate::basic::write_random(store, count, &mut Rng::new(seed)).unwrap()
}

proptest! {
    #[test]
    fn models_agree_where_they_should(
        accesses in vec((any::<bool>(), 0_u32..3, 0_u64..50), 0..100), weight in 0_u64..5000,
    ) {
        let each = |&(is_write, volume, block): &_| access(is_write, volume, block);
        let trace = Trace::new(accesses.iter().map(each).collect());
        let block_bytes = BLOCK_BYTES;
        let em = ExternalMemory { block_bytes }.cost(&trace).unwrap();
        let asymmetric = |write_weight_thousandths| {
            Asymmetric { block_bytes, write_weight_thousandths }.cost(&trace).unwrap()
        };
        prop_assert_eq!(asymmetric(1000), em);
        let unit = UnitCost { read_block_bytes: block_bytes, write_block_bytes: block_bytes };
        prop_assert_eq!(unit.cost(&trace).unwrap(), em * u64::from(block_bytes));
        let two = |read_weight, write_weight| {
            let blocks = (block_bytes, block_bytes);
            let (read_block_bytes, write_block_bytes) = blocks;
            let model = TwoBlocks { read_block_bytes, write_block_bytes, read_weight, write_weight };
            model.cost(&trace).unwrap()
        };
        prop_assert_eq!(two(1, 1), em);
        let weighed = two(0, 1) * weight / 1000;
        prop_assert_eq!(asymmetric(weight), two(1, 0) + weighed);
        // With setups alone the affine model counts where requests do not go on, with bytes alone
        // it counts bytes; the general model with one point counts requests.
        let line = |setup_ns, byte_ps| Line { setup_ns: Nanos(setup_ns), byte_ps };
        let affine = |line| Affine { read: line, write: line, one_arm: true }.cost(&trace).unwrap();
        let bytes = accesses.len() as u64 * u64::from(block_bytes);
        prop_assert_eq!(affine(line(0, 1000)), bytes);
        prop_assert!(affine(line(1, 0)) <= accesses.len() as u64);
        prop_assert!(affine(line(1, 0)) >= u64::from(!accesses.is_empty()));
        let points = vec![(block_bytes, Nanos(7))];
        let general = General { read_points: points.clone(), write_points: points };
        prop_assert_eq!(general.cost(&trace).unwrap(), 7 * accesses.len() as u64);
    }

    #[test]
    fn a_sort_is_predicted_to_the_block(
        count in 0_u64..60_000, memory_blocks in 3_u64..80, in_flight in 0_u32..4,
        volumes in 1_usize..3, seed: u64,
    ) {
        let store = store_with(BLOCK_BYTES, volumes, in_flight, 1 << 20);
        let input = random_numbers(&store, count, seed);
        let bytes = memory_blocks * u64::from(BLOCK_BYTES);
        let mut rng = Rng::new(seed);
        let mut predicted = Trace::default();
        predict::sort::<u64>(&store, count, bytes, &mut rng, &mut predicted).unwrap();
        let (trace, counts, _) = traced(&store, || {
            sort(input, Natural, bytes).unwrap().store_in(&store).unwrap();
        });
        prop_assert_eq!(trace.accesses().len() as u64, counts.read_blocks + counts.write_blocks);
        prop_assert_eq!(counts_of(&predicted), counts_of(&trace));
        // Of streams only runs are left.
        let mut streams = Trace::default();
        predict::sort_of_stream::<u64>(&store, count, bytes, &mut rng, &mut streams).unwrap();
        let input = count.div_ceil(511);
        prop_assert_eq!(counts_of(&streams), counts_of(&trace).map(|count| count - input));
    }
}

/// Reads and writes.
fn counts_of(trace: &Trace) -> [u64; 2] {
    let writes = trace.accesses().iter().filter(|access| access.is_write).count() as u64;
    [trace.accesses().len() as u64 - writes, writes]
}

/// Asserts that reads and writes are predicted as near as that.
fn assert_near(predicted: &Trace, found: &Trace, thousandths: u64) {
    let (predicted, found) = (counts_of(predicted), counts_of(found));
    for (predicted, found) in predicted.into_iter().zip(found) {
        let difference = predicted.abs_diff(found);
        assert!(difference * 1000 <= found * thousandths, "{predicted} for {found}");
    }
}

#[test]
fn runs_of_memory_in_one_piece_are_predicted_whole() {
    let store = store_with(1024, 1, 1, 1 << 20);
    for (memory_blocks, is_whole) in [(20, true), (80, false)] {
        let bytes = memory_blocks * 1024;
        let mut predicted = Trace::default();
        predict::sort::<u64>(&store, 100_000, bytes, &mut Rng::new(1), &mut predicted).unwrap();
        let accesses = predicted.accesses();
        let first = accesses.iter().position(|access| access.is_write).unwrap();
        let in_a_row = accesses[first..].iter().take_while(|access| access.is_write).count();
        // A run comes out when as much has come in.
        let run_blocks = if is_whole { 19 } else { 1 };
        assert!(in_a_row.abs_diff(run_blocks) <= 1, "{memory_blocks}: {in_a_row} of {run_blocks}");
        assert!(first.abs_diff(run_blocks) <= 1, "{memory_blocks}: {first} before");
    }
}

#[test]
fn a_ranking_is_predicted_but_for_its_coins() {
    for (count, memory_blocks) in [(20_000_u64, 200_u64), (20_000, 40), (3000, 64), (0, 20)] {
        let store = store_with(1024, 1, 1, 1 << 20);
        let bytes = memory_blocks * 1024;
        let mut predicted = Trace::default();
        predict::rank(&store, count, bytes, &mut Rng::new(1), &mut predicted).unwrap();
        let mut order: Vec<u64> = (0..count).collect();
        Rng::new(5).shuffle(&mut order);
        let mut successors = vec![crate::list_ranking::END; order.len()];
        for pair in order.windows(2) {
            successors[nandu_base::to_index(pair[0])] = pair[1];
        }
        let (found, ..) = traced(&store, || {
            let mut writer = Vector::writer(&store).unwrap();
            successors.iter().for_each(|&next| writer.push(next).unwrap());
            let (list, head) = (writer.finish().unwrap(), order.first().copied().unwrap_or(0));
            let ranks = crate::list_ranking::rank(&list, head, bytes, &mut Rng::new(2)).unwrap();
            let mut stream = ranks.into_stream().unwrap();
            while stream.next_record().unwrap().is_some() {}
        });
        assert_near(&predicted, &found, 20);
    }
}

#[test]
fn a_search_is_predicted_by_the_levels_that_are_assumed() {
    use crate::graph::{Graph, GraphClass, mr_bfs};
    let random = GraphClass::Random { nodes: 10_000, edges: 30_000 };
    let paths = GraphClass::Paths { paths: 100, levels: 60 };
    for (class, known) in [(random, false), (paths, true)] {
        let of_graph = (class.node_count(), class.edge_count());
        let store = store_with(1024, 1, 1, 1 << 20);
        let bytes = 60 * 1024;
        let edges = class.shuffled_edges(1);
        let source = edges.node(0);
        let mut graph = None;
        let (built, ..) = traced(&store, || {
            graph = Some(Graph::build(&store, of_graph.0, edges, bytes).unwrap());
        });
        let mut predicted = Trace::default();
        predict::build_graph(&store, of_graph, bytes, &mut Rng::new(1), &mut predicted).unwrap();
        // Some edges are drawn twice.
        assert_near(&predicted, &built, 10);
        let mut level_count = 0;
        let (searched, ..) = traced(&store, || {
            let found = mr_bfs(&graph.unwrap(), source, bytes, |_, _| Ok(())).unwrap();
            level_count = found.level_count;
        });
        let assumed = if known { AssumedLevels::Even(level_count) } else { AssumedLevels::Random };
        assert!(assumed.level_count(of_graph.0, of_graph.1).abs_diff(level_count) <= 2);
        let mut predicted = Trace::default();
        let to = (&mut Rng::new(1), &mut predicted as &mut dyn Requests);
        predict::search(&store, of_graph, assumed, bytes, to).unwrap();
        assert_near(&predicted, &searched, 80);
    }
}

#[test]
fn clusters_of_a_tour_are_predicted_to_the_block_but_for_edges_that_wait() {
    use crate::graph::{Clustering, ClusteringSettings, Graph, GraphClass};
    let classes = [
        (GraphClass::Grid { width: 60, height: 60 }, 9),
        (GraphClass::Grid { width: 60, height: 60 }, 80),
        (GraphClass::Line { nodes: 4000 }, 40),
        (GraphClass::Paths { paths: 60, levels: 60 }, 20),
        (GraphClass::Random { nodes: 4000, edges: 20_000 }, 20),
    ];
    // The words of all nodes; a word each; half of them, a quarter, none, where edges wait.
    for (words, thousandths) in [(20, 2), (4, 2), (2, 60), (1, 300), (0, 1000)] {
        for (class, cluster_nodes) in classes {
            let store = store_with(1024, 1, 1, 1 << 20);
            let bytes = 160 * 1024;
            let edges = class.shuffled_edges(1);
            let graph = Graph::build(&store, class.node_count(), edges, bytes).unwrap();
            let settings = ClusteringSettings {
                cluster_nodes: Some(cluster_nodes),
                node_bytes: words * class.node_count(),
                ..ClusteringSettings::default()
            };
            let (found, ..) = traced(&store, || {
                Clustering::build(&graph, 0, (&store, &store), bytes, settings).unwrap();
            });
            let of_graph = (graph.node_count(), graph.edge_count());
            let mut predicted = Trace::default();
            let to = (&mut Rng::new(1), &mut predicted as &mut dyn Requests);
            predict::cluster(&store, of_graph, bytes, &settings, to).unwrap();
            assert_near(&predicted, &found, thousandths);
            // Edges that become one wait once.
            let most = counts_of(&predicted);
            assert!(counts_of(&found).iter().zip(most).all(|(&found, most)| found <= most));
        }
    }
}

#[test]
fn a_search_by_clusters_is_predicted_by_what_is_assumed_of_them() {
    use crate::graph::{Clustering, ClusteringSettings, Graph, GraphClass, PoolSettings};
    let random = GraphClass::Random { nodes: 20_000, edges: 80_000 };
    let paths = GraphClass::Paths { paths: 100, levels: 60 };
    // Those of a path lie side by side, so less is read, and levels of few nodes waste what is scanned.
    for (class, is_known, memory_blocks, thousandths) in
        [(random, false, 120, 80), (random, false, 400, 80), (paths, true, 400, 600)]
    {
        let settings = crate::Settings { block_bytes: 1024, in_flight: 1 };
        let io = memory_ios(1, 64 << 20);
        let store = Store::new(&io, settings, crate::Grant::new(4 << 20)).unwrap();
        let bytes = memory_blocks * 1024;
        let edges = class.shuffled_edges(1);
        let source = edges.node(0);
        let graph = Graph::build(&store, class.node_count(), edges, bytes).unwrap();
        let settings = ClusteringSettings::default();
        let stores = (&store, &store);
        let clusters = Clustering::build(&graph, source, stores, bytes, settings).unwrap();
        let mut level_count = 0;
        let (found, ..) = traced(&store, || {
            let pool = PoolSettings::default();
            let found = clusters.search(source, &store, bytes, pool, |_, _| Ok(())).unwrap();
            level_count = found.bfs.level_count;
        });
        let assumed =
            if is_known { AssumedLevels::Even(level_count) } else { AssumedLevels::Random };
        let of_graph = (graph.node_count(), graph.edge_count());
        let mut predicted = Trace::default();
        let to = (&mut Rng::new(1), &mut predicted as &mut dyn Requests);
        let means = (assumed, &settings);
        predict::search_by_clusters(&store, of_graph, means, bytes, to).unwrap();
        assert_near(&predicted, &found, thousandths);
    }
}

#[test]
fn a_prediction_ends_when_its_store_is_to_stop_and_keeps_no_request() {
    /// Stops the store at some request.
    struct Stopping(std::sync::Arc<std::sync::atomic::AtomicBool>, u64);
    impl Requests for Stopping {
        fn note(&mut self, _access: &Access) {
            self.1 += 1;
            self.0.store(self.1 >= 1000, std::sync::atomic::Ordering::Relaxed);
        }
    }
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let settings = crate::Settings { block_bytes: BLOCK_BYTES, in_flight: 1 };
    let grant = crate::Grant::new(1 << 20);
    let io = [memory_io(1 << 20)];
    let store = Store::stoppable(&io, settings, grant, stop.clone()).unwrap();
    // Nobody has the memory for all requests of these.
    let (count, bytes) = (1 << 40, 1 << 30);
    let to = || {
        stop.store(false, std::sync::atomic::Ordering::Relaxed);
        Stopping(stop.clone(), 0)
    };
    let mut rng = Rng::new(1);
    let ended = [
        predict::write::<u64>(&store, count, &mut to()),
        predict::sort::<u64>(&store, count, bytes, &mut rng, &mut to()),
        predict::rank(&store, count, bytes, &mut rng, &mut to()),
        predict::build_graph(&store, (count, count), bytes, &mut rng, &mut to()),
    ];
    assert_eq!(ended, [const { Err(crate::ExternalError::Cancelled) }; 4]);
    let assumed = AssumedLevels::Even(count);
    let (of_graph, clustered) = ((count, count), crate::graph::ClusteringSettings::default());
    let ended = [
        predict::search(&store, of_graph, assumed, bytes, (&mut rng, &mut to())),
        predict::cluster(&store, of_graph, bytes, &clustered, (&mut Rng::new(1), &mut to())),
        predict::search_by_clusters(
            &store,
            of_graph,
            (assumed, &clustered),
            bytes,
            (&mut Rng::new(1), &mut to()),
        ),
    ];
    assert_eq!(ended, [const { Err(crate::ExternalError::Cancelled) }; 3]);
    // More runs than anybody has memory for are told.
    let told = predict::sort_of_stream::<u64>(&store, 1 << 60, 1 << 16, &mut rng, &mut to());
    assert!(told.unwrap_err().to_string().contains("give more memory"));
}

#[test]
fn a_block_that_two_requests_touch_in_turn_counts_once() {
    let half =
        |offset_bytes, is_write| Access { is_write, volume: 0, offset_bytes, byte_count: 512 };
    let trace =
        Trace::new(vec![half(0, false), half(512, false), half(0, false), half(1024, true)]);
    assert_eq!(ExternalMemory { block_bytes: 1024 }.cost(&trace), Ok(2));
    assert_eq!(ExternalMemory { block_bytes: 512 }.cost(&trace), Ok(4));
    // A write in between does not make another read of a block.
    let trace = Trace::new(vec![half(0, false), half(0, true), half(512, false)]);
    assert_eq!(ExternalMemory { block_bytes: 1024 }.cost(&trace), Ok(2));
}

#[test]
fn general_times_lie_on_lines_between_points() {
    let points = vec![(1000, Nanos(100)), (3000, Nanos(300)), (4000, Nanos(200))];
    let model = General { read_points: points, write_points: vec![(1, Nanos(0))] };
    let time = |byte_count| {
        let access = Access { is_write: false, volume: 0, offset_bytes: 0, byte_count };
        model.cost(&Trace::new(vec![access])).unwrap()
    };
    assert_eq!(
        [500, 1000, 2000, 3000, 3500, 4000, 8000].map(time),
        [100, 100, 200, 300, 250, 200, 400]
    );
}

#[test]
fn an_affine_request_that_goes_on_has_no_setup() {
    let read = Line::through(Nanos(5_000), Nanos(4_096), BLOCK_BYTES);
    assert_eq!(read, Line { setup_ns: Nanos(904), byte_ps: 1000 });
    let write = Line { setup_ns: Nanos(10_000), byte_ps: 2000 };
    let cost_with = |one_arm, accesses: &[Access]| {
        Affine { read, write, one_arm }.cost(&Trace::new(accesses.to_vec())).unwrap()
    };
    let cost = |accesses: &[Access]| cost_with(true, accesses);
    assert_eq!(cost(&[access(false, 0, 3), access(false, 0, 4)]), 904 + 2 * 4096);
    // Volumes have an arm each; one that turned to write does not go on reading.
    let turned =
        [access(false, 0, 3), access(false, 1, 9), access(true, 0, 4), access(false, 0, 5)];
    assert_eq!(cost(&turned), 3 * 904 + 10_000 + 5 * 4096);
    // Without an arm reads go on beside writes, if they lie there.
    let beside =
        [access(false, 0, 3), access(true, 0, 9), access(false, 0, 4), access(true, 0, 10)];
    assert_eq!(cost_with(false, &beside), 904 + 10_000 + 6 * 4096);
    assert_eq!(cost_with(true, &beside), 2 * 904 + 2 * 10_000 + 6 * 4096);
}

#[test]
fn parameters_without_sense_are_refused() {
    let trace = Trace::new(vec![access(false, 0, 0), access(true, 2, 1)]);
    let models: [Box<dyn CostModel>; 6] = [
        Box::new(ExternalMemory { block_bytes: 0 }),
        Box::new(Asymmetric { block_bytes: 0, write_weight_thousandths: 1 }),
        Box::new(TwoBlocks {
            read_block_bytes: 2,
            write_block_bytes: 1,
            read_weight: 1,
            write_weight: 1,
        }),
        Box::new(UnitCost { read_block_bytes: 1, write_block_bytes: 0 }),
        Box::new(General { read_points: vec![(1, Nanos(1))], write_points: Vec::new() }),
        Box::new(Drive { volumes: vec![memory_io(1 << 20); 2], in_flight: 1 }),
    ];
    for model in &models {
        assert!(model.cost(&trace).is_err(), "{model:?}");
    }
    let units = models.map(|model| model.unit().to_string());
    assert_eq!(units, ["blocks", "blocks", "blocks", "bytes", "ns", "ns"]);
}

#[test]
fn a_drive_that_is_asked_the_same_takes_as_long() {
    // One request at a time, as the drive model asks with one in flight.
    let store = store_with(BLOCK_BYTES, 2, 0, 1 << 20);
    let input = random_numbers(&store, 100_000, 3);
    let (trace, counts, elapsed_ns) = traced(&store, || {
        sort(input, Natural, 16 * u64::from(BLOCK_BYTES)).unwrap().store_in(&store).unwrap();
    });
    let drive = Drive { volumes: memory_ios(2, 16 << 20), in_flight: 1 };
    let cost_ns = drive.cost(&trace).unwrap();
    assert!(counts.write_blocks > 100 && cost_ns > 0);
    let ratio = cost_ns as f64 / elapsed_ns.0 as f64;
    assert!((0.95..1.05).contains(&ratio), "{cost_ns} of {elapsed_ns}");
    // It asks again as it did: nothing is left.
    assert_eq!(drive.cost(&trace), Ok(cost_ns));
    assert!(drive.volumes.iter().all(|io| io.files().is_empty()));
}
