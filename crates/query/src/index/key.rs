//! The key of an index: which columns, of which types, and the bytes under which values lie in the
//! tree.
//!
//! Columns have types, values that are looked up need not: 1.0 is found as 1 among integers, 1.5
//! and "1" are found nowhere there. Bounds between two values of the column become bounds at one of
//! them.
//!
//! 1. What is encoded for a value equals what the tree holds for a row exactly if SQL holds both
//!    equal.
//! 2. A bound in bytes separates the same rows as the bound in values.

use crate::QueryError;
use crate::key::exact_integer;
use nandu_base::words::counted;
use nandu_storage::database::key::{after_prefix, encode_key};
use nandu_storage::database::{ColumnType, TableDefinition};
use nandu_storage::sqlite::{Value, ValueRef};
use std::cmp::Ordering;
use std::ops::Bound;

/// The columns of an index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexKey {
    columns: Vec<usize>,
    types: Vec<ColumnType>,
    is_unique: bool,
}

/// Which rows of an index take part, by the values of its first columns. NULLs come first; a lower
/// bound of `Excluded(NULL)` leaves them out.
#[derive(Clone, Debug, PartialEq)]
pub struct KeyRange {
    /// The first key that is wanted, or the one behind which it begins.
    pub lower: Bound<Vec<Value>>,
    /// The last key that is wanted, or the one in front of which it ends.
    pub upper: Bound<Vec<Value>>,
}

/// Bounds as a tree takes them.
pub(crate) type ByteBounds = (Bound<Vec<u8>>, Bound<Vec<u8>>);

impl Default for KeyRange {
    fn default() -> Self {
        Self { lower: Bound::Unbounded, upper: Bound::Unbounded }
    }
}

impl KeyRange {
    /// The range that has all rows in it.
    pub const ALL: Self = Self { lower: Bound::Unbounded, upper: Bound::Unbounded };

    /// Rows whose first column is below `value`, without those where it is NULL.
    #[must_use]
    pub fn below(value: Value) -> Self {
        Self { lower: Bound::Excluded(vec![Value::Null]), upper: Bound::Excluded(vec![value]) }
    }
}

impl IndexKey {
    /// These columns of a table. `is_unique` if no two rows have the same values in all of them.
    #[must_use]
    pub fn new(table: &TableDefinition, columns: &[usize], is_unique: bool) -> Self {
        let types = columns.iter().map(|&column| table.columns[column].column_type).collect();
        Self { columns: columns.to_vec(), types, is_unique }
    }

    /// The columns, most significant first.
    #[must_use]
    pub fn columns(&self) -> &[usize] {
        &self.columns
    }

    /// The types of the key's columns.
    #[must_use]
    pub fn types(&self) -> &[ColumnType] {
        &self.types
    }

    /// Whether at most one row has given values in the first `column_count` columns.
    #[must_use]
    pub fn is_unique(&self, column_count: usize) -> bool {
        self.is_unique && column_count == self.columns.len()
    }

    /// Appends the bytes of a value in column `index` of the key. False if no row can have a value
    /// that equals it; nothing equals NULL.
    #[inline]
    pub fn encode(&self, index: usize, value: ValueRef<'_>, target: &mut Vec<u8>) -> bool {
        if value.is_null() {
            return false;
        }
        let (nearest, order) = nearest(self.types[index], value);
        if order == Ordering::Equal && fits(self.types[index], nearest) {
            encode_key(nearest, target);
            return true;
        }
        false
    }

    /// The bounds of a range in the tree.
    ///
    /// # Errors
    /// If a bound has more values than the key has columns.
    pub(crate) fn bounds(&self, range: &KeyRange) -> Result<ByteBounds, QueryError> {
        let lower = match &range.lower {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => self.lower(values, true)?,
            Bound::Excluded(values) => self.lower(values, false)?,
        };
        let upper = match &range.upper {
            Bound::Unbounded => Bound::Unbounded,
            Bound::Included(values) => self.upper(values, true)?,
            Bound::Excluded(values) => self.upper(values, false)?,
        };
        Ok((lower, upper))
    }

    fn lower(&self, values: &[Value], is_included: bool) -> Result<Bound<Vec<u8>>, QueryError> {
        let (bytes, order) = self.edge(values)?;
        // A nearest value below the bound is not in the range, one above it is.
        let is_included = match order {
            Ordering::Equal => is_included,
            order => order == Ordering::Greater,
        };
        if is_included {
            return Ok(Bound::Included(bytes));
        }
        // No key of a value ends in bytes that have nothing after them.
        Ok(Bound::Included(after_prefix(&bytes).expect("keys begin with tags below 255")))
    }

    fn upper(&self, values: &[Value], is_included: bool) -> Result<Bound<Vec<u8>>, QueryError> {
        let (bytes, order) = self.edge(values)?;
        let is_included = match order {
            Ordering::Equal => is_included,
            order => order == Ordering::Less,
        };
        let bytes = match is_included {
            true => after_prefix(&bytes).expect("keys begin with tags below 255"),
            false => bytes,
        };
        Ok(Bound::Excluded(bytes))
    }

    /// The bytes of the values, up to the first that no row can have: for that the nearest that
    /// rows can have, and how it compares.
    fn edge(&self, values: &[Value]) -> Result<(Vec<u8>, Ordering), QueryError> {
        if values.len() > self.columns.len() || values.is_empty() {
            let counts = (values.len(), self.columns.len());
            let found = counted(counts.0 as u64, "value");
            let what = format!("a bound has {found}, the key of the index {}", counts.1);
            return Err(QueryError::Invalid { what });
        }
        let mut bytes = Vec::new();
        for (value, &column_type) in values.iter().zip(&self.types) {
            let (nearest, order) = nearest(column_type, value.as_ref());
            encode_key(nearest, &mut bytes);
            if order != Ordering::Equal {
                return Ok((bytes, order));
            }
        }
        Ok((bytes, Ordering::Equal))
    }
}

/// Whether a column of this type holds values like this one.
fn fits(column_type: ColumnType, value: ValueRef<'_>) -> bool {
    matches!(
        (column_type, value),
        (ColumnType::Integer, ValueRef::Integer(_))
            | (ColumnType::Real, ValueRef::Real(_))
            | (ColumnType::Text, ValueRef::Text(_))
            | (ColumnType::Blob, ValueRef::Blob(_))
    )
}

/// A number as the column's kind of number, and how that compares to it. Values of other kinds stay
/// as they are: their bytes stand where SQL's order has them.
fn nearest(column_type: ColumnType, value: ValueRef<'_>) -> (ValueRef<'_>, Ordering) {
    let nearest = match (column_type, value) {
        (ColumnType::Integer, ValueRef::Real(real)) => match exact_integer(real.trunc()) {
            Some(integer) => ValueRef::Integer(integer),
            None if real > 0.0 => ValueRef::Integer(i64::MAX),
            None => ValueRef::Integer(i64::MIN),
        },
        #[expect(clippy::cast_precision_loss, reason = "what is lost is compared")]
        (ColumnType::Real, ValueRef::Integer(integer)) => ValueRef::Real(integer as f64),
        _ => return (value, Ordering::Equal),
    };
    (nearest, nearest.compare(&value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_storage::database::{Column, TableKind};
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = Value> {
        prop_oneof![
            1 => Just(Value::Null),
            2 => any::<i64>().prop_map(Value::Integer),
            4 => (-3_i64..3).prop_map(Value::Integer),
            4 => (-6_i32..6).prop_map(|halves| Value::Real(f64::from(halves) / 2.0)),
            1 => (i64::MAX - 2000..=i64::MAX).prop_map(Value::Integer),
            1 => any::<i64>().prop_map(|number| Value::Real(number as f64)),
            1 => any::<f64>().prop_filter("a number", |real| !real.is_nan()).prop_map(Value::Real),
            1 => "[ab]{0,3}".prop_map(Value::Text),
            1 => proptest::collection::vec(0_u8..3, 0..3).prop_map(Value::Blob),
        ]
    }

    fn stored(column_type: ColumnType) -> BoxedStrategy<Value> {
        let wanted =
            move |value: &Value| value.as_ref().is_null() || fits(column_type, value.as_ref());
        let text = "[ab]{0,3}".prop_map(Value::Text);
        let blob = proptest::collection::vec(0_u8..3, 0..3).prop_map(Value::Blob);
        prop_oneof![values(), values(), text, blob]
            .prop_map(move |value| match (column_type, value) {
                (_, value) if wanted(&value) => value,
                (ColumnType::Integer, _) => Value::Integer(1),
                (ColumnType::Real, _) => Value::Real(1.0),
                (ColumnType::Text, _) => Value::Text("a".to_owned()),
                (ColumnType::Blob, _) => Value::Blob(vec![1]),
            })
            .boxed()
    }

    fn any_type() -> impl Strategy<Value = (ColumnType, Value)> {
        prop_oneof![
            Just(ColumnType::Integer),
            Just(ColumnType::Real),
            Just(ColumnType::Text),
            Just(ColumnType::Blob)
        ]
        .prop_flat_map(|column_type| (Just(column_type), stored(column_type)))
    }

    fn key_of(column_type: ColumnType) -> IndexKey {
        let table = TableDefinition {
            name: "t".to_owned(),
            columns: vec![Column::new("a", column_type)],
            kind: TableKind::Heap,
            file: nandu_storage::FileId(3),
            indexes: Vec::new(),
        };
        IndexKey::new(&table, &[0], false)
    }

    proptest! {
        #[test]
        fn a_value_is_found_where_sql_says_and_bounds_part_the_rows_as_sql_does(
            (column_type, row) in any_type(),
            sought in values(),
        ) {
            let key = key_of(column_type);
            let mut entry = Vec::new();
            encode_key(row.as_ref(), &mut entry);
            let order = row.as_ref().compare(&sought.as_ref());
            let mut bytes = Vec::new();
            let is_found = key.encode(0, sought.as_ref(), &mut bytes) && bytes == entry;
            prop_assert_eq!(is_found, order.is_eq() && !sought.as_ref().is_null());
            encode_key(ValueRef::Integer(77), &mut entry);
            let value = || vec![sought.clone()];
            let unbounded = Bound::Unbounded;
            for (lower, upper, expected) in [
                (Bound::Included(value()), unbounded.clone(), order.is_ge()),
                (Bound::Excluded(value()), unbounded.clone(), order.is_gt()),
                (unbounded.clone(), Bound::Included(value()), order.is_le()),
                (unbounded, Bound::Excluded(value()), order.is_lt()),
            ] {
                use std::ops::RangeBounds;
                let range = KeyRange { lower, upper };
                let bounds = key.bounds(&range).unwrap();
                let is_in = bounds.contains(&entry);
                prop_assert_eq!(is_in, expected, "{:?} in {:?}", row, range);
            }
        }
    }
}
