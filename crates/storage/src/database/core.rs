//! What the transactions of an open database share: the engine, the tables as they are now, and the heaps
//! that grow. Held alone for an action or a few, never while somebody computes.
//!
//! 1. One transaction is being served at a time: the one that [`Core::serve`] was told.
//! 2. `committed` has the tables without what the transaction that changes tables did; `changing` with it.
//! 3. Files of tables that were dropped go when no view is older than that.

use super::catalog;
use super::changing::Changing;
use super::kind::open_heap;
use super::locks::{Locks, Mode, Span, Taking, Wanted};
use super::open_table::{OpenTable, OpenTables, pages_there};
use super::schema::TableDefinition;
use super::step::Step;
use super::tables::{Scratch, no_table};
use crate::btree::Tree;
use crate::error::unless_full;
use crate::sqlite::HeapTable;
use crate::{Engine, FileId, Lsn, PageAddress, StorageError};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Why a step could not go on: what it waits for with the engine left to others, and is then done again.
#[derive(Debug)]
pub(super) enum Obstacle {
    /// A lock that others have, with its name.
    Lock(Wanted, String),
    /// A page that is not in memory.
    Page(PageAddress),
}

/// The tables of a database, to be changed.
#[derive(Debug)]
pub(super) struct Core {
    pub(super) engine: Engine,
    pub(super) catalog: FileId,
    pub(super) committed: Arc<OpenTables>,
    /// Grows whenever `committed` becomes another.
    pub(super) version: Arc<AtomicU64>,
    /// What the transaction that changes tables did, if there is one.
    pub(super) changing: Option<Changing>,
    /// The heaps by file, with what is cached of them.
    pub(super) heaps: BTreeMap<FileId, HeapTable>,
    /// Files of dropped tables whose drop is committed, perhaps not durably.
    pub(super) dropped_files: Vec<FileId>,
    /// Files of dropped tables, each with the moment from which on no view sees them.
    pub(super) doomed_files: Vec<(Lsn, FileId)>,
    /// Those of them for whose removal a full device had no room.
    unremoved_files: Vec<FileId>,
    pub(super) scratch: Scratch,
    pub(super) locks: Arc<Locks>,
    /// The heap that the last step changed, perhaps in vain.
    pub(super) changed_heap: Option<FileId>,
    /// What the last step met.
    pub(super) obstacle: Option<Obstacle>,
    /// What is done, where somebody wants to repeat it.
    pub(super) trace: Option<Vec<Step>>,
}

impl Core {
    pub(super) fn open(engine: Engine, locks: Arc<Locks>) -> Result<Self, StorageError> {
        let catalog = catalog::find(&engine).ok_or_else(|| StorageError::Corrupt {
            place: "the database".to_owned(),
            what: "it has no catalogue".to_owned(),
        })?;
        let mut core = Self {
            engine,
            catalog,
            committed: Arc::default(),
            version: Arc::default(),
            changing: None,
            heaps: BTreeMap::new(),
            dropped_files: Vec::new(),
            doomed_files: Vec::new(),
            unremoved_files: Vec::new(),
            scratch: Scratch::default(),
            locks,
            changed_heap: None,
            obstacle: None,
            trace: None,
        };
        let loaded = core.load_catalog().and_then(|()| core.check_lengths());
        loaded.map_err(|error| super::names::with_names(&core.engine.files(), error))?;
        core.remove_unknown_files()?;
        Ok(core)
    }

    /// Whether all pages that the files count are there: what is read past the end of a file is zeros,
    /// as if nobody had ever written it.
    fn check_lengths(&self) -> Result<(), StorageError> {
        // Elsewhere there is nothing to compare, and counting the pages of a tree would read one.
        if pages_there(&self.engine, self.catalog).is_none() {
            return Ok(());
        }
        let check = |file: FileId, count: u32| {
            StorageError::check_length(
                PageAddress::new(file, count),
                pages_there(&self.engine, file),
            )
        };
        let check_tree = |file| check(file, Tree::at(file).page_count(&self.engine)?);
        check_tree(self.catalog)?;
        for OpenTable { definition, rows } in self.committed.values().map(|table| &**table) {
            if let Some(page_count) = rows.page_count(&self.engine)? {
                check(definition.file, page_count)?;
            }
            definition.indexes.iter().try_for_each(|index| check_tree(index.file))?;
        }
        Ok(())
    }

    fn load_catalog(&mut self) -> Result<(), StorageError> {
        let mut open = OpenTables::new();
        for definition in catalog::load(&self.engine, self.catalog)? {
            let (table, heap) = OpenTable::open(&self.engine, definition, None)?;
            if let Some(heap) = heap {
                self.heaps.insert(table.definition.file, heap);
            }
            open.insert(catalog::key_of(&table.definition.name), Arc::new(table));
        }
        self.committed = Arc::new(open);
        Ok(())
    }

    fn remove_unknown_files(&mut self) -> Result<(), StorageError> {
        let mut known: BTreeSet<FileId> = [self.catalog].into();
        for OpenTable { definition, .. } in self.committed.values().map(|table| &**table) {
            known.extend(definition.files());
        }
        for (file, _) in self.engine.files() {
            if !self.engine.is_read_only() && !known.contains(&file) {
                unless_full(self.engine.remove_unlogged_file(file))?;
            }
        }
        Ok(())
    }

    pub(super) const fn engine(&self) -> &Engine {
        &self.engine
    }

    pub(super) const fn engine_mut(&mut self) -> &mut Engine {
        &mut self.engine
    }

    /// Runs `step` for a transaction. What it met is the answer's second half, and what it did before is for
    /// the caller to take back.
    pub(super) fn serve<T>(
        &mut self,
        transaction: u64,
        step: impl FnOnce(&mut Self) -> T,
    ) -> (T, Option<Obstacle>) {
        /// Sets the transaction aside also if the step panics.
        struct Served<'c>(&'c mut Core);
        impl Drop for Served<'_> {
            fn drop(&mut self) {
                if self.0.engine.is_active() {
                    self.0.engine.park();
                }
            }
        }
        self.engine.resume(transaction);
        self.obstacle = None;
        // A step that panicked may have left them refused.
        self.engine.take_missed();
        let served = Served(self);
        let answer = step(served.0);
        let obstacle = served.0.obstacle.take();
        drop(served);
        (answer, obstacle)
    }

    /// Begins to note what is done, or not.
    pub(super) fn trace(&mut self, is_wanted: bool) {
        self.trace = is_wanted.then(Vec::new);
    }

    /// What was done since [`Self::trace`], if it was to be noted.
    pub(super) fn take_trace(&mut self) -> Vec<Step> {
        self.trace.take().unwrap_or_default()
    }

    pub(super) fn note(&mut self, step: impl FnOnce() -> Step) {
        if let Some(trace) = &mut self.trace {
            trace.push(step());
        }
    }

    /// Locks a key of a file for the transaction that is served, to change what is there. `told` is what
    /// a user calls it.
    ///
    /// # Errors
    /// If others have it; then it is noted which lock that was.
    pub(super) fn lock(
        &mut self,
        file: FileId,
        key: &[u8],
        told: impl Fn() -> String,
    ) -> Result<(), StorageError> {
        let transaction = self.engine.active_transaction();
        let span = Span::Key(key);
        if self.locks.try_lock(transaction, file, span, Mode::Exclusive) != Taking::Excluded {
            return Ok(());
        }
        let what = told();
        let wanted = Wanted::new(file, span, Mode::Exclusive);
        self.obstacle = Some(Obstacle::Lock(wanted, what.clone()));
        Err(StorageError::LockTimeout { what })
    }

    /// A table as who changes tables sees it, or as it is committed where nobody does.
    pub(super) fn table(&self, name: &str) -> Result<&Arc<OpenTable>, StorageError> {
        let open = self.changing.as_ref().map_or(&self.committed, |changing| &changing.open);
        open.get(&catalog::key_of(name)).ok_or_else(|| no_table(name, open))
    }

    /// Reads again what was cached of pages that the transaction took back: the catalogue, if it changed
    /// that, and the heaps.
    pub(super) fn refresh(&mut self, transaction: u64) -> Result<(), StorageError> {
        if self.tables_of(transaction).is_some() && self.changes().catalog_changed {
            self.reload()?;
        }
        // Those of tables that it does not see are read again by whoever changes them next.
        self.heaps.values_mut().for_each(HeapTable::invalidate);
        let open = Arc::clone(self.tables_of(transaction).unwrap_or(&self.committed));
        let Self { engine, heaps, .. } = self;
        for table in open.values() {
            let TableDefinition { file, name, .. } = &table.definition;
            let Ok(reader) = table.rows.heap() else { continue };
            let heap = open_heap(engine, name, *file)?;
            reader.note(&heap);
            heaps.insert(*file, heap);
        }
        Ok(())
    }

    /// Removes files of dropped tables that no view sees any more: those since before `oldest`. Whoever asks has
    /// done what he wanted: a file that cannot be removed now goes later, at the next opening if not before.
    pub(super) fn remove_doomed_files(&mut self, oldest: Lsn) {
        let doomed = std::mem::take(&mut self.doomed_files);
        let (gone, later): (Vec<_>, Vec<_>) =
            doomed.into_iter().partition(|&(since, _)| since <= oldest);
        self.doomed_files = later;
        for (_, file) in gone {
            if matches!(self.engine.remove_file(file), Err(StorageError::NoSpace { .. })) {
                self.unremoved_files.push(file);
            }
        }
    }

    /// Closes the engine. Files that a full device kept from being removed go first, behind a checkpoint
    /// past which no restart reads of them; at worst the next opening removes them.
    pub(super) fn close(mut self) -> Result<(), StorageError> {
        if !self.unremoved_files.is_empty() {
            self.engine.checkpoint_fully()?;
            for file in std::mem::take(&mut self.unremoved_files) {
                unless_full(self.engine.remove_unlogged_file(file))?;
            }
        }
        self.engine.close()
    }
}
