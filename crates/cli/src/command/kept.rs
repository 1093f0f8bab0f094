//! A search that outlives its process: what is written down when a phase has ended, and how another
//! process goes on.
//!
//! ```text
//!   begin ─► run.json: what is asked, of which file, how directories are called
//!   graph is written ─► its files synced ─► run.json: the graph, too ─► search ─► all removed
//!      │ an end here: begun anew                    │ an end here: searched again
//! ```
//!
//! 1. The list is durable before the next phase begins: it is written under another name, synced
//!    and renamed, and its directory synced.
//! 2. Who goes on asks the same of the same file, by its size and the time of its last change.
//! 3. What was kept goes when the search is done, or fails before there is a graph to be kept.

use crate::command::beyond::{Keeping, sync_folders};
use crate::failure::Failure;
use crate::json;
use nandu_base::hash::FixedHasher;
use nandu_external::graph::KeptGraph;
use nandu_external::{IoCounts, KeptStore};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::fs::{self, File};
use std::hash::Hasher;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = "run.json";
const NEW_NAME: &str = "run.json.new";
/// The version of the list.
const VERSION: u32 = 1;
/// The longest list: extents of 64 MiB of the largest store have some megabytes.
const BYTES_MAX: u64 = 64 << 20;

/// What is asked, by the names of options.
pub(super) type Asked = serde_json::Map<String, Value>;

/// What is written down.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Run {
    version: u32,
    /// What the names of its directories have in common.
    name: String,
    asked: Asked,
    /// Bytes of the input, and when it was changed last.
    input_bytes: u64,
    input_changed: (i64, i64),
    searched: Option<KeptSearch>,
}

/// A graph that was written, and what it took.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct KeptSearch {
    pub(super) store: KeptStore,
    pub(super) graph: KeptGraph,
    pub(super) format: String,
    pub(super) edge_count: u64,
    pub(super) self_loop_count: u64,
    pub(super) building: IoCounts,
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
    /// Whether all stays when the program ends.
    stays: Arc<AtomicBool>,
}

impl Kept {
    /// Begins in a directory that is new or empty.
    pub(super) fn begin(directory: &Path, input: &Path, asked: Asked) -> Result<Self, Failure> {
        let failed = |error: &io::Error| {
            Failure::system(format!("cannot make {}", directory.display()), error)
        };
        let (input_bytes, input_changed) = state_of(input)?;
        fs::create_dir_all(directory).map_err(|error| failed(&error))?;
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
        let place = fs::canonicalize(directory).map_err(|error| failed(&error))?;
        let mut hasher = FixedHasher::default();
        hasher.write(place.as_os_str().as_bytes());
        let name = format!("{:016x}", hasher.finish());
        let (searched, version) = (None, VERSION);
        let run = Run { version, name, asked, input_bytes, input_changed, searched };
        let kept = Self { directory: directory.to_path_buf(), run, stays: Arc::default() };
        kept.write()?;
        Ok(kept)
    }

    /// Goes on with what was kept, if it was the same that was asked.
    pub(super) fn resume(directory: &Path, input: &Path, asked: &Asked) -> Result<Self, Failure> {
        let run = read(&directory.join(NAME))?;
        for (name, value) in asked {
            let begun = run.asked.get(name).unwrap_or(&Value::Null);
            if begun != value {
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
        // Whatever goes wrong from here on, a graph is not lost.
        let stays = Arc::new(AtomicBool::new(run.searched.is_some()));
        Ok(Self { directory: directory.to_path_buf(), run, stays })
    }

    /// Where files are made and found.
    pub(super) fn keeping(&self) -> Keeping<'_> {
        let is_found = self.run.searched.is_some();
        Keeping { name: &self.run.name, stays: &self.stays, is_found }
    }

    /// The graph that was written, if one was.
    pub(super) const fn searched(&self) -> Option<&KeptSearch> {
        self.run.searched.as_ref()
    }

    /// Writes down a graph whose files are durable: from now on they stay.
    pub(super) fn note_graph(&mut self, searched: KeptSearch) -> Result<(), Failure> {
        self.run.searched = Some(searched);
        self.write()?;
        self.stays.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// How a run fails, if its graph stays.
    pub(super) fn explain(&self, failure: Failure) -> Failure {
        if !self.stays.load(Ordering::Relaxed) {
            return failure;
        }
        let directory = self.directory.display();
        match failure.is_interrupted() {
            true => Failure::interrupted(format!(
                "the graph is kept; go on with --resume {directory} in place of --keep"
            )),
            false => failure.followed_by(&format!("what is kept stays, see {directory}")),
        }
    }

    /// All is done: nothing stays, the list least of all.
    pub(super) fn finish(&mut self) {
        self.stays.store(false, Ordering::Relaxed);
        let _ = fs::remove_file(self.directory.join(NAME));
    }

    fn write(&self) -> Result<(), Failure> {
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
        if self.stays.load(Ordering::Relaxed) {
            return;
        }
        // What cannot be removed says by its name what it is.
        let _ = fs::remove_file(self.directory.join(NEW_NAME));
        let _ = fs::remove_file(self.directory.join(NAME));
        let _ = fs::remove_dir(&self.directory);
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
    if !sealed.run.name.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Err(damaged("it names directories that no run has"));
    }
    Ok(sealed.run)
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
