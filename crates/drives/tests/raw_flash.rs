//! The chips of every profile that has some, as raw flash.

use nandu_base::{ByteCount, Nanos, Ppn};
use nandu_device::RawFlash;
use nandu_device::raw_flash::{FlashPart, FlashRequest};
use nandu_device::testing::check_raw_flash_contract;
use nandu_drives::profile::{DriveKind, Profile, SimOptions};

/// As much of a drive as a test needs.
const CAPACITY: ByteCount = ByteCount::mib(16);

fn small(profile: &Profile) -> SimOptions {
    let capacity = Some(CAPACITY.min(profile.geometry.capacity()));
    SimOptions { capacity, ..SimOptions::default() }
}

#[test]
fn the_chips_of_every_drive_that_has_some_keep_the_contract_of_raw_flash() {
    let mut chip_count = 0;
    for name in Profile::list() {
        let profile = Profile::load(&name).expect("it is embedded");
        let open = || profile.open_raw_flash(small(&profile)).expect("it is sound");
        let Some(flash) = open() else {
            assert_ne!(profile.kind(), DriveKind::Ssd, "{name} is made of chips");
            continue;
        };
        println!("{name}: {:?}", flash.info());
        chip_count += 1;
        check_raw_flash_contract(&mut || Box::new(open().expect("it had chips before")));
    }
    assert!(chip_count > 10, "{chip_count} drives of chips");
}

#[test]
fn raw_flash_has_the_times_of_its_chips_alone() {
    let profile = Profile::load("myers-chip").expect("it is embedded");
    let mut flash = profile.open_raw_flash(small(&profile)).expect("it is sound").expect("chips");
    assert_eq!(flash.info().name, "sim:myers-chip");
    let page_bytes = flash.info().geometry.flash_page_bytes;
    let data = FlashPart::copy_of(0, &vec![0; page_bytes as usize]);
    let requests = [
        FlashRequest::program(1, Ppn(0), Some(data), None),
        FlashRequest::read(2, Ppn(0), Some(FlashPart::room(0, page_bytes)), None),
        FlashRequest::erase(3, 0),
    ];
    for request in requests {
        flash.submit(Nanos::ZERO, request).expect("it is legal");
    }
    let ends: Vec<u64> = std::iter::from_fn(|| flash.next_completion(Nanos::MAX))
        .map(|done| done.completed_at.0)
        .collect();
    assert_eq!(ends, [200_000, 220_000, 1_720_000], "S000 section 8.4: 200, 20, 1500 us");
    flash.audit();
}
