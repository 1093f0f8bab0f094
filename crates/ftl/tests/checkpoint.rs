//! What checkpoints of the page map buy and cost: a shorter recovery, flash pages of map.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::Timed;
use nandu_base::{Cause, FlashOperation, Lpn, Nanos, Rng};
use nandu_ftl::{Ftl, FtlConfig, FtlError, PageConfig, TrimDurability};
use nandu_nand::{NandArray, NandConfig, NandProfile};

const UNITS: u64 = 6000;

fn array(blocks: u32) -> NandArray {
    let profile = NandProfile {
        preset: "myers_slc".into(),
        channel_count: 1,
        dies_per_channel: 2,
        erase_blocks_per_plane: blocks,
        ..NandProfile::default()
    };
    let config = profile.resolve().unwrap();
    NandArray::new(NandConfig { keep_content: false, ..config }).unwrap()
}

fn config(checkpoint_interval_rows: u64, trim_durability: TrimDurability) -> FtlConfig {
    FtlConfig::Page(PageConfig {
        checkpoint_interval_rows,
        trim_durability,
        ..PageConfig::default()
    })
}

/// A device in use, with `writes` random writes after its fill.
fn used(config: &FtlConfig, writes: u64) -> (NandArray, Box<dyn Ftl>) {
    let mut nand = array(64);
    let mut ftl = config.build(&nand, UNITS, 1).unwrap();
    let mut rng = Rng::new(7);
    let mut now = Nanos::ZERO;
    let random = (0..writes).map(|_| rng.below(UNITS));
    for lpn in (0..UNITS).chain(random) {
        now = ftl.write_at(&mut nand, now, Lpn(lpn), None).unwrap();
    }
    (nand, ftl)
}

/// Time and spare areas of a recovery, and commands for map pages before it.
fn recovery(config: &FtlConfig, writes: u64) -> (u64, u64, u64) {
    let (mut nand, _) = used(config, writes);
    let map_writes = nand.counters().get(FlashOperation::Program, Cause::MapWrite);
    let before = nand.idle_at();
    let mut fresh = config.build(&nand, UNITS, 1).unwrap();
    let done = fresh.recover_at(&mut nand, before).unwrap();
    fresh.audit(&nand);
    let spare_reads = nand.counters().get(FlashOperation::SpareRead, Cause::Recovery);
    ((done - before).0, spare_reads, map_writes)
}

#[test]
fn recovery_reads_the_spare_areas_of_what_was_programmed_since_the_checkpoint() {
    let (without_ns, without_reads, none) = recovery(&config(0, TrimDurability::Volatile), 9000);
    let (with_ns, with_reads, map_writes) = recovery(&config(1000, TrimDurability::Volatile), 9000);
    assert_eq!(none, 0);
    // All programmed flash pages, and one more for each group that is not full or free.
    let programmed = 128 * 64;
    assert!((programmed * 9 / 10..programmed + 128).contains(&without_reads), "{without_reads}");
    // One for each group, twice where it is scanned, and at most an interval of rows.
    assert!(with_reads < 2 * 128 + 1000 + 128, "{with_reads}");
    assert!(with_ns * 4 < without_ns, "{with_ns} against {without_ns} ns");
    // 6128 words in rows of 507: 13 flash pages for each checkpoint of 1000 programs.
    assert_eq!(map_writes % 13, 0, "{map_writes}");
    assert!(map_writes >= 13 * 15, "{map_writes}");
}

#[test]
fn a_shorter_interval_costs_more_map_pages_and_less_recovery() {
    let volatile = TrimDurability::Volatile;
    let [often, seldom] = [500, 4000].map(|interval| recovery(&config(interval, volatile), 7000));
    assert!(often.2 > seldom.2 * 4, "{often:?} {seldom:?}");
    assert!(often.1 < seldom.1, "{often:?} {seldom:?}");
}

#[test]
fn a_flushed_trim_survives_if_it_is_journaled_and_may_not_if_it_is_volatile() {
    for (trim_durability, survives) in
        [(TrimDurability::Volatile, false), (TrimDurability::Journaled, true)]
    {
        let config = config(0, trim_durability);
        let (mut nand, mut ftl) = used(&config, 0);
        let now = nand.idle_at();
        let now = ftl.trim_at(&mut nand, now, Lpn(100), 50).unwrap();
        let now = ftl.flush_at(&mut nand, now).unwrap();
        let mut fresh = config.build(&nand, UNITS, 1).unwrap();
        fresh.recover_at(&mut nand, now).unwrap();
        for lpn in [99, 100, 149, 150] {
            let now = nand.now();
            let done = fresh.read_at(&mut nand, now, Lpn(lpn), 512).unwrap();
            let is_mapped = done > now;
            assert_eq!(is_mapped, !survives || !(100..150).contains(&lpn), "unit {lpn}");
        }
    }
}

/// Programs of map pages so far.
fn map_writes(nand: &NandArray) -> u64 {
    nand.counters().get(FlashOperation::Program, Cause::MapWrite)
}

#[test]
fn a_checkpoint_is_not_believed_about_units_whose_group_was_erased_since() {
    let config = config(5000, TrimDurability::Volatile);
    let (mut nand, mut ftl) = used(&config, 6000);
    let (mut rng, mut now) = (Rng::new(9), nand.idle_at());
    let before = map_writes(&nand);
    while map_writes(&nand) == before {
        now = ftl.write_at(&mut nand, now, Lpn(rng.below(UNITS)), None).unwrap();
    }
    // The checkpoint names all units. Many are trimmed, and what held them is erased and programmed
    // with others before the next one.
    let trimmed = 2000;
    now = ftl.trim_at(&mut nand, now, Lpn(0), trimmed).unwrap();
    let before = map_writes(&nand);
    for _ in 0..1500 {
        let lpn = trimmed + rng.below(UNITS - trimmed);
        now = ftl.write_at(&mut nand, now, Lpn(lpn), None).unwrap();
    }
    assert_eq!(map_writes(&nand), before, "the next checkpoint is still to come");
    now = ftl.flush_at(&mut nand, now).unwrap();
    let mut fresh = config.build(&nand, UNITS, 1).unwrap();
    fresh.recover_at(&mut nand, now).unwrap();
    fresh.audit(&nand);
    let is_mapped = |&lpn: &u64| {
        let now = nand.now();
        fresh.read_at(&mut nand, now, Lpn(lpn), 512).unwrap() > now
    };
    let back = (0..trimmed).filter(is_mapped).count();
    assert!((1..1900).contains(&back), "some trims were undone, others cannot be: {back}");
}

#[test]
fn erase_blocks_too_short_for_a_log_are_refused() {
    let mut config = *array(64).config();
    config.geometry.flash_pages_per_erase_block = 4;
    let nand = NandArray::new(config).unwrap();
    let refused = self::config(10, TrimDurability::Volatile).build(&nand, 100, 1);
    assert!(matches!(refused, Err(FtlError::Configuration(text)) if text.contains("flash pages")));
}

#[test]
fn a_checkpoint_of_several_groups_fits_on_paired_pages() {
    let mut nand_config = *array(200).config();
    nand_config.geometry.flash_pages_per_erase_block = 8;
    nand_config.geometry.flash_page_bytes = 512;
    nand_config.rules.paired_pages = true;
    nand_config.rules.programs_per_erase = 1;
    let mut nand = NandArray::new(nand_config).unwrap();
    let config = config(400, TrimDurability::Journaled);
    let mut ftl = config.build(&nand, 1500, 1).unwrap();
    let mut rng = Rng::new(3);
    let mut now = Nanos::ZERO;
    for _ in 0..4000 {
        now = ftl.write_at(&mut nand, now, Lpn(rng.below(1500)), None).unwrap();
        ftl.audit(&nand);
    }
    // 1900 words in rows of 123: 16 parts in two erase blocks, and the pairs of the last one at most.
    let map_writes = nand.counters().get(FlashOperation::Program, Cause::MapWrite);
    let checkpoint_count = 4000 / 400;
    assert!((16 * 8..=17 * 2 * checkpoint_count).contains(&map_writes), "{map_writes}");
    let mut fresh = config.build(&nand, 1500, 1).unwrap();
    fresh.recover_at(&mut nand, now).unwrap();
    fresh.audit(&nand);
}
