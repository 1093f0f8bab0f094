//! In-page logging against a map of pages, on chips of several laws, with the power cut at any request.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::*;
use crate::page::{TRAILER_BYTES, seal_page};
use crate::propagation::page_versions::{Disk, Model, PageVersions, disk, page, some_pages};
use crate::propagation::shared_flash::SharedFlash;
use crate::propagation::{FlashIo, Medium};
use crate::volume::DeviceVolume;
use nandu_base::Rng;
use nandu_device::RawFlash as _;
use nandu_device::raw_flash::{FlashGeometry, MemoryFlashConfig};
use proptest::prelude::*;
use std::sync::Arc;

mod counts;
mod room;

const PAGE_BYTES: u32 = 1024;
const VERSIONS: PageVersions =
    PageVersions { page_bytes: PAGE_BYTES, alike_count: 60, place_bytes: 40 };
const DISK_SECTORS: u64 = 4096;

/// Chips of small flash pages.
fn chips(erase_block_count: u32, flash_page_bytes: u32) -> MemoryFlashConfig {
    let geometry = FlashGeometry {
        erase_block_count,
        flash_pages_per_erase_block: 16,
        flash_page_bytes,
        spare_bytes: 32,
        die_count: 2,
    };
    MemoryFlashConfig { geometry, ..MemoryFlashConfig::default() }
}

fn small() -> InPageLoggingSettings {
    InPageLoggingSettings {
        log_region_bytes: 2048,
        log_sector_bytes: 256,
        ..InPageLoggingSettings::default()
    }
}

/// Chips and settings that have little in common.
fn variant(number: u64) -> (MemoryFlashConfig, InPageLoggingSettings) {
    match number % 6 {
        0 => (chips(48, 1024), small()),
        // A page on two flash pages, and units on two dies.
        1 => (chips(96, 512), InPageLoggingSettings { erase_blocks_per_unit: 2, ..small() }),
        // Sectors that are flash pages.
        2 => {
            let laws = MemoryFlashConfig { programs_per_erase: 1, ..chips(48, 1024) };
            (laws, InPageLoggingSettings { waiting_sector_count_max: 3, ..small() })
        }
        3 => {
            let laws = MemoryFlashConfig {
                programs_per_erase: 1,
                has_paired_pages: true,
                ..chips(64, 1024)
            };
            (laws, small())
        }
        // Log sectors and pages of two flash pages on paired chips.
        4 => {
            let laws = MemoryFlashConfig { has_paired_pages: true, ..chips(96, 512) };
            (laws, InPageLoggingSettings { waiting_sector_count_max: 1, ..small() })
        }
        // Flash pages larger than pages.
        _ => {
            let laws = MemoryFlashConfig { bad_erase_blocks: vec![0, 7, 8, 30], ..chips(48, 2048) };
            (laws, InPageLoggingSettings { log_region_bytes: 4096, ..small() })
        }
    }
}

/// A propagation, its media and its model.
struct Bench {
    disk: Disk,
    flash: SharedFlash,
    settings: InPageLoggingSettings,
    propagation: InPageLogging,
    model: Model,
}

fn media(disk: &Disk, flash: &SharedFlash, is_new: bool) -> Media {
    let device = Box::new(disk.clone());
    let volume = if is_new { DeviceVolume::format(device) } else { DeviceVolume::open(device) };
    let data = Io::new(Box::new(volume.unwrap()), Arc::default());
    let chips = FlashIo::new(Box::new(flash.clone()), Arc::default());
    Media::of_data(data).with(CHIPS, Medium::RawFlash(chips))
}

impl Bench {
    fn new(laws: MemoryFlashConfig, settings: InPageLoggingSettings) -> Self {
        let (disk, flash) = (disk(DISK_SECTORS), SharedFlash::with(laws));
        let media = media(&disk, &flash, true);
        let propagation = InPageLogging::create(&media, PAGE_BYTES, &settings).unwrap();
        Self { disk, flash, settings, propagation, model: Model::default() }
    }

    /// Writes new versions; of two in three pages it is told what changed.
    fn write(&mut self, addresses: &[PageAddress]) -> Result<(), StorageError> {
        let mut write_of = |&address: &PageAddress| {
            let before = VERSIONS.content(address, self.model.newest(address));
            let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
            buffer.copy_from_slice(&VERSIONS.content(address, self.model.write(address)));
            let changed = match self.model.version % 3 {
                0 => ChangedRanges::default(),
                _ => ChangedRanges::between(&before, &buffer),
            };
            let is_new = self.model.version.is_multiple_of(17);
            PageWrite { address, buffer, changed, is_new }
        };
        let mut pages: Vec<PageWrite> = addresses.iter().map(&mut write_of).collect();
        self.propagation.write(&mut pages)?;
        assert!(pages.iter().all(|page| page.changed.as_slice().is_empty()));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.propagation.sync()?;
        self.model.sync();
        Ok(())
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        self.model.truncate(file, first_page);
        self.propagation.truncate(file, first_page)
    }

    /// Reads all known pages; gives back their versions.
    fn read_all(&mut self) -> Result<BTreeMap<PageAddress, u32>, StorageError> {
        VERSIONS.read_all(&mut self.propagation, &self.model)
    }

    fn check(&mut self) {
        self.propagation.audit();
        self.flash.audit();
        for (address, version) in self.read_all().unwrap() {
            assert_eq!(version, self.model.newest(address), "{address}");
        }
    }

    /// Reopens after a power cut, and checks what is there.
    fn reopen(&mut self) -> Result<(), StorageError> {
        self.flash.restart();
        let media = media(&self.disk, &self.flash, false);
        let before = self.flash.counters().commands.programmed_pages();
        self.propagation = InPageLogging::open(&media, PAGE_BYTES, &self.settings)?;
        assert_eq!(self.flash.counters().commands.programmed_pages(), before, "nothing is written");
        self.propagation.audit();
        let found = self.read_all()?;
        self.model.adopt(&found);
        Ok(())
    }

    /// A random deed: mostly writes, of few pages in most cases.
    fn step(&mut self, rng: &mut Rng, page_count: u64) -> Result<(), StorageError> {
        match rng.below(20) {
            0 | 1 => return self.sync(),
            2 if rng.below(4) == 0 => {
                let file = FileId(1 + rng.below(2) as u16);
                return self.truncate(file, 1 + rng.below(page_count) as u32);
            }
            _ => {}
        }
        self.write(&some_pages(rng, page_count))
    }
}

#[test]
fn pages_come_back_through_logs_merges_truncates_and_reopening() {
    for number in 0..6 {
        let (laws, settings) = variant(number);
        let mut bench = Bench::new(laws, settings);
        let mut rng = Rng::new(20 + number);
        for round in 0..20 {
            for _ in 0..40 {
                bench.step(&mut rng, 100).unwrap();
                bench.propagation.audit();
            }
            bench.check();
            if round % 5 == 4 {
                let counters = bench.propagation.counters();
                assert!(counters.merge_count > 5, "{number}: {counters:?}");
                assert!(counters.record_count > 20, "{number}: {counters:?}");
                bench.sync().unwrap();
                bench.reopen().unwrap();
            }
        }
    }
}

#[test]
fn what_was_synced_is_there_wherever_the_power_is_cut() {
    for seed in 0..360_u64 {
        let mut rng = Rng::new(seed);
        let (laws, settings) = variant(seed);
        let mut bench = Bench::new(laws, settings);
        for _ in 0..3 {
            bench.flash.cut_at(bench.flash.submitted_count() + 1 + rng.below(500));
            while bench.step(&mut rng, 60).is_ok() {}
            bench.reopen().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            bench.check();
        }
    }
}

#[test]
fn every_request_of_some_work_can_be_cut() {
    for number in 0..6 {
        let run = |at: Option<u64>| {
            let (laws, settings) = variant(number);
            let mut bench = Bench::new(laws, settings);
            let mut rng = Rng::new(4);
            let begin = bench.flash.submitted_count();
            at.iter().for_each(|at| bench.flash.cut_at(begin + at));
            let result = (0..45).try_for_each(|_| bench.step(&mut rng, 12));
            assert!(at.is_some() || result.is_ok(), "{number}: {result:?}");
            let count = bench.flash.submitted_count() - begin;
            assert!(at.is_some() || bench.propagation.counters().merge_count > 0, "{number}");
            bench.reopen().unwrap_or_else(|error| panic!("{number} cut at {at:?}: {error}"));
            bench.step(&mut rng, 12).unwrap();
            bench.check();
            count
        };
        let count = run(None);
        assert!(count > 200, "{number}: {count} requests are worth cutting");
        (1..=count).step_by(3).for_each(|at| _ = run(Some(at)));
    }
}

#[test]
fn a_cut_in_an_opening_or_what_it_erases_changes_nothing() {
    for number in 0..6 {
        for at in (1..400).step_by(13) {
            let (laws, settings) = variant(number);
            let mut bench = Bench::new(laws, settings);
            let mut rng = Rng::new(at);
            bench.flash.cut_at(bench.flash.submitted_count() + 3 * at);
            while bench.step(&mut rng, 40).is_ok() {}
            bench.flash.restart();
            bench.flash.cut_at(bench.flash.submitted_count() + at);
            let media = media(&bench.disk, &bench.flash, false);
            let opened = InPageLogging::open(&media, PAGE_BYTES, &bench.settings);
            if let Ok(mut opened) = opened {
                let _ = opened.settle();
            }
            bench.reopen().unwrap();
            bench.check();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_deeds_and_cuts_leave_pages_that_were_there(
        seed in any::<u64>(),
        deeds in proptest::collection::vec((0_u64..40, any::<bool>()), 1..12),
        number in 0_u64..6,
        page_count in 8_u64..150,
    ) {
        let (laws, settings) = variant(number);
        let mut bench = Bench::new(laws, settings);
        let mut rng = Rng::new(seed);
        for (count, is_cut) in deeds {
            for _ in 0..count {
                bench.step(&mut rng, page_count).unwrap();
                bench.propagation.audit();
            }
            if is_cut {
                bench.reopen().unwrap();
            }
            bench.check();
        }
    }
}
