//! Documents of JSON (RFC 8259) as nodes: each value is an element, and what it is called says where it
//! stands.
//!
//! ```text
//!   {"id": 7, "tags": ["a", null], "more": {}}
//!
//!   json            element       the outermost value
//!   ├─ id           element       a member: its key is its name, whatever it is
//!   │  └─ 7         text, Number
//!   ├─ tags         element
//!   │  ├─ _         array item    no name of its own
//!   │  │  └─ a      text, Text
//!   │  └─ _         array item
//!   │     └─        text, Null
//!   └─ more         element
//!      └─           text, EmptyObject
//! ```
//!
//! 1. An element has one text with a type, or members, or items. So what it is follows from what is in
//!    it, in each mapping, and no element has nothing in it.
//! 2. Texts of strings are the strings, without escapes; those of numbers are as they were written;
//!    those of null, `{}` and `[]` have no characters.
//! 3. No two members of an element have the same key.

mod check;
mod export;

pub(crate) use self::check::JsonRules;
pub(crate) use self::export::export;

use crate::record::ValueType;
use crate::xpath::{Fragment, FragmentKind, Node};

/// What the outermost element is called.
pub(crate) const ROOT_NAME: &str = "json";
/// What items of arrays are called in expressions.
pub(crate) const ITEM_NAME: &str = "_";

/// Appends a value that has no members or items, as JSON writes it.
pub(crate) fn put_leaf(value_type: ValueType, text: &[u8], bytes: &mut Vec<u8>) {
    match value_type {
        ValueType::Text => put_string(text, bytes),
        ValueType::Number | ValueType::Boolean => bytes.extend_from_slice(text),
        ValueType::Null => bytes.extend_from_slice(b"null"),
        ValueType::EmptyObject => bytes.extend_from_slice(b"{}"),
        ValueType::EmptyArray => bytes.extend_from_slice(b"[]"),
    }
}

/// Appends a string in quotes.
pub(crate) fn put_string(text: &[u8], bytes: &mut Vec<u8>) {
    bytes.push(b'"');
    put_escaped(text, bytes);
    bytes.push(b'"');
}

/// Appends a string, or a part of one, with escapes where it needs them.
fn put_escaped(text: &[u8], bytes: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let is_special = |byte: &u8| *byte < 0x20 || matches!(byte, b'"' | b'\\');
    let mut rest = text;
    while let Some(at) = rest.iter().position(is_special) {
        bytes.extend_from_slice(&rest[..at]);
        let byte = rest[at];
        match byte {
            b'"' | b'\\' => bytes.extend_from_slice(&[b'\\', byte]),
            b'\n' => bytes.extend_from_slice(b"\\n"),
            b'\r' => bytes.extend_from_slice(b"\\r"),
            b'\t' => bytes.extend_from_slice(b"\\t"),
            0x08 => bytes.extend_from_slice(b"\\b"),
            0x0C => bytes.extend_from_slice(b"\\f"),
            byte => {
                let [high, low] = [byte >> 4, byte & 0x0F].map(|half| DIGITS[usize::from(half)]);
                bytes.extend_from_slice(&[b'\\', b'u', b'0', b'0', high, low]);
            }
        }
        rest = &rest[at + 1..];
    }
    bytes.extend_from_slice(rest);
}

/// Whether a text can be that of a value of this type.
pub(crate) fn fits(value_type: ValueType, text: &[u8]) -> bool {
    match value_type {
        ValueType::Text => std::str::from_utf8(text).is_ok(),
        ValueType::Number => is_number(text),
        ValueType::Boolean => matches!(text, b"true" | b"false"),
        ValueType::Null | ValueType::EmptyObject | ValueType::EmptyArray => text.is_empty(),
    }
}

/// Whether a text is a number as JSON writes them.
fn is_number(text: &[u8]) -> bool {
    let digits = |text: &[u8]| text.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let rest = text.strip_prefix(b"-").unwrap_or(text);
    let whole = digits(rest);
    if whole == 0 || (whole > 1 && rest[0] == b'0') {
        return false;
    }
    let mut rest = &rest[whole..];
    if let Some(after) = rest.strip_prefix(b".") {
        let count = digits(after);
        if count == 0 {
            return false;
        }
        rest = &after[count..];
    }
    if let [b'e' | b'E', after @ ..] = rest {
        let after = match after {
            [b'+' | b'-', after @ ..] => after,
            after => after,
        };
        let count = digits(after);
        if count == 0 {
            return false;
        }
        rest = &after[count..];
    }
    rest.is_empty()
}

/// Appends a node as JSON: an element as its value, the document as its outermost one.
pub(crate) fn write_node(fragment: &Fragment, node: Node, bytes: &mut Vec<u8>) {
    let leaf = |text: Node, bytes: &mut Vec<u8>| {
        put_leaf(fragment.value_type(text), fragment.own_text(text).as_bytes(), bytes);
    };
    match fragment.kind(node) {
        FragmentKind::Document => {
            if let Some(root) = fragment.children(node).next() {
                write_node(fragment, root, bytes);
            }
        }
        FragmentKind::Element => {
            let first = fragment.children(node).next();
            if let Some(text) = first.filter(|&it| fragment.kind(it) == FragmentKind::Text) {
                return leaf(text, bytes);
            }
            let is_array = first.is_some_and(|first| fragment.is_item(first));
            bytes.push(if is_array { b'[' } else { b'{' });
            for child in fragment.children(node) {
                if Some(child) != first {
                    bytes.push(b',');
                }
                if !is_array {
                    put_string(fragment.name(child).local.as_bytes(), bytes);
                    bytes.push(b':');
                }
                write_node(fragment, child, bytes);
            }
            bytes.push(if is_array { b']' } else { b'}' });
        }
        _ => leaf(node, bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_escaped_where_they_need_it_and_nowhere_else() {
        let mut bytes = Vec::new();
        put_string("a\"\\/\u{8}\u{c}\n\r\t\u{0}\u{1f}\u{7f}ä\u{2028}😀".as_bytes(), &mut bytes);
        let written = "\"a\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}ä\u{2028}😀\"";
        assert_eq!(std::str::from_utf8(&bytes), Ok(written));
    }

    #[test]
    fn numbers_are_those_of_the_grammar() {
        for number in ["0", "-0", "10", "0.10", "1e400", "-1.5E-7", "2E+0", "0e0"] {
            assert!(is_number(number.as_bytes()), "{number}");
        }
        for other in ["", "-", "01", "+1", "1.", ".5", "1e", "1e+", "0x1", "1 ", "NaN", "1e5.5"] {
            assert!(!is_number(other.as_bytes()), "{other}");
        }
        assert!(fits(ValueType::Boolean, b"true") && !fits(ValueType::Boolean, b"True"));
        assert!(fits(ValueType::Null, b"") && !fits(ValueType::Null, b"null"));
        assert!(fits(ValueType::Text, "ä".as_bytes()) && !fits(ValueType::Text, b"\xC3"));
    }
}
