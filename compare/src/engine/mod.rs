//! The engines, one sibling file each behind one pair of traits: a [`Store`] is an open database,
//! a [`Reader`] what one thread reads it with.
//!
//! 1. A database is a directory; whatever lies in it is the engine's.
//! 2. After [`Store::close`] everything inserted is in the files, although perhaps not yet on disk:
//!    the caller syncs them.
//! 3. Keys are ordered as numbers in every engine, so scans visit the same records everywhere.

mod berkeley_db;
mod fjall;
mod lmdb;
mod nandu;
mod redb;
mod rocksdb;
mod sqlite;

use crate::Failure;
use crate::workload::Record;
use nandu_storage::engine::TornPages;
use nandu_storage::propagation::PropagationKind;
use serde::{Deserialize, Serialize};
use std::path::Path;
use std::time::{Duration, Instant};

/// One of the engines that are compared.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, clap::ValueEnum,
)]
pub(crate) enum EngineKind {
    /// Berkeley DB, from the system's library.
    BerkeleyDb,
    /// SQLite, a table with an integer primary key, from the system's library.
    Sqlite,
    /// The same with its file mapped.
    SqliteMmap,
    /// LMDB, from the system's library.
    Lmdb,
    /// The same, changing pages in its map.
    LmdbWritemap,
    /// RocksDB, from the system's library.
    Rocksdb,
    /// redb, built in.
    Redb,
    /// fjall, built in.
    Fjall,
    /// Ours, in place, with a pool of the size of the others' own caches.
    Nandu,
    /// Ours, in place, with a pool of about the memory that the others have with the page cache.
    NanduWide,
    /// The same without protection from torn pages, as the others have none where nothing is
    /// durable.
    NanduTrust,
    /// Ours, log-structured, with the wide pool.
    NanduLog,
    /// As the wide one, with what no peer has: rows handed over in one call, and scans that read ahead.
    NanduRuns,
}

/// What lies below an engine's interface; goals are set against the best of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Pages of a B-tree, in place or copied.
    BTree,
    /// Sorted runs, merged.
    LogStructuredMerge,
    /// The engine of nandu.
    Nandu,
}

/// How a database is opened.
pub(crate) struct Settings<'a> {
    /// Its directory, which exists.
    pub(crate) directory: &'a Path,
    /// What the engine may keep in memory by its own setting.
    pub(crate) cache_bytes: u64,
    /// Pages of this size, where the engine lets one choose.
    pub(crate) page_bytes: u32,
    /// Memory of the whole process, page cache included.
    pub(crate) limit_bytes: u64,
    /// Most requests in flight for one thread, where an engine has more than one.
    pub(crate) queue_depth: u32,
    /// What it is opened for.
    pub(crate) purpose: Purpose,
    /// How many threads will work at once.
    pub(crate) thread_count: u32,
}

/// What a database is opened for. Engines whose memory is divided by a setting divide it for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Inserts in the fastest ordinary mode.
    Load,
    /// Inserts where each call of [`Store::insert`] is durable when it returns.
    LoadDurably,
    /// Lookups and scans.
    Read,
    /// Threads that read and change single records, nothing synced when a change is done.
    Serve,
    /// Threads that read and change single records, each change durable when it is done.
    ServeDurably,
}

impl Purpose {
    /// Whether each change is durable when it is done.
    pub(crate) fn is_durable(self) -> bool {
        matches!(self, Self::LoadDurably | Self::ServeDurably)
    }

    /// Whether several threads change it at once.
    pub(crate) fn has_clients(self) -> bool {
        matches!(self, Self::Serve | Self::ServeDurably)
    }
}

/// An open database.
pub(crate) trait Store: Sync {
    /// Adds records as one transaction or batch; durably, if opened for that.
    ///
    /// # Errors
    /// The engine's.
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure>;

    /// What one thread reads with.
    ///
    /// # Errors
    /// The engine's.
    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure>;

    /// What one thread reads and changes single records with, while others do; of a database that was
    /// opened to serve.
    ///
    /// # Errors
    /// The engine's.
    fn client(&self) -> Result<Box<dyn Client + '_>, Failure>;

    /// Waits for work that the engine put off, like compaction, so that it does not fall into what is
    /// measured next.
    ///
    /// # Errors
    /// If it does not end.
    fn settle(&mut self) -> Result<(), Failure> {
        Ok(())
    }

    /// Brings everything into the files.
    ///
    /// # Errors
    /// The engine's.
    fn close(self: Box<Self>) -> Result<(), Failure>;
}

/// Told of each record that a reader finds; may refuse it.
pub(crate) type Visitor<'a> = dyn FnMut(u64, &[u8]) -> Result<(), Failure> + 'a;

/// One thread's way to read.
pub(crate) trait Reader {
    /// Looks one key up and shows its value; false if there is none.
    ///
    /// # Errors
    /// The engine's and the visitor's.
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure>;

    /// Visits at most `count` records in the order of keys, from the first not below `start`.
    ///
    /// # Errors
    /// The engine's and the visitor's.
    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure>;

    /// Looks several keys up at once with at most [`Settings::queue_depth`] requests in flight, and
    /// shows what it finds in any order; `None` if the engine has no such call, else how many were
    /// found.
    ///
    /// # Errors
    /// The engine's and the visitor's.
    fn get_batch(
        &mut self,
        _keys: &[u64],
        _visit: &mut Visitor<'_>,
    ) -> Result<Option<u64>, Failure> {
        Ok(None)
    }
}

/// One thread's way to read and change single records, each call a transaction of its own.
pub(crate) trait Client {
    /// Looks one key up as it is now and shows its value; false if there is none.
    ///
    /// # Errors
    /// The engine's and the visitor's.
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure>;

    /// Stores a record, in place of the one with its key if there is one; durably, if opened for that.
    ///
    /// # Errors
    /// The engine's.
    fn put(&mut self, record: &Record) -> Result<(), Failure>;
}

impl EngineKind {
    /// All of them, in the order of the table.
    pub(crate) const ALL: [Self; 13] = [
        Self::BerkeleyDb,
        Self::Sqlite,
        Self::SqliteMmap,
        Self::Lmdb,
        Self::LmdbWritemap,
        Self::Redb,
        Self::Rocksdb,
        Self::Fjall,
        Self::Nandu,
        Self::NanduWide,
        Self::NanduTrust,
        Self::NanduLog,
        Self::NanduRuns,
    ];

    /// As it is called on the command line and in results.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::BerkeleyDb => "berkeley-db",
            Self::Sqlite => "sqlite",
            Self::SqliteMmap => "sqlite-mmap",
            Self::Lmdb => "lmdb",
            Self::LmdbWritemap => "lmdb-writemap",
            Self::Rocksdb => "rocksdb",
            Self::Redb => "redb",
            Self::Fjall => "fjall",
            Self::Nandu => "nandu",
            Self::NanduWide => "nandu-wide",
            Self::NanduTrust => "nandu-trust",
            Self::NanduLog => "nandu-log",
            Self::NanduRuns => "nandu-runs",
        }
    }

    /// What lies below.
    pub(crate) fn family(self) -> Family {
        match self {
            Self::BerkeleyDb
            | Self::Sqlite
            | Self::SqliteMmap
            | Self::Lmdb
            | Self::LmdbWritemap
            | Self::Redb => Family::BTree,
            Self::Rocksdb | Self::Fjall => Family::LogStructuredMerge,
            Self::Nandu | Self::NanduWide | Self::NanduTrust | Self::NanduLog | Self::NanduRuns => {
                Family::Nandu
            }
        }
    }

    /// Whether one thread can ask for several keys at once.
    pub(crate) fn has_batches(self) -> bool {
        self.family() == Family::Nandu || self == Self::Rocksdb
    }

    /// The version that would be measured.
    ///
    /// # Errors
    /// [`Failure::Missing`] with the command that installs it.
    pub(crate) fn version(self) -> Result<String, Failure> {
        match self {
            Self::BerkeleyDb => berkeley_db::version(),
            Self::Sqlite | Self::SqliteMmap => sqlite::version(),
            Self::Lmdb | Self::LmdbWritemap => lmdb::version(),
            Self::Rocksdb => rocksdb::version(),
            Self::Redb => Ok(locked_version("redb")),
            Self::Fjall => Ok(locked_version("fjall")),
            Self::Nandu | Self::NanduWide | Self::NanduTrust | Self::NanduLog | Self::NanduRuns => {
                Ok(env!("CARGO_PKG_VERSION").into())
            }
        }
    }

    /// Opens the database in `settings.directory`, and makes one if there is none.
    ///
    /// # Errors
    /// The engine's, or that it is missing.
    pub(crate) fn open(self, settings: &Settings<'_>) -> Result<Box<dyn Store>, Failure> {
        let ours = |variant| nandu::open(settings, variant);
        let narrow = nandu::Variant {
            has_wide_pool: false,
            is_in_runs: false,
            torn_pages: TornPages::DoubleWrite,
            propagation: PropagationKind::InPlace,
        };
        let wide = nandu::Variant { has_wide_pool: true, ..narrow };
        let trust = nandu::Variant { torn_pages: TornPages::Trust, ..wide };
        match self {
            Self::BerkeleyDb => berkeley_db::open(settings),
            Self::Sqlite => sqlite::open(settings, false),
            Self::SqliteMmap => sqlite::open(settings, true),
            Self::Lmdb => lmdb::open(settings, false),
            Self::LmdbWritemap => lmdb::open(settings, true),
            Self::Rocksdb => rocksdb::open(settings),
            Self::Redb => redb::open(settings),
            Self::Fjall => fjall::open(settings),
            Self::Nandu => ours(narrow),
            Self::NanduWide => ours(wide),
            Self::NanduTrust => ours(trust),
            Self::NanduLog => {
                ours(nandu::Variant { propagation: PropagationKind::LogStructured, ..trust })
            }
            Self::NanduRuns => ours(nandu::Variant { is_in_runs: true, ..wide }),
        }
    }
}

/// The version of a crate that is built in.
fn locked_version(name: &str) -> String {
    const LOCK: &str = include_str!("../../../Cargo.lock");
    LOCK.split_once(&format!("name = \"{name}\"\nversion = \""))
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or_else(|| "unknown".into(), |(version, _)| version.into())
}

/// Waits until `is_busy` has said no several times in a row: one piece of work may begin the next.
///
/// # Errors
/// If it is busy for longer than any load of ours takes to settle.
#[allow(
    clippy::disallowed_methods,
    reason = "libraries that tell of their work in numbers only are asked again and again"
)]
fn wait_while(what: &str, mut is_busy: impl FnMut() -> bool) -> Result<(), Failure> {
    const BETWEEN: Duration = Duration::from_millis(20);
    const QUIET_COUNT: u32 = 10;
    const LONGEST: Duration = Duration::from_secs(600);
    let started = Instant::now();
    let mut quiet_count = 0;
    while quiet_count < QUIET_COUNT {
        quiet_count = if is_busy() { 0 } else { quiet_count + 1 };
        if started.elapsed() > LONGEST {
            return Err(Failure::Engine(format!("{what} for more than {LONGEST:?}")));
        }
        std::thread::sleep(BETWEEN);
    }
    Ok(())
}

/// A key as byte-ordered engines keep it.
fn key_of(bytes: &[u8]) -> Result<u64, Failure> {
    bytes
        .try_into()
        .map(u64::from_be_bytes)
        .map_err(|_| Failure::Wrong(format!("a key of {} bytes", bytes.len())))
}

#[cfg(test)]
mod tests;
