//! A pool over a device with faults, beside a plain map that says what each page holds.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

pub(crate) mod disk;
mod kept_copies;
mod segments;
mod threads;
mod tiers;

use super::*;
use crate::page::{TRAILER_BYTES, page_lsn};
use crate::propagation::{InPlace, Media};
use disk::Disk;
use nandu_base::Rng;
use nandu_device::FaultPlan;
use std::sync::atomic::{AtomicU64, Ordering};

const PAGE_BYTES: u32 = 512;
const FILE: FileId = FileId(1);

/// A log that is durable as far as it was asked, and can fail.
#[derive(Clone, Default)]
struct FakeLog(Arc<(AtomicU64, AtomicU64)>);

/// As the second number of a [`FakeLog`]: it panics where with others it fails.
const PANICS: u64 = 2;

impl WriteAheadRule for FakeLog {
    fn ensure_durable(&self, lsn: Lsn) -> Result<(), StorageError> {
        let (durable, failing) = &*self.0;
        assert!(failing.load(Ordering::Relaxed) != PANICS, "as it is meant to");
        if failing.load(Ordering::Relaxed) > 0 {
            return Err(StorageError::NoSpace { what: "the log is full".to_owned() });
        }
        durable.fetch_max(lsn.0, Ordering::Relaxed);
        Ok(())
    }
}

fn address(page: u32) -> PageAddress {
    PageAddress::new(FILE, page)
}

fn pool_on(disk: &Disk, frame_count: u32, kind: ReplacementKind, has_reader: bool) -> Pool {
    pool_with(disk, frame_count, kind, has_reader, FakeLog::default())
}

fn pool_with(
    disk: &Disk,
    frame_count: u32,
    replacement: ReplacementKind,
    has_reader: bool,
    log: FakeLog,
) -> Pool {
    let io = Io::new(disk.volume(has_reader), Arc::default());
    let in_place = InPlace::new(Media::of_data(io), PAGE_BYTES).unwrap();
    let placement = Placement::new(Box::new(in_place), PAGE_BYTES, None);
    let config = PoolConfig { page_bytes: PAGE_BYTES, frame_count, replacement };
    let mut pool = Pool::new(config, placement, Box::new(log)).unwrap();
    pool.name_file(FILE, "table", Checksum::Trailer);
    pool
}

/// How far reading a page without the pool has come.
enum Aside {
    Planned(Plan),
    Read(Read),
}

/// The pages as they should be: the byte that fills each.
struct Model {
    pool: Pool,
    fills: Vec<u8>,
    lsn: u64,
    rng: Rng,
    /// Pages that were planned to be read without the pool, a while ago, or were read then, too.
    asides: Vec<(u32, Aside)>,
    aside_count: u64,
    cleaning_count: u64,
}

impl Model {
    fn new(pool: Pool, page_count: usize, seed: u64) -> Self {
        let (rng, fills) = (Rng::new(seed), vec![0; page_count]);
        Self { pool, fills, lsn: 0, rng, asides: Vec::new(), aside_count: 0, cleaning_count: 0 }
    }

    /// Reads a page as a reader does who holds nothing meanwhile.
    fn read_aside(&mut self, page: u32) {
        if let Some(plan) = self.pool.plan_aside(address(page)) {
            let aside = match page % 2 {
                0 => Aside::Planned(plan),
                _ => Aside::Read(self.pool.page_reader().read(plan)),
            };
            self.asides.push((page, aside));
        }
    }

    /// What was read a while ago is as it is now, whatever came in between.
    fn finish_aside(&mut self) -> Result<(), StorageError> {
        let count = self.asides.len() as u64;
        if count == 0 {
            return Ok(());
        }
        let (page, aside) = self.asides.swap_remove(self.rng.below(count) as usize);
        let read = match aside {
            Aside::Planned(plan) => self.pool.page_reader().read(plan),
            Aside::Read(read) => read,
        };
        let found = self.pool.finish_aside(read, |bytes| bytes[0])?;
        assert_eq!(found, self.fills[page as usize - 1], "page {page}, read aside");
        self.aside_count += 1;
        Ok(())
    }

    /// Writes dirty pages without the pool, which learns of it at some later step.
    fn write_ahead(&mut self) {
        if let Some(cleaning) = self.pool.plan_cleaning() {
            // One that fails is tried again by whoever needs a frame.
            let _ = cleaning.write();
            self.cleaning_count += 1;
        }
    }

    fn any_page(&mut self) -> u32 {
        1 + self.rng.below(self.fills.len() as u64) as u32
    }

    fn check(&self, page: u32) -> Result<(), StorageError> {
        let expected = self.fills[page as usize - 1];
        let usable = PAGE_BYTES as usize - TRAILER_BYTES;
        let found = self.pool.read(address(page), |bytes| {
            assert!(bytes[..usable].iter().all(|&byte| byte == bytes[0]), "page {page} is whole");
            bytes[0]
        })?;
        assert_eq!(found, expected, "page {page}");
        Ok(())
    }

    fn change(&mut self, page: u32) -> Result<(), StorageError> {
        self.lsn += 1;
        let (lsn, fill) = (Lsn(self.lsn), self.rng.below(256) as u8);
        let creates = self.rng.below(4) == 0;
        let usable = PAGE_BYTES as usize - TRAILER_BYTES;
        let mut frame = match creates && self.pool.find(address(page)).is_none() {
            true => self.pool.create(address(page))?,
            false => self.pool.page_mut(address(page))?,
        };
        frame.bytes_mut()[..usable].fill(fill);
        frame.note_change(0..usable as u32);
        frame.set_lsn(lsn);
        self.fills[page as usize - 1] = fill;
        Ok(())
    }

    fn change_in_vain(&mut self, page: u32) -> Result<(), StorageError> {
        let mut frame = self.pool.page_mut(address(page))?;
        let image = frame.bytes().to_vec();
        frame.note_change(3..9);
        frame.bytes_mut()[3..9].fill(77);
        frame.restore(&image);
        Ok(())
    }

    fn batch(&mut self) -> Result<(), StorageError> {
        let count = self.rng.below(20);
        let pages: Vec<u32> = (0..count).map(|_| self.any_page()).collect();
        let addresses: Vec<PageAddress> = pages.iter().map(|&page| address(page)).collect();
        let mut seen = vec![false; pages.len()];
        self.pool.read_batch(&addresses, |index, bytes| {
            assert!(!std::mem::replace(&mut seen[index], true), "each page is seen once");
            assert_eq!(bytes[0], self.fills[pages[index] as usize - 1]);
        })?;
        assert!(seen.iter().all(|&seen| seen), "all pages are seen");
        Ok(())
    }

    fn step(&mut self) -> Result<(), StorageError> {
        let page = self.any_page();
        match self.rng.below(40) {
            38 => {
                self.write_ahead();
                Ok(())
            }
            39 => {
                self.pool.land_cleaning();
                Ok(())
            }
            32..=34 => {
                self.read_aside(page);
                Ok(())
            }
            35..=37 => self.finish_aside(),
            0..=11 => self.check(page),
            12..=23 => self.change(page),
            24 => self.change_in_vain(page),
            25 | 26 => self.batch(),
            27 => {
                let pages: Vec<PageAddress> = (0..4).map(|_| address(self.any_page())).collect();
                self.pool.prefetch(&pages);
                Ok(())
            }
            28 => {
                let limit = Some(Lsn(self.rng.below(self.lsn + 1)));
                let which = WriteBack { rec_lsn_below: limit, ..WriteBack::default() };
                self.pool.write_back(&which)?;
                let is_newer = |&(_, rec_lsn): &(PageAddress, Lsn)| Some(rec_lsn) >= limit;
                assert!(self.pool.dirty_pages().iter().all(is_newer), "older pages are written");
                Ok(())
            }
            29 => self.pool.sync(),
            30 => {
                let count = self.rng.below(3) as u32;
                match self.pool.grant(count) {
                    Ok(grant) => {
                        assert_eq!(grant.frame_count(), count);
                        assert_eq!(self.pool.lent_count(), count);
                    }
                    Err(StorageError::PoolExhausted { .. }) => {
                        assert!(self.pool.frame_count() < count + FRAME_COUNT_MIN);
                    }
                    Err(error) => return Err(error),
                }
                assert_eq!(self.pool.lent_count(), 0);
                Ok(())
            }
            _ => self.pool.drop_all(),
        }
    }

    fn check_all(&self) {
        for page in 1..=self.fills.len() as u32 {
            self.check(page).unwrap();
        }
    }
}

#[test]
fn a_pool_of_any_size_and_kind_holds_what_a_map_holds() {
    for (seed, frame_count) in [3, 4, 7, 16, 64].into_iter().enumerate() {
        for kind in ReplacementKind::ALL {
            for has_reader in [false, true] {
                let disk = Disk::new(FaultPlan::default());
                let pool = pool_on(&disk, frame_count, kind, has_reader);
                let mut model = Model::new(pool, 30, seed as u64);
                for step in 0..600 {
                    model.step().unwrap();
                    if step % 16 == 0 {
                        model.pool.audit();
                    }
                }
                model.check_all();
                assert!(model.aside_count > 5 || !has_reader || frame_count > 30);
                assert!(model.aside_count == 0 || has_reader);
                assert!(model.cleaning_count > 5, "{} cleanings", model.cleaning_count);
                model.pool.drop_all().unwrap();
                model.pool.audit();
                assert_eq!(model.pool.dirty_pages(), []);
                // A second pool sees on the device what the first one wrote.
                let disk = disk.reopen(FaultPlan::default());
                model.pool = pool_on(&disk, frame_count, kind, has_reader);
                model.check_all();
            }
        }
    }
}

#[test]
fn a_request_that_fails_loses_nothing() {
    let run = |plan: FaultPlan, has_reader: bool| {
        let disk = Disk::new(plan);
        let pool = pool_on(&disk, 4, ReplacementKind::TwoQ, has_reader);
        let mut model = Model::new(pool, 12, 5);
        let mut failed_count = 0;
        for _ in 0..80 {
            match model.step() {
                Ok(()) => {}
                Err(StorageError::Device { .. }) => failed_count += 1,
                Err(error) => unreachable!("{error}"),
            }
            model.pool.audit();
            if model.pool.io.check().is_err() {
                // It was a sync: what the device holds is not known any more.
                assert!(matches!(model.pool.sync(), Err(StorageError::Poisoned { .. })));
                return (disk.request_count(), failed_count);
            }
        }
        for page in 1..=model.fills.len() as u32 {
            if model.check(page).is_err() {
                failed_count += 1;
                model.check(page).unwrap();
            }
        }
        (disk.request_count(), failed_count)
    };
    for has_reader in [false, true] {
        let (request_count, failed_count) = run(FaultPlan::default(), has_reader);
        assert_eq!(failed_count, 0);
        assert!(request_count > 50, "{request_count} requests are worth failing");
        let mut seen_count = 0;
        for number in 1..=request_count {
            let plan = FaultPlan { fail_requests: vec![number], ..FaultPlan::default() };
            let (_, failed_count) = run(plan, has_reader);
            assert!(failed_count <= 1, "one failure shows once, or not at all in a prefetch");
            seen_count += failed_count;
        }
        assert!(seen_count > request_count / 2, "{seen_count} of {request_count} were seen");
    }
}

#[test]
fn what_changes_while_a_copy_is_written_is_written_again() {
    let disk = Disk::new(FaultPlan::default());
    let mut model = Model::new(pool_on(&disk, 32, ReplacementKind::Lru, true), 6, 1);
    for page in 1..=6 {
        model.change(page).unwrap();
    }
    let cleaning = model.pool.plan_cleaning().unwrap();
    assert!(model.pool.plan_cleaning().is_none(), "one flight at a time");
    // Before and after the copies are on the device: neither is in them.
    model.change(1).unwrap();
    let first_change = Lsn(model.lsn);
    model.change(1).unwrap();
    model.change_in_vain(3).unwrap();
    let seen_dirty = model.pool.dirty_pages();
    assert_eq!(seen_dirty.len(), 6, "nothing is clean before it has landed");
    cleaning.write().unwrap();
    model.change(2).unwrap();
    let second_change = Lsn(model.lsn);
    model.pool.land_cleaning();
    model.pool.audit();
    let lacking = [(address(1), first_change), (address(2), second_change)];
    assert_eq!(model.pool.dirty_pages(), lacking, "the device lacks what came since");
    model.pool.drop_all().unwrap();
    model.check_all();
}

#[test]
fn what_was_read_aside_before_its_file_was_cut_is_shown_to_nobody() {
    let disk = Disk::new(FaultPlan::default());
    let mut model = Model::new(pool_on(&disk, 4, ReplacementKind::Lru, true), 6, 1);
    while model.fills[0] == 0 {
        model.change(1).unwrap();
    }
    model.pool.drop_all().unwrap();
    let plan = model.pool.plan_aside(address(1)).unwrap();
    let read = model.pool.page_reader().read(plan);
    model.pool.forget(FILE, 1).unwrap();
    assert_eq!(model.pool.finish_aside(read, |bytes| bytes[0]), Ok(0));
    model.pool.audit();
}

#[test]
fn a_writer_that_is_ended_in_the_middle_leaves_a_pool_that_writes_no_more() {
    let log = FakeLog::default();
    let disk = Disk::new(FaultPlan::default());
    let pool = pool_with(&disk, 32, ReplacementKind::Lru, true, log.clone());
    let mut model = Model::new(pool, 6, 1);
    model.change(1).unwrap();
    drop(model.pool.plan_cleaning().unwrap());
    model.pool.write_back(&WriteBack::default()).unwrap();
    model.change(1).unwrap();
    let cleaning = model.pool.plan_cleaning().unwrap();
    log.0.1.store(PANICS, Ordering::Relaxed);
    let ended = std::thread::spawn(|| cleaning.write()).join();
    assert!(ended.is_err());
    log.0.1.store(0, Ordering::Relaxed);
    let refused = model.pool.write_back(&WriteBack::default()).unwrap_err();
    assert!(matches!(refused, StorageError::Poisoned { .. }), "{refused}");
    model.pool.audit();
}

#[test]
fn who_misses_goes_on_while_pages_are_written_and_waits_where_nothing_else_may_leave() {
    let disk = Disk::new(FaultPlan::default());
    let mut model = Model::new(pool_on(&disk, 4, ReplacementKind::Lru, true), 12, 1);
    for page in 1..=12 {
        model.change(page).unwrap();
    }
    model.pool.drop_all().unwrap();
    model.change(1).unwrap();
    model.change(2).unwrap();
    for page in 3..=4 {
        model.check(page).unwrap();
    }
    let cleaning = model.pool.plan_cleaning().unwrap();
    let request_count = disk.request_count();
    for page in 5..=10 {
        model.check(page).unwrap();
    }
    assert_eq!(disk.request_count() - request_count, 6, "they are read and nothing is written");
    // Both clean pages are changed, so nothing may leave before the flight has landed.
    model.change(9).unwrap();
    model.change(10).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| cleaning.write().unwrap());
        model.check(11).unwrap();
    });
    model.pool.audit();
    model.check_all();
}

#[test]
fn a_new_page_is_new_no_more_while_its_first_copy_is_written_and_again_if_that_fails() {
    let disk = Disk::new(FaultPlan::default());
    let mut pool = pool_on(&disk, 32, ReplacementKind::Lru, true);
    let make = |pool: &mut Pool, page: u32| {
        let mut frame = pool.create(address(page)).unwrap();
        frame.note_change(0..PAGE_BYTES);
        frame.set_lsn(Lsn(u64::from(page)));
        assert!(frame.is_new());
    };
    make(&mut pool, 1);
    let cleaning = pool.plan_cleaning().unwrap();
    assert!(!pool.page_mut(address(1)).unwrap().is_new(), "its changes are to be noted");
    cleaning.write().unwrap();
    pool.land_cleaning();
    assert!(!pool.page_mut(address(1)).unwrap().is_new());
    make(&mut pool, 2);
    drop(pool.plan_cleaning().unwrap());
    pool.land_cleaning();
    assert!(pool.page_mut(address(2)).unwrap().is_new(), "the device has nothing of it");
}

#[test]
fn pages_of_a_writer_that_was_ended_stay_dirty() {
    let disk = Disk::new(FaultPlan::default());
    let mut model = Model::new(pool_on(&disk, 4, ReplacementKind::Lru, true), 8, 1);
    model.change(1).unwrap();
    drop(model.pool.plan_cleaning().unwrap());
    model.pool.audit();
    assert_eq!(model.pool.dirty_pages(), [(address(1), Lsn(1))]);
    model.pool.drop_all().unwrap();
    model.check(1).unwrap();
}

#[test]
fn damage_is_found_and_named() {
    let disk = Disk::new(FaultPlan::default());
    let mut model = Model::new(pool_on(&disk, 4, ReplacementKind::Clock, false), 6, 1);
    for page in 1..=6 {
        model.change(page).unwrap();
    }
    model.pool.drop_all().unwrap();
    disk.damage(FILE, 3 * u64::from(PAGE_BYTES) + 100);
    let expected = StorageError::ChecksumMismatch { file: "table".to_owned(), address: address(4) };
    assert_eq!(model.pool.read(address(4), |_| ()), Err(expected.clone()));
    assert_eq!(model.pool.read_batch(&[address(3), address(4)], |_, _| ()), Err(expected.clone()));
    assert_eq!(model.pool.page_mut(address(4)).map(|_| ()), Err(expected));
    model.pool.audit();
    let (mut torn, is_torn) = model.pool.page_mut_or_torn(address(4)).unwrap();
    assert!(is_torn, "redo gets it even so");
    torn.bytes_mut().fill(0);
    torn.note_change(0..PAGE_BYTES);
    torn.set_lsn(Lsn(100));
    drop(torn);
    model.fills[3] = 0;
    model.pool.drop_all().unwrap();
    model.check_all();
    assert!(!model.pool.page_mut_or_torn(address(4)).unwrap().1);
    model.pool.audit();
}

#[test]
fn pages_of_other_programs_are_neither_checked_nor_changed() {
    let disk = Disk::new(FaultPlan::default());
    let mut pool = pool_on(&disk, 4, ReplacementKind::Clock, false);
    disk.damage(FILE, 5);
    pool.name_file(FILE, "foreign", Checksum::None);
    assert_eq!(pool.read(address(1), |bytes| bytes[5]), Ok(0xFF));
    let refused = Err(StorageError::ReadOnly { place: "foreign".to_owned() });
    assert_eq!(pool.page_mut(address(1)).map(|_| ()), refused);
    assert_eq!(pool.create(address(1)).map(|_| ()), refused);
}

#[test]
fn the_log_is_durable_before_a_page_is_written() {
    let disk = Disk::new(FaultPlan::default());
    let log = FakeLog::default();
    let pool = pool_with(&disk, 3, ReplacementKind::Lru, false, log.clone());
    let mut model = Model::new(pool, 9, 2);
    for page in 1..=3 {
        model.change(page).unwrap();
    }
    assert_eq!(log.0.0.load(Ordering::Relaxed), 0, "nothing was written");
    let request_count = disk.request_count();
    log.0.1.store(1, Ordering::Relaxed);
    let full = Err(StorageError::NoSpace { what: "the log is full".to_owned() });
    assert_eq!(model.pool.read(address(9), |_| ()), full, "an eviction needs the log");
    assert_eq!(model.pool.write_back(&WriteBack::default()), full.map(|()| 0));
    assert_eq!(disk.request_count(), request_count, "no page was written");
    model.pool.audit();
    log.0.1.store(0, Ordering::Relaxed);
    model.check(9).unwrap();
    assert!(log.0.0.load(Ordering::Relaxed) >= 1, "the log was flushed first");
    model.check_all();
    model.pool.audit();
}

#[test]
fn a_page_that_a_batch_found_is_as_recent_as_one_that_was_read() {
    for is_in_batch in [false, true] {
        let disk = Disk::new(FaultPlan::default());
        let pool = pool_on(&disk, 3, ReplacementKind::Lru, false);
        let read = |page: u32| {
            let before = pool.counters().miss_count;
            pool.read(address(page), |_| ()).unwrap();
            pool.counters().miss_count > before
        };
        assert!((1..=3).all(read), "the pool was empty");
        match is_in_batch {
            true => pool.read_batch(&[address(1)], |_, _| ()).unwrap(),
            false => assert!(!read(1)),
        }
        assert!(read(4) && !read(1), "in a batch: {is_in_batch}");
        assert!(read(2), "the page that was used longest ago left");
        pool.audit();
    }
}

#[test]
fn held_pages_stay_and_a_full_pool_says_so() {
    let disk = Disk::new(FaultPlan::default());
    let mut pool = pool_on(&disk, 3, ReplacementKind::TwoQ, false);
    let mut frames = Vec::new();
    for page in 1..=3 {
        let mut frame = pool.page_mut(address(page)).unwrap();
        frame.pin();
        frames.push(frame.frame());
    }
    pool.frame_mut(frames[1]).note_change(0..4);
    pool.frame_mut(frames[1]).unpin();
    let exhausted = Err(StorageError::PoolExhausted { frame_count: 3 });
    assert_eq!(pool.read(address(9), |_| ()), exhausted, "a change without an LSN holds the page");
    assert_eq!(pool.write_back(&WriteBack::default()), Ok(0));
    assert_eq!(pool.dirty_pages(), []);
    pool.audit();
    pool.frame_mut(frames[1]).set_lsn(Lsn(7));
    assert_eq!(pool.dirty_pages(), [(address(2), Lsn(7))]);
    pool.read(address(9), |_| ()).unwrap();
    assert_eq!(pool.find(address(2)), None);
    assert_eq!(pool.read(address(2), page_lsn), Ok(Lsn(7)));
    pool.audit();
}

#[test]
fn rec_lsn_is_that_of_the_first_change_since_the_page_was_clean() {
    let disk = Disk::new(FaultPlan::default());
    let mut pool = pool_on(&disk, 5, ReplacementKind::TwoQ, false);
    for lsn in [5, 6] {
        let mut page = pool.page_mut(address(1)).unwrap();
        page.note_change(0..1);
        page.set_lsn(Lsn(lsn));
    }
    assert_eq!(pool.dirty_pages(), [(address(1), Lsn(5))]);
    let older = WriteBack { rec_lsn_below: Some(Lsn(5)), ..WriteBack::default() };
    assert_eq!(pool.write_back(&older), Ok(0));
    assert_eq!(pool.write_back(&WriteBack::default()), Ok(1));
    let mut page = pool.page_mut(address(1)).unwrap();
    let image = page.bytes().to_vec();
    page.note_change(0..1);
    page.restore(&image);
    drop(page);
    assert_eq!(pool.dirty_pages(), [], "a change that was taken back leaves the page clean");
}

/// A pool of so many frames, empty, over a file whose first pages hold their number.
fn cold_pool(frame_count: u32, page_count: u32) -> (Pool, Disk) {
    let disk = Disk::new(FaultPlan::default());
    let mut pool = pool_on(&disk, frame_count, ReplacementKind::TwoQ, false);
    for page in 1..=page_count {
        let mut frame = pool.create(address(page)).unwrap();
        frame.bytes_mut()[0] = page as u8;
        frame.note_change(0..1);
        frame.set_lsn(Lsn(u64::from(page)));
    }
    pool.drop_all().unwrap();
    (pool, disk)
}

#[test]
fn a_batch_keeps_the_queue_full() {
    let (pool, _) = cold_pool(64, 40);
    let start = pool.io.now();
    let pages: Vec<PageAddress> = (1..=32).map(address).collect();
    pool.read_batch(&pages, |index, bytes| assert_eq!(bytes[0] as usize, index + 1)).unwrap();
    // The device serves four at a time, each in 10 us and 1 ns a byte.
    let elapsed = pool.io.now() - start;
    assert_eq!(elapsed.0, 32 / 4 * (10_000 + u64::from(PAGE_BYTES)));
    let counters = pool.counters();
    assert_eq!((counters.hit_count, counters.miss_count, counters.read_count), (0, 32, 32));
    pool.audit();
}

#[test]
fn a_batch_shows_each_page_however_few_frames_are_left() {
    let (pool, _) = cold_pool(16, 12);
    let grant = pool.grant(13).unwrap();
    let pages: Vec<PageAddress> = (1..=12).chain([3, 3, 1]).map(address).collect();
    let mut seen = vec![0; pages.len()];
    pool.read_batch(&pages, |index, bytes| {
        assert_eq!(u32::from(bytes[0]), pages[index].page);
        seen[index] += 1;
    })
    .unwrap();
    assert!(seen.iter().all(|&count| count == 1), "each page is seen once: {seen:?}");
    pool.audit();
    drop(grant);
}

#[test]
fn what_was_prefetched_is_read_once_and_counted() {
    let (pool, disk) = cold_pool(16, 20);
    let request_count = disk.request_count();
    pool.prefetch(&[1, 2, 3, 4, 2].map(address));
    pool.audit();
    for page in [4, 3, 2, 4, 1, 1] {
        assert_eq!(pool.read(address(page), |bytes| bytes[0]), Ok(page as u8));
    }
    assert_eq!(disk.request_count(), request_count + 4, "each came once");
    let counters = pool.counters();
    assert_eq!((counters.prefetch_count, counters.prefetch_hit_count), (4, 4));
    pool.prefetch(&(1..=20).map(address).collect::<Vec<_>>());
    assert_eq!(pool.counters().prefetch_count, 4 + 8, "as many as the queue takes");
    pool.read(address(20), |bytes| assert_eq!(bytes[0], 20)).unwrap();
    pool.audit();
}

#[test]
fn an_eviction_of_a_dirty_page_writes_its_neighbours_in_age() {
    let (mut pool, _) = cold_pool(32, 40);
    for page in 1..=32 {
        let mut frame = pool.page_mut(address(page)).unwrap();
        frame.note_change(1..2);
        frame.set_lsn(Lsn(100));
    }
    let before = pool.counters();
    pool.read(address(40), |_| ()).unwrap();
    let after = pool.counters();
    assert_eq!(after.write_batch_count - before.write_batch_count, 1);
    assert_eq!(after.write_count - before.write_count, 8, "a quarter of the frames");
    assert_eq!(after.eviction_count - before.eviction_count, 1);
    assert_eq!(pool.dirty_pages().len(), 24);
    pool.audit();
}

#[test]
fn random_changes_in_a_small_pool_are_written_in_full_batches() {
    const FRAME_COUNT: u32 = 256;
    const PAGE_COUNT: u32 = 2000;
    for replacement in ReplacementKind::ALL {
        let disk = Disk::new(FaultPlan::default());
        let mut pool = pool_on(&disk, FRAME_COUNT, replacement, false);
        for page in 1..=PAGE_COUNT {
            let mut frame = pool.create(address(page)).unwrap();
            frame.note_change(0..1);
            frame.set_lsn(Lsn(1));
        }
        let before = pool.counters();
        let mut rng = Rng::new(1);
        for number in 0..10 * u64::from(PAGE_COUNT) {
            let page = 1 + nandu_base::to_u32(rng.below(u64::from(PAGE_COUNT)));
            let mut frame = pool.page_mut(address(page)).unwrap();
            frame.note_change(1..2);
            frame.set_lsn(Lsn(100 + number));
        }
        let after = pool.counters();
        let write_count = after.write_count - before.write_count;
        let mean = write_count / (after.write_batch_count - before.write_batch_count);
        assert!(mean >= 40, "{replacement:?}: {mean} pages at a time, where 64 may be");
        let eviction_count = after.eviction_count - before.eviction_count;
        let early_count = write_count.saturating_sub(eviction_count);
        assert!(early_count * 10 < eviction_count, "{replacement:?}: {early_count} came too early");
        pool.audit();
    }
}

#[test]
fn grants_are_taken_from_the_pool_and_come_back_whole() {
    let (mut pool, _) = cold_pool(8, 8);
    for page in 1..=8 {
        let mut frame = pool.page_mut(address(page)).unwrap();
        frame.bytes_mut()[0] = 100 + page as u8;
        frame.note_change(0..1);
        frame.set_lsn(Lsn(100));
    }
    let mut grant = pool.grant(5).unwrap();
    assert_eq!((grant.frame_count(), grant.buffers_mut().len(), pool.lent_count()), (5, 5, 5));
    assert!(grant.buffers_mut().iter().all(|buffer| buffer.len() == PAGE_BYTES as usize));
    assert_eq!(pool.grant(1).map(|_| ()), Err(StorageError::PoolExhausted { frame_count: 8 }));
    for page in 1..=8 {
        assert_eq!(pool.read(address(page), |bytes| bytes[0]), Ok(100 + page as u8));
    }
    pool.audit();
    grant.buffers_mut().pop();
    drop(grant);
    assert_eq!(pool.lent_count(), 0);
    assert_eq!(pool.grant(5).unwrap().buffers_mut().len(), 5, "a lost buffer was replaced");
    pool.audit();
}
