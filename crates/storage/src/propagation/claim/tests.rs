//! Claims on volumes and on raw flash: what was said last counts, whatever is cut, and wear is spread.

#![allow(clippy::cast_possible_truncation, reason = "tests count small things")]

use super::*;
use crate::propagation::shared_flash::SharedFlash;
use crate::volume::DeviceVolume;
use crate::volume::testing::SharedDevice;
use nandu_base::{Nanos, Rng};
use nandu_device::raw_flash::{FlashGeometry, MemoryFlash, MemoryFlashConfig};
use nandu_device::{
    Device, FaultPlan, FaultyDevice, Geometry, MemoryConfig, MemoryDevice, UnflushedFate,
};
use std::sync::Arc;

type Disk = SharedDevice<FaultyDevice<MemoryDevice>>;

fn disk() -> Disk {
    let geometry = Geometry { sector_bytes: 512, sector_count: 8 << 10 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    Disk::new(FaultyDevice::new(device, FaultPlan::default()))
}

fn claim(run: u32) -> Claim {
    let (medium, place) = ("tier".to_owned(), "ä".repeat(TEXT_BYTES_MAX));
    let (next_run, is_made, is_closed) = (run + 1, run.is_multiple_of(2), run.is_multiple_of(3));
    Claim { database: 7, medium, place, run, next_run, is_made, is_closed }
}

fn run_of(found: &ClaimedMedium) -> Option<u32> {
    let run = found.claim()?.run;
    let expected = claim(run);
    let place = "ä".repeat(TEXT_BYTES_MAX / 2);
    assert_eq!(found.claim(), Some(&Claim { place, ..expected }), "all of it comes back");
    Some(run)
}

fn volume(disk: &Disk, is_new: bool) -> Medium {
    let device = Box::new(disk.clone());
    let volume = if is_new { DeviceVolume::format(device) } else { DeviceVolume::open(device) };
    Medium::Volume(Io::new(Box::new(volume.unwrap()), Arc::default()))
}

fn flash(chips: &SharedFlash) -> Medium {
    Medium::RawFlash(FlashIo::new(Box::new(chips.clone()), Arc::default()))
}

#[test]
fn a_cut_leaves_what_a_volume_said_last_or_was_about_to_say() {
    for at in 1..200 {
        let disk = disk();
        let mut medium = ClaimedMedium::find("tier", &volume(&disk, true)).unwrap();
        let first = disk.lock().submitted_count();
        disk.lock().set_plan(FaultPlan {
            power_cut_at_request: Some(first + at),
            torn_sector_count: Some(0),
            unflushed: UnflushedFate::Torn,
            seed: at,
            ..FaultPlan::default()
        });
        let said = (1..=6).take_while(|&run| medium.say(claim(run)).is_ok()).count();
        drop(medium);
        {
            let mut device = disk.lock();
            device.cut_power();
            while device.next_completion(Nanos::MAX).is_some() {}
            device.power_on();
            device.set_plan(FaultPlan::default());
        }
        let mut found = ClaimedMedium::find("tier", &volume(&disk, false)).unwrap();
        assert!(!found.is_damaged());
        let run = run_of(&found).unwrap_or(0) as usize;
        assert!((said..=said + 1).contains(&run), "cut at {at}: {said} were said, {run} found");
        found.say(claim(9)).unwrap();
        let found = ClaimedMedium::find("tier", &volume(&disk, false)).unwrap();
        assert_eq!(run_of(&found), Some(9));
        if said == 6 {
            assert!(at > 12, "that many requests were cut");
            return;
        }
    }
    panic!("there is an end");
}

#[test]
fn what_is_no_claim_is_told_and_is_not_taken_for_nothing() {
    let disk = disk();
    let medium = volume(&disk, true);
    let Medium::Volume(io) = &medium else { unreachable!("it is one") };
    let nothing = ClaimedMedium::find("tier", &medium).unwrap();
    assert!(nothing.claim().is_none() && !nothing.is_damaged());
    for slot in 1..=2 {
        write_slot(io, slot, &[5; CLAIM_BYTES as usize]).unwrap();
    }
    let damaged = ClaimedMedium::find("tier", &medium).unwrap();
    assert!(damaged.claim().is_none() && damaged.is_damaged());
    write_slot(io, 4, &claim(4).encode(4)).unwrap();
    let found = ClaimedMedium::find("tier", &medium).unwrap();
    assert_eq!(run_of(&found), Some(4));
    assert!(!found.is_damaged(), "one of the two counts");
}

#[test]
fn a_cut_leaves_what_raw_flash_said_last_or_was_about_to_say() {
    for at in 1..200 {
        let chips = SharedFlash::new();
        let mut medium = ClaimedMedium::find("chips", &flash(&chips)).unwrap();
        let first = chips.submitted_count();
        chips.cut_at(first + at);
        // Over more than the four erase blocks.
        let said = (1..=40).take_while(|&run| medium.say(claim(run)).is_ok()).count();
        drop(medium);
        chips.restart();
        let mut found = ClaimedMedium::find("chips", &flash(&chips)).unwrap();
        let run = run_of(&found).unwrap_or(0) as usize;
        assert!((said..=said + 1).contains(&run), "cut at {at}: {said} were said, {run} found");
        found.say(claim(90)).unwrap();
        let found = ClaimedMedium::find("chips", &flash(&chips)).unwrap();
        assert_eq!(run_of(&found), Some(90));
        if said == 40 {
            assert!(at > 40, "that many requests were cut");
            return;
        }
    }
    panic!("there is an end");
}

/// Chips of a few erase blocks, four pages each, that stand so many erases.
fn small_chips(has_paired_pages: bool, endurance: u32) -> FlashIo {
    let geometry = FlashGeometry {
        erase_block_count: 8,
        flash_pages_per_erase_block: 4,
        flash_page_bytes: CLAIM_BYTES,
        spare_bytes: 16,
        die_count: 1,
    };
    let config = MemoryFlashConfig {
        geometry,
        has_paired_pages,
        endurance,
        is_ascending: true,
        programs_per_erase: 1,
        ..MemoryFlashConfig::default()
    };
    FlashIo::new(Box::new(MemoryFlash::new(config)), Arc::default())
}

#[test]
fn erase_blocks_take_turns_until_but_one_is_worn_out() {
    for (has_paired_pages, per_block) in [(false, 4), (true, 2)] {
        let chips = small_chips(has_paired_pages, 10);
        let find = || ClaimedMedium::find("chips", &Medium::RawFlash(chips.clone())).unwrap();
        let mut medium = find();
        let mut said = 0;
        while medium.say(claim(said + 1)).is_ok() {
            said += 1;
            if said % 7 == 0 {
                assert_eq!(run_of(&find()), Some(said));
            }
        }
        assert!(said >= 3 * 10 * per_block, "{said} claims, {per_block} to an erase block");
        assert_eq!(run_of(&find()), Some(said), "the last one stays");
        let told = medium.say(claim(said + 1)).unwrap_err().to_string();
        assert!(told.contains("which say whose it is, are bad but one at most"), "{told}");
    }
}

#[test]
fn what_a_claim_lies_in_is_bad_to_the_propagation() {
    let chips = small_chips(false, 0);
    let own = chips.clone().without_first_blocks(CLAIM_BLOCK_COUNT);
    for erase_block in 0..8 {
        let is_kept = erase_block < CLAIM_BLOCK_COUNT;
        assert_eq!((own.is_bad(erase_block), chips.is_bad(erase_block)), (is_kept, false));
        let erase = own.submit(Cause::Host, FlashCommand::Erase { erase_block });
        let flash_page = own.info().geometry.flash_page(erase_block, 0);
        let data = Some(FlashPart::copy_of(0, &[1; 512]));
        let program =
            own.submit(Cause::Host, FlashCommand::Program { flash_page, data, spare: None });
        for answer in [erase, program] {
            match answer {
                Ok(ticket) => assert!(!is_kept && own.wait(ticket).result.is_ok()),
                Err(rejected) => {
                    assert!(is_kept, "{rejected}");
                    assert_eq!(rejected.error, FlashError::BadEraseBlock { erase_block });
                }
            }
        }
    }
}

#[test]
fn chips_without_room_for_a_claim_are_refused() {
    let geometry = FlashGeometry {
        erase_block_count: CLAIM_BLOCK_COUNT,
        flash_pages_per_erase_block: 4,
        flash_page_bytes: CLAIM_BYTES,
        spare_bytes: 16,
        die_count: 1,
    };
    let short_pages = FlashGeometry { erase_block_count: 8, flash_page_bytes: 256, ..geometry };
    for geometry in [geometry, short_pages] {
        let flash =
            MemoryFlash::new(MemoryFlashConfig { geometry, ..MemoryFlashConfig::default() });
        let medium = Medium::RawFlash(FlashIo::new(Box::new(flash), Arc::default()));
        let told = ClaimedMedium::find("chips", &medium).err().unwrap().to_string();
        assert!(told.contains("has no room to say whose it is"), "{told}");
    }
}

#[test]
fn bytes_that_only_look_like_a_claim_harm_nobody() {
    let mut rng = Rng::new(3);
    let mut damaged_count = 0;
    for _ in 0..2000 {
        let mut bytes = claim(1).encode(1);
        for _ in 0..=rng.below(3) {
            let at = COVERED_FROM + rng.below(500) as usize;
            bytes[at] = rng.below(256) as u8;
        }
        let sum = crc32c::crc32c(&bytes[COVERED_FROM..]).to_be_bytes();
        bytes[MAGIC.len()..COVERED_FROM].copy_from_slice(&sum);
        match Claim::decode(&bytes, 0) {
            Found::Whole(..) => {}
            Found::Damaged => damaged_count += 1,
            Found::Nothing => panic!("there is something"),
        }
    }
    assert!(damaged_count > 20, "texts that end nowhere, or are none");
}
