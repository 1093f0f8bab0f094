//! What does not fit between a row and a type of the program.

use crate::StorageError;
use crate::database::schema::TableDefinition;
use nandu_base::words::{counted, did_you_mean};
use serde::de::{Expected, Unexpected};
use std::fmt;

/// An error of serde, to be told with the table once that is known.
#[derive(Debug)]
pub(super) struct Misfit {
    kind: Kind,
    /// The column, by index, or its place in a key.
    column: Option<usize>,
}

#[derive(Debug)]
enum Kind {
    /// A value is not what is wanted.
    Value {
        found: String,
        wanted: String,
    },
    /// The type has a field that no column is.
    Unknown(String),
    /// The type has no field for a column.
    Missing(usize),
    Other(String),
}

impl Misfit {
    pub(super) fn other(what: impl Into<String>) -> Self {
        Self { kind: Kind::Other(what.into()), column: None }
    }

    pub(super) fn value(found: impl Into<String>, wanted: impl Into<String>) -> Self {
        let kind = Kind::Value { found: found.into(), wanted: wanted.into() };
        Self { kind, column: None }
    }

    pub(super) fn unknown(field: &str) -> Self {
        Self { kind: Kind::Unknown(field.to_owned()), column: None }
    }

    pub(super) fn missing(column: usize) -> Self {
        Self { kind: Kind::Missing(column), column: None }
    }

    /// The same, of a column.
    pub(super) const fn at(mut self, column: usize) -> Self {
        self.column = Some(column);
        self
    }

    /// The error that a user sees.
    pub(super) fn told_of(self, definition: &TableDefinition) -> StorageError {
        let TableDefinition { name: table, columns, .. } = definition;
        let place = match self.column.and_then(|column| columns.get(column)) {
            Some(column) => format!("column {} ({}) of {table}", column.name, column.to_sql_type()),
            None => format!("a row of {table}"),
        };
        let what = match self.kind {
            Kind::Value { found, wanted } => format!("{place}: {found} is no {wanted}"),
            Kind::Unknown(field) => {
                let meant = did_you_mean(&field, columns.iter().map(|column| column.name.as_str()));
                return StorageError::NotFound {
                    what: format!("column {field} in table {table}{meant}"),
                };
            }
            Kind::Missing(column) => {
                let column = columns.get(column).map_or("", |column| column.name.as_str());
                format!(
                    "the type that is to be a row of {table} has no field for its column {column}"
                )
            }
            Kind::Other(what) => format!("{place}: {what}"),
        };
        StorageError::InvalidSetting { what }
    }

    /// The error that a user sees of a key, or of values of no table.
    pub(super) fn told_of_key(self) -> StorageError {
        let place = self.column.map_or_else(String::new, |at| format!("value {}: ", at + 1));
        let what = match self.kind {
            Kind::Value { found, wanted } => format!("{place}{found} is no {wanted}"),
            Kind::Other(what) => format!("{place}{what}"),
            Kind::Unknown(_) | Kind::Missing(_) => "a key is a tuple or a single value".to_owned(),
        };
        StorageError::InvalidSetting { what }
    }
}

/// What is wanted, without its article.
fn wanted(wanted: &dyn Expected) -> String {
    let wanted = wanted.to_string();
    let bare = wanted.strip_prefix("a ").or_else(|| wanted.strip_prefix("an "));
    bare.unwrap_or(&wanted).to_owned()
}

/// What was found, shortly: a text may be long.
fn told(found: Unexpected<'_>) -> String {
    match found {
        Unexpected::Unit | Unexpected::Option => "null (wrap the type into an Option)".to_owned(),
        Unexpected::Bool(value) => value.to_string(),
        Unexpected::Signed(number) => format!("the integer {number}"),
        Unexpected::Unsigned(number) => format!("the integer {number}"),
        Unexpected::Float(number) => format!("the real {number:?}"),
        Unexpected::Str(text) => format!("a text of {}", counted(text.len() as u64, "byte")),
        Unexpected::Bytes(bytes) => format!("a blob of {}", counted(bytes.len() as u64, "byte")),
        other => other.to_string(),
    }
}

impl fmt::Display for Misfit {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            Kind::Value { found, wanted } => write!(formatter, "{found} is no {wanted}"),
            Kind::Unknown(field) => write!(formatter, "there is no column {field}"),
            Kind::Missing(column) => write!(formatter, "column {column} has no field"),
            Kind::Other(what) => formatter.write_str(what),
        }
    }
}

impl std::error::Error for Misfit {}

impl serde::de::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::other(message.to_string())
    }

    fn invalid_type(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::value(told(found), wanted(expected))
    }

    fn invalid_value(found: Unexpected<'_>, expected: &dyn Expected) -> Self {
        Self::value(told(found), wanted(expected))
    }

    fn missing_field(field: &'static str) -> Self {
        Self::unknown(field)
    }
}

impl serde::ser::Error for Misfit {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Self::other(message.to_string())
    }
}
