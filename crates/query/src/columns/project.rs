//! Some columns of a stream, in an order of their own: what was only compared goes no further. No
//! value is copied: columns change places with those of the batch before.

use super::{ColumnBatch, ColumnStream};
use crate::QueryError;

/// Some columns of a stream.
pub struct ProjectedColumns<'x> {
    stream: Box<dyn ColumnStream + 'x>,
    wanted: Vec<usize>,
    batch: ColumnBatch,
}

impl<'x> ProjectedColumns<'x> {
    /// The columns of `stream` at the places `wanted`, in that order.
    ///
    /// # Panics
    /// If there is no such column, or one is wanted twice.
    #[must_use]
    pub fn new(stream: Box<dyn ColumnStream + 'x>, wanted: &[usize]) -> Self {
        let columns = stream.batch().columns();
        assert!(wanted.iter().all(|&place| place < columns.len()), "columns that there are");
        let is_new = |(before, place): (usize, &usize)| !wanted[..before].contains(place);
        assert!(wanted.iter().enumerate().all(is_new), "each of them once");
        let types: Vec<_> = wanted.iter().map(|&place| columns[place].column_type()).collect();
        Self { stream, wanted: wanted.to_vec(), batch: ColumnBatch::new(&types) }
    }
}

impl ColumnStream for ProjectedColumns<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.batch.clear();
        let has_more = self.stream.advance()?;
        self.batch.take_columns(self.stream.batch_mut(), &self.wanted);
        Ok(has_more)
    }

    fn batch(&self) -> &ColumnBatch {
        &self.batch
    }

    fn batch_mut(&mut self) -> &mut ColumnBatch {
        &mut self.batch
    }
}
