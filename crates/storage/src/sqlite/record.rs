//! Rows as bytes: SQLite's record format (sqlite.org, Database File Format, section 2.1), which is
//! also the row format of the query engine.
//!
//! ```text
//!   ┌───────────────┬────────────────────────────┬───────────────────────────┐
//!   │ header length │ serial type of each column │ body: values, back to back │
//!   └── varint, counts itself ── varints ────────┴───────────────────────────┘
//!   0 NULL   1..6 integer of 1, 2, 3, 4, 6, 8 bytes   7 double   8, 9 the integers 0, 1
//!   12, 14, … blob of (n - 12) / 2 bytes   13, 15, … text of (n - 13) / 2 bytes
//! ```
//!
//! 1. A [`RecordView`] that could be made never fails afterwards: every value lies inside its bytes.
//! 2. Columns past the end of the record are NULL: tables get columns later, old rows stay short.

use super::value::ValueRef;
use super::varint::{push_varint, read_varint, varint_bytes};
use nandu_base::to_index;

/// Body bytes of the serial types below 12; the two that SQLite keeps for itself are marked.
const FIXED_BYTES: [u8; 12] = [0, 1, 2, 3, 4, 6, 8, 8, 0, 0, RESERVED, RESERVED];
const RESERVED: u8 = u8::MAX;

/// A record in place, decoded column by column on request.
#[derive(Clone, Copy, Debug)]
pub struct RecordView<'a> {
    bytes: &'a [u8],
    types: &'a [u8],
    body: &'a [u8],
}

/// The columns of a record, in order.
#[derive(Clone, Debug)]
pub struct RecordColumns<'a> {
    types: &'a [u8],
    body: &'a [u8],
}

impl<'a> RecordView<'a> {
    /// Looks at a record, checking that its header fits its body.
    ///
    /// # Errors
    /// Says which rule the bytes break.
    #[inline]
    pub fn new(bytes: &'a [u8]) -> Result<Self, &'static str> {
        let (types, body) = Self::split(bytes)?;
        let view = Self { bytes, types, body };
        let mut rest = view.types;
        let mut body_bytes = 0_u64;
        while !rest.is_empty() {
            let (serial_type, length) = read_varint(rest).ok_or("a serial type is cut off")?;
            let value_bytes = serial_type_bytes(serial_type).ok_or("a serial type is unknown")?;
            body_bytes = body_bytes.saturating_add(value_bytes);
            rest = &rest[length..];
        }
        if body_bytes > view.body.len() as u64 {
            return Err("the record's values pass its end");
        }
        Ok(view)
    }

    /// The value of column `index` of a record, NULL past the last; of the record only what lies before
    /// that value is looked at and checked.
    ///
    /// # Errors
    /// Says which rule the bytes break.
    #[inline]
    pub fn value_at(bytes: &'a [u8], index: usize) -> Result<ValueRef<'a>, &'static str> {
        let (types, body) = Self::split(bytes)?;
        let mut columns = RecordColumns { types, body };
        for _ in 0..index {
            if !columns.skip_one() {
                break;
            }
        }
        columns.next_or_null()
    }

    /// The first `N` values of a record, NULL past the last; what lies behind them is neither looked at
    /// nor checked. One pass, where a view takes one to check and one to decode.
    ///
    /// # Errors
    /// Says which rule the bytes break.
    #[inline]
    pub fn first_values<const N: usize>(
        bytes: &'a [u8],
    ) -> Result<[ValueRef<'a>; N], &'static str> {
        let (mut types, mut body) = Self::split(bytes)?;
        let mut values = [ValueRef::Null; N];
        for value in &mut values {
            let Some((serial_type, length)) = read_varint(types) else {
                if types.is_empty() {
                    break;
                }
                return Err("a serial type is cut off");
            };
            types = &types[length..];
            let value_bytes = serial_type_bytes(serial_type).ok_or("a serial type is unknown")?;
            let (stored, rest) = body
                .split_at_checked(to_index(value_bytes))
                .ok_or("a value passes the record's end")?;
            *value = value_of(serial_type, stored, body);
            body = rest;
        }
        Ok(values)
    }

    /// The serial types of a record, and its body.
    #[inline]
    fn split(bytes: &'a [u8]) -> Result<(&'a [u8], &'a [u8]), &'static str> {
        let (header_bytes, start) = read_varint(bytes).ok_or("the record has no header")?;
        let header_bytes = usize::try_from(header_bytes).unwrap_or(usize::MAX);
        if header_bytes < start || header_bytes > bytes.len() {
            return Err("the record's header passes its end");
        }
        Ok((&bytes[start..header_bytes], &bytes[header_bytes..]))
    }

    /// The record as it is stored.
    #[inline]
    #[must_use]
    pub const fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// The columns of a record, in order, of which only those are looked at and checked that are taken.
    ///
    /// # Errors
    /// If the record has no head.
    #[inline]
    pub fn unchecked_columns(bytes: &'a [u8]) -> Result<RecordColumns<'a>, &'static str> {
        let (types, body) = Self::split(bytes)?;
        Ok(RecordColumns { types, body })
    }

    /// How many columns are stored.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.columns().count()
    }

    /// The value of column `index`, without decoding the others; NULL past the last.
    #[inline]
    #[must_use]
    pub fn get(&self, index: usize) -> ValueRef<'a> {
        let mut columns = self.columns();
        for _ in 0..index {
            if !columns.skip_one() {
                return ValueRef::Null;
            }
        }
        columns.next().unwrap_or(ValueRef::Null)
    }

    /// All stored values, in order.
    #[inline]
    #[must_use]
    pub fn columns(&self) -> RecordColumns<'a> {
        RecordColumns { types: self.types, body: self.body }
    }
}

impl<'a> RecordColumns<'a> {
    /// Passes over one column; false where there is none.
    #[inline]
    pub fn skip_one(&mut self) -> bool {
        self.take_one().is_some()
    }

    #[inline]
    fn take_one(&mut self) -> Option<(u64, &'a [u8])> {
        let (serial_type, length) = read_varint(self.types)?;
        let value_bytes = serial_type_bytes(serial_type)?;
        let (value, rest) = self.body.split_at_checked(to_index(value_bytes))?;
        self.types = &self.types[length..];
        self.body = rest;
        Some((serial_type, value))
    }

    /// The next value, NULL past the last.
    ///
    /// # Errors
    /// If it is cut off.
    #[inline]
    pub fn next_or_null(&mut self) -> Result<ValueRef<'a>, &'static str> {
        match self.next() {
            Some(value) => Ok(value),
            None if self.types.is_empty() => Ok(ValueRef::Null),
            None => Err("a value passes the record's end"),
        }
    }
}

impl<'a> Iterator for RecordColumns<'a> {
    type Item = ValueRef<'a>;

    #[inline]
    fn next(&mut self) -> Option<ValueRef<'a>> {
        let ahead = self.body;
        let (serial_type, value) = self.take_one()?;
        Some(value_of(serial_type, value, ahead))
    }
}

/// The value of a serial type that a file may hold, whose bytes are `value`, the first of `body`.
#[inline]
fn value_of<'a>(serial_type: u64, value: &'a [u8], body: &[u8]) -> ValueRef<'a> {
    match serial_type {
        13.. if serial_type % 2 == 1 => ValueRef::Text(value),
        12.. => ValueRef::Blob(value),
        1..=6 => ValueRef::Integer(integer_at(body, value.len())),
        0 => ValueRef::Null,
        7 => match f64::from_bits(integer_of(value).cast_unsigned()) {
            number if number.is_nan() => ValueRef::Null,
            number => ValueRef::Real(number),
        },
        8 => ValueRef::Integer(0),
        _ => ValueRef::Integer(1),
    }
}

/// Appends the record of `values` to `out`. Allocates only where `out` has to grow.
pub fn encode_record<'v, V>(values: V, out: &mut Vec<u8>)
where
    V: IntoIterator<Item = ValueRef<'v>> + Clone,
{
    let types_bytes: usize =
        values.clone().into_iter().map(|value| varint_bytes(serial_type_of(value))).sum();
    let mut header_bytes = types_bytes + 1;
    // The header's length counts its own varint, which may grow by that.
    while types_bytes + varint_bytes(header_bytes as u64) != header_bytes {
        header_bytes = types_bytes + varint_bytes(header_bytes as u64);
    }
    push_varint(header_bytes as u64, out);
    for value in values.clone() {
        push_varint(serial_type_of(value), out);
    }
    for value in values {
        match value {
            ValueRef::Null => {}
            ValueRef::Integer(number) => {
                let width = integer_bytes(number);
                out.extend_from_slice(&number.to_be_bytes()[8 - width..]);
            }
            ValueRef::Real(number) if number.is_nan() => {}
            ValueRef::Real(number) => out.extend_from_slice(&number.to_bits().to_be_bytes()),
            ValueRef::Text(bytes) | ValueRef::Blob(bytes) => out.extend_from_slice(bytes),
        }
    }
}

/// Bytes of a value in a record, with those of its serial type.
pub(crate) fn value_bytes(value: ValueRef<'_>) -> u64 {
    let serial_type = serial_type_of(value);
    let body_bytes = serial_type_bytes(serial_type).expect("values have types that files may hold");
    varint_bytes(serial_type) as u64 + body_bytes
}

/// The serial type under which a value is stored: the shortest; NaN is NULL, as in SQLite.
fn serial_type_of(value: ValueRef<'_>) -> u64 {
    match value {
        ValueRef::Null => 0,
        ValueRef::Integer(0) => 8,
        ValueRef::Integer(1) => 9,
        ValueRef::Integer(number) => match integer_bytes(number) {
            6 => 5,
            8 => 6,
            width => width as u64,
        },
        ValueRef::Real(number) if number.is_nan() => 0,
        ValueRef::Real(_) => 7,
        ValueRef::Blob(bytes) => 12 + 2 * bytes.len() as u64,
        ValueRef::Text(bytes) => 13 + 2 * bytes.len() as u64,
    }
}

/// Body bytes of a serial type; `None` for the two that no file may hold.
#[inline]
#[must_use]
pub const fn serial_type_bytes(serial_type: u64) -> Option<u64> {
    if serial_type >= 12 {
        return Some((serial_type - 12) / 2);
    }
    #[allow(clippy::cast_possible_truncation, reason = "below 12")]
    let bytes = FIXED_BYTES[serial_type as usize];
    if bytes == RESERVED { None } else { Some(bytes as u64) }
}

const fn integer_bytes(number: i64) -> usize {
    // Bits of the magnitude, and one for the sign.
    let magnitude = if number < 0 { !number } else { number };
    match 65 - magnitude.leading_zeros() {
        _ if number == 0 || number == 1 => 0,
        0..=8 => 1,
        9..=16 => 2,
        17..=24 => 3,
        25..=32 => 4,
        33..=48 => 6,
        _ => 8,
    }
}

/// The big-endian integer of `length` bytes, one to eight, at the start of `body`. Where the body goes on
/// it takes one load and one shift.
#[inline]
fn integer_at(body: &[u8], length: usize) -> i64 {
    match body.first_chunk() {
        Some(word) => i64::from_be_bytes(*word) >> (64 - 8 * length),
        None => integer_of(&body[..length]),
    }
}

/// A big-endian integer of up to eight bytes, with its sign.
#[inline]
fn integer_of(bytes: &[u8]) -> i64 {
    let sign = if bytes.first().is_some_and(|&byte| byte >= 0x80) { -1_i64 } else { 0 };
    bytes.iter().fold(sign, |number, &byte| number << 8 | i64::from(byte))
}

#[cfg(test)]
mod tests {
    use super::super::value::Value;
    use super::*;
    use proptest::prelude::*;

    fn round_trip(values: &[Value]) -> (Vec<u8>, Vec<Value>) {
        let mut bytes = Vec::new();
        encode_record(values.iter().map(Value::as_ref), &mut bytes);
        let view = RecordView::new(&bytes).unwrap();
        assert_eq!(view.column_count(), values.len());
        let decoded: Vec<Value> =
            (0..values.len()).map(|index| view.get(index).to_value()).collect();
        let first: [ValueRef<'_>; 5] = RecordView::first_values(&bytes).unwrap();
        assert!((0..5).all(|index| first[index] == view.get(index)));
        assert_eq!(view.get(values.len()), ValueRef::Null);
        assert_eq!(view.columns().map(ValueRef::to_value).collect::<Vec<_>>(), decoded);
        (bytes, decoded)
    }

    #[test]
    fn the_bytes_of_a_value_are_those_that_a_record_has_for_it() {
        let integers = [0, 1, -1, 127, 128, 1 << 23, 1 << 47, i64::MIN];
        let mut values: Vec<Value> = integers.map(Value::Integer).to_vec();
        values.extend([Value::Null, Value::Real(0.5), Value::Real(f64::NAN)]);
        // Both sides of where a serial type takes another byte.
        values.extend([57, 58, 8185, 8186].map(|length| Value::Text("x".repeat(length))));
        values.extend([57, 58, 8185, 8186].map(|length| Value::Blob(vec![0; length])));
        for value in values {
            let mut record = Vec::new();
            encode_record(std::iter::once(value.as_ref()), &mut record);
            // And a byte that says how long the head is.
            assert_eq!(value_bytes(value.as_ref()), record.len() as u64 - 1, "{value:?}");
        }
    }

    #[test]
    fn integers_take_the_shortest_serial_type() {
        for (number, length) in [
            (0, 2),
            (1, 2),
            (-1, 3),
            (127, 3),
            (-128, 3),
            (128, 4),
            (32_768, 5),
            (8_388_607, 5),
            (8_388_608, 6),
            (1 << 31, 8),
            (-(1 << 47), 8),
            (1 << 47, 10),
            (i64::MIN, 10),
        ] {
            let values = [Value::Integer(number)];
            let (bytes, decoded) = round_trip(&values);
            assert_eq!((bytes.len(), &decoded[..]), (length, &values[..]), "{number}");
        }
    }

    #[test]
    fn a_long_header_counts_its_own_length() {
        for column_count in [125, 126, 127, 128, 16_379, 16_380, 16_381, 16_382, 16_383] {
            let values = vec![Value::Integer(1); column_count];
            assert_eq!(round_trip(&values).1, values);
        }
    }

    #[test]
    fn not_a_number_is_stored_as_null() {
        assert_eq!(round_trip(&[Value::Real(f64::NAN)]).1, [Value::Null]);
    }

    #[test]
    fn records_that_break_a_rule_are_refused() {
        for bytes in [
            &[][..],
            &[0],
            &[3, 1],
            &[2, 1],
            &[2, 10],
            &[2, 0x81],
            &[10, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF],
        ] {
            assert!(RecordView::new(bytes).is_err(), "{bytes:?}");
            assert!(RecordView::first_values::<9>(bytes).is_err(), "{bytes:?}");
        }
    }

    fn any_value() -> impl Strategy<Value = Value> {
        prop_oneof![
            Just(Value::Null),
            (any::<i64>(), 0_u32..64).prop_map(|(number, shift)| Value::Integer(number >> shift)),
            (-1e300_f64..1e300).prop_map(Value::Real),
            "\\PC{0,80}".prop_map(Value::Text),
            proptest::collection::vec(any::<u8>(), 0..200).prop_map(Value::Blob),
        ]
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(values in proptest::collection::vec(any_value(), 0..40)) {
            prop_assert_eq!(round_trip(&values).1, values);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in proptest::collection::vec(any::<u8>(), 0..60)) {
            let first = RecordView::first_values::<3>(&bytes);
            if let Ok(view) = RecordView::new(&bytes) {
                prop_assert_eq!(first, Ok([0, 1, 2].map(|index| view.get(index))));
                prop_assert!(view.columns().count() <= bytes.len());
                let _ = view.get(bytes.len());
            }
        }
    }
}
