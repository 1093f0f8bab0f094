//! External sort: rows in the order of a key, in memory if they fit, else in runs that are merged
//! (S001 section 3.2; Knuth, volume 3, 5.4).
//!
//! ```text
//!   pass 1   │ I: reads │ WS: rows and tree │ O: writes runs │     not even begun where WS holds all
//!   between  │ one block for each of some runs │ writes      │     where there are too many runs
//!   last     │ one block for each run          │ a page out  │
//! ```
//!
//! 1. Rows come in the order of their keys as bytes: NULL first. Rows of equal keys come in any order.
//! 2. Where all rows fit in the work space, nothing is written.
//! 3. Memory is I + O + WS in every pass, and for each run being read a key.

pub(crate) mod load_sort_store;
pub(crate) mod loser_tree;
pub(crate) mod merge;
pub(crate) mod replacement_selection;
pub(crate) mod runs;
pub(crate) mod workers;
pub(crate) mod workspace;

pub use crate::allocation::RunFormation;
pub use workers::{RowSink, sort_by_workers};

use crate::execution::Memory;
use crate::relation::{Position, Relation, RelationSize, Span, TupleStream};
use crate::tuple::{Area, TupleBatch};
use crate::work::Work;
use crate::{Execution, Key, QueryError, allocation};
use load_sort_store::LoadSortStore;
use merge::{Merge, RunSet};
use replacement_selection::ReplacementSelection;
use runs::{RunFormer, RunWriter, Sorted, SortedRows};
use serde::Serialize;
use workspace::Workspace;

/// How the memory is divided while runs are formed, and how that is done. No part is less than a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// I: pages through which the input is read.
    pub input_pages: u32,
    /// O: pages through which runs are written.
    pub output_pages: u32,
    /// WS: pages of rows and tree.
    pub workspace_pages: u32,
    /// How runs are formed.
    pub formation: RunFormation,
}

/// What a sort did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct SortCounts {
    /// Runs that were formed; none if the rows stayed in memory.
    pub run_count: u64,
    /// Merges before the last one.
    pub merge_count: u64,
}

/// Rows of a relation in order.
pub struct Sort<'x> {
    execution: &'x Execution,
    key: &'x Key,
    stage: Stage<'x>,
    counts: SortCounts,
    /// Rows of runs, copied for the batch; no more than a page, but for a row that is longer.
    copies: Vec<u8>,
    cells: Vec<u64>,
    given_bytes: u64,
}

/// How far a sort is.
enum Stage<'x> {
    /// Nothing was read; the memory waits.
    Begin { relation: &'x dyn Relation, settings: Settings, _memory: Memory<'x> },
    /// Rows in memory, and which is next.
    Rows(SortedRows<'x>, usize),
    /// Runs, and the page of the batch.
    Runs(Merge<'x>, Memory<'x>),
    /// All rows were given.
    End,
}

/// Of a share, the part for the fences of a side, if that is few pages.
const FENCE_PART: u32 = 16;
/// Pages that are enough where that would be more, but for a smaller part of large shares.
const FENCE_PAGES: u32 = 16;
const FENCE_PART_MIN: u32 = 256;
/// A worker's work space has at least so many pages.
pub(crate) const WORKSPACE_PAGES_MIN: u32 = 4;
/// Rows of a batch at most.
pub(crate) const BATCH_COUNT_MAX: usize = 1024;

impl Settings {
    /// The division that an allocation gives.
    #[must_use]
    pub fn of(allocation: &allocation::SortMerge, formation: RunFormation) -> Self {
        let pages = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        Self {
            input_pages: pages(allocation.input_pages),
            output_pages: pages(allocation.output_pages),
            workspace_pages: pages(allocation.workspace_pages),
            formation,
        }
    }

    /// What each of so many workers has of it, if that is enough to read in blocks of `input_pages` at least, and
    /// besides for the fences of runs of so many sides; and the pages of those of a side.
    #[must_use]
    pub(crate) fn share(
        &self,
        worker_count: usize,
        input_pages: u32,
        side_count: u32,
    ) -> Option<(Self, u32)> {
        let workers = nandu_base::to_u32(worker_count as u64).max(1);
        let share_pages = self.memory_pages() / workers;
        // Buffers that suit one worker may leave no room in a share.
        let buffer_pages = |pages: u32| (pages / workers).min(share_pages / 4).max(1);
        let input_pages = buffer_pages(self.input_pages).max(input_pages);
        let output_pages = buffer_pages(self.output_pages);
        let fence_pages = (share_pages / FENCE_PART).min(FENCE_PAGES);
        let fence_pages = fence_pages.max(share_pages / FENCE_PART_MIN).max(1);
        let others_pages = input_pages + output_pages + side_count * fence_pages;
        let workspace_pages = share_pages.checked_sub(others_pages)?;
        let share = Self { input_pages, output_pages, workspace_pages, ..*self };
        (workspace_pages >= WORKSPACE_PAGES_MIN).then_some((share, fence_pages))
    }

    /// Pages of input, output and workspace together.
    #[must_use]
    pub fn memory_pages(&self) -> u32 {
        let Self { input_pages, output_pages, workspace_pages, .. } = *self;
        let parts = [input_pages, output_pages, workspace_pages];
        parts.into_iter().fold(0, |sum: u32, part| sum.saturating_add(part.max(1)))
    }
}

/// Reads a relation and sorts it, in memory or into runs. Rows with a NULL in their key are left out
/// unless `keeps_nulls`.
pub(crate) fn form<'x>(
    execution: &'x Execution,
    (relation, key): (&'x dyn Relation, &'x Key),
    settings: Settings,
    keeps_nulls: bool,
) -> Result<Sorted<'x>, QueryError> {
    let input = execution.take("a sort", settings.input_pages.max(1))?;
    let mut former = former(execution, key, settings, (relation.size(), None))?;
    feed(&mut *former, &mut *relation.scan(execution, input, Span::ALL)?, key, keeps_nulls)?;
    former.finish()
}

/// Gives the rows of a stream to a former; those with a NULL in their key only if it `keeps_nulls`.
fn feed<'x>(
    former: &mut (dyn RunFormer<'x> + 'x),
    stream: &mut (dyn TupleStream + 'x),
    key: &Key,
    keeps_nulls: bool,
) -> Result<(), QueryError> {
    let mut key_bytes = Vec::new();
    while stream.advance()? {
        for tuple in stream.batch().tuples() {
            key_bytes.clear();
            let has_null = key.encode(tuple, &mut key_bytes)?;
            if keeps_nulls || !has_null {
                former.push(&key_bytes, tuple)?;
            }
        }
        former.book_work();
    }
    Ok(())
}

/// What takes rows to sort them, about as many and as large as `size` says, with the output and the work space of
/// `settings`. Runs have fences, of so many bytes at most, if several workers are going to merge them.
pub(crate) fn former<'x>(
    execution: &'x Execution,
    key: &'x Key,
    settings: Settings,
    (size, fence_bytes): (RelationSize, Option<usize>),
) -> Result<Box<dyn RunFormer<'x> + 'x>, QueryError> {
    const OPERATOR: &str = "a sort";
    let output = execution.take(OPERATOR, settings.output_pages.max(1))?;
    let memory = execution.take(OPERATOR, settings.workspace_pages.max(1))?;
    let cell_bytes = size.cell_bytes.checked_div(size.tuple_count).unwrap_or(0);
    let workspace = Workspace::new(memory.bytes(), size.tuple_count, cell_bytes);
    let data_pages = u64::from(settings.workspace_pages) * settings.formation.workspaces_per_run();
    let writer = RunWriter::new(execution, output, data_pages);
    let writer = writer.with_fences(fence_bytes.map(|bytes| (key, bytes)));
    let parts = (workspace, memory);
    Ok(match settings.formation {
        RunFormation::ReplacementSelection => {
            Box::new(ReplacementSelection::new(execution, key, parts, writer))
        }
        RunFormation::Quicksort => Box::new(LoadSortStore::new(execution, key, parts, writer)),
    })
}

impl<'x> Sort<'x> {
    /// Begins; nothing is read yet.
    ///
    /// # Errors
    /// If there is less memory than the settings say.
    pub fn new(
        execution: &'x Execution,
        relation: &'x dyn Relation,
        key: &'x Key,
        settings: Settings,
    ) -> Result<Self, QueryError> {
        let memory = execution.take("a sort", settings.memory_pages())?;
        let stage = Stage::Begin { relation, settings, _memory: memory };
        Ok(Self::at(execution, key, stage))
    }

    /// Rows that [`former`] has sorted, in so many pages.
    ///
    /// # Errors
    /// If there is less memory, or merges fail.
    pub(crate) fn of(
        execution: &'x Execution,
        key: &'x Key,
        sorted: Sorted<'x>,
        pages: u32,
    ) -> Result<Self, QueryError> {
        let mut sort = Self::at(execution, key, Stage::End);
        sort.stage = sort.open(sorted, pages)?;
        Ok(sort)
    }

    fn at(execution: &'x Execution, key: &'x Key, stage: Stage<'x>) -> Self {
        let counts = SortCounts::default();
        let (copies, cells) = (Vec::new(), Vec::new());
        Self { execution, key, stage, counts, copies, cells, given_bytes: 0 }
    }

    /// What it did so far.
    #[must_use]
    pub const fn counts(&self) -> SortCounts {
        self.counts
    }

    /// Asserts invariants 1 and 3 for the batch at hand.
    ///
    /// # Panics
    /// If one does not hold.
    #[cfg(test)]
    pub(crate) fn audit(&self) {
        assert!(self.cells.len() < 2 || self.copies.len() <= self.execution.page_bytes(), "3");
        match &self.stage {
            Stage::Runs(merge, _) => merge.audit(),
            Stage::Rows(rows, next) => assert!(*next <= rows.len(), "a place in the order"),
            Stage::Begin { .. } | Stage::End => {}
        }
    }

    /// Opens the last merge if there are runs.
    fn open(&mut self, sorted: Sorted<'x>, pages: u32) -> Result<Stage<'x>, QueryError> {
        let Self { execution, key, .. } = *self;
        let runs = match sorted {
            Sorted::Rows(rows) => return Ok(Stage::Rows(rows, 0)),
            Sorted::Runs(runs) => runs,
        };
        self.counts.run_count = runs.len() as u64;
        let mut sets = [RunSet { key, runs, fence_bytes: None }];
        let limit = pages - 1;
        self.counts.merge_count = merge::reduce(execution, &mut sets, limit as usize, pages)?;
        let [RunSet { runs, .. }] = sets;
        let page = execution.take("a sort", 1)?;
        self.copies.reserve_exact(execution.page_bytes());
        let memory = execution.take("a sort", limit)?;
        Ok(Stage::Runs(Merge::open(execution, key, runs, memory)?, page))
    }

    /// Fills the batch; false at the end.
    fn fill(&mut self) -> Result<bool, QueryError> {
        let Self { execution, stage, copies, cells, given_bytes, .. } = self;
        match stage {
            Stage::Begin { .. } | Stage::End => return Ok(false),
            Stage::Rows(rows, next) => {
                let end = rows.len().min(*next + BATCH_COUNT_MAX);
                for index in *next..end {
                    cells.push(rows.address(index));
                    *given_bytes += rows.tuple(index).cell_bytes() as u64;
                }
                *next = end;
            }
            Stage::Runs(merge, page) => {
                while let Some(tuple) = merge.tuple() {
                    let is_full = copies.len() + tuple.cell_bytes() > page.bytes();
                    if is_full && !copies.is_empty() {
                        break;
                    }
                    cells.push(copies.len() as u64);
                    tuple.push_cell(copies);
                    merge.advance()?;
                }
                *given_bytes += copies.len() as u64;
                execution.work(Work::Compare, merge.take_compare_count());
            }
        }
        Ok(!cells.is_empty())
    }
}

impl TupleStream for Sort<'_> {
    fn advance(&mut self) -> Result<bool, QueryError> {
        self.cells.clear();
        self.copies.clear();
        if let Stage::Begin { relation, settings, .. } = self.stage {
            // Setting the stage drops the memory that was granted for the sort as a whole: forming
            // and merging runs take theirs one after the other.
            self.stage = Stage::End;
            let sorted = form(self.execution, (relation, self.key), settings, true)?;
            self.stage = self.open(sorted, settings.memory_pages())?;
        }
        let has_rows = self.fill()?;
        if !has_rows {
            self.stage = Stage::End;
        }
        Ok(has_rows)
    }

    fn batch(&self) -> TupleBatch<'_> {
        let area = match &self.stage {
            Stage::Rows(rows, _) => rows.area(),
            _ => Area::Piece(&self.copies),
        };
        TupleBatch { area, cells: &self.cells }
    }

    fn page_count(&self) -> u64 {
        self.given_bytes.div_ceil(self.execution.page_bytes() as u64)
    }

    fn position(&self) -> Option<Position> {
        None
    }
}

#[cfg(test)]
mod tests;
