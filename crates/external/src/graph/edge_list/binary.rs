//! Pairs of numbers of fixed length, the least significant byte first, with nothing before or
//! between.

use super::{EdgeReader, Place};
use std::io::{self, ErrorKind, Read, Write};

const BUFFER_BYTES: usize = 128 << 10;

/// Reads pairs of numbers of `N` bytes, four or eight.
pub(super) struct PairReader<const N: usize> {
    stream: Box<dyn Read + Send>,
    buffer: Box<[u8]>,
    /// What was read and not given yet.
    start: usize,
    end: usize,
    /// The byte of the stream at which the pair at hand began, and the next one does.
    pair_at: u64,
    next_at: u64,
}

impl<const N: usize> PairReader<N> {
    pub(super) fn new(stream: Box<dyn Read + Send>) -> Self {
        let buffer = vec![0; BUFFER_BYTES].into_boxed_slice();
        Self { stream, buffer, start: 0, end: 0, pair_at: 0, next_at: 0 }
    }

    /// Reads until there is a pair; false at the end.
    #[cold]
    fn fill(&mut self) -> Result<bool, String> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        while self.end < 2 * N {
            match self.stream.read(&mut self.buffer[self.end..]) {
                Ok(0) => return self.at_end(),
                Ok(count) => self.end += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.to_string()),
            }
        }
        Ok(true)
    }

    fn at_end(&self) -> Result<bool, String> {
        match self.end {
            0 => Ok(false),
            rest => Err(format!(
                "the file ends after {rest} of the {} bytes of a pair; it was cut, or has numbers of \
                 another length",
                2 * N
            )),
        }
    }

    fn number(bytes: &[u8]) -> u64 {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&bytes[..N]);
        u64::from_le_bytes(wide)
    }
}

impl<const N: usize> EdgeReader for PairReader<N> {
    fn next_edge(&mut self) -> Result<Option<(u64, u64)>, String> {
        self.pair_at = self.next_at;
        if self.end - self.start < 2 * N && !self.fill()? {
            return Ok(None);
        }
        let pair = &self.buffer[self.start..self.start + 2 * N];
        let edge = (Self::number(pair), Self::number(&pair[N..]));
        self.start += 2 * N;
        self.next_at += 2 * N as u64;
        Ok(Some(edge))
    }

    fn place(&self) -> Place {
        Place::Byte(self.pair_at)
    }
}

/// Writes an edge by numbers of `N` bytes, which its nodes fit into.
pub(super) fn write_edge<const N: usize>(
    out: &mut impl Write,
    (left, right): (u64, u64),
) -> io::Result<()> {
    out.write_all(&left.to_le_bytes()[..N])?;
    out.write_all(&right.to_le_bytes()[..N])
}
