//! Tables of a file in SQLite's format, of any program that writes it (sqlite.org, Database File
//! Format): rowid tables with all that a row may hold.
//!
//! ```text
//!   FILE ─► header, schema ─► first pass: kinds of values ─► types ─► second pass: rows
//!   FILE-wal, FILE-journal: looked at before and after; what they still hold is refused
//! ```
//!
//! 1. A column gets the one type that all its values have: integer, real (with integers among them, as
//!    far as a real holds these exactly), text, blob. Where they have none in common, or the caller
//!    wants another, values become what SQLite's own conversion makes of them, or are refused.
//! 2. The rows are those of one moment: a file that changed in between is refused.
//! 3. Every complaint names the file, and where it is about a value the table, row and column.

mod pages;
#[cfg(test)]
mod tests;

use crate::source::{emptied, refuse_named_twice};
use crate::text::shorten;
use crate::{LoadError, RowSink, RowSource};
use nandu_base::words::counted;
use nandu_storage::StorageError;
use nandu_storage::database::{Column, ColumnType};
use nandu_storage::sqlite::{
    Affinity, RecordView, Scan, TableSchema, TableTree, Value, ValueRef, exact_real, real_in,
};
use pages::OpenFile;
use std::path::Path;

/// Rows that are handed over together, up to a leaf more.
const ROWS_AT_ONCE: u64 = 512;

/// Rows of one table of a SQLite file.
pub struct SqliteRows {
    file: OpenFile,
    /// The file and the table, for messages.
    place: String,
    schema: TableSchema,
    columns: Vec<Column>,
    /// Which columns the caller named a type for.
    is_named: Vec<bool>,
    scan: Scan,
    row_count: u64,
    read_count: u64,
    /// The buffer of a row's values; empty between rows.
    values: Vec<ValueRef<'static>>,
}

/// What a value is, as far as that decides the type of its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Integer,
    /// An integer that no real holds.
    LargeInteger,
    Real,
    Text,
    /// Text that is not UTF-8.
    WildText,
    Blob,
}

/// The first row of each kind in one column.
#[derive(Clone, Copy, Debug, Default)]
struct Seen([Option<i64>; Kind::NAMES.len()]);

impl SqliteRows {
    /// The names of the file's tables, in the order of their making, without SQLite's own.
    ///
    /// # Errors
    /// If the file cannot be read, is not in SQLite's format, or needs its log or journal.
    pub fn tables(path: &Path) -> Result<Vec<String>, LoadError> {
        Ok(OpenFile::open(path)?.tables())
    }

    /// Opens a file and goes through `table` once, to find the types of its columns; `types` names those
    /// of some.
    ///
    /// # Errors
    /// As [`Self::tables`]; if there is no such table, or it is a view, virtual or WITHOUT ROWID; if a
    /// page is damaged; if the values of a column have no type in common.
    pub fn open(
        path: &Path,
        table: &str,
        types: &[(String, ColumnType)],
    ) -> Result<Self, LoadError> {
        let file = OpenFile::open(path)?;
        let (schema, tree) = file.table(table)?;
        let place = format!("{}, table {}", file.name(), schema.name);
        let named = named_types(&schema, types, &place)?;
        let (seen, row_count) = look_through(&file, &schema, &tree)?;
        let mut columns = Vec::with_capacity(seen.len());
        for ((column, seen), &wanted) in schema.columns.iter().zip(&seen).zip(&named) {
            let found = wanted.map_or_else(|| seen.column_type(column.affinity), Ok);
            let column_type = found.map_err(|what| {
                LoadError::input(format!("{place}, column {}", column.name), what)
            })?;
            columns.push(Column::new(&column.name, column_type));
        }
        let is_named = named.iter().map(Option::is_some).collect();
        let scan = tree.scan(i64::MIN..=i64::MAX);
        let (read_count, values) = (0, Vec::new());
        Ok(Self { file, place, schema, columns, is_named, scan, row_count, read_count, values })
    }

    /// The table's name as the file spells it.
    #[must_use]
    pub fn table(&self) -> &str {
        &self.schema.name
    }

    /// The columns, as they were typed.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }
}

impl std::fmt::Debug for SqliteRows {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "SqliteRows({}, {:?})", self.place, self.columns)
    }
}

impl RowSource for SqliteRows {
    fn next_rows(&mut self, sink: &mut RowSink<'_>) -> Result<bool, LoadError> {
        let Self { file, place, schema, columns, is_named, scan, read_count, values, .. } = self;
        let target = Target { place, schema, columns, is_named };
        let last = *read_count + ROWS_AT_ONCE;
        while *read_count < last {
            let mut taken = Ok(());
            let has_more = scan.next_leaf(file.pages(), |rowid, record| {
                if taken.is_ok() {
                    taken = target.hand_over(rowid, record, values, sink);
                    *read_count += 1;
                }
            });
            taken?;
            if !has_more.map_err(|error| file.explain(error))? {
                file.check_unchanged()?;
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn fraction(&self) -> f64 {
        self.read_count as f64 / self.row_count.max(1) as f64
    }
}

/// How rows of the file become rows of a table.
struct Target<'t> {
    place: &'t str,
    schema: &'t TableSchema,
    columns: &'t [Column],
    is_named: &'t [bool],
}

impl Target<'_> {
    fn hand_over(
        &self,
        rowid: i64,
        record: RecordView<'_>,
        buffer: &mut Vec<ValueRef<'static>>,
        sink: &mut RowSink<'_>,
    ) -> Result<(), LoadError> {
        // Declared before the values, which may borrow texts that were converted and are kept here.
        let mut converted = Vec::new();
        let mut values = emptied(std::mem::take(buffer));
        values.extend(self.schema.values(rowid, &record));
        for (index, &value) in values.iter().enumerate() {
            if !self.is_named[index] {
                continue;
            }
            let Column { name, column_type, .. } = &self.columns[index];
            if let Some(value) = convert(value, *column_type).map_err(|what| {
                let place = format!("{}, row {rowid}, column {name}", self.place);
                LoadError::input(place, format!("{} is {what}", shown(value)))
            })? {
                converted.push((index, value));
            }
        }
        for (index, value) in &converted {
            values[*index] = value.as_ref();
        }
        let taken = sink(&values);
        *buffer = emptied(values);
        taken.map_err(|error| match error {
            StorageError::TooLarge { .. }
            | StorageError::Exists { .. }
            | StorageError::InvalidSetting { .. } => {
                LoadError::input(format!("{}, row {rowid}", self.place), error.to_string())
            }
            other => other.into(),
        })
    }
}

/// The type that the caller wants, for each column.
fn named_types(
    schema: &TableSchema,
    types: &[(String, ColumnType)],
    place: &str,
) -> Result<Vec<Option<ColumnType>>, LoadError> {
    refuse_named_twice(types).map_err(|what| LoadError::input(place, what))?;
    let mut named = vec![None; schema.columns.len()];
    for (name, column_type) in types {
        let Some(index) = schema.column_index(name) else {
            let known: Vec<&str> = schema.columns.iter().map(|column| &*column.name).collect();
            let what = format!("it has no column {name}; its columns are {}", known.join(", "));
            return Err(LoadError::input(place, what));
        };
        named[index] = Some(*column_type);
    }
    Ok(named)
}

/// What is in each column, and how many rows there are.
fn look_through(
    file: &OpenFile,
    schema: &TableSchema,
    tree: &TableTree,
) -> Result<(Vec<Seen>, u64), LoadError> {
    let mut seen = vec![Seen::default(); schema.columns.len()];
    let mut row_count = 0;
    let looked = tree.scan_all(file.pages(), |rowid, record| {
        row_count += 1;
        for (seen, value) in seen.iter_mut().zip(schema.values(rowid, &record)) {
            seen.note(rowid, value);
        }
    });
    looked.map_err(|error| file.explain(error))?;
    Ok((seen, row_count))
}

impl Kind {
    /// In the order of the kinds.
    const NAMES: [&str; 6] = [
        "integers",
        "integers that are no doubles",
        "reals",
        "texts",
        "texts that are not UTF-8",
        "blobs",
    ];

    /// `None` for null, which every column takes.
    fn of(value: ValueRef<'_>) -> Option<Self> {
        Some(match value {
            ValueRef::Null => return None,
            ValueRef::Integer(number) if exact_real(number).is_none() => Self::LargeInteger,
            ValueRef::Integer(_) => Self::Integer,
            ValueRef::Real(_) => Self::Real,
            ValueRef::Text(text) if std::str::from_utf8(text).is_err() => Self::WildText,
            ValueRef::Text(_) => Self::Text,
            ValueRef::Blob(_) => Self::Blob,
        })
    }
}

impl Seen {
    #[inline]
    fn note(&mut self, rowid: i64, value: ValueRef<'_>) {
        if let Some(kind) = Kind::of(value) {
            self.0[kind as usize].get_or_insert(rowid);
        }
    }

    /// The type that all values have; of a column without values, that which its declaration wants.
    fn column_type(&self, affinity: Affinity) -> Result<ColumnType, String> {
        let only = |kinds: &[Kind]| {
            let is_among = |index: usize| kinds.iter().any(|&kind| kind as usize == index);
            self.0.iter().enumerate().all(|(index, first)| first.is_none() || is_among(index))
        };
        if only(&[]) {
            return Ok(match affinity {
                Affinity::Integer => ColumnType::Integer,
                Affinity::Real | Affinity::Numeric => ColumnType::Real,
                Affinity::Text => ColumnType::Text,
                Affinity::Blob => ColumnType::Blob,
            });
        }
        let choices: [(&[Kind], ColumnType); 4] = [
            (&[Kind::Integer, Kind::LargeInteger], ColumnType::Integer),
            (&[Kind::Integer, Kind::Real], ColumnType::Real),
            (&[Kind::Text], ColumnType::Text),
            (&[Kind::Blob], ColumnType::Blob),
        ];
        let found = choices.into_iter().find(|(kinds, _)| only(kinds));
        found.map(|(_, column_type)| column_type).ok_or_else(|| self.complaint())
    }

    fn complaint(&self) -> String {
        let pairs = self.0.iter().zip(Kind::NAMES);
        let found = pairs.filter_map(|(first, name)| Some(format!("{name} (row {})", (*first)?)));
        let found: Vec<String> = found.collect();
        format!(
            "it holds {}, and a column here has one type; name one to convert to: text takes \
             numbers, blob takes texts",
            found.join(", ")
        )
    }
}

/// The value as a column of this type holds it, if it is another; else what would be right. The
/// conversions are those of SQLite's affinities, and of texts to their bytes.
fn convert(value: ValueRef<'_>, column_type: ColumnType) -> Result<Option<Value>, &'static str> {
    let (affinity, wanted) = match (column_type, value) {
        (_, ValueRef::Null)
        | (ColumnType::Integer, ValueRef::Integer(_))
        | (ColumnType::Real, ValueRef::Real(_))
        | (ColumnType::Blob, ValueRef::Blob(_)) => return Ok(None),
        (ColumnType::Blob, ValueRef::Text(text)) => return Ok(Some(Value::Blob(text.to_vec()))),
        (ColumnType::Blob, _) => return Err("neither a blob nor a text"),
        (_, ValueRef::Text(text)) if std::str::from_utf8(text).is_err() => {
            return Err("a text that is not UTF-8; the type blob takes its bytes");
        }
        (ColumnType::Text, ValueRef::Text(_)) => return Ok(None),
        (ColumnType::Real, ValueRef::Integer(number)) if exact_real(number).is_none() => {
            return Err("no real exactly; the types integer and text take it");
        }
        (ColumnType::Real, ValueRef::Text(text)) if is_inexact(text) => {
            return Err("no real exactly; the type text takes it");
        }
        (ColumnType::Text, _) => (Affinity::Text, "no text"),
        (ColumnType::Integer, _) => {
            (Affinity::Integer, "no integer; the types real and text take more")
        }
        (ColumnType::Real, _) => (Affinity::Real, "no number; the type text takes more"),
    };
    let changed = affinity.apply(value.to_value());
    if affinity.accepts(changed.as_ref()) && !matches!(changed, Value::Blob(_)) {
        return Ok(Some(changed));
    }
    Err(wanted)
}

/// Whether a text is an integer that no real holds exactly.
fn is_inexact(text: &[u8]) -> bool {
    let text = String::from_utf8_lossy(text);
    let text = text.trim();
    let digits = text.trim_start_matches(['+', '-']);
    digits.bytes().all(|byte| byte.is_ascii_digit())
        && !digits.is_empty()
        && real_in(text).is_none()
}

/// A value in a message.
fn shown(value: ValueRef<'_>) -> String {
    match value {
        ValueRef::Null => "null".to_owned(),
        ValueRef::Integer(number) => format!("`{number}`"),
        ValueRef::Real(number) => format!("`{number:?}`"),
        ValueRef::Text(text) => format!("`{}`", shorten(text)),
        ValueRef::Blob(bytes) => format!("a blob of {}", counted(bytes.len() as u64, "byte")),
    }
}
