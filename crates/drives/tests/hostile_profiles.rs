//! Mutated profiles: a drive or an error that names the figure, no panic, no memory out of proportion. The fuzz
//! target throws any text at the same parser (docs/fuzzing.md).

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

#[path = "../../storage/tests/hostile/mod.rs"]
mod hostile;

use hostile::{measured, mutate_text};
use nandu_base::{ByteCount, Nanos, Rng};
use nandu_device::Request;
use nandu_drives::profile::{Profile, ProfileError, SimOptions};

/// Mutants of each profile.
const MUTANT_COUNT: u64 = 60;
/// Memory that a drive in small may take.
const MEMORY_BYTES_MAX: usize = 512 << 20;

/// Opens a profile in small, and has it serve some requests.
fn serve(text: &str) -> Result<(), ProfileError> {
    let profile = Profile::parse("x", "x.toml", text)?;
    let capacity = Some(profile.geometry.capacity().min(ByteCount::mib(8)));
    let options = SimOptions { capacity, keep_data: false, ..SimOptions::default() };
    let mut device = profile.open(options)?;
    let sector_count = device.info().geometry.sector_count;
    for id in 0..64 {
        let sector = id * 7 % sector_count;
        let request = match id % 3 {
            0 => Request::read(id, sector, 1, None),
            _ => Request::write(id, sector, 1, None),
        };
        let now = device.now();
        if device.submit(now, request).is_err() {
            device.next_completion(Nanos::MAX);
        }
    }
    while device.in_flight() > 0 {
        device.next_completion(Nanos::MAX);
    }
    Ok(())
}

#[test]
fn mutated_profiles_are_drives_or_an_error() {
    let (mut drive_count, mut error_count) = (0, 0);
    for name in Profile::list() {
        let text = Profile::load(&name).unwrap().text;
        let mut rng = Rng::for_part(MUTANT_COUNT, &name);
        for round in 0..MUTANT_COUNT {
            let mut mutated = text.clone();
            for _ in 0..=rng.below(3) {
                mutate_text(&mut mutated, &mut rng);
            }
            let (served, most) = measured(|| serve(&mutated));
            assert!(most <= MEMORY_BYTES_MAX, "{name}, round {round}: {most} bytes");
            match served {
                Ok(()) => drive_count += 1,
                Err(_) => error_count += 1,
            }
        }
    }
    assert!(drive_count > 100 && error_count > 100, "{drive_count} drives, {error_count} errors");
}
