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
use super::WriteTransaction;
use super::change::{check_row_bytes, logged};
use super::core::Core;
use super::open_table::OpenTable;
use super::step::Step;
use super::transaction::unless_changed;
use crate::btree::Tree;
use crate::engine::StructureKind;
use crate::sqlite::{Value, ValueRef};
use crate::{FileId, StorageError};
use nandu_base::to_index;

/// Rows whose leaves are read together. The pool holds them four times over, or they are few enough to
/// share leaves.
const CHUNK_ROWS_MAX: usize = 256;

/// A row on its way into a clustered table: its key and its record.
type KeyedRecord = (Vec<u8>, Vec<u8>);

impl WriteTransaction<'_> {
    /// Inserts rows, in any order: much quicker than one by one where they are neighbours in a
    /// clustered table, since the log gets one record and the page one change for all of them.
    ///
    /// # Errors
    /// If a value does not fit its column, two rows of a clustered table have one key, there is no such
    /// table, there is no room, or other transactions are in the way. Then none of them is inserted.
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
        let open = self.rows_of(table)?;
        open.check_changes()?;
        self.whole(|transaction| match open.rows.keyed() {
            Ok(_) => transaction.insert_by_key(&open, rows),
            Err(_) => transaction.insert_rows(table, rows),
        })
    }

    fn insert_by_key<R: AsRef<[Value]>>(
        &mut self,
        open: &OpenTable,
        rows: impl IntoIterator<Item = R>,
    ) -> Result<u64, StorageError> {
        let piece_bytes_max = to_index(self.settings().pool_bytes / 4);
        let (mut piece, mut piece_bytes, mut row_count) = (Vec::new(), 0, 0);
        for row in rows {
            let (key, record) = self.keyed_record(open, row.as_ref())?;
            piece_bytes += size_of::<KeyedRecord>() + key.capacity() + record.capacity();
            piece.push((key, record));
            row_count += 1;
            if piece_bytes >= piece_bytes_max {
                self.insert_piece(open, &mut piece)?;
                piece_bytes = 0;
            }
        }
        self.insert_piece(open, &mut piece)?;
        Ok(row_count)
    }

    fn keyed_record(&self, open: &OpenTable, row: &[Value]) -> Result<KeyedRecord, StorageError> {
        let definition = &open.definition;
        let mut row: Vec<ValueRef<'_>> = row.iter().map(Value::as_ref).collect();
        definition.conform(&mut row)?;
        let (mut key, mut record) = (Vec::new(), Vec::new());
        definition.encode_key(&row, &mut key);
        definition.encode_value(row.iter().copied(), &mut record);
        check_row_bytes(self.settings().row_bytes_max(), &definition.name, &record)?;
        Ok((key, record))
    }

    /// Inserts the rows of a piece, and empties it.
    fn insert_piece(
        &mut self,
        open: &OpenTable,
        piece: &mut Vec<KeyedRecord>,
    ) -> Result<(), StorageError> {
        let (tree, file) = (open.keyed()?, open.definition.file);
        let table = &open.definition.name;
        piece.sort_unstable();
        for (key, _) in piece.iter() {
            self.claim_key(open, key)?;
        }
        let chunk_rows = to_index(u64::from(self.settings().frame_count() / 4)).min(CHUNK_ROWS_MAX);
        for chunk in piece.chunks(chunk_rows) {
            let keys: Vec<&[u8]> = chunk.iter().map(|(key, _)| key.as_slice()).collect();
            unless_changed(tree.fetch_leaves(&self.present()?, &keys))?;
            let mut rest = chunk;
            while !rest.is_empty() {
                let count = self.step(|core| core.insert_run(&tree, file, rest))?;
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

impl Core {
    /// Inserts as many of the first rows as are one run. Their keys are locked.
    fn insert_run(
        &mut self,
        tree: &Tree,
        file: FileId,
        rows: &[KeyedRecord],
    ) -> Result<usize, StorageError> {
        let count = self.engine_mut().act(|pages| {
            let count = logged(pages, StructureKind::Tree, file, |pages, undo| {
                tree.insert_run(pages, rows, undo)
            })?;
            pages.set_undo_change_count(count as u64);
            Ok(count)
        })?;
        for (key, record) in &rows[..count] {
            self.note(|| Step::Put(file, key.clone(), record.clone()));
        }
        Ok(count)
    }
}
