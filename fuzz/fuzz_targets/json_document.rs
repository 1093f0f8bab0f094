//! Any bytes as a document of JSON; see `comes_out_as_it_went_in`.
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandu_xml::DocumentFormat;

#[path = "../xml_database.rs"]
mod xml_database;

fuzz_target!(|bytes: &[u8]| {
    let indexes = ["elements", "text://*", "number://_"];
    xml_database::comes_out_as_it_went_in(bytes, DocumentFormat::Json, indexes);
});
