//! fjall: sorted runs in levels, in Rust, with its usual filters and without compression.
//!
//! 1. Loading leaves the journal to the kernel and ends with a flush of the memtable; durable
//!    batches are synced.
//! 2. What compacts after a load is waited for outside the times; its bytes are told apart.
//! 3. Memory: to read, all of it is block cache; to write, half is, and a quarter the memtable.

use super::{Client, Purpose, Reader, Settings, Store, Visitor};
use crate::Failure;
use crate::workload::Record;
use fjall::config::BlockSizePolicy;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use nandu_base::to_index;

/// Records in one batch where nothing asks for durability.
const LOAD_BATCH_RECORDS: usize = 1000;

struct Fjall {
    database: Database,
    records: Keyspace,
    purpose: Purpose,
}

struct FjallReader(Keyspace);

struct FjallClient<'a> {
    store: &'a Fjall,
    reader: FjallReader,
}

/// Opens or makes a database.
pub(super) fn open(settings: &Settings<'_>) -> Result<Box<dyn Store>, Failure> {
    let Settings { cache_bytes: memory, page_bytes, purpose, .. } = *settings;
    let cache = if purpose == Purpose::Read { memory } else { memory / 2 };
    let database =
        Database::builder(settings.directory).cache_size(cache).open().map_err(failure)?;
    let options = || {
        KeyspaceCreateOptions::default()
            .max_memtable_size(memory / 4)
            .data_block_size_policy(BlockSizePolicy::all(page_bytes))
    };
    let records = database.keyspace("records", options).map_err(failure)?;
    Ok(Box::new(Fjall { database, records, purpose }))
}

impl Store for Fjall {
    fn insert(&mut self, records: &[Record]) -> Result<(), Failure> {
        let mode = match self.purpose {
            purpose if purpose.is_durable() => PersistMode::SyncData,
            _ => PersistMode::Buffer,
        };
        for chunk in records.chunks(LOAD_BATCH_RECORDS) {
            let mut batch = self.database.batch().durability(Some(mode));
            for record in chunk {
                batch.insert(&self.records, record.key.to_be_bytes(), record.value.as_slice());
            }
            batch.commit().map_err(failure)?;
        }
        Ok(())
    }

    fn reader(&self) -> Result<Box<dyn Reader + '_>, Failure> {
        Ok(Box::new(FjallReader(self.records.clone())))
    }

    fn client(&self) -> Result<Box<dyn Client + '_>, Failure> {
        Ok(Box::new(FjallClient { store: self, reader: FjallReader(self.records.clone()) }))
    }

    fn settle(&mut self) -> Result<(), Failure> {
        let mut completed = self.database.compactions_completed();
        super::wait_while("fjall compacts", || {
            let completed_now = self.database.compactions_completed();
            let was_busy = completed_now != completed;
            completed = completed_now;
            was_busy
                || self.database.outstanding_flushes() > 0
                || self.database.active_compactions() > 0
        })
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        if self.purpose != Purpose::Read {
            self.records.rotate_memtable_and_wait().map_err(failure)?;
            self.database.persist(PersistMode::SyncAll).map_err(failure)?;
        }
        Ok(())
    }
}

impl Reader for FjallReader {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        match self.0.get(key.to_be_bytes()).map_err(failure)? {
            Some(value) => visit(key, &value).map(|()| true),
            None => Ok(false),
        }
    }

    fn scan(&mut self, start: u64, count: u64, visit: &mut Visitor<'_>) -> Result<(), Failure> {
        for row in self.0.range(start.to_be_bytes()..).take(to_index(count)) {
            let (key, value) = row.into_inner().map_err(failure)?;
            visit(super::key_of(&key)?, &value)?;
        }
        Ok(())
    }
}

impl Client for FjallClient<'_> {
    fn get(&mut self, key: u64, visit: &mut Visitor<'_>) -> Result<bool, Failure> {
        self.reader.get(key, visit)
    }

    fn put(&mut self, record: &Record) -> Result<(), Failure> {
        let Fjall { database, records, purpose } = self.store;
        let (key, value) = (record.key.to_be_bytes(), record.value.as_slice());
        if !purpose.is_durable() {
            return records.insert(key, value).map_err(failure);
        }
        let mut batch = database.batch().durability(Some(PersistMode::SyncData));
        batch.insert(records, key, value);
        batch.commit().map_err(failure)
    }
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Engine(format!("fjall: {error}"))
}
