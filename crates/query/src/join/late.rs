//! What joins share that put rows together late: the join kernel, which sees keys and row numbers only, and the
//! rows that are fetched for the pairs it finds.
//!
//! ```text
//!   keys of both sides ══► kernel (hybrid hash) ══► join index: pairs of row numbers ══► fetch
//! ```

use super::{HybridHash, Join, JoinInput, JoinStream, Side, hybrid_hash};
use crate::relation::{Late, PaxView};
use crate::tuple::{NO_TUPLE, Tuple};
use crate::{Execution, QueryError};

/// The number of no row: numbers begin at 1.
pub(super) const NO_ROW: i64 = 0;

/// A join whose sides may be put together late.
#[derive(Clone, Copy)]
pub(super) struct LateJoin<'x> {
    pub(super) left: Late<'x>,
    pub(super) right: Late<'x>,
}

impl<'x> LateJoin<'x> {
    /// Both sides of `join`.
    ///
    /// # Errors
    /// If one of them cannot be read by columns.
    pub(super) fn of(join: &Join<'x>, operator: &str) -> Result<Self, QueryError> {
        let late = |input: JoinInput<'x>| {
            input.relation.late().ok_or_else(|| {
                let name = input.relation.name();
                let what = format!("{operator} reads tables in PAX pages, and {name} is not one");
                QueryError::Invalid { what }
            })
        };
        Ok(Self { left: late(join.left)?, right: late(join.right)? })
    }

    /// What is fetched of one side.
    pub(super) const fn rows(&self, side: Side) -> &'x PaxView<'x> {
        match side {
            Side::Left => self.left.rows,
            Side::Right => self.right.rows,
        }
    }

    /// Checks that so many pages fetch a row of either side.
    ///
    /// # Errors
    /// If they do not.
    pub(super) fn check_fetch(&self, operator: &str, pages: u32) -> Result<(), QueryError> {
        let least = self.left.rows.slot_pages().max(self.right.rows.slot_pages());
        if least <= pages {
            return Ok(());
        }
        Err(QueryError::TooLittleMemory {
            operator: operator.to_owned(),
            needed_pages: u64::from(least),
            granted_pages: u64::from(pages),
        })
    }

    /// The hybrid hash join over keys alone that finds the pairs.
    pub(super) fn kernel(
        &self,
        execution: &'x Execution,
        join: Join<'x>,
        settings: hybrid_hash::Settings,
    ) -> Result<HybridHash<'x>, QueryError> {
        let left = JoinInput { relation: self.left.keys, key: join.left.key };
        let right = JoinInput { relation: self.right.keys, key: join.right.key };
        HybridHash::new(execution, Join { left, right, ..join }, settings)
    }
}

/// The join index, row after row.
pub(super) struct JoinIndex<'x> {
    kernel: HybridHash<'x>,
    /// The next pair of the kernel's batch.
    next: usize,
}

impl<'x> JoinIndex<'x> {
    pub(super) const fn new(kernel: HybridHash<'x>) -> Self {
        Self { kernel, next: 0 }
    }

    /// Hands on the row numbers of pairs, left and right, until `take` says no, or there are none; true in the end.
    ///
    /// # Errors
    /// As the kernel and `take`.
    pub(super) fn advance(
        &mut self,
        mut take: impl FnMut([i64; 2]) -> Result<bool, QueryError>,
    ) -> Result<bool, QueryError> {
        loop {
            let batch = self.kernel.batch();
            let number = |tuple: Option<Tuple<'_>>| tuple.map_or(NO_ROW, |it| it.row_number);
            for (left, right) in batch.tuples().skip(self.next) {
                if !take([number(left), number(right)])? {
                    return Ok(false);
                }
                self.next += 1;
            }
            self.next = 0;
            if !self.kernel.advance()? {
                return Ok(true);
            }
        }
    }
}

/// Each number of a rising list once, without [`NO_ROW`].
pub(super) fn distinct(numbers: impl Iterator<Item = i64>, target: &mut Vec<i64>) {
    target.clear();
    target.extend(numbers.filter(|&number| number != NO_ROW));
    target.dedup();
}

/// A walk along rising row numbers, beside the addresses of those that were fetched, each once.
#[derive(Debug)]
pub(super) struct Places {
    place: usize,
    last: i64,
}

impl Default for Places {
    fn default() -> Self {
        Self { place: 0, last: NO_ROW }
    }
}

impl Places {
    /// The address of the next row, or of the last one again.
    pub(super) fn address(&mut self, number: i64, addresses: &[u64]) -> u64 {
        if number == NO_ROW {
            return NO_TUPLE;
        }
        self.place += usize::from(number != self.last && self.last != NO_ROW);
        self.last = number;
        addresses[self.place]
    }
}
