//! `nandu db get`, `scan` and `export`: rows of a table, printed or in a file.

use super::text::{RowFormat, RowObject, line_of, parse_row, refs};
use super::{Answering, Place, open_to_read};
use crate::failure::Failure;
use crate::json;
use crate::output::{OutputFiles, cannot_write};
use crate::progress::Progress;
use nandu::{Column, Flow, RecordView, Row, TableDefinition, Tables};
use nandu_base::words::counted;
use nandu_load::ParquetWriter;
use serde::Serialize;
use std::io::{BufWriter, Write as _};
use std::path::Path;

/// Bytes that a scan hands over together.
const OUTPUT_BYTES: usize = 1 << 16;
/// Rows between two looks at the progress.
const ROWS_PER_LOOK: u64 = 4096;

/// What `get --json` prints.
#[derive(Serialize)]
struct GetAnswer<'a> {
    table: &'a str,
    row: RowObject,
}

/// What `scan --json` prints before the rows.
#[derive(Serialize)]
struct ScanAnswer<'a> {
    table: &'a str,
    columns: &'a [Column],
}

/// What `export --json` prints.
#[derive(Serialize)]
struct ExportAnswer<'a> {
    table: &'a str,
    file: &'a Path,
    row_count: u64,
}

/// Prints one row.
pub(super) fn get(
    place: Place<'_>,
    table: &str,
    key: &[String],
    to: &Answering<'_>,
) -> Result<(), Failure> {
    let (database, _) = open_to_read(place)?;
    let look = |row: &RecordView<'_>, columns: &[Column]| {
        (line_of(row, columns.len()), RowObject::of(row, columns))
    };
    let row = row_of(&database.read(), table, key, look)?;
    crate::database::close(database, place.directory)?;
    let Some((line, row)) = row else {
        return Err(Failure::input(format!("{table} has no row {}", key.join(" "))));
    };
    match to.as_json {
        true => to.context.output.json("db get", &GetAnswer { table, row }),
        false => to.context.output.rows(&(line + "\n")),
    }
}

fn row_of<T>(
    tables: &Tables,
    table: &str,
    key: &[String],
    look: impl Fn(&RecordView<'_>, &[Column]) -> T,
) -> Result<Option<T>, Failure> {
    let definition = tables.definition(table)?;
    let look = |row: RecordView<'_>| look(&row, &definition.columns);
    match row_name(definition, key)? {
        RowName::Number(number) => Ok(tables.get(table, number, look)?),
        RowName::Key(values) => Ok(tables.get_by_key(table, &refs(&values), look)?),
    }
}

/// What a user calls a row.
pub(super) enum RowName {
    /// In tables whose rows have numbers.
    Number(i64),
    /// In tables whose rows are found by a key.
    Key(Row),
}

/// The row that these words name.
pub(super) fn row_name(definition: &TableDefinition, key: &[String]) -> Result<RowName, Failure> {
    let table = &definition.name;
    let places = definition.key_columns();
    if places.is_empty() {
        let [number] = key else {
            let found = counted(key.len() as u64, "value");
            return Err(Failure::input(format!(
                "{found}, but rows of {table} have one number each"
            )));
        };
        let parsed = number.parse();
        let parsed = parsed.map_err(|_| Failure::input(format!("{number} is no row number")))?;
        return Ok(RowName::Number(parsed));
    }
    if key.len() != places.len() {
        let (found, wanted) = (counted(key.len() as u64, "value"), places.len());
        return Err(Failure::input(format!("{found}, the key of {table} has {wanted}")));
    }
    let types = places.iter().map(|&place| definition.columns[place].column_type);
    Ok(RowName::Key(parse_row(key.iter().map(String::as_str), types)?))
}

/// Prints the rows of a table.
pub(super) fn scan(
    place: Place<'_>,
    table: &str,
    limit: Option<u64>,
    format: Option<RowFormat>,
    to: &Answering<'_>,
) -> Result<(), Failure> {
    if to.as_json && format.is_some() {
        return Err(Failure::input(
            "--json prints one document, --format one line for each row; leave one of them out",
        ));
    }
    let (context, format) = (to.context, format.unwrap_or(RowFormat::Tsv));
    let (database, _) = open_to_read(place)?;
    let mut outcome = Ok(());
    let mut left = limit.unwrap_or(u64::MAX);
    let mut lines = String::new();
    {
        let tables = database.read();
        let columns = tables.definition(table)?.columns.clone();
        lines += &if to.as_json {
            json::begin_rows("db scan", &ScanAnswer { table, columns: &columns })
        } else {
            format.head(&columns)
        };
        let mut is_first = true;
        tables.scan(table, |_, row| {
            if left == 0 || context.interrupt.is_set() {
                return Flow::Break(());
            }
            left -= 1;
            if to.as_json {
                let comma = if is_first { "" } else { "," };
                lines += &format!("{comma}\n    {}", RowObject::of(&row, &columns));
                is_first = false;
            } else {
                lines += &format.line(&row, &columns);
            }
            if lines.len() >= OUTPUT_BYTES {
                outcome = context.output.rows(&lines);
                lines.clear();
            }
            if outcome.is_ok() { Flow::Continue(()) } else { Flow::Break(()) }
        })?;
    }
    crate::database::close(database, place.directory)?;
    outcome?;
    context.output.rows(&lines)?;
    if to.as_json {
        context.output.line("\n  ]\n}")?;
    }
    if context.interrupt.is_set() {
        return Err(Failure::interrupted("more rows may follow"));
    }
    Ok(())
}

/// What takes the rows of an export.
enum Sink<W: std::io::Write + Send> {
    Lines(W, RowFormat, Vec<Column>),
    Parquet(Box<ParquetWriter<W>>),
}

/// Writes a table to a file, which is there as a whole or not at all.
pub(super) fn export(
    place: Place<'_>,
    table: &str,
    file: &Path,
    files: OutputFiles,
    to: &Answering<'_>,
) -> Result<(), Failure> {
    let context = to.context;
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    let format = match extension {
        "csv" => Some(RowFormat::Csv),
        "json" | "jsonl" => Some(RowFormat::Json),
        "tsv" => Some(RowFormat::Tsv),
        "parquet" => None,
        _ => {
            return Err(Failure::input(format!(
                "{}: its name has to end in .csv, .json, .parquet or .tsv, which says the format",
                file.display()
            )));
        }
    };
    files.check(file)?;
    let failed = |error: &std::io::Error| cannot_write(file, error);
    let (database, _) = open_to_read(place)?;
    let partial = files.begin(file, &context.interrupt)?;
    let mut row_count = 0;
    {
        let tables = database.read();
        let definition = tables.definition(table)?.clone();
        let mut writer = BufWriter::new(partial.as_file());
        let mut sink = match format {
            Some(format) => {
                let head = format.head(&definition.columns);
                writer.write_all(head.as_bytes()).map_err(|error| failed(&error))?;
                Sink::Lines(writer, format, definition.columns.clone())
            }
            None => Sink::Parquet(Box::new(ParquetWriter::new(
                writer,
                &definition.columns,
                &file.display().to_string(),
            )?)),
        };
        let progress = Progress::new(context, 1);
        let mut outcome: Result<(), Failure> = Ok(());
        tables.scan(table, |_, row| {
            outcome = match &mut sink {
                Sink::Lines(writer, format, columns) => writer
                    .write_all(format.line(&row, columns).as_bytes())
                    .map_err(|error| failed(&error)),
                Sink::Parquet(writer) => writer.push(&row).map_err(Failure::from),
            };
            row_count += 1;
            if row_count % ROWS_PER_LOOK == 0 {
                // The number of rows is not known before the scan ends, so no share of it can be
                // told.
                progress.show(0.0, &counted(row_count, "row"));
            }
            let goes_on = outcome.is_ok() && !context.interrupt.is_set();
            if goes_on { Flow::Continue(()) } else { Flow::Break(()) }
        })?;
        outcome?;
        if context.interrupt.is_set() {
            return Err(Failure::interrupted("nothing was written"));
        }
        match sink {
            Sink::Lines(mut writer, ..) => writer.flush().map_err(|error| failed(&error))?,
            Sink::Parquet(writer) => writer.finish()?,
        }
    }
    crate::database::close(database, place.directory)?;
    files.finish(partial, file)?;
    let answer = ExportAnswer { table, file, row_count };
    let rows = counted(row_count, "row");
    to.tell("db export", &answer, Some(rows.clone()), &format!("{rows} in {}", file.display()))
}
