//! Who takes part.

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
    /// STXXL's sort by comparison.
    StxxlSort,
    /// STXXL's sort by a key that is a number.
    StxxlKsort,
    /// `DuckDB`: from one table into another.
    Duckdb,
    /// GNU sort: lines of text, which have twice the bytes.
    GnuSort,
}

impl Contender {
    pub(crate) const ALL: [Self; 6] =
        [Self::Fio, Self::Nandu, Self::StxxlSort, Self::StxxlKsort, Self::Duckdb, Self::GnuSort];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Fio => "fio",
            Self::Nandu => "nandu",
            Self::StxxlSort => "stxxl-sort",
            Self::StxxlKsort => "stxxl-ksort",
            Self::Duckdb => "duckdb",
            Self::GnuSort => "gnu-sort",
        }
    }

    /// Whether it sorts records, and has a row to answer with.
    pub(crate) const fn is_sort(self) -> bool {
        !matches!(self, Self::Fio)
    }
}
