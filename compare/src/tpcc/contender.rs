//! Who takes part, and what all of them can do: be loaded, be opened, have sessions, be asked for the
//! conditions.

use super::postgresql::{self, Calls};
use super::{nandu, sqlite};
use crate::Failure;
use nandu_bench::tpcc::{Input, Output};
use nandu_load::Tpcc;
use serde::{Deserialize, Serialize};
use std::path::Path;

/// Who takes part.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Ours, with the memory that the others have as their own cache.
    Nandu,
    /// Ours, with the memory that the others have together with the page cache.
    NanduWide,
    /// SQLite in this program: a connection for each client.
    Sqlite,
    /// A server of the system: statements over a socket, each prepared.
    Postgresql,
    /// The same, transactions as functions in the server.
    PostgresqlFunctions,
}

/// A database on disk that contenders share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum StoreKind {
    /// A directory of ours.
    Nandu,
    /// A file of SQLite.
    Sqlite,
    /// A cluster of `PostgreSQL`.
    Postgresql,
}

/// How a contender is set.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setting {
    /// Memory for pages.
    pub(super) memory_bytes: u64,
    /// What the control group may have, page cache included.
    pub(super) group_bytes: u64,
    pub(super) client_count: u32,
}

/// A database that is open.
pub(super) trait Store {
    /// The way to it of the client of this number.
    ///
    /// # Errors
    /// If the engine refuses.
    fn session(&self, number: u32) -> Result<Box<dyn Session + '_>, Failure>;

    /// The conditions that do not hold, in words.
    ///
    /// # Errors
    /// If the engine cannot answer.
    fn broken_conditions(&self, tpcc: &Tpcc) -> Result<Vec<String>, Failure>;

    /// Orders that came in by the counters of all districts, with those that were loaded.
    ///
    /// # Errors
    /// If the engine cannot answer.
    fn order_count(&self) -> Result<u64, Failure>;

    /// Ends it in order.
    ///
    /// # Errors
    /// If the engine cannot.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// A client's way to a database.
pub(super) trait Session: Send {
    /// Does a transaction, as often as it takes, until it is durable.
    ///
    /// # Errors
    /// If the engine fails.
    fn execute(&mut self, input: &Input) -> Result<Output, Failure>;

    /// Transactions that were begun again, so far.
    fn retry_count(&self) -> u64;
}

impl Contender {
    pub(super) const ALL: [Self; 5] =
        [Self::Nandu, Self::NanduWide, Self::Sqlite, Self::Postgresql, Self::PostgresqlFunctions];

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Nandu => "nandu",
            Self::NanduWide => "nandu-wide",
            Self::Sqlite => "sqlite",
            Self::Postgresql => "postgresql",
            Self::PostgresqlFunctions => "postgresql-functions",
        }
    }

    pub(super) const fn store_kind(self) -> StoreKind {
        match self {
            Self::Nandu | Self::NanduWide => StoreKind::Nandu,
            Self::Sqlite => StoreKind::Sqlite,
            Self::Postgresql | Self::PostgresqlFunctions => StoreKind::Postgresql,
        }
    }

    /// What version of it is there, for contenders who are not this project's.
    ///
    /// # Errors
    /// If none is; says how to install it.
    pub(super) fn version(self) -> Result<Option<String>, Failure> {
        match self {
            Self::Nandu | Self::NanduWide => Ok(None),
            Self::Sqlite => Ok(Some(sqlite::version())),
            Self::Postgresql | Self::PostgresqlFunctions => postgresql::version().map(Some),
        }
    }

    /// Opens what [`StoreKind::load`] made.
    ///
    /// # Errors
    /// If the engine refuses, or does not sync.
    pub(super) fn open(
        self,
        directory: &Path,
        setting: &Setting,
    ) -> Result<Box<dyn Store>, Failure> {
        match self {
            Self::Nandu => nandu::open(directory, setting.memory_bytes),
            Self::NanduWide => nandu::open(directory, nandu::wide_pool_bytes(setting)),
            Self::Sqlite => sqlite::open(directory, setting),
            Self::Postgresql => postgresql::open(directory, setting, Calls::Statements),
            Self::PostgresqlFunctions => postgresql::open(directory, setting, Calls::Functions),
        }
    }
}

impl StoreKind {
    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Nandu => "nandu",
            Self::Sqlite => "sqlite",
            Self::Postgresql => "postgresql",
        }
    }

    /// Makes the tables in a new directory, and closes them.
    ///
    /// # Errors
    /// If the engine refuses.
    pub(super) fn load(self, directory: &Path, tpcc: &Tpcc) -> Result<(), Failure> {
        match self {
            Self::Nandu => nandu::load(directory, tpcc),
            Self::Sqlite => sqlite::load(directory, tpcc),
            Self::Postgresql => postgresql::load(directory, tpcc),
        }
    }
}
