//! `nandu db`: makes, fills, reads and checks a database in a directory.
//!
//! 1. Rows come and go as lines of values with tabs between them; `\N` is null.
//! 2. A load commits as a whole, or nothing of it is there.

use crate::Context;
use crate::failure::Failure;
use crate::output::read_file;
use clap::{Args, Subcommand};
use nandu::{
    Column, ColumnType, Database, DatabaseOptions, Flow, StorageError, TableKind, Tables, Value,
    ValueRef,
};
use nandu_base::ByteCount;
use nandu_probe::table::Table;
use std::path::{Path, PathBuf};

/// How null is written.
const NULL: &str = "\\N";

/// Make, fill, read and check a database in a directory
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  nandu db create shop customers id:integer name:text --key id
  nandu db load shop customers customers.tsv
  nandu db get shop customers 7
  nandu db scan shop customers --limit 10
  nandu db check shop
  nandu db stat shop

Types are integer, real, text and blob (hexadecimal). Rows are lines with tabs between the values; \\N
is null. A table without --key is a file that sqlite3 opens, and its rows have numbers.")]
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
        /// Bytes of a page, a power of two from 512 to 64 KiB
        #[arg(long, default_value = "4096", value_parser = super::parse_size)]
        page_size: ByteCount,
    },
    /// Store the rows of a file
    Load {
        /// The directory
        directory: PathBuf,
        /// The table
        table: String,
        /// A line for each row
        file: PathBuf,
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
        Action::Load { directory, table, file } => load(directory, table, file, context),
        Action::Get { directory, table, key } => get(directory, table, key, context),
        Action::Scan { directory, table, limit } => scan(directory, table, *limit, context),
        Action::Check { directory, json } => check(directory, *json, context),
        Action::Stat { directory, json } => stat(directory, *json, context),
    }
}

fn open(directory: &Path) -> Result<Database, StorageError> {
    nandu::open_database(directory, &DatabaseOptions::default()).map(|(database, _)| database)
}

fn create(
    directory: &Path,
    table: &str,
    columns: &[Column],
    key: &[String],
    page_size: ByteCount,
) -> Result<(), Failure> {
    let mut options = DatabaseOptions::default();
    options.settings.page_bytes = u32::try_from(page_size.0).unwrap_or(u32::MAX);
    let database = match open(directory) {
        Err(StorageError::NotFound { .. } | StorageError::NotADatabase { .. }) => {
            nandu::create_database(directory, &options)?
        }
        answer => answer?,
    };
    let index_of = |name: &String| {
        let place = columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
        place.ok_or_else(|| Failure::input(format!("--key {name}: the table has no such column")))
    };
    let key: Result<Vec<usize>, Failure> = key.iter().map(index_of).collect();
    let kind = match key? {
        key if key.is_empty() => TableKind::Heap,
        key => TableKind::Clustered { key },
    };
    let mut write = database.write()?;
    write.create_table(table, columns.to_vec(), kind)?;
    write.commit()?;
    Ok(database.close()?)
}

fn load(directory: &Path, table: &str, file: &Path, context: &Context) -> Result<(), Failure> {
    let text = read_file(file)?;
    let database = open(directory)?;
    let mut write = database.write()?;
    let definition = write.definition(table)?.clone();
    let is_heap = definition.kind == TableKind::Heap;
    let mut count = 0_u64;
    for (number, line) in (1..).zip(text.lines()) {
        let at = |what: String| Failure::input(format!("{}:{number}: {what}", file.display()));
        let fields: Vec<&str> = line.split('\t').collect();
        if fields.len() != definition.columns.len() {
            let (found, wanted) = (fields.len(), definition.columns.len());
            return Err(at(format!("{found} values instead of {wanted}")));
        }
        let pairs = fields.iter().zip(&definition.columns);
        let row: Result<Vec<Value>, String> =
            pairs.map(|(field, column)| parse_value(field, column.column_type)).collect();
        let row = row.map_err(at)?;
        let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        if is_heap {
            write.insert(table, &row)?;
        } else {
            write.put(table, &row)?;
        }
        count += 1;
    }
    write.commit()?;
    database.close()?;
    context.output.line(&format!("{count} rows"))
}

fn get(directory: &Path, table: &str, key: &[String], context: &Context) -> Result<(), Failure> {
    let database = open(directory)?;
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
    let database = open(directory)?;
    let mut outcome = Ok(());
    let mut left = limit.unwrap_or(u64::MAX);
    {
        let tables = database.read();
        let column_count = tables.definition(table)?.columns.len();
        tables.scan(table, |_, row| {
            if left == 0 || context.interrupt.is_set() {
                return Flow::Break(());
            }
            left -= 1;
            outcome = context.output.line(&line_of(&row, column_count));
            if outcome.is_ok() { Flow::Continue(()) } else { Flow::Break(()) }
        })?;
    }
    database.close()?;
    outcome
}

fn check(directory: &Path, json: bool, context: &Context) -> Result<(), Failure> {
    let database = open(directory)?;
    let report = database.read().check()?;
    database.close()?;
    let output = context.output;
    if json {
        output.json(&report)?;
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
    let database = open(directory)?;
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
fn parse_column(text: &str) -> Result<Column, String> {
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
        ColumnType::Real => Value::Real(text.parse().map_err(|_| is_no("number"))?),
        ColumnType::Text => Value::Text(text.to_owned()),
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
        Value::Real(number) => number.to_string(),
        Value::Text(text) => text,
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    };
    (0..column_count).map(text).collect::<Vec<_>>().join("\t")
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
}
