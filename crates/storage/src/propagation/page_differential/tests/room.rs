//! Where there is little room: nothing is stuck, and what has no room is refused.

use super::*;

/// Rewrites pages with many small changes, as wide as a differential may be.
fn rewrite(bench: &mut Bench, rng: &mut Rng, page_count: u32, rounds: u32) {
    for _ in 0..rounds {
        let first = 1 + rng.below(u64::from(page_count)) as u32;
        let addresses: Vec<PageAddress> =
            (first..=page_count.min(first + 5)).map(|it| page(1, it)).collect();
        bench.write(&addresses).unwrap();
        if rng.below(8) == 0 {
            bench.sync().unwrap();
            bench.propagation.audit();
        }
    }
}

#[test]
fn large_differentials_with_a_quarter_to_spare_never_stop_cleaning() {
    // Half a page is what 2 KB are to pages of 4 KiB.
    let settings = PageDifferentialSettings {
        difference_bytes_max: PAGE_BYTES / 2,
        spare_percent: 25,
        spare_segment_count: 6,
        ..small()
    };
    let mut bench = Bench::new(disk(16_384), settings);
    let mut rng = Rng::new(1);
    let page_count = 600;
    for first in (1..=page_count).step_by(30) {
        let addresses: Vec<PageAddress> = (first..first + 30).map(|it| page(1, it)).collect();
        bench.write(&addresses).unwrap();
    }
    rewrite(&mut bench, &mut rng, page_count, 4000);
    bench.check();
    let pdl = &bench.propagation;
    assert!(pdl.counters().merged_count > 0, "{:?}", pdl.counters());
    let half = pdl.difference_bytes_max + u64::from(PAGE_BYTES);
    assert!(pdl.table.difference_room_bytes() <= half, "invariant 5");
    assert!(pdl.segments.count() <= pdl.segment_count_max());
    assert!(pdl.crowd_count <= 15, "cleaning gains: {}", pdl.crowd_count);
}

#[test]
fn on_a_full_volume_pages_that_are_there_are_changed_and_others_refused() {
    let settings = PageDifferentialSettings {
        difference_bytes_max: PAGE_BYTES / 2,
        spare_percent: 60,
        ..small()
    };
    let mut bench = Bench::new(disk(1024), settings);
    let mut page_count = 0;
    while bench.propagation.room_pages(8).unwrap() >= 8 {
        let addresses: Vec<PageAddress> =
            (page_count + 1..=page_count + 8).map(|it| page(1, it)).collect();
        bench.write(&addresses).unwrap();
        page_count += 8;
    }
    assert!(page_count > 300, "{page_count} pages of 512 bytes have 512 KiB");
    let mut rng = Rng::new(2);
    rewrite(&mut bench, &mut rng, page_count, 3000);
    bench.check();
    bench.truncate(FILE, page_count / 2).unwrap();
    assert!(bench.propagation.room_pages(8).unwrap() >= 8, "what is gone gives room");
    rewrite(&mut bench, &mut rng, page_count / 2, 500);
    bench.sync().unwrap();
    bench.reopen().unwrap();
    bench.check();
}

#[test]
fn where_the_file_cannot_grow_changes_stay_differentials_while_there_is_room() {
    // It should have four times as much to spare, which the volume has not.
    let settings =
        PageDifferentialSettings { difference_bytes_max: 256, spare_percent: 400, ..small() };
    let mut bench = Bench::new(disk(1024), settings);
    let page_count = 200;
    for first in (1..=page_count).step_by(8) {
        let addresses: Vec<PageAddress> = (first..first + 8).map(|it| page(1, it)).collect();
        bench.write(&addresses).unwrap();
    }
    let mut rng = Rng::new(3);
    rewrite(&mut bench, &mut rng, page_count, 500);
    let pdl = &bench.propagation;
    assert!(pdl.segments.count() < pdl.segment_count_max(), "the volume is what ends it");
    let before = pdl.counters().difference_count;
    rewrite(&mut bench, &mut rng, page_count, 500);
    let difference_count = bench.propagation.counters().difference_count - before;
    assert!(difference_count > 500, "{difference_count} differentials");
    bench.check();
}

#[test]
fn what_does_not_fit_behind_the_last_write_is_one_write_in_another_segment() {
    let mut bench = Bench::new(disk(4096), small());
    let before = bench.propagation.counters().write_count;
    // Three writes of a summary and four pages leave a sector of sixteen.
    for first in (1..=120).step_by(4) {
        let addresses: Vec<PageAddress> = (first..first + 4).map(|it| page(1, it)).collect();
        bench.write(&addresses).unwrap();
    }
    assert_eq!(bench.propagation.counters().write_count - before, 30);
    bench.check();
}
