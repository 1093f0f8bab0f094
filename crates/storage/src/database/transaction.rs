//! Snapshots and transactions, as an embedder holds them.
//!
//! ```text
//!                 reads                         writes                     commit
//!   Snapshot      at its moment                  ·                          ·
//!   snapshot      at its moment, own changes     row locked; else changed   log record, locks given back
//!                 on copies of the pages         since: Conflict
//!   serializable  rows locked, the present       row locked                 the same
//! ```
//!
//! 1. A row and its index entries change in one transaction: both are there or neither.
//! 2. A write transaction that is dropped is rolled back.
//! 3. Locks are given back after the commit's record is in the log, so whoever saw a change commits
//!    behind it.
//! 4. While a transaction waits for a lock, or beside others for a page, it holds nothing but its locks: what
//!    the step had done before is taken back, and it is done again.

use super::core::{Core, Obstacle};
use super::kind::TableKind;
use super::locks::{CHANGING, Mode, Span, Taking, Wanted, key_of_number};
use super::marks::{Mark, Rollbacks};
use super::merges::Merge;
use super::open_table::{OpenTable, OpenTables};
use super::schema::Column;
use super::step::Step;
use super::tables::row_of;
use super::used::{UsedTables, is_same};
use super::view::EngineView;
use super::{Database, LoadOptions, LoadReport, NewTable, Row, Shared, TableLoad, Tables, catalog};
use crate::engine::{Savepoint, Settings};
use crate::log::{Durability, RecordBuffer};
use crate::plant::{EngineBug, is_planted};
use crate::sqlite::ValueRef;
use crate::{FileId, ReadPages, StorageError};
use nandu_base::Nanos;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// So many pages at most are fetched for a step without the engine: in a pool of few frames one may be gone
/// again before the next has come.
const FETCH_COUNT_MAX: u32 = 16;
/// Records that are undone at once beside others.
const UNDO_COUNT_MAX: u32 = 8;

/// What a write transaction may see of others, and they of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Isolation {
    /// It reads what was committed when it began, and what it wrote; a row that another has changed since
    /// is not overwritten. Two such transactions may each read what the other writes (write skew).
    Snapshot,
    /// As if transactions ran one after the other, in the order of their commits. Rows that are read are
    /// locked, and ranges that are scanned.
    #[default]
    Serializable,
}

impl Isolation {
    /// All levels, weakest first.
    pub const ALL: [Self; 2] = [Self::Snapshot, Self::Serializable];

    /// Its name in settings.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Snapshot => "snapshot",
            Self::Serializable => "serializable",
        }
    }
}

/// The database as it was when this was taken; clones are of the same moment. See
/// [`Database::snapshot`].
#[derive(Clone, Debug)]
pub struct Snapshot {
    tables: Tables,
}

/// A [`Snapshot`] that ends before its database.
#[derive(Debug)]
pub struct ReadTransaction<'d> {
    snapshot: Snapshot,
    database: PhantomData<&'d Database>,
}

/// A transaction that changes tables.
pub struct WriteTransaction<'d> {
    database: &'d Database,
    pub(super) tables: Tables,
    pub(super) id: u64,
    isolation: Isolation,
    /// Of the isolation [`Isolation::Snapshot`], what it did so far.
    steps: Vec<Step>,
    /// What it adds to values when it commits.
    pub(super) merges: Vec<Merge>,
    /// The keys in the catalogue of tables that it has for itself, to make, drop, load or index them.
    claimed_tables: Vec<Vec<u8>>,
    rollbacks: Rollbacks,
    is_over: bool,
}

/// A transaction that has begun, with the tables that were committed then.
pub(super) struct BegunTransaction {
    transaction: u64,
    tables_version: u64,
    open: Arc<OpenTables>,
}

impl Snapshot {
    pub(super) fn new(shared: &Arc<Shared>) -> Self {
        let (view, open) = EngineView::with_tables(shared);
        Self { tables: Tables { view, catalog: shared.catalog, open, locker: None, used: None } }
    }
}

impl<'d> ReadTransaction<'d> {
    pub(super) const fn new(snapshot: Snapshot) -> Self {
        Self { snapshot, database: PhantomData }
    }
}

impl Deref for Snapshot {
    type Target = Tables;
    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl Deref for ReadTransaction<'_> {
    type Target = Tables;
    fn deref(&self) -> &Tables {
        &self.snapshot
    }
}

impl Deref for WriteTransaction<'_> {
    type Target = Tables;
    fn deref(&self) -> &Tables {
        &self.tables
    }
}

impl std::fmt::Debug for WriteTransaction<'_> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "WriteTransaction({}, {})", self.id, self.isolation.label())
    }
}

impl BegunTransaction {
    pub(super) fn new(core: &mut Core) -> Result<Self, StorageError> {
        core.engine.begin()?;
        let tables_version = core.version.load(Ordering::Acquire);
        let open = Arc::clone(&core.committed);
        Ok(Self { transaction: core.engine.park(), tables_version, open })
    }
}

impl<'d> WriteTransaction<'d> {
    pub(super) fn new(
        database: &'d Database,
        isolation: Isolation,
        begun: BegunTransaction,
    ) -> Self {
        let shared = &database.shared;
        shared.writer_count.fetch_add(1, Ordering::AcqRel);
        let BegunTransaction { transaction: id, tables_version, open } = begun;
        // The version may be older than the tables of a snapshot: then these are not taken for the committed ones.
        let ((view, open), locker) = match isolation {
            Isolation::Snapshot => (EngineView::with_tables(shared), None),
            Isolation::Serializable => ((EngineView::unfixed(shared), open), Some(id)),
        };
        let used = Some(UsedTables::new(id, tables_version));
        let tables = Tables { view, catalog: shared.catalog, open, locker, used };
        Self {
            database,
            tables,
            id,
            isolation,
            steps: Vec::new(),
            merges: Vec::new(),
            claimed_tables: Vec::new(),
            rollbacks: Rollbacks::default(),
            is_over: false,
        }
    }

    /// How far it is apart from others.
    #[must_use]
    pub const fn isolation(&self) -> Isolation {
        self.isolation
    }

    /// Inserts a row. Gives its number; 0 in a clustered table.
    ///
    /// # Errors
    /// If a value does not fit its column, a clustered table has a row with this key, there is no room, or
    /// other transactions are in the way ([`StorageError::is_transient`]).
    pub fn insert(&mut self, table: &str, row: &[ValueRef<'_>]) -> Result<i64, StorageError> {
        let open = self.rows_of(table)?;
        if let Some(key) = open.key_of_row(row)? {
            self.claim_key(&open, &key)?;
        }
        self.step(|core| core.insert_row(&open, row))
    }

    /// Replaces a row of a heap table by its number.
    ///
    /// # Errors
    /// If there is no such row, a value does not fit its column, there is no room, or other transactions
    /// are in the way.
    pub fn update(
        &mut self,
        table: &str,
        number: i64,
        row: &[ValueRef<'_>],
    ) -> Result<(), StorageError> {
        let open = self.rows_of(table)?;
        self.claim_number(&open, number)?;
        self.step(|core| core.update_row(&open, number, row))
    }

    /// Removes a row of a heap table by its number.
    ///
    /// # Errors
    /// If there is no such row, or other transactions are in the way.
    pub fn delete(&mut self, table: &str, number: i64) -> Result<(), StorageError> {
        let open = self.rows_of(table)?;
        self.claim_number(&open, number)?;
        self.step(|core| core.delete_row(&open, number))
    }

    /// Stores a row in a clustered table, in the place of one with the same key. True if there was
    /// one.
    ///
    /// # Errors
    /// If a value does not fit its column, the table is a heap, there is no room, or other transactions
    /// are in the way.
    pub fn put(&mut self, table: &str, row: &[ValueRef<'_>]) -> Result<bool, StorageError> {
        let open = self.rows_of(table)?;
        open.keyed()?;
        if let Some(key) = open.key_of_row(row)? {
            self.claim_key(&open, &key)?;
        }
        self.step(|core| core.put_row(&open, row))
    }

    /// Removes the row of a clustered table that has these key values. False if there is none.
    ///
    /// # Errors
    /// If there is no such clustered table, or other transactions are in the way.
    pub fn delete_by_key(
        &mut self,
        table: &str,
        key_values: &[ValueRef<'_>],
    ) -> Result<bool, StorageError> {
        let open = self.rows_of(table)?;
        open.keyed()?;
        let key = open.definition.key_of(key_values)?;
        self.claim_key(&open, &key)?;
        self.step(|core| core.delete_key(&open, &key))
    }

    /// Locks a row of a clustered table that is to be changed after it was read, so that no other
    /// transaction reads it for the same purpose meanwhile, and this one need not give way later.
    ///
    /// # Errors
    /// If there is no such clustered table, or other transactions are in the way.
    pub fn claim_by_key(
        &mut self,
        table: &str,
        key_values: &[ValueRef<'_>],
    ) -> Result<(), StorageError> {
        let open = self.rows_of(table)?;
        open.keyed()?;
        self.claim_key(&open, &open.definition.key_of(key_values)?)
    }

    /// As [`Self::claim_by_key`], of a heap table.
    ///
    /// # Errors
    /// As there.
    pub fn claim(&mut self, table: &str, number: i64) -> Result<(), StorageError> {
        let open = self.rows_of(table)?;
        self.claim_number(&open, number)
    }

    /// Makes a table.
    ///
    /// # Errors
    /// If there is one of that name, the definition makes no sense, it is of PAX pages, which are loaded
    /// and never changed, there is no room, or other transactions are in the way: one that changes tables.
    pub fn create_table(
        &mut self,
        name: &str,
        columns: Vec<Column>,
        kind: TableKind,
    ) -> Result<(), StorageError> {
        self.change_tables(name, |core| core.create_table(name, columns.clone(), kind.clone()))
    }

    /// Drops a table with its indexes; the files go when the transaction commits, and no older snapshot
    /// is in use any more.
    ///
    /// # Errors
    /// If there is no such table, or other transactions are in the way: those that use it, to read it
    /// serializably or to write to it, and one that changes tables.
    pub fn drop_table(&mut self, name: &str) -> Result<(), StorageError> {
        self.change_tables(name, |core| core.drop_table(name))
    }

    /// Makes an index of a heap table, with an entry for each of its rows. An entry ends in the row's
    /// number; rows of a clustered table have none, so these take no index.
    ///
    /// # Errors
    /// If the table is clustered, there is an index of that name, no such table or column, there is
    /// no room, or other transactions are in the way, as for [`Self::drop_table`].
    pub fn create_index(
        &mut self,
        table: &str,
        index: &str,
        columns: &[&str],
    ) -> Result<(), StorageError> {
        self.claim_table(table)?;
        let shared = &self.database.shared;
        let made = super::load::create_index(shared, self.id, table, index, columns);
        self.see_tables();
        made
    }

    /// Makes a table and fills it with what `rows` pushes. The log does not bound how much that is.
    ///
    /// # Errors
    /// Whatever `rows` returns; or if there is a table of that name, the definition makes no sense, the
    /// device has no room or fails, or other transactions are in the way. Then there is no table and no
    /// file of it.
    pub fn load_table<E: From<StorageError>>(
        &mut self,
        table: &NewTable,
        options: &LoadOptions,
        rows: impl FnOnce(&mut TableLoad<'_>) -> Result<(), E>,
    ) -> Result<LoadReport, E> {
        let reports =
            self.load_tables(&[(table, options)], |loads: &mut [_]| rows(&mut loads[0]))?;
        Ok(reports[0])
    }

    /// Makes several tables and fills them with what `rows` pushes, in one pass over whatever that comes
    /// from. Gives a report for each, in their order.
    ///
    /// # Errors
    /// As [`Self::load_table`], for each of them; and if two have the same name. Then there is none of them.
    pub fn load_tables<E: From<StorageError>>(
        &mut self,
        tables: &[(&NewTable, &LoadOptions)],
        rows: impl FnOnce(&mut [TableLoad<'_>]) -> Result<(), E>,
    ) -> Result<Vec<LoadReport>, E> {
        tables.iter().try_for_each(|(table, _)| self.claim_table(&table.name))?;
        let loaded = super::load::load_tables(&self.database.shared, self.id, tables, rows);
        self.see_tables();
        loaded
    }

    /// Commits, and waits as the durability says. Others see the changes while this waits, so that several
    /// commits share one flush of the log; they see a commit then that is not durable yet.
    ///
    /// # Errors
    /// If the log fails; then it is not known whether the transaction is durable, and the database
    /// has to be opened again.
    pub fn commit(mut self) -> Result<(), StorageError> {
        let shared = Arc::clone(&self.database.shared);
        if is_planted(EngineBug::LocksReturnedEarly) && self.claimed_tables.is_empty() {
            shared.locks.release(self.id);
            nandu_workers::yield_now();
        }
        self.fetch_merged()?;
        let merges = std::mem::take(&mut self.merges);
        let (lsn, wants_checkpoint) = {
            let mut core = shared.core.write();
            let (committed, _) = core.serve(self.id, |core| {
                merges.into_iter().try_for_each(|merge| core.merge(merge))?;
                core.commit()
            });
            let lsn = committed.inspect_err(|_| {
                // Unless the engine has stopped; then the next opening takes it back.
                let _ = core.serve(self.id, Core::rollback);
            });
            self.end();
            let lsn = lsn?;
            // A file that was dropped goes only after nothing durable refers to it any more.
            if core.has_dropped_files() {
                shared.log.flush()?;
                core.doom_dropped_files();
                let oldest = shared.versions.oldest();
                core.remove_doomed_files(oldest);
                let is_left = !core.doomed_files.is_empty();
                shared.has_doomed_files.store(is_left, Ordering::Release);
            }
            (lsn, core.engine().wants_checkpoint())
        };
        drop(self);
        let Some(lsn) = lsn else { return Ok(()) };
        let Settings { durability, commit_delay_ns, commit_group_count, .. } = shared.settings;
        if durability == Durability::EveryCommit && commit_delay_ns > 0 {
            shared.log.gather(lsn, Nanos(commit_delay_ns), commit_group_count);
        }
        shared.log.make_commit_durable(lsn, durability)?;
        shared.tidy_up(wants_checkpoint);
        Ok(())
    }

    /// Takes everything back.
    ///
    /// # Errors
    /// If a page cannot be read or the log fails; the next opening takes it back then.
    pub fn rollback(mut self) -> Result<(), StorageError> {
        self.take_back()
    }

    /// Leaves it as a crash would leave it: nobody takes it back but the closing of the database, or the
    /// next opening where it was not closed. Its locks stay. For tests of restarts.
    pub fn abandon(mut self) {
        self.is_over = true;
    }

    fn take_back(&mut self) -> Result<(), StorageError> {
        // The files that it made go.
        self.tables.view.land_ahead();
        let answer = self.undo_in_parts(None).and_then(|()| {
            let mut core = self.database.shared.core.write();
            core.serve(self.id, Core::rollback).0
        });
        self.end();
        answer
    }

    /// Undoes a part after the other, with the engine left to others between two. Its locks keep them from what
    /// it changed; snapshots see it as they see any transaction under way.
    fn undo_in_parts(&self, until: Option<Savepoint>) -> Result<(), StorageError> {
        let shared = &self.database.shared;
        let mut buffer = RecordBuffer::new();
        let mut is_more = true;
        while is_more && self.has_company() {
            let part = |core: &mut Core| core.undo_part(until, UNDO_COUNT_MAX, &mut buffer);
            is_more = shared.core.write().serve(self.id, part).0?;
            shared.core.let_others_in();
        }
        Ok(())
    }

    /// It is over, well or not: others may go on.
    fn end(&mut self) {
        if !self.is_over {
            self.is_over = true;
            let shared = &self.database.shared;
            shared.locks.release(self.id);
            shared.writer_count.fetch_sub(1, Ordering::AcqRel);
        }
    }

    /// Marks a place to come back to.
    #[must_use]
    pub fn savepoint(&self) -> Mark {
        let mut core = self.database.shared.core.write();
        let (savepoint, _) = core.serve(self.id, |core| core.engine().savepoint());
        self.mark_at(savepoint)
    }

    fn mark_at(&self, savepoint: Savepoint) -> Mark {
        self.rollbacks.mark(savepoint, self.steps.len(), self.merges.len())
    }

    /// Takes back what was done since `mark`, which stays a place to come back to. Locks are kept.
    ///
    /// # Errors
    /// As [`Self::rollback`]; or if the mark is of another transaction, or was itself taken back by
    /// a rollback to one before it. Then nothing is done.
    pub fn rollback_to(&mut self, mark: Mark) -> Result<(), StorageError> {
        self.rollbacks.check(&mark, self.id)?;
        self.undo_in_parts(Some(mark.savepoint))?;
        {
            let mut core = self.database.shared.core.write();
            core.serve(self.id, |core| core.rollback_to(mark.savepoint)).0?;
        }
        self.rollbacks.note(&mark);
        self.merges.truncate(mark.merge_count);
        self.see_tables();
        if self.isolation == Isolation::Snapshot {
            self.steps.truncate(mark.step_count);
            self.tables.view.redo(&self.steps)?;
        }
        Ok(())
    }

    /// Runs a step of a row or of some: all of it or nothing. Where it meets a lock of another transaction,
    /// it is taken back, and done again when the lock is free; beside others so it is where it misses a page.
    pub(super) fn step<T>(
        &mut self,
        change: impl FnMut(&mut Core) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mut fetches_left = match self.has_company() {
            true => FETCH_COUNT_MAX,
            false => 0,
        };
        self.try_step(&mut fetches_left, change)
    }

    /// As [`Self::step`], with `fetches_left` pages at most read without the engine.
    fn try_step<T>(
        &mut self,
        fetches_left: &mut u32,
        mut change: impl FnMut(&mut Core) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let shared = &self.database.shared;
        loop {
            let (savepoint, answer, obstacle, steps) = {
                let mut core = shared.core.write();
                core.trace(self.isolation == Isolation::Snapshot);
                let may_read = *fetches_left == 0;
                let ((savepoint, answer), obstacle) = core.serve(self.id, |core| {
                    (core.engine().savepoint(), core.whole_row(may_read, |core| change(core)))
                });
                (savepoint, answer, obstacle, core.take_trace())
            };
            match (answer, obstacle) {
                (Err(_), Some(Obstacle::Lock(wanted, told))) => {
                    shared.wait_for_lock(self.id, &wanted, || told.clone())?;
                }
                (Err(_), Some(Obstacle::Page(address))) => {
                    *fetches_left -= 1;
                    unless_changed(self.present()?.read(address, |_| ()))?;
                }
                (Ok(answer), _) => {
                    if let Err(error) = self.tables.view.apply(&steps) {
                        // What it cannot see itself it has not done.
                        self.rollback_to(self.mark_at(savepoint))?;
                        return Err(error);
                    }
                    self.steps.extend(steps);
                    return Ok(answer);
                }
                (answer, _) => return answer,
            }
        }
    }

    /// Changes something behind the back of what keeps it in order.
    #[cfg(test)]
    pub(super) fn with_core<T>(&mut self, change: impl FnOnce(&mut Core) -> T) -> T {
        let answer = self.database.shared.core.write().serve(self.id, change).0;
        self.see_tables();
        answer
    }

    fn change_tables<T>(
        &mut self,
        table: &str,
        change: impl FnMut(&mut Core) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        self.claim_table(table)?;
        // What makes a table has too much to do again for a page.
        let answer = self.try_step(&mut 0, change);
        self.see_tables();
        answer
    }

    /// Excludes all others that change tables, and those that use this one.
    fn claim_table(&mut self, table: &str) -> Result<(), StorageError> {
        let shared = &self.database.shared;
        let key = catalog::key_of(table);
        for key in [CHANGING, &key[..]] {
            let wanted = Wanted::new(shared.catalog, Span::Key(key), Mode::Exclusive);
            let told = || match key {
                CHANGING => "the catalogue of tables".to_owned(),
                _ => format!("table {table}"),
            };
            shared.wait_for_lock(self.id, &wanted, told)?;
        }
        let mut core = shared.core.write();
        core.begin_changes(self.id)?;
        if self.claimed_tables.contains(&key) {
            return Ok(());
        }
        let is_same = is_same(core.committed.get(&key), self.tables.open.get(&key));
        if self.isolation == Isolation::Snapshot && !is_same {
            return Err(StorageError::Conflict { what: format!("table {table}") });
        }
        self.claimed_tables.push(key);
        Ok(())
    }

    /// Sees the tables that it made and dropped.
    fn see_tables(&mut self) {
        let core = self.database.shared.core.read();
        let Some(present) = core.tables_of(self.id).map(Arc::clone) else { return };
        drop(core);
        let Tables { open, used, .. } = &mut self.tables;
        match self.isolation {
            Isolation::Serializable => *open = Arc::clone(&present),
            Isolation::Snapshot => {
                let open = Arc::make_mut(open);
                for key in &self.claimed_tables {
                    match present.get(key) {
                        Some(table) => open.insert(key.clone(), Arc::clone(table)),
                        None => open.remove(key),
                    };
                }
            }
        }
        used.as_mut().expect("it writes").renew(present);
    }

    /// Locks a key that is about to be changed.
    pub(super) fn claim_key(&self, open: &OpenTable, key: &[u8]) -> Result<(), StorageError> {
        let told = || format!("a row of table {}", open.definition.name);
        if self.claim_span(open.definition.file, Span::Key(key), told)? {
            self.check_key(open, key)?;
        }
        Ok(())
    }

    /// Of isolation `snapshot`: nobody has changed the row since.
    fn check_key(&self, open: &OpenTable, key: &[u8]) -> Result<(), StorageError> {
        if self.isolation == Isolation::Serializable {
            return Ok(());
        }
        let tree = open.keyed()?;
        let now = tree.get(&self.present()?, key, <[u8]>::to_vec)?;
        let then = tree.get(&self.tables.view, key, <[u8]>::to_vec)?;
        self.check_same(open, then == now)
    }

    fn claim_number(&self, open: &OpenTable, number: i64) -> Result<(), StorageError> {
        let heap = open.heap()?;
        let file = open.definition.file;
        let told = || format!("row {number} of table {}", open.definition.name);
        let is_new = self.claim_span(file, Span::Key(&key_of_number(number)), told)?;
        if !is_new || self.isolation == Isolation::Serializable {
            return Ok(());
        }
        // Its pages are counted now: while it waited for the lock, the heap may have grown.
        let present = self.present()?;
        let now = heap.tree_in(&present).get(&present, number, row_of)?;
        let view = &self.tables.view;
        let then = heap.tree_in(view).get(view, number, row_of)?;
        self.check_same(open, then == now)
    }

    /// Whether others are at work, so that pages are better fetched before the engine is held alone.
    pub(super) fn has_company(&self) -> bool {
        self.database.shared.company_count() > 1
    }

    pub(super) fn check_same(&self, open: &OpenTable, is_same: bool) -> Result<(), StorageError> {
        if is_same || is_planted(EngineBug::ConflictOverlooked) {
            return Ok(());
        }
        let what = format!("a row of table {}", open.definition.name);
        Err(StorageError::Conflict { what })
    }

    /// Locks keys to change them; false if the transaction has nothing to look at, since it locked them for
    /// that already. Of isolation `snapshot` it always has: the last time it may have been told to give way.
    fn claim_span(
        &self,
        file: FileId,
        span: Span<'_>,
        told: impl Fn() -> String,
    ) -> Result<bool, StorageError> {
        let taking = self.take_span(file, (span, Mode::Exclusive), told)?;
        Ok(taking != Taking::Had || self.isolation == Isolation::Snapshot)
    }

    /// Locks keys, waiting for others.
    pub(super) fn take_span(
        &self,
        file: FileId,
        (span, mode): (Span<'_>, Mode),
        told: impl Fn() -> String,
    ) -> Result<Taking, StorageError> {
        let shared = &self.database.shared;
        let taking = shared.locks.try_lock(self.id, file, span, mode);
        if taking != Taking::Excluded {
            return Ok(taking);
        }
        shared.wait_for_lock(self.id, &Wanted::new(file, span, mode), told)?;
        Ok(Taking::Taken)
    }

    /// A table whose rows are to be changed.
    pub(super) fn rows_of(&self, table: &str) -> Result<Arc<OpenTable>, StorageError> {
        Ok(Arc::clone(self.tables.table_to_change(table)?))
    }

    /// All changes up to now, those of others too: for fetching pages.
    pub(super) fn present(&self) -> Result<EngineView, StorageError> {
        EngineView::present(&self.database.shared)
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.database.shared.settings
    }

    /// What [`Self::insert_from`] does for all rows or none.
    pub(super) fn whole<T>(
        &mut self,
        change: impl FnOnce(&mut Self) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        let mark = self.savepoint();
        let answer = change(self);
        if answer.is_err() {
            self.rollback_to(mark)?;
        }
        answer
    }

    /// Stores rows one by one.
    pub(super) fn insert_rows<R: AsRef<[crate::sqlite::Value]>>(
        &mut self,
        table: &str,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, StorageError> {
        let mut row_count = 0;
        for row in rows {
            let row: Row = row.as_ref().to_vec();
            let row: Vec<ValueRef<'_>> = row.iter().map(crate::sqlite::Value::as_ref).collect();
            self.insert(table, &row)?;
            row_count += 1;
        }
        Ok(row_count)
    }
}

impl Drop for WriteTransaction<'_> {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // An error here stops the engine, so that the next call reports it. A second panic would end the
        // process: where the engine itself panicked, nothing is left to be taken back.
        if std::thread::panicking() {
            let _ = catch_unwind(AssertUnwindSafe(|| self.take_back()));
        } else {
            let _ = self.take_back();
        }
    }
}

/// What fetching pages came to: one that another has changed meanwhile is in memory all the same.
pub(super) fn unless_changed(fetched: Result<(), StorageError>) -> Result<(), StorageError> {
    match fetched {
        Err(StorageError::SnapshotTooOld { .. }) => Ok(()),
        answer => answer,
    }
}
