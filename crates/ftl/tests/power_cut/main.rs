//! Power cuts at every command that changes cells, for every layer that rebuilds its map (flash
//! reference 2.10, target T23).
//!
//! A run is a filled device and a seeded list of steps. It is repeated once for every command of the
//! steps, with the power failing before the command and in the middle of it; and, with writes under
//! way side by side, with cuts at the times at which something begins, runs or ends. A failure prints
//! the variable that replays it alone. What is checked after each cut:
//!
//! 1. Acknowledged and flushed writes survive; where nothing waits in memory, acknowledged ones do.
//! 2. Any other write leaves the old or the new value, never that of another unit or a torn one.
//! 3. A cut during recovery changes nothing of this, however often, and a second recovery finds the
//!    same as the first.
//! 4. Sequence numbers written after the cut are above all that were written before it.
//! 5. Flushed trims stay trimmed, where the layer promises that; otherwise an old value may return.
//! 6. The layer's and the array's audits hold, and the device goes on working.
//!
//! A new kind is cut as it stands in `FtlKind::ALL`; parameters that make it work otherwise are a line of
//! the `matrix!`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "../common/mod.rs"]
mod common;
mod model;
mod run;

use model::Trims;
use nandu_ftl::{
    BastConfig, ChunkConfig, CleaningFrontier, CleaningMode, DftlConfig, DieChoice, DieOrder,
    FastConfig, FasterConfig, FtlConfig, FtlKind, LogEviction, MergeMode, PageConfig,
    SequentialTrigger, TrimDurability, VictimPolicy,
};

/// A layer over a shape of array.
struct Subject {
    name: String,
    config: FtlConfig,
    shape: Shape,
    /// Units of the host.
    units: u64,
    trims: Trims,
}

/// Dies, planes of each, erase blocks of each plane, flash pages and their units, flash pages of an
/// erase block, erases that it stands (0 = any number), and whether its pages share cells in pairs.
#[derive(Clone, Copy)]
struct Shape {
    dies: u32,
    planes: u32,
    blocks: u32,
    flash_page_bytes: u32,
    units_per_flash_page: u32,
    pages: u32,
    endurance: u32,
    paired: bool,
}

const ONE_DIE: Shape = Shape {
    dies: 1,
    planes: 1,
    blocks: 11,
    flash_page_bytes: 512,
    units_per_flash_page: 1,
    pages: 4,
    endurance: 0,
    paired: false,
};
const THREE_DIES: Shape = Shape { dies: 3, blocks: 7, ..ONE_DIE };
/// Two dies of two planes, two units in a flash page: a row gathers four units before it is programmed.
const WIDE: Shape = Shape { dies: 2, planes: 2, blocks: 8, units_per_flash_page: 2, ..ONE_DIE };
/// Erase blocks wear out during the steps: the fill goes on until the first one is about to.
const WORN: Shape = Shape { blocks: 14, endurance: 4, ..ONE_DIE };

/// Erase blocks of eight flash pages, as many as checkpoints need.
const LONG: Shape = Shape { blocks: 13, pages: 8, ..ONE_DIE };
const LONG_DIES: Shape = Shape { dies: 3, blocks: 9, ..LONG };
const LONG_WIDE: Shape = Shape { pages: 8, blocks: 11, ..WIDE };
const LONG_PAIRED: Shape = Shape { paired: true, blocks: 15, ..LONG };
const PAIRED: Shape = Shape { blocks: 14, paired: true, ..ONE_DIE };

fn page(victim: VictimPolicy, unit_bytes: u32) -> FtlConfig {
    FtlConfig::Page(PageConfig {
        unit_bytes: Some(unit_bytes),
        victim,
        idle_clean_count: 1,
        ..PageConfig::default()
    })
}

fn page_shared() -> FtlConfig {
    FtlConfig::Page(PageConfig {
        cleaning_frontier: CleaningFrontier::Shared,
        ..PageConfig::default()
    })
}

/// Cleaned at the host's pace, the dies chosen in a way of their own.
fn page_paced(unit_bytes: u32, die_choice: DieChoice) -> FtlConfig {
    FtlConfig::Page(PageConfig {
        unit_bytes: Some(unit_bytes),
        cleaning: CleaningMode::Paced,
        die_choice,
        die_order: DieOrder::WayFirst,
        idle_clean_count: 1,
        ..PageConfig::default()
    })
}

/// The same, and the host goes before its copies, however long.
fn page_put_off(unit_bytes: u32, die_choice: DieChoice) -> FtlConfig {
    match page_paced(unit_bytes, die_choice) {
        FtlConfig::Page(page) => FtlConfig::Page(PageConfig { pace_put_off_ns: u64::MAX, ..page }),
        other => other,
    }
}

const VOLATILE: TrimDurability = TrimDurability::Volatile;
const JOURNALED: TrimDurability = TrimDurability::Journaled;

/// A page map with checkpoints every so many rows and a journal of trims, or without.
fn page_metadata(unit_bytes: u32, interval: u64, trim_durability: TrimDurability) -> FtlConfig {
    FtlConfig::Page(PageConfig {
        unit_bytes: Some(unit_bytes),
        checkpoint_interval_rows: interval,
        trim_durability,
        idle_clean_count: 1,
        ..PageConfig::default()
    })
}

/// A map cache of a few entries, so that steps write map pages.
fn dftl(separate_copies: bool) -> FtlConfig {
    FtlConfig::Dftl(DftlConfig {
        cached_entry_count: 4,
        reserve_count: 3,
        idle_clean_count: 1,
        separate_copies,
        ..DftlConfig::default()
    })
}

fn bast(victim: LogEviction) -> FtlConfig {
    FtlConfig::Bast(BastConfig { log_block_count: 3, victim })
}

fn fast(log_block_count: u32, sw_trigger: SequentialTrigger) -> FtlConfig {
    let log_block_count = Some(log_block_count);
    FtlConfig::Fast(FastConfig { log_block_count, sw_trigger, ..FastConfig::default() })
}

fn faster(log_block_count: u32, isolation_block_count: u32) -> FtlConfig {
    FtlConfig::Faster(FasterConfig {
        log_block_count: Some(log_block_count),
        isolation: isolation_block_count > 0,
        isolation_block_count,
        ..FasterConfig::default()
    })
}

/// Chunks of two erase blocks; two replacements may be open, or a log of a few pages waits.
fn chunk(interleave: bool, merge_mode: MergeMode) -> FtlConfig {
    FtlConfig::Chunk(ChunkConfig {
        active_chunk_count: 2,
        interleave,
        copy_back: !interleave,
        map_write_per_page_write: !interleave,
        merge_mode,
        log_page_count: 7,
        ..ChunkConfig::new(4096)
    })
}

fn chunk_with_map_cache() -> FtlConfig {
    FtlConfig::Chunk(ChunkConfig {
        map_cache_chunks: 1,
        map_write_per_page_write: true,
        ..ChunkConfig::new(4096)
    })
}

/// One test for each kind: name, layer, shape, units of the host, what a flushed trim is worth.
macro_rules! matrix {
    ($($name:ident: $config:expr, $shape:expr, $units:expr, $trims:expr;)+) => {
        $(#[test]
        fn $name() {
            let name = stringify!($name).to_owned();
            let (config, shape) = ($config, $shape);
            run::all_cuts(&Subject { name, config, shape, units: $units, trims: $trims });
        })+
    };
}

matrix! {
    page_greedy: page(VictimPolicy::Greedy, 512), ONE_DIE, 24, Trims::Volatile;
    page_fifo: page(VictimPolicy::Fifo, 512), ONE_DIE, 24, Trims::Volatile;
    page_windowed: page(VictimPolicy::Windowed, 512), ONE_DIE, 24, Trims::Volatile;
    page_random: page(VictimPolicy::Random, 512), ONE_DIE, 24, Trims::Volatile;
    page_d_choices: page(VictimPolicy::DChoices, 512), ONE_DIE, 24, Trims::Volatile;
    page_cost_benefit: page(VictimPolicy::CostBenefit, 512), ONE_DIE, 24, Trims::Volatile;
    page_shared_frontier: page_shared(), ONE_DIE, 24, Trims::Volatile;
    page_over_dies: page(VictimPolicy::Greedy, 512), THREE_DIES, 24, Trims::Volatile;
    page_over_planes: page(VictimPolicy::Greedy, 256), WIDE, 64, Trims::Volatile;
    page_paced_one_die: page_paced(512, DieChoice::RoundRobin), ONE_DIE, 24, Trims::Volatile;
    page_paced_over_dies: page_paced(512, DieChoice::LeastBacklog), THREE_DIES, 24, Trims::Volatile;
    page_paced_over_planes: page_paced(256, DieChoice::LeastWork), WIDE, 64, Trims::Volatile;
    page_paced_paired: page_paced(512, DieChoice::Static), PAIRED, 16, Trims::Volatile;
    page_paced_worn: page_paced(512, DieChoice::Static), WORN, 20, Trims::Volatile;
    page_put_off_one_die: page_put_off(512, DieChoice::RoundRobin), ONE_DIE, 24, Trims::Volatile;
    page_put_off_over_dies: page_put_off(512, DieChoice::LeastBacklog), THREE_DIES, 24, Trims::Volatile;
    page_put_off_over_planes: page_put_off(256, DieChoice::LeastWork), WIDE, 64, Trims::Volatile;
    page_put_off_paired: page_put_off(512, DieChoice::Static), PAIRED, 16, Trims::Volatile;
    page_worn: page(VictimPolicy::Greedy, 512), WORN, 20, Trims::Volatile;
    page_worn_over_planes: page(VictimPolicy::Fifo, 256), Shape { blocks: 11, endurance: 2, ..WIDE }, 64, Trims::Volatile;
    page_worn_both: page_metadata(512, 9, JOURNALED), Shape { blocks: 18, endurance: 2, ..LONG }, 24, Trims::Journaled;
    page_checkpoints: page_metadata(512, 9, VOLATILE), LONG, 24, Trims::Volatile;
    page_journal: page_metadata(512, 0, JOURNALED), LONG, 24, Trims::Journaled;
    page_both: page_metadata(512, 17, JOURNALED), LONG, 24, Trims::Journaled;
    page_both_over_dies: page_metadata(512, 25, JOURNALED), LONG_DIES, 30, Trims::Journaled;
    page_both_over_planes: page_metadata(256, 7, JOURNALED), LONG_WIDE, 64, Trims::Journaled;
    page_paired: page(VictimPolicy::Greedy, 512), PAIRED, 16, Trims::Volatile;
    page_paired_both: page_metadata(512, 17, JOURNALED), LONG_PAIRED, 20, Trims::Journaled;
    dftl_one_die: dftl(false), Shape { blocks: 14, flash_page_bytes: 16, ..ONE_DIE }, 20, Trims::Volatile;
    dftl_over_dies: dftl(false), Shape { flash_page_bytes: 16, ..THREE_DIES }, 24, Trims::Volatile;
    dftl_separate: dftl(true), Shape { blocks: 8, flash_page_bytes: 16, ..THREE_DIES }, 28, Trims::Volatile;
    dftl_worn: dftl(false), Shape { flash_page_bytes: 16, blocks: 24, ..WORN }, 20, Trims::Volatile;
    bast_lru: bast(LogEviction::Lru), ONE_DIE, 20, Trims::Volatile;
    bast_fifo: bast(LogEviction::Fifo), THREE_DIES, 40, Trims::Volatile;
    fast_first_page: fast(3, SequentialTrigger::Offset0), ONE_DIE, 20, Trims::Volatile;
    fast_two_pages: fast(4, SequentialTrigger::Run2), THREE_DIES, 40, Trims::Volatile;
    fast_without_sequential: fast(2, SequentialTrigger::Off), ONE_DIE, 20, Trims::Volatile;
    faster_merging: faster(2, 0), ONE_DIE, 20, Trims::Volatile;
    faster_isolating: faster(5, 2), THREE_DIES, 40, Trims::Volatile;
    chunk_one_die: chunk(false, MergeMode::Replacement), Shape { blocks: 20, ..ONE_DIE }, 24, Trims::Volatile;
    chunk_over_dies: chunk(true, MergeMode::Replacement), THREE_DIES, 40, Trims::Volatile;
    chunk_with_log: chunk(true, MergeMode::AllAtOnce), Shape { blocks: 8, ..THREE_DIES }, 40, Trims::Volatile;
    chunk_worn: chunk(false, MergeMode::Replacement), Shape { blocks: 24, ..WORN }, 20, Trims::Volatile;
    bast_worn: bast(LogEviction::Lru), WORN, 20, Trims::Volatile;
    fast_worn: fast(3, SequentialTrigger::Offset0), WORN, 20, Trims::Volatile;
    faster_worn: faster(5, 2), WORN, 20, Trims::Volatile;
}

/// Every kind over that shape, with as many erase blocks as it needs and so many more.
fn every_layer(place: &str, shape: Shape, spare_blocks: u32, units: u64) -> Vec<Subject> {
    let subject = |kind: &FtlKind| {
        let mut shape = shape;
        let geometry = run::geometry(&shape);
        let config = kind.small(geometry.erase_block_bytes());
        let bytes = units * u64::from(shape.flash_page_bytes);
        shape.blocks = config.erase_blocks_per_plane(&geometry, bytes, 0) + spare_blocks;
        let name = format!("every_{}_{place}", kind.name());
        Subject { name, config, shape, units, trims: Trims::Volatile }
    };
    FtlKind::ALL.iter().map(subject).collect()
}

#[test]
fn every_layer_on_one_die() {
    every_layer("one_die", ONE_DIE, 2, 24).iter().for_each(run::all_cuts);
}

#[test]
fn every_layer_over_dies() {
    every_layer("over_dies", THREE_DIES, 1, 30).iter().for_each(run::all_cuts);
}

#[test]
fn every_layer_worn() {
    every_layer("worn", WORN, 7, 20).iter().for_each(run::all_cuts);
}

#[test]
fn every_layer_at_the_end_of_its_life_recovers_to_be_read() {
    every_layer("end", WORN, 7, 20).iter().for_each(run::to_the_end);
}

#[test]
fn a_device_at_the_end_of_its_life_recovers_to_be_read() {
    let chunk = |merge_mode| chunk(false, merge_mode);
    let wide = Shape { blocks: 24, ..WORN };
    for (name, config, shape) in [
        ("page_end", page(VictimPolicy::Greedy, 512), WORN),
        ("page_shared_end", page_shared(), WORN),
        ("page_dies_end", page(VictimPolicy::Fifo, 512), Shape { dies: 2, blocks: 9, ..WORN }),
        ("page_wide_end", page(VictimPolicy::Greedy, 256), Shape { endurance: 4, ..WIDE }),
        ("page_both_end", page_metadata(512, 9, JOURNALED), Shape { endurance: 4, ..LONG }),
        ("dftl_end", dftl(false), Shape { flash_page_bytes: 16, ..wide }),
        ("dftl_separate_end", dftl(true), Shape { flash_page_bytes: 16, ..wide }),
        ("bast_end", bast(LogEviction::Lru), WORN),
        ("bast_fifo_end", bast(LogEviction::Fifo), WORN),
        ("fast_end", fast(3, SequentialTrigger::Offset0), WORN),
        ("fast_two_pages_end", fast(4, SequentialTrigger::Run2), WORN),
        ("fast_without_sequential_end", fast(2, SequentialTrigger::Off), WORN),
        ("faster_end", faster(5, 2), WORN),
        ("faster_merging_end", faster(2, 0), WORN),
        ("chunk_end", chunk(MergeMode::Replacement), wide),
        ("chunk_log_end", chunk(MergeMode::AllAtOnce), wide),
        ("chunk_map_end", chunk_with_map_cache(), wide),
    ] {
        let trims = if name == "page_both_end" { Trims::Journaled } else { Trims::Volatile };
        let name = name.to_owned();
        run::to_the_end(&Subject { name, config, shape, units: 20, trims });
    }
}
