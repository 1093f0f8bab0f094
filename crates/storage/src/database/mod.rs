//! Tables, rows and indexes over the engine: the API that an embedder sees.
//!
//! ```text
//!   Database ──read()──► ReadTransaction ──┐
//!       │                                  ├─ deref ─► Tables: get, scan, index_scan, check
//!       └────write()───► WriteTransaction ─┘
//!                           insert, update, delete, create_table … commit │ rollback
//!                           load_table: any number of rows past the log
//! ```
//!
//! 1. Readers share, one writer excludes them; so a reader sees what was committed and nothing else
//!    (decision 007). That it is durable, too, is the business of who commits: see
//!    [`Database::read`].
//! 2. A row and its index entries change in one transaction: both are there or neither.
//! 3. A write transaction that is dropped is rolled back.
//! 4. The catalogue is a tree like any other. A file to which it does not refer was made by a
//!    transaction that never committed, and is removed at the next opening.

mod batch;
mod catalog;
mod change;
mod check;
pub mod key;
mod load;
mod names;
pub mod schema;
mod sorter;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_file_numbers;

pub use change::check_name;
pub use check::CheckReport;
pub use load::{LoadOptions, LoadReport, NewTable, RowOrder, TableLoad};
pub use schema::{Column, ColumnType, IndexDefinition, Row, TableDefinition, TableKind};
pub use tables::{FetchOrder, Flow, TableStat, Tables};

use crate::engine::{RestartReport, Savepoint, Settings, Volumes};
use crate::log::{Durability, SharedLog};
use crate::{Engine, StorageError};
use nandu_workers::sync::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// An open database. Clone the handle for other threads.
#[derive(Clone)]
pub struct Database {
    tables: Arc<RwLock<Tables>>,
    log: SharedLog,
    durability: Durability,
}

/// Any number at once; no write transaction runs meanwhile.
pub struct ReadTransaction<'d> {
    tables: RwLockReadGuard<'d, Tables>,
}

/// A transaction that changes tables. There is one at a time.
pub struct WriteTransaction<'d> {
    database: &'d Database,
    tables: RwLockWriteGuard<'d, Tables>,
    is_over: bool,
}

impl Database {
    /// Makes an empty database. `identity` is any number that no other database has.
    ///
    /// # Errors
    /// As [`Engine::create`].
    pub fn create(
        volumes: Volumes,
        settings: &Settings,
        identity: u64,
    ) -> Result<Self, StorageError> {
        let mut engine = Engine::create(volumes, settings, identity)?;
        catalog::create(&mut engine)?;
        Self::over(engine)
    }

    /// Opens a database, restarting it after a crash.
    ///
    /// # Errors
    /// As [`Engine::open`], or if the catalogue is damaged.
    pub fn open(
        volumes: Volumes,
        settings: &Settings,
    ) -> Result<(Self, RestartReport), StorageError> {
        let (mut engine, report) = Engine::open(volumes, settings)?;
        if catalog::find(&engine).is_none() {
            // The creation was interrupted between the engine's part and the catalogue.
            catalog::create(&mut engine)?;
        }
        Ok((Self::over(engine)?, report))
    }

    fn over(engine: Engine) -> Result<Self, StorageError> {
        let (log, durability) = (engine.log(), engine.settings().durability);
        let tables = Arc::new(RwLock::new(Tables::open(engine)?));
        Ok(Self { tables, log, durability })
    }

    /// Begins to read. Waits for a write transaction to end, but not until its commit is durable: what
    /// is read may be a commit that a power cut takes back, as long as the writer's
    /// [`WriteTransaction::commit`] has not returned (later still where the durability is less than
    /// every commit). [`Self::flush`] makes sure of it.
    #[must_use]
    pub fn read(&self) -> ReadTransaction<'_> {
        // A writer that panicked left an active transaction, which the next writer rolls back.
        ReadTransaction { tables: self.tables.read() }
    }

    /// Begins to read if no write transaction is at work or waits; `None` otherwise.
    #[must_use]
    pub fn try_read(&self) -> Option<ReadTransaction<'_>> {
        self.tables.try_read().map(|tables| ReadTransaction { tables })
    }

    /// Begins to write if no other transaction is at work; `None` otherwise.
    ///
    /// # Errors
    /// As [`Self::write`].
    pub fn try_write(&self) -> Result<Option<WriteTransaction<'_>>, StorageError> {
        self.tables.try_write().map(|tables| self.begin(tables)).transpose()
    }

    /// Begins to write. Waits for all other transactions to end.
    ///
    /// # Errors
    /// If an earlier failure stopped the engine.
    pub fn write(&self) -> Result<WriteTransaction<'_>, StorageError> {
        self.begin(self.tables.write())
    }

    fn begin<'d>(
        &'d self,
        mut tables: RwLockWriteGuard<'d, Tables>,
    ) -> Result<WriteTransaction<'d>, StorageError> {
        if tables.engine().is_active() {
            tables.rollback()?;
        }
        tables.engine_mut().begin()?;
        Ok(WriteTransaction { database: self, tables, is_over: false })
    }

    /// Makes everything durable that was committed, whatever the durability.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub fn flush(&self) -> Result<(), StorageError> {
        self.log.flush()
    }

    /// Takes a checkpoint.
    ///
    /// # Errors
    /// As [`Engine::checkpoint`].
    pub fn checkpoint(&self) -> Result<(), StorageError> {
        let mut tables = self.tables.write();
        tables.engine_mut().checkpoint()
    }

    /// Says that all is there that the volumes were made for: see [`Engine::finish_making`].
    ///
    /// # Errors
    /// If a device fails.
    pub fn finish_making(&self) -> Result<(), StorageError> {
        let mut tables = self.tables.write();
        tables.engine_mut().finish_making()
    }

    /// Empties the buffer pool, so that what comes next is read from the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn drop_cached_pages(&self) -> Result<(), StorageError> {
        let mut tables = self.tables.write();
        tables.engine_mut().drop_cached_pages()
    }

    /// Closes the database, so that the next opening finds nothing to do. Without it the next opening
    /// restarts as after a crash.
    ///
    /// # Errors
    /// If the device fails, or other handles are still in use.
    pub fn close(self) -> Result<(), StorageError> {
        let Some(tables) = Arc::into_inner(self.tables) else {
            let what = "the database cannot be closed while other handles are in use".to_owned();
            return Err(StorageError::InvalidSetting { what });
        };
        tables.into_inner().into_engine().close()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Database({:?}, {:?})", self.durability, self.log)
    }
}

impl Deref for ReadTransaction<'_> {
    type Target = Tables;
    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl Deref for WriteTransaction<'_> {
    type Target = Tables;
    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl DerefMut for WriteTransaction<'_> {
    fn deref_mut(&mut self) -> &mut Tables {
        &mut self.tables
    }
}

impl WriteTransaction<'_> {
    /// Commits, and waits as the durability says. The database is free for others while this waits,
    /// so that several commits share one flush of the log; they see a commit then that is not durable
    /// yet.
    ///
    /// # Errors
    /// If the log fails; then it is not known whether the transaction is durable, and the database
    /// has to be opened again.
    pub fn commit(mut self) -> Result<(), StorageError> {
        self.is_over = true;
        let lsn = self.tables.commit()?;
        let Database { log, durability, .. } = self.database;
        // A file that was dropped goes only after nothing durable refers to it any more.
        if self.tables.has_dropped_files() {
            log.flush()?;
            self.tables.remove_dropped_files()?;
        }
        drop(self);
        match lsn {
            Some(lsn) => log.make_commit_durable(lsn, *durability),
            None => Ok(()),
        }
    }

    /// Takes everything back.
    ///
    /// # Errors
    /// If a page cannot be read or the log fails; the next opening takes it back then.
    pub fn rollback(mut self) -> Result<(), StorageError> {
        self.is_over = true;
        self.tables.rollback()
    }

    /// Marks a place to come back to.
    #[must_use]
    pub fn savepoint(&self) -> Savepoint {
        self.tables.engine().savepoint()
    }

    /// Takes back what was done since `savepoint`.
    ///
    /// # Errors
    /// As [`Self::rollback`].
    pub fn rollback_to(&mut self, savepoint: Savepoint) -> Result<(), StorageError> {
        self.tables.rollback_to(savepoint)
    }
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            // An error here stops the engine, so that the next call reports it.
            let _ = self.tables.rollback();
        }
    }
}
