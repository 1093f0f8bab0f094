//! The columns that a join or a sort compares: hashed, compared, and as bytes in their order.
//!
//! 1. Values that SQL holds equal have equal hashes and equal bytes: 1 and 1.0, too. Text and blobs are
//!    compared byte by byte.
//! 2. NULL equals nothing: a key with a NULL has no hash. For a sort, NULLs come first.
//! 3. For keys a and b: bytes(a) < bytes(b) exactly if a comes before b; no key's bytes are a prefix of
//!    another's.

use crate::QueryError;
use crate::tuple::{Tuple, corrupt_record};
use nandu_storage::database::key::encode_key;
use nandu_storage::sqlite::{RecordView, ValueRef, serial_type_bytes};
use std::cmp::Ordering;

/// Columns by index, most significant first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Key {
    columns: Vec<KeyColumn>,
}

/// One column of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyColumn {
    /// A column of the record.
    Stored(usize),
    /// The row's number, which `sqlite3` stores outside the record.
    RowNumber,
}

const NUMBER: u8 = 0x10;
const SIGN: u64 = 1 << 63;

impl Key {
    /// These columns of the record.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn of(columns: &[usize]) -> Self {
        Self::new(columns.iter().map(|&index| KeyColumn::Stored(index)).collect())
    }

    /// These columns.
    ///
    /// # Panics
    /// If there are none.
    #[must_use]
    pub fn new(columns: Vec<KeyColumn>) -> Self {
        assert!(!columns.is_empty(), "a key has a column");
        Self { columns }
    }

    /// How many columns the key has.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// The columns of the key, in its order.
    #[must_use]
    pub fn columns(&self) -> &[KeyColumn] {
        &self.columns
    }

    /// A hash of the values; `None` if one is NULL.
    ///
    /// # Errors
    /// If the record breaks a rule of its format.
    #[inline]
    pub fn hash(&self, tuple: Tuple<'_>) -> Result<Option<u64>, QueryError> {
        let mut hash = 0;
        for &column in &self.columns {
            match column.value(tuple)? {
                ValueRef::Null => return Ok(None),
                value => hash = hash_value(hash, value),
            }
        }
        // Tables keep the largest word for themselves.
        Ok(Some(hash.min(u64::MAX - 1)))
    }

    /// Whether the key of one row equals that of another, whose values are not NULL.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    #[inline]
    pub fn equals(
        &self,
        tuple: Tuple<'_>,
        other_key: &Self,
        other: Tuple<'_>,
    ) -> Result<bool, QueryError> {
        for (&mine, &its) in self.columns.iter().zip(&other_key.columns) {
            if mine.value(tuple)?.compare(&its.value(other)?) != Ordering::Equal {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The order of the keys of two rows, that of their bytes.
    ///
    /// # Errors
    /// If a record breaks a rule of its format.
    #[inline]
    pub fn compare(&self, tuple: Tuple<'_>, other: Tuple<'_>) -> Result<Ordering, QueryError> {
        for &column in &self.columns {
            let order = column.value(tuple)?.compare(&column.value(other)?);
            if order != Ordering::Equal {
                return Ok(order);
            }
        }
        Ok(Ordering::Equal)
    }

    /// Appends the key as bytes in their order; true if a value is NULL.
    ///
    /// # Errors
    /// If the record breaks a rule of its format.
    #[inline]
    pub fn encode(&self, tuple: Tuple<'_>, target: &mut Vec<u8>) -> Result<bool, QueryError> {
        let mut has_null = false;
        for &column in &self.columns {
            let value = column.value(tuple)?;
            has_null |= value.is_null();
            encode_ordered(value, target);
        }
        Ok(has_null)
    }

    /// The values.
    ///
    /// # Errors
    /// If the record breaks a rule of its format.
    pub fn values<'a>(&self, tuple: Tuple<'a>) -> Result<Vec<ValueRef<'a>>, QueryError> {
        self.columns.iter().map(|column| column.value(tuple)).collect()
    }
}

impl KeyColumn {
    /// The value that a row has there.
    ///
    /// # Errors
    /// If the record breaks a rule of its format.
    #[inline]
    pub fn value(self, tuple: Tuple<'_>) -> Result<ValueRef<'_>, QueryError> {
        match self {
            Self::RowNumber => Ok(ValueRef::Integer(tuple.row_number)),
            Self::Stored(index) => match short_integer(tuple.record, index) {
                Some(number) => Ok(ValueRef::Integer(number)),
                None => stored_value(tuple, index),
            },
        }
    }
}

/// Body bytes of the serial types that a byte holds; the two that no file may hold lead to the long way.
const SHORT_BYTES: [u8; 0x80] = {
    let mut bytes = [u8::MAX; 0x80];
    let mut serial_type = 0;
    while serial_type < bytes.len() {
        if let Some(length) = serial_type_bytes(serial_type as u64) {
            #[allow(clippy::cast_possible_truncation, reason = "at most 57")]
            let length = length as u8;
            bytes[serial_type] = length;
        }
        serial_type += 1;
    }
    bytes
};

/// Value `index`, if the record's header is short so far and it is an integer: the way that most keys take.
#[inline]
fn short_integer(record: &[u8], index: usize) -> Option<i64> {
    let (&header_bytes, types) = record.split_first()?;
    if header_bytes >= 0x80 || usize::from(header_bytes) < index + 2 {
        return None;
    }
    let mut start = usize::from(header_bytes);
    for &serial_type in types.get(..index)? {
        start += match SHORT_BYTES.get(usize::from(serial_type)) {
            None | Some(&u8::MAX) => return None,
            Some(&length) => usize::from(length),
        };
    }
    let body = record.get(start..)?;
    Some(match *types.get(index)? {
        1 => i64::from(i8::from_be_bytes(*body.first_chunk()?)),
        2 => i64::from(i16::from_be_bytes(*body.first_chunk()?)),
        3 => {
            let [a, b, c] = *body.first_chunk()?;
            i64::from(i32::from_be_bytes([a, b, c, 0]) >> 8)
        }
        4 => i64::from(i32::from_be_bytes(*body.first_chunk()?)),
        6 => i64::from_be_bytes(*body.first_chunk()?),
        _ => return None,
    })
}

#[inline]
fn stored_value(tuple: Tuple<'_>, index: usize) -> Result<ValueRef<'_>, QueryError> {
    RecordView::value_at(tuple.record, index).map_err(|what| corrupt_record(tuple.row_number, what))
}

/// Joins a value to the hash of those before it.
#[inline]
pub(crate) fn hash_value(hash: u64, value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null => hash,
        ValueRef::Integer(number) => mix(hash ^ number.cast_unsigned()),
        ValueRef::Real(number) => match exact_integer(number) {
            Some(integer) => mix(hash ^ integer.cast_unsigned()),
            None => mix(hash ^ number.to_bits().rotate_left(1)),
        },
        ValueRef::Text(bytes) => hash_bytes(hash ^ 0x7465_7874, bytes),
        ValueRef::Blob(bytes) => hash_bytes(hash ^ 0x626C_6F62, bytes),
    }
}

fn hash_bytes(mut hash: u64, bytes: &[u8]) -> u64 {
    let mut chunks = bytes.chunks_exact(8);
    for chunk in &mut chunks {
        hash = mix(hash ^ u64::from_le_bytes(*chunk.first_chunk().expect("chunks have 8 bytes")));
    }
    let mut last = [0; 8];
    last[..chunks.remainder().len()].copy_from_slice(chunks.remainder());
    mix(mix(hash ^ u64::from_le_bytes(last)) ^ bytes.len() as u64)
}

/// Spreads every bit over all (David Stafford's mix 13, a bijection).
#[inline]
#[must_use]
pub const fn mix(mut word: u64) -> u64 {
    word = word.wrapping_add(0x9E37_79B9_7F4A_7C15);
    word = (word ^ word >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    word = (word ^ word >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ word >> 31
}

/// The integer that a double equals, if any.
pub(crate) fn exact_integer(number: f64) -> Option<i64> {
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    let is_integer = number.trunc() == number && (-LIMIT..LIMIT).contains(&number);
    #[allow(clippy::cast_possible_truncation, reason = "the range was checked")]
    is_integer.then_some(number as i64)
}

/// Numbers as the nearest double and what it lacks of the integer, so that both kinds compare.
pub(crate) fn encode_ordered(value: ValueRef<'_>, target: &mut Vec<u8>) {
    let (double, rest) = match value {
        ValueRef::Integer(number) => nearest_double(number),
        ValueRef::Real(number) => (number + 0.0, 0),
        ValueRef::Null | ValueRef::Text(_) | ValueRef::Blob(_) => {
            return encode_key(value, target);
        }
    };
    let bits = double.to_bits();
    let bits = if bits & SIGN == 0 { bits ^ SIGN } else { !bits };
    target.push(NUMBER);
    target.extend(bits.to_be_bytes());
    target.extend((rest.cast_unsigned() ^ 0x8000).to_be_bytes());
}

/// The nearest double of an integer, and what is to be added to it: at most half of 1024, the distance
/// of doubles near 2^63.
#[allow(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "the loss is what is computed"
)]
fn nearest_double(number: i64) -> (f64, i16) {
    let double = number as f64;
    let rest = i128::from(number) - double as i128;
    (double, i16::try_from(rest).expect("doubles near 2^63 are 1024 apart"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_storage::sqlite::encode_record;
    use proptest::prelude::*;

    fn values() -> impl Strategy<Value = nandu_storage::sqlite::Value> {
        use nandu_storage::sqlite::Value;
        prop_oneof![
            Just(Value::Null),
            any::<i64>().prop_map(Value::Integer),
            (-3_i64..3).prop_map(Value::Integer),
            (-3_i64..3).prop_map(|number| Value::Real(f64::from(i32::try_from(number).unwrap()))),
            (i64::MAX - 2000..=i64::MAX).prop_map(Value::Integer),
            any::<i64>().prop_map(|number| Value::Real(number as f64)),
            any::<f64>().prop_filter("a number", |real| !real.is_nan()).prop_map(Value::Real),
            "[ab\0]{0,12}".prop_map(Value::Text),
            proptest::collection::vec(0_u8..3, 0..12).prop_map(Value::Blob),
        ]
    }

    proptest! {
        #[test]
        fn bytes_and_hashes_agree_with_the_order_of_sql(a in values(), b in values()) {
            let record = |value: &nandu_storage::sqlite::Value| {
                let mut bytes = Vec::new();
                encode_record([value.as_ref()], &mut bytes);
                bytes
            };
            let (first, second) = (record(&a), record(&b));
            let (first, second) =
                (Tuple { row_number: 1, record: &first }, Tuple { row_number: 2, record: &second });
            let key = Key::of(&[0]);
            let encoded = |tuple| {
                let mut bytes = Vec::new();
                key.encode(tuple, &mut bytes).unwrap();
                bytes
            };
            let order = a.as_ref().compare(&b.as_ref());
            prop_assert_eq!(encoded(first).cmp(&encoded(second)), order);
            prop_assert_eq!(key.compare(first, second).unwrap(), order);
            prop_assert_eq!(key.equals(first, &key, second).unwrap(), order == Ordering::Equal);
            let hashes = (key.hash(first).unwrap(), key.hash(second).unwrap());
            prop_assert_eq!(hashes.0.is_none(), a.as_ref().is_null());
            if order == Ordering::Equal {
                prop_assert_eq!(hashes.0, hashes.1);
            }
        }

        #[test]
        fn each_column_is_found_the_short_way_or_the_long(
            stored in proptest::collection::vec(values(), 1..6), long in any::<bool>(),
        ) {
            let text = nandu_storage::sqlite::Value::Text("x".repeat(if long { 90 } else { 3 }));
            let all: Vec<_> = stored.iter().chain([&text]).chain(&stored).collect();
            let mut record = Vec::new();
            let refs: Vec<ValueRef<'_>> = all.iter().map(|value| value.as_ref()).collect();
            encode_record(refs.iter().copied(), &mut record);
            let view = RecordView::new(&record).unwrap();
            let tuple = Tuple { row_number: 3, record: &record };
            for index in 0..=all.len() {
                prop_assert_eq!(KeyColumn::Stored(index).value(tuple).unwrap(), view.get(index));
            }
        }

        #[test]
        fn any_record_has_a_key_or_is_an_error(record in proptest::collection::vec(any::<u8>(), 0..40)) {
            let tuple = Tuple { row_number: 0, record: &record };
            for column in 0..3 {
                let _ = Key::of(&[column]).hash(tuple);
            }
        }
    }

    #[test]
    fn the_row_number_can_be_a_key() {
        let key = Key::new(vec![KeyColumn::RowNumber]);
        let tuple = Tuple { row_number: 7, record: &[1] };
        assert_eq!(key.values(tuple).unwrap(), [ValueRef::Integer(7)]);
        let stored = [2, 1, 7];
        let other = Tuple { row_number: 0, record: &stored };
        assert_eq!(key.hash(tuple).unwrap(), Key::of(&[0]).hash(other).unwrap());
    }
}
