//! Files that SQLite itself wrote, and what lies beside them.

use super::*;
use rusqlite::Connection;
use std::path::PathBuf;
use tempfile::TempDir;

fn file_of(sql: &str) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("x.db");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA synchronous = OFF").unwrap();
    connection.execute_batch(sql).unwrap();
    (directory, path)
}

fn all(source: &mut SqliteRows) -> Result<Vec<Vec<Value>>, LoadError> {
    let mut rows = Vec::new();
    let mut keep = |row: &[ValueRef<'_>]| {
        rows.push(row.iter().map(|value| value.to_value()).collect());
        Ok(())
    };
    while source.next_rows(&mut keep)? {}
    Ok(rows)
}

fn types_of(source: &SqliteRows) -> Vec<ColumnType> {
    source.columns().iter().map(|column| column.column_type).collect()
}

fn complaint(path: &Path, table: &str, types: &[(&str, ColumnType)]) -> String {
    let types: Vec<(String, ColumnType)> =
        types.iter().map(|&(name, column_type)| (name.to_owned(), column_type)).collect();
    match SqliteRows::open(path, table, &types) {
        Err(error) => error.to_string(),
        Ok(mut source) => all(&mut source).unwrap_err().to_string(),
    }
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

use ColumnType::{Blob, Integer, Real, Text};

#[test]
fn every_kind_of_value_arrives_in_every_page_size_and_encoding() {
    // Each integer of a serial type of its own, texts and blobs that end on their page and not.
    let numbers = [0, 1, -1, 127, -128, 32_767, -8_388_608, 1 << 31, 1 << 47, i64::MIN, i64::MAX];
    for (page_bytes, encoding) in [
        (512, "UTF-8"),
        (1024, "UTF-16le"),
        (4096, "UTF-16be"),
        (8192, "UTF-8"),
        (16_384, "UTF-16le"),
        (65_536, "UTF-8"),
    ] {
        let (_directory, path) = file_of(&format!(
            "PRAGMA page_size = {page_bytes}; PRAGMA encoding = '{encoding}';
             CREATE TABLE other(x); CREATE TABLE t(id INTEGER PRIMARY KEY, n, r REAL, s, b);"
        ));
        let connection = Connection::open(&path).unwrap();
        let mut wanted = Vec::new();
        for (index, &number) in numbers.iter().enumerate() {
            let long = if index % 4 == 3 { 3 * page_bytes } else { 5 * index };
            let (s, b) = ("ä€\u{1f600}x".repeat(long / 4), vec![7_u8; long]);
            let r = f64::from(u32::try_from(index).unwrap());
            connection
                .execute("INSERT INTO t(n, r, s, b) VALUES(?, ?, ?, ?)", (number, r, &s, &b))
                .unwrap();
            let id = Value::Integer(i64::try_from(index + 1).unwrap());
            let (s, b) = (Value::Text(s), Value::Blob(b));
            wanted.push(vec![id, Value::Integer(number), Value::Real(r), s, b]);
        }
        connection.execute_batch("INSERT INTO t(id) VALUES(99)").unwrap();
        let nulls = [Value::Integer(99), Value::Null, Value::Null, Value::Null, Value::Null];
        wanted.push(nulls.to_vec());
        drop(connection);
        let mut source = SqliteRows::open(&path, "T", &[]).unwrap();
        assert_eq!(types_of(&source), [Integer, Integer, Real, Text, Blob]);
        assert_eq!(source.table(), "t");
        assert_eq!(all(&mut source).unwrap(), wanted, "{page_bytes} {encoding}");
        assert_eq!(source.fraction(), 1.0);
    }
}

#[test]
fn a_column_has_the_type_that_all_its_values_have() {
    let (_directory, path) = file_of(
        "CREATE TABLE t(a DECIMAL(9, 2), b DATETIME, c, d INT, e BLOB, f NUMERIC, g VARCHAR(9));
         INSERT INTO t VALUES(1, '2024-05-06', x'00ff', 2.5, NULL, NULL, NULL),
                             (2.25, NULL, x'', 7, NULL, NULL, NULL);
         ALTER TABLE t ADD COLUMN h TEXT DEFAULT 'new';
         CREATE TABLE empty(a, b INT)",
    );
    let mut source = SqliteRows::open(&path, "t", &[]).unwrap();
    assert_eq!(types_of(&source), [Real, Text, Blob, Real, Blob, Real, Text, Text]);
    let rows = all(&mut source).unwrap();
    // What is to be a real is converted by the table.
    assert_eq!(rows[0][..2], [Value::Integer(1), text("2024-05-06")]);
    assert_eq!(rows[1][7], text("new"), "the default of a column that came later");
    let mut empty = SqliteRows::open(&path, "empty", &[]).unwrap();
    assert_eq!(types_of(&empty), [Blob, Integer]);
    assert_eq!(all(&mut empty).unwrap(), Vec::<Vec<Value>>::new());
}

#[test]
fn a_column_without_a_common_type_takes_one_by_name_or_is_refused() {
    let (_directory, path) = file_of(
        "CREATE TABLE t(a, b, c, d);
         INSERT INTO t VALUES(1, 9007199254740993, 'x', ' 12 '), ('two', 0.5, x'01', 2.0),
                             (3.5, 7, CAST(x'80' AS TEXT), NULL)",
    );
    let said = complaint(&path, "t", &[]);
    assert!(said.contains("x.db, table t, column a: it holds integers (row 1), reals (row 3)"));
    assert!(said.contains("texts (row 2)") && said.contains("text takes numbers"), "{said}");
    let said = complaint(&path, "t", &[("a", Text), ("c", Blob), ("d", Text)]);
    let held =
        "column b: it holds integers (row 3), integers that are no doubles (row 1), reals (row 2)";
    assert!(said.contains(held), "{said}");
    let said = complaint(&path, "t", &[("a", Text), ("b", Real), ("c", Blob), ("d", Text)]);
    assert!(said.contains("row 1, column b: `9007199254740993` is no real exactly"), "{said}");
    let named = |a, d| [("a", a), ("b", Text), ("c", Blob), ("d", d)];
    let all_named = named(Text, Integer).map(|(name, wanted)| (name.to_owned(), wanted));
    let mut source = SqliteRows::open(&path, "t", &all_named).unwrap();
    assert_eq!(types_of(&source), [Text, Text, Blob, Integer]);
    let rows = all(&mut source).unwrap();
    let blob = |bytes: &[u8]| Value::Blob(bytes.to_vec());
    let first = [text("1"), text("9007199254740993"), blob(b"x"), Value::Integer(12)];
    assert_eq!(rows[0], first);
    assert_eq!(rows[1], [text("two"), text("0.5"), blob(&[1]), Value::Integer(2)]);
    assert_eq!(rows[2], [text("3.5"), text("7"), blob(&[0x80]), Value::Null]);
    let said = complaint(&path, "t", &named(Integer, Integer));
    assert!(said.contains("table t, row 2, column a: `two` is no integer"), "{said}");
    let said = complaint(&path, "t", &[("a", Text), ("b", Text), ("c", Text), ("d", Text)]);
    assert!(said.contains("row 2, column c: a blob of 1 byte is no text"), "{said}");
    let said = complaint(&path, "t", &[("a", Text), ("A", Integer)]);
    assert!(said.contains("the type of column A is given twice"), "{said}");
    let said = complaint(&path, "t", &[("nothing", Text)]);
    assert!(said.contains("it has no column nothing; its columns are a, b, c, d"), "{said}");
}

#[test]
fn text_that_is_not_utf_8_is_refused_by_its_row() {
    let (_directory, path) =
        file_of("CREATE TABLE t(a TEXT); INSERT INTO t VALUES('x'), (CAST(x'80' AS TEXT))");
    let said = complaint(&path, "t", &[]);
    assert!(said.contains("column a: it holds texts (row 1), texts that are not UTF-8 (row 2)"));
    let said = complaint(&path, "t", &[("a", Text)]);
    assert!(said.contains("row 2, column a") && said.contains("blob takes its bytes"), "{said}");
}

#[test]
fn what_cannot_be_read_is_refused_by_name() {
    let (directory, path) = file_of(
        "CREATE TABLE a(x); CREATE TABLE b(x INTEGER PRIMARY KEY AUTOINCREMENT);
         INSERT INTO b VALUES(5); CREATE VIEW v AS SELECT 1;
         CREATE TABLE w(x PRIMARY KEY) WITHOUT ROWID",
    );
    assert_eq!(SqliteRows::tables(&path).unwrap(), ["a", "b", "w"]);
    let said = complaint(&path, "c", &[]);
    assert!(said.ends_with("x.db: it has no table c; its tables are a, b, w"), "{said}");
    for (table, word) in [("v", "a view"), ("w", "WITHOUT ROWID")] {
        let said = complaint(&path, table, &[]);
        assert!(said.contains(word) && said.contains("x.db"), "{said}");
    }
    for (bytes, word) in [
        (&b""[..], "it is no SQLite file: it has 0 bytes"),
        (b"id,name\n1,Ida\n", "it is no SQLite file: it has 14 bytes"),
        (&[b'P'; 4096], "it is no SQLite file: it does not start"),
    ] {
        let other = directory.path().join("other");
        std::fs::write(&other, bytes).unwrap();
        let said = complaint(&other, "a", &[]);
        assert!(said.contains("other: ") && said.contains(word), "{said}");
    }
    let said = complaint(&directory.path().join("none"), "a", &[]);
    assert!(said.starts_with("cannot read ") && said.contains("none"), "{said}");
    let said = complaint(directory.path(), "a", &[]);
    assert!(said.contains("it is no file, and this format is read back and forth"), "{said}");
}

#[test]
fn damage_is_told_with_file_and_page() {
    let (_directory, path) = file_of(
        "PRAGMA page_size = 512; CREATE TABLE t(a);
         WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
         INSERT INTO t SELECT 'some text' || i FROM n",
    );
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 512]).unwrap();
    let said = complaint(&path, "t", &[]);
    assert!(said.contains("x.db: it is damaged, it is cut off"), "{said}");
    let mut damaged = bytes.clone();
    damaged[4 * 512] = 0;
    std::fs::write(&path, damaged).unwrap();
    let said = complaint(&path, "t", &[]);
    assert!(said.contains("x.db: it is damaged, page 5: it is no page of a tree"), "{said}");
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(all(&mut SqliteRows::open(&path, "t", &[]).unwrap()).unwrap().len(), 500);
}

#[test]
fn a_write_ahead_log_is_refused_until_it_is_checkpointed() {
    let (_directory, path) = file_of("CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    let connection = Connection::open(&path).unwrap();
    connection.execute_batch("PRAGMA journal_mode = WAL; INSERT INTO t VALUES(2)").unwrap();
    let said = complaint(&path, "t", &[]);
    assert!(said.contains("x.db-wal") && said.contains("wal_checkpoint(TRUNCATE)"), "{said}");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let mut source = SqliteRows::open(&path, "t", &[]).unwrap();
    // A writer that comes in between puts its row beside the file.
    connection.execute_batch("INSERT INTO t VALUES(3)").unwrap();
    let said = all(&mut source).unwrap_err().to_string();
    assert!(said.contains("x.db: it was changed while it was read"), "{said}");
}

#[test]
fn a_file_that_changes_while_it_is_read_is_refused() {
    let (_directory, path) = file_of("CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    let mut source = SqliteRows::open(&path, "t", &[]).unwrap();
    Connection::open(&path).unwrap().execute_batch("UPDATE t SET a = 2").unwrap();
    let said = all(&mut source).unwrap_err().to_string();
    assert!(said.contains("x.db: it was changed while it was read"), "{said}");
}

#[test]
fn the_journal_of_a_writer_that_died_is_refused() {
    let (directory, path) = file_of("CREATE TABLE t(a); INSERT INTO t VALUES(1)");
    let connection = Connection::open(&path).unwrap();
    // Without syncs the journal says from the start that it counts.
    connection.execute_batch("PRAGMA synchronous = OFF; BEGIN; UPDATE t SET a = 2").unwrap();
    let copy = directory.path().join("copy.db");
    std::fs::copy(&path, &copy).unwrap();
    std::fs::copy(directory.path().join("x.db-journal"), directory.path().join("copy.db-journal"))
        .unwrap();
    connection.execute_batch("ROLLBACK").unwrap();
    let said = complaint(&copy, "t", &[]);
    assert!(said.contains("copy.db-journal; open it with sqlite3 once"), "{said}");
    // Which mends it.
    Connection::open(&copy).unwrap().query_row("SELECT a FROM t", [], |_| Ok(())).unwrap();
    let mut source = SqliteRows::open(&copy, "t", &[]).unwrap();
    assert_eq!(all(&mut source).unwrap(), [[Value::Integer(1)]]);
}
