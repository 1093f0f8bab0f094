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
        let (mut lists, mut pool_lists) = (0, 0);
        for (level, counts) in (0..).zip(&levels) {
            pool_lists += lists + counts.loaded_lists;
            lists = lists + counts.loaded_lists - paths.nodes_of(level);
        }
        let counts = found.counts;
        assert_eq!((loads, pool_lists), (counts.cluster_loads, counts.pool_lists), "{graph:?}");
        assert_eq!((entries, lists), (clusters.entry_count(), 0), "{graph:?}");
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
fn kind(
    paths: Paths,
    (cluster_block, pool_block): (u64, u64),
    memory: u64,
    in_flight: u32,
) -> BfsPlacement {
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
        in_flight,
        flash_capacity: ByteCount::mib(64),
    }
}

fn placement(cluster_nodes: u64) -> Placement {
    let (clusters, pool) = (vec!["one".to_owned()], vec!["other".to_owned()]);
    Placement { clusters, pool, cluster_nodes, sweep: Vec::new() }
}

/// Reads and writes of each of two drives, in bytes, and the time: of a search, then of what is asked for.
/// Clusters lie on the first and the pool on the second, or both go round both.
fn both(
    paths: Paths,
    blocks: (u64, u64),
    (memory, in_flight, is_striped): (u64, u32, bool),
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
        let store = |ios: &[Io], block_bytes: u64| {
            let settings = Settings { block_bytes: nandu_base::to_u32(block_bytes), in_flight };
            Store::new(ios, settings, grant.clone()).unwrap()
        };
        let (one, other) = parts(&ios, is_striped);
        let (flash, disk) = (store(one, blocks.0), store(other, blocks.1));
        let clusters = clustering(paths, (&flash, &disk), memory);
        let (before, began) = (bytes(&ios), Asker::now(&ios));
        clusters.search(0, &disk, memory, PoolSettings::PLAIN, |_, _| Ok(())).unwrap();
        let time = Asker::now(&ios).saturating_sub(began);
        (gone(before, bytes(&ios)), time.0 as f64)
    };
    let asked = {
        let kind = kind(paths, blocks, memory, in_flight);
        let ios = on_one_clock(drives());
        let placement = placement(paths.cluster_nodes);
        let mut site = kind.site(&placement, ios.clone(), parts(&ios, is_striped)).unwrap();
        let before = bytes(&ios);
        let asked: Vec<_> = (0..=paths.levels).map(|level| (level, 1.0)).collect();
        let taken = kind.search(&mut site, paths.cluster_nodes, &asked, &mut || Ok(())).unwrap();
        (gone(before, bytes(&ios)), taken.cluster_ns + taken.pool_ns)
    };
    [searched, asked]
}

/// Drives of the clusters and of the pool.
fn parts(ios: &[Io], is_striped: bool) -> (&[Io], &[Io]) {
    if is_striped { (ios, ios) } else { (&ios[..1], &ios[1..]) }
}

#[test]
fn bytes_that_are_moved_are_those_of_a_search() {
    // In little memory, so that what is read at the first level is sorted outside, and in enough.
    for (graph, memory, is_striped) in [
        ((1500, 31, 13), 1 << 20, false),
        ((1500, 31, 13), 8 << 20, false),
        ((1500, 31, 45), 2 << 20, false),
        ((3000, 11, 5), 2 << 20, false),
        ((700, 41, 101), 2 << 20, false),
        ((3000, 11, 5), 2 << 20, true),
    ] {
        let drives = || vec![memory_volume(256 << 20), memory_volume(256 << 20)];
        let [searched, asked] = both(paths(graph), (1024, 4096), (memory, 1, is_striped), drives);
        for (ours, theirs) in asked.0.into_iter().zip(searched.0) {
            let ratio = ours as f64 / theirs.max(1) as f64;
            let is_near = theirs == ours || (0.98..1.02).contains(&ratio);
            assert!(is_near, "{graph:?}, {memory}: {:?}, {:?}", asked.0, searched.0);
        }
    }
}

#[test]
fn time_is_that_of_a_search_on_the_same_drives() {
    let drive = |name: &str| -> Box<dyn Volume> {
        let profile = Profile::load(name).unwrap();
        let flash = Some(ByteCount::mib(512)).filter(|_| profile.needs_filling().unwrap());
        let options = SimOptions { capacity: flash, seed: 3, keep_data: true };
        Box::new(DeviceVolume::format(profile.open(options).unwrap()).unwrap())
    };
    let disk = "barracuda-7200-11";
    for (names, in_flight, is_striped) in [
        (["hama", disk], 1, false),
        (["hama", disk], 4, false),
        (["hama", disk], 4, true),
        ([disk, disk], 1, false),
        ([disk, disk], 4, true),
    ] {
        let drives = || names.map(drive).into();
        let how = (32 << 20, in_flight, is_striped);
        let [searched, asked] = both(paths((4000, 31, 13)), (4096, 64 << 10), how, drives);
        let ratio = asked.1 / searched.1;
        assert!((0.88..1.12).contains(&ratio), "{names:?}, {in_flight}, {is_striped}: {ratio}");
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
    of_same(&|same| same.pool = vec!["disk".into(), "disk".into()], "a drive twice");
    refused(&|kind| kind.memory = ByteCount::mib(1), "48 blocks of the pool");
    of_same(&|same| same.cluster_nodes = 100, "without a factor");
    of_same(&|same| same.sweep.push(0), "is 0");
}
