//! Two numbers a line, as SNAP, KONECT and most programs write them.
//!
//! 1. A line has two numbers, or none. What has more may be weights, or a list of neighbours, and
//!    which is not for us to guess.

use super::fields::{fields, next_line, number};
use super::{EdgeReader, Place};
use nandu_trace::lines::LineReader;
use std::io::{self, Write};

/// What some programs put in front of a text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads edges of a text.
pub(super) struct TextReader {
    lines: LineReader,
}

impl TextReader {
    pub(super) const fn new(lines: LineReader) -> Self {
        Self { lines }
    }
}

impl EdgeReader for TextReader {
    fn next_edge(&mut self) -> Result<Option<(u64, u64)>, String> {
        loop {
            let is_first = self.lines.line_number() == 0;
            let Some(line) = next_line(&mut self.lines)? else { return Ok(None) };
            let mark = if is_first { BYTE_ORDER_MARK } else { b"" };
            if let Some(edge) = edge_of(line.strip_prefix(mark).unwrap_or(line))? {
                return Ok(Some(edge));
            }
        }
    }

    fn place(&self) -> Place {
        Place::Line(self.lines.line_number())
    }
}

/// The edge of a line; `None` if it is a comment or empty.
fn edge_of(line: &[u8]) -> Result<Option<(u64, u64)>, String> {
    let mut fields = fields(line);
    let Some(left) = fields.next() else { return Ok(None) };
    let left = number(left)?;
    let Some(right) = fields.next() else {
        return Err(
            "the line has one number, and an edge has two; put # before what is no edge".to_owned()
        );
    };
    let right = number(right)?;
    if fields.next().is_some() {
        return Err("the line has more than two numbers; leave the first two columns (awk '{print $1, $2}')"
            .to_owned());
    }
    Ok(Some((left, right)))
}

/// Writes an edge.
pub(super) fn write_edge(out: &mut impl Write, (left, right): (u64, u64)) -> io::Result<()> {
    writeln!(out, "{left} {right}")
}
