//! Indexes of a document that changes: entries of what goes are removed, of what comes are put.
//!
//! ```text
//!   begin_change   entries of the records that go and that come; values of the elements above, now
//!   (the records are written)
//!   end_change     values of the elements above, then; entries that are not the same are changed
//! ```
//!
//! 1. The value of an element is all text in it, so a text that changes may change the entries of all
//!    elements above it. As far as a key tells, the beginning is enough.
//! 2. Who has looked at that beginning keeps others from changing it, so the entry is that of the value.

use super::Editor;
use super::places::up_to;
use super::region::Kept;
use crate::container::{ContainerPlace, ContainerReader};
use crate::document::{Document, DocumentNames};
use crate::error::XmlError;
use crate::index::{Beginning, Entries};
use crate::label::Label;
use crate::record::NodeKind;
use crate::synopsis::ClassId;
use crate::walk::walk_records;
use nandu_storage::database::Around;

/// Keys of entries, each with the place of its index.
type Found = Vec<(usize, Vec<u8>)>;

/// What changes in the indexes when records do.
#[derive(Debug, Default)]
pub(super) struct Change {
    old: Found,
    new: Found,
    /// The element in which a text changes.
    around: Option<(Label, ClassId)>,
}

impl Editor<'_, '_> {
    /// Before records of nodes in `parent` give way to others. Without `changes_text` these have the
    /// same text.
    pub(super) fn begin_change(
        &mut self,
        (parent, class): (&Label, ClassId),
        (old, new): (&[Kept], &[Kept]),
        changes_text: bool,
    ) -> Result<Change, XmlError> {
        if !self.indexer.is_active() {
            return Ok(Change::default());
        }
        let catalog = &self.document.catalog;
        self.indexer.coverage_mut().extend(&catalog.synopsis, &catalog.vocabulary);
        let has_text = old.iter().chain(new).any(|kept| kept.kind == NodeKind::Text);
        let around = (changes_text && has_text).then(|| (parent.clone(), class));
        let mut old = self.entries_of((parent, class), old)?;
        let new = self.entries_of((parent, class), new)?;
        if let Some(around) = &around {
            self.entries_above(around, &mut old)?;
        }
        Ok(Change { old, new, around })
    }

    /// When the records are written.
    pub(super) fn end_change(&mut self, change: Change) -> Result<(), XmlError> {
        let Change { mut old, mut new, around } = change;
        if let Some(around) = &around {
            self.entries_above(around, &mut new)?;
        }
        old.sort_unstable();
        new.sort_unstable();
        let names = DocumentNames::of(self.document.name());
        let tree = |place: usize| names.index(self.document.catalog.indexes[place].number);
        for (place, key) in old.iter().filter(|entry| new.binary_search(entry).is_err()) {
            if !self.write.delete_value(&tree(*place), key)? {
                let index = &self.document.catalog.indexes[*place].definition;
                let what = format!("index {index} has no entry of a node that is there");
                return Err(self.document.damaged(what));
            }
        }
        for (place, key) in new.iter().filter(|entry| old.binary_search(entry).is_err()) {
            self.write.put_value(&tree(*place), key, &[])?;
        }
        Ok(())
    }

    /// The entries of nodes in `parent`, and of all in them.
    fn entries_of(
        &mut self,
        parent: (&Label, ClassId),
        records: &[Kept],
    ) -> Result<Found, XmlError> {
        let mut found = Found::new();
        let mut put = |place: usize, key: &[u8]| {
            found.push((place, key.to_vec()));
            Ok(())
        };
        let records = records.iter().map(Kept::as_record);
        let mut indexing = self.indexer.with_sink(&mut put);
        let walked = walk_records(&self.document, parent, records, &mut indexing);
        self.indexer.forget();
        walked.map(|()| found)
    }

    /// Adds the entries that an element and those above it have by their values.
    fn entries_above(
        &mut self,
        (element, class): &(Label, ClassId),
        found: &mut Found,
    ) -> Result<(), XmlError> {
        let mut class = *class;
        let mut entries = Entries::default();
        for level in (1..=element.level()).rev() {
            if self.indexer.wants_value(class) {
                let label = element.ancestor(level).expect("it has that many levels");
                let value = self.value_of(&label)?;
                self.indexer.put_value(class, &value, label.as_bytes(), &mut entries);
            }
            let above = self.document.synopsis().get(class);
            class = above.ok_or_else(|| self.document.damaged("a class leads nowhere"))?.parent;
        }
        entries.drain(|place, key| {
            found.push((place, key.to_vec()));
            Ok(())
        })
    }

    /// The text in an element, from its beginning, as far as a key tells. Nobody else changes that part of it
    /// from now on.
    fn value_of(&mut self, element: &Label) -> Result<Beginning, XmlError> {
        let nodes = DocumentNames::of(self.document.name()).nodes;
        let range = (element.as_bytes(), &element.end()[..]);
        let (mut value, mut room) = (Beginning::default(), ContainerPlace::default());
        // One container more at a time, since which one is the last is not known.
        let (mut last, mut is_first) = (range.0.to_vec(), true);
        loop {
            let bound = up_to(&last);
            let around = Around::keys(&last, &bound);
            let around = if is_first { around } else { around.with_next() };
            let mut containers = match self.write.is_locking() {
                true => self.write.entries_around(&nodes, around)?,
                false => self.write.claim_entries_around(&nodes, around)?,
            };
            let mut new = None;
            while let Some((key, bytes)) = containers.next_entry()? {
                if !is_first && key <= &last[..] {
                    continue;
                }
                new = Some(key.to_vec());
                let is_over =
                    add_text(&self.document, (key, bytes), range, (&mut value, &mut room))?;
                if is_over {
                    return Ok(value);
                }
            }
            match new {
                Some(key) => last = key,
                None if !is_first => return Ok(value),
                None => {}
            }
            is_first = false;
        }
    }
}

/// Adds the text of a container that lies in an element. True if nothing more is wanted.
fn add_text(
    document: &Document,
    entry: (&[u8], &[u8]),
    (start, end): (&[u8], &[u8]),
    (value, room): (&mut Beginning, &mut ContainerPlace),
) -> Result<bool, XmlError> {
    let damaged = |what: &str| document.damaged(what);
    let mut reader = ContainerReader::new(document.form(), entry, room).map_err(damaged)?;
    while let Some(record) = reader.next_record().map_err(damaged)? {
        if record.label >= end || value.is_full() {
            return Ok(true);
        }
        if record.kind == NodeKind::Text && record.label > start {
            value.push(record.value);
        }
    }
    Ok(value.is_full())
}
