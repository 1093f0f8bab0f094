//! Flash pages of several types: what programs of whole erase blocks take, one by one and in batches,
//! with a single server and with dies side by side.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Cause, Nanos, Ppn};
use nandu_nand::{
    ChipOverrides, NandArray, NandConfig, NandProfile, PageTypes, Payload, Scheduling, Service,
    Ticket,
};

const COMMAND_NS: u64 = 7;
const READ_NS: u64 = 20;
/// 2112 bytes at 1 GB/s.
const TRANSFER_NS: u64 = 2112;
const PAGES: u32 = 64;

/// One to four types with one mean.
const TIMES: [&[u64]; 5] = [&[], &[900], &[300, 1500], &[200, 500, 2000], &[100, 300, 1000, 2200]];

fn config(times: &[u64], planes: u32) -> NandConfig {
    let times: Vec<Nanos> = times.iter().copied().map(Nanos).collect();
    let overrides = ChipOverrides {
        read_ns: Some(Nanos(READ_NS)),
        program_ns: times.is_empty().then_some(Nanos(900)),
        program_type_ns: Some(PageTypes::new(&times).unwrap()),
        command_ns: Some(Nanos(COMMAND_NS)),
        bus_bytes_per_second: Some(1_000_000_000),
        ..ChipOverrides::default()
    };
    let profile = NandProfile {
        preset: "myers_slc".into(),
        channel_count: 1,
        dies_per_channel: 1,
        planes_per_die: Some(planes),
        erase_blocks_per_plane: 4,
        overrides,
        units_per_flash_page: None,
    };
    profile.resolve().unwrap()
}

fn array(config: NandConfig, service: Service) -> NandArray {
    let mut nand = NandArray::new(config).unwrap();
    nand.set_scheduling(Scheduling { service, ..Scheduling::default() });
    nand
}

/// Programs rows from index `first` on in batches of those sizes, each batch behind the one before;
/// answers when all is done.
fn program(nand: &mut NandArray, planes: u32, batches: &[u32]) -> u64 {
    let (mut index, mut after) = (0, Ticket::READY);
    for &rows in batches {
        let lpns: Vec<u32> = (0..rows * planes).collect();
        let payload = Payload { lpns: &lpns, sequence: u64::from(index) + 1, contents: &[] };
        let first = Ppn(index.into());
        after = nand.program_rows(after, first, planes, payload, Cause::Host).unwrap();
        index += rows;
    }
    nand.finish(after).0
}

/// What the programs of the first `count` indices take in the array, by the definition.
fn sum_of(times: &[u64], count: u32) -> u64 {
    let time_of = |index| times.get(index % times.len().max(1)).copied().unwrap_or(900);
    (0..count as usize).map(time_of).sum()
}

#[test]
fn whole_erase_blocks_take_the_sum_of_their_types_however_they_are_programmed() {
    let shapes: [Vec<u32>; 4] =
        [vec![1; PAGES as usize], vec![PAGES], vec![1, 5, 3, 20, 35], vec![2; PAGES as usize / 2]];
    for times in TIMES {
        for planes in [1, 2] {
            for batches in &shapes {
                for service in [Service::SingleServer, Service::Parallel] {
                    for journal in [false, true] {
                        let config =
                            NandConfig { power_cut_journal: journal, ..config(times, planes) };
                        let mut nand = array(config, service);
                        let end = program(&mut nand, planes, batches);
                        let each = COMMAND_NS + TRANSFER_NS * u64::from(planes);
                        let expected = sum_of(times, PAGES) + u64::from(PAGES) * each;
                        assert_eq!(end, expected, "{times:?} {planes} {batches:?} {service:?}");
                        assert_eq!(nand.busy(), Nanos(expected));
                    }
                }
            }
        }
    }
}

#[test]
fn the_mean_over_an_erase_block_of_whole_word_lines_is_the_mean_of_the_types() {
    for times in &TIMES[1..] {
        let count = u64::from(PAGES) / times.len() as u64 * times.len() as u64;
        let mut nand = array(config(times, 1), Service::SingleServer);
        let end = program(&mut nand, 1, &vec![1; usize::try_from(count).unwrap()]);
        let programs = end - count * (COMMAND_NS + TRANSFER_NS);
        assert_eq!(programs, 900 * count);
        assert_eq!(nand.config().timing.program_ns, Nanos(900));
    }
}

#[test]
fn single_programs_copy_backs_and_partial_programs_take_the_time_of_the_page_they_program() {
    let times = [100, 300, 1000, 2200];
    for service in [Service::SingleServer, Service::Parallel] {
        let mut nand = array(config(&times, 1), service);
        let mut now = 0;
        for index in 0..9_u32 {
            let payload = Payload { lpns: &[index], sequence: u64::from(index) + 1, contents: &[] };
            nand.at(Nanos(now));
            let after = Ticket::of_time(Nanos(now * u64::from(service == Service::SingleServer)));
            let done = nand.program(after, Ppn(index.into()), payload, Cause::Host).unwrap();
            let end = nand.finish(done).0;
            assert_eq!(end - now, COMMAND_NS + TRANSFER_NS + times[index as usize % 4]);
            now = end;
        }
        let done = nand.partial_program(Ticket::READY, Ppn(5), 0, None, Cause::Host).unwrap();
        let end = nand.finish(done).0;
        assert_eq!(end - now, COMMAND_NS + times[1]);
        // From index 8 to index 2 of another erase block.
        let to = nand.geometry().flash_page(1, 2);
        let done = nand.copy_back(Ticket::READY, (Ppn(8), to), 20, Cause::Host).unwrap();
        assert_eq!(nand.finish(done).0 - end, COMMAND_NS + READ_NS + times[2]);
    }
}

#[test]
fn runs_are_not_taken_where_types_differ() {
    for times in TIMES {
        let nand = array(config(times, 1), Service::SingleServer);
        assert_eq!(nand.takes_runs(), times.is_empty());
    }
}

#[test]
fn energy_follows_the_mean_of_the_types() {
    let alike = config(&[], 1);
    for times in TIMES {
        assert_eq!(config(times, 1).energy, alike.energy);
    }
}

#[test]
fn what_makes_no_sense_is_refused_by_name() {
    let error = PageTypes::new(&[Nanos(1); 5]).unwrap_err().to_string();
    assert!(error.contains("program_type_ns has 5 times"), "{error}");
    let mut config = config(&[300, 1500], 1);
    config.timing.program_ns = Nanos(901);
    let error = NandArray::new(config).unwrap_err().to_string();
    assert!(error.contains("the mean of program_type_ns"), "{error}");
    config.timing.program_type_ns = PageTypes::new(&[Nanos(1), Nanos(3_000_000_000)]).unwrap();
    let error = NandArray::new(config).unwrap_err().to_string();
    assert!(error.contains("program_type_ns is 3000000000"), "{error}");
}
