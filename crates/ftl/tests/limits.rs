//! Page mapping at its limits: as little spare space as is accepted, and none left at all.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{CleaningFrontier, Ftl, FtlError, PageConfig, PageFtl, VictimPolicy};
use nandu_nand::{ChipOverrides, NandArray, NandProfile, Rules};
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
    (1..4_u32, 1..3_u32, 6..14_u32, 2..9_u32, units).prop_map(
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
    (frontier, victim, 1..4_u32, 1..4_u8, 0..2_u32).prop_map(
        |(cleaning_frontier, victim, reserve_count, stream_count, idle_clean_count)| PageConfig {
            cleaning_frontier,
            victim,
            reserve_count,
            stream_count,
            idle_clean_count,
            ..PageConfig::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_device_with_the_least_space_that_is_accepted_never_fills_up(
        (shape, config, paired_pages, seed) in (shapes(), configs(), any::<bool>(), any::<u64>())
    ) {
        let mut nand = array(shape, Rules { paired_pages, ..Rules::default() });
        let Some(mut ftl) = fullest(&config, &nand) else { return Ok(()) };
        let mut rng = Rng::new(seed);
        let units = ftl.unit_count();
        let mut now = Nanos::ZERO;
        for lpn in (0..units).chain((0..6 * units).map(|_| u64::MAX)) {
            let lpn = if lpn == u64::MAX { rng.below(units) } else { lpn };
            let stream = u8::try_from(rng.below(u64::from(config.stream_count))).unwrap();
            let written = ftl.write_to_stream(&mut nand, now, Lpn(lpn), None, stream);
            prop_assert!(written.is_ok(), "{units} units: {written:?}");
            now = written.unwrap();
            match rng.below(40) {
                0 => now = ftl.flush(&mut nand, now).unwrap(),
                1 => ftl.idle(&mut nand, now, now + Nanos::from_micros(3000)),
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
            match ftl.write_to_stream(&mut nand, Nanos::ZERO, lpn, None, stream) {
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

#[test]
fn a_pool_without_space_to_gain_does_not_hide_the_others() {
    // The first stream holds static data, more than its share says; the second one is overwritten.
    let config = PageConfig {
        cleaning_frontier: CleaningFrontier::PerStream,
        stream_count: 2,
        stream_share_ppm: vec![100_000, 900_000],
        ..PageConfig::default()
    };
    for victim in [VictimPolicy::Greedy, VictimPolicy::CostBenefit] {
        let mut nand = array(SMALL, Rules::default());
        let config = PageConfig { victim, ..config.clone() };
        let mut ftl = PageFtl::new(&config, &nand, 64, 5).unwrap();
        let mut write = |lpn, stream| {
            ftl.write_to_stream(&mut nand, Nanos::ZERO, Lpn(lpn), None, stream).unwrap();
        };
        (0..48).for_each(|lpn| write(lpn, 0));
        (0..400).for_each(|turn| write(48 + turn % 16, 1));
        ftl.audit(&nand);
    }
}
