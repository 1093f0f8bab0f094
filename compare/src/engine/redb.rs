//! redb: a copy-on-write B+-tree in Rust, in pages of 4 KiB.
//!
//! 1. Loading commits without durability, since each commit of a call of `insert` would cost a
//!    sync; every tenth call is durable, which lets the engine use freed pages again.
//! 2. A reader keeps one read transaction for its life. A client has one for each call, and commits
//!    without durability but for every thousandth change of all, for the same reason.

use super::{Client, Purpose, Reader, Settings, Store, Visitor};
use crate::Failure;
use crate::workload::Record;
use nandu_base::to_index;
use redb::{Database, Durability, ReadOnlyTable, ReadableDatabase, TableDefinition};
use std::sync::atomic::{AtomicU64, Ordering};

const TABLE: TableDefinition<'_, u64, &[u8]> = TableDefinition::new("records");
const CALLS_PER_DURABLE_COMMIT: u64 = 10;
const PUTS_PER_DURABLE_COMMIT: u64 = 1000;

struct Redb {
    database: Database,
    purpose: Purpose,
    call_count: u64,
    put_count: AtomicU64,
}

struct RedbClient<'a>(&'a Redb);

struct RedbReader(ReadOnlyTable<u64, &'static [u8]>);

/// Opens or makes a database.
pub(super) fn open(settings: &Settings<'_>) -> Result<Box<dyn Store>, Failure> {
    let database = Database::builder()
        .set_cache_size(to_index(settings.cache_bytes))
        .create(settings.directory.join("records.redb"))
        .map_err(failure)?;
    Ok(Box::new(Redb {
        database,
        purpose: settings.purpose,
        call_count: 0,
        put_count: AtomicU64::new(0),
    }))
}

impl Redb {
    fn commit(&self, records: &[Record], durability: Durability) -> Result<(), Failure> {
        let mut transaction = self.database.begin_write().map_err(failure)?;
        transaction.set_durability(durability).map_err(failure)?;
        {
            let mut table = transaction.open_table(TABLE).map_err(failure)?;
            for record in records {
                table.insert(record.key, record.value.as_slice()).map_err(failure)?;
            }
        }
        transaction.commit().map_err(failure)
    }
}

impl Store for Redb {
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure> {
        self.call_count += 1;
        let is_durable =
            self.purpose.is_durable() || self.call_count.is_multiple_of(CALLS_PER_DURABLE_COMMIT);
        self.commit(records, if is_durable { Durability::Immediate } else { Durability::None })
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure> {
        let transaction = self.database.begin_read().map_err(failure)?;
        Ok(Box::new(RedbReader(transaction.open_table(TABLE).map_err(failure)?)))
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(RedbClient(self)))
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        if self.purpose != Purpose::Read {
            self.commit(&[], Durability::Immediate)?;
        }
        self.database.close().map_err(failure)
    }
}

impl Reader for RedbReader {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        match self.0.get(key).map_err(failure)? {
            Some(value) => visit(key, value.value()).map(|()| true),
            None => Ok(false),
        }
    }

    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure> {
        let rows = self.0.range(start..).map_err(failure)?;
        for row in rows.take(to_index(count)) {
            let (key, value) = row.map_err(failure)?;
            visit(key.value(), value.value())?;
        }
        Ok(())
    }
}

impl Client for RedbClient<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        let transaction = self.0.database.begin_read().map_err(failure)?;
        RedbReader(transaction.open_table(TABLE).map_err(failure)?).get(key, visit)
    }

    fn put(&mut self, record: &Record) -> Result<(), Failure> {
        let number = self.0.put_count.fetch_add(1, Ordering::Relaxed) + 1;
        let is_durable =
            self.0.purpose.is_durable() || number.is_multiple_of(PUTS_PER_DURABLE_COMMIT);
        let durability = if is_durable { Durability::Immediate } else { Durability::None };
        self.0.commit(std::slice::from_ref(record), durability)
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Engine(format!("redb: {error}"))
}
