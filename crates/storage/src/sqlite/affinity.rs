//! What a column's declared type makes of values (sqlite.org, Datatypes In SQLite, section 3).

use super::value::{Value, ValueRef};

/// The kind of value that a column prefers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Affinity {
    /// None: whatever is given.
    Blob,
    /// Text; numbers are written out.
    Text,
    /// Numbers; text that is one becomes one.
    Numeric,
    /// Integers, otherwise as `Numeric`.
    Integer,
    /// Doubles, which whole numbers become, too.
    Real,
}

impl Affinity {
    /// The affinity of a declared type; `ANY` keeps what it is given in STRICT tables only.
    #[must_use]
    pub fn of_type(declared_type: &str, strict: bool) -> Self {
        let upper = declared_type.to_ascii_uppercase();
        let has = |word: &str| upper.contains(word);
        if has("INT") {
            Self::Integer
        } else if has("CHAR") || has("CLOB") || has("TEXT") {
            Self::Text
        } else if has("BLOB") || upper.is_empty() || strict && upper == "ANY" {
            Self::Blob
        } else if has("REAL") || has("FLOA") || has("DOUB") {
            Self::Real
        } else {
            Self::Numeric
        }
    }

    /// Whether a value can be stored as it is.
    #[inline]
    #[must_use]
    pub fn accepts(self, value: ValueRef<'_>) -> bool {
        match (self, value) {
            (Self::Blob, _) | (_, ValueRef::Null | ValueRef::Blob(_)) => true,
            (Self::Text, value) => matches!(value, ValueRef::Text(_)),
            (Self::Real, value) => matches!(value, ValueRef::Real(_)),
            (Self::Integer | Self::Numeric, value) => matches!(value, ValueRef::Integer(_)),
        }
    }

    /// The value that is stored for a given one.
    #[must_use]
    pub fn apply(self, value: Value) -> Value {
        match (self, value) {
            (Self::Text, Value::Integer(number)) => Value::Text(number.to_string()),
            (Self::Text, Value::Real(number)) => Value::Text(text_of(number)),
            (Self::Real, Value::Integer(number)) => Value::Real(double_of(number)),
            (Self::Real, Value::Text(text)) => match number_in(&text) {
                Some(Value::Integer(number)) => Value::Real(double_of(number)),
                Some(number) => number,
                None => Value::Text(text),
            },
            (Self::Integer | Self::Numeric, Value::Text(text)) => match number_in(&text) {
                Some(Value::Real(number)) => whole_if_exact(number),
                Some(number) => number,
                None => Value::Text(text),
            },
            (Self::Integer | Self::Numeric, Value::Real(number)) => whole_if_exact(number),
            (_, value) => value,
        }
    }
}

#[allow(clippy::cast_precision_loss, reason = "the conversion that SQLite makes")]
const fn double_of(number: i64) -> f64 {
    number as f64
}

/// A double that is an integer becomes one, as far as both are exact.
fn whole_if_exact(number: f64) -> Value {
    /// 2^51: SQLite converts only where no bit can be in doubt.
    const LIMIT: f64 = 2_251_799_813_685_248.0;
    if number.fract() == 0.0 && (-LIMIT..LIMIT).contains(&number) {
        #[allow(clippy::cast_possible_truncation, reason = "whole, and in range")]
        return Value::Integer(number as i64);
    }
    Value::Real(number)
}

/// The number that a text is, spaces around it left out.
fn number_in(text: &str) -> Option<Value> {
    let text = text.trim_matches([' ', '\t', '\n', '\u{b}', '\u{c}', '\r']);
    let digits = text.trim_start_matches(['+', '-']);
    if !digits.starts_with(|character: char| character.is_ascii_digit() || character == '.') {
        return None;
    }
    text.parse().map(Value::Integer).or_else(|_| text.parse().map(Value::Real)).ok()
}

/// A double as SQLite writes it: 15 significant digits, always with a dot.
fn text_of(number: f64) -> String {
    if !number.is_finite() {
        return if number > 0.0 { "Inf".to_owned() } else { "-Inf".to_owned() };
    }
    let scientific = format!("{number:.14e}");
    let (mantissa, exponent) = scientific.split_once('e').expect("the format has an exponent");
    let exponent: i32 = exponent.parse().expect("the exponent is a number");
    if (-4..15).contains(&exponent) {
        let decimals = usize::try_from(14 - exponent).expect("the exponent is below 15");
        return without_zeros(&format!("{number:.decimals$}"));
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{}e{sign}{:02}", without_zeros(mantissa), exponent.abs())
}

/// Without zeros at the end, but for one after the dot.
fn without_zeros(text: &str) -> String {
    let text = text.trim_end_matches('0');
    match text.split_once('.') {
        Some((_, "")) => format!("{text}0"),
        Some(_) => text.to_owned(),
        None => format!("{text}.0"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_become_text_as_in_sqlite() {
        for (number, text) in [
            (0.0, "0.0"),
            (1.0, "1.0"),
            (-100.0, "-100.0"),
            (0.1, "0.1"),
            (1e300, "1.0e+300"),
            (1.5e-7, "1.5e-07"),
            (0.0001, "0.0001"),
            (123_456_789_012_345.0, "123456789012345.0"),
            (1e15, "1.0e+15"),
            (2.0 / 3.0, "0.666666666666667"),
            (f64::NEG_INFINITY, "-Inf"),
        ] {
            assert_eq!(Affinity::Text.apply(Value::Real(number)), Value::from(text));
        }
    }

    #[test]
    fn types_have_the_affinity_of_the_first_rule_that_fits() {
        for (declared, affinity) in [
            ("CHARINT", Affinity::Integer),
            ("VARCHAR()", Affinity::Text),
            ("", Affinity::Blob),
            ("DOUBLE PRECISION", Affinity::Real),
            ("DECIMAL()", Affinity::Numeric),
            ("ANY", Affinity::Numeric),
        ] {
            assert_eq!(Affinity::of_type(declared, false), affinity, "{declared}");
        }
        assert_eq!(Affinity::of_type("ANY", true), Affinity::Blob);
    }
}
