//! The same on raw flash, with the power of the chips cut at any request.

use super::*;
use crate::propagation::shared_flash::SharedFlash;
use crate::propagation::{FlashIo, Medium};
use nandu_base::FlashOperation;
use nandu_device::RawFlash;
use nandu_device::raw_flash::{
    FlashCommand, FlashGeometry, FlashPart, FlashRequest, MemoryFlashConfig,
};

/// A propagation on chips, which its bench knows nothing of.
struct ChipBench {
    chips: SharedFlash,
    settings: PageDifferentialChipsSettings,
    bench: Bench,
}

fn small_on_chips() -> PageDifferentialChipsSettings {
    PageDifferentialChipsSettings {
        difference_bytes_max: 128,
        segment_block_count: 1,
        write_bytes: 4096,
        reserve_segment_count: 4,
    }
}

fn media(data: Io, chips: &SharedFlash) -> Media {
    let chips = FlashIo::new(Box::new(chips.clone()), Arc::default());
    Media::of_data(data).with(CHIPS, Medium::RawFlash(chips))
}

/// Chips of the usual size by these laws.
fn flash(config: MemoryFlashConfig) -> SharedFlash {
    let geometry = SharedFlash::new().info().geometry;
    SharedFlash::with(MemoryFlashConfig { geometry, ..config })
}

impl ChipBench {
    fn new(chips: SharedFlash, settings: PageDifferentialChipsSettings) -> Self {
        let disk = disk(4096);
        let io = io_of(DeviceVolume::format(Box::new(disk.clone())).unwrap());
        let propagation =
            PageDifferential::create_on_chips(media(io, &chips), PAGE_BYTES, &settings).unwrap();
        let bench = Bench { disk, settings: small(), propagation, model: Model::default() };
        Self { chips, settings, bench }
    }

    fn of_laws(config: MemoryFlashConfig, settings: PageDifferentialChipsSettings) -> Self {
        Self::new(flash(config), settings)
    }

    /// Reopens after a power cut, and checks what is there.
    fn reopen(&mut self) -> Result<(), StorageError> {
        restart(&self.bench.disk);
        self.chips.restart();
        self.chips.audit();
        let io = io_of(DeviceVolume::open(Box::new(self.bench.disk.clone()))?);
        let media = media(io, &self.chips);
        self.bench.propagation =
            PageDifferential::open_on_chips(media, PAGE_BYTES, &self.settings)?;
        self.bench.propagation.audit();
        let found = self.bench.read_all()?;
        self.bench.model.adopt(&found);
        Ok(())
    }

    /// Has the power go at one of the requests that come, counted from 1.
    fn cut_at(&self, at: u64) {
        self.chips.cut_at(self.chips.submitted_count() + at);
    }

    fn reads(&self) -> u64 {
        self.chips.counters().commands.total(FlashOperation::Read)
    }
}

/// Chips by laws that follow from the seed: pairs, bad erase blocks, erase blocks that wear out.
fn laws(seed: u64) -> MemoryFlashConfig {
    MemoryFlashConfig {
        has_paired_pages: seed.is_multiple_of(2),
        programs_per_erase: if seed.is_multiple_of(3) { 1 } else { 4 },
        endurance: if seed.is_multiple_of(5) { 40 } else { 0 },
        bad_erase_blocks: if seed.is_multiple_of(7) { vec![9, 10, 50] } else { Vec::new() },
        ..MemoryFlashConfig::default()
    }
}

fn settings(seed: u64) -> PageDifferentialChipsSettings {
    PageDifferentialChipsSettings {
        difference_bytes_max: [64, 128, 256, 512][to_index(seed % 4)],
        segment_block_count: 1 + to_u32(seed % 2),
        ..small_on_chips()
    }
}

#[test]
fn pages_come_back_through_rewrites_cleaning_truncates_and_reopening() {
    for seed in 11..15 {
        let config = MemoryFlashConfig { endurance: 0, ..laws(seed) };
        let mut chips = ChipBench::of_laws(config, settings(seed));
        let mut rng = Rng::new(seed);
        for round in 0..20 {
            for _ in 0..50 {
                chips.bench.step(&mut rng, 300).unwrap();
                chips.bench.propagation.audit();
            }
            chips.bench.check();
            if round % 5 == 4 {
                chips.bench.sync().unwrap();
                chips.reopen().unwrap();
                chips.bench.check();
            }
        }
        let wear = chips.chips.counters().wear;
        assert!(wear.erase_count_max > 1, "{seed}: erase blocks are used again: {wear:?}");
    }
}

#[test]
fn what_was_synced_is_there_wherever_the_power_of_the_chips_is_cut() {
    for seed in 0..300_u64 {
        let mut rng = Rng::new(seed);
        let mut chips = ChipBench::of_laws(laws(seed), settings(seed));
        // Far enough for cleaning, where there is time for that.
        for _ in 0..rng.below(60) {
            chips.bench.step(&mut rng, 120).unwrap();
        }
        for _ in 0..3 {
            chips.cut_at(1 + rng.below(500));
            while chips.bench.step(&mut rng, 120).is_ok() {}
            chips.reopen().unwrap_or_else(|error| panic!("seed {seed}: {error}"));
            chips.bench.check();
        }
    }
}

#[test]
fn a_cut_in_an_opening_changes_nothing() {
    let count_of_opening = {
        let mut chips = ChipBench::of_laws(laws(2), small_on_chips());
        chips.bench.write(&[page(1, 1)]).unwrap();
        let before = chips.chips.submitted_count();
        chips.reopen().unwrap();
        chips.chips.submitted_count() - before
    };
    for at in (1..count_of_opening).rev().take(30) {
        let mut chips = ChipBench::of_laws(laws(at), small_on_chips());
        let mut rng = Rng::new(3);
        for _ in 0..40 {
            chips.bench.step(&mut rng, 40).unwrap();
        }
        chips.bench.sync().unwrap();
        chips.bench.write(&[page(1, 1), page(1, 2)]).unwrap();
        for _ in 0..2 {
            chips.chips.restart();
            restart(&chips.bench.disk);
            chips.cut_at(at);
            let volume = DeviceVolume::open(Box::new(chips.bench.disk.clone())).unwrap();
            let media = media(io_of(volume), &chips.chips);
            drop(PageDifferential::open_on_chips(media, PAGE_BYTES, &chips.settings));
        }
        chips.reopen().unwrap();
        chips.bench.check();
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn any_deeds_and_cuts_leave_pages_that_were_there(
        seed in any::<u64>(),
        deeds in proptest::collection::vec((0_u64..40, any::<bool>()), 1..12),
        page_count in 8_u64..300,
    ) {
        let config = MemoryFlashConfig { endurance: 0, ..laws(seed) };
        let mut chips = ChipBench::of_laws(config, settings(seed));
        let mut rng = Rng::new(seed);
        for (count, is_cut) in deeds {
            for _ in 0..count {
                chips.bench.step(&mut rng, page_count).unwrap();
                chips.bench.propagation.audit();
            }
            if is_cut {
                chips.reopen().unwrap();
            }
            chips.bench.check();
        }
    }
}

/// Versions that differ in more than half of a page, mostly.
const WIDE: PageVersions = PageVersions { place_bytes: 120, ..VERSIONS };

#[test]
fn differentials_as_large_as_pages_never_have_cleaning_gain_nothing() {
    // As the paper has them: a page for a flash page, written one by one, and half of the chips to spare.
    let geometry = FlashGeometry {
        erase_block_count: 64,
        flash_pages_per_erase_block: 32,
        flash_page_bytes: PAGE_BYTES,
        spare_bytes: 32,
        die_count: 1,
    };
    let config = MemoryFlashConfig { geometry, ..MemoryFlashConfig::default() };
    for difference_bytes_max in [PAGE_BYTES / 2, PAGE_BYTES] {
        let settings = PageDifferentialChipsSettings { difference_bytes_max, ..small_on_chips() };
        let mut chips = ChipBench::new(SharedFlash::with(config.clone()), settings);
        let (mut rng, page_count, write_count) = (Rng::new(7), 900, 6000);
        for number in 0..page_count + write_count {
            let written = if number < page_count { number } else { rng.below(page_count) };
            let address = page(1, 1 + to_u32(written));
            let version = chips.bench.model.write(address);
            let mut buffer = IoBuffer::zeroed(PAGE_BYTES as usize);
            buffer.copy_from_slice(&WIDE.content(address, version));
            let changed = ChangedRanges::default();
            let pdl = &mut chips.bench.propagation;
            pdl.write(&mut [PageWrite { address, buffer, changed, is_new: false }]).unwrap();
        }
        let pdl = &mut chips.bench.propagation;
        pdl.audit();
        let counters = pdl.counters();
        assert!(counters.difference_count > write_count / 8, "{counters:?}");
        assert_eq!(counters.merged_count > 100, difference_bytes_max == PAGE_BYTES);
        let program_count = chips.chips.counters().commands.programmed_pages();
        assert!(program_count < 6 * write_count, "{program_count} programs, {counters:?}");
        for (address, version) in WIDE.read_all(pdl, &chips.bench.model).unwrap() {
            assert_eq!(version, chips.bench.model.newest(address), "{address}");
        }
    }
}

#[test]
fn a_page_is_read_from_two_flash_pages_at_most() {
    let mut chips = ChipBench::of_laws(MemoryFlashConfig::default(), small_on_chips());
    let address = page(1, 1);
    let others: Vec<PageAddress> = (2..40).map(|it| page(1, it)).collect();
    let pdl = &mut chips.bench.propagation;
    pdl.write(&mut [filled(address, 200, 8, 1)]).unwrap();
    pdl.sync().unwrap();
    pdl.write(&mut [filled(address, 200, 8, 2)]).unwrap();
    pdl.sync().unwrap();
    assert_eq!(pdl.locate(address), None, "the pool has no business on chips");
    chips.bench.write(&others).unwrap();
    chips.bench.sync().unwrap();
    let mut read = |address: PageAddress| {
        let before = chips.reads();
        let pdl = &mut chips.bench.propagation;
        pdl.start_read(address, IoBuffer::zeroed(PAGE_BYTES as usize)).unwrap();
        let read = pdl.next_read().unwrap();
        read.result.unwrap();
        (chips.reads() - before, read.buffer[200])
    };
    assert_eq!(read(address), (2, 2), "a base page and a differential");
    assert_eq!(read(page(1, 5)).0, 1, "a base page alone");
    assert_eq!(read(page(1, 77)), (0, 0), "never written");
}

#[test]
fn erase_blocks_that_wear_out_are_left_until_there_is_no_room() {
    let config = MemoryFlashConfig { endurance: 12, ..MemoryFlashConfig::default() };
    let mut chips = ChipBench::of_laws(config, small_on_chips());
    let mut rng = Rng::new(4);
    let error = loop {
        if let Err(error) = chips.bench.step(&mut rng, 150) {
            break error;
        }
        chips.bench.propagation.audit();
    };
    assert!(matches!(error, StorageError::NoSpace { .. }), "{error}");
    assert!((0..96).any(|it| chips.chips.is_bad(it)), "some are worn out by then");
    // What is there can be read.
    chips.bench.propagation.audit();
    chips.bench.read_all().unwrap();
}

#[test]
fn what_somebody_else_left_on_the_chips_is_gone() {
    let mut one = ChipBench::of_laws(laws(2), settings(1));
    let mut rng = Rng::new(5);
    for _ in 0..200 {
        one.bench.step(&mut rng, 100).unwrap();
    }
    one.bench.sync().unwrap();
    let mut chips = one.chips.clone();
    for erase_block in 60..70 {
        // And of one who has another order, or was interrupted.
        let geometry = chips.info().geometry;
        let data = Some(FlashPart::copy_of(0, &[7; 100]));
        let flash_page = geometry.flash_page(erase_block, 0);
        let now = chips.now();
        chips.submit(now, FlashRequest::erase(1, erase_block)).unwrap();
        let program = FlashCommand::Program { flash_page, data, spare: None };
        let cause = nandu_base::Cause::Host;
        chips.submit(now, FlashRequest { id: 2, cause, command: program }).unwrap();
    }
    chips.power_cut(chips.now() + Nanos(2_000_000));
    chips.restart();
    let mut other = ChipBench::new(chips, small_on_chips());
    assert!(other.bench.propagation.stored_files().is_empty());
    for _ in 0..30 {
        other.bench.step(&mut rng, 40).unwrap();
    }
    other.bench.sync().unwrap();
    other.reopen().unwrap();
    other.bench.check();
}

#[test]
fn chips_and_settings_that_do_not_suit_are_refused() {
    let refused = |chips: &SharedFlash, settings: &PageDifferentialChipsSettings| {
        let io = io_of(DeviceVolume::format(Box::new(disk(4096))).unwrap());
        let answer = PageDifferential::create_on_chips(media(io, chips), PAGE_BYTES, settings);
        answer.map(drop).unwrap_err().to_string()
    };
    let bad = (0..80).collect();
    let chips = flash(MemoryFlashConfig { bad_erase_blocks: bad, ..MemoryFlashConfig::default() });
    let usual = PageDifferentialChipsSettings { reserve_segment_count: 20, ..small_on_chips() };
    let told = refused(&chips, &usual);
    assert!(
        told.contains("8 segments of 2 erase blocks that are not bad, fewer than 24"),
        "{told}"
    );
    let chips = SharedFlash::new();
    let told = refused(
        &chips,
        &PageDifferentialChipsSettings { segment_block_count: 40, ..small_on_chips() },
    );
    assert!(told.contains("2 segments of 40 erase blocks"), "{told}");
    let mut bad = vec![small_on_chips(); 5];
    bad[0].difference_bytes_max = 63;
    bad[1].segment_block_count = 0;
    bad[2].segment_block_count = u32::MAX;
    bad[3].write_bytes = 100;
    bad[4].reserve_segment_count = 3;
    let keys = [
        "difference_bytes_max",
        "segment_block_count",
        "segment_block_count",
        "write_bytes",
        "reserve_segment_count",
    ];
    for (settings, key) in bad.iter().zip(keys) {
        assert!(refused(&chips, settings).contains(key), "{settings:?}");
        assert!(settings.check(PAGE_BYTES).is_err(), "{settings:?}");
    }
    assert_eq!(chips.submitted_count(), 0, "nothing was touched");
}
