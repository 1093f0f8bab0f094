//! Any bytes as the file of a database's settings, and as its text with a right checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_storage::hostile;

fuzz_target!(|bytes: &[u8]| {
    let _ = hostile::read_settings(bytes);
});
