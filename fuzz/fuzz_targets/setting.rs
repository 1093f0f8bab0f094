//! Any lines `KEY=VALUE` as settings of a drive that is simulated.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_sim::DriveChoice;

fuzz_target!(|text: &str| {
    let settings = text.lines().filter_map(|line| line.split_once('='));
    let settings = settings.map(|(key, value)| (key.to_owned(), value.to_owned())).collect();
    for name in ["myers_slc", "device-a"] {
        let settings = Vec::clone(&settings);
        let _ =
            DriveChoice { name: name.into(), settings, ..DriveChoice::default() }.resolve(false);
    }
});
