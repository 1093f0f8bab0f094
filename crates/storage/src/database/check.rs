//! Verification of a whole database: what `nandu db check` says of it.
//!
//! ```text
//!   catalogue: tree
//!   heap: pages, chains, freelist ─► rows: columns ◄─┐ each entry has the values of its row,
//!     └ index: tree ─► entries ──────────────────────┘ and there are as many entries as rows
//!   clustered: tree ─► rows: columns, key
//! ```
//!
//! 1. Damage is a finding, with its table and, where it is of a page, the file and the page; what lies
//!    beside it is looked at all the same. Only a device or an engine that does not answer is an error.
//! 2. Entries of an index differ and each leads to a row with its values. So if they are as many as the
//!    rows, every row has its entry; else those without one are looked for.
//! 3. Of each structure a hundred findings are told, and that there are others.

use super::key;
use super::names::name_files;
use super::schema::{IndexDefinition, TableDefinition};
use super::tables::{Tables, entry_key};
use super::view::EngineView;
use crate::btree::{self, Direction, Tree};
use crate::sqlite::{HeapTable, RecordView, Value, ValueRef};
use crate::{FileId, StorageError};
use nandu_base::words::counted;
use serde::Serialize;
use std::ops::Bound;

/// Findings that are told of each structure.
const FINDING_COUNT_MAX: usize = 100;
/// Letters of a key that are told.
const KEY_LETTERS: usize = 80;

/// What [`Tables::check`] found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// Every rule that is broken, with its place. Empty for a sound database.
    pub findings: Vec<String>,
    /// Files that were looked at.
    pub file_count: u64,
    /// Pages that were looked at, or should have been.
    pub page_count: u64,
    /// Rows of all tables, as far as they could be read.
    pub row_count: u64,
    /// Entries of all indexes, likewise.
    pub index_entry_count: u64,
}

impl Tables {
    /// Verifies every page, tree, row and reference. Damage is a finding, not an error. Pages that are
    /// in the pool are looked at there: after `drop_cached_pages` all of them come from the device.
    ///
    /// # Errors
    /// If the device does not answer, other than by saying that it cannot read some sectors; or if the
    /// pool has no frame left. What was found before that is lost.
    pub fn check(&self) -> Result<CheckReport, StorageError> {
        let open = self.all_tables()?;
        let statement = self.statement()?;
        let mut check = Check { pages: &statement, report: CheckReport::default() };
        check.tree("the catalogue", self.catalog)?;
        for table in open.values() {
            table.rows.check(&mut check, table)?;
        }
        let files = self.view.files();
        for finding in &mut check.report.findings {
            *finding = name_files(finding, &files);
        }
        Ok(check.report)
    }
}

/// A check under way.
pub(super) struct Check<'t> {
    pub(super) pages: &'t EngineView,
    pub(super) report: CheckReport,
}

/// Findings of one structure, which comes first in each of them.
pub(super) struct Findings {
    what: String,
    told: Vec<String>,
}

/// A structure's rows or entries, and whether all of them could be read.
#[derive(Clone, Copy)]
pub(super) struct Counted {
    pub(super) count: u64,
    pub(super) is_whole: bool,
}

impl Findings {
    pub(super) fn of(what: &str) -> Self {
        Self { what: what.to_owned(), told: Vec::new() }
    }

    pub(super) fn tell(&mut self, finding: &str) {
        match self.told.len() {
            0..FINDING_COUNT_MAX => self.told.push(format!("{}: {finding}", self.what)),
            FINDING_COUNT_MAX => self.told.push(format!("{}: there is more", self.what)),
            _ => {}
        }
    }

    /// What a scan gives; its end where it meets damage, which the check of the pages has told if it
    /// found them not whole.
    pub(super) fn unless_damaged<T>(
        &mut self,
        next: Result<Option<T>, StorageError>,
        of: Counted,
    ) -> Result<Option<T>, StorageError> {
        match next {
            Err(error) if error.is_damage() => {
                if of.is_whole {
                    self.tell(&error.to_string());
                }
                Ok(None)
            }
            next => next,
        }
    }
}

impl Check<'_> {
    pub(super) fn keep(&mut self, findings: Findings) {
        self.report.findings.extend(findings.told);
    }

    /// The pages of a tree.
    pub(super) fn tree(&mut self, what: &str, file: FileId) -> Result<Counted, StorageError> {
        let tree = btree::check(self.pages, file);
        self.report.file_count += 1;
        self.report.page_count += u64::from(tree.page_count);
        let findings = tree.findings.iter().map(|finding| format!("{what}: {finding}"));
        self.report.findings.extend(findings);
        match tree.failure {
            Some(failure) => Err(failure),
            None => Ok(Counted { count: tree.entry_count, is_whole: tree.findings.is_empty() }),
        }
    }

    /// An index of a heap.
    pub(super) fn index(
        &mut self,
        heap: &HeapTable,
        rows: Counted,
        table: &str,
        index: &IndexDefinition,
    ) -> Result<(), StorageError> {
        let what = format!("index {} of {table}", index.name);
        let entries = self.tree(&what, index.file)?;
        self.report.index_entry_count += entries.count;
        let mut findings = Findings::of(&what);
        self.entries(heap, index, (rows, entries), &mut findings)?;
        if rows.is_whole && entries.is_whole && rows.count != entries.count {
            let (rows, entries) = (rows.count, entries.count);
            findings.tell(&format!("{} for {}", counted(entries, "entry"), counted(rows, "row")));
            match self.rows_without_entry(heap, index, &mut findings) {
                Err(error) if error.is_damage() => findings.tell(&error.to_string()),
                looked => looked?,
            }
        }
        self.keep(findings);
        Ok(())
    }

    /// Each entry leads to a row that has the entry's values. Rows that cannot be read were told by the
    /// check of a table that is not whole.
    fn entries(
        &self,
        heap: &HeapTable,
        index: &IndexDefinition,
        (rows, entries): (Counted, Counted),
        findings: &mut Findings,
    ) -> Result<(), StorageError> {
        let engine = self.pages;
        let everything = (Bound::Unbounded, Bound::Unbounded);
        let mut scan = Tree::at(index.file).scan(everything, Direction::Forward);
        for _ in 0..entries.count {
            let next = findings.unless_damaged(scan.next(engine), entries)?;
            let Some((entry, _)) = next else { break };
            let number = match key::split_row_number(entry) {
                Ok((_, number)) => number,
                Err(error) => {
                    findings.tell(&error.to_string());
                    continue;
                }
            };
            match heap.get(engine, number, |record| entry_key(index, record, number)) {
                Ok(Some(expected)) if expected == entry => {}
                Ok(Some(_)) => findings.tell(&format!("row {number} has other values")),
                Ok(None) => findings.tell(&format!("row {number} does not exist")),
                Err(error) if !error.is_damage() => return Err(error),
                Err(error) if rows.is_whole => findings.tell(&format!("row {number}: {error}")),
                Err(_) => {}
            }
        }
        Ok(())
    }

    /// Looks for the rows that an index leaves out.
    fn rows_without_entry(
        &self,
        heap: &HeapTable,
        index: &IndexDefinition,
        findings: &mut Findings,
    ) -> Result<(), StorageError> {
        let engine = self.pages;
        let tree = Tree::at(index.file);
        let mut scan = heap.tree().scan(i64::MIN..=i64::MAX);
        let mut of_leaf = Vec::new();
        loop {
            let has_more = scan.next_leaf(engine, |number, record| {
                of_leaf.push((number, entry_key(index, record, number)));
            })?;
            for (number, entry) in of_leaf.drain(..) {
                if tree.get(engine, &entry, |_| ())?.is_none() {
                    findings.tell(&format!("row {number} has no entry"));
                }
            }
            if !has_more {
                return Ok(());
            }
        }
    }
}

/// What keeps a record from being a row of its table.
pub(super) fn trouble_of(definition: &TableDefinition, record: RecordView<'_>) -> Option<String> {
    let (found, wanted) = (record.column_count(), definition.columns.len());
    if found != wanted {
        let (found, wanted) = (counted(found as u64, "value"), counted(wanted as u64, "column"));
        return Some(format!("it has {found}, the table {wanted}"));
    }
    let mut pairs = definition.columns.iter().zip(record.columns());
    let (column, value) =
        pairs.find(|(column, value)| !column.takes(column.column_type.stored(*value)))?;
    let kind = match value {
        ValueRef::Null => "null",
        ValueRef::Integer(_) => "an integer",
        ValueRef::Real(_) => "a real",
        ValueRef::Text(text) if std::str::from_utf8(text).is_err() => "a text that is not UTF-8",
        ValueRef::Text(_) => "a text",
        ValueRef::Blob(_) => "a blob",
    };
    Some(format!("column {} holds {kind}, and is {}", column.name, column.to_sql_type()))
}

/// A key in a message.
pub(super) fn shown(key: &[u8]) -> String {
    let mut rest = key;
    let mut values = Vec::new();
    while let Ok((value, after)) = key::decode_key(rest) {
        values.push(match value {
            Value::Null => "null".to_owned(),
            Value::Integer(number) => number.to_string(),
            Value::Real(number) => format!("{number:?}"),
            Value::Text(text) => format!("{text:?}"),
            Value::Blob(bytes) => format!("a blob of {}", counted(bytes.len() as u64, "byte")),
        });
        rest = after;
    }
    let text = match rest.is_empty() {
        true => values.join(", "),
        false => format!("that cannot be read ({})", counted(key.len() as u64, "byte")),
    };
    text.chars().take(KEY_LETTERS).collect()
}

#[cfg(test)]
mod tests;
