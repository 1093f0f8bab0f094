//! Ctrl-C as a flag that whoever works asks for.
//!
//! 1. The first Ctrl-C (or SIGTERM) sets the flag; the work ends in order, requests in flight first.
//! 2. The second one ends the program at once, unless it comes within half a second: `timeout` of coreutils
//!    sends one to its child and one to the group, which is one wish. Scratch files have no name, so none stays
//!    behind; only the directory of a benchmark does. So does the first one end it, one second
//!    later, where the work goes on and an end in its middle leaves nothing behind; and at once where nothing
//!    has begun yet and what is waited for may never come, as a pipe that nobody writes into.
//! 3. A file that passes its limit of size (`ulimit -f`) is an error of the write, as a full disk is; unless
//!    somebody listens, the signal that comes with it ends the program without a word.

use crate::failure::Failure;
use crate::output;
use crate::stopwatch::Stopwatch;
use signal_hook::consts::signal::SIGXFSZ;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long work may take to end in order, where it need not: nobody waits for two seconds.
const PATIENCE: Duration = Duration::from_millis(1000);

/// Signals within this time after the first one mean the same.
const ONE_WISH: Duration = Duration::from_millis(500);

/// An end now would leave something behind: the work ends in order.
const IN_ORDER: u8 = 0;
/// An end now would leave nothing behind but `partial`; the work has [`PATIENCE`] to end by itself.
const SOON: u8 = 1;
/// Nothing has begun.
const AT_ONCE: u8 = 2;

/// The flag; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    is_set: Arc<AtomicBool>,
    /// How the program may end now: [`IN_ORDER`], [`SOON`] or [`AT_ONCE`].
    end: Arc<AtomicU8>,
    /// A file that is not whole yet and goes if the program ends now.
    partial: Arc<Mutex<Option<PathBuf>>>,
}

impl Interrupt {
    /// Listens for Ctrl-C. Called once.
    pub(crate) fn install() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let is_set = Arc::clone(&interrupt.is_set);
        let end = Arc::clone(&interrupt.end);
        let partial = Arc::clone(&interrupt.partial);
        let mut first: Option<Stopwatch> = None;
        let handler = move || {
            match first {
                Some(first) if is_same_wish(first.elapsed()) => return,
                Some(_) => std::process::exit(130),
                None => first = Some(Stopwatch::start()),
            }
            is_set.store(true, Ordering::SeqCst);
            if end.load(Ordering::SeqCst) == AT_ONCE {
                leave();
            }
            output::complain("\nstopping; press Ctrl-C again to end at once");
            let (end, partial) = (Arc::clone(&end), Arc::clone(&partial));
            thread::spawn(move || {
                thread::park_timeout(PATIENCE);
                if end.load(Ordering::SeqCst) != IN_ORDER {
                    let partial = partial.lock().unwrap_or_else(PoisonError::into_inner).take();
                    // Where it cannot be removed its name says whose it is.
                    let _ = partial.map(std::fs::remove_file);
                    leave();
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
        self.ending(SOON, work)
    }

    /// Does what comes before all work, such as reading what the user named: it makes nothing, and may
    /// wait for ever.
    pub(crate) fn before_work<T>(&self, work: impl FnOnce() -> T) -> T {
        self.ending(AT_ONCE, work)
    }

    fn ending<T>(&self, end: u8, work: impl FnOnce() -> T) -> T {
        let before = self.end.swap(end, Ordering::SeqCst);
        let done = work();
        self.end.store(before, Ordering::SeqCst);
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

/// Whether a signal so long after the first one says nothing new.
fn is_same_wish(since_first: Duration) -> bool {
    since_first < ONE_WISH
}

/// Ends a program that leaves nothing behind.
fn leave() -> ! {
    output::complain("interrupted: nothing was left behind; run it again to start over");
    std::process::exit(130);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_signals_at_once_are_one_wish_and_a_later_one_is_impatience() {
        assert!(is_same_wish(Duration::ZERO) && is_same_wish(Duration::from_millis(499)));
        assert!(!is_same_wish(Duration::from_millis(500)));
    }
}
