//! Simulated layers against closed forms: flash reference 2.1.4, 2.1.5 and 2.2.2, targets T2, T4, T11.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::Timed;
use nandu_base::{FlashOperation, Lpn, Nanos, Rng};
use nandu_ftl::closed_form::{
    dynamic_write_time, fifo_write_amplification, greedy_write_amplification, live_fraction,
    random_write_amplification,
};
use nandu_ftl::{ChunkConfig, ChunkFtl, Ftl, PageConfig, PageFtl, VictimPolicy};
use nandu_nand::{NandArray, NandProfile, Ticket};

const PAGES: u32 = 64;

fn myers(dies: u32, erase_blocks: u32) -> NandArray {
    let profile = NandProfile {
        preset: "myers_slc".into(),
        channel_count: 1,
        dies_per_channel: dies,
        erase_blocks_per_plane: erase_blocks,
        ..NandProfile::default()
    };
    NandArray::new(profile.resolve().unwrap()).unwrap()
}

/// Steady state under uniform random writes: write amplification and mean write time in us.
fn steady(victim: VictimPolicy, utilisation: f64, erase_blocks: u32) -> (f64, f64) {
    let mut nand = myers(1, erase_blocks);
    let config = PageConfig { victim, reserve_count: 1, ..PageConfig::default() };
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a positive count")]
    let units = (f64::from(erase_blocks * PAGES) * utilisation) as u64;
    let mut ftl = PageFtl::new(&config, &nand, units, 1).unwrap();
    ftl.initialise_sequential(&mut nand).unwrap();
    let mut rng = Rng::new(11);
    let (mut now, mut start) = (Nanos::ZERO, Nanos::ZERO);
    let mut before = *nand.counters();
    let measured = 4 * units;
    for write in 0..4 * units + measured {
        if write == 4 * units {
            (start, before) = (now, *nand.counters());
        }
        now = ftl.write_at(&mut nand, now, Lpn(rng.below(units)), None).unwrap();
    }
    ftl.audit(&nand);
    let programs = nand.counters().since(&before).total(FlashOperation::Program);
    (programs as f64 / measured as f64, (now - start).as_micros_f64() / measured as f64)
}

/// Physical over logical size without the reserve and the two frontiers.
fn effective_alpha(utilisation: f64, erase_blocks: u32) -> f64 {
    f64::from(erase_blocks - 3) / (f64::from(erase_blocks) * utilisation)
}

fn agrees(victim: VictimPolicy, formula: impl Fn(f64) -> f64) {
    for utilisation in [0.5, 0.7, 0.8, 0.875, 0.9] {
        let (measured, _) = steady(victim, utilisation, 2048);
        let expected = formula(effective_alpha(utilisation, 2048));
        let error = measured / expected - 1.0;
        assert!(error.abs() < 0.015, "{victim:?} at {utilisation}: {measured}, not {expected}");
    }
}

#[test]
fn greedy_cleaning_amplifies_writes_as_desnoyers_says() {
    agrees(VictimPolicy::Greedy, |alpha| greedy_write_amplification(alpha, f64::from(PAGES)));
}

#[test]
fn fifo_cleaning_amplifies_writes_by_the_lambert_formula() {
    agrees(VictimPolicy::Fifo, fifo_write_amplification);
}

#[test]
fn random_cleaning_amplifies_writes_by_the_spare_share() {
    agrees(VictimPolicy::Random, random_write_amplification);
}

#[test]
fn mean_write_time_is_equation_2_2_at_the_measured_live_fraction() {
    let equation = |live| dynamic_write_time(live, 20.0, 200.0, 1500.0, f64::from(PAGES));
    for victim in [VictimPolicy::Greedy, VictimPolicy::Random] {
        let (amplification, micros) = steady(victim, 0.5, 2048);
        let expected = equation(live_fraction(amplification));
        assert!((micros / expected - 1.0).abs() < 0.01, "{victim:?}: {micros} not {expected}");
        let predicted = match victim {
            VictimPolicy::Random => 466.875,
            _ => equation(live_fraction(greedy_write_amplification(2.0, f64::from(PAGES)))),
        };
        assert!((micros / predicted - 1.0).abs() < 0.02, "{victim:?}: {micros} not {predicted}");
    }
}

fn chunk(chunk_kib: u64, dies: u32) -> (NandArray, ChunkFtl, u64) {
    let nand = myers(dies, 256 / dies);
    let config = ChunkConfig::new(chunk_kib << 10);
    let units = 128 * 64;
    let mut ftl = ChunkFtl::new(&config, &nand, units).unwrap();
    let mut nand = nand;
    ftl.initialise_sequential(&mut nand).unwrap();
    (nand, ftl, units)
}

/// Mean time in us of writes of `pages` pages, each one issued when the last is done; random ones go
/// to another chunk every time, at `shift` pages past a multiple of their size.
fn mean_write(chunk_kib: u64, dies: u32, pages: u64, random: bool, shift: u64) -> f64 {
    let (mut nand, mut ftl, units) = chunk(chunk_kib, dies);
    let chunk_pages = chunk_kib / 2;
    let mut rng = Rng::new(5);
    let mut now = Nanos::ZERO;
    let rounds = if random { 64 } else { 4 * chunk_pages / pages };
    let (mut measured_from, mut last) = (Nanos::ZERO, u64::MAX);
    for round in 0..=rounds {
        if round == 1 && random {
            measured_from = now;
        }
        if round == rounds && !random {
            break;
        }
        let first = if random {
            let mut first = last;
            while first / chunk_pages == last / chunk_pages || first + pages > units {
                first = rng.below(units / pages) * pages + shift;
            }
            first
        } else {
            round * pages
        };
        last = first;
        let issued = nand.at(now);
        let mut done = issued;
        for lpn in first..first + pages {
            let written = ftl.write(&mut nand, issued, Lpn(lpn), None).unwrap();
            done = nand.both(done, written);
        }
        now = nand.finish(done);
    }
    ftl.audit(&nand);
    (now.max(nand.idle_at()) - measured_from).as_micros_f64() / rounds as f64
}

#[test]
fn a_random_write_copies_the_rest_of_its_chunk() {
    // 254 reads, 256 programs and 4 erases: 62.28 ms.
    let millis = mean_write(512, 1, 2, true, 0) / 1000.0;
    assert!((millis / 62.28 - 1.0).abs() < 0.01, "{millis}");
}

#[test]
fn random_over_sequential_is_139_70_and_35_by_chunk_size() {
    for (chunk_kib, ratio) in [(512, 139.3), (256, 69.7), (128, 34.7)] {
        let sequential = mean_write(chunk_kib, 1, 2, false, 0);
        assert!((sequential / 446.875 - 1.0).abs() < 0.001, "{sequential}");
        let measured = mean_write(chunk_kib, 1, 2, true, 0) / sequential;
        assert!((measured / ratio - 1.0).abs() < 0.02, "{chunk_kib}: {measured} not {ratio}");
    }
}

#[test]
fn a_random_write_is_quickest_at_the_chunk_size_and_twice_as_long_misaligned() {
    let whole = mean_write(128, 1, 64, true, 0);
    for pages in [1, 2, 4, 8, 16, 32] {
        let part = mean_write(128, 1, pages, true, 0);
        assert!(part > whole, "{pages} pages take {part}, the chunk {whole}");
    }
    let misaligned = mean_write(128, 1, 64, true, 16) / whole;
    assert!((1.9..2.3).contains(&misaligned), "{misaligned}");
}

#[test]
fn dies_share_the_copies_of_a_chunk() {
    let (one, four) = (mean_write(512, 1, 2, true, 0), mean_write(512, 4, 2, true, 0));
    assert!((one / four - 4.0).abs() < 0.2, "{}", one / four);
}

#[test]
fn dies_take_page_writes_in_parallel() {
    let mut nand = myers(4, 16);
    let mut ftl = PageFtl::new(&PageConfig::default(), &nand, 1000, 1).unwrap();
    let done: Vec<_> =
        (0..8).map(|lpn| ftl.write(&mut nand, Ticket::READY, Lpn(lpn), None).unwrap()).collect();
    let done: Vec<_> = done.into_iter().map(|ticket| nand.finish(ticket)).collect();
    assert_eq!(done[..4], [Nanos::from_micros(200); 4]);
    assert_eq!(done[4..], [Nanos::from_micros(400); 4]);
}
