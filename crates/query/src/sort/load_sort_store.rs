//! Runs by loading the work space, sorting it and storing it: each as long as the work space.
//!
//! 1. A run ends when the next row finds no room.

use super::runs::{RunFormer, RunWriter, Sorted, SortedRows};
use super::workspace::Workspace;
use crate::execution::Memory;
use crate::tuple::Tuple;
use crate::work::Work;
use crate::{Execution, Key, QueryError};

/// A former of runs.
pub(crate) struct LoadSortStore<'x> {
    execution: &'x Execution,
    key: &'x Key,
    workspace: Workspace,
    memory: Memory<'x>,
    writer: RunWriter<'x>,
    compare_count: u64,
}

impl<'x> LoadSortStore<'x> {
    /// A former that keeps rows in `workspace`, which lies in `memory`.
    pub(crate) fn new(
        execution: &'x Execution,
        key: &'x Key,
        (workspace, memory): (Workspace, Memory<'x>),
        writer: RunWriter<'x>,
    ) -> Self {
        Self { execution, key, workspace, memory, writer, compare_count: 0 }
    }

    /// Sorts and writes what is in the work space.
    fn store(&mut self) -> Result<(), QueryError> {
        self.compare_count += self.workspace.sort(self.key);
        for entry in self.workspace.tree.entries() {
            self.writer.push(self.workspace.tuple(entry.leaf))?;
        }
        self.workspace.empty();
        self.writer.end_run()
    }
}

impl<'x> RunFormer<'x> for LoadSortStore<'x> {
    fn push(&mut self, key_bytes: &[u8], tuple: Tuple<'_>) -> Result<(), QueryError> {
        if !self.workspace.push(key_bytes, tuple) {
            self.store()?;
            assert!(self.workspace.push(key_bytes, tuple), "an empty work space takes any row");
        }
        Ok(())
    }

    fn book_work(&mut self) {
        self.execution.work(Work::Compare, std::mem::take(&mut self.compare_count));
        self.writer.book_work();
    }

    fn finish(mut self: Box<Self>) -> Result<Sorted<'x>, QueryError> {
        if self.writer.is_empty() {
            self.compare_count += self.workspace.sort(self.key);
            self.book_work();
            return Ok(Sorted::Rows(SortedRows::new(self.workspace, self.memory)));
        }
        if self.workspace.row_count() > 0 {
            self.store()?;
        }
        self.book_work();
        Ok(Sorted::Runs(self.writer.finish()?))
    }
}
