//! YCSB's core workloads (Cooper et al., "Benchmarking Cloud Serving Systems with YCSB", `SoCC` 2010): one
//! table of records with ten fields under a hashed key, and six mixes of reads and changes.
//!
//! ```text
//!   a  50 % read, 50 % update          zipf     d  95 % read, 5 % insert     latest
//!   b  95 % read,  5 % update          zipf     e  95 % scan, 5 % insert     zipf
//!   c       read alone                 zipf     f  50 % read, 50 % read-modify-write   zipf
//! ```
//!
//! 1. The key of record n is `user` and a hash of n in 20 digits, so neighbours by age are none by key.
//! 2. What is drawn exists, but for one that another client has drawn for itself and not yet inserted:
//!    a read that finds nothing is one of those, and is counted.
//! 3. A client counts by itself and adds what it counted when it ends, so that counting holds nobody up.
//!
//! An update here writes the whole record with one field changed, since a row is one record of the tree.

use crate::clients::{Client, Load};
use crate::error::BenchError;
use crate::retries::Retries;
use nandu_base::{AddressGenerator, Distribution, Nanos, Permutation, Rng, fnv1a};
use nandu_storage::database::{
    Column, ColumnType, Flow, Isolation, LoadOptions, LoadReport, NewTable, RowOrder, TableKind,
};
use nandu_storage::sqlite::{RecordView, Value, ValueRef};
use nandu_storage::{Database, StorageError};
use serde::{Deserialize, Serialize};
use std::ops::Bound;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// The table's name.
pub const TABLE: &str = "usertable";
/// Fields of a record beside its key.
pub const FIELD_COUNT: usize = 10;
/// The most records of a scan.
const SCAN_COUNT_MAX: u64 = 100;
/// Bytes of a key.
const KEY_BYTES: u64 = 24;
/// The skew of YCSB's Zipf.
const THETA: f64 = 0.99;

/// The kinds of operation, by number.
const KINDS: [&str; 5] = ["read", "update", "insert", "scan", "read_modify_write"];
const READ: usize = 0;
const UPDATE: usize = 1;
const INSERT: usize = 2;
const SCAN: usize = 3;
const READ_MODIFY_WRITE: usize = 4;

/// One of the core workloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WorkloadKind {
    /// Half reads, half updates.
    A,
    /// Mostly reads, some updates.
    B,
    /// Reads alone.
    C,
    /// Reads of what came last, some inserts.
    D,
    /// Short scans, some inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

/// How keys are drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum KeyChoice {
    /// Few records are wanted often: Zipf with 0.99, spread over all.
    Zipf,
    /// Those that came last are wanted most, by the same law.
    Latest,
    /// Every record alike.
    Uniform,
}

impl WorkloadKind {
    /// All of them.
    pub const ALL: [Self; 6] = [Self::A, Self::B, Self::C, Self::D, Self::E, Self::F];

    /// The letter that it is called by.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::A => "a",
            Self::B => "b",
            Self::C => "c",
            Self::D => "d",
            Self::E => "e",
            Self::F => "f",
        }
    }

    /// How it draws keys.
    #[must_use]
    pub const fn key_choice(self) -> KeyChoice {
        match self {
            Self::D => KeyChoice::Latest,
            _ => KeyChoice::Zipf,
        }
    }

    /// The kind of operation that a draw from 0 to 99 becomes.
    const fn operation(self, percent: u64) -> usize {
        match (self, percent) {
            (Self::A | Self::F, ..50) | (Self::B | Self::D, ..95) | (Self::C, _) => READ,
            (Self::A | Self::B, _) => UPDATE,
            (Self::E, ..95) => SCAN,
            (Self::D | Self::E, _) => INSERT,
            (Self::F, _) => READ_MODIFY_WRITE,
        }
    }
}

/// A run of one workload.
#[derive(Clone, Copy, Debug)]
pub struct Ycsb {
    /// Which of the six mixes clients do.
    pub workload: WorkloadKind,
    /// How keys are drawn.
    pub key_choice: KeyChoice,
    /// Records that were loaded.
    pub record_count: u64,
    /// Bytes of a field.
    pub field_bytes: u32,
    /// How far transactions that change something are apart.
    pub isolation: Isolation,
    /// The seed of everything that is drawn.
    pub seed: u64,
}

/// A workload at work, for all clients.
#[derive(Debug)]
pub struct YcsbLoad {
    settings: Ycsb,
    /// Drawn for inserts so far, the loaded ones included.
    drawn_count: AtomicU64,
    /// Inserted so far, the loaded ones included.
    inserted_count: AtomicU64,
    counts: Mutex<Counts>,
}

/// What clients met and moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Reads of records that another client was about to insert.
    pub missing_count: u64,
    /// Transactions that were done again.
    #[serde(flatten)]
    pub retries: Retries,
    /// Bytes of the records that clients read.
    pub record_read_bytes: u64,
    /// Bytes of the records that clients wrote, each attempt.
    pub record_written_bytes: u64,
}

/// Why a load ended early.
enum LoadEnd {
    Stopped,
    Failed(StorageError),
}

impl From<StorageError> for LoadEnd {
    fn from(error: StorageError) -> Self {
        Self::Failed(error)
    }
}

struct YcsbClient {
    load: Arc<YcsbLoad>,
    rng: Rng,
    /// Ranks by popularity; places, where every record is alike.
    items: AddressGenerator,
    /// Where the records of these ranks are.
    spread: Permutation,
    field: Vec<u8>,
    key: String,
    row: Vec<Value>,
    counts: Counts,
}

impl Ycsb {
    /// Makes the table and fills it, past the log. `goes_on` hears of each record and says whether to go
    /// on; if not there is no table, and the answer is `None`.
    ///
    /// # Errors
    /// If there is such a table, or no room, or the device fails.
    pub fn load(
        &self,
        database: &Database,
        mut goes_on: impl FnMut(u64) -> bool,
    ) -> Result<Option<LoadReport>, StorageError> {
        let mut columns = vec![Column::new("key", ColumnType::Text).not_null()];
        let field = |number| Column::new(&format!("field{number}"), ColumnType::Blob);
        columns.extend((0..FIELD_COUNT).map(field));
        let kind = TableKind::Clustered { key: vec![0] };
        let table = NewTable { name: TABLE.to_owned(), columns, kind, indexes: Vec::new() };
        let options = LoadOptions { order: RowOrder::Sort, ..LoadOptions::default() };
        let mut tables = database.write()?;
        let loaded = tables.load_table(&table, &options, |rows| {
            let mut rng = Rng::for_part(self.seed, "records");
            let mut fields = vec![vec![0; self.field_bytes as usize]; FIELD_COUNT];
            for number in 0..self.record_count {
                if !goes_on(number) {
                    return Err(LoadEnd::Stopped);
                }
                let key = key_of(number);
                let mut row = vec![ValueRef::Text(key.as_bytes())];
                for field in &mut fields {
                    rng.fill(field);
                }
                row.extend(fields.iter().map(|field| ValueRef::Blob(field)));
                rows.push(&row)?;
            }
            Ok(())
        });
        let report = match loaded {
            Ok(report) => report,
            Err(LoadEnd::Stopped) => return tables.rollback().map(|()| None),
            Err(LoadEnd::Failed(error)) => return Err(error),
        };
        tables.commit()?;
        database.checkpoint()?;
        Ok(Some(report))
    }

    /// The workload for clients over a table that [`Self::load`] made.
    #[must_use]
    pub fn start(&self) -> Arc<YcsbLoad> {
        Arc::new(YcsbLoad {
            settings: *self,
            drawn_count: AtomicU64::new(self.record_count),
            inserted_count: AtomicU64::new(self.record_count),
            counts: Mutex::default(),
        })
    }
}

impl YcsbLoad {
    /// What the clients that have ended met and moved.
    #[must_use]
    pub fn counts(&self) -> Counts {
        *self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counts {
    fn add(&mut self, other: &Self) {
        self.missing_count += other.missing_count;
        self.retries.add(&other.retries);
        self.record_read_bytes += other.record_read_bytes;
        self.record_written_bytes += other.record_written_bytes;
    }
}

impl Drop for YcsbClient {
    fn drop(&mut self) {
        self.load.counts.lock().unwrap_or_else(PoisonError::into_inner).add(&self.counts);
    }
}

impl Load for Arc<YcsbLoad> {
    fn kinds(&self) -> &'static [&'static str] {
        &KINDS
    }

    fn client(&self, number: u32) -> Box<dyn Client> {
        let Ycsb { key_choice, record_count, field_bytes, seed, .. } = self.settings;
        let mut rng = Rng::for_part(seed, &format!("client {number}"));
        let distribution = match key_choice {
            KeyChoice::Uniform => Distribution::Uniform,
            KeyChoice::Zipf | KeyChoice::Latest => {
                Distribution::Zipf { theta: THETA, clustered: true }
            }
        };
        let items = AddressGenerator::new(&distribution, record_count, rng.next_u64());
        Box::new(YcsbClient {
            load: Arc::clone(self),
            items: items.expect("there are records, and the skew is sound"),
            // The same records are popular with all clients.
            spread: Permutation::new(record_count, seed),
            rng,
            field: vec![0; field_bytes as usize],
            key: String::new(),
            row: Vec::new(),
            counts: Counts::default(),
        })
    }
}

impl YcsbClient {
    /// Bytes of a record: they are all of one length.
    fn record_bytes(&self) -> u64 {
        KEY_BYTES + FIELD_COUNT as u64 * u64::from(self.load.settings.field_bytes)
    }

    /// Draws the key of a record that exists.
    fn draw_key(&mut self) {
        let item = self.items.next_item();
        let number = match self.load.settings.key_choice {
            KeyChoice::Latest => {
                let count = self.load.inserted_count.load(Ordering::Relaxed);
                count.saturating_sub(1 + item)
            }
            KeyChoice::Zipf => self.spread.apply(item),
            KeyChoice::Uniform => item,
        };
        self.key = key_of(number);
    }

    /// Reads the record of the key into `row`; false if there is none.
    fn read(&mut self, database: &Database) -> Result<bool, StorageError> {
        let Self { key, row, .. } = self;
        row.clear();
        let wanted = [ValueRef::Text(key.as_bytes())];
        let found = database.read().get_by_key(TABLE, &wanted, |record| {
            row.extend((0..=FIELD_COUNT).map(|column| record.get(column).to_value()));
        })?;
        match found {
            Some(()) => self.counts.record_read_bytes += self.record_bytes(),
            None => self.counts.missing_count += 1,
        }
        Ok(found.is_some())
    }

    /// Writes the record of the key with one field drawn anew.
    fn change(&mut self, database: &Database) -> Result<(), BenchError> {
        let record_bytes = self.record_bytes();
        let Self { key, row, field, rng, load, counts, .. } = self;
        rng.fill(field);
        let changed = 1 + nandu_base::to_index(rng.below(FIELD_COUNT as u64));
        let wanted = [ValueRef::Text(key.as_bytes())];
        let Counts { retries, missing_count, record_read_bytes, record_written_bytes } = counts;
        retries.transact(database, load.settings.isolation, |write| {
            row.clear();
            // Before it is read: two who read it and then change it would stop each other.
            write.claim_by_key(TABLE, &wanted)?;
            let found = write.get_by_key(TABLE, &wanted, |record| {
                row.extend((0..=FIELD_COUNT).map(|column| record.get(column).to_value()));
            })?;
            if found.is_none() {
                *missing_count += 1;
                return Ok(());
            }
            *record_read_bytes += record_bytes;
            *record_written_bytes += record_bytes;
            row[changed] = Value::Blob(field.clone());
            let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            Ok(write.put(TABLE, &values).map(drop)?)
        })
    }

    fn insert(&mut self, database: &Database) -> Result<(), BenchError> {
        let number = self.load.drawn_count.fetch_add(1, Ordering::Relaxed);
        let record_bytes = self.record_bytes();
        let key = key_of(number);
        let mut row = vec![Value::Text(key)];
        for _ in 0..FIELD_COUNT {
            self.rng.fill(&mut self.field);
            row.push(Value::Blob(self.field.clone()));
        }
        let values: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        let isolation = self.load.settings.isolation;
        let Counts { retries, record_written_bytes, .. } = &mut self.counts;
        retries.transact(database, isolation, |write| {
            *record_written_bytes += record_bytes;
            Ok(write.put(TABLE, &values).map(drop)?)
        })?;
        self.load.inserted_count.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn scan(&mut self, database: &Database) -> Result<(), StorageError> {
        let wanted_count = 1 + self.rng.below(SCAN_COUNT_MAX);
        let lower = [ValueRef::Text(self.key.as_bytes())];
        let bounds = (Bound::Included(&lower[..]), Bound::Unbounded);
        let mut count = 0;
        let mut sum = 0_u64;
        database.read().scan_by_key(TABLE, bounds, 0, |record: RecordView<'_>| {
            count += 1;
            if let ValueRef::Blob(field) = record.get(FIELD_COUNT) {
                sum = sum.wrapping_add(field.len() as u64);
            }
            match count < wanted_count {
                true => Flow::Continue(()),
                false => Flow::Break(()),
            }
        })?;
        std::hint::black_box(sum);
        self.counts.record_read_bytes += count * self.record_bytes();
        Ok(())
    }
}

impl Client for YcsbClient {
    fn operate(&mut self, database: &Database, _due: Nanos) -> Result<usize, BenchError> {
        let kind = self.load.settings.workload.operation(self.rng.below(100));
        if kind != INSERT {
            self.draw_key();
        }
        match kind {
            READ => _ = self.read(database)?,
            UPDATE => self.change(database)?,
            INSERT => self.insert(database)?,
            SCAN => self.scan(database)?,
            _ => {
                if self.read(database)? {
                    self.change(database)?;
                }
            }
        }
        Ok(kind)
    }
}

/// The key of the record that came as number `number`.
fn key_of(number: u64) -> String {
    format!("user{:020}", fnv1a(&number.to_le_bytes()))
}
