//! Any text as a profile; what is one is opened in small.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_base::ByteCount;
use nandu_drives::profile::{Profile, SimOptions};

fuzz_target!(|text: &str| {
    let Ok(profile) = Profile::parse("x", "x.toml", text) else { return };
    let capacity = Some(profile.geometry.capacity().min(ByteCount::mib(8)));
    let _ = profile.open(SimOptions { capacity, keep_data: false, ..SimOptions::default() });
});
