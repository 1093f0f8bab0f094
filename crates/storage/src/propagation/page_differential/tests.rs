//! Page-differential logging against a map of pages, with the power cut at any request.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::*;
use crate::page::seal_page;
use crate::propagation::log_structured::transfer;
use crate::propagation::page_versions::{Disk, Model, PageVersions, disk, page, some_pages};
use crate::volume::DeviceVolume;
use nandu_base::{Nanos, Rng, to_index};
use nandu_device::{Device, Failure, FaultPlan, UnflushedFate};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

mod chips;
mod faults;
mod room;

const PAGE_BYTES: u32 = 512;
const FILE: FileId = FileId(1);
const VERSIONS: PageVersions =
    PageVersions { page_bytes: PAGE_BYTES, alike_count: 20_000, place_bytes: 8 };

fn io_of(volume: DeviceVolume) -> Io {
    Io::new(Box::new(volume), Arc::default())
}

/// Cuts the power, if that did not happen, and restores it.
fn restart(disk: &Disk) {
    let mut device = disk.lock();
    device.cut_power();
    while device.next_completion(Nanos::MAX).is_some() {}
    device.power_on();
    device.set_plan(FaultPlan::default());
}

/// Small segments, so that everything happens often.
fn small() -> PageDifferentialSettings {
    PageDifferentialSettings {
        page_bytes: PAGE_BYTES,
        difference_bytes_max: 128,
        segment_bytes: 8192,
        write_bytes: 4096,
        spare_percent: 60,
        spare_segment_count: 8,
        reserve_segment_count: 4,
    }
}

/// A propagation, its disk and its model.
struct Bench {
    disk: Disk,
    settings: PageDifferentialSettings,
    propagation: PageDifferential,
    model: Model,
}

impl Bench {
    fn new(disk: Disk, settings: PageDifferentialSettings) -> Self {
        let io = io_of(DeviceVolume::format(Box::new(disk.clone())).unwrap());
        let propagation = PageDifferential::create(Media::of_data(io), settings.clone()).unwrap();
        Self { disk, settings, propagation, model: Model::default() }
    }

    fn write(&mut self, addresses: &[PageAddress]) -> Result<(), StorageError> {
        let mut write_of = |&address: &PageAddress| {
            let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
            buffer.copy_from_slice(&VERSIONS.content(address, self.model.write(address)));
            PageWrite { address, buffer, changed: ChangedRanges::default(), is_new: false }
        };
        let mut pages: Vec<PageWrite> = addresses.iter().map(&mut write_of).collect();
        self.propagation.write(&mut pages)
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
        for (address, version) in self.read_all().unwrap() {
            assert_eq!(version, self.model.newest(address), "{address}");
        }
    }

    /// Reopens after a power cut, and checks what is there.
    fn reopen(&mut self) -> Result<(), StorageError> {
        restart(&self.disk);
        let io = io_of(DeviceVolume::open(Box::new(self.disk.clone()))?);
        self.propagation = PageDifferential::open(Media::of_data(io), self.settings.clone())?;
        self.propagation.audit();
        let found = self.read_all()?;
        self.model.adopt(&found);
        Ok(())
    }

    /// A random deed: mostly writes, of few pages in most cases.
    fn step(&mut self, rng: &mut Rng, page_count: u64) -> Result<(), StorageError> {
        match rng.below(20) {
            0 => return self.sync(),
            1 if rng.below(4) == 0 => {
                let file = FileId(1 + rng.below(2) as u16);
                return self.truncate(file, 1 + rng.below(page_count) as u32);
            }
            _ => {}
        }
        self.write(&some_pages(rng, page_count))
    }
}

#[test]
fn pages_come_back_through_rewrites_cleaning_truncates_and_reopening() {
    for (seed, difference_bytes_max) in [(11, 64), (12, 128), (13, 256), (14, 512)] {
        let settings = PageDifferentialSettings { difference_bytes_max, ..small() };
        let mut bench = Bench::new(disk(16_384), settings);
        let mut rng = Rng::new(seed);
        for round in 0..30 {
            for _ in 0..50 {
                bench.step(&mut rng, 120).unwrap();
                bench.propagation.audit();
            }
            bench.check();
            if round % 5 == 4 {
                let counters = bench.propagation.counters();
                assert!(counters.cleaned_segment_count > 5, "{counters:?}");
                assert!(difference_bytes_max < 256 || counters.difference_count > 50);
                bench.sync().unwrap();
                bench.reopen().unwrap();
            }
        }
    }
}

#[test]
fn what_was_synced_is_there_wherever_the_power_is_cut() {
    for seed in 0..400_u64 {
        let mut rng = Rng::new(seed);
        let settings = PageDifferentialSettings {
            difference_bytes_max: [128, 256][to_index(seed % 2)],
            spare_percent: [10, 25, 60][to_index(seed % 3)],
            ..small()
        };
        let mut bench = Bench::new(disk(4096), settings);
        for _ in 0..3 {
            let fates = [UnflushedFate::Dropped, UnflushedFate::Kept, UnflushedFate::Torn];
            let at = bench.disk.lock().submitted_count() + 1 + rng.below(400);
            bench.disk.lock().set_plan(FaultPlan {
                power_cut_at_request: Some(at),
                torn_sector_count: Some(rng.below(9) as u32),
                unflushed: fates[to_index(rng.below(3))],
                seed: rng.next_u64(),
                ..FaultPlan::default()
            });
            while bench.step(&mut rng, 60).is_ok() {}
            bench.reopen().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            bench.check();
        }
    }
}

#[test]
fn a_cut_in_an_opening_changes_nothing() {
    for at in 1..60 {
        let mut bench = Bench::new(disk(4096), small());
        let mut rng = Rng::new(3);
        for _ in 0..40 {
            bench.step(&mut rng, 40).unwrap();
        }
        bench.sync().unwrap();
        bench.write(&[page(1, 1), page(1, 2)]).unwrap();
        for _ in 0..2 {
            restart(&bench.disk);
            let plan = FaultPlan {
                power_cut_at_request: Some(bench.disk.lock().submitted_count() + at),
                unflushed: UnflushedFate::Torn,
                seed: at,
                ..FaultPlan::default()
            };
            bench.disk.lock().set_plan(plan);
            let volume = DeviceVolume::open(Box::new(bench.disk.clone()));
            let opened = volume.and_then(|volume| {
                PageDifferential::open(Media::of_data(io_of(volume)), bench.settings.clone())
            });
            drop(opened);
        }
        bench.reopen().unwrap();
        bench.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn any_deeds_and_cuts_leave_pages_that_were_there(
        seed in any::<u64>(),
        deeds in proptest::collection::vec((0_u64..40, any::<bool>()), 1..12),
        difference_bytes_max in 64_u32..512,
        page_count in 8_u64..150,
    ) {
        let settings = PageDifferentialSettings { difference_bytes_max, ..small() };
        let mut bench = Bench::new(disk(8192), settings);
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

/// A page whose bytes from `start` on are the fill's.
fn filled(address: PageAddress, start: usize, bytes: usize, fill: u8) -> PageWrite {
    let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
    buffer[..100].fill(7);
    buffer[start..start + bytes].fill(fill);
    seal_page(&mut buffer, address);
    PageWrite { address, buffer, changed: ChangedRanges::default(), is_new: false }
}

#[test]
fn a_page_that_changes_little_has_one_differential_and_two_reads() {
    let mut bench = Bench::new(disk(4096), small());
    let pdl = &mut bench.propagation;
    let address = page(1, 1);
    for fill in 0..5 {
        pdl.write(&mut [filled(address, 200, 8, fill)]).unwrap();
        pdl.sync().unwrap();
        pdl.audit();
    }
    let counters = pdl.counters();
    assert_eq!((counters.base_page_count, counters.difference_count), (1, 4));
    let Some(PagePlace::Records(stored)) = pdl.locate(address) else { panic!("it has two parts") };
    assert_eq!(stored.pieces().count(), 2);
    // More than a differential may have becomes a base page, which is read at once.
    pdl.write(&mut [filled(address, 200, 200, 9)]).unwrap();
    assert_eq!(pdl.counters().base_page_count, 2);
    assert!(matches!(pdl.locate(address), Some(PagePlace::Whole { .. })));
    // One that is as its base page is again has no other differential than an empty one.
    pdl.write(&mut [filled(address, 200, 8, 9)]).unwrap();
    pdl.write(&mut [filled(address, 200, 200, 9)]).unwrap();
    pdl.sync().unwrap();
    let before = pdl.counters();
    pdl.write(&mut [filled(address, 200, 8, 9)]).unwrap();
    pdl.sync().unwrap();
    pdl.write(&mut [filled(address, 200, 200, 9)]).unwrap();
    pdl.sync().unwrap();
    pdl.audit();
    assert_eq!(
        pdl.counters().base_page_count - before.base_page_count,
        2,
        "200 bytes are too many"
    );
}

#[test]
fn differentials_of_many_pages_share_a_flash_page() {
    let mut bench = Bench::new(disk(4096), small());
    let pdl = &mut bench.propagation;
    let mut pages: Vec<PageWrite> = (1..=8).map(|it| filled(page(1, it), 200, 8, 1)).collect();
    pdl.write(&mut pages).unwrap();
    let mut pages: Vec<PageWrite> = (1..=8).map(|it| filled(page(1, it), 200, 8, 2)).collect();
    pdl.write(&mut pages).unwrap();
    pdl.sync().unwrap();
    // A differential is 32 bytes, two of a count, four of each of two ranges, 8 and 4 bytes: 64.
    assert_eq!((pdl.counters().difference_count, pdl.counters().differential_page_count), (8, 1));
    pdl.audit();
}

#[test]
fn a_failed_write_is_as_if_it_never_was() {
    for seed in 0..60_u64 {
        let mut bench = Bench::new(disk(4096), small());
        let mut rng = Rng::new(seed);
        for _ in 0..30 {
            bench.step(&mut rng, 40).unwrap();
        }
        let plan = FaultPlan {
            fail_requests: vec![bench.disk.lock().submitted_count() + 1 + rng.below(6)],
            failure: Failure::Damages,
            seed,
            ..FaultPlan::default()
        };
        bench.disk.lock().set_plan(plan);
        // It may be told, or be a read of a base page, without which there is a new one.
        let _ = bench.write(&[page(1, 1), page(2, 2), page(1, 3)]);
        bench.disk.lock().set_plan(FaultPlan::default());
        bench.propagation.audit();
        if bench.propagation.io.check().is_err() {
            // It was a sync, or a change of the file's length.
            bench.reopen().unwrap();
        }
        for (address, version) in bench.read_all().unwrap() {
            assert!(bench.model.versions[&address].contains(&version));
        }
        bench.write(&[page(1, 1), page(2, 2), page(1, 3)]).unwrap();
        bench.check();
        bench.sync().unwrap();
        bench.reopen().unwrap();
        bench.check();
    }
}

#[test]
fn a_request_that_fails_while_others_are_cleaned_hides_nothing() {
    let mut failed_count = 0;
    for seed in 0..120_u64 {
        // Differentials fill their share of so little room, so cleaning lays them over base pages.
        let settings =
            PageDifferentialSettings { spare_percent: 20, spare_segment_count: 5, ..small() };
        let mut bench = Bench::new(disk(4096), settings);
        let mut rng = Rng::new(seed);
        for _ in 0..80 {
            bench.step(&mut rng, 90).unwrap();
        }
        let first = bench.disk.lock().submitted_count() + 1 + rng.below(400);
        let plan = FaultPlan { fail_requests: vec![first], seed, ..FaultPlan::default() };
        bench.disk.lock().set_plan(plan);
        let failed = (0..200).find_map(|_| {
            let of_page = |_| page(1 + rng.below(2) as u16, 1 + rng.below(90) as u32);
            let mut addresses: Vec<_> = (0..4).map(of_page).collect();
            addresses.sort_unstable();
            addresses.dedup();
            bench.write(&addresses).is_err().then_some(addresses)
        });
        bench.disk.lock().set_plan(FaultPlan::default());
        let failed = failed.unwrap_or_default();
        failed_count += usize::from(!failed.is_empty());
        bench.propagation.audit();
        if bench.propagation.io.check().is_err() {
            bench.reopen().unwrap();
            continue;
        }
        for (address, version) in bench.read_all().unwrap() {
            match failed.contains(&address) {
                true => assert!(bench.model.versions[&address].contains(&version)),
                false => assert_eq!(version, bench.model.newest(address), "{seed}: {address}"),
            }
        }
        if !failed.is_empty() {
            bench.write(&failed).unwrap();
        }
        bench.sync().unwrap();
        bench.check();
        bench.reopen().unwrap();
        bench.check();
    }
    assert!(failed_count > 20, "{failed_count} writes failed");
}

#[test]
fn damage_of_what_was_durable_is_found_or_mended_from_an_older_copy() {
    let mut found_count = 0;
    for seed in 0..20 {
        let mut bench = Bench::new(disk(4096), small());
        let mut rng = Rng::new(seed);
        for _ in 0..60 {
            bench.step(&mut rng, 60).unwrap();
        }
        // Two more, of which the second says that the first is durable.
        for number in 1..=2 {
            bench.write(&[page(1, number)]).unwrap();
            bench.sync().unwrap();
        }
        let pdl = &bench.propagation;
        let open = pdl.position.unwrap().segment;
        let is_older = |it: &Difference| pdl.segments.of(it.flash_page) != open;
        let found = pdl.table.iter().filter_map(|(_, place)| place.difference).find(is_older);
        let Some(difference) = found else { continue };
        let sector = transfer::read(&pdl.io, pdl.file, difference.flash_page, 512).unwrap();
        let mut damaged = transfer::buffer(&pdl.io, 512);
        damaged.copy_from_slice(&sector);
        damaged[40] ^= 1;
        transfer::write(&pdl.io, pdl.file, difference.flash_page, damaged).unwrap();
        pdl.io.sync(pdl.file).unwrap();
        // Cleaning may have copied it from where it still is: then all pages are right.
        match bench.reopen() {
            Err(StorageError::Corrupt { .. }) => found_count += 1,
            answer => answer.unwrap(),
        }
    }
    assert!(found_count > 0);
}

#[test]
fn notes_of_cuts_do_not_pile_up() {
    let mut bench = Bench::new(disk(4096), small());
    for round in 0..600_u32 {
        let first = 1 + round % 40;
        bench.write(&[page(1, first), page(1, first + 1), page(2, 1)]).unwrap();
        bench.truncate(FILE, first + 1).unwrap();
        bench.propagation.audit();
    }
    let limit = 64 + bench.propagation.segments.count() as usize + 2;
    assert!(bench.propagation.notes.count() <= limit);
    bench.sync().unwrap();
    bench.reopen().unwrap();
    bench.check();
}
