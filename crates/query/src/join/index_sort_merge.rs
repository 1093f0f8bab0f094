//! Index sort-merge: the indexes of both sides are walked side by side in the order of the key
//! (S000 chapter 5). With a bound on the key only the beginnings of both are read, which wins where
//! few rows are wanted.
//!
//! Entries are compared first. Rows are fetched only of keys that both sides have, or that come out
//! alone, and many at a time.
//!
//! ```text
//!   left entries   1 2 2 5 7 ─┐ gather   group 0: 2 2 │ 2    ─► fetch both, pair group by group
//!   right entries  2 3 7 7 7 ─┘          group 1: 7   │ 7 7 7
//! ```
//!
//! 1. Groups that are gathered are whole but for the last, whose rows may not fit: then each part
//!    of its left rows meets all its right rows, which are walked once more for the next part.
//! 2. Each row that comes out alone is noted once.

use super::hash_table::PAIR_COUNT_MAX;
use super::index_nested_loops::columns_by_index;
use super::roles::{Alone, Roles};
use super::{Join, JoinStream, Side};
use crate::execution::Memory;
use crate::index::{EntryCursor, FetchOrder, IndexLookup, KeyRange, RowBuffer, alone};
use crate::tuple::{NO_TUPLE, PairBatch};
use crate::work::Work;
use crate::{Execution, QueryError};
use std::cmp::Ordering;

/// How the memory is divided, and which rows take part.
#[derive(Clone, Debug, PartialEq)]
pub struct Settings {
    /// Pages of rows of the left side; one of them holds the leaf at hand.
    pub left_pages: u32,
    /// Pages of rows of the right side; one of them holds the leaf at hand.
    pub right_pages: u32,
    /// In which order rows are fetched that do not lie in an index itself.
    pub order: FetchOrder,
    /// The left rows that take part.
    pub left_range: KeyRange,
    /// The right rows that take part.
    pub right_range: KeyRange,
}

/// One side at work.
struct Input<'x> {
    index: &'x dyn IndexLookup,
    entries: EntryCursor<'x>,
    rows: RowBuffer,
    alone: Alone,
}

/// How far the group at hand is gathered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Gathering {
    /// There is none.
    Between,
    /// Its left entries come next.
    Left,
    /// Its right entries come next. More left ones may follow.
    Right { left_has_more: bool },
    /// There was no room for all left entries; the right ones have to be walked again for the rest.
    Again,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Gather,
    /// Rows of the right side that come out alone.
    LoadRightAlone,
    RightAlone,
    LoadLeft,
    LeftAlone,
    LoadRight,
    Pairs,
    End,
}

/// Index sort-merge join as a stream of pairs: see the module.
pub struct IndexSortMerge<'x> {
    execution: &'x Execution,
    pairs_come_out: bool,
    order: FetchOrder,
    left: Input<'x>,
    right: Input<'x>,
    gathering: Gathering,
    group: u32,
    /// The key of the group at hand, as both sides compare it, and as the right tree has it.
    group_key: Vec<u8>,
    group_prefix: Vec<u8>,
    is_begun: bool,
    /// Entries walked since they were booked.
    entry_count: u64,
    is_gathered: bool,
    /// Where emitting goes on: in the left items, the right items, and where the group begins
    /// there.
    emitted: (usize, usize, usize),
    _memory: Memory<'x>,
    pairs: Vec<(u64, u64)>,
    stage: Stage,
}

impl<'x> IndexSortMerge<'x> {
    /// Begins; of `join`, the relations are not read, but the indexes are.
    ///
    /// # Errors
    /// If there is less memory than the settings say, the keys do not match, or they are not made
    /// of the first columns of both indexes, in the same order.
    pub fn new(
        execution: &'x Execution,
        join: Join<'x>,
        (left, right): (&'x dyn IndexLookup, &'x dyn IndexLookup),
        settings: &Settings,
    ) -> Result<Self, QueryError> {
        const NAME: &str = "index sort-merge";
        join.check()?;
        [left, right].iter().try_for_each(|index| execution.check_page_bytes(index.engine()))?;
        let order = columns_by_index(left, join.left.key)?;
        if order != columns_by_index(right, join.right.key)? {
            let names = (left.name(), right.name());
            let what =
                format!("indexes {} and {} have the key in different orders", names.0, names.1);
            return Err(QueryError::Invalid { what });
        }
        let count = order.len();
        let recodes = left.key().types()[..count] != right.key().types()[..count];
        let roles = Roles::of(join.join_type, Side::Left);
        // A leaf of each side.
        let mut memory = execution.take(NAME, 2)?;
        let mut input = |index: &'x dyn IndexLookup, pages: u32, range, alone| {
            let rows = execution.take(NAME, pages.max(2) - 1)?;
            let buffer = RowBuffer::for_index(index, &rows);
            memory.join(rows);
            let entries = EntryCursor::new(execution, index, (count, recodes), range)?;
            Ok::<_, QueryError>(Input { index, entries, rows: buffer, alone })
        };
        let Settings { left_pages, right_pages, left_range, right_range, .. } = settings;
        let left = input(left, *left_pages, left_range, roles.build)?;
        let right = input(right, *right_pages, right_range, roles.probe)?;
        Ok(Self {
            execution,
            pairs_come_out: roles.pairs,
            order: settings.order,
            left,
            right,
            gathering: Gathering::Between,
            group: 0,
            group_key: Vec::new(),
            group_prefix: Vec::new(),
            is_begun: false,
            entry_count: 0,
            is_gathered: false,
            emitted: (0, 0, 0),
            _memory: memory,
            pairs: Vec::new(),
            stage: Stage::Gather,
        })
    }

    /// Notes rows until there is no more room, or no more entry; then `is_gathered`.
    fn gather(&mut self) -> Result<(), QueryError> {
        if !self.is_begun {
            self.is_begun = true;
            self.left.entries.advance()?;
            self.right.entries.advance()?;
        }
        match self.gathering {
            // The rest of a group's right rows meets the left rows that are there.
            Gathering::Right { .. } => self.left.rows.keep_group(self.group),
            Gathering::Between => {
                self.left.rows.clear();
                self.group = 0;
            }
            Gathering::Left | Gathering::Again => self.left.rows.clear(),
        }
        self.right.rows.clear();
        loop {
            let has_room = match self.gathering {
                Gathering::Between => self.gather_between()?,
                Gathering::Left => self.gather_left()?,
                Gathering::Right { left_has_more } => self.gather_right(left_has_more)?,
                Gathering::Again => {
                    self.right.entries.restart(&self.group_prefix)?;
                    self.gathering = Gathering::Left;
                    true
                }
            };
            if !has_room || self.is_gathered {
                return Ok(());
            }
        }
    }

    /// Takes the smaller of both entries, or begins a group; false if there is no room.
    fn gather_between(&mut self) -> Result<bool, QueryError> {
        let (left, right) = (&mut self.left, &mut self.right);
        let order = match (left.entries.key(), right.entries.key()) {
            (None, None) => Ordering::Equal,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some(_), Some(_)) if left.entries.has_null() => Ordering::Less,
            (Some(_), Some(_)) if right.entries.has_null() => Ordering::Greater,
            (Some(one), Some(other)) => one.cmp(other),
        };
        let is_rest = match (left.entries.key(), right.entries.key()) {
            (None, None) => true,
            (None, _) => right.alone != Alone::Unmatched,
            (_, None) => left.alone != Alone::Unmatched,
            _ => false,
        };
        if is_rest {
            self.is_gathered = true;
            return Ok(true);
        }
        let (input, taken) = match order {
            Ordering::Less => (left, Alone::Unmatched),
            Ordering::Greater => (right, Alone::Unmatched),
            Ordering::Equal if !self.pairs_come_out => (left, Alone::Matched),
            Ordering::Equal => {
                self.group += 1;
                self.group_key.clear();
                self.group_key.extend(left.entries.key().unwrap_or_default());
                self.group_prefix.clear();
                self.group_prefix.extend(right.entries.prefix());
                self.gathering = Gathering::Left;
                return Ok(true);
            }
        };
        if input.alone == taken && !input.take(alone(self.group))? {
            return Ok(false);
        }
        input.entries.advance()?;
        self.entry_count += 1;
        Ok(true)
    }

    /// Notes the left entries of the group; false if there is no room for any.
    fn gather_left(&mut self) -> Result<bool, QueryError> {
        let mut is_first = true;
        while self.left.entries.key() == Some(&self.group_key) {
            if !self.left.take(self.group)? {
                if is_first {
                    return Ok(false);
                }
                self.gathering = Gathering::Right { left_has_more: true };
                return Ok(true);
            }
            is_first = false;
            self.left.entries.advance()?;
            self.entry_count += 1;
        }
        self.gathering = Gathering::Right { left_has_more: false };
        Ok(true)
    }

    /// Notes the right entries of the group; false if there is no room for all, or for more left
    /// ones.
    fn gather_right(&mut self, left_has_more: bool) -> Result<bool, QueryError> {
        while self.right.entries.key() == Some(&self.group_key) {
            if !self.right.take(self.group)? {
                return Ok(false);
            }
            self.right.entries.advance()?;
            self.entry_count += 1;
        }
        self.gathering = if left_has_more { Gathering::Again } else { Gathering::Between };
        Ok(!left_has_more)
    }

    /// Pairs the rows in memory group by group; true when all were.
    fn emit_pairs(&mut self) -> bool {
        let (left, right) = (self.left.rows.items(), self.right.rows.items());
        let (mut at, mut other, mut first) = self.emitted;
        while let Some(one) = left.get(at) {
            if one.is_loaded() && !one.is_alone() {
                while right.get(first).is_some_and(|item| item.group() < one.group()) {
                    first += 1;
                }
                other = other.max(first);
                while let Some(partner) = right.get(other).filter(|x| x.group() == one.group()) {
                    if partner.is_loaded() && !partner.is_alone() {
                        if self.pairs.len() >= PAIR_COUNT_MAX {
                            self.emitted = (at, other, first);
                            return false;
                        }
                        self.pairs.push((one.address, partner.address));
                    }
                    other += 1;
                }
            }
            (at, other) = (at + 1, first);
        }
        self.emitted = (0, 0, 0);
        true
    }

    /// Hands on the rows of one side that are in memory and come out alone.
    fn emit_alone(&mut self, side: Side) {
        let input = if side == Side::Left { &self.left } else { &self.right };
        for item in input.rows.items() {
            if item.is_loaded() && item.is_alone() {
                self.pairs.push(match side {
                    Side::Left => (item.address, NO_TUPLE),
                    Side::Right => (NO_TUPLE, item.address),
                });
            }
        }
    }

    fn load(&mut self, side: Side) -> Result<bool, QueryError> {
        let Self { execution, order, left, right, .. } = self;
        let Input { index, rows, .. } = if side == Side::Left { left } else { right };
        let is_loaded = index.load(execution, *order, rows)?;
        if is_loaded {
            execution.work(Work::Fetch, rows.batch().cells.len() as u64);
        }
        Ok(is_loaded)
    }
}

impl Input<'_> {
    /// Notes the row of the entry at hand; false if there is no room.
    fn take(&mut self, group: u32) -> Result<bool, QueryError> {
        self.index.take(self.entries.entry(), group, &mut self.rows)
    }
}

impl JoinStream for IndexSortMerge<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.pairs.clear();
        while self.pairs.is_empty() {
            self.stage = match self.stage {
                Stage::Gather if self.is_gathered => Stage::End,
                Stage::Gather => {
                    self.execution.check_stop()?;
                    let (execution, engine) = (self.execution, self.left.index.engine());
                    execution.through_pool(engine, || self.gather())?;
                    execution.work(Work::Compare, std::mem::take(&mut self.entry_count));
                    // Rows that were kept are paired anew.
                    self.left.rows.rewind();
                    match self.right.rows.items().iter().any(|item| item.is_alone()) {
                        true => Stage::LoadRightAlone,
                        false => Stage::LoadLeft,
                    }
                }
                Stage::LoadRightAlone => match self.load(Side::Right)? {
                    true => Stage::RightAlone,
                    false => Stage::LoadLeft,
                },
                Stage::RightAlone => {
                    self.emit_alone(Side::Right);
                    Stage::LoadRightAlone
                }
                Stage::LoadLeft => match self.load(Side::Left)? {
                    true => Stage::LeftAlone,
                    false => Stage::Gather,
                },
                Stage::LeftAlone => {
                    self.emit_alone(Side::Left);
                    self.right.rows.rewind();
                    Stage::LoadRight
                }
                Stage::LoadRight => match self.load(Side::Right)? {
                    true => Stage::Pairs,
                    false => Stage::LoadLeft,
                },
                Stage::Pairs => match self.emit_pairs() {
                    true => Stage::LoadRight,
                    false => Stage::Pairs,
                },
                Stage::End => return Ok(false),
            };
        }
        self.execution.work(Work::Emit, self.pairs.len() as u64);
        Ok(true)
    }

    fn batch(&self) -> PairBatch<'_> {
        let (first, second) = (self.left.rows.area(), self.right.rows.area());
        PairBatch { first, second, first_side: Side::Left, pairs: &self.pairs }
    }
}
