//! Any bytes as a record of the log.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_storage::hostile;

fuzz_target!(|bytes: &[u8]| {
    let _ = hostile::read_log_record(bytes);
});
