//! Our program: `nandu external sort` from a file into another, beside the library that it is made of.

use super::{Checksum, Job, RECORD_BYTES, key_of};
use crate::Failure;
use crate::process::Meter;
use crate::stock::{complete, failure_at};
use std::fs::File;
use std::io::{BufReader, BufWriter, ErrorKind, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;

fn records_of(data: &Path) -> PathBuf {
    data.join("sort.u64")
}

/// Writes records as numbers, a key and what goes with it, unless they are there.
///
/// # Errors
/// If they cannot be written.
pub(super) fn make_records(job: &Job, record_count: u64) -> Result<(), Failure> {
    let path = records_of(&job.data);
    if path.exists() {
        return Ok(());
    }
    eprintln!("writing {}", path.display());
    let part = path.with_extension("part");
    let fail = |error: std::io::Error| failure_at(&part, &error);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(&part).map_err(fail)?);
    for number in 0..record_count {
        file.write_all(&key_of(number, job.seed).to_le_bytes()).map_err(fail)?;
        file.write_all(&number.to_le_bytes()).map_err(fail)?;
    }
    file.into_inner().map_err(|error| fail(error.into_error()))?.sync_all().map_err(fail)?;
    std::fs::rename(&part, &path).map_err(fail)
}

/// Sorts the file, which is measured, from its start to its end; then looks at the result.
///
/// # Errors
/// If the program is not built, or fails.
pub(super) fn sort(job: &Job) -> Result<String, Failure> {
    let own = std::env::current_exe().map_err(|error| Failure::Run(error.to_string()))?;
    let program = own.with_file_name("nandu");
    if !program.exists() {
        let what = format!("{}: cargo build --release -p nandu-cli makes it", program.display());
        return Err(Failure::Missing(what));
    }
    let sorted = job.temp.join("sorted.u64");
    let meter = Meter::start()?;
    let mut command = Command::new(&program);
    command
        .args(["external", "sort", "--quiet", "--key-bytes", "8", "--key-type", "little-endian"])
        .args(["--record-bytes", &RECORD_BYTES.to_string()])
        .args(["--memory", &job.memory_bytes.to_string()])
        .args(["--block-size", &job.block_bytes.to_string()])
        .args(["--in-flight", &job.in_flight.to_string()])
        .arg("--device")
        .arg(&job.temp)
        .arg("--output")
        .arg(&sorted)
        .arg(records_of(&job.data));
    complete(&mut command, "nandu external sort")?;
    let spent = meter.stop()?.of_programs();
    spent.answer(checksum_of(&sorted)?.row(), None)
}

fn checksum_of(sorted: &Path) -> Result<Checksum, Failure> {
    let fail = |error: std::io::Error| failure_at(sorted, &error);
    let mut file = BufReader::with_capacity(1 << 20, File::open(sorted).map_err(fail)?);
    let mut checksum = Checksum::default();
    let mut pair = [[0; 8]; 2];
    loop {
        match file.read_exact(pair.as_flattened_mut()) {
            Ok(()) => checksum.add(u64::from_le_bytes(pair[0])),
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(checksum),
            Err(error) => return Err(fail(error)),
        }
    }
}
