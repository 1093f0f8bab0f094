//! Whether the files of a run stay when the program ends, and which directories have them.
//!
//! 1. A directory bears a mark before a list says that something in it is kept: without one nobody can go
//!    on with what is there.
//! 2. A directory with a mark goes when the run that the mark names is done, and is removed by no other one:
//!    lists may be copied.

use super::beyond::sync_folders;
use crate::failure::Failure;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The mark, a file beside the store.
const MARK_NAME: &str = "kept";

/// Whether directories stay.
#[derive(Debug)]
pub(crate) struct Stays {
    is_set: Arc<AtomicBool>,
    /// The directory of the list, which marks name.
    list: PathBuf,
    directories: Mutex<Vec<PathBuf>>,
}

impl Stays {
    /// Of a run whose files stay, or do not, with its list in this directory.
    pub(super) fn new(is_set: bool, list: PathBuf) -> Self {
        Self { is_set: Arc::new(AtomicBool::new(is_set)), list, directories: Mutex::default() }
    }

    /// Whether they stay.
    pub(super) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::Relaxed)
    }

    /// The same for those who know nothing of runs.
    pub(super) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_set)
    }

    /// Files of the run are in this directory.
    pub(super) fn has(&self, directory: &Path) {
        self.known(|directories| directories.push(directory.to_owned()));
    }

    /// Marks the directories, durably (invariant 1).
    pub(super) fn mark(&self) -> io::Result<()> {
        if self.is_set() {
            return Ok(());
        }
        self.known(|directories| {
            directories.iter().try_for_each(|directory| {
                let mut mark = File::create(directory.join(MARK_NAME))?;
                mark.write_all(self.list.as_os_str().as_bytes())?;
                mark.sync_all()?;
                sync_folders(directory)
            })
        })
    }

    /// They stay from now on.
    pub(super) fn set(&self) {
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// They go, those at once that nobody has open any more.
    pub(super) fn end(&self) {
        self.is_set.store(false, Ordering::Relaxed);
        for directory in self.known(std::mem::take) {
            // Where it cannot be removed its name says whose it is.
            let _ = fs::remove_dir_all(directory);
        }
    }

    /// Removes a directory, if there is one, unless another run goes on with it.
    pub(super) fn remove_own(&self, directory: &Path) -> Result<(), Failure> {
        let mark = fs::read(directory.join(MARK_NAME)).unwrap_or_default();
        if !mark.is_empty() && mark != self.list.as_os_str().as_bytes() {
            return Err(Failure::input(format!(
                "{}: the run in {} goes on with it; begin anew with --keep",
                directory.display(),
                Path::new(OsStr::from_bytes(&mark)).display()
            )));
        }
        // Whether it is there or not.
        let _ = fs::remove_dir_all(directory);
        Ok(())
    }

    fn known<T>(&self, work: impl FnOnce(&mut Vec<PathBuf>) -> T) -> T {
        work(&mut self.directories.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
