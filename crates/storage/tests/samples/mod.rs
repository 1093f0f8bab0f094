//! Well-formed bytes of every kind that comes from outside: what fuzzing begins with, and what the
//! tests of hostile bytes mutate.
//!
//! 1. The same bytes every time, but for what SQLite itself may change between versions.
//! 2. Each sample is below 32 KiB, the longest input of the fuzz targets.

#![allow(dead_code, reason = "each program uses a part")]

use nandu_base::to_index;
use nandu_device::{Geometry, IoBuffer, MemoryConfig, MemoryDevice, Operation};
use nandu_storage::access::MemoryPages;
use nandu_storage::btree::{self, Tree};
use nandu_storage::hostile;
use nandu_storage::log::{LogConfig, LogFile, RecordBuilder, Room, TransactionStatus};
use nandu_storage::pax::PaxWriter;
use nandu_storage::propagation::PropagationKind;
use nandu_storage::sqlite::ValueRef;
use nandu_storage::volume::{DeviceVolume, Io, IoOwner};
use nandu_storage::{
    Engine, FileId, Lsn, PageAddress, PageOperation, Settings, Volume as _, Volumes,
};

/// A name and the bytes.
pub(crate) type Sample = (&'static str, Vec<u8>);

/// Bytes of a page of the smallest trees, with its trailer.
pub(crate) const TREE_PAGE_BYTES: u32 = 512;

/// Rows of all serial types: integers of each width, real, text, blob, null.
const EVERY_SERIAL_TYPE: &str = "
    CREATE TABLE every_type (a, b INT, c REAL, d TEXT, e BLOB, PRIMARY KEY (b));
    INSERT INTO every_type VALUES
      (NULL, 0, 1.5, '', x''), (1, 1, -0.0, 'a', x'00'), (-128, 2, 1e300, 'é€𝄞', x'ff00'),
      (32767, 3, NULL, 'twelve bytes', zeroblob(40)), (-8388608, 4, 2, NULL, NULL),
      (2147483647, 5, 1, 'x', 'text'), (140737488355327, 6, 0, 'y', 7),
      (-9223372036854775808, 7, 3.25, 'z', 0.5), (9223372036854775807, 8, 4, 'w', x'01');";
/// Rows with overflow pages, short and long, in a table that has interior pages.
const OVERFLOW: &str = "
    CREATE TABLE overflow (id INTEGER PRIMARY KEY, body);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 12)
      INSERT INTO overflow SELECT i * 1000, printf('%.*c', i * i * 14, 'o') FROM n;";
/// Rows that make interior pages of several levels in small pages.
const MANY: &str = "
    CREATE TABLE many (k INTEGER PRIMARY KEY, v TEXT);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400)
      INSERT INTO many SELECT i * 7919 % 100003, 'row ' || i FROM n;";
/// Leaves trunk and leaf pages on the list of free pages.
const FREED: &str = "
    CREATE TABLE gone (a, b);
    WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 120)
      INSERT INTO gone SELECT i, zeroblob(90) FROM n;
    CREATE TABLE kept AS SELECT a FROM gone WHERE a % 10 = 0;
    DROP TABLE gone;";
/// What else a schema may hold; columns added later are missing in old rows.
const SCHEMA: &str = "
    CREATE TABLE old (a);
    INSERT INTO old VALUES (1), ('two');
    ALTER TABLE old ADD COLUMN later TEXT DEFAULT 'new';
    INSERT INTO old VALUES (3, 'both');
    CREATE TABLE \"a name\" (\"b c\" INT, [d] TEXT, `e` BLOB CHECK (length(e) < 9));
    INSERT INTO \"a name\" VALUES (1, 'x', x'02');
    CREATE TABLE counted (id INTEGER PRIMARY KEY AUTOINCREMENT, v);
    INSERT INTO counted (v) VALUES ('first');
    CREATE INDEX by_later ON old (later DESC);
    CREATE VIEW seen AS SELECT a FROM old;
    CREATE TRIGGER fires AFTER INSERT ON old BEGIN DELETE FROM counted; END;";

/// Files of SQLite.
pub(crate) fn sqlite_files() -> Vec<Sample> {
    let all = [EVERY_SERIAL_TYPE, OVERFLOW, SCHEMA].concat();
    [
        ("types-512", "page_size = 512", EVERY_SERIAL_TYPE),
        ("types-utf16le", "page_size = 512; PRAGMA encoding = 'UTF-16le'", EVERY_SERIAL_TYPE),
        ("types-utf16be", "page_size = 1024; PRAGMA encoding = 'UTF-16be'", EVERY_SERIAL_TYPE),
        ("overflow-512", "page_size = 512", OVERFLOW),
        ("overflow-1024", "page_size = 1024", OVERFLOW),
        ("many-512", "page_size = 512", MANY),
        ("freed-512", "page_size = 512", FREED),
        ("vacuum-1024", "page_size = 1024; PRAGMA auto_vacuum = FULL", FREED),
        ("schema-512", "page_size = 512", SCHEMA),
        ("all-2048", "page_size = 2048", &all),
        ("types-4096", "page_size = 4096", EVERY_SERIAL_TYPE),
    ]
    .map(|(name, pragma, sql)| (name, sqlite_file(pragma, sql)))
    .into()
}

fn sqlite_file(pragma: &str, sql: &str) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.execute_batch(&format!("PRAGMA {pragma}; {sql}")).unwrap();
    connection.close().unwrap();
    std::fs::read(path).unwrap()
}

/// The usable bytes of the pages of trees, in their order.
pub(crate) fn trees() -> Vec<Sample> {
    [
        ("empty", tree(0, 0, 0)),
        ("leaf", tree(5, 30, 0)),
        ("overflow", tree(30, 2000, 0)),
        ("levels", tree(400, 12, 0)),
        ("deleted", tree(300, 30, 60)),
    ]
    .into()
}

/// A tree of small pages; every 25th value is as long as `long_bytes`.
fn tree(insert_count: u32, long_bytes: usize, delete_count: u32) -> Vec<u8> {
    let mut pages = MemoryPages::new(TREE_PAGE_BYTES, btree::apply);
    let tree = Tree::create(&mut pages, FileId(1)).unwrap();
    let mut undo = Vec::new();
    let key = |number: u32| (number * 7919 % 1000).to_be_bytes();
    for number in 0..insert_count {
        let value = vec![5; if number % 25 == 0 { long_bytes } else { 12 }];
        tree.insert(&mut pages, &key(number), &value, &mut undo).unwrap();
    }
    for number in 0..delete_count {
        tree.delete(&mut pages, &key(number), &mut undo).unwrap();
    }
    pages.pages().flat_map(|(_, page)| page.to_vec()).collect()
}

/// The usable bytes of the pages of tables in PAX pages, in their order.
pub(crate) fn pax_tables() -> Vec<Sample> {
    [("row", pax_table(1, 4)), ("page", pax_table(9, 16)), ("pages", pax_table(200, 12))].into()
}

/// A table of small pages, with NULLs in all columns and now and then a long value.
fn pax_table(row_count: i64, span_pages: u32) -> Vec<u8> {
    let mut pages = MemoryPages::new(TREE_PAGE_BYTES, btree::apply);
    let columns = &hostile::PAX_COLUMNS;
    let mut writer = PaxWriter::create(&mut pages, FileId(1), columns, span_pages).unwrap();
    for number in 0..row_count {
        let text = format!("row {number}");
        let blob = vec![7; if number % 50 == 9 { 900 } else { 5 }];
        let mut row = [
            ValueRef::Integer(number * 999_983),
            ValueRef::Real(0.5),
            ValueRef::Text(text.as_bytes()),
            ValueRef::Blob(&blob),
        ];
        for (column, value) in row.iter_mut().enumerate() {
            if usize::try_from(number % 7) == Ok(column) {
                *value = ValueRef::Null;
            }
        }
        writer.push(&mut pages, row.into_iter()).unwrap();
    }
    writer.finish(&mut pages).unwrap();
    pages.pages().flat_map(|(_, page)| page.to_vec()).collect()
}

/// One log record of each kind.
pub(crate) fn log_records() -> Vec<Sample> {
    let mut builder = RecordBuilder::new();
    builder.begin_action(7, Lsn(4096));
    add_changes(&mut builder, 20);
    let action = builder.finish(b"undo").as_bytes().to_vec();
    builder.begin_compensation(7, Lsn(1 << 40), Lsn(4096));
    add_changes(&mut builder, 2);
    let compensation = builder.finish(&[]).as_bytes().to_vec();
    let address = |page| PageAddress::new(FileId(3), page);
    let transactions: Vec<_> = (1..6)
        .map(|id| nandu_storage::log::TransactionEntry {
            id,
            status: TransactionStatus::Active,
            last: Lsn(id * 4096),
            undo_next: Lsn(id * 512),
        })
        .collect();
    let dirty_pages: Vec<_> = (1..40).map(|page| (address(page), Lsn(8192))).collect();
    let end = builder.end_checkpoint(Lsn(512), true, &transactions, &dirty_pages);
    let end_checkpoint = end.as_bytes().to_vec();
    vec![
        ("action", action),
        ("compensation", compensation),
        ("commit", builder.commit(9, Lsn(1)).as_bytes().to_vec()),
        ("abort", builder.abort(9, Lsn(u64::MAX >> 8)).as_bytes().to_vec()),
        ("end", builder.end(u64::MAX, Lsn(2)).as_bytes().to_vec()),
        ("begin-checkpoint", builder.begin_checkpoint().as_bytes().to_vec()),
        ("pages-durable", builder.pages_durable(7 << 40).as_bytes().to_vec()),
        ("end-checkpoint", end_checkpoint),
    ]
}

fn add_changes(builder: &mut RecordBuilder, page_count: u32) {
    for page in 1..=page_count {
        let (first, second) = (vec![3; 20], vec![4; 100]);
        let operation = PageOperation { code: 0x21, operand: 5, first: &first, second: &second };
        builder.add_change(PageAddress::new(FileId(3), page), &operation);
    }
}

/// The files of settings: of pages in place, and of pages in segments.
pub(crate) fn settings_files() -> Vec<Sample> {
    let of = |propagation: PropagationKind| {
        let geometry = Geometry { sector_bytes: 512, sector_count: 16 << 11 };
        let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
        let data = Box::new(DeviceVolume::format(Box::new(device)).unwrap());
        let settings = Settings {
            page_bytes: 512,
            pool_bytes: 32 << 10,
            log_bytes: 128 << 10,
            checkpoint_bytes: 32 << 10,
            propagation: propagation.into(),
            ..Settings::default()
        };
        let engine = Engine::create(Volumes::new(data, None), &settings, 9).unwrap();
        let io = engine.data_io();
        let files = io.files();
        let (file, _) = *files.iter().find(|(_, name)| name == "settings").unwrap();
        let ticket =
            io.submit(IoOwner::Operator, file, Operation::Read, 0, IoBuffer::zeroed(4096)).unwrap();
        io.wait(ticket).buffer.unwrap().to_vec()
    };
    PropagationKind::all_on_data_alone().map(|kind| (kind.told(), of(kind))).collect()
}

/// The files of logs: one that has just been filled, and one that went round.
pub(crate) fn log_files() -> Vec<Sample> {
    vec![("short", log_file(30, false)), ("round", log_file(500, true))]
}

/// A small log with records in several flushes.
fn log_file(record_count: u64, goes_round: bool) -> Vec<u8> {
    let geometry = Geometry { sector_bytes: 512, sector_count: 4 << 11 };
    let device = MemoryDevice::new(MemoryConfig { geometry, ..MemoryConfig::default() });
    let mut volume = DeviceVolume::format(Box::new(device)).unwrap();
    let file = volume.create("log").unwrap();
    let io = Io::new(Box::new(volume), std::sync::Arc::default());
    let config = LogConfig { capacity_bytes: 16 << 10, ..LogConfig::default() };
    let log = LogFile::create(io.clone(), file, &config, 512, 9).unwrap();
    for transaction in 1..record_count {
        let mut builder = RecordBuilder::new();
        builder.begin_action(transaction, Lsn(0));
        let operation = PageOperation { code: 0, operand: 5, first: b"some bytes", second: &[] };
        builder.add_change(PageAddress::new(FileId(3), 1), &operation);
        log.append(&builder.finish(b"undo"), Room::Free).unwrap();
        if transaction % 10 == 0 {
            log.flush().unwrap();
        }
        if goes_round && transaction % 50 == 0 {
            let begin = log.append(&builder.begin_checkpoint(), Room::Free).unwrap();
            let record = builder.end_checkpoint(begin, true, &[], &[]);
            let end = log.append(&record, Room::Free).unwrap();
            log.complete_checkpoint(begin, end, begin).unwrap();
        }
    }
    log.flush().unwrap();
    let length = to_index(io.byte_count(file));
    let buffer = IoBuffer::zeroed(length);
    let ticket = io.submit(IoOwner::Operator, file, Operation::Read, 0, buffer).unwrap();
    io.wait(ticket).buffer.unwrap().to_vec()
}
