//! Entries of a document's indexes from its nodes, as they come in document order.
//!
//! ```text
//!   open order ─► entry of an index of elements
//!   attribute  ─► entry with its value
//!   text       ─► to the values of all open elements of which an index wants one
//!   close      ─► entry with the value of the element
//! ```
//!
//! 1. Memory holds the beginnings of values of open elements, whatever the size of the document.

use super::IndexKind;
use super::key::{self, Beginning};
use super::pattern::Coverage;
use crate::error::XmlError;
use crate::format::DocumentFormat;
use crate::record::{NodeKind, Record};
use crate::synopsis::ClassId;
use crate::walk::NodeVisitor;

/// Makes entries; see the module's head.
#[derive(Debug, Default)]
pub(crate) struct Indexer {
    kinds: Vec<IndexKind>,
    /// Of the document, which says what a number is.
    format: DocumentFormat,
    /// A bit for each index of elements.
    of_elements: u64,
    coverage: Coverage,
    /// For each open element, whether an index wants its value.
    open: Vec<bool>,
    /// Those of which one does.
    wanted: Vec<Wanted>,
    /// Wanted ones that ended, to be used again.
    spare: Vec<Wanted>,
    /// The value of an attribute that goes on.
    attribute: Beginning,
    entries: Entries,
}

/// An open element of which an index wants the value.
#[derive(Debug, Default)]
struct Wanted {
    class: ClassId,
    label: Vec<u8>,
    value: Beginning,
}

/// Entries that were made and not taken: keys, each with the place of its index.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entries {
    keys: Vec<u8>,
    /// The place of the index, and where the key ends.
    items: Vec<(usize, usize)>,
}

impl Entries {
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Hands on all entries, and forgets them.
    pub(crate) fn drain<E>(
        &mut self,
        mut sink: impl FnMut(usize, &[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut start = 0;
        for &(index, end) in &self.items {
            sink(index, &self.keys[start..end])?;
            start = end;
        }
        self.keys.clear();
        self.items.clear();
        Ok(())
    }

    fn end(&mut self, index: usize) {
        self.items.push((index, self.keys.len()));
    }

    /// The entry of a value, if the index has one.
    pub(crate) fn put_value(
        &mut self,
        (index, kind, format): (usize, IndexKind, DocumentFormat),
        class: ClassId,
        value: &Beginning,
        label: &[u8],
    ) {
        if key::put_value((kind, format), class, value, label, &mut self.keys) {
            self.end(index);
        }
    }
}

/// The places of the bits of a mask.
pub(super) fn places(mut mask: u64) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let place = mask.trailing_zeros() as usize;
        mask &= mask.wrapping_sub(1);
        (place < 64).then_some(place)
    })
}

/// A bit for each index of elements.
pub(super) fn element_mask(kinds: &[IndexKind]) -> u64 {
    let bits = kinds.iter().enumerate();
    bits.filter(|(_, kind)| **kind == IndexKind::Elements).map(|(place, _)| 1 << place).sum()
}

impl Indexer {
    /// For indexes of these kinds, which lead to the classes that `coverage` says, of a document in
    /// this format.
    pub(crate) fn new(kinds: Vec<IndexKind>, coverage: Coverage, format: DocumentFormat) -> Self {
        Self { of_elements: element_mask(&kinds), kinds, format, coverage, ..Self::default() }
    }

    /// Whether there are indexes.
    #[inline]
    pub(crate) fn is_active(&self) -> bool {
        !self.kinds.is_empty()
    }

    pub(crate) fn coverage_mut(&mut self) -> &mut Coverage {
        &mut self.coverage
    }

    /// How many classes it knows.
    #[inline]
    pub(crate) fn class_count(&self) -> usize {
        self.coverage.class_count()
    }

    /// What was made so far.
    #[inline]
    pub(crate) fn entries_mut(&mut self) -> &mut Entries {
        &mut self.entries
    }

    pub(crate) fn open(&mut self, class: ClassId, label: &[u8]) {
        let mask = self.coverage.mask(class);
        for index in places(mask & self.of_elements) {
            key::put_element(class, label, &mut self.entries.keys);
            self.entries.end(index);
        }
        let is_wanted = mask & !self.of_elements != 0;
        if is_wanted {
            let mut wanted = self.spare.pop().unwrap_or_default();
            wanted.class = class;
            wanted.label.clear();
            wanted.label.extend_from_slice(label);
            wanted.value.clear();
            self.wanted.push(wanted);
        }
        self.open.push(is_wanted);
    }

    pub(crate) fn text(&mut self, part: &[u8]) {
        self.wanted.iter_mut().for_each(|wanted| wanted.value.push(part));
    }

    pub(crate) fn close(&mut self) {
        if self.open.pop() == Some(true) {
            let wanted = self.wanted.pop().expect("one for each that is open and wanted");
            let mut entries = std::mem::take(&mut self.entries);
            self.put_value(wanted.class, &wanted.value, &wanted.label, &mut entries);
            self.entries = entries;
            self.spare.push(wanted);
        }
    }

    /// An attribute, or a part of it.
    pub(crate) fn attribute(
        &mut self,
        class: ClassId,
        label: &[u8],
        (part, is_continued, goes_on): (&[u8], bool, bool),
    ) {
        let mask = self.coverage.mask(class);
        if mask == 0 {
            return;
        }
        if !is_continued {
            self.attribute.clear();
        }
        self.attribute.push(part);
        if !goes_on {
            let mut entries = std::mem::take(&mut self.entries);
            self.put_value(class, &self.attribute, label, &mut entries);
            self.entries = entries;
        }
    }

    /// Whether an index wants the value of a class.
    pub(crate) fn wants_value(&self, class: ClassId) -> bool {
        self.coverage.mask(class) & !self.of_elements != 0
    }

    /// The entries of a node by its value.
    pub(crate) fn put_value(
        &self,
        class: ClassId,
        value: &Beginning,
        label: &[u8],
        entries: &mut Entries,
    ) {
        for index in places(self.coverage.mask(class) & !self.of_elements) {
            entries.put_value((index, self.kinds[index], self.format), class, value, label);
        }
    }

    /// Forgets what is open and what was not taken, as after an error.
    pub(crate) fn forget(&mut self) {
        self.open.clear();
        self.wanted.clear();
        self.attribute.clear();
        self.entries = Entries::default();
    }

    /// Makes entries as nodes are told, and hands them on.
    pub(crate) fn with_sink<'i, S: FnMut(usize, &[u8]) -> Result<(), XmlError>>(
        &'i mut self,
        sink: &'i mut S,
    ) -> Indexing<'i, S> {
        Indexing { indexer: self, sink }
    }
}

/// An indexer to which nodes are told by their records.
pub(crate) struct Indexing<'i, S> {
    indexer: &'i mut Indexer,
    sink: &'i mut S,
}

impl<S: FnMut(usize, &[u8]) -> Result<(), XmlError>> Indexing<'_, S> {
    fn hand_on(&mut self) -> Result<(), XmlError> {
        if self.indexer.entries.is_empty() {
            Ok(())
        } else {
            self.indexer.entries.drain(&mut *self.sink)
        }
    }
}

impl<S: FnMut(usize, &[u8]) -> Result<(), XmlError>> NodeVisitor for Indexing<'_, S> {
    fn open(&mut self, _class: ClassId) -> Result<(), XmlError> {
        unreachable!("elements come with their labels")
    }

    fn open_at(&mut self, class: ClassId, label: &[u8]) -> Result<(), XmlError> {
        self.indexer.open(class, label);
        self.hand_on()
    }

    fn close(&mut self, _class: ClassId) -> Result<(), XmlError> {
        self.indexer.close();
        self.hand_on()
    }

    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError> {
        match record.kind {
            NodeKind::Text => {
                self.indexer.text(record.value);
                Ok(())
            }
            NodeKind::Attribute => {
                let part = (record.value, record.is_continued, record.goes_on);
                self.indexer.attribute(record.class, record.label, part);
                self.hand_on()
            }
            _ => Ok(()),
        }
    }
}
