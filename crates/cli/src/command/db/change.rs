//! `nandu db insert`, `update`, `delete` and `drop`: one row, or one table, in a transaction of its own.

use super::read::{RowName, row_name};
use super::text::{parse_row, parse_value, refs};
use super::{Answering, Place, open};
use crate::database::close;
use crate::failure::Failure;
use nandu::{Database, RecordView, Row, TableDefinition};
use nandu_base::words::counted;
use nandu_xml::Document;
use serde::Serialize;
use std::path::Path;

/// What `insert --json` prints.
#[derive(Serialize)]
struct InsertAnswer<'a> {
    table: &'a str,
    /// The row's number, of a table that has no key.
    number: Option<i64>,
}

/// Stores a row that is not there yet; tells its number if it gets one.
pub(super) fn insert(
    at: Place<'_>,
    table: &str,
    values: &[String],
    to: &Answering<'_>,
) -> Result<(), Failure> {
    let database = open(at)?;
    let definition = database.read().definition(table)?.clone();
    let (found, wanted) = (values.len(), definition.columns.len());
    if found != wanted {
        let names: Vec<&str> =
            definition.columns.iter().map(|column| column.name.as_str()).collect();
        return Err(Failure::input(format!(
            "{} instead of {wanted}: {} has the columns {}",
            counted(found as u64, "value"),
            definition.name,
            names.join(", ")
        )));
    }
    let types = definition.columns.iter().map(|column| column.column_type);
    let row = parse_row(values.iter().map(String::as_str), types)?;
    let mut write = database.write()?;
    let number = write.insert(&definition.name, &refs(&row))?;
    write.commit()?;
    close(database, at.directory)?;
    let number = definition.key_columns().is_empty().then_some(number);
    let answer = InsertAnswer { table: &definition.name, number };
    let line = number.map(|number| number.to_string());
    let done = line.as_ref().map(|number| format!("row {number} is stored"));
    to.tell("db insert", &answer, line, done.as_deref().unwrap_or("the row is stored"))
}

/// Changes some values of a row that is there.
pub(super) fn update(
    at: Place<'_>,
    table: &str,
    key: &[String],
    settings: &[(String, String)],
) -> Result<(), Failure> {
    let database = open(at)?;
    let definition = database.read().definition(table)?.clone();
    let name = row_name(&definition, key)?;
    let mut changes = Vec::new();
    for (column, text) in settings {
        let place = definition.column(column)?;
        if definition.key_columns().contains(&place) {
            return Err(Failure::input(format!(
                "--set {column}: it is part of the key of {}, which names the row; delete the row \
                 and insert it anew",
                definition.name
            )));
        }
        let value = parse_value(text, definition.columns[place].column_type);
        changes.push((place, value.map_err(Failure::input)?));
    }
    let mut write = database.write()?;
    let look = |row: RecordView<'_>| -> Row {
        (0..definition.columns.len()).map(|index| row.get(index).to_value()).collect()
    };
    let found = match &name {
        RowName::Number(number) => write.get(table, *number, look)?,
        RowName::Key(values) => write.get_by_key(table, &refs(values), look)?,
    };
    let Some(mut row) = found else { return Err(no_row(&definition, key)) };
    for (place, value) in changes {
        row[place] = value;
    }
    match name {
        RowName::Number(number) => write.update(table, number, &refs(&row))?,
        RowName::Key(_) => write.put(table, &refs(&row)).map(drop)?,
    }
    write.commit()?;
    Ok(close(database, at.directory)?)
}

/// Removes a row.
pub(super) fn delete(at: Place<'_>, table: &str, key: &[String]) -> Result<(), Failure> {
    let database = open(at)?;
    let definition = database.read().definition(table)?.clone();
    let name = row_name(&definition, key)?;
    let mut write = database.write()?;
    let was_there = match &name {
        RowName::Number(number) => {
            let is_there = write.get(table, *number, |_| ())?.is_some();
            if is_there {
                write.delete(table, *number)?;
            }
            is_there
        }
        RowName::Key(values) => write.delete_by_key(table, &refs(values))?,
    };
    if !was_there {
        return Err(no_row(&definition, key));
    }
    write.commit()?;
    Ok(close(database, at.directory)?)
}

/// Removes a table, which is no part of a document.
pub(super) fn drop_table(at: Place<'_>, table: &str) -> Result<(), Failure> {
    let database = open(at)?;
    check_no_document(&database, at.directory, table)?;
    let mut write = database.write()?;
    write.drop_table(table)?;
    write.commit()?;
    Ok(close(database, at.directory)?)
}

/// Refuses a tree of a document: without it the rest is damaged.
fn check_no_document(database: &Database, directory: &Path, table: &str) -> Result<(), Failure> {
    let tables = database.read();
    let name = tables.definition(table)?.name.clone();
    let Some(document) = Document::of_tree(&tables, &name) else { return Ok(()) };
    Err(Failure::input(format!(
        "{name} is a part of the document {0}; remove that as a whole: nandu xml drop --name {0} {1}",
        document.name(),
        directory.display()
    )))
}

fn no_row(definition: &TableDefinition, key: &[String]) -> Failure {
    Failure::input(format!("{} has no row {}", definition.name, key.join(" ")))
}
