//! `PostgreSQL` of the system: its server in the control group beside its clients, who reach it over a socket;
//! transactions statement by statement, each prepared, or as functions in the server.
//!
//! 1. A commit is durable, and all is serializable; a server that is set otherwise is refused.
//! 2. All settings are those of initdb but the memory, the level of isolation, how many connections and predicate
//!    locks there is room for, and that rows are found by index: a scan of a small table is as cheap to the
//!    planner, but it has read all of it, so that whoever changes any of its rows is in the way.

use super::conditions;
use super::contender::{Session, Setting, Store};
use super::functions::{FunctionsClient, SCRIPT};
use super::libpq::{Answer, Connection, find};
use super::sql::{
    Connection as Client, Parameter, Row, SqlSession, Statements, Stop, is_rolled_back, is_writing,
};
use super::transactions::transact;
use crate::Failure;
use crate::postgresql::{Cluster, Server};
use crate::stock::failure_at;
use nandu_bench::tpcc::{Input, Output};
use nandu_load::{LoadError, Tpcc, TpccTable};
use nandu_storage::database::ColumnType;
use nandu_storage::sqlite::ValueRef;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};

/// Where rows lie until they are loaded.
const ROWS: &str = "rows";
/// Connections beside those of clients: of whoever asks for the conditions, and those that are kept for
/// whoever may do all.
const OTHER_CONNECTIONS: u32 = 8;
/// Room for what serializable transactions have read, for each connection. With the 64 that there are
/// by themselves eight clients run out of it.
const PREDICATE_LOCKS: u32 = 1024;
/// Columns that take more than 32 bits: sums of cents and moments.
const WIDE: [&str; 11] = [
    "w_ytd",
    "d_ytd",
    "c_since",
    "c_credit_lim",
    "c_balance",
    "c_ytd_payment",
    "h_date",
    "h_amount",
    "o_entry_d",
    "ol_delivery_d",
    "ol_amount",
];
/// What makes a commit durable and a transaction serializable, and how it has to stand.
const PROMISES: [(&str, &str); 4] = [
    ("fsync", "on"),
    ("full_page_writes", "on"),
    ("synchronous_commit", "on"),
    ("default_transaction_isolation", "serializable"),
];
/// What the server is asked at first; the answer follows from [`PROMISES`].
const ASK_PROMISES: &str = "SELECT current_setting('fsync'), current_setting('full_page_writes'),
     current_setting('synchronous_commit'), current_setting('default_transaction_isolation')";

/// How a client has a transaction done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Calls {
    /// Statement by statement.
    Statements,
    /// By one function.
    Functions,
}

struct Postgresql {
    server: Server,
    calls: Calls,
}

struct PostgresqlClient(Connection);

/// What is installed, server and library.
///
/// # Errors
/// If one of them is not.
pub(super) fn version() -> Result<String, Failure> {
    find()?;
    crate::postgresql::version()
}

/// Makes a cluster with the tables, their keys and the two indexes.
pub(super) fn load(directory: &Path, tpcc: &Tpcc) -> Result<(), Failure> {
    let cluster = Cluster::at(directory)?;
    cluster.make()?;
    let rows = directory.join(ROWS);
    crate::stock::make_directory(&rows)?;
    write_rows(&rows, tpcc)?;
    // What is loaded is copied and synced afterwards.
    let settings = ["fsync=off", "max_wal_size=4GB", "maintenance_work_mem=256MB"];
    let server = cluster.start(&settings.map(str::to_owned))?;
    let mut script = String::new();
    for &table in tables() {
        script.push_str(&new_table(table));
        let (name, file) = (table.name(), file_of(&rows, table));
        writeln!(script, "\\copy {name} from '{}'", file.display()).expect("a string takes it");
    }
    for &table in tables() {
        script.push_str(&key_of(table));
    }
    script.push_str(
        "CREATE INDEX customer_by_name ON customer (c_w_id, c_d_id, c_last, c_first, c_id);
         CREATE INDEX orders_by_customer ON orders (o_w_id, o_d_id, o_c_id, o_id);
         VACUUM (FREEZE, ANALYZE);
         CHECKPOINT;\n",
    );
    script.push_str(SCRIPT);
    server.sql(&script)?;
    server.stop()?;
    std::fs::remove_dir_all(&rows).map_err(|error| failure_at(&rows, &error))
}

/// The nine tables; indexes are no tables here.
fn tables() -> &'static [TpccTable] {
    &TpccTable::ALL[..9]
}

fn file_of(rows: &Path, table: TpccTable) -> PathBuf {
    rows.join(table.name())
}

fn new_table(table: TpccTable) -> String {
    let word = |name: &str, kind| match kind {
        ColumnType::Integer if WIDE.contains(&name) => "bigint",
        ColumnType::Integer => "integer",
        _ => "text",
    };
    let columns: Vec<String> = table
        .columns()
        .into_iter()
        .map(|column| {
            let null = if column.not_null { " NOT NULL" } else { "" };
            format!("{} {}{null}", column.name, word(&column.name, column.column_type))
        })
        .collect();
    format!("CREATE TABLE {} ({});\n", table.name(), columns.join(", "))
}

fn key_of(table: TpccTable) -> String {
    let names: Vec<String> = table.columns().into_iter().map(|it| it.name).collect();
    match table.key_column_count() {
        0 => String::new(),
        count => {
            let key = names[..count].join(", ");
            format!("ALTER TABLE {} ADD PRIMARY KEY ({key});\n", table.name())
        }
    }
}

/// All rows as lines of COPY, a file for each table. No text of TPC-C has a tab or a backslash.
fn write_rows(rows: &Path, tpcc: &Tpcc) -> Result<(), Failure> {
    let mut files = Vec::new();
    for &table in tables() {
        let path = file_of(rows, table);
        let file = File::create(&path).map_err(|error| failure_at(&path, &error))?;
        files.push((table, BufWriter::with_capacity(1 << 20, file)));
    }
    let mut line = Vec::new();
    let written = tpcc.rows(&mut |table, row| {
        let Some((_, file)) = files.iter_mut().find(|it| it.0 == table) else { return Ok(()) };
        line.clear();
        for (place, value) in row.iter().enumerate() {
            if place > 0 {
                line.push(b'\t');
            }
            match value {
                ValueRef::Integer(number) => line.extend(number.to_string().bytes()),
                ValueRef::Text(text) => line.extend_from_slice(text),
                _ => line.extend_from_slice(b"\\N"),
            }
        }
        line.push(b'\n');
        let fail = |error| LoadError::Write { file: table.name().to_owned(), error };
        file.write_all(&line).map_err(fail)
    });
    written.map_err(|error| Failure::Run(error.to_string()))?;
    files.iter_mut().try_for_each(|(_, file)| file.flush()).map_err(|it| failure_at(rows, &it))
}

pub(super) fn open(
    directory: &Path,
    setting: &Setting,
    calls: Calls,
) -> Result<Box<dyn Store>, Failure> {
    let settings = [
        format!("shared_buffers={}kB", setting.memory_bytes >> 10),
        format!("max_connections={}", setting.client_count + OTHER_CONNECTIONS),
        "default_transaction_isolation=serializable".to_owned(),
        format!("max_pred_locks_per_transaction={PREDICATE_LOCKS}"),
        "enable_seqscan=off".to_owned(),
    ];
    let server = Cluster::at(directory)?.start(&settings)?;
    let mut connection = Connection::open(server.directory())?;
    let mut rows = connection.run(ASK_PROMISES).map_err(told)?;
    let stand = rows.first_mut().map(|row| row.texts::<4>()).transpose().map_err(told)?;
    if stand.as_ref().is_none_or(|it| PROMISES.iter().zip(it).any(|(wanted, it)| wanted.1 != it)) {
        return Err(Failure::Engine(format!("postgresql: {PROMISES:?} stand at {stand:?}")));
    }
    Ok(Box::new(Postgresql { server, calls }))
}

/// What stopped somebody who is alone.
fn told(stop: Stop) -> Failure {
    match stop {
        Stop::Again => Failure::Engine("postgresql: a conflict, and nobody is there".to_owned()),
        Stop::Failed(failure) => failure,
    }
}

impl Postgresql {
    /// Asks something by itself.
    fn ask<T>(
        &self,
        ask: impl FnOnce(&mut dyn Statements) -> Result<T, Stop>,
    ) -> Result<T, Failure> {
        let mut connection = Connection::open(self.server.directory())?;
        // Its other processes would need memory that all of them share, of which there may be too little.
        connection.run("SET max_parallel_workers_per_gather = 0").map_err(told)?;
        // What asks for all rows scans them.
        connection.run("SET enable_seqscan = on").map_err(told)?;
        ask(&mut connection).map_err(told)
    }
}

impl Store for Postgresql {
    fn session(&self, number: u32) -> Result<Box<dyn Session + '_>, Failure> {
        let connection = Connection::open(self.server.directory())?;
        Ok(match self.calls {
            Calls::Statements => Box::new(SqlSession::new(PostgresqlClient(connection), number)),
            Calls::Functions => Box::new(SqlSession::new(FunctionsClient(connection), number)),
        })
    }

    fn broken_conditions(&self, tpcc: &Tpcc) -> Result<Vec<String>, Failure> {
        self.ask(|sql| conditions::broken(sql, tpcc))
    }

    fn order_count(&self) -> Result<u64, Failure> {
        self.ask(conditions::order_count)
    }

    fn close(self: Box<Self>) -> Result<(), Failure> {
        self.server.stop()
    }
}

impl Statements for Connection {
    fn rows(
        &mut self,
        statement: &'static str,
        parameters: &[Parameter<'_>],
    ) -> Result<Vec<Row>, Stop> {
        match self.ask(statement, parameters)? {
            Answer::Rows(rows) => Ok(rows),
            Answer::RolledBack(text) => Err(Failure::Engine(format!("postgresql: {text}")).into()),
        }
    }
}

impl PostgresqlClient {
    fn transact(&mut self, input: &Input) -> Result<Output, Stop> {
        let begin = if is_writing(input) { "BEGIN" } else { "BEGIN READ ONLY" };
        self.0.run(begin)?;
        let output = transact(&mut self.0, input)?;
        self.0.run(if is_rolled_back(&output) { "ROLLBACK" } else { "COMMIT" })?;
        Ok(output)
    }
}

impl Client for PostgresqlClient {
    fn attempt(&mut self, input: &Input) -> Result<Output, Stop> {
        let output = self.transact(input);
        if output.is_err() {
            // Where the commit failed there is nothing to roll back, of which it only warns.
            self.0.run("ROLLBACK")?;
        }
        output
    }
}
