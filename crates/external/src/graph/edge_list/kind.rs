//! The formats of edge lists, and how one is known.
//!
//! 1. What says itself what it is, a head of Matrix Market, counts first; then the end of the name;
//!    then whether the bytes are text. Numbers in binary say nothing, so they need a name or an option.

use super::EdgeReader;
use super::binary::PairReader;
use super::matrix_market::{self, MatrixMarketReader};
use super::text::TextReader;
use nandu_trace::lines::LineReader;
use std::io::Read;
use std::path::Path;

/// A format of edge lists.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeListKind {
    /// Two numbers a line, with spaces, tabs or commas between them; lines of `#` and `%` are
    /// comments.
    Text,
    /// Pairs of numbers of four bytes, the least significant byte first.
    PairsU32,
    /// Pairs of numbers of eight bytes, the least significant byte first.
    PairsU64,
    /// The coordinate format of Matrix Market: a square matrix, whose rows are the nodes, from 1.
    MatrixMarket,
}

impl EdgeListKind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Text, Self::PairsU32, Self::PairsU64, Self::MatrixMarket];

    /// The name used in options and reports.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::PairsU32 => "u32",
            Self::PairsU64 => "u64",
            Self::MatrixMarket => "matrix-market",
        }
    }

    /// Bytes of an edge, where each has as many.
    pub(super) const fn edge_bytes(self) -> Option<u64> {
        match self {
            Self::PairsU32 => Some(8),
            Self::PairsU64 => Some(16),
            Self::Text | Self::MatrixMarket => None,
        }
    }

    /// The kind of this name, as [`Self::label`] has it.
    #[must_use]
    pub fn named(label: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.label() == label)
    }

    /// The end of a file's name that says by what it is packed, in small letters.
    #[must_use]
    pub fn packed_end(file: &str) -> Option<&'static str> {
        let lower = file.to_ascii_lowercase();
        [".gz", ".zst"].into_iter().find(|end| lower.ends_with(end))
    }

    /// The kind that the end of a file's name says, if it says one; what it was packed by may stand
    /// behind.
    #[must_use]
    pub fn of_name(file: &str) -> Option<Self> {
        let lower = file.to_ascii_lowercase();
        let bare =
            Self::packed_end(&lower).and_then(|end| lower.strip_suffix(end)).unwrap_or(&lower);
        match Path::new(bare).extension()?.to_str()? {
            "u32" => Some(Self::PairsU32),
            "u64" => Some(Self::PairsU64),
            "mtx" => Some(Self::MatrixMarket),
            "txt" | "el" | "edges" | "csv" | "tsv" => Some(Self::Text),
            _ => None,
        }
    }

    /// The kind of a file by its first bytes and its name, or why it is not known.
    pub(super) fn of(sample: &[u8], file: &str) -> Result<Self, String> {
        if matrix_market::is_head(sample) {
            return Ok(Self::MatrixMarket);
        }
        if let Some(kind) = Self::of_name(file) {
            return Ok(kind);
        }
        let is_text = |&byte: &u8| byte >= b' ' && byte != 0x7f || b"\t\r\n".contains(&byte);
        if sample.iter().all(is_text) {
            return Ok(Self::Text);
        }
        Err("its format is not known: it is neither text nor Matrix Market; if it has pairs of numbers \
             in binary, say the format u32 or u64, or have its name end in .u32 or .u64"
            .to_owned())
    }

    /// Who reads it.
    pub(super) fn reader(self, stream: Box<dyn Read + Send>) -> Box<dyn EdgeReader> {
        match self {
            Self::Text => Box::new(TextReader::new(LineReader::new(stream))),
            Self::PairsU32 => Box::new(PairReader::<4>::new(stream)),
            Self::PairsU64 => Box::new(PairReader::<8>::new(stream)),
            Self::MatrixMarket => Box::new(MatrixMarketReader::new(LineReader::new(stream))),
        }
    }
}
