//! In-page logging against a map of pages, on chips of several laws, with the power cut at any request.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::*;
use crate::Lsn;
use crate::page::{TRAILER_BYTES, seal_page, set_page_lsn};
use crate::propagation::shared_flash::SharedFlash;
use crate::propagation::{FlashIo, Medium};
use crate::volume::DeviceVolume;
use crate::volume::testing::SharedDevice;
use nandu_base::{Rng, to_index};
use nandu_device::raw_flash::{FlashGeometry, MemoryFlashConfig};
use nandu_device::{FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice, RawFlash as _};
use proptest::prelude::*;
use std::sync::Arc;

mod counts;
mod room;

type Disk = SharedDevice<FaultyDevice<MemoryDevice>>;

const PAGE_BYTES: u32 = 1024;

fn disk() -> Disk {
    let geometry = Geometry::new(512, 4096).unwrap();
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()))
}

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

fn page(file: u16, page: u32) -> PageAddress {
    PageAddress::new(FileId(file), page)
}

/// Versions of a page that differ in a few places only.
const ALIKE_COUNT: u32 = 60;

/// A page in one of its versions, sealed.
fn content(address: PageAddress, version: u32) -> Vec<u8> {
    let mut bytes = vec![0; PAGE_BYTES as usize];
    if version == 0 {
        return bytes;
    }
    Rng::new(address.to_word() << 20 | u64::from(version / ALIKE_COUNT)).fill(&mut bytes);
    let mut rng = Rng::new(u64::from(version));
    let usable = PAGE_BYTES as usize - TRAILER_BYTES;
    for _ in 0..rng.below(8) {
        let start = to_index(rng.below(usable as u64 - 40));
        bytes[start..start + 1 + to_index(rng.below(40))].fill(version as u8);
    }
    set_page_lsn(&mut bytes, Lsn(u64::from(version)));
    seal_page(&mut bytes, address);
    bytes
}

fn version_of(bytes: &[u8], address: PageAddress) -> u32 {
    let is_empty = bytes.iter().all(|&byte| byte == 0);
    let version = if is_empty { 0 } else { crate::page::page_lsn(bytes).0 as u32 };
    assert!(bytes == content(address, version), "{address} in version {version}");
    version
}

/// The versions that a page had since the last sync, that at the sync the first; 0 is "never written".
#[derive(Clone, Debug, Default)]
struct Model {
    versions: BTreeMap<PageAddress, Vec<u32>>,
    version: u32,
}

impl Model {
    fn write(&mut self, address: PageAddress) -> u32 {
        self.version += 1;
        self.versions.entry(address).or_insert_with(|| vec![0]).push(self.version);
        self.version
    }

    fn truncate(&mut self, file: FileId, first_page: u32) {
        let range = PageAddress::new(file, first_page)..=PageAddress::new(file, u32::MAX);
        self.versions.range_mut(range).for_each(|(_, versions)| versions.push(0));
    }

    fn newest(&self, address: PageAddress) -> u32 {
        self.versions.get(&address).map_or(0, |versions| *versions.last().unwrap())
    }

    fn sync(&mut self) {
        for versions in self.versions.values_mut() {
            *versions = vec![*versions.last().unwrap()];
        }
    }

    /// Takes what is found after a power cut as the truth, if it is one that may be there.
    fn adopt(&mut self, found: &BTreeMap<PageAddress, u32>) {
        for (address, versions) in &mut self.versions {
            let version = found[address];
            assert!(versions.contains(&version), "{address}: {version} is none of {versions:?}");
            *versions = vec![version];
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
        let (disk, flash) = (disk(), SharedFlash::with(laws));
        let media = media(&disk, &flash, true);
        let propagation = InPageLogging::create(&media, PAGE_BYTES, &settings).unwrap();
        Self { disk, flash, settings, propagation, model: Model::default() }
    }

    /// Writes new versions; of two in three pages it is told what changed.
    fn write(&mut self, addresses: &[PageAddress]) -> Result<(), StorageError> {
        let mut write_of = |&address: &PageAddress| {
            let before = content(address, self.model.newest(address));
            let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
            buffer.copy_from_slice(&content(address, self.model.write(address)));
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

    /// Reads all known pages, several at a time; gives back their versions.
    fn read_all(&mut self) -> Result<BTreeMap<PageAddress, u32>, StorageError> {
        let addresses: Vec<PageAddress> = self.model.versions.keys().copied().collect();
        let mut found = BTreeMap::new();
        for part in addresses.chunks(16) {
            for &address in part {
                let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
                buffer.fill(0xEE);
                self.propagation.start_read(address, buffer)?;
            }
            while let Some(read) = self.propagation.next_read() {
                read.result?;
                found.insert(read.address, version_of(&read.buffer, read.address));
            }
        }
        assert_eq!(found.len(), addresses.len(), "each page that was begun arrives");
        Ok(found)
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
        let mut addresses = Vec::new();
        for _ in 0..1 + rng.below(12) {
            let hot = if rng.below(3) == 0 { page_count } else { page_count / 8 + 1 };
            let address = page(1 + rng.below(2) as u16, 1 + rng.below(hot) as u32);
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        self.write(&addresses)
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
