//! Writes edges as a list of any kind.

use super::{EdgeListKind, binary, matrix_market, text};
use crate::ExternalError;
use std::io::{self, Write};

/// So many bytes are handed over at a time, and some more.
const BUFFER_BYTES: usize = 128 << 10;

/// Appends edges to a list.
#[derive(Debug)]
pub struct EdgeListWriter<W: Write> {
    kind: EdgeListKind,
    /// What was not handed over yet: whatever it goes to, what is written is compiled once.
    buffer: Vec<u8>,
    out: W,
}

impl EdgeListKind {
    /// Whether a graph of so many nodes can be written so.
    ///
    /// # Errors
    /// If numbers of nodes do not fit, with what would do.
    pub fn check(self, node_count: u64) -> Result<(), ExternalError> {
        if self == Self::PairsU32 && node_count > 1 << 32 {
            let what = format!("{node_count} nodes have no numbers of four bytes; write u64");
            return Err(ExternalError::Invalid { what });
        }
        Ok(())
    }

    fn write(self, buffer: &mut Vec<u8>, edge: (u64, u64)) -> io::Result<()> {
        match self {
            Self::Text => text::write_edge(buffer, edge),
            Self::PairsU32 => binary::write_edge::<4>(buffer, edge),
            Self::PairsU64 => binary::write_edge::<8>(buffer, edge),
            Self::MatrixMarket => matrix_market::write_edge(buffer, edge),
        }
    }
}

impl<W: Write> EdgeListWriter<W> {
    /// Writes what comes before the edges of a graph with so many nodes and edges, which
    /// [`EdgeListKind::check`] lets pass.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn begin(kind: EdgeListKind, node_count: u64, edge_count: u64, out: W) -> io::Result<Self> {
        let mut buffer = Vec::with_capacity(BUFFER_BYTES);
        if kind == EdgeListKind::MatrixMarket {
            matrix_market::write_head(&mut buffer, node_count, edge_count)?;
        }
        Ok(Self { kind, buffer, out })
    }

    /// Appends an edge.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn push(&mut self, edge: (u64, u64)) -> io::Result<()> {
        self.kind.write(&mut self.buffer, edge)?;
        if self.buffer.len() < BUFFER_BYTES {
            return Ok(());
        }
        self.hand_over()
    }

    fn hand_over(&mut self) -> io::Result<()> {
        self.out.write_all(&self.buffer)?;
        self.buffer.clear();
        Ok(())
    }

    /// Hands over what is left.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.hand_over()?;
        self.out.flush()
    }
}
