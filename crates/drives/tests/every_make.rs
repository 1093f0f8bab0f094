//! What every make of drive has to keep. A new one is tested here since it stands in [`DriveKind::ALL`] and has
//! a profile.

use nandu_base::ByteCount;
use nandu_device::testing::check_contract;
use nandu_drives::profile::{DriveKind, Profile, SimOptions};

/// As much of a drive as a test needs.
const CAPACITY: ByteCount = ByteCount::mib(16);

#[test]
fn every_make_has_profiles_and_a_small_drive_of_each_keeps_the_contract() {
    let profiles: Vec<Profile> =
        Profile::list().iter().map(|name| Profile::load(name).expect("it is embedded")).collect();
    for &kind in DriveKind::ALL {
        let of_kind: Vec<_> = profiles.iter().filter(|profile| profile.kind() == kind).collect();
        assert!(!of_kind.is_empty(), "no profile is of the kind {}", kind.label());
        for profile in of_kind {
            println!("{}: {}", kind.label(), profile.name);
            check_contract(&mut || {
                let capacity = Some(CAPACITY.min(profile.geometry.capacity()));
                profile.open(SimOptions { capacity, ..SimOptions::default() }).expect("it is sound")
            });
        }
    }
}

#[test]
fn what_is_asked_of_a_drive_is_what_its_devices_show() {
    for name in Profile::list() {
        let profile = Profile::load(&name).expect("it is embedded");
        let capacity = Some(CAPACITY.min(profile.geometry.capacity()));
        let options = SimOptions { capacity, ..SimOptions::default() };
        let device = profile.open(options).expect("it is sound");
        assert_eq!(profile.counts_flash(), device.counters().flash.is_some(), "{name}");
    }
    let asked = |name: &str| {
        let profile = Profile::load(name).expect("it is known");
        let answers = (profile.has_arm(), profile.needs_filling());
        (answers.0.expect("known"), answers.1.expect("known"), profile.counts_flash())
    };
    for (name, answers) in [
        ("wd2000jb", (true, false, false)),
        ("device-a", (false, true, true)),
        ("pcm", (false, false, false)),
        ("array:stripe:sim:wd2000jb*2", (true, false, false)),
        ("array:stripe:sim:device-a*2", (false, true, true)),
        ("array:stripe:sim:device-a*1+sim:wd2000jb*1", (true, true, true)),
    ] {
        assert_eq!(asked(name), answers, "{name}: an arm, to be filled, counters of flash");
    }
}
