//! Every layer against a plain array: what was written last is what is read, across cleaning, trim,
//! flush and, for page mapping, power cuts.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::{Timed, quick_timing};
use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{
    BastConfig, ChunkConfig, CleaningMode, DftlConfig, DieChoice, FastConfig, FasterConfig, Ftl,
    FtlConfig, FtlError, FtlKind, LogEviction, MergeMode, PageConfig, SequentialTrigger,
    VictimPolicy,
};
use nandu_nand::{Content, Energy, Geometry, NandArray, NandConfig, Rules, Ticket};
use proptest::prelude::*;
use std::sync::Arc;

fn array(dies: u32, planes: u32, blocks: u32, units_per_flash_page: u32) -> NandArray {
    NandArray::new(NandConfig {
        geometry: Geometry {
            channel_count: 1,
            dies_per_channel: dies,
            planes_per_die: planes,
            erase_blocks_per_plane: blocks,
            flash_pages_per_erase_block: 4,
            flash_page_bytes: 512,
            spare_bytes: 16,
        },
        timing: quick_timing(),
        energy: Energy::default(),
        rules: Rules::default(),
        units_per_flash_page,
        keep_content: true,
        power_cut_journal: true,
    })
    .unwrap()
}

fn content(value: u32) -> Content {
    Some(Arc::from(value.to_le_bytes().as_slice()))
}

fn value(content: &Content) -> Option<u32> {
    content.as_ref().map(|bytes| u32::from_le_bytes(bytes[..4].try_into().unwrap()))
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64),
    Trim(u64, u64),
    Read(u64),
    Flush,
    Idle,
    Cut(u64),
}

fn steps(units: u64) -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        20 => (0..units).prop_map(Step::Write),
        2 => (0..units, 1..5_u64).prop_map(|(first, count)| Step::Trim(first, count)),
        4 => (0..units).prop_map(Step::Read),
        1 => Just(Step::Flush),
        1 => Just(Step::Idle),
        1 => (0..6000_u64).prop_map(Step::Cut),
    ];
    prop::collection::vec(step, 1..400)
}

/// What a unit may hold: every value issued since the last that is durable, that one included.
#[derive(Clone, Default)]
struct Unit {
    now: Option<u32>,
    durable: Option<u32>,
    /// Values not yet durable, with what makes them; none is the next flush.
    issued: Vec<(u32, Option<Ticket>)>,
    /// The last value before a trim after which no write is durable yet: old copies may return.
    trimmed: Option<u32>,
}

fn run(
    config: &FtlConfig,
    mut nand: NandArray,
    units: u64,
    steps: &[Step],
) -> Result<(), TestCaseError> {
    let mut ftl = config.build(&nand, units, 1).unwrap();
    let buffered = nand.config().units_per_flash_page * nand.geometry().planes_per_die > 1;
    let mut model = vec![Unit::default(); usize::try_from(units).unwrap()];
    let (mut now, mut next_value) = (Nanos::ZERO, 0_u32);
    for step in steps {
        nand.settle(now);
        match *step {
            Step::Write(lpn) => {
                next_value += 1;
                let after = nand.at(now);
                let done = ftl.write(&mut nand, after, Lpn(lpn), content(next_value)).unwrap();
                let unit = &mut model[usize::try_from(lpn).unwrap()];
                unit.now = Some(next_value);
                unit.issued.push((next_value, if buffered { None } else { Some(done) }));
                // Half of the writes are issued while others are under way.
                if next_value % 2 == 0 {
                    now = nand.finish(done);
                }
            }
            Step::Trim(first, count) => {
                let count = count.min(units - first);
                now = ftl.trim_at(&mut nand, now, Lpn(first), count).unwrap();
                for lpn in first..first + count {
                    let unit = &mut model[usize::try_from(lpn).unwrap()];
                    (unit.now, unit.trimmed) = (None, Some(next_value));
                }
            }
            Step::Read(lpn) => {
                let after = nand.at(now);
                let outcome = ftl.read(&mut nand, after, Lpn(lpn), 100).unwrap();
                let expected = model[usize::try_from(lpn).unwrap()].now;
                prop_assert_eq!(value(&outcome.content), expected);
            }
            Step::Flush => {
                ftl.flush_at(&mut nand, now).unwrap();
                now = nand.idle_at();
                settle(&mut model, |_| true);
            }
            Step::Idle => {
                ftl.rest(&mut nand, now, Nanos(5000));
                now = nand.now();
            }
            Step::Cut(delay) => {
                let at = now + Nanos(delay);
                nand.at(at);
                settle(&mut model, |done| done.is_some_and(|done| nand.is_done(done)));
                nand.power_cut(at).unwrap();
                now = ftl.recover_at(&mut nand, at).unwrap();
                check_survivors(&nand, ftl.as_ref(), &mut model)?;
                ftl.audit(&nand);
                let again = ftl.recover_at(&mut nand, now).unwrap();
                for (lpn, unit) in (0_u64..).zip(&model) {
                    prop_assert_eq!(value(&ftl.peek(&nand, Lpn(lpn))), unit.now);
                }
                now = again;
            }
        }
        ftl.audit(&nand);
    }
    nand.audit();
    for (lpn, unit) in (0_u64..).zip(&model) {
        prop_assert_eq!(value(&ftl.peek(&nand, Lpn(lpn))), unit.now);
    }
    Ok(())
}

/// After a power cut every unit holds its last durable value or one that was issued later.
fn check_survivors(
    nand: &NandArray,
    ftl: &dyn Ftl,
    model: &mut [Unit],
) -> Result<(), TestCaseError> {
    for (lpn, unit) in (0_u64..).zip(model) {
        let found = value(&ftl.peek(nand, Lpn(lpn)));
        let issued = unit.issued.iter().any(|&(issued, _)| Some(issued) == found);
        let allowed = issued || found == unit.durable || unit.trimmed.is_some();
        prop_assert!(allowed, "unit {} holds {:?}", lpn, found);
        *unit = Unit { now: found, durable: found, ..Unit::default() };
    }
    Ok(())
}

fn settle(model: &mut [Unit], is_done: impl Fn(Option<Ticket>) -> bool) {
    for unit in model {
        while unit.issued.first().is_some_and(|&(_, done)| is_done(done)) {
            unit.durable = Some(unit.issued.remove(0).0);
            unit.trimmed = unit.trimmed.filter(|&last| unit.durable <= Some(last));
        }
    }
}

fn page(victim: VictimPolicy, unit_bytes: u32) -> FtlConfig {
    FtlConfig::Page(PageConfig {
        unit_bytes: Some(unit_bytes),
        victim,
        idle_clean_count: 2,
        ..PageConfig::default()
    })
}

fn dftl(cached_entry_count: u32, protected_ppm: u32) -> FtlConfig {
    FtlConfig::Dftl(DftlConfig {
        cached_entry_count,
        protected_ppm,
        reserve_count: 3,
        idle_clean_count: 1,
        separate_copies: cached_entry_count.is_multiple_of(2),
    })
}

/// The same array with flash pages of 16 bytes, so that a translation page holds four entries.
fn small_pages(nand: NandArray) -> NandArray {
    let mut config = *nand.config();
    config.geometry.flash_page_bytes = 16;
    NandArray::new(config).unwrap()
}

/// Layers of every kind over a few dies, each with as many erase blocks as it needs and a few more.
fn every_layer(dies: u32, units: u64) -> impl Iterator<Item = (FtlConfig, NandArray)> {
    FtlKind::ALL.iter().map(move |kind| {
        let shape = array(dies, 1, 1, 1).config().geometry;
        let config = kind.small(shape.erase_block_bytes());
        let blocks = config.erase_blocks_per_plane(&shape, units * 512, 100_000) + 1;
        (config, array(dies, 1, blocks, 1))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_layer_behaves_like_an_array(steps in steps(40)) {
        for dies in [1, 3] {
            for (config, nand) in every_layer(dies, 40) {
                run(&config, nand, 40, &steps)?;
            }
        }
    }

    #[test]
    fn page_mapping_behaves_like_an_array(steps in steps(30)) {
        for victim in [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::Random] {
            run(&page(victim, 512), array(1, 1, 13, 1), 30, &steps)?;
        }
    }

    #[test]
    fn page_mapping_over_dies_behaves_like_an_array(steps in steps(40)) {
        run(&page(VictimPolicy::Greedy, 512), array(3, 1, 9, 1), 40, &steps)?;
    }

    #[test]
    fn page_mapping_at_the_hosts_pace_behaves_like_an_array(steps in steps(40)) {
        let choices = [
            (DieChoice::Static, 0),
            (DieChoice::LeastWork, 3_000_000),
            (DieChoice::LeastBacklog, 0),
            (DieChoice::LeastBacklog, 1_000_000_000),
        ];
        for (die_choice, pace_put_off_ns) in choices {
            for (unit_bytes, planes) in [(512, 1), (256, 2)] {
                let config = FtlConfig::Page(PageConfig {
                    unit_bytes: Some(unit_bytes),
                    cleaning: CleaningMode::Paced,
                    die_choice,
                    pace_put_off_ns,
                    ..PageConfig::default()
                });
                run(&config, array(3, planes, 9, 512 / unit_bytes), 40, &steps)?;
            }
        }
    }

    #[test]
    fn small_units_over_planes_behave_like_an_array(steps in steps(90)) {
        run(&page(VictimPolicy::Greedy, 256), array(2, 2, 9, 2), 90, &steps)?;
    }

    #[test]
    fn a_map_on_flash_behaves_like_an_array(steps in steps(30)) {
        for (cached_entry_count, protected_ppm) in [(1, 0), (6, 500_000), (64, 800_000)] {
            let config = dftl(cached_entry_count, protected_ppm);
            run(&config, small_pages(array(1, 1, 16, 1)), 30, &steps)?;
        }
    }

    #[test]
    fn bast_behaves_like_an_array(steps in steps(30)) {
        for (victim, dies) in [(LogEviction::Lru, 1), (LogEviction::Fifo, 3)] {
            let config = FtlConfig::Bast(BastConfig { log_block_count: 3, victim });
            run(&config, array(dies, 1, 12 / dies, 1), 30, &steps)?;
        }
    }

    #[test]
    fn a_map_on_flash_over_dies_behaves_like_an_array(steps in steps(40)) {
        run(&dftl(8, 500_000), small_pages(array(3, 1, 9, 1)), 40, &steps)?;
    }

    #[test]
    fn fast_behaves_like_an_array(steps in steps(30)) {
        for (count, sw_trigger, dies) in [
            (2, SequentialTrigger::Offset0, 1),
            (4, SequentialTrigger::Run2, 3),
            (3, SequentialTrigger::Off, 1),
        ] {
            let log_block_count = Some(count);
            let config = FastConfig { log_block_count, sw_trigger, ..FastConfig::default() };
            let blocks = (8 + count + 1).div_ceil(dies);
            run(&FtlConfig::Fast(config), array(dies, 1, blocks, 1), 30, &steps)?;
        }
    }

    #[test]
    fn faster_behaves_like_an_array(steps in steps(30)) {
        for (count, isolation_block_count, dies) in [(2, 0, 1), (4, 2, 1), (4, 1, 3)] {
            let config = FasterConfig {
                log_block_count: Some(count),
                isolation: isolation_block_count > 0,
                isolation_block_count,
                ..FasterConfig::default()
            };
            let blocks = (8 + count + 2).div_ceil(dies);
            run(&FtlConfig::Faster(config), array(dies, 1, blocks, 1), 30, &steps)?;
        }
    }

    #[test]
    fn chunk_mapping_behaves_like_an_array(steps in steps(60)) {
        for (active_chunk_count, interleave) in [(1, true), (2, false)] {
            let config = FtlConfig::Chunk(ChunkConfig {
                active_chunk_count,
                interleave,
                copy_back: interleave,
                map_write_per_page_write: interleave,
                map_cache_chunks: 1,
                ..ChunkConfig::new(4096)
            });
            run(&config, array(2, 1, 14, 1), 60, &steps)?;
        }
        for (active_chunk_count, log_page_count) in [(1, 20), (2, 3)] {
            let config = FtlConfig::Chunk(ChunkConfig {
                active_chunk_count,
                merge_mode: MergeMode::AllAtOnce,
                log_page_count,
                ..ChunkConfig::new(4096)
            });
            run(&config, array(2, 1, 14, 1), 60, &steps)?;
        }
    }
}

#[test]
fn one_die_cannot_fill_up_while_others_have_room() {
    let config = page(VictimPolicy::Greedy, 512);
    let mut nand = array(4, 1, 20, 1);
    let units = 4 * 16 * 4 - 20;
    let mut ftl = config.build(&nand, units, 1).unwrap();
    ftl.initialise_sequential(&mut nand).unwrap();
    // Only what lies on one die is overwritten, again and again.
    for round in 0..40 {
        for lpn in (0..units).step_by(4) {
            let written = ftl.write(&mut nand, Ticket::READY, Lpn(lpn), None);
            assert!(written.is_ok(), "round {round}: {written:?}");
        }
    }
    ftl.audit(&nand);
}

#[test]
fn too_little_room_is_refused_and_wear_ends_in_device_full() {
    let config = page(VictimPolicy::Greedy, 512);
    let nand = array(1, 1, 10, 1);
    assert!(matches!(config.build(&nand, 25, 1), Err(FtlError::Configuration(_))));
    let mut worn = *nand.config();
    worn.rules.endurance = 5;
    let mut nand = NandArray::new(worn).unwrap();
    let mut ftl = config.build(&nand, 20, 1).unwrap();
    let mut rng = Rng::new(3);
    let mut next = || ftl.write(&mut nand, Ticket::READY, Lpn(rng.below(20)), None).err();
    let failed = (0..10_000).find_map(|_| next());
    assert_eq!(failed, Some(FtlError::DeviceFull));
}

#[test]
fn initialising_takes_no_time_and_counts_nothing() {
    for (config, mut nand) in every_layer(2, 64) {
        let mut ftl = config.build(&nand, 64, 1).unwrap();
        ftl.initialise_sequential(&mut nand).unwrap();
        assert_eq!((nand.idle_at(), ftl.host_pages().1), (Nanos::ZERO, 0));
        assert_eq!(nand.counters().cells().count(), 0);
        let done = ftl.read_at(&mut nand, Nanos::ZERO, Lpn(63), 512).unwrap();
        assert!(done > Nanos::ZERO, "every unit is mapped");
        assert_eq!(ftl.initialise_sequential(&mut nand), Err(FtlError::NotFresh));
        ftl.audit(&nand);
    }
}
