//! Any bytes as a file in SQLite's format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_storage::hostile;

fuzz_target!(|bytes: &[u8]| {
    let _ = hostile::read_sqlite_file(bytes);
});
