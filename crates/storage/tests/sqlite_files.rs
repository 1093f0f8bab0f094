//! Files that SQLite wrote, as we read them: every kind of table, and files that lie.

#![allow(clippy::unwrap_used, reason = "test helpers fail like tests")]

use crate::sqlite_support::{ForeignPages, our_rows, sqlite_rows, to_sqlite};
use nandu_base::Rng;
use nandu_storage::StorageError;
use nandu_storage::sqlite::{FileHeader, Value, check_beside};
use proptest::prelude::*;
use rusqlite::{Connection, params_from_iter};
use std::path::Path;

/// Makes a file by `setup` and has `check` compare what both read of table `t`.
fn compare(setup: impl FnOnce(&Connection)) -> Vec<(i64, Vec<Value>)> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let connection = open_unsafe(&path);
    setup(&connection);
    let expected = sqlite_rows(&connection, "t");
    drop(connection);
    let pages = ForeignPages::read_from(&path);
    let (schema, tree) = pages.open().unwrap().table("t").unwrap();
    assert_eq!(our_rows(&pages, &schema, &tree).unwrap(), expected);
    check_lookups(&pages, &expected);
    expected
}

/// A file that nobody minds to lose: without waiting for the disk.
fn open_unsafe(path: &Path) -> Connection {
    let connection = Connection::open(path).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF; PRAGMA journal_mode = MEMORY").unwrap();
    connection
}

/// Single and batched lookups find the same rows as the scan.
fn check_lookups(pages: &ForeignPages, expected: &[(i64, Vec<Value>)]) {
    let (schema, tree) = pages.open().unwrap().table("t").unwrap();
    let mut rowids = Vec::new();
    for (rowid, values) in expected.iter().step_by(expected.len() / 50 + 1) {
        let found = tree.get(pages, *rowid, |record| {
            crate::sqlite_support::values_of(&schema, *rowid, &record)
        });
        assert_eq!(found.unwrap().as_ref(), Some(values));
        rowids.extend([*rowid, rowid.wrapping_add(1)]);
    }
    rowids.sort_unstable();
    let mut found = vec![None; rowids.len()];
    tree.get_batch(pages, &rowids, |index, record| {
        let values = crate::sqlite_support::values_of(&schema, rowids[index], &record);
        assert_eq!(found[index].replace(values), None, "each row comes once");
    })
    .unwrap();
    for (rowid, found) in rowids.iter().zip(found) {
        let there = expected.binary_search_by_key(rowid, |(rowid, _)| *rowid);
        assert_eq!(found.as_ref(), there.ok().map(|index| &expected[index].1));
    }
    for (low, high) in [(2, 3), (5, 60), (i64::MIN, 40), (50, i64::MAX), (9, 8)] {
        let mut scanned = Vec::new();
        let mut scan = tree.scan(low..=high);
        while scan.next_leaf(pages, |rowid, _| scanned.push(rowid)).unwrap() {}
        let wanted = expected.iter().map(|(rowid, _)| *rowid);
        assert!(scanned.into_iter().eq(wanted.filter(|rowid| (low..=high).contains(rowid))));
    }
    let runs = tree.leaf_runs(pages, 64).unwrap();
    let mut leaf_rowids = Vec::new();
    for page in runs.into_iter().flatten() {
        let start = (page as usize - 1) * pages.page_bytes;
        let bytes = &pages.bytes[start..start + pages.page_bytes];
        let (mut long, mut here) = (Vec::new(), Vec::new());
        tree.visit_leaf(bytes, page, &mut long, |rowid, _| here.push(rowid)).unwrap();
        here.append(&mut long);
        here.sort_unstable();
        leaf_rowids.append(&mut here);
    }
    assert!(leaf_rowids.iter().eq(expected.iter().map(|(rowid, _)| rowid)));
}

fn insert(connection: &Connection, rowid: Option<i64>, values: &[Value]) {
    let marks = vec!["?"; values.len() + 1].join(",");
    let names: Vec<String> = (0..values.len()).map(|index| format!("c{index}")).collect();
    let sql = format!("INSERT OR REPLACE INTO t(rowid, {}) VALUES({marks})", names.join(","));
    let rowid = rowid.map_or(Value::Null, Value::Integer);
    let all = std::iter::once(&rowid).chain(values).map(to_sqlite);
    connection.prepare_cached(&sql).unwrap().execute(params_from_iter(all)).unwrap();
}

fn fill(connection: &Connection, count: u32, length_max: u64) {
    let mut rng = Rng::new(length_max);
    connection.execute_batch("BEGIN").unwrap();
    for _ in 0..count {
        let mut blob = vec![0; usize::try_from(rng.below(length_max)).unwrap()];
        rng.fill(&mut blob);
        insert(connection, None, &[Value::Integer(rng.next_u64() as i64 >> 20), Value::Blob(blob)]);
    }
    connection.execute_batch("COMMIT").unwrap();
}

#[test]
fn tables_of_every_page_size_are_read_with_their_overflow_pages() {
    for shift in 9..=16 {
        let rows = compare(|connection| {
            let page_bytes = 1 << shift;
            connection.pragma_update(None, "page_size", page_bytes).unwrap();
            connection.execute_batch("CREATE TABLE t(c0, c1)").unwrap();
            fill(connection, 400, page_bytes);
            fill(connection, 4, page_bytes * 5);
        });
        assert_eq!(rows.len(), 404);
    }
}

#[test]
fn what_surrounds_a_table_does_not_matter() {
    for vacuum in ["NONE", "FULL", "INCREMENTAL"] {
        let rows = compare(|connection| {
            connection.pragma_update(None, "auto_vacuum", vacuum).unwrap();
            connection
                .execute_batch(
                    "CREATE TABLE other(a, b); CREATE TABLE t(c0, c1); CREATE INDEX i ON t(c1);
                     CREATE VIEW v AS SELECT * FROM t;
                     CREATE TRIGGER r AFTER INSERT ON t BEGIN INSERT INTO other VALUES(1, 2); END",
                )
                .unwrap();
            fill(connection, 2000, 900);
            connection.execute_batch("DELETE FROM t WHERE rowid % 3 = 0 OR rowid < 700").unwrap();
            fill(connection, 50, 9000);
        });
        assert!(rows.len() > 800);
    }
}

#[test]
fn utf_16_comes_as_utf_8() {
    for encoding in ["UTF-16le", "UTF-16be"] {
        let texts = ["", "a", "\u{e4}\u{20ac}\u{1f600}", "\u{0}x"].map(Value::from);
        let rows = compare(|connection| {
            connection.pragma_update(None, "encoding", encoding).unwrap();
            connection
                .execute_batch("CREATE TABLE t(c0, c1, \"\u{fc}ber\" TEXT DEFAULT '\u{df}')")
                .unwrap();
            for text in &texts {
                insert(connection, None, &[text.clone(), Value::Blob(vec![1, 0])]);
            }
            insert(connection, None, &[Value::Text("\u{20ac}".repeat(9000)), Value::Null]);
        });
        assert_eq!(rows.len(), 5);
        assert!(rows.iter().zip(&texts).all(|((_, values), text)| values[0] == *text));
    }
}

#[test]
fn columns_that_came_later_have_their_defaults() {
    let rows = compare(|connection| {
        connection.execute_batch("CREATE TABLE t(c0 INTEGER PRIMARY KEY, c1 REAL)").unwrap();
        connection.execute_batch("INSERT INTO t VALUES(5, 2), (6, 2.5)").unwrap();
        for column in [
            "a",
            "b TEXT DEFAULT 'it''s'",
            "c INT DEFAULT -7",
            "d REAL NOT NULL DEFAULT 3",
            "e BLOB DEFAULT x'00ff'",
            "f TEXT DEFAULT 12",
            "g INTEGER DEFAULT '34'",
            "h NUMERIC DEFAULT +1.50e1",
            "i DEFAULT TRUE",
            "j DEFAULT NULL",
            "k VARCHAR(10, 2) DEFAULT \"quoted\" COLLATE NOCASE",
            "l DEFAULT 0x10 CHECK (l > 0)",
            "m TEXT DEFAULT 1.0",
            "n DEFAULT 9223372036854775808",
            "o DEFAULT -9223372036854775808",
            "p INT DEFAULT ' 12.0 '",
            "q TEXT DEFAULT 1e300",
            "r TEXT DEFAULT 123456789.125",
            "s TEXT DEFAULT -1.50",
            "t TEXT DEFAULT 0x10",
        ] {
            connection.execute_batch(&format!("ALTER TABLE t ADD COLUMN {column}")).unwrap();
        }
        connection.execute_batch("INSERT INTO t(c1) VALUES(3)").unwrap();
    });
    assert_eq!(rows[0].1[0], Value::Integer(5), "the rowid's alias");
    assert_eq!(rows[0].1[1], Value::Real(2.0));
}

#[test]
fn schemas_are_read_as_sqlite_reads_them() {
    for (sql, values) in [
        ("CREATE TABLE t(c0 INTEGER PRIMARY KEY, c1)", "(7, 1)"),
        ("CREATE TABLE t(c0 integer primary key autoincrement, c1)", "(7, 1)"),
        ("CREATE TABLE t(c0 INT PRIMARY KEY, c1)", "(7, 1)"),
        ("CREATE TABLE t(c0 INTEGER PRIMARY KEY DESC, c1)", "(7, 1)"),
        ("CREATE TABLE t(c0 INTEGER, c1, PRIMARY KEY(c0 DESC))", "(7, 1)"),
        ("CREATE TABLE t(c0, c1 INTEGER, CONSTRAINT k PRIMARY KEY(c1))", "(7, 1)"),
        ("CREATE TABLE t(c0 INTEGER, c1, PRIMARY KEY(c0, c1))", "(7, 1)"),
        ("CREATE TABLE t(c0 INTEGER NOT NULL CHECK(c0 > (1 + 2)) PRIMARY KEY, c1)", "(7, 1)"),
        ("CREATE TABLE t(c0 DECIMAL(10, 5) UNIQUE, c1, UNIQUE(c1, c0))", "(7.5, 1)"),
        ("CREATE TABLE t(c0 UNIQUE, c1 REFERENCES t(c0) ON DELETE CASCADE, CHECK(c0))", "(7, 7)"),
        ("CREATE TABLE \"t\" -- , (\n ([c0] /* ) */ REAL, `c1` \"double \"\"x\")", "(7, 1)"),
        ("CREATE TABLE t(c0 ANY, c1 TEXT) STRICT", "('1', 'x')"),
        ("CREATE TABLE t(c0 FLOATING POINT, c1 CHARINT)", "(1, '1')"),
        ("CREATE TABLE t(c0 INTEGER PRIMARY KEY, c1 AS (c0 * 2) STORED)", "(7)"),
        ("CREATE TABLE t(c0 INTEGER PRIMARY KEY, c1 REAL GENERATED ALWAYS AS (9) STORED)", "(7)"),
        ("CREATE TABLE t AS SELECT 1 AS c0, 2 AS c1 UNION SELECT 3, 4", ""),
    ] {
        compare(|connection| {
            connection.execute_batch(sql).unwrap();
            if !values.is_empty() {
                connection.execute_batch(&format!("INSERT INTO t VALUES{values}")).unwrap();
            }
        });
    }
}

#[test]
fn virtual_columns_are_not_listed() {
    let (_directory, path) =
        file_of("CREATE TABLE t(a, b AS (a + 1), c); INSERT INTO t VALUES(1, 3)");
    let pages = ForeignPages::read_from(&path);
    let (schema, tree) = pages.open().unwrap().table("t").unwrap();
    let names: Vec<&str> = schema.columns.iter().map(|column| &column.name[..]).collect();
    assert_eq!(names, ["a", "c"]);
    let rows = our_rows(&pages, &schema, &tree).unwrap();
    assert_eq!(rows, [(1, vec![Value::Integer(1), Value::Integer(3)])]);
}

fn file_of(sql: &str) -> (tempfile::TempDir, std::path::PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    Connection::open(&path).unwrap().execute_batch(sql).unwrap();
    (directory, path)
}

#[test]
fn what_is_no_rowid_table_is_named_in_the_error() {
    let (_directory, path) = file_of(
        "CREATE TABLE w(a PRIMARY KEY, b) WITHOUT ROWID; CREATE VIEW v AS SELECT 1;
         CREATE VIRTUAL TABLE d USING dbstat; CREATE TABLE t(a)",
    );
    let file = ForeignPages::read_from(&path).open().unwrap();
    for (name, word) in [("w", "WITHOUT ROWID"), ("v", "view"), ("d", "virtual"), ("x", "no table")]
    {
        let error = file.table(name).unwrap_err().to_string();
        assert!(error.contains(word) && error.contains(name), "{error}");
    }
    assert!(file.table("T").is_ok(), "names are compared as SQL does");
}

#[test]
fn a_log_beside_a_file_is_refused_until_it_is_checkpointed() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let wal = directory.path().join("x.db-wal");
    let check = |path: &Path| {
        let header = FileHeader::parse(&std::fs::read(path).unwrap(), "x.db").unwrap();
        let wal_bytes = std::fs::metadata(&wal).map_or(0, |file| file.len());
        check_beside(&header, wal_bytes, b"", "x.db")
    };
    let connection = Connection::open(&path).unwrap();
    connection
        .execute_batch("PRAGMA journal_mode=WAL; CREATE TABLE t(a); INSERT INTO t VALUES(1)")
        .unwrap();
    let error = check(&path).unwrap_err();
    assert!(error.to_string().contains("wal_checkpoint"), "{error}");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    check(&path).unwrap();
    let pages = ForeignPages::read_from(&path);
    let (schema, tree) = pages.open().unwrap().table("t").unwrap();
    assert_eq!(our_rows(&pages, &schema, &tree).unwrap().len(), 1);
}

fn any_value() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        (any::<i64>(), 0_u32..64).prop_map(|(number, shift)| Value::Integer(number >> shift)),
        (-1000_i32..1000).prop_map(|number| Value::Real(f64::from(number) / 4.0)),
        (-1e300_f64..1e300).prop_map(Value::Real),
        "[a-z0-9\u{e4}\u{20ac}]{0,40}".prop_map(Value::Text),
        proptest::collection::vec(any::<u8>(), 0..3000).prop_map(Value::Blob),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 80, ..ProptestConfig::default() })]

    #[test]
    fn random_schemas_and_rows_are_read_as_sqlite_does(
        types in proptest::collection::vec(0_usize..9, 1..12),
        rows in proptest::collection::vec(
            (any::<Option<i64>>(), proptest::collection::vec(any_value(), 12)), 0..80),
        page_shift in 9_u32..14, encoding in 0_usize..3,
    ) {
        compare(|connection| {
            let names = ["UTF-8", "UTF-16le", "UTF-16be"];
            connection.pragma_update(None, "page_size", 1 << page_shift).unwrap();
            connection.pragma_update(None, "encoding", names[encoding]).unwrap();
            let kinds =
                ["", "INT", "TEXT", "BLOB", "REAL", "NUMERIC", "VARCHAR(9)", "DOUBLE", "BOOLEAN"];
            let columns: Vec<String> =
                types.iter().enumerate().map(|(n, &kind)| format!("c{n} {}", kinds[kind])).collect();
            connection.execute_batch(&format!("CREATE TABLE t({})", columns.join(","))).unwrap();
            for (rowid, values) in &rows {
                // The rowid after the largest does not exist.
                let rowid = rowid.filter(|&rowid| rowid < i64::MAX / 2);
                insert(connection, rowid, &values[..types.len()]);
            }
        });
    }
}

/// A file with a tree of three levels, overflow chains and a freelist.
fn victim(page_bytes: u32) -> Vec<u8> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let connection = open_unsafe(&path);
    connection.pragma_update(None, "page_size", page_bytes).unwrap();
    connection.execute_batch("CREATE TABLE t(c0, c1)").unwrap();
    fill(&connection, 150, 300);
    fill(&connection, 5, 4000);
    drop(connection);
    std::fs::read(&path).unwrap()
}

/// Reads all that can be read; errors are welcome.
fn read_everything(bytes: Vec<u8>) -> Result<usize, StorageError> {
    let pages = ForeignPages::new(bytes);
    let file = pages.open()?;
    let (schema, tree) = file.table("t")?;
    let _ = tree.leaf_runs(&pages, 8);
    let _ = tree.last_rowid(&pages);
    let _ = tree.get_batch(&pages, &[-5, 1, 2, 70, 155, i64::MAX], |_, _| {});
    for rowid in [-1, 1, 60, 155] {
        let _ = tree.get(&pages, rowid, |record| record.column_count());
    }
    our_rows(&pages, &schema, &tree).map(|rows| rows.len())
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    let bytes = victim(512);
    assert_eq!(read_everything(bytes.clone()), Ok(155));
    for length in (0..bytes.len()).step_by(97) {
        assert!(read_everything(bytes[..length].to_vec()).is_err(), "cut at {length}");
    }
}

#[test]
fn cycles_in_trees_and_chains_end() {
    let bytes = victim(512);
    let page_count = u32::try_from(bytes.len() / 512).unwrap();
    for page in 1..page_count {
        for target in [page + 1, 1, 2, 3, page_count, page_count + 1, u32::MAX] {
            let at = page as usize * 512;
            let mut hostile = bytes.clone();
            let interior = hostile[at] == 0x05;
            let place = if interior { at + 8 } else { at };
            hostile[place..place + 4].copy_from_slice(&target.to_be_bytes());
            let _ = read_everything(hostile);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn damaged_files_never_panic(seed: u64, flips in 1_u64..40, random_page: bool) {
        thread_local! {
            static VICTIM: Vec<u8> = victim(512);
        }
        let mut bytes = VICTIM.with(Vec::clone);
        let mut rng = Rng::new(seed);
        for _ in 0..flips {
            // Most damage goes where the structure is: the start of a page, and page 1.
            let page = rng.below(bytes.len() as u64 / 512) * 512;
            let at = match rng.below(4) {
                0 => rng.below(512),
                1 => page + rng.below(64),
                _ => page + rng.below(512),
            };
            bytes[usize::try_from(at).unwrap()] = rng.next_u64().to_le_bytes()[0];
        }
        if random_page {
            let page = usize::try_from(1 + rng.below(bytes.len() as u64 / 512 - 1)).unwrap() * 512;
            rng.fill(&mut bytes[page + 8..page + 512]);
        }
        let _ = read_everything(bytes);
    }
}
