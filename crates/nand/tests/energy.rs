//! Energy against sums by hand: n reads, m programs, k erases, and the bytes on the bus.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use nandu_base::{Cause, Nanos, Picojoules, Ppn};
use nandu_nand::{ChipOverrides, Energy, NandArray, NandProfile, Payload, Ticket, presets};

const CAUSE: Cause = Cause::Host;

fn profile(preset: &str) -> NandProfile {
    NandProfile {
        preset: preset.into(),
        channel_count: 1,
        dies_per_channel: 1,
        erase_blocks_per_plane: 4,
        ..NandProfile::default()
    }
}

/// Programs `programs` flash pages of erase block 0, reads `reads` times `read_bytes` of the first,
/// erases `erases` other erase blocks.
fn energy_of(
    profile: &NandProfile,
    programs: u64,
    reads: u64,
    read_bytes: u32,
    erases: u32,
) -> u128 {
    let mut nand = NandArray::new(profile.resolve().unwrap()).unwrap();
    let mut last = Ticket::READY;
    for page in 0..programs {
        let payload = Payload { lpns: &[7], sequence: page + 1, contents: &[] };
        last = nand.program(last, Ppn(page), payload, CAUSE).unwrap();
    }
    for _ in 0..reads {
        last = nand.read(last, Ppn(0), read_bytes, CAUSE).unwrap();
    }
    for block in 1..=erases {
        last = nand.erase(last, block, CAUSE).unwrap();
    }
    nand.finish(last);
    nand.energy().0
}

#[test]
fn a_sequence_costs_the_sum_of_its_commands_and_bytes() {
    let energy = Energy {
        read_picojoules: Picojoules(1_000_000_000),
        program_picojoules: Picojoules(1_000_000_000_000),
        erase_picojoules: Picojoules(500_000_000_000),
        transfer_picojoules_per_byte: Picojoules(1),
    };
    let profile = NandProfile {
        overrides: ChipOverrides { energy: Some(energy), ..ChipOverrides::default() },
        ..profile("k9xxg08uxm_bus")
    };
    // 5 programs move whole pages of 2048 bytes, 7 reads 100 bytes each.
    let expected = 5 * 1_000_000_000_000 + 7 * 1_000_000_000 + 3 * 500_000_000_000;
    assert_eq!(energy_of(&profile, 5, 7, 100, 3), expected + 5 * 2048 + 7 * 100);
}

#[test]
fn every_preset_charges_what_its_supply_draws_in_its_times() {
    for chip in presets() {
        let config = profile(chip.name).resolve().unwrap();
        let Energy { read_picojoules, program_picojoules, erase_picojoules, .. } = config.energy;
        let watts = chip.supply.millivolts as f64 * chip.supply.plane_microamperes as f64 * 1e-9;
        for (energy, time) in [
            (read_picojoules, chip.timing.read_ns),
            (program_picojoules, chip.timing.program_ns),
            (erase_picojoules, chip.timing.erase_ns),
        ] {
            let expected = watts * time.0 as f64 * 1e3;
            assert!((energy.0 as f64 - expected).abs() < 1.0, "{}: {expected} pJ", chip.name);
        }
        let transfer = config.energy.transfer_picojoules_per_byte.0;
        let bytes = u128::from(chip.flash_page_bytes);
        let expected = 2 * (program_picojoules.0 + bytes * transfer)
            + 3 * (read_picojoules.0 + 512 * transfer)
            + erase_picojoules.0;
        assert_eq!(energy_of(&profile(chip.name), 2, 3, 512, 1), expected, "{}", chip.name);
        let folded = chip.timing.bus_bytes_per_second == 0;
        assert_eq!(folded, transfer == 0, "{}: a folded transfer is in the array's", chip.name);
        assert!(chip.supply_source.contains("[M"), "{}: the supply has a marked source", chip.name);
    }
}

#[test]
fn overridden_times_change_the_energy_and_overridden_energy_stays() {
    let times = ChipOverrides { read_ns: Some(Nanos(40_000)), ..ChipOverrides::default() };
    let slow = NandProfile { overrides: times, ..profile("myers_slc") };
    let usual = profile("myers_slc").resolve().unwrap().energy;
    let energy = slow.resolve().unwrap().energy;
    assert_eq!(energy.read_picojoules.0, 2 * usual.read_picojoules.0);
    assert_eq!(energy.erase_picojoules, usual.erase_picojoules);
    let none = ChipOverrides { energy: Some(Energy::default()), ..times };
    let none = NandProfile { overrides: none, ..slow };
    assert_eq!(none.resolve().unwrap().energy, Energy::default());
}
