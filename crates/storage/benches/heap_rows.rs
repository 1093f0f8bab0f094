//! How many rows a second a heap table takes and gives: orders as S001 has them (a key of 4 bytes and
//! a pad of 90), pages of 8 KiB in memory, without log or pool. The median of five. Run by `cargo
//! test` it only checks that it runs.

#![allow(clippy::print_stdout, reason = "a benchmark prints its result")]
#![allow(clippy::disallowed_types, reason = "a benchmark reads the wall clock")]

use nandu_base::Rng;
use nandu_storage::access::apply_common;
use nandu_storage::sqlite::{
    self, FillFactor, HeapTable, RecordView, TableSchema, TableTree, ValueRef, encode_record,
};
use nandu_storage::{ChangePages, FileId, PageAddress, PageOperation, ReadPages, StorageError};
use std::time::Instant;

const FILE: FileId = FileId(1);
const PAGE_BYTES: usize = 8192;
const PAD_BYTES: usize = 90;

/// Pages in one vector: as little as anything below a structure can cost.
#[derive(Default)]
struct FlatPages {
    pages: Vec<Vec<u8>>,
}

impl ReadPages for FlatPages {
    fn usable_bytes(&self) -> usize {
        PAGE_BYTES - 16
    }

    fn read<R>(
        &self,
        address: PageAddress,
        look: impl FnOnce(&[u8]) -> R,
    ) -> Result<R, StorageError> {
        Ok(look(&self.pages[address.page as usize]))
    }
}

impl ChangePages for FlatPages {
    fn change(
        &mut self,
        address: PageAddress,
        operation: PageOperation<'_>,
    ) -> Result<(), StorageError> {
        let page = &mut self.pages[address.page as usize];
        if operation.code < 0x10 {
            return apply_common(page, &operation);
        }
        sqlite::apply(page, &operation)
    }

    fn create(&mut self, address: PageAddress) -> Result<(), StorageError> {
        let index = address.page as usize;
        if self.pages.len() <= index {
            self.pages.resize(index + 1, Vec::new());
        }
        self.pages[index] = vec![0; self.usable_bytes()];
        Ok(())
    }
}

fn main() {
    let measure = std::env::args().any(|argument| argument == "--bench");
    let count: i64 = if measure { 2_000_000 } else { 3000 };
    let names = [
        "encoded",
        "appended",
        "loaded",
        "scanned, one column",
        "scanned, all columns",
        "got one by one",
        "got in batches of 64",
        "updated in place",
    ];
    let mut rates = vec![Vec::new(); names.len()];
    for _ in 0..if measure { 5 } else { 1 } {
        for (all, rate) in rates.iter_mut().zip(run(count)) {
            all.push(rate);
        }
    }
    for (name, rates) in names.into_iter().zip(&mut rates) {
        rates.sort_by(f64::total_cmp);
        println!("{name}: {:.2} M rows/s", rates[rates.len() / 2]);
    }
}

/// The rates of one run, in millions of rows a second.
fn run(count: i64) -> [f64; 8] {
    let mut pages = FlatPages::default();
    let mut table = new_table(&mut pages);
    let [encoded, appended, loaded] = write_rows(&mut pages, &mut table, count);
    let [one_column, all_columns, single, batched] = read_rows(&pages, table.tree(), count);
    let mut rng = Rng::new(2);
    let (mut record, mut undo) = (Vec::new(), Vec::new());
    let updated = timed(count / 4, || {
        for _ in 0..count / 4 {
            let rowid = any_rowid(&mut rng, count);
            undo.clear();
            encode(-rowid, &mut record);
            table.update(&mut pages, rowid, &record, &mut undo).expect("memory has room");
        }
    });
    [encoded, appended, loaded, one_column, all_columns, single, batched, updated]
}

fn write_rows(pages: &mut FlatPages, table: &mut HeapTable, count: i64) -> [f64; 3] {
    let (mut record, mut undo) = (Vec::new(), Vec::new());
    let encoded = timed(count, || {
        for key in 0..count {
            encode(key, &mut record);
            std::hint::black_box(&record);
        }
    });
    let appended = timed(count, || {
        for key in 0..count {
            undo.clear();
            encode(key, &mut record);
            table.append(pages, &record, &mut undo).expect("memory has room");
        }
    });
    let mut loaded_pages = FlatPages::default();
    let mut loaded_table = new_table(&mut loaded_pages);
    let loaded = timed(count, || {
        let mut load = loaded_table.bulk_load(&loaded_pages).expect("the table is new");
        for key in 0..count {
            encode(key, &mut record);
            load.push(&mut loaded_pages, &record).expect("memory has room");
        }
        load.finish(&mut loaded_pages).expect("memory has room");
    });
    [encoded, appended, loaded]
}

fn read_rows(pages: &FlatPages, tree: &TableTree, count: i64) -> [f64; 4] {
    let mut sum = 0_i64;
    let one_column = timed(count, || {
        tree.scan_all(pages, |_, row| sum += integer(row.get(0))).expect("pages are sound");
    });
    assert_eq!(sum, count * (count - 1) / 2);
    let all_columns = timed(count, || {
        let look = |_, row: RecordView<'_>| {
            for value in row.columns() {
                std::hint::black_box(value);
            }
        };
        tree.scan_all(pages, look).expect("pages are sound");
    });
    let mut rng = Rng::new(1);
    let lookups = count / 4;
    let single = timed(lookups, || {
        for _ in 0..lookups {
            let rowid = any_rowid(&mut rng, count);
            let key = tree.get(pages, rowid, |row| integer(row.get(0))).expect("pages are sound");
            assert_eq!(key, Some(rowid - 1));
        }
    });
    let batched = timed(lookups, || {
        let mut rowids = [0; 64];
        for _ in 0..lookups / 64 {
            rowids.fill_with(|| any_rowid(&mut rng, count));
            rowids.sort_unstable();
            let look = |index: usize, row: RecordView<'_>| {
                assert_eq!(integer(row.get(0)), rowids[index] - 1);
            };
            tree.get_batch(pages, &rowids, look).expect("pages are sound");
        }
    });
    [one_column, all_columns, single, batched]
}

/// Millions of rows a second.
fn timed(rows: i64, work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    rows as f64 / start.elapsed().as_secs_f64() / 1e6
}

fn encode(key: i64, record: &mut Vec<u8>) {
    record.clear();
    encode_record([ValueRef::Integer(key), ValueRef::Blob(&[7; PAD_BYTES])], record);
}

fn any_rowid(rng: &mut Rng, count: i64) -> i64 {
    1 + rng.below(count.unsigned_abs()).cast_signed()
}

fn new_table(pages: &mut FlatPages) -> HeapTable {
    let schema = TableSchema::parse("CREATE TABLE orders(k INT NOT NULL, pad BLOB)");
    let schema = schema.expect("a statement that is known");
    HeapTable::create(pages, FILE, schema, FillFactor::default(), "orders").expect("an empty file")
}

fn integer(value: ValueRef<'_>) -> i64 {
    match value {
        ValueRef::Integer(number) => number,
        other => panic!("the key is an integer, not {other:?}"),
    }
}
