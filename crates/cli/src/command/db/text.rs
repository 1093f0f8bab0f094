//! Rows as text: one line each, in the ways that other programs read.
//!
//! | format | a line | null |
//! | --- | --- | --- |
//! | `tsv` | values with tabs between them, as PostgreSQL's COPY writes them | `\N` |
//! | `csv` | as RFC 4180 has it, behind a line with the names | nothing |
//! | `json` | an object by the names of the columns | `null` |
//!
//! 1. In `tsv` tab, newline, return and backslash in a text are `\t`, `\n`, `\r` and `\\`; it is what `load`
//!    reads.
//! 2. What a terminal shows has no control characters in it but those between values (`Output::rows`).
//! 3. A blob is hexadecimal. A number that JSON cannot write, an infinity, is a text there.

use crate::failure::Failure;
use crate::json;
use clap::ValueEnum;
use nandu::{Column, ColumnType, RecordView, Row, Value, ValueRef, real_in};
use serde::{Serialize, Serializer};
use std::fmt;

/// How null is written.
const NULL: &str = "\\N";

/// How rows are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum RowFormat {
    /// Values with tabs between them, which `nandu db load` reads
    Tsv,
    /// Comma-separated values behind a line with the names of the columns
    Csv,
    /// An object in each line
    Json,
}

impl RowFormat {
    /// What stands before the first row.
    pub(super) fn head(self, columns: &[Column]) -> String {
        match self {
            Self::Tsv | Self::Json => String::new(),
            Self::Csv => csv_line(columns.iter().map(|column| column.name.clone())),
        }
    }

    /// A row with the end of its line.
    pub(super) fn line(self, row: &RecordView<'_>, columns: &[Column]) -> String {
        let values = (0..columns.len()).map(|index| row.get(index).to_value());
        match self {
            Self::Tsv => line_of(row, columns.len()) + "\n",
            Self::Csv => csv_line(values.map(|value| match value {
                Value::Null => String::new(),
                Value::Text(text) => text,
                value => shown(value),
            })),
            Self::Json => format!("{}\n", RowObject::of(row, columns)),
        }
    }
}

/// A row as an object of JSON, with its names in the order of the columns, which a map would not keep.
pub(super) struct RowObject(Vec<(String, serde_json::Value)>);

impl RowObject {
    pub(super) fn of(row: &RecordView<'_>, columns: &[Column]) -> Self {
        let value = |index| json_of(row.get(index).to_value());
        let fields = columns.iter().enumerate();
        Self(fields.map(|(index, column)| (column.name.clone(), value(index))).collect())
    }
}

impl Serialize for RowObject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

/// In one line.
impl fmt::Display for RowObject {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = serde_json::to_string(self).map_err(|_| fmt::Error)?;
        formatter.write_str(&json::harmless(text))
    }
}

fn csv_line(fields: impl Iterator<Item = String>) -> String {
    let mut writer = csv::Writer::from_writer(Vec::new());
    let fields: Vec<String> = fields.collect();
    writer.write_record(&fields).expect("memory takes what is written");
    let line = writer.into_inner().expect("memory takes what is written");
    String::from_utf8(line).expect("texts are UTF-8")
}

fn json_of(value: Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Integer(number) => number.into(),
        Value::Real(number) => match serde_json::Number::from_f64(number) {
            Some(number) => number.into(),
            None => number.to_string().into(),
        },
        Value::Text(text) => text.into(),
        value @ Value::Blob(_) => shown(value).into(),
    }
}

/// A value that is no null, as `tsv` has it but for signs that stand for others.
fn shown(value: Value) -> String {
    match value {
        Value::Null => NULL.to_owned(),
        Value::Integer(number) => number.to_string(),
        // With its point, so that it is seen to be no integer.
        Value::Real(number) => format!("{number:?}"),
        Value::Text(text) => text,
        Value::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
    }
}

/// The values that texts of `tsv` stand for, in columns of these types.
pub(super) fn parse_row<'t>(
    texts: impl Iterator<Item = &'t str>,
    types: impl Iterator<Item = ColumnType>,
) -> Result<Row, Failure> {
    let row: Result<Row, String> =
        texts.zip(types).map(|(text, column_type)| parse_value(text, column_type)).collect();
    row.map_err(Failure::input)
}

/// A row as the engine takes it.
pub(super) fn refs(row: &[Value]) -> Vec<ValueRef<'_>> {
    row.iter().map(Value::as_ref).collect()
}

/// The value that a text of `tsv` stands for, in a column of a type.
pub(super) fn parse_value(text: &str, column_type: ColumnType) -> Result<Value, String> {
    let is_no = |what: &str| format!("`{text}` is no {what}");
    Ok(match column_type {
        _ if text == NULL => Value::Null,
        ColumnType::Integer => Value::Integer(text.parse().map_err(|_| is_no("integer"))?),
        ColumnType::Real => {
            Value::Real(real_in(text).ok_or_else(|| is_no("number that a double holds"))?)
        }
        ColumnType::Text => Value::Text(unescape(text)?),
        ColumnType::Blob => {
            let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
            let digits = digits.filter(|digits| digits.len().is_multiple_of(2));
            let digits = digits.ok_or_else(|| is_no("even number of hexadecimal digits"))?;
            let byte = |pair: &[u32]| u8::try_from(pair[0] << 4 | pair[1]).expect("two digits");
            Value::Blob(digits.chunks(2).map(byte).collect())
        }
    })
}

/// A row as `tsv` has it, without the end of the line.
pub(super) fn line_of(row: &RecordView<'_>, column_count: usize) -> String {
    let text = |index| match row.get(index).to_value() {
        Value::Text(text) => escape(text),
        value => shown(value),
    };
    (0..column_count).map(text).collect::<Vec<_>>().join("\t")
}

/// Writes a text so that it stays within its line and between its tabs.
fn escape(text: String) -> String {
    if !text.contains(['\\', '\t', '\n', '\r']) {
        return text;
    }
    let text = text.replace('\\', r"\\").replace('\t', r"\t");
    text.replace('\n', r"\n").replace('\r', r"\r")
}

/// The text that `escape` made of this one.
fn unescape(text: &str) -> Result<String, String> {
    let mut plain = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        plain.push(match letter {
            '\\' => match letters.next() {
                Some('\\') => '\\',
                Some('t') => '\t',
                Some('n') => '\n',
                Some('r') => '\r',
                _ => return Err(format!("`{text}`: write \\\\ for a backslash")),
            },
            letter => letter,
        });
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_as_they_are_written() {
        assert_eq!(parse_value("-7", ColumnType::Integer), Ok(Value::Integer(-7)));
        assert_eq!(parse_value(NULL, ColumnType::Text), Ok(Value::Null));
        assert_eq!(parse_value("00ff", ColumnType::Blob), Ok(Value::Blob(vec![0, 255])));
        assert!(parse_value("0f0", ColumnType::Blob).is_err());
        assert!(parse_value("x", ColumnType::Real).is_err());
    }

    #[test]
    fn a_text_with_tabs_and_newlines_is_one_field_of_one_line() {
        let text = "a\tb\\N\r\nc";
        let escaped = escape(text.to_owned());
        assert_eq!(escaped, r"a\tb\\N\r\nc");
        assert_eq!(unescape(&escaped).unwrap(), text);
        assert!(unescape(r"a\x").is_err() && unescape("a\\").is_err());
        assert_eq!(escape("\\N".to_owned()), "\\\\N", "which is not null");
    }
}
