//! Tables of random schemas, filled, changed and closed here: SQLite finds their files sound and reads
//! the same rows. The other direction is `crates/storage/tests/sqlite_files.rs`.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use nandu::{
    Column, ColumnType, Database, DatabaseOptions, Flow, Row, Settings, TableKind, Tables, Value,
    ValueRef, WriteTransaction,
};
use nandu_storage::engine::TornPages;
use proptest::prelude::*;
use rusqlite::types::Value as SqliteValue;
use rusqlite::{Connection, OpenFlags};
use std::collections::BTreeMap;
use std::path::Path;

/// Rows by their numbers.
type Model = BTreeMap<i64, Row>;

/// One step of a transaction. Values are drawn for more columns than a table has.
#[derive(Clone, Debug)]
enum Step {
    Insert(Row),
    /// Of the row with this place among those there are, counted round and round.
    Update(usize, Row),
    Delete(usize),
    /// Deletes a run of rows, so that pages become free.
    DeleteMany(usize, usize),
    Commit,
    Rollback,
}

/// How a run ends before SQLite looks.
#[derive(Clone, Copy, Debug)]
enum End {
    Close,
    /// The process ends without closing; the database is restarted and closed.
    Crash,
}

const COLUMN_COUNT_MAX: usize = 7;

fn column_type() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        Just(ColumnType::Integer),
        Just(ColumnType::Real),
        Just(ColumnType::Text),
        Just(ColumnType::Blob),
    ]
}

/// A value of each type; the column's own is taken.
#[derive(Clone, Debug)]
struct Draw {
    is_null: bool,
    integer: i64,
    real: f64,
    text: String,
    blob: Vec<u8>,
}

impl Draw {
    fn value(self, column: &Column) -> Value {
        match column.column_type {
            _ if self.is_null && !column.not_null => Value::Null,
            ColumnType::Integer => Value::Integer(self.integer),
            ColumnType::Real => Value::Real(self.real),
            ColumnType::Text => Value::Text(self.text),
            ColumnType::Blob => Value::Blob(self.blob),
        }
    }
}

fn draw() -> impl Strategy<Value = Draw> {
    let integer = (any::<i64>(), 0_u32..64).prop_map(|(number, shift)| number >> shift);
    let real = prop_oneof![
        any::<i32>().prop_map(f64::from),
        -1e300_f64..1e300,
        Just(f64::INFINITY),
        Just(5e-324),
    ];
    let text = prop_oneof![
        4 => "[a-z0-9\u{e4}\u{20ac}\u{0}\u{1f600}']{0,30}",
        1 => "[a-z]{1,9}".prop_map(|text| text.repeat(120)),
    ];
    let blob = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..60),
        1 => proptest::collection::vec(any::<u8>(), 400..1500),
    ];
    (prop::bool::weighted(0.2), integer, real, text, blob).prop_map(
        |(is_null, integer, real, text, blob)| Draw { is_null, integer, real, text, blob },
    )
}

/// Columns, their rows as drawn, and the steps.
fn runs() -> impl Strategy<Value = (Vec<Column>, Vec<Step>)> {
    proptest::collection::vec((column_type(), any::<bool>()), 1..=COLUMN_COUNT_MAX).prop_flat_map(
        |columns| {
            let names = ["id", "name", "a b", "select", "\u{fc}ber", "x\"y", "Order"];
            let columns: Vec<Column> = columns
                .into_iter()
                .zip(names)
                .map(|((column_type, not_null), name)| match not_null {
                    true => Column::new(name, column_type).not_null(),
                    false => Column::new(name, column_type),
                })
                .collect();
            let of_row = columns.clone();
            let values = proptest::collection::vec(draw(), columns.len());
            let row = values.prop_map(move |draws| -> Row {
                draws.into_iter().zip(&of_row).map(|(draw, column)| draw.value(column)).collect()
            });
            let row = row.boxed();
            let step = prop_oneof![
                12 => row.clone().prop_map(Step::Insert),
                4 => (any::<usize>(), row).prop_map(|(which, row)| Step::Update(which, row)),
                3 => any::<usize>().prop_map(Step::Delete),
                1 => (any::<usize>(), 1_usize..40)
                    .prop_map(|(which, count)| Step::DeleteMany(which, count)),
                2 => Just(Step::Commit),
                1 => Just(Step::Rollback),
            ];
            (Just(columns), proptest::collection::vec(step, 1..120))
        },
    )
}

fn options(page_bytes: u32, torn_pages: TornPages) -> DatabaseOptions {
    let page = u64::from(page_bytes);
    let settings = Settings {
        page_bytes,
        torn_pages,
        // Little enough that pages leave it, with room for the longest row.
        pool_bytes: (64 * page).max(256 << 10),
        checkpoint_bytes: (16 * page).max(64 << 10),
        log_bytes: (256 * page).max(4 << 20),
        ..Settings::default()
    };
    DatabaseOptions { settings, ..DatabaseOptions::default() }
}

fn refs(row: &Row) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

fn number_at(model: &Model, which: usize) -> Option<i64> {
    let count = model.len();
    (count > 0).then(|| *model.keys().nth(which % count).unwrap())
}

fn step(write: &mut WriteTransaction<'_>, model: &mut Model, step: &Step) {
    match step {
        Step::Insert(row) => {
            let number = write.insert("t", &refs(row)).unwrap();
            assert!(model.insert(number, row.clone()).is_none());
        }
        Step::Update(which, row) => {
            let Some(number) = number_at(model, *which) else { return };
            write.update("t", number, &refs(row)).unwrap();
            model.insert(number, row.clone());
        }
        Step::Delete(which) => {
            let Some(number) = number_at(model, *which) else { return };
            write.delete("t", number).unwrap();
            model.remove(&number);
        }
        Step::DeleteMany(which, count) => {
            let Some(first) = number_at(model, *which) else { return };
            let numbers: Vec<i64> = model.range(first..).map(|(&n, _)| n).take(*count).collect();
            for number in numbers {
                write.delete("t", number).unwrap();
                model.remove(&number);
            }
        }
        Step::Commit | Step::Rollback => unreachable!("they are the caller's"),
    }
}

/// Makes the table and does the steps. What was committed last comes back.
fn run(database: &Database, columns: &[Column], steps: &[Step], end: End) -> Model {
    let mut write = database.write().unwrap();
    write.create_table("t", columns.to_vec(), TableKind::Heap).unwrap();
    // Long keys do not fit a small page.
    let is_short =
        |column: &&Column| matches!(column.column_type, ColumnType::Integer | ColumnType::Real);
    if let Some(column) = columns.iter().find(is_short) {
        write.create_index("t", "by_number", &[&column.name]).unwrap();
    }
    write.commit().unwrap();
    let mut committed = Model::new();
    let mut model = Model::new();
    let mut write = Some(database.write().unwrap());
    for one in steps {
        match one {
            Step::Commit => {
                write.take().unwrap().commit().unwrap();
                write = Some(database.write().unwrap());
                committed = model.clone();
            }
            Step::Rollback => {
                write.take().unwrap().rollback().unwrap();
                write = Some(database.write().unwrap());
                model = committed.clone();
            }
            other => step(write.as_mut().unwrap(), &mut model, other),
        }
    }
    // What is not committed is rolled back, at once or by the restart.
    match end {
        End::Close => drop(write),
        End::Crash => write.into_iter().for_each(WriteTransaction::abandon),
    }
    committed
}

fn rows(tables: &Tables) -> Model {
    let mut rows = Model::new();
    let keep = |number, row: nandu::RecordView<'_>| {
        rows.insert(number, row.columns().map(ValueRef::to_value).collect());
        Flow::Continue(())
    };
    tables.scan("t", keep).unwrap();
    rows
}

/// What SQLite makes of the file: nothing to complain about, and these rows.
fn rows_of_sqlite(file: &Path, columns: &[Column]) -> Model {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY;
    let connection = Connection::open_with_flags(file, flags).unwrap();
    let verdict: String =
        connection.query_row("PRAGMA integrity_check", [], |row| row.get(0)).unwrap();
    assert_eq!(verdict, "ok");
    let mut statement = connection.prepare("SELECT rowid, * FROM t ORDER BY rowid").unwrap();
    let names: Vec<String> = columns.iter().map(|column| column.name.clone()).collect();
    assert_eq!(statement.column_names()[1..], names);
    let count = columns.len();
    let found = statement.query_map([], |row| {
        let value = |index| match row.get(index).unwrap() {
            SqliteValue::Null => Value::Null,
            SqliteValue::Integer(number) => Value::Integer(number),
            SqliteValue::Real(number) => Value::Real(number),
            SqliteValue::Text(text) => Value::Text(text),
            SqliteValue::Blob(bytes) => Value::Blob(bytes),
        };
        Ok((row.get(0)?, (1..=count).map(value).collect()))
    });
    found.unwrap().map(Result::unwrap).collect()
}

fn check(columns: &[Column], steps: &[Step], options: &DatabaseOptions, end: End) {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("db");
    let mut database = nandu::create_database(&directory, options).unwrap();
    let wanted = run(&database, columns, steps, end);
    if let End::Crash = end {
        drop(database);
        let (opened, report) = nandu::open_database(&directory, options).unwrap();
        assert!(!report.was_closed);
        database = opened;
    }
    assert_eq!(rows(&database.read()), wanted);
    assert_eq!(database.read().check().unwrap().findings, [""; 0]);
    database.close().unwrap();
    assert_eq!(rows_of_sqlite(&directory.join("t.sqlite"), columns), wanted);
    // SQLite changed nothing that we would mind.
    let (database, report) = nandu::open_database(&directory, options).unwrap();
    assert!(report.was_closed);
    assert_eq!(database.read().check().unwrap().findings, [""; 0]);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn random_tables_changed_here_are_sound_to_sqlite_with_the_same_rows(
        (columns, steps) in runs(),
        page_shift in 9_u32..=16,
        has_images: bool,
        is_crash: bool,
    ) {
        let torn_pages = if has_images { TornPages::LogImages } else { TornPages::DoubleWrite };
        let end = if is_crash { End::Crash } else { End::Close };
        check(&columns, &steps, &options(1 << page_shift, torn_pages), end);
    }
}

/// Enough rows for trees of several levels, with rows on overflow pages and pages that become free.
#[test]
fn large_tables_of_every_page_size_are_sound_to_sqlite_after_a_close_and_after_a_crash() {
    let columns =
        [Column::new("id", ColumnType::Integer), Column::new("x", ColumnType::Blob).not_null()];
    for page_shift in 9..=16 {
        let mut rng = nandu_base::Rng::for_part(page_shift, "sqlite reads us");
        let row = |id: i64, rng: &mut nandu_base::Rng| {
            let length = rng.below(if id % 40 == 0 { 3 << page_shift } else { 120 });
            vec![Value::Integer(id), Value::Blob(vec![7; nandu_base::to_index(length)])]
        };
        let mut steps: Vec<Step> = Vec::new();
        for id in 1..=1500 {
            steps.push(Step::Insert(row(id, &mut rng)));
            let which = nandu_base::to_index(rng.below(2000));
            match id % 100 {
                0 if id % 500 == 300 => steps.push(Step::Rollback),
                0 => steps.push(Step::Commit),
                50 => steps.push(Step::DeleteMany(which, 40)),
                nth if nth % 3 == 0 => steps.push(Step::Update(which, row(-id, &mut rng))),
                _ => {}
            }
        }
        for end in [End::Close, End::Crash] {
            check(&columns, &steps, &options(1 << page_shift, TornPages::default()), end);
        }
    }
}

#[test]
fn what_sqlite_writes_into_a_heap_is_refused_and_a_copy_of_the_heap_takes_it() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("db");
    let options = options(4096, TornPages::default());
    let database = nandu::create_database(&directory, &options).unwrap();
    let columns = [Column::new("id", ColumnType::Integer)];
    let insert = Step::Insert(vec![Value::Integer(7)]);
    run(&database, &columns, &[insert, Step::Commit], End::Close);
    database.close().unwrap();
    let (file, copy) = (directory.join("t.sqlite"), place.path().join("copy.sqlite"));
    std::fs::copy(&file, &copy).unwrap();
    for file in [&copy, &file] {
        Connection::open(file).unwrap().execute_batch("UPDATE t SET id = 8").unwrap();
        let changed = rows_of_sqlite(file, &columns);
        assert_eq!(changed.into_values().collect::<Vec<Row>>(), [[Value::Integer(8)]]);
    }
    let said = nandu::open_database(&directory, &options).unwrap_err().to_string();
    assert_eq!(said, "page 1 of t.sqlite does not match its checksum; restore it from a copy");
}

#[test]
fn the_file_of_a_heap_in_a_log_structured_database_is_empty() {
    let place = tempfile::tempdir().unwrap();
    let directory = place.path().join("db");
    let mut options = options(4096, TornPages::Trust);
    options.settings.propagation =
        nandu_storage::propagation::PropagationKind::LogStructured.into();
    let database = nandu::create_database(&directory, &options).unwrap();
    let columns = [Column::new("id", ColumnType::Integer)];
    let insert = Step::Insert(vec![Value::Integer(7)]);
    run(&database, &columns, &[insert, Step::Commit], End::Close);
    database.close().unwrap();
    assert_eq!(std::fs::metadata(directory.join("t.sqlite")).unwrap().len(), 0);
    let (database, _) = nandu::open_database(&directory, &options).unwrap();
    assert_eq!(rows(&database.read()).len(), 1);
}
