//! A copy of an open database as one of its snapshots sees it, in a directory of its own.
//!
//! ```text
//!   Snapshot ─► rows, table by table ─► NewDatabase: pages past the log ─► kept, closed
//!      writers go on                        an error before that: nothing is left
//! ```
//!
//! 1. The copy has the rows of the snapshot and no others, each heap's with their numbers unless new ones are
//!    wanted. They are read as any reader reads them, on whatever media their pages lie.
//! 2. It counts once all of it is durable.

use crate::{DatabaseOptions, DirectoryOptions, NewDatabase};
use nandu_storage::StorageError;
use nandu_storage::database::{
    LoadOptions, NewTable, RowOrder, RowScan, TableDefinition, TableLoad, Tables,
};
use nandu_storage::engine::Settings;
use nandu_storage::sqlite::ValueRef;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// So many rows, or bytes of rows, are copied between two looks of whoever watches, at most.
const ROWS_PER_LOOK: u64 = 256;
const BYTES_PER_LOOK: u64 = 1 << 20;

/// How a copy is made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BackUpOptions {
    /// How its files are written.
    pub files: DirectoryOptions,
    /// Bytes of its log, at least [`crate::Settings::log_bytes_min`]; as many as the database has
    /// if not given.
    pub log_bytes: Option<u64>,
    /// Whether rows of heaps get new numbers, from 1 on, and do not keep theirs.
    pub renumbers: bool,
    /// Directories of its own for the volumes that its propagation needs beside the data: see
    /// [`DatabaseOptions::other_directories`].
    pub other_directories: BTreeMap<String, PathBuf>,
}

/// How far a copy has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BackUpProgress<'p> {
    /// The table that is being copied.
    pub table: &'p str,
    /// Rows that were copied, of all tables.
    pub row_count: u64,
    /// Bytes of the files that were copied, about.
    pub done_bytes: u64,
    /// Bytes of all files that are copied.
    pub total_bytes: u64,
}

impl BackUpProgress<'_> {
    /// Which part of the work is done, about: from 0 to 1.
    #[must_use]
    pub fn fraction(&self) -> f64 {
        self.done_bytes as f64 / self.total_bytes.max(1) as f64
    }
}

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
/// not those of the database, byte for byte; the rows are. [`back_up_watched`] says how far it is, may be
/// ended, and has options.
///
/// # Errors
/// If there is something in the directory already, a page cannot be read, the snapshot is too old, or there
/// is no room; then nothing is left there.
pub fn back_up(
    tables: &Tables,
    directory: &Path,
    files: DirectoryOptions,
) -> Result<BackUpReport, StorageError> {
    let options = BackUpOptions { files, ..BackUpOptions::default() };
    back_up_watched(tables, directory, &options, |_| Ok(()))
}

/// The same with options, for somebody who watches: `watch` is called again and again, and ends it by an
/// error.
///
/// ```
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let place = tempfile::tempdir()?;
/// # let mut options = nandu::DatabaseOptions::default();
/// # (options.settings.log_bytes, options.settings.checkpoint_bytes) = (4 << 20, 1 << 20);
/// # let database = nandu::create_database(&place.path().join("shop"), &options)?;
/// # let directory = place.path().join("backup");
/// use nandu::back_up::{BackUpOptions, BackUpProgress, back_up_watched};
///
/// let tell = |progress: &BackUpProgress<'_>| -> Result<(), nandu::StorageError> {
///     println!("{:.0} %", 100.0 * progress.fraction());
///     Ok(())
/// };
/// back_up_watched(&database.snapshot(), &directory, &BackUpOptions::default(), tell)?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// As [`back_up`], and what `watch` returns; nothing is left then, too.
pub fn back_up_watched<E: From<StorageError>>(
    tables: &Tables,
    directory: &Path,
    options: &BackUpOptions,
    watch: impl FnMut(&BackUpProgress<'_>) -> Result<(), E>,
) -> Result<BackUpReport, E> {
    let BackUpOptions { files, log_bytes, renumbers, ref other_directories } = *options;
    let mut settings = tables.engine().settings().clone();
    if let Some(log_bytes) = log_bytes {
        let least = Settings::log_bytes_min(settings.page_bytes);
        if log_bytes < least {
            let page_bytes = settings.page_bytes;
            let what = format!(
                "log_bytes {log_bytes} is below {least}, the least for pages of {page_bytes} bytes"
            );
            return Err(StorageError::InvalidSetting { what }.into());
        }
        settings.log_bytes = log_bytes;
        settings.checkpoint_bytes = settings.checkpoint_bytes.min(log_bytes / 4);
    }
    let definitions: Vec<TableDefinition> = tables.definitions()?.cloned().collect();
    let total_bytes = definitions.iter().map(|definition| file_bytes(tables, definition)).sum();
    let other_directories = other_directories.clone();
    let options =
        DatabaseOptions { settings, files, other_directories, ..DatabaseOptions::default() };
    let new = NewDatabase::begin(directory, &options)?;
    let report = BackUpReport::default();
    let mut copy = Copying { renumbers, report, done_bytes: 0, total_bytes, watch };
    for definition in &definitions {
        copy.table(tables, definition, &new)?;
    }
    let report = copy.report;
    new.keep()?.close()?;
    Ok(report)
}

/// Bytes of the files of a table, its indexes included.
fn file_bytes(tables: &Tables, definition: &TableDefinition) -> u64 {
    let indexes = definition.indexes.iter().map(|index| index.file);
    let files = std::iter::once(definition.file).chain(indexes);
    files.map(|file| tables.engine().file_bytes(file)).sum()
}

/// A copy on its way.
struct Copying<W> {
    renumbers: bool,
    /// What is there so far.
    report: BackUpReport,
    /// Of the tables that are whole.
    done_bytes: u64,
    total_bytes: u64,
    watch: W,
}

impl<E: From<StorageError>, W: FnMut(&BackUpProgress<'_>) -> Result<(), E>> Copying<W> {
    fn table(
        &mut self,
        tables: &Tables,
        definition: &TableDefinition,
        new: &NewDatabase,
    ) -> Result<(), E> {
        let rows = tables.rows(definition.name.as_str())?;
        let table_bytes = file_bytes(tables, definition);
        let options = LoadOptions { order: RowOrder::Ascending, ..LoadOptions::default() };
        let mut write = new.database().write()?;
        write.load_table(&NewTable::like(definition), &options, |load| {
            self.rows(load, rows, table_bytes)
        })?;
        write.commit()?;
        self.report.table_count += 1;
        self.done_bytes += table_bytes;
        self.look(&definition.name, 0)
    }

    fn rows(
        &mut self,
        load: &mut TableLoad<'_>,
        mut rows: RowScan<'_>,
        table_bytes: u64,
    ) -> Result<(), E> {
        let (table, column_count) =
            (load.definition().name.clone(), load.definition().columns.len());
        let (mut row_count, mut row_bytes, mut next_look) = (0_u64, 0_u64, 0);
        while let Some((number, record)) = rows.next_row()? {
            // A record may be shorter than its table.
            let nulls = std::iter::repeat(ValueRef::Null);
            let values: Vec<ValueRef<'_>> =
                record.columns().chain(nulls).take(column_count).collect();
            match self.renumbers {
                true => load.push(&values)?,
                false => load.push_numbered(number, &values)?,
            }
            self.report.row_count += 1;
            row_count += 1;
            row_bytes += record.bytes().len() as u64;
            if row_count.is_multiple_of(ROWS_PER_LOOK) || row_bytes >= next_look {
                next_look = row_bytes + BYTES_PER_LOOK;
                self.look(&table, row_bytes.min(table_bytes))?;
            }
        }
        Ok(())
    }

    /// Tells how far it is, with so many bytes of `table`.
    fn look(&mut self, table: &str, table_bytes: u64) -> Result<(), E> {
        let Self { total_bytes, report, done_bytes, .. } = *self;
        (self.watch)(&BackUpProgress {
            table,
            row_count: report.row_count,
            done_bytes: done_bytes + table_bytes,
            total_bytes,
        })
    }
}
