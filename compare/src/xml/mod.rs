//! XML documents beside `PostgreSQL` and `BaseX`: `cargo xtask compare-xml`. One document of TPoX, the
//! same for all: imported with an index of ids, parts of it looked up by id, a word changed in them,
//! each change durable where who does it can.
//!
//! ```text
//!   custacc.xml ─► nandu              one document of small records
//!               ├► postgresql-rows    a row for each customer, an index of an expression of XPath
//!               ├► postgresql-whole   one value
//!               └► basex              one document, indexes of all values
//!   each repetition: who comes first alternates; a sync is measured beside each
//!         ─► medians ─► results/MACHINE/compare-xml
//! ```
//!
//! 1. Each contender proves what it did: a part has its id, a word that was changed is there.
//!
//! What is asked and how each contender is set stands in `docs/compare-xml.md`.

mod basex;
mod nandu;
mod plan;
mod postgresql;
mod table;

pub(crate) use plan::{Options, run};

use crate::Failure;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// The first word of the command line of this comparison.
pub(crate) const COMPARISON: &str = "xml";

/// The namespace of customers.
const NAMESPACE: &str = "http://tpox-benchmark.com/custacc";
/// What a changed word begins with; no word of the document does.
const NEW_WORD: &str = "word";

/// Who takes part.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum, Serialize, Deserialize,
)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Contender {
    /// Ours, in this process.
    Nandu,
    /// A row for each customer.
    PostgresqlRows,
    /// The document as one value.
    PostgresqlWhole,
    /// A store of XML, in a virtual machine of its own.
    Basex,
}

impl Contender {
    pub(crate) const ALL: [Self; 4] =
        [Self::Nandu, Self::PostgresqlRows, Self::PostgresqlWhole, Self::Basex];

    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Nandu => "nandu",
            Self::PostgresqlRows => "postgresql-rows",
            Self::PostgresqlWhole => "postgresql-whole",
            Self::Basex => "basex",
        }
    }

    /// What version of it is there, for contenders who are not this program.
    ///
    /// # Errors
    /// If none is; says how to install it.
    fn version(self, directory: &Path) -> Result<Option<String>, Failure> {
        match self {
            Self::Nandu => Ok(None),
            Self::PostgresqlRows | Self::PostgresqlWhole => postgresql::version().map(Some),
            Self::Basex => basex::version(directory).map(Some),
        }
    }
}

/// The document, and what is asked of it.
#[derive(Clone, Debug)]
struct Task {
    /// The document.
    file: PathBuf,
    byte_count: u64,
    /// Ids of customers go from here on.
    first_id: u64,
    customer_count: u64,
    lookup_count: u64,
    update_count: u64,
    /// What outlasts a run lies here: programs of contenders.
    directory: PathBuf,
    /// Where a contender may write.
    scratch: PathBuf,
    /// Memory for pages.
    pool_bytes: u64,
    seed: u64,
}

/// What one contender took, once.
#[derive(Clone, Copy, Debug)]
struct Taken {
    import_s: f64,
    /// Means.
    lookup_ms: f64,
    update_ms: f64,
}

impl Task {
    /// Does the task.
    ///
    /// # Errors
    /// If the contender is missing, fails, or does not do it.
    fn take(&self, contender: Contender) -> Result<Taken, Failure> {
        match contender {
            Contender::Nandu => nandu::take(self),
            Contender::PostgresqlRows => postgresql::take(self, postgresql::Layout::Rows),
            Contender::PostgresqlWhole => postgresql::take(self, postgresql::Layout::Whole),
            Contender::Basex => basex::take(self),
        }
    }
}

fn wrong(contender: &str, what: &str) -> Failure {
    Failure::Wrong(format!("{contender}: {what}"))
}

fn failure_at(path: &Path) -> impl Fn(std::io::Error) -> Failure + '_ {
    move |error| crate::stock::failure_at(path, &error)
}
