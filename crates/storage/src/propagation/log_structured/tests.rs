//! Log-structured propagation on a device in memory, against a model that knows every version.

mod amplification;
mod faults;
mod full;

use super::*;
use crate::Lsn;
use crate::page::{TRAILER_BYTES, seal_page, set_page_lsn};
use crate::propagation::ChangedRanges;
use crate::volume::testing::SharedDevice;
use crate::volume::{DeviceVolume, Io, IoOwner};
use nandu_base::{Nanos, Rng, to_index};
use nandu_device::{Device, FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

type Disk = SharedDevice<FaultyDevice<MemoryDevice>>;

const PAGE_BYTES: u32 = 512;

fn disk(sector_count: u64, plan: FaultPlan) -> Disk {
    let geometry = Geometry::new(512, sector_count).unwrap();
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    SharedDevice::new(FaultyDevice::new(memory, plan))
}

fn io_of(volume: DeviceVolume) -> Io {
    Io::new(Box::new(volume), Arc::new(AtomicU64::new(0)))
}

/// Cuts the power, if that did not happen, and restores it, with another plan from now on.
fn restart(disk: &Disk, plan: FaultPlan) {
    let mut device = disk.lock();
    device.cut_power();
    while device.next_completion(Nanos::MAX).is_some() {}
    device.power_on();
    device.set_plan(plan);
}

/// Small segments, so that everything happens often.
fn small() -> LogStructuredSettings {
    LogStructuredSettings {
        page_bytes: PAGE_BYTES,
        segment_bytes: 8192,
        write_bytes: 4096,
        spare_segment_count: 7,
        reserve_segment_count: 4,
        checkpoint_segment_count: 3,
        ..LogStructuredSettings::default()
    }
}

/// Versions of a page that differ in a few bytes only.
const ALIKE_COUNT: u32 = 64;

/// A page in one of its versions, sealed: its own bytes with zeros of random length in them, and a few
/// of the version's.
fn content(address: PageAddress, version: u32) -> Vec<u8> {
    let mut page = vec![0; PAGE_BYTES as usize];
    if version == 0 {
        return page;
    }
    let mut rng = Rng::new(address.to_word() << 20 | u64::from(version / ALIKE_COUNT));
    rng.fill(&mut page);
    let usable = page.len() - TRAILER_BYTES;
    let start = to_index(rng.below(usable as u64));
    let end = (start + to_index(rng.below(usable as u64))).min(usable);
    page[start..end].fill(0);
    let mut rng = Rng::new(u64::from(version));
    for _ in 0..2 {
        let start = to_index(rng.below(usable as u64 - 8));
        page[start..start + 1 + to_index(rng.below(8))].fill(rng.next_u64().to_be_bytes()[0] | 1);
    }
    set_page_lsn(&mut page, Lsn(u64::from(version)));
    seal_page(&mut page, address);
    page
}

/// Notes where two pages differ, as the pool would.
fn note_difference(before: &[u8], after: &[u8], changed: &mut ChangedRanges) {
    for (at, _) in before.iter().zip(after).enumerate().filter(|(_, (old, new))| old != new) {
        let at = nandu_base::to_u32(at as u64);
        changed.add(at..at + 1);
    }
}

fn write_of(address: PageAddress, version: u32) -> PageWrite {
    let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
    buffer.copy_from_slice(&content(address, version));
    PageWrite { address, buffer, changed: ChangedRanges::default(), is_new: false }
}

impl LogStructured {
    /// As a placement does it.
    fn write_sealed(&mut self, pages: &mut [PageWrite]) -> Result<(), StorageError> {
        pages.iter_mut().for_each(PageWrite::seal);
        self.write(pages)
    }
}

/// All versions that pages had, by the step that gave them; version 0 is "never written".
#[derive(Clone, Debug, Default)]
struct Model {
    versions: BTreeMap<PageAddress, Vec<(u64, u32)>>,
    step: u64,
    /// What was done up to this step is durable.
    synced: u64,
    version: u32,
}

impl Model {
    fn write(&mut self, address: PageAddress) -> u32 {
        self.step += 1;
        self.version += 1;
        self.versions.entry(address).or_default().push((self.step, self.version));
        self.version
    }

    fn truncate(&mut self, file: FileId, first_page: u32) {
        self.step += 1;
        let range = PageAddress::new(file, first_page)..=PageAddress::new(file, u32::MAX);
        for (_, versions) in self.versions.range_mut(range) {
            versions.push((self.step, 0));
        }
    }

    fn newest(&self, address: PageAddress) -> u32 {
        let versions = self.versions.get(&address);
        versions.and_then(|versions| versions.last()).map_or(0, |&(_, version)| version)
    }

    /// Takes what is found after a power cut as the truth: it must be what all pages were at one and
    /// the same step, not before the last sync.
    fn adopt(&mut self, found: &BTreeMap<PageAddress, u32>) {
        let (mut from, mut to) = (self.synced, self.step);
        for (address, versions) in &self.versions {
            let version = found[address];
            // The page may have been empty several times; the newest is the least strict.
            let at = versions.iter().rposition(|&(_, known)| known == version);
            assert!(at.is_some() || version == 0, "{address} has version {version} of nothing");
            let start = at.map_or(0, |at| versions[at].0);
            let next = at.map_or(0, |at| at + 1);
            let end = versions.get(next).map_or(self.step, |&(step, _)| step - 1);
            assert!(end >= self.synced, "{address}: version {version} is older than the last sync");
            if version != 0 {
                (from, to) = (from.max(start), to.min(end));
            }
        }
        assert!(from <= to, "pages are of different times: after step {from}, before {to}");
        for (address, versions) in &mut self.versions {
            versions.push((self.step, found[address]));
        }
        self.synced = self.step;
    }
}

/// A propagation, its disk and its model.
struct Bench {
    disk: Disk,
    io: Io,
    settings: LogStructuredSettings,
    propagation: LogStructured,
    model: Model,
    /// What the pool would know of pages that it wrote or read: what their next write has to cover.
    changed: BTreeMap<PageAddress, ChangedRanges>,
}

impl Bench {
    fn new(disk: Disk, settings: LogStructuredSettings) -> Result<Self, StorageError> {
        let volume = DeviceVolume::format(Box::new(disk.clone()))?;
        let io = io_of(volume);
        let propagation = LogStructured::create(Media::of_data(io.clone()), settings.clone())?;
        let (model, changed) = (Model::default(), BTreeMap::new());
        Ok(Self { disk, io, settings, propagation, model, changed })
    }

    fn write(&mut self, addresses: &[PageAddress]) -> Result<(), StorageError> {
        let mut pages = Vec::new();
        for &address in addresses {
            let before = self.model.newest(address);
            let mut page = write_of(address, self.model.write(address));
            if let Some(changed) = self.changed.get_mut(&address) {
                note_difference(&content(address, before), &page.buffer, changed);
                page.changed = changed.clone();
            }
            pages.push(page);
        }
        self.propagation.write_sealed(&mut pages)?;
        assert_eq!(pages.len(), addresses.len(), "all pages come back");
        self.changed.extend(pages.into_iter().map(|page| (page.address, page.changed)));
        Ok(())
    }

    fn sync(&mut self) -> Result<(), StorageError> {
        self.propagation.sync()?;
        self.model.synced = self.model.step;
        Ok(())
    }

    fn truncate(&mut self, file: FileId, first_page: u32) -> Result<(), StorageError> {
        self.model.truncate(file, first_page);
        self.changed.retain(|address, _| address.file != file || address.page < first_page);
        self.propagation.truncate(file, first_page)
    }

    /// Reads all known pages, several at a time, and by itself each that lies on the device; gives back
    /// their versions.
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
                let is_empty = read.buffer.iter().all(|&byte| byte == 0);
                let lsn = if is_empty { 0 } else { crate::page::page_lsn(&read.buffer).0 };
                let version = u32::try_from(lsn).expect("versions are small");
                assert!(read.buffer[..] == content(read.address, version)[..], "{}", read.address);
                if let Some(place) = self.propagation.locate(read.address) {
                    let (bytes, changed) = read_at_place(&self.io, &place)?;
                    assert!(bytes[..] == read.buffer[..], "{} at its place", read.address);
                    assert_eq!(changed, read.changed, "{} at its place", read.address);
                }
                found.insert(read.address, version);
                self.changed.insert(read.address, read.changed);
            }
        }
        assert_eq!(found.len(), addresses.len(), "each page that was begun arrives");
        Ok(found)
    }

    fn check(&mut self) -> Result<(), StorageError> {
        self.propagation.audit();
        for (address, version) in self.read_all()? {
            assert_eq!(version, self.model.newest(address), "{address}");
        }
        Ok(())
    }

    /// Reopens after a power cut, and checks what is there.
    fn reopen(&mut self, plan: FaultPlan) -> Result<(), StorageError> {
        restart(&self.disk, plan);
        let volume = DeviceVolume::open(Box::new(self.disk.clone()))?;
        self.io = io_of(volume);
        self.propagation =
            LogStructured::open(Media::of_data(self.io.clone()), self.settings.clone())?;
        self.propagation.audit();
        let found = self.read_all()?;
        self.model.adopt(&found);
        Ok(())
    }
}

fn page(file: u16, page: u32) -> PageAddress {
    PageAddress::new(FileId(file), page)
}

/// A random deed: mostly writes, of few pages in most cases.
fn random_step(bench: &mut Bench, rng: &mut Rng, page_count: u64) -> Result<(), StorageError> {
    match rng.below(20) {
        0 => bench.sync(),
        1 if rng.below(4) == 0 => {
            let file = FileId(1 + u16::try_from(rng.below(2)).unwrap());
            bench.truncate(file, 1 + u32::try_from(rng.below(page_count)).unwrap())
        }
        _ => {
            let count = 1 + rng.below(12);
            let mut addresses = Vec::new();
            for _ in 0..count {
                let hot = if rng.below(3) == 0 { page_count } else { page_count / 8 + 1 };
                let number = 1 + u32::try_from(rng.below(hot)).unwrap();
                let address = page(1 + u16::try_from(rng.below(2)).unwrap(), number);
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
            bench.write(&addresses)
        }
    }
}

#[test]
fn pages_come_back_through_rewrites_cleaning_truncates_and_reopening() {
    for victim in SegmentVictimKind::ALL {
        for (separate_cleaned, packing) in [
            (true, PagePacking::Packed),
            (false, PagePacking::Packed),
            (true, PagePacking::Whole),
            (false, PagePacking::Whole),
        ] {
            let settings = LogStructuredSettings { victim, separate_cleaned, packing, ..small() };
            let mut bench = Bench::new(disk(16_384, FaultPlan::default()), settings).unwrap();
            let mut rng = Rng::new(11);
            for step in 0..300 {
                random_step(&mut bench, &mut rng, 400).unwrap();
                if step % 100 == 99 {
                    bench.check().unwrap();
                    bench.sync().unwrap();
                    bench.reopen(FaultPlan::default()).unwrap();
                    bench.check().unwrap();
                }
            }
            for _ in 0..40 {
                random_step(&mut bench, &mut rng, 400).unwrap();
            }
            let counters = bench.propagation.counters();
            assert!(counters.copied_page_count > 0, "cleaning is part of this test: {counters:?}");
            assert!(counters.difference_count > 20, "and so are differences: {counters:?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    /// Looked at after each step, so that what is wrong only until the next write is seen, too.
    #[test]
    fn what_was_written_last_is_read_at_any_time(seed in any::<u64>(), page_count in 16_u64..96) {
        let settings = LogStructuredSettings::small(PAGE_BYTES, seed);
        let mut rng = Rng::new(seed);
        let mut bench = Bench::new(disk(8192, FaultPlan::default()), settings).unwrap();
        for _ in 0..150 {
            random_step(&mut bench, &mut rng, page_count).unwrap();
            bench.check().unwrap();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]
    #[test]
    fn a_power_cut_leaves_the_pages_of_one_time_not_before_the_last_sync(
        seed in any::<u64>(), cuts in proptest::collection::vec((1_u64..400, 0_u8..3), 1..6),
    ) {
        let mut rng = Rng::new(seed);
        let settings = match seed % 4 {
            0 => small(),
            _ => LogStructuredSettings::small(PAGE_BYTES, seed),
        };
        let mut bench = Bench::new(disk(8192, FaultPlan::default()), settings).unwrap();
        for (after, fate) in cuts {
            let plan = faults::cut_after(&bench, after, fate, seed);
            bench.disk.lock().set_plan(plan);
            for _ in 0..200 {
                if random_step(&mut bench, &mut rng, 120).is_err() {
                    break;
                }
            }
            bench.reopen(FaultPlan::default()).unwrap();
            bench.check().unwrap();
        }
    }
}

/// What lies at a place, read without the propagation, and what the next write has to cover.
fn read_at_place(io: &Io, place: &PagePlace) -> Result<(Vec<u8>, ChangedRanges), StorageError> {
    let mut page = vec![0; PAGE_BYTES as usize];
    match place {
        &PagePlace::Whole { file, offset_bytes } => {
            let bytes = transfer::read(io, file, offset_bytes, PAGE_BYTES as usize)?;
            page.copy_from_slice(&bytes);
            Ok((page, ChangedRanges::default()))
        }
        PagePlace::Records(stored) => {
            let read = |piece: Range<u64>| {
                let len = to_index(piece.end - piece.start);
                transfer::read(io, stored.file(), piece.start, len)
            };
            let pieces: Vec<IoBuffer> = stored.pieces().map(read).collect::<Result<_, _>>()?;
            let changed = stored.assemble(&pieces, &mut page)?;
            Ok((page, changed))
        }
    }
}

#[test]
fn a_page_can_be_read_where_it_lies_whole_or_packed() {
    for packing in [PagePacking::Whole, PagePacking::Packed] {
        let settings = LogStructuredSettings { packing, ..small() };
        let mut bench = Bench::new(disk(4096, FaultPlan::default()), settings).unwrap();
        assert_eq!(bench.propagation.locate(page(1, 1)), None, "never written");
        bench.write(&[page(1, 1), page(1, 2)]).unwrap();
        assert_eq!(bench.propagation.locate(page(1, 1)), None, "it waits in memory");
        bench.sync().unwrap();
        let place = bench.propagation.locate(page(1, 2)).unwrap();
        let is_whole = matches!(place, PagePlace::Whole { .. });
        assert_eq!(is_whole, packing == PagePacking::Whole);
        let (bytes, changed) = read_at_place(&bench.io, &place).unwrap();
        assert!(bytes[..] == content(page(1, 2), 2)[..] && changed.as_slice().is_empty());
    }
}

#[test]
fn of_a_page_that_changed_little_only_the_difference_is_written() {
    let mut bench = Bench::new(disk(4096, FaultPlan::default()), small()).unwrap();
    let pages: Vec<PageAddress> = (1..=20).map(|number| page(1, number)).collect();
    bench.model.version = ALIKE_COUNT;
    bench.write(&pages).unwrap();
    bench.sync().unwrap();
    let whole = bench.propagation.counters();
    bench.write(&pages).unwrap();
    bench.sync().unwrap();
    let differences = bench.propagation.counters();
    assert_eq!(differences.difference_count - whole.difference_count, 20);
    let bytes = differences.record_bytes - whole.record_bytes;
    assert!(bytes < 20 * 80, "two changes, a trailer, ranges: {bytes}");
    bench.check().unwrap();
    let place = bench.propagation.locate(page(1, 3)).unwrap();
    let PagePlace::Records(stored) = &place else { panic!("it is in two places: {place:?}") };
    assert_eq!(stored.pieces().count(), 2);
    assert!(read_at_place(&bench.io, &place).unwrap().1 == bench.changed[&page(1, 3)]);
    // What comes back as changed is what the difference covers, so that the next one covers it, too.
    assert!(bench.changed.values().all(|changed| !changed.as_slice().is_empty()));
    bench.reopen(FaultPlan::default()).unwrap();
    bench.check().unwrap();
    // A difference that has grown too long gives way to the page.
    bench.model.version = 4 * ALIKE_COUNT;
    let before = bench.propagation.counters();
    for _ in 0..ALIKE_COUNT - 1 {
        bench.write(&pages[..1]).unwrap();
        bench.sync().unwrap();
    }
    bench.check().unwrap();
    let after = bench.propagation.counters();
    let whole_count = (after.page_write_count - after.difference_count)
        - (before.page_write_count - before.difference_count);
    assert!((5..=20).contains(&whole_count), "{whole_count} of 63 were whole");
    let never = LogStructuredSettings { difference_percent_max: 0, ..small() };
    let mut bench = Bench::new(disk(4096, FaultPlan::default()), never).unwrap();
    for _ in 0..3 {
        bench.write(&pages).unwrap();
        bench.sync().unwrap();
    }
    assert_eq!(bench.propagation.counters().difference_count, 0);
}

#[test]
fn zeros_are_not_written() {
    let mut bench = Bench::new(disk(4096, FaultPlan::default()), small()).unwrap();
    let mut pages = Vec::new();
    for number in 1..=100 {
        // A third of each page is in use.
        let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
        buffer[..170].fill(7);
        let changed = ChangedRanges::default();
        pages.push(PageWrite { address: page(1, number), buffer, changed, is_new: false });
    }
    bench.propagation.write_sealed(&mut pages).unwrap();
    bench.propagation.sync().unwrap();
    let written = bench.propagation.counters().segment_bytes_written;
    assert!(written < 100 * 260, "170 bytes, trailer, summary and padding: {written}");
}

#[test]
fn a_page_that_is_written_again_before_it_leaves_memory_is_written_once() {
    let settings = LogStructuredSettings { packing: PagePacking::Whole, ..small() };
    let mut bench = Bench::new(disk(4096, FaultPlan::default()), settings).unwrap();
    for _ in 0..50 {
        bench.write(&[page(1, 1), page(1, 2)]).unwrap();
    }
    bench.sync().unwrap();
    bench.check().unwrap();
    let counters = bench.propagation.counters();
    assert_eq!((counters.write_count, counters.page_write_count), (1, 100));
    assert_eq!(counters.segment_bytes_written, 4 * 512, "header, two pages, table");
}

#[test]
fn a_segment_is_written_again_only_after_reads_that_were_begun() {
    let settings = LogStructuredSettings { difference_percent_max: 0, ..small() };
    let mut bench = Bench::new(disk(4096, FaultPlan::default()), settings).unwrap();
    let pages: Vec<PageAddress> = (1..=60).map(|number| page(1, number)).collect();
    bench.write(&pages).unwrap();
    bench.sync().unwrap();
    let version = bench.model.newest(pages[0]);
    let segment = bench.propagation.segments.of(bench.propagation.map.get(pages[0]));
    let last_write = |bench: &Bench| bench.propagation.segments.get(segment).written_at;
    let before = last_write(&bench);
    bench.propagation.start_read(pages[0], IoBuffer::zeroed(PAGE_BYTES as usize)).unwrap();
    let mut rounds = 0;
    while last_write(&bench) == before {
        bench.write(&pages).unwrap();
        rounds += 1;
        assert!(rounds < 200, "segments are written again and again");
    }
    let is_under_way = bench.io.wait_any(IoOwner::PoolRead).is_some();
    assert!(!is_under_way, "the read was waited for before");
    let read = bench.propagation.next_read().expect("it was begun");
    assert!(read.buffer[..] == content(pages[0], version)[..], "it was begun before the others");
}

#[test]
fn the_file_gets_shorter_only_after_reads_that_were_begun() {
    let mut bench = Bench::new(disk(8192, FaultPlan::default()), small()).unwrap();
    let gone: Vec<PageAddress> = (1..=400).map(|number| page(1, number)).collect();
    bench.write(&gone).unwrap();
    bench.write(&[page(2, 1)]).unwrap();
    bench.sync().unwrap();
    bench.truncate(FileId(1), 1).unwrap();
    let segments = bench.propagation.files.segments;
    let bytes = bench.io.byte_count(segments);
    let buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
    bench.propagation.start_read(page(2, 1), buffer).unwrap();
    for _ in 0..2 {
        bench.propagation.checkpoint().unwrap();
    }
    assert!(bench.io.byte_count(segments) < bytes, "it is {bytes} bytes long, as before");
    let is_under_way = bench.io.wait_any(IoOwner::PoolRead).is_some();
    assert!(!is_under_way, "the read was waited for before");
    let read = bench.propagation.next_read().expect("it was begun");
    assert!(read.buffer[..] == content(page(2, 1), bench.model.newest(page(2, 1)))[..]);
}

#[test]
fn opening_refuses_other_sizes_and_damaged_maps() {
    let mut bench = Bench::new(disk(4096, FaultPlan::default()), small()).unwrap();
    bench.write(&[page(1, 1)]).unwrap();
    bench.sync().unwrap();
    let io = &bench.io;
    let exists = LogStructured::create(Media::of_data(io.clone()), small());
    assert!(matches!(exists, Err(StorageError::Exists { .. })));
    let other = LogStructuredSettings { page_bytes: 1024, ..small() };
    let answer = LogStructured::open(Media::of_data(io.clone()), other);
    assert!(matches!(answer, Err(StorageError::InvalidSetting { .. })), "{answer:?}");
    for file in bench.propagation.files.maps {
        let mut bytes = transfer::read(io, file, 0, 512).unwrap();
        bytes[30] ^= 1;
        transfer::write(io, file, 0, bytes).unwrap();
    }
    let answer = LogStructured::open(Media::of_data(io.clone()), small());
    assert!(matches!(answer, Err(StorageError::Corrupt { .. })), "{answer:?}");
}

#[test]
fn a_damaged_newer_map_is_not_passed_over_in_silence() {
    let mut bench = Bench::new(disk(4096, FaultPlan::default()), small()).unwrap();
    let mut number = 0;
    let mut write = |bench: &mut Bench| {
        number += 1;
        bench.write(&[page(1, number)]).unwrap();
        bench.sync().unwrap();
        bench.propagation.generation
    };
    while write(&mut bench) < 3 {}
    write(&mut bench);
    let io = &bench.io;
    let newer = bench.propagation.files.maps[bench.propagation.durable_map];
    let mut bytes = transfer::read(io, newer, 0, 512).unwrap();
    bytes[30] ^= 1;
    transfer::write(io, newer, 0, bytes).unwrap();
    let answer = LogStructured::open(Media::of_data(io.clone()), small());
    assert!(matches!(answer, Err(StorageError::Corrupt { .. })), "{answer:?}");
}
