//! Requests that fail, sectors that cannot be read, and summaries that somebody made up.

use super::super::segments::SegmentState;
use super::*;

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
    let Err(StorageError::Corrupt { place, what }) = bench.reopen() else { panic!("nobody knows") };
    assert_eq!(place, format!("the file {SEGMENTS_FILE} at byte {at}"));
    assert!(what.contains("what was written last may be there; try again"), "{what}");
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
        let Err(StorageError::Corrupt { place, what }) = bench.reopen() else { panic!("{why}") };
        assert_eq!(place, format!("the file {SEGMENTS_FILE} at byte {at}"));
        assert!(what.contains(why) && what.contains("restore the database"), "{what}");
    }
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
