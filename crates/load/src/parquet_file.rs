//! Parquet files of flat columns, by the row reader of the crate `parquet`; compressed with Snappy, or
//! with gzip, Brotli, LZ4 or Zstandard, which are unpacked here (`packed`), or not.
//!
//! ```text
//!   boolean, integers        ─► integer        dates, times    ─► text (`moment`)
//!   float, double, decimal   ─► real           strings ─► text        other bytes ─► blob
//! ```
//! A decimal of which a double does not keep all digits is refused.
//!
//! 1. A column whose type is not in this table is refused when the file is opened.
//! 2. The crate panics about some files that break rules of the format; to the caller that is an error, too.
//! 3. Reading behind the end of the file fails: the crate would go on counting what is not there.

mod codec;
mod moment;
mod packed;
mod page_header;

use crate::source::open_file;
use crate::{LoadError, RowSink, RowSource};
use bytes::Bytes;
use moment::Moment;
use nandu_storage::database::{Column, ColumnType};
use nandu_storage::sqlite::{ValueRef, real_in};
use packed::PackedFile;
use parquet::basic::{ConvertedType, Repetition, Type as Physical};
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, FileReader, Length};
use parquet::record::reader::RowIter;
use parquet::record::{Field, Row};
use parquet::schema::types::Type;
use std::cell::Cell;
use std::fs::File;
use std::io::{BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::panic::{self, AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Once;

/// Rows that are handed over together.
const ROWS_AT_ONCE: u64 = 512;

thread_local! {
    /// This thread is inside the crate `parquet`, whose panics are errors.
    static IS_GUARDED: Cell<bool> = const { Cell::new(false) };
}

/// Rows of a Parquet file.
pub struct ParquetRows {
    rows: RowIter<'static>,
    file: String,
    columns: Vec<Column>,
    /// Of each column, what kind of time it has, if any.
    moments: Vec<Option<Moment>>,
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
        let opened = open_file(path)?;
        let reader = guarded(&file, || PackedFile::new(WholeFile(opened)))?;
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
        let moments = fields.iter().map(|field| Moment::of(field)).collect();
        if columns.is_empty() {
            return Err(LoadError::input(file, "it has no columns"));
        }
        let rows = guarded(&file, || Ok(RowIter::from_file_into(Box::new(reader))))?;
        Ok(Self { rows, file, columns, moments, row_count, read_count: 0, text: String::new() })
    }

    /// The columns of the file, in its order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn hand_over(&mut self, row: &Row, sink: &mut RowSink<'_>) -> Result<(), LoadError> {
        let place = || format!("{}, row {}", self.file, self.read_count + 1);
        let of_column = |name: &str, what: String| {
            LoadError::input(format!("{}, column {name}", place()), what)
        };
        self.text.clear();
        let mut ends = Vec::new();
        for ((name, field), moment) in row.get_column_iter().zip(&self.moments) {
            if !is_shown_as_text(field, *moment) {
                continue;
            }
            self.text += &match moment {
                Some(moment) => moment.text_of(field).ok_or_else(|| {
                    of_column(name, "a date or time that no calendar has".to_owned())
                })?,
                None => field.to_string(),
            };
            ends.push(self.text.len());
        }
        let mut values = Vec::with_capacity(self.columns.len());
        let (mut start, mut ends) = (0, ends.into_iter());
        for ((name, field), moment) in row.get_column_iter().zip(&self.moments) {
            let shown = is_shown_as_text(field, *moment).then(|| {
                let end = ends.next().expect("one end for each such field");
                &self.text[std::mem::replace(&mut start, end)..end]
            });
            let value = value_of(field, shown).ok_or_else(|| {
                of_column(
                    name,
                    match (field, shown) {
                        (Field::Decimal(_), Some(shown)) => refused_decimal(shown),
                        _ => format!("{field} does not fit 64 bits with a sign"),
                    },
                )
            })?;
            values.push(value);
        }
        sink(&values).map_err(|error| match error {
            nandu_storage::StorageError::TooLarge { .. }
            | nandu_storage::StorageError::Exists { .. }
            | nandu_storage::StorageError::InvalidSetting { .. } => {
                LoadError::input(place(), error.to_string())
            }
            other => other.into(),
        })
    }
}

/// A file of which nothing is read behind its end (invariant 3).
struct WholeFile(File);

/// What reads it from a place on.
struct Part(File);

impl Length for WholeFile {
    fn len(&self) -> u64 {
        Length::len(&self.0)
    }
}

impl ChunkReader for WholeFile {
    type T = BufReader<Part>;

    fn get_read(&self, start: u64) -> Result<Self::T, ParquetError> {
        let mut file = self.0.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(Part(file)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> Result<Bytes, ParquetError> {
        let end = start.saturating_add(length as u64);
        if end > Length::len(&self.0) {
            // Checked before memory for the bytes is taken: a damaged file may ask for any length.
            return Err(ParquetError::EOF(format!("bytes {start} to {end} lie behind the end")));
        }
        self.0.get_bytes(start, length)
    }
}

impl Read for Part {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        match self.0.read(target)? {
            0 if !target.is_empty() => Err(ErrorKind::UnexpectedEof.into()),
            count => Ok(count),
        }
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
            let Some(row) = guarded(&self.file, || self.rows.next().transpose())? else {
                return Ok(false);
            };
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
    if Moment::of(field).is_some() {
        return Some(ColumnType::Text);
    }
    match (field.get_physical_type(), field.get_basic_info().converted_type()) {
        (Physical::BOOLEAN, _) => Some(ColumnType::Integer),
        (Physical::INT32 | Physical::INT64, C::DECIMAL) => Some(ColumnType::Real),
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

/// Whether a value has a text in place of a number.
fn is_shown_as_text(field: &Field, moment: Option<Moment>) -> bool {
    *field != Field::Null && (moment.is_some() || matches!(field, Field::Decimal(_)))
}

/// The value of a field; `shown` is its text where it stands for a number. `None` where it is too large.
fn value_of<'f>(field: &'f Field, shown: Option<&'f str>) -> Option<ValueRef<'f>> {
    Some(match (field, shown) {
        (Field::Decimal(_), shown) => ValueRef::Real(real_of_decimal(shown?)?),
        (_, Some(shown)) => ValueRef::Text(shown.as_bytes()),
        (Field::Null, _) => ValueRef::Null,
        (Field::Bool(value), _) => ValueRef::Integer(i64::from(*value)),
        (Field::Byte(value), _) => ValueRef::Integer(i64::from(*value)),
        (Field::Short(value), _) => ValueRef::Integer(i64::from(*value)),
        (Field::Int(value), _) => ValueRef::Integer(i64::from(*value)),
        (Field::Long(value), _) => ValueRef::Integer(*value),
        (Field::UByte(value), _) => ValueRef::Integer(i64::from(*value)),
        (Field::UShort(value), _) => ValueRef::Integer(i64::from(*value)),
        (Field::UInt(value), _) => ValueRef::Integer(i64::from(*value)),
        (Field::ULong(value), _) => ValueRef::Integer(i64::try_from(*value).ok()?),
        (Field::Float16(value), _) => ValueRef::Real(f64::from(*value)),
        (Field::Float(value), _) => ValueRef::Real(f64::from(*value)),
        (Field::Double(value), _) => ValueRef::Real(*value),
        (Field::Str(text), _) => ValueRef::Text(text.as_bytes()),
        (Field::Bytes(bytes), _) => ValueRef::Blob(bytes.data()),
        _ => return None,
    })
}

/// The double whose shortest notation is that of a decimal, so that it comes back; `None` where none is.
/// Decimals of 15 digits all have one.
fn real_of_decimal(shown: &str) -> Option<f64> {
    let real = real_in(shown.trim_end_matches('.'))?;
    let shortest = match shown.split_once('.') {
        Some((_, "")) | None => return Some(real),
        Some((whole, fraction)) => match fraction.trim_end_matches('0') {
            "" => return Some(real),
            fraction => format!("{whole}.{fraction}"),
        },
    };
    (real.to_string() == shortest).then_some(real)
}

fn refused_decimal(shown: &str) -> String {
    let shown = shown.trim_end_matches('.');
    match shown.contains('.') {
        true => format!(
            "{shown} has more digits than a double keeps; cast it to a text, or to a double if it \
             may be rounded, in what writes the file"
        ),
        false => format!("{shown} is an integer that no double is; cast it to one of 64 bits"),
    }
}

/// Calls the crate `parquet` (invariant 2). A panic inside is not told to the user, who gets the error.
fn guarded<T>(file: &str, call: impl FnOnce() -> Result<T, ParquetError>) -> Result<T, LoadError> {
    static HUSH: Once = Once::new();
    HUSH.call_once(|| {
        let tell = panic::take_hook();
        panic::set_hook(Box::new(move |what| {
            if !IS_GUARDED.get() {
                tell(what);
            }
        }));
    });
    IS_GUARDED.set(true);
    let outcome = catch_unwind(AssertUnwindSafe(call));
    IS_GUARDED.set(false);
    match outcome {
        Ok(done) => done.map_err(|error| bad(file, &error)),
        Err(_) => {
            let what = "it breaks a rule of the format; is it a Parquet file, and whole?";
            Err(LoadError::input(file, what))
        }
    }
}

fn bad(file: &str, error: &ParquetError) -> LoadError {
    let what = match error {
        ParquetError::NYI(_) => {
            format!("{error}; write it again in plain or dictionary encoding")
        }
        _ if error.to_string().contains("Utf8Error") => {
            "a text is not UTF-8; make it so in what writes the file, or store it as bytes"
                .to_owned()
        }
        _ => format!("{error}; is it a Parquet file, and whole?"),
    };
    LoadError::input(file, what)
}

#[cfg(test)]
mod tests;
