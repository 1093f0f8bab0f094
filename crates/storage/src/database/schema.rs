//! What a table is: its columns, how its rows are stored, its indexes. Stored in the catalogue as
//! JSON, so that a later version can read an older one's.
//!
//! 1. Column names differ, ignoring case; a key names columns that exist, each once.

use super::kind::TableKind;
use crate::sqlite::{Value, ValueRef, exact_real};
use crate::{FileId, StorageError};
use nandu_base::words::{counted, did_you_mean};
use serde::{Deserialize, Serialize};

/// The type of a column. Every column may hold nulls unless it says otherwise.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ColumnType {
    /// Signed integers of 64 bits.
    Integer,
    /// 64 bits, floating point, but no NaN. An integer becomes the double that it is exactly; one that no
    /// double is, which is only past 2^53, is refused.
    Real,
    /// UTF-8; other bytes are refused.
    Text,
    /// Bytes that nothing interprets.
    Blob,
}

/// A column of a table: its name and its type.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Column {
    /// The column's name, as it was given when the table was made.
    pub name: String,
    /// The type of the column's values.
    pub column_type: ColumnType,
    /// Whether null is refused.
    #[serde(default)]
    pub not_null: bool,
}

/// A secondary index of a heap table: a tree whose keys are the columns' values and the row's number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IndexDefinition {
    /// Its name, unique within the table.
    pub name: String,
    /// Its columns, by index, most significant first.
    pub columns: Vec<usize>,
    /// The file that holds its entries.
    pub file: FileId,
}

/// A table as the database knows it: name, columns, key and layout.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDefinition {
    /// The table's name, as it was given when it was made.
    pub name: String,
    /// The columns, in the order of a row's values.
    pub columns: Vec<Column>,
    /// How its rows are stored.
    pub kind: TableKind,
    /// The file that holds its rows.
    pub file: FileId,
    /// Secondary indexes over its rows.
    #[serde(default)]
    pub indexes: Vec<IndexDefinition>,
}

impl Column {
    /// A column that may hold nulls.
    #[must_use]
    pub fn new(name: &str, column_type: ColumnType) -> Self {
        Self { name: name.to_owned(), column_type, not_null: false }
    }

    /// The same column, which refuses nulls.
    #[must_use]
    pub fn not_null(mut self) -> Self {
        self.not_null = true;
        self
    }

    /// Whether a value can stand in it as it is.
    #[inline]
    pub(super) fn takes(&self, value: ValueRef<'_>) -> bool {
        match value {
            ValueRef::Null => !self.not_null,
            ValueRef::Integer(_) => matches!(self.column_type, ColumnType::Integer),
            ValueRef::Real(number) => {
                matches!(self.column_type, ColumnType::Real) && !number.is_nan()
            }
            ValueRef::Text(text) => {
                matches!(self.column_type, ColumnType::Text) && std::str::from_utf8(text).is_ok()
            }
            ValueRef::Blob(_) => matches!(self.column_type, ColumnType::Blob),
        }
    }

    /// Its type and whether it refuses nulls, as SQL says it.
    pub(super) fn to_sql_type(&self) -> String {
        let not_null = if self.not_null { " NOT NULL" } else { "" };
        format!("{}{not_null}", self.column_type.sql_name())
    }
}

impl ColumnType {
    /// Its name, as commands take it.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Integer => "integer",
            Self::Real => "real",
            Self::Text => "text",
            Self::Blob => "blob",
        }
    }

    /// The type as `sqlite3` declares it. INT rather than INTEGER, which would make a column the row's
    /// number.
    #[must_use]
    pub const fn sql_name(self) -> &'static str {
        match self {
            Self::Integer => "INT",
            Self::Real => "REAL",
            Self::Text => "TEXT",
            Self::Blob => "BLOB",
        }
    }

    /// An integer in a real column becomes the real that it is, if it is one; the rest stays as it is.
    #[inline]
    pub(super) fn stored(self, value: ValueRef<'_>) -> ValueRef<'_> {
        match (self, value) {
            (Self::Real, ValueRef::Integer(number)) => {
                exact_real(number).map_or(value, ValueRef::Real)
            }
            _ => value,
        }
    }
}

impl AsRef<str> for Column {
    fn as_ref(&self) -> &str {
        &self.name
    }
}

impl TableDefinition {
    /// The index of a column.
    ///
    /// # Errors
    /// If there is none of that name.
    pub fn column(&self, name: &str) -> Result<usize, StorageError> {
        let found = self.columns.iter().position(|column| column.name.eq_ignore_ascii_case(name));
        found.ok_or_else(|| StorageError::NotFound {
            what: format!(
                "column {name} in table {}{}",
                self.name,
                did_you_mean(name, self.columns.iter().map(|column| column.name.as_str()))
            ),
        })
    }

    /// Its files: that of its rows, then those of its indexes.
    pub(super) fn files(&self) -> impl Iterator<Item = FileId> + '_ {
        std::iter::once(self.file).chain(self.indexes.iter().map(|index| index.file))
    }

    /// The types of its columns.
    pub(super) fn column_types(&self) -> Vec<ColumnType> {
        self.columns.iter().map(|column| column.column_type).collect()
    }

    /// Invariant 1, of a definition that comes from outside.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(&self) -> Result<(), StorageError> {
        let invalid = |what: String| Err(StorageError::InvalidSetting { what });
        if self.name.is_empty() || self.columns.is_empty() {
            return invalid("a table needs a name and at least one column".to_owned());
        }
        for (index, column) in self.columns.iter().enumerate() {
            if self.column(&column.name)? != index {
                return invalid(format!("table {} has column {} twice", self.name, column.name));
            }
        }
        self.check_kind()?;
        self.indexes.iter().try_for_each(|index| self.check_key(&index.columns))
    }

    /// Whether columns can be a key.
    ///
    /// # Errors
    /// If there is none, one is there twice, or the table has no such column.
    pub(super) fn check_key(&self, columns: &[usize]) -> Result<(), StorageError> {
        let is_known = |&column: &usize| column < self.columns.len();
        let repeats = (1..columns.len()).any(|at| columns[..at].contains(&columns[at]));
        if columns.is_empty() || repeats || !columns.iter().all(is_known) {
            let what = format!("a key of table {} names its columns wrongly", self.name);
            return Err(StorageError::InvalidSetting { what });
        }
        Ok(())
    }

    /// As [`Self::check`], of a table that is going to be made: a name with a zero byte would end there for
    /// SQLite and for a shell.
    ///
    /// # Errors
    /// As there.
    pub(super) fn check_new(&self) -> Result<(), StorageError> {
        match self.columns.iter().find(|column| column.name.contains('\0')) {
            Some(column) => Err(StorageError::InvalidSetting {
                what: format!("the name of column {:?} has a zero byte; leave it out", column.name),
            }),
            None => self.check(),
        }
    }

    /// Checks a row's types and converts integers in real columns.
    ///
    /// # Errors
    /// If a value does not belong into its column.
    pub fn conform<'a>(&self, row: &mut [ValueRef<'a>]) -> Result<(), StorageError> {
        self.check_width(row)?;
        for (column, value) in self.columns.iter().zip(row) {
            *value = self.conform_value(column, *value)?;
        }
        Ok(())
    }

    /// Checks how many values a row has.
    ///
    /// # Errors
    /// If these are not as many as the columns.
    pub(super) fn check_width(&self, row: &[ValueRef<'_>]) -> Result<(), StorageError> {
        let (wanted, found) = (self.columns.len(), row.len());
        if wanted == found {
            return Ok(());
        }
        let what = format!(
            "table {} has {}, the row {found}",
            self.name,
            counted(wanted as u64, "column")
        );
        Err(StorageError::InvalidSetting { what })
    }

    /// The value as it is stored in `column`.
    ///
    /// # Errors
    /// If it does not belong there.
    #[inline]
    pub(super) fn conform_value<'a>(
        &self,
        column: &Column,
        value: ValueRef<'a>,
    ) -> Result<ValueRef<'a>, StorageError> {
        let stored = column.column_type.stored(value);
        if column.takes(stored) {
            return Ok(stored);
        }
        Err(self.misfit(column, value))
    }

    #[cold]
    fn misfit(&self, column: &Column, value: ValueRef<'_>) -> StorageError {
        let value = match (column.column_type, value) {
            (ColumnType::Text, ValueRef::Text(_)) => {
                "a text that is not UTF-8, which only a blob may be,".to_owned()
            }
            (_, ValueRef::Real(number)) if number.is_nan() => {
                "NaN, which is no value (store null),".to_owned()
            }
            (ColumnType::Real, ValueRef::Integer(number)) => {
                format!(
                    "{number}, which no double is exactly (take a column of integers or texts),"
                )
            }
            (_, ValueRef::Null) => "null".to_owned(),
            (_, ValueRef::Integer(number)) => number.to_string(),
            (_, ValueRef::Real(number)) => format!("{number:?}"),
            (_, ValueRef::Text(text)) => {
                format!("a text of {}", counted(text.len() as u64, "byte"))
            }
            (_, ValueRef::Blob(bytes)) => {
                format!("a blob of {}", counted(bytes.len() as u64, "byte"))
            }
        };
        let (table, name, wanted) = (&self.name, &column.name, column.to_sql_type());
        let what = format!("{value} does not fit column {name} of {table}, which is {wanted}");
        StorageError::InvalidSetting { what }
    }

    /// The statement that makes this table in SQL.
    #[must_use]
    pub fn to_sql(&self) -> String {
        let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
        let column = |column: &Column| format!("{} {}", quoted(&column.name), column.to_sql_type());
        let columns: Vec<String> = self.columns.iter().map(column).collect();
        format!("CREATE TABLE {} ({})", quoted(&self.name), columns.join(", "))
    }
}

/// A row's values, owned.
pub type Row = Vec<Value>;
