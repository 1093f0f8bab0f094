//! `nandu external sort`: a file of records of one size, sorted into another.

use super::records::Records;
use crate::Context;
use crate::command::beyond::{BeyondArguments, Course, Means, at_work, counts_of};
use crate::failure::Failure;
use crate::input::Input;
use crate::output::{OutputFiles, cannot_write};
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::{Args, ValueEnum};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_external::{By, IoCounts, RecordStream, Sorter, Store};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Records between two looks at whether to stop.
const RECORDS_PER_LOOK: u64 = 4096;
/// The longest key.
const KEY_BYTES_MAX: u32 = 16;

const STEPS: [&str; 2] = ["reading records", "writing the sorted file"];

/// Sort a file of records of one size
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu external sort edges.u64 --record-bytes 16 --key-bytes 8 -o sorted.u64 \\
      --key-type little-endian
  nandu external sort gensort.dat --record-bytes 100 --key-bytes 10 \\
      --memory 1GiB --device /mnt/ssd -o sorted.dat

The key is the first bytes of a record, or those from --key-offset on. Records with equal keys come in \
the order of all their bytes. Temporary files take as much room as FILE, where that is larger than \
the memory.")]
pub(super) struct SortArguments {
    /// The file
    file: PathBuf,
    /// Bytes of a record
    #[arg(long, value_parser = parse_record_bytes, value_name = "NUMBER")]
    record_bytes: usize,
    /// Bytes of the key
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=i64::from(KEY_BYTES_MAX)),
          value_name = "NUMBER")]
    key_bytes: u32,
    /// Bytes of a record before the key
    #[arg(long, default_value_t = 0, value_name = "NUMBER")]
    key_offset: u32,
    /// How keys compare
    #[arg(long, value_enum, default_value_t = KeyArgument::Bytes)]
    key_type: KeyArgument,
    /// The sorted file
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    #[command(flatten)]
    files: OutputFiles,
    #[command(flatten)]
    beyond: BeyondArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "snake_case")]
enum KeyArgument {
    /// Byte by byte, as numbers do whose most significant byte comes first
    Bytes,
    /// As numbers without a sign whose least significant byte comes first
    LittleEndian,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    output: &'a Path,
    record_bytes: usize,
    key_bytes: u32,
    key_offset: u32,
    key_type: KeyArgument,
    #[serde(flatten)]
    means: Means,
    record_count: u64,
    /// Runs that were written before the last merge; none where all fitted into memory.
    run_count: usize,
    #[serde(flatten)]
    counts: IoCounts,
    run: RunFacts,
}

/// Where the key of a record lies.
#[derive(Clone, Copy)]
struct Key {
    start: usize,
    end: usize,
    key_type: KeyArgument,
}

impl Key {
    /// The key as a number that compares as it does.
    fn of(self, record: &[u8]) -> (u64, u64) {
        let key = &record[self.start..self.end];
        let mut bytes = [0; KEY_BYTES_MAX as usize];
        match self.key_type {
            KeyArgument::Bytes => bytes[..key.len()].copy_from_slice(key),
            KeyArgument::LittleEndian => {
                // From the front: all keys are equally long, and the first eight bytes tell most
                // apart.
                bytes.iter_mut().zip(key.iter().rev()).for_each(|(byte, &of_key)| *byte = of_key);
            }
        }
        let (high, low) = bytes.split_at(8);
        let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().expect("eight bytes"));
        (number(high), number(low))
    }
}

/// What a sort did.
struct Sorted {
    record_count: u64,
    run_count: usize,
    counts: IoCounts,
}

/// A sort of records of some size.
type Sort = fn(&Store, Records, Key, &File, &Path, &Course) -> Result<Sorted, Failure>;

/// The sizes of records that there are, each with its sort.
macro_rules! sizes {
    ($($bytes:literal),*) => {
        const SIZES: &[(usize, Sort)] = &[$(($bytes, sort::<$bytes>)),*];
    };
}

sizes!(4, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 100, 128, 160, 192, 256, 512);

/// Sorts what the command names.
pub(super) fn run(arguments: &SortArguments, context: &Context) -> Result<(), Failure> {
    let key = arguments.key()?;
    arguments.beyond.check()?;
    arguments.files.check(&arguments.output)?;
    let (input, name) = Input::named(&arguments.file, &context.interrupt)?;
    let input_bytes = input.byte_count();
    let places = arguments.beyond.places(input_bytes.unwrap_or(0), &context.interrupt)?;
    let stores = places.stores()?;
    let found = SIZES.iter().find(|(bytes, _)| *bytes == arguments.record_bytes);
    let sort = found.expect("the size was checked").1;
    let partial = arguments.files.begin(&arguments.output)?;
    let records = Records::new(input, name, arguments.record_bytes);
    let course = Arc::new(Course::default());
    course.expect(input_bytes.unwrap_or(0));
    let read_bytes = records.read_bytes();
    let look = |step| {
        if step == 0 {
            course.reach(read_bytes.load(Ordering::Relaxed));
        }
    };
    let progress = Progress::new(context, STEPS.len());
    let file = partial.as_file().try_clone();
    let file = file.map_err(|error| cannot_write(&arguments.output, &error))?;
    let work = {
        let (course, output) = (Arc::clone(&course), arguments.output.clone());
        let store = stores.1.clone();
        move || sort(&store, records, key, &file, &output, &course)
    };
    let sorted = at_work(&progress, &STEPS, &course, look, work)?;
    arguments.files.finish(partial, &arguments.output)?;
    drop(progress);
    let report = Report {
        file: &arguments.file,
        output: &arguments.output,
        record_bytes: arguments.record_bytes,
        key_bytes: arguments.key_bytes,
        key_offset: arguments.key_offset,
        key_type: arguments.key_type,
        means: places.means(&arguments.beyond),
        record_count: sorted.record_count,
        run_count: sorted.run_count,
        counts: sorted.counts,
        run: RunFacts::since(context.started),
    };
    match arguments.json {
        true => context.output.json("external sort", &report),
        false => tell(&report, context),
    }
}

fn sort<const N: usize>(
    store: &Store,
    mut records: Records,
    key: Key,
    out: &File,
    output: &Path,
    course: &Course,
) -> Result<Sorted, Failure> {
    let order = By(move |record: &[u8; N]| key.of(record));
    let mut sorter = Sorter::with_bytes(store, order, store.grant().free_bytes())?;
    while let Some(record) = records.next()? {
        sorter.push(record.try_into().expect("records have one size"))?;
        if sorter.len().is_multiple_of(RECORDS_PER_LOOK) {
            store.check_stop()?;
        }
    }
    drop(records);
    let record_count = sorter.len();
    course.next_step(record_count);
    let run_count = sorter.run_count();
    let mut sorted = sorter.finish()?;
    let failed = |error: std::io::Error| cannot_write(output, &error);
    let mut writer = BufWriter::with_capacity(1 << 20, out);
    let mut written = 0_u64;
    while let Some(record) = sorted.next_record()? {
        writer.write_all(&record).map_err(failed)?;
        written += 1;
        if written.is_multiple_of(RECORDS_PER_LOOK) {
            course.reach(written);
            store.check_stop()?;
        }
    }
    writer.flush().map_err(failed)?;
    drop(writer);
    Ok(Sorted { record_count, run_count, counts: counts_of((store, store)) })
}

impl SortArguments {
    fn key(&self) -> Result<Key, Failure> {
        let start = self.key_offset as usize;
        let end = start + self.key_bytes as usize;
        if end > self.record_bytes {
            return Err(Failure::input(format!(
                "the key ends at byte {end} of records of {} bytes; give fewer --key-bytes, or a smaller \
                 --key-offset",
                self.record_bytes
            )));
        }
        Ok(Key { start, end, key_type: self.key_type })
    }
}

/// For clap: bytes of a record that can be sorted.
fn parse_record_bytes(text: &str) -> Result<usize, String> {
    let found = text.parse().ok().filter(|bytes| SIZES.iter().any(|(known, _)| known == bytes));
    found.ok_or_else(|| {
        let sizes: Vec<String> = SIZES.iter().map(|(bytes, _)| bytes.to_string()).collect();
        format!("records have one of {} bytes", sizes.join(", "))
    })
}

fn tell(report: &Report<'_>, context: &Context) -> Result<(), Failure> {
    let Report { record_count, run_count, counts, .. } = report;
    let runs = match run_count {
        0 => "in memory".to_owned(),
        &count => format!("by way of {}", counted(count as u64, "run")),
    };
    context.output.line(&format!("{} sorted {runs}", counted(*record_count, "record")))?;
    context.output.line(&format!(
        "temporary files: {} written, {} read, {}",
        ByteCount(counts.write_bytes),
        ByteCount(counts.read_bytes),
        counted(counts.read_blocks + counts.write_blocks, "request")
    ))?;
    context.output.line(&report.means.line())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_compare_as_their_type_says() {
        let key = |key_type, end| Key { start: 1, end, key_type };
        let (little, bytes) = (KeyArgument::LittleEndian, KeyArgument::Bytes);
        let (first, second) = ([9, 0xff, 0, 7], [0, 0, 1, 7]);
        assert!(key(little, 3).of(&first) < key(little, 3).of(&second));
        assert!(key(bytes, 3).of(&first) > key(bytes, 3).of(&second));
        let long: Vec<u8> = (0..20).collect();
        let longer = key(little, 17).of(&long);
        assert_eq!(longer.0.to_be_bytes()[0], 16, "the last byte of the key counts most");
    }
}
