//! Who takes part.

use super::question::Question;
use serde::{Deserialize, Serialize};

/// A sort, or the disk itself.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Two sequential reads and two writes of the records' bytes, as fio makes them with the same
    /// blocks and requests in flight: what the disk asks of whoever sorts.
    Fio,
    /// Ours.
    Nandu,
    /// The same in the program: `nandu external sort` of a file, into another one that then is
    /// durable.
    NanduProgram,
    /// STXXL's sort by comparison.
    StxxlSort,
    /// STXXL's sort by a key that is a number.
    StxxlKsort,
    /// `DuckDB`: from one table into another.
    Duckdb,
    /// GNU sort: lines of text, which have twice the bytes.
    GnuSort,
    /// Our search of Munagala and Ranade.
    NanduMr,
    /// Our search of Mehlhorn and Meyer, clusters by a tour of a spanning tree; both phases.
    NanduMm,
    /// The search of Munagala and Ranade over STXXL's vector and sorter.
    StxxlMr,
    /// Known nodes in memory, edges in a file that is mapped.
    Mmap,
}

impl Contender {
    pub(crate) const ALL: [Self; 11] = [
        Self::Fio,
        Self::Nandu,
        Self::NanduProgram,
        Self::StxxlSort,
        Self::StxxlKsort,
        Self::Duckdb,
        Self::GnuSort,
        Self::NanduMr,
        Self::NanduMm,
        Self::StxxlMr,
        Self::Mmap,
    ];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Fio => "fio",
            Self::Nandu => "nandu",
            Self::NanduProgram => "nandu-program",
            Self::StxxlSort => "stxxl-sort",
            Self::StxxlKsort => "stxxl-ksort",
            Self::Duckdb => "duckdb",
            Self::GnuSort => "gnu-sort",
            Self::NanduMr => "nandu-mr",
            Self::NanduMm => "nandu-mm",
            Self::StxxlMr => "stxxl-mr",
            Self::Mmap => "mmap",
        }
    }

    /// Whether it is one to ask that.
    pub(super) const fn answers(self, question: Question) -> bool {
        let searches = matches!(self, Self::NanduMr | Self::NanduMm | Self::StxxlMr | Self::Mmap);
        matches!(question, Question::Bfs { .. }) == searches
    }

    /// Whether it has a row to answer with.
    pub(crate) const fn has_row(self) -> bool {
        !matches!(self, Self::Fio)
    }
}
