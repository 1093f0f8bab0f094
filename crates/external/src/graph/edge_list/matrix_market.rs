//! The coordinate format of Matrix Market (Boisvert, Pozo, Remington, NISTIR 5935, 1996): an entry
//! in row i and column j is an edge between the nodes i and j.
//!
//! ```text
//!   %%MatrixMarket matrix coordinate pattern symmetric
//!   % comments
//!   4 4 3                  rows, columns, entries
//!   2 1                    row, column, and a value unless it is a pattern
//!   3 1
//!   4 3
//! ```
//!
//! 1. The matrix is square, and has as many entries as its head says.
//! 2. Values are numbers and say nothing else: an entry of zero is an edge, too.

use super::fields::{fields, next_line, number, shown};
use super::{EdgeReader, Place};
use nandu_trace::lines::LineReader;
use std::io::{self, Write};

const HEAD: &[u8] = b"%%MatrixMarket";
const SYMMETRIES: [&[u8]; 4] = [b"general", b"symmetric", b"skew-symmetric", b"hermitian"];
/// How many numbers a value of a kind has.
const VALUES: [(&[u8], usize); 5] =
    [(b"pattern", 0), (b"integer", 1), (b"real", 1), (b"double", 1), (b"complex", 2)];

/// Reads the entries of a matrix.
pub(super) struct MatrixMarketReader {
    lines: LineReader,
    /// How many numbers the value of an entry has.
    value_count: usize,
    node_count: u64,
    entry_count: u64,
    read_count: u64,
}

/// Whether a file begins like one.
pub(super) fn is_head(sample: &[u8]) -> bool {
    sample.get(..HEAD.len()).is_some_and(|start| start.eq_ignore_ascii_case(HEAD))
}

impl MatrixMarketReader {
    pub(super) const fn new(lines: LineReader) -> Self {
        Self { lines, value_count: 0, node_count: 0, entry_count: 0, read_count: 0 }
    }

    fn size(&mut self) -> Result<(), String> {
        loop {
            let line = next_line(&mut self.lines)?;
            let Some(line) = line else { return Err(ends_early("before the size of the matrix")) };
            let mut sizes = fields(line).map(number);
            let Some(rows) = sizes.next() else { continue };
            let [rows, columns, entries] = [Some(rows), sizes.next(), sizes.next()]
                .map(|size| size.unwrap_or_else(|| Err("a size is missing".to_owned())));
            let (rows, columns, entries) = (rows?, columns?, entries?);
            if sizes.next().is_some() {
                return Err("the size of a matrix is rows, columns and entries, no more".to_owned());
            }
            if rows != columns {
                return Err(format!(
                    "the matrix has {rows} rows and {columns} columns; a graph has as many of both"
                ));
            }
            (self.node_count, self.entry_count) = (rows, entries);
            return Ok(());
        }
    }

    /// The edge of a line; `None` if it is a comment or empty.
    fn edge_of(line: &[u8], value_count: usize) -> Result<Option<(u64, u64)>, String> {
        let mut fields = fields(line);
        let Some(row) = fields.next() else { return Ok(None) };
        let row = index(row)?;
        let column = index(fields.next().ok_or("the entry has a row and no column")?)?;
        for _ in 0..value_count {
            let value =
                fields.next().ok_or("the entry has no value, and its head says that it does")?;
            let is_number =
                std::str::from_utf8(value).is_ok_and(|text| text.parse::<f64>().is_ok());
            if !is_number {
                return Err(format!("{} is no value of an entry", shown(value)));
            }
        }
        match fields.next() {
            Some(more) => Err(format!(
                "the entry has {} besides, which its head says nothing of",
                shown(more)
            )),
            None => Ok(Some((row, column))),
        }
    }
}

impl EdgeReader for MatrixMarketReader {
    fn begin(&mut self) -> Result<(), String> {
        let head = next_line(&mut self.lines)?.unwrap_or_default();
        if !is_head(head) {
            return Err(
                "a file of Matrix Market begins with `%%MatrixMarket matrix coordinate`; give it \
                        that line, or say its format"
                    .to_owned(),
            );
        }
        self.value_count = value_count_of(head)?;
        self.size()
    }

    fn next_edge(&mut self) -> Result<Option<(u64, u64)>, String> {
        loop {
            let Some(line) = next_line(&mut self.lines)? else {
                if self.read_count < self.entry_count {
                    let (read, all) = (self.read_count, self.entry_count);
                    return Err(ends_early(&format!("after {read} of {all} entries")));
                }
                return Ok(None);
            };
            let Some(edge) = Self::edge_of(line, self.value_count)? else { continue };
            if self.read_count == self.entry_count {
                return Err(format!(
                    "the head says {} entries, and there are more",
                    self.entry_count
                ));
            }
            self.read_count += 1;
            return Ok(Some(edge));
        }
    }

    fn place(&self) -> Place {
        Place::Line(self.lines.line_number().max(1))
    }

    fn node_count(&self) -> Option<u64> {
        Some(self.node_count)
    }

    fn first_node(&self) -> u64 {
        1
    }
}

/// How many numbers a value has, by the words of the first line.
fn value_count_of(head: &[u8]) -> Result<usize, String> {
    let words: Vec<Vec<u8>> = head[HEAD.len()..]
        .split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(<[u8]>::to_ascii_lowercase)
        .collect();
    let [object, format, value, symmetry] = words.as_slice() else {
        return Err(
            "the first line has four words behind %%MatrixMarket, such as `matrix coordinate \
                    pattern symmetric`"
                .to_owned(),
        );
    };
    if object != b"matrix" || format != b"coordinate" {
        let what = [object.as_slice(), b" ", format].concat();
        return Err(format!(
            "{} is no list of entries; write it as `matrix coordinate`",
            shown(&what)
        ));
    }
    if !SYMMETRIES.contains(&symmetry.as_slice()) {
        return Err(format!(
            "{} is no symmetry; there are general, symmetric, skew-symmetric and hermitian",
            shown(symmetry)
        ));
    }
    let found = VALUES.iter().find(|(name, _)| name == value);
    found.map(|&(_, count)| count).ok_or_else(|| {
        format!(
            "{} is no kind of value; there are pattern, integer, real and complex",
            shown(value)
        )
    })
}

/// The node of a row or column.
fn index(field: &[u8]) -> Result<u64, String> {
    let counted = number(field)?;
    counted
        .checked_sub(1)
        .ok_or_else(|| "rows and columns are counted from 1, and this is 0".to_owned())
}

fn ends_early(when: &str) -> String {
    format!("the file ends {when}; it was cut, fetch it again")
}

/// Writes the lines before the edges.
pub(super) fn write_head(out: &mut impl Write, node_count: u64, edge_count: u64) -> io::Result<()> {
    writeln!(out, "%%MatrixMarket matrix coordinate pattern symmetric")?;
    writeln!(out, "{node_count} {node_count} {edge_count}")
}

/// Writes an edge below the diagonal.
pub(super) fn write_edge(out: &mut impl Write, (left, right): (u64, u64)) -> io::Result<()> {
    writeln!(out, "{} {}", left.max(right) + 1, left.min(right) + 1)
}
