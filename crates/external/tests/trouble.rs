//! A device that fails at one request, whichever it is, under each structure and algorithm: an error, no
//! panic and no other result, and all room and memory given back.

use nandu_base::Rng;
use nandu_device::FaultPlan;
use nandu_external::graph::{
    ClusteringKind, ClusteringSettings, Graph, GraphClass, MmSettings, PoolSettings, mm_bfs, mr_bfs,
};
use nandu_external::list_ranking::{END, rank, rank_paged};
use nandu_external::testing::faulty_io;
use nandu_external::{
    ExternalError, Grant, Natural, PriorityQueue, Queue, RecordStream, Settings, Stack, Store,
    Vector,
};

const GRANT_BYTES: u64 = 1 << 20;
/// Requests of the volume's own making come first; then every so many one fails.
const REQUEST_STEP: usize = 11;
const REQUEST_COUNT: u64 = 900;
/// A search by clusters, with all that it sorts before, makes two or three thousand.
const REQUEST_LAST: u64 = 3600;

/// Runs `work` over devices that fail at one request each. What it gives must be what it gives over one
/// that does not fail, or an error.
fn fail_at_each<T: PartialEq + std::fmt::Debug>(
    name: &str,
    work: impl Fn(&Store) -> Result<T, ExternalError>,
) {
    fail_at_each_of(name, (0..REQUEST_COUNT).step_by(REQUEST_STEP), work);
}

/// The same for other requests.
fn fail_at_each_of<T: PartialEq + std::fmt::Debug>(
    name: &str,
    requests: impl Iterator<Item = u64>,
    work: impl Fn(&Store) -> Result<T, ExternalError>,
) {
    let run = |fail_requests: Vec<u64>| {
        let plan = FaultPlan { fail_requests, ..FaultPlan::default() };
        let Ok(io) = faulty_io(4 << 20, plan) else { return None };
        let settings = Settings { block_bytes: 512, in_flight: 2 };
        let volumes = std::slice::from_ref(&io);
        let Ok(store) = Store::new(volumes, settings, Grant::new(GRANT_BYTES)) else { return None };
        let outcome = work(&store);
        store.audit();
        assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES), "{name}");
        drop(store);
        Some(outcome)
    };
    let expected = run(Vec::new()).expect("it does not fail").expect("nor does its work");
    let mut failed_count = 0;
    for request in requests {
        match run(vec![request]) {
            Some(Ok(found)) => assert_eq!(found, expected, "{name}, request {request}"),
            Some(Err(error)) => {
                assert!(matches!(error, ExternalError::Storage(_)), "{name}: {error}");
                failed_count += 1;
            }
            None => {}
        }
    }
    assert!(failed_count >= 20, "{name}: {failed_count} runs met a failure");
}

#[test]
fn a_stack_ends_in_an_error() {
    fail_at_each("stack", |store| {
        let mut stack = Stack::new(store)?;
        let mut sum = 0_u64;
        for round in 0..4 {
            (0..8000_u64).try_for_each(|n| stack.push(n * round))?;
            for n in 0..7000 {
                sum = sum.wrapping_mul(31).wrapping_add(stack.pop()?.unwrap_or(n));
            }
            stack.audit();
        }
        Ok(sum)
    });
}

#[test]
fn a_queue_ends_in_an_error() {
    fail_at_each("queue", |store| {
        let mut queue = Queue::new(store)?;
        let mut sum = 0_u64;
        for round in 0..4 {
            (0..8000_u64).try_for_each(|n| queue.push(n * round))?;
            for n in 0..7000 {
                sum = sum.wrapping_mul(31).wrapping_add(queue.pop()?.unwrap_or(n));
            }
            queue.audit();
        }
        Ok(sum)
    });
}

#[test]
fn a_priority_queue_ends_in_an_error() {
    fail_at_each("priority queue", |store| {
        let mut queue = PriorityQueue::with_bytes(store, Natural, 16 * 512)?;
        let mut rng = Rng::new(1);
        let mut sum = 0_u64;
        for _ in 0..4 {
            (0..6000).try_for_each(|_| queue.push(rng.below(1 << 30)))?;
            for n in 0..5000 {
                sum = sum.wrapping_mul(31).wrapping_add(queue.pop()?.unwrap_or(n));
            }
            queue.audit();
        }
        Ok(sum)
    });
}

#[test]
fn a_ranking_ends_in_an_error() {
    fail_at_each("list ranking", |store| {
        let count = 3000;
        let mut writer = Vector::writer_of(store, count)?;
        // 0, 7, 14, …: a list over all, since 7 and the count have no divisor in common.
        let last = (count - 1) * 7 % count;
        (0..count).try_for_each(|n| writer.push(if n == last { END } else { (n + 7) % count }))?;
        let successors = writer.finish()?;
        let ranks = rank(&successors, 0, 20 * 512, &mut Rng::new(1))?;
        let mut scanner = ranks.scanner()?;
        let mut found = Vec::new();
        while let Some(rank) = scanner.next_record()? {
            found.push(rank);
        }
        drop(scanner);
        let mut paged = successors.paged(4)?;
        let mut walked = vec![0; found.len()];
        rank_paged(&mut paged, 0, |element, rank| walked[nandu_base::to_index(element)] = rank)?;
        assert_eq!(found, walked);
        Ok(found)
    });
}

#[test]
fn a_search_ends_in_an_error() {
    fail_at_each("search", |store| {
        let class = GraphClass::Random { nodes: 800, edges: 2000 };
        let bytes = 40 << 10;
        let graph = Graph::build(store, class.node_count(), class.edges(1), bytes)?;
        let mut levels = Vec::new();
        mr_bfs(&graph, 5, bytes, |node, level| {
            levels.push((node, level));
            Ok(())
        })?;
        Ok(levels)
    });
}

/// Searches by clusters in little memory; the pool as `pool` says.
fn search_by_clusters(
    store: &Store,
    kind: ClusteringKind,
    pool: PoolSettings,
) -> Result<Vec<(u64, u64)>, ExternalError> {
    let class = GraphClass::Random { nodes: 500, edges: 900 };
    let bytes = 32 << 10;
    let graph = Graph::build(store, class.node_count(), class.edges(1), bytes)?;
    // A sweep in place of words in memory.
    let (cluster_nodes, node_bytes, seed) = (Some(12), 0, 1);
    let clustering = ClusteringSettings { kind, cluster_nodes, node_bytes, seed };
    let mut levels = Vec::new();
    mm_bfs(&graph, 5, bytes, &MmSettings { clustering, pool }, |node, level| {
        levels.push((node, level));
        Ok(())
    })?;
    Ok(levels)
}

#[test]
fn a_search_by_clusters_that_grew_ends_in_an_error() {
    fail_at_each_of("clusters that grew", (0..REQUEST_LAST).step_by(37), |store| {
        search_by_clusters(store, ClusteringKind::Random, PoolSettings::PLAIN)
    });
}

#[test]
fn a_search_by_clusters_of_a_tour_ends_in_an_error() {
    fail_at_each_of("clusters of a tour", (0..REQUEST_LAST).step_by(37), |store| {
        search_by_clusters(store, ClusteringKind::Tour, PoolSettings::default())
    });
}
