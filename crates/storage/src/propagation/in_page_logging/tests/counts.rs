//! What is counted, and what the method promises in counts.

use super::*;

/// Pages of one file, written once and synced.
fn filled(laws: MemoryFlashConfig, settings: InPageLoggingSettings, count: u32) -> Bench {
    let mut bench = Bench::new(laws, settings);
    let pages: Vec<PageAddress> = (1..=count).map(|number| page(1, number)).collect();
    bench.write(&pages).unwrap();
    bench.sync().unwrap();
    bench
}

/// A page with some bytes set to `fill`, as they are told.
fn patch(address: PageAddress, fill: u8, count: u32) -> PageWrite {
    let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
    buffer.fill(7);
    buffer[100..100 + count as usize].fill(fill);
    seal_page(&mut buffer, address);
    let mut changed = ChangedRanges::default();
    let end = PAGE_BYTES - TRAILER_BYTES as u32;
    [100..100 + count, end..PAGE_BYTES].into_iter().for_each(|range| changed.add(range));
    PageWrite { address, buffer, changed, is_new: false }
}

fn read(bench: &mut Bench, address: PageAddress) -> IoBuffer {
    bench.propagation.start_read(address, IoBuffer::zeroed(PAGE_BYTES as usize)).unwrap();
    let read = bench.propagation.next_read().unwrap();
    read.result.unwrap();
    read.buffer
}

#[test]
fn changes_wait_in_memory_until_a_sync_wants_them_or_a_sector_is_full() {
    let mut bench = Bench::new(chips(48, 1024), small());
    let address = page(1, 1);
    let start = bench.propagation.counters();
    bench.propagation.write(&mut [patch(address, 1, 10)]).unwrap();
    for fill in 2..50 {
        bench.propagation.write(&mut [patch(address, fill, 10)]).unwrap();
    }
    let after = bench.propagation.counters();
    assert_eq!((start.sector_count, after.sector_count), (0, 0));
    assert_eq!((after.slot_write_count, after.record_count), (1, 48));
    bench.propagation.sync().unwrap();
    bench.propagation.sync().unwrap();
    assert_eq!(bench.propagation.counters().sector_count, 1, "one for all of them");
    // 236 bytes of records have room for one of these, and not for both.
    bench.propagation.write(&mut [patch(address, 60, 150)]).unwrap();
    let mut other = patch(address, 61, 1);
    other.buffer[100..250].fill(60);
    other.buffer[500..650].fill(61);
    other.changed.add(500..650);
    bench.propagation.write(std::slice::from_mut(&mut other)).unwrap();
    assert_eq!(bench.propagation.counters().sector_count, 2);
    assert!(read(&mut bench, address)[..] == other.buffer[..]);
    bench.propagation.audit();
}

#[test]
fn a_read_takes_the_slot_and_the_log_pages_that_have_records_of_the_page() {
    let mut bench = Bench::new(chips(48, 1024), small());
    for number in 1..=8 {
        bench.propagation.write(&mut [patch(page(1, number), 0, 10)]).unwrap();
    }
    let reads_of = |bench: &mut Bench, number| {
        let before = bench.propagation.counters();
        read(bench, page(1, number));
        let after = bench.propagation.counters();
        (
            after.data_page_read_count - before.data_page_read_count,
            after.log_page_read_count - before.log_page_read_count,
        )
    };
    assert_eq!(reads_of(&mut bench, 1), (1, 0));
    // Four sectors fill a log page of the unit.
    for fill in 1..=5 {
        bench.propagation.write(&mut [patch(page(1, 1), fill, 10)]).unwrap();
        bench.propagation.sync().unwrap();
    }
    assert_eq!(reads_of(&mut bench, 1), (1, 2));
    assert_eq!(reads_of(&mut bench, 2), (1, 0));
    assert_eq!(read(&mut bench, page(1, 1))[100], 5);
}

/// Syncs after each small change of a random page, and what that cost.
fn churn(laws: MemoryFlashConfig, region_bytes: u32) -> InPageLoggingCounters {
    let settings = InPageLoggingSettings { log_region_bytes: region_bytes, ..small() };
    let mut bench = Bench::new(laws, settings);
    let mut rng = Rng::new(8);
    for number in 1..=60 {
        bench.propagation.write(&mut [patch(page(1, number), 0, 10)]).unwrap();
    }
    for turn in 0..4000_u32 {
        let address = page(1, 1 + rng.below(60) as u32);
        bench.propagation.write(&mut [patch(address, turn as u8, 10)]).unwrap();
        bench.propagation.sync().unwrap();
    }
    bench.propagation.audit();
    bench.propagation.counters()
}

#[test]
fn merges_halve_when_the_log_region_doubles() {
    let laws = || {
        let mut laws = chips(48, 1024);
        laws.geometry.flash_pages_per_erase_block = 32;
        laws
    };
    let counts = [2048, 4096, 8192].map(|bytes| churn(laws(), bytes).merge_count as f64);
    for pair in counts.windows(2) {
        let ratio = pair[0] / pair[1];
        assert!((1.8..2.2).contains(&ratio), "{counts:?}");
    }
}

#[test]
fn fewer_programs_of_a_flash_page_are_more_merges_for_the_same_changes() {
    let counts = [4, 2, 1].map(|programs_per_erase| {
        let laws = MemoryFlashConfig { programs_per_erase, ..chips(48, 1024) };
        let counters = churn(laws, 4096);
        assert!(counters.sector_count <= 4000, "{counters:?}");
        counters.merge_count
    });
    assert!(counts[0] * 17 < counts[1] * 10 && counts[1] * 17 < counts[2] * 10, "{counts:?}");
}

#[test]
fn units_that_are_merged_take_turns() {
    let mut bench = filled(chips(24, 1024), small(), 14);
    for turn in 0..6000_u32 {
        bench.propagation.write(&mut [patch(page(1, 1 + turn % 14), turn as u8, 10)]).unwrap();
        bench.propagation.sync().unwrap();
    }
    let counts: Vec<u32> = (0..24).map(|it| bench.propagation.units.get(it).erase_count).collect();
    let (least, most) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
    assert!(*least > 5 && most - least <= 1, "{counts:?}");
    bench.propagation.audit();
    bench.flash.restart();
    let media = media(&bench.disk, &bench.flash, false);
    let opened = InPageLogging::open(&media, PAGE_BYTES, &bench.settings).unwrap();
    let known = opened.units.used().map(|(unit, it)| (unit, it.erase_count));
    for (unit, erase_count) in known {
        assert_eq!(erase_count, counts[unit as usize], "a unit says how worn it is");
    }
}

#[test]
fn a_page_that_changed_as_a_whole_goes_to_another_slot_while_the_unit_has_one() {
    let mut bench = filled(chips(48, 1024), small(), 3);
    let before = bench.propagation.counters();
    let mut whole = patch(page(1, 1), 9, 10);
    whole.changed.clear();
    bench.propagation.write(std::slice::from_mut(&mut whole)).unwrap();
    let after = bench.propagation.counters();
    assert_eq!(after.slot_write_count - before.slot_write_count, 1);
    assert_eq!((after.compared_count - before.compared_count, after.sector_count), (1, 0));
    assert!(read(&mut bench, page(1, 1))[..] == whole.buffer[..]);
    bench.propagation.audit();
    bench.flash.restart();
    let media = media(&bench.disk, &bench.flash, false);
    bench.propagation = InPageLogging::open(&media, PAGE_BYTES, &bench.settings).unwrap();
    bench.propagation.audit();
    assert!(read(&mut bench, page(1, 1))[..] == whole.buffer[..]);
}
