//! `nandu db`: makes, fills, reads and checks a database in a directory.
//!
//! ```text
//!   here: arguments, create, index, check, stat      change: rows and tables come and go
//!   load: the rows of a file of lines                read:   get, scan, export
//!   text: rows as lines                              schema: what tables are
//!   tpcc: conditions of TPC-C                        copy:   backup, compact
//! ```

mod change;
mod copy;
mod load;
mod read;
mod schema;
mod text;
mod tpcc;

pub(super) use tpcc::{refuse_broken, tell_consistency};

use crate::Context;
use crate::database::{self, Opened, Wishes};
use crate::engine_settings;
use crate::failure::Failure;
use crate::output::OutputFiles;
use clap::{Args, Subcommand};
use nandu::{
    CheckReport, Column, ColumnType, Database, DatabaseOptions, NewTable, RestartReport,
    StorageError, TableKind,
};
use nandu_base::ByteCount;
use nandu_base::words::counted;
use nandu_probe::table::Table;
use serde::Serialize;
use std::path::{Path, PathBuf};
use text::RowFormat;

/// Make, fill, read and check a database in a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu db create shop customers id:integer name:text --key id
  nandu db load shop customers customers.tsv
  nandu db index shop orders by_customer customer
  nandu db get shop customers 7
  nandu db scan shop customers --limit 10 --format csv
  nandu db insert shop customers 8 Ole
  nandu db update shop customers 8 --set name=Ola
  nandu db delete shop customers 8
  nandu db export shop customers customers.parquet
  nandu db backup shop shop-of-monday
  nandu db check shop
  nandu db stat shop

Types are integer, real, text and blob (hexadecimal). Rows are lines with tabs between \
the values, as PostgreSQL's COPY writes them; \\N is null. A table without --key is a \
file DIRECTORY/TABLE.sqlite that sqlite3 opens, and its rows have numbers. A table made with \
--raw has keys and values that are bytes, and no other columns.")]
pub(crate) struct DbArguments {
    #[command(subcommand)]
    action: Action,
    /// The directory of its log, where the database was made with one apart
    #[arg(long, global = true, value_name = "DIR")]
    log: Option<PathBuf>,
    /// Print JSON, and nothing else on stdout
    #[arg(long, global = true)]
    json: bool,
}

impl DbArguments {
    /// Where the database is that the command names, opened with what `--set` says.
    fn place<'p>(&'p self, directory: &'p Path, set: &'p [String]) -> Place<'p> {
        Place { directory, log: self.log.as_deref(), set }
    }
}

/// A command of `nandu db` that prints: where to, and whether as JSON.
struct Answering<'c> {
    context: &'c Context,
    as_json: bool,
}

impl Answering<'_> {
    /// Prints what `command` did: as JSON all of it, as text a line, where there is something to say.
    /// `done` says it where nothing can be printed.
    fn tell(
        &self,
        command: &'static str,
        value: &impl Serialize,
        line: Option<String>,
        done: &str,
    ) -> Result<(), Failure> {
        let told = match line {
            _ if self.as_json => self.context.output.json(command, value),
            Some(line) => self.context.output.line(&line),
            None => Ok(()),
        };
        database::answered(told, done)
    }
}

/// What is told of one table.
#[derive(Serialize)]
struct OfTable<'a> {
    table: &'a str,
    /// Of an index.
    #[serde(skip_serializing_if = "Option::is_none")]
    index: Option<&'a str>,
}

impl<'a> OfTable<'a> {
    const fn of(table: &'a str) -> Self {
        Self { table, index: None }
    }
}

/// How the engine works while a command runs.
#[derive(Debug, Args)]
struct EngineArguments {
    /// Any setting of the engine, for this command, such as pool_bytes=1GiB
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a table, and the database if there is none
    Create {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// Its columns, NAME:TYPE
        #[arg(required_unless_present = "raw", value_parser = parse_column)]
        columns: Vec<Column>,
        /// Columns that identify a row and order the table, with commas between them
        #[arg(long, value_delimiter = ',')]
        key: Vec<String>,
        /// Make a raw tree, of keys and values that are bytes: its columns are key and value, blobs
        #[arg(long, conflicts_with_all = ["columns", "key"])]
        raw: bool,
        /// Bytes of a page of a new database, a power of two from 512 to 64 KiB; 4096 without it
        #[arg(long, value_parser = super::parse_size, value_name = "SIZE")]
        page_size: Option<ByteCount>,
        /// Bytes of the log of a new database, which bound what one transaction changes; 64 MiB
        /// without it
        #[arg(long, alias = "log-bytes", value_parser = super::parse_size, value_name = "SIZE")]
        log_size: Option<ByteCount>,
        /// Any setting of the engine, such as propagation=log_structured
        #[arg(long, value_name = "KEY=VALUE")]
        set: Vec<String>,
    },
    /// Store the rows of a file
    Load {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// A line for each row
        file: PathBuf,
        /// Leave out so many lines, which were loaded before
        #[arg(long, default_value = "0")]
        skip: u64,
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Make an index of a table without --key
    Index {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// What the index is called
        index: String,
        /// Its columns, most significant first
        #[arg(required = true)]
        columns: Vec<String>,
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Print one row
    Get {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// The values of the key, or the row's number; behind -- where one begins with a hyphen
        #[arg(required = true, allow_negative_numbers = true)]
        key: Vec<String>,
    },
    /// Print all rows
    Scan {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// Stop after so many
        #[arg(long)]
        limit: Option<u64>,
        /// How rows are written [default: tsv]
        #[arg(long, value_enum)]
        format: Option<RowFormat>,
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Write a table to a file whose name ends in .csv, .json, .parquet or .tsv
    Export {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// The file
        file: PathBuf,
        #[command(flatten)]
        files: OutputFiles,
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Store one row
    Insert {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// A value for each column, as `load` reads them; behind -- where one begins with a hyphen
        #[arg(required = true, allow_negative_numbers = true)]
        values: Vec<String>,
    },
    /// Change values of one row
    Update {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// The values of the key, or the row's number
        #[arg(required = true, allow_negative_numbers = true)]
        key: Vec<String>,
        /// A column and its new value; several times for several
        #[arg(long, required = true, value_name = "COLUMN=VALUE", value_parser = parse_setting)]
        set: Vec<(String, String)>,
    },
    /// Remove one row
    Delete {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// The values of the key, or the row's number; behind -- where one begins with a hyphen
        #[arg(required = true, allow_negative_numbers = true)]
        key: Vec<String>,
    },
    /// Remove a table with its indexes
    Drop {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
    },
    /// Say what tables there are: as the commands that make them
    Schema {
        /// The directory
        directory: PathBuf,
        /// One table; all without it
        table: Option<String>,
    },
    /// Copy all tables into a new database, rows with their numbers
    Backup {
        /// The directory
        directory: PathBuf,
        /// The directory of the copy
        target: PathBuf,
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Copy all tables into a new database, without the room that changes left
    Compact {
        /// The directory
        directory: PathBuf,
        /// The directory of the new database
        target: PathBuf,
        /// Bytes of its log; as many as there are without it
        #[arg(long, alias = "log-bytes", value_parser = super::parse_size, value_name = "SIZE")]
        log_size: Option<ByteCount>,
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Verify every page, tree and reference
    Check {
        /// The directory
        directory: PathBuf,
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Look at the twelve consistency conditions of TPC-C, over tables of `nandu load tpcc`
    CheckTpcc {
        /// The directory
        directory: PathBuf,
        #[command(flatten)]
        engine: EngineArguments,
    },
    /// Say how large the tables and indexes are
    Stat {
        /// The directory
        directory: PathBuf,
        #[command(flatten)]
        engine: EngineArguments,
    },
}

/// Does what the command asks of the database.
pub(crate) fn run(arguments: &DbArguments, context: &Context) -> Result<(), Failure> {
    let to = &Answering { context, as_json: arguments.json };
    let at = |directory| arguments.place(directory, &[]);
    match &arguments.action {
        Action::Create { directory, table, columns, key, raw, page_size, log_size, set } => {
            let wishes = Wishes { page: *page_size, log: *log_size, set };
            let new = match raw {
                true => NewTable::raw(table),
                false => new_table(table, columns, key)?,
            };
            create(arguments.place(directory, set), new, wishes)?;
            to.tell("db create", &OfTable::of(table), None, &format!("table {table} is made"))
        }
        Action::Load { directory, table, file, skip, engine } => {
            load::load(arguments.place(directory, &engine.set), table, file, *skip, to)
        }
        Action::Index { directory, table, index, columns, engine } => {
            make_index(arguments.place(directory, &engine.set), table, index, columns)?;
            let answer = OfTable { table, index: Some(index) };
            to.tell("db index", &answer, None, &format!("index {index} is made"))
        }
        Action::Get { directory, table, key } => read::get(at(directory), table, key, to),
        Action::Scan { directory, table, limit, format, engine } => {
            read::scan(arguments.place(directory, &engine.set), table, *limit, *format, to)
        }
        Action::Export { directory, table, file, files, engine } => {
            read::export(arguments.place(directory, &engine.set), table, file, *files, to)
        }
        Action::Insert { directory, table, values } => {
            change::insert(at(directory), table, values, to)
        }
        Action::Update { directory, table, key, set } => {
            change::update(at(directory), table, key, set)?;
            to.tell("db update", &OfTable::of(table), None, "the row is changed")
        }
        Action::Delete { directory, table, key } => {
            change::delete(at(directory), table, key)?;
            to.tell("db delete", &OfTable::of(table), None, "the row is gone")
        }
        Action::Drop { directory, table } => {
            change::drop_table(at(directory), table)?;
            to.tell("db drop", &OfTable::of(table), None, &format!("table {table} is gone"))
        }
        Action::Schema { directory, table } => schema::schema(at(directory), table.as_deref(), to),
        Action::Backup { directory, target, engine } => {
            copy::back_up(arguments.place(directory, &engine.set), target, to)
        }
        Action::Compact { directory, target, log_size, engine } => {
            copy::compact(arguments.place(directory, &engine.set), target, *log_size, to)
        }
        Action::Check { directory, engine } => check(arguments.place(directory, &engine.set), to),
        Action::CheckTpcc { directory, engine } => {
            tpcc::check_tpcc(arguments.place(directory, &engine.set), to)
        }
        Action::Stat { directory, engine } => stat(arguments.place(directory, &engine.set), to),
    }
}

/// Where a database is, and how it is opened.
#[derive(Clone, Copy)]
struct Place<'p> {
    directory: &'p Path,
    /// Of its log, if it lies apart.
    log: Option<&'p Path>,
    /// What `--set` says.
    set: &'p [String],
}

fn open(place: Place<'_>) -> Result<Database, Failure> {
    open_by(database::open, place).map(|(database, _)| database)
}

fn open_to_read(place: Place<'_>) -> Result<Opened, Failure> {
    open_by(database::open_to_read, place)
}

/// Opens a database, and refuses settings that are not its own and stay.
fn open_by(
    open: fn(&Path, &DatabaseOptions) -> Result<Opened, StorageError>,
    place: Place<'_>,
) -> Result<Opened, Failure> {
    let Place { directory, set, .. } = place;
    let (database, restart) = open(directory, &place.options()?)?;
    let fits = engine_settings::check(directory, database.read().engine().settings(), set);
    if let Err(failure) = fits {
        database::close(database, directory)?;
        return Err(failure);
    }
    Ok((database, restart))
}

impl Place<'_> {
    /// The usual options but for what is set. Memory that would end the program at its first allocation is
    /// refused.
    fn options(self) -> Result<DatabaseOptions, Failure> {
        let usual = self.usual_options();
        let settings = engine_settings::set(&usual.settings, self.set)?;
        // The frames of the pool, and what stands beside them.
        let needed = ByteCount(settings.pool_bytes.saturating_add(settings.pool_bytes / 8));
        crate::memory::check_possible(needed, "a database", "raise its limit (ulimit -v)")?;
        Ok(DatabaseOptions { settings, ..usual })
    }

    fn usual_options(self) -> DatabaseOptions {
        let log_directory = self.log.map(Path::to_path_buf);
        DatabaseOptions { log_directory, ..DatabaseOptions::default() }
    }
}

fn new_table(table: &str, columns: &[Column], key: &[String]) -> Result<NewTable, Failure> {
    let index_of = |name: &String| {
        let place = columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
        place.ok_or_else(|| Failure::input(format!("--key {name}: the table has no such column")))
    };
    let key: Result<Vec<usize>, Failure> = key.iter().map(index_of).collect();
    let kind = match key? {
        key if key.is_empty() => TableKind::Heap,
        key => TableKind::Clustered { key },
    };
    let (name, columns) = (table.to_owned(), columns.to_vec());
    Ok(NewTable { name, columns, kind, indexes: Vec::new() })
}

fn create(place: Place<'_>, table: NewTable, wishes: Wishes<'_>) -> Result<(), Failure> {
    place.options()?;
    let NewTable { name, columns, kind, .. } = table;
    database::fill(place.directory, place.usual_options(), wishes, |database| {
        let mut write = database.write()?;
        write.create_table(&name, columns, kind)?;
        Ok(write.commit()?)
    })?;
    Ok(())
}

fn make_index(
    place: Place<'_>,
    table: &str,
    index: &str,
    columns: &[String],
) -> Result<(), Failure> {
    let database = open(place)?;
    let mut write = database.write()?;
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    write.create_index(table, index, &columns)?;
    write.commit()?;
    Ok(database::close(database, place.directory)?)
}

/// What `check --json` prints.
#[derive(Serialize)]
struct CheckAnswer<'a> {
    #[serde(flatten)]
    report: &'a CheckReport,
    /// What opening the database took, if it had not been closed.
    restart: Option<RestartReport>,
}

fn check(place: Place<'_>, to: &Answering<'_>) -> Result<(), Failure> {
    let (database, restart) = open_to_read(place)?;
    let report = database.read().check()?;
    database::close(database, place.directory)?;
    let output = to.context.output;
    if to.as_json {
        output.json("db check", &CheckAnswer { report: &report, restart })?;
    } else {
        for finding in &report.findings {
            output.line(finding)?;
        }
        output.line(&format!(
            "{}, {}, {}, {} looked at",
            counted(report.file_count, "file"),
            counted(report.page_count, "page"),
            counted(report.row_count, "row"),
            counted(report.index_entry_count, "index entry")
        ))?;
    }
    match report.findings.len() {
        0 => Ok(()),
        1 => Err(Failure::shape("1 rule is broken; restore a copy")),
        count => Err(Failure::shape(format!("{count} rules are broken; restore a copy"))),
    }
}

/// What `stat --json` prints.
#[derive(Serialize)]
struct StatAnswer<T: Serialize> {
    stats: T,
}

fn stat(place: Place<'_>, to: &Answering<'_>) -> Result<(), Failure> {
    let (database, _) = open_to_read(place)?;
    let stats = database.read().stat()?;
    database::close(database, place.directory)?;
    if to.as_json {
        return to.context.output.json("db stat", &StatAnswer { stats });
    }
    let mut table = Table::new(&["name", "kind", "rows", "pages", "levels", "size"]);
    for stat in stats {
        table.row(vec![
            stat.name,
            stat.kind.to_owned(),
            stat.row_count.to_string(),
            stat.page_count.to_string(),
            stat.level_count.to_string(),
            ByteCount(stat.file_bytes).to_string(),
        ]);
    }
    to.context.output.table(&table)
}

/// For clap: `id:integer`.
pub(super) fn parse_column(text: &str) -> Result<Column, String> {
    let (name, column_type) =
        text.rsplit_once(':').ok_or("write NAME:TYPE, id:integer for example")?;
    if name.is_empty() {
        return Err("it has no name; write NAME:TYPE, id:integer for example".to_owned());
    }
    let known = [ColumnType::Integer, ColumnType::Real, ColumnType::Text, ColumnType::Blob];
    let column_type = known
        .into_iter()
        .find(|known| known.label() == column_type)
        .ok_or_else(|| format!("`{column_type}` is no type; write integer, real, text or blob"))?;
    Ok(Column::new(name, column_type))
}

/// For clap: `name=Ola`.
fn parse_setting(text: &str) -> Result<(String, String), String> {
    let (column, value) = text.split_once('=').ok_or("write COLUMN=VALUE, name=Ola for example")?;
    Ok((column.to_owned(), value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_settings_are_read() {
        assert_eq!(parse_column("id:integer"), Ok(Column::new("id", ColumnType::Integer)));
        for refused in ["id", "id:int", ":integer"] {
            assert!(parse_column(refused).is_err(), "{refused}");
        }
        assert_eq!(parse_setting("a=b=c"), Ok(("a".to_owned(), "b=c".to_owned())));
        assert!(parse_setting("a").is_err());
    }
}
