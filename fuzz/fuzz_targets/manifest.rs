//! Any bytes as the list of a directory's files, and as its lines with a right checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu::hostile;

fuzz_target!(|bytes: &[u8]| {
    let _ = hostile::read_manifest(bytes);
});
