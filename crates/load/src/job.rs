//! Loads tables from sources: all of them in one transaction, so all or none.

use crate::{LoadError, RowSource};
use nandu_storage::Database;
use nandu_storage::database::{LoadOptions, LoadReport, NewTable};

/// One table and where its rows come from.
pub struct LoadJob {
    /// The table to make.
    pub table: NewTable,
    /// How the rows are loaded.
    pub options: LoadOptions,
    /// Where its rows come from, in the order in which they are stored.
    pub source: Box<dyn RowSource>,
}

/// Who watches a load, and may end it.
pub trait LoadObserver {
    /// So many rows of a table were handed over, which is that share of them.
    fn rows_loaded(&mut self, table: &str, row_count: u64, fraction: f64) {
        let _ = (table, row_count, fraction);
    }

    /// Whether to stop; then nothing is stored.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl LoadObserver for () {}

impl std::fmt::Debug for LoadJob {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "LoadJob({:?}, {:?})", self.table, self.options)
    }
}

/// Makes all tables and fills them. When this returns they are as durable as the database's commits
/// are.
///
/// # Errors
/// If a source fails, a row does not fit, a table exists already, the observer cancels, or the device
/// has no room or fails. Then none of the tables is there.
pub fn load_tables(
    database: &Database,
    jobs: &mut [LoadJob],
    observer: &mut dyn LoadObserver,
) -> Result<Vec<LoadReport>, LoadError> {
    let mut write = database.write()?;
    let mut reports = Vec::with_capacity(jobs.len());
    for LoadJob { table, options, source } in jobs {
        let report = write.load_table(table, options, |load| {
            while !observer.is_cancelled() {
                let has_more = source.next_rows(&mut |row| load.push(row))?;
                observer.rows_loaded(&table.name, load.row_count(), source.fraction());
                if !has_more {
                    return Ok(());
                }
            }
            Err(LoadError::Cancelled)
        })?;
        reports.push(report);
    }
    if observer.is_cancelled() {
        return Err(LoadError::Cancelled);
    }
    write.commit()?;
    Ok(reports)
}
