//! Ours, as programs embed it: the library `nandu`, a clustered table `records (key, value)` in a
//! directory of real files with direct I/O, so that the page cache has no part in it.
//!
//! 1. Loading commits without durability, durable batches wait for the log. Either way every change
//!    is logged: the engine has no mode without a log.
//! 2. The threads that read share one database, thus one pool; each has a read transaction.
//! 3. A key is stored as the signed number of the same rank, so the order is that of the keys.
//! 4. Rows are inserted and read one at a time, as the peers' are, but in the row that is handed
//!    runs: there rows go over in one call, and scans read ahead.

use super::{Client, Reader, Settings, Store, Visitor};
use crate::Failure;
use crate::workload::Record;
use nandu::{
    Column, ColumnType, Database, DatabaseOptions, DirectoryOptions, Flow, Isolation,
    ReadTransaction, Row, StorageError, TableKind, Value, ValueRef, create_database, open_database,
};
use nandu_storage::engine::TornPages;
use nandu_storage::log::Durability;
use nandu_storage::propagation::PropagationKind;
use std::ops::Bound;

const TABLE: &str = "records";
/// Of the memory limit, what the process needs beside the pool; of the rest an eighth goes to what
/// the pool keeps about its frames.
const OTHER_BYTES: u64 = 16 << 20;
/// Records in one transaction where nothing asks for durability: what it logs has to fit the log.
const TRANSACTION_RECORDS: usize = 1000;
/// Leaves that a scan asks for ahead where it does: 100 records lie on about four.
const AHEAD_COUNT: usize = 4;
const SIGN: u64 = 1 << 63;

/// What differs between our rows of the table.
#[derive(Clone, Copy, Debug)]
pub(super) struct Variant {
    /// Whether the pool gets what the peers have with the page cache, not only their own cache.
    pub(super) has_wide_pool: bool,
    /// Whether records go over in one call, which sorts them, and scans read ahead.
    pub(super) is_in_runs: bool,
    /// What is done about torn pages, which is fixed when a database is made.
    pub(super) torn_pages: TornPages,
    /// How changed pages are placed, which is fixed, too.
    pub(super) propagation: PropagationKind,
}

struct Nandu {
    database: Database,
    is_in_runs: bool,
}

struct NanduReader<'a> {
    tables: ReadTransaction<'a>,
    ahead_count: usize,
}

struct NanduClient<'a>(&'a Database);

/// Opens or makes a database.
pub(super) fn open(settings: &Settings<'_>, variant: Variant) -> Result<Box<dyn Store>, Failure> {
    let pool_bytes = if variant.has_wide_pool {
        (settings.limit_bytes.saturating_sub(OTHER_BYTES) / 8 * 7).max(settings.cache_bytes)
    } else {
        settings.cache_bytes
    };
    let durability =
        if settings.purpose.is_durable() { Durability::EveryCommit } else { Durability::None };
    let chosen = nandu_storage::Settings {
        page_bytes: settings.page_bytes,
        pool_bytes,
        durability,
        torn_pages: variant.torn_pages,
        propagation: variant.propagation.into(),
        log_bytes: settings.cache_bytes,
        checkpoint_bytes: settings.cache_bytes / 4,
        ..nandu_storage::Settings::default()
    };
    let files =
        DirectoryOptions { queue_depth: settings.queue_depth, ..DirectoryOptions::default() };
    let options = DatabaseOptions { settings: chosen, files, ..DatabaseOptions::default() };
    let is_new = std::fs::read_dir(settings.directory).is_ok_and(|mut it| it.next().is_none());
    let database = if is_new {
        let database = create_database(settings.directory, &options).map_err(failure)?;
        let columns = vec![
            Column::new("key", ColumnType::Integer).not_null(),
            Column::new("value", ColumnType::Blob).not_null(),
        ];
        let mut write = database.write().map_err(failure)?;
        write
            .create_table(TABLE, columns, TableKind::Clustered { key: vec![0] })
            .map_err(failure)?;
        write.commit().map_err(failure)?;
        database
    } else {
        open_database(settings.directory, &options).map_err(failure)?.0
    };
    Ok(Box::new(Nandu { database, is_in_runs: variant.is_in_runs }))
}

impl Nandu {
    fn commit(&self, records: &[Record]) -> Result<(), StorageError> {
        let mut write = self.database.write()?;
        if self.is_in_runs {
            let row =
                |it: &Record| vec![Value::Integer(rank_of(it.key)), Value::Blob(it.value.to_vec())];
            let rows: Vec<Row> = records.iter().map(row).collect();
            write.insert_all(TABLE, &rows)?;
        } else {
            for record in records {
                let row = [ValueRef::Integer(rank_of(record.key)), ValueRef::Blob(&record.value)];
                write.insert(TABLE, &row)?;
            }
        }
        write.commit()
    }
}

impl Store for Nandu {
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure> {
        records
            .chunks(TRANSACTION_RECORDS)
            .try_for_each(|records| self.commit(records))
            .map_err(failure)
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure> {
        let ahead_count = if self.is_in_runs { AHEAD_COUNT } else { 0 };
        Ok(Box::new(NanduReader { tables: self.database.read(), ahead_count }))
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(NanduClient(&self.database)))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.database.close().map_err(failure)
    }
}

impl Reader for NanduReader<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        let wanted = [ValueRef::Integer(rank_of(key))];
        let seen =
            self.tables.get_by_key(TABLE, &wanted, |record| visit(key, blob_of(record.get(1))?));
        seen.map_err(failure)?.map_or(Ok(false), |outcome| outcome.map(|()| true))
    }

    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure> {
        let start = [ValueRef::Integer(rank_of(start))];
        let bounds = (Bound::Included(start.as_slice()), Bound::Unbounded);
        let mut left = count;
        let mut outcome = Ok(());
        let look = |record: nandu::RecordView<'_>| {
            outcome = match record.get(0) {
                ValueRef::Integer(rank) => blob_of(record.get(1))
                    .and_then(|value| visit(rank.cast_unsigned() ^ SIGN, value)),
                other => Err(Failure::Wrong(format!("a key is {other:?}"))),
            };
            left -= 1;
            if left > 0 && outcome.is_ok() { Flow::Continue(()) } else { Flow::Break(()) }
        };
        if count > 0 {
            self.tables.scan_by_key(TABLE, bounds, self.ahead_count, look).map_err(failure)?;
        }
        outcome
    }

    fn get_batch(&mut self, keys: &[u64], visit: &mut Visitor<'_>) -> Result<Option<u64>, Failure> {
        let wanted: Vec<Row> = keys.iter().map(|&key| vec![Value::Integer(rank_of(key))]).collect();
        let mut found = 0;
        let mut outcome = Ok(());
        let look = |index: usize, record: nandu::RecordView<'_>| {
            found += 1;
            if outcome.is_ok() {
                outcome = blob_of(record.get(1)).and_then(|value| visit(keys[index], value));
            }
        };
        self.tables.get_batch_by_key(TABLE, &wanted, look).map_err(failure)?;
        outcome.map(|()| Some(found))
    }
}

impl Client for NanduClient<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        NanduReader { tables: self.0.read(), ahead_count: 0 }.get(key, visit)
    }

    fn put(&mut self, record: &Record) -> Result<(), Failure> {
        let row = [ValueRef::Integer(rank_of(record.key)), ValueRef::Blob(&record.value)];
        self.0
            .transact(Isolation::Serializable, |write| write.put(TABLE, &row).map(drop))
            .map_err(failure)
    }
}

/// The signed number of the same rank.
fn rank_of(key: u64) -> i64 {
    (key ^ SIGN).cast_signed()
}

fn blob_of(value: ValueRef<'_>) -> Result<&[u8], Failure> {
    match value {
        ValueRef::Blob(bytes) => Ok(bytes),
        other => Err(Failure::Wrong(format!("a value is {other:?}"))),
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Engine(format!("nandu: {error}"))
}
