//! A pool whose propagation hears of pages that leave it unchanged, and reads them from elsewhere: what
//! it is told has to be what the device has.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::{FILE, FakeLog, Model, PAGE_BYTES, address};
use crate::page::Checksum;
use crate::pool::tests::disk::Disk;
use crate::pool::tests::kept_copies::KeptCopies;
use crate::pool::{Pool, PoolConfig, ReplacementKind, WriteBack};
use crate::propagation::Placement;
use crate::volume::testing::SharedDevice;
use crate::volume::{DeviceVolume, Io};
use nandu_device::{FaultPlan, Geometry, MemoryConfig, MemoryDevice};
use std::sync::Arc;

const PAGE_COUNT: usize = 30;

/// A pool, and the tier below it.
fn model(is_read: bool, replacement: ReplacementKind, has_reader: bool) -> (Model, Io) {
    let disk = Disk::new(FaultPlan::default());
    let data = Io::new(disk.volume(has_reader), Arc::default());
    let geometry = Geometry::new(512, 1024).unwrap();
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let volume = DeviceVolume::format(Box::new(SharedDevice::new(memory))).unwrap();
    let tier = Io::new(Box::new(volume), Arc::default());
    let tiered = KeptCopies::new(data, tier.clone(), PAGE_BYTES, 8, is_read).unwrap();
    let config = PoolConfig { page_bytes: PAGE_BYTES, frame_count: 6, replacement };
    let placement = Placement::new(Box::new(tiered), PAGE_BYTES, None);
    let mut pool = Pool::new(config, placement, Box::new(FakeLog::default())).unwrap();
    pool.name_file(FILE, "table", Checksum::Trailer);
    (Model::new(pool, PAGE_COUNT, 3), tier)
}

#[test]
fn what_leaves_the_pool_unchanged_comes_back_from_where_the_propagation_put_it() {
    for kind in ReplacementKind::ALL {
        for has_reader in [false, true] {
            let (mut model, tier) = model(true, kind, has_reader);
            for step in 0..1500 {
                model.step().unwrap();
                if step % 16 == 0 {
                    model.pool.audit();
                }
            }
            model.check_all();
            let counters = tier.counters();
            let (heard, read) = (counters.writes.request_count, counters.reads.request_count);
            assert!(heard > 200, "{heard} pages were told of");
            assert!(read > 50, "{read} pages were read from the tier");
            assert_eq!(model.cleaning_count, 0, "its places are not known while it is away");
        }
    }
}

#[test]
fn a_propagation_that_is_away_with_pages_hears_of_what_leaves_meanwhile() {
    for kind in ReplacementKind::ALL {
        let (mut model, tier) = model(false, kind, true);
        for step in 0..1500 {
            model.step().unwrap();
            if step % 16 == 0 {
                model.pool.audit();
            }
        }
        model.check_all();
        let heard = tier.counters().writes.request_count;
        assert!(model.cleaning_count > 5, "{} cleanings", model.cleaning_count);
        assert!(heard > 200, "{heard} pages were told of");
    }
}

#[test]
fn a_page_that_was_made_in_vain_is_told_to_nobody() {
    let (mut model, tier) = model(true, ReplacementKind::Lru, false);
    model.change(1).unwrap();
    model.pool.drop_all().unwrap();
    // Zeros, of which neither the log nor the device knows.
    model.pool.create(address(1)).unwrap();
    let before = tier.counters().writes.request_count;
    let others = 2..=2 * PAGE_COUNT as u32;
    others.for_each(|page| model.pool.read(address(page), |_| ()).unwrap());
    assert!(tier.counters().writes.request_count > before, "the others left, too");
    model.check(1).unwrap();
}

#[test]
fn a_page_of_another_programs_file_is_told_to_nobody() {
    let (mut model, tier) = model(true, ReplacementKind::Lru, false);
    let pages = || 1..=PAGE_COUNT as u32;
    pages().for_each(|page| model.change(page).unwrap());
    model.pool.write_back(&WriteBack::default()).unwrap();
    model.pool.drop_all().unwrap();
    model.pool.name_file(FILE, "table", Checksum::None);
    let before = tier.counters().writes.request_count;
    pages().for_each(|page| model.pool.read(address(page), |_| ()).unwrap());
    assert_eq!(tier.counters().writes.request_count, before, "it has no room for a seal");
}
