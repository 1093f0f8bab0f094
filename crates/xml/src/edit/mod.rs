//! Changes of a stored document: values, subtrees that go, fragments that come.
//!
//! ```text
//!   Editor ─► locks: of a node, by its label
//!     ├─► region: the containers around a range of labels, read, written again
//!     ├─► indexes: entries that go and come
//!     └─► catalogue: new names and paths, in the end; counts, when the transaction commits
//! ```
//!
//! 1. All is done in the caller's transaction; what an error left half done goes with its rollback.
//! 2. Nobody's label changes but those of a crowd, where there is no room.
//! 3. An element of an elementless document has a record if and only if nothing is in it.
//! 4. Several transactions change a document at once. What one reads to decide what it writes, it keeps others
//!    from changing, whatever its isolation: neighbours, whether an element has anything else in it, the text
//!    of elements whose values are indexed. What it writes it claims before it reads it. Which class an element
//!    has, and which prefixes, is so as long as it is there.
//! 5. Names, paths and indexes are for all who change a document what they were when they began, but for those
//!    that they add themselves: who adds some waits until nobody else is at it.

mod indexes;
mod json;
mod places;
mod region;
mod tally;

use self::region::{Kept, Region};
use crate::counts::CountChange;
use crate::document::{COUNTS, CatalogBegun, Document, DocumentNames, NAME};
use crate::error::XmlError;
use crate::import::{Base, fragment};
use crate::index::{IndexDefinition, Indexer};
use crate::label::{Label, LabelError};
use crate::locks::LockSettings;
use crate::record::NodeKind;
use crate::synopsis::ClassId;
use nandu_storage::StorageError;
use nandu_storage::database::{Around, Tables, WriteTransaction};
use std::ops::Bound;

/// Where a fragment goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Spot {
    /// Before the first child of an element.
    FirstIn(Label),
    /// Behind the last child of an element.
    LastIn(Label),
    /// Before a node that is a child of an element.
    Before(Label),
    /// Behind a node that is a child of an element, and all that is in it.
    Behind(Label),
}

/// Changes a document; see the module's head.
#[derive(Debug)]
pub struct Editor<'e, 'd> {
    write: &'e mut WriteTransaction<'d>,
    document: Document,
    /// What is stored of its catalogue.
    begun: CatalogBegun,
    counts: CountChange,
    locks: LockSettings,
    /// Makes entries of its indexes.
    indexer: Indexer,
    /// Siblings that got new labels, each time with their old ones.
    relabelled: Vec<Vec<(Label, Label)>>,
}

impl<'e, 'd> Editor<'e, 'd> {
    /// Begins to change a document, with locks as finely as [`LockSettings`] have it.
    ///
    /// # Errors
    /// As [`Document::open`], or if others are in the way.
    pub fn begin(write: &'e mut WriteTransaction<'d>, name: &str) -> Result<Self, XmlError> {
        Self::begin_with(write, name, LockSettings::default())
    }

    /// Begins to change a document. Others may do so at the same time in parts that are locked apart.
    ///
    /// # Errors
    /// As [`Self::begin`].
    pub fn begin_with(
        write: &'e mut WriteTransaction<'d>,
        name: &str,
        locks: LockSettings,
    ) -> Result<Self, XmlError> {
        match hold(write, name, locks) {
            // Which document is missing is the better answer.
            Ok(()) | Err(XmlError::Storage(StorageError::NotFound { .. })) => {}
            Err(error) => return Err(error),
        }
        let mut document = Document::open_structure(write, name)?;
        document.estimate_counts(write);
        let begun = document.catalog.as_begun();
        let kinds = document.indexes().map(IndexDefinition::kind).collect();
        let indexer = Indexer::new(kinds, document.catalog.coverage(), document.format());
        let (counts, relabelled) = (CountChange::default(), Vec::new());
        Ok(Self { write, document, begun, counts, locks, indexer, relabelled })
    }

    /// Locks a node and all that is in it, which are to be changed after they were read: of two who read the
    /// same before they change it, one would have to begin again. There need be no such node. The document
    /// stands for all of it.
    ///
    /// # Errors
    /// If others are in the way.
    pub fn claim(&mut self, node: &Label) -> Result<(), XmlError> {
        self.lock(node)
    }

    /// What the transaction sees, the changes so far among it.
    #[must_use]
    pub fn tables(&self) -> &Tables {
        &*self.write
    }

    /// The document with the names and paths that it has become. Its counts are of some moment before.
    #[must_use]
    pub const fn document(&self) -> &Document {
        &self.document
    }

    /// The label of the node that had this one when the editor began. It is another one if the node lies in
    /// a crowd that was relabelled.
    #[must_use]
    pub fn now(&self, label: &Label) -> Label {
        let mut label = label.clone();
        for moved in &self.relabelled {
            let place = moved.iter().find(|(old, _)| *old == label || old.is_ancestor_of(&label));
            if let Some((old, new)) = place {
                label = label.moved(old, new);
            }
        }
        label
    }

    /// Gives a text, attribute, comment or instruction another value. False if there is no such
    /// node. In a document of JSON the value is written as JSON: `7`, `"seven"`, `null`, `[]`.
    ///
    /// # Errors
    /// If the value may not stand there, or the engine refuses.
    pub fn set_value(&mut self, label: &Label, value: &str) -> Result<bool, XmlError> {
        self.lock(label)?;
        let mut end = label.as_bytes().to_vec();
        end.push(0x01);
        let mut region = Region::claim(self.write, &self.document, (label.as_bytes(), &end))?;
        let [kept] = &mut region.inside[..] else { return Ok(false) };
        if matches!(kept.kind, NodeKind::Element | NodeKind::Namespace | NodeKind::Doctype) {
            return Err(invalid("what it is called or declares is no value that can be set"));
        }
        let (value_type, value) = self.new_value(kept.kind, value)?;
        self.counts.count_bytes(kept.value.len() as u64, false);
        self.counts.count_bytes(value.len() as u64, true);
        let old = kept.clone();
        (kept.value_type, kept.value) = (value_type, value);
        let parent = label.parent().unwrap_or_default();
        let class = self.class_in(&parent, &old)?;
        let change = self.begin_change((&parent, class), (&[old], &region.inside), true)?;
        region.write(self.write, (&self.document, &mut self.counts))?;
        self.end_change(change)?;
        Ok(true)
    }

    /// Removes a node and all that is in it. False if there is no such node.
    ///
    /// # Errors
    /// If it is the outermost element or a declaration of a namespace, or the engine refuses.
    pub fn delete(&mut self, label: &Label) -> Result<bool, XmlError> {
        let Some(parent) = label.parent() else { return Err(invalid("a document has no parent")) };
        self.lock(label)?;
        let (start, end) = (label.as_bytes(), label.end());
        let mut region = Region::claim(self.write, &self.document, (start, &end))?;
        if region.inside.is_empty() {
            return Ok(false);
        }
        let is_element = region
            .inside
            .first()
            .is_some_and(|kept| kept.label.len() > start.len() || kept.kind == NodeKind::Element);
        if parent == Label::document() && is_element {
            return Err(invalid("a document keeps its outermost element"));
        }
        if region.inside[0].kind == NodeKind::Namespace && region.inside[0].label == start {
            // What lies in the element may have the prefix.
            return Err(invalid("a declaration of a namespace goes with its element"));
        }
        let class = self.class_in(&parent, &region.inside[0])?;
        let removed = std::mem::take(&mut region.inside);
        if self.is_json() && removed[0].kind == NodeKind::Text && removed[0].label == start {
            return Err(invalid("a value of JSON goes with its member or item: delete that"));
        }
        self.tally(&removed, start, false)?;
        if (self.is_json() || !self.document.mapping().has_elements())
            && parent != Label::document()
        {
            let is_in_parent =
                |kept: Option<Kept>| kept.is_some_and(|kept| is_in(parent.as_bytes(), &kept.label));
            let has_more = is_in_parent(self.claim_record_before(start)?)
                || is_in_parent(self.claim_record_from(&end)?);
            if !has_more {
                region.inside.push(self.rest_of((&parent, class), (label, &removed[0]))?);
            }
        }
        // The record of the element itself is no node in it.
        let new: &[Kept] = if self.is_json() { &region.inside[..] } else { &[] };
        let change = self.begin_change((&parent, class), (&removed, new), true)?;
        if let [rest] = new {
            self.tally(std::slice::from_ref(rest), &rest.label, true)?;
        }
        region.write(self.write, (&self.document, &mut self.counts))?;
        self.end_change(change)?;
        Ok(true)
    }

    /// Inserts what a text has in it: elements, texts, comments, instructions; into a document of JSON items of
    /// an array, `1, {"a": 2}`, or members of an object, `"a": 1, "b": []`. Gives the labels of the outermost
    /// of them.
    ///
    /// # Errors
    /// If it is not well-formed or refers to a prefix that is unknown there, an object would have a key twice,
    /// there is no such place, or the engine refuses.
    pub fn insert(&mut self, spot: &Spot, text: &str) -> Result<Vec<Label>, XmlError> {
        self.claim_spot(spot)?;
        if self.is_json() {
            return self.insert_json(spot, text);
        }
        let (parent, left, right) = self.neighbours(spot)?;
        let class = self.class_of_element(&parent)?;
        let bindings = self.bindings(&parent)?;
        let base = Base { label: parent.as_bytes(), level: parent.level(), class, bindings };
        let (entries, count) = fragment(&mut self.document.catalog, &base, text)?;
        self.claim_new_structure()?;
        let records = region::unpack(&self.document, &entries)?;
        if count == 0 {
            return Ok(Vec::new());
        }
        self.put_between((&parent, class), (left, right), (records, count))
    }

    /// Puts records, numbered as the only children of an element, between two children of it.
    fn put_between(
        &mut self,
        (parent, class): (&Label, ClassId),
        (mut left, mut right): (Option<Label>, Option<Label>),
        (mut records, count): (Vec<Kept>, usize),
    ) -> Result<Vec<Label>, XmlError> {
        let labels = match self.new_labels(parent, (&left, &right), count) {
            Err(LabelError::Crowded) => {
                for (old, new) in self.relabel(parent, left.as_ref().zip(right.as_ref()))? {
                    for side in [&mut left, &mut right].into_iter().flatten() {
                        if *side == old {
                            *side = new.clone();
                        }
                    }
                }
                self.new_labels(parent, (&left, &right), count)
            }
            labels => labels,
        };
        let labels = labels.map_err(|error| invalid(error.to_string()))?;
        let level = parent.level() + 1;
        places::rename(&mut records, level, &labels).map_err(|error| invalid(error.to_string()))?;
        let start = labels[0].as_bytes();
        let end = labels[labels.len() - 1].end();
        let mut region = Region::claim(self.write, &self.document, (start, &end))?;
        if !region.inside.is_empty() {
            return Err(self.document.damaged("a new label is taken"));
        }
        self.tally(&records, start, true)?;
        let is_empty_record = region
            .last_before()
            .is_some_and(|kept| kept.kind == NodeKind::Element && kept.label == parent.as_bytes());
        if is_empty_record && !self.document.mapping().has_elements() {
            region.drop_last_before();
        }
        let change = self.begin_change((parent, class), (&[], &records), true)?;
        region.inside = records;
        region.write(self.write, (&self.document, &mut self.counts))?;
        self.end_change(change)?;
        Ok(labels)
    }

    /// Writes what is new in the catalogue; what is counted follows when the transaction commits. Without it
    /// the rest is to be rolled back.
    ///
    /// # Errors
    /// If the engine refuses.
    pub fn finish(self) -> Result<Document, XmlError> {
        let catalog = DocumentNames::of(self.document.name()).catalog;
        for (key, value) in self.document.catalog.added_entries(&self.begun) {
            self.write.put_value(&catalog, &key, &value)?;
        }
        if !self.counts.is_empty() {
            for (key, merging) in self.counts.into_merges(self.document.name()) {
                self.write.merge_value(&catalog, &key, merging)?;
            }
        }
        Ok(self.document)
    }

    fn lock(&self, node: &Label) -> Result<(), XmlError> {
        self.locks.lock(self.write, self.document.name(), node)
    }

    /// Locks the place where a fragment goes: the element, as far as something comes into it, and the gap with
    /// the container before it.
    fn claim_spot(&mut self, spot: &Spot) -> Result<(), XmlError> {
        let (parent, place) = match spot {
            Spot::FirstIn(parent) => (parent.clone(), [parent.as_bytes(), &[0x02]].concat()),
            Spot::LastIn(parent) => (parent.clone(), parent.end()),
            Spot::Before(node) => (node.parent().unwrap_or_default(), node.as_bytes().to_vec()),
            Spot::Behind(node) => (node.parent().unwrap_or_default(), node.end()),
        };
        self.locks.lock_for_children(self.write, self.document.name(), &parent)?;
        let nodes = DocumentNames::of(self.document.name()).nodes;
        self.write.claim_entries_around(&nodes, Around::gap(&place))?;
        Ok(())
    }

    /// If there are names or paths that others do not know, excludes all others that change the document, as
    /// soon as they have ended.
    fn claim_new_structure(&mut self) -> Result<(), XmlError> {
        if !self.document.catalog.has_grown(&self.begun) {
            return Ok(());
        }
        let catalog = DocumentNames::of(self.document.name()).catalog;
        Ok(self.write.claim_value(&catalog, &[NAME])?)
    }
}

/// Keeps a document as one that several change: its names, paths and indexes stay, and nobody looks at its
/// counts serializably.
fn hold(write: &mut WriteTransaction<'_>, name: &str, locks: LockSettings) -> Result<(), XmlError> {
    locks.lock_for_children(write, name, &Label::document())?;
    let catalog = DocumentNames::of(name).catalog;
    write.announce_merge(&catalog, &[COUNTS])?;
    let structure = (Bound::Unbounded, Bound::Excluded(&[COUNTS][..]));
    write.keep_entries(&catalog, structure)?;
    Ok(())
}

fn invalid(what: impl Into<String>) -> XmlError {
    XmlError::Invalid { what: what.into() }
}

/// Whether a label lies below another one.
fn is_in(upper: &[u8], label: &[u8]) -> bool {
    crate::label::is_ancestor(upper, label)
}
