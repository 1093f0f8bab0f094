//! `nandu crash --kill DIRECTORY`: clients on threads over a database in a real directory, in a process that
//! is killed (SIGKILL), again and again.
//!
//! ```text
//!   this process ──── starts ───► the same program: opens, clients work, each tells of its transactions
//!        │   ◄──────── a pipe ───     │
//!        ├──── SIGKILL ───────────────┘
//!        └──── opens, compares with what was heard, checks every page
//! ```
//!
//! What the kernel has is not lost by that: this is about a process that dies anywhere, with everything that
//! a real file system and real threads do meanwhile. The simulator is for power cuts.

use super::CrashArguments;
use crate::Context;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use nandu::{DatabaseOptions, PropagationKind, Settings, TornPages};
use nandu_base::Rng;
use nandu_crashtest::{
    CLIENT_COUNT_MAX, KilledLife, SurvivingDocument, Survivor, Update, Word, update_on_threads,
    work_on_threads,
};
use nandu_probe::table::Table;
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::io::{BufRead, BufReader, Stdout, Write};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::Duration;

/// Lives of one database before the next is made, with other settings.
const LIVES_PER_DATABASE: u64 = 5;
/// A process is killed so many milliseconds after its first word, at most.
const LIFE_MS_MAX: u64 = 400;

/// What came of all lives.
#[derive(Serialize)]
struct Killing {
    first_seed: u64,
    life_count: u64,
    client_count: u32,
    database_count: u64,
    total: KilledLife,
    violations: Vec<Broken>,
}

#[derive(Serialize)]
struct Broken {
    seed: u64,
    what: String,
}

/// Settings that a seed stands for: a small pool, log and distance of checkpoints, so that much happens.
fn settings(seed: u64) -> Settings {
    let mut rng = Rng::for_part(seed, "killed");
    // Kinds that lie on the data alone: a directory is all that there is.
    let propagation = match rng.below(4) {
        0 => PropagationKind::LogStructured,
        1 => PropagationKind::PageDifferential,
        _ => PropagationKind::InPlace,
    };
    let torn_pages = match rng.below(2) {
        0 => TornPages::LogImages,
        _ => TornPages::DoubleWrite,
    };
    Settings {
        propagation: propagation.into(),
        torn_pages,
        pool_bytes: 1 << 20,
        log_bytes: 8 << 20,
        checkpoint_bytes: 256 << 10,
        ..Settings::default()
    }
}

fn options(seed: u64) -> DatabaseOptions {
    DatabaseOptions { settings: settings(seed), ..DatabaseOptions::default() }
}

/// The process that is going to be killed: works until nobody listens.
pub(super) fn be_killed(
    place: &Path,
    arguments: &CrashArguments,
    last_element: u32,
) -> Result<(), Failure> {
    let seed = arguments.from;
    let (database, _) = nandu::open_database(place, &options(database_seed(seed)))?;
    let pipe = Mutex::new(std::io::stdout());
    let client_count = arguments.clients.unwrap_or(CLIENT_COUNT_MAX);
    if arguments.document {
        let tell = |update: &Update| say(update, &pipe);
        update_on_threads(&database, database_seed(seed), client_count, &tell)?;
    } else {
        let tell = |word: &Word| say(word, &pipe);
        work_on_threads(&database, seed, client_count, last_element, &tell)?;
    }
    Ok(())
}

/// Says a word as a line. False if nobody listens.
fn say(word: &impl Serialize, pipe: &Mutex<Stdout>) -> bool {
    let Ok(mut line) = serde_json::to_vec(word) else { return false };
    line.push(b'\n');
    pipe.lock().is_ok_and(|mut pipe| pipe.write_all(&line).and_then(|()| pipe.flush()).is_ok())
}

/// What outlives the processes.
enum Subject {
    Rows(Survivor),
    Document(SurvivingDocument),
}

impl Subject {
    fn begin(
        place: &Path,
        seed: u64,
        (has_document, client_count): (bool, u32),
    ) -> Result<Self, Failure> {
        let database = nandu::create_database(place, &options(seed))?;
        let subject = match has_document {
            true => Self::Document(SurvivingDocument::begin(&database, seed, client_count)?),
            false => Self::Rows(Survivor::begin(&database)?),
        };
        database.close()?;
        Ok(subject)
    }

    /// One more life and its judgement, or the promise that was broken.
    fn live(
        &mut self,
        place: &Path,
        seed: u64,
        client_count: u32,
    ) -> Result<Result<KilledLife, String>, Failure> {
        let open = || nandu::open_database(place, &options(database_seed(seed)));
        let (database, judged) = match self {
            Self::Rows(survivor) => {
                let elements = ["--killed-from", &survivor.last_element().to_string()];
                let words = live(place, seed, client_count, &elements)?;
                let (database, _) = open()?;
                let judged = survivor.judge(&database, words);
                (database, judged)
            }
            Self::Document(document) => {
                let words = live(place, seed, client_count, &["--killed-from", "0", "--document"])?;
                let (database, _) = open()?;
                let judged = document.judge(&database, words);
                (database, judged)
            }
        };
        database.close()?;
        Ok(judged)
    }
}

/// The seed whose settings the database has that serves this one.
const fn database_seed(seed: u64) -> u64 {
    seed - seed % LIVES_PER_DATABASE
}

/// One life: what was heard of it until it was killed.
fn live<W: DeserializeOwned>(
    place: &Path,
    seed: u64,
    client_count: u32,
    rest: &[&str],
) -> Result<Vec<W>, Failure> {
    let program = std::env::current_exe()
        .map_err(|error| Failure::system("the program does not find itself", &error))?;
    let mut child = Command::new(program)
        .args(["crash", "--kill"])
        .arg(place)
        .args(["--clients", &client_count.to_string(), "--from", &seed.to_string()])
        .args(rest)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        // A Ctrl-C is for this process, which ends the other.
        .process_group(0)
        .spawn()
        .map_err(|error| Failure::system("the process to be killed does not start", &error))?;
    let mut lines = BufReader::new(child.stdout.take().expect("it was asked for")).lines();
    let mut words = Vec::new();
    let mut hear = |line: Option<std::io::Result<String>>| -> bool {
        // The last line may have been cut off.
        let word = line.and_then(Result::ok).and_then(|line| serde_json::from_str(&line).ok());
        word.map(|word: W| words.push(word)).is_some()
    };
    let is_heard = hear(lines.next());
    let wait = Duration::from_millis(Rng::for_part(seed, "when").below(LIFE_MS_MAX));
    let pid = child.id();
    let killer = std::thread::spawn(move || {
        std::thread::park_timeout(wait);
        let killed = child.kill().and_then(|()| child.wait());
        killed.map(|status| status.code())
    });
    while is_heard && hear(lines.next()) {}
    let code = killer.join().ok().and_then(Result::ok).flatten();
    match code {
        // It had ended by itself.
        Some(code) => Err(Failure::shape(format!(
            "process {pid}, which was to be killed, ended by itself with code {code}"
        ))),
        None => Ok(words),
    }
}

/// Makes databases in `directory` and kills who works on them, once for each seed.
pub(super) fn run(
    directory: &Path,
    arguments: &CrashArguments,
    context: &Context,
) -> Result<(), Failure> {
    let (first_seed, count) = super::seeds_of(arguments)?;
    let client_count = arguments.clients.unwrap_or(CLIENT_COUNT_MAX);
    let mut killing = Killing {
        first_seed,
        life_count: 0,
        client_count,
        database_count: 0,
        total: KilledLife::default(),
        violations: Vec::new(),
    };
    let scratch = tempfile::Builder::new().prefix("nandu-crash-").tempdir_in(directory);
    let scratch = scratch.map_err(|error| {
        Failure::system(format!("no directory can be made in {}", directory.display()), &error)
    })?;
    let progress = Progress::new(context, nandu_base::to_index(count));
    let of_what = (arguments.document, client_count);
    let mut current: Option<(u64, Subject)> = None;
    for seed in (0..count).map(|number| first_seed + number) {
        if progress.is_interrupted() {
            break;
        }
        let of = database_seed(seed);
        let place = scratch.path().join(of.to_string());
        let mut subject = match current.take().filter(|(known, _)| *known == of) {
            Some((_, subject)) => subject,
            None => {
                killing.database_count += 1;
                Subject::begin(&place, of, of_what)?
            }
        };
        match subject.live(&place, seed, client_count)? {
            Ok(life) => {
                killing.total.transaction_count += life.transaction_count;
                killing.total.committed_count += life.committed_count;
            }
            Err(what) => killing.violations.push(Broken { seed, what }),
        }
        killing.life_count += 1;
        if killing.violations.is_empty() {
            current = Some((of, subject));
        } else {
            output::complain(&format!("the database is left in {}", scratch.path().display()));
            let _ = scratch.keep();
            break;
        }
        progress.step_done();
    }
    drop(progress);
    tell(&killing, arguments, context)?;
    if !killing.violations.is_empty() {
        return Err(Failure::shape("a promise was broken".to_owned()));
    }
    if killing.life_count < count {
        let next = first_seed + killing.life_count;
        return Err(Failure::interrupted(format!("stopped; go on with --from {next}")));
    }
    Ok(())
}

fn tell(killing: &Killing, arguments: &CrashArguments, context: &Context) -> Result<(), Failure> {
    if arguments.json {
        return context.output.json("crash --kill", killing);
    }
    let mut table = Table::new(&["what happened", "times"]);
    for (what, times) in [
        ("processes killed", killing.life_count),
        ("clients in each", killing.client_count.into()),
        ("databases", killing.database_count),
        ("transactions heard of", killing.total.transaction_count),
        ("of them committed", killing.total.committed_count),
        ("promises broken", killing.violations.len() as u64),
    ] {
        table.row(vec![what.to_owned(), times.to_string()]);
    }
    context.output.table(&table)?;
    for Broken { seed, what } in &killing.violations {
        context.output.line(&format!("seed {seed}: {what}"))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_propagation_that_needs_nothing_but_a_directory_is_killed_by_some_seed_and_no_other() {
        let drawn: Vec<PropagationKind> =
            (0..50).map(|seed| settings(seed).propagation.kind).collect();
        for kind in PropagationKind::ALL {
            let has_all = kind.other_media().is_empty();
            assert_eq!(drawn.contains(kind), has_all, "{kind:?}");
        }
    }
}
