//! `nandu external sort`: a file of records of one size, sorted into another.

use super::places_of;
use super::records::Records;
use crate::Context;
use crate::command::beyond::{BeyondArguments, Course, Means, Places, Role, at_work, counts_of};
use crate::command::kept::{Asked, KeepArguments, Kept, asked_of, locked};
use crate::command::prediction::{Prediction, Probe, Taken, known_count};
use crate::failure::Failure;
use crate::input::Input;
use crate::output::{OutFile, OutputFiles, cannot_write};
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::{Args, ValueEnum};
use nandu_base::words::counted;
use nandu_base::{ByteCount, Rng};
use nandu_external::cost::predict;
use nandu_external::sort::bytes::{
    ByteRuns, ByteSorter, KEY_BYTES_MAX, KeyKind, KeyLayout, RECORD_BYTES_MAX, sorted_bytes,
};
use nandu_external::{IoCounts, KeptStore, KeptVector, Store};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Bytes of the output that are written at a time.
const WRITE_BYTES: usize = 1 << 20;
/// Runs are written down when there are so many parts of the input more of them.
const NOTES_OF_RUNS: u64 = 8;

const STEPS: [&str; 2] = ["reading records", "writing the sorted file"];

/// Sort a file of records of one size
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu external sort edges.u64 --record-bytes 16 --key-bytes 8 -o sorted.u64 \\
      --key-type little-endian
  nandu external sort gensort.dat --record-bytes 100 --key-bytes 10 \\
      --memory 1GiB --device /mnt/ssd -o sorted.dat
  nandu external sort log.dat --record-bytes 48 --key-bytes 8 -o sorted.dat --keep run
                                            and, whatever ended it, --resume run in place of --keep
  nandu probe /mnt/ssd --queue-depth 1,4,5,32 --profile ssd.json
  nandu external sort edges.u64 --record-bytes 16 --key-bytes 8 -o sorted.u64 \\
      --device /mnt/ssd --predict ssd.json

The key is the first bytes of a record, or those from --key-offset on. Records with equal keys come in \
the order of all their bytes. Temporary files take as much room as the records, where these are more \
than the memory, and up to twice as much with --keep or where runs are so many that some are merged \
before the last merge. In memory and in temporary files a record has the \
next of these sizes: 4, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 100, 128, 160, 192, 256, 384, 512, 768, \
1024, 2048 and 4096 bytes.")]
pub(super) struct SortArguments {
    /// The file
    file: PathBuf,
    /// Bytes of a record
    #[arg(long, value_parser = parse_record_bytes, value_name = "NUMBER")]
    record_bytes: usize,
    /// Bytes of the key
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=KEY_BYTES_MAX as i64),
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
    /// Say before, from the profile of the device that `nandu probe --profile` wrote, how long temporary files
    /// will take, and after how long the sort took
    #[arg(long, value_name = "PROFILE", conflicts_with = "resume")]
    predict: Option<PathBuf>,
    #[command(flatten)]
    files: OutputFiles,
    #[command(flatten)]
    beyond: BeyondArguments,
    #[command(flatten)]
    keep: KeepArguments,
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
    was_resumed: bool,
    #[serde(flatten)]
    counts: IoCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
    run: RunFacts,
}

/// What a sort did.
struct Sorted {
    record_count: u64,
    run_count: usize,
    counts: IoCounts,
    taken: Taken,
}

/// What a sort is given.
struct Job {
    store: Store,
    records: Records,
    record_bytes: usize,
    key: KeyLayout,
    file: OutFile,
    output: PathBuf,
    begun: Option<KeptSort>,
    keeper: Keeper,
}

/// The runs of a sort that are kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptSort {
    store: KeptStore,
    runs: Vec<KeptVector>,
    /// How many were written, those among them that were merged.
    run_count: usize,
}

/// Writes down runs as they come, if anybody wants that.
struct Keeper {
    kept: Option<Arc<Mutex<Kept>>>,
    /// Records between two notes, and those that are noted.
    step: u64,
    noted: u64,
    /// Runs that were merged before this process.
    merged_run_count: usize,
}

/// Sorts what the command names.
pub(super) fn run(arguments: &SortArguments, context: &Context) -> Result<(), Failure> {
    let key = arguments.key()?;
    arguments.beyond.check()?;
    arguments.files.check(&arguments.output)?;
    let probe = arguments.predict.as_deref();
    let probe = probe.map(|profile| Probe::of(profile, &arguments.beyond)).transpose()?;
    let probe = probe
        .map(|probe| {
            let sizes = [arguments.record_bytes];
            probe.beside_processor(&sizes, Some(&arguments.output), context)
        })
        .transpose()?;
    let kept = arguments.keep.kept(&arguments.file, Role::Disk, || arguments.asked())?;
    let kept = kept.map(|kept| Arc::new(Mutex::new(kept)));
    let outcome = find(arguments, key, probe, kept.as_ref(), context);
    let outcome = outcome.map_err(|failure| arguments.beyond.explain(failure));
    let told = outcome.and_then(|found| answer(arguments, found, context));
    match kept {
        Some(kept) => locked(&kept).end(told, || "sorted runs are"),
        None => told,
    }
}

/// Tells what a sort did.
fn answer(
    arguments: &SortArguments,
    (sorted, means, prediction): (Sorted, Means, Option<Prediction>),
    context: &Context,
) -> Result<(), Failure> {
    let report = Report {
        file: &arguments.file,
        output: &arguments.output,
        record_bytes: arguments.record_bytes,
        key_bytes: arguments.key_bytes,
        key_offset: arguments.key_offset,
        key_type: arguments.key_type,
        means,
        record_count: sorted.record_count,
        run_count: sorted.run_count,
        was_resumed: arguments.keep.is_resumed(),
        counts: sorted.counts,
        prediction,
        run: RunFacts::since(context.started),
    };
    match arguments.json {
        true => context.output.json("external sort", &report),
        false => tell(&report, context),
    }
}

/// Does the work. What is not kept is gone when this returns.
fn find(
    arguments: &SortArguments,
    key: KeyLayout,
    probe: Option<Probe>,
    kept: Option<&Arc<Mutex<Kept>>>,
    context: &Context,
) -> Result<(Sorted, Means, Option<Prediction>), Failure> {
    let (input, name) = Input::named(&arguments.file, &context.interrupt)?;
    let known_bytes = input.byte_count();
    let input_bytes = known_bytes.unwrap_or(0);
    let begun = kept.map(|kept| locked(kept).reached::<KeptSort>()).transpose()?.flatten();
    let places = places_of(&arguments.beyond, kept, input_bytes, context)?;
    let store = store_of(&places, begun.as_ref())?;
    let record_bytes = arguments.record_bytes;
    let record_count = known_bytes.map(|bytes| bytes / record_bytes as u64);
    let foreseen = probe.map(|probe| -> Result<_, Failure> {
        let count = known_count(record_count)?;
        let bytes = store.grant().free_bytes();
        // Which run is asked next is not known: it is drawn.
        let mut rng = Rng::new(1);
        let foreseen = probe.foresee(record_bytes, |requests| {
            predict::sort_of_bytes(&store, record_bytes, count, bytes, (&mut rng, requests))
        })?;
        if !arguments.json {
            context.output.line(&probe.line("temporary files", &foreseen))?;
        }
        Ok((probe, foreseen))
    });
    let foreseen = foreseen.transpose()?;
    if begun.is_none() {
        let (count, bytes) = (record_count.unwrap_or(0), store.grant().free_bytes());
        ByteSorter::check_room(&store, record_bytes, count, bytes)?;
    }
    let partial = arguments.files.begin(&arguments.output, &context.interrupt)?;
    let _scratch = partial.path().map(|path| context.interrupt.scratch(path.to_owned(), None));
    if let Some(kept) = kept {
        locked(kept).note_output(&partial)?;
    }
    let records = Records::new(input, name, arguments.record_bytes);
    let course = Arc::new(Course::default());
    course.expect(input_bytes);
    let read_bytes = records.read_bytes();
    let look = |step| match step {
        0 => course.reach(read_bytes.load(Ordering::Relaxed)),
        // What is sorted in memory is told by who writes it.
        _ => match store.counts().read_bytes {
            0 => {}
            merged_bytes => course.reach(merged_bytes),
        },
    };
    let file = partial.as_file().try_clone();
    let file = file.map_err(|error| cannot_write(&arguments.output, &error))?;
    let keeper = Keeper::new(kept, begun.as_ref(), input_bytes / record_bytes as u64);
    let (store, output) = (store.clone(), arguments.output.clone());
    let job = Job { store, records, record_bytes, key, file, output, begun, keeper };
    let progress = Progress::new(context, STEPS.len());
    let work = {
        let course = Arc::clone(&course);
        move || sort(job, &course)
    };
    let sorted = at_work(&progress, &STEPS, &course, look, work)?;
    arguments.files.finish(partial, &arguments.output)?;
    let prediction = foreseen.map(|(probe, foreseen)| probe.prediction(foreseen, sorted.taken));
    Ok((sorted, places.means(&arguments.beyond), prediction))
}

/// The store for runs, with those that were kept.
fn store_of(places: &Places, begun: Option<&KeptSort>) -> Result<Store, Failure> {
    Ok(match begun {
        None => places.stores()?.1,
        Some(KeptSort { store, runs, .. }) => {
            let runs: Vec<&KeptVector> = runs.iter().collect();
            places.stores_resumed(Role::Disk, (store, &runs))?.1
        }
    })
}

fn sort(job: Job, course: &Course) -> Result<Sorted, Failure> {
    let Job { store, mut records, record_bytes, key, file, output, begun, mut keeper } = job;
    let (begin, before) = (store.now(), store.counts());
    let bytes = store.grant().free_bytes();
    let mut sorter = match begun {
        Some(begun) => ByteSorter::resume(&store, record_bytes, key, bytes, &begun.runs)?,
        None => ByteSorter::with_bytes(&store, record_bytes, key, bytes)?,
    };
    let kept_count = sorter.runs().record_count();
    records.skip(kept_count)?;
    // What was kept need not be written down again.
    keeper.noted = kept_count;
    while let Some(bytes) = records.next_all()? {
        sorter.push_all(bytes)?;
        store.check_stop()?;
        keeper.look(&store, sorter.runs())?;
    }
    drop(records);
    let record_count = sorter.runs().record_count();
    let bytes_of =
        |records: u64| -> Result<u64, Failure> { Ok(records * sorted_bytes(record_bytes)? as u64) };
    course.next_step(bytes_of(record_count)?);
    let mut run_count = keeper.merged_run_count + sorter.runs().run_count();
    let mut sorted = sorter.finish_watched(|runs| {
        run_count = run_count.max(keeper.merged_run_count + runs.kept_runs().len());
        course.expect(bytes_of(record_count + runs.merged_left_count())?);
        keeper.note(&store, runs, run_count)
    })?;
    let mut target = vec![0; WRITE_BYTES / record_bytes * record_bytes];
    let mut written = 0_u64;
    loop {
        let bytes = sorted.read(&mut target)?;
        if bytes == 0 {
            break;
        }
        let put = (&file).write_all(&target[..bytes]);
        put.map_err(|error| cannot_write(&output, &error))?;
        written += (bytes / record_bytes) as u64;
        if run_count == 0 {
            course.reach(bytes_of(written)?);
        }
        store.check_stop()?;
    }
    let counts = counts_of((&store, &store));
    let taken = Taken::between((begin, &before), (store.now(), &counts));
    Ok(Sorted { record_count, run_count, counts, taken })
}

impl Keeper {
    fn new(kept: Option<&Arc<Mutex<Kept>>>, begun: Option<&KeptSort>, record_count: u64) -> Self {
        let merged_run_count =
            begun.map_or(0, |begun| begun.run_count - begun.runs.len().min(begun.run_count));
        let step = (record_count / NOTES_OF_RUNS).max(1);
        Self { kept: kept.cloned(), step, noted: 0, merged_run_count }
    }

    /// Writes runs down while records are put in, if there are many more than before.
    fn look(&mut self, store: &Store, runs: ByteRuns<'_>) -> Result<(), Failure> {
        if self.kept.is_none() || runs.written_count() < self.noted + self.step {
            return Ok(());
        }
        self.noted = runs.written_count();
        self.note(store, runs, self.merged_run_count + runs.kept_runs().len())
    }

    fn note(&self, store: &Store, runs: ByteRuns<'_>, run_count: usize) -> Result<(), Failure> {
        let Some(kept) = &self.kept else { return Ok(()) };
        let (kept_store, runs) = (store.keep()?, runs.kept_runs());
        locked(kept).note(&KeptSort { store: kept_store, runs, run_count })?;
        store.hold();
        Ok(())
    }
}

impl SortArguments {
    /// What has to be the same when a sort goes on.
    fn asked(&self) -> Result<Asked, Failure> {
        let (devices, block_bytes) = self.beyond.of_kept()?;
        let options = [
            ("--record-bytes", json!(self.record_bytes)),
            ("--key-bytes", json!(self.key_bytes)),
            ("--key-offset", json!(self.key_offset)),
            ("--key-type", json!(self.key_type)),
            ("--device", devices),
            ("--block-size", json!(block_bytes)),
        ];
        Ok(asked_of("external sort", &self.file, options))
    }

    fn key(&self) -> Result<KeyLayout, Failure> {
        let (start, bytes) = (self.key_offset as usize, self.key_bytes as usize);
        let end = start + bytes;
        if end > self.record_bytes {
            return Err(Failure::input(format!(
                "the key ends at byte {end} of records of {} bytes; give fewer --key-bytes, or a smaller \
                 --key-offset",
                self.record_bytes
            )));
        }
        let kind = match self.key_type {
            KeyArgument::Bytes => KeyKind::Bytes,
            KeyArgument::LittleEndian => KeyKind::LittleEndian,
        };
        Ok(KeyLayout { start, bytes, kind })
    }
}

/// For clap: bytes of a record that can be sorted.
fn parse_record_bytes(text: &str) -> Result<usize, String> {
    let found = text.parse().ok().filter(|bytes| (1..=RECORD_BYTES_MAX).contains(bytes));
    found.ok_or_else(|| format!("records have 1 to {RECORD_BYTES_MAX} bytes"))
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
    if let Some(prediction) = &report.prediction {
        context
            .output
            .line(&prediction.outcome("the sort, of which temporary files are a part,"))?;
    }
    context.output.line(&report.means.line())
}

#[cfg(test)]
mod tests {
    use super::SortArguments;
    use clap::Args;
    use nandu_external::sort::bytes::SIZES;

    #[test]
    fn the_help_tells_the_sizes_that_there_are() {
        let command = SortArguments::augment_args(clap::Command::new("sort"));
        let help = command.get_after_help().expect("there are examples").to_string();
        let (head, last) = SIZES.split_at(SIZES.len() - 1);
        let head: Vec<String> = head.iter().map(usize::to_string).collect();
        let told = format!("{} and {} bytes", head.join(", "), last[0]);
        assert!(help.replace('\n', " ").contains(&told), "{told}: {help}");
    }
}
