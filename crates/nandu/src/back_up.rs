//! A copy of an open database as one of its snapshots sees it, in a directory of its own.
//!
//! ```text
//!   Snapshot ─► rows, table by table ─► NewDatabase: pages past the log ─► kept, closed
//!      writers go on                        an error before that: nothing is left
//! ```
//!
//! 1. The copy has the rows of the snapshot and no others, each heap's with their numbers.
//! 2. It counts once all of it is durable.

use crate::{DatabaseOptions, DirectoryOptions, NewDatabase};
use nandu_storage::StorageError;
use nandu_storage::database::{
    LoadOptions, NewTable, RowOrder, RowScan, TableDefinition, TableLoad, Tables,
};
use nandu_storage::sqlite::ValueRef;
use std::path::Path;

/// What a backup has in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackUpReport {
    /// How many tables.
    pub table_count: u64,
    /// Rows of all of them.
    pub row_count: u64,
}

/// Copies all tables, as a snapshot sees them, into a new database in a directory that is new or empty, and
/// closes it. Others may write meanwhile; what they change is kept as it was for the snapshot, in memory of
/// [`crate::Settings::version_bytes`].
///
/// ```
/// # fn main() -> Result<(), nandu::StorageError> {
/// # let place = tempfile::tempdir().expect("a scratch directory");
/// # let mut options = nandu::DatabaseOptions::default();
/// # (options.settings.log_bytes, options.settings.checkpoint_bytes) = (4 << 20, 1 << 20);
/// # let database = nandu::create_database(&place.path().join("shop"), &options)?;
/// # let directory = place.path().join("backup");
/// let report = nandu::back_up(&database.snapshot(), &directory, options.files)?;
/// println!("{} rows", report.row_count);
/// # Ok(())
/// # }
/// ```
///
/// It costs a read of all rows, a write of all pages, packed anew, and the memory of a second pool; the log
/// of the copy is as long as that of the database. Pages are as full as a load makes them, so the files are
/// not those of the database, byte for byte; the rows are.
///
/// # Errors
/// If there is something in the directory already, a page cannot be read, the snapshot is too old, or there
/// is no room; then nothing is left there.
pub fn back_up(
    tables: &Tables,
    directory: &Path,
    files: DirectoryOptions,
) -> Result<BackUpReport, StorageError> {
    let settings = tables.engine().settings().clone();
    let options = DatabaseOptions { settings, files, log_directory: None };
    let new = NewDatabase::begin(directory, &options)?;
    let mut report = BackUpReport::default();
    let definitions: Vec<TableDefinition> = tables.definitions()?.cloned().collect();
    for definition in &definitions {
        let rows = tables.rows(definition.name.as_str())?;
        let options = LoadOptions { order: RowOrder::Ascending, ..LoadOptions::default() };
        let mut write = new.database().write()?;
        let loaded =
            write.load_table(&NewTable::like(definition), &options, |load| fill(load, rows))?;
        write.commit()?;
        report.table_count += 1;
        report.row_count += loaded.row_count;
    }
    new.keep()?.close()?;
    Ok(report)
}

fn fill(load: &mut TableLoad<'_>, mut rows: RowScan<'_>) -> Result<(), StorageError> {
    let column_count = load.definition().columns.len();
    while let Some((number, record)) = rows.next_row()? {
        // A record may be shorter than its table.
        let nulls = std::iter::repeat(ValueRef::Null);
        let values: Vec<ValueRef<'_>> = record.columns().chain(nulls).take(column_count).collect();
        load.push_numbered(number, &values)?;
    }
    Ok(())
}
