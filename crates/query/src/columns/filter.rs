//! Rows that satisfy comparisons of a column with a value, all of them.

use super::{ColumnBatch, ColumnRows, ColumnStream, Values};
use crate::QueryError;
use nandu_base::to_u32;
use nandu_storage::sqlite::Value;
use std::cmp::Ordering;

/// How a value compares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operator {
    /// `=`
    Equal,
    /// `<>`
    NotEqual,
    /// `<`
    Less,
    /// `<=`
    LessOrEqual,
    /// `>`
    Greater,
    /// `>=`
    GreaterOrEqual,
}

/// A column compared with a value. NULL satisfies nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Comparison {
    /// The place of the column in the batch.
    pub column: usize,
    /// How it has to compare with the value.
    pub operator: Operator,
    /// What it is compared with.
    pub value: Value,
}

/// The rows of a stream that satisfy some comparisons.
pub struct FilteredColumns<'x> {
    stream: Box<dyn ColumnStream + 'x>,
    comparisons: Vec<Comparison>,
    places: Vec<u32>,
    batch: ColumnBatch,
}

impl Operator {
    /// Whether it holds of two values that compare like this.
    #[inline]
    #[must_use]
    pub const fn holds(self, order: Ordering) -> bool {
        match self {
            Self::Equal => order.is_eq(),
            Self::NotEqual => order.is_ne(),
            Self::Less => order.is_lt(),
            Self::LessOrEqual => order.is_le(),
            Self::Greater => order.is_gt(),
            Self::GreaterOrEqual => order.is_ge(),
        }
    }
}

impl Comparison {
    /// Takes away the places of rows that do not satisfy it.
    ///
    /// # Panics
    /// If there is no such column or row.
    pub fn retain(&self, batch: &ColumnBatch, places: &mut Vec<u32>) {
        let column = &batch.columns()[self.column];
        match (column.values(), &self.value) {
            (_, Value::Null) => places.clear(),
            (Values::Integer(values), Value::Integer(wanted)) => places.retain(|&place| {
                let row = place as usize;
                self.operator.holds(values[row].cmp(wanted)) && column.has_value(row)
            }),
            _ => {
                let wanted = self.value.as_ref();
                places.retain(|&place| {
                    let value = column.value(place as usize);
                    !value.is_null() && self.operator.holds(value.compare(&wanted))
                });
            }
        }
    }
}

impl<'x> FilteredColumns<'x> {
    /// The rows of `stream` that satisfy all of `comparisons`.
    ///
    /// # Panics
    /// If there is no such column.
    #[must_use]
    pub fn new(stream: Box<dyn ColumnStream + 'x>, comparisons: Vec<Comparison>) -> Self {
        let columns = stream.batch().columns();
        assert!(comparisons.iter().all(|it| it.column < columns.len()), "columns that there are");
        let types: Vec<_> = columns.iter().map(super::Column::column_type).collect();
        Self { stream, comparisons, places: Vec::new(), batch: ColumnBatch::new(&types) }
    }
}

impl ColumnStream for FilteredColumns<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.batch.clear();
        let has_more = self.stream.advance()?;
        let (batch, places) = (self.stream.batch(), &mut self.places);
        places.clear();
        places.extend(0..to_u32(batch.row_count() as u64));
        self.comparisons.iter().for_each(|comparison| comparison.retain(batch, places));
        self.batch.append(ColumnRows { batch, places });
        Ok(has_more)
    }

    fn batch(&self) -> &ColumnBatch {
        &self.batch
    }

    fn batch_mut(&mut self) -> &mut ColumnBatch {
        &mut self.batch
    }
}
