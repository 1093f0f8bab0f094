//! Writes that are programmed together leave the chips exactly as those that are written one by one.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{
    CleaningFrontier, Ftl, FtlError, PageConfig, PageFtl, TrimDurability, VictimPolicy,
};
use nandu_nand::{ChipOverrides, NandArray, NandProfile, Rules, Scheduling, Service, Ticket};
use proptest::prelude::*;

const ERASE_BLOCKS: u32 = 48;
const PAGES: u32 = 16;

/// None where reserve, frontiers and metadata leave too little for the units.
fn drive(
    config: &PageConfig,
    paired_pages: bool,
    die_count: u32,
) -> Option<(NandArray, PageFtl, u64)> {
    let profile = NandProfile {
        preset: "myers_slc".into(),
        channel_count: 1,
        dies_per_channel: die_count,
        erase_blocks_per_plane: ERASE_BLOCKS / die_count,
        overrides: ChipOverrides {
            flash_pages_per_erase_block: Some(PAGES),
            ..ChipOverrides::default()
        },
        ..NandProfile::default()
    };
    let mut nand = profile.resolve().unwrap();
    nand.rules = Rules { paired_pages, ..Rules::default() };
    let mut nand = NandArray::new(nand).unwrap();
    nand.set_scheduling(Scheduling { service: Service::SingleServer, ..Scheduling::default() });
    let unit_count = u64::from(ERASE_BLOCKS * PAGES) * 60 / 100;
    let mut ftl = match PageFtl::new(config, &nand, unit_count, 5) {
        Err(FtlError::Configuration(_)) => return None,
        ftl => ftl.unwrap(),
    };
    ftl.initialise_sequential(&mut nand).unwrap();
    Some((nand, ftl, unit_count))
}

/// Everything that can be seen of the chips.
fn cells(nand: &mut NandArray) -> (Vec<Vec<u32>>, Vec<u64>, Nanos, Nanos, String) {
    let blocks = 0..nand.geometry().erase_block_count();
    let tags = blocks.clone().map(|block| nand.tags(block).to_vec()).collect();
    let erases = blocks.map(|block| u64::from(nand.erase_count(block))).collect();
    (tags, erases, nand.busy(), nand.idle_at(), format!("{:?}", nand.counters()))
}

fn configs() -> impl Strategy<Value = PageConfig> {
    let victims = prop::sample::select(vec![
        VictimPolicy::Greedy,
        VictimPolicy::Fifo,
        VictimPolicy::Windowed,
        VictimPolicy::Random,
        VictimPolicy::DChoices,
        VictimPolicy::CostBenefit,
    ]);
    let frontiers = prop::sample::select(vec![
        CleaningFrontier::Shared,
        CleaningFrontier::One,
        CleaningFrontier::PerStream,
    ]);
    let checkpoints = prop::sample::select(vec![0_u64, 1, 7, 100]);
    (victims, frontiers, checkpoints, 0_u32..3, any::<bool>()).prop_map(
        |(victim, cleaning_frontier, checkpoint_interval_rows, wear, journaled)| PageConfig {
            victim,
            cleaning_frontier,
            checkpoint_interval_rows,
            stream_count: 2,
            static_wear_threshold: wear,
            trim_durability: match journaled {
                true => TrimDurability::Journaled,
                false => TrimDurability::Volatile,
            },
            ..PageConfig::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn writes_in_turn_equal_single_writes(
        config in configs(),
        paired_pages in any::<bool>(),
        die_count in prop::sample::select(vec![1_u32, 1, 1, 2]),
        seed in any::<u64>(),
    ) {
        let made = drive(&config, paired_pages, die_count);
        prop_assume!(made.is_some());
        let (mut nand, mut ftl, unit_count) = made.unwrap();
        let (mut other_nand, mut other_ftl, _) = drive(&config, paired_pages, die_count).unwrap();
        let mut rng = Rng::new(seed);
        let (mut after, mut done) = (Ticket::READY, Vec::new());
        for _ in 0..60 {
            let lpns: Vec<Lpn> =
                (0..rng.below(40)).map(|_| Lpn(rng.below(unit_count))).collect();
            let stream = u8::try_from(rng.below(2)).unwrap();
            done.clear();
            ftl.write_in_turn(&mut nand, after, &lpns, stream, &mut done).unwrap();
            prop_assert_eq!(done.len(), lpns.len());
            for (&lpn, &expected) in lpns.iter().zip(&done) {
                let written =
                    other_ftl.write_to_stream(&mut other_nand, after, lpn, None, stream);
                after = written.unwrap();
                prop_assert_eq!(after, expected);
            }
            if rng.below(4) == 0 {
                let first = Lpn(rng.below(unit_count - 4));
                let trimmed = ftl.trim(&mut nand, after, first, 4).unwrap();
                let other = other_ftl.trim(&mut other_nand, after, first, 4).unwrap();
                prop_assert_eq!(trimmed, other);
                after = trimmed;
            }
        }
        prop_assert_eq!(cells(&mut nand), cells(&mut other_nand));
        prop_assert_eq!(ftl.host_pages(), other_ftl.host_pages());
        ftl.audit(&nand);
        nand.audit();
        // The same follows from here on.
        prop_assert_eq!(
            ftl.flush(&mut nand, after).unwrap(),
            other_ftl.flush(&mut other_nand, after).unwrap()
        );
    }
}

#[test]
fn a_write_past_the_end_ends_the_run_before_it() {
    let (mut nand, mut ftl, unit_count) = drive(&PageConfig::default(), false, 1).unwrap();
    let mut done = Vec::new();
    let lpns = [Lpn(1), Lpn(2), Lpn(unit_count), Lpn(3)];
    let refused = ftl.write_in_turn(&mut nand, Ticket::READY, &lpns, 0, &mut done).unwrap_err();
    assert!(matches!(refused, FtlError::OutOfRange { .. }), "{refused}");
    assert_eq!(done.len(), 2);
    ftl.audit(&nand);
}

#[test]
fn a_power_cut_that_is_to_come_hits_one_write_of_many() {
    let (mut nand, mut ftl, _) = drive(&PageConfig::default(), false, 1).unwrap();
    nand.fail_power_after(5, false);
    let mut done = Vec::new();
    let lpns: Vec<Lpn> = (0..20).map(Lpn).collect();
    let lost = ftl.write_in_turn(&mut nand, Ticket::READY, &lpns, 0, &mut done).unwrap_err();
    assert!(lost.to_string().contains("power"), "{lost}");
    assert_eq!(done.len(), 5, "those before it were acknowledged");
}
