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
