//! A tier above pages in their places: what is read is the newest, what was synced outlives any cut, and
//! tests like these find it where one of the rules is broken.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::super::tiered::{BUG, Bug};
use super::*;
use crate::tier::TierPolicyKind;

const KIND: PropagationKind = PropagationKind::Tiered;
/// So many times the power goes and comes back.
const LIFE_COUNT: u32 = 3;
const STEP_COUNT: u32 = 60;
/// Pages of three extents.
const PAGES: u32 = 72;
const FILE_BYTES: u64 = PAGES as u64 * PAGE_BYTES as u64;

/// A tier that lives through power cuts, and what its pages may be.
struct Lives {
    ground: Ground,
    config: TierConfig,
    /// Where some pages go past the tier, so that a cut may tear them.
    copies: Option<DoubleWriteFile>,
    file: FileId,
    rng: Rng,
    /// By page: what a sync made durable, what is to be read, what was ever written.
    durable: Vec<u8>,
    newest: Vec<u8>,
    highest: Vec<u8>,
    next_fill: u8,
}

/// What must not be.
#[derive(Debug)]
struct Violation(String);

impl Lives {
    fn new(seed: u64) -> (Self, Io, Placement) {
        let mut rng = Rng::for_part(seed, "tier");
        let policies = TierPolicyKind::ALL;
        let config = TierConfig {
            policy: policies[rng.below(policies.len() as u64) as usize],
            slot_count: 8 + rng.below(24) as u32,
            group_page_count: 1 + rng.below(5) as u32,
            writes_through: rng.below(6) == 0,
        };
        let ground = Ground::of(KIND);
        let io = io_on(&ground.data, true).unwrap();
        let file = io.create("double-write").unwrap();
        let copies = DoubleWriteFile { file, lap_bytes: 40 << 10, epoch: 1 };
        io.set_byte_count(file, copies.lap_bytes).unwrap();
        io.sync(file).unwrap();
        let goes_past = matches!(config.policy, TierPolicyKind::Tac | TierPolicyKind::LazyCleaning);
        let copies = (goes_past || config.writes_through).then_some(copies);
        let media = ground.media(&io, true);
        let placement = build_with(&config, media, copies, false).unwrap();
        let file = io.create("table").unwrap();
        io.set_byte_count(file, FILE_BYTES).unwrap();
        io.sync(file).unwrap();
        let pages = || vec![0; PAGES as usize + 1];
        let (durable, newest, highest) = (pages(), pages(), pages());
        let lives =
            Self { ground, config, copies, file, rng, durable, newest, highest, next_fill: 1 };
        (lives, io, placement)
    }

    fn any_page(&mut self) -> u32 {
        let mut any = || self.rng.below(u64::from(PAGES));
        1 + any().min(any()) as u32
    }

    /// One step of whoever has pages; an error of the device ends this life.
    fn step(
        &mut self,
        placement: &mut Placement,
        io: &Io,
    ) -> Result<Result<(), StorageError>, Violation> {
        let done = match self.rng.below(20) {
            0..8 => self.write(placement),
            8..12 => self.leave(placement),
            12..17 => return self.read(placement),
            17..19 => placement.sync().map(|()| self.durable = self.newest.clone()),
            _ => self.cut(placement, io),
        };
        Ok(done)
    }

    fn write(&mut self, placement: &mut Placement) -> Result<(), StorageError> {
        let numbers: BTreeSet<u32> = (0..=self.rng.below(6)).map(|_| self.any_page()).collect();
        let fill = self.next_fill;
        self.next_fill += 1;
        let mut pages: Vec<PageWrite> =
            numbers.iter().map(|&number| page(self.file, number, fill)).collect();
        numbers.iter().for_each(|&number| self.highest[number as usize] = fill);
        placement.write(&mut pages)?;
        numbers.iter().for_each(|&number| self.newest[number as usize] = fill);
        Ok(())
    }

    fn leave(&mut self, placement: &mut Placement) -> Result<(), StorageError> {
        let number = self.any_page();
        let fill = self.newest[number as usize];
        if fill > 0 {
            let left = page(self.file, number, fill);
            placement.get_mut().evicted_clean(left.address, &left.buffer);
        }
        Ok(())
    }

    /// Reads a page and perhaps those behind it.
    fn read(&mut self, placement: &mut Placement) -> Result<Result<(), StorageError>, Violation> {
        let first = self.any_page();
        let last = PAGES.min(first + self.rng.below(4) as u32);
        for number in first..=last {
            if let Err(error) = self.read_page(placement, number)? {
                return Ok(Err(error));
            }
        }
        Ok(Ok(()))
    }

    fn read_page(
        &mut self,
        placement: &mut Placement,
        number: u32,
    ) -> Result<Result<(), StorageError>, Violation> {
        let address = PageAddress::new(self.file, number);
        let buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
        if let Err(error) = placement.start_read(address, buffer) {
            return Ok(Err(error));
        }
        let read = placement.next_read().expect("it was begun");
        if let Err(error) = read.result {
            return Ok(Err(error));
        }
        let wanted = self.newest[number as usize];
        let is_whole = page_is_sound(&read.buffer, address) || page_is_blank(&read.buffer);
        // What was cut off may be there again when there is room again.
        match is_whole && (wanted == 0 || read.buffer[0] == wanted) {
            true => Ok(Ok(())),
            false => Err(Violation(format!("{address} is {}, not {wanted}", read.buffer[0]))),
        }
    }

    /// Cuts pages off; or the file goes, with all of them or none, and one comes that gets its number.
    fn cut(&mut self, placement: &mut Placement, io: &Io) -> Result<(), StorageError> {
        let goes = self.rng.below(3) == 0;
        let first = if goes { 1 } else { self.any_page().max(PAGES / 2) };
        match goes {
            true => io.remove(self.file)?,
            false => self.durable[first as usize..].fill(0),
        }
        placement.truncate(self.file, first)?;
        self.durable[first as usize..].fill(0);
        self.newest[first as usize..].fill(0);
        if goes {
            assert_eq!(io.create("table")?, self.file, "its number is free");
        }
        io.set_byte_count(self.file, FILE_BYTES)
    }

    /// Opens what a cut left, or whoever closed it, and looks at every page.
    fn reopen(&mut self, was_closed: bool) -> Result<(Io, Placement), Violation> {
        self.ground.restart();
        let io = io_on(&self.ground.data, false).unwrap();
        if let Some(copies) = &mut self.copies {
            copies.epoch += 1;
        }
        let media = self.ground.media(&io, false);
        let mut placement = build_with(&self.config, media, self.copies, was_closed)
            .map_err(|error| Violation(format!("it is not opened: {error}")))?;
        placement.audit();
        if io.files().iter().all(|(file, _)| *file != self.file) {
            assert_eq!(io.create("table").unwrap(), self.file, "its number is free");
            self.durable.fill(0);
        }
        io.set_byte_count(self.file, FILE_BYTES).unwrap();
        for number in 1..=PAGES {
            let address = PageAddress::new(self.file, number);
            let found = read(&mut placement, address);
            let place = number as usize;
            let is_whole = page_is_sound(&found, address) || page_is_blank(&found);
            if !is_whole || !(self.durable[place]..=self.highest[place]).contains(&found[0]) {
                let (durable, found) = (self.durable[place], found[0]);
                let told = format!("{address} is {found}, and {durable} was durable");
                return Err(Violation(told));
            }
            self.newest[place] = found[0];
        }
        Ok((io, placement))
    }
}

fn build_with(
    config: &TierConfig,
    media: Media,
    copies: Option<DoubleWriteFile>,
    was_closed: bool,
) -> Result<Placement, StorageError> {
    let config = PropagationConfig::Tiered(*config);
    config.build(PAGE_BYTES, media, copies, was_closed).map(|(placement, _)| placement)
}

/// What follows from a seed: lives of a tier, each ended by a cut at some request of some medium, or in order.
fn live(seed: u64) -> Result<(), Violation> {
    let (mut lives, mut io, mut placement) = Lives::new(seed);
    for life in 0..LIFE_COUNT {
        let (medium, at) = (lives.rng.below(2) as usize, 1 + lives.rng.below(120));
        lives.ground.cut_at(medium, at, seed + u64::from(life));
        let mut is_well = true;
        for step in 0..STEP_COUNT {
            is_well = lives.step(&mut placement, &io)?.is_ok();
            if !is_well {
                break;
            }
            if step % 8 == 0 {
                placement.audit();
            }
        }
        let was_closed = is_well && placement.sync().is_ok();
        if was_closed {
            lives.durable = lives.newest.clone();
        }
        drop((placement, io));
        (io, placement) = lives.reopen(was_closed)?;
    }
    Ok(())
}

#[test]
fn what_was_synced_outlives_every_cut_and_what_is_read_is_the_newest() {
    for seed in 0..1000 {
        if let Err(Violation(what)) = live(seed) {
            panic!("seed {seed}: {what}");
        }
    }
}

#[test]
fn each_rule_that_is_broken_is_found_within_a_hundred_seeds() {
    let bugs = [
        Bug::StaleCopyWins,
        Bug::DirtyCopyDropped,
        Bug::MapAheadOfData,
        Bug::BoundSlotReused,
        Bug::WrittenUnbound,
    ];
    for bug in bugs {
        BUG.set(Some(bug));
        let is_found = |seed: &u64| {
            let lived = catch_unwind(AssertUnwindSafe(|| live(*seed)));
            lived.map_or(true, |lived| lived.is_err())
        };
        let found = (0..100).find(is_found);
        BUG.set(None);
        assert!(found.is_some(), "{bug:?} is not found");
    }
}

/// A tier with pages that were changed, and others that left unchanged, synced and closed.
fn filled(config: &TierConfig) -> (Ground, FileId) {
    let ground = Ground::of(KIND);
    let io = io_on(&ground.data, true).unwrap();
    let built = PropagationConfig::Tiered(*config);
    let (mut placement, _) = built.build(PAGE_BYTES, ground.media(&io, true), None, false).unwrap();
    let file = make_file(&io, &placement, "table");
    io.sync(file).unwrap();
    let mut pages: Vec<PageWrite> = (1..=6).map(|number| page(file, number, 7)).collect();
    placement.write(&mut pages).unwrap();
    placement.sync().unwrap();
    (ground, file)
}

fn reopened(ground: &Ground, config: &TierConfig) -> Result<(Io, Placement), StorageError> {
    opened(ground, config, true)
}

/// What a cut of the power left of it.
fn restarted(ground: &Ground, config: &TierConfig) -> Result<(Io, Placement), StorageError> {
    ground.restart();
    opened(ground, config, false)
}

fn opened(
    ground: &Ground,
    config: &TierConfig,
    was_closed: bool,
) -> Result<(Io, Placement), StorageError> {
    let io = io_on(&ground.data, false).unwrap();
    let placement = build_with(config, ground.media(&io, false), None, was_closed)?;
    Ok((io, placement))
}

fn write_each(
    placement: &mut Placement,
    file: FileId,
    mut numbers: std::ops::RangeInclusive<u32>,
    fill: u8,
) -> Result<(), StorageError> {
    numbers.try_for_each(|number| placement.write(&mut [page(file, number, fill)]))
}

/// The disk of the tier.
fn tier_of(ground: &Ground) -> &Disk {
    let OtherGround::Disk(disk) = &ground.others[0].1 else { unreachable!("a tier is a volume") };
    disk
}

/// Writes other bytes over a part of a file of the tier.
fn damage(ground: &Ground, name: &str, offset_bytes: u64) {
    let io = io_on(tier_of(ground), false).unwrap();
    let file = io.files().into_iter().find(|(_, known)| known == name).unwrap().0;
    let mut buffer = IoBuffer::zeroed(512);
    buffer.fill(0xA5);
    let ticket =
        io.submit(IoOwner::Operator, file, Operation::Write, offset_bytes, buffer).unwrap();
    io.wait(ticket).result.unwrap();
    io.sync(file).unwrap();
}

fn config_of(policy: TierPolicyKind, writes_through: bool) -> TierConfig {
    TierConfig { policy, slot_count: 16, group_page_count: 4, writes_through }
}

#[test]
fn a_tier_that_was_closed_is_warm_when_it_is_opened() {
    for kind in TierPolicyKind::ALL {
        for writes_through in [false, true] {
            let config = config_of(kind, writes_through);
            let (ground, file) = filled(&config);
            let (_, mut placement) = reopened(&ground, &config).unwrap();
            let before = ground.data.lock().counters().reads.request_count;
            for number in 1..=6 {
                let found = read(&mut placement, PageAddress::new(file, number));
                assert_eq!(found[0], 7, "{kind}");
            }
            let after = ground.data.lock().counters().reads.request_count;
            assert_eq!(after, before, "{kind}: all were in the tier");
        }
    }
}

#[test]
fn a_damaged_slot_is_refused_if_nothing_else_has_the_page_and_else_passed_over() {
    let back = config_of(TierPolicyKind::FaceGsc, false);
    let (ground, _) = filled(&back);
    damage(&ground, "slots", u64::from(2 * PAGE_BYTES));
    let told = reopened(&ground, &back).map(drop).unwrap_err().to_string();
    assert!(told.contains("slot 2 of the tier") && told.contains("page 3 of file"), "{told}");

    let through = config_of(TierPolicyKind::FaceGsc, true);
    let (ground, file) = filled(&through);
    damage(&ground, "slots", u64::from(2 * PAGE_BYTES));
    let (_, mut placement) = reopened(&ground, &through).unwrap();
    let damaged = PageAddress::new(file, 3);
    assert_eq!(read(&mut placement, damaged)[0], 7, "its place has it");
    // So it is when the damage comes while the tier is open.
    damage(&ground, "slots", u64::from(3 * PAGE_BYTES));
    assert_eq!(read(&mut placement, PageAddress::new(file, 4))[0], 7);
    placement.audit();
}

#[test]
fn a_map_that_is_damaged_or_another_tiers_is_refused() {
    let config = config_of(TierPolicyKind::Lru, false);
    let (ground, _) = filled(&config);
    [0, 4096].iter().for_each(|&at| damage(&ground, "map", at));
    let told = reopened(&ground, &config).map(drop).unwrap_err().to_string();
    assert!(told.contains("neither of its maps is whole"), "{told}");

    let (ground, _) = filled(&config);
    let larger = TierConfig { slot_count: 17, ..config };
    let told = reopened(&ground, &larger).map(drop).unwrap_err().to_string();
    assert!(told.contains("it is of 16 slots"), "{told}");

    let (ground, _) = filled(&config);
    drop(volume_on(tier_of(&ground), true).unwrap());
    let told = reopened(&ground, &config).map(drop).unwrap_err().to_string();
    assert!(told.contains("is empty; hand the right one over"), "{told}");
}

#[test]
fn a_tier_without_slots_is_refused_before_a_database_is_made() {
    let mut bad = settings(KIND);
    bad.propagation.tiered.slot_count = 0;
    let ground = Ground::of(KIND);
    let told = Engine::create(ground.volumes(true), &bad, 1).map(drop).unwrap_err().to_string();
    assert!(told.contains("slot_count is 0"), "{told}");
    assert!(io_on(&ground.data, false).unwrap().files().is_empty());
}

#[test]
fn a_volume_that_is_too_small_for_the_tier_is_refused() {
    let config = TierConfig { slot_count: 1 << 16, ..TierConfig::default() };
    let ground = Ground::of(KIND);
    let io = io_on(&ground.data, true).unwrap();
    let built = PropagationConfig::Tiered(config);
    let answer = built.build(PAGE_BYTES, ground.media(&io, true), None, false).map(drop);
    assert!(matches!(answer, Err(StorageError::NoSpace { .. })), "{answer:?}");
}

#[test]
fn a_tier_that_fails_is_told_and_nothing_synced_is_lost() {
    for kind in TierPolicyKind::ALL {
        let config = config_of(kind, false);
        let (ground, file) = filled(&config);
        let (_, mut placement) = reopened(&ground, &config).unwrap();
        ground.cut_at(1, 1, 3);
        let mut pages = vec![page(file, 2, 9)];
        assert!(placement.write(&mut pages).and_then(|()| placement.sync()).is_err(), "{kind}");
        assert!(placement.write(&mut pages).is_err(), "{kind}: nothing goes on");
        drop(placement);
        ground.restart();
        let (_, mut placement) = reopened(&ground, &config).unwrap();
        for number in 1..=6 {
            let found = read(&mut placement, PageAddress::new(file, number))[0];
            assert!(found == 7 || number == 2 && found == 9, "{kind}: {found}");
        }
    }
}

/// A map that forgets the pages first has only what lies in the places for a file that is there again.
#[test]
fn a_file_that_a_cut_brings_back_has_the_pages_that_were_in_the_tier_alone() {
    let kinds = TierPolicyKind::ALL.into_iter().filter(|kind| *kind != TierPolicyKind::Tac);
    for (kind, first_page) in kinds.flat_map(|kind| [(kind, 1), (kind, 3)]) {
        let config = config_of(kind, false);
        let cuts = [0, 1].into_iter().flat_map(|medium| (1..=12).map(move |at| (medium, at)));
        for (medium, at) in cuts {
            let (ground, file) = filled(&config);
            let (io, mut placement) = reopened(&ground, &config).unwrap();
            ground.cut_at(medium, at, at);
            let removed = if first_page == 1 { io.remove(file) } else { Ok(()) };
            _ = removed.and_then(|()| placement.truncate(file, first_page));
            drop((io, placement));
            let (io, mut placement) = restarted(&ground, &config).unwrap();
            let page_count = (io.byte_count(file) / u64::from(PAGE_BYTES)) as u32;
            for number in 1..=page_count.min(6) {
                let found = read(&mut placement, PageAddress::new(file, number))[0];
                assert_eq!(found, 7, "{kind}, from page {first_page}: page {number}, cut at {at}");
            }
        }
    }
}

#[test]
fn pages_behind_the_end_of_their_file_are_there_after_a_cut() {
    for kind in TierPolicyKind::ALL {
        let config = config_of(kind, false);
        let (ground, file) = filled(&config);
        let (io, mut placement) = reopened(&ground, &config).unwrap();
        io.set_byte_count(file, 8 * u64::from(PAGE_BYTES)).unwrap();
        io.sync(file).unwrap();
        write_each(&mut placement, file, 12..=12, 9).unwrap();
        placement.sync().unwrap();
        drop((io, placement));
        let (io, mut placement) = restarted(&ground, &config).unwrap();
        assert!(io.byte_count(file) >= 12 * u64::from(PAGE_BYTES), "{kind}");
        assert_eq!(read(&mut placement, PageAddress::new(file, 12))[0], 9, "{kind}");
    }
}

#[test]
fn no_file_comes_or_goes_once_the_tier_has_failed() {
    let config = config_of(TierPolicyKind::Lru, false);
    let (ground, file) = filled(&config);
    let (io, mut placement) = reopened(&ground, &config).unwrap();
    io.remove(file).unwrap();
    ground.cut_at(1, 1, 3);
    assert!(placement.truncate(file, 1).is_err());
    let made = io.create("other").unwrap_err();
    assert!(matches!(made, StorageError::Poisoned { .. }), "{made}");
}

#[test]
fn a_clean_copy_that_cannot_be_read_is_passed_over() {
    let config = config_of(TierPolicyKind::FaceGsc, true);
    let mut opened_count = 0;
    for ahead in 1..=12 {
        let (ground, file) = filled(&config);
        let io = io_on(&ground.data, false).unwrap();
        let media = ground.media(&io, false);
        let fail_requests = vec![tier_of(&ground).lock().submitted_count() + ahead];
        tier_of(&ground).lock().set_plan(FaultPlan { fail_requests, ..FaultPlan::default() });
        let built = build_with(&config, media, None, true);
        if tier_of(&ground).lock().failed().request_count == 0 {
            break;
        }
        // Without its maps it is not opened.
        let Ok(mut placement) = built else { continue };
        opened_count += 1;
        for number in 1..=6 {
            assert_eq!(read(&mut placement, PageAddress::new(file, number))[0], 7);
        }
    }
    assert_eq!(opened_count, 6, "a read of each copy failed once");
}
