//! Makes the files that the fuzz targets begin with, a directory for each (docs/fuzzing.md):
//! `cargo run -p nandu-storage --example fuzz_corpus -- fuzz/corpus`.

#![allow(clippy::print_stdout, reason = "a program for the terminal")]
#![allow(clippy::unwrap_used, reason = "the samples are those of tests")]

#[path = "../tests/samples/mod.rs"]
mod samples;

use std::path::Path;

fn main() -> std::io::Result<()> {
    let Some(corpus) = std::env::args_os().nth(1) else {
        println!("usage: fuzz_corpus DIRECTORY");
        return Ok(());
    };
    // The first byte of these targets' input is the page size: 512 bytes are the first choice.
    let sized = |(name, pages): samples::Sample| (name, [vec![0], pages].concat());
    let trees = samples::trees().into_iter().map(sized);
    let pax_tables = samples::pax_tables().into_iter().map(sized);
    for (target, samples) in [
        ("sqlite_file", samples::sqlite_files()),
        ("tree_pages", trees.collect()),
        ("pax_pages", pax_tables.collect()),
        ("log_record", samples::log_records()),
        ("log_file", samples::log_files()),
        ("settings", samples::settings_files()),
    ] {
        let directory = Path::new(&corpus).join(target);
        std::fs::create_dir_all(&directory)?;
        let (count, mut byte_count) = (samples.len(), 0);
        for (name, bytes) in samples {
            byte_count += bytes.len();
            std::fs::write(directory.join(name), bytes)?;
        }
        println!("{}: {count} files, {byte_count} bytes", directory.display());
    }
    Ok(())
}
