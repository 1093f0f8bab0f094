//! Ours, as programs embed it: a directory of real files with direct I/O, so that the page cache has no
//! part in it. Serializable, a sync for each commit or for those that come together.
//!
//! 1. All settings but the pool are those of every database.

use super::contender::{Session, Setting, Store};
use crate::Failure;
use nandu::{Database, DatabaseOptions, create_database, open_database};
use nandu_bench::tpcc::{Input, Output, TpccCounts, execute};
use nandu_load::tpcc::{check, schema::district};
use nandu_load::{LoadOptions, Tpcc, TpccTable};
use nandu_storage::database::{Flow, Isolation};
use nandu_storage::log::Durability;
use nandu_storage::sqlite::ValueRef;
use std::path::Path;

/// Of the group's memory, what the process needs beside the pool; of the rest an eighth goes to what the
/// pool keeps about its frames.
const OTHER_BYTES: u64 = 32 << 20;

struct Nandu {
    database: Database,
}

struct NanduSession<'a> {
    database: &'a Database,
    counts: TpccCounts,
}

fn failure(error: impl std::fmt::Display) -> Failure {
    Failure::Engine(format!("nandu: {error}"))
}

/// A pool of all that the group has.
pub(super) fn wide_pool_bytes(setting: &Setting) -> u64 {
    (setting.group_bytes.saturating_sub(OTHER_BYTES) / 8 * 7).max(setting.memory_bytes)
}

pub(super) fn load(directory: &Path, tpcc: &Tpcc) -> Result<(), Failure> {
    let database = create_database(directory, &DatabaseOptions::default()).map_err(failure)?;
    tpcc.store(&database, &LoadOptions::default(), &mut ()).map_err(failure)?;
    database.close().map_err(failure)
}

pub(super) fn open(directory: &Path, pool_bytes: u64) -> Result<Box<dyn Store>, Failure> {
    let mut options = DatabaseOptions::default();
    options.settings.pool_bytes = pool_bytes;
    options.settings.durability = Durability::EveryCommit;
    let (database, _) = open_database(directory, &options).map_err(failure)?;
    Ok(Box::new(Nandu { database }))
}

impl Store for Nandu {
    fn session(&self, _number: u32) -> Result<Box<dyn Session + '_>, Failure> {
        let (database, counts) = (&self.database, TpccCounts::default());
        Ok(Box::new(NanduSession { database, counts }))
    }

    fn broken_conditions(&self, _tpcc: &Tpcc) -> Result<Vec<String>, Failure> {
        let found = check(&self.database.read()).map_err(failure)?;
        let told = found.broken().map(|it| format!("{} ({})", it.number, it.what));
        Ok(told.collect())
    }

    fn order_count(&self) -> Result<u64, Failure> {
        let mut sum = 0;
        let look = |_, row: nandu_storage::sqlite::RecordView<'_>| {
            if let ValueRef::Integer(next) = row.get(district::D_NEXT_O_ID) {
                sum += next - 1;
            }
            Flow::Continue(())
        };
        self.database.read().scan(TpccTable::District.name(), look).map_err(failure)?;
        Ok(sum.unsigned_abs())
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.database.close().map_err(failure)
    }
}

impl Session for NanduSession<'_> {
    fn execute(&mut self, input: &Input) -> Result<Output, Failure> {
        execute(self.database, Isolation::Serializable, input, &mut self.counts).map_err(failure)
    }

    fn retry_count(&self) -> u64 {
        self.counts.retries.retry_count + self.counts.snapshot_retry_count
    }
}
