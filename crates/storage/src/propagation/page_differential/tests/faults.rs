//! Requests that fail, sectors that cannot be read, and summaries that somebody made up.

use super::super::segments::SegmentState;
use super::*;
use nandu_device::DeviceError;

/// The next requests fail, so many of them.
fn fail_next(bench: &Bench, count: u64, failure: Failure) {
    let mut device = bench.disk.lock();
    let next = device.submitted_count() + 1;
    let fail_requests = (next..next + count).collect();
    device.set_plan(FaultPlan { fail_requests, failure, seed: next, ..FaultPlan::default() });
}

fn fail_no_more(bench: &Bench) {
    bench.disk.lock().set_plan(FaultPlan::default());
}

#[test]
fn a_cut_that_fails_leaves_the_differentials_that_wait() {
    let mut bench = Bench::new(disk(4096), small());
    bench.write(&[page(1, 1), page(1, 2)]).unwrap();
    bench.sync().unwrap();
    bench.write(&[page(1, 2)]).unwrap();
    assert!(bench.propagation.buffer.get(page(1, 2)).is_some());
    fail_next(&bench, 3, Failure::ChangesNothing);
    assert!(bench.propagation.truncate(FILE, 2).is_err());
    fail_no_more(&bench);
    bench.check();
    bench.truncate(FILE, 2).unwrap();
    bench.check();
    bench.sync().unwrap();
    bench.reopen().unwrap();
    bench.check();
}

#[test]
fn segments_where_writes_failed_are_written_again() {
    let mut bench = Bench::new(disk(4096), small());
    let mut rng = Rng::new(4);
    let mut failed_count = 0;
    for round in 0..900_u64 {
        let first = 1 + rng.below(36) as u32;
        let addresses = [page(1, first), page(1, first + 1), page(1, first + 2)];
        let at = bench.disk.lock().submitted_count() + 1 + rng.below(5);
        let failure = [Failure::ChangesNothing, Failure::Damages][to_index(round % 2)];
        let plan =
            FaultPlan { fail_requests: vec![at], failure, seed: round, ..FaultPlan::default() };
        bench.disk.lock().set_plan(plan);
        failed_count += u32::from(bench.write(&addresses).is_err());
        fail_no_more(&bench);
        if bench.propagation.io.check().is_err() {
            // It was a sync, or a change of the file's length.
            bench.reopen().unwrap();
        }
        bench.write(&addresses).unwrap();
        if rng.below(3) == 0 {
            bench.sync().unwrap();
        }
        bench.propagation.audit();
        if round % 100 == 99 {
            bench.sync().unwrap();
            bench.reopen().unwrap();
            bench.check();
        }
        // Those that pages of three segments may have, and some more.
        let count = bench.propagation.segments.count();
        assert!(count < 32, "{count} segments after {failed_count} writes that failed");
    }
    assert!(failed_count > 100, "{failed_count} writes failed");
}

#[test]
fn many_writes_that_fail_one_after_the_other_take_no_room() {
    let mut bench = Bench::new(disk(4096), small());
    bench.write(&[page(1, 1), page(1, 2)]).unwrap();
    bench.sync().unwrap();
    let count = bench.propagation.segments.count();
    for _ in 0..1000 {
        fail_next(&bench, 8, Failure::ChangesNothing);
        assert!(bench.write(&[page(1, 3)]).is_err());
    }
    fail_no_more(&bench);
    assert!(bench.propagation.segments.count() <= count + 1, "they are tried again");
    bench.write(&[page(1, 1), page(1, 3)]).unwrap();
    bench.check();
    bench.sync().unwrap();
    bench.reopen().unwrap();
    bench.check();
}

/// Sectors of the file that cannot be read from now on.
fn damage(bench: &Bench, at: u64, bytes: usize) {
    fail_next(bench, 1, Failure::DamagesForEver);
    let pdl = &bench.propagation;
    assert!(transfer::read(&pdl.io, pdl.file, at, bytes).is_err());
    fail_no_more(bench);
}

#[test]
fn a_sector_behind_a_write_that_cannot_be_read_keeps_nobody_from_opening() {
    let mut bench = Bench::new(disk(4096), small());
    let mut rng = Rng::new(5);
    for _ in 0..60 {
        bench.step(&mut rng, 60).unwrap();
    }
    bench.sync().unwrap();
    let segment_bytes = bench.settings.segment_bytes;
    let open = bench.propagation.position.unwrap();
    let mut damaged_count = 0;
    for index in 0..bench.propagation.segments.count() {
        let used_bytes = bench.propagation.segments.get(index).used_bytes;
        if used_bytes > 0 && used_bytes < segment_bytes && index != open.segment {
            damage(
                &bench,
                u64::from(index) * u64::from(segment_bytes) + u64::from(used_bytes),
                512,
            );
            damaged_count += 1;
        }
    }
    assert!(damaged_count > 2, "{damaged_count} segments have a sector behind their last write");
    bench.reopen().unwrap();
    bench.check();
    // Behind the last of all there may be one that was synced.
    let open = bench.propagation.position.unwrap();
    assert!(open.offset < segment_bytes);
    let at = u64::from(open.segment) * u64::from(segment_bytes) + u64::from(open.offset);
    damage(&bench, at, 512);
    check_refusal(&mut bench, at, "what was written last may be there; try again");
}

/// It is not opened for a sector that cannot be read, and all is there once that can be.
fn check_refusal(bench: &mut Bench, at: u64, why: &str) {
    let answer = bench.reopen();
    let Err(StorageError::Device { what, error: DeviceError::Media { .. } }) = &answer else {
        panic!("{why}: {answer:?}")
    };
    let place = format!("cannot read the file {SEGMENTS_FILE} at byte {at}, and ");
    assert!(what.starts_with(&place), "{what}");
    assert!(what.contains(why) && what.contains("try again, or restore the database"), "{what}");
    bench.disk.lock().make_readable();
    bench.reopen().unwrap();
    bench.check();
}

#[test]
fn a_summary_that_cannot_be_read_is_told_with_its_place_where_its_pages_are_missing() {
    // The first write of a segment might be the last of all, the second one of a closed segment not.
    for (offset, why) in [(0, "may be there"), (4096, "left other pages than are found")] {
        let mut bench = Bench::new(disk(4096), small());
        let addresses: Vec<PageAddress> = (1..=80).map(|it| page(1, it)).collect();
        bench.write(&addresses).unwrap();
        bench.sync().unwrap();
        bench.write(&[page(1, 1)]).unwrap();
        bench.sync().unwrap();
        let pdl = &bench.propagation;
        let is_needed = |it: &u32| {
            let segment = pdl.segments.get(*it);
            segment.state == SegmentState::Closed && segment.live_bytes > 4096
        };
        let needed = (0..pdl.segments.count()).rev().find(is_needed).unwrap();
        let at = u64::from(needed) * u64::from(bench.settings.segment_bytes) + offset;
        damage(&bench, at, 512);
        check_refusal(&mut bench, at, why);
    }
}

#[test]
fn a_differential_that_cannot_be_read_keeps_the_pages_from_opening_until_it_can_be() {
    for is_last in [false, true] {
        let settings = PageDifferentialSettings { difference_bytes_max: 256, ..small() };
        let mut bench = Bench::new(disk(4096), settings);
        let addresses: Vec<PageAddress> = (1..=8).map(|it| page(1, it)).collect();
        // Each version of a page is alike to the one before it.
        for _ in 0..3 {
            bench.write(&addresses).unwrap();
            bench.sync().unwrap();
        }
        if !is_last {
            // Two writes, of which the second says that what was before the first is durable.
            for number in 1..=2 {
                bench.write(&[page(2, number)]).unwrap();
                bench.sync().unwrap();
            }
        }
        let places = addresses.iter().filter_map(|it| bench.propagation.table.get(*it));
        let last = places.filter_map(|place| place.difference).max_by_key(|it| it.stamp);
        let at = last.unwrap().flash_page;
        damage(&bench, at, 512);
        let why = if is_last { "nobody knows whether write" } else { "left other pages than are" };
        check_refusal(&mut bench, at, why);
    }
}

const LARGE_PAGE_BYTES: u32 = 2048;

/// A page of several sectors, whose bytes in the middle are the fill's.
fn large(number: u32, bytes: usize, fill: u8) -> PageWrite {
    let (address, mut buffer) = (page(1, number), IoBuffer::zeroed(LARGE_PAGE_BYTES as usize));
    buffer[1000..1000 + bytes].fill(fill);
    seal_page(&mut buffer, address);
    PageWrite { address, buffer, changed: ChangedRanges::default(), is_new: false }
}

/// The first so many of them, as they are read.
fn large_pages(bench: &mut Bench, count: u32) -> Vec<Vec<u8>> {
    let read = |number| {
        let buffer = IoBuffer::zeroed(LARGE_PAGE_BYTES as usize);
        bench.propagation.start_read(page(1, number), buffer).unwrap();
        let read = bench.propagation.next_read().unwrap();
        read.result.unwrap();
        read.buffer.to_vec()
    };
    (1..=count).map(read).collect()
}

#[test]
fn differentials_that_nobody_needs_need_not_be_readable() {
    let settings = PageDifferentialSettings {
        page_bytes: LARGE_PAGE_BYTES,
        segment_bytes: 32 << 10,
        write_bytes: 16 << 10,
        ..small()
    };
    let mut bench = Bench::new(disk(16_384), settings);
    // So many that their differentials fill three sectors of one flash page.
    for fill in [1, 2] {
        for number in 1..=24 {
            bench.propagation.write(&mut [large(number, 8, fill)]).unwrap();
        }
        bench.propagation.sync().unwrap();
    }
    let of = |number| bench.propagation.table.get(page(1, number)).unwrap().difference.unwrap();
    let flash_page = of(1).flash_page;
    let sector_of = |number| (of(number).at.offset_bytes() - flash_page) / 512;
    let sectors: Vec<u64> = (1..=24).map(sector_of).collect();
    assert_eq!(sectors, [[0; 8], [1; 8], [2; 8]].concat());
    // Those of the first sector become base pages, and the next writes say that this is durable.
    for number in (1..=8).chain([30, 31]) {
        bench.propagation.write(&mut [large(number, 900, 3)]).unwrap();
        bench.propagation.sync().unwrap();
    }
    let before = large_pages(&mut bench, 24);
    assert_eq!((before[7][1000], before[8][1000]), (3, 2));
    damage(&bench, flash_page, 512);
    bench.reopen().unwrap();
    assert!(large_pages(&mut bench, 24) == before, "those of the other sectors are there");
    damage(&bench, flash_page + 512, 512);
    check_refusal(&mut bench, flash_page, "left other pages than are found");
    assert!(large_pages(&mut bench, 24) == before, "all are there once they can be read again");
}

/// The sectors of closed segments that hold neither a summary nor what a page needs, one of each segment.
fn sectors_that_nobody_needs(bench: &Bench) -> Vec<u64> {
    let pdl = &bench.propagation;
    let places: Vec<_> = pdl.table.iter().map(|(_, place)| *place).collect();
    let bases = places.iter().map(|place| place.base.offset_bytes());
    let differences = places.iter().filter_map(|place| place.difference).map(|it| it.flash_page);
    let needed: Vec<u64> = bases.chain(differences).collect();
    let is_summary = |at: u64| {
        let sector = transfer::read(&pdl.io, pdl.file, at, 512).unwrap();
        summary::read_summary(&sector).is_some()
    };
    let of_segment = |index: u32| {
        let segment = pdl.segments.get(index);
        let start = u64::from(index) * u64::from(bench.settings.segment_bytes);
        let mut used = (start..start + u64::from(segment.used_bytes)).step_by(512);
        let is_closed = segment.state == SegmentState::Closed;
        used.find(|at| is_closed && !needed.contains(at) && !is_summary(*at))
    };
    (0..pdl.segments.count()).filter_map(of_segment).collect()
}

#[test]
fn sectors_that_nobody_needs_and_nobody_can_read_are_cleaned_with_their_segments() {
    let mut bench = Bench::new(disk(4096), small());
    let mut rng = Rng::new(8);
    for _ in 0..200 {
        bench.step(&mut rng, 60).unwrap();
    }
    let damaged = sectors_that_nobody_needs(&bench);
    damaged.iter().for_each(|&at| damage(&bench, at, 512));
    assert!(damaged.len() > 3, "{damaged:?}");
    assert_eq!(bench.disk.lock().unreadable_count(), damaged.len());
    for _ in 0..1000 {
        bench.step(&mut rng, 60).unwrap();
        bench.propagation.audit();
    }
    // A segment that was cleaned is written again.
    assert_eq!(bench.disk.lock().unreadable_count(), 0);
    bench.check();
    bench.sync().unwrap();
    bench.reopen().unwrap();
    bench.check();
}

#[test]
fn a_base_page_that_cannot_be_read_stays_where_it_is_and_hinders_no_others() {
    let mut bench = Bench::new(disk(4096), small());
    let mut rng = Rng::new(9);
    for _ in 0..200 {
        bench.step(&mut rng, 60).unwrap();
    }
    // Nobody writes this one, in a file of its own.
    let lost = page(3, 1);
    bench.write(&[lost]).unwrap();
    bench.sync().unwrap();
    let base = bench.propagation.table.get(lost).unwrap().base.offset_bytes();
    damage(&bench, base, 512);
    let before = bench.propagation.counters().cleaned_segment_count;
    for _ in 0..1000 {
        bench.step(&mut rng, 60).unwrap();
        bench.propagation.audit();
    }
    assert!(bench.propagation.counters().cleaned_segment_count > before + 20);
    assert_eq!(bench.propagation.table.get(lost).unwrap().base.offset_bytes(), base);
    bench.propagation.start_read(lost, IoBuffer::zeroed(PAGE_BYTES as usize)).unwrap();
    assert!(bench.propagation.next_read().unwrap().result.is_err());
    bench.disk.lock().make_readable();
    bench.check();
}

#[test]
fn a_summary_with_numbers_that_nobody_reaches_is_refused_with_its_place() {
    for (era, sequence) in [(1, u64::MAX), (1, u64::MAX - 1), (u64::MAX, 1 << 40)] {
        let mut bench = Bench::new(disk(4096), small());
        bench.write(&[page(1, 1), page(1, 2)]).unwrap();
        bench.sync().unwrap();
        let pdl = &bench.propagation;
        let is_free = |it: &u32| pdl.segments.get(*it).state == SegmentState::Free;
        let segment = (0..pdl.segments.count()).rev().find(is_free).unwrap();
        let header = Header {
            page_bytes: PAGE_BYTES,
            segment_bytes: bench.settings.segment_bytes,
            era,
            sequence,
            previous: 0,
            durable_sequence: 0,
            opened_at: sequence,
            state: 0,
            segment,
            byte_count: 512,
        };
        let mut bytes = transfer::buffer(&pdl.io, 512);
        summary::seal(&mut bytes, &header, &[]);
        let at = u64::from(segment) * u64::from(bench.settings.segment_bytes);
        transfer::write(&pdl.io, pdl.file, at, bytes).unwrap();
        pdl.io.sync(pdl.file).unwrap();
        let Err(StorageError::Corrupt { place, what }) = bench.reopen() else { panic!("{era}") };
        assert_eq!(place, format!("the file {SEGMENTS_FILE} at byte {at}"));
        assert!(what.contains("nobody wrote so often"), "{what}");
    }
}
