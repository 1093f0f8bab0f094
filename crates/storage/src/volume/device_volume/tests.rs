//! A volume on a device in memory: the suite, what it refuses, and power cuts against a model.

use super::table::{Layout, RANGE_COUNT_MAX};
use super::*;
use crate::volume::testing::{SharedDevice, check_volume, read_fills, write_fill};
use nandu_base::Rng;
use nandu_device::{
    FaultPlan, FaultyDevice, Geometry, Inspect, MemoryConfig, MemoryDevice, UnflushedFate,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

type Disk = SharedDevice<FaultyDevice<MemoryDevice>>;

fn memory(sector_count: u64) -> MemoryDevice {
    let geometry = Geometry::new(512, sector_count).unwrap();
    MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() })
}

fn disk(sector_count: u64, plan: FaultPlan) -> Disk {
    SharedDevice::new(FaultyDevice::new(memory(sector_count), plan))
}

fn open(disk: &Disk) -> Result<DeviceVolume, StorageError> {
    DeviceVolume::open(Box::new(disk.clone()))
}

#[test]
fn a_device_volume_passes_the_suite() {
    check_volume(&mut || Box::new(DeviceVolume::format(Box::new(memory(8192))).unwrap()));
}

#[test]
fn a_volume_without_trim_passes_the_suite() {
    check_volume(&mut || {
        let device = WithoutTrim::new(memory(8192));
        Box::new(DeviceVolume::format(Box::new(device)).unwrap())
    });
}

/// A device that cannot trim, as a disk.
struct WithoutTrim<D> {
    info: nandu_device::DeviceInfo,
    inner: D,
}

impl<D: Device> WithoutTrim<D> {
    fn new(inner: D) -> Self {
        let mut info = inner.info().clone();
        info.supports_trim = false;
        Self { info, inner }
    }
}

impl<D: Device> Device for WithoutTrim<D> {
    fn info(&self) -> &nandu_device::DeviceInfo {
        &self.info
    }
    fn now(&self) -> Nanos {
        self.inner.now()
    }
    fn submit(&mut self, now: Nanos, request: Request) -> Result<(), nandu_device::Rejected> {
        assert!(request.operation != Operation::Trim, "it was said that this is in vain");
        self.inner.submit(now, request)
    }
    fn next_completion(&mut self, until: Nanos) -> Option<Completion> {
        self.inner.next_completion(until)
    }
    fn in_flight(&self) -> u32 {
        self.inner.in_flight()
    }
    fn idle_until(&mut self, time: Nanos) -> Nanos {
        self.inner.idle_until(time)
    }
    fn counters(&self) -> Counters {
        self.inner.counters()
    }
}

#[test]
fn requests_over_several_extents_are_split_and_joined() {
    let mut volume = DeviceVolume::format(Box::new(memory(8192))).unwrap();
    let files = [volume.create("a").unwrap(), volume.create("b").unwrap()];
    // Growing in turns gives extents of one unit each, 8 sectors, then longer ones.
    for sector in (0..64).step_by(4) {
        for (fill, &file) in (1..).zip(&files) {
            write_fill(&mut volume, file, sector, 4, fill).unwrap();
        }
    }
    volume.audit();
    assert!(volume.table.files[&files[0]].extents.len() > 3, "the files are in pieces");
    for (fill, &file) in (1..).zip(&files) {
        assert_eq!(read_fills(&mut volume, file, 0, 64).unwrap(), [fill; 64]);
        write_fill(&mut volume, file, 2, 60, fill + 10).unwrap();
        let fills = read_fills(&mut volume, file, 0, 64).unwrap();
        let expected = |at| if (2..62).contains(&at) { fill + 10 } else { fill };
        assert!((0..64).zip(fills).all(|(at, found)| found == expected(at)));
    }
    volume.audit();
}

#[test]
fn growing_by_doubling_writes_the_table_rarely() {
    let mut volume = DeviceVolume::format(Box::new(memory(1 << 17))).unwrap();
    let file = volume.create("pages").unwrap();
    for sector in 0..4096 {
        write_fill(&mut volume, file, sector, 1, 1).unwrap();
    }
    let before = volume.table.generation;
    volume.sync(file, volume.now()).unwrap();
    volume.sync(file, volume.now()).unwrap();
    assert_eq!(volume.table.generation, before + 1, "once, for the new length");
    assert!(volume.table.files[&file].extents.len() == 1, "nobody stood in its way");
    // A log of fixed length: 1024 small writes, each made durable.
    let log = volume.create("log").unwrap();
    volume.set_byte_count(log, 1024 * 512).unwrap();
    let before = volume.table.generation;
    for sector in 0..1024 {
        write_fill(&mut volume, log, sector, 1, 2).unwrap();
        volume.sync(log, volume.now()).unwrap();
    }
    let written = volume.table.generation - before;
    assert!((1..=5).contains(&written), "zeros go ahead of the log: {written} tables");
    volume.audit();
}

#[test]
fn scattered_writes_leave_few_ranges() {
    let mut volume = DeviceVolume::format(Box::new(memory(8192))).unwrap();
    let file = volume.create("scattered").unwrap();
    let mut sectors: Vec<u64> = (0..500).map(|at| at * 3 % 500).collect();
    Rng::new(3).shuffle(&mut sectors);
    for &sector in &sectors[..200] {
        write_fill(&mut volume, file, sector, 1, 9).unwrap();
    }
    // A file that is never synced, of buckets that fill side by side, costs no zeros.
    assert!(volume.table.files[&file].written.count() > RANGE_COUNT_MAX);
    volume.sync(file, volume.now()).unwrap();
    assert!(volume.table.files[&file].written.count() <= RANGE_COUNT_MAX, "invariant 3");
    let fills = read_fills(&mut volume, file, 0, 500).unwrap();
    for sector in 0..500 {
        let expected = if sectors[..200].contains(&sector) { 9 } else { 0 };
        assert_eq!(fills[to_index(sector)], expected, "sector {sector}");
    }
}

#[test]
fn a_full_device_refuses_and_stays_usable() {
    let mut volume = DeviceVolume::format(Box::new(memory(2048))).unwrap();
    let (large, small) = (volume.create("large").unwrap(), volume.create("small").unwrap());
    let mut sector = 0;
    let error = loop {
        match write_fill(&mut volume, large, sector, 8, 1) {
            Ok(()) => sector += 8,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StorageError::NoSpace { .. }), "{error}");
    assert!(sector * 512 > 900 << 10, "nearly all of the device can be used: {sector} sectors");
    volume.audit();
    assert!(matches!(write_fill(&mut volume, small, 0, 8, 2), Err(StorageError::NoSpace { .. })));
    assert_eq!(volume.byte_count(small), 0);
    volume.set_byte_count(large, 512 * 64).unwrap();
    write_fill(&mut volume, small, 0, 512, 2).unwrap();
    volume.audit();
    assert_eq!(read_fills(&mut volume, small, 0, 512).unwrap(), [2; 512]);
    assert_eq!(read_fills(&mut volume, large, 0, 64).unwrap(), [1; 64]);
}

#[test]
fn room_taken_ahead_is_given_to_who_needs_it() {
    let mut volume = DeviceVolume::format(Box::new(memory(1 << 14))).unwrap();
    let files: Vec<FileId> =
        (0..8).map(|number| volume.create(&format!("file{number}")).unwrap()).collect();
    let mut written = 0_u64;
    let mut sector = 0;
    'full: loop {
        for &file in &files {
            if write_fill(&mut volume, file, sector, 8, 1).is_err() {
                break 'full;
            }
            written += 8 * 512;
        }
        sector += 8;
    }
    volume.audit();
    assert!(written > (8 << 20) * 24 / 25, "{written} bytes of 8 MiB");
}

#[test]
fn a_volume_without_room_for_names_refuses() {
    let mut volume = DeviceVolume::format(Box::new(memory(2048))).unwrap();
    let error = (0..1000).find_map(|number| volume.create(&format!("file{number}")).err());
    assert!(matches!(error, Some(StorageError::NoSpace { .. })), "{error:?}");
    volume.audit();
    let (file, _) = volume.files()[0];
    volume.remove(file).unwrap();
    volume.create("again").unwrap();
    let count = volume.files().len();
    assert_eq!(DeviceVolume::open(volume.into_device()).unwrap().files().len(), count);
}

#[test]
fn files_are_there_after_opening_again() {
    let mut volume = DeviceVolume::format(Box::new(memory(8192))).unwrap();
    let (a, b) = (volume.create("a").unwrap(), volume.create_logged("b", Lsn(5)).unwrap());
    write_fill(&mut volume, a, 3, 20, 4).unwrap();
    volume.set_byte_count(b, 512 * 100).unwrap();
    volume.sync(a, volume.now()).unwrap();
    volume.sync(b, volume.now()).unwrap();
    let (files, free) = (volume.files(), volume.free_bytes());
    let mut volume = DeviceVolume::open(volume.into_device()).unwrap();
    volume.audit();
    assert_eq!((volume.files(), volume.free_bytes()), (files, free));
    assert_eq!((volume.byte_count(a), volume.byte_count(b)), (512 * 23, 512 * 100));
    assert_eq!(read_fills(&mut volume, a, 2, 3).unwrap(), [0, 4, 4]);
    assert_eq!((volume.records_from(a), volume.records_from(b)), (NO_RECORDS, Lsn(5)), "rule 4");
    volume.remove(b).unwrap();
    assert_eq!(volume.create("c").unwrap(), b, "the number is free again");
}

#[test]
fn what_is_no_volume_is_told_apart() {
    let open = |device| DeviceVolume::open(Box::new(device)).unwrap_err();
    assert!(matches!(open(memory(4096)), StorageError::NotADatabase { .. }));
    let mut foreign = memory(4096);
    let mut sector = [0; 512];
    sector[..16].copy_from_slice(b"SQLite format 3\0");
    foreign.poke(nandu_base::SectorIndex(0), &sector);
    assert!(matches!(open(foreign), StorageError::NotADatabase { .. }));
    assert!(matches!(open(memory(32)), StorageError::InvalidSetting { .. }));
    let formatted = || SharedDevice::new(memory(4096));
    let damage = |sectors: &[u64], at: usize, value: u8| {
        let shared = formatted();
        drop(DeviceVolume::format(Box::new(shared.clone())).unwrap());
        for &sector in sectors {
            let mut bytes = [0; 512];
            shared.lock().peek(nandu_base::SectorIndex(sector), &mut bytes);
            bytes[at] = value;
            shared.lock().poke(nandu_base::SectorIndex(sector), &bytes);
        }
        DeviceVolume::open(Box::new(shared))
    };
    let second = u64::from(Layout::of(Geometry::new(512, 4096).unwrap()).unwrap().slot_bytes / 512);
    assert!(damage(&[0], 45, 9).is_ok(), "one damaged slot leaves the other");
    assert!(damage(&[second], 45, 9).is_ok(), "one damaged slot leaves the other");
    assert!(matches!(damage(&[0, second], 45, 9), Err(StorageError::Corrupt { .. })));
    let version = damage(&[0, second], 19, 8).unwrap_err();
    assert!(version.to_string().contains("version 8"), "{version}");
}

#[test]
fn a_device_that_became_shorter_is_told() {
    let shared = SharedDevice::new(memory(1 << 16));
    drop(DeviceVolume::format(Box::new(shared.clone())).unwrap());
    for sector_count in [128, 1 << 10, 1 << 15] {
        let mut short = memory(sector_count);
        for sector in 0..sector_count {
            let mut bytes = [0; 512];
            shared.lock().peek(nandu_base::SectorIndex(sector), &mut bytes);
            short.poke(nandu_base::SectorIndex(sector), &bytes);
        }
        let error = DeviceVolume::open(Box::new(short)).unwrap_err();
        assert!(matches!(error, StorageError::Corrupt { .. }), "{sector_count}: {error}");
    }
}

#[test]
fn a_failed_write_leaves_zeros_not_the_bytes_of_a_removed_file() {
    for failing in 0..12 {
        let disk = disk(2048, FaultPlan::default());
        let mut volume = DeviceVolume::format(Box::new(disk.clone())).unwrap();
        let old = volume.create("old").unwrap();
        write_fill(&mut volume, old, 0, 1000, 0xAB).unwrap();
        volume.remove(old).unwrap();
        let new = volume.create("new").unwrap();
        write_fill(&mut volume, new, 0, 8, 1).unwrap();
        let next = disk.lock().submitted_count() + 1;
        disk.lock()
            .set_plan(FaultPlan { fail_requests: vec![next + failing], ..FaultPlan::default() });
        let written = write_fill(&mut volume, new, 16, 100, 2);
        assert_eq!(written.is_err(), failing == 0, "request {failing}");
        let synced = volume.sync(new, volume.now());
        volume.audit();
        disk.lock().set_plan(FaultPlan::default());
        let mut volume = if synced.is_ok() { open(&disk).unwrap() } else { volume };
        let fills = read_fills(&mut volume, new, 0, 200).unwrap_or_default();
        assert!(fills.iter().all(|fill| [0, 1, 2].contains(fill)), "invariant 2");
    }
}

/// What a file may look like after a power cut: every state since it was last synced.
#[derive(Clone, Debug, Default)]
struct Expected {
    now: BTreeMap<u64, u8>,
    sectors: u64,
    /// What each sector held since the last sync; none: only what it holds now.
    possible: BTreeMap<u64, Vec<u8>>,
    lengths: Vec<u64>,
    removed: bool,
    /// It was removed, and a creation that failed may have made an empty file of its number.
    may_be_another: bool,
    /// A step on it failed: only its existence is known.
    vague: bool,
}

impl Expected {
    fn set(&mut self, sector: u64, fill: u8) {
        let before = self.now.insert(sector, fill).unwrap_or(0);
        self.possible.entry(sector).or_insert_with(|| vec![before]).push(fill);
    }

    fn synced(&mut self) {
        self.possible.clear();
        self.lengths = vec![self.sectors];
    }

    fn check(&self, volume: &mut DeviceVolume, file: FileId) {
        if self.vague {
            return;
        }
        let sectors = volume.byte_count(file) / 512;
        if self.may_be_another && sectors == 0 {
            return;
        }
        assert!(self.lengths.contains(&sectors), "rule 3: {sectors} of {:?}", self.lengths);
        let fills = read_fills(volume, file, 0, 320).unwrap();
        for (sector, fill) in (0..).zip(fills) {
            if sector >= sectors {
                assert_eq!(fill, 0, "rule 2: past the end");
                continue;
            }
            let now = self.now.get(&sector).copied().unwrap_or(0);
            let possible = self.possible.get(&sector).cloned().unwrap_or_else(|| vec![now]);
            // Bytes that a length, but not their write, made part of the file.
            assert!(
                possible.contains(&fill),
                "rule 3: sector {sector} has {fill}, not {possible:?}"
            );
        }
    }
}

#[derive(Clone, Debug)]
enum Step {
    Create,
    Remove,
    Write { sector: u64, count: u64, fill: u8 },
    Trim { sector: u64, count: u64 },
    SetLength { sectors: u64 },
    Sync,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        2 => Just(Step::Create),
        1 => Just(Step::Remove),
        8 => (0_u64..280, 1_u64..40, 1_u8..255)
            .prop_map(|(sector, count, fill)| Step::Write { sector, count, fill }),
        1 => (0_u64..280, 1_u64..40).prop_map(|(sector, count)| Step::Trim { sector, count }),
        1 => (0_u64..300).prop_map(|sectors| Step::SetLength { sectors }),
        4 => Just(Step::Sync),
    ]
}

/// Long, so that the table takes several sectors and can be torn.
fn name_of(number: usize) -> String {
    format!("{number}{}", "n".repeat(180))
}

/// Runs a step on the file of a name, which may be there; notes first what it may lead to.
fn run_step(
    volume: &mut DeviceVolume,
    model: &mut BTreeMap<FileId, Expected>,
    name: usize,
    step: &Step,
) -> Result<(), StorageError> {
    let known = volume.files().into_iter().find(|(_, known)| *known == name_of(name));
    let Some((file, _)) = known else {
        if matches!(step, Step::Create) {
            let file = volume.create(&name_of(name)).inspect_err(|_| {
                for expected in model.values_mut() {
                    expected.may_be_another |= expected.removed;
                }
            })?;
            let expected = Expected { lengths: vec![0], ..Expected::default() };
            // The making is durable, and so is the removal of the file that had the number before.
            let before = model.insert(file, expected);
            assert!(before.is_none_or(|before| before.removed), "rule 4");
        }
        return Ok(());
    };
    let expected = model.get_mut(&file).unwrap();
    let answer = match *step {
        Step::Create => Ok(()),
        Step::Remove => {
            expected.removed = true;
            volume.remove(file)
        }
        Step::Write { sector, count, fill } => {
            (sector..sector + count).for_each(|at| expected.set(at, fill));
            expected.sectors = expected.sectors.max(sector + count);
            expected.lengths.push(expected.sectors);
            write_fill(volume, file, sector, count, fill)
        }
        Step::Trim { sector, count } => {
            (sector..sector + count).for_each(|at| expected.set(at, 0));
            let (offset_bytes, length_bytes) = (sector * 512, count * 512);
            let (id, operation, buffer) = (1, Operation::Trim, None);
            let request = FileRequest { id, operation, offset_bytes, length_bytes, buffer };
            volume.submit(file, volume.now(), request).and_then(|()| {
                let done = volume.next_completion(Nanos::MAX).unwrap();
                let what = String::new();
                done.result.map_err(|error| StorageError::Device { what, error })
            })
        }
        Step::SetLength { sectors } => {
            (sectors..expected.sectors).for_each(|at| expected.set(at, 0));
            expected.sectors = sectors;
            expected.lengths.push(sectors);
            volume.set_byte_count(file, sectors * 512)
        }
        Step::Sync => volume.sync(file, volume.now()).map(drop),
    };
    match &answer {
        Ok(()) if matches!(step, Step::Sync) => {
            expected.synced();
            // Removals become durable with any sync.
            model.retain(|_, expected| !expected.removed);
        }
        Ok(()) => {}
        // The power going in the middle is what the notes are for.
        Err(StorageError::Device { error: DeviceError::PowerLost, .. }) => {}
        Err(_) => expected.vague = true,
    }
    answer
}

fn boxed(disk: &Disk, has_trim: bool) -> Box<dyn Device + Send> {
    if has_trim { Box::new(disk.clone()) } else { Box::new(WithoutTrim::new(disk.clone())) }
}

/// A file is removed and another one written where it lay; the power goes at one request, another
/// one fails. Tells how many requests there were.
fn reuse_of_units(fail: u64, cut: u64, seed: u64) -> u64 {
    let disk = disk(1024, FaultPlan::default());
    let mut volume = DeviceVolume::format(boxed(&disk, false)).unwrap();
    let keeper = volume.create(&name_of(1)).unwrap();
    write_fill(&mut volume, keeper, 0, 8, 7).unwrap();
    volume.sync(keeper, volume.now()).unwrap();
    let old = volume.create(&name_of(2)).unwrap();
    write_fill(&mut volume, old, 0, 600, 0xAB).unwrap();
    volume.sync(old, volume.now()).unwrap();
    volume.remove(old).unwrap();
    let start = disk.lock().submitted_count();
    disk.lock().set_plan(FaultPlan {
        fail_requests: vec![start + fail],
        power_cut_at_request: Some(start + cut),
        torn_sector_count: Some(1),
        unflushed: UnflushedFate::Torn,
        seed,
        ..FaultPlan::default()
    });
    let _ = volume.sync(keeper, volume.now());
    let new = volume.create(&name_of(3));
    if let Ok(new) = new {
        for sector in [0, 100, 30] {
            let _ = write_fill(&mut volume, new, sector, 9, 3);
            let _ = volume.sync(new, volume.now());
        }
    }
    drop(volume);
    let count = disk.lock().submitted_count() - start;
    disk.lock().cut_power();
    disk.lock().power_on();
    disk.lock().set_plan(FaultPlan::default());
    let mut volume = DeviceVolume::open(boxed(&disk, false)).unwrap();
    volume.audit();
    assert_eq!(read_fills(&mut volume, keeper, 0, 9).unwrap(), [7, 7, 7, 7, 7, 7, 7, 7, 0]);
    if let Ok(new) = new {
        let fills = read_fills(&mut volume, new, 0, 128).unwrap();
        assert!(fills.iter().all(|fill| [0, 3].contains(fill)), "invariant 2: {fills:?}");
    }
    count
}

#[test]
fn no_byte_of_a_removed_file_shows_after_a_cut_at_any_request_and_another_failing() {
    let count = reuse_of_units(u64::MAX >> 1, u64::MAX >> 1, 0);
    assert!((10..60).contains(&count), "all of it is tried: {count} requests");
    for cut in 1..=count {
        for fail in (1..cut).chain([u64::MAX >> 1]) {
            for seed in 0..4 {
                reuse_of_units(fail, cut, seed);
            }
        }
    }
}

/// The power goes at request `cut` after this, when any sector that was not flushed is lost or kept.
fn cut_soon(disk: &Disk, cut: u64, unflushed: UnflushedFate, seed: u64) {
    let power_cut_at_request = Some(disk.lock().submitted_count() + cut);
    disk.lock().set_plan(FaultPlan {
        power_cut_at_request,
        torn_sector_count: None,
        unflushed,
        seed,
        ..FaultPlan::default()
    });
}

fn reopen(disk: &Disk, has_trim: bool) -> DeviceVolume {
    let mut device = disk.lock();
    device.cut_power();
    device.power_on();
    device.set_plan(FaultPlan::default());
    drop(device);
    DeviceVolume::open(boxed(disk, has_trim)).unwrap()
}

#[test]
fn a_table_is_written_after_what_it_calls_written_is_durable() {
    let mut arrived_count = 0;
    for (cut, seed) in (1..=4).flat_map(|cut| (0..100).map(move |seed| (cut, seed))) {
        let disk = disk(1024, FaultPlan::default());
        let mut volume = DeviceVolume::format(boxed(&disk, false)).unwrap();
        let old = volume.create("old").unwrap();
        write_fill(&mut volume, old, 0, 600, 0xAB).unwrap();
        volume.sync(old, volume.now()).unwrap();
        volume.remove(old).unwrap();
        let new = volume.create("new").unwrap();
        write_fill(&mut volume, new, 0, 4, 3).unwrap();
        cut_soon(&disk, cut, UnflushedFate::Torn, seed);
        let _ = volume.sync(new, volume.now());
        drop(volume);
        let mut volume = reopen(&disk, false);
        if volume.byte_count(new) > 0 {
            arrived_count += 1;
            let fills = read_fills(&mut volume, new, 0, 4).unwrap();
            assert_eq!(fills, [3; 4], "invariant 2: cut at {cut}, seed {seed}");
        }
    }
    assert!((1..400).contains(&arrived_count), "the table arrived {arrived_count} times");
}

#[test]
fn room_of_a_removed_file_is_not_written_before_the_removal_is_durable() {
    let (mut kept_count, mut gone_count) = (0, 0);
    for cut in 1..80 {
        let disk = disk(1024, FaultPlan::default());
        let mut volume = DeviceVolume::format(boxed(&disk, true)).unwrap();
        let (old, new) = (volume.create("old").unwrap(), volume.create("new").unwrap());
        write_fill(&mut volume, old, 0, 600, 0xAB).unwrap();
        volume.sync(old, volume.now()).unwrap();
        cut_soon(&disk, cut, UnflushedFate::Kept, cut);
        volume.remove(old).unwrap();
        // There is room enough at first, and none in the end but that of the file that went.
        let _ = (0..).try_for_each(|step| write_fill(&mut volume, new, 8 * step, 8, 3));
        drop(volume);
        let mut volume = reopen(&disk, true);
        if volume.byte_count(old) > 0 {
            kept_count += 1;
            assert_eq!(read_fills(&mut volume, old, 0, 600).unwrap(), [0xAB; 600], "cut at {cut}");
        } else {
            gone_count += 1;
        }
    }
    assert!(kept_count > 10 && gone_count > 10, "{kept_count} kept, {gone_count} gone");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn what_was_synced_survives_a_power_cut_at_any_request(
        steps in proptest::collection::vec((0_usize..4, step()), 1..40),
        (cut_after, failing) in (0_u64..150, 0_u64..200),
        (has_trim, fate, torn, seed) in (any::<bool>(), 0_u8..3, 0_u32..12, 0_u64..1000),
    ) {
        let disk = disk(2048, FaultPlan::default());
        let mut volume = DeviceVolume::format(boxed(&disk, has_trim)).unwrap();
        let start = disk.lock().submitted_count();
        let unflushed =
            [UnflushedFate::Dropped, UnflushedFate::Kept, UnflushedFate::Torn][usize::from(fate)];
        disk.lock().set_plan(FaultPlan {
            fail_requests: vec![start + 1 + failing, start + 2 + failing],
            power_cut_at_request: Some(start + 1 + cut_after),
            torn_sector_count: Some(torn),
            unflushed,
            seed,
            ..FaultPlan::default()
        });
        let mut model = BTreeMap::new();
        for (name, step) in &steps {
            let answer = run_step(&mut volume, &mut model, *name, step);
            volume.audit();
            let what = answer.err();
            if matches!(what, Some(StorageError::Device { error: DeviceError::PowerLost, .. })) {
                break;
            }
        }
        drop(volume);
        disk.lock().cut_power();
        disk.lock().power_on();
        disk.lock().set_plan(FaultPlan::default());
        let mut volume = DeviceVolume::open(boxed(&disk, has_trim)).unwrap();
        volume.audit();
        for (&file, expected) in &model {
            if volume.files().iter().any(|&(known, _)| known == file) {
                expected.check(&mut volume, file);
            } else {
                prop_assert!(expected.removed, "rule 3: file {} is gone", file.0);
            }
        }
        // It goes on from there as a volume that never lost power.
        let lengths = |volume: &DeviceVolume| -> Vec<u64> {
            volume.files().iter().map(|&(file, _)| volume.byte_count(file)).collect()
        };
        for (file, _) in volume.files() {
            write_fill(&mut volume, file, 50, 9, 3).unwrap();
            volume.sync(file, volume.now()).unwrap();
        }
        let before = lengths(&volume);
        drop(volume);
        disk.lock().cut_power();
        disk.lock().power_on();
        prop_assert_eq!(before, lengths(&open(&disk).unwrap()));
    }
}
