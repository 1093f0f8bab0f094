//! The wanted columns of PAX pages, decoded minipage by minipage; no row is made.

use super::PaxView;
use super::reader::PaxReader;
use crate::columns::{ColumnBatch, ColumnStream};
use crate::execution::Memory;
use crate::key::KeyColumn;
use crate::relation::Span;
use crate::work::Work;
use crate::{Execution, QueryError};
use nandu_storage::database::ColumnType;
use nandu_storage::sqlite::ValueRef;

/// Rows of a batch at most, and bytes that their values have, about.
const BATCH_ROWS_MAX: u64 = 2048;
const BATCH_BYTES: u64 = 64 << 10;

/// A scan by columns.
pub(super) struct PaxColumns<'x> {
    view: &'x PaxView<'x>,
    execution: &'x Execution,
    reader: PaxReader<'x>,
    next_pax_page: usize,
    end: usize,
    /// The row of the PAX page at hand that comes next.
    place: usize,
    /// Where the view has each wanted column; `None` for the row's number.
    wanted: Vec<Option<usize>>,
    batch: ColumnBatch,
    batch_rows: usize,
}

impl<'x> PaxColumns<'x> {
    /// A scan of a span in `memory`, which holds a slot at least.
    ///
    /// # Errors
    /// If the view has no such column.
    pub(super) fn new(
        view: &'x PaxView<'x>,
        execution: &'x Execution,
        memory: Memory<'x>,
        span: Span,
        wanted: &[KeyColumn],
    ) -> Result<Self, QueryError> {
        let mut types = Vec::with_capacity(wanted.len());
        let mut places = Vec::with_capacity(wanted.len());
        for column in wanted {
            let place = match column {
                KeyColumn::RowNumber => None,
                KeyColumn::Stored(index) => {
                    let found = view.columns.binary_search(index).map_err(|_| {
                        let what = format!("column {index} of {} is not read", view.name);
                        QueryError::Invalid { what }
                    });
                    Some(found?)
                }
            };
            types.push(place.map_or(ColumnType::Integer, |place| {
                view.table.column_types()[view.columns[place]]
            }));
            places.push(place);
        }
        let rows = (BATCH_BYTES / view.row_bytes().max(1)).clamp(8, BATCH_ROWS_MAX);
        Ok(Self {
            view,
            execution,
            reader: PaxReader::new(execution, view, memory),
            next_pax_page: span.from.run as usize,
            end: span.to.map_or(view.table.pax_pages().len(), |to| to.run as usize),
            place: 0,
            wanted: places,
            batch: ColumnBatch::new(&types),
            batch_rows: nandu_base::to_index(rows),
        })
    }

    /// Decodes rows of the PAX page at hand, as many as a batch has.
    fn decode(&mut self) -> Result<usize, QueryError> {
        let Some(pax_page) = self.reader.pax_page() else { return Ok(0) };
        let page = &self.view.table.pax_pages()[pax_page];
        let places = self.place..(self.place + self.batch_rows).min(page.row_count as usize);
        if places.is_empty() {
            return Ok(0);
        }
        let views = self.reader.views()?;
        let first_number = page.first_row.cast_signed() + 1;
        let (view, wanted) = (self.view, &self.wanted);
        let count = self.batch.add(|columns| {
            for (column, wanted) in columns.iter_mut().zip(wanted) {
                let fits = match wanted {
                    Some(at) => column.append_minipage(&views[*at], places.clone()),
                    None => places
                        .clone()
                        .all(|place| column.push(ValueRef::Integer(first_number + place as i64))),
                };
                if !fits {
                    let index = wanted.map_or(0, |at| view.columns[at]);
                    let what = "a value is not of its column's type";
                    return Err(QueryError::from(view.table.damaged(pax_page, index, what)));
                }
            }
            Ok(places.len())
        })?;
        self.place = places.end;
        Ok(count)
    }
}

impl ColumnStream for PaxColumns<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.batch.clear();
        loop {
            let rows = self.decode()? as u64;
            if rows > 0 {
                // Decoding a value is no more than a part of making a row of it, which is what is priced.
                self.execution.work(Work::Assemble, rows * self.wanted.len() as u64);
                return Ok(true);
            }
            if !self.reader.turn(&mut self.next_pax_page, self.end)? {
                return Ok(false);
            }
            self.place = 0;
        }
    }

    fn batch(&self) -> &ColumnBatch {
        &self.batch
    }

    fn batch_mut(&mut self) -> &mut ColumnBatch {
        &mut self.batch
    }
}
