//! Doubles and helpers of the tests that compare with SQLite itself.

#![allow(dead_code, reason = "each test program uses a part")]

use nandu_storage::access::{ApplyOperation, MemoryPages};
use nandu_storage::page::TRAILER_BYTES;
use nandu_storage::sqlite::{RecordView, SqliteFile, TableSchema, TableTree, Value};
use nandu_storage::{
    ChangePages, FileId, PageAddress, PageOperation, ReadPages, StorageError, sqlite,
};
use rusqlite::Connection;
use rusqlite::types::Value as SqliteValue;
use std::io::{Seek, SeekFrom, Write};
use std::path::Path;

/// The file of all tests.
pub(crate) const FILE: FileId = FileId(7);

/// A file of another program: whole pages, without a trailer.
#[derive(Clone, Debug)]
pub(crate) struct ForeignPages {
    pub(crate) bytes: Vec<u8>,
    pub(crate) page_bytes: usize,
}

impl ForeignPages {
    /// The page size comes from the header, if that is one.
    pub(crate) fn new(bytes: Vec<u8>) -> Self {
        let page_bytes = sqlite::FileHeader::parse(&bytes, "x").map_or(512, |h| h.page_bytes);
        Self { bytes, page_bytes: page_bytes as usize }
    }

    pub(crate) fn read_from(path: &Path) -> Self {
        Self::new(std::fs::read(path).unwrap())
    }

    pub(crate) fn open(&self) -> Result<SqliteFile, StorageError> {
        SqliteFile::open(self, FILE, self.bytes.len() as u64, "x.db")
    }
}

impl ReadPages for ForeignPages {
    fn usable_bytes(&self) -> usize {
        self.page_bytes
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        assert_eq!(address.file, FILE);
        let start = (address.page as usize - 1) * self.page_bytes;
        let mut page = vec![0; self.page_bytes];
        if let Some(there) = self.bytes.get(start..) {
            let length = there.len().min(self.page_bytes);
            page[..length].copy_from_slice(&there[..length]);
        }
        Ok(look(&page))
    }
}

/// A change as it would go to the log.
#[derive(Clone, Debug)]
pub(crate) enum Logged {
    Create(PageAddress),
    Change { address: PageAddress, code: u8, operand: u32, first: Vec<u8>, second: Vec<u8> },
}

/// Pages in memory that keep what would go to the log.
#[derive(Debug)]
pub(crate) struct LoggingPages {
    pub(crate) pages: MemoryPages,
    pub(crate) log: Vec<Logged>,
    /// How many changes succeed before one fails.
    pub(crate) changes_left: Option<usize>,
}

impl LoggingPages {
    pub(crate) fn new(page_bytes: u32) -> Self {
        Self {
            pages: MemoryPages::new(page_bytes, sqlite::apply),
            log: Vec::new(),
            changes_left: None,
        }
    }
}

impl ReadPages for LoggingPages {
    fn usable_bytes(&self) -> usize {
        self.pages.usable_bytes()
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.pages.read(address, look)
    }
}

impl ChangePages for LoggingPages {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        if let Some(left) = &mut self.changes_left {
            let what = "the test wanted it".to_owned();
            *left = left.checked_sub(1).ok_or(StorageError::NoSpace { what })?;
        }
        let PageOperation { code, operand, first, second } = operation;
        let (first, second) = (first.to_vec(), second.to_vec());
        self.log.push(Logged::Change { address, code, operand, first, second });
        self.pages.change(address, operation)
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        self.log.push(Logged::Create(address));
        self.pages.create(address)
    }
}

/// Does again what a log says.
pub(crate) fn replay(log: &[Logged], page_bytes: u32, apply: ApplyOperation) -> MemoryPages {
    let mut pages = MemoryPages::new(page_bytes, apply);
    for entry in log {
        match entry {
            Logged::Create(address) => pages.create(*address).unwrap(),
            Logged::Change { address, code, operand, first, second } => {
                let (code, operand) = (*code, *operand);
                pages.change(*address, PageOperation { code, operand, first, second }).unwrap();
            }
        }
    }
    pages
}

/// The pages as a file that ends after `page_count` pages, with holes where a page was never made.
pub(crate) fn write_file(pages: &MemoryPages, page_count: u32, path: &Path) {
    let page_bytes = (pages.usable_bytes() + TRAILER_BYTES) as u64;
    let mut file = std::fs::File::create(path).unwrap();
    file.set_len(page_bytes * u64::from(page_count)).unwrap();
    for (address, bytes) in pages.pages().filter(|(address, _)| address.page <= page_count) {
        file.seek(SeekFrom::Start(u64::from(address.page - 1) * page_bytes)).unwrap();
        file.write_all(bytes).unwrap();
    }
}

/// What SQLite says to a file.
pub(crate) fn integrity(connection: &Connection) -> String {
    connection.query_row("PRAGMA integrity_check(3)", [], |row| row.get::<_, String>(0)).unwrap()
}

/// All rows of a table as SQLite reads them, rowid first.
pub(crate) fn sqlite_rows(connection: &Connection, table: &str) -> Vec<(i64, Vec<Value>)> {
    let sql = format!("SELECT rowid, * FROM {table} ORDER BY rowid");
    let mut statement = connection.prepare(&sql).unwrap();
    let column_count = statement.column_count();
    let rows = statement.query_map([], |row| {
        let values = (1..column_count).map(|index| from_sqlite(row.get(index).unwrap()));
        Ok((row.get(0)?, values.collect()))
    });
    rows.unwrap().map(Result::unwrap).collect()
}

fn from_sqlite(value: SqliteValue) -> Value {
    match value {
        SqliteValue::Null => Value::Null,
        SqliteValue::Integer(number) => Value::Integer(number),
        SqliteValue::Real(number) => Value::Real(number),
        SqliteValue::Text(text) => Value::Text(text),
        SqliteValue::Blob(bytes) => Value::Blob(bytes),
    }
}

pub(crate) fn to_sqlite(value: &Value) -> SqliteValue {
    match value {
        Value::Null => SqliteValue::Null,
        Value::Integer(number) => SqliteValue::Integer(*number),
        Value::Real(number) => SqliteValue::Real(*number),
        Value::Text(text) => SqliteValue::Text(text.clone()),
        Value::Blob(bytes) => SqliteValue::Blob(bytes.clone()),
    }
}

/// All rows of a table as we read them, rowid first.
pub(crate) fn our_rows<P: ReadPages>(
    pages: &P,
    schema: &TableSchema,
    tree: &TableTree,
) -> Result<Vec<(i64, Vec<Value>)>, StorageError> {
    let mut rows = Vec::new();
    tree.scan_all(pages, |rowid, record| rows.push((rowid, values_of(schema, rowid, &record))))?;
    Ok(rows)
}

pub(crate) fn values_of(schema: &TableSchema, rowid: i64, record: &RecordView<'_>) -> Vec<Value> {
    let all = 0..schema.columns.len();
    let values: Vec<Value> =
        all.map(|index| schema.value(rowid, record, index).to_value()).collect();
    let in_one_pass = schema.values(rowid, record).map(|value| value.to_value());
    assert_eq!(in_one_pass.collect::<Vec<_>>(), values);
    values
}
