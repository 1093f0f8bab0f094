//! CSV files as RFC 4180 has them, with any delimiter: quotes, quotes in quotes, line ends in fields.
//!
//! ```text
//!   open ─► sample of the first rows ─► types (given, or inferred) ─► all rows, the sample first
//! ```
//!
//! 1. The file is read once, from front to back, so a pipe will do.
//! 2. A field that is the null text (nothing, unless said otherwise) is null in every column.
//! 3. Every complaint about the content names the file, the line and the column.

use crate::source::emptied;
use crate::text::shorten;
use crate::{LoadError, RowSink, RowSource};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use nandu_storage::database::{Column, ColumnType};
use nandu_storage::sqlite::ValueRef;
use std::io::Read;

/// Rows from which types are inferred.
const SAMPLE_ROW_COUNT: usize = 10_000;
/// Or so many bytes of them.
const SAMPLE_BYTES: usize = 8 << 20;
/// Rows that are handed over together.
const ROWS_AT_ONCE: usize = 512;

/// How a file is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsvOptions {
    /// What stands between two fields.
    pub delimiter: u8,
    /// Whether the first line has the names of the columns; else they are `column_1` and so on.
    pub has_header: bool,
    /// The text that is null.
    pub null: String,
    /// Types of some columns, by name; the rest is inferred.
    pub types: Vec<(String, ColumnType)>,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self { delimiter: b',', has_header: true, null: String::new(), types: Vec::new() }
    }
}

/// Rows of a CSV file.
pub struct CsvRows {
    reader: Reader<Input>,
    file: String,
    columns: Vec<Column>,
    null: Vec<u8>,
    /// Rows that were read to infer types, the next one last.
    sample: Vec<ByteRecord>,
    record: ByteRecord,
    /// The buffer of a row's values; empty between rows.
    values: Vec<ValueRef<'static>>,
    /// Bytes of the file, if that is known.
    byte_count: Option<u64>,
    is_done: bool,
}

/// A file, or what stands in for one.
type Input = Box<dyn Read + Send>;

impl CsvRows {
    /// Begins to read. `file` is its name for messages, `byte_count` its length where it has one.
    ///
    /// # Errors
    /// If it cannot be read, has no columns, or its first rows are damaged.
    pub fn open(
        input: Box<dyn Read + Send>,
        file: &str,
        byte_count: Option<u64>,
        options: &CsvOptions,
    ) -> Result<Self, LoadError> {
        let reader = ReaderBuilder::new()
            .delimiter(options.delimiter)
            .has_headers(false)
            // Input here, for a better message.
            .flexible(true)
            .buffer_capacity(1 << 18)
            .from_reader(input);
        let mut rows = Self {
            reader,
            file: file.to_owned(),
            columns: Vec::new(),
            null: options.null.clone().into_bytes(),
            sample: Vec::new(),
            record: ByteRecord::new(),
            values: Vec::new(),
            byte_count,
            is_done: false,
        };
        let names = rows.read_names(options)?;
        rows.read_sample()?;
        rows.columns = rows.choose_types(&names, &options.types)?;
        Ok(rows)
    }

    /// The columns, as they were named and typed.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    fn read_names(&mut self, options: &CsvOptions) -> Result<Vec<String>, LoadError> {
        let mut first = ByteRecord::new();
        if !self.read(&mut first)? {
            let what = "it is empty; its first line has to name the columns, or hold a row";
            return Err(LoadError::input(&self.file, what));
        }
        if !options.has_header {
            let names = (1..=first.len()).map(|number| format!("column_{number}")).collect();
            self.sample.push(first);
            return Ok(names);
        }
        let name = |(index, field): (usize, &[u8])| {
            let name = String::from_utf8_lossy(field).trim().to_owned();
            if !name.is_empty() {
                return Ok(name);
            }
            let what = format!("column {} has no name; if this line is a row, say so", index + 1);
            Err(LoadError::input(self.place_of(&first), what))
        };
        first.iter().enumerate().map(name).collect()
    }

    fn read_sample(&mut self) -> Result<(), LoadError> {
        let mut bytes = 0;
        while self.sample.len() < SAMPLE_ROW_COUNT && bytes < SAMPLE_BYTES {
            let mut record = ByteRecord::new();
            if !self.read(&mut record)? {
                self.is_done = true;
                break;
            }
            bytes += record.as_slice().len();
            self.sample.push(record);
        }
        Ok(())
    }

    fn choose_types(
        &self,
        names: &[String],
        given: &[(String, ColumnType)],
    ) -> Result<Vec<Column>, LoadError> {
        let is_known = |name: &str| names.iter().any(|known| known.eq_ignore_ascii_case(name));
        if let Some((name, _)) = given.iter().find(|(name, _)| !is_known(name)) {
            let known = names.join(", ");
            let what = format!("it has no column {name}; its columns are {known}");
            return Err(LoadError::input(&self.file, what));
        }
        let column = |(index, name): (usize, &String)| {
            let wanted = given.iter().find(|(other, _)| other.eq_ignore_ascii_case(name));
            let column_type = match wanted {
                Some(&(_, column_type)) => column_type,
                None => infer(self.sample.iter().filter_map(|row| row.get(index)), &self.null),
            };
            Column::new(name, column_type)
        };
        let columns = names.iter().enumerate().map(column).collect();
        Ok(columns)
    }

    /// Reads the next record; false behind the last one.
    fn read(&mut self, record: &mut ByteRecord) -> Result<bool, LoadError> {
        self.reader.read_byte_record(record).map_err(|error| match error.into_kind() {
            ErrorKind::Io(error) => LoadError::File { file: self.file.clone(), error },
            other => LoadError::input(&self.file, format!("{other:?}")),
        })
    }

    fn place_of(&self, record: &ByteRecord) -> String {
        let line = record.position().map_or(0, csv::Position::line);
        format!("{}:{line}", self.file)
    }

    fn hand_over(&mut self, record: &ByteRecord, sink: &mut RowSink<'_>) -> Result<(), LoadError> {
        let (found, wanted) = (record.len(), self.columns.len());
        if found != wanted {
            let what = format!(
                "{found} fields instead of {wanted}; a field that holds the delimiter, a quote or \
                 a line end has to stand in quotes"
            );
            return Err(LoadError::input(self.place_of(record), what));
        }
        let mut values = emptied(std::mem::take(&mut self.values));
        for (field, column) in record.iter().zip(&self.columns) {
            let value = value_of(field, column.column_type, &self.null).map_err(|what| {
                let place = format!("{}, column {}", self.place_of(record), column.name);
                let shown = shorten(field);
                LoadError::input(place, format!("`{shown}` is {what}"))
            })?;
            values.push(value);
        }
        let taken = sink(&values);
        self.values = emptied(values);
        // Wrong values were found above; what is left is the row as a whole, or the engine.
        taken.map_err(|error| match error {
            nandu_storage::StorageError::TooLarge { .. }
            | nandu_storage::StorageError::Exists { .. }
            | nandu_storage::StorageError::InvalidSetting { .. } => {
                LoadError::input(self.place_of(record), error.to_string())
            }
            other => other.into(),
        })
    }
}

impl std::fmt::Debug for CsvRows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "CsvRows({}, {:?})", self.file, self.columns)
    }
}

impl RowSource for CsvRows {
    fn next_rows(&mut self, sink: &mut RowSink<'_>) -> Result<bool, LoadError> {
        if !self.sample.is_empty() {
            for record in std::mem::take(&mut self.sample) {
                self.hand_over(&record, sink)?;
            }
            return Ok(!self.is_done);
        }
        let mut record = std::mem::take(&mut self.record);
        for _ in 0..ROWS_AT_ONCE {
            if self.is_done || !self.read(&mut record)? {
                self.is_done = true;
                break;
            }
            self.hand_over(&record, sink)?;
        }
        self.record = record;
        Ok(!self.is_done)
    }

    fn fraction(&self) -> f64 {
        match self.byte_count {
            Some(bytes) => self.reader.position().byte() as f64 / bytes.max(1) as f64,
            None => 0.0,
        }
    }
}

/// The narrowest type that all sampled values of a column have; text where there are none.
fn infer<'f>(fields: impl Iterator<Item = &'f [u8]>, null: &[u8]) -> ColumnType {
    let mut inferred = None;
    for field in fields.filter(|field| *field != null) {
        let narrowest = match inferred {
            None | Some(ColumnType::Integer) => {
                // Numbers with leading zeros are names: telephone numbers, postal codes.
                let digits = field.strip_prefix(b"-").unwrap_or(field);
                let is_padded = digits.len() > 1 && digits[0] == b'0' && digits[1] != b'.';
                if is_padded { ColumnType::Text } else { ColumnType::Integer }
            }
            Some(other) => other,
        };
        let fits = |column_type: ColumnType| value_of(field, column_type, null).is_ok();
        let wider = [narrowest, ColumnType::Real, ColumnType::Text];
        inferred = wider.into_iter().find(|&column_type| fits(column_type));
        if matches!(inferred, None | Some(ColumnType::Text)) {
            return ColumnType::Text;
        }
    }
    inferred.unwrap_or(ColumnType::Text)
}

/// The value of a field; else what would be right.
fn value_of<'f>(
    field: &'f [u8],
    column_type: ColumnType,
    null: &[u8],
) -> Result<ValueRef<'f>, &'static str> {
    if field == null {
        return Ok(ValueRef::Null);
    }
    let text = std::str::from_utf8(field);
    match column_type {
        ColumnType::Integer => {
            let number = text.ok().and_then(|text| text.trim().parse().ok());
            number.map(ValueRef::Integer).ok_or(
                "no integer of 64 bits; give the column another type (real, text), or name the \
                 text that is null",
            )
        }
        ColumnType::Real => {
            let is_number = |number: &f64| number.is_finite();
            let number = text.ok().and_then(|text| text.trim().parse().ok()).filter(is_number);
            number
                .map(ValueRef::Real)
                .ok_or("no number; give the column the type text, or name the text that is null")
        }
        ColumnType::Text => match text {
            Ok(_) => Ok(ValueRef::Text(field)),
            Err(_) => Err("not UTF-8; convert the file, or give the column the type blob"),
        },
        ColumnType::Blob => Ok(ValueRef::Blob(field)),
    }
}

#[cfg(test)]
mod tests;
