//! Rows into a database: all tables in one transaction and one pass, past the log.

use super::{Tpcc, TpccTable};
use crate::LoadError;
use nandu_storage::Database;
use nandu_storage::database::{LoadOptions, LoadReport, NewTable, RowOrder};

/// So often an observer hears of rows.
const ROWS_AT_ONCE: u64 = 1024;

/// Who watches rows being stored, and may end it.
pub trait TpccObserver {
    /// Rows of so many warehouses and parts of one were stored.
    fn warehouses_stored(&mut self, warehouse_count: f64) {
        let _ = warehouse_count;
    }

    /// Whether to stop; then nothing is stored.
    fn is_cancelled(&self) -> bool {
        false
    }
}

impl TpccObserver for () {}

/// What was stored of each table.
pub type TpccReport = [LoadReport; TpccTable::ALL.len()];

impl Tpcc {
    /// Makes all tables, in the order of [`TpccTable::ALL`], and fills them. When this returns they are as
    /// durable as the database's commits are. Of `options` the order is replaced.
    ///
    /// # Errors
    /// If one of the tables is there, the observer cancels, or the device has no room or fails. Then none of
    /// them is there.
    pub fn store(
        &self,
        database: &Database,
        options: &LoadOptions,
        observer: &mut dyn TpccObserver,
    ) -> Result<TpccReport, LoadError> {
        let new = TpccTable::ALL.map(TpccTable::new_table);
        let options = LoadOptions { order: RowOrder::Ascending, ..*options };
        let tables: Vec<(&NewTable, &LoadOptions)> =
            new.iter().map(|table| (table, &options)).collect();
        let row_count: u64 = TpccTable::ALL.iter().map(|&table| self.row_count(table)).sum();
        let mut write = database.write()?;
        let reports = write.load_tables(&tables, |loads| {
            let mut stored_count = 0_u64;
            self.rows(&mut |table, row| {
                if stored_count.is_multiple_of(ROWS_AT_ONCE) {
                    if observer.is_cancelled() {
                        return Err(LoadError::Cancelled);
                    }
                    let part = (stored_count as f64 / row_count as f64).min(1.0);
                    observer.warehouses_stored(part * f64::from(self.warehouse_count));
                }
                stored_count += 1;
                Ok(loads[table as usize].push(row)?)
            })
        })?;
        if observer.is_cancelled() {
            return Err(LoadError::Cancelled);
        }
        write.commit()?;
        Ok(reports.try_into().expect("there is a report for each table"))
    }
}
