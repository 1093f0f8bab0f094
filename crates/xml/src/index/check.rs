//! Whether indexes have an entry for each node of theirs, and no other.
//!
//! 1. Each entry that a node should have is looked up, and there are as many entries as were looked
//!    for. Since no two are the same, each entry then has its node.

use super::key;
use crate::document::{Document, DocumentNames};
use crate::error::XmlError;
use nandu_storage::database::{EntryRange, Tables};

/// How many entries are looked up at once.
const BATCH_COUNT: usize = 4096;

/// Compares entries that should be with those that are.
pub(crate) struct IndexCheck<'c> {
    tables: &'c Tables,
    document: &'c Document,
    indexes: Vec<Checked>,
}

/// An index that is being checked.
#[derive(Debug)]
struct Checked {
    tree: String,
    pending: Vec<Vec<u8>>,
    expected_count: u64,
    missing_count: u64,
}

impl<'c> IndexCheck<'c> {
    /// Of all indexes of a document.
    pub(crate) fn new(tables: &'c Tables, document: &'c Document) -> Self {
        let names = DocumentNames::of(document.name());
        let indexes = document.catalog.indexes.iter().map(|index| Checked {
            tree: names.index(index.number),
            pending: Vec::new(),
            expected_count: 0,
            missing_count: 0,
        });
        Self { tables, document, indexes: indexes.collect() }
    }

    /// An entry that should be.
    pub(crate) fn expect(&mut self, place: usize, key: &[u8]) -> Result<(), XmlError> {
        let index = &mut self.indexes[place];
        index.pending.push(key.to_vec());
        if index.pending.len() < BATCH_COUNT { Ok(()) } else { index.look_up(self.tables) }
    }

    /// What is wrong, and how many entries there are, when all that should be were told.
    pub(crate) fn finish(mut self) -> Result<(Vec<String>, u64), XmlError> {
        let (mut findings, mut all_count) = (Vec::new(), 0);
        for (checked, index) in self.indexes.iter_mut().zip(&self.document.catalog.indexes) {
            checked.look_up(self.tables)?;
            let definition = &index.definition;
            let (mut entry_count, mut broken_count) = (0_u64, 0_u64);
            let mut entries = self.tables.entries(EntryRange::of(&checked.tree))?;
            while let Some((key, _)) = entries.next_entry()? {
                entry_count += 1;
                broken_count += u64::from(key::label_of(definition.kind(), key).is_none());
            }
            all_count += entry_count;
            let Checked { expected_count, missing_count, .. } = *checked;
            if missing_count > 0 {
                findings.push(format!("index {definition} has no entry of {missing_count} nodes"));
            }
            if entry_count + missing_count != expected_count || broken_count > 0 {
                let what = format!(
                    "index {definition} has {entry_count} entries, {broken_count} of them broken, \
                     and {expected_count} nodes should have one"
                );
                findings.push(what);
            }
        }
        Ok((findings, all_count))
    }
}

impl Checked {
    fn look_up(&mut self, tables: &Tables) -> Result<(), XmlError> {
        let mut found_count = 0;
        tables.values(&self.tree, &self.pending, |_, _| found_count += 1)?;
        self.expected_count += self.pending.len() as u64;
        self.missing_count += self.pending.len() as u64 - found_count;
        self.pending.clear();
        Ok(())
    }
}
