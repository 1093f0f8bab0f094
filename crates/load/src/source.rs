//! Where rows come from, a few at a time.

use crate::LoadError;
use nandu_storage::StorageError;
use nandu_storage::database::ColumnType;
use nandu_storage::sqlite::ValueRef;
use std::fs::File;
use std::path::Path;

/// What takes a row, its values in the order of the columns.
pub type RowSink<'s> = dyn FnMut(&[ValueRef<'_>]) -> Result<(), StorageError> + 's;

/// Rows in an order of their own, read once.
pub trait RowSource: Send {
    /// Hands the next rows to `sink`; false when none are left. What it hands over at once is little
    /// enough to look at a flag in between.
    ///
    /// # Errors
    /// What `sink` returns, or if the source cannot be read.
    fn next_rows(&mut self, sink: &mut RowSink<'_>) -> Result<bool, LoadError>;

    /// Which share of the rows was handed over, from 0 to 1, as far as it is known.
    fn fraction(&self) -> f64;
}

/// Opens a file of a format that is read back and forth.
///
/// # Errors
/// If the system refuses, or it is none: a pipe would keep its reader waiting, and then give its bytes once.
pub(crate) fn open_file(path: &Path) -> Result<File, LoadError> {
    let name = || path.display().to_string();
    let failed = |error| LoadError::File { file: name(), error };
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        let what = "it is no file, and this format is read back and forth; save it to one first";
        return Err(LoadError::input(name(), what));
    }
    File::open(path).map_err(failed)
}

/// Some columns of another source.
pub struct Projected {
    source: Box<dyn RowSource>,
    columns: Vec<usize>,
}

impl Projected {
    /// The columns with these indices, in this order.
    #[must_use]
    pub fn new(source: Box<dyn RowSource>, columns: Vec<usize>) -> Self {
        Self { source, columns }
    }
}

impl std::fmt::Debug for Projected {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "Projected({:?})", self.columns)
    }
}

impl RowSource for Projected {
    fn next_rows(&mut self, sink: &mut RowSink<'_>) -> Result<bool, LoadError> {
        /// More columns than a key ever has here.
        const COLUMN_COUNT_MAX: usize = 16;
        let columns = &self.columns[..self.columns.len().min(COLUMN_COUNT_MAX)];
        self.source.next_rows(&mut |row| {
            let mut part = [ValueRef::Null; COLUMN_COUNT_MAX];
            for (target, &column) in part.iter_mut().zip(columns) {
                *target = row[column];
            }
            sink(&part[..columns.len()])
        })
    }

    fn fraction(&self) -> f64 {
        self.source.fraction()
    }
}

/// The same vector without its values, for values of another lifetime; the allocation is kept.
pub(crate) fn emptied<'to>(mut values: Vec<ValueRef<'_>>) -> Vec<ValueRef<'to>> {
    values.clear();
    values.into_iter().map(|_| ValueRef::Null).collect()
}

/// Of the types that a caller wants: two for one column, of which one would be passed over in silence.
pub(crate) fn refuse_named_twice(types: &[(String, ColumnType)]) -> Result<(), String> {
    for (index, (name, _)) in types.iter().enumerate() {
        if types[..index].iter().any(|(other, _)| other.eq_ignore_ascii_case(name)) {
            return Err(format!("the type of column {name} is given twice"));
        }
    }
    Ok(())
}
