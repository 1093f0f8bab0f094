//! A stream of bytes that is counted, can be stopped, and knows whether it failed itself: what is
//! wrong with bytes is the file's fault, what keeps them away is the system's.

use crate::ExternalError;
use std::io::{Error, ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// What is known of a stream that others read.
#[derive(Debug)]
pub(super) struct Watch {
    read_bytes: Arc<AtomicU64>,
    has_failed: AtomicBool,
    stop: Arc<AtomicBool>,
}

impl Watch {
    pub(super) fn new(stop: Arc<AtomicBool>) -> Self {
        Self { read_bytes: Arc::default(), has_failed: AtomicBool::new(false), stop }
    }

    /// Bytes that were read so far.
    pub(super) fn read_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read_bytes)
    }

    /// Refuses once the user wants to stop.
    pub(super) fn check_stop(&self) -> Result<(), ExternalError> {
        match self.stop.load(Ordering::Relaxed) {
            true => Err(ExternalError::Cancelled),
            false => Ok(()),
        }
    }

    /// The same for who reads.
    fn check_read(&self) -> Result<(), Error> {
        self.check_stop().map_err(Error::other)
    }

    /// What trouble with `file` is: `at_place` is `what` with its place.
    pub(super) fn error(&self, file: &str, at_place: &str, what: &str) -> ExternalError {
        if self.stop.load(Ordering::Relaxed) {
            return ExternalError::Cancelled;
        }
        match self.has_failed.load(Ordering::Relaxed) {
            true => ExternalError::File { file: file.to_owned(), message: what.to_owned() },
            false => ExternalError::Invalid { what: at_place.to_owned() },
        }
    }
}

/// The stream itself.
pub(super) struct Watched<S> {
    stream: S,
    watch: Arc<Watch>,
}

impl<S> Watched<S> {
    pub(super) const fn new(stream: S, watch: Arc<Watch>) -> Self {
        Self { stream, watch }
    }
}

/// A stream of what was unpacked, which ends once the user wants to stop.
pub(super) struct Stoppable<S> {
    stream: S,
    watch: Arc<Watch>,
}

impl<S> Stoppable<S> {
    pub(super) const fn new(stream: S, watch: Arc<Watch>) -> Self {
        Self { stream, watch }
    }
}

impl<S: Read> Read for Stoppable<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.watch.check_read()?;
        self.stream.read(buffer)
    }
}

impl<S: Read> Read for Watched<S> {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize, Error> {
        self.watch.check_read()?;
        let read = self.stream.read(buffer);
        match &read {
            Ok(count) => _ = self.watch.read_bytes.fetch_add(*count as u64, Ordering::Relaxed),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(_) => self.watch.has_failed.store(true, Ordering::Relaxed),
        }
        read
    }
}
