//! The closed single-server mode of the papers and the modes of a drive with many dies do the same
//! work: times differ, commands do not (flash reference 0.3, rule 3). Every layer runs the same trace
//! under every timing; what is read is what was written, and the layer's own audit holds.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{FlashCounters, FlashOperation, Lpn, Nanos, Rng, WearSummary};
use nandu_ftl::{
    ChunkConfig, CleaningFrontier, DftlConfig, Ftl, FtlConfig, FtlKind, PageConfig, VictimPolicy,
};
use nandu_nand::{
    Content, Energy, Geometry, NandArray, NandConfig, Rules, Scheduling, Service, Suspend, Timing,
};
use std::sync::Arc;

const UNITS: u64 = 240;
const STEPS: u64 = 6000;

/// One of every kind, and what else a layer may decide by: victims, frontiers, streams, wear.
fn layers() -> Vec<FtlConfig> {
    let page = PageConfig::default;
    let victims = VictimPolicy::ALL.map(|victim| PageConfig { victim, ..page() });
    let streams =
        PageConfig { stream_count: 2, cleaning_frontier: CleaningFrontier::PerStream, ..page() };
    let wear = PageConfig { static_wear_threshold: 4, static_wear_interval: 2, ..page() };
    let pages = victims.into_iter().chain([streams, wear]).map(FtlConfig::Page);
    let separate_copies =
        DftlConfig { cached_entry_count: 24, separate_copies: true, ..DftlConfig::default() };
    let chunk = ChunkConfig {
        active_chunk_count: 2,
        copy_back: true,
        map_write_per_page_write: true,
        map_cache_chunks: 2,
        ..ChunkConfig::new(2048)
    };
    let kinds = FtlKind::ALL.iter().map(|kind| kind.small(8 * 64));
    let others = [FtlConfig::Dftl(separate_copies), FtlConfig::Chunk(chunk)];
    kinds.chain(pages).chain(others).collect()
}

/// When the next request is issued.
#[derive(Clone, Copy, Debug)]
enum Arrival {
    /// When the one before is done.
    Closed,
    /// Every so often, whatever is under way.
    Open(Nanos),
}

#[derive(Clone, Copy, Debug)]
struct Mode {
    timing: Timing,
    scheduling: Scheduling,
    arrival: Arrival,
}

const SLC: Timing = Timing {
    read_ns: Nanos(20_000),
    program_ns: Nanos(200_000),
    program_type_ns: nandu_nand::PageTypes::ALIKE,
    erase_ns: Nanos(1_500_000),
    command_ns: Nanos::ZERO,
    bus_bytes_per_second: 0,
    cache_register: false,
};

fn modes() -> Vec<Mode> {
    let parallel = Scheduling::default();
    let single = Scheduling { service: Service::SingleServer, ..parallel };
    let suspend = Suspend { program_ns: Nanos(5000), erase_ns: Nanos(7000) };
    let urgent = Scheduling { read_priority: true, suspend: Some(suspend), ..parallel };
    let slow_bus = Timing { bus_bytes_per_second: 1_000_000, command_ns: Nanos(300), ..SLC };
    let odd = Timing { read_ns: Nanos(1), program_ns: Nanos(2), erase_ns: Nanos(3), ..slow_bus };
    let cached = Timing { cache_register: true, ..slow_bus };
    let often = Arrival::Open(Nanos(10));
    let seldom = Arrival::Open(Nanos(3_000_000));
    vec![
        Mode { timing: SLC, scheduling: single, arrival: Arrival::Closed },
        Mode { timing: SLC, scheduling: parallel, arrival: Arrival::Closed },
        Mode { timing: slow_bus, scheduling: parallel, arrival: often },
        Mode { timing: odd, scheduling: parallel, arrival: seldom },
        Mode { timing: cached, scheduling: parallel, arrival: often },
        Mode { timing: slow_bus, scheduling: urgent, arrival: often },
        Mode { timing: slow_bus, scheduling: single, arrival: often },
    ]
}

fn array(dies: u32, timing: Timing) -> NandArray {
    NandArray::new(NandConfig {
        geometry: Geometry {
            channel_count: dies.min(2),
            dies_per_channel: dies.div_ceil(2),
            planes_per_die: 1,
            erase_blocks_per_plane: 64 / dies,
            flash_pages_per_erase_block: 8,
            flash_page_bytes: 64,
            spare_bytes: 16,
        },
        timing,
        energy: Energy::default(),
        rules: Rules::default(),
        units_per_flash_page: 1,
        keep_content: true,
        power_cut_journal: false,
    })
    .unwrap()
}

/// What a run did, apart from when.
#[derive(Debug, PartialEq, Eq)]
struct Work {
    counters: FlashCounters,
    wear: WearSummary,
    host_pages: (u64, u64),
}

/// The seeded trace: hot and cold writes, reads, trims and runs of neighbours.
fn run(config: &FtlConfig, dies: u32, mode: Mode) -> (Work, Nanos) {
    let mut nand = array(dies, mode.timing);
    nand.set_scheduling(mode.scheduling);
    let mut ftl = config.build(&nand, UNITS, 5).unwrap();
    ftl.initialise_sequential(&mut nand).unwrap();
    let mut last_written: Vec<Option<u64>> = vec![None; usize::try_from(UNITS).unwrap()];
    let mut rng = Rng::new(77);
    let mut now = Nanos::ZERO;
    for step in 0..STEPS {
        let range = if rng.below(4) == 0 { UNITS } else { UNITS / 8 };
        let first = rng.below(range);
        let count = if rng.below(8) == 0 { 12.min(UNITS - first) } else { 1 };
        let choice = rng.below(20);
        let after = nand.at(now);
        let mut done = after;
        for lpn in first..first + count {
            let slot = &mut last_written[usize::try_from(lpn).unwrap()];
            let end = match choice {
                0..=12 => {
                    *slot = Some(step);
                    {
                        let stream = u8::from(lpn < UNITS / 8);
                        ftl.write_to_stream(&mut nand, after, Lpn(lpn), content(step), stream)
                            .unwrap()
                    }
                }
                13..=18 => {
                    let outcome = ftl.read(&mut nand, after, Lpn(lpn), 64).unwrap();
                    assert_eq!(value(&outcome.content), *slot, "{config:?} {mode:?}: unit {lpn}");
                    outcome.done
                }
                _ => {
                    *slot = None;
                    ftl.trim(&mut nand, after, Lpn(lpn), 1).unwrap()
                }
            };
            done = nand.both(done, end);
        }
        now = match mode.arrival {
            Arrival::Closed => now.max(nand.finish(done)),
            Arrival::Open(interval) => now + interval,
        };
        if step % 500 == 0 {
            ftl.audit(&nand);
        }
    }
    let after = nand.at(now);
    ftl.flush(&mut nand, after).unwrap();
    let end = nand.idle_at();
    conserve(ftl.as_ref(), &nand, &last_written);
    let work = Work { counters: *nand.counters(), wear: nand.wear(), host_pages: ftl.host_pages() };
    (work, end)
}

fn content(step: u64) -> Content {
    Some(Arc::from(step.to_le_bytes().as_slice()))
}

fn value(content: &Content) -> Option<u64> {
    content.as_ref().map(|bytes| u64::from_le_bytes(bytes[..8].try_into().unwrap()))
}

/// Audit compares valid with mapped flash pages; the array's own one compares cells with laws.
fn conserve(ftl: &dyn Ftl, nand: &NandArray, last_written: &[Option<u64>]) {
    ftl.audit(nand);
    nand.audit();
    for (lpn, &expected) in (0_u64..).zip(last_written) {
        assert_eq!(value(&ftl.peek(nand, Lpn(lpn))), expected, "unit {lpn}");
    }
}

#[test]
fn every_layer_does_the_same_work_whatever_the_timing() {
    for config in layers() {
        for dies in [1, 4] {
            let runs: Vec<_> = modes().into_iter().map(|mode| run(&config, dies, mode)).collect();
            for (mode, (work, _)) in modes().iter().zip(&runs) {
                assert_eq!(work, &runs[0].0, "{config:?} on {dies} dies, {mode:?}");
            }
            let (work, elapsed) = &runs[0];
            assert!(
                work.counters.total(FlashOperation::Erase) > 0,
                "{config:?}: nothing to compare"
            );
            assert_eq!(elapsed.0, busy(&work.counters), "{config:?}: one server is never idle");
            assert!(runs[1].1 <= *elapsed, "{config:?}: dies side by side are not slower");
        }
    }
}

/// Time of all commands one after the other, on the chip of the first mode.
fn busy(counters: &FlashCounters) -> u64 {
    counters
        .cells()
        .map(|(operation, _, count)| {
            count
                * match operation {
                    FlashOperation::Read | FlashOperation::SpareRead => SLC.read_ns.0,
                    FlashOperation::Program | FlashOperation::PartialProgram => SLC.program_ns.0,
                    FlashOperation::Erase => SLC.erase_ns.0,
                    FlashOperation::CopyBack => SLC.read_ns.0 + SLC.program_ns.0,
                }
        })
        .sum()
}

#[test]
fn equal_seeds_do_equal_work_at_equal_times() {
    for config in layers() {
        for mode in [modes()[0], modes()[5]] {
            assert_eq!(run(&config, 4, mode), run(&config, 4, mode), "{config:?}");
        }
    }
}
