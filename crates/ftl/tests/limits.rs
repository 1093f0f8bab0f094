//! Page mapping at its limits: as little spare space as is accepted, and none left at all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::Timed;
use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{
    CleaningFrontier, CleaningMode, DieChoice, Ftl, FtlError, PageConfig, PageFtl, TrimDurability,
    VictimPolicy,
};
use nandu_nand::{ChipOverrides, NandArray, NandProfile, Rules, Ticket};
use proptest::prelude::*;

/// Dies, planes, erase blocks of a plane, flash pages of an erase block, units of a flash page.
#[derive(Clone, Copy, Debug)]
struct Shape {
    dies: u32,
    planes: u32,
    erase_blocks: u32,
    pages: u32,
    units: u32,
}

const SMALL: Shape = Shape { dies: 1, planes: 1, erase_blocks: 16, pages: 8, units: 1 };

fn array(shape: Shape, rules: Rules) -> NandArray {
    let profile = NandProfile {
        preset: "myers_slc".into(),
        channel_count: 1,
        dies_per_channel: shape.dies,
        planes_per_die: Some(shape.planes),
        erase_blocks_per_plane: shape.erase_blocks,
        overrides: ChipOverrides {
            flash_pages_per_erase_block: Some(shape.pages),
            rules: Some(rules),
            ..ChipOverrides::default()
        },
        units_per_flash_page: Some(shape.units),
    };
    NandArray::new(profile.resolve().unwrap()).unwrap()
}

/// The layer with the most units that is accepted, if any is.
fn fullest(config: &PageConfig, nand: &NandArray) -> Option<PageFtl> {
    let units = nand.config().units_per_flash_page;
    let unit_bytes = Some(nand.geometry().flash_page_bytes / units);
    let config = PageConfig { unit_bytes, ..config.clone() };
    let all = nand.geometry().flash_page_count() * u64::from(units);
    (1..all).rev().find_map(|count| PageFtl::new(&config, nand, count, 5).ok())
}

fn shapes() -> impl Strategy<Value = Shape> {
    let units = prop_oneof![Just(1), Just(2), Just(4)];
    (1..4_u32, 1..3_u32, 6..14_u32, 1..11_u32, units).prop_map(
        |(dies, planes, erase_blocks, pages, units)| Shape {
            dies,
            planes,
            erase_blocks,
            pages,
            units,
        },
    )
}

fn configs() -> impl Strategy<Value = PageConfig> {
    let frontier = prop_oneof![
        Just(CleaningFrontier::Shared),
        Just(CleaningFrontier::One),
        Just(CleaningFrontier::PerStream)
    ];
    let victim = prop::sample::select(&VictimPolicy::ALL[..]);
    let metadata = (any::<bool>(), prop_oneof![Just(0), 1..60_u64]);
    let wear = (any::<bool>(), prop_oneof![Just(0), Just(1), Just(3)], 1..5_u32);
    let streams = (1..4_u8, any::<bool>());
    let counts = (1..4_u32, 0..3_u32, any::<bool>());
    let die_choice = prop_oneof![
        Just(DieChoice::RoundRobin),
        Just(DieChoice::Static),
        Just(DieChoice::LeastWork),
        Just(DieChoice::LeastBacklog)
    ];
    let pace = (any::<bool>(), 2..5_u32, prop_oneof![Just(0), Just(400_000)], die_choice);
    (frontier, victim, counts, streams, metadata, wear, pace).prop_map(
        |(cleaning_frontier, victim, counts, (stream_count, shares), metadata, wear, pace)| {
            let (is_paced, pace_start_groups, pace_put_off_ns, die_choice) = pace;
            let is_paced = is_paced && cleaning_frontier != CleaningFrontier::Shared;
            let has_shares = shares && cleaning_frontier == CleaningFrontier::PerStream;
            let share_ppm = 1_000_000 / u32::from(stream_count);
            PageConfig {
                cleaning_frontier,
                victim,
                reserve_count: counts.0,
                idle_clean_count: counts.1,
                multi_plane: counts.2,
                stream_count,
                stream_share_ppm: vec![share_ppm; if has_shares { stream_count.into() } else { 0 }],
                trim_durability: match metadata.0 {
                    true => TrimDurability::Journaled,
                    false => TrimDurability::Volatile,
                },
                checkpoint_interval_rows: metadata.1,
                dynamic_wear_levelling: wear.0,
                static_wear_threshold: wear.1,
                static_wear_interval: wear.2,
                cleaning: if is_paced { CleaningMode::Paced } else { CleaningMode::WholeVictim },
                pace_start_groups,
                pace_put_off_ns: if is_paced { pace_put_off_ns } else { 0 },
                die_choice,
                ..PageConfig::default()
            }
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_device_with_the_least_space_that_is_accepted_never_fills_up(
        (shape, config, paired_pages, seed) in (shapes(), configs(), any::<bool>(), any::<u64>())
    ) {
        let mut nand = array(shape, Rules { paired_pages, ..Rules::default() });
        let Some(mut ftl) = fullest(&config, &nand) else { return Ok(()) };
        let mut rng = Rng::new(seed);
        let units = ftl.unit_count();
        let mut now = Nanos::ZERO;
        // After the fill uniform writes, a few units over and over, or mostly an eighth of them.
        let load = rng.below(3);
        for lpn in (0..units).chain((0..6 * units).map(|_| u64::MAX)) {
            let range = match load {
                0 => units,
                1 => units.min(3),
                _ if rng.below(10) == 0 => units,
                _ => units.div_ceil(8),
            };
            let lpn = if lpn == u64::MAX { rng.below(range) } else { lpn };
            let stream = u8::try_from(rng.below(u64::from(config.stream_count))).unwrap();
            let written = ftl.write_to_stream_at(&mut nand, now, (Lpn(lpn), stream), None);
            prop_assert!(written.is_ok(), "{units} units: {written:?}");
            now = written.unwrap();
            match rng.below(40) {
                0 => now = ftl.flush_at(&mut nand, now).unwrap(),
                1 => now = ftl.rest(&mut nand, now, Nanos::from_micros(3000)),
                2 => now = ftl.trim_at(&mut nand, now, Lpn(lpn), 1).unwrap(),
                3 => ftl.audit(&nand),
                _ => {}
            }
        }
        ftl.audit(&nand);
    }

    #[test]
    fn a_device_that_wears_out_keeps_what_it_holds(
        (shape, config, endurance, seed) in (shapes(), configs(), 1..5_u32, any::<u64>())
    ) {
        let mut nand = array(shape, Rules { endurance, ..Rules::default() });
        let Some(mut ftl) = fullest(&config, &nand) else { return Ok(()) };
        let mut rng = Rng::new(seed);
        let units = ftl.unit_count();
        let mut refused = 0;
        while refused < 5 {
            let stream = u8::try_from(rng.below(u64::from(config.stream_count))).unwrap();
            let lpn = Lpn(rng.below(units));
            match ftl.write_to_stream(&mut nand, Ticket::READY, lpn, None, stream) {
                Ok(_) => {}
                Err(FtlError::DeviceFull) => {
                    refused += 1;
                    ftl.audit(&nand);
                }
                Err(error) => prop_assert!(false, "{}", error),
            }
        }
    }
}

/// Fills the layer and goes on with writes to a few units or mostly to an eighth of them; the most
/// erases that one write waited for.
fn longest_stall(nand: &mut NandArray, ftl: &mut PageFtl, streams: u8, seed: u64) -> u64 {
    let (units, mut longest) = (ftl.unit_count(), 0);
    let mut rng = Rng::new(seed);
    for turn in 0..8 * units {
        let range = if rng.below(10) == 0 { units } else { units.div_ceil(8) };
        let lpn = match turn {
            _ if turn < units => turn,
            _ if seed.is_multiple_of(2) => (turn / 7) % 3 % units,
            _ => rng.below(range),
        };
        let stream = u8::try_from(rng.below(streams.into())).unwrap();
        let before = nand.wear().erase_count_sum;
        ftl.write_to_stream(nand, Ticket::READY, Lpn(lpn), None, stream).unwrap();
        longest = longest.max(nand.wear().erase_count_sum - before);
        match rng.below(40) {
            0 => _ = ftl.flush(nand, Ticket::READY).unwrap(),
            1 => _ = ftl.rest(nand, Nanos::ZERO, Nanos::from_micros(3000)),
            2 => _ = ftl.trim(nand, Ticket::READY, Lpn(lpn), 1).unwrap(),
            _ => {}
        }
    }
    ftl.audit(nand);
    longest
}

#[test]
fn streams_that_share_their_frontiers_with_copies_do_not_make_a_write_clean_the_whole_device() {
    let shapes = [(1, 10, 6, 2), (2, 11, 8, 1), (1, 13, 1, 2), (2, 9, 2, 1)];
    for (planes, erase_blocks, pages, units) in shapes {
        let shape = Shape { dies: 1, planes, erase_blocks, pages, units };
        for (stream_count, seed) in [(1, 1), (2, 1), (3, 1), (2, 2), (3, 2), (3, 4)] {
            let config = PageConfig {
                cleaning_frontier: CleaningFrontier::Shared,
                stream_count,
                reserve_count: 3,
                idle_clean_count: 1,
                ..PageConfig::default()
            };
            let mut nand = array(shape, Rules::default());
            let Some(mut ftl) = fullest(&config, &nand) else { continue };
            let longest = longest_stall(&mut nand, &mut ftl, stream_count, seed);
            let all = u64::from(planes * erase_blocks);
            assert!(longest < all, "{shape:?}, {stream_count} streams: {longest} of {all} erased");
        }
    }
}

#[test]
fn erase_blocks_of_an_odd_number_of_paired_pages_have_room_for_the_journal() {
    let config = PageConfig {
        trim_durability: TrimDurability::Journaled,
        checkpoint_interval_rows: 40,
        ..PageConfig::default()
    };
    // More than 2028 units, so that a checkpoint takes five records and their partners.
    let shape = Shape { erase_blocks: 300, pages: 9, ..SMALL };
    let mut nand = array(shape, Rules { paired_pages: true, ..Rules::default() });
    let mut ftl = fullest(&config, &nand).unwrap();
    let units = ftl.unit_count();
    let mut rng = Rng::new(3);
    assert!(units > 2028, "{units}");
    for _ in 0..2 * units {
        let lpn = Lpn(rng.below(units));
        ftl.write(&mut nand, Ticket::READY, lpn, None).unwrap();
        if rng.below(4) == 0 {
            ftl.trim(&mut nand, Ticket::READY, lpn, 1).unwrap();
            ftl.flush(&mut nand, Ticket::READY).unwrap();
        }
    }
    ftl.audit(&nand);
}

#[test]
fn a_pool_without_space_to_gain_does_not_hide_the_others() {
    // The first stream holds static data, more than its share says; the second one is overwritten.
    let config = PageConfig {
        cleaning_frontier: CleaningFrontier::PerStream,
        stream_count: 2,
        stream_share_ppm: vec![100_000, 900_000],
        ..PageConfig::default()
    };
    for victim in VictimPolicy::ALL {
        let mut nand = array(SMALL, Rules::default());
        let config = PageConfig { victim, ..config.clone() };
        let mut ftl = PageFtl::new(&config, &nand, 64, 5).unwrap();
        let mut write = |lpn, stream| {
            ftl.write_to_stream(&mut nand, Ticket::READY, Lpn(lpn), None, stream).unwrap();
        };
        (0..48).for_each(|lpn| write(lpn, 0));
        (0..400).for_each(|turn| write(48 + turn % 16, 1));
        ftl.audit(&nand);
    }
}

#[test]
fn paced_copies_among_the_hosts_own_rows_are_refused() {
    let nand = array(SMALL, Rules::default());
    let config = PageConfig {
        cleaning: CleaningMode::Paced,
        cleaning_frontier: CleaningFrontier::Shared,
        ..PageConfig::default()
    };
    let said = PageFtl::new(&config, &nand, 64, 5).unwrap_err().to_string();
    assert!(said.contains("\"one\" or \"per_stream\", not \"shared\""), "{said}");
}

/// Rows that are programmed before they are full, by a flush after every write, are a turn of their
/// die like any other: the next unit goes to the next die.
#[test]
fn a_flush_after_every_write_does_not_fill_one_die_alone() {
    const LOGICAL: u64 = 1024;
    for cleaning in [CleaningMode::WholeVictim, CleaningMode::Paced] {
        for die_choice in [DieChoice::RoundRobin, DieChoice::LeastWork, DieChoice::Static] {
            let shape = Shape { dies: 4, planes: 4, erase_blocks: 16, ..SMALL };
            let mut nand = array(shape, Rules::default());
            let config = PageConfig { cleaning, die_choice, ..PageConfig::default() };
            let mut ftl = PageFtl::new(&config, &nand, LOGICAL, 5).unwrap();
            ftl.initialise_sequential(&mut nand).unwrap();
            let mut rng = Rng::new(5);
            let mut now = Nanos::ZERO;
            for _ in 0..4 * LOGICAL {
                now = ftl.write_at(&mut nand, now, Lpn(rng.below(LOGICAL)), None).unwrap();
                now = ftl.flush_at(&mut nand, now).unwrap();
            }
            let held = nand.usage().die_held;
            let (least, most) = (held.iter().min().unwrap(), held.iter().max().unwrap());
            assert!(least.0 * 2 > most.0, "{cleaning:?}, {die_choice:?}: {held:?}");
        }
    }
}
