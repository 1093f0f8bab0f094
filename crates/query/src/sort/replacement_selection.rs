//! Runs by replacement selection (Goetz 1963; Knuth, volume 3, 5.4.1): the least row that may still join
//! the run leaves the work space, the next one of the input enters. Runs average twice the work space.
//!
//! ```text
//!   input ──► work space: rows of this run and of the next, the first on top of the tree ──► run
//!                 ▲ a row before the last one written waits for the next run
//! ```
//!
//! 1. Rows of one run leave in the order of the key.
//! 2. A row that finds no room lets as many others leave as it takes.

use super::loser_tree::{Entry, prefix_of};
use super::runs::{RunFormer, RunWriter, Sorted, SortedRows};
use super::workspace::{Slot, Workspace};
use crate::execution::Memory;
use crate::tuple::Tuple;
use crate::work::Work;
use crate::{Execution, Key, QueryError};

/// A former of runs.
pub(crate) struct ReplacementSelection<'x> {
    execution: &'x Execution,
    key: &'x Key,
    workspace: Workspace,
    memory: Memory<'x>,
    writer: RunWriter<'x>,
    /// Whether the entries are a tree: since the work space was full for the first time.
    is_tree: bool,
    /// The run being written.
    run: u32,
    /// The key of the last row written.
    last_key: Vec<u8>,
    compare_count: u64,
}

impl<'x> ReplacementSelection<'x> {
    /// A former that keeps rows in `workspace`, which lies in `memory`.
    pub(crate) fn new(
        execution: &'x Execution,
        key: &'x Key,
        (workspace, memory): (Workspace, Memory<'x>),
        writer: RunWriter<'x>,
    ) -> Self {
        Self {
            execution,
            key,
            workspace,
            memory,
            writer,
            is_tree: false,
            run: 0,
            last_key: Vec::new(),
            compare_count: 0,
        }
    }

    /// Puts a row into the work space and its entry into the tree, in place of others if need be.
    fn replace(&mut self, key_bytes: &[u8], tuple: Tuple<'_>) -> Result<(), QueryError> {
        let prefix = prefix_of(key_bytes);
        if let Some(slot) = self.workspace.insert_anywhere(tuple) {
            let run = self.run_of_newcomer(key_bytes);
            let (tree, tie) = self.workspace.tree(self.key);
            match slot {
                Slot::Free(slot) => tree.fill(slot, run, prefix, tie),
                Slot::New(_) => tree.push(run, prefix, tie),
            }
            return Ok(());
        }
        loop {
            let first = self.workspace.tree.winner().expect("an empty work space takes any row");
            self.write(first)?;
            self.workspace.remove(first.leaf);
            let is_in = self.workspace.insert_at(first.leaf, tuple);
            let run = self.run_of_newcomer(key_bytes);
            let (tree, tie) = self.workspace.tree(self.key);
            if is_in {
                tree.replace_winner(run, prefix, tie);
                return Ok(());
            }
            tree.remove_winner(tie);
            self.workspace.free(first.leaf);
        }
    }

    /// The run that a row with this key still reaches.
    fn run_of_newcomer(&self, key_bytes: &[u8]) -> u32 {
        if key_bytes >= self.last_key.as_slice() { self.run } else { self.run + 1 }
    }

    /// Writes the first row.
    fn write(&mut self, first: Entry) -> Result<(), QueryError> {
        if first.run != self.run {
            self.writer.end_run()?;
            self.run = first.run;
        }
        let tuple = self.workspace.tuple(first.leaf);
        self.last_key.clear();
        self.key.encode(tuple, &mut self.last_key)?;
        self.writer.push(tuple)
    }
}

impl<'x> RunFormer<'x> for ReplacementSelection<'x> {
    fn push(&mut self, key_bytes: &[u8], tuple: Tuple<'_>) -> Result<(), QueryError> {
        if !self.is_tree {
            if self.workspace.push(key_bytes, tuple) {
                return Ok(());
            }
            self.workspace.build(self.key);
            self.is_tree = true;
        }
        self.replace(key_bytes, tuple)
    }

    fn book_work(&mut self) {
        let compare_count = self.workspace.tree.take_compare_count() + self.compare_count;
        self.compare_count = 0;
        self.execution.work(Work::Compare, compare_count);
        self.writer.book_work();
    }

    fn finish(mut self: Box<Self>) -> Result<Sorted<'x>, QueryError> {
        if !self.is_tree {
            self.compare_count += self.workspace.sort(self.key);
            self.book_work();
            return Ok(Sorted::Rows(SortedRows::new(self.workspace, self.memory)));
        }
        while let Some(first) = self.workspace.tree.winner() {
            self.write(first)?;
            let (tree, tie) = self.workspace.tree(self.key);
            tree.remove_winner(tie);
        }
        self.book_work();
        Ok(Sorted::Runs(self.writer.finish()?))
    }
}
