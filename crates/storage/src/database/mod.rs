//! Tables, rows and indexes over the engine: the API that an embedder sees.
//!
//! ```text
//!   Database ──snapshot()──► Snapshot ─────────┐
//!       ├──────read()──────► ReadTransaction ──┼─ deref ─► Tables: get, rows, index_scan, check
//!       └──────write()─────► WriteTransaction ─┘
//!                              insert, update, delete, create_table … commit │ rollback
//!                              load_table: any number of rows past the log
//! ```
//!
//! 1. A snapshot sees what was committed when it was taken and nothing else; it waits for no transaction,
//!    and none waits for it (`view`). Write transactions run side by side and lock rows, and the names of the
//!    tables that they use (`locks`, decision 015). That what is seen is durable, too, is the business of who commits: see
//!    [`Database::read`].
//! 2. A row and its index entries change in one transaction: both are there or neither.
//! 3. A write transaction that is dropped is rolled back.
//! 4. The catalogue is a tree like any other. A file to which it does not refer was made by a
//!    transaction that never committed, and is removed at the next opening.

mod ahead;
mod around;
mod batch;
mod catalog;
mod change;
mod changing;
mod check;
mod copies;
mod core;
mod entries;
pub mod key;
mod key_values;
mod kind;
mod load;
mod locks;
mod marks;
mod merges;
mod name_locks;
mod names;
mod open_table;
mod row_scan;
pub mod schema;
mod sorter;
mod step;
mod tables;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_of_file_numbers;
#[cfg(test)]
mod tests_of_many;
mod transaction;
mod turns;
mod typed;
mod used;
mod view;

pub use around::Around;
pub use change::check_name;
pub use check::CheckReport;
pub use entries::{EntryRange, EntryScan};
pub use kind::{ReadAs, TableKind};
pub use load::{LoadOptions, LoadReport, NewTable, RowOrder, TableLoad};
pub use marks::Mark;
pub use name_locks::NameAccess;
pub use row_scan::{RowRange, RowScan};
pub use schema::{Column, ColumnType, IndexDefinition, Row, TableDefinition};
pub use tables::{FetchOrder, Flow, TableStat, Tables};
pub use transaction::{Isolation, ReadTransaction, Snapshot, WriteTransaction};
pub use typed::{TypedRows, values_of};
pub use view::EngineView;

use self::core::Core;
use self::locks::{Locks, Wanted};
use self::transaction::BegunTransaction;
use crate::engine::checkpoint::Begun;
use crate::engine::versions::Versions;
use crate::engine::{RestartReport, Settings, Volumes};
use crate::log::SharedLog;
use crate::plant::{EngineBug, is_planted};
use crate::pool::{PageReader, WantsCleaning};
use crate::propagation::PageWatch;
use crate::volume::Io;
use crate::{Engine, FileId, Lsn, StorageError};
use nandu_base::Nanos;
use nandu_workers::sync::RwLock;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};

/// How often [`Database::transact`] tries again.
const ATTEMPT_COUNT_MAX: u32 = 1000;

/// An open database. Clone the handle for other threads.
#[derive(Clone)]
pub struct Database {
    shared: Arc<Shared>,
}

/// What all handles, snapshots and transactions of an open database share.
struct Shared {
    /// Held for one page by who reads, for an action by who writes.
    core: RwLock<Core>,
    locks: Arc<Locks>,
    versions: Arc<Versions>,
    catalog: FileId,
    /// Grows whenever a commit has changed tables.
    tables_version: Arc<AtomicU64>,
    log: SharedLog,
    data_io: Io,
    /// Reads pages without the engine.
    page_reader: PageReader,
    /// Whether dirty pages should be written without the engine.
    wants_cleaning: WantsCleaning,
    settings: Settings,
    /// Write transactions that have not ended.
    writer_count: AtomicU32,
    /// Whether files wait for the end of older views.
    has_doomed_files: AtomicBool,
}

impl Shared {
    /// Waits for a lock.
    fn wait_for_lock(
        &self,
        transaction: u64,
        wanted: &Wanted,
        told: impl Fn() -> String,
    ) -> Result<(), StorageError> {
        let limit = Nanos(self.settings.lock_timeout_ns);
        self.locks.lock(transaction, wanted, limit, || self.data_io.present(), told)
    }

    /// Where dirty pages are about to stand in the way of others, writes some of them with the engine left
    /// to these. Who is alone would wait for it here as for the eviction later.
    fn clean_ahead(&self) {
        if !self.wants_cleaning.is_set() || self.company_count() == 0 {
            return;
        }
        let Some(cleaning) = self.core.read().engine().plan_cleaning() else { return };
        // Whoever needs the frames writes the pages again, and has the error if it comes again.
        let _ = cleaning.write();
        self.core.read().engine().land_cleaning();
    }

    /// What whoever has committed, and holds nothing any more, does for all.
    fn tidy_up(&self, wants_checkpoint: bool) {
        if wants_checkpoint && self.company_count() > 0 {
            // If it fails, one that is due is taken by whoever acts next.
            let _ = self.checkpoint_beside();
        }
        self.clean_ahead();
    }

    /// Takes a checkpoint with the engine left to others; false where that cannot be done, somebody is at
    /// one, or has overtaken this one, with what success nobody knows here.
    fn checkpoint_beside(&self) -> Result<bool, StorageError> {
        let Some(begun) = self.core.write().engine_mut().begin_checkpoint()? else {
            return Ok(false);
        };
        let answer = self.take_checkpoint(begun);
        if !matches!(answer, Ok(true)) {
            self.core.write().engine_mut().give_up_checkpoint(begun);
        }
        answer
    }

    fn take_checkpoint(&self, begun: Begun) -> Result<bool, StorageError> {
        let parts = self.core.read().engine().pages_due(begun);
        for part in parts {
            let Some(cleaning) = self.core.read().engine().plan_writing(&part) else { continue };
            let written = cleaning.write();
            self.core.read().engine().land_cleaning();
            written?;
        }
        let (sync, found) = self.core.read().engine().plan_sync();
        let synced = match is_planted(EngineBug::CheckpointWithoutSync) {
            true => sync.leave(),
            false => sync.write(),
        };
        self.core.read().engine().land_cleaning();
        synced?;
        let Some(ended) = self.core.write().engine_mut().end_checkpoint(begun, &found)? else {
            return Ok(false);
        };
        self.log.make_durable(ended.end())?;
        self.core.write().engine_mut().complete_checkpoint(ended)
    }

    /// How many read or write.
    fn company_count(&self) -> u64 {
        u64::from(self.writer_count.load(Ordering::Relaxed)) + self.versions.view_count()
    }

    /// A view has ended.
    fn end_view(&self, seen: Lsn) {
        self.versions.end(seen);
        if self.has_doomed_files.load(Ordering::Acquire) {
            let mut core = self.core.write();
            core.remove_doomed_files(self.versions.oldest());
            self.has_doomed_files.store(!core.doomed_files.is_empty(), Ordering::Release);
        }
    }
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
        let locks = Arc::new(Locks::default());
        let (log, data_io) = (engine.log(), engine.data_io());
        let versions = Arc::clone(engine.versions());
        let (page_reader, wants_cleaning) = (engine.page_reader(), engine.wants_cleaning());
        let settings = engine.settings().clone();
        let core = Core::open(engine, Arc::clone(&locks))?;
        let (catalog, tables_version) = (core.catalog, Arc::clone(&core.version));
        let core = RwLock::new(core);
        let (writer_count, has_doomed_files) = (AtomicU32::new(0), AtomicBool::new(false));
        let shared = Arc::new(Shared {
            core,
            locks,
            versions,
            catalog,
            tables_version,
            log,
            data_io,
            page_reader,
            wants_cleaning,
            settings,
            writer_count,
            has_doomed_files,
        });
        Ok(Self { shared })
    }

    /// What is committed now, to be looked at for as long as wanted, by any number of threads. Waits for
    /// nothing but the step that a transaction is in. What is read may be a commit that a power cut takes
    /// back, as long as the writer's [`WriteTransaction::commit`] has not returned (later still where
    /// the durability is less than every commit). [`Self::flush`] makes sure of it.
    ///
    /// As long as it lives, pages that change are kept as they were, in memory of
    /// [`Settings::version_bytes`] at most; past that reading gives [`StorageError::SnapshotTooOld`].
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::new(&self.shared)
    }

    /// A [`Self::snapshot`] that lives no longer than this handle.
    #[must_use]
    pub fn read(&self) -> ReadTransaction<'_> {
        ReadTransaction::new(self.snapshot())
    }

    /// As [`Self::read`], unless a transaction is at work on a step just now.
    #[must_use]
    pub fn try_read(&self) -> Option<ReadTransaction<'_>> {
        drop(self.shared.core.try_read()?);
        Some(self.read())
    }

    /// Begins a serializable transaction. Waits for nothing but the step that another is in.
    ///
    /// # Errors
    /// If an earlier failure stopped the engine.
    pub fn write(&self) -> Result<WriteTransaction<'_>, StorageError> {
        self.write_with(Isolation::Serializable)
    }

    /// As [`Self::write`], with another isolation.
    ///
    /// # Errors
    /// As there.
    pub fn write_with(&self, isolation: Isolation) -> Result<WriteTransaction<'_>, StorageError> {
        let begun = BegunTransaction::new(&mut self.shared.core.write())?;
        Ok(WriteTransaction::new(self, isolation, begun))
    }

    /// As [`Self::write`], unless a transaction is at work on a step just now.
    ///
    /// # Errors
    /// As there.
    pub fn try_write(&self) -> Result<Option<WriteTransaction<'_>>, StorageError> {
        let Some(mut core) = self.shared.core.try_write() else { return Ok(None) };
        let begun = BegunTransaction::new(&mut core)?;
        drop(core);
        Ok(Some(WriteTransaction::new(self, Isolation::Serializable, begun)))
    }

    /// Runs `body` as a transaction and commits it; again from its beginning as long as other
    /// transactions are in its way ([`StorageError::is_transient`]), a thousand times at most. What it does
    /// beside the database, it does each time.
    ///
    /// # Errors
    /// What `body` or the commit returns; then nothing of it happened, unless the commit's log failed.
    pub fn transact<T>(
        &self,
        isolation: Isolation,
        body: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        self.transact_while(isolation, body, StorageError::is_transient)
    }

    /// As [`Self::transact`], where trouble has a type of the caller's own: `was_disturbed` hears of it before
    /// each further attempt, and says whether others were in the way.
    ///
    /// # Errors
    /// As there.
    pub fn transact_while<T, E: From<StorageError>>(
        &self,
        isolation: Isolation,
        mut body: impl FnMut(&mut WriteTransaction<'_>) -> Result<T, E>,
        mut was_disturbed: impl FnMut(&E) -> bool,
    ) -> Result<T, E> {
        let mut attempt_count = 0;
        loop {
            attempt_count += 1;
            let mut write = self.write_with(isolation)?;
            let answer = match body(&mut write) {
                Ok(value) => write.commit().map(|()| value).map_err(E::from),
                Err(error) => write.rollback().map_err(E::from).and(Err(error)),
            };
            match answer {
                Err(error) if attempt_count < ATTEMPT_COUNT_MAX && was_disturbed(&error) => {
                    // Whoever was in the way goes first.
                    nandu_workers::yield_now();
                }
                answer => return answer,
            }
        }
    }

    /// Makes everything durable that was committed, whatever the durability.
    ///
    /// # Errors
    /// If the log cannot be written.
    pub fn flush(&self) -> Result<(), StorageError> {
        self.shared.log.flush()
    }

    /// Takes a checkpoint. Others go on meanwhile, but where pages are placed by a log: there they wait.
    ///
    /// # Errors
    /// As [`Engine::checkpoint`].
    pub fn checkpoint(&self) -> Result<(), StorageError> {
        if self.shared.company_count() > 0 && self.shared.checkpoint_beside()? {
            return Ok(());
        }
        self.shared.core.write().engine_mut().checkpoint()
    }

    /// Says that all is there that the volumes were made for: see [`Engine::finish_making`].
    ///
    /// # Errors
    /// If a device fails.
    pub fn finish_making(&self) -> Result<(), StorageError> {
        self.shared.core.write().engine_mut().finish_making()
    }

    /// Empties the buffer pool, so that what comes next is read from the device.
    ///
    /// # Errors
    /// If the device fails.
    pub fn drop_cached_pages(&self) -> Result<(), StorageError> {
        self.shared.core.write().engine_mut().drop_cached_pages()
    }

    /// Has `watch` told of every page that is read or written by the buffer pool from now on, and of every
    /// sync, or nobody. Whoever begins to watch sees an empty pool.
    ///
    /// # Errors
    /// If pages that were changed before cannot be written.
    pub fn watch_pages(&self, watch: Option<Arc<dyn PageWatch>>) -> Result<(), StorageError> {
        self.shared.core.write().engine_mut().watch_pages(watch)
    }

    /// All files of pages: see [`Engine::files_with_pages`].
    #[must_use]
    pub fn files_with_pages(&self) -> Vec<(FileId, String, u64)> {
        self.shared.core.write().engine_mut().files_with_pages()
    }

    /// Closes the database, so that the next opening finds nothing to do. Without it the next opening
    /// restarts as after a crash.
    ///
    /// # Errors
    /// If the device fails, or other handles or snapshots are still in use.
    pub fn close(self) -> Result<(), StorageError> {
        let Some(shared) = Arc::into_inner(self.shared) else {
            let what = "the database cannot be closed while other handles or snapshots are in use";
            return Err(StorageError::InvalidSetting { what: what.to_owned() });
        };
        shared.core.into_inner().close()
    }
}

impl std::fmt::Debug for Database {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Shared { log, settings, .. } = &*self.shared;
        write!(formatter, "Database({:?}, {log:?})", settings.durability)
    }
}
