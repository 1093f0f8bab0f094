//! Any bytes as a table in PAX pages; the first says how large the database's pages are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_storage::hostile;
use nandu_storage::page::TRAILER_BYTES;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, pages)) = bytes.split_first() {
        let usable_bytes = (512 << (first % 8)) - TRAILER_BYTES;
        let _ = hostile::read_pax(usable_bytes, pages);
    }
});
