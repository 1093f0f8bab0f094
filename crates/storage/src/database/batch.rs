//! Many rows at once: those of a clustered table go in the order of their keys, neighbours together.
//!
//! ```text
//!   rows ─► a piece of (key, record), sorted ─► leaves of a chunk read, all on their way ─► runs, one
//!    ▲                                                                                      action each
//!    └──────────────── the next piece, when a quarter of the pool's memory is full ◄───────────┘
//! ```
//!
//! 1. All rows are there afterwards, or none of them.
//! 2. Beside the pool, memory is that of one piece, however many rows there are.

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

/// A row on its way into a clustered table: its key and its record.
type KeyedRecord = (Vec<u8>, Vec<u8>);

impl Tables {
    /// Inserts rows, in any order: much quicker than one by one where they are neighbours in a
    /// clustered table, since the log gets one record and the page one change for all of them.
    ///
    /// # Errors
    /// If a value does not fit its column, two rows of a clustered table have one key, there is no such
    /// table, or there is no room. Then none of them is inserted.
    pub fn insert_all(&mut self, table: &str, rows: &[Row]) -> Result<(), StorageError> {
        self.insert_from(table, rows).map(drop)
    }

    /// As [`Self::insert_all`], rows taken as they are made, so that nobody has to hold all of them.
    /// Those of a clustered table are sorted in pieces of a quarter of the pool's memory. Gives their
    /// number. The log has to hold them until the transaction ends; [`Self::load_table`] makes a new
    /// table without that.
    ///
    /// # Errors
    /// As there.
    pub fn insert_from<R: AsRef<[Value]>>(
        &mut self,
        table: &str,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, StorageError> {
        self.whole_row(|tables| match tables.table(table)?.rows {
            Rows::Heap(_) => {
                let mut row_count = 0;
                for row in rows {
                    let row: Vec<ValueRef<'_>> = row.as_ref().iter().map(Value::as_ref).collect();
                    tables.insert_row(table, &row)?;
                    row_count += 1;
                }
                Ok(row_count)
            }
            Rows::Clustered(_) => tables.insert_by_key(table, rows),
            Rows::Pax(_) => Err(tables.table(table)?.not_changed()),
        })
    }

    fn insert_by_key<R: AsRef<[Value]>>(
        &mut self,
        table: &str,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, StorageError> {
        let piece_bytes_max = to_index(self.engine().settings().pool_bytes / 4);
        let (mut piece, mut piece_bytes, mut row_count) = (Vec::new(), 0, 0);
        for row in rows {
            let (key, record) = self.keyed_record(table, row.as_ref())?;
            piece_bytes += size_of::<KeyedRecord>() + key.capacity() + record.capacity();
            piece.push((key, record));
            row_count += 1;
            if piece_bytes >= piece_bytes_max {
                self.insert_piece(table, &mut piece)?;
                piece_bytes = 0;
            }
        }
        self.insert_piece(table, &mut piece)?;
        Ok(row_count)
    }

    fn keyed_record(&self, table: &str, row: &[Value]) -> Result<KeyedRecord, StorageError> {
        let definition = &self.table(table)?.definition;
        let mut row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        definition.conform(&mut row)?;
        let (mut key, mut record) = (Vec::new(), Vec::new());
        encode_row_key(definition, &row, &mut key);
        encode_record(row.iter().copied(), &mut record);
        check_row_bytes(self.engine(), table, &record)?;
        Ok((key, record))
    }

    /// Inserts the rows of a piece, and empties it.
    fn insert_piece(
        &mut self,
        table: &str,
        piece: &mut Vec<KeyedRecord>,
    ) -> Result<(), StorageError> {
        let open = self.table(table)?;
        let (tree, file) = (open.clustered()?, open.definition.file);
        piece.sort_unstable();
        let chunk_rows =
            to_index(u64::from(self.engine().settings().frame_count() / 4)).min(CHUNK_ROWS_MAX);
        for chunk in piece.chunks(chunk_rows) {
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
        piece.clear();
        Ok(())
    }
}
