//! Any bytes as a file of CSV.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_load::{CsvOptions, CsvRows, RowSource};

fuzz_target!(|bytes: &[u8]| {
    let input = Box::new(std::io::Cursor::new(bytes.to_vec()));
    let Ok(mut rows) = CsvRows::open(input, "bytes", None, &CsvOptions::default()) else { return };
    while let Ok(true) = rows.next_rows(&mut |_| Ok(())) {}
});
