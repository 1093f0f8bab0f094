//! Runs: rows in order, written one run after the other, and what a relation becomes when it is sorted.
//!
//! ```text
//!   rows ──push──► RunFormer ──finish──► Sorted: SortedRows in memory, nothing written
//!                      │                         Runs: buckets, each in order
//!                      └─ work space full: rows to a RunWriter
//! ```
//!
//! 1. A former that never filled its work space writes nothing.
//! 2. Each run is in order by the key.
//! 3. What several share is not changed any more: runs with fences, rows in memory.

use super::workspace::Workspace;
use crate::execution::Memory;
use crate::spill::{Bucket, FencedRuns, SpillWriter};
use crate::tuple::{Area, Tuple};
use crate::work::Work;
use crate::{Execution, Key, QueryError};
use std::sync::Arc;

/// A way to make runs.
pub(crate) trait RunFormer<'x> {
    /// Takes a row, with its key as bytes.
    ///
    /// # Errors
    /// If the write budget is used up, or the device fails.
    fn push(&mut self, key_bytes: &[u8], tuple: Tuple<'_>) -> Result<(), QueryError>;

    /// Books the work since the last call.
    fn book_work(&mut self);

    /// Writes the rest, or sorts it if that is all.
    ///
    /// # Errors
    /// As [`Self::push`].
    fn finish(self: Box<Self>) -> Result<Sorted<'x>, QueryError>;
}

/// What sorting leaves: rows in order, in memory or in runs.
pub(crate) enum Sorted<'x> {
    /// All of them in memory.
    Rows(SortedRows<'x>),
    /// In sorted runs on the device, which have to be merged.
    Runs(Vec<Bucket>),
}

/// What several have sorted, to be read by all.
#[derive(Debug, Default)]
pub(crate) struct SharedRuns {
    /// Sorted runs on the device, with fences.
    pub(crate) runs: Vec<Bucket>,
    /// Sorted rows in memory.
    pub(crate) rows: Vec<Arc<Workspace>>,
}

/// Rows in memory, in order.
#[derive(Debug)]
pub(crate) struct SortedRows<'x> {
    workspace: Workspace,
    memory: Memory<'x>,
}

/// Writes sorted rows as runs.
pub(crate) struct RunWriter<'x> {
    execution: &'x Execution,
    memory: Option<Memory<'x>>,
    writer: Option<SpillWriter<'x>>,
    expected_pages: u64,
    runs: FencedRuns,
    copy_count: u64,
    /// What runs are sorted by that are to have fences.
    fence_key: Option<&'x Key>,
    key_bytes: Vec<u8>,
}

impl<'x> Sorted<'x> {
    /// Pages of memory that it keeps.
    pub(crate) fn pages(&self) -> u32 {
        match self {
            Self::Rows(rows) => rows.pages(),
            Self::Runs(_) => 0,
        }
    }

    /// How many runs there are.
    pub(crate) const fn run_count(&self) -> usize {
        match self {
            Self::Rows(_) => 0,
            Self::Runs(runs) => runs.len(),
        }
    }

    /// The rows or the runs.
    pub(crate) fn into_parts(self) -> (Option<SortedRows<'x>>, Vec<Bucket>) {
        match self {
            Self::Rows(rows) => (Some(rows), Vec::new()),
            Self::Runs(runs) => (None, runs),
        }
    }
}

impl<'x> SortedRows<'x> {
    /// Takes a work space whose entries are sorted, and gives back what memory it does not need.
    pub(crate) fn new(workspace: Workspace, mut memory: Memory<'x>) -> Self {
        let pages = workspace.bytes().div_ceil(memory.page_bytes());
        let spare = u64::from(memory.pages()).saturating_sub(pages as u64);
        drop(memory.split_off(nandu_base::to_u32(spare)));
        Self { workspace, memory }
    }

    /// Pages of memory that it keeps.
    pub(crate) fn pages(&self) -> u32 {
        self.memory.pages()
    }

    /// The rows for several to read, and the memory in which they lie.
    pub(crate) fn into_shared(self) -> (Arc<Workspace>, Memory<'x>) {
        (Arc::new(self.workspace), self.memory)
    }

    /// Bytes that they take.
    pub(crate) const fn bytes(&self) -> usize {
        self.workspace.bytes()
    }

    /// How many rows there are.
    pub(crate) const fn len(&self) -> usize {
        self.workspace.tree.len()
    }

    /// Where the rows lie.
    pub(crate) fn area(&self) -> Area<'_> {
        self.workspace.area()
    }

    /// The address of a row.
    #[inline]
    pub(crate) fn address(&self, index: usize) -> u64 {
        self.workspace.address(self.workspace.tree.entries()[index].leaf)
    }

    /// The row at `index` of the order.
    #[inline]
    pub(crate) fn tuple(&self, index: usize) -> Tuple<'_> {
        self.area().tuple(self.address(index))
    }

    /// Writes all rows as one run after all, with fences as [`RunWriter::with_fences`]; none if there are no rows.
    ///
    /// # Errors
    /// If there is no memory, the write budget is used up, or the device fails.
    pub(crate) fn spill(
        self,
        execution: &'x Execution,
        memory: Memory<'x>,
        fences: Option<(&'x Key, usize)>,
    ) -> Result<Vec<Bucket>, QueryError> {
        if self.len() == 0 {
            return Ok(Vec::new());
        }
        let writer = RunWriter::new(execution, memory, u64::from(self.pages()));
        let mut writer = writer.with_fences(fences);
        for index in 0..self.len() {
            writer.push(self.tuple(index))?;
        }
        writer.book_work();
        writer.finish()
    }
}

impl<'x> RunWriter<'x> {
    /// A writer of runs of about `expected_pages`, through `memory`.
    pub(crate) fn new(execution: &'x Execution, memory: Memory<'x>, expected_pages: u64) -> Self {
        Self {
            execution,
            memory: Some(memory),
            writer: None,
            expected_pages,
            runs: FencedRuns::new(0),
            copy_count: 0,
            fence_key: None,
            key_bytes: Vec::new(),
        }
    }

    /// The same writer of runs with fences, if they are to have some: what they are sorted by, and the bytes of all
    /// fences at most.
    pub(crate) fn with_fences(mut self, fences: Option<(&'x Key, usize)>) -> Self {
        self.fence_key = fences.map(|(key, _)| key);
        self.runs = FencedRuns::new(fences.map_or(0, |(_, limit_bytes)| limit_bytes));
        self
    }

    /// Appends a row to the run at hand.
    #[inline]
    pub(crate) fn push(&mut self, tuple: Tuple<'_>) -> Result<(), QueryError> {
        let writer = match &mut self.writer {
            Some(writer) => writer,
            None => {
                let memory = self.memory.take().expect("it is back since the last run");
                let mut writer = SpillWriter::new(self.execution, memory, self.expected_pages)?;
                if self.fence_key.is_some() {
                    writer.make_fences();
                }
                self.writer.insert(writer)
            }
        };
        if let Some(key) = self.fence_key
            && writer.wants_fence()
        {
            self.key_bytes.clear();
            key.encode(tuple, &mut self.key_bytes)?;
            writer.note_fence(&self.key_bytes);
        }
        self.copy_count += 1;
        writer.push(tuple)
    }

    /// Ends the run at hand, if there is one.
    pub(crate) fn end_run(&mut self) -> Result<(), QueryError> {
        if let Some(writer) = self.writer.take() {
            let (bucket, memory) = writer.finish()?;
            self.runs.push(bucket);
            self.memory = Some(memory);
        }
        Ok(())
    }

    /// Whether anything was written.
    pub(crate) const fn is_empty(&self) -> bool {
        self.runs.is_empty() && self.writer.is_none()
    }

    /// Books the rows since the last call.
    pub(crate) fn book_work(&mut self) {
        self.execution.work(Work::Copy, std::mem::take(&mut self.copy_count));
    }

    /// Ends the last run; returns all of them.
    pub(crate) fn finish(mut self) -> Result<Vec<Bucket>, QueryError> {
        self.end_run()?;
        Ok(self.runs.into_runs())
    }
}
