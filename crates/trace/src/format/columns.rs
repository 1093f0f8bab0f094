//! Any table, its columns described by the user: `time=us,op,offset=sector,size`.
//!
//! ```text
//!   columns = column {"," column}
//!   column  = "time" ["=" ("ns" | "us" | "ms" | "s" | "filetime")]
//!           | "op" ["=" ("letters" | "0r" | "0w")]
//!           | ("offset" | "size") ["=" ("byte" | "sector" | bytes of the unit)]
//!           | "device" | "-"
//! ```
//!
//! Columns of the table behind the described ones are left out; `-` leaves one out between them. The
//! separator is found in the first line: a comma, a tab, a semicolon, else blanks.
//!
//! 1. There is an operation, an offset and a size, each once; the time may be absent.

use super::{LineParser, Origin, RawRequest, SECOND_NS, SECTOR_BYTES, is_header};
use crate::field::{decimal, integer, scaled, shown, trim, words};
use nandu_base::ByteCount;
use nandu_device::Operation;

const COLUMN_COUNT_MAX: usize = 64;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// Nanoseconds of the unit.
    Time(u64),
    Operation(OperationForm),
    /// Bytes of the unit.
    Offset(u64),
    Size(u64),
    Device,
    Ignored,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum OperationForm {
    Letters,
    ZeroReads,
    ZeroWrites,
}

/// Reads a table whose columns a line of text describes.
#[derive(Debug)]
pub(crate) struct Columns {
    columns: Vec<Column>,
    /// Zero for blanks; absent before the first line.
    separator: Option<u8>,
}

impl Columns {
    /// # Errors
    /// If the description makes no sense.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let columns: Vec<Column> =
            text.split(',').map(|part| column(part.trim())).collect::<Result<_, _>>()?;
        if columns.len() > COLUMN_COUNT_MAX {
            return Err(format!("columns: {} are too many, of 64", columns.len()));
        }
        let count =
            |kind: fn(&Column) -> bool| columns.iter().filter(|column| kind(column)).count();
        for (name, found) in [
            ("op", count(|column| matches!(column, Column::Operation(_)))),
            ("offset", count(|column| matches!(column, Column::Offset(_)))),
            ("size", count(|column| matches!(column, Column::Size(_)))),
        ] {
            if found != 1 {
                return Err(format!("columns: `{name}` is there {found} times, must be once"));
            }
        }
        if count(|column| matches!(column, Column::Time(_))) > 1 {
            return Err("columns: `time` is there twice".into());
        }
        Ok(Self { columns, separator: None })
    }

    pub(crate) fn has_time(&self) -> bool {
        self.columns.iter().any(|column| matches!(column, Column::Time(_)))
    }

    fn fill<'a>(
        &self,
        line: &'a [u8],
        fields: impl Iterator<Item = &'a [u8]>,
    ) -> Result<RawRequest<'a>, String> {
        let mut request = RawRequest {
            at_ns: 0,
            operation: Operation::Flush,
            offset_bytes: 0,
            length_bytes: 0,
            origin: Origin::Device(b""),
        };
        let mut found = 0;
        for (column, field) in self.columns.iter().zip(fields) {
            found += 1;
            match *column {
                Column::Time(unit_ns) => request.at_ns = decimal(field, unit_ns, "time")?,
                Column::Operation(form) => request.operation = operation(form, field)?,
                Column::Offset(unit) => {
                    request.offset_bytes = scaled(integer(field, "offset")?, unit, "offset")?;
                }
                Column::Size(unit) => {
                    request.length_bytes = scaled(integer(field, "size")?, unit, "size")?;
                }
                Column::Device => request.origin = Origin::Device(field),
                Column::Ignored => {}
            }
        }
        if found < self.columns.len() {
            return Err(format!(
                "expected {} columns, found {found} in `{}`",
                self.columns.len(),
                shown(line)
            ));
        }
        Ok(request)
    }
}

fn column(text: &str) -> Result<Column, String> {
    let (name, unit) = text.split_once('=').map_or((text, None), |(name, unit)| (name, Some(unit)));
    match (name, unit) {
        ("time", None | Some("ns")) => Ok(Column::Time(1)),
        ("time", Some("us")) => Ok(Column::Time(1_000)),
        ("time", Some("ms")) => Ok(Column::Time(1_000_000)),
        ("time", Some("s")) => Ok(Column::Time(SECOND_NS)),
        ("time", Some("filetime")) => Ok(Column::Time(100)),
        ("op", None | Some("letters")) => Ok(Column::Operation(OperationForm::Letters)),
        ("op", Some("0r")) => Ok(Column::Operation(OperationForm::ZeroReads)),
        ("op", Some("0w")) => Ok(Column::Operation(OperationForm::ZeroWrites)),
        ("offset", unit) => Ok(Column::Offset(unit_bytes(unit)?)),
        ("size", unit) => Ok(Column::Size(unit_bytes(unit)?)),
        ("device", None) => Ok(Column::Device),
        ("-", None) => Ok(Column::Ignored),
        ("time", Some(unit)) => {
            Err(format!("columns: `{unit}` is no unit of time; use ns, us, ms, s or filetime"))
        }
        ("op", Some(form)) => {
            Err(format!("columns: `op={form}` is unknown; use op=letters, op=0r or op=0w"))
        }
        _ => Err(format!(
            "columns: `{text}` is unknown; use time, op, offset, size, device, or - for a column \
             to leave out"
        )),
    }
}

fn unit_bytes(unit: Option<&str>) -> Result<u64, String> {
    match unit {
        None | Some("byte") => Ok(1),
        Some("sector") => Ok(SECTOR_BYTES),
        Some(size) => match ByteCount::parse(size) {
            Ok(ByteCount(bytes)) if bytes > 0 => Ok(bytes),
            _ => Err(format!(
                "columns: `{size}` is no unit; use byte, sector or a size such as 4KiB"
            )),
        },
    }
}

fn operation(form: OperationForm, field: &[u8]) -> Result<Operation, String> {
    let wrong = |expected: &str| format!("op `{}` is not {expected}", shown(field));
    match form {
        OperationForm::ZeroReads => match field {
            b"0" => Ok(Operation::Read),
            b"1" => Ok(Operation::Write),
            _ => Err(wrong("0 (reads) or 1 (writes)")),
        },
        OperationForm::ZeroWrites => match field {
            b"0" => Ok(Operation::Write),
            b"1" => Ok(Operation::Read),
            _ => Err(wrong("0 (writes) or 1 (reads)")),
        },
        OperationForm::Letters => match field.first().map(u8::to_ascii_lowercase) {
            Some(b'r') => Ok(Operation::Read),
            Some(b'w') => Ok(Operation::Write),
            Some(b't' | b'd' | b'u') => Ok(Operation::Trim),
            Some(b'f' | b's') => Ok(Operation::Flush),
            _ => Err(wrong("read, write, trim, discard, unmap, flush or sync, nor such a letter")),
        },
    }
}

impl LineParser for Columns {
    fn parse<'a>(&mut self, number: u64, line: &'a [u8]) -> Result<Option<RawRequest<'a>>, String> {
        let separator = *self.separator.get_or_insert_with(|| {
            b",\t;".iter().copied().find(|separator| line.contains(separator)).unwrap_or(0)
        });
        let request = match separator {
            0 => self.fill(line, words(line)),
            _ => self.fill(line, line.split(|&byte| byte == separator).map(trim)),
        };
        match request {
            Err(_) if is_header(number, line) => Ok(None),
            other => other.map(Some),
        }
    }
}
