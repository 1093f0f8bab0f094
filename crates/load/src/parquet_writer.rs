//! Tables as Parquet files, the way back of `parquet_file`.
//!
//! ```text
//!   integer ─► INT64    real ─► DOUBLE    text ─► BYTE_ARRAY (STRING)    blob ─► BYTE_ARRAY
//! ```
//!
//! 1. All columns are optional and compressed with Snappy, which every reader has.
//! 2. A group of rows ends at `ROWS_PER_GROUP` rows or `GROUP_BYTES`, which bounds memory.

use crate::LoadError;
use nandu_storage::database::{Column, ColumnType};
use nandu_storage::sqlite::{RecordView, ValueRef};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

const ROWS_PER_GROUP: usize = 1 << 17;
const GROUP_BYTES: usize = 64 << 20;

/// A file that is being written.
pub struct ParquetWriter<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    file: String,
    /// The rows of the group at hand.
    columns: Vec<Values>,
    row_count: usize,
    byte_count: usize,
}

/// Values of a column, and which rows have one.
struct Values {
    levels: Vec<i16>,
    present: Present,
}

enum Present {
    Integers(Vec<i64>),
    Reals(Vec<f64>),
    Bytes(Vec<ByteArray>),
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Begins a file of these columns in `output`; `file` is its name for messages.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(output: W, columns: &[Column], file: &str) -> Result<Self, LoadError> {
        let failed = |error| failed(file, error);
        let fields: Result<Vec<Arc<Type>>, ParquetError> = columns.iter().map(field_of).collect();
        let fields = fields.map_err(failed)?;
        let schema =
            Type::group_type_builder("rows").with_fields(fields).build().map_err(failed)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(output, Arc::new(schema), Arc::new(properties));
        Ok(Self {
            writer: writer.map_err(failed)?,
            file: file.to_owned(),
            columns: columns.iter().map(|column| Values::of(column.column_type)).collect(),
            row_count: 0,
            byte_count: 0,
        })
    }

    /// Adds a row.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn push(&mut self, row: &RecordView<'_>) -> Result<(), LoadError> {
        for (index, column) in self.columns.iter_mut().enumerate() {
            self.byte_count += column.push(row.get(index));
        }
        self.row_count += 1;
        match self.row_count >= ROWS_PER_GROUP || self.byte_count >= GROUP_BYTES {
            true => self.end_group(),
            false => Ok(()),
        }
    }

    /// Ends the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<(), LoadError> {
        self.end_group()?;
        let Self { writer, file, .. } = &mut self;
        let ended = writer.finish().and_then(|_| Ok(writer.flush()?));
        ended.map_err(|error| failed(file, error))
    }

    fn end_group(&mut self) -> Result<(), LoadError> {
        if self.row_count == 0 {
            return Ok(());
        }
        (self.row_count, self.byte_count) = (0, 0);
        let Self { writer, columns, file, .. } = self;
        let mut written = || {
            let mut group = writer.next_row_group()?;
            for column in columns.iter_mut() {
                let mut next = group.next_column()?.expect("there are as many as in the schema");
                let levels = Some(column.levels.as_slice());
                match &column.present {
                    Present::Integers(values) => {
                        next.typed::<Int64Type>().write_batch(values, levels, None)?
                    }
                    Present::Reals(values) => {
                        next.typed::<DoubleType>().write_batch(values, levels, None)?
                    }
                    Present::Bytes(values) => {
                        next.typed::<ByteArrayType>().write_batch(values, levels, None)?
                    }
                };
                next.close()?;
                column.clear();
            }
            group.close().map(drop)
        };
        written().map_err(|error| failed(file, error))
    }
}

impl<W: Write + Send> std::fmt::Debug for ParquetWriter<W> {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "ParquetWriter({}, {} rows of a group)", self.file, self.row_count)
    }
}

impl Values {
    const fn of(column_type: ColumnType) -> Self {
        let present = match column_type {
            ColumnType::Integer => Present::Integers(Vec::new()),
            ColumnType::Real => Present::Reals(Vec::new()),
            ColumnType::Text | ColumnType::Blob => Present::Bytes(Vec::new()),
        };
        Self { levels: Vec::new(), present }
    }

    /// Adds a value and tells its bytes. The engine stores none but of the column's type.
    fn push(&mut self, value: ValueRef<'_>) -> usize {
        let (is_present, byte_count) = match (&mut self.present, value) {
            (Present::Integers(values), ValueRef::Integer(number)) => {
                values.push(number);
                (1, 8)
            }
            (Present::Reals(values), ValueRef::Real(number)) => {
                values.push(number);
                (1, 8)
            }
            (Present::Bytes(values), ValueRef::Text(bytes) | ValueRef::Blob(bytes)) => {
                values.push(ByteArray::from(bytes.to_vec()));
                (1, bytes.len())
            }
            _ => (0, 0),
        };
        self.levels.push(is_present);
        byte_count + size_of::<i16>()
    }

    fn clear(&mut self) {
        self.levels.clear();
        match &mut self.present {
            Present::Integers(values) => values.clear(),
            Present::Reals(values) => values.clear(),
            Present::Bytes(values) => values.clear(),
        }
    }
}

fn field_of(column: &Column) -> Result<Arc<Type>, ParquetError> {
    let (physical, logical) = match column.column_type {
        ColumnType::Integer => (Physical::INT64, None),
        ColumnType::Real => (Physical::DOUBLE, None),
        ColumnType::Text => (Physical::BYTE_ARRAY, Some(LogicalType::String)),
        ColumnType::Blob => (Physical::BYTE_ARRAY, None),
    };
    let field = Type::primitive_type_builder(&column.name, physical)
        .with_logical_type(logical)
        .with_repetition(Repetition::OPTIONAL);
    field.build().map(Arc::new)
}

/// The system's refusal, if it was one that stopped the writer.
fn failed(file: &str, error: ParquetError) -> LoadError {
    let error = match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(error) => *error,
            Err(cause) => std::io::Error::other(cause),
        },
        error => std::io::Error::other(error),
    };
    LoadError::Write { file: file.to_owned(), error }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandu_storage::sqlite::{Value, encode_record};
    use std::io::{Error, ErrorKind};

    /// Takes so many writes, then it is full.
    struct Full(u32);

    impl Write for Full {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0 = self.0.checked_sub(1).ok_or(Error::from(ErrorKind::StorageFull))?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            self.write(&[]).map(drop)
        }
    }

    fn write_all(room: u32) -> Result<(), LoadError> {
        let columns = [Column::new("id", ColumnType::Integer), Column::new("x", ColumnType::Text)];
        let mut writer = ParquetWriter::new(Full(room), &columns, "x.parquet")?;
        for id in 0..3 {
            let row = [Value::Integer(id), Value::from("some text")];
            let mut record = Vec::new();
            encode_record(row.iter().map(Value::as_ref), &mut record);
            writer.push(&RecordView::new(&record).unwrap())?;
        }
        writer.finish()
    }

    #[test]
    fn a_disk_that_is_full_at_any_write_is_the_systems_answer() {
        let mut room = 0;
        while let Err(error) = write_all(room) {
            let LoadError::Write { error: cause, .. } = &error else { panic!("{error}") };
            assert_eq!(cause.kind(), ErrorKind::StorageFull, "after {room} writes: {error}");
            room += 1;
        }
        assert!(room > 3, "a file takes several writes");
    }
}
