//! Sequential writes after a burst of random ones (S002 section 3.3.3, figure 3.3 and appendix C; target
//! T13): they slow down, the longer the burst the longer, and writing everything in order once heals a
//! page map whose copies have a frontier of their own.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use crate::common::Timed;
use nandu_base::{Lpn, Nanos, Rng};
use nandu_ftl::{CleaningFrontier, DftlConfig, Ftl, FtlConfig, FtlError, PageConfig, VictimPolicy};
use nandu_nand::{NandArray, NandProfile};

const UNITS: u64 = 128 * 64;
/// Spare space beside what a layer keeps aside, in erase blocks.
const SPARE_BLOCKS: u32 = 8;
/// Phases in a lap of sequential writes over the whole device.
const PHASES: u64 = 32;
/// A phase is as fast as before from this share of the speed then.
const RECOVERED: f64 = 0.95;

/// A device that was written in order, and goes on from its first unit.
struct Device {
    nand: NandArray,
    ftl: Box<dyn Ftl>,
    now: Nanos,
    next: u64,
    rng: Rng,
}

impl Device {
    fn new(config: &FtlConfig) -> Self {
        let mut profile = NandProfile {
            preset: "myers_slc".into(),
            channel_count: 1,
            dies_per_channel: 1,
            erase_blocks_per_plane: 1,
            ..NandProfile::default()
        };
        let shape = profile.resolve().unwrap().geometry;
        let bytes = UNITS * u64::from(shape.flash_page_bytes);
        profile.erase_blocks_per_plane =
            config.erase_blocks_per_plane(&shape, bytes, 0) + SPARE_BLOCKS;
        let mut nand = NandArray::new(profile.resolve().unwrap()).unwrap();
        let mut ftl = config.build(&nand, UNITS, 1).unwrap();
        ftl.initialise_sequential(&mut nand).unwrap();
        Self { nand, ftl, now: Nanos::ZERO, next: 0, rng: Rng::new(1) }
    }

    fn write(&mut self, lpn: u64) -> Result<(), FtlError> {
        self.now = self.ftl.write_at(&mut self.nand, self.now, Lpn(lpn), None)?;
        Ok(())
    }

    /// Flash pages that the host writes in a second, in the next phase of a lap.
    fn phase(&mut self) -> f64 {
        let (before, count) = (self.now, UNITS / PHASES);
        for _ in 0..count {
            self.write(self.next).unwrap();
            self.next = (self.next + 1) % UNITS;
        }
        count as f64 / (self.now - before).as_seconds_f64()
    }

    fn lap(&mut self) -> Vec<f64> {
        (0..PHASES).map(|_| self.phase()).collect()
    }

    fn burst(&mut self, count: u64) {
        for _ in 0..count {
            let lpn = self.rng.below(UNITS);
            self.write(lpn).unwrap();
        }
    }
}

fn page(victim: VictimPolicy, cleaning_frontier: CleaningFrontier) -> FtlConfig {
    FtlConfig::Page(PageConfig { victim, cleaning_frontier, ..PageConfig::default() })
}

/// Layers that keep copies apart from new data, so that order comes back.
fn layers() -> Vec<FtlConfig> {
    let separate_copies = true;
    let config = DftlConfig { cached_entry_count: 1024, separate_copies, ..DftlConfig::default() };
    let apart = CleaningFrontier::One;
    vec![
        page(VictimPolicy::Greedy, apart),
        page(VictimPolicy::CostBenefit, apart),
        FtlConfig::Dftl(config),
    ]
}

#[test]
fn a_burst_of_random_writes_slows_sequential_ones_down_the_longer_the_longer_it_was() {
    for config in layers() {
        let mut last_recovery = 0;
        for burst in [UNITS / 8, UNITS / 2, 2 * UNITS] {
            let mut device = Device::new(&config);
            device.lap();
            let before = device.lap();
            let slowest = before.iter().copied().fold(f64::MAX, f64::min);
            let usual = before.iter().sum::<f64>() / PHASES as f64;
            assert!(slowest > RECOVERED * usual, "{config:?}: even before the burst: {before:?}");
            device.burst(burst);
            let after: Vec<f64> = (0..4).flat_map(|_| device.lap()).collect();
            let slow = |speed: &f64| *speed < RECOVERED * usual;
            let recovery = after.iter().rposition(slow).map_or(0, |last| last + 1);
            assert!(after[..2].iter().any(slow), "{config:?}, {burst}: no drop in {after:?}");
            assert!(
                recovery > last_recovery,
                "{config:?}, {burst}: {recovery} phases in {after:?}"
            );
            assert!(recovery < after.len() / 2, "{config:?}, {burst}: no recovery in {after:?}");
            last_recovery = recovery;
            device.ftl.audit(&device.nand);
        }
    }
}

#[test]
fn writing_everything_in_order_restores_the_page_map_after_any_burst() {
    for config in layers() {
        let mut device = Device::new(&config);
        device.lap();
        let usual = device.lap().iter().sum::<f64>();
        device.burst(3 * UNITS);
        let first = device.lap().iter().sum::<f64>();
        device.lap();
        let before = device.nand.counters().programmed_pages();
        let restored = device.lap().iter().sum::<f64>();
        let programmed = device.nand.counters().programmed_pages() - before;
        assert!(first < 0.9 * usual, "{config:?}: {first} after the burst, {usual} before");
        assert!(restored > 0.99 * usual, "{config:?}: {restored}, {usual} before");
        let map_pages = if matches!(config, FtlConfig::Dftl(_)) { UNITS / 50 } else { 0 };
        assert!(programmed <= UNITS + map_pages, "{config:?}: {programmed} programs for {UNITS}");
    }
}

#[test]
fn copies_behind_the_writes_of_the_host_carry_the_disorder_of_a_burst_on() {
    let mut device = Device::new(&page(VictimPolicy::Greedy, CleaningFrontier::Shared));
    device.lap();
    let usual = device.lap().iter().sum::<f64>();
    device.burst(3 * UNITS);
    (0..12).for_each(|_| _ = device.lap());
    let later = device.lap().iter().sum::<f64>();
    assert!(later < 0.7 * usual, "{later} after twelve rewrites, {usual} before");
}
