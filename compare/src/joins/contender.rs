//! Who takes part: every engine with every join of its own that can be chosen.
//!
//! 1. A contender that cannot run inside a limit fails there; that is a result, not an error.

use super::query::Query;
use nandu_query::JoinKind;
use serde::{Deserialize, Serialize};

/// An engine and how it joins.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// `DuckDB` over Parquet in small row groups: hash join, which spills.
    Duckdb,
    /// The same over Parquet as `DuckDB` writes it when nobody says how.
    DuckdbDefault,
    /// The same over tables of its own format.
    DuckdbTable,
    /// Block nested loops by hand in `DuckDB`, customer in two slices.
    #[value(name = "duckdb-bnl-2")]
    #[serde(rename = "duckdb-bnl-2")]
    DuckdbBnl2,
    /// The same in eight slices.
    #[value(name = "duckdb-bnl-8")]
    #[serde(rename = "duckdb-bnl-8")]
    DuckdbBnl8,
    /// `DataFusion` over Parquet: hash join, which does not spill.
    DatafusionHash,
    /// `DataFusion` over Parquet: sort-merge join, whose sorts spill.
    DatafusionMerge,
    /// `SQLite`: index nested loops by the primary key of customer.
    Sqlite,
    /// `SQLite` without an index: it makes one for the query.
    SqliteAutomatic,
    /// Ours: block nested loops.
    NanduBnl,
    /// Ours: hybrid hash.
    NanduHybrid,
    /// Ours: Grace hash.
    NanduGrace,
    /// Ours: sort-merge, whatever the planner would take.
    NanduMerge,
    /// Ours: whichever join the planner takes.
    NanduPlanned,
    /// The same over tables in PAX pages, of which it reads the columns that are asked for.
    NanduPax,
}

/// How a contender is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Means {
    /// A script of Python.
    Script {
        /// The script's file name, beside the module.
        script: &'static str,
        /// Which way of the script's.
        variant: &'static str,
        /// Slices of block nested loops by hand; 0 for the engine's own join.
        slice_count: u32,
    },
    /// One of our joins; `None` for the planner's choice.
    Nandu(Option<JoinKind>),
}

/// What of the data a contender reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Format {
    /// Shuffled Parquet in small row groups, which all others are made from.
    Parquet,
    /// The same in row groups of the usual size.
    DefaultParquet,
    /// A database of `DuckDB`.
    Duckdb,
    /// A database of `SQLite`.
    Sqlite,
    /// Heap tables of ours.
    Nandu,
    /// Our tables in PAX pages.
    NanduPax,
}

impl Contender {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 15] = [
        Self::Duckdb,
        Self::DuckdbDefault,
        Self::DuckdbTable,
        Self::DuckdbBnl2,
        Self::DuckdbBnl8,
        Self::DatafusionHash,
        Self::DatafusionMerge,
        Self::Sqlite,
        Self::SqliteAutomatic,
        Self::NanduBnl,
        Self::NanduHybrid,
        Self::NanduGrace,
        Self::NanduMerge,
        Self::NanduPlanned,
        Self::NanduPax,
    ];

    /// As it is called on the command line and in results.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Duckdb => "duckdb",
            Self::DuckdbDefault => "duckdb-default",
            Self::DuckdbTable => "duckdb-table",
            Self::DuckdbBnl2 => "duckdb-bnl-2",
            Self::DuckdbBnl8 => "duckdb-bnl-8",
            Self::DatafusionHash => "datafusion-hash",
            Self::DatafusionMerge => "datafusion-merge",
            Self::Sqlite => "sqlite",
            Self::SqliteAutomatic => "sqlite-automatic",
            Self::NanduBnl => "nandu-bnl",
            Self::NanduHybrid => "nandu-hybrid",
            Self::NanduGrace => "nandu-grace",
            Self::NanduMerge => "nandu-merge",
            Self::NanduPlanned => "nandu-planned",
            Self::NanduPax => "nandu-pax",
        }
    }

    /// How it is run.
    pub(crate) fn means(self) -> Means {
        let script = |script, variant, slice_count| Means::Script { script, variant, slice_count };
        match self {
            Self::Duckdb => script("duckdb_join.py", "parquet", 0),
            Self::DuckdbDefault => script("duckdb_join.py", "default", 0),
            Self::DuckdbTable => script("duckdb_join.py", "table", 0),
            Self::DuckdbBnl2 => script("duckdb_join.py", "parquet", 2),
            Self::DuckdbBnl8 => script("duckdb_join.py", "parquet", 8),
            Self::DatafusionHash => script("datafusion_join.py", "hash", 0),
            Self::DatafusionMerge => script("datafusion_join.py", "merge", 0),
            Self::Sqlite => script("sqlite_join.py", "key", 0),
            Self::SqliteAutomatic => script("sqlite_join.py", "automatic", 0),
            Self::NanduBnl => Means::Nandu(Some(JoinKind::BlockNestedLoops)),
            Self::NanduHybrid => Means::Nandu(Some(JoinKind::HybridHash)),
            Self::NanduGrace => Means::Nandu(Some(JoinKind::GraceHash)),
            Self::NanduMerge => Means::Nandu(Some(JoinKind::SortMerge)),
            Self::NanduPlanned | Self::NanduPax => Means::Nandu(None),
        }
    }

    /// What it reads.
    pub(crate) fn format(self) -> Format {
        match self {
            Self::Duckdb
            | Self::DuckdbBnl2
            | Self::DuckdbBnl8
            | Self::DatafusionHash
            | Self::DatafusionMerge => Format::Parquet,
            Self::DuckdbDefault => Format::DefaultParquet,
            Self::DuckdbTable => Format::Duckdb,
            Self::Sqlite | Self::SqliteAutomatic => Format::Sqlite,
            Self::NanduBnl
            | Self::NanduHybrid
            | Self::NanduGrace
            | Self::NanduMerge
            | Self::NanduPlanned => Format::Nandu,
            Self::NanduPax => Format::NanduPax,
        }
    }

    /// Whether it takes part in a query: slices by hand and `SQLite`, which are far behind, only in
    /// that of S001.
    pub(crate) fn answers(self, query: Query) -> bool {
        query == Query::Wide
            || !matches!(
                self,
                Self::DuckdbBnl2 | Self::DuckdbBnl8 | Self::Sqlite | Self::SqliteAutomatic
            )
    }

    /// Whether it uses no more than one thread, whatever it is given.
    pub(crate) fn is_serial(self) -> bool {
        matches!(self, Self::NanduGrace | Self::Sqlite | Self::SqliteAutomatic)
    }

    /// Whether it is nandu.
    pub(crate) fn is_ours(self) -> bool {
        matches!(self.means(), Means::Nandu(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::ValueEnum as _;
    use std::collections::BTreeSet;

    #[test]
    fn a_contender_has_the_same_name_everywhere() {
        let mut labels = BTreeSet::new();
        for contender in Contender::ALL {
            let label = contender.label();
            assert!(labels.insert(label), "{label} twice");
            let value = contender.to_possible_value().unwrap();
            assert_eq!(value.get_name(), label);
            assert_eq!(serde_json::to_string(&contender).unwrap(), format!("\"{label}\""));
        }
        assert_eq!(Contender::value_variants().len(), Contender::ALL.len());
    }
}
