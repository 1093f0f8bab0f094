//! Cuts at every request, with torn writes: what the double write is for, and what happens without.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::*;
use crate::page::page_is_sound;
use crate::pool::tests::disk::{Disk, SECTOR_BYTES};
use crate::propagation::{ChangedRanges, DoubleWriteFile, Placement};
use crate::volume::{DeviceVolume, Io};
use nandu_base::{Rng, to_u32};
use nandu_device::{Failure, FaultPlan, Geometry, MemoryConfig, MemoryDevice, UnflushedFate};
use std::sync::Arc;

const PAGE_BYTES: u32 = 2 * SECTOR_BYTES;
const FILE: FileId = FileId(1);
const COPIES: FileId = FileId(2);
const PAGE_COUNT: u32 = 10;

fn io_on(disk: &Disk) -> Io {
    Io::new(disk.volume(false), Arc::default())
}

fn in_place(io: &Io, double_write: bool) -> Placement {
    of_epoch(io, double_write, 1)
}

fn of_epoch(io: &Io, double_write: bool, epoch: u32) -> Placement {
    // Room for two batches: laps end in between.
    let copies = DoubleWriteFile { file: COPIES, lap_bytes: 3 << 10, epoch };
    let in_place = InPlace::new(Media::of_data(io.clone()), PAGE_BYTES).unwrap();
    Placement::new(Box::new(in_place), PAGE_BYTES, double_write.then_some(copies))
}

fn filled(page: u32, fill: u8) -> PageWrite {
    let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
    buffer[..100].fill(fill);
    buffer[SECTOR_BYTES as usize..][..100].fill(fill);
    let address = PageAddress::new(FILE, page);
    PageWrite { address, buffer, changed: ChangedRanges::default(), is_new: false }
}

fn read(in_place: &mut Placement, page: u32) -> PageRead {
    let buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
    in_place.start_read(PageAddress::new(FILE, page), buffer).unwrap();
    let read = in_place.next_read().unwrap();
    read.result.clone().unwrap();
    in_place.audit();
    read
}

/// Writes batches until the power goes; gives the fill of each page that is durable for certain, and
/// that of the last write to it.
fn write_batches(disk: &Disk, double_write: bool) -> [(u8, u8); PAGE_COUNT as usize + 1] {
    let io = io_on(disk);
    let mut in_place = in_place(&io, double_write);
    let mut rng = Rng::new(3);
    let mut fills = [(0, 0); PAGE_COUNT as usize + 1];
    for round in 1..=6 {
        let mut pages = Vec::new();
        for page in 1..=PAGE_COUNT {
            if rng.below(3) > 0 {
                pages.push(filled(page, round));
                fills[page as usize].1 = round;
            }
        }
        if in_place.write(&mut pages).is_err() {
            break;
        }
        if round % 2 == 0 {
            if in_place.sync().is_err() {
                break;
            }
            fills.iter_mut().for_each(|(durable, last)| *durable = *last);
        }
    }
    fills
}

/// Cuts the power at each request in turn; gives how many pages were torn in place before recovery.
fn cut_everywhere(double_write: bool) -> usize {
    let disk = Disk::new(FaultPlan::default());
    write_batches(&disk, double_write);
    let request_count = disk.request_count();
    let mut torn_count = 0;
    for number in 1..=request_count {
        let plan = FaultPlan {
            power_cut_at_request: Some(number),
            torn_sector_count: Some(1),
            unflushed: UnflushedFate::Torn,
            seed: number,
            ..FaultPlan::default()
        };
        let disk = Disk::new(plan);
        let fills = write_batches(&disk, double_write);
        let disk = disk.reopen(FaultPlan::default());
        let io = io_on(&disk);
        let mut in_place = in_place(&io, double_write);
        let is_torn = |read: &PageRead| !page_is_sound(&read.buffer, read.address);
        let count_torn = |in_place: &mut Placement| {
            (1..=PAGE_COUNT).filter(|&page| is_torn(&read(in_place, page))).count()
        };
        let torn = count_torn(&mut in_place);
        torn_count += torn;
        let restored = in_place.recover().unwrap();
        if double_write {
            assert_eq!(restored as usize, torn, "cut at {number}: all that is torn is restored");
            assert_eq!(in_place.recover(), Ok(0), "once is enough");
            for page in 1..=PAGE_COUNT {
                let read = read(&mut in_place, page);
                assert!(!is_torn(&read), "cut at {number}: page {page}");
                let (durable, last) = fills[page as usize];
                let found = read.buffer[0];
                assert!((durable..=last).contains(&found), "cut at {number}: page {page}");
            }
        }
    }
    torn_count
}

#[test]
fn a_double_write_restores_what_a_cut_tore() {
    assert!(cut_everywhere(true) > 20, "there was something to restore");
}

#[test]
fn without_a_double_write_pages_stay_torn() {
    assert!(cut_everywhere(false) > 20);
}

#[test]
fn what_a_failed_write_tore_outlives_the_laps_after_it() {
    let disk = Disk::new(FaultPlan::default());
    write_batches(&disk, true);
    let request_count = disk.request_count();
    let mut torn_count = 0;
    for request in 1..=request_count {
        for seed in 0..4 {
            let fail_requests = vec![request];
            let plan = FaultPlan {
                fail_requests,
                failure: Failure::Damages,
                seed,
                ..FaultPlan::default()
            };
            let disk = Disk::new(plan);
            let io = io_on(&disk);
            let mut writer = in_place(&io, true);
            // Whoever is told of the failure does not write these pages again, but others, in laps of their own.
            let mut failed = None;
            for round in 1..=6 {
                let pages = (1..=PAGE_COUNT).filter(|page| (page + round) % 2 == 0);
                let mut pages: Vec<PageWrite> =
                    pages.map(|page| filled(page, round as u8)).collect();
                pages.retain(|page| failed.is_none_or(|it: u32| it != page.address.page % 2));
                if writer.write(&mut pages).is_err() {
                    failed = Some(round % 2);
                }
            }
            let disk = disk.reopen(FaultPlan::default());
            let io = io_on(&disk);
            let mut reader = in_place(&io, true);
            torn_count += reader.recover().unwrap();
            for page in 1..=PAGE_COUNT {
                let read = read(&mut reader, page);
                let is_empty = read.buffer.iter().all(|byte| *byte == 0);
                let is_sound = is_empty || page_is_sound(&read.buffer, read.address);
                assert!(is_sound, "request {request}, seed {seed}: page {page} is torn");
            }
        }
    }
    assert!(torn_count > 0, "some were still torn at the end");
}

#[test]
fn what_was_put_back_is_durable_before_its_copy_goes() {
    let mut cut_count = 0;
    for (request, seed) in (1..=16).flat_map(|request| (0..8).map(move |seed| (request, seed))) {
        let disk = Disk::new(FaultPlan::default());
        in_place(&io_on(&disk), true).write(&mut [filled(1, 1)]).unwrap();
        disk.damage(FILE, u64::from(SECTOR_BYTES) + 3);
        let plan = FaultPlan {
            power_cut_at_request: Some(request),
            unflushed: UnflushedFate::Torn,
            seed,
            ..FaultPlan::default()
        };
        let disk = disk.reopen(plan);
        let io = io_on(&disk);
        let mut next = of_epoch(&io, true, 2);
        // The copies of the next run begin where that of page 1 lies.
        let written = next.recover().and_then(|restored_count| {
            assert_eq!(restored_count, 1);
            next.write(&mut [filled(2, 1)])
        });
        cut_count += u32::from(written.is_err());
        let disk = disk.reopen(FaultPlan::default());
        let io = io_on(&disk);
        let mut reader = of_epoch(&io, true, 2);
        reader.recover().unwrap();
        let read = read(&mut reader, 1);
        assert!(page_is_sound(&read.buffer, read.address), "cut at {request}, seed {seed}");
    }
    assert!((40..120).contains(&cut_count), "before the end and after it: {cut_count}");
}

#[test]
fn a_file_is_synced_at_the_end_of_a_lap_though_its_only_write_failed() {
    for seed in 0..16 {
        // Copies, their sync, the page; of a write that fails any sectors arrive, also all.
        let fail_requests = vec![3];
        let plan =
            FaultPlan { fail_requests, failure: Failure::Damages, seed, ..FaultPlan::default() };
        let disk = Disk::new(plan);
        let io = io_on(&disk);
        let mut writer = in_place(&io, true);
        assert!(writer.write(&mut [filled(1, 1)]).is_err(), "its third request fails");
        let before = io.counters().flushes.request_count;
        writer.sync().unwrap();
        assert!(io.counters().flushes.request_count > before, "seed {seed}");
    }
}

#[test]
fn the_second_write_of_a_new_page_is_put_together_again_though_its_first_had_no_copy() {
    let disk = Disk::new(FaultPlan::default());
    let io = io_on(&disk);
    let mut writer = in_place(&io, true);
    writer.write(&mut [PageWrite { is_new: true, ..filled(1, 1) }]).unwrap();
    let mut second = filled(1, 1);
    second.buffer[..10].fill(2);
    second.changed.add(0..10);
    writer.write(&mut [second]).unwrap();
    drop(io);
    // The sync of the copies says nothing about the file of the page: a cut takes the last sector of
    // its first write, too.
    disk.damage(FILE, u64::from(SECTOR_BYTES) + 3);
    let io = io_on(&disk);
    let mut reader = of_epoch(&io, true, 2);
    assert_eq!(reader.recover(), Ok(1));
    let read = read(&mut reader, 1);
    assert!(page_is_sound(&read.buffer, read.address) && read.buffer[0] == 2);
}

#[test]
fn a_batch_that_makes_no_sense_restores_nothing() {
    let disk = Disk::new(FaultPlan::default());
    {
        let io = io_on(&disk);
        let mut pages = vec![filled(1, 7), filled(2, 7)];
        in_place(&io, true).write(&mut pages).unwrap();
    }
    disk.damage(FILE, 3);
    // Magic, checksum, size of pages, lap, number, count, length, address, length of a record, record.
    for at in [0, 9, 13, 20, 25, 30, 39, 41, 50, 70] {
        disk.damage(COPIES, at);
        let io = io_on(&disk);
        assert_eq!(in_place(&io, true).recover(), Ok(0), "damage at {at}");
        disk.damage(COPIES, at);
    }
    let io = io_on(&disk);
    assert_eq!(in_place(&io, true).recover(), Ok(1), "the batch is whole again");
}

#[test]
fn what_an_earlier_lap_left_restores_nothing() {
    let disk = Disk::new(FaultPlan::default());
    let io = io_on(&disk);
    let mut writer = in_place(&io, true);
    writer.write(&mut [filled(1, 1)]).unwrap();
    writer.write(&mut [filled(2, 1)]).unwrap();
    writer.sync().unwrap();
    // As long as the first batch of the lap before, so that the second follows it without a gap.
    writer.write(&mut [filled(3, 1)]).unwrap();
    disk.damage(FILE, u64::from(PAGE_BYTES) + 3);
    assert_eq!(writer.recover(), Ok(0), "the copy of page 2 is of the lap before");
    disk.damage(FILE, 2 * u64::from(PAGE_BYTES) + 3);
    assert_eq!(writer.recover(), Ok(1), "that of page 3 counts");
}

#[test]
fn what_an_earlier_run_left_restores_nothing() {
    let disk = Disk::new(FaultPlan::default());
    let io = io_on(&disk);
    let mut earlier = of_epoch(&io, true, 1);
    earlier.write(&mut [filled(1, 1)]).unwrap();
    earlier.write(&mut [filled(2, 1)]).unwrap();
    // Its first batch is as long as that of the run before, and both are the first of their laps.
    let mut writer = of_epoch(&io, true, 2);
    writer.write(&mut [filled(3, 1)]).unwrap();
    disk.damage(FILE, u64::from(PAGE_BYTES) + 3);
    assert_eq!(writer.recover(), Ok(0), "the copy of page 2 is of the run before");
}

/// A page and its next state, which differs in a few places of both sectors.
fn changed(page: &PageWrite, round: u8) -> PageWrite {
    let PageWrite { address, ref buffer, .. } = *page;
    let mut buffer = IoBuffer::copy_of(buffer);
    let mut changed = ChangedRanges::default();
    for start in [10, 300, u32::from(round) * 20 + 500, 900] {
        buffer[start as usize..][..30].fill(round);
        changed.add(start..start + 30);
    }
    PageWrite { address, buffer, changed, is_new: false }
}

/// Ten writes of two pages with what changed: torn anywhere among them, a page becomes its last
/// state that was copied, whichever sectors arrived.
#[test]
fn changes_are_laid_over_whatever_sectors_of_a_torn_page_arrived() {
    let mut restored_count = 0;
    for number in 1..=80 {
        for seed in 0..8 {
            let plan = FaultPlan {
                power_cut_at_request: Some(number),
                torn_sector_count: Some(1),
                unflushed: UnflushedFate::Torn,
                seed,
                ..FaultPlan::default()
            };
            let disk = Disk::new(plan);
            let io = io_on(&disk);
            let mut states = Vec::new();
            {
                let mut writer = in_place(&io, true);
                let mut pages: Vec<PageWrite> = (1..=2).map(|page| filled(page, 200)).collect();
                // Without a copy, so that the next write needs a whole one.
                pages.iter_mut().for_each(|page| page.is_new = true);
                for round in 1..=10 {
                    let done = writer.write(&mut pages);
                    states.push(pages.iter().map(|page| page.buffer.to_vec()).collect::<Vec<_>>());
                    if done.is_err() {
                        break;
                    }
                    pages = pages.iter().map(|page| changed(page, round)).collect();
                }
            }
            let disk = disk.reopen(FaultPlan::default());
            let io = io_on(&disk);
            let mut in_place = in_place(&io, true);
            restored_count += in_place.recover().unwrap();
            for page in 1..=2 {
                let found = read(&mut in_place, page).buffer.to_vec();
                let address = PageAddress::new(FILE, page);
                let is_state = states.iter().any(|state| state[page as usize - 1] == found);
                let is_sound = page_is_sound(&found, address);
                // Before its first copy is durable a new page may be torn: the log makes it anew.
                let is_new = number <= 4;
                assert!(is_state && is_sound || is_new, "cut at {number}, seed {seed}: {page}");
            }
        }
    }
    assert!(restored_count > 100, "{restored_count} pages were put together");
}

#[test]
fn little_that_changed_makes_a_short_copy() {
    let disk = Disk::new(FaultPlan::default());
    let io = io_on(&disk);
    let mut writer = in_place(&io, true);
    let mut pages: Vec<PageWrite> = (1..=4).map(|page| filled(page, 1)).collect();
    let before = io.counters().writes.byte_count;
    writer.write(&mut pages).unwrap();
    let whole = io.counters().writes.byte_count - before;
    let mut pages: Vec<PageWrite> = pages.iter().map(|page| changed(page, 2)).collect();
    writer.write(&mut pages).unwrap();
    let short = io.counters().writes.byte_count - before - whole;
    let in_place = 4 * u64::from(PAGE_BYTES);
    assert!(short - in_place < whole - in_place, "{short} bytes after {whole}");
    assert_eq!(short - in_place, 1024, "four copies of 154 bytes and their entries");
}

#[test]
fn pages_that_the_log_makes_anew_are_written_once() {
    let disk = Disk::new(FaultPlan::default());
    let io = io_on(&disk);
    let before = disk.request_count();
    let new = PageWrite { is_new: true, ..filled(1, 1) };
    in_place(&io, true).write(&mut [new]).unwrap();
    assert_eq!(disk.request_count() - before, 1);
}

#[test]
fn reads_and_writes_keep_the_queue_full() {
    let disk = Disk::new(FaultPlan::default());
    let io = io_on(&disk);
    let mut in_place = in_place(&io, false);
    // No two of them are neighbours.
    let mut pages: Vec<PageWrite> = (1..=32).map(|page| filled(2 * page, 7)).collect();
    let start = io.now();
    in_place.write(&mut pages).unwrap();
    // The device serves four at a time, each about 11 us.
    let one = 10_000 + u64::from(PAGE_BYTES);
    assert_eq!((io.now() - start).0, 32 / 4 * one);
    assert_eq!(pages.len(), 32, "all come back");
    assert!(pages.iter().all(|page| page.buffer.len() == PAGE_BYTES as usize));
}

#[test]
fn pages_smaller_than_a_sector_are_refused() {
    let geometry = Geometry { sector_bytes: 4096, sector_count: 256 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let large = Io::new(Box::new(DeviceVolume::format(Box::new(memory)).unwrap()), Arc::default());
    let refused = InPlace::new(Media::of_data(large), 512).unwrap_err();
    assert!(refused.to_string().contains("log-structured"), "{refused}");
    let small = io_on(&Disk::new(FaultPlan::default()));
    assert!(InPlace::new(Media::of_data(small), 1000).is_err());
}

#[test]
fn neighbours_go_in_one_request_and_come_back_as_they_were() {
    let disk = Disk::new(FaultPlan::default());
    let io = io_on(&disk);
    let mut writer = in_place(&io, false);
    // Runs of 3, 1 and 2; the last one follows the second in another file.
    let mut pages: Vec<PageWrite> =
        [1, 2, 3, 5, 8, 9].into_iter().map(|page| filled(page, page as u8)).collect();
    let other = PageAddress::new(COPIES, 10);
    pages.push(PageWrite { address: other, ..filled(10, 10) });
    let count = |io: &Io| io.counters().writes.request_count;
    let before = count(&io);
    writer.write(&mut pages).unwrap();
    assert_eq!(count(&io) - before, 4);
    for page in &pages {
        assert_eq!(page.buffer[0], page.address.page as u8, "the batch is as it was");
        assert!(page_is_sound(&page.buffer, page.address));
    }
    for page in [1, 2, 3, 5, 8, 9] {
        assert_eq!(read(&mut writer, page).buffer[0], page as u8);
    }
    // More than a request holds.
    let page_count = 3 * to_u32((REQUEST_BYTES_MAX / PAGE_BYTES as usize) as u64) - 1;
    let mut pages: Vec<PageWrite> = (1..=page_count).map(|page| filled(page, 77)).collect();
    let before = count(&io);
    writer.write(&mut pages).unwrap();
    assert_eq!(count(&io) - before, 3);
    assert_eq!(read(&mut writer, page_count).buffer[0], 77);
}
