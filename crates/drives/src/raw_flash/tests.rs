//! Chips as raw flash: the contract under all laws and orders of service, the cells against flash
//! in memory, the times against an oracle written apart.

use super::*;
use nandu_base::{Cause, Rng};
use nandu_device::raw_flash::{MemoryFlash, MemoryFlashConfig};
use nandu_device::testing::check_raw_flash_contract;
use nandu_nand::{BusPolicy, Energy, Geometry, PageTypes, Rules, Suspend, Timing};

const COMMAND_NS: u64 = 300;
const READ_NS: u64 = 20_000;
const PROGRAM_NS: u64 = 200_000;
const ERASE_NS: u64 = 1_500_000;
const BYTE_NS: u64 = 25;

fn config(channel_count: u32, dies_per_channel: u32, planes_per_die: u32) -> NandConfig {
    NandConfig {
        geometry: Geometry {
            channel_count,
            dies_per_channel,
            planes_per_die,
            erase_blocks_per_plane: 4,
            flash_pages_per_erase_block: 8,
            flash_page_bytes: 2048,
            spare_bytes: 64,
        },
        timing: Timing {
            read_ns: Nanos(READ_NS),
            program_ns: Nanos(PROGRAM_NS),
            program_type_ns: PageTypes::ALIKE,
            erase_ns: Nanos(ERASE_NS),
            command_ns: Nanos(COMMAND_NS),
            bus_bytes_per_second: 1_000_000_000 / BYTE_NS,
            cache_register: false,
        },
        energy: Energy::default(),
        rules: Rules { programs_per_erase: 4, ..Rules::default() },
        units_per_flash_page: 1,
        keep_content: false,
        power_cut_journal: false,
    }
}

fn flash(config: NandConfig, scheduling: Scheduling) -> NandFlash {
    NandFlash::new("chips", config, scheduling, 1).unwrap()
}

#[test]
fn chips_keep_the_contract_under_all_laws() {
    for programs_per_erase in [1, 2, 4] {
        for (program_order, paired_pages) in [
            (ProgramOrder::Ascending, false),
            (ProgramOrder::Any, false),
            (ProgramOrder::Ascending, true),
        ] {
            for (endurance, factory_bad_ppm) in [(0, 0), (5, 200_000)] {
                let rules = Rules {
                    program_order,
                    programs_per_erase,
                    endurance,
                    factory_bad_ppm,
                    factory_bad_seed: 3,
                    paired_pages,
                };
                let config = NandConfig { rules, ..config(2, 2, 1) };
                check_raw_flash_contract(&mut || Box::new(flash(config, Scheduling::default())));
            }
        }
    }
}

#[test]
fn chips_keep_the_contract_in_any_shape_and_order_of_service() {
    let first = Scheduling { read_priority: true, ..Scheduling::default() };
    let orders = [
        Scheduling::default(),
        first,
        Scheduling { suspend: Some(Suspend::MQSIM), ..first },
        Scheduling { bus: BusPolicy::ReadsFirst, ..first },
        Scheduling { bus: BusPolicy::Fair, ..Scheduling::default() },
    ];
    for (channels, dies, planes) in [(1, 1, 1), (1, 4, 1), (2, 1, 2), (3, 2, 4)] {
        for cache_register in [false, true] {
            for scheduling in orders {
                let mut config = config(channels, dies, planes);
                config.timing.cache_register = cache_register;
                check_raw_flash_contract(&mut || Box::new(flash(config, scheduling)));
            }
        }
    }
}

#[test]
fn a_single_server_is_no_raw_flash() {
    let single = Scheduling { service: Service::SingleServer, ..Scheduling::default() };
    let refused = NandFlash::new("chips", config(1, 1, 1), single, 1).unwrap_err();
    assert!(refused.to_string().contains("side by side"), "{refused}");
}

#[test]
fn the_seed_places_bad_erase_blocks() {
    let bad = |seed| {
        let mut config = config(2, 2, 2);
        config.rules.factory_bad_ppm = 300_000;
        let flash = NandFlash::new("chips", config, Scheduling::default(), seed).unwrap();
        (0..flash.info().geometry.erase_block_count)
            .filter(|&block| flash.is_bad(block))
            .collect::<Vec<_>>()
    };
    assert_eq!(bad(1), bad(1));
    assert_ne!(bad(1), bad(2));
}

/// A request of any kind, legal or not, about the first erase blocks.
fn any_request(id: u64, rng: &mut Rng) -> FlashRequest {
    let flash_page = Ppn(rng.below(4 * 8));
    let mut part = |most: u64| {
        (rng.below(3) > 0).then(|| {
            let first = rng.below(most);
            let count = 1 + rng.below((most - first).min(16));
            let mask = [0x00, 0x0F, 0xF0, 0xAA][nandu_base::to_index(rng.below(4))];
            FlashPart::copy_of(to_u32(first), &vec![mask; nandu_base::to_index(count)])
        })
    };
    let (data, spare) = (part(64), part(16));
    match rng.below(12) {
        0 => FlashRequest::erase(id, to_u32(flash_page.0 / 8)),
        1..7 => FlashRequest::program(id, flash_page, data, spare),
        _ => FlashRequest::read(id, flash_page, data, spare),
    }
}

/// Runs a request to its end; how it ended and what it delivered.
fn outcome(
    flash: &mut dyn RawFlash,
    request: FlashRequest,
) -> (Result<(), FlashError>, Vec<Vec<u8>>) {
    if let Err(rejected) = flash.submit(flash.now(), request) {
        return (Err(rejected.error), Vec::new());
    }
    let done = flash.next_completion(Nanos::MAX).unwrap();
    let buffers = match done.command {
        FlashCommand::Read { data, spare, .. } | FlashCommand::Program { data, spare, .. } => {
            [data, spare].into_iter().flatten().map(|part| part.buffer.to_vec()).collect()
        }
        FlashCommand::Erase { .. } => Vec::new(),
    };
    match done.result {
        Ok(()) => (Ok(()), buffers),
        Err(error) => (Err(error), Vec::new()),
    }
}

#[test]
fn cells_and_laws_are_those_of_flash_in_memory() {
    for (seed, limit) in (1..=12_u64).zip([1, 2, 4].into_iter().cycle()) {
        let is_ascending = seed % 2 == 0;
        let mut config = config(2, 1, 1);
        config.rules = Rules {
            programs_per_erase: limit,
            endurance: 9,
            program_order: match is_ascending {
                true => ProgramOrder::Ascending,
                false => ProgramOrder::Any,
            },
            ..Rules::default()
        };
        let mut chips = flash(config, Scheduling::default());
        let mut memory = MemoryFlash::new(MemoryFlashConfig {
            geometry: chips.info().geometry,
            programs_per_erase: limit,
            is_ascending,
            endurance: 9,
            ..MemoryFlashConfig::default()
        });
        let mut answers = [0_u32; 2];
        for id in 0..2000 {
            let request = |seed| any_request(id, &mut Rng::for_part(seed, &id.to_string()));
            let said = format!("{:?}", request(seed));
            let found = outcome(&mut chips, request(seed));
            assert_eq!(found, outcome(&mut memory, request(seed)), "seed {seed}: {said}");
            answers[usize::from(found.0.is_ok())] += 1;
            chips.audit();
            memory.audit();
        }
        assert_eq!(chips.counters(), memory.counters(), "seed {seed}");
        assert!(answers.iter().all(|&count| count > 200), "seed {seed}: {answers:?}");
    }
}

/// One request of a load, as the oracle sees it.
#[derive(Clone, Copy, Debug)]
struct Load {
    issued_at: u64,
    die: usize,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// So many bytes cross the bus.
    Read(u64),
    Program(u64),
    Erase,
}

/// When each request of a load ends, from the rules alone: a die does one thing at a time in the
/// order of submission; a channel moves one transfer at a time, that which was ready first. None
/// where two were ready at the same moment, which the rules leave to the lower number.
fn oracle(loads: &[Load], die_count: usize, channel_count: usize) -> Option<Vec<u64>> {
    let mut ends = vec![0; loads.len()];
    let (mut die_free, mut channel_free) = (vec![0; die_count], vec![0; channel_count]);
    let mut waiting: Vec<Vec<usize>> = (0..die_count)
        .map(|die| (0..loads.len()).rev().filter(|&load| loads[load].die == die).collect())
        .collect();
    let mut last_ready = vec![None; channel_count];
    loop {
        // Of each die the request whose turn it is, and when it wants the channel.
        let mut next: Option<(u64, usize)> = None;
        for die in 0..die_count {
            let Some(&load) = waiting[die].last() else { continue };
            let begun_at = loads[load].issued_at.max(die_free[die]) + COMMAND_NS;
            let ready = match loads[load].kind {
                Kind::Read(_) => begun_at + READ_NS,
                Kind::Program(_) => begun_at,
                Kind::Erase => begun_at + ERASE_NS,
            };
            next = Some(next.map_or((ready, die), |found| found.min((ready, die))));
        }
        let Some((ready, die)) = next else { return Some(ends) };
        let load = waiting[die].pop()?;
        let channel = die % channel_count;
        let (moved, array_ns) = match loads[load].kind {
            Kind::Read(bytes) => (bytes, 0),
            Kind::Program(bytes) => (bytes, PROGRAM_NS),
            Kind::Erase => (0, 0),
        };
        let mut end = ready;
        if moved > 0 {
            if last_ready[channel].replace(ready) == Some(ready) {
                return None;
            }
            channel_free[channel] = ready.max(channel_free[channel]) + moved * BYTE_NS;
            end = channel_free[channel] + array_ns;
        }
        (ends[load], die_free[die]) = (end, end);
    }
}

/// A load of whole and partial requests on all dies, far more than they keep up with at times.
fn load(rng: &mut Rng, erase_blocks: u32, dies: u32) -> (Vec<Load>, Vec<FlashRequest>) {
    let (mut now, mut next_index) = (0, vec![0; erase_blocks as usize]);
    let mut loads = Vec::new();
    let mut requests = Vec::new();
    for id in 0..400 {
        now += rng.below(if id / 50 % 2 == 0 { 3_000 } else { 150_000 });
        let block = to_u32(rng.below(erase_blocks.into()));
        let index = &mut next_index[block as usize];
        let flash_page = |index: u32| Ppn(u64::from(block) * 8 + u64::from(index));
        let room = FlashPart::room;
        let bytes = |count: usize| Some(FlashPart::copy_of(0, &vec![0; count]));
        let (kind, request) = match rng.below(8) {
            0..3 => {
                let page = flash_page(to_u32(rng.below(8)));
                let (data, spare) = (Some(room(0, 2048)), Some(room(0, 64)));
                (Kind::Read(2112), FlashRequest::read(id, page, data, spare))
            }
            3 => {
                let page = flash_page(to_u32(rng.below(8)));
                (Kind::Read(64), FlashRequest::read(id, page, None, Some(room(0, 64))))
            }
            4 => {
                // The spare bytes of a quarter of the data come along with it.
                let page = flash_page(to_u32(rng.below(8)));
                (Kind::Read(528), FlashRequest::read(id, page, Some(room(512, 512)), None))
            }
            5 if *index < 8 => {
                *index += 1;
                let request = FlashRequest::program(id, flash_page(*index - 1), bytes(512), None);
                (Kind::Program(528), request)
            }
            _ if *index < 8 => {
                *index += 1;
                let (data, spare) = (bytes(2048), bytes(64));
                let request = FlashRequest::program(id, flash_page(*index - 1), data, spare);
                (Kind::Program(2112), request)
            }
            _ => {
                *index = 0;
                (Kind::Erase, FlashRequest::erase(id, block))
            }
        };
        loads.push(Load { issued_at: now, die: (block % dies) as usize, kind });
        requests.push(request.caused_by(Cause::Host));
    }
    (loads, requests)
}

#[test]
fn dies_and_channels_take_the_time_that_the_oracle_says() {
    let mut compared_count = 0;
    for (channels, dies_per_channel) in [(1, 1), (1, 4), (2, 3), (4, 4)] {
        let dies = channels * dies_per_channel;
        for seed in 1..=30 {
            let (loads, requests) = load(&mut Rng::new(seed), dies * 4, dies);
            let Some(expected) = oracle(&loads, dies as usize, channels as usize) else { continue };
            let mut flash = flash(config(channels, dies_per_channel, 1), Scheduling::default());
            let mut ends = vec![0; loads.len()];
            let mut note = |done: FlashCompletion| {
                done.result.unwrap();
                ends[nandu_base::to_index(done.id)] = done.completed_at.0;
            };
            for (request, load) in requests.into_iter().zip(&loads) {
                while let Some(done) = flash.next_completion(Nanos(load.issued_at)) {
                    note(done);
                }
                flash.submit(Nanos(load.issued_at), request).unwrap();
                flash.audit();
            }
            while let Some(done) = flash.next_completion(Nanos::MAX) {
                note(done);
            }
            assert_eq!(ends, expected, "{channels} channels of {dies_per_channel} dies, {seed}");
            compared_count += 1;
        }
    }
    assert!(compared_count > 60, "{compared_count} loads without a tie");
}

#[test]
fn an_erase_in_vain_takes_its_time() {
    let mut config = config(1, 1, 1);
    config.rules.endurance = 1;
    let mut flash = flash(config, Scheduling::default());
    let mut ends = Vec::new();
    for id in 0..2 {
        flash.submit(Nanos::ZERO, FlashRequest::erase(id, 3)).unwrap();
    }
    while let Some(done) = flash.next_completion(Nanos::MAX) {
        ends.push((done.result.is_ok(), done.completed_at.0));
    }
    let each = COMMAND_NS + ERASE_NS;
    assert_eq!(ends, [(true, each), (false, 2 * each)]);
}
