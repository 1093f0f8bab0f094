//! Keys of entries, and the ranges of keys in which something is looked for.
//!
//! ```text
//!   of elements   class 4 │ label
//!   of values     class 4 │ 01 │ text, 64 bytes of it at most │ 00 whole, 01 cut │ label
//!                 class 4 │ 02 │ number 8, in the order of numbers               │ label
//!                 class 4 │ 03 │ label          of what the key cannot say: look at the node
//! ```
//!
//! 1. Text of XML has no byte below `09`, so the end of a text in a key is found, and a text comes
//!    before those that begin with it. Strings of JSON may have all; of those with `00` or `01` in
//!    their beginning the key says nothing.
//! 2. With the longest label a key has [`KEY_BYTES_MAX`] bytes, which fit pages from 2 KiB on. Beside
//!    longer labels than [`LABEL_BYTES_BESIDE`] there is no room for a value.
//! 3. A lookup finds all nodes that it looks for, and perhaps others: who looks compares the values.

use super::IndexKind;
use crate::format::DocumentFormat;
use crate::label::LABEL_BYTES_MAX;
use crate::synopsis::ClassId;
use std::ops::Bound;

/// How many bytes of a text are in a key.
pub(super) const VALUE_BYTES: usize = 64;
/// The longest key.
const KEY_BYTES_MAX: usize = CLASS_BYTES + 1 + LABEL_BYTES_MAX;
/// The longest label beside a value.
const LABEL_BYTES_BESIDE: usize = KEY_BYTES_MAX - CLASS_BYTES - 1 - VALUE_BYTES - 1;
const CLASS_BYTES: usize = 4;
const NUMBER_BYTES: usize = 8;

const TEXT: u8 = 1;
const NUMBER: u8 = 2;
const UNSURE: u8 = 3;
const WHOLE: u8 = 0;
const CUT: u8 = 1;

/// What is looked for among the values of a class.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Sought<'s> {
    /// Values that are this text.
    Text(&'s str),
    /// Values that begin with this text.
    Beginning(&'s str),
    /// Values that are numbers between these.
    Numbers(Bound<f64>, Bound<f64>),
}

/// The beginning of a value: as many bytes as a key may have, and one more if there are more.
#[derive(Clone, Debug, Default)]
pub(crate) struct Beginning {
    bytes: Vec<u8>,
}

/// Keys from the first up to, not including, the second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KeyRange {
    pub(super) lower: Vec<u8>,
    pub(super) upper: Vec<u8>,
}

impl Beginning {
    /// Adds more of the value.
    #[inline]
    pub(crate) fn push(&mut self, part: &[u8]) {
        let room = VALUE_BYTES + 1 - self.bytes.len();
        self.bytes.extend_from_slice(&part[..part.len().min(room)]);
    }

    pub(crate) fn clear(&mut self) {
        self.bytes.clear();
    }

    /// Whether its end is found in a key.
    fn has_end(&self) -> bool {
        self.bytes.iter().all(|&byte| byte > CUT)
    }

    /// Whether nothing that follows would change a key.
    pub(crate) fn is_full(&self) -> bool {
        self.bytes.len() > VALUE_BYTES
    }
}

/// Whether a sought value is one that this kind of index knows.
pub(super) const fn is_known(kind: IndexKind, sought: Sought<'_>) -> bool {
    match sought {
        Sought::Text(_) | Sought::Beginning(_) => matches!(kind, IndexKind::Text),
        Sought::Numbers(..) => matches!(kind, IndexKind::Number),
    }
}

/// The key of an element.
pub(super) fn put_element(class: ClassId, label: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&class.0.to_be_bytes());
    key.extend_from_slice(label);
}

/// The key of a value; false, and nothing in `key`, if the index has none of it: texts that are no
/// numbers are in no index of numbers.
pub(super) fn put_value(
    (kind, format): (IndexKind, DocumentFormat),
    class: ClassId,
    value: &Beginning,
    label: &[u8],
    key: &mut Vec<u8>,
) -> bool {
    let start = key.len();
    key.extend_from_slice(&class.0.to_be_bytes());
    let has_room = label.len() <= LABEL_BYTES_BESIDE;
    match kind {
        IndexKind::Text if has_room && value.has_end() => {
            key.push(TEXT);
            put_text(&value.bytes, key);
            key.push(if value.is_full() { CUT } else { WHOLE });
        }
        IndexKind::Number if !value.is_full() => {
            let text = std::str::from_utf8(&value.bytes).unwrap_or_default();
            let number = crate::xpath::number_of(text, format);
            if number.is_nan() {
                key.truncate(start);
                return false;
            }
            if has_room {
                key.push(NUMBER);
                key.extend_from_slice(&ordered(number));
            } else {
                key.push(UNSURE);
            }
        }
        IndexKind::Number if !value.bytes.iter().all(|&byte| may_be_in_number(byte, format)) => {
            key.truncate(start);
            return false;
        }
        _ => key.push(UNSURE),
    }
    key.extend_from_slice(label);
    true
}

const fn may_be_in_number(byte: u8, format: DocumentFormat) -> bool {
    match byte {
        b'0'..=b'9' | b'.' | b'-' | b' ' | b'\t' | b'\r' | b'\n' => true,
        b'e' | b'E' | b'+' => matches!(format, DocumentFormat::Json),
        _ => false,
    }
}

fn put_text(text: &[u8], key: &mut Vec<u8>) {
    key.extend_from_slice(&text[..text.len().min(VALUE_BYTES)]);
}

/// Bytes that compare as numbers do.
fn ordered(number: f64) -> [u8; NUMBER_BYTES] {
    // Both zeros are the same number.
    let bits = if number == 0.0 { 0 } else { number.to_bits() };
    let sign = 1 << 63;
    (if bits & sign == 0 { bits | sign } else { !bits }).to_be_bytes()
}

/// Where all elements of a class are.
pub(super) fn elements(class: ClassId) -> KeyRange {
    let mut lower = Vec::new();
    put_element(class, &[], &mut lower);
    let upper = after(&lower);
    KeyRange { lower, upper }
}

/// Where values of a class may be that are sought.
pub(super) fn values(class: ClassId, sought: Sought<'_>) -> [KeyRange; 2] {
    let begun = |tag: u8| {
        let mut key = class.0.to_be_bytes().to_vec();
        key.push(tag);
        key
    };
    let range = match sought {
        Sought::Text(text) => {
            let mut lower = begun(TEXT);
            put_text(text.as_bytes(), &mut lower);
            lower.push(if text.len() > VALUE_BYTES { CUT } else { WHOLE });
            let upper = after(&lower);
            KeyRange { lower, upper }
        }
        Sought::Beginning(text) => {
            let mut lower = begun(TEXT);
            put_text(text.as_bytes(), &mut lower);
            let upper = after(&lower);
            KeyRange { lower, upper }
        }
        Sought::Numbers(least, greatest) => {
            let key = |number: f64| [begun(NUMBER), ordered(number).to_vec()].concat();
            let lower = match least {
                Bound::Unbounded => begun(NUMBER),
                Bound::Included(number) => key(number),
                Bound::Excluded(number) => after(&key(number)),
            };
            let upper = match greatest {
                Bound::Unbounded => after(&begun(NUMBER)),
                Bound::Included(number) => after(&key(number)),
                Bound::Excluded(number) => key(number),
            };
            KeyRange { lower, upper }
        }
    };
    let lower = begun(UNSURE);
    let upper = after(&lower);
    [range, KeyRange { lower, upper }]
}

/// The first key behind all that begin with `key`, which has a byte that is not the last one.
fn after(key: &[u8]) -> Vec<u8> {
    let mut after = key.to_vec();
    while after.last() == Some(&0xFF) {
        after.pop();
    }
    if let Some(last) = after.last_mut() {
        *last += 1;
    }
    after
}

/// The label of a key; `None` if it is none of this kind of index.
pub(super) fn label_of(kind: IndexKind, key: &[u8]) -> Option<&[u8]> {
    let (_, rest) = key.split_at_checked(CLASS_BYTES)?;
    if kind == IndexKind::Elements {
        return Some(rest);
    }
    let (&tag, rest) = rest.split_first()?;
    match tag {
        TEXT => {
            let end = rest.iter().position(|&byte| matches!(byte, WHOLE | CUT))?;
            Some(&rest[end + 1..])
        }
        NUMBER => rest.get(NUMBER_BYTES..),
        UNSURE => Some(rest),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASS: ClassId = ClassId(258);

    fn beginning(value: &str) -> Beginning {
        let mut beginning = Beginning::default();
        // In parts, as values come.
        value.as_bytes().chunks(7).for_each(|part| beginning.push(part));
        beginning
    }

    fn key(kind: IndexKind, value: &str, label: &[u8]) -> Option<Vec<u8>> {
        let mut key = Vec::new();
        let format = DocumentFormat::Xml;
        put_value((kind, format), CLASS, &beginning(value), label, &mut key).then_some(key)
    }

    fn is_found(kind: IndexKind, value: &str, sought: Sought<'_>) -> bool {
        let Some(key) = key(kind, value, &[0x37, 0x01, 0x37]) else { return false };
        values(CLASS, sought).iter().any(|range| range.lower <= key && key < range.upper)
    }

    #[test]
    fn keys_have_their_bytes_for_ever() {
        let label = [0x37, 0x38];
        let mut element = Vec::new();
        put_element(CLASS, &label, &mut element);
        assert_eq!(element, [0, 0, 1, 2, 0x37, 0x38]);
        let text = key(IndexKind::Text, "ab", &label).unwrap();
        assert_eq!(text, [0, 0, 1, 2, 1, b'a', b'b', 0, 0x37, 0x38]);
        let number = key(IndexKind::Number, " 1 ", &label).unwrap();
        assert_eq!(number, [0, 0, 1, 2, 2, 0xBF, 0xF0, 0, 0, 0, 0, 0, 0, 0x37, 0x38]);
        let long = key(IndexKind::Text, &"x".repeat(65), &label).unwrap();
        assert_eq!((long.len(), long[69]), (72, 1));
        let exact = key(IndexKind::Text, &"x".repeat(64), &label).unwrap();
        assert_eq!((exact.len(), exact[69]), (72, 0));
        let far = key(IndexKind::Text, "ab", &[0x37; LABEL_BYTES_BESIDE + 1]).unwrap();
        assert_eq!(far[..6], [0, 0, 1, 2, 3, 0x37]);
        for kind in [IndexKind::Text, IndexKind::Number] {
            let value = if kind == IndexKind::Text { "x".repeat(99) } else { "1".to_owned() };
            for label in [&[0x37; LABEL_BYTES_MAX][..], &[0x37; LABEL_BYTES_BESIDE]] {
                let key = key(kind, &value, label).unwrap();
                assert!(key.len() <= KEY_BYTES_MAX, "{}", key.len());
                assert_eq!(label_of(kind, &key), Some(label));
            }
        }
    }

    #[test]
    fn what_is_sought_is_found_and_little_else() {
        let long = "l".repeat(70);
        let texts = ["", "a", "ab", "b", "\t", "ä", &long, &long[..64], &long[..65]];
        for value in texts {
            for text in texts {
                let is_same = value == text || (value.len() > 64 && text.len() > 64);
                assert_eq!(is_found(IndexKind::Text, value, Sought::Text(text)), is_same);
                let begins = value.starts_with(&text[..text.len().min(64)]);
                assert_eq!(is_found(IndexKind::Text, value, Sought::Beginning(text)), begins);
            }
        }
        let numbers = ["-12.5", "-0", "0", "0.5", "7", " 7 ", "70", "1000000"];
        let bounds = |number: f64| [Bound::Included(number), Bound::Excluded(number)];
        for value in numbers {
            let parsed: f64 = value.trim().parse().unwrap();
            for number in [-12.5, -1.0, 0.0, 0.5, 7.0, 1e6] {
                let all = Bound::Unbounded;
                for bound in bounds(number) {
                    let is_above = match bound {
                        Bound::Excluded(bound) => parsed > bound,
                        _ => parsed >= number,
                    };
                    let is_below = match bound {
                        Bound::Excluded(bound) => parsed < bound,
                        _ => parsed <= number,
                    };
                    let found = |sought| is_found(IndexKind::Number, value, sought);
                    assert_eq!(found(Sought::Numbers(bound, all)), is_above, "{value} {bound:?}");
                    assert_eq!(found(Sought::Numbers(all, bound)), is_below, "{value} {bound:?}");
                }
            }
        }
        for none in ["", "x", "1e3", "+1", &long] {
            assert_eq!(key(IndexKind::Number, none, &[0x37]), None);
        }
        // Where a key cannot say which number it is, each lookup looks at the node.
        let padded = format!("{}7", "0".repeat(70));
        assert!(is_found(
            IndexKind::Number,
            &padded,
            Sought::Numbers(Bound::Unbounded, Bound::Excluded(0.0))
        ));
    }
}
