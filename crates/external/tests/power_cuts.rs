//! A sort, a ranking and a search that are kept, on a drive that loses what was not flushed when the power
//! goes: some requests after a note, again and again. What was noted is there, and the result is the same.
//!
//! 1. The power goes between two requests, those after a note or within the next one; of what no flush
//!    covered nothing is left, or any sectors of it.
//! 2. Who goes on knows the last thing that was noted, as a list that was written down has it.

use nandu_base::Rng;
use nandu_device::{
    FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice, SharedDevice, UnflushedFate,
};
use nandu_external::graph::{
    Clustering, ClusteringSettings, Graph, GraphClass, KeptClustering, KeptGraph, PoolSettings,
};
use nandu_external::list_ranking::{END, KeptRanking, rank_watched, resume_ranking};
use nandu_external::{
    ExternalError, Grant, Io, KeptStore, KeptVector, Natural, RecordStream, Settings, Sorter,
    Store, Vector,
};
use nandu_storage::volume::DeviceVolume;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

const SEEDS: std::ops::Range<u64> = 1..25;
/// The power goes up to so many requests after a note.
const REQUESTS_MAX: u64 = 80;
/// So often at most before a run must have come to its end.
const CUTS_MAX: usize = 300;
const IDENTITY: u64 = 0x0123_4567_89ab_cdef;

type Drive = SharedDevice<FaultyDevice<MemoryDevice>>;

fn io_of(volume: DeviceVolume) -> Io {
    Io::new(Box::new(volume), Arc::new(AtomicU64::new(0)))
}

/// Does work in which the power goes after a note, and goes on with what was noted last, until it comes
/// to its end; what it finds, and how often the power went.
fn cut_after_notes<N: Clone>(
    seed: u64,
    work: impl Fn(&Io, Option<&N>, &mut dyn FnMut(N)) -> Result<Vec<u64>, ExternalError>,
) -> (Vec<u64>, usize) {
    let geometry = Geometry { sector_bytes: 512, sector_count: (8 << 20) / 512 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let drive: Drive = SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()));
    let mut io = io_of(DeviceVolume::format(Box::new(drive.clone())).expect("the device is empty"));
    let (mut rng, mut last) = (Rng::new(seed), None);
    for cut_count in 0..CUTS_MAX {
        // Whoever goes on may first note what it began with.
        let (mut noted, mut left, mut is_planned) = (last.clone(), rng.below(3), false);
        let outcome = work(&io, last.as_ref(), &mut |what| {
            noted = Some(what);
            if left == 0 && !is_planned {
                is_planned = true;
                let mut drive = drive.lock();
                let at = drive.submitted_count() + 1 + rng.below(REQUESTS_MAX);
                let fates = [UnflushedFate::Dropped, UnflushedFate::Torn];
                let unflushed = fates[nandu_base::to_index(rng.below(2))];
                let power_cut_at_request = Some(at);
                let seed = rng.next_u64();
                drive.set_plan(FaultPlan {
                    power_cut_at_request,
                    unflushed,
                    seed,
                    ..FaultPlan::default()
                });
            }
            left = left.saturating_sub(1);
        });
        match outcome {
            Ok(found) => return (found, cut_count),
            Err(error) => assert!(is_planned, "it fails by itself after {cut_count} cuts: {error}"),
        }
        drop(io);
        drive.lock().cut_power();
        drive.lock().set_plan(FaultPlan::default());
        drive.lock().power_on();
        drive.forget_completions();
        io = io_of(DeviceVolume::open(Box::new(drive.clone())).expect("a volume was made there"));
        last = noted;
    }
    panic!("no run comes to its end");
}

fn store_of(io: &Io, kept: Option<(&KeptStore, &[&KeptVector])>) -> Result<Store, ExternalError> {
    let settings = Settings { block_bytes: 512, in_flight: 2 };
    let (volumes, grant) = (std::slice::from_ref(io), Grant::new(1 << 20));
    match kept {
        Some(kept) => Store::resume(volumes, settings, grant, Arc::default(), kept),
        None => Store::identified(volumes, settings, grant, Arc::default(), IDENTITY),
    }
}

fn all(mut stream: impl RecordStream<Record = u64>) -> Result<Vec<u64>, ExternalError> {
    let mut records = Vec::new();
    while let Some(record) = stream.next_record()? {
        records.push(record);
    }
    Ok(records)
}

#[test]
fn a_sort_goes_on_after_power_cuts() {
    type Noted = (KeptStore, Vec<KeptVector>);
    let mut rng = Rng::new(1);
    let numbers: Vec<u64> = (0..15_000).map(|_| rng.below(1000)).collect();
    let mut expected = numbers.clone();
    expected.sort_unstable();
    let mut cut_count = 0;
    for seed in SEEDS {
        let sort = |io: &Io, begun: Option<&Noted>, note: &mut dyn FnMut(Noted)| {
            let runs: Vec<&KeptVector> = begun.iter().flat_map(|begun| &begun.1).collect();
            let store = store_of(io, begun.map(|begun| (&begun.0, &runs[..])))?;
            let runs = begun.map_or(&[][..], |begun| &begun.1[..]);
            let mut sorter = Sorter::resume(&store, Natural, 6 << 10, runs)?;
            let mut note = |sorter: &Sorter<u64, Natural>| -> Result<(), ExternalError> {
                note((store.keep()?, sorter.kept_runs()));
                store.hold();
                Ok(())
            };
            let (skipped, mut run_count) = (nandu_base::to_index(sorter.len()), runs.len());
            for &number in &numbers[skipped..] {
                sorter.push(number)?;
                if sorter.kept_runs().len() >= run_count + 5 {
                    run_count = sorter.kept_runs().len();
                    note(&sorter)?;
                }
            }
            all(sorter.finish_watched(note)?)
        };
        let (sorted, its_cut_count) = cut_after_notes(seed, sort);
        assert!(sorted == expected, "seed {seed}");
        cut_count += its_cut_count;
    }
    assert!(cut_count > 60, "{cut_count} cuts");
}

#[test]
fn a_ranking_goes_on_after_power_cuts() {
    type Noted = (KeptStore, KeptRanking);
    let count = 4000;
    // 0, 7, 14, …: a list over all, since 7 and the count have no divisor in common.
    let last = (count - 1) * 7 % count;
    let mut cut_count = 0;
    let successors = (0..count).map(|n| if n == last { END } else { (n + 7) % count });
    for seed in SEEDS {
        let rank = |io: &Io, begun: Option<&Noted>, note: &mut dyn FnMut(Noted)| {
            let vectors = begun.map_or_else(Vec::new, |begun| begun.1.vectors());
            let store = store_of(io, begun.map(|begun| (&begun.0, &vectors[..])))?;
            let watch = |ranking: &KeptRanking| -> Result<(), ExternalError> {
                note((store.keep()?, ranking.clone()));
                store.hold();
                Ok(())
            };
            let (bytes, mut rng) = (20 * 512, Rng::new(1));
            let ranks = match begun {
                Some((_, kept)) => resume_ranking(&store, kept, bytes, &mut rng, watch)?,
                None => {
                    let mut list = Vector::writer_of(&store, count)?;
                    successors.clone().try_for_each(|successor| list.push(successor))?;
                    rank_watched(&list.finish()?, 0, bytes, &mut rng, watch)?
                }
            };
            all(ranks.into_stream()?)
        };
        let (ranks, its_cut_count) = cut_after_notes(seed, rank);
        cut_count += its_cut_count;
        let mut element = 0;
        for rank in 0..count {
            assert_eq!(ranks[nandu_base::to_index(element)], rank, "seed {seed}");
            element = (element + 7) % count;
        }
    }
    assert!(cut_count > 60, "{cut_count} cuts");
}

#[derive(Clone)]
enum Ground {
    Graph(KeptGraph),
    Clusters(KeptClustering),
}

#[test]
fn a_search_goes_on_after_power_cuts() {
    type Noted = (KeptStore, Ground);
    let class = GraphClass::Random { nodes: 800, edges: 2000 };
    let bytes = 40 << 10;
    let search = |io: &Io, begun: Option<&Noted>, note: &mut dyn FnMut(Noted)| {
        let vectors = match begun {
            None => Vec::new(),
            Some((_, Ground::Graph(graph))) => graph.vectors().to_vec(),
            Some((_, Ground::Clusters(clusters))) => clusters.vectors().to_vec(),
        };
        let store = store_of(io, begun.map(|begun| (&begun.0, &vectors[..])))?;
        let graph = match begun {
            Some((_, Ground::Clusters(_))) => None,
            Some((_, Ground::Graph(kept))) => Some(Graph::resume(&store, kept)?),
            None => {
                let graph = Graph::build(&store, class.node_count(), class.edges(1), bytes)?;
                note((store.keep()?, Ground::Graph(graph.kept())));
                Some(graph)
            }
        };
        let (both, settings) = ((&store, &store), ClusteringSettings::default());
        let clusters = match (graph, begun) {
            (Some(graph), _) => {
                let clusters = Clustering::build(&graph, 5, both, bytes, settings)?;
                note((store.keep()?, Ground::Clusters(clusters.kept())));
                clusters
            }
            (None, Some((_, Ground::Clusters(kept)))) => Clustering::resume(&store, kept)?,
            (None, _) => unreachable!("a graph or clusters are there"),
        };
        let mut levels = vec![END; nandu_base::to_index(class.node_count())];
        clusters.search(5, &store, bytes, PoolSettings::default(), |node, level| {
            levels[nandu_base::to_index(node)] = level;
            Ok(())
        })?;
        Ok(levels)
    };
    let io = nandu_external::testing::memory_io(8 << 20);
    let expected = search(&io, None, &mut |_| {}).unwrap();
    let mut cut_count = 0;
    for seed in SEEDS {
        let (levels, its_cut_count) = cut_after_notes(seed, search);
        assert_eq!(levels, expected, "seed {seed}");
        cut_count += its_cut_count;
    }
    assert!(cut_count > 10, "{cut_count} cuts");
}
