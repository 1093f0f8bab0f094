//! The map on flash: what every translation costs, against the closed forms of flash reference 2.6.4,
//! target T10, and layouts that leave cleaning no room to spare.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::Timed;
use nandu_base::{AddressGenerator, Cause, Distribution, FlashOperation, Lpn, Nanos, Rng};
use nandu_ftl::closed_form::{cleaned_write_time, translation_time};
use nandu_ftl::{Dftl, DftlConfig, Ftl, FtlError, PageConfig, PageFtl};
use nandu_nand::{Energy, Geometry, NandArray, NandConfig, NandError, Rules, Ticket, Timing};

const READ_NS: u64 = 20_000;
const PROGRAM_NS: u64 = 200_000;
const ERASE_NS: u64 = 1_500_000;

/// One plane a die, the times of S000, and `entries` entries to a translation page.
fn array(dies: u32, blocks: u32, pages: u32, entries: u32) -> NandArray {
    NandArray::new(NandConfig {
        geometry: Geometry {
            channel_count: 1,
            dies_per_channel: dies,
            planes_per_die: 1,
            erase_blocks_per_plane: blocks,
            flash_pages_per_erase_block: pages,
            flash_page_bytes: entries * 4,
            spare_bytes: 16,
        },
        timing: Timing {
            read_ns: Nanos(READ_NS),
            program_ns: Nanos(PROGRAM_NS),
            program_type_ns: nandu_nand::PageTypes::ALIKE,
            erase_ns: Nanos(ERASE_NS),
            command_ns: Nanos::ZERO,
            bus_bytes_per_second: 0,
            cache_register: false,
        },
        energy: Energy::default(),
        rules: Rules::default(),
        units_per_flash_page: 1,
        keep_content: false,
        power_cut_journal: false,
    })
    .unwrap()
}

fn config(cached_entry_count: u32) -> DftlConfig {
    DftlConfig { cached_entry_count, reserve_count: 3, ..DftlConfig::default() }
}

fn filled(nand: &mut NandArray, config: &DftlConfig, units: u64) -> Dftl {
    let mut dftl = Dftl::new(config, nand, units).unwrap();
    dftl.initialise_sequential(nand).unwrap();
    dftl.audit(nand);
    dftl
}

/// Reads and programs of translation pages so far.
fn map_commands(nand: &NandArray) -> (u64, u64) {
    let counters = nand.counters();
    (
        counters.get(FlashOperation::Read, Cause::MapRead),
        counters.get(FlashOperation::Program, Cause::MapWrite),
    )
}

fn read(dftl: &mut Dftl, nand: &mut NandArray, lpn: u64) -> (u64, u64) {
    let before = map_commands(nand);
    dftl.read(nand, Ticket::READY, Lpn(lpn), 4).unwrap();
    let after = map_commands(nand);
    (after.0 - before.0, after.1 - before.1)
}

fn write(dftl: &mut Dftl, nand: &mut NandArray, lpn: u64) -> (u64, u64) {
    let before = map_commands(nand);
    dftl.write(nand, Ticket::READY, Lpn(lpn), None).unwrap();
    let after = map_commands(nand);
    (after.0 - before.0, after.1 - before.1)
}

#[test]
fn a_translation_costs_nothing_one_read_or_two_reads_and_a_program() {
    let mut nand = array(1, 32, 8, 4);
    let mut dftl = filled(&mut nand, &config(2), 64);
    assert_eq!(read(&mut dftl, &mut nand, 0), (1, 0), "room in the cache");
    assert_eq!(read(&mut dftl, &mut nand, 0), (0, 0), "a hit");
    assert_eq!(write(&mut dftl, &mut nand, 0), (0, 0), "a hit");
    assert_eq!(write(&mut dftl, &mut nand, 8), (1, 0), "room in the cache");
    assert_eq!(write(&mut dftl, &mut nand, 16), (2, 1), "a dirty entry leaves");
    assert_eq!(read(&mut dftl, &mut nand, 24), (2, 1), "a dirty entry leaves");
    assert_eq!(read(&mut dftl, &mut nand, 32), (1, 0), "a clean entry leaves");
    dftl.audit(&nand);
}

#[test]
fn units_without_a_translation_page_cost_no_read() {
    let mut nand = array(1, 32, 8, 4);
    let mut dftl = Dftl::new(&config(2), &nand, 64).unwrap();
    assert_eq!(read(&mut dftl, &mut nand, 5), (0, 0));
    assert_eq!(write(&mut dftl, &mut nand, 9), (0, 0));
    assert_eq!(write(&mut dftl, &mut nand, 20), (0, 0));
    assert_eq!(write(&mut dftl, &mut nand, 40), (0, 1), "the first version needs no old one");
    dftl.audit(&nand);
}

#[test]
fn one_write_back_cleans_every_dirty_entry_of_its_translation_page() {
    let mut nand = array(1, 32, 8, 4);
    let mut dftl = filled(&mut nand, &config(4), 64);
    for lpn in [0, 1, 2, 3] {
        write(&mut dftl, &mut nand, lpn);
    }
    assert_eq!(read(&mut dftl, &mut nand, 20), (2, 1));
    for lpn in [24, 28, 32] {
        assert_eq!(read(&mut dftl, &mut nand, lpn), (1, 0), "unit {lpn} displaces a clean entry");
    }
}

#[test]
fn a_trim_reads_each_translation_page_once_and_its_entries_become_dirty() {
    let mut nand = array(1, 32, 8, 4);
    let mut dftl = filled(&mut nand, &config(16), 64);
    dftl.trim(&mut nand, Ticket::READY, Lpn(4), 8).unwrap();
    assert_eq!(map_commands(&nand), (2, 0));
    dftl.audit(&nand);
    let data_reads = nand.counters().get(FlashOperation::Read, Cause::Host);
    assert_eq!(read(&mut dftl, &mut nand, 5), (0, 0));
    assert_eq!(nand.counters().get(FlashOperation::Read, Cause::Host), data_reads);
    dftl.trim(&mut nand, Ticket::READY, Lpn(0), 64).unwrap();
    dftl.audit(&nand);
    assert!((0..64).all(|lpn| dftl.peek(&nand, Lpn(lpn)).is_none()));
}

#[test]
fn with_every_unit_cached_the_map_is_never_touched() {
    let mut nand = array(1, 40, 8, 4);
    let units = 200;
    let mut dftl = filled(&mut nand, &config(200), units);
    for lpn in 0..units {
        write(&mut dftl, &mut nand, lpn);
    }
    let before = map_commands(&nand);
    let mut rng = Rng::new(1);
    for _ in 0..5000 {
        write(&mut dftl, &mut nand, rng.below(units));
    }
    assert_eq!(map_commands(&nand), before);
    assert_eq!(dftl.map_cache_counts().cleaning_update_count, 0);
    assert!(nand.counters().get(FlashOperation::Program, Cause::Cleaning) > 0);
    dftl.audit(&nand);
}

#[test]
fn every_map_command_has_its_miss_eviction_or_cleaning_update() {
    for cached in [1, 5, 40] {
        let mut nand = array(2, 40, 8, 4);
        let mut dftl = filled(&mut nand, &config(cached), 350);
        let mut rng = Rng::new(u64::from(cached));
        for _ in 0..4000 {
            let lpn = rng.below(350);
            if rng.below(3) == 0 {
                read(&mut dftl, &mut nand, lpn);
            } else {
                write(&mut dftl, &mut nand, lpn);
            }
        }
        dftl.audit(&nand);
        let counts = dftl.map_cache_counts();
        let updates = counts.dirty_eviction_count + counts.cleaning_update_count;
        assert_eq!(counts.hit_count + counts.miss_count, 4000);
        assert_eq!(map_commands(&nand), (counts.miss_count + updates, updates));
        assert!(counts.cleaning_update_count > 0);
    }
}

#[test]
fn uniform_accesses_hit_in_proportion_and_reads_take_what_the_closed_form_says() {
    // E = r + (1 - h) r with h = cached / units; without writes no entry is dirty.
    let (units, cached) = (4000_u64, 1000);
    let mut nand = array(1, 100, 64, 32);
    let mut dftl = filled(&mut nand, &config(cached), units);
    let mut rng = Rng::new(2);
    let (mut now, mut from) = (Nanos::ZERO, Nanos::ZERO);
    let mut hits_before = 0;
    for access in 0..60_000 {
        if access == 20_000 {
            (from, hits_before) = (now, dftl.map_cache_counts().hit_count);
        }
        now = dftl.read_at(&mut nand, now, Lpn(rng.below(units)), 4).unwrap();
    }
    let hit_ratio = (dftl.map_cache_counts().hit_count - hits_before) as f64 / 40_000.0;
    assert!((hit_ratio - 0.25).abs() < 0.01, "{hit_ratio}");
    let mean = (now - from).0 as f64 / 40_000.0;
    let expected = READ_NS as f64 + translation_time(0.25, 0.0, READ_NS as f64, PROGRAM_NS as f64);
    assert!((mean / expected - 1.0).abs() < 0.01, "{mean} not {expected}");
}

#[test]
fn writes_without_cleaning_take_what_the_closed_form_says() {
    // E = w + (1 - h) (2 r + w) where a translation page has one entry and all entries are dirty.
    let (units, cached) = (1000_u64, 400);
    let mut nand = array(1, 400, 64, 1);
    let mut dftl = filled(&mut nand, &config(cached), units);
    let mut rng = Rng::new(3);
    let mut now = Nanos::ZERO;
    for _ in 0..2000 {
        now = dftl.write_at(&mut nand, now, Lpn(rng.below(units)), None).unwrap();
    }
    let from = now;
    for _ in 0..9000 {
        now = dftl.write_at(&mut nand, now, Lpn(rng.below(units)), None).unwrap();
    }
    assert_eq!(nand.counters().get(FlashOperation::Erase, Cause::Cleaning), 0);
    let mean = (now - from).0 as f64 / 9000.0;
    let expected =
        PROGRAM_NS as f64 + translation_time(0.4, 1.0, READ_NS as f64, PROGRAM_NS as f64);
    assert!((mean / expected - 1.0).abs() < 0.02, "{mean} not {expected}");
}

/// Time of all commands of an array, one after the other.
fn work(nand: &NandArray) -> u64 {
    let counters = nand.counters();
    counters.total(FlashOperation::Read) * READ_NS
        + counters.total(FlashOperation::Program) * PROGRAM_NS
        + counters.total(FlashOperation::Erase) * ERASE_NS
}

/// Time of 30000 accesses one after the other, two thirds of them writes, after a read of every unit.
fn elapsed(ftl: &mut dyn Ftl, nand: &mut NandArray, distribution: &Distribution) -> Nanos {
    let mut addresses = AddressGenerator::new(distribution, ftl.unit_count(), 9).unwrap();
    let mut rng = Rng::new(4);
    let mut now = Nanos::ZERO;
    for lpn in 0..ftl.unit_count() {
        now = ftl.read_at(nand, now, Lpn(lpn), 4).unwrap();
    }
    let from = now;
    for _ in 0..30_000 {
        let lpn = Lpn(addresses.next_item());
        now = if rng.below(3) == 0 {
            ftl.read_at(nand, now, lpn, 4).unwrap()
        } else {
            ftl.write_at(nand, now, lpn, None).unwrap()
        };
    }
    ftl.audit(nand);
    assert_eq!(now.0, work(nand), "on one die, elapsed time is the sum of all commands");
    now - from
}

#[test]
fn a_map_on_flash_is_never_faster_than_one_in_memory_and_approaches_it() {
    let zipf = Distribution::Zipf { theta: 0.9, clustered: false };
    for distribution in [Distribution::Uniform, zipf] {
        let units = 5000;
        let mut nand = array(1, 100, 64, 64);
        let mut page = PageFtl::new(&PageConfig::default(), &nand, units, 1).unwrap();
        page.initialise_sequential(&mut nand).unwrap();
        let in_memory = elapsed(&mut page, &mut nand, &distribution);
        let mut last = Nanos::MAX;
        for cached in [50, 500, 5000] {
            let mut nand = array(1, 100, 64, 64);
            let mut dftl = filled(&mut nand, &config(cached), units);
            let on_flash = elapsed(&mut dftl, &mut nand, &distribution);
            assert!(on_flash > in_memory, "{cached} cached: {on_flash:?} {in_memory:?}");
            assert!(on_flash < last, "{cached} cached: more cache is never slower");
            last = on_flash;
        }
        // Host writes and copies share a frontier here, which costs more where some units are hot; apart
        // from each other they cost what they cost in a page map.
        let limit = if distribution == Distribution::Uniform { 1.15 } else { 1.35 };
        let ratio = last.0 as f64 / in_memory.0 as f64;
        assert!(ratio < limit, "{distribution:?}, all cached: {ratio} times as long");
        let mut nand = array(1, 100, 64, 64);
        let separate = DftlConfig { separate_copies: true, ..config(5000) };
        let mut dftl = filled(&mut nand, &separate, units);
        let apart = elapsed(&mut dftl, &mut nand, &distribution).0 as f64 / in_memory.0 as f64;
        assert!((1.0..1.15).contains(&apart), "{distribution:?}, separate: {apart} times as long");
    }
}

#[test]
fn the_tightest_layouts_never_come_to_a_stop() {
    for (dies, blocks, pages, entries) in
        [(1, 12, 4, 1), (1, 12, 4, 2), (1, 30, 8, 1), (1, 40, 16, 4), (3, 9, 4, 2), (4, 10, 8, 1)]
    {
        for (cached, separate_copies) in
            [(1, false), (3, false), (20, false), (1, true), (20, true)]
        {
            let mut nand = array(dies, blocks, pages, entries);
            let frontiers = (2 + u32::from(separate_copies)) * dies;
            let usable = u64::from((dies * blocks - 3 - frontiers) * pages);
            let config = DftlConfig { separate_copies, ..config(cached) };
            let fits = |units: &u64| units + units.div_ceil(u64::from(entries)) <= usable;
            let units = (1..usable).rev().find(fits).unwrap();
            assert!(Dftl::new(&config, &nand, units + 1).is_err());
            let mut dftl = filled(&mut nand, &config, units);
            let mut rng = Rng::new(7);
            for round in 0..3000 {
                let done = dftl.write(&mut nand, Ticket::READY, Lpn(rng.below(units)), None);
                assert!(done.is_ok(), "{dies} {blocks} {pages} {entries} {cached}: {round}");
            }
            dftl.audit(&nand);
        }
    }
}

#[test]
fn impossible_parameters_are_refused_and_wear_ends_in_device_full() {
    let nand = array(1, 20, 8, 4);
    let refused = |change: fn(&mut DftlConfig)| {
        let mut config = config(4);
        change(&mut config);
        matches!(Dftl::new(&config, &nand, 40), Err(FtlError::Configuration(_)))
    };
    assert!(refused(|config| config.cached_entry_count = 0));
    assert!(refused(|config| config.protected_ppm = 1_000_000));
    assert!(refused(|config| config.reserve_count = 2));
    assert!(matches!(Dftl::new(&config(4), &nand, 0), Err(FtlError::Configuration(_))));
    let mut worn = *nand.config();
    worn.rules.endurance = 5;
    let mut nand = NandArray::new(worn).unwrap();
    let mut dftl = filled(&mut nand, &config(4), 60);
    let mut rng = Rng::new(3);
    let mut next = || dftl.write(&mut nand, Ticket::READY, Lpn(rng.below(60)), None).err();
    let failed = (0..10_000).find_map(|_| next());
    assert_eq!(failed, Some(FtlError::DeviceFull));
    dftl.audit(&nand);
}

#[test]
fn recovery_writes_only_translation_pages_that_are_out_of_date() {
    let mut nand = array(1, 32, 8, 4);
    let mut dftl = filled(&mut nand, &config(8), 64);
    let written = |nand: &NandArray| nand.counters().get(FlashOperation::Program, Cause::Recovery);
    dftl.recover(&mut nand, Ticket::READY).unwrap();
    assert_eq!(written(&nand), 0, "nothing was dirty");
    for lpn in [0, 1, 9] {
        write(&mut dftl, &mut nand, lpn);
    }
    dftl.recover(&mut nand, Ticket::READY).unwrap();
    assert_eq!(written(&nand), 2, "two translation pages had dirty entries");
    dftl.audit(&nand);
    dftl.recover(&mut nand, Ticket::READY).unwrap();
    assert_eq!(written(&nand), 2, "a second recovery finds nothing to do");
    assert_eq!(read(&mut dftl, &mut nand, 0), (1, 0), "the cache is empty");
}

#[test]
fn a_recovery_that_is_cut_short_leaves_its_work_to_the_next() {
    for programs_before in [0, 1] {
        let mut nand = array(1, 32, 8, 4);
        let mut dftl = filled(&mut nand, &config(8), 64);
        for lpn in [0, 9] {
            write(&mut dftl, &mut nand, lpn);
        }
        nand.fail_power_after(programs_before, false);
        let failed = dftl.recover(&mut nand, Ticket::READY);
        assert_eq!(failed, Err(FtlError::Nand(NandError::PowerLost)));
        nand.power_on();
        dftl.recover(&mut nand, Ticket::READY).unwrap();
        dftl.audit(&nand);
        let written = nand.counters().get(FlashOperation::Program, Cause::Recovery);
        assert_eq!(written, 2, "two translation pages were out of date");
    }
}

#[test]
fn cuts_in_a_row_leave_recovery_enough_space() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut nand = array(3, 7, 4, 4);
        let units = 24 + seed % 15;
        let mut dftl = filled(&mut nand, &config(4), units);
        for _ in 0..200 {
            write(&mut dftl, &mut nand, rng.below(units));
        }
        nand.fail_power_after(rng.below(40), rng.below(2) == 0);
        while dftl.write(&mut nand, Ticket::READY, Lpn(rng.below(units)), None).is_ok() {}
        // A new layer knows of no translation page whether it is current, and writes them all.
        dftl = Dftl::new(&config(4), &nand, units).unwrap();
        for _ in 0..6 {
            nand.fail_power_after(rng.below(4), rng.below(2) == 0);
            if let Err(error) = dftl.recover(&mut nand, Ticket::READY) {
                assert_eq!(error, FtlError::Nand(NandError::PowerLost), "seed {seed}");
            }
        }
        nand.power_on();
        let recovered = dftl.recover(&mut nand, Ticket::READY);
        assert!(recovered.is_ok(), "seed {seed}, {units} units: {recovered:?}");
        dftl.audit(&nand);
    }
}

#[test]
fn write_times_spread_as_stalls_for_whole_victims_do() {
    // All units are cached, so this is a page map whose copies go where host writes go.
    let (units, pages) = (5000_u64, 32_u32);
    let mut nand = array(1, 200, pages, 64);
    let mut dftl = filled(&mut nand, &config(5000), units);
    let mut rng = Rng::new(8);
    let mut now = Nanos::ZERO;
    for lpn in 0..units {
        now = dftl.read_at(&mut nand, now, Lpn(lpn), 4).unwrap();
    }
    let mut before = *nand.counters();
    let (mut sum, mut squares, measured) = (0.0, 0.0, 4 * units);
    for access in 0..8 * units {
        if access == 4 * units {
            before = *nand.counters();
        }
        let done = dftl.write_at(&mut nand, now, Lpn(rng.below(units)), None).unwrap();
        if access >= 4 * units {
            let micros = (done - now).as_micros_f64();
            (sum, squares) = (sum + micros, squares + micros * micros);
        }
        now = done;
    }
    let programs = nand.counters().since(&before).total(FlashOperation::Program);
    let amplification = programs as f64 / measured as f64;
    assert!(amplification > 1.5, "{amplification}");
    let mean = sum / measured as f64;
    let deviation = (squares / measured as f64 - mean * mean).sqrt();
    let (expected_mean, expected_deviation) =
        cleaned_write_time(amplification, 20.0, 200.0, 1500.0, f64::from(pages));
    assert!((mean / expected_mean - 1.0).abs() < 0.005, "{mean} not {expected_mean}");
    let ratio = deviation / expected_deviation;
    assert!((ratio - 1.0).abs() < 0.02, "{deviation} not {expected_deviation}");
}

#[test]
fn the_map_takes_eight_bytes_an_entry_and_four_a_translation_page() {
    let nand = array(1, 32, 8, 4);
    let dftl = Dftl::new(&config(10), &nand, 63).unwrap();
    assert_eq!(dftl.map_bytes(), 10 * 8 + 16 * 4);
}

#[test]
fn dies_take_page_writes_in_parallel() {
    let mut nand = array(4, 16, 8, 64);
    let mut dftl = filled(&mut nand, &config(64), 200);
    for lpn in 0..8 {
        read(&mut dftl, &mut nand, lpn);
    }
    let from = nand.idle_at();
    let start = nand.at(from);
    let done: Vec<_> =
        (0..8).map(|lpn| dftl.write(&mut nand, start, Lpn(lpn), None).unwrap()).collect();
    let done: Vec<_> = done.into_iter().map(|ticket| nand.finish(ticket)).collect();
    assert_eq!(done[..4], [from + Nanos(PROGRAM_NS); 4]);
    assert_eq!(done[4..], [from + Nanos(2 * PROGRAM_NS); 4]);
}
