//! Many rows at once: those of a clustered table go in the order of their keys, neighbours together.
//!
//! ```text
//!   rows ─► (key, record), sorted ─► leaves of a chunk read, all on their way ─► runs, one action each
//! ```
//!
//! 1. All rows are there afterwards, or none of them.

use super::Row;
use super::change::{check_row_bytes, encode_row_key, logged};
use super::tables::{Rows, Tables};
use crate::StorageError;
use crate::engine::StructureKind;
use crate::sqlite::{Value, ValueRef, encode_record};
use nandu_base::to_index;

/// Rows whose leaves are read together. The pool holds them four times over, or they are few enough to
/// share leaves.
const CHUNK_ROWS_MAX: usize = 256;

impl Tables {
    /// Inserts rows, in any order: much quicker than one by one where they are neighbours in a
    /// clustered table, since the log gets one record and the page one change for all of them.
    ///
    /// # Errors
    /// If a value does not fit its column, two rows of a clustered table have one key, there is no such
    /// table, or there is no room. Then none of them is inserted.
    pub fn insert_all(&mut self, table: &str, rows: &[Row]) -> Result<(), StorageError> {
        self.whole_row(|tables| match tables.table(table)?.rows {
            Rows::Heap(_) => rows.iter().try_for_each(|row| {
                let row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
                tables.insert_row(table, &row).map(drop)
            }),
            Rows::Clustered(_) => tables.insert_all_by_key(table, rows),
            Rows::Pax(_) => Err(tables.table(table)?.not_changed()),
        })
    }

    fn insert_all_by_key(&mut self, table: &str, rows: &[Row]) -> Result<(), StorageError> {
        let open = self.table(table)?;
        let (tree, file) = (open.clustered()?, open.definition.file);
        let mut records = Vec::with_capacity(rows.len());
        for row in rows {
            let mut row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
            open.definition.conform(&mut row)?;
            let (mut key, mut record) = (Vec::new(), Vec::new());
            encode_row_key(&open.definition, &row, &mut key);
            encode_record(row.iter().copied(), &mut record);
            check_row_bytes(self.engine(), table, &record)?;
            records.push((key, record));
        }
        records.sort_unstable();
        let chunk_rows =
            to_index(u64::from(self.engine().settings().frame_count() / 4)).min(CHUNK_ROWS_MAX);
        for chunk in records.chunks(chunk_rows) {
            let keys: Vec<&[u8]> = chunk.iter().map(|(key, _)| key.as_slice()).collect();
            tree.fetch_leaves(self.engine(), &keys)?;
            let mut rest = chunk;
            while !rest.is_empty() {
                let count = self.engine_mut().act(|pages| {
                    let count = logged(pages, StructureKind::Tree, file, |pages, undo| {
                        tree.insert_run(pages, rest, undo)
                    })?;
                    pages.set_undo_change_count(count as u64);
                    Ok(count)
                })?;
                if count == 0 {
                    let what = format!("a row with this key in table {table}");
                    return Err(StorageError::Exists { what });
                }
                rest = &rest[count..];
            }
        }
        Ok(())
    }
}
