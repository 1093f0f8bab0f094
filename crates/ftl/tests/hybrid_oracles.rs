//! Block mapping, BAST, FAST and FASTer against closed forms and published orderings: flash reference
//! 2.2.1, 2.3, 2.4.3 and 2.5, targets T6 to T9.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Cause, FlashCounters, FlashOperation, Lpn, Nanos};
use nandu_ftl::{BastConfig, BlockConfig, Ftl, FtlConfig, LogEviction};
use nandu_nand::{Energy, Geometry, NandArray, NandConfig, Rules, preset};

const PAGES: u64 = 64;
const READ_NS: u64 = 20_000;
const PROGRAM_NS: u64 = 200_000;
const ERASE_NS: u64 = 1_500_000;

/// One chip of the myers_slc preset (20, 200, 1500 us, no bus time), its read time chosen.
fn chip(erase_blocks: u64, read_ns: u64) -> NandArray {
    let chip = preset("myers_slc").unwrap();
    let mut timing = chip.timing;
    timing.read_ns = Nanos(read_ns);
    NandArray::new(NandConfig {
        geometry: Geometry {
            channel_count: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            erase_blocks_per_plane: u32::try_from(erase_blocks).unwrap(),
            flash_pages_per_erase_block: 64,
            flash_page_bytes: chip.flash_page_bytes,
            spare_bytes: chip.spare_bytes,
        },
        timing,
        energy: Energy::default(),
        rules: Rules::default(),
        units_per_flash_page: 1,
        keep_content: false,
        power_cut_journal: false,
    })
    .unwrap()
}

/// A layer over an array that is filled in order.
struct Filled {
    nand: NandArray,
    ftl: Box<dyn Ftl>,
    now: Nanos,
    before: FlashCounters,
}

impl Filled {
    /// `data_blocks` of logical space on an array that has exactly what the layer keeps aside besides.
    fn new(config: &FtlConfig, data_blocks: u64, read_ns: u64) -> Self {
        let units = data_blocks * PAGES;
        let bytes = units * u64::from(chip(1, read_ns).geometry().flash_page_bytes);
        let shape = *chip(1, read_ns).geometry();
        let mut nand = chip(config.erase_blocks_per_plane(&shape, bytes, 0).into(), read_ns);
        let mut ftl = config.build(&nand, units, 1).unwrap();
        ftl.initialise_sequential(&mut nand).unwrap();
        let before = *nand.counters();
        Self { nand, ftl, now: Nanos::ZERO, before }
    }

    /// Writes a page when the last is done; answers how long it took.
    fn write(&mut self, lpn: u64) -> u64 {
        let done = self.ftl.write(&mut self.nand, self.now, Lpn(lpn), None).unwrap();
        let took = done - self.now;
        self.now = done;
        took.0
    }

    fn count(&self, operation: FlashOperation, cause: Cause) -> u64 {
        self.nand.counters().since(&self.before).get(operation, cause)
    }
}

fn bast(log_block_count: u32) -> FtlConfig {
    FtlConfig::Bast(BastConfig { log_block_count, victim: LogEviction::Lru })
}

#[test]
fn block_mapping_copies_all_other_pages_of_the_block() {
    let mut filled = Filled::new(&FtlConfig::Block(BlockConfig {}), 4, READ_NS);
    assert_eq!(filled.write(70), 63 * READ_NS + 64 * PROGRAM_NS + ERASE_NS);
    assert_eq!(filled.count(FlashOperation::Program, Cause::Host), 1);
    assert_eq!(filled.count(FlashOperation::Program, Cause::MergeFull), 63);
    filled.ftl.audit(&filled.nand);
}

#[test]
fn block_mapping_writes_erased_pages_in_place() {
    let mut nand = chip(5, READ_NS);
    let mut ftl = FtlConfig::Block(BlockConfig {}).build(&nand, 4 * PAGES, 1).unwrap();
    let mut now = Nanos::ZERO;
    for lpn in [64, 65, 70, 127, 0] {
        let done = ftl.write(&mut nand, now, Lpn(lpn), None).unwrap();
        assert_eq!(done - now, Nanos(PROGRAM_NS));
        now = done;
    }
    // 66 lies below 127, so it is too late for its place: the other four pages are copied.
    let done = ftl.write(&mut nand, now, Lpn(66), None).unwrap();
    assert_eq!((done - now).0, 4 * READ_NS + 5 * PROGRAM_NS + ERASE_NS);
}

#[test]
fn bast_merges_cost_what_the_closed_forms_say() {
    let mut filled = Filled::new(&bast(1), 4, READ_NS);
    // Switch: the last write of a block also erases the old data block.
    assert_eq!((0..63).map(|lpn| filled.write(lpn)).sum::<u64>(), 63 * PROGRAM_NS);
    assert_eq!(filled.write(63), PROGRAM_NS + ERASE_NS);
    // Partial: ten pages in order, then another block wants the log block.
    (0..10).for_each(|lpn| assert_eq!(filled.write(lpn), PROGRAM_NS));
    assert_eq!(filled.write(65), 54 * (READ_NS + PROGRAM_NS) + ERASE_NS + PROGRAM_NS);
    // Full: page 1 of block 1 stands in slot 0.
    let full = 64 * (READ_NS + PROGRAM_NS) + 2 * ERASE_NS;
    assert_eq!(filled.write(128 + 5), full + PROGRAM_NS);
    assert_eq!(filled.count(FlashOperation::Erase, Cause::MergeSwitch), 1);
    assert_eq!(filled.count(FlashOperation::Erase, Cause::MergePartial), 1);
    assert_eq!(filled.count(FlashOperation::Erase, Cause::MergeFull), 2);
    // A log block that fills out of order is merged by the write that fills it.
    (0..62).for_each(|_| assert_eq!(filled.write(128 + 5), PROGRAM_NS));
    assert_eq!(filled.write(128 + 5), PROGRAM_NS + full);
    filled.ftl.audit(&filled.nand);
}

#[test]
fn bast_evicts_by_use_or_by_age() {
    for (victim, evicted) in [(LogEviction::Lru, 1), (LogEviction::Fifo, 0)] {
        let config = FtlConfig::Bast(BastConfig { log_block_count: 2, victim });
        let mut filled = Filled::new(&config, 4, READ_NS);
        // Blocks 0 and 1 own the log blocks; 0 is used last.
        for lpn in [5, 64 + 5, 6, 128 + 5] {
            filled.write(lpn);
        }
        let (kept, gone) = (1 - evicted, evicted);
        assert_eq!(filled.write(kept * 64 + 9), PROGRAM_NS, "{victim:?} keeps the other one");
        assert!(filled.write(gone * 64 + 9) > ERASE_NS, "{victim:?} evicted {evicted}");
    }
}

#[test]
fn sequential_overwrites_switch_every_log_block_and_amplify_nothing() {
    for config in [bast(4)] {
        let mut filled = Filled::new(&config, 32, READ_NS);
        for round in 0..2 {
            (0..32 * PAGES).for_each(|lpn| _ = filled.write(lpn));
            assert_eq!(filled.count(FlashOperation::Erase, Cause::MergeSwitch), 32 * (round + 1));
        }
        let delta = filled.nand.counters().since(&filled.before);
        let writes = 2 * 32 * PAGES;
        assert_eq!(delta.total(FlashOperation::Program), writes, "{config:?}");
        assert_eq!(delta.total(FlashOperation::Erase), 64, "{config:?}");
    }
}
