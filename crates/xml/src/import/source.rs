//! The text of a document as it is read: where in it the reader is, and how long one piece may be.
//!
//! 1. Lines and columns count what was consumed; columns count characters.
//! 2. A tag, a text, a comment or what else is one piece is at most [`PIECE_BYTES_MAX`] long, so
//!    that memory is bounded.

use crate::error::Place;
use std::fmt;
use std::io::{self, BufRead, Read};

/// The longest tag, text or comment: it is in memory at once.
pub const PIECE_BYTES_MAX: u64 = 64 << 20;

const BUFFER_BYTES: usize = 256 << 10;

/// Something that is read from front to back.
pub(super) struct Source<R> {
    input: R,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    byte_count: u64,
    /// Where the piece began that is being read.
    piece_at: u64,
    place: Place,
}

/// A piece is too long.
#[derive(Debug)]
pub(super) struct TooLong;

impl fmt::Display for TooLong {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mib = PIECE_BYTES_MAX >> 20;
        write!(formatter, "a tag, text or comment is longer than {mib} MiB, which is the limit")
    }
}

impl std::error::Error for TooLong {}

impl<R: Read> Source<R> {
    pub(super) fn new(input: R) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        let place = Place { line: 1, column: 1 };
        Self { input, buffer, start: 0, end: 0, byte_count: 0, piece_at: 0, place }
    }

    /// The first bytes, as many as four, without consuming them.
    pub(super) fn first_bytes(&mut self) -> io::Result<&[u8]> {
        while self.end < 4 {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(count) => self.end += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(&self.buffer[..self.end.min(4)])
    }

    /// Where the next byte is.
    #[inline]
    pub(super) const fn place(&self) -> Place {
        self.place
    }

    /// How many bytes were consumed.
    #[inline]
    pub(super) const fn byte_count(&self) -> u64 {
        self.byte_count
    }

    /// A piece begins here.
    #[inline]
    pub(super) const fn begin_piece(&mut self) {
        self.piece_at = self.byte_count;
    }
}

impl<R: Read> Read for Source<R> {
    fn read(&mut self, target: &mut [u8]) -> io::Result<usize> {
        let available = self.fill_buf()?;
        let count = available.len().min(target.len());
        target[..count].copy_from_slice(&available[..count]);
        self.consume(count);
        Ok(count)
    }
}

impl<R: Read> BufRead for Source<R> {
    #[inline]
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.start == self.end {
            if self.byte_count - self.piece_at > PIECE_BYTES_MAX {
                return Err(io::Error::other(TooLong));
            }
            self.start = 0;
            self.end = self.input.read(&mut self.buffer)?;
        }
        Ok(&self.buffer[self.start..self.end])
    }

    #[inline]
    fn consume(&mut self, count: usize) {
        self.place.pass(&self.buffer[self.start..self.start + count]);
        self.start += count;
        self.byte_count += count as u64;
    }
}

impl Place {
    /// Goes on behind these bytes.
    #[inline]
    pub(super) fn pass(&mut self, passed: &[u8]) {
        let mut line = passed;
        if let Some(last) = memchr::memrchr(b'\n', passed) {
            self.line += memchr::memchr_iter(b'\n', passed).count() as u64;
            self.column = 1;
            line = &passed[last + 1..];
        }
        self.column += line.iter().filter(|&&byte| byte & 0xC0 != 0x80).count() as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_lines_and_characters() {
        let mut source = Source::new("a\näö\r\nb".as_bytes());
        assert_eq!(source.first_bytes().unwrap(), "a\nä".as_bytes());
        let mut places = Vec::new();
        for count in [1, 1, 2, 2, 1, 1, 1] {
            assert!(!source.fill_buf().unwrap().is_empty());
            source.consume(count);
            places.push((source.place().line, source.place().column));
        }
        assert_eq!(places, [(1, 2), (2, 1), (2, 2), (2, 3), (2, 4), (3, 1), (3, 2)]);
        assert_eq!(source.byte_count(), 9);
        assert!(source.fill_buf().unwrap().is_empty());
    }

    #[test]
    fn a_piece_without_an_end_ends_at_its_limit() {
        let mut source = Source::new(io::repeat(b'x'));
        let error = io::copy(&mut source, &mut io::sink()).unwrap_err();
        assert!(error.to_string().contains("64 MiB"), "{error}");
        assert!(source.byte_count() < PIECE_BYTES_MAX + 1 + BUFFER_BYTES as u64);
        source.begin_piece();
        assert!(source.fill_buf().is_ok());
    }
}
