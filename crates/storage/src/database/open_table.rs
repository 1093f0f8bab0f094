//! Tables at work: what of them is kept in memory while a database is open, for all who read and write.
//!
//! 1. What lies here holds at any moment of a view: roots of trees and definitions. What grows, the number
//!    of pages of a heap, is never less than any view needs.

use super::key_values::KEY_BYTES;
use super::kind::{HeapReader, Rows};
use super::schema::{IndexDefinition, TableDefinition};
use crate::btree::Tree;
use crate::sqlite::{HeapTable, ValueRef};
use crate::{Engine, FileId, StorageError};
use std::collections::BTreeMap;
use std::sync::Arc;

/// All tables, by their keys in the catalogue.
pub(super) type OpenTables = BTreeMap<Vec<u8>, Arc<OpenTable>>;

/// A table at work.
#[derive(Debug)]
pub(super) struct OpenTable {
    pub(super) definition: TableDefinition,
    pub(super) rows: Rows,
}

impl OpenTable {
    /// Opens a table: see [`super::kind::TableRows::open`].
    pub(super) fn open(
        engine: &Engine,
        definition: TableDefinition,
        known: Option<&Rows>,
    ) -> Result<(Self, Option<HeapTable>), StorageError> {
        let (rows, heap) = Rows::open(engine, &definition, known)?;
        Ok((Self { definition, rows }, heap))
    }

    /// Rows with numbers, to be changed.
    ///
    /// # Errors
    /// If the table has none.
    pub(super) fn heap(&self) -> Result<&HeapReader, StorageError> {
        self.rows.heap().map(|reader| &**reader).map_err(|what| self.wrong_kind(what))
    }

    /// The tree of rows that are found by a key.
    ///
    /// # Errors
    /// If the table has none.
    #[inline]
    pub(super) fn keyed(&self) -> Result<Tree, StorageError> {
        self.rows.keyed().map_err(|what| self.wrong_kind(what))
    }

    /// The key of a row, if rows are found by one.
    ///
    /// # Errors
    /// If a value does not fit its column.
    pub(super) fn key_of_row(&self, row: &[ValueRef<'_>]) -> Result<Option<Vec<u8>>, StorageError> {
        if self.rows.keyed().is_err() {
            return Ok(None);
        }
        let mut row = row.to_vec();
        self.definition.conform(&mut row)?;
        let mut key = Vec::with_capacity(KEY_BYTES);
        self.definition.encode_key(&row, &mut key);
        Ok(Some(key))
    }

    /// Whether its rows may be changed.
    ///
    /// # Errors
    /// If they are not.
    pub(super) fn check_changes(&self) -> Result<(), StorageError> {
        match self.definition.kind.takes_changes() {
            true => Ok(()),
            false => self.heap().map(drop),
        }
    }

    pub(super) fn index(&self, name: &str) -> Result<&IndexDefinition, StorageError> {
        let TableDefinition { indexes, name: table, .. } = &self.definition;
        let found = indexes.iter().find(|index| index.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| StorageError::NotFound { what: format!("index {name} of {table}") })
    }

    pub(super) fn wrong_kind(&self, what: &str) -> StorageError {
        StorageError::InvalidSetting { what: format!("table {} is {what}", self.definition.name) }
    }
}

/// Pages that a file has on the device; `None` where pages lie elsewhere.
pub(super) fn pages_there(engine: &Engine, file: FileId) -> Option<u64> {
    engine.pages_by_length(file)
}
