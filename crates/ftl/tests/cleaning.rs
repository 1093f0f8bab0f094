//! Cleaning of the page map against closed forms and against what is known of its policies: flash
//! reference 2.1.4, 2.1.6 and 2.7, targets T4, T5 and T22.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::Timed;
use nandu_base::{
    AddressGenerator, Cause, Distribution, FlashOperation, HotColdClass, Lpn, Nanos, WearSummary,
};
use nandu_ftl::closed_form::{
    best_separation, choices_write_amplification, fifo_write_amplification,
    greedy_write_amplification, random_write_amplification, separated_write_amplification,
};
use nandu_ftl::{CleaningFrontier, Ftl, FtlError, PageConfig, PageFtl, VictimPolicy};
use nandu_nand::{ChipOverrides, NandArray, NandProfile, Rules, Scheduling, Service};

struct Drive {
    nand: NandArray,
    ftl: PageFtl,
    units: u64,
    now: Nanos,
}

/// A single server of `erase_blocks` erase blocks, of which `utilisation` parts in a thousand are used.
fn drive(
    config: &PageConfig,
    (erase_blocks, pages): (u32, u32),
    utilisation: u64,
    endurance: u32,
) -> Drive {
    let profile = NandProfile {
        preset: "myers_slc".into(),
        channel_count: 1,
        dies_per_channel: 1,
        erase_blocks_per_plane: erase_blocks,
        overrides: pages_of_erase_block(pages),
        ..NandProfile::default()
    };
    let mut nand = profile.resolve().unwrap();
    nand.rules = Rules { endurance, ..Rules::default() };
    let mut nand = NandArray::new(nand).unwrap();
    nand.set_scheduling(Scheduling { service: Service::SingleServer, ..Scheduling::default() });
    let units = nand.geometry().flash_page_count() * utilisation / 1000;
    let ftl = PageFtl::new(config, &nand, units, 7).unwrap();
    Drive { nand, ftl, units, now: Nanos::ZERO }
}

fn pages_of_erase_block(count: u32) -> ChipOverrides {
    ChipOverrides { flash_pages_per_erase_block: Some(count), ..ChipOverrides::default() }
}

impl Drive {
    /// Writes the drive `fills` times over; answers the write amplification of that.
    fn overwrite(
        &mut self,
        fills: u64,
        addresses: &mut AddressGenerator,
        stream_of: impl Fn(u64) -> u8,
    ) -> f64 {
        let before = *self.nand.counters();
        for _ in 0..fills * self.units {
            let lpn = addresses.next_item();
            let stream = stream_of(lpn);
            let place = (Lpn(lpn), stream);
            let written = self.ftl.write_to_stream_at(&mut self.nand, self.now, place, None);
            self.now = written.unwrap();
        }
        let programs = self.nand.counters().since(&before).total(FlashOperation::Program);
        programs as f64 / (fills * self.units) as f64
    }

    fn wear(&self) -> WearSummary {
        self.nand.wear()
    }
}

fn addresses(distribution: &Distribution, units: u64) -> AddressGenerator {
    AddressGenerator::new(distribution, units, 11).unwrap()
}

fn policy(victim: VictimPolicy) -> PageConfig {
    PageConfig { victim, reserve_count: 1, ..PageConfig::default() }
}

fn classes(hot_accesses: f64) -> Vec<HotColdClass> {
    vec![
        HotColdClass { access_share: hot_accesses, item_share: 1.0 - hot_accesses },
        HotColdClass { access_share: 1.0 - hot_accesses, item_share: hot_accesses },
    ]
}

fn hot_cold(hot_accesses: f64, clustered: bool) -> Distribution {
    Distribution::HotCold { classes: classes(hot_accesses), clustered }
}

/// Steady write amplification under uniform writes, from a start in the steady state.
fn uniform(config: &PageConfig, shape: (u32, u32), utilisation: u64, fills: (u64, u64)) -> f64 {
    let mut drive = drive(config, shape, utilisation, 0);
    drive.ftl.initialise_steady(&mut drive.nand, 3).unwrap();
    let mut source = addresses(&Distribution::Uniform, drive.units);
    drive.overwrite(fills.0, &mut source, |_| 0);
    let measured = drive.overwrite(fills.1, &mut source, |_| 0);
    drive.ftl.audit(&drive.nand);
    measured
}

/// Utilisation without the reserve and the frontiers.
fn effective(shape: (u32, u32), utilisation: u64, aside: u32) -> f64 {
    let units = u64::from(shape.0) * u64::from(shape.1) * utilisation / 1000;
    units as f64 / (f64::from(shape.0 - aside) * f64::from(shape.1))
}

fn assert_close(measured: f64, expected: f64, tolerance: f64, what: &str) {
    let error = measured / expected - 1.0;
    assert!(error.abs() < tolerance, "{what}: {measured}, not {expected}");
}

#[test]
fn any_shape_and_utilisation_agrees_with_the_closed_form_of_its_policy() {
    let policies = [VictimPolicy::Greedy, VictimPolicy::Fifo, VictimPolicy::Random];
    for (shape, utilisation) in [((3000, 32), 620), ((700, 128), 800), ((1100, 96), 900)] {
        // The reserve, and two frontiers that are half full on average.
        let alpha = 1.0 / effective(shape, utilisation, 2);
        for victim in policies {
            let expected = match victim {
                VictimPolicy::Greedy => greedy_write_amplification(alpha, f64::from(shape.1)),
                VictimPolicy::Fifo => fifo_write_amplification(alpha),
                _ => random_write_amplification(alpha),
            };
            // The start is that of FIFO cleaning, from which random cleaning is far away.
            let fills = if victim == VictimPolicy::Random { (8, 4) } else { (1, 1) };
            let measured = uniform(&policy(victim), shape, utilisation, fills);
            assert_close(measured, expected, 0.015, &format!("{victim:?} {shape:?}"));
        }
    }
}

#[test]
fn drawn_victims_agree_with_the_mean_field() {
    for (choices, utilisation) in [(2, 800), (5, 700), (10, 900)] {
        // The mean field knows a single frontier, which refills the victim itself.
        let config = PageConfig {
            victim_choices: choices,
            cleaning_frontier: CleaningFrontier::Shared,
            ..policy(VictimPolicy::DChoices)
        };
        let measured = uniform(&config, (1500, 64), utilisation, (1, 2));
        let used = effective((1500, 64), utilisation, 2);
        let expected = choices_write_amplification(used, 64, choices);
        assert_close(measured, expected, 0.015, &format!("{choices} choices"));
    }
}

#[test]
fn policies_are_ordered_as_theory_has_them() {
    let amplification = |victim, choices| {
        let config = PageConfig { victim_choices: choices, ..policy(victim) };
        uniform(&config, (1000, 64), 850, (1, 1))
    };
    let greedy = amplification(VictimPolicy::Greedy, 0);
    let windowed = amplification(VictimPolicy::Windowed, 0);
    let fifo = amplification(VictimPolicy::Fifo, 0);
    let random = amplification(VictimPolicy::Random, 0);
    let drawn = [10, 5, 2].map(|choices| amplification(VictimPolicy::DChoices, choices));
    assert!(greedy < windowed && windowed < fifo && fifo < random, "{greedy} {windowed} {fifo}");
    assert!(greedy < drawn[0] && drawn.is_sorted() && drawn[2] < random, "{drawn:?}");
}

#[test]
fn a_steady_start_is_steady_from_the_first_write() {
    let shape = (1500, 128);
    let expected = greedy_write_amplification(1.0 / effective(shape, 850, 3), f64::from(shape.1));
    let mut drive = drive(&policy(VictimPolicy::Greedy), shape, 850, 0);
    drive.ftl.initialise_steady(&mut drive.nand, 3).unwrap();
    drive.ftl.audit(&drive.nand);
    assert_eq!(drive.nand.counters().programmed_pages(), 0);
    assert_eq!(drive.nand.idle_at(), Nanos::ZERO);
    let mut source = addresses(&Distribution::Uniform, drive.units);
    let first = drive.overwrite(1, &mut source, |_| 0);
    assert_close(first, expected, 0.015, "the first overwrite");
}

/// Reference 2.1.6: at 87.5 % utilisation, after the cold units were overwritten several times.
fn skewed(victim: VictimPolicy, cleaning_frontier: CleaningFrontier, hot: f64) -> f64 {
    let config = PageConfig { cleaning_frontier, ..policy(victim) };
    let mut drive = drive(&config, (512, 64), 875, 0);
    drive.ftl.initialise_steady(&mut drive.nand, 3).unwrap();
    let mut source = addresses(&hot_cold(hot, false), drive.units);
    drive.overwrite(20, &mut source, |_| 0);
    drive.overwrite(6, &mut source, |_| 0)
}

#[test]
fn skew_hurts_greedy_cleaning_and_a_frontier_of_its_own_helps_it() {
    let shared = [0.6, 0.9].map(|hot| skewed(VictimPolicy::Greedy, CleaningFrontier::Shared, hot));
    assert!(shared[1] > 1.1 * shared[0], "{shared:?}");
    let own = skewed(VictimPolicy::Greedy, CleaningFrontier::One, 0.9);
    assert!(own < 0.95 * shared[1], "{own} against {shared:?}");
    // Cost-benefit gains nothing without that frontier and comes near the optimum with it.
    let mixed = skewed(VictimPolicy::CostBenefit, CleaningFrontier::Shared, 0.9);
    let sorted = skewed(VictimPolicy::CostBenefit, CleaningFrontier::One, 0.9);
    assert!(mixed > 0.95 * shared[1], "{mixed} against {shared:?}");
    assert!(sorted < 0.75 * own, "{sorted} against {own}");
    // Under skew drawn victims beat the emptiest.
    let drawn = skewed(VictimPolicy::DChoices, CleaningFrontier::One, 0.9);
    assert!(drawn < 0.9 * own, "{drawn} against {own}");
}

#[test]
fn streams_with_the_best_shares_reach_the_optimum_of_separation() {
    let shape = (1500, 64);
    for hot in [0.8, 0.9] {
        let classes = classes(hot);
        let used = effective(shape, 875, 5);
        let pools = best_separation(used, &classes);
        let share = |(class, pool): (&HotColdClass, &nandu_ftl::closed_form::SeparatedPool)| {
            let part = class.item_share * used + pool.spare_share * (1.0 - used);
            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "a share of a million"
            )]
            let ppm = (part * 999_000.0) as u32;
            ppm
        };
        let config = PageConfig {
            cleaning_frontier: CleaningFrontier::PerStream,
            stream_count: 2,
            stream_share_ppm: classes.iter().zip(&pools).map(share).collect(),
            ..policy(VictimPolicy::Fifo)
        };
        let mut drive = drive(&config, shape, 875, 0);
        let mut source = addresses(&hot_cold(hot, true), drive.units);
        #[allow(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a positive count"
        )]
        let hot_units = (drive.units as f64 * (1.0 - hot)) as u64;
        let stream_of = |lpn| u8::from(lpn >= hot_units);
        let streams: Vec<u8> = (0..drive.units).map(stream_of).collect();
        drive.ftl.initialise_by_stream(&mut drive.nand, &streams).unwrap();
        assert_eq!((drive.nand.idle_at(), drive.nand.counters().cells().count()), (Nanos::ZERO, 0));
        for (hold, ppm) in drive.ftl.stream_holds().iter().zip([1.0 - hot, hot]) {
            let expected = ppm * drive.units as f64 / (1500.0 * 64.0);
            assert!((f64::from(hold.held_ppm) / 1e6 - expected).abs() < 0.002, "{hold:?}");
        }
        drive.overwrite(5, &mut source, stream_of);
        let measured = drive.overwrite(4, &mut source, stream_of);
        drive.ftl.audit(&drive.nand);
        let expected = separated_write_amplification(used, &classes);
        assert_close(measured, expected, 0.015, &format!("{hot} hot"));
    }
}

#[test]
fn units_that_die_together_are_never_copied_in_streams_of_their_own() {
    // Two logs, each written in order and overwritten when full: FIFO lifetimes in one stream each.
    let amplification = |stream_count| {
        let config = PageConfig {
            stream_count,
            cleaning_frontier: CleaningFrontier::PerStream,
            ..policy(VictimPolicy::Greedy)
        };
        let mut drive = drive(&config, (256, 64), 800, 0);
        let half = drive.units / 2;
        let before = *drive.nand.counters();
        let (mut slow, mut fast) = (0, 0);
        for _ in 0..6 * drive.units {
            let stream = u8::from(fast < 7 * (slow + 1));
            let lpn = if stream == 1 { half + fast % half } else { slow % half };
            *(if stream == 1 { &mut fast } else { &mut slow }) += 1;
            let ftl = &mut drive.ftl;
            let place = (Lpn(lpn), stream);
            let written = ftl.write_to_stream_at(&mut drive.nand, drive.now, place, None);
            drive.now = written.unwrap();
        }
        let programs = drive.nand.counters().since(&before).total(FlashOperation::Program);
        programs as f64 / (6 * drive.units) as f64
    };
    let (mixed, apart) = (amplification(1), amplification(2));
    assert!(apart < 1.001, "{apart}");
    assert!(mixed > 1.05, "{mixed}");
}

/// Wear after `fills` overwrites of the tenth of the units that is not static.
fn wear_with_static_data(config: &PageConfig, fills: u64) -> (WearSummary, f64) {
    let mut drive = drive(config, (256, 32), 850, 0);
    drive.ftl.initialise_sequential(&mut drive.nand).unwrap();
    let hot = drive.units / 10;
    let mut source = addresses(&Distribution::Uniform, hot);
    let before = *drive.nand.counters();
    for _ in 0..fills * hot {
        let lpn = Lpn(source.next_item());
        drive.now = drive.ftl.write_at(&mut drive.nand, drive.now, lpn, None).unwrap();
    }
    drive.ftl.audit(&drive.nand);
    let programs = drive.nand.counters().since(&before).total(FlashOperation::Program);
    (drive.wear(), programs as f64 / (fills * hot) as f64)
}

#[test]
fn static_data_spreads_wear_without_bound_unless_it_is_moved() {
    let spread = |wear: &WearSummary| wear.erase_count_max - wear.erase_count_min;
    let greedy = policy(VictimPolicy::Greedy);
    let (short, _) = wear_with_static_data(&greedy, 300);
    let (long, amplification) = wear_with_static_data(&greedy, 600);
    assert!(spread(&long) as f64 > 1.7 * spread(&short) as f64, "{short:?} {long:?}");
    let levelled = PageConfig { static_wear_threshold: 20, ..greedy };
    let (level, level_amplification) = wear_with_static_data(&levelled, 600);
    assert!(spread(&level) <= 20 + 8, "{level:?}");
    assert!(spread(&level) * 4 < spread(&long), "{level:?} {long:?}");
    assert!(level_amplification < 1.3 * amplification, "{level_amplification} {amplification}");
}

#[test]
fn random_victims_wear_more_evenly_and_copy_more() {
    let (greedy, few_copies) = wear_with_static_data(&policy(VictimPolicy::Greedy), 300);
    let (random, copies) = wear_with_static_data(&policy(VictimPolicy::Random), 300);
    let spread = |wear: &WearSummary| {
        let mean = wear.erase_count_sum as f64 / wear.erase_block_count as f64;
        (wear.erase_count_max - wear.erase_count_min) as f64 / mean
    };
    assert!(spread(&random) < spread(&greedy) / 2.0, "{random:?} {greedy:?}");
    assert!(copies > few_copies, "{copies} {few_copies}");
}

#[test]
fn worn_out_erase_blocks_are_retired_until_the_data_no_longer_fit() {
    let config = PageConfig { dynamic_wear_levelling: true, ..policy(VictimPolicy::Greedy) };
    let mut drive = drive(&config, (64, 16), 700, 20);
    drive.ftl.initialise_sequential(&mut drive.nand).unwrap();
    let mut source = addresses(&Distribution::Uniform, drive.units);
    let mut writes = 0;
    let end = loop {
        let lpn = Lpn(source.next_item());
        match drive.ftl.write_at(&mut drive.nand, drive.now, lpn, None) {
            Ok(done) => (drive.now, writes) = (done, writes + 1),
            Err(error) => break error,
        }
    };
    assert_eq!(end, FtlError::DeviceFull);
    let wear = drive.wear();
    assert!(wear.bad_erase_block_count > 5, "{wear:?}");
    // Wear is even, so nearly all of the endurance is used.
    let erases = 64 * 20;
    assert!(wear.erase_count_sum > erases * 85 / 100, "{wear:?} after {writes} writes");
    for lpn in 0..drive.units {
        let read = drive.ftl.read_at(&mut drive.nand, drive.now, Lpn(lpn), 2048);
        assert!(read.is_ok(), "what was written is still there");
    }
}

#[test]
fn idle_time_saves_writes_from_waiting_for_cleaning() {
    let longest = |idle_clean_count, gap| {
        let config = PageConfig { idle_clean_count, ..policy(VictimPolicy::Greedy) };
        let mut drive = drive(&config, (256, 32), 800, 0);
        drive.ftl.initialise_steady(&mut drive.nand, 3).unwrap();
        let mut source = addresses(&Distribution::Uniform, drive.units);
        drive.overwrite(1, &mut source, |_| 0);
        let mut longest = 0;
        for _ in 0..drive.units {
            let next = drive.now + Nanos::from_micros(gap);
            drive.ftl.idle(&mut drive.nand, drive.now, next);
            let lpn = Lpn(source.next_item());
            let done = drive.ftl.write_at(&mut drive.nand, next, lpn, None).unwrap();
            longest = longest.max(done.0 - next.0);
            drive.now = done;
        }
        (longest, drive.nand.counters().get(FlashOperation::Erase, Cause::Cleaning))
    };
    let (stalled, _) = longest(0, 3000);
    let (free, erases) = longest(4, 3000);
    assert!(erases > 0 && stalled > 5_000_000, "{stalled} {erases}");
    // At most the rest of a victim that was begun in idle time stands in the way.
    assert!(free < stalled, "{free} {stalled}");
}

#[test]
fn idle_cleaning_that_is_cut_short_keeps_the_reserve() {
    // Rows of four units, so that the copies of a victim often wait for one to fill.
    let profile = NandProfile {
        preset: "myers_slc".into(),
        channel_count: 1,
        dies_per_channel: 1,
        planes_per_die: Some(2),
        erase_blocks_per_plane: 12,
        overrides: pages_of_erase_block(8),
        ..NandProfile::default()
    };
    let mut nand = profile.resolve().unwrap();
    nand.units_per_flash_page = 2;
    let mut nand = NandArray::new(nand).unwrap();
    let config =
        PageConfig { unit_bytes: Some(1024), idle_clean_count: 3, ..PageConfig::default() };
    let units = 190;
    let mut ftl = PageFtl::new(&config, &nand, units, 7).unwrap();
    let mut source = addresses(&Distribution::Uniform, units);
    let mut now = Nanos::ZERO;
    for write in 0..20_000 {
        now = ftl.write_at(&mut nand, now, Lpn(source.next_item()), None).unwrap();
        if write % 61 == 0 {
            now = ftl.rest(&mut nand, now, Nanos(1));
            ftl.audit(&nand);
        }
    }
}
