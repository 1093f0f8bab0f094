//! Columns of any stream of rows: of each row the wanted values are decoded once, in one pass over its record.

use super::{ColumnBatch, ColumnStream};
use crate::QueryError;
use crate::key::KeyColumn;
use crate::relation::TupleStream;
use crate::tuple::{Tuple, corrupt_record};
use nandu_storage::database::ColumnType;
use nandu_storage::sqlite::{RecordView, ValueRef};

/// Rows of a batch, about.
pub(crate) const BATCH_ROWS: usize = 1024;
/// Bytes of its values, about: what comes at once, a block or a row, is not divided.
pub(crate) const BATCH_BYTES: usize = 256 << 10;

/// A stream of rows as one of columns.
pub(crate) struct RowColumns<'x> {
    stream: Box<dyn TupleStream + 'x>,
    decoder: Decoder,
    batch: ColumnBatch,
}

/// Takes wanted values out of rows.
pub(crate) struct Decoder {
    /// Which stored columns are wanted, rising, and as which of the batch's columns.
    stored: Vec<(usize, usize)>,
    /// As which columns the row's number is.
    numbers: Vec<usize>,
    types: Vec<ColumnType>,
}

impl<'x> RowColumns<'x> {
    /// The columns that are wanted of the rows of a stream, whose columns have these types.
    ///
    /// # Errors
    /// If there is no such column.
    pub(crate) fn new(
        stream: Box<dyn TupleStream + 'x>,
        types: &[ColumnType],
        wanted: &[KeyColumn],
    ) -> Result<Self, QueryError> {
        let decoder = Decoder::new(types, wanted)?;
        Ok(Self { stream, batch: decoder.batch(), decoder })
    }
}

impl Decoder {
    /// Of rows whose columns have these types.
    ///
    /// # Errors
    /// If there is no such column.
    pub(crate) fn new(types: &[ColumnType], wanted: &[KeyColumn]) -> Result<Self, QueryError> {
        let types = types_of(types, wanted)?;
        let (mut stored, mut numbers) = (Vec::new(), Vec::new());
        for (place, column) in wanted.iter().enumerate() {
            match column {
                KeyColumn::Stored(index) => stored.push((*index, place)),
                KeyColumn::RowNumber => numbers.push(place),
            }
        }
        stored.sort_unstable();
        Ok(Self { stored, numbers, types })
    }

    /// An empty batch of the wanted columns.
    pub(crate) fn batch(&self) -> ColumnBatch {
        ColumnBatch::new(&self.types)
    }

    /// Appends a row to a batch.
    ///
    /// # Errors
    /// If its record breaks a rule of its format, or has a value that its column does not.
    #[inline]
    pub(crate) fn push(&self, tuple: Tuple<'_>, batch: &mut ColumnBatch) -> Result<(), QueryError> {
        let corrupt = |what| corrupt_record(tuple.row_number, what);
        batch.add(|columns| {
            let mut fits = true;
            let mut values = RecordView::unchecked_columns(tuple.record).map_err(corrupt)?;
            let mut next = 0;
            let mut value = ValueRef::Null;
            for &(index, place) in &self.stored {
                while next <= index {
                    value = match next == index {
                        true => values.next_or_null().map_err(corrupt)?,
                        false => {
                            values.skip_one();
                            value
                        }
                    };
                    next += 1;
                }
                fits &= columns[place].push(value);
            }
            for &place in &self.numbers {
                fits &= columns[place].push(ValueRef::Integer(tuple.row_number));
            }
            if fits { Ok(1) } else { Err(corrupt("a value is not of its column's type")) }
        })?;
        Ok(())
    }
}

/// The types of columns that are wanted.
///
/// # Errors
/// If there is no such column.
pub(crate) fn types_of(
    types: &[ColumnType],
    wanted: &[KeyColumn],
) -> Result<Vec<ColumnType>, QueryError> {
    let of = |column: &KeyColumn| match column {
        KeyColumn::RowNumber => Ok(ColumnType::Integer),
        KeyColumn::Stored(index) => types.get(*index).copied().ok_or_else(|| {
            let what = format!("column {index} is wanted of a table of {}", types.len());
            QueryError::Invalid { what }
        }),
    };
    wanted.iter().map(of).collect()
}

impl ColumnStream for RowColumns<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.batch.clear();
        while self.batch.row_count() < BATCH_ROWS && self.batch.value_bytes() < BATCH_BYTES {
            if !self.stream.advance()? {
                break;
            }
            for tuple in self.stream.batch().tuples() {
                self.decoder.push(tuple, &mut self.batch)?;
            }
        }
        Ok(self.batch.row_count() > 0)
    }

    fn batch(&self) -> &ColumnBatch {
        &self.batch
    }

    fn batch_mut(&mut self) -> &mut ColumnBatch {
        &mut self.batch
    }
}
