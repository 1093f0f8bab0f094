//! One side of a sort-merge join: rows in order, from memory or from runs, and those that pairs still
//! refer to.
//!
//! ```text
//!   in memory:  place = index in the order       address = where the row lies anyway
//!   from runs:  place = offset in the copies     address = the same
//! ```
//!
//! 1. The copies stay within their limit, but for a single row that is larger by itself.

use crate::sort::merge::Merge;
use crate::sort::runs::SortedRows;
use crate::tuple::{Area, Tuple, read_cell};
use crate::{Key, QueryError};

/// Where rows come from.
enum Source<'x> {
    /// Rows in memory, the next of them, its key as bytes, and whether a value of that is NULL.
    Rows { rows: SortedRows<'x>, next: usize, key_bytes: Vec<u8>, has_null: bool },
    /// Runs being merged.
    Runs { merge: Merge<'x>, copies: Vec<u8>, limit_bytes: usize, copy_count: u64 },
    /// There are none.
    Empty,
}

/// The sorted rows of one side, one after the other.
pub(super) struct Input<'x> {
    key: &'x Key,
    source: Source<'x>,
}

impl<'x> Input<'x> {
    /// A side that has no rows.
    pub(super) const fn empty(key: &'x Key) -> Self {
        Self { key, source: Source::Empty }
    }

    /// A side whose rows are sorted in memory.
    pub(super) fn of_rows(key: &'x Key, rows: SortedRows<'x>) -> Result<Self, QueryError> {
        let (key_bytes, has_null) = (Vec::new(), false);
        let mut input = Self { key, source: Source::Rows { rows, next: 0, key_bytes, has_null } };
        input.encode()?;
        Ok(input)
    }

    /// Runs, of which up to `limit_bytes` are copied at once.
    pub(super) fn of_runs(key: &'x Key, merge: Merge<'x>, limit_bytes: usize) -> Self {
        let copies = Vec::with_capacity(limit_bytes);
        Self { key, source: Source::Runs { merge, copies, limit_bytes, copy_count: 0 } }
    }

    /// The row at hand; none at the end.
    pub(super) fn tuple(&self) -> Option<Tuple<'_>> {
        match &self.source {
            Source::Rows { rows, next, .. } => (*next < rows.len()).then(|| rows.tuple(*next)),
            Source::Runs { merge, .. } => merge.tuple(),
            Source::Empty => None,
        }
    }

    /// Its key as bytes, and whether a value is NULL.
    #[inline]
    pub(super) fn key(&self) -> Option<(&[u8], bool)> {
        match &self.source {
            Source::Rows { rows, next, key_bytes, has_null } => {
                (*next < rows.len()).then_some((key_bytes.as_slice(), *has_null))
            }
            Source::Runs { merge, .. } => merge.key(),
            Source::Empty => None,
        }
    }

    /// Whether the row at hand has this key.
    #[inline]
    pub(super) fn has_key(&self, key_bytes: &[u8]) -> bool {
        self.key().is_some_and(|(mine, _)| mine == key_bytes)
    }

    /// Goes on to the next row.
    ///
    /// # Errors
    /// If a run is damaged, the device fails, or the user asked to stop.
    #[inline]
    pub(super) fn advance(&mut self) -> Result<(), QueryError> {
        match &mut self.source {
            Source::Rows { next, .. } => {
                *next += 1;
                self.encode()
            }
            Source::Runs { merge, .. } => merge.advance(),
            Source::Empty => Ok(()),
        }
    }

    /// The key of the row at hand, for rows in memory.
    fn encode(&mut self) -> Result<(), QueryError> {
        if let Source::Rows { rows, next, key_bytes, has_null } = &mut self.source
            && *next < rows.len()
        {
            key_bytes.clear();
            *has_null = self.key.encode(rows.tuple(*next), key_bytes)?;
        }
        Ok(())
    }

    /// Keeps the row at hand where pairs can refer to it, and gives back its address; `None` if there is
    /// no room. A first row always has room.
    #[inline]
    pub(super) fn hold(&mut self) -> Option<u64> {
        match &mut self.source {
            Source::Rows { rows, next, .. } => (*next < rows.len()).then(|| rows.address(*next)),
            Source::Runs { merge, copies, limit_bytes, copy_count } => {
                let tuple = merge.tuple()?;
                let start = copies.len();
                if start > 0 && start + tuple.cell_bytes() > *limit_bytes {
                    return None;
                }
                tuple.push_cell(copies);
                *copy_count += 1;
                Some(start as u64)
            }
            Source::Empty => None,
        }
    }

    /// The place of the row at hand, or of the next copy.
    pub(super) const fn place(&self) -> u64 {
        match &self.source {
            Source::Rows { next, .. } => *next as u64,
            Source::Runs { copies, .. } => copies.len() as u64,
            Source::Empty => 0,
        }
    }

    /// The address of the row at a place, and the place behind it.
    #[inline]
    pub(super) fn row_at(&self, place: u64) -> (u64, u64) {
        match &self.source {
            Source::Rows { rows, .. } => (rows.address(nandu_base::to_index(place)), place + 1),
            Source::Runs { copies, .. } => {
                let cell = read_cell(&copies[nandu_base::to_index(place)..]);
                (place, place + cell.expect("copies are whole").1 as u64)
            }
            Source::Empty => (place, place),
        }
    }

    /// Forgets the copies before a place; gives back by how much all places moved.
    pub(super) fn keep_from(&mut self, place: u64) -> u64 {
        match &mut self.source {
            Source::Runs { copies, .. } => {
                copies.drain(..nandu_base::to_index(place));
                place
            }
            Source::Rows { .. } | Source::Empty => 0,
        }
    }

    /// Forgets the copies of rows, and keeps no more memory for them than the limit.
    pub(super) fn release_copies(&mut self) {
        if let Source::Runs { copies, limit_bytes, .. } = &mut self.source {
            copies.clear();
            copies.shrink_to(*limit_bytes);
        }
    }

    /// Where the rows lie that pairs refer to.
    pub(super) fn area(&self) -> Area<'_> {
        match &self.source {
            Source::Rows { rows, .. } => rows.area(),
            Source::Runs { copies, .. } => Area::Piece(copies),
            Source::Empty => Area::EMPTY,
        }
    }

    /// The comparisons of the merge since the last call.
    pub(super) const fn take_compare_count(&mut self) -> u64 {
        match &mut self.source {
            Source::Runs { merge, .. } => merge.take_compare_count(),
            Source::Rows { .. } | Source::Empty => 0,
        }
    }

    /// The rows copied since the last call.
    pub(super) const fn take_copy_count(&mut self) -> u64 {
        match &mut self.source {
            Source::Runs { copy_count, .. } => std::mem::replace(copy_count, 0),
            Source::Rows { .. } | Source::Empty => 0,
        }
    }
}
