//! Values of a key as a caller gives them: checked against their columns, then as bytes.
//!
//! 1. A value is encoded as a row's would be that is stored: an integer for a column of reals as a real.

use super::key;
use super::schema::TableDefinition;
use crate::StorageError;
use crate::sqlite::ValueRef;
use nandu_base::words::counted;
use std::ops::Bound;

/// What a key takes, most often.
pub(super) const KEY_BYTES: usize = 32;

/// A lower and an upper bound of keys.
pub(super) type KeyBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl TableDefinition {
    /// The bytes of a whole key of these columns.
    ///
    /// # Errors
    /// If there are more or fewer values than columns, or one does not fit its column.
    pub(super) fn key_of_columns(
        &self,
        columns: &[usize],
        values: &[ValueRef<'_>],
    ) -> Result<Vec<u8>, StorageError> {
        if values.len() < columns.len() {
            return Err(self.wrong_key_width(columns, values));
        }
        self.prefix_of(columns, values)
    }

    /// The bytes of the first values of a key of these columns.
    fn prefix_of(
        &self,
        columns: &[usize],
        values: &[ValueRef<'_>],
    ) -> Result<Vec<u8>, StorageError> {
        if values.len() > columns.len() {
            return Err(self.wrong_key_width(columns, values));
        }
        // To make it longer would ask for memory that threads may share, at the price of a lookup.
        let mut bytes = Vec::with_capacity(KEY_BYTES);
        for (&value, &column) in values.iter().zip(columns) {
            // Null is before all others, also where none is stored.
            let value = match value {
                ValueRef::Null => value,
                _ => self.conform_value(&self.columns[column], value)?,
            };
            key::encode_key(value, &mut bytes);
        }
        Ok(bytes)
    }

    #[cold]
    pub(super) fn wrong_key_width(
        &self,
        columns: &[usize],
        values: &[ValueRef<'_>],
    ) -> StorageError {
        let names: Vec<&str> = columns.iter().map(|&at| self.columns[at].name.as_str()).collect();
        let are = if values.len() == 1 { "is" } else { "are" };
        let what = format!(
            "the key of table {} is of {} ({}), but there {are} {}",
            self.name,
            counted(columns.len() as u64, "column"),
            names.join(", "),
            counted(values.len() as u64, "value"),
        );
        StorageError::InvalidSetting { what }
    }

    /// Bounds of keys of these columns; `None` where no key can lie between them.
    ///
    /// # Errors
    /// If there are more values than columns, or one does not fit its column.
    pub(super) fn bounds_of_columns(
        &self,
        columns: &[usize],
        (lower, upper): (Bound<&[ValueRef<'_>]>, Bound<&[ValueRef<'_>]>),
    ) -> Result<Option<KeyBounds>, StorageError> {
        let encode = |values: &[ValueRef<'_>]| self.prefix_of(columns, values);
        let lower = match lower {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => Bound::Included(encode(values)?),
            Bound::Excluded(values) => match key::after_prefix(&encode(values)?) {
                Some(next) => Bound::Included(next),
                None => return Ok(None),
            },
        };
        let upper = match upper {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => {
                key::after_prefix(&encode(values)?).map_or(Bound::Unbounded, Bound::Excluded)
            }
            Bound::Excluded(values) => Bound::Excluded(encode(values)?),
        };
        Ok(Some((lower, upper)))
    }
}

/// The same bounds, borrowed, as trees take them.
pub(super) fn as_bytes((lower, upper): &KeyBounds) -> (Bound<&[u8]>, Bound<&[u8]>) {
    (lower.as_ref().map(Vec::as_slice), upper.as_ref().map(Vec::as_slice))
}
