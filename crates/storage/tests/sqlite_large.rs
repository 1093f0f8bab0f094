//! Files past 1 GiB, where SQLite leaves the page with byte 2^30 to file locks. Pages keep only what
//! is not zero, and the file handed to SQLite has holes.
//!
//! With `NANDU_SQLITE_LARGE=1` in the environment more page sizes are tried, in all ways of coming
//! across that page, and a file of that size that SQLite wrote; that takes a minute of processor time
//! and 1.5 GB of disk.

#![allow(clippy::unwrap_used, reason = "test helpers fail like tests")]

use crate::sqlite_support::{FILE, integrity};
use nandu_storage::access::apply_common;
use nandu_storage::sqlite::{
    self, FillFactor, HeapTable, SqliteFile, TableSchema, ValueRef, encode_record, lock_byte_page,
};
use nandu_storage::{ChangePages, PageAddress, PageOperation, ReadPages, StorageError};
use rusqlite::Connection;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io::{Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

const LARGE: &str = "NANDU_SQLITE_LARGE";

/// Pages without the zeros at their ends.
struct SparsePages {
    page_bytes: usize,
    pages: BTreeMap<u32, Vec<u8>>,
    whole: RefCell<Vec<u8>>,
}

impl SparsePages {
    fn new(page_bytes: u32) -> Self {
        let page_bytes = page_bytes as usize;
        let whole = RefCell::new(vec![0; page_bytes - 16]);
        Self { page_bytes, pages: BTreeMap::new(), whole }
    }

    fn load(&self, page: u32) {
        let mut whole = self.whole.borrow_mut();
        let there = self.pages.get(&page).map_or(&[][..], Vec::as_slice);
        let (start, rest) = whole.split_at_mut(there.len());
        start.copy_from_slice(there);
        rest.fill(0);
    }

    fn write_file(&self, page_count: u32, path: &Path) {
        let mut file = std::fs::File::create(path).unwrap();
        file.set_len(self.page_bytes as u64 * u64::from(page_count)).unwrap();
        for (page, bytes) in &self.pages {
            let start = u64::from(page - 1) * self.page_bytes as u64;
            file.seek(SeekFrom::Start(start)).unwrap();
            file.write_all(bytes).unwrap();
        }
    }
}

impl ReadPages for SparsePages {
    fn usable_bytes(&self) -> usize {
        self.page_bytes - 16
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        self.load(address.page);
        Ok(look(&self.whole.borrow()))
    }
}

impl ChangePages for SparsePages {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        self.load(address.page);
        let whole = self.whole.get_mut();
        if operation.code < 0x10 {
            apply_common(whole, &operation)?;
        } else {
            sqlite::apply(whole, &operation)?;
        }
        let zeros = [0; 256];
        let mut end = whole.len();
        while end >= zeros.len() && whole[end - zeros.len()..end] == zeros {
            end -= zeros.len();
        }
        self.pages.insert(address.page, whole[..end].to_vec());
        Ok(())
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        self.pages.insert(address.page, Vec::new());
        Ok(())
    }
}

/// A file of another program, read where it lies.
struct FilePages {
    file: std::fs::File,
    page_bytes: usize,
}

impl ReadPages for FilePages {
    fn usable_bytes(&self) -> usize {
        self.page_bytes
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        let mut page = vec![0; self.page_bytes];
        let start = u64::from(address.page - 1) * self.page_bytes as u64;
        self.file.read_exact_at(&mut page, start).unwrap();
        Ok(look(&page))
    }
}

fn record_of(key: i64, pad_bytes: usize) -> Vec<u8> {
    let mut record = Vec::new();
    let pad = vec![0; pad_bytes];
    encode_record([ValueRef::Integer(key), ValueRef::Blob(&pad)], &mut record);
    record
}

/// Lets SQLite judge a file, and compares sums with ours.
fn judge<P: ReadPages>(path: &Path, pages: &P, tree: &sqlite::TableTree) -> i64 {
    let connection = Connection::open(path).unwrap();
    assert_eq!(integrity(&connection), "ok");
    let sql = "SELECT count(*), sum(k), sum(length(pad)) FROM t";
    let theirs: (i64, i64, i64) =
        connection.query_row(sql, [], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?))).unwrap();
    let mut ours = (0, 0, 0);
    tree.scan_all(pages, |_, record| {
        if let (ValueRef::Integer(key), ValueRef::Blob(pad)) = (record.get(0), record.get(1)) {
            ours = (ours.0 + 1, ours.1 + key, ours.2 + pad.len() as i64);
        }
    })
    .unwrap();
    assert_eq!(ours, theirs);
    ours.0
}

#[test]
fn tables_past_a_gibibyte_leave_the_lock_byte_page_alone() {
    let large = std::env::var_os(LARGE).is_some();
    let page_sizes: &[u32] = if large { &[1024, 4096, 8192, 65_536] } else { &[4096, 65_536] };
    let variants: &[(bool, bool)] =
        if large { &[(false, true), (false, false), (true, true)] } else { &[(false, true)] };
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("t.db");
    for &page_bytes in page_sizes {
        let lock_page = lock_byte_page(page_bytes);
        let leaf_row_bytes = page_bytes as usize / 2;
        for &(bulk, leaves_cross) in variants {
            let mut pages = SparsePages::new(page_bytes);
            let schema = TableSchema::parse("CREATE TABLE t(k INT NOT NULL, pad BLOB)").unwrap();
            let fill = FillFactor::default();
            let mut table = HeapTable::create(&mut pages, FILE, schema, fill, "t.db").unwrap();
            // Long rows of 15 MiB up to just before the page, or past it.
            let long_bytes = 15 << 20;
            let long_count = if leaves_cross { 68 } else { 70 };
            let rows = (0..long_count).map(|key| (key, long_bytes));
            let gap_pages = if leaves_cross { (5 << 20) / page_bytes + 20 } else { 3 };
            let rows = rows.chain((0..i64::from(gap_pages)).map(|key| (key, leaf_row_bytes)));
            let mut count = 0;
            if bulk {
                let mut load = table.bulk_load(&pages).unwrap();
                for (key, length) in rows {
                    load.push(&mut pages, &record_of(key, length)).unwrap();
                }
                count += load.finish(&mut pages).unwrap();
            } else {
                for (key, length) in rows {
                    let record = record_of(key, length);
                    count = table.append(&mut pages, &record, &mut Vec::new()).unwrap();
                }
            }
            assert!(table.page_counts().0 > lock_page + 5, "the file passes the page");
            assert!(!pages.pages.contains_key(&lock_page), "which was never made");
            table.audit(&pages);
            pages.write_file(table.page_counts().0, &path);
            assert_eq!(judge(&path, &pages, table.tree()), count);
        }
    }
}

#[test]
fn a_file_past_a_gibibyte_that_sqlite_wrote_is_read() {
    if std::env::var_os(LARGE).is_none() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch(
            "PRAGMA page_size = 8192; PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF;
             CREATE TABLE t(k INT, pad BLOB); BEGIN;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 68)
               INSERT INTO t SELECT i, zeroblob(15 << 20) FROM n;
             WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 300000)
               INSERT INTO t SELECT i, zeroblob(2000) FROM n;
             COMMIT",
        )
        .unwrap();
    drop(connection);
    let file = std::fs::File::open(&path).unwrap();
    let file_bytes = file.metadata().unwrap().len();
    assert!(file_bytes > 3 << 29, "past 1.5 GiB");
    let pages = FilePages { file, page_bytes: 8192 };
    let opened = SqliteFile::open(&pages, FILE, file_bytes, "x.db").unwrap();
    let (_, tree) = opened.table("t").unwrap();
    assert_eq!(judge(&path, &pages, &tree), 300_068);
}
