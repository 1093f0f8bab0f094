//! SQLite, linked into this program: a file with a write-ahead log, each commit synced, a connection that writes
//! and, where there are several clients, one for each to read.
//!
//! 1. A table is a tree by its key (`WITHOUT ROWID`), as ours are; the two indexes are SQLite's own.
//! 2. Half of the cache is the writing connection's, the other half is divided among those that read; one client
//!    has one connection and all of it.
//! 3. Clients take turns at the connection that writes: each one forgets its pages when another one has
//!    committed, so a connection for each to write would read them again. To wait for one another is cheaper
//!    than the library's way, which is to sleep. One that only reads needs no turn: it has a snapshot.

use super::conditions;
use super::contender::{Session, Setting, Store};
use super::sql::{
    Cell, Connection as Client, Parameter, Row, SqlSession, Statements, Stop, is_rolled_back,
    is_writing,
};
use super::transactions::transact;
use crate::Failure;
use nandu_bench::tpcc::{Input, Output};
use nandu_load::{LoadError, Tpcc, TpccTable};
use nandu_storage::database::ColumnType;
use nandu_storage::sqlite::ValueRef;
use rusqlite::types::{ToSqlOutput, ValueRef as Stored};
use rusqlite::{Connection, ErrorCode, ToSql, params_from_iter};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

pub(super) const FILE: &str = "tpcc.sqlite";
/// Log between two checkpoints, in pages of 4 KiB: as much as ours, four times as much as by itself.
const CHECKPOINT_PAGES: u32 = 4096;
/// More statements than there are.
const STATEMENT_COUNT_MAX: usize = 128;
/// Far longer than anybody has to wait who has the turn.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);
/// `synchronous=FULL` as SQLite tells it.
const FULL: i64 = 2;

const INDEXES: &str = "
    CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first, c_id);
    CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);";

struct Sqlite {
    path: PathBuf,
    /// Of all connections together.
    cache_kib: u64,
    client_count: u32,
    writer: Mutex<Connection>,
}

struct SqliteClient<'a> {
    /// None where one client reads and writes.
    reader: Option<Connection>,
    writer: &'a Mutex<Connection>,
}

/// What a transaction is to be.
const READ: &str = "BEGIN";
const WRITE: &str = "BEGIN IMMEDIATE";

pub(super) fn version() -> String {
    format!("SQLite {}", rusqlite::version())
}

fn failure(error: rusqlite::Error) -> Failure {
    Failure::Engine(format!("sqlite: {error}"))
}

/// Whether others were in the way.
fn stop(error: rusqlite::Error) -> Stop {
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => Stop::Again,
        _ => Stop::Failed(failure(error)),
    }
}

/// Makes the tables without a journal, then switches to a write-ahead log for good.
pub(super) fn load(directory: &Path, tpcc: &Tpcc) -> Result<(), Failure> {
    crate::stock::make_directory(directory)?;
    let connection = Connection::open(directory.join(FILE)).map_err(failure)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_COUNT_MAX);
    set(
        &connection,
        "PRAGMA journal_mode=OFF; PRAGMA synchronous=OFF; PRAGMA cache_size=-262144;",
    )?;
    connection.execute_batch("BEGIN").map_err(failure)?;
    for &table in tables() {
        connection.execute_batch(&new_table(table)).map_err(failure)?;
    }
    let inserts = tables().iter().map(|&table| insert_into(table)).collect::<Vec<_>>();
    let fail = |error: rusqlite::Error| LoadError::Invalid { what: format!("sqlite: {error}") };
    let stored = tpcc.rows(&mut |table, row| {
        let Some(place) = tables().iter().position(|it| *it == table) else { return Ok(()) };
        let mut statement = connection.prepare_cached(&inserts[place]).map_err(fail)?;
        statement.execute(params_from_iter(row.iter().map(Given))).map_err(fail)?;
        Ok(())
    });
    stored.map_err(|error| Failure::Engine(error.to_string()))?;
    connection.execute_batch(INDEXES).map_err(failure)?;
    connection.execute_batch("COMMIT").map_err(failure)?;
    set(&connection, "PRAGMA journal_mode=WAL")?;
    connection.close().map_err(|(_, error)| failure(error))
}

/// The nine tables; indexes are no tables here.
fn tables() -> &'static [TpccTable] {
    &TpccTable::ALL[..9]
}

fn new_table(table: TpccTable) -> String {
    let word = |kind| if kind == ColumnType::Integer { "INTEGER" } else { "TEXT" };
    let mut parts: Vec<String> = Vec::new();
    for column in table.columns() {
        let null = if column.not_null { " NOT NULL" } else { "" };
        parts.push(format!("{} {}{null}", column.name, word(column.column_type)));
    }
    let names: Vec<String> = table.columns().into_iter().map(|it| it.name).collect();
    let count = table.key_column_count();
    if count > 0 {
        parts.push(format!("PRIMARY KEY ({})", names[..count].join(", ")));
    }
    // A key that is one number is the number of the row.
    let kind = if count > 1 { " WITHOUT ROWID" } else { "" };
    format!("CREATE TABLE {} ({}){kind}", table.name(), parts.join(", "))
}

fn insert_into(table: TpccTable) -> String {
    let marks = vec!["?"; table.columns().len()].join(", ");
    format!("INSERT INTO {} VALUES ({marks})", table.name())
}

/// A value of a row that is loaded.
struct Given<'a>(&'a ValueRef<'a>);

impl ToSql for Given<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            ValueRef::Integer(number) => Stored::Integer(*number),
            ValueRef::Real(number) => Stored::Real(*number),
            ValueRef::Text(text) => Stored::Text(text),
            ValueRef::Blob(bytes) => Stored::Blob(bytes),
            _ => Stored::Null,
        }))
    }
}

impl ToSql for Parameter<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self {
            Self::Integer(number) => Stored::Integer(*number),
            Self::Text(text) => Stored::Text(text.as_bytes()),
        }))
    }
}

/// Runs pragmas, whose answers are not looked at.
fn set(connection: &Connection, pragmas: &str) -> Result<(), Failure> {
    for pragma in pragmas.split(';').map(str::trim).filter(|it| !it.is_empty()) {
        let mut statement = connection.prepare(pragma).map_err(failure)?;
        let mut rows = statement.query([]).map_err(failure)?;
        while rows.next().map_err(failure)?.is_some() {}
    }
    Ok(())
}

pub(super) fn open(directory: &Path, setting: &Setting) -> Result<Box<dyn Store>, Failure> {
    let cache_kib = setting.memory_bytes >> 10;
    let (path, client_count) = (directory.join(FILE), setting.client_count);
    let of_writer = if client_count > 1 { cache_kib / 2 } else { cache_kib };
    let writer = Mutex::new(connect(&path, of_writer)?);
    Ok(Box::new(Sqlite { path, cache_kib, client_count, writer }))
}

/// A connection that syncs each commit.
fn connect(path: &Path, cache_kib: u64) -> Result<Connection, Failure> {
    let connection = Connection::open(path).map_err(failure)?;
    connection.busy_timeout(BUSY_TIMEOUT).map_err(failure)?;
    connection.set_prepared_statement_cache_capacity(STATEMENT_COUNT_MAX);
    set(
        &connection,
        &format!(
            "PRAGMA synchronous=FULL; PRAGMA cache_size=-{cache_kib};
             PRAGMA wal_autocheckpoint={CHECKPOINT_PAGES}"
        ),
    )?;
    let mode: String =
        connection.query_row("PRAGMA journal_mode", [], |row| row.get(0)).map_err(failure)?;
    let level: i64 =
        connection.query_row("PRAGMA synchronous", [], |row| row.get(0)).map_err(failure)?;
    match (mode.as_str(), level) {
        ("wal", FULL) => Ok(connection),
        _ => Err(Failure::Engine(format!("sqlite: journal_mode={mode}, synchronous={level}"))),
    }
}

impl Sqlite {
    /// Asks something by itself, with all of the cache.
    fn ask<T>(
        &self,
        ask: impl FnOnce(&mut dyn Statements) -> Result<T, Stop>,
    ) -> Result<T, Failure> {
        let mut connection = connect(&self.path, self.cache_kib)?;
        ask(&mut connection).map_err(told)
    }
}

/// What stopped somebody who is alone.
fn told(stop: Stop) -> Failure {
    match stop {
        Stop::Again => Failure::Engine("sqlite: busy, and nobody is there".to_owned()),
        Stop::Failed(failure) => failure,
    }
}

impl Store for Sqlite {
    fn session(&self, number: u32) -> Result<Box<dyn Session + '_>, Failure> {
        let count = u64::from(self.client_count);
        let reader = (count > 1).then(|| connect(&self.path, self.cache_kib / 2 / count));
        let client = SqliteClient { reader: reader.transpose()?, writer: &self.writer };
        Ok(Box::new(SqlSession::new(client, number)))
    }

    fn broken_conditions(&self, tpcc: &Tpcc) -> Result<Vec<String>, Failure> {
        self.ask(|sql| conditions::broken(sql, tpcc))
    }

    fn order_count(&self) -> Result<u64, Failure> {
        self.ask(conditions::order_count)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        // The last connection to go makes a checkpoint and takes the log away.
        let writer = self.writer.into_inner().unwrap_or_else(PoisonError::into_inner);
        writer.close().map_err(|(_, error)| failure(error))
    }
}

impl Statements for Connection {
    fn rows(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Stop> {
        // `$1` is a name to SQLite, whose numbers follow from where it stands first; `?1` is the number 1.
        let mut prepared = self.prepare_cached(&statement.replace('$', "?")).map_err(stop)?;
        let count = prepared.column_count();
        let mut rows = prepared.query(params_from_iter(parameters)).map_err(stop)?;
        let mut found = Vec::new();
        while let Some(row) = rows.next().map_err(stop)? {
            let cell = |place| {
                Ok(match row.get_ref(place).map_err(stop)? {
                    Stored::Integer(number) => Cell::Integer(number),
                    Stored::Text(text) => Cell::Text(String::from_utf8_lossy(text).into_owned()),
                    _ => Cell::Null,
                })
            };
            let cells = (0..count).map(cell).collect::<Result<Vec<_>, Stop>>()?;
            found.push(Row(cells.into_iter()));
        }
        Ok(found)
    }
}

/// A transaction, to its end.
fn run(connection: &mut Connection, begin: &'static str, input: &Input) -> Result<Output, Stop> {
    connection.rows(begin, &[])?;
    let output = transact(connection, input).and_then(|output| {
        let end = if is_rolled_back(&output) { "ROLLBACK" } else { "COMMIT" };
        connection.rows(end, &[])?;
        Ok(output)
    });
    if output.is_err() && !connection.is_autocommit() {
        connection.rows("ROLLBACK", &[])?;
    }
    output
}

impl Client for SqliteClient<'_> {
    fn attempt(&mut self, input: &Input) -> Result<Output, Stop> {
        let is_writing = is_writing(input);
        if let Some(reader) = self.reader.as_mut().filter(|_| !is_writing) {
            return run(reader, READ, input);
        }
        let mut writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner);
        run(&mut writer, if is_writing { WRITE } else { READ }, input)
    }
}
