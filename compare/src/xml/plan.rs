//! The run: who does the task when, a sync measured beside each.
//!
//! 1. Contenders alternate: each repetition begins with another one.
//! 2. One that is not installed is left out, and the table says how to install it.

use super::table::{self, Median};
use super::{Contender, Taken, Task};
use crate::measure::{mean, spread};
use crate::results::{machine_slug, write_files};
use crate::{Failure, busy, runs, stock};
use nandu_base::ByteCount;
use nandu_load::{Tpox, TpoxCollection};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// Compare nandu's store of XML documents with PostgreSQL and BaseX, side by side in one run: import, lookups by
/// id, and changes of a word, each synced, in one document of customers.
#[derive(clap::Parser)]
#[command(name = "compare-xml", bin_name = "cargo xtask compare-xml")]
pub(crate) struct Options {
    /// The size of TPoX whose customers are the document: at 62MB they have 24 MB.
    #[arg(long, default_value = "62MB", value_parser = ByteCount::parse)]
    size: ByteCount,
    /// How often everybody does all of it.
    #[arg(long, default_value_t = 3)]
    repetitions: u32,
    /// Lookups of each, after as many that are not counted.
    #[arg(long, default_value_t = 5000)]
    lookups: u64,
    /// Changes of each.
    #[arg(long, default_value_t = 300)]
    updates: u64,
    /// Memory for pages.
    #[arg(long, default_value = "256MiB", value_parser = ByteCount::parse)]
    pool: ByteCount,
    /// These contenders only, separated by commas.
    #[arg(long, value_enum, value_delimiter = ',')]
    only: Vec<Contender>,
    /// What the document and what is looked up follow from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Where all write, on the disk that is measured [default: nandu/compare-xml in the user's cache].
    #[arg(long)]
    directory: Option<PathBuf>,
    /// Where results go [default: `results/MACHINE/compare-xml` for a run that leaves nothing out, else
    /// nowhere].
    #[arg(long)]
    out: Option<PathBuf>,
    /// Print the medians as JSON in place of the table.
    #[arg(long)]
    json: bool,
}

/// From how many repetitions on a median is one.
const WHOLE_REPETITIONS: u32 = 3;

/// One contender, once.
#[derive(Clone, Debug)]
struct Sample {
    repetition: u32,
    contender: Contender,
    /// By name; the unit is the end of the name.
    figures: BTreeMap<&'static str, f64>,
}

/// Runs the comparison and answers with its table.
///
/// # Errors
/// A contender that fails or does something else, or results that cannot be written.
pub(crate) fn run(options: &Options) -> Result<String, Failure> {
    if options.repetitions == 0 || options.lookups == 0 || options.updates == 0 {
        return Err(Failure::Run("repetitions, lookups and updates are at least 1".into()));
    }
    let directory = match &options.directory {
        Some(directory) => directory.clone(),
        None => stock::default_directory("compare-xml")?,
    };
    stock::make_directory(&directory)?;
    let directory = directory.canonicalize().map_err(super::failure_at(&directory))?;
    let task = task(options, &directory)?;
    let mut left_out = Vec::new();
    let mut contenders = options.only.clone();
    if contenders.is_empty() {
        contenders = Contender::ALL.to_vec();
    }
    let versions = versions(&mut contenders, &directory, &mut left_out);
    if contenders.is_empty() {
        return Err(Failure::Missing(format!(
            "nobody is left to take part: {}",
            left_out.join("; ")
        )));
    }
    let meta = meta(options, &task, &versions, &directory);
    let samples = all_samples(options, &task, &contenders)?;
    let medians = medians(&samples);
    if Contender::ALL.iter().any(|it| !contenders.contains(it)) && left_out.is_empty() {
        left_out.push("contenders, by --only".to_owned());
    }
    if options.repetitions < WHOLE_REPETITIONS {
        left_out.push(format!("repetitions: {} of {WHOLE_REPETITIONS}", options.repetitions));
    }
    let table = table::whole(&medians, &task, options.repetitions, &left_out);
    let kept = match &options.out {
        Some(directory) => Some(directory.clone()),
        None if left_out.is_empty() => {
            let root = crate::plan::repository_root();
            Some(root.join("results").join(machine_slug()).join("compare-xml"))
        }
        None => None,
    };
    if let Some(directory) = kept {
        write_files(&directory, &meta, lines_of(&samples), &medians, &table)?;
        eprintln!("kept in {}", directory.display());
    }
    Ok(if options.json { crate::results::json_of(&meta, &medians) } else { table })
}

/// The versions of all who are not this program. Those that are not installed go, and why is told.
fn versions(
    contenders: &mut Vec<Contender>,
    directory: &Path,
    left_out: &mut Vec<String>,
) -> BTreeSet<String> {
    let mut versions = BTreeSet::new();
    contenders.retain(|contender| match contender.version(directory) {
        Ok(version) => {
            versions.extend(version);
            true
        }
        Err(reason) => {
            let reason = reason.to_string();
            if !left_out.contains(&reason) {
                left_out.push(reason);
            }
            false
        }
    });
    versions
}

/// Makes the document.
fn task(options: &Options, directory: &Path) -> Result<Task, Failure> {
    let fail = |error: nandu_load::LoadError| Failure::Run(error.to_string());
    let tpox = Tpox::new(options.size.0, options.seed).map_err(fail)?;
    let file = directory.join("custacc.xml");
    let mut output = File::create(&file).map_err(super::failure_at(&file))?;
    let mut text = tpox.text(TpoxCollection::Custacc);
    let byte_count = std::io::copy(&mut text, &mut output).map_err(super::failure_at(&file))?;
    Ok(Task {
        file,
        byte_count,
        first_id: tpox.customer_id(0),
        customer_count: tpox.count(TpoxCollection::Custacc),
        lookup_count: options.lookups,
        update_count: options.updates,
        directory: directory.to_owned(),
        // It is emptied, so nobody else's has this name.
        scratch: directory.join("compare-xml-scratch"),
        pool_bytes: options.pool.0,
        seed: options.seed,
    })
}

fn all_samples(
    options: &Options,
    task: &Task,
    contenders: &[Contender],
) -> Result<Vec<Sample>, Failure> {
    let mut samples = Vec::new();
    for repetition in 1..=options.repetitions {
        let mut order = contenders.to_vec();
        order.rotate_left((repetition as usize - 1) % contenders.len());
        for contender in order {
            clear(&task.scratch)?;
            stock::make_directory(&task.scratch)?;
            let sync_ms = mean(&crate::measure::fsync_probe(&task.scratch)?) / 1e3;
            let watch = busy::Watch::start();
            let taken = task.take(contender)?;
            let sample =
                sample((repetition, contender), task, taken, [sync_ms, watch.others_share()]);
            eprintln!("repetition {repetition}: {}: {:?}", contender.label(), sample.figures);
            samples.push(sample);
        }
    }
    clear(&task.scratch)?;
    Ok(samples)
}

fn clear(directory: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(stock::failure_at(directory, &error))
        }
        _ => Ok(()),
    }
}

fn sample(
    (repetition, contender): (u32, Contender),
    task: &Task,
    taken: Taken,
    [sync_ms, others_share]: [f64; 2],
) -> Sample {
    let Taken { import_s, lookup_ms, update_ms } = taken;
    let import_mb_s = crate::measure::as_float(task.byte_count) / 1e6 / import_s;
    let figures = [
        ("import_mb_s", import_mb_s),
        ("lookup_ms", lookup_ms),
        ("update_ms", update_ms),
        ("sync_ms", sync_ms),
        ("others_share", others_share),
    ];
    Sample { repetition, contender, figures: figures.into() }
}

fn medians(samples: &[Sample]) -> Vec<Median> {
    let mut values: BTreeMap<(Contender, &str), Vec<f64>> = BTreeMap::new();
    for Sample { contender, figures, .. } in samples {
        for (name, value) in figures {
            values.entry((*contender, name)).or_default().push(*value);
        }
    }
    let median = |((contender, name), values): ((Contender, &str), Vec<f64>)| {
        let [median, least, most] = spread(values);
        Median { contender, figure: name.to_owned(), median, least, most }
    };
    values.into_iter().map(median).collect()
}

/// Every figure as a line.
fn lines_of(samples: &[Sample]) -> String {
    let mut lines = String::from("repetition,contender,figure,value\n");
    for Sample { repetition, contender, figures } in samples {
        for (name, value) in figures {
            lines.push_str(&format!("{repetition},{},{name},{value:.6}\n", contender.label()));
        }
    }
    lines
}

/// The command, the commit, the machine, the peers.
fn meta(options: &Options, task: &Task, versions: &BTreeSet<String>, directory: &Path) -> Value {
    let own = json!({
        "seed": options.seed,
        "document_bytes": task.byte_count,
        "customers": task.customer_count,
        "lookups": task.lookup_count,
        "updates": task.update_count,
        "repetitions": options.repetitions,
        "pool_bytes": task.pool_bytes,
        "peers": versions,
        "load_average": busy::load_average(),
    });
    runs::meta("compare-xml", directory, own)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ours_does_the_task_and_says_what_it_took() {
        let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
        let words = ["xml", "--size", "200KB", "--repetitions", "1", "--lookups", "20"];
        let more = ["--updates", "3", "--only", "nandu", "--directory"];
        let words = words.into_iter().chain(more).map(std::ffi::OsString::from);
        let words = words.chain([directory.path().into()]);
        let table = run(&<Options as clap::Parser>::parse_from(words)).unwrap();
        assert!(table.contains("| nandu |"), "{table}");
        assert!(table.contains("**Left out**"), "{table}");
    }
}
