//! CSV files as RFC 4180 has them, with any delimiter: quotes, quotes in quotes, line ends in fields.
//!
//! ```text
//!   open ─► sample of the first rows ─► types (given, or inferred) ─► all rows, the sample first
//! ```
//!
//! 1. The file is read once, from front to back, so a pipe will do.
//! 2. A field that is the null text (nothing, unless said otherwise) is null in every column.
//! 3. Every complaint about the content names the file, the line and the column.
//! 4. A quote that nothing closes before the end of the file is an error: a mark is read behind the end,
//!    which is a record of its own unless a quote is open.
//! 5. A record has a most number of bytes and of fields, which hold while it is read: a quote that nothing
//!    closes, or a device without end, takes no more memory than that.
//! 6. Text between a closing quote and the end of its field is an error.

mod quotes;

use self::quotes::QuoteWatch;
use crate::source::{emptied, refuse_named_twice};
use crate::text::shorten;
use crate::{LoadError, RowSink, RowSource};
use csv::{ByteRecord, ErrorKind, Reader, ReaderBuilder};
use nandu_base::to_index;
use nandu_base::words::counted;
use nandu_storage::database::{Column, ColumnType};
use nandu_storage::sqlite::{ValueRef, real_in};
use std::io::Read;

/// Rows from which types are inferred.
const SAMPLE_ROW_COUNT: usize = 10_000;
/// Or so many bytes of them.
const SAMPLE_BYTES: u64 = 8 << 20;
/// Bytes of a record, with its delimiters and quotes.
const RECORD_BYTES_MAX: u64 = 16 << 20;
/// Fields of a record: as many columns as SQLite's files can have.
const FIELD_COUNT_MAX: usize = 32_767;
/// What is read at once.
const BUFFER_BYTES: usize = 1 << 18;
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
    reader: Reader<Bounded>,
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

/// A file, or what stands in for one, with a mark behind its end; it ends in an error once nothing is left
/// of what may be read.
struct Bounded {
    input: Box<dyn Read + Send>,
    /// Bytes that may still be read for the record under way.
    left: u64,
    /// Bytes that were read, those of the mark included.
    given: u64,
    /// Whether lines end in two bytes, as the first one does; none before that.
    are_crlf: Option<bool>,
    /// What is left of the mark, once the input is at its end.
    mark: Option<Vec<u8>>,
    /// What the field of the mark is made of.
    mark_byte: u8,
    quotes: QuoteWatch,
}

/// Bytes of the mark's field.
const MARK_BYTES: usize = 24;

impl Bounded {
    /// Lines that the reader counts with a record's last byte: a line feed behind a carriage return is
    /// counted with the next record.
    fn lines_with_record(&self) -> u64 {
        u64::from(self.are_crlf != Some(true))
    }
}

impl Read for Bounded {
    fn read(&mut self, target: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            return Err(std::io::ErrorKind::FileTooLarge.into());
        }
        let end = target.len().min(to_index(self.left));
        let mut count = match self.mark {
            None => self.input.read(&mut target[..end])?,
            Some(_) => 0,
        };
        if self.are_crlf.is_none()
            && let Some(at) = target[..count].iter().position(|byte| *byte == b'\n')
        {
            self.are_crlf = Some(at > 0 && target[at - 1] == b'\r');
        }
        if count == 0 && end > 0 {
            let before = if self.are_crlf == Some(true) { "\r\n" } else { "\n" };
            let field = vec![self.mark_byte; MARK_BYTES];
            let mark = self.mark.get_or_insert_with(|| [before.as_bytes(), &field, b"\n"].concat());
            count = end.min(mark.len());
            target[..count].copy_from_slice(&mark[..count]);
            mark.drain(..count);
        }
        self.quotes.see(&target[..count]);
        self.left -= count as u64;
        self.given += count as u64;
        Ok(count)
    }
}

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
        let mark_byte = if options.delimiter == 1 { 2 } else { 1 };
        let bounded = Bounded {
            input,
            left: 0,
            given: 0,
            are_crlf: None,
            mark: None,
            mark_byte,
            quotes: QuoteWatch::new(options.delimiter),
        };
        let reader = ReaderBuilder::new()
            .delimiter(options.delimiter)
            .has_headers(false)
            // Records of another length are let through here and refused later, with a message that
            // says what may have gone wrong.
            .flexible(true)
            .buffer_capacity(BUFFER_BYTES)
            .from_reader(bounded);
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
            let number = index + 1;
            let what = match std::str::from_utf8(field).map(str::trim) {
                Ok("") => format!("column {number} has no name; if this line is a row, say so"),
                Ok(name) => return Ok(name.to_owned()),
                Err(_) => format!(
                    "the name of column {number}, `{}`, is not UTF-8; convert the file",
                    shorten(field)
                ),
            };
            Err(LoadError::input(self.place_of(&first), what))
        };
        first.iter().enumerate().map(name).collect()
    }

    fn read_sample(&mut self) -> Result<(), LoadError> {
        let start = self.reader.position().byte();
        let end = start + SAMPLE_BYTES;
        while self.sample.len() < SAMPLE_ROW_COUNT && self.reader.position().byte() < end {
            let mut record = ByteRecord::new();
            if !self.read(&mut record)? {
                self.is_done = true;
                break;
            }
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
        refuse_named_twice(given).map_err(|what| LoadError::input(&self.file, what))?;
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
        // The buffer holds bytes of the next record, too.
        self.reader.get_mut().left = RECORD_BYTES_MAX + BUFFER_BYTES as u64;
        let start = self.reader.position().byte();
        // A line feed behind a carriage return is read with the next record.
        let line = self.reader.position().line()
            + u64::from(start > 0) * (1 - self.reader.get_ref().lines_with_record());
        let too_large = |what: String| {
            let what = format!(
                "a record has more than {what}; is a quote left open, or the delimiter another?"
            );
            Err(LoadError::input(format!("{}:{line}", self.file), what))
        };
        let is_record = match self.reader.read_byte_record(record) {
            Ok(is_record) => is_record,
            Err(error) if error.is_io_error() && self.reader.get_ref().left == 0 => {
                return too_large(format!("{} MiB", RECORD_BYTES_MAX >> 20));
            }
            Err(error) => return Err(refused(error, &self.file, line)),
        };
        if self.reader.position().byte() - start > RECORD_BYTES_MAX {
            return too_large(format!("{} MiB", RECORD_BYTES_MAX >> 20));
        }
        if record.len() > FIELD_COUNT_MAX {
            return too_large(format!("{FIELD_COUNT_MAX} fields"));
        }
        let text_behind_quote = self.reader.get_ref().quotes.text_behind_quote();
        if text_behind_quote.is_some_and(|byte| byte < self.reader.position().byte()) {
            self.correct_line(record);
            let what = "text follows the quote that closes a field; a field that holds a quote has \
                        to stand in quotes, with two quotes for the one";
            return Err(LoadError::input(self.place_of(record), what));
        }
        // The mark is the last that is read, and has no line of its own where a quote is open.
        let Bounded { given, mark_byte, .. } = *self.reader.get_ref();
        let is_at_mark = self.reader.get_ref().mark.is_some()
            && self.reader.position().byte() == given
            && is_record;
        if !is_at_mark {
            self.correct_line(record);
            return Ok(is_record);
        }
        if record.len() == 1 && record[0] == [mark_byte; MARK_BYTES] {
            record.clear();
            return Ok(false);
        }
        let what = "a quote is opened in this record and not closed before the end of the file";
        Err(LoadError::input(format!("{}:{line}", self.file), what))
    }

    /// The reader's line is where it stood before the record: it may be that of an empty line before it,
    /// or where lines end in two bytes that of the record before.
    fn correct_line(&self, record: &mut ByteRecord) {
        let Some(mut position) = record.position().cloned() else { return };
        let inside = record.as_slice().iter().filter(|byte| **byte == b'\n').count() as u64;
        let behind = inside + self.reader.get_ref().lines_with_record();
        let line = self.reader.position().line().saturating_sub(behind).max(1);
        position.set_line(line);
        record.set_position(Some(position));
    }

    fn place_of(&self, record: &ByteRecord) -> String {
        let line = record.position().map_or(0, csv::Position::line);
        format!("{}:{line}", self.file)
    }

    fn hand_over(&mut self, record: &ByteRecord, sink: &mut RowSink<'_>) -> Result<(), LoadError> {
        let (found, wanted) = (record.len(), self.columns.len());
        if found != wanted {
            let what = format!(
                "{} instead of {wanted}; a field that holds the delimiter, a quote or a line end \
                 has to stand in quotes",
                counted(found as u64, "field")
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
    // An integer may be one that no double is, so that the column cannot come to be of doubles.
    let mut may_be_real = true;
    for field in fields.filter(|field| *field != null) {
        let fits = |column_type: ColumnType| value_of(field, column_type, null).is_ok();
        may_be_real = may_be_real && fits(ColumnType::Real);
        // Numbers with leading zeros are names: telephone numbers, postal codes.
        let digits = field.strip_prefix(b"-").unwrap_or(field);
        let is_padded = digits.len() > 1 && digits[0] == b'0' && digits[1] != b'.';
        let may_be_integer = matches!(inferred, None | Some(ColumnType::Integer)) && !is_padded;
        inferred = if may_be_integer && fits(ColumnType::Integer) {
            Some(ColumnType::Integer)
        } else if may_be_real && !(is_padded && inferred != Some(ColumnType::Real)) {
            Some(ColumnType::Real)
        } else {
            return ColumnType::Text;
        };
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
            let number = text.ok().and_then(|text| real_in(text.trim())).filter(is_number);
            number.map(ValueRef::Real).ok_or(
                "no number that a double holds; give the column the type text, or name the text \
                 that is null",
            )
        }
        ColumnType::Text => match text {
            Ok(_) => Ok(ValueRef::Text(field)),
            Err(_) => Err("not UTF-8; convert the file, or give the column the type blob"),
        },
        ColumnType::Blob => Ok(ValueRef::Blob(field)),
    }
}

/// What the reader of records says, as an error of ours. `line` is where the record begins.
fn refused(error: csv::Error, file: &str, line: u64) -> LoadError {
    let what = error.to_string();
    match error.into_kind() {
        ErrorKind::Io(error) => LoadError::File { file: file.to_owned(), error },
        _ => LoadError::input(format!("{file}:{line}"), what),
    }
}

#[cfg(test)]
mod tests;
