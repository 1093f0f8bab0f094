//! Ctrl-C as a flag that whoever works asks for.
//!
//! 1. The first Ctrl-C (or SIGTERM) sets the flag; the work ends in order, requests in flight first.
//! 2. The second one ends the program at once. Scratch files have no name, so none stays behind. So does the
//!    first one, two seconds later, where the work goes on and an end in its middle leaves nothing behind.
//! 3. A file that passes its limit of size (`ulimit -f`) is an error of the write, as a full disk is; unless
//!    somebody listens, the signal that comes with it ends the program without a word.

use crate::failure::Failure;
use crate::output;
use signal_hook::consts::signal::SIGXFSZ;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long work may take to end in order, where it need not.
const PATIENCE: Duration = Duration::from_secs(2);

/// The flag; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    is_set: Arc<AtomicBool>,
    /// Whether nothing is left behind if the program ends now, but for `partial`.
    leaves_nothing: Arc<AtomicBool>,
    /// A file that is not whole yet and goes if the program ends now.
    partial: Arc<Mutex<Option<PathBuf>>>,
}

impl Interrupt {
    /// Listens for Ctrl-C. Called once.
    pub(crate) fn install() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let is_set = Arc::clone(&interrupt.is_set);
        let leaves_nothing = Arc::clone(&interrupt.leaves_nothing);
        let partial = Arc::clone(&interrupt.partial);
        let handler = move || {
            if is_set.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            output::complain("\nstopping; press Ctrl-C again to end at once");
            let (leaves_nothing, partial) = (Arc::clone(&leaves_nothing), Arc::clone(&partial));
            thread::spawn(move || {
                thread::park_timeout(PATIENCE);
                if leaves_nothing.load(Ordering::SeqCst) {
                    let partial = partial.lock().unwrap_or_else(PoisonError::into_inner).take();
                    // Where it cannot be removed its name says whose it is.
                    let _ = partial.map(std::fs::remove_file);
                    output::complain(
                        "interrupted: nothing was left behind; run it again to start over",
                    );
                    std::process::exit(130);
                }
            });
        };
        ctrlc::set_handler(handler).map_err(|error| {
            Failure::system("cannot listen for Ctrl-C", &std::io::Error::other(error))
        })?;
        signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false)))
            .map_err(|error| Failure::system("cannot listen for limits of files", &error))?;
        Ok(interrupt)
    }

    /// The flag itself, for those who know nothing of this program.
    pub(crate) fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.is_set)
    }

    /// Does work that may be ended anywhere: it leaves nothing behind. Much of it looks at the flag itself,
    /// and what does not for long, such as the filling of a large drive, need not.
    pub(crate) fn at_any_time<T>(&self, work: impl FnOnce() -> T) -> T {
        self.leaves_nothing.store(true, Ordering::SeqCst);
        let done = work();
        self.leaves_nothing.store(false, Ordering::SeqCst);
        done
    }

    /// The same for work that has begun a file, which goes if it is ended.
    pub(crate) fn at_any_time_without<T>(
        &self,
        partial: Option<&Path>,
        work: impl FnOnce() -> T,
    ) -> T {
        let note = |path: Option<&Path>| {
            let mut partial = self.partial.lock().unwrap_or_else(PoisonError::into_inner);
            *partial = path.map(Path::to_path_buf);
        };
        note(partial);
        let done = self.at_any_time(work);
        note(None);
        done
    }

    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }
}
