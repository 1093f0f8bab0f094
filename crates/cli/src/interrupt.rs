//! Ctrl-C as a flag that whoever works asks for.
//!
//! 1. The first Ctrl-C (or SIGTERM) sets the flag; the work ends in order, requests in flight first.
//! 2. The second one ends the program at once, unless it comes within half a second: `timeout` of coreutils
//!    sends one to its child and one to the group, which is one wish. Scratch files have no name, so none stays
//!    behind, and temporary files beyond memory and the output beside them are removed ([`Scratch`]); only the
//!    directory of a benchmark and other files that are not whole yet do. So does the first one end it, one second
//!    later, where the work goes on and an end in its middle leaves nothing behind; and at once where nothing
//!    has begun yet and what is waited for may never come, as a pipe that nobody writes into.
//! 3. A file that passes its limit of size (`ulimit -f`) is an error of the write, as a full disk is; unless
//!    somebody listens, the signal that comes with it ends the program without a word.

use crate::failure::Failure;
use crate::output;
use crate::stopwatch::Stopwatch;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use signal_hook::consts::signal::SIGXFSZ;
use std::fmt;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// How long work may take to end in order, where it need not: nobody waits for two seconds.
const PATIENCE: Duration = Duration::from_millis(1000);

/// Signals within this time after the first one mean the same.
const ONE_WISH: Duration = Duration::from_millis(500);

/// How long who waits for others does not look at the flag.
const LOOK_AFTER: Timespec = Timespec { tv_sec: 0, tv_nsec: 100_000_000 };

/// Others did nothing until the user pressed Ctrl-C.
#[derive(Debug)]
struct Stopped(&'static str);

impl fmt::Display for Stopped {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "interrupted while nobody {}", self.0)
    }
}

impl std::error::Error for Stopped {}

/// Whether an error of reading or writing is that the user did not want to wait any longer.
pub(crate) fn is_interruption(error: &io::Error) -> bool {
    error.get_ref().is_some_and(|error| error.is::<Stopped>())
}

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
    scratch: Arc<Mutex<Vec<Known>>>,
}

/// A file or directory that goes if the program ends at once, unless it stays.
type Known = (PathBuf, Option<Arc<AtomicBool>>);

/// A file or directory that goes, also if the program ends at once, for as long as this lives.
#[derive(Debug)]
pub(crate) struct Scratch {
    path: PathBuf,
    scratch: Arc<Mutex<Vec<Known>>>,
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.retain(|(path, _)| *path != self.path);
    }
}

impl Interrupt {
    /// Listens for Ctrl-C. Called once.
    pub(crate) fn install() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let is_set = Arc::clone(&interrupt.is_set);
        let end = Arc::clone(&interrupt.end);
        let partial = Arc::clone(&interrupt.partial);
        let scratch = Arc::clone(&interrupt.scratch);
        let mut first: Option<Stopwatch> = None;
        let handler = move || {
            match first {
                Some(first) if is_same_wish(first.elapsed()) => return,
                Some(_) => {
                    remove_all(&scratch);
                    std::process::exit(130)
                }
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

    /// Has a file or directory go if the program ends at once, unless `stays` is set then.
    pub(crate) fn scratch(&self, path: PathBuf, stays: Option<Arc<AtomicBool>>) -> Scratch {
        let mut scratch = self.scratch.lock().unwrap_or_else(PoisonError::into_inner);
        scratch.push((path.clone(), stays));
        Scratch { path, scratch: Arc::clone(&self.scratch) }
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

    /// Refuses once the user wants to stop, while others are waited for who do something.
    pub(crate) fn check_waiting(&self, who_does: &'static str) -> io::Result<()> {
        if self.is_set() { Err(io::Error::other(Stopped(who_does))) } else { Ok(()) }
    }

    /// Waits until a file is ready, be it for an error; without one, for as long as nobody looks at the
    /// flag.
    pub(crate) fn wait(
        &self,
        file: Option<(&File, PollFlags)>,
        who_does: &'static str,
    ) -> io::Result<()> {
        loop {
            self.check_waiting(who_does)?;
            let mut asked: Vec<PollFd<'_>> = Vec::new();
            asked.extend(file.map(|(file, flags)| PollFd::new(file, flags)));
            match poll(&mut asked, Some(&LOOK_AFTER)) {
                Ok(0) if file.is_some() => {}
                Err(Errno::INTR) => {}
                Ok(_) => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }
}

/// Removes what goes if the program ends at once. Whoever works there may still do so; nobody waits for it.
fn remove_all(scratch: &Mutex<Vec<Known>>) {
    let known = std::mem::take(&mut *scratch.lock().unwrap_or_else(PoisonError::into_inner));
    for (path, stays) in known {
        if stays.is_some_and(|stays| stays.load(Ordering::SeqCst)) {
            continue;
        }
        // Where it cannot be removed its name says whose it is.
        let _ = match path.is_dir() {
            true => std::fs::remove_dir_all(path),
            false => std::fs::remove_file(path),
        };
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
    fn an_end_at_once_removes_what_does_not_stay() {
        let place = tempfile::tempdir().unwrap();
        let make = |name: &str| {
            let path = place.path().join(name);
            std::fs::create_dir(&path).unwrap();
            std::fs::write(path.join("file"), "much").unwrap();
            path
        };
        let interrupt = Interrupt::default();
        let _gone = interrupt.scratch(make("gone"), None);
        let flags = [false, true].map(|stays| Arc::new(AtomicBool::new(stays)));
        let _begun = interrupt.scratch(make("begun"), Some(Arc::clone(&flags[0])));
        let _kept = interrupt.scratch(make("kept"), Some(Arc::clone(&flags[1])));
        drop(interrupt.scratch(make("done"), None));
        std::fs::write(place.path().join("partial"), "some").unwrap();
        let _partial = interrupt.scratch(place.path().join("partial"), None);
        remove_all(&interrupt.scratch);
        let named = |entry: std::io::Result<std::fs::DirEntry>| entry.unwrap().file_name();
        let mut names: Vec<_> = std::fs::read_dir(place.path()).unwrap().map(named).collect();
        names.sort();
        assert_eq!(names, ["done", "kept"], "who is done removes what is its own");
    }

    #[test]
    fn two_signals_at_once_are_one_wish_and_a_later_one_is_impatience() {
        assert!(is_same_wish(Duration::ZERO) && is_same_wish(Duration::from_millis(499)));
        assert!(!is_same_wish(Duration::from_millis(500)));
    }
}
