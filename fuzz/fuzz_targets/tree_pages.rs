//! Any bytes as pages of a B+-tree; the first says how large they are.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_storage::hostile;

fuzz_target!(|bytes: &[u8]| {
    if let Some((&first, pages)) = bytes.split_first() {
        let page_bytes = 512 << (first % 8);
        let _ = hostile::read_tree(page_bytes, pages);
    }
});
