//! Nested loops, a tuple at a time: the inner side is scanned for each outer row (S000 chapter 5
//! has it for completeness; no planner should want it but for the smallest tables).
//!
//! ```text
//!   for each outer row:   inner ═blocks═► compare each row ─► pairs     stops early where one match is all
//! ```
//!
//! 1. Each outer row meets every inner row once, or those up to its first partner where that is
//!    enough: in semi and anti joins, and where the inner key is unique.
//! 2. Only rows of the outer side can come out alone.

use super::hash_table::PAIR_COUNT_MAX;
use super::roles::{Alone, Roles};
use super::{Join, JoinStream, Side};
use crate::execution::Memory;
use crate::relation::{Span, TupleStream};
use crate::tuple::{Area, NO_TUPLE, PairBatch};
use crate::work::Work;
use crate::{Execution, QueryError};

/// How the join is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The side whose rows are taken one by one.
    pub outer: Side,
    /// Pages through which the outer side is read.
    pub outer_pages: u32,
    /// Pages through which the inner side is read.
    pub inner_pages: u32,
    /// Whether no two inner rows have the same key.
    pub inner_is_unique: bool,
}

/// Nested loops as a stream of pairs: see the module.
pub struct NestedLoops<'x> {
    execution: &'x Execution,
    join: Join<'x>,
    settings: Settings,
    roles: Roles,
    outer: Box<dyn TupleStream + 'x>,
    /// The outer row at hand, in the batch at hand.
    row: usize,
    row_is_matched: bool,
    inner: Option<Box<dyn TupleStream + 'x>>,
    /// The first inner row of the batch at hand that was not compared yet.
    next_inner: usize,
    inner_memory: Option<Memory<'x>>,
    stage: Stage,
    pairs: Vec<(u64, u64)>,
}

/// What is done next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Next,
    Compare,
    End,
}

/// What came of the outer row at hand.
enum Progress {
    /// There are pairs to hand on first.
    Pairs,
    /// All of the inner side was looked at that had to be.
    Done,
}

impl<'x> NestedLoops<'x> {
    /// Begins.
    ///
    /// # Errors
    /// If there is less memory than the settings say, the keys do not match, rows of the inner side
    /// would have to come out alone, or the device fails.
    pub fn new(
        execution: &'x Execution,
        join: Join<'x>,
        settings: Settings,
    ) -> Result<Self, QueryError> {
        join.check()?;
        let roles = Roles::of(join.join_type, settings.outer.other());
        roles.check_probe_only("nested loops", join.join_type, settings.outer)?;
        let outer_memory = execution.take("nested loops", settings.outer_pages.max(1))?;
        let inner_memory = execution.take("nested loops", settings.inner_pages.max(1))?;
        let outer = join.input(settings.outer).relation;
        let outer = outer.scan(execution, outer_memory, Span::ALL)?;
        Ok(Self {
            execution,
            join,
            settings,
            roles,
            outer,
            row: 0,
            row_is_matched: false,
            inner: None,
            next_inner: 0,
            inner_memory: Some(inner_memory),
            stage: Stage::Next,
            pairs: Vec::new(),
        })
    }

    /// Makes the next outer row the one at hand and begins to scan the inner side for it; false at
    /// the end.
    fn begin_row(&mut self) -> Result<bool, QueryError> {
        while self.row >= self.outer.batch().cells.len() {
            self.row = 0;
            if !self.outer.advance()? {
                return Ok(false);
            }
        }
        let batch = self.outer.batch();
        let tuple = batch.area.tuple(batch.cells[self.row]);
        let key = self.join.input(self.settings.outer).key;
        let has_key = key.hash(tuple)?.is_some();
        self.row_is_matched = false;
        self.inner = None;
        if has_key {
            let memory = match self.inner_memory.take() {
                Some(memory) => memory,
                None => self.execution.take("nested loops", self.settings.inner_pages.max(1))?,
            };
            let inner = self.join.input(self.settings.outer.other()).relation;
            self.inner = Some(inner.scan(self.execution, memory, Span::ALL)?);
            self.next_inner = 0;
        }
        Ok(true)
    }

    /// Compares inner rows with the outer row at hand until there are pairs or no more is needed.
    fn compare(&mut self) -> Result<Progress, QueryError> {
        let (outer_key, inner_key) = (
            self.join.input(self.settings.outer).key,
            self.join.input(self.settings.outer.other()).key,
        );
        let Some(inner) = &mut self.inner else { return Ok(Progress::Done) };
        let outer = self.outer.batch();
        let outer_cell = outer.cells[self.row];
        let outer_tuple = outer.area.tuple(outer_cell);
        loop {
            let batch = inner.batch();
            let first = self.next_inner;
            for &cell in &batch.cells[first..] {
                self.next_inner += 1;
                // The outer key has no NULL, so an inner one with a NULL differs.
                if !inner_key.equals(batch.area.tuple(cell), outer_key, outer_tuple)? {
                    continue;
                }
                self.row_is_matched = true;
                if self.roles.pairs {
                    self.pairs.push((outer_cell, cell));
                }
                if !self.roles.pairs || self.settings.inner_is_unique {
                    let count = self.next_inner - first;
                    self.execution.work(Work::Compare, count as u64);
                    return Ok(Progress::Done);
                }
                if self.pairs.len() >= PAIR_COUNT_MAX {
                    break;
                }
            }
            self.execution.work(Work::Compare, (self.next_inner - first) as u64);
            if !self.pairs.is_empty() {
                return Ok(Progress::Pairs);
            }
            self.next_inner = 0;
            if !inner.advance()? {
                return Ok(Progress::Done);
            }
        }
    }

    /// Whether the outer row at hand comes out by itself.
    fn is_alone(&self) -> bool {
        match self.roles.probe {
            Alone::Never => false,
            Alone::Matched => self.row_is_matched,
            Alone::Unmatched => !self.row_is_matched,
        }
    }
}

impl JoinStream for NestedLoops<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.pairs.clear();
        while self.pairs.is_empty() {
            match self.stage {
                Stage::Next => {
                    self.stage = if self.begin_row()? { Stage::Compare } else { Stage::End };
                }
                Stage::Compare => {
                    if let Progress::Pairs = self.compare()? {
                        break;
                    }
                    if self.is_alone() {
                        self.pairs.push((self.outer.batch().cells[self.row], NO_TUPLE));
                    }
                    self.row += 1;
                    self.stage = Stage::Next;
                }
                Stage::End => return Ok(false),
            }
        }
        self.execution.work(Work::Emit, self.pairs.len() as u64);
        Ok(true)
    }

    fn batch(&self) -> PairBatch<'_> {
        let second = match &self.inner {
            Some(inner) => inner.batch().area,
            None => Area::EMPTY,
        };
        let first = self.outer.batch().area;
        PairBatch { first, second, first_side: self.settings.outer, pairs: &self.pairs }
    }
}
