//! Rows as types of the program: tuples by position, structs by the names of columns, through serde.
//!
//! ```text
//!   record ─► de: a row ─► a value each ─► T        T ─► ser: a row ─► a value each ─► Row
//! ```
//!
//! | in the program | in a column |
//! | --- | --- |
//! | integers of any width | integer; one that does not fit is an error |
//! | `bool` | integer, 0 or 1 |
//! | `f64`, `f32` | real; what is read has to be one exactly |
//! | `String`, `char`, an enum without contents | text |
//! | `Vec<u8>`, `[u8; N]` | blob |
//! | `Option` | null, or what is in it |
//!
//! 1. A row is stored as it is or refused: there is no conversion that loses anything, and a column for
//!    which a struct has no field is an error when it is written.
//! 2. What does not fit is told with table, column, what was found and what was wanted.

mod de;
mod misfit;
mod ser;

#[cfg(test)]
mod tests;

use super::row_scan::RowScan;
use super::schema::{Row, TableDefinition};
use super::tables::Tables;
use super::transaction::WriteTransaction;
use crate::StorageError;
use crate::sqlite::{RecordView, Value, ValueRef};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::iter::FusedIterator;
use std::marker::PhantomData;

/// Rows of a table as values of a type: what [`RowScan::typed`] gives.
#[derive(Debug)]
pub struct TypedRows<'t, T> {
    scan: RowScan<'t>,
    row: PhantomData<fn() -> T>,
}

impl TableDefinition {
    /// A row of this table as a `T`: a tuple, whose members are the columns in their order; or a struct, each
    /// of whose fields is the column of that name, whatever its case. Columns without a field are passed
    /// over; a field without a column is serde's business (an `Option` is `None`, else it is an error unless
    /// it has a default). A table of one column may be a `T` that is neither.
    ///
    /// # Errors
    /// If a value is none of the type that the field wants, or a struct has a field that no column is.
    pub fn read_row<T: DeserializeOwned>(&self, record: RecordView<'_>) -> Result<T, StorageError> {
        de::row(self, record).map_err(|misfit| misfit.told_of(self))
    }

    /// The values of a tuple or of a struct as a row of this table.
    ///
    /// # Errors
    /// If a struct has a field that no column is, or none for one of the columns, or what is in it is no
    /// value. Whether the values fit their columns is looked at when they are stored.
    pub fn write_row<T: Serialize + ?Sized>(&self, row: &T) -> Result<Row, StorageError> {
        ser::row(Some(self), row).map_err(|misfit| misfit.told_of(self))
    }
}

/// The values of a key, or of a row: a tuple's members in their order, or a single value.
///
/// ```
/// use nandu_storage::database::values_of;
/// use nandu_storage::sqlite::Value;
///
/// assert_eq!(values_of(&(7, "Ida"))?, [Value::Integer(7), Value::from("Ida")]);
/// assert_eq!(values_of(&7)?, [Value::Integer(7)]);
/// # Ok::<(), nandu_storage::StorageError>(())
/// ```
///
/// # Errors
/// If it has something in it that is no value.
pub fn values_of<T: Serialize + ?Sized>(values: &T) -> Result<Row, StorageError> {
    ser::row(None, values).map_err(|misfit| misfit.told_of_key())
}

fn refs(row: &Row) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

impl Tables {
    /// The row of a heap table, or of one in PAX pages, that has this number: see
    /// [`TableDefinition::read_row`].
    ///
    /// # Errors
    /// As [`Self::get`], and if the row is no `T`.
    pub fn get_as<T: DeserializeOwned>(
        &self,
        table: &str,
        row_number: i64,
    ) -> Result<Option<T>, StorageError> {
        let definition = self.definition(table)?;
        self.get(table, row_number, |record| definition.read_row(record))?.transpose()
    }

    /// The row of a clustered table that has this key, a tuple or a single value.
    ///
    /// # Errors
    /// As [`Self::get_by_key`], and if the row is no `T`.
    pub fn get_by_key_as<T: DeserializeOwned>(
        &self,
        table: &str,
        key: &(impl Serialize + ?Sized),
    ) -> Result<Option<T>, StorageError> {
        let definition = self.definition(table)?;
        let key = values_of(key)?;
        self.get_by_key(table, &refs(&key), |record| definition.read_row(record))?.transpose()
    }
}

impl<'t> RowScan<'t> {
    /// The rows as values of a type: see [`TableDefinition::read_row`].
    #[must_use]
    pub const fn typed<T: DeserializeOwned>(self) -> TypedRows<'t, T> {
        TypedRows { scan: self, row: PhantomData }
    }
}

impl<T> TypedRows<'_, T> {
    /// The number of the row that came last: see [`RowScan::row_number`].
    #[must_use]
    pub const fn row_number(&self) -> i64 {
        self.scan.row_number()
    }
}

impl<T: DeserializeOwned> Iterator for TypedRows<'_, T> {
    type Item = Result<T, StorageError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.scan.next_typed().transpose()
    }
}

impl<T: DeserializeOwned> FusedIterator for TypedRows<'_, T> {}

impl WriteTransaction<'_> {
    /// Inserts a tuple or a struct as a row: see [`Self::insert`] and [`TableDefinition::write_row`].
    ///
    /// # Errors
    /// As there.
    pub fn insert_as<T: Serialize + ?Sized>(
        &mut self,
        table: &str,
        row: &T,
    ) -> Result<i64, StorageError> {
        let row = self.definition(table)?.write_row(row)?;
        self.insert(table, &refs(&row))
    }

    /// Stores a tuple or a struct as a row of a clustered table: see [`Self::put`].
    ///
    /// # Errors
    /// As there, and as [`TableDefinition::write_row`].
    pub fn put_as<T: Serialize + ?Sized>(
        &mut self,
        table: &str,
        row: &T,
    ) -> Result<bool, StorageError> {
        let row = self.definition(table)?.write_row(row)?;
        self.put(table, &refs(&row))
    }

    /// Replaces a row of a heap table by a tuple or a struct: see [`Self::update`].
    ///
    /// # Errors
    /// As there, and as [`TableDefinition::write_row`].
    pub fn update_as<T: Serialize + ?Sized>(
        &mut self,
        table: &str,
        number: i64,
        row: &T,
    ) -> Result<(), StorageError> {
        let row = self.definition(table)?.write_row(row)?;
        self.update(table, number, &refs(&row))
    }

    /// Removes the row of a clustered table that has this key, a tuple or a single value: see
    /// [`Self::delete_by_key`].
    ///
    /// # Errors
    /// As there, and as [`values_of`].
    pub fn delete_by_key_as<K: Serialize + ?Sized>(
        &mut self,
        table: &str,
        key: &K,
    ) -> Result<bool, StorageError> {
        self.delete_by_key(table, &refs(&values_of(key)?))
    }

    /// Locks the row of a clustered table that has this key: see [`Self::claim_by_key`].
    ///
    /// # Errors
    /// As there, and as [`values_of`].
    pub fn claim_by_key_as<K: Serialize + ?Sized>(
        &mut self,
        table: &str,
        key: &K,
    ) -> Result<(), StorageError> {
        self.claim_by_key(table, &refs(&values_of(key)?))
    }
}
