//! From records back to nodes: which elements begin and end between two records.
//!
//! 1. An element ends at the first record that is not below it. In an elementless document one
//!    begins at the first record below it; its label and class follow from that record's.
//! 2. Labels of records ascend.
//! 3. Every record's class fits its kind and lies below the class of the element that it is in.

use crate::container::{ContainerPlace, ContainerReader};
use crate::document::{Document, DocumentNames};
use crate::error::XmlError;
use crate::label::{self, Label};
use crate::mapping::MappingKind;
use crate::record::{NodeKind, Record};
use crate::synopsis::{ClassId, StepKind, Synopsis};
use nandu_storage::database::{Around, Tables};

/// Who hears of the nodes of a document.
pub(crate) trait NodeVisitor {
    /// An element begins.
    fn open(&mut self, class: ClassId) -> Result<(), XmlError>;
    /// The same, for who wants its label, too.
    #[inline]
    fn open_at(&mut self, class: ClassId, label: &[u8]) -> Result<(), XmlError> {
        let _ = label;
        self.open(class)
    }
    /// The innermost element ends.
    fn close(&mut self, class: ClassId) -> Result<(), XmlError>;
    /// Another node, or a part of one.
    fn leaf(&mut self, record: &Record<'_>) -> Result<(), XmlError>;
}

/// The elements that are open.
#[derive(Debug, Default)]
struct Walker {
    /// The label of the innermost one.
    label: Vec<u8>,
    open: Vec<(usize, ClassId)>,
    /// Classes of elements that begin with a record.
    missing: Vec<(usize, ClassId)>,
    /// The label of the last record.
    last: Vec<u8>,
    /// Whether the last value goes on.
    goes_on: bool,
    /// Whether the last record says that the innermost element is empty.
    is_empty: bool,
    /// How many of the open elements are not told of.
    base_count: usize,
}

/// Tells `visitor` of all nodes of a document, in order.
///
/// # Errors
/// Whatever it returns; if a page cannot be read; or if a record breaks a rule.
pub(crate) fn walk(
    tables: &Tables,
    document: &Document,
    visitor: &mut impl NodeVisitor,
    mut look: impl FnMut(&[u8], &[u8]) -> Result<(), XmlError>,
) -> Result<(), XmlError> {
    let nodes = DocumentNames::of(document.name()).nodes;
    let mut entries = tables.entries(nodes.as_str())?;
    let mut walker = Walker::default();
    let mut place = ContainerPlace::default();
    while let Some((key, value)) = entries.next_entry()? {
        look(key, value)?;
        let damaged = |what: &str| damaged_in(document, key, what);
        let mut reader =
            ContainerReader::new(document.form(), (key, value), &mut place).map_err(damaged)?;
        while let Some(record) = reader.next_record().map_err(damaged)? {
            walker.take(document, key, &record, visitor)?;
        }
    }
    walker.end(document, visitor)
}

/// Tells `visitor` of a node and all that is in it, in order. False if there is no such node.
///
/// # Errors
/// As [`walk`].
pub(crate) fn walk_in(
    tables: &Tables,
    document: &Document,
    node: &Label,
    visitor: &mut impl NodeVisitor,
) -> Result<bool, XmlError> {
    let nodes = DocumentNames::of(document.name()).nodes;
    let (start, end) = (node.as_bytes(), node.end());
    let mut entries = tables.entries_around(&nodes, Around::keys(start, &end))?;
    let mut walker = None;
    let mut place = ContainerPlace::default();
    'containers: while let Some((key, value)) = entries.next_entry()? {
        let damaged = |what: &str| damaged_in(document, key, what);
        let mut reader =
            ContainerReader::new(document.form(), (key, value), &mut place).map_err(damaged)?;
        while let Some(record) = reader.next_record().map_err(damaged)? {
            if record.label < start {
                continue;
            }
            if record.label >= &end[..] {
                break 'containers;
            }
            if walker.is_none() {
                walker = Some(Walker::in_parent_of(node, document, &record).map_err(damaged)?);
            }
            let walker = walker.as_mut().expect("it was just made");
            walker.take(document, key, &record, visitor)?;
        }
    }
    match walker {
        Some(walker) => walker.end(document, visitor).map(|()| true),
        None => Ok(false),
    }
}

/// Tells `visitor` of nodes by their records: those of some children or attributes of `parent`, with
/// all in them, in order.
///
/// # Errors
/// As [`walk`].
pub(crate) fn walk_records<'r>(
    document: &Document,
    (parent, class): (&Label, ClassId),
    records: impl Iterator<Item = Record<'r>>,
    visitor: &mut impl NodeVisitor,
) -> Result<(), XmlError> {
    let mut walker = Walker::within(parent.as_bytes(), class);
    for record in records {
        walker.take(document, record.label, &record, visitor)?;
    }
    walker.end(document, visitor)
}

fn damaged_in(document: &Document, key: &[u8], what: &str) -> XmlError {
    document.damaged(format!("{what}, in the container of {key:02x?}"))
}

impl Walker {
    /// Inside of the element above a node, of which this is the first record. Says which rule is
    /// broken.
    fn in_parent_of(
        node: &Label,
        document: &Document,
        record: &Record<'_>,
    ) -> Result<Self, &'static str> {
        let mut class = record.class;
        let mut level = label::level(record.label);
        if !matches!(record.kind, NodeKind::Element | NodeKind::Attribute | NodeKind::Namespace) {
            level = level.saturating_sub(1);
        }
        while level >= node.level() && level > 0 {
            let own = document.synopsis().get(class).ok_or("a record has an unknown class")?;
            (class, level) = (own.parent, level - 1);
        }
        Ok(Self::within(label::parent(node.as_bytes()).unwrap_or_default(), class))
    }

    /// Inside of an element of a class, or of the document.
    fn within(element: &[u8], class: ClassId) -> Self {
        let open = if element.is_empty() { Vec::new() } else { vec![(element.len(), class)] };
        Self { label: element.to_vec(), base_count: open.len(), open, ..Self::default() }
    }

    /// Tells of a record, which lies in the container of this key, and of elements that begin and
    /// end before it.
    #[inline]
    fn take(
        &mut self,
        document: &Document,
        key: &[u8],
        record: &Record<'_>,
        visitor: &mut impl NodeVisitor,
    ) -> Result<(), XmlError> {
        let damaged = |what: &str| damaged_in(document, key, what);
        if record.is_continued != self.goes_on {
            return Err(damaged("a part of a value is missing"));
        }
        self.goes_on = record.goes_on;
        if record.is_continued {
            return visitor.leaf(record);
        }
        if record.label <= &self.last[..] {
            return Err(damaged("a record has a label that is out of order"));
        }
        self.last.clear();
        self.last.extend_from_slice(record.label);
        self.close(Some(record.label), visitor)?;
        self.open(document.synopsis(), document.mapping(), record).map_err(damaged)?;
        for &(label_bytes, class) in &self.missing {
            visitor.open_at(class, &record.label[..label_bytes])?;
        }
        if record.kind == NodeKind::Element { Ok(()) } else { visitor.leaf(record) }
    }

    /// Ends what is open.
    fn end(mut self, document: &Document, visitor: &mut impl NodeVisitor) -> Result<(), XmlError> {
        if self.goes_on {
            return Err(document.damaged("the end of its last value is missing"));
        }
        self.close(None, visitor)
    }

    /// Ends the elements that `next` is not below.
    #[inline]
    fn close(
        &mut self,
        next: Option<&[u8]>,
        visitor: &mut impl NodeVisitor,
    ) -> Result<(), XmlError> {
        while self.open.len() > self.base_count {
            let &(label_bytes, class) = self.open.last().expect("one is open");
            if next.is_some_and(|next| label::is_ancestor(&self.label[..label_bytes], next)) {
                break;
            }
            self.open.pop();
            self.is_empty = false;
            visitor.close(class)?;
        }
        Ok(())
    }

    /// Begins the elements that a record is in, and the one that it is; they are left in `missing`.
    /// Says which rule is broken.
    #[inline]
    fn open(
        &mut self,
        synopsis: &Synopsis,
        mapping: MappingKind,
        record: &Record<'_>,
    ) -> Result<(), &'static str> {
        self.missing.clear();
        let (mut at, innermost) = self.open.last().copied().unwrap_or((0, ClassId::DOCUMENT));
        // The class of the element that the record is in.
        let own = synopsis.get(record.class).ok_or("a record has an unknown class")?;
        let (wanted, mut class) = match record.kind {
            NodeKind::Element if own.kind == StepKind::Array => (StepKind::Array, own.parent),
            NodeKind::Element => (StepKind::Element, own.parent),
            NodeKind::Attribute => (StepKind::Attribute, own.parent),
            NodeKind::Namespace => (StepKind::Namespace, own.parent),
            _ => (own.kind, record.class),
        };
        if own.kind != wanted || self.is_empty {
            return Err("a record has a class or a place that does not fit its kind");
        }
        while let Some(end) = label::step_end(record.label, at) {
            at = end;
            if end == record.label.len() {
                break;
            }
            self.missing.push((end, ClassId::DOCUMENT));
        }
        if at != record.label.len() || at == self.open.last().map_or(0, |open| open.0) {
            return Err("a record has a label that is none");
        }
        if mapping.has_elements() && !self.missing.is_empty() {
            return Err("the record of an element is missing");
        }
        for (_, missing) in self.missing.iter_mut().rev() {
            *missing = class;
            class = synopsis.get(class).ok_or("a class leads nowhere")?.parent;
        }
        if class != innermost {
            return Err("a record's path is not that of the element that it is in");
        }
        if record.kind == NodeKind::Element {
            self.missing.push((record.label.len(), record.class));
            self.is_empty = !mapping.has_elements();
        }
        if let Some(&(label_bytes, _)) = self.missing.last() {
            self.label.clear();
            self.label.extend_from_slice(&record.label[..label_bytes]);
            self.open.extend_from_slice(&self.missing);
        }
        Ok(())
    }
}
