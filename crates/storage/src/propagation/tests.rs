//! What every kind has to keep, whatever it does: what it says of its places is so, a cut leaves whole
//! pages, its files and media are its own.

use super::shared_flash::SharedFlash;
use super::*;
use crate::btree::{self, Tree};
use crate::page::{page_is_blank, page_is_sound};
use crate::tier::TierConfig;
use crate::volume::testing::SharedDevice;
use crate::volume::{DeviceVolume, IoOwner};
use crate::{Database, Engine, Settings, Volume, Volumes};
use nandu_base::{Nanos, Rng};
use nandu_device::{
    Device, FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice, Operation, RawFlash,
    Request, UnflushedFate,
};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

type Disk = SharedDevice<FaultyDevice<MemoryDevice>>;

const PAGE_BYTES: u32 = 1024;
const PAGE_COUNT: u32 = 24;

fn disk() -> Disk {
    let geometry = Geometry { sector_bytes: 512, sector_count: 8 << 10 };
    let memory = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    SharedDevice::new(FaultyDevice::new(memory, FaultPlan::default()))
}

fn io_on(disk: &Disk, is_new: bool) -> Result<Io, StorageError> {
    Ok(Io::new(volume_on(disk, is_new)?, Arc::default()))
}

fn volume_on(disk: &Disk, is_new: bool) -> Result<Box<dyn Volume>, StorageError> {
    let device = Box::new(disk.clone());
    Ok(Box::new(match is_new {
        true => DeviceVolume::format(device)?,
        false => DeviceVolume::open(device)?,
    }))
}

/// What a database of a kind lies on, beyond restarts.
struct Ground {
    data: Disk,
    others: Vec<(&'static str, OtherGround)>,
}

enum OtherGround {
    Disk(Disk),
    Chips(SharedFlash),
}

impl Ground {
    fn of(kind: PropagationKind) -> Self {
        let other = |&(name, medium): &(&'static str, MediumKind)| match medium {
            MediumKind::Volume => (name, OtherGround::Disk(disk())),
            MediumKind::RawFlash => (name, OtherGround::Chips(SharedFlash::new())),
        };
        Self { data: disk(), others: kind.other_media().iter().map(other).collect() }
    }

    /// The same, with volumes beside the data that want buffers on multiples of so many bytes.
    fn with_buffer_alignment(mut self, bytes: u32) -> Self {
        for (_, ground) in &mut self.others {
            if let OtherGround::Disk(disk) = ground {
                *disk = disk.clone().with_buffer_alignment(bytes);
            }
        }
        self
    }

    fn others(&self, is_new: bool) -> BTreeMap<String, OtherMedium> {
        let medium = |(name, ground): &(&str, OtherGround)| {
            let medium = match ground {
                OtherGround::Disk(disk) => OtherMedium::Volume(volume_on(disk, is_new).unwrap()),
                OtherGround::Chips(chips) => OtherMedium::RawFlash(Box::new(chips.clone())),
            };
            ((*name).to_owned(), medium)
        };
        self.others.iter().map(medium).collect()
    }

    fn volumes(&self, is_new: bool) -> Volumes {
        let data = volume_on(&self.data, is_new).unwrap();
        Volumes { others: self.others(is_new), ..Volumes::new(data, None) }
    }

    /// Beside `data`, a volume on the disk of the data.
    fn media(&self, data: &Io, is_new: bool) -> Media {
        Media::with_clock(data.clone(), self.others(is_new), &Arc::default())
    }

    /// Requests to each medium so far, and how many of them wrote: the data first.
    fn request_counts(&self) -> Vec<(u64, u64)> {
        let of_disk = |disk: &Disk| {
            let disk = disk.lock();
            (disk.submitted_count(), disk.counters().writes.request_count)
        };
        let other = |(_, ground): &(&str, OtherGround)| match ground {
            OtherGround::Disk(disk) => of_disk(disk),
            OtherGround::Chips(chips) => {
                let programmed = chips.counters().commands.programmed_pages();
                (chips.submitted_count(), programmed)
            }
        };
        let data = of_disk(&self.data);
        std::iter::once(data).chain(self.others.iter().map(other)).collect()
    }

    /// Has a medium lose its power at one of the requests that come, counted from 1.
    fn cut_at(&self, medium: usize, at: u64, seed: u64) {
        let at = self.request_counts()[medium].0 + at;
        let plan = FaultPlan {
            power_cut_at_request: Some(at),
            torn_sector_count: Some(1),
            unflushed: UnflushedFate::Torn,
            seed,
            ..FaultPlan::default()
        };
        match medium.checked_sub(1).map(|other| &self.others[other].1) {
            None => self.data.lock().set_plan(plan),
            Some(OtherGround::Disk(disk)) => disk.lock().set_plan(plan),
            Some(OtherGround::Chips(chips)) => chips.cut_at(at),
        }
    }

    /// Cuts the power of all media, where that did not happen, and restores it.
    fn restart(&self) {
        restart(&self.data);
        for (_, ground) in &self.others {
            match ground {
                OtherGround::Disk(disk) => restart(disk),
                OtherGround::Chips(chips) => chips.restart(),
            }
        }
    }
}

fn restart(disk: &Disk) {
    let mut device = disk.lock();
    device.cut_power();
    while device.next_completion(Nanos::MAX).is_some() {}
    device.power_on();
    device.set_plan(FaultPlan::default());
}

/// Small, so that everything happens often.
fn propagation(kind: PropagationKind) -> PropagationSettings {
    let log_structured = LogStructuredSettings {
        segment_bytes: 16 << 10,
        write_bytes: 8 << 10,
        spare_segment_count: 7,
        reserve_segment_count: 4,
        checkpoint_segment_count: 3,
        ..LogStructuredSettings::default()
    };
    let page_differential = PageDifferentialSettings::small(PAGE_BYTES, 1);
    let in_page_logging = InPageLoggingSettings {
        log_region_bytes: 2048,
        log_sector_bytes: 256,
        ..InPageLoggingSettings::default()
    };
    let page_differential_chips = PageDifferentialChipsSettings::small(PAGE_BYTES, 1);
    let tiered = TierConfig { slot_count: 16, group_page_count: 4, ..TierConfig::default() };
    PropagationSettings {
        kind,
        log_structured,
        page_differential,
        in_page_logging,
        page_differential_chips,
        tiered,
        ..PropagationSettings::default()
    }
}

fn config(kind: PropagationKind) -> PropagationConfig {
    propagation(kind).config()
}

/// The data, and new media for whatever else the kind needs.
fn media(kind: PropagationKind, data: &Io) -> Media {
    Ground::of(kind).media(data, true)
}

fn build(kind: PropagationKind, media: Media, copies: Option<DoubleWriteFile>) -> Placement {
    config(kind).build(PAGE_BYTES, media, copies, false).unwrap().0
}

fn page(file: FileId, number: u32, fill: u8) -> PageWrite {
    let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
    let half = buffer.len() / 2;
    buffer[..100].fill(fill);
    buffer[half..half + 100].fill(fill);
    let (address, changed) = (PageAddress::new(file, number), ChangedRanges::default());
    PageWrite { address, buffer, changed, is_new: false }
}

fn read(placement: &mut Placement, address: PageAddress) -> IoBuffer {
    placement.start_read(address, IoBuffer::zeroed(PAGE_BYTES as usize)).unwrap();
    let read = placement.next_read().expect("it was begun");
    read.result.unwrap();
    read.buffer
}

fn read_at(io: &Io, file: FileId, offset_bytes: u64) -> IoBuffer {
    let buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
    let ticket = io.submit(IoOwner::Operator, file, Operation::Read, offset_bytes, buffer).unwrap();
    let done = io.wait(ticket);
    done.result.unwrap();
    done.buffer.unwrap()
}

/// The engine makes room where a kind needs it.
fn make_file(io: &Io, placement: &Placement, name: &str) -> FileId {
    let file = io.create(name).unwrap();
    if placement.get().needs_room_in_files() {
        io.set_byte_count(file, u64::from(PAGE_COUNT * PAGE_BYTES)).unwrap();
    }
    file
}

/// The places that pages had, each with the page, and the pages as they are now.
#[derive(Default)]
struct Seen {
    places: BTreeMap<(FileId, u64), PageAddress>,
    fills: BTreeMap<PageAddress, u8>,
}

impl Seen {
    /// Checks what the propagation says of the place of each page.
    fn check(&mut self, placement: &mut Placement, io: &Io, told: PropagationKind) {
        placement.audit();
        for (&address, &fill) in &self.fills {
            let found = read(placement, address);
            assert!(page_is_sound(&found, address) && found[0] == fill, "{told:?}: {address}");
            let answers = PlaceAnswers::of(placement.get());
            let own = PagePlace::Whole {
                file: address.file,
                offset_bytes: address.offset_bytes(PAGE_BYTES),
            };
            let place = placement.get().locate(address);
            assert!(!answers.places_by_address || place == Some(own), "{told:?}: {address}");
            if answers.lets_read_past_pool {
                let lies = read_at(io, address.file, address.offset_bytes(PAGE_BYTES));
                assert!(lies[..] == found[..], "{told:?}: {address}");
            }
            let Some(PagePlace::Whole { file, offset_bytes }) = place else { continue };
            let before = self.places.insert((file, offset_bytes), address);
            let is_kept = before.is_none_or(|before| before == address);
            assert!(!answers.keeps_places || is_kept, "{told:?}: {address} has another's place");
            let is_blank = page_is_blank(&read_at(io, file, offset_bytes));
            assert!(!answers.leaves_blank_what_was_never_written || !is_blank, "{address}");
        }
    }
}

#[test]
fn what_a_kind_says_of_its_places_is_so() {
    for &kind in PropagationKind::ALL {
        let io = io_on(&disk(), true).unwrap();
        let mut placement = build(kind, media(kind, &io), None);
        let file = make_file(&io, &placement, "table");
        let mut seen = Seen::default();
        let mut rng = Rng::new(5);
        for round in 1..=30 {
            let is_written = |_: &u32| rng.below(3) > 0;
            let numbers: Vec<u32> = (1..=PAGE_COUNT).filter(is_written).collect();
            let mut pages: Vec<PageWrite> =
                numbers.iter().map(|&number| page(file, number, round)).collect();
            placement.write(&mut pages).unwrap();
            placement.sync().unwrap();
            seen.fills.extend(pages.iter().map(|page| (page.address, round)));
            if placement.get().hears_of_clean_evictions() {
                let leave = pages.iter().filter(|page| page.address.page % 3 == 0);
                leave
                    .for_each(|page| placement.get_mut().evicted_clean(page.address, &page.buffer));
            }
            seen.check(&mut placement, &io, kind);
        }
        let length = || io.byte_count(file) / u64::from(PAGE_BYTES);
        let last = seen.fills.keys().last().unwrap().page;
        let counts_pages = placement.get().counts_pages_by_length();
        assert!(!counts_pages || length() >= u64::from(last), "{kind:?}");
        placement.get_mut().truncate(file, 5).unwrap();
        seen.fills.retain(|address, _| address.page < 5);
        assert!(!counts_pages || length() == 4, "{kind:?}");
        seen.check(&mut placement, &io, kind);
    }
}

/// The pages of a file as rounds of writes leave them, until the power goes.
struct Rounds<'a> {
    placement: &'a mut Placement,
    io: &'a Io,
    file: FileId,
    /// The fill that is durable for certain, by page.
    durable: Vec<u8>,
    /// What the next write of a page has to cover beside what it changes, of those that are there.
    left_over: BTreeMap<u32, ChangedRanges>,
    rng: Rng,
}

/// Before this round pages from here on are cut off.
const CUT_OFF: (u8, u32) = (4, 17);
/// Before this one a second file comes and goes.
const COMES_AND_GOES: u8 = 5;

impl<'a> Rounds<'a> {
    fn new(placement: &'a mut Placement, io: &'a Io, file: FileId) -> Self {
        let durable = vec![0; PAGE_COUNT as usize + 1];
        Self { placement, io, file, durable, left_over: BTreeMap::new(), rng: Rng::new(9) }
    }

    fn run(&mut self) -> Result<(), StorageError> {
        (1..=6).try_for_each(|round| {
            if round == CUT_OFF.0 {
                self.cut_off(CUT_OFF.1)?;
            }
            if round == COMES_AND_GOES {
                self.come_and_go()?;
            }
            let written = self.write(round)?;
            self.leave_and_read(&written)
        })
    }

    fn write(&mut self, round: u8) -> Result<Vec<PageWrite>, StorageError> {
        let Self { placement, file, durable, left_over, rng, .. } = self;
        let numbers = (1..=PAGE_COUNT).filter(|_| rng.below(3) > 0);
        let write = |number| {
            let mut write = page(*file, number, round);
            if let Some(left_over) = left_over.get(&number) {
                write.changed = left_over.clone();
                let half = PAGE_BYTES / 2;
                [0..100, half..half + 100].into_iter().for_each(|it| write.changed.add(it));
            }
            write
        };
        let mut pages: Vec<PageWrite> = numbers.map(write).collect();
        placement.write(&mut pages)?;
        placement.sync()?;
        for write in &pages {
            left_over.insert(write.address.page, write.changed.clone());
            durable[write.address.page as usize] = round;
        }
        Ok(pages)
    }

    /// Some leave the pool as they are, and some of all are wanted again.
    fn leave_and_read(&mut self, pages: &[PageWrite]) -> Result<(), StorageError> {
        let placement = &mut *self.placement;
        for page in pages.iter().filter(|page| page.address.page % 3 == 0) {
            if placement.get().hears_of_clean_evictions() {
                placement.get_mut().evicted_clean(page.address, &page.buffer);
            }
        }
        for page in pages.iter().filter(|page| page.address.page % 4 == 0) {
            let address = page.address;
            placement.start_read(address, IoBuffer::zeroed(PAGE_BYTES as usize))?;
            let read = placement.next_read().expect("it was begun");
            read.result?;
            assert!(page_is_sound(&read.buffer, address) && read.buffer[0] == page.buffer[0]);
        }
        Ok(())
    }

    fn cut_off(&mut self, first_page: u32) -> Result<(), StorageError> {
        self.durable[first_page as usize..].fill(0);
        self.left_over.retain(|&number, _| number < first_page);
        self.placement.get_mut().truncate(self.file, first_page)?;
        self.make_room(self.file)
    }

    fn come_and_go(&mut self) -> Result<(), StorageError> {
        let second = self.io.create("second")?;
        self.make_room(second)?;
        let mut pages: Vec<PageWrite> = (1..=3).map(|number| page(second, number, 1)).collect();
        self.placement.write(&mut pages)?;
        self.placement.sync()?;
        self.io.remove(second)?;
        self.placement.get_mut().truncate(second, 1)
    }

    fn make_room(&self, file: FileId) -> Result<(), StorageError> {
        match self.placement.get().needs_room_in_files() {
            true => self.io.set_byte_count(file, u64::from(PAGE_COUNT * PAGE_BYTES)),
            false => Ok(()),
        }
    }
}

/// Runs with the power of a medium cut at a request, if at any, and counts the requests and the writes that
/// each medium got. The double write is the engine's: it has one for any kind that says it overwrites pages.
fn cut(kind: PropagationKind, at: Option<(usize, u64)>, seed: u64) -> Vec<(u64, u64)> {
    let ground = Ground::of(kind);
    let io = io_on(&ground.data, true).unwrap();
    let copies =
        DoubleWriteFile { file: io.create("double-write").unwrap(), lap_bytes: 40 << 10, epoch: 1 };
    io.set_byte_count(copies.file, copies.lap_bytes).unwrap();
    io.sync(copies.file).unwrap();
    let mut placement = build(kind, ground.media(&io, true), Some(copies));
    let file = make_file(&io, &placement, "table");
    io.sync(file).unwrap();
    let before = ground.request_counts();
    if let Some((medium, at)) = at {
        ground.cut_at(medium, at, seed);
    }
    let mut rounds = Rounds::new(&mut placement, &io, file);
    let result = rounds.run();
    let durable = rounds.durable;
    let counts = ground.request_counts().into_iter().zip(before);
    let counts = counts.map(|(after, before)| (after.0 - before.0, after.1 - before.1)).collect();
    drop((placement, io));
    if at.is_none() {
        assert_eq!(result, Ok(()), "{kind:?}");
        return counts;
    }
    ground.restart();
    let io = io_on(&ground.data, false).unwrap();
    let copies = DoubleWriteFile { epoch: 2, ..copies };
    let mut placement = build(kind, ground.media(&io, false), Some(copies));
    for number in 1..=PAGE_COUNT {
        let address = PageAddress::new(file, number);
        let found = read(&mut placement, address);
        let is_whole = page_is_sound(&found, address) || page_is_blank(&found);
        assert!(is_whole, "{kind:?} cut at {at:?}: {address} is torn");
        assert!(found[0] >= durable[number as usize], "{kind:?} cut at {at:?}: {address}");
    }
    counts
}

#[test]
fn no_kind_has_to_ask_for_its_pages_to_be_whole_after_a_cut() {
    for &kind in PropagationKind::ALL {
        let counts = cut(kind, None, 0);
        for (medium, &(request_count, write_count)) in counts.iter().enumerate() {
            assert!(write_count > 1, "{kind:?}: {write_count} writes to medium {medium} are cut");
            (1..=request_count).for_each(|at| _ = cut(kind, Some((medium, at)), at));
        }
        let request_count: u64 = counts.iter().map(|(requests, _)| requests).sum();
        assert!(request_count > 12, "{kind:?}: {request_count} requests are worth cutting");
    }
}

#[test]
fn settings_of_a_kind_that_cannot_be_are_refused_before_anything_is_made_or_opened() {
    // What a tier has was settled when the database was made.
    let kinds = [
        (PropagationKind::LogStructured, "checkpoint_segment_count is 0"),
        (PropagationKind::InPageLogging, "reserve_unit_count 1 is not from 2"),
    ];
    for (kind, told) in kinds {
        let mut bad = settings(kind);
        bad.propagation.log_structured.checkpoint_segment_count = 0;
        bad.propagation.in_page_logging.reserve_unit_count = 1;
        let ground = Ground::of(kind);
        let answers = |is_new: bool| match is_new {
            true => Engine::create(ground.volumes(true), &bad, 1).map(drop),
            false => Engine::open(ground.volumes(false), &bad).map(drop),
        };
        let error = bad.check().unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
        assert_eq!(answers(true).unwrap_err().to_string(), error);
        assert!(io_on(&ground.data, false).unwrap().files().is_empty(), "{kind:?}");
        let engine = Engine::create(ground.volumes(true), &settings(kind), 1).unwrap();
        engine.close().unwrap();
        let files = || io_on(&ground.data, false).unwrap().files();
        let before = files();
        assert_eq!(answers(false).unwrap_err().to_string(), error);
        assert_eq!(files(), before, "{kind:?}");
        Engine::open(ground.volumes(false), &settings(kind)).unwrap().0.close().unwrap();
    }
}

#[test]
fn a_medium_too_few_or_too_many_is_told_by_its_name() {
    for &kind in PropagationKind::ALL {
        let io = io_on(&disk(), true).unwrap();
        let answer = |media: Media| {
            let built = config(kind).build(PAGE_BYTES, media, None, false);
            built.map(drop).map_err(|error| error.to_string())
        };
        let ground = Ground::of(kind);
        let all = || ground.media(&io, true);
        let flash = || FlashIo::new(Box::new(SharedFlash::new()), Arc::default());
        let alone = kind.check_needs_data_alone("a bench").map_err(|error| error.to_string());
        for &(name, medium) in kind.other_media() {
            let told = alone.as_ref().unwrap_err();
            assert!(told.contains("a bench has nothing but one volume"), "{told}");
            assert!(told.contains(&format!("{} needs ", kind.name())), "{told}");
            assert!(told.contains(&format!(" `{name}` beside it; choose another")), "{told}");
            let has_drives = told.contains("take a simulated drive, which has chips");
            assert_eq!(has_drives, medium == MediumKind::RawFlash, "{told}");
            let told = answer(Media::of_data(io.clone())).unwrap_err();
            let (wanted, another) = match medium {
                MediumKind::Volume => ("a volume", Medium::RawFlash(flash())),
                MediumKind::RawFlash => ("raw flash", Medium::Volume(io.clone())),
            };
            assert!(told.contains(&format!("{wanted} `{name}` is missing")), "{told}");
            let told = answer(all().with(name, another)).unwrap_err();
            assert!(told.contains(&format!(", not {wanted}")), "{told}");
        }
        for (what, shelf) in
            [("a volume", Medium::Volume(io.clone())), ("raw flash", Medium::RawFlash(flash()))]
        {
            let told = answer(all().with("shelf", shelf)).unwrap_err();
            assert!(told.contains(&format!("no use for {what} `shelf`")), "{told}");
        }
        assert_eq!(answer(media(kind, &io)), Ok(()), "{kind:?}");
        assert_eq!(alone.is_ok(), kind.other_media().is_empty(), "{kind:?}");
    }
}

#[test]
fn a_kind_makes_and_removes_no_file_that_it_does_not_list() {
    for &kind in PropagationKind::ALL {
        let io = io_on(&disk(), true).unwrap();
        let table = io.create("table").unwrap();
        drop(build(kind, media(kind, &io), None));
        let made: Vec<String> = io.files().into_iter().map(|(_, name)| name).collect();
        let listed = kind.files();
        assert_eq!(made.len(), 1 + listed.len(), "{kind:?} makes what it lists: {made:?}");
        assert!(listed.iter().all(|name| made.iter().any(|made| made == name)), "{made:?}");
        let media = media(kind, &io).for_kind(kind).unwrap();
        for &(name, medium) in kind.other_media() {
            if medium == MediumKind::Volume {
                let other = media.volume(name).unwrap();
                let what = "what says whose a volume is is no propagation's";
                assert!(
                    catch_unwind(AssertUnwindSafe(|| other.create("owner"))).is_err(),
                    "{what}"
                );
            }
        }
        let own = media.data();
        assert!(catch_unwind(AssertUnwindSafe(|| own.create("other"))).is_err());
        assert!(
            catch_unwind(AssertUnwindSafe(|| own.create_logged("other", crate::Lsn(1)))).is_err()
        );
        assert!(catch_unwind(AssertUnwindSafe(|| own.remove(table))).is_err());
        assert_eq!(io.files().len(), made.len(), "nothing came and nothing went");
        for (file, _) in io.files().into_iter().filter(|(file, _)| *file != table) {
            own.remove(file).unwrap();
        }
    }
}

#[test]
fn files_of_all_kinds_have_names_of_their_own() {
    let mut names: Vec<&str> =
        PropagationKind::ALL.iter().flat_map(|it| it.files()).copied().collect();
    assert!(names.iter().all(|name| PropagationKind::is_own_file(name)));
    assert!(names.iter().all(|name| crate::volume::FileName::new(name).is_ok()));
    let count = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), count);
}

fn settings(kind: PropagationKind) -> Settings {
    Settings {
        page_bytes: PAGE_BYTES,
        pool_bytes: 40 << 10,
        log_bytes: 256 << 10,
        checkpoint_bytes: 32 << 10,
        propagation: propagation(kind),
        ..Settings::default()
    }
}

#[test]
fn files_of_every_kind_outlive_the_opening_of_a_database_of_any_kind() {
    let kinds = PropagationKind::ALL;
    for (&kind, &other) in kinds.iter().flat_map(|kind| kinds.iter().map(move |it| (kind, it))) {
        let ground = Ground::of(kind);
        let database = Database::create(ground.volumes(true), &settings(kind), 1).unwrap();
        database.close().unwrap();
        let io = io_on(&ground.data, false).unwrap();
        if other != kind {
            drop(build(other, media(other, &io), None));
        }
        let file = io.create("left-over").unwrap();
        io.sync(file).unwrap();
        let names = |io: &Io| -> BTreeSet<String> {
            io.files().into_iter().map(|(_, name)| name).collect()
        };
        let mut expected = names(&io);
        assert!(expected.remove("left-over"), "what is nobody's goes");
        drop(io);
        let (database, _) = Database::open(ground.volumes(false), &settings(kind)).unwrap();
        database.close().unwrap();
        assert_eq!(
            names(&io_on(&ground.data, false).unwrap()),
            expected,
            "{other:?} beside {kind:?}"
        );
    }
}

#[test]
fn no_file_of_a_table_gets_the_name_of_one_that_some_propagation_makes() {
    for &kind in PropagationKind::ALL {
        let volumes = Ground::of(kind).volumes(true);
        let mut engine = Engine::create(volumes, &settings(kind), 1).unwrap();
        let listed = PropagationKind::ALL.iter().flat_map(|kind| kind.files()).copied();
        for name in listed.chain(["log", "double-write", "settings"]) {
            let told = engine.create_file(name).unwrap_err().to_string();
            assert!(told.contains("only the engine uses"), "{kind:?}: {told}");
        }
    }
}

#[test]
fn a_database_lies_on_all_the_media_that_its_propagation_needs() {
    for &kind in PropagationKind::ALL {
        let ground = Ground::of(kind);
        for &(name, _) in kind.other_media() {
            let mut poor = ground.volumes(true);
            poor.others.remove(name);
            let refused = Engine::create(poor, &settings(kind), 1).unwrap_err().to_string();
            assert!(refused.contains(&format!("`{name}` is missing")), "{refused}");
            let files = io_on(&ground.data, false).unwrap().files();
            assert!(files.is_empty(), "{kind:?} made {files:?} in vain");
        }
        run_database(kind, &ground);
    }
}

#[test]
fn pages_are_aligned_in_memory_for_the_strictest_medium() {
    let kinds = PropagationKind::ALL.iter().copied();
    for kind in kinds.filter(|kind| !kind.other_media().is_empty()) {
        let ground = || Ground::of(kind).with_buffer_alignment(STRICT_BYTES);
        run_database(kind, &ground());
        // Those that the double write reads to see whether they are torn, too.
        let ground = ground();
        let io = io_on(&ground.data, true).unwrap();
        let copies = io.create("double-write").unwrap();
        let copies = DoubleWriteFile { file: copies, lap_bytes: 40 << 10, epoch: 1 };
        let mut placement = build(kind, ground.media(&io, true), Some(copies));
        let file = make_file(&io, &placement, "table");
        let mut pages: Vec<PageWrite> = (1..=4).map(|number| page(file, number, 7)).collect();
        placement.write(&mut pages).unwrap();
        if placement.get().hears_of_clean_evictions() {
            let propagation = placement.get_mut();
            pages.iter().for_each(|page| propagation.evicted_clean(page.address, &page.buffer));
        }
        assert_eq!(placement.recover(), Ok(0), "{kind:?}");
    }
}

/// No allocator gives a small buffer such an alignment by chance.
const STRICT_BYTES: u32 = 64 << 10;

/// Fills a table, with more pages than the pool has, and opens it after a cut.
fn run_database(kind: PropagationKind, ground: &Ground) {
    let mut engine = Engine::create(ground.volumes(true), &settings(kind), 1).unwrap();
    let file = engine.create_file("rows.tree").unwrap();
    engine.begin().unwrap();
    engine.act(|pages| Tree::create(pages, file)).unwrap();
    engine.commit().unwrap();
    let mut rng = Rng::new(1);
    let mut rows = BTreeMap::new();
    for round in 0..120_u8 {
        engine.begin().unwrap();
        for _ in 0..10 {
            let (key, value) = (rng.below(700).to_be_bytes().to_vec(), vec![round; 150]);
            engine.act(|pages| upsert(pages, file, &key, &value)).unwrap();
            rows.insert(key, value);
        }
        engine.commit().unwrap();
        // Many leave the pool unchanged.
        assert_eq!(contents(&engine, file), rows, "{kind:?}, round {round}");
    }
    engine.audit();
    let pool = engine.pool_counters();
    assert!(pool.eviction_count > pool.write_count, "{kind:?}: {pool:?}");
    engine.log().flush().unwrap();
    drop(engine);
    ground.restart();
    let (engine, report) = Engine::open(ground.volumes(false), &settings(kind)).unwrap();
    assert!(!report.was_closed);
    assert_eq!(contents(&engine, file), rows, "{kind:?} after a restart");
    engine.close().unwrap();
}

fn upsert(
    pages: &mut crate::engine::Action<'_>,
    file: FileId,
    key: &[u8],
    value: &[u8],
) -> Result<(), StorageError> {
    let mut undo = pages.begin_undo(crate::engine::StructureKind::Tree, file);
    Tree::at(file).upsert(pages, key, value, &mut undo)?;
    pages.set_undo(undo);
    Ok(())
}

fn contents(engine: &Engine, file: FileId) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let everything = (std::ops::Bound::Unbounded, std::ops::Bound::Unbounded);
    let mut scan = Tree::at(file).scan(everything, btree::Direction::Forward);
    let mut rows = BTreeMap::new();
    while let Some((key, value)) = scan.next(engine).unwrap() {
        rows.insert(key.to_vec(), value.to_vec());
    }
    rows
}

mod owners;
mod tiers;
