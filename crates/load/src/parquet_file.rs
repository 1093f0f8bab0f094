//! Parquet files of flat columns, uncompressed or with Snappy, by the row reader of the crate
//! `parquet`.
//!
//! ```text
//!   boolean, integers        ─► integer        dates, times    ─► text, as ISO 8601 has them
//!   float, double, decimal   ─► real           strings ─► text        other bytes ─► blob
//! ```
//!
//! 1. A column whose type is not in this table is refused when the file is opened.

use crate::{LoadError, RowSink, RowSource};
use nandu_storage::database::{Column, ColumnType};
use nandu_storage::sqlite::ValueRef;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use std::fs::File;
use std::path::Path;

/// Rows that are handed over together.
const ROWS_AT_ONCE: u64 = 512;

/// Rows of a Parquet file.
pub struct ParquetRows {
    rows: RowIter<'static>,
    file: String,
    columns: Vec<Column>,
    row_count: u64,
    read_count: u64,
    /// Values as text that a row has no text for, back to back.
    text: String,
}

impl ParquetRows {
    /// Opens a file.
    ///
    /// # Errors
    /// If it cannot be read, is no Parquet file, or has a column that no table can hold.
    pub fn open(path: &Path) -> Result<Self, LoadError> {
        let file = path.display().to_string();
        let opened =
            File::open(path).map_err(|error| LoadError::File { file: file.clone(), error })?;
        let reader = SerializedFileReader::new(opened).map_err(|error| bad(&file, &error))?;
        let metadata = reader.metadata().file_metadata();
        let row_count = u64::try_from(metadata.num_rows()).unwrap_or(0);
        let fields = metadata.schema().get_fields();
        let column = |field: &std::sync::Arc<Type>| {
            let column_type = type_of(field).ok_or_else(|| {
                let place = format!("{file}, column {}", field.name());
                let what = "nested, repeated or of a type that no column has; flatten or cast it";
                LoadError::input(place, format!("it is {what} in what writes the file"))
            })?;
            Ok(Column::new(field.name(), column_type))
        };
        let columns: Result<Vec<Column>, LoadError> = fields.iter().map(column).collect();
        let columns = columns?;
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok(Self { rows, file, columns, row_count, read_count: 0, text: String::new() })
    }

    /// The columns.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn hand_over(&mut self, row: &Row, sink: &mut RowSink<'_>) -> Result<(), LoadError> {
        self.text.clear();
        let mut ends = Vec::new();
        for (_, field) in row.get_column_iter() {
            if is_shown_as_text(field) {
                self.text += &field.to_string();
                ends.push(self.text.len());
            }
        }
        let mut values = Vec::with_capacity(self.columns.len());
        let (mut start, mut ends) = (0, ends.into_iter());
        for (name, field) in row.get_column_iter() {
            let mut shown = "";
            if is_shown_as_text(field) {
                let end = ends.next().expect("one end for each such field");
                shown = &self.text[start..end];
                start = end;
            }
            let value = value_of(field, shown).ok_or_else(|| {
                let place = format!("{}, row {}, column {name}", self.file, self.read_count + 1);
                LoadError::input(place, format!("{field} does not fit 64 bits with a sign"))
            })?;
            values.push(value);
        }
        sink(&values).map_err(|error| match error {
            nandu_storage::StorageError::TooLarge { .. }
            | nandu_storage::StorageError::Exists { .. } => {
                let place = format!("{}, row {}", self.file, self.read_count + 1);
                LoadError::input(place, error.to_string())
            }
            other => other.into(),
        })
    }
}

impl std::fmt::Debug for ParquetRows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ParquetRows({}, {:?})", self.file, self.columns)
    }
}

impl RowSource for ParquetRows {
    fn next_rows(&mut self, sink: &mut RowSink<'_>) -> Result<bool, LoadError> {
        for _ in 0..ROWS_AT_ONCE {
            let Some(row) = self.rows.next() else { return Ok(false) };
            let row = row.map_err(|error| bad(&self.file, &error))?;
            self.hand_over(&row, sink)?;
            self.read_count += 1;
        }
        Ok(true)
    }

    fn fraction(&self) -> f64 {
        self.read_count as f64 / self.row_count.max(1) as f64
    }
}

/// What a column becomes; `None` where no column can hold it.
fn type_of(field: &Type) -> Option<ColumnType> {
    use ConvertedType as C;
    let is_flat = field.is_primitive()
        && matches!(
            field.get_basic_info().repetition(),
            Repetition::REQUIRED | Repetition::OPTIONAL
        );
    if !is_flat {
        return None;
    }
    match (field.get_physical_type(), field.get_basic_info().converted_type()) {
        (Physical::BOOLEAN, _) => Some(ColumnType::Integer),
        (Physical::INT32 | Physical::INT64, C::DECIMAL) => Some(ColumnType::Real),
        (Physical::INT32, C::DATE | C::TIME_MILLIS)
        | (Physical::INT64, C::TIME_MICROS | C::TIMESTAMP_MILLIS | C::TIMESTAMP_MICROS)
        | (Physical::INT96, C::NONE) => Some(ColumnType::Text),
        (
            Physical::INT32,
            C::NONE | C::INT_8 | C::INT_16 | C::INT_32 | C::UINT_8 | C::UINT_16 | C::UINT_32,
        )
        | (Physical::INT64, C::NONE | C::INT_64 | C::UINT_64) => Some(ColumnType::Integer),
        (Physical::FLOAT | Physical::DOUBLE, _)
        | (Physical::BYTE_ARRAY | Physical::FIXED_LEN_BYTE_ARRAY, C::DECIMAL) => {
            Some(ColumnType::Real)
        }
        (Physical::BYTE_ARRAY, C::UTF8 | C::ENUM | C::JSON) => Some(ColumnType::Text),
        (Physical::BYTE_ARRAY, C::NONE | C::BSON) | (Physical::FIXED_LEN_BYTE_ARRAY, C::NONE) => {
            Some(ColumnType::Blob)
        }
        _ => None,
    }
}

const fn is_shown_as_text(field: &Field) -> bool {
    matches!(
        field,
        Field::Date(_)
            | Field::TimeMillis(_)
            | Field::TimeMicros(_)
            | Field::TimestampMillis(_)
            | Field::TimestampMicros(_)
            | Field::Decimal(_)
    )
}

/// The value of a field; `shown` is its text where it has no value of its own. `None` where it is too
/// large.
fn value_of<'f>(field: &'f Field, shown: &'f str) -> Option<ValueRef<'f>> {
    Some(match field {
        Field::Null => ValueRef::Null,
        Field::Bool(value) => ValueRef::Integer(i64::from(*value)),
        Field::Byte(value) => ValueRef::Integer(i64::from(*value)),
        Field::Short(value) => ValueRef::Integer(i64::from(*value)),
        Field::Int(value) => ValueRef::Integer(i64::from(*value)),
        Field::Long(value) => ValueRef::Integer(*value),
        Field::UByte(value) => ValueRef::Integer(i64::from(*value)),
        Field::UShort(value) => ValueRef::Integer(i64::from(*value)),
        Field::UInt(value) => ValueRef::Integer(i64::from(*value)),
        Field::ULong(value) => ValueRef::Integer(i64::try_from(*value).ok()?),
        Field::Float16(value) => ValueRef::Real(f64::from(*value)),
        Field::Float(value) => ValueRef::Real(f64::from(*value)),
        Field::Double(value) => ValueRef::Real(*value),
        Field::Decimal(_) => ValueRef::Real(shown.parse().ok()?),
        Field::Str(text) => ValueRef::Text(text.as_bytes()),
        Field::Bytes(bytes) => ValueRef::Blob(bytes.data()),
        Field::Date(_)
        | Field::TimeMillis(_)
        | Field::TimeMicros(_)
        | Field::TimestampMillis(_)
        | Field::TimestampMicros(_) => ValueRef::Text(shown.as_bytes()),
        Field::Group(_) | Field::ListInternal(_) | Field::MapInternal(_) => return None,
    })
}

fn bad(file: &str, error: &ParquetError) -> LoadError {
    let what = match error {
        ParquetError::NYI(_) => {
            format!("{error}; write it again uncompressed or with Snappy, in plain or dictionary")
        }
        _ => format!("{error}; is it a Parquet file, and whole?"),
    };
    LoadError::input(file, what)
}

#[cfg(test)]
mod tests;
