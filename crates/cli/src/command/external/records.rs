//! A file of records of one size, read from front to back, many at a time.

use crate::failure::Failure;
use crate::input::Input;
use std::io::{ErrorKind, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const BUFFER_BYTES: usize = 128 << 10;

/// Records of a file, in their order.
pub(super) struct Records {
    input: Input,
    name: String,
    record_bytes: usize,
    buffer: Vec<u8>,
    /// Where the records end that were given, and where what was read does.
    whole_end: usize,
    end: usize,
    read_bytes: Arc<AtomicU64>,
}

impl Records {
    pub(super) fn new(input: Input, name: String, record_bytes: usize) -> Self {
        let buffer = vec![0; BUFFER_BYTES / record_bytes.max(1) * record_bytes.max(1)];
        let read_bytes = Arc::default();
        Self { input, name, record_bytes, buffer, whole_end: 0, end: 0, read_bytes }
    }

    /// Bytes that were read so far.
    pub(super) fn read_bytes(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.read_bytes)
    }

    /// Passes over so many, before any was given.
    ///
    /// # Errors
    /// If there are fewer, or the input cannot be read from anywhere.
    pub(super) fn skip(&mut self, count: u64) -> Result<(), Failure> {
        if count == 0 {
            return Ok(());
        }
        let bytes = count.checked_mul(self.record_bytes as u64);
        let bytes = bytes.filter(|&bytes| self.input.byte_count().is_some_and(|all| bytes <= all));
        let Some(bytes) = bytes else {
            let name = &self.name;
            return Err(Failure::input(format!("{name}: it has fewer records than were sorted")));
        };
        let skipped = self.input.skip_to(bytes);
        skipped.map_err(|error| Failure::system(format!("cannot read {}", self.name), &error))?;
        self.read_bytes.store(bytes, Ordering::Relaxed);
        Ok(())
    }

    /// Those that come next, one at least, as many as are at hand; `None` at the end.
    ///
    /// # Errors
    /// If the file cannot be read, or ends within a record.
    pub(super) fn next_all(&mut self) -> Result<Option<&[u8]>, Failure> {
        if !self.fill()? {
            return Ok(None);
        }
        Ok(Some(&self.buffer[..self.whole_end]))
    }

    fn fill(&mut self) -> Result<bool, Failure> {
        self.buffer.copy_within(self.whole_end..self.end, 0);
        self.end -= self.whole_end;
        self.whole_end = 0;
        while self.end < self.record_bytes {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) if self.end == 0 => return Ok(false),
                Ok(0) => return Err(self.ends_early()),
                Ok(count) => {
                    self.end += count;
                    self.read_bytes.fetch_add(count as u64, Ordering::Relaxed);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => {
                    return Err(Failure::system(format!("cannot read {}", self.name), &error));
                }
            }
        }
        self.whole_end = self.end / self.record_bytes * self.record_bytes;
        Ok(true)
    }

    fn ends_early(&self) -> Failure {
        let (rest, all) = (self.end, self.record_bytes);
        let at = self.read_bytes.load(Ordering::Relaxed) - rest as u64;
        Failure::input(format!(
            "{}, at byte {at}: it ends after {rest} of the {all} bytes of a record; it was cut, or has \
             records of another size",
            self.name
        ))
    }
}
