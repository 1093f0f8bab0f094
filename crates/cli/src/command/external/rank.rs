//! `nandu external rank`: how far each element of a linked list lies from its head.

use super::records::Records;
use crate::Context;
use crate::command::beyond::{BeyondArguments, Course, Means, at_work, counts_of};
use crate::failure::Failure;
use crate::input::Input;
use crate::output::{OutputFiles, cannot_write};
use crate::progress::Progress;
use crate::run_facts::RunFacts;
use clap::Args;
use nandu_base::words::counted;
use nandu_base::{ByteCount, Rng};
use nandu_external::list_ranking::rank;
use nandu_external::{IoCounts, RecordStream, Store, Vector};
use serde::Serialize;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Bytes of an element.
const ELEMENT_BYTES: usize = 8;
/// Elements between two looks at whether to stop.
const ELEMENTS_PER_LOOK: u64 = 4096;
/// What a ranking moves at most, in bytes for each element: about so much, for its progress.
const MOVED_BYTES_PER_ELEMENT: u64 = 600;

const STEPS: [&str; 3] = ["reading the list", "ranking", "writing ranks"];

/// Rank the elements of a linked list by its successors
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu external rank successors.u64 -o ranks.u64 --memory 64MiB

FILE has a number of eight bytes for each element, the least significant byte first: the element that \
follows it, from 0, or 2^64 - 1 behind the last one. The output has the rank of each element, 0 of \
the head, in the same form.")]
pub(super) struct RankArguments {
    /// The file of successors
    file: PathBuf,
    /// The first element of the list
    #[arg(long, default_value_t = 0, value_name = "ELEMENT")]
    head: u64,
    /// The file of ranks
    #[arg(long, short, value_name = "FILE")]
    output: PathBuf,
    /// Of the coins by which elements are chosen
    #[arg(long, default_value_t = 1)]
    seed: u64,
    #[command(flatten)]
    files: OutputFiles,
    #[command(flatten)]
    beyond: BeyondArguments,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report<'a> {
    file: &'a Path,
    output: &'a Path,
    head: u64,
    seed: u64,
    #[serde(flatten)]
    means: Means,
    element_count: u64,
    #[serde(flatten)]
    counts: IoCounts,
    run: RunFacts,
}

/// What the work is given.
struct Job {
    store: Store,
    records: Records,
    head: u64,
    seed: u64,
    file: File,
    output: PathBuf,
}

/// Ranks what the command names.
pub(super) fn run(arguments: &RankArguments, context: &Context) -> Result<(), Failure> {
    arguments.beyond.check()?;
    arguments.files.check(&arguments.output)?;
    let (input, name) = Input::named(&arguments.file, &context.interrupt)?;
    let input_bytes = input.byte_count();
    let places = arguments.beyond.places(input_bytes.unwrap_or(0), &context.interrupt)?;
    let store = places.stores()?.1;
    let partial = arguments.files.begin(&arguments.output)?;
    let records = Records::new(input, name, ELEMENT_BYTES);
    let course = Arc::new(Course::default());
    course.expect(input_bytes.unwrap_or(0));
    let read_bytes = records.read_bytes();
    let look = |step| match step {
        0 => course.reach(read_bytes.load(Ordering::Relaxed)),
        1 => course.reach(store.counts().read_bytes + store.counts().write_bytes),
        _ => {}
    };
    let progress = Progress::new(context, STEPS.len());
    let file = partial.as_file().try_clone();
    let file = file.map_err(|error| cannot_write(&arguments.output, &error))?;
    let (head, seed, output) = (arguments.head, arguments.seed, arguments.output.clone());
    let job = Job { store: store.clone(), records, head, seed, file, output };
    let work = {
        let course = Arc::clone(&course);
        move || ranked(job, &course)
    };
    let element_count = at_work(&progress, &STEPS, &course, look, work)?;
    arguments.files.finish(partial, &arguments.output)?;
    drop(progress);
    let report = Report {
        file: &arguments.file,
        output: &arguments.output,
        head,
        seed,
        means: places.means(&arguments.beyond),
        element_count,
        counts: counts_of((&store, &store)),
        run: RunFacts::since(context.started),
    };
    if arguments.json {
        return context.output.json("external rank", &report);
    }
    context.output.line(&format!("{} ranked", counted(element_count, "element")))?;
    context.output.line(&format!(
        "temporary files: {} written, {} read",
        ByteCount(report.counts.write_bytes),
        ByteCount(report.counts.read_bytes)
    ))?;
    context.output.line(&report.means.line())
}

/// Ranks a list, and says how many elements it has.
fn ranked(job: Job, course: &Course) -> Result<u64, Failure> {
    let Job { store, mut records, head, seed, file, output } = job;
    let mut writer = Vector::<u64>::writer(&store)?;
    while let Some(bytes) = records.next()? {
        let successor = u64::from_le_bytes(bytes.try_into().expect("elements have one size"));
        writer.push(successor)?;
        if writer.len().is_multiple_of(ELEMENTS_PER_LOOK) {
            store.check_stop()?;
        }
    }
    drop(records);
    let successors = writer.finish()?;
    let count = successors.len();
    course.next_step(store.counts().write_bytes + count * MOVED_BYTES_PER_ELEMENT);
    let ranks = rank(&successors, head, store.grant().free_bytes(), &mut Rng::new(seed))?;
    drop(successors);
    course.next_step(count);
    let failed = |error: std::io::Error| cannot_write(&output, &error);
    let mut out = BufWriter::with_capacity(1 << 20, &file);
    let mut written = 0_u64;
    let mut stream = ranks.into_stream()?;
    while let Some(rank) = stream.next_record()? {
        out.write_all(&rank.to_le_bytes()).map_err(failed)?;
        written += 1;
        if written.is_multiple_of(ELEMENTS_PER_LOOK) {
            course.reach(written);
            store.check_stop()?;
        }
    }
    out.flush().map_err(failed)?;
    Ok(count)
}
