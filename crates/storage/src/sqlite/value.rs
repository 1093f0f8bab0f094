//! The five kinds of value that a column can hold, owned and borrowed, and their order.
//!
//! NaN is no value: what holds one reads as NULL.
//!
//! 1. NULL < numbers < text < blobs; integers and doubles compare by their exact values (sqlite.org,
//!    Datatypes In SQLite, section 4.1); text and blobs byte by byte.

use std::cmp::Ordering;

/// A value that owns its bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Value {
    /// The absence of a value.
    #[default]
    Null,
    /// A signed integer of 64 bits.
    Integer(i64),
    /// A floating-point number of 64 bits.
    Real(f64),
    /// Text in UTF-8.
    Text(String),
    /// Bytes that nothing interprets.
    Blob(Vec<u8>),
}

/// A value that lies in a record.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum ValueRef<'a> {
    /// The absence of a value.
    #[default]
    Null,
    /// A signed integer of 64 bits.
    Integer(i64),
    /// A floating-point number of 64 bits.
    Real(f64),
    /// Text: UTF-8 as far as its writer kept to it, which SQLite does not check.
    Text(&'a [u8]),
    /// Bytes that nothing interprets.
    Blob(&'a [u8]),
}

impl Value {
    /// The same value, borrowed.
    #[must_use]
    pub fn as_ref(&self) -> ValueRef<'_> {
        match self {
            Self::Null => ValueRef::Null,
            Self::Integer(number) => ValueRef::Integer(*number),
            Self::Real(number) => ValueRef::Real(*number),
            Self::Text(text) => ValueRef::Text(text.as_bytes()),
            Self::Blob(bytes) => ValueRef::Blob(bytes),
        }
    }
}

impl ValueRef<'_> {
    /// A copy that owns its bytes. Bytes of a text that are no UTF-8 become U+FFFD.
    #[must_use]
    pub fn to_value(self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Integer(number) => Value::Integer(number),
            Self::Real(number) => Value::Real(number),
            Self::Text(bytes) => Value::Text(String::from_utf8_lossy(bytes).into_owned()),
            Self::Blob(bytes) => Value::Blob(bytes.to_vec()),
        }
    }

    /// Whether this is NULL.
    #[must_use]
    pub fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// SQLite's order of all values; NULL equals NULL here, as in ORDER BY.
    #[must_use]
    pub fn compare(&self, other: &ValueRef<'_>) -> Ordering {
        match (self, other) {
            (Self::Integer(left), ValueRef::Integer(right)) => left.cmp(right),
            (Self::Real(left), ValueRef::Real(right)) => {
                left.partial_cmp(right).unwrap_or(Ordering::Equal)
            }
            (Self::Integer(left), ValueRef::Real(right)) => compare_mixed(*left, *right),
            (Self::Real(left), ValueRef::Integer(right)) => compare_mixed(*right, *left).reverse(),
            (Self::Text(left), ValueRef::Text(right))
            | (Self::Blob(left), ValueRef::Blob(right)) => left.cmp(right),
            _ => self.rank().cmp(&other.rank()),
        }
    }

    const fn rank(&self) -> u8 {
        match self {
            Self::Null => 0,
            Self::Integer(_) | Self::Real(_) => 1,
            Self::Text(_) => 2,
            Self::Blob(_) => 3,
        }
    }
}

/// The double that is exactly this integer, if there is one: up to 2^53 there always is.
#[inline]
#[must_use]
pub fn exact_real(number: i64) -> Option<f64> {
    #[allow(clippy::cast_precision_loss, reason = "what was lost is looked for")]
    let real = number as f64;
    (compare_mixed(number, real) == Ordering::Equal).then_some(real)
}

/// The double that a text stands for, in decimal notation or as `inf`. `None` where it is no number, too
/// large for a double, or an integer that the nearest double is not.
#[must_use]
pub fn real_in(text: &str) -> Option<f64> {
    /// Integers of as many digits are doubles.
    const EXACT_DIGITS: usize = 15;
    let real: f64 = text.parse().ok()?;
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    // `12.000` is an integer as much as `12`: only digits other than zero make a fraction.
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_whole = fraction.bytes().all(|digit| digit == b'0')
        && whole.bytes().all(|digit| digit.is_ascii_digit());
    match digits.bytes().next()? {
        b'0'..=b'9' | b'.' if real.is_infinite() => None,
        b'0'..=b'9' if is_whole && whole.len() > EXACT_DIGITS => {
            let whole = whole.trim_start_matches('0');
            let whole = if whole.is_empty() { "0" } else { whole };
            // The shortest notation of a double may end in zeros that it does not have.
            let notations = [format!("{:.0}", real.abs()), real.abs().to_string()];
            notations.iter().any(|notation| notation == whole).then_some(real)
        }
        _ => Some(real).filter(|real| !real.is_nan()),
    }
}

/// Compares exactly: not every integer is a double.
fn compare_mixed(integer: i64, real: f64) -> Ordering {
    /// 2^63, the first double past all integers.
    const LIMIT: f64 = 9_223_372_036_854_775_808.0;
    if real.is_nan() {
        return Ordering::Greater;
    }
    if real >= LIMIT {
        return Ordering::Less;
    }
    if real < -LIMIT {
        return Ordering::Greater;
    }
    #[allow(
        clippy::cast_possible_truncation,
        reason = "truncation is wanted; the range was checked"
    )]
    let whole = real as i64;
    let fraction = real - real.trunc();
    integer.cmp(&whole).then(0.0_f64.partial_cmp(&fraction).unwrap_or(Ordering::Equal))
}

impl From<i64> for Value {
    fn from(number: i64) -> Self {
        Self::Integer(number)
    }
}

impl From<f64> for Value {
    fn from(number: f64) -> Self {
        Self::Real(number)
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl From<&[u8]> for Value {
    fn from(bytes: &[u8]) -> Self {
        Self::Blob(bytes.to_vec())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_all_kinds_stand_in_sqlites_order() {
        let ascending = [
            Value::Null,
            Value::Real(f64::NEG_INFINITY),
            Value::Integer(i64::MIN),
            Value::Real(-1.5),
            Value::Integer(-1),
            Value::Real(-0.5),
            Value::Integer(0),
            Value::Real(0.5),
            Value::Integer(9_007_199_254_740_993),
            Value::Real(9_007_199_254_740_994.0),
            Value::Integer(i64::MAX),
            Value::Real(9.3e18),
            Value::from(""),
            Value::from("a"),
            Value::from("ab"),
            Value::from(&b""[..]),
            Value::from(&b"a"[..]),
        ];
        for (left_index, left) in ascending.iter().enumerate() {
            for (right_index, right) in ascending.iter().enumerate() {
                let order = left.as_ref().compare(&right.as_ref());
                assert_eq!(order, left_index.cmp(&right_index), "{left:?} {right:?}");
            }
        }
        let (odd, even) = (9_007_199_254_740_993, 9_007_199_254_740_992);
        assert_eq!((exact_real(odd), exact_real(even)), (None, Some(9_007_199_254_740_992.0)));
        let same = Value::Integer(3).as_ref().compare(&ValueRef::Real(3.0));
        assert_eq!(same, Ordering::Equal);
    }
    #[test]
    fn texts_are_doubles_unless_an_integer_would_change() {
        for (text, real) in [
            ("0.1", 0.1),
            ("-7", -7.0),
            ("9007199254740992", 9_007_199_254_740_992.0),
            ("0009007199254740992", 9_007_199_254_740_992.0),
            ("100000000000000000000000", 1e23),
            ("18446744073709551616", 18_446_744_073_709_551_616.0),
            ("1e300", 1e300),
            ("0000000000000000000", 0.0),
            ("9007199254740992.0", 9_007_199_254_740_992.0),
            ("-inf", f64::NEG_INFINITY),
        ] {
            assert_eq!(real_in(text), Some(real), "{text}");
        }
        for text in [
            "",
            "x",
            "nan",
            "9007199254740993",
            "9007199254740993.",
            "-9007199254740993",
            "1e400",
            "1".repeat(400).as_str(),
        ] {
            assert_eq!(real_in(text), None, "{text}");
        }
    }
}
