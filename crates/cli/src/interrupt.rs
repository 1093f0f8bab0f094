//! Ctrl-C as a flag that whoever works asks for.
//!
//! 1. The first Ctrl-C (or SIGTERM) sets the flag; the work ends in order, requests in flight first.
//! 2. The second one ends the program at once. Scratch files have no name, so none stays behind.
//! 3. A file that passes its limit of size (`ulimit -f`) is an error of the write, as a full disk is; unless
//!    somebody listens, the signal that comes with it ends the program without a word.

use crate::failure::Failure;
use crate::output;
use signal_hook::consts::signal::SIGXFSZ;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The flag; clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Interrupt {
    is_set: Arc<AtomicBool>,
}

impl Interrupt {
    /// Listens for Ctrl-C. Called once.
    pub(crate) fn install() -> Result<Self, Failure> {
        let interrupt = Self::default();
        let is_set = Arc::clone(&interrupt.is_set);
        let handler = move || {
            if is_set.swap(true, Ordering::SeqCst) {
                std::process::exit(130);
            }
            output::complain("\nstopping; press Ctrl-C again to end at once");
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

    /// Whether to stop.
    pub(crate) fn is_set(&self) -> bool {
        self.is_set.load(Ordering::SeqCst)
    }
}
