//! The laws of the chip against a naive model, for every short sequence of commands, and what time and
//! a power cut do to commands, in cases computed by hand.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Cause, FlashOperation, Nanos, Ppn};
use nandu_nand::{
    ChipOverrides, Content, Energy, Geometry, NandArray, NandConfig, NandError, NandProfile,
    Payload, ProgramOrder, Rules, Ticket, Timing, preset, presets,
};
use std::sync::Arc;

const CAUSE: Cause = Cause::Host;
const READY: Ticket = Ticket::READY;

fn config(channels: u32, dies: u32, planes: u32, blocks: u32, pages: u32) -> NandConfig {
    NandConfig {
        geometry: Geometry {
            channel_count: channels,
            dies_per_channel: dies,
            planes_per_die: planes,
            erase_blocks_per_plane: blocks,
            flash_pages_per_erase_block: pages,
            flash_page_bytes: 512,
            spare_bytes: 0,
        },
        timing: Timing {
            read_ns: Nanos(20),
            program_ns: Nanos(200),
            program_type_ns: nandu_nand::PageTypes::ALIKE,
            erase_ns: Nanos(1500),
            command_ns: Nanos::ZERO,
            bus_bytes_per_second: 512 * 20_000_000,
            cache_register: false,
        },
        energy: Energy::default(),
        rules: Rules::default(),
        units_per_flash_page: 1,
        keep_content: true,
        power_cut_journal: true,
    }
}

/// Programs a flash page with nothing to wait for.
fn issue(nand: &mut NandArray, page: u64, sequence: u64) -> Result<Ticket, NandError> {
    let lpns = [u32::try_from(page).unwrap() + 100];
    let contents: [Content; 1] = [Some(Arc::from(sequence.to_le_bytes().as_slice()))];
    let payload = Payload { lpns: &lpns, sequence, contents: &contents };
    nand.program(READY, Ppn(page), payload, CAUSE)
}

/// Programs a flash page at `now` and waits for it; answers when it is done.
fn write(nand: &mut NandArray, now: u64, page: u64, sequence: u64) -> Result<u64, NandError> {
    nand.at(Nanos(now));
    let done = issue(nand, page, sequence)?;
    Ok(nand.finish(done).0)
}

/// When commands that were issued are done, each waited for in turn.
fn ends<const N: usize>(
    nand: &mut NandArray,
    commands: [Result<Ticket, NandError>; N],
) -> [u64; N] {
    commands.map(|ticket| nand.finish(ticket.unwrap()).0)
}

/// Two erase blocks of two pages, two programs per page, two erases per block.
#[derive(Clone, Default)]
struct Model {
    programs: [u8; 4],
    next: [u64; 2],
    erases: [u32; 2],
    bad: [bool; 2],
    value: [Option<u64>; 4],
}

impl Model {
    fn apply(&mut self, operation: u64, sequence: u64, any_order: bool) -> bool {
        let page = usize::try_from(operation % 4).unwrap();
        let (block, index) = (page / 2, operation % 2);
        match operation {
            0..4 => {
                let legal = !self.bad[block]
                    && self.programs[page] == 0
                    && (any_order || index >= self.next[block]);
                if legal {
                    self.programs[page] = 1;
                    self.next[block] = self.next[block].max(index + 1);
                    self.value[page] = Some(sequence);
                }
                legal
            }
            4..8 => {
                let legal = self.programs[page] == 1;
                self.programs[page] += u8::from(legal);
                legal
            }
            _ => {
                let block = page;
                if self.bad[block] || self.erases[block] == 2 {
                    self.bad[block] = true;
                    return false;
                }
                self.erases[block] += 1;
                self.next[block] = 0;
                self.programs[block * 2..block * 2 + 2].fill(0);
                self.value[block * 2..block * 2 + 2].fill(None);
                true
            }
        }
    }
}

fn explore(nand: &NandArray, model: &Model, any_order: bool, depth: u64) -> u64 {
    if depth == 0 {
        return 1;
    }
    let mut leaves = 0;
    for operation in 0..10 {
        let (mut nand, mut model) = (nand.clone(), model.clone());
        let sequence = 10 - depth;
        let before = (*nand.counters(), nand.busy(), nand.open_count());
        let legal = model.apply(operation, sequence, any_order);
        let result = match operation {
            0..4 => issue(&mut nand, operation, sequence),
            4..8 => nand.partial_program(READY, Ppn(operation - 4), 8, None, CAUSE),
            _ => nand.erase(READY, u32::try_from(operation - 8).unwrap(), CAUSE),
        };
        assert_eq!(result.is_ok(), legal, "{operation}: {result:?}");
        if !legal {
            let after = (*nand.counters(), nand.busy(), nand.open_count());
            assert_eq!(after, before, "nothing changes");
        }
        for page in 0..4 {
            let held = nand.content(Ppn(page), 0).map(|bytes| bytes[0]);
            let index = usize::try_from(page).unwrap();
            assert_eq!(held.map(u64::from), model.value[index]);
            assert_eq!(nand.spare(Ppn(page)).map(|s| s.sequence), model.value[index]);
        }
        nand.audit();
        leaves += explore(&nand, &model, any_order, depth - 1);
    }
    leaves
}

#[test]
fn every_sequence_of_commands_agrees_with_the_naive_model() {
    for (program_order, depth) in [(ProgramOrder::Ascending, 6), (ProgramOrder::Any, 5)] {
        let mut config = config(1, 1, 1, 2, 2);
        config.power_cut_journal = false;
        config.rules =
            Rules { program_order, programs_per_erase: 2, endurance: 2, ..Rules::default() };
        let nand = NandArray::new(config).unwrap();
        let any_order = program_order == ProgramOrder::Any;
        let leaves = explore(&nand, &Model::default(), any_order, depth);
        assert_eq!(leaves, 10_u64.pow(u32::try_from(depth).unwrap()));
    }
}

#[test]
fn a_refusal_names_its_law() {
    let mut nand = NandArray::new(config(1, 1, 1, 2, 4)).unwrap();
    write(&mut nand, 0, 1, 5).unwrap();
    let text = |error: NandError| error.to_string();
    assert!(text(write(&mut nand, 0, 1, 6).unwrap_err()).starts_with("erase before program"));
    assert!(text(write(&mut nand, 0, 0, 6).unwrap_err()).starts_with("program order"));
    assert!(text(write(&mut nand, 0, 8, 6).unwrap_err()).starts_with("out of range"));
    assert!(text(write(&mut nand, 0, 2, 4).unwrap_err()).starts_with("sequence"));
    let partial = nand.partial_program(READY, Ppn(1), 8, None, CAUSE);
    assert!(text(partial.unwrap_err()).starts_with("partial program limit"));
    let read = nand.read(READY, Ppn(0), 513, CAUSE);
    assert!(text(read.unwrap_err()).starts_with("out of range: byte"));
}

#[test]
fn dies_overlap_in_the_array_and_share_the_channel() {
    // A page takes 50 ns over the bus, 20 ns to read, 200 ns to program.
    let mut nand = NandArray::new(config(1, 2, 1, 2, 4)).unwrap();
    let programs = [issue(&mut nand, 0, 1), issue(&mut nand, 4, 2)];
    assert_eq!(ends(&mut nand, programs), [250, 300]);
    nand.at(Nanos(400));
    let reads = [0, 4].map(|page| nand.read(READY, Ppn(page), 512, CAUSE));
    assert_eq!(ends(&mut nand, reads), [470, 520]);
    nand.at(Nanos(1000));
    let erase = nand.erase(READY, 0, CAUSE);
    assert_eq!(ends(&mut nand, [erase]), [2500]);
    assert_eq!(nand.busy(), Nanos(2 * 250 + 2 * 70 + 1500));

    let mut nand = NandArray::new(config(2, 1, 1, 2, 4)).unwrap();
    let programs = [issue(&mut nand, 0, 1), issue(&mut nand, 4, 2)];
    assert_eq!(ends(&mut nand, programs), [250, 250]);
}

#[test]
fn planes_are_programmed_read_and_erased_in_one_array_time() {
    let mut nand = NandArray::new(config(1, 1, 2, 2, 4)).unwrap();
    let payload = Payload { lpns: &[7, 8], sequence: 1, contents: &[] };
    let program = nand.program(READY, Ppn(0), payload, CAUSE);
    assert_eq!(ends(&mut nand, [program]), [300]);
    // The second plane is erase block 1, so flash page 4.
    assert_eq!(nand.spare(Ppn(4)).unwrap().lpns, [8]);
    let read = nand.read_planes(READY, Ppn(0), 0b11, 1024, CAUSE);
    let erase = nand.erase_planes(READY, 0, 2, CAUSE);
    assert_eq!(ends(&mut nand, [read, erase]), [420, 1920]);
    let counters = nand.counters();
    for operation in [FlashOperation::Program, FlashOperation::Read, FlashOperation::Erase] {
        assert_eq!(counters.get(operation, CAUSE), 2);
    }
    let outside = Payload { lpns: &[7, 8], sequence: 2, contents: &[] };
    assert!(nand.program(READY, Ppn(4), outside, CAUSE).is_err());
}

#[test]
fn copy_back_stays_in_its_plane_and_off_the_bus() {
    let mut nand = NandArray::new(config(1, 1, 2, 2, 4)).unwrap();
    write(&mut nand, 0, 0, 1).unwrap();
    assert_eq!(
        nand.copy_back(READY, (Ppn(0), Ppn(4)), 2, CAUSE),
        Err(NandError::DifferentPlane { from: 0, to: 4 })
    );
    let copy = nand.copy_back(READY, (Ppn(0), Ppn(8)), 2, CAUSE);
    assert_eq!(ends(&mut nand, [copy]), [470]);
    assert_eq!(nand.spare(Ppn(8)).map(|spare| (spare.lpns[0], spare.sequence)), Some((100, 2)));
    assert_eq!(nand.content(Ppn(8), 0), nand.content(Ppn(0), 0));
}

#[test]
fn a_power_cut_keeps_what_ended_tears_what_ran_and_undoes_what_had_not_begun() {
    let mut nand = NandArray::new(config(1, 1, 1, 2, 4)).unwrap();
    for page in 0..3 {
        issue(&mut nand, page, page + 1).unwrap();
    }
    // Programs run 0..250, 250..500, 500..750.
    nand.power_cut(Nanos(300)).unwrap();
    assert!(nand.read(READY, Ppn(0), 512, CAUSE).is_ok());
    assert_eq!(nand.read(READY, Ppn(1), 512, CAUSE), Err(NandError::Torn { flash_page: 1 }));
    assert_eq!(nand.spare(Ppn(2)), None);
    assert!(matches!(write(&mut nand, 400, 1, 9), Err(NandError::NotErased { .. })));
    write(&mut nand, 400, 2, 9).unwrap();
    nand.audit();
}

#[test]
fn a_power_cut_before_an_erase_brings_everything_back_and_inside_it_tears() {
    let mut nand = NandArray::new(config(1, 1, 1, 2, 4)).unwrap();
    write(&mut nand, 0, 0, 1).unwrap();
    nand.settle(Nanos(250));
    // Behind a read that takes until 320.
    nand.read(READY, Ppn(4), 512, CAUSE).unwrap();
    nand.erase(READY, 0, CAUSE).unwrap();
    issue(&mut nand, 0, 2).unwrap();
    let mut inside = nand.clone();
    nand.power_cut(Nanos(319)).unwrap();
    assert_eq!(nand.spare(Ppn(0)).unwrap().sequence, 1);
    assert_eq!(nand.content(Ppn(0), 0).unwrap()[0], 1);
    assert_eq!(nand.erase_count(0), 0);

    inside.power_cut(Nanos(321)).unwrap();
    let torn = NandError::TornEraseBlock { erase_block: 0 };
    assert_eq!(inside.read(READY, Ppn(0), 512, CAUSE), Err(torn));
    assert_eq!(inside.erase_count(0), 1, "an erase wears, whole or torn");
    inside.erase(READY, 0, CAUSE).unwrap();
    assert_eq!(inside.erase_count(0), 2);
    write(&mut inside, 321, 0, 3).unwrap();
}

#[test]
fn the_power_fails_at_the_named_command_and_tears_only_if_asked() {
    let lost = Err(NandError::PowerLost);
    for tear in [false, true] {
        let mut nand = NandArray::new(config(1, 1, 1, 2, 4)).unwrap();
        nand.fail_power_after(1, tear);
        write(&mut nand, 0, 0, 1).unwrap();
        nand.read(READY, Ppn(0), 512, CAUSE).unwrap();
        let before = *nand.counters();
        assert_eq!(issue(&mut nand, 1, 2), lost);
        assert_eq!(nand.read(READY, Ppn(0), 512, CAUSE), lost, "no power, no read");
        assert_eq!(nand.spare_read(READY, Ppn(0), CAUSE), lost);
        assert_eq!(nand.erase(READY, 1, CAUSE), lost);
        assert_eq!(nand.copy_back(READY, (Ppn(0), Ppn(4)), 3, CAUSE), lost);
        assert_eq!(*nand.counters(), before, "a refused command counts nothing");
        nand.power_on();
        nand.audit();
        assert_eq!(nand.content(Ppn(0), 0).unwrap()[0], 1);
        let page = nand.spare_read(READY, Ppn(1), CAUSE);
        assert_eq!(page == Err(NandError::Torn { flash_page: 1 }), tear);
        // The same in the middle of, and before, an erase.
        nand.fail_power_after(0, tear);
        assert_eq!(nand.erase(READY, 0, CAUSE), lost);
        nand.power_on();
        let read = nand.read(READY, Ppn(0), 512, CAUSE);
        assert_eq!(read == Err(NandError::TornEraseBlock { erase_block: 0 }), tear);
        assert_eq!(nand.erase_count(0), u32::from(tear), "an erase wears, whole or torn");
        nand.erase(READY, 0, CAUSE).unwrap();
        assert_eq!(nand.erase_count(0), 1 + u32::from(tear));
        write(&mut nand, 0, 0, 4).unwrap();
    }
}

#[test]
fn a_batch_and_a_row_of_planes_fail_at_their_row() {
    let mut nand = NandArray::new(config(1, 1, 2, 1, 4)).unwrap();
    nand.fail_power_after(1, true);
    let lpns = [10, 11, 20, 21, 30, 31];
    let payload = Payload { lpns: &lpns, sequence: 1, contents: &[] };
    assert_eq!(nand.program_rows(READY, Ppn(0), 2, payload, CAUSE), Err(NandError::PowerLost));
    nand.power_on();
    for (page, lpn) in [(0, Some(10)), (4, Some(11)), (2, None), (6, None)] {
        assert_eq!(nand.spare(Ppn(page)).map(|spare| spare.lpns[0]), lpn, "flash page {page}");
    }
    for page in [1, 5] {
        let torn = Err(NandError::Torn { flash_page: page });
        assert_eq!(nand.read(READY, Ppn(page), 512, CAUSE), torn, "both planes are torn");
    }
}

#[test]
fn metadata_is_kept_without_other_content_and_dies_with_its_page() {
    let mut config = config(1, 1, 2, 2, 4);
    config.keep_content = false;
    let mut nand = NandArray::new(config).unwrap();
    let content: Arc<[u8]> = Arc::from([7; 1000].as_slice());
    nand.program_metadata(READY, Ppn(0), 2, (1, Arc::clone(&content)), CAUSE).unwrap();
    assert_eq!(nand.metadata(Ppn(0)), Some(Arc::clone(&content)));
    assert_eq!(nand.counters().get(FlashOperation::Program, CAUSE), 2, "one for each plane");
    let long = nand.program_metadata(READY, Ppn(1), 1, (2, Arc::clone(&content)), CAUSE);
    assert!(matches!(long, Err(NandError::OutOfRange { what: "byte", .. })));
    let mut torn = nand.clone();
    torn.power_cut(Nanos(100)).unwrap();
    assert_eq!(torn.metadata(Ppn(0)), None);
    nand.settle(Nanos(1000));
    nand.read(READY, Ppn(8), 512, CAUSE).unwrap();
    nand.erase(READY, 0, CAUSE).unwrap();
    assert_eq!(nand.metadata(Ppn(0)), None);
    nand.power_cut(Nanos(1001)).unwrap();
    assert_eq!(nand.metadata(Ppn(0)), Some(content), "an erase that never began");
}

#[test]
fn paired_pages_are_lost_together() {
    let mut config = config(1, 1, 1, 2, 4);
    config.rules.paired_pages = true;
    let mut nand = NandArray::new(config).unwrap();
    write(&mut nand, 0, 0, 1).unwrap();
    issue(&mut nand, 1, 2).unwrap();
    nand.power_cut(Nanos(260)).unwrap();
    for page in 0..2 {
        assert!(matches!(nand.read(READY, Ppn(page), 1, CAUSE), Err(NandError::Torn { .. })));
    }
}

#[test]
fn factory_bad_blocks_follow_their_seed_and_refuse() {
    let mut config = config(1, 1, 1, 1000, 2);
    config.rules = Rules { factory_bad_ppm: 20_000, factory_bad_seed: 4, ..Rules::default() };
    let bad = |config| {
        let nand = NandArray::new(config).unwrap();
        (0..1000).filter(|&block| nand.is_bad(block)).collect::<Vec<u32>>()
    };
    let blocks = bad(config);
    assert_eq!(blocks, bad(config));
    assert!((8..40).contains(&blocks.len()), "{}", blocks.len());
    let mut nand = NandArray::new(config).unwrap();
    let before = *nand.counters();
    for &block in &blocks {
        let refused = NandError::BadEraseBlock { erase_block: u64::from(block) };
        assert_eq!(nand.erase(READY, block, CAUSE), Err(refused.clone()));
        for page in [2 * u64::from(block), 2 * u64::from(block) + 1] {
            assert_eq!(issue(&mut nand, page, 1), Err(refused.clone()));
            assert_eq!(nand.spare(Ppn(page)), None, "flash page {page}");
        }
    }
    assert_eq!(*nand.counters(), before, "a refused command counts nothing");
    assert_eq!(nand.wear().bad_erase_block_count, blocks.len() as u64);
}

#[test]
fn every_preset_resolves_and_a_profile_overrides_it() {
    for chip in presets() {
        let profile = NandProfile {
            preset: chip.name.into(),
            channel_count: 1,
            dies_per_channel: 1,
            erase_blocks_per_plane: 4,
            planes_per_die: None,
            overrides: ChipOverrides { read_ns: Some(Nanos(1)), ..ChipOverrides::default() },
            units_per_flash_page: None,
        };
        let config = profile.resolve().unwrap();
        assert_eq!(config.timing.read_ns, Nanos(1));
        assert_eq!(config.timing.program_ns, chip.timing.program_ns);
        NandArray::new(config).unwrap();
        assert!(chip.source.contains('['), "{} has a marked source", chip.name);
    }
    assert!(preset("myers").unwrap_err().to_string().contains("myers_slc"));
}
