//! Lines out of a stream, in constant memory.
//!
//! ```text
//!   buffer │ given out │ start … whole lines, perhaps a partial one … end │ room │
//! ```
//!
//! 1. The buffer never grows: a line that does not fit is trouble, and its rest is passed over, up
//!    to 16 MiB: behind that nothing more comes.
//! 2. Trouble of the stream is told after the last whole line before it, and once.

use std::io::Read;

const BUFFER_BYTES: usize = 256 << 10;
/// The longest line that is read, in bytes.
pub const LINE_BYTES_MAX: usize = 64 << 10;
/// How long a line may be to be passed over: what has none that end, such as `/dev/zero`, is no
/// text.
const SKIPPED_BYTES_MAX: usize = 16 << 20;

/// What a reader found.
#[derive(Debug)]
pub enum Line<'a> {
    /// The line without its end.
    Text(&'a [u8]),
    /// The line is longer than [`LINE_BYTES_MAX`] and has been passed over.
    TooLong,
    /// The stream failed; nothing more comes.
    Broken(String),
    /// There is no more.
    End,
}

/// Reads a file line by line, each of a limited length.
pub struct LineReader {
    stream: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    stream_ended: bool,
    trouble: Option<String>,
    line_number: u64,
}

impl std::fmt::Debug for LineReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "LineReader(line {})", self.line_number)
    }
}

impl LineReader {
    /// Reads lines out of `stream`.
    #[must_use]
    pub fn new(stream: Box<dyn Read + Send>) -> Self {
        Self {
            stream,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            start: 0,
            end: 0,
            stream_ended: false,
            trouble: None,
            line_number: 0,
        }
    }

    /// The number of the line given out last, from 1.
    #[must_use]
    pub const fn line_number(&self) -> u64 {
        self.line_number
    }

    /// Asserts the first invariant of the module.
    ///
    /// # Panics
    /// If it does not hold.
    pub fn audit(&self) {
        assert!(self.start <= self.end, "what is given out has been read");
        assert!(self.end <= self.buffer.len(), "what is read lies in the buffer");
        assert!(self.buffer.len() == BUFFER_BYTES, "the buffer never grows");
    }

    /// The first whole lines without consuming them; of a short stream all of it.
    pub fn sample(&mut self) -> &[u8] {
        while self.end - self.start < LINE_BYTES_MAX && self.fill() {}
        let bytes = &self.buffer[self.start..self.end];
        if self.stream_ended && self.trouble.is_none() {
            return bytes;
        }
        let whole = memchr::memrchr(b'\n', bytes).map_or(0, |position| position + 1);
        &bytes[..whole]
    }

    /// The next line, without its end.
    #[inline]
    pub fn next_line(&mut self) -> Line<'_> {
        if let Some(length) = memchr::memchr(b'\n', &self.buffer[self.start..self.end]) {
            if length > LINE_BYTES_MAX {
                self.line_number += 1;
                self.start += length + 1;
                return Line::TooLong;
            }
            let first = self.start;
            self.start += length + 1;
            self.line_number += 1;
            return Line::Text(strip_return(&self.buffer[first..first + length]));
        }
        self.next_line_from_stream()
    }

    #[cold]
    fn next_line_from_stream(&mut self) -> Line<'_> {
        let mut searched = self.end - self.start;
        let mut too_long = false;
        let mut skipped_bytes = 0;
        loop {
            if searched > LINE_BYTES_MAX {
                too_long = true;
                skipped_bytes += searched;
                if skipped_bytes > SKIPPED_BYTES_MAX {
                    let most = SKIPPED_BYTES_MAX >> 20;
                    let message =
                        format!("no line ends within {most} MiB; this is no text of lines");
                    self.stream_ended = true;
                    self.trouble = Some(message);
                }
                self.start = self.end;
                searched = 0;
            }
            if !self.fill() {
                return self.last_line(too_long);
            }
            let from = self.start + searched;
            if let Some(length) = memchr::memchr(b'\n', &self.buffer[from..self.end]) {
                let (first, last) = (self.start, from + length);
                self.start = last + 1;
                self.line_number += 1;
                if too_long || last - first > LINE_BYTES_MAX {
                    return Line::TooLong;
                }
                return Line::Text(strip_return(&self.buffer[first..last]));
            }
            searched = self.end - self.start;
        }
    }

    /// What is left when the stream gives no more.
    fn last_line(&mut self, too_long: bool) -> Line<'_> {
        let (first, last) = (self.start, self.end);
        self.start = self.end;
        if let Some(message) = self.trouble.take() {
            self.line_number += 1;
            return Line::Broken(message);
        }
        if first == last && !too_long {
            return Line::End;
        }
        self.line_number += 1;
        if too_long {
            return Line::TooLong;
        }
        Line::Text(strip_return(&self.buffer[first..last]))
    }

    /// Reads more; false at the end or at trouble.
    fn fill(&mut self) -> bool {
        if self.stream_ended {
            return false;
        }
        if self.start > 0 {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        if self.end == self.buffer.len() {
            return false;
        }
        loop {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => self.stream_ended = true,
                Ok(count) => {
                    self.end += count;
                    return true;
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    self.stream_ended = true;
                    self.trouble = Some(error.to_string());
                }
            }
            return false;
        }
    }
}

fn strip_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Cursor, Error};

    fn all(stream: impl Read + Send + 'static) -> Vec<String> {
        let mut reader = LineReader::new(Box::new(stream));
        let mut lines = Vec::new();
        loop {
            lines.push(match reader.next_line() {
                Line::Text(text) => String::from_utf8(text.to_vec()).unwrap(),
                Line::TooLong => "(too long)".into(),
                Line::Broken(message) => format!("({message})"),
                Line::End => return lines,
            });
            assert_eq!(reader.line_number(), lines.len() as u64);
        }
    }

    /// Gives one byte at a time, then fails.
    struct Drip(Cursor<Vec<u8>>, bool);

    impl Read for Drip {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            match self.0.read(&mut buffer[..1]) {
                Ok(0) if self.1 => Err(Error::other("cable pulled")),
                other => other,
            }
        }
    }

    #[test]
    fn lines_come_out_whole_however_they_arrive() {
        let text = b"one\r\n\ntwo\nlast".to_vec();
        let expected = ["one", "", "two", "last"];
        assert_eq!(all(Cursor::new(text.clone())), expected);
        assert_eq!(all(Drip(Cursor::new(text), false)), expected);
        assert!(all(Cursor::new(Vec::new())).is_empty());
    }

    #[test]
    fn trouble_comes_after_the_whole_lines_and_names_its_own() {
        let text = b"one\ntwo\nhalf".to_vec();
        assert_eq!(all(Drip(Cursor::new(text), true)), ["one", "two", "(cable pulled)"]);
    }

    #[test]
    fn a_stream_without_lines_ends_in_trouble() {
        let read = std::sync::Arc::new(std::sync::atomic::AtomicU64::new(0));
        let counted = std::sync::Arc::clone(&read);
        struct Zeros(std::sync::Arc<std::sync::atomic::AtomicU64>);
        impl Read for Zeros {
            fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
                buffer.fill(0);
                self.0.fetch_add(buffer.len() as u64, std::sync::atomic::Ordering::Relaxed);
                Ok(buffer.len())
            }
        }
        let said = all(Cursor::new("one\n").chain(Zeros(counted)));
        assert_eq!(said, ["one", "(no line ends within 16 MiB; this is no text of lines)"]);
        let most = (SKIPPED_BYTES_MAX + 2 * BUFFER_BYTES) as u64;
        assert!(read.load(std::sync::atomic::Ordering::Relaxed) <= most);
    }

    #[test]
    fn a_line_without_end_is_passed_over_in_constant_memory() {
        for length in [LINE_BYTES_MAX, LINE_BYTES_MAX + 1, BUFFER_BYTES, 3 * BUFFER_BYTES + 7] {
            let long = "x".repeat(length);
            let shown = if length > LINE_BYTES_MAX { "(too long)" } else { &long };
            let text = format!("a\n{long}\nb\n");
            assert_eq!(all(Cursor::new(text.into_bytes())), ["a", shown, "b"], "{length}");
            assert_eq!(all(Cursor::new(long.clone().into_bytes())), [shown], "{length}");
        }
    }
}
