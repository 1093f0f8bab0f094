//! Programs and reads of parts of flash pages: what they hold, what they take, what a power cut
//! leaves.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Cause, FlashOperation, Nanos, Ppn};
use nandu_nand::{
    Energy, Geometry, NandArray, NandConfig, NandError, PagePart, PageTypes, Payload, Piece,
    ProgramOrder, Rules, Ticket, Timing,
};

const READY: Ticket = Ticket::READY;
const CAUSE: Cause = Cause::Log;

/// One die whose flash pages have 512 bytes and 16 spare ones; a byte takes 1 ns over the bus.
fn array(programs_per_erase: u8) -> NandArray {
    let rules = Rules { programs_per_erase, endurance: 2, ..Rules::default() };
    NandArray::new(NandConfig {
        geometry: Geometry {
            channel_count: 1,
            dies_per_channel: 1,
            planes_per_die: 1,
            erase_blocks_per_plane: 2,
            flash_pages_per_erase_block: 4,
            flash_page_bytes: 512,
            spare_bytes: 16,
        },
        timing: Timing {
            read_ns: Nanos(20_000),
            program_ns: Nanos(200_000),
            program_type_ns: PageTypes::ALIKE,
            erase_ns: Nanos(1_500_000),
            command_ns: Nanos::ZERO,
            bus_bytes_per_second: 1_000_000_000,
            cache_register: false,
        },
        energy: Energy::default(),
        rules,
        units_per_flash_page: 1,
        keep_content: true,
        power_cut_journal: true,
    })
    .unwrap()
}

fn program(
    nand: &mut NandArray,
    page: u64,
    (first_byte, bytes): (u32, &[u8]),
    spare: &[u8],
) -> Result<Ticket, NandError> {
    let pieces = (Piece { first_byte, bytes }, Piece { first_byte: 0, bytes: spare });
    nand.program_part(READY, Ppn(page), pieces, CAUSE)
}

/// The data byte at `index` of a flash page.
fn byte(nand: &NandArray, page: u64, index: usize) -> Option<u8> {
    nand.content(Ppn(page), 0).map(|cells| cells[index])
}

#[test]
fn parts_of_a_flash_page_are_programmed_one_after_the_other() {
    let mut nand = array(3);
    program(&mut nand, 0, (0, &[1; 256]), &[]).unwrap();
    program(&mut nand, 0, (256, &[2; 256]), &[3; 4]).unwrap();
    program(&mut nand, 0, (0, &[]), &[2]).unwrap();
    let cells = nand.content(Ppn(0), 0).unwrap();
    assert_eq!((cells[0], cells[255], cells[256], cells[511]), (1, 1, 2, 2));
    assert_eq!(cells[512..517], [2, 3, 3, 3, 255]);
    let again = program(&mut nand, 0, (0, &[0]), &[]);
    assert_eq!(again, Err(NandError::PartialProgramLimit { flash_page: 0, limit: 3 }));
    let count = |operation| nand.counters().get(operation, CAUSE);
    assert_eq!(count(FlashOperation::Program), 1);
    assert_eq!(count(FlashOperation::PartialProgram), 2);
    nand.audit();
}

#[test]
fn no_program_sets_a_bit_and_a_refused_one_changes_nothing() {
    let mut nand = array(4);
    program(&mut nand, 1, (8, &[0b1010]), &[]).unwrap();
    for byte_there in [0b1110, 0b0001, 0xFF] {
        let refused = program(&mut nand, 1, (7, &[0, byte_there]), &[]);
        assert_eq!(refused, Err(NandError::NotErased { flash_page: 1 }));
        assert_eq!((byte(&nand, 1, 7), byte(&nand, 1, 8)), (Some(0xFF), Some(0b1010)));
    }
    program(&mut nand, 1, (8, &[0b0010]), &[]).unwrap();
    assert_eq!(byte(&nand, 1, 8), Some(0b0010));
    assert!(matches!(
        program(&mut nand, 0, (0, &[0]), &[]),
        Err(NandError::ProgramOrder { flash_page: 0, next_index: 2 })
    ));
    for (first, bytes, spare) in [(512, 1, 0), (0, 513, 0), (u32::MAX, 2, 0), (0, 0, 17)] {
        let refused = program(&mut nand, 2, (first, &vec![0; bytes]), &vec![0; spare]);
        assert!(matches!(refused, Err(NandError::OutOfRange { .. })), "{first} {bytes} {spare}");
    }
}

#[test]
fn parts_take_the_bus_for_what_they_move_and_the_spare_bytes_that_belong_to_it() {
    let mut nand = array(4);
    let mut last = 0;
    let mut took = |nand: &mut NandArray, ticket| {
        let end = nand.finish(ticket).0;
        end - std::mem::replace(&mut last, end)
    };
    let whole = program(&mut nand, 0, (0, &[0; 512]), &[0; 16]).unwrap();
    assert_eq!(took(&mut nand, whole), 200_000 + 528);
    let quarter = program(&mut nand, 1, (0, &[0; 128]), &[]).unwrap();
    assert_eq!(took(&mut nand, quarter), 200_000 + 132, "4 spare bytes belong to 128");
    let spare = program(&mut nand, 1, (0, &[]), &[0; 2]).unwrap();
    assert_eq!(took(&mut nand, spare), 200_000 + 2);
    for (data, spare, bus) in [(512, 16, 528), (512, 0, 528), (128, 16, 144), (0, 16, 16)] {
        let part = PagePart { data: 0..data, spare: 0..spare };
        let ticket = nand.read_part(READY, Ppn(0), &part, Cause::Host).unwrap();
        assert_eq!(took(&mut nand, ticket), 20_000 + bus, "{data} and {spare}");
    }
    let reads = |operation| nand.counters().get(operation, Cause::Host);
    assert_eq!((reads(FlashOperation::Read), reads(FlashOperation::SpareRead)), (3, 1));
}

#[test]
fn a_power_cut_tears_what_was_being_programmed_and_nothing_else_of_the_flash_page() {
    for cut in [100_000, 300_000, 500_000] {
        let mut nand = array(4);
        program(&mut nand, 0, (0, &[1; 256]), &[]).unwrap();
        program(&mut nand, 0, (256, &[2; 128]), &[]).unwrap();
        nand.power_cut(Nanos(cut)).unwrap();
        let first = PagePart { data: 0..256, spare: 0..0 };
        let second = PagePart { data: 256..384, spare: 0..0 };
        let rest = PagePart { data: 384..512, spare: 0..16 };
        let is_torn = [&first, &second, &rest].map(|part| nand.is_torn(Ppn(0), part));
        assert_eq!(is_torn, [cut == 100_000, cut == 300_000, false], "at {cut}");
        let held = [0, 256].map(|index| byte(&nand, 0, index));
        let expected = match cut {
            100_000 => [None, None],
            300_000 => [Some(1), Some(0xFF)],
            _ => [Some(1), Some(2)],
        };
        assert_eq!(held, expected, "at {cut}");
        let next = program(&mut nand, 0, (384, &[3]), &[]);
        assert_eq!(next.is_ok(), cut == 500_000, "a torn flash page takes no program: {next:?}");
        nand.audit();
    }
}

#[test]
fn a_power_cut_undoes_further_programs_that_had_not_begun() {
    let mut nand = array(4);
    let payload = Payload { lpns: &[7], sequence: 1, contents: &[Some([5; 512].into())] };
    let done = nand.program(READY, Ppn(0), payload, CAUSE).unwrap();
    let at = nand.finish(done);
    nand.settle(at);
    nand.erase(READY, 1, CAUSE).unwrap();
    for value in [4, 1, 0] {
        nand.partial_program(READY, Ppn(0), 8, Some([value; 512].into()), CAUSE).unwrap();
    }
    let full = nand.partial_program(READY, Ppn(0), 8, None, CAUSE);
    assert!(matches!(full, Err(NandError::PartialProgramLimit { .. })));
    nand.power_cut(at).unwrap();
    assert_eq!(byte(&nand, 0, 0), Some(5), "what had not begun has not happened");
    for _ in 0..3 {
        nand.partial_program(READY, Ppn(0), 8, None, CAUSE).expect("nor does it count");
    }
}

#[test]
fn an_erase_that_had_not_begun_leaves_the_count_of_programs() {
    let mut nand = array(2);
    program(&mut nand, 0, (0, &[1]), &[]).unwrap();
    let done = program(&mut nand, 0, (1, &[1]), &[]).unwrap();
    let at = nand.finish(done);
    nand.settle(at);
    nand.read_part(READY, Ppn(4), &PagePart { data: 0..512, spare: 0..0 }, CAUSE).unwrap();
    nand.erase(READY, 0, CAUSE).unwrap();
    nand.power_cut(Nanos(at.0 + 1)).unwrap();
    assert_eq!((byte(&nand, 0, 0), byte(&nand, 0, 1)), (Some(1), Some(1)));
    let refused = program(&mut nand, 0, (2, &[1]), &[]);
    assert_eq!(refused, Err(NandError::PartialProgramLimit { flash_page: 0, limit: 2 }));
}

#[test]
fn the_power_fails_inside_a_program_of_a_part() {
    for is_second in [false, true] {
        let mut nand = array(4);
        nand.fail_power_after(u64::from(is_second), true);
        if is_second {
            program(&mut nand, 0, (0, &[1]), &[]).unwrap();
        }
        let failed = program(&mut nand, 0, (1, &[1]), &[]);
        assert_eq!(failed, Err(NandError::PowerLost));
        nand.power_on();
        assert!(nand.is_torn(Ppn(0), &PagePart { data: 1..2, spare: 0..0 }));
        assert!(!nand.is_torn(Ppn(0), &PagePart { data: 0..1, spare: 0..16 }));
        assert_eq!(byte(&nand, 0, 0), is_second.then_some(1));
    }
}

#[test]
fn small_pages_are_programmed_in_any_order() {
    let config = *array(1).config();
    let rules = Rules { program_order: ProgramOrder::Any, ..config.rules };
    let mut nand = NandArray::new(NandConfig { rules, ..config }).unwrap();
    for page in [3, 0, 2] {
        program(&mut nand, page, (0, &[1; 512]), &[]).unwrap();
    }
    assert_eq!(byte(&nand, 1, 0), None);
    nand.audit();
}
