//! Work that outlives its process: what is written down when a phase has ended, and how another
//! process goes on.
//!
//! ```text
//!   begin ─► run.json: what is asked, of which file, how directories are called
//!   a phase ends ─► its files synced ─► run.json: what was reached, too ─► the next phase … ─► all removed
//!      │ an end before that: begun anew                │ an end here: the next phase again
//! ```
//!
//! 1. The list is durable before the next phase begins: it is written under another name, synced
//!    and renamed, and its directory synced.
//! 2. Who goes on asks the same of the same file, by its size and the time of its last change.
//! 3. What was kept goes when the answer is out, or if the work fails before anything was reached.
//! 4. One process works on a directory: whoever comes while it does changes nothing there.
//! 5. A run writes to the directory that it locked. Where that was removed, or another is in its place, it
//!    ends.
//! 6. Each run has a number of its own, which names its directories of files and is known to each block in
//!    them: whatever else was kept, under the same names too, is never taken for it, nor removed by it.

use crate::command::beyond::{Keeping, Role, USUAL, sync_folders};
use crate::command::stays::Stays;
use crate::failure::Failure;
use crate::json;
use crate::output::{PARTIAL_PREFIX, Unfinished};
use clap::Args;
use nandu_base::hash::FixedHasher;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

const NAME: &str = "run.json";
const NEW_NAME: &str = "run.json.new";
/// The version of the list.
const VERSION: u32 = 4;
/// The longest list: extents of 64 MiB of the largest store have some megabytes.
const BYTES_MAX: u64 = 64 << 20;

/// The option that another run of the same work need not give.
const BLOCK_SIZE: &str = "--block-size";

/// What is asked, by the names of options.
pub(super) type Asked = serde_json::Map<String, Value>;

/// Whether what is needed to go on is kept, and where.
#[derive(Debug, Args)]
pub(super) struct KeepArguments {
    /// Keep in this directory, which is made, what is needed to go on after an end in the middle
    #[arg(long, value_name = "DIR", conflicts_with = "resume")]
    keep: Option<PathBuf>,
    /// Go on with what was kept in this directory; all else is asked as before, but for the memory
    #[arg(long, value_name = "DIR")]
    resume: Option<PathBuf>,
}

impl KeepArguments {
    /// What is kept of work on `input`, or was, if any is asked for.
    pub(super) fn kept(
        &self,
        input: &Path,
        role: Role,
        asked: impl FnOnce() -> Result<Asked, Failure>,
    ) -> Result<Option<Kept>, Failure> {
        match (&self.keep, &self.resume) {
            (Some(directory), _) => Kept::begin(directory, input, role, asked()?).map(Some),
            (None, Some(directory)) => Kept::resume(directory, input, role, &asked()?).map(Some),
            (None, None) => Ok(None),
        }
    }

    /// Whether it goes on with what was kept.
    pub(super) const fn is_resumed(&self) -> bool {
        self.resume.is_some()
    }
}

/// A run that several threads write down.
pub(super) fn locked(kept: &Mutex<Kept>) -> MutexGuard<'_, Kept> {
    kept.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is asked of `command` about a file, by the names of options.
pub(super) fn asked_of<const N: usize>(
    command: &str,
    file: &Path,
    options: [(&str, Value); N],
) -> Asked {
    let file = fs::canonicalize(file).unwrap_or_else(|_| file.to_owned());
    let begun = [("command", command.into()), ("file", file.to_string_lossy().into())];
    let pairs = begun.into_iter().chain(options);
    pairs.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    version: u32,
    /// Its number ([`Keeping::identity`]), in 16 hexadecimal digits.
    name: String,
    asked: Asked,
    /// The directory of the process that began it, and those that were made for the list, the outermost
    /// first.
    begun_in: PathBuf,
    made: Vec<PathBuf>,
    /// Bytes of the input, and when it was changed last.
    input_bytes: u64,
    input_changed: (i64, i64),
    /// The output that was begun beside its place, and may be left there.
    partial: Option<PathBuf>,
    /// What was reached, which its command knows.
    reached: Option<Value>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Sealed {
    checksum: String,
    run: Run,
}

/// A run that is kept in a directory.
pub(super) struct Kept {
    directory: PathBuf,
    run: Run,
    /// Where the files lie that stay.
    role: Role,
    /// Whether all stays when the program ends.
    stays: Arc<Stays>,
    /// The directory, by invariants 4 and 5.
    lock: File,
}

impl Kept {
    /// Begins in a directory that is new or empty.
    fn begin(directory: &Path, input: &Path, role: Role, asked: Asked) -> Result<Self, Failure> {
        let state = state_of(input)?;
        let made = make_directories(directory).map_err(|error| cannot_make(directory, &error))?;
        let begun = Self::begin_in(directory, made.clone(), state, role, asked);
        if begun.is_err() {
            remove_directories(&made);
        }
        begun
    }

    fn begin_in(
        directory: &Path,
        made: Vec<PathBuf>,
        (input_bytes, input_changed): (u64, (i64, i64)),
        role: Role,
        mut asked: Asked,
    ) -> Result<Self, Failure> {
        let failed = |error: &io::Error| cannot_make(directory, error);
        let lock = lock("--keep", directory)?;
        let mut entries = fs::read_dir(directory).map_err(|error| failed(&error))?;
        // A run that was killed when it had just begun leaves a list that is not whole.
        let is_begun = |entry: &io::Result<fs::DirEntry>| {
            entry.as_ref().map_or(true, |entry| entry.file_name() != NEW_NAME)
        };
        if entries.any(|entry| is_begun(&entry)) {
            return Err(Failure::input(format!(
                "--keep {}: it is not empty; name a new directory, or go on with --resume",
                directory.display()
            )));
        }
        if let Some(size) = asked.get_mut(BLOCK_SIZE)
            && let Some(usual) = size.get(USUAL)
        {
            *size = usual.clone();
        }
        let begun_in = std::env::current_dir().map_err(|error| failed(&error))?;
        // The system seeds it.
        let name = format!("{:016x}", RandomState::new().hash_one(std::process::id()));
        let run = Run {
            version: VERSION,
            name,
            asked,
            begun_in,
            made,
            input_bytes,
            input_changed,
            partial: None,
            reached: None,
        };
        let list = fs::canonicalize(directory).map_err(|error| failed(&error))?;
        let stays = Arc::new(Stays::new(false, list));
        let kept = Self { directory: directory.to_path_buf(), run, role, stays, lock };
        kept.write()?;
        Ok(kept)
    }

    /// Goes on with what was kept, if it was the same that was asked.
    fn resume(directory: &Path, input: &Path, role: Role, asked: &Asked) -> Result<Self, Failure> {
        // Whoever finds no list is told so, not that there is no directory.
        let (list, lock) = (directory.join(NAME), lock("--resume", directory));
        let run = read(&list)?;
        let lock = lock?;
        // From behind: first the file and the command, then its options.
        for (name, value) in asked.iter().rev() {
            let begun = run.asked.get(name).unwrap_or(&Value::Null);
            // What nobody asks for is as it was.
            if begun != value && !value.get(USUAL).is_some_and(Value::is_number) {
                return Err(Failure::input(format!(
                    "--resume {}: the run was begun with {name} {begun}, not {value}; ask the same, or \
                     begin anew with --keep and another directory",
                    directory.display()
                )));
            }
        }
        if (run.input_bytes, run.input_changed) != state_of(input)? {
            return Err(Failure::input(format!(
                "{}: it was changed since the run in {} was begun; begin anew with --keep and another \
                 directory",
                input.display(),
                directory.display()
            )));
        }
        // Whatever goes wrong from here on, what was reached is not lost.
        let place = fs::canonicalize(directory).map_err(|error| cannot_make(directory, &error))?;
        let stays = Arc::new(Stays::new(run.reached.is_some(), place));
        Ok(Self { directory: directory.to_path_buf(), run, role, stays, lock })
    }

    /// Where files are made and found.
    pub(super) fn keeping(&self) -> Keeping<'_> {
        let block_bytes = self.run.asked.get(BLOCK_SIZE).and_then(Value::as_u64);
        Keeping {
            identity: number_of(&self.run.name).expect("names were checked"),
            role: self.role,
            stays: &self.stays,
            is_found: self.run.reached.is_some(),
            block_bytes: block_bytes.and_then(|bytes| u32::try_from(bytes).ok()),
            begun_in: &self.run.begun_in,
        }
    }

    /// What was reached, if anything was.
    pub(super) fn reached<P: DeserializeOwned>(&self) -> Result<Option<P>, Failure> {
        let Some(reached) = self.run.reached.clone() else { return Ok(None) };
        serde_json::from_value(reached).map(Some).map_err(|error| {
            let list = self.directory.join(NAME);
            Failure::input(format!("{}: it is no list of a run: {error}", list.display()))
        })
    }

    /// Writes down what was reached, whose files are durable: from now on they stay.
    pub(super) fn note(&mut self, reached: &impl Serialize) -> Result<(), Failure> {
        let reached = serde_json::to_value(reached).expect("numbers, names and places are JSON");
        self.stays.mark().map_err(|error| {
            Failure::system(format!("cannot keep what {} names", self.directory.display()), &error)
        })?;
        self.run.reached = Some(reached);
        self.write()?;
        self.stays.set();
        Ok(())
    }

    /// Writes down where an output was begun; one that an end left is removed.
    pub(super) fn note_output(&mut self, output: &Unfinished) -> Result<(), Failure> {
        if let Some(left) = &self.run.partial {
            let name = left.file_name().and_then(|name| name.to_str());
            if name.is_some_and(|name| name.starts_with(PARTIAL_PREFIX)) {
                // What cannot be removed says by its name what it is.
                let _ = fs::remove_file(left);
            }
        }
        self.run.partial = output.path().map(|path| {
            // Who goes on may be in another directory.
            std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
        });
        self.write()
    }

    /// How a run fails, if `what` was reached and stays.
    fn explain(&self, failure: Failure, what: &str) -> Failure {
        if !self.stays.is_set() {
            return failure;
        }
        let directory = self.directory.display();
        match failure.is_interrupted() {
            true => Failure::interrupted(format!(
                "{what} kept; go on with --resume {directory} in place of --keep"
            )),
            false => failure.followed_by(&format!("what is kept stays, see {directory}")),
        }
    }

    /// The end of a run whose answer was told, or not; what stays if it was not. Who went away before all
    /// was told had what there was to see.
    pub(super) fn end(
        &self,
        told: Result<(), Failure>,
        what_stays: impl FnOnce() -> &'static str,
    ) -> Result<(), Failure> {
        match told {
            Err(failure) if failure.exit_code() != 0 => Err(self.explain(failure, what_stays())),
            told => {
                if self.is_in_place() {
                    let _ = fs::remove_file(self.directory.join(NAME));
                }
                self.stays.end();
                told
            }
        }
    }

    /// Whether the directory is the one that was locked.
    fn is_in_place(&self) -> bool {
        let same = |one: &fs::Metadata, other: &fs::Metadata| {
            (one.dev(), one.ino()) == (other.dev(), other.ino())
        };
        match (self.lock.metadata(), fs::metadata(&self.directory)) {
            (Ok(locked), Ok(found)) => same(&locked, &found),
            _ => false,
        }
    }

    /// Refuses to go on once the directory is another one, or none.
    fn check_place(&self) -> Result<(), Failure> {
        if self.is_in_place() {
            return Ok(());
        }
        if self.lock.metadata().is_ok_and(|locked| locked.nlink() == 0) {
            // Nobody can go on with what no list names.
            self.stays.end();
        }
        Err(Failure::input(format!(
            "{}: it was removed or renamed while the run that locked it was at work; begin anew with --keep \
             and another directory, or go on with --resume and its new name",
            self.directory.display()
        )))
    }

    fn write(&self) -> Result<(), Failure> {
        self.check_place()?;
        let failed = |error: io::Error| {
            Failure::system(format!("cannot write {}", self.directory.join(NAME).display()), &error)
        };
        let sealed = Sealed { checksum: checksum_of(&self.run), run: self.run.clone() };
        let new = self.directory.join(NEW_NAME);
        let mut file = File::create(&new).map_err(failed)?;
        file.write_all(json::plain(&sealed).as_bytes()).map_err(failed)?;
        file.sync_all().map_err(failed)?;
        fs::rename(&new, self.directory.join(NAME)).map_err(failed)?;
        sync_folders(&self.directory).map_err(failed)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if self.stays.is_set() || !self.is_in_place() {
            return;
        }
        // What cannot be removed says by its name what it is.
        let _ = fs::remove_file(self.directory.join(NEW_NAME));
        let _ = fs::remove_file(self.directory.join(NAME));
        if !self.run.made.is_empty() {
            // Whoever gave it another name since gave it to what was made.
            let _ = fs::remove_dir(&self.directory);
        }
        remove_directories(&self.run.made);
    }
}

fn cannot_make(directory: &Path, error: &io::Error) -> Failure {
    Failure::system(format!("cannot make {}", directory.display()), error)
}

/// Makes a directory and those in which it lies, durably; says which were not there, the outermost first.
fn make_directories(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let is_missing = |place: &&Path| !place.as_os_str().is_empty() && !place.exists();
    let missing: Vec<&Path> = directory.ancestors().take_while(is_missing).collect();
    let mut made = Vec::new();
    let outcome = missing.iter().rev().try_for_each(|place| match fs::create_dir(place) {
        Ok(()) => {
            made.push(fs::canonicalize(place)?);
            sync_folders(place)
        }
        // `a/..` came to be with `a`, or somebody else made it.
        Err(_) if place.is_dir() => Ok(()),
        Err(error) => Err(error),
    });
    if outcome.is_err() {
        remove_directories(&made);
    }
    outcome.map(|()| made)
}

/// Removes directories that were made, unless somebody has put something there since.
fn remove_directories(made: &[PathBuf]) {
    for place in made.iter().rev() {
        let _ = fs::remove_dir(place);
    }
}

/// Locks a directory for as long as the file is open, also by whatever ends the process.
fn lock(option: &str, directory: &Path) -> Result<File, Failure> {
    let failed = |error| Failure::system(format!("cannot lock {}", directory.display()), &error);
    let file = File::open(directory).map_err(failed)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Failure::input(format!(
            "{option} {}: another process works on it; wait until it has ended",
            directory.display()
        ))),
        Err(TryLockError::Error(error)) => Err(failed(error)),
    }
}

/// Reads a list, and refuses one that was changed.
fn read(path: &Path) -> Result<Run, Failure> {
    let text = nandu_drives::profile::read_text(path, BYTES_MAX).map_err(|error| {
        let what = format!("cannot read {}, by which a run goes on", path.display());
        match error.kind() {
            io::ErrorKind::NotFound => Failure::input(format!("{what}; begin one with --keep")),
            _ => Failure::system(what, &error),
        }
    })?;
    let damaged =
        |what: &str| Failure::input(format!("{}: {what}; begin anew with --keep", path.display()));
    let sealed: Sealed = serde_json::from_str(&text)
        .map_err(|error| damaged(&format!("it is no list of a run: {error}")))?;
    if sealed.checksum != checksum_of(&sealed.run) {
        return Err(damaged("it was changed"));
    }
    if sealed.run.version != VERSION {
        return Err(damaged("another version of nandu wrote it"));
    }
    if number_of(&sealed.run.name).is_none() {
        return Err(damaged("it names directories that no run has"));
    }
    Ok(sealed.run)
}

/// The number of a run of this name, if it is one.
fn number_of(name: &str) -> Option<u64> {
    let number = u64::from_str_radix(name, 16).ok()?;
    (format!("{number:016x}") == name).then_some(number)
}

fn checksum_of(run: &Run) -> String {
    let mut hasher = FixedHasher::default();
    hasher.write(json::plain(run).as_bytes());
    format!("{:016x}", hasher.finish())
}

/// Bytes of a file, and when it was changed last.
fn state_of(input: &Path) -> Result<(u64, (i64, i64)), Failure> {
    let no_file = || {
        Failure::input(format!(
            "{}: a run that is kept reads a file, which can be read again",
            input.display()
        ))
    };
    if input == Path::new("-") {
        return Err(no_file());
    }
    let metadata = fs::metadata(input).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Failure::input(format!("{}: no such file; check the spelling", input.display()))
        }
        _ => Failure::system(format!("cannot look at {}", input.display()), &error),
    })?;
    if !metadata.is_file() {
        return Err(no_file());
    }
    Ok((metadata.len(), (metadata.mtime(), metadata.mtime_nsec())))
}
