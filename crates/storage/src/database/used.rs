//! The tables that a transaction that writes uses, each with its name locked.
//!
//! ```text
//!   name ─┬─ used before ─────────────────────────────────────────► what was noted then
//!         └─ else: the name locked, shared ─► as it is committed now ─► noted ┘
//! ```
//!
//! 1. What is noted, that there is no such table, too, stays so: its name is locked until the transaction
//!    ends, and whoever makes, drops, loads or indexes a table has its name alone.
//! 2. What is noted stays in its place, since it is lent.
//! 3. At most [`NAME_COUNT_MAX`] names are noted one by one. Who uses more locks all names.
//! 4. A transaction of level snapshot that uses a table to change it gets a conflict unless the table is the one of
//!    its moment.

use super::catalog;
use super::locks::{Mode, Span, Taking, Wanted};
use super::open_table::{OpenTable, OpenTables};
use super::tables::{Tables, no_table};
use crate::StorageError;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};

/// Names that a transaction locks one by one.
const NAME_COUNT_MAX: usize = 32;

/// What a transaction knows of the tables that it uses.
#[derive(Clone, Debug)]
pub(super) struct UsedTables {
    transaction: u64,
    /// What [`super::Shared::tables_version`] was when it began.
    version: u64,
    /// Most transactions use one.
    first: OnceLock<UsedTable>,
    others: OnceLock<Box<[OnceLock<UsedTable>]>>,
    /// All there are, of who has locked all names or changes tables.
    all: OnceLock<Arc<OpenTables>>,
}

/// A table by the name that it was asked for by.
#[derive(Clone, Debug)]
struct UsedTable {
    name: Box<str>,
    table: Option<Arc<OpenTable>>,
}

impl UsedTables {
    pub(super) fn new(transaction: u64, version: u64) -> Self {
        let (first, others, all) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { transaction, version, first, others, all }
    }

    /// Forgets what is noted. The transaction changes tables: from now on these are all there are.
    pub(super) fn renew(&mut self, all: Arc<OpenTables>) {
        *self = Self { all: all.into(), ..Self::new(self.transaction, self.version) };
    }

    #[inline]
    fn find(&self, name: &str) -> Option<&UsedTable> {
        let first = self.first.get()?;
        if *first.name == *name {
            return Some(first);
        }
        let mut others = self.others.get()?.iter().map_while(OnceLock::get);
        others.find(|used| *used.name == *name)
    }

    /// `None` if there is no room.
    fn note(&self, name: &str, table: Option<Arc<OpenTable>>) -> Option<&UsedTable> {
        let mut used = UsedTable { name: name.into(), table };
        let places = || (1..NAME_COUNT_MAX).map(|_| OnceLock::new()).collect();
        let others = || self.others.get_or_init(places);
        for place in std::iter::once(&self.first).chain(std::iter::once_with(others).flatten()) {
            match place.set(used) {
                Ok(()) => return place.get(),
                Err(refused) => used = refused,
            }
        }
        None
    }
}

impl Tables {
    /// A table that a transaction is about to change rows of.
    pub(super) fn table_to_change(&self, name: &str) -> Result<&Arc<OpenTable>, StorageError> {
        self.used_table(name)?.ok_or_else(|| no_table(name, &self.open))
    }

    /// A table that a transaction that writes uses, if there is one of that name.
    #[inline]
    pub(super) fn used_table(&self, name: &str) -> Result<Option<&Arc<OpenTable>>, StorageError> {
        let used = self.used.as_ref().expect("who writes notes what it uses");
        match used.find(name) {
            Some(found) => Ok(found.table.as_ref()),
            None => self.use_table(used, name),
        }
    }

    /// All tables, which stay as they are for a transaction that locks what it reads.
    pub(super) fn all_tables(&self) -> Result<&Arc<OpenTables>, StorageError> {
        match (&self.used, self.locker) {
            (Some(used), Some(_)) => self.use_all(used),
            _ => Ok(&self.open),
        }
    }

    #[cold]
    fn use_table<'t>(
        &'t self,
        used: &'t UsedTables,
        name: &str,
    ) -> Result<Option<&'t Arc<OpenTable>>, StorageError> {
        let key = catalog::key_of(name);
        let table = match used.all.get() {
            Some(all) => all.get(&key).map(Arc::clone),
            None => {
                self.lock_names(used, Span::Key(&key), || format!("table {name}"))?;
                self.committed_now(used).get(&key).map(Arc::clone)
            }
        };
        if self.locker.is_none() && !is_same(table.as_ref(), self.open.get(&key)) {
            return Err(StorageError::Conflict { what: format!("table {name}") });
        }
        match used.note(name, table) {
            Some(noted) => Ok(noted.table.as_ref()),
            // Invariant 3.
            None => Ok(self.use_all(used)?.get(&key)),
        }
    }

    fn use_all<'t>(&self, used: &'t UsedTables) -> Result<&'t Arc<OpenTables>, StorageError> {
        if let Some(all) = used.all.get() {
            return Ok(all);
        }
        self.lock_names(used, Span::ALL, || "the catalogue of tables".to_owned())?;
        Ok(used.all.get_or_init(|| self.committed_now(used)))
    }

    fn lock_names(
        &self,
        used: &UsedTables,
        names: Span<'_>,
        told: impl Fn() -> String,
    ) -> Result<(), StorageError> {
        let (shared, transaction) = (self.view.shared(), used.transaction);
        match shared.locks.try_lock(transaction, self.catalog, names, Mode::Shared) {
            Taking::Had | Taking::Taken => Ok(()),
            Taking::Excluded => {
                let wanted = Wanted::new(self.catalog, names, Mode::Shared);
                shared.wait_for_lock(transaction, &wanted, told)
            }
        }
    }

    /// The committed tables, for a transaction that does not change any itself. Those whose names it has
    /// locked are as it uses them.
    fn committed_now(&self, used: &UsedTables) -> Arc<OpenTables> {
        let shared = self.view.shared();
        match shared.tables_version.load(Ordering::Acquire) == used.version {
            true => Arc::clone(&self.open),
            false => Arc::clone(&shared.core.read().committed),
        }
    }
}

/// Whether two looks found the same table, or none.
pub(super) fn is_same(one: Option<&Arc<OpenTable>>, other: Option<&Arc<OpenTable>>) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => Arc::ptr_eq(one, other),
        (one, other) => one.is_none() && other.is_none(),
    }
}
