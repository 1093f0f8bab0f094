//! The least room in which each algorithm works, found by halving, and one sector less, in which it does not.
//!
//! 1. The least room is what the store counts for its blocks where there is more than enough, to the unit by
//!    which the volume gives it.
//! 2. What is refused before it begins has no room: what is counted then is never more than the least room,
//!    and this is never more than what is counted times a factor that is stated for each.
//! 3. In less room the outcome is an error that says so, and all room and memory are given back.

use nandu_base::{Rng, to_index};
use nandu_external::graph::{Graph, GraphClass, MmSettings, mm_bfs, mr_bfs};
use nandu_external::list_ranking::{self, END, rank};
use nandu_external::sort::bytes::{ByteSorter, KeyKind, KeyLayout};
use nandu_external::testing::memory_io;
use nandu_external::{ExternalError, Grant, RecordStream, Settings, Store, Vector};
use nandu_storage::StorageError;
use std::collections::VecDeque;

const SECTOR_BYTES: u64 = 512;
const SETTINGS: Settings = Settings { block_bytes: 512, in_flight: 2 };
const GRANT_BYTES: u64 = 1 << 20;
/// Devices between these sizes have units of one size.
const SECTORS_MIN: u64 = (256 << 10) / SECTOR_BYTES;
const SECTORS_MAX: u64 = (6 << 20) / SECTOR_BYTES;
const UNIT_BYTES: u64 = 4096;

/// Edges; or nodes with their levels.
type Pairs = Vec<(u64, u64)>;
type Outcome<T> = Result<T, ExternalError>;

/// What came of work on a device of some size.
struct Tried<T> {
    outcome: Outcome<T>,
    /// What the volume had free before.
    free_bytes: u64,
    peak_bytes: u64,
}

fn try_on<T>(sector_count: u64, work: impl Fn(&Store) -> Outcome<T>) -> Tried<T> {
    let io = memory_io(sector_count * SECTOR_BYTES);
    let free_bytes = io.free_bytes().expect("a device says what it has");
    let store = Store::new(std::slice::from_ref(&io), SETTINGS, Grant::new(GRANT_BYTES));
    let store = store.expect("the settings fit");
    let outcome = work(&store);
    store.audit();
    assert_eq!((store.used_blocks(), store.grant().free_bytes()), (0, GRANT_BYTES));
    let peak_bytes = store.peak_blocks() * u64::from(SETTINGS.block_bytes);
    drop(store);
    assert_eq!(io.free_bytes(), Some(free_bytes), "the volume has its room again");
    Tried { outcome, free_bytes, peak_bytes }
}

fn is_full<T>(outcome: &Outcome<T>) -> bool {
    let Err(error) = outcome else { return false };
    let ExternalError::Storage(StorageError::NoSpace { what }) = error else {
        panic!("an error of room: {error}");
    };
    assert!(what.contains("make room there"), "{what}");
    true
}

/// The least room for `work`, which gives `expected` there, is what `check` lets in, or more by `factor` at
/// most.
fn holds_from_its_least_room_on<T: PartialEq>(
    name: &str,
    factor: f64,
    expected: &T,
    work: impl Fn(&Store) -> Outcome<T>,
    check: impl Fn(&Store) -> Outcome<()>,
) {
    let roomy = try_on(SECTORS_MAX, &work);
    assert!(roomy.outcome.is_ok_and(|found| found == *expected), "{name}: with room enough");
    let (mut less, mut least) = (SECTORS_MIN, SECTORS_MAX);
    assert!(is_full(&try_on(less, &work).outcome), "{name}: with hardly any room");
    while least - less > 1 {
        let middle = less.midpoint(least);
        match is_full(&try_on(middle, &work).outcome) {
            true => less = middle,
            false => least = middle,
        }
    }
    let just = try_on(least, &work);
    assert!(just.outcome.is_ok_and(|found| found == *expected), "{name}: in {least} sectors");
    let needed_bytes = roomy.peak_bytes.next_multiple_of(UNIT_BYTES);
    assert_eq!(just.free_bytes, needed_bytes, "{name}: room is counted as it is taken");
    // The same of what is refused before.
    let (mut refused, mut let_in) = (SECTORS_MIN, least);
    assert!(is_full(&try_on(refused, &check).outcome), "{name}: nothing is refused before");
    assert!(try_on(let_in, &check).outcome.is_ok(), "{name}: what has room is refused");
    while let_in - refused > 1 {
        let middle = refused.midpoint(let_in);
        match is_full(&try_on(middle, &check).outcome) {
            true => refused = middle,
            false => let_in = middle,
        }
    }
    let counted_bytes = try_on(let_in, &check).free_bytes;
    let found = needed_bytes as f64 / counted_bytes as f64;
    assert!((1.0..=factor).contains(&found), "{name}: {needed_bytes} of {counted_bytes} counted");
}

fn sorted(store: &Store, records: &[u8], bytes: u64) -> Outcome<Vec<u8>> {
    let key = KeyLayout { start: 0, bytes: 8, kind: KeyKind::Bytes };
    let mut sorter = ByteSorter::with_bytes(store, 16, key, bytes)?;
    sorter.push_all(records)?;
    let mut sorted = sorter.finish()?;
    let mut found = vec![0; records.len()];
    let mut filled = 0;
    while filled < found.len() {
        filled += sorted.read(&mut found[filled..])?;
    }
    Ok(found)
}

#[test]
fn a_sort_works_from_its_least_room_on() {
    let count = 40_000_u64;
    let mut records = vec![0; to_index(count) * 16];
    Rng::new(1).fill(&mut records);
    let mut expected: Vec<[u8; 16]> = records.as_chunks().0.to_vec();
    expected.sort_unstable();
    let expected = expected.concat();
    // One merge of runs; and merges in between, which write beside what they read.
    for (memory_bytes, factor) in [(100 << 10, 1.0), (12 << 10, 1.4)] {
        holds_from_its_least_room_on(
            &format!("a sort in {memory_bytes} bytes"),
            factor,
            &expected,
            |store| sorted(store, &records, memory_bytes),
            |store| ByteSorter::check_room(store, 16, count, memory_bytes),
        );
    }
}

#[test]
fn a_ranking_works_from_its_least_room_on() {
    let count = 30_000_u64;
    let mut order: Vec<u64> = (0..count).collect();
    Rng::new(2).shuffle(&mut order);
    let (mut successors, mut ranks) = (vec![END; order.len()], vec![0; order.len()]);
    for (rank, &element) in order.iter().enumerate() {
        successors[to_index(element)] = order.get(rank + 1).copied().unwrap_or(END);
        ranks[to_index(element)] = rank as u64;
    }
    let ranked = |store: &Store, bytes| -> Outcome<Vec<u64>> {
        let mut writer = Vector::writer(store)?;
        successors.iter().try_for_each(|&successor| writer.push(successor))?;
        let list = writer.finish()?;
        let ranked = rank(&list, order[0], bytes, &mut Rng::new(3))?;
        drop(list);
        let (mut stream, mut found) = (ranked.into_stream()?, Vec::new());
        while let Some(rank) = stream.next_record()? {
            found.push(rank);
        }
        Ok(found)
    };
    // A walk; and rounds, where nobody knows how many elements go, and what is read gives room back in
    // pieces that are too short for what is written.
    for (memory_bytes, factor) in [(200 << 10, 1.0), (48 << 10, 1.6)] {
        holds_from_its_least_room_on(
            &format!("a ranking in {memory_bytes} bytes"),
            factor,
            &ranks,
            |store| ranked(store, memory_bytes),
            |store| list_ranking::check_room(store, count, memory_bytes),
        );
    }
}

/// A graph, and the levels of its nodes, of those that are reached, by a walk in memory.
fn graph() -> (Pairs, Pairs) {
    let class = GraphClass::Random { nodes: NODE_COUNT, edges: EDGE_COUNT };
    let (mut stream, mut edges) = (class.edges(1), Vec::new());
    while let Ok(Some(edge)) = stream.next_record() {
        edges.push(edge);
    }
    let mut neighbours = vec![Vec::new(); to_index(NODE_COUNT)];
    for &(left, right) in &edges {
        neighbours[to_index(left)].push(right);
        neighbours[to_index(right)].push(left);
    }
    let mut levels = vec![None; neighbours.len()];
    let mut waiting = VecDeque::from([(0, 0)]);
    levels[0] = Some(0);
    while let Some((node, level)) = waiting.pop_front() {
        for &next in &neighbours[to_index(node)] {
            if levels[to_index(next)].is_none() {
                levels[to_index(next)] = Some(level + 1);
                waiting.push_back((next, level + 1));
            }
        }
    }
    let reached = (0..).zip(levels).filter_map(|(node, level)| level.map(|level| (node, level)));
    (edges, reached.collect())
}

const NODE_COUNT: u64 = 3000;
const EDGE_COUNT: u64 = 12_000;
const SEARCH_BYTES: u64 = 64 << 10;

fn built(store: &Store, edges: &[(u64, u64)]) -> Outcome<Graph> {
    Graph::build(store, NODE_COUNT, Edges(edges.iter()), SEARCH_BYTES)
}

/// A stream of edges.
struct Edges<'e>(std::slice::Iter<'e, (u64, u64)>);

impl RecordStream for Edges<'_> {
    type Record = (u64, u64);

    fn next_record(&mut self) -> Outcome<Option<(u64, u64)>> {
        Ok(self.0.next().copied())
    }
}

#[test]
fn a_search_works_from_its_least_room_on() {
    let (edges, expected) = graph();
    let searched = |store: &Store| -> Outcome<Vec<(u64, u64)>> {
        let graph = built(store, &edges)?;
        let mut levels = Vec::new();
        mr_bfs(&graph, 0, SEARCH_BYTES, |node, level| {
            levels.push((node, level));
            Ok(())
        })?;
        levels.sort_unstable();
        Ok(levels)
    };
    // Runs are counted alone: arrays are written while these are read, and how long they are is known
    // when all edges are, of which some may come twice.
    let check = |store: &Store| Graph::check_sorting_room(store, EDGE_COUNT, SEARCH_BYTES);
    holds_from_its_least_room_on("a search", 1.7, &expected, searched, check);
}

#[test]
fn a_search_by_clusters_works_from_its_least_room_on() {
    let (edges, expected) = graph();
    let searched = |store: &Store| -> Outcome<Vec<(u64, u64)>> {
        let graph = built(store, &edges)?;
        let mut levels = Vec::new();
        mm_bfs(&graph, 0, SEARCH_BYTES, &MmSettings::default(), |node, level| {
            levels.push((node, level));
            Ok(())
        })?;
        levels.sort_unstable();
        Ok(levels)
    };
    // It is refused before nodes are clustered, when the graph is there.
    let stop = || ExternalError::Invalid { what: "begun".to_owned() };
    let check = |store: &Store| {
        let graph = built(store, &edges)?;
        let begun = mm_bfs(&graph, 0, 0, &MmSettings::default(), |_, _| Err(stop()));
        match begun {
            Err(error @ ExternalError::Storage(_)) => Err(error),
            _ => Ok(()),
        }
    };
    holds_from_its_least_room_on("a search by clusters", 1.7, &expected, searched, check);
}
