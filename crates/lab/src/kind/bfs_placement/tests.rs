//! What is counted beside searches of small graphs: clusters, lists, bytes that are moved, and time on the
//! same drives.

use super::*;
use nandu_device::{Geometry, MemoryConfig, MemoryDevice};
use nandu_drives::profile::{Profile, SimOptions};
use nandu_external::graph::{
    Clustering, ClusteringKind, ClusteringSettings, Graph, GraphClass, PoolSettings,
};
use nandu_external::{Grant, Settings, Store, on_one_clock};
use nandu_storage::Volume;
use nandu_storage::volume::DeviceVolume;

const GRAPHS: [(u64, u64, u64); 7] = [
    (64, 16, 1),
    (64, 16, 7),
    (300, 31, 13),
    (300, 31, 40),
    (128, 50, 101),
    (50, 20, 300),
    (2000, 9, 5),
];

fn clustering(paths: Paths, stores: (&Store, &Store), memory: u64) -> Clustering {
    let class = GraphClass::Paths { paths: paths.count, levels: paths.levels };
    let graph = Graph::build(stores.1, class.node_count(), class.edges(1), memory).unwrap();
    let cluster_nodes = Some(paths.cluster_nodes);
    let kind = ClusteringKind::Tour;
    let settings = ClusteringSettings { kind, cluster_nodes, ..Default::default() };
    Clustering::build(&graph, 0, stores, memory, settings).unwrap()
}

fn paths((count, levels, cluster_nodes): (u64, u64, u64)) -> Paths {
    Paths { count, levels, cluster_nodes }
}

fn memory_volume(capacity: u64) -> Box<dyn Volume> {
    let geometry = Geometry { sector_bytes: 512, sector_count: capacity / 512 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    Box::new(DeviceVolume::format(Box::new(device)).unwrap())
}

#[test]
fn clusters_and_lists_are_those_of_a_search() {
    for graph in GRAPHS {
        let paths = paths(graph);
        let io = on_one_clock(vec![memory_volume(64 << 20)]);
        let settings = Settings { block_bytes: 4096, in_flight: 1 };
        let store = Store::new(&io, settings, Grant::new(64 << 20)).unwrap();
        let clusters = clustering(paths, (&store, &store), 8 << 20);
        let found =
            clusters.search(0, &store, 8 << 20, PoolSettings::PLAIN, |_, _| Ok(())).unwrap();
        let (levels, _) = paths.counts(|_| false);
        let loads: u64 = levels.iter().map(|level| level.loads).sum();
        let entries: u64 = levels.iter().map(|level| level.loaded_entries).sum();
        let (mut state, mut lists, mut pool_lists) = (PoolState::default(), 0, 0);
        for (level, counts) in (0..).zip(&levels) {
            pool_lists += lists + counts.loaded_lists;
            lists = lists + counts.loaded_lists - paths.nodes_of(level);
            state = state.after(paths, level, *counts);
        }
        let counts = found.counts;
        assert_eq!((loads, pool_lists), (counts.cluster_loads, counts.pool_lists), "{graph:?}");
        assert_eq!((entries, lists), (clusters.entry_count(), 0), "{graph:?}");
        assert_eq!(state.kept + state.fresh, 0, "{graph:?}: all lists are used");
    }
}

#[test]
fn clusters_lie_one_after_the_other_and_blocks_are_read_once_a_level() {
    let paths = paths((100, 25, 7));
    let (levels, clusters) = paths.counts(|_| true);
    let mut all: Vec<Cluster> = clusters.iter().flatten().copied().collect();
    all.sort_by_key(|cluster| cluster.first);
    let mut end = 0;
    for cluster in &all {
        assert_eq!(cluster.first, end);
        end += u64::from(cluster.entries);
    }
    assert_eq!(end, paths.entry_count());
    assert_eq!(all.len() as u64, levels.iter().map(|level| level.loads).sum::<u64>());
    let blocks = blocks_of(&clusters[3], 10);
    assert!(blocks.windows(2).all(|pair| pair[0] < pair[1]));
    let cluster = |first, entries| Cluster { level: 0, first, entries };
    assert_eq!(blocks_of(&[cluster(3, 8), cluster(18, 2), cluster(40, 21)], 10), [0, 1, 4, 5, 6]);
}

/// A kind that asks for all of a graph.
fn kind(paths: Paths, (cluster_block, pool_block): (u64, u64), memory: u64) -> BfsPlacement {
    BfsPlacement {
        drives: Drives::new(),
        placements: BTreeMap::new(),
        node_count: paths.node_count(),
        levels: paths.levels,
        share: 1,
        asked_levels: paths.levels,
        memory: ByteCount(memory),
        cluster_block_bytes: ByteCount(cluster_block),
        pool_block_bytes: ByteCount(pool_block),
        in_flight: 1,
        flash_capacity: ByteCount::mib(64),
    }
}

fn placement(cluster_nodes: u64) -> Placement {
    let (clusters, pool) = (vec!["one".to_owned()], vec!["other".to_owned()]);
    Placement { clusters, pool, cluster_nodes, sweep: Vec::new() }
}

/// Reads and writes of each of two drives, in bytes, and the time: of a search, then of what is asked for.
fn both(
    paths: Paths,
    blocks: (u64, u64),
    memory: u64,
    drives: impl Fn() -> Vec<Box<dyn Volume>>,
) -> [([u64; 4], f64); 2] {
    let bytes = |ios: &[Io]| -> [u64; 4] {
        let counters = [ios[0].counters(), ios[1].counters()];
        let [one, other] = counters.map(|counters| (counters.reads, counters.writes));
        [one.0, one.1, other.0, other.1].map(|operation| operation.byte_count)
    };
    let gone =
        |before: [u64; 4], after: [u64; 4]| [0, 1, 2, 3].map(|part| after[part] - before[part]);
    let searched = {
        let ios = on_one_clock(drives());
        let grant = Grant::new(4 * memory);
        let store = |io: &Io, block_bytes: u64| {
            let settings = Settings { block_bytes: nandu_base::to_u32(block_bytes), in_flight: 1 };
            Store::new(std::slice::from_ref(io), settings, grant.clone()).unwrap()
        };
        let (flash, disk) = (store(&ios[0], blocks.0), store(&ios[1], blocks.1));
        let clusters = clustering(paths, (&flash, &disk), memory);
        let (before, began) = (bytes(&ios), Asker::now(&ios));
        clusters.search(0, &disk, memory, PoolSettings::PLAIN, |_, _| Ok(())).unwrap();
        let time = Asker::now(&ios).saturating_sub(began);
        (gone(before, bytes(&ios)), time.0 as f64)
    };
    let asked = {
        let kind = kind(paths, blocks, memory);
        let ios = on_one_clock(drives());
        let placement = placement(paths.cluster_nodes);
        let mut site = kind.site(&placement, ios.clone(), (&ios[..1], &ios[1..])).unwrap();
        let before = bytes(&ios);
        let mut go_on = || -> Result<(), ()> { Ok(()) };
        let mut rng = Rng::new(1);
        let taken = kind.search(&mut site, paths.cluster_nodes, &mut rng, &mut go_on);
        let taken = taken.unwrap().unwrap();
        (gone(before, bytes(&ios)), taken.cluster_ns + taken.pool_ns)
    };
    [searched, asked]
}

#[test]
fn bytes_that_are_moved_are_those_of_a_search() {
    // In little memory, so that what is read at the first level is sorted outside, and in enough.
    for (graph, memory) in [
        ((1500, 31, 13), 1 << 20),
        ((1500, 31, 13), 8 << 20),
        ((1500, 31, 45), 2 << 20),
        ((3000, 11, 5), 2 << 20),
        ((700, 41, 101), 2 << 20),
    ] {
        let drives = || vec![memory_volume(64 << 20), memory_volume(256 << 20)];
        let [searched, asked] = both(paths(graph), (1024, 4096), memory, drives);
        for (what, (&ours, &theirs)) in { ["read", "written", "pool read", "pool written"] }
            .iter()
            .zip(asked.0.iter().zip(&searched.0))
        {
            let ratio = ours as f64 / theirs.max(1) as f64;
            println!("{graph:?} {memory} {what}: {ours} for {theirs}, {ratio:.3}");
            assert!(
                theirs == ours || (0.98..1.02).contains(&ratio),
                "{graph:?}: {what} {ours}, {theirs}"
            );
        }
    }
}

#[test]
fn time_is_that_of_a_search_on_the_same_drives() {
    let drive = |name: &str| -> Box<dyn Volume> {
        let profile = Profile::load(name).unwrap();
        let flash = Some(ByteCount::mib(256)).filter(|_| profile.needs_filling().unwrap());
        let options = SimOptions { capacity: flash, seed: 3, keep_data: true };
        Box::new(DeviceVolume::format(profile.open(options).unwrap()).unwrap())
    };
    for names in [["hama", "barracuda-7200-11"], ["barracuda-7200-11", "barracuda-7200-11"]] {
        let drives = || names.map(drive).into();
        let [searched, asked] = both(paths((4000, 31, 13)), (4096, 64 << 10), 4 << 20, drives);
        let ratio = asked.1 / searched.1;
        println!("{names:?} {ratio:.3} {searched:?} {asked:?}");
        assert!((0.85..1.15).contains(&ratio), "{names:?}: {ratio}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    let text = include_str!("../../../../../experiments/s002/table-4-1.toml");
    let table: toml::Table = text.parse().unwrap();
    let good: BfsPlacement = {
        let mut measure = table["measure"].as_table().unwrap().clone();
        measure.remove("kind");
        measure.try_into().unwrap()
    };
    assert_eq!(good.check(), Ok(()));
    let refused = |change: &dyn Fn(&mut BfsPlacement), why: &str| {
        let mut wrong = good.clone();
        change(&mut wrong);
        let said = wrong.check().expect_err(why);
        assert!(said.contains(why), "{said}");
    };
    refused(&|kind| kind.levels = 0, "`levels` must be 2 at least");
    refused(&|kind| kind.share = 0, "`share` and `asked_levels` 1");
    refused(&|kind| kind.node_count = u64::MAX, "2^40 at most");
    refused(&|kind| kind.share = 1, "67108864 nodes at most");
    refused(&|kind| kind.share = 1 << 30, "leave 64 paths");
    refused(&|kind| kind.pool_block_bytes = ByteCount(4097), "a power of two");
    refused(&|kind| kind.flash_capacity = ByteCount::gib(64), "`flash_capacity` is 64 GiB");
    refused(&|kind| kind.placements.clear(), "one placement");
    let of_same = |change: &dyn Fn(&mut Placement), why: &str| {
        refused(&|kind| change(kind.placements.get_mut("same").unwrap()), why);
    };
    of_same(&|same| same.pool.clear(), "needs drives");
    of_same(&|same| same.pool = vec!["tape".into()], "a drive `tape`");
    of_same(&|same| same.cluster_nodes = 100, "without a factor");
    of_same(&|same| same.sweep.push(0), "is 0");
}
