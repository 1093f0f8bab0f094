//! Values as bytes whose order is that of the values: keys of trees.
//!
//! ```text
//!   null     05
//!   integer  10, then 8 bytes big-endian with the sign bit flipped
//!   real     11, then 8 bytes: positive with the sign bit flipped, negative with all bits flipped
//!   text     20, then the bytes with 00 written as 00 FF, then 00 00
//!   blob     30, likewise
//! ```
//!
//! 1. For values of one column: encoded(a) < encoded(b) exactly if a < b, nulls first, text and blobs
//!    by bytes. So also for tuples, written one after another.
//! 2. No encoding is a prefix of another; -0.0 is stored as 0.0, and every NaN as one NaN after all
//!    numbers.

use crate::StorageError;
use crate::sqlite::{Value, ValueRef};

const NULL: u8 = 0x05;
const INTEGER: u8 = 0x10;
const REAL: u8 = 0x11;
const TEXT: u8 = 0x20;
const BLOB: u8 = 0x30;
const SIGN: u64 = 1 << 63;

/// Appends the key bytes of `value`.
pub fn encode_key(value: ValueRef<'_>, key: &mut Vec<u8>) {
    match value {
        ValueRef::Null => key.push(NULL),
        ValueRef::Integer(number) => {
            key.push(INTEGER);
            key.extend((number.cast_unsigned() ^ SIGN).to_be_bytes());
        }
        ValueRef::Real(number) => {
            key.push(REAL);
            key.extend(ordered_bits(number).to_be_bytes());
        }
        ValueRef::Text(text) => {
            key.push(TEXT);
            escape(text, key);
        }
        ValueRef::Blob(bytes) => {
            key.push(BLOB);
            escape(bytes, key);
        }
    }
}

/// Reads one value off the front of `key`; gives back the rest.
///
/// # Errors
/// If the bytes are no key.
pub fn decode_key(key: &[u8]) -> Result<(Value, &[u8]), StorageError> {
    let (&tag, rest) = key.split_first().ok_or_else(|| corrupt("it ends early"))?;
    match tag {
        NULL => Ok((Value::Null, rest)),
        INTEGER => {
            let (bits, rest) = word(rest)?;
            Ok((Value::Integer((bits ^ SIGN).cast_signed()), rest))
        }
        REAL => {
            let (bits, rest) = word(rest)?;
            let bits = if bits & SIGN == 0 { !bits } else { bits ^ SIGN };
            Ok((Value::Real(f64::from_bits(bits)), rest))
        }
        TEXT => {
            let (bytes, rest) = unescape(rest)?;
            let text = String::from_utf8(bytes).map_err(|_| corrupt("text is not UTF-8"))?;
            Ok((Value::Text(text), rest))
        }
        BLOB => {
            let (bytes, rest) = unescape(rest)?;
            Ok((Value::Blob(bytes), rest))
        }
        _ => Err(corrupt("no value starts like this")),
    }
}

/// The smallest key after all keys that start with `prefix`, if there is one.
#[must_use]
pub fn after_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let last = prefix.iter().rposition(|&byte| byte != 0xFF)?;
    let mut end = prefix[..=last].to_vec();
    end[last] += 1;
    Some(end)
}

/// The length of the first `count` values of a key, and whether one of them is null.
///
/// # Errors
/// If the bytes are no key of so many values.
#[inline]
pub fn leading_values(key: &[u8], count: usize) -> Result<(usize, bool), StorageError> {
    let (mut at, mut has_null) = (0, false);
    for _ in 0..count {
        let tag = *key.get(at).ok_or_else(|| corrupt("it ends early"))?;
        at += match tag {
            NULL => 1,
            INTEGER | REAL => 9,
            TEXT | BLOB => 1 + escaped_bytes(&key[at + 1..])?,
            _ => return Err(corrupt("no value starts like this")),
        };
        has_null |= tag == NULL;
    }
    if at > key.len() { Err(corrupt("it ends early")) } else { Ok((at, has_null)) }
}

/// The values of an index entry, and the row's number at its end: nine bytes, as integers are written.
///
/// # Errors
/// If it does not end like that.
#[inline]
pub fn split_row_number(entry: &[u8]) -> Result<(&[u8], i64), StorageError> {
    let wrong = || StorageError::Corrupt {
        place: "an index entry".to_owned(),
        what: "it does not end in a row's number".to_owned(),
    };
    let (values, number) = entry.split_last_chunk::<9>().ok_or_else(wrong)?;
    let [INTEGER, bytes @ ..] = number else { return Err(wrong()) };
    Ok((values, (u64::from_be_bytes(*bytes) ^ SIGN).cast_signed()))
}

/// Bytes of a text or blob up to its end, that included.
fn escaped_bytes(key: &[u8]) -> Result<usize, StorageError> {
    let mut at = 0;
    loop {
        let zero = key[at..].iter().position(|&byte| byte == 0);
        at += zero.ok_or_else(|| corrupt("no end"))? + 2;
        match key.get(at - 1) {
            Some(0x00) => return Ok(at),
            Some(0xFF) => {}
            _ => return Err(corrupt("a zero byte is not escaped")),
        }
    }
}

fn ordered_bits(number: f64) -> u64 {
    let number = if number.is_nan() { f64::NAN } else { number + 0.0 };
    let bits = number.to_bits();
    if bits & SIGN == 0 { bits ^ SIGN } else { !bits }
}

fn escape(bytes: &[u8], key: &mut Vec<u8>) {
    for piece in bytes.split_inclusive(|&byte| byte == 0) {
        key.extend(piece);
        if piece.last() == Some(&0) {
            key.push(0xFF);
        }
    }
    key.extend([0, 0]);
}

fn unescape(mut key: &[u8]) -> Result<(Vec<u8>, &[u8]), StorageError> {
    let mut bytes = Vec::new();
    loop {
        let zero = key.iter().position(|&byte| byte == 0).ok_or_else(|| corrupt("no end"))?;
        bytes.extend(&key[..zero]);
        let after = key.get(zero + 1).ok_or_else(|| corrupt("it ends early"))?;
        let rest = &key[zero + 2..];
        match after {
            0x00 => return Ok((bytes, rest)),
            0xFF => bytes.push(0),
            _ => return Err(corrupt("a zero byte is not escaped")),
        }
        key = rest;
    }
}

fn word(key: &[u8]) -> Result<(u64, &[u8]), StorageError> {
    let (bytes, rest) = key.split_first_chunk().ok_or_else(|| corrupt("it ends early"))?;
    Ok((u64::from_be_bytes(*bytes), rest))
}

fn corrupt(what: &str) -> StorageError {
    StorageError::Corrupt { place: "a key".to_owned(), what: what.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encoded(value: ValueRef<'_>) -> Vec<u8> {
        let mut key = Vec::new();
        encode_key(value, &mut key);
        key
    }

    proptest! {
        #[test]
        fn integers_keep_their_order(a: i64, b: i64) {
            let keys = (encoded(ValueRef::Integer(a)), encoded(ValueRef::Integer(b)));
            prop_assert_eq!(a.cmp(&b), keys.0.cmp(&keys.1));
            prop_assert_eq!(decode_key(&keys.0).unwrap().0, Value::Integer(a));
        }

        #[test]
        fn reals_keep_their_order(a: f64, b: f64) {
            let keys = (encoded(ValueRef::Real(a)), encoded(ValueRef::Real(b)));
            if let Some(order) = a.partial_cmp(&b) {
                prop_assert_eq!(order, keys.0.cmp(&keys.1));
            }
        }

        #[test]
        fn blobs_keep_their_order_and_come_back(
            a in proptest::collection::vec(prop_oneof![Just(0_u8), Just(0xFF), any::<u8>()], 0..9),
            b in proptest::collection::vec(prop_oneof![Just(0_u8), Just(0xFF), any::<u8>()], 0..9),
        ) {
            let mut keys = (encoded(ValueRef::Blob(&a)), encoded(ValueRef::Blob(&b)));
            prop_assert_eq!(a.cmp(&b), keys.0.cmp(&keys.1));
            keys.0.extend([1, 2]);
            prop_assert_eq!(decode_key(&keys.0).unwrap(), (Value::Blob(a), &[1_u8, 2][..]));
        }

        #[test]
        fn any_bytes_are_a_key_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let _ = decode_key(&bytes);
            let _ = split_row_number(&bytes);
            for count in 0..4 {
                if let Ok((length, _)) = leading_values(&bytes, count) {
                    prop_assert!(length <= bytes.len());
                }
            }
        }

        #[test]
        fn an_entry_is_cut_after_each_of_its_values_and_before_its_number(
            blob in proptest::collection::vec(prop_oneof![Just(0_u8), Just(0xFF), any::<u8>()], 0..9),
            number: i64,
        ) {
            let values = [Value::Real(1.5), Value::Blob(blob), Value::Null, Value::from("a\0")];
            let mut ends = vec![0];
            let mut entry = Vec::new();
            for value in &values {
                encode_key(value.as_ref(), &mut entry);
                ends.push(entry.len());
            }
            let length = entry.len();
            encode_key(ValueRef::Integer(number), &mut entry);
            for (count, &end) in ends.iter().enumerate() {
                prop_assert_eq!(leading_values(&entry, count).unwrap(), (end, count > 2));
            }
            prop_assert_eq!(split_row_number(&entry).unwrap(), (&entry[..length], number));
            prop_assert!(leading_values(&entry, 6).is_err());
        }
    }

    #[test]
    fn numbers_at_the_edges_are_in_order() {
        let reals = [f64::NEG_INFINITY, -1.5, -f64::MIN_POSITIVE, 0.0, 5e-324, 1.0, f64::INFINITY];
        assert!(
            reals
                .windows(2)
                .all(|pair| encoded(ValueRef::Real(pair[0])) < encoded(ValueRef::Real(pair[1])))
        );
        assert_eq!(encoded(ValueRef::Real(-0.0)), encoded(ValueRef::Real(0.0)));
        assert!(encoded(ValueRef::Real(-f64::NAN)) > encoded(ValueRef::Real(f64::INFINITY)));
        assert!(encoded(ValueRef::Null) < encoded(ValueRef::Integer(i64::MIN)));
    }

    #[test]
    fn the_end_of_a_prefix_lies_after_all_that_start_with_it() {
        assert_eq!(after_prefix(&[1, 2]), Some(vec![1, 3]));
        assert_eq!(after_prefix(&[1, 0xFF, 0xFF]), Some(vec![2]));
        assert_eq!(after_prefix(&[0xFF]), None);
    }
}
