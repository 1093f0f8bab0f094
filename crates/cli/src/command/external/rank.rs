//! `nandu external rank`: how far each element of a linked list lies from its head.

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
use clap::Args;
use nandu_base::words::counted;
use nandu_base::{ByteCount, Rng};
use nandu_external::cost::predict;
use nandu_external::list_ranking::{KeptRanking, check_room, rank_watched, resume_ranking};
use nandu_external::{IoCounts, KeptStore, KeptVector, RecordStream, Store, Vector};
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};

/// Bytes of an element.
const ELEMENT_BYTES: usize = 8;
/// Bytes of what is sorted most: an element, its successor, and how far that is.
const ARC_BYTES: usize = 24;
/// Elements between two looks at whether to stop.
const ELEMENTS_PER_LOOK: u64 = 4096;
/// What a ranking moves at most, in bytes for each element: about so much, for its progress.
const MOVED_BYTES_PER_ELEMENT: u64 = 600;
/// Memory in which an element is walked past, so that it is read and written once; somewhat more.
const WALKED_BYTES: u64 = 5;

const STEPS: [&str; 3] = ["reading the list", "ranking", "writing ranks"];

/// Rank the elements of a linked list by its successors
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu external rank successors.u64 -o ranks.u64 --memory 64MiB
  nandu external rank successors.u64 -o ranks.u64 --keep run      and, whatever ended it:
  nandu external rank successors.u64 -o ranks.u64 --resume run
  nandu probe /mnt/ssd --queue-depth 1,4,5,32 --profile ssd.json
  nandu external rank successors.u64 -o ranks.u64 --device /mnt/ssd --predict ssd.json

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
    /// Say before, from the profile of the device that `nandu probe --profile` wrote, how long temporary files
    /// will take, and after how long the ranking took
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
    was_resumed: bool,
    #[serde(flatten)]
    counts: IoCounts,
    #[serde(skip_serializing_if = "Option::is_none")]
    prediction: Option<Prediction>,
    run: RunFacts,
}

/// What a ranking did.
struct Found {
    element_count: u64,
    counts: IoCounts,
    means: Means,
    prediction: Option<Prediction>,
}

/// A ranking that is kept.
#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct KeptRank {
    store: KeptStore,
    phase: KeptPhase,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "snake_case")]
enum KeptPhase {
    /// Between two rounds.
    Rounds(KeptRanking),
    /// The ranks that are to be written.
    Ranks(KeptVector),
}

impl KeptRank {
    fn vectors(&self) -> Vec<&KeptVector> {
        match &self.phase {
            KeptPhase::Rounds(ranking) => ranking.vectors(),
            KeptPhase::Ranks(ranks) => vec![ranks],
        }
    }
}

/// What the work is given.
struct Job {
    store: Store,
    records: Records,
    head: u64,
    seed: u64,
    file: OutFile,
    output: PathBuf,
    begun: Option<KeptRank>,
    kept: Option<Arc<Mutex<Kept>>>,
}

/// Ranks what the command names.
pub(super) fn run(arguments: &RankArguments, context: &Context) -> Result<(), Failure> {
    arguments.beyond.check()?;
    arguments.files.check(&arguments.output)?;
    let probe = arguments.predict.as_deref();
    let probe = probe.map(|profile| Probe::of(profile, &arguments.beyond)).transpose()?;
    let probe = probe
        .map(|probe| probe.beside_processor(&[ARC_BYTES], Some(&arguments.output), context))
        .transpose()?;
    let kept = arguments.keep.kept(&arguments.file, Role::Disk, || arguments.asked())?;
    let kept = kept.map(|kept| Arc::new(Mutex::new(kept)));
    let outcome = find(arguments, probe, kept.as_ref(), context);
    let outcome = outcome.map_err(|failure| arguments.beyond.explain(failure));
    let told = outcome.and_then(|found| answer(arguments, found, context));
    match kept {
        Some(kept) => locked(&kept).end(told, || "a round is"),
        None => told,
    }
}

/// Tells what a ranking did.
fn answer(arguments: &RankArguments, found: Found, context: &Context) -> Result<(), Failure> {
    let Found { element_count, counts, means, prediction } = found;
    let report = Report {
        file: &arguments.file,
        output: &arguments.output,
        head: arguments.head,
        seed: arguments.seed,
        means,
        element_count,
        was_resumed: arguments.keep.is_resumed(),
        counts,
        prediction,
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
    if let Some(prediction) = &report.prediction {
        context
            .output
            .line(&prediction.outcome("the ranking, of which temporary files are a part,"))?;
    }
    context.output.line(&report.means.line())
}

/// Does the work; how many elements there are. What is not kept is gone when this returns.
fn find(
    arguments: &RankArguments,
    probe: Option<Probe>,
    kept: Option<&Arc<Mutex<Kept>>>,
    context: &Context,
) -> Result<Found, Failure> {
    let (input, name) = Input::named(&arguments.file, &context.interrupt)?;
    let known_bytes = input.byte_count();
    let input_bytes = known_bytes.unwrap_or(0);
    let begun = kept.map(|kept| locked(kept).reached::<KeptRank>()).transpose()?.flatten();
    let places = places_of(&arguments.beyond, kept, input_bytes, context)?;
    let store = store_of(&places, begun.as_ref())?;
    let foreseen = probe.map(|mut probe| -> Result<_, Failure> {
        let count = known_count(known_bytes.map(|bytes| bytes / ELEMENT_BYTES as u64))?;
        let bytes = store.grant().free_bytes();
        probe.measure_walk((&store, count, bytes))?;
        let mut rng = Rng::new(arguments.seed);
        let foreseen = probe.foresee(ARC_BYTES, |requests| {
            predict::rank(&store, count, bytes, &mut rng, requests)
        })?;
        if !arguments.json {
            context.output.line(&probe.line("temporary files", &foreseen))?;
        }
        Ok((probe, foreseen))
    });
    let foreseen = foreseen.transpose()?;
    if begun.is_none() {
        let (count, bytes) = (input_bytes / ELEMENT_BYTES as u64, store.grant().free_bytes());
        check_room(&store, count, bytes)?;
    }
    let partial = arguments.files.begin(&arguments.output, &context.interrupt)?;
    let _scratch = partial.path().map(|path| context.interrupt.scratch(path.to_owned(), None));
    if let Some(kept) = kept {
        locked(kept).note_output(&partial)?;
    }
    let records = Records::new(input, name, ELEMENT_BYTES);
    let course = Arc::new(Course::default());
    course.expect(input_bytes);
    let read_bytes = records.read_bytes();
    let look = |step| match step {
        0 => course.reach(read_bytes.load(Ordering::Relaxed)),
        1 => {
            let counts = store.counts();
            course.reach(counts.read_bytes + counts.write_bytes + store.worked_bytes());
        }
        _ => {}
    };
    let progress = Progress::of_unlike_steps(context, STEPS.len());
    let file = partial.as_file().try_clone();
    let file = file.map_err(|error| cannot_write(&arguments.output, &error))?;
    let RankArguments { head, seed, .. } = *arguments;
    let (output, kept_too) = (arguments.output.clone(), kept.cloned());
    let job =
        Job { store: store.clone(), records, head, seed, file, output, begun, kept: kept_too };
    let work = {
        let course = Arc::clone(&course);
        move || ranked(job, &course)
    };
    let (begin, before) = (store.now(), store.counts());
    let element_count = at_work(&progress, &STEPS, &course, look, work)?;
    let taken = Taken::between((begin, &before), (store.now(), &store.counts()));
    arguments.files.finish(partial, &arguments.output)?;
    let prediction = foreseen.map(|(probe, foreseen)| probe.prediction(foreseen, taken));
    let (counts, means) = (counts_of((&store, &store)), places.means(&arguments.beyond));
    Ok(Found { element_count, counts, means, prediction })
}

/// The store of the list, with what was kept of it.
fn store_of(places: &Places, begun: Option<&KeptRank>) -> Result<Store, Failure> {
    Ok(match begun {
        None => places.stores()?.1,
        Some(kept) => places.stores_resumed(Role::Disk, (&kept.store, &kept.vectors()))?.1,
    })
}

/// Ranks a list, and says how many elements it has.
fn ranked(job: Job, course: &Course) -> Result<u64, Failure> {
    let Job { store, records, head, seed, file, output, begun, kept } = job;
    let note = |phase: KeptPhase| -> Result<(), Failure> {
        let Some(kept) = &kept else { return Ok(()) };
        locked(kept).note(&KeptRank { store: store.keep()?, phase })?;
        store.hold();
        Ok(())
    };
    let mut is_first = true;
    let watch = |ranking: &KeptRanking| {
        // What was kept need not be written down again.
        match std::mem::replace(&mut is_first, false) && begun.is_some() {
            true => Ok(()),
            false => note(KeptPhase::Rounds(ranking.clone())),
        }
    };
    let mut rng = Rng::new(seed);
    let bytes = || store.grant().free_bytes();
    let (ranks, is_kept) = match begun.as_ref().map(|begun| &begun.phase) {
        None => {
            let successors = read(&store, records)?;
            let count = successors.len();
            let per_element = match count * WALKED_BYTES <= bytes() {
                true => 3 * ELEMENT_BYTES as u64,
                false => MOVED_BYTES_PER_ELEMENT,
            };
            course.next_step(store.counts().write_bytes + count * per_element);
            (rank_watched(&successors, head, bytes(), &mut rng, watch)?, false)
        }
        Some(KeptPhase::Rounds(ranking)) => {
            course.next_step(ranking.element_count() * MOVED_BYTES_PER_ELEMENT);
            (resume_ranking(&store, ranking, bytes(), &mut rng, watch)?, false)
        }
        Some(KeptPhase::Ranks(ranks)) => {
            course.next_step(0);
            (Vector::resume(&store, ranks)?, true)
        }
    };
    if !is_kept {
        note(KeptPhase::Ranks(ranks.kept()))?;
    }
    let count = ranks.len();
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

/// Reads the list.
fn read(store: &Store, mut records: Records) -> Result<Vector<u64>, Failure> {
    let mut writer = Vector::<u64>::writer(store)?;
    while let Some(bytes) = records.next_all()? {
        for &successor in bytes.as_chunks::<ELEMENT_BYTES>().0 {
            writer.push(u64::from_le_bytes(successor))?;
        }
        store.check_stop()?;
    }
    Ok(writer.finish()?)
}

impl RankArguments {
    /// What has to be the same when a ranking goes on.
    fn asked(&self) -> Result<Asked, Failure> {
        let (devices, block_bytes) = self.beyond.of_kept()?;
        let options = [
            ("--head", json!(self.head)),
            ("--seed", json!(self.seed)),
            ("--device", devices),
            ("--block-size", json!(block_bytes)),
        ];
        Ok(asked_of("external rank", &self.file, options))
    }
}
