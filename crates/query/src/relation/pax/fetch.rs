//! Rows by their numbers: of each PAX page that has one of them, what is wanted is read once, and the next ones
//! are under way meanwhile.
//!
//! 1. PAX pages are met in rising order. One that is at hand, or under way, from the call before is not read
//!    again.

use super::reader::PaxReader;
use super::{PaxView, RowMaker};
use crate::execution::Memory;
use crate::tuple::Tuple;
use crate::work::Work;
use crate::{Execution, QueryError};
use nandu_storage::StorageError;
use std::cell::Cell;

/// Fetches rows of a view.
pub(crate) struct PaxFetch<'x> {
    execution: &'x Execution,
    view: &'x PaxView<'x>,
    reader: PaxReader<'x>,
    maker: RowMaker,
}

impl<'x> PaxFetch<'x> {
    /// A fetch in `memory`, which is [`PaxView::slot_pages`] at least.
    ///
    /// # Errors
    /// If there is less.
    pub(crate) fn new(
        execution: &'x Execution,
        view: &'x PaxView<'x>,
        memory: Memory<'x>,
    ) -> Result<Self, QueryError> {
        execution.check_page_bytes(view.engine)?;
        if memory.pages() < view.slot_pages() {
            return Err(QueryError::TooLittleMemory {
                operator: format!("fetching rows of {}", view.name),
                needed_pages: u64::from(view.slot_pages()),
                granted_pages: u64::from(memory.pages()),
            });
        }
        let reader = PaxReader::new(execution, view, memory);
        Ok(Self { execution, view, reader, maker: RowMaker::default() })
    }

    /// Lends the rows of these numbers, which rise, to `look`, each with its place among them, until it says no.
    /// Answers how many it took.
    ///
    /// # Errors
    /// If the device fails, what it stores is damaged, there is no such row, or `look` fails.
    pub(crate) fn fetch(
        &mut self,
        rows: &[i64],
        mut look: impl FnMut(usize, Tuple<'_>) -> Result<bool, QueryError>,
    ) -> Result<usize, QueryError> {
        let Self { execution, view, reader, maker } = self;
        let table = view.table;
        // Rows come PAX page after PAX page: most lie on the one of the row before.
        let near = Cell::new(0);
        let place_of = |row: i64| {
            let found = table.place_near(row, near.get());
            near.set(found.map_or(0, |(pax_page, _)| pax_page));
            found.ok_or_else(|| {
                let what = format!("there is no row {row}");
                QueryError::from(StorageError::Corrupt { place: view.name.clone(), what })
            })
        };
        let mut begun = Begun::resume(rows, reader, &place_of)?;
        let mut taken = 0;
        while let Some(&row) = rows.get(taken) {
            let (pax_page, _) = place_of(row)?;
            if reader.pax_page() != Some(pax_page) {
                reader.release();
                begun.go_on(rows, reader, &place_of)?;
                assert!(reader.advance()?, "the PAX page of a row was begun");
            } else {
                begun.go_on(rows, reader, &place_of)?;
            }
            let views = reader.views()?;
            while let Some(&row) = rows.get(taken) {
                let (here, place) = place_of(row)?;
                if here != pax_page {
                    break;
                }
                let tuple = view.make_row(&views, (here, place), maker)?;
                if !look(taken, tuple)? {
                    book(execution, view, taken);
                    return Ok(taken);
                }
                taken += 1;
            }
        }
        book(execution, view, taken);
        Ok(taken)
    }
}

/// Books so many rows.
fn book(execution: &Execution, view: &PaxView<'_>, row_count: usize) {
    execution.work(Work::Fetch, row_count as u64);
    execution.work(Work::Assemble, (row_count * view.columns.len()) as u64);
}

/// How far the PAX pages of a list of rows were begun.
#[derive(Debug)]
struct Begun {
    /// Rows whose PAX pages were.
    row_count: usize,
    /// The PAX page of the last of them.
    last: Option<usize>,
    /// PAX pages that were under way before, and come first.
    known_count: usize,
}

impl Begun {
    /// Takes over what is under way, if it is what the rows want first; else it is forgotten.
    fn resume(
        rows: &[i64],
        reader: &mut PaxReader<'_>,
        place_of: &impl Fn(i64) -> Result<(usize, usize), QueryError>,
    ) -> Result<Self, QueryError> {
        let known: Vec<usize> = reader.under_way().collect();
        let (mut last, mut met) = (reader.pax_page(), 0);
        for &row in rows {
            let (pax_page, _) = place_of(row)?;
            if met == known.len() || (last != Some(pax_page) && known[met] != pax_page) {
                break;
            }
            met += usize::from(last != Some(pax_page));
            last = Some(pax_page);
        }
        if met < known.len() {
            reader.discard();
            met = 0;
        }
        Ok(Self { row_count: 0, last: reader.pax_page(), known_count: met })
    }

    /// Begins PAX pages while there are slots.
    fn go_on(
        &mut self,
        rows: &[i64],
        reader: &mut PaxReader<'_>,
        place_of: &impl Fn(i64) -> Result<(usize, usize), QueryError>,
    ) -> Result<(), QueryError> {
        while let Some(&row) = rows.get(self.row_count) {
            let (pax_page, _) = place_of(row)?;
            if self.last != Some(pax_page) {
                if self.known_count > 0 {
                    self.known_count -= 1;
                } else if reader.has_room() {
                    reader.begin(pax_page)?;
                } else {
                    break;
                }
                self.last = Some(pax_page);
            }
            self.row_count += 1;
        }
        Ok(())
    }
}
