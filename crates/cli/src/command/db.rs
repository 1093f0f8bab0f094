//! `nandu db`: makes, fills, reads and checks a database in a directory.
//!
//! 1. Rows come and go as lines of values with tabs between them, as PostgreSQL's COPY writes them:
//!    `\N` is null; tab, newline, return and backslash in a text are `\t`, `\n`, `\r` and `\\`.
//! 2. A load commits every `ROWS_PER_COMMIT` rows, so that any number fits the log. It always ends
//!    between two commits and says where; a file with fewer rows is stored as a whole or not at all.

use crate::Context;
use crate::database;
use crate::failure::Failure;
use crate::output;
use crate::progress::Progress;
use clap::{Args, Subcommand};
use nandu::{
    CheckReport, Column, ColumnType, Database, DatabaseOptions, Flow, RestartReport, StorageError,
    TableDefinition, TableKind, Tables, Value, ValueRef, WriteTransaction, real_in,
};
use nandu_base::ByteCount;
use nandu_probe::table::Table;
use serde::Serialize;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// How null is written.
const NULL: &str = "\\N";
/// Even if each row changes a page of 64 KiB of its own, their images fill half the log.
const ROWS_PER_COMMIT: u64 = 2048;
/// Or so much text, for rows that are large.
const TEXT_BYTES_PER_COMMIT: u64 = 4 << 20;
/// Lines that a scan hands over together.
const OUTPUT_BYTES: usize = 1 << 16;
/// Bytes of a line at most, which hold while it is read.
const LINE_BYTES_MAX: u64 = 16 << 20;

/// Make, fill, read and check a database in a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu db create shop customers id:integer name:text --key id
  nandu db load shop customers customers.tsv
  nandu db index shop orders by_customer customer
  nandu db get shop customers 7
  nandu db scan shop customers --limit 10
  nandu db check shop
  nandu db stat shop

Types are integer, real, text and blob (hexadecimal). Rows are lines with tabs between
the values, as PostgreSQL's COPY writes them; \\N is null. A table without --key is a
file DIRECTORY/TABLE.sqlite that sqlite3 opens, and its rows have numbers.")]
pub(crate) struct DbArguments {
    #[command(subcommand)]
    action: Action,
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
        #[arg(required = true, value_parser = parse_column)]
        columns: Vec<Column>,
        /// Columns that identify a row and order the table, with commas between them
        #[arg(long, value_delimiter = ',')]
        key: Vec<String>,
        /// Bytes of a page of a new database, a power of two from 512 to 64 KiB; 4096 without it
        #[arg(long, value_parser = super::parse_size, value_name = "SIZE")]
        page_size: Option<ByteCount>,
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
    },
    /// Print one row
    Get {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// The values of the key, or the row's number
        #[arg(required = true, allow_hyphen_values = true)]
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
    },
    /// Verify every page, tree and reference
    Check {
        /// The directory
        directory: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Say how large the tables and indexes are
    Stat {
        /// The directory
        directory: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// Does it.
pub(crate) fn run(arguments: &DbArguments, context: &Context) -> Result<(), Failure> {
    match &arguments.action {
        Action::Create { directory, table, columns, key, page_size } => {
            create(directory, table, columns, key, *page_size)
        }
        Action::Load { directory, table, file, skip } => {
            load(directory, table, Lines::open(file, *skip)?, context)
        }
        Action::Index { directory, table, index, columns } => {
            make_index(directory, table, index, columns)
        }
        Action::Get { directory, table, key } => get(directory, table, key, context),
        Action::Scan { directory, table, limit } => scan(directory, table, *limit, context),
        Action::Check { directory, json } => check(directory, *json, context),
        Action::Stat { directory, json } => stat(directory, *json, context),
    }
}

fn open(directory: &Path) -> Result<Database, StorageError> {
    database::open(directory, &DatabaseOptions::default()).map(|(database, _)| database)
}

fn open_to_read(directory: &Path) -> Result<Database, StorageError> {
    database::open_to_read(directory).map(|(database, _)| database)
}

fn create(
    directory: &Path,
    table: &str,
    columns: &[Column],
    key: &[String],
    page_size: Option<ByteCount>,
) -> Result<(), Failure> {
    let index_of = |name: &String| {
        let place = columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
        place.ok_or_else(|| Failure::input(format!("--key {name}: the table has no such column")))
    };
    let key: Result<Vec<usize>, Failure> = key.iter().map(index_of).collect();
    let kind = match key? {
        key if key.is_empty() => TableKind::Heap,
        key => TableKind::Clustered { key },
    };
    let options = DatabaseOptions::default();
    database::fill(directory, options, page_size, |database| {
        let mut write = database.write()?;
        write.create_table(table, columns.to_vec(), kind)?;
        Ok(write.commit()?)
    })?;
    Ok(())
}

fn make_index(
    directory: &Path,
    table: &str,
    index: &str,
    columns: &[String],
) -> Result<(), Failure> {
    let database = open(directory)?;
    let mut write = database.write()?;
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    write.create_index(table, index, &columns)?;
    write.commit()?;
    Ok(database.close()?)
}

fn load(
    directory: &Path,
    table: &str,
    mut lines: Lines<'_>,
    context: &Context,
) -> Result<(), Failure> {
    let database = open(directory)?;
    let start = lines.number;
    let mut stored = start;
    let outcome = load_lines(&database, table, &mut lines, &mut stored, context);
    let closed = database.close();
    let how_far = format!("the first {stored} rows are stored; --skip {stored} goes on from there");
    if let Err(failure) = outcome {
        if failure.is_interrupted() {
            return Err(Failure::interrupted(how_far));
        }
        if stored > start {
            output::complain(&how_far);
        }
        return Err(failure);
    }
    closed?;
    context.output.line(&format!("{} rows", stored - start))
}

/// Keeps in `stored` how many lines are durable.
fn load_lines(
    database: &Database,
    table: &str,
    lines: &mut Lines<'_>,
    stored: &mut u64,
    context: &Context,
) -> Result<(), Failure> {
    let definition = database.read().definition(table)?.clone();
    let progress = Progress::new(&context.interrupt, 1);
    loop {
        let mut write = database.write()?;
        let bytes_before = lines.bytes_read;
        let mut has_more = true;
        while has_more
            && lines.number < *stored + ROWS_PER_COMMIT
            && lines.bytes_read < bytes_before + TEXT_BYTES_PER_COMMIT
        {
            has_more = lines.advance()?;
            if has_more {
                store(&mut write, &definition, &lines.line)
                    .map_err(|failure| failure.at(&lines.place()))?;
            }
        }
        // What is dropped is rolled back.
        if context.interrupt.is_set() {
            return Err(Failure::interrupted(""));
        }
        write.commit()?;
        *stored = lines.number;
        if !has_more {
            return Ok(());
        }
        progress.show(lines.fraction(), &format!("{stored} rows"));
    }
}

fn store(
    write: &mut WriteTransaction<'_>,
    definition: &TableDefinition,
    line: &str,
) -> Result<(), Failure> {
    let (found, wanted) = (line.split('\t').count(), definition.columns.len());
    if found != wanted {
        return Err(Failure::input(format!(
            "{found} values instead of {wanted}; put one tab between two values"
        )));
    }
    let pairs = line.split('\t').zip(&definition.columns);
    let row: Result<Vec<Value>, String> =
        pairs.map(|(field, column)| parse_value(field, column.column_type)).collect();
    let row = row.map_err(Failure::input)?;
    let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
    match definition.kind {
        // One in PAX pages says why it takes none.
        TableKind::Heap | TableKind::Pax { .. } => {
            write.insert(&definition.name, &row).map(drop)?;
        }
        TableKind::Clustered { .. } => write.put(&definition.name, &row).map(drop)?,
    }
    Ok(())
}

/// A file that is read line by line.
struct Lines<'a> {
    path: &'a Path,
    reader: BufReader<File>,
    byte_count: u64,
    bytes_read: u64,
    /// Of the current line, from 1.
    number: u64,
    line: String,
}

impl<'a> Lines<'a> {
    /// Opens a file and leaves out lines at its beginning.
    fn open(path: &'a Path, skip: u64) -> Result<Self, Failure> {
        let failed = |error: &io::Error| match error.kind() {
            io::ErrorKind::NotFound => {
                Failure::input(format!("{}: no such file; check the spelling", path.display()))
            }
            _ => Failure::system(format!("cannot read {}", path.display()), error),
        };
        let file = File::open(path).map_err(|error| failed(&error))?;
        let byte_count = file.metadata().map_err(|error| failed(&error))?.len();
        let reader = BufReader::with_capacity(OUTPUT_BYTES, file);
        let mut lines =
            Self { path, reader, byte_count, bytes_read: 0, number: 0, line: String::new() };
        while lines.number < skip {
            if !lines.advance()? {
                let count = lines.number;
                return Err(Failure::input(format!(
                    "{}: --skip {skip}, but it has {count} lines",
                    path.display()
                )));
            }
        }
        Ok(lines)
    }

    /// Goes to the next line; false behind the last one.
    fn advance(&mut self) -> Result<bool, Failure> {
        self.line.clear();
        let what = || format!("cannot read line {} of {}", self.number + 1, self.path.display());
        let mut bounded = self.reader.by_ref().take(LINE_BYTES_MAX + 1);
        let byte_count = bounded.read_line(&mut self.line).map_err(|error| {
            let what = what();
            match error.kind() {
                io::ErrorKind::InvalidData => Failure::input(format!("{what}: it is not UTF-8")),
                _ => Failure::system(what, &error),
            }
        })?;
        if byte_count == 0 {
            return Ok(false);
        }
        if byte_count as u64 > LINE_BYTES_MAX {
            let most = LINE_BYTES_MAX >> 20;
            return Err(Failure::input(format!("{}: it has more than {most} MiB", what())));
        }
        self.bytes_read += byte_count as u64;
        self.number += 1;
        if self.line.ends_with('\n') {
            self.line.pop();
        }
        if self.line.ends_with('\r') {
            self.line.pop();
        }
        Ok(true)
    }

    fn place(&self) -> String {
        format!("{}:{}", self.path.display(), self.number)
    }

    fn fraction(&self) -> f64 {
        self.bytes_read as f64 / self.byte_count.max(1) as f64
    }
}

fn get(directory: &Path, table: &str, key: &[String], context: &Context) -> Result<(), Failure> {
    let database = open_to_read(directory)?;
    let row = row_of(&database.read(), table, key)?;
    database.close()?;
    let Some(row) = row else {
        return Err(Failure::input(format!("{table} has no row {}", key.join(" "))));
    };
    context.output.line(&row)
}

fn row_of(tables: &Tables, table: &str, key: &[String]) -> Result<Option<String>, Failure> {
    let definition = tables.definition(table)?;
    let look = |row: nandu::RecordView<'_>| line_of(&row, definition.columns.len());
    let TableKind::Clustered { key: places } = &definition.kind else {
        let number = key[0].parse();
        let number = number.map_err(|_| Failure::input(format!("{} is no row number", key[0])))?;
        return Ok(tables.get(table, number, look)?);
    };
    if key.len() != places.len() {
        let (found, wanted) = (key.len(), places.len());
        return Err(Failure::input(format!("{found} values, the key of {table} has {wanted}")));
    }
    let types = places.iter().map(|&place| definition.columns[place].column_type);
    let values: Result<Vec<Value>, String> =
        key.iter().zip(types).map(|(text, column_type)| parse_value(text, column_type)).collect();
    let values = values.map_err(Failure::input)?;
    let values: Vec<ValueRef<'_>> = values.iter().map(Value::as_ref).collect();
    Ok(tables.get_by_key(table, &values, look)?)
}

fn scan(
    directory: &Path,
    table: &str,
    limit: Option<u64>,
    context: &Context,
) -> Result<(), Failure> {
    let database = open_to_read(directory)?;
    let mut outcome = Ok(());
    let mut left = limit.unwrap_or(u64::MAX);
    let mut lines = String::new();
    {
        let tables = database.read();
        let column_count = tables.definition(table)?.columns.len();
        tables.scan(table, |_, row| {
            if left == 0 || context.interrupt.is_set() {
                return Flow::Break(());
            }
            left -= 1;
            lines += &line_of(&row, column_count);
            lines.push('\n');
            if lines.len() >= OUTPUT_BYTES {
                outcome = context.output.text(&lines);
                lines.clear();
            }
            if outcome.is_ok() { Flow::Continue(()) } else { Flow::Break(()) }
        })?;
    }
    database.close()?;
    outcome?;
    context.output.text(&lines)?;
    if context.interrupt.is_set() {
        return Err(Failure::interrupted("more rows may follow"));
    }
    Ok(())
}

/// What `check --json` prints.
#[derive(Serialize)]
struct CheckAnswer<'a> {
    #[serde(flatten)]
    report: &'a CheckReport,
    /// What opening the database took, if it had not been closed.
    restart: Option<RestartReport>,
}

fn check(directory: &Path, json: bool, context: &Context) -> Result<(), Failure> {
    let (database, restart) = database::open_to_read(directory)?;
    let report = database.read().check()?;
    database.close()?;
    let output = context.output;
    if json {
        output.json(&CheckAnswer { report: &report, restart })?;
    } else {
        for finding in &report.findings {
            output.line(finding)?;
        }
        output.line(&format!(
            "{} files, {} pages, {} rows, {} index entries looked at",
            report.file_count, report.page_count, report.row_count, report.index_entry_count
        ))?;
    }
    match report.findings.len() {
        0 => Ok(()),
        count => Err(Failure::shape(format!("{count} rules are broken; restore a copy"))),
    }
}

fn stat(directory: &Path, json: bool, context: &Context) -> Result<(), Failure> {
    let database = open_to_read(directory)?;
    let stats = database.read().stat()?;
    database.close()?;
    if json {
        return context.output.json(&stats);
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
    context.output.text(&table.render())
}

/// For clap: `id:integer`.
pub(super) fn parse_column(text: &str) -> Result<Column, String> {
    let (name, column_type) =
        text.rsplit_once(':').ok_or("write NAME:TYPE, id:integer for example")?;
    let column_type = match column_type {
        "integer" => ColumnType::Integer,
        "real" => ColumnType::Real,
        "text" => ColumnType::Text,
        "blob" => ColumnType::Blob,
        other => return Err(format!("`{other}` is no type; write integer, real, text or blob")),
    };
    Ok(Column::new(name, column_type))
}

fn parse_value(text: &str, column_type: ColumnType) -> Result<Value, String> {
    let is_no = |what: &str| format!("`{text}` is no {what}");
    Ok(match column_type {
        _ if text == NULL => Value::Null,
        ColumnType::Integer => Value::Integer(text.parse().map_err(|_| is_no("integer"))?),
        ColumnType::Real => {
            Value::Real(real_in(text).ok_or_else(|| is_no("number that a double holds"))?)
        }
        ColumnType::Text => Value::Text(unescape(text)?),
        ColumnType::Blob => {
            let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
            let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
            let digits = digits.ok_or_else(|| is_no("even number of hexadecimal digits"))?;
            let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits");
            Value::Blob(digits.chunks(2).map(byte).collect())
        }
    })
}

/// A row as it is printed.
fn line_of(row: &nandu::RecordView<'_>, column_count: usize) -> String {
    let text = |index| match row.get(index).to_value() {
        Value::Null => NULL.to_owned(),
        Value::Integer(number) => number.to_string(),
        // With its point, so that it is seen to be no integer.
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => escape(text),
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    (0..column_count).map(text).collect::<Vec<_>>().join("\t")
}

/// Writes a text so that it stays within its line and between its tabs.
fn escape(text: String) -> String {
    if !text.contains(['\\', '\t', '\n', '\r']) {
        return text;
    }
    let text = text.replace('\\', r"\\").replace('\t', r"\t");
    text.replace('\n', r"\n").replace('\r', r"\r")
}

/// The reverse.
fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('\\') => '\\',
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                _ => return Err(format!("`{text}`: write \\\\ for a backslash")),
            },
            letter => letter,
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_and_values_are_read_as_they_are_written() {
        assert_eq!(parse_column("id:integer"), Ok(Column::new("id", ColumnType::Integer)));
        assert!(parse_column("id").is_err() && parse_column("id:int").is_err());
        assert_eq!(parse_value("-7", ColumnType::Integer), Ok(Value::Integer(-7)));
        assert_eq!(parse_value(NULL, ColumnType::Text), Ok(Value::Null));
        assert_eq!(parse_value("00ff", ColumnType::Blob), Ok(Value::Blob(vec![0, 255])));
        assert!(parse_value("0f0", ColumnType::Blob).is_err());
        assert!(parse_value("x", ColumnType::Real).is_err());
    }

    #[test]
    fn a_text_with_tabs_and_newlines_is_one_field_of_one_line() {
        let text = "a\tb\\N\r\nc";
        let escaped = escape(text.to_owned());
        assert_eq!(escaped, r"a\tb\\N\r\nc");
        assert_eq!(unescape(&escaped).unwrap(), text);
        assert!(unescape(r"a\x").is_err() && unescape("a\\").is_err());
        assert_eq!(escape("\\N".to_owned()), "\\\\N", "which is not null");
    }
}
