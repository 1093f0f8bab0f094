//! Writes edges as a list of any kind.

use super::{EdgeListKind, binary, matrix_market, text};
use crate::ExternalError;
use std::io::{self, BufWriter, Write};

/// Appends edges to a list.
#[derive(Debug)]
pub struct EdgeListWriter<W: Write> {
    kind: EdgeListKind,
    out: BufWriter<W>,
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
}

impl<W: Write> EdgeListWriter<W> {
    /// Writes what comes before the edges of a graph with so many nodes and edges, which
    /// [`EdgeListKind::check`] lets pass.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn begin(kind: EdgeListKind, node_count: u64, edge_count: u64, out: W) -> io::Result<Self> {
        let mut out = BufWriter::with_capacity(128 << 10, out);
        if kind == EdgeListKind::MatrixMarket {
            matrix_market::write_head(&mut out, node_count, edge_count)?;
        }
        Ok(Self { kind, out })
    }

    /// Appends an edge.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn push(&mut self, edge: (u64, u64)) -> io::Result<()> {
        let out = &mut self.out;
        match self.kind {
            EdgeListKind::Text => text::write_edge(out, edge),
            EdgeListKind::PairsU32 => binary::write_edge::<4>(out, edge),
            EdgeListKind::PairsU64 => binary::write_edge::<8>(out, edge),
            EdgeListKind::MatrixMarket => matrix_market::write_edge(out, edge),
        }
    }

    /// Hands over what is left.
    ///
    /// # Errors
    /// If `out` fails.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()
    }
}
