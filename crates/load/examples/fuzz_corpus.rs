//! Makes the files that the fuzz targets of CSV and Parquet begin with (docs/fuzzing.md):
//! `cargo run -p nandu-load --example fuzz_corpus -- fuzz/corpus`.

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
    let scratch = tempfile::tempdir()?;
    let parquet = samples::parquet_files(scratch.path());
    for (target, samples) in [("csv_file", samples::csv_files()), ("parquet_file", parquet)] {
        let directory = Path::new(&corpus).join(target);
        std::fs::create_dir_all(&directory)?;
        for (name, bytes) in samples {
            std::fs::write(directory.join(name), bytes)?;
        }
        println!("{}", directory.display());
    }
    Ok(())
}
